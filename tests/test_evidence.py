"""The list of evidence has every claim, says why some are missed; the page is made of it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from tools.evidence.__main__ import Row, page
from tools.evidence.__main__ import rows as rows_of
from tools.evidence.areas import AREAS
from tools.evidence.claim import Claim, ratio

ROOT = Path(__file__).parents[1]
CLAIMS = [claim for claims in AREAS.values() for claim in claims]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with (ROOT / "docs" / "evidence.csv").open(encoding="utf-8", newline="") as file:
        return [Row(**line) for line in csv.DictReader(file)]


def test_every_claim_is_listed_as_it_is_made_now(rows: list[Row]) -> None:
    assert [(row.what, row.asked, row.script) for row in rows] == [
        (claim.what, claim.asked, claim.script) for claim in CLAIMS
    ], "make evidence"


def test_what_is_missed_is_explained(rows: list[Row]) -> None:
    for row, claim in zip(rows, CLAIMS, strict=True):
        assert row.holds in ("yes", "no")
        assert row.why == ("" if row.holds == "yes" else claim.why)
        assert row.why or row.holds == "yes", f"{claim.what}: say why it is missed"


def test_the_page_is_made_of_the_list(rows: list[Row]) -> None:
    shown = (ROOT / "docs" / "evidence.md").read_text()
    where = re.search(r"Measured on (.*) before", shown)
    assert where
    entries = int(re.findall(r"(\d+) of \1 answers", shown)[0])
    bad = {"areas": {"": [{"wrong": ""}] * entries}}
    made = re.sub(r"with Python [\d.]+", "", page(rows, bad, where[1]))
    assert re.sub(r"with Python [\d.]+", "", shown) == made, "make evidence"


def test_every_reproduction_and_benchmark_stands_behind_a_claim() -> None:
    scripts = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("reproduce/*.py")}
    scripts |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/*.py")}
    # overhead.py runs the one, the other needs a GPU
    parts = {"benchmarks/recording.py", "benchmarks/ensemble.py"}
    assert {claim.script for claim in CLAIMS} == scripts - parts | {"tools/installs.py"}


def test_the_page_marks_what_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    claims: tuple[Claim, ...] = (
        ratio("short", 2.0, "benchmarks/a.py", lambda d: d["short"], "too long for a reason"),
        ratio("long", 5.0, "benchmarks/a.py", lambda d: d["long"]),
    )
    monkeypatch.setitem(AREAS, "An area", claims)
    for others in set(AREAS) - {"An area"}:
        monkeypatch.delitem(AREAS, others)
    text = page(rows_of({"benchmarks/a.py": {"short": 3.0, "long": 4.0}}), {"areas": {}}, "a machine")
    assert "1 of 2 numbers" in text
    assert "| short | ≤ 2 × | 3 × | too long for a reason | `benchmarks/a.py` |" in text
    assert "| An area | 1 of 2 | `benchmarks/a.py` |" in text
    assert "| long |" not in text
