"""The event log: superdense times, payloads of every kind, bulk transport, parts and equality."""

from __future__ import annotations

import json
import math
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_traces import ENTRIES, KINDS, fired, sample_events
from upbeat.core.errors import InvalidInput
from upbeat.core.ports import Kind
from upbeat.trace.events import EventKind, EventLog, Occurrence, UnknownEvent


def test_names_times_and_details() -> None:
    log = EventLog()
    log.append("bang", 0.5, units=["a", "b"], details={"predicted": 0.4})
    log.append("stop", 0.5, 1)
    log.append("bang", 0.75)
    assert log.names == ("bang", "stop")
    assert log.counts() == {"bang": 2, "stop": 1}
    assert log.times("bang").tolist() == [0.5, 0.75]
    assert log.times().tolist() == [0.5, 0.5, 0.75]
    assert (log[0].units, log[0].details["predicted"], log[1].index) == (("a", "b"), 0.4, 1)
    assert log[-1] == Occurrence("bang", 0.75)
    assert [entry.name for entry in log[1:]] == ["stop", "bang"]
    assert [entry.name for entry in log[::-2]] == ["bang", "bang"]
    assert log[::-1][2].units == ("a", "b")
    assert EventLog.from_data(json.loads(json.dumps(log.to_data()))) == log
    assert repr(log) == "EventLog(3 events: 2 × bang, 1 × stop)"
    assert "stop" in log
    assert "light" not in log
    assert log.times("light").tolist() == []
    with pytest.raises(IndexError):
        log[3]


def test_every_kind_of_payload_comes_back() -> None:
    log = sample_events(range(30))
    assert list(log) == [Occurrence(*fired(i)) for i in range(30)]
    for name in log.names:
        wanted = [fired(i)[1:] for i in range(30) if fired(i)[0] == name]
        assert log.of(name) == wanted
        assert list(log[name]) == [Occurrence(name, *entry) for entry in wanted]
        assert log[name].times().tolist() == log.times(name).tolist() == [entry[0] for entry in wanted]
    assert log.values("light.lamp").tolist()[:3] == ["red", "green", "blue"]
    assert (log.values("tank.level").dtype.kind, log.values("tank.count").dtype.kind) == ("f", "i")
    assert (log.values("tank.full").dtype.kind, log.values("tank.pair").shape[1]) == ("b", 2)
    assert log.values("tick").tolist() == [None] * len(log["tick"])


def test_enumerations_take_numbers_and_labels() -> None:
    log = EventLog(KINDS)
    log.append("light.lamp", 0.0, value=1)
    log.append("light.lamp", 0.0, 1, value="blue")
    log.append("light.lamp", 1.0, value=7)
    assert log.values("light.lamp").tolist() == ["green", "blue", 7]
    assert log.kinds == KINDS, "nothing had to be added"


def test_one_name_may_carry_different_things() -> None:
    log = EventLog()
    for value in (None, 1, 2.5, "x", (True, False), None):
        log.append("any", 0.0, value=value)
    assert log.values("any").tolist() == [None, 1, 2.5, "x", (True, False), None]
    assert [type(entry.value) for entry in log[1:3]] == [int, float]
    assert log.names == ("any",)
    assert log.counts() == {"any": 6}
    for bad in ([], {"a": 1}, [1, "a"]):
        with pytest.raises(InvalidInput, match="the event 'any' cannot carry"):
            log.append("any", 0.0, value=bad)
    assert len(log) == 6


def test_an_unknown_name_is_a_key_error_that_helps() -> None:
    log = sample_events(range(9))
    with pytest.raises(UnknownEvent, match=r"no event 'light\.lamb'. Did you mean 'light\.lamp'"):
        log["light.lamb"]
    assert issubclass(UnknownEvent, KeyError)
    assert EventLog(KINDS)["tank.level"].values("tank.level").dtype.kind == "f"


