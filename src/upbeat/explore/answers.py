"""What the runs of a study say: what matters, how wide results are spread, whether a conclusion holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.records import dataclass
from upbeat.explore.sampling import Listed
from upbeat.explore.store import Results
from upbeat.trace.extras import need

if TYPE_CHECKING:
    from upbeat.explore.study import Study

Floats = npt.NDArray[np.float64]

# ----------------------------------------------------------------------------------------------------
# Sensitivity: by SALib, on points of the unit cube that the distributions of the study turn into values.


class Index(NamedTuple):
    """How much one parameter matters for one output, with half the width of its 95 % interval."""

    parameter: str
    first: float
    """Sobol: the share of the variance that it explains alone. Morris: the mean effect, with its sign."""
    total: float
    """Sobol: with all interactions. Morris: the mean size of the effect (mu*)."""
    first_width: float
    total_width: float
    spread: float = nan
    """Morris: the standard deviation of the effects: interactions, or no straight line."""


@dataclass(frozen=True)
class Sensitivity:
    """Indices by output, parameters that matter most first; and the runs behind them."""

    method: str
    indices: Mapping[str, tuple[Index, ...]]
    results: Results
    notes: tuple[str, ...] = ()

    def __getitem__(self, output: str) -> tuple[Index, ...]:
        if output not in self.indices:
            raise InvalidInput(f"there is no output '{output}'. {suggest(output, self.indices, 'outputs')}")
        return self.indices[output]


def sensitivity(
    study: Study, method: str = "sobol", samples: int = 256, out: Path | None = None, **running: Any
) -> Sensitivity:
    """Which parameters matter. `samples` are base samples: Sobol makes (parameters + 2) runs of each, Morris
    (parameters + 1). `out`: a store for these runs, which goes on after an interruption; `running` are the
    arguments of `Study.run`."""
    if method not in ("sobol", "morris"):
        raise InvalidInput(f'there is no method "{method}": take "sobol" or "morris"')
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2:
        raise InvalidInput(f"samples must be a whole number of at least 2, not {samples!r}")
    if method == "sobol" and samples & (samples - 1):
        above = 1 << samples.bit_length()
        raise InvalidInput(f"Sobol points are balanced in powers of 2: take {above // 2} or {above} samples")
    if study.points is None:
        raise InvalidInput("sensitivity needs distributions or ranges: a table of points has none")
    parameters = study.points.parameters
    if fixed := [key for key, one in parameters.items() if isinstance(one, Listed) and len(one.values) < 2]:
        raise InvalidInput(f"'{fixed[0]}' has one value only: it cannot matter; leave it out")
    if study.correlations:
        raise InvalidInput("these indices are for independent parameters: leave out correlations")
    names = list(parameters)
    problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
    sampler = need(f"SALib.sample.{method}", "explore", "sensitivity")
    analyzer = need(f"SALib.analyze.{method}", "explore", "sensitivity")
    if method == "sobol":
        points = sampler.sample(problem, samples, calc_second_order=False, seed=study.seed)
    else:
        points = sampler.sample(problem, samples, num_levels=8, seed=study.seed)
    inside = np.clip(points, 1e-9, 1.0 - 1e-9)  # ends of the cube are infinite for some distributions
    if method == "morris":  # which looks at the ends, as far away as they are: of 99 % of such a distribution
        for k, one in enumerate(parameters.values()):
            if not np.isfinite(one.ppf(np.array([0.0, 1.0])).astype(float)).all():
                inside[:, k] = 0.005 + 0.99 * points[:, k]
    values = {key: np.asarray(one.ppf(inside[:, k])) for k, (key, one) in enumerate(parameters.items())}
    results = replace(study.at(values), out=out).run(**running)
    notes = []
    found: dict[str, tuple[Index, ...]] = {}
    for output in results.outputs:
        y = np.asarray(results[output], np.float64)
        bad = ~np.isfinite(y)
        if bad.any():
            notes.append(
                f"{output}: {int(bad.sum())} of {len(y)} runs have no value; the mean of the others took "
                "its place"
            )
            y = np.where(bad, y[~bad].mean() if (~bad).any() else 0.0, y)
        if np.ptp(y) == 0.0:
            notes.append(f"{output}: is the same in all runs: nothing matters")
            found[output] = tuple(Index(name, 0.0, 0.0, 0.0, 0.0) for name in names)
            continue
        with np.errstate(all="ignore"):
            if method == "sobol":
                told = analyzer.analyze(problem, y, calc_second_order=False, seed=study.seed)
                rows = zip(names, told["S1"], told["ST"], told["S1_conf"], told["ST_conf"], strict=True)
                indices = [Index(*row) for row in rows]
            else:
                told = analyzer.analyze(problem, points, y, num_levels=8, seed=study.seed)
                widths = np.asarray(told["mu_star_conf"], float)
                rows = zip(names, told["mu"], told["mu_star"], widths, widths, told["sigma"], strict=True)
                indices = [Index(*row) for row in rows]
        loose = [one.parameter for one in indices if one.total_width > 0.1 * max(i.total for i in indices)]
        if loose:
            notes.append(
                f"{output}: the intervals of {', '.join(loose)} are wide: take more samples to tell them "
                "apart"
            )
        found[output] = tuple(sorted(indices, key=lambda one: -abs(one.total)))
    return Sensitivity(method, found, results, tuple(notes))


# ----------------------------------------------------------------------------------------------------
# Uncertainty: moments and quantiles, with how well they are known.


class Spread(NamedTuple):
    """How an output is spread: with the standard error of its mean, and 95 % intervals of its quantiles."""

    runs: int
    mean: float
    error: float
    """The standard error of the mean."""
    std: float
    quantiles: dict[float, tuple[float, float, float]]
    """By probability: the quantile, and its interval by order statistics; without an end where there are too
    few runs to tell."""
    halves: tuple[float, float]
    """The means of the first and of the second half: an estimate that has converged has them close."""

    @property
    def converged(self) -> bool:
        """Whether the two halves agree within what their errors allow."""
        return abs(self.halves[0] - self.halves[1]) <= 4.0 * self.error


PROBABILITIES = (0.05, 0.5, 0.95)


def uncertainty(results: Results, probabilities: Sequence[float] = PROBABILITIES) -> dict[str, Spread]:
    """How the outputs of a study are spread, over the runs that came to their end."""
    for one in probabilities:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not 0.0 < one < 1.0:
            raise InvalidInput(f"a probability is a number between 0 and 1, not {one!r}")
    done = ~results.failed
    found = {}
    for output in results.outputs:
        values = np.asarray(results[output], np.float64)[done]
        values = values[np.isfinite(values)]
        found[output] = _spread(output, values, probabilities)
    return found


def _spread(output: str, values: Floats, probabilities: Sequence[float]) -> Spread:
    count = len(values)
    if count < 2:
        said = "no run has" if count == 0 else "one run has"
        raise InvalidInput(f"{said} a value of '{output}': a spread needs two at least")
    ranked = np.concatenate([[-inf], np.sort(values), [inf]])  # too few runs do not bound a quantile
    stats = need("scipy.stats", "explore", "intervals of quantiles")
    quantiles = {}
    for p in probabilities:
        low, high = stats.binom.ppf([0.025, 0.975], count, p)  # of the order statistics around it
        quantiles[p] = float(np.quantile(values, p)), float(ranked[int(low)]), float(ranked[int(high) + 1])
    std = float(values.std(ddof=1))
    half = count // 2
    return Spread(
        count,
        float(values.mean()),
        std / count**0.5,
        std,
        quantiles,
        (float(values[:half].mean()), float(values[half:].mean())),
    )


def bands(results: Results, signal: str, probabilities: Sequence[float] = PROBABILITIES) -> Floats:
    """Quantiles of a signal at each time: a row for each probability. Reads a store a few times at a time."""
    done = ~results.failed
    values = np.asarray(results[signal])[done]
    return np.asarray(np.nanquantile(values, probabilities, axis=0))


# ----------------------------------------------------------------------------------------------------
# Does my conclusion depend on the step size?


class Compared(NamedTuple):
    """A study with another master, beside the study itself."""

    change: float
    """The greatest change of an output, as a part of its spread over the designs."""
    ranks: float
    """The rank correlation of the outputs of all designs."""
    same_best: bool
    """Whether the designs with the least and with the greatest value, whichever is best, still are these, or
    within 1 % of the spread of them."""
    lost: int
    """Designs that have a value with one of both masters only."""


@dataclass(frozen=True)
class Robustness:
    """Whether a conclusion holds with other masters, by output and by master."""

    compared: Mapping[str, Mapping[str, Compared]]
    results: Mapping[str, Results]

    def holds(self, output: str) -> bool:
        """Whether the order of designs and the best one are the same with all masters."""
        return all(
            one.same_best and one.ranks > 0.99 and not one.lost for one in self.compared[output].values()
        )


def robustness(
    study: Study, masters: Mapping[str, Mapping[str, Any]] | None = None, **running: Any
) -> Robustness:
    """The same study with other masters: settings such as ``{"half": {"master.step": 0.005}}``; without, with
    half and a quarter of the step."""
    if masters is None:
        from upbeat.master.paces.pace import nominal_step

        step = nominal_step(study.experiment.master.pace)
        if not step or not isfinite(step):
            raise InvalidInput("this pace has no step to halve: say which masters to compare")
        masters = {"step/2": {"master.step": step / 2}, "step/4": {"master.step": step / 4}}
    from upbeat.explore.work import with_settings

    for name, settings in masters.items():
        if not isinstance(settings, Mapping):
            raise InvalidInput(f"'{name}' is a table of settings such as {{ \"master.step\" = 0.001 }}")
        if twice := sorted(settings.keys() & study.columns.keys()):
            raise InvalidInput(f"'{twice[0]}' varies in the study: '{name}' cannot set it, too")
    own = study.run(**running)
    everything = {"as it is": own}
    for name, settings in masters.items():
        changed = replace(study, experiment=with_settings(study.experiment, settings), out=None)
        everything[name] = changed.run(**running)
    compared = {
        output: {name: _compared(own, everything[name], output) for name in masters} for output in own.outputs
    }
    return Robustness(compared, everything)


def _compared(one: Results, other: Results, output: str) -> Compared:
    base, changed = (np.asarray(results[output], np.float64) for results in (one, other))
    known = np.isfinite(base), np.isfinite(changed)
    both = known[0] & known[1]
    a, b = base[both], changed[both]
    lost = int((known[0] != known[1]).sum())
    if len(a) < 2:
        return Compared(nan, nan, same_best=False, lost=lost)
    spreads = [float(np.ptp(v)) if np.ptp(v) > 1e-12 * np.abs(v).max() else 0.0 for v in (a, b)]
    spread = max(spreads) or 1.0
    ranks = 1.0 if not any(spreads) else 0.0  # all designs the same: with both, or with one of both
    if all(spreads):
        ranks = float(need("scipy.stats", "explore", "comparing masters").spearmanr(a, b)[0])
    same = bool(max(b[a.argmin()] - b.min(), b.max() - b[a.argmax()]) <= 0.01 * spread)
    return Compared(float(np.abs(a - b).max()) / spread, ranks, same, lost)
