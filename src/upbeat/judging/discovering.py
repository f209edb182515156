"""Events that nobody has declared: found in runs with short steps, and written as events without an effect.

A run with short steps shows when something happens (`upbeat.judging.discontinuities`), and conditions explain
it (`upbeat.judging.explaining`). What is sure enough becomes an event of the scenario without `then`: the
unit acts, and `LookAhead` ends a step there.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from upbeat.core.abilities import Ability, doubt
from upbeat.core.display import Displayed
from upbeat.core.errors import Interrupted, InvalidInput, RunError, check_type
from upbeat.core.ports import Kind
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.run import interruptible
from upbeat.engine.selection import Selection
from upbeat.engine.settings import Settings
from upbeat.judging.comparing import UNCHANGED, Progress, Trials
from upbeat.judging.discontinuities import (
    FEWEST,
    NOTABLE,
    Happening,
    Numbers,
    Rows,
    Window,
    happenings,
    joined,
    suspects,
)
from upbeat.judging.explaining import Condition, Evidence, Visible, conditions
from upbeat.master.master import Master
from upbeat.master.paces.pace import Fixed, Proposal, Read, State, nominal_step
from upbeat.scenario.scenario import Scenario
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Outcome, StepLog
from upbeat.trace.recorder import Recorder
from upbeat.trace.trace import Trace
from upbeat.units import Clock

SECONDS = 60.0
"""How long all runs together may take, on the wall, unless told."""
FINER = 16
"""A run has so many times as many steps, so that what happens can be told apart; fewer if there is no
time."""
COARSE = 4
"""So many times as many steps has a run whose units can go back, and short ones around what is strange."""
STRANGE = 4.0
"""A value that is off its course by so many times as much as usual is worth short steps."""
EXACT = 4
"""A signal that so often was exactly where it was expected is strange where it is not any more,"""
EXACTLY = 1e-9
"""by more than this part of its size."""
NEARBY = 100
"""So many rows around a suspect are looked at closely."""
TOO_FEW = 4 * FEWEST
"""Of fewer rows nobody can say what happens in them."""
UP_TO_THEN = "; what there is up to then was looked at"
CONFIDENCE = 0.7
"""What is less sure than this is told, but not written."""


@dataclass(frozen=True)
class Discovery(Displayed):
    """What was found: `conditions`, the surest first; what `happened` and is `unexplained`; and in `known`
    what the scenario knows of already."""

    conditions: tuple[Condition, ...]
    happened: tuple[Happening, ...]
    unexplained: tuple[Happening, ...]
    known: Mapping[str, int]
    runs: int
    steps: int
    seconds: float
    minimum: float = CONFIDENCE
    notes: tuple[str, ...] = ()
    experiment: Experiment | None = field(default=None, repr=False, compare=False)
    rows: tuple[Rows, ...] = field(default=(), repr=False, compare=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    """The run in which conditions were found and used, if that was asked for."""
    interrupted: bool = False
    """Whether Ctrl-C has ended it: what there was until then was looked at."""

    @property
    def sure(self) -> tuple[Condition, ...]:
        """Those that are sure enough to be used, and can be."""
        return tuple(one for one in self.conditions if one.confidence >= self.minimum and one.shown)

    @property
    def tables(self) -> dict[str, Any]:
        """What `sure` ones add to a scenario file."""
        made: dict[str, Any] = {}
        for one in self.sure:
            for key, table in one.tables.items():
                made.setdefault(key, {}).update(table)
        return made

    def improved(self) -> Experiment:
        """The experiment with what is sure as events without an effect, and a master that meets them."""
        if self.experiment is None:
            raise InvalidInput("there is no experiment to improve: it was found in a trace")
        return with_conditions(self.experiment, self.sure)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "conditions": [{**one.data(), "used": one in self.sure} for one in self.conditions],
            "happened": len(self.happened),
            "unexplained": [
                {"time": one.time, "effects": [str(b) for b in one.breaks]} for one in self.unexplained
            ],
            "known": dict(self.known),
            "runs": self.runs,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "interrupted": self.interrupted,
        }

    def __str__(self) -> str:
        sure = ", ".join(one.when or f"every {one.every:g} s" for one in self.sure)
        return f"{len(self.sure)} conditions found: {sure}" if sure else "no conditions found"


# ----------------------------------------------------------------------------------------------------
# Runs that show what happens.


def short_steps(made: Experiment, factor: float, record: Sequence[str]) -> tuple[Experiment, float]:
    """The experiment with steps that many times as short, all of one size; and the usual step."""
    step = nominal_step(made.master.pace) or (made.span.stop - made.span.start) / 1000
    master = Master(
        Fixed(step / factor),
        made.master.coupling,
        made.master.inputs,
        made.master.ports,
        made.master.simultaneous,
    )
    fields: dict[str, Any] = {
        "out": None,
        "real_time": None,
        "checkpoint": None,
        "profile": None,
        "force": False,
    }
    return made.with_(master=master, record=tuple(record), every=1, **fields), step


class _Tape:
    """What a run records, of which the last part can be taken back. Stands in for a recorder, and for the log
    of events of one."""

    jumps = False

    def __init__(self) -> None:
        self.rows: list[tuple[float, Sequence[Any], Sequence[Any] | None]] = []
        self.fired: list[tuple[Any, ...]] = []
        self.events = self

    def append(self, name: str, time: float, *more: Any) -> None:
        self.fired.append((name, time, *more))

    def row(self, time: float, values: Sequence[Any], left: Sequence[Any] | None = None) -> None:
        self.rows.append((time, tuple(values), left))

    finish = row

    def back(self, time: float) -> None:
        """Forget what came after that time."""
        while self.rows[-1][0] > time:
            self.rows.pop()
        while self.fired and self.fired[-1][1] > time:
            self.fired.pop()

    def trace(self, selection: Selection, steps: StepLog) -> Trace:
        recorder = Recorder(selection.columns, open_sink(None), kinds=selection.kinds)
        for one in self.fired:
            recorder.events.append(*one)
        for row in self.rows:
            recorder.row(*row)
        return Trace.from_recorder(recorder, outcome=Outcome.FINISHED, steps=steps)


class _Size:
    """A pace whose steps are as long as somebody says from outside, on a grid from the start."""

    def __init__(self, size: float) -> None:
        self.size = size

    @property
    def nominal_step(self) -> float:
        return self.size

    def begin(self, span: Any) -> State:
        return (span.start,)

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        until = state[0] + (math.floor((t - state[0]) / self.size + 1e-6) + 1) * self.size
        return Proposal(limit if until > limit - 1e-6 * self.size else until, "a closer look"), state


def _looked_at_twice(
    made: Experiment, usual: float, coarse: float, report: Callable[[float], None]
) -> Looked:
    """A run in steps of one size. Where a signal leaves its course, all units go back by two steps, and go on
    in steps that are `FINER` times as short until two steps behind that: these are the windows."""
    step = usual / coarse
    pace = _Size(step)
    made = made.with_(master=replace(made.master, pace=pace))
    program, selection = made.plan.program, made.selection
    tape, note, interrupted = _Tape(), "", False
    windows: list[Window] = []
    machine = Interpreter(program, made.plan.scenario.units, made.span.start)
    try:
        loop = Loop(machine, program, made.span, selection, cast(Recorder, tape))
        loop.begin()
        course = _Course([column.kind is Kind.REAL for column in selection.columns])
        kept: deque[tuple[float, Any, _Course]] = deque(maxlen=3)
        closely = made.span.start  # up to here steps are short, and nothing is looked for
        with interruptible(machine) as asked:
            while not loop.finished and not asked.is_set():
                short = loop.time < closely - 1e-6 * step
                pace.size = step / FINER if short else step
                if not short:
                    kept.append((loop.time, machine.save(), copy(course)))
                loop.step()
                report(loop.time)
                if short and course.between(loop.time, step):
                    continue
                if course.leaves(loop.time, tape.rows[-1][1]) and not short:
                    begin, token, course = kept[0]
                    closely = min(loop.time + 2.0 * step, made.span.stop)
                    windows.append((begin, closely))
                    machine.restore(token)
                    loop.set_time(begin)
                    tape.back(begin)
                    kept.clear()
            if asked.is_set():
                note, interrupted = f"interrupted at t = {loop.time:.9g}{UP_TO_THEN}", True
    except RunError as error:
        note = f"{error}{UP_TO_THEN}"
    finally:
        machine.close()
    trace = tape.trace(selection, loop.steps)
    return Looked.at(trace, usual, note)._replace(windows=joined(windows), interrupted=interrupted)


class _Course:
    """The last three values of the signals that are `real`, what is usual to miss when they are continued
    (and how often they were exactly where they were expected), and their ranges; and what the others were."""

    def __init__(self, real: Sequence[bool]) -> None:
        self._real = list(real)
        columns = self._columns = [k for k, one in enumerate(real) if one]
        self._modes: list[Any] = []
        self._times: list[float] = []
        self._values: list[Numbers] = []
        self._usual = np.zeros(len(columns))
        self._exact = np.zeros(len(columns), dtype=int)
        self._low, self._high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)

    def __copy__(self) -> _Course:
        made = _Course(self._real)
        made._times, made._values, made._modes = list(self._times), list(self._values), self._modes
        made._usual, made._exact = self._usual, self._exact
        made._low, made._high = self._low, self._high
        return made

    def between(self, t: float, step: float) -> bool:
        """Whether less than a step has passed since the last value."""
        return bool(self._times) and t < self._times[-1] + (1.0 - 1e-6) * step

    def leaves(self, t: float, row: Sequence[Any]) -> bool:
        """Whether one of them is not where it was expected; takes note of where they are."""
        modes = [value for value, real in zip(row, self._real, strict=True) if not real]
        changed, self._modes = bool(self._times) and modes != self._modes, modes
        now = np.array([row[k] for k in self._columns], dtype=float)
        off = np.abs(now - self._expected(t)) if len(self._times) == 3 else np.zeros(len(now))
        known = self._usual > 0.0
        size = np.maximum(np.maximum(np.abs(self._low), np.abs(self._high)), np.abs(now))
        still = ~known & (self._exact >= EXACT) & (off > EXACTLY * size)
        strange = known & (off > STRANGE * self._usual) & (off > NOTABLE * (self._high - self._low)) | still
        self._exact = np.where(off > 0.0, 0, self._exact + (len(self._times) == 3))
        usual = 0.8 * self._usual + 0.2 * np.minimum(off, 4.0 * self._usual)
        self._usual = np.where(known, usual, np.where(still, off / STRANGE, off))
        self._low, self._high = np.minimum(self._low, now), np.maximum(self._high, now)
        if not self._times or t > self._times[-1]:
            self._times, self._values = [*self._times[-2:], t], [*self._values[-2:], now]
        return changed or bool(strange.any())

    def _expected(self, t: float) -> Numbers:
        """On the parabola through three points."""
        (t2, t1, t0), (c, b, a) = self._times, self._values
        near, far = (a - b) / (t0 - t1), (b - c) / (t1 - t2)
        return np.asarray(a + (t - t0) * (near + (t - t1) * (near - far) / (t0 - t2)))


def _with_rollback(scenario: Scenario) -> bool:
    models = scenario.closed().units.values()
    return all(
        Ability.ROLLBACK in model.abilities and doubt(model, Ability.ROLLBACK) is None for model in models
    )


def discover(
    given: Scenario | Experiment,
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    seconds: float = SECONDS,
    confidence: float = CONFIDENCE,
    while_running: bool = False,
    step: float | None = None,
    progress: Progress | None = None,
    **settings: Unpack[Settings],
) -> Discovery:
    """Find the conditions of events that units deal with inside, from what their outputs show.

        found = up.discover(up.load("scenario.toml"))
        trace = found.improved().run()

    The scenario runs with steps 16 times as short (fewer, if that would take more than `seconds`), and once
    more for each value of `vary`: other start values or parameters by name, in turns, under which the same
    conditions hold. Conditions that are less sure than `confidence` are told, and not used.

    With `while_running` there is one run, which is not cut short: what is found is used in it from where it
    has foretold two events, and given up where it fails. `trace` of what is returned is that run.
    """
    begun = time.monotonic()
    if not seconds >= 0.0:
        raise InvalidInput(
            f"seconds: how long all runs may take is a number from 0 on, such as 60, not {seconds!r}"
        )
    if while_running:
        if vary:
            raise InvalidInput("vary makes more runs, and while_running there is one: leave out one of them")
        from upbeat.judging.while_running import discover_while_running  # which few look for

        return discover_while_running(
            given, confidence=confidence, step=step, progress=progress, **cast(dict[str, Any], settings)
        )
    made = experiment_to_look_at(given, confidence, step, cast(dict[str, Any], settings))
    for name in vary or {}:
        check_type(name, str, "the name of a value")
    visible = Visible(made.scenario)
    variants = [made]
    variants += [made.with_values({name: value}) for name, values in (vary or {}).items() for value in values]
    looks: list[Looked] = []
    for variant in variants:
        left = max(seconds - (time.monotonic() - begun), 0.0)
        looks.append(_run(variant, left, visible.record, progress, first=not looks))
        if looks[-1].interrupted:
            break
    good = [one for one in looks if one.rows is not None]
    rows = [one.rows for one in good if one.rows is not None]
    found = [happened for run, one in enumerate(good) for happened in one.happenings(run)]
    explained, unexplained = conditions(Evidence(rows, found, visible, looks[0].usual))
    known: dict[str, int] = {}
    for one in found:
        if one.known:
            known[one.known] = known.get(one.known, 0) + 1
    notes = tuple(dict.fromkeys(one.note for one in looks if one.note))
    return Discovery(
        explained, tuple(found), unexplained, known, len(good), sum(one.steps for one in good),
        time.monotonic() - begun, confidence, notes, made, tuple(rows), interrupted=looks[-1].interrupted,
    )  # fmt: skip


def experiment_to_look_at(
    given: Scenario | Experiment, confidence: float, step: float | None, settings: Mapping[str, Any]
) -> Experiment:
    """The experiment that is meant, checked."""
    if not 0.0 <= confidence <= 1.0:
        raise InvalidInput(f"the confidence is between 0 and 1, not {confidence!r}")
    made = given if isinstance(given, Experiment) else experiment(given, step=step, **settings)
    if isinstance(given, Experiment) and (settings or step is not None):
        raise InvalidInput(
            "an experiment has its settings already: change them with up.load(…) or experiment.with_(…)"
        )
    return made


class Looked(NamedTuple):
    """A run, the windows of a closer look if it had some, its usual step, and what is to be said about it."""

    rows: Rows | None
    usual: float
    steps: int = 0
    windows: Sequence[Window] | None = None
    note: str = ""
    interrupted: bool = False

    @classmethod
    def at(cls, trace: Trace | None, usual: float, note: str = "") -> Looked:
        if trace is None or not len(trace):
            return cls(None, usual, note=note)
        rows = Rows(trace)
        if len(rows.time) < TOO_FEW:
            few = f"{len(rows.time)} rows are too few to tell what happens: run longer, or in shorter steps"
            note = f"{note}; {few}" if note else few
        return cls(rows, usual, trace.steps.count, None, note)

    def happenings(self, run: int) -> list[Happening]:
        """What happened: in the windows, or around what is suspect."""
        assert self.rows is not None
        if self.windows is not None:
            return happenings(self.rows, self.windows, self.usual, run)
        size = float(np.median(np.diff(self.rows.time))) if len(self.rows.time) > 1 else self.usual
        around = [(low - NEARBY * size, high + NEARBY * size) for low, high in suspects(self.rows)]
        return happenings(self.rows, joined(around), self.usual, run)


def _run(
    made: Experiment, seconds: float, record: Sequence[str], progress: Progress | None, *, first: bool
) -> Looked:
    """A run with steps as short as there is time for."""
    usual = short_steps(made, 1.0, record)[1]
    try:
        return _closely(made, seconds, record, progress, first=first)
    except Interrupted as error:
        return Looked.at(error.trace, usual, f"{error}{UP_TO_THEN}")._replace(interrupted=True)


def _closely(
    made: Experiment, seconds: float, record: Sequence[str], progress: Progress | None, *, first: bool
) -> Looked:
    begun = time.monotonic()
    plain, usual = short_steps(made, 1.0, record)
    whole = Trials(plain, seconds, progress).run(UNCHANGED)
    known = whole.trace or whole.partial
    if not known:
        if first and whole.error is not None:
            raise whole.error
        return Looked.at(None, usual, whole.failure)
    factor = float(FINER)
    while factor > 1.0 and whole.seconds * factor > seconds:
        factor /= 2.0
    if _with_rollback(made.scenario):
        start, stop = made.span.start, made.span.stop

        def report(t: float) -> None:
            if progress is not None:
                progress(f"a closer look: {100 * (t - start) / (stop - start):.0f} %")
            if time.monotonic() - begun > seconds:
                raise RunError(f"the {seconds:.3g} s for it were used up at t = {t:.6g}")

        coarse = min(factor, float(COARSE))
        return _looked_at_twice(short_steps(made, coarse, record)[0], usual, coarse, report)
    if factor == 1.0:
        failed = f"{whole.failure}{UP_TO_THEN}; " if whole.failure else ""
        return Looked.at(known, usual, f"{failed}steps were not made shorter, for want of time (seconds)")
    closer = Trials(short_steps(made, factor, record)[0], seconds, progress).run(UNCHANGED)
    if closer.trace is None:
        return Looked.at(closer.partial or known, usual, closer.failure + UP_TO_THEN)
    short = f"steps were 1/{factor:g} of the usual ones, not 1/{FINER}, for want of time (seconds)"
    return Looked.at(closer.trace, usual, short if factor < FINER else "")


# ----------------------------------------------------------------------------------------------------
# Scenarios with what was found.


def with_conditions(made: Experiment, found: Sequence[Condition]) -> Experiment:
    """The experiment with these as observed events, and a master that meets events if it did not before."""
    scenario = made.scenario
    units = dict(scenario.units)
    events: dict[str, Any] = {}
    for one in found:
        for name, table in one.tables.get("units", {}).items():
            units[name] = Clock(every=table["every"], offset=table.get("offset", 0.0))
        events |= one.tables.get("events", {})
    connections: dict[str, Any] = {c.target: c.text for c in scenario.all_connections}
    read = Scenario(units, connections, inputs=scenario.inputs, events=events or None)
    grown = scenario.with_parts(units=units, events=(*scenario.events, *read.events))
    master = replace(made.master, events=made.master.events or "auto")
    return made.with_(scenario=grown, master=master)
