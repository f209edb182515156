"""`Refined`: outputs, inputs and states each in their turn, so that no signal is late; and the older ways.

After Ben Khaled et al., "Fast multi-core co-simulation of Cyber-Physical Systems" (2014). At a communication
point, units with direct feedthrough want their inputs before they can tell their outputs. Looked at as
wholes, such units in a circle have no first one, so *modular* methods let some output reflect an input that
is one communication step old. Looked at port by port the circle mostly is none. All three methods are orders
of one exchange; states always advance with the newest inputs there are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from math import perm
from typing import Literal, NamedTuple, Protocol, get_args, runtime_checkable

from upbeat.core.abilities import Lagging
from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import ZERO, Cell, Expr, fold
from upbeat.core.expr.nodes import with_args
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.coupling import (
    Coupling,
    Jacobi,
    Part,
    UnitSequence,
    begun,
    check_loops,
    refuse_reactive,
    settled,
    sweep,
)
from upbeat.master.inputs.approximation import Hold, Place
from upbeat.master.loops import LoopSolver, Newton
from upbeat.master.port_registers import End, Interval
from upbeat.master.program import Block, Blocks, If, Instruction, Let, Repeat
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Graph

Method = Literal["refined", "sv", "ev"]
MAX_NAMES = 5
"""So many sources of an input are named."""


class Delay(NamedTuple):
    """An output that is computed with inputs of the communication point before."""

    output: End
    inputs: tuple[End, ...]


@dataclass(frozen=True, slots=True)
class Refined:
    """Every output and input in its turn (`method` "refined"), or whole units ("sv", "ev").

    * "refined": ports are evaluated in the order of their dependencies. No signal is delayed; real algebraic
      loops are solved by `loops`. Inputs in `delays` are exceptions that you ask for: outputs reflect what
      these were one communication step before, which also breaks loops.
    * "sv", standard modular: unit by unit. Those without direct feedthrough come first, then those whose
      outputs change slowly, then the rest. An input from a unit that comes later is one step old.
    * "ev", relaxed modular: units with direct feedthrough do not wait for each other at all. Any input that
      one of them has from another is one step old.

    The paper writes "R" for "refined", which may be written here, too.

    `changes` says how much the outputs of units change per step, relative to their size, for the order of
    "sv". Without it, it is measured in a short run before.
    """

    method: Method | Literal["R"] = "refined"
    delays: tuple[str, ...] = ()
    loops: LoopSolver = field(default_factory=Newton)
    changes: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.method, str) and self.method == "R":
            object.__setattr__(self, "method", "refined")
        checks.choice(self.method, get_args(Method), "method of Refined")
        listed = isinstance(self.delays, (list, tuple)) and all(isinstance(d, str) for d in self.delays)
        if not listed:
            raise MasterError(f'delays of Refined list inputs, such as ("load.torque",), not {self.delays!r}')
        object.__setattr__(self, "delays", tuple(self.delays))
        if self.delays and self.method != "refined":
            raise MasterError(
                f'delays are for the method "refined": "{self.method}" chooses by itself what is late'
            )
        if self.changes is not None:
            if not isinstance(self.changes, Mapping):
                raise MasterError(f'changes of Refined are such as {{"motor": 0.01}}, not {self.changes!r}')
            for unit, change in self.changes.items():
                checks.natural(change, f"the change of '{unit}'")
        check_loops(self.loops, "Refined")

    @property
    def wants_changes(self) -> bool:
        return self.method == "sv" and self.changes is None

    def with_changes(self, changes: Mapping[str, float]) -> Refined:
        """The same, told how much outputs change."""
        return replace(self, changes=changes)

    def blocks(self, wiring: Wiring) -> Blocks:
        refuse_reactive(wiring, "a Refined")
        units = list(wiring.scenario.units)
        for unit in self.changes or ():
            if unit not in units:
                raise MasterError(
                    f"changes name '{unit}', which is not a unit. {suggest(unit, units, 'units')}"
                )
        sequence = UnitSequence(tuple(units), frozenset())
        finish = tuple(wiring.finish())
        if self.method == "refined":
            late = frozenset(self._asked(wiring))
            graph = _opened(wiring, late)
            _refuse_lagging(wiring, late)
            part = Part(graph=graph, late=late)
            start = begun(wiring, (), self.loops, part)
            after = settled(wiring, (), self.loops, None, part)
            notes = [_order_note(wiring, graph, self.loops, delayed=bool(found_delays(wiring, late)))]
        else:
            order, why = self._order(wiring)
            after, late = _modular(wiring, order, relaxed=self.method == "ev")
            start = begun(wiring, (), None)  # nothing is late yet: there was no step before
            notes = [why]
        notes.append(_delay_note(wiring, found_delays(wiring, late)))
        exchange: Block = (*after, *finish)
        step = (*sweep(wiring, sequence), *exchange)
        return Blocks((*start, *finish), {"step": step}, exchange, notes=tuple(notes))

    def _asked(self, wiring: Wiring) -> list[End]:
        """The inputs that the user wants to be late."""
        known = {".".join(end): end for unit in wiring.scenario.units for end in wiring.connected(unit)}
        for name in self.delays:
            if name not in known:
                raise MasterError(
                    f"a delay is asked for '{name}', which is not a connected input. "
                    f"{suggest(name, known, 'connected inputs')}"
                )
        return [known[name] for name in self.delays]

    def _order(self, wiring: Wiring) -> tuple[list[str], str]:
        """The units as they take their turns, and why so."""
        units = list(wiring.scenario.units)
        direct = [unit for unit in units if direct_inputs(wiring, unit)]
        first = [unit for unit in units if unit not in direct]
        texts = dict.fromkeys(first, "no direct feedthrough")
        if self.method == "sv" and self.changes is None:
            texts |= dict.fromkeys(direct, "as declared: how much outputs change was not measured")
        elif self.changes is not None:
            rate = {unit: self.changes.get(unit, 0.0) for unit in direct}
            direct.sort(key=lambda unit: rate[unit])  # stable: declaration decides between equals
            texts |= {unit: f"outputs change by {100 * rate[unit]:.3g} % per step" for unit in direct}
        if self.method == "ev":
            names = ", ".join(map(wiring.called, direct)) or "none"
            return [
                *first,
                *direct,
            ], f"units with direct feedthrough that do not wait for each other: {names}"
        shown = [f"{wiring.called(u)} ({texts[u]})" for u in (*first, *direct) if u not in _hidden(wiring)]
        return [*first, *direct], f"units take turns: {' → '.join(shown)}"


def _hidden(wiring: Wiring) -> tuple[str, ...]:
    """Those of added units."""
    return wiring.scenario.added_units


@runtime_checkable
class Measured(Protocol):
    """A coupling that depends on how much the outputs of units change per step."""

    @property
    def wants_changes(self) -> bool:
        """Whether it has not been told."""
        ...

    def with_changes(self, changes: Mapping[str, float]) -> Coupling:
        """The same, told."""
        ...


def modular(coupling: Coupling) -> bool:
    """Whether whole units take turns, whatever their ports depend on."""
    return isinstance(coupling, Refined) and coupling.method != "refined"


def as_jacobi(coupling: Coupling) -> Coupling:
    """A refined coupling that delays nothing does what `Jacobi` does with solved outputs; others stay."""
    if isinstance(coupling, Refined) and coupling.method == "refined" and not coupling.delays:
        return Jacobi("solved", coupling.loops)
    return coupling


def direct_inputs(wiring: Wiring, unit: str) -> list[End]:
    """The connected inputs of a unit that some output depends on directly; without any: no feedthrough."""
    depended = {name for out in wiring.outputs_of(unit) for name in wiring.port(out).depends}
    return [end for end in wiring.connected(unit) if end[1] in depended]


def found_delays(wiring: Wiring, late: Collection[End]) -> list[Delay]:
    """The outputs that reflect an input of the communication point before, because it is handed on late."""
    found = []
    for output in wiring.outputs:
        old = tuple((output[0], name) for name in sorted(wiring.port(output).depends))
        if inputs := tuple(end for end in old if end in late):
            found.append(Delay(output, inputs))
    return found


def _opened(wiring: Wiring, late: Collection[End]) -> Graph:
    """The graph of the scenario without the connections that are late."""
    scenario = wiring.scenario
    if not late:
        return scenario.graph
    kept = [c for c in scenario.connections if (c.unit, c.port) not in late]
    return Graph(scenario.units, kept)


def _modular(wiring: Wiring, order: list[str], *, relaxed: bool) -> tuple[list[Instruction], frozenset[End]]:
    """One exchange, unit by unit; and the inputs that are handed on after the outputs of their unit."""
    sources = {(c.unit, c.port): set(c.sources) for c in wiring.scenario.connections}
    instructions: list[Instruction] = []
    known: set[End] = set()
    late: list[End] = []
    fed: list[str] = []
    for unit in order:
        if direct_inputs(wiring, unit):
            fed.append(unit)
            continue
        late += wiring.connected(unit)  # of no concern to its outputs
        for end in wiring.outputs_of(unit):
            instructions += wiring.get(end)
            known.add(end)
    for unit in fed:
        for end in wiring.connected(unit):
            if sources[end] <= known:
                instructions += wiring.extrapolate(end)
            else:
                late.append(end)
        for end in wiring.outputs_of(unit):
            instructions += wiring.get(end)
        if not relaxed:
            known.update(wiring.outputs_of(unit))
    for end in late:
        instructions += wiring.extrapolate(end)
    return instructions, frozenset(late)


def _refuse_lagging(wiring: Wiring, late: Collection[End]) -> None:
    """An output that others need at once must follow its unit's inputs before the next step."""
    used = {source for connection in wiring.scenario.connections for source in connection.sources}
    refused = []
    for unit, model in wiring.scenario.units.items():
        wanted = [end for end in direct_inputs(wiring, unit) if end not in late]
        passed = [end for end in wiring.outputs_of(unit) if end in used]
        if not isinstance(model, Lagging) or not wanted or not passed:
            continue
        lags = set(model.lags())
        refused += [
            (end, (unit, output))
            for end in wanted
            for output, name in sorted(lags)
            if name == end[1] and (unit, output) in used
        ]
    if refused:
        lines = [
            f"{wiring.label(output)} is declared to depend directly on {wiring.label(end)}, and others need "
            "it at once. But when this was tried, it followed only after the next step, as outputs of FMUs "
            "for co-simulation may."
            for end, output in refused
        ]
        asked = ", ".join(dict.fromkeys(f'"{".".join(end)}"' for end, _ in refused))
        raise MasterError(
            "\n".join(lines)
            + f"\nAccept that they are one step late with delays = [{asked}], use interface = "
            '"model-exchange" where the FMU offers it, or a coupling that does not wait for it (jacobi with '
            'outputs = "lagged").'
        )


