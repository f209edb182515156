"""A scenario as bytes: the tables that the native core reads from the resources of an FMU.

The layout is that of native/export/tables.cpp: whole numbers and the bits of doubles as words of eight bytes,
little-endian; texts and lists with their length before them. Models enter as they enter the core (`Core`), and
leave their tables here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from upbeat.core.abilities import Native
from upbeat.core.errors import FileProblem
from upbeat.core.expr import Kernel, Table1
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.engine.native.entry import Inside
from upbeat.engine.native.lower import KINDS, Tables, lower, slopes_asked
from upbeat.units import OdeTables
from upbeat.units.equations.data import Numbers
from upbeat.units.equations.lowered import PortTable, SolverTable
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import CoSimulation, Variable
from upbeat.units.fmi.instance import TYPES
from upbeat.units.fmi.library import chosen_library
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.ports import has_events, reshaped, sizes_of
from upbeat.units.fmi.tables import FmuTables, can_follow, lower_exchange
from upbeat.units.fmi.tables import lower as lower_fmu

if TYPE_CHECKING:
    from upbeat.units.discrete.unit import Assigning, DiscreteTables, Piece

VERSION = 1
ODE, HYBRID, DISCRETE, NESTED, FMU = range(5)
"""The kinds of unit."""


class Bytes:
    """Words, texts and lists, one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def done(self) -> bytes:
        return b"".join(self._parts)

    def whole(self, value: int) -> None:
        self._parts.append(struct.pack("<q", int(value)))

    def real(self, value: float) -> None:
        self._parts.append(struct.pack("<d", value))

    def text(self, value: str) -> None:
        data = value.encode()
        self.whole(len(data))
        self._parts.append(data)

    def wholes(self, values: Iterable[int]) -> None:
        found = [int(v) for v in values]
        self._parts.append(struct.pack(f"<q{len(found)}q", len(found), *found))

    def reals(self, values: Iterable[float]) -> None:
        found = [float(v) for v in values]
        self._parts.append(struct.pack(f"<q{len(found)}d", len(found), *found))

    def texts(self, values: Sequence[str]) -> None:
        self.each(values, self.text)

    def each(self, values: Sequence[Any], write: Callable[[Any], None]) -> None:
        """A list of anything."""
        self.whole(len(values))
        for value in values:
            write(value)

    def append(self, other: bytes) -> None:
        self._parts.append(other)


