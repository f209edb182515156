"""Results to CSV, chunk by chunk; `upbeat.trace.files.csvfile` says what is in such a file and reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import FileProblem
from upbeat.core.plain import Fields
from upbeat.core.ports import Kind
from upbeat.trace.columns import TIME, Cells, Column
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.events import EventLog
from upbeat.trace.files.csvevents import CsvEvents, is_events, quote, read_events
from upbeat.trace.files.csvfile import read_csv, write_columns
from upbeat.trace.files.output import Appender, Written
from upbeat.trace.log import Ending
from upbeat.trace.store import Deferred, Source, events_beside


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

    def standing(self) -> dict[str, Any]:
        events = None if self._events is None else asdict(self._events.file.written())
        return {"rows": self.rows, "file": asdict(self._file.written()), "events": events}

    def stand(self, standing: Fields) -> None:
        found = Written.from_data(standing.fields("file"))
        events = None if standing.any("events") is None else Written.from_data(standing.fields("events"))
        rows = standing.whole("rows")
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
