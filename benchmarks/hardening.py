"""How hard Upbeat is to break: broken files, an FMU that misbehaves, and runs that are killed.

    python benchmarks/hardening.py                    # some minutes
    python benchmarks/hardening.py --files 17000      # more than 100,000 files: hours

Broken files of every kind are read (tools/fuzz.py), the hostile FMU commits each fault on both engines
(tools/hostile.py), and runs are killed at random moments and resumed (reproduce/kill_resume.py). Each can be
run by itself, and says then which case went wrong. Asked: no traceback, no hang, no host that dies of an
isolated FMU, no lost results, nothing left behind, and every killed run resumed to the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def measured(what: str, *words: str) -> dict[str, Any]:
    """The JSON object that one of the scripts prints; its own progress goes to standard error."""
    print(f"{what} …", file=sys.stderr, flush=True)
    run = subprocess.run(
        [sys.executable, *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if not run.stdout.strip():
        raise SystemExit(f"{' '.join(words)} ended with exit code {run.returncode} and without figures")
    return json.loads(run.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--files", type=int, default=500, help="broken files of each kind (500)")
    parser.add_argument("--kills", type=int, default=50, help="runs that are killed and resumed (50)")
    parser.add_argument("--seed", type=int, default=1, help="where random numbers begin (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="hostile runs at the same time")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    seed = str(options.seed)
    files = measured("broken files", "tools/fuzz.py", "--files", str(options.files), "--seed", seed)
    hostile = measured("an FMU that misbehaves", "-m", "tools.hostile", "--jobs", str(options.jobs))
    kills = measured("killed runs", "reproduce/kill_resume.py", "--kills", str(options.kills), "--seed", seed)
    found = {
        "files": files,
        "hostile": hostile,
        "kills": {"n": kills["kills"], "resumed_identical": kills["identical"]},
    }
    ok = (
        not any(kind[bad] for kind in files.values() for bad in ("tracebacks", "hangs", "crashes"))
        and not any(
            hostile[bad] for bad in ("host_died_isolated", "results_lost_isolated", "orphans", "left_behind")
        )
        and kills["ok"]
    )
    print(f"{'files':<14}{'n':>8}{'read':>8}{'tracebacks':>12}{'hangs':>8}{'crashes':>9}")
    for name, kind in files.items():
        print(
            f"{name:<14}{kind['n']:>8}{kind['read']:>8}{kind['tracebacks']:>12}{kind['hangs']:>8}"
            f"{kind['crashes']:>9}"
        )
    print("hostile FMU   " + ", ".join(f"{key} {value}" for key, value in hostile.items()))
    print(f"killed runs   {kills['kills']}, of which resumed to the same bits {kills['identical']}")
    print("ok" if ok else "NOT ok")
    if options.json:
        print(json.dumps(found), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
