"""Variants: couplings and solvers that take turns, alike on both engines, and sound where they change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import upbeat as up
from conftest import ENGINES
from stability_models import FIGURE, masses
from upbeat.core.errors import MasterError, Problems
from upbeat.master.settings import master_from, settings_of

FINE = {"left": up.Euler(10), "right": up.Euler(10)}


def solved(solver: Any = "euler") -> up.Scenario:
    """The two masses of figure 5.4, both with this solver."""
    return masses(solver, **FIGURE)


def run(scenario: up.Scenario, pace: Any, coupling: Any, engine: str, **more: Any) -> up.Trace:
    return up.simulate(scenario, pace=pace, coupling=coupling, until=2.0, engine=engine, **more)


def test_a_variant_alone_is_what_it_says(engine: str) -> None:
    """Always the same block is the same as a scenario that has those solvers from the beginning."""
    variants = up.Variants(others={"fine": up.Variant(solvers=FINE)})
    there = run(solved(), up.Pattern([0.1], ["fine"]), variants, engine)
    plain = run(solved(up.Euler(10)), 0.1, up.Jacobi(), engine)
    usual = run(solved(), 0.1, variants, engine)
    for name in ("left.x", "left.v", "right.x", "right.F"):
        assert np.array_equal(there[name], plain[name])
        assert np.array_equal(usual[name], run(solved(), 0.1, up.Jacobi(), engine)[name])
    assert not np.array_equal(there["left.x"], usual["left.x"])
    assert {step.block for step in there.steps} == {"fine"}


def test_solvers_change_from_step_to_step(engine: str) -> None:
    """Against Euler steps by hand: seven fine ones, three coarse ones, again and again."""
    pattern = up.Pattern([0.1] * 10, ["fine"] * 7 + ["step"] * 3)
    variants = up.Variants(others={"fine": up.Variant(solvers=FINE)})
    trace = run(solved(), pattern, variants, engine)
    x = np.array([trace[name][0] for name in ("left.x", "left.v", "right.x", "right.v")])
    for k in range(20):
        force = trace["right.F"][k]
        held = x.copy()
        micro = 10 if k % 10 < 7 else 1
        for _ in range(micro):
            h = 0.1 / micro
            left = (x[1], force - x[0] - 0.1 * x[1])
            pull = x[2] - held[0] + 0.1 * (x[3] - held[1])
            x = x + h * np.array([*left, x[3], -x[2] - pull])
        assert [trace[n][k + 1] for n in ("left.x", "left.v", "right.x", "right.v")] == pytest.approx(
            x, abs=1e-12
        )


def turns(*names: str) -> up.Pattern:
    return up.Pattern([0.1, 0.05] * len(names), [name for name in names for _ in range(2)])


COUPLED = {
    "seidel": up.Variant(up.GaussSeidel()),
    "strong": up.Variant(up.Iterated(up.Jacobi(), corrections=2)),
    "stronger": up.Variant(up.Iterated(up.GaussSeidel(), corrections=3)),
    "often": up.Variant(up.MultiRate({"right": 3}), {"left": up.Midpoint(2)}),
    "oftener": up.Variant(up.MultiRate({"left": 2})),
    "refined": up.Variant(up.Refined()),
}


@pytest.mark.parametrize("name", COUPLED)
def test_a_coupling_that_takes_over_begins_as_at_the_start(engine: str, name: str) -> None:
    """Held inputs have no past: from a change on, a run is one that starts in those states."""
    variants = up.Variants(others=COUPLED)
    pace = up.Pattern([0.1, 0.1], ["step", name])
    trace = run(solved(), pace, variants, engine)
    alone = up.Variants(COUPLED[name].coupling, {"same": up.Variant(solvers=COUPLED[name].solvers)})
    states = ("left.x", "left.v", "right.x", "right.v")
    for k in range(0, 10, 2):
        for at, coupling, block in ((k, up.Jacobi(), None), (k + 1, alone, "same")):
            begun = solved().with_values({state: float(trace[state][at]) for state in states})
            step = 0.1 if block is None else up.Pattern([0.1], [block])
            one = up.simulate(begun, pace=step, coupling=coupling, until=0.1, engine=engine)
            assert [one[s][-1] for s in states] == pytest.approx(
                [trace[s][at + 1] for s in states], abs=1e-12
            )


def test_variants_of_one_coupling_beside_another_coupling(engine: str) -> None:
    """Three blocks, two couplings: a change of solvers alone is no change of the coupling."""
    others = {"fine": up.Variant(solvers=FINE), "seidel": COUPLED["seidel"]}
    pace = up.Pattern([0.1] * 4, ["step", "fine", "seidel", "fine"])
    trace = run(solved(), pace, up.Variants(others=others), engine)
    states = ("left.x", "left.v", "right.x", "right.v")
    for k in range(0, 12, 4):
        for at, coupling, solver in (
            (k, up.Jacobi(), up.Euler()),
            (k + 1, up.Jacobi(), up.Euler(10)),
            (k + 2, up.GaussSeidel(), up.Euler()),
            (k + 3, up.Jacobi(), up.Euler(10)),
        ):
            begun = solved(solver).with_values({state: float(trace[state][at]) for state in states})
            one = up.simulate(begun, pace=0.1, coupling=coupling, until=0.1, engine=engine)
            assert [one[s][-1] for s in states] == pytest.approx(
                [trace[s][at + 1] for s in states], abs=1e-12
            )


@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Polynomial(2), up.Continuous(), up.Smooth()])
def test_runs_come_close_to_the_solution_however_couplings_change(engine: str, inputs: Any) -> None:
    """With changes at every step and inputs of any kind: first order at least, never a blunder."""
    names = ["step", *COUPLED]
    exact = up.simulate(solved().monolith(), pace=0.1, until=2.0)

    def error(step: float) -> float:
        variants = up.Variants(others=COUPLED)
        pace = up.Pattern(
            [step] * (2 * len(names)), [n for pair in itertools.pairwise([*names, "step"]) for n in pair]
        )
        trace = run(solved("rk4"), pace, variants, engine, inputs=inputs)
        return abs(trace["left.x"][-1] - exact["left.x"][-1])

    assert error(0.005) < 0.02
    assert error(0.00125) < 0.5 * error(0.005)


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine only")
@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Polynomial(2), up.Continuous(), up.Smooth()])
def test_both_engines_do_the_same(inputs: Any) -> None:
    pace = up.Pattern([0.1, 0.05, 0.1, 0.2, 0.1, 0.1, 0.05, 0.1], ["step", *COUPLED, "seidel"])
    one, other = (run(solved(), pace, up.Variants(others=COUPLED), e, inputs=inputs) for e in ENGINES)
    assert list(one.steps) == list(other.steps)
    for name in one.names:
        assert np.array_equal(one[name], other[name]), name


def test_error_control_and_steps_that_are_rejected(engine: str) -> None:
    """What a rejected step has changed, the solver and who was last, is set back with it."""
    control = up.ErrorControl(1e-3, first=0.5, longest=0.5, per="step")
    table = ((0, 1, 0, 1), (1, 0, 1, 0))
    pace = up.Monitored(control, (0.05, 0.05, 0.2, 0.2), table, 0, ("step", "seidel", "step", "seidel"))
    one, other = (
        run(solved("rk4"), pace, up.Variants(others={"seidel": COUPLED["seidel"]}), e)
        for e in (engine, "interpret")
    )
    assert list(one.steps) == list(other.steps)
    assert one.steps.rejected
    assert np.array_equal(one["left.x"], other["left.x"])


def test_an_input_set_by_hand_reaches_whoever_is_next(engine: str) -> None:
    states = {"x": "u + w - x"}
    units = {n: up.Ode(states, inputs=["u", "w"], outputs=["x"], solver="euler") for n in "ab"}
    scenario = up.Scenario(
        units, connections={"a.u": "b.x", "b.u": "a.x", "a.w": "push"}, inputs={"push": {"start": 0.0}}
    )
    results = []
    for coupling, pace in (
        (up.Variants(others={"seidel": up.Variant(up.GaussSeidel())}), up.Pattern([0.1], ["seidel"])),
        (up.GaussSeidel(), up.Fixed(0.1)),
    ):
        with up.start(scenario, pace=pace, coupling=coupling, until=1.0, engine=engine) as sim:
            for _ in range(3):
                sim.step()
            sim.set("push", 1.0)
            results.append(sim.finish()["b.x"])
    assert results[0] == pytest.approx(results[1], abs=1e-14)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: up.Variants(others={"step": up.Variant()}), "cannot be called 'step'"),
        (lambda: up.Variants(others=["fine"]), "others of Variants are such as"),
        (lambda: up.Variants("jacobi"), "the coupling of Variants"),
        (lambda: up.Variant("jacobi"), "the coupling of a Variant"),
        (lambda: up.Variant(solvers=["rk4"]), "solvers of a Variant are such as"),
        (lambda: up.Variant(solvers={"left": "rk5"}), "no solver 'rk5'"),
        (lambda: up.Pattern([]), "steps of Pattern lists sizes"),
        (lambda: up.Pattern([0.1], ["a", "b"]), "1 steps, but blocks for 2"),
        (lambda: up.Pattern([0.1], "fine"), "blocks of Pattern names step blocks"),
        (lambda: up.Pattern([-0.1]), "must be a positive number"),
    ],
)
def test_what_makes_no_sense(make: Any, said: str) -> None:
    with pytest.raises(MasterError, match=said):
        make()


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        (up.Variant(solvers={"middle": "rk4"}), "'middle' a solver, which is not a unit"),
        (up.Variant(solvers={"left": "dormand_prince"}), "it remembers the steps it has made"),
        (up.Variant(up.Variants()), "Variants cannot be one of several variants"),
        (up.Variant(up.Interruptible()), "Interruptible cannot be one of several variants"),
    ],
)
def test_what_does_not_fit_the_scenario(variant: up.Variant, said: str) -> None:
    with pytest.raises(MasterError, match=said):
        up.Master(up.Fixed(0.1), up.Variants(others={"other": variant})).program(solved())


def test_solvers_of_other_units_cannot_change() -> None:
    unit = up.PythonOde(lambda t, x: [-x[0]], {"x": 1.0})
    variants = up.Variants(others={"fine": up.Variant(solvers={"a": "euler"})})
    with pytest.raises(MasterError, match=r"kind PythonOde, and only units given by equations"):
        up.Master(up.Fixed(0.1), variants).program(up.Scenario({"a": unit}))


def test_a_pace_that_asks_for_a_block_that_is_not_there() -> None:
    variants = up.Variants(others={"fine": up.Variant(solvers=FINE)})
    with pytest.raises(MasterError, match="step block 'fin', which the coupling does not have"):
        run(solved(), up.Pattern([0.1], ["fin"]), variants, "interpret")


def test_it_can_be_written_in_a_file() -> None:
    others = {"fine": up.Variant(solvers=FINE), "both": up.Variant(up.GaussSeidel(("left", "right")), FINE)}
    master = up.Master(up.Pattern((0.1, 0.2), ("fine", "step")), up.Variants(up.Iterated(), others))
    problems = Problems()
    assert master_from(settings_of(master), problems) == master
    assert not problems.found
    for table, said in (
        ({"kind": "variants", "others": {"a": 3}}, "a variant is a table, not 3"),
        ({"kind": "variants", "others": {"a": {"couplings": "jacobi"}}}, "unknown key 'couplings'"),
        ({"kind": "variants", "others": {"a": {"coupling": "jakobi"}}}, "unknown coupling 'jakobi'"),
        ({"kind": "variants", "others": {"a": {"solvers": {"left": "rk5"}}}}, "no solver 'rk5'"),
    ):
        problems = Problems()
        assert master_from({"coupling": table, "step": 0.1}, problems) is None
        assert said in str(problems.found[0].what)


def test_explain_says_what_the_blocks_are() -> None:
    made = up.experiment(solved(), pace=0.1, until=1.0, coupling=up.Variants(others=COUPLED))
    text = up.explain(made)
    assert "step block 'seidel': GaussSeidel; order of the units" in text
    assert (
        "step block 'often': MultiRate; steps per communication step: left: 1 step(s); right: 3 step(s); "
        in text
    )
    assert "left by midpoint (steps 2)" in text


def test_histories_over_steps_of_several_lengths_are_refused() -> None:
    """Left and right hear each other in every short step of the one, in every long step of the other."""
    variants = up.Variants(others={"often": up.Variant(up.MultiRate({"left": 3, "right": 3}))})
    made = up.experiment(solved(), pace=0.1, coupling=variants, inputs="linear", until=1.0)
    with pytest.raises(MasterError, match="keep a history of its own") as caught:
        assert made.plan
    assert 'inputs = "hold"' in str(caught.value)
    assert up.experiment(solved(), pace=0.1, coupling=variants, inputs="hold", until=1.0).plan
