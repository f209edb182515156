"""Whether all sequences of a switched system die out: a proof, a cycle that does not, or neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from upbeat.core.errors import check_type
from upbeat.stability.budget import Budget
from upbeat.stability.limits import checked_degree, checked_whole
from upbeat.stability.linear.followed import Verdict
from upbeat.stability.switched.automaton import Array, Automaton
from upbeat.stability.switched.certificate import Certificate
from upbeat.stability.switched.cycles import Cycle, grows, search
from upbeat.stability.switched.lifts import Lift
from upbeat.stability.switched.lyapunov import PURPOSE, Quadratics, best_forms
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.trace.extras import need

MARGINAL = 1.0 - 1e-12
"""A cycle that shrinks less than this does not die out as far as rounding lets us say."""
ASKED = 50
"""Of so many cycles, the fastest ones, it is found out whether they surely grow."""
STAYS = "a sequence, repeated, neither decays nor grows as far as can be told"
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Parts of the largest stress from which on an edge is searched for growing cycles."""
LARGEST = 40
"""States; forms for more of them would take the solver hours."""
EDGES = 6_000
"""Edges that one program of the solver may have."""


class Repeated(NamedTuple):
    """Policies that are taken again and again, and by how much the state then grows with each step."""

    policies: tuple[int, ...]
    growth: float


@dataclass(frozen=True)
class Decision:
    """An answer, and what it rests on.

    Stable: `certificates`, one for each component of the automaton, checked. Unstable: `growing`, cycles of
    policies that grow when repeated, beyond all rounding. Undecided: `why`. `near` are all cycles that
    were met and come near to growing, or grow, `cycles` those of them that do not die out as far as can be
    told; all of these with the fastest first.
    """

    verdict: Verdict
    certificates: tuple[Certificate, ...] = ()
    near: tuple[Repeated, ...] = ()
    why: str = ""
    growing: tuple[Repeated, ...] = ()

    @property
    def cycles(self) -> tuple[tuple[int, ...], ...]:
        return tuple(one.policies for one in self.near if one.growth >= MARGINAL)


def decide(
    system: SwitchedSystem,
    *,
    seconds: float = 60.0,
    longest: int = 4,
    lift: int = 2,
    near: float = MARGINAL,
    enough: int = 1,
) -> Decision:
    """Whether all sequences die out.

    Cycles of up to `longest` policies are tried first. Then forms are looked for, if need be on lifts up to
    degree `lift`; where there are none, the edges that stand in their way are searched for longer cycles,
    until `enough` of them are found that grow by at least `near` with every step.

    `seconds` limits the work of this process: seconds of the processor (all threads together), not of the
    clock on the wall, so that waiting for others does not count. The limit is looked at between calls of the
    solver, so that the last of them may go beyond it. All limits and times of switched
    systems are of this kind.
    """
    check_type(system, SwitchedSystem, "system")
    budget = Budget(seconds)
    checked_whole(longest, "longest", 1)
    checked_degree(lift)
    tried = search(system.automaton, system.matrices, longest, MARGINAL, most=100_000)
    if tried.found:
        return _not_dying(_repeated(system.automaton, tried.found), system.matrices)
    met = _repeated(system.automaton, [tried.best] if tried.best is not None else [])
    certificates: list[Certificate] = []
    for nodes in system.automaton.components():
        part = system.automaton.part(nodes)
        found = _component(part, system.matrices, budget, lift, near, enough)
        met = tuple(sorted({*met, *found.near}, key=_order))
        if found.verdict != "stable":
            return Decision(found.verdict, (), met, found.why, found.growing)
        certificates += found.certificates
    return Decision("stable", tuple(certificates), met)


def _not_dying(near: tuple[Repeated, ...], matrices: Array) -> Decision:
    """The answer where there are cycles that do not die out: some surely grow, or nobody can tell."""
    fastest = [one for one in near[:ASKED] if one.growth >= MARGINAL]
    growing = tuple(one for one in fastest if grows(matrices, one.policies))
    if growing:
        return Decision("unstable", (), near, growing=growing)
    return Decision("undecided", (), near, STAYS)


