"""The page on what is supported is made from the tests, and is up to date."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "support_table.py"))


def test_the_page_is_up_to_date(tool: dict[str, Any]) -> None:
    written = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    assert written == tool["page"](tool["collected"](ROOT / "tests")), "run `make support-table`"


def test_rows_come_from_markers(tool: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        '@pytest.mark.supports("ssp", "Units")\n'
        '@pytest.mark.supports("fmi2", "Strings", "as text")\n'
        "def test_a(): ...\n"
        '@pytest.mark.supports("ssp", "Units", "not in mappings")\n'
        "def test_b(): ...\n"
    )
    text = tool["page"](tool["collected"](tmp_path))
    assert "| Strings | as text | 2.0 |" in text
    assert "| Units | yes; not in mappings |" in text


@pytest.mark.parametrize("marker", ['"fmi4", "Units"', '"ssp"', '"ssp", name', '"ssp", feature="Units"'])
def test_a_marker_that_says_nothing_is_refused(tool: dict[str, Any], tmp_path: Path, marker: str) -> None:
    (tmp_path / "test_one.py").write_text(f"@pytest.mark.supports({marker})\ndef test_a(): ...\n")
    with pytest.raises(SystemExit, match=r"test_one\.py:1: "):
        tool["collected"](tmp_path)
