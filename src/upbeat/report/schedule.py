"""Who does what on several cores: tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upbeat.core.errors import InvalidInput
from upbeat.engine.experiment import Experiment
from upbeat.engine.parallel.cores import INSTANTS, Parallel, Profile, Shared, cores_here, parallel
from upbeat.engine.parallel.operations import PYTHON
from upbeat.scenario.merging.inline import path_of

# ----------------------------------------------------------------------------------------------------
# What a step on several cores looks like: who does what when, how much faster it is, and what limits it.

MAX_CORES = 1024
_WIDTH = 72
_MARKS = {"state": "█", "loop": "▓", "out": "▒", "in": "░", "other": "░"}
_MAX_PATH = 8
_MAX_UNITS = 12
_NEARLY = 0.9
"""What takes so much of the least possible time is what it is all about."""
_WORTH_IT = 1.1
"""A plan that is less fast would not be worth it even if waiting cost nothing."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One block of a program on several cores."""

    block: str
    parallel: Parallel
    crossing: float | None = None
    """Seconds that a wait for another core costs; None: not known, and the prediction counts none."""
    instants: float = 0.0
    """Seconds for what happens at the end of the step, by one core."""
    called: Callable[[str], str] = str
    """What people call a unit."""

    def who(self, numbers: Iterable[int]) -> list[str]:
        """The units that these operations call, each once."""
        units = (unit for k in numbers for unit in sorted(self.parallel.operations[k].units))
        return list(dict.fromkeys(map(self.called, units)))

    def on_core(self, core: int) -> list[int]:
        """The numbers of the operations that a core does."""
        return [k for k, there in enumerate(self.parallel.plan.core) if there == core]

    @property
    def python(self) -> list[str]:
        """The units that run in Python."""
        return self.who(k for k, task in enumerate(self.parallel.tasks) if task.group == PYTHON)

    @property
    def one(self) -> float:
        """How long a step takes on one core."""
        return self.parallel.total + self.instants

    @property
    def seconds(self) -> float:
        """How long it takes, with what waits for other cores cost, and for the step to begin and to end."""
        return self.parallel.seconds(self.crossing or 0.0) + self.instants

    @property
    def bound(self) -> float:
        """How many times faster than one core it would be if waiting cost nothing."""
        return self.one / (self.parallel.plan.makespan + self.instants) if self.one else 1.0

    @property
    def predicted(self) -> float:
        """How many times faster than one core it is, waits included."""
        return self.one / self.seconds if self.one else 1.0

    @property
    def limit(self) -> str:
        """What stands in the way of more."""
        it = self.parallel
        if len(it.schedule.cores) == 1:
            return "there is one core"
        if len(it.schedule.busy) < 2 and PYTHON not in self.weights:
            return f"there is nothing for a second core to do: {few(self.who(range(len(it.operations))))}"
        if self.predicted >= 1:
            return self._bottleneck
        if self.bound < _WORTH_IT:
            return f"{self._bottleneck}. With what waiting costs, one core is faster"
        return (
            f"waiting: a step takes {_us(self.one)} on one core, and would go from core to core "
            f"{it.handed_on} times. One core is faster"
        )

    @property
    def _bottleneck(self) -> str:
        """What stands in the way where waiting does not."""
        it, bounds, weights = self.parallel, self.parallel.bounds, self.weights
        if self.instants > it.plan.makespan:
            return f"{INSTANTS}: they take {_us(self.instants)} of {_us(self.seconds)}, on one core"
        part = f"{_us(bounds.heaviest)} of {_us(it.total)}"
        heaviest = max(weights, key=lambda group: weights[group], default=None)
        if heaviest == PYTHON and bounds.heaviest >= _NEARLY * bounds.best:
            return (
                f"Python, which does one thing at a time: {few(self.python)} run in it and take {part}. "
                "Units of equations, in C, and FMUs do not need it"
            )
        if bounds.heaviest == bounds.best and bounds.heaviest > bounds.critical:
            (unit,) = self.who(k for k, task in enumerate(it.tasks) if task.group == heaviest)
            return (
                f"the unit '{unit}', which takes {part}: all that it does is on one core, because it does "
                "not say that it can be called from several threads"
            )
        if bounds.critical == bounds.best:
            return f"the critical path: no number of cores is faster than that. {self._longest}"
        if it.plan.makespan > 1.1 * bounds.best:
            return "dependencies: cores wait for each other although there is work left"
        return "the number of cores: all of them are busy nearly all the time"

    @property
    def _longest(self) -> str:
        """Which operation takes most of the critical path."""
        it = self.parallel
        number = max(it.critical, key=lambda k: it.tasks[k].duration)
        part = it.tasks[number].duration / it.bounds.critical
        python = (
            f", and {few(self.who([number]))} runs in Python: as equations or in C it may be faster"
            if it.tasks[number].group == PYTHON
            else ""
        )
        return f"{100 * part:.0f} % of it is '{it.operations[number].name}'{python}"

    @property
    def weights(self) -> dict[int, float]:
        """How long each group of operations that stay on one core takes."""
        found: dict[int, float] = {}
        for task in self.parallel.tasks:
            if task.group is not None:
                found[task.group] = found.get(task.group, 0.0) + task.duration
        return found


