"""What an event input may be connected to, and an event output of the scenario may come from.

    "light.control" = "officer.cmd"                       # the payload as it is, its unit converted
    "light.control" = "officer.cmd or boss.cmd"           # the first that is present
    "counter.amount" = "2*machine.amount + plant.level"   # one event; signals are sampled when it happens
    "light.control" = { event = "officer.cmd", map = { toIdle = "toAuto", toWork = "toOff" } }
    "counter.amount" = { event = "machine.done", value = "plant.level", when = "plant.level > 3" }
    "light.control" = [{ event = "boss.cmd", value = "toOff" }, "officer.cmd"]      # again the first

A table has an `event` (or several with ``or``), and the rest is optional: a `value` in place of the payload
(an expression, a label of the target, a list with one for each cell), or a `map` from labels of the source to
labels or values of the target (what it leaves out is not sent); `when` is a condition: unless it holds,
nothing is sent. A payload fits a port under the same rules as a signal (see `upbeat.scenario.connection`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from upbeat.core.errors import suggest
from upbeat.core.expr import Apply, Expr, Lookup, Name, Number, Op, Table1, names, show
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.connection import closed, fitted, formulas_of
from upbeat.scenario.directory import INPUTS, Directory, End, Source, Unclear, Wrong, by_hand
from upbeat.scenario.events.declared import EventMap, read_map
from upbeat.scenario.events.errors import foreign_event, no_event, several_events, signal_for_event
from upbeat.scenario.formula import Formula, expression, formula
from upbeat.scenario.signals import EventSeries
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.equations.ode import Function

# ----------------------------------------------------------------------------------------------------
# Event connections: who sends an event to an input (or an output of the scenario), and what it says.
#
# An event has a value only at instants; in between it is absent. Its connection is a list of senders, of
# which the first one that is present counts. At one micro-step only one unit sends, so this matters where
# one unit sends several events at once, or where the condition of a sender does not hold.

EventText = str | Mapping[str, Any] | tuple[Any, ...]
"""An event connection as it was written: an expression, a table, or a list of them."""


@dataclass(frozen=True, slots=True)
class Sender:
    """An event output that is passed on: only `when` this holds (None: always), with `cells` as its payload.

    `source` is the event output, or ``("inputs", name)`` for an event input of the scenario. The names in
    `when` and `cells` are those of a `Connection`; the ordinary ports that it `reads` are sampled at the
    instant, and the payload of the source goes by its own name.
    """

    source: End
    when: Expr | None
    cells: tuple[Expr, ...]
    reads: tuple[End, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class EventConnection:
    """What an event input of a unit is given: the first of the `senders` that is present."""

    unit: str
    port: str
    senders: tuple[Sender, ...]
    text: EventText = field(compare=False)

    @property
    def target(self) -> str:
        """The input's name, ``unit.port``."""
        return f"{self.unit}.{self.port}"


@dataclass(frozen=True, slots=True)
class EventOutput:
    """An event output of the scenario itself; its `senders` are as in an `EventConnection`."""

    port: Port
    senders: tuple[Sender, ...]
    text: EventText = field(compare=False)


def closed_senders(senders: Sequence[Sender], inputs: Sequence[Port]) -> tuple[Sender, ...]:
    """The senders with scenario inputs replaced by outputs of the unit that drives them."""
    return tuple(
        replace(
            sender,
            when=None if sender.when is None else closed((sender.when,), inputs)[0],
            cells=closed(sender.cells, inputs),
        )
        for sender in senders
    )


def both(one: Expr | None, two: Expr | None) -> Expr | None:
    """The condition that both hold; None is one that always does."""
    if one is None or two is None:
        return two if one is None else one
    return Apply(Op.AND, (one, two))


def text_of(senders: Sequence[Sender]) -> EventText:
    """Senders as they could be written."""
    texts = tuple(_sender_text(sender) for sender in senders)
    return texts[0] if len(texts) == 1 else texts


