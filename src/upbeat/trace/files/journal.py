"""The journal: Upbeat's own append-only result file, which a killed run leaves readable.

A journal is one line of JSON (format, version, columns) and then frames: a tag of four letters, the
length of the payload (uint64) and its CRC-32 together with tag and length (uint32), little-endian,
then the payload.

    ROWS   a matrix of 8-byte cells, row after row (see `upbeat.trace.columns`)
    TEXT   JSON list: strings to add to the pool, before the first row that needs them
    KIND   JSON list: kinds of events to add (see `upbeat.trace.eventkinds`), before the first event
    EVNT   events: their count n and the count m of their cells (uint64 each), n times (doubles), n numbers
           of kinds and n indices within an instant (int32 each), m cells; then, for events that have
           units or details, a JSON list of [position in the frame, units, details]
    DONE   JSON object: how the run ended, its step log and notes

A reader keeps every complete frame and passes over tags it does not know.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from upbeat.core.errors import FileProblem, cannot_read
from upbeat.core.plain import Fields, listed, parsed
from upbeat.core.ports import Kind
from upbeat.trace.columns import Cells, Column, check_strings, check_times
from upbeat.trace.events import EventKind, EventLog
from upbeat.trace.files.output import Appender, Written, warn
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.recorder import Deferred, MemorySink, Source, Stored

# ----------------------------------------------------------------------------------------------------

_FRAME = struct.Struct("<4sQI")
_START = struct.Struct("<4sQ")
_EVENTS = struct.Struct("<QQ")
_FORMAT, _VERSION = "upbeat journal", 1
_LONGEST_HEADER = 1 << 26


def as_json(data: Any) -> str:
    """JSON of plain data; anything else that a user put among the notes becomes text."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)


class JournalSink:
    """Writes a journal at `path`, on the way to `result` where that is another file."""

    streams = True

    def __init__(self, path: Path | str, result: Path | None = None) -> None:
        self.path = Path(path)
        self.rows = 0
        self._file = Appender(self.path, result)
        self._columns: tuple[Column, ...] = ()
        self._known = 0
        self._known_kinds = 0

    @property
    def begun(self) -> bool:
        """Whether the file holds anything of this run."""
        return self._file.begun

    def begin(self, columns: tuple[Column, ...], kinds: tuple[EventKind, ...] = ()) -> None:
        self._columns = columns

    def write(self, cells: Cells, strings: Sequence[str]) -> None:
        self._write_texts(strings)
        self._file.append(_frame(b"ROWS", cells.view(np.int64).astype("<i8", copy=False).tobytes()))
        self.rows += len(cells)

    def write_events(self, events: EventLog, strings: Sequence[str]) -> None:
        self._write_texts(strings)
        if len(events.kinds) > self._known_kinds:
            fresh = [kind.to_data() for kind in events.kinds[self._known_kinds :]]
            self._file.append(_frame(b"KIND", as_json(fresh).encode()))
            self._known_kinds = len(events.kinds)
        self._file.append(_frame(b"EVNT", _packed(events)))

    def stored_events(self) -> Callable[[], EventLog]:
        return partial(load_events, self.path)

    def position(self) -> dict[str, Any]:
        known = {"strings": self._known, "kinds": self._known_kinds}
        return {"rows": self.rows, "file": asdict(self._file.written()), **known}

    def resume_from(self, position: Fields) -> None:
        found = Written.from_data(position.fields("file"))
        self.rows, self._known, self._known_kinds = map(position.whole, ("rows", "strings", "kinds"))
        self._file.check(found)
        self._file.go_on(found)

    def _write_texts(self, strings: Sequence[str]) -> None:
        self._begin()
        if len(strings) > self._known:
            self._file.append(_frame(b"TEXT", as_json(list(strings[self._known :])).encode()))
            self._known = len(strings)

    def close(self, ending: Ending) -> None:
        try:
            self.end(ending)
        finally:
            self.release()

    def end(self, ending: Ending) -> None:
        """Write how the run ended, and keep others out still."""
        if self.begun or ending.outcome.ok:
            self._begin()
            self._file.append(_frame(b"DONE", as_json(ending.to_data()).encode()))

    def release(self) -> None:
        """Let others write to the file again."""
        self._file.close()

    def source(self) -> Source:
        return Deferred(self.rows, partial(load_journal, self.path))

    def _begin(self) -> None:
        if not self.begun:
            columns = [column.to_data() for column in self._columns]
            head = as_json({"format": _FORMAT, "version": _VERSION, "columns": columns})
            self._file.begin(head.encode() + b"\n")


