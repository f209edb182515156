"""Editing a scenario in the page of the studio, in a real browser."""

from __future__ import annotations

import base64
import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from studio_page import PUSHED, TANK, add, center, hold, settle, text, type_into, until
from studio_server import Studio
from upbeat.cli.main import main

README = Path(__file__).parents[2] / "README.md"


def ran(file: Path, folder: Path) -> Any:
    """What `upbeat run` makes of a file."""
    assert main(["run", str(file), "--out", str(folder / f"{file.stem}.csv"), "--quiet"]) == 0
    return up.read(folder / f"{file.stem}.csv")


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
    made, expected = (
        ran(file, tmp_path) for file in (studio.folder / "damped.toml", tmp_path / "readme.toml")
    )
    assert len(made.time) == len(expected.time) == 2001
    for signal in ("mass.x", "mass.v", "damper.F"):
        np.testing.assert_array_equal(made[signal], expected[signal])


def test_a_wire_that_does_not_fit_is_refused(studio: Studio, page_of: Callable[..., Any]) -> None:
    (studio.folder / "tank.toml").write_text(TANK)
    page = page_of(studio, "tank.toml")
    hold(page, "pump.power", "tank.flow")
    refused = page.locator(".wire-hint.refused")
    refused.wait_for()
    assert "W" in refused.inner_text()
    assert "m/s" in refused.inner_text()
    page.mouse.up()
    settle(page)
    assert text(page) == TANK

    late: list[Any] = []
    page.route("**/api/targets", lambda route: late.append(route))  # noqa: PLW0108  # it is given attributes
    page.mouse.move(*center(page, '[data-side=out][data-pin="pump.power"] circle'))
    page.mouse.down()
    page.mouse.move(*center(page, '[data-side=in][data-pin="tank.flow"] circle'), steps=3)
    page.mouse.up()  # before anybody has said whether it fits
    page.wait_for_timeout(10)
    late[0].continue_()
    page.wait_for_selector(".toast.bad:has-text('m/s')")
    assert text(page) == TANK
    page.unroute("**/api/targets")

    hold(page, "pump.flow", "tank.flow")
    page.locator(".wire-hint.allowed").wait_for()
    page.mouse.up()
    until(page, "studio.state.view.connections.length === 1")
    connected = text(page)
    assert "# the comment stays" in connected
    page.keyboard.press("Control+z")
    settle(page)
    assert text(page) == TANK
    page.keyboard.press("Control+y")
    settle(page)
    assert text(page) == connected


def test_text_and_diagram_are_one(studio: Studio, page_of: Callable[..., Any]) -> None:
    (studio.folder / "both.toml").write_text(TANK)
    page = page_of(studio, "both.toml")
    page.click("#right-tab-text")
    editor = page.locator(".text-editor textarea")
    editor.fill(TANK.replace("tank", "basin") + '[connections]\nbasin.flow = "pmp.flow"\n')
    fix = page.locator(".problem-strip.error .fix").first
    fix.wait_for()
    assert "Did you mean 'pump'?" in page.locator(".problem-strip").inner_text()
    fix.click()
    until(page, "studio.state.view.problems.every((problem) => problem.severity !== 'error')")
    assert 'basin.flow = "pump.flow"' in text(page)
    assert page.locator('[data-box="basin"] .alarm').count() == 0
    editor.fill(text(page).replace('"0.1"', '"0.1*"'))
    page.wait_for_selector('[data-box="pump"] .alarm')  # it is wrong, and still there
    assert page.locator("[data-wire]").count() == 1
    page.keyboard.press("Control+z")
    settle(page)
    page.locator('[data-box="basin"]').focus()
    page.keyboard.press("Shift+ArrowRight")  # moves it, which is kept beside the file
    until(page, "'basin' in studio.state.places")
    settle(page)
    moved = page.evaluate("studio.state.diagram.boxes.find((box) => box.key === 'basin').x")
    page.reload()  # what was not saved is still there
    page.wait_for_selector('[data-box="basin"]')
    settle(page)
    assert page.evaluate("studio.state.diagram.boxes.find((box) => box.key === 'basin').x") == moved
    assert (studio.folder / "both.toml").read_text() == TANK


def test_who_saves_last_is_told(studio: Studio, page_of: Callable[..., Any]) -> None:
    file = studio.folder / "shared.toml"
    file.write_text(TANK)
    page = page_of(studio, "shared.toml")
    page.click('[data-box="tank"] .title')
    type_into(page, "derivative of level", "2*flow")
    file.write_text(TANK.replace("until = 1.0", "until = 3.0"))
    page.keyboard.press("Control+s")
    page.wait_for_selector("#conflict-dialog")
    assert page.locator("#conflict-dialog .changed").count() >= 2
    page.on("dialog", lambda dialog: dialog.accept())
    assert file.read_text() == TANK.replace("until = 1.0", "until = 3.0")
    page.click("#keep-mine")
    page.wait_for_selector("#save:disabled")
    assert file.read_text() == TANK.replace('der = "flow"', 'der = "2*flow"')
    # The browser reports the answer 409 by itself; it is what this test is about.
    page_of.complaints[:] = [said for said in page_of.complaints if "409" not in said]  # type: ignore[attr-defined]


