"""Processes of units always end and leave nothing behind; on one core, too, and without the compiled core."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import upbeat as up
from isolated_models import counter, echo
from upbeat.core.scratch import sweep
from upbeat.units.process import isolated

SHARED = Path("/dev/shm")
MASS = up.Ode(states={"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"], outputs=["x"])


def children(of: int) -> set[int]:
    """The processes that this one has started, zombies included."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # gone meanwhile
            if int(after_name[1]) == of:
                found.add(int(entry.name))
    return found


def runs(process: int) -> bool:
    """Whether it has not ended: what has, may wait for somebody who asks how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def files() -> set[str]:
    """What is open here: pipes, memory, temporary files."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue
    return found


def shared_memory() -> set[Path]:
    """What is in the folder of shared memory, but for what joblib keeps there in tests beside this one."""
    return {entry for entry in SHARED.iterdir() if not entry.name.startswith("sem.loky-")}


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files; and nothing is left: no process, no open file, nothing in the folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before, shared = (children(os.getpid()), files()), shared_memory()
    yield tmp_path
    assert (children(os.getpid()), files()) == before
    assert shared_memory() <= shared
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("deed", ["", "abort", "hang", "raise:no"])
def test_nothing_is_left(engine: str, deed: str, temporary: Path) -> None:
    model = up.Isolated(counter(deed, at=2), deadline=0.5)
    scenario = up.Scenario({"one": model, "two": up.Isolated(MASS)})
    run = up.start(scenario, pace=0.5, until=2.0, engine=engine)
    try:
        run.finish()
        assert not deed
    except up.UnitError:
        assert deed


def test_a_run_that_is_left_halfway(engine: str, temporary: Path) -> None:
    with up.start(up.Scenario({"one": up.Isolated(MASS)}), pace=0.5, until=2.0, engine=engine) as run:
        run.step()


def test_units_made_before_one_that_fails(engine: str, temporary: Path) -> None:
    import isolated_models

    scenario = up.Scenario({"one": up.Isolated(MASS), "two": up.Isolated(isolated_models.broken())})
    with pytest.raises(up.UnitError, match="no licence"):
        up.simulate(scenario, pace=0.5, until=2.0, engine=engine)


PARENT = """
import sys, time
import upbeat as up
from isolated_models import counter
scenario = up.Scenario({"a": up.Isolated(counter("hang in C"), deadline=600.0), "b": up.Isolated(counter())})
run = up.start(scenario, pace=0.25, until=5.0, engine=sys.argv[1])
print("up", flush=True)
if sys.argv[2] == "step":
    run.finish()
time.sleep(600)
"""


