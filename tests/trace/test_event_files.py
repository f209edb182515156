"""Events in result files: all come back, killed runs keep all but the last chunk."""

from __future__ import annotations

import math
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sample_traces import COLUMNS, ENTRIES, KINDS, fired, row, rows_of, sample_events
from upbeat.core.errors import FileProblem, RecordingError
from upbeat.trace.events import EventLog, Occurrence
from upbeat.trace.files.csv import read_events
from upbeat.trace.files.output import TraceWarning
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.recorder import Recorder
from upbeat.trace.trace import Trace, read

try:
    import pyarrow as _  # noqa: F401

    SUFFIXES = ["csv", "journal", "parquet"]
except ImportError:
    SUFFIXES = ["csv", "journal"]
needs_parquet = pytest.mark.skipif("parquet" not in SUFFIXES, reason="pyarrow is not installed")


def record(path: Path | None, rows: int, events: int, outcome: Outcome = Outcome.FINISHED) -> Trace:
    """Three events at every row, as far as they go, through the sink for `path`."""
    recorder = Recorder(COLUMNS, open_sink(path), chunk_rows=7, kinds=KINDS)
    for i in range(rows):
        for number in range(3 * i, min(3 * i + 3, events)):
            recorder.events.append(*fired(number))
        recorder.row(*row(i))
    recorder.close(outcome)
    return Trace.from_recorder(recorder, outcome=outcome)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("events", [1, 3, 60, 150])