def test_what_another_program_has_saved_is_shown(studio: Studio, page_of: Callable[..., Any]) -> None:
    file = studio.folder / "outside.toml"
    file.write_text(TANK)
    page = page_of(studio, "outside.toml")
    longer = TANK.replace("until = 1.0", "until = 3.0")
    file.write_text(longer)
    page.evaluate("dispatchEvent(new Event('focus'))")
    until(page, "studio.state.view.run.until === 3")
    assert text(page) == longer
    page.click('[data-box="tank"] .title')
    type_into(page, "derivative of level", "2*flow")
    file.write_text(TANK)
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.wait_for_selector(".toast:has-text('Saving shows both')")
    assert text(page) == longer.replace('"flow"', '"2*flow"')


def test_an_expression_is_completed_and_checked(studio: Studio, page_of: Callable[..., Any]) -> None:
    (studio.folder / "words.toml").write_text(TANK)
    page = page_of(studio, "words.toml")
    page.click('[data-box="tank"] .title')
    field = page.get_by_label("derivative of level")
    field.fill("fl")
    page.wait_for_selector(".completions li:has-text('flow')")
    field.press("Tab")
    assert field.input_value() == "flow"
    field.fill("flow +")
    page.wait_for_selector(".field-problem")
    field.press("Escape")
    field.press("Escape")
    assert field.input_value() == "flow"


def test_the_equations_of_an_array_stay_an_array(studio: Studio, page_of: Callable[..., Any]) -> None:
    rod = '[units.rod]\nstates = { T = { der = ["2 - T[0]", "T[0] - T[1]"], size = 2 } }\n'
    (studio.folder / "rod.toml").write_text(rod + "[master]\nstep = 0.1\n[run]\nuntil = 1.0\n")
    page = page_of(studio, "rod.toml")
    page.click('[data-box="rod"] .title')
    type_into(page, "derivative of T[1]", "2*T[0] - T[1]")
    assert text(page) == (studio.folder / "rod.toml").read_text().replace('"T[0] -', '"2*T[0] -')
    assert not page.evaluate("studio.state.view.problems.length")


def test_undo_where_something_was_typed(studio: Studio, page_of: Callable[..., Any]) -> None:
    """In a field the letters come first; once it is settled, the scenario does."""
    (studio.folder / "again.toml").write_text(TANK)
    page = page_of(studio, "again.toml")
    page.get_by_label("Ends at", exact=True).fill("7.0")
    page.keyboard.press("Control+z")
    settle(page)
    assert text(page) == TANK
    page.get_by_label("coupling").select_option("jacobi")
    settle(page)
    type_into(page, "Ends at", "5.0")
    assert "until = 5.0" in text(page)
    page.keyboard.press("Control+z")
    settle(page)
    page.click(".brand")
    assert "until = 1.0" in text(page)
    assert page.get_by_label("Ends at", exact=True).input_value() == "1"
    page.click('[data-box="tank"] .title')
    type_into(page, "derivative of level", "2*flow")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")  # and the coupling
    page.click(".brand")
    settle(page)
    assert text(page) == TANK


def test_an_fmu_is_dropped_in(
    studio: Studio, page_of: Callable[..., Any], fmu: Callable[[str, int], Path]
) -> None:
    page = page_of(studio, "fixed.toml")
    content = base64.b64encode(fmu("gain", 2).read_bytes()).decode()
    page.evaluate(
        """(content) => {
            const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
            const data = new DataTransfer();
            data.items.add(new File([bytes], "gain.fmu"));
            const how = { dataTransfer: data, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent("drop", how));
        }""",
        content,
    )
    page.wait_for_selector("#probe-dialog .report")
    page.click("#add-fmu")
    page.wait_for_selector('[data-box="gain"]')
    assert 'file = "gain.fmu"' in text(page)
    assert (studio.folder / "gain.fmu").is_file()


def test_what_is_typed_counts_without_enter(studio: Studio, page_of: Callable[..., Any]) -> None:
    """When it is saved, run, or left for another file, however late the server makes the edit."""
    (studio.folder / "typed.toml").write_text(PUSHED.replace("until = 60.0", "until = 0.1"))
    page = page_of(studio, "typed.toml")
    page.route("**/api/edit", lambda route: (time.sleep(0.3), route.continue_()))

    def type_mass(value: str) -> None:
        page.click('[data-box="mass"] .title')
        page.get_by_label("mass.m", exact=True).fill(value)

    type_mass("2.5")
    page.keyboard.press("Control+s")
    page.wait_for_selector("#save:disabled")
    until(page, "studio.state.text.includes('m = 2.5') && studio.state.text === studio.state.saved.text")
    assert "m = 2.5 " in (studio.folder / "typed.toml").read_text()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "mass.m"

    type_mass("3.5")
    page.click("#run")
    until(page, "studio.state.run?.scenario?.includes('m = 3.5 ')")

    type_mass("4.5")
    page.click(".file:has-text('driven.toml')")
    until(page, "studio.state.path === 'driven.toml' && !studio.state.editing")
    assert text(page) == (studio.folder / "driven.toml").read_text()
    page.click(".file:has-text('typed.toml')")
    until(page, "studio.state.path === 'typed.toml' && studio.state.text.includes('m = 4.5 ')")