def charts(experiment: Experiment, cores: int, measured: Profile) -> list[Chart]:
    """Every block of the program's steps that has been measured, on so many cores."""
    if isinstance(cores, bool) or not isinstance(cores, int) or not 1 <= cores <= MAX_CORES:
        raise InvalidInput(f"cores must be a whole number from 1 to {MAX_CORES}, not {cores!r}")
    plan = experiment.plan
    program, units = plan.program, plan.scenario.units

    def called(unit: str) -> str:
        return path_of(plan.scenario, unit)

    def chart(name: str) -> Chart:
        times, crossing = measured.blocks[name], measured.crossing or 0.0
        made = parallel(program, name, units, cores, times, called, crossing)
        return Chart(name, made, measured.crossing, measured.instants, called)

    return [chart(name) for name in program.steps if name in measured.blocks]


def chart_data(chart: Chart) -> dict[str, Any]:
    """A chart as plain data, times in microseconds."""
    it = chart.parallel
    names = [operation.name for operation in it.operations]
    return {
        "cores": len(it.schedule.cores),
        "operations": [
            {
                "name": operation.name,
                "kind": operation.kind,
                "units": chart.who([number]),
                "core": it.plan.core[number],
                "start_us": 1e6 * it.plan.start[number],
                "end_us": 1e6 * it.plan.end[number],
                "after": [names[b] for b in operation.before],
            }
            for number, operation in enumerate(it.operations)
        ],
        "one_core_us": 1e6 * chart.one,
        "makespan_us": 1e6 * it.plan.makespan,
        "speedup": chart.bound,
        "predicted_speedup": chart.predicted,
        "waits": it.schedule.crossings,
        "handed_on": it.handed_on,
        "wait_us": None if chart.crossing is None else 1e6 * chart.crossing,
        "instants_us": 1e6 * chart.instants,
        "rule": it.plan.rule.value,
        "bounds_us": {
            "critical_path": 1e6 * it.bounds.critical,
            "work_per_core": 1e6 * it.bounds.shared,
            "heaviest_unit": 1e6 * it.bounds.heaviest,
        },
        "critical_path": [names[number] for number in it.critical],
        "limited_by": chart.limit,
    }


def chart_text(chart: Chart) -> str:
    """A chart for people: a line for every core, and what follows from it."""
    it, count = chart.parallel, len(chart.parallel.schedule.cores)
    path = [it.operations[number].name for number in it.critical]
    shown = path if len(path) <= _MAX_PATH else [*path[: _MAX_PATH - 1], "…", path[-1]]
    cores = f"{count} core{'s' if count > 1 else ''}"
    waits = f"{it.handed_on} times from core to core and two around the step"
    cost = "which is not measured" if chart.crossing is None else f"of {_us(chart.crossing)} each"
    many = [
        f"  {cores:<14} {_us(it.plan.makespan + chart.instants)}, if waiting costs nothing: "
        f"{chart.bound:.2f} × as fast",
        *([f"  at instants    {_us(chart.instants)} of that, by one core"] if chart.instants else []),
        f"  predicted      {_us(chart.seconds)}, with {waits}, {cost}: {chart.predicted:.2f} × as fast",
    ]
    return "\n".join(
        [
            f"block '{chart.block}': {len(it.operations)} operations on {cores}",
            f"  one core       {_us(chart.one)}",
            *(many if count > 1 else ()),
            f"  critical path  {_us(it.bounds.critical)}: {' → '.join(shown)}",
            f"  limited by     {chart.limit}",
            "",
            *_lines(it),
            f"  {_MARKS['state']} state  {_MARKS['loop']} loop  {_MARKS['out']} output  {_MARKS['in']} input",
        ]
    )


def few(units: Sequence[str]) -> str:
    """The names of some units, and how many more there are."""
    more = f" and {len(units) - _MAX_UNITS} more" if len(units) > _MAX_UNITS else ""
    return ", ".join(units[:_MAX_UNITS]) + more


