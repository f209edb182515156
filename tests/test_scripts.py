"""Scripts that repeat experiments and measure: with `--json`, standard output is one object alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    path
    for folder in ("benchmarks", "reproduce", "tools")
    for path in (ROOT / folder).glob("*.py")
    if '"--json"' in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_people_read_goes_elsewhere(script: Path) -> None:
    """Most take minutes, so their text is looked at: nothing is printed before the tables are sent away."""
    text = script.read_text(encoding="utf-8")
    before, after = re.split(r"options = \w+\.parse_args\(.*\)\n", text.partition("def main(")[2])
    assert "print(" not in before
    table, _, shown = after.partition("if options.json:")
    if "return" in shown.splitlines()[2] and "print(" not in table:
        return  # there is no table at all
    assert after.startswith("    if options.json:\n        sys.stdout = sys.stderr")
    assert len(re.findall(r"file=sys\.__stdout__", after)) == 1


SMALL = {
    "anatomy": ("--times", "2"),
    "fmu_life": ("--cycles", "4", "--units", "2"),
    "fmu_ring": ("--steps", "200", "--repeats", "1"),
    "generated": ("--scale", "0.01", "--repeats", "1"),
    "isolation": ("--calls", "50", "--rounds", "1"),
    "lookahead": ("--seconds", "0.01", "--repeats", "1", "--most", "10"),
    "monitor": ("--seconds", "0.01", "--repeats", "1", "--most", "8"),
    "adaptation": ("--steps", "200", "--rounds", "1"),
    "nesting": ("--steps", "200", "--rounds", "1"),
    "overhead": ("--scale", "0.01", "--repeats", "1"),
    "parallel": ("--steps", "20"),
    "properties": ("--rows", "2000", "--steps", "200"),
}
"""Options with which benchmarks take seconds: what they measure then means nothing, but they run.

Not among them: discrete.py needs SimPy, and the others know no smaller size."""


SLOW = {"fmu_life", "generated", "isolation", "overhead", "parallel"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SMALL]
)
def test_a_benchmark_still_runs(name: str) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--json", *SMALL[name]]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr  # 1: a goal was not reached
    assert json.loads(done.stdout)


def test_events_of_systems_that_people_recognise_are_right() -> None:
    """The examples of examples/systems, beside closed forms and SciPy."""
    command = [sys.executable, str(ROOT / "reproduce" / "structures.py"), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["known_misses"] == []
    assert len(found["examples"]) == 8
    limits = {"two_tanks": 5e-3, "trailer": 2e-3, "oven": 1e-3, "stick_slip": 3e-4}
    for one in found["examples"]:
        auto = one["methods"]["auto"]
        assert (auto["right"], auto["extra"]) == (one["events"], 0)
        assert auto["error"] < limits.get(one["name"], 1e-5)
    wrong = [one["name"] for one in found["examples"] if one["methods"]["fixed"]["missing"]]
    assert wrong == ["stick_slip", "cradle", "oven", "two_tanks"]


def test_the_object_is_alone() -> None:
    command = [sys.executable, str(ROOT / "reproduce" / "no_delay.py"), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["delay_steps"] == {"sv": 1, "ev": 1, "refined": 0}
    assert found["ok"] is True
    assert "delay in communication steps" in done.stderr
