"""Step negotiation: all units end a step together, at the earliest stop, or the scenario is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import upbeat as up
from upbeat.core.errors import Problems
from upbeat.master.paces.pace import Proposal
from upbeat.master.settings import master_from


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


def test_only_jacobi_is_negotiated() -> None:
    with pytest.raises(up.MasterError, match="coupling inside Negotiated must be Jacobi, not GaussSeidel"):
        up.Negotiated(up.GaussSeidel())  # type: ignore[arg-type]
    problems = Problems()
    settings = {"step": 0.1, "coupling": {"kind": "negotiated", "coupling": "gauss_seidel"}}
    assert master_from(settings, problems) is None
    assert "coupling inside Negotiated" in str(problems.found)


class Halving:
    """Counts time, and goes half of the way whenever it is asked for more than 0.03."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.time = start

    def get(self, port: str) -> float:
        return self.time

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        assert t == self.time
        self.time = t + (to - t) / 2 if to - t > 0.03 else to
        return self.time

    def save(self) -> float:
        return self.time

    def restore(self, token: float) -> None:
        self.time = token


PORTS = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
STOPS = frozenset({up.Ability.EARLY_RETURN})
BOTH = STOPS | {up.Ability.ROLLBACK}


def test_a_second_stop_may_be_earlier_still(engine: str) -> None:
    """Asked for 0.1 it goes 0.05, asked for that 0.025, which it accepts: so all go 0.025."""
    halving = up.PythonUnit(Halving, PORTS, abilities=BOTH)
    units = {"a": halving, "b": limited(9, rollback=False), "c": limited(9, rollback=True)}
    trace = up.simulate(ring(units), pace=0.1, until=0.2, coupling=up.Negotiated(), engine=engine)
    expected, t = [0.0], 0.0
    for goal in (0.1, 0.2):
        while t < goal:
            length = goal - t
            while length > 0.03:
                length /= 2
            t = goal if length == goal - t else t + length
            expected.append(t)
    np.testing.assert_allclose(trace.time, expected, rtol=1e-12)
    np.testing.assert_allclose(trace["b.y"], trace.time, rtol=1e-12)


def test_one_that_is_alone_does_not_repeat_what_it_did(engine: str) -> None:
    """It is where it has stopped; the other one, which cannot be set back, follows."""
    units = {"a": up.PythonUnit(Halving, PORTS, abilities=BOTH), "b": limited(9, rollback=False)}
    trace = up.simulate(ring(units), pace=0.1, until=0.2, coupling=up.Negotiated(), engine=engine)
    np.testing.assert_allclose(trace.time, [0.0, 0.05, 0.075, 0.1, 0.15, 0.175, 0.2], rtol=1e-12)
    np.testing.assert_allclose(trace["b.y"], trace.time, rtol=1e-12)


def test_negotiations_without_end_are_ended(engine: str) -> None:
    units = {"a": up.PythonUnit(Halving, PORTS, abilities=BOTH), "b": limited(9, rollback=True)}
    with pytest.raises(up.StepError, match=r"agreeing with a on the end of the step.*earliest stop"):
        up.simulate(ring(units), pace=0.1, until=0.2, coupling=up.Negotiated(max_iterations=1), engine=engine)


def test_a_unit_that_cannot_follow_to_a_stop_ends_the_run(engine: str) -> None:
    """`b` stops at 0.04 and cannot be set back; `a`, who had agreed to go on, does not get there."""
    units = {"a": up.PythonUnit(Fickle, PORTS, abilities=BOTH), "b": limited(0.04, rollback=False)}
    with pytest.raises(up.UnitError, match="a"):
        up.simulate(ring(units), pace=0.1, until=0.2, coupling=up.Negotiated(), engine=engine)


class Fickle(Halving):
    """Makes long steps as a whole and short ones by half."""

    def advance(self, t: float, to: float, early: bool) -> float:
        self.time = t + (to - t) / 2 if to - t < 0.05 else to
        return self.time


# -------------------------------------------------------------------- values go round, too


