"""The tables of docs/engine.md, from what `reproduce/engine.py --json` measured.

`make engine-tables` fills them in from build/evidence/reproduce-engine.json, which `make evidence` writes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "reproduce"))

from problems.engine_goals import PAPER_PRESSURE, PAPER_SPEEDUP, PAPER_TORQUE, STEPS  # noqa: E402

PAGE = ROOT / "docs" / "engine.md"
MEASURED = ROOT / "build" / "evidence" / "reproduce-engine.json"
METHODS = ("sv", "ev", "refined")
Data = Mapping[str, Any]


def number(value: float) -> str:
    """Two digits behind the point, more for what is small."""
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}" if value else "0"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def head(*cells: str) -> Iterator[str]:
    yield row(*cells)
    yield f"|{'---|' * len(cells)}"


def errors(d: Data) -> Iterator[str]:
    """Published errors, and those here with held inputs: sv, ev and refined in a cell."""
    yield from head("step", "torque: paper", "here", "intake pressure: paper", "here")
    for step in STEPS:
        cells = []
        for paper, key in (
            (PAPER_TORQUE, "torque_error_percent"),
            (PAPER_PRESSURE, "pressure_error_percent"),
        ):
            cells.append(", ".join(f"{value:.2f}" for value in paper[step]))
            cells.append(", ".join(number(d[key][m][str(step)]) for m in METHODS))
        yield row(f"{step} µs", *cells)


def speed(d: Data) -> Iterator[str]:
    """How many times as fast as in one piece."""
    cells = (
        "",
        "step",
        "error of the torque",
        "one core",
        "2 cores",
        "5 cores, predicted",
        "2 and 5, at most",
    )
    yield from head(*cells)
    found = d["speedup"]
    for group in (found, found["at_250_us"]):
        for method in METHODS:
            entry = group[method]
            one, most = entry["1"], entry["bound"]
            two = f"{entry['2']:.2f} ×" if "2" in entry else "–"
            bounds = f"{one * most['2']:.2f} ×, {one * most['5']:.2f} ×"
            off = f"{number(entry['torque_error_percent'])} %"
            first = (method, f"{entry['step_us']} µs", off, f"{one:.2f} ×", two)
            if group is not found or entry["step_us"] != 250:
                yield row(*first, f"{entry['5_predicted']:.2f} ×", bounds)
    said = ", ".join(f"{PAPER_SPEEDUP[method]:.2f}" for method in METHODS)
    off = ", ".join(f"{value:.1f}" for value in PAPER_TORQUE[250])
    yield row("in the paper: sv, ev, refined", "250 µs", f"{off} %", "", "", f"{said} × (measured)", "")


TABLES = {"errors": errors, "speed": speed}


def filled(page: str, d: Data) -> str:
    """The page with all its tables anew; what stands between them stays."""
    for name, table in TABLES.items():
        begin, end = f"<!-- table: {name} -->", "<!-- end -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        text = "\n".join((begin, "", *table(d), "", end))
        page, count = pattern.subn(lambda _, text=text: text, page)  # type: ignore[misc]
        assert count == 1, f"one place for the table {name!r}"
    return page


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    if not source.exists():
        sys.exit(f"{source} is not there: python reproduce/engine.py --json > {source}")
    PAGE.write_text(filled(PAGE.read_text(), json.loads(source.read_text())))
    print(PAGE)


if __name__ == "__main__":
    main()
