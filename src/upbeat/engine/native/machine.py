"""The native engine: the same programs, lowered to tables and run by the C++ core (`upbeat._native`)."""

from __future__ import annotations

import enum
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability, Model, Native, instantiated
from upbeat.core.errors import FAULTS, MissingExtra, RunError, StepError, UnitError
from upbeat.core.plain import Place, Places
from upbeat.core.ports import Kind, Signal, Value
from upbeat.core.reasons import KNOWN, Reason
from upbeat.core.records import dataclass
from upbeat.engine.machine import Fired, close_all, nested_cell, text_of
from upbeat.engine.native.entry import Entry, names_of
from upbeat.engine.native.errors import CLOSED, CoreError, FiredColumns, Names, Raw, blame, not_taken
from upbeat.engine.native.lower import KINDS, Tables, lower, port_numbers, slopes_asked
from upbeat.engine.packing import Packing
from upbeat.master.program import Program
from upbeat.trace.log import RUNS, StepRuns
from upbeat.units.solving.integrate import SolverStatistics

if TYPE_CHECKING:
    from upbeat import _native
    from upbeat.engine.schedule import Schedule

# ----------------------------------------------------------------------------------------------------
# The loop in the native core, as Python sees it: asked to go on, it comes back with what it has done.

Chunk = npt.NDArray[np.float64]
"""Rows of [time, cells...]; a cell that is not real holds the bits of an int64."""


KNOWN_EVENT = -(1 << 31)
"""The number of a reason: the step ends at a known event (native/src/loop.hpp)."""


class Status(enum.IntEnum):
    """Why `CoreLoop.run` came back."""

    FINISHED = 0
    FULL = 1
    PAUSED = 2
    FAILED = 3
    STOPPED = 4
    ABANDONED = 5


class Batch(NamedTuple):
    """What the core has done since the call before: how far it came, and what it left to be taken over."""

    status: Status
    time: float
    rows: int
    """How many rows of the chunk are filled."""
    left_out: bool
    """Whether one more lies behind them: the last, which thinning has left out."""
    steps: StepRuns
    events: FiredColumns


class CoreLoop:
    """The loop in the core; it comes back to let Python take over what it has done and look up.

    A stretch that failed is still a stretch: take it over, then call `fail`. Once the machine is closed,
    `StepError` says so.
    """

    def __init__(self, machine: Machine, loop: _native.Loop) -> None:
        from upbeat import _native

        self._machine = machine
        self._loop = loop
        self._closed = _native.Closed
        self._blocks = list(machine.tables.blocks)

    def begin(self, chunk: Chunk | None, limit: float = math.inf) -> Batch:
        """Everything that happens at the start time of a run to `limit`; its row goes into `chunk`."""
        return self._batch(self._loop.begin, chunk, limit)

    def run(
        self,
        chunk: Chunk | None,
        limit: float,
        budget_s: float,
        max_steps: int = 1 << 62,
        pause: float = math.inf,
    ) -> Batch:
        """Go on to the time `limit`, until `chunk` (rows × (1 + cells)) or the core's log is full, for about
        `budget_s` seconds, for `max_steps` steps, or until one has reached the time `pause`. The row at
        `limit` is always kept."""
        return self._batch(self._loop.run, chunk, limit, budget_s, max_steps, pause)

    @property
    def rows(self) -> int:
        """How many rows are in the chunk by now, also while the core is at work."""
        return self._loop.rows()

    def after(self, rows: int) -> None:
        """So many rows have been offered before: thinning goes on in time with them."""
        self._loop.after(rows)

    def fail(self) -> NoReturn:
        """Raise why the last stretch failed."""
        self._machine.fail()

    def _batch(self, call: Callable[..., _native.Left], *arguments: Any) -> Batch:
        try:
            code, time, rows, left_out, steps, events = call(*arguments)
        except self._closed:
            raise StepError(CLOSED) from None
        if code in (Status.STOPPED, Status.ABANDONED) and not self._machine.interrupted:
            raise StepError(CLOSED)
        runs = np.frombuffer(steps, RUNS)
        reasons = {why: self._reason(why) for why in sorted(set(runs["reason"].tolist()))}
        blocks = {block: self._blocks[block] for block in set(runs["block"].tolist())}
        return Batch(
            Status(code),
            time,
            rows,
            left_out,
            StepRuns(runs, reasons, blocks),
            self._machine.fired_columns(events),
        )

    def _reason(self, code: int) -> Reason:
        if code == KNOWN_EVENT:
            return Reason(KNOWN)
        tables = self._machine.tables
        if code < 0:
            return tables.stop_reasons[-1 - code]
        assert tables.pacing is not None
        return tables.pacing.why(*self._loop.reason(code))


# ----------------------------------------------------------------------------------------------------
# The machine in the core, and the tables that it is made of.


@dataclass(frozen=True)
class Available:
    """Whether the core can be used, which is also its truth, and a sentence that says so, or why not."""

    there: bool
    why: str

    def __bool__(self) -> bool:
        return self.there