def _order_note(wiring: Wiring, graph: Graph, loops: LoopSolver, *, delayed: bool) -> str:
    scenario, hidden = wiring.scenario, _hidden(wiring)
    units = [unit for unit in scenario.units if unit not in hidden]
    outputs = sum(len(wiring.outputs_of(unit)) for unit in units)
    inputs = sum(len(wiring.connected(unit)) for unit in units)
    note = (
        f"refined: {outputs} outputs, {inputs} inputs and {len(units)} states, each in its turn; inputs and "
        "outputs agree at every communication point"
    ) + (", but for the delays that are asked for" if delayed else "")
    return note + (f"; algebraic loops by {loops}" if graph.loops else "")


def _delay_note(wiring: Wiring, delays: Collection[Delay]) -> str:
    if not delays:
        return "no signal is delayed"
    sources = {(c.unit, c.port): c.sources for c in wiring.scenario.connections}
    texts = []
    for output, inputs in delays:
        origins = [wiring.label(source) for end in inputs for source in sources[end]]
        more = f" and {len(origins) - MAX_NAMES} more" if len(origins) > MAX_NAMES else ""
        old = f"{', '.join(map(wiring.label, inputs))} (from {', '.join(origins[:MAX_NAMES])}{more})"
        texts.append(f"{wiring.label(output)}, because {old} is of the step before")
    return f"delayed by one communication step: {'; '.join(texts)}"


