"""Ready-made discrete-event units between signals and events."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Self

from upbeat.core.errors import ModelError
from upbeat.core.expr import ONE, Expr, Name, Number, parse, substitute
from upbeat.core.names import Labels, cell_names
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.units.discrete.model import Assignments, Discrete, Emission, FrontEnd, Mode, Variable
from upbeat.units.equations.data import TIME
from upbeat.units.shorthand import Complaints, check_settable, plain, read_port, with_starts

# ----------------------------------------------------------------------------------------------------
# What converters between signals and events share.


@dataclass(frozen=True, init=False)
class Converter(FrontEnd):
    """A front end that is made again where a value changes: there is little to make.

    Its parameters are keys of its description.
    """

    def __init__(self, discrete: Discrete, spec: Mapping[str, Any]) -> None:
        plain = {key: v.written if isinstance(v, Labels) else v for key, v in spec.items() if v is not None}
        super().__init__(discrete, plain)

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``type(model)(**model.to_spec()) == model``."""
        spec: dict[str, Any] = json.loads(self.written)
        return spec

    @property
    def every(self) -> Any:
        """The time between two of its events, where it has a fixed one."""
        return next((port.initial[0] for port in self.ports if port.name == "every"), None)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same converter with other parameters."""
        settable = [port for port in self.ports if port.causality is Causality.PARAMETER]
        check_settable(values, [port.name for port in settable])
        changed = {port.name: plain(port, port.initial) for port in with_starts(settable, values)}
        return type(self)(**{**self.to_spec(), **changed})


def payload(name: str, start: Any, kind: Any, items: Any, unit: Any, size: Any) -> Port:
    """What events carry, or signals are, as a parameter `name` with its start value."""
    given = {"value": start, "kind": kind, "items": items, "unit": unit, "size": size}
    entry = {key: value for key, value in given.items() if value is not None}
    port = read_port(name, entry, Causality.PARAMETER)
    if port.kind is Kind.STRING:
        raise ModelError("a converter has no strings; if there are only some texts, say which: items = […]")
    return port


def carried(port: Port, name: str, causality: Causality, *, event: bool) -> Port:
    """The port `name` that carries what `port` does."""
    return replace(port, name=name, causality=causality, start=None, event=event)


def number(name: str, value: object, complaints: Complaints, unit: str | None = None) -> Port:
    """A parameter with a finite value."""
    with complaints.at(name):
        port = read_port(name, {"value": value, "kind": "real", "unit": unit}, Causality.PARAMETER)
        if port.size is not None or not math.isfinite(float(port.initial[0])):
            raise ModelError(f"{name} must be a finite number, not {value!r}")
        return port
    return Port(name, Causality.PARAMETER, start=(1.0,))


def formula(text: str, **parts: Expr) -> Expr:
    """An expression, with parts put in for some of its names."""
    return substitute(_parsed(text), parts) if parts else _parsed(text)


@lru_cache(maxsize=128)
def _parsed(text: str) -> Expr:
    """The texts are our own, few, and the same for every unit of a kind."""
    return parse(text)


# ----------------------------------------------------------------------------------------------------
# Converters between signals and events: `LastValue`, `Sampler`, `Clock`, `Edge`, `Threshold`.

_IN, _OUT = Causality.INPUT, Causality.OUTPUT


def _pure(name: str) -> Port:
    return Port(name, _OUT, Kind.BOOLEAN, event=True)


@dataclass(frozen=True, init=False)
class LastValue(Converter):
    """A signal, `value`, that keeps what the last `event` said: `start` before the first one.

        LastValue(0.0, unit="degC")
        LastValue("off", items=["off", "on"])

    `of` (the kind: "real", "integer", "boolean"), `items`, `unit` and `size` are those of both ports; the
    start value says what it can of them. In files: ``kind = "hold"``.
    """

    def __init__(
        self,
        start: Any = None,
        *,
        of: str | None = None,
        items: Sequence[str] | Mapping[str, int] | None = None,
        unit: str | None = None,
        size: int | None = None,
    ) -> None:
        complaints = Complaints()
        port = Port("value", Causality.PARAMETER)
        with complaints.at(""):
            port = payload("value", start, of, items, unit, size)
        complaints.raise_if_any()
        names = [name.replace("[", "_").rstrip("]") for name in cell_names("value", port.size)]
        heard = cell_names("event", port.size)
        discrete = Discrete(
            ports=(carried(port, "event", _IN, event=True), carried(port, "value", _OUT, event=False)),
            variables=tuple(
                Variable(name, port.kind, first, port.items)
                for name, first in zip(names, port.initial, strict=True)
            ),
            modes=(
                Mode(
                    due=formula("inf"),
                    external=tuple((name, Name(cell)) for name, cell in zip(names, heard, strict=True)),
                ),
            ),
            outputs=(("value", tuple(Name(name) for name in names)),),
        )
        super().__init__(discrete, {"start": start, "of": of, "items": items, "unit": unit, "size": size})

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same converter with another start of `value`."""
        check_settable(values, ["value"])
        spec = self.to_spec()
        port = payload("value", *(spec.get(key) for key in ("start", "of", "items", "unit", "size")))
        (changed,) = with_starts([port], values)
        return type(self)(**{**spec, "start": plain(changed, changed.initial)})


