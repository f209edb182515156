"""Automata: which sequences of policies are allowed, and how many there are (entropy)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, check_type

Array = npt.NDArray[np.float64]


class Edge(NamedTuple):
    """From one node to another, by taking the policy `symbol`."""

    source: int
    target: int
    symbol: int


@dataclass(frozen=True)
class Automaton:
    """A directed graph whose edges carry policies; its walks are the sequences that it allows.

    `nodes` are counted from 0. `names`, where given, say what a node remembers.
    """

    nodes: int
    edges: tuple[Edge, ...]
    names: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_type(self.nodes, int, "nodes")
        check_type(self.names, (tuple, list), "names")
        try:
            object.__setattr__(self, "edges", tuple(Edge(*map(int, edge)) for edge in self.edges))
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput("edges are triples of whole numbers: (source, target, policy)") from None
        for edge in self.edges:
            if not (0 <= edge.source < self.nodes and 0 <= edge.target < self.nodes and edge.symbol >= 0):
                raise InvalidInput(
                    f"the edge {tuple(edge)} does not fit an automaton of {self.nodes} nodes, which are "
                    "counted from 0; an edge is (source, target, policy)"
                )
        if len(set(self.edges)) < len(self.edges):
            twice = next(e for e in self.edges if self.edges.count(e) > 1)
            raise InvalidInput(f"the edge {tuple(twice)} is there twice: leave one out")
        if self.names and len(self.names) != self.nodes:
            raise InvalidInput(f"{len(self.names)} names for {self.nodes} nodes: give one for each, or none")

    @staticmethod
    def free(policies: int) -> Automaton:
        """Everything is allowed: one node, and a loop for each policy."""
        return Automaton(1, tuple(Edge(0, 0, symbol) for symbol in range(policies)), ("",))

    # ---------------------------------------------------------------- what it allows

    @cached_property
    def outgoing(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the edges that leave each node."""
        found: list[list[int]] = [[] for _ in range(self.nodes)]
        for number, edge in enumerate(self.edges):
            found[edge.source].append(number)
        return tuple(map(tuple, found))

    def accepts(self, word: Iterable[int]) -> bool:
        """Whether some walk takes the policies of `word` one after the other."""
        here = set(range(self.nodes))
        for symbol in word:
            here = {
                self.edges[e].target
                for node in here
                for e in self.outgoing[node]
                if self.edges[e].symbol == symbol
            }
        return bool(here)

    def cycles_of(self, word: Sequence[int]) -> list[tuple[int, ...]]:
        """The edges that repeating `word` for ever ends up going round, from wherever that is possible.

        Wants a right-resolving automaton: there a node and the word say where one gets.
        """
        step = {(edge.source, edge.symbol): k for k, edge in enumerate(self.edges)}
        found: dict[frozenset[int], tuple[int, ...]] = {}
        for start in range(self.nodes):
            walk: list[int] = []
            node, reached = start, {start: 0}
            while True:
                for symbol in word:
                    edge = step.get((node, symbol))
                    if edge is None:
                        break
                    walk.append(edge)
                    node = self.edges[edge].target
                else:
                    if node in reached:
                        cycle = tuple(walk[reached[node] :])
                        found.setdefault(frozenset(cycle), cycle)
                        break
                    reached[node] = len(walk)
                    continue
                break
        return list(found.values())

    @property
    def right_resolving(self) -> bool:
        """Whether a node and a policy say where one gets: no two edges of a node carry the same one."""
        return len({(edge.source, edge.symbol) for edge in self.edges}) == len(self.edges)

    # ---------------------------------------------------------------- how much it allows

    def adjacency(self) -> Array:
        """How many edges lead from each node to each."""
        matrix = np.zeros((self.nodes, self.nodes))
        for edge in self.edges:
            matrix[edge.source, edge.target] += 1.0
        return matrix

    @cached_property
    def entropy_base(self) -> float:
        """How many times as many sequences there are with every step: the spectral radius of the adjacency.

        That counts walks; only on a right-resolving automaton there are as many walks as sequences.
        """
        graph = self if self.right_resolving else self.resolved()
        parts = (graph.part(nodes) for nodes in graph.components())
        return max((_radius(part.adjacency()) for part in parts), default=0.0)

    @property
    def entropy(self) -> float:
        """In bits per step; -inf if nothing is allowed for ever."""
        return log2(self.entropy_base) if self.entropy_base > 0.0 else float("-inf")

    # ---------------------------------------------------------------- others made of it

    def without(self, numbers: Collection[int]) -> Automaton:
        """The same nodes with all edges but these."""
        gone = set(numbers)
        return Automaton(self.nodes, tuple(e for k, e in enumerate(self.edges) if k not in gone), self.names)

    def part(self, nodes: Sequence[int]) -> Automaton:
        """These nodes, and the edges between them."""
        place = {node: k for k, node in enumerate(nodes)}
        edges = tuple(
            Edge(place[e.source], place[e.target], e.symbol)
            for e in self.edges
            if e.source in place and e.target in place
        )
        return Automaton(len(place), edges, tuple(self.names[n] for n in nodes) if self.names else ())

    def components(self) -> list[tuple[int, ...]]:
        """The sets of nodes within which one can go on for ever, each node of one reaching all its others."""
        return [tuple(sorted(nodes)) for nodes in self._strong() if len(nodes) > 1 or self._loops(nodes[0])]

    def irreducible(self) -> Automaton:
        """The component in which one has most freedom; nodes from which nothing leads on are gone."""
        parts = [self.part(nodes) for nodes in self.components()]
        return max(parts, key=lambda part: part.entropy_base, default=Automaton(0, ()))

    def resolved(self) -> Automaton:
        """A right-resolving automaton of the same sequences: its nodes are where one could be by now."""
        start = frozenset(range(self.nodes))
        place, edges, todo = {start: 0}, [], [start]
        for here in todo:  # grows as we go
            reached: dict[int, set[int]] = {}
            for node in here:
                for e in self.outgoing[node]:
                    reached.setdefault(self.edges[e].symbol, set()).add(self.edges[e].target)
            for symbol, targets in sorted(reached.items()):
                there = frozenset(targets)
                if there not in place:
                    place[there] = len(place)
                    todo.append(there)
                edges.append(Edge(place[here], place[there], symbol))
        return Automaton(len(place), tuple(edges))

    def minimal(self) -> Automaton:
        """The smallest right-resolving automaton of this kind: nodes from which the same may follow are one.

        Wants a right-resolving automaton, in which from every node something follows.
        """
        kind = [0] * self.nodes
        while True:
            seen: dict[tuple[int, ...], int] = {}
            signs = [
                (kind[node], *(x for e in out for x in (self.edges[e].symbol, kind[self.edges[e].target])))
                for node, out in enumerate(self._by_symbol)
            ]
            after = [seen.setdefault(sign, len(seen)) for sign in signs]
            if len(seen) == len(set(kind)):
                break
            kind = after
        edges = dict.fromkeys(Edge(kind[e.source], kind[e.target], e.symbol) for e in self.edges)
        names = [""] * len(seen)
        for node in reversed(range(self.nodes)):
            names[kind[node]] = self.names[node] if self.names else ""
        return Automaton(len(seen), tuple(edges), tuple(names) if self.names else ())

    @cached_property
    def _by_symbol(self) -> tuple[list[int], ...]:
        return tuple(sorted(out, key=lambda e: self.edges[e].symbol) for out in self.outgoing)

    def _loops(self, node: int) -> bool:
        return any(self.edges[e].target == node for e in self.outgoing[node])

    def _strong(self) -> Iterator[list[int]]:
        """Strong components by Tarjan's algorithm, without recursion: lifts have long paths."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        waiting: set[int] = set()
        for root in range(self.nodes):
            work = [] if root in index else [(root, iter(self.outgoing[root]))]
            while work:
                node, edges = work[-1]
                if node not in index:
                    index[node] = low[node] = len(index)
                    stack.append(node)
                    waiting.add(node)
                for e in edges:
                    target = self.edges[e].target
                    if target not in index:
                        work.append((target, iter(self.outgoing[target])))
                        break
                    if target in waiting:
                        low[node] = min(low[node], index[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        at = stack.index(node)
                        yield stack[at:]
                        waiting.difference_update(stack[at:])
                        del stack[at:]


def _radius(matrix: Array) -> float:
    """The largest eigenvalue of a matrix without negative numbers."""
    return float(np.abs(np.linalg.eigvals(matrix)).max()) if len(matrix) else 0.0
