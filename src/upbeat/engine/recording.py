"""The recorder of a run: a fresh one, or one that goes on with the results of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upbeat.engine.checkpoints.checkpoint import Stored
from upbeat.engine.checkpoints.keeper import Keeper
from upbeat.engine.selection import Selection, event_kinds
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.files.side import SideSink
from upbeat.trace.files.sinks import check_ours, check_suffix, open_sink
from upbeat.trace.recorder import Recorder

if TYPE_CHECKING:
    from upbeat.engine.experiment import Experiment


def recorder_for(
    experiment: Experiment,
    selection: Selection,
    strings: list[str],
    keeper: Keeper | None,
    resumed: Stored | None,
) -> Recorder:
    """A recorder that shares the engine's `strings`, or has those of the checkpoint.

    With checkpoints, results that are wanted in memory are on disk until the end, like all others.
    """
    out, every = experiment.out, experiment.every
    beside = keeper.settings.rows if keeper is not None and out is None else None
    to = out or beside
    if to is not None:
        check_suffix(to)
        check_ours(to, selection.columns, force=experiment.force)
    sink = SideSink(beside) if beside is not None else open_sink(out)
    if resumed is None:
        kinds = event_kinds(experiment.plan.program)
        return Recorder(selection.columns, sink, every, strings=strings, kinds=kinds)
    # Texts keep the numbers that they have in the file. The engine's are others, and the recorder translates.
    known = resumed.document["recorder"]
    kinds = [EventKind.from_data(data) for data in known["kinds"]]
    recorder = Recorder(selection.columns, sink, every, strings=list(known["strings"]), kinds=kinds)
    recorder.stand(known)
    return recorder
