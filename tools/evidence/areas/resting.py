"""What was asked of events that come in clusters."""

from __future__ import annotations

from tools.evidence.claim import Claim

RESTING = "reproduce/resting.py"

CLAIMS = (
    Claim(
        "resting and sliding: systems whose error beside closed forms is at most 1e-10, with the right log",
        "≥ 6",
        RESTING,
        lambda d: f"{sum(_good(one) for one in d['systems'])} of {len(d['systems'])}",
        lambda d: sum(_good(one) for one in d["systems"]) >= 6,
    ),
    Claim(
        "Newton's cradle of 2 to 50 bodies: largest error of a position; of the energy",
        "≤ 1e-10; ≤ 1e-10",
        RESTING,
        lambda d: (
            f"{max(one['error'] for one in d['cradle']):.0e}; {max(one['energy'] for one in d['cradle']):.0e}"
        ),
        lambda d: all(one["error"] <= 1e-10 and one["energy"] <= 1e-10 for one in d["cradle"]),
    ),
    Claim(
        "rows of 2 to 50 random masses that touch, restitution 1 and 0.8: those that end with an error",
        "0",
        RESTING,
        lambda d: f"{sum('ended' in one for one in d['rows'])} of {len(d['rows'])}",
        lambda d: not any("ended" in one for one in d["rows"]),
        "Inelastic collapse: long rows with losses collide infinitely often at one instant, pair by pair. "
        "The run ends with a message after 10,000 rounds; all others keep momentum and gain no energy.",
    ),
)


def _good(one: dict[str, float]) -> bool:
    return bool(one["error"] <= 1e-10 and one["told"] and one["engines_agree"])
