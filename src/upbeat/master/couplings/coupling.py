"""Couplings: `Jacobi` and `GaussSeidel`, as programs.

Both are a *sweep* (every unit advances over the step) followed by an *exchange* (outputs are read
and inputs handed on at the new communication point). They differ in the order of the sweep and in
which inputs see the new values of units that went before.

An exchange hands each input its trajectory for the step to come. That trajectory starts at the value the
input has now, so the same `Set` also serves the outputs that depend on it directly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from upbeat.core.errors import MasterError, suggest
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.loops import LoopSolver, Newton
from upbeat.master.port_registers import End, Interval
from upbeat.master.program import Block, Blocks, Instruction
from upbeat.master.wiring import Guess, Wiring
from upbeat.scenario.graph import Graph, unit_order

# ----------------------------------------------------------------------------------------------------
# The exchange at a communication point: ports evaluated in dependency order, loops solved on the way.


class Part(NamedTuple):
    """What of an exchange is special: `units` limits it to the ports of some units, `over` gives inputs that
    are exchanged more often the interval of their trajectories. An input in `late` keeps what it has until
    all outputs are there; `graph` is the scenario's without these."""

    over: Mapping[End, Interval] = {}
    units: Collection[str] | None = None
    graph: Graph | None = None
    late: Collection[End] = ()


def settled(
    wiring: Wiring,
    reactive: Collection[End],
    loops: LoopSolver | None,
    stale: set[End] | None = None,
    part: Part = Part(),  # noqa: B008
    *,
    beginning: Mapping[str, Mapping[str, Collection[str]]] | None = None,
) -> list[Instruction]:
    """Read outputs and hand on inputs so that all agree at this instant.

    `stale` limits the outputs to read; None reads all. Without a solver for loops (only lagged couplings get
    here with one) an input whose sources have not been read keeps what it has until all outputs are there.
    At the start time `beginning` says which units are to be given all inputs (see `begun`).
    """
    over, units, own_graph, late = part
    graph = wiring.scenario.graph if own_graph is None else own_graph
    order = graph.order if not beginning else graph.order_with(beginning)
    sources = {(c.unit, c.port): c.sources for c in wiring.scenario.connections}
    values = _values(wiring)
    unread = set(wiring.outputs) if stale is None else set(stale)
    if units is not None:
        unread = {end for end in unread if end[0] in units}
    inside = [loop for loop in graph.loops if units is None or all(node.unit in units for node in loop)]
    loop_of = {node: loop for loop in inside for node in loop} if loops is not None else {}
    done: set[End] = set()
    instructions: list[Instruction] = []
    waiting: list[Instruction] = []
    for node in order:
        end = (node.unit, node.port)
        if units is not None and node.unit not in units:
            continue
        if loops is not None and node in loop_of and end not in done:
            loop = loop_of[node]
            members = {(n.unit, n.port) for n in loop}
            done |= members
            if stale is None or not stale.isdisjoint(members):
                instructions += loops.solve(loop, wiring, warm=beginning is None)
                unread -= members
        if node.side == "out":
            if end in unread:
                instructions += wiring.get(end)
                unread.remove(end)
        elif end in sources:
            value, trajectory = instructions, instructions
            if end in late or not unread.isdisjoint(values[end]):
                value = trajectory = waiting
            elif not unread.isdisjoint(sources[end]):
                trajectory = waiting  # derivatives come later: until then the value is all that it is given
            needed = _needed(wiring, end, stale) or node.unit in (beginning or ())
            if end not in reactive:
                if trajectory is not value and needed:
                    value += wiring.hold(end)
                trajectory += wiring.extrapolate(end, over.get(end))
            elif node not in loop_of and needed:
                value += wiring.hold(end)
                if trajectory is not value:
                    trajectory += wiring.compute(end)
            elif stale is None or not stale.isdisjoint(sources[end]):
                trajectory += wiring.compute(end)
    return instructions + waiting


