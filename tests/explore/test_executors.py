"""The same study anywhere: threads, processes, joblib, a Dask cluster; also where workers die."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dying import KillsOnce, kills

import upbeat as up
from upbeat.explore import executors
from upbeat.explore.executors import Job, opened, parcel
from upbeat.explore.store import Memory
from upbeat.explore.work import Status, Work

DECAY = up.Scenario({"a": up.Ode({"x": "-k*x"}, start={"x": 1.0}, parameters={"k": 1.0})})


def study(**more: Any) -> up.Study:
    made = up.experiment(DECAY, step=0.01, until=1.0)
    given: dict[str, Any] = {
        "vary": {"a.x": {"uniform": [1, 2]}, "a.k": {"normal": [1, 0.1]}},
        "outputs": {"end": "final(a.x)", "mean": "mean(a.x)"},
        "samples": 64,
    }
    return up.Study(made, **given | more)


@pytest.fixture(scope="module")
def here() -> up.Results:
    return study().run("here")


def same(one: up.Results, other: up.Results) -> bool:
    return all(
        np.array_equal(one[name], other[name]) for name in ("a.x", "a.k", "end", "mean", "status", "steps")
    )


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_on_this_machine(here: up.Results, name: str) -> None:
    assert same(study().run(name, workers=2), here)


def test_with_somebodys_executor(here: up.Results) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert same(study().run(pool), here)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert same(study().run(pool), here)


def test_with_joblib(here: up.Results) -> None:
    import joblib

    assert same(study().run(joblib.Parallel(n_jobs=2, backend="threading")), here)


def test_functions_of_a_script_travel() -> None:
    found = study(outputs={"half": lambda trace: trace["a.x"][-1] / 2}, samples=4)
    assert executors.crew(None, 2, found.work).__class__ is executors.Futures
    ends = study(samples=4).run("here")["end"]
    assert found.run("processes", workers=2)["half"].tolist() == (ends / 2).tolist()


def test_a_run_that_takes_its_process_along_is_a_row() -> None:
    given = {"vary": {"a.x": [1.0, 2.0, 3.0, 4.0, 5.0]}, "samples": None, "outputs": {"end": kills}}
    results = study(**given).run("processes", workers=2)
    assert results["status"].tolist() == [0, 0, Status.FAILED, 0, 0]
    assert "the process died in this run" in results["reason"][2]
    assert results["end"][[0, 4]] == pytest.approx(np.array([1.0, 5.0]) * np.exp(-1.0), rel=1e-6)


@pytest.mark.parametrize("given", ["dozens", 3, object()])
def test_what_is_no_executor(given: Any) -> None:
    with pytest.raises(up.InvalidInput, match="executor"):
        study().run(given)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_how_many_workers_there_can_be(workers: Any) -> None:
    with pytest.raises(up.InvalidInput, match="workers must be a whole number"):
        study().run("threads", workers=workers)


def test_files_travel_by_what_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "here" / "data.bin"
    file.parent.mkdir()
    file.write_bytes(b"numbers")
    work = study().work
    made = Work(work.experiment.with_(file=file), work.samples, work.formulas, {})
    sent = parcel(made, files=True)
    assert opened(sent).experiment.file == file
    executors._OPENED.clear()
    shutil.rmtree(file.parent)  # as on another machine
    copy = opened(sent).experiment.file
    assert copy is not None
    assert copy.read_bytes() == b"numbers"
    executors._OPENED.clear()
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(up.InvalidInput, match="is not here, or another file"):
        opened(parcel(made, files=True)._replace(files={}) if file.exists() else sent._replace(files={}))


def test_chunks_are_as_long_as_handing_them_over_deserves() -> None:
    sizes: list[int] = []

    class Slow:
        workers, least = 2, 1.0

        def do(self, work: Work, jobs: Any) -> Any:
            for job in jobs:
                assert isinstance(job, Job)
                count = len(job.columns["a.x"])
                sizes.append(count)
                yield job.number, work.run(job.columns)._replace(seconds=0.01 * count)

        def close(self) -> None: ...

    found = study(samples=1000)
    # ten milliseconds each: a second, and eight chunks for two
    assert found._chunk_size(Slow())[0] in range(100, 130)
    found = study(samples=100)
    assert found._chunk_size(Slow())[0] == 100  # a second all in all: one chunk


def test_long_runs_are_not_made_twice_to_find_out_how_long_they_are() -> None:
    made: list[float] = []

    class Long:
        workers, least = 2, 0.2

        def do(self, work: Work, jobs: Any) -> Any:
            for job in jobs:
                made.extend(job.columns["a.x"].tolist())
                yield job.number, work.run(job.columns)._replace(seconds=600.0)

        def close(self) -> None: ...

    found = study(samples=5)
    kept = Memory(found.layout)
    found._run(kept, Long(), None)
    assert made == found.columns["a.x"].tolist()
    assert kept.done == set(range(5))


def dies(trace: up.Trace) -> float:
    """An output that takes its process along."""
    os._exit(3)


def test_a_process_of_somebodys_executor_dies() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(up.UpbeatError, match="process of the executor died"):
        replace(study(samples=2), outputs={"end": dies}).run(pool)


# ---------------------------------------------------------------- a cluster


@pytest.fixture(scope="module")
def cluster() -> Any:
    distributed = pytest.importorskip("distributed")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            worker_dashboard_address=None,
        )
        yield made
        made.close()


@pytest.mark.filterwarnings("ignore")
def test_on_a_cluster(cluster: Any, here: up.Results) -> None:
    assert same(study().run(cluster.scheduler_address), here)
    with cluster.get_client() as client:
        assert same(study().run(client), here)


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_is_killed_loses_nothing_and_does_nothing_twice(cluster: Any, tmp_path: Path) -> None:
    found = study(outputs={"end": KillsOnce(tmp_path / "killed")}, samples=24)
    found = replace(found, out=tmp_path / "a.zarr")
    from upbeat.explore.store import Store

    kept = Store(tmp_path / "a.zarr", found.layout, found.fingerprint())
    kept.begin(4)
    kept.close()
    told: list[int] = []
    results = found.run(cluster.scheduler_address, report=lambda progress: told.append(progress.done))
    assert (tmp_path / "killed").exists()
    assert told == [4, 8, 12, 16, 20, 24]
    assert results["end"].tolist() == study(samples=24).run("here")["end"].tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_has_lost_all_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(executors.Cluster, "patience", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        empty.get_client() as client,
        pytest.raises(up.UpbeatError, match=r"the cluster has had no workers for 0\.5 s: start some"),
    ):
        study().run(client)


def test_a_cluster_that_is_not_there() -> None:
    with pytest.raises(up.InvalidInput, match=r"no scheduler of Dask answers at 'tcp://127\.0\.0\.1:1'"):
        study().run("tcp://127.0.0.1:1")


@pytest.mark.slow  # processes that die and are started again, four times
@pytest.mark.filterwarnings("ignore")
def test_a_run_that_kills_every_worker_it_meets_is_a_row_on_a_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    # Workers that die are started again, but Dask loses those that die as soon as they are there.
    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.deploy.lost-worker-timeout": "300s"}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            worker_dashboard_address=None,
        ) as made,
    ):
        found = study(vary={"a.x": [1.0, 2.0, 3.0, 4.0]}, outputs={"end": kills}, samples=None)
        results = found.run(made.scheduler_address)
    assert results["reason"].tolist() == [
        "",
        "",
        "the process died in this run: a unit crashed, or it was killed",
        "",
    ]
    assert np.isfinite(results["end"]).tolist() == [True, True, False, True]
