"""The keeper of a run: makes its checkpoints when they are due, and removes the last one at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import FileProblem, RecordingError
from upbeat.engine.checkpoints.checkpoint import Checkpoint, Stored, interval
from upbeat.engine.loop import ENDLESS, Loop
from upbeat.engine.machine import Machine
from upbeat.trace.log import Outcome
from upbeat.trace.recorder import Recorder

if TYPE_CHECKING:
    from upbeat.engine.drive import Drive


class Keeper:
    """Writes the checkpoints of one run. `about` is the part of the document that stays the same."""

    def __init__(
        self, settings: Checkpoint, about: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._about = dict(about)
        self._seconds, self._steps = interval(settings.every)
        self._clock = clock
        self._last = clock(), 0

    def most(self, drive: Drive) -> int:
        """How many steps there are to the next checkpoint, if steps are counted."""
        if self._steps > ENDLESS:
            return ENDLESS
        return max(1, int(self._steps) - (drive.steps.count - self._last[1]))

    def due(self, drive: Drive) -> bool:
        """Whether it is time for the next one."""
        when, steps = self._last
        return self._clock() - when >= self._seconds or (
            self._steps < ENDLESS and drive.steps.count - steps >= self._steps
        )

    def take(self, machine: Machine, drive: Drive, recorder: Recorder, story: Mapping[str, Any]) -> None:
        """Write one, between two steps. What it says about result files is on the disk before."""
        at = drive.time
        document = {
            **self._about,
            "time": at,
            "finished": at >= self._about["span"][1],
            "info": dict(story["info"]),
        }
        try:
            document["recorder"] = recorder.standing()
            Stored(document, machine.to_bytes(machine.save()), drive.steps).write(self.settings.path)
        except FileProblem as problem:
            raise RecordingError(f"the checkpoint could not be made: {problem}") from problem
        self._last = self._clock(), drive.steps.count

    def done(self, outcome: Outcome) -> None:
        """The results are complete: there is nothing to go on with, if the run has reached its end."""
        if outcome.ok:
            self.settings.path.unlink(missing_ok=True)


def set_back(machine: Machine, loop: Loop, stored: Stored) -> None:
    """Let a machine and its loop stand where the checkpoint was made."""
    machine.restore(machine.from_bytes(stored.machine))
    loop.after(stored.steps)
    loop.stand(float(stored.document["time"]))
