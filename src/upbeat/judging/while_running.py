"""Conditions that are found while a run goes on, and used in it: a long run gets better as it goes.

The run has steps that are as short as those of `discover`. Every now and then what has happened so far is
explained. A condition that was found stands still from then on, and what it says is compared with what
happens: where it has foretold two events and was not wrong, the run goes on with it as an observed event, so
that steps end there; where it comes true and nothing happens, it is given up, and has to prove itself again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from upbeat.core.abilities import Ability
from upbeat.core.errors import InvalidInput, RunError
from upbeat.engine.experiment import Experiment
from upbeat.engine.run import Run, interruptible
from upbeat.judging.comparing import Progress
from upbeat.judging.discontinuities import Happening, Rows
from upbeat.judging.discovering import (
    CONFIDENCE,
    FINER,
    UP_TO_THEN,
    Discovery,
    Looked,
    experiment_to_look_at,
    short_steps,
    with_conditions,
)
from upbeat.judging.explaining import SAME, Condition, Evidence, Visible, conditions
from upbeat.master.paces.lookahead import LookAhead
from upbeat.master.paces.pace import Fixed, Pace
from upbeat.scenario.scenario import Scenario
from upbeat.trace.events import EventLog
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.recorder import Arrays
from upbeat.trace.trace import Trace

STRETCHES = 24
"""So often, at most, what has happened is looked at."""
PATIENCE = 10.0
"""So many seconds more than running may take is looking worth; from then on as much as running."""
TOO_MANY = 300
"""So many steps more than a stretch should have are those of a condition that chatters."""
FORETOLD = 2
"""So many events a condition has to foretell before it is used."""


@dataclass
class _Candidate:
    """A condition since it was found, or given up: how often it was right and wrong from then on."""

    condition: Condition
    since: float
    right: int = 0
    wrong: int = 0
    used: bool = False


@dataclass
class _Parts:
    """The traces of a run that went on under other masters, as one."""

    base: Scenario
    columns: list[list[np.ndarray]] = field(default_factory=list)
    events: EventLog = field(default_factory=EventLog)

    def add(self, trace: Trace) -> None:
        arrays = [np.asarray(values) for values in trace.to_numpy().values()]
        if self.columns and len(arrays[0]) and arrays[0][0] == self.columns[0][-1][-1]:
            arrays = [values[1:] for values in arrays]  # it begins where the one before has ended
        if not self.columns:
            self.columns = [[] for _ in arrays]
        for pieces, values in zip(self.columns, arrays, strict=True):
            pieces.append(values)
        for one in trace.events:
            self.events.append(one.name, one.time, one.index, one.value, one.units, one.details)

    def whole(self, last: Trace, *, used: bool) -> Trace:
        """All of it with the trace that is still being made; the events that were `used` with the others."""
        joined = _Parts(self.base, [list(pieces) for pieces in self.columns], self.events[:])
        joined.add(last)
        log = EventLog()
        own = {event.name for event in self.base.events}
        ours = {event.name for event in getattr(last.origin, "scenario", self.base).events} - own
        for one in joined.events:
            if used or (one.name not in ours and one.name not in self.found):
                log.append(one.name, one.time, one.index, one.value, one.units, one.details)
        arrays = Arrays([np.concatenate(pieces) for pieces in joined.columns])
        ending = Ending(last.outcome, last.steps, log, dict(last.info), list(last.notes))
        return Trace(last.columns, arrays, ending)

    found: set[str] = field(default_factory=set)
    """The names of events that were ever used."""


def discover_while_running(
    given: Scenario | Experiment,
    *,
    confidence: float = CONFIDENCE,
    step: float | None = None,
    progress: Progress | None = None,
    **settings: object,
) -> Discovery:
    """Run, find conditions on the way, and use those that have proved themselves; see `discover`.

    `trace` of what it gives is the run. Looking takes about as much time as running, at most.
    """
    begun = time.monotonic()
    made = experiment_to_look_at(given, confidence, step, settings)
    visible = Visible(made.scenario)
    short, usual = short_steps(_handed_on(made), float(FINER), visible.record)
    start, stop = made.span.start, made.span.stop
    known: dict[tuple[str, str], _Candidate] = {}
    parts = _Parts(made.scenario)
    notes: list[str] = []
    running, looking, found = 0.0, 0.0, _Found()
    run = short.open()
    outcome = Outcome.FINISHED
    try:
        with interruptible(None) as asked:
            for k in count(1):
                clock = time.monotonic()
                goal = stop if k >= STRETCHES else start + (stop - start) * k / STRETCHES
                spare = TOO_MANY + (goal - run.time) * FINER / usual
                while not (run.finished or asked.is_set()) and run.time < goal and spare > 0:
                    run.step()
                    spare -= 1
                running += time.monotonic() - clock
                if progress is not None:
                    progress(f"t = {run.time:.6g}, {sum(c.used for c in known.values())} conditions in use")
                ended = run.finished or asked.is_set()
                chattering = spare <= 0 and any(one.used for one in known.values())
                if looking > running + PATIENCE and not ended and not chattering:
                    continue
                clock = time.monotonic()
                found = _look(parts.whole(run.trace, used=False), usual, visible)
                before = {key: one.condition.when for key, one in known.items() if one.used}
                notes += _judge(known, found, run.time, confidence)
                if ended:
                    break
                if chattering:
                    notes.append(_quietened(known, run))
                used = {key: one.condition for key, one in known.items() if one.used}
                if {key: one.when for key, one in used.items()} != before:
                    run = _gone_on(run, _looking_ahead(short, list(used.values()), usual / FINER), parts)
                looking += time.monotonic() - clock
            if not run.finished:
                notes.append(f"interrupted at t = {run.time:.9g}{UP_TO_THEN}")
                outcome = Outcome.INTERRUPTED
        trace = parts.whole(run.trace, used=True)
        trace.outcome = outcome
    except RunError as error:
        if error.trace is None or not len(error.trace):
            raise
        notes.append(f"{error}{UP_TO_THEN}")
        trace = parts.whole(error.trace, used=True)
        found = _look(parts.whole(error.trace, used=False), usual, visible)
    finally:
        run.close()
    used_now = [one.condition.when for one in known.values() if one.used]
    notes.append(f"in use at the end: {', '.join(used_now) or 'nothing'}")
    ordinary = {one.known for one in found.happened if one.known}
    counts = {name: sum(one.known == name for one in found.happened) for name in sorted(ordinary)}
    return Discovery(
        found.conditions, found.happened, found.unexplained, counts, 1, trace.steps.count,
        time.monotonic() - begun, confidence, tuple(notes), made, () if found.rows is None else (found.rows,),
        trace, outcome is Outcome.INTERRUPTED,
    )  # fmt: skip


def _handed_on(made: Experiment) -> Experiment:
    """The experiment, whose units can go on in another machine: as bytes, or in the interpreter."""
    units = made.plan.scenario.units
    unable = [name for name, model in units.items() if Ability.SERIALISE not in model.abilities]
    if not unable or made.engine == "interpret":
        return made
    if made.engine != "auto":
        raise InvalidInput(
            f"the state of '{unable[0]}' cannot be turned into bytes, so that it cannot be handed on while "
            f"the {made.engine} engine runs: take the interpreter (--engine interpret), or leave it open"
        )
    return made.with_(engine="interpret")


def _looking_ahead(short: Experiment, used: Sequence[Condition], step: float) -> Experiment:
    """The experiment with conditions as observed events, at which its steps end."""
    if not used:
        return short
    grown = with_conditions(short, used)
    pace: Pace = Fixed(step) if all(one.every is not None for one in used) else LookAhead(step)
    return grown.with_(master=replace(short.master, pace=pace))


def _quietened(known: dict[tuple[str, str], _Candidate], run: Run) -> str:
    """Give up the condition that comes true most often: it chatters."""
    counts = run.trace.event_counts
    used = {key: one for key, one in known.items() if one.used}
    worst = max(used, key=lambda key: counts.get(used[key].condition.name, 0))
    one = known.pop(worst).condition
    return f"t = {run.time:.6g}: '{one.when}' is given up: it comes true again and again (chattering)"


def _gone_on(run: Run, made: Experiment, parts: _Parts) -> Run:
    """The run under another master."""
    trace = run.trace
    parts.add(trace)
    parts.found |= {event.name for event in made.scenario.events} - {e.name for e in parts.base.events}
    after = made.following(run)
    run.close()
    return after


@dataclass(frozen=True)
class _Found:
    """What explains a run so far."""

    conditions: tuple[Condition, ...] = ()
    happened: tuple[Happening, ...] = ()
    unexplained: tuple[Happening, ...] = ()
    rows: Rows | None = None


def _look(trace: Trace, usual: float, visible: Visible) -> _Found:
    looked = Looked.at(trace, usual)
    assert looked.rows is not None
    happened = looked.happenings(0)
    explained, unexplained = conditions(Evidence([looked.rows], happened, visible, usual))
    return _Found(explained, tuple(happened), unexplained, looked.rows)


def _judge(
    known: dict[tuple[str, str], _Candidate], found: _Found, t: float, confidence: float
) -> Sequence[str]:
    """Compare what was known with what has been found, and say what is used and given up from here on."""
    said = []
    now: Mapping[tuple[str, str], Condition] = {_key(one): one for one in found.conditions if one.shown}
    for key, one in now.items():
        if key not in known:
            if not any(other.used and _beside(one, other.condition) for other in known.values()):
                known[key] = _Candidate(one, t)
            continue
        candidate = known[key]
        candidate.right = sum(at > candidate.since for _, at in one.told)
        candidate.wrong = sum(at > candidate.since for _, at in one.against)
        apart = abs(one.threshold - candidate.condition.threshold)
        if apart > one.uncertainty + candidate.condition.uncertainty:  # it has become another one
            candidate.wrong += 1
        if candidate.wrong:
            if candidate.used:
                said.append(f"t = {t:.6g}: '{candidate.condition.when}' is given up: it came true in vain")
            known[key] = _Candidate(one, t)
        elif candidate.used:
            candidate.condition = replace(one, name=candidate.condition.name)
        elif candidate.right >= FORETOLD and one.confidence >= confidence:
            candidate.used, candidate.condition = True, one
            shown = one.when or f"every {one.every:g} s"
            said.append(f"t = {t:.6g}: '{shown}' is used from here on: it foretold {candidate.right} events")
    return said


def _beside(one: Condition, used: Condition) -> bool:
    """Whether it says the same as one in use, the other way round: a step has ended at the threshold."""
    if one.quantity is None or used.quantity is None or one.quantity.text != used.quantity.text:
        return False
    return abs(one.threshold - used.threshold) <= SAME * (one.uncertainty + used.uncertainty)


def _key(one: Condition) -> tuple[str, str]:
    """Which condition it is, whatever its threshold."""
    if one.quantity is None:
        return "every", f"{one.every:.3g}"
    return one.quantity.text, ">=" if ">=" in one.when else "<="
