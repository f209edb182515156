"""Making a switched system stable by forbidding as few sequences as possible."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from upbeat.core.errors import check_type
from upbeat.stability.budget import Budget
from upbeat.stability.switched.automaton import Array, Automaton
from upbeat.stability.switched.decide import MARGINAL, PURPOSE, Certificate, Lift, Repeated, decide, search
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.trace.extras import need

# ----------------------------------------------------------------------------------------------------
# Which edges to cut so that every bad cycle is broken and most sequences remain: a weighted hitting set.

RELEASED = 6
"""Cut edges that are given free together, to be cut again elsewhere."""


class Perron(NamedTuple):
    """The base of the entropy, by how much each edge raises it to first order, and its two vectors."""

    base: float
    worth: Array
    vectors: tuple[Array, Array]


class Graph:
    """An automaton as arrays, for counting its walks again and again."""

    def __init__(self, automaton: Automaton) -> None:
        self.nodes = automaton.nodes
        self.count = len(automaton.edges)
        self.source = np.array([e.source for e in automaton.edges], np.int64)
        self.target = np.array([e.target for e in automaton.edges], np.int64)

    def perron(self, cut: Collection[int], start: tuple[Array, Array] | None = None) -> Perron:
        """The growth of the number of walks without the edges `cut`, and what each edge is worth for it."""
        kept = np.ones(self.count, bool)
        kept[list(cut)] = False
        source, target = self.source[kept], self.target[kept]
        left, right = start or (np.ones(self.nodes), np.ones(self.nodes))
        left, right = left + 1e-9 * left.max(), right + 1e-9 * right.max()  # a node cut off may come back
        base = 0.0
        for _ in range(2000):
            # The identity added makes periodic graphs converge, too.
            after = right + np.bincount(source, right[target], self.nodes)
            before = left + np.bincount(target, left[source], self.nodes)
            last, base = base, float(after.sum() / right.sum()) - 1.0
            right, left = after / after.sum(), before / before.sum()
            if abs(base - last) < 1e-12 * (1.0 + base):
                break
        worth = left[self.source] * right[self.target] / max(float(left @ right), 1e-300)
        return Perron(base, worth, (left, right))


def smallest(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Those sets that contain none of the others: who hits them hits all."""
    kept: list[frozenset[int]] = []
    for one in sorted(set(sets), key=lambda s: (len(s), sorted(s))):
        if not any(other <= one for other in kept):
            kept.append(one)
    return kept


def hitting(sets: Sequence[frozenset[int]], weights: Array, seconds: float = 10.0) -> frozenset[int]:
    """Edges of which every set has one, with the least sum of weights, or nearly so if time is short."""
    optimize = need("scipy.optimize", "stability", PURPOSE)
    sparse = need("scipy.sparse", "stability", PURPOSE)
    used = sorted(set().union(*sets))
    place = {edge: k for k, edge in enumerate(used)}
    rows = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
    columns = np.array([place[e] for s in sets for e in sorted(s)])
    matrix = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(sets), len(used)))
    found = optimize.milp(
        weights[used],
        constraints=optimize.LinearConstraint(matrix, lb=1.0),
        integrality=np.ones(len(used)),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": seconds, "mip_rel_gap": 1e-4},
    )
    if found.x is None:
        return frozenset(min(s, key=lambda e: (weights[e], e)) for s in sets)
    return frozenset(used[k] for k in np.flatnonzero(found.x > 0.5))


