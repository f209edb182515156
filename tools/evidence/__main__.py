"""`make evidence`: runs every script that a claim rests on and writes docs/evidence.md.

What a script printed is kept in build/evidence/, so that a page can be written again without measuring again
(`--keep`); `--only` runs those scripts whose names contain a word.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.evidence import bad_inputs
from tools.evidence.areas import AREAS
from tools.evidence.claim import Claim

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "evidence"
WHERE = KEPT / "machine.txt"
"""The machine as it was before the last measurement."""
PAGE = ROOT / "docs" / "evidence.md"
BAD = "bad_inputs"
HEAD = """# Evidence

Every number asked of Upbeat, and what was reached. `make evidence` runs the scripts and writes this page;
each script explains in its docstring what it measures, and prints the details (`--json`: as one object).
Ratios are medians of repeats in one run.

Measured on {machine} before the last script, with {python}.
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
    return KEPT / f"{Path(script).stem}.json"


def machine() -> str:
    """The machine in a few words; how busy it was matters for everything that is measured."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{os.cpu_count()} cores ({platform.system()}, {platform.machine()}), load {busy:.1f}"


def row(claim: Claim, data: Any) -> str:
    """One line of a table."""
    mark = "" if claim.holds(data) else " **missed**"
    return f"| {claim.what} | {claim.asked} | {claim.reached(data)}{mark} | `{claim.script}` |"


def explained(missed: Iterable[Claim]) -> Iterator[str]:
    """Why claims were missed; those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for claim in missed:
        reasons.setdefault(claim.why or "not reached in this run.", []).append(f"*{claim.what}*")
    return (f"{', '.join(names)}: {why}\n" for why, names in reasons.items())


def page(found: Mapping[str, Any], bad: Mapping[str, Any], where: str) -> str:
    """The whole page."""
    lines = [HEAD.format(machine=where, python=f"Python {platform.python_version()}")]
    for area, claims in AREAS.items():
        lines += [f"## {area}", "", "| | asked | reached | by |", "|---|---|---|---|"]
        lines += [row(claim, found[claim.script]) for claim in claims]
        lines += ["", *explained([claim for claim in claims if not claim.holds(found[claim.script])])]
    return "\n".join([*lines, *bad_inputs.section(bad)]).rstrip() + "\n"


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
    PAGE.write_text(page(found, found[BAD], WHERE.read_text() if WHERE.exists() else machine()))
    held = [claim.holds(found[claim.script]) for claims in AREAS.values() for claim in claims]
    print(f"{PAGE.relative_to(ROOT)}: {sum(held)} of {len(held)} hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
