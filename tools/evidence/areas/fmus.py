"""What was asked of FMUs."""

from __future__ import annotations

from tools.evidence.claim import Claim, least, ratio, worst

RING, LIFE = "benchmarks/fmu_ring.py", "benchmarks/fmu_life.py"

CLAIMS = (
    ratio(
        "ring of FMUs, native against C",
        1.5,
        RING,
        lambda d: worst(d["ring"], "native_ns"),
        "Three checked calls and the recording cost 15 to 20 ns, more than an FMU that does next to nothing.",
    ),
    Claim(
        "… against a loop with FMPy",
        "≥ 20 × faster",
        RING,
        lambda d: f"{least(d['ring'], 'fmpy_ns', 'native_ns'):.0f} ×",
        lambda d: least(d["ring"], "fmpy_ns", "native_ns") >= 20,
    ),
    Claim(
        "… interpreted, against FMPy",
        "faster",
        RING,
        lambda d: f"{least(d['ring'], 'fmpy_ns', 'interpreted_ns'):.2f} ×",
        lambda d: least(d["ring"], "fmpy_ns", "interpreted_ns") > 1.0,
        "Both are Python calling the same C functions; on a busy machine their order changes.",
    ),
    Claim(
        "1000 lives of an FMU leave behind",
        "< 1 MB",
        LIFE,
        lambda d: f"{max(r['grown_mb'] for r in d['life']):.2f} MB",
        lambda d: max(r["grown_mb"] for r in d["life"]) < 1,
    ),
    Claim(
        "200 FMUs in one scenario load in",
        "< 5 s",
        LIFE,
        lambda d: f"{max(r['load_s'] for r in d['life']):.1f} s",
        lambda d: max(r["load_s"] for r in d["life"]) < 5,
    ),
    ratio(
        "a run of 100 steps of one FMU, CPU time with start and imports",
        0.3,
        LIFE,
        lambda d: d["short"]["upbeat_s"],
        "At a load of 15 on two cores; the code before took 0.44 s in turns with it. All but 10 ms are "
        "imports, NumPy's among them (0.1 s); FMPy takes 0.19 s.",
        times=" s",
    ),
    ratio(
        "a call to an isolated unit, free cores",
        5.0,
        "benchmarks/isolation.py",
        lambda d: d["call_us"],
        "Both processes look at shared memory while they wait, so each needs a core of its own.",
        times=" µs",
    ),
)
