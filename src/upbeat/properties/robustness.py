"""By how much a trace has a property: signal temporal logic with numbers, at the rows of a trace.

A formula has a number at every row: how far the signals may be off before its truth changes, positive where
it holds and negative where it does not. That of a comparison is the distance of both sides, ``and`` and
``always`` take the least, ``or`` and ``eventually`` the largest, ``not`` turns the sign. A truth that is no
comparison is plus or minus infinity. Where both sides are equal, the number is the smallest there is, with
the sign of the truth, so that the sign always decides.

Only rows count: nothing is assumed about what is between them. A window is closed, and counts the rows in it;
at a jump the row before it, and the row after it. What the trace cannot tell (a window that goes on beyond
the end of the run, one without a row in it, a value that is no number) leaves a range, from `low` to `high`:
"undecided", unless both have one sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import InvalidInput, check_type, suggest
from upbeat.core.expr import Apply, Expr, Lookup, Number, Op, kind_of
from upbeat.core.expr.nodes import Inner, Leaf, fold
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.properties.formula import (
    FUTURE,
    QUANTITY,
    WHOLE,
    Combined,
    Derived,
    Formula,
    Predicate,
    Signal,
    Temporal,
    horizon,
    parse,
    signals_of,
)
from upbeat.trace.log import Outcome
from upbeat.trace.trace import Trace

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]
Online = Literal["", "watch", "stop"]
Verdict = Literal["holds", "violated", "undecided"]

TINY: Final = 5e-324
"""What is left between two sides that are equal; the smallest number there is."""


@dataclass(frozen=True)
class Property:
    """Something that a result should be like, in signal temporal logic: see `upbeat.properties.formula`.

        Property("always(left.x < right.x)").on(trace).verdict

    `text` is what was written. `online` says what it does during a run of the scenario that it belongs to:
    nothing (""); "watch": there is a communication point where it is violated, and an event in the log;
    "stop": the run ends there.
    """

    text: str
    name: str = ""
    online: Online = ""
    formula: Formula = field(default=None, compare=False, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_type(self.text, str, "a property")
        if self.online not in ("", "watch", "stop"):
            raise InvalidInput(f'online of a property is "watch" or "stop", not {self.online!r}')
        if self.formula is None:
            object.__setattr__(self, "formula", parse(self.text))

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text

    @property
    def signals(self) -> frozenset[str]:
        """The names of all signals that it reads."""
        return signals_of(self.formula)

    def on(self, trace: Trace) -> Robustness:
        """By how much a trace has it. `InvalidInput` if the trace lacks a signal."""
        check_type(trace, Trace, "what a property is judged on")
        return _Judge(trace).judged(self)


@dataclass(frozen=True)
class Robustness:
    """By how much a trace has a property: from `low` to `high`; equal, where the trace tells all.

    `at` is the time at which it is decided: where it comes closest to being violated, or is violated most.
    `time` and `values` are the rows of the trace and the robustness there, of what should hold always, or
    some time, if the property says so.
    """

    of: Property
    low: float
    high: float
    verdict: Verdict
    reason: str
    at: float = math.nan
    time: Numbers = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    values: Numbers = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    @property
    def value(self) -> float:
        """The robustness; not a number where the trace does not tell."""
        return self.low if self.low == self.high else math.nan

    def __str__(self) -> str:
        return f"{self.of.name or self.of.text}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Plain data; the values over time are left out."""
        return {
            "name": self.of.name, "property": self.of.text, "verdict": self.verdict,
            "low": _plain(self.low), "high": _plain(self.high), "at": _plain(self.at), "reason": self.reason,
        }  # fmt: skip


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def robustness(trace: Trace, given: str | Property) -> Robustness:
    """By how much a trace has a property, which may be a text: ``robustness(trace, "always(a.x < 5)")``.

    Those of the scenario are in ``trace.properties``.
    """
    check_type(trace, Trace, "the trace")
    check_type(given, (str, Property), "a property")
    if isinstance(given, Property):
        return given.on(trace)
    enums = {column.name: column.items for column in trace.columns if column.items}
    return Property(given, formula=parse(given, enums)).on(trace)


def undecided(of: Property, why: str) -> Robustness:
    """What is said of a property that could not be judged at all."""
    return Robustness(of, -math.inf, math.inf, "undecided", f"undecided, because {why}")


# ----------------------------------------------------------------------------------------------------


