"""The event log: every event that fired, at superdense times, with what it carried."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, check_type, suggest
from upbeat.core.names import Labels
from upbeat.core.plain import Fields, same_length, shown
from upbeat.core.ports import Kind, Value
from upbeat.core.records import dataclass
from upbeat.trace.columns import Cells, Column, Growing, Pool, check_strings, labels_in, labels_of

# ----------------------------------------------------------------------------------------------------
# What an event carries: the kind of its payload, and how that becomes 8-byte cells and back.

Payload = Value | tuple[Value, ...] | None
"""What an event showed: nothing, a value (an enumeration's label), or the values of an array."""

_EXACT = 2**53
_MAX_CELLS = 1 << 20
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
        """The kind of an event that is not described, from one payload."""
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
    def payload_type(self) -> type | None:
        """The type of a payload for which `number_bits` are the cells, as they are for floats and nothing."""
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
        cells = fields.whole("cells", high=_MAX_CELLS) if "cells" in fields else 0
        unit = fields.text("unit") if "unit" in fields else None
        detailed = fields.flag("detailed") if "detailed" in fields else False
        return cls(fields.text("name"), kind, cells, unit, labels_in(fields), detailed)


def number_bits(value: float | None) -> list[int]:
    """The cells of a payload of a kind's `payload_type` type."""
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


# ----------------------------------------------------------------------------------------------------
# The columns behind an event log: how events come in, one by one or in bulk, and parts of them.
#
# An event costs 16 bytes (the number of its kind, its index within the instant, its time), and 8 more for
# every cell of its payload, in the layout of `upbeat.trace.columns`.

More = tuple[tuple[str, ...], Mapping[str, Any]]
"""The units that took part in an event, and details about it."""


class EventColumns:
    """Events in order, kept as columns.

    `kinds` describes the events that may come, and numbers them. An event that is not described, or that
    carries something else than was said, gets an entry of its own when it is appended; so one name may have
    several kinds. `strings` is the pool that string payloads are numbered in: pass the engine's own list.
    """

    def __init__(self, kinds: Iterable[EventKind] = (), strings: list[str] | None = None) -> None:
        check_type(kinds, Iterable, "kinds")
        self._kinds = list(kinds)
        for kind in self._kinds:
            check_type(kind, EventKind, "a kind of event")
        self._pool = Pool(strings)
        self._codes_of: dict[str, list[int]] = {}
        for code, kind in enumerate(self._kinds):
            self._codes_of.setdefault(kind.name, []).append(code)
        self._code = Growing(np.int32)
        self._time = Growing(np.float64)
        self._index = Growing(np.int32)
        self._cells = Growing(np.int64)
        self._more: dict[int, More] = {}
        self._codes_by_type: dict[tuple[str, type], int] = {}
        """The kinds that need no second look: by far most events carry what those before them did."""
        self._known_starts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._code)

    # -------------------------------------------------------------------- filling

    def append(
        self,
        name: str,
        time: float,
        index: int = 0,
        value: Any = None,
        units: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """One event. The `value` of an enumeration is its number or its label."""
        code = self._codes_by_type.get((name, type(value)))
        if code is None:
            code, cells = self._encoded(name, value)
        else:
            cells = number_bits(value)
        if units or details:
            self._more[len(self)] = (tuple(units), dict(details or {}))
        self._time.append(time)
        self._index.append(index)
        for cell in cells:
            self._cells.append(cell)
        self._code.append(code)

    def extend(
        self,
        names: Sequence[str],
        codes: ArrayLike,
        times: ArrayLike,
        indices: ArrayLike,
        cells: ArrayLike = (),
        strings: Sequence[str] | None = None,
        more: Iterable[tuple[int, Sequence[str], Mapping[str, Any]]] = (),
    ) -> None:
        """Many events at once, without any work per event in Python.

        * ``names[codes[i]]`` is the name of event number ``i`` of the call. A name that the log's `kinds`
          do not describe carries nothing.
        * ``times[i]`` and ``indices[i]`` are its superdense time.
        * `cells` are 8-byte cells without gaps: first those of event 0, then those of event 1, …; each
          event has as many as its kind says, which is none for an event without payload. A real is a
          double; integers, booleans (0 or 1) and enumerations are int64; a string is an int64, its number
          in `strings`, which is the log's own pool unless given. The array is of either type (int64 or
          float64): only its bits count.
        * `more`: units and details of those that have any, by their numbers in the call.

        All arrays are copied. Nothing is taken if they do not fit together.
        """
        table = np.array([self._code_of(name) for name in names], dtype=np.int32)
        given = np.asarray(codes, dtype=np.int64)
        if len(given) and not 0 <= given.min() <= given.max() < len(table):
            raise InvalidInput(f"events are numbered 0 to {len(table) - 1} by their names, not {given.max()}")
        fresh, bits = table[given], _bits_of(cells)
        when, which = np.asarray(times, dtype=np.float64), np.asarray(indices, dtype=np.int32)
        needed = int(self._widths[fresh].sum()) if len(fresh) else 0
        if not len(fresh) == len(when) == len(which) or len(bits) != needed:
            raise InvalidInput(
                f"{len(fresh)} events need as many times and indices and {needed} cells, "
                f"not {len(when)}, {len(which)} and {len(bits)}"
            )
        if strings is not None and strings is not self._pool.strings:
            bits = self._renumbered(fresh, bits, strings)
        self._note_more(more)
        for column, values in ((self._time, when), (self._index, which), (self._cells, bits)):
            column.extend(values)
        self._code.extend(fresh)

    def _note_more(self, more: Iterable[tuple[int, Sequence[str], Mapping[str, Any]]]) -> None:
        """Units and details of events that are going to be added."""
        start = len(self)
        self._more |= {start + place: (tuple(units), dict(details)) for place, units, details in more}

    def _encoded(self, name: str, value: Any) -> tuple[int, list[int]]:
        for code in self._codes_of.get(name, ()):
            cells = self._kinds[code].encode(value, self._pool.intern)
            if cells is not None:
                if self._kinds[code].payload_type is type(value):
                    self._codes_by_type[name, type(value)] = code
                return code, cells
        kind = EventKind.fitting(name, value)
        return self._add(kind), kind.encode(value, self._pool.intern) or []

    def _code_of(self, name: str) -> int:
        codes = self._codes_of.get(name)
        return codes[0] if codes else self._add(EventKind(name))

    def _add(self, kind: EventKind) -> int:
        self._kinds.append(kind)
        self._codes_of.setdefault(kind.name, []).append(len(self._kinds) - 1)
        return len(self._kinds) - 1

    def _renumbered(
        self, codes: NDArray[np.int32], bits: NDArray[np.int64], strings: Sequence[str]
    ) -> NDArray[np.int64]:
        text = np.array([kind.kind.value == "string" for kind in self._kinds], dtype=bool)
        cells = np.repeat(text[codes], self._widths[codes])
        if not cells.any():
            return bits
        numbers = np.array([self._pool.intern(text) for text in strings], dtype=np.int64)
        return np.where(cells, numbers[np.where(cells, bits, 0)], bits)

    def drop(self) -> None:
        """Forget the events, because they are on disk; the numbers of kinds and strings stay."""
        for column in (self._code, self._time, self._index, self._cells):
            column.clear()
        self._more = {}
        self._known_starts = np.zeros(1, dtype=np.int64)

    def fill(
        self,
        codes: ArrayLike,
        times: ArrayLike,
        indices: ArrayLike,
        cells: ArrayLike,
        more: Iterable[tuple[int, Sequence[str], Mapping[str, Any]]] = (),
    ) -> None:
        """Take columns that another log with the same `kinds` and `strings` had.

        They may come from a file: `ValueError` if they do not fit together, and nothing is taken.
        """
        when, which, bits = np.asarray(times), np.asarray(indices), _bits_of(cells)
        fresh = np.asarray(codes, dtype=np.int32)
        self._check(fresh, when, which, bits)
        self._note_more(_checked(more, len(fresh)))
        for column, values in ((self._time, when), (self._index, which), (self._cells, bits)):
            column.extend(values)
        self._code.extend(fresh)

    def _check(
        self, codes: NDArray[np.int32], times: NDArray[Any], indices: NDArray[Any], bits: NDArray[np.int64]
    ) -> None:
        same_length("events", (codes, times, indices))
        widths = self._widths
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(widths):
            raise ValueError(f"there are {len(widths)} kinds of event, and none with number {codes.max()}")
        each = widths[codes] if len(codes) else np.zeros(0, dtype=np.int64)
        if each.sum() != len(bits):
            raise ValueError(f"{len(codes)} events carry {each.sum()} values, not {len(bits)}")
        text = np.array([kind.kind is Kind.STRING for kind in self._kinds], dtype=bool)
        if len(codes) and text.any():
            check_strings(bits[np.repeat(text[codes], each)], self._pool.strings)

    # -------------------------------------------------------------------- columns

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """What the events may carry; `codes` are positions in it."""
        return tuple(self._kinds)

    @property
    def strings(self) -> list[str]:
        """The pool of string payloads."""
        return self._pool.strings

    @property
    def codes(self) -> NDArray[np.int32]:
        """The number of every event's kind."""
        return self._code.view

    @property
    def indices(self) -> NDArray[np.int32]:
        """The position of every event within its instant."""
        return self._index.view

    @property
    def cells(self) -> NDArray[np.int64]:
        """The payloads, one after the other."""
        return self._cells.view

    @property
    def more(self) -> dict[int, More]:
        """Units and details of those few events that have any, by position."""
        return dict(self._more)

    # -------------------------------------------------------------------- parts

    def join(self, other: EventColumns) -> None:
        """Take the events of a log whose kinds begin with the ones here, and whose strings are the same."""
        for kind in other.kinds[len(self._kinds) :]:
            self._add(kind)
        more = [(place, *about) for place, about in other.more.items()]
        self.fill(other.codes, other._time.view, other.indices, other.cells, more)

    def take(self, places: range | NDArray[np.intp]) -> Self:
        """The events at these positions; a view, if they lie side by side."""
        part = type(self)(self._kinds, self.strings)
        if not len(places):
            return part
        starts = self.starts
        if isinstance(places, range) and places.step == 1:
            chosen = slice(places.start, max(places.start, places.stop))
            part._cells = Growing.over(self.cells[starts[chosen.start] : starts[chosen.stop]])
            moved = {place - chosen.start: self._more[place] for place in self._more if place in places}
            columns: slice | NDArray[np.intp] = chosen
        else:
            columns = np.asarray(places, dtype=np.intp)
            each = np.diff(starts)[columns]
            inside = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
            part._cells = Growing.over(self.cells[np.repeat(starts[columns], each) + inside])
            moved = {n: self._more[p] for n, p in enumerate(columns.tolist()) if p in self._more}
        part._code = Growing.over(self.codes[columns])
        part._time = Growing.over(self._time.view[columns])
        part._index = Growing.over(self.indices[columns])
        part._more = moved
        return part

    @property
    def _widths(self) -> NDArray[np.int64]:
        return np.array([kind.cells for kind in self._kinds], dtype=np.int64)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the cells of every event begin, and where the last ones end."""
        if len(self._known_starts) != len(self) + 1:
            starts = np.zeros(len(self) + 1, dtype=np.int64)
            np.cumsum(self._widths[self.codes], out=starts[1:])
            self._known_starts = starts
        return self._known_starts


def _checked(more: Iterable[Any], count: int) -> list[tuple[int, list[str], Mapping[str, Any]]]:
    """Units and details as a file has them; `ValueError` if they are something else."""
    found = []
    for entry in more:
        try:
            place, units, details = entry
        except (TypeError, ValueError):
            raise ValueError(f"{shown(entry)} says nothing about an event") from None
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < count:
            raise ValueError(f"there are {count} events, and none with number {shown(place)}")
        if not isinstance(details, Mapping) or not isinstance(units, (list, tuple)):
            raise ValueError(f"{shown(entry)} says nothing about an event")
        found.append((place, list(map(str, units)), checked_details(details)))
    return found


def checked_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the log has of an event, with a number where others will look for one; `ValueError` if not."""
    if "landed" in details:
        Fields(dict(details), "the details of an event").number("landed")
    return details


def _bits_of(cells: ArrayLike) -> NDArray[np.int64]:
    array = np.ascontiguousarray(cells) if np.size(cells) else np.empty(0, dtype=np.int64)
    return array if array.dtype == np.int64 else array.view(np.int64)


# ----------------------------------------------------------------------------------------------------
# The event log: every event that fired, at superdense times, with what it carried.

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


class EventLog(Displayed, EventColumns, Sequence[Occurrence]):
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
    """Events that a run has written to a file: how many of which, and the log itself when asked for."""

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
