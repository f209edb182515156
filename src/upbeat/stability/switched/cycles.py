"""Cycles of a switched system that grow: found by trying all short ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.stability.switched.automaton import Array, Automaton

Integers = npt.NDArray[np.int64]


class Cycle(NamedTuple):
    """Edges that lead back to where they began, and how a repetition grows with each step."""

    edges: tuple[int, ...]
    growth: float


class Search(NamedTuple):
    """What trying all cycles gave: those of at least the growth asked for, the best, and how far it went."""

    found: list[Cycle]
    best: Cycle | None
    length: int
    """Of all cycles up to this length the growth is known."""


def search(
    automaton: Automaton, matrices: Array, longest: int, at_least: float = 1.0, most: int = 2_000_000
) -> Search:
    """Try all cycles of up to `longest` edges, but not more than about `most` walks of one length.

    A cycle is tried once: beginning at its smallest edge, as a Lyndon word, and not as a repetition of a
    shorter one.
    """
    edges = automaton.edges
    if not edges:
        return Search([], None, longest)
    found: list[Cycle] = []
    best: Cycle | None = None
    symbol = np.array([edge.symbol for edge in edges])
    source = np.array([edge.source for edge in edges])
    target = np.array([edge.target for edge in edges])
    starts, degree, order = _by_source(source, automaton.nodes)
    walks: Integers = np.arange(len(edges))[:, None]
    products = matrices[symbol]
    length = 1
    while True:
        closed = np.flatnonzero(target[walks[:, -1]] == source[walks[:, 0]])
        chosen = closed[_lyndon(walks[closed])]
        # No eigenvalue is larger than a norm: what cannot matter need not be computed.
        floor = min(at_least, best.growth if best else 0.0) ** length
        with np.errstate(over="ignore"):  # infinite is large enough
            norms = np.sqrt((products[chosen] ** 2).sum((1, 2)))
        chosen = chosen[norms >= floor]
        if len(chosen):
            rates = np.abs(np.linalg.eigvals(products[chosen])).max(1) ** (1.0 / length)
            place = int(rates.argmax())
            if best is None or rates[place] > best.growth:
                best = Cycle(tuple(walks[chosen[place]].tolist()), float(rates[place]))
            bad = np.flatnonzero(rates >= at_least)
            found += [Cycle(tuple(walks[chosen[k]].tolist()), float(rates[k])) for k in bad]
        counts = degree[target[walks[:, -1]]]
        if length == longest or counts.sum() > most or len(edges) ** (length + 1) >= 1 << 62:
            return Search(found, best, length)
        rows = np.repeat(np.arange(len(walks)), counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        new = order[starts[target[walks[rows, -1]]] + nth]
        kept = new >= walks[rows, 0]
        rows, new = rows[kept], new[kept]
        walks = np.concatenate([walks[rows], new[:, None]], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            products = matrices[symbol[new]] @ products[rows]
        known = np.isfinite(products).all((1, 2))  # of those beyond all numbers nothing can be said
        walks, products = walks[known], products[known]
        length += 1


def grows(matrices: Array, policies: Sequence[int]) -> bool:
    """Whether repeating these policies grows beyond all that rounding could have added.

    An eigenvalue is as sure as the angle between its left and its right vector allows.
    """
    product = np.eye(matrices.shape[1])
    size = 1.0
    for policy in policies:
        with np.errstate(over="ignore", invalid="ignore"):
            product = matrices[policy] @ product
        size *= float(np.linalg.norm(matrices[policy], 2))
    if not np.isfinite(product).all():
        return False
    values, right = np.linalg.eig(product)
    try:
        left = np.linalg.inv(right)
    except np.linalg.LinAlgError:
        return False
    turned = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=0)
    unsure = np.finfo(float).eps * (8 + len(product)) * len(policies) * size * turned
    return bool((np.abs(values) - unsure > 1.0).any())


def _by_source(source: Integers, nodes: int) -> tuple[Integers, Integers, Integers]:
    """Of each node where its edges begin in `order`, and how many there are."""
    order = np.argsort(source, kind="stable")
    degree = np.bincount(source, minlength=nodes)
    return np.cumsum(degree) - degree, degree, order


def _lyndon(walks: Integers) -> npt.NDArray[np.bool_]:
    """Which rows are smaller than all their rotations."""
    count, length = walks.shape
    good = np.ones(count, bool)
    if length == 1 or not count:
        return good
    base = int(walks.max()) + 1
    top = base ** (length - 1)
    code = np.zeros(count, np.int64)
    for k in range(length):
        code = code * base + walks[:, k]
    turned = code
    for k in range(length - 1):
        turned = (turned - walks[:, k] * top) * base + walks[:, k]
        good &= code < turned
    return good
