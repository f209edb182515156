"""The states of a unit in its own tokens: the numbers in what `save` gives, less those that are no states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from upbeat.core.ports import Causality, Kind, Port

Path = tuple[Any, ...]
"""Where a number is in a token: indices and keys, from outside in."""


class Tokens:
    """A handle for units whose tokens are made of numbers, in tuples, lists, dictionaries and arrays.

    What changes as soon as an input is set is that input. What is the time at both ends of a step is that.
    What nothing moves, whatever else is moved, is a constant. Neither is a state; all of that is tried out
    in single steps, which are undone.
    """

    writable = True
    advice = (
        "What save() gives should hold them as numbers, in tuples, lists, dictionaries or arrays; or write "
        "the unit with equations (PythonOde)."
    )

    def __init__(self, unit: Any, ports: Sequence[Port], time: float, step: float) -> None:
        self._unit = unit
        token = unit.save()
        before = dict(numbers(token))

        def stepped(moved: Path | None = None, *, inputs: bool = False) -> tuple[dict[Path, float], ...]:
            unit.restore(token if moved is None else _rebuilt(token, {moved: before[moved] + 1.0}))
            for port in ports if inputs else ():
                if port.causality is Causality.INPUT and port.kind is Kind.REAL and not port.event:
                    given = [float(value) + 1.0 for value in port.initial]
                    unit.set(port.name, [given[0] if port.size is None else tuple(given)])
            began = dict(numbers(unit.save()))
            unit.advance(time, time + step, False)
            return began, dict(numbers(unit.save()))

        try:
            began, pushed = stepped(inputs=True)
            _, after = stepped()
            own = [path for path in before if began.get(path) == before[path]]
            own = [path for path in own if (before[path], after.get(path)) != (time, time + step)]
            others = {path: stepped(path)[1] for path in own}
        finally:
            unit.restore(token)

        def still(path: Path) -> bool:
            value = before[path]
            alone = after.get(path) == pushed.get(path) == value and others[path].get(path) == value + 1.0
            return alone and all(found.get(path) == value for other, found in others.items() if other != path)

        self._paths = [path for path in own if not still(path)]
        self.labels = tuple(".".join(map(str, path)) or "state" for path in self._paths)

    def read(self) -> list[float]:
        known = dict(numbers(self._unit.save()))
        return [known[path] for path in self._paths]

    def write(self, values: Sequence[float]) -> None:
        wanted = dict(zip(self._paths, values, strict=True))
        self._unit.restore(_rebuilt(self._unit.save(), wanted))


def numbers(token: Any, path: Path = ()) -> Iterator[tuple[Path, float]]:
    """Every real number in a token; whole ones, truth values and texts are none that could move a little."""
    if isinstance(token, float):
        yield path, float(token)
    elif isinstance(token, np.ndarray) and token.dtype.kind == "f":
        for index in np.ndindex(token.shape):
            yield (*path, *index), float(token[index])
    elif isinstance(token, Mapping):
        for key, value in token.items():
            yield from numbers(value, (*path, key))
    elif isinstance(token, (tuple, list)):
        for i, value in enumerate(token):
            yield from numbers(value, (*path, i))


def _rebuilt(token: Any, wanted: Mapping[Path, float], path: Path = ()) -> Any:
    """The token with other numbers in some places."""
    if isinstance(token, float):
        return wanted.get(path, token)
    if isinstance(token, np.ndarray) and token.dtype.kind == "f":
        copy = token.copy()
        for index in np.ndindex(token.shape):
            if (*path, *index) in wanted:
                copy[index] = wanted[(*path, *index)]
        return copy
    if isinstance(token, Mapping):
        return {key: _rebuilt(value, wanted, (*path, key)) for key, value in token.items()}
    if isinstance(token, (tuple, list)):
        parts = [_rebuilt(value, wanted, (*path, i)) for i, value in enumerate(token)]
        if isinstance(token, list):
            return parts
        return type(token)(*parts) if hasattr(token, "_fields") else tuple(parts)
    return token
