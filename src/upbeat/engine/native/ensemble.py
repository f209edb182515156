"""Many runs of one program in the native core: other numbers for each; only what was asked for is told."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability, Model, Native
from upbeat.core.errors import RunError, StepError
from upbeat.core.expr import Kernel
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.engine.native.errors import CLOSED
from upbeat.engine.native.machine import Lowered, Machine, Status
from upbeat.master.paces.watching import allowance
from upbeat.master.program import Program

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


class What(enum.IntEnum):
    """A number made of a signal over a whole run, or of an event: `Statistic` of native/src/ensemble.hpp."""

    INITIAL = 0
    FINAL = 1
    MINIMUM = 2
    MAXIMUM = 3
    INTEGRAL = 4
    FIRST = 5
    LAST = 6
    COUNT = 7
    FIRST_EVENT = 8
    LAST_EVENT = 9


@dataclass(frozen=True)
class Asked:
    """What is asked of every run.

    `kernel` computes signals from ``[time, cells, numbers that vary]``; those in `held` keep their value
    between
    rows. `statistics` are of a signal, or of an event by its number. `sampled` signals are told at the
    times of
    `grid`, and the first `events` events with theirs.
    """

    cells: tuple[int, ...]
    kernel: Kernel
    held: tuple[bool, ...]
    statistics: tuple[tuple[What, int], ...]
    sampled: tuple[int, ...] = ()
    grid: tuple[float, ...] = ()
    events: int = 0


class Told(NamedTuple):
    """What many runs have told, a row for each."""

    statistics: Floats
    samples: Floats
    """Runs × times × signals; not a number where a run did not get to."""
    events: Ints
    """The numbers of the first events; -1 behind the last one."""
    times: Floats
    totals: Floats
    """Steps, steps that were sent back, events, the time reached."""
    failures: dict[int, RunError]
    """Why runs ended before their time, by row. An `EndRequest` is none: a unit has ended it, as it may."""

    @classmethod
    def empty(cls, count: int, asked: Asked) -> Told:
        """Room for the answers of so many runs."""
        return cls(
            np.full((count, len(asked.statistics)), np.nan),
            np.full((count, len(asked.grid), len(asked.sampled)), np.nan),
            np.full((count, asked.events), -1, np.int32),
            np.full((count, asked.events), np.nan),
            np.zeros((count, 4)),
            {},
        )


class _NumbersCore:
    """The `Core` that tells the numbers with which a unit enters, in the order of `reset` (unit.h)."""

    slopes: Sequence[tuple[str, str]] = ()

    def ode(self, tables: Any, values: Any) -> tuple[float, ...]:
        """States, inputs, parameters."""
        return tuple(float(v) for part in values for v in part)

    def discrete(self, tables: Any) -> tuple[float, ...]:
        """Variables, inputs, parameters."""
        return (*tables.start, *tables.input_start, *tables.parameters)

    def addresses(self, functions: Mapping[str, int], pointer: int) -> None:
        """They are not known."""

    def table(self, address: int) -> None:
        """Nor these."""

    def nested(self, inside: Any, start: float) -> None:
        """Some may be written into the program inside: it begins again with those that it has."""


def numbers_of(model: Model, name: str, start: float) -> tuple[float, ...]:
    """The numbers that a unit of this model begins with; none where it has to be created again for others."""
    if hasattr(model, "reset_numbers"):
        return tuple(model.reset_numbers())
    if Ability.NATIVE not in model.abilities or not hasattr(model, "lower"):
        return ()
    assert isinstance(model, Native)
    found = model.enter(_NumbersCore(), name, start)
    return found if isinstance(found, tuple) else ()


class Runs:
    """Runs of one program, on a machine of their own. `places` say what the columns of a table are:
    (column, unit,
    place among its numbers). One thread at a time."""

    def __init__(
        self,
        lowered: Lowered,
        models: Mapping[str, Model],
        span: Span,
        asked: Asked,
        columns: int,
        places: Sequence[tuple[int, str, int]],
    ) -> None:
        from upbeat import _native

        self.machine = Machine(lowered, models, span.start)
        try:
            self.resets = self.machine.resets()
            """Whether all units can begin again: if not, nothing can be run here."""
            if not self.resets:
                return
            units = list(models)
            varied = {unit for _, unit, _ in places}
            self._asked = asked
            self._runs = _native.Runs(
                self.machine.core,
                list(asked.cells),
                lowered.entry.kernel(asked.kernel),
                list(asked.held),
                [(int(what), of) for what, of in asked.statistics],
                list(asked.sampled),
                list(asked.grid),
                asked.events,
                [(column, units.index(unit), place) for column, unit, place in places],
                columns,
                [
                    list(numbers_of(models[unit], unit, span.start)) if unit in varied else []
                    for unit in units
                ],
                _registers(lowered.program, span),
                span.start,
                span.stop,
            )
        except BaseException:
            self.machine.close()
            raise

    def run(self, table: Floats, progress: Callable[[int], None] = lambda done: None) -> Told:
        """A run for each row. One that fails is told of by its words, and the next one begins."""
        told = Told.empty(len(table), self._asked)
        table = np.ascontiguousarray(table, np.float64)
        flat = told.samples.reshape(len(table), -1)
        first = 0
        while first < len(table):
            first, status = self._runs.run(
                table, first, told.statistics, flat, told.events, told.times, told.totals
            )
            if status == Status.FAILED:
                try:
                    self.machine.fail()
                except RunError as error:
                    told.failures[first - 1] = error
            elif status == Status.STOPPED:
                raise StepError(CLOSED)
            progress(first)
        return told

    def close(self) -> None:
        """Let go of the units."""
        self.machine.close()


def _registers(program: Program, span: Span) -> list[tuple[int, float]]:
    """What the loop writes into registers before a run (see `upbeat.engine.loop`)."""
    if program.budget is None:
        return []
    return [(program.budget.register + 1, allowance(program.budget.step, span.stop - span.start))]
