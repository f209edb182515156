"""A run under way: step it by hand or let it finish; whatever happens, what was recorded is kept."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import inf
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from upbeat.core.errors import (
    FAULTS,
    EndRequest,
    Interrupted,
    InvalidInput,
    RunError,
    StepError,
    UnitError,
    check_type,
    suggest,
)
from upbeat.core.names import split
from upbeat.core.ports import Signal, Value
from upbeat.core.time import Span
from upbeat.engine.by_hand import Drive, ManualChanges
from upbeat.engine.checkpoint import CheckpointWriter, Stored, set_back
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import ENDLESS, Loop
from upbeat.engine.machine import Machine
from upbeat.engine.native import machine as native
from upbeat.engine.native.loop import NativeLoop
from upbeat.engine.realtime import Paced
from upbeat.engine.remarks import nests, warn_unconverted
from upbeat.engine.selection import Selection
from upbeat.engine.structures import Living, StructureHistory, carry, released
from upbeat.master.held import varied_rate
from upbeat.master.paces.pace import check_span
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.trace.events import EventKind
from upbeat.trace.files.sinks import check_ours, check_suffix, open_sink
from upbeat.trace.log import Outcome, StepLog
from upbeat.trace.recorder import Recorder, Sink
from upbeat.trace.trace import Trace
from upbeat.units.process import bare

if TYPE_CHECKING:
    from upbeat.engine.experiment import Experiment
    from upbeat.engine.plan import Plan
    from upbeat.engine.schedule import Schedule


# ----------------------------------------------------------------------------------------------------
# How hard the solvers of a run have worked, as its trace tells it.

SolverCounts = dict[str, dict[str, int]]
"""By unit, as people call it, and by what is counted."""


def solver_counts(
    machine: Machine, scenario: Scenario, before: Mapping[str, Mapping[str, int]]
) -> SolverCounts:
    """What the units of a machine say, and what was counted `before`, if the run is resumed."""
    found = {
        path_of(scenario, unit): statistics.to_data()
        for unit, statistics in machine.solver_statistics().items()
    }
    return {
        unit: {name: count + before.get(unit, {}).get(name, 0) for name, count in counts.items()}
        for unit, counts in found.items()
    }


# ----------------------------------------------------------------------------------------------------
# Ctrl-C during a run: asked for once it ends the step, asked for twice it hits wherever it is.
#
# The native core sees it at the next step of a solver, so that a communication step that takes hours need
# not end first: what that step has done so far is lost. Elsewhere the step ends before.


def heeds(machine: object) -> bool:
    """Whether a machine can come back in the middle of a step: its `heed_interrupts` is a context in which
    Ctrl-C ends what it does."""
    return hasattr(machine, "heed_interrupts")


@contextmanager
def interruptible(machine: object) -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into a flag, set as soon as the machine comes back. The second one hits."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread can handle signals
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        with machine.heed_interrupts() if heeds(machine) else nullcontext():  # type: ignore[attr-defined]
            yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


# ----------------------------------------------------------------------------------------------------
# The recorder of a run: a fresh one, or one that goes on with the results of a checkpoint.


def recorder_for(
    experiment: Experiment,
    selection: Selection,
    strings: list[str],
    writer: CheckpointWriter | None,
    resumed: Stored | None,
) -> Recorder:
    """A recorder that shares the engine's `strings`, or has those of the checkpoint.

    With checkpoints, results that are wanted in memory are on disk until the end, like all others.
    """
    out, every, jumps = experiment.out, experiment.every, experiment.jumps
    beside = writer.settings.rows if writer is not None and out is None else None
    to = out or beside
    if to is not None:
        check_suffix(to)
        check_ours(to, selection.columns, force=experiment.force)
    if beside is not None:
        from upbeat.trace.files.journal import SideSink

        sink: Sink = SideSink(beside)
    else:
        sink = open_sink(out)
    if resumed is None:
        return Recorder(selection.columns, sink, every, strings=strings, kinds=selection.kinds, jumps=jumps)
    # Texts keep the numbers that they have in the file. The engine's are others, and the recorder translates.
    known = resumed.document["recorder"]
    kinds = [EventKind.from_data(data) for data in known["kinds"]]
    recorder = Recorder(
        selection.columns, sink, every, strings=list(known["strings"]), kinds=kinds, jumps=jumps
    )
    recorder.resume_from(known)
    return recorder


# ----------------------------------------------------------------------------------------------------

_log = logging.getLogger("upbeat.run")

BUDGET_SECONDS = 0.05
"""How long an engine works before it lets the run look at Ctrl-C and report progress."""
SAVING_SECONDS = 1.0
"""If it does not come back for so long, what has been recorded is written: the run may be killed."""
IDLE_LOOKS = 20
"""So often the watching thread finds nothing to look at before it ends: short runs come one after another,
and to start a thread takes longer than many of them."""
TELLING_SECONDS = 30.0
"""And after so long the unit is named that takes its time."""


class _Watch:
    """One thread that looks at all runs now and then, for as long as there are any."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, run: Run) -> Iterator[None]:
        with self._lock:
            self._runs.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="upbeat-watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._runs.remove(run)

    def _look(self) -> None:
        idle = 0
        while True:
            time.sleep(SAVING_SECONDS / 2)
            with self._lock:
                runs = list(self._runs)
                idle = 0 if runs else idle + 1
                if idle > IDLE_LOOKS:
                    self._thread = None
                    return
            for run in runs:  # without the lock: a disk may be slow
                try:
                    run.look()
                except FAULTS:  # the run itself will hear of it; this thread is for the others, too
                    _log.debug("looking at a run failed", exc_info=True)


