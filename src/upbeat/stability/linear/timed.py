"""Coefficients that change with the time: which there are, and how long it takes until they come again.

What is only added (a force, a reference) does not count: it moves the operating point and no slope. A factor
does: then the slopes of one instant say nothing, and steps are looked at until all factors are as they were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.expr import Apply, Expr, Name, Number, Op, differentiate, fold, names, simplify
from upbeat.core.expr.nodes import Inner, Leaf
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.scenario.connection import Connection
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.beside import NoMatrix
from upbeat.stability.linear.jacobians import Symbolic
from upbeat.stability.linear.neighbour import opened
from upbeat.units.equations.data import TIME, Equations

MOST = 2_000
"""The most steps of a period that are followed."""
ROUNDS = 20
"""How often signals are followed from unit to unit."""
WHOLE = 1e-9
"""How far, relatively, a period may be from a whole number of steps."""


class Course(NamedTuple):
    """How a value goes with the time: `slope`·time plus what does not move, or with some `periods`; None of
    both: in no way that is known. `value`: what it is, if it is a number that never changes."""

    slope: float | None = 0.0
    periods: frozenset[float] | None = frozenset()
    value: float | None = None

    @property
    def still(self) -> bool:
        return self.slope == 0.0 and not self.periods and self.periods is not None


STILL = Course()
TICKING = Course(slope=1.0)
UNKNOWN = Course(slope=None, periods=None)
WAVES = {Op.SIN, Op.COS, Op.TAN}


def course_of(expression: Expr, known: Mapping[str, Course]) -> Course:
    """How an expression goes with the time; names that are not `known` do not move with it."""

    def leaf(node: Leaf) -> Course:
        if isinstance(node, Number):
            return Course(value=float(node.value))
        return known.get(node.id, STILL) if isinstance(node, Name) else STILL

    return fold(expression, leaf, _combined)


def _combined(node: Inner, args: list[Course]) -> Course:
    values = [one.value for one in args]
    if isinstance(node, Apply):
        a, b = (args[0], args[1]) if len(args) > 1 else (args[0], STILL)
        match node.op:
            case Op.ADD | Op.SUB | Op.NEG if a.slope is not None and b.slope is not None:
                sign = -1.0 if node.op is not Op.ADD else 1.0
                slope = -a.slope if node.op is Op.NEG else a.slope + sign * b.slope
                if slope == 0.0 or (not a.periods and not b.periods):
                    return Course(slope, _both(args), _number(node.op, values))
            case Op.MUL if a.slope and a.still is False and b.value is not None and not a.periods:
                return Course(a.slope * b.value)
            case Op.MUL if b.slope and a.value is not None and not b.periods:
                return Course(b.slope * a.value)
            case Op.DIV if a.slope and b.value and not a.periods:
                return Course(a.slope / b.value)
            case op if op in WAVES and a.slope and not a.periods:
                return Course(0.0, frozenset({2.0 * math.pi / abs(a.slope)}))
            case Op.MOD if a.slope and b.value and not a.periods:
                return Course(0.0, frozenset({abs(b.value / a.slope)}))
    if all(one.slope == 0.0 and one.periods is not None for one in args):
        return Course(0.0, _both(args), _number(node.op, values) if isinstance(node, Apply) else None)
    return UNKNOWN


def _both(args: Iterable[Course]) -> frozenset[float] | None:
    found: frozenset[float] = frozenset()
    for one in args:
        if one.periods is None:
            return None
        found |= one.periods
    return found


def _number(op: Op, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    match op, known:
        case Op.ADD, [a, b]:
            return a + b
        case Op.SUB, [a, b]:
            return a - b
        case Op.MUL, [a, b]:
            return a * b
        case Op.DIV, [a, b] if b:
            return a / b
        case Op.NEG, [a]:
            return -a
    return None


class Factor(NamedTuple):
    """Something that slopes depend on and that changes with the time, in words, and its periods if known."""

    what: str
    periods: frozenset[float] | None


def factors(
    scenario: Scenario, around: str = "", given: Mapping[tuple[str, str], Course] | None = None
) -> Iterator[Factor]:
    """What changes with the time in the slopes of units given by equations, and of connections."""
    courses = driven(scenario, given or {})
    inputs = driven_inputs(scenario, courses, given or {})
    for unit, model in scenario.units.items():
        name = around + path_of(scenario, unit)
        equations = getattr(model, "equations", None)
        if opened(model):
            free = model.running.free
            own = {
                (free[port][0], free[port][1].name): course
                for (of, port), course in inputs.items()
                if of == unit
            }
            yield from factors(model.running.scenario, f"{name}.", own)
        elif isinstance(equations, Equations):
            known = _known(equations, {port: c for (of, port), c in inputs.items() if of == unit})
            for entry in Symbolic(equations).entries:
                course = course_of(entry, known)
                if not course.still:
                    yield Factor(f"a coefficient of {name}", course.periods if course.slope == 0.0 else None)
    for connection in scenario.connections:
        for cell in connection.cells:
            for one in names(cell):
                course = course_of(simplify(differentiate(cell, one)), courses)
                if not course.still:
                    what = f"a factor in the connection of {around}{connection.unit}.{connection.port}"
                    yield Factor(what, course.periods if course.slope == 0.0 else None)


def _known(equations: Equations, inputs: Mapping[str, Course]) -> dict[str, Course]:
    """The courses of what equations are made of."""
    found = {TIME: TICKING}
    count = len(equations.values)
    parameters = equations.arguments[len(equations.arguments) - count :]
    found |= {name: Course(value=float(v)) for name, v in zip(parameters, equations.values, strict=True)}
    for port in equations.inputs:
        if port.name in inputs:
            found |= dict.fromkeys(cell_names(port.name, port.size), inputs[port.name])
    return found


def driven(scenario: Scenario, given: Mapping[tuple[str, str], Course]) -> dict[str, Course]:
    """Outputs that go with the time, among other things: their names and courses.

    Those of a unit whose states are pushed by the time only if it is before all feedback: what a force does
    to the states of a loop is its motion, and no change of its slopes.
    """
    fed: dict[str, list[Connection]] = {}
    for connection in scenario.connections:
        fed.setdefault(connection.unit, []).append(connection)
    sources = {
        unit: {_unit_of(name, scenario) for c in own for cell in c.cells for name in names(cell)}
        for unit, own in fed.items()
    }
    before = _before_feedback(scenario, sources)
    found: dict[str, Course] = {}
    for _ in range(ROUNDS):
        new: dict[str, Course] = {}
        for unit, model in scenario.units.items():
            inputs = {c.port: _most(course_of(cell, found) for cell in c.cells) for c in fed.get(unit, ())}
            inputs |= {port: course for (of, port), course in given.items() if of == unit}
            new |= {f"{unit}.{cell}": course for cell, course in _outputs(model, inputs, unit in before)}
        if new == found:
            return found
        found = new
    return dict.fromkeys(found, UNKNOWN)


def _unit_of(name: str, scenario: Scenario) -> str:
    """The unit of a signal; both may have dots in their names."""
    parts = name.split(".")
    return next(u for k in range(1, len(parts) + 1) if (u := ".".join(parts[:k])) in scenario.units)


def _before_feedback(scenario: Scenario, sources: Mapping[str, set[str]]) -> set[str]:
    """Units that nothing moves that is moved by them, or by what they move."""
    found: set[str] = set()
    while True:
        more = {unit for unit in scenario.units if unit not in found and sources.get(unit, set()) <= found}
        if not more:
            return found
        found |= more


def _outputs(model: Model, inputs: Mapping[str, Course], before: bool) -> Iterator[tuple[str, Course]]:
    """The outputs of a unit that go with the time, cell by cell."""
    equations = getattr(model, "equations", None)
    if opened(model):
        return
    if not isinstance(equations, Equations):
        if not inputs:  # what could it go with, if not with the time
            for p in model.ports:
                if p.causality is Causality.OUTPUT and p.kind is Kind.REAL and not p.event:
                    yield from ((cell, UNKNOWN) for cell in cell_names(p.name, p.size))
        return
    known = _known(equations, inputs)
    rates = equations.derivatives.outputs if equations.derivatives is not None else ()
    pushed = before and not all(course_of(rate, known).still for rate in rates)
    cells = [cell for output in equations.outputs for cell in cell_names(output.port.name, output.port.size)]
    for cell, expression in zip(cells, equations.computed.outputs, strict=True):
        course = UNKNOWN if pushed else course_of(expression, known)
        if not course.still:
            yield cell, course


def driven_inputs(
    scenario: Scenario, courses: Mapping[str, Course], given: Mapping[tuple[str, str], Course]
) -> dict[tuple[str, str], Course]:
    """Inputs that go with the time, among other things."""
    found = dict(given)
    for connection in scenario.connections:
        course = _most(course_of(cell, courses) for cell in connection.cells)
        if not course.still:
            found[connection.unit, connection.port] = course
    return found


def _most(courses: Iterable[Course]) -> Course:
    found = list(courses)
    if all(one.still for one in found):
        return STILL
    if all(one.slope == 0.0 for one in found):
        return Course(0.0, _both(found))
    return found[0] if len(found) == 1 else UNKNOWN


def steps_of_period(found: Sequence[Factor], step: float) -> int:
    """After how many steps all of that is as it was; `NoMatrix` if nobody knows, or never."""
    periods: dict[float, str] = {}
    for factor in found:
        if factor.periods is None:
            raise NoMatrix(
                f"{factor.what} changes with the time, in a way that is not known to come again and again: "
                "what a step does now says nothing about later ones. Follow a run (up.stability_along, "
                "--along), or make it periodic: sin and cos of time times a number, or mod(time, period)."
            )
        periods |= dict.fromkeys(factor.periods, factor.what)
    for count in range(1, MOST + 1):
        turns = [count * step / period for period in periods]
        if all(round(turn) >= 1 and abs(turn - round(turn)) <= WHOLE * turn for turn in turns):
            return count
    longest = max(periods)
    near = longest / max(round(longest / step), 1)
    raise NoMatrix(
        f"{periods[longest]} has a period of {longest:.9g} s, and no whole number of steps of {step:.6g} s "
        f"(up to {MOST:,}) is a whole number of periods, so that no two steps are alike. Take steps of "
        f"{near!r} s, or another whole part of the period."
    )