def test_bulk_is_the_same_as_one_by_one() -> None:
    """The layout that the native engine fills, put together here by hand."""
    names = ["light.lamp", "tick", "tank.level", "tank.pair", "tank.text", "unheard"]
    cells = np.empty(6, dtype=np.int64)
    cells[[0, 5]] = (2, 1)  # blue; "no" in the pool below
    cells[1] = np.array([2.5]).view(np.int64)[0]
    cells[2:4] = np.array([1.0, math.nan]).view(np.int64)
    cells[4] = np.array([-0.0]).view(np.int64)[0]
    log, single = EventLog(KINDS), EventLog(KINDS)
    log.append("tank.text", 0.0, value="own")
    log.extend(
        names, [0, 1, 2, 3, 2, 4, 5], [0, 0, 1, 1, 2, 2, 2], [0, 1, 0, 1, 0, 1, 2], cells, ["yes", "no"]
    )
    single.append("tank.text", 0.0, value="own")
    single.append("light.lamp", 0.0, 0, "blue")
    single.append("tick", 0.0, 1)
    single.append("tank.level", 1.0, 0, 2.5)
    single.append("tank.pair", 1.0, 1, (1.0, math.nan))
    single.append("tank.level", 2.0, 0, -0.0)
    single.append("tank.text", 2.0, 1, "no")
    single.append("unheard", 2.0, 2)
    assert log == single
    again = EventLog(KINDS)
    again.extend(names, [2], [0.5], [0], np.array([7.0]))  # doubles do as well: only the bits count
    assert again.of("tank.level") == [(0.5, 0, 7.0)]


def test_bulk_with_the_pool_of_the_engine() -> None:
    pool = ["one"]
    log = EventLog(KINDS, pool)
    pool.append("two")
    log.extend(["tank.text"], np.zeros(2, np.int32), [0.0, 1.0], [0, 0], np.array([1, 0]), pool)
    assert log.values("tank.text").tolist() == ["two", "one"]


def test_bulk_that_does_not_fit_is_refused_whole() -> None:
    log = EventLog(KINDS)
    with pytest.raises(InvalidInput, match="need as many times and indices and 1 cells, not 1, 1 and 0"):
        log.extend(["tank.level"], [0], [0.0], [0], [])
    with pytest.raises(InvalidInput, match="not 2, 1 and 1"):
        log.extend(["tank.level"], [0], [0.0, 1.0], [0], [1.0])
    with pytest.raises(InvalidInput, match="numbered 0 to 0"):
        log.extend(["tank.level"], [1], [0.0], [0], [1.0])
    assert len(log) == 0
    log.extend([], [], [], [])
    assert len(log) == 0


def test_parts_do_not_change_with_the_whole_nor_the_whole_with_parts() -> None:
    log = sample_events(range(6))
    part, times = log[:], log.times()
    log.append("tick", 99.0)
    part.append("tick", 77.0)
    assert (len(log), len(part), len(times)) == (7, 7, 6)
    assert (log[6].time, part[6].time) == (99.0, 77.0)
    log.drop()
    assert (len(log), part[0], log.kinds) == (0, Occurrence(*fired(0)), part.kinds)
    with pytest.raises(ValueError, match="read-only"):
        times[0] = 1.0


def test_equality_is_about_what_is_shown() -> None:
    numbered, worded = EventLog(KINDS), EventLog()
    numbered.append("light.lamp", 1.0, value=0)
    worded.append("light.lamp", 1.0, value="red")
    assert numbered == worded
    for other in (("light.lamp", 1.0, 0, "green"), ("light.lamp", 1.0, 1, "red"), ("x", 1.0, 0, "red")):
        log = EventLog()
        log.append(*other)
        assert log != worded
    nans = [EventLog(), EventLog()]
    for log in nans:
        log.append("x", 0.0, value=math.nan)
    assert nans[0] == nans[1]
    assert EventLog() != [1]


@settings(deadline=None)
@given(entries=ENTRIES, cut=st.slices(30))
def test_a_log_is_a_sequence(entries: list[Any], cut: slice) -> None:
    log = EventLog()
    for entry in entries:
        log.append(*entry)
    wanted = [Occurrence(*entry) for entry in entries]
    assert list(log) == wanted
    assert list(log[cut]) == wanted[cut]
    assert [log[i] for i in range(len(wanted))] == wanted
    assert EventLog.from_data(json.loads(json.dumps(log.to_data()))) == log
    assert pickle.loads(pickle.dumps(log)) == log


def test_a_scalar_event_costs_at_most_40_bytes() -> None:
    count = 200_000
    log = EventLog([EventKind("x", Kind.REAL, 1)])
    codes, times, indices = np.zeros(1000, np.int32), np.zeros(1000), np.zeros(1000, np.int32)
    tracemalloc.start()
    for _ in range(count // 1000):
        log.extend(["x"], codes, times, indices, times)
    assert log[-1].value == 0.0
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used <= 40 * count
