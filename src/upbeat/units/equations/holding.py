"""Events that come in clusters: contacts that come to rest, and switches that slide.

An event with ``rests = true`` is an impact: it turns the speed s of a gap round, and after it the gap opens
more slowly than it closed. One with ``slides = true`` is a switch, with a partner that switches back on the
other side of σ = 0. Both become ordinary equations and events here, so that engines, generated code and
whoever reads equations know nothing of it.

Both hold a quantity q from then on, a contact its speed s, a switch its σ, by adding multiples of a
direction D to the derivatives of the states:

    x' = f(x) + Σ m·D        with every m such that the q that are held do not change

* For a contact, D is how the impact changes the states, per change of s: what the floor does in a blow, it
  does when it presses, too. The change vanishes where s = 0; D is its derivative across, scaled to s' = 1.
* For a switch, D is the difference of the derivatives on both sides, and m the part of the other side
  (Filippov).

With others held, q' = β + S·m: Gaussian elimination of the other multiples, in formulas, without pivots. A
contact presses with m = -β/S, and rests while that is positive. A switch slides while m is between 0 and 1.

Contacts that act on each other and lose energy may collide infinitely often at one instant, pair by pair.
What is left of that ends in one blow on all of them, along the same directions and without restitution.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from upbeat.core.errors import ExpressionError
from upbeat.core.expr import (
    ZERO,
    Apply,
    Expr,
    Name,
    Number,
    Op,
    all_of,
    any_of,
    apply,
    differentiate,
    evaluate,
    names,
    parse,
    plain,
    show,
    substitute,
    time_derivative,
)
from upbeat.core.expr.nodes import loose
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind
from upbeat.units.equations.arranging import SETTLING, free_name
from upbeat.units.equations.data import TIME, Equations, Output
from upbeat.units.equations.events import EquationEvent
from upbeat.units.shorthand import Complaints

NEGLIGIBLE = 1e-6
"""A contact rests when its next flight would take less of its longest one: that moves it by
the square of this, while shorter flights drown in the rounding of positions."""
SHRINKING = 3
"""So many flights in a row have to be shorter than those before."""
ROUNDED = 1e-12
"""A speed that is so much smaller than what it is a difference of is zero."""
CROWDED = 30
"""After so many impacts in so little time a contact has no restitution any more (inelastic collapse)."""
AT_ONE_INSTANT = 100
"""After so many impacts of one contact at one instant, those that still close end together (inelastic
collapse). Without loss, only masses that differ by more than a thousand collide so often."""
ELASTIC = 1e-9
"""An impact that takes less of the speed than this is one without loss, and its number is finite."""
AT_ONCE = 1e-9
"""A state from which both sides lead to a surface in less time, in seconds, lies on it."""
LARGEST = 8
"""So many contacts and switches of a unit may hold at a time: their formulas grow with the third power."""

SHORTER = "each flight was shorter than the one before"
STAYED = "nothing drives it off the surface"
LIFTED = "it is pulled off the surface"
ENDED = "the surface ends there"
BOTH = "both sides lead back to the surface"
LEFT = "one side leads away from the surface"
COLLAPSED = "bodies that touch collided at one instant without end"
REASONS = frozenset({SHORTER, STAYED, LIFTED, ENDED, BOTH, LEFT, COLLAPSED})
"""What events carry at which something begins or ends to be held."""

_ROUGH = 1e-7
"""Relative differences that are taken for errors of rounding where formulas are tried with numbers."""
_TRIALS = 5


def has_holding(equations: Equations) -> bool:
    """Whether some event asks for it."""
    return any({"rests", "slides"} & event.written.keys() for event in equations.events)


# ----------------------------------------------------------------------------------------------------
# Formulas that simplify as they are made.


def _made(op: Op, *args: Expr) -> Expr:
    return loose(Apply(op, args), args)


def _plus(a: Expr, b: Expr) -> Expr:
    return _made(Op.ADD, a, b)


def _minus(a: Expr, b: Expr) -> Expr:
    return _made(Op.SUB, a, b)


def _times(a: Expr, b: Expr) -> Expr:
    return _made(Op.MUL, a, b)


def _over(a: Expr, b: Expr) -> Expr:
    return _made(Op.DIV, a, b)


def _if(condition: Expr, a: Expr, b: Expr = ZERO) -> Expr:
    return _made(Op.WHERE, condition, a, b)


def _sum(terms: Iterable[Expr]) -> Expr:
    total: Expr = ZERO
    for term in terms:
        total = _plus(total, term)
    return total


def _dot(slopes: Mapping[str, Expr], direction: Mapping[str, Expr]) -> Expr:
    return _sum(_times(slope, direction[name]) for name, slope in slopes.items() if name in direction)


def _not(flag: Expr) -> Expr:
    return apply(Op.NOT, flag)


# ----------------------------------------------------------------------------------------------------
# What is held: contacts and switches.


@dataclass
class _Held:
    """`q` is held by multiples of `direction`; `rate` is how fast it changes by itself.

    `flag` is the variable that says whether it is held, `at` what names are before its multiple is added.
    """

    event: EquationEvent
    flag: str
    q: Expr
    rate: Expr
    slopes: dict[str, Expr]
    direction: dict[str, Expr]
    at: dict[str, Expr] = field(default_factory=dict)
    since: str = ""
    beta: Expr = ZERO
    stiffness: Expr = ZERO
    multiple: Expr = ZERO


@dataclass
class _Contact(_Held):
    """An impact that may come to rest. `guards` are what else has to be at most zero for it."""

    gap: Expr = ZERO
    after: dict[str, Expr] = field(default_factory=dict)
    guards: tuple[Expr, ...] = ()
    last: str = ""
    """The variable with the time of its last impact, and of how many there were at that instant."""
    blows: str = ""
    part: str = ""
    """The variable that says what it does in a collapse: 1 if it stays closed, 2 if it would have to pull."""
    close: str = ""

    @property
    def closes(self) -> Expr:
        """Its speed, at most zero where it closes. An impact without restitution may leave a last digit of
        speed on the wrong side: that does not count as closing, or the contact would not be armed again, and
        miss the next one."""
        terms = [_times(slope, Name(name)) for name, slope in self.slopes.items()]
        size = _sum(apply(Op.ABS, term) for term in (*terms, _minus(self.q, _sum(terms))))
        return _plus(self.q, _times(Number(ROUNDED), size))

    @property
    def now(self) -> Expr:
        """Whether its last impact was at this instant."""
        return Name(TIME) - Name(self.last) <= 0.0


@dataclass
class _Switch(_Held):
    """Two events: one sets `low` below a surface, one `high` above it. `room`: how far beyond m may go."""

    partner: EquationEvent | None = None
    low: dict[str, Expr] = field(default_factory=dict)
    high: dict[str, Expr] = field(default_factory=dict)
    room: Expr = ZERO


class _Refused(Exception):
    """Why equations do not allow it."""


@dataclass
class _Writer:
    """Makes one table of a model from another."""

    equations: Equations
    spec: dict[str, Any]

    def __post_init__(self) -> None:
        equations = self.equations
        self.taken = {
            name for section in self.spec.values() if isinstance(section, Mapping) for name in section
        } | {TIME}
        self.rates = equations.changes
        self.states = list(self.rates)
        self.inputs = {c for port in equations.inputs for c in cell_names(port.name, port.size)}
        self.variables = {port.name for port in equations.variables}
        self.parameters = {c for port in equations.parameters for c in cell_names(port.name, port.size)}
        self.events = {event.name: event for event in equations.events}
        for name in ("variables", "locals", "outputs", "events"):
            self.spec[name] = dict(self.spec.get(name, {}))
        self._random = random.Random(20)
        self.held: list[_Held] = []

    # -------------------------------------------------------------------- trying formulas with numbers

    def _point(self) -> dict[str, float]:
        equations = self.equations
        settled = (*equations.parameters, *equations.variables)
        values = {
            cell: float(value)
            for port in settled
            for cell, value in zip(cell_names(port.name, port.size), port.initial, strict=True)
        }
        moving = (TIME, *self.states, *self.inputs)
        return values | {name: self._random.uniform(-2.0, 2.0) for name in moving}

    def _points(self, zeros: Sequence[Expr], wanted: int = _TRIALS) -> list[dict[str, float]]:
        """Points where these are zero, by steps of Newton's method: as many as are found, and wanted."""
        slopes = [self._slopes(zero) for zero in zeros]
        found: list[dict[str, float]] = []
        for _ in range(4 * wanted):
            if len(found) == wanted:
                break
            point = self._point()
            for _ in range(40):
                values = [evaluate(zero, point) for zero in zeros]
                rows = [{name: evaluate(part, point) for name, part in slope.items()} for slope in slopes]
                if all(abs(value) < 1e-9 for value in values):
                    found.append(point)
                    break
                if not all(map(math.isfinite, (*values, *(part for row in rows for part in row.values())))):
                    break
                moving = {name: k for k, name in enumerate(dict.fromkeys(n for row in rows for n in row))}
                matrix = np.zeros((len(rows), len(moving)))
                for number, row in enumerate(rows):
                    for name, part in row.items():
                        matrix[number, moving[name]] = part
                steps = np.linalg.lstsq(matrix, np.array(values), rcond=None)[0]
                for name, k in moving.items():
                    point[name] -= float(steps[k])
        return found

    # -------------------------------------------------------------------- reading

    def contact(self, event: EquationEvent) -> _Contact:
        """The contact that an impact belongs to."""
        if event.written["rests"] is not True:
            raise _Refused(f"rests is true or false, not {event.written['rests']!r}")
        if event.indicator is None or not event.then:
            raise _Refused('an impact has a condition and a change: when = "h <= 0 and v < 0", then = …')
        parts = _parts(plain(event.indicator))
        gap, speed, guards = self._gap(parts)
        if names(speed) & self.inputs:
            raise _Refused(
                f"the speed of its gap, {show(speed)}, depends on an input, whose rate is not known here. "
                "Bring what moves there into the unit, as states or as an expression of the time"
            )
        after = {name: value for name, value in event.then if name in self.rates}
        slopes = self._slopes(speed)
        if not slopes:
            raise _Refused(f"the speed of its gap, {show(speed)}, depends on no state")
        # The change vanishes with the speed: its derivative across is what it is per speed.
        across: dict[str, Expr] = {}
        for name, value in after.items():
            change = _minus(value, Name(name))
            across[name] = _sum(_times(slope, differentiate(change, by)) for by, slope in slopes.items())
        size = _dot(slopes, across)
        self._check_impact(event, gap, speed, after, size)
        direction = {name: _over(part, size) for name, part in across.items() if part != ZERO}
        direction = {name: self._constant(part) for name, part in direction.items()}
        direction = {name: part for name, part in direction.items() if part != ZERO}
        flag = free_name(f"{event.name}_resting", self.taken)
        rate = time_derivative(speed, self.rates)
        return _Contact(event, flag, speed, rate, slopes, direction, gap=gap, after=after, guards=guards)

    def _gap(self, parts: list[Expr]) -> tuple[Expr, Expr, tuple[Expr, ...]]:
        """The gap, its speed, and what else is in the condition of an impact."""
        for gap in parts:
            speed = time_derivative(gap, self.rates)
            if names(gap) & self.inputs or not self._slopes(speed) or not names(gap) & set(self.states):
                continue
            others = [part for part in parts if part is not gap]
            same = [part for part in others if self._same_sign(part, speed)]
            if same or not others:
                return gap, speed, tuple(part for part in others if part not in same)
        if len(parts) == 2 and names(parts[0]) & self.inputs:
            return parts[0], parts[1], ()
        shown = ", ".join(f"{show(part)}" for part in parts)
        if any(names(part) & self.inputs for part in parts):
            raise _Refused(
                "its gap depends on an input, whose rate is not known here: give the speed as well, "
                'when = "gap <= 0 and speed < 0", or bring what moves there into the unit '
                f"(found: {shown})"
            )
        raise _Refused(
            'its condition is not that of a gap that closes: when = "gap <= 0 and speed < 0", where the '
            f"speed is the rate of the gap and depends on states (found: {shown})"
        )

    def _same_sign(self, one: Expr, other: Expr) -> bool:
        points = [self._point() for _ in range(_TRIALS)]
        return all(evaluate(one, p) * evaluate(other, p) > 0.0 for p in points)

    def _check_impact(
        self, event: EquationEvent, gap: Expr, speed: Expr, after: Mapping[str, Expr], size: Expr
    ) -> None:
        points = self._points([speed, gap])
        if not points:
            raise _Refused("no state was found at which its gap and the speed of it are zero")
        for point in points:
            scale = 1.0 + max(abs(point[name]) for name in self.states)
            for name, value in after.items():
                if not abs(evaluate(value, point) - point[name]) < _ROUGH * scale:
                    raise _Refused(
                        f"it changes '{name}' even where the gap does not close any more "
                        f"({show(speed)} = 0): there is no state in which it could rest"
                    )
            if not abs(evaluate(size, point)) > 1e-12:
                raise _Refused(
                    f"near rest it does not change {show(speed)}: write the impact without a "
                    "threshold, as in "
                    '"-0.7*v"'
                )

    def _slopes(self, expr: Expr) -> dict[str, Expr]:
        found = ((name, differentiate(expr, name)) for name in self.states if name in names(expr))
        return {name: slope for name, slope in found if slope != ZERO}

    def _constant(self, expr: Expr) -> Expr:
        """As a number, if it is one."""
        return Number(evaluate(expr, {})) if not names(expr) else expr

    def switch(self, event: EquationEvent) -> _Switch:
        """The switch that two events make."""
        if event.indicator is None:
            raise _Refused('a switch has a condition: when = "x <= 0", then = { u = 1 }')
        sigma = plain(event.indicator)
        partner = next((e for e in self.events.values() if self._opposite(e, event, sigma)), None)
        if partner is None:
            raise _Refused(
                f"no other event of this unit happens where {show(sigma)} >= 0 and switches back: a "
                "relay without "
                'hysteresis has two events with one threshold, when = "x <= 0" and when = "x >= 0"'
            )
        low, high = (
            {
                name: value
                for name, value in e.then
                if name in self.variables and names(value) <= self.parameters
            }
            for e in (event, partner)
        )
        both = low.keys() & high.keys()
        low, high = ({name: side[name] for name in sorted(both)} for side in (low, high))
        for e in (event, partner):
            if any(name in self.rates for name, _ in e.then):
                raise _Refused(f"'{e.name}' makes states jump: what jumps does not slide")
        direction = {}
        for name, rate in self.rates.items():
            change = self._change(rate, low, high)
            if change != ZERO:
                direction[name] = change
        if not direction:
            raise _Refused(
                f"no derivative depends on a variable that '{event.name}' and '{partner.name}' both "
                "set to values of their own"
            )
        if names(sigma) & self.inputs:
            raise _Refused(
                f"{show(sigma)} depends on an input, whose rate is not known here. Bring what moves "
                "there into the unit, as states or as an expression of the time"
            )
        flag = free_name(f"{event.name}_sliding", self.taken)
        rate = time_derivative(sigma, self.rates)
        room = self._room(event, partner)
        return _Switch(
            event,
            flag,
            sigma,
            rate,
            self._slopes(sigma),
            direction,
            low,
            partner=partner,
            low=low,
            high=high,
            room=room,
        )

    def _change(self, expr: Expr, low: Mapping[str, Expr], high: Mapping[str, Expr]) -> Expr:
        """How much larger an expression is on the high side of a switch."""
        if not names(expr) & low.keys():
            return ZERO
        slopes = {name: differentiate(expr, name) for name in low}
        if any(names(slope) & low.keys() for slope in slopes.values()):
            return self._constant(_minus(substitute(expr, high), substitute(expr, low)))
        # linear in what is switched: what else there is cancels
        return self._constant(_sum(_times(slope, _minus(high[n], low[n])) for n, slope in slopes.items()))

    def _room(self, *events: EquationEvent) -> Expr:
        given = [e.written["slides"] for e in events if e.written.get("slides") not in (None, True, False)]
        if not given:
            return ZERO
        what = (
            "slides is true, or how many times more than the switched values it can hold: a number "
            "from 1 on, or an "
            f'expression of parameters such as "rest/motion", not {given[0]!r}'
        )
        try:
            ratio = parse(str(given[0]))
        except ExpressionError as error:
            raise _Refused(what) from error
        if names(ratio) - self.parameters or not evaluate(ratio, self._point()) >= 1.0:
            raise _Refused(what)
        return apply(Op.MUL, Number(0.5), apply(Op.SUB, ratio, Number(1.0)))

    def _opposite(self, other: EquationEvent, event: EquationEvent, sigma: Expr) -> bool:
        if other is event or other.indicator is None:
            return False
        if not {n for n, _ in other.then} & {n for n, _ in event.then} & self.variables:
            return False
        back = plain(other.indicator)
        points = [self._point() for _ in range(_TRIALS)]
        pairs = [(evaluate(sigma, p), evaluate(back, p)) for p in points]
        return all(abs(a + b) <= _ROUGH * (abs(a) + abs(b)) for a, b in pairs)

    # -------------------------------------------------------------------- formulas

    def local(self, name: str, value: Expr) -> Expr:
        """A local with this value, or the value itself where it is short."""
        if isinstance(value, Number | Name):
            return value
        made = free_name(name, self.taken)
        self.spec["locals"][made] = show(value)
        return Name(made)

    def couplings(self) -> list[list[Expr]]:
        """How fast each quantity changes by the multiple of each."""
        return [
            [
                self.local(
                    f"{one.event.name}_by_{other.event.name}",
                    self._constant(_dot(one.slopes, other.direction)),
                )
                for other in self.held
            ]
            for one in self.held
        ]

    def eliminated(
        self, number: int, active: Mapping[int, Expr], loads: Mapping[int, Expr], what: str
    ) -> tuple[Expr, Expr, dict[int, Expr]]:
        """With the `active` others held, what is left of `loads` and of the own coupling of a quantity; and
        of each of the others the multiple that goes with one of this (with the other sign)."""
        coupled = self._coupled(number, active)
        matrix = self.matrix
        flags = {j: active[j] for j in coupled}
        rows = {
            j: {
                k: _if(flags[j], matrix[j][k], Number(1.0))
                if j == k
                else _if(_both(flags[j], flags[k]), matrix[j][k])
                for k in coupled
            }
            for j in coupled
        }
        sides = {j: (_if(flags[j], loads.get(j, ZERO)), _if(flags[j], matrix[j][number])) for j in coupled}
        name = f"{self.held[number].event.name}_{what}"
        for place, j in enumerate(coupled):
            for k in coupled[place + 1 :]:
                if rows[k][j] == ZERO:
                    continue
                factor = self.local(name, _over(rows[k][j], rows[j][j]))
                for c in coupled[place + 1 :]:
                    rows[k][c] = self.local(name, _minus(rows[k][c], _times(factor, rows[j][c])))
                left, right = (_minus(b, _times(factor, a)) for a, b in zip(sides[j], sides[k], strict=True))
                sides[k] = self.local(name, left), self.local(name, right)
        found: dict[int, tuple[Expr, Expr]] = {}
        for place, j in reversed(list(enumerate(coupled))):
            parts = []
            for which in (0, 1):
                known = _sum(_times(rows[j][k], found[k][which]) for k in coupled[place + 1 :])
                parts.append(self.local(name, _over(_minus(sides[j][which], known), rows[j][j])))
            found[j] = parts[0], parts[1]
        own = matrix[number]
        beta = _minus(loads.get(number, ZERO), _sum(_times(own[j], found[j][0]) for j in coupled))
        rest = _minus(own[number], _sum(_times(own[j], found[j][1]) for j in coupled))
        return beta, rest, {j: found[j][1] for j in coupled}

    def _coupled(self, number: int, active: Mapping[int, Expr]) -> list[int]:
        """Those of the active ones that have to do with this quantity, directly or through others."""
        found, waiting = {number}, [number]
        while waiting:
            one = waiting.pop()
            for other in active:
                linked = self.matrix[one][other] != ZERO or self.matrix[other][one] != ZERO
                if other not in found and linked:
                    found.add(other)
                    waiting.append(other)
        return sorted(found - {number})

    def _flags(self, without: int) -> dict[int, Expr]:
        return {j: Name(one.flag) for j, one in enumerate(self.held) if j != without}

    # -------------------------------------------------------------------- writing

    def write(self) -> dict[str, Any]:
        """The table of the model that holds what it can."""
        self.matrix = self.couplings()
        groups = self._groups()
        loose = [one for group in groups if len(group) > LARGEST for one in self._loose(group)]
        for group in groups:
            contacts = {j: one for j in group if isinstance(one := self.held[j], _Contact)}
            if len(contacts) > 1:
                self._write_collapse(contacts, rests=len(group) <= LARGEST)
        for one in loose:
            self._write_impact(one)
        if loose:
            self.held = [one for one in self.held if not any(one is other for other in loose)]
            if not self.held:
                return self.spec
            self.matrix = self.couplings()
        self.count = free_name("held", self.taken)
        self.spec["variables"][self.count] = {"start": 0, "kind": "integer"}
        self._check_independence()
        for number, one in enumerate(self.held):
            self.spec["variables"][one.flag] = {"start": False, "kind": "boolean"}
            self.spec["outputs"][one.flag] = {"value": one.flag, "kind": "boolean"}
            one.since = free_name(f"{one.flag}_since", self.taken)
            self.spec["variables"][one.since] = 0.0
            self.spec["outputs"][one.since] = one.since
            loads = {j: substitute(other.rate, one.at) for j, other in enumerate(self.held)}
            loads = {
                j: self.local(f"{one.event.name}_rate", load)
                for j, load in loads.items()
                if self._near(number, j)
            }
            beta, rest, _ = self.eliminated(number, self._flags(number), loads, "part")
            one.beta = self.local(f"{one.event.name}_free", beta)
            one.stiffness = self.local(f"{one.event.name}_yield", rest)
            push = _over(_made(Op.NEG, one.beta), one.stiffness)
            if not isinstance(one.stiffness, Number):  # where nothing gives way, nothing can be held
                push = _if(apply(Op.EQ, one.stiffness, ZERO), ZERO, push)
            one.multiple = self.local(f"{one.event.name}_push", push)
        self._write_states()
        self._write_outputs()
        for number, one in enumerate(self.held):
            if isinstance(one, _Contact):
                self._write_contact(number, one)
            elif isinstance(one, _Switch):
                self._write_switch(one)
        return self.spec

    def _groups(self) -> list[list[int]]:
        """Those that act on each other, directly or through others."""
        found: list[list[int]] = []
        for number in range(len(self.held)):
            if not any(number in group for group in found):
                found.append(sorted([number, *self._coupled(number, self._flags(number))]))
        return found

    def _loose(self, group: Sequence[int]) -> list[_Contact]:
        """The contacts of a group that is too large to rest, if nothing presses them together either."""
        contacts = [one for j in group if isinstance(one := self.held[j], _Contact)]
        if len(contacts) == len(group) and not self._pressed_together(contacts):
            return contacts
        raise _Refused(
            f"at most {LARGEST} contacts and switches that act on each other can be held, not {len(group)}. "
            "More than that may only collide, where nothing presses them together while they touch"
        )

    def _pressed_together(self, contacts: Sequence[_Contact]) -> bool:
        """Whether some of them would have to rest: tried where all are closed, and none of them moves."""
        points = self._points([part for one in contacts for part in (one.gap, one.q)])
        for point in points:
            scale = 1.0 + max(abs(value) for value in point.values())
            if any(not evaluate(one.rate, point) > -_ROUGH * scale for one in contacts):
                return True
        return not points

    def _near(self, number: int, j: int) -> bool:
        return j == number or j in self._coupled(number, self._flags(number))

    def _check_independence(self) -> None:
        """What one of them does must not depend on what is held by another."""
        for one in self.held:
            switched = set(one.low) if isinstance(one, _Switch) else set()
            for other in self.held:
                used = {
                    n for part in (*other.direction.values(), *other.slopes.values()) for n in names(part)
                }
                if other is not one and used & switched:
                    raise _Refused(
                        f"'{one.event.name}' and '{other.event.name}' depend on each other by more "
                        "than a sum: only one of them can be held"
                    )
                if isinstance(other, _Contact) and (names(other.q) & switched):
                    raise _Refused(
                        f"'{one.event.name}' switches the speed of the gap of '{other.event.name}', "
                        "not its acceleration"
                    )
        for one in self.held:
            if isinstance(one, _Contact):
                gap = self._slopes(one.gap)
                for other in self.held:
                    found = _dot(gap, other.direction)
                    points = [self._point() for _ in range(_TRIALS)] if found != ZERO else []
                    if any(abs(evaluate(found, p)) > _ROUGH for p in points):
                        raise _Refused(
                            f"'{other.event.name}' acts on the speed of the gap of '{one.event.name}' "
                            "at once, not on its acceleration"
                        )

    def _pushes(self, cell: str) -> Expr:
        """What is added to the derivative of a state."""
        return _sum(
            _if(Name(one.flag), _times(one.multiple, one.direction[cell]))
            for one in self.held
            if cell in one.direction
        )

    def _write_states(self) -> None:
        for state in self.equations.states:
            cells = cell_names(state.port.name, state.port.size)
            added = [self._pushes(cell) for cell in cells]
            if all(part == ZERO for part in added):
                continue
            entry = self.spec["states"][state.port.name]
            entry = dict(entry) if isinstance(entry, Mapping) else {"der": entry}
            written = [
                show(own if part == ZERO else apply(Op.ADD, own, part))
                for own, part in zip(state.derivative.cells, added, strict=True)
            ]
            entry["der"] = written if state.port.size is not None else written[0]
            self.spec["states"][state.port.name] = entry

    def _write_outputs(self) -> None:
        """Outputs that are the rate of a state are that of the state as it is held, and those that depend on
        a switch are in between while it slides."""
        outputs = self.equations.outputs
        rates = {o.port.derivative: o for o in outputs if o.port.derivative is not None}
        for output in outputs:
            cells = list(output.definition.cells)
            for place, cell in enumerate(cells):
                shown = rates.get(output.port.name)
                state = shown.definition.cells[place] if shown is not None else None
                pushes = (
                    self._pushes(state.id) if isinstance(state, Name) and state.id in self.rates else ZERO
                )
                if pushes == ZERO and output.port.kind is Kind.REAL:
                    whole = self.equations.written_out(cell)
                    for one in self.held:
                        if isinstance(one, _Switch) and names(whole) & one.low.keys():
                            change = self._change(whole, one.low, one.high)
                            pushes = _plus(pushes, _if(Name(one.flag), _times(one.multiple, change)))
                if pushes != ZERO:
                    cells[place] = apply(Op.ADD, cell, pushes)
            if any(new is not old for new, old in zip(cells, output.definition.cells, strict=True)):
                self._put_output(output, cells)

    def _put_output(self, output: Output, cells: Sequence[Expr]) -> None:
        entry = self.spec["outputs"][output.port.name]
        entry = dict(entry) if isinstance(entry, Mapping) else {"value": entry}
        written = [show(cell) for cell in cells]
        entry["value"] = written if output.port.size is not None else written[0]
        self.spec["outputs"][output.port.name] = entry

    # ------------------------------------------------------------ events

    def _put(
        self,
        name: str,
        when: Sequence[Expr | str] | str,
        then: Mapping[str, Expr | str],
        emit: Mapping[str, Any] | None = None,
    ) -> None:
        entry: dict[str, Any] = {
            "when": when if isinstance(when, str) else [w if isinstance(w, str) else show(w) for w in when],
            "then": self._grouped(then),
        }
        if emit:
            entry["emit"] = dict(emit)
        self.spec["events"][name] = entry

    def _grouped(self, then: Mapping[str, Expr | str]) -> dict[str, Any]:
        """New values by cell, as they are written: of an array, a list of them."""
        text = {name: value if isinstance(value, str) else show(value) for name, value in then.items()}
        ports = (
            *self.equations.parameters,
            *self.equations.variables,
            *(s.port for s in self.equations.states),
        )
        for port in ports:
            cells = cell_names(port.name, port.size)
            if port.size is not None and text.keys() & set(cells):
                text[port.name] = [text.pop(cell, cell) for cell in cells]  # type: ignore[assignment]
        return text

    def _told(self, port: str, about: str, reasons: Sequence[str]) -> str:
        """An event output that carries one of these reasons."""
        made = free_name(port, self.taken)
        self.spec["outputs"][made] = {"event": True, "items": list(reasons), "description": about}
        return made

    def _change_of(self, one: _Held, holds: bool) -> dict[str, Expr | str]:
        """What an event writes at which a quantity begins to be held, or is held no more."""
        return {
            one.flag: "true" if holds else "false",
            one.since: TIME,
            self.count: f"{self.count} {'+' if holds else '-'} 1",
        }

    def _pushed(self, number: int, amount: Expr, active: Mapping[int, Expr], label: str) -> dict[str, Expr]:
        """The states after a blow that changes a quantity by `amount` while others stay as they are."""
        one = self.held[number]
        _, rest, shares = self.eliminated(number, active, {}, label)
        blow = self.local(f"{one.event.name}_{label}", _over(amount, rest))
        moved: dict[str, Expr] = dict(one.direction)
        for j, share in shares.items():
            for cell, part in self.held[j].direction.items():
                moved[cell] = _minus(moved.get(cell, ZERO), _times(share, part))
        return {cell: _plus(Name(cell), _times(blow, part)) for cell, part in moved.items()}

    def _write_contact(self, number: int, one: _Contact) -> None:
        event, flag = one.event, Name(one.flag)
        before, gap, first, crowd = (
            free_name(f"{event.name}_{word}", self.taken)
            for word in ("flights", "flight", "longest", "crowd")
        )
        variables = self.spec["variables"]
        variables[before] = variables[crowd] = {"start": 0, "kind": "integer"}
        for name in (gap, first):
            variables[name] = 0.0
        last, close = self._last(one), self._close(one)
        # the impact itself, with the others that rest holding on where it presses on them
        after = substitute(one.q, one.after)
        flight = Name(TIME) - Name(last)
        short = self.local(f"{event.name}_short", flight < Name(first) * NEGLIGIBLE)
        shrinks = all_of([Name(before) >= 2.0, any_of([flight < Name(gap), short])])
        # bodies that collide ever faster between others, which nothing presses together, stay together
        collapses = self.local(f"{event.name}_collapses", all_of([short, Name(crowd) >= float(CROWDED)]))
        then: dict[str, Expr | str] = {name: value for name, value in event.then if name not in self.rates}
        near = [j for j in range(len(self.held)) if j != number and self._near(number, j)]
        resting = {j: Name(self.held[j].flag) for j in near if isinstance(self.held[j], _Contact)}
        # what rests is held, through all that rests on it; what would have to be pulled for that, opens
        _, _, shares = self.eliminated(number, resting, {}, "share")
        pressed = {
            j: all_of([flag_, self.local(f"{event.name}_share", shares.get(j, ZERO)) <= 0.0])
            for j, flag_ in resting.items()
        }
        own: dict[str, Expr] = dict(one.after)
        holding = self.local(f"{event.name}_held", any_of([collapses, *pressed.values()]))
        blow = _minus(_if(collapses, ZERO, after), one.q)
        moved = self._pushed(number, blow, pressed, "blow")
        for cell in sorted(moved.keys() | own.keys()):
            own[cell] = _if(holding, moved.get(cell, Name(cell)), own.get(cell, Name(cell)))
        then |= own
        opened = []
        for j in near:
            other = self.held[j]
            opens: Expr = Name(other.flag)
            if j in pressed:
                opens = _both(opens, _not(pressed[j]))
            then[other.flag] = _both(Name(other.flag), _not(opens))
            then[other.since] = _if(opens, Name(TIME), Name(other.since))
            opened.append(_if(opens, Number(1.0)))
        if opened:
            then[self.count] = Name(self.count) - _sum(opened)
        fades = all_of(
            [
                Name(before) >= float(SHRINKING),
                shrinks,
                one.multiple > 0.0,
                apply(Op.MUL, Number(2.0), after)
                < apply(Op.MUL, Number(NEGLIGIBLE), Name(first) * one.multiple),
            ]
        )
        then |= {
            before: _if(shrinks, Name(before) + 1.0, _if(Name(before) >= 1.0, Number(2.0), Number(1.0))),
            last: Name(TIME),
            gap: flight,
            first: _if(Name(before) >= 1.0, apply(Op.MAX, Name(first), flight), ZERO),
            close: fades,
            crowd: _if(short, Name(crowd) + 1.0, ZERO),
            **self._counted(one),
        }
        assert event.indicator is not None
        when = [event.indicator, one.closes, apply(Op.SUB, flag, Number(0.5))]
        self._put(event.name, when, then, event.written.get("emit"))
        # rest, and its end
        plastic = self._pushed(number, _made(Op.NEG, one.q), self._flags(number), "stop")
        about = f"{SETTLING}'{event.name}' comes to rest"
        rests = self._told(f"{event.name}_rests", about, (SHORTER, STAYED))
        lifts = self._told(f"{event.name}_lifts", f"'{event.name}' rests no more", (LIFTED, ENDED))
        touching = all_of([one.gap <= 0.0, one.q <= 0.0, *(guard <= 0.0 for guard in one.guards)])
        begins = all_of(
            [_not(flag), one.multiple > 0.0, any_of([_both(Name(close), flight <= 0.0), touching])]
        )
        self._put(
            free_name(f"{event.name}_comes_to_rest", self.taken),
            show(begins),
            {**self._change_of(one, True), close: "false", before: "0", **plastic},
            {rests: show(_if(Name(close), ZERO, Number(1.0)))},
        )
        # what numerical drift has left of the speed goes, so that a contact that opens does not close first
        free = self._pushed(number, _made(Op.NEG, one.q), self._flags(number), "stop")
        pulled = one.multiple <= 0.0
        self._put(
            free_name(f"{event.name}_lifts_off", self.taken),
            show(all_of([flag, any_of([pulled, *(guard > 0.0 for guard in one.guards)])])),
            {**self._change_of(one, False), **free},
            {lifts: show(_if(pulled, ZERO, Number(1.0)))},
        )

    # ------------------------------------------------------------ collapses

    def _variable(self, name: str, start: object) -> str:
        made = free_name(name, self.taken)
        self.spec["variables"][made] = start
        return made

    def _last(self, one: _Contact) -> str:
        one.last = one.last or self._variable(f"{one.event.name}_last", 0.0)
        return one.last

    def _close(self, one: _Contact) -> str:
        one.close = one.close or self._variable(
            f"{one.event.name}_fades", {"start": False, "kind": "boolean"}
        )
        return one.close

    def _counted(self, one: _Contact) -> dict[str, Expr | str]:
        """What an impact notes for a collapse."""
        if not one.blows:
            return {}
        return {
            one.blows: _if(one.now, Name(one.blows) + 1.0, Number(1.0)),
            one.part: _if(one.now, Name(one.part), ZERO),
        }

    def _write_impact(self, one: _Contact) -> None:
        """One that does not rest, but may collapse with others."""
        event = one.event
        assert event.indicator is not None
        then: dict[str, Expr | str] = {**dict(event.then), one.last: TIME, **self._counted(one)}
        self._put(event.name, [event.indicator, one.closes], then, event.written.get("emit"))

    def _write_collapse(self, contacts: Mapping[int, _Contact], rests: bool) -> None:
        """Contacts that act on each other end what they do not end pair by pair, all at once.

        Impulses m along their directions, so that those that close, and those that were stopped before at
        this instant, stay closed: W·m = -q. Where some would have to pull, it is tried again without these;
        where others close then, with these. Between bodies in a row it never pulls. Impulses act on pairs of
        bodies, so momentum is kept; energy changes by q·m/2, which is not above zero.
        """
        label = next(iter(contacts.values())).event.name
        begun = self._variable(f"{label}_collapsed", -1e300)
        odd = self._variable(f"{label}_odd", {"start": False, "kind": "boolean"})
        active: dict[int, Expr] = {}
        lossy, crowded = [], []
        for j, one in contacts.items():
            name = one.event.name
            self._last(one)
            one.blows = self._variable(f"{name}_blows", {"start": 0, "kind": "integer"})
            one.part = self._variable(f"{name}_part", {"start": 0, "kind": "integer"})
            touches = all_of([one.gap <= 0.0, *(guard <= 0.0 for guard in one.guards)])
            closes = self.local(f"{name}_closes", all_of([touches, one.closes < 0.0]))
            after = substitute(one.q, one.after)
            left = _plus(after, _times(Number(1.0 - ELASTIC), one.q))
            lossy.append(all_of([closes, left < 0.0]))
            crowded.append(all_of([Name(one.blows) >= float(AT_ONE_INSTANT), one.now]))
            stays = all_of([one.now, apply(Op.EQ, Name(one.part), Number(1.0))])
            pulls = all_of([one.now, apply(Op.EQ, Name(one.part), Number(2.0))])
            active[j] = self.local(f"{name}_stops", all_of([any_of([closes, stays]), _not(pulls)]))
        multiples = self._stopping(contacts, active)
        lowest: Expr = ZERO
        for m in multiples.values():
            lowest = apply(Op.MIN, lowest, m)
        right = self.local(f"{label}_pushes", lowest >= 0.0)
        then: dict[str, Expr | str] = {begun: TIME, odd: _not(Name(odd))}
        moved: dict[str, Expr] = {}
        for j, one in contacts.items():
            for cell, part in one.direction.items():
                moved[cell] = _plus(moved.get(cell, ZERO), _times(multiples[j], part))
            pulled = multiples[j] < 0.0
            involved = any_of([active[j], all_of([one.now, Name(one.part) >= 1.0])])
            part_ = _if(right, _if(active[j], Number(1.0)), _if(pulled, Number(2.0), Name(one.part)))
            then[one.part] = _if(involved, part_, ZERO)
            then[one.last] = _if(active[j], Name(TIME), Name(one.last))
            then[one.blows] = _if(
                active[j], apply(Op.MAX, Name(one.blows), Number(float(AT_ONE_INSTANT))), Name(one.blows)
            )
            if rests:
                close = self._close(one)
                then[close] = any_of([_both(right, active[j]), Name(close)])
        for cell, change in moved.items():
            then[cell] = _plus(Name(cell), _if(right, change))
        about = f"{SETTLING}what is left of the impacts at one instant ends at once"
        told = self._told(f"{label}_collapses", about, (COLLAPSED,))
        endless = all_of([any_of(crowded), any_of(lossy)])
        first = Name(TIME) - Name(begun) > 0.0
        events = self.spec["events"]
        self.spec["events"] = {}
        self._put(
            free_name(f"{label}_collapse", self.taken), show(_both(endless, first)), then, {told: COLLAPSED}
        )
        # an event happens again only after its condition was false: two of them take turns
        for turn in (Name(odd), _not(Name(odd))):
            again = all_of([endless, _not(first), turn])
            self._put(free_name(f"{label}_collapse_again", self.taken), show(again), then)
        self.spec["events"] |= events

    def _stopping(self, contacts: Mapping[int, _Contact], active: Mapping[int, Expr]) -> dict[int, Expr]:
        """The multiples with which the active ones of these stop to close."""
        matrix = self.matrix
        order = list(contacts)
        rows: dict[int, dict[int, Expr]] = {}
        sides: dict[int, Expr] = {}
        for j in order:
            rows[j] = {}
            for k in order:
                if j == k:
                    rows[j][k] = (
                        matrix[j][j]
                        if matrix[j][j] == Number(1.0)
                        else _if(active[j], matrix[j][j], Number(1.0))
                    )
                else:
                    rows[j][k] = _if(_both(active[j], active[k]), matrix[j][k])
            sides[j] = _if(active[j], _made(Op.NEG, contacts[j].q))
        for place, j in enumerate(order):
            name = f"{contacts[j].event.name}_collapse"
            rows[j] = {k: self.local(name, entry) for k, entry in rows[j].items()}
            sides[j] = self.local(name, sides[j])
            for k in order[place + 1 :]:
                if rows[k][j] == ZERO:
                    continue
                factor = self.local(name, _over(rows[k][j], rows[j][j]))
                for c in order[place + 1 :]:
                    rows[k][c] = _minus(rows[k][c], _times(factor, rows[j][c]))
                sides[k] = _minus(sides[k], _times(factor, sides[j]))
        found: dict[int, Expr] = {}
        for place, j in reversed(list(enumerate(order))):
            known = _sum(_times(rows[j][k], found[k]) for k in order[place + 1 :])
            name = f"{contacts[j].event.name}_stop"
            found[j] = self.local(name, _over(_minus(sides[j], known), rows[j][j]))
        return found

    def _write_switch(self, one: _Switch) -> None:
        assert one.partner is not None
        flag, event = Name(one.flag), one.event
        ready = free_name(f"{event.name}_ready", self.taken)
        self.spec["variables"][ready] = {"start": False, "kind": "boolean"}
        inside = apply(Op.MIN, one.multiple + one.room, 1.0 + one.room - one.multiple)
        near = apply(Op.ABS, one.q) < apply(Op.MUL, Number(-AT_ONCE), one.stiffness)
        low = one.multiple < 0.5
        sides = {name: _if(low, one.low[name], one.high[name]) for name in one.low}
        for which, own in ((event, one.low), (one.partner, one.high)):
            assert which.indicator is not None
            then: dict[str, Expr | str] = dict(which.then)
            # on the surface both conditions hold: it goes where the derivatives lead
            then |= {name: _if(near, sides[name], own[name]) for name in own}
            then[ready] = _both(near, inside > 0.0)
            when = [which.indicator, apply(Op.SUB, flag, Number(0.5))]
            self._put(which.name, when, then, which.written.get("emit"))
        slides = self._told(f"{event.name}_slides", f"{SETTLING}'{event.name}' starts to slide", (BOTH,))
        leaves = self._told(f"{event.name}_leaves", f"'{event.name}' slides no more", (LEFT,))
        self._put(
            free_name(f"{event.name}_starts_to_slide", self.taken),
            show(all_of([Name(ready), _not(flag)])),
            {**self._change_of(one, True), ready: "false", **one.low},
            {slides: BOTH},
        )
        self._put(
            free_name(f"{event.name}_stops_sliding", self.taken),
            show(all_of([flag, inside <= 0.0])),
            {**self._change_of(one, False), **sides},
            {leaves: LEFT},
        )


