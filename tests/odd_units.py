"""A unit in Python whose ports may have any names: an integrator with a gain, as FMUs have them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

import upbeat as up
from upbeat.core.abilities import Ability
from upbeat.units.shorthand import ports

ABILITIES = (Ability.ROLLBACK, Ability.SERIALISE)


class Integrator:
    """The second of `names` is the integral of the first times the fourth; the third is its derivative."""

    def __init__(self, names: Sequence[str], unit: str, start: float, values: dict[str, Any]) -> None:
        self.u, self.y, self.rate, gain = names
        self.gain = values[gain]
        self.input, self.value = 1.0, 0.0

    def get(self, port: str) -> float:
        return {self.y: self.value, self.rate: self.gain * self.input}[port]

    def set(self, port: str, coefficients: Any) -> None:
        assert port == self.u
        self.input = coefficients[0][0] if isinstance(coefficients[0], (list, tuple)) else coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.value += self.gain * self.input * (to - t)
        return to

    def save(self) -> tuple[float, float]:
        return self.input, self.value

    def restore(self, token: tuple[float, float]) -> None:
        self.input, self.value = token

    def to_bytes(self, token: tuple[float, float]) -> bytes:
        return struct.pack("=2d", *token)

    def from_bytes(self, data: bytes) -> tuple[float, float]:
        return struct.unpack("=2d", data)  # type: ignore[return-value]


def integrator(u: str, y: str, rate: str, gain: str) -> up.PythonUnit:
    """The model; its ports have these names."""
    outputs = {y: {"depends": [], "derivative": rate}, rate: {"depends": [u]}}
    return up.PythonUnit(
        partial(Integrator, (u, y, rate, gain)), ports({u: 1.0}, outputs, {gain: 1.0}), ABILITIES
    )


class Odd(Integrator):
    """What a file names: `kind = "python"`, `class = "odd_units:Odd"`."""

    def __init__(self, unit: str, start: float, values: dict[str, Any]) -> None:
        super().__init__(("the input", "x,y", "der(x)", "body.k[1]"), unit, start, values)
