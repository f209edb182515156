"""A trial that does what the tests of trials ask for, in a module that another process can import."""

from __future__ import annotations

import ctypes
import os
import sys
import time

from upbeat.units.fmi.trial import Notes


def finds(notes: Notes, number: int, how: str) -> None:
    notes.stage("counting")
    notes.found("number", number + 1)
    notes.stage("ending")
    if how == "crash":
        ctypes.string_at(0)
    if how == "exit":
        sys.stderr.write("good bye\n")
        sys.stderr.flush()
        os._exit(7)
    if how == "error":
        raise ValueError("no such luck")
    if how == "hang":
        time.sleep(600)
    notes.found("tmp", os.environ["TMPDIR"])
