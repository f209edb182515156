"""Runs of the studio: the numbers of `upbeat run`, seen while they come, and kept whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.sync.client import connect

import upbeat as up
from studio_server import Studio, unpacked
from upbeat.studio.rows import Rows, difference, packed, thinned

EXAMPLES = Path(__file__).parents[2] / "examples"

SPRING = """name = "spring"
[units.mass]
states = { x = "v", v = "(F + push - c*x)/m" }
start = { x = 1.0 }
inputs = { F = { unit = "N" }, push = { unit = "N" } }
outputs = ["x", "v"]
parameters = { m = 1.0, c = 4.0 }
[units.damper]
inputs = ["v"]
outputs = { F = "-d*v" }
parameters = { d = 0.4 }
[connections]
"mass.F" = "damper.F"
"damper.v" = "mass.v"
[master]
step = 0.01
[run]
until = 5.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(EXAMPLES / "two_mass", folder / "two_mass")
    for name in ("thermostat_hybrid.toml", "traffic_light.toml", "tank.toml"):
        shutil.copy(EXAMPLES / name, folder)
    (folder / "spring.toml").write_text(SPRING)
    return folder


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[Studio]:
    made = Studio(folder)
    yield made
    made.close()


class Watching:
    """A page that looks at a run."""

    def __init__(self, live: Any, *signals: str, points: int = 100_000) -> None:
        self._live = live
        self.state: dict[str, Any] = {}
        self.events: list[Any] = []
        self.steps: dict[float, Any] = {}
        self.log: list[str] = []
        self.headers: list[Any] = []
        self.columns = np.empty((1 + len(signals), 0))
        if signals:
            self.ask(*signals, points=points)

    def ask(self, *signals: str, points: int = 100_000) -> None:
        self._live.send(json.dumps({"signals": signals, "points": points}))

    def until(self, done: Any, seconds: float = 30.0) -> None:
        """Look until something is the case."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, (self.state, self.log)
            try:
                message = self._live.recv(timeout=1.0)
            except TimeoutError:
                continue
            if isinstance(message, bytes):
                header, columns = unpacked(message)
                self.headers.append(header)
                before = columns[:, :0] if header["reset"] else self.columns
                self.columns = np.concatenate([before, columns], axis=1)
                continue
            found = json.loads(message)
            match found.pop("kind"):
                case "state":
                    self.state |= found
                case "events":
                    self.events = [] if found["reset"] else self.events
                    self.events += found["events"]
                case "steps":
                    self.steps |= {one["t"]: one for one in found["steps"]}
                case "log":
                    self.log = [] if found["reset"] else self.log
                    self.log += found["lines"]


@contextmanager
def watching(studio: Studio, run: str, *signals: str) -> Iterator[Watching]:
    address, header = f"ws://127.0.0.1:{studio.port}/api/live?run={run}", {"X-Upbeat-Token": studio.token}
    with connect(address, additional_headers=header, max_size=None) as live:
        yield Watching(live, *signals)


@pytest.mark.parametrize(
    "name",
    ["two_mass/lookahead.toml", "thermostat_hybrid.toml", "traffic_light.toml", "tank.toml", "spring.toml"],
)
def test_the_numbers_are_those_of_a_run_without_the_studio(studio: Studio, folder: Path, name: str) -> None:
    trace = up.load(folder / name).run()
    run = studio.start(name)
    found = studio.finished(run)
    assert found["state"] == "ended"
    assert found["outcome"] == trace.outcome.name
    assert [signal["name"] for signal in found["signals"]] == list(trace.names)
    header, columns = studio.data(run, trace.names, points=1_000_000)
    assert header["total"] == len(trace)
    assert np.array_equal(columns[0], trace.time)
    for column, signal_name in zip(columns[1:], trace.names, strict=True):
        assert np.array_equal(column, trace[signal_name].astype(float))
    events = studio.ask("GET", f"/api/runs/{run}/events")
    assert [one["t"] for one in events["events"]] == trace.events.times().tolist()
    assert [one["name"] for one in events["events"]] == [one.name for one in trace.events]
    assert events["more"] == 0
    steps = studio.ask("GET", f"/api/runs/{run}/steps")["steps"]
    assert sum(one["count"] for one in steps) == trace.steps.count
    kept = up.read(folder / found["result"])
    assert np.array_equal(kept.time, trace.time)


def test_two_masses_meet_twelve_times(studio: Studio) -> None:
    run = studio.start("two_mass/lookahead.toml")
    with watching(studio, run, "upper.x") as page:
        page.until(lambda: page.state.get("state") == "ended" and len(page.events) == 12)
        assert {one["name"] for one in page.events} == {"masses", "ceiling"}
        assert all(one["unit"] == "upper" for one in page.events)
        page.until(lambda: any("expected" in one["reason"] for one in page.steps.values()))
        page.until(lambda: page.columns.shape[1] == 276)
        jumps = np.flatnonzero(np.diff(page.columns[0]) == 0)
        assert len(jumps) == 12


def test_a_run_is_seen_while_it_goes_on_and_goes_on_when_nobody_looks(studio: Studio) -> None:
    run = studio.start("spring.toml", real_time=1.0)
    with watching(studio, run, "mass.x") as page:
        page.until(lambda: page.columns.shape[1] > 20)
        assert page.state["state"] == "running"
        assert page.headers[0]["reset"]
        assert not page.headers[-1]["reset"]
        seen = page.columns[0, -1]
    time.sleep(0.3)
    with watching(studio, run, "mass.x", "mass.v") as page:  # reloaded
        page.until(lambda: page.columns.shape[1] and page.columns[0, -1] > seen + 0.2)
        assert page.columns[0, 0] == 0.0
        assert np.all(np.diff(page.columns[0]) > 0)
    assert studio.ask("POST", f"/api/runs/{run}", {"do": "stop"})["state"] == "stopped"


def test_what_is_set_during_a_run_in_real_time(studio: Studio, folder: Path) -> None:
    """A push of 4 N moves the place of rest by 1 m: the numbers are those of `Run.set` at that time."""
    run = studio.start("spring.toml", real_time=50.0, until=100.0)
    knobs = {one["name"]: one for one in studio.until(run, "running")["settable"]}
    assert knobs["mass.push"] | {"value": 0.0, "what": "input", "unit": "N"} == knobs["mass.push"]
    assert knobs["damper.d"]["what"] == "parameter"
    with watching(studio, run, "mass.x") as page:
        page.until(lambda: page.columns.shape[1] > 1)
        answer = studio.ask("POST", f"/api/runs/{run}", {"do": "set", "name": "mass.push", "value": 4.0})
        at = answer["time"]
        page.until(lambda: {one["name"]: one["value"] for one in page.state["settable"]}["mass.push"] == 4.0)
        page.until(lambda: page.state.get("state") == "ended")
        page.until(lambda: page.columns[0, -1] == 100.0)
    assert page.columns[1, -1] == pytest.approx(1.0, abs=1e-6)
    with up.load(folder / "spring.toml", until=100.0).open() as by_hand:
        while by_hand.time < at:
            by_hand.step()
        by_hand.set("mass.push", 4.0)
        trace = by_hand.finish()
    _, columns = studio.data(run, ["mass.x"], points=1_000_000)
    assert np.array_equal(columns, [trace.time, trace["mass.x"]])


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("mass.psuh", 1.0, "Did you mean 'mass.push'"),
        ("mass.push", "x", "was given 'x'"),
        ("mass.push", None, "was given None"),
        ("mass.F", 1.0, "neither a parameter nor an input that can be set"),
        (None, 1.0, "must be str"),
    ],
)
def test_what_cannot_be_set(studio: Studio, name: Any, value: Any, what: str) -> None:
    run = studio.start("spring.toml", paused=True)
    studio.until(run, "paused")
    found = studio.ask("POST", f"/api/runs/{run}", {"do": "set", "name": name, "value": value}, status=400)
    assert what in found["error"] or name is None
    assert studio.ask("POST", f"/api/runs/{run}", {"do": "stop"})["state"] == "stopped"


def test_pause_step_resume_stop(studio: Studio) -> None:
    run = studio.start("spring.toml", paused=True)
    assert studio.until(run, "paused")["time"] == 0.0
    for number in (1, 2, 3):
        found = studio.ask("POST", f"/api/runs/{run}", {"do": "step"})
        assert found == {"state": "paused", "time": pytest.approx(0.01 * number)}
    _, columns = studio.data(run, ["mass.x"])
    assert columns[0] == pytest.approx([0.0, 0.01, 0.02, 0.03])
    assert "cannot 'jump'" in studio.ask("POST", f"/api/runs/{run}", {"do": "jump"}, status=400)["error"]
    assert studio.ask("POST", f"/api/runs/{run}", {"do": "resume"})["state"] in ("running", "ended")
    assert studio.finished(run)["state"] == "ended"
    assert "has ended" in studio.ask("POST", f"/api/runs/{run}", {"do": "pause"}, status=400)["error"]


def test_a_stopped_run_goes_on_from_its_checkpoint_to_the_same_bits(studio: Studio, folder: Path) -> None:
    run = studio.start("spring.toml", paused=True)
    studio.until(run, "paused")
    for _ in range(7):
        studio.ask("POST", f"/api/runs/{run}", {"do": "step"})
    assert studio.ask("POST", f"/api/runs/{run}", {"do": "stop"}) == {
        "state": "stopped",
        "time": pytest.approx(0.07),
    }
    stopped = studio.ask("GET", f"/api/runs/{run}")
    assert stopped["resumable"]
    assert stopped["outcome"] == "STOPPED"
    again = studio.ask("POST", "/api/runs", {"resume": run, "paused": False}, 201)
    assert again["id"] == run
    studio.until(run, "ended")
    trace = up.load(folder / "spring.toml").run()
    _, columns = studio.data(run, ["mass.x"], points=1_000_000)
    assert np.array_equal(columns, [trace.time, trace["mass.x"]])
    assert "no checkpoint" in studio.ask("POST", "/api/runs", {"resume": run}, 400)["error"]


def test_a_run_that_goes_on_is_followed_and_shows_what_was_set(studio: Studio, folder: Path) -> None:
    run = studio.start("spring.toml", paused=True)
    studio.until(run, "paused")
    for name, value in (("mass.push", 2.0), ("mass.c", 3.0)):
        studio.ask("POST", f"/api/runs/{run}", {"do": "set", "name": name, "value": value})
    studio.ask("POST", f"/api/runs/{run}", {"do": "step"})
    studio.ask("POST", f"/api/runs/{run}", {"do": "stop"})
    with watching(studio, run, "mass.x") as page:
        page.until(lambda: page.state.get("state") == "stopped")
        studio.ask("POST", "/api/runs", {"resume": run, "paused": True}, 201)
        settable = {one["name"]: one["value"] for one in studio.until(run, "paused")["settable"]}
        assert settable == {"mass.push": 2.0, "mass.c": 3.0, "mass.m": 1.0, "damper.d": 0.4}
        page.until(lambda: page.state.get("state") == "paused")
        studio.ask("POST", f"/api/runs/{run}", {"do": "resume"})
        page.until(lambda: page.state.get("state") == "ended" and page.columns[0, -1] == 5.0)
    with up.load(folder / "spring.toml").open() as by_hand:
        by_hand.set("mass.push", 2.0)
        by_hand.set("mass.c", 3.0)
        by_hand.step()
        trace = by_hand.finish()
    _, columns = studio.data(run, ["mass.x"], points=1_000_000)
    assert np.array_equal(columns, [trace.time, trace["mass.x"]])


def test_runs_are_found_again_by_another_server(folder: Path) -> None:
    first = Studio(folder)
    run = first.start("spring.toml")
    ended = first.finished(run)
    cut = first.start("spring.toml", real_time=1.0)
    first.until(cut, "running")
    time.sleep(1.5)
    first.close(signal.SIGKILL)
    second = Studio(folder)
    try:
        known = {one["id"]: one for one in second.ask("GET", "/api/runs")}
        assert known[run]["state"] == "ended"
        assert (known[run]["rows"], known[run]["engine"]) == (501, ended["engine"])
        assert known[run]["started"] == ended["started"]
        assert second.ask("GET", f"/api/runs/{run}")["scenario"] == SPRING
        assert known[cut]["state"] == "stopped"
        assert known[cut]["rows"] > 50
        assert known[cut]["resumable"]
        _, columns = second.data(run, ["mass.x"])
        assert columns.shape == (2, 501)
        assert second.ask("DELETE", f"/api/runs/{run}") == {}
        assert run not in {one["id"] for one in second.ask("GET", "/api/runs")}
        assert not list((folder / "runs").glob(f"{run}.*"))
    finally:
        second.close()


def test_a_run_of_another_studio_is_left_alone(studio: Studio) -> None:
    run = studio.start("spring.toml", real_time=1.0, until=1000.0)
    studio.until(run, "running")
    with watching(studio, run, "mass.x") as page:
        page.until(lambda: page.columns.shape[1] > 5)
    other = Studio(studio.folder)
    try:
        found = other.ask("GET", f"/api/runs/{run}")
        assert "somewhere else" in found["said"]
        assert "somewhere else" in other.ask("DELETE", f"/api/runs/{run}", status=400)["error"]
        again = other.ask("POST", "/api/runs", {"resume": run}, status=400)
        assert "somewhere else" in again["error"]
    finally:
        other.close()
    assert studio.until(run, "running")
    studio.ask("POST", f"/api/runs/{run}", {"do": "stop"})


def test_results_of_others_are_runs_too(studio: Studio, folder: Path) -> None:
    trace = up.load(folder / "two_mass" / "lookahead.toml").run()
    (folder / "runs").mkdir(exist_ok=True)
    trace.save(folder / "runs" / "theirs.csv")
    found = next(one for one in studio.ask("GET", "/api/runs") if one["id"] == "theirs")
    assert found["state"] == "ended"
    _, columns = studio.data("theirs", ["upper.x"])
    assert np.array_equal(columns, [trace.time, trace["upper.x"]])
    assert len(studio.ask("GET", "/api/runs/theirs/events")["events"]) == 12


def test_a_failing_unit_is_named(studio: Studio) -> None:
    text = SPRING.replace('"-d*v"', '"-d*v/(v - v)"')
    run = studio.start("spring.toml", text)
    found = studio.finished(run)
    assert found["state"] == "failed"
    assert found["failure"]["unit"] == "damper"
    assert found["failure"]["line"] == text[: text.index("[units.damper]")].count("\n") + 1
    assert "damper" in found["failure"]["message"]


def test_a_scenario_that_cannot_run_says_why(studio: Studio) -> None:
    found = studio.finished(studio.start("spring.toml", SPRING.replace("damper.F", "damper.G")))
    assert found["state"] == "failed"
    assert "'damper.G' does not exist" in found["failure"]["message"]
    assert found["failure"]["line"] == 13
    wrong = studio.ask("POST", "/api/runs", {"path": "spring.toml", "text": SPRING, "until": "x"}, 400)
    assert "until must be a number" in wrong["error"]


def test_a_process_that_dies_takes_neither_the_server_nor_the_results_along(studio: Studio) -> None:
    run = studio.start("spring.toml", real_time=1.0)
    with watching(studio, run, "mass.x") as page:
        page.until(lambda: page.columns.shape[1] > 20)
        children = Path(f"/proc/{studio.process.pid}/task/{studio.process.pid}/children").read_text().split()
        dead = [
            int(child) for child in children
            if Path(f"/proc/{child}/cmdline").read_bytes().endswith(b"run\0")
        ]  # fmt: skip
        for child in dead:  # the run, and the process that is ready for the next one
            os.kill(child, signal.SIGKILL)
        page.until(lambda: page.state.get("state") == "failed")
    found = studio.ask("GET", f"/api/runs/{run}")
    assert "SIGKILL" in found["failure"]["message"]
    assert found["rows"] > 20
    assert found["time"] == studio.data(run, ["mass.x"])[1][0, -1]
    assert studio.finished(studio.start("spring.toml"))["state"] == "ended"


@pytest.mark.parametrize("when", ["t > 0.5", "True"])
def test_python_units_run_and_die_outside_of_the_server(tmp_path: Path, when: str) -> None:
    (tmp_path / "model.py").write_text(MODEL.replace("WHEN", when))
    (tmp_path / "a.toml").write_text(
        '[units.clock]\noutputs = { t = "time" }\n[units.late]\nkind = "python"\nfunction = "model:late"\n'
        'inputs = ["u"]\noutputs = ["y"]\n[connections]\n"late.u" = "clock.t"\n'
        "[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"
    )
    studio = Studio(tmp_path, "--allow-python")
    try:
        view = studio.view("a.toml")
        assert view["problems"] == [] or all(one["severity"] != "error" for one in view["problems"])
        found = studio.finished(studio.start("a.toml"))
        assert found["state"] == "failed"
        assert found["failure"]["unit"] == "late", found["failure"]
        assert "exit status 7" in found["failure"]["message"]
        assert found["rows"] > 0 or when == "True"
        assert any("so far" in line for line in found["log"]) or when == "True"
        if found["log"]:
            with watching(studio, found["id"], "late.y") as page:
                page.until(lambda: page.log == found["log"])
        assert studio.ask("GET", "/api/project")["python"]
    finally:
        studio.close()


MODEL = """import os
def late(t, u, p):
    if WHEN:
        os._exit(7)
    print("so far", u.u, flush=True)
    return u.u
