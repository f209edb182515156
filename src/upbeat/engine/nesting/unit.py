"""One running nested scenario: a loop of its own that the outer run drives as a unit.

An input's trajectory reaches the inside as it is and is sampled there at the inner communication points, and
setting it back sets all inner units and registers back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, ModelError, StepError, UnitError, suggest
from upbeat.core.plain import Reader
from upbeat.core.ports import Port, Signal
from upbeat.core.time import OpenSpan
from upbeat.engine.choose import EngineName, choose
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.machine import Machine
from upbeat.engine.native import machine as native
from upbeat.engine.selection import Selection
from upbeat.master.paces.pace import Pace
from upbeat.master.program import Program
from upbeat.scenario.scenario import Scenario

MakesMachine = Callable[[Program, Mapping[str, Model], float], Machine]
"""Makes what runs a program over models from a time on."""


class Running(NamedTuple):
    """What runs inside a nested scenario, and how."""

    scenario: Scenario
    program: Program
    pace: Pace
    engine: EngineName
    unknowns: tuple[str, ...]  # the inputs that the coupling inside finds by itself
    discrete: bool  # whether nothing inside moves on its own between events
    warnings: tuple[str, ...] = ()  # what could not be chosen well inside

    @property
    def free(self) -> dict[str, tuple[str, Port]]:
        """The inputs that are set from outside, with the unit and the port that they are inside."""
        inputs = self.scenario.free_inputs
        return {name: end for name, end in inputs.items() if name not in self.unknowns}

    @property
    def makes(self) -> MakesMachine:
        """The machine of the engine that it asks for."""
        native_one = choose(self.engine, self.scenario.units).name == "native"
        return native.machine if native_one else Interpreter


class NestedUnit:
    """One run of a nested scenario, driven by the outer run."""

    instants = True
    """Whether what happens inside at an instant happens by itself."""

    def __init__(self, inside: Running, name: str, start: float, machine: MakesMachine | None = None) -> None:
        closed, program = inside.scenario, inside.program
        self._inside = inside
        self._name = name
        self._program = program
        self._paths = closed.origin.paths if closed.origin is not None else {}
        self._free = inside.free
        self._machine: Machine = self._within(machine or inside.makes, program, closed.units, start)
        span, nothing = OpenSpan(start), Selection((), (), ())
        self._loop = Loop(self._machine, program, span, nothing, None, instants=self.instants)
        self._stale = False
        try:
            self._within(self._loop.begin)
        except BaseException:
            self.close()  # the units inside are not known elsewhere yet
            raise

    @property
    def machine(self) -> Machine:
        """What runs inside, for those who look at it next to the unit."""
        return self._machine

    def get(self, port: str) -> Signal | None:
        self._refresh()
        shown = self._program.columns[port]
        values = self._machine.row(tuple(range(shown.register, shown.register + shown.cells)))
        return values[0] if shown.cells == 1 else tuple(values)

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        known = self._free if port in self._free else self._inside.scenario.parameters
        if port not in known:
            raise InvalidInput(f"there is no input '{port}'. {suggest(port, self._free, 'inputs')}")
        unit, inner = known[port]
        self._within(self._machine.set_input, unit, inner.name, *coefficients)
        self._stale = True

    def advance(self, t: float, to: float, early: bool) -> float:
        self._stale = self._stale and not self._program.takes_inputs
        self._refresh()
        self._loop.limit = to
        while not self._loop.finished:
            self._within(self._loop.step)
            if early and self._loop.short:
                break
        return self._loop.time

    def _refresh(self) -> None:
        """After `set`, exchange again at the present time, so that all inside see the new trajectory."""
        if self._stale:
            self._within(self._loop.exchange)
            self._stale = False

    def due(self) -> float:
        """When something inside will happen by itself, as far as that is known: the outside stops there."""
        self._refresh()
        return inf if self._program.due is None else float(self._machine.read(self._program.due))

    def jump(self) -> bool:
        return False

    def save(self) -> Any:
        return self._machine.save(), self._loop.time, self._stale

    def restore(self, token: Any) -> None:
        machine, time, self._stale = token
        self._machine.restore(machine)
        self._loop.set_time(time)

    def to_bytes(self, token: Any) -> bytes:
        """Time, whether inputs have changed; then the machine inside."""
        machine, time, stale = token
        return struct.pack("<dQ", time, stale) + self._machine.pack(machine)

    def from_bytes(self, data: bytes) -> Any:
        """The token that `to_bytes` was given, in another process or by another engine perhaps."""
        reader = Reader(data)
        try:
            (time,) = struct.unpack("<d", reader.take(8))
            stale = reader.word()
        except (ValueError, struct.error) as error:
            raise ModelError(f"not a state of this nested scenario: {error}") from None
        return self._machine.unpack(reader.rest()), time, bool(stale)

    def close(self) -> None:
        self._machine.close()

    def _within(self, call: Any, *arguments: Any) -> Any:
        """An error inside names the whole way to the unit that failed."""
        try:
            return call(*arguments)
        except UnitError as error:
            way = f"{self._name}.{self._paths.get(error.unit, error.unit)}"
            raise type(error)(error.reason, unit=way, call=error.call, time=error.time) from error.__cause__
        except StepError as error:
            text = f"inside '{self._name}': {error}"
            raise StepError(text, unending=error.unending) from error.__cause__
