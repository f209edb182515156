"""A schedule: which core does which instructions of a block, and what it waits for before it does.

A schedule annotates a block and is none: any schedule without a `flaw` gives the same trace as the block run
from its first instruction to its last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from upbeat.core.records import dataclass

Place = tuple[int, int]
"""An item in a schedule: the number of the core, and the position in its list."""


@dataclass(frozen=True, slots=True)
class Item:
    """Instructions that one core does in a row.

    `instructions` are positions in the block, in the order in which they are done; one with a body
    (`Repeat`, `If`) is done as a whole. Before the first of them, every item in `waits` must be done. All
    of these are on other cores: what comes earlier in the list of the same core is done anyway.

    A `loose` item needs nothing else of the block. If it is at the head of a list, among others like it, a
    core that would have to wait may do it in place of its own.
    """

    instructions: tuple[int, ...]
    waits: tuple[Place, ...] = ()
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """For each core the items that it does, in order. A core may have nothing to do."""

    cores: tuple[tuple[Item, ...], ...]

    @property
    def busy(self) -> tuple[int, ...]:
        """The cores that have something to do."""
        return tuple(core for core, items in enumerate(self.cores) if items)

    @property
    def trimmed(self) -> Schedule:
        """The same without cores at the end that have nothing to do."""
        return Schedule(self.cores[: max(self.busy, default=0) + 1])

    @property
    def crossings(self) -> int:
        """How often one core waits for another in a step."""
        return sum(len(item.waits) for items in self.cores for item in items)

    @property
    def awaited(self) -> frozenset[Place]:
        """The items that some other core waits for: these are the ones to signal."""
        return frozenset(place for items in self.cores for item in items for place in item.waits)


def flaw(schedule: Schedule, before: Sequence[Collection[int]]) -> str | None:
    """What is wrong with a schedule of a block; None if nothing is.

    `before` are, for each instruction, those that must come before it (`master.dataflow.dependencies`).
    """
    home: dict[int, tuple[Place, int]] = {}
    for core, items in enumerate(schedule.cores):
        for position, item in enumerate(items):
            for rank, instruction in enumerate(item.instructions):
                if instruction in home:
                    return f"instruction {instruction} is done twice"
                if not 0 <= instruction < len(before):
                    return f"there is no instruction {instruction}"
                home[instruction] = (core, position), rank
            for other, at in item.waits:
                if not (0 <= other < len(schedule.cores) and 0 <= at < len(schedule.cores[other])):
                    return f"core {core} waits for item {at} of core {other}, which does not exist"
                if other == core:
                    return f"core {core} waits for itself"
    if len(home) < len(before):
        return f"instruction {next(i for i in range(len(before)) if i not in home)} is never done"
    known = _known(schedule)
    if known is None:
        return "some cores wait for each other forever"
    for instruction, needed in enumerate(before):
        (core, position), rank = home[instruction]
        item = schedule.cores[core][position]
        if item.loose and (item.waits or not set(needed) <= set(item.instructions)):
            return f"instruction {instruction} needs others, and yet any core may do it at any time"
        for other in needed:
            (there, at), earlier = home[other]
            done = known[core][position][there] >= at
            if (there, at) == (core, position):
                done = earlier < rank
            if not done:
                return f"instruction {instruction} does not wait for instruction {other}, which it needs"
    return None


def _known(schedule: Schedule) -> list[list[list[int]]] | None:
    """For each item, the last item of each core that is surely done when it begins; None: a deadlock."""
    count = len(schedule.cores)
    known: list[list[list[int]]] = [[] for _ in range(count)]
    moved = True
    while moved:
        moved = False
        for core, items in enumerate(schedule.cores):
            while len(known[core]) < len(items):
                item = items[len(known[core])]
                if any(len(known[other]) <= at for other, at in item.waits):
                    break
                clock = list(known[core][-1]) if known[core] else [-1] * count
                clock[core] = len(known[core]) - 1
                for other, at in item.waits:
                    clock = list(map(max, clock, known[other][at]))
                    clock[other] = max(clock[other], at)
                known[core].append(clock)
                moved = True
    done = all(len(known[core]) == len(items) for core, items in enumerate(schedule.cores))
    return known if done else None
