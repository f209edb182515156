"""Child processes seen from the server: started, asked, and ended with all that they have started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upbeat.core.errors import UpbeatError
from upbeat.studio.child import LENGTH
from upbeat.studio.project import Project

LARGEST = 1 << 28
PATIENCE = 60.0
"""Seconds for an answer about a scenario. Somebody is waiting for it, and may have gone on typing."""


class Died(UpbeatError):
    """A process has ended without an answer."""


class Child:
    """A process of `upbeat.studio.child`, with its own group of processes, and the lines of its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.log: deque[str] = deque(maxlen=1000)
        self.logged = 0
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, what: str, folder: Path) -> Child:
        """A process that waits for its first message."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "upbeat.studio.child", what,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=folder, start_new_session=True, limit=1 << 16,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"},
        )  # fmt: skip
        return cls(process)

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    async def _listen(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        rest = b""
        while data := await stream.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._note(line)
            rest = rest[-10_000:]
        self._note(rest)

    def _note(self, line: bytes) -> None:
        if line.strip():
            self.log.append(line.decode("utf-8", "replace").rstrip()[:2000])
            self.logged += 1

    async def send(self, message: Mapping[str, Any]) -> None:
        """Hand over a message; `Died` if nobody is there."""
        stream = self._process.stdin
        assert stream is not None
        data = json.dumps(message).encode()
        try:
            stream.write(LENGTH.pack(len(data)) + data)
            await stream.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise Died("the process has ended") from None

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the process has ended."""
        stream = self._process.stdout
        assert stream is not None
        try:
            length = LENGTH.unpack(await stream.readexactly(LENGTH.size))[0]
            if length > LARGEST:
                return None
            found: dict[str, Any] = json.loads(await stream.readexactly(length))
        except (asyncio.IncompleteReadError, ValueError):
            return None
        return found

    async def ended(self) -> int:
        """The exit status, once it has ended and all of its log is here."""
        status = await self._process.wait()
        with contextlib.suppress(TimeoutError):  # a process that it has left behind may hold the pipe
            await asyncio.wait_for(asyncio.shield(self._listening), 1.0)
        return status

    def close_input(self) -> None:
        """Ask it to come to an end."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End it and all processes that it has started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self, patience: float) -> None:
        """Let it end by itself, for so many seconds."""
        self.close_input()
        try:
            await asyncio.wait_for(self._process.wait(), patience)
        except TimeoutError:
            pass
        finally:
            self.kill()
            await self._process.wait()
            self._listening.cancel()


class Spare:
    """Processes for runs, one of which is always ready: loading all that a run needs takes longer than many
    runs."""

    def __init__(self, what: str, folder: Path) -> None:
        self._what, self._folder = what, folder
        self._ready: Child | None = None
        self._warming: asyncio.Task[None] | None = None

    async def take(self) -> Child:
        """A process; the next one gets ready meanwhile."""
        ready, self._ready = self._ready, None
        if ready is not None and not ready.alive:
            ready = None
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self._later())
        return ready if ready is not None else await Child.start(self._what, self._folder)

    async def _later(self) -> None:
        await asyncio.sleep(0.5)  # the one that was taken goes first
        await self.warm()

    async def warm(self) -> None:
        """Have one ready."""
        if self._ready is None:
            self._ready = await Child.start(self._what, self._folder)

    async def close(self) -> None:
        """End the one that is ready."""
        if self._warming is not None:
            self._warming.cancel()
        ready, self._ready = self._ready, None
        if ready is not None:
            await ready.stop(0.0)


class Looker:
    """One process that answers questions about scenarios, one at a time; started again when it has died.

    Python units that have changed on the disk are only seen by a fresh process.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._child: Child | None = None
        self._turn = asyncio.Lock()
        self._seen: object = None

    async def ask(self, question: Mapping[str, Any], patience: float = PATIENCE) -> dict[str, Any]:
        """The answer; `Died` if there was none."""
        async with self._turn:
            if question.get("python"):
                seen = await asyncio.to_thread(self._project.code)
                if seen != self._seen:
                    await self._end()
                self._seen = seen
            if self._child is None:
                self._child = await Child.start("look", self._project.folder)
            child = self._child
            answer = None
            try:
                await child.send(question)
                answer = await asyncio.wait_for(child.receive(), patience)
            except TimeoutError:
                raise Died(f"there was no answer within {patience:g} s, so that it was given up") from None
            except Died:
                pass
            finally:
                if answer is None:  # also when whoever asked has gone: what comes is no answer to others
                    await asyncio.shield(self._end())
            if answer is None:
                last = f": {child.log[-1]}" if child.log else ""
                raise Died(f"the process that looks at scenarios has died{last}")
            return answer

    async def warm(self) -> None:
        """Have the process ready."""
        async with self._turn:
            if self._child is None:
                self._child = await Child.start("look", self._project.folder)

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop(0.0)

    async def close(self) -> None:
        """End the process."""
        await self._end()
