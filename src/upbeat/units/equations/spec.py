"""Equations in shorthand: what people write in Python or in a file, read, checked and parsed.

    states     = { x = "v", v = { der = "(F - k*x)/m", start = 1.0, unit = "m/s" } }
    variables  = { n = 0, mode = { start = "up", items = ["up", "down"] } }
    events     = { hit = { when = "x <= 0 and v < 0", then = { v = "-v", n = "n + 1" } } }
    outputs    = ["x"]  or  { p = "m*v", hot = { value = "T > 90", kind = "boolean" } }
    locals     = { load = "k*x" }
    tables     = { drag = { x = [0, 1], y = [0, 4] } }

An array is a list, one expression per cell. All problems are found before any is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import RESERVED, Expr, Table1, Table2, kind_of, names, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.equations.data import (
    TIME,
    Definition,
    Equations,
    Output,
    State,
    in_order,
    with_derivatives,
)
from upbeat.units.equations.events import EquationEvent, is_event, read_events, read_sent, read_variables
from upbeat.units.equations.scope import Raw, Scope, Vocabulary
from upbeat.units.shorthand import Complaints, check_keys, entries, read_port

_STATE_KEYS = ("der", "start", "unit", "size", "description")


def read_equations(complaints: Complaints, sections: Mapping[str, Any]) -> Equations:
    """The equations in these sections, by the names that a file has for them; or a `ModelError` with
    everything in `complaints`, old and new."""
    scope, given = Scope(complaints), sections.get
    if given("tables") is not None:
        read_tables(entries(given("tables"), "tables", complaints), scope)
    read_inputs = scope.ports("inputs", given("inputs"), Causality.INPUT)
    read_parameters = scope.ports("parameters", given("parameters"), Causality.PARAMETER)
    raw_states = _read_states(
        scope.entries("states", given("states")), entries(given("start"), "start", complaints), complaints
    )
    discrete = () if given("variables") is None else read_variables(given("variables"), scope)
    raw_locals = {name: Raw.of(text) for name, text in scope.entries("locals", given("locals")).items()}
    for name, (port, _) in raw_states.items():
        scope.declare("states", name, port.size, port.unit)
    for name, raw in raw_locals.items():
        scope.declare("locals", name, raw.size)
    given_outputs = entries(
        list(raw_states) if given("outputs") is None else given("outputs"), "outputs", complaints
    )
    sent = read_sent(given_outputs, scope)
    raw_outputs = output_entries(
        {name: entry for name, entry in given_outputs.items() if not is_event(entry)}, scope
    )
    scope.outputs = tuple(given_outputs)
    heard = tuple(port for port in read_inputs if port.event)
    signals = tuple(port for port in read_inputs if not port.event)
    if not raw_states and (heard or sent):
        _refuse_events("inputs", heard, complaints)
        _refuse_events("outputs", sent, complaints)

    read_states = tuple(
        State(port, definition)
        for name, (port, raw) in raw_states.items()
        if (definition := scope.definition("states", name, raw))
    )
    read_locals = tuple(d for name, raw in raw_locals.items() if (d := scope.definition("locals", name, raw)))
    local_cells: dict[str, Expr] = {}
    with complaints.at("locals"):
        local_cells = in_order(read_locals)
    for name, cell in local_cells.items():
        scope.kinds[name] = kind_of(cell, scope.kinds)
    scope.locals = local_cells
    read_outputs = tuple(
        scope.output(port, definition)
        for name, (port, raw) in raw_outputs.items()
        if (definition := scope.definition("outputs", name, raw, whole=True))
    )
    if heard:
        _keep_out(heard, "states", [state.derivative for state in read_states], complaints)
        _keep_out(heard, "locals", read_locals, complaints)
        _keep_out(heard, "outputs", [output.definition for output in read_outputs], complaints)
    found: tuple[EquationEvent, ...] = ()
    if given("events") is not None:
        settable = (*discrete, *read_parameters, *(state.port for state in read_states))
        vocabulary = Vocabulary(
            scope,
            variables={port.name: port for port in settable},
            events={port.name: port for port in heard},
            signals={port.name for port in signals},
            sent={port.name: port for port in sent},
            locals=_written_out(local_cells),
            reaction="an event",
        )
        found = read_events(given("events"), vocabulary)
    if raw_states and (heard or sent):
        _complain_about_idle(heard, sent, found, complaints)
    complaints.raise_if_any()
    return Equations(
        states=read_states,
        inputs=signals,
        outputs=with_derivatives(_with_depends(read_outputs, local_cells, signals), read_states),
        parameters=read_parameters,
        locals=read_locals,
        tables=tuple(scope.tables.items()),
        variables=discrete,
        heard=heard,
        sent=sent,
        events=found,
    )


def _complain_about_idle(
    heard: Iterable[Port], sent: Iterable[Port], events: Iterable[EquationEvent], complaints: Complaints
) -> None:
    """An event port that nothing uses is a slip of the pen."""
    used = {name for event in events for name in (*event.on, *(s.port.name for s in event.emit))}
    for section, ports, key in (("inputs", heard, "on"), ("outputs", sent, "emit")):
        for port in ports:
            if port.name not in used:
                what = f"no event has it in its {key}: say what happens, under events"
                complaints.add(f"{section}.{port.name}", what)


def _written_out(local_cells: Mapping[str, Expr]) -> dict[str, Expr]:
    """The locals without other locals in them."""
    done: dict[str, Expr] = {}
    for name, cell in local_cells.items():
        done[name] = substitute(cell, done)
    return done


def _keep_out(
    heard: Iterable[Port], section: str, definitions: Iterable[Definition], complaints: Complaints
) -> None:
    """Events have no value in between: equations cannot use them."""
    cells = {cell: port.name for port in heard for cell in cell_names(port.name, port.size)}
    for definition in definitions:
        for name in sorted({cells[n] for cell in definition.cells for n in names(cell) if n in cells}):
            complaints.add(
                f"{section}.{definition.name}",
                f"'{name}' is an event, which has a value only when it happens. Keep it in a variable: "
                f'events = {{ keep = {{ on = "{name}", then = {{ last = "{name}" }} }} }}',
            )


def _refuse_events(section: str, ports: Iterable[Port], complaints: Complaints) -> None:
    for port in ports:
        if port.event:
            what = 'equations have signals only; events belong to discrete units: kind = "state_machine"'
            complaints.add(f"{section}.{port.name}", what)


def _read_states(
    given: Mapping[str, Any], starts: Mapping[str, Any], complaints: Complaints
) -> dict[str, tuple[Port, Raw]]:
    found: dict[str, tuple[Port, Raw]] = {}
    for name, entry in given.items():
        with complaints.at(f"states.{name}"):
            table = dict(entry) if isinstance(entry, Mapping) else {"der": entry}
            check_keys(table, _STATE_KEYS)
            if "der" not in table:
                raise ModelError(f'a state needs its derivative: {name} = {{ der = "…" }}')
            if name in starts and "start" in table:
                raise ModelError("the start value is given twice (also in start)")
            raw = Raw.of(table.pop("der"))
            table |= {"value": starts[name]} if name in starts else {}
            table |= {"value": table.pop("start")} if "start" in table else {}
            if table.setdefault("size", raw.size) != raw.size:
                raise ModelError(f"size is {table['size']}, but der has {len(raw.given)} expression(s)")
            port = read_port(name, table, Causality.PARAMETER)  # like a parameter, it has a value to set
            if port.kind is not Kind.REAL:
                raise ModelError(f"a state is real, and its start value a number, not {table['value']!r}")
            found[name] = (port, raw)
    for name in starts:
        if name not in given:
            hint = suggest(name, given, "states")
            complaints.add(f"start.{name}", f"there is no state '{name}'. {hint}")
    return found


def output_entries(given: object, scope: Scope) -> dict[str, tuple[Port, Raw]]:
    """The outputs, each with the expressions that it is computed from, which have not been parsed yet."""
    found: dict[str, tuple[Port, Raw]] = {}
    complaints = scope.complaints
    for name, entry in entries(given, "outputs", complaints).items():
        with complaints.at(f"outputs.{name}"):
            table = dict(entry) if isinstance(entry, Mapping) else {"value": entry}
            raw = Raw.of(table.pop("value", name))
            port = read_port(name, table, Causality.OUTPUT)
            section = scope.sections.get(name)
            if section in ("inputs", "parameters"):
                raise ModelError(
                    f"the name '{name}' is used twice (also in {section}); choose another one: "
                    f'{{ {name}_out = "{name}" }}'
                )
            if section is not None and raw.given != (name,):
                raise ModelError(f"the name '{name}' is used twice (also in {section}), with another meaning")
            if section is None and raw.given == (name,):
                if name in scope.mentioned:
                    continue  # what is wrong with it has been said
                raise ModelError(
                    f"there is no '{name}' to give out. {suggest(name, scope.sections, 'names')} "
                    f'An output of its own needs an expression: {{ {name} = "…" }}'
                )
            if port.kind is Kind.STRING:
                raise ModelError("equations work on numbers: an output cannot be a string")
            found[name] = (port, raw)
    return found


def read_tables(given: Mapping[str, Any], scope: Scope) -> None:
    """Add the interpolation tables to what expressions may use."""
    for name, entry in given.items():
        surface = isinstance(entry, Mapping) and "z" in entry
        scope.stand_ins[name] = (
            Table2((0, 1), (0, 1), ((0, 0), (0, 0))) if surface else Table1((0, 1), (0, 0))
        )
        with scope.complaints.at(f"tables.{name}"):
            if name in RESERVED or name == TIME:
                raise ModelError(f"'{name}' already has a meaning in expressions; choose another name")
            scope.tables[name] = _table(name, entry)
            del scope.stand_ins[name]


def _table(name: str, entry: object) -> Table1 | Table2:
    if isinstance(entry, (Table1, Table2)):
        return replace(entry, name=name)
    if not isinstance(entry, Mapping):
        raise ModelError(f"a table is {{ x = […], y = […] }}, not {entry!r}")
    check_keys(entry, ("x", "y", "z", "mode", "extrapolate"))
    for key in ("x", "y"):
        if key not in entry:
            raise ModelError(f"a table needs x and y (and z over both), but {key} is missing")
    return Table2(**entry, name=name) if "z" in entry else Table1(**entry, name=name)


def _with_depends(
    outputs: tuple[Output, ...], local_cells: Mapping[str, Expr], inputs: tuple[Port, ...]
) -> tuple[Output, ...]:
    """The outputs with the inputs that their expressions, through all locals, contain."""
    behind = {cell: frozenset({port.name}) for port in inputs for cell in cell_names(port.name, port.size)}

    def direct(*exprs: Expr) -> frozenset[str]:
        return frozenset().union(*(behind.get(name, ()) for expr in exprs for name in names(expr)))

    for name, cell in local_cells.items():
        behind[name] = direct(cell)
    return tuple(
        replace(output, port=replace(output.port, depends=direct(*output.definition.cells)))
        for output in outputs
    )
