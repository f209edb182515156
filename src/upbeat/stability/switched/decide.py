"""Whether all sequences of steps that an automaton allows come to rest: proofs and counterexamples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, check_type
from upbeat.stability.budget import Budget, checked_degree, checked_whole
from upbeat.stability.linear.followed import Verdict
from upbeat.stability.switched.automaton import Array, Automaton, Edge
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.trace.extras import need

# ----------------------------------------------------------------------------------------------------
# Quadratic forms, one for each node of an automaton, that shrink along every edge: a semidefinite program.
#
# What is found here is a candidate in floating point; `certificate` checks it exactly.

PURPOSE = "proving a switched system stable"


class Quadratics(NamedTuple):
    """A form P for each node, with rate²·P_source - A'·P_target·A ⪰ `margin`·I along every edge.

    The traces of all forms have the mean n; a margin above 0 is what a proof needs. With a negative one the
    forms are still the best norms that there are of their kind.
    """

    forms: Array
    margin: float
    stress: Array
    """Of each edge, how much it stands in the way of a larger margin: growth, if there is any, is there."""
    solved: bool
    """Whether the solver has come to its end: then there are no better forms."""


def best_forms(
    automaton: Automaton, matrices: Array, rate: float = 1.0, seconds: float = 600.0
) -> Quadratics:
    """The forms with the largest margin, within about so many seconds."""
    clarabel = need("clarabel", "stability", PURPOSE)
    sparse = need("scipy.sparse", "stability", PURPOSE)
    nodes, n = automaton.nodes, matrices.shape[1]
    size = n * (n + 1) // 2
    unknowns = nodes * size + 1  # the forms' upper triangles, and the margin
    images = np.array([_image(a) for a in matrices])
    scale = _triangle_scale(n)
    rows: list[npt.NDArray[np.int64]] = []
    columns: list[npt.NDArray[np.int64]] = []
    values: list[Array] = []
    own = np.arange(size)
    diagonal = np.flatnonzero(scale == 1.0)

    def put(row: npt.NDArray[np.int64], column: npt.NDArray[np.int64], value: Array) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    row = 0
    for node in range(nodes):  # P ⪰ 0
        put(row + own, node * size + own, -scale)
        row += size
    grid = np.repeat(own, size), np.tile(own, size)
    for edge in automaton.edges:  # rate²·P_source - A'·P_target·A - margin·I ⪰ 0
        put(row + own, edge.source * size + own, -(rate**2) * scale)
        put(row + grid[0], edge.target * size + grid[1], images[edge.symbol].ravel())
        put(row + diagonal, np.full(n, unknowns - 1), np.ones(n))
        row += size
    cones = [clarabel.PSDTriangleConeT(n)] * (nodes + len(automaton.edges)) + [clarabel.ZeroConeT(1)]
    traces = (np.arange(nodes)[:, None] * size + diagonal).ravel()
    put(np.full(n * nodes, row), traces, np.ones(n * nodes))
    shape = (row + 1, unknowns)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    system = sparse.coo_matrix(entries, shape).tocsc()
    right = np.zeros(row + 1)
    right[row] = n * nodes
    aim = np.zeros(unknowns)
    aim[-1] = -1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = seconds
    settings.max_threads = 1
    found = clarabel.DefaultSolver(
        sparse.csc_matrix((unknowns, unknowns)), aim, system, right, cones, settings
    ).solve()
    x = np.array(found.x)
    dual = np.array(found.z)[nodes * size : -1].reshape(-1, size)
    solved = str(found.status) in ("Solved", "AlmostSolved")
    return Quadratics(_matrices(x[:-1], nodes, n), float(x[-1]), dual[:, diagonal].sum(1), solved)


def _places(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of the upper triangle, column by column."""
    columns, rows = np.tril_indices(n)
    return rows, columns


def _triangle_scale(n: int) -> Array:
    """Entries off the diagonal count √2: then the inner product of triangles is that of the matrices."""
    rows, columns = _places(n)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))


def _image(a: Array) -> Array:
    """The map from the triangle of P to the scaled triangle of A'·P·A."""
    n = len(a)
    rows, columns = _places(n)
    image = np.empty((len(rows), len(rows)))
    for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
        one = np.outer(a[i], a[j])
        image[:, k] = (one if i == j else one + one.T)[rows, columns]
    return image * _triangle_scale(n)[:, None]


