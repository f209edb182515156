"""The modes of a system of equations: what its events, or the cases in its formulas, switch between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upbeat.core.errors import ExpressionError, InvalidInput
from upbeat.core.expr import (
    Apply,
    Expr,
    Name,
    Number,
    Op,
    evaluate,
    fold,
    indicator,
    names,
    plain,
    show,
    substitute,
)
from upbeat.core.expr.nodes import Inner, with_args
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.events import EquationEvent

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
