"""The master: coupling × pace × input approximation, and the program they make of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from upbeat.core.errors import MasterError, suggest
from upbeat.core.names import HIDDEN
from upbeat.core.ports import Causality, Kind
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.master import checks
from upbeat.master.checks import Events
from upbeat.master.couplings.coupling import Coupling, Jacobi, unknowns
from upbeat.master.events.conditions import with_indicators, with_own_events
from upbeat.master.events.instants import Instants, Simultaneous, idle, instants, without
from upbeat.master.handling import beyond_tolerance, handled, jumping, noticed_late, sinking
from upbeat.master.held import (
    check_abilities,
    check_rates,
    held_crossings,
    held_inputs,
    lost_between,
    too_quick,
    unlocated,
    unshared_stops,
    without_rate,
)
from upbeat.master.inputs.approximation import Approximation, Hold
from upbeat.master.inputs.derivatives import (
    fallen,
    fitted,
    grown,
    rates_fed,
    with_derivative_sources,
    with_rates,
    with_states,
)
from upbeat.master.paces.pace import (
    Fixed,
    Follows,
    LooksAtStates,
    Pace,
    Written,
    nominal_step,
    plain,
    retries,
    written,
)
from upbeat.master.paces.watching import BURST, allowance
from upbeat.master.paces.wrapping import block_names, follower
from upbeat.master.port_registers import PortRegisters
from upbeat.master.program import (
    Advance,
    Block,
    Blocks,
    Budget,
    Jump,
    Pacing,
    Program,
    Recordable,
    Reg,
    Restore,
    Save,
    walk,
)
from upbeat.master.registers import Steps
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.functions import computes_conditions
from upbeat.scenario.events.watcher import looked_at, waiting, waits, watchers, with_waits
from upbeat.scenario.scenario import Scenario

if TYPE_CHECKING:
    from upbeat.master.events.leaving import Leaving
    from upbeat.master.events.monitors import Monitors
    from upbeat.scenario.structures import Stage


@dataclass(frozen=True)
class Master:
    """Everything about a run that is not the scenario. Frozen settings, no behaviour of their own.

    `ports` gives single inputs an approximation of their own, by name ``unit.port``; `simultaneous` says who
    goes first where several units have events at one instant. `events` says how events between units are
    dealt with: None, as pace and coupling do; "auto", by the best that the units allow; "look_ahead",
    "revised" or "interruptible", in this way; "off", not at all (see `settled`). A coupling or inputs of None
    are left open: `Jacobi()` and `Hold()`, or what "auto" chooses.
    """

    pace: Pace
    coupling: Coupling | None = None
    inputs: Approximation | None = None
    ports: Mapping[str, Approximation] = field(default_factory=dict)
    simultaneous: Simultaneous = field(default_factory=Simultaneous)
    events: Events | None = None
    why: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What was chosen for `events`, and why: filled in by `settled`."""
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What could not be chosen well, and what to do: filled in by `settled`."""
    drift: float = field(default=0.0, compare=False, repr=False)
    """By what part of its size a step puts the motion off, as far as that was estimated by `settled`."""

    def __post_init__(self) -> None:
        fixed = f"up.Fixed({self.pace!r})" if isinstance(self.pace, (int, float)) else "up.Fixed(0.01)"
        checks.pace(self.pace, "the pace of a Master", fixed)
        checks.has(self.coupled, "blocks", "the coupling of a Master", "up.Jacobi()")
        checks.has(self.approximated, "extrapolate", "the inputs of a Master", "up.Linear()")
        if not isinstance(self.ports, Mapping):
            raise MasterError(f'ports of a Master are such as {{"left.F": up.Linear()}}, not {self.ports!r}')
        for name, chosen in self.ports.items():
            checks.has(chosen, "extrapolate", f"the approximation of '{name}'", "up.Linear()")
        if not isinstance(self.simultaneous, Simultaneous):
            raise MasterError(
                f'simultaneous of a Master is such as up.Simultaneous(("a", "b")), not {self.simultaneous!r}'
            )
        checks.events(self.events)

    @property
    def coupled(self) -> Coupling:
        """The coupling; the usual one where it was left open."""
        return self.coupling if self.coupling is not None else Jacobi()

    @property
    def approximated(self) -> Approximation:
        """What inputs do that have nothing of their own; the usual where it was left open."""
        return self.inputs if self.inputs is not None else Hold()

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The free inputs that the coupling finds by itself."""
        return unknowns(self.coupled)

    def program(self, scenario: Scenario) -> Program:
        """The program that runs `scenario` the way this master says."""
        closed = scenario.closed()
        settled = self.settled(closed)
        return settled.written(settled.arranged(closed))[0]

    def written(
        self,
        closed: Scenario,
        *,
        driven: bool = False,
        inside: bool = False,
        span: Span | None = None,
        asked: bool = False,
    ) -> tuple[Program, Pace]:
        """The program of a settled master for a scenario that it has `arranged`, and the pace that knows its
        registers. `MasterError` if they do not fit the units.

        `driven`: what happens at an instant is done micro-step by micro-step, from outside. `inside` another
        program: inputs may still come from there when this one has started. `span`: of the run, if known.
        `asked`: with derivatives of what the scenario shows.
        """
        check_rates(self.pace, closed, span)
        sourced = with_derivative_sources(closed, self._wanted(closed, self._followed))
        fewer = fitted(closed, self.approximated) if self.approximated.derivatives else {}
        still = dict.fromkeys(rates_fed(closed), Hold())
        wiring = Wiring(sourced, self.approximated, {**fewer, **still, **self.ports})
        wiring.drift = self.drift
        for note in (*(fallen(closed, fewer, self.ports) if fewer else ()), *grown(closed)):
            wiring.note(note)
        if closed.eventful and (late := self.late(closed)) is not None:
            wiring.note(late)
        for note in self.remarks(closed):
            wiring.note(note)
        chosen = Hold() in self.ports.values()  # on purpose
        if self._followed and not chosen and (held := held_inputs(wiring)) is not None:
            wiring.note(held)
        if (held := held_crossings(wiring)) is not None:
            wiring.note(held)
        coupled = self.coupled.blocks(wiring)
        steps = Steps(wiring.registers, wiring.now, wiring.next, block_names(coupled), span)
        blocks, paced = written(self.pace, steps, coupled, wiring)
        pace = paced.pace
        left: frozenset[str] = frozenset()
        left_to = _leaving(wiring, closed.stage) if closed.stage is not None else None
        instant = Instants()
        if not blocks.settles and (closed.eventful or self.simultaneous.order):  # which may be wrong
            left = frozenset() if driven else idle(wiring, blocks.steps.values())
            instant = instants(wiring, blocks.exchange, self.simultaneous, driven=driven, idle=left)
        begun = () if inside else initialized(wiring, blocks.exchange)
        watched = _watched(wiring, instant.due) if closed.monitored else None
        budget = _budget(wiring, blocks, pace, instant)
        derived = None
        if asked:
            from upbeat.master.sensitivities import sensitivities

            derived = sensitivities(wiring)
        at_instant: Block = (*blocks.instant, *instant.whole)
        if left_to is not None:
            at_instant = (*left_to.keep, *at_instant)
        program = Program(
            layout=wiring.registers.layout(),
            start=(
                *(*paced.begin, *instant.first, *blocks.start, *begun),
                *(left_to.begin if left_to is not None else ()),
                *(watched.begin if watched else ()),
            ),
            steps={
                name: (*instant.keep, *(without(step, left, wiring.outputs) if left else step))
                for name, step in blocks.steps.items()
            },
            exchange=blocks.exchange,
            instant=at_instant if watched is None else watched.around(at_instant),
            now=wiring.now,
            next=wiring.next,
            columns={**blocks.columns, **columns(wiring)},
            notes=(*self.why, *blocks.notes, *wiring.notes),
            events=instant.events if watched is None else {**instant.events, **watched.events},
            due=instant.due if watched is None else watched.due,
            ends=wiring.over,
            leads=None if left_to is None else left_to.leads,
            stops=blocks.stops,
            arrivals=instant.arrivals,
            micro=instant.micro,
            send=instant.send,
            histories=wiring.histories,
            undefined=instant.undefined,
            doubts=tuple(wiring.doubts),
            budget=budget,
            pace=_pacing(steps, paced, wiring, sourced),
            takes_inputs=blocks.takes_inputs,
            asked=derived,
        )
        check_abilities(program, pace, closed.units, wiring.called)
        return program, pace

    def settled(self, scenario: Scenario) -> Master:
        """The master with a pace, a coupling and inputs that deal with events as `events` says; nothing that
        was given is replaced but steps of one size."""
        calm = not scenario.eventful and scenario.stage is None
        if self.events is None or (self.events == "auto" and calm):
            late = beyond_tolerance(self.pace, self.coupled, scenario.closed())
            warnings = tuple(dict.fromkeys((*self.warnings, *late)))  # it may be settled already
            return replace(
                self, coupling=self.coupled, inputs=self.approximated, events=None, warnings=warnings
            )
        chosen = handled(self.events, self.pace, self.coupling, self.inputs, self.ports, scenario.closed())
        return replace(
            self,
            pace=chosen.pace,
            coupling=chosen.coupling,
            inputs=self.approximated,
            ports={**chosen.ports, **self.ports},
            events=None,
            why=chosen.why,
            warnings=chosen.warnings,
            drift=chosen.drift,
        )

    def where_there_are(self, scenario: Scenario) -> Master:
        """The master for one structure of several: without a look at events, where there are none."""
        closed = scenario.closed()
        if looked_at(closed) or waiting(closed) or tuple(with_own_events(closed)):
            return self
        coupling = Jacobi() if isinstance(self.coupling, Follows) else self.coupling
        return replace(self, pace=plain(self.pace), coupling=coupling)

    def late(self, scenario: Scenario) -> str | None:
        """A remark where events between units are not dealt with, although none of this was asked for."""
        settled = self.settled(scenario)
        if settled.why:
            return None if self.events == "off" else sinking(scenario.closed())
        return noticed_late(settled.pace, settled.coupled, scenario.closed())

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        """What units do not see of each other's steps, whose rate depends on the step, and which conditions
        are only looked at where steps end, in sentences."""
        settled, closed = self.settled(scenario), scenario.closed()
        parts = settled.pace, settled.coupled, closed
        seen = [*lost_between(*parts), *too_quick(*parts)]
        if not closed.only_equations:
            seen += (*unlocated(closed), *unshared_stops(settled.coupled, closed), *without_rate(*parts))
        return (*seen, *(jumping(closed) if closed.eventful else ()))

    def arranged(self, scenario: Scenario) -> Scenario:
        """The closed scenario with what this master needs of its units: these are the units that run.

        Units given by equations get outputs for derivatives that inputs or conditions of events ask for, one
        that counts their own events, if inputs have trajectories that begin again then, and some for the
        conditions of these, if pace or coupling follow what happens `inside`. A coupling may arrange more.
        """
        closed = scenario.closed()
        if self.ports:
            self._check_ports(closed)
        if any(one.inside for one in self._followers):
            closed = with_indicators(closed)
        elif moving := [
            (c.unit, c.port) for c in closed.connections if self._approximation(c.target) != Hold()
        ]:
            followed_units = None if self._followers else closed.graph.followed(moving)
            closed = with_indicators(closed, conditions=False, units=followed_units)
        if self._followers:
            closed = with_waits(closed)
        if isinstance(self.pace, LooksAtStates) and self.pace.states:
            closed = with_states(closed)
        if hasattr(self.coupled, "arranged"):
            closed = self.coupled.arranged(closed)
        followed = self._followed if all(one.symbolic for one in self._followers) else 0
        return with_rates(closed, self._wanted(closed, followed), followed)

    @property
    def _followers(self) -> list[Follows]:
        """Who follows the conditions of events."""
        found: list[Follows] = [self.coupled] if isinstance(self.coupled, Follows) else []
        pace = follower(self.pace)
        return found if pace is None else [*found, pace]

    @property
    def _followed(self) -> int:
        """How many derivatives of conditions are asked for."""
        return max((one.derivatives for one in self._followers), default=0)

    def _wanted(self, closed: Scenario, followed: int) -> dict[str, int]:
        """How many derivatives of each input are asked for; the inputs of who watches are conditions."""
        if not followed and not any(way.derivatives for way in (self.approximated, *self.ports.values())):
            return {}
        looking = watchers(closed.units)
        waiting = {one.unit for one in waits(closed)} if followed else set()
        fed = rates_fed(closed)
        return {
            c.target: 0
            if c.target in fed
            else followed
            if c.unit in looking
            else max(followed if c.unit in waiting else 0, self._approximation(c.target).derivatives)
            for c in closed.connections
            if not computes_conditions(closed.units[c.unit])  # which look at instants only
        }

    def _approximation(self, target: str) -> Approximation:
        return self.ports.get(target, self.approximated)

    def _check_ports(self, scenario: Scenario) -> None:
        inputs = {
            f"{unit}.{port.name}": port
            for unit, model in scenario.units.items()
            for port in model.ports
            if port.causality is Causality.INPUT
        }
        for name, approximation in self.ports.items():
            if name not in inputs:
                raise MasterError(
                    f"an approximation is given for '{name}', which is not an input. "
                    f"{suggest(name, inputs, 'inputs')}"
                )
            if inputs[name].event:
                raise MasterError(
                    f"an approximation is given for '{name}', which is an event: it is absent between "
                    "instants, so it has no trajectory; leave it out"
                )
            if inputs[name].kind is not Kind.REAL and approximation != Hold():
                raise MasterError(
                    f"'{name}' is {inputs[name].kind.value}: only real inputs have an approximation; "
                    "leave it at hold"
                )


