"""The exponential of a matrix: Padé's approximation of degree 13 with scaling and squaring (Higham 2005).

The matrix is balanced before, so that units of measure do not matter: each squaring doubles the errors made
so far, and a matrix with entries of very different size would be squared many times for no reason. What is
left is an error that grows with the `size` of the matrix.

Numpy has none. SciPy has one, but judging a scenario should need no extra, and what takes microseconds here
takes a hundred times as long there on a busy machine, whose threads wait for each other over a 4×4 matrix.
"""

from __future__ import annotations

from math import ceil, isfinite, log2

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LARGEST = 5.371920351148152
"""Up to this norm the approximation is exact to rounding."""
_B = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
SWEEPS = 30
"""How often all entries are balanced, one after the other, at most."""
FURTHEST = 300
"""By no more than this power of two: nothing should become infinite by another unit of measure."""


def exponential(matrix: Array) -> Array:
    """exp(matrix)."""
    matrix, scale = balanced(matrix)
    largest = norm(matrix)
    halvings = max(0, ceil(log2(largest / LARGEST))) if largest > 0.0 else 0
    a = matrix / 2.0**halvings
    one, a2 = np.eye(len(a)), a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (
        a6 @ (_B[13] * a6 + _B[11] * a4 + _B[9] * a2) + _B[7] * a6 + _B[5] * a4 + _B[3] * a2 + _B[1] * one
    )
    even = a6 @ (_B[12] * a6 + _B[10] * a4 + _B[8] * a2) + _B[6] * a6 + _B[4] * a4 + _B[2] * a2 + _B[0] * one
    result: Array = np.asarray(np.linalg.solve(even - odd, even + odd), dtype=np.float64)
    for _ in range(halvings):
        result = result @ result
    return result * scale[:, None] / scale


def size(matrix: Array) -> float:
    """The norm of a matrix once it is balanced: by so much, about, errors grow in its exponential."""
    return norm(balanced(matrix)[0])


def balanced(matrix: Array) -> tuple[Array, Array]:
    """The matrix in other units of measure, each row about as large as its column, and these units.

    They are powers of two, which cost no rounding: the matrix is what is returned, each entry times the unit
    of its row over that of its column.
    """
    if not isfinite(float(np.abs(matrix).sum())):
        raise OverflowError("the exponential of a matrix that is not finite")
    found, powers = matrix.copy(), np.zeros(len(matrix), dtype=int)
    for _ in range(SWEEPS):
        moved = False
        for i in range(len(found)):
            own = abs(found[i, i])
            column, row = float(np.abs(found[:, i]).sum() - own), float(np.abs(found[i]).sum() - own)
            if row and column:
                power = round(0.5 * (log2(row) - log2(column)))
            else:  # nothing comes back from there, so that it may be as small as one likes
                power = ceil(log2(max(row, 1.0))) - ceil(log2(max(column, 1.0)))
            power = max(-FURTHEST, min(FURTHEST, int(powers[i]) + power)) - int(powers[i])
            if power:
                found[:, i] *= 2.0**power
                found[i] *= 2.0**-power
                powers[i] += power
                moved = True
        if not moved:
            break
    return found, 2.0**powers


def norm(matrix: Array) -> float:
    """The largest sum of a column."""
    return float(np.abs(matrix).sum(axis=0).max(initial=0.0))
