"""A browser that looks at a studio, for the tests of its page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from studio_page import BROWSERS
from studio_server import Studio

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests; without one they are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Studio]:
    """A studio for the tests of a file, in a folder with examples."""
    folder = tmp_path_factory.mktemp("project")
    for example in ("two_mass/lookahead.toml", "two_mass/fixed.toml", "driven.toml", "driven.csv"):
        shutil.copy(EXAMPLES / example, folder)
    started = Studio(folder)
    yield started
    started.close()


@pytest.fixture
def page_of(browser: Any) -> Iterator[Callable[..., Any]]:
    """``page_of(studio, "two.toml")``: a page that shows a file. What it complains about fails the test."""
    contexts, complaints = [], []

    def opened(studio: Studio, file: str | None = None, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **settings)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(studio.address)
        if file is not None:
            page.goto(f"{studio.base}/#file={file}")
            page.reload()
            page.wait_for_selector("[data-box]")
        return page

    opened.complaints = complaints  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert not complaints
