"""The recorder of a run: a fresh one, or one that goes on with the results of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from upbeat.engine.checkpoints.checkpoint import Stored
from upbeat.engine.checkpoints.keeper import Keeper
from upbeat.engine.selection import Selection, event_kinds
from upbeat.master.program import Program
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.files.side import SideSink
from upbeat.trace.files.sinks import check_ours, check_suffix, open_sink
from upbeat.trace.recorder import Recorder


def recorder_for(
    program: Program,
    selection: Selection,
    every: int,
    out: Path | None,
    strings: list[str],
    keeper: Keeper | None,
    resumed: Stored | None,
    force: bool = False,
) -> Recorder:
    """A recorder that shares the engine's `strings`, or has those of the checkpoint.

    With checkpoints, results that are wanted in memory are on disk until the end, like all others.
    """
    beside = keeper.settings.rows if keeper is not None and out is None else None
    to = out or beside
    if to is not None:
        check_suffix(to)
        check_ours(to, selection.columns, force=force)
    sink = SideSink(beside) if beside is not None else open_sink(out)
    if resumed is None:
        return Recorder(selection.columns, sink, every, strings=strings, kinds=event_kinds(program))
    # Texts keep the numbers that they have in the file. The engine's are others, and the recorder translates.
    known = resumed.document["recorder"]
    kinds = [EventKind.from_data(data) for data in known["kinds"]]
    recorder = Recorder(selection.columns, sink, every, strings=list(known["strings"]), kinds=kinds)
    recorder.stand(known)
    return recorder