def begun(
    wiring: Wiring,
    reactive: Collection[End],
    loops: LoopSolver | None,
    part: Part = Part(),  # noqa: B008
) -> list[Instruction]:
    """`settled` at the start time.

    A unit whose start state follows from its inputs (`begins_with`: an adapted unit, whose Init reads them)
    is given all of them, and before any output is read that follows. Where such inputs depend on such outputs
    of the same unit, it begins with their start values instead.
    """
    units = wiring.scenario.units
    asking = {unit: found for unit, model in units.items() if (found := getattr(model, "begins_with", {}))}
    graph = wiring.scenario.graph if part.graph is None else part.graph
    able = graph.orderable(asking)
    around = {
        end for unit in asking.keys() - able for end in wiring.connected(unit) if not wiring.direct(end)
    }
    part = part._replace(late={*part.late, *around})
    found = settled(wiring, reactive, loops, None, part, beginning={unit: asking[unit] for unit in able})
    if around:
        names = ", ".join(sorted(map(wiring.label, around)))
        wiring.note(
            f"{names}: at the start time these depend on outputs of the same unit that depend on them, so "
            "the unit begins with their start values"
        )
    # What is given last is seen when the unit is asked next.
    asked = [end for unit in units if unit in able for end in wiring.outputs_of(unit)]
    return [*found, *(i for end in asked for i in wiring.get(end))]


def _values(wiring: Wiring) -> dict[End, list[End]]:
    """By input, the outputs that its value comes from, without those that give only its derivatives."""
    return {
        (c.unit, c.port): [end for end in c.sources if end not in c.rates]
        for c in wiring.scenario.connections
    }


def _needed(wiring: Wiring, end: End, stale: set[End] | None) -> bool:
    """Whether an output that is about to be read depends directly on this input, or the next event does."""
    if wiring.reacts(end[0]):
        return True
    if stale is None:
        return wiring.direct(end)
    unit, name = end
    return any(o in stale and name in wiring.port(o).depends for o in wiring.outputs_of(unit))


def stale_outputs(wiring: Wiring, reactive: Collection[End]) -> set[End]:
    """Outputs that were read during a sweep with an input that has moved on since."""
    moved: set[End] = set()
    stale: set[End] = set()
    sources = _values(wiring)
    for loop in wiring.scenario.graph.loops:
        stale |= {(unit, port) for side, unit, port in loop if side == "out"}
    for side, unit, port in wiring.scenario.graph.order:
        end = (unit, port)
        if side == "in":
            # Where something happens inside a unit, what follows it is not led to the end of the step.
            led = end in reactive and (wiring.within(end) or not wiring.counts(end))
            if end in sources and (not led or any(source in stale for source in sources[end])):
                moved.add(end)
        elif any((unit, name) in moved for name in wiring.port(end).depends):
            stale.add(end)
    return stale


# ----------------------------------------------------------------------------------------------------

Outputs = Literal["solved", "lagged"]


class Coupling(Protocol):
    """Turns wiring into blocks. Raises `MasterError` when the scenario does not allow it."""

    def blocks(self, wiring: Wiring) -> Blocks: ...


@runtime_checkable
class Sequential(Protocol):
    """A coupling in which units advance once a step, all side by side or one after the other, and nothing
    else happens: one inside another can be merged with it."""

    outputs: Outputs
    loops: LoopSolver

    @property
    def in_turn(self) -> bool:
        """Whether units go one after the other."""
        ...

    def sequence(self, wiring: Wiring) -> UnitSequence:
        """The order of units, and who sees what went before."""
        ...


@runtime_checkable
class NamesUnits(Protocol):
    """A coupling that names units, and can name several in the place of one."""

    def with_several(self, unit: str, units: tuple[str, ...]) -> Coupling:
        """The same, with `units` wherever `unit` was."""
        ...


def ends_early(coupling: Coupling) -> bool:
    """Whether the coupling lets units end a step before the time that was asked for."""
    return bool(getattr(coupling, "ends_early", False))


def labelled(coupling: Coupling, inputs: str) -> str:
    """A coupling in a few words, with what is said of its inputs; one may say it itself (`label`)."""
    own = getattr(coupling, "label", None)
    return str(own(inputs)) if own is not None else f"{type(coupling).__name__}{_lagged(coupling)}, {inputs}"


def _lagged(coupling: Coupling) -> str:
    return ", lagged" if getattr(coupling, "outputs", "solved") == "lagged" else ""


def unknowns(coupling: Coupling) -> tuple[str, ...]:
    """The free inputs that a coupling finds by itself, if it says so in `unknowns`: nothing drives those."""
    return tuple(getattr(coupling, "unknowns", ()))