_WATCH = _Watch()
if hasattr(os, "register_at_fork"):  # a child has neither the thread nor the runs
    os.register_at_fork(after_in_child=_WATCH.__init__)  # type: ignore[misc]


class Run:
    """A run of an experiment. Use it as a context manager, so that units and files are always closed."""

    def __init__(
        self,
        experiment: Experiment,
        writer: CheckpointWriter | None = None,
        resumed: Stored | None = None,
        provenance: Mapping[str, Any] | None = None,
        after: Run | None = None,
    ) -> None:
        before = {} if resumed is None else resumed.document["info"]
        self._experiment = experiment
        self._history = (
            StructureHistory(experiment, before.get("structures", ())) if experiment.structures else None
        )
        part = experiment if self._history is None else self._history.part
        self._plan = plan = part.plan
        self._program = plan.program
        self._scenario = plan.scenario
        self._choice = experiment.choice
        self._warnings = experiment.remarks
        for remark in self._warnings:
            _log.warning("%s", remark)
        self._span = experiment.span
        self._began = time.perf_counter() - before.get("wall_seconds", 0.0)
        self._ended = 0.0
        self._closed = False
        self._past: dict[str, Any] = {"parameters": {}, "undefined": {}, "doubts": ()}
        """What is to be said of structures that are over."""
        changed, gone = _by_presence(before.get("parameters"), plan.scenario)
        self._past["parameters"] = gone
        self._by_hand = ManualChanges(plan.program, plan.scenario, changed, experiment.later())
        self._outcome: Outcome | None = None
        self._counted_before = before.get("solvers", {})
        self._provenance = provenance or before.get("provenance")
        self._ending: dict[str, Any] = {}  # the story of a run that is over
        self._notes = experiment.notes
        self._schedules: Mapping[str, Schedule] = {}
        self._checkpoint_writer = writer
        selection = experiment.selection
        self._strings: list[str] = []
        self._whole = True
        """Whether the machine stands between two steps, and not where Ctrl-C has ended one."""
        self._recorder = recorder_for(experiment, selection, self._strings, self._checkpoint_writer, resumed)
        self._drive: Drive | None = None
        self._loop: Loop | None = None
        self._failure = ""
        self._last_word = ""  # why the run ended before its stop time, though all went well
        self._paced: Paced | None = None
        self._moves = 0  # how often the engine was asked to go on
        self._seen = (-1, 0.0, False, False)  # moves, since when, and what was done about it: see `look`
        self._machine: Machine | None = None
        self._turn = threading.RLock()  # one thread at a time; `close` waits for a slice, not for the end
        with self._guarded():
            living = {} if after is None else after._given_up(plan)
            self._machine, loop = self._built(part, self._span, living)
            if after is not None:
                after._handed_over(self._machine, plan, living)
                loop.before = after._loop.so_far if after._loop is not None else 0
            self._drive = self._loop = loop
            if resumed is None:
                warn_unconverted(plan.scenario)
                loop.begin()
                if after is not None and after._loop is not None:
                    loop.after(after._loop.steps)
                self._go_on()
            else:
                self._by_hand.again(self._machine)
                set_back(self._machine, loop, resumed)
                self._by_hand.follow(self._machine, loop, done=True)
            if experiment.real_time is not None:
                self._drive = self._paced = Paced(self._drive, experiment.real_time, before.get("lateness"))
            if self._checkpoint_writer is not None and resumed is None:
                self.checkpoint()

    def _built(
        self, experiment: Experiment, span: Span, living: Mapping[str, Any] | None = None
    ) -> tuple[Machine, Loop]:
        """The machine of the chosen engine, and the loop that drives it, ready to begin. `living` units are
        there already."""
        plan, selection, recorder, strings = (
            experiment.plan,
            experiment.selection,
            self._recorder,
            self._strings,
        )
        if self._history is not None:
            selection = self._history.selections.parts[self._history.name]
            recorder, strings = cast(Recorder, self._history.rows(recorder)), []
        check_span(plan.pace, span)
        if self._choice.name == "interpret":
            there = living or {}
            units = {
                name: Living(model, there[name]) if name in there else model
                for name, model in plan.scenario.units.items()
            }
            interpreter = Interpreter(plan.program, units, span.start)
            return interpreter, Loop(interpreter, plan.program, span, selection, recorder)
        machine: native.Machine
        if self._choice.name == "compiled":
            machine = experiment.machine_code.machine(plan, span.start, strings=strings)
            return machine, NativeLoop(machine, plan.program, span, selection, recorder)
        machine = native.Machine(experiment.lowered, plan.scenario.units, span.start, strings=strings)
        self._schedules = experiment.lowered.schedules
        if self._schedules:
            machine.try_cores()
        return machine, NativeLoop(machine, plan.program, span, selection, recorder)

    def _go_on(self) -> None:
        """Where an event has ended a structure and there is time left, the next one begins; and so on, at one
        instant."""
        while (history := self._history) is not None and (loop := self._loop) is not None:
            machine, more = self._machine, loop.over and loop.time < self._span.stop
            if machine is None or not more or not history.switched(machine, self._plan):
                return
            self._enter()

    def _enter(self) -> None:
        """The next structure takes over."""
        history, machine, loop = self._history, self._machine, self._loop
        assert history is not None
        assert machine is not None
        assert loop is not None
        t, plan = loop.time, self._plan
        part = history.go_on(machine, plan, t)
        living = history.living(machine, plan)
        self._leave(machine)
        changed, gone = _by_presence(self._by_hand.changes, part.plan.scenario)
        made, following = self._built(part, Span(t, self._span.stop), living)
        try:
            self._by_hand = ManualChanges(part.plan.program, part.plan.scenario, changed, [])
            self._by_hand.again(made)
            history.take_over((machine, plan), (made, part.plan), living=living)
        except BaseException:
            made.close()
            raise
        self._past["parameters"] |= gone
        self._machine, self._plan = made, part.plan
        self._program, self._scenario = part.plan.program, part.plan.scenario
        machine.close()
        self._drive = self._loop = following
        following.before = loop.so_far
        following.begin()
        following.after(loop.steps)
        history.check_conserved(made, part.plan)

    def _given_up(self, plan: Plan) -> dict[str, Any]:
        """Units that another run of this plan goes on with, and this one has no more."""
        assert self._machine is not None
        return released(self._machine, self._plan, plan)

    def _handed_over(self, machine: Machine, plan: Plan, living: Mapping[str, Any]) -> None:
        """Let the machine of another run go on where this one stands."""
        assert self._machine is not None
        events = frozenset(event.name for event in self._experiment.scenario.events)
        carry((self._machine, self._plan), (machine, plan), events, living)

    def _leave(self, machine: Machine) -> None:
        """Keep what a structure that is over has to tell."""
        self._counted_before = {
            **self._counted_before, **solver_counts(machine, self._scenario, self._counted_before)
        }  # fmt: skip
        self._past["doubts"] = tuple(dict.fromkeys(self._doubts()))
        self._past["undefined"] = self._undefined()

    def __reduce__(self) -> Any:
        raise InvalidInput("a run cannot be pickled: keep its state with a checkpoint, or pickle its trace")

    # ---------------------------------------------------------------- stepping

    @property
    def time(self) -> float:
        """The simulated time that all units have reached."""
        return self._drive.time if self._drive else self._span.start

    @property
    def finished(self) -> bool:
        return self._drive is not None and self._drive.finished

    @property
    def steps(self) -> StepLog:
        """Every accepted step so far, with its reason."""
        return self._drive.steps if self._drive else StepLog()

    def begin_again(self) -> None:
        """After a pause of a run in real time: it goes on from here, and makes up for nothing."""
        if self._paced is not None:
            self._paced.begin_again()

    def step(self) -> float:
        """One communication step; returns the time reached."""
        with self._turn:
            drive = self._live()
            if drive.finished:
                raise StepError(self._over())
            with self._guarded():
                self._by_hand.refresh(drive)
                self._move(drive.step)
                self._go_on()
                drive = self._live()
                self._follow(drive)
                self._keep(drive)
            if drive.finished:
                self._outcome = self._end()
            return drive.time

    def go(self, seconds: float) -> float:
        """Step for about so many seconds, or to the stop time; returns the time reached.

        What has been recorded is then in the result file, if there is one: another process can follow it.
        """
        check_type(seconds, (int, float), "seconds")
        drive = self._live()
        with self._guarded(), _WATCH.over(self):
            if not drive.finished:
                self._stretch(seconds)
            self._recorder.flush()
        if self.finished:
            self._outcome = self._end()
        return self.time

    def flush(self) -> None:
        """Hand over what has been recorded, the effects of `set` included: it is then in the result file."""
        with self._turn, self._guarded():
            self._by_hand.refresh(self._live())
            self._recorder.flush()

    def finish(self, report: Callable[[float], None] | None = None) -> Trace:
        """Run to the stop time. Ctrl-C ends it and raises `Interrupted`; whole steps are kept."""
        self._live()
        with self._guarded(), _WATCH.over(self):
            while not self.finished:
                machine = self._machine
                with interruptible(machine) as asked:
                    while self._machine is machine and not self.finished:
                        self._stretch(BUDGET_SECONDS, asked)
                        if report is not None:
                            report(self.time)
                        if asked.is_set() and not self.finished:
                            self._outcome = Outcome.INTERRUPTED
                            self.close()
                            raise Interrupted(f"interrupted at t = {self.time:.9g}", self.trace)
            self._outcome = self._end()
            self.close()  # writes the last rows: here, too, the disk may turn out to be full
        return self.trace

    def _stretch(self, seconds: float, asked: threading.Event | None = None) -> None:
        """Some steps, and what is due after them. If Ctrl-C is `asked` for, the last may be cut short."""
        with self._turn:
            drive = self._live()
            self._by_hand.refresh(drive)
            writer = self._checkpoint_writer
            max_steps = ENDLESS if writer is None else writer.max_steps(drive)
            pause = self._by_hand.pause
            try:
                self._move(lambda: drive.go(seconds, max_steps, pause))
            except (StepError, UnitError):
                if asked is None or not (asked.is_set() and heeds(self._machine)):
                    raise
                self._whole = False
            if self._whole:
                self._go_on()
                drive = self._live()
                self._follow(drive)
                self._keep(drive)

    def _move(self, work: Callable[[], None]) -> None:
        """Do some steps. A unit that asks for the end ends the run at the last time that all have reached."""
        assert self._loop is not None
        self._moves += 1
        try:
            work()
        except EndRequest as asked:
            self._loop.limit = self._loop.time
            unit = getattr(self._known(asked), "unit", asked.unit)
            self._last_word = (
                f"the run ended at t = {self._loop.time:.9g}, before its stop time {self._span.stop:.9g}: "
                f"unit '{unit}': {asked.reason.removeprefix('FmuError: ')}"
            )
            _log.warning("%s", self._last_word)

    def look(self) -> None:
        """See whether some step does not end (in another thread): it costs no rows, and does not stay
        nameless."""
        now = time.monotonic()
        if self._moves != self._seen[0]:
            self._seen = (self._moves, now, False, False)
            return
        moves, since, saved, reported = self._seen
        loop, machine, waited = self._loop, self._machine, now - since
        if loop is None or machine is None:
            return
        if waited >= SAVING_SECONDS and not saved:
            loop.save_rows()
            saved = True
        if waited >= TELLING_SECONDS and not reported and (units := self._named(machine.advancing())):
            _log.warning(
                "%s has been in the same step for %.0f s, and the run waits. If it hangs, run it in a "
                'process of its own, which is ended after its deadline: isolation = "process"',
                units, waited,
            )  # fmt: skip
            reported = True
        self._seen = (moves, since, saved, reported)

    def _named(self, units: Sequence[str]) -> str:
        """Units as people know them: one may have been inside another one."""
        paths = self._scenario.origin.paths if self._scenario.origin is not None else {}
        return ", ".join(f"unit '{paths.get(unit, unit)}'" for unit in units)

    def checkpoint(self) -> None:
        """Make a checkpoint now, whenever the next one would be due."""
        if self._checkpoint_writer is None:
            raise InvalidInput('this run has no checkpoints: start it with checkpoint="run.checkpoint"')
        with self._turn:
            drive = self._live()
            assert self._machine is not None
            self._by_hand.refresh(drive)
            details = self._closing_data(self._doubts())
            self._checkpoint_writer.take(self._machine, drive, self._recorder, details)

    def _follow(self, drive: Drive) -> None:
        """Set what signals of parameters and of strings say for the time that has been reached."""
        if not drive.finished and drive.time >= self._by_hand.pause:
            assert self._machine is not None
            self._by_hand.follow(self._machine, drive)

    def _keep(self, drive: Drive) -> None:
        if self._checkpoint_writer is not None and not drive.finished and self._checkpoint_writer.due(drive):
            self.checkpoint()

    def _end(self) -> Outcome:
        """How a run ends whose drive has nothing left to do."""
        if self._paced is not None and self._paced.too_late:
            return Outcome.TOO_LATE
        if self._loop is not None and self._loop.over and self._loop.time < self._span.stop:
            return Outcome.STOPPED_BY_EVENT
        return Outcome.STOPPED_BY_UNIT if self._last_word else Outcome.FINISHED

    def _over(self) -> str:
        if self._end() is Outcome.TOO_LATE:
            return f"the run stopped at t = {self.time:.9g}, because it fell behind real time"
        if self._end() is Outcome.STOPPED_BY_EVENT:
            return f"the run stopped at t = {self.time:.9g}, where a property is violated"
        return self._last_word or f"the run has reached its stop time {self._span.stop:g}"

    def __getitem__(self, name: str) -> Signal:
        """The present value of a signal, by its column name (``unit.port``), or of a parameter."""
        check_type(name, str, "the name of a signal")
        columns = self._program.columns
        if name not in columns and (value := self._by_hand.parameter(name)) is not None:
            return value
        if name in self._program.events:
            raise InvalidInput(f"'{name}' is an event, which has no present value: look into trace.events")
        if name not in columns:
            raise InvalidInput(f"there is no signal '{name}'. {suggest(name, columns, 'signals')}")
        self._by_hand.refresh(self._live())
        first, count = columns[name].register, columns[name].cells
        values: list[Value] = [self._machine.read(first + i) for i in range(count)]  # type: ignore[union-attr]
        return values[0] if count == 1 else tuple(values)

    def set(self, name: str, value: Signal, *, restart: bool = True) -> None:
        """Hold an input that nothing drives at `value` from now on: a scenario input, or ``unit.port``.

        Or give a parameter another value (``unit.parameter``), if it is one that can change during a run.
        This is a jump: the trace has two rows of that time, before and after, and inputs that follow it by a
        polynomial forget what they were before. With `restart`
        off they go on from there: for values of something smooth, set again and again. An unknown of a
        `Constrained` coupling is not held: the search for it begins with `value`.
        An event input gets an event with this value, at the present time.
        """
        drive, machine = self._live(), self._machine
        assert machine is not None
        given = self._by_hand.checked(name, value)
        with self._guarded():
            self._by_hand.set(machine, drive, given, restart=restart)

    # ---------------------------------------------------------------- results and ends

    @property
    def trace(self) -> Trace:
        """What has been recorded so far, the effects of `set` included."""
        if self._machine is not None and self._drive is not None and not self._ended:
            self._by_hand.refresh(self._drive)
        details = self._ending or self._closing_data(self._doubts())
        made = Trace.from_recorder(self._recorder, outcome=self._outcome or Outcome.RUNNING, **details)
        made.origin = self._experiment
        return made

    def _came_from(self) -> dict[str, Any]:
        """Where the result comes from, with the scenario, which takes longer to write than a short run."""
        found = self._provenance
        if not found:
            return {}
        if "experiment" not in found:
            self._provenance = found = self._experiment.described(found)
        return {"provenance": found}

    def _closing_data(self, doubts: Sequence[str]) -> dict[str, Any]:
        """What a trace tells besides the signals."""
        drive, paced, slower = self._drive, self._paced, self._on_cores()
        worked = (
            {}
            if self._machine is None
            else solver_counts(self._machine, self._scenario, self._counted_before)
        )
        return {
            "steps": drive.steps if drive else StepLog(),
            "info": {
                "engine": self._choice.name,
                "why": "; ".join((self._choice.why, *slower)),
                "wall_seconds": self._ended - self._began
                if self._ended
                else time.perf_counter() - self._began,
                **({} if paced is None else {"lateness": paced.lateness.to_data()}),
                **({"warnings": [*self._warnings, *doubts]} if self._warnings or doubts else {}),
                **self._came_from(),
                **(
                    {"parameters": changes}
                    if (changes := {**self._past["parameters"], **self._by_hand.changes})
                    else {}
                ),
                **({} if self._history is None else {"structures": self._history.entries}),
                **({"failure": self._failure} if self._failure else {}),
                **({"undefined": undefined} if (undefined := self._undefined()) else {}),
                **({"solvers": worked} if worked else {}),
            },
            "notes": (
                *self._notes,
                *slower,
                *(varied_rate(self._scenario, drive.steps) if drive else ()),
                *self._by_hand.notes,
                *(() if self._history is None else self._history.notes),
                *([self._last_word] if self._last_word else []),
            ),
        }

    def _undefined(self) -> dict[str, float]:
        """When conditions of events were first not numbers, as far as they were."""
        past: dict[str, float] = self._past["undefined"]
        if self._machine is None:
            return past
        places = self._program.undefined.items()
        seen = {event: float(self._machine.read(place)) for event, place in places}
        return {event: t for event, t in seen.items() if t < inf} | past

    def _doubts(self) -> tuple[str, ...]:
        """What the program has noticed that makes results doubtful."""
        past: tuple[str, ...] = self._past["doubts"]
        if self._machine is None:
            return past
        read, read_inside = self._machine.read, self._machine.read_inside
        cells = [[float(read(one.register + k)) for k in range(3)] for one in self._program.doubts]
        sentences = [one.sentence(values) for one, values in zip(self._program.doubts, cells, strict=True)]
        for inside in nests(self._scenario):
            for one in inside.running.program.doubts:
                deeper = [read_inside(inside.path, one.register + k) for k in range(3)]
                said = one.sentence([inf if cell is None else cell for cell in deeper])
                sentences.append(None if said is None else f"inside '{inside.name}': {said}")
        return (*past, *(sentence for sentence in sentences if sentence is not None))

    def _on_cores(self) -> tuple[str, ...]:
        """What the first steps have shown about several cores."""
        if self._machine is None or not self._schedules:
            return ()
        from upbeat.engine.parallel.cores import core_notes_of

        return core_notes_of(self._machine.tried(), self._schedules)

    def close(self) -> None:
        """Let go of units and files. Safe to call twice."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            self._outcome = self._outcome or Outcome.STOPPED
            self._ended = self._ended or time.perf_counter()
            try:
                if (
                    self._checkpoint_writer
                    and self._machine
                    and self._whole
                    and self._outcome is not Outcome.FAILED
                ):
                    self.checkpoint()
            finally:
                self._let_go(self._outcome)
            if self._checkpoint_writer is not None:
                self._checkpoint_writer.done(self._outcome)

    def _let_go(self, outcome: Outcome) -> None:
        doubts = self._doubts()  # while the machine is open
        self._ending = self._closing_data(doubts)
        for doubt in doubts:
            _log.warning("%s", doubt)
        machine, self._machine = self._machine, None
        try:
            # Before the units: one that takes the process along when it is ended does not cost the results.
            self._recorder.close(outcome, **self._ending)
        finally:
            if machine is not None:
                machine.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _live(self) -> Drive:
        if self._machine is None or self._drive is None:
            raise StepError("the run is over; open a new one")
        return self._drive

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """A failure leaves with the trace so far; nothing that was recorded is lost."""
        try:
            yield
        except Interrupted:
            raise
        except BaseException as error:
            if self._ended == 0.0:  # else the run was closed meanwhile, and that is how it ended
                self._outcome, self._failure = Outcome.FAILED, str(self._known(error))
                self.close()
            known = self._known(error)
            if isinstance(known, RunError):
                known.trace = self.trace
            if known is not error:
                raise known from error.__cause__
            raise

    def _known(self, error: BaseException) -> BaseException:
        return known_error(self._scenario, error)


def _by_presence(
    changes: Mapping[str, list[list[Any]]] | None, scenario: Scenario
) -> tuple[dict[str, list[list[Any]]], dict[str, list[list[Any]]]]:
    """Parameters that were changed by hand: those of units that are there, and of others."""
    there = {name: made for name, made in (changes or {}).items() if split(name)[0] in scenario.units}
    return there, {name: made for name, made in (changes or {}).items() if name not in there}


def known_error(scenario: Scenario, error: BaseException) -> BaseException:
    """The error under the name that people know the unit by: it may have been inside another one."""
    paths = scenario.origin.paths if scenario.origin is not None else {}
    if not isinstance(error, UnitError):
        return error
    where = _written_at(scenario, error)
    if error.unit not in paths and not where:
        return error
    unit, reason = paths.get(error.unit, error.unit), error.reason
    return type(error)(f"{reason}{where}", unit=unit, call=error.call, time=error.time)


def _written_at(scenario: Scenario, error: UnitError) -> str:
    """Where an adaptation says what a port is that is no number, if that is known."""
    port = re.fullmatch(r"(get|set)\('([^'\[]+).*", error.call)
    name = error.unit if error.unit in scenario.units else error.unit.partition(".")[0]
    model: Any = bare(scenario.units[name]) if name in scenario.units else None
    around, last = None, name
    for last in error.unit.removeprefix(name).split(".")[1:]:
        inside = getattr(getattr(model, "adaptation", None), "units", {})
        around, model = model, bare(inside[last]) if last in inside else None
    if port is None or error.reason.endswith(")"):
        return ""
    of, to = (model, port[2]) if port[1] == "get" else (around, f"{last}.{port[2]}")
    adaptation = getattr(of, "adaptation", None)
    found = adaptation.written_at(to) if adaptation is not None else ""
    return f" ({found})" if found else ""
