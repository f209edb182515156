"""The recorder: collects the rows of a run into chunks and hands these to a sink."""

from __future__ import annotations

import copy
import mmap
import struct
import threading
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from math import nan
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import FileProblem, InvalidInput, RecordingError, RunError
from upbeat.core.plain import Fields, same_length
from upbeat.core.ports import Kind, Value
from upbeat.core.records import dataclass
from upbeat.trace.columns import TIME, Cells, Column, Pool
from upbeat.trace.events import EventKind, EventLog, StoredEvents
from upbeat.trace.log import Ending, Outcome, StepLog

# ----------------------------------------------------------------------------------------------------
# Where recorded rows go and come from: what sinks and sources have, and the ones in memory.


class Source(Protocol):
    """What a `Trace` reads from: decoded columns by index, time being column 0."""

    @property
    def rows(self) -> int: ...

    def column(self, index: int) -> NDArray[Any]: ...


class Sink(Protocol):
    """Takes chunks of rows. Call order: `begin`, any number of `write`s, `close`.

    The constructor checks whatever can be checked before a run, and keeps other runs out; nothing is
    overwritten before the first `write`. A failure raises `FileProblem`, and what was written before
    stays readable.
    """

    streams: bool
    """Whether memory stays flat, however many rows are written."""

    def begin(self, columns: tuple[Column, ...], kinds: tuple[EventKind, ...] = ()) -> None:
        """What the rows hold, and the events that are expected; others may come."""
        ...

    def write(self, cells: Cells, strings: Sequence[str]) -> None:
        """Take a chunk. `strings` is the whole pool so far.

        A sink that `streams` is done with the chunk when this returns; any other owns it from now on.
        """
        ...

    def close(self, ending: Ending) -> None:
        """Finish. No `write` follows."""
        ...

    def source(self) -> Source:
        """The rows so far, to be read again; also while more are being written."""
        ...


class FileSink(Sink, Protocol):
    """A sink that `streams`, to a file. Events come between the rows, and never twice."""

    def write_events(self, events: EventLog, strings: Sequence[str]) -> None:
        """Take events. All calls number the kinds alike; `strings` is the pool of rows and events."""
        ...

    def stored_events(self) -> Callable[[], EventLog]:
        """How to read the events so far again; picklable."""
        ...

    def position(self) -> dict[str, Any]:
        """How far the files have come, as plain data; what is said here is safe on the disk."""
        ...

    def resume_from(self, position: Fields) -> None:
        """After `begin`: go on where another process stood, and cut off what it has written since.

        `FileProblem` if the files are not those, and then nothing was changed.
        """
        ...


def events_beside(path: Path) -> Path:
    """The second file of a result, for formats that are one table a file: ``run.csv``, ``run.events.csv``."""
    return path.with_name(f"{path.stem}.events{path.suffix}")


class MemorySink:
    """Keeps the rows in memory, at little more than their own size.

    Chunks are kept as they come, because turning rows into columns would cost more than recording
    itself. The first question for a column turns all chunks into columns, and gives each chunk up
    as soon as it is copied: at no time is there a second copy of everything.
    """

    streams = False

    def __init__(self) -> None:
        self.rows = 0
        self._columns: tuple[Column, ...] = ()
        self._chunks: list[Cells] = []
        self._pieces: list[list[Cells]] = []
        self._strings: Sequence[str] = ()

    def begin(self, columns: tuple[Column, ...], kinds: tuple[EventKind, ...] = ()) -> None:
        self._columns = (TIME, *columns)
        self._pieces = [[] for _ in self._columns]

    def write(self, cells: Cells, strings: Sequence[str]) -> None:
        self.rows += len(cells)
        self._chunks.append(cells)
        self._strings = strings

    def close(self, ending: Ending) -> None:
        pass

    def source(self) -> Source:
        return First(self.rows, self)

    def column(self, index: int) -> NDArray[Any]:
        if self._chunks:
            self._turn()
        pieces = self._pieces[index]
        if len(pieces) != 1:
            self._pieces[index] = pieces = [np.concatenate(pieces) if pieces else np.empty(0)]
        return self._columns[index].decode(pieces[0], self._strings)

    def _turn(self) -> None:
        """Turn the chunks so far into one more piece of every column."""
        rows, first = sum(map(len, self._chunks)), 0
        fresh = [_lazily(rows) for _ in self._columns]
        self._chunks.reverse()
        while self._chunks:
            chunk = self._chunks.pop()
            for number, piece in enumerate(fresh):
                piece[first : first + len(chunk)] = chunk[:, number]
            first += len(chunk)
        for pieces, piece in zip(self._pieces, fresh, strict=True):
            pieces.append(piece)


