"""Linear forms: values that know how they depend on the state at the beginning of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Model
from upbeat.core.errors import StepError
from upbeat.core.expr import ONE, Cell, Expr, Kernel, cells, directional_derivative
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.core.replay import Allowance
from upbeat.engine.interpret import Action, Interpreter, Kept, evaluator
from upbeat.engine.nesting.model import Nested, nested_of
from upbeat.master.computations import Solve
from upbeat.master.dataflow import Flow as DataFlow
from upbeat.master.program import (
    Advance,
    Block,
    Computation,
    Due,
    Get,
    If,
    Instruction,
    Jump,
    Let,
    Program,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    walk,
)
from upbeat.stability.linear.flows import Flow, Moving, affine

# ----------------------------------------------------------------------------------------------------
# The linear part of one unit, next to the unit: rows for its states and for the trajectories of its inputs.

Array = npt.NDArray[np.float64]
Rows = Array | None
"""One row per cell over the extended state; None: all zero."""
Trajectory = tuple[float, tuple[Rows, ...]]
"""Its origin, and the rows of each coefficient."""


LATER = (0.37, 1.0, 2.3, 7.1, 31.7)
"""How many steps later slopes are looked at again, to see whether they change with the time …"""
MUCH_LATER = (103.0, 1009.0, 10_007.0, 100_003.0)
"""… as long as that is before the end of the run …"""
SHARES = (0.13, 0.38, 0.62, 0.87, 1.0)
"""… and at these parts of what is left of it, unless it is so long that its end is not known."""
LONG = 1e6
"""So many steps are."""


def later_steps(left: float) -> tuple[float, ...]:
    """How many steps later slopes are looked at again, in a run with so many steps left."""
    much = [k for k in MUCH_LATER if k < left]
    parts = [share * (left - 1.0) for share in SHARES] if LATER[-1] < left <= LONG else []
    return (*LATER, *sorted((*much, *parts)))


def differ(one: Array, two: Array) -> bool:
    """Whether slopes are not the same, beyond what differences and trying leave open."""
    return bool(np.abs(one - two).max(initial=0.0) > 1e-5 * np.abs(one).max(initial=1e-12))


class NoMatrix(StepError):
    """There is no single matrix for what steps do to small deviations, so that nothing can be decided."""

    def __init__(self, text: str) -> None:
        super().__init__(text, unending=True)


class Entry(NamedTuple):
    """One number that a unit takes over from step to step."""

    name: str
    port: str
    """The state or port that it is about, among those of the unit."""
    own: bool = True
    """Whether it is a state of a unit; otherwise an input that is held inside, or a register."""
    loop: str = ""
    """The iteration that determines it again in every step, in words, if there is one."""
    stored: bool = False
    """Whether it is a variable of an adaptation; if it is its `own`, too, no signal changes it."""


EXACTLY, ROUGHLY, TRYING = 1e-8, 2e-4, 4e-3
"""How far away slopes are looked at again, relatively, that come from rules, from differences, from trying:
further than what they are found with."""


class LinearUnit(Protocol):
    """What a machine of linear forms needs of a unit: the derivatives of whatever the unit does.

    Call order as for the unit itself; `leave` before and `arrive` after the unit advances.
    """

    linear: bool
    """Whether it is proven to be linear (or affine)."""

    @property
    def reach(self) -> float:
        """How far from a point slopes have to be looked at, relatively, because they may jump there; 0 where
        they cannot."""
        ...

    @property
    def adaptive(self) -> Iterable[tuple[str, float | None]]:
        """The names of units whose solver chooses its own steps, as far as is known, and its relative
        tolerance, if that is known, too."""
        ...

    @property
    def accuracy(self) -> float:
        """How well all that has been asked for since `begin` is known, relatively."""
        ...

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its states, and what else it takes over from step to step. All below is about these."""
        ...

    def begin(self, states: Array) -> None:
        """The rows of its states; inputs are held at what they are until they are given."""
        ...

    def states(self) -> Array: ...

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        """An input follows a trajectory with these rows from `time` on."""
        ...

    def trajectory(self, port: str) -> Trajectory | None:
        """The trajectory that an input follows; None if nothing in it moves."""
        ...

    def read(self, port: str) -> Rows:
        """The rows of an output now."""
        ...

    def leave(self) -> Any: ...

    def arrive(self, left: Any, t: float, to: float) -> None: ...

    def save(self) -> Any: ...

    def restore(self, token: Any) -> None: ...

    def strike(self) -> Any:
        """Before the unit jumps …"""
        ...

    def struck(self, left: Any) -> None:
        """… and after it."""
        ...

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        """How many steps later, of those in `later`, it was tried and had the same slopes.

        None, if slopes change with the time, or with inputs `driven` by it, as far as trying tells. Nothing,
        if they are known not to.
        """
        ...

    def values(self) -> list[float]:
        """What its states are."""
        ...

    def put(self, values: Sequence[float]) -> None:
        """Other values for its states."""
        ...


