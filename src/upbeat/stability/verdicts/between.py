"""Between two steps that were looked at: whether all steps from one to the other are stable.

The matrix of a step moves smoothly with the size of the step, so a few of them give all others by
interpolation, which costs next to nothing. Between two of these there is a bound: matrices that contract in
one quadratic norm contract in it together with everything on the straight line between them, and the matrix
strays from that line by hardly more than it does in the middle. Where a gap is too wide for that it is
halved, until the bound holds or a step is found that is not stable. So a narrow band of unstable steps, as
resonances of lightly damped motions have it, does not slip through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

import numpy as np
import numpy.typing as npt

from upbeat.scenario.order import components
from upbeat.stability.linear.exponential import balanced
from upbeat.stability.linear.followed import Induced
from upbeat.stability.verdicts.spectrum import merged

Array = npt.NDArray[np.float64]
Models = Callable[[float], Induced | None]
"""The induced model of a step, if it has one."""

NODES = (9, 17, 33, 65)
"""How many steps a piece of the search is interpolated through: the fewest that will do."""
CLOSE = 1e-11
"""How closely an interpolation has to meet steps that it was not made from, relatively."""
HALVED = 5
"""How often a piece is halved where so much happens that no interpolation will do."""
JUMP = 0.03
"""Coefficients that are smaller than this, and do not get any smaller, are those of a jump: there a solver
makes one step more, or an iteration one round more."""
WIDE = 2.5
"""By no more than this factor do the steps of one piece differ."""
LARGE = 60
"""More entries that depend on each other take too long."""
MOST = 30_000
"""The most gaps that are looked at in one piece."""
BATCH = 2048
SAFETY = 2.0
"""How much further than in the middle a matrix may stray from a straight line within a gap."""


@dataclass
class Gaps:
    """What was found between two steps. `suspects` look unstable; `left` could not be bounded."""

    suspects: list[float] = field(default_factory=list)
    left: list[tuple[float, float]] = field(default_factory=list)
    samples: int = 0
    gap: float = inf
    """The smallest distance of two steps that were compared."""


class Between:
    """Looks between steps. `fine`: gaps narrower than this part of the step are not halved any more."""

    def __init__(self, models: Models, fine: float) -> None:
        self._models, self._fine = models, fine

    def look(self, low: float, high: float) -> Gaps:
        """Whether everything between two steps is stable, both of which are."""
        found = Gaps()
        count = max(1, int(np.ceil(np.log(high / low) / np.log(WIDE))))
        ends = [low * (high / low) ** (k / count) for k in range(count)] + [high]
        for a, b in pairwise(ends):
            self._piece(a, b, HALVED, found)
            if found.suspects:
                break
        return found

    def _piece(self, a: float, b: float, deep: int, found: Gaps) -> None:
        piece = _interpolated(self._models, a, b)
        if isinstance(piece, _Rough):
            found.samples += len(piece.radii)
            found.gap = min([found.gap, *(two - one for (one, _), (two, _) in pairwise(piece.radii))])
            found.suspects += [step for step, radius in piece.radii if not radius < 1.0]
            if found.suspects:
                return
            if deep == 0 or piece.jump or not piece.radii:
                found.left.append((a, b))
                return
            middle = 0.5 * (a + b)
            self._piece(a, middle, deep - 1, found)
            if not found.suspects:
                self._piece(middle, b, deep - 1, found)
            return
        for block in piece.blocks():
            self._bounded(piece, block, found)

    def _bounded(self, piece: _Piece, block: list[int], found: Gaps) -> None:
        """Halve gaps until all steps in them are known to be stable."""
        edges = np.linspace(piece.low, piece.high, 2 * len(piece.coefficients))
        low, high = edges[:-1], edges[1:]
        part = piece.part(block)
        looked = 0
        while len(low):
            looked += len(low)
            found.gap = min(found.gap, 0.5 * float((high - low).min()))
            if looked > MOST:
                found.left += zip(low.tolist(), high.tolist(), strict=True)
                break
            middle = 0.5 * (low + high)
            good, radii = part.contracts(low, middle, high)
            # What grows is not looked at any further to its right: that is somebody else's interval.
            bad = middle[radii >= 1.0]
            if len(bad):
                found.suspects.append(float(bad.min()))
            wide = high - low > self._fine * high
            found.left += zip(low[~good & ~wide].tolist(), high[~good & ~wide].tolist(), strict=True)
            rest = ~good & wide
            if found.suspects:
                rest &= low < min(found.suspects)
            low, middle, high = low[rest], middle[rest], high[rest]
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        found.samples += looked


@dataclass(frozen=True)
class _Rough:
    """A piece that no interpolation describes: the steps that were tried, and how large motions are there."""

    radii: list[tuple[float, float]]
    jump: bool = False
    """Whether it looks as if something jumps there, which halving the piece does not help against."""


@dataclass(frozen=True)
class _Piece:
    """The matrices of all steps from `low` to `high`, as Chebyshev series, and how well they are known."""

    low: float
    high: float
    coefficients: Array
    error: Array

    def blocks(self) -> list[list[int]]:
        """Entries that influence each other in a circle: what others there are makes no eigenvalue."""
        there = np.abs(self.coefficients).max(axis=0) > 0.0
        before = [np.flatnonzero(row).tolist() for row in there]
        return [g for g in components(before) if len(g) > 1 or g[0] in before[g[0]]]

    def part(self, block: list[int]) -> _Piece:
        """The same about some entries, in units of measure that suit them."""
        which = np.ix_(block, block)
        own = np.stack([each[which] for each in self.coefficients])
        scale = balanced(np.abs(own).sum(axis=0))[1]
        return _Piece(
            self.low, self.high, own / scale[:, None] * scale, self.error[which] / scale[:, None] * scale
        )

    def at(self, steps: Array) -> Array:
        """The matrices of some steps."""
        x = np.clip((2.0 * steps - self.low - self.high) / (self.high - self.low), -1.0, 1.0)
        count, size = len(self.coefficients), self.coefficients.shape[1]
        waves = np.cos(np.arccos(x)[:, None] * np.arange(count))
        return (waves @ self.coefficients.reshape(count, -1)).reshape(len(steps), size, size)

    def contracts(self, low: Array, middle: Array, high: Array) -> tuple[npt.NDArray[np.bool_], Array]:
        """Of each gap, whether all matrices in it contract; and how large motions are in its middle."""
        good, radii = np.zeros(len(low), dtype=bool), np.zeros(len(low))
        for first in range(0, len(low), BATCH):
            some = slice(first, first + BATCH)
            good[some], radii[some] = self._some(*(self.at(part[some]) for part in (low, middle, high)))
        return good, radii

    def _some(self, left: Array, here: Array, right: Array) -> tuple[npt.NDArray[np.bool_], Array]:
        good, radii = np.zeros(len(here), dtype=bool), np.zeros(len(here))
        with np.errstate(all="ignore"):
            norms, known = _lyapunov(here)
            try:
                roots = np.linalg.cholesky(np.where(known[:, None, None], norms, np.eye(here.shape[1])))
            except np.linalg.LinAlgError:
                known[:], roots = False, np.broadcast_to(np.eye(here.shape[1]), here.shape)
            up = np.swapaxes(roots, 1, 2)  # |x| = ‖up·x‖ is the norm
            back = np.linalg.inv(up)
            known &= np.isfinite(back).all(axis=(1, 2))
            back[~known] = 0.0
            room = np.full(len(here), np.inf)
            for matrices in (left, right):
                moved = up @ matrices @ back
                room = np.minimum(room, 1.0 - np.linalg.norm(moved, 2, axis=(1, 2)))
            bend = up @ (here - 0.5 * (left + right)) @ back
            blur = np.abs(up) @ self.error @ np.abs(back)
            strays = SAFETY * np.linalg.norm(bend, axis=(1, 2)) + np.linalg.norm(blur, axis=(1, 2))
            good = known & (strays < room)
        if not good.all():
            radii[~good] = np.abs(np.linalg.eigvals(here[~good])).max(axis=1)
        return good, radii


def _lyapunov(matrices: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The sum of Aᵀᵏ·Aᵏ for each matrix, a norm in which it contracts; and whether there is one."""
    one = np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape)
    norms, power = one.copy(), matrices.copy()
    for _ in range(48):
        norms = norms + np.swapaxes(power, 1, 2) @ norms @ power
        power = power @ power
        size = np.abs(power).max(axis=(1, 2))
        power[~(size < 1e100)] = np.nan  # it grows, and stays so
        if not (size > 1e-9).any():
            break
    known = np.isfinite(norms).all(axis=(1, 2)) & (np.abs(norms).max(axis=(1, 2)) < 1e13) & (size <= 1e-9)
    return norms, known


