"""Pictures of stability say what was found: decided or not, everywhere or near a point."""

from __future__ import annotations

from typing import Any

import pytest

import upbeat as up
from upbeat.report.stability import BAD, DOUBT, GOOD

pytest.importorskip("matplotlib")


def drawn(states: dict[str, str], **settings: Any) -> Any:
    found = up.stability_of(up.Scenario({"a": up.Ode(states)}), **{"pace": 0.1, **settings})
    return up.plot_stability(found, title="named")


def marks(axis: Any) -> dict[str, tuple[str, int]]:
    """By the words of the legend: the colour, and how many eigenvalues have it."""
    named = [line for line in axis.lines if not line.get_label().startswith("_")]
    return {line.get_label(): (line.get_color(), len(line.get_xdata())) for line in named}


def test_each_verdict_has_a_colour_of_its_own() -> None:
    for rule, colour, words in (
        ("-x", GOOD, "decays"),
        ("x", BAD, "grows"),
        ("0*x", DOUBT, "too near to 1"),
    ):
        figure = drawn({"x": rule})
        assert marks(figure.axes[0]) == {words: (colour, 1)}
        dashed = next(line for line in figure.axes[1].lines if line.get_linestyle() == "--")
        assert dashed.get_color() == colour


def test_a_free_motion_is_told_from_one_that_decays() -> None:
    figure = drawn({"x": "v", "v": "-v"})
    assert marks(figure.axes[0]) == {"decays": (GOOD, 1), "too near to 1": (DOUBT, 1)}
    assert figure.axes[0].get_title(loc="left").endswith("undecided")


def test_a_local_verdict_is_labelled_with_its_point() -> None:
    title = drawn({"x": "-sin(x)"}, scan=False).axes[0].get_title(loc="left")
    assert title == "Eigenvalues of a step of 0.1 s: locally stable\nfor small motions around the start"
    assert "around rest" in drawn({"x": "-sin(x)"}, scan=False, at="rest").axes[0].get_title(loc="left")
    assert "local" not in drawn({"x": "-x"}, scan=False).axes[0].get_title(loc="left")


def test_a_map_says_what_its_colours_are_whatever_its_name() -> None:
    for rule, word in (("-k*x", "stable"), ("-k*sin(x)", "locally stable")):
        unit = up.Ode({"x": rule}, parameters={"k": 1.0})
        grid = up.stability_map(up.Scenario({"a": unit}), "a.k", [1.0, 2.0], [0.1, 0.2])
        figure = up.plot_map(grid, title="named")
        assert figure.axes[0].get_title(loc="left") == f"Spectral radius: {word} below 1"
        assert figure.axes[1].get_ylabel() == "spectral radius"
        assert figure.get_suptitle() == "named"
