"""The picture of the way through the code is true: a profiler passes its stations, in their order."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from upbeat.cli import main

ROOT = Path(__file__).parents[1]
WALK = runpy.run_path(str(ROOT / "tools" / "walk.py"))
EXAMPLES = {
    "The way of a signal": ROOT / "examples" / "coupled_masses.toml",
    "The way of an event": ROOT / "examples" / "two_mass" / "lookahead.toml",
}


def passed(words: list[str]) -> list[tuple[str, str]]:
    """The functions of Upbeat that a command calls, as (module, name), again and again."""
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            module = str(frame.f_globals.get("__name__", ""))
            if module.startswith("upbeat."):
                found.append((module.removeprefix("upbeat."), frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        assert main.main(words) == 0
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("engine", ["interpret", "native"])
@pytest.mark.parametrize("title", EXAMPLES)
def test_stations_are_passed_in_their_order(title: str, engine: str, tmp_path: Path) -> None:
    if engine == "native":
        pytest.importorskip("upbeat._native")
    words = [
        "run",
        str(EXAMPLES[title]),
        "--out",
        str(tmp_path / "r.csv"),
        "--engine",
        engine,
        "--until",
        "1",
    ]
    way = iter(passed(words))
    for station in WALK["WALKS"][title]:
        if station.engine in ("", engine):
            assert (station.module, station.function) in way, f"{station} is not passed, or too early"


def test_the_picture_is_up_to_date() -> None:
    assert WALK["PICTURE"].read_text(encoding="utf-8") == WALK["picture"](), "make walk"


def test_the_page_lists_every_layer_in_its_own_words() -> None:
    page = (ROOT / "docs" / "walk.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(WALK["layers"]()), "take these rows"
