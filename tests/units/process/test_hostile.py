"""FMUs that misbehave on purpose (tools/hostile.py has many more of them), and bytes that nobody meant."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.hostile import COMPILER, Fault, Judge, Verdict, workshop

import upbeat as up
from upbeat.engine import run
from upbeat.units import ports
from upbeat.units.process.wire import BrokenFrame, Frames, RecordReader, read_reply, write_reply

needs_system = pytest.mark.skipif(
    COMPILER is None or not Path("/proc/self/environ").exists(), reason="needs a C compiler, and Linux"
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with workshop() as folder:
        yield Judge(folder)


def judged(judge: Judge, names: str, engine: str, *, isolated: bool = True) -> dict[str, Verdict]:
    """One host for all of these, which must survive each of them."""
    faults = [Fault(*name.split(":")) for name in names.split()]
    versions = [2 + number % 2 for number in range(len(faults))]
    found = judge.judged(list(zip(faults, versions, strict=True)), engine, isolated=isolated)
    assert {verdict.fault.name: verdict.problems for verdict in found if verdict.problems} == {}
    return {verdict.fault.name: verdict for verdict in found}


@needs_system
def test_the_run_survives_what_an_isolated_fmu_does_to_its_process(judge: Judge) -> None:
    found = judged(
        judge, "truncate:step zeros:step write:step throw:step killgroup:step daemon:step", "native"
    )
    words = {name: verdict.told["words"] for name, verdict in found.items()}
    # It depends on who looks when: the answer that follows puts everything right again.
    assert words["zeros:step"] == "" or "wrote over the memory that it shares" in words["zeros:step"]
    assert "raised a C++ exception (std::logic_error: thrown by the FMU)" in words["throw:step"]
    assert "died of signal 9" in words["killgroup:step"]
    assert words["truncate:step"] == words["write:step"] == ""  # nothing is there that could be spoiled


@needs_system
def test_the_same_on_the_interpreter(judge: Judge) -> None:
    found = judged(judge, "throw:step grow:step segv:terminate", "interpret")
    assert "raised a C++ exception (std::logic_error: thrown by" in found["throw:step"].told["words"]
    (warning,) = found["segv:terminate"].told["heard"]
    assert "unit 'hostile' failed when it was ended: its process died of signal 11" in warning


@needs_system
def test_nobody_changes_how_others_compute(judge: Judge, engine: str) -> None:
    judged(judge, "upward:get tozero:set flush:load traps:step", engine, isolated=False)


@needs_system
def test_an_exception_of_cpp_is_an_error_of_its_unit(judge: Judge, engine: str) -> None:
    found = judged(judge, "throw:step throw:get", engine, isolated=False)
    for verdict in found.values():
        assert "raised a C++ exception (std::logic_error: thrown by the FMU)" in verdict.told["words"]


@needs_system
@pytest.mark.parametrize("fault", ["abort:terminate", "sleep:step"])
def test_results_outlive_a_run_that_dies_with_its_fmu(judge: Judge, fault: str) -> None:
    judged(judge, fault, "native", isolated=False)


class Hanging:
    """Waits in its third step until somebody has noticed."""

    noticed: list[str]

    def __init__(self, name: str, start: float, parameters: object) -> None:
        self.steps = 0

    def get(self, port: str) -> float:
        return float(self.steps)

    def advance(self, t: float, to: float, early: bool = False) -> float:
        self.steps += 1
        if self.steps == 3:
            for _ in range(10_000):
                if self.noticed:
                    break
                time.sleep(0.01)
        return to


def test_a_unit_that_does_not_come_back_is_named(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SAVING_SECONDS", 0.02)
    monkeypatch.setattr(run, "TELLING_SECONDS", 0.05)
    Hanging.noticed = noticed = []

    class Noticing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            noticed.append(record.getMessage())

    handler = Noticing()
    logging.getLogger("upbeat.run").addHandler(handler)
    try:
        model = up.PythonUnit(Hanging, ports({}, {"n": {}}))
        up.simulate(up.Scenario({"slow": model}), pace=0.1, until=0.5, engine=engine)
    finally:
        logging.getLogger("upbeat.run").removeHandler(handler)
    assert "unit 'slow' has been in the same step for 0 s" in noticed[0]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(PLAIN, st.binary(max_size=60))
def test_what_comes_through_a_pipe_is_a_message_or_none(value: object, junk: bytes) -> None:
    reading, writing = os.pipe()
    try:
        write_reply(writing, value)
        frames = Frames(reading, read_reply)
        assert frames.wait() == (value,)
        os.write(writing, junk)
        os.close(writing)
        writing = -1
        while frames.wait() is not None:
            pass
    except BrokenFrame:
        pass
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


RECORD = {"name": "upbeat.fmu.one", "levelno": 30, "created": 1.0, "msg": "heard", "extra": {"unit": "one"}}
CHANGES = st.dictionaries(
    st.sampled_from(list(RECORD)), st.none() | st.integers() | st.text() | st.lists(st.none())
)


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=40) | CHANGES.map(lambda odd: json.dumps({**RECORD, **odd}).encode())))
def test_records_that_are_none_are_left_out(lines: list[bytes]) -> None:
    heard: list[str] = []

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    logger = logging.getLogger("upbeat.fmu.one")
    handler = Hearing()
    logger.addHandler(handler)
    try:
        with tempfile.TemporaryFile() as file:
            listener = RecordReader(file.fileno())
            file.write(b"\n".join([*lines, json.dumps(RECORD).encode(), b""]))
            file.flush()
            listener.hand_on()
            assert heard[-1:] == ["heard"]
            file.truncate(0)
            listener.hand_on()
    finally:
        logger.removeHandler(handler)
