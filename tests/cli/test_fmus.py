"""FMUs on the command line and in scenario files."""

from __future__ import annotations

import csv
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import fmpy
import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.engine.formats.fmus import fmu_experiment, nice_step, talking, unit_names

Made = Callable[[str, int], Path]
Said = pytest.CaptureFixture[str]


def call(capsys: Said, *words: object) -> tuple[int, str, str]:
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def rows(path: Path) -> list[dict[str, float]]:
    with path.open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


@pytest.fixture
def two(fmu: Made, tmp_path: Path) -> tuple[Path, Path]:
    """a.fmu, which is linear, and b.fmu, which is a gain."""
    a, b = tmp_path / "a.fmu", tmp_path / "b.fmu"
    a.write_bytes(fmu("linear", 2).read_bytes())
    b.write_bytes(fmu("gain", 3).read_bytes())
    return a, b


@pytest.mark.parametrize("version", [2, 3])
def test_run_one(fmu: Made, version: int, engine: str, tmp_path: Path, capsys: Said) -> None:
    out, path = tmp_path / "r.csv", fmu("linear", version)
    name = path.stem
    code, said, noted = call(
        capsys, "run", path, "--until", 3, "--step", 0.01, "--out", out, "--engine", engine,
        "--set", f"{name}.u=1",
    )  # fmt: skip
    assert code == 0, noted
    found = rows(out)
    theirs = fmpy.simulate_fmu(
        str(path), start_values={"u": 1.0}, stop_time=3.0, output_interval=0.01, fmi_type="CoSimulation"
    )
    assert len(found) == 301
    for row, (t, y) in zip(found, theirs, strict=True):
        assert row["time"] == pytest.approx(t, rel=1e-12)
        assert row[f"{name}.y"] == pytest.approx(y, rel=1e-12)
    assert "The run reached its stop time" in said
    assert "upbeat: " not in noted  # nothing was left open


def test_the_default_experiment(two: tuple[Path, Path], capsys: Said) -> None:
    """These say: until 2 in steps of 0.01."""
    code, said, noted = call(capsys, "run", two[0])
    assert code == 0
    assert "t = 0 … 2 s, 200 steps" in said
    assert "until = 2, as a says; step = 0.01, as a says" in noted
    code, said, noted = call(capsys, "run", two[0], "--until", 1, "--quiet", "--json")
    assert json.loads(said)["steps"] == 100
    assert noted == ""


@pytest.mark.parametrize("text", ["b.u=a.y", "a.y=b.u", " b.u = a.y "])
def test_coupled(two: tuple[Path, Path], text: str, tmp_path: Path, capsys: Said) -> None:
    """y of a is 3 e^-2t, and b doubles it; both ways of writing a connection mean the same."""
    out = tmp_path / "r.csv"
    code, _, noted = call(capsys, "run", *two, "--connect", text, "--until", 1, "--out", out)
    assert code == 0, noted
    last = rows(out)[-1]
    assert last["a.y"] == pytest.approx(3 * math.exp(-2), rel=1e-8)
    assert last["b.y"] == pytest.approx(2 * last["a.y"], rel=1e-12)


def test_names_that_are_no_identifiers(fmu: Made) -> None:
    """An output called der(x) is connected as it is written, without backticks."""
    paths = [fmu("linear", 2), fmu("linear", 3)]
    a, b = (path.stem for path in paths)
    chosen = fmu_experiment(
        paths, {"until": 1.0}, connect=[f"{b}.u={a}.der(x)"], options={"locals": ["der*"]}
    )
    trace = chosen.experiment.run()
    assert trace[f"{a}.der(x)"][-1] == pytest.approx(-2 * math.exp(-2), rel=1e-8)
    assert [c.target for c in chosen.experiment.scenario.connections] == [f"{b}.u"]


