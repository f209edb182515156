"""Draws docs/walk.svg: the way of a signal from scenario file to result file, and of an event to its log.

Each station is a function, and a test follows both ways with a profiler: a station that is not passed, or
not in this order, fails it. After a change: ``make walk``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "walk.svg"
LAYERS = ("cli", "engine", "master", "scenario", "units", "trace")


class Station(NamedTuple):
    """A function on the way, and what happens to the signal there. `engine`: only that one passes it."""

    module: str
    function: str
    what: str
    engine: str = ""

    @property
    def layer(self) -> str:
        return self.module.split(".")[0]


SIGNAL = (
    Station("cli.run", "call", "upbeat run file.toml"),
    Station("engine.formats.files", "read_experiment", "the file becomes an experiment"),
    Station("scenario.files.reading", "read_scenario", "its text becomes tables with line numbers"),
    Station("units.equations.ode", "Ode.__init__", "equations become models with typed ports"),
    Station("scenario.assemble", "assemble", "connections find their ports; all mistakes at once"),
    Station("scenario.connection", "connect", "units of measure are converted into the formula"),
    Station("master.master", "Master.written", "the master becomes a program"),
    Station("master.port_registers", "PortRegisters.__init__", "each port gets a register; copies share one"),
    Station("master.couplings.coupling", "sweep", "the order: Set, Advance, Get"),
    Station("engine.run", "Run.__init__", "an engine, a recorder, a loop"),
    Station("engine.interpret", "Interpreter.__init__", "each instruction becomes a call", "interpret"),
    Station("engine.native.lower", "lower", "each instruction becomes a row of a table", "native"),
    Station("units.equations.ode", "_Model.instantiate", "a unit with its solver", "interpret"),
    Station("units.equations.ode", "_Model.enter", "a unit in the core, as bytecode", "native"),
    Station("engine.loop", "Loop.step", "propose, step, review, commit", "interpret"),
    Station("engine.native.loop", "NativeLoop.go", "the same in C++, many steps a call", "native"),
    Station("units.solving.unit", "SolvedUnit.advance", "the unit's own solver over the step", "interpret"),
    Station("trace.recorder", "Recorder.row", "a row of registers is kept", "interpret"),
    Station("trace.recorder", "Recorder.block", "a chunk of rows is kept", "native"),
    Station("trace.files.csv", "CsvSink.write", "chunks go to the file while the run goes on"),
    Station("trace.trace", "Trace.from_recorder", "what is left is read when it is asked for"),
)

EVENT = (
    Station("scenario.events.declared", "read_events", "`when` becomes conditions z, `then` new values"),
    Station(
        "scenario.events.watcher",
        "with_watcher",
        "a discrete unit watches z; models grow inputs to be changed",
    ),
    Station("master.paces.lookahead", "LookAhead.write", "registers for z, and blocks that look ahead"),
    Station("master.events.instants", "instants", "what happens at an instant: look, send, jump"),
    Station("engine.loop", "Loop.step", "a step ends where the event is expected", "interpret"),
    Station("engine.native.loop", "NativeLoop.go", "the same in C++", "native"),
    Station("master.prediction", "first_zero", "the polynomial through z meets zero", "interpret"),
    Station("trace.events", "EventColumns.append", "what fired goes into the log", "interpret"),
    Station("trace.events", "EventColumns.extend", "what fired goes into the log", "native"),
)

WALKS = {"The way of a signal": SIGNAL, "The way of an event": EVENT}

WIDTH, LANE, ROW, TOP, BOX = 1180, 178, 52, 64, 34
_COLOURS = {"": "#1f6f8b", "interpret": "#c1651a", "native": "#4c8c4a"}
_LEGEND = (("", "both engines"), ("interpret", "interpreter"), ("native", "native core"))

Row = list[Station]
"""What stands side by side: one station of both engines, or one of each."""


def rows(walk: Sequence[Station]) -> list[Row]:
    """Neighbours of the same layer of which each engine passes one."""
    found: list[Row] = []
    for station in walk:
        last = found[-1] if found else []
        beside = len(last) == 1 and last[0].layer == station.layer
        if beside and station.engine and last[0].engine not in ("", station.engine):
            last.append(station)
        else:
            found.append([station])
    return found


def picture() -> str:
    """Both ways as one picture: a lane for each layer, from top to bottom."""
    walks = {title: rows(walk) for title, walk in WALKS.items()}
    height = TOP + sum(len(walk) + 1 for walk in walks.values()) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for i, layer in enumerate(LAYERS):
        x = 56 + i * LANE
        parts.append(
            f'<rect x="{x}" y="8" width="{LANE - 10}" height="{height - 16}" rx="8" fill="#f3f5f7"/>'
        )
        parts.append(_text(x + (LANE - 10) / 2, 32, layer, 16, "middle", "#445", bold=True))
    y = TOP
    for title, walk in walks.items():
        parts.append(_text(60, y + 18, title, 17, "start", "#000", bold=True))
        y += ROW
        places = [(_middle(row[0].layer), y + i * ROW) for i, row in enumerate(walk)]
        for (x0, y0), (x1, y1) in pairwise(places):
            parts.append(
                f'<path d="M{x0} {y0 + BOX / 2} C{x0} {y0 + BOX / 2 + 12} {x1} {y1 - BOX / 2 - 12} '
                f'{x1} {y1 - BOX / 2}" stroke="#9aa7b3" stroke-width="2.5" fill="none"/>'
            )
        for row, place in zip(walk, places, strict=True):
            parts += _box(row, *place)
        y += len(walk) * ROW
    for i, (engine, words) in enumerate(_LEGEND):
        x = 330 + 150 * i
        parts.append(f'<circle cx="{x}" cy="{TOP + 12}" r="6" fill="{_COLOURS[engine]}"/>')
        parts.append(_text(x + 12, TOP + 17, words, 14, "start", "#000"))
    return "\n".join([*parts, "</svg>", ""])


def _middle(layer: str) -> float:
    return 56 + LAYERS.index(layer) * LANE + (LANE - 10) / 2


def _text(x: float, y: float, words: str, size: float, anchor: str, fill: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{weight}>'
        f"{escape(words)}</text>"
    )


def _box(row: Row, x: float, y: float) -> list[str]:
    """The functions in a box, and beside it what happens there: on the side that has room for it."""
    colour = _COLOURS["" if len(row) > 1 else row[0].engine]
    parts = [
        f'<rect x="{x - LANE / 2 + 8}" y="{y - BOX / 2}" width="{LANE - 16}" height="{BOX}" rx="6" '
        f'fill="white" stroke="{colour}" stroke-width="2"/>'
    ]
    at, anchor = (x + LANE / 2 + 2, "start") if x < WIDTH / 2 + 90 else (x - LANE / 2 - 2, "end")
    for i, station in enumerate(row):
        shift = 4 if len(row) == 1 else -3 + 14 * i
        name = f"{station.module.partition('.')[2]}: {station.function}"
        ink = _COLOURS[station.engine] if station.engine else "#333"
        parts.append(_text(x, y + shift, name, 11 if len(name) < 27 else 9.5, "middle", ink))
        parts.append(_text(at, y + shift, station.what, 12.5, anchor, ink))
    return parts


def layers() -> list[str]:
    """The rows of docs/walk.md: each layer, its first sentence, and the folders in it."""
    rows = []
    for first in sorted((ROOT / "src" / "upbeat").glob("*/__init__.py")):
        says = (ast.get_docstring(ast.parse(first.read_text(encoding="utf-8"))) or "").splitlines()[0]
        inside = sorted(path.parent.name for path in first.parent.glob("*/__init__.py"))
        folders = ", ".join(f"`{name}`" for name in inside)
        rows.append(f"| `{first.parent.name}/` | {says.rstrip('.')} | {folders} |")
    return rows


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} is written")
    sys.exit(0)
