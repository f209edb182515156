"""Steps of several sizes: their matrices against closed forms, proofs, and runs that are kept to them."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.core.errors import InvalidInput
from upbeat.stability.switched.system import reduced

ROOT = Path(__file__).parents[2]


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"reproduce/problems/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THESIS = load("policies")
MICRO = 10


@pytest.fixture(scope="module")
def pendulum() -> up.Scenario:
    return THESIS.pendulum_scenario(up.Euler(MICRO))


@pytest.fixture(scope="module")
def certified(pendulum: up.Scenario) -> up.Certified:
    return up.certified(pendulum, [0.2, 0.1], lift=2)


def test_the_matrices_are_those_of_the_thesis(certified: up.Certified) -> None:
    """Up to coordinates: the same eigenvalues, also of products."""
    mine = certified.system.matrices
    other = [THESIS.pendulum(step, step / MICRO, "euler") for step in certified.steps]
    assert certified.memory == 0
    for word in itertools.product(range(2), repeat=3):
        one, two = np.eye(4), np.eye(4)
        for k in word:
            one, two = mine[k] @ one, other[k] @ two
        assert np.sort_complex(np.linalg.eigvals(one)) == pytest.approx(
            np.sort_complex(np.linalg.eigvals(two)), abs=1e-9
        )


def test_what_is_proven(certified: up.Certified) -> None:
    assert certified.verdict == "unstable"
    assert certified.proven
    assert certified.linear
    assert certified.forbidden == ((0.2, 0.2, 0.2),)
    assert certified.leads == ((0, 1), (0, 2), (0, -1))
    assert "some sequence grows" in str(certified)
    assert "1.839 instead of 2 choices" in str(certified)
    data = certified.data()
    assert data["growing"][0]["steps"] == [0.2]
    assert data["growing"][0]["growth"] == pytest.approx(1.35901, abs=1e-5)
    assert data["leads"] == [[0, 1], [0, 2], [0, -1]]


class Worst:
    """Always asks for the step that makes most trouble, or for any at random."""

    def __init__(self, random: bool) -> None:
        self._rng = np.random.default_rng(3) if random else None

    def begin(self, span: Any) -> tuple[float, ...]:
        return ()

    def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
        from upbeat.master.paces.pace import Proposal

        step = 0.2 if self._rng is None else float(self._rng.choice([0.1, 0.2]))
        return Proposal(min(t + step, limit), "whatever"), state


@pytest.mark.parametrize("random", [False, True])
def test_a_run_under_the_monitor_never_grows(
    pendulum: up.Scenario, certified: up.Certified, engine: str, random: bool
) -> None:
    """In the norm of the proof, step by step; the same requests without the monitor blow up."""
    trace = up.simulate(pendulum, pace=certified.monitor(Worst(random)), until=30.0, engine=engine)
    assert abs(trace["plant.p"][-1]) < 1e-4
    lengths = np.diff(trace.time)
    assert not any(np.allclose(lengths[k : k + 3], 0.2) for k in range(len(lengths) - 2))
    if not random:
        free = up.simulate(pendulum, pace=Worst(random), until=30.0, engine=engine)
        assert abs(free["plant.p"][-1]) > 1e15


def test_error_control_under_the_monitor(pendulum: up.Scenario, certified: up.Certified, engine: str) -> None:
    """Its tolerance alone lets a system that is at rest be woken up."""
    control = up.ErrorControl(1e-2, method="milne", correct="next", first=0.2, longest=0.2)
    free = up.simulate(pendulum, pace=control, until=60.0, engine=engine)
    kept = up.simulate(pendulum, pace=certified.monitor(control), until=60.0, engine=engine)
    assert abs(kept["plant.a"][-20:]).max() < 1e-6 < abs(free["plant.a"][-20:]).max()


def test_inputs_that_look_back_make_policies_of_sequences() -> None:
    """A matrix for every pair of steps, and products of them are what a run does."""
    scenario = THESIS.masses_scenario(up.RK4(4))
    found = up.certified(scenario, [0.1, 0.25], lift=0, inputs=up.Polynomial(2))
    assert found.memory == 1
    assert found.system.automaton.nodes == 2
    assert len(found.system.matrices) == 4
    # Many rounds of 0.1 · 0.25 · 0.25 in a run decay as the product of the three pairs says.
    pairs = {w: found.system.matrices[2 * w[0] + w[1]] for w in itertools.product(range(2), repeat=2)}
    product = pairs[1, 1] @ pairs[0, 1] @ pairs[1, 0]
    expected = float(np.abs(np.linalg.eigvals(product)).max())

    class Rounds(Worst):
        def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
            from upbeat.master.paces.pace import Proposal

            phase = round((t % 0.6) / 0.05) % 12  # 0, then 2 (0.1), then 7 (0.35)
            return Proposal(min(t + (0.1 if phase == 0 else 0.25), limit), "in rounds"), state

    trace = up.simulate(scenario, pace=Rounds(False), until=90.0, inputs=up.Polynomial(2))
    size = np.sqrt(sum(trace[name] ** 2 for name in ("left.x", "left.v", "right.x", "right.v")))
    peaks = [size[(trace.time > a) & (trace.time <= a + 20.0)].max() for a in (20.0, 65.0)]
    rate = (peaks[1] / peaks[0]) ** (0.6 / 45.0)
    assert rate == pytest.approx(expected, abs=5e-3)


def test_a_smaller_state_has_the_same_eigenvalues() -> None:
    """What every step overwrites, and what none reads, goes."""
    rng = np.random.default_rng(0)
    core = 0.5 * rng.standard_normal((2, 3, 3))
    give, take = rng.standard_normal((5, 3)), rng.standard_normal((3, 4))
    big = np.zeros((2, 12, 12))
    for k in range(2):
        big[k, :3, :3] = core[k]
        big[k, 3:8, :3] = give @ core[k]  # outputs, read by nobody
        big[k, :3, 8:] = 0.0 * take
    small = reduced(big)
    assert small.shape == (2, 3, 3)
    for word in itertools.product(range(2), repeat=3):
        one = small[word[2]] @ small[word[1]] @ small[word[0]]
        two = core[word[2]] @ core[word[1]] @ core[word[0]]
        assert np.sort(np.abs(np.linalg.eigvals(one))) == pytest.approx(
            np.sort(np.abs(np.linalg.eigvals(two)))
        )


def test_what_is_not_linear_is_local() -> None:
    states = {"x": "-sin(x) + u"}
    scenario = up.Scenario(
        {
            "a": up.Ode(states, start={"x": 0.5}, inputs=["u"], outputs=["x"], solver="rk4"),
            "b": up.Function(inputs=["x"], outputs={"u": "-0.5*x"}),
        },
        connections={"a.u": "b.u", "b.x": "a.x"},
    )
    found = up.certified(scenario, [0.1, 0.2], at="rest")
    assert found.verdict == "stable"
    assert not found.linear
    assert str(found).startswith("Locally stable: for small motions around rest, if")
    assert found.data()["local"] is True


def test_steps_of_which_nothing_is_left(pendulum: up.Scenario) -> None:
    found = up.certified(pendulum, [0.2])
    assert str(found).startswith("Unstable: with steps of 0.2 s some sequence grows, and forbidding")
    with pytest.raises(InvalidInput, match="there is nothing to keep to"):
        found.monitor(up.Fixed(0.1))


def test_what_cannot_be_certified(pendulum: up.Scenario) -> None:
    with pytest.raises(InvalidInput, match="at least one size"):
        up.certified(pendulum, [])
    with pytest.raises(InvalidInput, match="each of the steps"):
        up.certified(pendulum, [0.1, -0.1])
    for steps in (None, 0.1, "0.1"):
        with pytest.raises(InvalidInput, match="steps are a list of sizes"):
            up.certified(pendulum, steps)  # type: ignore[arg-type]
    for seconds in (float("nan"), -1.0, "long"):
        with pytest.raises(InvalidInput, match="seconds are a number from 0 on"):
            up.certified(pendulum, [0.1], seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="cases to tell apart"):
        up.certified(pendulum, [0.01 * k for k in range(1, 30)], inputs=up.Polynomial(3))


# -------------------------------------------------------------------- solvers and couplings


def same_products(mine: Any, other: Any, count: int, turns: int = 60) -> None:
    """Eigenvalues of random products: equal systems have them in common, whatever their coordinates."""
    rng = np.random.default_rng(1)
    for _ in range(turns):
        one, two = np.eye(mine[0].shape[0]), np.eye(other[0].shape[0])
        for k in rng.integers(0, count, 3).tolist():
            one, two = mine[k] @ one, other[k] @ two
        values = [np.sort(np.abs(np.linalg.eigvals(product)))[::-1] for product in (one, two)]
        least = min(map(len, values))
        assert values[0][:least] == pytest.approx(values[1][:least], abs=1e-9)


def test_sixteen_settings_of_solvers_are_those_of_the_thesis() -> None:
    """Section 5.4, from one program: 4 unstable policies, 22 unstable pairs, the joint spectral radius."""
    scenario = THESIS.masses_scenario("euler")
    found = up.certified(scenario, [0.1], coupling=THESIS.masses_variants(), lift=0)
    assert found.memory == 0
    assert len(found.policies) == 16
    assert {policy.step for policy in found.policies} == {0.1}
    names = [policy.block if policy.block != "step" else "euler×1 euler×1" for policy in found.policies]
    same_products(found.system.matrices, [THESIS.MASSES[name] for name in names], 16)
    radii = np.array(found.system.radii)
    assert np.count_nonzero(radii >= 1) == 4
    assert np.count_nonzero(np.array(found.system.products(2).radii) >= 1) == 22
    bound = up.joint_radius(found.system.only(np.flatnonzero(radii < 1).tolist()), tolerance=1e-5)
    assert 0.999118 <= bound.lower <= bound.upper <= 0.99914
    # Forbidding single policies leaves the 12 that are stable alone.
    assert found.proven
    assert found.kept.entropy_base == pytest.approx(12.0)
    assert all(len(word) == 1 for word in found.forbidden)


@pytest.fixture(scope="module")
def pendula() -> up.Certified:
    """Section 5.10: two sizes of steps × four settings of the solver."""
    return up.certified(THESIS.pendulum_scenario(up.Euler(1)), [0.1, 0.2], coupling=PENDULA, lift=1)


PENDULA = THESIS.pendulum_variants()


def test_sizes_times_solvers_are_the_eight_policies_of_the_thesis(pendula: up.Certified) -> None:
    """Table 5.2, lift 1: 7.2568898 choices at each step, from one program."""
    assert len(pendula.policies) == 8
    other = []
    for block, step in pendula.policies:
        solver, _, micro = ("euler×1" if block == "step" else block).partition("×")
        other.append(THESIS.pendulum(step, step / int(micro), solver))
    same_products(pendula.system.matrices, other, 8)
    assert pendula.proven
    assert pendula.linear
    assert pendula.kept.entropy_base == pytest.approx(7.2568898, abs=1e-6)
    data = pendula.data()
    assert data["blocks"] == ["step", *PENDULA.others] * 2
    assert all(len(policy) == 2 for word in data["forbidden"] for policy in word)


class WorstPolicy(Worst):
    """Always asks for the policy that grows fastest."""

    def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
        from upbeat.master.paces.pace import Proposal

        step = 0.2
        block = "midpoint×10"
        if self._rng is not None:
            step = float(self._rng.choice([0.1, 0.2]))
            block = str(self._rng.choice(["step", *PENDULA.others]))
        return Proposal(min(t + step, limit), "whatever", block), state


@pytest.mark.parametrize("random", [False, True])
def test_a_run_that_changes_solvers_never_grows(pendula: up.Certified, engine: str, random: bool) -> None:
    scenario = THESIS.pendulum_scenario(up.Euler(1))
    pace = pendula.monitor(WorstPolicy(random))
    kept = up.simulate(scenario, pace=pace, coupling=PENDULA, until=40.0, engine=engine)
    assert abs(kept["plant.p"][-5:]).max() < 1e-4
    node, taken = pace.start, 0
    for step in (one for one in kept.steps if one.last < 39.7):
        for _ in range(step.count):
            node = pace.leads[node][_policy(pendula, step.block, step.size)]
            assert node >= 0
            taken += 1
    assert taken > 100
    said = {step.reason for step in kept.steps}
    assert any(" instead of midpoint×10 0.2, which is not proven here" in reason for reason in said)
    if not random:
        free = up.simulate(scenario, pace=WorstPolicy(False), coupling=PENDULA, until=40.0, engine=engine)
        assert abs(free["plant.p"][-1]) > 1e15


def _policy(found: up.Certified, block: str, size: float) -> int:
    (k,) = [
        k
        for k, policy in enumerate(found.policies)
        if policy.block == block and abs(policy.step - size) < 1e-6
    ]
    return k


@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Continuous()])
def test_couplings_that_take_turns_do_what_their_matrices_say(inputs: Any) -> None:
    """The growth of a long run over any pattern of couplings is that of the product of its matrices."""
    scenario = THESIS.masses_scenario(up.RK4(2))
    others = {
        "seidel": up.Variant(up.GaussSeidel(("left", "right"))),
        "strong": up.Variant(up.Iterated(up.Jacobi(), corrections=1)),
    }
    variants = up.Variants(others=others)
    found = up.certified(scenario, [0.3], coupling=variants, inputs=inputs, lift=0, seconds=10.0)
    assert found.memory >= 1
    place = {policy.block: k for k, policy in enumerate(found.policies)}
    for pattern in (["seidel", "step"], ["step", "step", "seidel"], ["strong", "seidel", "seidel", "step"]):
        product = np.eye(found.system.size)
        word = [place[name] for name in pattern]
        for k in range(len(word)):
            window = [word[(k + back) % len(word)] for back in range(-found.memory, 1)]
            symbol = 0
            for digit in window:
                symbol = symbol * len(found.policies) + digit
            product = found.system.matrices[symbol] @ product
        expected = np.log(np.abs(np.linalg.eigvals(product)).max()) / len(word)
        rounds = 2400 // len(word)
        pace = up.Pattern([0.3] * len(word), pattern)
        until = 0.3 * rounds * len(word)
        trace = up.simulate(scenario, pace=pace, coupling=variants, inputs=inputs, until=until)
        size = np.log(np.sqrt(sum(trace[n] ** 2 for n in ("left.x", "left.v", "right.x", "right.v"))))
        half = len(size) // 2
        slope = np.polyfit(np.arange(half, len(size)), size[half:], 1)[0]
        assert slope == pytest.approx(expected, rel=0.03, abs=2e-4)


def test_a_coupling_used_alone_is_judged_alone() -> None:
    """Histories that others keep, and nobody feels any more, are not taken for motions that never decay."""
    scenario = THESIS.masses_scenario(up.RK4(2))
    variants = up.Variants(others={"seidel": up.Variant(up.GaussSeidel(("left", "right")))})
    found = up.certified(scenario, [0.1], coupling=variants, inputs=up.Linear(), lift=0)
    assert found.verdict == "stable"
    for block, coupling in (("step", up.Jacobi()), ("seidel", up.GaussSeidel(("left", "right")))):
        alone = up.stability_of(scenario, pace=0.1, coupling=coupling, inputs=up.Linear(), scan=False)
        k = [policy.block for policy in found.policies].index(block)
        matrix = found.system.matrices[
            k * (len(found.policies) ** (found.memory + 1) - 1) // (len(found.policies) - 1)
        ]
        assert np.abs(np.linalg.eigvals(matrix)).max() == pytest.approx(alone.spectral_radius, abs=1e-9)


def test_single_policies_and_what_is_wrong_with_them() -> None:
    scenario = THESIS.pendulum_scenario(up.Euler(1))
    some = up.certified(scenario, [("euler×10", 0.1), ("step", 0.2)], coupling=PENDULA, lift=0)
    assert [tuple(policy) for policy in some.policies] == [("euler×10", 0.1), ("step", 0.2)]
    one = up.certified(scenario, [0.1], blocks=["euler×10"], coupling=PENDULA, lift=0)
    assert [tuple(policy) for policy in one.policies] == [("euler×10", 0.1)]
    for steps, more, said in (
        ([("fine", 0.1)], {}, "no step block 'fine'"),
        ([0.1], {"blocks": ["fine"]}, "no step block 'fine'"),
        ([(0.1, "step")], {}, "a policy is a step block and a size"),
        ([("step", -1.0)], {}, "the step of each of the policies"),
    ):
        with pytest.raises(InvalidInput, match=said):
            up.certified(scenario, steps, coupling=PENDULA, **more)
