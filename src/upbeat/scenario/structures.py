"""Structures of a scenario: which of its units are there at a time, and which events lead to another one.

    structures = {
        "apart": {
            "units": ["car", "trailer"],
            "events": {"couple": {"when": "car.x <= trailer.x", "to": "coupled"}},
            "conserved": {"momentum": "car.m*car.v + trailer.m*trailer.v"},
        },
        "coupled": {"conserved": {"momentum": "car.m*car.v + trailer.m*trailer.v"}},
    }

A scenario describes all units there may be. A structure names those that are there (all, unless it says
so); what is connected, watched and given out among them it shares with the others, and it may have
connections, outputs and events of its own. The first one is that of the start. An event with a `to` ends a
structure: it happens as any event does (`then`), and the run goes on in the other structure. Units that are
in both go on with their states; those that appear begin as they are written, or with what the event gives
them (`start`), computed from what it has left. A quantity that both structures call `conserved` is the same
before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, ModelError, Problems, suggest
from upbeat.core.expr import Apply, Expr, Op, apply, names, substitute
from upbeat.core.names import HIDDEN, cell_names, objection_to, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.connection import ScenarioOutput, fitted, formulas_of, pairs_of
from upbeat.scenario.directory import INPUTS, End, Unclear, Wrong
from upbeat.scenario.events.declared import Event, Readable, targets
from upbeat.scenario.events.watcher import standing_behind
from upbeat.units.process import bare

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts
    from upbeat.scenario.scenario import Scenario

KEYS: Final = ("units", "connections", "outputs", "events", "conserved")
SWITCH_KEYS: Final = ("to", "start")
TOLERANCE: Final = 1e-9
"""How much a conserved quantity may change, of the sum of the sizes of its terms."""
COLUMN: Final = "structure"
"""The signal of a trace that says which structure there is."""


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure as it was written; what it shares with others is in the scenario around it."""

    name: str
    units: tuple[str, ...]
    written: Mapping[str, Any]


# ----------------------------------------------------------------------------------------------------
# A structure while it is there: a scenario of its own, with what ends it and what it keeps.


