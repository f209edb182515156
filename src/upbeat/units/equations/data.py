"""The equations of a unit as frozen data: states, inputs, outputs, parameters, locals, tables, events."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import (
    Expr,
    Kernel,
    Name,
    Table1,
    Table2,
    differentiate,
    names,
    substitute,
    time_derivative,
)
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.shorthand import check_settable, plain, port_spec, with_starts

if TYPE_CHECKING:
    from upbeat.units.equations.events import EquationEvent

Numbers = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""The values of all cells of a unit: of its states and of its inputs at the start, of its parameters."""
TIME = "time"
"""The name of the unit's own time in every equation."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a name stands for: one expression per cell, and the text it was read from.

    `whole`: the one text is the name of an array, and stands for all its cells.
    """

    name: str
    texts: tuple[str, ...]
    size: int | None = None
    whole: bool = False
    cells: tuple[Expr, ...] = field(default=(), compare=False, repr=False)

    @property
    def written(self) -> str | list[str]:
        """As the user writes it: a text, or a list of them for an array."""
        return self.texts[0] if self.size is None or self.whole else list(self.texts)


@dataclass(frozen=True, slots=True)
class State:
    """A state: its name, size, unit and start value (as a port), and its derivative."""

    port: Port
    derivative: Definition


@dataclass(frozen=True, slots=True)
class Output:
    """An output and the expression it is computed from."""

    port: Port
    definition: Definition


