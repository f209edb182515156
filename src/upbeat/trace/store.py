"""Where recorded rows go and come from: what sinks and sources have, and the ones in memory."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from upbeat.core.plain import Fields
from upbeat.trace.columns import TIME, Cells, Column
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.events import EventLog
from upbeat.trace.log import Ending


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

    def standing(self) -> dict[str, Any]:
        """How far the files have come, as plain data; what is said here is safe on the disk."""
        ...

    def stand(self, standing: Fields) -> None:
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

    So the result of a long run stays on disk until somebody looks. `load` must be picklable, because
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
