"""The event log: every event that fired, at superdense times, with what it carried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.plain import Fields
from upbeat.trace.columns import Cells
from upbeat.trace.eventcolumns import EventColumns
from upbeat.trace.eventkinds import EventKind, Payload

VERSION = 1
_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event that fired: superdense time is (`time`, `index`), the index counting within an instant."""

    name: str
    time: float
    index: int = 0
    value: Payload = None
    """None if it carries nothing; an enumeration's label; a tuple for an array."""
    units: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Plain values (they go into result files as JSON). An event between units has `landed`, how long before
    it its condition came true; `predicted`, {"at": …, "for": …}, when the pace first saw it coming and for
    when; and `changes`, such as {"upper.v": [before, after]}."""


class UnknownEvent(InvalidInput, KeyError):
    """A log has no event of that name. Also a `KeyError`, as for any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])


class EventLog(EventColumns, Sequence[Occurrence]):
    """Every event that fired, in order: a sequence of `Occurrence`s, kept as columns.

    ``log["light.lamp"]`` is the part of the log with that name; a slice is the part at these positions. Both
    share the memory of the whole where they can.
    """

    # -------------------------------------------------------------------- asking

    @overload
    def __getitem__(self, index: int) -> Occurrence: ...

    @overload
    def __getitem__(self, index: slice | str) -> EventLog: ...

    def __getitem__(self, index: int | slice | str) -> Occurrence | EventLog:
        if isinstance(index, str):
            if index not in self._codes_of:
                raise UnknownEvent(f"there is no event '{index}'. {suggest(index, self._codes_of, 'events')}")
            return self.take(np.flatnonzero(self._of(index)))
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        place = range(len(self))[index]
        return next(iter(self.take(range(place, place + 1))))

    def __contains__(self, item: object) -> bool:
        """Whether an event of that name has fired; or, of an `Occurrence`, whether it is in the log."""
        return item in self.names if isinstance(item, str) else any(entry == item for entry in self)

    def __iter__(self) -> Iterator[Occurrence]:
        for first in range(0, len(self), _AT_ONCE):
            part = self[first : first + _AT_ONCE] if len(self) > _AT_ONCE else self
            columns = (
                part.codes.tolist(),
                part.times().tolist(),
                part.indices.tolist(),
                part.payloads().tolist(),
            )
            for number, (code, time, index, value) in enumerate(zip(*columns, strict=True)):
                more = part._more.get(number, ((), {}))
                yield Occurrence(self._kinds[code].name, time, index, value, *more)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same: names, superdense times, payloads (bit for bit), units, details."""
        if not isinstance(other, EventLog) or len(self) != len(other) or self.names != other.names:
            return False
        names = {name: number for number, name in enumerate(self.names)}
        return (
            np.array_equal(self._numbers(names), other._numbers(names))
            and np.array_equal(self.times(), other.times())
            and np.array_equal(self.indices, other.indices)
            and all(_same(self.values(name), other.values(name)) for name in names)
            and self._more == other._more
        )

    __hash__ = None  # type: ignore[assignment]  # a log grows

    def __repr__(self) -> str:
        counts = (f"{count} × {name}" for name, count in self.counts().items())
        return f"EventLog({len(self)} events: {', '.join(counts) or 'none'})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the events that fired, each once, in order of first appearance."""
        codes = self.codes
        found = [(int((codes == code).argmax()), code) for code in np.flatnonzero(np.bincount(codes))]
        return tuple(dict.fromkeys(self._kinds[code].name for _, code in sorted(found)))

    def counts(self) -> dict[str, int]:
        """How often each event has fired, in order of first appearance."""
        totals = np.bincount(self.codes, minlength=len(self._kinds))
        return {name: int(sum(totals[code] for code in self._codes_of[name])) for name in self.names}

    def times(self, name: str | None = None) -> NDArray[np.float64]:
        """When the event `name` fired; without a name, when any did."""
        times = self._time.view
        return times if name is None else times[self._of(name)]

    def values(self, name: str | None = None) -> NDArray[Any]:
        """What the events carried: numbers, booleans, texts or labels; for an array, a row each.

        Events without payload give None. Where the events differ in kind, the result holds any object.
        """
        part = self if name is None else self.take(np.flatnonzero(self._of(name)))
        kinds = [part._kinds[code] for code in np.flatnonzero(np.bincount(part.codes))]
        if not kinds and name is not None:
            kinds = [part._kinds[code] for code in self._codes_of.get(name, [])]
        if len(kinds) == 1:
            cells = part.cells.view(np.float64).reshape(len(part), kinds[0].cells)
            return kinds[0].decode(cells, self.strings)
        return part.payloads()

    def of(self, name: str) -> list[tuple[float, int, Payload]]:
        """Time, index and payload of every event `name`."""
        part = self.take(np.flatnonzero(self._of(name)))
        return list(zip(part.times().tolist(), part.indices.tolist(), part.payloads().tolist(), strict=True))

    def payloads(self) -> NDArray[Any]:
        """What every event carried, as plain Python objects."""
        codes, starts = self.codes, self.starts
        found = np.empty(len(self), dtype=object)
        cells: Cells = self.cells.view(np.float64)
        for code in np.flatnonzero(np.bincount(codes)):
            where, kind = np.flatnonzero(codes == code), self._kinds[code]
            matrix = cells[starts[where][:, None] + np.arange(kind.cells)]
            values = kind.decode(matrix, self.strings)
            if kind.cells <= 1:
                found[where] = values.astype(object)
                continue
            for place, row in zip(where.tolist(), values.tolist(), strict=True):
                found[place] = tuple(row)
        return found

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {
            "version": VERSION,
            "kinds": [kind.to_data() for kind in self._kinds],
            "strings": list(self.strings),
            "code": self.codes.tolist(),
            "time": self.times().tolist(),
            "index": self.indices.tolist(),
            "cells": self.cells.tolist(),
            "more": [[place, list(units), dict(details)] for place, (units, details) in self._more.items()],
        }

    @classmethod
    def from_data(cls, data: Any) -> EventLog:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "the event log")
        if fields.whole("version") != VERSION:
            raise InvalidInput(f"this event log has version {fields.any('version')}: update this Upbeat")
        log = cls(fields.each("kinds", EventKind.from_data), fields.texts("strings"))
        times, cells = fields.array("time", np.float64), fields.array("cells", np.int64)
        log.fill(
            fields.array("code", np.int32),
            times,
            fields.array("index", np.int32),
            cells,
            fields.entries("more"),
        )
        return log

    # -------------------------------------------------------------------- inside

    def _of(self, name: str) -> NDArray[np.bool_]:
        return np.isin(self.codes, self._codes_of.get(name, []))

    def _numbers(self, names: Mapping[str, int]) -> NDArray[Any]:
        return np.array([names.get(kind.name, -1) for kind in self._kinds], dtype=np.int64)[self.codes]


class StoredEvents:
    """Events that a run has written to a file: how many of which, and the log itself when somebody asks."""

    def __init__(self, counts: Mapping[str, int], load: Callable[[], EventLog]) -> None:
        self.counts = dict(counts)
        self._load = load  # picklable, because traces are
        self._log: EventLog | None = None

    @property
    def log(self) -> EventLog:
        if self._log is None:
            self._log = self._load()[: sum(self.counts.values())]
        return self._log

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_log": None}


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Bit for bit for reals, so that NaN agrees with itself."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype == np.float64:
        one, other = one.view(np.int64), other.view(np.int64)
    return bool(np.array_equal(one, other))
