"""Judgements under way: each is a process (`upbeat.studio.judging`), and ending it is cancelling it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from upbeat.core.errors import InvalidInput, suggest
from upbeat.studio.processes import Child, Died
from upbeat.studio.project import RUNS, Missing, Project
from upbeat.studio.runs import Runs

WHAT = (
    "stability", "map", "trust", "step", "schedule", "study", "report", "picture", "explain", "discover",
)  # fmt: skip
AT_ONCE = 4
KEPT = 50
"""So many results are kept, the latest."""
_FAR = re.compile(r"([\d,]+) of ([\d,]+)|t = (\S+) of (\S+)")


@dataclass
class Job:
    """One judgement."""

    id: str
    what: str
    state: str = "running"
    progress: float | None = None
    message: str = ""
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    child: Child | None = field(default=None, repr=False)
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def data(self) -> dict[str, Any]:
        """For the page."""
        found = {
            "id": self.id, "what": self.what, "state": self.state, "progress": self.progress,
            "message": self.message, "result": self.result,
        }  # fmt: skip
        return found if self.error is None else found | {"error": self.error}


class Jobs:
    """All judgements of a server, the latest ones with their results."""

    def __init__(self, project: Project, runs: Runs) -> None:
        self._project = project
        self._runs = runs
        self._jobs: dict[str, Job] = {}
        self._numbers = itertools.count(1)

    def get(self, name: str) -> Job:
        """One of them."""
        if name not in self._jobs:
            raise Missing(f"there is no job '{name}'. {suggest(name, self._jobs, 'jobs')}")
        return self._jobs[name]

    async def start(self, asked: Mapping[str, Any]) -> Job:
        """A new one."""
        what = asked.get("what")
        if what not in WHAT:
            raise InvalidInput(f"there is no judgement {what!r}. {suggest(str(what), WHAT, 'judgements')}")
        if sum(job.state == "running" for job in self._jobs.values()) >= AT_ONCE:
            raise InvalidInput(f"{AT_ONCE} judgements are under way: wait for one of them, or cancel it")
        question = self._question(asked)
        job = Job(str(next(self._numbers)), str(what))
        for old in [one for one in self._jobs.values() if one.state != "running"][: -KEPT or None]:
            del self._jobs[old.id]
        self._jobs[job.id] = job
        job.child = await Child.start("job", self._project.folder)
        job.task = asyncio.create_task(self._follow(job, question))
        return job

    def _question(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        run = None if asked.get("run") is None else self._runs.get(asked["run"])
        text = asked.get("text") if run is None else run.text
        if not isinstance(text, str):
            raise InvalidInput("text must be that of the scenario")
        name = asked.get("path") if run is None or not run.file else run.file
        path = self._project.path(name) if name else self._project.folder / "scenario.toml"
        stem = path.stem if run is None else run.id
        shown = f"{RUNS}/{stem}.html"
        if asked["what"] == "report":
            self._project.path(shown).parent.mkdir(exist_ok=True)
        return {
            "what": asked["what"],
            "file": str(path),
            "text": text,
            "root": str(self._project.folder),
            "python": self._project.python,
            "options": asked.get("options") or {},
            "others": {one.id: str(one.path) for one in map(self._runs.get, asked.get("others") or ())},
            "result": None if run is None else str(run.path),
            "name": stem,
            "out": str(self._project.folder / shown),
            "shown": shown,
        }

    async def _follow(self, job: Job, question: Mapping[str, Any]) -> None:
        child = job.child
        assert child is not None
        try:
            with contextlib.suppress(Died):
                await child.send(question)
            while (message := await child.receive()) is not None:
                match message.get("kind"):
                    case "far":
                        job.message = str(message["message"])
                        job.progress = _part(job.message)
                    case "done":
                        job.state, job.result, job.progress = "done", message["result"], 1.0
                    case "failed":
                        job.state = "failed"
                        job.error = {"error": message["error"], "hint": message.get("hint")}
                        job.message = message["error"]
            if job.state == "running":
                await child.ended()
                last = f": {child.log[-1]}" if child.log else ""
                job.state, job.message = "failed", f"the process of the judgement has died{last}"
                job.error = {"error": job.message, "hint": None}
        finally:
            child.kill()
            job.child = None

    async def remove(self, job: Job) -> None:
        """Cancel it, or forget its result."""
        self._jobs.pop(job.id, None)
        if job.child is not None:
            await job.child.stop(0.0)

    async def close(self) -> None:
        """Cancel all."""
        for job in list(self._jobs.values()):
            await self.remove(job)


def _part(text: str) -> float | None:
    """How far it is, where the words say so."""
    found = _FAR.search(text)
    if found is None:
        return None
    try:
        done, of = (
            float(part.replace(",", "")) for part in (found.groups()[:2] if found[1] else found.groups()[2:])
        )
    except ValueError:
        return None
    return min(done / of, 1.0) if of > 0 else None
