"""Every bad input of the list, run for real in an empty folder: `python -m tools.evidence.bad_inputs`.

Prints what is said, and whether it is what was promised. docs/evidence.md says how many are.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from tools.evidence.bad import CASES
from tools.evidence.bad.case import tried


def found() -> dict[str, Any]:
    """What came of every case, by area."""
    areas: dict[str, list[dict[str, Any]]] = {}
    for area, cases in CASES.items():
        for case in cases:
            with tempfile.TemporaryDirectory() as folder:
                answer = tried(case, Path(folder))
            said = answer.said.replace(f"{folder}/", "")
            entry = {"what": case.what, "said": said, "exit": answer.exit, "wrong": answer.wrong}
            areas.setdefault(area, []).append(entry)
    return {"areas": areas, "ok": not any(one["wrong"] for all_ in areas.values() for one in all_)}


def section(data: Mapping[str, Any]) -> list[str]:
    """The lines of the page."""
    entries = [one for entries in data["areas"].values() for one in entries]
    held = sum(not one["wrong"] for one in entries)
    lines = [
        "## Bad input",
        "",
        f"{held} of {len(entries)} answers are as promised: what happened, why, and what to type; no "
        "traceback but that of your own code; results so far kept. `python -m tools.evidence.bad_inputs` "
        "prints every case and its answer; each is a test of `tests/test_bad_inputs.py`.",
        "",
    ]
    return [*lines, *(f"**Wrong**: {one['what']}: {one['wrong']}\n" for one in entries if one["wrong"])]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args(arguments)
    data = found()
    for area, entries in data["areas"].items():
        print(f"{area}\n")
        for one in entries:
            print(f"* {one['what']} (exit code {one['exit']})", indent(one["said"], "    "), sep="\n")
            if one["wrong"]:
                print(f"  WRONG: {one['wrong']}")
        print()
    if options.json:
        print(json.dumps(data))
    return 0 if data["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
