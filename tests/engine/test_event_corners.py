"""Events in corners, on both engines: payloads, inputs set by hand, rejected steps, couplings, many units."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.engine.native import machine as native

ENGINES = ["interpret", "native"] if native.available() else ["interpret"]
pytestmark = pytest.mark.parametrize("engine", ENGINES)

RAMP = up.Ode(states={"x": "1"}, outputs=["x"])
COUNTER = up.StateMachine(
    states=["only"], initial="only", inputs={"go": {"event": True}},
    variables={"n": {"start": 0, "kind": "integer"}}, outputs={"n": {"value": "n", "kind": "integer"}},
    transitions=[{"from": "only", "on": "go", "do": {"n": "n + 1"}}],
)  # fmt: skip


def log(trace: up.Trace) -> list[tuple[Any, ...]]:
    return [(e.name, e.time, e.index, e.value) for e in trace.events]


def sender(value: Any, again: float = 1.0, **port: Any) -> up.PythonDiscrete:
    """Sends `value` every second."""
    return up.PythonDiscrete(
        start=0,
        time_advance=lambda n: again,
        internal=lambda n: n + 1,
        output=lambda n: {"out": value},
        outputs={"out": {"event": True, **port}},
    )


def listener(**port: Any) -> up.PythonDiscrete:
    """Remembers what it has heard."""
    return up.PythonDiscrete(
        start=(),
        external=lambda heard, elapsed, events: (*heard, events["in"]),
        shows=lambda heard: {"n": len(heard), "last": heard[-1] if heard else port["zero"]},
        inputs={"in": {k: v for k, v in port.items() if k != "zero"}},
        outputs={"n": {"kind": "integer"}, "last": {k: v for k, v in port.items() if k != "zero"}},
    )


# -------------------------------------------------------------------- payloads


def test_texts_travel(engine: Any) -> None:
    scenario = up.Scenario(
        {"a": sender("ä b", kind="string"), "b": listener(kind="string", zero="")},
        {"b.in": "a.out"},
    )
    trace = up.simulate(scenario, until=2.5, engine=engine)
    assert log(trace) == [("a.out", 1.0, 0, "ä b"), ("a.out", 2.0, 0, "ä b")]
    assert trace["b.last"].tolist() == ["", "", "ä b", "ä b", "ä b", "ä b"]
    assert trace.time.tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 2.5], "what it counts has changed at 2, too"


def test_the_first_text_that_is_present_counts(engine: Any) -> None:
    """Texts are copied, never computed; so are those of several senders, or with a condition."""
    twice = up.PythonDiscrete(
        start=0,
        time_advance=lambda n: 1.0,
        internal=lambda n: n + 1,
        output=lambda n: {"one": f"one{n}", "two": f"two{n}"} if n != 1 else {"two": f"two{n}"},
        shows=lambda n: {"n": n},
        outputs={
            "one": {"event": True, "kind": "string"},
            "two": {"event": True, "kind": "string"},
            "n": {"kind": "integer"},
        },
    )
    scenario = up.Scenario(
        {"a": twice, "b": listener(kind="string", zero="")},
        {"b.in": [{"event": "a.one", "when": "a.n != 2"}, "a.two"]},
    )
    trace = up.simulate(scenario, until=4.0, engine=engine)
    assert trace.one_sided()["b.last"].tolist() == ["", "one0", "two1", "two2", "one3"]
    assert trace.one_sided("left")["b.last"].tolist() == ["", "", "one0", "two1", "two2"]


def test_arrays_travel(engine: Any) -> None:
    scenario = up.Scenario(
        {"a": sender((1.0, -2.0), kind="real", size=2), "b": listener(kind="real", size=2, zero=(0.0, 0.0))},
        {"b.in": {"event": "a.out", "value": ["a.out[1]", "2*a.out[0]"]}},
    )
    trace = up.simulate(scenario, until=1.5, engine=engine)
    assert log(trace) == [("a.out", 1.0, 0, (1.0, -2.0))]
    assert (trace["b.last[0]"][-1], trace["b.last[1]"][-1]) == (-2.0, 2.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_number_is_no_payload(engine: Any, value: float) -> None:
    scenario = up.Scenario({"a": sender(value, kind="real")})
    with pytest.raises(up.UnitError) as caught:
        up.simulate(scenario, until=2.0, engine=engine)
    assert (caught.value.unit, caught.value.call, caught.value.time) == ("a", "get('out')", 1.0)
    assert f"output 'out' is {value}" in str(caught.value)


def test_a_connection_that_makes_no_number_of_it_is_blamed(engine: Any) -> None:
    scenario = up.Scenario(
        {"a": sender(0.0, kind="real"), "b": listener(kind="real", zero=0.0)}, {"b.in": "1/a.out"}
    )
    with pytest.raises(up.UnitError) as caught:
        up.simulate(scenario, until=2.0, engine=engine)
    assert (caught.value.unit, caught.value.call) == ("b", "set('in')")
    assert "input 'in' would become inf" in str(caught.value)


# -------------------------------------------------------------------- times


class Odd:
    """A unit that says whatever `dues` holds about when it is due."""

    def __init__(self, dues: list[float]) -> None:
        self.dues, self.time, self.n = dues, 0.0, 0

    def get(self, port: str) -> Any:
        return True

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        self.time = to
        return to

    def due(self) -> float:
        return self.dues[min(self.n, len(self.dues) - 1)]

    def jump(self) -> bool:
        self.n += 1
        return self.due() <= self.time


def odd(*dues: float) -> up.Scenario:
    ports = (up.Port("tick", up.Causality.OUTPUT, up.Kind.BOOLEAN, event=True),)
    model = up.PythonUnit(lambda *_: Odd(list(dues)), ports=ports, abilities={up.Ability.NEXT_EVENT})
    return up.Scenario({"odd": model})


def test_a_time_that_is_no_number_is_an_error(engine: Any) -> None:
    with pytest.raises(up.UnitError) as caught:
        up.simulate(odd(1.0, math.nan), until=2.0, engine=engine)
    assert (caught.value.unit, caught.value.call, caught.value.time) == ("odd", "due()", 1.0)


def test_a_time_that_has_passed_means_now(engine: Any) -> None:
    trace = up.simulate(odd(1.0, 0.25, -5.0, 1.5, math.inf), until=2.0, engine=engine)
    assert trace.events.of("odd.tick") == [(1.0, 0, True), (1.0, 1, True), (1.0, 2, True), (1.5, 0, True)]


def test_a_time_that_stays_in_the_past_is_a_chain_without_end(engine: Any) -> None:
    with pytest.raises(up.StepError, match=r"did not end within 10010 rounds at t = 1 \(odd: 5005 times\)"):
        up.simulate(odd(1.0, 0.25), until=2.0, engine=engine)


# -------------------------------------------------------------------- set by hand


def test_event_inputs_are_set_by_hand(engine: Any) -> None:
    """Of a unit and of the scenario; what follows happens at that very time, and is logged there, once."""
    relay = up.StateMachine(
        states=["only"], initial="only", inputs={"go": {"event": True}}, outputs={"done": {"event": True}},
        transitions=[{"from": "only", "on": "go", "emit": {"done": True}}],
    )  # fmt: skip
    scenario = up.Scenario(
        {"free": relay, "inner": relay, "counter": COUNTER},
        {"inner.go": "poke", "counter.go": "free.done or inner.done"},
        inputs={"poke": {"event": True, "kind": "boolean"}},
    )
    with up.start(scenario, pace=up.Fixed(0.5), until=2.0, engine=engine) as run:
        run.set("free.go", True)
        assert run["counter.n"] == 1
        run.step()
        run.set("poke", True)
        run.set("free.go", True)
        assert run["counter.n"] == 3
        run.step()
        trace = run.finish()
    units = [e for e in log(trace) if e[0] != "poke"]
    assert [e[:2] for e in units] == [("free.done", 0.0), ("free.done", 0.5), ("inner.done", 0.5)]
    per_instant = [e[2] for e in log(trace) if e[1] == 0.5]
    assert per_instant == list(range(len(per_instant)))
    assert trace["counter.n"].tolist() == [0, 1, 1, 3, 3, 3, 3]  # before and after, where events were set


def test_the_index_starts_anew_at_each_time(engine: Any) -> None:
    """Also after a step in which nothing fired."""
    scenario = up.Scenario(
        {"counter": COUNTER}, {"counter.go": "poke"}, inputs={"poke": {"event": True, "kind": "boolean"}}
    )
    with up.start(scenario, pace=up.Fixed(0.5), until=2.0, engine=engine) as run:
        for _ in range(3):
            run.set("poke", True)
            run.step()
        trace = run.finish()
    assert log(trace) == [("poke", t, 0, True) for t in (0.0, 0.5, 1.0)]


def test_a_signal_set_by_hand_makes_a_condition_true(engine: Any) -> None:
    guard = up.StateMachine(
        states=["low", "high"], initial="low", inputs=["u"], outputs={"up": {"event": True}},
        transitions=[{"from": "low", "to": "high", "when": "u > 1", "emit": {"up": True}}],
    )  # fmt: skip
    scenario = up.Scenario({"guard": guard, "counter": COUNTER}, {"counter.go": "guard.up"})
    with up.start(scenario, pace=up.Fixed(0.5), until=2.0, engine=engine) as run:
        run.step()
        run.set("guard.u", 2.0)
        assert (run["guard.state"], run["counter.n"]) == (1, 1)
        trace = run.finish()
    assert log(trace) == [("guard.up", 0.5, 0, True)]


# -------------------------------------------------------------------- recording, steps, couplings


def test_every_row_but_all_events(engine: Any) -> None:
    scenario = up.Scenario({"clock": up.Clock(0.3), "ramp": RAMP})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=1.0, every=4, engine=engine)
    assert trace.events.times("clock.tick") == pytest.approx([0.0, 0.3, 0.6, 0.3 * 3])
    assert trace.time[-1] == 1.0
    assert len(trace) < 6


def hybrid() -> up.Scenario:
    """A ramp that a threshold watches; every crossing is counted, and changes an input of a slow unit."""
    return up.Scenario(
        {
            "wave": up.Ode(states={"x": "v", "v": "-40*x"}, start={"x": 1.0}, outputs=["x", "v"]),
            "limit": up.Threshold(0.0),
            "counter": COUNTER,
            "slow": up.Ode(states={"y": "n - y"}, inputs=["n"], outputs=["y"]),
        },
        {
            "limit.signal": "wave.x",
            "counter.go": "limit.above or limit.below",
            "slow.n": "counter.n",
        },
    )


CROSSINGS = [(k + 0.5) * math.pi / math.sqrt(40) for k in range(6)]


@pytest.mark.parametrize("method", ["richardson", "milne"])
@pytest.mark.parametrize("correct", ["repeat", "next"])
def test_rejected_steps_leave_no_event_behind(engine: Any, method: Any, correct: Any) -> None:
    pace = up.ErrorControl(1e-4, method, correct, first=0.4, shortest=1e-4, longest=0.4, per="step")
    trace = up.simulate(hybrid(), pace=pace, until=3.0, inputs=up.Linear(), engine=engine)
    times = [(e.time, e.name) for e in trace.events]
    assert (sum(step.rejected for step in trace.steps) > 0) == (correct == "repeat")
    assert trace["counter.n"][-1] == len(times)
    assert all(one[1] != two[1] for one, two in pairwise(times))
    if correct == "next":
        return  # what a step that was too long has jumped over, nobody has seen
    assert [name for _, name in times] == ["limit.below", "limit.above"] * 3
    for (time, _), exact in zip(times, CROSSINGS, strict=True):
        step = next(i for i, t in enumerate(trace.time) if t == time)
        assert trace.time[step - 1] < exact <= time


@pytest.mark.parametrize(
    "coupling",
    [
        up.GaussSeidel(),
        up.GaussSeidel(["slow", "counter", "limit", "wave"]),
        up.Iterated(corrections=2),
        up.Iterated(tolerance=1e-9),
        up.MultiRate({"wave": 4, "limit": 1, "counter": 1, "slow": 2}),
        up.MultiRate({"wave": 2, "limit": 2, "counter": 1, "slow": 1}, slower="beside"),
        up.Negotiated(),
    ],
    ids=lambda coupling: type(coupling).__name__,
)
def test_couplings_with_events(engine: Any, coupling: Any) -> None:
    """Crossings are seen at the first communication point after them, whatever the coupling."""
    trace = up.simulate(hybrid(), pace=up.Fixed(1 / 64), until=3.0, coupling=coupling, engine=engine)
    grid = [math.ceil(exact * 64) / 64 for exact in CROSSINGS]
    assert [e.time for e in trace.events] == grid
    assert trace["counter.n"][-1] == 6
    # y' = n - y in the mean: exact for piecewise constant n.
    y = 0.0
    for k, (t0, t1) in enumerate(zip([0.0, *grid], [*grid, 3.0], strict=True)):
        y = k + (y - k) * math.exp(-(t1 - t0))
    assert trace["slow.y"][-1] == pytest.approx(y, abs=1e-6)


def test_constrained_with_events(engine: Any) -> None:
    """A force keeps x at time², and what is found by trial steps is no event: one crossing, at 0.5."""
    scenario = up.Scenario(
        {
            "a": up.Ode(states={"x": "f"}, inputs=["f"], outputs=["x"]),
            "ramp": RAMP,
            "limit": up.Threshold(0.2),
            "counter": COUNTER,
        },
        {"a.f": "force", "limit.signal": "a.x", "counter.go": "limit.above or limit.below"},
        inputs={"force": 0.0},
    )
    coupling = up.Constrained({"force": "a.x - ramp.x*ramp.x"})
    trace = up.simulate(scenario, pace=up.Fixed(0.125), until=1.0, coupling=coupling, engine=engine)
    assert log(trace) == [("limit.above", 0.5, 0, True)]
    assert trace["counter.n"][-1] == 1
    assert trace["a.x"] == pytest.approx(trace.time**2, abs=1e-9)


@pytest.mark.parametrize("outputs", ["solved", "lagged"])
@pytest.mark.parametrize("coupling", [up.Jacobi, up.GaussSeidel], ids=lambda kind: kind.__name__)
def test_a_chain_through_signals_happens_at_once(engine: Any, coupling: Any, outputs: Any) -> None:
    """An event changes a signal, which makes a condition true, and so on: all at the same instant."""
    scenario = up.Scenario(
        {
            "clock": up.Clock(1.0, offset=0.5),
            "counter": COUNTER,
            "limit": up.Threshold(0.5),
            "last": up.LastValue(0.0),
            "second": up.Threshold(1.0),
        },
        {
            "counter.go": "clock.tick",
            "limit.signal": "counter.n",
            "last.event": {"event": "limit.above", "value": 2.0},
            "second.signal": "last.value",
        },
    )
    trace = up.simulate(
        scenario, pace=up.Fixed(0.25), until=1.0, coupling=coupling(outputs=outputs), engine=engine
    )
    assert log(trace) == [
        ("clock.tick", 0.5, 0, True), ("limit.above", 0.5, 1, True), ("second.above", 0.5, 2, True),
    ]  # fmt: skip


def test_thousands_of_units(engine: Any) -> None:
    """A chain of events through all of them; nothing nests as deep as there are units."""
    count = 1100
    relay = up.StateMachine(
        states=["only"], initial="only", inputs={"go": {"event": True}}, outputs={"done": {"event": True}},
        transitions=[{"from": "only", "on": "go", "emit": {"done": True}}],
    )  # fmt: skip
    units: dict[str, Any] = {f"u{i}": relay for i in range(count)}
    links = {f"u{i}.go": f"u{i - 1}.done" for i in range(1, count)}
    scenario = up.Scenario({"first": up.Schedule([1.0]), **units}, {"u0.go": "first.event", **links})
    turns = up.Simultaneous(max_iterations=2 * count)
    trace = up.simulate(scenario, until=1.0, engine=engine, simultaneous=turns)
    assert [e.name for e in trace.events] == ["first.event", *(f"u{i}.done" for i in range(count))]
    assert np.array_equal([e.index for e in trace.events], range(count + 1))