def _sender_text(sender: Sender) -> str | dict[str, Any]:
    unit, port = sender.source
    path = port if unit == INPUTS else f"{unit}.{port}"
    count = len(sender.cells)
    plain = sender.cells == tuple(map(Name, cell_names(path, None if count == 1 else count)))
    event = show(Name(path))
    if plain and sender.when is None:
        return event
    cells = [show(cell) for cell in sender.cells]
    value = {} if plain else {"value": cells[0] if len(cells) == 1 else cells}
    when = {} if sender.when is None else {"when": show(sender.when)}
    return {"event": event, **value, **when}


# ----------------------------------------------------------------------------------------------------

KEYS = ("event", "map", "value", "when")


def connect_event(target: str, value: object, directory: Directory) -> EventConnection:
    """The checked connection of the event input `target` to what `value` says. Raises `Wrong`."""
    (unit, _), port = directory.target(target)
    drafts = list(_drafts(value, port, target, directory))
    senders = tuple(draft.sender(port, target) for draft in drafts)
    return EventConnection(unit, port.name, senders, _text(value))


def deliver_event(port: Port, value: object, directory: Directory, *, fixed: bool) -> EventOutput:
    """An event output of the scenario from what `value` says. Raises `Wrong`.

    Unless `fixed`, the port takes its kind and labels from the first sender; its size it always does, and
    its unit of measure where none is given and the first sender passes its payload on as it is.
    """
    drafts = list(_drafts(value, port, port.name, directory))
    first = drafts[0]
    port = replace(port, event=True, size=port.size or first.size)
    if not fixed:
        port = replace(port, **first.type())
    plain = first.plain
    if port.unit is None and plain is not None:
        port = replace(port, unit=plain.port.unit)
    return EventOutput(port, tuple(draft.sender(port, port.name) for draft in drafts), _text(value))


def says_event(value: object, directory: Directory) -> bool:
    """Whether what an output of the scenario is given names an event anywhere."""
    if isinstance(value, Mapping):
        return True
    if isinstance(value, (list, tuple)):
        return any(says_event(item, directory) for item in value)
    try:
        return any(directory.source(name).port.event for name in names(expression(value, directory)[0]))
    except (Wrong, Unclear):
        return False  # an ordinary output would have the same problem


# -------------------------------------------------------------------- before the target is looked at


@dataclass(frozen=True, slots=True)
class _Draft:
    """One sender whose names have been looked up, but which has not been fitted to its target."""

    source: Source
    payload: tuple[Formula, ...] | EventMap
    when: Formula | None
    at: tuple[str, ...] = ()

    @property
    def plain(self) -> Source | None:
        """The source, if it is passed on as it is."""
        return self.payload[0].plain if isinstance(self.payload, tuple) and len(self.payload) == 1 else None

    @property
    def size(self) -> int | None:
        if isinstance(self.payload, EventMap):
            return None
        return self.payload[0].size if len(self.payload) == 1 else len(self.payload)

    def type(self) -> dict[str, Any]:
        """The kind and the labels that it gives to a port that has none of its own."""
        if isinstance(self.payload, EventMap):
            return {"kind": self.payload.kind, "items": ()}
        plain = self.plain
        if plain is not None:
            return {"kind": plain.port.kind, "items": plain.port.items}
        return {"kind": self.payload[0].kind, "items": ()}

    def sender(self, port: Port, target: str) -> Sender:
        with _inside(*self.at):
            when: Expr | None = None
            ends: tuple[End, ...] = ()
            if self.when is not None:
                with _inside("when"):
                    truth = Port("when", Causality.INPUT, Kind.BOOLEAN)
                    (when,), ends = fitted((self.when,), truth, "when")
            if isinstance(self.payload, EventMap):
                known, cells = self.payload.fitted(port, target)
                when = both(when, known)
            else:
                cells, more = fitted(self.payload, port, target)
                ends = (*ends, *more)
            reads = tuple(dict.fromkeys(end for end in ends if end != self.source.end))
            return Sender(self.source.end, when, cells, reads)


def _drafts(value: object, port: Port, target: str, directory: Directory) -> Iterator[_Draft]:
    if not isinstance(value, (list, tuple)):
        yield from _entry(value, port, target, directory)
        return
    if not value:
        raise Wrong(f"'{target}' has an empty list of senders", "Leave it out, or name an event.")
    for i, item in enumerate(value):
        with _inside(str(i)):
            found = list(_entry(item, port, target, directory))
        yield from (replace(draft, at=(str(i), *draft.at)) for draft in found)


