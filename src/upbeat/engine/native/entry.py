"""How units enter the native core: equations, C functions by address, Python by callback, scenarios whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from upbeat.core.abilities import Model, Native, Unit
from upbeat.core.expr import Kernel, Table, Table1
from upbeat.core.ports import Causality, Port
from upbeat.core.records import dataclass
from upbeat.engine.native.errors import Names
from upbeat.engine.native.lower import KINDS, Tables, lower, slopes_asked
from upbeat.master.program import Program

if TYPE_CHECKING:
    from upbeat import _native
    from upbeat.units import OdeTables
    from upbeat.units.discrete.unit import Assigning, DiscreteTables, ModePieces, Piece
    from upbeat.units.equations.data import Numbers
    from upbeat.units.equations.lowered import PortTable


@dataclass(frozen=True)
class Inside:
    """All that the native core needs to run a nested scenario (see `Core.nested`)."""

    program: Program
    models: Mapping[str, Model]
    ports: tuple[Port, ...]
    """Of the nested unit."""
    inputs: Mapping[str, tuple[str, Port]]
    """The inputs, and the parameters, with the unit and the port that they are inside."""
    paths: Mapping[str, str]
    """What people call the units inside, where that is not their name."""

    def places(self, units: Mapping[str, int]) -> list[tuple[int, int, int]]:
        """Every port as the core takes it (native/src/nested.hpp), for units of these numbers."""
        found = []
        for port in self.ports:
            if port.causality is Causality.PARAMETER and port.name not in self.inputs:
                found.append((-1, self.program.now, port.cells))  # written into the program: it is never set
            elif port.causality is not Causality.OUTPUT:
                unit, inner = self.inputs[port.name]
                number = [p.name for p in self.models[unit].ports].index(inner.name)
                found.append((units[unit], number, port.cells))
            else:
                found.append((-1, self.program.columns[port.name].register, port.cells))
        return found


# ----------------------------------------------------------------------------------------------------
# How units enter the native core: equations, C functions by address, Python by callback, scenarios whole.

_WORTH_COMPILING = 8
"""The fewest rows of a piece of a discrete unit for which machine code is made: there may be hundreds of
pieces, each takes milliseconds to compile, and a few rows are as quick in the core's own evaluator."""