def test_whoever_types_on_is_not_disturbed(studio: Studio, page_of: Callable[..., Any]) -> None:
    """A field shows what was typed while the server is at it, and not the old value in between."""
    (studio.folder / "typed-on.toml").write_text(PUSHED)
    page = page_of(studio, "typed-on.toml")
    page.route("**/api/view", lambda route: (time.sleep(0.5), route.continue_()))
    page.click('[data-box="mass"] .title')
    field = page.get_by_label("mass.m", exact=True)
    field.fill("2.5")
    field.press("Enter")
    until(page, "studio.state.viewing && studio.state.text.includes('m = 2.5')")
    assert field.input_value() == "2.5"
    settle(page)
    page.keyboard.type("7")
    field.press("Enter")
    settle(page)
    assert field.input_value() == "2.57"
    assert "m = 2.57" in text(page)


def test_parameters_and_inputs_get_units_of_measure(studio: Studio, page_of: Callable[..., Any]) -> None:
    (studio.folder / "measured.toml").write_text(PUSHED)
    page = page_of(studio, "measured.toml")
    page.click('[data-box="mass"] .title')
    type_into(page, "Unit of measure of m", "kg")
    type_into(page, "mass.m", "3")
    page.click('[data-box="input push"] .title')
    type_into(page, "Unit of measure of push", "kN")
    found = tomllib.loads(text(page))
    assert found["units"]["mass"]["parameters"] == {"m": {"value": 3.0, "unit": "kg"}}
    assert found["inputs"] == {"push": {"start": 0.0, "unit": "kN"}}
    assert not [one for one in page.evaluate("studio.state.view.problems") if one["severity"] == "error"]


def test_inside_a_nested_scenario_its_own_text_is_shown(studio: Studio, page_of: Callable[..., Any]) -> None:
    inner = '[inputs]\nu = 0.0\n[units.lag]\nstates = { y = "u - y" }\ninputs = ["u"]\n'
    inner += '[connections]\n"lag.u" = "u"\n'
    (studio.folder / "inner.toml").write_text(inner)  # with a problem: it has no step
    (studio.folder / "outer.toml").write_text(
        '[units.box]\nscenario = "inner.toml"\n[master]\nstep = 0.1\n[run]\nuntil = 2.0\n'
    )
    page = page_of(studio, "outer.toml")
    page.dblclick('[data-box="box"] .title')
    page.wait_for_selector('[data-box="lag"]')
    page.click("#right-tab-text")
    assert page.locator(".text-editor textarea").input_value() == inner
    assert page.get_by_label("Run until, in seconds").get_attribute("placeholder") == "2"


def test_what_is_added_is_in_the_picture(studio: Studio, page_of: Callable[..., Any]) -> None:
    """Also where somebody has moved about in the diagram."""
    (studio.folder / "moved.toml").write_text(PUSHED)
    page = page_of(studio, "moved.toml")
    frame = page.locator("svg.diagram").bounding_box()
    page.mouse.move(frame["x"] + 30, frame["y"] + 300)
    page.mouse.down()
    page.mouse.move(frame["x"] + 300, frame["y"] + 520, steps=4)
    page.mouse.up()
    for name in ("one", "two"):
        add(page, "pid", name)
        box = page.locator(f'[data-box="{name}"] .body').bounding_box()
        assert frame["x"] <= box["x"] <= box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert frame["y"] <= box["y"] <= box["y"] + box["height"] <= frame["y"] + frame["height"]


def test_every_choice_of_a_master_is_one_that_runs(studio: Studio, page_of: Callable[..., Any]) -> None:
    """All but constraints, which nobody can guess; and the step stays what it was."""
    page = page_of(studio, "lookahead.toml")
    before = text(page)
    for what in ("coupling", "pace", "inputs", "loops"):
        kinds = (
            page.get_by_label(what, exact=True)
            .locator("option")
            .evaluate_all("(all) => all.map((one) => one.value)")
        )
        assert len(kinds) > 3
        for kind in kinds:
            page.get_by_label(what, exact=True).select_option(kind)
            settle(page)
            view = page.evaluate("studio.state.view")
            wrong = [one["message"] for one in view["problems"] if one["severity"] == "error"]
            assert not wrong or (kind == "constrained" and "constraints" in wrong[0]), (what, kind, wrong)
            if kind not in ("constrained", "event_driven", "error_control"):
                assert "0.08" in text(page)[text(page).index("[master]") :], (what, kind)
            page.evaluate("(text) => studio.set({ text })", before)
            page.keyboard.press("Control+z")
            settle(page)
    assert text(page) == before
