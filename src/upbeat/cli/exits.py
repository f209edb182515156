"""Exit codes of the command line, and which error gets which."""

from __future__ import annotations

import enum
import threading

from upbeat.core.errors import InvalidInput, MissingExtra, RunError


class Exit(enum.IntEnum):
    """What the shell sees. The numbers are documented and do not change."""

    OK = 0
    """The command did what it was asked to."""
    INTERNAL = 1
    """A defect of Upbeat itself: please report it."""
    USAGE = 2
    """The command line is wrong."""
    INVALID = 3
    """The scenario, a file or a value is wrong; nothing was run."""
    FAILED = 4
    """The run stopped before its end; the results so far are kept."""
    MISSING = 5
    """An optional part is not installed; the message says what to type."""
    OUTPUT = 6
    """Standard output could not be written; files that the command was asked for are complete."""
    INTERRUPTED = 130
    """Ctrl-C; the results so far are kept."""
    TERMINATED = 143
    """SIGTERM; the results so far are kept."""


SIGTERM = threading.Event()
"""Set when it was SIGTERM that interrupted the command, and not Ctrl-C."""


def exit_for(error: BaseException) -> Exit:
    """The exit code for an error that reached the top."""
    match error:
        case KeyboardInterrupt():
            return Exit.TERMINATED if SIGTERM.is_set() else Exit.INTERRUPTED
        case InvalidInput():
            return Exit.INVALID
        case RunError():
            return Exit.FAILED
        case MissingExtra():
            return Exit.MISSING
    return Exit.INTERNAL
