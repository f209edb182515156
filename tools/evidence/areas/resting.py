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
        "rows of 2 to 50 random masses that touch, restitution 1, 0.8 and 0: those that end with an error, "
        "do not keep momentum, gain energy or still close",
        "0",
        RESTING,
        lambda d: f"{sum(not _ended_well(one) for one in d['rows'])} of {len(d['rows'])}",
        lambda d: all(_ended_well(one) for one in d["rows"]),
    ),
)


def _ended_well(one: dict[str, float]) -> bool:
    return "ended" not in one and (
        max(one["momentum"], one["energy_grown"]) <= 1e-12
        and max(one["closing"], one["off_common_speed"]) <= 1e-11
    )


def _good(one: dict[str, float]) -> bool:
    return bool(one["error"] <= 1e-10 and one["told"] and one["engines_agree"])
