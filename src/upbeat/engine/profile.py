"""Measuring a profile: a short run whose steps are cut into operations that are timed one by one.

What a call into the engine costs by itself is measured in the same run, and subtracted. Every other step is
done and timed as a whole: what its operations take together beyond that is the cost of doing them one by one,
and is subtracted, too. What a wait of one core for another costs on this machine is measured next to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from statistics import fmean, median
from time import perf_counter, perf_counter_ns
from typing import Any

from upbeat.core.errors import InvalidInput
from upbeat.core.ports import Signal, Value
from upbeat.engine.experiment import Experiment
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.machine import Fired, Machine
from upbeat.engine.native import machine as native
from upbeat.engine.parallel.cores import MIN_DURATION, Profile
from upbeat.engine.parallel.operations import Operation, operations
from upbeat.engine.selection import select
from upbeat.master.program import Program
from upbeat.scenario.merging.inline import path_of
from upbeat.units.solving.integrate import SolverStatistics

SECONDS = 1.0
"""How long a profile is measured, unless the scenario ends before."""
MIN_STEPS, ENOUGH = 3, 2000
"""So many steps are measured however long they take, and so many are enough."""
CROSSING_SECONDS = 0.2
"""How long waits are measured, at most; on free cores it takes a few hundredths of a second."""
_BATCH = 16
_EVERY, _WARM = 8, 8
"""Every eighth call does nothing, and so do the first ones, which do not count (a multiple of the other)."""
_NOTHING = "nothing at all"
_INSTANT = "instant"


def profile(experiment: Experiment, seconds: float = SECONDS) -> Profile:
    """Run an experiment for some seconds and measure its operations."""
    if not seconds > 0:
        raise InvalidInput(f"a profile takes a positive number of seconds, not {seconds!r}")
    plan, choice, span = experiment.plan, experiment.choice, experiment.span
    program, units = plan.program, plan.scenario.units
    found = {
        name: operations(program, name, units, lambda unit: path_of(plan.scenario, unit))
        for name in program.steps
    }
    pieces = _cut(program, found)
    timed, steps, spent = _Timed(found), 0, 0.0
    while steps < MIN_STEPS or (steps < ENOUGH and spent < seconds):  # a short scenario runs several times
        machine: Machine = (
            Interpreter(pieces, units, span.start)
            if choice.name == "interpret"
            else native.machine(pieces, units, span.start, jit=experiment.jit)
        )
        with closing(timed.use(machine)):
            loop = Loop(timed, program, span, select(program, None), None)
            loop.begin()
            began, before = perf_counter(), steps
            while not loop.finished and (steps < MIN_STEPS or spent + perf_counter() - began < seconds):
                loop.step()
                steps += 1
            spent += perf_counter() - began
        if steps == before:
            raise InvalidInput("there is nothing to measure: the run ends where it starts")
    blocks = {name: timed.times(name) for name in found if timed.ran(name)}
    return Profile(blocks, steps, choice.name, timed.instants(), native.crossing(CROSSING_SECONDS))


def _cut(program: Program, found: Mapping[str, Sequence[Operation]]) -> Program:
    """The program with every operation as a block of its own, besides those it has."""
    pieces = {
        _piece(name, number): tuple(program.steps[name][i] for i in operation.instructions)
        for name, each in found.items()
        for number, operation in enumerate(each)
    }
    return replace(program, steps={**program.steps, **pieces, _NOTHING: ()})


def _piece(block: str, number: int) -> str:
    return f"{block} · {number}"


def _interspersed(block: str, count: int) -> list[str]:
    """The pieces of a block, with nothing at all in between and before them.

    The first calls after the work of the loop take longer than others; what a call costs by itself is
    measured all along the way, for it depends on what else there is to do.
    """
    pieces = [_piece(block, number) for number in range(count)]
    found = [_NOTHING] * _WARM
    while pieces:
        found += [_NOTHING, *pieces[: _EVERY - 1]]
        pieces = pieces[_EVERY - 1 :]
    return found


class _Timed:
    """Executes the blocks of steps operation by operation on its `machine`, and takes the time."""

    machine: Machine
    fired: list[Fired]

    def __init__(self, found: Mapping[str, Sequence[Operation]]) -> None:
        self._found = found
        self._pieces = {name: _interspersed(name, len(each)) for name, each in found.items()}
        self._spent: dict[str, list[list[int]]] = {name: [] for name in found}
        self._whole: dict[str, list[int]] = {name: [] for name in found}
        self._idle: list[int] = []
        self._instants: list[int] = []

    def use(self, machine: Machine) -> Machine:
        """From now on it is this machine that works."""
        self.machine, self.fired = machine, machine.fired
        return machine

    def execute(self, block: str) -> None:
        execute = self.machine.execute
        if block not in self._pieces or len(self._whole[block]) < len(self._spent[block]):
            before = perf_counter_ns()
            execute(block)
            taken = perf_counter_ns() - before
            if block == _INSTANT:
                self._instants.append(taken)
            elif block in self._pieces:
                self._whole[block].append(taken)
            return
        spent: list[int] = []
        for piece in self._pieces[block]:
            before = perf_counter_ns()
            execute(piece)
            spent.append(perf_counter_ns() - before)
        places = range(len(spent))
        self._idle += [spent[k] for k in places if k >= _WARM and k % _EVERY == 0]
        self._spent[block].append([spent[k] for k in places if k >= _WARM and k % _EVERY])

    def ran(self, block: str) -> bool:
        return bool(self._spent[block])

    def times(self, block: str) -> dict[str, float]:
        """Seconds by operation: the median of the means of a few steps each.

        A mean counts steps that take longer than others; the median leaves out those in which the machine
        was doing something else.
        """
        idle = self._overhead
        rows = self._spent[block][1:] or self._spent[block]  # the first time, everything takes longer
        apart = [_typical(spent) - idle for spent in zip(*rows, strict=True)]
        whole = self._whole[block][1:] or self._whole[block]
        excess = max(0.0, sum(apart) - (_typical(whole) - idle)) if whole else 0.0
        more = excess / max(1, len(apart))
        return {
            operation.name: max(MIN_DURATION, 1e-9 * (nanoseconds - more))
            for operation, nanoseconds in zip(self._found[block], apart, strict=True)
        }

    @property
    def _overhead(self) -> float:
        """What a call costs by itself; nothing where steps have no operations, as between events of units
        that rest."""
        return median(self._idle) if self._idle else 0.0

    def instants(self) -> float:
        """Seconds that an instant takes, of which every step has one at its end."""
        return (
            max(MIN_DURATION, 1e-9 * (_typical(self._instants) - self._overhead)) if self._instants else 0.0
        )

    # ---------------------------------------------------------------- all else is the machine's

    def read(self, cell: int) -> Value:
        return self.machine.read(cell)

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        return self.machine.row(cells)

    def write(self, cell: int, value: Value) -> None:
        self.machine.write(cell, value)

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        self.machine.set_input(unit, port, *coefficients)

    def save(self) -> Any:
        return self.machine.save()

    def restore(self, token: Any) -> None:
        self.machine.restore(token)

    def to_bytes(self, token: Any) -> bytes:
        return self.machine.to_bytes(token)

    def from_bytes(self, data: bytes) -> Any:
        return self.machine.from_bytes(data)

    def pack(self, token: Any) -> bytes:
        return self.machine.pack(token)

    def unpack(self, body: bytes) -> Any:
        return self.machine.unpack(body)

    def read_inside(self, path: Sequence[str], cell: int) -> float | None:
        return self.machine.read_inside(path, cell)

    def solver_statistics(self) -> Mapping[str, SolverStatistics]:
        return self.machine.solver_statistics()

    def advancing(self) -> Sequence[str]:
        return self.machine.advancing()

    def tried(self) -> Mapping[str, tuple[float, float, bool]]:
        return self.machine.tried()

    def close(self) -> None:
        self.machine.close()


def _typical(spent: Sequence[int]) -> float:
    size = min(_BATCH, max(1, len(spent) // 8))
    batches = [spent[i : i + size] for i in range(0, len(spent) - size + 1, size)]
    return float(median(fmean(batch) for batch in batches))
