"""Courses: what an approximation sees of an input, and how it says that the input runs over a step."""

from __future__ import annotations

from dataclasses import dataclass

from upbeat.core.expr import Expr
from upbeat.core.ports import Kind
from upbeat.master.layout import Reg
from upbeat.master.program import Let


@dataclass(frozen=True, slots=True)
class Place:
    """One input as an approximation sees it.

    `known` are the registers of its value and of those derivatives that the approximation asked for;
    `ahead` those that hold (or are assumed) at the end of the step, for interpolation: the same
    registers, once the source has gone ahead. `now` and `next` hold the step's two ends.
    `unsure`: derivatives are NaN while nobody knows them. `counts` are the registers of the units that it
    follows, at once or through others, in which these count the events inside them: where one has changed,
    what the input was before says nothing about what it will be. `counts_ahead` are those that go with
    `ahead`. `within`: no step ends at these events, they lie anywhere within one.
    """

    name: str
    kind: Kind
    size: int
    known: tuple[Reg, ...]
    ahead: tuple[Reg, ...]
    now: Reg
    next: Reg
    unsure: bool = False
    counts: tuple[Reg, ...] = ()
    counts_ahead: tuple[Reg, ...] = ()
    within: bool = False

    @property
    def value(self) -> Reg:
        return self.known[0]


@dataclass(frozen=True, slots=True)
class Course:
    """How an input runs over a step: `early` lets at its start, `late` ones right before `Set(by)`.

    An extrapolated course is handed over at the end of the step before, unless it needs to know
    how long the step will be: then `at_start`. Where it does for some steps only, it is handed over once
    more at the start of a step for which `near` is true, after the lets `again`. `history` are the registers
    that restart it; `usual` those in which it keeps how long steps are.
    """

    by: tuple[Reg, ...]
    late: tuple[Let, ...] = ()
    early: tuple[Let, ...] = ()
    at_start: bool = False
    history: tuple[Reg, ...] = ()
    usual: tuple[Reg, ...] = ()
    near: Expr | None = None
    again: tuple[Let, ...] = ()
