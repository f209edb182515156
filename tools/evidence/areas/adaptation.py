"""What was asked of adaptations: the power window of the thesis, and what an adaptation costs."""

from __future__ import annotations

from tools.evidence.claim import Claim, ratio

WINDOW, COST = "reproduce/power_window.py", "benchmarks/adaptation.py"

CLAIMS = (
    Claim(
        "power window: units as they are",
        "refused, with reasons",
        WINDOW,
        lambda d: f"refused: {', '.join(d['reasons'])}",
        lambda d: d["refused_without_adaptations"],
    ),
    Claim(
        "power window: the object is detected, beside the equations in one piece",
        "within 5 ms",
        WINDOW,
        lambda d: f"{1000 * abs(d['detected_at'] - d['detected_at_reference']):.2f} ms",
        lambda d: abs(d["detected_at"] - d["detected_at_reference"]) <= 5e-3,
    ),
    Claim(
        "power window: the window goes back",
        "for 1 s",
        WINDOW,
        lambda d: f"{d['reversed_for']:.3f} s",
        lambda d: abs(d["reversed_for"] - 1.0) <= 5e-3,
    ),
    Claim(
        "power window: positions, in every variant (declared, not located, FMUs of FMI 2 and 3)",
        "within 1 %",
        WINDOW,
        lambda d: f"{max(v['position_error_percent'] for v in d['variants'].values()):.2g} %",
        lambda d: all(v["position_error_percent"] <= 1.0 for v in d["variants"].values()),
    ),
    ratio(
        "an adaptation that does nothing, per port and step",
        30,
        COST,
        lambda d: d["ns_per_port"],
        times=" ns",
    ),
    ratio("three adaptations around each other, over one", 1.2, COST, lambda d: d["three_over_one"]),
)
