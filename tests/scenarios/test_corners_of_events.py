"""Events in corners, seen coming, gone back to or stopped at, on both engines, against paper and pencil.

Units move by constant accelerations, for which solvers and predictions are exact but for rounding: what
differs from the closed forms is how events are handled, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import upbeat as up

STEP = 0.25
LATE = 1e-5 * STEP
"""How far behind an event LookAhead lands at most."""


def point(x: float, v: float, a: float = 0.0, **more: Any) -> up.Ode:
    """Moves on a line, and tells how."""
    outputs = {"x": "x", "v": {"value": "v", "derivative": "a"}, "a": f"{a!r}"}
    return up.Ode(
        {"x": "v", "v": f"{a!r}"}, start={"x": x, "v": v}, outputs=outputs, solver="midpoint", **more
    )


def blind(x: float, v: float, a: float = 0.0) -> up.Ode:
    """The same, but it does not tell how it moves."""
    return up.Ode({"x": "w", "w": f"{a!r}"}, start={"x": x, "w": v}, outputs=["x"], solver="midpoint")


def ahead(step: float = STEP, method: Any = "auto", **more: Any) -> up.LookAhead:
    """Lands behind events by 1e-5 steps, but for the published method, which goes by what is its usual."""
    least = None if method == "published" else 1e-5 * step
    return up.LookAhead(step, method, **({"tolerance": least} | more))


def run(scenario: up.Scenario, engine: Any, until: float, **more: Any) -> up.Trace:
    return up.simulate(scenario, until=until, engine=engine, **({"pace": ahead()} | more))


Master = Callable[[float], dict[str, Any]]
"""Settings, by the step."""

MASTERS: dict[str, Master] = {
    "LookAhead": lambda step: {"pace": ahead(step)},
    "Revised": lambda step: {"pace": up.Revised(step, tolerance=1e-5 * step)},
    "Revised(LookAhead)": lambda step: {"pace": up.Revised(ahead(step), tolerance=1e-5 * step)},
    "Interruptible": lambda step: {"pace": step, "coupling": up.Interruptible(), "inputs": "hermite"},
}
"""Ways to deal with events: to see them coming, to go back to them, both, and to let units stop there."""


SEEING = [name for name in MASTERS if name != "Interruptible"]
"""Those that look at conditions within a step; a solver looks at the ends of its own steps only. They also
count events that come one right after the other."""


@pytest.fixture(params=MASTERS)
def master(request: pytest.FixtureRequest) -> Master:
    return MASTERS[request.param]


@pytest.fixture(params=SEEING)
def seeing(request: pytest.FixtureRequest) -> Master:
    return MASTERS[request.param]


def happened(trace: up.Trace) -> list[tuple[str, float]]:
    return [(event.name, event.time) for event in trace.events]


def about(name: str, time: float) -> tuple[str, Any]:
    """An event just behind `time`."""
    return name, pytest.approx(time + 0.5 * LATE, abs=0.6 * LATE)


def reasons(trace: up.Trace) -> list[str]:
    return [step.reason for step in trace.steps for _ in range(step.count)]


# -------------------------------------------------------------------- grazing


@pytest.mark.parametrize("at", [0.3, 0.5, 0.61, 1.0, 1.3])
@pytest.mark.parametrize("depth", [1e-2, 1e-4, 1e-8, 1e-12])
def test_a_shallow_dip_is_landed_in(engine: str, seeing: Master, at: float, depth: float) -> None:
    """(t - at)² - depth: it lasts 2·√depth, which may be less than the distance to land behind events."""
    dip = point(at * at - depth, -2 * at, 2.0)
    scenario = up.Scenario({"dip": dip}, events={"touch": {"when": ["dip.x"]}})
    trace = run(scenario, engine, 2.0, **seeing(STEP))
    assert len(trace.events) == 1
    assert abs(trace.events[0].time - at) <= math.sqrt(depth) + 1e-7


@pytest.mark.parametrize("height", [1e-2, 1e-4, 1e-8, 1e-12])
def test_a_near_miss_is_none_and_costs_nothing(engine: str, height: float) -> None:
    scenario = up.Scenario({"dip": point(0.6**2 + height, -1.2, 2.0)}, events={"touch": {"when": ["dip.x"]}})
    trace = run(scenario, engine, 2.0, pace=ahead(STEP, after=1.0))
    assert happened(trace) == []
    assert trace.time == pytest.approx(np.arange(9) * STEP)


def test_a_dip_is_seen_also_where_nothing_is_known_of_rates(engine: str, seeing: Master) -> None:
    """A parabola through three values is the dip itself."""
    scenario = up.Scenario({"dip": blind(1.1**2 - 1e-8, -2.2, 2.0)}, events={"touch": {"when": ["dip.x"]}})
    trace = run(scenario, engine, 2.0, **seeing(STEP))
    assert happened(trace) == [("touch", pytest.approx(1.1, abs=2e-4))]


def test_two_conditions_that_hold_together_for_a_moment_only(engine: str, seeing: Master) -> None:
    """One holds until 0.7, the other one from 0.7 - 1e-7 on."""
    scenario = up.Scenario(
        {"goes": point(-0.7, 1.0), "comes": point(0.7 - 1e-7, -1.0)},
        events={"both": {"when": ["goes.x", "comes.x"]}},
    )
    trace = run(scenario, engine, 1.5, **seeing(STEP))
    assert happened(trace) == [("both", pytest.approx(0.7, abs=1.1e-7))]


# -------------------------------------------------------------------- the ends of time


@pytest.mark.parametrize("method", ["auto", "published", "secant"])
def test_what_is_due_at_the_start_happens_before_the_first_step(engine: str, method: Any) -> None:
    """It holds at the start: exactly, and by far."""
    for x in (0.0, -3.0):
        scenario = up.Scenario(
            {"a": point(x, -1.0)}, events={"low": {"when": "a.x <= 0", "then": {"a.x": "1", "a.v": "-0.5"}}}
        )
        trace = run(scenario, engine, 1.9, pace=ahead(STEP, method=method))
        assert happened(trace) == [("low", 0.0)]
        assert trace["a.x"][:2].tolist() == [x, 1.0]
        assert trace["a.x"][-1] == pytest.approx(1 - 0.95)


def test_a_condition_that_is_true_all_the_time_happens_once(engine: str) -> None:
    scenario = up.Scenario({"a": point(-1.0, 0.0)}, events={"low": {"when": "a.x <= 0"}})
    trace = run(scenario, engine, 2.0, pace=ahead(STEP, after=1.0))
    assert happened(trace) == [("low", 0.0)]
    assert trace.time == pytest.approx(np.arange(9) * STEP)


@pytest.mark.parametrize("method", ["auto", "published", "secant", "quadratic"])
def test_an_event_in_the_first_step(engine: str, method: Any) -> None:
    """Nothing is known of the past: it happens within the first step, or at its end."""
    scenario = up.Scenario({"a": point(0.05, -1.0)}, events={"low": {"when": "a.x <= 0"}})
    trace = run(scenario, engine, 1.0, pace=ahead(STEP, method=method))
    ((_, time),) = happened(trace)
    assert time == (pytest.approx(0.05, abs=1.01 * LATE) if method == "auto" else trace.time[1])


@pytest.mark.parametrize("method", ["auto", "published", "secant", "quadratic", "hermite"])
def test_an_event_at_the_stop_time_still_happens(engine: str, method: Any) -> None:
    scenario = up.Scenario(
        {"a": point(1.0, -1.0)}, events={"low": {"when": "a.x <= 0", "then": {"a.v": "5"}}}
    )
    trace = run(scenario, engine, 1.0, pace=ahead(STEP, method=method))
    assert happened(trace) == [("low", 1.0)]
    assert trace["a.v"][-1] == 5.0
    assert trace.time[-1] == 1.0
    assert trace["a.v"][-2] == -1.0
    assert np.flatnonzero(np.diff(trace.time) <= 0).tolist() == [len(trace) - 2], "the jump alone"


@pytest.mark.parametrize("until", [0.3, 0.7, 1.0, 1.1, 2.0 / 3.0])
@pytest.mark.parametrize("step", [0.1, 0.3, 0.07])
def test_the_last_step_is_clipped(engine: str, until: float, step: float) -> None:
    """No step beyond the end, and none for what rounding leaves over."""
    scenario = up.Scenario({"a": point(1.0, 1.0)}, events={"low": {"when": "a.x <= 0"}})
    for method in ("auto", "published"):
        pace = ahead(step, method=method, after=1.0)
        trace = run(scenario, engine, until, pace=pace)
        assert trace.time[-1] == until
        assert len(trace.time) - 1 == math.ceil(until / step - 1e-9)


def test_an_event_just_behind_the_end_is_left_alone(engine: str, master: Master) -> None:
    scenario = up.Scenario({"a": point(1.0 + 1e-3, -1.0)}, events={"low": {"when": "a.x <= 0"}})
    trace = run(scenario, engine, 1.0, **master(STEP))
    assert happened(trace) == []
    assert trace.time[-1] == 1.0


# -------------------------------------------------------------------- several at once


def collision(left: str, right: str) -> dict[str, Any]:
    """Two equal masses swap their velocities."""
    return {
        "when": f"{right}.x - {left}.x <= 1 and {right}.v < {left}.v",
        "then": {f"{left}.v": f"{right}.v", f"{right}.v": f"{left}.v"},
    }


def test_a_private_and_a_shared_event_at_one_instant(engine: str, master: Master) -> None:
    """Two masses meet at 0.5 in the very place where a wall is: both events happen, one after the other.

    The wall turns the right one, they swap, and the wall turns it again: it ends up as the faster one.
    """
    scenario = up.Scenario(
        {"left": point(-1.0, 2.0), "right": point(0.5, 1.0)},
        events={
            "wall": {"when": ["1 - right.x", "-right.v"], "then": {"right.v": "-right.v"}},
            "hit": collision("left", "right"),
        },
    )
    trace = run(scenario, engine, 1.0, **master(STEP))
    assert [e.name for e in trace.events] == ["wall", "hit", "wall", "hit"]
    assert [e.index for e in trace.events] == [0, 1, 2, 3]
    assert {e.time for e in trace.events} == {trace.events[0].time}
    assert trace.events[0].time == pytest.approx(0.5 + LATE / 2, abs=LATE / 1.9)
    assert trace["left.v"][-1] == -2.0
    assert trace["right.v"][-1] == -1.0


def test_events_that_have_nothing_in_common_share_one_snapshot(engine: str, master: Master) -> None:
    scenario = up.Scenario(
        {"a": point(1.0, -1.0), "b": point(2.0, -2.0)},
        events={
            "one": {"when": "a.x <= 0", "then": {"a.v": "b.v"}},
            "two": {"when": "b.x <= 0", "then": {"b.v": "a.v"}},
        },
    )
    trace = run(scenario, engine, 1.5, **master(STEP))
    (first, time), (second, other) = happened(trace)
    assert (first, second) == ("one", "two")
    assert time == other == pytest.approx(1.0, abs=1.1 * LATE)
    assert (trace["a.v"][-1], trace["b.v"][-1]) == (-2.0, -1.0)


@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.slow), 8])
def test_newtons_cradle(engine: str, master: Master, count: int) -> None:
    """Balls that touch: the push goes through all of them at one instant, and the last one flies off."""
    units = {"b0": point(-2.0, 2.0)} | {f"b{i}": point(float(i), 0.0) for i in range(1, count)}
    hits = {f"hit{i}": collision(f"b{i - 1}", f"b{i}") for i in range(1, count)}
    trace = run(up.Scenario(units, events=hits), engine, 2.0, **master(STEP))
    assert [e.name for e in trace.events] == [f"hit{i}" for i in range(1, count)]
    assert [e.index for e in trace.events] == list(range(count - 1))
    assert trace.events[0].time == trace.events[-1].time == pytest.approx(1.0, abs=1.1 * LATE)
    assert [trace[f"b{i}.v"][-1] for i in range(count)] == [0.0] * (count - 1) + [2.0]
    assert trace[f"b{count - 1}.x"][-1] == pytest.approx(count - 1 + 2.0, abs=4 * LATE)


def test_newtons_cradle_in_one_unit(engine: str) -> None:
    """The monolith locates the first hit and lets the others follow: all at 1, to its tolerance."""
    units = {"b0": point(-2.0, 2.0), "b1": point(1.0, 0.0), "b2": point(2.0, 0.0)}
    hits = {f"hit{i}": collision(f"b{i - 1}", f"b{i}") for i in (1, 2)}
    whole = up.Scenario(units, events=hits).monolith()
    trace = up.simulate(whole, pace=up.Fixed(0.3), until=2.0, engine=engine, coupling=up.Negotiated())
    assert happened(trace) == [("hit1", pytest.approx(1.0, abs=1e-12)), ("hit2", trace.events[0].time)]
    assert trace["b2.x"][-1] == pytest.approx(2.0 + 2.0, abs=1e-11)
    assert (trace["b0.v"][-1], trace["b1.v"][-1]) == (0.0, 0.0)


def test_a_cradle_with_gaps_and_walls_is_a_particle_on_a_circle(engine: str, master: Master) -> None:
    """Equal masses pass velocities on: one moving ball among resting ones, there and back between walls."""
    units = {"b0": point(0.0, 1.0), "b1": point(1.5, 0.0), "b2": point(3.1, 0.0)}
    events = {
        "hit1": collision("b0", "b1"),
        "hit2": collision("b1", "b2"),
        "right": {"when": ["4 - b2.x", "-b2.v"], "then": {"b2.v": "-b2.v"}},
        "left": {"when": ["b0.x", "b0.v"], "then": {"b0.v": "-b0.v"}},
    }
    trace = run(up.Scenario(units, events=events), engine, 7.9, **master(STEP))
    # gaps of 0.5, 0.6 and 0.9 on the way; what moves always has the speed 1, or is at rest
    times = [0.5, 1.1, 2.0, 2.9, 3.5, 4.0, 4.5, 5.1, 6.0, 6.9, 7.5]
    names = ["hit1", "hit2", "right", "hit2", "hit1", "left", "hit1", "hit2", "right", "hit2", "hit1"]
    assert [e.name for e in trace.events] == names
    assert [e.time for e in trace.events] == pytest.approx(times, abs=30 * LATE)


# -------------------------------------------------------------------- again and again


def test_three_conditions(engine: str, master: Master) -> None:
    """It happens when the last one comes true, and again only after one of them was false."""
    scenario = up.Scenario(
        {"a": point(1.0, -1.0), "b": point(0.4, -1.0), "c": point(1.5, -1.0)},
        events={"all": {"when": ["a.x", "b.x", "c.x"], "then": {"b.x": "0.7"}}},
    )
    trace = run(scenario, engine, 3.0, **master(STEP))
    assert [t for _, t in happened(trace)] == pytest.approx([1.5, 2.2, 2.9], abs=3.1 * LATE)


def test_every_condition_is_up_to_date_before_any_is_tested(engine: str) -> None:
    """The published prediction by hand. The first condition is far above until 0.7, and then falls to zero at
    0.775; the second one is 1 - t all the time.

    At 0.75 both are below zero two steps ahead; the second one in 0.25, of which 0.9 are waited for. Had it
    not been looked at as long as the first one stopped the search, it would seem to fall three times as fast.
    """
    falls = up.Function(outputs={"x": "3 if time < 0.7 else 3 - 40*(time - 0.7)"})
    scenario = up.Scenario({"a": falls, "b": point(1.0, -1.0)}, events={"both": {"when": ["a.x", "b.x"]}})
    pace = ahead(STEP, method="published", tolerance=0.01)
    trace = run(scenario, engine, 1.25, pace=pace)
    assert trace.time == pytest.approx([0, 0.25, 0.5, 0.75, 0.975, 0.9975, 1.0075, 1.25])
    assert happened(trace) == [("both", trace.time[6])]


@pytest.mark.parametrize("step", [0.05, 0.2, 1.0])
def test_a_single_condition_comes_back_within_a_step(engine: str, master: Master, step: float) -> None:
    """A ball that bounces without loss, and no condition on its velocity: it leaves the floor and comes back
    before the step ends. Only where the condition has been seen to be false does it happen again."""
    scenario = up.Scenario(
        {"ball": point(0.1, 0.0, -10.0)},
        events={"floor": {"when": "ball.x <= 0", "then": {"ball.v": "-ball.v", "ball.x": "0"}}},
    )
    trace = run(scenario, engine, 1.5, **master(step))
    fall = math.sqrt(2 * 0.1 / 10)
    times = fall * np.arange(1, 1.5 / fall, 2)
    assert [t for _, t in happened(trace)] == pytest.approx(times, abs=1e-3)
    assert trace["ball.x"].min() > -1e-3


def rolling(e: float, slow: float) -> up.Scenario:
    """A ball that bounces; once it is slower than `slow`, it lies on the floor."""
    ball = up.Ode(
        {"x": "v", "v": "a"}, start={"x": 1.0}, solver="midpoint",
        variables={"free": 1.0}, locals={"a": "-9.81*free"},
        outputs={"x": "x", "v": {"value": "v", "derivative": "a"}, "a": "a", "free": "free"},
    )  # fmt: skip
    rests = f"-{e}*ball.v < {slow}"
    then = {"ball.x": "0", "ball.v": f"0 if {rests} else -{e}*ball.v", "ball.free": f"0 if {rests} else 1"}
    return up.Scenario(
        {"ball": ball}, events={"bounce": {"when": "ball.x <= 0 and ball.v < 0", "then": then}}
    )


@pytest.mark.parametrize("step", [0.02, 0.1, 0.5])
def test_a_ball_comes_to_rest_and_never_sinks(engine: str, master: Master, step: float) -> None:
    e, slow = 0.7, 0.01
    trace = run(rolling(e, slow), engine, 5.0, **master(step))
    speed = e * math.sqrt(2 * 9.81)
    time, times = math.sqrt(2 / 9.81), []
    while True:
        times.append(time)
        if speed < slow:
            break
        time += 2 * speed / 9.81
        speed *= e
    found = [t for _, t in happened(trace)]
    assert len(found) == len(times)
    assert found == pytest.approx(times, abs=6e-5 * step * len(times))
    assert (trace["ball.x"][-1], trace["ball.v"][-1]) == (0.0, 0.0)
    assert trace["ball.x"].min() >= -5 * 1e-5 * step


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ("ball.x <= 0 and ball.v < 0", {"ball.v": "-0.7*ball.v"}),
        ("ball.x <= 0", {"ball.v": "-0.7*ball.v", "ball.x": "0"}),
        pytest.param("ball.x <= 0", {"ball.v": "-0.7*ball.v"}, marks=pytest.mark.slow),
        pytest.param(
            "ball.x <= 0 and ball.v < 0", {"ball.v": "-0.7*ball.v", "ball.x": "0"}, marks=pytest.mark.slow
        ),
    ],
)
def test_a_ball_that_never_rests_is_an_error_that_says_so(
    engine: str, seeing: Master, when: str, then: dict[str, str]
) -> None:
    """Ever shorter bounces, which add up to 0.4515·(1 + 2·0.7/0.3) = 2.5587: a sentence soon after that."""
    scenario = up.Scenario({"ball": point(1.0, 0.0, -9.81)}, events={"bounce": {"when": when, "then": then}})
    with pytest.raises(up.StepError, match=r"at t = 2\.5[5-9].*'bounce'.*rest"):
        run(scenario, engine, 5.0, **seeing(STEP))


def test_many_events_one_right_after_the_other_are_no_chain_without_end(engine: str, master: Master) -> None:
    """A push that runs through many balls, a micrometre apart from each other."""
    count = 20 if engine == "native" else 12
    units = {f"b{i}": point(i * (1 + 1e-6), 0.0) for i in range(1, count + 1)} | {"b0": point(-0.5, 1.0)}
    hits = {f"hit{i}": collision(f"b{i - 1}", f"b{i}") for i in range(1, count + 1)}
    trace = run(up.Scenario(units, events=hits), engine, 1.0, **master(STEP))
    assert [e.name for e in trace.events] == list(hits)
    assert trace[f"b{count}.v"][-1] == 1.0


# -------------------------------------------------------------------- through borders


@pytest.mark.parametrize("flatten", [True, False])
def test_an_event_of_a_nested_scenario(engine: str, flatten: bool) -> None:
    """With steps that see it coming inside, whether the inside is dissolved or not."""
    inner = up.Scenario(
        {"left": point(0.0, 1.0), "right": point(2.0, -1.0)},
        outputs={"x": "left.x", "v": "left.v"},
        events={"hit": collision("left", "right")},
    )
    nested = up.Nested(inner, up.Master(ahead(STEP)), flatten=flatten)
    seen = up.Ode({"s": "u"}, inputs=["u"], outputs=["s"], solver="euler")
    scenario = up.Scenario({"pair": nested, "seen": seen}, {"seen.u": "pair.v"})
    trace = up.simulate(scenario, pace=STEP, until=2.0, engine=engine)
    assert trace["pair.v"][-1] == -1.0
    assert trace["pair.x"][-1] == pytest.approx(0.5 - 1.5, abs=2.1 * LATE)


def test_an_event_of_a_nested_scenario_is_seen_from_outside(engine: str) -> None:
    """What is dissolved brings its events along: the pace of the whole sees them coming."""
    inner = up.Scenario(
        {"left": point(0.0, 1.0), "right": point(2.0, -1.0)},
        outputs={"x": "left.x", "v": "left.v"},
        events={"hit": collision("left", "right")},
    )
    nested = up.Nested(inner, up.Master(ahead(STEP)), flatten=True)
    far = {"when": "other.x >= 1.3", "then": {"other.v": "pair.v"}}
    scenario = up.Scenario({"pair": nested, "other": point(0.0, 1.0)}, events={"far": far})
    trace = run(scenario, engine, 2.0)
    assert happened(trace)[-1] == about("far", 1.3)
    assert trace["other.v"][-1] == -1.0
    assert trace["pair.x"][-1] == pytest.approx(0.5 - 1.5, abs=2.1 * LATE)


def test_a_discrete_unit_sets_off_a_continuous_one_and_back(engine: str, master: Master) -> None:
    """A clock kicks a ball; a machine counts where it comes down, and takes the floor away the third time."""
    trapdoor = up.StateMachine(
        states=["shut", "open"], initial="shut", inputs=["n"],
        outputs={"open": {"value": "state == 'open'", "kind": "boolean"}},
        transitions=[{"from": "shut", "to": "open", "when": "n >= 3"}],
    )  # fmt: skip
    ball = up.Ode(
        {"x": "v", "v": "a"}, start={"x": 0.0}, solver="midpoint", variables={"free": 0.0, "n": 0.0},
        locals={"a": "-10*free"}, inputs={"kick": {"event": True}},
        outputs={"x": "x", "v": {"value": "v", "derivative": "a"}, "a": "a", "n": "n"},
        events={"kicked": {"on": "kick", "then": {"v": "1", "free": "1"}}},
    )  # fmt: skip
    scenario = up.Scenario(
        {"ball": ball, "clock": up.Clock(every=0.5, offset=0.1), "door": trapdoor},
        {"ball.kick": "clock.tick", "door.n": "ball.n"},
        events={
            "lands": {
                "when": "ball.x <= 0 and ball.v < 0 and not door.open",
                "then": {"ball.x": "0", "ball.v": "0", "ball.free": "0", "ball.n": "ball.n + 1"},
            },
            "falls": {"when": "door.open", "then": {"ball.free": "1", "ball.v": "0"}},
        },
    )
    trace = run(scenario, engine, 1.5, **master(STEP))
    found = [(n, t) for n, t in happened(trace) if n in ("lands", "falls")]
    # kicked at 0.1, 0.6 and 1.1 with v = 1; back after 0.2 each time
    assert [n for n, _ in found] == ["lands", "lands", "lands", "falls"]
    assert [t for _, t in found] == pytest.approx([0.3, 0.8, 1.3, 1.3], abs=1.1 * LATE)
    assert found[2][1] == found[3][1]
    assert trace["ball.x"][-1] == pytest.approx(-5 * 0.2**2, abs=2 * LATE)
