"""The cut that leaves most sequences, proven best for its lift; and the thesis's greedy one (Algorithm 5)."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.errors import check_type
from upbeat.stability.budget import Budget
from upbeat.stability.switched.automaton import Automaton
from upbeat.stability.switched.cuts import Graph, best_cut, smallest
from upbeat.stability.switched.decide import MARGINAL, decide
from upbeat.stability.switched.lifts import Lift
from upbeat.stability.switched.stabilise import Pool, Stabilised
from upbeat.stability.switched.system import SwitchedSystem

CHOICES = 200_000
"""So many partial cuts are tried before the search for the best one is given up."""


def stabilise_best(system: SwitchedSystem, *, lift: int = 1, seconds: float = 600.0) -> Stabilised:
    """The cut of this lift that leaves most sequences, and the proof of those (section 5.9).

    Cycles are collected until the best cut for those that are known breaks all there are. `best` is true if
    so; it is false where the search was given up, or a sequence had to go that nobody has proven to grow.
    """
    check_type(system, SwitchedSystem, "system")
    budget = Budget(seconds)
    lifted = Lift(system.automaton.irreducible(), lift)
    pool = Pool(system, lifted)
    best = True
    while True:
        cut, sure = cheapest_cut(lifted.automaton, pool.sets())
        best = best and sure
        left = lifted.automaton.without(cut).irreducible().minimal()
        decision = decide(system.under(left), seconds=budget.left)
        if decision.verdict == "undecided":
            best = False
        grown = [one for one in decision.near if one.growth >= MARGINAL] or decision.near[:1]
        stable = decision.verdict == "stable" or not left.edges
        if stable or not pool.add(grown) or budget.over:
            proofs = decision.certificates
            return Stabilised(system, lifted, left, cut, proofs, budget.spent, best and stable)


def cheapest_cut(automaton: Automaton, sets: Sequence[frozenset[int]]) -> tuple[frozenset[int], bool]:
    """Edges of which every set has one and without which most sequences remain; and whether that is sure.

    Branch and bound: some edge of a set that is not hit yet must go, and no further cut raises the entropy.
    """
    if not sets:
        return frozenset(), True
    graph, needed = Graph(automaton), smallest(sets)
    best = best_cut(automaton, needed)
    top = graph.perron(best).base
    todo: list[tuple[frozenset[int], frozenset[int]]] = [(frozenset(), frozenset())]
    tried = 0
    while todo:
        gone, kept = todo.pop()
        tried += 1
        if tried > CHOICES:
            return best, False
        now = graph.perron(gone)
        if now.base <= top * (1.0 + 1e-9):
            continue
        open_sets = [s - kept for s in needed if not s & gone]
        if not open_sets:
            best, top = gone, now.base
            continue
        # The set with fewest choices; each choice excludes those that are tried before it.
        fewest = min(open_sets, key=len)
        choices = sorted(fewest, key=lambda e: (now.worth[e], e))
        todo += reversed([(gone | {e}, kept | frozenset(choices[:k])) for k, e in enumerate(choices)])
    return best, True


def stabilise_greedily(system: SwitchedSystem, *, lift: int = 1, seconds: float = 600.0) -> Stabilised:
    """Algorithm 5 in the order of work of section 5.7: one edge after the other, the best at the moment.

    First the edge that breaks most growing cycles of up to three policies, until there are none; then, as
    long as a growing cycle is found, the edge of it that costs least entropy. Kept to compare with.
    """
    check_type(system, SwitchedSystem, "system")
    budget = Budget(seconds)
    lifted = Lift(system.automaton.irreducible(), lift)
    cut: frozenset[int] = frozenset()
    sets = set(Pool(system, lifted, longest=3).sets())
    while sets:
        counts = {e: sum(e in s for s in sets) for s in sets for e in s}
        most = [e for e, count in counts.items() if count == max(counts.values())]
        cut |= {_least_costly(lifted.automaton, cut, most)}
        sets = {s for s in sets if not s & cut}
    while True:
        left = lifted.automaton.without(cut).irreducible().minimal()
        decision = decide(system.under(left), seconds=budget.left, longest=3)
        cycles = [c for word in decision.cycles[:1] for c in lifted.base.cycles_of(word)]
        if not cycles or budget.over:
            return Stabilised(system, lifted, left, cut, decision.certificates, budget.spent)
        for cycle in cycles:
            edges = lifted.edges_of(cycle)
            if not edges & cut:
                cut |= {_least_costly(lifted.automaton, cut, sorted(edges))}


def _least_costly(automaton: Automaton, cut: frozenset[int], choices: Sequence[int]) -> int:
    graph = Graph(automaton)
    now = graph.perron(cut)
    return max(sorted(choices), key=lambda e: graph.perron(cut | {e}, now.vectors).base)
