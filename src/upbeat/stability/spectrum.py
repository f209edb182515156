"""Eigenvalues of an induced model: how large, how sure, and which ports carry the motion."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, hypot, inf, log, pi

import numpy as np
import numpy.typing as npt

from upbeat.scenario.order import components
from upbeat.stability.followed import Induced

Array = npt.NDArray[np.float64]
NEAR_ONE = 1e-5
"""Eigenvalues this near to 1 are asked whether they can be told from it."""
SHOWN = 5
"""How many ports a mode names at most."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One motion of the coupled system: an eigenvalue, and the ports that carry it with their shares.

    `uncertainty` bounds, to first order, how far rounding and differences may have moved the eigenvalue.
    """

    value: complex
    uncertainty: float
    ports: tuple[tuple[str, float], ...]

    @property
    def radius(self) -> float:
        return abs(self.value)

    def rate(self, step: float) -> float:
        """By how much the logarithm of the motion grows in a second."""
        return log(self.radius) / step if self.radius > 0.0 else -inf

    def frequency(self, step: float) -> float:
        """Oscillations per second; above half of one per step nothing can be told apart."""
        return abs(atan2(self.value.imag, self.value.real)) / (2.0 * pi * step)


@dataclass(frozen=True)
class Spectrum:
    """All eigenvalues, largest first, the mode that dominates, and free motions.

    A free motion has an eigenvalue that cannot be told from 1: it neither decays nor grows, as the position
    of a body that nothing holds. `dominant` is the largest of the others, if there are any.
    """

    values: npt.NDArray[np.complex128]
    dominant: Mode
    free: tuple[Mode, ...] = ()

    @property
    def radius(self) -> float:
        return float(np.abs(self.values[0])) if len(self.values) else 0.0


def radius(matrix: Array, free: int = 0) -> float:
    """The spectral radius alone; without as many eigenvalues near 1 as there are free motions."""
    values = np.concatenate([values for _, values in _parts(matrix)] or [np.zeros(0, dtype=complex)])
    if free:
        values = values[np.argsort(np.abs(values - 1.0), kind="stable")[free:]]
    return float(np.abs(values).max(initial=0.0))


def spectrum(model: Induced) -> Spectrum:
    """The eigenvalues of an induced model."""
    parts = list(_parts(model.matrix))
    zeros = model.size - sum(len(values) for _, values in parts)
    values = np.concatenate([*(values for _, values in parts), np.zeros(zeros, dtype=complex)])
    values = values[np.argsort(-np.abs(values), kind="stable")]
    free: list[Mode] = []
    candidates: list[tuple[float, list[int], complex]] = []
    for group, own in parts:
        for value in own:
            if value.imag < 0.0 or not value:  # of a pair one will do
                continue
            if abs(value - 1.0) < NEAR_ONE:
                mode = _mode(model, group, complex(value))
                if abs(value - 1.0) <= mode.uncertainty:
                    free.append(mode)
                    continue
            candidates.append((abs(value), group, complex(value)))
    if not candidates:
        return Spectrum(values, free[0] if free else Mode(0j, 0.0, ()), tuple(free))
    _, group, value = max(candidates, key=lambda one: one[0])
    return Spectrum(values, _mode(model, group, value), tuple(free))


def _parts(matrix: Array) -> list[tuple[list[int], npt.NDArray[np.complex128]]]:
    """The eigenvalues of each strong component: entries that do not influence each other in a circle.

    Put in order, what is left makes a matrix triangular: these are all eigenvalues, the rest being zero. It
    spares most of the work for large scenarios, and entries that nobody remembers do not blur the others.
    """
    rows, columns = np.nonzero(matrix)
    before: list[list[int]] = [[] for _ in range(len(matrix))]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        before[row].append(column)
    found = []
    for group in components(before):
        if len(group) > 1:
            found.append((group, np.linalg.eigvals(matrix[np.ix_(group, group)]).astype(complex)))
        elif group[0] in before[group[0]]:
            found.append((group, np.array([matrix[group[0], group[0]]], dtype=complex)))
    return found


def _mode(model: Induced, group: list[int], value: complex) -> Mode:
    block = model.matrix[np.ix_(group, group)]
    right, left = _vector(block, value), _vector(block.T, value)
    overlap = float(abs(left @ right))  # both without conjugation: left' A = value left'
    moved = float(np.abs(left) @ np.abs(block) @ np.abs(right))
    unsure = inf if overlap == 0.0 else model.accuracy * (8 + len(group)) * moved / overlap
    shares: dict[str, float] = {}
    for entry, share in zip(group, np.abs(left * right), strict=True):
        shares[model.ports[entry]] = shares.get(model.ports[entry], 0.0) + float(share)
    total = sum(shares.values()) or 1.0
    ranked = sorted(((name, share / total) for name, share in shares.items()), key=lambda pair: -pair[1])
    return Mode(value, unsure, tuple((name, share) for name, share in ranked[:SHOWN] if share >= 0.01))


def _vector(matrix: Array, value: complex) -> npt.NDArray[np.complex128]:
    """An eigenvector, by inverse iteration: of one eigenvalue out of many that is all one needs."""
    size = len(matrix)
    shift = value * (1.0 + 1e-10) + 1e-300
    system = matrix.astype(complex) - shift * np.eye(size)
    vector = np.random.default_rng(3).uniform(0.5, 1.0, size).astype(complex)
    for _ in range(3):
        try:
            vector = np.linalg.solve(system, vector)
        except np.linalg.LinAlgError:
            system = system - 1e-8 * hypot(value.real, value.imag) * np.eye(size)
            continue
        vector = vector / np.abs(vector).max()
    return vector
