"""Registers and blocks while a program is being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from math import nan
from typing import Any

from upbeat.core.expr import Cell, Expr, Op, apply, lift
from upbeat.core.expr.nodes import Node
from upbeat.core.ports import Kind, Value
from upbeat.core.reasons import Reason
from upbeat.core.time import OpenSpan, Span
from upbeat.master.program import Block, If, Instruction, Layout, Let, Reg, Register, Repeat


class TakenError(ValueError):
    """Two registers with one name."""


class Registers:
    """Grows a `Layout`. Names are for people (`explain`, messages) and must be unique."""

    def __init__(self) -> None:
        self._registers: list[Register] = []
        self._names: set[str] = set()
        self._taken: set[str] = set()  # names, and what is before their first prime
        self._cells = 0
        self._slots = 0

    def new(
        self, name: str, kind: Kind = Kind.REAL, size: int = 1, start: Sequence[Value] | None = None
    ) -> Reg:
        """The first cell of a new register."""
        if name in self._names:
            raise TakenError(f"register {name!r} exists already")
        values = tuple(start) if start is not None else (kind.zero,) * size
        register = Register(name, self._cells, kind, size, values)
        self._registers.append(register)
        self._names.add(name)
        self._taken |= {name, name.partition("′")[0]}
        self._cells += size
        return register.first

    def unique(self, name: str) -> str:
        """`name`, or `name` with a number where it is taken."""
        others = (f"{name} {k}" for k in count(2))
        return next(free for free in chain((name,), others) if free not in self._taken)

    def slot(self) -> int:
        """A new slot for `Save`."""
        self._slots += 1
        return self._slots - 1

    def layout(self) -> Layout:
        return Layout(tuple(self._registers))


# ----------------------------------------------------------------------------------------------------
# Writing blocks so that they read like the algorithm: statement by statement, from top to bottom.

Given = Expr | float


class Writer:
    """A block that is being written.

    with w.when(a < b):
        w.let(c, a + b)
    with w.otherwise():
        w.let(c, 0.0)
    """

    def __init__(self) -> None:
        self._open: list[list[Instruction]] = [[]]

    @property
    def block(self) -> Block:
        """What has been written."""
        (whole,) = self._open
        return tuple(whole)

    def add(self, *instructions: Instruction) -> None:
        self._open[-1] += instructions

    def let(self, to: Cell, value: Given) -> None:
        self.add(Let(to.index, lift(value)))

    def copy(self, to: Cell, source: Cell, count: int) -> None:
        """As many cells in a row."""
        self.add(*(Let(to.index + i, Cell(source.index + i)) for i in range(count)))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """What is written inside happens if the condition holds."""
        with self._inside() as then:
            yield
        self.add(If(condition, tuple(then)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is written inside happens if the condition of the `when` right before does not hold."""
        last = self._open[-1].pop()
        assert isinstance(last, If)
        with self._inside() as orelse:
            yield
        self.add(If(last.condition, last.then, tuple(orelse)))

    @contextmanager
    def repeat(self, max_iterations: int, until: Expr) -> Iterator[None]:
        """What is written inside happens again and again, once at least."""
        with self._inside() as body:
            yield
        self.add(Repeat(max_iterations, tuple(body), until, "accept"))

    @contextmanager
    def _inside(self) -> Iterator[list[Instruction]]:
        self._open.append([])
        try:
            yield self._open[-1]
        finally:
            self._open.pop()


def at(first: Cell, place: int) -> Cell:
    """One of several cells in a row."""
    return Cell(first.index + place)


def where(condition: Node, then: Given, orelse: Given) -> Expr:
    """One or the other."""
    return apply(Op.WHERE, condition, then, orelse)


def equal(a: Node, b: Given) -> Expr:
    """Whether both are the same number."""
    return apply(Op.EQ, a, b)


def minimum(a: Given, b: Given) -> Expr:
    """As Python's `min`: the second one only if it is less."""
    return apply(Op.MIN, b, a)


def maximum(a: Given, b: Given) -> Expr:
    """As Python's `max`: the second one only if it is more."""
    return apply(Op.MAX, b, a)


