"""Wiring: the registers of a scenario's ports, and the instructions that move values between them.

Every coupling is written with these few snippets; none of them knows in which order they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from upbeat.core.abilities import Ability
from upbeat.core.expr import Cell, Expr, Op, apply, substitute
from upbeat.core.expr import cells as expr_cells
from upbeat.core.ports import Causality, Kind, Port
from upbeat.master.approximation import Approximation, Course, Hold, Place
from upbeat.master.derivatives import rate
from upbeat.master.program import Advance, Get, History, Instruction, Let, Recordable, Reg, Set
from upbeat.master.registers import Registers
from upbeat.scenario.functions import Conditions
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.watcher import Watcher

End = tuple[str, str]
"""A port in the scenario: (unit, port)."""


class Interval(NamedTuple):
    """The registers of the two ends of a step, or of a part of one."""

    now: Reg
    next: Reg


@dataclass(frozen=True, slots=True)
class Guess:
    """What an input is assumed to be at the end of a step: registers, and the lets that take it over."""

    value: Reg
    rates: tuple[Reg, ...]
    keep: tuple[Let, ...]

    @property
    def registers(self) -> tuple[Reg, ...]:
        return (self.value, *self.rates)


class Wiring:
    """Registers for all ports of a closed scenario, and instruction snippets over them.

    An input whose connection is a plain copy shares the register of its source: coupling two ports
    costs one `Get` and one `Set`, nothing in between.
    """

    def __init__(
        self, scenario: Scenario, default: Approximation, special: Mapping[str, Approximation]
    ) -> None:
        self.scenario = scenario
        self.registers = Registers()
        self.notes: dict[str, None] = {}
        self.predictions: dict[str, Reg] = {}
        """By event: two registers in which the pace says when it first saw it coming, and for when."""
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
        self._courses: dict[tuple[End, Interval, bool, Guess | None], Course] = {}
        self._beside: list[tuple[End, Course]] = []
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
        self._result_lets: list[Let] = []
        for output in scenario.outputs:
            formulas = tuple(substitute(cell, names) for cell in output.cells)
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
            if unsure:  # what nobody knows is not handed on: the input keeps what it has
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

    # ---------------------------------------------------------------- snippets

    def interval(self, name: str) -> Interval:
        """Registers for the ends of a part of a step."""
        return Interval(self.registers.new(f"{name}′now"), self.registers.new(f"{name}′next"))

    def note(self, text: str) -> None:
        """Something that `upbeat explain` should say, once."""
        self.notes[text] = None

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

    def get(self, end: End) -> list[Instruction]:
        """Read an output into its register."""
        return [Get(*end, self.outputs[end])]

    def compute(self, end: End) -> list[Instruction]:
        """Compute an input's value from the outputs it comes from (nothing, if it is a copy)."""
        return list(self._lets.get(end, ()))

    def extrapolate(self, end: End, over: Interval | None = None) -> list[Instruction]:
        """Hand an input its course from the latest exchange on, as far as it is known there."""
        course = self._course(end, over, interpolate=False)
        if course.at_start:
            return self.hold(end) if end in self._direct else self.compute(end)
        return [*self.compute(end), *course.late, Set(*end, course.by)]

    def begin(self, end: End, over: Interval | None = None) -> list[Instruction]:
        """Hand an input a course that needs to know how long the step is."""
        course = self._course(end, over, interpolate=False)
        return [*course.late, Set(*end, course.by)] if course.at_start else []

    def guess(self, end: End) -> Guess:
        """Registers for an assumed end value of an input, and of its derivatives."""
        port = self._ports[end]
        sources = self.known(end)
        made = [
            self.registers.new(f"{self.label(end)}′guess{'′' * k}", port.kind, port.cells)
            for k in range(len(sources))
        ]
        pairs = [(to + i, s + i) for to, s in zip(made, sources, strict=True) for i in range(port.cells)]
        return Guess(made[0], tuple(made[1:]), tuple(Let(to, Cell(s)) for to, s in pairs))

    def remember(
        self, end: End, over: Interval | None = None, guess: Guess | None = None
    ) -> list[Instruction]:
        """What `interpolate` must keep from the start of the step."""
        return list(self._course(end, over, interpolate=True, guess=guess).early)

    def interpolate(
        self, end: End, over: Interval | None = None, guess: Guess | None = None
    ) -> list[Instruction]:
        """Hand an input its course over the step whose end value is already known, or guessed."""
        course = self._course(end, over, interpolate=True, guess=guess)
        compute = self.compute(end) if guess is None else []
        return [*compute, *course.late, Set(*end, course.by)]

    def hold(self, end: End) -> list[Instruction]:
        """Hand an input its value at this instant, for outputs that depend on it directly."""
        return [*self.compute(end), Set(*end, (self.inputs[end],))]

    def beside(self, end: End, course: Course) -> None:
        """Take note of a course that somebody keeps beside the coupling's own: it restarts with the input."""
        self._beside.append((end, course))

    def restart(self, end: End) -> list[Instruction]:
        """Forget the history of an input, because an event has changed what it follows.

        Exchange values after it: the courses handed over before go on as they were. It covers the courses
        made so far, so write it when the blocks of the coupling and of the pace are there.
        """
        return [
            let
            for history in self.histories
            if (history.unit, history.port) == end
            for let in history.restart
        ]

    @property
    def histories(self) -> tuple[History, ...]:
        """What the courses made so far remember."""
        times: dict[End, tuple[Reg, ...]] = {}
        for end, course in (*((key[0], course) for key, course in self._courses.items()), *self._beside):
            if course.history:
                times[end] = times.get(end, ()) + course.history
        sources = {(c.unit, c.port): c.sources for c in self.scenario.connections}
        return tuple(
            History(
                *end,
                tuple(
                    self.outputs[source] + i
                    for source in sources[end]
                    for i in range(self._ports[source].cells)
                ),
                found,
            )
            for end, found in times.items()
        )

    def advance(self, unit: str, over: Interval | None = None, *, early: bool = False) -> list[Instruction]:
        """Simulate a unit over an interval; with `early` it may stop before its end."""
        now, until = over or self.whole
        return [Advance(unit, now, until, self._reached[unit], early)]

    def reached(self, unit: str) -> Reg:
        """The register with the time that a unit has reached."""
        return self._reached[unit]

    def finish(self) -> list[Instruction]:
        """Compute the scenario's own outputs."""
        return list(self._result_lets)

    def approximation(self, end: End) -> Approximation:
        """What was chosen for an input; only real ones can be anything but held.

        Whoever watches for events looks at instants only, and needs no course.
        """
        looking = isinstance(self.scenario.units[end[0]], Watcher | Conditions)
        if self._ports[end].kind is not Kind.REAL or looking:
            return Hold()
        return self._special.get(".".join(end), self._default)

    def _course(
        self, end: End, over: Interval | None, *, interpolate: bool, guess: Guess | None = None
    ) -> Course:
        key = (end, over or self.whole, interpolate, guess)
        if key not in self._courses:
            port, (now, until) = self._ports[end], key[1]
            known = self.known(end)
            ahead = guess.registers if guess is not None else known
            name = self.label(end) + ("" if guess is None else "′again")
            place = Place(name, port.kind, port.cells, known, ahead, now, until, self.unsure(end))
            chosen = self.approximation(end)
            method = chosen.interpolate if interpolate else chosen.extrapolate
            self._courses[key] = method(place, self.registers)
        return self._courses[key]

    def columns(self) -> dict[str, Recordable]:
        """Everything a trace may record: outputs, the scenario's own ports, and inputs."""
        columns: dict[str, Recordable] = {}
        origin = self.scenario.origin
        for ends, is_output in ((self.outputs, True), (self.inputs, False)):
            for end, reg in ends.items():
                port = self._ports[end]
                if port.internal:
                    continue
                name = self.scenario.column(*end)
                columns.setdefault(
                    name, Recordable(reg, port.unit, port.items, is_output and not port.extra, port.cells)
                )
        for output in self.scenario.outputs:
            port, name = output.port, output.port.name
            if origin is not None:
                name = origin.columns.get(("", name), name)
            columns[name] = Recordable(self.results[port.name], port.unit, port.items, cells=port.cells)
        if origin is None or not origin.shown:
            return columns
        return {name: replace(columns[name], output=is_output) for name, is_output in origin.shown.items()}


def cell_names(name: str, first: Reg, port: Port) -> Iterable[tuple[str, Expr]]:
    """What equations call the cells of a port, and which ones these are."""
    yield name, Cell(first)
    if port.size is not None:
        for i in range(port.size):
            yield f"{name}[{i}]", Cell(first + i)
