"""What was asked of the code base itself."""

from __future__ import annotations

from tools.evidence.claim import Claim, ratio

ANATOMY = "benchmarks/anatomy.py"
FUNCTIONS = (
    "126 in `master`, 122 in `engine`, 87 in `core`, 73 in `scenario`, 65 in `units`: one for each thing "
    "that is read, checked, written or lowered. What a scenario does not have (processes, nests, events, "
    "rates of inputs) is not passed, and where a result comes from is written at its end."
)
MODULES = "A command loads adaptations, blocks and state machines, whatever it runs."
AGAIN = (
    "CPU time at a load of 15 on two cores, where the code before took 0.54 ms in turns with it; the "
    "quickest runs took 0.23 ms (0.30 ms). What is left is a scenario, a run and a trace in Python: nothing "
    "is planned, lowered or compiled again."
)

CLAIMS = (
    ratio(
        "functions that README's `damped.toml` passes before its first step",
        250,
        ANATOMY,
        lambda d: d["functions_before_first_step"],
        FUNCTIONS,
        times="",
    ),
    ratio(
        "modules of ours that it imports", 180, ANATOMY, lambda d: d["modules_imported"], MODULES, times=""
    ),
    ratio("times that it builds its program", 1, ANATOMY, lambda d: d["program_builds"], times=""),
    ratio(
        "a run again with other parameters, beyond its steps",
        0.3,
        ANATOMY,
        lambda d: d["repeat_run_overhead_ms"],
        AGAIN,
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
