"""What both engines say when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from upbeat.core.ports import Value
from upbeat.master.program import Repeat


def text_of(cause: BaseException) -> str:
    """An exception of somebody's unit in one line."""
    return f"{type(cause).__name__}: {str(cause) or 'no message'}"


def exhausted_text(loop: Repeat, read: Callable[[int], Value]) -> str:
    """A `Repeat` that did not end."""
    shown = ", ".join(f"{name} {read(cell):.3g}" for name, cell in loop.shows)
    return f"{loop.what} did not end within {loop.most} rounds" + (f" ({shown})" if shown else "")


def output_text(port: str, value: object) -> str:
    """A unit gave a real number that is none."""
    return f"output '{port}' is {value}"


def input_text(port: str, value: object) -> str:
    """A connection gave one, although all outputs were finite."""
    return f"input '{port}' would become {value}: check the expression that it is connected to"
