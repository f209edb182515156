"""What was asked of systems that people recognise, some of which change their structure."""

from __future__ import annotations

from tools.evidence.claim import Claim, Data

STRUCTURES = "reproduce/structures.py"


def counted(data: Data, method: str, what: str) -> int:
    """How many events of all systems are `right`, `missing` or `extra`."""
    return sum(one["methods"][method][what] for one in data["examples"])


def claim(what: str, method: str) -> Claim:
    """All events are right, and there are no others."""
    return Claim(
        what,
        "all, no others",
        STRUCTURES,
        lambda d: (
            f"{counted(d, method, 'right')} of {sum(one['events'] for one in d['examples'])}, "
            f"{counted(d, method, 'extra')} others (fixed steps: {counted(d, 'fixed', 'right')}, "
            f"{counted(d, 'fixed', 'extra')} others)"
        ),
        lambda d: counted(d, method, "missing") == counted(d, method, "extra") == 0,
    )


CLAIMS = (
    claim(
        "events of eight systems that people recognise, beside independent references: LookAhead",
        "look_ahead",
    ),
    claim("… Revised", "revised"),
    claim("… auto", "auto"),
)
