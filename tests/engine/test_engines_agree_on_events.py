"""Two engines, one meaning: random events between units, whatever pace looks for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.engine.native import machine as native

needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")
thorough = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
NUMBERS = st.sampled_from([-3.0, -1.5, -0.5, 0.0, 0.25, 1.0, 2.0])
SOLVERS = st.sampled_from(["rk4", "euler", {"kind": "midpoint", "steps": 3}, "dormand_prince"])


@st.composite
def scenarios(draw: st.DrawFn) -> up.Scenario:
    """One to three oscillators that pull at each other, and events at which they turn round."""
    count = draw(st.integers(1, 3))
    units, connections = {}, {}
    for k in range(count):
        a, b, c, d = (draw(NUMBERS) for _ in range(4))
        units[f"m{k}"] = up.Ode(
            {"x": "v", "v": f"{a}*x + 0.1*{b}*v + {c}*u + {d}"},
            inputs={"u": draw(NUMBERS)},
            outputs=draw(st.sampled_from([["x", "v"], {"x": {"value": "x"}, "v": "v", "s": "x + v"}])),
            start={"x": draw(NUMBERS), "v": draw(NUMBERS)},
            solver=draw(SOLVERS),
        )
        if count > 1:
            connections[f"m{k}.u"] = f"m{(k + 1) % count}.x"
    events = {f"e{k}": draw(happenings(count)) for k in range(draw(st.integers(1, 3)))}
    return up.Scenario(units, connections, events=events)


@st.composite
def happenings(draw: st.DrawFn, count: int) -> dict[str, Any]:
    names = [f"m{k}.{port}" for k in range(count) for port in "xv"]
    when = []
    for _ in range(draw(st.integers(1, 3))):
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from([*names, "0", "0.5"]))
        when.append(f"{draw(st.sampled_from(['', '-']))}({one} - {other}) + {draw(NUMBERS)}")
    changed = draw(st.lists(st.sampled_from(names[1::2]), unique=True, max_size=2))
    return {"when": when, "then": {v: f"-0.8*{v} + 0.1" for v in changed}}


def paces(step: float) -> st.SearchStrategy[Any]:
    methods = ["auto", "published", "secant", "quadratic", "hermite", "hermite2", "approach"]
    ahead = st.builds(up.LookAhead, st.just(step), st.sampled_from(methods), symbolic=st.booleans())
    control = up.ErrorControl(0.01, "milne", first=step, shortest=step / 64, longest=2 * step)
    inner = st.one_of(st.sampled_from([up.Fixed(step), up.EventDriven(step), control]), ahead)
    revised = st.builds(
        up.Revised,
        inner,
        tolerance=st.sampled_from([None, 1e-3, 1e-7]),
        max_iterations=st.sampled_from([1, 3, 30]),
        after=st.sampled_from([None, 0.3, 1.0]),
    )
    return st.one_of(ahead, revised)


def outcome(scenario: up.Scenario, **settings: Any) -> tuple[Any, ...]:
    """What a run gives, bit for bit, or how it fails."""
    text, trace = "", None
    try:
        trace = up.simulate(scenario, **settings)
    except up.RunError as error:
        text, trace = str(error), error.trace
    assert trace is not None
    columns = {name: [float(v).hex() for v in trace[name]] for name in ("time", *trace.names)}
    return text, columns, list(trace.steps), [(e.name, e.time.hex(), e.index) for e in trace.events]


@needs_native
@thorough
@given(scenarios(), st.data())
def test_both_engines_find_the_same_events(scenario: up.Scenario, data: st.DataObject) -> None:
    chosen: dict[str, Any] = {
        "pace": data.draw(paces(0.25)),
        "until": 2.1,
        "inputs": data.draw(st.sampled_from(["hold", "linear"])),
        "coupling": data.draw(st.sampled_from(["jacobi", "gauss_seidel", "negotiated"])),
        "events": data.draw(st.sampled_from([None, None, "auto", "look_ahead", "revised", "off"])),
    }
    try:
        assert up.experiment(scenario, **chosen).plan
    except up.MasterError as error:  # error control has no nominal step, and Revised keeps its place
        assert "has none" in str(error) or "has a say in every step" in str(error)  # noqa: PT017
        return
    assert outcome(scenario, engine="interpret", **chosen) == outcome(scenario, engine="native", **chosen)
