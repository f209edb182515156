"""Traces as CSV files, with events and steps in files next to them: writing and reading."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from upbeat.core.atomic import check_regular
from upbeat.core.errors import FileProblem, InvalidInput, cannot_read
from upbeat.core.plain import Fields
from upbeat.core.ports import Kind
from upbeat.trace.columns import TIME, Cells, Column
from upbeat.trace.events import EventKind, EventLog, checked_details
from upbeat.trace.files.output import Appender, Written, unwritable, warn
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.recorder import Arrays, Deferred, Source, Stored, events_beside

# ----------------------------------------------------------------------------------------------------
# Events next to a CSV file: ``run.events.csv``, with the columns ``time,index,event,value``.
#
# Where there are events with more to say, there is ``details`` as well. Reals are written as the shortest
# text that reads back to the same double, booleans as ``true`` and ``false``, enumerations as their labels,
# arrays as ``[1.0 2.0]``, nothing for an event without payload. Texts are always quoted. An array of texts
# is a quoted JSON list; a text that begins like one, or with a backslash, gets a backslash in front.
# Details are a JSON object, the units concerned among them.

HEAD = "time,index,event,value\n"
DETAILED = "time,index,event,value,details\n"
_FIELD = r'("(?:[^"]|"")*"|[^",\r\n]*)'
_LINE = re.compile(rf"([^,\r\n]*),([0-9]+),{_FIELD},{_FIELD}(?:,{_FIELD})?\r?\n")
_QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|\Z)')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_ .-]*")
_TAKEN = {"true", "false", "nan", "inf", "infinity"}
_WORDS = {"true": True, "false": False}


class CsvEvents:
    """Writes the events of a run to a file of their own, which only comes to stay if there are any."""

    def __init__(self, path: Path) -> None:
        self._file = Appender(path)
        self._detailed: bool | None = None

    def begin(self) -> None:
        """Let go of what an earlier run has left there."""
        self._file.begin(b"")

    def write(self, events: EventLog) -> None:
        kinds = events.kinds
        names = [quote(kind.name) if re.search(r'[",\r\n]', kind.name) else kind.name for kind in kinds]
        if self._detailed is None:
            self._detailed = any(kind.detailed for kind in kinds) or bool(events.more)
        width, head, line = (
            (5, DETAILED, "%r,%d,%s,%s,%s\n") if self._detailed else (4, HEAD, "%r,%d,%s,%s\n")
        )
        flat: list[Any] = [None] * (width * len(events))
        flat[0::width] = events.times().tolist()
        flat[1::width] = events.indices.tolist()
        codes = events.codes.tolist()
        flat[2::width] = [names[code] for code in codes]
        labelled = [bool(kind.items) for kind in kinds]
        flat[3::width] = [
            _text(entry, labelled[code])
            for entry, code in zip(events.payloads().tolist(), codes, strict=True)
        ]
        if self._detailed:
            flat[4::width] = _details(events)
        text = line * len(events) % tuple(flat)
        self._file.append(((head if self._file.size == 0 else "") + text).encode())

    def close(self) -> None:
        self._file.close()

    @property
    def file(self) -> Appender:
        """The file itself, to go on with."""
        return self._file


def _details(events: EventLog) -> list[str]:
    """What there is to say about every event, as fields."""
    fields, more = [""] * len(events), events.more
    for place, (units, details) in more.items():
        fields_of_event = ({"units": units} if units else {}) | dict(details)
        fields[place] = quote(json.dumps(fields_of_event, ensure_ascii=False, default=str))
    return fields


def quote(text: str) -> str:
    """A field that is text, whatever it looks like."""
    return '"' + text.replace('"', '""') + '"'


def _text(value: Any, labelled: bool = False) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() | int():
            return repr(value)
        case str():
            if labelled and _PLAIN.fullmatch(value) and value.lower() not in _TAKEN:
                return value
            return quote("\\" + value if value.startswith(("[", "\\")) else value)
    if any(isinstance(cell, str) for cell in value):
        return quote(json.dumps(value, ensure_ascii=False))
    return f"[{' '.join(map(_text, value))}]"


def is_events(path: Path) -> bool:
    """Whether there is a file of events; one of another program that happens to have the name is not."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.readline(len(DETAILED) + 4).decode("utf-8-sig").strip()
            return head in (HEAD.strip(), DETAILED.strip())
    except (OSError, UnicodeDecodeError):
        return False


