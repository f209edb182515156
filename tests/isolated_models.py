"""Units that misbehave, for the tests of isolation: other processes import them from here."""

from __future__ import annotations

import ctypes
import logging
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

import upbeat as up
from upbeat.units import ports


class Counter:
    """Counts its steps, and does something terrible at the beginning of one of them."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self._deed = parameters["deed"]
        self._at = parameters["at"]
        self._name = name
        self._steps = 0
        self._gain = 1.0

    def get(self, port: str) -> float:
        return self._steps * self._gain

    def set(self, port: str, coefficients: Any) -> None:
        self._gain = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        if self._steps == self._at:
            self._do(self._deed)
        self._steps += 1
        return to

    def _do(self, deed: str) -> None:
        word, _, argument = deed.partition(":")
        match word:
            case "once":  # only in the first process that comes here
                mark, _, deed = argument.partition(":")
                if not Path(mark).exists():
                    Path(mark).touch()
                    self._do(deed)
            case "abort" | "abort, no way back":
                os.abort()
            case "segfault":
                ctypes.string_at(0)
            case "exit":
                os._exit(int(argument))
            case "hang":
                time.sleep(3600)
            case "hang in C":
                ctypes.PyDLL(None).sleep(3600)  # with Python's lock held
            case "raise":
                raise ValueError(argument)
            case "print":
                sys.stdout.write(f"{argument} on stdout\n")
                sys.stdout.flush()
                os.write(2, f"{argument} on stderr\n".encode())
                os.abort()
            case "log":
                logger = logging.getLogger(f"upbeat.fmu.{self._name}")
                extra = {"unit": self._name, "time": 0.5, "category": "logAll"}
                logger.warning("%s, and gone", argument, extra=extra)
                os.abort()

    def save(self) -> tuple[int, float]:
        return self._steps, self._gain

    def restore(self, token: tuple[int, float]) -> None:
        if self._deed.endswith("no way back"):
            raise ValueError("there is no way back")
        self._steps, self._gain = token

    def to_bytes(self, token: tuple[int, float]) -> bytes:
        return struct.pack("<qd", *token)

    def from_bytes(self, data: bytes) -> tuple[int, float]:
        steps, gain = struct.unpack("<qd", data)
        return steps, gain


KEEPS = (up.Ability.ROLLBACK, up.Ability.SERIALISE)


def counter(deed: str = "", at: int = 5, abilities: Any = KEEPS) -> up.PythonUnit:
    """A counter that does this in the step after `at` others."""
    parameters = {"deed": {"kind": "string", "value": deed}, "at": {"kind": "integer", "value": at}}
    return up.PythonUnit(
        Counter,
        ports({"gain": {"start": 1.0}}, {"y": {"depends": ["gain"]}}, parameters=parameters),
        abilities,
    )


class Echo:
    """Gives back what it is given, after a step."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self._given = {f"out_{name}": value for name, value in parameters.items()}
        self._shown = dict(self._given)

    def get(self, port: str) -> Any:
        return self._shown[port]

    def set(self, port: str, coefficients: Any) -> None:
        self._given[port.replace("in_", "out_")] = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self._shown = dict(self._given)
        return to


def echo(**kinds: Any) -> up.PythonUnit:
    """An input ``in_NAME`` and an output ``out_NAME`` for each, with the value to begin with."""
    shapes = {name: {k: v for k, v in spec.items() if k != "value"} for name, spec in kinds.items()}
    inputs = {f"in_{name}": {**shape, "start": kinds[name]["value"]} for name, shape in shapes.items()}
    outputs = {f"out_{name}": {**shape, "depends": []} for name, shape in shapes.items()}
    return up.PythonUnit(Echo, ports(inputs, outputs, parameters=kinds))


class Broken:
    """Cannot even be made."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        raise RuntimeError("no licence")


def broken() -> up.PythonUnit:
    return up.PythonUnit(Broken, ports([], ["y"]))


class Slow:
    """Takes so long for its making, or for a step."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self._seconds = parameters["seconds"]

    def get(self, port: str) -> float:
        return 1.0

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        time.sleep(self._seconds)
        return to


def slow(seconds: float) -> up.PythonUnit:
    return up.PythonUnit(Slow, ports([], ["y"], parameters={"seconds": seconds}))
