"""`make evidence`: runs every script that a claim rests on and writes docs/evidence.md and docs/evidence.csv.

What a script printed is kept in build/evidence/, so that a page can be written again without measuring again
(`--keep`); `--only` runs those scripts whose names contain a word.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.evidence import bad_inputs
from tools.evidence.areas import AREAS
from tools.evidence.claim import Claim

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "evidence"
WHERE = KEPT / "machine.txt"
"""The machine as it was before the last measurement."""
PAGE = ROOT / "docs" / "evidence.md"
NUMBERS = PAGE.with_suffix(".csv")
BAD = "bad_inputs"
HEAD = """# Evidence

{held} of {all} numbers that were asked of Upbeat are reached. [evidence.csv](evidence.csv) has all of them:
what was asked, what was reached, and the script that measures it. `make evidence` runs the scripts and writes
both files. Each script says in its docstring what it measures, and prints the details (`--json`: one object).

Measured on {machine} before the last script, with {python}. Ratios are medians of repeats in one run.
"""


def measured(script: str) -> Any:
    """Run a script; what it says on standard output, whose last line is the object."""
    begun = time.perf_counter()
    print(f"{script} …", end=" ", flush=True)
    done = subprocess.run(
        [sys.executable, ROOT / script, "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"{time.perf_counter() - begun:.0f} s", flush=True)
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise SystemExit(f"{script} gave no JSON:\n{done.stderr}")
    return json.loads(lines[-1])


def kept(script: str) -> Path:
    return KEPT / f"{script.removesuffix('.py').replace('/', '-')}.json"


def machine() -> str:
    """The machine in a few words; how busy it was matters for everything that is measured."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{os.cpu_count()} cores ({platform.system()}, {platform.machine()}), load {busy:.1f}"


class Row(NamedTuple):
    """One number, as it is in the file of all numbers."""

    area: str
    what: str
    asked: str
    reached: str
    holds: str
    script: str
    why: str


def rows(found: Mapping[str, Any]) -> list[Row]:
    """Every claim with what was measured."""
    return [_row(area, claim, found[claim.script]) for area, claims in AREAS.items() for claim in claims]


def _row(area: str, claim: Claim, data: Any) -> Row:
    holds = claim.holds(data)
    why = "" if holds else claim.why or "not reached in this run."
    holding = "yes" if holds else "no"
    return Row(area, claim.what, claim.asked, claim.reached(data), holding, claim.script, why)


def table(all_: Iterable[Row]) -> str:
    """The file of all numbers."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([Row._fields, *all_])
    return out.getvalue()


def page(all_: Sequence[Row], bad: Mapping[str, Any], where: str) -> str:
    """What is missed and why, and for each area how many numbers are reached, and by which scripts."""
    held = sum(row.holds == "yes" for row in all_)
    python = f"Python {platform.python_version()}"
    lines = [HEAD.format(held=held, all=len(all_), machine=where, python=python)]
    lines += ["## Missed", "", "| | asked | reached | why | by |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.asked} | {row.reached} | {row.why} | `{row.script}` |"
        for row in all_
        if row.holds == "no"
    ]
    lines += ["", "## By area", "", "| area | reached | scripts |", "|---|---|---|"]
    for area in dict.fromkeys(row.area for row in all_):
        own = [row for row in all_ if row.area == area]
        scripts = ", ".join(f"`{script}`" for script in dict.fromkeys(row.script for row in own))
        lines.append(f"| {area} | {sum(row.holds == 'yes' for row in own)} of {len(own)} | {scripts} |")
    return "\n".join([*lines, "", *bad_inputs.section(bad)]).rstrip() + "\n"


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make evidence", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="use what was measured before where there is some"
    )
    parser.add_argument("--only", metavar="WORD", default="", help="measure these scripts, keep the others")
    options = parser.parse_args(None if arguments is None else list(arguments))
    KEPT.mkdir(parents=True, exist_ok=True)
    scripts = dict.fromkeys(claim.script for claims in AREAS.values() for claim in claims)
    found = {}
    for script in (*scripts, BAD):
        again = (options.only in script) if options.only else not options.keep
        if again or not kept(script).exists():
            WHERE.write_text(machine())
            kept(script).write_text(json.dumps(bad_inputs.found() if script == BAD else measured(script)))
        found[script] = json.loads(kept(script).read_text())
    measured_on = WHERE.read_text() if WHERE.exists() else machine()
    all_ = rows(found)
    NUMBERS.write_text(table(all_))
    PAGE.write_text(page(all_, found[BAD], measured_on))
    print(f"{PAGE.relative_to(ROOT)}: {sum(row.holds == 'yes' for row in all_)} of {len(all_)} hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
