"""State machines in a run, on both engines: against the interpreter of their descriptions."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import upbeat as up
from machine_models import COLOURS, EVENTS, LABELS, Reference, machines
from upbeat.engine.native import machine as native

ENGINES = ["interpret", *(["native"] if native.available() else [])]
MOST = 30


def signal(t: float) -> float:
    return t - math.floor(t / 2.0) * 2.0 - 1.0


def scenario(spec: dict[str, Any], goes: list[float], tells: list[tuple[float, str]]) -> up.Scenario:
    units: dict[str, Any] = {
        "goes": up.Schedule(goes),
        "tells": up.Schedule([t for t, _ in tells], [label for _, label in tells], items=LABELS),
        "saw": up.Function(outputs={"y": "mod(time, 2) - 1"}),
        "m": up.StateMachine(**copy.deepcopy(spec)),
    }
    connections = {"m.go": "goes.event", "m.tell": "tells.event", "m.u": "saw.y"}
    return up.Scenario(units, connections)


_TIMES = st.lists(st.sampled_from([0.0, 0.25, 0.3, 1.0, 1.1, 1.6, 2.0]), min_size=1, max_size=5).map(sorted)


@given(
    spec=machines(),
    goes=_TIMES,
    tells=_TIMES.flatmap(lambda ts: st.tuples(*(st.tuples(st.just(t), st.sampled_from(LABELS)) for t in ts))),
    step=st.sampled_from([0.25, 0.4]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_runs_follow_the_description(
    spec: dict[str, Any], goes: list[float], tells: tuple[tuple[float, str], ...], step: float
) -> None:
    made = scenario(spec, goes, list(tells))
    most = up.Simultaneous(max_iterations=MOST)
    traces = []
    for engine in ENGINES:
        try:
            traces.append(up.simulate(made, until=2.5, pace=up.Fixed(step), simultaneous=most, engine=engine))
        except up.RunError:
            assert not traces, "the other engine had no problem"
            reject()  # a condition that always holds, or a number that grows beyond all bounds
    reference = Reference(spec, 0.0)
    log: list[tuple[str, float, Any]] = []
    going, telling = list(goes), list(tells)
    trace = traces[0]

    def shows(row: int) -> bool:
        """Whether the row has what the reference has."""
        values = reference.values
        same = all(trace[f"m.{name}"][row] == value for name, value in values.items())
        return same and trace["m.sum"][row] == values["x"] + 2 * reference.u + 0.75 * values["n"]

    rows = iter(range(len(trace)))
    for t in trace.one_sided().time.tolist():
        row = next(rows)
        assert reference.due() >= t or row == 0, "no step goes beyond what is due"
        reference.time, reference.u = t, signal(t)
        before = reference.values.copy()
        count = int((trace.time == t).sum())
        assert shows(row) or count == 1, "the first row of two is from before all jumps"
        while True:
            if going and going[0] <= t:
                going.pop(0)
                reference.events = {"go": True}
            elif telling and telling[0][0] <= t:
                reference.events = {"tell": telling.pop(0)[1]}
            elif reference.due() <= t:
                log += [(f"m.{name}", t, value) for name, value in _ordered(reference.sends())]
            else:
                break
            reference.jump()
        assert count == 2 or (count == 1 and before == reference.values)
        row = next(rows) if count == 2 else row
        assert shows(row)
    assert next(rows, None) is None
    for other in traces:
        mine = [(e.name, e.time, e.value) for e in other.events if e.name.startswith("m.")]
        assert mine == log
        assert other.events == trace.events
        assert other.time.tolist() == trace.time.tolist()
        for column in trace.names:
            assert other[column].tolist() == trace[column].tolist()


def _ordered(sends: dict[str, Any]) -> list[tuple[str, Any]]:
    """In the order of the outputs, as the log shows them."""
    shown = {"said": lambda value: COLOURS[value], "done": bool, "num": float}
    return [(name, shown[name](sends[name])) for name in EVENTS if name in sends]


# -------------------------------------------------------------------- the traffic light


def light_and_officer(rest: float) -> up.Scenario:
    colours = ["red", "green", "yellow"]
    light = up.StateMachine(
        {"auto": {"initial": "red", "states": colours}, "off": {}},
        initial="auto",
        inputs={"control": {"event": True, "items": ["toAuto", "toOff"]}},
        outputs={"lamp": {"event": True, "items": colours}},
        transitions=[
            {"from": "red", "to": "green", "after": 60, "emit": {"lamp": "green"}},
            {"from": "green", "to": "yellow", "after": 50, "emit": {"lamp": "yellow"}},
            {"from": "yellow", "to": "red", "after": 10, "emit": {"lamp": "red"}},
            {"from": "auto", "to": "off", "on": "control", "when": "control == 'toOff'"},
            {"from": "off", "to": "auto", "on": "control", "when": "control == 'toAuto'"},
        ],
    )
    officer = up.StateMachine(
        ["idle", "working"],
        initial="idle",
        outputs={"command": {"event": True, "items": ["toWork", "toIdle"]}},
        parameters={"rest": rest},
        transitions=[
            {"from": "idle", "to": "working", "after": "rest", "emit": {"command": "toWork"}},
            {"from": "working", "to": "idle", "after": 200, "emit": {"command": "toIdle"}},
        ],
    )
    command = {"event": "officer.command", "map": {"toWork": "toOff", "toIdle": "toAuto"}}
    return up.Scenario({"light": light, "officer": officer}, {"light.control": command})


@pytest.mark.parametrize("engine", ENGINES)
def test_the_traffic_light_of_the_thesis(engine: str) -> None:
    trace = up.simulate(light_and_officer(100.0), until=700.0, engine=engine)
    labels = ("red", "green", "yellow", "off")
    after = trace.one_sided()
    states = [(t, labels[int(s)]) for t, s in zip(after.time, after["light.state"], strict=True)]
    assert states == [
        (0, "red"), (60, "green"), (100, "off"), (300, "red"), (360, "green"), (400, "off"),
        (600, "red"), (660, "green"), (700, "off"),
    ]  # fmt: skip
    before = trace.one_sided("left")["light.state"].tolist()
    assert [labels[s] for s in before[1:]] == [state for _, state in states[:-1]]
    assert [(e.time, e.value) for e in trace.events["light.lamp"]] == [
        (60, "green"),
        (360, "green"),
        (660, "green"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("first", "lamps"), [("light", [(60.0, "green")]), ("officer", [])])
def test_who_goes_first_decides(engine: str, first: str, lamps: list[tuple[float, str]]) -> None:
    trace = up.simulate(light_and_officer(60.0), until=100.0, simultaneous=[first], engine=engine)
    assert [(e.time, e.value) for e in trace.events if e.name == "light.lamp"] == lamps
    assert trace["light.state"][-1] == 3