class Integrator:
    """x' = u in closed form, in steps of at most 0.03. Notes its trajectories and how far it went."""

    seen: ClassVar[list[tuple[float, list[float]]]] = []

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.x, self.trajectory = 0.0, [0.0]

    def get(self, port: str) -> float:
        return self.x

    def set(self, port: str, coefficients: Any) -> None:
        self.trajectory = list(coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        reached = min(to, t + 0.03) if early else to
        self.x += float(np.polynomial.Polynomial(self.trajectory).integ()(reached - t))
        self.seen.append((reached - t, self.trajectory))
        later = np.polynomial.Polynomial([reached - t, 1.0])
        self.trajectory = list(np.polynomial.Polynomial(self.trajectory)(later).coef)
        return reached

    def save(self) -> tuple[float, list[float]]:
        return self.x, self.trajectory

    def restore(self, token: tuple[float, list[float]]) -> None:
        self.x, self.trajectory = token


class Grid:
    """A pace that stops at given times."""

    retries = False

    def __init__(self, times: Any) -> None:
        self.times = times

    def prepare(self, blocks: Any, wiring: Any) -> Any:
        return blocks, self

    def native(self) -> None:
        return None

    def begin(self, span: Any) -> tuple[float, ...]:
        return ()

    def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
        return Proposal(float(self.times[self.times > t][0]), "given"), state

    def review(self, state: Any, t: float, reached: float, read: Any) -> Any:
        return None, state

    def note(self, state: Any, t: float, fired: Any, read: Any) -> Any:
        return state


def coupled(rollback: bool) -> up.Scenario:
    """x' = v in the unit that stops, v' = -x in one that does not."""
    stopping = up.PythonUnit(Integrator, PORTS, abilities=BOTH if rollback else STOPS)
    velocity = up.Ode(states={"v": "-x"}, start={"v": 1.0}, inputs=["x"], solver=up.RK4(steps=4))
    return up.Scenario(units={"p": stopping, "q": velocity}, connections={"p.u": "q.v", "q.x": "p.y"})


@pytest.mark.parametrize(
    ("inputs", "rollback"),
    [
        *(
            (inputs, True)
            for inputs in (up.Hold(), up.Linear(), up.Polynomial(3), up.Continuous(), up.Smooth())
        ),
        # Continuous and Smooth aim at the end of the step asked for, which p cannot take back then; and the
        # points of a polynomial are chosen for the step asked for.
        *((inputs, False) for inputs in (up.Hold(), up.Linear())),
    ],
    ids=str,
)
def test_negotiated_steps_are_jacobi_steps_of_the_agreed_lengths(
    engine: str, inputs: Any, rollback: bool
) -> None:
    kept = {"until": 1.0, "inputs": inputs, "engine": engine}
    found = up.simulate(coupled(rollback), pace=0.1, coupling=up.Negotiated(), **kept)
    assert len(found.time) == 41, "0.03, 0.06, 0.09, 0.1, and so on"
    fixed = up.simulate(coupled(rollback), pace=Grid(found.time), coupling=up.Jacobi(), **kept)
    np.testing.assert_array_equal(found.time, fixed.time)
    for name in ("p.y", "q.v"):
        np.testing.assert_allclose(found[name], fixed[name], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["p.y"], np.sin(found.time), atol=0.05)


@pytest.mark.parametrize(("inputs", "smoothness"), [(up.Continuous(), 1), (up.Smooth(), 2)])
def test_trajectories_go_on_from_where_a_step_was_cut_short(
    engine: str, inputs: Any, smoothness: int
) -> None:
    Integrator.seen.clear()
    up.simulate(coupled(False), pace=0.1, until=1.0, coupling=up.Negotiated(), inputs=inputs, engine=engine)
    assert len(Integrator.seen) == 40
    for (length, before), (_, after) in pairwise(Integrator.seen):
        left, right = np.polynomial.Polynomial(before), np.polynomial.Polynomial(after)
        for k in range(smoothness):
            assert left.deriv(k)(length) == pytest.approx(right.deriv(k)(0.0), abs=1e-12)


@pytest.mark.parametrize("rollback", [True, False])
def test_stops_that_lead_nowhere_end_the_run(engine: str, rollback: bool) -> None:
    """A unit that stops after 1e-12 each time would need 1e12 steps."""
    units = {"a": limited(1e-12, rollback=rollback), "b": limited(9.0, rollback=True)}
    with pytest.raises(
        up.StepError,
        match=r"events follow each other without end at .*: stops of a, one about every 1e-12 s",
    ) as caught:
        up.simulate(ring(units), pace=0.1, until=1.0, coupling=up.Negotiated(), engine=engine)
    assert caught.value.trace is not None
    assert caught.value.trace.steps.count == 2000


def test_short_steps_now_and_then_are_no_reason_to_end() -> None:
    units = {"a": limited(1e-4 * (1 + 1e-9), rollback=True), "b": limited(9.0, rollback=True)}
    trace = up.simulate(ring(units), pace=1e-4, until=0.2, coupling=up.Negotiated())
    assert trace.steps.count == 2000
