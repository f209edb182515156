"""The log function of FMI 2, which the core formats: any length, any thread, whatever the listener does."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest

native = pytest.importorskip("upbeat._native")

LOGGER = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p
)


@pytest.fixture
def log():
    """The function, called with a text and no arguments."""
    before = native.set_fmi2_log_sink(None)
    yield LOGGER(native.fmi2_logger_address())
    native.set_fmi2_log_sink(before)


def test_texts_arrive(log):
    heard = []
    native.set_fmi2_log_sink(lambda *line: heard.append(line))
    log(7, b"tank", 3, b"logStatusError", b"100 %% full")
    log(None, None, 0, None, None)
    log(8, b"", 0, b"", "über".encode("latin-1"))
    assert heard == [
        (7, b"tank", 3, b"logStatusError", b"100 % full"),
        (0, b"", 0, b"", b""),
        (8, b"", 0, b"", b"\xfcber"),
    ]


def test_numbers_are_formatted(log):
    heard = []
    native.set_fmi2_log_sink(lambda *line: heard.append(line[-1]))
    variadic = ctypes.CDLL(None)._FuncPtr(native.fmi2_logger_address())
    variadic.restype = None
    variadic(None, b"", 0, b"", b"%d of %s, %.3f", 12, b"x" * 5000, ctypes.c_double(0.5))
    assert heard == [b"12 of " + b"x" * 5000 + b", 0.500"]


def test_other_threads(log):
    heard = []
    native.set_fmi2_log_sink(lambda *line: heard.append(line[0]))
    threads = [threading.Thread(target=log, args=(i, b"", 0, b"", b"")) for i in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard) == list(range(1, 9))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_listener_that_fails(log):
    def fail(*line):
        native.set_fmi2_log_sink(None)
        raise ValueError("no disk")

    native.set_fmi2_log_sink(fail)
    log(1, b"", 0, b"", b"a")
    log(1, b"", 0, b"", b"b")


@pytest.mark.skipif(sys.platform != "linux", reason="on_exit is a call of glibc")
def test_the_interpreter_ends():
    """An FMU may still log in an `atexit` of C, when there is no interpreter any more."""
    code = """
import ctypes
from upbeat import _native
_native.set_fmi2_log_sink(print)
logger = ctypes.cast(_native.fmi2_logger_address(), ctypes.c_void_p)
libc = ctypes.CDLL(None)
libc.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
assert libc.on_exit(logger, None) == 0  # called with (status, argument): an id and an empty name
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
