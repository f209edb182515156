"""FMUs that behave like those of some vendors: what they lose, what they insist on, what they say."""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import fmpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import upbeat as up
from upbeat._native import nominal
from upbeat.cli.main import main

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


def alone(model: up.Fmu, engine: str, **more: object) -> up.Trace:
    options = {"pace": 0.1, "until": 1.0, "engine": engine} | more
    return up.simulate(up.Scenario(units={"one": model}), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
def test_parameters_survive_an_experiment_that_resets_them(fmu: Made, engine: str, interface: str) -> None:
    """As of 20-sim: fmi2SetupExperiment resets all values. FMPy is the judge."""
    path = fmu("resets", 2)
    model = up.Fmu(path, interface=interface, parameters={"x": 3.0, "u": 2.0})
    trace = alone(model, engine)
    theirs = fmpy.simulate_fmu(
        str(path),
        stop_time=1.0,
        output_interval=0.1,
        start_values={"x": 3.0, "u": 2.0},
        fmi_type="CoSimulation" if interface == "co-simulation" else "ModelExchange",
        relative_tolerance=1e-9,
    )
    np.testing.assert_allclose(trace["one.y"], theirs["y"], rtol=1e-6)
    np.testing.assert_allclose(trace["one.y"], 2 + np.exp(-np.asarray(trace.time)), rtol=1e-6)


@BOTH
def test_a_value_that_does_not_take_is_told_by_name(
    fmu: Made, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "upbeat.fmu")
    alone(up.Fmu(fmu("stubborn", version), parameters={"at": 0.75, "x": 2.0}), engine)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "'at' was set to 0.75, but the FMU has 0.5: the value did not take"


@BOTH
def test_values_that_take_are_not_talked_about(
    fmu: Made, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All types, arrays and structural parameters included."""
    caplog.set_level(logging.WARNING, "upbeat.fmu")
    values: dict[str, object] = {"float64_in": 0.1, "int32_in": -3, "boolean_in": True, "string_in": "é"}
    if version == 3:
        values |= {"float32_in": 0.1, "uint64_in": 7, "binary_in": "00Ff", "int8_in": -8}
    alone(up.Fmu(fmu("types", version), parameters=values | {"enumeration_in": "fast"}), engine)
    if version == 3:
        sizes = {"n": 3, "A": [0.0] * 9, "x": [1.0, 2.0, 3.0], "B": [0.0] * 3, "C": [1.0] * 3}
        alone(up.Fmu(fmu("space", 3), parameters=sizes), engine)
    assert not caplog.records


@BOTH
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_the_stop_time_is_passed(fmu: Made, version: int, engine: str, isolation: str) -> None:
    """As of FMUs that die at the stop time of their default experiment."""
    model = up.Fmu(fmu("expires", version), isolation=isolation)  # type: ignore[arg-type]
    assert len(alone(model, engine).time) == 11
    inner = up.Scenario(units={"one": model}, outputs={"y": "one.y"})
    for flatten in (True, False):
        nest = up.Nested(inner, up.Master(up.Fixed(0.05)), flatten=flatten)
        trace = up.simulate(up.Scenario(units={"nest": nest}), pace=0.1, until=1.5, engine=engine)
        assert trace.time[-1] == 1.5


@BOTH
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_what_an_fmu_says_is_quoted(fmu: Made, version: int, engine: str, isolation: str) -> None:
    """Also if it calls it harmless."""
    model = up.Fmu(fmu("mumbling", version), isolation=isolation)  # type: ignore[arg-type]
    with pytest.raises(up.UnitError) as caught:
        alone(model, engine)
    assert 'its last message was "' in str(caught.value)
    assert 'refused: 13 variables are there"' in str(caught.value)


@BOTH
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_what_is_shown_at_the_start_is_what_the_fmu_shows_after_initialization(
    fmu: Made, version: int, engine: str, isolation: str
) -> None:
    """As of AMESim, Dymola and 20-sim; the first row, and the first inputs of others. FMPy is the judge."""
    path = fmu("unready", version)
    unit = up.Fmu(path, isolation=isolation)  # type: ignore[arg-type]
    after = up.Ode(states={"q": "u"}, inputs=["u"], outputs={"q": "q", "seen": "u"})
    scenario = up.Scenario(units={"one": unit, "two": after}, connections={"two.u": "one.y"})
    options = {"pace": 0.1, "until": 1.0, "engine": engine}
    trace = up.simulate(scenario, **options)  # type: ignore[arg-type]
    theirs = fmpy.simulate_fmu(str(path), stop_time=1.0, output_interval=0.1)
    np.testing.assert_allclose(trace["one.y"], theirs["y"], rtol=1e-12)
    np.testing.assert_array_equal(trace["two.seen"], trace["one.y"])
    held = np.concatenate([[0.0], np.cumsum(0.1 * np.asarray(trace["one.y"])[:-1])])
    np.testing.assert_allclose(trace["two.q"], held, rtol=1e-9, atol=1e-12)


@BOTH
@pytest.mark.parametrize("start", [0.0, 0.3, 17.0])
def test_steps_of_the_grid_have_its_length_to_the_last_bit(
    fmu: Made, version: int, engine: str, start: float
) -> None:
    """As of FMUs with fixed steps inside, which refuse 0.09999999999999998."""
    model = up.Fmu(fmu("precise", version))
    trace = alone(model, engine, start=start, until=start + 10.0)
    assert len(trace.time) == 101
    other = up.Ode(states={"x": "-x"}, outputs=["x"])
    several = up.Scenario(units={"one": model, "fast": other})
    coupling = up.MultiRate({"one": 2, "fast": 5})
    trace = up.simulate(several, pace=0.2, until=5.0, coupling=coupling, engine=engine)  # type: ignore[arg-type]
    assert trace.time[-1] == 5.0


@given(st.floats(-1e3, 1e3), st.floats(1e-4, 10.0), st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_nominal_lengths(start: float, grid: float, k: int, n: int, parts: bool) -> None:
    """Multiples and whole parts of the grid are found; every other length stays the difference."""
    length = grid / n if parts else grid * n
    t, to = start + k * length, start + (k + 1) * length
    assert nominal(t, to, grid) == length
    off = t + length * 1.01
    if parts or n < 40:
        assert nominal(t, off, grid) in (off - t, grid * round((off - t) / grid))
    assert nominal(t, to, 0.0) == to - t


@BOTH
@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_an_fmu_that_asks_for_the_end_ends_the_run_with_success(
    fmu: Made, version: int, engine: str, isolation: str, interface: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The last row has its last values; FMPy is the judge."""
    path = fmu("stop", version)
    unit = up.Fmu(path, isolation=isolation, interface=interface)  # type: ignore[arg-type]
    trace = alone(unit, engine)
    if interface == "model-exchange":  # it asks in steps only, of which there are none
        assert trace.time[-1] == 1.0
        return
    assert trace.outcome.ok
    assert trace.outcome is not up.Outcome.FINISHED
    end = 0.5 if version == 2 else 0.6  # FMI 2: it does nothing of the step that it does not want
    assert trace.time[-1] == pytest.approx(end)
    theirs = fmpy.simulate_fmu(str(path), stop_time=1.0, output_interval=0.1)
    assert trace["one.y"][-1] == pytest.approx(theirs["y"][-1], rel=1e-12)
    assert theirs["time"][-1] == pytest.approx(end)
    said = (
        f"the run ended at t = {end}, before its stop time 1: unit 'one': the FMU asked to end the simulation"
    )
    assert any(said in record.getMessage() for record in caplog.records)
    assert any(said in note for note in trace.notes)


@BOTH
def test_the_end_in_a_nest_and_by_hand(fmu: Made, version: int, engine: str) -> None:
    model = up.Fmu(fmu("stop", version))
    inner = up.Scenario(units={"one": model}, outputs={"y": "one.y"})
    for flatten in (True, False):
        nest = up.Nested(inner, up.Master(up.Fixed(0.1)), flatten=flatten)
        plan = up.experiment(up.Scenario(units={"nest": nest}), pace=0.1, until=1.0, engine=engine)  # type: ignore[arg-type]
        with plan.open() as run:
            while not run.finished:
                run.step()
            with pytest.raises(up.StepError, match=r"before its stop time 1: unit 'nest\.one'"):
                run.step()
        assert run.trace.time[-1] == pytest.approx(0.5 if version == 2 else 0.6)


def edited(source: Path, to: Path, *changes: tuple[str, str]) -> Path:
    """The FMU with another description."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(to, "w") as copy:
        for entry in archive.infolist():
            data = archive.read(entry)
            if entry.filename == "modelDescription.xml":
                text = data.decode()
                for before, after in changes:
                    text, count = re.subn(before, after, text)
                    assert count, before
                data = text.encode()
            copy.writestr(entry, data)
    return to


VIOLATIONS = {
    "constant": (r'(name="b"[^>]*)variability="tunable"', r'\1variability="constant"'),
    "initial": (r'(name="b"[^>]*)initial="exact"', r'\1initial="calculated"'),
    "no start": (r'(name="b"[^/]*?) start="1.0"', r"\1"),
}


@BOTH
@pytest.mark.parametrize("kind", VIOLATIONS)
def test_small_violations_run_with_a_warning_and_check_refuses_them(
    fmu: Made,
    version: int,
    engine: str,
    kind: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """FMPy runs them without validation, to the same numbers."""
    change = VIOLATIONS[kind]
    if kind == "no start" and version == 2:
        change = (r'(name="b"[^>]*><Real) start="1.0"', r"\1")
    path = edited(fmu("linear", version), tmp_path / "linear.fmu", change)
    caplog.set_level(logging.WARNING, "upbeat.fmu")
    trace = alone(up.Fmu(path, parameters={"u": 1.0}), engine)
    theirs = fmpy.simulate_fmu(
        str(path), stop_time=1.0, output_interval=0.1, start_values={"u": 1.0}, validate=False
    )
    np.testing.assert_allclose(trace["one.y"], theirs["y"], rtol=1e-12)
    (said,) = [record.getMessage() for record in caplog.records]
    assert re.match(r"against the standard, but it runs: modelDescription\.xml, line \d+: .*'b'", said)
    assert main(["check", str(path)]) == 3
    assert re.search(r"line \d+: .*'b'", capsys.readouterr().err)


def test_violations_that_make_it_unusable_are_errors(fmu: Made, tmp_path: Path) -> None:
    path = edited(fmu("linear", 2), tmp_path / "linear.fmu", (r'<Real start="-2.0"', '<Real start="two"'))
    with pytest.raises(up.ModelError, match="'two' is not a number"):
        up.Fmu(path)


def test_a_boolean_structural_parameter(fmu: Made, engine: str, tmp_path: Path) -> None:
    """Legal in FMI 3: only those that give the sizes of arrays are whole numbers."""
    extra = '<Boolean name="big" valueReference="60" causality="structuralParameter" start="false"/>'
    path = edited(fmu("space", 3), tmp_path / "space.fmu", ("<ModelVariables>", f"<ModelVariables>{extra}"))
    trace = alone(up.Fmu(path, parameters={"n": 2}), engine)
    assert trace["one.y"][-1] == pytest.approx(np.exp(-1.0), rel=1e-6)
    assert up.Fmu(path).with_values({"big": True}).starts == (("big", (True,)),)


def test_entries_of_one_name_and_one_content_are_one(fmu: Made, engine: str, tmp_path: Path) -> None:
    source = fmu("linear", 2)
    path = tmp_path / "twice.fmu"
    path.write_bytes(source.read_bytes())
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("modelDescription.xml", archive.read("modelDescription.xml"))
    np.testing.assert_array_equal(
        alone(up.Fmu(path), engine)["one.y"], alone(up.Fmu(source), engine)["one.y"]
    )
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("modelDescription.xml", b"something else")
    with pytest.raises(up.FileProblem, match="with other contents"):
        up.Fmu(path)


@BOTH
def test_an_fmu_without_outputs_shows_its_local_variables(
    fmu: Made, version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [('name="y"([^>]*)causality="output"', r'name="y"\1causality="local"')]
    changes += [("<Outputs>.*</Outputs>", "")] if version == 2 else [("<Output [^>]*/>", "")]
    path = edited(fmu("linear", version), tmp_path / "linear.fmu", *changes)
    out = tmp_path / "r.csv"
    assert main(["run", str(path), "--until", "1", "--step", "0.1", "--out", str(out)]) == 0
    assert "linear has no outputs: its local variables are recorded" in "".join(capsys.readouterr())
    assert set(up.read(out).names) >= {"linear.x", "linear.y"}


@BOTH
def test_input_files_of_vendors(fmu: Made, version: int, engine: str, tmp_path: Path) -> None:
    """Inputs by their own names, jumps as two rows of one time, whole numbers held. FMPy is the judge."""
    path, table, out = fmu("relay", version), tmp_path / "in.csv", tmp_path / "r.csv"
    rows = [(0.0, 0.0, 1), (0.25, 0.4, 1), (0.25, 0.9, 1), (0.5, 0.9, 0), (0.75, 0.1, 1), (1.0, 0.1, 1)]
    table.write_text("time,u,enabled\n" + "".join(f"{t},{u},{e}\n" for t, u, e in rows))
    options = ["--until", "1", "--step", "0.05", "--input", str(table), "--out", str(out)]
    assert main(["run", str(path), "--engine", engine, *options]) == 0
    trace = up.read(out)
    unit = f"relay{version}"
    u = np.asarray(trace[f"{unit}.z"]) + 0.5  # z is the input less the level
    time = np.asarray(trace.time)
    expected = np.interp(time, [0, 0.25, 0.25, 0.5, 0.75, 1.0], [0, 0.4, 0.9, 0.9, 0.1, 0.1])
    expected[time == 0.25] = 0.9
    np.testing.assert_allclose(u, expected, atol=1e-9)
