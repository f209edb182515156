"""The inputs of an FMU in model exchange: real ones are polynomials in time, all others hold their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.units.fmi.description import Variability, Variable
from upbeat.units.fmi.instance import Instance, Writer
from upbeat.units.inputs import EXACT, Courses


@dataclass(frozen=True, slots=True)
class Entry:
    """One input. `first` is its first cell among those of all real inputs; -1 for those of other kinds."""

    port: Port
    variable: Variable
    write: Writer
    discrete: bool
    first: int


class Inputs:
    """All inputs of one instance. Only those that were set are ever written to the FMU."""

    def __init__(
        self, instance: Instance, ports: Sequence[Port], variables: Mapping[str, Variable], start: float
    ) -> None:
        self._entries: dict[str, Entry] = {}
        self._held: dict[str, Signal] = {}
        cells = 0
        for port in ports:
            variable = variables[port.name]
            real = port.kind is Kind.REAL
            discrete = not real or variable.variability is not Variability.CONTINUOUS
            write = instance.writer(variable, port.size)
            self._entries[port.name] = Entry(port, variable, write, discrete, cells if real else -1)
            if real:
                cells += port.cells
            else:
                self._held[port.name] = port.initial[0] if port.size is None else port.initial
        self.courses = Courses([port for port in ports if port.kind is Kind.REAL], start, EXACT)
        self.moving: list[Entry] = []
        """Those that are more than constant."""

    def entry(self, name: str) -> Entry:
        """The input of this name."""
        try:
            return self._entries[name]
        except KeyError:
            hint = suggest(name, self._entries, "inputs")
            raise ModelError(f"there is no input '{name}'. {hint}") from None

    def set(self, entry: Entry, time: float, coefficients: Sequence[Signal]) -> tuple[Signal, bool]:
        """From `time` on an input has another course. Returns its value then, and whether that is a new one.

        Discrete inputs take the first coefficient alone.
        """
        before = self._value(entry, time)
        if entry.first < 0:
            convert = EXACT[entry.port.kind]
            given = coefficients[0]
            if entry.port.size is None:
                self._held[entry.port.name] = convert(given)
            else:
                self._held[entry.port.name] = tuple(map(convert, given))  # type: ignore[arg-type]
        else:
            self.courses.set(entry.port.name, time, coefficients[:1] if entry.discrete else coefficients)
            self._find_moving()
        now = self._value(entry, time)
        return now, now != before

    def follow(self, t: float) -> None:
        """Write those that move to the FMU as they are at `t`."""
        for entry in self.moving:
            entry.write(self._value(entry, t))

    def rates(self, t: float) -> list[float]:
        """How fast the cells of those that move change at `t`."""
        found = self.courses.rates(t)
        return [rate for entry in self.moving for rate in found[entry.first]]

    def _value(self, entry: Entry, t: float) -> Signal:
        if entry.first < 0:
            return self._held[entry.port.name]
        cells = self.courses.at(t)
        if entry.port.size is None:
            return cells[entry.first]  # type: ignore[no-any-return]
        return tuple(cells[entry.first : entry.first + entry.port.cells])

    def _find_moving(self) -> None:
        moving = self.courses.courses()[1]
        self.moving = [entry for entry in self._entries.values() if entry.first in moving]

    def pack(self) -> tuple[list[Value], dict[str, Signal]]:
        """All courses (`Courses.pack`), and what the others hold."""
        return self.courses.pack(), self._held.copy()

    def unpack(self, packed: tuple[list[Value], dict[str, Signal]]) -> None:
        """Set everything back to what `pack` gave."""
        self.courses.unpack(packed[0])
        self._held = packed[1].copy()
        self._find_moving()

    @property
    def ports(self) -> list[Port]:
        """All of them, in their order."""
        return [entry.port for entry in self._entries.values()]
