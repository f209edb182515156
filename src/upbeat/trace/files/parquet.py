"""Results as Parquet: written at the end, in row groups, from a journal that grows beside it.

A Parquet file cannot be read before its last byte is written, so a run that streams to
``run.parquet`` writes the journal ``run.parquet.partial`` first. A run that is killed leaves that
journal, and reading ``run.parquet`` finds it. Columns, step log and outcome are in the file's metadata
under the key ``upbeat``, events in a second file (see `upbeat.trace.files.parquetevents`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.atomic import check_regular
from upbeat.core.errors import FileProblem
from upbeat.core.plain import Fields, parsed
from upbeat.core.ports import Kind
from upbeat.trace.columns import TIME, Cells, Column, check_times
from upbeat.trace.eventcolumns import More
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.events import EventLog
from upbeat.trace.extras import check, need
from upbeat.trace.files.journal import JournalReader, JournalSink, as_json, load_events, load_journal
from upbeat.trace.files.output import unwritable, warn
from upbeat.trace.files.parquetevents import read_events, write_events
from upbeat.trace.log import Ending
from upbeat.trace.store import Deferred, Source, Stored, events_beside

_GROUP_BYTES = 1 << 24
_KEY = b"upbeat"


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


def unfinished(path: Path) -> Path:
    """The journal that belongs to a Parquet file under way."""
    return path.with_name(path.name + ".partial")


class ParquetSink:
    """Streams to a journal; `close` turns it into Parquet, a row group at a time, and removes it.

    Whoever has locked the journal owns both files.
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

    def standing(self) -> dict[str, Any]:
        """Parquet cannot be continued: unless it reaches its end, a run that may go on keeps its journal."""
        self._to_be_continued = True
        return self._journal.standing()

    def stand(self, standing: Fields) -> None:
        self._to_be_continued = True
        self._journal.stand(standing)

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
            for cells in _groups(reader, max(1, _GROUP_BYTES // (8 * len(columns)))):
                arrays = [
                    _arrow(pyarrow, c, cells[:, i].copy(), reader.strings) for i, c in enumerate(columns)
                ]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
        growing.replace(path)
    except OSError as error:
        growing.unlink(missing_ok=True)
        raise unwritable(path, error, f"The results are kept in '{journal}'.") from error


def _groups(reader: JournalReader, rows: int) -> Iterator[Cells]:
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
            array: NDArray[Any] = values.cast(_type(pyarrow, column.kind)).to_numpy()
            if index == 0:
                check_times(array)
        except (OSError, KeyError, ValueError, pyarrow.ArrowException) as error:
            raise FileProblem(f"'{self._path}' is damaged in column '{column.name}': {error}") from error
        return array


def _type(pyarrow: Any, kind: Kind) -> Any:
    names = {Kind.REAL: "float64", Kind.INTEGER: "int64", Kind.BOOLEAN: "bool_", Kind.STRING: "string"}
    return getattr(pyarrow, names[kind])()


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
    """The events beside a file that had `count` of them."""
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