# ----------------------------------------------------------------------------------------------------
# Slow signals seen at the ends of fast steps: for inputs that mix sources of several rates.


class Slow:
    """What an input gets from its slower sources at the end of each part of a communication step.

    Such an input is an expression that is computed after every fast step, when its slow sources are
    known at the ends of the whole one only. So each of these runs along a trajectory of its own, by the
    approximation of the input: towards the value at the end where that is known (`ahead`), from what was
    known at the start where it is not. The expression is then computed from its values on that trajectory.
    """

    def __init__(
        self, wiring: Wiring, end: End, sources: Sequence[End], part: Interval, *, ahead: bool, kept: bool
    ) -> None:
        """`kept`: the registers of the sources hold their values of the start until the step is over."""
        self.begin: list[Instruction] = []
        """At the start of the communication step."""
        self.known: list[Instruction] = []
        """Once the slower units have gone ahead."""
        self.sample: list[Instruction] = []
        """At the end of each part."""
        self.after: list[Instruction] = []
        """At every exchange between communication steps."""
        self._cells: dict[int, Expr] = {}
        self._targets = {let.to for let in wiring.compute(end) if isinstance(let, Let)}
        elapsed = Cell(part.next) - Cell(wiring.now)
        for source in sources:
            port, real = wiring.port(source), wiring.port(source).kind is Kind.REAL
            approximation = wiring.approximation(end) if real else Hold()
            if approximation == Hold() and (ahead or kept):
                continue  # its register says it already
            if wiring.outputs[source] in self._cells:
                continue  # a derivative of one that came before
            chain = [wiring.outputs[source]]
            derivative, unsure = port.derivative, False
            while len(chain) <= approximation.derivatives and (source[0], derivative) in sources:
                chain.append(wiring.outputs[source[0], str(derivative)])
                rate = wiring.port((source[0], str(derivative)))
                derivative, unsure = rate.derivative, unsure or rate.extra
            name = f"{wiring.label(end)} from {wiring.label(source)}"
            known = tuple(chain)
            if not ahead:
                new = wiring.registers.new
                known = tuple(new(f"{name}{'′' * k}", port.kind, port.cells) for k in range(len(chain)))
                self.after += [
                    Let(to + i, Cell(s + i))
                    for to, s in zip(known, chain, strict=True)
                    for i in range(port.cells)
                ]
            place = Place(
                name, port.kind, port.cells, known, known, wiring.now, wiring.next, unsure,
                counts=wiring.counts(end), counts_ahead=wiring.counts(end), within=wiring.within(end),
            )  # fmt: skip
            method = approximation.interpolate if ahead else approximation.extrapolate
            trajectory = method(place, wiring.registers)
            wiring.track(end, trajectory)
            self.begin += trajectory.early
            late = self.known if ahead else self.begin if trajectory.at_start else self.after
            late += trajectory.late
            if trajectory.near is not None:
                self.begin.append(If(trajectory.near, trajectory.again))
            for k, original in enumerate(chain):
                at = wiring.registers.new(f"{name}′now{'′' * k}", size=port.cells)
                for i in range(port.cells):
                    coefficients: list[Expr] = [Cell(register + i) for register in trajectory.by]
                    self.sample.append(Let(at + i, _derivative(coefficients, k, elapsed)))
                    self._cells.setdefault(original + i, Cell(at + i))

    def seen(self, block: Sequence[Instruction]) -> Block:
        """The block, with the input computed from the slow values of that time."""
        return tuple(self._seen(instruction) for instruction in block)

    def _seen(self, instruction: Instruction) -> Instruction:
        match instruction:
            case Let(to, value) if to in self._targets:
                return Let(to, fold(value, self._leaf, with_args))
            case Repeat(body=body):
                return replace(instruction, body=self.seen(body))
            case If(condition, then, orelse):
                return If(condition, self.seen(then), self.seen(orelse))
            case _:
                return instruction

    def _leaf(self, leaf: Expr) -> Expr:
        return self._cells.get(leaf.index, leaf) if isinstance(leaf, Cell) else leaf


def _derivative(coefficients: Sequence[Expr], order: int, elapsed: Expr) -> Expr:
    """The value of a polynomial, or of a derivative of it."""
    value: Expr = ZERO
    for power in range(len(coefficients) - 1, order - 1, -1):
        term = coefficients[power] * float(perm(power, order)) if order else coefficients[power]
        value = term if value is ZERO else value * elapsed + term
    return value


def mixed(
    wiring: Wiring, over: Mapping[End, Interval], rates: Mapping[str, int], ahead: bool
) -> dict[End, Slow]:
    """For the inputs in `over`, which take part in fast steps, what they get from slower sources."""
    found: dict[End, Slow] = {}
    for connection in wiring.scenario.connections:
        end = (connection.unit, connection.port)
        if end not in over:
            continue
        slow = [source for source in connection.sources if rates[source[0]] < rates[connection.unit]]
        if slow:
            sees = ahead and wiring.port(end).reactive is not False
            found[end] = Slow(wiring, end, slow, over[end], ahead=sees, kept=not ahead)
    return found


def of_units(found: Mapping[End, Slow], units: Collection[str]) -> list[Slow]:
    """Those of some units' inputs."""
    return [slow for end, slow in found.items() if end[0] in units]
