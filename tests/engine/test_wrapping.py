"""Continuous units as discrete-event ones and the reverse, against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import upbeat as up

H = 0.05
LIMITS = {"tooHot": "T >= 21", "tooCold": "T <= 19"}
HEAT = {"off": 0.0, "on": 1.0}
ROOM = up.Ode({"T": "(30*q - T)/10"}, inputs={"q": 1.0}, start={"T": 20.0}, outputs=["T"], solver=up.RK4())
CONTROLLER = up.StateMachine(
    inputs={"tooHot": {"event": True}, "tooCold": {"event": True}},
    outputs={"switch": {"event": True, "items": list(HEAT)}},
    initial="heating",
    states=["heating", "cooling"],
    transitions=[
        {"from": "heating", "to": "cooling", "on": "tooHot", "emit": {"switch": "off"}},
        {"from": "cooling", "to": "heating", "on": "tooCold", "emit": {"switch": "on"}},
    ],
)


def switches(count: int) -> list[float]:
    """When somebody switches who looks at the exact temperature every H."""
    found: list[float] = []
    T, goal, k = 20.0, 30.0, 0
    while len(found) < count:
        k += 1
        T = goal + (T - goal) * math.exp(-H / 10)
        if (goal > 0 and T >= 21) or (goal == 0 and T <= 19):
            found.append(k * H)
            goal = 30.0 - goal
    return found


def test_a_continuous_unit_as_a_discrete_one(engine: Any) -> None:
    wrapped = up.as_discrete(ROOM, H, events=LIMITS, sample=["T"])
    assert {p.name: (p.causality.value, p.event) for p in wrapped.ports} == {
        "q": ("input", True),
        "tooHot": ("output", True),
        "tooCold": ("output", True),
        "T": ("output", True),
    }
    scenario = up.Scenario(
        {"room": wrapped, "controller": CONTROLLER},
        {
            "controller.tooHot": "room.tooHot",
            "controller.tooCold": "room.tooCold",
            "room.q": {"event": "controller.switch", "map": HEAT},
        },
    )
    trace = up.simulate(scenario, until=12.0, engine=engine)
    np.testing.assert_allclose(trace.events.times("controller.switch"), switches(8), rtol=1e-12)
    first = switches(1)[0]
    for t, _, value in trace.events.of("room.T"):
        if t <= first:
            assert value == pytest.approx(30 - 10 * math.exp(-t / 10), rel=1e-9)
    np.testing.assert_allclose(trace.events.times("room.T"), np.arange(241) * H, rtol=1e-12)


@pytest.mark.parametrize("names", [("room", "controller"), ("controller", "room")])
def test_a_discrete_unit_as_a_continuous_one(engine: Any, names: tuple[str, str]) -> None:
    hold = {"q": {"event": "switch", "map": HEAT, "start": 1.0}}
    wrapped = up.as_continuous(CONTROLLER, H, inputs=["T"], events=LIMITS, hold=hold)
    models: dict[str, Any] = {"room": ROOM, "controller": wrapped}
    scenario = up.Scenario(
        {name: models[name] for name in names}, {"controller.T": "room.T", "room.q": "controller.q"}
    )
    trace = up.simulate(scenario, pace=H, until=12.0, engine=engine)
    q = trace["controller.q"]
    found = [t for t, before, now in zip(trace.time[1:], q[:-1], q[1:], strict=True) if before != now]
    np.testing.assert_allclose(found[:8], switches(8), rtol=1e-12, err_msg="whatever the order of the units")


def test_samples_are_taken_from_the_start_of_the_run(engine: Any) -> None:
    wrapped = up.as_discrete(ROOM, 0.1, sample=["T"])
    trace = up.simulate(up.Scenario({"room": wrapped}), start=0.05, until=0.36, engine=engine)
    assert trace.events.times("room.T").tolist() == [0.05 + k * 0.1 for k in range(4)]


def test_an_event_input_with_labels(engine: Any) -> None:
    machine = up.StateMachine(
        inputs={"heard": {"event": True, "items": ["up", "down"]}},
        variables={"n": 0.0},
        outputs={"n": "n", "said": {"event": True, "kind": "real"}},
        initial="on",
        states=["on"],
        transitions=[
            {
                "from": "on",
                "on": "heard",
                "when": "heard == 'up'",
                "do": {"n": "n + 1"},
                "emit": {"said": "n"},
            },
            {"from": "on", "on": "heard", "when": "heard == 'down'", "do": {"n": "n - 1"}},
        ],
    )
    wrapped = up.as_continuous(
        machine,
        0.1,
        inputs=["u"],
        events={"heard": {"up": "u > 0.5", "down": "u < -0.5"}},
        hold={"last": {"event": "said", "start": -1.0}},
    )
    wave = up.Function(outputs={"u": "sin(2*pi*time)"})
    scenario = up.Scenario({"wave": wave, "counter": wrapped}, {"counter.u": "wave.u"})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=3.05, engine=engine)
    assert trace["counter.last"][-1] == 0.0, "up and down once in each period, so it is 0 before each up"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: up.as_discrete(ROOM, H, events={"hot": "X > 1"}), "there is no output 'X'.*T"),
        (lambda: up.as_discrete(ROOM, H, sample=["X"]), "there is no output 'X' to sample"),
        (lambda: up.as_discrete(ROOM, up.ErrorControl(1e-3), sample=["T"]), "steps of one size"),
        (lambda: up.as_discrete(up.Ode({"x": "1"}), H), "needs events"),
        (
            lambda: up.as_discrete(ROOM, H, events={"T": "T > 1"}, sample=["T"]),
            "'T' is an entry of events, too",
        ),
        (lambda: up.as_discrete(ROOM, H, events={"q": "T > 1"}), "the model has an input of that name"),
        (
            lambda: up.as_discrete(ROOM, up.ErrorControl(1e-3, per="step"), events=LIMITS),
            "first=1e-3, shortest=",
        ),
        (
            lambda: up.as_continuous(CONTROLLER, H, inputs=["T"], events={"hot": "T > 1"}, hold={}),
            "no event input 'hot'.*tooHot",
        ),
        (
            lambda: up.as_continuous(CONTROLLER, H, inputs=["T"], events={}, hold={"q": {"event": "swich"}}),
            "hold.'q'. needs an event output.*switch",
        ),
    ],
)
def test_what_does_not_fit_is_named(make: Any, message: str) -> None:
    with pytest.raises(up.InvalidInput, match=message):
        make()