def is_journal(path: Path) -> bool:
    """Whether a file begins as a journal does."""
    with path.open("rb") as file:
        return file.read(100).startswith(b'{"format":"' + _FORMAT.encode() + b'"')


def load_journal(path: Path) -> Source:
    """The rows of a journal, also of one that is still growing."""
    reader, memory = JournalReader(path), MemorySink()
    memory.begin(reader.columns)
    for cells in reader:
        memory.write(cells, reader.strings)
    return memory


def load_events(path: Path) -> EventLog:
    """The events of a journal, also of one that is still growing."""
    reader = JournalReader(path)
    events = EventLog(strings=reader.strings)
    for part in reader.parts():
        if isinstance(part, EventLog):
            events.join(part)
    return events


def _frame(tag: bytes, payload: bytes) -> bytes:
    check = zlib.crc32(payload, zlib.crc32(_START.pack(tag, len(payload))))
    return _FRAME.pack(tag, len(payload), check) + payload


def _packed(events: EventLog) -> bytes:
    columns = ((events.times(), "<f8"), (events.codes, "<i4"), (events.indices, "<i4"), (events.cells, "<i8"))
    more = [[place, list(units), dict(details)] for place, (units, details) in events.more.items()]
    return b"".join(
        [
            _EVENTS.pack(len(events), len(events.cells)),
            *(values.astype(dtype, copy=False).tobytes() for values, dtype in columns),
            as_json(more).encode() if more else b"",
        ]
    )