def _watched(wiring: Wiring, due: Reg | None) -> Monitors:
    """What watches the properties of a scenario; few have any, so that the module is loaded here."""
    from upbeat.master.events.monitors import monitors

    return monitors(wiring, due)


def _leaving(wiring: Wiring, stage: Stage) -> Leaving:
    """What ends one structure of several; few scenarios have any."""
    from upbeat.master.events.leaving import leaving

    found = leaving(wiring, stage)
    wiring.leading = found.after
    return found


def initialized(wiring: Wiring, exchange: Block) -> Block:
    """What ends the initialization of units that have one (FMUs), once values have been exchanged in it.

    What such a unit shows may be valid only then, so values are exchanged again.
    """
    units = [unit for unit, model in wiring.scenario.units.items() if getattr(model, "initializes", False)]
    if not units:
        return ()
    again = wiring.registers.new("initialized", Kind.BOOLEAN)
    return (*(Jump(unit, again) for unit in units), *exchange)


def as_pace(pace: Pace | float | int) -> Pace:
    """A number is the step of a `Fixed` pace."""
    return Fixed(pace) if isinstance(pace, (int, float)) else pace


def _pacing(steps: Steps, paced: Written, wiring: Wiring, scenario: Scenario) -> Pacing:
    """What a pace has written, complete; for one that may reject a step, with what sets everything back."""
    keep: Block = ()
    back: Block = ()
    if paced.review and retries(paced.pace):
        slot = wiring.registers.slot()
        own = set(steps.memory)
        others = tuple(r.first for r in wiring.registers.layout().registers if r.first not in own)
        keep, back = (Save(tuple(scenario.units), others, slot),), (Restore(slot),)
    return Pacing(
        steps=tuple(steps.blocks),
        limit=steps.limit.index,
        until=steps.until.index,
        block=steps.block.index,
        reason=steps.reason.index,
        again=steps.again.index,
        fired=steps.fired.index,
        reasons=tuple(steps.reasons),
        propose=paced.propose,
        review=paced.review,
        note=paced.note,
        changed=paced.changed,
        keep=keep,
        back=back,
        memory=tuple(steps.memory),
        rests=getattr(paced.pace, "rests", False),
        calls=tuple(steps.calls),
    )