class WrittenCore:
    """The `Core` of `upbeat.core.abilities` to which models give their tables, to be written; the result of each is
    its bytes. Kernels that are equal are written once."""

    def __init__(self) -> None:
        self.kernels = Bytes()
        self.count = 0
        self._known: dict[Any, int] = {}
        self.slopes: Sequence[tuple[str, str]] = ()
        self.folders = FmuFolders()

    # ------------------------------------------------------------ kernels

    def kernel(self, kernel: Kernel) -> int:
        """The number of a kernel."""
        key = kernel.n_inputs, repr(kernel.constants), kernel.code, kernel.results, kernel.tables
        if key not in self._known:
            self._known[key] = self.count
            self.count += 1
            to = self.kernels
            to.whole(kernel.n_inputs)
            to.reals(kernel.constants)
            to.wholes(number for row in kernel.code for number in row)
            to.wholes(kernel.results)
            to.each(kernel.tables, self._lookup)
        return self._known[key]

    def _lookup(self, table: Any) -> None:
        if isinstance(table, Table1):
            knots, origin, base, slope = table.lowered
            pairs = [value for pair in zip(base, slope, strict=True) for value in pair]
            parts: Sequence[Sequence[float]] = (knots, (), origin, (), pairs)
        else:
            parts = table.lowered
        for part in parts:
            self.kernels.reals(part)

    # ------------------------------------------------------------ units

    def ode(self, tables: OdeTables, values: Numbers) -> bytes:
        """A unit given by equations."""
        to = Bytes()
        to.whole(ODE if tables.reactions is None else HYBRID)
        for ports in (tables.inputs, tables.outputs, tables.tunable):
            to.each(ports, lambda port: _port(to, port))
        for numbers in values:
            to.reals(numbers)
        to.whole(-1 if tables.derivatives is None else self.kernel(tables.derivatives))
        to.whole(self.kernel(tables.compute))
        to.wholes(n for y, u, kernel in tables.slopes for n in (y, u, self.kernel(kernel)))
        _solver(to, tables.solver)
        to.each(tables.others, lambda solver: _solver(to, solver))
        to.whole(tables.chooser)
        if tables.reactions is None:
            return to.done()
        plan = tables.reactions
        for ports in (tables.heard, tables.sent):
            to.each(ports, lambda port: _port(to, port))
        to.whole(len(plan.events))
        for event in plan.events:
            to.text(event.name)
            to.whole(event.indicator)
            to.wholes(event.on)
            to.wholes(n for pair in event.writes for n in pair)
            to.wholes(n for one in event.sends for n in (one.port, one.first))
        to.wholes(plan.mutable)
        to.whole(self.kernel(plan.indicators))
        to.whole(self.kernel(plan.actions))
        return to.done()

    def discrete(self, tables: DiscreteTables) -> bytes:
        """A discrete-event unit."""
        to = Bytes()
        to.whole(DISCRETE)
        for ports in (tables.inputs, tables.heard, tables.outputs, tables.sent):
            to.each(
                ports, lambda one: to.append(struct.pack("<3q", one[1].cells, KINDS[one[1].kind], one[0]))
            )
        to.wholes(KINDS[kind] for kind in tables.kinds)
        for numbers in (tables.start, tables.input_start, tables.parameters):
            to.reals(numbers)
        to.whole(tables.mode)
        to.whole(len(tables.modes))
        for mode in tables.modes:
            self._piece(to, mode.due)
            self._piece(to, mode.emissions)
            to.wholes(mode.emitted)
            self._assigning(to, mode.internal)
            self._assigning(to, mode.external)
        self._piece(to, tables.compute)
        return to.done()

    def _piece(self, to: Bytes, piece: Piece) -> None:
        to.whole(self.kernel(piece.kernel))
        to.wholes(piece.places)

    def _assigning(self, to: Bytes, code: Assigning) -> None:
        self._piece(to, code.piece)
        to.wholes(code.to)

    def addresses(self, functions: Mapping[str, int], pointer: int) -> bytes:
        """Machine code that lies somewhere in this process stays there."""
        raise AssertionError("refused before")

    def table(self, address: int) -> bytes:
        """So does this."""
        raise AssertionError("refused before")

    def nested(self, inside: Inside, start: float) -> bytes:
        """A scenario with a loop of its own."""
        to = Bytes()
        to.whole(NESTED)
        self.program(to, inside, start)
        return to.done()

    def program(self, to: Bytes, inside: Inside, start: float) -> Tables:
        """A program with its units."""
        tables = lower(inside.program, inside.models)
        places = inside.places({unit: number for number, unit in enumerate(tables.units)})
        self._tables(to, tables)
        to.wholes(n for place in places for n in place)
        to.texts([inside.paths.get(unit, unit) for unit in tables.units])
        to.whole(tables.blocks["exchange"])
        to.whole(int(tables.takes_inputs))
        slopes = slopes_asked(inside.program)
        to.whole(len(inside.models))
        for name, model in inside.models.items():
            self.slopes = slopes.get(name, ())
            assert isinstance(model, Native)
            unit: Any = model.enter(self, name, start)
            to.append(unit)
        return tables

    def fmu(self, model: Fmu, name: str, start: float) -> bytes:
        """An FMU, which is not made here."""
        return fmu_bytes(model, name, self.folders.place(name, model), start)

    def _tables(self, to: Bytes, tables: Tables) -> None:
        to.wholes(tables.start)
        to.wholes(tables.kinds)
        to.texts(tables.strings)
        to.wholes(number for row in tables.code.tolist() for number in row)
        to.wholes(tables.entries)
        to.wholes(tables.operands)
        to.wholes(self.kernel(kernel) for kernel in tables.kernels)
        to.whole(len(tables.expressions))
        for number, source, target in tables.expressions:
            to.whole(number)
            to.wholes(source)
            to.wholes(target)
        for number in (
            tables.start_block, tables.instant_block, tables.now, tables.next, tables.due, tables.stops, tables.ends,
            tables.budget, tables.slots, tables.loops,
        ):  # fmt: skip
            to.whole(number)
        assert tables.pace is not None
        cells, blocks, steps, reasons = tables.pace
        to.wholes(cells)
        to.wholes(blocks)
        to.wholes(steps)
        to.wholes(int(number) for reason in reasons for number in reason)