def _lines(it: Parallel) -> list[str]:
    """Who is busy when: each column is shown as what takes most of it. Idle cores are the last ones."""
    whole = it.plan.makespan or 1.0
    lines = []
    busy, count = len(it.schedule.busy), len(it.schedule.cores)
    for core in range(busy):
        columns: list[dict[str, float]] = [{} for _ in range(_WIDTH)]
        for number, operation in enumerate(it.operations):
            if it.plan.core[number] == core:
                _spread(columns, it.plan.start[number], it.plan.end[number], whole, _MARKS[operation.kind])
        text = "".join(_mark(column) for column in columns)
        lines.append(f"  core {core:<3} {text}")
    if count > busy:
        idle = f"core {busy} has" if count == busy + 1 else f"cores {busy} to {count - 1} have"
        lines.append(f"  {idle} nothing to do")
    return lines


def _spread(columns: Sequence[dict[str, float]], start: float, end: float, whole: float, mark: str) -> None:
    first, last = start / whole * _WIDTH, end / whole * _WIDTH
    for column in range(int(first), min(_WIDTH, int(last) + 1)):
        part = min(last, column + 1.0) - max(first, float(column))
        if part > 0:
            columns[column][mark] = columns[column].get(mark, 0.0) + part


def _mark(column: Mapping[str, float]) -> str:
    busy = sum(column.values())
    return max(column, key=lambda mark: column[mark]) if busy >= 0.5 else "·"


def _us(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} µs"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


# ----------------------------------------------------------------------------------------------------
# What an experiment does on several cores, in words: who is where, what is left to one, what limits it.


def cores_data(experiment: Experiment) -> dict[str, Any] | None:
    """As plain data; None where one core is asked for, or nothing else is there."""
    shared = experiment.shared
    if not shared:
        return None
    plan, profile = experiment.plan, experiment.profile
    blocks = {}
    for name, each in shared.items():
        known = profile if each.measured else None
        chart = Chart(
            name,
            each.parallel,
            known.crossing if known else None,
            known.instants if known else 0.0,
            lambda unit: path_of(plan.scenario, unit),
        )
        blocks[name] = _block(chart, each, known.source if known else None)
    return {
        "asked": experiment.cores,
        "here": cores_here(),
        "blocks": blocks,
        "instants": bool(plan.program.instant),
        "nested": [{"unit": note.unit, "why": note.why} for note in plan.nested if not note.flattened],
    }


def _block(chart: Chart, each: Shared, source: str | None) -> dict[str, Any]:
    it = each.parallel
    cores = [
        {"core": core, "units": chart.who(mine), "share": sum(it.tasks[k].duration for k in mine) / it.total}
        for core in it.schedule.busy
        for mine in [chart.on_core(core)]
    ]
    return {
        "shared": each.schedule is not None,
        "why": each.why,
        "times": source,
        "cores": cores,
        "waits": it.schedule.crossings,
        "rule": it.plan.rule.value,
        "python": chart.python,
        "predicted_speedup": chart.predicted if each.measured else None,
        "limited_by": chart.limit if each.measured else None,
    }


def cores_lines(data: dict[str, Any]) -> list[str]:
    """As text."""
    lines = [f"asked for: {data['asked']}, here: {data['here']}"]
    for name, block in data["blocks"].items():
        lines += _block_lines(name, block)
    if data["instants"]:
        lines.append(f"instants: by one core, because {INSTANTS}")
    lines += [
        f"{note['unit']}: a unit of its own, so all of it is on one core ({note['why']})"
        for note in data["nested"]
    ]
    return lines


def _block_lines(name: str, block: dict[str, Any]) -> list[str]:
    if not block["shared"]:
        limit = [f"  limited by {block['limited_by']}"] if block["limited_by"] else []
        return [f"{name}: by one core, because {block['why']}", *limit]
    waits = f"{block['waits']} time{'' if block['waits'] == 1 else 's'}"
    lines = [f"{name}: shared by {len(block['cores'])} cores, which wait for each other {waits}"]
    for core in block["cores"]:
        caller = ", the thread that calls" if core["core"] == 0 else ""
        part = f" ({100 * core['share']:.0f} % of the work)" if block["times"] else ""
        lines.append(f"  core {core['core']}{caller}: {few(core['units'])}{part}")
    lines.append(f"  why so: all that a unit does is on one core; taken in turn by {block['rule']}")
    if block["python"]:
        lines.append(f"  Python does one thing at a time, so {few(block['python'])} are on one core together")
    if block["times"] is None:
        lines.append(
            "  how long anything takes is guessed, and how much faster this is not known: upbeat profile"
        )
        return lines
    lines.append(
        f"  {block['times']}: predicted to be {block['predicted_speedup']:.2f} × as fast as one core"
    )
    return [*lines, f"  limited by {block['limited_by']}"]
