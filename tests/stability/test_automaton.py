"""Automata: languages, entropy, lifts."""

from __future__ import annotations

import itertools
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import InvalidInput
from upbeat.stability.switched.automaton import Automaton
from upbeat.stability.switched.decide import Lift


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    nodes = draw(st.integers(1, 4))
    node = st.integers(0, nodes - 1)
    edges = draw(st.sets(st.tuples(node, node, st.integers(0, 2)), min_size=1, max_size=10))
    return Automaton(nodes, tuple(sorted(edges)))


def words(automaton: Automaton, length: int) -> set[tuple[int, ...]]:
    """All words, by walking."""
    found = [(node, ()) for node in range(automaton.nodes)]
    for _ in range(length):
        found = [
            (e.target, (*word, e.symbol)) for at, word in found for e in automaton.edges if e.source == at
        ]
    return {word for _, word in found}


def endless(automaton: Automaton) -> Automaton:
    """The nodes that lie on walks without beginning and end."""
    nodes = set(range(automaton.nodes))
    while True:
        left = {
            n
            for n in nodes
            if any(e.source == n and e.target in nodes for e in automaton.edges)
            and any(e.target == n and e.source in nodes for e in automaton.edges)
        }
        if left == nodes:
            return automaton.part(sorted(nodes))
        nodes = left


@given(automata())
def test_a_right_resolving_automaton_has_the_same_words(automaton: Automaton) -> None:
    other = automaton.resolved()
    assert other.right_resolving
    for length in range(1, 5):
        assert words(other, length) == words(automaton, length)


@given(automata(), st.integers(0, 3))
def test_a_lift_has_the_same_words(automaton: Automaton, degree: int) -> None:
    base = endless(automaton)
    lift = Lift(base, degree).automaton
    for length in range(1, 4):
        assert words(lift, length) == words(base, length)


@given(automata())
def test_the_smallest_automaton_has_the_same_words(automaton: Automaton) -> None:
    base = automaton.resolved().irreducible()
    small = base.minimal()
    assert small.nodes <= base.nodes
    assert small.right_resolving
    for length in range(1, 5):
        assert words(small, length) == words(base, length)


@given(automata())
def test_entropy_is_the_growth_of_the_number_of_words(automaton: Automaton) -> None:
    """Between the definition's bounds: |words of k| ≥ base^k, and not many times more."""
    base = automaton.entropy_base
    length = 8
    count = len(words(automaton.resolved(), length))
    assert count ** (1 / length) >= base - 1e-6
    if base > 0:
        nodes = automaton.resolved().nodes
        assert count <= nodes**2 * (length + 1) ** nodes * (base + 1e-6) ** length


@given(automata(), st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_words_are_accepted(automaton: Automaton, word: list[int]) -> None:
    assert automaton.accepts(word) == (tuple(word) in words(automaton, len(word)))


@given(automata(), st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_the_cycles_of_a_word_repeat_it(automaton: Automaton, word: list[int]) -> None:
    base = automaton.resolved()
    cycles = base.cycles_of(word)
    for cycle in cycles:
        edges = [base.edges[e] for e in cycle]
        assert [e.symbol for e in edges] == list(word) * (len(cycle) // len(word))
        assert all(one.target == next_.source for one, next_ in itertools.pairwise([*edges, edges[0]]))
    assert bool(cycles) == base.accepts(word * (base.nodes + 1))


def test_the_components_are_those_of_scipy() -> None:
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(1)
    for _ in range(50):
        nodes = int(rng.integers(2, 40))
        pairs = {(int(a), int(b)) for a, b in rng.integers(0, nodes, (2 * nodes, 2))}
        automaton = Automaton(nodes, tuple((a, b, 0) for a, b in sorted(pairs)))
        _, labels = connected_components(automaton.adjacency(), connection="strong")
        groups = {tuple(np.flatnonzero(labels == k).tolist()) for k in set(labels.tolist())}
        expected = {g for g in groups if len(g) > 1 or (g[0], g[0]) in pairs}
        assert set(automaton.components()) == expected


def test_the_automaton_of_example_24() -> None:
    """Figure 5.9: either of two edges could go; 1 and the golden ratio are left."""
    edges = ((0, 1, 2), (1, 1, 2), (1, 0, 1), (1, 2, 3), (2, 2, 3), (2, 0, 4))
    automaton = Automaton(3, edges)
    assert automaton.without([0]).entropy_base == pytest.approx(1.0)
    assert automaton.without([3]).entropy_base == pytest.approx((1 + 5**0.5) / 2)
    assert Automaton.free(5).entropy == pytest.approx(log2(5))


def test_a_graph_without_cycles_allows_nothing_for_ever() -> None:
    automaton = Automaton(2, ((0, 1, 0),))
    assert automaton.entropy_base == 0.0
    assert automaton.entropy == float("-inf")
    assert automaton.irreducible().nodes == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Automaton(1, ((0, 1, 0),)), "does not fit an automaton of 1 nodes"),
        (lambda: Automaton(1, ((0, 0, 0), (0, 0, 0))), "there twice"),
        (lambda: Automaton(2, ((0, 1, 0),), ("a",)), "1 names for 2 nodes"),
        (lambda: Lift(Automaton.free(2), -1), "whole number from 0 on"),
        (lambda: Lift(Automaton.free(100), 3).windows, "take a smaller one"),
    ],
)
def test_what_cannot_be(make, said) -> None:
    with pytest.raises(InvalidInput, match=said):
        make()
