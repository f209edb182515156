"""Reports: one page that stands for itself, true to its run, whatever became of the files since."""

from __future__ import annotations

import base64
import re
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import upbeat as up
from pages import checked
from upbeat.cli.main import main
from upbeat.report.document import experiment_of

pytest.importorskip("matplotlib")

BALL = """
name = "ball & floor <1>"
units.ball.states = { x = { der = "v", start = 1.0, unit = "m" }, v = { der = "-9.81", unit = "m/s" } }
events.hit = { when = "ball.x <= 0 and ball.v < 0", then = { "ball.v" = "-0.8*ball.v" } }
master.pace = { kind = "look_ahead", step = 0.05 }
run.until = 2.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.toml").write_text(BALL)
    assert main(["run", "ball.toml", "--set", "ball.x=2", "--out", "run.csv", "--quiet"]) == 0
    return tmp_path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take their time, and are looked at elsewhere."""
    monkeypatch.setattr("upbeat.report.document.plot", lambda *_, **__: None)
    monkeypatch.setattr("upbeat.report.document._svg", lambda figure: "<svg/>")


def sections(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_a_report_stands_for_itself(folder: Path) -> None:
    assert main(["report", "run.csv", "--html", "run.html", "--quiet"]) == 0
    page = (folder / "run.html").read_text()
    text = checked(page)
    assert sections(page) == [
        "Summary", "Signals", "Events", "Steps", "Solvers of the units", "Scenario", "How to repeat it"
    ]  # fmt: skip
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    assert len(pictures) == 4
    for picture in pictures:
        assert ET.fromstring(base64.b64decode(picture)).tag.endswith("svg")
    trace = up.read("run.csv")
    assert "ball & floor <1>" in text
    assert f"{trace['ball.x'].min():.6g}" in text
    for event in trace.events:
        assert f"{event.time:.9g}" in text
    assert "upbeat run ball.toml --set ball.x=2 --out run.csv --quiet" in text
    assert "start = 2.0" in text, "the scenario as it was run, with what the command line has set"
    assert "has changed" not in text
    assert "@page { size: A4" in page


@pytest.mark.usefixtures("quick")
def test_it_tells_what_became_of_the_scenario(folder: Path) -> None:
    (folder / "ball.toml").write_text(BALL.replace("9.81", "1.62"))
    up.write_report("run.csv", "run.html")
    text = checked((folder / "run.html").read_text())
    assert "has changed since the run; below it is as it was" in text
    assert "9.81" in text
    assert "1.62" not in text
    (folder / "ball.toml").unlink()
    up.write_report("run.csv", "run.html")
    assert "is not there any more" in checked((folder / "run.html").read_text())
    (folder / "run.columns.json").unlink()
    up.write_report("run.csv", "run.html")
    page = (folder / "run.html").read_text()
    assert "The scenario is not part of this report" in checked(page)
    assert "Signals" in sections(page), "the rest is there"


@pytest.mark.usefixtures("quick")
def test_all_parts_of_the_judgement_are_in_it(tmp_path: Path) -> None:
    mass = up.Ode({"x": "v", "v": "-x + u"}, inputs=["u"], start={"x": 1.0})
    brake = up.Function(inputs=["v"], outputs={"u": "-v"})
    links = {"mass.u": "brake.u", "brake.v": "mass.v"}
    scenario = up.Scenario({"mass": mass, "brake": brake}, links, properties={"low": "always(mass.x <= 2)"})
    found = up.trust(scenario, step=0.1, until=2.0)
    up.write_report(found.trace, tmp_path / "run.html", trust=found)
    text = checked((tmp_path / "run.html").read_text())
    assert "Property low: good" in text
    assert "Stability: stable" in text
    assert re.search(r"Unit mass: \d+ % of the time", text)
    assert "Input brake.v: moves" in text


def test_markdown_has_its_pictures_beside_it(folder: Path) -> None:
    assert main(["report", "run.csv", "--md", "run.md", "--quiet"]) == 0
    text = (folder / "run.md").read_text()
    named = re.findall(r"!\[.*?\]\(<(.*?)>\)", text)
    assert len(named) == 5
    for name in named:
        assert ET.fromstring((folder / name).read_text()).tag.endswith("svg")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    assert "ball & floor \\<1\\>" in text


@pytest.mark.usefixtures("quick")
def test_other_settings_are_drawn_over_their_work(folder: Path) -> None:
    command = ["report", "run.csv", "--html", "run.html", "--work-precision", "--seconds", "2", "--quiet"]
    assert main(command) == 0
    page = (folder / "run.html").read_text()
    checked(page)
    assert sections(page)[1] == "Which step size?"
    assert "as it is now" in page


def test_with_trust_there_are_verdicts_and_bands(folder: Path) -> None:
    command = ["report", "run.csv", "--html", "run.html", "--trust", "--seconds", "5", "--quiet"]
    assert main(command) == 0
    page = (folder / "run.html").read_text()
    text = checked(page)
    assert sections(page)[1] == "Is it right?"
    assert "bands of their estimated errors" in text
    assert "steps / 2" in text


@pytest.mark.usefixtures("quick")
def test_a_scenario_is_run_first(folder: Path) -> None:
    assert main(["report", "ball.toml", "--until", "1", "--html", "b.html", "--quiet"]) == 0
    text = checked((folder / "b.html").read_text())
    assert "t = 0 … 1 s" in text
    assert "upbeat report ball.toml --until 1" in text


@pytest.mark.usefixtures("quick")
def test_a_run_that_failed_midway_is_reported_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = BALL.replace('der = "-9.81"', 'der = "-9.81 + 0*sqrt(1 - time)"')
    (folder / "bad.toml").write_text(bad)
    assert main(["run", "bad.toml", "--out", "bad.csv", "--quiet"]) == 4
    assert main(["report", "bad.csv", "--html", "bad.html", "--quiet"]) == 0
    text = checked((folder / "bad.html").read_text())
    assert "The run failed; the results so far are kept: " in text
    assert "ball" in text.split("results so far are kept: ")[1][:200]
    assert main(["report", "bad.toml", "--html", "direct.html", "--quiet"]) == 4
    assert "The run failed" in checked((folder / "direct.html").read_text())


@pytest.mark.usefixtures("quick")
def test_units_in_python_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    unit = up.PythonFunction(lambda t, u, p: [2 * u[0]], inputs=["u"], outputs=["y"])
    trace = up.simulate(up.Scenario({"a": unit}), step=0.5, until=1.0, out=tmp_path / "a.csv")
    up.write_report(tmp_path / "a.csv", tmp_path / "a.html")
    assert "set up with Python code" in checked((tmp_path / "a.html").read_text())
    up.write_report(trace, tmp_path / "a.html")
    assert "set up with Python code" not in checked((tmp_path / "a.html").read_text())


def test_what_has_little_to_say_has_a_report_too(tmp_path: Path) -> None:
    empty = up.Trace.from_arrays([], {"a.x": []})
    words = up.Trace.from_arrays([0.0, 1.0], {"a.s": ["<b>", "|"]})
    for trace in (empty, words):
        for name in ("x.html", "x.md"):
            up.write_report(trace, tmp_path / name)
        checked((tmp_path / "x.html").read_text())


def test_wrong_use_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> str:
        capsys.readouterr()
        assert main(["report", *words]) == 3
        return capsys.readouterr().err

    assert "--html report.html" in told("run.csv")
    assert "must end in .html" in told("run.csv", "--html", "run.txt")
    assert "no file 'gone.csv'" in told("gone.csv", "--html", "x.html")
    (folder / "noise.csv").write_text("a,b\n1,2\n")
    assert "no column 'time'" in told("noise.csv", "--html", "x.html")
    (folder / "mine.html").write_text("<p>my own page")
    assert "a report by Upbeat" in told("run.csv", "--html", "mine.html")
    assert (folder / "mine.html").read_text() == "<p>my own page"
    assert "no folder" in told("run.csv", "--html", "nowhere/x.html")
    assert "has been run already" in told("run.csv", "--html", "x.html", "--until", "1")
    assert "is a folder" in told(".", "--html", "x.html")
    with pytest.raises(up.InvalidInput, match="a report is about"):
        up.write_report(3, "x.html")  # type: ignore[arg-type]
    with pytest.raises(up.FileProblem, match=r"must be \.html or \.md"):
        up.write_report("run.csv", "x.pdf")


def test_without_matplotlib_it_says_what_to_type(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["report", "run.csv", "--html", "x.html"]) == 5
    assert "upbeat[plot]" in capsys.readouterr().err
    assert not (folder / "x.html").exists()


@pytest.mark.usefixtures("quick")
def test_a_provenance_that_makes_no_sense_costs_that_part_only(folder: Path) -> None:
    trace = up.read("run.csv")
    elsewhere = {"files": {"../x": "y"}, "signals": None}
    for nonsense in ({"experiment": 3}, {"file": 3}, {"experiment": elsewhere}):
        trace.info = {"provenance": nonsense}
        up.write_report(trace, "x.html")
        assert "cannot be set up again here" in checked((folder / "x.html").read_text())


def test_files_that_a_scenario_names_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a scenario is made in a temporary folder, and read in another one of other depth."""
    example = Path(__file__).parents[2] / "examples/power_window/power_window.toml"
    up.load(example, until=0.01, out=tmp_path / "run.csv").run()
    deep = tmp_path / "some/where/else"
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    again = experiment_of(up.read(tmp_path / "run.csv"))
    assert list(again.scenario.units) == list(up.load(example).scenario.units)