def test_events_of_every_kind_come_back(suffix: str, events: int, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    direct, back, wanted = record(path, 50, events), read(path), sample_events(range(events))
    assert back.events == direct.events == record(None, 50, events).events == wanted
    assert list(back.events) == [Occurrence(*fired(i)) for i in range(events)]
    assert direct.event_counts == back.event_counts == wanted.counts()
    assert rows_of(back) == [row(i) for i in range(50)]
    names = {path.name} if suffix == "journal" else {path.name, f"run.events.{suffix}"}
    columns = {"run.columns.json"} if suffix == "csv" else set()
    assert {found.name for found in tmp_path.iterdir()} == names | columns
    assert pickle.loads(pickle.dumps(direct)).events == wanted
    if suffix != "csv":
        assert back.events.kinds == KINDS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(entries=ENTRIES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_event_comes_back(entries: list[Any], suffix: str, tmp_path: Path) -> None:
    trace = Trace.from_arrays([0.0, 1.0], {"a.x": [1.0, 2.0], "a.s": ["text", "more"]})
    for entry in entries:
        trace.events.append(*entry)
    trace.save(tmp_path / f"run.{suffix}")
    back = read(tmp_path / f"run.{suffix}")
    assert back.events == trace.events
    assert back["a.s"].tolist() == ["text", "more"]
    assert (tmp_path / "run.events.csv").exists() == (suffix == "csv" and bool(entries))


def test_csv_events_are_plain(tmp_path: Path) -> None:
    record(tmp_path / "run.csv", 3, 8)
    assert (tmp_path / "run.events.csv").read_text() == (
        "time,index,event,value\n"
        "0.0,0,light.lamp,red\n"
        "0.0,1,tank.level,0.25\n"
        "0.0,2,tank.count,4611686018427387906\n"
        "0.1,0,tank.full,false\n"
        '0.1,1,tank.text,"two\nlines"\n'
        "0.1,2,tank.pair,[0.5 -1e+300]\n"
        "0.2,0,tick,\n"
        "0.2,1,light.lamp,green\n"
    )


@needs_parquet
def test_parquet_events_are_a_table_with_a_column_for_each_name(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    record(tmp_path / "run.parquet", 3, 8)
    table = parquet.read_table(tmp_path / "run.events.parquet").to_pydict()
    assert list(table) == [
        "time",
        "index",
        *(k.name for k in KINDS[:5]),
        "tank.pair[0]",
        "tank.pair[1]",
        "tick",
    ]
    assert table["light.lamp"] == [0, None, None, None, None, None, None, 1]
    assert table["tank.pair[1]"][5] == -1e300
    assert table["tick"] == [None] * 6 + [True, None]


KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
from sample_traces import *
recorder = Recorder(COLUMNS, open_sink({path!r}), chunk_rows=10, kinds=KINDS)
for i in range(10_000):
    recorder.events.append(*fired(2 * i))
    recorder.events.append(*fired(2 * i + 1))
    recorder.row(*row(i))
    if i == 104:
        print("ready", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_killed_run_keeps_all_events_but_those_of_the_last_chunk(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    record(path, 20, 30)
    script = KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        if suffix == "csv":
            with pytest.raises(FileProblem, match=r"run\.csv': another run is writing to it"):
                open_sink(path)
        process.send_signal(signal.SIGKILL)
    if suffix == "csv":
        back = read(path)
    else:
        with pytest.warns(TraceWarning, match="not complete"):
            back = read(path)
    assert len(back) == 100
    assert back.events == sample_events(range(200))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_events_of_an_earlier_run_do_not_linger(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    record(path, 20, 30)
    failed = record(path, 0, 0, Outcome.FAILED)
    assert len(failed.events) == 0
    assert (len(read(path)), len(read(path).events)) == (20, 30), "a run without rows leaves it all alone"
    record(path, 20, 0)
    assert len(read(path).events) == 0
    assert not (tmp_path / f"run.events.{suffix}").exists()
    record(path, 20, 30)
    Trace.from_arrays([0.0], {"x": [1.0]}).save(path)  # this one does not know that there could be events
    beside = {"run.columns.json"} if suffix == "csv" else set()
    assert {found.name for found in tmp_path.iterdir()} == {path.name} | beside


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_events_leave_memory_while_they_stream(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upbeat.trace.recorder.MAX_EVENTS", 50)
    recorder = Recorder(COLUMNS, open_sink(tmp_path / f"run.{suffix}"), every=1000, kinds=KINDS)
    most = 0
    for i in range(300):
        recorder.events.append(*fired(i))
        recorder.row(*row(i))
        most = max(most, len(recorder.events))
    half = Trace.from_recorder(recorder, outcome=Outcome.RUNNING)
    recorder.events.append(*fired(300))
    recorder.close(Outcome.FINISHED)
    assert most < 50
    assert len(half.events) == sum(half.event_counts.values()) == 300
    assert half.events == sample_events(range(300))
    assert read(tmp_path / f"run.{suffix}").events == sample_events(range(301))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_keeps_the_events_before(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"run.{suffix}"
    recorder = Recorder(COLUMNS, open_sink(path), chunk_rows=1, kinds=KINDS)
    recorder.events.append(*fired(0))
    recorder.row(*row(0))
    monkeypatch.setattr("upbeat.trace.files.output.Appender.append", _full)
    recorder.events.append(*fired(1))
    with pytest.raises(RecordingError, match="No space"):
        recorder.row(*row(1))
    recorder.events.append(*fired(2))
    recorder.row(*row(2))
    monkeypatch.undo()
    recorder.close(Outcome.FINISHED)
    assert read(path).events == sample_events([0])
    assert Trace.from_recorder(recorder, outcome=Outcome.FAILED).events == sample_events([0])


def _full(self: object, data: bytes) -> None:
    raise FileProblem("No space left on device.")


def test_a_csv_of_events_cut_anywhere_loses_its_last_line(tmp_path: Path) -> None:
    record(tmp_path / "run.csv", 2, 5)
    path = tmp_path / "run.events.csv"
    data = path.read_bytes()
    last = data.index(b"0.1,1,")
    for size in range(last + 1, len(data)):
        path.write_bytes(data[:size])
        with pytest.warns(TraceWarning, match="middle of a line"):
            assert read(tmp_path / "run.csv").events == sample_events(range(4))
    path.write_bytes(b"")  # a run that was killed before its first event
    assert len(read(tmp_path / "run.csv").events) == 0


def test_a_damaged_csv_of_events_says_where(tmp_path: Path) -> None:
    path = tmp_path / "run.events.csv"
    path.write_text("time,index,event,value\n0.0,0,a,1\nsoon,0,a,1\n1.0,0,a,1\n")
    with pytest.raises(FileProblem, match=r"line 3: 'soon,0,a,1' is not an event"):
        read_events(path)
    path.write_text("time,index,event,value\n0.0,0,a\n1.0,0,a,1\n")
    with pytest.raises(FileProblem, match="line 2"):
        read_events(path)
    path.write_text("time,event\n0.0,mine\n")  # another program's file, which happens to have the name
    (tmp_path / "run.csv").write_text("time,x\n0,1\n")
    assert len(read(tmp_path / "run.csv").events) == 0


@pytest.mark.parametrize("about", ["5", '"[1]"', '"{""units"": 5}"', '"{""units"": [5]}"', '"{"'])
def test_details_of_another_kind_are_no_event(about: str, tmp_path: Path) -> None:
    path = tmp_path / "run.events.csv"
    path.write_text(f"time,index,event,value,details\n0.5,0,a,1.0,{about}\n")
    with pytest.raises(FileProblem, match="line 2"):
        read_events(path)
    path.write_text("time,index,event,value")  # cut off before the end of its first line
    assert len(read_events(path)) == 0


def test_csv_values_written_by_others(tmp_path: Path) -> None:
    path = tmp_path / "run.events.csv"
    path.write_text(
        '\ufefftime,index,event,value\r\n1,0,a,inf\r\n1,1,a,red\r\n2,0,"b,c","[""x"", ""y""]"\r\n'
    )
    assert list(read_events(path)) == [
        Occurrence("a", 1.0, 0, math.inf),
        Occurrence("a", 1.0, 1, "red"),
        Occurrence("b,c", 2.0, 0, ("x", "y")),
    ]


@needs_parquet
def test_missing_or_foreign_events_beside_parquet_are_said(tmp_path: Path) -> None:
    path, beside = tmp_path / "run.parquet", tmp_path / "run.events.parquet"
    record(tmp_path / "other.parquet", 20, 12)
    record(path, 20, 30)
    (tmp_path / "other.events.parquet").replace(beside)
    with pytest.warns(TraceWarning, match="has 12 events, but .* had 30"):
        read(path)
    beside.write_bytes(b"nonsense")
    with pytest.raises(FileProblem, match="not a file of events"):
        read(path)
    beside.unlink()
    with pytest.warns(TraceWarning, match="30 events of .* are missing"):
        assert read(path).events == EventLog()


def test_two_writers_of_the_same_events_are_kept_apart(tmp_path: Path) -> None:
    recorder = Recorder(COLUMNS, open_sink(tmp_path / "run.csv"), kinds=KINDS)
    with pytest.raises(FileProblem, match=r"run\.events\.csv': another run"):
        open_sink(tmp_path / "run.events.csv")
    recorder.close(Outcome.FAILED)
    assert list(tmp_path.iterdir()) == []
    other = Recorder(COLUMNS, open_sink(tmp_path / "run.events.csv"))
    with pytest.raises(FileProblem, match=r"run\.events\.csv': another run"):
        Recorder(COLUMNS, open_sink(tmp_path / "run.csv"), kinds=KINDS)
    assert [found.name for found in tmp_path.iterdir()] == ["run.events.csv"]
    open_sink(tmp_path / "run.csv").close(Ending())
    other.close(Outcome.FAILED)
    assert list(tmp_path.iterdir()) == []