class _Bounds(NamedTuple):
    """The robustness at every row, from and to; the same array where it is known."""

    low: Numbers
    high: Numbers

    @property
    def known(self) -> bool:
        return self.low is self.high

    def each(self, change: Callable[[Numbers], Numbers]) -> _Bounds:
        low = change(self.low)
        return _Bounds(low, low if self.known else change(self.high))


class _Rows(NamedTuple):
    """A window at every row: the first and the last of the rows in it, and where it is not all there."""

    first: Places
    last: Places
    open: NDArray[np.bool_]
    """The run ends before the window does."""
    void: NDArray[np.bool_]
    """It has no row."""
    before: NDArray[np.bool_]
    """It lies before the start of the run, where nothing was."""


class _Judge:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.time: Numbers = trace.time
        self.ended = trace.outcome.ok or trace.outcome is Outcome.UNKNOWN
        self.kinds = {column.name: column.kind for column in trace.columns}
        self._known: dict[int, tuple[Formula, _Bounds]] = {}

    def judged(self, of: Property) -> Robustness:
        node = of.formula
        for name in sorted(signals_of(node)):
            if name not in self.kinds:
                raise InvalidInput(
                    f"the trace has no signal '{name}', which the property {of} reads. "
                    f"{suggest(name, self.kinds, 'signals')}"
                )
            if self.kinds[name] is Kind.STRING:
                raise InvalidInput(f"'{name}' is a text, and properties are about numbers and truths")
        if not len(self.time):
            return undecided(of, "the trace is empty")
        found = self.bounds(node)
        low, high = float(found.low[0]), float(found.high[0])
        body = node.parts[0] if isinstance(node, Temporal) and len(node.parts) == 1 else node
        values = self.bounds(body).high
        place, what = self.decisive(node, 0, low if low > 0 else high)
        at = float(self.time[place])
        told = "" if what is node else f" ({what})"
        if low > 0:
            reason = f"holds{_by(low)}, closest at t = {at:.6g}{told}"
            return Robustness(of, low, high, "holds", reason, at, self.time, values)
        if high < 0:
            reason = f"violated{_by(-high)} at t = {at:.6g}{told}"
            return Robustness(of, low, high, "violated", reason, at, self.time, values)
        reason = f"undecided, because {self.missing(node, 0)}{self.instead(node)}"
        return Robustness(of, low, high, "undecided", reason, math.nan, self.time, values)

    def instead(self, node: Formula) -> str:
        """What to ask of something that should hold always, where the last windows are not all there."""
        if not (isinstance(node, Temporal) and node.op == "always" and node.window == WHOLE and self.ended):
            return ""
        ahead = horizon(node.parts[0])
        until = float(self.time[-1] - self.time[0]) - ahead
        return f". Up to there it is always[0, {until:.6g}](…)" if ahead > 0 and until > 0 else ""

    # ------------------------------------------------------------------------------------- formulas

    def bounds(self, node: Formula) -> _Bounds:
        if id(node) not in self._known:
            self._known[id(node)] = node, self._bounds(node)
        return self._known[id(node)][1]

    def _bounds(self, node: Formula) -> _Bounds:
        match node:
            case Predicate(signal):
                return self._predicate(signal)
            case Combined("not", (part,)):
                inner = self.bounds(part)
                low = -inner.high
                return _Bounds(low, low if inner.known else -inner.low)
            case Combined(op, parts):
                least = np.minimum if op == "and" else np.maximum
                return _joined(least, [self.bounds(part) for part in parts])
            case Temporal("always" | "historically", (part,)):
                return self._extreme(node, self.bounds(part), np.minimum)
            case Temporal("eventually" | "once", (part,)):
                return self._extreme(node, self.bounds(part), np.maximum)
            case Temporal("until", (one, other)):
                return self._until(node, self.bounds(one), self.bounds(other))
            case Temporal(parts=(one, other)):
                return self._since(node, self.bounds(one), self.bounds(other))
        raise AssertionError(node)

    def rows(self, node: Temporal) -> _Rows:
        """The window of a formula at every row."""
        time, (near, far), count = self.time, node.window, len(self.time)
        own = np.arange(count)
        none = np.zeros(count, dtype=bool)
        if node.op in FUTURE:
            first = own if near == 0 else np.searchsorted(time, time + near, side="left")
            last = np.full(count, count - 1) if far == math.inf else _last(time, time + far)
            beyond = time + far > time[-1] if far < math.inf else np.full(count, not self.ended)
            return _Rows(first, last, beyond, last < first, none)
        last = own if near == 0 else _last(time, time - near)
        first = np.zeros(count, dtype=np.intp) if far == math.inf else np.searchsorted(time, time - far)
        before = time - near < time[0]
        return _Rows(first, last, none, (last < first) & ~before, before)

    def _extreme(self, node: Temporal, of: _Bounds, least: np.ufunc) -> _Bounds:
        rows = self.rows(node)
        nothing = math.inf if least is np.minimum else -math.inf
        found = of.each(lambda values: _over(values, rows.first, rows.last, least, nothing))
        unknown = rows.open | rows.void
        if not unknown.any():
            return found
        if least is np.minimum:
            high = np.where(rows.void, math.inf, found.high)
            return _Bounds(np.where(unknown, -math.inf, found.low), high)
        low = np.where(rows.void, -math.inf, found.low)
        return _Bounds(low, np.where(unknown, math.inf, found.high))

    def _until(self, node: Temporal, one: _Bounds, other: _Bounds) -> _Bounds:
        """The best of the rows in the window at which the second holds, the first having held before it.

        What may happen behind the end of the run could be the best there is, if the first holds until then.
        """
        rows, count = self.rows(node), len(self.time)

        def found(p: Numbers, q: Numbers, behind: float) -> Numbers:
            ever = _scanned(p[::-1], q[::-1], behind)[::-1]  # for a window without an end, from each row on
            ever = np.append(ever, behind)[rows.first]
            kept = _over(p, np.arange(count), rows.first - 1, np.minimum, math.inf)
            return np.minimum(kept, ever)

        def within(q: Numbers) -> Numbers:
            return _over(q, rows.first, rows.last, np.maximum, -math.inf)

        low = np.minimum(within(other.low), found(one.low, other.low, -math.inf))
        high = low
        if not (one.known and other.known):
            high = np.minimum(within(other.high), found(one.high, other.high, -math.inf))
        unknown = rows.open | rows.void
        if not unknown.any():
            return _Bounds(low, high)
        better = found(one.high, other.high, math.inf)
        kept = _over(one.high, np.arange(count), rows.first - 1, np.minimum, math.inf)
        low = np.where(rows.void & ~rows.open, -math.inf, low)
        return _Bounds(low, np.where(rows.open, np.maximum(high, better), np.where(rows.void, kept, high)))

    def _since(self, node: Temporal, one: _Bounds, other: _Bounds) -> _Bounds:
        rows, count = self.rows(node), len(self.time)

        def found(p: Numbers, q: Numbers) -> Numbers:
            ever = np.append(_scanned(p, q, -math.inf), -math.inf)[rows.last]  # place -1: before all rows
            kept = _over(p, rows.last + 1, np.arange(count), np.minimum, math.inf)
            within = _over(q, rows.first, rows.last, np.maximum, -math.inf)
            least: Numbers = np.minimum(np.minimum(kept, ever), within)
            return least

        low = found(one.low, other.low)
        high = low if one.known and other.known else found(one.high, other.high)
        if not rows.void.any():
            return _Bounds(low, high)
        return _Bounds(np.where(rows.void, -math.inf, low), np.where(rows.void, math.inf, high))

    # ------------------------------------------------------------------------------------- signals

    def _predicate(self, signal: Signal) -> _Bounds:
        kinds = {**self.kinds, **{name: _KINDS.get(made.kind, Kind.REAL) for name, made in signal.derived}}
        if kind_of(signal.expr, kinds) is not Kind.BOOLEAN and not isinstance(signal.expr, Number):
            raise InvalidInput(
                f"'{signal}' is a number, not true or false: compare it, such as '{signal} > 0'"
            )
        values = self._values(signal)
        found = _distance(signal.expr, values, kinds)
        low = np.broadcast_to(np.asarray(found, dtype=np.float64), self.time.shape)
        unclear = np.isnan(low)
        if not unclear.any():
            return _Bounds(low, low)
        return _Bounds(np.where(unclear, -math.inf, low), np.where(unclear, math.inf, low))

    def _values(self, signal: Signal) -> dict[str, Any]:
        """What the names in an expression stand for."""
        names = signals_of(Signal(signal.expr, signal.derived))
        found: dict[str, Any] = {"time": self.time}
        found |= {name: np.asarray(self.trace[name], dtype=np.float64) for name in names}
        for name, made in signal.derived:
            found[name] = self._derived(made)
        return found

    def _derived(self, made: Derived) -> Numbers:
        if made.kind == QUANTITY:
            raise InvalidInput(
                f"'{made}' has a unit of measure, which the scenario converts and a trace does not: give the "
                "property to the scenario, or write a plain number"
            )
        if not isinstance(made.of, Signal):
            truth = self.bounds(made.of)
            return _truths(made.kind, self.time, truth)
        with np.errstate(all="ignore"):
            values = np.broadcast_to(_computed(made.of.expr, self._values(made.of)), self.time.shape)
            found = _SIGNALS[made.kind](self.time, np.asarray(values, dtype=np.float64), made.seconds)
        return found

    # ------------------------------------------------------------------------------------- why

    def decisive(self, node: Formula, row: int, value: float) -> tuple[int, Formula]:
        """The row and the predicate that a robustness comes from; the formula itself, where it is none."""
        match node:
            case Predicate():
                return row, node
            case Combined("not", (part,)):
                return self.decisive(part, row, -value)
            case Combined(parts=parts):
                for part in parts:
                    found = self.bounds(part)
                    if value in (found.low[row], found.high[row]):
                        return self.decisive(part, row, value)
                return row, node
        rows = self.rows(node)
        own = slice(int(rows.first[row]), int(rows.last[row]) + 1)
        part = node.parts[-1]
        found = self.bounds(part)
        for values in (found.low, found.high):
            places = np.flatnonzero(values[own] == value)
            if len(places):
                return self.decisive(part, own.start + int(places[0]), value)
        if len(node.parts) == 2:
            held = self.bounds(node.parts[0])
            around = slice(row, len(self.time)) if node.op == "until" else slice(0, row + 1)
            for values in (held.low, held.high):
                places = np.flatnonzero(values[around] == value)
                if len(places):
                    return self.decisive(node.parts[0], around.start + int(places[0]), value)
        return row, node

    def missing(self, node: Formula, row: int) -> str:
        """Why a formula is not decided at a row."""
        time = float(self.time[row])
        if isinstance(node, Temporal):
            rows = self.rows(node)
            if rows.void[row] and not rows.open[row]:
                near, far = node.window
                ahead = node.op in FUTURE
                ends = (time + near, time + far) if ahead else (time - far, time - near)
                return (
                    f"there is no row from t = {ends[0]:.6g} to {ends[1]:.6g}, where {node} asked at t = "
                    f"{time:.6g} looks: take shorter steps, or a longer window"
                )
            own = range(int(rows.first[row]), int(rows.last[row]) + 1)
            for part in reversed(node.parts):
                found = self.bounds(part)
                split = np.flatnonzero(found.low[own.start : own.stop] != found.high[own.start : own.stop])
                for place in split[:1]:
                    return self.missing(part, own.start + int(place))
            end = float(self.time[-1])
            if rows.open[row] and node.window.last == math.inf:
                return f"the run has not come to its end: it was at t = {end:.6g}"
            return (
                f"the run ends at t = {end:.6g}, and {node}, asked at t = {time:.6g}, looks up to "
                f"t = {time + node.window.last:.6g}"
            )
        if isinstance(node, Combined):
            for part in node.parts:
                found = self.bounds(part)
                if found.low[row] != found.high[row]:
                    return self.missing(part, row)
        return f"'{node}' is not a number at t = {time:.6g}"


