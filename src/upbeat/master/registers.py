"""Handing out registers while a program is being built."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count

from upbeat.core.ports import Kind, Value
from upbeat.master.program import Layout, Reg, Register


class TakenError(ValueError):
    """Two registers with one name."""


class Registers:
    """Grows a `Layout`. Names are for people (`explain`, messages) and must be unique."""

    def __init__(self) -> None:
        self._registers: list[Register] = []
        self._names: set[str] = set()
        self._taken: set[str] = set()  # names, and what is before their first prime
        self._cells = 0
        self._slots = 0

    def new(
        self, name: str, kind: Kind = Kind.REAL, size: int = 1, start: Sequence[Value] | None = None
    ) -> Reg:
        """The first cell of a new register."""
        if name in self._names:
            raise TakenError(f"register {name!r} exists already")
        values = tuple(start) if start is not None else (kind.zero,) * size
        register = Register(name, self._cells, kind, size, values)
        self._registers.append(register)
        self._names.add(name)
        self._taken |= {name, name.partition("′")[0]}
        self._cells += size
        return register.first

    def unique(self, name: str) -> str:
        """`name`, or `name` with a number where it is taken."""
        others = (f"{name} {k}" for k in count(2))
        return next(free for free in chain((name,), others) if free not in self._taken)

    def slot(self) -> int:
        """A new slot for `Save`."""
        self._slots += 1
        return self._slots - 1

    def layout(self) -> Layout:
        return Layout(tuple(self._registers))
