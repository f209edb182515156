"""The outputs of a study: numbers made of a run, as expressions over statistics of signals and events.

    comfort = "rms(car.a)"                      over the whole run, weighted by time
    travel = "maximum(abs(car.z - wheel.z))"    an expression over signals inside, over statistics outside
    settled = "last(abs(car.z) > 0.01)"         when a condition last held
    hits = "count(bump)"                        how often an event fired; first(bump), last(bump): when
    safe = "robustness(gap)"                    by how much the run has a property of its scenario

The same outputs come from the native core while it runs (`Question`), and from a trace
(`Question.of_trace`), to the bit. Python functions of the trace are outputs, too, and so are properties:
these runs are made one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from math import nan
from typing import Any, NamedTuple

import numpy as np

from upbeat.core.errors import ExpressionError, InvalidInput, suggest
from upbeat.core.expr import (
    Apply,
    Expr,
    Kernel,
    Lookup,
    Name,
    Number,
    Op,
    fold,
    kind_of,
    names,
    parse,
)
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.engine.native.ensemble import Asked, Floats, Told, What
from upbeat.master.program import Program
from upbeat.properties.robustness import Property
from upbeat.trace.trace import Trace

OfTrace = Callable[[Trace], float]
"""An output that Python computes from a whole run."""

STATISTICS: dict[str, str] = {
    "initial": "the value at the start",
    "final": "the value at the end",
    "minimum": "the least value",
    "maximum": "the greatest value",
    "mean": "the mean over time",
    "rms": "the root of the mean square over time",
    "integral": "the integral over time",
    "at": "the value at a time: at(signal, 2.5)",
    "first": "when a condition, or an event, first held or fired",
    "last": "when it last did",
    "count": "how often an event fired",
}
"""What can be asked of a signal, a condition or an event."""

_CALL = re.compile(rf"(?<![\w.`])({'|'.join(STATISTICS)})\s*\(")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
_SIGNALS = {"initial": What.INITIAL, "final": What.FINAL, "minimum": What.MINIMUM, "maximum": What.MAXIMUM,
            "mean": What.INTEGRAL, "rms": What.INTEGRAL, "integral": What.INTEGRAL,
            "first": What.FIRST, "last": What.LAST}  # fmt: skip
_EVENTS = {"count": What.COUNT, "first": What.FIRST_EVENT, "last": What.LAST_EVENT}


class OfProperty(NamedTuple):
    """By how much a run has a property: its robustness, and no number where the run leaves it undecided."""

    of: str | Property
    """The name of one of the scenario, or any other one."""

    def __call__(self, trace: Trace) -> float:
        """Judge a run."""
        return (trace.properties[self.of] if isinstance(self.of, str) else self.of.on(trace)).value


_PROPERTY = re.compile(r"\s*robustness\s*\(\s*(`?)([^`()]+?)\1\s*\)\s*\Z")


def of_property(given: object, known: Collection[str]) -> OfProperty | None:
    """The property that an output is, if it is one; `known` are the names of those of the scenario."""
    if isinstance(given, Property):
        return OfProperty(given)
    found = _PROPERTY.match(given) if isinstance(given, str) else None
    if found is None:
        return None
    if found[2] not in known:
        hint = suggest(found[2], known, "properties") if known else "Write it into [properties]."
        raise InvalidInput(f"'{given}': the scenario has no property '{found[2]}'. {hint}")
    return OfProperty(found[2])


class Part(NamedTuple):
    """One statistic in an output: of an expression, or of the event of that name; `time` of ``at``."""

    function: str
    expr: Expr
    text: str
    time: float = nan


class Formula(NamedTuple):
    """An output as an expression over its parts, which are called ``#0``, ``#1`` …."""

    text: str
    outer: Expr
    parts: tuple[Part, ...]


