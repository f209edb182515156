"""Switched systems: bounds, proofs that are checked exactly, and what has to be forbidden."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upbeat.core.errors import InvalidInput, MissingExtra
from upbeat.stability.switched.automaton import Automaton
from upbeat.stability.switched.decide import Certificate, decide, search
from upbeat.stability.switched.radius import joint_radius
from upbeat.stability.switched.stabilise import cheapest_cut, stabilise, stabilise_best, stabilise_greedily
from upbeat.stability.switched.system import SwitchedSystem

ROOT = Path(__file__).parents[2]


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"reproduce/problems/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THESIS = load("policies")
PENDULUM = SwitchedSystem(list(THESIS.PENDULA.values()), names=THESIS.PENDULA)
MASSES = SwitchedSystem(list(THESIS.MASSES.values()), names=THESIS.MASSES)
GOLDEN = (1 + 5**0.5) / 2


def radius(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


# -------------------------------------------------------------------- cycles


@pytest.mark.parametrize("seed", range(5))
def test_all_cycles_are_tried_once(seed: int) -> None:
    """Against a plain enumeration of closed walks."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(1, 4))
    edges = sorted({tuple(int(k) for k in rng.integers(0, (nodes, nodes, 3))) for _ in range(6)})
    automaton, matrices = Automaton(nodes, tuple(edges)), rng.standard_normal((3, 2, 2))
    expected = set()
    for length in range(1, 5):
        for walk in itertools.product(range(len(edges)), repeat=length):
            turned = [walk[k:] + walk[:k] for k in range(length)]
            closed = all(edges[a][1] == edges[b][0] for a, b in itertools.pairwise([*walk, walk[0]]))
            product = np.eye(2)
            for e in walk:
                product = matrices[edges[e][2]] @ product
            if (
                closed
                and min(turned) == walk
                and len(set(turned)) == length
                and radius(product) >= 0.5**length
            ):
                expected.add(walk)
    found = search(automaton, matrices, 4, 0.5)
    assert {cycle.edges for cycle in found.found} == expected
    assert found.length == 4


def test_too_many_cycles_are_not_tried() -> None:
    assert search(Automaton.free(8), np.zeros((8, 2, 2)), 6, limit=5000).length == 4


# -------------------------------------------------------------------- bounds


def test_the_joint_radius_of_a_golden_pair() -> None:
    """The classical pair whose worst sequence alternates."""
    pair = SwitchedSystem([[[1, 1], [0, 1]], [[1, 0], [1, 1]]])
    found = joint_radius(pair, tolerance=1e-6)
    assert found.lower == pytest.approx(GOLDEN, rel=1e-9)
    assert GOLDEN <= found.upper <= GOLDEN * (1 + 1e-4)
    assert found.cycle is not None
    assert sorted(found.cycle.policies) == [0, 1]
    assert found.verdict == "unstable"
    assert [c.rate for c in found.certificates] == [found.upper]


def test_policies_of_the_two_masses() -> None:
    """Section 5.4; the thesis's own numbers cannot hold, see FACTS: the exact system decays by 0.9975."""
    assert radius(THESIS.FER1) == pytest.approx(1.0025062, abs=1e-7)
    assert radius(THESIS.FER10) == pytest.approx(0.9968803, abs=1e-7)
    assert sum(r >= 1 for r in MASSES.radii) == 4
    pairs = np.array(MASSES.products(2).radii)
    assert np.count_nonzero(pairs >= 1) == 22
    assert pairs[pairs < 1].max() == pytest.approx(0.999378, abs=1e-6)
    rest = MASSES.only([k for k, r in enumerate(MASSES.radii) if r < 1])
    found = joint_radius(rest)
    assert 0.999118 <= found.lower <= found.upper <= 0.99914
    assert found.verdict == "stable"
    assert all(c.check() for c in found.certificates)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_random_sequences(seed: int) -> None:
    """No product of a random system grows faster than its upper bound says, in the norm of the proof."""
    rng = np.random.default_rng(seed)
    system = SwitchedSystem(list(rng.standard_normal((2, 3, 3))))
    found = joint_radius(system, tolerance=1e-2, longest=4)
    assert max(system.radii) <= found.lower * (1 + 1e-12) <= found.upper
    (proof,) = found.certificates
    assert proof.check()
    form = np.linalg.cholesky(proof.forms[0])
    worst = np.sqrt(max(np.linalg.cond(p) for p in proof.forms)) * np.linalg.cond(form)
    product = np.eye(3)
    for _ in range(200):
        product = system.matrices[rng.integers(2)] @ product / found.upper
    assert np.linalg.norm(product, 2) <= worst


# -------------------------------------------------------------------- proofs


