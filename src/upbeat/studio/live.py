"""A run on the screen while it goes on: what is new, at most so many times a second.

Each page has its own `Live`, which takes what is new from the run's file at the pace at which the page takes
it. A page that is slow, or has fallen asleep, misses frames; the run knows nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from upbeat.core.errors import UpbeatError
from upbeat.studio.child import finite
from upbeat.studio.project import Project
from upbeat.studio.rows import MAX_SIGNALS, packed
from upbeat.studio.runs import RunOf, Runs

FRAME = 1.0 / 30.0
"""Seconds from one frame to the next, at least."""
STATE = 0.1
"""Seconds after which the time that is reached is told again, where nothing else has changed."""
AT_ONCE = 5000
"""Events in one message."""


class Live:
    """One page that looks at one run."""

    def __init__(self, runs: Runs, project: Project, run: RunOf, socket: WebSocket) -> None:
        self._runs = runs
        self._project = project
        self._run = run
        self._socket = socket
        self._signals: list[str] = []
        self._points = 2000
        self._rows = self._events = self._steps = self._logged = 0
        self._told: tuple[Any, ...] = ()
        self._told_at = 0.0
        self._known_steps: tuple[int, float] = (0, 0.0)
        self._new = asyncio.Event()

    async def serve(self) -> None:
        """Until the page goes away."""
        await self._runs.watch(self._run, 1)
        listening = asyncio.create_task(self._listen())
        try:
            await self._tell(listening)
        except (WebSocketDisconnect, RuntimeError, OSError):
            pass  # it has gone
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await listening
            await self._runs.watch(self._run, -1)

    async def _listen(self) -> None:
        """What the page wants to see."""
        while True:
            try:
                message = await self._socket.receive_text()
            except (WebSocketDisconnect, RuntimeError, KeyError):
                return
            try:
                wanted = json.loads(message)
                signals, points = wanted.get("signals", self._signals), wanted.get("points", self._points)
                if not isinstance(signals, list) or not all(isinstance(name, str) for name in signals):
                    raise ValueError
                if isinstance(points, bool) or not isinstance(points, int) or len(signals) > MAX_SIGNALS:
                    raise ValueError
            except (ValueError, AttributeError, RecursionError):
                await self._send(
                    {"kind": "error", "error": 'a subscription is {"signals": [names], "points": a number}'}
                )
                continue
            self._signals, self._points = list(signals), min(max(points, 4), 100_000)
            self._rows = 0
            self._new.set()

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(json.dumps(finite(message), default=str, allow_nan=False))

    async def _tell(self, listening: asyncio.Task[None]) -> None:
        while not listening.done():
            began = time.monotonic()
            run = self._runs.latest(self._run)
            if run is not self._run:  # it goes on from its checkpoint
                self._run, self._rows, self._events, self._steps, self._logged = run, 0, 0, 0, 0
            changed, over = run.changed, run.over
            await asyncio.to_thread(run.rows.update)
            await self._state()
            await self._frame()
            await self._others()
            if over and run.over:
                await self._wait(self._new.wait(), changed.wait(), listening, timeout=None)
            else:
                await self._wait(self._new.wait(), changed.wait(), listening, timeout=0.25)
                await asyncio.sleep(max(0.0, FRAME - (time.monotonic() - began)))
            self._new.clear()

    @staticmethod
    async def _wait(*what: Any, timeout: float | None) -> None:
        """Until one of these happens."""
        tasks = [asyncio.ensure_future(one) for one in what]
        try:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in tasks[:-1]:  # the last one is not ours
                one.cancel()

    async def _state(self) -> None:
        run = self._run
        values = tuple(str(one["value"]) for one in run.settable)
        known = (run.state, run.outcome, len(run.settable), len(run.rows.columns), len(run.notes), values)
        if known != self._told:
            self._told, self._told_at = known, time.monotonic()
            whole = await asyncio.to_thread(run.whole, self._project)
            whole.pop("log")
            await self._send({"kind": "state", **whole})
        elif time.monotonic() - self._told_at >= STATE and not run.over:
            self._told_at = time.monotonic()
            about = run.about(self._project)
            about.pop("signals")
            await self._send({"kind": "state", **about})

    async def _frame(self) -> None:
        """The rows that are new."""
        run, signals, points = self._run, self._signals, self._points
        count = run.rows.count
        if not signals or count <= self._rows or not run.rows.columns:
            return
        first, at = self._rows, run.at
        known = {column.name for column in run.rows.columns}
        names = [name for name in signals if name in known]
        try:
            header, columns = await asyncio.to_thread(run.rows.part, names, first, count, points)
        except UpbeatError:
            return
        if self._signals != signals or first != self._rows:  # asked for something else meanwhile
            return
        self._rows = count
        start = float(columns[0][0]) if len(columns[0]) else None
        header = {"kind": "rows", "from": start, "reset": first == 0, **header}
        await self._socket.send_bytes(packed(header, columns))
        await self._send({"kind": "sent", "at": at, "rows": count})

    async def _others(self) -> None:
        """Events, steps and lines of the log."""
        run = self._run
        while self._events < run.rows.happened:
            last = min(run.rows.happened, self._events + AT_ONCE)
            events = await asyncio.to_thread(run.rows.events, self._events, last)
            await self._send({"kind": "events", "events": events, "reset": self._events == 0})
            self._events = last
        if run.over and self._steps >= 0:
            self._steps = -1
            steps = await asyncio.to_thread(self._runs.step_sizes, run)
            if steps:
                await self._send({"kind": "steps", "steps": steps, "reset": True})
        elif self._steps >= 0 and run.steps and (len(run.steps), run.steps[-1]["to"]) != self._known_steps:
            fresh = run.steps[max(self._steps - 1, 0) :]
            reset, self._steps = self._steps == 0, len(run.steps)
            self._known_steps = (len(run.steps), run.steps[-1]["to"])
            await self._send({"kind": "steps", "steps": fresh, "reset": reset})
        lines = run.log if run.child is None else list(run.child.log)
        total = len(lines) if run.child is None else run.child.logged
        if total > self._logged:
            fresh_lines = lines[-(total - self._logged) :]
            reset, self._logged = self._logged == 0, total
            await self._send({"kind": "log", "lines": fresh_lines, "reset": reset})
