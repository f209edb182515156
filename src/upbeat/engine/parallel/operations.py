"""Operations: a block cut into pieces that cores can share out, with what each of them needs.

What comes before what follows from the read and write sets of the instructions (`master.dataflow`), for any
program. The pieces are those of the refined graph of Ben Khaled et al. (2014): reading an output, handing on
an input, advancing a state. The arithmetic in between joins the piece that uses it, or that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from typing import Literal

from upbeat.core.abilities import Ability, Model
from upbeat.engine.parallel.heuristic import Plan, Task
from upbeat.engine.schedule import Item, Place, Schedule
from upbeat.master.dataflow import Flow, dependencies
from upbeat.master.loops import LOOP
from upbeat.master.program import (
    Advance,
    Block,
    Computation,
    Get,
    If,
    Instruction,
    Let,
    Program,
    Repeat,
    Restore,
    Save,
    Set,
    UnitCall,
    walk,
)

Kind = Literal["out", "in", "state", "loop", "other"]


@dataclass(frozen=True, slots=True)
class Operation:
    """Some instructions of a block that are done in a row, after the operations `before`."""

    name: str
    kind: Kind
    instructions: tuple[int, ...]
    units: frozenset[str]
    before: tuple[int, ...]


def operations(
    program: Program, block: str, models: Mapping[str, Model], called: Callable[[str], str] = str
) -> tuple[Operation, ...]:
    """The operations of a block, each after those it needs. `called` says what people call a unit."""
    instructions = program.blocks[block]
    needed = dependencies(instructions, Flow(program.layout, models))
    units = [_units(instruction, models) for instruction in instructions]
    _serialise(needed, units, models)
    heads = _joined(instructions, needed)
    members: dict[int, list[int]] = {}
    for instruction, head in enumerate(heads):
        members.setdefault(head, []).append(instruction)
    number = {head: k for k, head in enumerate(sorted(members))}
    used: dict[str, int] = {}
    found: list[Operation] = []
    for head in sorted(members):
        inside = members[head]
        before = {number[heads[b]] for i in inside for b in needed[i]} - {number[head]}
        touched = frozenset[str]().union(*(units[i] for i in inside))
        name, kind = _named(instructions[head], program, called)
        used[name] = used.get(name, 0) + 1
        name = name if used[name] == 1 else f"{name} ({used[name]})"
        found.append(Operation(name, kind, tuple(inside), touched, tuple(sorted(before))))
    return tuple(found)


def tasks(
    found: Sequence[Operation], models: Mapping[str, Model], times: Mapping[str, float]
) -> tuple[Task, ...]:
    """The operations as tasks for the heuristic, with durations by name.

    All operations of a unit go to one core, unless it can be called from several threads. Units that run in
    Python go to one core together: Python does one thing at a time, so nothing would be gained.
    """
    groups = {unit: k for k, unit in enumerate(models)}

    def group(operation: Operation) -> int | None:
        if in_python(operation, models):
            return PYTHON
        if len(operation.units) != 1:
            return None
        (unit,) = operation.units
        return None if Ability.THREADS in models[unit].abilities else groups[unit]

    return tuple(Task(times[op.name], op.before, group(op)) for op in found)


PYTHON = -1
"""The group of what runs in Python."""


def in_python(operation: Operation, models: Mapping[str, Model]) -> bool:
    """Whether an operation calls a unit that runs in Python."""
    return any(Ability.NATIVE not in models[unit].abilities for unit in operation.units)


WORTH_TAKING = 0.5e-6
"""Seconds that an operation takes at least if another core may take it over: that costs a tenth of it."""


def loose(
    found: Sequence[Operation], models: Mapping[str, Model], times: Mapping[str, float]
) -> frozenset[int]:
    """The operations that any core may do, whichever has nothing else to do: the state updates with which a
    step begins. How long these take varies from step to step with what units meet in them."""

    def moves(op: Operation) -> bool:
        return all(Ability.MOVES in models[unit].abilities for unit in op.units)

    return frozenset(
        number
        for number, op in enumerate(found)
        if op.kind == "state" and not op.before and times[op.name] >= WORTH_TAKING and moves(op)
    )


def _units(instruction: Instruction, models: Mapping[str, Model]) -> frozenset[str]:
    """The units that an instruction calls."""
    match instruction:
        case Repeat() | If():
            return frozenset(
                unit
                for inner in walk((instruction,))
                if inner is not instruction
                for unit in _units(inner, models)
            )
        case Save(units=units):
            return frozenset(units)
        case Restore():  # what a slot holds depends on who has filled it
            return frozenset(models)
        case UnitCall():
            return frozenset((instruction.unit,))
    return frozenset()


def _serialise(needed: list[set[int]], units: Sequence[frozenset[str]], models: Mapping[str, Model]) -> None:
    """Where an instruction calls several units, none of them is called by another core meanwhile.

    What calls one unit alone needs no such care: all that does so is on one core.
    """
    latest: dict[str, int] = {}
    since: dict[str, list[int]] = {unit: [] for unit in models}
    for number, called in enumerate(units):
        for unit in called:
            if Ability.THREADS in models[unit].abilities:
                continue
            if unit in latest:
                needed[number].add(latest[unit])
            if len(called) > 1:
                needed[number].update(since[unit])
                latest[unit], since[unit] = number, []
            else:
                since[unit].append(number)


def _joined(block: Block, needed: Sequence[set[int]]) -> list[int]:
    """For each instruction, the one whose operation it belongs to.

    Arithmetic joins the only operation that needs it; if there are several, or none, the only one that it
    needs itself. Neither can close a circle: all ways from it, or all to it, pass through that operation.
    """
    after: list[list[int]] = [[] for _ in block]
    for number, before in enumerate(needed):
        for other in before:
            after[other].append(number)
    heads = list(range(len(block)))
    light = [isinstance(instruction, (Let, Computation)) for instruction in block]
    for number in range(len(block) - 1, -1, -1):
        users = {heads[other] for other in after[number]}
        if light[number] and len(users) == 1:
            heads[number] = users.pop()
    joined = {heads[i] for i in range(len(block)) if heads[i] != i}
    for number in range(len(block)):
        sources = {heads[other] for other in needed[number]}
        alone = heads[number] == number and number not in joined
        if light[number] and alone and len(sources) == 1:
            heads[number] = sources.pop()
    return heads


def _named(instruction: Instruction, program: Program, called: Callable[[str], str]) -> tuple[str, Kind]:
    match instruction:
        case Get(unit, port):
            return f"out {called(unit)}.{port}", "out"
        case Set(unit, port):
            return f"in {called(unit)}.{port}", "in"
        case Advance(unit):
            return f"state {called(unit)}", "state"
        case Repeat():
            return f"loop {instruction.what.removeprefix(LOOP).split(' → ')[0]}", "loop"
        case Let(to):
            return f"let {program.layout.name(to)}", "other"
        case Computation():
            return f"let {program.layout.name(instruction.writes[0][0])}", "other"
        case UnitCall():
            return f"{type(instruction).__name__.lower()} {called(instruction.unit)}", "other"
    return type(instruction).__name__.lower(), "other"


# ----------------------------------------------------------------------------------------------------
# A plan as a list for each core: who does what, in which order, and what it waits for before it does.
#
# A wait costs more than most operations take (an output read, an input handed on). A plan that counts on
# the exact end of each of them makes cores wait for each other at every turn. So quick operations of a core
# are done in *batches*: first those that need nothing new of another core, then those that need what others
# had by then, and so on; and a core waits once before a batch for all that it needs.

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
    it, and items as long as no other core waits for a part of them. Any core may do those of `anybody`
    (`operations.loose`); what takes less than `quick` is done in batches."""
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
    section: dict[int, int] = {}
    for number in plan.order:
        core = plan.core[number]
        if number in anybody or plan.end[number] - plan.start[number] >= quick:
            keys[number] = (core, section.get(core, 0) + 1, -1)
            section[core] = section.get(core, 0) + 2
        else:
            keys[number] = (core, section.get(core, 0), depth[number])
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
