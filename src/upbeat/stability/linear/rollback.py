"""Whether a unit is set back by its own `restore`, before anything is concluded from trying it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.stability.linear.tokens import numbers

SAME = 1e-9
"""What differs by more, relatively, is not the same again."""


class Told:
    """A unit whose errors say that they are its own, and in which call."""

    def __init__(self, name: str, unit: Any) -> None:
        self._name, self._unit = name, unit

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
        except Exception as cause:
            raise InvalidInput(
                f"'{self._name}' cannot be linearised: it failed in its own {what} while it was tried out: "
                f"{type(cause).__name__}: {cause}. Inputs come as a list of coefficients, and tokens come "
                "back with the numbers in them moved a little."
            ) from cause


def check_rollback(name: str, unit: Any, ports: Sequence[Port], time: float, step: float) -> None:
    """Make a step twice from the same token: both have to begin and to end alike."""
    outputs = [port for port in ports if port.causality is Causality.OUTPUT and port.kind is Kind.REAL]

    def now() -> list[float]:
        found = [value for _, value in numbers(unit.save())]
        for port in outputs:
            value = unit.get(port.name)
            found += [] if value is None else [float(value)] if port.size is None else map(float, value)
        return found

    token = unit.save()
    seen: list[tuple[list[float], list[float]]] = []
    for _ in range(2):
        begun = now()
        unit.advance(time, time + step, False)
        seen.append((begun, now()))
        unit.restore(token)
    for place, what in enumerate(("is not where it was", "goes on in another way than before")):
        one, two = (pair[place] for pair in seen)
        if len(one) != len(two) or not np.allclose(one, two, rtol=SAME, atol=SAME, equal_nan=True):
            raise InvalidInput(
                f"'{name}' cannot be linearised: after restore() it {what}. What it does is tried out and "
                "undone, so save() has to keep all that its future depends on, and restore() to bring it "
                "back."
            )
