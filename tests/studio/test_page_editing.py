"""Editing a scenario in the page of the studio, in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from studio_server import Studio
from upbeat.cli.main import main

README = Path(__file__).parents[2] / "README.md"


def center(page: Any, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def hold(page: Any, source: str, target: str) -> None:
    """Draw a wire from an output to an input, and do not let go."""
    page.wait_for_selector(f'[data-side=out][data-pin="{source}"]')
    page.mouse.move(*center(page, f'[data-side=out][data-pin="{source}"] circle'))
    page.mouse.down()
    page.mouse.move(*center(page, f'[data-side=in][data-pin="{target}"] circle'), steps=6)
    page.wait_for_selector(f'[data-pin="{target}"].allowed, [data-pin="{target}"].refused')
    x, y = center(page, f'[data-side=in][data-pin="{target}"] circle')
    page.mouse.move(x + 1, y)


def until(page: Any, condition: str) -> None:
    """Wait until this is true in the page. (Its security policy forbids Playwright's way of waiting for that.)"""
    end = time.monotonic() + 20.0
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def settle(page: Any) -> None:
    """Wait until the diagram shows the text as it is."""
    page.wait_for_timeout(10)
    until(page, "!studio.state.viewing && !studio.state.editing")


def text(page: Any) -> str:
    return str(page.evaluate("studio.state.text"))


def type_into(page: Any, label: str, value: str) -> None:
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.press("Enter")
    settle(page)


def ran(file: Path, folder: Path) -> Any:
    """What `upbeat run` makes of a file."""
    assert main(["run", str(file), "--out", str(folder / f"{file.stem}.csv"), "--quiet"]) == 0
    return up.read(folder / f"{file.stem}.csv")


def add(page: Any, what: str, name: str) -> None:
    page.keyboard.press("Escape")
    page.click(".brand")
    page.keyboard.press("a")
    page.get_by_label("Units to add").nth(0).fill(what)
    page.keyboard.press("Enter")
    page.wait_for_selector("#unit-name")
    settle(page)
    type_into(page, "Name", name)


def test_the_scenario_of_the_readme_from_nothing(
    studio: Studio, page_of: Callable[..., Any], tmp_path: Path
) -> None:
    page = page_of(studio)
    page.click("#new-file")
    page.get_by_label("Name of its file").fill("damped.toml")
    page.keyboard.press("Enter")
    page.wait_for_selector(".empty-diagram")

    add(page, "differential", "mass")
    type_into(page, "derivative of x", "v")
    type_into(page, "New state", "v = (F - x)/m")
    type_into(page, "start of x", "1.0")
    type_into(page, "New input", "F")
    page.click('[aria-label="Remove u"]')
    settle(page)
    type_into(page, "New parameter", "m = 2.0")
    type_into(page, "New output", "v")

    add(page, "formula", "damper")
    type_into(page, "New input", "v")
    type_into(page, "New output", "F = -d*v")
    type_into(page, "New parameter", "d = 0.4")
    for name in ("Remove u", "Remove y", "Remove parameter k"):
        page.click(f'[aria-label="{name}"]')
        settle(page)

    hold(page, "mass.v", "damper.v")
    page.mouse.up()
    settle(page)
    page.focus('[data-box="damper"]')
    page.keyboard.press("c")
    page.get_by_label("Outputs").nth(0).fill("damper.F")
    page.keyboard.press("Enter")
    page.get_by_label("Inputs").nth(0).fill("mass.F")
    page.wait_for_selector(".offer:has-text('mass.F')")
    page.keyboard.press("Enter")
    until(page, "studio.state.view.connections.length === 2")

    page.keyboard.press("Escape")
    page.locator("svg.diagram").click(position={"x": 40, "y": 300})
    page.get_by_label("coupling").select_option("jacobi")
    settle(page)
    type_into(page, "Communication step", "0.01")
    type_into(page, "Ends at", "20.0")
    page.keyboard.press("Control+s")
    page.wait_for_selector("#save:disabled")

    written = re.search(r"```toml\n# damped\.toml\n(.*?)```", README.read_text(), re.DOTALL)
    assert written
    (tmp_path / "readme.toml").write_text(written[1])
    made, expected = (ran(file, tmp_path) for file in (studio.folder / "damped.toml", tmp_path / "readme.toml"))
    assert len(made.time) == len(expected.time) == 2001
    for signal in ("mass.x", "mass.v", "damper.F"):
        np.testing.assert_array_equal(made[signal], expected[signal])
