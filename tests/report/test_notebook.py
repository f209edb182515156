"""What notebooks show: values as sentences and HTML, pictures, progress; and the tutorial."""

from __future__ import annotations

import html
import re
import sys
import types
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from pages import checked
from upbeat.core.display import _Cell, notebook_progress

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def experiment() -> up.Experiment:
    return up.load(EXAMPLES / "two_mass/lookahead.toml")


@pytest.fixture(scope="module")
def trace(experiment: up.Experiment) -> up.Trace:
    return experiment.run()


def test_every_value_has_one_sentence_and_a_screen_of_html(
    experiment: up.Experiment, trace: up.Trace
) -> None:
    masses = up.load(EXAMPLES / "coupled_masses.toml")
    stable = up.stability_of(masses, scan=False)
    values = [experiment, experiment.scenario, trace, trace.events, experiment.plan.program, stable]
    for value in values:
        text = str(value)
        assert "\n" not in text
        assert re.fullmatch(r"[A-Z0-9].*\.", text)
        assert html.escape(text) in value._repr_html_()  # type: ignore[attr-defined]
        checked(whole := value._repr_html_())  # type: ignore[attr-defined]
        shown = checked(re.sub(r"<details><summary>.*?</details>", "", whole, flags=re.DOTALL))
        assert len(shown.splitlines()) < 60
    assert str(trace) == (
        "The run reached its stop time: t = 0 … 20 s, 263 steps, 12 events, 276 rows of 4 signals."
    )
    assert str(trace.events) == "12 events: 10 × masses, 2 × ceiling."
    assert str(stable).startswith("Stable with steps of 0.1 s")
    assert "masses" in trace.events._repr_html_()
    assert trace._repr_html_().count("<polyline") == 4


def test_large_things_still_fit_on_a_screen() -> None:
    unit = up.Ode({"x": "-x + u"}, inputs=["u"])
    many = up.Scenario({f"u{k}": unit for k in range(300)}, {f"u{k}.u": f"u{k - 1}.x" for k in range(1, 300)})
    assert "… and 288 more" in checked(many._repr_html_())
    trace = up.Trace.from_arrays([0.0, 1.0], {f"s{k}.x": [0.0, float("nan")] for k in range(100)})
    assert "… and 88 signals more" in checked(trace._repr_html_())
    empty = up.Trace.from_arrays([], {"a.x": []})
    assert "nothing was recorded" in checked(empty._repr_html_())
    odd = up.Trace.from_arrays([0.0, 1.0], {"<b>&": [1.0, 2.0]}, {"<b>&": "<i>"})
    assert "<b>&" in checked(odd._repr_html_())


def test_pictures_show_themselves(trace: up.Trace) -> None:
    pytest.importorskip("matplotlib")
    data, size = up.plot(trace, "*.x")._repr_png_()
    assert data.startswith(b"\x89PNG")
    assert size["width"] == round(7.2 * 96)


class Shell:
    kernel = object()


class Shown(list[dict[str, str]]):
    """What IPython's display was given; it is its own handle."""

    def __call__(self, data: dict[str, str], **more: Any) -> Shown:
        self.append(data)
        return self

    def update(self, data: dict[str, str], **more: Any) -> None:
        self.append(data)


def test_progress_is_shown_in_notebooks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    python, inside = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    python.get_ipython = lambda: None  # type: ignore[attr-defined]
    inside.display = shown  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", inside)
    with notebook_progress(0.0, 1.0) as progress:
        assert progress is None, "IPython is there, but this is no notebook"
    python.get_ipython = Shell  # type: ignore[attr-defined]
    monkeypatch.setattr("upbeat.core.display._REDRAW", 0.0)
    unit = up.Ode({"x": "-x"}, start={"x": 1.0})
    up.simulate(up.Scenario({"a": unit}), pace=0.1, until=1.0)
    assert shown[-1]["text/plain"].startswith("100 %")
    assert all("<pre" in checked_line["text/html"] for checked_line in shown)
    del shown[:]
    up.simulate(up.Scenario({"a": unit}), pace=0.1, until=1.0, report=lambda t: None)
    assert not shown, "whoever has a report of their own needs no other"


def test_what_is_over_in_a_moment_shows_no_progress() -> None:
    shown = Shown()
    cell = _Cell(shown)
    cell.write("\r\x1b[K100 %  t = 1 of 1 s\n")
    assert not shown


def test_the_tutorial_runs_in_a_notebook_as_it_stands() -> None:
    pytest.importorskip("matplotlib")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(EXAMPLES / "tutorial.ipynb", 4)
    nbformat.validate(book)
    assert not any(cell.get("outputs") for cell in book.cells), "kept without outputs"
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    outputs = [(cell.source, out) for cell in book.cells for out in cell.get("outputs", [])]
    assert not [out for _, out in outputs if out.output_type == "error" or out.get("name") == "stderr"]
    for source, out in outputs:
        if source.splitlines()[-1].startswith("up.plot(") and out.output_type == "execute_result":
            assert "image/png" in out.data
    first = next(out.data["text/html"] for _, out in outputs if "text/html" in out.get("data", {}))
    drawing = re.search(r"<svg.*</svg>", first, re.DOTALL)
    assert drawing is not None
    assert ET.fromstring(drawing[0]).tag.endswith("svg")
    printed = "".join(out.get("text", "") for _, out in outputs)
    errors = [float(number) for number in re.findall(r"^0\.\d+ +([\d.]+)", printed, re.MULTILINE)]
    ratios = [a / b for a, b in pairwise(errors)]
    assert len(ratios) == 3
    assert all(1.7 < ratio < 2.1 for ratio in ratios), "as its text says, halving the step halves the error"
