"""Lifts: the same sequences on an automaton that remembers the last few edges, so that less need be cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from upbeat.core.errors import InvalidInput
from upbeat.stability.limits import checked_degree
from upbeat.stability.switched.automaton import Automaton, Edge

MOST = 200_000
"""Edges; nobody can decide anything about more of them."""


@dataclass(frozen=True)
class Lift:
    """The M-path-dependent lift of `base`, with M = `degree`: its nodes are the walks of that length.

    Each of its edges is a walk of `degree` + 1 edges of the base, in `windows`, and takes the policy of the
    last one.
    """

    base: Automaton
    degree: int

    def __post_init__(self) -> None:
        checked_degree(self.degree)

    @cached_property
    def windows(self) -> tuple[tuple[int, ...], ...]:
        """Of each edge of the lift, the edges of the base that it stands for, in order."""
        walks: list[tuple[int, ...]] = [(e,) for e in range(len(self.base.edges))]
        for _ in range(self.degree):
            walks = [
                (*walk, e) for walk in walks for e in self.base.outgoing[self.base.edges[walk[-1]].target]
            ]
            if len(walks) > MOST:
                raise InvalidInput(
                    f"a lift of degree {self.degree} would have more than {MOST} edges: take a smaller one"
                )
        return tuple(walks)

    @cached_property
    def automaton(self) -> Automaton:
        """The lifted automaton."""
        base = self.base
        if self.degree == 0:
            return base
        paths = dict.fromkeys(window[:-1] for window in self.windows)
        paths |= dict.fromkeys(window[1:] for window in self.windows)
        place = {path: k for k, path in enumerate(paths)}
        edges = tuple(Edge(place[w[:-1]], place[w[1:]], base.edges[w[-1]].symbol) for w in self.windows)
        names = tuple("·".join(str(base.edges[e].symbol) for e in path) for path in paths)
        return Automaton(len(place), edges, names)

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {window: k for k, window in enumerate(self.windows)}

    def edges_of(self, cycle: Iterable[int]) -> frozenset[int]:
        """The edges of the lift that a cycle of the base, repeated for ever, goes along."""
        edges = tuple(cycle)
        long = edges * (1 + (self.degree + 1) // len(edges) + 1)
        return frozenset(self._places[long[k : k + self.degree + 1]] for k in range(len(edges)))