"""


def test_two_runs_are_subtracted(studio: Studio, folder: Path) -> None:
    """With half the step; the difference at the times of the first, jumps against jumps."""
    one = studio.start("spring.toml")
    other = studio.start("spring.toml", SPRING.replace("step = 0.01", "step = 0.005"))
    studio.finished(one)
    studio.finished(other)
    status, _, body = studio.request("GET", f"/api/difference?a={one}&b={other}&signals=mass.x&points=100000")
    assert status == 200
    header, columns = unpacked(body)
    assert header["total"] == 501
    coarse = up.load(folder / "spring.toml").run()
    fine = up.load(folder / "spring.toml", step=0.005).run()
    assert np.allclose(columns[1], coarse["mass.x"] - fine["mass.x"][::2], atol=1e-15)
    assert np.abs(columns[1]).max() > 0
    status, _, body = studio.request("GET", f"/api/difference?a={one}&b={one}&signals=mass.x,mass.v")
    assert not unpacked(body)[1][1:].any()
    events = studio.start("two_mass/lookahead.toml")
    studio.finished(events)
    _, _, body = studio.request("GET", f"/api/difference?a={events}&b={events}&signals=upper.v&points=100000")
    assert not unpacked(body)[1][1:].any()  # before and after each jump


def test_runs_of_changed_scenarios_are_compared_where_they_mean_the_same(studio: Studio) -> None:
    """Another unit of measure is converted; what only one has, or what measures something else, is out."""
    text = """[units.a]