def _entry(value: object, port: Port, target: str, directory: Directory) -> Iterator[_Draft]:
    if isinstance(value, Mapping):
        yield from _table(value, port, target, directory)
        return
    for part in _alternatives(value, directory):
        given = formula(part, directory)
        events = _events(given)
        if not events:
            raise signal_for_event(target, given, directory)
        if len(events) > 1:
            raise several_events(target, given.text, events)
        yield _Draft(events[0], (given,), None)


def _table(table: Mapping[Any, Any], port: Port, target: str, directory: Directory) -> Iterator[_Draft]:
    for key in table:
        if key not in KEYS:
            raise Wrong(f"unknown key '{key}'", suggest(str(key), KEYS, "keys"), (str(key),))
    if "event" not in table:
        raise Wrong(
            f"the table for '{target}' does not say which event it passes on",
            f'Write "{target}" = {{ event = "unit.port", … }}.',
        )
    if "map" in table and "value" in table:
        raise Wrong(
            "a payload is either mapped or replaced by a value", "Keep the map or the value.", ("value",)
        )
    for part in _alternatives(table["event"], directory):
        with _inside("event"):
            given = formula(part, directory)
            if given.plain is None or not given.plain.port.event:
                raise no_event(given.text, target)
        source = given.plain
        payload: tuple[Formula, ...] | EventMap = (given,)
        if "value" in table:
            with _inside("value"):
                payload = _payload(table["value"], source, port, target, directory)
        if "map" in table:
            with _inside("map"):
                payload = read_map(table["map"], source)
        when = None
        if "when" in table:
            with _inside("when"):
                when = formula(table["when"], directory)
                _check_own(when, source)
        yield _Draft(source, payload, when)


def _payload(
    value: object, source: Source, port: Port, target: str, directory: Directory
) -> tuple[Formula, ...]:
    label = value.strip().strip("'\"") if isinstance(value, str) else None
    if label in port.items:
        if label in directory.inputs and value == label:
            raise Wrong(
                f"'{label}' is a label of '{target}', and a scenario input, too",
                f"Write \"'{label}'\" for the label, or rename the input.",
            )
        return (replace(formula(port.labels.code(str(label)), directory), text=str(label)),)
    if isinstance(value, (list, tuple)) and port.size is None and port.causality is Causality.OUTPUT:
        port = replace(port, size=len(value) or None)  # of the scenario: it takes its size from here
    formulas = formulas_of(value, port, target, directory)
    for one in formulas:
        _check_own(one, source)
    return formulas


def _check_own(given: Formula, source: Source) -> None:
    for event in _events(given):
        if event.end != source.end:
            raise foreign_event(event, source)


def _events(given: Formula) -> list[Source]:
    found = {source.end: source for source in given.sources.values() if source.port.event}
    return list(found.values())


def _alternatives(value: object, directory: Directory) -> list[Expr]:
    """The parts of ``a or b or c``; of anything else, the one that it is."""
    todo, found = [expression(value, directory)[0]], []
    while todo:
        match todo.pop():
            case Apply(op=Op.OR, args=args):
                todo += reversed(args)
            case part:
                found.append(part)
    return found


@contextmanager
def _inside(*keys: str) -> Iterator[None]:
    """What is wrong in the body is found under these keys."""
    try:
        yield
    except Wrong as wrong:
        wrong.at = (*keys, *wrong.at)
        raise


