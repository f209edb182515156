"""Studies as data: what varies, what is asked of every run, and how to run all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from upbeat.core.atomic import as_path
from upbeat.core.errors import InvalidInput, Problems, ScenarioError, check_type, suggest
from upbeat.core.records import dataclass
from upbeat.engine.checkpoint import digests
from upbeat.engine.experiment import Experiment
from upbeat.engine.resume import fingerprints
from upbeat.explore.answers import Robustness, Sensitivity, robustness, sensitivity
from upbeat.explore.executors import Crew, Job, crew, crew_of_search
from upbeat.explore.outputs import OfTrace, formula, of_property
from upbeat.explore.sampling import Column, Design, chosen, read_table, says_range
from upbeat.explore.store import RESERVED, Layout, Memory, Results, Store
from upbeat.explore.work import Answers, Status, Work
from upbeat.scenario.files.reading import parse
from upbeat.scenario.files.toml import Lines

if TYPE_CHECKING:
    from upbeat.explore.calibrate import Calibration
    from upbeat.explore.optimise import Optimum
    from upbeat.properties.robustness import Property

_KEYS = (
    *(
        "vary",
        "table",
        "design",
        "samples",
        "seed",
        "correlations",
        "outputs",
        "signals",
        "times",
        "events",
        "out",
    ),
    *("uncertainty", "robustness", "sensitivity", "optimise", "calibrate"),
)
_ANSWERS = {
    "uncertainty": ("probabilities",),
    "robustness": ("masters",),
    "sensitivity": ("method", "samples"),
    "optimise": ("minimise", "maximise", "subject", "evaluations"),
    "calibrate": ("measured", "signals", "sigma", "loss"),
}
"""What else a file may ask, and the settings of each."""
_LARGEST = 64_000_000
"""Bytes that the answers of one chunk take at most."""
_TRIAL = 0.05
"""Seconds of runs from which the size of chunks is told."""


class Progress(NamedTuple):
    """How far a study has come."""

    done: int
    total: int
    failed: int
    elapsed: float
    remaining: float
    """Seconds, by the pace so far; not a number before there is one."""


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Study:
    """Many runs of one experiment.

        Study(up.load("car.toml"),
              vary={"car.k": {"from": 1e4, "to": 3e4, "count": 20}, "car.d": [500, 1000, 2000]},
              outputs={"comfort": "rms(car.a)", "travel": "maximum(abs(car.z - wheel.z))"})

    * `vary`: parameters and start values (``unit.name``), settings of the master (``master.step``) and
      ``run.until``, each a
      list, a range with a count, or a distribution; or `table`, a CSV file with a column for each.
    * `design`: ``"grid"``, ``"together"``, ``"random"``, ``"sobol"``, ``"halton"``, ``"latin_hypercube"``;
      the last four draw
      `samples` points with `seed`, and `correlations` such as ``("car.m", "car.k", 0.5)``.
    * `outputs`: expressions over statistics of signals and events (see `upbeat.explore.outputs`),
      properties, or Python functions of the trace.
    * `signals` are kept over time, at so many `times` between start and stop; `events`: so many events of
      each run are.
    * `out`: a Zarr store. A study that was interrupted goes on with what is there.

    All runs have the master that the experiment settles on with its own values.
    """

    experiment: Experiment
    vary: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, str | OfTrace | Property] = field(default_factory=dict)
    table: Path | None = None
    design: str | None = None
    samples: int | None = None
    seed: int = 0
    correlations: Sequence[Sequence[Any]] = ()
    signals: Sequence[str] = ()
    times: int = 101
    events: int = 0
    out: Path | None = None
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What a file asks for besides: ``uncertainty``, ``robustness``, ``sensitivity``, ``optimise``,
    ``calibrate``, with their settings."""

    def __post_init__(self) -> None:
        check_type(self.experiment, Experiment, "the experiment of a study")
        check_type(self.outputs, Mapping, "outputs")
        for name in self.outputs:
            if name in RESERVED or name in self.vary:
                raise InvalidInput(
                    f"an output cannot be called '{name}': every result has something of that name"
                )
        if isinstance(self.signals, str) or not all(isinstance(one, str) for one in self.signals):
            raise InvalidInput(f'signals are a list of names, such as ["car.z"], not {self.signals!r}')
        for name, least in (("times", 2), ("events", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000_000:
                raise InvalidInput(f"{name} must be a whole number from {least} to 1000000, not {value!r}")
        if self.table is not None and self.vary:
            raise InvalidInput("both a table of points and what varies are given: keep one")
        self.points  # noqa: B018  # whatever is wrong with them is told now

    @classmethod
    def load(cls, path: str | Path, **settings: Any) -> Study:
        """The study in the ``[study]`` table of a scenario file; `settings` are those of `up.load`."""
        from upbeat.engine.formats.files import load

        return of_file(load(path, **settings), as_path(path))

    # ------------------------------------------------------------ the points

    @cached_property
    def points(self) -> Design | None:
        """How the points are chosen; None: they come from a table."""
        if self.table is not None:
            return None
        return chosen(self.vary, self.design, self.samples, self.seed, self.correlations)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The values of everything that varies, run by run."""
        if self.points is None:
            assert self.table is not None
            return read_table(Path(self.table))
        return self.points.columns()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 1

    def values(self, run: int) -> dict[str, Any]:
        """What one run has."""
        if not 0 <= run < len(self):
            raise InvalidInput(f"there is no run {run}: they are counted from 0 to {len(self) - 1}")
        return {key: column[run].item() if isinstance(column[run], np.generic) else column[run]
                for key, column in self.columns.items()}  # fmt: skip

    def single(self, run: int) -> Experiment:
        """The experiment of one run, to look at it more closely: ``study.single(17).run()``."""
        made = self.work.experiment_for(self.values(run))
        own = self.experiment
        return made.with_(record=own.record, every=own.every, jumps=own.jumps)

    def at(self, points: Mapping[str, Any]) -> Study:
        """The same study at other points: a list of values for everything that varies, of equal length."""
        return replace(
            self, vary=dict(points), table=None, design="together", samples=None, correlations=(), out=None
        )

    # ------------------------------------------------------------ the work

    @cached_property
    def work(self) -> Work:
        """What is done for every point."""
        span = self.experiment.span
        grid = tuple(np.linspace(span.start, span.stop, self.times).tolist()) if self.signals else ()
        known = [one.name for one in self.experiment.scenario.properties]
        asked: dict[str, Any] = {n: of_property(one, known) or one for n, one in self.outputs.items()}
        made = Work(
            self.experiment,
            {key: _two(column) for key, column in self.columns.items()},
            {name: formula(one) for name, one in asked.items() if not callable(one)},
            {name: one for name, one in asked.items() if callable(one)},
            tuple(self.signals),
            grid,
            self.events,
        )
        made.check()
        return made

    @property
    def notes(self) -> tuple[str, ...]:
        """What somebody who waits for the results would like to know."""
        found = []
        for key, why in self.work.written.items():
            if why:
                count = len({_hashable(one) for one in self.columns[key]})
                each = f"for each of {count} values" if count > 1 else "for its value"
                found.append(f"'{key}' changes the program ({why}): it is planned anew {each}")
        return tuple(found)

    @property
    def layout(self) -> Layout:
        """What the result consists of."""
        work = self.work
        order = [name for name in self.outputs if name in work.formulas] + list(work.functions)
        program = work.base.plan.program
        units = {name: column.unit for name, column in program.columns.items() if column.unit}
        return Layout(
            self.columns, tuple(order), work.signals, work.grid, self.events, tuple(program.events), units
        )

    def fingerprint(self) -> dict[str, Any]:
        """What tells this study from others: plain data."""
        own = self.experiment.with_(out=None, checkpoint=None)
        outputs = {
            name: one if isinstance(one, str) else digests(code=True, output=one)["output"]
            for name, one in self.outputs.items()
        }
        return {
            **{part: one for part, one in fingerprints(own, code=True).items() if part != "record"},
            "inputs": digests(inputs=own.signals)["inputs"],
            "runs": len(self),
            "parameters": list(self.columns),
            "values": digests(values=self.columns)["values"],
            "outputs": outputs,
            "signals": list(self.signals),
            "times": self.times if self.signals else 0,
            "events": self.events,
        }

    # ------------------------------------------------------------ running

    def run(
        self,
        executor: Any = None,
        *,
        workers: int | None = None,
        device: str | None = None,
        single: bool = False,
        report: Report | None = None,
        force: bool = False,
    ) -> Results:
        """All runs that are not done yet.

        `executor`: ``"threads"``, ``"processes"``, ``"here"``, the address of a Dask scheduler, or anything
        with ``submit``, a ``joblib.Parallel`` or a Dask client; with None, what fits this machine and the
        units. `workers`: how many at a time. `device`: ``"gpu"``, or ``"compiled"`` for generated code on
        all cores; with `single` a GPU computes in single precision. `report` hears of the progress. `force`:
        replace a store that is there.
        """
        layout = self.layout
        kept: Memory | Store
        kept = (
            Memory(layout)
            if self.out is None
            else Store(Path(self.out), layout, self.fingerprint(), force=force)
        )
        results = Results(kept, self)
        try:
            if self.out is None or kept.chunk is None or len(kept.done) < -(-len(self) // kept.chunk):
                hands = self._crew(executor, workers, device, single)
                try:
                    self._run(kept, hands, report)
                finally:
                    hands.close()
        finally:
            kept.close()
        return results

    def crew_of_search(
        self,
        executor: Any = None,
        workers: int | None = None,
        device: str | None = None,
        single: bool = False,
    ) -> Crew:
        """Whoever makes the runs of a search, generation by generation."""
        if device is None and not single:
            return crew_of_search(self.work, executor, workers)
        return self._crew(executor, workers, device, single)

    def _crew(self, executor: Any, workers: int | None, device: str | None, single: bool) -> Crew:
        if device is None and single:
            raise InvalidInput("single precision is for a GPU: leave out --single, or add --device gpu")
        if device is not None:
            from upbeat.explore.devices import device_crew

            if executor is not None:
                raise InvalidInput("a study runs on a device or by an executor: leave out one of them")
            found = device_crew(self.work, device, single=single, workers=workers)
            if found is not None:
                return found
        return crew(executor, workers, self.work)

    def _run(self, kept: Memory | Store, hands: Crew, report: Report | None) -> None:
        total = len(self)
        began = time.monotonic()
        if kept.chunk is None:
            size, tried = self._chunk_size(hands)
            kept.begin(size)
            if len(tried.status) == size:  # runs that take long are not made twice
                kept.write(0, {key: column[:size] for key, column in self.columns.items()}, tried)
        assert kept.chunk is not None
        size = kept.chunk
        count = -(-total // size)
        left = [number for number in range(count) if number not in kept.done]
        before = total - sum(min(size, total - number * size) for number in left)
        failed, done = 0, before
        for number, answers in hands.do(self.work, self._jobs(left, size)):
            rows = slice(number * size, min((number + 1) * size, total))
            kept.write(number, {key: column[rows] for key, column in self.columns.items()}, answers)
            done += len(answers.status)
            failed += int((answers.status == Status.FAILED).sum())
            if report is not None:
                elapsed = time.monotonic() - began
                remaining = elapsed / (done - before) * (total - done)
                report(Progress(done, total, failed, elapsed, remaining))
        if len(kept.done) == count:
            kept.finish()

    def _jobs(self, numbers: Sequence[int], size: int) -> Iterator[Job]:
        for number in numbers:
            rows = slice(number * size, (number + 1) * size)
            yield Job(number, {key: column[rows] for key, column in self.columns.items()})

    def _chunk_size(self, hands: Crew) -> tuple[int, Answers]:
        """By how long the first runs take, whose answers are returned, too: long enough that handing a chunk
        over costs little, and several for each worker."""
        total, tried = len(self), 1
        while True:
            tried = min(tried, total)
            job = Job(0, {key: column[:tried] for key, column in self.columns.items()})
            ((_, answer),) = list(hands.do(self.work, iter([job])))
            if answer.seconds >= _TRIAL or tried == total or tried >= 4096:
                break
            tried *= 8
        each = max(answer.seconds / tried, 1e-7)
        width = (
            8 * (sum(len(v) for v in (answer.outputs[0], answer.totals[0])) + answer.samples[0].size) + 100
        )
        share = total * each / (4 * hands.workers)
        seconds = max(hands.least, min(2.0, share))
        return int(max(1, min(seconds / each, _LARGEST / width, total, 1_000_000))), answer

    # ------------------------------------------------------------ answers

    def sensitivity(
        self, method: str = "sobol", samples: int = 256, out: Path | None = None, **running: Any
    ) -> Sensitivity:
        """Which parameters matter: see `upbeat.explore.answers.sensitivity`."""
        return sensitivity(self, method, samples, out, **running)

    def robustness(
        self, masters: Mapping[str, Mapping[str, Any]] | None = None, **running: Any
    ) -> Robustness:
        """Whether a conclusion holds with other masters: see `upbeat.explore.answers.robustness`."""
        return robustness(self, masters, **running)

    def calibrate(
        self,
        measured: Any,
        signals: Mapping[str, str] | Sequence[str] | None = None,
        sigma: Mapping[str, float] | float | None = None,
        loss: str = "linear",
        **where: Any,
    ) -> Calibration:
        """What varies, so that runs come closest to measurements: see
        `upbeat.explore.calibrate.calibrate`."""
        from upbeat.explore.calibrate import calibrate
        from upbeat.explore.optimise import bounds

        low, high, keys = bounds(self)
        ranges = {key: (low[k], high[k]) for k, key in enumerate(keys)}
        return calibrate(self.experiment, measured, ranges, signals, sigma, loss, **where)

    def optimise(
        self,
        minimise: Sequence[str] = (),
        maximise: Sequence[str] = (),
        subject: Sequence[str] = (),
        evaluations: int = 1000,
        report: Callable[[int, int], None] | None = None,
        **where: Any,
    ) -> Optimum:
        """The best design, or the front of several goals: see `upbeat.explore.optimise.optimise`."""
        from upbeat.explore.optimise import optimise

        return optimise(self, minimise, maximise, subject, evaluations, report, **where)


def _two(column: Column) -> tuple[Any, ...]:
    """Two different values of a column, or the one that it has."""
    first = column[0].item() if isinstance(column[0], np.generic) else column[0]
    for value in column[1:]:
        other = value.item() if isinstance(value, np.generic) else value
        if other != first and other == other:
            return first, other
    return (first,)


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, (list, dict)) else value


def of_file(experiment: Experiment, path: Path) -> Study:
    """The study of an experiment that was read from a file with a ``[study]`` table. Problems have their
    lines."""
    text = path.read_text(encoding="utf-8-sig")  # which has been read before
    table = parse(text, str(path)).get("study")
    if table is None:
        raise InvalidInput(
            f"{path} has no [study]: say in it what varies ([study.vary]) and what is asked of every run "
            "([study.outputs])"
        )
    problems = Problems()
    made: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            problems.add(("study", key), f"unknown key '{key}'", suggest(key, _KEYS, "keys"))
        elif key in ("vary", "outputs", *_ANSWERS) and not isinstance(value, Mapping):
            problems.add(
                ("study", key),
                f"must be a table, not {value!r}",
                f"Write [study.{key}] on a line of its own.",
            )
        elif key in _ANSWERS:
            for setting in value.keys() - set(_ANSWERS[key]):
                hint = suggest(setting, _ANSWERS[key], "settings")
                problems.add(("study", key, setting), f"unknown key '{setting}'", hint)
            asked = dict(value)
            if isinstance(asked.get("masters"), Mapping):
                asked["masters"] = {
                    name: dict(_flat(one, "")) if isinstance(one, Mapping) else one
                    for name, one in asked["masters"].items()
                }
            made.setdefault("answers", {})[key] = asked
        elif key in ("table", "out"):
            made[key] = path.parent / as_path(value, f"study.{key}")
        else:
            made[key] = dict(_named(value, "")) if key == "vary" else value
    if "vary" not in table and "table" not in table:
        problems.add(
            ("study",), "nothing varies", 'Write [study.vary] with lines such as "car.k" = [1, 2, 3].'
        )
    try:
        if not problems.found:
            study = Study(experiment, **made)
            study.work  # noqa: B018  # names and outputs
            return study
    except ScenarioError as error:
        problems.found += error.problems
    except InvalidInput as error:
        where = next((key for key in made.get("vary", {}) if str(error).startswith(f"'{key}'")), None)
        problems.add(("study",) if where is None else ("study", "vary", where), str(error))
    lines = Lines(text)
    raise ScenarioError([replace(one, line=lines.of(one.where)) for one in problems.found], str(path))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Settings by name: ``master.step = …`` is a table in a table to TOML."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _named(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """What varies, by name: ``car.k = …`` without quotation marks is a table in a table to TOML."""
    for key, value in table.items():
        path = f"{prefix}{key}"
        inside = isinstance(value, Mapping) and any(isinstance(one, Mapping) for one in value.values())
        if isinstance(value, Mapping) and not says_range(value) and ("." not in path or inside):
            yield from _named(value, f"{path}.")
        else:
            yield path, value
