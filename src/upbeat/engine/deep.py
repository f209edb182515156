"""A deep check: do outputs depend on the inputs that units declare, and do units come back as they promise.

Everything that puts ports in an order believes `Port.depends`. An output that changes with an input it claims
not to depend on would be read too early, and be one step late without anybody noticing. So each input of each
unit is changed by itself, and all outputs are looked at, at the start and after some steps. FMUs are tried
in a process of their own. Where several cores are asked for, two units of one FMU are also tried at the same
time: they may share memory without saying so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan
from pathlib import Path
from typing import Any

from upbeat.core.abilities import Ability, FromFile, Model, doubt, instantiated
from upbeat.core.errors import FAULTS, Problem
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.core.replay import WORK, Allowance, broken_promise
from upbeat.core.time import Span
from upbeat.engine.machine import close_all, text_of
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import bare

PARTS = 100
"""A unit is tried at the start, and again after two steps of so small a part of the run."""


@dataclass(frozen=True, slots=True)
class UndeclaredDependency:
    """An output that changes with an input although it is declared not to depend on it directly."""

    unit: str
    output: str
    input: str

    @property
    def problem(self) -> Problem:
        what = (
            f"output '{self.output}' changes as soon as input '{self.input}' does, but is declared not to "
            "depend on it directly"
        )
        hint = (
            f"Add \"{self.input}\" to what '{self.output}' depends on (of an FMU: in its ModelStructure). "
            "Until then its value may be read one step late."
        )
        return Problem(("units", self.unit), what, hint)


@dataclass(frozen=True, slots=True)
class ThreadInterference:
    """Units of one FMU that do something else on two threads at the same time than each by itself."""

    units: tuple[str, ...]
    why: str

    @property
    def problem(self) -> Problem:
        what = (
            f"{', '.join(self.units)} are of one FMU, and two of it disturb each other when they run at the "
            f"same time: {self.why}"
        )
        hint = 'Give them processes of their own (isolation = "process"), or run on one core.'
        return Problem(("units", self.units[0]), what, hint)


@dataclass(frozen=True, slots=True)
class BrokenRollback:
    """A unit that promises to come back to a state that was saved, and does not."""

    unit: str
    ability: Ability
    why: str

    @property
    def problem(self) -> Problem:
        what = f"it says that it {self.ability.value}: {self.why}"
        hint = "Correct that, or leave out the promise: then masters that rely on it are refused."
        return Problem(("units", self.unit), what, hint)


@dataclass(frozen=True, slots=True)
class Depths:
    """What a deep check found."""

    wrong: tuple[UndeclaredDependency | ThreadInterference | BrokenRollback, ...]
    late: tuple[tuple[str, str], ...]
    """Outputs and inputs, by full name: a direct dependency that shows only after the next step."""
    untried: tuple[tuple[str, str], ...]
    """Units, and why they could not be tried."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is no mistake, but should be known."""
        slow = [
            f"{output} follows {port} only after the next step, although it is declared to depend on it "
            "directly: it is one communication step late in every coupling"
            for output, port in self.late
        ]
        return (*slow, *(f"unit '{unit}' could not be tried: {why}" for unit, why in self.untried))


def depths(scenario: Scenario, span: Span, cores: int = 1) -> Depths:
    """Try all units of a scenario, each by itself; for several cores, those of one FMU also two at a time."""
    wrong: list[UndeclaredDependency | ThreadInterference | BrokenRollback] = list(
        _thread_interference(scenario) if cores > 1 else ()
    )
    late: list[tuple[str, str]] = []
    untried: list[tuple[str, str]] = []
    for name, model in scenario.units.items():
        if name in scenario.added_units:
            continue
        called, plain = path_of(scenario, name), bare(model)
        if isinstance(plain, FromFile):
            pairs, why = plain.undeclared()
            late += [(f"{called}.{output}", f"{called}.{port}") for output, port in plain.lags()]
        else:
            pairs, why = _tried(name, model, span)
        wrong += [UndeclaredDependency(called, output, port) for output, port in pairs]
        wrong += _broken_rollback(called, model, span)
        if why:
            untried.append((called, why))
    return Depths(tuple(wrong), tuple(late), tuple(untried))


def _broken_rollback(called: str, model: Model, span: Span) -> Iterator[BrokenRollback]:
    """What a unit promises of its states and does not keep, found by replaying."""
    plain = bare(model)
    for ability in (Ability.ROLLBACK, Ability.SERIALISE):
        if ability not in plain.abilities:
            continue
        if isinstance(plain, FromFile):
            why = doubt(plain, ability)
        else:
            step = (span.stop - span.start) / PARTS
            why = broken_promise(plain, ability, step=step, start=span.start, strict=True)
        if why is not None:
            yield BrokenRollback(called, ability, why)