def best_cut(
    automaton: Automaton,
    sets: Sequence[frozenset[int]],
    begin: frozenset[int] = frozenset(),
    attempts: int = 60,
) -> frozenset[int]:
    """Edges of which every set has one, chosen so that without them most sequences remain.

    An integer program chooses them by what they are worth to first order. How much that is depends on which
    others are gone, so a few of them at a time are then given free and chosen again at their present worth,
    and that stands if it helps: `attempts` times without success, and it ends. `begin` is a cut known before,
    perhaps for fewer sets.
    """
    if not sets:
        return frozenset()
    graph, needed = Graph(automaton), smallest(sets)
    now = graph.perron(begin)
    missed = [s for s in needed if not s & begin]
    gone = begin | (hitting(missed, now.worth) if missed else frozenset())
    gone = _needed(gone, needed, now.worth)
    now = graph.perron(gone, now.vectors)
    rng = np.random.default_rng(len(needed))
    by_edge = _by_edge(needed)
    vain = 0
    while vain < attempts and len(gone) > 1:
        freed = _neighbours(gone, by_edge, needed, rng)
        rest = gone - freed
        open_sets = [s for s in {needed[k] for e in freed for k in by_edge[e]} if not s & rest]
        # First order is not the whole truth, and twice the same choice would be no news: prices vary.
        price = now.worth * np.exp(rng.uniform(-0.5, 0.5, graph.count))
        tried = rest | (hitting(sorted(open_sets, key=sorted), price) if open_sets else frozenset())
        if tried != gone:
            tried = _needed(tried, needed, now.worth)
            then = graph.perron(tried, now.vectors)
            if then.base > now.base * (1.0 + 1e-12):
                gone, now, vain = tried, then, 0
                continue
        vain += 1
    return gone


def _by_edge(sets: Sequence[frozenset[int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for k, one in enumerate(sets):
        for edge in one:
            found.setdefault(edge, []).append(k)
    return found


def _neighbours(
    gone: frozenset[int],
    by_edge: dict[int, list[int]],
    sets: Sequence[frozenset[int]],
    rng: np.random.Generator,
) -> frozenset[int]:
    """A cut edge at random, and some that break the cycles it is close to."""
    first = int(rng.choice(sorted(gone)))
    near = {e for k in by_edge[first] for edge in sets[k] for j in by_edge[edge] for e in sets[j] & gone}
    others = sorted(near - {first})
    rng.shuffle(others)
    return frozenset([first, *others[: RELEASED - 1]])


def _needed(gone: frozenset[int], sets: Sequence[frozenset[int]], worth: Array) -> frozenset[int]:
    """Without those, the dearest first, that break nothing the others do not break as well."""
    hits = [len(s & gone) for s in sets]
    by_edge = _by_edge(sets)
    kept = set(gone)
    for edge in sorted(gone, key=lambda e: (-worth[e], e)):
        if all(hits[k] > 1 for k in by_edge.get(edge, ())):
            kept.discard(edge)
            for k in by_edge.get(edge, ()):
                hits[k] -= 1
    return frozenset(kept)


# ----------------------------------------------------------------------------------------------------

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
    None where it was not looked for. `seconds` of work were taken, counted as the limit is (see `decide`).
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
    """Forbid edges of this lift until all sequences left are proven to die out.

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


# ----------------------------------------------------------------------------------------------------
# The cut that leaves most sequences, proven best for its lift; and a greedy one to compare with.

CHOICES = 200_000
"""So many partial cuts are tried before the search for the best one is given up."""


def stabilise_best(system: SwitchedSystem, *, lift: int = 1, seconds: float = 600.0) -> Stabilised:
    """The cut of this lift that leaves most sequences, and the proof of those.

    Cycles are collected until the best cut for those that are known breaks all there are. `best` is true if
    so; it is false where the search was given up, or a sequence had to go that is not proven to grow.
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
    """Forbid one edge after the other, the best at the moment, as published.

    First the edge that breaks most growing cycles of up to three policies, until there are none; then, as
    long as a growing cycle is found, the edge of it that costs least entropy.
    """
    check_type(system, SwitchedSystem, "system")
    budget = Budget(seconds)
    lifted = Lift(system.automaton.irreducible(), lift)
    cut: frozenset[int] = frozenset()
    sets = set(Pool(system, lifted, longest=3).sets())
    while sets:
        counts = {e: sum(e in s for s in sets) for s in sets for e in s}
        frequent = [e for e, count in counts.items() if count == max(counts.values())]
        cut |= {_least_costly(lifted.automaton, cut, frequent)}
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
