"""Event wiring: the registers of event ports, and what an event on its way from unit to unit becomes.

An event output has a register for its value and, right after it, one that says whether it is present. What
arrives at an input has two, too, unless it is what was sent, as it is: then it shares those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upbeat.core.expr import Cell, Expr, Op, apply, substitute
from upbeat.core.ports import Causality, Kind, Port
from upbeat.master.port_registers import End, cell_names
from upbeat.master.program import Block, If, Instruction, Let, Recordable, Reg, Story
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.links import Sender
from upbeat.scenario.events.watcher import Watcher


@dataclass(frozen=True, slots=True)
class Link:
    """What one unit, when it sends, makes arrive at `end`: after `lets`, in `value`, if `present` is true.

    The end of an event that leaves the scenario is ``("", name)``.
    """

    end: End
    value: Reg
    present: Reg
    lets: Block = ()


class EventWiring:
    """Registers for all event outputs of a closed scenario, and the links from them."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        scenario = wiring.scenario
        self.outputs: dict[End, Reg] = {}
        self._outputs_of: dict[str, list[End]] = {unit: [] for unit in scenario.units}
        self._names: dict[str, Expr] = dict(wiring.names)
        for unit, model in scenario.units.items():
            for port in model.ports:
                if port.event and port.causality is Causality.OUTPUT:
                    self.outputs[unit, port.name] = reg = self._registers(f"{unit}.{port.name}", port)
                    self._outputs_of[unit].append((unit, port.name))
                    self._names.update(cell_names(f"{unit}.{port.name}", reg, port))
        self._links: dict[str, list[Link]] = {unit: [] for unit in scenario.units}
        self._leaving: dict[str, list[Link]] = {unit: [] for unit in scenario.units}
        for connection in scenario.event_connections:
            end = (connection.unit, connection.port)
            self._connect(self._links, end, wiring.port(end), connection.senders)
        self.results: dict[str, Reg] = {}
        for output in scenario.event_outputs:
            self._connect(self._leaving, ("", output.port.name), output.port, output.senders)

    def present(self, end: End) -> Reg:
        """The register that says whether an event output is present."""
        return self.outputs[end] + self._wiring.port(end).cells

    def outputs_of(self, unit: str) -> list[End]:
        """The unit's event outputs."""
        return self._outputs_of[unit]

    def links(self, unit: str) -> list[Link]:
        """What arrives at other units when this one sends."""
        return self._links[unit]

    def leaving(self, unit: str) -> list[Link]:
        """What leaves the scenario when this unit sends."""
        return self._leaving[unit]

    def leaving_presents(self) -> list[Reg]:
        """The registers that say whether an event leaves the scenario."""
        return [self.results[o.port.name] + o.port.cells for o in self._wiring.scenario.event_outputs]

    def logged(self, end: End) -> bool:
        """Whether an event output is logged: not if its unit was inside a nested one, as if it still were.

        Of the scenario's own events it is what happened, not each of the changes.
        """
        origin, model = self._wiring.scenario.origin, self._wiring.scenario.units[end[0]]
        if self._wiring.port(end).internal:
            return False
        if isinstance(model, Watcher) and end[1] not in model.event_names:
            return False
        return origin is None or end[0] not in origin.paths

    def label(self, name: str) -> str:
        """What people call an event output of the scenario itself."""
        origin = self._wiring.scenario.origin
        return name if origin is None else origin.columns.get(("", name), name)

    def recordable(self, story: Callable[[End], Story | None]) -> dict[str, Recordable]:
        """The events that a log may name: outputs of units, and of the scenario itself."""
        scenario = self._wiring.scenario
        ports = {
            scenario.column(*end): (self._wiring.port(end), self.outputs[end], story(end))
            for end in self.outputs
            if self.logged(end)
        }
        ports |= {
            self.label(o.port.name): (o.port, self.results[o.port.name], None) for o in scenario.event_outputs
        }
        return {
            name: Recordable(reg, port.unit, port.items, cells=port.cells, story=told)
            for name, (port, reg, told) in ports.items()
        }

    def _registers(self, name: str, port: Port) -> Reg:
        """A register for a value, and right after it the one for its presence."""
        value = self._wiring.registers.new(name, port.kind, port.cells)
        self._wiring.registers.new(f"{name}?", Kind.BOOLEAN)
        return value

    def _connect(self, links: dict[str, list[Link]], end: End, port: Port, senders: Sequence[Sender]) -> None:
        by_unit: dict[str, list[Sender]] = {}
        for sender in senders:
            by_unit.setdefault(sender.source[0], []).append(sender)
        own: Reg | None = None
        for unit, several in by_unit.items():
            shared = self._shared(port, several)
            if shared is not None and end[0]:
                links[unit].append(Link(end, shared, self.present(several[0].source)))
                continue
            if own is None:
                own = self._registers(".".join(end) if end[0] else f"output {end[1]}", port)
            links[unit].append(Link(end, own, own + port.cells, self._lets(own, port, several)))
        if not end[0]:
            self.results[end[1]] = own if own is not None else self._registers(f"output {end[1]}", port)

    def _shared(self, port: Port, senders: Sequence[Sender]) -> Reg | None:
        """The register of an event that is passed on as it is."""
        sender, *others = senders
        if others or sender.when is not None or self._wiring.port(sender.source).kind is not port.kind:
            return None
        value = self.outputs[sender.source]
        cells = [substitute(cell, self._names) for cell in sender.cells]
        return value if cells == [Cell(value + i) for i in range(port.cells)] else None

    def _lets(self, to: Reg, port: Port, senders: Sequence[Sender]) -> Block:
        """The first sender that is present gives the value."""
        there: list[Expr] = []
        for sender in senders:
            present: Expr = Cell(self.present(sender.source))
            if sender.when is not None:
                present = apply(Op.AND, present, substitute(sender.when, self._names))
            there.append(present)
        last_first = list(zip(there, senders, strict=True))[::-1]
        lets: list[Instruction] = []
        for i in range(port.cells):
            cells = [(present, substitute(sender.cells[i], self._names)) for present, sender in last_first]
            if port.kind is Kind.STRING:  # which are copied, never computed: no `where` chooses one
                lets += [If(present, (Let(to + i, cell),)) for present, cell in cells]
                continue
            (_, value), *others = cells
            for present, cell in others:
                value = apply(Op.WHERE, present, cell, value)
            lets.append(Let(to + i, value))
        some = there[0]
        for present in there[1:]:
            some = apply(Op.OR, some, present)
        return (*lets, Let(to + port.cells, some))
