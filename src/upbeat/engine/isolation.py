"""Which units run in processes of their own, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from upbeat.core.abilities import FromFile, Model
from upbeat.core.errors import InvalidInput, ModelError, Problems, suggest
from upbeat.core.names import ADAPTED
from upbeat.core.records import dataclass
from upbeat.engine.nesting.model import Nested
from upbeat.master.paces.pace import Fixed, Pace, nominal_step
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import DEADLINE, Isolated, When, as_isolated, bare, placed_like


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a run says about all units that do not say it themselves."""

    when: When = "auto"
    deadline: float = DEADLINE
    restart: int = 0


def isolation_from(run: Mapping[str, Any], problems: Problems) -> Isolation:
    """What the table `run` of a file says; all that is wrong with it goes to `problems`."""
    when, deadline, restart = (
        run.get("isolation", "auto"),
        run.get("deadline", DEADLINE),
        run.get("restart", 0),
    )
    if not isinstance(when, str) or when not in get_args(When):
        hint = suggest(str(when), get_args(When), "words")
        problems.add(("run", "isolation"), f"there is no isolation {when!r}. {hint}")
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not deadline > 0:
        problems.add(("run", "deadline"), f"must be a positive number of seconds, not {deadline!r}")
    if isinstance(restart, bool) or not isinstance(restart, int) or restart < 0:
        problems.add(("run", "restart"), f"must be a whole number of at least 0, not {restart!r}")
    return Isolation(when, deadline, restart)


def isolation_table(isolation: Isolation) -> dict[str, Any]:
    """What a file has to say for it."""
    said = {"isolation": isolation.when, "deadline": isolation.deadline, "restart": isolation.restart}
    usual = {"isolation": "auto", "deadline": DEADLINE, "restart": 0}
    return {key: value for key, value in said.items() if value != usual[key]}


def placed(scenario: Scenario, isolation: Isolation, stop: float, pace: Pace) -> Scenario:
    """The scenario with units where they run, and FMUs that know of the run."""
    if scenario.only_equations and isolation.when != "process":
        return scenario
    return planned(separated(scenario, isolation), stop, pace)


def planned(scenario: Scenario, stop: float, pace: Pace) -> Scenario:
    """The scenario whose FMUs, at all depths, know when the run ends, and the grid of their steps."""
    made: dict[str, Model] = {}
    for name, model in scenario.units.items():
        inner = bare(model)
        informed = _planned(inner, stop, pace)
        if informed is not inner:
            made[name] = placed_like(model, informed)
    return scenario.with_units(made)


def _planned(model: Model, stop: float, pace: Pace) -> Model:
    if isinstance(model, FromFile):
        return model.planned(stop, nominal_step(pace))
    if isinstance(model, Nested):
        inside = planned(model.scenario, stop, model.master.pace)
        return model if inside is model.scenario else replace(model, scenario=inside)
    around = getattr(model, "around", None)
    if around is None:
        return model
    every = getattr(model, "every", None)
    inner: Model = model.model  # type: ignore[attr-defined]
    informed: Model = around(_planned(inner, stop, pace if every is None else Fixed(every)))
    return informed


def _inside(model: Model) -> Model:
    """The model that one around it changes the running of, if it is such a one."""
    while hasattr(model, "around"):
        model = model.model  # type: ignore[attr-defined]
    return model


def separated(scenario: Scenario, isolation: Isolation) -> Scenario:
    """The scenario with all units that should run in processes of their own `Isolated`, at all depths.

    A unit's own word counts, then that of the nested scenario around it, then that of the run. An FMU about
    which nothing is said gets a process if it may be instantiated only once per process and there are
    several of it, or if it crashed or hung when it was probed.
    """
    fmus = Counter(model.path for model in _models(scenario.units) if isinstance(model, FromFile))
    return _separated(scenario, isolation, fmus)


def some_apart(scenario: Scenario, isolation: Isolation) -> bool:
    """Whether a unit of the scenario runs in a process of its own."""
    return any(
        some_apart(model.scenario, isolation) if isinstance(model, Nested) else as_isolated(model) is not None
        for model in separated(scenario, isolation).units.values()
    )


def together(scenario: Scenario) -> Scenario:
    """The scenario with all units in this process, whatever they say."""
    return scenario.with_units(
        {
            name: replace(model, scenario=together(model.scenario)) if isinstance(model, Nested) else model
            for name, model in ((name, bare(model)) for name, model in scenario.units.items())
        }
    )


def _separated(scenario: Scenario, isolation: Isolation, fmus: Mapping[Path, int]) -> Scenario:
    made: dict[str, Model] = {}
    for name, model in scenario.units.items():
        if name in scenario.added_units:
            continue
        try:
            made[name] = _placed(model, isolation, fmus)
        except ModelError as error:
            raise InvalidInput(f"unit '{name}' cannot run in a process of its own: {error}") from None
    changed = {name: model for name, model in made.items() if model is not scenario.units[name]}
    return scenario.with_units(changed)


def _placed(model: Model, isolation: Isolation, fmus: Mapping[Path, int]) -> Model:
    inner = bare(model)
    isolated = as_isolated(model)
    own = "auto" if isolated is None else isolated.isolation
    if own == "auto" and isinstance(inner, FromFile):
        own = inner.isolation
    between: tuple[object, ...] = getattr(inner, "adaptations", ())
    if own == "process" and isolated is not None and between:
        # Blocks between a unit and its ports stay in the program around it, as they do without a process.
        assert isinstance(inner, Nested)
        unit = replace(isolated, model=bare(inner.scenario.units[ADAPTED]), isolation="process")
        apart = inner.scenario.with_units({ADAPTED: _placed(unit, isolation, fmus)})
        return replace(inner, scenario=apart)
    if own == "process" and isolated is not None:
        return model if isolated.isolation == "process" else replace(isolated, isolation="process")
    when = isolation.when if own == "auto" else own
    if isinstance(inner, Nested) and own != "process":
        inside = _separated(inner.scenario, replace(isolation, when=when), fmus)
        return inner if inside is inner.scenario else replace(inner, scenario=inside)
    if when == "process" or (
        when == "auto" and isinstance(inner, FromFile) and inner.endangers(fmus[inner.path])
    ):
        if isolated is not None:
            return replace(isolated, isolation="process")
        return Isolated(inner, isolation.deadline, isolation.restart)
    return inner


def _models(units: Mapping[str, Model]) -> Iterator[Model]:
    for model in map(_inside, map(bare, units.values())):
        if isinstance(model, Nested):
            yield from _models(model.scenario.units)
        else:
            yield model
