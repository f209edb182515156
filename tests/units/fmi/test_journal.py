"""Messages of FMUs arrive in Python's logging, whole and with what they are about."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from fmu_opened import Opened, opened
from upbeat.units.fmi import journal as fmu_logging
from upbeat.units.fmi.instance import FmuError

Fmus = Callable[[str, int], Path]
LONG = (string.ascii_lowercase * 4000)[:100_000]


def stepped(chatty: Opened, **more: object) -> None:
    one = chatty.begun(name="talker", **more)
    one.step(0.0, 0.25, True)
    one.step(0.25, 0.25, True)


@pytest.mark.supports("fmi2", "Log messages", "formatted, to Python's logging")
def test_messages_of_fmi_2_are_formatted(fmu: Fmus, caplog: pytest.LogCaptureFixture) -> None:
    with opened(fmu("chatty", 2)) as chatty, caplog.at_level(logging.DEBUG, "upbeat.fmu"):
        stepped(chatty, logging=True)
    first, long, second = caplog.records
    tail = "talker, x,  3.14|42    |0000beef, -5000000000, a and #"
    assert first.getMessage() == f"step 0 from 0 to 0.250: 100% of {tail}"
    assert second.getMessage() == f"step 1 from 0.25 to 0.500: 100% of {tail}"
    assert long.getMessage() == f"{LONG}|1|two|3.5|end"
    assert (first.name, first.levelname, second.levelname) == ("upbeat.fmu.talker", "DEBUG", "DEBUG")
    assert long.levelname == "WARNING"
    assert (second.unit, second.time, second.category) == ("talker", 0.25, "logEvents")  # type: ignore[attr-defined]


@pytest.mark.supports("fmi3", "Log messages", "to Python's logging")
def test_messages_of_fmi_3_are_taken_as_they_are(fmu: Fmus, caplog: pytest.LogCaptureFixture) -> None:
    with opened(fmu("chatty", 3)) as chatty, caplog.at_level(logging.DEBUG, "upbeat.fmu"):
        stepped(chatty, logging=True)
    assert [record.getMessage() for record in caplog.records] == [
        "step 0 from 0 to 0.250: 100% of talker, %d",
        LONG,
        "step 1 from 0.25 to 0.500: 100% of talker, %d",
    ]
    assert caplog.records[2].time == 0.25  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [2, 3])
def test_categories_that_nobody_asked_for_are_left_out(
    version: int, fmu: Fmus, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(fmu("chatty", version)) as chatty, caplog.at_level(logging.DEBUG, "upbeat.fmu"):
        stepped(chatty, logging=["logStatusError"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("version", [2, 3])
def test_messages_during_instantiation_are_heard(
    version: int, fmu: Fmus, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(fmu("early", version)) as early:
        early.instance(name="newborn")
    assert "newborn is being made" in caplog.text


@pytest.mark.parametrize("version", [2, 3])
def test_a_handler_that_raises_does_so_after_the_fmu_has_returned(version: int, fmu: Fmus) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise KeyboardInterrupt

    logger, handler = logging.getLogger("upbeat.fmu.talker"), Broken()
    logger.addHandler(handler)
    try:
        with opened(fmu("chatty", version)) as chatty:
            one = chatty.begun(name="talker")
            one.step(0.0, 0.25, True)
            assert one.complaints()[0].startswith("its last message was")  # nothing went wrong
            with pytest.raises(KeyboardInterrupt):
                one.step(0.25, 0.25, True)
            assert one.reader(chatty["time"])() == 0.25
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize("version", [2, 3])
def test_what_the_fmu_said_is_in_the_error_and_only_there(version: int, fmu: Fmus) -> None:
    with opened(fmu("linear", version)) as linear:
        one = linear.begun()
        write = one.writer(linear["y"])
        for _ in range(3):
            with pytest.raises(FmuError) as caught:
                write(1.0)
            assert str(caught.value).count("refused") == 1


def test_an_unknown_environment_goes_to_the_common_logger(caplog: pytest.LogCaptureFixture) -> None:
    fmu_logging._deliver(10**9, b"who", 1, b"", b"h\xffm")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("upbeat.fmu", "who: h�m")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("#r5# and #r6#", "u and x"),
        ("## #r99# #i1# #", "# #r99# #i1# #"),
        ("#r1", "#r1"),
    ],
)
def test_references_become_names(text: str, shown: str, fmu: Fmus, caplog: pytest.LogCaptureFixture) -> None:
    with opened(fmu("linear", 2)) as linear:
        fmu_logging.Journal("one", linear.description).message(1, "", text)
    assert caplog.messages == [shown]
