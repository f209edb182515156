"""What was asked of the foundation: overhead, start-up, orders of convergence."""

from __future__ import annotations

from tools.evidence.claim import Claim, flag, ratio, worst

OVERHEAD, START = "benchmarks/overhead.py", "benchmarks/start.py"

CLAIMS = (
    ratio("native engine, units of about 100 ns", 1.5, OVERHEAD, lambda d: worst(d["ring"], "native_ns")),
    ratio(
        "native engine, empty units",
        2.0,
        OVERHEAD,
        lambda d: worst(d["ring_empty"], "native_ns"),
        "The ring of two: the cost of a step as such has only two units to be shared by. From ten units on "
        "it is below 2.",
    ),
    ratio("expressions (bytecode)", 10.0, OVERHEAD, lambda d: worst(d["ring"], "expression_ns")),
    ratio("expressions, compiled (jit)", 2.5, OVERHEAD, lambda d: worst(d["ring"], "jit_ns")),
    ratio(
        "growth per unit and step from 10 to 1000 units",
        1.3,
        OVERHEAD,
        lambda d: (
            {r["n"]: r["native_ns"] for r in d["ring"]}[1000]
            / {r["n"]: r["native_ns"] for r in d["ring"]}[10]
        ),
    ),
    ratio(
        "interpreter, per unit and step",
        8.0,
        OVERHEAD,
        lambda d: max(r["interpreted_ns"] for r in d["ring"]) / 1e3,
        times=" µs",
    ),
    ratio("memory of recording 10⁶ × 10 values", 1.3, OVERHEAD, lambda d: d["record_overhead"]),
    ratio("`import upbeat`", 0.2, START, lambda d: d["import_s"], times=" s"),
    ratio("`upbeat run` of a small example", 1.0, START, lambda d: d["run_s"], times=" s"),
    Claim(
        "heavy packages that `import upbeat` loads",
        "none",
        START,
        lambda d: ", ".join(d["heavy"]) or "none",
        lambda d: not d["heavy"],
    ),
    flag(
        "coupled masses: order of Jacobi and Gauss-Seidel, held and linear inputs",
        "1 and 2",
        "reproduce/coupled_masses.py",
        lambda d: "; ".join(", ".join(f"{o:.2f}" for o in by.values()) for by in d["here"].values()),
    ),
)
