"""A claim: what was asked for, the script that measures it, how to read the number off, and when it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Data = Any
"""What a script prints on standard output with `--json`."""


@dataclass(frozen=True)
class Claim:
    """One number. `why` explains a miss; it is shown only where there is one."""

    what: str
    asked: str
    script: str
    reached: Callable[[Data], str]
    holds: Callable[[Data], bool]
    why: str = ""


def worst(rows: list[dict[str, float]], key: str, by: str = "c_ns") -> float:
    """The largest ratio of two columns."""
    return max(row[key] / row[by] for row in rows if row.get(key) is not None)


def least(rows: list[dict[str, float]], key: str, by: str) -> float:
    """The smallest ratio of two columns."""
    return min(row[key] / row[by] for row in rows if row.get(key) is not None)


def ratio(
    what: str, most: float, script: str, value: Callable[[Data], float], why: str = "", *, times: str = " ×"
) -> Claim:
    """A number that should not be above `most`."""
    return Claim(
        what,
        f"≤ {most:g}{times}",
        script,
        lambda d: f"{value(d):.4g}{times}",
        lambda d: value(d) <= most,
        why,
    )


def flag(what: str, asked: str, script: str, reached: Callable[[Data], str]) -> Claim:
    """A script that judges by itself, in `ok`."""
    return Claim(what, asked, script, reached, lambda d: bool(d["ok"]))


def furthest(some: list[float], others: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(some, others, strict=True))


def spread(values: dict[str, float]) -> str:
    return f"{min(values.values()):.2f} to {max(values.values()):.2f}"
