"""Properties of a scenario: what its results should be like, over the ports of its units.

    properties = {
        "apart": "always(left.x < right.x)",
        "safe": { "holds": "always(tank.level < 3)", "online": "stop" },
    }

They are read here, closed (what inputs and parameters stand for is filled in) and judged on traces. Those
that are watched during a run become part of the closed scenario: hidden outputs, which say of each
comparison whether it holds, and hidden events, so that steps end where one changes. What is made of these
truths is written by the master (`upbeat.master.events.monitors`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from upbeat.core.errors import ExpressionError, InvalidInput, Problems, suggest
from upbeat.core.expr import Apply, Expr, Name, Op, apply, indicator, names, simplify, substitute
from upbeat.core.measure import Measure
from upbeat.core.names import HIDDEN, objection_to
from upbeat.core.ports import Causality, Kind, Port
from upbeat.properties.formula import (
    QUANTITY,
    Combined,
    Derived,
    Formula,
    Predicate,
    Signal,
    Temporal,
    parse,
    rewritten,
    unwatchable,
)
from upbeat.properties.robustness import Property, Robustness, undecided
from upbeat.scenario.connection import ScenarioOutput, fitted
from upbeat.scenario.directory import INPUTS, Source, Unclear, Wrong
from upbeat.scenario.events.declared import Event, Readable
from upbeat.scenario.events.watcher import standing_behind
from upbeat.scenario.formula import formula
from upbeat.units.equations.arranging import free_name

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts
    from upbeat.scenario.scenario import Scenario
    from upbeat.trace.trace import Trace

KEYS: Final = ("holds", "online")
_TRUTH = Port("holds", Causality.INPUT, Kind.BOOLEAN)
_NUMBER = Port("holds", Causality.INPUT)
_TIME = Source((INPUTS, "time"), Port("time", Causality.OUTPUT, unit="s"))


# ----------------------------------------------------------------------------------------------------
# Reading.


def read_properties(
    given: object,
    directory: Readable,
    outputs: Collection[ScenarioOutput],
    problems: Problems,
    taken: Collection[str],
) -> list[Property]:
    """All properties that could be read; what is wrong with the others goes to `problems`."""
    if not isinstance(given, Mapping):
        example = '{"safe": "always(tank.level < 3)"}'
        problems.add(("properties",), f"expected a table of properties, not {given!r}", f"Write {example}.")
        return []
    known = {output.port.name: output.cells[0] for output in outputs if len(output.cells) == 1}
    found = []
    for name, entry in given.items():
        try:
            found.append(_read(name, entry, directory, known, taken))
        except Wrong as wrong:
            problems.add(("properties", str(name), *wrong.at), wrong.what, wrong.hint)
        except Unclear:
            pass
    return found


def _read(
    name: object, entry: object, directory: Readable, outputs: Mapping[str, Expr], taken: Collection[str]
) -> Property:
    if objection := objection_to(name):
        raise Wrong(f"{name!r} is not a name for a property", f"{objection.capitalize()}.")
    if name in taken:
        raise Wrong(
            f"the name '{name}' is used twice: an event, an input or an output has it, too",
            "Choose another name.",
        )
    given: Mapping[Any, Any] = entry if isinstance(entry, Mapping) else {"holds": entry}
    for key in given:
        if key not in KEYS:
            raise Wrong(f"unknown key '{key}'", suggest(str(key), KEYS, "keys"), (str(key),))
    if "holds" not in given:
        raise Wrong(f"the property '{name}' does not say what holds", 'Write holds = "always(a.x < 5)".')
    text = given["holds"]
    if isinstance(text, Property):
        text = text.text
    if not isinstance(text, str):
        raise Wrong(f"a property is a text, not {text!r}", 'Write "always(a.x < 5)".')
    try:
        written = parse(text, directory.enumerations)
        made = Property(
            text.strip(), str(name), given.get("online", ""), _Names(directory, outputs).own(written)
        )
    except ExpressionError as error:
        raise Wrong(str(error)) from None
    except InvalidInput as error:
        raise Wrong(str(error), 'Write online = "watch", or online = "stop".', ("online",)) from None
    if made.online and (why := unwatchable(made.formula)):
        raise Wrong(
            f"'{name}' cannot be watched during a run: {why}",
            "Leave out online: it is judged when the run is over.",
            ("online",),
        )
    return made


class _Names:
    """The names of a formula, looked up; expressions with units of measure that fit together."""

    def __init__(self, directory: Readable, outputs: Mapping[str, Expr]) -> None:
        self._directory = _Known(directory)
        self._outputs = outputs

    def own(self, node: Formula) -> Formula:
        match node:
            case Predicate(signal):
                return Predicate(self._signal(signal, _TRUTH))
            case Combined(op, parts):
                return Combined(op, tuple(map(self.own, parts)))
            case Temporal(op, parts, window):
                return Temporal(op, tuple(map(self.own, parts)), window)

    def _signal(self, signal: Signal, port: Port) -> Signal:
        try:
            return self._looked_up(signal, port)
        except Wrong as wrong:
            what = wrong.what
            for name, made in signal.derived:
                what = what.replace(f"`{name}`", str(made))
            raise Wrong(what, wrong.hint, wrong.at) from None

    def _looked_up(self, signal: Signal, port: Port) -> Signal:
        derived = tuple((name, self._derived(name, made)) for name, made in signal.derived)
        expr = substitute(signal.expr, self._outputs)
        read = formula(expr, self._directory)
        numbers = {name: made.of.expr for name, made in signal.derived
                   if made.kind == QUANTITY and isinstance(made.of, Signal)}  # fmt: skip
        if read.size is not None:
            raise Wrong(f"'{read.text}' is an array", "Pick one of its cells, counted from 0: unit.port[0].")
        if port is _TRUTH and not read.fits(Kind.BOOLEAN):
            raise Wrong(
                f"'{signal}' is a number, and a property is about what is true or false",
                f'Compare it: "{signal} > 0".',
            )
        if numbers and read.measured() is None:
            without = next(source.path for source in read.sources.values() if source.port.unit is None)
            made_of = next((str(one) for name, one in signal.derived if name == without), "")
            raise Wrong(
                f"'{made_of or without}' has no unit of measure, so that a number with one says nothing "
                "about it",
                f"Give {'the signals in it' if made_of else without} a unit, or write a plain number.",
            )
        kept = tuple((name, made) for name, made in derived if name not in numbers)
        found = fitted((read,), port, "holds")[0][0]
        return Signal(simplify(substitute(found, numbers)) if numbers else found, kept)

    def _derived(self, name: str, made: Derived) -> Derived:
        if made.kind == QUANTITY:
            port = Port(name, Causality.OUTPUT, unit=made.unit)
            self._directory.derived[name] = Source((INPUTS, name), port)
            return made
        if not isinstance(made.of, Signal):
            of: Signal | Formula = self.own(made.of)
            unit = "s" if made.kind == "duration" else None
        else:
            of = self._signal(made.of, _NUMBER)
            read = formula(of.expr, self._directory)
            try:
                measured = read.measured()
            except Wrong:
                measured = None
            unit = None
            if measured is not None and measured.measure is not None:
                unit = str(
                    measured.measure.times(Measure.of(_PER[made.kind]))
                    if made.kind in _PER
                    else measured.text
                )
        kind = Kind.INTEGER if made.kind == "count" else Kind.REAL
        port = Port(name, Causality.OUTPUT, kind, unit=unit)
        self._directory.derived[name] = Source((INPUTS, name), port)
        return Derived(made.kind, of, made.seconds)


_PER = {"der": "1/s", "integral": "s", "roughness": "1/s^2"}


class _Known(Readable):
    """What a property may name: ports, the time, and signals that are made of others."""

    def __init__(self, directory: Readable) -> None:
        self.__dict__.update(directory.__dict__)
        self.derived: dict[str, Source] = {}

    def source(self, text: str) -> Source:
        if text == "time":
            return _TIME
        return self.derived[text] if text in self.derived else super().source(text)


# ----------------------------------------------------------------------------------------------------
# Judging.


def closed_properties(scenario: Scenario) -> tuple[Property, ...]:
    """The properties over outputs and inputs of the scenario alone: what drives the inputs of units is filled
    in, and the values of parameters."""
    known = standing_behind(scenario.parts)

    def over_outputs(expr: Expr) -> Expr:
        return substitute(expr, known)

    return tuple(replace(one, formula=rewritten(one.formula, over_outputs)) for one in scenario.properties)


def judged(scenario: Scenario, trace: Trace) -> dict[str, Robustness]:
    """By how much a trace of a scenario has each of its properties."""
    found = {}
    for one in closed_properties(scenario):
        absent = sorted(name for name in one.signals if name not in trace)
        if absent:
            found[one.name] = undecided(one, f"{', '.join(absent)} was not recorded: add it to record")
        else:
            found[one.name] = one.on(trace)
    return found


# ----------------------------------------------------------------------------------------------------
# Watching: the comparisons of properties as hidden outputs and events.


def with_monitored(parts: Parts, properties: Collection[Property]) -> Parts:
    """The scenario with what its master needs to watch the properties that are watched during a run."""
    outputs: list[ScenarioOutput] = []
    events: list[Event] = []
    taken = {*(port.name for port in parts.inputs), *(output.port.name for output in parts.all_outputs)}
    taken |= {event.name for event in parts.events} | {one.name for one in properties}
    watched: list[Property] = []
    for one in properties:
        if one.online:
            atoms: dict[Expr, str] = {}
            made = rewritten(one.formula, partial(_hidden, one, atoms))
            watched.append(replace(one, formula=made))
            for expr, name in atoms.items():
                outputs += _outputs(name, expr)
                events += _events(one.name, expr, taken)
    return replace(
        parts, outputs=(*parts.outputs, *outputs), events=(*parts.events, *events), monitored=tuple(watched)
    )


def _hidden(one: Property, atoms: dict[Expr, str], expr: Expr) -> Expr:
    return Name(atoms.setdefault(expr, f"{HIDDEN}{one.name} {len(atoms)}"))


def surely(name: str) -> tuple[str, str]:
    """The hidden outputs of a comparison: whether it surely holds, and whether it surely does not."""
    return name, f"{name} not"


def _outputs(name: str, expr: Expr) -> Iterator[ScenarioOutput]:
    ends = tuple(dict.fromkeys(_ends(expr)))
    for own, cell in zip(surely(name), _surely(expr), strict=True):
        port = Port(own, Causality.OUTPUT, Kind.BOOLEAN, internal=True)
        yield ScenarioOutput(port, (cell,), ends, own)


def _ends(expr: Expr) -> Iterator[tuple[str, str]]:
    for name in sorted(names(expr)):
        unit, _, port = name.partition(".")
        yield (unit, port.partition("[")[0]) if port else (INPUTS, unit)


_DENIED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


def _surely(expr: Expr) -> tuple[Expr, Expr]:
    """Whether a comparison surely holds, and whether it surely does not: neither of what is no number."""
    match expr:
        case Apply(op, args) if op in _DENIED:
            return expr, Apply(_DENIED[op], args)
        case Apply(Op.EQ | Op.NE as op, (one, other)):
            apart = apply(Op.OR, apply(Op.LT, one, other), apply(Op.GT, one, other))
            same = apply(Op.EQ, one, other)
            return (same, apart) if op is Op.EQ else (apart, same)
    return apply(Op.NE, expr, 0.0), apply(Op.EQ, expr, 0.0)


def _events(name: str, expr: Expr, taken: set[str]) -> Iterator[Event]:
    """Where a comparison changes: so that paces see it coming. One that jumps needs no look ahead."""
    for word, truth in zip(("holds", "fails"), _surely(expr), strict=True):
        try:
            condition = indicator(truth, {})
        except ExpressionError:
            return
        label = free_name(f"{name}_{word}", taken)
        yield Event(label, (condition,), reads=tuple(_ends(condition)), hidden=True)
