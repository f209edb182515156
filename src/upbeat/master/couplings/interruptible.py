"""Interruption: one unit goes first and stops at the events it finds, and the others follow to it.

No unit is ever set back. After D. Dejaco and M. Benedikt, "A Novel Approach for Handling Discontinuities in
Non-iterative Co-simulation": there for two units, here for any number of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from math import inf, sqrt
from typing import ClassVar, NamedTuple

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import ONE, ZERO, Cell, Expr, Name, Number, Op, any_of, apply
from upbeat.core.names import split
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.coupling import (
    Jacobi,
    Outputs,
    UnitSequence,
    check_loops,
    check_outputs,
    exchange,
    refuse_reactive,
)
from upbeat.master.events.conditions import NEVER, WIDTH, Ahead, Parabola, Watch, followed, jumps
from upbeat.master.inputs.approximation import is_held
from upbeat.master.loops import LoopSolver, Newton
from upbeat.master.port_registers import End
from upbeat.master.program import Blocks, If, Instruction, Let, Recordable, Reg, Set
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.functions import computes_conditions
from upbeat.scenario.events.watcher import named, observed_events, watchers
from upbeat.scenario.graph import unit_order
from upbeat.scenario.scenario import Scenario, located, with_stops
from upbeat.units.equations.ode import equations_of
from upbeat.units.process import bare

# ----------------------------------------------------------------------------------------------------
# Who may go first: units that stop at events, and which events these are.

BELIEVED = 1e-6
"""Where an indicator has come down to this part of what it was, who says that it is zero is believed."""
ANY = Number(sys.float_info.max)


class Leader(NamedTuple):
    """A unit that may go first: whether it has events of its own, whether these can be predicted, and by
    which input it is told to watch for those of the scenario."""

    unit: str
    own: bool
    expected: bool
    watching: str | None


def leaders_of(wiring: Wiring, allowed: tuple[str, ...] | None) -> list[Leader]:
    """Who may go first, of those that are `allowed` (None: all); without these, those come first that have
    events of their own."""
    units = [unit for unit in wiring.scenario.units if unit not in wiring.scenario.added_units]
    for unit in allowed or ():
        if unit not in units:
            hint = suggest(unit, units, "units")
            raise MasterError(f"leader of Interruptible names '{unit}', which is not a unit. {hint}")
    watching = _watching(wiring.scenario)
    found = [
        Leader(u, _stops_by_itself(wiring, u), bool(_inside(wiring, u)), watching.get(u))
        for u in allowed or units
    ]
    unable = [leader.unit for leader in found if not (leader.own or leader.watching)]
    if allowed is not None and unable:
        raise MasterError(
            f"leader of Interruptible names '{unable[0]}', which cannot stop at an event: it has none of its "
            "own, and is no unit of equations that an event of the scenario is about."
        )
    able = [leader for leader in found if leader.own or leader.watching]
    if not able:
        raise MasterError(
            "Interruptible lets a unit stop where it finds an event, and no unit can: none has events of its "
            "own, and no event of the scenario is about a unit of equations (ode)"
            f"{_functions(wiring.scenario)}. Take another coupling, "
            "such as GaussSeidel(); the pace LookAhead sees events of the scenario coming."
        )
    return able if allowed is not None else sorted(able, key=lambda leader: leader.expected or not leader.own)


def _functions(scenario: Scenario) -> str:
    """About conditions that are Python functions, if there are any."""
    there = any(map(computes_conditions, scenario.units.values()))
    return " in an expression: what a Python function says, a solver cannot locate" if there else ""


def _watching(scenario: Scenario) -> dict[str, str]:
    """The inputs by which units are told to watch for events."""
    found: dict[str, str] = {}
    for sender in (sender for senders in located(scenario).values() for sender in senders):
        unit, port = sender
        equations = equations_of(bare(scenario.units[unit]))
        assert equations is not None
        for event in equations.events:
            for sending in event.emit:
                if sending.port.name == port and isinstance(sending.present, Name):
                    found[unit] = sending.present.id
    return found


def able_to(name: str, wiring: Wiring, leaders: list[Leader]) -> list[int]:
    """The numbers of those who can locate an event."""
    senders = located(wiring.scenario)
    units = {
        unit
        for (watcher, event), ends in senders.items()
        if wiring.scenario.column(watcher, event) == name
        for unit, _ in ends
    }
    units |= {leader.unit for leader in leaders if name in _inside(wiring, leader.unit)}
    return [k for k, leader in enumerate(leaders, 1) if leader.unit in units]


def deciding(name: str, wiring: Wiring, leaders: list[Leader], able: list[int]) -> list[list[int]]:
    """For each condition of an event, the numbers of those `able` ones it is about: who goes first sees what
    is its own exactly, and what it assumes of others not at all where inputs are held. All, if it is about
    none of them."""
    found: list[list[int]] = []
    for observed in observed_events(wiring.scenario):
        if wiring.scenario.column(*observed.place) == name:
            abouts = [named((z,)) for z in observed.conditions]
            found = [[k for k in able if leaders[k - 1].unit in about] or able for about in abouts]
    return found


def hidden(wiring: Wiring, leaders: list[Leader]) -> list[str]:
    """What those who may go first cannot see change, because their inputs are held."""
    found: dict[str, None] = {}
    driven = {(c.unit, cell): c.port for c in wiring.scenario.connections for cell in c.cells[:1]}
    for observed in observed_events(wiring.scenario):
        read = observed.reads
        for leader in (leader for leader in leaders if leader.watching):
            if all(split(each)[0] != leader.unit for each in read):
                continue
            ends = {each: driven.get((leader.unit, Name(each))) for each in read}
            held = [e for e, port in ends.items() if port and _is_held(wiring, leader.unit, port)]
            if held:
                who, what = wiring.called(leader.unit), wiring.scenario.column(*observed.place)
                found[
                    f"{who} does not see {', '.join(held)} change within a step, since its inputs are held: "
                    f"where it goes first, '{what}' may be found late. Take other inputs, such as "
                    'inputs="hermite"'
                ] = None
    return list(found)


def _is_held(wiring: Wiring, unit: str, port: str) -> bool:
    real = wiring.port((unit, port)).kind is Kind.REAL
    return real and is_held(wiring.approximation((unit, port)))


def believed(wiring: Wiring, watch: Watch, jumped: Reg, *, always: bool) -> list[Instruction]:
    """At the start of a step: how far above zero an indicator may be where a unit says that it has located
    the event. That is a small part of the most it has been since something jumped; `always`: any number.

    Compared to the last value alone, one whose inputs are held would come closer and closer for ever.
    """
    places = dict(zip(watch.names, watch.places, strict=True))
    found: list[Instruction] = []
    for unit, watcher in watchers(wiring.scenario.units).items():
        for event, port in watcher.limits:
            limit = wiring.inputs[unit, port]
            if not always:
                largest = wiring.registers.new(wiring.registers.unique(f"{unit}.{event}′most"))
                cells: list[Expr] = [
                    Cell(watch.first + WIDTH * k) for k in places[wiring.scenario.column(unit, event)]
                ]
                z = reduce(lambda a, b: apply(Op.MAX, a, b), cells)
                found.append(
                    Let(largest, apply(Op.MAX, z, apply(Op.WHERE, Cell(jumped), ZERO, Cell(largest))))
                )
            found += [Let(limit, ANY if always else BELIEVED * Cell(largest)), Set(unit, port, (limit,))]
    return found


def _inside(wiring: Wiring, unit: str) -> set[str]:
    """The events inside a unit whose conditions it gives out, by what `own_conditions` calls them."""
    ports = wiring.scenario.units[unit].ports
    return {f"{wiring.called(unit)}.{port.indicates}" for port in ports if port.indicates}


def _stops_by_itself(wiring: Wiring, unit: str) -> bool:
    """Whether a unit has events of its own, at which it stops."""
    model = wiring.scenario.units[unit]
    if Ability.EARLY_RETURN not in model.abilities:
        return False
    equations = getattr(bare(model), "equations", None)
    if equations is None:
        return True
    reported = {port for ends in located(wiring.scenario).values() for owner, port in ends if owner == unit}
    found = [event for event in equations.events if event.indicator is not None]
    return any(reported.isdisjoint(sending.port.name for sending in event.emit) for event in found)


# ----------------------------------------------------------------------------------------------------
# A step in which one unit goes first, as far as it goes, and all others follow to there.


def sweep(
    wiring: Wiring, order: tuple[str, ...], leaders: list[Leader], first: Reg, quiet: Reg | None
) -> list[Instruction]:
    """The leader, as far as it goes; then all others to there."""
    number = {leader.unit: k for k, leader in enumerate(leaders, 1)}
    sees = _sees(wiring, order, number, first)
    found: list[Instruction] = []
    for unit in order:
        for end in wiring.connected(unit):
            found += wiring.begin(end)
            found += wiring.remember(end) if end in sees else []
    for leader in leaders:
        if leader.watching is None:
            continue
        watch_for = wiring.inputs[leader.unit, leader.watching]
        leads: Expr = _is(first, number[leader.unit])
        if quiet is not None:
            leads = apply(Op.AND, leads, apply(Op.NOT, Cell(quiet)))
        found += [Let(watch_for, leads), Set(leader.unit, leader.watching, (watch_for,))]
    reads = {unit: [i for end in wiring.outputs_of(unit) for i in wiring.get(end)] for unit in order}
    for unit, k in number.items():
        goes = [*wiring.advance(unit, early=True), Let(wiring.next, Cell(wiring.reached(unit))), *reads[unit]]
        found.append(If(_is(first, k), tuple(goes)))
    for unit in order:
        block: list[Instruction] = []
        for end in (end for end in wiring.connected(unit) if end in sees):
            block.append(If(sees[end], tuple(wiring.interpolate(end))))
        block += [*wiring.advance(unit), *reads[unit]]
        found += [If(apply(Op.NOT, _is(first, number[unit])), tuple(block))] if unit in number else block
    return found


def _sees(wiring: Wiring, order: tuple[str, ...], number: Mapping[str, int], first: Reg) -> dict[End, Expr]:
    """When an input of a unit that follows sees the end of the step: all its sources have gone before."""
    rank = {unit: place for place, unit in enumerate(order)}
    looking = watchers(wiring.scenario.units)
    found: dict[End, Expr] = {}
    for connection in wiring.scenario.connections:
        end = (connection.unit, connection.port)
        if connection.unit in looking or wiring.port(end).reactive is False or not connection.sources:
            continue
        late = {unit for unit, _ in connection.sources if rank[unit] >= rank[connection.unit]}
        if not late:
            found[end] = apply(Op.GT, Cell(first), Number(0.0))
        elif len(late) == 1 and connection.unit not in late and late <= number.keys():
            found[end] = _is(first, number[next(iter(late))])
    return found


def _is(register: Reg, number: int) -> Expr:
    return apply(Op.EQ, Cell(register), Number(float(number)))


# ----------------------------------------------------------------------------------------------------
# Who goes first: the instructions that predict events and choose the unit that locates the next one.
#
# A condition is continued from what is known of it now: along the straight line by its rate where that is
# known, else through its last two values; where its second derivative is known, along a parabola, too. An
# event is expected where the largest of its conditions falls to zero (`upbeat.master.events.conditions`).
# Lines and parabolas give two times for it, of which the earlier counts: who goes first for nothing has
# lost little, who goes second meets the event unprepared.


@dataclass(frozen=True, slots=True)
class Choice:
    """Registers: who leads, counted from 1, and who goes first in this step (0: none)."""

    lead: Reg
    first: Reg


def choice(wiring: Wiring) -> Choice:
    """The registers of a choice; number 1 leads in the beginning."""
    lead = wiring.registers.new("lead", Kind.INTEGER, start=(1,))
    return Choice(lead, wiring.registers.new("goes first", Kind.INTEGER))


class Candidates(NamedTuple):
    """Who may go first: `able` are the numbers of those that can locate each event, `deciding` those that
    each of its conditions is about. Where no event is expected, number `otherwise` leads (None: who has led
    before), or, with `parallel`, none."""

    able: Sequence[Sequence[int]]
    deciding: Sequence[Sequence[Sequence[int]]]
    otherwise: int | None
    parallel: bool


def chosen(
    wiring: Wiring, choice: Choice, watch: Watch, candidates: Candidates, ahead: float, jumped: Reg
) -> list[Instruction]:
    """Fill in `choice` at the start of a step.

    The leader goes on leading, unless the first event that is expected within `ahead` steps is
    none of its own, or the condition of it that falls last is not. There is a leader also in a step of which
    too little is known, because something has `jumped` or conditions have been seen once only.

    An event that is not above zero now has happened already. If it is expected again, the step ends between
    its rise and its fall, so that everybody sees it above zero before.
    """
    able, deciding, otherwise, parallel = candidates
    predicted = _Predicted(wiring, watch, ahead)
    lets, lead = predicted.lets, Cell(choice.lead)
    soonest = wiring.registers.new("leading′soonest")
    who = wiring.registers.new("leading′who", Kind.INTEGER)
    lets += [Let(soonest, NEVER), Let(who, lead if otherwise is None else Number(float(otherwise)))]
    for when, last, units, deciders in zip(predicted.times, predicted.lasts, able, deciding, strict=True):
        if not units:
            continue
        best = _best(lead, units)
        for i, some in enumerate(deciders):
            if list(some) != list(units):
                best = apply(Op.WHERE, apply(Op.EQ, Cell(last), Number(float(i))), _best(lead, some), best)
        sooner = apply(Op.LT, Cell(when), Cell(soonest))
        lets += [
            Let(who, apply(Op.WHERE, sooner, best, Cell(who))),
            Let(soonest, apply(Op.MIN, Cell(when), Cell(soonest))),
        ]
    lets.append(Let(choice.lead, Cell(who)))
    lets.append(Let(wiring.next, apply(Op.MIN, Cell(wiring.next), Cell(wiring.now) + Cell(predicted.pause))))
    alone = any_of([apply(Op.LT, Cell(soonest), NEVER), Cell(jumped), *predicted.blind])
    lets.append(Let(choice.first, apply(Op.WHERE, alone, lead, ZERO) if parallel else lead))
    return [*lets, *predicted.after]


def _best(lead: Expr, units: Sequence[int]) -> Expr:
    """Who leads, if it is one of these; else the first of them."""
    stays = any_of([apply(Op.EQ, lead, Number(float(k))) for k in units])
    return apply(Op.WHERE, stays, lead, Number(float(units[0])))


class _Predicted:
    """For each event, a register with the time until it is expected (infinity: not so soon), and one with the
    number of the condition that falls last.

    `pause` is where the step is to end for events that must be seen above zero first, `blind` says whether
    rates are unknown, and `after` is to be done when all this has been used.
    """

    def __init__(self, wiring: Wiring, watch: Watch, ahead: float) -> None:
        self._wiring = wiring
        self._watch = watch
        self.times: list[Reg] = []
        self.lasts: list[Reg] = []
        self.blind: list[Expr] = []
        self.after: list[Let] = []
        new = wiring.registers.new
        self._before = new("leading′before", size=max(1, len(watch.orders)))
        self._since = new("leading′since", start=(-inf,))
        self.pause = new("leading′pause")
        self.lets = [Let(self.pause, NEVER)]
        if 0 in watch.orders:
            since = apply(Op.WHERE, Cell(watch.jumped), Number(-inf), Cell(self._since))
            self.lets.append(Let(self._since, since))
            self.blind.append(apply(Op.EQ, Cell(self._since), Number(-inf)))
        fall = Ahead(wiring.registers, "leading", max(watch.counts, default=1))
        at, which = Cell(fall.at), Cell(fall.last)
        within = ahead * (Cell(wiring.next) - Cell(wiring.now))
        for name, places in zip(watch.names, watch.places, strict=True):
            when, last = new(f"leading′of {name}"), new(f"leading′of {name}′last")
            for curved in (False, True) if any(watch.orders[k] > 1 for k in places) else (False,):
                self.lets += fall.falls([self._continued(k, curved) for k in places])
                found = apply(Op.WHERE, apply(Op.LE, at, within), at, NEVER)
                middle = 0.5 * (Cell(fall.since) + at)
                pause = apply(Op.WHERE, Cell(fall.above), NEVER, middle)
                sooner = apply(Op.LT, found, Cell(when))
                self.lets += [
                    Let(last, apply(Op.WHERE, sooner, which, Cell(last)) if curved else which),
                    Let(when, apply(Op.MIN, Cell(when), found) if curved else found),
                    Let(self.pause, apply(Op.MIN, Cell(self.pause), pause)),
                ]
            self.times.append(when)
            self.lasts.append(last)
        if 0 in watch.orders:
            self.after = [
                Let(self._before + k, Cell(watch.first + WIDTH * k))
                for k, order in enumerate(watch.orders)
                if order == 0
            ]
            self.after.append(Let(self._since, Cell(wiring.now)))

    def _continued(self, k: int, curved: bool) -> Parabola:
        """How a condition goes on."""
        at, order = self._watch.first + WIDTH * k, self._watch.orders[k]
        z: Expr = Cell(at)
        if order == 0:
            length = Cell(self._wiring.now) - Cell(self._since)
            known = apply(Op.GT, Cell(self._since), Number(-inf))
            rate = apply(Op.WHERE, known, (z - Cell(self._before + k)) / length, ZERO)
            return Parabola(z, rate, ZERO)
        return Parabola(z, Cell(at + 1), 0.5 * Cell(at + 2) if curved and order > 1 else ZERO)


# ----------------------------------------------------------------------------------------------------

PART = 1e-3
"""The part of a step that the one after an event is, if nothing else is known."""
NEAR = 0.1
"""What is a much shorter step than others."""
COLUMN = "leader"
"""What a trace calls the signal that says who went first in the step that ends there."""
NO_LEADER = "(none)"


@dataclass(frozen=True, slots=True)
class Interruptible:
    """The unit that finds the next event goes first and stops there; all others follow to it.

    The leader has extrapolated inputs. Those that follow know what it has reached, and what those
    before them have, as in a `GaussSeidel` coupling. Events of the scenario that a unit has a part in are
    located by its own solver (it must be an `Ode`), and happen at that time in all units at once. A unit with
    events of its own stops at these, too; so do FMUs that return early. What was not seen happens when
    units communicate, and late.

    `leader` says who may go first: "auto", all that can; a unit; or a list of them. At the start of each step
    events are expected from the rates of their conditions, for `forecast` steps to come. The unit goes first
    that can locate the first of them: the one of the step before, if it can. Where none is expected, all
    units go side by side on extrapolated inputs, unless `parallel` is off, one unit was told to go first,
    or an event has just happened. But the events inside a unit that is no `Ode` cannot be predicted: the
    first such unit goes first then.

    After an event inputs need two points for a straight line, so that the first step after it is as short as
    `interruption`. It is 0 (that step is as long as any) where inputs know their derivatives or are held;
    otherwise, if it is not given, it comes from the solvers of the units. `outputs` and `loops` are those of
    `Jacobi`.
    """

    leader: str | tuple[str, ...] = "auto"
    parallel: bool = True
    forecast: float = 2.0
    interruption: float | None = None
    outputs: Outputs = "solved"
    loops: LoopSolver = field(default_factory=Newton)

    ends_early: ClassVar[bool] = True
    locates: ClassVar[bool] = True
    derivatives: ClassVar[int] = 2
    """Of conditions."""
    symbolic: ClassVar[bool] = True
    """They may come from the equations of units."""
    inside: ClassVar[bool] = True
    """It follows the conditions of events inside units, too."""

    def __post_init__(self) -> None:
        given = (self.leader,) if isinstance(self.leader, str) else self.leader
        if not isinstance(given, (list, tuple)) or not given or not all(isinstance(u, str) for u in given):
            raise MasterError(
                f'leader of Interruptible must be "auto", a unit, or a list of units, not {self.leader!r}'
            )
        if not isinstance(self.leader, str):
            object.__setattr__(self, "leader", tuple(given))
        checks.flag(self.parallel, "parallel of Interruptible")
        if checks.positive(self.forecast, "forecast of Interruptible") < 1.0:
            raise MasterError(f"forecast of Interruptible must be at least 1, not {self.forecast!r}")
        if self.interruption is not None:
            checks.natural(self.interruption, "interruption of Interruptible")
        check_outputs(self.outputs)
        check_loops(self.loops, "Interruptible")

    def arranged(self, closed: Scenario) -> Scenario:
        """The scenario in which the units that may go first stop at the events they have a part in."""
        return with_stops(closed, lambda unit: self._allowed is None or unit in self._allowed)

    @property
    def _allowed(self) -> tuple[str, ...] | None:
        if self.leader == "auto":
            return None
        return (self.leader,) if isinstance(self.leader, str) else self.leader

    @property
    def _parallel(self) -> bool:
        """Whether units go side by side at times: not where one has been told to go first."""
        return self.parallel and (self._allowed is None or len(self._allowed) > 1)

    # ---------------------------------------------------------------- the program

    def blocks(self, wiring: Wiring) -> Blocks:
        leaders = leaders_of(wiring, self._allowed)
        refuse_reactive(wiring, "an Interruptible")
        order = unit_order(wiring.scenario)
        parts = exchange(wiring, Jacobi(self.outputs, self.loops), UnitSequence(order, frozenset()))
        wanted = wiring.registers.new("interruptible′wanted")
        begins = Let(wanted, Cell(wiring.next))
        plain = Blocks(parts.start, {"step": (begins,)}, parts.again)
        made = followed(plain, wiring, self.derivatives)
        blocks, watch = made[:2] if made is not None else (plain, Watch())
        able = [able_to(name, wiring, leaders) for name in watch.names]
        deciders = [deciding(name, wiring, leaders, k) for name, k in zip(watch.names, able, strict=True)]
        picked = choice(wiring)
        jumped, begin, end, after = jumps(wiring, wiring.outputs)
        blocks = replace(
            blocks,
            start=(*blocks.start, *begin, *end),
            steps={"step": (*begin, *blocks.steps["step"], *end)},
            exchange=(*blocks.exchange, *after),
        )
        quiet, wait, why = self._quiet(wiring, jumped)
        own = next((k for k, leader in enumerate(leaders, 1) if leader.own and not leader.expected), None)
        parallel = self._parallel and own is None
        step = [*wait, *believed(wiring, watch, jumped, always=self.outputs == "lagged")]
        candidates = Candidates(able, deciders, own, parallel)
        step += chosen(wiring, picked, watch, candidates, self.forecast, jumped)
        stops = wiring.registers.new("interruptible′stops")
        step.append(Let(wanted, Cell(wiring.next)))
        step += sweep(wiring, order, leaders, picked.first, quiet)
        sooner = apply(Op.LT, Cell(wiring.next), Cell(wanted))
        step.append(Let(stops, apply(Op.WHERE, sooner, Cell(picked.first), ZERO)))
        if quiet is None:
            fresh = wiring.registers.new("interruptible′fresh", Kind.BOOLEAN)
            step = [Let(fresh, Cell(jumped)), *step, *_restarted(wiring, fresh)]
        around = blocks.steps["step"]
        place = around.index(begins) + 1
        called = tuple(wiring.called(leader.unit) for leader in leaders)
        return replace(
            blocks,
            steps={"step": (*around[:place], *step, *parts.after, *around[place:])},
            notes=(*self._notes(wiring, leaders, watch, able, own), why, parts.note),
            columns={COLUMN: Recordable(picked.first, items=(NO_LEADER, *called))},
            stops=Recordable(stops, items=called),
        )

    def _quiet(self, wiring: Wiring, jumped: Reg) -> tuple[Reg | None, list[Instruction], str]:
        """A register that says whether this is the short step after an event, how it is made one, and why."""
        length, why = self._interruption(wiring)
        if length == 0.0:
            return None, [], f"the step after an event is as long as any: {why}"
        quiet = wiring.registers.new("interruptible′quiet", Kind.BOOLEAN)
        now, until = Cell(wiring.now), Cell(wiring.next)
        end: Expr = now + (length if length is not None else PART * (until - now))
        room = apply(Op.GT, until - now, 2.0 * length) if length is not None else ONE
        instructions: list[Instruction] = [
            Let(quiet, apply(Op.AND, Cell(jumped), room)),
            Let(wiring.next, apply(Op.WHERE, Cell(quiet), end, until)),
        ]
        how = f"{length:g} long" if length is not None else f"{PART:g} of a step long"
        return quiet, instructions, f"the step after an event is {how}: {why}"

    def _interruption(self, wiring: Wiring) -> tuple[float | None, str]:
        """How long the step after an event is (None: a part of what was asked), and why."""
        if self.interruption is not None:
            return float(self.interruption), "as it was given"
        ends = [end for unit in wiring.scenario.units for end in wiring.connected(unit)]
        lines = [wiring.approximation(end) for end in ends]
        if all(line.derivatives > 0 or is_held(line) for line in lines):
            return 0.0, "inputs know their derivatives, or are held"
        found: list[tuple[float, str]] = []
        for unit, model in wiring.scenario.units.items():
            equations = equations_of(bare(model))
            solver = getattr(bare(model), "solver", None) if equations and equations.states else None
            step, tolerance = getattr(solver, "step", None), getattr(solver, "rtol", None)
            if step is not None:
                found.append(
                    (step, f"inputs need two points, and {wiring.called(unit)} takes steps of {step:g}")
                )
            elif tolerance is not None:
                about = f"{wiring.called(unit)} is accurate to {tolerance:g}"
                found.append((sqrt(tolerance), f"inputs need two points, and {about}"))
        return max(found) if found else (None, "inputs need two points")

    def _notes(
        self, wiring: Wiring, leaders: list[Leader], watch: Watch, able: list[list[int]], own: int | None
    ) -> list[str]:
        """Who may go first, and why."""
        found = []
        for k, leader in enumerate(leaders, 1):
            located = [f"'{name}'" for name, units in zip(watch.names, able, strict=True) if k in units]
            what = ["events of its own"] if leader.own and not leader.expected else []
            what += [f"the event{'s' if len(located) > 1 else ''} {', '.join(located)}"] if located else []
            found.append(f"{wiring.called(leader.unit)} may go first: it locates {' and '.join(what)}")
        for name, units in zip(watch.names, able, strict=True):
            if not units:
                found.append(
                    f"no unit that may go first can locate '{name}': it is noticed when units communicate"
                )
        found += hidden(wiring, leaders)
        if own is not None:
            found.append(
                f"where no event is expected {wiring.called(leaders[own - 1].unit)} goes first, because "
                "its own events cannot be predicted"
            )
        elif self._parallel:
            found.append("where no event is expected all units go side by side")
        return found


def _restarted(wiring: Wiring, fresh: Reg) -> list[Instruction]:
    """After an event and a step that was much shorter than others, trajectories of inputs begin once more.

    Polynomials through two points say nothing about a time that is far away, compared to their distance.
    """
    usual = wiring.registers.new("interruptible′usual")
    length = Cell(wiring.next) - Cell(wiring.now)
    tiny = apply(Op.AND, Cell(fresh), apply(Op.LT, length, NEAR * Cell(usual)))
    restarts = tuple(let for history in wiring.histories for let in history.restart)
    return [If(tiny, restarts), Let(usual, apply(Op.MAX, length, 0.5 * Cell(usual)))]
