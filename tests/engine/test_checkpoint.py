"""Checkpoints: a run that goes on from one ends as if nothing had happened; what cannot go on is refused."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from strategies import experiments
from upbeat.engine.checkpoint import Stored, interval, read_checkpoint
from upbeat.engine.resume import fingerprints, portable
from upbeat.trace.recorder import Statistics

ROOT = Path(__file__).parents[2]
MASSES = up.Scenario(
    units={
        "left": up.Ode(states={"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"], outputs=["x", "v"]),
        "right": up.Ode(
            states={"x": "v", "v": "-4*x - 0.1*v + u"}, inputs=["u"], outputs=["x"], solver=up.DormandPrince()
        ),
    },
    connections={"left.F": "right.x", "right.u": "left.x"},
)
SETTINGS: dict[str, Any] = {"pace": 0.01, "until": 2.0}


def leave(run: up.Run) -> None:
    """What a kill does to a run: files are as they are, and locks are gone."""
    run._recorder.flush()
    sink: Any = run._recorder._sink
    held = [getattr(sink, "_journal", sink)._file._file]
    if getattr(sink, "_events", None) is not None:
        held.append(sink._events.file._file)
    for file in held:
        file.close()


def broken_off(scenario: up.Scenario, path: Path, before: int, after: int, **settings: Any) -> up.Trace:
    """A run with a checkpoint after `before` steps, killed `after` some more; what it had then."""
    run = up.start(scenario, checkpoint=up.Checkpoint(path, every=1e9), **settings)
    for _ in range(before):
        if not run.finished:
            run.step()
    if not run.finished:
        run.checkpoint()
    for _ in range(after):
        if not run.finished:
            run.step()
    leave(run)
    return run.trace


def same(one: up.Trace, other: up.Trace) -> None:
    assert one.names == other.names
    ours, theirs = one.to_numpy(), other.to_numpy()
    for name in ours:
        if ours[name].dtype == object:
            assert list(ours[name]) == list(theirs[name])
        else:
            assert ours[name].tobytes() == theirs[name].tobytes(), name
    assert one.events == other.events
    assert list(one.steps) == list(other.steps)
    assert one.outcome is other.outcome is up.Outcome.FINISHED


# -------------------------------------------------------------------- going on


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".journal", None])
@pytest.mark.parametrize("pace", [0.01, up.ErrorControl(1e-3)])
@pytest.mark.parametrize("every", [1, 7])
def test_a_killed_run_ends_as_if_nothing_had_happened(
    engine: str, tmp_path: Path, suffix: str | None, pace: Any, every: int
) -> None:
    out, whole = (None, None) if suffix is None else (tmp_path / f"run{suffix}", tmp_path / f"whole{suffix}")
    given: dict[str, Any] = {"pace": pace, "until": 2.0, "engine": engine, "every": every}
    uninterrupted = up.simulate(MASSES, out=whole, **given)
    broken_off(MASSES, tmp_path / "c", 12, 15, out=out, **given)
    trace = up.resume(tmp_path / "c")
    same(trace, uninterrupted)
    if out is not None and whole is not None:
        same(up.read(out), up.read(whole))
        if suffix == ".csv":
            assert out.read_bytes() == whole.read_bytes()
    left = {path.name for path in tmp_path.iterdir()}
    beside = {"run.columns.json", "whole.columns.json"} if suffix == ".csv" else set()
    assert left == {path.name for path in (out, whole) if path is not None} | beside, "nothing else stays"


def test_the_other_engine_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("upbeat._native")
    whole = up.simulate(MASSES, **SETTINGS)
    for number, (first, second) in enumerate((("interpret", "native"), ("native", "interpret"))):
        path = tmp_path / f"c{number}"
        broken_off(MASSES, path, 50, 3, engine=first, **SETTINGS)
        given = up.experiment(MASSES, engine=second, **SETTINGS)  # type: ignore[arg-type]
        trace = up.resume(path, experiment=given)
        assert trace.info["engine"] == second
        same(trace, whole)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(experiment=experiments(), suffix=st.sampled_from([".csv", ".journal"]), before=st.integers(0, 4))
def test_random_scenarios_go_on(
    tmp_path_factory: pytest.TempPathFactory, experiment: up.Experiment, suffix: str, before: int
) -> None:
    folder = tmp_path_factory.mktemp("random")
    out, path = folder / f"run{suffix}", folder / "c"
    kept = experiment.with_(out=out, checkpoint=up.Checkpoint(path, every=1e9))
    try:
        whole = experiment.run()
        run = kept.open()
    except (up.RunError, up.InvalidInput):
        return  # a formula left the finite numbers, or a unit cannot be kept
    for _ in range(before):
        if not run.finished:
            run.step()
    if not run.finished:
        run.checkpoint()
        run.step()
    leave(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # expressions that a run of one engine warns of
        same(up.resume(path, experiment=experiment), whole)


def test_texts_and_events_keep_their_meaning(engine: str, tmp_path: Path) -> None:
    class Words:
        """Says another word at each step; the numbers of words are others after a resume."""

        def __init__(self, name: str, start: float, parameters: object) -> None:
            self.step = 0

        def get(self, port: str) -> str:
            return f"word {self.step % 5}"

        def set(self, port: str, coefficients: object) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            self.step += 1
            return to

        def save(self) -> int:
            return self.step

        def restore(self, token: int) -> None:
            self.step = token

        def to_bytes(self, token: int) -> bytes:
            return str(token).encode()

        def from_bytes(self, data: bytes) -> int:
            return int(data)

    abilities = frozenset({up.Ability.ROLLBACK, up.Ability.SERIALISE})
    port = up.Port("said", up.Causality.OUTPUT, up.Kind.STRING)
    scenario = up.Scenario(units={"speaker": up.PythonUnit(Words, (port,), abilities=abilities)})
    made = up.experiment(scenario, pace=1.0, until=30.0, engine=engine)  # type: ignore[arg-type]
    for suffix in (".csv", ".journal", ".parquet"):
        out, path = tmp_path / f"run{suffix}", tmp_path / f"c{suffix}"
        broken_off(scenario, path, 3, 4, pace=1.0, until=30.0, engine=engine, out=out)
        with pytest.raises(up.InvalidInput, match=r"set up with Python code.*experiment="):
            up.resume(path)
        trace = up.resume(path, experiment=made)
        assert list(trace["speaker.said"]) == [f"word {k % 5}" for k in range(31)]
        assert list(up.read(out)["speaker.said"]) == [f"word {k % 5}" for k in range(31)]


def test_events_of_a_state_machine_go_on(engine: str, tmp_path: Path) -> None:
    file = ROOT / "examples/thermostat_hybrid.toml"
    whole = up.load(file, engine=engine, out=tmp_path / "whole.csv").run()  # type: ignore[arg-type]
    assert len(whole.events) > 2
    for suffix in (".csv", ".parquet", None):
        out = None if suffix is None else tmp_path / f"run{suffix}"
        made = up.load(file, engine=engine, out=out, checkpoint=tmp_path / "c")  # type: ignore[arg-type]
        run = made.open()
        while run.time < 5000.0:
            run.step()
        run.checkpoint()
        while run.time < 12000.0:
            run.step()
        leave(run)
        trace = up.resume(tmp_path / "c")
        same(trace, whole)
        if suffix == ".csv":
            for name in ("csv", "events.csv"):
                ours, theirs = ((tmp_path / f"{part}.{name}").read_bytes() for part in ("run", "whole"))
                assert ours == theirs


def test_statistics_go_on(tmp_path: Path) -> None:
    broken_off(MASSES, tmp_path / "c", 30, 10, out=tmp_path / "run.csv", **SETTINGS)
    trace, whole = up.resume(tmp_path / "c"), up.simulate(MASSES, **SETTINGS)
    for name in trace.names:
        ours, theirs = trace.summary(name), whole.summary(name)
        assert ours is not None
        assert theirs is not None
        assert (ours.minimum, ours.maximum, ours.final) == (theirs.minimum, theirs.maximum, theirs.final)
        assert ours.mean == pytest.approx(theirs.mean, rel=1e-12)
    assert trace.span == (0.0, 2.0)
    assert Statistics(trace.columns).rows == 0


def test_signals_are_part_of_a_checkpoint(engine: str, tmp_path: Path) -> None:
    scenario = up.Scenario(
        units={"tank": up.Ode(states={"x": "u"}, inputs=["u"], outputs=["x"], solver=up.Euler())},
        connections={"tank.u": "rate"},
        inputs={"rate": {"start": 1.0}},
    )
    signals = up.Signals([0.0, 1.0, 2.0], {"rate": [0.0, 3.0, 1.0]})
    given: dict[str, Any] = {"signals": signals, "engine": engine, **SETTINGS}
    broken_off(scenario, tmp_path / "c", 90, 20, **given)
    same(up.resume(tmp_path / "c"), up.simulate(scenario, **given))


def test_real_time_goes_on_from_now(engine: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", up.LateWarning)
        broken_off(MASSES, tmp_path / "c", 5, 5, engine=engine, real_time=1e6, **SETTINGS)
        stored = read_checkpoint(tmp_path / "c")
        assert stored.document["info"]["lateness"]["count"] == 5
        trace = up.resume(tmp_path / "c")
    assert trace.lateness is not None
    assert trace.lateness.count == 200
    same(trace, up.simulate(MASSES, engine=engine, **SETTINGS))  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_interrupted_run_goes_on_where_it_was(engine: str, tmp_path: Path, suffix: str) -> None:
    out, seen = tmp_path / f"run{suffix}", []

    def report(time: float) -> None:
        seen.append(time)
        signal.raise_signal(signal.SIGINT)

    given: dict[str, Any] = {"pace": 1e-4, "until": 1.0 if engine == "interpret" else 20.0, "engine": engine}
    with pytest.raises(up.Interrupted) as caught:
        up.simulate(MASSES, out=out, checkpoint=tmp_path / "c", report=report, **given)
    stored = read_checkpoint(tmp_path / "c")
    assert stored.document["time"] == seen[-1] == caught.value.trace.span[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the file is not complete
        assert up.read(out).time[-1] == seen[-1], "the results so far can be read"
    same(up.resume(tmp_path / "c"), up.simulate(MASSES, **given))
    assert not (tmp_path / "c").exists()


def test_a_run_that_fails_can_go_on_once_the_reason_is_gone(engine: str, tmp_path: Path) -> None:
    class Moody:
        bad = True

        def __init__(self, name: str, start: float, parameters: object) -> None:
            self.time = start

        def get(self, port: str) -> float:
            return self.time

        def set(self, port: str, coefficients: object) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            if Moody.bad and to > 5.5:
                raise OSError("no licence")
            self.time = to
            return to

        def save(self) -> float:
            return self.time

        def restore(self, token: float) -> None:
            self.time = token

        def to_bytes(self, token: float) -> bytes:
            return repr(token).encode()

        def from_bytes(self, data: bytes) -> float:
            return float(data)

    abilities = frozenset({up.Ability.ROLLBACK, up.Ability.SERIALISE})
    model = up.PythonUnit(Moody, (up.Port("y", up.Causality.OUTPUT),), abilities=abilities)
    scenario = up.Scenario(units={"moody": model})
    keep = up.Checkpoint(tmp_path / "c", every="2 steps")
    given: dict[str, Any] = {"pace": 1.0, "until": 10.0, "engine": engine, "out": tmp_path / "run.csv"}
    with pytest.raises(up.UnitError, match="no licence"):
        up.simulate(scenario, checkpoint=keep, **given)
    assert read_checkpoint(keep.path).document["time"] == 4.0, "every second step"
    Moody.bad = False
    trace = up.resume(keep.path, experiment=up.experiment(scenario, **given))
    assert list(trace["moody.y"]) == list(np.arange(11.0))


# -------------------------------------------------------------------- what is refused


def test_units_without_bytes_are_all_named(tmp_path: Path) -> None:
    class Plain:
        def __init__(self, name: str, start: float, parameters: object) -> None: ...

        def get(self, port: str) -> float:
            return 1.0

    model = up.PythonUnit(Plain, (up.Port("y", up.Causality.OUTPUT),))
    scenario = up.Scenario(units={"one": model, "tank": MASSES.units["left"], "two": model})
    out = tmp_path / "run.csv"
    out.write_text("time,x\n0,1\n")
    with pytest.raises(up.InvalidInput, match=r"the state of 'one', 'two' cannot .*--checkpoint"):
        up.simulate(scenario, checkpoint=tmp_path / "c", out=out, **SETTINGS)
    assert out.read_text() == "time,x\n0,1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]


def test_a_checkpoint_is_not_overwritten_by_another_run(tmp_path: Path) -> None:
    path = tmp_path / "c"
    broken_off(MASSES, path, 5, 5, out=tmp_path / "run.csv", **SETTINGS)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(up.FileProblem, match=r"checkpoint of this run, at t = 0\.05 of 2.*upbeat resume"):
        up.simulate(MASSES, checkpoint=path, out=tmp_path / "run.csv", **SETTINGS)
    with pytest.raises(up.FileProblem, match="checkpoint of another run"):
        up.simulate(MASSES, checkpoint=path, pace=0.5, until=2.0)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(up.FileProblem, match="is there already, and is not a checkpoint"):
        up.simulate(MASSES, checkpoint=tmp_path / "notes.txt", **SETTINGS)
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name != "notes.txt"}
    assert after == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pace": 0.02}, "the pace is not the same"),
        ({"until": 3.0}, "start or stop time is not the same"),
        ({"coupling": "gauss_seidel"}, "the connections or the master is not the same"),
        ({"every": 2}, "what is recorded is not the same"),
    ],
)
def test_another_experiment_is_refused_with_the_reason(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    broken_off(MASSES, tmp_path / "c", 5, 5, out=tmp_path / "run.csv", **SETTINGS)
    before = (tmp_path / "run.csv").read_bytes()
    with pytest.raises(up.InvalidInput, match=f"another run.*{message}"):
        up.resume(tmp_path / "c", experiment=up.experiment(MASSES, **SETTINGS | changed))
    assert (tmp_path / "run.csv").read_bytes() == before
    same(up.resume(tmp_path / "c"), up.simulate(MASSES, **SETTINGS))


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    broken_off(MASSES, path, 5, 5, out=tmp_path / "run.csv", **SETTINGS)
    data, rows = path.read_bytes(), (tmp_path / "run.csv").read_bytes()
    step = max(1, len(data) // 60)
    for place in range(0, len(data), step):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        with pytest.raises(up.FileProblem):
            up.resume(path)
        path.write_bytes(data[:place])
        with pytest.raises(up.FileProblem):
            up.resume(path)
    path.write_bytes(data.replace(b"UPBEAT checkpoint\n\3", b"UPBEAT checkpoint\n\4"))
    with pytest.raises(up.FileProblem, match="version 4 of the format"):
        up.resume(path)
    path.write_bytes(data)
    assert (tmp_path / "run.csv").read_bytes() == rows
    with pytest.raises(up.FileProblem, match=r"there is no checkpoint.*has reached its end"):
        up.resume(tmp_path / "other")


def test_changed_and_missing_results_are_noticed(tmp_path: Path) -> None:
    path, out = tmp_path / "c", tmp_path / "run.csv"
    broken_off(MASSES, path, 20, 5, out=out, **SETTINGS)
    data, stored = out.read_bytes(), path.read_bytes()
    for broken, message in (
        (data.replace(b"\n0.01,", b"\n0.02,", 1), "was changed since the checkpoint"),
        (data[:200], "has lost its last"),
    ):
        out.write_bytes(broken)
        with pytest.raises(up.FileProblem, match=message):
            up.resume(path)
        assert out.read_bytes() == broken
    out.unlink()
    with pytest.raises(up.FileProblem, match=r"results so far.*missing.*run\.csv"):
        up.resume(path)
    assert not out.exists()
    assert path.read_bytes() == stored
    out.write_bytes(data)
    same(up.resume(path), up.simulate(MASSES, **SETTINGS))


def test_only_one_resumes(tmp_path: Path) -> None:
    path, out = tmp_path / "c", tmp_path / "run.csv"
    broken_off(MASSES, path, 20, 5, out=out, **SETTINGS)
    with out.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(up.FileProblem, match="another run is writing to it"):
            up.resume(path)
    up.resume(path)


def test_a_run_killed_after_its_last_step(tmp_path: Path) -> None:
    """When the results are complete, and only the checkpoint is still there."""
    path, out = tmp_path / "c", tmp_path / "run.parquet"
    kept: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "upbeat.engine.checkpoint.CheckpointWriter.done",
            lambda self, outcome: kept.append(path.read_bytes()),
        )
        whole = up.simulate(MASSES, out=out, checkpoint=path, **SETTINGS)
    same(up.resume(path), whole)
    assert not path.exists()


def test_moved_together(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    broken_off(MASSES, tmp_path / "a/c", 20, 5, out=tmp_path / "a/run.csv", **SETTINGS)
    (tmp_path / "a").rename(tmp_path / "b")
    up.resume(tmp_path / "b/c")
    assert up.read(tmp_path / "b/run.csv").time[-1] == 2.0


# -------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("every", "made"),
    [
        (60, (60.0, np.inf)),
        ("90s", (90.0, np.inf)),
        ("1.5 min", (90.0, np.inf)),
        ("2h", (7200.0, np.inf)),
        ("1000steps", (np.inf, 1000.0)),
        ("1 step", (np.inf, 1.0)),
    ],
)
def test_how_often(every: float | str, made: tuple[float, float]) -> None:
    assert interval(every) == made


@pytest.mark.parametrize("every", [0, -1, "often", "60", "1.5 steps", "0s", True, np.nan, "1e999s", "..s"])
def test_how_often_is_checked(every: Any) -> None:
    with pytest.raises(up.InvalidInput, match="checkpoints cannot be made every"):
        up.Checkpoint(Path("c"), every)


def test_no_checkpoint_without_being_asked_for() -> None:
    with up.start(MASSES, **SETTINGS) as run, pytest.raises(up.InvalidInput, match='checkpoint="run'):
        run.checkpoint()


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    run = up.start(MASSES, checkpoint=path, out=tmp_path / "run.csv", **SETTINGS)
    before = path.read_bytes()
    run.step()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("upbeat.core.atomic.os.fsync", full)
    with pytest.raises(up.RecordingError, match=r"checkpoint could not be made.*No space"):
        run.checkpoint()
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "run.columns.json", "run.csv"]
    monkeypatch.undo()
    leave(run)
    up.resume(path)


def test_fingerprints_are_the_same_in_every_process() -> None:
    script = (
        "import upbeat as up, json, sys\n"
        "from upbeat.engine.resume import fingerprints\n"
        "print(json.dumps([fingerprints(up.load(file)) for file in sys.argv[1:]]))"
    )
    files = [ROOT / f"examples/{name}.toml" for name in ("thermostat_hybrid", "coupled_masses", "tank")]
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        words = [sys.executable, "-c", script, *map(str, files)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert found == {json.dumps([fingerprints(up.load(file)) for file in files])}
    assert all(portable(up.load(file)) is not None for file in files)


def test_nested_scenarios_are_portable(tmp_path: Path) -> None:
    inner = up.Scenario(
        units={"a": up.Ode(states={"x": "u - x"}, inputs=["u"], outputs=["x"])},
        connections={"a.u": "push"},
        inputs=["push"],
        outputs={"y": "a.x"},
    )
    nested = up.Nested(inner, up.Master(up.Fixed(0.05)), flatten=False)
    scenario = up.Scenario(
        units={"car": nested, "b": up.Ode(states={"z": "1 - w"}, inputs=["w"], outputs=["z"])},
        connections={"car.push": "b.z", "b.w": "car.y"},
    )
    broken_off(scenario, tmp_path / "c", 20, 5, **SETTINGS)
    same(up.resume(tmp_path / "c"), up.simulate(scenario, **SETTINGS))


def test_what_a_checkpoint_holds_comes_back(tmp_path: Path) -> None:
    broken_off(MASSES, tmp_path / "c", 20, 0, **SETTINGS)
    stored = read_checkpoint(tmp_path / "c")
    stored.write(tmp_path / "again")
    again = read_checkpoint(tmp_path / "again")
    assert (again.document, again.machine, list(again.steps)) == (
        stored.document,
        stored.machine,
        list(stored.steps),
    )
    assert isinstance(again, Stored)


# -------------------------------------------------------------------- kill -9


@pytest.mark.slow  # killed runs above take a moment; this is the published experiment with kill -9
def test_kill_nine() -> None:
    """The small version of reproduce/kill_resume.py."""
    spec = importlib.util.spec_from_file_location("kill_resume", ROOT / "reproduce/kill_resume.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_resume"] = module
    spec.loader.exec_module(module)
    rows = module.measure(3, 1)
    assert sum(row["kills"] for row in rows) == sum(row["identical"] for row in rows) == 3
    assert all(row["other"] == 0 for row in rows)