def absolute(a: Node) -> Expr:
    """Its size, without the sign."""
    return apply(Op.ABS, a)


def power(a: Given, b: Given) -> Expr:
    """One to the power of the other."""
    return apply(Op.POW, a, b)


def isnan(a: Node) -> Expr:
    """Whether it is not a number."""
    return apply(Op.NE, a, a)


NEXT = 2.0**-53 + 2.0**-105
"""The part of a double that is just enough to make the next one of it (see `ulp`)."""


def ulp(t: Node) -> Expr:
    """The distance from a number to the next larger one, which rounding to nearest makes of this sum.

    See Rump, Zimmermann, Boldo, Melquiond: Computing predecessor and successor in rounding to nearest."""
    here = absolute(t)
    return (here + here * NEXT) - here


class Steps:
    """The registers through which a pace and the loop talk, and what paces have in common while they are
    written: memory, reasons and the numbers of blocks (see `Pacing`)."""

    def __init__(
        self, registers: Registers, now: Reg, reached: Reg, blocks: Sequence[str], span: Span | None = None
    ) -> None:
        self._registers = registers
        self.span = OpenSpan(0.0) if span is None else span
        """Of the run, as far as it is known: what is nested goes on for as long as it is asked to."""
        self.memory: list[Reg] = []
        self.calls: list[Any] = []
        """The paces in Python that take part."""
        self.reasons: list[Reason] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self.blocks = list(blocks)
        """The step blocks of the program by their numbers."""
        self.alone = True
        """Whether no pace around the one that is written changes blocks and reasons: then those that never
        change are written once."""
        self.now, self.reached = Cell(now), Cell(reached)
        self.limit, self.until, self.block = (
            self.new(f"pace′{name}") for name in ("limit", "until", "block")
        )
        # The proposal is one row of cells: where the step ends, its block, and why. `propose_default` copies
        # the last two at once.
        self.reason = self.new("pace′reason", 4)
        assert (self.block.index, self.reason.index) == (self.until.index + 1, self.until.index + 2)
        self.again, self.fired = self.new("pace′again"), self.new("pace′fired")

    def new(self, name: str, count: int = 1, start: Sequence[float] | None = None) -> Cell:
        """Memory of a pace: it keeps its content when a step is repeated."""
        name = self._registers.unique(name)
        register = self._registers.new(name, size=count, start=start)
        self.memory.append(register)
        return Cell(register)

    def table(self, name: str, numbers: Sequence[float]) -> Cell:
        """Numbers that stay as they are."""
        return self.new(name, len(numbers), tuple(map(float, numbers)))

    def number(self, kind: str, about: str = "", *, at: bool = False, of: int = 0) -> int:
        """The number of a reason, which has a time and so many more numbers to tell."""
        return self.numbers(kind, (about,), at=at, of=of)

    def numbers(self, kind: str, abouts: Sequence[str], *, at: bool = False, of: int = 0) -> int:
        """The first of the numbers, one after the other, of reasons that are about these."""
        key = (kind, *abouts)
        if key not in self._numbers:
            self._numbers[key] = len(self.reasons)
            self.reasons += [Reason(kind, about, 0.0 if at else None, (0.0,) * of) for about in abouts]
        return self._numbers[key]

    def propose(
        self, w: Writer, until: Given, why: Given, at: Given = nan, *of: Given, block: Given = 0.0
    ) -> None:
        """Where the step is to end, why, and by which block."""
        w.let(self.until, until)
        w.let(self.block, block)
        self.because(w, why, at, *of)

    def propose_default(self, w: Writer, kind: str) -> None:
        """The default block, for a reason without numbers: constants, which are copied at once."""
        number = self.number(kind)
        w.copy(self.block, self.table(f"pace′{kind}", (0.0, number)), 2)

    def because(self, w: Writer, why: Given, at: Given = nan, *of: Given) -> None:
        """Another reason; what it has no number for stays as it is, and is not read."""
        for k, number in enumerate((why, *((at,) if at == at or of else ()), *of)):
            w.let(Cell(self.reason.index + k), number)
