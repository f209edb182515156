"""The work of a study: runs of one experiment with many values, a chunk of them at a time, in this process.

Most runs of a chunk never meet Python: where the numbers that vary are start values and parameters of
units that can
begin again, all of it is one call into the native core. What is written into a program (settings of the
master,
parameters that conditions of events read) gives another program: such runs are grouped, and each group is
planned once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability
from upbeat.core.errors import EndRequest, InvalidInput, Problems, RunError, ScenarioError, suggest
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.engine.experiment import Experiment
from upbeat.engine.native.ensemble import Floats, Ints, Runs, Told, numbers_of
from upbeat.engine.run import known_error
from upbeat.explore.outputs import Formula, OfTrace, Question
from upbeat.explore.sampling import SETTINGS, Column
from upbeat.master.settings import master_from, settings_of
from upbeat.trace.trace import Trace

Values = Mapping[str, Any]
"""What one run has, by the names of what varies."""
_KEPT = 8
"""So many planned groups are kept for runs to come."""


class Status:
    """How a run ended."""

    DONE = 0
    FAILED = 1
    ENDED = 2
    """By a unit, which may do that."""
    DOUBTFUL = 3
    """It came to its end, but noticed what makes its results doubtful."""
    MISSING = 255
    """Not yet, in a store that is not complete."""


class Answers(NamedTuple):
    """What the runs of a chunk have told, a row for each."""

    outputs: Floats
    status: npt.NDArray[np.uint8]
    reasons: list[str]
    """Why a run failed or is doubtful; empty where neither."""
    totals: Floats
    """Steps, steps that were sent back, events, the time reached."""
    samples: Floats
    events: Ints
    times: Floats
    seconds: float
    """That the runs took, without the planning of their programs."""

    @classmethod
    def empty(cls, count: int, outputs: int, grid: int, signals: int, events: int) -> Answers:
        """Room for the answers of so many runs."""
        return cls(
            np.full((count, outputs), np.nan),
            np.zeros(count, np.uint8),
            [""] * count,
            np.zeros((count, 4)),
            np.full((count, grid, signals), np.nan),
            np.full((count, events), -1, np.int32),
            np.full((count, events), np.nan),
            0.0,
        )

    def put(self, rows: npt.NDArray[np.int64], given: Answers) -> None:
        """Take over the answers of these runs."""
        for to, values in zip(self, given, strict=True):
            if isinstance(to, np.ndarray):
                to[rows] = values
        for row, reason in zip(rows, given.reasons, strict=True):
            self.reasons[row] = reason


@dataclass(frozen=True)
class Work:
    """What has to be done for any point of a study; can be sent to other processes and machines."""

    experiment: Experiment
    samples: Mapping[str, tuple[Any, ...]]
    """Two different values of everything that varies, or the one that there is: to find out what it is in
    a plan."""
    formulas: Mapping[str, Formula]
    functions: Mapping[str, OfTrace]
    signals: tuple[str, ...] = ()
    grid: tuple[float, ...] = ()
    events: int = 0

    def __getstate__(self) -> dict[str, Any]:
        names = ("experiment", "samples", "formulas", "functions", "signals", "grid", "events")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def keys(self) -> tuple[str, ...]:
        """What varies, in the order of the columns of a table."""
        return tuple(self.samples)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Their names, in the order of their columns."""
        return (*self.formulas, *self.functions)

    @cached_property
    def base(self) -> Experiment:
        """The experiment with a master that is settled: all runs of a study have the same one."""
        plain = self.experiment.with_(
            cores=1, real_time=None, checkpoint=None, out=None, record=None, every=1, jumps=True
        )
        return _settled(plain)

    @cached_property
    def written(self) -> dict[str, str]:
        """The keys whose values are part of the program, and why: runs with others are planned anew."""
        return {key: why for key in self.keys if (why := self._why_written(key)) is not None}

    def _why_written(self, key: str) -> str | None:
        values = self.samples[key]
        if key.startswith(SETTINGS):
            return "it is a setting of the master or of the run"
        if len(values) < 2:
            return ""
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
            return "it is no number"
        base = self.base
        if base.later():
            return "signals change parameters during the run"
        for value in values:
            given = dict.fromkeys(names_in(key), value)
            made = base.scenario.with_values(given)
            if base.plan.with_values(given, base.scenario, made) is None:
                return (
                    "the program has it written down: an event reads it, or it is the start value of an input"
                )
        return None

    def check(self) -> None:
        """`InvalidInput` for names that mean nothing, and outputs that cannot be asked of these runs."""
        problems = Problems()
        whose: dict[str, str] = {}
        for key, values in self.samples.items():
            for name in names_in(key):
                if (other := whose.setdefault(name, key)) != key:
                    problems.add(
                        ("study", "vary", key), f"'{name}' varies twice: '{other}' sets it, too", "Keep one."
                    )
            for value in values:
                try:
                    with_settings(self.experiment, {key: value})
                except ScenarioError as error:
                    problems.found += [replace(one, where=("study", "vary", key)) for one in error.problems]
                    break
                except InvalidInput as error:
                    problems.add(("study", "vary", key), str(error))
                    break
        problems.raise_if_any("the study")
        self.question(self.base).asked  # noqa: B018

    def question(self, experiment: Experiment) -> Question:
        """What is asked of a run of this experiment."""
        span = experiment.span
        return Question(
            self.formulas,
            experiment.plan.program,
            self.keys,
            (span.start, span.stop),
            self.signals,
            self.grid,
            self.events,
        )

    # ------------------------------------------------------------ running

    def experiment_for(self, values: Values) -> Experiment:
        """The experiment of one run, by itself."""
        group = self.group({key: values[key] for key in self.written})
        return group.single(values)

    def no_answers(self, count: int) -> Answers:
        """Room for the answers of so many runs."""
        return Answers.empty(count, len(self.outputs), len(self.grid), len(self.signals), self.events)

    def run(self, columns: Mapping[str, Column]) -> Answers:
        """A run for each row of these columns."""
        count = len(next(iter(columns.values()))) if columns else 1
        answers, seconds = self.no_answers(count), 0.0
        for rows, chosen in self.grouped(columns, count):
            part = {key: column[rows] for key, column in columns.items()}
            try:
                group = self.group(chosen)
                began = (
                    time.perf_counter()
                )  # not processor time: units in processes of their own take time, too
                answers.put(rows, group.run(part))
                seconds += time.perf_counter() - began
            except InvalidInput as error:
                answers.status[rows] = Status.FAILED
                for row in rows:
                    answers.reasons[row] = " ".join(str(error).split())
        return answers._replace(seconds=seconds)

    def grouped(
        self, columns: Mapping[str, Column], count: int
    ) -> list[tuple[npt.NDArray[np.int64], dict[str, Any]]]:
        """Rows with the same values of what is written into programs, and these values."""
        if not self.written:
            return [(np.arange(count), {})]
        found: dict[tuple[Any, ...], list[int]] = {}
        for row in range(count):
            found.setdefault(tuple(_plain(columns[key][row]) for key in self.written), []).append(row)
        return [(np.array(rows), dict(zip(self.written, key, strict=True))) for key, rows in found.items()]

    def group(self, chosen: Values) -> Group:
        """The group with these values written into its program; shared by all threads."""
        key = tuple((name, _plain(value)) for name, value in chosen.items())
        with self._guard:
            kept = self._kept
            if key not in kept:
                kept[key] = Group(self, chosen)
                kept[key].in_core  # noqa: B018  # found out once
                while len(kept) > _KEPT:
                    kept.popitem(last=False)[1].close()
            kept.move_to_end(key)
            return kept[key]

    @cached_property
    def _kept(self) -> OrderedDict[Any, Group]:
        return OrderedDict()

    @cached_property
    def _guard(self) -> threading.Lock:
        return threading.Lock()


