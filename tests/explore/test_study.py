"""Studies as data: points, files, results that survive, and what is said about what cannot be right."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import upbeat as up
from upbeat.explore import store as stores
from upbeat.explore.sampling import chosen
from upbeat.explore.words import summary

FILE = """
[units.car]
states.z = "v"
states.v = "(-k*z - d*v)/m"
start = { z = 0.1 }
parameters = { m = 250.0, k = 16000.0, d = 1000.0, limit = 0.2 }
[events.high]
when = "car.z > car.limit"
[master]
step = 0.01
[run]
until = 1.0
[study]
signals = ["car.z"]
times = 5
events = 2
[study.vary]
car.k = { from = 8000, to = 30000, count = 4 }
car.d = [500, 1000, 2000]
[study.outputs]
travel = "maximum(abs(car.z))"
settled = "last(abs(car.z) > 0.01)"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "car.toml"
    path.write_text(FILE)
    return path


def test_a_study_from_a_file(file: Path) -> None:
    study = up.Study.load(file)
    results = study.run("here")
    assert len(study) == len(results) == 12
    assert study.values(5) == {"car.k": pytest.approx(8000 + 22000 / 3), "car.d": 2000.0}
    trace = study.single(5).run()
    assert results["travel"][5] == np.abs(trace["car.z"]).max()
    assert results["car.z"][5].tolist() == trace.at(np.linspace(0.0, 1.0, 5), "car.z").tolist()
    assert results.to_pandas().shape == (12, 10)
    assert results.dataset["car.z"].dims == ("run", "time")


# ---------------------------------------------------------------- points


def test_a_grid_has_every_value_with_every_other() -> None:
    found = chosen({"a": [1, 2], "b": [10, 20, 30]}).columns()
    pairs = list(zip(found["a"], found["b"], strict=True))
    assert pairs == [(1, 10), (1, 20), (1, 30), (2, 10), (2, 20), (2, 30)]
    assert chosen({"a": [1, 2], "b": [5, 6]}, "together").columns()["b"].tolist() == [5, 6]


def test_samples_need_no_number(file: Path) -> None:
    file.write_text(FILE.replace("[500, 1000, 2000]", "{ uniform = [500, 2000] }"))
    study = up.Study.load(file)
    assert len(study) == 256
    assert 500 < study.columns["car.d"].min() < study.columns["car.d"].max() < 2000


@pytest.mark.parametrize("kind", ["random", "sobol", "halton", "latin_hypercube"])
def test_samples_have_the_distributions_that_were_asked_for(kind: str) -> None:
    asked = {
        "u": ({"uniform": [2, 4]}, stats.uniform(2, 2)),
        "n": ({"normal": {"mean": 1, "std": 0.5}}, stats.norm(1, 0.5)),
        "l": ({"lognormal": [3, 0.2]}, stats.lognorm(0.2, scale=3)),
        "t": ({"triangular": [0, 1, 3]}, stats.triang(1 / 3, 0, 3)),
        "c": ({"truncated_normal": [0, 1, -1, 2]}, stats.truncnorm(-1, 2)),
        "b": ({"beta": [2, 3, 0, 10]}, stats.beta(2, 3, 0, 10)),
        "g": ({"from": 1, "to": 100, "spaced": "log"}, stats.loguniform(1, 100)),
        "own": (stats.expon(), stats.expon()),
    }
    design = chosen({key: given for key, (given, _) in asked.items()}, kind, samples=1024, seed=3)
    found = design.columns()
    for key, (_, wanted) in asked.items():
        assert stats.kstest(found[key], wanted.cdf).pvalue > 1e-3, key
    again, other = (chosen(dict(design.parameters), kind, 1024, seed).columns() for seed in (3, 4))
    assert found["n"].tolist() == again["n"].tolist() != other["n"].tolist()


def test_samples_are_correlated_as_asked() -> None:
    given = {"a": {"normal": [0, 1]}, "b": {"uniform": [0, 1]}, "c": {"normal": [5, 2]}}
    found = chosen(given, "random", 20000, 1, [["a", "c", 0.7], ["a", "b", -0.4]]).columns()
    assert np.corrcoef(found["a"], found["c"])[0, 1] == pytest.approx(0.7, abs=0.02)
    # of a uniform one, the rank correlation is the one that a normal copula has
    assert stats.spearmanr(found["a"], found["b"])[0] == pytest.approx(
        6 / np.pi * np.arcsin(-0.4 / 2), abs=0.02
    )


