"""How the page of the studio looks: many units, light and dark, for everybody."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from studio_page import settle, until
from studio_server import Studio


def many(count: int) -> str:
    """Units that each look at the one before, and every fifth at one far away."""
    units = "".join(
        f'[units.unit{k}]\nstates = {{ x = "u + w - x" }}\ninputs = ["u", "w"]\n' for k in range(count)
    )
    wires = "".join(
        f'unit{k}.u = "unit{k - 1}.x"\n' + (f'unit{k}.w = "unit{k * 7 % count}.x"\n' if k % 5 == 0 else "")
        for k in range(1, count)
    )
    return f"{units}[connections]\n{wires}[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"


def test_fifty_units_do_not_overlap(studio: Studio, page_of: Callable[..., Any]) -> None:
    (studio.folder / "fifty.toml").write_text(many(50))
    page = page_of(studio, "fifty.toml")
    boxes = page.evaluate(
        "[...document.querySelectorAll('[data-box] .body')]"
        ".map((box) => box.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 50
    for a, b in combinations(boxes, 2):
        beside = a["right"] <= b["left"] or b["right"] <= a["left"]
        assert beside or a["bottom"] <= b["top"] or b["bottom"] <= a["top"]
    frame = page.locator("svg.diagram").bounding_box()
    assert all(box["left"] >= frame["x"] and box["right"] <= frame["x"] + frame["width"] for box in boxes)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(scheme: str, studio: Studio, page_of: Callable[..., Any]) -> None:
    playwright = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = page_of(studio, "lookahead.toml", color_scheme=scheme, bypass_csp=True)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.click("#run")
    page.wait_for_selector('#event-count[data-count="12"]')

    def check() -> None:
        found = playwright.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in serious]

    page.click('[data-box="upper"] .title')
    settle(page)
    check()
    page.click("#right-tab-text")
    page.click("#left-tab-runs")
    page.click("#bottom-tab-judge")
    check()
    page.click(".question >> nth=0")
    page.wait_for_selector(".answer .report")
    check()
    page.keyboard.press("Escape")
    page.click("#theme")
    other = "light" if scheme == "dark" else "dark"
    assert page.evaluate("document.documentElement.dataset.theme") == other


def test_it_works_without_a_mouse(studio: Studio, page_of: Callable[..., Any]) -> None:
    page = page_of(studio, "lookahead.toml")
    page.keyboard.press("Control+1")
    assert page.evaluate("document.activeElement.dataset.box") == "upper"
    page.keyboard.press("ArrowRight")
    until(page, "studio.state.selection?.name === 'lower'")
    page.keyboard.press("Control+k")
    page.locator("#command-dialog input").fill("to the text")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.matches('.text-editor textarea')")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("#help-dialog")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+4")
    until(page, "document.activeElement.closest('.tabbed.bottom') !== null")
