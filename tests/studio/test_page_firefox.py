"""The page of the studio in Firefox, which is driven by WebDriver BiDi: it needs nothing but a websocket."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from studio_page import TANK
from studio_server import Studio

EXAMPLES = Path(__file__).parents[2] / "examples"
F5, ESCAPE = "\ue035", "\ue00c"


class Firefox:
    """One tab: what it shows is asked in JavaScript, and what it complains about is kept."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._last = socket, 0
        self.complaints: list[str] = []
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded"])
        self._tab = self._send("browsingContext.getTree")["contexts"][0]["context"]
        size = {"width": 1280, "height": 800}
        self._send("browsingContext.setViewport", context=self._tab, viewport=size)

    def _send(self, method: str, **params: Any) -> Any:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(60))
            if answer.get("id") == self._last:
                assert answer["type"] == "success", answer
                return answer["result"]
            entry = answer.get("params", {})
            if entry.get("level") in ("error", "warn"):
                self.complaints.append(entry["text"])

    def open(self, address: str) -> None:
        self._send("browsingContext.navigate", context=self._tab, url=address, wait="complete")

    def ask(self, expression: str) -> Any:
        """The value of an expression of numbers, texts, booleans and lists of them."""
        found = self._send(
            "script.evaluate",
            expression=f"JSON.stringify({expression})",
            target={"context": self._tab},
            awaitPromise=False,
        )
        assert found["type"] == "success", found
        return json.loads(found["result"]["value"])

    def until(self, condition: str) -> None:
        end = time.monotonic() + 60.0
        while not self.ask(f"Boolean({condition})"):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def press(self, key: str) -> None:
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._act({"type": "key", "id": "keyboard", "actions": keys})

    def point(self, *selectors: str, let_go: bool = True) -> None:
        """Press the button of the mouse at the first of these, and move to the others."""
        actions: list[dict[str, Any]] = []
        for selector in selectors:
            box = self.ask(f"document.querySelector('{selector}').getBoundingClientRect()")
            x, y = round(box["x"] + box["width"] / 2), round(box["y"] + box["height"] / 2)
            actions += [{"type": "pointerMove", "x": x - 8, "y": y}] if actions else []
            actions.append({"type": "pointerMove", "x": x, "y": y})
            if selector == selectors[0]:
                actions.append({"type": "pointerDown", "button": 0})
        self._act(
            {
                "type": "pointer",
                "id": "mouse",
                "actions": [*actions, *([{"type": "pointerUp", "button": 0}] if let_go else [])],
            }
        )

    def let_go(self) -> None:
        self._act({"type": "pointer", "id": "mouse", "actions": [{"type": "pointerUp", "button": 0}]})

    def _act(self, actions: dict[str, Any]) -> None:
        self._send("input.performActions", context=self._tab, actions=[actions])


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("no Firefox: apt-get install firefox-esr")
    line = [program, "--headless", "--no-remote", "--profile", str(tmp_path), "--remote-debugging-port", "0"]
    with subprocess.Popen([*line, "about:blank"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = next((said for said in process.stderr if "BiDi listening on" in said), "")
            with connect(f"{said.split()[-1]}/session", max_size=None) as socket:
                tab = Firefox(socket)
                yield tab
                assert not tab.complaints
        finally:
            process.terminate()


@pytest.fixture
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(EXAMPLES / "two_mass" / "lookahead.toml", folder)
    (folder / "tank.toml").write_text(TANK)
    started = Studio(folder)
    yield started
    started.close()


def test_a_run_and_a_wire_in_firefox(studio: Studio, firefox: Firefox) -> None:
    firefox.open(studio.address)
    firefox.until("window.studio && studio.state.project")
    firefox.open(f"{studio.base}/?again#file=lookahead.toml")
    firefox.until("document.querySelectorAll('[data-box]').length === 4")
    firefox.press(F5)
    firefox.until("document.querySelector('#event-count')?.dataset.count === '12'")

    firefox.open(f"{studio.base}/?another#file=tank.toml")
    firefox.until("document.querySelector('[data-pin=\"tank.flow\"]')")
    output, wanted = '[data-pin="pump.{}"] circle', '[data-pin="tank.flow"] circle'
    firefox.point(output.format("power"), wanted, let_go=False)
    firefox.until("document.querySelector('.wire-hint.refused')?.textContent.includes('m/s')")
    firefox.let_go()
    assert firefox.ask("studio.state.text") == TANK
    firefox.point(output.format("flow"), wanted)
    firefox.until("studio.state.view.connections.length === 1")
    assert firefox.ask("studio.state.view.connections[0].text") == "pump.flow"
