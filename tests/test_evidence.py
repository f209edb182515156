"""The page of evidence shows every claim, marks what is missed, and explains it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.evidence.__main__ import page
from tools.evidence.areas import AREAS
from tools.evidence.claim import Claim, ratio

ROOT = Path(__file__).parents[1]
CLAIMS = [claim for claims in AREAS.values() for claim in claims]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


@pytest.fixture(scope="module")
def shown() -> str:
    return (ROOT / "docs" / "evidence.md").read_text()


@pytest.fixture(scope="module")
def rows(shown: str) -> dict[tuple[str, str], list[str]]:
    found = [cells(line) for line in shown.splitlines() if line.startswith("| ") and line.endswith(".py` |")]
    return {(row[0], row[-1].strip("`")): row for row in found}


def test_every_claim_is_shown_as_it_is_made_now(rows: dict[tuple[str, str], list[str]]) -> None:
    assert {key: row[1] for key, row in rows.items()} == {
        (claim.what, claim.script): claim.asked for claim in CLAIMS
    }, "make evidence"


def test_what_is_missed_is_explained(shown: str, rows: dict[tuple[str, str], list[str]]) -> None:
    for claim in CLAIMS:
        missed = rows[claim.what, claim.script][2].endswith("**missed**")
        told = any(f"*{claim.what}*" in line and line.endswith(claim.why) for line in shown.splitlines())
        assert told == missed
        assert claim.why or not missed, f"{claim.what}: say why it is missed"


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
    assert "| short | ≤ 2 × | 3 × **missed** | `benchmarks/a.py` |" in text
    assert "| long | ≤ 5 × | 4 × | `benchmarks/a.py` |" in text
    assert "*short*: too long for a reason" in text
    assert "*long*" not in text
