"""What is said when a unit takes the whole process along: by a crash in its C code, or by calling exit()."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from upbeat.cli.exits import Exit

_HOW = (
    "run again with --isolation process to learn which one and to keep the results; what was written so far "
    "is kept\n"
)


@contextmanager
def spoken() -> Iterator[None]:
    """Inside, faults are announced before they end the process, and exit() ends it as a failed run.

    The handler is in the core: Python's own run between two instructions, which there will not be any more,
    and `faulthandler` shows a page of Upbeat's insides. Without the core nothing is said.
    """
    try:
        from upbeat import _native as core
    except ImportError:
        yield
        return
    core.announce_faults("upbeat: a unit crashed (signal ", f"); {_HOW}")
    core.forbid_exit(f"upbeat: a unit ended the process by calling exit(); {_HOW}", Exit.FAILED)
    try:
        yield
    finally:
        core.forbid_exit("", 0)
        core.leave_faults_alone()