@dataclass(frozen=True)
class Equations:
    """A checked set of equations: every name is known, and no local needs itself.

    `inputs` and `outputs` are signals; events come in and go out through ports of their own. `variables`
    change only at events.
    """

    states: tuple[State, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Output, ...]
    parameters: tuple[Port, ...]
    locals: tuple[Definition, ...]
    tables: tuple[tuple[str, Table1 | Table2], ...]
    variables: tuple[Port, ...] = ()
    heard: tuple[Port, ...] = ()
    sent: tuple[Port, ...] = ()
    events: tuple[EquationEvent, ...] = ()
    lowered: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What the native engine has made of them: all but the numbers, which `with_values` changes."""

    @property
    def ports(self) -> tuple[Port, ...]:
        outputs = (output.port for output in self.outputs)
        return (*self.inputs, *self.heard, *outputs, *self.sent, *self.parameters)

    @property
    def start(self) -> tuple[float, ...]:
        """The start value of every state cell."""
        return tuple(float(v) for state in self.states for v in state.port.initial)

    @property
    def values(self) -> tuple[float, ...]:
        """The value of every parameter cell, then those of the variables."""
        return tuple(float(v) for port in (*self.parameters, *self.variables) for v in port.initial)

    @property
    def numbers(self) -> Numbers:
        """What is not in the kernels: the start values of states and inputs, and the parameters."""
        return self.start, tuple(float(v) for port in self.inputs for v in port.initial), self.values

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the kernels take: time, then the cells of states, inputs, parameters and variables."""
        ports = (*(state.port for state in self.states), *self.inputs, *self.parameters, *self.variables)
        return (TIME, *(name for port in ports for name in cell_names(port.name, port.size)))

    @cached_property
    def _local_cells(self) -> dict[str, Expr]:
        done: dict[str, Expr] = {}
        for name, cell in in_order(self.locals).items():
            done[name] = substitute(cell, done)
        return done

    @cached_property
    def derivatives(self) -> Kernel | None:
        """The derivative of every state cell; None if there is no state."""
        cells = [cell for state in self.states for cell in state.derivative.cells]
        return self._kernel(cells) if cells else None

    @cached_property
    def computed(self) -> Kernel:
        """The value of every output cell."""
        return self._kernel([cell for output in self.outputs for cell in output.definition.cells])

    @cached_property
    def indicators(self) -> Kernel:
        """The number that falls to zero when an event happens, for each event that has one."""
        found = (event.indicator for event in self.events)
        return Kernel(self.arguments, tuple(cell for cell in found if cell is not None))

    @cached_property
    def actions(self) -> Kernel:
        """For each event: the new values of the cells that it changes, then the cells that it sends.

        Takes the cells of the events that come in as well, after everything else.
        """
        cells = [
            cell
            for event in self.events
            for part in (
                (value for _, value in event.then),
                (cell for sending in event.emit for cell in (sending.present, *sending.cells)),
            )
            for cell in part
        ]
        heard = (name for port in self.heard for name in cell_names(port.name, port.size))
        return Kernel((*self.arguments, *heard), tuple(cells))

    def slope(self, output: str, input: str) -> Kernel:
        """The derivative of every cell of an output by every cell of an input, row by row; both are real.

        As far as locals depend on the input, through them. At a kink or a jump it is that of the branch which
        the expression takes there. By `TIME`: how fast the output changes while all inputs stay as they are.
        """
        made = next((known for known in self.outputs if known.port.name == output), None)
        given = next((known for known in self.inputs if known.name == input), None)
        if made is None:
            outputs = [known.port.name for known in self.outputs]
            raise ModelError(f"there is no output '{output}'. {suggest(output, outputs, 'outputs')}")
        if input == TIME and made.port.kind is Kind.REAL:
            cells = map(self.written_out, made.definition.cells)
            return self._kernel([time_derivative(cell, self.changes) for cell in cells])
        if given is None:
            inputs = [known.name for known in self.inputs]
            raise ModelError(f"there is no input '{input}'. {suggest(input, inputs, 'inputs')}")
        for port in (made.port, given):
            if port.kind is not Kind.REAL:
                raise ModelError(f"'{port.name}' is {port.kind.value}: only real values have slopes")
        rows = [self.written_out(cell) for cell in made.definition.cells]
        columns = cell_names(given.name, given.size)
        return self._kernel([differentiate(row, column) for row in rows for column in columns])

    @property
    def changes(self) -> dict[str, Expr]:
        """How fast each cell of a state changes."""
        return {
            name: self.written_out(cell)
            for state in self.states
            for name, cell in zip(
                cell_names(state.port.name, state.port.size), state.derivative.cells, strict=True
            )
        }

    def written_out(self, cell: Expr) -> Expr:
        """An expression without locals: over time, states, inputs, parameters and variables."""
        return substitute(cell, self._local_cells)

    def _kernel(self, cells: list[Expr]) -> Kernel:
        return Kernel(self.arguments, tuple(map(self.written_out, cells)))

    def steered(self, inputs: Collection[str]) -> frozenset[str]:
        """The outputs whose rate depends directly on one of these inputs: velocities, if they are forces."""
        given = {
            name for port in self.inputs if port.name in inputs for name in cell_names(port.name, port.size)
        }
        moved: set[str] = set()
        for state in self.states:
            named = zip(cell_names(state.port.name, state.port.size), state.derivative.cells, strict=True)
            moved |= {name for name, cell in named if not given.isdisjoint(self._needed(cell))}
        return frozenset(
            output.port.name
            for output in self.outputs
            if any(not moved.isdisjoint(self._needed(cell)) for cell in output.definition.cells)
        )

    def _needed(self, cell: Expr) -> frozenset[str]:
        return names(self.written_out(cell))

    def with_values(self, values: Mapping[str, Any]) -> Equations:
        """The same equations with other parameters, input starts or state starts."""
        state_ports = tuple(state.port for state in self.states)
        settable = (*self.parameters, *self.variables, *state_ports, *self.inputs)
        check_settable(values, [port.name for port in settable])
        made = {port.name: port for port in with_starts(settable, values)}
        changed = replace(
            self,
            inputs=tuple(made[port.name] for port in self.inputs),
            parameters=tuple(made[port.name] for port in self.parameters),
            variables=tuple(made[port.name] for port in self.variables),
            states=tuple(
                state if (port := made[state.port.name]) is state.port else replace(state, port=port)
                for state in self.states
            ),
        )
        changed.__dict__.update({name: self.__dict__[name] for name in _KERNELS & self.__dict__.keys()})
        return changed

    @property
    def _written_outputs(self) -> tuple[Output, ...]:
        """The outputs without the derivatives that go without saying."""
        bare = tuple(replace(output, port=replace(output.port, derivative=None)) for output in self.outputs)
        found = with_derivatives(bare, self.states)
        return tuple(
            less if output.port == more.port else output
            for output, less, more in zip(self.outputs, bare, found, strict=True)
        )

    def to_spec(self) -> dict[str, Any]:
        """The plain table that `read_equations` reads back; empty sections are left out."""
        sections: dict[str, dict[str, Any]] = {
            "states": {state.port.name: _state_spec(state) for state in self.states},
            "inputs": {port.name: port_spec(port) for port in (*self.inputs, *self.heard)},
            "outputs": {output.port.name: _output_spec(output) for output in self._written_outputs}
            | {port.name: port_spec(port) for port in self.sent},
            "parameters": {port.name: port_spec(port) for port in self.parameters},
            "variables": {port.name: variable_spec(port) for port in self.variables},
            "locals": {local.name: local.written for local in self.locals},
            "tables": {name: table_spec(table) for name, table in self.tables},
            "events": {event.name: dict(event.written) for event in self.events},
        }
        return {name: section for name, section in sections.items() if section or name == "outputs"}


