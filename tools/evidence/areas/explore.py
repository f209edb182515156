"""What was asked of studies: that many runs cost little more than their steps, and that answers are right."""

from __future__ import annotations

from tools.evidence.claim import Claim, ratio

COST, ANSWERS = "benchmarks/explore.py", "reproduce/explore.py"

CLAIMS = (
    ratio("a run of a study over its own steps", 5.0, COST, lambda d: d["overhead_us"], times=" µs"),
    ratio("… with an FMU that resets", 50.0, COST, lambda d: d["overhead_fmu_us"], times=" µs"),
    Claim(
        "two cores against one",
        "linear",
        COST,
        lambda d: f"{d['scaling']['2']:.2f} ×",
        lambda d: d["scaling"]["2"] >= 1.8,
        "Measured on two cores that other work shares.",
    ),
    Claim(
        "growth of memory over 100,000 runs",
        "none",
        COST,
        lambda d: f"{d['growth_mb']:.1f} MB",
        lambda d: d["growth_mb"] < 1.0,
    ),
    ratio("Sobol indices of Ishigami's function, error", 0.01, ANSWERS, lambda d: d["sobol_error"], times=""),
    Claim(
        "calibration of a motor from noisy data: true values inside the 95 % interval",
        "≥ 90 of 100",
        ANSWERS,
        lambda d: f"{d['calibration']['inside']} of {d['calibration']['repetitions']}",
        lambda d: d["calibration"]["inside"] >= 90,
    ),
    Claim(
        "a study that was killed and resumed, and one on a Dask cluster: the same numbers",
        "yes; yes",
        ANSWERS,
        lambda d: "; ".join("yes" if d[key] else "no" for key in ("resumed_equal", "cluster_equal")),
        lambda d: d["resumed_equal"] and d["cluster_equal"],
    ),
)
