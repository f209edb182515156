"""Events of a scenario: conditions over the ports of its units, and what they change when they come true.

    masses = { when = "upper.x - lower.x <= 1.1 and upper.v < lower.v",
               then = { upper.v = "…", lower.v = "…" } }

`when` is a condition, or a list of numbers that are all at most zero when it happens (or of conditions). It
may read outputs, inputs and parameters of units, and inputs of the scenario. In Python it may also be a
function, or a list with functions in it, which are called with what is in the list `of`. `then` gives states,
variables and parameters of units new values; without it the event is only watched and logged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import ExpressionError, ModelError, Problems, suggest
from upbeat.core.expr import Apply, Expr, Name, Number, Op, indicator, show
from upbeat.core.names import objection_to
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.connection import fitted, formulas_of
from upbeat.scenario.directory import CONDITIONS, INPUTS, Directory, End, Source, Unclear, Wrong, picked
from upbeat.scenario.events.functions import Call
from upbeat.scenario.formula import Formula, described, formula
from upbeat.units.equations.data import TIME
from upbeat.units.process import bare

# ----------------------------------------------------------------------------------------------------
# An event between units as data: its conditions and what it changes. `declared` reads what people write.


@dataclass(frozen=True, slots=True)
class Change:
    """A new value for a state, variable or parameter `name` of `unit`: one expression per cell."""

    unit: str
    name: str
    cells: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """What happens when the largest of `conditions` falls from above zero to zero or below.

    All names in the expressions are those of ports, ``unit.port`` or ``unit.port[i]``, and of inputs of the
    scenario; `reads` are the ports behind them. `written` is what the user wrote.
    """

    name: str
    conditions: tuple[Expr, ...]
    then: tuple[Change, ...] = ()
    reads: tuple[End, ...] = field(default=(), compare=False)
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)
    calls: tuple[Call, ...] = ()
    """The functions among the conditions."""
    hidden: bool = False
    """Steps end there, and no unit is told: for what is watched otherwise."""

    @property
    def units(self) -> tuple[str, ...]:
        """The units that it is about."""
        named = (*(unit for unit, _ in self.reads if unit != INPUTS), *(c.unit for c in self.then))
        return tuple(dict.fromkeys(named))

    @property
    def shared(self) -> bool:
        """Whether it belongs to several units; one that belongs to a single one is private."""
        return len(self.units) > 1


# ----------------------------------------------------------------------------------------------------

KEYS = ("when", "of", "then")
_TRUTH = Port("when", Causality.INPUT, Kind.BOOLEAN)


class Readable(Directory):
    """The ports that conditions and actions may read: also inputs of units, and parameters."""

    def __init__(self, units: Mapping[str, Model], inputs: tuple[Port, ...], broken: Collection[str]) -> None:
        super().__init__(units, inputs, broken)
        self.models = units
        self.driven: set[str] = set()
        """The inputs that have a connection, by name."""

    def source(self, text: str) -> Source:
        unit, name, path, index = self._place(text)
        port = self.units.get(unit, {}).get(name)
        if port is None or unit in self.broken or port.causality is Causality.OUTPUT:
            found = super().source(text)
        elif port.causality is Causality.INPUT and not port.event and path not in self.driven:
            raise Wrong(
                f"'{path}' is an input that nothing drives, so there is nothing to watch",
                f"Connect it to an input of the scenario, and name that one in place of {path}.",
            )
        else:
            found = picked(Source((unit, name), port), index, text)
        if found.port.event:
            raise Wrong(
                f"'{found.path}' is an event, which has a value only when it happens",
                "Conditions and new values are computed from signals. Keep it in a unit of kind hold.",
            )
        return found


def read_events(
    given: object, directory: Readable, problems: Problems, taken: Collection[str]
) -> list[Event]:
    """All events that could be read; what is wrong with the others goes to `problems`."""
    if not isinstance(given, Mapping):
        example = '{"hit": {"when": "a.x <= 0", "then": {"a.v": "-a.v"}}}'
        problems.add(("events",), f"expected a table of events, not {given!r}", f"Write {example}.")
        return []
    found = []
    for name, entry in given.items():
        try:
            found.append(_Reading(name, entry, directory, taken).event())
        except Wrong as wrong:
            problems.add(("events", str(name), *wrong.at), wrong.what, wrong.hint)
        except Unclear:
            pass
    _check_parameters(found, directory, problems)
    return found


class _Reading:
    def __init__(self, name: object, entry: object, directory: Readable, taken: Collection[str]) -> None:
        if (objection := objection_to(name)) or name == TIME:
            raise Wrong(
                f"{name!r} is not a name for an event", f"{(objection or 'choose another one').capitalize()}."
            )
        if name in taken:
            what = f"the name '{name}' is used twice: an input or output of the scenario has it, too"
            raise Wrong(what, "Choose another name.")
        if not isinstance(entry, Mapping):
            raise Wrong(f"an event is a table, not {entry!r}", 'Write { when = "a.x <= 0", then = { … } }.')
        for key in entry:
            if key in ("rests", "slides"):
                what = f"'{key}' is for events inside a unit of equations"
                hint = (
                    f"Move the event there, [units.NAME.events.{name}], or end its leaps by what it changes."
                )
                raise Wrong(what, hint, (str(key),))
            if key not in KEYS:
                raise Wrong(f"unknown key '{key}'", suggest(str(key), KEYS, "keys"), (str(key),))
        if "when" not in entry:
            raise Wrong(f"the event '{name}' does not say when it happens", 'Write when = "a.x <= 0".')
        self._name = str(name)
        self._entry = entry
        self._directory = directory
        self._reads: dict[End, None] = {}
        self._calls: list[Call] = []

    def event(self) -> Event:
        conditions = tuple(self._conditions(self._entry["when"]))
        given = self._entry.get("then", {})
        if not isinstance(given, Mapping):
            raise Wrong(f"expected new values, not {given!r}", 'Write then = { a.v = "-a.v" }.', ("then",))
        changes = tuple(self._change(target, value) for target, value in targets(given))
        if "of" in self._entry and not self._calls:
            raise Wrong("of is what a Python function in when is called with, and there is none", "", ("of",))
        written: dict[str, Any] = {"when": _plain(self._entry["when"])}
        if self._calls:
            written["of"] = _plain(self._entry["of"])
        if changes:
            written["then"] = {str(target): _plain(value) for target, value in targets(given)}
        return Event(self._name, conditions, changes, tuple(self._reads), written, tuple(self._calls))

    def _conditions(self, given: object) -> Iterator[Expr]:
        parts = list(given) if isinstance(given, (list, tuple)) else [given]
        if not parts:
            raise Wrong("the list of conditions is empty", 'Write when = ["a.x", "a.v"].', ("when",))
        for part in parts:
            if callable(part):
                yield self._called(part)
                continue
            try:
                yield from self._condition(part, alone=not isinstance(given, (list, tuple)))
            except Wrong as wrong:
                raise Wrong(wrong.what, wrong.hint, ("when",)) from None

    def _condition(self, given: object, *, alone: bool) -> Iterator[Expr]:
        read = self._formula(given)
        if read.size is not None:
            raise Wrong(f"'{read.text}' is an array", "Pick one of its cells, counted from 0: unit.port[0].")
        if not read.fits(Kind.BOOLEAN):
            if alone:
                raise Wrong(
                    f"a condition is true or false, but '{read.text}' is {read.kind.value}",
                    f'Compare it: "{read.text} <= 0", or give a list of numbers: ["{read.text}"].',
                )
            yield fitted((read,), Port("when", Causality.INPUT), "when")[0][0]
            return
        (truth,), _ = fitted((read,), _TRUTH, "when")
        kinds = {source.cell(0).id: source.port.kind for source in read.sources.values()}
        todo = [truth]
        while todo:
            match todo.pop():
                case Apply(op=Op.AND, args=args):
                    todo += reversed(args)
                case part:
                    try:
                        yield indicator(part, kinds)
                    except ExpressionError as error:
                        raise Wrong(error.reason) from None

    def _called(self, function: Callable[..., Any]) -> Expr:
        """The condition that is the value of a Python function."""
        if CONDITIONS in self._directory.models and CONDITIONS not in self._directory.broken:
            raise Wrong(
                f"a unit is called '{CONDITIONS}', which is the name of the unit that computes functions",
                "Choose another name for the unit.",
                ("when",),
            )
        given = self._entry.get("of")
        of = [given] if isinstance(given, (str, Expr)) else given
        if not isinstance(of, (list, tuple)) or not of:
            what = "it does not say what the function is called with"
            raise Wrong(what, 'Write "of": ["a.x", "a.v"], in the order of its arguments.', ("of",))
        cells, kinds = [], []
        for text in of:
            try:
                read = self._formula(text)
                if read.size is not None:
                    raise Wrong(f"'{read.text}' is an array", "Pick one of its cells: unit.port[0].")
                if read.kind is Kind.STRING:
                    raise Wrong(f"'{read.text}' is a text, and conditions are about numbers")
                cells.append(fitted((read,), Port("of", Causality.INPUT, read.kind), "of")[0][0])
                kinds.append(read.kind)
            except Wrong as wrong:
                raise Wrong(wrong.what, wrong.hint, ("of",)) from None
        shown = f"{getattr(function, '__name__', type(function).__name__)}({', '.join(map(show, cells))})"
        same = sum(call.name.startswith(f"{self._name}: {shown}") for call in self._calls)
        name = f"{self._name}: {shown}" + (f" ({same + 1})" if same else "")
        self._calls.append(Call(name, function, tuple(cells), tuple(kinds)))
        return Name(name)

    def _change(self, target: object, value: object) -> Change:
        try:
            unit, port = _target(str(target), self._directory)
            if isinstance(value, str) and (label := value.strip().strip("'\"")) in port.items:
                return Change(unit, port.name, (Number(float(port.items.index(label))),))
            formulas = formulas_of(value, port, str(target), self._directory)
            for one in formulas:
                self._noted(one)
            cells, _ = fitted(formulas, port, str(target))
            return Change(unit, port.name, cells)
        except Wrong as wrong:
            raise Wrong(wrong.what, wrong.hint, ("then", str(target))) from None

    def _formula(self, given: object) -> Formula:
        return self._noted(formula(given, self._directory))

    def _noted(self, read: Formula) -> Formula:
        self._reads |= dict.fromkeys(source.end for source in read.sources.values())
        return read


def targets(given: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """``upper.v = …`` without quotation marks is a table in a table to TOML."""
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def _target(text: str, directory: Readable) -> tuple[str, Port]:
    """The unit and what `text` names in it, which an event may change."""
    unit, _, name = text.partition(".")
    unit, name = unit.strip(), name.strip()
    if unit in directory.broken:
        raise Unclear
    if not name:
        raise Wrong(f"'{text}' does not name something in a unit", 'Write "unit.state" = "…".')
    if unit not in directory.models:
        raise Wrong(f"there is no unit '{unit}'", suggest(unit, directory.models, "units"))
    model = bare(directory.models[unit])
    known: Mapping[str, Port] = getattr(model, "changeable", {})
    if not known:
        raise Wrong(
            f"'{unit}' ({type(model).__name__}) cannot be changed from outside",
            "Only units given by differential equations (Ode) can. Leave its part out of then: an event "
            "without it is watched and logged. Or let the unit deal with the event inside.",
        )
    if name not in known:
        what = f"there is no state, variable or parameter '{name}' in unit '{unit}'"
        raise Wrong(what, suggest(name, known, f"quantities of '{unit}'"))
    return unit, known[name]


def _check_parameters(found: list[Event], directory: Readable, problems: Problems) -> None:
    """A parameter is read as the value that it has before the run: a change would not be seen."""
    changed = {(change.unit, change.name): "an event" for event in found for change in event.then}
    for unit, model in directory.models.items():
        equations = None if unit in directory.broken else getattr(bare(model), "equations", None)
        for own in () if equations is None else equations.events:
            for cell, _ in own.then:
                changed.setdefault((unit, cell.partition("[")[0]), f"the event '{own.name}' of {unit}")
    for event in found:
        for unit, name in event.reads:
            port = directory.units.get(unit, {}).get(name)
            if port is not None and port.causality is Causality.PARAMETER and (unit, name) in changed:
                what = f"it reads '{unit}.{name}', a parameter that {changed[unit, name]} changes"
                hint = f'Give it out: outputs = {{ {name}_now = "{name}" }}, and read {unit}.{name}_now.'
                problems.add(("events", event.name), what, hint)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return show(value) if isinstance(value, Expr) else value


# ----------------------------------------------------------------------------------------------------
# Maps between events: which label (or whole number, or truth value) of one becomes what of the other.

_WHOLE = re.compile(r"[+-]?\d{1,15}\Z")


@dataclass(frozen=True, slots=True)
class EventMap:
    """Values by what the source carries. `whole`: no value that it can carry is left out."""

    source: Source
    pairs: tuple[tuple[int, object], ...]
    keys: tuple[str, ...]
    whole: bool

    @property
    def kind(self) -> Kind:
        """What the values are, for a port without a kind of its own."""
        values = [value for _, value in self.pairs]
        label = next((value for value in values if isinstance(value, str)), None)
        if label is not None:
            raise Wrong(
                f"'{label}' is a label, but the output has none",
                "Give it all its labels, in order: "
                f"{{ value = {{ event = …, map = … }}, items = [{', '.join(map(repr, _texts(values)))}] }}.",
            )
        if all(isinstance(value, bool) for value in values):
            return Kind.BOOLEAN
        return Kind.INTEGER if all(isinstance(value, int) for value in values) else Kind.REAL

    def fitted(self, port: Port, target: str) -> tuple[Expr | None, tuple[Expr, ...]]:
        """The condition under which there is an entry (None: always), and the value for every cell."""
        if port.kind is Kind.STRING:
            raise Wrong(
                f"'{target}' is a string, and a map gives labels and numbers only",
                "Make it an enumeration, with items in place of the kind.",
                ("map",),
            )
        rows: list[list[Expr]] = []
        for (_, value), key in zip(self.pairs, self.keys, strict=True):
            try:
                rows.append([Number(float(cell)) for cell in port.values(value, target)])
            except ModelError as error:
                known = suggest(str(value), port.items, "labels") if port.items else ""
                raise Wrong(str(error), known, ("map", key)) from None
        name = self.source.cell(0)
        tests: list[Expr] = [Apply(Op.EQ, (name, Number(float(index)))) for index, _ in self.pairs]
        cells = list(rows[-1])
        for test, row in zip(tests[-2::-1], rows[-2::-1], strict=True):
            cells = [Apply(Op.WHERE, (test, value, other)) for value, other in zip(row, cells, strict=True)]
        known_ones = tests[0]
        for test in tests[1:]:
            known_ones = Apply(Op.OR, (known_ones, test))
        return None if self.whole else known_ones, tuple(cells)


def read_map(given: object, source: Source) -> EventMap:
    """The map from what `source` carries. Raises `Wrong`."""
    port, path = source.port, source.path
    if not isinstance(given, Mapping) or not given:
        raise Wrong(
            f"a map is a table with at least one entry, not {given!r}", 'Write map = { label = "label" }.'
        )
    if source.size is not None:
        raise Wrong(
            f"'{path}' has {source.size} cells, and a map is for a single value",
            f'Pick one of them, counted from 0: event = "{path}[0]".',
        )
    if not port.items and port.kind not in (Kind.INTEGER, Kind.BOOLEAN):
        raise Wrong(
            f"'{path}' is {described(port)}, and a map is for labels, whole numbers and truth values",
            f'Give an expression instead: {{ event = "{path}", value = "…" }}.',
        )
    pairs: dict[int, object] = {}
    keys: list[str] = []
    for key, value in given.items():
        text = str(key).lower() if isinstance(key, bool) else str(key)
        index = _index(text, port, path)
        if index in pairs:
            raise Wrong(f"'{text}' is in the map twice", "Keep one of the two.", (text,))
        pairs[index] = value
        keys.append(text)
    possible = len(port.items) or (2 if port.kind is Kind.BOOLEAN else None)
    return EventMap(source, tuple(pairs.items()), tuple(keys), len(pairs) == possible)


def _index(key: str, port: Port, path: str) -> int:
    if port.items:
        if key not in port.items:
            raise Wrong(f"'{key}' is not a label of '{path}'", suggest(key, port.items, "labels"), (key,))
        return port.labels.code(key)
    if port.kind is Kind.BOOLEAN:
        if key not in ("true", "false"):
            raise Wrong(f"'{path}' is true or false, and never '{key}'", "Write map = { true = … }.", (key,))
        return int(key == "true")
    if not _WHOLE.match(key):
        raise Wrong(f"'{path}' is a whole number, and never '{key}'", "Write map = { 0 = … }.", (key,))
    return int(key)


def _texts(values: list[object]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values))