def _interpolated(models: Models, low: float, high: float) -> _Piece | _Rough:
    """All steps between two through as few of them as will do."""
    seen: dict[float, Array] = {}
    keep: list[int] = []
    names: tuple[str, ...] = ()
    blur, jump = 0.0, False

    def node(cosine: float) -> bool:
        """Look at one more step."""
        nonlocal keep, names, blur
        step = (
            low if cosine == -1.0 else high if cosine == 1.0 else 0.5 * (low + high + cosine * (high - low))
        )
        if cosine in seen:
            return True
        model = models(step)
        if model is None or not np.isfinite(model.matrix).all() or names not in ((), model.names):
            return False
        matrix, left, _ = merged(model.matrix)
        if not names:
            names, keep = model.names, left
        if left != keep or len(left) > LARGE:
            return False
        blur = max(blur, model.accuracy * (8 + len(left)))
        seen[cosine] = matrix
        return True

    def rough() -> _Rough:
        found = [(0.5 * (low + high + x * (high - low)), each) for x, each in sorted(seen.items())]
        return _Rough([(step, float(np.abs(np.linalg.eigvals(each)).max())) for step, each in found], jump)

    for count in NODES:
        angles = np.pi * np.arange(count) / (count - 1)
        cosines = [round(float(x), 15) for x in np.cos(angles)]
        if not all(node(x) for x in cosines):
            return _Rough([])
        values = np.stack([seen[x] for x in cosines])
        series = _series(values, angles)
        size = np.abs(values).max(axis=0)
        tail = np.abs(series[-2:]).max(axis=0)
        enough = max(CLOSE, 10.0 * blur) * np.maximum(size, CLOSE * size.max())
        if not (tail <= enough).all():
            sizes = np.abs(series).max(axis=(1, 2))
            jump = bool(sizes[-3:].max() < JUMP * sizes.max())
            continue
        checks = [
            round(float(np.cos(np.pi * (k + 0.37) / (count - 1))), 15) for k in (0, count // 2, count - 2)
        ]
        if not all(node(x) for x in checks):
            return _Rough([])
        piece = _Piece(low, high, series, np.zeros_like(size))
        steps = 0.5 * (low + high + np.array(checks) * (high - low))
        apart = np.abs(piece.at(steps) - np.stack([seen[x] for x in checks])).max(axis=0)
        if (apart <= 4.0 * enough).all():
            series[:, size == 0.0] = 0.0
            return _Piece(low, high, series, 4.0 * apart + 4.0 * tail + blur * size)
    return rough()


def _series(values: Array, angles: Array) -> Array:
    """The Chebyshev coefficients of values at the extrema of the last polynomial."""
    last = len(values) - 1
    weights = np.ones(last + 1)
    weights[[0, -1]] = 0.5
    waves = np.cos(np.outer(np.arange(last + 1), angles)) * weights * 2.0 / last
    series: Array = np.tensordot(waves, values, axes=1)
    series[[0, -1]] *= 0.5
    return series