def _ticking(every: object, offset: object, complaints: Complaints) -> tuple[Port, Port]:
    ports = number("every", every, complaints), number("offset", offset, complaints)
    if not float(ports[0].initial[0]) > 0.0:
        complaints.add("every", f"every must be more than 0, not {every!r}")
    return ports


def _ticks(ports: Sequence[Port], emission: Emission, *parameters: Port) -> Discrete:
    """Something is sent at offset + k·every, k = 0, 1, …, but not before the start of the run."""
    return Discrete(
        ports=(*ports, *parameters),
        variables=(Variable("k", Kind.INTEGER, 0),),
        modes=(
            Mode(due=formula("offset + k*every"), emissions=(emission,), internal=(("k", formula("k + 1")),)),
        ),
        initial=(("k", first_tick()),),
    )


@cache
def first_tick(every: str = "every", offset: str = "offset") -> Expr:
    """The number of the first tick at offset + k·every that is not before the start."""
    # The division rounds, so that the first one may be the one before, or the one after.
    parts = {"every": formula(every), "offset": formula(offset)}
    guess = formula("max(ceil((time - offset)/every), 0)", **parts)
    return formula(
        "guess - 1 if guess > 0 and offset + (guess - 1)*every >= time "
        "else guess if offset + guess*every >= time else guess + 1",
        guess=guess,
        **parts,
    )


@dataclass(frozen=True, init=False)
class Clock(Converter):
    """An event `tick` at the times offset + k·every, k = 0, 1, … (computed from k, never summed).

        Clock(0.1)

    Times before the start of the run are left out. In files: ``kind = "clock"``.
    """

    def __init__(self, every: float, *, offset: float = 0.0) -> None:
        complaints = Complaints()
        parameters = _ticking(every, offset, complaints)
        complaints.raise_if_any()
        discrete = _ticks((_pure("tick"),), Emission("tick", ONE, (ONE,)), *parameters)
        super().__init__(discrete, {"every": every, "offset": offset or None})


