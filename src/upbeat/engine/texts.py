"""What both engines say when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from upbeat.core.ports import Value
from upbeat.master.program import Repeat

NO_TIME = "the time of its next event is not a number"
"""A unit's answer to `due`."""
UNPACKABLE = "its states cannot be turned into bytes"
"""Of a unit without `Ability.SERIALISE`."""


def text_of(cause: BaseException) -> str:
    """An exception of somebody's unit in one line."""
    return f"{type(cause).__name__}: {str(cause) or 'no message'}"


def exhausted_text(loop: Repeat, read: Callable[[int], Value]) -> str:
    """A `Repeat` that did not end."""
    values = [(name, read(cell)) for name, cell in loop.shows]
    # An integer is a count, and what was counted zero times had no part in it.
    shown = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name}: {value} times"
        for name, value in values
        if isinstance(value, float) or value
    )
    return f"{loop.what} did not end within {loop.most} rounds" + (f" ({shown})" if shown else "")


def output_text(port: str, value: object) -> str:
    """A unit gave a real number that is none."""
    return f"output '{port}' is {value}"


NO_SLOPES = "it does not know its directional derivatives"


def slope_text(count: int, given: object) -> str:
    """A unit gave something else than slopes."""
    return f"the slopes are {count} numbers in a list, row by row, but the unit gave {given!r}"


def input_text(port: str, value: object) -> str:
    """A connection gave one, although all outputs were finite."""
    return f"input '{port}' would become {value}: check the expression that it is connected to"