def _both(a: Expr, b: Expr) -> Expr:
    return apply(Op.AND, a, b)


def _parts(indicator: Expr) -> list[Expr]:
    """The numbers of which it is the largest."""
    if isinstance(indicator, Apply) and indicator.op is Op.MAX:
        return [part for arg in indicator.args for part in _parts(arg)]
    return [indicator]


def with_holding(equations: Equations, spec: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """The table of a model, `spec`, whose contacts come to rest and whose switches slide where events ask."""
    writer = _Writer(equations, {**spec})
    partners: set[str] = set()
    readers: dict[str, Callable[[EquationEvent], _Held]] = {"rests": writer.contact, "slides": writer.switch}
    for event in equations.events:
        for key, read in readers.items():
            if event.written.get(key) in (None, False) or event.name in partners:
                continue
            try:
                found = read(event)
                writer.held.append(found)
                if isinstance(found, _Switch) and found.partner is not None:
                    partners.add(found.partner.name)
            except _Refused as error:
                complaints.add(f"events.{event.name}.{key}", str(error))
    if complaints.found:
        return dict(spec)
    try:
        made = writer.write()
    except _Refused as error:
        complaints.add("events", str(error))
        return dict(spec)
    for name, entry in made["events"].items():
        made["events"][name] = {key: value for key, value in entry.items() if key not in ("rests", "slides")}
    return made