def formula(text: str) -> Formula:
    """The output that a text describes. `InvalidInput` says what is wrong with it."""
    if not isinstance(text, str):
        raise InvalidInput(
            f'an output is an expression such as "maximum(car.z)", or a Python function, not {text!r}'
        )
    parts: list[Part] = []
    pieces: list[str] = []
    at = 0
    for begin, open_, close in _calls(text):
        pieces += [text[at:begin], f"`#{len(parts)}`"]
        parts.append(_part(_CALL.match(text, begin)[1], text[open_ + 1 : close], text))  # type: ignore[index]
        at = close + 1
    pieces.append(text[at:])
    if not parts:
        known = ", ".join(f"{name}()" for name in (*STATISTICS, "robustness"))
        raise InvalidInput(
            f"'{text}' is a signal, and an output is one number for each run: say which one, as in "
            f"final({text.strip()}) or "
            f"maximum({text.strip()}). There are {known}."
        )
    return Formula(text, _parsed("".join(pieces), text), tuple(parts))


def _calls(text: str) -> Iterator[tuple[int, int, int]]:
    """Where statistics are called: their begin, the opening and the closing parenthesis."""
    at = 0
    while found := _CALL.search(text, at):
        quoted = next((q for q in _QUOTED.finditer(text) if q.start() < found.start() < q.end()), None)
        if quoted:
            at = quoted.end()
            continue
        depth, i = 1, found.end()
        while i < len(text) and depth:
            if quote := _QUOTED.match(text, i):
                i = quote.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            i += 1
        if depth:
            raise InvalidInput(f"'{text}': the parenthesis after {found[1]} is not closed")
        yield found.start(), found.end() - 1, i - 1
        at = i


def _part(function: str, inside: str, text: str) -> Part:
    if inner := _CALL.search(inside):
        raise InvalidInput(
            f"'{text}': {inner[1]}() is one number for the whole run and cannot stand inside {function}(), "
            "which looks at a "
            "signal at all times"
        )
    time = nan
    if function == "at":
        inside, comma, when = inside.rpartition(",")
        try:
            time = float(when)
        except ValueError:
            comma = ""
        if not comma:
            raise InvalidInput(f"'{text}': at() needs a signal and a time, as in at(car.z, 2.5)")
    return Part(function, _parsed(inside, text), inside.strip(), time)


def _parsed(text: str, whole: str) -> Expr:
    try:
        return parse(text)
    except ExpressionError as error:
        raise InvalidInput(f"'{whole}' is no output: {error.reason}") from None


# ----------------------------------------------------------------------------------------------------
# Outputs asked of one program.


