"""Making a switched system stable by forbidding as few sequences as possible (thesis, 5.5 to 5.9)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from upbeat.stability.automaton import Automaton
from upbeat.stability.certificate import Certificate
from upbeat.stability.cuts import best_cut
from upbeat.stability.cycles import search
from upbeat.stability.decide import MARGINAL, Decision, Stability, decide
from upbeat.stability.lifts import Lift
from upbeat.stability.switched import SwitchedSystem

Report = Callable[[str], None]
"""Is told how far one has come."""
LONGEST = 6
"""All cycles up to this length are tried before anything else."""
TRIED = 400_000
"""But not more of them than this."""
ENOUGH = 100
"""So many further ones are collected at once, if there are."""


@dataclass(frozen=True)
class Stabilised:
    """A part of the sequences of a system, and whether all of them are proven to die out.

    `automaton` allows them: it is irreducible, right-resolving and as small as can be. `cut` are the edges of
    the lift that are gone, `forbidden` the sequences that these stand for. `proven` is false where time
    was too short: then nothing is known. `best` says whether no other cut of this lift leaves more; that is
    None where nobody has looked.
    """

    system: SwitchedSystem
    lift: Lift
    automaton: Automaton
    cut: frozenset[int]
    certificates: tuple[Certificate, ...]
    seconds: float
    best: bool | None = None

    @property
    def proven(self) -> bool:
        return bool(self.certificates)

    @property
    def entropy_base(self) -> float:
        """How many times as many sequences are left with every step."""
        return self.automaton.entropy_base

    @property
    def forbidden(self) -> tuple[tuple[int, ...], ...]:
        """Policies that may not follow each other so."""
        base = self.lift.base
        return tuple(tuple(base.edges[e].symbol for e in self.lift.windows[k]) for k in sorted(self.cut))


class Pool:
    """The cycles of a system that are known to grow, as what they go along in a lift."""

    def __init__(self, system: SwitchedSystem, lift: Lift, longest: int = LONGEST) -> None:
        self.lift = lift
        tried = search(lift.base, system.matrices, longest, MARGINAL, TRIED)
        self.sets = {lift.edges_of(cycle.edges) for cycle in tried.found}

    def add(self, words: Iterable[tuple[int, ...]]) -> int:
        """How many of these were new."""
        before = len(self.sets)
        for word in words:
            self.sets.update(map(self.lift.edges_of, self.lift.base.cycles_of(word)))
        return len(self.sets) - before


def stabilise(
    system: SwitchedSystem, *, lift: int = 1, seconds: float = 600.0, report: Report | None = None
) -> Stabilised:
    """Forbid what has to be, on the lift of this degree, so that what is left is proven to die out.

    All short cycles that grow are collected at once, and edges to break all of them are chosen together (see
    `best_cut`). What is left is decided on the smallest automaton for it, which often is a twentieth of the
    lift; cycles found there join the others, and so on. Where neither a proof nor a cycle is found, the
    cycle nearest to growing goes as well, so that there is an end.
    """
    begun = time.monotonic()
    lifted = Lift(system.automaton.irreducible(), lift)
    pool = Pool(system, lifted)
    cut: frozenset[int] = frozenset()
    while True:
        cut = best_cut(lifted.automaton, list(pool.sets), cut)
        left = lifted.automaton.without(cut).irreducible().minimal()
        spent = time.monotonic() - begun
        if report is not None:
            report(
                f"lift {lift}: {len(pool.sets)} growing cycles, {len(cut)} of {len(lifted.automaton.edges)} "
                f"edges cut, base {left.entropy_base:.7g} on {left.nodes} nodes, {spent:.0f} s"
            )
        decision = decide(system.under(left), seconds=max(seconds - spent, 0.0), longest=1, enough=ENOUGH)
        if decision.stability is Stability.STABLE or not left.edges:
            return _done(system, lifted, left, cut, decision, begun)
        if not pool.add(decision.cycles) and (
            decision.nearest is None or not pool.add([decision.nearest.policies])
        ):
            return _done(system, lifted, left, cut, decision, begun)
        if time.monotonic() - begun > seconds:
            return _done(system, lifted, left, cut, decision, begun)


def _done(
    system: SwitchedSystem,
    lift: Lift,
    left: Automaton,
    cut: frozenset[int],
    decision: Decision,
    begun: float,
    best: bool | None = None,
) -> Stabilised:
    return Stabilised(system, lift, left, cut, decision.certificates, time.monotonic() - begun, best)
