"""Scenarios that are planar systems of two modes: recognised by their equations, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import isfinite
from typing import Any

import numpy as np

from upbeat.core.errors import UpbeatError
from upbeat.core.expr import Expr, Kernel, differentiate, show, time_derivative
from upbeat.scenario.merging.monolith import UNIT
from upbeat.scenario.scenario import Scenario
from upbeat.stability.hybrid.bimodal import PURPOSE, Bimodal, Vector
from upbeat.stability.hybrid.modes import Mode, NotBimodal, two_modes
from upbeat.trace.extras import need
from upbeat.units.equations.data import Equations
from upbeat.units.equations.ode import Ode

Formulas = Callable[[Any], list[float]]
"""Of a point."""
POINTS = 24
"""Random points at which formulas are compared."""
LONGEST = 1e8
"""The longest flight, in seconds."""


def planar(scenario: Scenario) -> Bimodal:
    """The system of two modes that a scenario is; `NotBimodal`, an `InvalidInput`, says why it is none."""
    equations = _merged(scenario)
    names_ = equations.arguments[1 : 1 + len(equations.start)]
    if len(names_) != 2:
        count = "one state" if len(names_) == 1 else f"{len(names_)} states"
        raise NotBimodal(f"it has {count}, and the theory is about two: orbits that close, in a plane")
    if equations.inputs:
        raise NotBimodal(f"it is driven from outside, by {', '.join(port.name for port in equations.inputs)}")
    modes = two_modes(equations, names_)
    one, two = (_surface(modes, k, names_) for k in range(2))
    points = _points(equations.start)
    for k, mode in enumerate(modes):
        _check_guards(modes[1 - k], mode, (one, two)[k], names_, points)
    if not _proportional(one, two, names_, points, -1.0):
        raise NotBimodal(
            f"it does not switch back where it switched: {show(one)} and {show(two)} are not one surface"
        )
    inner, rest = _at_rest(modes, (one, two), names_, points)
    surface = (one, two)[inner]
    fields: list[Formulas] = [
        Kernel(names_, mode.rates).python() for mode in (modes[inner], modes[1 - inner])
    ]
    beside: Formulas = Kernel(names_, (surface,)).python()
    slope: Formulas = Kernel(names_, tuple(differentiate(surface, name) for name in names_)).python()
    return Bimodal(
        inside=fields[0],
        outside=fields[1],
        surface=lambda x: beside(x)[0],
        rest=(float(rest[0]), float(rest[1])),
        ray=_ray(fields[0], beside, slope, rest),
        longest=LONGEST,
    )


def _merged(scenario: Scenario) -> Equations:
    """All equations of a scenario as one system."""
    try:
        model = scenario.monolith().units[UNIT]
    except UpbeatError as error:
        said = getattr(error, "problems", ())
        why = said[0].what if said else str(error)
        raise NotBimodal(f"it is not one system of equations ({why})") from None
    if type(model) is not Ode:
        raise NotBimodal("its equations have loops that are not linear, or no states at all")
    return model.equations


def _surface(modes: Sequence[Mode], k: int, states: Sequence[str]) -> Expr:
    """The part of the condition for entering a mode that is the other way round for leaving it."""
    mine, others = modes[k].entered, modes[1 - k].entered
    points = _points((0.0, 0.0))
    for a, b in product(mine, others):
        if _proportional(a, b, states, points, -1.0):
            return a
    texts = " and ".join(", ".join(map(show, parts)) for parts in (mine, others))
    raise NotBimodal(f"it does not switch back where it switched: {texts} are not one surface")


def _check_guards(before: Mode, after: Mode, surface: Expr, states: Sequence[str], points: Vector) -> None:
    """What a condition says besides where the surface is must go without saying: that it is being crossed."""
    crossing = time_derivative(surface, dict(zip(states, before.rates, strict=True)))
    for part in after.entered:
        if part is surface or part == surface or _proportional(part, crossing, states, points, 1.0):
            continue
        raise NotBimodal(
            f"a condition for switching is more than a surface: {show(part)} <= 0 does not follow from "
            f"crossing {show(surface)} = 0"
        )


def _proportional(a: Expr, b: Expr, states: Sequence[str], points: Vector, sign: float) -> bool:
    """Whether two formulas differ by a constant factor of this sign, judged at random points."""
    pair = Kernel(tuple(states), (a, b)).python()
    try:
        values = np.array([pair(point) for point in points.tolist()])
    except (ArithmeticError, ValueError):
        return False
    if not np.isfinite(values).all() or not values.any(0).all():
        return False
    factor = float(values[:, 0] @ values[:, 1] / (values[:, 1] @ values[:, 1]))
    off = np.abs(values[:, 0] - factor * values[:, 1]).max()
    return bool(factor * sign > 0.0 and off <= 1e-9 * np.abs(values).max())


def _points(start: Sequence[float]) -> Vector:
    """Points with nothing special about them, of the size that states have."""
    turn = np.random.default_rng(4)
    size = 1.0 + np.abs(np.array(start))
    return np.asarray(np.array(start) + size * turn.standard_normal((POINTS, 2)))


def _at_rest(
    modes: Sequence[Mode], surfaces: Sequence[Expr], states: Sequence[str], points: Vector
) -> tuple[int, Vector]:
    """The mode that has a point of rest on its own side of the surface, and that point."""
    found: list[tuple[int, Vector]] = []
    for k, mode in enumerate(modes):
        rest = _rest(mode, surfaces[k], states, points)
        if rest is not None:
            found.append((k, rest))
    if len(found) != 1:
        what = "neither mode has" if not found else "both modes have"
        raise NotBimodal(f"{what} a point of rest on its own side of the surface")
    k, rest = found[0]
    slopes = _slopes(modes[k], states)(rest)
    values = np.linalg.eigvals(np.reshape(slopes, (2, 2)))
    if not values.real.max() < 0.0:
        raise NotBimodal(f"its point of rest, {_shown(rest)}, is not a stable one")
    if not np.abs(values.imag).max() > 0.0:
        raise NotBimodal(f"it does not circle around its point of rest, {_shown(rest)}, so no orbit closes")
    return k, rest


def _rest(mode: Mode, surface: Expr, states: Sequence[str], points: Vector) -> Vector | None:
    optimize = need("scipy.optimize", "stability", PURPOSE)
    field: Formulas = Kernel(tuple(states), mode.rates).python()
    slopes = _slopes(mode, states)
    side: Formulas = Kernel(tuple(states), (surface,)).python()
    for start in (np.zeros(2), *points):
        try:
            found = optimize.root(field, start, jac=lambda x: np.reshape(slopes(x), (2, 2)), tol=1e-13)
            off = float(np.abs(field(found.x)).max())
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            continue
        size = float(np.abs(field(found.x + 1e-3 * (1.0 + np.abs(found.x)))).max())
        if isfinite(off) and off <= 1e-9 * max(size, 1e-300) and side(found.x)[0] < 0.0:
            return np.asarray(found.x)
    return None


def _slopes(mode: Mode, states: Sequence[str]) -> Formulas:
    cells = tuple(differentiate(rate, name) for rate in mode.rates for name in states)
    return Kernel(tuple(states), cells).python()


def _ray(inside: Formulas, beside: Formulas, slope: Formulas, rest: Vector) -> tuple[float, float]:
    """A direction from rest that never meets the surface, and that the inner field crosses most squarely."""
    away: Vector = -np.array(slope(rest), dtype=float)
    away /= max(float(np.linalg.norm(away)), 1e-300)
    near = abs(beside(rest)[0]) / max(float(np.linalg.norm(slope(rest))), 1e-300)
    best, square = away, -1.0
    for angle in np.radians([0.0, 30.0, -30.0, 60.0, -60.0]):
        c, s = np.cos(angle), np.sin(angle)
        ray = np.array([c * away[0] - s * away[1], s * away[0] + c * away[1]])
        reached = [rest + distance * ray for distance in near * np.geomspace(0.1, 1e6, 15)]
        if any(beside(x)[0] >= 0.0 for x in reached):
            continue
        steps = [np.array(inside(x)) for x in reached]
        crossed = min(abs(ray[0] * f[1] - ray[1] * f[0]) / max(float(np.hypot(*f)), 1e-300) for f in steps)
        if crossed > square + 0.1:
            best, square = ray, crossed
    return float(best[0]), float(best[1])


def _shown(point: Vector) -> str:
    return f"({point[0]:.6g}, {point[1]:.6g})"
