"""The directory of a scenario: which ports there are, and what a name in a connection means.

A name is ``unit.port``, one cell of an array ``unit.port[2]``, or the bare name of a scenario input. A port
called ``port[2]`` goes before a cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from upbeat.core.abilities import Model
from upbeat.core.errors import suggest
from upbeat.core.expr import Name
from upbeat.core.names import bare, resolve, split
from upbeat.core.ports import Causality, Port
from upbeat.core.records import dataclass

INPUTS = "inputs"
"""The unit that drives a scenario's own inputs; no other may have this name."""

EVENTS = "events"
"""The unit that watches for the events of a scenario; no other may have this name, either."""

CONDITIONS = "conditions"
"""The unit that computes conditions of events which are Python functions, where there are any."""

End = tuple[str, str]
"""A port in a scenario: (unit, port). A scenario input belongs to the unit `INPUTS`."""


def by_hand(name: str) -> str:
    """The input of the unit `INPUTS` through which the scenario input `name` can be set during a run."""
    return f"set_{name}"


class Wrong(Exception):
    """Something in a scenario is wrong: what, and what to do about it. Collected, never shown to users.

    `at` are the keys that lead to it, from the entry on that is being checked.
    """

    def __init__(self, what: str, hint: str = "", at: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.at = at


class Unclear(Exception):
    """Nothing can be said, because a unit it needs has problems of its own."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a name in an expression stands for: a port, or one cell of it."""

    end: End
    port: Port
    index: int | None = None

    @property
    def path(self) -> str:
        """The port's name as people write it: ``left.x``, or ``force`` for a scenario input."""
        unit, port = self.end
        return port if unit == INPUTS else f"{unit}.{port}"

    @property
    def size(self) -> int | None:
        """How many cells it has; None if it is a single value."""
        return None if self.index is not None or self.port.cells == 1 else self.port.cells

    def cell(self, i: int) -> Name:
        """The name of cell `i` in a connection's expressions (of the only one, for a single value)."""
        if self.port.cells == 1:
            return Name(self.path)
        return Name(f"{self.path}[{i if self.index is None else self.index}]")


class Directory:
    """All ports of a scenario by name. `broken` units and inputs exist, but no more is known about them."""

    def __init__(
        self, units: Mapping[str, Model], inputs: Sequence[Port] = (), broken: Collection[str] = ()
    ) -> None:
        self.units = {unit: {port.name: port for port in model.ports} for unit, model in units.items()}
        self.inputs = {port.name: port for port in inputs}
        self.broken = frozenset(broken)

    @cached_property
    def enumerations(self) -> dict[str, tuple[str, ...]]:
        """The labels of every enumeration that an expression may compare with."""
        sources = [Source((INPUTS, name), port) for name, port in self.inputs.items()]
        for unit, ports in self.units.items():
            sources += [Source((unit, name), port) for name, port in ports.items()]
        return {
            source.path: source.port.items
            for source in sources
            if source.port.items and source.port.causality is not Causality.PARAMETER
        }

    def literal(self, text: str) -> str | None:
        """The name of the port, or of the cell, that `text` is, word for word; None if there is no such."""
        try:
            unit, name, path, cell = self._place(text)
        except Wrong:
            return None
        if name not in self.units.get(unit, ()):
            return None
        return path if cell is None else f"{path}[{cell}]"

    def has(self, text: str) -> bool:
        """Whether `text` names something that a connection can read."""
        try:
            self.source(text)
        except Wrong:
            return False
        except Unclear:
            pass
        return True

    def _place(self, text: str) -> tuple[str, str, str, int | None]:
        """The unit and the port that `text` speaks of, its path, and the cell; they need not exist.

        The unit of a scenario input is empty.
        """
        unit, rest = split(bare(text))
        if rest:
            name, cell = resolve(rest, self.units.get(unit, ()))
            path = f"{unit}.{name}"
        else:
            name, cell = resolve(unit, self.inputs)
            unit, path = "", name
        if not (unit or name).isidentifier():
            raise Wrong(
                f"{text!r} does not name a port", "A port is written unit.port, a cell of it unit.port[0]."
            )
        return unit, name, path, cell

    # ---------------------------------------------------------------- what a connection reads

    def source(self, text: str) -> Source:
        """The output or scenario input that `text` names."""
        unit, name, path, index = self._place(text)
        if not unit:
            source = self._scenario_input(name)
        else:
            port = self._port(unit, name, path, Causality.OUTPUT)
            if port.causality is not Causality.OUTPUT:
                raise _no_source(path, port)
            source = Source((unit, name), port)
        return picked(source, index, text)

    def _scenario_input(self, name: str) -> Source:
        if name in self.inputs:
            return Source((INPUTS, name), self.inputs[name])
        if name == "time":
            raise Wrong(
                "'time' is not a signal that connections can read",
                'Add a unit [units.clock] with outputs = { t = "time" }, and read clock.t.',
            )
        if name in self.broken:
            raise Unclear
        alike = [f"{unit}.{name}" for unit, ports in self.units.items() if name in ports]
        near = suggest(name, self.inputs, "scenario inputs")
        if alike:
            near = f"Did you mean {' or '.join(repr(path) for path in alike[:3])}?"
        raise Wrong(f"'{name}' is not a scenario input, and a port is written unit.port", near)

    # ---------------------------------------------------------------- what a connection writes

    def target(self, text: str) -> tuple[End, Port]:
        """The unit input that `text` names."""
        unit, name, path, index = self._place(text)
        if not unit:
            what = "a scenario input" if path in self.inputs else "not a unit's port"
            raise Wrong(f"'{path}' is {what}: connections write inputs of units", 'Write "unit.port" = "…".')
        port = self._port(unit, name, path, Causality.INPUT)
        if port.causality is Causality.OUTPUT:
            raise Wrong(f"'{path}' is an output: unit '{unit}' writes it, so nothing can be connected to it")
        if port.causality is Causality.PARAMETER:
            raise Wrong(
                f"'{path}' is a parameter: its value is fixed before the run",
                f"Set it among the parameters of unit '{unit}', or declare it as an input of the model.",
            )
        if index is not None:
            if port.size is None:
                raise Wrong(f"'{path}' is a single value, not an array", f"Write {path} instead of {text}.")
            raise Wrong(
                f"'{text}' is one cell of an array, which is connected as a whole",
                f'Give one expression per cell: "{path}" = [{", ".join(["…"] * port.cells)}].',
            )
        return (unit, name), port

    def _port(self, unit: str, name: str, path: str, wanted: Causality) -> Port:
        if unit in self.broken:
            raise Unclear
        if unit not in self.units:
            raise Wrong(f"there is no unit '{unit}'", suggest(unit, {*self.units, *self.broken}, "units"))
        ports = self.units[unit]
        if "." in name and not any("." in known for known in ports):
            raise Wrong(f"'{path}' has too many dots", "A port is written unit.port.")
        if name not in ports:
            fitting = [port.name for port in ports.values() if port.causality is wanted]
            raise Wrong(
                f"'{path}' does not exist: unit '{unit}' has no {wanted.value} '{name}'",
                suggest(name, fitting, f"{wanted.value}s of '{unit}'"),
            )
        return ports[name]


def picked(source: Source, index: int | None, text: str) -> Source:
    """The cell `index` of `source`; all of it, if that is None."""
    path = source.path
    if index is None:
        return source
    if source.port.size is None:
        raise Wrong(f"'{path}' is a single value, not an array", f"Write {path} instead of {text}.")
    if index >= source.port.size:
        raise Wrong(
            f"'{text}' does not exist: '{path}' has {source.port.size} cells",
            f"They are counted from 0: {path}[0] … {path}[{source.port.size - 1}].",
        )
    return Source(source.end, source.port, index)


def _no_source(path: str, port: Port) -> Wrong:
    if port.causality is Causality.INPUT:
        return Wrong(
            f"'{path}' is an input, and connections read outputs and scenario inputs only",
            f"Use the expression that '{path}' itself is connected to.",
        )
    return Wrong(
        f"'{path}' is a parameter, and connections read outputs and scenario inputs only",
        f'Write its value, or give it out of the model: outputs = {{ {port.name}_out = "{port.name}" }}.',
    )