def test_points_from_a_table(file: Path, tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("car.k,car.d,master.step\n8000,500,0.01\n9000,600,0.005\n")
    study = up.Study(up.load(file), table=tmp_path / "points.csv", outputs={"end": "final(car.z)"})
    assert study.values(1) == {"car.k": 9000.0, "car.d": 600.0, "master.step": 0.005}
    assert study.run("here")["steps"].tolist() == [len(study.single(k).run()) - 1 for k in range(2)]
    assert "planned anew for each of 2 values" in study.notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("car.k\n\n\n", "at least one with values"),
        ("car.k,car.d\n1,2\n\n3,much\n", "line 4: 'much' is no number, as others of 'car.d' are"),
        ("car.k,car.d\n1,2\n3,\n", "line 3: '' is no number"),
        ("car.k\n1\ninf\n", "line 3: inf is no number"),
    ],
)
def test_tables_with_holes(file: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "points.csv").write_text(text)
    with pytest.raises(up.InvalidInput, match=said):
        up.Study(up.load(file), table=tmp_path / "points.csv", outputs={"end": "final(car.z)"}).run("here")


def test_a_distribution_without_its_numbers(file: Path) -> None:
    with pytest.raises(up.InvalidInput, match=r"'car\.k': this distribution has no values"):
        up.Study(up.load(file), {"car.k": stats.gamma})


# ---------------------------------------------------------------- results that stay


def test_a_study_that_was_interrupted_goes_on(file: Path, tmp_path: Path) -> None:
    whole = replace(up.Study.load(file), out=tmp_path / "whole.zarr")
    cut = replace(whole, out=tmp_path / "cut.zarr")
    uncut = whole.run("here")
    seen: list[int] = []

    class Killed(BaseException): ...

    def killed(progress: Any) -> None:
        seen.append(progress.done)
        raise Killed

    kept = stores.Store(tmp_path / "cut.zarr", cut.layout, cut.fingerprint())
    kept.begin(5)
    kept.close()
    with pytest.raises(Killed):
        cut.run("here", report=killed)
    with (tmp_path / "cut.zarr.journal").open("a") as journal:
        journal.write('{"chunk": 1, "ru')  # cut off in the middle of a line
    later: list[int] = []
    results = cut.run("here", report=lambda progress: later.append(progress.done))
    assert (seen, later) == ([5], [10, 12])
    for name in results.layout.arrays():
        one, other = results[name], uncut[name]
        assert one.tolist() == other.tolist() or np.array_equal(one, other, equal_nan=True), name
    assert not (tmp_path / "cut.zarr.journal").exists()
    assert (
        cut.run("here", report=lambda progress: later.append(-1))["travel"].tolist()
        == results["travel"].tolist()
    )
    assert later == [10, 12]


SCRIPT = """
import sys, upbeat as up
from upbeat.explore import store
study = up.Study.load(sys.argv[1])
kept = store.Store(sys.argv[1].replace(".toml", ".zarr"), study.layout, study.fingerprint())
if kept.chunk is None: kept.begin(3)
kept.close()
from dataclasses import replace
def told(progress):
    print(progress.done, flush=True)
    if len(sys.argv) > 2: sys.stdin.readline()
replace(study, out=sys.argv[1].replace(".toml", ".zarr")).run("here", report=told)
"""


