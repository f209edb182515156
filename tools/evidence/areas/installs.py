"""What was asked of installing: without extras, with each, without a compiler, on every Python found."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from tools.evidence.claim import Claim, Data

INSTALLS = "tools/installs.py"
_PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
_EXTRAS = tuple(_PROJECT["optional-dependencies"])
_OLDEST, _NEWEST = 11, 13
"""Of Python 3; the newest one for which all dependencies have been tried."""


def way(what: str, belongs: Callable[[Data], object], least: int = 1, *, size: bool = False) -> Claim:
    """All ways to install that belong here, on at least so many Pythons; `size`: say that of the wheel."""

    def found(d: Data) -> list[Data]:
        return [row for row in d["ways"] if belongs(row)]

    def reached(d: Data) -> str:
        rows = found(d)
        failed = [f"Python {row['python']} does not" for row in rows if not row["works"]]
        pythons = sorted({row["python"] for row in rows}, key=lambda version: int(version.split(".")[1]))
        wheel = f"; a wheel of {d['wheel_mb']:.1f} MB" if size else ""
        extras = ", ".join(dict.fromkeys(row["extra"] for row in rows if row["extra"]))
        works = f"{extras} work" if extras else "works"
        return ", ".join(failed) or f"{works} (Python {', '.join(pythons)}{wheel})"

    def holds(d: Data) -> bool:
        rows = found(d)
        wanted = set(_EXTRAS) if any(row["extra"] for row in rows) else set()
        complete = wanted <= {row["extra"] for row in rows}
        return complete and len({row["python"] for row in rows}) >= least and all(r["works"] for r in rows)

    return Claim(what, "works", INSTALLS, reached, holds)


def plain(row: Data) -> bool:
    return not row["extra"] and bool(row["compiler"])


CLAIMS = (
    way(f"without extras, on every Python from 3.{_OLDEST} on", plain, _NEWEST - _OLDEST + 1, size=True),
    way("without a C++ compiler, on the interpreter", lambda row: not row["compiler"]),
    way("with each extra", lambda row: row["extra"]),
)