def _plain(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) else tuple(value) if isinstance(value, list) else value
    )


class Group:
    """Runs of one program: everything that is written into it is the same."""

    def __init__(self, work: Work, chosen: Values) -> None:
        self.work = work
        self.experiment = work.base if not chosen else _settled(with_settings(work.experiment, chosen))
        self.question = work.question(self.experiment)
        self._watched = replace(self.question, doubts=True)
        self._loose = [key for key in work.keys if key not in chosen]
        self._mine = threading.local()  # a machine is for one thread
        self._all: list[Runs] = []

    @property
    def _runs(self) -> Runs:
        """The machine of this thread."""
        if getattr(self._mine, "runs", None) is None:
            self._mine.runs = self._made()
            self._all.append(self._mine.runs)
        found: Runs = self._mine.runs
        return found

    @cached_property
    def begun(self) -> Experiment:
        """The experiment with a value for everything that varies, as the machine of a chunk is made."""
        return (
            self.single({key: self.work.samples[key][0] for key in self._loose})
            if self._loose
            else self.experiment
        )

    @cached_property
    def places(self) -> list[tuple[int, str, int]] | None:
        """Where the core puts the number of each column: (column, unit, place); None: not every number is
        one of its
        unit's as it is, and Python has to look at every run."""
        found = []
        for key in self._loose:
            where = _moved(self.begun, key, self.work.samples[key])
            if where is None:
                return None
            column = self.work.keys.index(key)
            found += [(column, unit, place) for unit, place in where]
        return found

    @cached_property
    def in_core(self) -> bool:
        """Whether whole chunks run in the core."""
        if self.work.functions or self.experiment.choice.name != "native" or self.experiment.jit:
            return False
        models = self.experiment.plan.scenario.units.values()
        if (
            not all(Ability.NATIVE in model.abilities for model in models)
            or self.experiment.plan.program.pace is None
        ):
            return False
        if self.experiment.plan.program.pace.calls or self.experiment.later() or self.places is None:
            return False
        if not self._runs.resets or not self._begins_again():
            self.close()
            return False
        return True

    def _made(self) -> Runs:
        plan = self.begun.plan
        assert self.places is not None
        return Runs(
            self.experiment.lowered,
            plan.scenario.units,
            self.experiment.span,
            self._watched.asked,
            len(self.work.keys),
            self.places,
        )

    def _begins_again(self) -> bool:
        """Whether units that are not ours are after a reset what they were at first: that is tried."""
        models = self.begun.plan.scenario.units.values()
        if all(hasattr(model, "lower") for model in models):
            return True
        first = {key: np.array([self.work.samples[key][0]]) for key in self.work.keys}
        other = {key: np.array([self.work.samples[key][-1]]) for key in self.work.keys}
        rows = [self.table(one, 1) for one in (first, other, first)]
        told = self._runs.run(np.concatenate(rows))
        fresh = self._made()
        try:
            anew = fresh.run(rows[1])
        finally:
            fresh.close()
        return all(
            np.array_equal(a[0], a[2], equal_nan=True) and np.array_equal(a[1], b[0], equal_nan=True)
            for a, b in (
                (told.statistics, anew.statistics),
                (told.samples, anew.samples),
                (told.totals, anew.totals),
            )
        )

    def run(self, columns: Mapping[str, Column]) -> Answers:
        """A run for each row."""
        count = len(next(iter(columns.values()))) if columns else 1
        return self._in_core(columns, count) if self.in_core else self._one_by_one(columns, count)

    def table(self, columns: Mapping[str, Column], count: int) -> Floats:
        """The values as numbers; what is none is nothing that an expression can use."""
        table = np.full((count, len(self.work.keys)), np.nan)
        for k, key in enumerate(self.work.keys):
            column = columns[key]
            if column.dtype != object:
                table[:, k] = column
            else:
                table[:, k] = [float(v) if isinstance(v, (bool, int, float)) else np.nan for v in column]
        return table

    def _in_core(self, columns: Mapping[str, Column], count: int) -> Answers:
        table = self.table(columns, count)
        told = self._runs.run(table)
        found = self.answers(told, table, told.failures)
        _doubt(found, self._watched.doubtful(told))
        return found

    def answers(self, told: Told, table: Floats, failures: Mapping[int, RunError]) -> Answers:
        """What is asked of these runs, from what was told of them."""
        work = self.work
        found = work.no_answers(len(table))
        for row, error in failures.items():
            known = known_error(self.experiment.plan.scenario, error)
            found.status[row] = Status.ENDED if isinstance(error, EndRequest) else Status.FAILED
            found.reasons[row] = str(known)
        found.outputs[:, : len(work.formulas)] = self.question.answers(told, table)
        found.outputs[found.status == Status.FAILED] = np.nan
        return found._replace(
            totals=told.totals, samples=self.question.sampled(told), events=told.events, times=told.times
        )

    def single(self, values: Values) -> Experiment:
        """The experiment of one run."""
        return self.experiment.with_values(
            {name: _plain(values[key]) for key in self._loose for name in names_in(key)}
        )

    def _one_by_one(self, columns: Mapping[str, Column], count: int) -> Answers:
        """Each run by Python, which is what outputs in Python need; on the same plan."""
        table = self.table(columns, count)
        told = Told.empty(count, self.question.asked)
        failures: dict[int, RunError] = {}
        wrong: dict[int, str] = {}
        doubtful: dict[int, str] = {}
        extra = np.full((count, len(self.work.functions)), np.nan)
        record = None if self.work.functions else self.question.columns
        for row in range(count):
            trace: Trace | None
            try:
                single = self.single({key: column[row] for key, column in columns.items()})
                with _silent():
                    trace = single.with_(record=record).run(report=_quiet)
            except RunError as error:
                failures[row], trace = error, error.trace
            except InvalidInput as error:
                wrong[row], trace = " ".join(str(error).split()), None
            if trace is None or not len(trace):
                continue
            if warnings := trace.info.get("warnings"):
                doubtful[row] = "; ".join(warnings)
            one = self.question.told_by(trace, table[row])
            for name in Told._fields[:-1]:
                getattr(told, name)[row] = getattr(one, name)[0]
            if row in failures and not isinstance(failures[row], EndRequest):
                continue
            for k, (name, function) in enumerate(self.work.functions.items()):
                try:
                    extra[row, k] = float(function(trace))
                except Exception as error:  # noqa: BLE001  # somebody's function: the run is a row with its reason
                    wrong[row] = f"the output '{name}' failed: {type(error).__name__}: {error}"
        found = self.answers(told, table, failures)
        found.outputs[:, len(self.work.formulas) :] = extra
        for row, reason in wrong.items():
            found.status[row], found.reasons[row] = Status.FAILED, reason
        _doubt(found, doubtful)
        return found

    def close(self) -> None:
        """Let go of the units of all threads."""
        runs, self._all = self._all, []
        self._mine = threading.local()
        for one in runs:
            one.close()


