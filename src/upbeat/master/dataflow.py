"""Data flow of a block: what each instruction reads and writes, and what follows from that.

Resources are register cells, unit states and unit inputs. From them come the order that a block
really needs (its dependency graph, the basis of schedules), and the registers that a step carries
over from the one before (what a rollback must cover, and the extended state of a stability
analysis). Nothing of this is listed by hand.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterable, Mapping

from upbeat.core.abilities import Model
from upbeat.core.expr import Expr, cells
from upbeat.core.expr.calculus import TIME
from upbeat.core.ports import Causality
from upbeat.core.records import dataclass
from upbeat.master.program import (
    Advance,
    Block,
    Call,
    Computation,
    Due,
    Fire,
    Get,
    History,
    If,
    Instruction,
    Jump,
    Layout,
    Let,
    Program,
    Reg,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    Spans,
    walk,
)

Resource = Hashable
"""``("cell", i)``, ``("state", unit)``, ``("input", unit, port)`` or ``("log",)``."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What an instruction reads and writes. `sure` are the writes that happen whatever the values."""

    reads: frozenset[Resource]
    writes: frozenset[Resource]
    sure: frozenset[Resource]


class Flow:
    """Read and write sets for the instructions of one program over given models."""

    def __init__(self, layout: Layout, models: Mapping[str, Model]) -> None:
        self._layout = layout
        self._inputs = {
            unit: frozenset(
                ("input", unit, port.name) for port in model.ports if port.causality is Causality.INPUT
            )
            for unit, model in models.items()
        }
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self._events = {
            unit: [port.name for port in model.ports if port.event and port.causality is Causality.INPUT]
            for unit, model in models.items()
        }

    def effects(self, instruction: Instruction) -> Effects:
        match instruction:
            case Get(unit, port, to):
                known = self._ports[unit, port]
                if known.event:  # whether and what it sends may depend on anything
                    behind: set[Resource] = {("state", unit), *self._inputs[unit]}
                    return _plain(behind, _row(to, known.cells + 1))
                return _plain(self._behind(unit, port), _row(to, known.cells))
            case Slope(unit, output, port, to):
                behind = (
                    self._behind(unit, output) if port != TIME else {("state", unit), *self._inputs[unit]}
                )
                return _plain(behind, _row(to, instruction.cells(self._ports)))
            case Set(unit, port, by):
                # The trajectory starts at the unit's own time, so a Set cannot cross an Advance.
                # Coefficients may lie inside a longer register, so the port says how many cells they have.
                reads = {("state", unit)}.union(*(_row(r, self._ports[unit, port].cells) for r in by))
                return _plain(reads, {("input", unit, port)})
            case Let(to, value):
                return _plain(_cells(value), {("cell", to)})
            case Computation():
                return _plain(_rows(instruction.reads), _rows(instruction.writes))
            case Call():  # a pace in Python may look at everything
                everything = _row(0, self._layout.cells)
                return Effects(frozenset(everything), frozenset(everything), frozenset())
            case Advance(unit, start, until, reached):
                reads = {("state", unit), ("cell", start), ("cell", until)} | self._inputs[unit]
                return _plain(reads, {("state", unit), ("cell", reached)})
            case Jump(unit, again):
                taken = {("input", unit, name) for name in self._events[unit]}
                return _plain(
                    {("state", unit)} | self._inputs[unit], {("state", unit), ("cell", again)} | taken
                )
            case Due(unit, to):
                return _plain({("state", unit)} | self._inputs[unit], {("cell", to)})
            case Save(units, registers, slot):
                return _plain(self._extent(units, registers), {("slot", slot)})
            case Restore(slot):
                return self._restored(slot)
            case Repeat(body=body, until=until):
                inner = self.block(body)
                return Effects(inner.reads | (_cells(until) - inner.sure), inner.writes, inner.sure)
            case If(condition, then, orelse):
                first, second = self.block(then), self.block(orelse)
                return Effects(
                    _cells(condition) | first.reads | second.reads,
                    first.writes | second.writes,
                    first.sure & second.sure,
                )
            case Fire(_, value):
                shown = self._register(value) if value is not None else set()
                return _plain({("log",)} | shown, {("log",)})

    def block(self, block: Block) -> Effects:
        """Effects of a whole block: `reads` are the resources whose value from before it matters."""
        reads: set[Resource] = set()
        writes: set[Resource] = set()
        sure: set[Resource] = set()
        saved: dict[int, frozenset[Resource]] = {}
        for instruction in block:
            if isinstance(instruction, Save):
                saved[instruction.slot] = self._extent(instruction.units, instruction.registers)
            one = self.effects(instruction)
            if isinstance(instruction, Restore) and instruction.slot in saved:
                one = _plain({("slot", instruction.slot)}, saved[instruction.slot])
            reads |= one.reads - sure
            writes |= one.writes
            sure |= one.sure
        return Effects(frozenset(reads), frozenset(writes), frozenset(sure))

    def _behind(self, unit: str, output: str) -> set[Resource]:
        """What the present value of an output comes from."""
        return {("state", unit)} | {("input", unit, name) for name in self._ports[unit, output].depends}

    def _restored(self, slot: int) -> Effects:
        # Outside the block that saved it a slot may hold anything: assume everything.
        everything = {("state", unit) for unit in self._inputs} | frozenset().union(*self._inputs.values())
        all_cells: set[Resource] = {("cell", i) for i in range(self._layout.cells)}
        return Effects(frozenset({("slot", slot)}), frozenset(everything | all_cells), frozenset())

    def _register(self, register: Reg) -> set[Resource]:
        return _row(register, self._layout.of(register).size)

    def _extent(self, units: Iterable[str], registers: Iterable[Reg]) -> frozenset[Resource]:
        states: set[Resource] = {("state", unit) for unit in units}
        held = frozenset().union(*(self._inputs[unit] for unit in units)) if units else frozenset()
        kept: set[Resource] = set().union(*(self._register(r) for r in registers))
        return frozenset(states | held | kept)


