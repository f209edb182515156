"""What was asked of the code base itself."""

from __future__ import annotations

from tools.evidence.claim import Claim, ratio

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
    Claim(
        "words of the documentation, decisions included",
        "≤ 28,000",
        ANATOMY,
        lambda d: f"{d['docs_words']:,}",
        lambda d: d["docs_words"] <= 28_000,
        "63,500 before. The readable list of the Python API took 2,500 again, code and the lines of tables "
        "are a quarter, and what is left is what people look up.",
    ),
)
