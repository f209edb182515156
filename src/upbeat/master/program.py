"""The program: a master as frozen data, a few kinds of instruction over one file of registers.

A program has four kinds of block: `start` (once, at the start time), named `steps` (from the time
in register `now` to the time in register `next`), `exchange` (values again, after an input has been
changed from outside), and `instant` (superdense iteration at one time).
Everything a master remembers is in registers. Engines run programs; nothing else knows "which
master" is running.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from upbeat.core.display import Displayed
from upbeat.core.expr import Cell, Expr, Name, Number, Op, apply, fold, show
from upbeat.core.expr.calculus import TIME
from upbeat.core.expr.nodes import with_args
from upbeat.core.ports import Kind, Port, Value, Values
from upbeat.core.reasons import REPLACED, ROUNDED, STOPPED, Reason
from upbeat.core.records import dataclass

if TYPE_CHECKING:
    from upbeat.scenario.structures import Stage

# ----------------------------------------------------------------------------------------------------
# What the log tells about an event between units, and how the numbers it fires with are read.

Decoded = tuple[tuple[str, ...], dict[str, Any]]
"""The units of an event, and its details."""

LANDED, AT, FOR, HEAD = range(4)
"""The places of the distance and of the prediction; the changes follow them."""

_CONVERT: dict[Kind, Callable[[float], Value]] = {Kind.REAL: float, Kind.BOOLEAN: bool}


@dataclass(frozen=True, slots=True)
class Changed:
    """A quantity that an event changes. Unless `known`, what it was before is not known."""

    name: str
    port: Port
    known: bool

    def shown(self, numbers: Sequence[float]) -> Any:
        """Its value, as people write it."""
        convert = _CONVERT.get(self.port.kind, int)
        values = [self.port.labels.label(int(n)) if self.port.items else convert(n) for n in numbers]
        return values[0] if self.port.size is None else values


@dataclass(frozen=True, slots=True)
class EventDetails:
    """The event fires with the cells of `register`: how far it was away, what was predicted, and of every
    quantity that it changes the cells before and after."""

    register: int
    units: tuple[str, ...]
    changes: tuple[Changed, ...] = ()

    def decoded(self, cells: Sequence[Any]) -> Decoded:
        """The story in words and numbers, such as go into a file."""
        numbers = [float(cell) for cell in cells]
        details: dict[str, Any] = {}
        if numbers[AT] > -inf:
            details["predicted"] = {"at": numbers[AT], "for": numbers[FOR]}
        if numbers[LANDED] > -inf:
            details["landed"] = numbers[LANDED]
        at, changes = HEAD, {}
        for change in self.changes:
            width = change.port.cells
            before, after = numbers[at : at + width], numbers[at + width : at + 2 * width]
            changes[change.name] = [change.shown(before) if change.known else None, change.shown(after)]
            at += 2 * width
        return self.units, details | ({"changes": changes} if changes else {})


# ----------------------------------------------------------------------------------------------------
# The registers of a program: one file of cells, and what lies where in it.
#
# A register is an index into the file of *cells*; an array port fills several cells in a row. The
# layout gives every register its name, kind, size and start value.

Reg = int
"""The index of a register's first cell."""


@dataclass(frozen=True, slots=True)
class Register:
    """One named place in the register file."""

    name: str
    first: Reg
    kind: Kind
    size: int
    start: Values


@dataclass(frozen=True)
class Layout:
    """All registers of a program, in the order of their cells."""

    registers: tuple[Register, ...]
    _owner: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = tuple(i for i, register in enumerate(self.registers) for _ in range(register.size))
        object.__setattr__(self, "_owner", owner)

    @property
    def cells(self) -> int:
        return len(self._owner)

    @property
    def start(self) -> Values:
        """The start value of every cell."""
        return tuple(value for register in self.registers for value in register.start)

    def of(self, cell: Reg) -> Register:
        """The register that a cell belongs to."""
        return self.registers[self._owner[cell]]

    def name(self, cell: Reg) -> str:
        """A cell's name for people: ``left.x``, or ``left.x[2]`` in an array."""
        register = self.of(cell)
        return register.name if register.size == 1 else f"{register.name}[{cell - register.first}]"


