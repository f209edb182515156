"""What was asked of events that nobody declared."""

from __future__ import annotations

from tools.evidence.claim import Claim

DISCOVER = "reproduce/discover.py"

CLAIMS = (
    Claim(
        "conditions found in thirteen systems of black boxes: precision; recall",
        "≥ 0.9; ≥ 0.9",
        DISCOVER,
        lambda d: f"{d['precision']:.2f}; {d['recall']:.2f}",
        lambda d: d["precision"] >= 0.9 and d["recall"] >= 0.9,
    ),
    Claim(
        "… in twelve random pairs of masses as FMUs: precision; recall",
        "≥ 0.9; ≥ 0.9",
        DISCOVER,
        lambda d: f"{d['random']['precision']:.2f}; {d['random']['recall']:.2f}",
        lambda d: d["random"]["precision"] >= 0.9 and d["random"]["recall"] >= 0.9,
    ),
    Claim(
        "two masses as FMUs: error with discovered conditions over that with declared ones",
        "≤ 3 ×",
        DISCOVER,
        lambda d: f"{d['gain']['two_mass']:.2f} ×",
        lambda d: d["gain"]["two_mass"] <= 3.0,
    ),
    Claim(
        "noise of 1 % on all outputs of twelve systems: false conditions",
        "0",
        DISCOVER,
        lambda d: f"{d['noise']['false']}",
        lambda d: d["noise"]["false"] == 0,
    ),
)
