"""Between the flat cells of a solved unit and what a user's Python function takes and returns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import Port
from upbeat.units.shorthand import Complaints


def check_callable(where: str, given: object, complaints: Complaints) -> None:
    """Refuse anything that cannot be called."""
    if not callable(given):
        complaints.add(where, f"expected a function, not {given!r}")


def check_fields(ports: Iterable[Port], complaints: Complaints) -> None:
    """Refuse names that cannot be written as ``u.name``."""
    for port in ports:
        if port.name.startswith("_") or iskeyword(port.name):
            complaints.add(
                port.name,
                "a Python function reads this as an attribute, so it must not start with an underscore "
                "or be a Python keyword",
            )


def record(title: str, ports: Sequence[Port]) -> Callable[[Sequence[Any]], Any]:
    """A function from flat cells to a named tuple with one field per port; an array is a tuple."""
    kind = namedtuple(title, [port.name for port in ports])  # type: ignore[misc]
    if all(port.size is None for port in ports):
        return kind._make

    def make(cells: Sequence[Any]) -> Any:
        rest = iter(cells)
        return kind._make(
            next(rest) if port.size is None else tuple(next(rest) for _ in range(port.size)) for port in ports
        )

    return make


def flat(result: Any, ports: Sequence[Port], what: str) -> list[Any]:
    """What a function returned for `ports` (a mapping, a sequence, or a single value) as flat cells."""
    names = [port.name for port in ports]
    if result is None:
        raise ModelError(f"{what} returned nothing: is a 'return' missing? {_wanted(names)}")
    if isinstance(result, Mapping):
        for name in result:
            if name not in names:
                raise ModelError(f"{what} returned an unknown '{name}'. {suggest(str(name), names)}")
        for name in names:
            if name not in result:
                raise ModelError(f"{what} returned no value for '{name}'")
        values = [result[name] for name in names]
    elif isinstance(result, Iterable) and not isinstance(result, str):
        values = list(result)
        if len(ports) == 1 and ports[0].size == len(values) != 1:
            values = [values]  # the cells of the only port, without a list around it
    else:
        values = [result]
    if len(values) != len(ports):
        raise ModelError(
            f"{what} returned {len(values)} value(s), but {len(ports)} are needed: {', '.join(names)}"
        )
    return [cell for port, value in zip(ports, values, strict=True) for cell in cells_of(port, value, what)]


def _wanted(names: Sequence[str]) -> str:
    return f"It gives a value for {', '.join(names)}"


def cells_of(port: Port, value: Any, what: str) -> Sequence[Any]:
    """One value of a port as its cells."""
    if value is None:
        raise ModelError(f"{what} returned nothing for '{port.name}': is a 'return' missing?")
    if port.size is None:
        return (value,)
    cells = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if len(cells) != port.size:
        raise ModelError(
            f"{what} returned {len(cells)} value(s) for '{port.name}', which has {port.size} cells"
        )
    return cells


def slopes_of(result: Any, output: Port, given: Port) -> list[float]:
    """The slopes of one output by one input, row by row, in what a function of slopes returned.

    That is ``{output: {input: slope}}``. The slope is a number between single values; for arrays a list of
    rows, or of all entries.
    """
    pair, shape = f"'{output.name}' by '{given.name}'", (output.cells, given.cells)
    try:
        slope = result[output.name][given.name]
    except (KeyError, IndexError, TypeError):
        raise ModelError(f"slopes returned none of {pair}: expected {{output: {{input: slope}}}}") from None
    try:
        entries = np.asarray(slope, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"slopes returned {slope!r} for {pair}, which is no number and no matrix") from None
    count = output.cells * given.cells
    if entries.size != count or entries.shape not in ((), (count,), shape):
        raise ModelError(f"slopes returned {entries.shape} entries for {pair}, which has {shape}")
    return [float(entry) for entry in entries.ravel()]