def _budget(wiring: Wiring, blocks: Blocks, pace: Pace, instant: Instants) -> Budget | None:
    """For steps that end at events, where the pace looks for some, or a unit may stop at one."""
    steps = (i for step in blocks.steps.values() for i in walk(step))
    if follower(pace) is None and not any(isinstance(i, Advance) and i.early for i in steps):
        return None
    usual = nominal_step(pace)
    start = (BURST, allowance(usual))
    register = wiring.registers.new(wiring.registers.unique("events left"), size=2, start=start)
    units = {name: event.details.units for name, event in instant.events.items() if event.details is not None}
    return Budget(register, usual, units)


# ----------------------------------------------------------------------------------------------------
# The columns of a trace: everything that it may record, by name.


def columns(ports: PortRegisters) -> dict[str, Recordable]:
    """Outputs, the scenario's own ports, and inputs."""
    found: dict[str, Recordable] = {}
    scenario, origin = ports.scenario, ports.scenario.origin
    for ends, is_output in ((ports.outputs, True), (ports.inputs, False)):
        for end, reg in ends.items():
            port = ports.port(end)
            if port.internal:
                continue
            name = scenario.column(*end)
            found.setdefault(
                name, Recordable(reg, port.unit, port.items, is_output and not port.extra, port.cells)
            )
    for output in scenario.outputs:
        port, name = output.port, output.port.name
        if name.startswith(HIDDEN):
            continue
        if origin is not None:
            name = origin.columns.get(("", name), name)
        found[name] = Recordable(ports.results[port.name], port.unit, port.items, cells=port.cells)
    if origin is None or not origin.shown:
        return found
    return {name: replace(found[name], output=is_output) for name, is_output in origin.shown.items()}
