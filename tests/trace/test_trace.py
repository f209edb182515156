"""The trace: names, values between rows, tables of other libraries."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from sample_traces import COLUMNS, record, row, rows_of
from upbeat.core.errors import InvalidInput, MissingExtra, UpbeatError
from upbeat.core.ports import Kind
from upbeat.trace.columns import Column
from upbeat.trace.log import Outcome
from upbeat.trace.recorder import MemorySink, Recorder
from upbeat.trace.trace import Trace, UnknownSignal


def test_it_is_like_a_table() -> None:
    trace = record(None, 10)
    assert len(trace) == 10
    assert list(trace) == list(trace.names) == [column.name for column in COLUMNS]
    assert trace["time"] is trace.time
    assert "room.T" in trace
    assert "room.X" not in trace
    assert trace.column("room.T").unit == "degC"
    assert trace.span == (0.0, pytest.approx(0.9))
    assert set(trace.to_numpy()) == {"time", *trace.names}
    assert "10 rows × 5 signals" in repr(trace)
    assert "reached its stop time" in repr(trace)


def test_a_wrong_name_lists_near_ones() -> None:
    trace = record(None, 1)
    with pytest.raises(UnknownSignal, match=r"no signal 'room\.t'. Did you mean 'room\.T'\?"):
        trace["room.t"]
    with pytest.raises(KeyError):
        trace["nothing"]
    with pytest.raises(UpbeatError):
        trace.at(0.0, "nothing")


def test_arrays_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValueError, match="read-only"):
        record(None, 3)["room.T"][0] = 1.0


def test_an_array_port_gives_all_its_cells() -> None:
    columns = [Column(f"left.u[{cell}]", Kind.REAL, "m") for cell in range(3)]
    recorder = Recorder(columns, MemorySink())
    recorder.row(0.0, (1.0, 2.0, 3.0))
    trace = Trace.from_recorder(recorder, outcome=Outcome.FINISHED)
    assert trace["left.u"].tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize("name", [None, "run.csv", "run.journal", "run.parquet"])
def test_a_trace_can_be_pickled(name: str | None, tmp_path: Path) -> None:
    if name == "run.parquet":
        pytest.importorskip("pyarrow")
    trace = record(name and tmp_path / name, 30)
    for _ in range(2):  # before and after somebody has looked at it
        copy = pickle.loads(pickle.dumps(trace))
        assert rows_of(copy) == rows_of(trace) == [row(i) for i in range(30)]
        assert (copy.outcome, copy.notes, copy.summary("room.T")) == (
            trace.outcome,
            trace.notes,
            trace.summary("room.T"),
        )


def test_labels() -> None:
    trace = record(None, 4)
    assert trace.labels("ctl.mode").tolist() == ["off", "heat", "cool", "off"]
    with pytest.raises(InvalidInput, match="not an enumeration"):
        trace.labels("ctl.count")


def test_values_between_rows() -> None:
    trace = Trace.from_arrays([0.0, 1.0, 1.0, 2.0], {"x": [0.0, 10.0, 20.0, 40.0], "n": [1, 2, 3, 4]})
    assert trace.at(0.25) == {"x": 2.5, "n": 1}
    assert trace.at(1.0) == {"x": 20.0, "n": 3}  # after the event
    assert trace.at(2.0, "x") == 40.0
    assert trace.at([0.5, 1.5], "x").tolist() == [5.0, 30.0]
    assert trace.at([0.5, 1.5], "n").tolist() == [1, 3]
    for outside in (-0.1, 2.1, float("nan")):
        with pytest.raises(InvalidInput, match="outside the trace"):
            trace.at(outside)
    text = record(None, 3)
    assert text.at(0.15, "ctl.text") == row(1)[1][4]


def test_summary_is_over_time() -> None:
    trace = Trace.from_arrays([0.0, 1.0, 10.0], {"x": [0.0, 1.0, 1.0], "n": [5, 0, 0], "s": ["a", "b", "c"]})
    x, n = trace.summary("x"), trace.summary("n")
    assert x is not None
    assert n is not None
    assert (x.minimum, x.mean, x.maximum, x.final) == (0.0, pytest.approx(0.95), 1.0, 1.0)
    assert n.mean == pytest.approx(0.5)
    assert trace.summary("s") is None


def test_summary_does_not_depend_on_chunks(tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = record(None, 50)
    for chunk_rows in (1, 2, 7, 50):
        path = tmp_path_factory.mktemp("t") / "run.journal"
        streamed = record(path, 50, chunk_rows=chunk_rows)
        path.unlink()  # the summary must not need the file
        for name in whole.names:
            one, other = whole.summary(name), streamed.summary(name)
            if one is None or other is None:
                assert one is other
                continue
            assert (one.minimum, one.maximum, one.final) == (other.minimum, other.maximum, other.final)
            assert one.mean == pytest.approx(other.mean)


def test_from_arrays_checks_shapes() -> None:
    with pytest.raises(InvalidInput, match=r"'x' has shape \(2,\)"):
        Trace.from_arrays([0.0], {"x": [1.0, 2.0]})


def test_pandas() -> None:
    pytest.importorskip("pandas")
    frame = record(None, 10).to_pandas()
    assert frame.index.name == "time"
    assert list(frame.columns) == [column.name for column in COLUMNS]
    assert frame["ctl.on"].tolist() == [row(i)[1][2] for i in range(10)]


def test_polars() -> None:
    pytest.importorskip("polars")
    for rows in (0, 10):
        frame = record(None, rows).to_polars()
        assert frame.columns == ["time", *(column.name for column in COLUMNS)]
        assert frame["ctl.text"].to_list() == [row(i)[1][4] for i in range(rows)]


def test_xarray() -> None:
    pytest.importorskip("xarray")
    data = record(None, 10).to_xarray()
    assert data["room.T"].attrs["units"] == "degC"
    assert np.array_equal(data["time"], record(None, 10).time)
    assert data.attrs["outcome"] == Outcome.FINISHED.value


@pytest.mark.parametrize("library", ["pandas", "polars", "xarray"])
def test_a_missing_library_says_what_to_type(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'upbeat\[{library}\]'"):
        getattr(record(None, 1), f"to_{library}")()


def test_an_empty_trace() -> None:
    trace = record(None, 0)
    assert len(trace) == 0
    assert trace["room.T"].tolist() == []
    assert trace["ctl.text"].tolist() == []
    assert trace.summary("room.T") is None
    with pytest.raises(InvalidInput, match="empty"):
        _ = trace.span
    assert Column("a.b", Kind.REAL) == Column("a.b")