def _doubt(answers: Answers, doubtful: Mapping[int, str]) -> None:
    """Say of runs that came to their end what makes their results doubtful."""
    for row, reason in doubtful.items():
        if answers.status[row] == Status.DONE:
            answers.status[row], answers.reasons[row] = Status.DOUBTFUL, reason


class _Silent(logging.Filter):
    """Keeps a thread from logging what single runs warn of: the study counts it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.threads


_SILENT = _Silent()
logging.getLogger("upbeat.run").addFilter(_SILENT)


@contextmanager
def _silent() -> Iterator[None]:
    here = threading.get_ident()
    _SILENT.threads.add(here)
    try:
        yield
    finally:
        _SILENT.threads.discard(here)


def _quiet(time: float) -> None:
    """Many runs are one thing that takes its time: nobody wants to hear of each."""


# ----------------------------------------------------------------------------------------------------
# What varies, and what it is in a plan.


def names_in(key: str) -> tuple[str, ...]:
    """The values that are the same number: ``"car.k, wheel.k"`` are two."""
    return tuple(name.strip() for name in key.split(","))


def _settled(experiment: Experiment) -> Experiment:
    """The same with a master in which nothing is left to choose: with other values it stays what it is."""
    plan = experiment.plan
    made = experiment.with_()
    made.__dict__["plan"] = replace(plan, master=replace(plan.master, why=(), warnings=()))
    return made


def with_settings(experiment: Experiment, values: Values) -> Experiment:
    """The experiment with other settings (``master.step``) and values (``car.m``)."""
    problems = Problems()
    for key, value in values.items():
        if key.startswith(SETTINGS):
            experiment = _with_setting(experiment, key, value, problems)
    problems.raise_if_any("the study")
    own = {
        name: value for key, value in values.items() if not key.startswith(SETTINGS) for name in names_in(key)
    }
    return experiment.with_(scenario=experiment.scenario.with_values(own)) if own else experiment


def _with_setting(experiment: Experiment, key: str, value: Any, problems: Problems) -> Experiment:
    """With another value of one setting; None only looks whether there is such a one."""
    table, *path = key.split(".")
    where = ("study", "vary", key)
    if table == "run":
        if path not in (["until"], ["start"]):
            problems.add(
                where,
                f"a run has no setting '{'.'.join(path)}' to vary",
                "There are run.until and run.start.",
            )
            return experiment
        if value is None:
            return experiment
        span = experiment.span
        return experiment.with_(span=Span(span.start, value) if path == ["until"] else Span(value, span.stop))
    settings: dict[str, Any] = settings_of(experiment.master)
    inside = settings
    if path[0] == "step" and "step" not in settings and isinstance(settings.get("pace"), dict):
        path = ["pace", "step"]  # of whatever pace there is
    for part in path[:-1]:
        if isinstance(inside.get(part), str):
            inside[part] = {"kind": inside[part]}
        if not isinstance(inside.get(part), dict):
            problems.add(
                where,
                f"the master has no '{part}' with settings of its own",
                suggest(part, inside, "settings"),
            )
            return experiment
        inside = inside[part]
    if value is None:
        known = ("step", "pace", "coupling", "inputs", "events", "ports", "simultaneous")
        if inside is settings and path[0] not in known:
            problems.add(where, f"the master has no setting '{path[0]}'", suggest(path[0], known, "settings"))
        return experiment
    if path in (["step"], ["pace"]):
        settings.pop("pace", None)
        settings.pop("step", None)
    inside[path[-1]] = value
    found = Problems()
    made = master_from(settings, found)
    if made is None or found.found:
        for one in found.found:
            problems.add(where, f"{value!r}: {one.what}", one.hint)
        return experiment
    return experiment.with_(master=made)


def _moved(experiment: Experiment, key: str, values: Sequence[float]) -> list[tuple[str, int]] | None:
    """The numbers of units that are the value of this key, whichever of two it has; None if it is
    something else."""
    plan, start = experiment.plan, experiment.span.start
    units: list[Mapping[str, Any]] = []
    for value in values:
        given = dict.fromkeys(names_in(key), value)
        made = experiment.scenario.with_values(given)
        other = plan.with_values(given, experiment.scenario, made)
        if other is None:
            return None
        units.append(other.scenario.units)
    found: list[tuple[str, int]] = []
    for unit, one in units[0].items():
        if one is plan.scenario.units[unit] and units[1][unit] is plan.scenario.units[unit]:
            continue
        first, second = numbers_of(one, unit, start), numbers_of(units[1][unit], unit, start)
        if len(first) != len(second) or not first:
            return None
        for place, (a, b) in enumerate(zip(first, second, strict=True)):
            if a == b or (a != a and b != b):
                continue
            if (a, b) != tuple(map(float, values)):
                return None
            found.append((unit, place))
    return found or None
