"""Take the pictures of docs/studio.md: `upbeat studio` in a real browser, doing what its tests do."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from studio_page import BROWSERS, PUSHED, TANK, hold, settle, until  # noqa: E402
from studio_server import Studio  # noqa: E402

DOCS = ROOT / "docs"
LARGEST = 300_000


@contextmanager
def project() -> Iterator[Studio]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "plant"
        folder.mkdir()
        for example in ("two_mass/lookahead.toml", "two_mass/fixed.toml", "coupled_masses.toml", "tank.toml"):
            shutil.copy(ROOT / "examples" / example, folder)
        (folder / "filling.toml").write_text(TANK + '\n[connections]\ntank.flow = "pump.flow"\n')
        (folder / "pushed.toml").write_text(PUSHED)
        studio = Studio(folder)
        try:
            yield studio
        finally:
            studio.close()


def opened(studio: Studio, browser: Any, file: str, scheme: str = "light") -> Any:
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, device_scale_factor=1.25, color_scheme=scheme
    )
    page = context.new_page()
    page.goto(studio.address)
    page.goto(f"{studio.base}/#file={file}")
    page.reload()
    page.wait_for_selector("[data-box]")
    settle(page)
    return page


def ran(page: Any) -> None:
    before = page.evaluate("studio.state.run?.id ?? ''")
    page.click("#run")
    until(
        page, f"studio.state.run && studio.state.run.id !== '{before}' && studio.state.run.state === 'ended'"
    )
    page.wait_for_timeout(400)


def overview(studio: Studio, browser: Any) -> Any:
    """Two masses and their twelve events."""
    page = opened(studio, browser, "lookahead.toml")
    ran(page)
    page.click('[data-box="upper"] .title')
    page.mouse.move(700, 540)
    return page


def connecting(studio: Studio, browser: Any) -> Any:
    """A wire that does not fit."""
    page = opened(studio, browser, "filling.toml")
    page.click("#right-tab-text")
    page.wait_for_timeout(200)
    hold(page, "pump.power", "tank.valve")
    page.wait_for_selector(".wire-hint.refused")
    return page


def live(studio: Studio, browser: Any) -> Any:
    """A run in real time that is pushed by a slider."""
    page = opened(studio, browser, "pushed.toml", "dark")
    page.get_by_label("Pace of the run").select_option("5")
    page.click("#run")
    slider = page.get_by_label("push during the run", exact=True)
    slider.wait_for()
    for force, after in (("1", 3.0), ("-0.6", 12.0), ("0.4", 22.0), ("0.9", 31.0)):
        until(page, f"studio.state.run.time > {after}")
        slider.fill(force)
    until(page, "studio.state.run.time > 40")
    page.click("#pause")
    until(page, "studio.state.run.state === 'paused'")
    page.mouse.move(700, 300)
    page.wait_for_timeout(300)
    return page


def comparing(studio: Studio, browser: Any) -> Any:
    """Fixed steps, laid over steps that end at events."""
    page = opened(studio, browser, "lookahead.toml")
    ran(page)
    page.goto(f"{studio.base}/#file=fixed.toml")
    page.reload()
    page.wait_for_selector("[data-box]")
    page.click("#left-tab-runs")
    ran(page)
    page.locator(".run:not(.open)").first.get_by_label("overlay").check()
    page.evaluate("studio.set({ sizes: { ...studio.state.sizes, bottom: 440, left: 208 }, window: [0, 8] })")
    page.wait_for_timeout(800)
    return page


def judging(studio: Studio, browser: Any) -> Any:
    """Whether a coupling is stable."""
    page = opened(studio, browser, "coupled_masses.toml", "light")
    page.click("#bottom-tab-judge")
    page.click(".question:has-text('Stability') >> nth=0")
    page.wait_for_selector(".answer .picture img", timeout=60_000)
    page.wait_for_timeout(300)
    return page


PICTURES = {
    "studio": overview,
    "studio-connect": connecting,
    "studio-live": live,
    "studio-compare": comparing,
    "studio-judge": judging,
}


def main(names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit("there is no Chromium: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright, project() as studio:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, take in PICTURES.items():
            if names and name not in names:
                continue
            page = take(studio, browser)
            file = DOCS / f"{name}.png"
            page.screenshot(path=file)
            page.context.close()
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1e3:.0f} kB")
            if file.stat().st_size > LARGEST:
                sys.exit(f"{file.name} is larger than {LARGEST / 1e3:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
