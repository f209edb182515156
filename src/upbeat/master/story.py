"""What the log tells about an event between units, and how the numbers it fires with are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from upbeat.core.ports import Kind, Port, Value

Told = tuple[tuple[str, ...], dict[str, Any]]
"""The units of an event, and its details."""

LANDED, AT, FOR, HEAD = range(4)
"""The places of the distance and of the prediction; the changes follow them."""

_CONVERT: dict[Kind, Callable[[float], Value]] = {Kind.REAL: float, Kind.BOOLEAN: bool}


@dataclass(frozen=True, slots=True)
class Changed:
    """A quantity that an event changes. Unless `known`, nobody can say what it was before."""

    name: str
    port: Port
    known: bool

    def shown(self, numbers: Sequence[float]) -> Any:
        """Its value, as people write it."""
        convert = _CONVERT.get(self.port.kind, int)
        values = [self.port.labels.label(int(n)) if self.port.items else convert(n) for n in numbers]
        return values[0] if self.port.size is None else values


@dataclass(frozen=True, slots=True)
class Story:
    """The event fires with the cells of `register`: how far it was away, what was predicted, and of every
    quantity that it changes the cells before and after."""

    register: int
    units: tuple[str, ...]
    changes: tuple[Changed, ...] = ()

    def told(self, cells: Sequence[Any]) -> Told:
        """The story in words and numbers, such as go into a file."""
        numbers = [float(cell) for cell in cells]
        details: dict[str, Any] = {}
        if numbers[AT] > -inf:
            details["predicted"] = {"at": numbers[AT], "for": numbers[FOR]}
        if numbers[LANDED] > -inf:
            details["landed"] = numbers[LANDED]
        at, changes = HEAD, {}
        for change in self.changes:
            width = change.port.cells
            before, after = numbers[at : at + width], numbers[at + width : at + 2 * width]
            changes[change.name] = [change.shown(before) if change.known else None, change.shown(after)]
            at += 2 * width
        return self.units, details | ({"changes": changes} if changes else {})
