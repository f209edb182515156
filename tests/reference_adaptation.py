"""What an adaptation does, written down once more and directly: six functions over dictionaries.

A judge for `upbeat.adapt.blocks`, of which nothing is used here. The units inside are plain objects with
`set`, `get`, `advance`, `save` and `restore`; their steps are closed formulas, so that engines and this do
the same to the last bit. Ports are scalars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from math import exp
from typing import Any

import upbeat as up
from upbeat.adapt import adaptation as core
from upbeat.core.expr import evaluate


class Plain:
    """x' = u + u₁·τ - x, exactly, for an input with a rate u₁; y follows v and w at once."""

    def __init__(self, *_: Any) -> None:
        self.x, self.given = 0.5, dict.fromkeys("uvw", (0.0,))

    def set(self, port: str, coefficients: Any) -> None:
        self.given[port] = tuple(coefficients)

    def get(self, port: str) -> float:
        return self.x if port == "x" else 0.3 * self.given["v"][0] - 0.2 * self.given["w"][0] + 0.1 * self.x

    def advance(self, t: float, to: float, early: bool) -> float:
        h, (u, rate) = to - t, (*self.given["u"], 0.0)[:2]
        self.x = u + rate * (h - 1.0) + (self.x - u + rate) * exp(-h)
        return to

    def save(self) -> Any:
        return self.x, dict(self.given)

    def restore(self, token: Any) -> None:
        self.x, self.given = token[0], dict(token[1])


def plain(inputs: str, outputs: str) -> up.PythonUnit:
    """A model of that, with these ports."""
    direct = frozenset(inputs) & {"v", "w"}
    return up.PythonUnit(
        Plain,
        ports=(
            *(up.Port(name, up.Causality.INPUT) for name in inputs),
            *(
                up.Port(name, up.Causality.OUTPUT, depends=direct if name == "y" else frozenset())
                for name in outputs
            ),
        ),
        abilities={up.Ability.ROLLBACK},
    )


class _Break(Exception): ...


class _Leave(Exception):
    def __init__(self, by: float, again: bool) -> None:
        self.by, self.again = by, again