def _text(value: object) -> EventText:
    """What was given, as it can be written to a file."""
    match value:
        case Mapping():
            return {_key(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return tuple(_text(item) for item in value)
        case str():
            return value.strip()
    return show(value) if isinstance(value, Expr) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return show(value) if isinstance(value, Expr) else value


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


# ----------------------------------------------------------------------------------------------------
# The unit that drives event inputs: it sends on what it is told at once, or what a list says at its times.
#
# A relay is due as soon as it has been told of an event, and sends it in the very jump that takes it.

_TIME = Name("time")
_NEVER = Number(float("inf"))


def relay(signals: Function | None, events: Mapping[Port, EventSeries | None]) -> Discrete:
    """A unit with all outputs of `signals`, and an event output for each of `events`.

    One with a list of happenings plays it, from the start of the run on. Any other has an event input
    ``set_<name>``, and hands on what comes in there.
    """
    shown = [port for port, happens in events.items() if happens is None]
    played = [
        _Played(port, happens) for port, happens in events.items() if happens is not None and happens.at
    ]
    due: Expr = _NEVER
    for one in played:
        due = one.next if due is _NEVER else Apply(Op.MIN, (due, one.next))
    for port in shown:
        due = Apply(Op.WHERE, (_is_set(port), _TIME, due))
    steps = tuple((one.variable, one.then) for one in played)
    mode = Mode(
        due=due,
        emissions=(*(_handed_on(port) for port in shown), *(one.emission for one in played)),
        internal=steps,
        external=steps,  # what is sent in the same jump has been sent
    )
    inputs = signals.equations.inputs if signals is not None else ()
    outputs = signals.equations.outputs if signals is not None else ()
    return Discrete(
        ports=(
            *inputs,
            *(replace(port, name=by_hand(port.name), causality=Causality.INPUT) for port in shown),
            *(replace(output.port, depends=frozenset()) for output in outputs),
            *(replace(port, causality=Causality.OUTPUT) for port in events),
        ),
        variables=tuple(Variable(one.variable, Kind.INTEGER, 0) for one in played),
        modes=(mode,),
        outputs=tuple((output.port.name, output.definition.cells) for output in outputs),
        initial=tuple((one.variable, one.first) for one in played),
    )


class _Played:
    """An event that happens at given times: a counter says which is next."""

    def __init__(self, port: Port, happens: EventSeries) -> None:
        self._port = port
        self._happens = happens
        self.variable = f"next_{port.name}"
        self._count = Name(self.variable)
        self._at = self._entry(happens.at, "at")

    def _entry(self, values: Sequence[float], what: str) -> Expr:
        """The value at the counter."""
        if len(values) == 1:
            return Number(float(values[0]))
        places = tuple(float(i) for i in range(len(values)))
        table = Table1(places, tuple(map(float, values)), mode="hold", name=f"{what}_{self._port.name}")
        return Lookup(table, (self._count,))

    @property
    def next(self) -> Expr:
        """When the next one happens."""
        left = Apply(Op.LT, (self._count, Number(float(len(self._happens.at)))))
        return Apply(Op.WHERE, (left, self._at, _NEVER))

    @property
    def _now(self) -> Expr:
        return Apply(Op.LE, (self.next, _TIME))

    @property
    def then(self) -> Expr:
        """The counter after a jump."""
        return Apply(Op.WHERE, (self._now, Apply(Op.ADD, (self._count, Number(1.0))), self._count))

    @property
    def first(self) -> Expr:
        """The counter at the start: the first that does not lie before it."""
        at = self._happens.at
        if len(at) == 1:
            return Apply(Op.LT, (Number(at[0]), _TIME))
        numbers = tuple(float(i) for i in range(len(at)))
        place = Lookup(Table1(at, numbers, mode="hold", name=f"place_{self._port.name}"), (_TIME,))
        last = Lookup(Table1(at, at, mode="hold", name=f"last_{self._port.name}"), (_TIME,))
        return Apply(Op.ADD, (place, Apply(Op.LT, (last, _TIME))))

    @property
    def emission(self) -> Emission:
        cells = zip(*self._happens.values, strict=True)
        return Emission(
            self._port.name,
            self._now,
            tuple(self._entry([float(v) for v in cell], f"value_{i}") for i, cell in enumerate(cells)),
        )


def _is_set(port: Port) -> Expr:
    return Name(f"{by_hand(port.name)}?")


def _handed_on(port: Port) -> Emission:
    cells = cell_names(by_hand(port.name), port.size)
    return Emission(port.name, _is_set(port), tuple(Name(cell) for cell in cells))
