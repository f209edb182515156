"""The summary: an outcome, a line of facts, a table."""

from __future__ import annotations

from pathlib import Path

from sample_traces import record
from upbeat.report.summary import summary
from upbeat.trace.columns import Column
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Outcome
from upbeat.trace.recorder import Recorder
from upbeat.trace.trace import Trace


def test_every_kind_of_signal() -> None:
    trace = record(None, 10)
    trace.info = {"engine": "interpret", "why": "no compiler was found", "wall_seconds": 0.0234}
    trace.steps.extend_grid(0.0, 0.9, 9, "grid", rejected=1)
    trace.events.append("bang", 0.5)
    assert summary(trace).splitlines() == [
        "The run reached its stop time.",
        "t = 0 … 0.9 s, 9 steps, 1 rejected, 1 event, 10 rows recorded, 23.4 ms.",
        "Events: 1 × bang.",
        "Engine interpret: no compiler was found.",
        "",
        "signal     unit           min        mean          max         final",
        "────────────────────────────────────────────────────────────────────",
        "room.T     degC     0.0833333    0.154986     0.333333     0.0833333",
        "ctl.count        -4.61169e+18  5.1241e+17  4.61169e+18  -4.61169e+18",
        "ctl.on                  false      33.3 %         true          true",
        "ctl.mode                    –           –            –           off",
        "ctl.text                    –           –            –             –",
    ]


def test_events_are_counted_by_name() -> None:
    trace = Trace.from_arrays([0.0, 1.0], {"a.x": [1.0, 2.0]})
    for number in range(9):
        for _ in range(10 - number):
            trace.events.append(f"e{number}", 0.5)
    facts, events = summary(trace).splitlines()[1:3]
    assert facts == "t = 0 … 1 s, 54 events, 2 rows recorded."
    assert events == "Events: 10 × e0, 9 × e1, 8 × e2, 7 × e3, 6 × e4, 5 × e5, 9 of 3 other names."


def test_events_between_units_tell_how_well_they_were_foreseen() -> None:
    trace = Trace.from_arrays([0.0, 1.0], {"a.x": [1.0, 2.0]})
    trace.events.append("bang", 0.1)
    for number, landed in enumerate((1e-3, -2e-3, 0.5e-3)):
        predicted = {"predicted": {"at": 0.0, "for": 0.5}} if number else {}
        trace.events.append("hit", 0.5, number, True, ("a", "b"), {"landed": landed} | predicted)
    said = summary(trace).splitlines()[3]
    assert said == "Between units: 2 of 3 events predicted, landed within 0.002 s of the crossing."
    trace.events.append("hit", 0.6, 0, True, ("a", "b"), {})
    said = summary(trace).splitlines()[3]
    assert said == (
        "Between units: 2 of 4 events predicted, landed within 0.002 s of the crossing; "
        "the delay of 1 is not known."
    )


def test_events_without_a_distance() -> None:
    trace = Trace.from_arrays([0.0, 1.0], {"a.x": [1.0, 2.0]})
    trace.events.append("hit", 0.5, 0, True, ("a",), {})
    said = summary(trace).splitlines()[3]
    assert said == "Between units: none of 1 event predicted, the delay of 1 is not known."


def test_little_to_say() -> None:
    trace = Trace.from_arrays([], {"a.x": []})
    assert summary(trace) == "The file does not say how the run ended.\nNothing was recorded."
    one = Trace.from_arrays([2.0], {"a.x": [1.5]})
    assert summary(one).splitlines()[-1] == "a.x     1.5   1.5  1.5    1.5"


def test_a_streamed_run_is_summed_up_without_reading_its_file(tmp_path: Path) -> None:
    recorder = Recorder([Column("a.x")], open_sink(tmp_path / "run.csv"))
    recorder.row(0.0, (1.0,))
    recorder.close(Outcome.FAILED)
    (tmp_path / "run.csv").unlink()
    text = summary(Trace.from_recorder(recorder, outcome=Outcome.FAILED))
    assert text.startswith("The run failed; the results so far are kept.")
    assert text.endswith("a.x       1     1    1      1")
