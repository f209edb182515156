"""The recorder: thinning, the last row, blocks, memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import InvalidInput, RunError
from upbeat.core.ports import Kind
from upbeat.trace.columns import Cells, Column
from upbeat.trace.files.csv import CsvSink
from upbeat.trace.files.journal import JournalSink
from upbeat.trace.log import Outcome
from upbeat.trace.recorder import MemorySink, Recorder
from upbeat.trace.trace import Trace


def real(count: int) -> list[Column]:
    return [Column(f"u{i}.y") for i in range(count)]


def trace_of(recorder: Recorder) -> Trace:
    return Trace.from_recorder(recorder, outcome=Outcome.FINISHED)


def test_rows_come_back_in_order() -> None:
    recorder = Recorder(real(2), MemorySink(), chunk_rows=4)
    for i in range(10):
        recorder.row(float(i), (i + 0.5, -i))
    trace = trace_of(recorder)
    assert trace.time.tolist() == list(range(10))
    assert trace["u0.y"].tolist() == [i + 0.5 for i in range(10)]
    assert trace["u1.y"].tolist() == [-float(i) for i in range(10)]


@given(rows=st.integers(0, 40), every=st.integers(1, 9), chunk=st.integers(1, 9))
def test_thinning_keeps_every_nth_row_and_the_last(rows: int, every: int, chunk: int) -> None:
    recorder = Recorder(real(1), MemorySink(), every, chunk)
    for i in range(rows):
        recorder.row(float(i), (float(i),))
    if rows:
        recorder.finish(rows - 1.0, (rows - 1.0,))
        recorder.finish(rows - 1.0, (rows - 1.0,))
    expected = [i for i in range(rows) if i % every == 0 or i == rows - 1]
    assert trace_of(recorder).time.tolist() == expected
    assert recorder.rows == len(expected)


def test_a_last_row_that_differs_at_the_same_time_is_kept() -> None:
    recorder = Recorder(real(1), MemorySink())
    recorder.row(1.0, (1.0,))
    recorder.finish(1.0, (2.0,))
    assert trace_of(recorder)["u0.y"].tolist() == [1.0, 2.0]


@given(sizes=st.lists(st.integers(0, 12), max_size=12), chunk=st.integers(1, 12), rows=st.integers(0, 3))
def test_blocks_of_any_size_and_rows_between_them(sizes: list[int], chunk: int, rows: int) -> None:
    recorder = Recorder(real(2), MemorySink(), chunk_rows=chunk)
    count = 0
    for size in sizes:
        block = np.arange(count * 3.0, (count + size) * 3.0).reshape(size, 3)
        recorder.block(block)
        count += size
        for _ in range(rows):
            recorder.row(count * 3.0, (count * 3.0 + 1, count * 3.0 + 2))
            count += 1
    trace = trace_of(recorder)
    assert trace.time.tolist() == [3.0 * i for i in range(count)]
    assert trace["u1.y"].tolist() == [3.0 * i + 2 for i in range(count)]


def test_a_block_carries_integers_booleans_and_strings_as_bits() -> None:
    columns = [Column("a.i", Kind.INTEGER), Column("a.b", Kind.BOOLEAN), Column("a.s", Kind.STRING)]
    strings = ["off", "on"]
    recorder = Recorder(columns, MemorySink(), strings=strings)
    cells = np.zeros((2, 4))
    cells[:, 0] = (0.0, 1.0)
    cells.view(np.int64)[:, 1:] = [[-5, 1, 0], [2**53 + 1, 0, 1]]
    recorder.block(cells)
    recorder.finish(2.0, (7, True, "new"))
    trace = trace_of(recorder)
    assert trace["a.i"].tolist() == [-5, 2**53 + 1, 7]
    assert trace["a.b"].tolist() == [True, False, True]
    assert trace["a.s"].tolist() == ["off", "on", "new"]
    assert strings == ["off", "on", "new"]


def test_a_trace_taken_during_a_run_does_not_grow_with_it() -> None:
    recorder = Recorder(real(1), MemorySink(), chunk_rows=4)
    for i in range(6):
        recorder.row(float(i), (1.0,))
    early = trace_of(recorder)
    first = early.time
    for i in range(6, 20):
        recorder.row(float(i), (1.0,))
    assert len(early) == len(first) == len(early["u0.y"]) == 6
    assert trace_of(recorder).time.tolist() == list(range(20))


def test_numpy_scalars_are_taken() -> None:
    recorder = Recorder(
        [Column("a.i", Kind.INTEGER), Column("a.b", Kind.BOOLEAN), Column("a.x")], MemorySink()
    )
    recorder.row(0.0, (np.int64(3), np.bool_(True), np.float32(0.5)))  # type: ignore[arg-type]
    trace = trace_of(recorder)
    assert (trace["a.i"][0], trace["a.b"][0], trace["a.x"][0]) == (3, True, 0.5)


@pytest.mark.parametrize("bad", [2**63, 1.5, "three", None])
def test_a_value_that_does_not_fit_is_named(bad: object) -> None:
    recorder = Recorder([Column("ctl.n", Kind.INTEGER)], MemorySink())
    with pytest.raises(RunError, match=r"'ctl\.n' is integer and cannot hold"):
        recorder.row(0.0, (bad,))  # type: ignore[arg-type]


def test_wrong_use_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        Recorder(real(1), MemorySink(), every=0)
    with pytest.raises(RunError, match="2 values were expected for a row, not 1"):
        Recorder(real(2), MemorySink()).row(0.0, (1.0,))


def fill(recorder: Recorder, rows: int, block: int = 10_000) -> None:
    width = 1 + len(recorder.columns)
    for first in range(0, rows, block):
        cells: Cells = np.empty((min(block, rows - first), width))
        cells[:] = np.arange(first, first + len(cells))[:, None]
        recorder.block(cells)


def test_memory_for_a_million_rows_of_ten() -> None:
    raw = 8 * 10**6 * 11
    tracemalloc.start()
    try:
        recorder = Recorder(real(10), MemorySink())
        fill(recorder, 10**6)
        recorder.close(Outcome.FINISHED)
        trace = trace_of(recorder)
        assert all(trace[name][-1] == 999_999 for name in trace.names)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * raw


RESIDENT = """
import sys
from upbeat.trace.columns import TIME, Column
from upbeat.trace.events import EventKind, EventLog, Occurrence, UnknownEvent
from upbeat.trace.files.csv import CsvSink
from upbeat.trace.files.journal import JournalSink
from upbeat.trace.files.output import TraceWarning
from upbeat.trace.files.parquet import ParquetSink
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Ending, Outcome, StepLog, StepRun
from upbeat.trace.recorder import FileSink, MemorySink, Recorder, Sink, Source, Statistics, Summary
from upbeat.trace.trace import Trace, UnknownSignal, read
from pathlib import Path
sys.path.insert(0, {tests!r})
sys.path.insert(0, {tests!r} + "/trace")
from test_recorder import fill, real, trace_of
def resident():
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields["VmHWM"].split()[0])
small = Recorder(real(10), {sink}); fill(small, 30_000); small.close(Outcome.FINISHED)
before = resident()
recorder = Recorder(real(10), {sink}); fill(recorder, {rows}); recorder.close(Outcome.FINISHED)
trace = trace_of(recorder)
if {look}:
    assert all(trace[name][-1] == {rows} - 1 for name in trace.names)
assert trace.summary("u3.y").final == {rows} - 1
print(resident() - before)
"""


def resident_growth(sink: str, rows: int, look: bool) -> int:
    script = RESIDENT.format(tests=str(Path(__file__).parents[1]), sink=sink, rows=rows, look=look)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_resident_memory_with_every_column_looked_at() -> None:
    assert resident_growth("MemorySink()", 10**6, look=True) < 1.3 * 8 * 10**6 * 11


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize(("kind", "rows"), [("JournalSink", 10**6), ("CsvSink", 100_000)])
def test_streaming_is_flat(kind: str, rows: int, tmp_path: Path) -> None:
    assert kind in (CsvSink.__name__, JournalSink.__name__)
    path = str(tmp_path / "run.out")
    assert resident_growth(f"{kind}({path!r})", rows, look=False) < 8e6
