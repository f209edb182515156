"""A plan as a list for each core: who does what, in which order, and what it waits for before it does.

A wait costs more than most operations take (an output read, an input handed on). A plan that counts on the
exact end of each of them makes cores wait for each other at every turn. So quick operations of a core are
done in *batches*: first those that need nothing new of another core, then those that need what others had by
then, and so on; and a core waits once before a batch for all that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, takewhile

from upbeat.engine.parallel.heuristic import Plan
from upbeat.engine.parallel.operations import Operation
from upbeat.engine.schedule import Item, Place, Schedule

Batch = list[int]
"""The numbers of operations that one core does in a row."""


def schedule(
    found: Sequence[Operation],
    plan: Plan,
    cores: int,
    anybody: Collection[int] = frozenset(),
    quick: float = 0.0,
) -> Schedule:
    """The plan as lists of instructions: waits only where a dependency crosses cores and nothing else covers
    it, and items as long as nobody waits for a part of them. `anybody` may do these (`operations.loose`);
    what takes less than `quick` is done in batches."""
    lists: list[list[int]] = [[] for _ in range(cores)]
    place: dict[int, Place] = {}
    clocks: dict[int, list[int]] = {}  # per operation: the last position of each core that is surely done
    waits: dict[int, list[int]] = {}  # per operation: those it waits for
    for batch in _batches(found, plan, anybody, quick):
        core = plan.core[batch[0]]
        clock = list(clocks[lists[core][-1]]) if lists[core] else [-1] * cores
        needed = {b for number in batch for b in found[number].before}.difference(batch)
        waits[batch[0]] = []
        # The one that was placed last knows most of what the others have done.
        for other in sorted(needed, key=lambda b: place[b][1], reverse=True):
            there, at = place[other]
            if clock[there] < at:
                waits[batch[0]].append(other)
                clock = list(map(max, clock, clocks[other]))
        for number in batch:
            clock[core] = len(lists[core])
            clocks[number], place[number] = list(clock), (core, len(lists[core]))
            lists[core].append(number)
    awaited = {other for others in waits.values() for other in others}
    item_of: dict[int, int] = {}
    heads: set[int] = set()
    for numbers in lists:
        heads.update(takewhile(lambda number: number in anybody, numbers))
        item, fresh = -1, True
        for number in numbers:
            item += fresh or bool(waits.get(number))
            item_of[number] = item
            fresh = number in awaited or number in heads
    return Schedule(
        tuple(
            tuple(
                Item(
                    tuple(i for number in run for i in found[number].instructions),
                    tuple(sorted((plan.core[other], item_of[other]) for other in waits.get(run[0], ()))),
                    run[0] in heads,
                )
                for run in _runs(numbers, item_of)
            )
            for numbers in lists
        )
    )


def _runs(numbers: Sequence[int], item_of: Mapping[int, int]) -> Iterator[list[int]]:
    for _, run in groupby(numbers, key=item_of.__getitem__):
        yield list(run)


def _batches(found: Sequence[Operation], plan: Plan, anybody: Collection[int], quick: float) -> list[Batch]:
    """All operations, in an order in which each comes after those it needs.

    What is not quick, and what anybody may do, is alone, and nothing passes it: how long it takes decides
    when others can begin.
    """
    alone = [[number] for number in plan.order]
    depth = [0] * len(found)  # how often what it needs has come from another core
    for number in plan.order:
        core = plan.core[number]
        depth[number] = max((depth[b] + (plan.core[b] != core) for b in found[number].before), default=0)
    keys: dict[int, tuple[int, int, int]] = {}  # core, stretch between long operations, depth
    stretch: dict[int, int] = {}
    for number in plan.order:
        core = plan.core[number]
        if number in anybody or plan.end[number] - plan.start[number] >= quick:
            keys[number] = (core, stretch.get(core, 0) + 1, -1)
            stretch[core] = stretch.get(core, 0) + 2
        else:
            keys[number] = (core, stretch.get(core, 0), depth[number])
    grouped: dict[tuple[int, int, int], Batch] = {}
    for number in plan.order:
        grouped.setdefault(keys[number], []).append(number)
    return _in_order(found, [grouped[key] for key in sorted(grouped)], plan) or alone


def _in_order(found: Sequence[Operation], batches: Sequence[Batch], plan: Plan) -> list[Batch]:
    """The batches, each after those it needs and those before it on its core; nothing, if that cannot be."""
    home = {number: k for k, batch in enumerate(batches) for number in batch}
    before: list[set[int]] = [
        {home[b] for number in batch for b in found[number].before} - {k} for k, batch in enumerate(batches)
    ]
    for first, second in pairwise(range(len(batches))):
        if plan.core[batches[first][0]] == plan.core[batches[second][0]]:
            before[second].add(first)
    after: list[list[int]] = [[] for _ in batches]
    missing = [len(needed) for needed in before]
    for k, needed in enumerate(before):
        for b in needed:
            after[b].append(k)
    ready = [k for k, count in enumerate(missing) if not count]
    order: list[Batch] = []
    for k in ready:  # which grows meanwhile
        order.append(batches[k])
        for follower in after[k]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return order if len(order) == len(batches) else []