@dataclass(frozen=True)
class Question:
    """All that a study asks of a run of one program: outputs, signals at the times of a grid, and events.

    `keys` are the numbers that vary, which expressions may name as they name signals.
    """

    formulas: Mapping[str, Formula]
    program: Program
    keys: tuple[str, ...]
    span: tuple[float, float]
    signals: tuple[str, ...] = ()
    grid: tuple[float, ...] = ()
    events: int = 0
    doubts: bool = False
    """Whether it is also asked what a run has noticed that makes its results doubtful."""

    @cached_property
    def _sources(self) -> dict[str, tuple[int, Kind]]:
        """The cells of signals, by the names that people write, and what they hold."""
        found: dict[str, tuple[int, Kind]] = {}
        for name, column in self.program.columns.items():
            kind = self.program.layout.of(column.register).kind
            if kind is Kind.STRING:
                continue
            if column.cells == 1:
                found[name] = column.register, kind
            for i in range(column.cells if column.cells > 1 else 0):
                found[f"{name}[{i}]"] = column.register + i, kind
        return found

    @cached_property
    def _compiled(self) -> tuple[Asked, list[tuple[str, list[int]]], list[int]]:
        """What the core is asked, where the statistics of each part are among the answers, and the
        samples."""
        signals: dict[Expr, int] = {}
        statistics: dict[tuple[What, int], int] = {}
        sampled: dict[int, int] = {}
        places: dict[str, list[int]] = {}
        numbers = {name: number for number, name in enumerate(self.program.events)}

        def signal(expr: Expr) -> int:
            return signals.setdefault(expr, len(signals))

        def statistic(what: What, of: int) -> int:
            return statistics.setdefault((what, of), len(statistics))

        for output, one in self.formulas.items():
            found = places.setdefault(output, [])
            for part in one.parts:
                expr, event = part.expr, self._event(part)
                if event is not None:
                    found.append(statistic(_EVENTS[part.function], numbers[event]))
                    continue
                self.check(part, one.text)
                if part.function == "at":
                    found.append(sampled.setdefault(signal(expr), len(sampled)))
                elif part.function == "rms":
                    found.append(statistic(What.INTEGRAL, signal(Apply(Op.MUL, (expr, expr)))))
                else:
                    found.append(statistic(_SIGNALS[part.function], signal(expr)))
        wanted = [sampled.setdefault(signal(self._named(name)), len(sampled)) for name in self.signals]
        used = sorted({name for expr in signals for name in names(expr)} & self._sources.keys())
        cells = [one.register + k for one in self.program.doubts for k in range(3)] if self.doubts else []
        noticed = [f" doubt {cell}" for cell in cells]
        for name in noticed:
            statistic(What.FINAL, signal(Name(name)))
        inputs = ("time", *used, *noticed, *self.keys)
        kinds = {name: self._sources[name][1] for name in used} | {"time": Kind.REAL}
        kinds |= dict.fromkeys((key for key in self.keys if key not in kinds), Kind.REAL)
        # A number that varies and a signal of the same name: the signal, which is what a run has at each
        # time.
        kernel = Kernel(
            tuple(
                name if k <= len(used) or name not in used else f" {name}" for k, name in enumerate(inputs)
            ),
            tuple(signals),
        )
        asked = Asked(
            (*(self._sources[name][0] for name in used), *cells),
            kernel,
            tuple(kind_of(expr, kinds) is not Kind.REAL for expr in signals),
            tuple(statistics),
            tuple(sampled),
            self.times,
            self.events,
        )
        return asked, list(places.items()), wanted

    def _named(self, name: str) -> Expr:
        """A signal that is to be kept over time."""
        if name in self._sources:
            return Name(name)
        raise InvalidInput(f"there is no signal '{name}'. {suggest(name, self._sources, 'signals')}")

    def _event(self, part: Part) -> str | None:
        """The event that a part asks about, if it is one."""
        if part.function not in _EVENTS:
            return None
        name = part.expr.id if isinstance(part.expr, Name) else None
        if name in self.program.events:
            return name
        if part.function == "count":
            hint = suggest(part.text, self.program.events, "events")
            raise InvalidInput(f"count({part.text}): there is no event '{part.text}'. {hint}")
        return None

    def check(self, part: Part, text: str) -> None:
        """Complain about names that are neither signals nor numbers that vary."""
        for name in sorted(names(part.expr)):
            if name not in self._sources and name not in self.keys and name != "time":
                known = [*self._sources, *(self.program.events if part.function in _EVENTS else ())]
                raise InvalidInput(
                    f"'{text}': there is no signal '{name}'. {suggest(name, known, 'signals')}"
                )
        if part.function == "at" and not self.span[0] <= part.time <= self.span[1]:
            raise InvalidInput(
                f"'{text}': the time {part.time:g} lies outside the run, which goes from {self.span[0]:g} "
                f"to {self.span[1]:g}"
            )

    @cached_property
    def times(self) -> tuple[float, ...]:
        """All times at which signals are looked at: those of the grid, and those of ``at``."""
        single = {part.time for one in self.formulas.values() for part in one.parts if part.function == "at"}
        return tuple(sorted({*self.grid, *single}))

    @property
    def asked(self) -> Asked:
        """What the core is asked."""
        return self._compiled[0]

    def answers(self, told: Told, table: Floats) -> Floats:
        """The outputs of each run, from what the core has told, and the numbers that it ran with."""
        _, places, _ = self._compiled
        found = np.empty((len(table), len(places)))
        duration = told.totals[:, 3] - self.span[0]
        values = {key: table[:, k] for k, key in enumerate(self.keys)}
        with np.errstate(all="ignore"):
            for k, (output, where) in enumerate(places):
                one = self.formulas[output]
                parts = {}
                for number, (part, place) in enumerate(zip(one.parts, where, strict=True)):
                    if part.function == "at":
                        value = told.samples[:, self.times.index(part.time), place]
                    else:
                        value = told.statistics[:, place]
                    if part.function in ("mean", "rms"):
                        value = value / duration
                    parts[f"#{number}"] = np.sqrt(value) if part.function == "rms" else value
                found[:, k] = vectorised(one.outer, {**values, **parts})
        return found

    def doubtful(self, told: Told) -> dict[int, str]:
        """What makes the results of runs doubtful, by row."""
        doubts = self.program.doubts
        if not doubts:
            return {}
        cells = told.statistics[:, -3 * len(doubts) :].reshape(-1, len(doubts), 3)
        found: dict[int, list[str]] = {}
        for row, place in np.argwhere(cells[:, :, 0] < np.inf).tolist():
            sentence = doubts[place].sentence(cells[row, place].tolist())
            found.setdefault(row, []).extend([] if sentence is None else [sentence])
        return {row: "; ".join(sentences) for row, sentences in found.items()}

    def sampled(self, told: Told) -> Floats:
        """The signals that were asked for at the times of the grid: runs × times × signals."""
        _, _, wanted = self._compiled
        rows = [self.times.index(t) for t in self.grid]
        return np.ascontiguousarray(told.samples[:, rows][:, :, wanted])

    @property
    def columns(self) -> tuple[str, ...]:
        """What a trace must have, so that `told_by` can say the same."""
        expressions = [part.expr for one in self.formulas.values() for part in one.parts]
        return tuple(
            sorted({n for e in expressions for n in names(e)} & self._sources.keys() | set(self.signals))
        )

    def told_by(self, trace: Trace, row: Floats) -> Told:
        """The same from a trace with all rows: what the core would have told of this run."""
        asked = self.asked
        told = Told.empty(1, asked)
        time = trace.time
        known = {n: np.asarray(trace[n], np.float64) for n in asked.kernel.inputs if n in trace}
        known |= {"time": time}
        for name, value in zip(asked.kernel.inputs[1 + len(asked.cells) :], row, strict=True):
            known[name] = np.full(len(time), value)
        compute = asked.kernel.python()
        columns = [known[name] for name in asked.kernel.inputs]
        signals = np.array([compute(values) for values in zip(*columns, strict=True)]).reshape(len(time), -1)
        events, numbers = trace.events, {name: n for n, name in enumerate(self.program.events)}
        fired = [(numbers[event.name], event.time) for event in events if event.name in numbers]
        for place, (what, of) in enumerate(asked.statistics):
            told.statistics[0, place] = _statistic(what, of, time, signals, asked.held, fired)
        for k, of in enumerate(asked.sampled):
            told.samples[0, :, k] = _sampled(np.array(asked.grid), time, signals[:, of], asked.held[of])
        for place, (number, when) in enumerate(fired[: asked.events]):
            told.events[0, place], told.times[0, place] = number, when
        told.totals[0] = trace.steps.count, trace.steps.rejected, len(fired), time[-1]
        return told


