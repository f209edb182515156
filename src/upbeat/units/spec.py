"""Equations in shorthand: what people write in Python or in a file, read, checked and parsed.

    states     = { x = "v", v = { der = "(F - k*x)/m", start = 1.0, unit = "m/s" } }
    outputs    = ["x"]  or  { p = "m*v", hot = { value = "T > 90", kind = "boolean" } }
    locals     = { load = "k*x" }
    tables     = { drag = { x = [0, 1], y = [0, 4] } }

An array is a list, one expression per cell. All problems are found before any is raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upbeat.core.errors import ExpressionError, ModelError, suggest
from upbeat.core.expr import RESERVED, Expr, Name, Table1, Table2, names, parse, show
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.equations import TIME, Definition, Equations, Output, State, cell_names, in_order
from upbeat.units.shorthand import Complaints, check_keys, entries, read_port, read_ports

_INDEXED = re.compile(r"(.*)\[(\d+)\]\Z")
_STATE_KEYS = ("der", "start", "unit", "size", "description")


def read_equations(
    *,
    states: object = None,
    start: Mapping[str, Any] | None = None,
    inputs: object = None,
    outputs: object = None,
    parameters: object = None,
    locals: object = None,
    tables: Mapping[str, Any] | None = None,
) -> Equations:
    """The equations in these sections, or a `ModelError` with everything that is wrong with them."""
    complaints = Complaints()
    scope = _Scope(complaints)
    scope.tables = _read_tables(tables or {}, complaints)
    read_inputs = scope.ports(inputs, Causality.INPUT, "inputs")
    read_parameters = scope.ports(parameters, Causality.PARAMETER, "parameters")
    raw_states = _read_states(states, start or {}, complaints)
    raw_locals = {name: _Raw.of(text) for name, text in entries(locals, "locals", complaints).items()}
    for name, (port, _) in raw_states.items():
        scope.declare("states", name, port.size, port.unit)
    for name, raw in raw_locals.items():
        scope.declare("locals", name, raw.size)
    raw_outputs = _read_outputs(list(raw_states) if outputs is None else outputs, scope)
    scope.outputs = tuple(raw_outputs)

    read_states = tuple(
        State(port, definition)
        for name, (port, raw) in raw_states.items()
        if (definition := scope.definition("states", name, raw))
    )
    read_locals = tuple(d for name, raw in raw_locals.items() if (d := scope.definition("locals", name, raw)))
    read_outputs = tuple(
        scope.output(port, definition)
        for name, (port, raw) in raw_outputs.items()
        if (definition := scope.definition("outputs", name, raw, whole=True))
    )
    local_cells: dict[str, Expr] = {}
    with complaints.at("locals"):
        local_cells = in_order(read_locals)
    complaints.raise_if_any()
    return Equations(
        states=read_states,
        inputs=read_inputs,
        outputs=_with_depends(read_outputs, local_cells, read_inputs),
        parameters=read_parameters,
        locals=read_locals,
        tables=tuple(scope.tables.items()),
    )


@dataclass(frozen=True)
class _Raw:
    """Expressions as written, before anything is known about the names in them."""

    given: tuple[object, ...]
    size: int | None

    @classmethod
    def of(cls, given: object) -> _Raw:
        return cls(tuple(given), len(given)) if isinstance(given, (list, tuple)) else cls((given,), None)


@dataclass
class _Scope:
    """The names that equations may use, with their sizes, and how to parse an expression among them."""

    complaints: Complaints
    sizes: dict[str, int | None] = field(default_factory=lambda: {TIME: None})
    sections: dict[str, str] = field(default_factory=dict)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, Table1 | Table2] = field(default_factory=dict)
    units: dict[str, str | None] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()

    def declare(self, section: str, name: str, size: int | None, unit: str | None = None) -> None:
        """Add a variable, unless its name is taken."""
        where = f"{section}.{name}"
        if name == TIME or name in RESERVED:
            self.complaints.add(where, f"'{name}' already has a meaning in expressions; choose another name")
        elif name in self.sections:
            self.complaints.add(where, f"the name '{name}' is used twice (also in {self.sections[name]})")
        elif name in self.tables:
            self.complaints.add(where, f"the name '{name}' is used twice (also in tables)")
        else:
            with self.complaints.at(where):
                Port(name, Causality.OUTPUT)  # a local, too, must have the name of a variable
            self.sizes[name] = size
            self.units[name] = unit
            self.sections[name] = section

    def ports(self, given: object, causality: Causality, section: str) -> tuple[Port, ...]:
        found = read_ports(given, causality, section, self.complaints)
        for port in found:
            self.declare(section, port.name, port.size, port.unit)
            if port.kind is Kind.STRING:
                self.complaints.add(
                    f"{section}.{port.name}",
                    "equations work on numbers, not on strings; for a choice between labels write "
                    f'{port.name} = {{ items = ["off", "on"] }}',
                )
            if port.items:
                self.enums[port.name] = port.items
        return found

    def definition(self, section: str, name: str, raw: _Raw, whole: bool = False) -> Definition | None:
        """Parse one expression per cell; None, and a complaint, if one of them is wrong.

        With `whole` the name of an array stands for all its cells.
        """
        only = raw.given[0] if raw.size is None else None
        if whole and isinstance(only, str) and (size := self.sizes.get(only.strip())) is not None:
            cells = tuple(Name(cell) for cell in cell_names(only.strip(), size))
            return Definition(name, (only,), size, True, cells)
        texts, exprs = [], []
        for cell, given in zip(cell_names(name, raw.size), raw.given, strict=True):
            with self.complaints.at(f"{section}.{cell}"):
                text = _text(given)
                texts.append(text)
                exprs.append(self._parse(text))
        if len(exprs) < len(raw.given):
            return None
        return Definition(name, tuple(texts), raw.size, False, tuple(exprs))

    def output(self, port: Port, definition: Definition) -> Output:
        """An output takes its size from its definition, and the unit of the variable that it passes on."""
        if port.size is not None and port.size != definition.size:
            self.complaints.add(
                f"outputs.{port.name}",
                f"size is {port.size}, but there are {definition.size or 1} expression(s); "
                f"give a list of {port.size}",
            )
        first = definition.cells[0]
        passed_on = self.units.get(first.id.partition("[")[0]) if isinstance(first, Name) else None
        return Output(replace(port, size=definition.size, unit=port.unit or passed_on), definition)

    def _parse(self, text: str) -> Expr:
        expr = parse(text, tables=self.tables, enums=self.enums)
        wrong = [hint for used in sorted(names(expr)) if (hint := self._objection(used))]
        if wrong:
            raise ExpressionError("; ".join(wrong) + f" (in {text!r})", text)
        return expr

    def _objection(self, used: str) -> str:
        """What is wrong with a name in an expression; empty if nothing is."""
        indexed = _INDEXED.match(used)
        base = indexed[1] if indexed else used
        if base not in self.sizes:
            if base in self.outputs:
                return f"'{base}' is an output; to use it in equations, define it under locals"
            return f"unknown name '{base}'. {suggest(base, self.sizes, 'names')}"
        size = self.sizes[base]
        if size is None:
            return f"'{base}' is not an array; write {base} instead of {used}" if indexed else ""
        if indexed is None:
            return f"'{base}' is an array of {size}; write {base}[0] … {base}[{size - 1}]"
        beyond = int(indexed[2]) >= size
        return f"{used} is beyond the end: the last one is {base}[{size - 1}]" if beyond else ""


def _text(given: object) -> str:
    """An expression as text; numbers and expression trees are fine, too."""
    if isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (int, float)):
        return repr(given)
    if isinstance(given, Expr):
        return show(given)
    raise ModelError(f"expected an expression, not {given!r}")


def _read_states(
    given: object, starts: Mapping[str, Any], complaints: Complaints
) -> dict[str, tuple[Port, _Raw]]:
    found: dict[str, tuple[Port, _Raw]] = {}
    declared = entries(given, "states", complaints)
    for name, entry in declared.items():
        with complaints.at(f"states.{name}"):
            table = dict(entry) if isinstance(entry, Mapping) else {"der": entry}
            check_keys(table, _STATE_KEYS)
            if "der" not in table:
                raise ModelError(f'a state needs its derivative: {name} = {{ der = "…" }}')
            if name in starts and "start" in table:
                raise ModelError("the start value is given twice (also in start)")
            raw = _Raw.of(table.pop("der"))
            table |= {"value": starts[name]} if name in starts else {}
            table |= {"value": table.pop("start")} if "start" in table else {}
            if table.setdefault("size", raw.size) != raw.size:
                raise ModelError(f"size is {table['size']}, but der has {len(raw.given)} expression(s)")
            port = read_port(name, table, Causality.PARAMETER)  # like a parameter, it has a value to set
            if port.kind is not Kind.REAL:
                raise ModelError(f"a state is real, and its start value a number, not {table['value']!r}")
            found[name] = (port, raw)
    for name in starts:
        if name not in declared:
            hint = suggest(name, declared, "states")
            complaints.add(f"start.{name}", f"there is no state '{name}'. {hint}")
    return found


def _read_outputs(given: object, scope: _Scope) -> dict[str, tuple[Port, _Raw]]:
    found: dict[str, tuple[Port, _Raw]] = {}
    complaints = scope.complaints
    for name, entry in entries(given, "outputs", complaints).items():
        with complaints.at(f"outputs.{name}"):
            table = dict(entry) if isinstance(entry, Mapping) else {"value": entry}
            raw = _Raw.of(table.pop("value", name))
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
                raise ModelError(
                    f"there is no '{name}' to give out. {suggest(name, scope.sections, 'names')} "
                    f'An output of its own needs an expression: {{ {name} = "…" }}'
                )
            if port.kind is Kind.STRING:
                raise ModelError("equations work on numbers: an output cannot be a string")
            found[name] = (port, raw)
    return found


def _read_tables(given: Mapping[str, Any], complaints: Complaints) -> dict[str, Table1 | Table2]:
    found: dict[str, Table1 | Table2] = {}
    for name, entry in given.items():
        where = f"tables.{name}"
        with complaints.at(where):
            if name in RESERVED or name == TIME:
                raise ModelError(f"'{name}' already has a meaning in expressions; choose another name")
            if isinstance(entry, (Table1, Table2)):
                found[name] = replace(entry, name=name)
            elif isinstance(entry, Mapping):
                kind = Table2 if "z" in entry else Table1
                check_keys(entry, ("x", "y", "z", "mode", "extrapolate"))
                for key in ("x", "y"):
                    if key not in entry:
                        raise ModelError(f"a table needs x and y (and z over both), but {key} is missing")
                found[name] = kind(**entry, name=name)
            else:
                raise ModelError(f"a table is {{ x = […], y = […] }}, not {entry!r}")
    return found


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