def read_events(path: Path, kinds: Sequence[EventKind] = ()) -> EventLog:
    """The events next to a CSV file; none if there is no such file. A cut-off last line is dropped."""
    log = EventLog(kinds)
    if not is_events(path):
        return log
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # a text keeps its own line ends
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, str(error)) from error
    at = text.find("\n") + 1 or len(text)
    while found := _LINE.match(text, at):
        time, index, name, value, about = found.groups()
        try:
            units, details = _read_details(about)
            log.append(unquote(name), float(time), int(index), _value(value), units, details)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, InvalidInput):
            raise _damaged(path, text, at) from None
        at = found.end()
    if rest := text[at:].strip():
        if "\n" in _QUOTED.sub("", text[at:]):
            raise _damaged(path, text, at)
        warn(f"'{path}' ends in the middle of a line: {rest[:40]!r} was dropped")
    return log


def _read_details(field: str | None) -> tuple[list[str], dict[str, Any]]:
    """The units and details that `_details` wrote; `ValueError` if it was not."""
    details = json.loads(unquote(field)) if field else {}
    if not isinstance(details, dict):
        raise ValueError("details are an object of JSON")
    units = details.pop("units", [])
    if not isinstance(units, list) or not all(isinstance(unit, str) for unit in units):
        raise ValueError("units are a list of names")
    return units, dict(checked_details(details))


def _damaged(path: Path, text: str, at: int) -> FileProblem:
    line = text.count("\n", 0, at) + 1
    return FileProblem(
        f"'{path}', line {line}: {text[at : at + 80].splitlines()[0]!r} is not an event: "
        "time,index,event,value"
    )


def unquote(field: str) -> str:
    """The text in a field, quoted or not."""
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def _value(field: str) -> Any:
    """The payload that a field holds; a bare word is an enumeration's label."""
    if field.startswith('"'):
        text = unquote(field)
        return json.loads(text) if text.startswith("[") else text[1:] if text.startswith("\\") else text
    if field.startswith("["):
        return [_value(cell) for cell in field[1:-1].split()]
    if not field:
        return None
    if field in _WORDS:
        return _WORDS[field]
    for parse in (int, float):
        try:
            return parse(field)
        except ValueError:
            continue
    return field


# ----------------------------------------------------------------------------------------------------
# Results as CSV: plain enough for any program to read, and every float comes back bit for bit.
#
# The first line has the names, ``time`` first. Reals are written as the shortest text that reads back to
# the same double, booleans as ``true`` and ``false``, enumerations as their numbers; strings are always
# quoted, so that the text "1" stays a string. Any program reads the file as it is. Events are in a second
# file; units of measure, the labels of enumerations, the step log, the outcome and what ran in a third,
# ``run.columns.json``, which is written when the run begins and again when it ends.

_WIDER = {Kind.BOOLEAN: Kind.INTEGER, Kind.INTEGER: Kind.REAL, Kind.REAL: Kind.STRING}
_ROWS_AT_ONCE = 1 << 14
_CELL = re.compile(r'("(?:[^"]|"")*"|[^,;\t\r\n]*)(?:[,;\t]|\r?\n?\Z)')


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
    known, ending = ({}, Ending()) if kinds else _read_beside(path, len(time))
    columns = (
        _described(name, kind, known) for name, kind in zip(names, found, strict=True) if name != "time"
    )
    ending.events = EventLog() if kinds else read_events(events_beside(path))
    return Stored(tuple(columns), Arrays([time, *arrays]), ending)


def columns_beside(path: Path) -> Path:
    """The file with what the columns of a CSV file are: ``run.csv``, ``run.columns.json``."""
    return path.with_name(f"{path.stem}.columns.json")


def write_columns(path: Path, columns: Sequence[Column], ending: Ending | None = None, rows: int = 0) -> None:
    """Write what the columns of a CSV file are next to it; and, when the run has ended, how that was."""
    beside = columns_beside(path)
    data: dict[str, Any] = {"columns": [column.to_data() for column in columns], "ending": None}
    if ending is not None:
        data["ending"] = ending.to_data() | {"rows": rows}
    listed = [json.dumps(column, ensure_ascii=False) for column in data["columns"]]
    text = '{"columns": [\n ' + ",\n ".join(listed) + '\n],\n"ending": '
    text += json.dumps(data["ending"], ensure_ascii=False, default=str) + "}\n"
    try:
        growing = beside.with_name(beside.name + ".tmp")
        growing.write_text(text, encoding="utf-8")
        growing.replace(beside)
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


