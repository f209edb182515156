"""Signals for a scenario's own inputs: from Python or a CSV file (see `inputs_unit` for what plays them).

A CSV file has a column ``time`` and one per input (``force``; ``force[0]``, ``force[1]``, … for an array).
Real inputs are interpolated linearly, all others keep the value of the last row reached; before the
first row and after the last one the value is that of the row. Two rows of one time are a jump: at that time
the value is that of the second one. Of more rows of one time the first and the last count, as in a trace.
An event input has an event in every row with a value, and nothing in between; its cell is empty where
nothing happens.

Columns may also be named after parameters that can change during a run, and after inputs of strings that
nothing drives (``unit.port``): these are set at the first communication point that reaches a row.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from upbeat.core.atomic import as_path, check_regular
from upbeat.core.errors import FileProblem, InvalidInput, ModelError, cannot_read, check_type, suggest
from upbeat.core.ports import Kind, Port, Value, Values
from upbeat.core.records import dataclass

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario

T = TypeVar("T")

TIME = "time"


@dataclass(frozen=True, init=False)
class Signals:
    """Values over time, by name: ``Signals([0, 1, 2], {"force": [0.0, 1.0, 0.5]})``.

    A cell of an array input is named ``force[0]``. An enumeration takes labels or indices. An event input
    happens where its value is not None; or it has times of its own, in increasing order:
    ``{"call": {"at": [1.0, 2.5], "value": ["stop", "go"]}}``. One value stands for all of them, and an event
    that only happens needs none. A time that is there twice is a jump, so that columns of a `Trace` mean here
    what they mean there; if it is there more often, the first and the last value count. Real inputs named in
    `held` keep their values from row to row, as all others do, instead of being interpolated.
    """

    time: tuple[float, ...]
    values: dict[str, tuple[Value | None, ...]]
    events: dict[str, EventSeries]
    held: frozenset[str]

    def __init__(self, time: Sequence[float], values: Mapping[str, Any], held: Iterable[str] = ()) -> None:
        check_type(values, Mapping, "values of Signals")
        for name, entry in values.items():
            check_type(name, str, "the name of a signal")
            if isinstance(entry, str):
                raise InvalidInput(f"signal '{name}' must be a list of values, not {entry!r}")
            check_type(entry, Iterable, f"signal '{name}'")
        if isinstance(held, str):
            raise InvalidInput(f"held must be a list of names, not {held!r}")
        check_type(held, Iterable, "held of Signals")
        for name in held:
            check_type(name, str, "a name in held of Signals")
        times = _times(time, "signals need at least one point in time", jumps=True)
        events = {name: entry for name, entry in values.items() if isinstance(entry, Mapping)}
        columns = {
            name: tuple(_bare(v) for v in column) for name, column in values.items() if name not in events
        }
        for name, column in columns.items():
            if len(column) != len(times):
                raise InvalidInput(
                    f"signal '{name}' has {len(column)} values for {len(times)} points in time"
                )
        object.__setattr__(self, "held", frozenset(held))
        object.__setattr__(self, "time", times)
        object.__setattr__(self, "values", columns)
        object.__setattr__(self, "events", {name: event_series(name, e) for name, e in events.items()})

    def __bool__(self) -> bool:
        return bool(self.values or self.events)

    def without(self, ports: Iterable[Port]) -> Signals:
        """The same without those of these ports."""
        names = {name for port in ports for name in column_names(port)}
        rest: dict[str, Any] = {name: column for name, column in self.values.items() if name not in names}
        events = {name: {"at": e.at, "value": e.values} for name, e in self.events.items()}
        return Signals(self.time, rest | events, self.held)

    def changes(self, port: Port) -> list[tuple[float, Values]]:
        """From which times on a port that is set now and then has which values; nothing without columns.

        A time that is rounded to just before one of these counts as that.
        """
        names = column_names(port)
        if not any(name in self.values for name in names):
            return []
        for name in names:
            if name not in self.values:
                raise InvalidInput(f"'{port.name}' has a signal, but there is none for '{name}'")
        found: list[tuple[float, Values]] = []
        try:
            for t, *row in zip(self.time, *(self.values[name] for name in names), strict=True):
                given: Any = row if port.size is not None else row[0]
                cells, at = port.values(given, port.name), t - ROUNDED * abs(t)
                if found and found[-1][0] == at:
                    del found[-1]
                if not found or found[-1][1] != cells:
                    found.append((at, cells))
        except ModelError as error:
            raise InvalidInput(f"signal '{port.name}': {error}") from None
        return found


ROUNDED = 2.0**-50
"""The part of a time by which a communication point may lie before it and still be meant."""


@dataclass(frozen=True, slots=True)
class EventSeries:
    """When an event input has an event, and with which value (for an array a list of them)."""

    at: tuple[float, ...]
    values: tuple[Any, ...]


def event_series(name: str, entry: Mapping[str, Any]) -> EventSeries:
    """``{"at": […], "value": […]}``, checked; without a value, the event is true each time."""
    for key in entry:
        if key not in ("at", "value"):
            known = suggest(str(key), ("at", "value"), "keys")
            raise InvalidInput(f"signal '{name}': unknown key '{key}'. {known}")
    if "at" not in entry:
        raise InvalidInput(f'signal \'{name}\' does not say when: write {{"at": [1.0, 2.5], "value": …}}')
    given = entry["at"]
    at = _times(given if isinstance(given, Iterable) else (given,), f"signal '{name}' has no times")
    value = entry.get("value", True)
    values = tuple(_bare(v) for v in value) if isinstance(value, (list, tuple)) else (_bare(value),) * len(at)
    if len(values) != len(at):
        raise InvalidInput(f"signal '{name}' has {len(values)} values for {len(at)} points in time")
    return EventSeries(at, values)


def _times(given: Iterable[float], empty: str, *, jumps: bool = False) -> tuple[float, ...]:
    try:
        times = tuple(float(t) for t in given)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"the times of signals must be a list of numbers, not {given!r}") from None
    if not times:
        raise InvalidInput(empty)
    if not all(map(math.isfinite, times)):
        raise InvalidInput("the times of signals must be finite numbers")
    for before, after in pairwise(times):
        if after < before or (after == before and not jumps):
            raise InvalidInput(f"the times of signals must increase, but {after:g} follows {before:g}")
    return times


def _bare(value: Any) -> Any:
    """What NumPy holds as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def as_signals(given: Signals | Mapping[str, Any]) -> Signals:
    """``{"time": […], "force": […]}`` is as good."""
    if isinstance(given, Signals):
        return given
    return Signals(given.get(TIME, (0.0,)), {name: v for name, v in given.items() if name != TIME})


