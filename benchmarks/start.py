"""How long it takes to begin: importing, the first command, and what a wheel weighs.

Every measurement is a new process; the median of several. Python keeps the bytecode of modules, as it does
unless it is told not to: a first process, which is not measured, writes it to a folder of its own. The
wheel is built from this folder without the native engine's debug information, as `pip` would.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
HEAVY = ("scipy", "pandas", "matplotlib", "numba", "polars", "pyarrow")
COMMANDS = {
    "run_s": ["-m", "upbeat.cli.main", "run", str(ROOT / "examples" / "coupled_masses.toml")],
    "help_s": ["-m", "upbeat.cli.main", "--help"],
    "python_s": ["-c", "pass"],
}
IMPORT = "import time; t = time.perf_counter(); import upbeat; print(time.perf_counter() - t)"
EVERYTHING = "import time; t = time.perf_counter(); from upbeat import *; print(time.perf_counter() - t)"


def said(command: list[str], bytecode: str) -> str:
    """What a new Python prints, which finds and keeps bytecode in that folder."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = others | {"PYTHONPYCACHEPREFIX": bytecode}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, env=environment
    ).stdout


def wall(command: list[str], bytecode: str) -> float:
    begun = time.perf_counter()
    said(command, bytecode)
    return time.perf_counter() - begun


def wheel_mb() -> float:
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            str(ROOT),
        ]
        subprocess.run([sys.executable, *words], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.stat().st_size / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    found: dict[str, float] = {}
    rounds = range(options.rounds)
    with tempfile.TemporaryDirectory() as bytecode:
        for command in (["-c", EVERYTHING], *COMMANDS.values()):
            said(command, bytecode)
        for name, code in (("import_s", IMPORT), ("import_everything_s", EVERYTHING)):
            found[name] = median(float(said(["-c", code], bytecode)) for _ in rounds)
        for name, command in COMMANDS.items():
            found[name] = median(wall(command, bytecode) for _ in rounds)
        loaded = said(["-c", "import sys, upbeat; print(*sys.modules)"], bytecode).split()
    heavy = sorted(set(HEAVY) & set(loaded))
    found["wheel_mb"] = wheel_mb()
    print(f"import upbeat                   {found['import_s'] * 1e3:8.1f} ms   (asked: below 200)")
    print(f"… and every public name         {found['import_everything_s'] * 1e3:8.1f} ms")
    print(f"upbeat run, a small example     {found['run_s'] * 1e3:8.1f} ms   (asked: below 1000)")
    print(f"upbeat --help                   {found['help_s'] * 1e3:8.1f} ms")
    print(f"python -c pass                  {found['python_s'] * 1e3:8.1f} ms")
    print(f"the wheel                       {found['wheel_mb']:8.2f} MB")
    print("import upbeat brings heavy packages:", ", ".join(heavy) or "none")
    if options.json:
        print(json.dumps({**found, "heavy": heavy}), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