def test_options_may_stand_between_files(two: tuple[Path, Path], capsys: Said) -> None:
    code, said, _ = call(capsys, "run", two[0], "--until", 1, two[1], "--connect", "b.u=a.y", "--json")
    assert code == 0
    assert set(json.loads(said)["final"]) == {"a.y", "b.y"}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--connect", "b.u=a.z"], "unit 'a' has no output 'z'"),
        (["--connect", "c.u=a.y"], "there is no unit 'c'"),
        (["--connect", "b.y=a.y"], "'b.y' is an output"),
        (["--connect", "b.u=a.u"], "'a.u' is an input, and connections read outputs"),
        (["--connect", "b.u"], "'b.u' is no connection"),
        (["--connect", "b.u=a.y", "--connect", "b.u=2*a.y"], "has two sources"),
        (["--set", "a.kk=3"], "[--set a.kk] unit 'a': the FMU has no variable 'kk' to set"),
        (["--set", "a.y=3"], "'y' cannot be set: the FMU calculates it"),
        (["--interface", "model-exchange", "--solver", "rk5"], "there is no solver 'rk5'"),
        (["--solver", "rk4"], "brings its own solver"),
        (["--until", "-1"], "must lie after the start time"),
    ],
)
def test_what_is_wrong_is_said(two: tuple[Path, Path], words: list[str], what: str, capsys: Said) -> None:
    code, _, noted = call(capsys, "run", *two, *words)
    assert code == 3
    assert what in noted
    assert "Traceback" not in noted


