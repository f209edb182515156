"""What went wrong: in words on standard error for people, as one object for programs."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upbeat.cli.console import complain, say
from upbeat.cli.exits import exit_for
from upbeat.core.errors import Interrupted, Problem, RunError, ScenarioError, UnitError

if TYPE_CHECKING:
    from upbeat.trace.trace import Trace


def tell(error: BaseException, *, as_json: bool, out: Path | None = None) -> None:
    """Say what happened; `out` is where a run that has begun was writing to."""
    trace = error.trace if isinstance(error, (RunError, Interrupted)) else None
    kept = _kept(out) if out is not None and trace is not None and len(trace) else None
    if as_json:
        so_far = {} if trace is None else progress_data(trace) | {"out": kept and str(kept)}
        say(json.dumps({"ok": False, **so_far, "error": as_data(error)}))
        return
    if kept is not None:
        complain(f"upbeat: the results so far are in {kept}")
    if frames := _users_frames(error):
        complain(f"Traceback of the unit:\n{frames}".rstrip())
    complain(f"upbeat: {error}" if str(error) else "upbeat: interrupted")


def _kept(out: Path) -> Path | None:
    from upbeat.trace.files.sinks import kept_in

    return kept_in(out)


def progress_data(trace: Trace) -> dict[str, Any]:
    """How far a run has come."""
    return {
        "outcome": trace.outcome.value,
        "time": trace.span[1] if len(trace) else None,
        "steps": trace.steps.count,
        "rows": len(trace),
        "events": trace.event_counts,
    }


def as_data(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    message = str(error) or "interrupted"
    data: dict[str, Any] = {"kind": type(error).__name__, "message": message, "exit": int(exit_for(error))}
    if isinstance(error, ScenarioError):
        data["problems"] = problems_data(error)
    if isinstance(error, UnitError):
        data |= {"unit": error.unit, "call": error.call, "time": error.time}
        data |= {"traceback": _users_frames(error) or None}
    return data


def problems_data(error: BaseException) -> list[dict[str, Any]]:
    """The problems of a scenario one by one; any other error as a single one."""
    problems = error.problems if isinstance(error, ScenarioError) else [Problem((), str(error))]
    return [{"line": p.line, "where": list(p.where), "what": p.what, "hint": p.hint} for p in problems]


def _users_frames(error: BaseException) -> str:
    """The traceback of an exception in somebody's unit, without the frames of Upbeat around it."""
    cause = error.__cause__ if isinstance(error, UnitError) else None
    if cause is None:
        return ""
    package = Path(__file__).parents[1]
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if package not in Path(frame.filename).parents]
    return "".join(traceback.format_list(own))
