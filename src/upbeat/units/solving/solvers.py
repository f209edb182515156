"""Solvers as data: which method integrates a unit between two communication points, and how finely."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, ClassVar, Literal

from upbeat.core.errors import ExpressionError, ModelError, UpbeatError, current_names, renamed, suggest
from upbeat.core.expr import evaluate, names, parse
from upbeat.core.records import dataclass
from upbeat.units.solving import tableau
from upbeat.units.solving.tableau import Tableau

MAX_STEPS = 1_000_000_000
"""The most solver steps of one communication step: more is a mistake in the settings."""


class SolverError(UpbeatError):
    """A solver could not go on. The engine wraps it into a `UnitError` with unit, call and time."""


@dataclass(frozen=True, slots=True)
class _Fixed:
    """`steps` equal steps per communication step; or as many as needed for them to be at most `step` long.

    `step_formula` is what `step` was computed from, over the parameters of the unit: ``step = "tau/4"``.
    """

    steps: int = 1
    step: float | None = None
    step_formula: str | None = None

    method: ClassVar[str]
    tableau: ClassVar[Tableau]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _whole(self.method, "steps", self.steps, MAX_STEPS))
        if self.step is not None:
            object.__setattr__(self, "step", _positive(self.method, "step", self.step))
            if self.steps != 1:
                raise ModelError(f"solver {self.method}: give steps or step, not both")

    def count(self, length: float) -> int:
        """How many solver steps cover `length`: never one more because of a rounding error alone."""
        if self.step is None:
            return self.steps
        wanted = math.ceil(min(length / self.step, 2.0 * MAX_STEPS) * (1.0 - 1e-9))
        if wanted > MAX_STEPS:
            raise SolverError(
                f"steps of {self.step:g} would need more than {MAX_STEPS:,} solver steps to cover "
                f"{length:g}; choose a larger step"
            )
        return max(1, wanted)


@dataclass(frozen=True, slots=True)
class Euler(_Fixed):
    """Explicit Euler, order 1."""

    method = "euler"
    tableau = tableau.EULER


@dataclass(frozen=True, slots=True)
class Midpoint(_Fixed):
    """The explicit midpoint rule, order 2."""

    method = "midpoint"
    tableau = tableau.MIDPOINT


@dataclass(frozen=True, slots=True)
class RK4(_Fixed):
    """The classical Runge-Kutta method, order 4."""

    method = "rk4"
    tableau = tableau.RK4


@renamed
@dataclass(frozen=True, slots=True)
class DormandPrince:
    """The 5(4) pair of Dormand and Prince, with step-size control and dense output.

    `first` is the first step tried (chosen from the equations if not given), `longest` the longest
    step allowed, `max_steps` the most steps tried, rejected ones included, in one communication step.
    """

    rtol: float = 1e-6
    atol: float = 1e-9
    first: float | None = None
    longest: float | None = None
    max_steps: int = 100_000

    method: ClassVar[str] = "dormand_prince"
    tableau: ClassVar[Tableau] = tableau.DORMAND_PRINCE

    def __post_init__(self) -> None:
        _check_adaptive(self)


@renamed
@dataclass(frozen=True, slots=True)
class Cvode:
    """CVODE of SUNDIALS, for stiff equations: variable order and step, implicit (needs ``upbeat[cvode]``).

    `formula` is "bdf" for stiff equations or "adams" for smooth ones that are not. `first` and `longest`
    limit its steps, and `max_steps` is the most of them in one communication step. It stays warm from one
    communication step to the next as long as no input changes.
    """

    rtol: float = 1e-6
    atol: float = 1e-9
    formula: Literal["bdf", "adams"] = "bdf"
    first: float | None = None
    longest: float | None = None
    max_steps: int = 100_000

    method: ClassVar[str] = "cvode"

    def __post_init__(self) -> None:
        _check_adaptive(self)
        if not isinstance(self.formula, str) or self.formula not in ("bdf", "adams"):
            raise ModelError(f'solver cvode: formula must be "bdf" or "adams", not {self.formula!r}')


def _check_adaptive(solver: DormandPrince | Cvode) -> None:
    for name in ("rtol", "atol", "first", "longest"):
        value = getattr(solver, name)
        if value is not None or name in ("rtol", "atol"):
            object.__setattr__(solver, name, _positive(solver.method, name, value))
    object.__setattr__(solver, "max_steps", _whole(solver.method, "max_steps", solver.max_steps, MAX_STEPS))


RungeKutta = Euler | Midpoint | RK4 | DormandPrince
"""The solvers that both engines have."""
Solver = RungeKutta | Cvode

METHODS: dict[str, type[Euler] | type[Midpoint] | type[RK4] | type[DormandPrince] | type[Cvode]] = {
    kind.method: kind for kind in (Euler, Midpoint, RK4, DormandPrince, Cvode)
}


def _positive(method: str, name: str, value: object) -> float:
    largest = sys.float_info.max  # a Python integer may lie beyond
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value <= largest:
        raise ModelError(f"solver {method}: {name} must be positive and finite, not {value!r}")
    return float(value)


def _whole(method: str, name: str, value: object, max_steps: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= max_steps:
        raise ModelError(
            f"solver {method}: {name} must be a whole number from 1 to {max_steps:,}, not {value!r}"
        )
    return value


def solver_from(given: object, parameters: Mapping[str, float] | None = None) -> Solver:
    """A solver from its shorthand: itself, ``"rk4"``, or ``{"kind": "rk4", "steps": 10}``.

    With `parameters` the step may be an expression over them, and is what these values make of it.
    """
    if isinstance(given, Solver):
        return _at(given, parameters)
    settings: dict[str, Any]
    if isinstance(given, str):
        method, settings = given, {}
    elif isinstance(given, Mapping) and isinstance(given.get("kind"), str):
        method, settings = given["kind"], {key: value for key, value in given.items() if key != "kind"}
    else:
        raise ModelError(
            f'a solver is a name such as "rk4", or a table such as {{ kind = "rk4", steps = 10 }}, '
            f"not {given!r}"
        )
    if method not in METHODS:
        raise ModelError(f"there is no solver {method!r}. {suggest(method, METHODS, 'solvers')}")
    settings = current_names(METHODS[method].__name__, settings)
    known = [field.name for field in fields(METHODS[method])]
    if issubclass(METHODS[method], _Fixed):
        known.remove("step_formula")  # what `step` was written as
    for key in settings:
        if key not in known:
            raise ModelError(f"solver {method} has no setting {key!r}. {suggest(key, known, 'settings')}")
    formula = settings.get("step")
    if parameters is not None and isinstance(formula, str):
        settings |= {"step": _step(method, formula, parameters), "step_formula": formula}
    return METHODS[method](**settings)


def _at(solver: Solver, parameters: Mapping[str, float] | None) -> Solver:
    """The solver with the step that its formula gives; without these parameters it is a number for good."""
    if not isinstance(solver, _Fixed) or solver.step_formula is None:
        return solver
    if parameters is None or not names(parse(solver.step_formula)) <= parameters.keys():
        return replace(solver, step_formula=None)
    return replace(solver, step=_step(solver.method, solver.step_formula, parameters))


def _step(method: str, formula: str, parameters: Mapping[str, float]) -> float | None:
    """The step that a formula gives; None, which is one step, if that is without bound."""
    try:
        found = evaluate(parse(formula), parameters)
    except ExpressionError as error:
        raise ModelError(f"solver {method}: step = {formula!r}: {error}") from None
    if not found > 0.0:
        values = ", ".join(f"{name} = {parameters[name]:g}" for name in sorted(names(parse(formula))))
        raise ModelError(
            f"solver {method}: step = {formula!r} must be positive; it is {found:g} with {values}"
        )
    return None if math.isinf(found) else found


def with_tolerance(solver: Solver, rtol: float | None) -> Solver:
    """The solver as exact as asked for, if it has an exactness and brings none of its own."""
    if rtol is None or not isinstance(solver, (DormandPrince, Cvode)):
        return solver
    usual = type(solver)()
    own = (solver.rtol, solver.atol) != (usual.rtol, usual.atol)
    return solver if own else replace(solver, rtol=rtol, atol=rtol * (usual.atol / usual.rtol))


def solver_spec(solver: Solver) -> str | dict[str, Any]:
    """The shorthand that `solver_from` reads back: only what differs from the defaults."""
    settings = {
        field.name: getattr(solver, field.name)
        for field in fields(solver)
        if field.default is MISSING or getattr(solver, field.name) != field.default
    }
    if formula := settings.pop("step_formula", None):
        settings["step"] = formula
    return {"kind": solver.method, **settings} if settings else solver.method


# ----------------------------------------------------------------------------------------------------
# Solvers that take turns: an input of a unit says with which of them it goes on.

Plain = Euler | Midpoint | RK4
"""Solvers with equal steps: they remember nothing, so that any can go on where another stopped."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Solvers besides a unit's own, and the integer input `by` that chooses: 0 its own, 1 the first other."""

    by: str
    others: tuple[Plain, ...]

    def count(self) -> int:
        """How many there are to choose from, the unit's own included."""
        return 1 + len(self.others)

    def to_spec(self) -> dict[str, Any]:
        """The plain table that `choice_from` reads back."""
        return {"by": self.by, "others": [solver_spec(other) for other in self.others]}

    def place(self, wanted: Any) -> int:
        """The place of the solver that the input asks for."""
        if not 0 <= wanted < self.count():
            raise SolverError(f"there is no solver {int(wanted)}: it has {self.count()}, counted from 0")
        return int(wanted)


def plain_solvers(given: Iterable[Solver]) -> tuple[Plain, ...]:
    """These solvers, if a unit can change between them."""
    solvers = tuple(given)
    for solver in solvers:
        if not isinstance(solver, Plain):
            raise ModelError(
                f"solver {solver.method} cannot take turns with others: it remembers the steps it has made, "
                "and another one would go on without them. Choose among euler, midpoint and rk4."
            )
    return solvers  # type: ignore[return-value]


def solver_of(model: object) -> Any:
    """The solver of a model; None if it has none, or nothing to solve, as a function has."""
    equations = getattr(model, "equations", None)
    return None if equations is not None and not equations.states else getattr(model, "solver", None)
