"""The page of evidence: every script stands behind a claim, and what is missed is marked and explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.evidence.__main__ import page
from tools.evidence.areas import AREAS
from tools.evidence.claim import Claim, ratio

ROOT = Path(__file__).parents[1]
CLAIMS = [claim for claims in AREAS.values() for claim in claims]


def test_every_reproduction_and_benchmark_stands_behind_a_claim() -> None:
    scripts = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("reproduce/*.py")}
    scripts |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/*.py")}
    parts = {"benchmarks/recording.py"}  # overhead.py runs it
    assert {claim.script for claim in CLAIMS} == scripts - parts | {"tools/installs.py"}


def test_the_page_marks_what_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    claims: tuple[Claim, ...] = (
        ratio("short", 2.0, "benchmarks/a.py", lambda d: d["short"], "too long for a reason"),
        ratio("long", 5.0, "benchmarks/a.py", lambda d: d["long"]),
    )
    monkeypatch.setitem(AREAS, "An area", claims)
    for others in set(AREAS) - {"An area"}:
        monkeypatch.delitem(AREAS, others)
    text = page({"benchmarks/a.py": {"short": 3.0, "long": 4.0}}, {"areas": {}}, "a machine")
    assert "| short | ≤ 2 × | 3 × | **no** | `benchmarks/a.py` |" in text
    assert "| long | ≤ 5 × | 4 × | yes | `benchmarks/a.py` |" in text
    assert "*short*: too long for a reason" in text
    assert "*long*" not in text
