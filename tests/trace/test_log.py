"""Logs: runs of equal steps, outcomes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.reasons import Reason
from upbeat.trace.log import RUNS, Ending, Outcome, StepLog, StepRun, StepRuns


def test_a_grid_is_one_entry() -> None:
    log = StepLog()
    for i in range(1000):
        log.append(i * 0.1, (i + 1) * 0.1, "grid")
    assert list(log) == [StepRun(0.0, 100.0, 1000, Reason("grid"))]
    assert log.count == 1000
    times, sizes = log.sizes()
    assert times == pytest.approx(np.arange(1000) * 0.1)
    assert sizes == pytest.approx(np.full(1000, 0.1))


def test_tiny_steps_late_in_a_run_are_still_one_entry() -> None:
    log = StepLog()
    for i in range(2000):
        log.append(1e6 + i * 1e-6, 1e6 + (i + 1) * 1e-6, "grid")
    assert len(log) == 1


def test_another_reason_size_block_or_gap_starts_a_new_run() -> None:
    log = StepLog()
    log.append(0.0, 1.0, "grid")
    log.append(1.0, 2.0, "grid")
    log.append(2.0, 2.5, "grid")
    log.append(2.5, 3.0, "event 'bang' is near", rejected=2)
    log.append(3.0, 3.5, "event 'bang' is near", block="careful")
    log.append(4.0, 4.5, "event 'bang' is near", block="careful")
    assert [(run.count, run.reason[:5], run.block, run.size) for run in log] == [
        (2, "grid", "step", 1.0),
        (1, "grid", "step", 0.5),
        (1, "event", "step", 0.5),
        (1, "event", "careful", 0.5),
        (1, "event", "careful", 0.5),
    ]
    assert (log.count, log.rejected) == (6, 2)
    assert log.reasons() == {"grid": 3, "event 'bang' is near": 3}


def test_when_steps_ended_for_reasons_of_some_kind() -> None:
    log = StepLog()
    for i, reason in enumerate([Reason("grid"), Reason("event", "a"), Reason("event", "b")] * 2):
        log.append(i, i + 1.0, reason)
    assert log.ends({"event"}).tolist() == [2.0, 3.0, 5.0, 6.0]
    assert log.ends({"event", "grid"}).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert log.ends({"other"}).tolist() == StepLog().ends({"event"}).tolist() == []


def test_grids_from_the_native_engine_join() -> None:
    log = StepLog()
    log.extend_grid(0.0, 50.0, 500, "grid")
    log.extend_grid(50.0, 100.0, 500, "grid")
    log.extend_grid(100.0, 100.0, 0, "grid")
    assert list(log) == [StepRun(0.0, 100.0, 1000, Reason("grid"))]
    assert repr(log) == "StepLog(1000 steps in 1 runs)"


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.25, 3.0]), st.sampled_from("ab"), st.integers(0, 2))))
def test_nothing_is_lost(steps: list[tuple[float, str, int]]) -> None:
    log, time, starts = StepLog(), 0.0, []
    for size, reason, rejected in steps:
        starts.append(time)
        log.append(time, time + size, reason, rejected=rejected)
        time += size
    times, sizes = log.sizes()
    assert times == pytest.approx(starts)
    assert sizes == pytest.approx([size for size, _, _ in steps])
    assert (log.count, log.rejected) == (len(steps), sum(r for _, _, r in steps))
    assert StepLog.from_data(json.loads(json.dumps(log.to_data()))) == log


def test_outcomes_are_sentences() -> None:
    ended = {Outcome.FINISHED, Outcome.STOPPED_BY_EVENT, Outcome.STOPPED_BY_UNIT}
    assert {outcome for outcome in Outcome if outcome.ok} == ended
    assert all(len(outcome.value.split()) >= 5 for outcome in Outcome)
    assert Outcome.named("FAILED") is Outcome.FAILED
    assert Outcome.named("invented later") is Outcome.UNKNOWN
    assert Ending.from_data(Ending(Outcome.FINISHED).to_data()).outcome is Outcome.FINISHED


def test_many_runs_at_once_are_as_one_by_one() -> None:
    whole, single = StepLog(), StepLog()
    for log in (whole, single):
        log.append(0.0, 1.0, "late")
        log.append(1.0, 2.0, "grid")
    rows = [(2.0, 4.0, 2, 7, 1, 0), (4.0, 4.5, 1, 7, 0, 3), (4.5, 4.75, 1, -2, 0, 0)]
    reasons, blocks = {7: Reason("grid"), -2: Reason("near", "it")}, {0: "careful", 1: "step"}
    whole.extend(StepRuns(np.array(rows, RUNS), reasons, blocks))
    for first, last, count, why, what, rejected in rows:
        single.extend_grid(first, last, count, reasons[why], blocks[what], rejected)
    assert list(whole) == list(single)
    assert list(whole)[1:] == [
        StepRun(1.0, 4.0, 3, Reason("grid")),
        StepRun(4.0, 4.5, 1, Reason("grid"), "careful", 3),
        StepRun(4.5, 4.75, 1, Reason("near", "it"), "careful"),
    ]
    whole.extend(StepRuns(np.array([], RUNS), {}, {}))
    assert whole.reasons() == {"late": 1, "grid": 4, "near": 1}
