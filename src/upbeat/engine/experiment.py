"""An experiment: a scenario, a master, a time span and what to record. Frozen; run it again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from upbeat.core.errors import InvalidInput, Problems, suggest
from upbeat.core.time import Span
from upbeat.engine.choose import Choice, EngineName, choose
from upbeat.engine.run import Run
from upbeat.master.approximation import Approximation, Hold
from upbeat.master.coupling import Coupling, Jacobi
from upbeat.master.master import Master, as_pace
from upbeat.master.pace import Pace
from upbeat.master.program import Program
from upbeat.master.settings import master_from, settings_of
from upbeat.scenario.files import ScenarioFile, read_scenario
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import Signals
from upbeat.trace.trace import Trace

T = TypeVar("T")
Report = Callable[[float], None]
"""Called now and then with the simulated time reached."""

_RUN_KEYS = ("start", "until", "engine")
_RECORD_KEYS = ("signals", "every", "out")


@dataclass(frozen=True)
class Experiment:
    """Everything a run needs. `record` are patterns over ``unit.port`` names; None means all outputs."""

    scenario: Scenario
    master: Master
    span: Span
    record: tuple[str, ...] | None = None
    every: int = 1
    out: Path | None = None
    engine: EngineName = "auto"
    signals: Signals | None = None
    jit: bool = False

    def __post_init__(self) -> None:
        _check_every(self.every)

    @property
    def closed(self) -> Scenario:
        """The scenario with its inputs driven by the signals, or held at their start values."""
        return self.scenario.driven(self.signals) if self.signals is not None else self.scenario.closed()

    def program(self) -> Program:
        return self.master.program(self.closed)

    def choice(self) -> Choice:
        return choose(self.engine, self.closed.units)

    def open(self) -> Run:
        """A run to step by hand."""
        closed = self.closed
        program, pace = self.master.build(closed)
        return Run(
            program=program,
            scenario=closed,
            pace=pace,
            span=self.span,
            choice=choose(self.engine, closed.units),
            record=self.record,
            every=self.every,
            out=self.out,
            jit=self.jit,
        )

    def run(self, report: Report | None = None) -> Trace:
        """Run to the end and return the trace."""
        with self.open() as run:
            return run.finish(report)

    def with_(self, **changes: Any) -> Experiment:
        """The same experiment with other fields."""
        return replace(self, **changes)


def experiment(
    scenario: Scenario,
    *,
    pace: Pace | float,
    until: float,
    start: float = 0.0,
    coupling: Coupling | None = None,
    inputs: Approximation | None = None,
    ports: Mapping[str, Approximation] | None = None,
    signals: Signals | None = None,
    record: Sequence[str] | None = None,
    every: int = 1,
    out: str | Path | None = None,
    engine: EngineName = "auto",
    jit: bool = False,
) -> Experiment:
    """An experiment from plain arguments; see `simulate` for their meaning."""
    master = Master(
        pace=as_pace(pace), coupling=coupling or Jacobi(), inputs=inputs or Hold(), ports=dict(ports or {})
    )
    return Experiment(
        scenario=scenario,
        master=master,
        span=Span(float(start), float(until)),
        record=None if record is None else tuple([record] if isinstance(record, str) else record),
        every=every,
        out=None if out is None else Path(out),
        engine=engine,
        signals=signals,
        jit=jit,
    )


def load(
    path: str | Path,
    *,
    values: Mapping[str, Any] | None = None,
    until: float | None = None,
    step: float | None = None,
    allow_python: bool = False,
) -> Experiment:
    """The experiment that a scenario file describes.

    `values` overrides parameters and start values (``{"left.m": 2.0}``); `until` and `step`
    override what the file says. All problems of the file are reported together.
    """
    changes = {"until": until, "step": step}

    def also(file: ScenarioFile, problems: Problems) -> None:
        _settings(_changed(file, **changes), problems)

    file = read_scenario(Path(path), allow_python=allow_python, values=values or {}, also=also)
    return experiment_from(_changed(file, **changes))


def experiment_from(file: ScenarioFile) -> Experiment:
    """The experiment in a file that has been read; what is wrong with its settings is reported together."""
    problems = Problems()
    settings = _settings(file, problems)
    if settings is not None:
        _checked(lambda: settings["master"].program(file.scenario), ("master",), problems)
    if settings is None or problems.found:
        raise file.located(problems)
    return Experiment(scenario=file.scenario, **settings)


def _changed(file: ScenarioFile, until: float | None, step: float | None) -> ScenarioFile:
    """The file with another stop time or step."""
    master, run = dict(file.master), dict(file.run)
    if step is not None:
        master.pop("pace", None)
        master["step"] = step
    if until is not None:
        run["until"] = until
    return replace(file, master=master, run=run)


def _settings(file: ScenarioFile, problems: Problems) -> dict[str, Any] | None:
    """The fields of an `Experiment` besides the scenario, from the tables of settings."""
    before = len(problems.found)
    run, record = file.run, file.record
    for table, given, known in (("run", run, _RUN_KEYS), ("record", record, _RECORD_KEYS)):
        for key in given:
            if key not in known:
                problems.add((table, key), f"unknown key '{key}'", suggest(key, known, "keys"))
    master = master_from(file.master, problems)
    span = None
    if "until" in run:
        span = _checked(
            lambda: Span(_number(run.get("start", 0.0)), _number(run["until"])), ("run", "until"), problems
        )
    else:
        problems.add(("run",), "the stop time is missing", "Add until = 10.0 under [run], or use --until 10.")
    engine = run.get("engine", "auto")
    if engine not in get_args(EngineName):
        problems.add(
            ("run", "engine"),
            f"there is no engine {engine!r}",
            suggest(str(engine), get_args(EngineName), "engines"),
        )
    signals, every, out = record.get("signals"), record.get("every", 1), record.get("out")
    if signals is not None and not (
        isinstance(signals, list) and all(isinstance(item, str) for item in signals)
    ):
        problems.add(
            ("record", "signals"), "must be a list of names or patterns", 'Write signals = ["left.*"].'
        )
    _checked(lambda: _check_every(every), ("record", "every"), problems)
    if out is not None and not isinstance(out, str):
        problems.add(("record", "out"), "must be the name of a file", 'Write out = "results.csv".')
    if len(problems.found) > before:
        return None
    return {
        "master": master,
        "span": span,
        "record": None if signals is None else tuple(signals),
        "every": every,
        "out": None if out is None else Path(out),
        "engine": engine,
    }


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"a time must be a number, not {value!r}")
    return float(value)


def _check_every(every: object) -> None:
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise InvalidInput(f"every must be a whole number of at least 1, not {every!r}")


def _checked(make: Callable[[], T], where: tuple[str, ...], problems: Problems) -> T | None:
    try:
        return make()
    except InvalidInput as error:
        problems.add(where, str(error))
        return None


def file_of(experiment: Experiment) -> ScenarioFile:
    """The experiment as a scenario file, ready to be written."""
    run: dict[str, Any] = {"until": experiment.span.stop}
    if experiment.span.start:
        run["start"] = experiment.span.start
    if experiment.engine != "auto":
        run["engine"] = experiment.engine
    record: dict[str, Any] = {}
    if experiment.record is not None:
        record["signals"] = list(experiment.record)
    if experiment.every != 1:
        record["every"] = experiment.every
    if experiment.out is not None:
        record["out"] = str(experiment.out)
    return ScenarioFile(
        scenario=experiment.scenario, master=settings_of(experiment.master), run=run, record=record
    )
