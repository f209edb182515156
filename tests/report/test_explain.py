"""The explanation of an experiment, as people read it."""

from __future__ import annotations

import json
from typing import Any

import upbeat as up
from upbeat.core.ports import Causality, Kind, Port
from upbeat.report.explain import explain_data
from upbeat.scenario.events.links import relay
from upbeat.scenario.signals import EventSeries

SCENARIO = up.Scenario(
    units={
        "mass": up.Ode(
            states={"x": "v", "v": "(F - x)/m"}, inputs={"F": {"unit": "N"}}, parameters={"m": 2.0}
        ),
        "damper": up.Function(
            inputs=["v"], outputs={"F": {"value": "-d*v", "unit": "N"}}, parameters={"d": 0.4}
        ),
        "clock": up.PythonFunction(lambda t, u, p: t, outputs=["t"]),
    },
    connections={"mass.F": "damper.F", "damper.v": "mass.v"},
    name="damped mass",
)
EXPERIMENT = up.experiment(
    SCENARIO,
    pace=0.1,
    until=2.0,
    coupling=up.GaussSeidel(order=("mass", "damper", "clock"), outputs="lagged"),
    ports={"mass.F": up.Polynomial(2)},
    engine="interpret",
)


def test_the_page() -> None:
    text = up.explain(EXPERIMENT, program=False)
    abilities = "can be set back to an earlier state (rollback), can turn its state into bytes and back"
    assert text.splitlines() == [
        "damped mass: from t = 0 s to 2 s",
        "",
        "Units",
        "  mass (Ode, solver rk4)",
        "    inputs:     F in N",
        "    outputs:    x, v",
        "    parameters: m = 2.0",
        "  damper (Function)",
        "    inputs:     v",
        "    outputs:    F in N (direct feedthrough from v)",
        "    parameters: d = 0.4",
        "  clock (PythonFunction)",
        "    inputs:     none",
        "    outputs:    t",
        "",
        "Abilities",
        f"  mass, damper: {abilities}, knows its slopes: how outputs react to inputs, "
        "runs inside the native engine without Python, can be called from different threads, "
        "one call at a time",
        f"  clock: {abilities}",
        "",
        "Connections",
        "  mass.F = damper.F",
        "  damper.v = mass.v",
        "",
        "Order in which ports are evaluated at one instant",
        "  mass.x → mass.v → damper.v → damper.F → mass.F → clock.t",
        "",
        "Algebraic loops",
        "  none",
        "",
        "Master",
        "  coupling: gauss_seidel (order mass, damper, clock; outputs lagged)",
        "  pace: fixed (step 0.1)",
        "  inputs: hold",
        "    mass.F: polynomial (degree 2)",
        "  order of the units: mass → damper → clock (given)",
        "  outputs are lagged: read after a step, they still reflect the inputs of that step",
        "",
        "Engine",
        "  interpret: asked for",
    ]


def test_the_program_comes_last_and_all_of_it_is_data() -> None:
    text = up.explain(EXPERIMENT)
    assert "advance  mass from now to next" in text.split("Program")[1]
    data = json.loads(json.dumps(explain_data(EXPERIMENT)))
    assert data["order"][-1] == "clock.t"
    assert data["units"][1]["solver"] is None


def test_a_loop_is_shown_closed() -> None:
    gain = up.Function(inputs=["u"], outputs={"y": "0.5*u + 1"})
    loop = up.Scenario(units={"a": gain, "b": gain}, connections={"a.u": "b.y", "b.u": "a.y"})
    text = up.explain(up.experiment(loop, pace=0.1, until=1.0), program=False)
    line = text.split("Algebraic loops")[1].splitlines()[1].strip()
    names = line.split(" → ")
    assert names[0] == names[-1]
    assert set(names) == {"a.u", "a.y", "b.u", "b.y"}


def test_events() -> None:
    """A lamp is told what to show by an officer, who is a list of times."""
    orders = Port("cmd", Causality.INPUT, Kind.INTEGER, items=("idle", "work"), event=True)
    lamps = Port("lamp", Causality.INPUT, Kind.INTEGER, items=("red", "green"), event=True)
    units = {
        "officer": relay(None, {orders: EventSeries((1.0, 2.0), ((0,), (1,)))}),
        "light": relay(None, {lamps: None}),
    }
    senders = [
        {"event": "officer.cmd", "map": {"work": "green"}, "when": "awake"},
        {"event": "officer.cmd", "value": "red"},
        "call",
    ]
    scenario = up.Scenario(
        units,
        {"light.set_lamp": senders},
        inputs={"awake": True, "call": {"event": True, "items": lamps.items}},
    )
    lines = up.explain(up.experiment(scenario, pace=1.0, until=3.0), program=False).splitlines()
    at = lines.index("Event connections")
    assert lines[at + 1 : at + 4] == [
        "  light.set_lamp = officer.cmd with 'green' when inputs.awake and officer.cmd == 1",
        "    or, if that is absent, officer.cmd with 'red'",
        "    or, if that is absent, inputs.call",
    ]
    assert "    outputs:    awake (direct feedthrough from set_awake), call (event)" in lines


def test_events_between_units_as_they_were_written() -> None:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    events: dict[str, Any] = {
        "bounce": {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-ball.v"}},
        "low": {"when": ["ball.x - 0.5", "ball.v < 0"]},
        "high": {"when": max, "of": ["ball.x", "ball.v"]},
    }
    found = up.experiment(up.Scenario({"ball": ball}, events=events), pace=0.1, until=1.0, events="auto")
    text = up.explain(found, program=False)
    assert "    when ball.x <= 0 and ball.v < 0\n" in text
    assert "    when all of these are true, or at most zero: ball.x - 0.5, ball.v < 0\n" in text
    assert "    when max(ball.x, ball.v)\n" in text
    assert "e-308" not in text
    assert "  pace: revised (pace look_ahead (step 0.1))\n" in text
    assert "events of ball: seen coming by LookAhead" in text
