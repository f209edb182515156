"""The extended state: all that a step takes over from the one before, found by data flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from upbeat.core.abilities import Model
from upbeat.core.errors import StepError
from upbeat.core.expr import cells
from upbeat.core.ports import Kind
from upbeat.master.dataflow import Flow
from upbeat.master.program import (
    Advance,
    Block,
    Get,
    Let,
    Program,
    Repeat,
    Restore,
    Set,
    Slope,
    Solve,
    walk,
)
from upbeat.stability.linear.beside import Entry


@dataclass(frozen=True, slots=True)
class Held:
    """One coefficient of one cell of an input that is set in one step and used in the next."""

    unit: str
    port: str
    order: int
    cell: int


@dataclass(frozen=True, slots=True)
class Extended:
    """What the matrix of a step is about: states of units, inputs they hold, and registers, in this order."""

    states: tuple[tuple[str, str], ...]
    """Unit and name; those of a nested scenario are all that it takes over from step to step."""
    inputs: tuple[Held, ...]
    cells: tuple[int, ...]
    names: tuple[str, ...]
    """Of all entries, for people."""
    ports: tuple[str, ...]
    """The state or port that each entry is about: entries of one share it."""
    own: tuple[bool, ...]
    """Whether each entry is a state of a unit, at whatever depth."""
    loops: tuple[str, ...]
    """The iteration that determines each entry anew in every step, in words; mostly there is none."""

    @property
    def size(self) -> int:
        return len(self.names)


def extended(
    program: Program, models: Mapping[str, Model], steps: Iterable[Block],
    entries: Mapping[str, Sequence[Entry]], called: Mapping[str, str], shown: Iterable[int] = (),
) -> Extended:  # fmt: skip
    """The extended state of `steps`, any of which may come next; `entries` are those of units, `called` names
    the units themselves. The cells `shown` are looked at by others, too."""
    steps = tuple(steps)
    flow = Flow(program.layout, models)
    reads = {read for step in steps for read in flow.block((*step, *program.instant)).reads}
    live = {r[1] for r in reads if isinstance(r, tuple) and r[0] == "cell"} | set(shown)
    held = {r[1:] for r in reads if isinstance(r, tuple) and r[0] == "input"}
    warned = {doubt.register + k for doubt in program.doubts for k in range(3)}  # nothing depends on these
    signals = signal_cells(program, models) - warned
    kept = tuple(sorted(cell for cell in live & signals if program.layout.of(cell).kind is Kind.REAL))
    degrees: dict[tuple[str, str], int] = {}
    for instruction in program.instructions():
        if isinstance(instruction, Set):
            end = (instruction.unit, instruction.port)
            degrees[end] = max(degrees.get(end, 0), len(instruction.by))
    inputs = tuple(
        Held(unit, port.name, order, cell)
        for unit, model in models.items()
        for port in model.ports
        if (unit, port.name) in held and port.kind is Kind.REAL and not port.event
        for order in range(degrees.get((unit, port.name), 0))
        for cell in range(port.cells)
    )
    carried = [(unit, one) for unit in models for one in entries[unit]]
    states = tuple((unit, one.name) for unit, one in carried)
    sizes = {(unit, port.name): port.size for unit, model in models.items() for port in model.ports}
    names = [f"{called.get(unit, unit)}.{label}" for unit, label in states]
    ports = [f"{called.get(unit, unit)}.{one.port}" for unit, one in carried]
    for one in inputs:
        name = f"{called.get(one.unit, one.unit)}.{one.port}"
        name += f"[{one.cell}]" if sizes[one.unit, one.port] is not None else ""
        ports.append(name)
        names.append(f"{name} (held)" if one.order == 0 else f"{name} (held, t{_power(one.order)})")
    for cell in kept:
        name = program.layout.name(cell)
        names.append(f"{name} (register)")
        ports.append(name.partition("′")[0])
    own = [one.own for _, one in carried] + [False] * (len(inputs) + len(kept))
    repeated = {cell: what for step in steps for cell, what in _iterated(step, sizes_of(models))}
    loops = [one.loop for _, one in carried] + [""] * len(inputs) + [repeated.get(cell, "") for cell in kept]
    return Extended(states, inputs, kept, tuple(names), tuple(ports), tuple(own), tuple(loops))


def sizes_of(models: Mapping[str, Model]) -> dict[tuple[str, str], int]:
    """How many cells each port has."""
    return {(unit, port.name): port.cells for unit, model in models.items() for port in model.ports}


def _iterated(
    block: Block, sizes: Mapping[tuple[str, str], int], what: str = ""
) -> Iterator[tuple[int, str]]:
    """The cells that iterations of a block fill with outputs, whatever happens, and what these are about."""
    for instruction in block:
        match instruction:
            case Repeat(body=body):
                yield from _iterated(body, sizes, instruction.what)
            case Get(unit, port, to) if what:
                yield from ((to + i, what) for i in range(sizes[unit, port]))


def check_loops(extended: Extended, stays: Sequence[bool]) -> None:
    """That no iteration leaves a value as it was: then any value solves it, and nothing determines it."""
    for name, what, still in zip(extended.names, extended.loops, stays, strict=True):
        if what and still:
            raise StepError(
                f"{what}: the loop is singular, because every value of {name.partition(' (')[0]} solves it. "
                "It stays what it was at the start, and nothing about it is stable. Change the gains of the "
                "loop, or break it: give one of its inputs a value of its own instead of a connection."
            )


def _power(order: int) -> str:
    return "" if order == 1 else f"^{order}"


def signal_cells(program: Program, models: Mapping[str, Model]) -> set[int]:
    """The cells that depend on what units give: not times, counters and other things the master thinks of."""
    sizes = sizes_of(models)
    found: set[int] = set()
    followers: list[tuple[frozenset[int], range]] = []
    for instruction in program.instructions():
        match instruction:
            case Get(unit, port, to):
                found.update(range(to, to + sizes[unit, port]))
            case Let(to, value):
                followers.append((cells(value), range(to, to + 1)))
            case Solve(size, matrix, right, to):
                system = (*range(matrix, matrix + size * size), *range(right, right + size))
                followers.append((frozenset(system), range(to, to + size)))
    readers: dict[int, list[range]] = {}
    for used, written in followers:
        for cell in used:
            readers.setdefault(cell, []).append(written)
    waiting = list(found)
    while waiting:
        for written in readers.get(waiting.pop(), ()):
            new = [cell for cell in written if cell not in found]
            found.update(new)
            waiting += new
    return found


def history_depth(program: Program) -> int:
    """How many steps it takes until no input misses anything of its past."""
    deepest = max((len(history.times) for history in program.histories), default=0)
    return 1 + deepest


def asked_first(unit: str, blocks: Iterable[Block]) -> bool:
    """Whether some block may ask a unit for an output before it has moved it on."""
    for block in blocks:
        for instruction in walk(block):
            match instruction:
                case Get(name) | Slope(name) if name == unit:
                    return True
                case Restore():  # to where it was before it was moved on, perhaps
                    return True
                case Advance(name) if name == unit:
                    break
    return False


def looks_back(program: Program, models: Mapping[str, Model], steps: Sequence[Block]) -> bool:
    """Whether what a step does depends on which block made the one before.

    So it is if a step writes for the next one what is neither a signal nor of a history.
    """
    flow = Flow(program.layout, models)
    reads = {read for step in steps for read in flow.block(step).reads}
    written = {i.to for step in steps for i in walk(step) if isinstance(i, Let)}
    times = {kept for history in program.histories for kept in (*history.times, *history.usual)}
    known = signal_cells(program, models) | times | {program.now, program.next}
    return any(("cell", cell) in reads for cell in written - known)