def _by(amount: float) -> str:
    if amount == math.inf:
        return ""
    return " exactly on the border" if amount == TINY else f" by {amount:.4g}"


def _last(time: Numbers, until: Numbers) -> Places:
    return np.searchsorted(time, until, side="right") - 1


def _joined(least: np.ufunc, parts: list[_Bounds]) -> _Bounds:
    low = parts[0].low
    for part in parts[1:]:
        low = least(low, part.low)
    if all(part.known for part in parts):
        return _Bounds(low, low)
    high = parts[0].high
    for part in parts[1:]:
        high = least(high, part.high)
    return _Bounds(low, high)


def _over(values: Numbers, first: Places, last: Places, least: np.ufunc, nothing: float) -> Numbers:
    """The extreme of `values` from `first` to `last`, for many such ranges; `nothing` of an empty one.

    Ranges to one end are a running extreme. Others are two overlapping blocks of a power of two, whose
    extremes are computed from size to size: so it takes about as long for wide windows as for narrow ones.
    """
    count = len(values)
    found = np.full(len(first), nothing)
    width = last - first + 1
    some = width > 0
    if not some.any():
        return found
    if (last[some] == count - 1).all():
        running = least.accumulate(values[::-1])[::-1]
        found[some] = running[first[some]]
        return found
    if (first[some] == 0).all():
        found[some] = least.accumulate(values)[last[some]]
        return found
    level = np.full(len(first), -1)
    level[some] = np.frexp(width[some])[1] - 1
    wanted = set(np.unique(level).tolist())
    blocks = values
    for k in range(int(level.max()) + 1):
        if k in wanted:
            mine = level == k
            found[mine] = least(blocks[first[mine]], blocks[last[mine] - (1 << k) + 1])
        if len(blocks) > 1 << k:
            blocks = least(blocks[: -(1 << k)], blocks[1 << k :])
    return found


