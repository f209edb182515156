"""The diffs of docs/extending.md: they apply to this repository as it is, touch few files, and work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DIFFS = ROOT / "docs" / "extending"
FILES = {"pace": 4, "unit": 6, "instruction": 8}
"""How many files of `src` and `native` each may touch, its own included."""

PACE = """
import upbeat as up

body = up.Ode({"T": "(20 - T)/5"}, start={"T": 80.0})
(file := up.Path("growing.toml")).write_text('''
units.body.states = { T = "(20 - T)/5" }
units.bell = { kind = "clock", every = 1.75 }
master.pace = { kind = "growing", first = 0.125, longest = 0.5, factor = 2.0 }
run.until = 3.0
''')
for engine in ENGINES:
    trace = up.load(file, engine=engine).run()
    assert list(trace.time) == [0.0, 0.125, 0.375, 0.875, 1.375, 1.75, 1.875, 2.125, 2.625, 3.0], trace.time
    assert {step.reason for step in trace.steps} == {"growing step", "known event"}
calm = up.simulate(up.Scenario({"body": body}), pace=up.Growing(0.5, 2.0, 2.0), until=5.5)
assert list(calm.time) == [0.0, 0.5, 1.5, 3.5, 5.5], calm.time
"""
UNIT = """
from math import pi, sin

import upbeat as up
from upbeat.scenario.files.reading import read_text, scenario_text

(file := up.Path("chirp.toml")).write_text('''
units.source = { kind = "chirp", f0 = 1.0, rate = 0.5 }
units.plant = { states = { x = "u - x" }, inputs = ["u"] }
connections = { "plant.u" = "source.y" }
master = { step = 0.125, coupling = "iterated" }
run.until = 2.0
''')
for engine in ENGINES:
    trace = up.load(file, engine=engine).run()
    for t, y in zip(trace.time, trace["source.y"], strict=True):
        assert abs(y - sin(2 * pi * (t + 0.25 * t * t))) < 1e-12
scenario = up.Scenario({"source": up.Chirp(1.0, 0.5)})
assert read_text(scenario_text(scenario)).scenario.units == scenario.units
"""
INSTRUCTION = """
import random

from upbeat.core.ports import Kind
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native.lower import lower
from upbeat.extend import Dot
from upbeat.master.dataflow import Flow
from upbeat.master.program import Layout, Program, Register, block_lines

draw = random.Random(1)
values = [draw.uniform(-1, 1) * 10.0 ** draw.randint(-9, 9) for _ in range(2001)]
rows = {"now": 0, "left": 1, "right": 1001}
sizes = (1, 1000, 1000)
registers = [
    Register(name, first, Kind.REAL, size, tuple(values[first : first + size]))
    for (name, first), size in zip(rows.items(), sizes, strict=True)
]
layout = Layout((*registers, Register("to", 2001, Kind.REAL, 1, (0.0,))))
dot = Dot(1000, 1, 1001, 2001)
program = Program(layout, (), {"step": (dot,)}, (), (), 0, 0, {})
expected = 0.0
for k in range(1000):
    expected += values[1 + k] * values[1001 + k]
machines = [Interpreter(program, {}, 0.0)]
if "native" in ENGINES:
    from upbeat.engine.native import machine

    machines.append(machine.machine(program, {}, 0.0))
for each in machines:
    each.execute("step")
    assert each.read(2001) == expected
assert block_lines((dot,), layout) == ["  dot      to := left · right (1000 numbers)"]
effects = Flow(layout, {}).effects(dot)
assert effects.writes == {("cell", 2001)} and len(effects.reads) == 2000
assert [28, 1000, 1, 1001, 2001, 0, 0] in lower(program, {}).code.tolist()
"""
CHECKS = {"pace": PACE, "unit": UNIT, "instruction": INSTRUCTION}


def touched(name: str) -> list[str]:
    """The files that a diff touches."""
    return re.findall(r"^\+\+\+ b/(.+)$", (DIFFS / f"{name}.patch").read_text(), re.MULTILINE)


def patched(name: str, folder: Path) -> None:
    """A copy of the sources with the diff applied."""
    for part in ("src", "native"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("tests"))
    found = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", str(DIFFS / f"{name}.patch")],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
    )  # fmt: skip
    assert found.returncode == 0, (
        f"docs/extending/{name}.patch no longer applies: {found.stderr}Make the change by hand, write it "
        f"down (git diff -U1 -- src native > docs/extending/{name}.patch), and take it back."
    )


def checked(name: str, folder: Path, *engines: str) -> None:
    """Let the check of a diff run on the copy, not on the package that is installed."""
    site = sysconfig.get_paths()["purelib"]
    code = f"import pathlib, upbeat\nupbeat.Path = pathlib.Path\nENGINES = {engines!r}\n{CHECKS[name]}"
    said = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "src"), site])},
    )  # fmt: skip
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("name", FILES)
def test_a_diff_applies_and_touches_few_files(name: str, tmp_path: Path) -> None:
    patched(name, tmp_path)
    files = touched(name)
    assert len(files) <= FILES[name]
    assert all(file.startswith(("src/", "native/")) for file in files)
    assert all((tmp_path / file).exists() for file in files)


@pytest.mark.parametrize("name", ["pace", "unit"])
def test_what_a_diff_adds_works_in_the_core_as_it_is(name: str, tmp_path: Path) -> None:
    patched(name, tmp_path)
    core = find_spec("upbeat._native")
    if core is not None and core.origin is not None:
        shutil.copy(core.origin, tmp_path / "src" / "upbeat")
    checked(name, tmp_path, "interpret", *(["native"] if core is not None else []))


def test_an_instruction_works_in_the_interpreter(tmp_path: Path) -> None:
    patched("instruction", tmp_path)
    checked("instruction", tmp_path, "interpret")


@pytest.mark.slow
def test_an_instruction_works_in_the_core(tmp_path: Path) -> None:
    patched("instruction", tmp_path)
    for file in ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tmp_path)
    built = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    fast = ["-C", "cmake.build-type=Debug", "-C", "cmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0"]
    said = subprocess.run(
        [*built, *fast, "--target", str(tmp_path / "built"), str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, "UPBEAT_NATIVE": "required"},
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    (core,) = (tmp_path / "built" / "upbeat").glob(f"_native*{EXTENSION_SUFFIXES[-1]}")
    shutil.copy(core, tmp_path / "src" / "upbeat")
    checked("instruction", tmp_path, "interpret", "native")
