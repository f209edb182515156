"""Who may go first: units that stop at events, and which events these are."""

from __future__ import annotations

import sys
from functools import reduce
from typing import NamedTuple

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import ZERO, Cell, Expr, Name, Number, Op, apply
from upbeat.core.names import split
from upbeat.core.ports import Kind
from upbeat.master.events.conditions import WIDTH, Watch
from upbeat.master.inputs.approximation import Hold
from upbeat.master.layout import Reg
from upbeat.master.program import Instruction, Let, Set
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.functions import Conditions
from upbeat.scenario.events.sights import named, sights
from upbeat.scenario.events.watcher import watchers
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.stops import located
from upbeat.units.equations.ode import Ode
from upbeat.units.process import bare

BELIEVED = 1e-6
"""Where an indicator has come down to this part of what it was, who says that it is zero is believed."""
ANY = Number(sys.float_info.max)


class Leader(NamedTuple):
    """A unit that may go first: whether it has events of its own, whether somebody can expect these, and by
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
            raise MasterError(f"leader of Interruptible names '{unit}', which is no unit. {hint}")
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
    there = any(isinstance(model, Conditions) for model in scenario.units.values())
    return " in an expression: what a Python function says, a solver cannot locate" if there else ""


def _watching(scenario: Scenario) -> dict[str, str]:
    """The inputs by which units are told to watch for events."""
    found: dict[str, str] = {}
    for sender in (sender for senders in located(scenario).values() for sender in senders):
        unit, port = sender
        model = bare(scenario.units[unit])
        assert isinstance(model, Ode)
        for event in model.equations.events:
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
    for sight in sights(wiring.scenario):
        if wiring.scenario.column(*sight.place) == name:
            abouts = [named((z,)) for z in sight.conditions]
            found = [[k for k in able if leaders[k - 1].unit in about] or able for about in abouts]
    return found


def hidden(wiring: Wiring, leaders: list[Leader]) -> list[str]:
    """What those who may go first cannot see change, because their inputs are held."""
    found: dict[str, None] = {}
    driven = {(c.unit, cell): c.port for c in wiring.scenario.connections for cell in c.cells[:1]}
    for sight in sights(wiring.scenario):
        read = sight.reads
        for leader in (leader for leader in leaders if leader.watching):
            if all(split(each)[0] != leader.unit for each in read):
                continue
            ends = {each: driven.get((leader.unit, Name(each))) for each in read}
            held = [e for e, port in ends.items() if port and _is_held(wiring, leader.unit, port)]
            if held:
                who, what = wiring.called(leader.unit), wiring.scenario.column(*sight.place)
                found[
                    f"{who} does not see {', '.join(held)} change within a step, since its inputs are held: "
                    f"where it goes first, '{what}' may be found late. Take other inputs, such as "
                    'inputs="hermite"'
                ] = None
    return list(found)


def _is_held(wiring: Wiring, unit: str, port: str) -> bool:
    real = wiring.port((unit, port)).kind is Kind.REAL
    return real and isinstance(wiring.approximation((unit, port)), Hold)


def believed(wiring: Wiring, watch: Watch, jumped: Reg, *, always: bool) -> list[Instruction]:
    """At the start of a step: how far above zero an indicator may be where a unit says that it has located
    the event. That is a small part of the most it has been since something jumped; `always`: any number.

    Compared to the last value alone, somebody whose inputs are held would come closer and closer for ever.
    """
    places = dict(zip(watch.names, watch.places, strict=True))
    found: list[Instruction] = []
    for unit, watcher in watchers(wiring.scenario.units).items():
        for event, port in watcher.limits:
            limit = wiring.inputs[unit, port]
            if not always:
                most = wiring.registers.new(wiring.registers.unique(f"{unit}.{event}′most"))
                cells: list[Expr] = [
                    Cell(watch.first + WIDTH * k) for k in places[wiring.scenario.column(unit, event)]
                ]
                z = reduce(lambda a, b: apply(Op.MAX, a, b), cells)
                found.append(Let(most, apply(Op.MAX, z, apply(Op.WHERE, Cell(jumped), ZERO, Cell(most)))))
            found += [Let(limit, ANY if always else BELIEVED * Cell(most)), Set(unit, port, (limit,))]
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
    inner = bare(model)
    if not isinstance(inner, Ode):
        return True
    told = {port for ends in located(wiring.scenario).values() for owner, port in ends if owner == unit}
    found = [event for event in inner.equations.events if event.indicator is not None]
    return any(told.isdisjoint(sending.port.name for sending in event.emit) for event in found)
