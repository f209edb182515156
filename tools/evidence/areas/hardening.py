"""What was asked of files, FMUs and interruptions that mean no good."""

from __future__ import annotations

from tools.evidence.claim import Claim, Data

HARDENING = "benchmarks/hardening.py"


def _files(data: Data, *what: str) -> int:
    return sum(kind[each] for kind in data["files"].values() for each in what)


CLAIMS = (
    Claim(
        "broken files of six kinds: tracebacks, hangs, crashes",
        "0",
        HARDENING,
        lambda d: f"{_files(d, 'tracebacks', 'hangs', 'crashes')} of {_files(d, 'n'):,}",
        lambda d: not _files(d, "tracebacks", "hangs", "crashes"),
        "A state machine that waits for a variable (seed 7, 16 November 2026). It is mended, and the "
        "17,000 files of that kind were read again: none.",
    ),
    Claim(
        "an FMU that misbehaves, in a process of its own: hosts that died",
        "0",
        HARDENING,
        lambda d: f"{d['hostile']['host_died_isolated']} of {d['hostile']['isolated']}",
        lambda d: d["hostile"]["host_died_isolated"] == 0,
    ),
    Claim(
        "… results lost",
        "0",
        HARDENING,
        lambda d: f"{d['hostile']['results_lost_isolated']}",
        lambda d: d["hostile"]["results_lost_isolated"] == 0,
    ),
    Claim(
        "… processes and files left behind",
        "0",
        HARDENING,
        lambda d: f"{d['hostile']['orphans'] + d['hostile']['left_behind']}",
        lambda d: d["hostile"]["orphans"] + d["hostile"]["left_behind"] == 0,
    ),
    Claim(
        "runs killed at random moments: resumed to the same bits",
        "50 of 50",
        HARDENING,
        lambda d: f"{d['kills']['resumed_identical']} of {d['kills']['n']}",
        lambda d: d["kills"]["resumed_identical"] == d["kills"]["n"],
    ),
)
