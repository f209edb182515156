"""Progress on a terminal, in a log file, and not at all."""

from __future__ import annotations

import io
import os

import pytest

from upbeat.core.display import Progress, _duration, _short


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((100, 24)))


@pytest.mark.usefixtures("wide")
def test_one_line_that_is_redrawn_and_vanishes_when_the_run_fails() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(0.0, 10.0, stream=stream, clock=clock) as progress:
        progress.update(0.1)
        assert stream.getvalue() == "", "nothing yet: it may be over in a moment"
        clock.now += 1.0
        progress.update(2.5)
        progress.update(2.6)  # too soon to draw again
        clock.now += 1.0
        progress.update(5.0)
    first, second, end = stream.getvalue().split("\r\x1b[K")[1:]
    assert first == " 25 %  ████████░░░░░░░░░░░░░░░░░░░░░░  t = 2.5 of 10 s · 2.5 s/s · 0:03 left"
    assert second == " 50 %  ███████████████░░░░░░░░░░░░░░░  t = 5 of 10 s · 2.5 s/s · 0:02 left"
    assert end == ""


@pytest.mark.usefixtures("wide")
def test_the_line_of_a_finished_run_stays_however_short_it_was() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(0.0, 10.0, stream=stream, clock=clock) as progress:
        clock.now += 0.01
        progress.update(10.0)
    assert stream.getvalue() == f"\r\x1b[K100 %  {'█' * 30}  t = 10 of 10 s · 1k s/s\n"


def test_a_narrow_terminal_gets_a_shorter_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((30, 24)))
    stream, clock = Terminal(), Clock()
    progress = Progress(0.0, 10.0, stream=stream, clock=clock)
    clock.now += 1
    progress.update(5.0)
    assert len(stream.getvalue().removeprefix("\r\x1b[K")) <= 29


@pytest.mark.usefixtures("wide")
def test_a_terminal_without_unicode_gets_ascii() -> None:
    class Old(Terminal):
        encoding = "ascii"

    stream, clock = Old(), Clock()
    progress = Progress(0.0, 10.0, stream=stream, clock=clock)
    clock.now += 1
    progress.update(5.0)
    assert stream.getvalue().isascii()
    assert "###---" in stream.getvalue()


def test_plain_lines_are_rare() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(0.0, 100.0, stream=stream, clock=clock) as progress:
        for second in range(1, 101):
            clock.now += 1.0
            progress.update(float(second))
    lines = stream.getvalue().splitlines()
    assert [line[:5] for line in lines] == [*(f" {tenth}0 %" for tenth in range(1, 10)), "100 %"]
    assert lines[4].startswith(" 50 %  t = 50 of 100 s")
    assert lines[4].endswith("1 s/s - 0:50 left")
    quick = io.StringIO()
    with Progress(0.0, 100.0, stream=quick, clock=clock) as progress:
        for second in range(101):
            clock.now += 0.02
            progress.update(float(second))
    assert quick.getvalue() == "100 %  t = 100 of 100 s - 49.5 s/s\n"


def test_quiet_says_nothing() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(0.0, 1.0, stream=stream, quiet=True, clock=clock) as progress:
        clock.now += 10
        progress.update(0.5)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(("start", "stop"), [(0.0, 5e-324), (1.0, 1.0), (1e300, 1.1e300), (-1.0, 0.0)])
def test_odd_spans_do_no_harm(start: float, stop: float) -> None:
    stream, clock = Terminal(), Clock()
    with Progress(start, stop, stream=stream, clock=clock) as progress:
        for t in (start, stop, stop + 1):
            clock.now += 1
            progress.update(t)
    assert "100 %" in stream.getvalue()


def test_numbers_for_people() -> None:
    assert [_short(r) for r in (0.01234, 4.5678, 999, 12345, 4.5e6, 7e9)] == [
        "0.0123",
        "4.57",
        "999",
        "12.3k",
        "4.5M",
        "7G",
    ]
    assert [_duration(s) for s in (7, 725, 10800, 3 * 86400 + 7200, 1e12)] == [
        "0:07",
        "12:05",
        "3:00:00",
        "3 d 2 h",
        "more than 99 days",
    ]
