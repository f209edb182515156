"""Traces as Parquet files: writing and reading."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.atomic import check_regular
from upbeat.core.errors import FileProblem
from upbeat.core.plain import Fields, parsed
from upbeat.core.ports import Kind
from upbeat.trace.columns import TIME, Cells, Column, Pool, check_times
from upbeat.trace.events import EventKind, EventLog, More
from upbeat.trace.extras import check, need
from upbeat.trace.files.journal import JournalReader, JournalSink, as_json, load_events, load_journal
from upbeat.trace.files.output import unfinished, unwritable, warn
from upbeat.trace.log import Ending
from upbeat.trace.recorder import Deferred, Source, Stored, events_beside

# ----------------------------------------------------------------------------------------------------
# Events next to a Parquet file: ``run.events.parquet``, a row for every event and a column for every name.
#
# The columns are ``time``, ``index`` and one for each event, which is null in the rows of other events; an
# array has one for each cell (``name[0]``, …), and an event without payload is ``true``. What the columns
# mean is in the file's metadata under the key ``upbeat``.

_KEY = b"upbeat"
_VERSION = 1
_AT_ONCE = 1 << 16


def write_events(
    path: Path, parts: Iterable[EventLog], kinds: Sequence[EventKind], more: Mapping[int, More]
) -> None:
    """Write all events of a run, a row group at a time."""
    pyarrow = need("pyarrow", "parquet", "writing Parquet")
    parquet = need("pyarrow.parquet", "parquet", "writing Parquet")
    names = _names(kinds)
    fields = [("time", pyarrow.float64()), ("index", pyarrow.int32())]
    for kind, columns in zip(kinds, names, strict=True):
        fields += [(name, _type(pyarrow, kind)) for name in columns]
    about = [[place, list(units), dict(details)] for place, (units, details) in more.items()]
    meta = {"version": _VERSION, "kinds": [kind.to_data() for kind in kinds], "columns": names, "more": about}
    encoded = json.dumps(meta, ensure_ascii=False, default=str).encode()
    schema = pyarrow.schema(fields, metadata={_KEY: encoded})
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in _groups(parts, kinds):
            writer.write_table(pyarrow.Table.from_arrays(_arrays(pyarrow, part), schema=schema))


def _names(kinds: Sequence[EventKind]) -> list[list[str]]:
    """The columns of every kind; a second kind of the same name gets a number."""
    taken, found = {"time", "index"}, []
    for kind in kinds:
        name, number = kind.name, 1
        columns = [name]
        while taken & set(columns := _columns(name, kind.cells)):
            number += 1
            name = f"{kind.name} ({number})"
        taken |= set(columns)
        found.append(columns)
    return found


def _columns(name: str, cells: int) -> list[str]:
    return [name] if cells <= 1 else [f"{name}[{cell}]" for cell in range(cells)]


def _column_type(pyarrow: Any, kind: Kind) -> Any:
    names = {Kind.REAL: "float64", Kind.INTEGER: "int64", Kind.BOOLEAN: "bool_", Kind.STRING: "string"}
    return getattr(pyarrow, names[kind])()


def _type(pyarrow: Any, kind: EventKind) -> Any:
    return _column_type(pyarrow, kind.kind if kind.cells else Kind.BOOLEAN)


def _groups(parts: Iterable[EventLog], kinds: Sequence[EventKind]) -> Iterator[EventLog]:
    """The parts, joined until they are worth a row group."""
    group: EventLog | None = None
    for part in parts:
        if group is None:
            group = EventLog(kinds, part.strings)
        group.join(part)
        if len(group) >= _AT_ONCE:
            yield group
            group = None
    if group is not None:
        yield group


def _arrays(pyarrow: Any, events: EventLog) -> list[Any]:
    count, starts = len(events), events.starts
    arrays = [pyarrow.array(events.times()), pyarrow.array(events.indices)]
    for code, kind in enumerate(events.kinds):
        here = events.codes == code
        for cell in range(max(1, kind.cells)):
            if kind.cells == 0:
                values: NDArray[Any] = np.ones(count, dtype=bool)
            else:
                bits = np.zeros(count, dtype=np.int64)
                bits[here] = events.cells[starts[:-1][here] + cell]
                values = Column(kind.name, kind.kind).decode(bits.view(np.float64), events.strings or [""])
            arrays.append(pyarrow.array(values, _type(pyarrow, kind), mask=~here))
    return arrays


def read_events(path: Path) -> EventLog:
    """The events of a file that `write_events` has written."""
    pyarrow = need("pyarrow", "parquet", f"reading '{path}'")
    parquet = need("pyarrow.parquet", "parquet", f"reading '{path}'")
    try:
        file = parquet.ParquetFile(path)
        meta = Fields(parsed((file.schema_arrow.metadata or {}).get(_KEY, b"null")), "its metadata")
        if meta.whole("version") != _VERSION:
            raise FileProblem(f"'{path}' was written by a newer Upbeat: update this one")
        kinds = meta.each("kinds", EventKind.from_data)
        names = _names(kinds)
        if meta.entries("columns") != names:
            raise ValueError("the columns are not those of its kinds of event")
        return _collected(pyarrow, file.read(), kinds, names, meta.entries("more"))
    except (OSError, pyarrow.ArrowException, KeyError, ValueError) as error:
        raise FileProblem(f"'{path}' is not a file of events, or it is damaged: {error}") from error


def _collected(
    pyarrow: Any, table: Any, kinds: list[EventKind], names: list[list[str]], more: list[Any]
) -> EventLog:
    codes = np.zeros(table.num_rows, dtype=np.int32)
    marked = np.zeros(table.num_rows, dtype=np.int64)
    for code, columns in enumerate(names):
        marked += table.column(columns[0]).is_valid().to_numpy()
        codes[table.column(columns[0]).is_valid().to_numpy()] = code
    if not (marked == 1).all():
        raise ValueError("a row has no event, or more than one")
    widths = np.array([kind.cells for kind in kinds], dtype=np.int64)[codes]
    starts = np.cumsum(widths) - widths
    bits, pool = np.zeros(int(widths.sum()), dtype=np.int64), Pool()
    for code, (kind, columns) in enumerate(zip(kinds, names, strict=True)):
        first = starts[codes == code]
        for cell in range(kind.cells):
            values = table.column(columns[cell]).drop_null().cast(_type(pyarrow, kind)).to_numpy()
            if len(values) != len(first):
                raise ValueError(f"the columns of '{kind.name}' differ in length")
            bits[first + cell] = Column(kind.name, kind.kind).encode(values, pool.intern).view(np.int64)
    log = EventLog(kinds, pool.strings)
    times = table.column("time").cast(pyarrow.float64()).to_numpy()
    log.fill(codes, times, table.column("index").cast(pyarrow.int32()).to_numpy(), bits, more)
    return log


# ----------------------------------------------------------------------------------------------------
# Results as Parquet: written at the end, in row groups, from a journal that grows next to it.
#
# A Parquet file cannot be read before its last byte is written, so a run that streams to
# ``run.parquet`` writes the journal ``run.parquet.partial`` first. A run that is killed leaves that
# journal, and reading ``run.parquet`` finds it. Columns, step log and outcome are in the file's metadata
# under the key ``upbeat``, events in a second file.

_GROUP_BYTES = 1 << 24


def is_ours(path: Path) -> bool:
    """Whether a file is Parquet, with our metadata in its footer (the length of which stands at its end)."""
    with path.open("rb") as file:
        begin = file.read(4)
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if begin != b"PAR1" or end[4:] != b"PAR1" or length > size - 12:
            return False
        file.seek(size - 8 - length)
        return _KEY in file.read(length)


class ParquetSink:
    """Streams to a journal; `close` turns it into Parquet, a row group at a time, and removes it.

    The owner of the lock on the journal owns both files.
    """

    streams = True

    def __init__(self, path: Path | str) -> None:
        check("pyarrow", "parquet", "writing Parquet")
        self.path = Path(path)
        self._journal = JournalSink(unfinished(self.path), result=self.path)
        self._to_be_continued = False

    def begin(self, columns: tuple[Column, ...], kinds: tuple[EventKind, ...] = ()) -> None:
        self._journal.begin(columns, kinds)

    def write(self, cells: Cells, strings: Sequence[str]) -> None:
        self._begin()
        self._journal.write(cells, strings)

    def write_events(self, events: EventLog, strings: Sequence[str]) -> None:
        self._begin()
        self._journal.write_events(events, strings)

    def _begin(self) -> None:
        if not self._journal.begun:
            # From here on an older result would be mistaken for this run's, should it be killed.
            self.path.unlink(missing_ok=True)
            events_beside(self.path).unlink(missing_ok=True)

    def close(self, ending: Ending) -> None:
        try:
            self._journal.end(ending)
            waits = self._to_be_continued and not ending.outcome.ok
            if self._journal.begun and not waits:  # it has not if the run failed before its first row
                convert(self._journal.path, self.path)
                self._journal.path.unlink()
        finally:
            self._journal.release()

    def position(self) -> dict[str, Any]:
        """Parquet cannot be continued: unless it reaches its end, a run that may go on keeps its journal."""
        self._to_be_continued = True
        return self._journal.position()

    def resume_from(self, position: Fields) -> None:
        self._to_be_continued = True
        self._journal.resume_from(position)

    def stored_events(self) -> Callable[[], EventLog]:
        return partial(_events_again, self.path)

    def source(self) -> Source:
        return Deferred(self._journal.rows, partial(_again, self.path))


def _again(path: Path) -> Source:
    """The rows of a run, from the finished file or from its journal."""
    return read_parquet(path, events=False).source if path.exists() else load_journal(unfinished(path))


def _events_again(path: Path) -> EventLog:
    return read_parquet(path).ending.events if path.exists() else load_events(unfinished(path))


def convert(journal: Path, path: Path) -> None:
    """Write a journal's contents as Parquet. The file appears under its name only when all is complete."""
    pyarrow = need("pyarrow", "parquet", "writing Parquet")
    parquet = need("pyarrow.parquet", "parquet", "writing Parquet")
    reader = JournalReader(journal)
    events, more = 0, dict[int, More]()
    for part in reader.parts():  # the ending comes last in a journal, and first in what Parquet needs to know
        if isinstance(part, EventLog):
            more |= {events + place: about for place, about in part.more.items()}
            events += len(part)
    columns = (TIME, *reader.columns)
    meta = {
        "version": 1,
        "columns": [c.to_data() for c in reader.columns],
        "ending": reader.ending.to_data(),
        "events": events,
    }
    types = {
        "real": pyarrow.float64(),
        "integer": pyarrow.int64(),
        "boolean": pyarrow.bool_(),
        "string": pyarrow.string(),
    }
    fields = [pyarrow.field(column.name, types[column.kind.value], nullable=False) for column in columns]
    schema = pyarrow.schema(fields, metadata={_KEY: as_json(meta).encode()})
    growing = path.with_name(path.name + ".tmp")
    try:
        if events:
            parts = (part for part in reader.parts() if isinstance(part, EventLog))
            write_events(growing, parts, tuple(reader.kinds), more)
            growing.replace(events_beside(path))
        with parquet.ParquetWriter(growing, schema, compression="zstd") as writer:
            for cells in _row_groups(reader, max(1, _GROUP_BYTES // (8 * len(columns)))):
                arrays = [
                    _arrow(pyarrow, c, cells[:, i].copy(), reader.strings) for i, c in enumerate(columns)
                ]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
        growing.replace(path)
    except OSError as error:
        growing.unlink(missing_ok=True)
        raise unwritable(path, error, f"The results are kept in '{journal}'.") from error


def _row_groups(reader: JournalReader, rows: int) -> Iterator[Cells]:
    """The journal's chunks, joined until they are worth a row group."""
    waiting: list[Cells] = []
    for cells in reader:
        waiting.append(cells)
        if sum(map(len, waiting)) >= rows:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def _arrow(pyarrow: Any, column: Column, cells: Cells, strings: Sequence[str]) -> Any:
    if column.kind is Kind.STRING:
        pool = pyarrow.array(list(strings), pyarrow.string())
        return pool.take(pyarrow.array(cells.view(np.int64)))
    return pyarrow.array(column.decode(cells, strings))


class ParquetSource:
    """Reads one column at a time from a Parquet file."""

    def __init__(self, path: Path, columns: Sequence[Column], rows: int) -> None:
        self.rows = rows
        self._path = path
        self._columns = (TIME, *columns)

    def column(self, index: int) -> NDArray[Any]:
        pyarrow = need("pyarrow", "parquet", "reading Parquet")
        parquet = need("pyarrow.parquet", "parquet", "reading Parquet")
        column = self._columns[index]
        try:
            values = parquet.ParquetFile(self._path).read(columns=[column.name]).column(column.name)
            if len(values) != self.rows:
                raise ValueError(f"it has {len(values)} values instead of {self.rows}")
            if values.null_count and column.kind is not Kind.REAL:  # a real that is missing is NaN
                raise ValueError(f"{values.null_count} values are missing")
            array: NDArray[Any] = values.cast(_column_type(pyarrow, column.kind)).to_numpy()
            if index == 0:
                check_times(array)
        except (OSError, KeyError, ValueError, pyarrow.ArrowException) as error:
            raise FileProblem(f"'{self._path}' is damaged in column '{column.name}': {error}") from error
        return array


def read_parquet(path: Path, *, events: bool = True) -> Stored:
    """The columns of a Parquet file, Upbeat's own or another with a ``time`` column, and its events."""
    pyarrow = need("pyarrow", "parquet", f"reading '{path}'")
    parquet = need("pyarrow.parquet", "parquet", f"reading '{path}'")
    try:
        check_regular(path)
        file = parquet.ParquetFile(path)
        schema, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, pyarrow.ArrowException) as error:
        raise FileProblem(f"'{path}' is not a complete Parquet file: {error}") from error
    if "time" not in schema.names:
        raise FileProblem(f"'{path}' has no column 'time'")
    ending = Ending()
    try:
        if _KEY in (schema.metadata or {}):
            meta = Fields(parsed(schema.metadata[_KEY]), "its metadata")
            columns = meta.each("columns", Column.from_data)
            found = {field.name: _kind(pyarrow, path, field) for field in schema}
            for column in columns:
                if found.get(column.name) is not column.kind:
                    raise ValueError(f"there is no column '{column.name}' of the kind {column.kind.value}")
            ending = Ending.from_data(meta.any("ending"))
            if events:
                ending.events = _events(path, meta.whole("events") if "events" in meta else 0)
        else:
            columns = [Column(f.name, _kind(pyarrow, path, f)) for f in schema if f.name != "time"]
    except ValueError as error:
        raise FileProblem(f"'{path}' has metadata that this Upbeat does not understand: {error}") from error
    return Stored(tuple(columns), ParquetSource(path, columns, rows), ending)


def _events(path: Path, count: int) -> EventLog:
    """The events next to a file that had `count` of them."""
    beside = events_beside(path)
    if count == 0:
        return EventLog()
    if not beside.exists():
        warn(f"the {count} events of '{path}' are missing: they were in '{beside}'")
        return EventLog()
    events = read_events(beside)
    if len(events) != count:
        warn(f"'{beside}' has {len(events)} events, but '{path}' had {count}: it may be another run's")
    return events


def _kind(pyarrow: Any, path: Path, field: Any) -> Kind:
    types = pyarrow.types
    if types.is_floating(field.type):
        return Kind.REAL
    if types.is_integer(field.type):
        return Kind.INTEGER
    if types.is_boolean(field.type):
        return Kind.BOOLEAN
    if types.is_string(field.type) or types.is_large_string(field.type):
        return Kind.STRING
    raise FileProblem(f"'{path}': column '{field.name}' is of type {field.type}, which a trace cannot hold")