@dataclass(frozen=True, slots=True)
class Recordable:
    """A register that a trace may record. `output` ones are recorded unless the user chooses."""

    register: Reg
    unit: str | None = None
    items: tuple[str, ...] = ()
    output: bool = True
    cells: int = 1
    """From `register` on; it may be one cell of an array."""
    details: EventDetails | None = None
    """Of an event between units: what it fires with instead of its value, and what that means."""


# ----------------------------------------------------------------------------------------------------


Cells = list[Value]
"""The contents of the register file, cell by cell."""
Spans = tuple[tuple[Reg, int], ...]
"""Cells in rows: the first of each, and how many."""


class UnitCall:
    """An instruction that calls one unit, which is to blame when it fails."""

    __slots__ = ()
    unit: str

    def call(self, read: Callable[[Reg], Value]) -> str:
        """The call in words, for errors."""
        return f"{type(self).__name__.lower()}()"


class Computation(ABC):
    """An instruction that computes registers from registers: it calls no unit and changes nothing else.

    All that a reader of programs needs to know of it stands in its class, and no reader knows one of them by
    name. `upbeat.master.computations` has those that there are, `native/src/computations.hpp` what they do in
    the core.
    """

    __slots__ = ()
    number: ClassVar[int]
    """Of its code in the core; never changed or used for another one."""

    @property
    @abstractmethod
    def reads(self) -> Spans:
        """The cells that it reads."""

    @property
    @abstractmethod
    def writes(self) -> Spans:
        """The cells that it writes, whatever these contain."""

    @property
    @abstractmethod
    def operands(self) -> tuple[int, ...]:
        """What the core gets with the code, in its order: four numbers at most."""

    @property
    def listed(self) -> tuple[int, ...]:
        """Further numbers, as many as it takes; their place in a list is one more operand."""
        return ()

    @property
    def room(self) -> int:
        """How many numbers it needs to work in, where it is printed as C."""
        return 0

    @abstractmethod
    def compute(self, cells: Cells) -> None:
        """Do it. The order of operations is part of the meaning: the core gives the same bits."""

    @abstractmethod
    def shown(self, layout: Layout) -> str:
        """How people read it, in one line."""


@dataclass(frozen=True, slots=True)
class Get(UnitCall):
    """Read an output into registers: `to` := unit.port. A real value that is not finite ends the run.

    An event output fills one cell more, right after its own: whether it is present. In a `trial` (of a loop
    that is being solved, whose guesses may be far off) a value may be anything; whoever tries looks at it.
    """

    unit: str
    port: str
    to: Reg
    trial: bool = False

    def call(self, read: Callable[[Reg], Value]) -> str:
        return f"get('{self.port}')"


@dataclass(frozen=True, slots=True)
class Set(UnitCall):
    """Hand an input its trajectory from the unit's own time T on: unit.port(t) := Σ by[k]·(t - T)**k.

    An event input gets an event with this value, which the unit's next `Jump` takes. What was computed and
    is not finite ends the run, except in a `trial`.
    """

    unit: str
    port: str
    by: tuple[Reg, ...]
    trial: bool = False

    def call(self, read: Callable[[Reg], Value]) -> str:
        return f"set('{self.port}')"


@dataclass(frozen=True, slots=True)
class Let:
    """Compute one cell: `to` := `value`, whose leaves are cells (`expr.Cell`) and numbers."""

    to: Reg
    value: Expr


@dataclass(frozen=True, slots=True)
class Advance(UnitCall):
    """Simulate a unit from the time in register `start` to the time in register `until`.

    The time it reached goes to register `reached`, so that others can follow to it. Without
    `early`, reaching less than `until` ends the run with an error.
    """

    unit: str
    start: Reg
    until: Reg
    reached: Reg
    early: bool = False

    def call(self, read: Callable[[Reg], Value]) -> str:
        return f"advance({read(self.start):.9g}, {read(self.until):.9g})"