def _scanned(p: Numbers, q: Numbers, before: float) -> Numbers:
    """From row to row: the second, or what there was if the first holds."""

    def step(was: float, row: tuple[float, float]) -> float:
        held = was if was < row[0] else row[0]
        return row[1] if row[1] > held else held

    found = list(accumulate(zip(p.tolist(), q.tolist(), strict=True), step, initial=before))
    return np.array(found[1:])


# ----------------------------------------------------------------------------------------------------
# Expressions on whole columns, and how far their truth is from changing.

_ARRAY_OPS: Final[dict[Op, Callable[..., Any]]] = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide, Op.POW: np.power,
    Op.NEG: np.negative, Op.LT: np.less, Op.LE: np.less_equal, Op.GT: np.greater, Op.GE: np.greater_equal,
    Op.EQ: np.equal, Op.NE: np.not_equal, Op.AND: np.logical_and, Op.OR: np.logical_or,
    Op.NOT: np.logical_not, Op.WHERE: lambda a, b, c: np.where(np.not_equal(a, 0), b, c),
    Op.MIN: lambda a, b: np.where(np.less(a, b), a, b), Op.MAX: lambda a, b: np.where(np.greater(a, b), a, b),
    Op.CLIP: lambda a, b, c: np.where(np.less(a, b), b, np.where(np.greater(a, c), c, a)), Op.ABS: np.abs,
    Op.SIGN: lambda a: np.greater(a, 0) * 1.0 - np.less(a, 0), Op.FLOOR: np.floor, Op.CEIL: np.ceil,
    Op.ROUND: np.rint, Op.MOD: lambda a, b: a - np.floor(np.divide(a, b)) * b, Op.SQRT: np.sqrt,
    Op.EXP: np.exp, Op.LOG: np.log, Op.LOG10: np.log10, Op.SIN: np.sin, Op.COS: np.cos, Op.TAN: np.tan,
    Op.ASIN: np.arcsin, Op.ACOS: np.arccos, Op.ATAN: np.arctan, Op.ATAN2: np.arctan2, Op.SINH: np.sinh,
    Op.COSH: np.cosh, Op.TANH: np.tanh, Op.HYPOT: np.hypot,
}  # fmt: skip