def _plain(reads: Iterable[Resource], writes: Iterable[Resource]) -> Effects:
    written = frozenset(writes)
    return Effects(frozenset(reads), written, written)


def _row(first: Reg, count: int) -> set[Resource]:
    return {("cell", first + i) for i in range(count)}


def _rows(spans: Spans) -> set[Resource]:
    return {("cell", first + i) for first, count in spans for i in range(count)}


def _cells(value: Expr) -> frozenset[Resource]:
    return frozenset(("cell", i) for i in cells(value))


def live(layout: Layout, models: Mapping[str, Model], block: Block) -> tuple[Reg, ...]:
    """The registers whose contents from before a block matter to it: what setting it back must cover."""
    reads = Flow(layout, models).block(block).reads
    return tuple(sorted({layout.of(r[1]).first for r in reads if isinstance(r, tuple) and r[0] == "cell"}))


def carried(program: Program, models: Mapping[str, Model]) -> tuple[Reg, ...]:
    """The registers that steps take over from the time before: read before they are written.

    Over all step blocks together, each followed by the instant: whichever comes next must find them. What is
    only counted, and not read, is not among them.
    """
    flow = Flow(program.layout, models)
    blocks = [(*block, *program.instant) for block in program.steps.values()]
    reads = frozenset().union(*(flow.block(block).reads for block in blocks))
    seen = frozenset().union(*(_seen(i, flow) for block in blocks for i in walk(block)))
    found = {program.layout.of(r[1]).first for r in reads & seen if isinstance(r, tuple) and r[0] == "cell"}
    return tuple(sorted(found - {program.now, program.next}))


def _seen(instruction: Instruction, flow: Flow) -> frozenset[Resource]:
    """What an instruction reads, apart from those inside it, and from what it only counts on."""
    match instruction:
        case Let(to, value):
            return _cells(value) - {("cell", to)}
        case If(condition):
            return _cells(condition)
        case Repeat(until=until):
            return _cells(until)
    return flow.effects(instruction).reads


def held_slots(program: Program, models: Mapping[str, Model]) -> tuple[int, ...]:
    """The slots that some step takes over from the time before: restored before it has saved them.

    No coupling here writes such a program; of an adaptation, whose statements others write, that is checked
    when it is made (`upbeat.adapt.adaptation`). What lies in a slot between two steps belongs to none, and
    a machine that is set back, or packed up, may forget it.
    """
    if not any(isinstance(instruction, Restore) for instruction in program.instructions()):
        return ()  # most programs: spares them the whole analysis
    flow = Flow(program.layout, models)
    reads = flow.block(program.exchange).reads.union(
        *(flow.block((*block, *program.instant)).reads for block in program.steps.values())
    )
    return tuple(sorted(r[1] for r in reads if isinstance(r, tuple) and r[0] == "slot"))