_KERNELS = {"_local_cells", "derivatives", "computed", "indicators", "actions", "lowered"}
"""What follows from the expressions alone: values are arguments of the kernels."""


def in_order(definitions: tuple[Definition, ...]) -> dict[str, Expr]:
    """Every cell of the definitions, after those that it needs; a cycle is named.

    Cells, not whole arrays, need each other: a[1] may be computed from a[0].
    """
    cells = {
        name: cell
        for definition in definitions
        for name, cell in zip(cell_names(definition.name, definition.size), definition.cells, strict=True)
    }
    needs = {name: sorted(names(cell) & cells.keys()) for name, cell in cells.items()}
    try:
        return {name: cells[name] for name in TopologicalSorter(needs).static_order()}
    except CycleError as error:
        raise ModelError(f"these locals need each other: {' → '.join(reversed(error.args[1]))}") from None


def with_derivatives(outputs: tuple[Output, ...], states: tuple[State, ...]) -> tuple[Output, ...]:
    """The outputs with their derivatives where both are states given out by name: x' = v."""
    known = {state.port.name: state for state in states}
    given_out = {output.port.name for output in outputs}

    def derivative(name: str) -> str | None:
        if name not in known:
            return None
        first = known[name].derivative.cells[0]
        other = first.id.partition("[")[0] if isinstance(first, Name) else ""
        if other not in known or other not in given_out or known[other].port.size != known[name].port.size:
            return None
        cells = tuple(Name(cell) for cell in cell_names(other, known[other].port.size))
        return other if known[name].derivative.cells == cells else None

    return tuple(
        replace(output, port=replace(output.port, derivative=derivative(output.port.name)))
        if output.port.derivative is None and output.port.kind is Kind.REAL
        else output
        for output in outputs
    )


def _state_spec(state: State) -> Any:
    entry: dict[str, Any] = {"der": state.derivative.written}
    if state.port.start is not None:
        entry["start"] = plain(state.port, state.port.start)
    if state.port.unit is not None:
        entry["unit"] = state.port.unit
    if state.port.description:
        entry["description"] = state.port.description
    return entry["der"] if entry.keys() == {"der"} else entry


def variable_spec(port: Port) -> dict[str, Any]:
    """A discrete variable as it is written."""
    given = port_spec(port)
    more = {key: value for key, value in given.items() if key != "value"} if isinstance(given, dict) else {}
    return {"start": plain(port, port.initial), **more}


def _output_spec(output: Output) -> Any:
    rest = {key: value for key, value in port_spec(output.port).items() if key != "size"}
    return {"value": output.definition.written, **rest} if rest else output.definition.written


def table_spec(table: Table1 | Table2) -> dict[str, Any]:
    """An interpolation table as it is written."""
    spec: dict[str, Any] = {"x": list(table.x), "y": list(table.y)}
    if isinstance(table, Table2):
        spec["z"] = [list(row) for row in table.z]
    for key, default in (("mode", "linear"), ("extrapolate", "constant")):
        if getattr(table, key) != default:
            spec[key] = getattr(table, key)
    return spec
