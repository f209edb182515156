"""Converters between signals and events, against what they must give in closed form."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.core.errors import ModelError
from upbeat.engine.native import machine as native

ENGINES = ["interpret", *(["native"] if native.available() else [])]


def happened(unit: Any, until: float, *names: str) -> list[tuple[Any, ...]]:
    """Everything that a unit sends by itself up to a time."""
    found = []
    while unit.due() <= until:
        unit.advance(unit.time, max(unit.due(), unit.time))
        found.append((unit.time, *(unit.get(name) for name in names)))
        unit.jump()
    return found


@given(
    every=st.floats(0.01, 5.0),
    offset=st.floats(-3.0, 3.0),
    start=st.sampled_from([0.0, -1.0, 7.3]),
    whole=st.integers(0, 50),
    on_grid=st.booleans(),
)
@settings(deadline=None)
def test_a_clock_ticks_at_times_from_the_index(
    every: float, offset: float, start: float, whole: int, on_grid: bool
) -> None:
    start = offset + whole * every if on_grid else start
    unit = up.Clock(every, offset=offset).instantiate("c", start)
    times = [offset + k * every for k in range(2000)]
    expected = [t for t in times if t >= start][:20]
    found = happened(unit, expected[-1], "tick")
    assert [t for t, _ in found] == expected
    assert all(tick is True for _, tick in found)


def test_a_sampler_tells_the_signal() -> None:
    unit = up.Sampler(0.5, offset=0.25, size=2).instantiate("s", 0.0)
    unit.set("signal", [(1.0, 0.0), (2.0, -1.0)])
    assert happened(unit, 1.3, "event") == [(0.25, (1.5, -0.25)), (0.75, (2.5, -0.75)), (1.25, (3.5, -1.25))]


def test_the_last_value_is_held() -> None:
    unit = up.LastValue("on", items=["off", "on"]).instantiate("h", 0.0)
    assert (unit.get("value"), unit.due()) == (1, math.inf)
    unit.set("event", [0])
    unit.jump()
    assert unit.get("value") == 0
    pair = up.LastValue([1.0, 2.0], unit="m").with_values({"value[1]": 5.0}).instantiate("h", 0.0)
    assert pair.get("value") == (1.0, 5.0)
    pair.set("event", [(3.0, 4.0)])
    pair.jump()
    assert pair.get("value") == (3.0, 4.0)


def test_edges() -> None:
    unit = up.Edge().instantiate("e", 0.0)
    unit.set("signal", [True])
    assert (unit.due(), unit.get("rise")) == (0.0, None), "what it is at the start is no event"
    assert unit.jump() is False
    seen = []
    for value in (True, False, False, True):
        unit.set("signal", [value])
        seen.append((unit.get("rise"), unit.get("fall")))
        unit.jump()
    assert seen == [(None, None), (None, True), (None, None), (True, None)]


@given(level=st.floats(-2, 2), band=st.floats(0, 1), values=st.lists(st.floats(-4, 4), min_size=1))
@settings(deadline=None)
def test_a_threshold_with_hysteresis(level: float, band: float, values: list[float]) -> None:
    unit = up.Threshold(level, hysteresis=band).instantiate("t", 0.0)
    unit.set("signal", [values[0]])
    unit.jump()
    above = values[0] > level
    for value in values:
        unit.set("signal", [value])
        rises = not above and value > level + band / 2
        falls = above and value < level - band / 2
        assert (unit.get("above"), unit.get("below")) == (rises or None, falls or None)
        unit.jump()
        above = (above or rises) and not falls
        assert unit.due() == math.inf


@given(
    times=st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5]), min_size=1).map(sorted),
    start=st.sampled_from([-1.0, 0.0, 0.7, 1.0, 3.5, 4.0]),
)
@settings(deadline=None)
def test_a_schedule_is_kept(times: list[float], start: float) -> None:
    values = [float(i) for i in range(len(times))]
    unit = up.Schedule(times, values).instantiate("s", start)
    assert happened(unit, 10.0, "event") == [(t, v) for t, v in zip(times, values, strict=True) if t >= start]


def test_values_of_a_schedule() -> None:
    (port,) = up.Schedule([1, 2, 3], ["b", "a", "b"]).ports
    assert (port.items, port.event) == (("b", "a"), True)
    assert up.Schedule([1], ["b"], items=["a", "b"]).ports[0].items == ("a", "b")
    assert happened(up.Schedule([1]).instantiate("s", 0.0), 2.0, "event") == [(1.0, True)]
    assert happened(up.Schedule([1], [4], of="integer").instantiate("s", 0.0), 2.0, "event") == [(1.0, 4)]


MODELS = [
    up.LastValue(),
    up.LastValue(True),
    up.LastValue("off", items=["off", "on"]),
    up.LastValue(3, of="integer", size=2),
    up.Sampler(0.1, offset=1.0, unit="m"),
    up.Sampler(0.1, items=["a", "b"]),
    up.Edge(),
    up.Threshold(2.0, hysteresis=0.5, unit="degC"),
    up.Clock(3.0),
    up.Schedule([1.0, 2.0], ["a", "b"]),
    up.Schedule([1.0, 2.0]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_converters_are_written_as_they_were_read(model: Any) -> None:
    assert type(model)(**model.to_spec()) == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert hash(model) == hash(type(model)(**model.to_spec()))


def test_other_values() -> None:
    assert up.Clock(1.0).with_values({"every": 2.0}) == up.Clock(2.0)
    changed = up.Threshold(1.0).with_values({"level": 3.0, "hysteresis": 0.5})
    assert changed == up.Threshold(3.0, hysteresis=0.5)
    with pytest.raises(ModelError, match="more than 0"):
        up.Clock(1.0).with_values({"every": 0.0})
    with pytest.raises(ModelError, match="no value 'evry'"):
        up.Clock(1.0).with_values({"evry": 0.5})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: up.Clock(0.0), "every must be more than 0"),
        (lambda: up.Clock("often"), "every"),  # type: ignore[arg-type]
        (lambda: up.Sampler(1.0, of="boolean"), "edge"),
        (lambda: up.Sampler(1.0, of="string"), "no strings"),
        (lambda: up.LastValue("off"), "items"),
        (lambda: up.Threshold(0.0, hysteresis=-1.0), "0 or more"),
        (lambda: up.Threshold(math.inf), "finite"),
        (lambda: up.Schedule([]), "needs its times"),
        (lambda: up.Schedule([2.0, 1.0]), "1 follows 2"),
        (lambda: up.Schedule([1.0, 2.0], [1.0]), "2 times, but 1 values"),
        (lambda: up.Schedule([1.0], [True]), "leave the values out"),
        (lambda: up.Schedule([1.0], items=["a"]), "give a list of values"),
        (lambda: up.Schedule([1.0], ["b"], items=["a"]), "not one of a"),
    ],
)
def test_what_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_signal_sampled_and_held_again(engine: str) -> None:
    ramp = up.Ode({"x": "1"})
    units = {"ramp": ramp, "sampler": up.Sampler(0.3), "held": up.LastValue(-1.0)}
    units |= {
        "high": up.Threshold(0.5),
        "flag": up.Function(["x"], {"on": {"value": "x > 0.75", "kind": "boolean"}}),
    }
    units |= {"edge": up.Edge()}
    scenario = up.Scenario(
        units,
        {
            "sampler.signal": "ramp.x",
            "held.event": "sampler.event",
            "high.signal": "ramp.x",
            "flag.x": "ramp.x",
            "edge.signal": "flag.on",
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.25), until=1.0, engine=engine)
    samples = [0 * 0.3, 1 * 0.3, 2 * 0.3, 3 * 0.3]
    assert trace.events.times("sampler.event").tolist() == samples
    assert trace.events.values("sampler.event").tolist() == pytest.approx(samples, abs=1e-12)
    for t in trace.time:
        after = max(s for s in samples if s <= t)
        before = max([s for s in samples if s < t], default=-1.0) if t in samples else after
        assert trace.at(t, "held.value") == pytest.approx(after, abs=1e-12)
        assert trace.at(t, "held.value", side="left") == pytest.approx(before, abs=1e-12)
    assert trace.events.times("high.above").tolist() == [0.6], "the first communication point beyond 0.5"
    assert trace.events.times("edge.rise").tolist() == [3 * 0.3]
