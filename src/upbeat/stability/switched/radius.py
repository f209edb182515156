"""The joint spectral radius: how fast the worst sequence of a switched system grows, between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from upbeat.core.errors import check_type
from upbeat.stability.budget import Budget, checked_degree, checked_tolerance, checked_whole
from upbeat.stability.linear.followed import Verdict
from upbeat.stability.switched.automaton import Automaton
from upbeat.stability.switched.decide import (
    EDGES,
    LARGEST,
    Certificate,
    Lift,
    Prover,
    Repeated,
    grows,
    search,
    stressed_cycles,
)
from upbeat.stability.switched.system import SwitchedSystem

SMALL = 1e-6
"""Nothing tells growth from none below so small a part of the largest matrix: there bounds end."""


@dataclass(frozen=True)
class JointRadius:
    """Bounds of the growth per step of the worst sequence.

    `lower` is reached by repeating `cycle`; `certificates`, one for each component, prove that nothing grows
    faster than `upper`, which is infinite without a proof. `grows`: the cycle does, beyond all rounding.
    """

    lower: float
    upper: float
    cycle: Repeated | None
    certificates: tuple[Certificate, ...]
    grows: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.upper < 1.0:
            return "stable"
        return "unstable" if self.grows else "undecided"


def joint_radius(
    system: SwitchedSystem, *, tolerance: float = 1e-5, longest: int = 6, lift: int = 1, seconds: float = 60.0
) -> JointRadius:
    """Bounds that are apart by `tolerance` (relative), if time and lifts up to degree `lift` allow.

    With an automaton this is the constrained joint spectral radius.
    """
    check_type(system, SwitchedSystem, "system")
    budget = Budget(seconds)
    checked_tolerance(tolerance)
    checked_whole(longest, "longest", 1)
    checked_degree(lift)
    tried = search(system.automaton, system.matrices, longest, float("inf"), limit=200_000).best
    lower = Repeated((), 0.0)
    if tried is not None:
        policies = tuple(system.automaton.edges[e].symbol for e in tried.edges)
        lower = Repeated(policies, tried.growth)
    upper, proofs = 0.0, []
    for nodes in system.automaton.components():
        part = system.automaton.part(nodes)
        lower, bound, proof = _component(part, system, lower, tolerance, lift, budget)
        upper = max(upper, bound)
        proofs += proof
    surely = lower.growth > 1.0 and grows(system.matrices, lower.policies)
    return JointRadius(lower.growth, upper, lower if lower.policies else None, tuple(proofs), surely)


def _component(
    part: Automaton, system: SwitchedSystem, lower: Repeated, tolerance: float, limit: int, budget: Budget
) -> tuple[Repeated, float, list[Certificate]]:
    """Bisection of the rate for which there are forms."""
    if system.size > LARGEST:
        return lower, float("inf"), []
    prover = Prover(part, system.matrices, budget)
    upper, best = float("inf"), []
    minimum = SMALL * (float(np.linalg.norm(system.matrices, 2, (1, 2)).max()) or 1.0)
    rate = max(lower.growth, minimum) * (1.0 + tolerance)
    for degree in range(limit + 1):
        if len(Lift(part, degree).windows) > EDGES:
            break
        graph = Lift(part, degree).automaton
        low = max(lower.growth, minimum)  # below it there is nothing to prove
        while not budget.over:
            proof, found = prover.proof(degree, rate)
            if proof is not None:
                upper, best = rate, [proof]
            else:
                low = max(low, rate)
                for near in stressed_cycles(graph, prover.turned / rate, found):
                    if near.growth * rate > lower.growth:
                        policies = tuple(graph.edges[e].symbol for e in near.edges)
                        lower = Repeated(policies, near.growth * rate)
                        low = max(low, lower.growth)
            if upper <= low * (1.0 + tolerance):
                break
            rate = min(0.5 * (low + upper), 2.0 * low) if upper > low else upper
        if upper <= max(lower.growth, minimum) * (1.0 + 2.0 * tolerance):
            break
        rate = 0.5 * (lower.growth + upper)
    return lower, upper, best
