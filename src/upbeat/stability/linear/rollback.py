"""Whether a unit is set back by its own `restore`, before anything is concluded from trying it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upbeat.core.errors import FAULTS, InvalidInput
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.stability.linear.tokens import numbers
from upbeat.stability.linear.tried import STEP

SAME = 1e-9
"""What differs by more, relatively, is not the same again."""


class Told:
    """A unit whose errors say that they are its own, and in which call; `advice` comes after that."""

    def __init__(self, name: str, unit: Any, advice: str = "") -> None:
        self._name, self._unit, self._advice = name, unit, advice

    def get(self, port: str) -> Any:
        return self._call(f"get('{port}')", self._unit.get, port)

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        self._call(f"set('{port}', {list(coefficients)})", self._unit.set, port, coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        reached: float = self._call(f"advance({t:g}, {to:g})", self._unit.advance, t, to, early)
        return reached

    def save(self) -> Any:
        return self._call("save()", self._unit.save)

    def restore(self, token: Any) -> None:
        self._call("restore()", self._unit.restore, token)

    def _call(self, what: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except FAULTS as cause:
            raise InvalidInput(
                f"'{self._name}' cannot be linearised: it failed in its own {what} while it was tried out: "
                f"{type(cause).__name__}: {cause}.{self._advice}"
            ) from cause


def check_rollback(
    name: str,
    unit: Any,
    ports: Sequence[Port],
    states: Callable[[], Sequence[float]],
    time: float,
    step: float,
) -> None:
    """Make a step several times from the same token: all have to begin and to end alike.

    First a step is made to somewhere that has nothing special about it: at its start a unit may have
    nothing to forget. Before the last time inputs are moved, for these belong to a token, too. What there is
    to be seen are the numbers in tokens, the `states` that are known otherwise, and the outputs.
    """
    real = [port for port in ports if port.kind is Kind.REAL and not port.event]
    outputs = [port for port in real if port.causality is Causality.OUTPUT]
    inputs = [port for port in real if port.causality is Causality.INPUT]

    def now() -> list[float]:
        found = [value for _, value in numbers(unit.save())] + [float(value) for value in states()]
        for port in outputs:
            value = unit.get(port.name)
            found += [] if value is None else [float(value)] if port.size is None else map(float, value)
        return found

    def on(moved: bool = False) -> None:
        for port in inputs if moved else ():
            given = [float(value) + STEP * (1.0 + abs(float(value))) for value in port.initial]
            unit.set(port.name, [given[0] if port.size is None else tuple(given)])
        unit.advance(time + step, time + 2.0 * step, False)

    first = unit.save()
    unit.advance(time, time + step, False)
    token = unit.save()
    seen: list[tuple[list[float], list[float]]] = []
    for moved in (False, False, True, False):
        begun = now()
        on(moved)
        if not moved:
            seen.append((begun, now()))
        unit.restore(token)
    unit.restore(first)
    for place, what in enumerate(("is not where it was", "goes on in another way than before")):
        one, *others = (pair[place] for pair in seen)
        for two in others:
            if len(one) != len(two) or not np.allclose(one, two, rtol=SAME, atol=SAME, equal_nan=True):
                raise InvalidInput(
                    f"'{name}' cannot be linearised: after restore() it {what}. What it does is tried out "
                    "and undone, so save() has to keep all that its future depends on, and restore() to "
                    "bring it back."
                )