class JournalReader:
    """Reads a journal chunk by chunk, so that a long one need not fit into memory.

    `parts` are the matrices of cells and the events, as they were written; iterating gives the matrices
    only. Afterwards `ending`, `strings` and `kinds` are complete, and `damage` says in a sentence what
    is missing, if anything is. Of a journal that grows, `more` gives what was not there before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: tuple[Column, ...] = ()
        self.strings: list[str] = []
        self.kinds: list[EventKind] = []
        self.ending = Ending(Outcome.CUT_OFF)
        self.damage = ""
        self._latest = -np.inf
        try:
            with path.open("rb") as file:
                self._first = self._next = self._read_header(file)
        except OSError as error:
            raise cannot_read(path, error) from error

    def _read_header(self, file: BinaryIO) -> int:
        line = file.readline(_LONGEST_HEADER)
        try:
            header = Fields(parsed(line), "its first line")
            if header.text("format") != _FORMAT:
                raise ValueError("its first line names another format")
            version = header.whole("version")
            if version == _VERSION:
                self.columns = tuple(header.each("columns", Column.from_data))
        except ValueError as error:
            raise FileProblem(
                f"'{self.path}' is not an Upbeat journal, or its first line is damaged: {error}"
            ) from None
        if version != _VERSION:
            raise FileProblem(
                f"'{self.path}' was written by a newer Upbeat (journal version {version}): update this one"
            )
        if len({column.name for column in self.columns} | {"time"}) <= len(self.columns):
            raise FileProblem(f"'{self.path}' has two columns of one name")
        return len(line)

    def __iter__(self) -> Iterator[Cells]:
        return (part for part in self.parts() if isinstance(part, np.ndarray))

    def parts(self) -> Iterator[Cells | EventLog]:
        """All whole frames, up to the first that is damaged."""
        self.strings.clear()
        self.kinds.clear()
        self._latest, self._next = -np.inf, self._first
        yield from self.more()
        if not self.damage and self.ending.outcome is Outcome.CUT_OFF:
            self.damage = "the run has not ended it"

    def more(self) -> Iterator[Cells | EventLog]:
        """The whole frames behind those that were read before."""
        self.damage = ""
        with self.path.open("rb") as file:
            file.seek(self._next)
            for at, tag, payload in self._frames(file):
                try:
                    part = self._part(tag, payload)
                except ValueError as error:
                    self.damage = f"it is damaged from byte {at} on: {error}"
                    return
                self._next = file.tell()
                if part is not None:
                    yield part

    def _part(self, tag: bytes, payload: bytes) -> Cells | EventLog | None:
        """What is in a frame; `ValueError` if that cannot be."""
        match tag:
            case b"ROWS":
                return self._rows(payload)
            case b"TEXT":
                texts = listed(parsed(payload), "the list of texts")
                if not all(isinstance(text, str) for text in texts):
                    raise ValueError("the list of texts holds something else")
                self.strings.extend(texts)
            case b"KIND":
                self.kinds.extend(map(EventKind.from_data, listed(parsed(payload), "the kinds of event")))
            case b"EVNT":
                return self._events(payload)
            case b"DONE":
                self.ending = Ending.from_data(parsed(payload))
        return None

    def _rows(self, payload: bytes) -> Cells:
        width = 1 + len(self.columns)
        if len(payload) % (8 * width):
            raise ValueError(f"{len(payload)} bytes are not whole rows of {width} values")
        bits = np.frombuffer(payload, "<i8").astype(np.int64).reshape(-1, width)
        for number, column in enumerate(self.columns, start=1):
            if column.kind is Kind.STRING:
                check_strings(bits[:, number], self.strings)
        cells: Cells = bits.view(np.float64)
        self._latest = check_times(cells[:, 0], self._latest)
        return cells

    def _events(self, payload: bytes) -> EventLog:
        if len(payload) < _EVENTS.size:
            raise ValueError("events end too early")
        count, cells = _EVENTS.unpack_from(payload)
        if 16 * count + 8 * cells > len(payload) - _EVENTS.size:
            raise ValueError(f"{count} events with {cells} values do not fit into {len(payload)} bytes")
        columns, at = [], _EVENTS.size
        for dtype, length in (("<f8", count), ("<i4", count), ("<i4", count), ("<i8", cells)):
            columns.append(np.frombuffer(payload, dtype, length, at))
            at += columns[-1].nbytes
        events = EventLog(self.kinds, self.strings)
        times, codes, indices, bits = columns
        more = listed(parsed(payload[at:] or b"[]"), "what is said about events")
        events.fill(codes, times, indices, bits, more)
        return events

    def _frames(self, file: BinaryIO) -> Iterator[tuple[int, bytes, bytes]]:
        size = self.path.stat().st_size
        while start := file.read(_FRAME.size):
            at = file.tell() - len(start)
            if len(start) < _FRAME.size:
                self.damage = f"its last part, from byte {at} on, is incomplete"
                return
            tag, length, check = _FRAME.unpack(start)
            if length > size - file.tell():
                self.damage = f"its last part, from byte {at} on, is incomplete"
                return
            payload = file.read(length)
            if zlib.crc32(payload, zlib.crc32(start[: _START.size])) != check:
                self.damage = f"it is damaged from byte {at} on"
                return
            yield at, tag, payload


def read_journal(path: Path) -> Stored:
    """All of a journal, or all that is whole."""
    reader, memory = JournalReader(path), MemorySink()
    memory.begin(reader.columns)
    events = EventLog(strings=reader.strings)
    for part in reader.parts():
        if isinstance(part, EventLog):
            events.join(part)
        else:
            memory.write(part, reader.strings)
    reader.ending.events = events
    if reader.damage:
        message = f"'{path}' is not complete ({reader.damage}): its first {memory.rows} rows were read"
        reader.ending.notes.append(message)
        warn(message)
    return Stored(reader.columns, memory, reader.ending)


# ----------------------------------------------------------------------------------------------------
# Results that are wanted in memory, of a run that must survive a kill: on disk until it has ended.

T = TypeVar("T")


class SideSink(JournalSink):
    """A journal that is read into memory and removed once the run has done what it was asked to.

    Traces taken on the way, too, find their rows wherever these are.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._kept = Kept(path)

    def close(self, ending: Ending) -> None:
        super().close(ending)
        if ending.outcome.ok and self.path.exists():
            self._kept.take()
            self.path.unlink()

    def source(self) -> Source:
        return Deferred(self.rows, self._kept.rows)

    def stored_events(self) -> Callable[[], EventLog]:
        return self._kept.events


class Kept:
    """Where rows and events are: in the file, or in memory."""

    def __init__(self, path: Path) -> None:
        self._rows: Callable[[], Source] = partial(load_journal, path)
        self._events: Callable[[], EventLog] = partial(load_events, path)

    def take(self) -> None:
        """Read all that there is."""
        rows, events = self._rows(), self._events()
        self._rows, self._events = partial(_same, rows), partial(_same, events)

    def rows(self) -> Source:
        return self._rows()

    def events(self) -> EventLog:
        return self._events()


def _same(value: T) -> T:
    return value