def test_unit_mismatch(fmu: Made, tmp_path: Path, capsys: Said) -> None:
    """A height in m does not go into an input in 1/s; the unit is put in by hand here."""
    source, other = fmu("gain", 3), tmp_path / "b.fmu"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            if entry == "modelDescription.xml":
                data = data.replace(b'name="u"', b'name="u" unit="1/s"')
            new.writestr(entry, data)
    ball = tmp_path / "a.fmu"
    ball.write_bytes(fmu("ball", 3).read_bytes())
    code, _, noted = call(capsys, "check", ball, other, "--connect", "b.u=a.h")
    assert code == 3
    assert "'m' and '1/s' do not measure the same thing" in noted


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "there is no such file"),
        (b"no zip", "is not a zip archive"),
        (b"", "is not a zip archive"),
        ({"README": "hello"}, "has no modelDescription.xml in it"),
        ({"modelDescription.xml": "<x"}, "modelDescription.xml"),
        ({"modelDescription.xml": "<x/>"}, "is not a model description"),
        ({"../evil": "x"}, "leads out of the archive"),
    ],
)
def test_bad_files(content: object, what: str, tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "bad.fmu"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
    for command in ("run", "check", "explain"):
        code, _, noted = call(capsys, command, path)
        assert code == 3
        assert what in noted


def test_no_library_for_this_machine(fmu: Made, tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "far.fmu"
    with zipfile.ZipFile(fmu("gain", 2)) as old, zipfile.ZipFile(path, "w") as new:
        new.writestr("modelDescription.xml", old.read("modelDescription.xml"))
        new.writestr("binaries/win13/gain.dll", b"x")
    code, _, noted = call(capsys, "check", path)
    assert code == 3
    assert "it cannot run here: the FMU has no library for this machine" in noted
    code, _, noted = call(capsys, "run", path)
    assert code == 4
    assert "no library for this machine" in noted
    assert "it is made for win13" in noted


def test_names_of_units() -> None:
    paths = [Path(name) for name in ("a.fmu", "b/a.fmu", "Pump 2.0-x.fmu", "3d.fmu", "inputs.fmu")]
    names, notes = unit_names(paths)
    assert names == ["a_1", "a_2", "Pump_2_0_x", "fmu_3d", "inputs_1"]
    assert "the unit of Pump 2.0-x.fmu is called 'Pump_2_0_x'" in notes
    assert unit_names([Path("a.fmu"), Path("a_1.fmu"), Path("x/a.fmu")])[0] == ["a_2", "a_1", "a_3"]
    assert unit_names([Path("left.fmu"), Path("right.fmu")]) == (["left", "right"], [])


def test_nice_steps() -> None:
    given = [1e-3, 0.0029, 0.0049999, 0.005, 0.0099, 7.3, 1e-9, 3e5]
    assert [nice_step(step) for step in given] == [1e-3, 0.002, 0.002, 0.005, 0.005, 5.0, 1e-9, 2e5]


def test_check_and_explain_say_what_it_is(two: tuple[Path, Path], capsys: Said) -> None:
    code, said, _ = call(capsys, "check", *two, "--connect", "b.u=a.y")
    assert code == 0
    assert "Units: 2, connections: 1" in said
    assert "a: FMI 2.0 co-simulation, 'linear' (it offers model-exchange, too)" in said
    code, said, _ = call(capsys, "explain", two[1], "--json")
    (unit,) = json.loads(said)["units"]
    assert unit["kind"] == "Fmu"
    assert "FMI 3.0 co-simulation, 'gain'" in unit["notes"][0]


def test_only_fmus_follow_fmus(two: tuple[Path, Path], tmp_path: Path, capsys: Said) -> None:
    other = tmp_path / "x.toml"
    other.write_text("upbeat = 1")
    for words in ((two[0], other), (other, two[0]), (other, "--connect", "a=b"), (other, "--solver", "rk4")):
        code, _, noted = call(capsys, "run", *words)
        assert (code == 2) == (words[0] == other)
        assert "FMU" in noted


def test_checkpoint_and_resume(two: tuple[Path, Path], tmp_path: Path, capsys: Said) -> None:
    """A run that is resumed from a checkpoint ends as one that was never stopped."""
    a, b = two
    whole = up.simulate(up.Scenario({"a": up.Fmu(a), "b": up.Fmu(b)}, {"b.u": "a.y"}), pace=0.01, until=1.0)
    kept = tmp_path / "c.checkpoint"
    made = up.experiment(
        up.Scenario({"a": up.Fmu(a), "b": up.Fmu(b)}, {"b.u": "a.y"}),
        pace=0.01, until=1.0, checkpoint=kept, out=tmp_path / "half.csv",
    )  # fmt: skip
    with made.open() as run:
        for _ in range(37):
            run.step()
    rest = up.resume(kept, experiment=made)
    assert list(rest["b.y"]) == list(whole["b.y"])


def test_in_a_scenario_file(two: tuple[Path, Path], tmp_path: Path, engine: str) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    path = folder / "s.toml"
    path.write_text("""
upbeat = 1
[models.lin]
file = "../a.fmu"
parameters = { a = -1.0 }
[units.one]
model = "lin"
start = { x = 2.0 }
[units.two]
kind = "fmu"
file = "../b.fmu"
[connections]
two.u = "one.y"
[master]
step = 0.01
[run]
until = 1.0
""")
    made = up.load(path, engine=engine)
    trace = made.run()
    assert trace["two.y"][-1] == pytest.approx(2 * 3 * 2 * math.exp(-1), rel=1e-8)
    written = folder / "again.toml"
    up.write_scenario(made, written)
    assert 'file = "../a.fmu"' in written.read_text()
    assert up.load(written).scenario == made.scenario


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ('kind = "fmu"', "it is missing: file"),
        ("file = 3", "it must name an FMU"),
        ('file = "no.fmu"', "there is no such file"),
        ('file = "a.fmu"\nparametres = { a = 1.0 }', "unknown key 'parametres'"),
        ('file = "a.fmu"\nparameters = { b = "x" }', "'b' is real, but was given 'x'"),
        ('file = "a.fmu"\nparameters = 3', "parameters must be a table"),
        ('file = "a.fmu"\ninterface = "cosim"', "there is no interface 'cosim'"),
        ('file = "a.fmu"\nlocals = ["z*"]', "no local variable of the FMU matches 'z*'"),
        ('file = "a.fmu"\ntolerance = 0', "a tolerance is a positive number"),
        ('file = "a.fmu"\nrollback = "maybe"', "there is no rollback 'maybe'"),
    ],
)
def test_wrong_tables(two: tuple[Path, Path], tmp_path: Path, table: str, what: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f"upbeat = 1\n[units.one]\n{table}\n[master]\nstep = 0.1\n[run]\nuntil = 1.0\n")
    with pytest.raises(up.ScenarioError) as caught:
        up.load(path)
    assert what in str(caught.value)
    assert "line" in str(caught.value)


def test_all_fmus_can_be_made_to_talk(fmu: Made) -> None:
    """Also those that run elsewhere, or inside other scenarios; one that says what it wants keeps to it."""
    model = up.Fmu(fmu("gain", 3))
    inner = up.Scenario({"deep": up.Isolated(model)}, outputs={"y": "deep.y"})
    scenario = up.Scenario(
        {
            "here": model,
            "there": up.Isolated(model, deadline=3.0),
            "chosen": up.Fmu(fmu("gain", 3), logging=["logEvents"]),
            "nested": up.Nested(inner, up.Master(up.Fixed(0.1))),
            "other": up.Clock(every=1.0),
        }
    )
    units = talking(scenario).units
    assert units["here"].logging is True
    assert units["there"] == up.Isolated(model.with_logging(True), deadline=3.0)
    assert units["chosen"].logging == ("logEvents",)
    assert units["nested"].scenario.units["deep"].model.logging is True
    assert units["other"] is scenario.units["other"]


