"""Models as plain tables: the `[models]` and `[units]` of a file, in both directions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, ModelError, Problems, suggest
from upbeat.core.ports import MAX_CELLS_IN_ALL
from upbeat.scenario.files.fmu_models import KEYS as FMU_KEYS
from upbeat.scenario.files.fmu_models import fmu_model, fmu_table
from upbeat.scenario.files.front_ends import KEYS as FRONT_END_KEYS
from upbeat.scenario.files.front_ends import front_end, front_end_table
from upbeat.scenario.files.python_models import KEYS as PYTHON_KEYS
from upbeat.scenario.files.python_models import python_model, python_table
from upbeat.units.equations.ode import Function, Ode, equations_of
from upbeat.units.process import DEADLINE, KEEP_EVERY, Isolated

Table = Mapping[str, Any]
Where = tuple[str, ...]

_EQUATIONS = ("inputs", "outputs", "parameters", "locals", "tables")
KINDS: dict[str, tuple[str, ...]] = {
    "ode": ("states", "start", *_EQUATIONS, "variables", "events", "solver"),
    "function": _EQUATIONS,
    "python": PYTHON_KEYS,
    "scenario": ("scenario", "engine", "flatten"),
    "sa": ("sa", "units", "adaptation", "parameters"),
    "fmu": FMU_KEYS,
    **FRONT_END_KEYS,
}
"""The kinds of model, and the keys that each of them has."""
_MARKS = {"state_machine": "transitions", "ode": "states", "scenario": "scenario", "sa": "sa", "fmu": "file"}
"""The key that tells which kind it is; the first that is there counts."""
ISOLATION = ("isolation", "deadline", "restart", "keep_every")
"""The keys of any unit or model about a process of its own (see `upbeat.Isolated`)."""
ADAPT = "adapt"
"""The key of any unit or model with adaptations: a list of texts and tables."""
OVERRIDES = ("model", "parameters", "start", "solver", ADAPT, *ISOLATION)
"""The keys of a unit that uses a model from `[models]`."""


class Nest(Protocol):
    """What only the layer that can run a scenario inside a unit can make."""

    def __call__(self, table: Table, folder: Path | None) -> Model:
        """A unit of the scenario in another file."""

    def adapted(self, model: Model, given: Sequence[Any], folder: Path | None) -> Model:
        """A model with adaptations around it; `AdaptationError` says which one is wrong."""


class AdaptationError(ModelError):
    """One of several adaptations is wrong: the one with this index."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(what, [(f"adapt[{index}]", what)])


_CELL = re.compile(r"\[(\d+)\]\Z")


MAX_EVENTS = 1_000
"""Of a scenario in a file, between units."""
MAX_UNITS = 10_000
"""Of a scenario in files, with those of all scenarios inside: a few small files can stand for any number."""


