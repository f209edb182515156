"""Kinks: whether slopes jump at an operating point, so that several linear pieces meet there.

A matrix is that of the branch which is taken at the point itself. To the other side of a limit, or of an
absolute value, it may be another one; and where values themselves jump there is none at all.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from upbeat.stability.linear.beside import Array, NoMatrix
from upbeat.stability.linear.exponential import balanced
from upbeat.stability.linear.followed import Induced

ALIKE = 1e-7
"""Slopes that differ by less, relatively to the whole matrix in balanced units, are the same …"""
SMALLER = 16.0
"""… and so are those whose difference is smaller at a distance so much smaller: there is no kink."""
JUMP = 1e-9
"""What is left over of a step's end, relatively, beside any slope: then values jump."""
LOOSE = 1e-5
"""The same where solvers choose their steps, so that their errors may jump as well."""

LENGTHS = (1.0, 1.0 / 8.0, 1.0 / 64.0)
"""At these distances steps from beside a point are compared with what its slopes say, in parts of …"""
NEAR, OFF, ROUNDING = 1e-5, 1e-3, 1e-14
"""… the first of these, relatively; slopes may be off by the second, and rounding makes the third …"""
NEAR_LOOSE, OFF_LOOSE = 1e-2, 1e-2
"""… or these where solvers choose their steps."""


class Nearby(NamedTuple):
    """A step from beside an operating point: how far that was, where it led, its matrix over all of the
    extended state, and which entries it moves."""

    away: Array
    end: Array
    matrix: Array
    moves: npt.NDArray[np.bool_]


class Stands(Protocol):
    """Whoever has found a matrix at a point (see `Inducing`), and can make a step from beside it."""

    @property
    def point(self) -> Array: ...

    @property
    def entries(self) -> tuple[str, ...]: ...

    @property
    def adaptive(self) -> bool: ...

    def beside(self, step: float, away: Array, *, rows: bool = True) -> Nearby: ...


class Kinks:
    """Looks whether several linear pieces meet at the last operating point of `inducing`.

    `found` is the matrix there. Slopes are looked at again beside the point, to all sides.
    """

    def __init__(self, inducing: Stands, step: float, found: Induced, far: float) -> None:
        self._inducing, self._step, self._found = inducing, step, found
        self._turn = np.random.default_rng(5)
        self._sizes = far * (1.0 + np.abs(inducing.point))
        self._tolerance = max(ALIKE, 100.0 * found.accuracy)
        self._here = self._at(np.zeros(len(inducing.point)))

    def _at(self, direction: Array, size: float = 1.0, *, rows: bool = True) -> Nearby:
        return self._inducing.beside(self._step, size * self._sizes * direction, rows=rows)

    def _random(self) -> Array:
        count = len(self._sizes)
        way: Array = self._turn.uniform(0.5, 1.0, count) * self._turn.choice([-1.0, 1.0], count)
        return way

    def meet(self) -> list[Nearby]:
        """Steps in some of the pieces, if there are several; `NoMatrix` if values jump."""
        pairs = [self._random() for _ in range(2)]
        directions = [side * one for one in pairs for side in (1.0, -1.0)]
        near = [self._at(one) for one in directions]
        for one, way in zip(near, directions, strict=True):
            self._check_jump(one, way)
        apart = [self._apart(one.matrix) for one in near]
        if max(apart) <= self._tolerance:
            return []
        closer = [self._apart(self._at(one, 1.0 / SMALLER).matrix) for one in directions]
        if all(b <= max(4.0 * a / SMALLER, self._tolerance) for a, b in zip(apart, closer, strict=True)):
            return []
        return near

    def _apart(self, matrix: Array, other: Array | None = None) -> float:
        """How far a matrix is from that at the point, relative to its size in balanced units."""
        base = self._here.matrix if other is None else other
        scaled, units = balanced(base)
        return float(np.abs((matrix - base) * units[None, :] / units[:, None]).max()) / (
            float(np.abs(scaled).max()) or 1.0
        )

    def check_slopes(self) -> None:
        """That a step from beside the point ends where its slopes say; `NoMatrix` if not.

        What curvature adds shrinks with the distance, relatively, and what rounding adds grows. Slopes that
        are not those of the step, or only those to one side, are off by the same at all distances.
        """
        loose, point = self._inducing.adaptive, np.abs(self._inducing.point)
        long, off, noise = (NEAR_LOOSE, OFF_LOOSE, LOOSE) if loose else (NEAR, OFF, ROUNDING)
        lengths = long * np.where(point > 0.0, point, 1.0)
        way, here = self._random() * lengths, self._here
        counts = here.moves & here.matrix.any(axis=0)  # what nothing depends on is not always followed
        for side in (way, -way):
            parts = []
            for size in LENGTHS:
                near = self._inducing.beside(self._step, size * side, rows=False)
                left = np.abs(near.end - here.end - here.matrix @ near.away)
                parts.append(np.maximum(left - noise * (1.0 + np.abs(here.end)), 0.0) / size)
            far, middle, close = parts
            same = (
                (far <= 2.0 * middle)
                & (middle <= 2.0 * far)
                & (middle <= 2.0 * close)
                & (close <= 2.0 * middle)
            )
            wrong = counts & same & (close > off * (np.abs(here.matrix) @ np.abs(side)))
            if wrong.any():
                place = int(np.argmax(np.where(wrong, close, 0.0)))
                raise NoMatrix(
                    "slopes jump at the operating point, or are not those of a step: beside it, "
                    f"{self._inducing.entries[place]} ends elsewhere than they say, however small a "
                    "deviation is. Choose another point (at=…, --at)."
                )

    def _check_jump(self, one: Nearby, way: Array) -> None:
        """Values may not jump: where pieces fit together, a step ends as far away as slopes let expect."""
        for size in (1.0, 1.0 / SMALLER):
            near = one if size == 1.0 else self._at(way, size)
            away = np.abs(near.away)
            slopes = np.maximum(np.abs(near.matrix), np.abs(self._here.matrix))
            left = np.abs(near.end - self._here.end - near.matrix @ near.away)
            noise = LOOSE if self._inducing.adaptive else JUMP
            bound = 4.0 * slopes @ away + noise * (1.0 + np.abs(self._here.end))
            if not (left > bound).any():
                return
        place = int(np.argmax(np.where(left > bound, left, 0.0)))
        raise NoMatrix(
            f"{self._inducing.entries[place]} jumps at the operating point, however small a deviation is (a "
            "sign, a comparison, a table of steps): nothing linear describes that. Choose another point "
            "(at=…, --at)."
        )
