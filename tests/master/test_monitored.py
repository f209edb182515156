"""Monitored: only sequences of its table, what it changes is in the log, alike on both engines."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import upbeat as up
from conftest import ENGINES
from upbeat.core.errors import MasterError, Problems
from upbeat.engine.nesting.model import open_ended
from upbeat.master.paces.pace import Proposal, nominal_step
from upbeat.master.settings import master_from, settings_of

TURNS = ((0, 1), (0, -1))
"""After the longer of two steps comes the shorter one."""


def reasons(trace: up.Trace) -> list[str]:
    return [step.reason for step in trace.steps for _ in range(step.count)]


def decay() -> up.Scenario:
    return up.Scenario({"a": up.Ode({"x": "-x"}, start={"x": 1.0}, solver="rk4")})


def wave() -> up.Scenario:
    """Something that error control makes many different steps for."""
    states = {"x": "v", "v": "-25*x + f"}
    force = up.Function(inputs=["x"], outputs={"f": "sin(3*x)"})
    return up.Scenario(
        {"a": up.Ode(states, start={"x": 1.0}, inputs=["f"], outputs=["x"], solver="rk4"), "b": force},
        connections={"a.f": "b.f", "b.x": "a.x"},
    )


def test_it_replaces_what_is_not_allowed(engine: str) -> None:
    pace = up.Monitored(up.EventDriven(0.2), (0.1, 0.2), TURNS)
    trace = up.simulate(decay(), pace=pace, until=1.0, engine=engine)
    assert trace.time == pytest.approx([0.0, 0.2, 0.3, 0.5, 0.6, 0.8, 0.9, 1.0])
    assert reasons(trace) == [
        *["as far as possible", "0.1 instead of 0.2, which is not proven here"] * 3,
        "as far as possible",
    ]


def test_it_rounds_down_and_says_what_no_proof_covers(engine: str) -> None:
    pace = up.Monitored(up.EventDriven(0.15), (0.1, 0.2), TURNS)
    trace = up.simulate(decay(), pace=pace, until=0.25, engine=engine)
    assert trace.time == pytest.approx([0.0, 0.1, 0.2, 0.25])
    assert reasons(trace) == [
        *["0.1, the next of the proven steps"] * 2,
        "what is left, which no proof covers",
    ]


def test_a_request_shorter_than_all_gets_the_shortest(engine: str) -> None:
    trace = up.simulate(
        decay(), pace=up.Monitored(up.Fixed(0.01), (0.1, 0.2), TURNS), until=0.5, engine=engine
    )
    assert trace.time == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_the_nearest_one_may_be_longer(engine: str) -> None:
    """Only 0.3 is allowed at first; 0.1 is asked for."""
    table = ((-1, -1, 1), (1, -1, -1))
    pace = up.Monitored(up.EventDriven(0.1), (0.1, 0.2, 0.3), table)
    trace = up.simulate(decay(), pace=pace, until=0.5, engine=engine)
    assert trace.time == pytest.approx([0.0, 0.3, 0.4, 0.5])
    assert reasons(trace)[0] == "0.3 instead of 0.1, which is not proven here"


def test_steps_that_are_asked_for_stay_on_their_grid(engine: str) -> None:
    plain = up.simulate(decay(), pace=up.Fixed(0.1), until=2.0, engine=engine)
    kept = up.simulate(decay(), pace=up.Monitored(up.Fixed(0.1), (0.1,), ((0,),)), until=2.0, engine=engine)
    assert np.array_equal(plain.time, kept.time)
    assert np.array_equal(plain["a.x"], kept["a.x"])
    assert set(reasons(kept)) == {"fixed step"}


def sequence(trace: up.Trace, sizes: tuple[float, ...]) -> list[int]:
    """Which of the sizes the steps have, the last one left out."""
    lengths = np.diff(trace.time)[:-1]
    found = [int(np.argmin(np.abs(np.array(sizes) - length))) for length in lengths]
    assert lengths == pytest.approx([sizes[k] for k in found], rel=1e-6)
    return found


@pytest.mark.parametrize("correct", ["repeat", "next"])
def test_error_control_keeps_to_the_table(engine: str, correct: Any) -> None:
    sizes = (0.01, 0.02, 0.05, 0.1)
    table = ((0, 1, 1, -1), (0, 2, -1, 2), (1, -1, 0, -1))
    control = up.ErrorControl(1e-3, correct=correct, first=0.05, shortest=1e-6, longest=0.2, per="step")
    trace = up.simulate(wave(), pace=up.Monitored(control, sizes, table), until=3.0, engine=engine)
    node = 0
    taken = sequence(trace, sizes)
    for k in taken:
        assert table[node][k] >= 0
        node = table[node][k]
    assert len(set(taken)) > 2
    said = " ".join(reasons(trace))
    assert "is not proven here" in said


def test_a_rejected_step_stands_where_no_shorter_one_is_proven(engine: str) -> None:
    control = up.ErrorControl(1e-9, first=0.1, shortest=1e-6, longest=0.2, per="step")
    trace = up.simulate(wave(), pace=up.Monitored(control, (0.1,), ((0,),)), until=1.0, engine=engine)
    assert trace.time == pytest.approx(np.linspace(0.0, 1.0, 11))
    assert (
        reasons(trace)[1:]
        == ["after a step that should have been shorter, where no shorter one is proven"] * 9
    )


def test_known_events_come_before_proofs(engine: str) -> None:
    """A clock ticks every 0.15: what is left before it is a step of its own, and leads nowhere."""
    scenario = up.Scenario(
        {"a": up.Ode({"x": "-x"}, start={"x": 1.0}, solver="rk4"), "clock": up.Clock(0.15)}
    )
    pace = up.Monitored(up.EventDriven(0.2), (0.1, 0.2), TURNS)
    trace = up.simulate(scenario, pace=pace, until=0.4, engine=engine)
    assert trace.time == pytest.approx([0.0, 0.1, 0.15, 0.25, 0.3, 0.4])


FINE = up.Variants(others={"fine": up.Variant(solvers={"a": up.RK4(2)})})


def test_the_nearest_policy_has_the_same_size_then_the_next_block(engine: str) -> None:
    """Asked for: "coarse" 0.2. Of what is allowed, the other size is farther away than another block."""
    names = ("step", "fine", "coarse")
    others = {"fine": up.Variant(solvers={"a": up.RK4(2)}), "coarse": up.Variant(solvers={"a": "euler"})}
    inner = up.Pattern([0.2], ["coarse"])
    for allowed, taken in (
        (("coarse 0.1", "step 0.2", "fine 0.2"), "fine 0.2"),
        (("coarse 0.1", "step 0.2"), "step 0.2"),
        (("coarse 0.1", "step 0.1"), "coarse 0.1"),
        (("step 0.1", "fine 0.1"), "fine 0.1"),
    ):
        policies = [(size, name) for size in (0.1, 0.2) for name in names]
        row = [0 if f"{name} {size:g}" in allowed else -1 for size, name in policies]
        sizes, blocks = zip(*policies, strict=True)
        pace = up.Monitored(inner, sizes, [row], 0, blocks)
        trace = up.simulate(decay(), pace=pace, coupling=up.Variants(others=others), until=0.4, engine=engine)
        assert set(reasons(trace)[:-1]) == {f"{taken} instead of coarse 0.2, which is not proven here"}
        assert {f"{step.block} {step.size:g}" for step in trace.steps} == {taken}


def test_a_block_without_policies_stands_for_any(engine: str) -> None:
    pace = up.Monitored(up.Fixed(0.2), (0.1, 0.2), TURNS, 0, ("fine", "fine"))
    trace = up.simulate(decay(), pace=pace, coupling=FINE, until=0.6, engine=engine)
    assert reasons(trace) == [
        "fine 0.2, the next of the proven steps",
        "fine 0.1 instead of fine 0.2, which is not proven here",
        "fine 0.1, the next of the proven steps",
        "fine 0.2, the next of the proven steps",
    ]
    assert {step.block for step in trace.steps} == {"fine"}


def test_rejected_steps_may_be_made_by_another_block(engine: str) -> None:
    control = up.ErrorControl(1e-6, first=0.1, shortest=1e-6, longest=0.2, per="step")
    pace = up.Monitored(control, (0.02, 0.1), ((0, 0),), 0, ("fine", "step"))
    trace = up.simulate(wave(), pace=pace, coupling=FINE, until=0.5, engine=engine)
    assert {(step.block, round(step.size, 9)) for step in trace.steps} == {("fine", 0.02)}
    assert trace.steps.rejected


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine only")
@pytest.mark.parametrize("inner", [up.Fixed(0.04), up.EventDriven(0.13), up.ErrorControl(1e-4, per="step")])
def test_both_engines_make_the_same_steps(inner: Any) -> None:
    sizes = (0.01, 0.03, 0.04, 0.1)
    for table in itertools.product(((1, 0, -1, 1), (0, -1, -1, 0)), ((-1, -1, 0, 1), (1, 0, 0, -1))):
        one, other = (
            up.simulate(wave(), pace=up.Monitored(inner, sizes, table), until=2.0, engine=engine)
            for engine in ENGINES
        )
        assert np.array_equal(one.time, other.time)
        assert np.array_equal(one["a.x"], other["a.x"])
        assert list(one.steps) == list(other.steps)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pace": 0.1}, "the pace of Monitored cannot be 0.1"),
        ({"steps": ()}, "among 1 to 1000 steps"),
        ({"steps": (0.2, 0.1)}, "ascending order"),
        ({"steps": (0.1, -0.2)}, "must be a positive number"),
        ({"steps": 0.1}, "are lists"),
        ({"leads": ()}, "one of its 0 nodes"),
        ({"leads": ((0, 0, 0),)}, "where 3 steps lead, but there are 2"),
        ({"leads": ((0, 1),)}, "nodes are 0 to 0, or -1"),
        ({"leads": ((-1, -1),)}, "allows no step at all"),
        ({"start": 2}, "counted from 0, not 2"),
        ({"blocks": ("fine",)}, "2 steps, but blocks for 1"),
        ({"blocks": "fine"}, "names step blocks"),
        ({"steps": (0.1, 0.1)}, "has a step twice: 0.1, 0.1"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(MasterError, match=said):
        up.Monitored(**({"pace": up.Fixed(0.1), "steps": (0.1, 0.2), "leads": TURNS} | settings))


def test_it_can_be_written_in_a_file() -> None:
    master = up.Master(up.Monitored(up.LookAhead(0.2), (0.1, 0.2), TURNS, 1))
    table = settings_of(master)
    problems = Problems()
    assert master_from(table, problems) == master
    assert not problems.found
    assert "blocks" not in table["pace"]
    named = up.Master(up.Monitored(up.Fixed(0.2), (0.1, 0.1), TURNS, 1, ("step", "fine")))
    assert master_from(settings_of(named), problems) == named
    assert settings_of(named)["pace"]["blocks"] == ["step", "fine"]


def falling() -> up.Scenario:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0}, solver="midpoint")
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
    return up.Scenario({"ball": ball}, events={"bounce": bounce})


def test_a_pace_inside_that_looks_ahead_gets_its_derivatives() -> None:
    pace = up.Monitored(up.LookAhead(0.2), (0.1, 0.2), TURNS)
    (told,) = [note for note in up.Master(pace).program(falling()).notes if "'bounce'" in note]
    assert "values, rates and curvatures" in told


def test_events_off_reaches_inside() -> None:
    pace = up.Monitored(up.LookAhead(0.2), (0.1, 0.2), TURNS)
    settled = up.Master(pace, events="off").settled(falling())
    assert settled.pace == up.Monitored(up.Fixed(0.2), (0.1, 0.2), TURNS)


def test_a_pace_inside_that_gives_up_ends_the_run(engine: str) -> None:
    control = up.ErrorControl(1e-12, first=0.1, shortest=0.1, longest=0.2)
    pace = up.Monitored(control, (0.1, 0.2), ((0, 0),))
    with pytest.raises(up.StepError, match=r"has an error .* × tolerance at .*, and cannot be shorter"):
        up.simulate(wave(), pace=pace, until=1.0, engine=engine)


class GivesUp:
    """A pace that has no next step."""

    def begin(self, span: Any) -> tuple[float, ...]:
        return ()

    def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
        return Proposal(math.nan, "enough is enough"), state


def test_a_pace_inside_may_give_up_before_a_step() -> None:
    with pytest.raises(up.StepError, match="enough is enough"):
        up.simulate(decay(), pace=up.Monitored(GivesUp(), (0.1, 0.2), TURNS), until=1.0)


def test_it_must_not_need_the_length_of_the_run_where_nobody_knows_it() -> None:
    with pytest.raises(MasterError, match="does not know the stop time"):
        open_ended(up.Monitored(up.ErrorControl(), (0.1, 0.2), TURNS))
    inner = open_ended(up.Monitored(up.ErrorControl(per="step"), (0.1, 0.2), TURNS))
    assert inner == up.Monitored(up.ErrorControl(per="step", longest=math.inf), (0.1, 0.2), TURNS)


def test_its_usual_step_is_the_one_that_stands_for_that_of_the_pace_inside() -> None:
    for pace, usual in (
        (up.Fixed(0.1), 0.1),
        (up.LookAhead(0.25), 0.2),
        (up.Fixed(0.01), 0.1),
        (up.EventDriven(), 0.0),
        (up.ErrorControl(), 0.0),
    ):
        assert nominal_step(up.Monitored(pace, (0.1, 0.2), TURNS)) == usual
