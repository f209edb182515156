"""What was asked of the code base itself."""

from __future__ import annotations

from tools.evidence.claim import ratio

ANATOMY = "benchmarks/anatomy.py"
WHY = "A command still loads every coupling and pace, and each run makes its machine and its trace in Python."

CLAIMS = (
    ratio(
        "functions that README's `damped.toml` passes before its first step",
        250,
        ANATOMY,
        lambda d: d["functions_before_first_step"],
        WHY,
        times="",
    ),
    ratio("modules of ours that it imports", 180, ANATOMY, lambda d: d["modules_imported"], WHY, times=""),
    ratio("times that it builds its program", 1, ANATOMY, lambda d: d["program_builds"], WHY, times=""),
    ratio(
        "a run again with other parameters, beyond its steps",
        0.3,
        ANATOMY,
        lambda d: d["repeat_run_overhead_ms"],
        WHY,
        times=" ms",
    ),
)