def unpacked(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder


def test_an_unpacked_fmu(two: tuple[Path, Path], tmp_path: Path, capsys: Said) -> None:
    """y of a is 3 e^-2t until 2, as its default experiment says."""
    folder = unpacked(two[0], tmp_path / "b" / "drive")
    code, said, noted = call(capsys, "run", folder, two[1], "--connect", "b.u=drive.y", "--json")
    assert code == 0, noted
    assert json.loads(said)["final"]["drive.y"] == pytest.approx(3 * math.exp(-4), rel=1e-8)
    for path in (folder, two[0]):
        trace = up.load(path, until=1.0).run()
        assert trace[f"{path.stem}.y"][-1] == pytest.approx(3 * math.exp(-2), rel=1e-8)


def test_a_default_experiment_that_contradicts_itself(
    two: tuple[Path, Path], tmp_path: Path, capsys: Said
) -> None:
    folder = unpacked(two[0], tmp_path / "odd")
    path = folder / "modelDescription.xml"
    text = path.read_text()
    assert 'startTime="0" stopTime="2"' in text
    path.write_text(text.replace('startTime="0" stopTime="2"', 'startTime="5" stopTime="2" tolerance="1e-5"'))
    code, said, noted = call(capsys, "run", folder)
    assert code == 0
    assert "in the default experiment of odd stopTime 2.0 is not after the start: ignored" in noted
    assert "tolerance = 1e-05, as odd says" in noted
    assert "t = 5 … 6 s" in said
    assert "tolerance = " not in call(capsys, "run", folder, "--tolerance", "1e-3")[2]


def test_local_variables(two: tuple[Path, Path], capsys: Said) -> None:
    code, _, noted = call(capsys, "run", *two, "--record", "a.x")
    assert code == 3
    assert "A local variable: --locals 'a.x'" in noted
    code, said, noted = call(
        capsys, "run", *two, "--record", "a.x", "--locals", "a.x", "--until", 1, "--json", "--quiet"
    )
    assert code == 0, noted
    assert json.loads(said)["final"]["a.x"] == pytest.approx(math.exp(-2), rel=1e-8)
    code, _, noted = call(capsys, "run", *two, "--locals", "c.x")
    assert code == 3
    assert "'c.x' names no unit" in noted


def test_signals_for_free_inputs(two: tuple[Path, Path], engine: str, tmp_path: Path, capsys: Said) -> None:
    """b doubles what it gets, a ramp."""
    table = tmp_path / "drive.csv"
    table.write_text("time,b.u\n0,0\n2,4\n")
    out = tmp_path / "r.csv"
    words = ("run", *two, "--input", table, "--out", out, "--until", 2, "--step", 0.5, "--engine", engine)
    code, _, noted = call(capsys, *words)
    assert code == 0, noted
    assert rows(out)[-1]["a.y"] == pytest.approx(3 * math.exp(-4), rel=1e-4)  # its u stays 0
    assert [row["b.y"] for row in rows(out)] == pytest.approx([4 * row["time"] for row in rows(out)])
    table.write_text("time,b.v\n0,0\n2,4\n")
    code, _, noted = call(capsys, *words)
    assert code == 3
    assert "the scenario has no input 'b.v'. Did you mean 'b.u'" in noted


def test_steps_of_one_length_are_checked(two: tuple[Path, Path], tmp_path: Path, capsys: Said) -> None:
    folder = unpacked(two[0], tmp_path / "even")
    path = folder / "modelDescription.xml"
    yes = 'canHandleVariableCommunicationStepSize="true"'
    assert yes in path.read_text()
    path.write_text(path.read_text().replace(yes, ""))
    what = "even: the FMU takes only steps of one length"
    for command in ("check", "explain"):
        assert f"warning: {what}" in " ".join(call(capsys, command, folder, "--step", 0.3)[1].split())
        assert what not in call(capsys, command, folder, "--step", 0.5)[1]
    assert f"upbeat: {what}" in call(capsys, "run", folder, "--step", 0.3)[2]
