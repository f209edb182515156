"""What was asked of properties and power bonds: quick enough for long traces, and energy that is kept."""

from __future__ import annotations

from tools.evidence.claim import Claim

BONDS, COST = "reproduce/power_bond.py", "benchmarks/properties.py"

CLAIMS = (
    Claim(
        "NEPCE on the case of Dejaco and Benedikt, dT = 0.3: energy residual lower than without",
        "≥ 10 ×",
        BONDS,
        lambda d: f"{d['dejaco_benedikt']['linear']['ratio']:.3g} ×",
        lambda d: d["dejaco_benedikt"]["linear"]["ratio"] >= 10.0,
    ),
    Claim(
        "… on a stiff mass and spring with held inputs",
        "≥ 10 ×",
        BONDS,
        lambda d: f"{d['stiff']['hold']['ratio']:.3g} ×",
        lambda d: d["stiff"]["hold"]["ratio"] >= 10.0,
    ),
    Claim(
        "robustness of a nested `until` on a trace of a million rows",
        "seconds",
        COST,
        lambda d: f"{d['seconds']['until']:.1f} s",
        lambda d: d["seconds"]["until"] < 10.0,
    ),
)
