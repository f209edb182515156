"""How a run went: its outcome, and all that it leaves behind besides its signals."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from upbeat.core.plain import Fields
from upbeat.trace.events import EventLog
from upbeat.trace.lateness import Lateness
from upbeat.trace.steps import StepLog


class Outcome(enum.Enum):
    """How a run ended. Each value is the sentence that people read."""

    FINISHED = "the run reached its stop time"
    STOPPED_BY_EVENT = "the run stopped at an event, as it was asked to"
    STOPPED_BY_UNIT = "the run ended before its stop time, as a unit asked it to"
    INTERRUPTED = "the run was interrupted; the results so far are kept"
    STOPPED = "the run was ended before its stop time; the results so far are kept"
    TOO_LATE = (
        "the run fell behind real time and was stopped, as it was asked to; the results so far are kept"
    )
    FAILED = "the run failed; the results so far are kept"
    RUNNING = "the run is still going"
    CUT_OFF = "the run was killed or is still going; the results so far are kept"
    UNKNOWN = "the file does not say how the run ended"

    @property
    def ok(self) -> bool:
        """Whether the run did what it was asked to do."""
        return self in (Outcome.FINISHED, Outcome.STOPPED_BY_EVENT, Outcome.STOPPED_BY_UNIT)

    @classmethod
    def named(cls, name: str) -> Outcome:
        """The outcome that a file names; UNKNOWN for a name of another version."""
        return cls.__members__.get(name, cls.UNKNOWN)


@dataclass(slots=True)
class Ending:
    """What a run leaves behind besides its signals. Files keep the events apart: there may be millions."""

    outcome: Outcome = Outcome.UNKNOWN
    steps: StepLog = field(default_factory=StepLog)
    events: EventLog = field(default_factory=EventLog)
    info: dict[str, Any] = field(default_factory=dict)
    """Plain values: ``engine``, ``why`` (that engine), ``wall_seconds``, ``lateness`` in real time."""
    notes: list[str] = field(default_factory=list)
    """Complete sentences that the user should read."""

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file, without the events."""
        return {
            "outcome": self.outcome.name,
            "steps": self.steps.to_data(),
            "info": self.info,
            "notes": self.notes,
        }

    @classmethod
    def from_data(cls, data: Any) -> Ending:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "the end of the run")
        info = fields.table("info")
        # Looked at here, so that nobody stumbles over it later.
        known = fields.fields("info")
        reads = {
            "wall_seconds": known.number,
            "engine": known.text,
            "why": known.text,
            "warnings": known.texts,
        }
        for name, read in reads.items():
            if name in info:
                read(name)
        if "undefined" in info:
            times = known.fields("undefined")
            for event in known.table("undefined"):
                times.number(event)
        if "lateness" in info:
            Lateness.from_data(info["lateness"])
        steps = StepLog.from_data(fields.any("steps"))
        return cls(Outcome.named(fields.text("outcome")), steps, EventLog(), info, fields.texts("notes"))
