"""Every file in examples/ runs and gives the output that lies beside it; physics is judged by SciPy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import upbeat as up
from upbeat.cli.main import main

EXAMPLES = Path(__file__).parents[1] / "examples"
SCENARIOS = sorted(EXAMPLES.rglob("*.toml"))
SCRIPTS = sorted(
    path for path in EXAMPLES.rglob("*.py") if path.parent.name != "parts"
)  # which others import


def said_by(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    if path.suffix == ".py":
        return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True).stdout
    signals = path.with_suffix(".csv")
    assert main(["run", str(path), *(["--input", str(signals)] if signals.exists() else [])]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("path", SCENARIOS + SCRIPTS, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_prints_what_lies_beside_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # how long it took and which engine there was differ from machine to machine
    said = re.sub(r", [\d.]+ m?s\.$|^Engine .*\n", "", said_by(path, capsys), flags=re.MULTILINE)
    assert said == path.with_suffix(".out").read_text()


def test_the_demo_leaves_results_and_its_picture(tmp_path: Path) -> None:
    """`make demo` is this script; README shows what it prints, and the picture that it draws."""
    pytest.importorskip("matplotlib")
    script = EXAMPLES / "two_mass/compare.py"
    words = [sys.executable, str(script), "--out", str(tmp_path / "demo")]
    subprocess.run(words, check=True, capture_output=True)
    left = {path.name for path in (tmp_path / "demo").iterdir()}
    names = ["two_mass_fixed", "two_mass_lookahead"]
    assert left == {
        "two_mass.png",
        *(f"{n}{end}" for n in names for end in (".csv", ".events.csv", ".columns.json")),
    }
    events = up.read(tmp_path / "demo/two_mass_lookahead.csv").events
    assert "".join(event.name[0] for event in events) == "mmmcmmcmmmmm"
    root = EXAMPLES.parent
    assert script.with_suffix(".out").read_text() in (root / "README.md").read_text()
    for picture in (tmp_path / "demo/two_mass.png", root / "docs/two_mass.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_coupled_masses_follow_the_monolithic_solution() -> None:
    def f(t: float, s: np.ndarray) -> list[float]:
        x1, v1, x2, v2 = s
        force = (x2 - x1) + (v2 - v1)
        return [v1, force - x1 - v1, v2, -x2 - force]

    trace = up.load(EXAMPLES / "coupled_masses.toml", step=0.01).run()
    exact = solve_ivp(f, (0, 10), [1, 0, 0, 0], rtol=1e-10, atol=1e-12, t_eval=trace.time).y
    for name, row in zip(("left.x", "left.v", "right.x", "right.v"), exact, strict=True):
        np.testing.assert_allclose(trace[name], row, atol=2e-4)


def test_the_tanks_keep_their_water() -> None:
    trace = up.load(EXAMPLES / "tank.toml", step=1.0).run()
    inflow, drained = trace["pump.flow"] / 60000, trace["drained"] / 60000
    gained = np.concatenate([[0], np.cumsum((inflow - drained)[:-1] * np.diff(trace.time))])
    np.testing.assert_allclose(trace["water"] - trace["water"][0], gained, atol=2e-3)
    assert 0.9 < trace["upper.level"][-1] < 1.3, "kept near the levels at which the pump is switched"


def test_the_cart_follows_the_signals() -> None:
    plan = up.load(EXAMPLES / "driven.toml", step=0.002)
    trace = plan.with_(signals=up.read_signals(EXAMPLES / "driven.csv", plan.scenario)).run()
    rows = [line.split(",") for line in (EXAMPLES / "driven.csv").read_text().splitlines()[1:]]
    times, forces = [float(r[0]) for r in rows], [float(r[1]) for r in rows]
    braking = [r[2] == "true" for r in rows]

    def f(t: float, s: np.ndarray) -> list[float]:
        brake = braking[np.searchsorted(times, t, side="right") - 1] and s[1] > 0
        return [s[1], (np.interp(t, times, forces) - (0.5 + 8 * brake) * s[1]) / 2.0]

    exact = solve_ivp(f, (0, 10), [0, 0], rtol=1e-8, atol=1e-10, max_step=0.01, t_eval=trace.time).y
    np.testing.assert_allclose(trace["cart.x"], exact[0], atol=2e-2)
    np.testing.assert_allclose(trace["cart.v"], exact[1], atol=2e-2)


def test_the_traffic_light_turns_green_three_times() -> None:
    trace = up.load(EXAMPLES / "traffic_light.toml").run()
    assert trace.one_sided().time.tolist() == [0, 60, 100, 300, 360, 400, 600, 660, 700]
    assert trace.events.of("lamp") == [(60.0, 1, "green"), (360.0, 1, "green"), (660.0, 1, "green")]


def test_the_hybrid_thermostat_switches_when_it_should() -> None:
    # Between switches the temperature is an exponential, so the times follow from logarithms.
    trace = up.load(EXAMPLES / "thermostat_hybrid.toml", step=1.0).run()
    outside, tau, gain, low, high, pause = 5.0, 7200.0, 0.005, 19.0, 22.0, 1800.0
    t, temperature, expected = 0.0, 17.0, [(0.0, "on")]
    while True:
        limit = outside + gain * tau
        t += tau * np.log((limit - temperature) / (limit - high))
        expected.append((t, "off"))
        cooled = tau * np.log((high - outside) / (low - outside))
        wait = max(pause, cooled)
        t, temperature = t + wait, outside + (high - outside) * np.exp(-wait / tau)
        expected.append((t, "on"))
        if t > 14400:
            break
    found = [(e.time, e.value) for e in trace.events["controller.switched"]]
    expected = [pair for pair in expected if pair[0] < 14400]
    assert [value for _, value in found] == [value for _, value in expected]
    # each look at the temperature comes up to one step late, and the delays add up
    np.testing.assert_allclose([t for t, _ in found], [t for t, _ in expected], atol=12.0)


def test_two_masses_hit_each_other_when_they_should() -> None:
    # From a matrix exponential and root finding: M for the masses, C for the ceiling.
    trace = up.load(EXAMPLES / "two_mass/lookahead.toml").run()
    assert "".join(event.name[0] for event in trace.events) == "mmmcmmcmmmmm"
    assert trace.events.times("ceiling") == pytest.approx([4.900693539, 8.901088520], abs=1e-4)
    final = [trace[f"{unit}.{name}"][-1] for unit in ("upper", "lower") for name in "xv"]
    assert final == pytest.approx([-4.7386992178, -6.1910093321, -8.4101013762, -4.7064241512], abs=1e-3)
    lost = up.load(EXAMPLES / "two_mass/fixed.toml").run()
    assert len(lost.events) != 12
