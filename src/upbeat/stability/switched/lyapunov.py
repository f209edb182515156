"""Quadratic forms, one for each node of an automaton, that shrink along every edge: a semidefinite program.

What is found here is a candidate in floating point; `certificate` checks it exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.stability.switched.automaton import Array, Automaton
from upbeat.trace.extras import need

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
