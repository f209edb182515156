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
from upbeat.stability.switched.policies import reduced

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
    found = up.certified(scenario, [0.1, 0.2])
    assert found.verdict == "stable"
    assert not found.linear
    assert str(found).startswith("Near the point of linearisation: Stable")
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
    with pytest.raises(InvalidInput, match="cases to tell apart"):
        up.certified(pendulum, [0.01 * k for k in range(1, 30)], inputs=up.Polynomial(3))
