"""Scenarios as C for embedded targets: built by their own Makefile, run, and compared with our own runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from upbeat.generate import compiling
from upbeat.generate.program import translate

EXAMPLES = Path(__file__).parents[2] / "examples"

try:
    compiling.compiler()
except up.InvalidInput:
    pytest.skip("there is no C compiler", allow_module_level=True)


def built(folder: Path) -> tuple[np.ndarray, str]:
    """Rows of numbers that the program prints, and what it says beside."""
    flags = "CFLAGS=-O0 -Wextra -Wpedantic -Werror"
    made = subprocess.run(["make", "-C", folder, flags], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    program = next(
        file for file in folder.iterdir() if file.is_file() and not file.suffix and file.name != "Makefile"
    )
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]]), done.stderr


@pytest.mark.parametrize(("single", "near"), [(False, 1e-8), (True, 1e-5)])  # nine digits are printed
def test_the_program_prints_the_numbers_of_our_run(tmp_path: Path, single: bool, near: float) -> None:
    made = up.load(EXAMPLES / "coupled_masses.toml")
    done = up.export_c(made, tmp_path / "c", single=single)
    rows, said = built(tmp_path / "c")
    trace = made.run()
    assert np.max(np.abs(rows[:, 1] - trace["stretch"])) < near
    assert f"memory of one instance: {done.memory} bytes" in said


def test_events_are_met_as_here(tmp_path: Path) -> None:
    made = up.load(EXAMPLES / "two_mass" / "lookahead.toml")
    up.export_c(made, tmp_path / "c")
    rows, _ = built(tmp_path / "c")
    header = (tmp_path / "c" / "main.c").read_text()
    column = re.search(r'printf\("(time,[^\\]*)', header)
    assert column is not None
    at = column[1].split(",").index("upper.x")
    trace = up.simulate(made.scenario.monolith("dormand_prince"), step=0.08, until=20.0)
    assert abs(rows[-1, at] - trace["upper.x"][-1]) < 1e-3


def test_there_is_neither_a_heap_nor_a_global(tmp_path: Path) -> None:
    up.export_c(up.load(EXAMPLES / "two_mass" / "lookahead.toml"), tmp_path / "c", name="masses")
    subprocess.run(
        ["make", "-C", tmp_path / "c", "masses.o", "CFLAGS=-O0 -fno-pic"], check=True, capture_output=True
    )
    done = subprocess.run(["nm", tmp_path / "c" / "masses.o"], check=True, capture_output=True, text=True)
    symbols = [line.split() for line in done.stdout.splitlines()]
    asked = {line[-1] for line in symbols if line[-2] == "U"}
    written = {line[-1] for line in symbols if line[-2] in "BbDdC"}
    assert not asked & {"malloc", "calloc", "realloc", "free", "alloca"}
    assert "fabs" in asked or "sqrt" in asked  # so that nm has shown what is asked for
    assert not written


@pytest.mark.parametrize(
    "name", ["main", "model", "double", "real", "int64_t", "printf", "run", "ode1", "1st"]
)
def test_names_that_c_or_the_makefile_have_are_no_trouble(tmp_path: Path, name: str) -> None:
    decay = up.Ode({"x": "-x"}, start={"x": 1.0}, solver="rk4")
    made = up.experiment(up.Scenario({"default": decay}, name=name), step=0.1, until=1.0)
    done = up.export_c(made, tmp_path / "c")
    rows, said = built(tmp_path / "c")
    assert abs(rows[-1, 1] - np.exp(-1.0)) < 1e-6
    assert f"memory of one instance: {done.memory} bytes" in said


@pytest.mark.parametrize("name", ["double", "printf", "a b", "1st", ""])
def test_a_program_cannot_have_the_name_of_something_else(name: str) -> None:
    made = up.experiment(up.Scenario({"u": up.Ode({"x": "-x"})}), step=0.1, until=1.0)
    with pytest.raises(up.InvalidInput, match="choose another name"):
        translate(made.plan, 0.0, name=name)


def test_a_scenario_goes_no_further_than_to_its_end(tmp_path: Path) -> None:
    made = up.load(EXAMPLES / "systems" / "trailer.toml").structures["apart"]
    up.export_c(made, tmp_path / "c")
    rows, _ = built(tmp_path / "c")
    assert abs(rows[-1, 0] - 8.0) < 1e-5  # car and trailer meet, and are another structure from then on


def test_events_of_the_scenario_are_functions(tmp_path: Path) -> None:
    up.export_c(up.load(EXAMPLES / "traffic_light.toml"), tmp_path / "c")
    rows, _ = built(tmp_path / "c")
    lamp = rows[:, [0, 2]]  # the time, and how often the lamp has changed
    assert [int(lamp[lamp[:, 0] <= t, 1][-1]) for t in (59, 62, 359, 362, 659, 700)] == [0, 1, 1, 2, 2, 3]


def test_events_are_met_in_single_precision(tmp_path: Path) -> None:
    """Where the tolerance of events, here 2e-8, is less than single precision can tell."""
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 10.0})
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.5*ball.v"}}
    scenario = up.Scenario({"ball": ball}, events={"bounce": bounce}, outputs={"x": "ball.x"})
    up.export_c(up.experiment(scenario, pace=up.LookAhead(0.002), until=3.75), tmp_path / "c", single=True)
    rows, _ = built(tmp_path / "c")
    fall = np.sqrt(
        20.0 / 9.81
    )  # and so long is the flight after the first bounce; the next takes half of that
    since = 3.75 - 2.5 * fall
    assert rows[-1, 0] == pytest.approx(3.75)
    assert abs(rows[-1, 1] - (0.125 * 9.81 * fall * since - 0.5 * 9.81 * since**2)) < 1e-3


def test_error_control_keeps_the_tolerance_of_a_run(tmp_path: Path) -> None:
    mass = up.Ode({"x": "v", "v": "F - x"}, inputs=["F"], start={"x": 1.0}, outputs=["x", "v"])
    damper = up.Function(inputs=["v"], outputs={"F": "-0.5*v"})
    scenario = up.Scenario(
        {"mass": mass, "damper": damper},
        {"mass.F": "damper.F", "damper.v": "mass.v"},
        outputs={"x": "mass.x"},
    )
    made = up.experiment(scenario, pace=up.ErrorControl(0.01, longest=0.5), until=3.0)
    up.export_c(made, tmp_path / "c")
    rows, _ = built(tmp_path / "c")
    w = np.sqrt(15.0) / 4.0
    exact = np.exp(-rows[:, 0] / 4.0) * (np.cos(w * rows[:, 0]) + np.sin(w * rows[:, 0]) / (4.0 * w))
    assert np.max(np.abs(rows[:, 1] - exact)) < 0.02


def test_without_a_compiler_it_says_who_tells_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    done = up.export_c(up.load(EXAMPLES / "tank.toml"), tmp_path / "c")
    assert done.memory is None
    assert any("the program prints it" in note for note in done.notes)


def test_the_last_step_of_the_program_is_the_rest(tmp_path: Path) -> None:
    """x' = -y and y' = x, each by Euler's rule with the other held, for 0.1, 0.1 and 0.05."""
    one = up.Ode({"x": "s*u"}, inputs={"u": 0.0}, parameters={"s": 1.0}, outputs=["x"], solver="euler")
    scenario = up.Scenario(
        {"a": one.with_values({"s": -1.0, "x": 1.0}), "b": one},
        {"a.u": "b.x", "b.u": "a.x"},
        outputs={"x": "a.x"},
    )
    up.export_c(up.experiment(scenario, step=0.1, until=0.25), tmp_path / "c")
    rows, _ = built(tmp_path / "c")
    turn = complex(1.0, 0.1)
    assert rows[:, 0] == pytest.approx([0.0, 0.1, 0.2, 0.25])
    assert rows[:, 1] == pytest.approx(
        [1.0, turn.real, (turn**2).real, (turn**2 * complex(1.0, 0.05)).real], abs=1e-8
    )