states = { x = { der = "1 - x", unit = "UNIT" }, y = { der = "x", unit = "OTHER" } }
[master]
step = 0.1
[run]
until = 1.0
"""
    meters = studio.start("spring.toml", text.replace("UNIT", "m").replace("OTHER", "s"))
    more = text.replace("1 - x", "1000 - x").replace("UNIT", "mm").replace("OTHER", "kg")
    other = studio.start("spring.toml", more + '[units.new]\nstates = { z = "-z" }\n')
    studio.finished(meters)
    studio.finished(other)
    names = "signals=a.x,a.y,new.z"
    _, mine = studio.data(meters, ["a.x"])
    status, _, body = studio.request("GET", f"/api/runs/{other}/data?{names}&like={meters}")
    header, theirs = unpacked(body)
    assert status == 200
    assert header["columns"] == ["time", "a.x"]
    assert np.allclose(theirs, mine, rtol=1e-14)
    _, _, body = studio.request("GET", f"/api/difference?a={other}&b={meters}&{names}")
    header, columns = unpacked(body)
    assert header["columns"] == ["time", "a.x"]
    assert np.abs(columns[1]).max() < 1e-10
    for address in (f"runs/{other}/data?like={meters}", f"difference?a={other}&b={meters}"):
        assert "in common" in studio.ask("GET", f"/api/{address}&signals=a.y,new.z", status=400)["error"]


def test_a_jump_of_the_other_run_is_a_jump_of_the_difference(tmp_path: Path) -> None:
    for name, rows in (("a", "0,0.0\n1,2.0\n"), ("b", "0,0.0\n0.5,0.0\n0.5,1.0\n1,1.0\n")):
        (tmp_path / f"{name}.csv").write_text(f"time,u.y\n{rows}")
    a, b = (Rows(tmp_path / f"{name}.csv") for name in "ab")
    a.update()
    b.update()
    _, columns = difference(a, b, ["u.y"], 1000)
    assert np.array_equal(columns, [[0.0, 0.5, 0.5, 1.0], [0.0, 1.0, 0.0, 1.0]])


def test_events_between_units_are_told_from_those_of_units(studio: Studio) -> None:
    for file, kinds in (
        ("traffic_light.toml", {"lamp": "unit", "light.lamp": "unit", "officer.command": "unit"}),
        ("two_mass/fixed.toml", {"masses": "scenario", "ceiling": "scenario"}),
    ):
        run = studio.start(file)
        studio.finished(run)
        events = studio.ask("GET", f"/api/runs/{run}/events")["events"]
        assert {one["name"]: one["kind"] for one in events} == kinds


def test_few_points_show_all_extremes_and_jumps() -> None:
    time_ = np.sort(np.concatenate([np.linspace(0.0, 10.0, 100_001), [3.0, 7.0]]))
    wave = np.sin(40.0 * time_)
    step = np.where(np.arange(len(time_)) > np.searchsorted(time_, 3.0), 1.0, 0.0)
    spike = np.zeros(len(time_))
    spike[54_321] = 9.0
    chosen = thinned(time_, [wave, step, spike], 1000)
    assert chosen is not None
    assert len(chosen) < 4000
    assert {0, 54_321, len(time_) - 1} <= set(chosen.tolist())
    jump = int(np.searchsorted(time_, 3.0))
    assert {jump, jump + 1} <= set(chosen.tolist())
    assert np.all(np.diff(chosen) > 0)
    edges = [*np.linspace(0.0, 10.0, 251)[:-1], 10.1]
    for first, last in pairwise(edges):  # in every stretch of time, the extremes are drawn
        inside = (time_ >= first) & (time_ < last)
        drawn = wave[chosen][(time_[chosen] >= first) & (time_[chosen] < last)]
        assert drawn.max() == wave[inside].max()
        assert drawn.min() == wave[inside].min()
    assert thinned(time_[:1000], [wave[:1000]], 1000) is None


def test_uneven_steps_keep_their_shape() -> None:
    """Few rows in most of the time, and very many in a short part: the few are all kept."""
    time_ = np.concatenate([np.linspace(0, 9, 100), np.linspace(9, 9.001, 100_000)[1:], [10.0]])
    value = np.concatenate([np.random.default_rng(1).normal(size=100), np.zeros(99_999), [5.0]])
    chosen = thinned(time_, [value], 2000)
    assert chosen is not None
    assert set(range(100)) <= set(chosen.tolist())
    nothing = np.full(len(time_), np.nan)
    assert thinned(time_, [nothing], 100) is not None


def test_columns_are_aligned() -> None:
    header, columns = unpacked(packed({"rows": 2, "columns": ["time", "ä.x"]}, [np.arange(2.0), np.ones(2)]))
    assert header["columns"] == ["time", "ä.x"]
    assert columns.tolist() == [[0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("query", ["signals=mass.y", "points=x", "from=a", "signals=" + "a," * 300])
def test_wrong_questions_about_data(studio: Studio, query: str) -> None:
    run = studio.start("spring.toml")
    studio.finished(run)
    status, _, body = studio.request("GET", f"/api/runs/{run}/data?{query}")
    assert status == 400
    assert json.loads(body)["error"]


def test_a_window(studio: Studio) -> None:
    run = studio.start("spring.toml")
    studio.finished(run)
    header, columns = studio.data(run, ["mass.x"], **{"from": 1.0, "to": 2.0})
    assert columns[0, 0] == pytest.approx(0.99)  # and the rows right before and after it
    assert columns[0, -1] == pytest.approx(2.01)
    assert header["total"] == 103
