"""The registers of a scenario's ports, and what is known about them before a program is written.

An input whose connection is a plain copy shares the register of its source: coupling two ports costs one
`Get` and one `Set`, nothing in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from upbeat.core.abilities import Ability
from upbeat.core.expr import Cell, Expr, Op, apply, substitute
from upbeat.core.expr import cells as expr_cells
from upbeat.core.ports import Causality, Kind, Port
from upbeat.master.inputs.approximation import Approximation, Hold
from upbeat.master.inputs.derivatives import rate
from upbeat.master.program import Let, Reg
from upbeat.master.registers import Registers
from upbeat.scenario.events.watcher import looks_at_instants
from upbeat.scenario.scenario import Scenario

End = tuple[str, str]
"""A port in the scenario: (unit, port)."""


class Interval(NamedTuple):
    """The registers of the two ends of a step, or of a part of one."""

    now: Reg
    next: Reg


class PortRegisters:
    """Registers for all ports of a closed scenario, for the outputs it has itself, and for the time."""

    def __init__(
        self, scenario: Scenario, default: Approximation, special: Mapping[str, Approximation]
    ) -> None:
        self.scenario = scenario
        self.registers = Registers()
        self.now = self.registers.new("now")
        self.next = self.registers.new("next")
        self.whole = Interval(self.now, self.next)
        self._default = default
        self._special = special
        self._ports: dict[End, Port] = {
            (unit, port.name): port for unit, model in scenario.units.items() for port in model.ports
        }
        self.outputs: dict[End, Reg] = {}
        self.inputs: dict[End, Reg] = {}
        self._homes: dict[Reg, tuple[Reg, Kind]] = {}
        self._extra: set[Reg] = set()
        self._outputs_of: dict[str, list[End]] = {unit: [] for unit in scenario.units}
        self._connected: dict[str, list[End]] = {unit: [] for unit in scenario.units}
        self._lets: dict[End, tuple[Let, ...]] = {}
        self._rates: dict[End, tuple[Reg, ...]] = {}
        self._unsure: set[End] = set()
        self._direct = {(unit, name) for (unit, _), port in self._ports.items() for name in port.depends}
        self._direct |= {end for end in self._ports if self.reacts(end[0])}
        self.names: dict[str, Expr] = {}
        """What a name in a connection stands for: the cell of an output."""
        names = self.names
        used = {source for connection in scenario.connections for source in connection.sources}
        used |= {source for output in scenario.outputs for source in output.sources}
        for end, port in self._ports.items():
            if port.extra and end not in used:
                continue
            if port.causality is Causality.OUTPUT and not port.event:
                self.outputs[end] = self._register(end, port)
                self._outputs_of[end[0]].append(end)
                names.update(cell_names(".".join(end), self.outputs[end], port))
                first = self.outputs[end]
                cells = range(first, first + port.cells)
                self._homes.update(dict.fromkeys(cells, (first, port.kind)))
                if port.extra:
                    self._extra.update(cells)
        self._counts = {end[0]: end for end in self.outputs if self._ports[end].counts}
        self._predictable = {unit for (unit, _), port in self._ports.items() if port.indicates}
        for connection in scenario.connections:
            end = (connection.unit, connection.port)
            formulas = tuple(substitute(cell, names) for cell in connection.cells)
            self._connected[connection.unit].append(end)
            self._connect(end, formulas)
            if any(self._ports[source].extra for source in connection.sources if source in self._ports):
                self._unsure.add(end)
            self._rates[end] = self._derived(end, connection.cells, names)
        for end, port in self._ports.items():
            if port.causality is Causality.INPUT and not port.event and end not in self.inputs:
                self.inputs[end] = self._register(end, port)
        self._reached = {unit: self.registers.new(f"{self.called(unit)}′reached") for unit in scenario.units}
        self.results: dict[str, Reg] = {}
        self.happened: Reg | None = None
        """Where instants are counted, if that is asked from outside."""
        self._result_lets: list[Let] = []
        for output in scenario.outputs:
            formulas = tuple(substitute(cell, names) for cell in output.cells)
            if output.port.counts and any(map(self.reacts, scenario.units)):
                self.happened = self.registers.new("instants", Kind.INTEGER)
                formulas = (formulas[0] + Cell(self.happened),)
            shared = self._shared(formulas, output.port)
            if shared is None:
                origin, name = scenario.origin, output.port.name
                known = name if origin is None else origin.columns.get(("", name), name)
                shared = self.registers.new(
                    f"output {known}", output.port.kind, output.port.cells, output.port.initial
                )
                self._result_lets += [Let(shared + i, cell) for i, cell in enumerate(formulas)]
            self.results[output.port.name] = shared

    def called(self, unit: str) -> str:
        """What people call a unit: ``car.mass`` if it was inside the nested ``car``."""
        origin = self.scenario.origin
        return unit if origin is None else origin.paths.get(unit, unit)

    def label(self, end: End) -> str:
        """What people call a port; also the name of its register."""
        return f"{self.called(end[0])}.{end[1]}"

    def _register(self, end: End, port: Port) -> Reg:
        return self.registers.new(self.label(end), port.kind, port.cells, port.initial)

    def _connect(self, end: End, cells: tuple[Expr, ...]) -> None:
        port = self._ports[end]
        unsure = bool(self._extra) and any(not self._extra.isdisjoint(expr_cells(c)) for c in cells)
        shared = None if unsure else self._shared(cells, port)
        if shared is None:
            shared = self._register(end, port)
            if unsure:  # what is not known is not handed on: the input keeps what it has
                cells = tuple(
                    apply(Op.WHERE, apply(Op.EQ, cell, cell), cell, Cell(shared + i))
                    for i, cell in enumerate(cells)
                )
            self._lets[end] = tuple(Let(shared + i, cell) for i, cell in enumerate(cells))
        self.inputs[end] = shared

    def _derived(self, end: End, cells: tuple[Expr, ...], names: Mapping[str, Expr]) -> tuple[Reg, ...]:
        """Registers of as many time derivatives of an input as its approximation wants."""
        port, found = self._ports[end], []
        for order in range(1, self.approximation(end).derivatives + 1):
            cells = tuple(rate(cell, self._ports, self.label(end)) for cell in cells)
            bound = tuple(substitute(cell, names) for cell in cells)
            shared = self._shared(bound, port)
            if shared is None:
                shared = self.registers.new(f"{self.label(end)}{'′' * order}", size=port.cells)
                lets = tuple(Let(shared + i, cell) for i, cell in enumerate(bound))
                self._lets[end] = self._lets.get(end, ()) + lets
            found.append(shared)
        return tuple(found)

    def _shared(self, cells: tuple[Expr, ...], port: Port) -> Reg | None:
        """The register that `cells` merely copies, if it is one of the same kind."""
        first = cells[0]
        if not isinstance(first, Cell):
            return None
        same = all(isinstance(c, Cell) and c.index == first.index + i for i, c in enumerate(cells))
        if not same or self._homes[first.index][1] is not port.kind:
            return None
        # all of one output: neighbours by chance may have different rates
        one = self._homes[first.index] == self._homes[first.index + len(cells) - 1]
        return first.index if one else None

    def port(self, end: End) -> Port:
        return self._ports[end]

    @property
    def ports(self) -> Mapping[End, Port]:
        """All ports."""
        return self._ports

    def kind(self, name: str) -> Kind:
        """Of what kind a cell of an output is, by its name in `names`."""
        cell = self.names[name]
        assert isinstance(cell, Cell)
        return self._homes[cell.index][1]

    def known(self, end: End) -> tuple[Reg, ...]:
        """The registers of a connected input's value, and of the derivatives its approximation wants."""
        return (self.inputs[end], *self._rates[end])

    def unsure(self, end: End) -> bool:
        """Whether derivatives of an input are not known at all times."""
        return end in self._unsure and bool(self._rates[end])

    def count(self, unit: str) -> End | None:
        """The output in which a unit counts the events inside it, if it does."""
        return self._counts.get(unit)

    def counts(self, end: End) -> tuple[Reg, ...]:
        """The registers in which the units that an input follows, at once or through outputs that depend
        directly on others, count the events inside them."""
        return tuple(sorted(self.outputs[self._counts[unit]] for unit in self._counted(end)))

    def within(self, end: End) -> bool:
        """Whether steps do not end at the events that units count which an input follows: one of these does
        not give out what leads to them."""
        return not self._counted(end) <= self._predictable

    def _counted(self, end: End) -> set[str]:
        """The units that count the events inside them, of those that an input follows."""
        return self.scenario.graph.followed([end]) & self._counts.keys() if self._counts else set()

    def connected(self, unit: str) -> list[End]:
        """The unit's inputs that have a source."""
        return self._connected[unit]

    def outputs_of(self, unit: str) -> list[End]:
        """The unit's outputs."""
        return self._outputs_of[unit]

    def direct(self, end: End) -> bool:
        """Whether some output, or what the unit has to do, depends on this input at the same instant."""
        return end in self._direct

    def reacts(self, unit: str) -> bool:
        """Whether a unit may have something to do as soon as its inputs change."""
        return Ability.NEXT_EVENT in self.scenario.units[unit].abilities

    def reached(self, unit: str) -> Reg:
        """The register with the time that a unit has reached."""
        return self._reached[unit]

    def approximation(self, end: End) -> Approximation:
        """What was chosen for an input; only real ones can be anything but held.

        What watches for events looks at instants only, and needs no trajectory.
        """
        looking = looks_at_instants(self.scenario.units[end[0]])
        if self._ports[end].kind is not Kind.REAL or looking:
            return Hold()
        return self._special.get(".".join(end), self._default)


def cell_names(name: str, first: Reg, port: Port) -> Iterable[tuple[str, Expr]]:
    """What equations call the cells of a port, and which ones these are."""
    yield name, Cell(first)
    if port.size is not None:
        for i in range(port.size):
            yield f"{name}[{i}]", Cell(first + i)