class Entry:
    """Turns the models of one machine into what the core takes; equal kernels become one.

    This is the `Core` of `upbeat.core.abilities` that models meet in their `enter`.
    """

    def __init__(self, jit: bool) -> None:
        self._jit = jit
        self._kernels: dict[Any, _native.Kernel] = {}
        self._odes: dict[int, tuple[OdeTables, _native.Ode | _native.Hybrid]] = {}
        """Units that have entered, by the identity of their tables: others have only other values."""
        self.slopes: Sequence[tuple[str, str]] = ()
        self.compiled: dict[Any, Any] = {}
        """Machine code, to be kept as long as the machine may run it."""

    def asked(self, slopes: Sequence[tuple[str, str]]) -> Entry:
        """The same entry for a unit of which the program asks these slopes."""
        if not slopes and not self.slopes:
            return self
        entry = copy(self)
        entry.slopes = slopes
        return entry

    def kernel(self, kernel: Kernel) -> _native.Kernel:
        """The kernel as checked tables."""
        from upbeat import _native

        key = _key(kernel)
        if key not in self._kernels:
            self._kernels[key] = _native.Kernel(
                kernel.n_inputs,
                np.array(kernel.constants, np.float64),
                np.array(kernel.code, np.int32).reshape(-1, 5),
                np.array(kernel.results, np.int32),
                [_lookup(table) for table in kernel.tables],
            )
        return self._kernels[key]

    def _address(self, kernel: Kernel) -> int:
        if not self._jit:
            return 0
        from upbeat.core.expr.jit import compile

        key = _key(kernel)
        if key not in self.compiled:
            self.compiled[key] = compile(kernel)
        return int(self.compiled[key].address)

    def ode(self, tables: OdeTables, values: Numbers) -> _native.Ode | _native.Hybrid:
        """A unit given by equations, with these values in place of those in the tables."""
        if id(tables) not in self._odes:
            made = self._ode(tables) if tables.reactions is None else self._hybrid(tables)
            self._odes[id(tables)] = tables, made
        return self._odes[id(tables)][1].with_values(*values)

    def _ode(self, tables: OdeTables) -> _native.Ode:
        from upbeat import _native

        derivatives = tables.derivatives
        return _native.Ode(
            inputs=_tables(tables.inputs),
            outputs=_tables(tables.outputs),
            states=list(tables.start),
            input_start=[value for port in tables.inputs for value in port.start],
            parameters=list(tables.parameters),
            derivatives=None if derivatives is None else self.kernel(derivatives),
            compute=self.kernel(tables.compute),
            slopes=[(y, u, self.kernel(kernel), self._address(kernel)) for y, u, kernel in tables.slopes],
            solver=tables.solver,
            compiled_derivatives=0 if derivatives is None else self._address(derivatives),
            compiled_compute=self._address(tables.compute),
            others=tables.others,
            chooser=tables.chooser,
            tunable=_tables(tables.tunable),
        )

    def _hybrid(self, tables: OdeTables) -> _native.Hybrid:
        from upbeat import _native

        plan = tables.reactions
        assert plan is not None
        return _native.Hybrid(
            ode=self._ode(tables),
            heard=_tables(tables.heard),
            sent=_tables(tables.sent),
            events=[
                (one.name, one.indicator, one.on, one.writes, tuple((s.port, s.first) for s in one.sends))
                for one in plan.events
            ],
            changing=list(plan.mutable),
            indicators=self.kernel(plan.indicators),
            actions=self.kernel(plan.actions),
            compiled_indicators=self._address(plan.indicators),
            compiled_actions=self._address(plan.actions),
        )

    def discrete(self, tables: DiscreteTables) -> _native.Discrete:
        """A discrete-event unit."""
        from upbeat import _native

        return _native.Discrete(
            inputs=_ports(tables.inputs),
            heard=_ports(tables.heard),
            outputs=_ports(tables.outputs),
            sent=_ports(tables.sent),
            kinds=[KINDS[kind] for kind in tables.kinds],
            start=list(tables.start),
            input_start=list(tables.input_start),
            parameters=list(tables.parameters),
            mode=tables.mode,
            modes=[self._mode(mode) for mode in tables.modes],
            compute=self._piece(tables.compute),
        )

    def _mode(self, mode: ModePieces) -> _native.Mode:
        due, emissions = self._piece(mode.due), self._piece(mode.emissions)
        internal, external = self._assigning(mode.internal), self._assigning(mode.external)
        return due, emissions, list(mode.emitted), internal, external

    def _assigning(self, code: Assigning) -> _native.Assigning:
        return self._piece(code.piece), list(code.to)

    def _piece(self, piece: Piece) -> _native.Piece:
        worth = len(piece.kernel.code) >= _WORTH_COMPILING
        address = self._address(piece.kernel) if worth else 0
        return self.kernel(piece.kernel), list(piece.places), address

    def addresses(self, functions: Mapping[str, int], pointer: int) -> _native.Addresses:
        """A unit whose functions the core calls with `pointer`; the core destroys it in the end."""
        from upbeat import _native

        return _native.Addresses(pointer, **functions)

    def table(self, address: int) -> _native.Addresses:
        """A unit whose `upbeat_unit` (unit.h) lies at `address`; the core copies the table."""
        from upbeat import _native

        return _native.Addresses(address)

    def nested(self, inside: Inside, start: float) -> _native.Nested:
        """A unit that is a scenario with a loop of its own; all units inside must be native."""
        from upbeat import _native

        tables = lower(inside.program, inside.models)
        slopes = slopes_asked(inside.program)
        entered = {
            name: self.asked(slopes.get(name, ()))._entered(name, model, start)
            for name, model in inside.models.items()
        }
        return _native.Nested(
            tables=tables,
            kernels=[self.kernel(kernel) for kernel in tables.kernels],
            units=list(entered.values()),
            ports=inside.places({unit: number for number, unit in enumerate(tables.units)}),
            names=names_of(tables, inside.models, entered, inside.paths),
        )

    def _entered(self, name: str, model: Model, start: float) -> object:
        assert isinstance(model, Native)
        return model.enter(self, name, start)

    def callback(self, model: Model, unit: Unit) -> _native.Python:
        """A unit that the core calls back."""
        from upbeat import _native

        sizes = [-1 if port.size is None else port.size for port in model.ports]
        ports = [
            (port.name, KINDS[port.kind], size, port.event)
            for port, size in zip(model.ports, sizes, strict=True)
        ]
        return _native.Python(unit, ports)


def names_of(
    tables: Tables, models: Mapping[str, Model], entered: Mapping[str, object], paths: Mapping[str, str]
) -> Names:
    """The names for what the core says about a machine with these units."""
    from upbeat import _native

    return Names(
        tables,
        {(unit, port.name): port for unit, model in models.items() for port in model.ports},
        frozenset(name for name, unit in entered.items() if isinstance(unit, _native.Addresses)),
        {name: unit.names for name, unit in entered.items() if isinstance(unit, _native.Nested)},
        paths,
        {name: unit.complaints for name, unit in entered.items() if isinstance(unit, _native.Fmu)},
    )


def _tables(ports: Sequence[PortTable]) -> _native.Ports:
    return [(port.cells, KINDS[port.kind], port.port) for port in ports]


def _ports(ports: Sequence[tuple[int, Port]]) -> _native.Ports:
    return [(port.cells, KINDS[port.kind], number) for number, port in ports]


def _key(kernel: Kernel) -> tuple[Any, ...]:
    """What makes two kernels the same code. Constants as text, because 0.0 and -0.0 are different ones."""
    return kernel.n_inputs, repr(kernel.constants), kernel.code, kernel.results, kernel.tables


def _lookup(table: Table) -> tuple[list[float], ...]:
    if isinstance(table, Table1):
        knots, origin, base, slope = table.lowered
        pairs = [value for pair in zip(base, slope, strict=True) for value in pair]
        return list(knots), [], list(origin), [], pairs
    return tuple(list(part) for part in table.lowered)
