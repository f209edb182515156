"""The induced model: the matrix that one communication step applies to the extended state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType

import numpy as np

from upbeat.core.errors import InvalidInput, suggest
from upbeat.engine.experiment import Experiment
from upbeat.engine.isolation import Isolation, together
from upbeat.engine.nesting.model import Nested
from upbeat.master.paces.pace import Fixed
from upbeat.master.program import Program
from upbeat.stability.linear.beside import Array
from upbeat.stability.linear.followed import USUAL, Followed, Induced


class Inducing:
    """Finds the matrices of one experiment for any number of steps. A context manager: it holds units.

    `ideal`: every unit as if it were solved without error, so that only the coupling is judged. `blocks`: the
    step blocks of the program that steps are made by; those that do not say are made by the first.
    """

    def __init__(
        self, experiment: Experiment, *, ideal: bool = False, blocks: Sequence[str] = (USUAL,)
    ) -> None:
        self._experiment = experiment
        self._ideal = ideal
        self._blocks = tuple(blocks)
        self._nested = any(type(model) is Nested for model in experiment.closed.units.values())
        self._machine: Followed | None = None
        self._at_rest: Array | None = None  # the states of units: the search for other steps begins there

    def __enter__(self) -> Inducing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the units."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def machine(self, step: float) -> Followed:
        """What runs the program for steps of this size."""
        again = self._machine is not None and self._machine.reusable
        if not again or self._nested:  # nested scenarios have steps of their own, which others depend on
            self.close()
            master = replace(self._experiment.master, pace=Fixed(step))
            alone = self._experiment.with_(
                scenario=together(self._experiment.scenario), isolation=Isolation(), master=master
            )
            flat = alone.flat
            program = flat.master.program(flat.scenario)
            check_blocks(self._blocks, program)
            self._machine = Followed(
                flat.scenario, program, self._start, step, ideal=self._ideal, blocks=self._blocks
            )
        assert self._machine is not None
        return self._machine

    @property
    def _start(self) -> float:
        return self._experiment.span.start

    def at(self, step: float, time: float | None = None) -> Induced:
        """The matrix of a step of this size: at the start, as soon as all histories are complete, or at a
        later `time`, which the run itself is followed to."""
        machine = self.machine(step)
        machine.begin()
        depth = machine.depth if time is None else max(machine.depth, round((time - self._start) / step))
        for _ in range(depth):
            machine.go(step)
        return machine.induced(step)

    def along(self, steps: Sequence[float], every: int = 1) -> Iterator[Induced]:
        """The matrices of steps one after the other, after those that complete the histories."""
        machine = self.machine(steps[0])
        machine.begin()
        for number, step in enumerate(steps):
            if number < machine.depth or number % every:
                machine.go(step)
            else:
                yield machine.induced(step)

    def after(self, policies: Sequence[tuple[str, float]]) -> tuple[Array, Induced]:
        """The matrix of the last of these steps, each by its block, over all of the extended state."""
        machine = self.machine(policies[0][1])
        machine.begin()
        for block, step in policies[:-1]:
            machine.go(step, block)
        block, step = policies[-1]
        found = machine.induced(step, block)
        return machine.whole, found

    def rest(self, step: float, *, most: int = 30, tolerance: float = 1e-9) -> Induced:
        """The matrix at a point that a step leaves as it is, searched from the start by Newton's method."""
        machine = self.machine(step)
        machine.begin(self._at_rest)
        for _ in range(machine.depth):
            machine.go(step)
        moved = np.inf
        for _ in range(most):
            before = machine.values()
            found = machine.induced(step)
            change = machine.values() - before
            moved = float(np.max(np.abs(change) / (1.0 + np.abs(before)), initial=0.0))
            if moved <= tolerance:
                self._at_rest = before[: len(machine.extended.states)]
                return found
            try:
                away = np.linalg.lstsq(np.eye(len(before)) - machine.whole, change, rcond=None)[0]
            except np.linalg.LinAlgError:
                break
            machine.put(before + away)
        raise InvalidInput(
            f"no operating point at rest was found within {most} steps of Newton's method (the last one "
            f"still changes by {moved:.3g} over a communication step). Linearise at a time of the run "
            'instead (at=5.0, --at 5), or at the start (at="start").'
        )


def check_blocks(wanted: Sequence[str], program: Program) -> None:
    """That a program has these step blocks."""
    for name in wanted:
        if name not in program.steps:
            raise InvalidInput(
                f"there is no step block '{name}'. {suggest(name, program.steps, 'step blocks')} The "
                "coupling Variants gives a program several."
            )