def available() -> Available:
    """Whether the core can be used, and why not."""
    if find_spec("upbeat._native") is None:
        return Available(False, "Upbeat was installed where there was no C++ compiler")
    try:
        from upbeat import _native  # noqa: F401
    except ImportError as reason:
        return Available(False, f"the compiled part of Upbeat cannot be loaded ({reason})")
    return Available(True, "the compiled part of Upbeat is there")


def crossing(seconds: float) -> float | None:
    """What a wait of one core for another costs on this machine where both are free, measured for so long.

    None without the native engine.
    """
    if not available():
        return None
    from upbeat import _native

    return _native.core_latency(seconds)


class Lowered:
    """A program for the core: its tables, and the kernels of all units. Made once for many machines.

    With `jit`, expression units run as machine code ([jit]). Blocks with a schedule are done by as many
    threads as it has cores, the caller's being the first of them: whatever calls Python belongs there (see
    `engine.parallel.cores`).
    """

    def __init__(
        self,
        program: Program,
        models: Mapping[str, Model],
        *,
        jit: bool = False,
        schedules: Mapping[str, Schedule] | None = None,
    ) -> None:
        from upbeat import _native

        self.program = program
        self.schedules = schedules or {}
        self.tables = lower(program, models, schedules)
        self.numbers = {unit: port_numbers(model) for unit, model in models.items()}
        self.slopes = slopes_asked(program)
        self.native = frozenset(
            unit
            for unit, model in models.items()
            if Ability.NATIVE in model.abilities and isinstance(model, Native)
        )
        """The units that run without Python."""
        self.has_strings = any(register.kind is Kind.STRING for register in program.layout.registers)
        self.entry = Entry(jit)
        self.core = _native.Program(
            self.tables, [self.entry.kernel(kernel) for kernel in self.tables.kernels]
        )


