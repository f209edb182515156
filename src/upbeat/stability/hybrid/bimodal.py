"""Two modes of linear equations, and what can be said of switching between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import ExpressionError, InvalidInput, UpbeatError
from upbeat.core.expr import (
    Apply,
    Expr,
    Kernel,
    Name,
    Number,
    Op,
    differentiate,
    evaluate,
    fold,
    indicator,
    names,
    plain,
    show,
    substitute,
    time_derivative,
)
from upbeat.core.expr.nodes import Inner, with_args
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind
from upbeat.scenario.merging.monolith import UNIT
from upbeat.scenario.scenario import Scenario
from upbeat.trace.extras import need
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.events import EquationEvent
from upbeat.units.equations.ode import equations_of

# ----------------------------------------------------------------------------------------------------
# Planar systems of two modes, and their flights from one crossing of a line to the next.

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


# ----------------------------------------------------------------------------------------------------
# The modes of a system of equations: what its events, or the cases in its formulas, switch between.

Values = tuple[tuple[str, float], ...]
"""What the discrete quantities are in a mode."""


class NotBimodal(InvalidInput):
    """A scenario is not a planar system of two modes, and why."""


@dataclass(frozen=True)
class Mode:
    """The rates of both states, and numbers that are all at most zero when the mode is entered."""

    rates: tuple[Expr, ...]
    entered: tuple[Expr, ...]


def two_modes(equations: Equations, states: Sequence[str]) -> tuple[Mode, Mode]:
    """The two modes of a system; `NotBimodal` if it has more or fewer."""
    rates = tuple(
        equations.written_out(cell) for state in equations.states for cell in state.derivative.cells
    )
    events = [event for event in equations.events if event.indicator is not None]
    discrete = _discrete(rates, events, states)
    constants = {
        name: Number(value)
        for name, value in zip(_fixed(equations), equations.values, strict=True)
        if name not in discrete
    }
    rates = tuple(substitute(rate, constants) for rate in rates)
    if any(TIME in names(formula) for formula in (*rates, *(e.indicator for e in events if e.indicator))):
        raise NotBimodal("it depends on time")
    if not discrete:
        for event in events:
            _check_states(event, states)
        return _cases(rates, equations, states)
    return _switched(equations, rates, events, discrete, constants, states)


def _check_states(event: EquationEvent, states: Sequence[str]) -> None:
    for cell, new in event.then:
        if cell in states and new != Name(cell):
            raise NotBimodal(
                f"the event '{event.name}' changes the state {cell}, and a switch leaves states as they are"
            )


def _fixed(equations: Equations) -> list[str]:
    """Parameters and variables, cell by cell."""
    ports = (*equations.parameters, *equations.variables)
    return [name for port in ports for name in cell_names(port.name, port.size)]


def _discrete(rates: Sequence[Expr], events: Sequence[EquationEvent], states: Sequence[str]) -> set[str]:
    """What events change and something depends on; who only counts is left out."""
    changed = {cell for event in events for cell, _ in event.then} - set(states)
    needed = {name for rate in rates for name in names(rate)}
    needed |= {name for event in events if event.indicator is not None for name in names(event.indicator)}
    while True:
        more = {
            n for event in events for cell, new in event.then if cell in needed & changed for n in names(new)
        }
        if more <= needed:
            return needed & changed
        needed |= more


# -------------------------------------------------------------------- by events


def _switched(
    equations: Equations,
    rates: Sequence[Expr],
    events: Sequence[EquationEvent],
    discrete: set[str],
    constants: Mapping[str, Expr],
    states: Sequence[str],
) -> tuple[Mode, Mode]:
    start = dict(zip(_fixed(equations), equations.values, strict=True))
    first: Values = tuple((name, start[name]) for name in sorted(discrete))
    known = [first]
    ways: dict[tuple[Values, Values], list[tuple[Expr, ...]]] = {}
    for mode in known:
        for event in events:
            after, parts = _after(event, mode, constants, states)
            if after is None or after == mode:
                continue
            if after not in known:
                known.append(after)
            if len(known) > 2:
                raise NotBimodal("it has more than two modes")
            ways.setdefault((mode, after), []).append(parts)
    if len(known) < 2:
        raise NotBimodal("nothing switches: it has one mode only")
    made = []
    for mode, other in (known, known[::-1]):
        into = ways.get((other, mode), [])
        if len(into) != 1:
            how = "no event leads" if not into else "several events lead"
            raise NotBimodal(f"{how} from one of its two modes to the other")
        given = {name: Number(value) for name, value in mode}
        made.append(Mode(tuple(substitute(rate, given) for rate in rates), into[0]))
    return made[0], made[1]


def _after(
    event: EquationEvent, mode: Values, constants: Mapping[str, Expr], states: Sequence[str]
) -> tuple[Values | None, tuple[Expr, ...]]:
    """The mode that an event leads to, and what has to be at most zero; None: not from this mode."""
    given = {**constants, **{name: Number(value) for name, value in mode}}
    assert event.indicator is not None
    moving = []
    for part in _parts(plain(event.indicator)):
        here = substitute(part, given)
        if names(here):
            moving.append(here)
        elif evaluate(here, {}) > 0.0:
            return None, ()
    values = dict(mode)
    _check_states(event, states)
    for cell, new in event.then:
        if cell in values:
            value = substitute(new, given)
            if names(value):
                raise NotBimodal(
                    f"the event '{event.name}' gives {cell} a value that is not known before: {show(new)}"
                )
            values[cell] = float(evaluate(value, {}))
    if any(isinstance(part, Apply) and part.op is Op.MIN for part in moving):
        raise NotBimodal(f"the event '{event.name}' has more than one way to happen")
    return tuple(sorted(values.items())), tuple(moving)


def _parts(z: Expr) -> list[Expr]:
    """What has to be at most zero, all of it."""
    if isinstance(z, Apply) and z.op is Op.MAX:
        return [part for arg in z.args for part in _parts(arg)]
    return [z]


# -------------------------------------------------------------------- by cases in formulas


def _cases(rates: Sequence[Expr], equations: Equations, states: Sequence[str]) -> tuple[Mode, Mode]:
    found: list[Expr] = []

    def look(node: Inner, args: list[Expr]) -> Expr:
        made = with_args(node, args)
        case = made.args[0] if isinstance(made, Apply) and made.op is Op.WHERE else None
        if case is not None and names(case) & set(states) and case not in found:
            found.append(case)
        return made

    for rate in rates:
        fold(rate, lambda leaf: leaf, look)
    if len(found) != 1:
        what = "nothing in it switches" if not found else f"its formulas have {len(found)} different cases"
        raise NotBimodal(what)
    condition = found[0]
    try:
        inside = plain(indicator(condition, dict.fromkeys(states, Kind.REAL)))
    except ExpressionError as error:
        raise NotBimodal(f"its formulas depend on a condition without a surface: {error.reason}") from None

    def chosen(yes: bool) -> tuple[Expr, ...]:
        def pick(node: Inner, args: list[Expr]) -> Expr:
            made = with_args(node, args)
            if isinstance(made, Apply) and made.op is Op.WHERE and made.args[0] == condition:
                return made.args[1] if yes else made.args[2]
            return made

        return tuple(fold(rate, lambda leaf: leaf, pick) for rate in rates)

    return Mode(chosen(True), (inside,)), Mode(chosen(False), (-inside,))


# ----------------------------------------------------------------------------------------------------
# Scenarios that are planar systems of two modes: recognised by their equations, or refused with a reason.

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
    equations = equations_of(model)
    if equations is None or not equations.states:
        raise NotBimodal("its equations have loops that are not linear, or no states at all")
    return equations


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


# ----------------------------------------------------------------------------------------------------
# Where to look for closed orbits: which orbits leave the inner mode at all, and how fast that mode is.

COARSE = 1e-7
"""The relative accuracy of flights here."""
WIDEST = 1e5
"""Orbits that are so many times as wide as the narrowest that leaves the inner mode are looked at."""


class Reach(NamedTuple):
    """Distances from rest, and the longest delay."""

    within: tuple[float, float]
    max_delay: float


def reach_of(system: Bimodal) -> Reach | None:
    """From the narrowest orbit that leaves the inner mode on, and delays up to half a turn around rest.

    None: there is no such orbit, however wide.
    """
    turn = _turn(system)
    near = _near(system)
    below, above = 0.0, near
    while system.leave(above, 0.0, COARSE) is None:
        below, above = above, 1.5 * above
        if above > WIDEST * near:
            return None
    for _ in range(20):
        middle = 0.5 * (below + above)
        if system.leave(middle, 0.0, COARSE) is None:
            below = middle
        else:
            above = middle
    return Reach((1.001 * above, WIDEST * above), 0.5 * turn)


def _near(system: Bimodal) -> float:
    """About how far the surface is from rest, along the section's other half."""
    rest = np.array(system.rest, dtype=float)
    back = rest - system.point(1.0)
    distance = 1e-9 * (1.0 + float(np.linalg.norm(rest)))
    while system.surface(rest + distance * back) < 0.0 and distance < 1e9:
        distance *= 1.2
    return 0.5 * distance


def _turn(system: Bimodal) -> float:
    """How long a small motion around rest takes for a turn."""
    rest = np.array(system.rest, dtype=float)
    step = 1e-6 * (1.0 + np.abs(rest))
    columns = []
    for i in range(2):
        away = np.zeros(2)
        away[i] = step[i]
        there, here = system.inside(rest + away), system.inside(rest - away)
        columns.append((np.array(there) - np.array(here)) / (2.0 * step[i]))
    speed = float(np.abs(np.linalg.eigvals(np.column_stack(columns)).imag).max())
    return 2.0 * np.pi / max(speed, 1e-300)
