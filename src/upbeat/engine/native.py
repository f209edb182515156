"""The native engine: the same programs, lowered to tables and run by the C++ core (`upbeat._native`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Model
from upbeat.core.errors import MissingExtra, StepError, UnitError
from upbeat.core.ports import Kind, Signal, Value
from upbeat.core.time import Span, grid_steps
from upbeat.engine.entry import Entry
from upbeat.engine.lower import lower, port_numbers
from upbeat.engine.tables import KINDS, Tables
from upbeat.master.program import Advance, Get, Program, Repeat, Set
from upbeat.units import Function, NativeUnit, Ode

Chunk = npt.NDArray[np.float64]
"""Rows of [time, cells...]; a cell that is not real holds the bits of an int64."""


def available() -> tuple[bool, str]:
    """Whether the core can be used, and a sentence that says so, or why not."""
    try:
        from upbeat import _native  # noqa: F401
    except ImportError as reason:
        return False, f"the compiled part of Upbeat cannot be loaded ({reason})"
    return True, "the compiled part of Upbeat is there"


class Status(enum.IntEnum):
    """Why `FixedLoop.run` came back."""

    FINISHED = 0
    FULL = 1
    PAUSED = 2
    FAILED = 3


class _Fault(enum.IntEnum):
    REFUSED = 1
    NOT_FINITE = 2
    NOT_REACHED = 3
    UNABLE = 4
    EXHAUSTED = 5
    EMPTY_SLOT = 6
    NO_PROGRESS = 7


_CALLS = ("", "get", "set", "advance", "jump", "save", "restore")


class Machine:
    """A machine (see `engine.machine`) in C++. With `jit`, expression units run as machine code ([jit])."""

    def __init__(
        self,
        program: Program,
        models: Mapping[str, Model],
        start: float,
        *,
        jit: bool = False,
        strings: list[str] | None = None,
    ) -> None:
        from upbeat import _native

        self.fired: list[str] = []
        self.strings: list[str] = [] if strings is None else strings
        """The texts of string cells, by number. It grows in place: pass an empty list to share it."""
        self._program = program
        self._models = dict(models)
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self._numbers = {unit: port_numbers(model) for unit, model in models.items()}
        self._tables = lower(program, models)
        self._python: dict[str, Any] = {}
        entry = Entry(jit)
        self._compiled = entry.compiled  # which must live as long as the machine
        units = [self._enter(entry, name, model, start) for name, model in models.items()]
        kernels = [entry.kernel(kernel) for kernel in self._tables.kernels]
        self._machine = _native.Machine(self._tables, kernels, units, start)
        self._note_strings()

    def _enter(self, entry: Entry, name: str, model: Model, start: float) -> Any:
        try:
            if isinstance(model, (Ode, Function)):
                return entry.equations(model)
            if isinstance(model, NativeUnit):
                return entry.addresses(model, name, start)
            unit = model.instantiate(name, start)
        except (UnitError, MissingExtra):
            raise
        except Exception as cause:
            raise UnitError(_text(cause), unit=name, call="instantiate", time=start) from cause
        self._python[name] = unit
        return entry.callback(model, unit)

    # ---------------------------------------------------------------- the machine of the loop

    @property
    def tables(self) -> Tables:
        """The program as the core sees it."""
        return self._tables

    def execute(self, block: str) -> None:
        self._check(self._machine.execute(self._tables.blocks[block]))
        events = self._tables.events
        if events:
            self.fired += [events[event] for event, _, _ in self._machine.take_fired()]

    def read(self, cell: int) -> Value:
        value: Value = self._machine.read(cell)
        return value

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        return [self._machine.read(cell) for cell in cells]

    def write(self, cell: int, value: Value) -> None:
        self._machine.write(cell, value)

    def set_input(self, unit: str, port: str, value: Signal) -> None:
        known = self._ports[unit, port]
        values = list(known.values(value if known.size is None else tuple(value)))  # type: ignore[arg-type]
        number, kind = self._numbers[unit][port], KINDS[known.kind]
        done = self._machine.set_input(self._tables.units.index(unit), number, kind, values)
        self._check(done, f"set('{port}')")

    def save(self) -> None:
        self._check(self._machine.save())

    def restore(self) -> None:
        self._check(self._machine.restore())

    def close(self) -> None:
        self._machine.close()
        for unit in self._python.values():
            close = getattr(unit, "close", None)
            if close is not None:
                close()
        self._python.clear()

    # ---------------------------------------------------------------- the whole loop in the core

    def run_fixed(
        self, span: Span, step: float, cells: Sequence[int], *, every: int = 1, block: str = "step"
    ) -> FixedLoop:
        """A loop over `span` in steps of one size that records `cells`. Run the `start` block before it."""
        return FixedLoop(self, span, step, cells, every, block)

    def _note_strings(self) -> None:
        if Kind.STRING in {register.kind for register in self._program.layout.registers}:
            self.strings += self._machine.strings()[len(self.strings) :]

    # ---------------------------------------------------------------- errors

    def _check(self, done: bool, call: str = "") -> None:
        if not done:
            self._raise(call)

    def _raise(self, call: str = "") -> NoReturn:
        """What the core says, in the words of the interpreter."""
        error = self._machine.take_error()
        fault, number, row, unit, cell, time, start, until, value, status, message, cause = error
        origin = self._tables.origins[row] if row >= 0 else None
        match fault:
            case _Fault.EXHAUSTED:
                assert isinstance(origin, Repeat)
                raise StepError(f"{origin.what} did not end within {origin.most} rounds")
            case _Fault.EMPTY_SLOT:
                raise StepError("nothing was saved")
            case _Fault.NO_PROGRESS:
                raise StepError(f"the step from t = {time:.9g} did not move on, and no event fired")
        name = self._tables.units[unit]
        match origin:
            case Get(port=port):
                call = f"get('{port}')"
            case Set(port=port):
                call = f"set('{port}')"
            case Advance():
                call = f"advance({start:.9g}, {until:.9g})"
            case _:
                call = call or f"{_CALLS[number]}()"
        match fault:
            case _Fault.NOT_FINITE:
                assert isinstance(origin, Get)
                index = "" if self._ports[name, origin.port].size is None else f"[{cell}]"
                text = f"output '{origin.port}{index}' is {value}"
            case _Fault.NOT_REACHED:
                text = f"it stopped at {value:.9g} instead of {until:.9g}"
            case _Fault.UNABLE:
                text = "it cannot be set back to an earlier state"
            case _:
                text = self._refusal(name, _CALLS[number], status, message, cause)
        raise UnitError(text, unit=name, call=call, time=time) from cause

    def _refusal(self, unit: str, call: str, status: int, message: str, cause: BaseException | None) -> str:
        if isinstance(cause, UnitError) or (cause is not None and not isinstance(cause, Exception)):
            raise cause
        if cause is not None:
            return message or _text(cause)
        if isinstance(self._models[unit], NativeUnit):
            return f"NativeFailure: {message or f'{call} returned status {status}'}"
        return message


class FixedLoop:
    """The loop for steps of one size, in the core; it comes back to let Python drain rows and look up."""

    def __init__(
        self, machine: Machine, span: Span, step: float, cells: Sequence[int], every: int, block: str
    ) -> None:
        from upbeat import _native

        self.count = grid_steps(span, step)
        self.rows = 0
        """How many rows the last `run` filled, also if it failed."""
        self.events: list[tuple[str, float, int]] = []
        """Events fired so far and not yet taken away: name, time, index at that time."""
        self._machine = machine
        blocks = machine.tables.blocks
        instant = blocks["instant"] if machine._program.instant else -1
        self._run = _native.FixedRun(span.start, span.stop, step, self.count, blocks[block], instant)
        self._recorder = machine._machine.recorder(list(cells), every)

    @property
    def time(self) -> float:
        """The time committed last."""
        return self._run.time

    @property
    def done(self) -> int:
        """How many steps have been committed."""
        return self._run.done

    def stand_at(self, done: int, time: float) -> None:
        """Somebody else has stepped: `done` steps are committed, up to `time`, whose row is still missing."""
        self._run.stand_at(done, time)

    def run(self, chunk: Chunk, budget_s: float, most: int = 1 << 62) -> Status:
        """Go on until the end, until `chunk` (rows × (1 + cells)) is full, for about `budget_s` seconds,
        or for `most` steps.

        The first `rows` rows of `chunk` are filled then. The first row of a run is that of its start
        time, and its last one is always kept. A failure is raised, with `rows` telling what there is.
        """
        machine = self._machine
        status, self.rows = machine._machine.run_fixed(self._run, self._recorder, chunk, budget_s, most)
        names = machine.tables.events
        if names:
            fired = machine._machine.take_fired()
            self.events += [(names[event], time, index) for event, index, time in fired]
        machine._note_strings()
        if status == Status.FAILED:
            machine._raise()
        return Status(status)


def _text(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {str(cause) or 'no message'}"
