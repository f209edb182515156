"""The reference engine: one `match` over the instructions of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

from upbeat.core.abilities import Model, Rollback, Serialise, instantiated
from upbeat.core.errors import FAULTS, EndRequest, MissingExtra, RunError, StepError, UnitError
from upbeat.core.expr import Expr
from upbeat.core.ports import Kind, Signal, Value
from upbeat.engine.closing import close_all
from upbeat.engine.interpreter.calls import Action, Calls
from upbeat.engine.interpreter.linear import solve
from upbeat.engine.interpreter.polynomials import fall, fit, grid, pick, rank
from upbeat.engine.interpreter.values import Cells, evaluator
from upbeat.engine.machine import Fired
from upbeat.engine.packing import Contents, Packing, foreign
from upbeat.engine.texts import (
    UNPACKABLE,
    exhausted_error,
    text_of,
)
from upbeat.master.program import (
    Advance,
    Block,
    Call,
    Due,
    Fall,
    Fire,
    Fit,
    Get,
    Grid,
    If,
    Instruction,
    Jump,
    Let,
    Pick,
    Program,
    Rank,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    Solve,
)
from upbeat.units.process.told import Ended
from upbeat.units.solving.effort import Effort, Worked

Kept = dict[str, tuple[Any, float]]
"""Saved units: the token and the own time of each."""


Bound = list[tuple[Action, Instruction]]
"""A block with its units, ports and cells looked up: what is done, and the instruction to blame."""


class Interpreter:
    """A machine (see `engine.machine`) in plain Python: any unit, any program.

    The `match` is done once, when the machine is made: it turns each instruction into a function of
    no arguments, and running a block calls these in order. Matching anew at every step would cost
    more than a unit's own call.
    """

    def __init__(self, program: Program, models: Mapping[str, Model], start: float) -> None:
        self.fired: list[Fired] = []
        self._made_of = program, models
        self._layout = program.layout
        self._ends = program.now, program.next
        self._texts = frozenset(
            register.first + i
            for register in program.layout.registers
            if register.kind is Kind.STRING
            for i in range(register.size)
        )
        self._cells: Cells = list(program.layout.start)
        self._clock = dict.fromkeys(models, start)
        self._slots: dict[int, tuple[Kept, dict[int, Value]]] = {}
        self._row_of: tuple[int, ...] | None = None
        self._picked: Callable[[Cells], Sequence[Value]] = list
        self._units: dict[str, Any] = {}  # each a `Unit`, with all the calls it promises
        try:
            for name, model in models.items():
                self._units[name] = self._call(name, "instantiate", self._instantiated, model, name, start)
        except BaseException:
            self.close()
            raise
        self._calls = Calls(self._cells, self._units, self._clock, models, program.computed)
        self._blocks = {name: self._bound(block) for name, block in program.blocks.items()}

    def _instantiated(self, model: Model, name: str, start: float) -> Any:
        return instantiated(model, name, start)

    def execute(self, block: str) -> None:
        self._run(self._blocks[block])

    def _run(self, bound: Bound) -> None:
        for action, instruction in bound:
            try:
                action()
            except RunError:
                raise
            except FAULTS as cause:
                if isinstance(instruction, Call):
                    raise
                kind = EndRequest if isinstance(cause, Ended) else UnitError
                raise self._calls.blamed(instruction, text_of(cause), kind) from cause

    def _bound(self, block: Block) -> Bound:
        return [(self._action(instruction), instruction) for instruction in block]

    def _action(self, instruction: Instruction) -> Action:
        """What an instruction does."""
        cells, units, run = self._cells, self._units, self._run
        match instruction:
            case Get(unit, port):
                get, store = units[unit].get, self._calls.storing(instruction)
                return lambda: store(get(port))
            case Set(unit, port):
                give, course = units[unit].set, self._calls.course(instruction)
                return lambda: give(port, course())
            case Let(to, value):
                compute = evaluator(value, self._layout.of(to).kind, self._texts)
                return lambda: cells.__setitem__(to, compute(cells))
            case Solve(size, matrix, right, to):
                return lambda: solve(cells, size, matrix, right, to)
            case Fit():
                return lambda: fit(cells, instruction)
            case Fall():
                return lambda: fall(cells, instruction)
            case Pick(first, count, index, to):
                return lambda: cells.__setitem__(to, pick(cells, first, count, index))
            case Rank(first, count, at, to):
                return lambda: cells.__setitem__(to, rank(cells, first, count, at))
            case Grid(first, now, limit, to):
                return lambda: cells.__setitem__(to, grid(cells, first, now, limit))
            case Call(called, what):
                assert self._made_of[0].pace is not None
                count_of = self._made_of[0].pace.fired
                return lambda: called(what, self.read, self.write, self._latest(count_of))
            case Slope():
                return self._calls.sloping(instruction)
            case Advance():
                return self._calls.advancing(instruction)
            case Jump(unit, again):
                jump = getattr(units[unit], "jump", lambda: False)  # a unit without discrete behaviour
                return lambda: cells.__setitem__(again, bool(jump()))
            case Due(unit, to):
                return self._calls.asking(instruction)
            case If(condition, then, orelse):
                test, yes, no = self._test(condition), self._bound(then), self._bound(orelse)
                return lambda: run(yes if test() else no)
            case Repeat(most, body, until, exhausted):
                test, bound = self._test(until), self._bound(body)

                def repeat() -> None:
                    for _ in range(most):
                        run(bound)
                        if test():
                            return
                    if exhausted == "fail":
                        raise exhausted_error(instruction, self.read, *self._ends)

                return repeat
            case Save(saved, registers, slot):
                extent = [r + i for r in registers for i in range(self._layout.of(r).size)]
                return lambda: self._slots.__setitem__(
                    slot, (self._kept(saved), {i: cells[i] for i in extent})
                )
            case Restore(slot):
                return lambda: self._restore_slot(slot)
            case Fire(event, None):
                return lambda: self.fired.append((event, None))
            case Fire(event, int(value)):
                first, last = value, value + self._layout.of(value).size
                if last - first == 1:
                    return lambda: self.fired.append((event, cells[first]))
                return lambda: self.fired.append((event, tuple(cells[first:last])))
            case _:
                raise TypeError(f"{instruction} is no instruction")

    def _latest(self, count: int) -> list[str]:
        """The names of the events that a pace is told of."""
        last = int(self._cells[count])
        return [name for name, _ in self.fired[len(self.fired) - last :]]

    def _test(self, condition: Expr) -> Callable[[], bool]:
        """What decides which way a program goes on."""
        holds, cells = evaluator(condition, Kind.BOOLEAN, self._texts), self._cells
        return lambda: bool(holds(cells))

    def _call(self, unit: str, call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (UnitError, StepError, MissingExtra):  # a nested run says itself what happened
            raise
        except FAULTS as cause:
            raise UnitError(text_of(cause), unit=unit, call=call, time=self._clock[unit]) from cause

    def _kept(self, units: Sequence[str]) -> Kept:
        kept = {}
        for name in units:
            unit = self._units[name]
            if not isinstance(unit, Rollback):
                what = "it cannot be set back to an earlier state"
                raise UnitError(what, unit=name, call="save()", time=self._clock[name])
            kept[name] = self._call(name, "save()", unit.save), self._clock[name]
        return kept

    def _restore_units(self, kept: Kept) -> None:
        for name, (token, time) in kept.items():
            self._call(name, "restore()", self._units[name].restore, token)
            self._clock[name] = time

    def _restore_slot(self, slot: int) -> None:
        kept, contents = self._slots[slot]
        self._restore_units(kept)
        for cell, content in contents.items():
            self._cells[cell] = content

    @property
    def units(self) -> Mapping[str, Any]:
        """The running units, for those who look at them beside the program."""
        return self._units

    # ---------------------------------------------------------------- for the loop

    def read(self, cell: int) -> Value:
        return self._cells[cell]

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        if cells is not self._row_of:  # nearly always the same ones, many times
            self._row_of = cells
            self._picked = itemgetter(*cells) if len(cells) > 1 else lambda all: [all[c] for c in cells]
        return self._picked(self._cells)

    def write(self, cell: int, value: Value) -> None:
        self._cells[cell] = value

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        self._call(unit, f"set('{port}')", self._units[unit].set, port, list(coefficients))

    def save(self) -> tuple[Kept, Cells]:
        return self._kept(tuple(self._units)), list(self._cells)

    def restore(self, token: tuple[Kept, Cells]) -> None:
        kept, cells = token
        self._restore_units(kept)
        self._cells[:] = cells

    @cached_property
    def _packing(self) -> Packing:
        return Packing(*self._made_of)

    def to_bytes(self, token: tuple[Kept, Cells]) -> bytes:
        return self._packing.sealed(self.pack(token))

    def from_bytes(self, data: bytes) -> tuple[Kept, Cells]:
        return self.unpack(self._packing.opened(data))

    def pack(self, token: tuple[Kept, Cells]) -> bytes:
        kept, cells = token
        states = []
        for name, (state, _) in kept.items():
            unit = self._units[name]
            if not isinstance(unit, Serialise):
                raise UnitError(UNPACKABLE, unit=name, call="to_bytes()", time=self._clock[name])
            states.append(self._call(name, "to_bytes()", unit.to_bytes, state))
        return self._packing.written(Contents(cells, [time for _, time in kept.values()], states))

    def unpack(self, body: bytes) -> tuple[Kept, Cells]:
        cells, clocks, states = self._packing.read(body)
        kept: Kept = {}
        for (name, unit), time, state in zip(self._units.items(), clocks, states, strict=True):
            if not isinstance(unit, Serialise):
                raise UnitError(UNPACKABLE, unit=name, call="from_bytes()", time=self._clock[name])
            try:
                kept[name] = unit.from_bytes(state), time
            except FAULTS as cause:
                raise foreign(name, cause) from cause
        return kept, cells

    def efforts(self) -> dict[str, Effort]:
        return {
            name: unit.effort
            for name, unit in self._units.items()
            if isinstance(unit, Worked) and unit.effort is not None
        }

    def advancing(self) -> list[str]:
        return [] if self._calls.busy is None else [self._calls.busy]

    def tried(self) -> dict[str, tuple[float, float, bool]]:
        return {}

    def close(self) -> None:
        units, self._units = self._units, {}
        close_all(units)
