"""Conditions that are found while a run goes on: used once they have proved themselves, and given up."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.cli.main import main


class Triangle:
    """Goes up and down between 0 and 1, each time at another speed; from a time on up to 1.5."""

    wider = math.inf
    last: Triangle

    def __init__(self, name: str, start: float, parameters: Any) -> None:
        self.x, self.slope, self.turns = 0.3, 1.0, [start]
        Triangle.last = self

    def get(self, port: str) -> float:
        return self.x

    def advance(self, t: float, to: float, early: bool) -> float:
        while t < to:
            limit = (1.5 if t >= self.wider else 1.0) if self.slope > 0 else 0.0
            step = min(to - t, max((limit - self.x) / self.slope, 0.0))
            self.x += self.slope * step
            t += step
            if t < to:
                self.turns.append(t)
                speed = 1.0 + 0.5 * math.sin(len(self.turns) ** 2)
                self.x, self.slope = limit, -math.copysign(speed, self.slope)
        return to


class Later(Triangle):
    wider = 13.0


def box(kind: type) -> up.Scenario:
    return up.Scenario({"box": up.PythonUnit(kind, outputs={"x": {"depends": []}})})


def test_a_condition_that_has_foretold_two_events_is_used() -> None:
    found = up.discover(box(Triangle), step=0.32, until=16.0, while_running=True)
    used = [note for note in found.notes if "is used from here on: it foretold" in note]
    assert sorted(note.split("'")[1] for note in used) == ["box.x <= 0", "box.x >= 1"]
    assert found.notes[-1].startswith("in use at the end: box.x")
    trace = found.trace
    assert trace is not None
    assert trace.outcome.ok
    assert (trace.time[0], trace.time[-1]) == (0.0, 16.0)
    assert (np.diff(trace.time) >= 0.0).all()
    # steps end at the turning points once these are known, and not before
    turns = np.array(Triangle.last.turns[1:])
    nearest = np.array([np.abs(trace.time - t).min() for t in turns])
    assert nearest[-2:].max() < 1e-6
    assert np.median(nearest[:3]) > 1e-3


def test_a_condition_that_fails_is_given_up() -> None:
    found = up.discover(box(Later), step=0.32, until=20.0, while_running=True)
    given_up = [note for note in found.notes if "is given up" in note]
    assert any("box.x >= 1'" in note and float(note.split()[2].rstrip(":")) > 13.0 for note in given_up)
    assert "box.x >= 1," not in f"{found.notes[-1]},"


def test_where_nothing_happens_nothing_is_used() -> None:
    smooth = up.Scenario({"a": up.Ode({"x": "v", "v": "-x"}, start={"x": 1.0})})
    found = up.discover(smooth, step=0.2, until=10.0, while_running=True)
    assert found.notes == ("in use at the end: nothing",)
    assert found.trace is not None
    plain = up.simulate(smooth, step=0.2 / 16, until=10.0)
    assert np.array_equal(found.trace["a.x"], plain["a.x"])


class Ball:
    """Bounces, and comes to rest at t = √(2/g)·(1 + 2·0.7/0.3) = 2.5586."""

    def __init__(self, name: str, start: float, parameters: Any) -> None:
        self.h, self.v, self.rests = 1.0, 0.0, False

    def get(self, port: str) -> float:
        return self.h if port == "h" else self.v

    def advance(self, t: float, to: float, early: bool) -> float:
        left = to - t
        while left > 0.0 and not self.rests:
            lands = (self.v + math.sqrt(self.v**2 + 2 * 9.81 * self.h)) / 9.81
            if lands > left:
                self.h += self.v * left - 0.5 * 9.81 * left**2
                self.v -= 9.81 * left
                break
            left -= lands
            self.h, self.v = 0.0, -0.7 * (self.v - 9.81 * lands)
            if self.v < 1e-6:
                self.v, self.rests = 0.0, True
        return to


def test_a_condition_that_chatters_at_the_end_does_not_cut_the_run_short() -> None:
    outputs = {"h": {"depends": []}, "v": {"depends": []}}
    ball = up.Scenario({"ball": up.PythonUnit(Ball, outputs=outputs)})
    found = up.discover(ball, step=0.02, until=2.6, while_running=True)
    assert found.trace is not None
    assert any("chattering" in note for note in found.notes)
    assert found.trace.outcome.ok
    assert found.trace.time[-1] == 2.6


def test_one_threshold_is_one_condition() -> None:
    """Steps that end near it tell it so well that what they tell does not overlap any more."""

    class Oven:
        def __init__(self, name: str, start: float, parameters: Any) -> None:
            self.T, self.on, self.room = 18.0, True, 10.0

        def get(self, port: str) -> float:
            return self.T

        def set(self, port: str, coefficients: Any) -> None:
            self.room = coefficients[0]

        def advance(self, t: float, to: float, early: bool) -> float:
            for _ in range(50):
                self.T += (to - t) / 50 * ((30.0 if self.on else 0.0) + self.room - self.T) / 10
                self.on = self.T < 21.0 if self.on else self.T <= 19.0
            return to

    oven = up.PythonUnit(Oven, inputs={"room": 10.0}, outputs={"T": {"depends": []}})
    room = up.Function(outputs={"T": "10 + 3*sin(0.2*time)"})
    scenario = up.Scenario({"oven": oven, "room": room}, {"oven.room": "room.T"})
    found = up.discover(scenario, step=0.2, until=40.0, while_running=True)
    assert sorted(one.when for one in found.conditions) == ["oven.T <= 19", "oven.T >= 21"]


def test_ctrl_c_keeps_the_run_so_far() -> None:
    def press(text: str) -> None:
        if float(text.split()[2].rstrip(",")) > 8.0:
            signal.raise_signal(signal.SIGINT)

    found = up.discover(box(Triangle), step=0.32, until=16.0, while_running=True, progress=press)
    assert found.interrupted
    assert found.trace is not None
    assert found.trace.outcome is up.Outcome.INTERRUPTED
    assert 8.0 < found.trace.time[-1] < 16.0
    assert any("interrupted at t" in note for note in found.notes)


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(up.InvalidInput, match="vary makes more runs"):
        up.discover(box(Triangle), step=0.1, until=1.0, while_running=True, vary={"box.x": [1]})
    with pytest.raises(up.InvalidInput, match="cannot be handed on while the native engine runs"):
        up.discover(box(Triangle), step=0.1, until=1.0, while_running=True, engine="native")


def test_a_run_that_fails_leaves_what_there_is() -> None:
    class Fails(Triangle):
        def advance(self, t: float, to: float, early: bool) -> float:
            if t > 5.0:
                raise ValueError("it broke")
            return super().advance(t, to, early)

    found = up.discover(box(Fails), step=0.32, until=16.0, while_running=True)
    assert found.trace is not None
    assert found.trace.outcome is up.Outcome.FAILED
    assert any("it broke" in note for note in found.notes)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ball.toml"
    file.write_text(
        'upbeat = 1\n[units.a]\nstates = { x = "v", v = "-x" }\nstart = { x = 1.0 }\n'
        "[master]\nstep = 0.2\n[run]\nuntil = 5.0\n"
    )
    results = tmp_path / "r.csv"
    assert main(["discover", str(file), "--while-running", "--results", str(results), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == ["in use at the end: nothing"]
    assert len(up.read(results)) == 401
    for words, said in (
        (["--while-running", "--vary", "a.x=1,2"], "--vary: without effect with --while-running"),
        (["--while-running", "--seconds", "3"], "--seconds: without effect with --while-running"),
        (["--results", "r.csv"], "--results are those of the run of --while-running"),
    ):
        assert main(["discover", str(file), *words]) != 0
        assert said in capsys.readouterr().err
