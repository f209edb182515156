"""What was asked of trust: that errors are known, and that nothing is called good that is not."""

from __future__ import annotations

from typing import Any

from tools.evidence.claim import Claim

TRUST = "reproduce/trust.py"
STEP = "reproduce/step.py"


def largest(rows: list[dict[str, Any]], key: str) -> float:
    """Over all settings that were recommended."""
    return max(row[key] for row in rows if row.get(key) is not None)


CLAIMS = (
    Claim(
        "seventeen known solutions: estimated over true error within 0.3 … 3, signals",
        "≥ 90 %",
        TRUST,
        lambda d: f"{d['within_0.3_3']} of {d['n']}",
        lambda d: d["within_0.3_3"] >= 0.9 * d["n"],
    ),
    Claim(
        "… verdicts that are wrong; called good that are not",
        "0; 0",
        TRUST,
        lambda d: (
            f"{sum(not case['verdict_right'] for case in d['cases'])}; {d['good_that_is_not']} "
            f"({d['undecided']} undecided)"
        ),
        lambda d: d["good_that_is_not"] == 0 and all(case["verdict_right"] for case in d["cases"]),
    ),
    Claim(
        "upbeat step, the same solutions, 1e-2, 1e-3, 1e-4 asked: errors as asked, or rightly undecided",
        "all",
        STEP,
        lambda d: (
            f"{sum(row.get('true_error', 0.0) <= row['asked'] for row in d['cases'])} of {d['n']} "
            f"({sum(row['recommended'] is None for row in d['cases'])} undecided)"
        ),
        lambda d: all(
            row["holds"] if row["recommended"] is None else (row["true_error"] or 1.0) <= row["asked"]
            for row in d["cases"]
        ),
    ),
    Claim(
        "… work over that of the cheapest setting of the table",
        "≤ 2 ×",
        STEP,
        lambda d: f"at most {largest(d['cases'], 'ratio'):.2f} ×",
        lambda d: largest(d["cases"], "ratio") <= 2.0,
    ),
    Claim(
        "… work of all trials beyond the recommended run",
        "≤ 10 runs",
        STEP,
        lambda d: f"at most {largest(d['cases'], 'trials'):.1f} runs",
        lambda d: largest(d["cases"], "trials") <= 10.0,
    ),
)
