"""The public names: the same at run time, for type checkers, and in the documentation."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import upbeat as up
from upbeat import extend
from upbeat.cli.main import parser
from upbeat.core.errors import RENAMED
from upbeat.engine.settings import _PLACES as PLACES
from upbeat.master.paces.pace import nominal_step
from upbeat.master.settings import APPROXIMATIONS, COUPLINGS, LOOPS, PACES
from upbeat.units.solving.solvers import METHODS

ROOT = Path(__file__).parents[1]


def stub_names() -> dict[str, str]:
    """Public name → module, as `__init__.pyi` says."""
    tree = ast.parse((ROOT / "src/upbeat/__init__.pyi").read_text())
    return {
        alias.asname or alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def snake(name: str) -> str:
    """``GaussSeidel`` → ``gauss_seidel``."""
    return re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", name).lower()


def command(name: str) -> argparse.ArgumentParser:
    """The parser of a command, with all its options."""
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[name]
    found.parse_known_args(["file"])
    return found


def test_the_stub_and_the_module_offer_the_same_names() -> None:
    assert sorted(stub_names()) == sorted(up.__all__)
    for name, module in stub_names().items():
        __import__(module)
        assert getattr(up, name) is getattr(sys.modules[module], name)


def test_every_name_is_documented() -> None:
    """With its signature, readable as it is; the built site adds the docstrings."""
    api = runpy.run_path(str(ROOT / "tools/python_api.py"))
    page = (ROOT / "docs/python-api.md").read_text()
    shown = re.findall(r"^\* `([^`]+)`:", page, re.M)
    wanted = [api["signature"](name, getattr(up, name)) for name in up.__all__]
    assert sorted(shown) == sorted(wanted), "make python-api"


def test_what_is_told_of_objects_exists() -> None:
    api = runpy.run_path(str(ROOT / "tools/python_api.py"))
    trace = up.simulate(up.Scenario({"a": up.Ode({"x": "-x"})}), pace=0.5, until=1.0)
    for name, members in api["MEMBERS"].items():
        told = trace if name == "Trace" else getattr(up, name)
        known = {*dir(told), *getattr(told, "__annotations__", {})}
        assert [one for one in members.split() if one not in known] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(up, "Simulate")
    assert "simulate" in dir(up)


def test_importing_upbeat_loads_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "pandas", "matplotlib", "numba", "llvmlite", "pint", "pyarrow"}
    script = f"import sys, upbeat; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    script = (
        f"import sys, upbeat; upbeat.simulate; upbeat.Ode; print({heavy - {'numpy'}!r} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_kind_in_a_file_is_the_name_in_python() -> None:
    kinds = {**COUPLINGS, **LOOPS, **PACES, **APPROXIMATIONS, **METHODS}
    assert {kind: snake(made.__name__) for kind, made in kinds.items()} == {kind: kind for kind in kinds}


def test_a_setting_has_one_name_in_python_files_and_options() -> None:
    """`step` and `pace` are one setting; signals, checkpoints, force and values are no matter of the file."""
    options = {action.dest for action in command("run")._actions}
    settings = {"step", *up.Settings.__annotations__}
    assert settings - {
        "pace",
        "coupling",
        "inputs",
        "ports",
        "simultaneous",
        "start",
        "restart",
    } <= options | {
        "signals"  # --input, a file of them
    }
    names = {name: key for name, (_, key) in PLACES.items()}
    assert settings - names.keys() == {"signals", "checkpoint", "force"}
    assert {name for name, key in names.items() if name != key} == {"late", "record"}  # parts of other tables


MASSES = Path(__file__).parents[1] / "examples" / "coupled_masses.toml"


def test_a_command_loads_no_other_one(tmp_path: Path) -> None:
    """`upbeat --help` loads none, and what a command does not need stays away."""
    script = "import sys; from upbeat.cli.main import main\ntry: main({words!r})\nexcept SystemExit: pass\n"
    script += "print(*sys.modules, file=sys.stderr)"
    for words, absent in (
        (["--help"], {"numpy", "upbeat.engine", "upbeat.cli.run"}),
        (["plot", "--help"], {"upbeat.engine", "upbeat.scenario", "upbeat.cli.run", "matplotlib"}),
        (["run", "--help"], {"upbeat.stability", "upbeat.cli.stability", "matplotlib"}),
        (
            ["run", str(MASSES), "--out", str(tmp_path / "r.csv"), "--quiet"],
            {"upbeat.units.fmi", "upbeat.scenario.ssp", "upbeat.stability", "importlib.metadata", "pint"},
        ),
    ):
        code = script.format(words=words)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert not absent & set(done.stderr.split()), words


MADE: dict[str, Callable[..., Any]] = {
    "Constrained": lambda **named: up.Constrained({"u": "a.x - b.y"}, **named),
    "Revised": lambda **named: up.Revised(1.0, **named),
}


@pytest.mark.parametrize("name", ["changed", "anew"])
def test_a_pace_hears_of_changes_by_hand(name: str) -> None:
    """By its method `changed`, or by the old name of that: its next step is short then."""

    class Wary:
        def begin(self, span: Any) -> Any:
            return (1.0,)

        def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
            return extend.Proposal(min(t + state[0], limit), "wary"), (1.0,)

    setattr(Wary, name, lambda self, state, t, fired, read: (0.25,))
    valve = up.Ode({"x": "u"}, inputs={"u": 0.0})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = up.experiment(up.Scenario({"valve": valve}), pace=cast(Any, Wary()), until=4.0)
        with made.open() as run:
            assert [run.step(), run.step()] == [1.0, 2.0]
            run.set("valve.u", 1.0)
            trace = run.finish()
    assert trace.time.tolist() == [0.0, 1.0, 2.0, 2.25, 3.25, 4.0]
    told = [str(one.message) for one in caught if one.category is FutureWarning]
    assert told == ([] if name == "changed" else ["Wary: the method 'anew' is now called 'changed'"])


@pytest.mark.parametrize("owner", [name for name in RENAMED if name[0].isupper()])
def test_old_settings_still_work_and_the_warning_names_the_new_one(owner: str) -> None:
    make = MADE.get(owner, getattr(up, owner))
    for old, new in RENAMED[owner].items():
        with pytest.warns(FutureWarning, match=f"{owner}: '{old}' is now called '{new}'"):
            made = make(**{old: 7})
        assert made == make(**{new: 7})


def test_old_settings_in_files_and_old_names_still_work(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    text = """
[units.left]
states.x = "-x + 0*u"
inputs = ["u"]
solver = { kind = "dormand_prince", %s = 77 }
[connections]
"left.u" = "left.x"
[master]
step = 0.1
coupling = { kind = "jacobi", loops = { kind = "newton", %s = 9 } }
simultaneous = { %s = 99 }
[run]
until = 1.0
"""
    path.write_text(text % ("max_steps", "max_iterations", "max_iterations"))
    new = up.load(path)
    path.write_text(text % ("most", "most", "most"))
    with pytest.warns(FutureWarning, match="is now called"):
        old = up.load(path)
    assert old.master == new.master
    assert old.scenario == new.scenario
    with pytest.warns(FutureWarning, match="Course"):
        assert getattr(extend, "Course") is extend.Trajectory  # noqa: B009


def test_a_pace_with_the_old_property_is_asked_for_its_step() -> None:
    class Mine:
        usual = 0.25

        def propose(self, *_: Any) -> Any: ...

    with pytest.warns(FutureWarning, match="'usual' is now called 'nominal_step'"):
        assert nominal_step(cast(Any, Mine())) == 0.25


@pytest.mark.parametrize("owner", [name for name in RENAMED if name[0].isupper()])
def test_an_old_and_a_new_name_at_once_are_refused(owner: str) -> None:
    make = MADE.get(owner, getattr(up, owner))
    for old, new in RENAMED[owner].items():
        with pytest.raises(up.InvalidInput, match=f"{owner}: '{old}' is the old name of '{new}', and both"):
            make(**{old: 5, new: 7})


def test_so_they_are_in_files(tmp_path: Path) -> None:
    path = tmp_path / "both.toml"
    both = "most = 5, max_iterations = 7"
    for master in ('coupling = { kind = "iterated", %s }', "simultaneous = { %s }"):
        path.write_text(f'[units.m]\nstates.x = "-x"\n[master]\nstep = 0.1\n{master % both}\n')
        with pytest.raises(up.ScenarioError, match="'most' is the old name of 'max_iterations', and both"):
            up.load(path, until=1.0)
