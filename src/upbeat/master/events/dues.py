"""Who is due, and when the next one is: a tournament of due times over registers.

Asking every unit anew would cost as much as there are units, at every instant. Here whoever is due at another
time plays its matches again, and nobody else; the first one that is due is found by halving.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from upbeat.core.expr import Cell, Expr, Op, apply
from upbeat.master.layout import Reg
from upbeat.master.program import Block, Due, If, Let
from upbeat.master.registers import Registers


@dataclass(frozen=True, slots=True)
class _Match:
    """The earlier one of two; a single unit has no `rounds` before it."""

    register: Reg
    rounds: tuple[_Match, _Match] | None = None
    unit: str = ""


class Dues:
    """The due times of units, in the order in which they take turns."""

    def __init__(self, registers: Registers, units: Sequence[str], now: Reg) -> None:
        self._registers = registers
        self._now = now
        self.of = {unit: registers.new(f"{unit}′due", start=(inf,)) for unit in units}
        self._places = {unit: place for place, unit in enumerate(units)}
        self._matches: dict[str, list[_Match]] = {unit: [] for unit in units}
        self._final = self._match(units, "next event")

    def _match(self, units: Sequence[str], name: str) -> _Match:
        if len(units) == 1:
            return _Match(self.of[units[0]], unit=units[0])
        register = self._registers.new(name, start=(inf,))  # before those that come before it
        halves = units[: len(units) // 2], units[len(units) // 2 :]
        first, second = (self._match(half, f"earliest of {half[0]} to {half[-1]}") for half in halves)
        made = _Match(register, (first, second))
        for unit in units:
            self._matches[unit].append(made)
        return made

    @property
    def next(self) -> Reg:
        """The register of the earliest due time."""
        return self._final.register

    @property
    def busy(self) -> Expr:
        """Whether somebody is due now."""
        return apply(Op.LE, Cell(self.next), Cell(self._now))

    def ask(self, units: Iterable[str]) -> Block:
        """Ask some units when they are due, and find out again who is the first."""
        asked = sorted(units, key=self._places.__getitem__)
        matches = {match.register: match for unit in asked for match in self._matches[unit]}
        played = (_play(matches[register]) for register in sorted(matches, reverse=True))
        return (*(Due(unit, self.of[unit]) for unit in asked), *played)

    def choose(self, blocks: Mapping[str, Block]) -> Block:
        """Run the block of the first unit that is due; somebody must be."""
        return self._chosen(self._final, blocks)

    def _chosen(self, match: _Match, blocks: Mapping[str, Block]) -> Block:
        if match.rounds is None:
            return blocks[match.unit]
        first, second = match.rounds
        due = apply(Op.LE, Cell(first.register), Cell(self._now))
        return (If(due, self._chosen(first, blocks), self._chosen(second, blocks)),)


def _play(match: _Match) -> Let:
    assert match.rounds is not None
    first, second = match.rounds
    return Let(match.register, apply(Op.MIN, Cell(first.register), Cell(second.register)))