def _lazily(rows: int) -> Cells:
    """An array whose memory comes into being page by page as it is written, whatever the allocator does."""
    return np.frombuffer(mmap.mmap(-1, 8 * rows)) if rows > 1 << 14 else np.empty(rows)


class Arrays:
    """A source over arrays that are already decoded."""

    def __init__(self, arrays: Iterable[NDArray[Any]]) -> None:
        self._arrays = tuple(arrays)

    @property
    def rows(self) -> int:
        return len(self._arrays[0])

    def column(self, index: int) -> NDArray[Any]:
        return self._arrays[index]


@dataclass(frozen=True, slots=True)
class First:
    """The first `rows` rows of a source: a trace taken from a run that goes on does not grow with it."""

    rows: int
    source: Source

    def column(self, index: int) -> NDArray[Any]:
        return self.source.column(index)[: self.rows]


class Deferred:
    """The first `rows` rows of a source that is opened when a column is asked for.

    So the result of a long run stays on disk until it is read. `load` must be picklable, because
    traces are; what was loaded is not pickled with them.
    """

    def __init__(self, rows: int, load: Callable[[], Source]) -> None:
        self.rows = rows
        self._load = load
        self._source: Source | None = None

    def column(self, index: int) -> NDArray[Any]:
        if self._source is None:
            self._source = self._load()
        return self._source.column(index)[: self.rows]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_source": None}


@dataclass(frozen=True, slots=True)
class Stored:
    """What a result file holds."""

    columns: tuple[Column, ...]
    source: Source
    ending: Ending = field(default_factory=Ending)


# ----------------------------------------------------------------------------------------------------
# Minimum, maximum, mean and final value of every column, kept up to date while rows stream by.

_ARRAYS = ("minimum", "maximum", "integral", "final")


@dataclass(frozen=True, slots=True)
class Summary:
    """What one numeric column did. `mean` is over time (not over rows), so uneven steps do no harm; what was
    not a number, because its unit was not there, does not count."""

    minimum: float
    mean: float
    maximum: float
    final: float


