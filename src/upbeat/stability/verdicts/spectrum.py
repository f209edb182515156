"""Eigenvalues of an induced model: how large, how sure, and which ports carry the motion."""

from __future__ import annotations

from cmath import rect
from dataclasses import dataclass, replace
from math import atan2, inf, log, pi
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import StepError
from upbeat.scenario.graph import components
from upbeat.stability.linear.followed import Induced, Verdict

Array = npt.NDArray[np.float64]
Vector = npt.NDArray[np.complex128]
NEAR_ONE = 1e-5
"""Eigenvalues this near to 1 are asked whether they can be told from it."""
Twin = tuple[int, int, float]
"""An entry that always is another one, or that with the other sign: the one, the other, the sign."""
AGAIN = 4.0
"""How much further off than two of them are from each other matrices may be that should be equal."""
SHOWN = 5
"""How many ports a mode names at most."""


class Judged(NamedTuple):
    """The size of the motion that decides, how well it is known, and whether there are free motions."""

    radius: float
    uncertainty: float = 0.0
    free: bool = False
    unseen: bool = False
    """Whether something happens that the matrix does not contain: then its motions decide nothing."""

    @property
    def verdict(self) -> Verdict:
        """Stable or unstable only where no rounding error could make it the other."""
        if self.unseen:
            return "undecided"
        if self.radius - self.uncertainty > 1.0:
            return "unstable"
        if self.free or not self.radius + self.uncertainty < 1.0:
            return "undecided"
        return "stable"


UNKNOWN = Judged(inf, inf)
"""Where there is no matrix to look at."""


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

    def each(self, steps: int) -> Mode:
        """The same for each of so many steps: a factor that makes it up on the average."""
        size, turn = self.radius, atan2(self.value.imag, self.value.real)
        own = size ** (1.0 / steps)
        ends = (
            max(size - self.uncertainty, 0.0) ** (1.0 / steps),
            (size + self.uncertainty) ** (1.0 / steps),
        )
        return Mode(rect(own, turn / steps), max(own - ends[0], ends[1] - own), self.ports)

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
    unseen: bool = False
    """Whether there are events that the matrix does not contain."""

    def each(self, steps: int) -> Spectrum:
        """The same for each of so many steps, which all this is about together."""
        values = np.abs(self.values) ** (1.0 / steps) * np.exp(1j * np.angle(self.values) / steps)
        free = tuple(mode.each(steps) for mode in self.free)
        return replace(self, values=values, dominant=self.dominant.each(steps), free=free)

    @property
    def radius(self) -> float:
        return float(np.abs(self.values[0])) if len(self.values) else self.dominant.radius

    @property
    def judged(self) -> Judged:
        return Judged(self.dominant.radius, self.dominant.uncertainty, bool(self.free), self.unseen)


NO_SPECTRUM = Spectrum(np.zeros(0, dtype=complex), Mode(complex(inf), inf, ()))
"""That of a step which has no matrix."""


def radius(matrix: Array) -> float:
    """The spectral radius alone."""
    if not np.isfinite(matrix).all():
        return inf
    found = _parts(merged(matrix)[0])
    values = np.concatenate([values for _, values in found] or [np.zeros(0, dtype=complex)])
    return float(np.abs(values).max(initial=0.0))


