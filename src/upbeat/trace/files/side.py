"""Results that are wanted in memory, of a run that must survive a kill: on disk until it has ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from upbeat.trace.events import EventLog
from upbeat.trace.files.journal import JournalSink, load_events, load_journal
from upbeat.trace.log import Ending
from upbeat.trace.store import Deferred, Source

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
