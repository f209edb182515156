"""Inputs that are set by hand during a run, and the exchange after which everybody has seen it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.ports import Causality, Port, Signal, Values
from upbeat.engine.drive import Drive
from upbeat.engine.machine import Machine
from upbeat.master.layout import Reg
from upbeat.master.program import Program
from upbeat.master.ripples import forgetful
from upbeat.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Given:
    """A value for an input that nothing drives."""

    name: str
    unit: str
    port: Port
    values: Values


class ByHand:
    """What has been set in one run, and which of it has not been exchanged yet."""

    def __init__(self, program: Program, scenario: Scenario) -> None:
        self._program = program
        self._scenario = scenario
        self._stale = False
        self._arrived: dict[str, None] = {}
        self._pending: set[str] = set()  # events that have been set and not happened yet
        self._forgetful: dict[tuple[str, str], tuple[Reg, ...]] = {}

    def checked(self, name: str, value: Signal) -> Given:
        """The input of this name, if it can be set to this value."""
        free = self._scenario.free_inputs
        unit, _, port_name = name.rpartition(".")
        fixed = [port.name for port in getattr(self._scenario.units.get(unit), "ports", ())
                 if port.causality is Causality.PARAMETER]  # fmt: skip
        if name not in free and port_name in fixed:
            raise InvalidInput(
                f"'{name}' is a parameter, which stays what it is during a run. To set it while the run goes "
                f"on, make it an input with a start value in the model of '{unit}' "
                f'(inputs={{"{port_name}": 1.0}} instead of parameters): an input that nothing drives keeps '
                "its value until run.set gives it another"
            )
        if name not in free:
            raise InvalidInput(
                f"'{name}' is not an input that can be set. {suggest(name, free, 'free inputs')}"
            )
        unit, port = free[name]
        return Given(name, unit, port, port.values(value, name))

    def set(self, machine: Machine, drive: Drive, given: Given, *, restart: bool) -> None:
        """Hand it over, and let whoever follows it forget what was before, if `restart` says so."""
        unit, port, values = given.unit, given.port, given.values
        if port.event:
            if given.name in self._pending:  # one after the other, both at the present time
                self.refresh(drive)
            self._pending.add(given.name)
        drive.before_change()
        machine.set_input(unit, port.name, values[0] if port.size is None else values)
        held = self._program.columns.get(given.name)
        if held is not None and not held.output:  # an input without a source has a register of its own
            for i, cell in enumerate(values):
                machine.write(held.register + i, cell)
        if unit in self._program.arrivals and port.event:
            self._arrived[unit] = None
        if restart:
            for register in self._histories(unit, port.name):
                machine.write(register, -inf)
        self._stale = True

    def refresh(self, drive: Drive) -> None:
        """Exchange again at the present time, if something has been set since."""
        if self._stale:
            drive.exchange(self._arrived)
            self._arrived = {}
            self._pending.clear()
            self._stale = False

    def _histories(self, unit: str, port: str) -> tuple[Reg, ...]:
        """What to forget when this input is set; found once for each."""
        end = (unit, port)
        if end not in self._forgetful:
            self._forgetful[end] = forgetful(self._program, self._scenario.units, unit, port)
        return self._forgetful[end]
