"""How the page of the studio does in a real browser: Chromium without a screen, which draws in software.

* `fps_4x1e5`: frames a second while somebody moves about in the curves of four signals of 100,000 rows each,
  all of which are on the page: each picture of the screen moves the time axis a little.
* `latency_ms`: from a step of a run in real time to the picture that shows it, median. A run hands over what
  it has some twenty-five times a second, so that a step waits for half of that; this is part of it.
* `cost_of_being_watched`: how much more of the processor the process of a run takes while a page looks at it,
  of a native run of a second. Watched and unwatched runs take turns, and the quickest of each count, since
  what other work on the machine adds has nothing to do with it; `cost_median` is the median of the ratios.
* `layout_ms`: to find the places of boxes and wires of 50 and 500 units. `view_ms` is what the page waits
  for: reading, checking, planning and layout, there and back.
* `bytes_transferred`: everything that the browser loads until it shows a scenario of 50 units, and
  `first_view_ms`, how long that takes in a studio that has been started; `cold_view_ms`, where it is asked
  for in the moment in which the address is printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import upbeat as up
from upbeat.report.diagram import arrange

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
GOALS = {"cost_of_being_watched": 0.02, "bytes_transferred": 2e6, "first_view_ms": 1000.0}


def waves(until: float, step: float = 0.001) -> str:
    """Four oscillators in a ring: four signals, of which no two are alike."""
    units = "".join(
        f'[units.w{k}]\nstates = {{ x = "v", v = "-{(1 + k) ** 2}*x + 0.05*u" }}\nstart = {{ x = 1.0 }}\n'
        'inputs = ["u"]\noutputs = ["x"]\n'
        for k in range(4)
    )
    wires = "".join(f'"w{k}.u" = "w{(k + 1) % 4}.x"\n' for k in range(4))
    return f"{units}[connections]\n{wires}[master]\nstep = {step}\n[run]\nuntil = {until}\n"


def chains(units: int) -> str:
    """Units in chains of five, each of which reads the one before it and another one far away."""
    text = "".join(
        f'[units.u{k}]\nstates = {{ x = "a + b - x" }}\ninputs = ["a", "b"]\noutputs = ["x"]\n'
        for k in range(units)
    )
    wires = "".join(
        f'"u{k}.a" = "u{k - 1}.x"\n' + (f'"u{k}.b" = "u{(7 * k + 3) % units}.x"\n' if k % 3 == 0 else "")
        for k in range(units)
        if k % 5
    )
    return f"{text}[connections]\n{wires}[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"


class Server:
    """``upbeat studio`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "upbeat.cli.main", "studio", str(folder), "--no-browser"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.address = [self._process.stdout.readline() for _ in range(2)][-1].strip()
        self.base, _, self._token = self.address.partition("/?token=")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The data of an answer."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(  # noqa: S310  # our own server
            self.base + path, data, {"X-Upbeat-Token": self._token}, method=method
        )
        with urllib.request.urlopen(asked) as answer:  # noqa: S310
            return json.loads(answer.read())

    def start(self, path: str, text: str, **more: Any) -> str:
        """A run."""
        return str(self.ask("POST", "/api/runs", {"path": path, "text": text, **more})["id"])

    def ended(self, run: str) -> Any:
        """What is known of a run that is over."""
        while (found := self.ask("GET", f"/api/runs/{run}"))["state"] in ("starting", "running"):
            time.sleep(0.2)
        assert found["state"] == "ended", found
        return found

    def close(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)


def wait(page: Any, condition: str, seconds: float = 60.0) -> None:
    """Until this is true in the page."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        page.wait_for_timeout(20)


def looking(browser: Any, server: Server, where: str, shown: str) -> Any:
    """A page at an address behind ``#``, once it shows what it should."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(server.address)
    page.goto(f"{server.base}/#{where}")
    page.reload()
    page.wait_for_selector(shown, timeout=60_000)
    return page


# ----------------------------------------------------------------------------------------------------


def first_view(browser: Any, server: Server) -> dict[str, float]:
    """What a browser loads, and how long it takes, until the diagram of 50 units is there."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(server.address)
    page.close()  # from now on it has its cookie
    page = context.new_page()
    loaded = 0.0

    def count(event: dict[str, Any]) -> None:
        nonlocal loaded
        loaded += event["encodedDataLength"]

    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", count)
    began = time.perf_counter()
    page.goto(f"{server.base}/#file=fifty.toml")
    page.wait_for_selector("[data-box=u49]", timeout=60_000)
    seconds = time.perf_counter() - began
    page.wait_for_timeout(500)
    context.close()
    return {"bytes_transferred": loaded, "first_view_ms": 1e3 * seconds}


def layout(server: Server, units: int, repeats: int) -> tuple[float, float]:
    """Milliseconds to place boxes and wires, and to answer the page."""
    text = chains(units)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "many.toml"
        file.write_text(text)
        made = up.load(file)
    made.plan, made.scenario.graph  # noqa: B018  # which others need, too
    alone = min(timed(lambda: arrange(made)) for _ in range(repeats))
    asked = {"path": "fifty.toml", "text": text}
    whole = min(timed(lambda: server.ask("POST", "/api/view", asked)) for _ in range(repeats))
    return 1e3 * alone, 1e3 * whole


def timed(what: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


_MOVE = """async (seconds) => {
  const plot = document.querySelector(".curve-panel .u-over");
  const box = plot.getBoundingClientRect();
  const drawn = studio.traceOf(studio.state.run.id).time.length;
  let frames = 0;
  const times = [];
  await new Promise((done) => {
    const begin = performance.now();
    let last = begin;
    const turn = () => {
      const now = performance.now();
      times.push(now - last);
      last = now;
      if (now - begin > 1000 * seconds) return done();
      frames += 1;
      const way = Math.floor((now - begin) / 400) % 2 ? 3 : -3;
      plot.dispatchEvent(new WheelEvent("wheel", { deltaX: way, deltaY: 0, clientX: box.x + 300, clientY: box.y + 30, bubbles: true, cancelable: true }));
      requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  });
  times.sort((a, b) => a - b);
  return { drawn, fps: frames / seconds, slowest: times[Math.floor(0.95 * times.length)] };
}"""  # noqa: E501  # a script


def frames(browser: Any, server: Server, rows: int, seconds: float) -> dict[str, float]:
    """Frames a second with all rows of four signals on the page."""
    text = waves(rows / 1000.0)
    run = server.start("waves.toml", text)
    server.ended(run)
    where = f"file=waves.toml&run={run}&points={2 * rows}"
    page = looking(browser, server, where, ".curve-panel .u-over")
    wait(page, f"studio.traceOf('{run}').time.length >= {rows}")
    page.wait_for_timeout(500)
    found = page.evaluate(_MOVE, seconds)
    page.context.close()
    assert found["drawn"] >= rows, found
    usual = looking(browser, server, f"file=waves.toml&run={run}", ".curve-panel .u-over")
    wait(usual, f"studio.traceOf('{run}').time.length > 1000")
    usual.wait_for_timeout(500)
    thinned = usual.evaluate(_MOVE, seconds)
    usual.context.close()
    return {
        "fps_4x1e5": found["fps"],
        "slow_frame_ms": found["slowest"],
        "fps_usual": thinned["fps"],
    }


_SEEN = """async (seconds) => {
  const trace = studio.traceOf(studio.state.run.id);
  const found = [];
  let before = studio.times.sent;
  const listener = () => {
    const sent = studio.times.sent;
    if (sent === before || !before) { before = sent; return; }
    const middle = (sent + before) / 2, oldest = before;
    before = sent;
    requestAnimationFrame(() => setTimeout(() => {
      const now = (performance.timeOrigin + performance.now()) / 1000;
      found.push([now - middle, now - oldest]);
    }, 0));
  };
  const end = trace.subscribe(listener);
  await new Promise((done) => setTimeout(done, 1000 * seconds));
  end();
  return found;
}"""


def latency(browser: Any, server: Server, seconds: float) -> dict[str, float]:
    """From a step to the screen, for rows of a run in real time.

    Rows that are handed over at a time were made since the time before: the middle of that counts. The next
    picture after the one in which they are drawn is surely on the screen.
    """
    text = waves(1000.0, step=0.005)
    run = server.start("waves.toml", text, real_time=1.0)
    page = looking(browser, server, f"file=waves.toml&run={run}", ".curve-panel .u-over")
    wait(page, f"studio.traceOf('{run}').time.length > 100")
    found = page.evaluate(_SEEN, seconds)
    page.context.close()
    server.ask("POST", f"/api/runs/{run}", {"do": "stop"})
    middles = sorted(1e3 * one for one, _ in found)
    oldest = sorted(1e3 * one for _, one in found)
    return {
        "latency_ms": statistics.median(middles),
        "latency_95_ms": oldest[int(0.95 * len(oldest))],
        "frames_seen": len(found),
    }


def cost(browser: Any, server: Server, pairs: int, seconds: float) -> dict[str, float]:
    """What a run takes more when a page looks on."""

    def alone(until: float) -> tuple[float, float]:
        found = server.ended(server.start("waves.toml", waves(until)))
        return found["cpu"], found["wall"]

    until = 100.0
    until *= seconds / alone(until)[0]
    until *= seconds / alone(until)[0]
    page = looking(browser, server, "file=waves.toml", "[data-box=w0]")

    def watched() -> tuple[float, float]:
        run = server.start("waves.toml", waves(until), paused=True)
        page.goto(f"{server.base}/#file=waves.toml&run={run}")
        page.reload()
        page.wait_for_selector(".curve-panel .u-over", timeout=60_000)
        page.wait_for_timeout(300)
        server.ask("POST", f"/api/runs/{run}", {"do": "resume"})
        found = server.ended(run)
        rows = page.evaluate(f"studio.traceOf('{run}').total")
        assert rows > 1000, rows
        return found["cpu"], found["wall"]

    taken = [(alone(until)[0], watched()[0]) for _ in range(pairs)]
    page.context.close()
    without, with_page = (min(spent) for spent in zip(*taken, strict=True))
    ratios = [seen / unseen for unseen, seen in taken]
    return {
        "cost_of_being_watched": with_page / without - 1.0,
        "cost_median": statistics.median(ratios) - 1.0,
        "cost_spread": (max(ratios) - min(ratios)) / 2.0,
        "run_cpu_seconds": without,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000, help="of each of the four signals")
    parser.add_argument("--seconds", type=float, default=5.0, help="for frames and for latency")
    parser.add_argument("--pairs", type=int, default=9, help="of watched and unwatched runs")
    parser.add_argument("--run-seconds", type=float, default=1.0, help="how long these take")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    found = measured(options)
    print(
        f"{found['fps_4x1e5']:.0f} frames/s with 4 × {options.rows:,} points, "
        f"{found['fps_usual']:.0f} with as many as the page takes by itself"
    )
    print(f"{found['latency_ms']:.0f} ms from a step to the screen (95 %: {found['latency_95_ms']:.0f} ms)")
    print(f"{100 * found['cost_of_being_watched']:.1f} % more work for a run that is watched")
    for units, spent in found["layout_ms"].items():
        print(f"{units} units: layout {spent:.0f} ms, view {found['view_ms'][units]:.0f} ms")
    print(
        f"{found['bytes_transferred'] / 1e6:.2f} MB, {found['first_view_ms']:.0f} ms to the first view of 50 "
        f"units ({found['cold_view_ms']:.0f} ms right at the start)"
    )
    for miss in found["known_misses"]:
        print(f"not reached: {miss}")
    if options.json:
        print(json.dumps(found), file=sys.__stdout__)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """All numbers."""
    from playwright.sync_api import sync_playwright  # of the test group

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit("there is no Chromium: apt-get install chromium-headless-shell")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "waves.toml").write_text(waves(options.rows / 1000.0))
        (folder / "fifty.toml").write_text(chains(50))
        server = Server(folder)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            found: dict[str, Any] = {"cold_view_ms": first_view(browser, server)["first_view_ms"]}
            found |= first_view(browser, server)
            layouts = {str(units): layout(server, units, 3) for units in (50, 500)}
            found["layout_ms"] = {units: alone for units, (alone, _) in layouts.items()}
            found["view_ms"] = {units: whole for units, (_, whole) in layouts.items()}
            found |= frames(browser, server, options.rows, options.seconds)
            found |= latency(browser, server, options.seconds)
            found |= cost(browser, server, options.pairs, options.run_seconds)
            found["browser"] = browser.version
        finally:
            browser.close()
            server.close()
    found["known_misses"] = [
        f"{name}: {found[name]:.3g}, and at most {goal:.3g} is asked for"
        for name, goal in GOALS.items()
        if found[name] > goal
    ]
    return found


if __name__ == "__main__":
    main()
