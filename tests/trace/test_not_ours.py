"""What Upbeat has not written is replaced by nobody, unless with force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from upbeat.cli.main import main

BODY = up.Ode({"x": "u - x"}, inputs=["u"], outputs={"x": {"unit": "m"}})
SCENARIO = up.Scenario({"a": BODY}, inputs={"push": 0.0}, connections={"a.u": "push"})
OWN = up.Scenario({"a": BODY}, outputs={"load": "a.x"})
FILE = """
[units.a]
states = { x = "u - x" }
inputs = ["u"]
[inputs]
push = 0.0
[connections]
a.u = "push"
[master]
step = 0.5
[run]
until = 1.0
"""
FOREIGN = {
    "run.csv": b"time,push\n0,1\n1,2\n",
    "run.parquet": b"PAR1 of somebody else PAR1",
    "run.journal": b'{"format":"a diary"}\n',
}


def simulate(**settings: Any) -> up.Trace:
    return up.simulate(SCENARIO, **{"step": 0.5, "until": 1.0, **settings})


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("way", ["run", "save"])
def test_results_replace_results_only(tmp_path: Path, name: str, way: str) -> None:
    path = tmp_path / name

    def write(**more: Any) -> None:
        if way == "run":
            simulate(out=path, **more)
        else:
            simulate().save(path, **more)

    path.write_bytes(FOREIGN[name])
    with pytest.raises(up.FileProblem, match=r"is not a result of Upbeat.*--force"):
        write()
    assert path.read_bytes() == FOREIGN[name]
    write(force=True)
    write()  # its own, from now on
    assert len(up.read(path)) == 3
    path.write_bytes(b"")  # nothing is lost
    write()


def test_a_result_of_another_scenario_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    up.simulate(OWN, step=0.5, until=1.0, out=path, record=["load"])
    up.simulate(OWN, step=0.5, until=1.0, out=path, record=["load"])  # the same columns, none a port
    with pytest.raises(up.FileProblem, match="is not a result"):
        simulate(out=path)
    up.simulate(OWN, step=0.5, until=1.0, out=path, force=True)
    simulate(out=path)


@pytest.mark.parametrize(
    ("name", "text"), [("run.columns.json", '{"a": 1}'), ("run.events.csv", "a,b\n1,2\n")]
)
def test_files_beside_results(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(up.FileProblem, match=name):
        simulate(out=tmp_path / "run.csv")
    assert (tmp_path / name).read_text() == text


def test_results_do_not_replace_what_the_run_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(FILE)
    Path("in.csv").write_text("time,push\n0.0,1.0\n1.0,2.0\n")
    Path("link.csv").symlink_to("in.csv")
    for out in ("in.csv", "link.csv", "./in.csv"):
        assert main(["run", "a.toml", "--input", "in.csv", "--out", out]) == 3
        assert "which this run reads" in capsys.readouterr().err
    assert main(["run", "a.toml", "--input", "in.csv", "--out", "in.csv", "--force", "--quiet"]) == 0


def test_a_checkpoint_is_no_result(tmp_path: Path) -> None:
    for name in ("a.csv", "a.events.csv", "a.columns.json"):
        with pytest.raises(up.InvalidInput, match="both a checkpoint and a result"):
            simulate(out=tmp_path / "a.csv", checkpoint=tmp_path / name)
    with pytest.raises(up.InvalidInput, match="both a checkpoint and a result"):
        simulate(out=tmp_path / "a.journal", checkpoint=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_does_not_choose_files_elsewhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    point, out = here / "run.checkpoint", there / "run.csv"
    made = up.experiment(SCENARIO, step=0.5, until=2.0, out=out, checkpoint=up.Checkpoint(point, 1e9))
    with made.open() as run:
        run.step(), run.checkpoint()
    before = out.read_bytes()
    for given in (None, made.with_(out=None)):
        with pytest.raises(up.InvalidInput, match=r"in another folder.*--out"):
            up.resume(point, experiment=given)
    assert out.read_bytes() == before
    assert len(up.resume(point, out=out)) == 5
    assert up.read(out)["a.x"].shape == (5,)


def test_the_same_experiment_says_where_its_results_are(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    point, out = tmp_path / "run.checkpoint", tmp_path / "there" / "run.csv"
    made = up.experiment(SCENARIO, step=0.5, until=2.0, out=out, checkpoint=up.Checkpoint(point, 1e9))
    with made.open() as run:
        run.step(), run.checkpoint()
    assert len(up.resume(point, experiment=made)) == 5


def test_pictures_and_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(FILE)
    Path("a.png").write_bytes(b"a photograph")
    Path("a.profile.json").write_text(json.dumps({"mine": 1}))
    for words in (["plot", "a.toml"], ["run", "a.toml", "--plot", "a.png"], ["profile", "a.toml"]):
        assert main(words) == 3
        assert "is there already" in capsys.readouterr().err
    assert Path("a.png").read_bytes() == b"a photograph"
    assert main(["plot", "a.toml", "--force"]) == main(["plot", "a.toml"]) == 0


def test_python_asks_for_force_as_the_command_line_does(tmp_path: Path) -> None:
    picture, scenario = tmp_path / "a.png", tmp_path / "a.toml"
    trace = simulate()
    found = up.stability_of(SCENARIO, step=0.5, scan=False)
    for path, write in (
        (picture, lambda **more: up.plot(trace, out=picture, **more)),
        (picture, lambda **more: up.plot_stability(found, out=picture, **more)),
        (scenario, lambda **more: up.write_scenario(SCENARIO, scenario, **more)),
    ):
        path.write_bytes(b"[mine]\nnotes = 1\n")
        with pytest.raises(up.FileProblem, match=r"is there already.*force=True"):
            write()
        assert path.read_bytes() == b"[mine]\nnotes = 1\n"
        write(force=True)
        write()  # its own, from now on
    scenario.write_text(FILE)  # written by hand, and a scenario
    up.write_scenario(SCENARIO, scenario)


def test_an_ssp_of_others_is_replaced_with_force_only(tmp_path: Path) -> None:
    path = tmp_path / "a.ssp"
    path.write_bytes(b"an archive")
    with pytest.raises(up.FileProblem, match=r"is not an SSP that Upbeat has exported.*force=True"):
        up.write_ssp(SCENARIO, path)
    with pytest.raises(up.ScenarioError):  # it has a unit that is no FMU
        up.write_ssp(SCENARIO, path, force=True)
