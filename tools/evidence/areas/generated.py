"""What was asked of generated code: as quick as a loop by hand, and the same bits as the engines."""

from __future__ import annotations

from tools.evidence.claim import Claim, ratio, worst

RING, SAME = "benchmarks/generated.py", "reproduce/generated.py"

CLAIMS = (
    ratio(
        "ring of expression units with 100 ns of own work, against the loop in C",
        1.3,
        RING,
        lambda d: worst(d["ring"], "compiled_ns"),
    ),
    Claim(
        "every example, generated = native = interpreted, to the bit",
        "all",
        SAME,
        lambda d: f"{sum(what == 'same' for what in d['examples'].values())} of {len(d['examples'])}",
        lambda d: all(what == "same" for what in d["examples"].values()),
    ),
    Claim(
        "… random scenarios",
        "200 of 200",
        SAME,
        lambda d: f"{sum(d['random'].values()) - d['random']['different']} of {sum(d['random'].values())}",
        lambda d: d["random"]["different"] == 0 and sum(d["random"].values()) >= 200,
    ),
)
