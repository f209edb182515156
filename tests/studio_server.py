"""A studio to talk to, as a browser does: the real command, in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Studio:
    """``upbeat studio`` in a folder, until `close`."""

    def __init__(self, folder: Path, *options: str, file: str | None = None) -> None:
        self.folder = folder
        target = str(folder if file is None else folder / file)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "upbeat.cli.main", "studio", target, "--no-browser", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(2)]
        self.address = lines[-1].strip()
        base, _, self.token = self.address.partition("/?token=")
        assert self.token, (lines, self.process.poll(), self.process.stderr and self.process.stderr.read())
        self.port = int(base.rpartition(":")[2])
        self.base = base

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer, to whatever was sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        try:
            connection.request(
                method, path, data, {"X-Upbeat-Token": self.token} if headers is None else headers
            )
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The data of an answer with this status."""
        found, _, data = self.request(method, path, body)
        assert found == status, (found, data[:2000])
        return json.loads(data)

    def view(self, path: str, text: str | None = None, **more: Any) -> Any:
        """What the page would show."""
        text = self.ask("GET", f"/api/file?path={path}")["text"] if text is None else text
        return self.ask("POST", "/api/view", {"path": path, "text": text, **more})

    def edit(self, text: str, *edits: dict[str, Any], status: int = 200) -> Any:
        """The text with edits."""
        found = self.ask("POST", "/api/edit", {"text": text, "edits": list(edits)}, status)
        return found["text"] if status == 200 else found

    def start(self, path: str, text: str | None = None, **more: Any) -> str:
        """A run; its name."""
        text = self.ask("GET", f"/api/file?path={path}")["text"] if text is None else text
        return str(self.ask("POST", "/api/runs", {"path": path, "text": text, **more}, 201)["id"])

    def until(self, run: str, *states: str, seconds: float = 60.0) -> Any:
        """What is known of a run, once it is in one of these states."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.ask("GET", f"/api/runs/{run}")
            if found["state"] in states:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{run} is {found['state']}: {found}")

    def finished(self, run: str) -> Any:
        """What is known of a run when it is over."""
        return self.until(run, "ended", "failed", "stopped")

    def data(self, run: str, signals: Sequence[str], **more: Any) -> tuple[Any, np.ndarray[Any, Any]]:
        """Header and columns of signals."""
        query = "&".join(["signals=" + ",".join(signals), *(f"{key}={value}" for key, value in more.items())])
        status, _, body = self.request("GET", f"/api/runs/{run}/data?{query}")
        assert status == 200, body
        return unpacked(body)

    def job(self, what: str, path: str, text: str | None = None, **more: Any) -> Any:
        """A judgement, once it is done."""
        text = self.ask("GET", f"/api/file?path={path}")["text"] if text is None else text
        name = self.ask("POST", "/api/jobs", {"what": what, "path": path, "text": text, **more}, 201)["id"]
        end = time.monotonic() + 120.0
        while time.monotonic() < end:
            found = self.ask("GET", f"/api/jobs/{name}")
            if found["state"] != "running":
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what} goes on: {found}")

    def close(self, how: int = signal.SIGINT) -> int:
        """End it; its exit status."""
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode


def unpacked(body: bytes) -> tuple[Any, np.ndarray[Any, Any]]:
    """A line of JSON, and doubles behind it: a row of the array for each column."""
    line, _, _ = body.partition(b"\n")
    assert (len(line) + 1) % 8 == 0
    header = json.loads(line)
    columns = np.frombuffer(body[len(line) + 1 :], "<f8").reshape(len(header["columns"]), -1)
    assert columns.shape[1] == header["rows"]
    return header, columns