def _matrices(x: Array, nodes: int, n: int) -> Array:
    rows, columns = _places(n)
    forms = np.zeros((nodes, n, n))
    forms[:, rows, columns] = forms[:, columns, rows] = x.reshape(nodes, -1)
    return forms


# ----------------------------------------------------------------------------------------------------
# Cycles of a switched system that grow: found by trying all short ones.

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
    automaton: Automaton, matrices: Array, longest: int, at_least: float = 1.0, limit: int = 2_000_000
) -> Search:
    """Try all cycles of up to `longest` edges, but not more than about `limit` walks of one length.

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
        if length == longest or counts.sum() > limit or len(edges) ** (length + 1) >= 1 << 62:
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


# ----------------------------------------------------------------------------------------------------
# Certificates of stability, and their check in exact arithmetic, independent of who found them.

Exact = list[list[int]]
"""A matrix of whole numbers."""


@dataclass(frozen=True)
class Certificate:
    """A quadratic form for each node that shrinks by `rate`² along every edge.

    With x'·P·x for the node where one is, no sequence of the automaton grows faster than rate^k; a rate of 1
    proves that all die out, because the inequality is strict. `check` decides whether this is so by whole
    numbers alone: every float is a whole number times a power of two.
    """

    automaton: Automaton
    matrices: Array
    forms: Array
    rate: float = 1.0

    def check(self) -> bool:
        """Whether every form P is positive definite, and rate²·P_source - A'·P_target·A along every edge."""
        if len(self.forms) != self.automaton.nodes or not np.isfinite(self.forms).all():
            return False
        forms = [_whole(form) for form in self.forms]
        matrices = [_whole(matrix) for matrix in self.matrices]
        rate, rate_bits = _ratio(float(self.rate))
        if not all(_positive(form) for form, _ in forms):
            return False
        for edge in self.automaton.edges:
            (here, here_bits), (there, there_bits) = forms[edge.source], forms[edge.target]
            a, a_bits = matrices[edge.symbol]
            image = _congruence(a, there)
            image_bits = there_bits + 2 * a_bits
            kept_bits = here_bits + 2 * rate_bits
            bits = max(image_bits, kept_bits)
            difference = [
                [
                    (rate * rate * p << (bits - kept_bits)) - (q << (bits - image_bits))
                    for p, q in zip(*rows, strict=True)
                ]
                for rows in zip(here, image, strict=True)
            ]
            if not _positive(difference):
                return False
        return True


def _ratio(value: float) -> tuple[int, int]:
    """A float as m / 2^e."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, denominator.bit_length() - 1


def _whole(matrix: Array) -> tuple[Exact, int]:
    """A matrix of floats as M / 2^e."""
    ratios = [[_ratio(float(x)) for x in row] for row in matrix]
    bits = max(e for row in ratios for _, e in row)
    return [[m << (bits - e) for m, e in row] for row in ratios], bits


def _congruence(a: Exact, p: Exact) -> Exact:
    """A'·P·A."""
    left: Any = np.array(a, dtype=object)
    result: Exact = (left.T @ np.array(p, dtype=object) @ left).tolist()
    return result


def _positive(matrix: Exact) -> bool:
    """Whether a matrix is symmetric and positive definite: all its leading minors are positive (Sylvester),
    which elimination without fractions (Bareiss) finds one after the other."""
    n = len(matrix)
    if any(matrix[i][j] != matrix[j][i] for i in range(n) for j in range(i)):
        return False
    rows = [list(row) for row in matrix]
    before = 1
    for k in range(n):
        pivot = rows[k][k]
        if pivot <= 0:
            return False
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                rows[i][j] = (rows[i][j] * pivot - rows[i][k] * rows[k][j]) // before
        before = pivot
    return True


# ----------------------------------------------------------------------------------------------------
# Lifts: the same sequences on an automaton that remembers the last few edges, so that less need be cut.

