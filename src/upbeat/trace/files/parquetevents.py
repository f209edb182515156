"""Events beside a Parquet file: ``run.events.parquet``, a row for every event and a column for every name.

The columns are ``time``, ``index`` and one for each event, which is null in the rows of other events; an
array has one for each cell (``name[0]``, …), and an event without payload is ``true``. What the columns
mean is in the file's metadata under the key ``upbeat``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import FileProblem
from upbeat.core.plain import Fields, parsed
from upbeat.core.ports import Kind
from upbeat.trace.columns import Column, Pool
from upbeat.trace.eventcolumns import More
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.events import EventLog
from upbeat.trace.extras import need

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


def _type(pyarrow: Any, kind: EventKind) -> Any:
    if kind.cells == 0:
        return pyarrow.bool_()
    types = {Kind.REAL: "float64", Kind.INTEGER: "int64", Kind.BOOLEAN: "bool_", Kind.STRING: "string"}
    return getattr(pyarrow, types[kind.kind])()


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