def test_kill_9_costs_one_chunk(file: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(file)]
    child = subprocess.Popen([*command, "wait"], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "3\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    child.stdin and child.stdin.close()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["6", "9", "12"]


CREATING = """
import os, signal, sys, upbeat as up, zarr
from dataclasses import replace
from pathlib import Path
create, left = zarr.Group.create_array, [3]
def killed(*given, **named):
    left[0] -= 1
    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)
    return create(*given, **named)
zarr.Group.create_array = killed
replace(up.Study.load(sys.argv[1]), out=Path(sys.argv[2])).run("here")
"""


def test_kill_9_while_the_store_is_made_costs_nothing(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut.zarr"
    assert subprocess.run([sys.executable, "-c", CREATING, str(file), str(out)], check=False).returncode == -9
    study = replace(up.Study.load(file), out=out)
    assert not study.run("here").failed.any()
    assert [path.name for path in tmp_path.iterdir() if "cut" in path.name] == ["cut.zarr"]


def test_a_store_that_grows_tells_which_runs_are_still_to_come(file: Path, tmp_path: Path) -> None:
    study = replace(up.Study.load(file), out=tmp_path / "cut.zarr")
    kept = stores.Store(tmp_path / "cut.zarr", study.layout, study.fingerprint())
    kept.begin(5)
    kept.close()

    class Killed(BaseException): ...

    def killed(progress: Any) -> None:
        raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            study.run("here", report=killed)
        if _ == 0:
            assert stores.open_dataset(study.out)["status"].values.tolist() == [0] * 5 + [255] * 7
            with (tmp_path / "cut.zarr.journal").open("a") as journal:
                journal.write('{"chunk": 1, "ru')  # what follows a line that was cut off is read all the same
    later: list[int] = []
    study.run("here", report=lambda progress: later.append(progress.done))
    assert later == [12]


def test_xarray_opens_a_store_without_a_word(file: Path, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    results = replace(up.Study.load(file), out=tmp_path / "whole.zarr").run("here")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xarray.open_zarr(tmp_path / "whole.zarr")
    assert found["travel"].values.tolist() == results["travel"].tolist()


def test_an_interrupted_command_says_what_is_there(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from upbeat.cli.main import main

    written = stores.Store.write

    def stops(store: stores.Store, number: int, *more: Any) -> None:
        if number == 2:
            raise KeyboardInterrupt
        written(store, number, *more)

    monkeypatch.setattr(stores.Store, "write", stops)
    monkeypatch.setattr(
        up.Study,
        "_chunk_size",
        lambda study, hands: (2, study.work.run({k: c[:1] for k, c in study.columns.items()})),
    )
    assert main(["explore", str(file), "--out", str(tmp_path / "a.zarr"), "--executor", "here"]) == 130
    assert "4 of 12 runs are in" in capsys.readouterr().err
    monkeypatch.setattr(stores.Store, "write", written)
    assert main(["explore", str(file), "--out", str(tmp_path / "a.zarr"), "--executor", "here"]) == 0


def test_a_store_of_another_study_is_left_alone(file: Path, tmp_path: Path) -> None:
    study = replace(up.Study.load(file), out=tmp_path / "a.zarr")
    study.run("here")
    other = replace(study, vary={"car.k": [1.0, 2.0]})
    with pytest.raises(up.FileProblem, match=r"results of another study .*runs are 12, here 2.*--force"):
        other.run("here")
    assert len(other.run("here", force=True)) == 2
    (tmp_path / "b.zarr").mkdir()
    with pytest.raises(up.FileProblem, match="is no result of a study"):
        replace(study, out=tmp_path / "b.zarr").run("here")
    with pytest.raises(up.InvalidInput, match=r"a\.zarr.*not .*a\.csv"):
        replace(study, out=tmp_path / "a.csv").run("here")
    with pytest.raises(up.FileProblem, match="does not exist"):
        replace(study, out=tmp_path / "no" / "a.zarr").run("here")


def test_a_store_is_of_other_code_too(tmp_path: Path) -> None:
    def study(factor: float, output: Any = "final(p.y)", step: float = 0.1, k: float = 1.0) -> up.Study:
        def gain(t: float, u: Any, p: Any) -> float:
            return factor * t

        p = up.PythonFunction(gain, outputs=["y"])
        made = up.experiment(up.Scenario({"p": p, "o": up.Ode({"x": f"-{k}*x"})}), step=step, until=1.0)
        return up.Study(made, {"o.x": [1.0, 2.0]}, {"end": output}, out=tmp_path / "a.zarr")

    def last(trace: up.Trace) -> float:
        return float(trace["p.y"][-1])

    def twice(trace: up.Trace) -> float:
        return 2.0 * float(trace["p.y"][-1])

    assert study(1.0).run("here")["end"].tolist() == [1.0, 1.0]
    study(1.0).run("here")
    for other, said in (
        (study(2.0), "other units"),
        (study(1.0, step=0.05), "another pace"),
        (study(1.0, k=2.0), "other units"),
        (study(1.0, last), "outputs"),
    ):
        with pytest.raises(up.FileProblem, match=said):
            other.run("here")
    study(1.0, last).run("here", force=True)
    with pytest.raises(up.FileProblem, match="outputs"):
        study(1.0, twice).run("here")


def test_two_studies_do_not_write_to_one_store(file: Path, tmp_path: Path) -> None:
    study = replace(up.Study.load(file), out=tmp_path / "a.zarr")
    kept = stores.Store(tmp_path / "a.zarr", study.layout, study.fingerprint())
    with pytest.raises(up.FileProblem, match="being written by another study"):
        study.run("here")
    kept.close()
    study.run("here")


def test_a_full_disk_keeps_what_is_there(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = replace(up.Study.load(file), out=tmp_path / "a.zarr")
    kept = stores.Store(tmp_path / "a.zarr", study.layout, study.fingerprint())
    kept.begin(4)
    kept.close()
    write, chunks = stores.Layout.values, []

    def full(self: Any, *given: Any) -> Any:
        if len(chunks) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        chunks.append(1)
        return write(self, *given)

    monkeypatch.setattr(stores.Layout, "values", full)
    with pytest.raises(up.RecordingError, match=r"the disk is full\. 2 chunks are safe"):
        study.run("here")
    monkeypatch.undo()
    told: list[int] = []
    study.run("here", report=lambda progress: told.append(progress.done))
    assert told == [12]


def test_results_as_files(file: Path, tmp_path: Path) -> None:
    results = up.Study.load(file).run("here")
    results.save(tmp_path / "a.csv")
    results.save(tmp_path / "a.parquet")
    import pandas

    one, other = pandas.read_csv(tmp_path / "a.csv"), pandas.read_parquet(tmp_path / "a.parquet")
    assert one["travel"].tolist() == other["travel"].tolist() == results["travel"].tolist()
    with pytest.raises(up.InvalidInput, match=r"\.csv or \.parquet"):
        results.save(tmp_path / "a.xlsx")


# ---------------------------------------------------------------- what cannot be right


def changed(text: str, by: str) -> str:
    assert text in FILE
    return FILE.replace(text, by)


def test_a_store_can_be_saved_as_anything(file: Path, tmp_path: Path) -> None:
    study = replace(up.Study.load(file), out=tmp_path / "a.zarr")
    stored, kept = study.run("here"), replace(study, out=None).run("here")
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    for number, results in enumerate((stored, kept)):
        for suffix in (".csv", ".parquet"):
            results.save(tmp_path / f"{number}{suffix}")
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    assert arrow.read_table(tmp_path / "0.parquet") == arrow.read_table(tmp_path / "1.parquet")
    assert arrow.read_table(tmp_path / "0.parquet").to_pydict()["travel"] == kept["travel"].tolist()
    pandas.testing.assert_frame_equal(stored.to_pandas(), kept.to_pandas())


def test_properties_are_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "car.toml"
    text = FILE.replace("[study]", '[properties]\nlow = "always(car.z < 0.15)"\n[study]')
    path.write_text(text + 'low = "robustness(low)"\n')
    results = up.Study.load(path).run("here")
    assert results["low"].tolist() == [0.15 - 0.1] * 12  # it falls from its start
    study = up.Study.load(path)
    early = replace(study, outputs={"early": up.Property("eventually[0, 0.2](car.z < 0)")}).run("here")
    expected = [-study.single(k).run()["car.z"][:21].min() for k in range(12)]
    assert early["early"].tolist() == pytest.approx(expected, abs=1e-12)
    path.write_text(text + 'low = "robustness(lo)"\n')
    with pytest.raises(up.ScenarioError, match=r"no property 'lo'.*Did you mean 'low'"):
        up.Study.load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            changed("car.d = [", "car.q = ["),
            r"line 19: .*there is no value 'q' to set. The settable names are: d, k",
        ),
        (changed("car.d = [", "cab.d = ["), r"line 19: .*cab"),
        (changed("count = 4", "count = 400000000000"), "400,000,000,000 values"),
        (changed("[500, 1000, 2000]", "[]"), "line 19: .*list of values is empty"),
        (changed("[500, 1000, 2000]", "{ normol = [1, 2] }"), "Did you mean 'normal'"),
        (changed("[500, 1000, 2000]", "{ normal = [1, -2] }"), "std of normal must be above 0"),
        (
            changed("[500, 1000, 2000]", "{ uniform = [1, 2] }").replace(
                "times = 5", 'times = 5\ndesign = "grid"'
            ),
            "is a distribution, of which a grid has no points",
        ),
        (changed("[500, 1000, 2000]", '"all"'), "must be a list of values"),
        (changed("[500, 1000, 2000]", "[500, 1000, nan]"), "line 19: .*value 3 is nan, which is no number"),
        (changed("[500, 1000, 2000]", '[500, 1000, "much"]'), "line 19: .*value 3 is 'much'"),
        (changed("car.d = [", '"car.d, car.k" = ['), "'car.k' varies twice: 'car.k' sets it, too"),
        (changed("times = 5", "time = 5"), "unknown key 'time'\n *Did you mean 'times'"),
        (changed('"maximum(abs(car.z))"', '"car.z"'), r"one number for each run.*final\(car\.z\)"),
        (changed('"maximum(abs(car.z))"', '"maximum(car.x)"'), "there is no signal 'car.x'. Did you mean"),
        (changed('"maximum(abs(car.z))"', '"maximum(mean(car.z))"'), "cannot stand inside maximum"),
        (changed('"maximum(abs(car.z))"', '"maximum(abs(car.z)"'), "is not closed"),
        (changed('"maximum(abs(car.z))"', '"count(hihg)"'), "there is no event 'hihg'. Did you mean 'high'"),
        (changed('"maximum(abs(car.z))"', '"at(car.z, 2)"'), "the time 2 lies outside"),
        (changed('travel = "max', 'status = "max'), "cannot be called 'status'"),
        (changed('signals = ["car.z"]', 'signals = ["car.y"]'), "there is no signal 'car.y'"),
        (changed("car.d = [500, 1000, 2000]", '"master.stepp" = [1]'), "unknown key 'stepp'"),
        (changed("car.d = [500, 1000, 2000]", '"master.step" = [-1]'), "line 19: .*-1"),
        (FILE.split("[study]", maxsplit=1)[0], r"has no \[study\]"),
        (FILE.replace("[study.vary]", "[study.very]"), "Did you mean 'vary'"),
    ],
)
def test_what_is_said_about_mistakes(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(up.InvalidInput, match=f"(?s){said}"):
        up.Study.load(tmp_path / "a.toml").run("here")


def test_a_study_with_a_trillion_points_is_refused_with_the_number(file: Path) -> None:
    with pytest.raises(up.InvalidInput, match="the study has 1,000,000,000,000 points, and at most"):
        up.Study(up.load(file), vary={f"car.{k}": range(10_000) for k in "kdm"})


def test_correlations_that_cannot_be() -> None:
    given = {key: {"normal": [0, 1]} for key in "abc"}
    with pytest.raises(up.InvalidInput, match="contradict each other"):
        chosen(given, "random", 10, 0, [["a", "b", 0.9], ["b", "c", 0.9], ["a", "c", -0.9]])
    with pytest.raises(up.InvalidInput, match=r"The parameters are"):
        chosen(given, "random", 10, 0, [["a", "x", 0.9]])


# ---------------------------------------------------------------- the command line


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from upbeat.cli.main import main

    arguments = [
        "explore",
        str(file),
        "--out",
        str(tmp_path / "a.zarr"),
        "--save",
        str(tmp_path / "a.csv"),
        "--workers",
        "1",
    ]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["failed"], set(told["outputs"])) == (12, 0, {"travel", "settled"})
    assert main(arguments) == 0
    assert "12 runs" in capsys.readouterr().out
    assert main(["check", str(file)]) == 0
    file.write_text(changed("car.d = [", "car.q = ["))
    assert main(["check", str(file)]) == 3
    assert main(["explore", str(file)]) == 3
    assert "no value 'q' to set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--save", "no/where.csv"], "does not exist"),
        (["--save", "a.txt"], "saved as .csv or .parquet"),
        (["--plots", "car.toml/plots"], "cannot write"),
        (["--cluster", "tcp://head:8786", "--executor", "here"], "leave out one of --cluster and --executor"),
    ],
)
def test_what_cannot_be_is_told_before_the_runs(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    said: str,
) -> None:
    from upbeat.cli.main import main

    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(up.Study, "run", lambda *_, **__: pytest.fail("hours of runs"))
    assert main(["explore", "car.toml", *more]) != 0
    assert said in capsys.readouterr().err


def test_reasons_that_differ_in_numbers_only_are_one(file: Path) -> None:
    results = up.Study(
        up.load(file), {"car.k": list(range(30))}, {"end": lambda trace: {}[trace["car.z"][-1]]}
    ).run("here")
    assert len(results.reasons) == 30
    assert summary(results)["reasons"] == {"the output 'end' failed: KeyError: np.float64(…)": 30}


def test_a_run_of_the_file_does_not_mind_the_study(file: Path) -> None:
    assert up.load(file).run().time[-1] == 1.0
