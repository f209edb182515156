"""Flattening: nested scenarios replaced by what is inside them, wherever that means the same.

A nested scenario means the same as its units side by side with the others if both masters are `Jacobi`
couplings of the same options at the same fixed pace. If the inner steps are a whole part of the outer
ones, the units inside become the faster group of a `MultiRate` coupling. Anything else stays nested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.time import Span
from upbeat.engine.nested import Nested
from upbeat.master.approximation import Approximation, Hold, Linear, Polynomial
from upbeat.master.coupling import Jacobi
from upbeat.master.master import Master
from upbeat.master.multirate import MultiRate
from upbeat.master.pace import Fixed
from upbeat.scenario.inline import inlined, path_of
from upbeat.scenario.inline_events import CannotInline
from upbeat.scenario.scenario import Scenario

WHOLE = 1e-9
"""How far, relatively, a ratio of two steps may be from a whole number."""


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a nested unit."""

    unit: str
    flattened: bool
    why: str

    def __str__(self) -> str:
        return f"{self.unit}: {'flattened' if self.flattened else 'not flattened'}, {self.why}"


class Flat(NamedTuple):
    """A scenario and a master that mean the same as before, and what became of each nested unit."""

    scenario: Scenario
    master: Master
    notes: tuple[Note, ...] = ()


class Kept(Exception):
    """A nested unit stays what it is; says why."""


def flattened(scenario: Scenario, master: Master, span: Span | None = None) -> Flat:
    """The scenario, closed, with the units of nested ones in it, and the master for them.

    Different rates are merged only for a `span` of whole steps: a shorter last step would have as many
    parts as the others in a `MultiRate` coupling, but fewer inside a nested scenario.
    """
    closed = scenario.closed()
    if not any(type(model) is Nested for model in closed.units.values()):
        return Flat(closed, master)
    return _Flattening(closed, master, span).flat()


def kept_nested(scenario: Scenario) -> Scenario:
    """The scenario, in which no nested one, at any depth, wants to be flattened."""
    return scenario.with_units(
        {
            name: replace(model, scenario=kept_nested(model.scenario), flatten=False)
            for name, model in scenario.units.items()
            if type(model) is Nested
        }
    )


class _Flattening:
    def __init__(self, scenario: Scenario, master: Master, span: Span | None) -> None:
        self._scenario = scenario
        self._master = master
        self._span = span
        self._steps: dict[str, float] = {}  # of units that were inside nested ones
        self._rates: dict[str, int] = {}
        self._ports = dict(master.ports)
        self._notes: list[Note] = []

    def flat(self) -> Flat:
        waiting = list(self._scenario.units)
        while waiting:
            unit = waiting.pop(0)
            model = self._scenario.units[unit]
            if type(model) is not Nested:
                continue
            path = path_of(self._scenario, unit)
            try:
                why, new = self._merge(unit, model)
            except (Kept, CannotInline) as reason:
                self._notes.append(Note(path, False, str(reason)))
            else:
                self._notes.append(Note(path, True, why))
                waiting = [*new, *waiting]
        coupling = self._master.coupling
        if self._rates:
            assert isinstance(coupling, Jacobi)
            coupling = MultiRate(self._rates, coupling.loops, slower="beside")
        master = replace(self._master, coupling=coupling, ports=self._ports)
        return Flat(self._scenario, master, tuple(self._notes))

    def _merge(self, unit: str, model: Nested) -> tuple[str, list[str]]:
        """Put the units inside in the place of `unit`; says how."""
        inner = model.master
        self._check_coupling(model)
        rate, step = self._rate(unit, inner)
        ports = self._approximations(unit, model, held=rate > 1)
        made, names = inlined(self._scenario, unit, model.scenario)
        self._scenario = made
        self._ports = {name: a for name, a in self._ports.items() if name.partition(".")[0] != unit}
        self._ports |= {f"{names[name]}.{port}": chosen for (name, port), chosen in ports.items()}
        total = self._rates.pop(unit, 1) * rate
        for new in names.values():
            self._steps[new] = step
            if total > 1:
                self._rates[new] = total
        units = list(names.values())
        known = ", ".join(path_of(made, new) for new in units)
        if rate > 1:
            return f"its units make {rate} steps per communication step: {known}", units
        return f"its units run side by side with the others: {known}", units

    def _check_coupling(self, model: Nested) -> None:
        outer, inner = self._master.coupling, model.master.coupling
        if not model.flatten:
            raise Kept("it was asked to stay nested")
        if model.engine != "auto":
            raise Kept(f"it asks for an engine of its own, {model.engine}")
        for whose, coupling in (("the outer", outer), ("its", inner)):
            if type(coupling) is not Jacobi:
                raise Kept(f"{whose} coupling is {type(coupling).__name__}, and only Jacobi can be merged")
        if outer != inner:
            raise Kept(f"its coupling {inner} differs from the outer {outer}")
        if getattr(outer, "outputs", "") == "lagged":
            raise Kept("where outputs are lagged, a level of nesting is one more delay")

    def _rate(self, unit: str, inner: Master) -> tuple[int, float]:
        """How many steps the inside makes while the unit makes one, and how long they are."""
        outer, own = self._master.pace, inner.pace
        if type(outer) is not Fixed or type(own) is not Fixed:
            raise Kept(
                f"the steps are chosen by {own} inside and by {outer} outside: only Fixed can be merged"
            )
        around = self._steps.get(unit, outer.step)
        if own.step == around:
            return 1, own.step
        ratio = around / own.step
        rate = round(ratio)
        if rate < 2 or abs(ratio - rate) > WHOLE * rate:
            raise Kept(f"its step {own.step:g} is no whole part of the step {around:g} around it")
        if self._rates:
            raise Kept(
                "another nested scenario has a rate of its own already, and the two exchange less often"
            )
        if self._span is None or not _whole((self._span.stop - self._span.start) / outer.step):
            raise Kept("it has a rate of its own, and not all communication steps are of the same length")
        return rate, own.step

    def _approximations(
        self, unit: str, model: Nested, *, held: bool
    ) -> dict[tuple[str, str], Approximation]:
        """What the inputs inside do, where it differs from the outer default."""
        master, inner = self._master, model.master
        for port in model.scenario.inputs:
            if port.reactive:
                raise Kept(f"its input '{port.name}' is reactive")
            _check_course(self._ports.get(f"{unit}.{port.name}", master.inputs), port.name, held)
        found: dict[tuple[str, str], Approximation] = {}
        for name, port in _inputs(model.scenario):
            chosen = inner.ports.get(f"{name}.{port.name}", inner.inputs)
            if port.kind is not Kind.REAL:
                continue
            _check_course(chosen, f"{name}.{port.name}", held)
            if chosen != master.inputs:
                found[name, port.name] = chosen
        return found


def _inputs(scenario: Scenario) -> list[tuple[str, Port]]:
    ports = [(name, port) for name, model in scenario.units.items() for port in model.ports]
    return [(name, port) for name, port in ports if port.causality is Causality.INPUT]


def _check_course(chosen: Approximation, name: str, held: bool) -> None:
    """The inside sees a course at its own communication points: it must start at the latest value."""
    if held and chosen != Hold():
        raise Kept(f"different rates can be merged only where inputs are held, and '{name}' is {chosen}")
    if type(chosen) not in (Hold, Linear, Polynomial):
        raise Kept(f"the approximation {chosen} of '{name}' starts elsewhere than at the latest value")


def _whole(ratio: float) -> bool:
    return abs(ratio - round(ratio)) <= WHOLE * max(ratio, 1.0)