def _component(
    part: Automaton, matrices: Array, budget: Budget, most: int, near: float, enough: int
) -> Decision:
    """The answer for one strong component."""
    if matrices.shape[1] > LARGEST:
        why = f"the state has {matrices.shape[1]} numbers, and forms are looked for with up to {LARGEST}"
        return Decision("undecided", why=why)
    met: tuple[Repeated, ...] = ()
    why = "there are no quadratic forms, and no cycle was found that grows"
    prover = Prover(part, matrices, budget)
    for degree in range(most + 1):
        if len(Lift(part, degree).windows) > EDGES:
            break
        if budget.over:
            why = "time was too short"
            break
        proof, found = prover.proof(degree)
        if proof is not None:
            return Decision("stable", (proof,), met)
        graph = Lift(part, degree).automaton
        met = (*met, *_repeated(graph, stressed_cycles(graph, prover.turned, found, near, enough)))
        if any(cycle.growth >= MARGINAL for cycle in met):
            return _not_dying(tuple(sorted(met, key=_order)), matrices)
    return Decision("undecided", (), met, why)


class Prover:
    """Looks for forms of one component, in coordinates that suit the solver."""

    def __init__(self, part: Automaton, matrices: Array, budget: Budget) -> None:
        self._part, self._matrices, self._budget = part, matrices, budget
        self._turn = balance(matrices, budget)
        back = np.linalg.inv(self._turn)
        self.turned = self._turn @ matrices @ back

    def proof(self, degree: int, rate: float = 1.0) -> tuple[Certificate | None, Quadratics]:
        """A proof on the lift of this degree that has been checked, or None; and what the solver said."""
        graph = Lift(self._part, degree).automaton
        found = best_forms(graph, self.turned, rate, self._budget.by_the_wall)
        if not found.margin > 0.0:
            return None, found
        forms = self._turn.T @ found.forms @ self._turn
        proof = Certificate(graph, self._matrices, 0.5 * (forms + forms.transpose(0, 2, 1)), rate)
        return (proof if proof.check() else None), found


def balance(matrices: Array, budget: Budget) -> Array:
    """Coordinates in which no matrix has entries much larger than its eigenvalues.

    They are those of a form that is common to all matrices, for a rate that is just large enough for one.
    """
    linalg = need("scipy.linalg", "stability", PURPOSE)
    _, (sizes, _) = linalg.matrix_balance(np.abs(matrices).sum(0), permute=False, separate=True)
    scaled = matrices * (sizes[None, None, :] / sizes[None, :, None])
    rate = max(float(np.abs(np.linalg.eigvals(matrices)).max()), 1e-3)
    for _ in range(40):
        rate *= 1.05
        found = best_forms(Automaton.free(len(matrices)), scaled, rate, budget.by_the_wall)
        if found.margin > 0.0 and np.linalg.eigvalsh(found.forms[0])[0] > 0.0:
            return np.asarray(np.linalg.cholesky(found.forms[0]).T / sizes)
    return np.diag(1.0 / sizes)


def stressed_cycles(
    graph: Automaton, matrices: Array, found: Quadratics, near: float = MARGINAL, enough: int = 1
) -> list[Cycle]:
    """Cycles that grow by at least `near` among the edges that keep the forms from shrinking.

    More and more edges are searched until `enough` are found. If there are none, the fastest one met.
    """
    top = float(found.stress.max())
    cycles: dict[frozenset[int], Cycle] = {}
    fastest: list[Cycle] = []
    for level in LEVELS:
        places = np.flatnonzero(found.stress >= level * top)
        part = Automaton(graph.nodes, tuple(graph.edges[k] for k in places))
        tried = search(part, matrices, 60, near, most=60_000)
        for cycle in (*tried.found, *([tried.best] if tried.best is not None else [])):
            named = Cycle(tuple(int(places[e]) for e in cycle.edges), cycle.growth)
            if cycle.growth >= near:
                cycles.setdefault(frozenset(named.edges), named)
            elif not fastest or cycle.growth > fastest[0].growth:
                fastest = [named]
        if len(cycles) >= enough:
            break
    return list(cycles.values()) or fastest


def _repeated(graph: Automaton, cycles: Iterable[Cycle]) -> tuple[Repeated, ...]:
    found = {Repeated(tuple(graph.edges[e].symbol for e in c.edges), c.growth) for c in cycles}
    return tuple(sorted(found, key=_order))


def _order(cycle: Repeated) -> tuple[float, int, tuple[int, ...]]:
    """The fastest first; of equals the shortest."""
    return (-round(cycle.growth, 12), len(cycle.policies), cycle.policies)
