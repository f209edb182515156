"""The registers of a program: one file of cells, and what lies where in it.

A register is an index into the file of *cells*; an array port fills several cells in a row. The
layout gives every register its name, kind, size and start value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from upbeat.core.ports import Kind, Values
from upbeat.master.story import Story

Reg = int
"""The index of a register's first cell."""


@dataclass(frozen=True, slots=True)
class Register:
    """One named place in the register file."""

    name: str
    first: Reg
    kind: Kind
    size: int
    start: Values


@dataclass(frozen=True)
class Layout:
    """All registers of a program, in the order of their cells."""

    registers: tuple[Register, ...]
    _owner: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = tuple(i for i, register in enumerate(self.registers) for _ in range(register.size))
        object.__setattr__(self, "_owner", owner)

    @property
    def cells(self) -> int:
        return len(self._owner)

    @property
    def start(self) -> Values:
        """The start value of every cell."""
        return tuple(value for register in self.registers for value in register.start)

    def of(self, cell: Reg) -> Register:
        """The register that a cell belongs to."""
        return self.registers[self._owner[cell]]

    def name(self, cell: Reg) -> str:
        """A cell's name for people: ``left.x``, or ``left.x[2]`` in an array."""
        register = self.of(cell)
        return register.name if register.size == 1 else f"{register.name}[{cell - register.first}]"


@dataclass(frozen=True, slots=True)
class Recordable:
    """A register that a trace may record. `output` ones are recorded unless the user chooses."""

    register: Reg
    unit: str | None = None
    items: tuple[str, ...] = ()
    output: bool = True
    cells: int = 1
    """From `register` on; it may be one cell of somebody's array."""
    story: Story | None = None
    """Of an event between units: what it fires with instead of its value, and what that means."""