@np.errstate(over="ignore", invalid="ignore")  # how well something is known may be beyond all numbers
def spectrum(model: Induced) -> Spectrum:
    """The eigenvalues of an induced model."""
    if not np.isfinite(model.matrix).all():
        raise StepError(
            f"the derivatives of a step of {model.step:.6g} s at t = {model.at:.6g} s are not finite: "
            "nothing linear comes close to it there. Choose another operating point (at=…, --at) or step."
        )
    matrix, left, twins = merged(model.matrix)
    error = _added(model.error, [(twin, other, 1.0) for twin, other, _ in twins], left)
    again = _added(model.again, twins, left)
    if again is not None:
        error = (model.accuracy * np.abs(matrix) if error is None else error) + AGAIN * np.abs(again - matrix)
    core = replace(model, matrix=matrix, error=error, ports=tuple(model.ports[i] for i in left))
    parts = _parts(matrix)
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
                mode = _mode(core, group, complex(value))
                if abs(value - 1.0) <= mode.uncertainty:
                    free.append(mode)
                    continue
            candidates.append((abs(value), group, complex(value)))
    unseen = bool(model.unseen)
    if not candidates:
        found = Spectrum(values, free[0] if free else Mode(0j, 0.0, ()), tuple(free), unseen)
    else:
        _, group, value = max(candidates, key=lambda one: one[0])
        found = Spectrum(values, _mode(core, group, value), tuple(free), unseen)
    return found if model.steps == 1 else found.each(model.steps)


def _parts(matrix: Array) -> list[tuple[list[int], npt.NDArray[np.complex128]]]:
    """The eigenvalues of each strong component: entries that do not influence each other in a circle.

    Put in order, what is left makes a matrix triangular: these are all eigenvalues, the rest being zero. It
    spares most of the work for large scenarios, and entries that are not carried on do not blur the others.
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
    right, left = _vectors(block, value)
    overlap = float(abs(left @ right))  # both without conjugation: left' A = value left'
    error = model.accuracy * np.abs(block) if model.error is None else model.error[np.ix_(group, group)]
    moved = float(np.abs(left) @ error @ np.abs(right))
    unsure = inf if overlap == 0.0 else (8 + len(group)) * moved / overlap
    shares: dict[str, float] = {}
    for entry, share in zip(group, np.abs(left * right), strict=True):
        shares[model.ports[entry]] = shares.get(model.ports[entry], 0.0) + float(share)
    total = sum(shares.values()) or 1.0
    ranked = sorted(((name, share / total) for name, share in shares.items()), key=lambda pair: -pair[1])
    return Mode(value, unsure, tuple((name, share) for name, share in ranked[:SHOWN] if share >= 0.01))


def _vectors(matrix: Array, value: complex) -> tuple[Vector, Vector]:
    """The right and the left eigenvector, by inverse iteration: of one eigenvalue that is all one needs."""
    size = len(matrix)
    start = np.random.default_rng(3).uniform(0.5, 1.0, size).astype(complex)
    for away in (1e-10, 1e-8, 1e-6):
        near = value * (1.0 + away)
        try:
            inverse = np.linalg.inv(matrix - (near if near.imag else near.real) * np.eye(size))
        except np.linalg.LinAlgError:
            continue  # hit too well: go a little further away
        right, left = start, start
        for _ in range(3):
            right, left = inverse @ right, left @ inverse
            right, left = right / np.abs(right).max(), left / np.abs(left).max()
        return right, left
    return start, start


def merged(matrix: Array) -> tuple[Array, list[int], list[Twin]]:
    """The matrix without entries that always are what another one is, which are left, and those others.

    An input that is a copy of an output has the row of its source, or that with the other sign: after one
    step both are the same for ever, so that its column can be added to that of the other.
    """
    first: dict[bytes, int] = {}
    left: list[int] = []
    twins: list[Twin] = []
    signs = np.ones(len(matrix))
    for i, row in enumerate(matrix):
        leading = row[np.flatnonzero(row)[:1]]
        signs[i] = -1.0 if len(leading) and leading[0] < 0.0 else 1.0
        other = first.setdefault((signs[i] * row + 0.0).tobytes(), i)
        if other == i:
            left.append(i)
        else:
            twins.append((i, other, float(signs[i] * signs[other])))
    core = _added(matrix, twins, left)
    assert core is not None
    return core, left, twins


def _added(matrix: Array | None, twins: list[Twin], left: list[int]) -> Array | None:
    """A matrix whose columns of twins are added to those of the others, and without the twins."""
    if matrix is None or not twins:
        return matrix
    merged = matrix.copy()
    for twin, other, sign in twins:
        merged[:, other] += sign * merged[:, twin]
    return merged[np.ix_(left, left)]
