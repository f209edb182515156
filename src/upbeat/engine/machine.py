"""What the loop needs of an engine: a machine that executes the blocks of one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from upbeat.core.ports import Signal, Value
from upbeat.units.solving.effort import Effort

Fired = tuple[str, Signal | None]
"""An entry for the event log: the event's name, and its value if it has one."""


class Machine(Protocol):
    """Registers and units of one run. Any failure of a unit is raised as `UnitError`."""

    fired: list[Fired]
    """The events fired since the loop last emptied the list."""

    def execute(self, block: str) -> None:
        """Run one named block of the program."""
        ...

    def read(self, cell: int) -> Value: ...

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        """The contents of several cells."""
        ...

    def write(self, cell: int, value: Value) -> None: ...

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        """Hand an input a course from the unit's own time on, or a parameter its value, from outside the
        program."""
        ...

    def save(self) -> Any:
        """A token for the present contents of all registers and units; it can be used many times."""
        ...

    def restore(self, token: Any) -> None:
        """Set registers and units back to what `token` holds."""
        ...

    def to_bytes(self, token: Any) -> bytes:
        """A token of `save` as bytes (see `engine.packing`), for any machine of the same program: in another
        process, or of the other engine. All units must be able to serialise their states."""
        ...

    def from_bytes(self, data: bytes) -> Any:
        """The token that `to_bytes` was given. `ModelError`: the bytes are damaged, or of something else."""
        ...

    def pack(self, token: Any) -> bytes:
        """As `to_bytes`, without head and checksum: for a machine inside a unit, whose bytes are part of
        those of the machine around it."""
        ...

    def unpack(self, body: bytes) -> Any:
        """The token that `pack` was given."""
        ...

    def efforts(self) -> Mapping[str, Effort]:
        """How hard the solvers of units have worked, where they tell."""
        ...

    def advancing(self) -> Sequence[str]:
        """The units that are being advanced just now. Any thread may ask."""
        ...

    def tried(self) -> Mapping[str, tuple[float, float, bool]]:
        """For blocks of which it was found out in this run: the seconds they take on several cores and on
        one, and whether several do them."""
        ...

    def close(self) -> None:
        """Let go of the units. Never raises; a second call does nothing."""
        ...