class Machine:
    """A machine (see `engine.machine`) in C++.

    One caller at a time: while the core works (without the GIL), calls from other threads raise
    `_native.Busy`, a RuntimeError. Only `close` may come at any time: the core is asked to come back, and
    the units are let go when it has.
    """

    def __init__(
        self,
        lowered: Lowered,
        models: Mapping[str, Model],
        start: float,
        *,
        strings: list[str] | None = None,
    ) -> None:
        from upbeat import _native

        self.fired: list[Fired] = []
        self.strings: list[str] = [] if strings is None else strings
        """The texts of string cells, by number. It grows in place: pass an empty list to share it."""
        self._lowered = lowered  # its machine code must live as long as the machine
        self._models = models
        self._tables = lowered.tables
        self._places = Places()
        self._python: dict[str, Any] = {}
        entered: dict[str, Any] = {}
        try:
            for name, model in models.items():
                entry = lowered.entry.asked(lowered.slopes.get(name, ()))
                entered[name] = self._enter(entry, name, model, start)
            self._machine = _native.Machine(lowered.core, list(entered.values()), start, self._calls())
            self._entered = entered
        except BaseException:
            close_all(entered | self._python)
            raise
        try:
            self._check(self._machine.begin_units())
        except BaseException:
            self.close()
            raise
        self.note_strings()

    @cached_property
    def _names(self) -> Names:
        """For what goes wrong, and for inputs that are set from outside."""
        return names_of(self._tables, self._models, self._entered, {})

    def _calls(self) -> list[Callable[..., None]]:
        """The functions that the program calls. What has fired outside the loop has been fetched already; the
        core must not keep this object alive, which Python's collector could not see."""
        owner, known = weakref.ref(self), list(self._tables.events)

        def made(call: Callable[..., None]) -> Callable[..., None]:
            def called(read: Any, write: Any, numbers: list[int]) -> None:
                machine = owner()
                fetched = [name for name, _ in machine.fired] if machine is not None else []
                call(read, write, [known[number] for number in numbers] or fetched)

            return called

        return [made(call) for call in self._tables.calls]

    def _enter(self, entry: Entry, name: str, model: Model, start: float) -> Any:
        try:
            if name in self._lowered.native:
                return cast(Native, model).enter(entry, name, start)
            unit = instantiated(model, name, start)
            self._python[name] = unit
            return entry.callback(model, unit)
        except (UnitError, StepError, MissingExtra):
            raise
        except FAULTS as cause:
            raise UnitError(text_of(cause), unit=name, call="instantiate", time=start) from cause

    # ---------------------------------------------------------------- the machine of the loop

    @property
    def tables(self) -> Tables:
        """The program as the core sees it."""
        return self._tables

    @property
    def core(self) -> _native.Machine:
        """The machine itself, for what drives it in the core."""
        return self._machine

    def resets(self) -> bool:
        """Whether all units can begin again (see `upbeat.engine.native.ensemble`)."""
        return self._machine.resets()

    def execute(self, block: str) -> None:
        self._check(self._machine.execute(self._tables.blocks[block]))
        if self._tables.events:
            fired = self.fired_columns(self._machine.take_fired())
            self.fired += fired.entries(self._tables.events, self.strings)

    def fired_columns(self, raw: Raw) -> FiredColumns:
        """What the core says has fired."""
        self.note_strings()
        return FiredColumns.read(raw, tuple(self._tables.events))

    def read(self, cell: int) -> Value:
        value: Value = self._machine.read(cell)
        return value

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        return [self._machine.read(cell) for cell in cells]

    def write(self, cell: int, value: Value) -> None:
        self._machine.write(cell, value)

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        known = self._names.ports[unit, port]
        values = [v for c in coefficients for v in ((c,) if known.size is None else c)]  # type: ignore[union-attr]
        number, kind = self._lowered.numbers[unit][port], KINDS[known.kind]
        at = self._tables.units.index(unit)
        done = self._machine.set_input(at, number, kind, values, len(coefficients))
        self._check(done)

    def save(self) -> Place:
        token = self._places.take()
        self._check(self._machine.save(token.number))
        return token

    def restore(self, token: Place) -> None:
        self._own(token)
        self._check(self._machine.restore(token.number))

    def _own(self, token: Place) -> None:
        if not self._places.owns(token):
            raise StepError("this state was saved by another machine")

    @cached_property
    def _packing(self) -> Packing:
        return Packing(self._lowered.program, self._models)

    def to_bytes(self, token: Place) -> bytes:
        return self._packing.sealed(self.pack(token))

    def from_bytes(self, data: bytes) -> Place:
        return self.unpack(self._packing.opened(data))

    def pack(self, token: Place) -> bytes:
        self._own(token)
        body = self._machine.pack(token.number)
        if body is None:
            self.fail()
        return body

    def unpack(self, body: bytes) -> Place:
        self._packing.read(body)  # what is wrong is said in the words of the interpreter
        token = self._places.take()
        if not self._machine.unpack(token.number, body):
            error = CoreError(*self._machine.take_error())
            raise not_taken(error, self._tables) or self._blame(error) from error.cause
        self.note_strings()
        return token

    def read_inside(self, path: Sequence[str], cell: int) -> float | None:
        unit, *rest = path
        if unit in self._python:
            return nested_cell(self._python[unit], rest, cell)
        numbers, names = [], self._names
        for one in path:
            if one not in names.inside:
                return None
            numbers.append(names.tables.units.index(one))
            names = names.inside[one]
        return self._machine.read_inside(numbers, cell)

    def solver_statistics(self) -> dict[str, SolverStatistics]:
        counted = zip(self._tables.units, self._machine.solver_statistics(), strict=True)
        return {unit: SolverStatistics(*counts) for unit, counts in counted if counts}

    def advancing(self) -> list[str]:
        return [self._tables.units[unit] for unit in self._machine.advancing()]

    def try_cores(self) -> None:
        """Time the first steps from now on, on several cores and on one, and go on with what is quicker."""
        self._machine.try_cores()

    def tried(self) -> dict[str, tuple[float, float, bool]]:
        names = list(self._tables.blocks)
        return {names[block]: found for block, found in self._machine.tried().items()}

    @contextmanager
    def heed_interrupts(self) -> Iterator[None]:
        """See `upbeat.engine.run`."""
        from upbeat import _native

        self._machine.heed_interrupts(True)
        _native.notice_interrupts(True)
        try:
            yield
        finally:
            _native.notice_interrupts(False)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended what it was doing."""
        from upbeat import _native

        return _native.interrupted()

    def close(self) -> None:
        units, self._python = self._python, {}
        self._machine.close(lambda: close_all(units))

    # ---------------------------------------------------------------- the whole loop in the core

    def loop(self, cells: Sequence[int] | None, every: int = 1, *, jumps: bool = True) -> CoreLoop:
        """The loop in the core, recording `cells`, or nothing; `every` and `jumps` as for a `Recorder`."""
        from upbeat import _native

        columns = None if cells is None else list(cells)
        return CoreLoop(self, _native.Loop(self._machine, columns, every, jumps))

    def note_strings(self) -> None:
        """Fetch the texts that are new in the core's pool."""
        if self._lowered.has_strings:
            self.strings += self._machine.strings(len(self.strings))

    # ---------------------------------------------------------------- errors

    def _check(self, done: bool) -> None:
        if not done:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise what the core says."""
        error = CoreError(*self._machine.take_error())
        raise self._blame(error) from error.cause

    def _blame(self, error: CoreError) -> RunError:
        return blame(error, self._names, self.read)


def machine(
    program: Program,
    models: Mapping[str, Model],
    start: float,
    *,
    jit: bool = False,
    strings: list[str] | None = None,
    schedules: Mapping[str, Schedule] | None = None,
) -> Machine:
    """A machine for one run of a program; see `Lowered`."""
    return Machine(Lowered(program, models, jit=jit, schedules=schedules), models, start, strings=strings)