class Definitions:
    """Makes the units of a file. Problems are collected; a unit that has one is left out."""

    def __init__(
        self,
        models: Table,
        problems: Problems,
        *,
        allow_python: bool,
        folder: Path | None,
        nest: Nest | None = None,
    ) -> None:
        self._models = models
        self._problems = problems
        self._allow_python = allow_python
        self._folder = folder
        self._nest = nest
        self._made: dict[str, Model | None] = {}
        self._cells = self._units = 0

    def unit(self, name: str, table: object) -> Model | None:
        """The model of `[units.name]`: one of its own, or one of `[models]` with other values."""
        if self._cells > MAX_CELLS_IN_ALL or self.full:
            return None  # that is a problem already; making the others would only take time and memory
        model = self._unit(name, table)
        self._cells += cells_of(model) if model is not None else 0
        self._units += 1 if model is None else stands_for(model)
        if self.full:
            hint = f"A scenario in files has at most {MAX_UNITS:,}. Scenarios in Python may have more."
            self._problems.add(("units",), f"there are more than {MAX_UNITS:,} units in all", hint)
        return model

    @property
    def full(self) -> bool:
        """Whether there are more units than a file may have."""
        return self._units > MAX_UNITS

    def _unit(self, name: str, table: object, where: Where = ()) -> Model | None:
        where = where or ("units", name)
        if not isinstance(table, Mapping):
            self._problems.add(
                where, f"unit '{name}' must be a table", f'Write [units.{name}] with model = "…".'
            )
            return None
        if "model" not in table:
            return self._model(table, where)
        base = table["model"]
        if "kind" in table or "states" in table:
            self._problems.add(
                where,
                f"unit '{name}' has both a model and equations of its own",
                'Keep model = "…" with parameters, start and solver, or keep the equations.',
            )
            return None
        if not isinstance(base, str) or base not in self._models:
            known = suggest(str(base), self._models, "models")
            self._problems.add((*where, "model"), f"there is no model {base!r}", known)
            return None
        if not self._known_keys(table, OVERRIDES, where):
            return None
        return self._override(table, base, where)

    def unused(self) -> None:
        """Look at the models that no unit uses, too: they may have problems."""
        for name in self._models:
            self._shared(name)

    def _shared(self, name: str) -> Model | None:
        if name not in self._made:
            table = self._models[name]
            if isinstance(table, Mapping):
                self._made[name] = self._model(table, ("models", name))
            else:
                self._problems.add(
                    ("models", name), f"model '{name}' must be a table", f"Write [models.{name}]."
                )
                self._made[name] = None
        return self._made[name]

    def _override(self, table: Table, base: str, where: Where) -> Model | None:
        model = self._shared(base)
        if model is not None and "solver" in table:
            model = self._model({**self._models[base], "solver": table["solver"]}, where)
        if model is None:
            return None
        good = True
        for key in ("parameters", "start"):
            values = table.get(key, {})
            if not isinstance(values, Mapping):
                self._problems.add((*where, key), f"{key} must be a table", f"Write {key} = {{ x = 1.0 }}.")
                return None
            for name, value in values.items():
                changed = self._guard(partial(model.with_values, {name: value}), (*where, key, name))
                good = good and changed is not None
                model = changed or model
        return self._guard(lambda: isolated(self._adapted(model, table), table), where) if good else None

    def _model(self, table: Table, where: Where) -> Model | None:
        kind = table.get("kind", next((k for k, mark in _MARKS.items() if mark in table), "function"))
        if not isinstance(kind, str) or kind not in KINDS:
            self._problems.add(
                (*where, "kind"), f"there is no kind {kind!r} of unit", suggest(str(kind), KINDS, "kinds")
            )
            return None
        if not self._known_keys(table, ("kind", *KINDS[kind], ADAPT, *ISOLATION), where):
            return None
        said = {key: table[key] for key in (ADAPT, *ISOLATION) if key in table and key not in KINDS[kind]}
        rest = {key: value for key, value in table.items() if key != "kind" and key not in said}
        if kind == "sa" and "units" in rest:
            inner = self._inner_units(rest["units"], (*where, "units"))
            if inner is None:
                return None
            rest["units"] = inner
        return self._guard(lambda: isolated(self._adapted(self._make(kind, rest), said), said), where)

    def _adapted(self, model: Model, table: Table) -> Model:
        """The model with the adaptations that a table lists, if it does."""
        if ADAPT not in table:
            return model
        given = table[ADAPT]
        given = [given] if isinstance(given, (str, Mapping)) else given
        if not isinstance(given, list):
            raise InvalidInput(f'adapt is a list, such as ["gain 2 on y"], not {given!r}')
        if self._nest is None:
            raise InvalidInput("a unit with adaptations can be run by upbeat.load only")
        return self._nest.adapted(model, given, self._folder)

    def _inner_units(self, table: object, where: Where) -> dict[str, Model] | None:
        """The units inside an adapted one, by name; None if something is wrong with one of them."""
        if not isinstance(table, Mapping):
            self._problems.add(where, "units must be a table", 'Write units = { window = { model = "…" } }.')
            return None
        found = {str(name): self._unit(str(name), one, (*where, str(name))) for name, one in table.items()}
        good = {name: model for name, model in found.items() if model is not None}
        return good if len(good) == len(found) else None

    def _make(self, kind: str, table: dict[str, Any]) -> Model:
        match kind:
            case "ode":
                return Ode(**{"states": {}, **table})
            case "function":
                return Function(**table)
            case "scenario" | "sa":
                if self._nest is None:
                    raise InvalidInput("a unit that is a scenario itself can be run by upbeat.load only")
                return self._nest(table, self._folder)
            case "fmu":
                return fmu_model(table, self._folder)
            case _ if kind in FRONT_END_KEYS:
                return front_end(kind, table)
        return python_model(table, allowed=self._allow_python, folder=self._folder)

    def _known_keys(self, table: Table, known: tuple[str, ...], where: Where) -> bool:
        unknown = [key for key in table if key not in known]
        for key in unknown:
            self._problems.add((*where, key), f"unknown key '{key}'", suggest(key, known, "keys"))
        return not unknown

    def _guard(self, make: Callable[[], Model], where: Where) -> Model | None:
        try:
            return make()
        except ModelError as error:
            for place, what in error.complaints:
                self._problems.add((*where, *_path(place)), what)
        except InvalidInput as error:
            self._problems.add(where, str(error))
        return None


def isolated(model: Model, table: Table) -> Model:
    """The model with what the table says about a process for its units, if it does."""
    said = {key: table[key] for key in ISOLATION if key in table}
    if not said:
        return model
    before = {}
    if isinstance(model, Isolated):  # a unit has the last word on a model that several use
        before = isolation_table(model)
        model = model.model
    found = {"isolation": "auto", **before, **said}
    return Isolated(model, **found)


def isolation_table(model: Isolated) -> dict[str, Any]:
    """The keys that say what `model` is, besides the model inside."""
    defaults = {"deadline": DEADLINE, "restart": 0, "keep_every": KEEP_EVERY}
    given = {key: getattr(model, key) for key, value in defaults.items() if getattr(model, key) != value}
    return {"isolation": model.isolation, **given}


def stands_for(model: Model) -> int:
    """How many units a model means: a nested scenario, all that are in it."""
    inner = getattr(model, "scenario", None)
    if inner is None:
        return 1
    if "stands for" not in inner.kept:
        inner.kept["stands for"] = sum(map(stands_for, inner.units.values()))
    return int(inner.kept["stands for"])


def cells_of(model: Model) -> int:
    """How many cells the ports of one unit fill."""
    return sum(port.cells for port in model.ports)


def _path(place: str) -> Where:
    """``states.x[1]`` as keys."""
    return tuple(part for part in _CELL.sub(r".\1", place).split(".") if part)


def table_of(name: str, model: Model) -> dict[str, Any]:
    """The table from which `Definitions` makes an equal model."""
    if isinstance(model, (Ode, Function)) and equations_of(model) is not None:  # a subclass may do more
        return model.to_spec()
    table = front_end_table(model) or fmu_table(model)
    if table is not None:
        return table
    return {"kind": "python", **python_table(name, model)}
