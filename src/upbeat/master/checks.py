"""Checks of settings, so that a wrong one fails where it is written and not at the first step."""

from __future__ import annotations

from math import isfinite

from upbeat.core.errors import MasterError


def positive(value: object, what: str) -> float:
    """`value` if it is a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (value > 0 and isfinite(value)):
        raise MasterError(f"{what} must be a positive number, not {value!r}")
    return float(value)


def natural(value: object, what: str) -> float:
    """`value` if it is a finite number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (value >= 0 and isfinite(value)):
        raise MasterError(f"{what} must be a number of at least 0, not {value!r}")
    return float(value)


def count(value: object, what: str) -> int:
    """`value` if it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MasterError(f"{what} must be a whole number of at least 1, not {value!r}")
    return value


def has(value: object, mark: str, what: str, example: str) -> None:
    """Refuse what lacks the method that makes it one of `what`; a class is not yet an object of it."""
    if isinstance(value, type) or not hasattr(value, mark):
        raise MasterError(f"{what} cannot be {value!r}. Write for example {example}.")


def inner(value: object, what: str, allowed: tuple[type, ...]) -> None:
    """Refuse a coupling that `what` cannot be made of."""
    if not isinstance(value, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise MasterError(f"the inner coupling of {what} is {names}, not {value!r}")
