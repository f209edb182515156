"""Checks of settings, so that a wrong one fails where it is written and not at the first step."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Literal, get_args

from upbeat.core.errors import MasterError

Events = Literal["auto", "look_ahead", "revised", "interruptible", "off"]
"""The ways to meet events between units, as files, Python and the command line name them."""


def _finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number that no real can hold
        return False


def positive(value: object, what: str) -> float:
    """`value` if it is a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (value > 0 and _finite(value)):
        raise MasterError(f"{what} must be a positive number, not {value!r}")
    return float(value)


def natural(value: object, what: str) -> float:
    """`value` if it is a finite number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (value >= 0 and _finite(value)):
        raise MasterError(f"{what} must be a number of at least 0, not {value!r}")
    return float(value)


def count(value: object, what: str) -> int:
    """`value` if it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MasterError(f"{what} must be a whole number of at least 1, not {value!r}")
    return value


def choice(value: object, known: Iterable[str], what: str) -> None:
    """Refuse what is none of the words that can be chosen."""
    words = list(known)
    if not isinstance(value, str) or value not in words:
        one_of = (
            f'"{words[0]}" or "{words[1]}"' if len(words) == 2 else "one of " + ", ".join(map(_quoted, words))
        )
        raise MasterError(f"{what} must be {one_of}, not {value!r}")


def flag(value: object, what: str) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise MasterError(f"{what} must be true or false, not {value!r}")


def _quoted(word: str) -> str:
    return f'"{word}"'


def has(value: object, mark: str, what: str, example: str) -> None:
    """Refuse what lacks the method that makes it one of `what`; a class is not yet an object of it."""
    if isinstance(value, type) or not hasattr(value, mark):
        raise MasterError(f"{what} cannot be {value!r}. Write for example {example}.")


def pace(value: object, what: str, example: str) -> None:
    """Refuse what is no pace: it neither writes blocks nor proposes steps."""
    has(value, "write" if hasattr(value, "write") else "propose", what, example)


def inside(value: object, what: str, allowed: tuple[type, ...]) -> None:
    """Refuse a coupling that `what` cannot be made of."""
    if not isinstance(value, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise MasterError(f"the coupling inside {what} must be {names}, not {value!r}")


def events(value: object) -> None:
    """Refuse what is no way to meet events; None leaves it open."""
    if value is not None:
        choice(value, get_args(Events), "events of a master")