def _thread_interference(scenario: Scenario) -> Iterator[ThreadInterference]:
    """The FMUs of which there are several in this process, and which cannot bear that."""
    found: dict[tuple[Path, str], tuple[FromFile, list[str]]] = {}
    for name, model in scenario.units.items():
        if isinstance(model, FromFile):
            found.setdefault((model.path, model.interface_name), (model, []))[1].append(name)
    for one, names in found.values():
        if len(names) > 1 and (why := one.disturbed()):
            yield ThreadInterference(tuple(path_of(scenario, name) for name in names), why)


def _tried(name: str, model: Model, span: Span) -> tuple[list[tuple[str, str]], str]:
    """The pairs (output, input) that are not declared, and what came in between."""
    inputs = [p for p in model.ports if p.causality is Causality.INPUT and not p.event]
    outputs = [p for p in model.ports if p.causality is Causality.OUTPUT and not p.event and not p.extra]
    found: dict[tuple[str, str], None] = {}
    step = (span.stop - span.start) / PARTS
    unit: Any = None
    try:
        unit = instantiated(model, name, span.start)
        Allowance(WORK).bound(unit)
        for port in inputs:
            unit.set(port.name, [_signal(port, port.initial)])
        at = span.start
        allowed = _at_the_start(model, outputs)
        for _ in range(2):
            for port in inputs:
                once = _seen(unit, outputs)
                unit.set(port.name, [_signal(port, port.initial)])
                before = _seen(unit, outputs)
                # Loops inside are solved to a tolerance: each look at them may move the last digits.
                by_itself = [10.0 * _distance(a, b) for a, b in zip(once, before, strict=True)]
                for other in _others(port):
                    unit.set(port.name, [_signal(port, other)])
                    now = _seen(unit, outputs)
                    found |= {
                        (out.name, port.name): None
                        for out, was, new, alone in zip(outputs, before, now, by_itself, strict=True)
                        if _distance(was, new) > alone and port.name not in allowed[out.name]
                    }
                unit.set(port.name, [_signal(port, port.initial)])
            if Ability.NEXT_EVENT in model.abilities:
                break  # it cannot be led past its events without doing them
            for _ in range(2):
                at = unit.advance(at, at + step, False)
            allowed = {out.name: out.depends for out in outputs}
    except FAULTS as cause:  # whatever a unit does, it is a finding
        return list(found), text_of(cause)
    finally:
        if unit is not None:
            close_all({name: unit})
    return list(found), ""


def _at_the_start(model: Model, outputs: Sequence[Port]) -> dict[str, frozenset[str]]:
    """The inputs that outputs may follow at the start time: also those that the start state follows from."""
    first = getattr(model, "begins_with", {})
    return {out.name: out.depends | first.get(out.name, frozenset()) for out in outputs}


def _seen(unit: Any, outputs: Sequence[Port]) -> list[list[Value]]:
    """All outputs, cell by cell."""
    found = (unit.get(port.name) for port in outputs)
    return [[value] if port.size is None else list(value) for port, value in zip(outputs, found, strict=True)]


def _distance(some: Sequence[Value], others: Sequence[Value]) -> float:
    """How far values are apart: 0 only if they are the same, NaN included."""
    if repr(some) == repr(others):
        return 0.0
    apart = 0.0
    for one, other in zip(some, others, strict=True):
        if repr(one) == repr(other):
            continue
        if not (isinstance(one, float) and isinstance(other, float)) or isnan(one - other):
            return inf
        apart = max(apart, abs(one - other))
    return apart


def _signal(port: Port, values: Sequence[Value]) -> Signal:
    return values[0] if port.size is None else tuple(values)


def _others(port: Port) -> list[Sequence[Value]]:
    """Other values for an input; one alone may lie where a formula is flat."""
    match port.kind:
        case Kind.REAL:
            return [[float(v) + by * (1.0 + abs(float(v))) for v in port.initial] for by in (0.5, -0.75, 3.0)]
        case Kind.BOOLEAN:
            return [[not v for v in port.initial]]
        case Kind.INTEGER:
            codes = port.codes or tuple(range(int(port.initial[0]) - 1, int(port.initial[0]) + 2))
            return [[code] * port.cells for code in codes if code != port.initial[0]]
    return []
