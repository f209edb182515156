"""What tests do in the page of a studio: draw wires, fill in fields, wait."""

from __future__ import annotations

import time
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

TANK = """# Water flows.
[units.tank]
states = { level = { der = "flow", unit = "m" } }   # the comment stays
inputs = { flow = { unit = "m/s" }, valve = { unit = "1" } }

[units.pump]
outputs = { flow = { value = "0.1", unit = "mm/s" }, power = { value = "2.0", unit = "W" } }

[master]
step = 0.1

[run]
until = 1.0
"""
"""A tank, and a pump that is not connected to it yet."""

PUSHED = """
[inputs]
push = { start = 0.0, unit = "N" }

[units.mass]
states = { x = { der = "v", unit = "m" }, v = { der = "(F - x - v)/m", unit = "m/s" } }
inputs = { F = { unit = "N" } }
parameters = { m = 1.0 }

[connections]
"mass.F" = "push"

[master]
step = 0.02

[run]
until = 60.0
"""
"""A mass that is pushed by an input of the scenario."""


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
    """Wait until this is true in the page, whose security policy forbids Playwright's way of waiting."""
    end = time.monotonic() + 60.0
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


def add(page: Any, what: str, name: str) -> None:
    page.keyboard.press("Escape")
    page.click(".brand")
    page.keyboard.press("a")
    page.get_by_label("Units to add").nth(0).fill(what)
    page.keyboard.press("Enter")
    page.wait_for_selector("#unit-name")
    settle(page)
    type_into(page, "Name", name)