MAX_EDGES = 200_000
"""Edges; nothing can be decided about more of them."""


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
            if len(walks) > MAX_EDGES:
                raise InvalidInput(
                    f"a lift of degree {self.degree} would have more than {MAX_EDGES} edges: "
                    "take a smaller one"
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


# ----------------------------------------------------------------------------------------------------
# Whether all sequences of a switched system die out: a proof, a cycle that does not, or neither.

MARGINAL = 1.0 - 1e-12
"""A cycle that shrinks less than this does not die out as far as rounding lets us say."""
ASKED = 50
"""Of so many cycles, the fastest ones, it is found out whether they surely grow."""
STAYS = "a sequence, repeated, neither decays nor grows as far as can be seen"
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Parts of the largest stress from which on an edge is searched for growing cycles."""
LARGEST = 40
"""States; forms for more of them would take the solver hours."""
EDGES = 6_000
"""Edges that one program of the solver may have."""


class Repeated(NamedTuple):
    """Policies that are taken again and again, and by how much the state then grows with each step."""

    policies: tuple[int, ...]
    growth: float


@dataclass(frozen=True)
class Decision:
    """An answer, and what it rests on.

    Stable: `certificates`, one for each component of the automaton, checked. Unstable: `growing`, cycles of
    policies that grow when repeated, beyond all rounding. Undecided: `why`. `near` are all cycles that
    were met and come near to growing, or grow, `cycles` those of them that do not die out as far as can be
    told; all of these with the fastest first.
    """

    verdict: Verdict
    certificates: tuple[Certificate, ...] = ()
    near: tuple[Repeated, ...] = ()
    why: str = ""
    growing: tuple[Repeated, ...] = ()

    @property
    def cycles(self) -> tuple[tuple[int, ...], ...]:
        return tuple(one.policies for one in self.near if one.growth >= MARGINAL)


def decide(
    system: SwitchedSystem,
    *,
    seconds: float = 60.0,
    longest: int = 4,
    lift: int = 2,
    near: float = MARGINAL,
    enough: int = 1,
) -> Decision:
    """Whether all sequences die out.

    Cycles of up to `longest` policies are tried first. Then forms are looked for, if need be on lifts up to
    degree `lift`; where there are none, the edges that stand in their way are searched for longer cycles,
    until `enough` of them are found that grow by at least `near` with every step.

    `seconds` limits the work of this process: seconds of the processor (all threads together), not of the
    clock on the wall, so that waiting for others does not count. The limit is looked at between calls of the
    solver, so that the last of them may go beyond it. All limits and times of switched
    systems are of this kind.
    """
    check_type(system, SwitchedSystem, "system")
    budget = Budget(seconds)
    checked_whole(longest, "longest", 1)
    checked_degree(lift)
    tried = search(system.automaton, system.matrices, longest, MARGINAL, limit=100_000)
    if tried.found:
        return _not_dying(_repeated(system.automaton, tried.found), system.matrices)
    met = _repeated(system.automaton, [tried.best] if tried.best is not None else [])
    certificates: list[Certificate] = []
    for nodes in system.automaton.components():
        part = system.automaton.part(nodes)
        found = _component(part, system.matrices, budget, lift, near, enough)
        met = tuple(sorted({*met, *found.near}, key=_order))
        if found.verdict != "stable":
            return Decision(found.verdict, (), met, found.why, found.growing)
        certificates += found.certificates
    return Decision("stable", tuple(certificates), met)


def _not_dying(near: tuple[Repeated, ...], matrices: Array) -> Decision:
    """The answer where there are cycles that do not die out: some surely grow, or it is undecided."""
    fastest = [one for one in near[:ASKED] if one.growth >= MARGINAL]
    growing = tuple(one for one in fastest if grows(matrices, one.policies))
    if growing:
        return Decision("unstable", (), near, growing=growing)
    return Decision("undecided", (), near, STAYS)


def _component(
    part: Automaton, matrices: Array, budget: Budget, limit: int, near: float, enough: int
) -> Decision:
    """The answer for one strong component."""
    if matrices.shape[1] > LARGEST:
        why = f"the state has {matrices.shape[1]} numbers, and forms are looked for with up to {LARGEST}"
        return Decision("undecided", why=why)
    met: tuple[Repeated, ...] = ()
    why = "there are no quadratic forms, and no cycle was found that grows"
    prover = Prover(part, matrices, budget)
    for degree in range(limit + 1):
        if len(Lift(part, degree).windows) > EDGES:
            break
        if budget.over:
            why = "time was too short"
            break
        proof, found = prover.proof(degree)
        if proof is not None:
            return Decision("stable", (proof,), met)
        graph = Lift(part, degree).automaton
        met = (*met, *_repeated(graph, stressed_cycles(graph, prover.turned, found, near, enough)))
        if any(cycle.growth >= MARGINAL for cycle in met):
            return _not_dying(tuple(sorted(met, key=_order)), matrices)
    return Decision("undecided", (), met, why)


class Prover:
    """Looks for forms of one component, in coordinates that suit the solver."""

    def __init__(self, part: Automaton, matrices: Array, budget: Budget) -> None:
        self._part, self._matrices, self._budget = part, matrices, budget
        self._turn = balance(matrices, budget)
        back = np.linalg.inv(self._turn)
        self.turned = self._turn @ matrices @ back

    def proof(self, degree: int, rate: float = 1.0) -> tuple[Certificate | None, Quadratics]:
        """A proof on the lift of this degree that has been checked, or None; and what the solver said."""
        graph = Lift(self._part, degree).automaton
        found = best_forms(graph, self.turned, rate, self._budget.by_the_wall)
        if not found.margin > 0.0:
            return None, found
        forms = self._turn.T @ found.forms @ self._turn
        proof = Certificate(graph, self._matrices, 0.5 * (forms + forms.transpose(0, 2, 1)), rate)
        return (proof if proof.check() else None), found


def balance(matrices: Array, budget: Budget) -> Array:
    """Coordinates in which no matrix has entries much larger than its eigenvalues.

    They are those of a form that is common to all matrices, for a rate that is just large enough for one.
    """
    linalg = need("scipy.linalg", "stability", PURPOSE)
    _, (sizes, _) = linalg.matrix_balance(np.abs(matrices).sum(0), permute=False, separate=True)
    scaled = matrices * (sizes[None, None, :] / sizes[None, :, None])
    rate = max(float(np.abs(np.linalg.eigvals(matrices)).max()), 1e-3)
    for _ in range(40):
        rate *= 1.05
        found = best_forms(Automaton.free(len(matrices)), scaled, rate, budget.by_the_wall)
        if found.margin > 0.0 and np.linalg.eigvalsh(found.forms[0])[0] > 0.0:
            return np.asarray(np.linalg.cholesky(found.forms[0]).T / sizes)
    return np.diag(1.0 / sizes)


def stressed_cycles(
    graph: Automaton, matrices: Array, found: Quadratics, near: float = MARGINAL, enough: int = 1
) -> list[Cycle]:
    """Cycles that grow by at least `near` among the edges that keep the forms from shrinking.

    More and more edges are searched until `enough` are found. If there are none, the fastest one met.
    """
    top = float(found.stress.max())
    cycles: dict[frozenset[int], Cycle] = {}
    fastest: list[Cycle] = []
    for level in LEVELS:
        places = np.flatnonzero(found.stress >= level * top)
        part = Automaton(graph.nodes, tuple(graph.edges[k] for k in places))
        tried = search(part, matrices, 60, near, limit=60_000)
        for cycle in (*tried.found, *([tried.best] if tried.best is not None else [])):
            named = Cycle(tuple(int(places[e]) for e in cycle.edges), cycle.growth)
            if cycle.growth >= near:
                cycles.setdefault(frozenset(named.edges), named)
            elif not fastest or cycle.growth > fastest[0].growth:
                fastest = [named]
        if len(cycles) >= enough:
            break
    return list(cycles.values()) or fastest


def _repeated(graph: Automaton, cycles: Iterable[Cycle]) -> tuple[Repeated, ...]:
    found = {Repeated(tuple(graph.edges[e].symbol for e in c.edges), c.growth) for c in cycles}
    return tuple(sorted(found, key=_order))


def _order(cycle: Repeated) -> tuple[float, int, tuple[int, ...]]:
    """The fastest first; of equals the shortest."""
    return (-round(cycle.growth, 12), len(cycle.policies), cycle.policies)
