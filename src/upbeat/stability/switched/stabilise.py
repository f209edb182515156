"""Making a switched system stable by forbidding as few sequences as possible (thesis, 5.5 to 5.9)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from upbeat.core.errors import check_type
from upbeat.stability.budget import Budget
from upbeat.stability.switched.automaton import Automaton
from upbeat.stability.switched.certificate import Certificate
from upbeat.stability.switched.cuts import best_cut
from upbeat.stability.switched.cycles import search
from upbeat.stability.switched.decide import MARGINAL, Repeated, decide
from upbeat.stability.switched.lifts import Lift
from upbeat.stability.switched.system import SwitchedSystem

Report = Callable[[str], None]
"""Is told how far one has come."""
LONGEST = 6
"""All cycles up to this length are tried before anything else."""
TRIED = 400_000
"""But not more of them than this."""
ENOUGH = 100
"""So many further ones are collected at once, if there are."""
NEARER, NEAREST = 0.06, 0.9
"""The growth from which on a cycle is cut goes from 1 towards that of the slowest policy that may be repeated
for ever: by so much with each round, and so far at last."""


@dataclass(frozen=True)
class Stabilised:
    """A part of the sequences of a system, and whether all of them are proven to die out.

    `automaton` allows them: it is irreducible, right-resolving and as small as can be. `cut` are the edges of
    the lift that are gone, `forbidden` the sequences that these stand for. `proven` is false where time
    was too short: then nothing is known. `best` says whether no other cut of this lift leaves more; that is
    None where nobody has looked. `seconds` of work were taken, counted as the limit is (see `decide`).
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
    """Cycles of a system that grow or come near to it, as what they go along in a lift."""

    def __init__(
        self, system: SwitchedSystem, lift: Lift, longest: int = LONGEST, near: float = MARGINAL
    ) -> None:
        self.lift = lift
        tried = search(lift.base, system.matrices, longest, near, TRIED)
        self._growth: dict[frozenset[int], float] = {}
        for cycle in tried.found:
            self._put(cycle.edges, cycle.growth)

    def _put(self, edges: tuple[int, ...], growth: float) -> bool:
        along = self.lift.edges_of(edges)
        new = growth > self._growth.get(along, 0.0)
        if new:
            self._growth[along] = growth
        return new

    def add(self, cycles: Iterable[Repeated]) -> bool:
        """Whether any of these was new."""
        base = self.lift.base
        return (
            sum(self._put(edges, one.growth) for one in cycles for edges in base.cycles_of(one.policies)) > 0
        )

    def sets(self, near: float = MARGINAL) -> list[frozenset[int]]:
        """What has to be cut so that no known cycle is left that grows by `near` or more."""
        return [along for along, growth in self._growth.items() if growth >= near]


def stabilise(
    system: SwitchedSystem, *, lift: int = 1, seconds: float = 600.0, report: Report | None = None
) -> Stabilised:
    """Forbid what has to be, on the lift of this degree, so that what is left is proven to die out.

    All short cycles that grow are collected at once, and edges to break all of them are chosen together (see
    `best_cut`). What is left is decided on the smallest automaton for it, which often is a tenth of the
    lift; cycles found there join the others, and so on. Chasing every last one of them would take long: with
    every round cycles go, too, that come a little less near to growing.
    """
    check_type(system, SwitchedSystem, "system")
    if report is not None:
        check_type(report, Callable, "report")  # type: ignore[arg-type]
    budget = Budget(seconds)
    lifted = Lift(system.automaton.irreducible(), lift)
    slow = max((r for r in system.radii if r < MARGINAL), default=0.5)
    pool = Pool(system, lifted, near=MARGINAL - (MARGINAL - slow) * NEAREST)
    cut: frozenset[int] = frozenset()
    stuck = False
    for round_ in itertools.count():
        part = min(NEARER * round_, NEAREST)
        near = MARGINAL - (MARGINAL - slow) * part
        cut = best_cut(lifted.automaton, pool.sets(near), cut)
        left = lifted.automaton.without(cut).irreducible().minimal()
        if report is not None:
            report(
                f"lift {lift}: {len(pool.sets(near))} cycles that grow by {near:.3f} or more, {len(cut)} of "
                f"{len(lifted.automaton.edges)} edges cut; base {left.entropy_base:.7g}, {budget.spent:.0f} s"
            )
        # A proof on a lift of what is left is dear; that is worth it only where nothing else goes on.
        decision = decide(
            system.under(left),
            seconds=budget.left,
            longest=1,
            lift=2 if stuck else 0,
            near=near,
            enough=ENOUGH,
        )
        over = decision.verdict == "stable" or not left.edges or budget.over
        new = pool.add(decision.near)
        if over or (stuck and not new):
            return Stabilised(system, lifted, left, cut, decision.certificates, budget.spent)
        stuck = part == NEAREST and not new
    raise AssertionError
