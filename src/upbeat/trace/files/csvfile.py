"""Results as CSV: plain enough for any program to read, and every float comes back bit for bit.

The first line has the names, ``time`` first. Reals are written as the shortest text that reads back
to the same double, booleans as ``true`` and ``false``, enumerations as their numbers; strings are
always quoted, so that the text "1" stays a string. Any program reads the file as it is. Events are in a
second file (see `upbeat.trace.files.csvevents`); units of measure and the labels of enumerations, where there
are any, in a third, ``run.columns.json``. The step log and the outcome do not fit into plain CSV: Parquet and
journals keep them.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from upbeat.core.atomic import check_regular
from upbeat.core.errors import FileProblem, cannot_read
from upbeat.core.ports import Kind
from upbeat.trace.columns import Column
from upbeat.trace.events import EventLog
from upbeat.trace.files.csvevents import read_events
from upbeat.trace.files.output import unwritable, warn
from upbeat.trace.log import Ending
from upbeat.trace.store import Arrays, Stored, events_beside

_WIDER = {Kind.BOOLEAN: Kind.INTEGER, Kind.INTEGER: Kind.REAL, Kind.REAL: Kind.STRING}
_ROWS_AT_ONCE = 1 << 14
_FIELD = re.compile(r'("(?:[^"]|"")*"|[^,;\t\r\n]*)(?:[,;\t]|\r?\n?\Z)')


class _WiderKindError(Exception):
    """A column turned out to need a wider kind than its first rows showed."""


def read_csv(path: Path, *, keep_last: bool = False, kinds: Sequence[Kind] | None = None) -> Stored:
    """The columns of a CSV file, Upbeat's own or another with a ``time`` column.

    A last line without a line end may have been cut off anywhere, even inside a number: it is
    dropped with a warning, unless `keep_last`. `kinds` (time first) are found out when not given.
    """
    limit = csv.field_size_limit()
    try:
        check_regular(path)
        csv.field_size_limit(max(limit, path.stat().st_size))  # what we have written we can read
        names, first = _head(path)
        if "time" not in names:
            raise FileProblem(
                f"'{path}' has no column 'time': its first line must name the columns, one of them 'time'"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FileProblem(f"'{path}' has two columns {twice!r}")
        found = list(kinds) if kinds else _guess(first, len(names))
        found[names.index("time")] = Kind.REAL
        while True:
            try:
                arrays = _read(path, names, found, keep_last)
                break
            except _WiderKindError:
                continue
    except OSError as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        raise FileProblem(f"'{path}' is not a text file: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise FileProblem(f"'{path}' is not readable as CSV: {error}") from error
    finally:
        csv.field_size_limit(limit)
    time = arrays.pop(names.index("time"))
    known = {} if kinds else read_columns(path)
    columns = (
        _described(name, kind, known) for name, kind in zip(names, found, strict=True) if name != "time"
    )
    ending = Ending(events=EventLog() if kinds else read_events(events_beside(path)))
    return Stored(tuple(columns), Arrays([time, *arrays]), ending)


def columns_beside(path: Path) -> Path:
    """The file with what the columns of a CSV file are: ``run.csv``, ``run.columns.json``."""
    return path.with_name(f"{path.stem}.columns.json")


def write_columns(path: Path, columns: Sequence[Column]) -> None:
    """Write units of measure and labels beside a CSV file; without any, those of an earlier run go."""
    beside = columns_beside(path)
    try:
        if any(column.unit is not None or column.items for column in columns):
            data = {"columns": [column.to_data() for column in columns]}
            beside.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        elif read_columns(path):
            beside.unlink()
    except OSError as error:
        raise unwritable(beside, error) from error


def is_result(path: Path, names: Sequence[str]) -> bool:
    """Whether a CSV file is a result: it has these columns, or names of ports and times as we write them."""
    with _open(path) as file:
        reader = csv.reader(io.StringIO(file.read(1 << 24), newline=""))
        found, first = next(reader, []), next(reader, ["0.0"])
    if found == list(names):
        return True
    ports = any("." in name for name in found)
    return found[:1] == ["time"] and ports and bool(first) and repr(float(first[0])) == first[0]


def is_columns(path: Path) -> bool:
    """Whether a file is what `write_columns` writes."""
    return "columns" in json.loads(path.read_text(encoding="utf-8"))


def read_columns(path: Path) -> dict[str, Column]:
    """What is beside a CSV file, by name; nothing if there is no such file, or if it is none of ours."""
    beside = columns_beside(path)
    if not beside.is_file():
        return {}
    try:
        listed = json.loads(beside.read_text(encoding="utf-8"))["columns"]
        return {column.name: column for column in map(Column.from_data, listed)}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        warn(f"'{beside}' does not say what the columns of '{path.name}' are: {error}")
        return {}


def _described(name: str, kind: Kind, known: Mapping[str, Column]) -> Column:
    """A column of this kind, with what is known of it."""
    if name not in known:
        return Column(name, kind)
    same = known[name].kind is kind
    return Column(name, kind, known[name].unit, known[name].items if same else ())


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")


def _reader(file: TextIO) -> Any:
    """A CSV reader; a file without commas in its first line may use semicolons or tabs."""
    start = file.readline(1 << 24)
    if len(start) == 1 << 24:
        raise csv.Error("its first line does not end after 16 MB")
    file.seek(0)
    delimiter = next((mark for mark in ",;\t" if mark in start), ",")
    return csv.reader(file, delimiter=delimiter, strict=True)


def _head(path: Path) -> tuple[list[str], str]:
    """The names, and the first record as it stands in the file: quotes tell strings from the rest."""
    with _open(path) as file:
        names = [name.strip() for name in next(_reader(file), [])]
    with _open(path) as file:
        lines = iter(file)
        next(lines, "")
        record = next(lines, "")
        while record.count('"') % 2 and (more := next(lines, "")):
            record += more
    return names, record


def _guess(record: str, width: int) -> list[Kind]:
    if not record.strip():
        return [Kind.REAL] * width
    fields = [match.group(1) for match in itertools.islice(_FIELD.finditer(record), width)]
    kinds = [Kind.STRING if field.startswith('"') else _kind_of(field) for field in fields]
    return kinds + [Kind.REAL] * (width - len(kinds))


def _kind_of(text: str) -> Kind:
    kind = Kind.BOOLEAN
    while kind is not Kind.STRING:
        try:
            _PARSERS[kind]([text])
            break
        except (ValueError, KeyError, OverflowError):
            kind = _WIDER[kind]
    return kind


def _strings(texts: Sequence[str]) -> NDArray[Any]:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


_PARSERS: dict[Kind, Callable[[Sequence[str]], NDArray[Any]]] = {
    Kind.BOOLEAN: lambda texts: np.array([{"true": True, "false": False}[text] for text in texts]),
    Kind.INTEGER: lambda texts: np.fromiter(map(int, texts), np.int64, len(texts)),
    Kind.REAL: lambda texts: np.fromiter(map(float, texts), np.float64, len(texts)),
    Kind.STRING: _strings,
}


def _read(path: Path, names: list[str], kinds: list[Kind], keep_last: bool) -> list[NDArray[Any]]:
    pieces: list[list[NDArray[Any]]] = [[] for _ in names]
    clock, latest = names.index("time"), -np.inf
    for line, rows in _batches(path, len(names), keep_last):
        for number, texts in enumerate(zip(*rows, strict=True)):
            try:
                values = _PARSERS[kinds[number]](texts)
            except (ValueError, KeyError, OverflowError):
                if number == clock:
                    bad = next(
                        i for i, text in enumerate(texts) if _kind_of(text) in (Kind.STRING, Kind.BOOLEAN)
                    )
                    raise FileProblem(f"'{path}', line {line + bad}: {texts[bad]!r} is not a time") from None
                kinds[number] = _WIDER[kinds[number]]
                raise _WiderKindError from None
            if number == clock:
                back = np.flatnonzero(~(np.diff(values, prepend=latest) >= 0))
                if len(back):
                    raise FileProblem(
                        f"'{path}', line {line + int(back[0])}: time goes backwards or is not a number"
                    )
                latest = values[-1]
            pieces[number].append(values)
    empty = {Kind.REAL: np.float64, Kind.INTEGER: np.int64, Kind.BOOLEAN: np.bool_, Kind.STRING: np.object_}
    for number, parts in enumerate(pieces):
        pieces[number] = [np.concatenate(parts) if parts else np.empty(0, empty[kinds[number]])]
    return [parts[0] for parts in pieces]


def _batches(path: Path, width: int, keep_last: bool) -> Iterator[tuple[int, list[list[str]]]]:
    """Rows of exactly `width` texts, some thousand at a time, each batch with the line it starts on."""
    with path.open("rb") as raw:
        raw.seek(0, 2)
        raw.seek(max(0, raw.tell() - 1))
        ended = raw.read(1) in (b"\n", b"\r", b"")
    with _open(path) as file:
        reader = _reader(file)
        next(reader, None)
        held: list[list[str]] = []  # the last row so far: it may turn out to be the last of all
        cut = not ended and not keep_last
        while True:
            line = reader.line_num + 1 - len(held)
            rows = held
            try:
                for row in itertools.islice(reader, _ROWS_AT_ONCE):
                    rows.append(row)
            except csv.Error as error:
                if "unexpected end" not in str(error):
                    raise
                rows.append([])
                cut = True
            held = rows[-1:]
            if len(rows) <= 1:
                break
            yield line, _checked(path, line, rows[:-1], width)
        if held and (cut or (len(held[0]) < width and not ended)):
            warn(f"'{path}' ends in the middle of line {line}: that line was dropped")
        elif held:
            yield line, _checked(path, line, held, width)


def _checked(path: Path, line: int, rows: list[list[str]], width: int) -> list[list[str]]:
    if {len(row) for row in rows} != {width}:
        rows_and_lines = [(row, line + i) for i, row in enumerate(rows) if row]
        for row, number in rows_and_lines:
            if len(row) != width:
                raise FileProblem(
                    f"'{path}', line {number}: {len(row)} values, but the first line names {width} columns"
                )
        rows = [row for row, _ in rows_and_lines]
    return rows