class Statistics:
    """Running statistics of the numeric columns; its cost is per chunk, with no Python work per row."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.rows = 0
        self.first_time = self.last_time = 0.0
        self._columns = tuple(columns)
        self._reals = np.array([i for i, c in enumerate(columns) if c.kind is Kind.REAL], dtype=np.intp)
        self._whole = np.array(
            [i for i, c in enumerate(columns) if c.kind in (Kind.INTEGER, Kind.BOOLEAN)], dtype=np.intp
        )
        self._all_real = len(self._reals) == len(columns)
        self._minimum = np.full(len(columns), np.inf)
        self._maximum = np.full(len(columns), -np.inf)
        self._integral = np.zeros(len(columns))
        self._absent = np.zeros(len(columns))
        """For how long there was no number."""
        self._final = np.zeros(len(columns))

    def add(self, cells: Cells) -> None:
        """Take the next rows."""
        if len(cells) == 0:
            return
        time = cells[:, 0]
        gap = time[0] - self.last_time if self.rows else 0.0
        between = np.diff(time)
        reals = cells[:, 1:] if self._all_real else cells[:, 1 + self._reals]
        self._take(self._reals, reals, 0.5 * gap, _trapezoid(0.5 * between, 0.5 * gap))
        if len(self._whole):
            whole = cells[:, 1 + self._whole].view(np.int64).astype(np.float64)
            self._take(self._whole, whole, gap, np.append(between, 0.0))
        if self.rows == 0:
            self.first_time = float(time[0])
        self.last_time = float(time[-1])
        self.rows += len(cells)

    def _take(self, which: NDArray[np.intp], values: Cells, before: float, weights: Cells) -> None:
        if len(which) == 0:
            return
        last, final = self._final[which], values[-1]
        if np.isnan(values).any() or np.isnan(last).any():
            missing = np.isnan(values)
            self._absent[which] += before * np.isnan(last) + weights @ missing
            last, values = np.nan_to_num(last), np.where(missing, 0.0, values)
            least = np.where(missing, np.inf, values).min(axis=0)
            greatest = np.where(missing, -np.inf, values).max(axis=0)
        else:
            least, greatest = values.min(axis=0), values.max(axis=0)
        self._minimum[which] = np.minimum(self._minimum[which], least)
        self._maximum[which] = np.maximum(self._maximum[which], greatest)
        self._integral[which] += before * last + weights @ values
        self._final[which] = final

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file."""
        arrays = {name: getattr(self, f"_{name}").tolist() for name in _ARRAYS}
        arrays |= {"absent": self._absent.tolist()} if self._absent.any() else {}
        return {"rows": self.rows, "first_time": self.first_time, "last_time": self.last_time, **arrays}

    def take_over(self, data: Any) -> None:
        """Go on from what `to_data` gave, of the same columns; `ValueError` if it is something else."""
        fields = Fields(data, "the statistics")
        rows, first, last = fields.whole("rows"), fields.number("first_time"), fields.number("last_time")
        names = (*_ARRAYS, *(("absent",) if "absent" in fields else ()))
        arrays = {name: fields.array(name, np.float64) for name in names}
        same_length("the statistics", (*arrays.values(), self._columns))
        self.rows, self.first_time, self.last_time = rows, first, last
        for name, values in arrays.items():
            getattr(self, f"_{name}")[:] = values

    def __getitem__(self, index: int) -> Summary | None:
        """The summary of a column; None for strings, and when there are no rows."""
        if self.rows == 0 or self._columns[index].kind is Kind.STRING:
            return None
        span = self.last_time - self.first_time - float(self._absent[index])
        final = float(self._final[index])
        if self._minimum[index] > self._maximum[index]:  # there was none
            return Summary(nan, nan, nan, final)
        mean = float(self._integral[index]) / span if span > 0 else final
        return Summary(float(self._minimum[index]), mean, float(self._maximum[index]), final)


def _trapezoid(halves: Cells, before: float) -> Cells:
    """The weight of every row: half the time since the row before it and half the time to the next."""
    weights = np.zeros(len(halves) + 1)
    weights[:-1] += halves
    weights[1:] += halves
    weights[0] += before
    return weights


# ----------------------------------------------------------------------------------------------------

CHUNK_BYTES = 1 << 20
"""The usual size of a chunk: large enough that its overhead vanishes, small enough to lose."""
MAX_EVENTS = 1 << 15
"""How many events wait for a row to be written with, about a chunk of them."""
PATIENCE = 1.0
"""Seconds after which a streaming recorder writes what it has: a slow run loses little when killed."""


