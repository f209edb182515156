"""Step negotiation: all units end a step together, at the earliest stop, or the scenario is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up


def limited(most: float, *, rollback: bool, calls: list[tuple[float, float]] | None = None) -> up.PythonUnit:
    """A unit that accepts steps of at most `most` and counts time in its output."""

    class Limited:
        def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
            self.time = start

        def get(self, port: str) -> float:
            return self.time

        def set(self, port: str, coefficients: Any) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            assert t == self.time, "a unit is only ever asked to go on from its own time"
            self.time = min(to, t + most) if early else to
            assert early or to - t <= most * (1 + 1e-9), "what it cannot do without stopping is never asked"
            if calls is not None:
                calls.append((t, self.time))
            return self.time

        def save(self) -> float:
            return self.time

        def restore(self, token: float) -> None:
            self.time = token

    abilities = {up.Ability.EARLY_RETURN} if most < 1 else set()
    if rollback:
        abilities.add(up.Ability.ROLLBACK)
    ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
    return up.PythonUnit(Limited, ports, abilities=frozenset(abilities))


def ring(units: dict[str, up.PythonUnit]) -> up.Scenario:
    names = list(units)
    links = {f"{a}.u": f"{b}.y" for a, b in zip(names, names[1:] + names[:1], strict=True)}
    return up.Scenario(units=units, connections=links)


@pytest.mark.parametrize(
    "back", [(True, True, True), (True, False, False), (False, True, False), (False, True, True)]
)
def test_the_agreed_step_is_the_smallest_accepted(engine: str, back: tuple[bool, bool, bool]) -> None:
    units = {
        name: limited(most, rollback=rollback)
        for (name, most), rollback in zip({"a": 0.03, "b": 0.05, "c": 9.0}.items(), back, strict=True)
    }
    trace = up.simulate(ring(units), pace=0.1, until=0.3, coupling=up.Negotiated(), engine=engine)
    expected = sorted({round(k * 0.1 + j * 0.03, 9) for k in range(3) for j in range(4)} | {0.3})
    np.testing.assert_allclose(trace.time, expected, atol=1e-9)
    for name in units:
        np.testing.assert_allclose(trace[f"{name}.y"], trace.time, atol=1e-12)


def test_two_that_stop_and_cannot_be_set_back_are_refused_before_the_run() -> None:
    units = {
        "a": limited(0.03, rollback=False),
        "b": limited(0.05, rollback=False),
        "c": limited(9, rollback=True),
    }
    with pytest.raises(up.MasterError, match=r"a and b may stop.*cannot be set back.*rollback"):
        up.simulate(ring(units), pace=0.1, until=0.3, coupling=up.Negotiated())


def test_a_unit_that_cannot_be_set_back_moves_once_per_step(engine: str) -> None:
    calls: list[tuple[float, float]] = []
    units = {"a": limited(0.04, rollback=True), "b": limited(9, rollback=False, calls=calls)}
    up.simulate(ring(units), pace=0.1, until=0.2, coupling=up.Negotiated(), engine=engine)
    starts = [t for t, _ in calls]
    assert starts == sorted(set(starts))


def test_without_early_stops_it_is_plain_jacobi(engine: str) -> None:
    x = up.Ode(states={"x": "v"}, start={"x": 1.0}, inputs=["v"])
    v = up.Ode(states={"v": "-x"}, inputs=["x"])
    scenario = up.Scenario(units={"p": x, "q": v}, connections={"p.v": "q.v", "q.x": "p.x"})
    found = [
        up.simulate(scenario, pace=0.1, until=2.0, inputs=up.Continuous(), coupling=c, engine=engine)["p.x"]
        for c in (up.Jacobi(), up.Negotiated())
    ]
    np.testing.assert_array_equal(*found)
