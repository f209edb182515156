"""Properties as data: formulas of signal temporal logic over the ports of a scenario, and their text.

    always(gap.x > 0.1)
    always(valve.open implies eventually[0, 2](tank.level < 3))
    eventually[0, 5](always(abs(load.x - 1) < 0.02))
    not pump.on until tank.level > 0.5

A text is an expression (`upbeat.core.expr`), with some words more. Of the future: ``always``, ``eventually``,
``p until q``; of the past: ``historically``, ``once``, ``p since q``; each may have a window in seconds,
``[from, to]``, counted from the time at which it is asked (back, for those of the past). Without one it goes
on to the end of the run, or back to its start. ``p implies q`` binds least. Signals may be made of others:
``der(x)``, ``integral(x)``, ``average[0.5](x)``, ``roughness(x)``, and of truths ``count(p)``,
``duration(p)``. A number may have a unit of measure, ``3 cm``: it is converted to that of what it is compared
with, which the scenario knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from upbeat.core.errors import ExpressionError, check_type
from upbeat.core.expr import Apply, Expr, Name, Number, Op, names, show, simplify
from upbeat.core.expr.operations import Level
from upbeat.core.expr.parse import MAX_TEXT, Parser, Token
from upbeat.core.measure import Measure, MeasureError, conversion
from upbeat.core.names import HIDDEN
from upbeat.core.records import dataclass

Future = Literal["always", "eventually", "until"]
Past = Literal["historically", "once", "since"]
FUTURE: Final = frozenset({"always", "eventually", "until"})
PREFIX: Final = ("always", "eventually", "historically", "once")
INFIX: Final = ("until", "since")
DERIVED: Final = {
    "der": "the rate of change from row to row",
    "integral": "the integral over time, from the start",
    "average": "the mean, of the last seconds in brackets or from the start",
    "roughness": "the root mean square of the second derivative, of the last seconds or from the start",
    "count": "how often a condition has become true",
    "duration": "for how long a condition has been true without a break",
}
"""Signals that are made of others, and what each is."""
QUANTITY: Final = "quantity"
"""A number with a unit of measure, which becomes a plain number where the scenario is known."""
WINDOWED: Final = ("average", "roughness")
OF_TRUTHS: Final = ("count", "duration")


class Window(NamedTuple):
    """Seconds from the time at which a formula is asked: both ends belong to it."""

    first: float = 0.0
    last: float = math.inf

    def __str__(self) -> str:
        if self == Window():
            return ""
        return f"[{show(Number(self.first))}, {show(Number(self.last))}]"


WHOLE: Final = Window()


@dataclass(frozen=True)
class Signal:
    """A number over time: an expression, in which some names stand for signals that are made of others."""

    expr: Expr
    derived: tuple[tuple[str, Derived], ...] = ()

    def __str__(self) -> str:
        text = show(self.expr)
        for name, made in self.derived:
            text = text.replace(f"`{name}`", str(made))
        return text


@dataclass(frozen=True)
class Derived:
    """A signal that is made of another one, or of a truth; see `DERIVED`."""

    kind: str
    of: Signal | Formula
    seconds: float = math.inf
    unit: str = ""
    """Of a number with a unit of measure (kind "quantity")."""

    def __str__(self) -> str:
        if self.kind == QUANTITY:
            return f"{self.of} {self.unit}"
        window = "" if self.seconds == math.inf else f"[{show(Number(self.seconds))}]"
        return f"{self.kind}{window}({self.of})"


@dataclass(frozen=True)
class Predicate:
    """A comparison, or a signal that is true or false."""

    signal: Signal

    def __str__(self) -> str:
        return str(self.signal)


@dataclass(frozen=True)
class Combined:
    """``and``, ``or`` (of two or more) and ``not``."""

    op: Literal["and", "or", "not"]
    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        if self.op == "not":
            return f"not {_enclosed(self.parts[0])}"
        return f" {self.op} ".join(map(_enclosed, self.parts))


@dataclass(frozen=True)
class Temporal:
    """Something at other times: one part, or the two of ``until`` and ``since``."""

    op: Future | Past
    parts: tuple[Formula, ...]
    window: Window = WHOLE

    def __str__(self) -> str:
        if self.op in INFIX:
            left, right = map(_enclosed, self.parts)
            return f"{left} {self.op}{self.window} {right}"
        return f"{self.op}{self.window}({self.parts[0]})"


Formula = Predicate | Combined | Temporal


def _enclosed(part: Formula) -> str:
    loose = isinstance(part, Combined) or (isinstance(part, Temporal) and part.op in INFIX)
    loose = loose or (isinstance(part, Predicate) and isinstance(part.signal.expr, Apply))
    return f"({part})" if loose else str(part)


def parts_of(node: Formula | Signal) -> Iterator[Formula | Signal]:
    """A formula and everything in it, signals that are made of others included."""
    todo: list[Formula | Signal] = [node]
    while todo:
        one = todo.pop()
        yield one
        match one:
            case Predicate(signal):
                todo.append(signal)
            case Signal(derived=derived):
                todo += [made.of for _, made in derived]
            case Combined(parts=parts) | Temporal(parts=parts):
                todo += parts


def signals_of(node: Formula | Signal) -> frozenset[str]:
    """The names of all signals that a formula reads."""
    found: set[str] = set()
    for one in parts_of(node):
        if isinstance(one, Signal):
            found |= names(one.expr) - {name for name, _ in one.derived} - {"time"}
    return frozenset(found)


def rewritten(node: Formula, change: Callable[[Expr], Expr]) -> Formula:
    """The formula with other expressions."""

    def signal(one: Signal) -> Signal:
        return Signal(change(one.expr), tuple((n, derived(d)) for n, d in one.derived))

    def derived(one: Derived) -> Derived:
        of = signal(one.of) if isinstance(one.of, Signal) else rewritten(one.of, change)
        return Derived(one.kind, of, one.seconds, one.unit)

    match node:
        case Predicate(own):
            return Predicate(signal(own))
        case Combined(op, parts):
            return Combined(op, tuple(rewritten(part, change) for part in parts))
        case Temporal(op, parts, window):
            return Temporal(op, tuple(rewritten(part, change) for part in parts), window)


def negated(node: Formula) -> Formula:
    """What is true where the formula is not."""
    if isinstance(node, Combined) and node.op == "not":
        return node.parts[0]
    return Combined("not", (node,))


def horizon(node: Formula) -> float:
    """How many seconds after the time at which it is asked are needed to know a formula."""
    match node:
        case Predicate():
            return 0.0
        case Combined(parts=parts):
            return max(map(horizon, parts))
        case Temporal(op, parts, window):
            inner = max(map(horizon, parts))
            return inner + window.last if op in FUTURE else max(inner - window.first, 0.0)


# ----------------------------------------------------------------------------------------------------
# From text to formula: the parser of expressions, which learns some words.
#
# What is no arithmetic (a formula, a signal made of others) is a name in the tree that it builds, which is
# put together afterwards.


_MEASURE: Final = re.compile(
    r"[A-Za-z°%Ω]+(?:\^-?[1-9])?(?:[*/][A-Za-z°%Ω]+(?:\^-?[1-9])?)*|\"[^\"\n]*\"|'[^'\n]*'"
)
_NO_MEASURES: Final = frozenset({"and", "or", "if", "else", "not", "implies", *INFIX})


class Reader(Parser):
    """Reads one property; the language of hints extends it."""

    def __init__(self, text: str, enums: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(text, {}, enums)
        self.formulas: dict[str, Formula] = {}
        self.derived: dict[str, Derived] = {}

    def formula(self) -> Formula:
        """The whole text."""
        start = self.token
        return self.truth(self.whole(), start)

    def expression(self, lowest: Level) -> Expr:
        left = super().expression(lowest)
        if lowest is not Level.TERNARY:
            return left
        if self.token.kind == "name" and self.token.text in INFIX:
            token = self.take()
            window = self.window(token)
            start = self.token
            right = super().expression(lowest)
            left = self.temporal(token, (self.truth(left, token), self.truth(right, start)), window)
            if self.token.kind == "name" and self.token.text in INFIX:
                self.fail(f"put one of '{token.text}' and '{self.token.text}' in parentheses")
        if self.accept("implies"):
            right = self.expression(lowest)
            return self.grown(Apply(Op.OR, (self.grown(Apply(Op.NOT, (left,))), right)))
        return left

    def prefix(self, lowest: Level) -> Expr:
        token = self.token
        if token.kind == "name" and token.text in (*PREFIX, *DERIVED):
            self.take()
            if self.token.text in ("(", "["):
                return self.word(token)
            self.fail(f"'{token.text}' takes what it is about in parentheses: {token.text}(…)", token)
        found = super().prefix(lowest)
        return self.quantity(found) if token.kind == "number" and isinstance(found, Number) else found

    def quantity(self, number: Number) -> Expr:
        """A number, with the unit of measure that may stand behind it."""
        start = self.token
        if start.kind not in ("name", "string") or start.text in _NO_MEASURES:
            return number
        found = _MEASURE.match(self.text, start.column)
        text = "" if found is None else found[0]
        while text:  # ``3 m/s`` is a speed, and ``3 m/load`` no measure as a whole
            try:
                Measure.of(text.strip("\"'"))
                break
            except MeasureError:
                text = text[: max(text.rfind("/"), text.rfind("*"), 0)]
        if not text:
            self.fail(f"'{start.text}' is no unit of measure, and an operator is missing before it", start)
        while self.token.kind != "end" and self.token.column < start.column + len(text):
            self.take()
        return self.made(Derived(QUANTITY, Signal(number), unit=text.strip("\"'")))

    def made(self, derived: Derived) -> Expr:
        """The name that stands for a signal that is made of others."""
        name = f"{HIDDEN}{len(self.formulas) + len(self.derived)}"
        self.derived[name] = derived
        return self.grown(Name(name))

    def word(self, token: Token) -> Expr:
        word = token.text
        if word in PREFIX:
            window = self.window(token)
            self.expect("(", f"write {word}{window}(…)")
            part = self.truth(self.expression(Level.TERNARY), token)
            self.expect(")", "a parenthesis was opened before")
            return self.temporal(token, (part,), window)
        seconds = math.inf
        if self.token.text == "[":
            if word not in WINDOWED:
                self.fail(f"'{word}' has no window: write {word}(…)")
            self.take()
            seconds = self.seconds()
            self.expect("]", f"a window of so many seconds is written {word}[2](…)")
            if not 0 < seconds < math.inf:
                self.fail("a window back is a positive number of seconds", token)
        self.expect("(", f"write {word}(…)")
        start = self.token
        expr = self.expression(Level.TERNARY)
        self.expect(")", "a parenthesis was opened before")
        of = self.truth(expr, start) if word in OF_TRUTHS else self.signal(expr, start)
        return self.made(Derived(word, of, seconds))

    def temporal(self, token: Token, parts: tuple[Formula, ...], window: Window) -> Expr:
        name = f"{HIDDEN}{len(self.formulas) + len(self.derived)}"
        self.formulas[name] = Temporal(token.text, parts, window)  # type: ignore[arg-type]
        return self.grown(Name(name))

    def window(self, token: Token) -> Window:
        if not self.accept("["):
            return WHOLE
        first = self.seconds()
        self.expect(",", f"a window has two ends: {token.text}[0, 2]")
        last = self.seconds()
        self.expect("]", f"a window is written {token.text}[0, 2]")
        if not (0 <= first <= last and math.isfinite(first)):
            self.fail(
                f"a window goes from a time that is not negative to one that is not earlier, not from "
                f"{first:g} to {last:g}",
                token,
            )
        return Window(first, last)

    def seconds(self) -> float:
        start = self.token
        found = simplify(self.expression(Level.SUM))
        quantity = self.derived.pop(found.id, None) if isinstance(found, Name) else None
        if quantity is not None and quantity.kind == QUANTITY and isinstance(quantity.of, Signal):
            try:
                scale = conversion(quantity.unit, "s").scale
            except MeasureError:
                self.fail(f"'{quantity}' is no time: the ends of a window are seconds", start)
            found = quantity.of.expr
            assert isinstance(found, Number)
            return found.value * scale
        if not isinstance(found, Number):
            self.fail("the ends of a window are numbers of seconds", start)
        return found.value

    # -- put together ----------------------------------------------------------------------------

    def truth(self, expr: Expr, at: Token) -> Formula:
        match expr:
            case Name(id=name) if name in self.formulas:
                return self.formulas[name]
            case Apply(op=Op.NOT, args=(part,)):
                return negated(self.truth(part, at))
            case Apply(op=Op.AND | Op.OR as op, args=args):
                word: Literal["and", "or"] = "and" if op is Op.AND else "or"
                found: list[Formula] = []
                todo = [*reversed(args)]
                while todo:  # a long row of them is no deep nest
                    match todo.pop():
                        case Apply(op=same, args=inner) if same is op:
                            todo += reversed(inner)
                        case part:
                            one = self.truth(part, at)
                            alike = isinstance(one, Combined) and one.op == word
                            found += one.parts if alike and isinstance(one, Combined) else (one,)
                return Combined(word, tuple(found))
            case Apply(op=Op.WHERE, args=(test, one, other)):
                yes = Combined("and", (self.truth(test, at), self.truth(one, at)))
                no = Combined("and", (negated(self.truth(test, at)), self.truth(other, at)))
                return Combined("or", (yes, no))
        return Predicate(self.signal(expr, at))

    def signal(self, expr: Expr, at: Token) -> Signal:
        used = names(expr)
        if wrong := self._temporal(expr):
            self.fail(f"'{wrong}' is true or false, and is not computed with", at)
        return Signal(expr, tuple((name, made) for name, made in self.derived.items() if name in used))

    def _temporal(self, expr: Expr) -> Formula | None:
        return next((self.formulas[name] for name in names(expr) if name in self.formulas), None)


def parse(text: str, enums: Mapping[str, tuple[str, ...]] | None = None) -> Formula:
    """The formula that `text` describes; every problem is an `ExpressionError` with its column.

    `enums` has the labels of names that hold an enumeration.
    """
    check_type(text, str, "a property")
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the property has {len(text)} characters; at most {MAX_TEXT} are allowed")
    return read_formula(Reader(text, enums or {}))


def read_formula(reader: Reader) -> Formula:
    """What a reader makes of its whole text."""
    try:
        found = reader.formula()
        str(found)  # as messages show it
    except RecursionError:
        raise ExpressionError("too much stands within each other: say it in several properties") from None
    return found


# ----------------------------------------------------------------------------------------------------
# What can be told while a run goes on, from the rows so far and a few numbers that are kept of them.


class Clause(NamedTuple):
    """A part of what should hold always: `now` (or nothing), or else what `later` says of what follows."""

    now: Formula | None
    later: Temporal | None


def clauses(body: Formula) -> list[Clause]:
    """What should hold always, as parts each of which has one look ahead at most. `ValueError` if that is
    not possible, with the part that is in the way."""
    found = []
    for part in _split(body, "and", False):
        now: list[Formula] = []
        later: list[Temporal] = []
        for one in _split(part, "or", False):
            if isinstance(one, Temporal) and one.op in ("always", "eventually"):
                later.append(one)
            else:
                now.append(one)
        if len(later) > 1:
            raise ValueError(f"'{part}' looks ahead in two ways at once")
        for one in later:
            if one.window.first > 0:
                raise ValueError(f"the window of '{one}' does not begin at once")
            if one.window.last == math.inf:
                raise ValueError(f"'{one}' within something that should hold always has no end")
        here = None if not now else now[0] if len(now) == 1 else Combined("or", tuple(now))
        found.append(Clause(here, later[0] if later else None))
    return found


def _split(node: Formula, op: Literal["and", "or"], turned: bool) -> list[Formula]:
    """The parts of a conjunction or disjunction, with negations moved inwards; `turned`: of its negation."""
    match node:
        case Combined("not", (part,)):
            return _split(part, op, not turned)
        case Combined("and" | "or" as own, parts):
            if (own == op) is not turned:
                return [one for part in parts for one in _split(part, op, turned)]
            inside = tuple(negated(part) for part in parts) if turned else parts
            return [Combined("or" if op == "and" else "and", inside)]
        case Temporal("always" | "eventually" as own, (part,), window) if turned:
            return [Temporal("eventually" if own == "always" else "always", (negated(part),), window)]
    return [negated(node) if turned else node]


def unwatchable(node: Formula, turned: bool = False) -> str:
    """Why it cannot be told while a run goes on that a property is violated (`turned`: that it holds); empty
    if it can."""
    match node:
        case Combined(op, parts):
            return next(filter(None, (unwatchable(part, turned is not (op == "not")) for part in parts)), "")
        case Temporal("always" | "eventually" as op, (body,), window):
            try:
                found = clauses(body if op == "always" else negated(body))
            except ValueError as error:
                return str(error)
            later = next((clause.later for clause in found if clause.later), None)
            if later is not None and window.last < math.inf and turned is (op == "always"):
                return f"'{later}' looks ahead beyond the window of '{node}'"
            inner = [
                one for clause in found for one in (clause.now, *(clause.later.parts if clause.later else ()))
            ]
            return next(filter(None, (_ahead(one) for one in inner if one is not None)), "")
        case Temporal("until", parts):
            return next(filter(None, map(_ahead, parts)), "")
    return _ahead(node)


def _ahead(node: Formula) -> str:
    """Why something is not known from what was; empty if it is."""
    for one in parts_of(node):
        if isinstance(one, Signal) and one.derived:
            return f"'{one.derived[0][1]}' is computed when the run is over"
        if isinstance(one, Signal) and "time" in names(one.expr):
            return f"'{one}' names the time: a window says when something is to hold"
        if isinstance(one, Temporal) and one.op in FUTURE:
            return f"'{one}' looks ahead within something that looks ahead"
        if isinstance(one, Temporal) and one.window.first > 0:
            return f"the window of '{one}' does not reach the present"
    return ""
