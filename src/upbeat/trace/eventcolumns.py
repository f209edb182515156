"""The columns behind an event log: how events come in, one by one or in bulk, and parts of them.

An event costs 16 bytes (the number of its kind, its index within the instant, its time), and 8 more for
every cell of its payload, in the layout of `upbeat.trace.columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upbeat.core.errors import InvalidInput, check_type
from upbeat.core.plain import Fields, same_length, shown
from upbeat.core.ports import Kind
from upbeat.trace.columns import Pool, check_strings
from upbeat.trace.eventkinds import EventKind, usual_bits
from upbeat.trace.growing import Growing

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
        self._usual: dict[tuple[str, type], int] = {}
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
        code = self._usual.get((name, type(value)))
        if code is None:
            code, cells = self._encoded(name, value)
        else:
            cells = usual_bits(value)
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
                if self._kinds[code].usual is type(value):
                    self._usual[name, type(value)] = code
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
    """What is told of an event, with a number where others will look for one; `ValueError` if not."""
    if "landed" in details:
        Fields(dict(details), "what is told of an event").number("landed")
    return details


def _bits_of(cells: ArrayLike) -> NDArray[np.int64]:
    array = np.ascontiguousarray(cells) if np.size(cells) else np.empty(0, dtype=np.int64)
    return array if array.dtype == np.int64 else array.view(np.int64)
