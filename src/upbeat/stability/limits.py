"""Limits of a search, checked: seconds of work, lengths and degrees, tolerances."""

from __future__ import annotations

from typing import Any

from upbeat.core.errors import InvalidInput


def checked_seconds(given: Any) -> float:
    """How much work a search may take: none at all, or some."""
    if not _number(given) or not 0.0 <= given < 1e300:
        raise InvalidInput(f"seconds are a number from 0 on, such as 60, not {given!r}")
    return float(given)


def checked_tolerance(given: Any) -> float:
    """How far two bounds may be apart, relatively."""
    if not _number(given) or not 0.0 < given < 1.0:
        raise InvalidInput(f"tolerance is a number between 0 and 1, such as 1e-5, not {given!r}")
    return float(given)


def checked_whole(given: Any, what: str, least: int) -> int:
    """A whole number from `least` on."""
    if type(given) is not int or given < least:
        raise InvalidInput(f"{what} is a whole number from {least} on, not {given!r}")
    return given


def checked_degree(given: Any) -> int:
    """The degree of a lift, or the largest that is tried."""
    return checked_whole(given, "the degree of a lift", 0)


def _number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)