def _port(to: Bytes, port: PortTable) -> None:
    to.append(struct.pack("<3q", port.cells, KINDS[port.kind], port.port))


def _solver(to: Bytes, solver: SolverTable) -> None:
    to.whole(solver.code)
    to.whole(solver.steps)
    to.whole(solver.max_steps)
    for number in (solver.step, solver.rtol, solver.atol, solver.first, solver.longest):
        to.real(number)
    for numbers in (solver.c, solver.a, solver.b, solver.e, solver.d):
        to.reals(numbers)


# ----------------------------------------------------------------------------------------------------
# FMUs inside.


class FmuFolders:
    """The folders in `resources` where inner FMUs lie unpacked: those of one file share one."""

    def __init__(self) -> None:
        self.models: dict[str, Fmu] = {}
        self._names: dict[Path, str] = {}

    def place(self, unit: str, model: Fmu) -> str:
        """The folder of a unit's FMU."""
        if model.path not in self._names:
            name, count = unit, 2
            while name in self.models:
                name, count = f"{unit}_{count}", count + 1
            self._names[model.path] = name
            self.models[name] = model
        return self._names[model.path]


class FmuStart(NamedTuple):
    """A value that an FMU starts with and that may be another one: of a parameter or an input."""

    port: Port
    variable: Variable
    given: bool
    """Whether somebody gave it; the FMU knows its own."""


def fmu_starts(model: Fmu) -> list[FmuStart]:
    """What of an FMU may get other values at the start, in the order of its ports."""
    given = {name for name, _ in model.starts}
    found = []
    for port in model.ports:
        variable = model.layout.variables.get(port.name)
        if variable is None or port.kind is Kind.STRING or port.event or port.internal:
            continue
        if port.causality is Causality.OUTPUT or variable.causality is Role.STRUCTURAL_PARAMETER:
            continue
        found.append(FmuStart(port, variable, port.name in given))
    return found


class _Described:
    """What `lower` asks of an instance, from the description alone."""

    def __init__(self, model: Fmu) -> None:
        self.description = model.description
        self.interface = model.interface

    def sizes(self) -> tuple[int, int]:
        found = self.description
        states = sum(found.by_name[name].cells for name in found.states)
        return states, found.event_indicator_count


def fmu_bytes(model: Fmu, name: str, folder: str, start: float) -> bytes:
    """An FMU: where it lies, how it is made, and the unit of it."""
    description, interface = model.description, model.interface
    co_simulation = interface if isinstance(interface, CoSimulation) else None
    described: Any = _Described(model)
    tables: Any
    if co_simulation is not None:
        counted = len(model.layout.ports) if model.counted else -1
        tables = lower_fmu(described, model.layout, start, model.step, counted)
    else:
        tables = lower_exchange(
            described, model.layout, model.ports, start, model.step, model.effective_solver
        )
    to = Bytes()
    to.whole(FMU)
    try:
        library = chosen_library(model.path, description.version, interface.model_identifier)
    except FileProblem as error:
        raise FileProblem(f"'{name}' ({model.path.name}) cannot come along: {error}") from None
    for text in (name, folder, library, description.token):
        to.text(text)
    to.whole(description.version)
    to.whole(int(co_simulation is None))
    inputs = [variable for _, variable in model.layout.of(Causality.INPUT)]
    followed = [v for v in inputs if description.version == 3 and can_follow(description, interface, v)]
    to.whole(int(co_simulation is not None and has_events(description, interface)))
    to.whole(int(co_simulation is not None and co_simulation.may_return_early))
    to.wholes(variable.reference for variable in followed)
    stop = model.stop if model.stop is not None and model.stop > start else None
    for number in (stop, model.solver_tolerance):
        to.whole(int(number is not None))
        to.real(0.0 if number is None else number)
    starts = dict(model.starts)
    sizes = sizes_of(description, starts)
    changeable = fmu_starts(model)
    fixed = {
        name: values for name, values in starts.items() if name not in {one.port.name for one in changeable}
    }
    to.whole(len(fixed))
    for given, values in fixed.items():
        variable = reshaped(description.by_name[given], sizes)
        to.whole(int(variable.causality is Role.STRUCTURAL_PARAMETER))
        _variable(to, TYPES[variable.type], variable.reference, len(values), given)
        to.each(values, lambda value: _value(to, value))
    to.whole(len(changeable))
    for one in changeable:
        to.whole(int(one.given))
        _variable(to, TYPES[one.variable.type], one.variable.reference, one.port.cells, one.port.name)
        to.reals(float(v) for v in one.port.initial)
    _fmu_tables(to, tables)
    if co_simulation is None:
        to.wholes((tables.states, tables.indicators, int(tables.completes), tables.shown))
        to.reals(tables.input_start)
        to.wholes(tables.held_start)
        to.texts(tables.texts)
        _solver(to, tables.solver)
    return to.done()


