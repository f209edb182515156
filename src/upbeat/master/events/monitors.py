"""Properties that are watched during a run: blocks that look at every row, and tell when one is violated.

At each communication point, before and after what happens there, the truths of all comparisons are known
(hidden outputs, `upbeat.scenario.properties`). From them and a few registers follows, for each property,
whether it surely holds and whether it surely does not, whatever comes: as `upbeat.properties.robustness`
would say of the rows so far. The first time that one surely does not hold there is an event of its name in
the log, and the run ends, if it was asked to. Times at which something is decided by the time alone bound
steps as known events do.

A truth here is a pair: it surely holds, and it surely does not. Neither is the case where something is no
number, or still open.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from upbeat.core.expr import ONE, ZERO, Cell, Expr, Name, Number, Op, all_of, any_of, apply
from upbeat.core.ports import Kind
from upbeat.master.program import Block, Fire, If, Instruction, Let, Recordable, Reg
from upbeat.master.registers import Registers
from upbeat.master.wiring import Wiring
from upbeat.properties.formula import (
    Combined,
    Formula,
    Predicate,
    Temporal,
    Window,
    clauses,
    negated,
)
from upbeat.scenario.properties import surely


class Truth(NamedTuple):
    """Whether something surely holds, and whether it surely does not."""

    yes: Expr
    no: Expr

    @property
    def denied(self) -> Truth:
        return Truth(self.no, self.yes)


class Monitors(NamedTuple):
    """What is added to a program: what takes in a row, what is made of it, the events that may be logged, and
    the register of the next time at which something is decided."""

    begin: Block
    row: Block
    told: Block
    events: dict[str, Recordable]
    due: Reg | None

    def around(self, instant: Block) -> Block:
        """What happens at an instant, with a look at the row before it and at the row after it."""
        return (*(self.row if instant else ()), *instant, *self.row, *self.told)


def monitors(wiring: Wiring, due: Reg | None) -> Monitors:
    """The blocks for the properties that a scenario is watched for. `due` is the register of the next known
    event, if there is one."""
    written = _Rows(wiring)
    decided = [(one, written.top(one.formula)) for one in wiring.scenario.monitored]
    row = tuple(written.row)
    new = wiring.registers.new
    told: list[Instruction] = []
    events: dict[str, Recordable] = {}
    ends = wiring.ending() if any(one.online == "stop" for one, _ in decided) else None
    for one, truth in decided:
        violated = new(f"{one.name}′violated", Kind.BOOLEAN)
        stop = (Let(ends, ONE),) if ends is not None and one.online == "stop" else ()
        news = apply(Op.AND, truth.no, apply(Op.NOT, Cell(violated)))
        told.append(If(news, (Let(violated, ONE), Fire(one.name, violated), *stop)))
        events[one.name] = Recordable(violated)
    deadlines = [apply(Op.WHERE, apply(Op.GT, at, written.now), at, Number(inf)) for at in written.deadlines]
    known = None
    if deadlines:
        known = new("next deadline", start=(inf,))
        soonest: Expr = Cell(due) if due is not None else Number(inf)
        for at in deadlines:
            soonest = apply(Op.MIN, soonest, at)
        told.append(Let(known, soonest))
    begin = (Let(written.origin, written.now),)
    return Monitors(begin, row, tuple(told), events, due if known is None else known)


class _Rows:
    """Instructions that take in a row, in their order, and truths that hold after them."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._registers: Registers = wiring.registers
        self.now = Cell(wiring.now)
        self.origin = wiring.registers.new("properties′start")
        self.row: list[Instruction] = []
        self.deadlines: list[Expr] = []

    def new(self, name: str, start: float) -> Cell:
        return Cell(self._registers.new(self._registers.unique(f"property′{name}"), start=(start,)))

    def let(self, to: Cell, value: Expr) -> None:
        self.row.append(Let(to.index, value))

    def latched(self, name: str, start: bool, step: Callable[[Cell], Expr]) -> Cell:
        """A truth that follows from what it was and this row."""
        kept = self.new(name, float(start))
        self.let(kept, step(kept))
        return kept

    # ---------------------------------------------------------------- what is known from what was

    def state(self, node: Formula) -> Truth:
        match node:
            case Predicate(signal):
                assert isinstance(signal.expr, Name)
                yes, no = (Cell(self._wiring.results[name]) for name in surely(signal.expr.id))
                return Truth(yes, no)
            case Combined("not", (part,)):
                return self.state(part).denied
            case Combined(op, parts):
                return _joined(op, [self.state(part) for part in parts])
            case Temporal("since", (one, other)):
                return self._since(node, self.state(one), self.state(other))
            case Temporal("once", (part,), window):
                return self._once(self.state(part), window)
            case Temporal("historically", (part,), window):
                return self._once(self.state(part).denied, window).denied
        raise AssertionError(node)

    def _once(self, of: Truth, window: Window) -> Truth:
        if window.last == inf:
            yes = self.latched("once", False, lambda was: apply(Op.OR, was, of.yes))
            no = self.latched("never", True, lambda was: apply(Op.AND, was, of.no))
            return Truth(yes, no)
        first = self.now - window.last  # the rows from there on are in the window
        hit, open_ = (self.new(name, -inf) for name in ("last", "last open"))
        self.let(hit, apply(Op.WHERE, of.yes, self.now, hit))
        self.let(open_, apply(Op.WHERE, of.no, open_, self.now))
        return Truth(apply(Op.GE, hit, first), apply(Op.LT, open_, first))

    def _since(self, node: Temporal, one: Truth, other: Truth) -> Truth:
        yes = self.latched("since", False, lambda was: apply(Op.OR, other.yes, apply(Op.AND, one.yes, was)))
        no = self.latched("not since", True, lambda was: apply(Op.AND, other.no, apply(Op.OR, one.no, was)))
        if node.window.last == inf:
            return Truth(yes, no)
        recent = self._once(other, node.window)
        return Truth(apply(Op.AND, yes, recent.yes), apply(Op.OR, no, recent.no))

    # ---------------------------------------------------------------- what is asked at the start

    def top(self, node: Formula) -> Truth:
        match node:
            case Combined("not", (part,)):
                return self.top(part).denied
            case Combined(op, parts):
                return _joined(op, [self.top(part) for part in parts])
            case Temporal("always", (part,), window):
                return self._always(part, window)
            case Temporal("eventually", (part,), window):
                return self._always(negated(part), window).denied
            case Temporal("until", (one, other), window):
                return self._until(self.state(one), self.state(other), window)
        now = self.state(node)  # of the first row, and what it was then stays
        seen = self.new("seen", 0.0)
        yes, no = self.new("yes", 0.0), self.new("no", 0.0)
        self.let(yes, apply(Op.WHERE, seen, yes, now.yes))
        self.let(no, apply(Op.WHERE, seen, no, now.no))
        self.let(seen, ONE)
        return Truth(yes, no)

    def _always(self, body: Formula, window: Window) -> Truth:
        inside, complete = self._inside(window)
        parts = []
        for clause in clauses(body):
            now = Truth(ZERO, ONE) if clause.now is None else self.state(clause.now)
            if clause.later is None:
                parts.append(self._each(now, inside, complete, window))
            else:
                parts.append(self._later(now, clause.later, inside))
        return _joined("and", parts)

    def _inside(self, window: Window) -> tuple[Expr, Expr]:
        """Whether this row is in a window of the start time, and whether the window is over."""
        first, last = Cell(self.origin) + window.first, Cell(self.origin) + window.last
        inside: list[Expr] = [apply(Op.GE, self.now, first)] if window.first > 0 else []
        if window.last == inf:
            return all_of(inside), ZERO
        self.deadlines.append(last)
        return all_of([*inside, apply(Op.LE, self.now, last)]), apply(Op.GE, self.now, last)

    def _each(self, now: Truth, inside: Expr, complete: Expr, window: Window) -> Truth:
        no = self.latched("violated", False, lambda was: apply(Op.OR, was, apply(Op.AND, inside, now.no)))
        if window.last == inf:  # only the end of the run decides that it holds
            return Truth(ZERO, no)
        outside = apply(Op.NOT, inside)
        kept = self.latched("kept", True, lambda was: apply(Op.AND, was, apply(Op.OR, outside, now.yes)))
        some = self.latched("some", False, lambda was: apply(Op.OR, was, inside))
        return Truth(all_of([complete, kept, some]), no)

    def _later(self, now: Truth, later: Temporal, inside: Expr) -> Truth:
        """Of what holds now, or else later on: whether there was a row of which neither is the case."""
        asked = apply(Op.AND, inside, now.no)
        then, last = self.state(later.parts[0]), later.window.last
        if later.op == "eventually":
            # The first row that waits for it: if that has waited too long, others may or may not.
            since = self.new("waits since", inf)
            begin = apply(Op.WHERE, asked, apply(Op.MIN, since, self.now), since)
            self.let(since, apply(Op.WHERE, then.no, begin, Number(inf)))
            self.deadlines.append(since + last)
            late = apply(Op.LE, since + last, self.now)
            return Truth(ZERO, self.latched("late", False, lambda was: apply(Op.OR, was, late)))
        until = self.new("until", -inf)
        self.let(until, apply(Op.WHERE, asked, self.now + last, until))
        broken = apply(Op.AND, then.no, apply(Op.LE, self.now, until))
        return Truth(ZERO, self.latched("broken", False, lambda was: apply(Op.OR, was, broken)))

    def _until(self, one: Truth, other: Truth, window: Window) -> Truth:
        inside, complete = self._inside(window)
        held, open_ = self.new("held", 1.0), self.new("may hold", 1.0)  # the first, up to the row before
        hit = all_of([inside, other.yes, held])
        yes = self.latched("until", False, lambda was: apply(Op.OR, was, hit))
        may = all_of([inside, apply(Op.NOT, other.no), open_])
        maybe = self.latched("may be", False, lambda was: apply(Op.OR, was, may))
        self.let(held, apply(Op.AND, held, one.yes))
        self.let(open_, apply(Op.AND, open_, apply(Op.NOT, one.no)))
        some = self.latched("had a row", False, lambda was: apply(Op.OR, was, inside))
        over = any_of([apply(Op.AND, complete, some), apply(Op.NOT, open_)])
        never = apply(Op.AND, over, apply(Op.NOT, maybe))
        return Truth(yes, self.latched("never until", False, lambda was: apply(Op.OR, was, never)))


def _joined(op: str, parts: list[Truth]) -> Truth:
    yes, no = [part.yes for part in parts], [part.no for part in parts]
    return Truth(all_of(yes), any_of(no)) if op == "and" else Truth(any_of(yes), all_of(no))