@dataclass(frozen=True, init=False)
class Sampler(Converter):
    """Events with the value of `signal` at the times offset + k·every.

        Sampler(0.1, unit="m")

    Times before the start of the run are left out. `of` (the kind), `items`, `unit` and `size` are those of
    both ports; it cannot be boolean, because an event that is boolean only happens: see `Edge`. In files:
    ``kind = "sample"``.
    """

    def __init__(
        self,
        every: float,
        *,
        offset: float = 0.0,
        of: str | None = None,
        items: Sequence[str] | Mapping[str, int] | None = None,
        unit: str | None = None,
        size: int | None = None,
    ) -> None:
        complaints = Complaints()
        parameters = _ticking(every, offset, complaints)
        port = Port("signal", Causality.PARAMETER)
        with complaints.at(""):
            port = payload("signal", None, of, items, unit, size)
            if port.kind is Kind.BOOLEAN:
                raise ModelError(
                    'an event that is boolean only happens; send changes by a unit of kind "edge"'
                )
        complaints.raise_if_any()
        cells = tuple(Name(cell) for cell in cell_names("signal", port.size))
        discrete = _ticks(
            (carried(port, "signal", _IN, event=False), carried(port, "event", _OUT, event=True)),
            Emission("event", ONE, cells),
            *parameters,
        )
        spec = {
            "every": every,
            "offset": offset or None,
            "of": of,
            "items": items,
            "unit": unit,
            "size": size,
        }
        super().__init__(discrete, spec)


def _sides(ports: Sequence[Port], events: tuple[str, str], high: Expr, low: Expr, first: Expr) -> Discrete:
    """A signal that is low or high, with an event when it changes; `first` says which it is at the start.

    What it is then is not known before units communicate for the first time, hence a mode of its own.
    """
    never, now = formula("inf"), Name(TIME)

    def mode(event: str, condition: Expr, to: int) -> Mode:
        after: Assignments = (("side", Number(to)),)
        due = formula("now if condition else never", now=now, condition=condition, never=never)
        return Mode(due, (Emission(event, ONE, (ONE,)),), after)

    return Discrete(
        ports=tuple(ports),
        variables=(Variable("side", Kind.INTEGER, 0, ("unknown", "low", "high")),),
        mode="side",
        modes=(
            Mode(due=now, internal=(("side", formula("2 if first else 1", first=first)),)),
            mode(events[0], high, 2),
            mode(events[1], low, 1),
        ),
    )


@dataclass(frozen=True, init=False)
class Edge(Converter):
    """Events `rise` and `fall` when a boolean `signal` becomes true and false.

    What it is at the start of the run is no event. It is looked at whenever units communicate. In files:
    ``kind = "edge"``.
    """

    def __init__(self) -> None:
        signal = Name("signal")
        ports = (Port("signal", _IN, Kind.BOOLEAN), _pure("rise"), _pure("fall"))
        discrete = _sides(ports, ("rise", "fall"), signal, formula("not signal"), signal)
        super().__init__(discrete, {})


@dataclass(frozen=True, init=False)
class Threshold(Converter):
    """Events `above` and `below` when `signal` goes beyond a `level`.

        Threshold(20.0, hysteresis=1.0, unit="degC")

    It is above once it is more than level + hysteresis/2, and below once it is less than level -
    hysteresis/2. At the start of the run it is above if it is more than the level; this is no event. It is
    looked at whenever units communicate. `unit` is that of the signal and the level. In files:
    ``kind = "threshold"``.
    """

    def __init__(self, level: float = 0.0, *, hysteresis: float = 0.0, unit: str | None = None) -> None:
        complaints = Complaints()
        signal = Port("signal", _IN)
        with complaints.at("unit"):
            signal = carried(payload("signal", None, None, None, unit, None), "signal", _IN, event=False)
        parameters = number("level", level, complaints), number("hysteresis", hysteresis, complaints)
        if float(parameters[1].initial[0]) < 0.0:
            complaints.add("hysteresis", f"hysteresis must be 0 or more, not {hysteresis!r}")
        complaints.raise_if_any()
        discrete = _sides(
            (signal, _pure("above"), _pure("below"), *parameters),
            ("above", "below"),
            formula("signal > level + hysteresis/2"),
            formula("signal < level - hysteresis/2"),
            formula("signal > level"),
        )
        super().__init__(discrete, {"level": level, "hysteresis": hysteresis or None, "unit": unit})
