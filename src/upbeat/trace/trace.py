"""The trace: signals by name, the step log, the event log and the outcome of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upbeat.core.atomic import as_path
from upbeat.core.display import Displayed
from upbeat.core.errors import FileProblem, InvalidInput, check_type, suggest
from upbeat.core.plain import shown
from upbeat.core.ports import Kind
from upbeat.trace.columns import TIME, Cells, Column, Pool, labels_of
from upbeat.trace.events import EventLog, StoredEvents
from upbeat.trace.files.sinks import check_ours, check_suffix, load, open_file
from upbeat.trace.log import Ending, Lateness, Outcome, StepLog
from upbeat.trace.recorder import Arrays, Source, Statistics, Summary

if TYPE_CHECKING:
    from upbeat.judging.trust import Trust
    from upbeat.properties.robustness import Robustness
    from upbeat.trace.recorder import Recorder

_EVENTS_AT_ONCE = 1 << 15
Side = Literal["left", "right"]
"""Of a jump: before it or after it."""
_KINDS = {"f": Kind.REAL, "i": Kind.INTEGER, "u": Kind.INTEGER, "b": Kind.BOOLEAN}


class UnknownSignal(InvalidInput, KeyError):
    """A trace has no signal of that name. Also a `KeyError`, as for any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])