def _statistic(
    what: What,
    of: int,
    time: Floats,
    signals: Floats,
    held: Sequence[bool],
    fired: Sequence[tuple[int, float]],
) -> float:
    """One statistic of one run, in the order of operations of native/src/ensemble.cpp."""
    if what >= What.COUNT:
        when = [t for number, t in fired if number == of]
        if what is What.COUNT:
            return float(len(when))
        return (when[0] if what is What.FIRST_EVENT else when[-1]) if when else nan
    values = signals[:, of]
    match what:
        case What.INITIAL:
            return float(values[0])
        case What.FINAL:
            return float(values[-1])
        case What.MINIMUM:
            return float(values.min())
        case What.MAXIMUM:
            return float(values.max())
        case What.INTEGRAL:
            middle = values[:-1] if held[of] else 0.5 * (values[:-1] + values[1:])
            parts = np.add.accumulate(np.concatenate([[0.0], middle * np.diff(time)]))  # one after the other
            return float(parts[-1])
    holds = np.flatnonzero(values != 0.0)
    return float(time[holds[0 if what is What.FIRST else -1]]) if len(holds) else nan


def _sampled(grid: Floats, time: Floats, values: Floats, held: bool) -> Floats:
    """Values at the times of a grid, as `Trace.at` gives them; not a number behind the end."""
    found = np.full(len(grid), nan)
    inside = (grid >= time[0]) & (grid <= time[-1])
    when = grid[inside]
    left = np.searchsorted(time, when, side="right") - 1
    right = np.minimum(left + 1, len(time) - 1)
    past = when - time[left]
    part = np.divide(past, time[right] - time[left], out=np.zeros_like(when), where=past > 0.0)
    between = (part != 0.0) & (not held)
    found[inside] = np.where(between, values[left] + part * (values[right] - values[left]), values[left])
    return found