class UnitSequence(NamedTuple):
    """The order in which units advance, and the inputs that see what went before them."""

    order: tuple[str, ...]
    reactive: frozenset[End]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Jacobi:
    """All units advance side by side, on what was known at the start of the step.

    `outputs` says what an output that depends directly on an input shows at a communication point:
    "solved", outputs and inputs are evaluated in dependency order until they agree, algebraic loops
    by `loops`; "lagged", an output read after a step still reflects the inputs of that step.
    """

    outputs: Outputs = "solved"
    loops: LoopSolver = field(default_factory=Newton)
    in_turn: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_outputs(self.outputs)
        check_loops(self.loops, "Jacobi")

    def sequence(self, wiring: Wiring) -> UnitSequence:
        refuse_reactive(wiring, "a Jacobi")
        return UnitSequence(tuple(wiring.scenario.units), frozenset())

    def blocks(self, wiring: Wiring) -> Blocks:
        return assemble(wiring, self, self.sequence(wiring))


@dataclass(frozen=True, slots=True)
class GaussSeidel:
    """Units advance one after the other; later ones see what earlier ones have reached.

    The order comes from the feedthrough graph unless it is given. An input declared *delayed*
    still gets the value at the start of the step; an input declared *reactive* must come after its
    sources; any other sees the new value when all its sources went before. `outputs` and `loops` as
    for `Jacobi`.
    """

    order: tuple[str, ...] | None = None
    outputs: Outputs = "solved"
    loops: LoopSolver = field(default_factory=Newton)
    in_turn: ClassVar[bool] = True

    def with_several(self, unit: str, units: tuple[str, ...]) -> GaussSeidel:
        """The same, with `units` wherever `unit` was."""
        if self.order is None or unit not in self.order:
            return self
        place = self.order.index(unit)
        return replace(self, order=(*self.order[:place], *units, *self.order[place + 1 :]))

    def label(self, inputs: str) -> str:
        """In a few words, with what is said of its inputs."""
        order = "" if self.order is None else f" {' → '.join(self.order)}"
        return f"Gauss-Seidel{order}{_lagged(self)}, {inputs}"

    def __post_init__(self) -> None:
        check_outputs(self.outputs)
        check_loops(self.loops, "GaussSeidel")
        if self.order is not None:
            listed = isinstance(self.order, (list, tuple)) and all(isinstance(u, str) for u in self.order)
            if not listed:
                raise MasterError(
                    f'the order of GaussSeidel lists units, such as ("motor", "load"), not {self.order!r}'
                )
            object.__setattr__(self, "order", tuple(self.order))

    def sequence(self, wiring: Wiring) -> UnitSequence:
        order = self._checked_order(wiring)
        whose = "given" if self.order else "from the feedthrough graph"
        note = f"order of the units: {' → '.join(map(wiring.called, order))} ({whose})"
        return UnitSequence(order, _reactive_inputs(wiring, order), note)

    def blocks(self, wiring: Wiring) -> Blocks:
        return assemble(wiring, self, self.sequence(wiring))

    def _checked_order(self, wiring: Wiring) -> tuple[str, ...]:
        units = wiring.scenario.units
        if self.order is None:
            return unit_order(wiring.scenario)
        added = tuple(unit for unit in wiring.scenario.added_units if unit not in self.order)
        order = added + self.order
        known = [unit for unit in units if unit not in added]
        for unit in order:
            if unit not in units:
                raise MasterError(
                    f"the order names '{unit}', which is not a unit. {suggest(unit, known, 'units')}"
                )
        missing = [unit for unit in units if unit not in order]
        if missing or len(set(order)) != len(order):
            raise MasterError(
                "the order must name every unit once"
                + (f"; missing: {', '.join(missing)}" if missing else f": {', '.join(self.order)}")
            )
        return order


@dataclass(frozen=True, slots=True)
class Sequenced:
    """Order and reactive inputs as they are given: what flattening makes of different couplings."""

    given: UnitSequence
    loops: LoopSolver
    outputs: Outputs = "solved"

    def blocks(self, wiring: Wiring) -> Blocks:
        return assemble(wiring, self, self.given)


def check_loops(loops: object, kind: str) -> None:
    """A loop solver is an object here; only settings (files, the arguments of `simulate`) know names."""
    checks.has(loops, "solve", f"loops of {kind}", f"{kind}(loops=up.Newton())")


def check_outputs(outputs: str) -> None:
    """What an output shows at a communication point is one of two things."""
    checks.choice(outputs, ("solved", "lagged"), "outputs")