def _read_beside(path: Path, rows: int) -> tuple[dict[str, Column], Ending]:
    """What is next to a CSV file of so many rows: its columns by name, and how the run ended.

    Nothing if there is no such file, or if it is none of ours. An ending that belongs to other rows (somebody
    has changed the file) is left out.
    """
    beside = columns_beside(path)
    if not beside.is_file():
        return {}, Ending()
    try:
        data = json.loads(beside.read_text(encoding="utf-8"))
        columns = {column.name: column for column in map(Column.from_data, data["columns"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        warn(f"'{beside}' does not say what the columns of '{path.name}' are: {error}")
        return {}, Ending()
    found = data.get("ending")
    if found is None:  # earlier versions have left it out
        return columns, Ending(Outcome.CUT_OFF if "ending" in data else Outcome.UNKNOWN)
    try:
        ending = Ending.from_data(found)
        if Fields(found, "the end of the run").whole("rows") == rows:
            return columns, ending
        said = f"'{path.name}' has been changed since its run: what '{beside.name}' says of it is left out"
        return columns, Ending(notes=[said])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        warn(f"'{beside}' does not say how the run of '{path.name}' went: {error}")
    return columns, Ending()


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
    fields = [match.group(1) for match in itertools.islice(_CELL.finditer(record), width)]
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


# ----------------------------------------------------------------------------------------------------
# Results to CSV, chunk by chunk; `upbeat.trace.files.csv` says what is in such a file and reads it.


class CsvSink:
    """Writes CSV straight to its final name, a chunk at a time: a killed run leaves a readable file."""

    streams = True

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.rows = 0
        self._file = Appender(self.path)
        self._columns: tuple[Column, ...] = ()
        self._quoted: list[str] = []
        self._events: CsvEvents | None = None
        self._kinds: tuple[EventKind, ...] = ()

    def begin(self, columns: tuple[Column, ...], kinds: tuple[EventKind, ...] = ()) -> None:
        if kinds:
            try:
                self._events = CsvEvents(events_beside(self.path))
            except FileProblem:
                self._file.close()
                raise
        self._columns = (TIME, *columns)
        self._line = ",".join("%r" if c.kind is Kind.REAL else "%s" for c in self._columns) + "\n"

    def write(self, cells: Cells, strings: Sequence[str]) -> None:
        self._quoted.extend(quote(text) for text in strings[len(self._quoted) :])
        self._begin()
        width = len(self._columns)
        # One % over the whole chunk is the fastest that Python has: nearly all of the time is
        # spent in finding the shortest digits.
        flat: list[Any] = [None] * cells.size
        for number, column in enumerate(self._columns):
            flat[number::width] = self._texts(column, np.ascontiguousarray(cells[:, number]))
        self._file.append((self._line * len(cells) % tuple(flat)).encode())
        self.rows += len(cells)

    def write_events(self, events: EventLog, strings: Sequence[str]) -> None:
        if self._events is None:
            self._events = CsvEvents(events_beside(self.path))
            if self._file.begun:
                self._events.begin()
        self._begin()
        self._events.write(events)
        self._kinds = events.kinds

    def stored_events(self) -> Callable[[], EventLog]:
        return partial(read_events, events_beside(self.path), self._kinds)

    def position(self) -> dict[str, Any]:
        events = None if self._events is None else asdict(self._events.file.written())
        return {"rows": self.rows, "file": asdict(self._file.written()), "events": events}

    def resume_from(self, position: Fields) -> None:
        found = Written.from_data(position.fields("file"))
        events = None if position.any("events") is None else Written.from_data(position.fields("events"))
        rows = position.whole("rows")
        self._file.check(found)
        if events is not None:
            self._events = self._events or CsvEvents(events_beside(self.path))
            self._events.file.check(events)
        self._file.go_on(found)
        if events is not None and self._events is not None:
            self._events.file.go_on(events)
        elif self._events is not None:
            self._events.begin()
        self.rows = rows

    def _texts(self, column: Column, cells: Cells) -> list[Any]:
        match column.kind:
            case Kind.REAL:
                return list(cells.tolist())
            case Kind.INTEGER:
                return list(cells.view(np.int64).tolist())
            case Kind.BOOLEAN:
                return ["true" if value else "false" for value in cells.view(np.int64).tolist()]
            case Kind.STRING:
                return [self._quoted[number] for number in cells.view(np.int64).tolist()]

    def close(self, ending: Ending) -> None:
        try:
            if ending.outcome.ok:
                self._begin()
            if self._file.begun:
                write_columns(self.path, self._columns[1:], ending, self.rows)
        finally:
            self._file.close()
            if self._events is not None:
                self._events.close()

    def source(self) -> Source:
        return Deferred(self.rows, partial(_again, self.path, [column.kind for column in self._columns]))

    def _begin(self) -> None:
        if not self._file.begun:
            names = (quote(c.name) if re.search(r'[",\n]', c.name) else c.name for c in self._columns)
            self._file.begin((",".join(names) + "\n").encode())
            write_columns(self.path, self._columns[1:])
            if self._events is not None:
                self._events.begin()
            elif is_events(beside := events_beside(self.path)):
                beside.unlink()  # of an earlier run


def _again(path: Path, kinds: Sequence[Kind]) -> Source:
    return read_csv(path, kinds=kinds).source
