"""Columns and rows of every kind, shared by the tests of traces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from upbeat.core.ports import Kind, Value
from upbeat.trace.columns import Column
from upbeat.trace.events import EventKind, EventLog, Payload
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Outcome
from upbeat.trace.recorder import Recorder
from upbeat.trace.trace import Trace

COLUMNS = (
    Column("room.T", Kind.REAL, "degC"),
    Column("ctl.count", Kind.INTEGER),
    Column("ctl.on", Kind.BOOLEAN),
    Column("ctl.mode", Kind.INTEGER, None, ("off", "heat", "cool")),
    Column("ctl.text", Kind.STRING),
)
TEXTS = ("", "1", "true", 'say "hi", twice', "two\nlines", "Ünïcode ✓")


def row(i: int) -> tuple[float, tuple[Value, ...]]:
    """Row number `i`, with values that a careless format would change."""
    return i * 0.1, (1.0 / (i + 3), (-1) ** i * (2**62 + i), i % 3 == 0, i % 3, TEXTS[i % len(TEXTS)])


def record(path: Path | None, rows: int, outcome: Outcome = Outcome.FINISHED, chunk_rows: int = 7) -> Trace:
    """A trace of `rows` sample rows that went through the sink for `path`."""
    recorder = Recorder(COLUMNS, open_sink(path), chunk_rows=chunk_rows)
    for i in range(rows):
        recorder.row(*row(i))
    recorder.close(outcome, info={"engine": "interpret", "wall_seconds": 0.5}, notes=["a note"])
    return Trace.from_recorder(recorder, outcome=outcome)


def rows_of(trace: Trace) -> list[tuple[float, tuple[Value, ...]]]:
    """The rows of a trace as plain Python values."""
    columns = [trace[name].tolist() for name in trace.names]
    return list(zip(trace.time.tolist(), zip(*columns, strict=True), strict=True))


# ------------------------------------------------------------------------------------------ events

KINDS = (
    EventKind("light.lamp", Kind.INTEGER, 1, items=("red", "green", "blue")),
    EventKind("tank.level", Kind.REAL, 1, "m"),
    EventKind("tank.count", Kind.INTEGER, 1),
    EventKind("tank.full", Kind.BOOLEAN, 1),
    EventKind("tank.text", Kind.STRING, 1),
    EventKind("tank.pair", Kind.REAL, 2),
    EventKind("tick"),
)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["a.x", "b.y", "c"]),
        st.floats(0, 10),
        st.integers(0, 5),
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text(max_size=4)
        | st.lists(st.floats(allow_nan=False), min_size=2, max_size=3).map(tuple)
        | st.lists(st.text(max_size=3), min_size=2, max_size=3).map(tuple),
    ),
    max_size=30,
)
"""Events with any name, superdense time and payload."""
_LABELS = ("red", "green", "blue")


def fired(i: int) -> tuple[str, float, int, Payload]:
    """Event number `i`: three at every instant, of all kinds in turn."""
    value: Payload = (
        _LABELS[i // 7 % 3],
        1.0 / (i + 3),
        (-1) ** i * (2**62 + i),
        i % 2 == 0,
        TEXTS[i % len(TEXTS)],
        (0.1 * i, -1e300),
        None,
    )[i % 7]
    return KINDS[i % 7].name, i // 3 * 0.1, i % 3, value


def sample_events(numbers: Iterable[int]) -> EventLog:
    """A log with these of the sample events."""
    log = EventLog(KINDS)
    for i in numbers:
        log.append(*fired(i))
    return log
