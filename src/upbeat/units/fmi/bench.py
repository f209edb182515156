"""One unit of an FMU on the bench: fed, stepped and looked at by itself, always in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

from upbeat.core.abilities import instantiated
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import CoSimulation, ModelDescription, Type, Variable
from upbeat.units.fmi.model import Fmu

Seen = dict[str, list[str]]
"""Outputs, cell by cell, as texts that are the same only if the values are, bit by bit."""
_MOST_ROUNDS = 1000


def model_of(path: str, settings: Mapping[str, Any], *, deep: bool = True) -> Fmu:
    """The FMU with nothing between it and the trial; with `deep` its local variables are outputs, too."""
    alone: dict[str, Any] = {**settings, "rollback": "trust", "isolation": "none"}
    model = Fmu(path, **alone)
    hidden = [v.name for v in model.description.variables if _can_be_seen(v)] if deep else []
    return Fmu(path, **alone, locals=hidden) if hidden else model


def settings_of(model: Fmu) -> dict[str, Any]:
    """What a trial in another process needs to know to make the same of the FMU, as JSON holds it."""
    spec = model.to_spec()
    return {"interface": model.interface_name} | {
        name: spec[name] for name in ("solver", "tolerance", "parameters") if name in spec
    }


def _can_be_seen(variable: Variable) -> bool:
    return variable.causality is Role.LOCAL and variable.type is not Type.CLOCK


def step_of(model: Fmu) -> float:
    """A step that suits the FMU: its own wish, or a small part of its experiment."""
    experiment, interface = model.description.experiment, model.interface
    if experiment.step is not None and experiment.step > 0:
        return experiment.step
    if isinstance(interface, CoSimulation) and interface.fixed_internal_step:
        return interface.fixed_internal_step
    if experiment.stop is not None and experiment.stop > (experiment.start or 0.0):
        return (experiment.stop - (experiment.start or 0.0)) / 500
    return 0.01


class Bench:
    """A unit that is driven here. Times are multiples of its step, never sums."""

    def __init__(self, model: Fmu, name: str = "trial", *, fed: bool = True) -> None:
        self.model = model
        self.fed = fed
        self.start = model.description.experiment.start or 0.0
        self.step = step_of(model)
        self.unit: Any = instantiated(model, name, self.start)
        self.unit.take_any_length()
        self.time = self.start
        self.count = 0
        self.inputs = [p for p in model.ports if p.causality is Causality.INPUT and not p.event]
        self.outputs = [
            p for p in model.ports if p.causality is Causality.OUTPUT and not p.event and not p.extra
        ]

    def feed(self, n: int) -> None:
        """Give every input the n-th of its values; texts stay what they are. Nothing if it is not `fed`."""
        for port in self.inputs if self.fed else ():
            if port.kind is not Kind.STRING:
                self.give(port, value_of(self.model.description, port, n))

    def give(self, port: Port, values: Sequence[Value]) -> None:
        """Set one input."""
        signal: Signal = values[0] if port.size is None else tuple(values)
        self.unit.set(port.name, [signal])

    def advance(self) -> None:
        """One step."""
        self.count += 1
        self.to(self.start + self.count * self.step)

    def to(self, end: float) -> None:
        """Simulate until `end`, with everything that happens on the way."""
        while self.time < end:
            due = self.settle()
            self.time = self.unit.advance(self.time, min(end, due), False)
        self.settle()

    def settle(self) -> float:
        """Let happen what is due; when something will happen next."""
        due = getattr(self.unit, "due", None)
        if due is None:
            return inf
        for _ in range(_MOST_ROUNDS):
            if (when := float(due())) > self.time:
                return when
            while self.unit.jump():
                pass
        raise RuntimeError(f"its events do not come to an end at t = {self.time:g}")

    def see(self) -> Seen:
        """All outputs now."""
        return {port.name: cells(self.unit.get(port.name)) for port in self.outputs}

    def run(self, steps: int = 2) -> list[Seen]:
        """The outputs now and after each of some steps with other inputs each time."""
        seen = [self.see()]
        for n in range(steps):
            self.feed(n + 1)
            self.advance()
            seen.append(self.see())
        return seen

    def close(self) -> None:
        """The end of the unit."""
        close = getattr(self.unit, "close", None)
        if close is not None:
            close()


def cells(signal: Signal | None) -> list[str]:
    """One text per cell: numbers with all their bits."""
    values = signal if isinstance(signal, (tuple, list)) else (signal,)
    return [value.hex() if isinstance(value, float) else repr(value) for value in values]


def value_of(description: ModelDescription, port: Port, n: int) -> tuple[Value, ...]:
    """The n-th value of an input: not far from its start, and within its bounds."""
    variable = description.by_name.get(port.name)
    low, high = _bounds(variable)
    return tuple(_other(port, start, low, high, n) for start in port.initial)


def _bounds(variable: Variable | None) -> tuple[float, float]:
    properties = None if variable is None else variable.properties
    low = -inf if properties is None or properties.min is None else float(properties.min)
    high = inf if properties is None or properties.max is None else float(properties.max)
    return low, high


def _other(port: Port, start: Value, low: float, high: float, n: int) -> Value:
    if port.kind is Kind.REAL:
        size = max(abs(float(start)), 1.0) / 8
        if isfinite(high - low):
            size = min(size, (high - low) / 8)
        wanted = float(start) + size * (1 + n % 3)
        return wanted if wanted <= high else max(low, float(start) - size * (1 + n % 3))
    if port.kind is Kind.BOOLEAN:
        return n % 2 == 1
    if port.kind is Kind.INTEGER:
        codes = codes_of(port)
        if codes:
            return codes[n % len(codes)]
        wanted = int(start) + n % 3
        return wanted if wanted <= high else int(start)
    return "61" if n % 2 else "6162"  # a text for strings, and bytes for binaries


def codes_of(port: Port) -> Sequence[int]:
    """What an enumeration may be."""
    codes: Sequence[int] = getattr(port, "codes", ()) or range(len(port.items))
    return codes


def apart(
    wanted: Sequence[Mapping[str, Sequence[str]]], got: Sequence[Mapping[str, Sequence[str]]]
) -> tuple[float, float, str]:
    """How far two series of outputs are apart: at most, in units of the value, and where (empty: nowhere).

    What is no number, or not the same kind of number, is infinitely far apart.
    """
    worst, relative, where = 0.0, 0.0, ""
    for one, other in zip(wanted, got, strict=True):
        for name, values in one.items():
            for want, have in zip(values, other[name], strict=True):
                if want == have:
                    continue
                a, b = _number(want), _number(have)
                gap = abs(a - b) if isfinite(a) and isfinite(b) else inf
                ratio = gap / max(1.0, abs(a)) if gap < inf else inf
                if not where or ratio > relative:
                    worst, relative = gap, ratio
                    where = f"'{name}' is {_shown(have, want)} instead of {_shown(want, have)}"
    return worst, relative, where


def _number(text: str) -> float:
    try:
        return float.fromhex(text) if "x" in text or "n" in text else float(int(text))
    except ValueError:
        return inf


def _shown(text: str, other: str) -> str:
    """Short, unless only all digits tell it from the other one."""
    if "0x" not in text or "0x" not in other:
        return f"{float.fromhex(text):.9g}" if "0x" in text else text
    mine, its = float.fromhex(text), float.fromhex(other)
    return f"{mine:.9g}" if f"{mine:.9g}" != f"{its:.9g}" else f"{mine:.17g}"
