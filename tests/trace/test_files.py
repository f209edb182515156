"""Result files: all comes back, killed and damaged ones give what they have, bad paths are refused."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from sample_traces import COLUMNS, record, row, rows_of
from upbeat.core.errors import FileProblem, MissingExtra, RecordingError
from upbeat.core.ports import Kind
from upbeat.trace import extras
from upbeat.trace.columns import Column
from upbeat.trace.files.output import TraceWarning
from upbeat.trace.files.parquet import ParquetSink
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


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("rows", [0, 1, 7, 50])
def test_every_kind_of_value_comes_back(suffix: str, rows: int, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    direct = record(path, rows)
    back = read(path)
    expected = [row(i) for i in range(rows)]
    assert len(back) == len(direct) == rows
    assert rows_of(back) == rows_of(direct) == expected
    if rows:
        assert [back[c.name].dtype.kind for c in COLUMNS] == ["f", "i", "b", "i", "O"]
    beside = ["run.columns.json"] if suffix == "csv" else []
    assert sorted(p.name for p in tmp_path.iterdir()) == [*beside, path.name]


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s != "csv"])
def test_logs_and_columns_come_back(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    trace = record(None, 20)
    trace.outcome = Outcome.STOPPED_BY_EVENT
    trace.steps.extend_grid(0.0, 1.9, 19, "grid")
    trace.events.append("bang", 0.5, 1, units=["a", "b"], details={"predicted": 0.4})
    trace.save(path)
    back = read(path)
    assert back.columns == COLUMNS
    assert back.outcome is Outcome.STOPPED_BY_EVENT
    assert (back.steps, back.events) == (trace.steps, trace.events)
    assert back.labels("ctl.mode").tolist()[:4] == ["off", "heat", "cool", "off"]
    direct = record(path, 3)
    assert read(path).info == {"engine": "interpret", "wall_seconds": 0.5}
    assert read(path).notes == ("a note",)
    assert direct.outcome is Outcome.FINISHED


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(values=st.lists(st.floats(width=64), min_size=1))
def test_csv_floats_are_bit_exact(values: list[float], tmp_path: Path) -> None:
    array = np.array(values)
    Trace.from_arrays(np.arange(len(array)), {"a.x": array}).save(tmp_path / "run.csv")
    back = read(tmp_path / "run.csv")["a.x"]
    same = back.view(np.int64) == array.view(np.int64)
    assert np.all(same | (np.isnan(back) & np.isnan(array)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=1))
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_text_comes_back(texts: list[str], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    Trace.from_arrays(np.arange(len(texts)), {"a.s": np.array(texts, dtype=object)}).save(path)
    assert read(path)["a.s"].tolist() == texts


def test_csv_is_plain(tmp_path: Path) -> None:
    record(tmp_path / "run.csv", 2)
    assert (tmp_path / "run.csv").read_text() == (
        "time,room.T,ctl.count,ctl.on,ctl.mode,ctl.text\n"
        '0.0,0.3333333333333333,4611686018427387904,true,0,""\n'
        '0.1,0.25,-4611686018427387905,false,1,"1"\n'
    )


# ------------------------------------------------------------------------------------ killed and cut

KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
from sample_traces import *
recorder = Recorder(COLUMNS, open_sink({path!r}), chunk_rows=10)
for i in range(10_000):
    recorder.row(*row(i))
    if i == 99:
        print("ready", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_killed_run_keeps_all_but_the_last_chunk(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    path.write_text("an earlier result")
    script = KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    if suffix == "csv":
        back = read(path)
        assert back.outcome is Outcome.CUT_OFF
    else:
        with pytest.warns(TraceWarning, match="not complete"):
            back = read(path)
        assert back.outcome is Outcome.CUT_OFF
        assert not back.outcome.ok
        assert "not complete" in back.notes[0]
    assert rows_of(back) == [row(i) for i in range(100)]


def test_a_journal_cut_anywhere_in_its_last_chunk(tmp_path: Path) -> None:
    recorder = Recorder(COLUMNS, open_sink(tmp_path / "run.journal"), chunk_rows=5)
    for i in range(15):
        if i == 10:
            recorder.flush()
            whole = (tmp_path / "run.journal").stat().st_size
        recorder.row(*row(i))
    data = (tmp_path / "run.journal").read_bytes()
    recorder.close(Outcome.FINISHED)
    cut = tmp_path / "cut.journal"
    for size in range(whole, len(data)):
        cut.write_bytes(data[:size])
        with pytest.warns(TraceWarning, match="first 10 rows"):
            back = read(cut)
        assert rows_of(back) == [row(i) for i in range(10)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_journal_gives_whole_chunks_or_an_error(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    record(path, 20)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    header = content.index(b"\n") if b"\n" in content else 0
    try:
        with pytest.warns(TraceWarning, match="not complete"):
            back = read(path)
        assert rows_of(back) == [row(i) for i in range(len(back))]
        assert len(back) in (0, 7, 14, 20)
    except FileProblem:
        assert at <= header
    except pytest.fail.Exception:
        assert at <= header  # a letter of a name, which no check sum covers


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_a_csv_cut_anywhere_in_its_last_line_loses_that_line(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    record(path, rows - 1)
    kept = path.stat().st_size
    record(path, rows)  # the fifth row has a text of two lines
    data = path.read_bytes()
    for size in range(kept + 1, len(data)):
        path.write_bytes(data[:size])
        with pytest.warns(TraceWarning, match="middle of line"):
            back = read(path)
        assert rows_of(back) == [row(i) for i in range(rows - 1)]


def test_a_complete_last_line_without_line_end_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time,u\n0,1\n1,2")
    with pytest.warns(TraceWarning, match="line 3"):
        assert read(path)["u"].tolist() == [1]
    assert read(path, keep_last=True)["u"].tolist() == [1, 2]


def test_slow_rows_reach_the_disk_without_a_full_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.csv"
    recorder = Recorder(COLUMNS, open_sink(path))
    recorder.row(*row(0))
    assert path.stat().st_size == 0
    now = time.monotonic()
    monkeypatch.setattr("upbeat.trace.recorder.clock.monotonic", lambda: now + 3)
    recorder.row(*row(1))
    assert len(read(path)) == 2
    recorder.close(Outcome.FINISHED)


# ------------------------------------------------------------------------------- files from elsewhere


def test_csv_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xef\xbb\xbfu;time;name;flag\r\n1;0;a;true\r\n2.5;1;;false\r\n\r\n")
    back = read(path)
    assert back.names == ("u", "name", "flag")
    assert back["u"].tolist() == [1.0, 2.5]
    assert back["name"].tolist() == ["a", ""]
    assert back["flag"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'time'"),
        ("a,b\n1,2\n", "no column 'time'"),
        ("time,a,a\n0,1,2\n", "two columns 'a'"),
        ("time,a\n0,1\n1\n2,3\n", "line 3: 1 values, but the first line names 2 columns"),
        ("time,a\n0,1\nsoon,2\n", "line 3: 'soon' is not a time"),
        ("time,a\n0,1\n2,2\n1,3\n", "line 4: time goes backwards"),
        ("time,a\n0,1\nnan,2\n", "line 3: time goes backwards or is not a number"),
        ('time,a\n0,"x"y\n1,"z"\n', "not readable as CSV"),
    ],
)
def test_a_csv_that_cannot_be_right(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(text)
    with pytest.raises(FileProblem, match=message):
        read(tmp_path / "in.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_something_else(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    path.write_bytes(bytes(range(256)) * 8)
    with pytest.raises(FileProblem, match=r"run\."):
        read(path)


@needs_parquet
def test_a_truncated_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    record(path, 50)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileProblem, match="not a complete Parquet file"):
        read(path)


@needs_parquet
def test_parquet_from_elsewhere(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.table({"x": [1.5, 2.5], "time": [0, 1], "s": ["a", "b"]}), path)
    back = read(path)
    assert (back.names, back.time.tolist(), back["s"].tolist()) == (("x", "s"), [0.0, 1.0], ["a", "b"])
    parquet.write_table(pyarrow.table({"time": [0], "d": [[1]]}), path)
    with pytest.raises(FileProblem, match="column 'd'"):
        read(path)


# ----------------------------------------------------------------------------------- before the run


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_path_that_cannot_be_written_is_refused_before_the_run(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"there is no folder .* mkdir -p"):
        open_sink(tmp_path / "missing" / f"run.{suffix}")
    (tmp_path / f"folder.{suffix}").mkdir()
    with pytest.raises(FileProblem, match="it is a folder"):
        open_sink(tmp_path / f"folder.{suffix}")
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        with pytest.raises(FileProblem, match="Permission denied"):
            open_sink(closed / f"run.{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_earlier_result_stays_until_there_is_a_new_one(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    record(path, 5)
    failed = Recorder(COLUMNS, open_sink(path))
    failed.close(Outcome.FAILED)
    assert len(read(path)) == 5
    fresh = Recorder(COLUMNS, open_sink(path))
    fresh.row(*row(0))
    fresh.close(Outcome.FAILED)
    assert len(read(path)) == 1


def test_a_full_disk_is_reported_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.csv"
    recorder = Recorder(COLUMNS, open_sink(path), chunk_rows=5)
    for i in range(5):
        recorder.row(*row(i))

    class Full:
        """Takes a few bytes and then has no more room."""

        def __init__(self, file: object) -> None:
            self.file, self.room = file, 30

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def write(self, data: memoryview) -> int:
            if self.room <= 0:
                raise OSError(28, "No space left on device")
            count = int(self.file.write(data[: self.room]))  # type: ignore[attr-defined]
            self.room -= count
            return count

    appender = recorder._sink._file  # type: ignore[attr-defined]
    appender._file = Full(appender._file)
    for i in range(5, 9):
        recorder.row(*row(i))
    with pytest.raises(
        RecordingError, match=r"No space left on device.* All rows before this point are kept"
    ):
        recorder.row(*row(9))
    recorder.row(*row(10))
    recorder.close(Outcome.FAILED)  # it has been said once
    assert rows_of(Trace.from_recorder(recorder, outcome=Outcome.FAILED)) == [row(i) for i in range(5)]
    assert rows_of(read(path)) == [row(i) for i in range(5)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_second_run_to_the_same_file_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    first = Recorder(COLUMNS, open_sink(path), chunk_rows=5)
    for i in range(12):
        if i in (0, 8):  # before and after something was written
            with pytest.raises(FileProblem, match="another run is writing to it"):
                open_sink(path)
        first.row(*row(i))
    open_sink(tmp_path / f"other.{suffix}").close(Ending())
    first.close(Outcome.FINISHED)
    assert rows_of(read(path)) == [row(i) for i in range(12)]
    record(path, 3)
    assert len(read(path)) == 3
    beside = ["run.columns.json"] if suffix == "csv" else []
    assert sorted(p.name for p in tmp_path.iterdir()) == [*beside, path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_processes_do_not_mix_their_results(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{suffix}"
    script = KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(FileProblem, match="another run is writing to it"):
            open_sink(path)
        process.send_signal(signal.SIGKILL)
    record(path, 3)  # what a killed run has left does not block
    assert rows_of(read(path)) == [row(i) for i in range(3)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_run_without_rows_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    record(tmp_path / f"run.{suffix}", 0, Outcome.FAILED)
    assert list(tmp_path.iterdir()) == []


def test_other_suffixes_and_missing_files() -> None:
    with pytest.raises(FileProblem, match=r"Use \.csv, \.parquet or \.journal"):
        open_sink("run.xlsx")
    with pytest.raises(FileProblem, match=r"cannot read 'run\.txt'"):
        read("run.txt")
    with pytest.raises(FileProblem, match=r"there is no file 'nowhere\.csv'"):
        read("nowhere.csv")


def test_parquet_without_its_extra_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'upbeat\[parquet\]'"):
        ParquetSink(tmp_path / "run.parquet")


@needs_parquet
def test_parquet_is_written_in_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("upbeat.trace.files.parquet._GROUP_BYTES", 6 * 8 * 20)
    record(tmp_path / "run.parquet", 50)
    assert parquet.ParquetFile(tmp_path / "run.parquet").num_row_groups == 3
    assert rows_of(read(tmp_path / "run.parquet")) == [row(i) for i in range(50)]


def test_columns_may_have_awkward_names(tmp_path: Path) -> None:
    trace = Trace.from_arrays([0.0], {'a,"b"': [1.0], "u.x[0]": [math.pi], "u.x[1]": [2.0]})
    for suffix in SUFFIXES:
        trace.save(tmp_path / f"run.{suffix}")
        back = read(tmp_path / f"run.{suffix}")
        assert back.names == trace.names
        assert back["u.x"].tolist() == [[math.pi, 2.0]]
    assert Column("x").kind is Kind.REAL


def test_csv_keeps_units_of_measure_and_labels_beside_it(tmp_path: Path) -> None:
    file, beside = tmp_path / "run.csv", tmp_path / "run.columns.json"
    heater = up.Ode(
        {"T": {"der": "1 if mode == 'heat' else 0", "unit": "degC"}},
        inputs={"mode": {"items": ["off", "heat"], "start": "heat"}},
    )
    up.simulate(up.Scenario({"h": heater}), step=0.5, until=1.0, record=["*"], out=file)
    back = up.read(file)
    assert {column.name: (column.unit, column.items) for column in back.columns} == {
        "h.T": ("degC", ()),
        "h.mode": (None, ("off", "heat")),
    }
    assert file.read_text().splitlines()[0].startswith("time,")  # any program reads it as it is
    beside.write_text('{"columns": 3}')
    with pytest.warns(UserWarning, match="does not say what the columns"):
        assert up.read(file).columns[0].unit is None
    up.simulate(up.Scenario({"h": heater}), step=0.5, until=1.0, out=file)
    up.simulate(up.Scenario({"x": up.Ode({"x": "-x"})}), step=0.5, until=1.0, out=file)
    assert up.read(file).columns == (Column("x.x", Kind.REAL),), "that of an earlier run does not stay"


def test_csv_keeps_how_the_run_went_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    floor = up.Scenario({"ball": ball}, events={"hit": {"when": "ball.x <= 0"}})
    ran = up.simulate(floor, pace=up.LookAhead(0.1), until=0.5, out=file)
    back = up.read(file)
    assert (back.outcome, back.steps, back.info, back.notes) == (ran.outcome, ran.steps, ran.info, ran.notes)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[-1]]) + "\n")
    other = up.read(file)
    assert other.outcome is Outcome.UNKNOWN, "what it was told of are other rows"
    assert not len(other.steps)
    assert "has been changed since its run" in other.notes[0]


def test_texts_of_any_length_are_read_again(tmp_path: Path) -> None:
    """What a unit says may be longer than fields of Python's csv module usually are."""
    path = tmp_path / "run.csv"
    recorder = Recorder([Column("a.s", Kind.STRING)], open_sink(path))
    recorder.row(0.0, ["x" * 200_000])
    recorder.close(Outcome.FINISHED)
    assert read(path)["a.s"][0] == "x" * 200_000
