"""Couplings: `Jacobi` and `GaussSeidel`, as programs.

Both are a *sweep* (every unit advances over the step) followed by an *exchange* (outputs are read
and inputs handed on at the new communication point). They differ in the order of the sweep and in
which inputs see the new values of units that went before.

An exchange hands each input its course for the step to come. That course starts at the value the
input has now, so the same `Set` also serves the outputs that depend on it directly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from upbeat.core.errors import MasterError, suggest
from upbeat.master.program import Block, Instruction
from upbeat.master.wiring import End, Wiring
from upbeat.scenario.graph import unit_order

Outputs = Literal["solved", "lagged"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a coupling contributes to a program."""

    start: Block
    step: Block
    notes: tuple[str, ...] = ()


class Coupling(Protocol):
    """Turns wiring into blocks. Raises `MasterError` when the scenario does not allow it."""

    def blocks(self, wiring: Wiring) -> Blocks: ...


@dataclass(frozen=True, slots=True)
class Jacobi:
    """All units advance side by side, on what was known at the start of the step.

    `outputs` says what an output that depends directly on an input shows at a communication point:
    "solved", outputs and inputs are evaluated in dependency order until they agree; "lagged", an
    output read after a step still reflects the inputs of that step.
    """

    outputs: Outputs = "solved"

    def __post_init__(self) -> None:
        _check_outputs(self.outputs)

    def blocks(self, wiring: Wiring) -> Blocks:
        _refuse_reactive(wiring)
        units = wiring.scenario.units
        sweep = [i for unit in units for end in wiring.connected(unit) for i in wiring.begin(end)]
        sweep += [i for unit in units for i in wiring.advance(unit)]
        return _assemble(wiring, self.outputs, sweep, fresh=(), reactive=())


@dataclass(frozen=True, slots=True)
class GaussSeidel:
    """Units advance one after the other; later ones see what earlier ones have reached.

    The order comes from the feedthrough graph unless it is given. An input declared *delayed*
    still gets the value at the start of the step; an input declared *reactive* must come after its
    sources; any other sees the new value when all its sources went before.
    """

    order: tuple[str, ...] | None = None
    outputs: Outputs = "solved"

    def __post_init__(self) -> None:
        _check_outputs(self.outputs)
        if self.order is not None:
            object.__setattr__(self, "order", tuple(self.order))

    def blocks(self, wiring: Wiring) -> Blocks:
        order = self._checked_order(wiring)
        reactive = _reactive_inputs(wiring, order)
        sweep: list[Instruction] = []
        for unit in order:
            for end in wiring.connected(unit):
                sweep += wiring.remember(end) if end in reactive else wiring.begin(end)
        for unit in order:
            for end in wiring.connected(unit):
                if end in reactive:
                    sweep += wiring.interpolate(end)
            sweep += wiring.advance(unit)
            for end in _outputs_of(wiring, unit):
                sweep += wiring.get(end)
        whose = "given" if self.order else "from the feedthrough graph"
        note = f"order of the units: {' → '.join(order)} ({whose})"
        return _assemble(wiring, self.outputs, sweep, fresh=wiring.outputs, reactive=reactive, notes=(note,))

    def _checked_order(self, wiring: Wiring) -> tuple[str, ...]:
        units = wiring.scenario.units
        if self.order is None:
            return unit_order(wiring.scenario)
        added = tuple(unit for unit in wiring.scenario.added_units if unit not in self.order)
        order = added + self.order
        for unit in order:
            if unit not in units:
                raise MasterError(
                    f"the order names '{unit}', which is no unit. {suggest(unit, units, 'units')}"
                )
        missing = [unit for unit in units if unit not in order]
        if missing or len(set(order)) != len(order):
            raise MasterError(
                "the order must name every unit once"
                + (f"; missing: {', '.join(missing)}" if missing else f": {', '.join(self.order)}")
            )
        return order


def _check_outputs(outputs: str) -> None:
    if outputs not in ("solved", "lagged"):
        raise MasterError(f'outputs must be "solved" or "lagged", not {outputs!r}')


def _refuse_reactive(wiring: Wiring) -> None:
    names = [
        ".".join(end)
        for unit in wiring.scenario.units
        for end in wiring.connected(unit)
        if wiring.port(end).reactive
    ]
    if names:
        raise MasterError(
            f"{', '.join(names)}: reactive inputs expect the value at the end of the step, which a Jacobi "
            'coupling does not know. Use GaussSeidel() (in a file: coupling = "gauss_seidel").'
        )


