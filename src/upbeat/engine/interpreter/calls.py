"""The calls of the interpreter: what instructions that call a unit do, and how a failing one is blamed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isfinite, isnan
from typing import Any

from upbeat.core.abilities import Model, Unit
from upbeat.core.errors import UnitError
from upbeat.core.ports import Kind, Signal
from upbeat.engine.interpreter.values import Cells, cells_of, slopes_of
from upbeat.engine.texts import (
    NO_SLOPES,
    NO_TIME,
    due_text,
    input_text,
    output_text,
    reached_text,
    slope_text,
)
from upbeat.master.program import Advance, Due, Get, Instruction, Jump, Set, Slope

Action = Callable[[], None]


class Calls:
    """Functions of no arguments for calls of units, with unit, port and cells looked up beforehand.

    Cells, units and clocks (the own time of each unit) are the interpreter's own; `computed` are the cells
    that expressions write.
    """

    def __init__(
        self,
        cells: Cells,
        units: Mapping[str, Unit],
        clock: dict[str, float],
        models: Mapping[str, Model],
        computed: Collection[int],
    ) -> None:
        self._cells, self._units, self._clock, self._computed = cells, units, clock, computed
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self.busy: str | None = None
        """The unit that is being advanced just now."""

    def course(self, instruction: Set) -> Callable[[], list[Signal]]:
        """The coefficients of a `Set`; those that were computed are checked."""
        cells, by, port = self._cells, instruction.by, self._ports[instruction.unit, instruction.port]
        size = port.size

        def coefficients() -> list[Signal]:
            return [cells[r] if size is None else tuple(cells[r : r + size]) for r in by]

        def checked() -> list[Signal]:
            for r in by:
                for i in range(port.cells):
                    if not isfinite(cells[r + i]):  # type: ignore[arg-type]
                        label = port.name if size is None else f"{port.name}[{i}]"
                        raise self.blamed(instruction, input_text(label, cells[r + i]))
            return coefficients()

        computed = any(r + i in self._computed for r in by for i in range(port.cells))
        if port.kind is Kind.REAL and computed and not instruction.trial:
            return checked
        if size is None and len(by) == 1:  # by far the most frequent case
            return lambda: [cells[by[0]]]
        return coefficients

    def advancing(self, instruction: Advance) -> Action:
        """Moves a unit's time, and checks how far it came."""
        cells, clock, unit, early = self._cells, self._clock, instruction.unit, instruction.early
        start, until, to = instruction.start, instruction.until, instruction.reached
        advance = self._units[unit].advance

        def action() -> None:
            t: Any = cells[start]
            wanted: Any = cells[until]
            self.busy = unit
            given = advance(t, wanted, early)
            self.busy = None
            try:
                reached = float(given)
            except (TypeError, ValueError) as cause:
                raise self.blamed(instruction, reached_text(given)) from cause
            if reached != wanted and not (early and t <= reached <= wanted):
                raise self.blamed(instruction, f"it stopped at {reached:.9g} instead of {wanted:.9g}")
            cells[to] = clock[unit] = reached

        return action

    def sloping(self, instruction: Slope) -> Action:
        """Asks for slopes."""
        cells, unit, y, u = self._cells, instruction.unit, instruction.output, instruction.input
        to, count = instruction.to, self._ports[unit, y].cells * self._ports[unit, u].cells
        slope = getattr(self._units[unit], "slope", None)

        def action() -> None:
            if slope is None:
                raise self.blamed(instruction, NO_SLOPES)
            given = slope(y, u)
            try:
                cells[to : to + count] = slopes_of(given, count)
            except (TypeError, ValueError) as cause:
                raise self.blamed(instruction, slope_text(count, given)) from cause

        return action

    def storing(self, instruction: Get) -> Callable[[Signal | None], None]:
        """Checks what a unit gave and puts it into its cells."""
        cells, to, port = self._cells, instruction.to, self._ports[instruction.unit, instruction.port]
        anything = port.extra or instruction.trial

        def store(value: Signal | None) -> None:
            try:
                values = cells_of(port, value)
            except (TypeError, ValueError) as cause:
                size = "" if port.size is None else f"[{port.size}]"
                what = f"output '{port.name}' is {port.kind.value}{size}, but the unit gave {value!r}"
                raise self.blamed(instruction, what) from cause
            if port.kind is Kind.REAL:
                for i, entry in enumerate(values):
                    if not isfinite(entry) and not anything:  # type: ignore[arg-type]
                        label = port.name if port.size is None else f"{port.name}[{i}]"
                        raise self.blamed(instruction, output_text(label, entry))
            cells[to : to + len(values)] = values

        def store_real(value: Signal | None) -> None:
            if type(value) is float and isfinite(value):
                cells[to] = value
            else:
                store(value)

        def store_event(value: Signal | None) -> None:
            if value is not None:
                store(value)
            elif port.kind is not Kind.STRING:  # so that states of both engines are the same bytes
                cells[to : to + port.cells] = [port.kind.zero] * port.cells
            cells[to + port.cells] = value is not None

        if port.event:
            return store_event
        return store_real if port.kind is Kind.REAL and port.size is None else store

    def asking(self, instruction: Due) -> Action:
        """Asks when a unit has something to do."""
        cells, to, due = self._cells, instruction.to, self._units[instruction.unit].due  # type: ignore[attr-defined]

        def action() -> None:
            given = due()
            try:
                time = float(given)
            except (TypeError, ValueError) as cause:
                raise self.blamed(instruction, due_text(given)) from cause
            if isnan(time):
                raise self.blamed(instruction, NO_TIME)
            cells[to] = time

        return action

    def blamed(self, instruction: Instruction, what: str, kind: type[UnitError] = UnitError) -> UnitError:
        """The error that names the unit, the call and the time."""
        match instruction:
            case Get(unit, port):
                call = f"get('{port}')"
            case Set(unit, port):
                call = f"set('{port}')"
            case Slope(unit, output, port):
                call = f"slope('{output}', '{port}')"
            case Advance(unit, start, until):
                call = f"advance({self._cells[start]:.9g}, {self._cells[until]:.9g})"
            case Jump(unit):
                call = "jump()"
            case Due(unit):
                call = "due()"
            case _:
                raise TypeError(f"{instruction} calls no unit")
        return kind(what, unit=unit, call=call, time=self._clock[unit])