def _fmu_tables(to: Bytes, tables: FmuTables) -> None:
    to.real(tables.start)
    to.real(tables.grid)
    to.wholes(
        map(
            int,
            (
                tables.event_mode,
                tables.saves,
                tables.serialises,
                tables.steady,
                tables.adjoint,
                tables.counted,
            ),
        )
    )
    to.whole(len(tables.ports))
    for port in tables.ports:
        _variable(to, port.type, port.reference, port.cells, port.name)
        flags = (port.input, port.event, port.followed, port.discrete, port.tunable)
        to.wholes((port.port, port.order, *map(int, flags)))
        to.wholes(port.clocks)
    to.whole(len(tables.clocks))
    for clock in tables.clocks:
        to.whole(clock.reference)
        to.text(clock.name)
        to.whole(clock.interval)
        for number in (clock.length, clock.shift, clock.resolution):
            to.real(number)


def _variable(to: Bytes, kind: int, reference: int, cells: int, name: str) -> None:
    to.wholes((kind, reference, cells))
    to.text(name)


def _value(to: Bytes, value: Value) -> None:
    """A start value: whether it is a text, and that; or its bits as a real or a whole number."""
    if isinstance(value, str):
        to.whole(1)
        to.text(value)
    else:
        to.whole(0)
        to.real(value) if isinstance(value, float) else to.whole(int(value))


# ----------------------------------------------------------------------------------------------------


class VariableRow(NamedTuple):
    """A variable as scenario.h has it (`scenario_variable`)."""

    role: int
    kind: int
    port: int
    cell: int
    cells: int
    width: int
    value: int
    rate: int


class Outside(NamedTuple):
    """What an exported scenario has besides its program: `ScenarioTables` in native/export/tables.hpp."""

    token: str
    variables: Sequence[VariableRow]
    values: Sequence[tuple[Kind, Value]]
    start: float
    length: float
    any_start: bool = True
    exchange: bool = False
    events: Sequence[str] = ()
    blocks: list[int] = []  # noqa: RUF012
    """By port: the block that computes it, or -1."""
    slopes: Sequence[tuple[int, int, int, int]] = ()
    """The ports of an output and an input, the first cell of the derivatives, and how many there are."""
    slopes_block: int = -1
    directional: int = -1
    """Model exchange: the kernel of directional derivatives."""


def scenario_bytes(core: WrittenCore, body: bytes, outside: Outside) -> bytes:
    """The whole file: kernels, the program (`body`) and what its variables are."""
    to = Bytes()
    to.text("upbeat scenario")
    to.whole(VERSION)
    to.text(outside.token)
    to.whole(int(outside.exchange))
    to.whole(core.count)
    to.append(core.kernels.done())
    to.append(body)
    to.wholes(number for row in outside.variables for number in row)
    to.whole(len(outside.values))
    for kind, value in outside.values:
        to.real(float(value)) if kind is Kind.REAL else to.whole(int(value))
    to.texts(())
    to.texts(outside.events)
    to.wholes(outside.blocks)
    to.wholes(number for slope in outside.slopes for number in slope)
    to.whole(outside.slopes_block)
    to.whole(int(outside.any_start))
    to.real(outside.start)
    to.real(outside.length)
    to.whole(outside.directional)
    return to.done()