def started(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    return parent


@pytest.mark.parametrize("doing", ["wait", "step"])
def test_processes_end_when_the_run_is_killed(engine: str, doing: str, tmp_path: Path) -> None:
    parent = started(engine, doing, folder=tmp_path)
    with parent:
        if doing == "step":
            time.sleep(1.0)  # so that the unit hangs
        units = children(parent.pid)
        assert len(units) == 2
        parent.kill()
        parent.wait()
        for _ in range(200):
            left = {unit for unit in units if runs(unit)}
            if not left:
                break
            time.sleep(0.1)
        assert not left
    sweep(tmp_path)  # as the next run does: those that were killed could not
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_twice_ends_a_run_whose_unit_hangs(engine: str, tmp_path: Path) -> None:
    parent = started(engine, "step", folder=tmp_path)
    with parent:
        time.sleep(1.0)
        units = children(parent.pid)
        parent.send_signal(signal.SIGINT)
        time.sleep(0.3)
        parent.send_signal(signal.SIGINT)
        _, errors = parent.communicate(timeout=30)
        # The native engine gives up the step, and the run ends in order; the interpreter is inside of it.
        assert ("Interrupted: interrupted at" if engine == "native" else "KeyboardInterrupt") in errors
        assert not [unit for unit in units if Path(f"/proc/{unit}").exists()]
    assert list(tmp_path.iterdir()) == []


def test_a_single_core_is_enough(engine: str) -> None:
    code = f"""
        import os
        os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
        import upbeat as up
        mass = up.Isolated(up.Ode(**{MASS.to_spec()!r}))
        scenario = up.Scenario({{"a": mass, "b": mass}}, {{"a.F": "b.x", "b.F": "a.x"}})
        print(up.simulate(scenario, pace=0.1, until=5.0, engine="{engine}")["a.x"].tobytes().hex())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=True
    )
    scenario = up.Scenario({"a": MASS, "b": MASS}, {"a.F": "b.x", "b.F": "a.x"})
    assert bytes.fromhex(done.stdout) == up.simulate(scenario, pace=0.1, until=5.0)["a.x"].tobytes()


# -------------------------------------------------------------------- without the compiled core


@pytest.fixture
def without_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "has_core", lambda: False)


@pytest.mark.usefixtures("without_core")
class TestThroughPipes:
    def test_results_are_the_same(self, temporary: Path) -> None:
        scenario = up.Scenario({"a": MASS, "b": MASS}, {"a.F": "b.x", "b.F": "a.x"})
        settings = {"pace": 0.1, "until": 1.0, "engine": "interpret", "coupling": up.Iterated()}
        here = up.simulate(scenario, **settings)
        there = up.simulate(scenario, isolation="process", **settings)
        assert here["a.x"].tobytes() == there["a.x"].tobytes()

    @pytest.mark.parametrize(
        ("deed", "words"),
        [
            ("abort", "its process died of signal 6 (SIGABRT)"),
            ("hang", "no answer within 0.5 s (hung); its process was killed"),
            ("raise:boom", "ValueError: boom"),
        ],
    )
    def test_failures_are_told(self, deed: str, words: str, temporary: Path) -> None:
        scenario = up.Scenario({"ball": up.Isolated(counter(deed), deadline=0.5)})
        with pytest.raises(up.UnitError) as caught:
            up.simulate(scenario, pace=0.25, until=5.0, engine="interpret")
        assert caught.value.reason == words
        assert caught.value.trace is not None
        assert len(caught.value.trace.time) == 6

    def test_strings_travel(self, temporary: Path) -> None:
        kinds = {"s": {"kind": "string", "value": "grün"}, "v": {"size": 2, "value": [1.0, -0.0]}}
        connections = {f"b.in_{name}": f"a.out_{name}" for name in kinds}
        model = up.Isolated(echo(**kinds))
        with up.start(
            up.Scenario({"a": model, "b": model}, connections), pace=1.0, until=2.0, engine="interpret"
        ) as run:
            run.step()
            run.step()
            assert (run["b.out_s"], repr(run["b.out_v"])) == ("grün", "(1.0, -0.0)")

    def test_restarts_are_refused(self) -> None:
        scenario = up.Scenario({"ball": up.Isolated(counter(), restart=1)})
        with pytest.raises(up.UnitError, match="restart needs the compiled part of Upbeat"):
            up.simulate(scenario, pace=0.25, until=5.0, engine="interpret")


FROM_ELSEWHERE = """
import sys
sys.path[:0], sys.executable = sys.argv[1:3], sys._base_executable
import upbeat
upbeat.__path__.append(sys.argv[3])
import upbeat as up
scenario = up.Scenario({"a": up.Isolated(up.Ode(states={"x": "-x"}, start={"x": 1.0}, outputs=["x"]))})
print(len(up.simulate(scenario, until=1.0, step=0.25, engine="native")))
"""


def test_the_core_is_found_where_the_run_has_found_it(tmp_path: Path) -> None:
    """The package by a path, its core by another one, and neither is known to a new Python."""
    core = pytest.importorskip("upbeat._native").__file__
    source = Path(up.__file__).parent
    (tmp_path / "upbeat").symlink_to(source, target_is_directory=True)
    numpy = Path(__import__("numpy").__file__).parents[1]
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        FROM_ELSEWHERE,
        str(tmp_path),
        str(numpy),
        str(Path(core).parent),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("5", "")
