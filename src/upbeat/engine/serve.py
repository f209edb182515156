"""The program of a process with one unit in it (see `upbeat.units.process`): makes the unit, and serves it.

It lives with the engines, because it makes the unit as one of them would.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upbeat.core.abilities import Ability, Model, Native, instantiated
from upbeat.core.errors import EndRequest, RunError
from upbeat.engine.machine import close_all, text_of
from upbeat.units.process.unit import rows
from upbeat.units.process.wire import Frames, RecordSender, read_order, write_reply


def main() -> None:
    """Take the order, make the unit, answer until the end."""
    orders, replies, lifeline, memory, records, size = map(int, sys.argv[2:8])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which will end this process
    atexit.register(shutil.rmtree, os.environ["TMPDIR"], ignore_errors=True)
    _prefer_to_die()
    frames = Frames(orders, read_order)
    frame = frames.wait()
    if frame is None:
        return
    name, start, pickled, slopes, core, level, beside = frame[0]
    shared = _shared(memory, size) if core else None
    _end_with(lifeline, core)
    write_reply(replies, "hello")
    sender = RecordSender(records, lambda: None)
    logger = logging.getLogger("upbeat")
    logger.addHandler(sender)
    logger.setLevel(level)
    unit: Any = None
    try:
        sys.path[:0] = beside  # only now: our own modules are loaded, and none there takes their place
        model = _unpickled(pickled)
        if core:
            unit, entered = _entered(model, name, start, slopes)
            server = _served(model, entered, start, shared)
            sender.on_record = server.record
        else:
            from upbeat.units.process.piped import Answering

            unit = instantiated(model, name, start)
            server = Answering(model, unit, words)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the run has to hear of it
        write_reply(replies, ("failed", words(error)))
        return
    write_reply(replies, ("ready", server.calls))
    try:
        if core:
            os.close(orders)  # what the unit does not need, it cannot spoil
            os.close(replies)
            server.run()
        else:
            server.run(frames, replies)
    finally:
        close_all({name: unit})


def words(error: BaseException) -> str:
    """What a unit raised, as the run will say it."""
    if isinstance(error, EndRequest):
        return error.reason
    return str(error) if isinstance(error, RunError) else text_of(error)


def _unpickled(data: bytes) -> Model:
    try:
        model: Model = pickle.loads(data)  # noqa: S301  # from the run that started this process
    except AttributeError as error:
        if "__main__" not in str(error):
            raise
        raise AttributeError(
            f"{error}. A function or class of the script itself cannot be found by another process: move it "
            "to a module of its own and import it"
        ) from error
    return model


def _entered(model: Model, name: str, start: float, slopes: Any) -> tuple[Any, Any]:
    """The Python unit, if there is one, and the unit as the core takes it."""
    from upbeat.engine.native.entry import Entry

    entry = Entry(jit=False)
    if slopes is not None and Ability.NATIVE in model.abilities and isinstance(model, Native):
        return None, model.enter(entry.asked(slopes), name, start)
    unit = instantiated(model, name, start)
    return unit, entry.callback(model, unit)


def _prefer_to_die() -> None:
    """Where memory runs out, the system is to end this process and not the run."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def _shared(memory: int, size: int) -> Any:
    """The memory that the run sees, too: taken before the unit is there, which then has no file to spoil."""
    from upbeat import _native

    shared = _native.Memory(memory, size)
    os.close(memory)
    return shared


def _served(model: Model, entered: Any, start: float, shared: Any) -> Any:
    from upbeat import _native

    prefix = "NativeFailure: " if isinstance(entered, _native.Addresses) else ""
    complaints = entered.complaints if isinstance(entered, _native.Fmu) else None
    more = None if complaints is None else lambda: _why(complaints())
    return _native.Server(entered, start, shared, rows(model.ports), words, prefix, more)


def _why(complaints: Sequence[str]) -> str:
    from upbeat.units.fmi.journal import why

    return why(complaints)


def _end_with(lifeline: int, core: bool) -> None:
    """See to it that this process does not outlive the run."""
    if core:
        from upbeat import _native

        _native.end_with(lifeline)
        os.close(lifeline)
        return

    def watch() -> None:
        while os.read(lifeline, 1):
            pass
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
