"""Dense linear systems in the interpreter: Gaussian elimination with partial pivoting.

The native core has a twin of this; the order of operations is the same, so the bits are, too.
"""

from __future__ import annotations

from upbeat.core.expr.ieee import divide
from upbeat.core.ports import Value


def solve(cells: list[Value], size: int, matrix: int, right: int, to: int) -> None:
    """Solve in copies of the cells, and put the result into `to`."""
    a = [[float(cells[matrix + i * size + j]) for j in range(size)] for i in range(size)]
    b = [float(cells[right + i]) for i in range(size)]
    for k in range(size):
        pivot = k
        for i in range(k + 1, size):
            if abs(a[i][k]) > abs(a[pivot][k]):
                pivot = i
        a[k], a[pivot] = a[pivot], a[k]
        b[k], b[pivot] = b[pivot], b[k]
        for i in range(k + 1, size):
            factor = divide(a[i][k], a[k][k])
            for j in range(k + 1, size):
                a[i][j] = a[i][j] - factor * a[k][j]
            b[i] = b[i] - factor * b[k]
    for i in range(size - 1, -1, -1):
        rest = b[i]
        for j in range(i + 1, size):
            rest = rest - a[i][j] * b[j]
        b[i] = divide(rest, a[i][i])
    cells[to : to + size] = b