def exactly_positive(matrix: list[list[Fraction]]) -> bool:
    """Positive definite, by pivots of Gaussian elimination in fractions."""
    rows = [list(row) for row in matrix]
    for k in range(len(rows)):
        if rows[k][k] <= 0:
            return False
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return True


@given(st.integers(0, 10_000), st.floats(0.3, 1.2))
def test_a_check_is_what_fractions_say(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    a, half = rng.standard_normal((2, 3, 3))
    form = half @ half.T
    a *= size / radius(a)
    form = 0.5 * (form + form.T)
    exact = [[Fraction(float(x)) for x in row] for row in form]
    image = [
        [
            exact[i][j]
            - sum(Fraction(a[k, i]) * exact[k][m] * Fraction(a[m, j]) for k in range(3) for m in range(3))
            for j in range(3)
        ]
        for i in range(3)
    ]
    expected = exactly_positive(exact) and exactly_positive(image)
    assert Certificate(Automaton.free(1), a[None], form[None]).check() == expected


def test_what_is_no_proof_is_found_out() -> None:
    found = decide(SwitchedSystem([[[0.5, 1.0], [0.0, 0.5]]]))
    (proof,) = found.certificates
    assert proof.check()
    assert not Certificate(proof.automaton, proof.matrices, -proof.forms).check()
    assert not Certificate(proof.automaton, proof.matrices * 2.1, proof.forms).check()
    assert not Certificate(proof.automaton, proof.matrices, proof.forms, rate=0.4).check()
    assert not Certificate(proof.automaton, proof.matrices, proof.forms * np.nan).check()
    assert not Certificate(proof.automaton, proof.matrices, np.triu(proof.forms)).check()
    assert not Certificate(Automaton.free(1).part([0]), proof.matrices, proof.forms[:0]).check()


def test_exactly_one_is_not_less_than_one() -> None:
    """A rotation keeps its length for ever: no proof, and no claim that it dies out."""
    form = np.eye(2)[None]
    assert not Certificate(Automaton.free(1), np.array([[[0.0, 1.0], [-1.0, 0.0]]]), form).check()
    assert decide(SwitchedSystem([[[0.0, 1.0], [-1.0, 0.0]]])).verdict == "undecided"


# -------------------------------------------------------------------- three answers


def test_what_an_automaton_forbids_cannot_hurt() -> None:
    """2 and 1/3, one after the other: the product is 2/3."""
    system = SwitchedSystem([[[2.0]], [[1 / 3]]])
    assert decide(system).cycles[0] == (0,)
    turns = system.under(Automaton(2, ((0, 1, 0), (1, 0, 1))))
    found = decide(turns)
    assert found.verdict == "stable"
    assert joint_radius(turns).upper == pytest.approx((2 / 3) ** 0.5, rel=1e-4)


def test_long_cycles_are_found() -> None:
    """A shift of 12 places that grows only when all are passed in order."""
    n = 12
    nodes = tuple((k, (k + 1) % n, 0 if k else 1) for k in range(n))
    matrices = [[[0.98]], [[1.5]]]  # 1.5 · 0.98¹¹ = 1.2
    found = decide(SwitchedSystem(matrices, Automaton(n, nodes)), longest=3)
    assert found.verdict == "unstable"
    assert found.near
    assert len(found.near[0].policies) == n
    assert found.near[0].growth == pytest.approx((1.5 * 0.98**11) ** (1 / 12))


def test_no_time_and_too_much_to_do_are_said() -> None:
    rng = np.random.default_rng(0)
    big = SwitchedSystem([0.1 * rng.standard_normal((50, 50)) / 50])
    assert decide(big).verdict == "undecided"
    assert "50 numbers" in decide(big).why
    none = decide(PENDULUM.only([0, 1]), seconds=0.0, longest=1)
    assert (none.verdict, none.why) == ("undecided", "time was too short")


def test_without_the_extra_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(MissingExtra, match=r"pip install 'upbeat\[stability\]'"):
        decide(SwitchedSystem([[[0.5]]]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SwitchedSystem([]), "at least one policy"),
        (lambda: SwitchedSystem([[[1.0, 2.0]]]), "1×2, and must be square"),
        (lambda: SwitchedSystem([np.eye(2), np.eye(3)]), "must act on the same state"),
        (lambda: SwitchedSystem([[[float("nan")]]]), "no finite numbers"),
        (lambda: SwitchedSystem([[["a"]]]), "lists of numbers"),
        (lambda: SwitchedSystem([np.eye(2)], names=["a", "b"]), "as many different names"),
        (lambda: SwitchedSystem([np.eye(2)], Automaton.free(2)), "edges for policy 1"),
    ],
)
def test_policies_that_do_not_fit(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        make()


# -------------------------------------------------------------------- what has to be forbidden


def test_the_pendulum_s_policies() -> None:
    """Section 5.10: three of eight are unstable (the thesis mislabels one of them)."""
    bad = {name: r for name, r in zip(PENDULUM.names, PENDULUM.radii, strict=True) if r >= 1}
    assert bad == pytest.approx(
        {"H=0.2 h=0.2 midpoint": 1.11933, "H=0.2 h=0.02 euler": 1.35901, "H=0.2 h=0.02 midpoint": 1.62937},
        abs=1e-5,
    )


@pytest.mark.parametrize(("lift", "base"), [(0, 5.0), (1, 7.2568898), (2, 7.7539923)])
def test_table_5_2(lift: int, base: float) -> None:
    """The thesis has 5, 7.2568898 and 7.7083039."""
    found = stabilise(PENDULUM, lift=lift, seconds=300.0)
    assert found.proven
    assert all(c.check() for c in found.certificates)
    assert found.entropy_base >= base - 1e-7
    left = found.automaton
    assert left.right_resolving
    assert left.irreducible().nodes == left.nodes
    assert not any(left.accepts(word) for word in found.forbidden)
    assert joint_radius(PENDULUM.under(left), lift=0, longest=4, tolerance=1e-2).upper < 1.0


def test_the_best_cut_of_lift_1() -> None:
    found = stabilise_best(PENDULUM, lift=1, seconds=300.0)
    assert (found.proven, found.best) == (True, True)
    assert found.entropy_base == pytest.approx(7.2568898, abs=1e-7)


def test_algorithm_5_is_greedy() -> None:
    found = stabilise_greedily(PENDULUM, lift=1, seconds=300.0)
    assert found.proven
    assert 7.0 < found.entropy_base <= 7.2568898 + 1e-7


@pytest.mark.parametrize(
    ("lift", "base"), [(1, 1.6180340), (2, 1.8392868), (3, 1.9275620), (4, 1.9659482), (5, 1.9835828)]
)
def test_example_21(lift: int, base: float) -> None:
    """1 and 1/2: what is forbidden are lift + 1 ones in a row."""
    found = stabilise(SwitchedSystem([[[1.0]], [[0.5]]]), lift=lift)
    assert found.proven
    assert found.entropy_base == pytest.approx(base, abs=1e-7)
    assert found.forbidden == ((0,) * (lift + 1),)


def test_nothing_to_forbid_and_nothing_left() -> None:
    calm = stabilise(SwitchedSystem([[[0.5]], [[0.25]]]))
    assert (calm.proven, calm.cut, calm.entropy_base) == (True, frozenset(), pytest.approx(2.0))
    wild = stabilise(SwitchedSystem([[[2.0]]]), lift=2)
    assert wild.automaton.nodes == 0
    assert not wild.proven


SQUARE = Automaton(3, tuple((a, b, b) for a in range(3) for b in range(3)))


@functools.cache
def all_cuts() -> list[tuple[float, frozenset[int]]]:
    cuts = [frozenset(c) for size in range(10) for c in itertools.combinations(range(9), size)]
    return sorted(((SQUARE.without(cut).entropy_base, cut) for cut in cuts), key=lambda one: -one[0])


@settings(max_examples=20)
@given(st.sets(st.frozensets(st.integers(0, 8), min_size=1, max_size=4), max_size=6))
def test_the_cheapest_cut_against_all_cuts(sets: set[frozenset[int]]) -> None:
    cut, sure = cheapest_cut(SQUARE, sorted(sets, key=sorted))
    assert sure
    assert all(s & cut for s in sets)
    best = next(base for base, other in all_cuts() if all(s & other for s in sets))
    assert SQUARE.without(cut).entropy_base == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"lift": -1}, "degree of a lift is a whole number from 0 on, not -1"),
        ({"longest": 0}, "longest is a whole number from 1 on, not 0"),
        ({"seconds": -1}, "seconds are a number from 0 on"),
        ({"seconds": float("nan")}, "seconds are a number from 0 on"),
        ({"tolerance": 0}, "tolerance is a number between 0 and 1"),
        ({"tolerance": float("nan")}, "tolerance is a number between 0 and 1"),
    ],
)
def test_limits_that_make_no_sense_are_refused(given: dict[str, Any], what: str) -> None:
    system = SwitchedSystem([[[0.5]]])
    with pytest.raises(InvalidInput, match=what):
        joint_radius(system, **given)
    if "tolerance" not in given:
        with pytest.raises(InvalidInput, match=what):
            decide(system, **given)


@pytest.mark.filterwarnings("error")
def test_products_beyond_all_numbers_are_left_out() -> None:
    huge = SwitchedSystem([[[1e100, 0.0], [0.0, 1e50]], [[0.5, 0.0], [0.0, 0.5]]])
    assert decide(huge).verdict == "unstable"
    assert stabilise(huge, lift=1, seconds=20.0).forbidden
