"""The runs of a project: started, watched, kept as files, found again.

A run is a journal in ``runs/`` and a note of what was run. The journal says all there is to say about rows,
events and the end; so a result that somebody else has put there is a run, too, and nothing that a killed
server has seen is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import re
import signal
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from upbeat.core.atomic import replace_file
from upbeat.core.errors import FileProblem, InvalidInput, UpbeatError, suggest
from upbeat.scenario.files.toml import Lines
from upbeat.studio.processes import Child, Died, Spare
from upbeat.studio.project import OWN, RUNS, Missing, Project
from upbeat.studio.rows import Rows, steps_data
from upbeat.trace.log import Outcome
from upbeat.trace.trace import read

MAX_RUNNING = 16
PATIENCE = 5.0
"""Seconds for a run that is to stop, before it is ended at once."""
SUFFIXES = (".journal", ".parquet", ".csv")
OPEN_AT_ONCE = 6
"""So many results that have ended stay in memory, those that were asked for last."""
MAX_STEPS = 100_000
"""So many entries about steps are kept of a run that goes on; of the older ones then every other one."""
_ELSEWHERE = "the run goes on somewhere else: in another studio, or in upbeat run"
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,99}\Z", re.ASCII)
_BESIDE = (".events.csv", ".events.parquet", ".columns.csv")
_OVER = ("ended", "failed", "stopped")


@dataclass
class RunOf:
    """One run: what was run, how it goes, and its rows."""

    id: str
    path: Path
    file: str = ""
    text: str = ""
    started: str = ""
    state: str = "starting"
    time: float = 0.0
    start: float = 0.0
    until: float | None = None
    wall: float = 0.0
    outcome: str | None = None
    said: str | None = None
    failure: dict[str, Any] | None = None
    settable: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    engine: str | None = None
    real_time: float | None = None
    checkpoints: str = ""
    asked: dict[str, Any] = field(default_factory=dict)
    rows: Rows = field(init=False)
    child: Child | None = None
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 0
    watchers: int = 0
    began_at: float = 0.0
    foreign: list[str] = field(default_factory=list)
    answers: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    used: float = 0.0
    cpu: float | None = None
    """Seconds of the processor that it has taken, from its first step on."""
    at: float = 0.0
    """When the latest rows were handed over, by the clock."""
    known: tuple[int, int, int] = (0, 0, 0)
    """Columns, rows and events of a result that is not in memory."""
    stopping: bool = False

    def __post_init__(self) -> None:
        self.rows = Rows(self.path)

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in _OVER

    def touch(self) -> None:
        """Something about it is different now."""
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()

    def about(self, project: Project) -> dict[str, Any]:
        """What a list says of it."""
        wall = self.wall
        if not self.over and self.began_at:
            wall = time.monotonic() - self.began_at
        return {
            "id": self.id,
            "file": self.file,
            "started": self.started,
            "state": self.state,
            "time": self.time,
            "start": self.start,
            "until": self.until,
            "wall": wall,
            "outcome": self.outcome,
            "said": self.said,
            "failure": self.failure,
            "result": project.name(self.path),
            "signals": len(self.rows.columns) or self.known[0],
            "rows": self.rows.count or self.known[1],
            "kept": True,
            "engine": self.engine,
            "real_time": self.real_time,
            "resumable": self.over and bool(self.text) and (_checkpoint(project, self.id)).exists(),
        }

    def whole(self, project: Project) -> dict[str, Any]:
        """All that is said of it."""
        return {
            **self.about(project),
            "signals": self.rows.signals(),
            "events": self.rows.happened,
            "settable": [] if self.over else self.settable,
            "notes": self.notes,
            "scenario": self.text,
            "checkpoints": self.checkpoints,
            "log": self.log[-200:],
            "cpu": self.cpu,
        }


def _note(project: Project, name: str) -> Path:
    return project.folder / OWN / "runs" / f"{name}.json"


def _checkpoint(project: Project, name: str) -> Path:
    return project.folder / RUNS / f"{name}.checkpoint"


class Runs:
    """All runs of a project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._runs: dict[str, RunOf] = {}
        self._processes = Spare("run", project.folder)
        self._finding = threading.Lock()
        self._questions = itertools.count(1)

    # ---------------------------------------------------------------- finding

    def find(self) -> None:
        """Look which results there are in the folder, those of former sessions included."""
        with self._finding:
            self._find()

    def _find(self) -> None:
        folder = self._project.folder / RUNS
        try:
            there = {
                path.stem: path
                for suffix in reversed(SUFFIXES)
                for path in sorted(folder.glob(f"*{suffix}"))
                if _ID.match(path.stem) and not path.stem.endswith(".events") and not path.is_symlink()
                if not path.stem.endswith(".columns")
            }
        except OSError:
            there = {}
        for name, path in there.items():
            if name not in self._runs:
                with contextlib.suppress(UpbeatError, OSError):
                    self._runs[name] = self._found(name, path)
        for name, run in list(self._runs.items()):
            if run.over and name not in there and not self._noted(name):
                self._runs.pop(name, None)

    def _noted(self, name: str) -> bool:
        return _note(self._project, name).exists()

    def _found(self, name: str, path: Path) -> RunOf:
        """A result of which only its files are known."""
        found = RunOf(name, path, state="ended")
        try:
            data = json.loads(_note(self._project, name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            data = {}
        if isinstance(data, dict):
            for key, kind in (
                ("file", str),
                ("text", str),
                ("started", str),
                ("outcome", str),
                ("said", str),
                ("engine", str),
                ("notes", list),
            ):
                if isinstance(data.get(key), kind):
                    setattr(found, key, data[key])
            for key in ("wall", "until", "time", "start", "real_time"):
                if isinstance(data.get(key), (int, float)):
                    setattr(found, key, float(data[key]))
            if isinstance(data.get("failure"), dict):
                found.failure = data["failure"]
            if isinstance(data.get("asked"), dict):
                found.asked = data["asked"]
            if isinstance(data.get("state"), str):
                found.state = data["state"]
            if isinstance(data.get("log"), list):
                found.log = [str(line) for line in data["log"]]
        if not found.started:
            found.started = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        match data:
            case {"size": size, "known": [int(), int(), int()] as known} if size == path.stat().st_size:
                found.known = (known[0], known[1], known[2])  # nobody has written to it since it ended
            case _:
                self._complete(found)
        return found

    def _complete(self, run: RunOf) -> None:
        """What the result file itself says about how it ended."""
        rows = run.rows
        rows.update()
        if rows.count:
            run.time = float(rows.time[-1])
            run.start = float(rows.time[0])
            run.until = run.until if run.until is not None else run.time
        ending = rows.ending
        if ending is not None:
            run.outcome, run.said = ending.outcome.name, ending.outcome.value
            run.notes = [*ending.notes, *map(str, ending.info.get("warnings", ()))]
            run.wall = run.wall or float(ending.info.get("wall_seconds", 0.0))
            run.engine = run.engine or ending.info.get("engine")
            run.state = _state(ending.outcome)
            if ending.outcome is Outcome.FAILED and run.failure is None:
                run.failure = {"message": ending.info.get("failure", ""), "unit": None, "line": None}
        elif not run.over:  # of a server that was killed, or of another one
            run.outcome, run.said, run.state = Outcome.CUT_OFF.name, Outcome.CUT_OFF.value, "stopped"
            if _written(run.path):
                run.said = _ELSEWHERE
        run.known = len(rows.columns), rows.count, rows.happened
        run.rows = Rows(run.path)

    def all(self) -> list[dict[str, Any]]:
        """All runs, the latest first."""
        self.find()
        runs = sorted(self._runs.values(), key=lambda run: (run.started, run.id), reverse=True)
        return [run.about(self._project) for run in runs]

    def get(self, name: object) -> RunOf:
        """A run by its name."""
        if name not in self._runs:
            self.find()
        if not isinstance(name, str) or name not in self._runs:
            raise Missing(f"there is no run '{name}'. {suggest(str(name), self._runs, 'runs')}")
        run = self._runs[name]
        run.used = time.monotonic()
        if run.over and not run.rows.count:
            run.rows.update()
        self._let_go(run)
        return run

    def latest(self, run: RunOf) -> RunOf:
        """The same run, which may have gone on from its checkpoint meanwhile."""
        return self._runs.get(run.id, run)

    def _let_go(self, kept: RunOf) -> None:
        """Results that nobody has looked at for long are read again when somebody does."""
        loaded = [run for run in self._runs.values() if run.over and run.rows.count and run is not kept]
        for run in sorted(loaded, key=lambda run: run.used)[: max(0, len(loaded) - OPEN_AT_ONCE)]:
            if not run.watchers:
                run.rows = Rows(run.path)

    # ---------------------------------------------------------------- starting and telling

    async def start(self, asked: Mapping[str, Any]) -> RunOf:
        """A new run, or one that goes on from its checkpoint."""
        if sum(not run.over for run in self._runs.values()) >= MAX_RUNNING:
            raise InvalidInput(f"{MAX_RUNNING} runs are going on: stop one of them first")
        if asked.get("resume"):
            run = self._again(asked)
        else:
            run = self._fresh(asked)
        folder = self._project.folder / RUNS
        self._project.own()
        try:
            folder.mkdir(exist_ok=True)
            _note(self._project, run.id).parent.mkdir(exist_ok=True)
        except OSError as error:
            raise FileProblem(f"cannot keep runs in '{RUNS}': {error.strerror}") from None
        self._runs[run.id] = run
        self._write_note(run)
        run.began_at = time.monotonic()
        run.child = await self._processes.take()
        run.task = asyncio.create_task(self._follow(run, bool(asked.get("resume"))))
        return run

    def _fresh(self, asked: Mapping[str, Any]) -> RunOf:
        path, text = self._project.path(asked.get("path")), asked.get("text")
        if not isinstance(text, str):
            raise InvalidInput("text must be that of the scenario")
        wanted = {key: asked.get(key) for key in ("until", "real_time", "engine", "overrides", "paused")}
        _check(wanted)
        stem = re.sub(r"[^\w-]", "_", path.stem, flags=re.ASCII)[:60] or "run"
        taken = {file.stem for file in (self._project.folder / RUNS).glob(f"{stem}-*")} | self._runs.keys()
        name = next(one for number in itertools.count(1) if (one := f"{stem}-{number}") not in taken)
        made = RunOf(name, self._project.folder / RUNS / f"{name}.journal", self._project.name(path), text)
        made.asked = wanted
        made.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        return made

    def _again(self, asked: Mapping[str, Any]) -> RunOf:
        before = self.get(asked["resume"])
        if not before.over:
            raise InvalidInput("the run is still going on")
        if _written(before.path):
            raise InvalidInput(_ELSEWHERE)
        if not _checkpoint(self._project, before.id).exists():
            raise InvalidInput(f"the run '{before.id}' has no checkpoint to go on from")
        run = RunOf(before.id, before.path, before.file, before.text, before.started)
        run.asked = {**before.asked, "paused": asked.get("paused")}
        if "real_time" in asked:
            run.asked["real_time"] = asked["real_time"]
        _check(run.asked)
        run.watchers = before.watchers
        run.rows.waiting = True
        before.touch()
        return run

    async def _follow(self, run: RunOf, resumed: bool) -> None:
        """Listen to a run until it has ended."""
        child = run.child
        assert child is not None
        with contextlib.suppress(Died):
            await child.send(
                {
                    **run.asked,
                    "file": str(self._project.folder / run.file),
                    "text": run.text,
                    "root": str(self._project.folder),
                    "python": self._project.python,
                    "out": str(run.path),
                    "checkpoint": str(_checkpoint(self._project, run.id)),
                    "resume": resumed,
                    "watched": run.watchers > 0,
                }
            )
        try:
            while (message := await child.receive()) is not None:
                self._hear(run, message)
                if run.outcome is not None:
                    break
            if run.outcome is not None:
                child.close_input()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(child.ended(), PATIENCE)
            else:
                self._died(run, await child.ended())
        finally:
            child.kill()
        run.rows.waiting = False
        await asyncio.to_thread(run.rows.update)
        if run.failure is not None and run.rows.count:  # it could not say how far it came
            run.time = float(run.rows.time[-1])
        run.wall = time.monotonic() - run.began_at
        run.state = _state(Outcome.named(run.outcome or ""))
        run.log = list(child.log)
        run.child = None
        for answer in run.answers.values():
            if not answer.done():
                answer.set_result({"error": "the run has ended", "hint": None})
        await asyncio.to_thread(self._write_note, run)
        run.touch()

    def _hear(self, run: RunOf, message: Mapping[str, Any]) -> None:
        match message.get("kind"):
            case "began":
                for key in (
                    "settable",
                    "notes",
                    "start",
                    "until",
                    "engine",
                    "real_time",
                    "checkpoints",
                    "foreign",
                ):
                    setattr(run, key, message[key])
                run.rows.waiting = False
                run.time = message["time"]
                run.state = "paused" if run.asked.get("paused") else "running"
            case "far":
                run.time, run.state = message["time"], message["state"]
                run.at = message["at"]
                fresh = message.get("steps") or []
                if fresh and run.steps and run.steps[-1]["t"] == fresh[0]["t"]:  # which has grown
                    run.steps.pop()
                run.steps += fresh
                if len(run.steps) > MAX_STEPS:
                    run.steps = run.steps[: MAX_STEPS // 2 : 2] + run.steps[MAX_STEPS // 2 :]
            case "answer":
                answer = run.answers.pop(message["number"], None)
                if answer is not None and not answer.done():
                    answer.set_result(dict(message))
            case "ended":
                run.outcome, run.said = message["outcome"], message["said"]
                run.time = message.get("time", run.time)
                run.failure, run.cpu = message.get("failure"), message.get("cpu")
                run.notes = [*message.get("notes", run.notes), *message.get("warnings", ())]
        run.touch()

    def _died(self, run: RunOf, status: int) -> None:
        """The process has ended without a word: stopped by the server, or by what a unit has done to it."""
        if run.stopping:
            run.outcome, run.said = Outcome.CUT_OFF.name, Outcome.CUT_OFF.value
            return
        how = f"exit status {status}"
        if status < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-status).name
        run.outcome, run.said = Outcome.FAILED.name, Outcome.FAILED.value
        suspects = run.foreign or _foreign(run.text)
        unit = suspects[0] if len(suspects) == 1 else None
        whose = f"the unit '{unit}'" if unit else "one of the units " + ", ".join(suspects[:10])
        blame = f": {whose} is not made of equations, and ran in it" if suspects else ""
        run.failure = {
            "message": f"the process of the run has died ({how}){blame}. The results so far are kept. In a "
            'process of its own (isolation = "process") such a unit would be named',
            "unit": unit,
            "line": Lines(run.text).of(("units", unit)) if unit else None,
        }

    def _write_note(self, run: RunOf) -> None:
        data = {
            "file": run.file, "text": run.text, "started": run.started, "state": run.state, "time": run.time,
            "start": run.start, "until": run.until, "wall": run.wall, "outcome": run.outcome,
            "said": run.said, "failure": run.failure, "real_time": run.real_time, "asked": run.asked,
            "log": run.log[-200:], "engine": run.engine, "notes": run.notes,
        }  # fmt: skip
        if run.over:
            with contextlib.suppress(OSError):
                data["size"] = run.path.stat().st_size
            data["known"] = [len(run.rows.columns), run.rows.count, run.rows.happened]
        with contextlib.suppress(FileProblem):  # a run does not fail for its note
            replace_file(_note(self._project, run.id), json.dumps(data).encode())

    # ---------------------------------------------------------------- commanding

    async def do(self, run: RunOf, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Pause, resume, step, stop, set, make a checkpoint."""
        what = asked.get("do")
        known = ("pause", "resume", "step", "stop", "set", "checkpoint")
        if what not in known:
            raise InvalidInput(f"a run cannot {what!r}. {suggest(str(what), known, 'commands')}")
        child = run.child
        if run.over or child is None:
            raise InvalidInput(f"the run has ended: {run.said or run.state}")
        if what == "stop":
            run.stopping = True
            with contextlib.suppress(Died):
                await child.send({"do": "stop"})
            assert run.task is not None
            try:
                await asyncio.wait_for(asyncio.shield(run.task), PATIENCE)
            except TimeoutError:  # a step that does not end
                child.kill()
                await run.task
            return {"state": run.state, "time": run.time}
        if what in ("set", "checkpoint"):
            number = next(self._questions)
            answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            run.answers[number] = answer
            await child.send(
                {"do": what, "name": asked.get("name"), "value": asked.get("value"), "number": number}
            )
            try:
                found = await asyncio.wait_for(answer, PATIENCE)
            except TimeoutError:
                raise InvalidInput("the run is in the middle of a step that takes long: try again") from None
            finally:
                run.answers.pop(number, None)
            if "error" in found:
                raise InvalidInput(found["error"])
            if what == "set":
                for one in run.settable:
                    if one["name"] == asked.get("name"):
                        one["value"] = asked.get("value")
                run.touch()
            return {"state": run.state, "time": found.get("time", run.time)}
        before = run.version
        await child.send({"do": what})
        with contextlib.suppress(TimeoutError):
            while run.version == before and not run.over:
                await asyncio.wait_for(run.changed.wait(), PATIENCE)
        return {"state": run.state, "time": run.time}

    async def watch(self, run: RunOf, by: int) -> None:
        """Somebody begins to look (1), or has gone (-1)."""
        run.watchers += by
        if run.child is not None and run.watchers in (0, by):
            with contextlib.suppress(Died):
                await run.child.send({"do": "watch", "on": run.watchers > 0})

    async def remove(self, run: RunOf) -> None:
        """Forget a run, with its files."""
        if not run.over:
            await self.do(run, {"do": "stop"})
        if _written(run.path):
            raise InvalidInput(f"{_ELSEWHERE}: stop it there")
        self._runs.pop(run.id, None)
        stem = run.path.with_suffix("")
        for path in (
            run.path, _note(self._project, run.id), _checkpoint(self._project, run.id),
            *(stem.with_name(f"{stem.name}{end}") for end in _BESIDE),
        ):  # fmt: skip
            path.unlink(missing_ok=True)

    async def warm(self) -> None:
        """Have a process ready for the first run."""
        await self._processes.warm()

    async def close(self) -> None:
        """Stop all that run; what they have recorded stays."""
        await self._processes.close()
        going = [run for run in self._runs.values() if not run.over and run.child is not None]
        for run in going:
            run.stopping = True
        await asyncio.gather(*(run.child.stop(2.0) for run in going if run.child is not None))
        await asyncio.gather(*(run.task for run in going if run.task is not None), return_exceptions=True)

    # ---------------------------------------------------------------- looking

    def step_sizes(self, run: RunOf) -> list[dict[str, Any]]:
        """The steps of a run that has ended, with their reasons; of one that goes on, the latest."""
        ending = run.rows.ending
        if ending is not None and len(ending.steps):
            return steps_data(ending.steps)
        if run.over and run.path.suffix != ".csv":
            with contextlib.suppress(UpbeatError):
                return steps_data(read(run.path).steps)
        return run.steps


def _written(path: Path) -> bool:
    """Whether another process is writing a result."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _foreign(text: str) -> list[str]:
    """The units of a scenario that are code of others, as far as its text tells."""
    try:
        content = tomllib.loads(text)
        tables = {name: {**content.get("models", {}).get(table.get("model"), {}), **table}
                  for name, table in content.get("units", {}).items()}  # fmt: skip
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []
    return [name for name, table in tables.items() if not {"file", "class", "function"}.isdisjoint(table)]


def _state(outcome: Outcome) -> str:
    if outcome is Outcome.FAILED:
        return "failed"
    return "ended" if outcome.ok or outcome in (Outcome.TOO_LATE, Outcome.UNKNOWN) else "stopped"


def _check(wanted: Mapping[str, Any]) -> None:
    """Refuse what cannot be meant, before a process is started for it."""
    for key in ("until", "real_time"):
        value = wanted.get(key)
        if (
            value is not None
            and value is not False
            and (isinstance(value, bool) or not isinstance(value, (int, float)))
        ):
            raise InvalidInput(f"{key} must be a number, not {value!r}")
    if not isinstance(wanted.get("engine"), str | None):
        raise InvalidInput("engine must be a name")
    if not isinstance(wanted.get("overrides"), dict | None):
        raise InvalidInput("overrides must be a table of values")