@dataclass(frozen=True, slots=True)
class Jump(UnitCall):
    """One discrete micro-step of a unit; `again` := whether it asks for another one."""

    unit: str
    again: Reg


@dataclass(frozen=True, slots=True)
class Due(UnitCall):
    """Ask a unit when it will do something by itself: `to` := that time (infinity for never)."""

    unit: str
    to: Reg


@dataclass(frozen=True, slots=True)
class Save:
    """Keep the state of `units` and the contents of `registers` in `slot`."""

    units: tuple[str, ...]
    registers: tuple[Reg, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Set units and registers back to what `slot` holds."""

    slot: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """Run `body` until `until` is true, at most `max_iterations` times; then accept what there is, or fail.

    `what` is said when it fails, with the contents of the cells `shows`, named; `advice`, whole sentences,
    comes after it.
    """

    max_iterations: int
    body: Block
    until: Expr
    exhausted: Literal["accept", "fail"] = "fail"
    what: str = "the iteration"
    shows: tuple[tuple[str, Reg], ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Slope(UnitCall):
    """Ask a unit how an output reacts to an input that it depends on directly: `to` := ∂output/∂input.

    `to` has one row per cell of the output, one column per cell of the input. A slope may be infinite or
    not a number: that is a fact about a function at a point, and no failure. Equations also know the slope by
    `TIME`: how fast an output changes while all inputs stay what they are.
    """

    unit: str
    output: str
    input: str
    to: Reg

    def call(self, read: Callable[[Reg], Value]) -> str:
        return f"slope('{self.output}', '{self.input}')"

    def cells(self, ports: Mapping[tuple[str, str], Port]) -> int:
        """How many cells `to` has."""
        rows = ports[self.unit, self.output].cells
        return rows if self.input == TIME else rows * ports[self.unit, self.input].cells


@dataclass(frozen=True, slots=True)
class If:
    """Run `then` when `condition` is true, else `orelse`."""

    condition: Expr
    then: Block
    orelse: Block = ()


@dataclass(frozen=True, slots=True)
class Fire:
    """Write an entry into the event log, with the contents of the register `value`, if it has one.

    The effects of an event are other instructions. `event` is a name in `Program.events`, or any other.
    """

    event: str
    value: Reg | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Ask a pace that is written in Python (`upbeat.master.paces.pace.Called`): `what` it is to do."""

    called: Any
    what: Literal["begin", "propose", "review", "note", "changed"]


Instruction = (
    Get | Set | Let | Slope | Advance | Jump | Due | Save | Restore | Repeat | If | Fire | Call | Computation
)
Block = tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class History:
    """What the trajectories of one input remember of the outputs it follows, and how they forget it."""

    unit: str
    port: str
    follows: tuple[Reg, ...]
    """The cells of the outputs that it is computed from."""
    times: tuple[Reg, ...]
    """When something was; minus infinity: never."""
    spacing: tuple[Reg, ...] = ()
    """How long steps are of late: what was noted a small part of that ago is not worth keeping."""

    @property
    def restart(self) -> Block:
        """Forget what was: the next value counts as the first one."""
        return tuple(Let(register, Number(-inf)) for register in self.times)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that a program may notice while it runs and that makes results doubtful: a warning.

    `register` has three cells: when it was first (infinity: never), how often, and a number. In the sentence
    `parts` a whole number is the place of the cell that is shown there.
    """

    register: Reg
    parts: tuple[str | int, ...]

    def noted(self, time: Expr, number: Expr) -> Block:
        """Take note of it; the largest number counts."""
        first, count, largest = (Cell(self.register + k) for k in range(3))
        return (
            Let(self.register, apply(Op.MIN, first, time)),
            Let(self.register + 1, count + 1.0),
            Let(self.register + 2, apply(Op.MAX, largest, number)),
        )

    def sentence(self, cells: Sequence[float]) -> str | None:
        """What to say, given what the cells hold; None if there was nothing."""
        if not cells[0] < inf:
            return None
        return "".join(
            part if isinstance(part, str) else f"{cells[part]:.{9 if part == 0 else 3}g}"
            for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a coupling contributes to a program, and a pace and events add to."""

    start: Block
    steps: Mapping[str, Block]
    exchange: Block
    instant: Block = ()
    notes: tuple[str, ...] = ()
    columns: Mapping[str, Recordable] = field(default_factory=dict)
    """What a trace may record besides ports."""
    stops: Recordable | None = None
    """See `Program.stops`."""
    settles: bool = False
    """Whether the coupling itself lets happen what discrete-event units have to do."""
    takes_inputs: bool = False
    """See `Program.takes_inputs`."""


@dataclass(frozen=True)
class Leads:
    """What a program that is one structure of several leaves to the next.

    `to` holds which of the switches of the `stage` has ended it, counted from 1 (0: none has). By conserved
    quantity there are its value and the size of its terms, as they were at the start (`first`) and right
    before the latest instant (`last`). `starts` has, by switch, the registers of new values.
    """

    stage: Stage
    to: Reg
    first: Mapping[str, tuple[Reg, Reg]]
    last: Mapping[str, tuple[Reg, Reg]]
    starts: tuple[tuple[Reg, ...], ...]


@dataclass(frozen=True)
class Budget:
    """How many steps may still end at events that depend on states, and what to say if too many did.

    `register` holds how many are left and how many more every second gives (0: ten for what is left of the
    span that the run, or an advance of the nest, has to cover). The loop keeps account of it there, so that
    it is saved and set back with everything else. `step` is the usual step of the pace, 0 if there is none;
    `units` are those of events between units, by the name of the event.
    """

    register: Reg
    step: float = 0.0
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pacing:
    """How a program chooses its steps: blocks, and the registers through which they talk to the loop.

    Before each step the loop writes to `limit` how far it may go and runs `propose`, which leaves in `until`
    where it is to end (not a number: the pace gives up), in `block` the number of the step block, and in
    `reason` why: the number of one of `reasons`, a time, and two more numbers. If the pace `retries`, it runs
    `keep`, after which `back` brings everything back but the registers of the pace. Then it runs the step
    block and `review`, which leaves in `again` whether the step is to be made again, as `until`, `block` and
    `reason` say then. When a time stands, with all that happens at it, there are as many events of it as
    `fired` says, and `note` is run; `changed`, after an input was changed by hand. At the start time
    `limit` is the end of the run, if that is known.
    """

    steps: tuple[str, ...]
    """The step blocks by their numbers."""
    limit: Reg
    until: Reg
    block: Reg
    reason: Reg
    again: Reg
    fired: Reg
    reasons: tuple[Reason, ...]
    propose: Block
    review: Block = ()
    note: Block = ()
    changed: Block = ()
    keep: Block = ()
    back: Block = ()
    memory: tuple[Reg, ...] = ()
    """The registers of the pace."""
    rests: bool = False
    """Whether nothing happens between the ends of steps, which are known before (`EventDriven`)."""
    calls: tuple[Any, ...] = ()
    """The paces written in Python that take part."""

    @property
    def retries(self) -> bool:
        """Whether a step may be made again."""
        return bool(self.keep)

    @property
    def blocks(self) -> dict[str, Block]:
        own = {"propose": self.propose, "review": self.review, "note": self.note, "changed": self.changed}
        return {name: block for name, block in {**own, "keep": self.keep, "back": self.back}.items() if block}

    def why(self, number: float, at: float, *of: float) -> Reason:
        """The reason that the register `reason` tells."""
        place = int(number) if 0.0 <= number < 2.0**31 else 0  # registers may come from a file
        if place >= len(self.reasons) and self.calls:
            return cast(Reason, self.calls[0].reason(place - len(self.reasons)))
        known = self.reasons[min(place, len(self.reasons) - 1)]
        numbers = of[: len(known.of)]
        about = known.about.format(*numbers) if known.kind in (ROUNDED, REPLACED) else known.about
        return Reason(known.kind, about, None if known.at is None else at, numbers)


@dataclass(frozen=True)
class Asked:
    """Blocks that only run where what they compute is asked for (`upbeat.master.sensitivities`).

    `slopes` leaves, by the names of an output and of an input, how the one reacts to the other at once: a
    register with one row per cell of the output. `rates` leaves how fast outputs change.
    """

    blocks: Mapping[str, Block]
    slopes: Mapping[tuple[str, str], Reg]
    rates: Mapping[str, Reg]


@dataclass(frozen=True)
class Program(Displayed):
    """What an engine runs.

    `now` and `next` hold the start and the end of the step that is under way. The engine writes
    both before a block; a step block may lower `next` (a unit stopped early), and what it then
    holds is the time that is committed. In `start` both hold the start time, so `next` is always
    the time of the latest exchange. `columns` says what a trace may record, under which names.
    """

    layout: Layout
    start: Block
    steps: Mapping[str, Block]
    exchange: Block
    instant: Block
    now: Reg
    next: Reg
    columns: Mapping[str, Recordable]
    notes: tuple[str, ...] = ()
    """What `upbeat explain` should say about the choices made while building: one sentence each."""
    events: Mapping[str, Recordable] = field(default_factory=dict)
    """The event ports that the log may name, and what their values are."""
    due: Reg | None = None
    """Holds, after an instant, the time of the next event that is known: no step goes beyond it."""
    micro: Block = ()
    """One micro-step of the instant, for a driver outside (a nested scenario)."""
    send: Block = ()
    """Computes what the next micro-step will send out of the scenario, and changes nothing."""
    histories: tuple[History, ...] = ()
    """What the trajectories of inputs remember."""

    stops: Recordable | None = None
    """Where units may end a step: a real register with who has, counted from 1 (0: none), and their names.
    Without it any step that ends before its proposed end was ended by a unit."""

    ends: Reg | None = None
    """A real register that is not zero, after an instant, if the run ends there."""

    leads: Leads | None = None
    """Of one structure of several: which event has ended it, and what it leaves to the next."""

    arrivals: Mapping[str, Block] = field(default_factory=dict)
    """What a unit does with an event that was set by hand, for units whose event inputs are free."""
    undefined: Mapping[str, Reg] = field(default_factory=dict)
    """Where, by event, the time is at which a condition was first seen not to be a number; or infinity."""
    doubts: tuple[Doubt, ...] = ()
    """What a run may notice that makes its results doubtful."""
    budget: Budget | None = None
    """Where steps may end at events that are not known beforehand: against chattering."""
    pace: Pacing | None = None
    """How it chooses its steps; None: it is run block by block."""
    takes_inputs: bool = False
    """Whether a step itself takes what inputs were given before it: inside another program, nothing is
    exchanged between that and the step, and what follows from inputs at the start time stays."""
    asked: Asked | None = None
    """Derivatives of what the scenario shows, for those who ask between steps."""

    @property
    def stop_reasons(self) -> tuple[Reason, ...]:
        """The reasons of steps that a unit has ended, one for each unit that may."""
        return () if self.stops is None else tuple(Reason(STOPPED, unit) for unit in self.stops.items)

    @property
    def blocks(self) -> dict[str, Block]:
        """All blocks by name: ``start``, each step under its own name, ``exchange``, ``instant`` …"""
        return self.own_blocks | ({} if self.pace is None else self.pace.blocks)

    @property
    def own_blocks(self) -> dict[str, Block]:
        """Those that are not the pace's."""
        own = {"start": self.start, **self.steps, "exchange": self.exchange, "instant": self.instant}
        own |= {"micro": self.micro, "send": self.send} if self.micro else {}
        own |= {} if self.asked is None else self.asked.blocks
        return own | {arrival(unit): block for unit, block in self.arrivals.items()}

    @cached_property
    def computed(self) -> frozenset[Reg]:
        """The cells that are not checked when written: these may be anything, while outputs are numbers."""
        found: set[Reg] = set()
        for instruction in self.instructions():
            match instruction:
                case Let(to):
                    found.add(to)
                case Computation():
                    found.update(cell for to, count in instruction.writes for cell in range(to, to + count))
                case Slope(to=to):
                    found.update(range(to, to + self.layout.of(to).size))
        return frozenset(found)

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every block but those of the pace, nested ones included."""
        for block in self.own_blocks.values():
            yield from walk(block)


def arrival(unit: str) -> str:
    """The name of the block for an event that has been set by hand."""
    return f"event for {unit}"


def walk(block: Block) -> Iterator[Instruction]:
    """The instructions of a block, those inside Repeat and If included."""
    for instruction in block:
        yield instruction
        match instruction:
            case Repeat():
                yield from walk(instruction.body)
            case If():
                yield from walk(instruction.then)
                yield from walk(instruction.orelse)


# ----------------------------------------------------------------------------------------------------
# Programs in readable form: one line per instruction, registers by name.


def block_lines(
    block: Block, layout: Layout, called: Callable[[str], str] = str, indent: str = "  "
) -> list[str]:
    """The lines of one block; `called` gives what people call a unit."""
    return [f"{indent}{line}" for line in _lines(block, layout, called)]


def _lines(block: Block, layout: Layout, called: Callable[[str], str]) -> Iterator[str]:
    name = layout.name

    def text(value: Expr) -> str:
        named = fold(
            value, lambda leaf: Name(name(leaf.index)) if isinstance(leaf, Cell) else leaf, with_args
        )
        return show(named)

    for instruction in block:
        match instruction:
            case Get(unit, port, to):
                source, target = f"{called(unit)}.{port}", layout.of(to).name
                yield f"get      {source}" + ("" if source == target else f" → {target}")
            case Set(unit, port, by):
                terms = [
                    layout.of(r).name + ("", "·τ", "·τ²", "·τ³")[k] if k < 4 else f"{layout.of(r).name}·τ^{k}"
                    for k, r in enumerate(by)
                ]
                yield f"set      {called(unit)}.{port} := {' + '.join(terms)}"
            case Let(to, value):
                yield f"let      {name(to)} := {text(value)}"
            case Computation():
                yield instruction.shown(layout)
            case Call(pace, asked):
                yield f"call     {type(pace.pace).__name__}.{asked}"
            case Slope(unit, output, port, to):
                yield f"slope    ∂{unit}.{output}/∂{unit}.{port} → {layout.of(to).name}"
            case Advance(unit, start, until, reached, early):
                how = f", early return, reached → {name(reached)}" if early else ""
                yield f"advance  {called(unit)} from {name(start)} to {name(until)}{how}"
            case Jump(unit, again):
                yield f"jump     {called(unit)}, again → {name(again)}"
            case Due(unit, to):
                yield f"due      {called(unit)} → {name(to)}"
            case Save(units, registers, slot):
                what = [*map(called, units), *(layout.of(r).name for r in registers)]
                yield f"save     slot {slot}: {', '.join(what)}"
            case Restore(slot):
                yield f"restore  slot {slot}"
            case Repeat(max_iterations, body, until, exhausted):
                yield f"repeat   at most {max_iterations} times, until {text(until)}; otherwise {exhausted}:"
                yield from (f"  {line}" for line in _lines(body, layout, called))
            case If(condition, then, orelse):
                yield f"if       {text(condition)}:"
                yield from (f"  {line}" for line in _lines(then, layout, called))
                if orelse:
                    yield "else:"
                    yield from (f"  {line}" for line in _lines(orelse, layout, called))
            case Fire(event, value):
                yield f"fire     {event}" + ("" if value is None else f" with {layout.of(value).name}")
