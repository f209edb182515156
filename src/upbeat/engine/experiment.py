"""An experiment: a scenario, a master, a time span and what to record. Frozen; run it again and again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from upbeat.core.abilities import Model
from upbeat.core.display import Displayed, notebook_progress
from upbeat.core.errors import InvalidInput, MasterError, Problem, Problems, suggest
from upbeat.core.ports import Causality, Values
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.engine.checkpoint import Checkpoint, Stored
from upbeat.engine.choose import Choice, EngineName, choose, compiled_engine
from upbeat.engine.isolation import Isolation, placed, together
from upbeat.engine.native.machine import Lowered
from upbeat.engine.nesting.flatten import kept_nested
from upbeat.engine.plan import Plan
from upbeat.engine.realtime import RealTime
from upbeat.engine.remarks import inner_warnings, step_remarks
from upbeat.engine.run import Run
from upbeat.engine.selection import Selection, select
from upbeat.engine.settings import (
    Settings,
    Tables,
    checked_cores,
    checked_every,
    checked_truth,
    default_pace,
    matched,
    outside_files,
)
from upbeat.engine.structures import Selections, needs_objects
from upbeat.master.master import Master, as_pace
from upbeat.master.paces.pace import Pace, equal_steps
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import Signals, cells_of_inputs
from upbeat.trace.trace import Trace
from upbeat.units.solving.solvers import Solver

if TYPE_CHECKING:
    from upbeat.engine.parallel.cores import Profile, Shared

Report = Callable[[float], None]
"""Called now and then with the simulated time reached."""


@dataclass(frozen=True)
class Experiment(Displayed):
    """Everything a run needs. `record` are patterns over ``unit.port`` names; None means all outputs.

    On several `cores`, a `profile` has the seconds that operations take, as far as they are known: they
    decide who does what, and nothing else.

    Unless `flatten` is off, the units of nested scenarios run side by side with the others wherever that
    means the same. With `force`, `out` may be a file that is no result of Upbeat, which is then lost.
    """

    scenario: Scenario
    master: Master
    span: Span
    record: tuple[str, ...] | None = None
    every: int = 1
    jumps: bool = True
    out: Path | None = None
    engine: EngineName = "auto"
    signals: Signals | None = None
    jit: bool = False
    cores: int = 1
    profile: Profile | None = None
    flatten: bool = True
    isolation: Isolation = field(default_factory=Isolation)
    real_time: RealTime | None = None
    checkpoint: Checkpoint | None = None
    force: bool = False
    file: Path | None = field(default=None, compare=False, repr=False)
    """The file that it was read from."""
    command: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The command line that it comes from, so that result files can say how to repeat it."""

    def __post_init__(self) -> None:
        checked_every(self.every)
        checked_truth(self.jumps)
        checked_cores(self.cores)

    def __getstate__(self) -> dict[str, Any]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # and nothing that follows from it

    @cached_property
    def structures(self) -> Mapping[str, Experiment]:
        """An experiment for each structure of the scenario, which ends where an event leads to another one.

        Empty, if the scenario is one structure all the time. What looks at a plan, looks at that of one of
        these: the run of them all goes from one to the next.
        """
        found = {}
        for one in self.scenario.structures:
            scenario = self.scenario.structure(one.name)
            record = None if self.record is None else matched(self.record, scenario)
            found[one.name] = replace(
                self,
                master=self.master.where_there_are(scenario),
                scenario=scenario,
                record=record,
                flatten=False,
                out=None,
                checkpoint=None,
            )
        if found and self.engine == "auto" and needs_objects(found) is not None:
            found = {name: replace(part, engine="interpret") for name, part in found.items()}
        return found

    def structure(self, name: str) -> Experiment:
        """The experiment of one structure alone, with the same results file, checkpoints and all."""
        if not self.structures:
            raise InvalidInput(f"there is no structure '{name}': this scenario has one only, all the time")
        if name not in self.structures:
            raise InvalidInput(
                f"there is no structure '{name}'. {suggest(name, self.structures, 'structures')}"
            )
        return self.structures[name].with_(out=self.out, checkpoint=self.checkpoint, flatten=self.flatten)

    def check_structures(self) -> None:
        """Refuse what a run through several structures cannot do."""
        if not self.scenario.structures:
            return
        if self.real_time is not None:
            raise InvalidInput(
                "a run through several structures is not in real time: leave out real_time (--real-time off)"
            )
        if self.cores > 1:
            raise InvalidInput(
                "a run through several structures is on one core: leave out cores (--cores), or choose a "
                "structure (--structure)"
            )
        if self.later():
            raise InvalidInput(
                "signals of parameters cannot be followed through several structures: let an event change "
                "the parameter, or give the structures different values"
            )

    @cached_property
    def closed(self) -> Scenario:
        """The scenario with its inputs driven by the signals, or held at their start values."""
        whole = self.scenario.watching()
        return whole.closed() if self.signals is None else whole.driven(self.signals, self.span.start)

    def later(self) -> list[tuple[float, str, Values]]:
        """What signals say about parameters and strings after the start."""
        if self.signals is None:
            return []
        found = self.scenario.changes(self.signals, self.span.start).items()
        return [(t, name, values) for name, (_, *later) in found for t, values in later]

    @property
    def _set_later(self) -> Signals | None:
        """The signals of parameters, which remain when the others have become a unit."""
        if self.signals is None or not self.scenario.changes(self.signals, self.span.start):
            return None
        own = cells_of_inputs(self.scenario.settable)
        return Signals(self.signals.time, {k: v for k, v in self.signals.values.items() if k in own})

    @cached_property
    def plan(self) -> Plan:
        """What runs, made when it is first asked for and shared by all who look at it or run it."""
        closed = placed(self.closed, self.isolation, self.span.stop, self.master.pace)
        return Plan.of(closed if self.flatten else kept_nested(closed), self.master, self.span)

    def check_plan(self, problems: Problems) -> None:
        """Make the plan; a master that does not fit is a problem of the file it was read from."""
        try:
            for part in self.structures.values() or (self,):
                part.plan  # noqa: B018
        except MasterError as error:
            problems.add(("master",), str(error))

    @cached_property
    def choice(self) -> Choice:
        """The engine that will run it, and why."""
        if self.structures:
            return next(iter(self.structures.values())).choice
        units = self._called
        choice = choose(self.engine, units)
        if self.jit and choice.name != "native":
            other = "the interpreter" if choice.name == "interpret" else "the compiled engine"
            raise InvalidInput(
                f"jit is for the native engine, but {other} would run: {choice.why}. "
                "Leave out jit (--jit)" + (", or the choice of engine." if self.engine != "auto" else ".")
            )
        if self.cores > 1 and choice.name == "compiled":
            raise InvalidInput(
                "the compiled engine runs on one core: leave out cores (--cores), or take --engine native."
            )
        if self.cores > 1:
            from upbeat.engine.parallel.cores import on_cores

            return on_cores(choice, self.engine, self.cores, units)
        return choice

    @cached_property
    def shared(self) -> Mapping[str, Shared]:
        """What becomes of each step of the program on several cores; nothing where one does all the work."""
        if self.cores == 1 or self.choice.name != "native":
            return {}
        from upbeat.engine.parallel.cores import sharing

        plan = self.plan
        called = partial(path_of, plan.scenario)
        return sharing(plan.program, plan.scenario.units, self.cores, self.profile, called)

    @cached_property
    def lowered(self) -> Lowered:
        """The program for the native engine, for all runs of this plan."""
        schedules = {name: each.schedule for name, each in self.shared.items() if each.schedule is not None}
        return Lowered(self.plan.program, self.plan.scenario.units, jit=self.jit, schedules=schedules)

    @cached_property
    def machine_code(self) -> Any:
        """The program for the compiled engine (`upbeat.generate.engine`), for all runs of this plan."""
        return compiled_engine().Compiled(self.plan, self.span.start)

    @cached_property
    def selection(self) -> Selection:
        """What is recorded."""
        if self.structures:
            return self.selections.whole
        return select(self.plan.program, self.record)

    @cached_property
    def selections(self) -> Selections:
        """What is recorded of each structure."""
        return Selections.of(self.structures, self.record)

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of the choices that were left open, for the trace."""
        if self.structures:
            return tuple(dict.fromkeys(note for part in self.structures.values() for note in part.notes))
        if not self.shared:
            return self.plan.program.notes
        from upbeat.engine.parallel.cores import core_notes

        return (*self.plan.program.notes, *core_notes(self.cores, self.shared, self._called))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What may go wrong and can be seen before the run, in sentences."""
        if self.structures:
            return tuple(
                f"in structure '{name}': {remark}"
                for name, part in self.structures.items()
                for remark in part.remarks
            )
        found = self.plan.master.warnings
        if not self.plan.scenario.only_equations:
            inside = inner_warnings(self.plan.scenario)
            found = (*step_remarks(self.plan, self.span), *found, *inside)
        if not self.shared:
            return found
        from upbeat.engine.parallel.cores import core_remarks

        return (*found, *core_remarks(self.cores, self.shared, self.profile))

    @property
    def _called(self) -> dict[str, Model]:
        """What runs, by the names that people know."""
        scenario = self.plan.scenario
        return {path_of(scenario, name): model for name, model in scenario.units.items()}

    def open(self, resumed: Stored | None = None) -> Run:
        """A run to step by hand; one that was `resumed` stands where its checkpoint was made."""
        self.check_structures()
        keeper = None
        if self.checkpoint is not None:
            from upbeat.engine.resume import keeper_for  # which knows what an experiment is

            keeper = keeper_for(self, resumed is not None)
        came_from = None
        if self.out is not None and resumed is None:
            from upbeat.engine.resume import provenance

            came_from = provenance(self)
        return Run(self, keeper, resumed, came_from)

    def described(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of where a result comes from, with the scenario as far as that is text."""
        from upbeat.engine.resume import with_scenario

        return with_scenario(facts, self)

    def following(self, run: Run) -> Run:
        """A run that goes on where another one stands, with its units and their states: of the same scenario,
        but for its events, under another master. The other one can only be closed."""
        return Run(self.with_(span=Span(run.time, self.span.stop)), after=run)

    def run(self, report: Report | None = None) -> Trace:
        """Run to the end and return the trace. In a notebook, a run that takes its time shows its progress,
        unless there is something to `report` to."""
        if report is not None and not callable(report):
            raise InvalidInput(f"report must be a function of the time reached, not {report!r}")
        with (
            self.open() as run,
            notebook_progress(self.span.start, self.span.stop) if report is None else nullcontext() as shown,
        ):
            return run.finish(report if shown is None else shown.update)

    def monolithic(
        self, solver: Solver | str | Mapping[str, Any] | None = None, pace: Pace | float | None = None
    ) -> Experiment:
        """The same experiment with all units merged into one: the truth that a coupling comes close to.

        Recording stays as it is, and so does a fixed pace: the two traces can be compared row by row. Any
        other pace chooses steps for the sake of a coupling, of which there is none any more: unless `pace`
        says otherwise, there are then 1000 steps of equal size. See `Scenario.monolith`. There is none of
        a coupling that finds inputs from constraints: these are not among the equations of the units.
        """
        if found := self.master.unknowns:
            raise MasterError(
                f"there is no monolith of this experiment: its coupling finds {', '.join(found)} from "
                "constraints, which are not among the equations of the units. To have something to compare "
                "with, write what the constraints tie together as one unit, or take a smaller step."
            )
        bare = self if not self.closed.monitored else replace(self, scenario=self.scenario.unwatched())
        closed = together(bare.closed)
        if pace is None:
            own = self.master.settled(closed).pace
            pace = own if equal_steps(own) is not None else (self.span.stop - self.span.start) / 1000
        return replace(
            self,
            scenario=closed.monolith(solver),
            master=Master(as_pace(pace)),
            isolation=Isolation(),
            signals=self._set_later,
            record=_outputs(closed) if self.record is None else self.record,
        )

    def with_(self, **changes: Any) -> Experiment:
        """The same experiment with other fields."""
        known = [own.name for own in fields(self)]
        for name in sorted(changes.keys() - set(known)):
            hint = _ELSEWHERE.get(name) or suggest(name, known, "fields")
            raise InvalidInput(f"an experiment has no field '{name}'. {hint}")
        return self._sharing(replace(self, **changes), changes.keys())

    def with_values(self, values: Mapping[str, Any]) -> Experiment:
        """The same experiment with other parameters and start values: ``{"left.m": 3, "push": 0.5}``.

        Where the program does not know them, nothing is planned again: this is the quick way to run one
        experiment with many values.
        """
        made = replace(self, scenario=self.scenario.with_values(values))
        if self.structures:
            return made
        plan = self.plan.with_values(values, self.scenario, made.scenario)
        if plan is not None and self.signals is None:
            if self.choice.name == "native":
                self.lowered, self.selection  # noqa: B018  # made once, rather than by each that shares them
            elif self.choice.name == "compiled":
                self.machine_code, self.selection  # noqa: B018
            made = self._sharing(made, ())
            made.__dict__["plan"] = plan
            made.__dict__.pop("closed", None)
        return made

    def _sharing(self, other: Experiment, changed: Collection[str]) -> Experiment:
        """The other experiment, with all that has been made of this one and is the same for both."""
        for name, needed in _FOLLOWS_FROM.items():
            if name in self.__dict__ and needed.isdisjoint(changed):
                other.__dict__[name] = self.__dict__[name]
        return other


_CLOSED = frozenset({"scenario", "span", "signals"})
_PLANNED = _CLOSED | {"master", "flatten", "isolation"}
_CHOSEN = _PLANNED | {"engine", "jit", "cores"}
_SHARED = _CHOSEN | {"profile"}
_FOLLOWS_FROM = {
    "closed": _CLOSED, "plan": _PLANNED, "choice": _CHOSEN, "shared": _SHARED, "lowered": _SHARED,
    "selection": _PLANNED | {"record"}, "machine_code": _PLANNED,
    "structures": _SHARED | {"record", "every", "jumps"}, "selections": _PLANNED | {"record"},
}  # fmt: skip
"""What is made of an experiment, and the fields that it follows from."""

_ELSEWHERE = {
    "until": "Give the stop time to up.load or up.experiment.",
    **dict.fromkeys(
        ("pace", "step", "coupling", "inputs", "events"),
        "That is up to its master: master=up.Master(pace, coupling, inputs=…).",
    ),
}
"""What people look for in an experiment, and where it is."""


def _outputs(scenario: Scenario) -> tuple[str, ...]:
    """What is recorded of a scenario where nothing else is asked for."""
    ports = [(unit, port) for unit, model in scenario.units.items() for port in model.ports]
    outputs = [(unit, p) for unit, p in ports if p.causality is Causality.OUTPUT and not p.event]
    columns = [scenario.column(unit, p.name) for unit, p in outputs]
    return (*columns, *(output.port.name for output in scenario.outputs))


def experiment(scenario: Scenario, *, step: float | None = None, **settings: Unpack[Settings]) -> Experiment:
    """An experiment from plain arguments; see `Settings`. `step` is short for a fixed `pace`.

    `until` must be given, and `pace` or `step` unless all units are discrete-event ones.
    """
    _check_scenario(scenario)
    tables = Tables({}, {}, {}).overruled({"step": step, **settings})
    if settings.get("pace") is None and step is None and default_pace(scenario) is None:
        raise InvalidInput(f"'pace' is missing: write {_EXAMPLES['pace']}")
    if settings.get("until") is None:
        raise InvalidInput(f"'until' is missing: write {_EXAMPLES['until']}")
    signals = settings.get("signals")
    if signals is not None and not isinstance(signals, Signals):
        raise InvalidInput(f"signals must be Signals, not {signals!r}: write {_EXAMPLES['signals']}")
    apart = outside_files(settings)
    problems = Problems()
    fields = tables.fields(problems, scenario=scenario)
    if fields is None:
        raise InvalidInput("\n".join(map(_sentence, problems.found)))
    return Experiment(scenario=scenario, signals=signals, **apart, **fields)


_EXAMPLES = {
    "pace": "pace=0.01 for steps of one size, or pace=up.Fixed(0.01)",
    "step": "step=0.01",
    "until": "until=10.0",
    "start": "start=0.0",
    "coupling": 'coupling=up.GaussSeidel(), or coupling="gauss_seidel"',
    "inputs": 'inputs=up.Linear(), or inputs="linear"',
    "ports": 'ports={"left.F": "linear"}',
    "simultaneous": 'simultaneous=["officer", "light"]',
    "events": 'events="auto"',
    "signals": 'signals=up.read_signals("signals.csv", scenario)',
    "record": 'record=["left.*"]',
    "every": "every=10",
    "jumps": "jumps=False",
    "out": 'out="results.csv"',
    "engine": 'engine="interpret"',
    "jit": "jit=True",
    "cores": "cores=4",
    "flatten": "flatten=False",
    "isolation": 'isolation="process"',
    "deadline": "deadline=10.0",
    "restart": "restart=1",
    "real_time": 'real_time=1.0, or real_time=up.RealTime(1.0, late="skip")',
}


def _sentence(problem: Problem) -> str:
    """A problem with an argument, and what to write instead."""
    name, *rest = (str(part).removesuffix("=") for part in problem.where)
    place = f"{name}[{rest[0]!r}]" if rest else name
    hint = f" {problem.hint}" if problem.hint else ""
    return f"{place}: {problem.what.removesuffix('.')}.{hint} Write for example {_EXAMPLES[name]}."


def _check_scenario(scenario: object) -> None:
    if isinstance(scenario, Scenario):
        return
    advice = "Write up.Scenario(units={…}, connections={…})."
    if isinstance(scenario, (str, Path)):
        advice = f'To run a file, write up.load("{scenario}").run().'
    elif isinstance(scenario, Experiment):
        advice = "An experiment has its settings already: call its run()."
    raise InvalidInput(f"the first argument must be a Scenario, not {_short(scenario)}. {advice}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
