"""Variants of an experiment, and two traces compared: shifted jumps, missing events, interpolation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.judging.comparing import Change, Pair, Trials, compare, match
from upbeat.master.paces.pace import scaled

OSCILLATOR = up.Scenario(
    {
        "mass": up.Ode({"x": "v", "v": "F - x"}, inputs=["F"], start={"x": 1.0}),
        "damper": up.Function(inputs=["v"], outputs={"F": "-0.2*v"}),
    },
    {"mass.F": "damper.F", "damper.v": "mass.v"},
)


def ball(pace: object) -> up.Experiment:
    model = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
    return up.experiment(up.Scenario({"ball": model}, events={"hit": bounce}), pace=pace, until=2.0)  # type: ignore[arg-type]


def test_finer_runs_and_their_errors() -> None:
    trials = Trials(up.experiment(OSCILLATOR, step=0.1, until=5.0))
    texts = [str(trials.run(Change(step=0.5**k)).change) for k in range(3)]
    assert texts == ["as it is", "steps / 2", "steps / 4"]
    traces = [trials.run(Change(step=0.5**k)).trace for k in range(3)]
    assert all(trace is not None for trace in traces)
    first, second = (compare(traces[0], trace)["mass.x"] for trace in traces[1:])  # type: ignore[arg-type]
    assert 1.4 < second.maximum / first.maximum < 1.6  # first order: (1 - 1/4) / (1 - 1/2)
    assert first.blur == 0.0
    assert len(trials.made) == 3


def test_interpolation_is_no_error() -> None:
    rows, fine = np.linspace(0.0, 5.0, 38), np.linspace(0.0, 5.0, 501)
    straight = np.abs(np.interp(rows, fine, np.sin(fine)) - np.sin(rows)).max()
    smooth = up.Trace.from_arrays(fine, {"y": np.sin(fine)})
    found = compare(up.Trace.from_arrays(rows, {"y": np.sin(rows)}), smooth)["y"]
    assert found.maximum < 1e-3 * straight


def test_a_shifted_jump_is_no_large_error() -> None:
    trials = Trials(ball(up.Fixed(0.01)))
    base, finer = trials.run().trace, trials.run(Change(step=0.1)).trace
    assert base is not None
    assert finer is not None
    found = compare(base, finer)
    assert [pair.name for pair in found.events] == ["hit"] * 3
    assert -0.05 < found.events[0].shift < 0.0
    assert found.shift < 0.05
    assert found["ball.v"].maximum < 0.03  # and not a third, the height of the jump
    assert np.isnan(found["ball.v"].error).any()


def test_a_jump_that_no_event_explains_and_duplicate_times() -> None:
    t = np.linspace(0.0, 1.0, 101)
    early, late = (np.where(t >= when, 2.0, 0.0) + np.sin(t) for when in (0.5, 0.52))
    found = compare(up.Trace.from_arrays(t, {"y": early}), up.Trace.from_arrays(t, {"y": late}))["y"]
    assert found.maximum < 1e-12
    assert [round(pair.shift, 9) for pair in found.jumps] == [0.02]
    twice = np.array([0.0, 0.5, 0.5, 1.0])
    one = up.Trace.from_arrays(twice, {"y": np.array([0.0, 0.5, 2.0, 2.0])})
    other = up.Trace.from_arrays(
        np.array([0.0, 0.25, 0.5, 0.5, 0.75, 1.0]), {"y": np.array([0.0, 0.25, 0.5, 2.0, 2.0, 2.0])}
    )
    assert compare(one, other)["y"].maximum == 0.0


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_matching_finds_what_was_left_out(times: list[int], data: st.DataObject) -> None:
    ordered = np.array(sorted(times)) / 10.0
    gap = np.diff(ordered).min() if len(ordered) > 1 else 1.0
    kept = data.draw(st.sets(st.integers(0, len(ordered) - 1), max_size=len(ordered) - 1))
    late = np.array([ordered[k] + gap / 5 for k in sorted(kept)])
    pairs = match("e", ordered, late, gap / 2)
    assert [pair.one for pair in pairs] == ordered.tolist()
    assert [k for k, pair in enumerate(pairs) if pair.other is not None] == sorted(kept)


def test_a_budget_and_a_failure_are_results() -> None:
    trials = Trials(up.experiment(OSCILLATOR, step=0.1, until=5.0), seconds=0.0)
    assert trials.run().trace is not None  # the run in question is always made
    short = trials.run(Change(step=1e-6))
    assert short.trace is None
    assert short.skipped
    assert "not run" in short.failure

    def step(name: str, start: float, parameters: object) -> object:
        class Unit:
            def get(self, port: str) -> float:
                return 0.0

            def advance(self, t: float, to: float, early: bool) -> float:
                if to - t < 0.09:
                    raise ValueError("steps below 0.09 are not for me")
                return to

        return Unit()

    picky = up.PythonUnit(step, (up.Port("y", up.Causality.OUTPUT),))
    told = Trials(up.experiment(up.Scenario({"p": picky}), step=0.1, until=1.0))
    assert told.run().trace is not None
    assert "not for me" in told.run(Change(step=0.5)).failure


@pytest.mark.parametrize(
    ("pace", "half"),
    [
        (up.Fixed(0.2), up.Fixed(0.1)),
        (up.LookAhead(0.2, tolerance=1e-3), up.LookAhead(0.1, tolerance=5e-4)),
        (up.Revised(up.Fixed(0.2)), up.Revised(up.Fixed(0.1))),
        (up.Pattern((0.1, 0.2)), up.Pattern((0.05, 0.1))),
        (up.ErrorControl(1e-3), up.ErrorControl(5e-4)),
        (up.EventDriven(), up.EventDriven()),
        (up.Monitored(up.Fixed(0.1), (0.1,), ((0,),)), None),
    ],
)
def test_paces_with_other_steps(pace: object, half: object) -> None:
    assert scaled(pace, 0.5) == half  # type: ignore[arg-type]


def test_what_is_in_one_run_only() -> None:
    pair = Pair("hit", None, 0.5)
    assert math.isnan(pair.shift)


@pytest.mark.parametrize("twice", [False, True])
def test_pieces_between_events_are_whole(twice: bool) -> None:
    """Right after an event the other trace is a smooth curve, too: nothing looks like an error there."""
    traces = []
    for hit, step in ((0.5, 0.1), (0.5 + 1e-6, 0.0125)):
        before, after = np.arange(0.0, hit - 1e-9, step), hit + np.arange(0.0, 1.0 - hit, step)
        time = np.concatenate([before, [hit] if twice else [], after])
        x = np.where(time < hit, np.sin(3 * time), np.sin(3 * hit) - 2 * (time - hit) - (time - hit) ** 2)
        trace = up.Trace.from_arrays(time, {"x": x})
        log = up.EventLog([up.EventKind("hit")])
        log.append("hit", hit, 0, None)
        trace.events = log
        traces.append(trace)
    assert compare(*traces)["x"].maximum < 1e-5
