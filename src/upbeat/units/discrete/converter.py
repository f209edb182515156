"""What converters between signals and events share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from upbeat.core.errors import ModelError
from upbeat.core.expr import Expr, parse, substitute
from upbeat.core.labels import Labels
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.units.discrete.front import FrontEnd
from upbeat.units.discrete.model import Discrete
from upbeat.units.shorthand import Complaints, check_settable, plain, read_port, with_starts


@dataclass(frozen=True, init=False)
class Converter(FrontEnd):
    """A front end that is made anew where a value changes: there is little to make.

    Its parameters are keys of its description.
    """

    def __init__(self, discrete: Discrete, spec: Mapping[str, Any]) -> None:
        plain = {key: v.written if isinstance(v, Labels) else v for key, v in spec.items() if v is not None}
        super().__init__(discrete, plain)

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``type(model)(**model.to_spec()) == model``."""
        spec: dict[str, Any] = json.loads(self.written)
        return spec

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
