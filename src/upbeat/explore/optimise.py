"""Optimisation: the best design by one output, or the front of several, generation by generation.

A generation is a chunk of runs. One output: CMA-ES (`cma`); several: NSGA-II (`pymoo`); see
docs/decisions/0033.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import ExpressionError, InvalidInput, suggest
from upbeat.core.expr import Apply, Expr, Op, kind_of, names, parse
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.explore.executors import Crew, done_by, joined
from upbeat.explore.outputs import vectorised
from upbeat.explore.sampling import Listed
from upbeat.explore.store import Memory, Results
from upbeat.explore.work import Answers, Status
from upbeat.trace.extras import need

if TYPE_CHECKING:
    from upbeat.explore.study import Study

Floats = npt.NDArray[np.float64]
_BAD = 1e30
"""Of a run that failed: worse than all others."""


@dataclass(frozen=True)
class Optimum:
    """What was found: designs that no other is better than in everything (one, for one objective).

    `parameters` and `objectives` are matrices, a row for each design, sorted by the first objective;
    `history` has the best value so far (of one objective) or the size of the front, by evaluations. `tried`
    are all designs and outputs.
    """

    names: tuple[str, ...]
    goals: tuple[str, ...]
    parameters: Floats
    objectives: Floats
    outputs: Floats
    history: tuple[tuple[int, float], ...]
    tried: Floats
    tried_outputs: Floats
    feasible: bool
    """Whether the designs keep to all constraints. If none does, these are the ones that come closest."""
    results: Results
    """Of all designs that were tried, as of any study."""

    @property
    def best(self) -> dict[str, float]:
        """The design with the least first objective."""
        return dict(zip(self.names, self.parameters[0].tolist(), strict=True))


def optimise(
    study: Study,
    minimise: Sequence[str] = (),
    maximise: Sequence[str] = (),
    subject: Sequence[str] = (),
    evaluations: int = 1000,
    report: Callable[[int, int], None] | None = None,
    **where: Any,
) -> Optimum:
    """The best values of what varies, within its ranges. `minimise` and `maximise` name outputs, `subject`
    has conditions over outputs and parameters such as ``"travel <= 0.06"``. `where` says where runs are made,
    as for `Study.run`: `executor`, `workers`, `device`."""
    minimise, maximise, subject = (
        _texts(what, given)
        for what, given in (("minimise", minimise), ("maximise", maximise), ("subject", subject))
    )
    goals = [(name, 1.0) for name in minimise] + [(name, -1.0) for name in maximise]
    if not goals:
        raise InvalidInput("say what to minimise or maximise: outputs of the study")
    for name, _ in goals:
        if name not in study.outputs:
            raise InvalidInput(f"there is no output '{name}'. {suggest(name, study.outputs, 'outputs')}")
    if isinstance(evaluations, bool) or not isinstance(evaluations, int) or evaluations < 10:
        raise InvalidInput(f"an optimisation needs ten evaluations at least, not {evaluations!r}")
    low, high, keys = bounds(study)
    limits = [one for text in subject for one in _limits(text, study)]
    tried: list[Floats] = []
    told: list[Answers] = []
    history: list[tuple[int, float]] = []
    hands = study.crew_of_search(**where)
    seen = _Evaluated(study, keys, goals, limits, hands)

    def evaluated(unit: Floats) -> tuple[Floats, Floats]:
        points = low + np.clip(unit, 0.0, 1.0) * (high - low)
        objectives, violations, answers = seen(points)
        tried.append(points)
        told.append(answers)
        if report is not None:
            report(sum(map(len, tried)), evaluations)
        return objectives, violations

    try:
        (_single if len(goals) == 1 else _several)(
            evaluated, len(keys), len(goals), len(limits), evaluations, study.seed, history
        )
    finally:
        hands.close()
    points, answers = np.concatenate(tried), joined(told)
    columns = {key: points[:, k] for k, key in enumerate(keys)}
    kept = Memory(study.layout._replace(parameters=columns))
    kept.begin(len(points))
    kept.write(0, columns, answers)
    return _chosen(seen, points, answers.outputs, history, Results(kept, study))


def _texts(what: str, given: Sequence[str]) -> list[str]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        raise InvalidInput(f'{what} is a list of texts, such as ["{given}"], not {given!r}')
    return list(given)


class _Evaluated:
    """Runs designs: objectives to make small, and by how much constraints are violated."""

    def __init__(self, study: Study, keys: list[str], goals: Any, limits: Any, hands: Crew) -> None:
        self.keys, self.goals = keys, goals
        self._work, self._names, self._limits, self._hands = study.work, study.layout.outputs, limits, hands

    def __call__(self, points: Floats) -> tuple[Floats, Floats, Answers]:
        columns = {key: points[:, k] for k, key in enumerate(self.keys)}
        answers = done_by(self._hands, self._work, columns)
        answers.outputs[answers.status == Status.FAILED] = np.nan
        return *self.judged(points, answers.outputs), answers

    def judged(self, points: Floats, outputs: Floats) -> tuple[Floats, Floats]:
        """Objectives and violations."""
        values = {name: outputs[:, k] for k, name in enumerate(self._names)}
        values |= {key: points[:, k] for k, key in enumerate(self.keys)}
        objectives = np.stack([sign * values[name] for name, sign in self.goals], axis=1)
        violations = (
            np.stack([np.broadcast_to(one(values), len(points)) for one in self._limits], axis=1)
            if self._limits
            else np.zeros((len(points), 0))
        )
        broken = ~np.isfinite(objectives).all(axis=1)
        objectives = np.where(broken[:, None], _BAD, objectives)
        violations = np.where(np.isfinite(violations), violations, _BAD)
        return objectives, np.maximum(violations, 0.0)


def bounds(study: Study) -> tuple[Floats, Floats, list[str]]:
    """The ranges in which a study varies numbers, and their names."""
    if study.points is None:
        raise InvalidInput("an optimisation needs ranges: a table of points has none")
    low, high, keys = [], [], []
    for key, one in study.points.parameters.items():
        if isinstance(one, Listed):
            if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in one.values):
                raise InvalidInput(f"'{key}' is no number: an optimisation varies numbers within ranges")
            ends = float(min(one.values)), float(max(one.values))
        else:
            a, b = one.ends if hasattr(one, "ends") else one.support()
            ends = float(a), float(b)
        if not (np.isfinite(ends).all() and ends[0] < ends[1]):
            raise InvalidInput(f"'{key}' has no range to look in: write {{ from = …, to = … }}")
        low.append(ends[0])
        high.append(ends[1])
        keys.append(key)
    return np.array(low), np.array(high), keys


def _limits(text: str, study: Study) -> list[Callable[[dict[str, Floats]], Floats]]:
    """By how much each comparison of a condition is violated: above 0 where it is. ``0.1 <= a <= 0.5`` and
    ``a <= 1 and b <= 2`` have two."""
    try:
        whole = parse(text)
    except ExpressionError as error:
        raise InvalidInput(f"'{text}' is no constraint: {error.reason}") from None
    known = [*study.outputs, *study.columns]
    for name in sorted(names(whole)):
        if name not in known:
            raise InvalidInput(
                f"'{text}': there is no output or parameter '{name}'. {suggest(name, known, 'names')}"
            )
    return [_violated(over) for over in _excesses(whole, text)]


def _excesses(condition: Expr, text: str) -> Iterator[Expr]:
    """What must not be above 0."""
    match condition:
        case Apply(Op.AND, parts):
            for part in parts:
                yield from _excesses(part, text)
        case Apply(Op.LE, (less, more)) | Apply(Op.GE, (more, less)) if not (_judges(less) or _judges(more)):
            yield Apply(Op.SUB, (less, more))
        case _:
            raise InvalidInput(
                f"'{text}' is no constraint: write a condition with <= or >=, as in \"travel <= 0.06\" or "
                '"0.01 <= travel <= 0.06"'
            )


def _judges(expr: Expr) -> bool:
    """Whether it is true or false: by how much it is violated is no question then."""
    return kind_of(expr, {}) is Kind.BOOLEAN


def _violated(excess: Expr) -> Callable[[dict[str, Floats]], Floats]:
    return lambda values: np.asarray(vectorised(excess, values), np.float64)


def _single(
    evaluated: Any,
    width: int,
    goals: int,
    limits: int,
    evaluations: int,
    seed: int,
    history: list[tuple[int, float]],
) -> None:
    cma = need("cma", "explore", "optimisation of one output")
    own, width = width, max(width, 2)  # it wants two dimensions: the second one of one means nothing
    population = 4 + int(3 * np.log(width)) * 2
    done, best, weight = 0, _BAD, 0.0
    restart = 0
    while done < evaluations:
        settings = {
            "bounds": [0.0, 1.0],
            "seed": seed + 1 + restart,
            "popsize": population * 2**restart,
            "verbose": -9,
            "tolfun": 1e-12,
            "tolx": 1e-8,
        }
        start = np.random.default_rng(seed + restart).random(width) if restart else np.full(width, 0.5)
        search = cma.CMAEvolutionStrategy(start, 0.3, settings)
        while not search.stop() and done < evaluations:
            unit = np.array(search.ask())
            objectives, violations = evaluated(unit[:, :own])
            done += len(unit)
            value, broken = objectives[:, 0], violations.sum(axis=1)
            usual = value[value < _BAD]
            weight = max(weight, 10.0 * float(np.ptp(usual)) if len(usual) > 1 else 1.0, 1e-12)
            scale = broken.max() or 1.0
            search.tell(unit, (value + weight * (broken > 0) + weight * broken / scale).tolist())
            good = value[broken == 0.0]
            best = min(best, float(good.min())) if len(good) else best
            history.append((done, best))
        restart += 1


def _several(
    evaluated: Any,
    width: int,
    goals: int,
    limits: int,
    evaluations: int,
    seed: int,
    history: list[tuple[int, float]],
) -> None:
    nsga2 = need("pymoo.algorithms.moo.nsga2", "explore", "a front of several outputs")
    problems = need("pymoo.core.problem", "explore", "a front of several outputs")
    evaluator = need("pymoo.core.evaluator", "explore", "a front of several outputs")
    static = need("pymoo.problems.static", "explore", "a front of several outputs")
    problem = problems.Problem(
        n_var=width, n_obj=goals, n_ieq_constr=limits, xl=np.zeros(width), xu=np.ones(width)
    )
    size = int(np.clip(evaluations // 20, 20, 200))
    search = nsga2.NSGA2(pop_size=size)
    search.setup(problem, seed=seed + 1, verbose=False)
    done = 0
    while done < evaluations:
        asked = search.ask()
        unit = asked.get("X")
        objectives, violations = evaluated(unit)
        done += len(unit)
        told = {"F": objectives} | ({"G": violations - (violations == 0.0) * 1e-9} if limits else {})
        evaluator.Evaluator().eval(static.StaticProblem(problem, **told), asked)
        search.tell(infills=asked)
        history.append((done, float(len(search.opt))))


def _chosen(seen: _Evaluated, points: Floats, outputs: Floats, history: Any, results: Results) -> Optimum:
    goals = seen.goals
    objectives, violations = seen.judged(points, outputs)
    broken = violations.sum(axis=1)
    usable = (objectives < _BAD).all(axis=1)
    if not usable.any():
        raise InvalidInput("all runs failed: there is nothing to choose from")
    feasible = usable & (broken <= 0.0)
    pool = np.flatnonzero(feasible if feasible.any() else usable & (broken == broken[usable].min()))
    front = pool[not_dominated(objectives[pool])]
    front = front[np.argsort(objectives[front, 0], kind="stable")]
    if len(goals) == 1:
        front = front[:1]
    signs = np.array([sign for _, sign in goals])
    return Optimum(
        tuple(seen.keys),
        tuple(name for name, _ in goals),
        points[front],
        objectives[front] * signs,
        outputs[front],
        tuple(history),
        points,
        outputs,
        bool(feasible.any()),
        results,
    )


def not_dominated(objectives: Floats) -> npt.NDArray[np.int64]:
    """The rows that no other is better than in everything: sorted by the first, then by sweeping."""
    order = np.lexsort(objectives.T[::-1])
    if objectives.shape[1] == 2:  # along the first, only what is less than all before in the second
        second = objectives[order, 1]
        before = np.minimum.accumulate(np.concatenate([[np.inf], second[:-1]]))
        return np.asarray(order[second < before], np.int64)
    kept: list[int] = []
    rows = np.empty_like(objectives)  # of those that are kept
    for i in order:
        row = objectives[i]
        if not (rows[: len(kept)] <= row).all(axis=1).any():  # one that is equal is there already
            rows[len(kept)] = row
            kept.append(int(i))
    return np.array(kept, np.int64)


def front(
    results: Results, minimise: Sequence[str] = (), maximise: Sequence[str] = ()
) -> npt.NDArray[np.int64]:
    """The runs of a study that no other is better than in everything."""
    minimise, maximise = _texts("minimise", minimise), _texts("maximise", maximise)
    goals = [(name, 1.0) for name in minimise] + [(name, -1.0) for name in maximise]
    if not goals:
        raise InvalidInput("say what to minimise or maximise: outputs of the study")
    values = np.stack([sign * np.asarray(results[name], np.float64) for name, sign in goals], axis=1)
    fine = np.flatnonzero(np.isfinite(values).all(axis=1) & ~results.failed)
    return fine[not_dominated(values[fine])]