# ----------------------------------------------------------------------------------------------------
# Expressions over arrays.

_ARRAYS: dict[Op, Callable[..., Any]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.NEG: np.negative,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.AND: lambda a, b: (a != 0) & (b != 0),
    Op.OR: lambda a, b: (a != 0) | (b != 0),
    Op.NOT: lambda a: a == 0,
    Op.WHERE: lambda test, a, b: np.where(test != 0, a, b),
    Op.POW: lambda a, b: np.where(b == 2.0, a * a, np.where(b == 3.0, a * a * a, np.power(a, b))),
    Op.MIN: lambda a, b: np.where(a < b, a, b),
    Op.MAX: lambda a, b: np.where(a > b, a, b),
    Op.CLIP: lambda a, b, c: np.where(a < b, b, np.where(a > c, c, a)),
    Op.ABS: np.abs,
    Op.SIGN: lambda a: np.where(a > 0, 1.0, 0.0) - np.where(a < 0, 1.0, 0.0),
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.ROUND: np.rint,
    Op.MOD: lambda a, b: a - np.floor(a / b) * b,
    Op.SQRT: np.sqrt,
    Op.EXP: np.exp,
    Op.LOG: np.log,
    Op.LOG10: np.log10,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.ASIN: np.arcsin,
    Op.ACOS: np.arccos,
    Op.ATAN: np.arctan,
    Op.ATAN2: np.arctan2,
    Op.SINH: np.sinh,
    Op.COSH: np.cosh,
    Op.TANH: np.tanh,
    Op.HYPOT: np.hypot,
}


def vectorised(expr: Expr, values: Mapping[str, Any]) -> Any:
    """An expression over arrays of equal length. `InvalidInput` names what is missing."""

    def leaf(node: Any) -> Any:
        if isinstance(node, Number):
            return np.float64(node.value)
        if node.id not in values:
            known = [name for name in values if not name.startswith("#")]
            raise InvalidInput(f"there is no number '{node.id}' here. {suggest(node.id, known, 'names')}")
        return values[node.id]

    def inner(node: Any, arguments: list[Any]) -> Any:
        if isinstance(node, Lookup):
            raise InvalidInput("tables are for equations: an output has none")
        found = _ARRAYS[node.op](*arguments)
        return found.astype(np.float64) if found.dtype == bool else found

    return fold(expr, leaf, inner)
