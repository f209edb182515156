"""Whether all sequences of a switched system die out: a proof, a cycle that does not, or neither."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from upbeat.stability.automaton import Array, Automaton
from upbeat.stability.certificate import Certificate
from upbeat.stability.cycles import Cycle, Integers, search
from upbeat.stability.lifts import Lift
from upbeat.stability.lyapunov import PURPOSE, Quadratics, best_forms
from upbeat.stability.switched import SwitchedSystem
from upbeat.trace.extras import need

MARGINAL = 1.0 - 1e-12
"""A cycle that shrinks less than this does not die out as far as rounding lets us say."""
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Parts of the largest stress from which on an edge is searched for growing cycles."""
LARGEST = 40
"""States; forms for more of them would take the solver hours."""
EDGES = 6_000
"""Edges that one program of the solver may have."""


class Stability(enum.StrEnum):
    """The three answers."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    UNDECIDED = "undecided"


class Repeated(NamedTuple):
    """Policies that are taken again and again, and by how much the state then grows with each step."""

    policies: tuple[int, ...]
    growth: float


@dataclass(frozen=True)
class Decision:
    """An answer, and what it rests on.

    Stable: `certificates`, one for each component of the automaton, checked. Unstable: `cycles` of policies
    that do not die out when repeated. Undecided: `why`. `nearest` is the one that comes closest to growing,
    or grows most, among all cycles that were met.
    """

    stability: Stability
    certificates: tuple[Certificate, ...] = ()
    cycles: tuple[tuple[int, ...], ...] = ()
    nearest: Repeated | None = None
    why: str = ""


def decide(
    system: SwitchedSystem, *, seconds: float = 60.0, longest: int = 4, lift: int = 2, enough: int = 1
) -> Decision:
    """Whether all sequences die out.

    Cycles of up to `longest` policies are tried first. Then forms are looked for, if need be on lifts up to
    degree `lift`; where there are none, the edges that stand in their way are searched for longer cycles,
    until `enough` of them are found.
    """
    until = time.monotonic() + seconds
    tried = search(system.automaton, system.matrices, longest, MARGINAL, most=100_000)
    if tried.found:
        return _unstable(system.automaton, tried.found)
    nearest = _repeated(system.automaton, tried.best)
    certificates: list[Certificate] = []
    for nodes in system.automaton.components():
        part = system.automaton.part(nodes)
        found = _component(part, system.matrices, until, lift, enough)
        nearest = _nearer(nearest, found.nearest)
        if found.stability is not Stability.STABLE:
            return Decision(found.stability, (), found.cycles, nearest, found.why)
        certificates += found.certificates
    return Decision(Stability.STABLE, tuple(certificates), (), nearest)


def _component(part: Automaton, matrices: Array, until: float, most: int, enough: int) -> Decision:
    """The answer for one strong component."""
    if matrices.shape[1] > LARGEST:
        why = f"the state has {matrices.shape[1]} numbers, and forms are looked for with up to {LARGEST}"
        return Decision(Stability.UNDECIDED, why=why)
    nearest: Repeated | None = None
    why = "there are no quadratic forms, and no cycle was found that grows"
    prover = Prover(part, matrices, until)
    for degree in range(most + 1):
        if len(Lift(part, degree).windows) > EDGES:
            break
        if time.monotonic() >= until:
            why = "time was too short"
            break
        proof, found = prover.proof(degree)
        if proof is not None:
            return Decision(Stability.STABLE, (proof,), nearest=nearest)
        graph = Lift(part, degree).automaton
        cycles, best = stressed_cycles(graph, prover.turned, found, enough)
        nearest = _nearer(nearest, _repeated(graph, best))
        if cycles:
            return _unstable(graph, cycles)
    return Decision(Stability.UNDECIDED, nearest=nearest, why=why)


class Prover:
    """Looks for forms of one component, in coordinates that suit the solver."""

    def __init__(self, part: Automaton, matrices: Array, until: float) -> None:
        self._part, self._matrices, self._until = part, matrices, until
        self._turn = balance(matrices, until)
        back = np.linalg.inv(self._turn)
        self.turned = self._turn @ matrices @ back

    def proof(self, degree: int, rate: float = 1.0) -> tuple[Certificate | None, Quadratics]:
        """A proof on the lift of this degree that has been checked, or None; and what the solver said."""
        graph = Lift(self._part, degree).automaton
        found = best_forms(graph, self.turned, rate, max(self._until - time.monotonic(), 1.0))
        if not found.margin > 0.0:
            return None, found
        forms = self._turn.T @ found.forms @ self._turn
        proof = Certificate(graph, self._matrices, 0.5 * (forms + forms.transpose(0, 2, 1)), rate)
        return (proof if proof.check() else None), found


def balance(matrices: Array, until: float) -> Array:
    """Coordinates in which no matrix has entries much larger than its eigenvalues.

    They are those of a form that is common to all matrices, for a rate that is just large enough for one.
    """
    linalg = need("scipy.linalg", "stability", PURPOSE)
    _, (sizes, _) = linalg.matrix_balance(np.abs(matrices).sum(0), permute=False, separate=True)
    scaled = matrices * (sizes[None, None, :] / sizes[None, :, None])
    rate = max(float(np.abs(np.linalg.eigvals(matrices)).max()), 1e-3)
    for _ in range(40):
        rate *= 1.05
        found = best_forms(Automaton.free(len(matrices)), scaled, rate, max(until - time.monotonic(), 1.0))
        if found.margin > 0.0 and np.linalg.eigvalsh(found.forms[0])[0] > 0.0:
            return np.asarray(np.linalg.cholesky(found.forms[0]).T / sizes)
    return np.diag(1.0 / sizes)


def stressed_cycles(
    graph: Automaton, matrices: Array, found: Quadratics, enough: int = 1
) -> tuple[list[Cycle], Cycle | None]:
    """Cycles that do not die out among the edges that keep the forms from shrinking; and the nearest to it.

    More and more edges are searched until `enough` are found.
    """
    top = float(found.stress.max())
    cycles: dict[frozenset[int], Cycle] = {}
    nearest: Cycle | None = None
    for level in LEVELS:
        places = np.flatnonzero(found.stress >= level * top)
        part = Automaton(graph.nodes, tuple(graph.edges[k] for k in places))
        tried = search(part, matrices, 60, MARGINAL, most=60_000)
        if tried.best is not None and (nearest is None or tried.best.growth > nearest.growth):
            nearest = _renamed(tried.best, places)
        for cycle in tried.found:
            named = _renamed(cycle, places)
            cycles.setdefault(frozenset(named.edges), named)
        if len(cycles) >= enough:
            break
    return list(cycles.values()), nearest


def _renamed(cycle: Cycle, places: Integers) -> Cycle:
    return Cycle(tuple(int(places[e]) for e in cycle.edges), cycle.growth)


def _repeated(graph: Automaton, cycle: Cycle | None) -> Repeated | None:
    return cycle and Repeated(tuple(graph.edges[e].symbol for e in cycle.edges), cycle.growth)


def _nearer(one: Repeated | None, other: Repeated | None) -> Repeated | None:
    return max((c for c in (one, other) if c is not None), key=lambda c: c.growth, default=None)


def _unstable(graph: Automaton, cycles: list[Cycle]) -> Decision:
    found = [Repeated(tuple(graph.edges[e].symbol for e in c.edges), c.growth) for c in cycles]
    words = dict.fromkeys(cycle.policies for cycle in found)
    return Decision(Stability.UNSTABLE, (), tuple(words), max(found, key=lambda cycle: cycle.growth))