class WithoutEvents:
    """What followers share whose units do nothing at events, or nothing that is looked at."""

    @property
    def reach(self) -> float:
        return 0.0

    @property
    def adaptive(self) -> Iterable[tuple[str, float | None]]:
        return ()

    def strike(self) -> Any:
        return None

    def struck(self, left: Any) -> None:
        return None

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        return ()


class DynamicLinearUnit(WithoutEvents, ABC):
    """What goes next to any unit that moves: rows are kept here; how it moves is up to the kinds of unit."""

    linear: bool
    labels: tuple[str, ...]

    def __init__(self, labels: tuple[str, ...], inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.labels = labels
        self._rows = np.zeros((len(labels), 0))
        self._trajectories: Mapping[str, Trajectory] = {}
        self._blur = 0.0  # how well the flows are known that have led to the rows, all together
        self._inputs = _places(inputs)
        self._outputs = {port.name: (*place, port.kind is Kind.REAL) for port, place in _placed(outputs)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(Entry(label, label) for label in self.labels)

    @property
    def accuracy(self) -> float:
        return max(self.slopes, self._blur)

    @property
    @abstractmethod
    def slopes(self) -> float:
        """How well the derivatives of its equations are known, relatively."""

    @property
    @abstractmethod
    def _now(self) -> float:
        """The unit's own time."""

    @abstractmethod
    def _gains(self) -> tuple[Array, Array]:
        """How all cells of outputs react to states and inputs, now."""

    @abstractmethod
    def _flow(self, left: Any, t: float, to: float, moving: Moving) -> Flow:
        """How the states at `to` react to those at `t` and to coefficients (see `stability.linear.flows`)."""

    @abstractmethod
    def leave(self) -> Any: ...

    @abstractmethod
    def values(self) -> list[float]: ...

    @abstractmethod
    def put(self, values: Sequence[float]) -> None: ...

    def begin(self, states: Array) -> None:
        self._rows, self._trajectories, self._blur = states, {}, 0.0

    def states(self) -> Array:
        return self._rows

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        while rows and rows[-1] is None:
            rows = rows[:-1]
        rest = {name: trajectory for name, trajectory in self._trajectories.items() if name != port}
        self._trajectories = rest | {port: (time, tuple(rows))} if rows else rest

    def trajectory(self, port: str) -> Trajectory | None:
        return self._trajectories.get(port)

    def read(self, port: str) -> Rows:
        first, count, real = self._outputs.get(port, (0, 0, False))
        if not real:
            return None
        by_state, by_input = (part[first : first + count] for part in self._gains())
        rows = by_state @ self._rows
        for name, (origin, coefficients) in self._trajectories.items():
            place, cells = self._inputs[name]
            gain = by_input[:, place : place + cells]
            if gain.any():
                rows = rows + gain @ _at(coefficients, self._now - origin)
        return rows if rows.any() else None

    def arrive(self, left: Any, t: float, to: float) -> None:
        if not self.labels or to <= t:
            return
        size, columns = self._rows.shape
        moving = [
            (self._inputs[name][0] + cell, _around(coefficients, t - origin, cell, columns))
            for name, (origin, coefficients) in self._trajectories.items()
            for cell in range(self._inputs[name][1])
        ]
        through, blur = self._flow(left, t, to, Moving(tuple((place, len(rows)) for place, rows in moving)))
        states = through[:, :size] @ self._rows
        if moving:
            states = states + through[:, size:] @ np.vstack([rows for _, rows in moving])
        self._rows = states
        self._blur += blur

    def save(self) -> Any:
        return self._rows, self._trajectories, self._blur

    def restore(self, token: Any) -> None:
        self._rows, self._trajectories, self._blur = token


def _placed(ports: Sequence[Port]) -> list[tuple[Port, tuple[int, int]]]:
    """Where the cells of each port are among those of all, and how many there are."""
    found, first = [], 0
    for port in ports:
        found.append((port, (first, port.cells)))
        first += port.cells
    return found


def _places(ports: Sequence[Port]) -> dict[str, tuple[int, int]]:
    return {port.name: place for port, place in _placed(ports)}


def _around(coefficients: Sequence[Rows], tau: float, cell: int, columns: int) -> Array:
    """The rows of one cell's coefficients around a point so long after the origin of the trajectory."""
    rows = np.array([np.zeros(columns) if part is None else part[cell] for part in coefficients])
    return rows if tau == 0.0 else Moving(((0, len(rows)),)).shifted(tau) @ rows


def _at(coefficients: Sequence[Rows], tau: float) -> Array:
    """The rows of a trajectory so long after its origin."""
    total: Array | None = None
    for k, rows in enumerate(coefficients):
        if rows is not None:
            part = rows * tau**k
            total = part if total is None else total + part
    assert total is not None  # trajectories without rows are not kept
    return total


class StaticLinearUnit(WithoutEvents):
    """Next to a unit that gives out nothing that moves with the others: all its rows are zero."""

    accuracy = 0.0
    linear = True
    entries: tuple[Entry, ...] = ()

    def begin(self, states: Array) -> None:
        self._none = states

    def states(self) -> Array:
        return self._none

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        pass

    def trajectory(self, port: str) -> Trajectory | None:
        return None

    def read(self, port: str) -> Rows:
        return None

    def leave(self) -> None:
        pass

    def arrive(self, left: None, t: float, to: float) -> None:
        pass

    def save(self) -> None:
        pass

    def restore(self, token: None) -> None:
        pass

    def values(self) -> list[float]:
        return []

    def put(self, values: Sequence[float]) -> None:
        pass


# ----------------------------------------------------------------------------------------------------
# The extended state: all that a step takes over from the one before, found by data flow.


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
    """The iteration that determines each entry again in every step, in words; mostly there is none."""
    stored: tuple[bool, ...]
    """Whether each entry is a variable of an adaptation."""

    @property
    def size(self) -> int:
        return len(self.names)


def extended(
    program: Program, models: Mapping[str, Model], steps: Iterable[Block],
    entries: Mapping[str, Sequence[Entry]], called: Mapping[str, str], shown: Iterable[int] = (),
    stored: Mapping[int, bool] = MappingProxyType({}),
) -> Extended:  # fmt: skip
    """The extended state of `steps`, any of which may come next; `entries` are those of units, `called` names
    the units themselves. The cells `shown` are looked at by others, too. Those of variables of adaptations
    are `stored`, with whether these change them by themselves: then they are states as those of units."""
    steps = tuple(steps)
    flow = DataFlow(program.layout, models)
    reads = {read for step in steps for read in flow.block((*step, *program.instant)).reads}
    live = {r[1] for r in reads if isinstance(r, tuple) and r[0] == "cell"} | set(shown)
    held = {r[1:] for r in reads if isinstance(r, tuple) and r[0] == "input"}
    warned = {doubt.register + k for doubt in program.doubts for k in range(3)}  # nothing depends on these
    alone = {cell for cell, by_itself in stored.items() if by_itself}
    signals = (signal_cells(program, models) - warned) | alone
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
    own = [one.own for _, one in carried] + [False] * len(inputs) + [cell in alone for cell in kept]
    variables = [one.stored for _, one in carried] + [False] * len(inputs) + [cell in stored for cell in kept]
    repeated = {cell: what for step in steps for cell, what in _iterated(step, sizes_of(models))}
    loops = [one.loop for _, one in carried] + [""] * len(inputs) + [repeated.get(cell, "") for cell in kept]
    return Extended(
        states, inputs, kept, tuple(names), tuple(ports), tuple(own), tuple(loops), tuple(variables)
    )


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
            case Computation():
                read = frozenset(cell for at, count in instruction.reads for cell in range(at, at + count))
                followers += [(read, range(to, to + count)) for to, count in instruction.writes]
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
    flow = DataFlow(program.layout, models)
    reads = {read for step in steps for read in flow.block(step).reads}
    written = {i.to for step in steps for i in walk(step) if isinstance(i, Let)}
    times = {kept for history in program.histories for kept in (*history.times, *history.spacing)}
    known = signal_cells(program, models) | times | {program.now, program.next}
    return any(("cell", cell) in reads for cell in written - known)


# ----------------------------------------------------------------------------------------------------
# The neighbour of a machine of linear forms: the same program a little way off, which decides for it.
#
# It never runs by itself: every instruction is done there after it was done here. So a nested scenario in
# it has no loop of its own either: the loop here drives both insides at once.


def opened(model: Model) -> TypeGuard[Nested]:
    """Whether a model is a nested scenario whose inside is followed; one with events is a unit as a whole."""
    nested = nested_of(model)
    return nested is not None and not nested.has_events


class Neighbour(Interpreter):
    """An interpreter that is driven by another one, at all depths."""

    def _instantiated(self, model: Model, name: str, start: float) -> Any:
        return Driven(model, start) if opened(model) else super()._instantiated(model, name, start)


class Driven:
    """A nested scenario as a unit of a neighbour: it is where its driver has left it."""

    def __init__(self, model: Nested, start: float) -> None:
        inside = model.running
        self._program, self._free = inside.program, inside.free
        self.machine = Neighbour(inside.program, inside.scenario.units, start)

    def get(self, port: str) -> Signal:
        shown = self._program.columns[port]
        values = [self.machine.read(shown.register + i) for i in range(shown.cells)]
        return values[0] if shown.cells == 1 else tuple(values)

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        unit, inner = self._free[port]
        self.machine.set_input(unit, inner.name, *coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        return float(self.machine.read(self._program.now))

    def due(self) -> float:
        return inf if self._program.due is None else float(self.machine.read(self._program.due))

    def jump(self) -> bool:
        return False

    def save(self) -> Any:
        return self.machine.save()

    def restore(self, token: Any) -> None:
        self.machine.restore(token)

    def close(self) -> None:
        self.machine.close()


# ----------------------------------------------------------------------------------------------------
# The interpreter on linear forms: a program runs as ever, and next to every value goes its derivative.
#
# A *row* says how a value depends on the extended state, to first order. Whatever an instruction does to
# values it does to rows by the chain rule, so one machine serves every coupling there is. Where a program
# decides something (`If`, `Repeat`), somebody has to stand somewhere: at rest a loop is solved before it
# begins, and its rows would never be. So decisions are those of a *neighbour*, the same program a little
# way off; for linear programs, whose rows are the same everywhere, the machine is its own neighbour.

Row = npt.NDArray[np.float64]
WORK = 3_000_000
"""How many instructions and evaluations of equations one look at a step may take."""


class Forms(Interpreter):
    """An interpreter whose cells have rows, and whose units have a linear part next to them.

    Rows are kept only where they are not zero. Unless it is `active`, nothing but values is computed.
    """

    def __init__(
        self,
        program: Program,
        models: Mapping[str, Model],
        start: float,
        neighbour: Neighbour | None,
        around: Forms | None = None,
    ) -> None:
        """`around`: the machine that has this one inside one of its units."""
        self._active = False
        self._around = around
        self.allowance: Allowance = Allowance(WORK) if around is None else around.allowance
        """What one look may still take; it is renewed for each look."""
        self.rows: dict[int, Row] = {}
        self.trajectories: dict[tuple[str, str], tuple[float, list[Signal]]] = {}
        """What every input was given last, and when."""
        self.linear_units: dict[str, LinearUnit] = {}
        self.jumps: list[tuple[str, float]] = []
        """Which unit has jumped, and when."""
        self._neighbour = neighbour
        self._row_slots: dict[int, tuple[dict[int, Row], dict[str, Any]]] = {}
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self._ends_of = {unit: [(unit, port.name) for port in model.ports] for unit, model in models.items()}
        self.valueless: bool = (
            neighbour is None and _valueless(program, models) if around is None else around.valueless
        )
        """Whether rows depend on no value."""
        self.rows_alone = False
        """Whether values are not looked at, so that they need not be computed where rows do without."""
        super().__init__(program, models, start)

    @property
    def active(self) -> bool:
        return self._active if self._around is None else self._around.active

    @active.setter
    def active(self, now: bool) -> None:
        self._active = now

    def _instantiated(self, model: Model, name: str, start: float) -> Any:
        if not opened(model):
            unit = super()._instantiated(model, name, start)
            self.allowance.bound(unit)
            if self.valueless and hasattr(unit, "wait"):
                unit.advance = partial(self._passed, unit, unit.advance)
            return unit
        neighbour = None if self._neighbour is None else self._neighbour.units[name].machine
        return model.instantiate(name, start, partial(Forms, neighbour=neighbour, around=self))

    def _passed(self, unit: Any, advance: Any, t: float, to: float, early: bool = False) -> float:
        """Instead of `advance`: unless values are wanted, time passes and states stay as they are."""
        if not self._whole.rows_alone:
            return float(advance(t, to, early))
        unit.wait(to)
        return to

    @property
    def _whole(self) -> Forms:
        """The outermost machine around this one."""
        return self if self._around is None else self._around._whole

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        super().set_input(unit, port, *coefficients)
        self.trajectories[unit, port] = self._clock[unit], list(coefficients)

    def _kept(self, units: Sequence[str]) -> Kept:
        """With the trajectories of inputs: units keep theirs, too."""
        return {
            unit: (
                (
                    token,
                    {end: self.trajectories[end] for end in self._ends_of[unit] if end in self.trajectories},
                ),
                time,
            )
            for unit, (token, time) in super()._kept(units).items()
        }

    def _restore_units(self, kept: Kept) -> None:
        super()._restore_units({unit: (token, time) for unit, ((token, _), time) in kept.items()})
        for (_, trajectories), _ in kept.values():
            self.trajectories.update(trajectories)

    def write(self, cell: int, value: Value) -> None:
        super().write(cell, value)
        if self._neighbour is not None:
            self._neighbour.write(cell, value)

    def _test(self, condition: Expr) -> Callable[[], bool]:
        if self._neighbour is None:
            return super()._test(condition)
        holds, there = evaluator(condition, Kind.BOOLEAN), self._neighbour
        return lambda: bool(holds(there._cells))

    def _action(self, instruction: Instruction) -> Action:
        action = super()._action(instruction)
        if isinstance(instruction, Set):
            action = self._noted(instruction, action)
        elif isinstance(instruction, Jump):
            action = self._counted(instruction, action)
        linear = self._linear(instruction)
        if linear is None:  # If and Repeat, whose parts come one by one
            return action
        also: Action | None = None
        if self._neighbour is not None:
            also = Interpreter._action(self._neighbour, instruction)

        spend = self.allowance.spend

        def both() -> None:
            spend()
            after = linear() if self.active else None
            action()
            if also is not None:
                also()
            if after is not None:
                after()

        return both

    def _noted(self, instruction: Set, action: Action) -> Action:
        key, trajectory = (instruction.unit, instruction.port), self._calls.trajectory(instruction)

        def noted() -> None:
            action()
            self.trajectories[key] = self._clock[instruction.unit], trajectory()

        return noted

    def _counted(self, instruction: Jump, action: Action) -> Action:
        def counted() -> None:
            self.jumps.append((instruction.unit, self._clock[instruction.unit]))
            action()

        return counted

    # ---------------------------------------------------------------- what instructions do to rows

    def _linear(self, instruction: Instruction) -> Callable[[], Action] | None:
        """What is to be looked at before the instruction, which gives what is to be done after it."""
        rows, linear_units = self.rows, self.linear_units
        match instruction:
            case Let(to, value):
                return self._let(to, value)
            case Get(unit, port, to):
                count = self._ports[unit, port].cells + self._ports[unit, port].event
                return lambda: lambda: self._store(to, count, linear_units[unit].read(port))
            case Set(unit, port, by):
                count = self._ports[unit, port].cells

                def hand_over() -> None:
                    linear_units[unit].give(port, self._clock[unit], [self.gather(r, count) for r in by])

                return lambda: hand_over
            case Advance(unit, start, _, reached):

                def leave() -> Action:
                    left, t = linear_units[unit].leave(), float(self._cells[start])

                    def arrive() -> None:
                        linear_units[unit].arrive(left, t, self._clock[unit])
                        rows.pop(reached, None)

                    return arrive

                return leave
            case Solve():
                return lambda: self._solve(instruction)
            case Computation():
                return lambda: self._still(instruction)
            case Slope(unit, output, port, to):
                count = self._ports[unit, output].cells * self._ports[unit, port].cells
                return lambda: lambda: self._store(to, count, None)
            case Jump(unit, cell):

                def strike() -> Action:
                    left = linear_units[unit].strike()

                    def struck() -> None:
                        linear_units[unit].struck(left)
                        self._store(cell, 1, None)

                    return struck

                return strike
            case Due(_, cell):
                return lambda: lambda: self._store(cell, 1, None)
            case Save(units, registers, slot):
                extent = [r + i for r in registers for i in range(self._layout.of(r).size)]

                def save() -> None:
                    kept = {cell: rows[cell] for cell in extent if cell in rows}
                    self._row_slots[slot] = kept, {unit: linear_units[unit].save() for unit in units}

                return lambda: save
            case Restore(slot):
                return lambda: lambda: self._put_back(slot)
        return None

    def _let(self, to: int, value: Expr) -> Callable[[], Action]:
        rows, values = self.rows, self._cells
        if self._layout.of(to).kind is not Kind.REAL:
            return lambda: lambda: self._store(to, 1, None)
        if isinstance(value, Cell):
            source = value.index

            def copied() -> Action:
                row = rows.get(source)
                return lambda: self._put(to, row)

            return copied
        leaves = sorted(cells(value))
        compute: Callable[[list[float]], list[float]] | None = None
        sources: tuple[int, ...] = ()

        def computed() -> Action:
            nonlocal compute, sources
            active = [leaf for leaf in leaves if leaf in rows]
            if not active:
                return lambda: self._put(to, None)
            if compute is None:
                partial = tuple(directional_derivative(value, {Cell(leaf): ONE}) for leaf in leaves)
                kernel = Kernel.over_cells(partial)
                compute, sources = kernel.python(), kernel.input_cells
            slopes = dict(zip(leaves, compute([float(values[cell]) for cell in sources]), strict=True))
            row: Row | None = None
            for leaf in active:
                slope = slopes[leaf]
                if slope:
                    if not np.isfinite(slope):
                        raise StepError(
                            f"{self._layout.name(to)} has no finite slope by {self._layout.name(leaf)} at "
                            "this point: nothing linear comes close to it. Choose another point (at=…)."
                        )
                    part = slope * rows[leaf]
                    row = part if row is None else row + part
            return lambda: self._put(to, row)

        return computed

    def _still(self, instruction: Computation) -> Action:
        """What nothing more is known of stays as it is, as long as nothing that it reads moves."""
        for at, count in instruction.reads:
            for cell in range(at, at + count):
                if cell in self.rows:
                    name, line = self._layout.name(cell), instruction.shown(self._layout)
                    raise StepError(
                        f"what follows from a change of {name} is not known: {' '.join(line.split())} has no "
                        "linear form."
                    )

        def after() -> None:
            for to, count in instruction.writes:
                self._store(to, count, None)

        return after

    def _solve(self, instruction: Solve) -> Action:
        """As x = A⁻¹·b: dx = A⁻¹·(db - dA·x), with the x that comes out."""
        rows, size = self.rows, instruction.size
        matrix = np.array([float(self._cells[instruction.matrix + i]) for i in range(size * size)])
        width = next((len(row) for row in rows.values()), 0)
        right = np.zeros((size, width))
        for i in range(size):
            if instruction.right + i in rows:
                right[i] = rows[instruction.right + i]
        entries = [k for k in range(size * size) if instruction.matrix + k in rows]
        moved = [rows[instruction.matrix + k] for k in entries]

        def after() -> None:
            for k, row in zip(entries, moved, strict=True):
                right[k // size] -= row * float(self._cells[instruction.to + k % size])
            if not right.any():
                self._store(instruction.to, size, None)
                return
            try:
                self._store(instruction.to, size, np.linalg.solve(matrix.reshape(size, size), right))
            except np.linalg.LinAlgError:
                raise StepError(
                    "an algebraic loop is singular at this point: its outputs do not determine its inputs, "
                    'so there is nothing to linearise. Break the loop (outputs="lagged") or change its gains.'
                ) from None

        return after

    # ---------------------------------------------------------------- rows

    def _put(self, cell: int, row: Row | None) -> None:
        if row is None:
            self.rows.pop(cell, None)
        else:
            self.rows[cell] = row

    def _store(self, first: int, count: int, found: Rows) -> None:
        for i in range(count):
            self._put(first + i, None if found is None or i >= len(found) else found[i])

    def gather(self, first: int, count: int) -> Rows:
        """The rows of several cells."""
        known = [self.rows.get(first + i) for i in range(count)]
        if all(row is None for row in known):
            return None
        width = next(len(row) for row in known if row is not None)
        return np.array([np.zeros(width) if row is None else row for row in known])

    def _put_back(self, slot: int) -> None:
        kept, units = self._row_slots[slot]
        extent = self._slots[slot][1]
        for cell in extent:
            self._put(cell, kept.get(cell))
        for unit, token in units.items():
            self.linear_units[unit].restore(token)


def _valueless(program: Program, models: Mapping[str, Model]) -> bool:
    """Whether rows of a program of linear units depend on no value of theirs, so that these are not needed.

    Decisions depend on values, and so do quotients of them, as those by which corrections find sensitivities.
    """
    moving = signal_cells(program, models)
    for each in program.instructions():
        if isinstance(each, (If, Repeat, Slope, Computation)):
            return False
        if isinstance(each, Let) and not affine((each.value,), moving):
            return False
    inside = [model.running for model in models.values() if opened(model)]
    return all(_valueless(each.program, each.scenario.units) for each in inside)
