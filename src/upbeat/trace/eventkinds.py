"""What an event carries: the kind of its payload, and how that becomes 8-byte cells and back."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import InvalidInput
from upbeat.core.labels import Labels
from upbeat.core.plain import Fields
from upbeat.core.ports import Kind, Value
from upbeat.trace.columns import Cells, Column, labels_in, labels_of

Payload = Value | tuple[Value, ...] | None
"""What an event showed: nothing, a value (an enumeration's label), or the values of an array."""

_EXACT = 2**53
_MOST_CELLS = 1 << 20
"""No array is larger: a file that says so is damaged."""
_REAL, _BITS = struct.Struct("=d"), struct.Struct("=q")


@dataclass(frozen=True, slots=True)
class EventKind:
    """The events of one name. `cells` is 0 for an event without payload, 1 for a single value, else an array.

    `items` are the labels of an enumeration, whose values travel as their codes. The kind is of no
    account where there are no cells.
    """

    name: str
    kind: Kind = Kind.BOOLEAN
    cells: int = 0
    unit: str | None = None
    items: tuple[str, ...] = ()
    detailed: bool = False
    """Whether the log says more about these events: units and details."""

    @classmethod
    def fitting(cls, name: str, value: Any) -> EventKind:
        """The kind of an event that nobody has described, from one payload."""
        if value is None:
            return cls(name)
        cells = _listed(value)
        if not cells:
            raise InvalidInput(
                f"the event '{name}' cannot carry {value!r}: an array needs at least one value"
            )
        for kind in (Kind.BOOLEAN, Kind.INTEGER, Kind.REAL, Kind.STRING):
            if all(_bits(kind, cell, _any_number) is not None for cell in cells):
                return cls(name, kind, len(cells))
        raise InvalidInput(
            f"the event '{name}' cannot carry {value!r}: a payload is a number, a boolean, a text or an "
            "array of one of these"
        )

    @property
    def usual(self) -> type | None:
        """The type of a payload for which `usual_bits` are the cells, as they are for floats and nothing."""
        return type(None) if self.cells == 0 else float if (self.kind, self.cells) == (Kind.REAL, 1) else None

    def encode(self, value: Any, intern: Callable[[str], int]) -> list[int] | None:
        """The cells of a payload, as the bits of int64; None if this kind of event cannot carry it."""
        cells = [] if value is None else _listed(value)
        if len(cells) != self.cells or (value is None) != (self.cells == 0):
            return None
        found: list[int] = []
        labels = Labels.of(self.items)
        for cell in cells:
            number = labels.code(cell) if cell in labels else cell
            bits = _bits(self.kind, number, intern)
            if bits is None:
                return None
            found.append(bits)
        return found

    def decode(self, cells: Cells, strings: Sequence[str]) -> NDArray[Any]:
        """The payloads in a matrix (events, `cells`): one value each, a row each for arrays.

        Enumerations show their labels, and a number that has none shows itself.
        """
        if self.cells == 0:
            return np.full(len(cells), None, dtype=object)
        values = Column(self.name, self.kind).decode(np.ascontiguousarray(cells).reshape(-1), strings)
        if self.items:
            values = self._labels(values)
        return values if self.cells == 1 else values.reshape(-1, self.cells)

    def _labels(self, numbers: NDArray[Any]) -> NDArray[Any]:
        shown, known = labels_of(numbers, self.items)
        shown[~known] = numbers[~known].tolist()
        return shown

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file; what is usual is left out."""
        data: dict[str, Any] = {"name": self.name}
        if self.cells:
            data |= {"kind": self.kind.value, "cells": self.cells}
        if self.unit is not None:
            data["unit"] = self.unit
        if self.items:
            data["items"] = Labels.of(self.items).written
        if self.detailed:
            data["detailed"] = True
        return data

    @classmethod
    def from_data(cls, data: Any) -> EventKind:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "a kind of event")
        kind = Kind(fields.text("kind")) if "kind" in fields else Kind.BOOLEAN
        cells = fields.whole("cells", high=_MOST_CELLS) if "cells" in fields else 0
        unit = fields.text("unit") if "unit" in fields else None
        detailed = fields.flag("detailed") if "detailed" in fields else False
        return cls(fields.text("name"), kind, cells, unit, labels_in(fields), detailed)


def usual_bits(value: float | None) -> list[int]:
    """The cells of a payload of a kind's `usual` type."""
    return [] if value is None else list(_BITS.unpack(_REAL.pack(value)))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _any_number(text: str) -> int:
    return 0


def _bits(kind: Kind, value: Any, intern: Callable[[str], int]) -> int | None:
    """One cell; None if `value` is not of that kind, as an integer is not a boolean."""
    if kind is Kind.STRING:
        return intern(value) if isinstance(value, str) else None
    if isinstance(value, (bool, np.bool_)):
        return int(value) if kind is Kind.BOOLEAN else None
    if isinstance(value, (int, np.integer)) and kind is Kind.INTEGER:
        return int(value) if -(2**63) <= value < 2**63 else None
    if isinstance(value, (float, int, np.floating, np.integer)) and kind is Kind.REAL:
        if isinstance(value, int) and abs(value) > _EXACT:
            return None  # a real would be another number
        bits: int = _BITS.unpack(_REAL.pack(value))[0]
        return bits
    return None
