"""The rows of a result for a screen: followed in a file that grows, and thinned to what a picture can show.

A run writes its journal, and the server reads it: nothing is asked of the run, so that being watched costs it
nothing but the time in which it hands over what it has.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import FileProblem, InvalidInput, suggest
from upbeat.core.measure import Conversion, MeasureError, conversion
from upbeat.core.names import Labels
from upbeat.core.ports import Kind
from upbeat.trace.columns import Column
from upbeat.trace.events import EventLog
from upbeat.trace.files.journal import JournalReader
from upbeat.trace.log import Ending, Outcome, StepLog
from upbeat.trace.trace import read

Numbers = NDArray[np.float64]
MAX_SIGNALS = 200
"""Of one request."""
MAX_POINTS = 1_000_000
_FEW = 4
"""Of up to so many signals each gets all the points that were asked for; of more, they share them."""


class Rows:
    """The rows, the events and the end of one result file, as far as they have been written.

    Methods may be called from any thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: tuple[Column, ...] = ()
        self.strings: list[str] = []
        self.ending: Ending | None = None
        """How the run ended, once the file says so."""
        self.waiting = False
        """Whether nothing is read yet: a run that goes on first cuts the file back to its checkpoint."""
        self.count = 0
        self._cells = np.empty((0, 0))
        self._events = EventLog()
        self._reader: JournalReader | None = None
        self._turn = threading.RLock()
        self._whole = path.suffix != ".journal"

    def update(self) -> int:
        """Read what is new; how many rows there are now."""
        with self._turn:
            if self.waiting:
                return self.count
            if self._whole:
                if not self.columns:
                    self._read_whole()
                return self.count
            if self._reader is None and not self._open():
                return self.count
            assert self._reader is not None
            try:
                for part in self._reader.more():
                    if isinstance(part, EventLog):
                        self._events.join(part)
                    else:
                        self._append(part)
            except OSError:
                return self.count  # it has just been removed
            if self._reader.ending.outcome is not Outcome.CUT_OFF:
                self.ending = self._reader.ending
            return self.count

    def _open(self) -> bool:
        try:
            if not self.path.exists() or self.path.stat().st_size == 0:
                return False
            self._reader = JournalReader(self.path)
        except (FileProblem, OSError):
            return False
        self.columns, self.strings = self._reader.columns, self._reader.strings
        self._events = EventLog(strings=self.strings)
        self._cells = np.empty((1 + len(self.columns), 1024))
        return True

    def _append(self, cells: Numbers) -> None:
        need = self.count + len(cells)
        if need > self._cells.shape[1]:
            grown = np.empty((self._cells.shape[0], max(need, 2 * self._cells.shape[1])))
            grown[:, : self.count] = self._cells[:, : self.count]
            self._cells = grown
        self._cells[:, self.count : need] = cells.T
        self.count = need

    def _read_whole(self) -> None:
        """A result of another format, which does not grow."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = read(self.path)
        self.columns = trace.columns
        self.count = len(trace)
        pool: dict[str, int] = {}
        self._cells = np.empty((1 + len(self.columns), self.count))
        self._cells[0] = trace.time
        for number, column in enumerate(self.columns, 1):
            self._cells[number] = column.encode(
                trace[column.name], lambda text: pool.setdefault(text, len(pool))
            )
        self.strings = list(pool)
        self._events = trace.events
        self.ending = Ending(trace.outcome, trace.steps, trace.events, dict(trace.info), list(trace.notes))

    # ---------------------------------------------------------------- looking

    @property
    def time(self) -> Numbers:
        """The times of all rows."""
        with self._turn:
            return self._cells[0, : self.count] if self.count else np.empty(0)

    def named(self, name: str) -> Column:
        """What is recorded under a name."""
        found = next((one for one in self.columns if one.name == name), None)
        if found is None:
            names = [one.name for one in self.columns]
            raise InvalidInput(f"this run has no signal '{name}'. {suggest(name, names, 'signals')}")
        return found

    def column(self, name: str, first: int = 0, last: int | None = None) -> Numbers:
        """A signal as numbers: labels and texts by their codes."""
        with self._turn:
            column = self.named(name)
            number = 1 + self.columns.index(column)
            cells = self._cells[number, first : self.count if last is None else last]
            if column.kind is Kind.REAL:
                return cells
            return cells.view(np.int64).astype(np.float64)

    def signals(self) -> list[dict[str, Any]]:
        """What was recorded, as plain data."""
        return [self._signal(column) for column in self.columns]

    def _signal(self, column: Column) -> dict[str, Any]:
        labels: list[Any] | None = None
        if column.items:
            known = Labels.of(column.items)
            labels = [[code, known.label(code)] for code in known.codes]
        elif column.kind is Kind.STRING:
            labels = [[number, text] for number, text in enumerate(self.strings[:1000])]
        kind = "enumeration" if column.items else column.kind.value
        return {"name": column.name, "unit": column.unit, "kind": kind, "labels": labels}

    def window(
        self, names: Sequence[str], start: float | None, stop: float | None, points: int
    ) -> tuple[dict[str, Any], list[Numbers]]:
        """Rows between two times, thinned: a header, and the columns."""
        with self._turn:
            time = self.time
            first = 0 if start is None else max(int(np.searchsorted(time, start, side="left")) - 1, 0)
            last = self.count if stop is None else int(np.searchsorted(time, stop, side="right")) + 1
            return self.part(names, first, min(last, self.count), points)

    def part(
        self, names: Sequence[str], first: int, last: int, points: int
    ) -> tuple[dict[str, Any], list[Numbers]]:
        """Rows by their numbers, thinned."""
        with self._turn:
            time = self.time[first:last]
            values = [self.column(name, first, last) for name in names]
            chosen = thinned(time, values, points)
            columns = [time, *values] if chosen is None else [one[chosen] for one in (time, *values)]
            return {"rows": len(columns[0]), "total": last - first, "columns": ["time", *names]}, columns

    @property
    def happened(self) -> int:
        """How many events there are."""
        return len(self._events)

    def events(self, first: int = 0, last: int | None = None) -> list[dict[str, Any]]:
        """Events by their numbers, as plain data."""
        with self._turn:
            part = self._events[first : len(self._events) if last is None else last]
            return [event_data(event) for event in part]

    def events_between(
        self, start: float | None, stop: float | None, most: int
    ) -> tuple[list[dict[str, Any]], int]:
        """Events between two times, and how many more there are than were asked for."""
        with self._turn:
            when = self._events.times()
            first = 0 if start is None else int(np.searchsorted(when, start, side="left"))
            last = len(when) if stop is None else int(np.searchsorted(when, stop, side="right"))
            return self.events(first, min(last, first + most)), max(last - first - most, 0)


def event_data(event: Any) -> dict[str, Any]:
    """An event as the page shows it."""
    unit, dot, _ = event.name.rpartition(".")
    details = dict(event.details or {})
    units = list(event.units or ()) or ([unit] if dot else [])
    value = event.value
    what = "" if value is None or value is True else str(value)
    return {
        "t": event.time,
        "index": event.index,
        "name": event.name,
        "kind": "scenario" if "landed" in details else "unit",
        "unit": units[0] if units else None,
        "units": units,
        "predicted": details.get("predicted", {}).get("for"),
        "what": what,
        "details": details,
    }


def steps_data(log: StepLog, most: int = 5000) -> list[dict[str, Any]]:
    """Runs of equal steps with their reasons; of very many, the shortest and the longest of neighbours."""
    runs = list(log)
    if len(runs) > most:
        share = -(-2 * len(runs) // most)
        kept = set()
        for first in range(0, len(runs), share):
            part = range(first, min(first + share, len(runs)))
            kept |= {min(part, key=lambda k: runs[k].size), max(part, key=lambda k: runs[k].size)}
        runs = [runs[k] for k in sorted(kept)]
    return [step_data(run) for run in runs]


def step_data(run: Any) -> dict[str, Any]:
    """One run of equal steps."""
    return {
        "t": run.first, "to": run.last, "step": run.size, "count": run.count, "reason": run.reason,
        "rejected": run.rejected,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# Thinning. What is left are rows of the result, each with its own time and values: in every stretch of time
# the first and the last row, those with the least and the greatest value of each signal, and both rows of the
# widest jump.


def thinned(time: Numbers, values: Sequence[Numbers], points: int) -> NDArray[np.intp] | None:
    """The numbers of the rows to draw, about `points` for each signal; None if all are few enough."""
    count = len(time)
    points = max(4, min(points, MAX_POINTS))
    if count <= points:
        return None
    shares = max(1, -(-len(values) // _FEW))
    stretches = max(1, points // (4 * shares))
    edges = np.linspace(time[0], time[-1], stretches + 1)[1:-1]
    starts = np.unique(np.concatenate([[0], np.searchsorted(time, edges, side="left")]))
    starts = starts[starts < count]
    lengths = np.diff(np.append(starts, count))
    kept = [starts, starts + lengths - 1]
    for value in values:
        for extreme, filler in ((np.minimum, np.inf), (np.maximum, -np.inf)):
            known = np.where(np.isnan(value), filler, value)
            kept.append(_first_of(known, extreme.reduceat(known, starts), starts, lengths))
    jumps = np.flatnonzero(time[1:] == time[:-1])
    if len(jumps) and len(values):
        height = np.zeros(len(jumps))
        for value in values:
            size = np.abs(value[jumps + 1] - value[jumps])
            span = np.nanmax(value) - np.nanmin(value) if np.isfinite(value).any() else 0.0
            height = np.maximum(height, np.nan_to_num(size) / span if span > 0 else 0.0)
        where = np.searchsorted(starts, jumps, side="right") - 1
        order = np.lexsort((-height, where))
        widest = order[np.append(True, np.diff(where[order]) > 0)]
        chosen = jumps[widest]
        kept += [chosen, chosen + 1]
    return np.unique(np.concatenate(kept))


def _first_of(
    values: Numbers, wanted: Numbers, starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> NDArray[np.intp]:
    """In every stretch, the first row with the wanted value."""
    hits = np.flatnonzero(values == np.repeat(wanted, lengths))
    stretch = np.searchsorted(starts, hits, side="right") - 1
    return hits[np.append(True, np.diff(stretch) > 0)] if len(hits) else hits


def packed(header: dict[str, Any], columns: Sequence[Numbers]) -> bytes:
    """A header and columns as one message: a line of JSON, padded so that numbers are aligned; doubles."""
    line = json.dumps(header, separators=(",", ":")).encode()
    line += b" " * (-(len(line) + 1) % 8) + b"\n"
    return b"".join([line, *(np.ascontiguousarray(column, dtype="<f8").tobytes() for column in columns)])


def difference(a: Rows, b: Rows, names: Sequence[str], points: int) -> tuple[dict[str, Any], list[Numbers]]:
    """a − b at the times of a and at the jumps of b, in the units of measure of a. At jumps before is
    compared with before, and after with after.

    Between rows reals are interpolated, everything else is held, as `Trace.at` does.
    """
    if not a.count or not b.count:
        raise InvalidInput("one of the two runs has no rows yet")
    shared = alike(a, b, names)
    numbers = [name for name in shared if not b.named(name).items and b.named(name).kind is not Kind.STRING]
    if not numbers:
        raise InvalidInput("the two runs have none of these signals in common, as numbers of one dimension")
    first, last = max(a.time[0], b.time[0]), min(a.time[-1], b.time[-1])
    jumps = np.union1d(_jumps(a.time), _jumps(b.time))
    times = np.union1d(a.time, _jumps(b.time))
    times = times[(times >= first) & (times <= last)]
    at = np.repeat(times, 1 + np.isin(times, jumps))
    early = np.append(at[:-1] == at[1:], [False] * bool(len(at)))
    found = [_at(a, name, at, early) - shared[name](_at(b, name, at, early)) for name in numbers]
    chosen = thinned(at, found, points)
    columns = [at, *found] if chosen is None else [one[chosen] for one in (at, *found)]
    return {"rows": len(columns[0]), "total": len(at), "columns": ["time", *numbers]}, columns


def alike(a: Rows, b: Rows, names: Sequence[str]) -> dict[str, Callable[[Numbers], Numbers]]:
    """The signals that both have and that mean the same, with how to say those of b as a does."""
    mine, theirs = ({one.name: one for one in rows.columns} for rows in (a, b))
    found: dict[str, Callable[[Numbers], Numbers]] = {}
    for name in names:
        if name not in mine or name not in theirs:
            continue
        one, other = mine[name], theirs[name]
        if one.kind is not other.kind or one.items != other.items:
            continue
        if one.kind is Kind.STRING:
            codes = [a.strings.index(text) if text in a.strings else np.nan for text in b.strings]
            found[name] = partial(_recoded, np.array(codes, dtype=float))
            continue
        try:
            how = conversion(other.unit, one.unit)
        except (MeasureError, InvalidInput):
            continue
        found[name] = partial(_converted, how)
    return found


def _recoded(codes: Numbers, values: Numbers) -> Numbers:
    return codes[values.astype(np.intp)]


def _converted(how: Conversion, values: Numbers) -> Numbers:
    return how.scale * values + how.offset if how else values


def _jumps(time: Numbers) -> Numbers:
    """The times with more than one row."""
    return np.unique(time[1:][time[1:] == time[:-1]])


def _at(rows: Rows, name: str, at: Numbers, early: NDArray[np.bool_]) -> Numbers:
    """A signal at some times; at jumps what is before them, where that is asked for."""
    time, values = rows.time, rows.column(name)
    first = np.minimum(np.searchsorted(time, at, side="left"), len(time) - 1)
    row = np.where(early & (time[first] == at), first, np.searchsorted(time, at, side="right") - 1)
    found = values[row]
    if rows.named(name).kind is not Kind.REAL:
        return found
    after = np.minimum(row + 1, len(time) - 1)
    span = time[after] - time[row]
    share = np.divide(at - time[row], span, out=np.zeros(len(at)), where=span > 0)
    return np.where(share > 0, found + share * (values[after] - found), found)
