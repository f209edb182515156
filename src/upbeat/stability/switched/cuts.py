"""Which edges to cut so that every bad cycle is broken and most sequences remain: a weighted hitting set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from upbeat.stability.switched.automaton import Array, Automaton
from upbeat.stability.switched.lyapunov import PURPOSE
from upbeat.trace.extras import need

RELEASED = 6
"""Cut edges that are given free together, to be cut anew elsewhere."""


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
    effort: int = 60,
) -> frozenset[int]:
    """Edges of which every set has one, chosen so that without them most sequences remain.

    An integer program chooses them by what they are worth to first order. How much that is depends on which
    others are gone, so a few of them at a time are then given free and chosen anew at their present worth,
    and that stands if it helps: `effort` times without success, and it ends. `begin` is a cut known before,
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
    while vain < effort and len(gone) > 1:
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
