"""Certificates of stability, and their check in exact arithmetic, independent of who found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from upbeat.stability.switched.automaton import Array, Automaton

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