def dependencies(block: Block, flow: Flow) -> list[set[int]]:
    """For each instruction, the earlier ones that must come before it."""
    needed: list[set[int]] = []
    writer: dict[Resource, int] = {}
    readers: dict[Resource, list[int]] = {}
    for index, instruction in enumerate(block):
        effects = flow.effects(instruction)
        before = {writer[r] for r in effects.reads | effects.writes if r in writer}
        for resource in effects.writes:
            before.update(readers.get(resource, ()))
        for resource in effects.writes:
            writer[resource] = index
            readers[resource] = []
        for resource in effects.reads - effects.writes:
            readers.setdefault(resource, []).append(index)
        needed.append(before - {index})
    return needed


# ----------------------------------------------------------------------------------------------------
# What of a block would compute something else, if something from before it were different.


class ChangePropagation:
    """The ripples that something different makes in a block.

    The effects of all instructions are looked up once, so that asking is cheap: for networks of thousands of
    units it is asked once for each of them.
    """

    def __init__(self, block: Block, flow: Flow) -> None:
        self._block = block
        self._writes: list[frozenset[Resource]] = []
        self._readers: dict[Resource, list[int]] = {}
        self._writers: dict[Resource, list[int]] = {}
        self._changes: list[frozenset[Resource]] = []
        """What each instruction reads and then overwrites: it needs what was there before it once more."""
        for index, instruction in enumerate(block):
            effects = flow.effects(instruction)
            self._writes.append(effects.writes)
            self._changes.append(effects.reads & effects.writes)
            for resource in effects.writes:
                self._writers.setdefault(resource, []).append(index)
            # A `Set` sees of its unit only the time from which the trajectory runs, which is the present one.
            time = {("state", instruction.unit)} if isinstance(instruction, Set) else set()
            for resource in effects.reads - time:
                self._readers.setdefault(resource, []).append(index)

    def of(
        self, dirty: Iterable[Resource], lost: Iterable[Resource] = ()
    ) -> tuple[Block, frozenset[Resource]]:
        """The instructions that see something of what is `dirty`, directly or through others.

        And all that is dirty in the end. What is left out would compute what it has computed before. What is
        `lost` has been overwritten since, and is computed again.
        """
        lost = set(lost)
        spoilt = {*dirty, *lost}
        waiting = [index for resource in spoilt for index in self._readers.get(resource, ())]
        waiting += [index for resource in lost for index in self._writers.get(resource, ())]
        heapq.heapify(waiting)
        kept: set[int] = set()
        while waiting:
            index = heapq.heappop(waiting)
            if index in kept:
                continue
            kept.add(index)
            for resource in self._changes[index]:
                for writer in self._writers[resource]:
                    if writer < index:
                        heapq.heappush(waiting, writer)
            for resource in self._writes[index] - spoilt:
                spoilt.add(resource)
                for reader in self._readers.get(resource, ()):
                    if reader > index:
                        heapq.heappush(waiting, reader)
        return tuple(self._block[index] for index in sorted(kept)), frozenset(spoilt)


def knows_end(step: Block, source: str, target: tuple[str, str]) -> bool:
    """Whether an input is set in a step between the advance of the unit that it comes from and that of its
    own: then it knows what is there at the end of the step."""
    done = told = False
    for instruction in walk(step):
        match instruction:
            case Advance(unit=unit):
                if unit == target[0]:
                    return told
                done = done or unit == source
            case Set(unit=unit, port=port) if (unit, port) == target:
                told = done
    return False


def touched(block: Block, flow: Flow, dirty: Iterable[Resource]) -> tuple[Block, frozenset[Resource]]:
    """What of a block sees something of what is `dirty`, asked once (see `ChangePropagation`)."""
    return ChangePropagation(block, flow).of(dirty)


def forgetful(program: Program, models: Mapping[str, Model], unit: str, port: str) -> tuple[Reg, ...]:
    """The registers that restart the histories of all inputs that see this one at the same instant.

    For an input that was set by hand: what the others were before says nothing about what they will be. A
    parameter may change anything that its unit shows.
    """
    if not program.histories:
        return ()
    flow = Flow(program.layout, models)
    known = next(own for own in models[unit].ports if own.name == port)
    parameter = known.causality is Causality.PARAMETER
    dirty: Resource = ("state", unit) if parameter else ("input", unit, port)
    _, spoilt = touched(program.exchange, flow, [dirty])
    return tuple(time for history in outdated(program.histories, spoilt) for time in history.times)


def outdated(histories: Iterable[History], spoilt: Collection[Resource]) -> list[History]:
    """Those of inputs that follow something in `spoilt`, be it handed on already or in the step to come."""
    return [
        history
        for history in histories
        if ("input", history.unit, history.port) in spoilt
        or any(("cell", cell) in spoilt for cell in history.follows)
    ]