# -------------------------------------------------------------------- from a file


def read_signals(path: str | Path, scenario: Scenario) -> Signals:
    """The signals in a CSV file, for inputs that `scenario` has. Its errors name file and line."""
    if not hasattr(scenario, "settable"):
        raise InvalidInput(f"scenario must be a Scenario, not {scenario!r}")
    return read_columns(path, scenario.inputs, scenario.settable)


def read_columns(path: str | Path, inputs: Sequence[Port], others: Sequence[Port] = ()) -> Signals:
    """The same for any inputs, and for `others` that columns may set."""
    return _opened(
        path, lambda rows: _read(rows, str(path), cells_of_inputs(inputs), cells_of_inputs(others))
    )


def header_of(path: str | Path) -> list[str]:
    """The names of the columns."""
    return _opened(path, _header)


def _header(rows: Iterator[list[str]]) -> list[str]:
    return [name.strip() for name in next((row for row in rows if any(row)), [])]


def _opened(path: str | Path, read: Callable[[Iterator[list[str]]], T]) -> T:
    path = as_path(path)
    try:
        check_regular(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            return read(csv.reader(file))
    except OSError as error:
        raise cannot_read(path, error) from None
    except UnicodeDecodeError:
        raise FileProblem(f"{path}: is not a text in UTF-8; export it as CSV (UTF-8)") from None
    except csv.Error as error:
        raise FileProblem(f"{path}: is not a CSV file: {error}") from None


def cells_of_inputs(inputs: Sequence[Port]) -> dict[str, Port]:
    """The inputs that a column can drive, by the name of the column."""
    return {name: port for port in inputs for name in column_names(port)}


def column_names(port: Port) -> tuple[str, ...]:
    """The columns that drive an input."""
    return (port.name,) if port.size is None else tuple(f"{port.name}[{i}]" for i in range(port.size))


def _read(
    rows: Iterator[list[str]], path: str, inputs: Mapping[str, Port], others: Mapping[str, Port]
) -> Signals:
    header = _header(rows)
    _check_header(header, path, inputs, others)
    known = {**others, **inputs}
    time: list[float] = []
    columns: dict[str, list[Value | None]] = {name: [] for name in header if name != TIME}
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        line = rows.line_num  # type: ignore[attr-defined]  # every csv reader has it
        if len(row) != len(header):
            raise FileProblem(
                f"{path}: line {line} has {len(row)} values, but the header names {len(header)}"
            )
        for name, text in zip(header, row, strict=True):
            try:
                if name == TIME:
                    time.append(_number(text))
                else:
                    columns[name].append(_cell(text.strip(), known[name]))
            except (ValueError, ModelError) as error:
                raise FileProblem(f"{path}: line {line}, column '{name}': {error}") from None
        if len(time) > 1 and time[-1] < time[-2]:
            raise FileProblem(
                f"{path}: line {line}: the time {time[-1]:g} lies before {time[-2]:g}; sort the rows by time."
            )
    if not time:
        raise FileProblem(f"{path}: has a header, but no rows with values")
    return Signals(time, columns)


def _check_header(
    header: list[str], path: str, known: Mapping[str, Port], others: Mapping[str, Port]
) -> None:
    if not header:
        raise FileProblem(
            f"{path}: is empty; the first line must name the columns: {','.join([TIME, *known])}"
        )
    if not known and not any(name in others or "." in name for name in header):
        raise FileProblem(
            f"{path}: the scenario has no inputs that signals could drive. Declare them: "
            '[inputs] with a line such as force = { unit = "N" }.'
        )
    if TIME not in header:
        raise FileProblem(
            f"{path}: line 1: the column '{TIME}' is missing; the columns are: {', '.join(header)}. "
            f"Write for instance {','.join([TIME, *known])}"
        )
    for i, name in enumerate(header):
        if name in header[:i]:
            raise FileProblem(f"{path}: line 1: the column '{name}' is there twice")
        if name != TIME and name not in known and name not in others:
            near = suggest(name, known, "inputs")
            if "." in name:
                near = suggest(name, {**known, **others}, "inputs and parameters")
            raise FileProblem(f"{path}: line 1: the scenario has no input '{name}'. {near}")
    for port in dict.fromkeys((*known.values(), *others.values())):
        missing = [name for name in column_names(port) if name not in header]
        if missing and len(missing) < port.cells:
            raise FileProblem(
                f"{path}: line 1: a column for '{missing[0]}' is missing, though '{port.name}' is driven"
            )
    if header == [TIME]:
        raise FileProblem(
            f"{path}: line 1: there is no column but '{TIME}'; add one per input: {', '.join(known)}"
        )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number" if text.strip() else "the value is missing") from None
    if not math.isfinite(value):
        raise ValueError(f"{text.strip()} is not a finite number")
    return value


def _cell(text: str, port: Port) -> Value | None:
    return None if port.event and not text else _value(text, port)


def _value(text: str, port: Port) -> Value:
    match port.kind:
        case Kind.STRING:
            return text
        case Kind.INTEGER if port.items and not text.lstrip("+-").isdigit():
            if text not in port.items:
                raise ValueError(f"{text!r} is not a label. {suggest(text, port.items, 'labels')}")
            return port.value(text)
        case Kind.BOOLEAN:
            known = {"true": True, "false": False, "1": True, "0": False}
            if text.lower() not in known:
                raise ValueError(f"{text!r} is neither true nor false")
            return known[text.lower()]
        case Kind.INTEGER:
            number = _number(text)
            if not number.is_integer():
                raise ValueError(f"{text} is not a whole number")
            return port.value(int(number))
    return _number(text)
