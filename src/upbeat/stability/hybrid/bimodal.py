"""Planar systems of two modes, and their flights from one crossing of a line to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput
from upbeat.trace.extras import need

Vector = npt.NDArray[np.float64]
Field = Callable[[Vector], Sequence[float]]

PURPOSE = "the largest delay of a switch"
FINE = 1e-12
"""The relative accuracy of flights, unless others will do."""


@dataclass(frozen=True)
class Bimodal:
    """x' = `inside`(x) where `surface`(x) ≤ 0, and x' = `outside`(x) where it is ≥ 0, in the plane.

    `rest` is where it comes to rest, within the inner mode; `ray` the direction of a line from there that
    orbits cross in the inner mode (the Poincaré section). `longest` is the time after which a flight that has
    not come back counts as one that never does.
    """

    inside: Field
    outside: Field
    surface: Callable[[Vector], float]
    rest: tuple[float, float]
    ray: tuple[float, float]
    longest: float = 1e3

    def __post_init__(self) -> None:
        for name in ("rest", "ray"):
            try:
                values = np.asarray(getattr(self, name), dtype=float)
            except (TypeError, ValueError, OverflowError):
                values = np.zeros(0)
            if values.shape != (2,) or not np.isfinite(values).all():
                raise InvalidInput(f"{name} of Bimodal is a pair of numbers, not {getattr(self, name)!r}")
        if not any(self.ray):
            raise InvalidInput("the ray of Bimodal has no direction: give one such as (-1.0, 0.0)")
        if not self.surface(np.array(self.rest, dtype=float)) < 0.0:
            raise InvalidInput(
                "the rest of Bimodal must lie in the inner mode, where its surface function is below zero; "
                f"there it is {self.surface(np.array(self.rest, dtype=float)):g}"
            )
        rate = float(np.linalg.norm(self.inside(np.array(self.rest, dtype=float))))
        around = max(float(np.linalg.norm(self.inside(self.point(s)))) for s in (1e-3, 1.0))
        if rate > 1e-6 * max(around, 1e-300):
            raise InvalidInput(
                f"the rest of Bimodal is no rest: the inner field is {rate:g} there, and should be zero"
            )

    def point(self, distance: float) -> Vector:
        """The point of the section at this distance from rest."""
        ray = np.asarray(self.ray, dtype=float)
        return np.asarray(np.asarray(self.rest, dtype=float) + distance * ray / np.linalg.norm(ray))

    def distance(self, x: Vector) -> float:
        """How far along the section a point is."""
        ray = np.asarray(self.ray, dtype=float)
        return float((x - self.rest) @ ray / np.linalg.norm(ray))

    def _beside(self, x: Vector) -> float:
        """The distance from the line of the section, with a sign."""
        ray, away = np.asarray(self.ray, dtype=float), x - np.asarray(self.rest, dtype=float)
        return float(ray[0] * away[1] - ray[1] * away[0])

    # ---------------------------------------------------------------- flights

    def turn(self, distance: float, out: float, into: float, accuracy: float = FINE) -> float | None:
        """Where an orbit from this distance crosses the section next, if the switch out of the inner mode is
        late by `out` and the one into it by `into`. None: it stays within the inner mode, on its way to rest.
        """
        far = self.leave(distance, out, accuracy)
        if far is None:
            return None
        crossed = self.back(far, into, accuracy)
        if crossed is None:
            raise InvalidInput(
                f"a switch that is late by {into:g} comes after the section: take a shorter delay"
            )
        return crossed

    def leave(self, distance: float, late: float, accuracy: float) -> Vector | None:
        """From the section to the end of the outer mode, if it is left in time."""
        x = self.point(distance)
        for side in (-self._turning, self._turning):  # half a turn, and the other half
            found = self._fly(self.inside, x, accuracy, (self.surface, 1.0), (self._beside, side))
            if found is None:
                return None
            which, x = found
            if which == 0:
                break
        else:
            return None
        x = self._follow(self.inside, x, late, accuracy)
        if late > 0.0 and self.surface(x) < 0.0:
            return None  # it was back before anybody noticed
        found = self._fly(self.outside, x, accuracy, (self.surface, -1.0))
        if found is None:
            raise InvalidInput(
                f"the outer mode does not lead back to the inner one within {self.longest:g} s: either the "
                "system never rests, or longest of Bimodal has to be larger"
            )
        return found[1]

    def back(self, x: Vector, late: float, accuracy: float) -> float | None:
        """From the end of the outer mode to the section; None if it is crossed before the switch."""
        sign = self._turning
        before, x = x, self._follow(self.outside, x, late, accuracy)
        if self.distance(x) > 0.0 and sign * self._beside(before) < 0.0 < sign * self._beside(x):
            return None
        for _ in range(2):  # the line of the section has another half, on the other side of rest
            found = self._fly(self.inside, x, accuracy, (self._beside, sign))
            if found is None:
                break
            x = found[1]
            if self.distance(x) > 0.0:
                return self.distance(x)
        raise InvalidInput(
            f"after a switch that is late by {late:g} the inner mode misses the section: take another ray"
        )

    @cached_property
    def _turning(self) -> float:
        """1 if the inner field crosses the section towards larger values of `_beside`, else -1."""
        x = self.point(1e-3)
        step = np.asarray(self.inside(x), dtype=float)
        ahead = self._beside(x + step * (1e-9 / max(float(np.linalg.norm(step)), 1e-300)))
        return 1.0 if ahead > 0.0 else -1.0

    def _fly(
        self, field: Field, x: Vector, accuracy: float, *until: tuple[Callable[[Vector], float], float]
    ) -> tuple[int, Vector] | None:
        """Along a field until one of these functions of the state passes zero, upwards (1) or downwards (-1):
        which one, and where. None: none of them does for too long."""
        integrate = need("scipy.integrate", "stability", PURPOSE)

        def event(function: Callable[[Vector], float], direction: float) -> Any:
            def passes(_t: float, y: Vector) -> float:
                return function(y)

            passes.terminal, passes.direction = True, direction  # type: ignore[attr-defined]
            return passes

        found = integrate.solve_ivp(
            lambda _t, y: field(y),
            (0.0, self.longest),
            x,
            "DOP853",
            events=[event(*one) for one in until],
            rtol=accuracy,
            atol=1e-2 * accuracy,
        )
        for which, states in enumerate(found.y_events):
            if len(states):
                return which, np.asarray(states[0])
        return None

    def _follow(self, field: Field, x: Vector, time: float, accuracy: float) -> Vector:
        if time <= 0.0:
            return x
        integrate = need("scipy.integrate", "stability", PURPOSE)
        found = integrate.solve_ivp(
            lambda _t, y: field(y), (0.0, time), x, "DOP853", rtol=accuracy, atol=1e-2 * accuracy
        )
        return np.asarray(found.y[:, -1])
