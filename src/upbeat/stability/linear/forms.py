"""The interpreter on linear forms: a program runs as ever, and beside every value goes its derivative.

A *row* says how a value depends on the extended state, to first order. Whatever an instruction does to
values it does to rows by the chain rule, so one machine serves every coupling there is. Where a program
decides something (`If`, `Repeat`), somebody has to stand somewhere: at rest a loop is solved before it
begins, and its rows would never be. So decisions are those of a *neighbour*, the same program a little
way off; for linear programs, whose rows are the same everywhere, the machine is its own neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Model
from upbeat.core.errors import StepError
from upbeat.core.expr import ONE, Cell, Expr, Kernel, cells, directional_derivative
from upbeat.core.ports import Kind, Signal, Value
from upbeat.core.replay import Allowance
from upbeat.engine.interpreter.calls import Action
from upbeat.engine.interpreter.interpret import Interpreter, Kept
from upbeat.engine.interpreter.values import evaluator
from upbeat.master.program import (
    Advance,
    Due,
    Get,
    If,
    Instruction,
    Jump,
    Let,
    Program,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    Solve,
)
from upbeat.stability.linear.affine import affine
from upbeat.stability.linear.beside import Beside, Rows
from upbeat.stability.linear.extended import signal_cells
from upbeat.stability.linear.neighbour import Neighbour, opened
from upbeat.units.solving.unit import SolvedUnit

Row = npt.NDArray[np.float64]
WORK = 3_000_000
"""How many instructions and evaluations of equations one look at a step may take."""


class Forms(Interpreter):
    """An interpreter whose cells have rows, and whose units have somebody beside them.

    Rows are kept only where they are not zero. Unless it is `active`, nothing but values is computed.
    """

    def __init__(
        self,
        program: Program,
        models: Mapping[str, Model],
        start: float,
        neighbour: Neighbour | None,
        around: Forms | None = None,
    ) -> None:
        """`around`: the machine that has this one inside one of its units."""
        self._active = False
        self._around = around
        self.allowance: Allowance = Allowance(WORK) if around is None else around.allowance
        """What one look may still take; whoever looks renews it."""
        self.rows: dict[int, Row] = {}
        self.courses: dict[tuple[str, str], tuple[float, list[Signal]]] = {}
        """What every input was given last, and when."""
        self.beside: dict[str, Beside] = {}
        self.jumps: list[tuple[str, float]] = []
        """Which unit has jumped, and when."""
        self._neighbour = neighbour
        self._row_slots: dict[int, tuple[dict[int, Row], dict[str, Any]]] = {}
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self._ends_of = {unit: [(unit, port.name) for port in model.ports] for unit, model in models.items()}
        self.valueless: bool = (
            neighbour is None and _valueless(program, models) if around is None else around.valueless
        )
        """Whether rows depend on no value."""
        self.rows_alone = False
        """Whether nobody looks at values, so that they need not be computed where rows do without."""
        super().__init__(program, models, start)

    @property
    def active(self) -> bool:
        return self._active if self._around is None else self._around.active

    @active.setter
    def active(self, now: bool) -> None:
        self._active = now

    def _instantiated(self, model: Model, name: str, start: float) -> Any:
        if not opened(model):
            unit = super()._instantiated(model, name, start)
            self.allowance.bound(unit)
            if self.valueless and isinstance(unit, SolvedUnit):
                unit.advance = partial(self._passed, unit, unit.advance)  # type: ignore[method-assign]
            return unit
        beside = None if self._neighbour is None else self._neighbour.units[name].machine
        return model.instantiate(name, start, partial(Forms, neighbour=beside, around=self))

    def _passed(self, unit: SolvedUnit, advance: Any, t: float, to: float, early: bool = False) -> float:
        """Instead of `advance`: unless values are wanted, time passes and states stay as they are."""
        if not self._whole.rows_alone:
            return float(advance(t, to, early))
        unit.time = to
        unit.put(unit.state)
        return to

    @property
    def _whole(self) -> Forms:
        """The outermost machine around this one."""
        return self if self._around is None else self._around._whole

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        super().set_input(unit, port, *coefficients)
        self.courses[unit, port] = self._clock[unit], list(coefficients)

    def _kept(self, units: Sequence[str]) -> Kept:
        """With the courses of inputs: units keep theirs, too."""
        return {
            unit: (
                (token, {end: self.courses[end] for end in self._ends_of[unit] if end in self.courses}),
                time,
            )
            for unit, (token, time) in super()._kept(units).items()
        }

    def _restore_units(self, kept: Kept) -> None:
        super()._restore_units({unit: (token, time) for unit, ((token, _), time) in kept.items()})
        for (_, courses), _ in kept.values():
            self.courses.update(courses)

    def write(self, cell: int, value: Value) -> None:
        super().write(cell, value)
        if self._neighbour is not None:
            self._neighbour.write(cell, value)

    def _test(self, condition: Expr) -> Callable[[], bool]:
        if self._neighbour is None:
            return super()._test(condition)
        holds, there = evaluator(condition, Kind.BOOLEAN), self._neighbour
        return lambda: bool(holds(there._cells))

    def _action(self, instruction: Instruction) -> Action:
        action = super()._action(instruction)
        if isinstance(instruction, Set):
            action = self._noted(instruction, action)
        elif isinstance(instruction, Jump):
            action = self._counted(instruction, action)
        beside = self._linear(instruction)
        if beside is None:  # If and Repeat, whose parts come one by one
            return action
        also: Action | None = None
        if self._neighbour is not None:
            also = Interpreter._action(self._neighbour, instruction)

        spend = self.allowance.spend

        def both() -> None:
            spend()
            after = beside() if self.active else None
            action()
            if also is not None:
                also()
            if after is not None:
                after()

        return both

    def _noted(self, instruction: Set, action: Action) -> Action:
        key, course = (instruction.unit, instruction.port), self._calls.course(instruction)

        def noted() -> None:
            action()
            self.courses[key] = self._clock[instruction.unit], course()

        return noted

    def _counted(self, instruction: Jump, action: Action) -> Action:
        def counted() -> None:
            self.jumps.append((instruction.unit, self._clock[instruction.unit]))
            action()

        return counted

    # ---------------------------------------------------------------- what instructions do to rows

    def _linear(self, instruction: Instruction) -> Callable[[], Action] | None:
        """What is to be looked at before the instruction, which gives what is to be done after it."""
        rows, beside = self.rows, self.beside
        match instruction:
            case Let(to, value):
                return self._let(to, value)
            case Get(unit, port, to):
                count = self._ports[unit, port].cells + self._ports[unit, port].event
                return lambda: lambda: self._store(to, count, beside[unit].read(port))
            case Set(unit, port, by):
                count = self._ports[unit, port].cells

                def hand_over() -> None:
                    beside[unit].give(port, self._clock[unit], [self.gather(r, count) for r in by])

                return lambda: hand_over
            case Advance(unit, start, _, reached):

                def leave() -> Action:
                    left, t = beside[unit].leave(), float(self._cells[start])

                    def arrive() -> None:
                        beside[unit].arrive(left, t, self._clock[unit])
                        rows.pop(reached, None)

                    return arrive

                return leave
            case Solve():
                return lambda: self._solve(instruction)
            case Slope(unit, output, port, to):
                count = self._ports[unit, output].cells * self._ports[unit, port].cells
                return lambda: lambda: self._store(to, count, None)
            case Jump(unit, cell):

                def strike() -> Action:
                    left = beside[unit].strike()

                    def struck() -> None:
                        beside[unit].struck(left)
                        self._store(cell, 1, None)

                    return struck

                return strike
            case Due(_, cell):
                return lambda: lambda: self._store(cell, 1, None)
            case Save(units, registers, slot):
                extent = [r + i for r in registers for i in range(self._layout.of(r).size)]

                def save() -> None:
                    kept = {cell: rows[cell] for cell in extent if cell in rows}
                    self._row_slots[slot] = kept, {unit: beside[unit].save() for unit in units}

                return lambda: save
            case Restore(slot):
                return lambda: lambda: self._put_back(slot)
        return None

    def _let(self, to: int, value: Expr) -> Callable[[], Action]:
        rows, values = self.rows, self._cells
        if self._layout.of(to).kind is not Kind.REAL:
            return lambda: lambda: self._store(to, 1, None)
        if isinstance(value, Cell):
            source = value.index

            def copied() -> Action:
                row = rows.get(source)
                return lambda: self._put(to, row)

            return copied
        leaves = sorted(cells(value))
        compute: Callable[[list[float]], list[float]] | None = None
        sources: tuple[int, ...] = ()

        def computed() -> Action:
            nonlocal compute, sources
            active = [leaf for leaf in leaves if leaf in rows]
            if not active:
                return lambda: self._put(to, None)
            if compute is None:
                partial = tuple(directional_derivative(value, {Cell(leaf): ONE}) for leaf in leaves)
                kernel = Kernel.over_cells(partial)
                compute, sources = kernel.python(), kernel.input_cells
            slopes = dict(zip(leaves, compute([float(values[cell]) for cell in sources]), strict=True))
            row: Row | None = None
            for leaf in active:
                slope = slopes[leaf]
                if slope:
                    if not np.isfinite(slope):
                        raise StepError(
                            f"{self._layout.name(to)} has no finite slope by {self._layout.name(leaf)} at "
                            "this point: nothing linear comes close to it. Choose another point (at=…)."
                        )
                    part = slope * rows[leaf]
                    row = part if row is None else row + part
            return lambda: self._put(to, row)

        return computed

    def _solve(self, instruction: Solve) -> Action:
        """As x = A⁻¹·b: dx = A⁻¹·(db - dA·x), with the x that comes out."""
        rows, size = self.rows, instruction.size
        matrix = np.array([float(self._cells[instruction.matrix + i]) for i in range(size * size)])
        width = next((len(row) for row in rows.values()), 0)
        right = np.zeros((size, width))
        for i in range(size):
            if instruction.right + i in rows:
                right[i] = rows[instruction.right + i]
        entries = [k for k in range(size * size) if instruction.matrix + k in rows]
        moved = [rows[instruction.matrix + k] for k in entries]

        def after() -> None:
            for k, row in zip(entries, moved, strict=True):
                right[k // size] -= row * float(self._cells[instruction.to + k % size])
            if not right.any():
                self._store(instruction.to, size, None)
                return
            try:
                self._store(instruction.to, size, np.linalg.solve(matrix.reshape(size, size), right))
            except np.linalg.LinAlgError:
                raise StepError(
                    "an algebraic loop is singular at this point: its outputs do not determine its inputs, "
                    'so there is nothing to linearise. Break the loop (outputs="lagged") or change its gains.'
                ) from None

        return after

    # ---------------------------------------------------------------- rows

    def _put(self, cell: int, row: Row | None) -> None:
        if row is None:
            self.rows.pop(cell, None)
        else:
            self.rows[cell] = row

    def _store(self, first: int, count: int, found: Rows) -> None:
        for i in range(count):
            self._put(first + i, None if found is None or i >= len(found) else found[i])

    def gather(self, first: int, count: int) -> Rows:
        """The rows of several cells."""
        known = [self.rows.get(first + i) for i in range(count)]
        if all(row is None for row in known):
            return None
        width = next(len(row) for row in known if row is not None)
        return np.array([np.zeros(width) if row is None else row for row in known])

    def _put_back(self, slot: int) -> None:
        kept, units = self._row_slots[slot]
        extent = self._slots[slot][1]
        for cell in extent:
            self._put(cell, kept.get(cell))
        for unit, token in units.items():
            self.beside[unit].restore(token)


def _valueless(program: Program, models: Mapping[str, Model]) -> bool:
    """Whether rows of a program of linear units depend on no value of theirs, so that nobody needs these.

    Decisions depend on values, and so do quotients of them, as those by which corrections find sensitivities.
    """
    moving = signal_cells(program, models)
    for each in program.instructions():
        if isinstance(each, (If, Repeat, Slope, Solve)):
            return False
        if isinstance(each, Let) and not affine((each.value,), moving):
            return False
    inside = [model.running for model in models.values() if opened(model)]
    return all(_valueless(each.program, each.scenario.units) for each in inside)
