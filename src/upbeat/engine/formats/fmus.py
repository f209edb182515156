"""FMUs without a scenario file: the experiment that their names, and what they say themselves, describe."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from upbeat.core.abilities import FromFile, Model
from upbeat.core.errors import FileProblem, InvalidInput, Problem, Problems, ScenarioError, suggest
from upbeat.core.expr.parse import written
from upbeat.core.names import resolve, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.engine.experiment import Experiment
from upbeat.engine.nesting.model import Nested
from upbeat.engine.settings import Tables, checked_fields, outside_files
from upbeat.scenario.assemble import Sections, assemble, with_values
from upbeat.scenario.directory import INPUTS, Directory, Unclear, Wrong
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import TIME, Signals, header_of, read_columns
from upbeat.units.fmi.description import Variability
from upbeat.units.fmi.model import Fmu
from upbeat.units.process import bare, placed_like

# ----------------------------------------------------------------------------------------------------
# Signals for free inputs of FMUs without a scenario file: a table with columns named ``unit.input``.
#
# With one FMU the name of the input will do. Real inputs that are discrete are held from row to row.
# Columns of strings and of tunable parameters are set by the run.


class Driven:
    """The inputs that a table drives: `inputs` of the scenario for them, by the port that each stands for.

    A scenario's own input has no dot in its name: these are called ``a_u``, ``a_u_2``, ….
    """

    def __init__(self, path: Path, units: Mapping[str, Fmu], connected: Collection[str]) -> None:
        self._path = path
        self._units = units
        self._free = {
            f"{unit}.{port.name}": replace(port, name=f"{unit}.{port.name}", start=None)
            for unit, model in units.items()
            for port in model.ports
            if port.causality is not Causality.OUTPUT and not port.event
            if f"{unit}.{port.name}" not in connected
        }
        self._set = {name for name, port in self._free.items()
                     if port.causality is Causality.PARAMETER or port.kind is Kind.STRING}  # fmt: skip
        alone = f"{next(iter(units))}." if len(units) == 1 else ""
        short = {name.removeprefix(alone): name for name in self._free} if alone else {}
        self._meant: dict[str, str] = {}  # the input, by the name that the table has for it
        for column in header_of(path):
            name = resolve(column, self._free)[0]
            name = name if name in self._free else resolve(column, short)[0]
            if column == TIME or not (name in self._free or name in short):
                continue  # the reader complains
            full = name if name in self._free else short[name]
            other = next((known for known, one in self._meant.items() if one == full and known != name), None)
            if other is not None:
                raise FileProblem(f"{path}: line 1: the columns '{other}' and '{name}' are one input")
            self._meant[name] = full
        self.inputs: dict[str, Port] = {}
        for full in (full for full in self._meant.values() if full not in self._set):
            self.inputs[full] = replace(self._free[full], name=self._own_name(full))

    def _own_name(self, name: str) -> str:
        unit, rest = split(name)
        plain = f"{unit}_{''.join(c if c.isascii() and c.isalnum() else '_' for c in rest)}"
        taken = {port.name for port in self.inputs.values()}
        made, count = plain, 2
        while made in taken:
            made, count = f"{plain}_{count}", count + 1
        return made

    def signals(self) -> Signals:
        """The table, with every complaint in the names that it has itself."""
        rest = {name: name for name in self._free if name not in self._meant.values()}
        named = [(full, replace(self._free[full], name=name)) for name, full in (self._meant | rest).items()]
        own = [port for full, port in named if full not in self._set]
        found = read_columns(self._path, own, [port for full, port in named if full in self._set])
        renamed = {}
        for column, values in found.values.items():
            name, cell = resolve(column, self._meant)
            full = self._meant[name]
            given = full if full in self._set else self.inputs[full].name
            renamed[given + ("" if cell is None else f"[{cell}]")] = values
        return Signals(
            found.time, renamed, [port.name for name, port in self.inputs.items() if self._held(name)]
        )

    def _held(self, name: str) -> bool:
        unit, variable = split(name)
        return self._units[unit].layout.variables[variable].variability is Variability.DISCRETE


# ----------------------------------------------------------------------------------------------------

STEPS = 1000
"""So many steps there are to a run if it is not said how long one is."""
DEFAULT_STOP = 1.0


@dataclass(frozen=True)
class Chosen:
    """An experiment, and sentences about what was chosen because it was not given."""

    experiment: Experiment
    notes: tuple[str, ...]


def fmu_experiment(
    paths: Sequence[Path],
    settings: Mapping[str, Any],
    *,
    connect: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    locals: Sequence[str] = (),
    table: Path | None = None,
    writing: bool = False,
) -> Chosen:
    """The experiment with these FMUs as units, named after their files.

    `connect` has texts ``b.u=a.y``, `settings` what `load` takes, `options` are for all FMUs alike, `locals`
    patterns ``a.body.*``. A `table` drives the inputs that its columns name (``a.u``). What the settings
    leave open comes from the FMUs' default experiments. All problems are reported together.
    """
    problems = Problems()
    names, notes = unit_names(paths)
    units: dict[str, Fmu] = {}
    all_alike = dict(options or {})
    for name, path in zip(names, paths, strict=True):
        try:
            found = [*all_alike.get("locals", ()), *_patterns_for(name, locals)]
            units[name] = Fmu(path, **all_alike | {"locals": found})
            if not any(port.causality is Causality.OUTPUT for port in units[name].ports):
                units[name] = _shown(units[name], all_alike, name, notes)
        except InvalidInput as error:
            problems.add((path.name,), str(error))
    broken = set(names) - units.keys()
    directory = Directory(units, (), broken)
    pairs = []
    for text in connect:
        if (pair := _pair(text, directory)) is None:
            problems.add(("connect=",), f"'{text}' is no connection", "Write input=output, as in b.u=a.y.")
        else:
            pairs.append(pair)
    for pattern in locals:
        if not any(_patterns_for(name, [pattern]) for name in names):
            problems.add(
                ("locals=",), f"'{pattern}' names no unit", suggest(split(pattern)[0], names, "units")
            )
    driven = None if table is None else Driven(table, units, {target for target, _ in pairs})
    inputs = () if driven is None else tuple(driven.inputs.values())
    pairs += [] if driven is None else [(target, port.name) for target, port in driven.inputs.items()]
    parts = assemble(Sections(units, pairs, inputs), problems, broken)
    parts = with_values(parts, values or {}, problems, broken)
    scenario = Scenario.from_parts(parts, ", ".join(path.stem for path in paths))
    tables, more = _tables(units, settings)
    tables = tables.overruled({key: value for key, value in settings.items() if key != "signals"})
    fields = checked_fields(tables, scenario, problems, writing=writing)
    if problems.found:
        raise ScenarioError([_named(problem) for problem in problems.found], "the command line")
    signals = settings.get("signals") if driven is None else driven.signals()
    made = Experiment(scenario=scenario, signals=signals, **outside_files(settings), **fields)
    made.check_plan(problems)
    problems.raise_if_any("the command line")
    return Chosen(made, (*notes, *more))


def _shown(model: Fmu, options: Mapping[str, Any], name: str, notes: list[str]) -> Fmu:
    """An FMU without outputs shows its local variables, or there would be nothing to see."""
    if not model.hidden:
        notes.append(f"{name} has neither outputs nor local variables: there is nothing to record of it")
        return model
    notes.append(f"{name} has no outputs: its local variables are recorded ({len(model.hidden)})")
    return Fmu(model.path, **dict(options) | {"locals": list(model.hidden)})


def _patterns_for(unit: str, patterns: Sequence[str]) -> list[str]:
    """Those of the patterns ``unit.variable`` that speak of this one, without its name."""
    parts = [split(pattern) for pattern in patterns]
    return [rest for head, rest in parts if rest and fnmatchcase(unit, head)]


def _named(problem: Problem) -> Problem:
    if problem.where[:1] == ("connections",):
        return Problem(("connect=", *problem.where[1:]), problem.what, problem.hint)
    return problem


# -------------------------------------------------------------------- names and connections


def unit_names(paths: Iterable[Path]) -> tuple[list[str], list[str]]:
    """The names of the units: the stems of the files as identifiers, numbered where several are equal.

    The second part says what differs from the names of the files.
    """
    paths = list(paths)
    wanted = [_identifier(path.stem) for path in paths]
    counts, seen = Counter(wanted), Counter[str]()
    names: list[str] = []
    for name in wanted:
        seen[name] += 1
        made = f"{name}_{seen[name]}" if counts[name] > 1 or name == INPUTS else name
        while made in names or (made != name and made in wanted):
            seen[name] += 1
            made = f"{name}_{seen[name]}"
        names.append(made)
    changed = [(path, name) for path, name in zip(paths, names, strict=True) if name != path.stem]
    return names, [f"the unit of {path} is called '{name}'" for path, name in changed]


def _identifier(stem: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_") or "fmu"
    return f"fmu_{name}" if name[0].isdigit() else name


def _pair(text: str, directory: Directory) -> tuple[str, str] | None:
    """Input and source. The other way round is understood, too, where it leaves no doubt."""
    left, sign, right = (part.strip() for part in text.partition("="))
    if not (sign and left and right):
        return None
    if _is(directory.target, right) and not _is(directory.target, left) and _is(directory.source, left):
        return right, _quoted(left, directory)
    return left, _quoted(right, directory)


def _quoted(source: str, directory: Directory) -> str:
    """A source that is one output as an expression, whatever its name looks like."""
    return written(source) if "`" not in source and _is(directory.source, source) else source


def _is(resolve: Any, text: str) -> bool:
    try:
        resolve(text)
    except (Wrong, Unclear):
        return False
    return True


# -------------------------------------------------------------------- the default experiment


def _tables(units: Mapping[str, Fmu], settings: Mapping[str, Any]) -> tuple[Tables, list[str]]:
    """What the FMUs say about how to be run, and in words what of it counts."""
    said: list[str] = []
    run: dict[str, Any] = {}
    experiments = {name: model.description.experiment for name, model in units.items()}
    for name, model in units.items():
        odd = [note.what for note in model.description.warnings if note.where == "DefaultExperiment"]
        said += [f"in the default experiment of {name} {what}" for what in odd]
    if settings.get("start") is None:
        starts = {name: e.start for name, e in experiments.items() if e.start}
        if starts:
            name, run["start"] = min(starts.items(), key=lambda item: item[1])
            said.append(f"start = {run['start']:g}, as {name} says")
    if settings.get("until") is None:
        stops = {name: e.stop for name, e in experiments.items() if e.stop is not None}
        if stops:
            name, run["until"] = max(stops.items(), key=lambda item: item[1])
            said.append(f"until = {run['until']:g}, as {name} says")
        else:
            run["until"] = run.get("start", settings.get("start") or 0.0) + DEFAULT_STOP
            said.append(f"until = {run['until']:g}, since neither you nor an FMU says (--until)")
    master: dict[str, Any] = {}
    if settings.get("pace") is None and settings.get("step") is None:
        times = run | {key: settings[key] for key in ("start", "until") if settings.get(key) is not None}
        master["step"], why = _step(units, float(times["until"]) - float(times.get("start", 0.0)))
        said.append(f"step = {master['step']:g}, {why}")
    said += _tolerances(units)
    return Tables(master, run, {}), said


def _step(units: Mapping[str, Fmu], length: float) -> tuple[float, str]:
    """The communication step, and why it is this one."""
    steps = {name: step for name, m in units.items() if (step := m.description.experiment.step) is not None}
    if steps:
        name, step = min(steps.items(), key=lambda item: item[1])
        return step, f"as {name} says"
    if not 0 < length < math.inf:
        return 1.0, "since the times are wrong anyway"  # which is complained about elsewhere
    nice = nice_step(length / STEPS)
    inner = {step for m in units.values() if (step := getattr(m.interface, "fixed_internal_step", None))}
    if len(inner) == 1:
        (own,) = inner
        return own * max(1, math.floor(nice / own)), "a multiple of the FMU's own step (--step)"
    return nice, f"about {STEPS} steps, since neither you nor an FMU says (--step)"


def _tolerances(units: Mapping[str, Fmu]) -> list[str]:
    """The tolerances that come from default experiments, each with those who say it."""
    by_value: dict[float, list[str]] = {}
    for name, model in units.items():
        said = model.description.experiment.tolerance
        if model.tolerance is None and said is not None and model.solver_tolerance == said:
            by_value.setdefault(said, []).append(name)
    return [
        f"tolerance = {value:g}, as {' and '.join(names)} {'says' if len(names) == 1 else 'say'}"
        for value, names in by_value.items()
    ]


def nice_step(maximum: float) -> float:
    """The largest of 1, 2, 5, 10, … times a power of ten that is not above `maximum`."""
    power = math.floor(math.log10(maximum))
    candidates = [float(f"{digit}e{power + more}") for more in (-1, 0, 1) for digit in (1, 2, 5)]
    return max(step for step in candidates if step <= maximum * (1 + 1e-9))


# -------------------------------------------------------------------- what they say


def talking(scenario: Scenario) -> Scenario:
    """The scenario with all FMUs saying everything, wherever they run and however deep they are."""
    changed = {name: _talking(model) for name, model in scenario.units.items()}
    return scenario.with_units(
        {name: model for name, model in changed.items() if model is not scenario.units[name]}
    )


def _talking(model: Model) -> Model:
    if isinstance(model, FromFile):
        return model.talking()
    if (plain := bare(model)) is not model:
        inner = _talking(plain)
        return model if inner is plain else placed_like(model, inner)
    if isinstance(model, Nested):
        inside = talking(model.scenario)
        return model if inside is model.scenario else replace(model, scenario=inside)
    return model