class Trace(Displayed):
    """The result of a run.

    ``trace["left.x"]`` is one signal as a read-only NumPy array, ``trace.time`` the times of its
    rows. An array port is recorded cell by cell (``left.u[0]``, ``left.u[1]``, …), and its own name
    gives all cells side by side. ``len(trace)`` counts rows, iterating gives the names.

    There is a row for each communication point, and where a value changes at an instant (by an event, a
    discrete unit, `Run.set`) there are two of that time: the first row of a time has the values before all
    that happened there, the last row those after it. So times never decrease, and are equal at jumps;
    between rows of different times all is continuous, as far as the trace knows. `at` asks for one side,
    `one_sided` leaves one row for each time.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        source: Source,
        ending: Ending | None = None,
        statistics: Statistics | None = None,
        events: EventLog | StoredEvents | None = None,
    ) -> None:
        check_type(columns, Iterable, "columns")
        if ending is not None:
            check_type(ending, Ending, "ending")
        ending = ending or Ending()
        self.columns = tuple(columns)
        for column in self.columns:
            check_type(column, Column, "a column")
        self.source = source
        self.outcome: Outcome = ending.outcome
        self.steps: StepLog = ending.steps
        self._events = ending.events if events is None else events
        self.info: Mapping[str, Any] = ending.info
        self.notes: tuple[str, ...] = tuple(ending.notes)
        self._index = {column.name: number for number, column in enumerate((TIME, *self.columns))}
        self.origin: Any = None
        """The experiment that gave this, as far as that is known: not of files."""
        self._statistics = statistics
        self._decoded: dict[int, NDArray[Any]] = {}

    @classmethod
    def from_arrays(
        cls, time: ArrayLike, signals: Mapping[str, ArrayLike], units: Mapping[str, str] | None = None
    ) -> Trace:
        """A trace from data that comes from elsewhere: a measurement, an analytic solution."""
        arrays = [np.array(time, dtype=np.float64), *(np.array(values) for values in signals.values())]
        for name, values in zip(("time", *signals), arrays, strict=True):
            if values.shape != arrays[0].shape or values.ndim != 1:
                raise InvalidInput(f"'{name}' has shape {values.shape}, but time has {arrays[0].shape}")
        given = units or {}
        columns = [
            Column(name, _KINDS.get(values.dtype.kind, Kind.STRING), given.get(name))
            for name, values in zip(signals, arrays[1:], strict=True)
        ]
        return cls(columns, Arrays(arrays))

    @classmethod
    def from_recorder(
        cls,
        recorder: Recorder,
        *,
        outcome: Outcome,
        steps: StepLog | None = None,
        info: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
    ) -> Trace:
        """What a recorder has so far. Rows and events do not grow with the run."""
        source, events = recorder.source(), recorder.stored_events()
        ending = Ending(outcome, steps or StepLog(), recorder.events, dict(info or {}), list(notes))
        return cls(recorder.columns, source, ending, recorder.statistics(), events)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_decoded": {}, "origin": None}  # the source has them all

    @property
    def events(self) -> EventLog:
        """Every event that fired. Those of a long run stay on disk until asked for."""
        return self._events.log if isinstance(self._events, StoredEvents) else self._events

    @events.setter
    def events(self, events: EventLog) -> None:
        self._events = events

    @property
    def event_counts(self) -> dict[str, int]:
        """How many of which events fired; does not read a file that a long run has just written."""
        return self._events.counts if isinstance(self._events, StoredEvents) else self._events.counts()

    @property
    def lateness(self) -> Lateness | None:
        """How late the steps of a run in real time were; None of any other run, and of a CSV file."""
        return Lateness.from_data(self.info["lateness"]) if "lateness" in self.info else None

    @property
    def time(self) -> NDArray[np.float64]:
        return self._column(0)

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last time; does not read a file that a long run has just written."""
        if self._statistics is not None and self._statistics.rows:
            return self._statistics.first_time, self._statistics.last_time
        if len(self) == 0:
            raise InvalidInput("the trace is empty: nothing was recorded")
        return float(self.time[0]), float(self.time[-1])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signals, without ``time``."""
        return tuple(column.name for column in self.columns)

    def keys(self) -> tuple[str, ...]:
        return self.names

    def __len__(self) -> int:
        return self.source.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __getitem__(self, name: str) -> NDArray[Any]:
        check_type(name, str, "the name of a signal")
        if name in self._index:
            return self._column(self._index[name])
        cells = self._cells_of(name)
        if not cells:
            raise self._unknown(name)
        return np.stack([self[cell] for cell in cells], axis=1)

    def __repr__(self) -> str:
        span = f", t = {self.span[0]:g} … {self.span[1]:g}" if len(self) else ""
        return f"<Trace: {len(self)} rows × {len(self.columns)} signals{span}; {self.outcome.value}>"

    def column(self, name: str) -> Column:
        """Kind, unit of measure and labels of a signal."""
        check_type(name, str, "the name of a signal")
        if name not in self._index:
            raise self._unknown(name)
        return (TIME, *self.columns)[self._index[name]]

    def labels(self, name: str) -> NDArray[Any]:
        """An enumeration's labels in place of its numbers."""
        items = self.column(name).items
        if not items:
            raise InvalidInput(f"'{name}' is not an enumeration: it has no labels")
        numbers = self[name]
        found, known = labels_of(numbers, items)
        if not known.all():
            raise InvalidInput(f"'{name}' holds numbers that none of its {len(items)} labels belongs to")
        return found

    def summary(self, name: str) -> Summary | None:
        """Least, mean (over time), greatest and final value; None for strings and empty traces."""
        index = self._index[self.column(name).name]
        if self._statistics is None:
            self._statistics = Statistics(self.columns)
            for cells in self.chunks(Pool()):
                self._statistics.add(cells)
        return self._statistics[index - 1] if index else None

    def between(self, start: float, stop: float) -> Trace:
        """The part from `start` to `stop`, with the rows right before and after it; steps stay all."""
        for bound in (start, stop):
            check_type(bound, Real, "a time")
        if not start < stop:
            raise InvalidInput(
                f"a part of a trace goes from an earlier to a later time, not {start} to {stop}"
            )
        time = self.time
        first = max(int(np.searchsorted(time, start, side="left")) - 1, 0)
        last = int(np.searchsorted(time, stop, side="right")) + 1
        arrays = [self._column(number)[first:last] for number in range(1 + len(self.columns))]
        when = self.events.times()
        events = self.events.take(np.flatnonzero((when >= start) & (when <= stop)))
        ending = Ending(self.outcome, self.steps, info=dict(self.info), notes=list(self.notes))
        return Trace(self.columns, Arrays(arrays), ending, events=events)

    def at(self, t: ArrayLike, name: str | None = None, *, side: Side = "right") -> Any:
        """The values at `t`: reals by linear interpolation, everything else held.

        With a `name`, that signal's value, an array if `t` is one; without, a dict of all signals.
        At a jump it is the value after it, and with ``side="left"`` the one before it.
        """
        _check_side(side)
        try:
            when = np.asarray(t, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(f"t must be a time or an array of times, not {shown(t)}") from None
        time = self.time
        if len(time) == 0 or not np.all((when >= time[0]) & (when <= time[-1])):
            held = f"from {time[0]:g} to {time[-1]:g}" if len(time) else "no rows at all"
            raise InvalidInput(f"t = {t!r} lies outside the trace, which has {held}")
        left = np.searchsorted(time, when, side="right") - 1
        if side == "left":  # the first row of that time, if it has any
            first = np.searchsorted(time, when, side="left")
            left = np.where(time[first] == when, first, left)
        right = np.minimum(left + 1, len(time) - 1)
        past = when - time[left]
        part = np.divide(past, time[right] - time[left], out=np.zeros_like(when), where=past > 0.0)

        def value(column: Column) -> Any:
            values = self[column.name]
            found: Any = values[left]
            if column.kind is Kind.REAL:
                found = np.where(part == 0, found, found + part * (values[right] - found))
            return (
                found if when.ndim else found.item() if isinstance(found, (np.ndarray, np.generic)) else found
            )

        if name is not None:
            return value(self.column(name))
        return {column.name: value(column) for column in self.columns}

    @property
    def properties(self) -> Mapping[str, Robustness]:
        """By how much this has each of the properties of its scenario, as far as that is known."""
        scenario = getattr(self.origin, "scenario", None)
        return {} if scenario is None else cast("Mapping[str, Robustness]", scenario.judged(self))

    def trust(self, **settings: Any) -> Trust:
        """How far this can be trusted: runs its experiment with other steps, and judges. See `up.trust`."""
        trust: Callable[..., Trust] = import_module("upbeat").trust  # which lies above all traces
        return trust(self, **settings)

    def one_sided(self, side: Side = "right") -> Trace:
        """The trace with one row for each time: at jumps, only the values after them, or before them.

        For what wants times that increase strictly: an index of pandas or xarray, a spline.
        """
        _check_side(side)
        time = self.time
        apart = time[1:] > time[:-1]
        keep = np.append(apart, True) if side == "right" else np.append(True, apart)
        if keep[: len(time)].all():
            return self
        arrays = [self._column(number)[keep] for number in range(1 + len(self.columns))]
        ending = Ending(self.outcome, self.steps, info=dict(self.info), notes=list(self.notes))
        one = Trace(self.columns, Arrays(arrays), ending, events=self._events)
        one.origin = self.origin
        return one

    def chunks(self, pool: Pool, rows: int = 1 << 16) -> Iterator[Cells]:
        """The whole trace as matrices of cells, a few rows at a time; strings are numbered in `pool`."""
        for first in range(0, len(self), rows):
            part = slice(first, min(first + rows, len(self)))
            cells = np.empty((part.stop - part.start, 1 + len(self.columns)))
            for number, column in enumerate((TIME, *self.columns)):
                cells[:, number] = column.encode(self._column(number)[part], pool.intern)
            yield cells

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write the trace to a file; the suffix says how (``.csv``, ``.parquet``, ``.journal``).

        A file that is there and is not a result of Upbeat is replaced with `force` only.
        """
        events, path = self.events, as_path(path)
        check_suffix(path)
        check_ours(path, self.columns, force=force)
        sink, pool = open_file(path), Pool(list(events.strings))
        sink.begin(self.columns, events.kinds)
        try:
            for first in range(0, len(events), _EVENTS_AT_ONCE):
                sink.write_events(events[first : first + _EVENTS_AT_ONCE], pool.strings)
            for cells in self.chunks(pool):
                sink.write(cells, pool.strings)
        except FileProblem:
            with suppress(FileProblem):
                sink.close(Ending(Outcome.FAILED))
            raise
        sink.close(Ending(self.outcome, self.steps, info=dict(self.info), notes=list(self.notes)))

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """All signals as arrays, ``time`` first."""
        return {name: self._column(number) for name, number in self._index.items()}

    def to_pandas(self) -> Any:
        """A pandas DataFrame with ``time`` as its index, in which jumps are there twice (see `one_sided`)."""
        from upbeat.trace.extras import need

        pandas = need("pandas", "pandas", "Trace.to_pandas")
        signals = self.to_numpy()
        return pandas.DataFrame(signals, index=pandas.Index(signals.pop("time"), name="time"))

    def to_polars(self) -> Any:
        """A polars DataFrame with ``time`` as its first column."""
        from upbeat.trace.extras import need

        polars = need("polars", "polars", "Trace.to_polars")
        text = [column.name for column in self.columns if column.kind is Kind.STRING]
        return polars.DataFrame(self.to_numpy(), schema_overrides=dict.fromkeys(text, polars.String))

    def to_xarray(self) -> Any:
        """An xarray Dataset over ``time``, with the units of measure as attributes.

        Jumps are there twice: for `sel` with a method, or `interp`, take `one_sided` before.
        """
        from upbeat.trace.extras import need

        xarray = need("xarray", "xarray", "Trace.to_xarray")
        signals = {}
        for column in self.columns:
            attributes = {"units": column.unit} if column.unit else {}
            if column.items:
                attributes["labels"] = str(column.labels)
            signals[column.name] = ("time", self[column.name], attributes)
        time = ("time", self.time, {"units": TIME.unit})
        return xarray.Dataset(signals, coords={"time": time}, attrs={"outcome": self.outcome.value})

    def _column(self, index: int) -> NDArray[Any]:
        values = self._decoded.get(index)
        if values is None:
            # A view, so that the owner of the memory keeps its own flags.
            self._decoded[index] = values = self.source.column(index).view()
            values.flags.writeable = False
        return values

    def _cells_of(self, name: str) -> list[str]:
        cells: list[str] = []
        while f"{name}[{len(cells)}]" in self._index:
            cells.append(f"{name}[{len(cells)}]")
        return cells

    def _unknown(self, name: str) -> UnknownSignal:
        return UnknownSignal(
            f"the trace has no signal {name!r}. {suggest(str(name), self._index, 'signals')}"
        )


def _check_side(side: Side) -> None:
    if side not in ("left", "right"):
        raise InvalidInput(f"side must be 'left' or 'right', not {side!r}")


def read(path: Path | str, *, keep_last: bool = False) -> Trace:
    """Read a result file back (``.csv``, ``.parquet``, ``.journal``).

    Of a run that was killed, every whole chunk is read, with a warning. A CSV file that does not end
    with a line end was cut off, perhaps in the middle of a number: its last line is dropped, unless
    `keep_last`.
    """
    stored = load(as_path(path), keep_last)
    return Trace(stored.columns, stored.source, stored.ending)