def _computed(expr: Expr, values: Mapping[str, Any]) -> Any:
    """An expression on columns."""

    def leaf(node: Leaf) -> Any:
        return np.float64(node.value) if isinstance(node, Number) else values[node.id]  # type: ignore[union-attr]

    def inner(node: Inner, args: list[Any]) -> Any:
        if isinstance(node, Lookup):
            return np.vectorize(node.table, otypes=[np.float64])(*args)
        return np.asarray(_ARRAY_OPS[node.op](*args), dtype=np.float64)

    return fold(expr, leaf, inner)


def _distance(expr: Expr, values: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Any:
    """How far a truth is from changing, with its sign; not a number where it is not known."""
    with np.errstate(all="ignore"):
        match expr:
            case Apply(Op.NOT, (part,)):
                return -_distance(part, values, kinds)
            case Apply(Op.AND | Op.OR as op, (one, other)):
                least = np.minimum if op is Op.AND else np.maximum
                return least(_distance(one, values, kinds), _distance(other, values, kinds))
            case Apply(Op.WHERE, (test, one, other)):
                yes, first, second = (_distance(part, values, kinds) for part in (test, one, other))
                return np.maximum(np.minimum(yes, first), np.minimum(-yes, second))
            case Apply(Op.LT | Op.LE | Op.GT | Op.GE | Op.EQ | Op.NE as op, (one, other)):
                a, b = _computed(one, values), _computed(other, values)
                if op in (Op.EQ, Op.NE):
                    far = np.abs(a - b)
                    if all(kind_of(side, kinds) is not Kind.REAL or _whole(side) for side in (one, other)):
                        far = np.where(far > 0, math.inf, far)  # labels have no distance
                        far = np.where(far == 0, -math.inf, far)
                    else:
                        far = np.where(far == 0, -TINY, far)
                    return far if op is Op.NE else -far
                apart = np.where(np.equal(a, b), 0.0, b - a if op in (Op.LT, Op.LE) else a - b)
                return np.where(apart == 0, TINY if op in (Op.LE, Op.GE) else -TINY, apart)
        found = _computed(expr, values)
        return np.where(np.isnan(found), math.nan, np.where(np.not_equal(found, 0), math.inf, -math.inf))


def _whole(expr: Expr) -> bool:
    return isinstance(expr, Number) and expr.value.is_integer()


# ----------------------------------------------------------------------------------------------------
# Signals that are made of others.

_KINDS = {"count": Kind.INTEGER}


def _rate(time: Numbers, values: Numbers, seconds: float) -> Numbers:
    """From the row before to each row; after a jump, and at the first row, in the step that follows. Behind
    a jump at the end there is none: it is that of the step before."""
    width = np.diff(time)
    steps = np.flatnonzero(width > 0)
    if not len(steps):
        return np.full(len(time), np.nan)
    place = np.searchsorted(steps, np.arange(len(time)) - 1)
    return np.asarray((np.diff(values)[steps] / width[steps])[np.minimum(place, len(steps) - 1)])


def _integral(time: Numbers, values: Numbers, seconds: float) -> Numbers:
    areas = np.diff(time) * (values[1:] + values[:-1]) / 2.0
    return np.append(0.0, np.cumsum(areas))


def _at(time: Numbers, values: Numbers, total: Numbers, when: Numbers) -> Numbers:
    """An integral at any time, of what goes along straight lines from row to row."""
    place = np.clip(np.searchsorted(time, when, side="right") - 1, 0, max(len(time) - 2, 0))
    if len(time) < 2:
        return np.zeros(len(when))
    width = time[place + 1] - time[place]
    past = when - time[place]
    slope = np.where(width > 0, (values[place + 1] - values[place]) / np.where(width > 0, width, 1.0), 0.0)
    return np.asarray(total[place] + past * (values[place] + 0.5 * past * slope))


def _average(time: Numbers, values: Numbers, seconds: float) -> Numbers:
    total = _integral(time, values, math.inf)
    begin = np.maximum(time - seconds, time[0])
    width = time - begin
    area = total - _at(time, values, total, begin)
    return np.where(width > 0, area / np.where(width > 0, width, 1.0), values)


def _roughness(time: Numbers, values: Numbers, seconds: float) -> Numbers:
    """Of the second derivative between rows, where the rows around are not those of a jump."""
    width = np.diff(time)
    slope = np.where(width > 0, np.diff(values) / np.where(width > 0, width, 1.0), np.nan)
    bend = 2.0 * np.diff(slope) / (width[1:] + width[:-1])
    square = np.concatenate([[0.0], np.where(np.isnan(bend), 0.0, bend) ** 2, [0.0]])[: len(time)]
    counted = np.concatenate([[0.0], np.where(np.isnan(bend), 0.0, 1.0), [0.0]])[: len(time)]
    squares, counts = np.append(0.0, np.cumsum(square)), np.append(0.0, np.cumsum(counted))
    first = (
        np.zeros(len(time), dtype=np.intp) if seconds == math.inf else np.searchsorted(time, time - seconds)
    )
    last = np.arange(len(time))  # the bend at a row needs the next one
    many = counts[last] - counts[first]
    return np.sqrt(np.where(many > 0, (squares[last] - squares[first]) / np.where(many > 0, many, 1.0), 0.0))


_SIGNALS: Final[dict[str, Callable[[Numbers, Numbers, float], Numbers]]] = {
    "der": _rate, "integral": _integral, "average": _average, "roughness": _roughness,
}  # fmt: skip


def _truths(kind: str, time: Numbers, truth: _Bounds) -> Numbers:
    """`count` and `duration` of a truth; not a number from where it is not known on."""
    holds = truth.low > 0
    open_ = np.maximum.accumulate((truth.low <= 0) & (truth.high >= 0))
    rises = holds & ~np.append(False, holds[:-1])
    if kind == "count":
        found: Numbers = np.cumsum(rises).astype(np.float64)
    else:
        begin = np.maximum.accumulate(np.where(rises, time, -math.inf))
        found = np.where(holds, time - begin, 0.0)
    return np.where(open_, math.nan, found)
