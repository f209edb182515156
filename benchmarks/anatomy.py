"""How large the code base is, and how much of it a small run passes.

    python benchmarks/anatomy.py --json

Files and lines are those of `src` and `native` (tests apart). README's `damped.toml` is run as a user does,
under a profiler: which functions of ours it passes before its first step, in how many files, which modules it
imports, and how often it builds its program. What a new built-in pace, instruction or kind of unit touches is
counted in the diffs of `docs/extending`, which a test applies and runs (tests/test_extending.py). The cost
of running again is what a short run with other parameters takes beyond the steps themselves.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOALS = {
    "functions_before_first_step": 250,
    "modules_imported": 180,
    "program_builds": 1,
    "python files": 320,
    "cpp files": 100,
    "repeat_run_overhead_ms": 0.3,
    "docs_words": 28_000,
    "touches pace": 4,
    "touches instruction": 8,
    "touches unit": 6,
}
WATCHED = r"""
import json, sys
from importlib.util import find_spec
sys.argv = ["upbeat", "run", "damped.toml", "--out", "damped.csv", "--quiet"]
ours = find_spec("upbeat").origin.removesuffix("__init__.py")
seen, builds, first = set(), 0, None

def watch(frame, event, argument):
    global builds, first
    if first is not None:
        return
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(ours) and code.co_flags & 1:
        if code.co_qualname == "Master.written":
            builds += 1
        if "<" not in code.co_name:
            seen.add((code.co_filename, code.co_qualname))
        if code.co_qualname in ("CoreLoop.run", "Loop.step"):  # what makes steps in each of the engines
            first = len(seen), len({file for file, _ in seen})

sys.setprofile(watch)
from upbeat.cli.main import main
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
modules = [name for name in sys.modules if name.partition(".")[0] == "upbeat"]
if first is None:
    sys.exit("the run was not seen to make a step")
functions, files = first
print(json.dumps({"functions": functions, "files": files, "builds": builds, "modules": len(modules)}))
"""
QUARTER_CAR = """
units.wheel.states = { x = "v", v = "(k*(road - x) + F)/m" }
units.wheel.inputs = ["F"]
units.wheel.parameters = { m = 40.0, k = 150000.0, road = 0.1 }
units.body.states = { x = "v", v = "-(k*(x - xw) + d*(v - vw))/m" }
units.body.inputs = ["xw", "vw"]
units.body.parameters = { m = 400.0, k = 15000.0, d = 1000.0 }
units.body.outputs = { x = "x", F = "k*(x - xw) + d*(v - vw)" }
units.wheel.outputs = ["x", "v"]
connections = { "wheel.F" = "body.F", "body.xw" = "wheel.x", "body.vw" = "wheel.v" }
master = { coupling = "gauss_seidel", step = 0.001 }
run = { until = 1.0 }
"""


def sources(folder: str, *endings: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in endings]


def lines(paths: list[Path]) -> int:
    return sum(path.read_text().count("\n") for path in paths)


def damped() -> str:
    """The scenario file that README shows."""
    found = re.search(r"```toml\n(# damped\.toml\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if found is None:
        raise SystemExit("README.md shows no damped.toml any more")
    return found[1]


def walked() -> dict[str, int]:
    """What running it passes, measured in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "damped.toml").write_text(damped())
        said = subprocess.run(
            [sys.executable, "-c", WATCHED], cwd=folder, capture_output=True, text=True, check=True
        )
    return json.loads(said.stdout.splitlines()[-1])


def touched() -> dict[str, int]:
    """How many files each of the diffs that add something built-in touches, its own included."""
    diffs = sorted((ROOT / "docs" / "extending").glob("*.patch"))
    return {diff.stem: len(re.findall(r"^\+\+\+ b/", diff.read_text(), re.MULTILINE)) for diff in diffs}


def repeated(times: int) -> float:
    """Milliseconds of CPU that a run with other parameters takes beyond its own steps."""
    import upbeat as up

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "car.toml"
        file.write_text(QUARTER_CAR)
        short, long = [], []
        both = ((up.load(file, until=1.0), short), (up.load(file, until=3.0), long))
        for number in range(times):
            for made, into in both:
                began = time.process_time()  # on a busy machine the clock tells about the others
                made.with_values({"body.d": 1000.0 + number}).run()
                into.append(time.process_time() - began)
    # The steps of one second are half of what two more seconds take.
    return 1e3 * (statistics.median(short) - (statistics.median(long) - statistics.median(short)) / 2)


def measure(times: int) -> dict[str, Any]:
    walk = walked()
    python, cpp = sources("src", ".py"), sources("native", ".cpp", ".hpp", ".h")
    cpp = [path for path in cpp if "tests" not in path.parts]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {
        "files": {"python": len(python), "cpp": len(cpp)},
        "lines": {"python": lines(python), "cpp": lines(cpp)},
        "functions_before_first_step": walk["functions"],
        "files_before_first_step": walk["files"],
        "modules_imported": walk["modules"],
        "program_builds": walk["builds"],
        "touches": touched(),
        "repeat_run_overhead_ms": repeated(times),
        "docs_words": sum(len(page.read_text().split()) for page in pages),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--times", type=int, default=30, help="how often the short run is repeated (30)")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    found = measure(options.times)
    here = {
        **{key: value for key, value in found.items() if not isinstance(value, dict)},
        **{f"{key} {word}": value for word in ("files", "lines") for key, value in found[word].items()},
        **{f"touches {key}": value for key, value in found["touches"].items()},
    }
    print(f"{'what':<32}{'asked':>10} | {'here':>10}")
    for name, value in here.items():
        print(f"{name:<32}{GOALS.get(name, ''):>10} | {round(value, 3):>10}")
    if options.json:
        missed = [name for name, goal in GOALS.items() if not here[name] <= goal]
        print(json.dumps({**found, "known_misses": missed}), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
