"""What a probe finds out about the test FMUs is what they are made for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmu_exports import casadi_fmu, python_fmu
from fmu_maker import LINEAR, make
from upbeat import Scenario
from upbeat.cli.main import main
from upbeat.core.errors import FileProblem
from upbeat.engine.isolation import Isolation, separated
from upbeat.report import probe as shown
from upbeat.units.fmi import known
from upbeat.units.fmi.known import known_to_fail
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.probe import PortRow, Reaction, Report, Row, judge, probe, trials
from upbeat.units.fmi.trial import Trial, attempt
from upbeat.units.process import Isolated

Made = Callable[[str, int], Path]
FEEDTHROUGH = [Reaction("y", [], [], ["u"]), Reaction("z", [], [], ["u"]), Reaction("f", ["u"], ["u"], ["u"])]


def row(report: Report, name: str) -> str:
    return next(row.measured for row in report.rows if row.name == name)


@pytest.mark.supports("fmi2", "Qualification report", "`upbeat probe`")
@pytest.mark.supports("fmi3", "Qualification report", "`upbeat probe`")
@pytest.mark.parametrize(("version", "interface"), [(2, "co-simulation"), (3, "model-exchange")])
def test_a_good_one(fmu: Made, version: int, interface: Any) -> None:
    report = probe(fmu("nothing", version), interface)
    assert (report.usable, report.crash, report.findings) == (True, "", [])
    assert report.feedthrough == FEEDTHROUGH
    assert row(report, "runs its own experiment") == "yes, 200 steps until t = 2"
    assert row(report, "rollback") == row(report, "state as bytes") == "exact"
    assert report.interfaces == ["co-simulation", "model-exchange"]
    assert report.interface == interface
    assert ("tiny steps" in {row.name for row in report.rows}) == (interface == "co-simulation")
    assert report.time_per_step_ns is not None
    assert report.time_per_step_ns > 0
    causalities = {port.name: port.causality for port in report.ports}
    assert causalities == {"at": "parameter", "u": "input", "y": "output", "z": "output", "f": "output"}
    assert known_to_fail(fmu("nothing", version)) is None
    json.dumps(report.to_json(), allow_nan=False)


def test_one_that_crashes(fmu: Made) -> None:
    path = fmu("crash", 3)
    report = probe(path)
    why = "it was killed by signal 11 (Segmentation fault) while stepping from t = 0.5"
    assert report.usable
    assert report.crash == why
    assert report.findings == [f"runs its own experiment: {why}"]
    assert known_to_fail(path) == known_to_fail(path, "co-simulation") == why
    assert known_to_fail(path, "model-exchange") is None


def one(path: Path, trial: Callable[..., None], deadline: float = 30.0, **more: Any) -> Trial:
    """One of a probe's measurements."""
    return attempt(trial, {"path": str(path), "settings": {}} | more, deadline)


@pytest.mark.parametrize(
    ("name", "trial", "judged", "said"),
    [
        ("exit", trials.run, judge.runs, "it ended its process with exit code 3 while stepping from t = 0.5"),
        ("fail", trials.run, judge.runs, "it failed (fmi2DoStep failed"),
        ("leak", trials.memory, judge.memory, " kB are lost each time"),
        ("racy", trials.threads, lambda t: judge.same("", t, "threads"), "no: 'y' is "),
        ("moody", trials.repeat, lambda t: judge.same("", t, "again"), "no: 'y' is "),
        ("moody", trials.together, lambda t: judge.once(False, t), "no: 'y' is "),
        (
            "once",
            trials.together,
            lambda t: judge.once(False, t),
            "no: it failed (once2.fmu can be instantiated",
        ),
    ],
)
def test_faults(fmu: Made, name: str, trial: Any, judged: Callable[[Trial], Row], said: str) -> None:
    good, bad = judged(one(fmu("nothing", 2), trial)), judged(one(fmu(name, 2), trial))
    assert good.ok
    assert not bad.ok
    assert said in bad.measured


def test_small_steps(fmu: Made) -> None:
    for part, refusable in ((0.0, True), (1e-9, False)):
        assert judge.small("", one(fmu("nothing", 3), trials.small, part=part), refusable=refusable).ok
        found = judge.small("", one(fmu("touchy", 3), trials.small, part=part), refusable=refusable)
        assert found.ok == refusable
        assert found.measured.startswith("no: it failed (fmi3DoStep failed")


def test_outputs_that_are_late(fmu: Made) -> None:
    path = fmu("delayed", 3)
    model, trial = Fmu(path), one(path, trials.respond)
    found = judge.reactions(model, trial)
    assert found == [*FEEDTHROUGH[:2], Reaction("f", ["u"], [], ["u"])]
    complete, follow = judge.feedthrough(model, trial, found)
    assert complete.ok
    assert follow.measured == "no, only at the next step: 'f' on 'u'"


def test_dependencies_that_are_not_declared(fmu: Made) -> None:
    path = fmu("gain", 3)
    model, trial = Fmu(path), one(path, trials.respond)
    complete, *_ = judge.feedthrough(model, trial, [Reaction("y", [], ["u"], ["u"])])
    assert (complete.ok, complete.measured) == (False, "no, it lacks: 'y' on 'u'")