class Recorder:
    """Collects rows and writes them to `sink` in chunks.

    Rows come in two ways: `row`, one at a time as Python values, keeping the first of every `every`;
    and `block`, a whole matrix of cells from the native engine, which has done its own thinning.
    Where something changed at an instant, there are two rows of one time, before and after, whatever
    `every` says; without `jumps` only the one after, as if nothing had changed there.
    `finish` adds the last row if thinning has left it out; of a run that ends before its time `close` does.
    `Trace.from_recorder` makes a trace.

    Events are appended to `events`, a log that knows the given `kinds`. With a sink that streams they
    leave it with the next chunk of rows.

    One thread at a time; only `save_rows` may come from another one.

    `strings` is the pool of string values: pass the engine's own list if it has one. A sink that
    cannot write any further raises `RecordingError`, once: from then on rows are dropped.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        sink: Sink,
        every: int = 1,
        chunk_rows: int | None = None,
        strings: list[str] | None = None,
        kinds: Sequence[EventKind] = (),
        *,
        jumps: bool = True,
    ) -> None:
        if every < 1:
            raise InvalidInput(f"record every 1st, 2nd, … row: 'every' must be at least 1, not {every}")
        self.columns = tuple(columns)
        self.every = every
        self.jumps = jumps
        self.chunk_rows = chunk_rows or max(16, CHUNK_BYTES // (8 * (1 + len(self.columns))))
        self.rows = 0
        self._sink = sink
        self._file = cast(FileSink, sink) if sink.streams else None
        self._pool = Pool(strings)
        self.events = EventLog(kinds, self._pool.strings)
        self._counts: dict[str, int] = {}
        self._statistics = Statistics(self.columns) if sink.streams else None
        self._texts = tuple(i for i, column in enumerate(self.columns) if column.kind is Kind.STRING)
        codes = "".join("d" if column.kind is Kind.REAL else "q" for column in (TIME, *self.columns))
        self._row = struct.Struct("=" + codes)
        self._offered = 0
        self._fill = 0
        self._due = 0.0
        self._last = b""
        self._left_out: tuple[float, Callable[[], None]] | None = None
        self._closed = self._broken = False
        self._guard = threading.RLock()
        self._late: RecordingError | None = None
        self._fresh_chunk()
        sink.begin(self.columns, tuple(kinds))

    def row(self, time: float, values: Sequence[Value], left: Sequence[Value] | None = None) -> None:
        """Offer the values of all columns at `time`, and what was `left` of what happened there, if known."""
        self._offered += 1
        with self._guard:
            if self._jumped(left, values):
                self._keep(time, cast(Sequence[Value], left))
                self._keep(time, values)
            elif self.every == 1 or self._offered % self.every == 1:
                self._keep(time, values)
            else:
                self._left_out = time, lambda: self._keep(time, values)
                self._flush_if_due()

    def leave_out(self, cells: Cells, strings: Sequence[str]) -> None:
        """The last row that was offered to the native engine, which has left it out; as for `block`."""
        self._left_out = float(cells[0, 0]), lambda: self.block(cells, strings)

    def jump(self, time: float, left: Sequence[Value], right: Sequence[Value]) -> None:
        """What changed at `time`, after its row was offered: a second row of that time, always kept.

        If the first one was left out, it comes before it, so that the jump is seen as one.
        """
        if not self._jumped(left, right):
            return
        with self._guard:
            if self._last_time() != time:
                self._keep(time, left)
            self._keep(time, right)

    def _jumped(self, left: Sequence[Value] | None, right: Sequence[Value]) -> bool:
        """Whether any bit differs, as in the core: what is not a number stays what it is."""
        return self.jumps and left is not None and self._packed(0.0, left) != self._packed(0.0, right)

    def _last_time(self) -> float | None:
        """The time of the last row that was kept, as far as it is known here."""
        if self._fill:
            return float(self._cells[self._fill - 1, 0])
        return struct.unpack_from("=d", self._last)[0] if self._last else None

    def finish(self, time: float, values: Sequence[Value], left: Sequence[Value] | None = None) -> None:
        """Offer the last row of the run, as for `row`: it is kept unless it already is the last one."""
        with self._guard:
            if self._jumped(left, values):
                self._keep(time, cast(Sequence[Value], left))
            fill = self._fill
            self._keep(time, values, flush=False)
            size = self._row.size
            end = self._bytes[fill * size : (fill + 1) * size]
            before = self._bytes[(fill - 1) * size : fill * size] if fill else self._last
            if end == before:
                self._fill = fill
                self.rows -= 1
            elif self._fill == self.chunk_rows:
                self.flush()

    def block(self, cells: Cells, strings: Sequence[str] | None = None) -> None:
        """Take many rows at once: a matrix of cells, time first, which is not changed any more.

        Texts are numbers in `strings`, which is the recorder's own pool unless given.
        """
        with self._guard:
            if len(cells):
                self._take(cells, strings)

    def _take(self, cells: Cells, strings: Sequence[str] | None) -> None:
        count = len(cells)
        if self._texts and strings is not None and strings is not self._pool.strings:
            numbers = np.array([self._pool.intern(text) for text in strings], dtype=np.int64)
            for index in self._texts:
                column = cells[:, 1 + index].copy().view(np.int64)
                cells[:, 1 + index] = numbers[column].view(np.float64)
        if count * 4 <= self.chunk_rows:  # many small blocks should not become many small chunks
            if self._fill + count > self.chunk_rows:
                self.flush()
            self._cells[self._fill : self._fill + count] = cells
            self._fill += count
            self.rows += count
            self._flush_if_due()
            return
        self.flush()
        if cells.base is not None and cells.base.nbytes > 1.1 * cells.nbytes:
            cells = cells.copy()  # a slice would keep all of a half-filled buffer alive
        self._write(cells)
        self.rows += count

    def flush(self) -> None:
        """Hand the rows and events so far to the sink."""
        with self._guard:
            late, self._late = self._late, None
            if late is not None:
                raise late
            self._flush_events()
            self._flush_rows()

    def after(self, rows: int) -> None:
        """So many rows have been offered: thinning goes on in time with them."""
        self._offered = rows

    def number(self, text: str) -> int:
        """The number of a text in the recorder's own pool."""
        return self._pool.intern(text)

    @property
    def takes_early(self) -> bool:
        """Whether `save_rows` has a use for more rows: a file, and no texts (it lacks their numbers)."""
        return self._file is not None and not self._texts

    def save_rows(self, more: Cells | None = None) -> None:
        """From another thread, while nothing comes: hand the rows so far, and `more`, to a sink that streams.

        The events wait until they are collected. What goes wrong is raised by the next `flush`.
        """
        with self._guard:
            try:
                if self._file is not None and not self._closed:
                    if more is not None and len(more):
                        self._take(more.copy(), None)
                    self._flush_rows()
            except RecordingError as error:
                self._late = error

    def _flush_rows(self) -> None:
        if self._broken:
            self._fill = 0
        if self._fill == 0:
            return
        filled = self._cells[: self._fill]
        if self._sink.streams:
            self._write(filled)
        elif self._fill * 10 >= 9 * self.chunk_rows:
            self._write(filled)
            self._fresh_chunk()
        else:
            self._write(filled.copy())
        self._fill = 0

    def close(
        self,
        outcome: Outcome,
        *,
        steps: StepLog | None = None,
        info: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        """Write what is left and how the run ended. A second call does nothing."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            self._end(outcome, steps, info, notes)

    def _end(
        self, outcome: Outcome, steps: StepLog | None, info: Mapping[str, Any] | None, notes: Iterable[str]
    ) -> None:
        ending = Ending(outcome, steps or StepLog(), self.events, dict(info or {}), list(notes))
        try:
            self._keep_last()
            self.flush()
        finally:
            said = (RecordingError,) if self._broken else ()
            if self._broken:
                ending.outcome = Outcome.FAILED
            with suppress(*said), self._writing():
                self._sink.close(ending)

    def _keep_last(self) -> None:
        """The last row is kept, whatever comes of thinning and however the run has ended."""
        if self._left_out is not None and not self._broken:
            time, keep = self._left_out
            before = self._last_time()
            if before is None or before < time:
                keep()

    def source(self) -> Source:
        """All rows so far, to be read again."""
        self.flush()
        if self.rows == 0 and self._file is not None:  # there may be no file yet
            return Arrays(column.decode(np.empty(0), ()) for column in (TIME, *self.columns))
        return self._sink.source()

    def statistics(self) -> Statistics | None:
        """Those of the rows so far, if the sink streams: reading the rows again would cost memory."""
        self.flush()
        return copy.deepcopy(self._statistics)

    def stored_events(self) -> StoredEvents | EventLog:
        """The events so far; further ones do not join them."""
        self.flush()
        if self._file is None or not self._counts:
            return self.events[:]
        return StoredEvents(self._counts, self._file.stored_events())

    def position(self) -> dict[str, Any]:
        """Where the recorder stands, as plain data, with all rows and events safe on the disk."""
        if self._file is None or self._statistics is None:
            raise InvalidInput("only a recorder that streams to a file can go on in another process")
        self.flush()  # from here on nothing is left for `save_rows`
        return {
            "rows": self.rows,
            "offered": self._offered,
            "strings": list(self._pool.strings),
            "kinds": [kind.to_data() for kind in self.events.kinds],
            "counts": self._counts,
            "statistics": self._statistics.to_data(),
            "sink": self._file.position(),
        }

    def resume_from(self, position: Mapping[str, Any]) -> None:
        """Go on where another process stood. This one must have been made with its strings and kinds."""
        if self._file is None or self._statistics is None:
            raise InvalidInput("only a recorder that streams to a file can go on in another process")
        try:
            self.rows, self._offered = position["rows"], position["offered"]
            self._counts = dict(position["counts"])
            self._statistics.take_over(position["statistics"])
            self._file.resume_from(
                Fields(position["sink"], "what is said about result files")
            )  # the last: it cuts
        except (FileProblem, ValueError) as problem:
            self._closed = True
            self._sink.close(Ending(Outcome.FAILED))  # which has not begun, and leaves all as it is
            if isinstance(problem, FileProblem):
                raise
            raise FileProblem(f"the checkpoint does not fit its results: {problem}") from None

    def _flush_if_due(self) -> None:
        if self._fill == self.chunk_rows or (
            self._file is not None and (len(self.events) >= MAX_EVENTS or clock.monotonic() > self._due)
        ):
            self.flush()
            self._due = clock.monotonic() + PATIENCE

    def _flush_events(self) -> None:
        if self._file is None or len(self.events) == 0:
            return
        if not self._broken:
            with self._writing():
                self._file.write_events(self.events, self._pool.strings)
            for name, count in self.events.counts().items():
                self._counts[name] = self._counts.get(name, 0) + count
        self.events.drop()

    def _fresh_chunk(self) -> None:
        self._cells = np.empty((self.chunk_rows, 1 + len(self.columns)))
        self._bytes = self._cells.data.cast("B")
        self._due = clock.monotonic() + PATIENCE

    def _write(self, cells: Cells) -> None:
        self._last = cells[-1].tobytes()
        with self._writing():
            self._sink.write(cells, self._pool.strings)
        if self._statistics is not None:  # a sink that streams has left the cells as they were
            self._statistics.add(cells)
        self._due = clock.monotonic() + PATIENCE

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except FileProblem as problem:
            self._broken = True
            self._fill = 0
            raise RecordingError(str(problem)) from problem

    def _keep(self, time: float, values: Sequence[Value], flush: bool = True) -> None:
        values = self._numbered(values)
        try:
            self._row.pack_into(self._bytes, self._fill * self._row.size, time, *values)
        except (struct.error, TypeError):
            self._row.pack_into(self._bytes, self._fill * self._row.size, time, *self._plain(values))
        self._fill += 1
        self.rows += 1
        if flush:
            self._flush_if_due()

    def _packed(self, time: float, values: Sequence[Value]) -> bytes:
        values = self._numbered(values)
        try:
            return self._row.pack(time, *values)
        except (struct.error, TypeError):
            return self._row.pack(time, *self._plain(values))

    def _numbered(self, values: Sequence[Value]) -> Sequence[Value]:
        """Texts by their numbers in the pool."""
        if not self._texts:
            return values
        values = list(values)
        for index in self._texts:
            values[index] = self._pool.intern(str(values[index]))
        return values

    def _plain(self, values: Sequence[Value]) -> list[float]:
        """Values that `struct` refuses although they fit (NumPy's booleans); or an error that says which."""
        if len(values) != len(self.columns):
            raise RunError(f"{len(self.columns)} values were expected for a row, not {len(values)}")
        plain: list[float] = []
        for column, value in zip(self.columns, values, strict=True):
            try:
                number = float(value) if column.kind is Kind.REAL else int(value)
                struct.pack("=d" if column.kind is Kind.REAL else "=q", number)
                if number != value:
                    raise ValueError
            except (TypeError, ValueError, OverflowError, struct.error):
                raise RunError(f"'{column.name}' is {column.kind.value} and cannot hold {value!r}") from None
            plain.append(number)
        return plain