def refuse_reactive(wiring: Wiring, who: str) -> None:
    """No input may expect the value at the end of the step from a coupling that does not know it."""
    names = [
        wiring.label(end)
        for unit in wiring.scenario.units
        for end in wiring.connected(unit)
        if wiring.port(end).reactive
    ]
    if names:
        raise MasterError(
            f"{', '.join(names)}: reactive inputs expect the value at the end of the step, which {who} "
            'coupling does not know. Use GaussSeidel() (in a file: coupling = "gauss_seidel").'
        )


def _reactive_inputs(wiring: Wiring, order: tuple[str, ...]) -> frozenset[End]:
    """The inputs that see the end of the step: all their sources go before them."""
    rank = {unit: position for position, unit in enumerate(order)}
    chosen: set[End] = set()
    for connection in wiring.scenario.connections:
        end = (connection.unit, connection.port)
        reactive = wiring.port(end).reactive
        late = [unit for unit, _ in connection.sources if rank[unit] >= rank[connection.unit]]
        if reactive and late:
            raise MasterError(
                f"{wiring.label(end)} is reactive: it expects the value at the end of the step, but its "
                f"source {' and '.join(map(wiring.called, late))} does not come before it in the order "
                f"{' → '.join(map(wiring.called, order))}."
            )
        if not late and reactive is not False and connection.sources:
            chosen.add(end)
    return frozenset(chosen)


def sweep(
    wiring: Wiring, sequence: UnitSequence, guesses: Mapping[End, Guess] | None = None
) -> list[Instruction]:
    """Every unit over the step. `guesses` are end values assumed for inputs that see no new ones yet."""
    order, reactive, known = sequence.order, sequence.reactive, guesses or {}
    instructions: list[Instruction] = []
    for unit in order:
        for end in wiring.connected(unit):
            if end in reactive or end in known:
                instructions += wiring.remember(end, guess=known.get(end))
            else:
                instructions += wiring.begin(end)
    for unit in order:
        for end in wiring.connected(unit):
            if end in reactive or end in known:
                instructions += wiring.interpolate(end, guess=known.get(end))
        instructions += wiring.advance(unit)
        if reactive:
            for end in wiring.outputs_of(unit):
                instructions += wiring.get(end)
    return instructions


class Exchange(NamedTuple):
    """What follows a sweep, what happens at the start, and what repeats an exchange from outside."""

    after: Block
    start: Block
    again: Block
    note: str


def exchange(wiring: Wiring, coupling: Jacobi | GaussSeidel | Sequenced, sequence: UnitSequence) -> Exchange:
    """Values read and handed on at a communication point, solved or lagged."""
    graph, reactive, finish = wiring.scenario.graph, sequence.reactive, wiring.finish()
    if coupling.outputs == "solved":
        start = (*begun(wiring, reactive, coupling.loops), *finish)
        stale = stale_outputs(wiring, reactive) if reactive else None
        after = (*settled(wiring, reactive, coupling.loops, stale), *finish)
        note = "outputs are solved: evaluated in dependency order with the inputs of the same instant"
        if graph.loops:
            note += f"; algebraic loops by {coupling.loops}"
        again = (*settled(wiring, reactive, coupling.loops), *finish)  # not `start`: loops go on from here
        return Exchange(after, start, again, note)
    targets = [end for unit in wiring.scenario.units for end in wiring.connected(unit)]
    sets = [i for end in targets if end not in reactive for i in wiring.extrapolate(end)]
    late = [] if reactive else [i for end in wiring.outputs for i in wiring.get(end)]
    own = [
        i for unit in wiring.scenario.added_units for end in wiring.outputs_of(unit) for i in wiring.get(end)
    ]
    note = "outputs are lagged: read after a step, they still reflect the inputs of that step"
    if graph.loops:
        note += "; the algebraic loops are broken by that delay and start from the inputs' start values"
    start = (*begun(wiring, reactive, None), *finish)
    # Inputs that a sweep takes care of, of units that events at one instant may concern before the next one.
    alert = [i for end in targets if end in reactive and wiring.reacts(end[0]) for i in wiring.hold(end)]
    return Exchange((*late, *sets, *finish), start, (*own, *sets, *alert, *finish), note)


def assemble(wiring: Wiring, coupling: Jacobi | GaussSeidel | Sequenced, sequence: UnitSequence) -> Blocks:
    """A sweep and an exchange, as blocks."""
    parts = exchange(wiring, coupling, sequence)
    notes = tuple(note for note in (sequence.note, parts.note) if note)
    return Blocks(parts.start, {"step": (*sweep(wiring, sequence), *parts.after)}, parts.again, notes=notes)
