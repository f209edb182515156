"""Running, watching and comparing in the page of the studio, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from studio_page import PUSHED, until
from studio_server import Studio

NONE = -1e9


def started(page: Any) -> None:
    before = page.evaluate("studio.state.run?.id ?? ''")
    page.wait_for_selector("#run:enabled")
    page.keyboard.press("F5")
    until(page, f"studio.state.run && studio.state.run.id !== '{before}'")


def ended(page: Any, state: str = "ended") -> None:
    page.wait_for_selector(f".run-now[data-state={state}]")


def last(page: Any, signal: str) -> float:
    """The last value of a signal that the page has."""
    return float(page.evaluate(f"studio.traceOf(studio.state.run.id).values.get('{signal}')?.at(-1) ?? -1e9"))


def test_two_masses_with_their_twelve_events(studio: Studio, page_of: Callable[..., Any]) -> None:
    page = page_of(studio, "lookahead.toml")
    assert page.locator('[data-box="upper"], [data-box="lower"]').count() == 2
    started(page)
    ended(page)
    page.wait_for_selector('#event-count[data-count="12"]')
    assert page.locator(".curve-panel[aria-label^=Curves]").count() == 2  # in m, and in m/s
    assert "masses at" in page.locator(".events-lane").get_attribute("aria-label")
    jumps = page.evaluate("studio.traceOf(studio.state.run.id).jumps.length")
    assert jumps == 12
    steps = page.evaluate("studio.traceOf(studio.state.run.id).steps.map((step) => step.reason)")
    assert any("masses" in reason for reason in steps)

    panel = page.locator(".curve-panel").first
    over = panel.locator(".u-over")
    over.click(position={"x": 100, "y": 20})  # sets a mark
    over.hover(position={"x": 200, "y": 20})
    until(page, "document.querySelector('.curve-panel .value').textContent.includes('Δ')")
    over.hover(position={"x": 100, "y": 20})
    page.mouse.wheel(0, -300)  # zooms in on it, in all panels
    until(page, "studio.state.window && studio.state.window[1] - studio.state.window[0] < 15")
    page.keyboard.press("0")

    page.click("#left-tab-runs")  # a second run, laid over the first and subtracted from it
    started(page)
    ended(page)
    other = page.locator(".run:not(.open)").first
    other.get_by_label("overlay").check()
    other.get_by_label("subtract").check()
    page.wait_for_selector(".curve-panel .tag:has-text('difference')")
    until(page, "studio.state.compare.length === 1")


def test_pictures_are_saved(studio: Studio, page_of: Callable[..., Any], tmp_path: Path) -> None:
    """Of the diagram, and of the curves of a run, which need not have events."""
    (studio.folder / "quiet.toml").write_text(PUSHED.replace("until = 60.0", "until = 1.0"))
    page = page_of(studio, "quiet.toml")
    started(page)
    ended(page)
    page.wait_for_selector("#event-count[data-count='0']")
    begins = {"svg": b"<svg", "png": b"\x89PNG"}
    for what, form in product(("diagram", "curves"), begins):
        page.get_by_label(f"Save a picture of the {what}").click()
        page.locator("#picture-dialog select").select_option(form)
        with page.expect_download() as saved:
            page.locator("#picture-dialog .primary").click()
        assert saved.value.suggested_filename == f"quiet_{what}.{form}"
        assert Path(saved.value.path()).read_bytes().startswith(begins[form])


def test_a_slider_changes_a_run_and_reloading_finds_it(studio: Studio, page_of: Callable[..., Any]) -> None:
    (studio.folder / "pushed.toml").write_text(PUSHED)
    page = page_of(studio, "pushed.toml")
    page.get_by_label("Pace of the run").select_option("1")
    started(page)
    slider = page.get_by_label("push during the run", exact=True)
    slider.wait_for()
    assert last(page, "mass.x") in (0.0, NONE)
    slider.fill("1")
    until(page, "studio.traceOf(studio.state.run.id).values.get('mass.x')?.at(-1) > 0.05")

    run = page.evaluate("studio.state.run.id")
    page.reload()
    ended(page, "running")
    assert page.evaluate("studio.state.run.id") == run
    until(
        page,
        "studio.traceOf(studio.state.run.id).time[0] === 0 && studio.traceOf(studio.state.run.id).last > 0.5",
    )
    page.click("#pause")
    ended(page, "paused")
    at = page.evaluate("studio.state.run.time")
    page.click("#step")
    until(page, f"studio.state.run.time > {at}")
    assert page.evaluate("studio.state.run.time") == pytest.approx(at + 0.02)
    page.click("#stop")
    ended(page, "stopped")


def test_a_unit_that_fails_is_marked(
    studio: Studio, page_of: Callable[..., Any], fmu: Callable[[str, int], Path]
) -> None:
    path = fmu("fail", 2)
    (studio.folder / path.name).write_bytes(path.read_bytes())
    (studio.folder / "failing.toml").write_text(
        f'[units.broken]\nkind = "fmu"\nfile = "{path.name}"\n'
        '[units.fine]\nstates = { x = "-x" }\n[master]\nstep = 0.1\n[run]\nuntil = 1.0\n'
    )
    page = page_of(studio, "failing.toml")
    started(page)
    ended(page, "failed")
    page.wait_for_selector('[data-box="broken"].failed')
    assert page.locator('[data-box="fine"].failed').count() == 0
    assert "broken" in page.locator(".failure").inner_text()
    middle, right = (page.locator(pane).bounding_box() for pane in (".middle", ".right-pane"))
    assert middle["x"] + middle["width"] <= right["x"]  # however long the sentence


def test_a_new_server_says_where_to_open_it(
    browser: Any, page_of: Callable[..., Any], tmp_path: Path
) -> None:
    """It has the port of the one before, but another token."""
    (tmp_path / "pushed.toml").write_text(PUSHED)
    first = Studio(tmp_path)
    page = page_of(first, "pushed.toml")
    page.get_by_label("Pace of the run").select_option("1")
    started(page)
    ended(page, "running")
    first.close()
    second = Studio(tmp_path)
    try:
        page.wait_for_selector(".toast.bad:has-text('with its token')")
    finally:
        second.close()
    page_of.complaints.clear()  # type: ignore[attr-defined]  # a browser says by itself that a server is gone