class Reference:
    """An adapted unit; `now` is the time that it has reached. All that is set back is in `its`."""

    def __init__(self, it: core.Adaptation, units: Mapping[str, Any], given: Mapping[str, float]) -> None:
        self.it, self.units, self.given = it, units, dict(given)
        self.now, self.size, self.h, self.dt = 0.0, 1.0, 0.0, 0.0
        self.constants = {port.name: float(port.initial[0]) for port in it.parameters}
        self.its: dict[str, Any] = {
            "stored": {s.name: float(evaluate(core.expr(s.start), self.constants)) for s in it.stored},
            "held": {},  # which conditions held, by list and place
            "inputs": {f"{u}.{p.name}": (float(p.initial[0]),) for u in units for p in it.inputs_of(u)},
            "seen": {},  # outputs of units inside
            "time": dict.fromkeys(units, 0.0),
        }
        self.locals: dict[str, float] = {}
        self.own: dict[str, float] = {}  # variables of a rule
        self.assigned: set[str] = set()
        self.saved: dict[str, Any] = {}
        self.end = 0.0
        if it.reactive is not False:
            self.first("in")
        else:
            self.conditions("in")
        self.settle()
        self.its["before"] = dict(self.its["inputs"])
        self.first("out")
        self.data(it.init, self.its["stored"])

    def value(self, tree: core.Given) -> float:
        its = self.its
        times = {core.own_time(unit).id: time for unit, time in its["time"].items()}
        own = {"t": self.now, "H": self.size, "h": self.h, "dt": self.dt, **self.given, **self.constants}
        names = {**own, **times, **its["seen"], **its["stored"], **self.locals, **self.own}
        return float(evaluate(core.expr(tree), names))

    def data(self, found: Iterable[core.Statement], to: dict[str, Any], free: Any = lambda _: True) -> None:
        before = set(self.own)
        for one in found:
            if isinstance(one, core.When):
                self.data(one.then if self.value(one.condition) else one.orelse, to, free)
            elif isinstance(one, core.Local) or (isinstance(one, core.Assign) and one.to in self.own):
                self.own[one.name if isinstance(one, core.Local) else one.to] = self.value(one.value)
            elif isinstance(one, core.Assign) and free(one.to):
                course = (self.value(one.value), *map(self.value, one.rates))
                to[one.to] = course if to is self.its["inputs"] else course[0]
        self.own = {name: self.own[name] for name in before}

    def rules(self, which: str) -> tuple[core.Rule, ...]:
        return self.it.in_rules if which == "in" else self.it.out_rules

    def conditions(self, which: str) -> None:
        self.its["held"][which] = [bool(self.value(rule.condition)) for rule in self.rules(which)]

    def first(self, which: str) -> None:
        """In, or MapOut."""
        self.conditions(which)
        for rule, holds in zip(self.rules(which), self.its["held"][which], strict=True):
            self.data(rule.first if holds else (), self.its["stored"])

    def second(self, which: str, to: dict[str, Any], free: Any = lambda _: True) -> None:
        """MapIn, or Out."""
        for rule, holds in zip(self.rules(which), self.its["held"][which], strict=True):
            self.data(rule.second if holds else (), to, free)

    def link(self, end: str) -> None:
        if end in self.it.connections:
            self.its["inputs"][end] = (self.value(self.it.connections[end]),)

    def settle(self) -> None:
        """All inputs and outputs of the units inside at an instant."""
        self.h = self.dt = 0.0
        for end in self.its["inputs"]:
            if end not in self.it.connections:
                self.second("in", self.its["inputs"], lambda to, end=end: to == end)
        for side, unit, port in self.it.inside.graph.order:
            if side == "in":
                self.link(f"{unit}.{port}")
                self.second("in", self.its["inputs"], lambda to, end=f"{unit}.{port}": to == end)
                if port in "vw":
                    self.units[unit].set(port, self.its["inputs"][f"{unit}.{port}"])
            else:
                self.its["seen"][f"{unit}.{port}"] = self.units[unit].get(port)

    def outputs(self) -> dict[str, float]:
        """At this instant; nothing that is stored changes."""
        kept = deepcopy({name: found for name, found in self.its.items() if name != "seen"})
        if self.it.mealy:
            self.first("in")
        self.settle()
        self.first("out")
        shown: dict[str, float] = {}
        self.second("out", shown)
        self.its.update(kept)
        return shown

    def save(self) -> Any:
        return deepcopy(self.its), {name: unit.save() for name, unit in self.units.items()}

    def restore(self, token: Any) -> None:
        self.its = deepcopy(token[0])
        for name, unit in self.units.items():
            unit.restore(token[1][name])

    def advance(self, to: float, given: Mapping[str, float]) -> None:
        """As many steps as it takes."""
        self.given = dict(given)
        while self.now < to:
            start, end = self.save(), to
            while True:
                self.size, self.end, result = end - self.now, end, end - self.now
                self.first("in")
                self.locals, self.assigned, self.saved = {}, set(), {}
                try:
                    self.run(self.it.control or tuple(map(core.Step, self.units)))
                except _Leave as left:
                    result = left.by
                    if left.again:
                        self.restore(start)
                        end = self.now + result
                        continue
                break
            self.now = end if end - (self.now + result) <= 1e-9 * self.size else self.now + result
            self.locals = {}
            self.outputs()

    def run(self, found: Iterable[core.Statement]) -> None:
        for one in found:
            match one:
                case core.Assign(to=to):
                    if to in self.its["inputs"]:
                        self.assigned.add(to)
                        self.data([one], self.its["inputs"])
                    else:
                        self.data([one], self.locals if to in self.locals else self.its["stored"])
                case core.Local():
                    self.locals[one.name] = self.value(one.value)
                case core.When():
                    self.run(one.then if self.value(one.condition) else one.orelse)
                case core.Loop():
                    try:
                        for number in range(one.times):
                            self.locals |= {one.index: float(number)} if one.index else {}
                            self.run(one.body)
                            if one.until is not None and self.value(one.until):
                                break
                    except _Break:
                        pass
                case core.Break():
                    raise _Break
                case core.Return() | core.Discard():
                    raise _Leave(self.value(one.by), isinstance(one, core.Discard))
                case core.SaveState(unit=unit):
                    before = {e: c for e, c in self.its["before"].items() if e.startswith(f"{unit}.")}
                    self.saved[unit] = self.units[unit].save(), self.its["time"][unit], before
                case core.Rollback(unit=unit):
                    token, self.its["time"][unit], before = self.saved[unit]
                    self.units[unit].restore(token)
                    self.its["before"].update(before)
                case core.Step():
                    self.step(one)

    def step(self, one: core.Step) -> None:
        its, inner = self.its, self.units[one.unit]
        size = self.h = self.value(one.by)
        self.dt = self.value(one.start) - self.now
        for port in self.it.inputs_of(one.unit):
            end = f"{one.unit}.{port.name}"
            if end not in self.assigned:
                self.link(end)
                self.second("in", its["inputs"], lambda to, end=end: to == end)
            late = one.unit in self.it.delayed
            inner.set(port.name, its["before"][end][:1] if late else its["inputs"][end])
            its["before"][end] = its["inputs"][end]
        start = its["time"][one.unit]
        until = start + size
        until = self.end if abs(until - self.end) <= 1e-9 * self.size else until
        if until > start:
            its["time"][one.unit] = inner.advance(start, until, False)
        for port in self.it.units[one.unit].ports:
            if port.causality is up.Causality.OUTPUT:
                its["seen"][f"{one.unit}.{port.name}"] = inner.get(port.name)
        if one.to is not None:
            (self.locals if one.to in self.locals else its["stored"])[one.to] = max(size, 0.0)
        self.first("out")


def shown(it: core.Adaptation, times: Any, given: list[dict[str, float]]) -> list[dict[str, float]]:
    """The outputs of an adaptation of `Plain` units at times with inputs, in a Gauss-Seidel coupling.

    Init has the inputs of the start time.
    """
    late = it.reactive is False
    its = Reference(it, {unit: Plain() for unit in it.units}, given[0])
    found = [its.outputs()]
    for k in range(1, len(times)):
        its.advance(float(times[k]), given[k - 1 if late else k])
        its.given = dict(given[k])
        found.append(its.outputs())
    return found