def _reactive_inputs(wiring: Wiring, order: Sequence[str]) -> frozenset[End]:
    """The inputs that see the end of the step: all their sources go before them."""
    rank = {unit: position for position, unit in enumerate(order)}
    chosen: set[End] = set()
    for connection in wiring.scenario.connections:
        end = (connection.unit, connection.port)
        reactive = wiring.port(end).reactive
        late = [unit for unit, _ in connection.sources if rank[unit] >= rank[connection.unit]]
        if reactive and late:
            raise MasterError(
                f"{'.'.join(end)} is reactive: it expects the value at the end of the step, but its source "
                f"{' and '.join(late)} does not come before it in the order {' → '.join(order)}."
            )
        if not late and reactive is not False and connection.sources:
            chosen.add(end)
    return frozenset(chosen)


def _outputs_of(wiring: Wiring, unit: str) -> list[End]:
    return [end for end in wiring.outputs if end[0] == unit]


def _assemble(
    wiring: Wiring,
    outputs: Outputs,
    sweep: list[Instruction],
    fresh: Collection[End],
    reactive: Collection[End],
    notes: tuple[str, ...] = (),
) -> Blocks:
    graph = wiring.scenario.graph
    if graph.loops and outputs == "solved":
        loops = "; ".join(" → ".join(f"{unit}.{port}" for _, unit, port in loop) for loop in graph.loops)
        raise MasterError(
            f"the scenario has an algebraic loop: {loops}. Each of these needs the others at the same "
            'instant. Break it by reading outputs one step late: outputs = "lagged" in the coupling.'
        )
    start = [*_solve(wiring, stale=None, reactive=reactive), *wiring.finish()]
    if outputs == "solved":
        stale = None if not fresh else _stale(wiring, reactive)
        exchange = _solve(wiring, stale=stale, reactive=reactive)
        note = "outputs are solved: evaluated in dependency order with the inputs of the same instant"
    else:
        exchange = [i for end in wiring.outputs if end not in fresh for i in wiring.get(end)]
        for connection in wiring.scenario.connections:
            end = (connection.unit, connection.port)
            if end not in reactive:
                exchange += wiring.extrapolate(end)
        note = "outputs are lagged: read after a step, they still reflect the inputs of that step"
        if graph.loops:
            note += "; the algebraic loops are broken by that delay and start from the inputs' start values"
    return Blocks(tuple(start), (*sweep, *exchange, *wiring.finish()), (*notes, note))


def _stale(wiring: Wiring, reactive: Collection[End]) -> set[End]:
    """Outputs that were read during the sweep with an input that has moved on since."""
    moved: set[End] = set()
    stale: set[End] = set()
    sources = {(c.unit, c.port): c.sources for c in wiring.scenario.connections}
    for side, unit, port in wiring.scenario.graph.order:
        end = (unit, port)
        if side == "in":
            if end in sources and (end not in reactive or any(source in stale for source in sources[end])):
                moved.add(end)
        elif any((unit, name) in moved for name in wiring.port(end).depends):
            stale.add(end)
    return stale


def _solve(wiring: Wiring, stale: set[End] | None, reactive: Collection[End]) -> list[Instruction]:
    """Evaluate ports in dependency order. `stale` limits the outputs to read; None reads all.

    Inside a loop (only lagged couplings get here with one) some input comes before its sources have
    been read: it keeps what it has until all outputs are there.
    """
    sources = {(c.unit, c.port): c.sources for c in wiring.scenario.connections}
    direct = {(end[0], name) for end in wiring.outputs for name in wiring.port(end).depends}
    unread = set(wiring.outputs) if stale is None else set(stale)
    instructions: list[Instruction] = []
    waiting: list[Instruction] = []
    for side, unit, port in wiring.scenario.graph.order:
        end = (unit, port)
        if side == "out":
            if end in unread:
                instructions += wiring.get(end)
                unread.remove(end)
        elif end in sources:
            place = waiting if unread.intersection(sources[end]) else instructions
            if end not in reactive:
                place += wiring.extrapolate(end)
            elif end in direct:
                place += wiring.hold(end)
            elif stale is None:
                place += wiring.compute(end)
    return instructions + waiting
