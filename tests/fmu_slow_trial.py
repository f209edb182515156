"""A trial whose module takes a while to be imported, in the process of the trial only."""

from __future__ import annotations

import sys
import time

from upbeat.units.fmi.trial import Notes

if sys.argv[0] == "-c":
    time.sleep(3)


def quick(notes: Notes) -> None:
    notes.found("number", 1)
