"""Signals for a scenario's own inputs: from Python or a CSV file, and the unit that plays them.

A CSV file has a column ``time`` and one per input (``force``; ``force[0]``, ``force[1]``, … for an array).
Real inputs are interpolated linearly, all others keep the value of the last row reached; before the
first row and after the last one the value is that of the row.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import FileProblem, InvalidInput, ModelError, suggest
from upbeat.core.expr import Table1
from upbeat.core.ports import Kind, Port, Value
from upbeat.scenario.directory import by_hand
from upbeat.units.ode import Function
from upbeat.units.shorthand import plain, port_spec

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario

TIME = "time"


@dataclass(frozen=True, init=False)
class Signals:
    """Values over time, by name: ``Signals([0, 1, 2], {"force": [0.0, 1.0, 0.5]})``.

    A cell of an array input is named ``force[0]``. An enumeration takes labels or indices.
    """

    time: tuple[float, ...]
    values: dict[str, tuple[Value, ...]]

    def __init__(self, time: Sequence[float], values: Mapping[str, Sequence[Any]]) -> None:
        times = tuple(float(t) for t in time)
        if not times:
            raise InvalidInput("signals need at least one point in time")
        if not all(map(math.isfinite, times)):
            raise InvalidInput("the times of signals must be finite numbers")
        for before, after in pairwise(times):
            if after <= before:
                raise InvalidInput(f"the times of signals must increase, but {after:g} follows {before:g}")
        columns = {name: tuple(_bare(v) for v in column) for name, column in values.items()}
        for name, column in columns.items():
            if len(column) != len(times):
                raise InvalidInput(
                    f"signal '{name}' has {len(column)} values for {len(times)} points in time"
                )
        object.__setattr__(self, "time", times)
        object.__setattr__(self, "values", columns)

    def __bool__(self) -> bool:
        return bool(self.values)


def _bare(value: Any) -> Value:
    """A NumPy scalar as a Python one."""
    bare: Value = value.item() if hasattr(value, "item") else value
    return bare


# -------------------------------------------------------------------- from a file


def read_signals(path: str | Path, scenario: Scenario) -> Signals:
    """The signals in a CSV file, for inputs that `scenario` has. Its errors name file and line."""
    source = Path(path)
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            return _read(csv.reader(file), str(path), _cells(scenario.inputs))
    except OSError as error:
        raise FileProblem(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{path}: is not a text in UTF-8; export it as CSV (UTF-8)") from None
    except csv.Error as error:
        raise FileProblem(f"{path}: is not a CSV file: {error}") from None


def _cells(inputs: Sequence[Port]) -> dict[str, Port]:
    """The inputs that a column can drive, by the name of the column."""
    return {name: port for port in inputs for name in _cell_names(port)}


def _cell_names(port: Port) -> tuple[str, ...]:
    return (port.name,) if port.size is None else tuple(f"{port.name}[{i}]" for i in range(port.size))


def _read(rows: Iterator[list[str]], path: str, known: Mapping[str, Port]) -> Signals:
    header = [name.strip() for name in next((row for row in rows if any(row)), [])]
    _check_header(header, path, known)
    time: list[float] = []
    columns: dict[str, list[Value]] = {name: [] for name in header if name != TIME}
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
                    columns[name].append(_value(text.strip(), known[name]))
            except (ValueError, ModelError) as error:
                raise FileProblem(f"{path}: line {line}, column '{name}': {error}") from None
        if len(time) > 1 and time[-1] <= time[-2]:
            raise FileProblem(
                f"{path}: line {line}: the time {time[-1]:g} does not lie after {time[-2]:g}; "
                "sort the rows by time. For a jump, give two rows a little apart."
            )
    if not time:
        raise FileProblem(f"{path}: has a header, but no rows with values")
    return Signals(time, columns)


def _check_header(header: list[str], path: str, known: Mapping[str, Port]) -> None:
    if not header:
        raise FileProblem(
            f"{path}: is empty; the first line must name the columns: {','.join([TIME, *known])}"
        )
    if not known:
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
        if name != TIME and name not in known:
            raise FileProblem(
                f"{path}: line 1: the scenario has no input '{name}'. {suggest(name, known, 'inputs')}"
            )
    for port in dict.fromkeys(known.values()):
        missing = [name for name in _cell_names(port) if name not in header]
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


def _value(text: str, port: Port) -> Value:
    match port.kind:
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


# -------------------------------------------------------------------- the unit that plays them


def inputs_model(inputs: Sequence[Port], signals: Signals | Mapping[str, Any]) -> Function:
    """A function unit with an output for every scenario input.

    An input with a signal is looked up over `time`. Any other is handed through from the unit's own
    input ``set_<name>``, so that it can be set during a run.
    """
    if not isinstance(signals, Signals):
        signals = Signals(signals.get(TIME, (0.0,)), {k: v for k, v in signals.items() if k != TIME})
    known = _cells(inputs)
    for name in signals.values:
        if name not in known:
            raise InvalidInput(
                f"there is no scenario input '{name}'. {suggest(name, known, 'scenario inputs')}"
            )
    handles: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    tables: dict[str, Table1] = {}
    for port in inputs:
        entry = {
            key: value for key, value in _entry(port).items() if key not in ("start", "size", "reactive")
        }
        if any(name in signals.values for name in _cell_names(port)):
            cells = [_played(name, port, signals, tables) for name in _cell_names(port)]
            outputs[port.name] = {**entry, "value": cells if port.size is not None else cells[0]}
        else:
            handles[by_hand(port.name)] = {**_entry(port), "start": plain(port, port.initial)}
            outputs[port.name] = {**entry, "value": by_hand(port.name)}
    return Function(inputs=handles, outputs=outputs, tables=tables)


def _entry(port: Port) -> dict[str, Any]:
    spec = port_spec(port)
    entry = dict(spec) if isinstance(spec, dict) else {"start": spec}
    if not port.items:
        entry["kind"] = port.kind.value
    return entry


def _played(name: str, port: Port, signals: Signals, tables: dict[str, Table1]) -> str:
    """The expression that gives one cell at `time`; its table is added to `tables`."""
    if name not in signals.values:
        raise InvalidInput(f"'{port.name}' is driven, but there is no signal for '{name}'")
    cell = Port(name=port.name, causality=port.causality, kind=port.kind, items=port.items)
    try:
        values = tuple(float(cell.value(value, name)) for value in signals.values[name])
    except ModelError as error:
        raise InvalidInput(f"signal '{name}': {error}") from None
    if len(values) == 1:
        return repr(values[0])
    key = f"signal_{len(tables)}"
    tables[key] = Table1(signals.time, values, mode="linear" if port.kind is Kind.REAL else "hold", name=key)
    return f"{key}(time)"
