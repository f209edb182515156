"""What was asked of silence: that nothing wrong goes without a word."""

from __future__ import annotations

from tools.evidence.claim import Claim

TRUTH = "reproduce/truth.py"
GRAZING = (
    "In one of 300 a grazing contact at t = 14.3 s happens in the run and not in the exact motion; the "
    "positions are off by at most 2 cm, and the summary warns."
)

CLAIMS = (
    Claim(
        "random couplings of eight classes: called stable although they are not",
        "0",
        TRUTH,
        lambda d: (
            f"{d['verdicts']['false_stable']} of {d['verdicts']['judged']} "
            f"({d['verdicts']['undecided']} undecided)"
        ),
        lambda d: d["verdicts"]["false_stable"] == 0,
    ),
    Claim(
        "… called unstable although they settle",
        "0",
        TRUTH,
        lambda d: f"{d['verdicts']['false_unstable']} of {d['verdicts']['judged']}",
        lambda d: d["verdicts"]["false_unstable"] == 0,
    ),
    Claim(
        "events and ticks a hair apart, all inputs and paces: error over that of fixed steps, worst",
        "≤ 5",
        TRUTH,
        lambda d: f"{d['tiny_steps']['worst_ratio']:.2f} of {d['tiny_steps']['n']} cases",
        lambda d: d["tiny_steps"]["worst_ratio"] <= 5.0,
    ),
    Claim(
        "random two-mass systems, a step and events and nothing else: all events right",
        "all",
        TRUTH,
        lambda d: f"{d['events']['right']} of {d['events']['n']} (fixed steps {d['events']['right_fixed']})",
        lambda d: d["events"]["right"] == d["events"]["n"],
        GRAZING,
    ),
    Claim(
        "… wrong, or worse than fixed steps, without a warning; FMUs as black boxes among them",
        "0",
        TRUTH,
        lambda d: f"{d['events']['wrong_silent']}",
        lambda d: d["events"]["wrong_silent"] == 0,
    ),
    Claim(
        "… as black boxes: right",
        "≥ 30 of 40",
        TRUTH,
        lambda d: f"{d['events']['black_boxes']['right']} of {d['events']['black_boxes']['n']}",
        lambda d: d["events"]["black_boxes"]["right"] >= 0.75 * d["events"]["black_boxes"]["n"],
    ),
)