@dataclass(frozen=True, slots=True)
class Switch:
    """An event that ends a structure: which comes next, and new values for units that appear there.

    `start` has the names of values, ``unit.name``, with the kind and the expression of each cell.
    """

    event: str
    to: str
    start: tuple[tuple[str, Kind, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class Conserved:
    """A quantity that does not change from one structure to the next. `size` is how large its terms are."""

    name: str
    value: Expr
    tolerance: float = TOLERANCE

    @property
    def size(self) -> Expr:
        """The sum of the sizes of its terms: what a difference is compared with."""
        return _size(self.value)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scenario that is one structure of another knows of that."""

    name: str
    switches: tuple[Switch, ...] = ()
    conserved: tuple[Conserved, ...] = ()
    reads: tuple[tuple[End, str], ...] = field(default=(), compare=False)
    """The ports behind these expressions, and what reads them."""


def _size(expr: Expr) -> Expr:
    match expr:
        case Apply(Op.ADD | Op.SUB, (one, other)):
            return apply(Op.ADD, _size(one), _size(other))
        case Apply(Op.NEG, (one,)):
            return _size(one)
    return apply(Op.ABS, expr)


def value_output(quantity: str) -> str:
    """The hidden output that is the value of a conserved quantity."""
    return f"{HIDDEN}conserved {quantity}"


def size_output(quantity: str) -> str:
    """The one that says how large its terms are."""
    return f"{HIDDEN}size of {quantity}"


def start_output(switch: Switch, place: int) -> str:
    """The one that is a new value for a unit that appears."""
    return f"{HIDDEN}start {switch.event} {place}"


def told(parts: Parts) -> list[ScenarioOutput]:
    """Hidden outputs for all that is to be known when a structure ends, unless it has them."""
    stage = parts.stage
    known = {output.port.name for output in parts.outputs}
    assert stage is not None
    behind = standing_behind(parts)

    def hidden(name: str, expr: Expr, kind: Kind = Kind.REAL) -> ScenarioOutput:
        cell = substitute(expr, behind)
        port = Port(name, Causality.OUTPUT, kind, internal=True)
        return ScenarioOutput(port, (cell,), tuple(dict.fromkeys(_ends(cell))), name)

    found = []
    for one in stage.conserved:
        found += [hidden(value_output(one.name), one.value), hidden(size_output(one.name), one.size)]
    for switch in stage.switches:
        for place, (_, kind, cell) in enumerate(switch.start):
            found.append(hidden(start_output(switch, place), cell, kind))
    return [output for output in found if output.port.name not in known]


def _ends(expr: Expr) -> Iterator[End]:
    for name in sorted(names(expr)):
        if name != "time":
            unit, port = split(name)
            yield (unit, port.partition("[")[0]) if port else (INPUTS, unit)


# ----------------------------------------------------------------------------------------------------
# Reading.

Assemble = Callable[[Mapping[str, Any], Problems], "Parts"]


def read_structures(
    given: object, parts: Parts, problems: Problems, broken: Collection[str] = ()
) -> tuple[Structure, ...]:
    """All structures that could be read; what is wrong with the others goes to `problems`."""
    if not isinstance(given, Mapping):
        problems.add(
            ("structures",),
            f"expected a table of structures, not {given!r}",
            'Write {"apart": {"units": [...]}, "coupled": {}}.',
        )
        return ()
    if not given:
        return ()
    if any(port.name == COLUMN for port in (*parts.inputs, *(o.port for o in parts.all_outputs))):
        where = ("inputs",) if any(port.name == COLUMN for port in parts.inputs) else ("outputs",)
        what = f"the name '{COLUMN}' is that of the signal that says which structure there is"
        problems.add((*where, COLUMN), what, "Choose another name.")
    found = []
    for name, entry in given.items():
        try:
            found.append(_read(name, entry, parts, broken))
        except Wrong as wrong:
            problems.add(("structures", str(name), *wrong.at), wrong.what, wrong.hint)
    known = [str(name) for name in given]
    for one in found:
        _check(one, tuple(found), known, parts, problems)
    _check_properties(found, parts, problems)
    return tuple(found)


def _read(name: object, entry: object, parts: Parts, broken: Collection[str]) -> Structure:
    if objection := objection_to(name):
        raise Wrong(f"{name!r} is not a name for a structure", f"{objection.capitalize()}.")
    if not isinstance(entry, Mapping):
        raise Wrong(f"a structure is a table, not {entry!r}", 'Write { units = ["car", "trailer"] }.')
    for key in entry:
        if key not in KEYS:
            raise Wrong(f"unknown key '{key}'", suggest(str(key), KEYS, "keys"), (str(key),))
    units = entry.get("units", list(parts.units))
    if not isinstance(units, (list, tuple)) or not all(isinstance(unit, str) for unit in units):
        raise Wrong(f"units are a list of names, not {units!r}", 'Write units = ["car"].', ("units",))
    if not units:
        raise Wrong("a structure without units has nothing to simulate", "Name at least one.", ("units",))
    for unit in units:
        if unit not in parts.units and unit not in broken:
            raise Wrong(f"there is no unit '{unit}'", suggest(unit, parts.units, "units"), ("units",))
    for key in KEYS[1:]:
        if not isinstance(entry.get(key, {}), Mapping):
            raise Wrong(f"'{key}' must be a table, not {entry[key]!r}", "", (key,))
    ordered = tuple(unit for unit in parts.units if unit in units)
    return Structure(str(name), ordered, _plain(entry))


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A structure in one way of writing it: names with dots are no tables in tables."""
    found = {key: value for key, value in entry.items() if value not in ({}, None)}
    if "connections" in found:
        found["connections"] = dict(pairs_of(found["connections"]))
    if "events" in found:
        found["events"] = {
            name: {
                key: dict(targets(value))
                if key in ("then", "start") and isinstance(value, Mapping)
                else value
                for key, value in event.items()
            }
            if isinstance(event, Mapping)
            else event
            for name, event in found["events"].items()
        }
    return found


def _check(
    one: Structure, found: tuple[Structure, ...], known: list[str], parts: Parts, problems: Problems
) -> None:
    """Complain about what is wrong inside a structure."""
    inside = Problems()
    _Reading(one, {other.name: other for other in found}, known, parts, inside).parts()
    for problem in inside.found:
        problems.add(("structures", one.name, *problem.where), problem.what, problem.hint)


def _check_properties(found: list[Structure], parts: Parts, problems: Problems) -> None:
    """A property is judged on the whole trace: what it reads must be there all the time."""
    for one in parts.properties:
        if one.online:
            what = f"the property '{one.name}' cannot be watched while structures change"
            problems.add(("properties", one.name, "online"), what, "Leave out online.")
        for name in sorted(one.signals):
            unit, port = split(name)
            absent = [each.name for each in found if port and unit not in each.units]
            if absent:
                what = f"the property '{one.name}' reads '{name}', which is not there in '{absent[0]}'"
                problems.add(("properties", one.name), what, "Name signals that all structures have.")
            elif port and any(
                own.name == port.partition("[")[0] and own.causality is Causality.INPUT
                for own in parts.units[unit].ports
            ):
                what = f"the property '{one.name}' reads the input '{name}', which structures may drive anew"
                problems.add(("properties", one.name), what, "Name the output that drives it.")


def structure_of(scenario: Scenario, name: str) -> Scenario:
    """One structure as a scenario of its own: its events with a `to` end the run."""
    from upbeat.scenario.scenario import Scenario

    known = {one.name: one for one in scenario.structures}
    if name not in known:
        raise InvalidInput(f"there is no structure '{name}'. {suggest(name, known, 'structures')}")
    problems = Problems()
    parts = _Reading(known[name], known, list(known), scenario.parts, problems).parts()
    problems.raise_if_any(scenario.name)
    title = f"{scenario.name}: {name}" if scenario.name else name
    return Scenario.from_parts(parts, title, scenario.opened_inputs, scenario.origin)


class _Reading:
    """The parts of a scenario that are there in one structure, with its own."""

    def __init__(
        self,
        structure: Structure,
        all_: Mapping[str, Structure],
        known: list[str],
        parts: Parts,
        problems: Problems,
    ) -> None:
        self._structure, self._all, self._known = structure, all_, known
        self._shared, self._problems = parts, problems
        self._units: dict[str, Model] = {
            unit: model for unit, model in parts.units.items() if unit in structure.units
        }
        self._missing = set(structure.units) - set(self._units)  # broken ones, of which all is said

    def parts(self) -> Parts:
        from upbeat.scenario.assemble import Sections, assemble

        shared, written = self._shared, self._structure.written
        own = written.get("connections", {})
        pairs = [(c.target, c.text) for c in shared.all_connections if self._there(c) and c.target not in own]
        pairs += own.items()
        events, switches = self._split(written.get("events", {}))
        made = assemble(
            Sections(self._units, pairs, shared.inputs, written.get("outputs", {}), events=events or None),
            self._problems,
            self._missing,
        )
        named = {output.port.name for output in made.all_outputs}
        mine = {event.name for event in made.events}
        for event in shared.events:
            if event.name in mine:
                what = f"the name '{event.name}' is used twice: an event of all structures has it, too"
                self._problems.add(("events", event.name), what, "Choose another name.")
        parts = replace(
            made,
            outputs=(
                *(o for o in shared.outputs if self._has(o) and o.port.name not in named),
                *made.outputs,
            ),
            event_outputs=(
                *(o for o in shared.event_outputs if self._has_senders(o) and o.port.name not in named),
                *made.event_outputs,
            ),
            events=(*(event for event in shared.events if self._about(event)), *made.events),
        )
        return replace(parts, stage=self._stage(parts, switches, {str(target) for target, _ in pairs}))

    def _there(self, connection: Any) -> bool:
        """Whether both ends of a shared connection are there."""
        if connection.unit not in self._units:
            return False
        return self._has(connection) if hasattr(connection, "sources") else self._has_senders(connection)

    def _has(self, part: Any) -> bool:
        return all(unit == INPUTS or unit in self._units for unit, _ in part.sources)

    def _has_senders(self, part: Any) -> bool:
        read = {end for sender in part.senders for end in (sender.source, *sender.reads)}
        return all(unit == INPUTS or unit in self._units for unit, _ in read)

    def _about(self, event: Event) -> bool:
        return all(unit in self._units for unit in event.units)

    def _split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
        """The structure's own events without what only structures know; and those that end it."""
        events, switches = {}, {}
        for name, entry in given.items():
            if isinstance(entry, Mapping) and not entry.keys().isdisjoint(SWITCH_KEYS):
                events[name] = {key: value for key, value in entry.items() if key not in SWITCH_KEYS}
                switches[str(name)] = entry
            else:
                events[name] = entry
        return events, switches

    # ---------------------------------------------------------------- what ends it, and what it keeps

    def _stage(self, parts: Parts, switches: Mapping[str, Any], driven: set[str]) -> Stage:
        readable = Readable(parts.units, parts.inputs, self._missing)
        readable.driven = driven
        reads: dict[tuple[End, str], None] = {}
        found = []
        for event, entry in switches.items():
            try:
                found.append(self._switch(event, entry, readable, reads))
            except Wrong as wrong:
                self._problems.add(("events", event, *wrong.at), wrong.what, wrong.hint)
            except Unclear:
                pass
        kept = []
        for name, entry in self._structure.written.get("conserved", {}).items():
            try:
                kept.append(self._conserved(str(name), entry, readable, reads))
            except Wrong as wrong:
                self._problems.add(("conserved", str(name), *wrong.at), wrong.what, wrong.hint)
            except Unclear:
                pass
        return Stage(self._structure.name, tuple(found), tuple(kept), tuple(reads))

    def _switch(
        self, event: str, entry: Mapping[str, Any], readable: Readable, reads: dict[tuple[End, str], None]
    ) -> Switch:
        if "to" not in entry:
            raise Wrong(
                f"the event '{event}' gives units start values, but leads to no other structure",
                'Say which one: to = "…". What is there already is changed by then.',
            )
        to = entry["to"]
        if to not in self._known:
            raise Wrong(f"there is no structure {to!r}", suggest(str(to), self._known, "structures"), ("to",))
        if to == self._structure.name:
            what = f"the event '{event}' leads to '{to}', where it happens"
            raise Wrong(what, "Leave out to: an event without it changes values only.", ("to",))
        given = entry.get("start", {})
        if not isinstance(given, Mapping):
            raise Wrong(
                f"expected start values, not {given!r}", 'Write start = { load.x = "…" }.', ("start",)
            )
        start: list[tuple[str, Kind, Expr]] = []
        for target, value in targets(given):
            try:
                start += self._start(event, str(target), value, self._all.get(to), readable, reads)
            except Wrong as wrong:
                raise Wrong(wrong.what, wrong.hint, ("start", str(target))) from None
        return Switch(event, str(to), tuple(start))

    def _start(
        self,
        event: str,
        target: str,
        value: object,
        to: Structure | None,
        readable: Readable,
        reads: dict[tuple[End, str], None],
    ) -> Iterator[tuple[str, Kind, Expr]]:
        unit, name = split(target)
        if to is None:
            raise Unclear
        if not name:
            raise Wrong(f"'{target}' does not name something in a unit", 'Write "unit.state" = "…".')
        if unit not in to.units:
            hint = suggest(unit, set(to.units) - set(self._units), f"units that appear in '{to.name}'")
            raise Wrong(f"there is no unit '{unit}' in the structure '{to.name}'", hint)
        if unit in self._units:
            raise Wrong(
                f"'{unit}' is there already, and goes on with its state",
                f'To change it, write then = {{ {target} = "…" }}.',
            )
        model = self._shared.units[unit]
        port = _settable(model, name)
        formulas = formulas_of(value, port, target, readable)
        for one in formulas:
            for source in one.sources.values():
                reads[source.end, event] = None
        cells, _ = fitted(formulas, port, target)
        for cell, expr in zip(cell_names(target, port.size), cells, strict=True):
            yield cell, port.kind, expr

    def _conserved(
        self, name: str, entry: object, readable: Readable, reads: dict[tuple[End, str], None]
    ) -> Conserved:
        if objection := objection_to(name):
            raise Wrong(f"{name!r} is not a name for a quantity", f"{objection.capitalize()}.")
        given: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {"value": entry}
        for key in given:
            if key not in ("value", "tolerance"):
                raise Wrong(f"unknown key '{key}'", suggest(str(key), ("value", "tolerance"), "keys"), (key,))
        if "value" not in given:
            raise Wrong(f"the quantity '{name}' has no value", 'Write value = "car.m*car.v".')
        tolerance = given.get("tolerance", TOLERANCE)
        if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < 1:
            what = f"the tolerance of '{name}' is a part of the quantity, such as 1e-9, not {tolerance!r}"
            raise Wrong(what, "", ("tolerance",))
        port = Port(name, Causality.OUTPUT)
        formulas = formulas_of(given["value"], port, name, readable)
        for one in formulas:
            for source in one.sources.values():
                reads[source.end, name] = None
        (cell,), _ = fitted(formulas, port, name)
        return Conserved(name, cell, float(tolerance))


def _settable(model: Model, name: str) -> Port:
    """The port of a value that a unit can begin with."""
    inner: Any = bare(model)
    known: dict[str, Port] = {
        port.name: port for port in model.ports if port.causality is not Causality.OUTPUT and not port.event
    } | dict(getattr(inner, "changeable", {}))
    if name in known and known[name].kind is not Kind.STRING:
        return known[name]
    try:
        model.with_values({name: 0.0})
    except ModelError as error:
        raise Wrong(str(error)) from None
    return Port(name, Causality.OUTPUT)