def test_steps_of_different_lengths(fmu: Made) -> None:
    found = judge.uneven(True, one(fmu("summer", 2), trials.uneven))
    assert found.measured.startswith("accepted, results ")  # it counts them
    assert judge.uneven(True, one(fmu("linear", 2), trials.uneven)).ok


def test_one_that_declares_steps_of_one_length_is_tried_with_others(tmp_path: Path) -> None:
    path = make(replace(LINEAR, name="steady", source="linear", variable_step=False), 2, tmp_path)
    assert "uneven" in one(path, trials.uneven).found


def test_one_that_hangs(fmu: Made) -> None:
    trial = one(fmu("hang", 2), trials.run, deadline=6.0)
    assert judge.crash([trial]) == "it gave no answer within 6 s while stepping from t = 0.5"
    assert judge.usable(trial)


def test_one_that_refuses_everything(fmu: Made) -> None:
    report = probe(fmu("stuck", 2))
    assert not report.usable
    assert len(report.rows) == 1


def test_one_of_which_there_can_be_only_one(fmu: Made) -> None:
    report = probe(fmu("once", 3))
    assert report.findings == []
    assert "only one" in row(report, "two instances in one process")


@pytest.mark.parametrize("name", ["ball", "clocks", "space", "types", "chatty"])
def test_others(fmu: Made, name: str) -> None:
    for trial in (trials.run, trials.respond, trials.together):
        assert one(fmu(name, 3), trial).why == ""


def test_made_by_others(fmu_folder: Path) -> None:
    spring = probe(casadi_fmu(fmu_folder))
    assert spring.findings == []
    assert Reaction("y", ["u"], ["u"], ["u"]) in spring.feedthrough
    # It says nothing of dependencies, so all outputs are declared to follow all inputs.
    lag = python_fmu(2, fmu_folder)
    trial = one(lag, trials.respond)
    found = judge.reactions(Fmu(lag), trial)
    assert Reaction("y", ["u"], [], ["u"]) in found
    _, follow = judge.feedthrough(Fmu(lag), trial, found)
    assert (follow.ok, follow.measured) == (True, "yes, but for what is not declared: 'y' on 'u'")


def test_the_command(fmu: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(fmu("linear", 3))]) == 0
    text = capsys.readouterr().out
    assert "FMI 3.0 co-simulation, 'linear' (it offers model-exchange, too)" in text
    assert "rollback                                    yes       exact" in text
    assert text.rstrip().endswith("nothing is wrong with it.")


def test_the_command_with_json(fmu: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(fmu("stuck", 2)), "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["fmi"], found["usable"]) == (1, "2.0", False)
    assert found["findings"][0].startswith("runs its own experiment: it failed")


def test_wrong_words(tmp_path: Path, fmu: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(tmp_path / "none.fmu")]) == 3
    assert "there is no such file" in capsys.readouterr().err
    assert main(["probe", str(fmu("linear", 2)), "--deadline", "0"]) == 3
    assert "--deadline is a positive number" in capsys.readouterr().err
    with pytest.raises(FileProblem):
        probe(tmp_path / "none.fmu")
    assert known_to_fail(tmp_path / "none.fmu") is None


def test_an_fmu_that_was_not_probed_is_not_known_to_fail(fmu: Made) -> None:
    assert known_to_fail(fmu("overflow", 3)) is None


def test_the_text(fmu: Made) -> None:
    reactions = [Reaction("y", ["u"], ["u"], ["u"])] * 50
    ports = [PortRow("x", "output", "real", 3, "m", [1.0, 2.5, 3.0], False)] * 50
    rows = [Row("short", None, "yes", True), Row("a longer name", True, "no: " + "very " * 40 + "bad", False)]
    texts = {
        "file": "a.fmu",
        "sha256": "",
        "name": "a",
        "fmi": "3.0",
        "tool": "",
        "platform": "",
        "upbeat": "",
    }
    report = Report(
        **texts, interfaces=["co-simulation"], interface="co-simulation", step=0.1, time_per_step_ns=2.5e6,
        usable=True, crash="", ports=ports, rows=rows, feedthrough=reactions, notes=["an FMU"],
    )  # fmt: skip
    text = shown.text(report)
    assert "a step of 0.1 s takes 2.5 ms" in text
    assert "… and 10 more" in text
    assert "… and 30 more" in text
    assert "  ! a longer name  yes       no: very" in text
    assert "1, 2.5, 3" in text
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("It can be used. Findings: 1 (marked !).")


def test_what_crashed_in_a_probe_runs_in_a_process_of_its_own(
    fmu: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = fmu("exit", 2)

    def apart(**settings: Any) -> bool:
        placed = separated(Scenario({"a": Fmu(path, **settings)}), Isolation())
        return isinstance(placed.units["a"], Isolated)

    assert not apart()
    known.remember(path, "probe-co-simulation", {"crash": "it ended its process with exit code 3"})
    assert apart()
    assert not apart(isolation="none")
    assert not apart(interface="model-exchange")


def test_the_verdict_names_its_reason(
    fmu: Callable[[str, int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", str(fmu("crash", 2))]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "with care: it was killed by signal 11" in last
