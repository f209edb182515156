"""Calibration: the parameters that come closest to what was measured, and how well they are known.

Nonlinear least squares (scipy) on residuals at the measured times. Derivatives go through the equations of
units where there are some. Otherwise they are differences, with steps chosen by the noise that the runs
themselves have; all runs of one are a chunk in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, nan
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, check_type, suggest
from upbeat.core.records import dataclass
from upbeat.engine.experiment import Experiment
from upbeat.explore.executors import Crew, crew_of_search, done_by
from upbeat.explore.gradients import with_tangents
from upbeat.explore.work import Status, Work
from upbeat.trace.extras import need
from upbeat.trace.trace import Trace, read

Floats = npt.NDArray[np.float64]
LOSSES = ("linear", "soft_l1", "huber", "cauchy", "arctan")
_STARTS = 8
"""So many points for each parameter are looked at for a start."""
_CLOSE = 1e-3
"""Gradients through equations that are no closer than this to differences are of something else: a kink."""
_NOISE_POINTS = 6
"""So many runs close together show how smooth results are."""


class Measured(NamedTuple):
    """One experiment and what was measured in it: a trace (or a file of one), and which of its columns are
    which signals.

    `sigma` is the standard deviation of the noise of each signal; without, its range.
    """

    experiment: Experiment
    data: Trace
    signals: Mapping[str, str]
    sigma: Mapping[str, float]


class Estimate(NamedTuple):
    """A parameter: its value, standard error and 95 % interval."""

    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """What was found.

    `residuals` has for each experiment and signal the measured times, the measured and the simulated values.
    `notes` say what is doubtful: parameters that cannot be told apart, that lie at a bound, a fit that did
    not converge.
    """

    estimates: Mapping[str, Estimate]
    correlation: Floats
    cost: float
    rms: float
    """Of the residuals, in units of sigma: about 1 where the model can explain the data up to its noise.
    Without sigma it is a part of the range of each signal."""
    residuals: tuple[tuple[str, Floats, Floats, Floats], ...]
    converged: bool
    evaluations: int
    notes: tuple[str, ...]
    known: bool = False
    """Whether it was said how large the noise is: sigma."""
    gradients: str = "differences"
    """Where derivatives came from: ``"equations"`` of the units, or ``"differences"`` of runs."""

    @property
    def values(self) -> dict[str, float]:
        """The parameters, ready for `Experiment.with_values`."""
        return {name: one.value for name, one in self.estimates.items()}


def calibrate(
    experiments: Experiment | Sequence[Experiment],
    measured: Any,
    parameters: Mapping[str, Sequence[float]],
    signals: Mapping[str, str] | Sequence[str] | None = None,
    sigma: Mapping[str, float] | float | None = None,
    loss: str = "linear",
    **where: Any,
) -> Calibration:
    """Fit `parameters` (names with their bounds, or with bounds and a first guess) to measurements. Where no
    guess is given, the search begins with the best of a few points between the bounds.

    `measured`: a trace, a file (CSV with a column ``time``) or several, one for each experiment. `signals`:
    what is compared, ``{"motor.w": "speed"}`` with the names of the columns; without, all signals that have
    the name of a column. `sigma` is the standard deviation of their noise; without, signals count by the
    residuals of a first fit. `loss` is that of `scipy.optimize.least_squares`, for outliers. `where`:
    `executor` and `workers` as for `Study.run`; by default runs stay in this process.
    """
    if loss not in LOSSES:
        raise InvalidInput(f"there is no loss {loss!r}. {suggest(str(loss), LOSSES, 'losses')}")
    pairs = _paired(experiments, measured, signals, sigma)
    names, low, high, guess = _bounded(parameters)
    model = _Model(pairs, names, low, high, where)
    try:
        model.check()
        return _fitted(model, low, high, guess, loss, known=sigma is not None)
    finally:
        model.close()


def _fitted(
    model: _Model, low: Floats, high: Floats, guess: Floats, loss: str, *, known: bool
) -> Calibration:
    scale = high - low
    guess = _first(model, low, high, guess)
    first = model(guess[None, :])[0]
    if not np.isfinite(first).all():
        raise InvalidInput(
            f"the run with the first guess failed: {model.reason}. Give another guess, or other bounds"
        )
    steps = _steps(model, guess, low, high, first)
    optimise = need("scipy.optimize", "explore", "calibration")

    def residuals(unit: Floats) -> Floats:
        found = model(low + unit[None, :] * scale)[0]
        return np.where(np.isfinite(found), found, 1e6)

    def jacobian(unit: Floats) -> Floats:
        return model.jacobian(low + unit * scale, steps, low, high) * scale

    def searched(begin: Floats) -> Any:
        return optimise.least_squares(
            residuals,
            (begin - low) / scale,
            jac=jacobian,
            bounds=(0.0, 1.0),
            loss=loss,
            x_scale="jac",
            xtol=1e-10,
            ftol=1e-10,
        )

    told = searched(guess)
    if not known and (loss != "linear" or model.kinds > 1):
        # Ranges are no measure of noise: signals count, and outliers are told, by the residuals of this fit.
        for _ in range(2):
            model.weigh(model((low + told.x * scale)[None, :])[0], robust=loss != "linear")
            told = searched(low + told.x * scale)
    best = low + told.x * scale
    final = model(best[None, :])[0]
    found = _Found(best, final, model.jacobian(best, steps, low, high), told, loss)
    return _judged(found, model, low, high, known=known)


def _first(model: _Model, low: Floats, high: Floats, guess: Floats) -> Floats:
    """Where to begin: least squares find the nearest valley, so the best of some points is a better start
    than the middle. What was given as a guess stays."""
    free = np.isnan(guess)
    middle = np.where(free, 0.5 * (low + high), guess)
    if not free.any():
        return middle
    qmc = need("scipy.stats.qmc", "explore", "calibration")
    points = np.tile(middle, (1 + _STARTS * int(free.sum()), 1))
    spread = qmc.Halton(int(free.sum()), scramble=False).random(len(points))[1:]
    points[1:, free] = low[free] + spread * (high - low)[free]
    costs = (model(points) ** 2).sum(axis=1)
    return points[int(np.nanargmin(costs))] if np.isfinite(costs).any() else middle


def _paired(experiments: Any, measured: Any, signals: Any, sigma: Any) -> list[Measured]:
    listed = list(experiments) if isinstance(experiments, (list, tuple)) else [experiments]
    for one in listed:
        check_type(one, Experiment, "the experiment of a calibration")
    data = list(measured) if isinstance(measured, (list, tuple)) else [measured]
    if len(listed) == 1 and len(data) > 1:
        listed = listed * len(data)
    if len(listed) != len(data) or not listed:
        raise InvalidInput(
            f"there are {len(listed)} experiments and {len(data)} measurements: they go in pairs"
        )
    found = []
    for experiment, one in zip(listed, data, strict=True):
        trace = one if isinstance(one, Trace) else read(Path(one))
        known = experiment.plan.program.columns
        if signals is None:
            chosen = {name: name for name in trace.names if name in known}
        else:
            if not isinstance(signals, (Mapping, list, tuple)):
                raise InvalidInput(
                    'signals are a list of names, or names with their columns: {"motor.w": "speed"}, not '
                    f"{signals!r}"
                )
            chosen = dict(signals) if isinstance(signals, Mapping) else {name: name for name in signals}
        if not chosen:
            raise InvalidInput(
                "no column of the measurement has the name of a signal: say which is which, "
                'signals={"motor.w": "speed"}'
            )
        for signal, column in chosen.items():
            if signal not in known:
                raise InvalidInput(f"there is no signal '{signal}'. {suggest(signal, known, 'signals')}")
            if column not in trace:
                raise InvalidInput(
                    f"the measurement has no column '{column}'. {suggest(column, trace.names, 'columns')}"
                )
        span = experiment.span
        if trace.time[0] < span.start - 1e-12 or trace.time[-1] > span.stop + 1e-12:
            raise InvalidInput(
                f"the measurement goes from {trace.time[0]:g} to {trace.time[-1]:g} s, but the run from "
                f"{span.start:g} to {span.stop:g} s: run it as long as that"
            )
        if isinstance(sigma, Mapping):
            for signal in sigma:
                if signal not in chosen:
                    hint = suggest(str(signal), chosen, "signals that are compared")
                    raise InvalidInput(f"sigma is given for '{signal}', which is not compared. {hint}")
            if missing := [signal for signal in chosen if signal not in sigma]:
                raise InvalidInput(
                    f"sigma of '{missing[0]}' is missing: say how large the noise of every signal is, or "
                    "of none"
                )
        widths = {}
        for signal, column in chosen.items():
            given = sigma.get(signal) if isinstance(sigma, Mapping) else sigma
            values = np.asarray(trace[column], np.float64)
            if given is not None and (not isinstance(given, (int, float)) or not 0.0 < given < inf):
                raise InvalidInput(f"sigma of '{signal}' must be a number above 0, not {given!r}")
            known_values = values[np.isfinite(values)]
            if not len(known_values):
                raise InvalidInput(f"the column '{column}' of the measurement has no numbers")
            widths[signal] = float(given) if given is not None else float(np.ptp(known_values)) or 1.0
        found.append(Measured(experiment, trace, chosen, widths))
    return found


def _bounded(parameters: Mapping[str, Sequence[float]]) -> tuple[list[str], Floats, Floats, Floats]:
    low, high, guess = [], [], []
    if not parameters:
        raise InvalidInput('say which parameters to find: parameters={"motor.J": (0.1, 10)}')
    for name, bounds in parameters.items():
        listed = list(bounds) if isinstance(bounds, (list, tuple, np.ndarray)) else []
        numbers = [float(one) for one in listed if isinstance(one, Real) and not isinstance(one, bool)]
        if (
            len(numbers) != len(listed)
            or len(numbers) not in (2, 3)
            or not (-inf < numbers[0] < numbers[1] < inf)
        ):
            raise InvalidInput(f"'{name}' needs bounds (low, high), or (low, high, guess), not {bounds!r}")
        low.append(numbers[0])
        high.append(numbers[1])
        guess.append(numbers[2] if len(numbers) == 3 else nan)
        if len(numbers) == 3 and not numbers[0] <= guess[-1] <= numbers[1]:
            raise InvalidInput(f"the guess {guess[-1]:g} of '{name}' lies outside its bounds")
    return list(parameters), np.array(low), np.array(high), np.array(guess)


class _Model:
    """Residuals for many points at once: each is one run of each experiment, all in the core."""

    def __init__(
        self,
        pairs: Sequence[Measured],
        names: Sequence[str],
        low: Floats,
        high: Floats,
        where: Mapping[str, Any],
    ) -> None:
        self.pairs = pairs
        self.count = 0
        self.reason = ""
        self._works: list[Work] = []
        self._tangents: list[Work] | None = []
        self.layout: list[tuple[int, str, Floats, Floats]] = []
        for number, one in enumerate(pairs):
            times = np.unique(np.asarray(one.data.time, np.float64))
            inside = np.clip(times, one.experiment.span.start, one.experiment.span.stop)
            samples = {name: (float(low[k]), float(high[k])) for k, name in enumerate(names)}
            work = Work(one.experiment, samples, {}, {}, tuple(one.signals), tuple(inside.tolist()), 0)
            self._works.append(work)
            self._tangents = _tangents_beside(self._tangents, work, names)
            for signal, column in one.signals.items():
                values = one.data.at(times, column)
                self.layout.append((number, signal, times, np.asarray(values, np.float64)))
        self.names = list(names)
        self._where = where
        self._hands: list[Crew] = []
        self._hands_of_tangents: list[Crew] = []
        self._checked = False
        self.given = [pairs[number].sigma[signal] for number, signal, _, _ in self.layout]
        self.sigmas = self.given

    @property
    def kinds(self) -> int:
        """How many signals there are; the same one in several experiments is one."""
        return len({signal for _, signal, _, _ in self.layout})

    def weigh(self, residuals: Floats, *, robust: bool) -> None:
        """Let each signal count by the size of its residuals, which is its noise where the model is right.
        `robust`: outliers do not count for it."""
        parts = np.split(residuals, np.cumsum([len(times) for _, _, times, _ in self.layout])[:-1])
        by_signal: dict[str, list[Floats]] = {}
        for (_, signal, _, measured), part, sigma in zip(self.layout, parts, self.sigmas, strict=True):
            by_signal.setdefault(signal, []).append(part[np.isfinite(measured)] * sigma)
        share = max(0.5, 1.0 - len(self.names) / max(1, sum(map(len, parts))))  # parameters fit some noise
        widths = {}
        for signal, each in by_signal.items():
            own = np.concatenate(each)
            size = 1.4826 * np.median(np.abs(own)) if robust else np.sqrt(np.mean(own * own) / share)
            least = 1e-9 * max(
                given
                for given, (_, name, _, _) in zip(self.given, self.layout, strict=True)
                if name == signal
            )
            widths[signal] = max(float(size), least)  # data without noise are no reason to divide by nothing
        self.sigmas = [widths[signal] for _, signal, _, _ in self.layout]

    def spread(self, sigmas: Sequence[float]) -> Floats:
        """One for each residual."""
        return np.repeat(sigmas, [len(times) for _, _, times, _ in self.layout])

    def check(self) -> None:
        """Names of parameters."""
        for work in self._works:
            work.check()
        self._hands = [crew_of_search(work, **self._where) for work in self._works]
        if self._tangents is not None:
            self._hands_of_tangents = [crew_of_search(work, **self._where) for work in self._tangents]

    def close(self) -> None:
        """No more runs."""
        for one in (*self._hands, *self._hands_of_tangents):
            one.close()

    def simulated(self, points: Floats) -> list[Floats]:
        """For each signal of each experiment, points × times."""
        self.count += len(points)
        columns = {name: points[:, k] for k, name in enumerate(self.names)}
        found: list[Floats] = []
        for work, hands in zip(self._works, self._hands, strict=True):
            answers = done_by(hands, work, columns)
            samples = np.where((answers.status == Status.FAILED)[:, None, None], np.nan, answers.samples)
            self.reason = next((reason for reason in answers.reasons if reason), "")
            found += [samples[:, :, k] for k in range(samples.shape[2])]
        return found

    def __call__(self, points: Floats) -> Floats:
        """Residuals, a row for each point; what was not measured at a time counts nothing."""
        parts = []
        for (*_, measured), sigma, values in zip(
            self.layout, self.sigmas, self.simulated(points), strict=True
        ):
            part = (values - measured) / sigma
            parts.append(np.where(np.isfinite(measured), part, 0.0))
        return np.concatenate(parts, axis=1)

    def jacobian(self, at: Floats, steps: Floats, low: Floats, high: Floats) -> Floats:
        """Through the equations of units where there are some, which differences have confirmed once."""
        found = self._through_equations(at)
        if found is None or not self._checked:
            by_differences = self._differences(at, steps, low, high)
            if found is None or not self._confirmed(found, by_differences):
                self._tangents = None
                return by_differences
            self._checked = True
        return found

    @property
    def through_equations(self) -> bool:
        """Whether derivatives went through the equations of units."""
        return self._tangents is not None and self._checked

    def _through_equations(self, at: Floats) -> Floats | None:
        """One run of each experiment with tangents."""
        if self._tangents is None:
            return None
        columns = {name: at[None, k] for k, name in enumerate(self.names)}
        self.count += 1
        parts: list[Floats] = []
        for work, hands in zip(self._tangents, self._hands_of_tangents, strict=True):
            answers = done_by(hands, work, columns)
            if answers.status[0] == Status.FAILED:
                return None
            samples = answers.samples[0]
            parts += np.split(samples, samples.shape[1] // len(at), axis=1)
        scaled = [part / sigma for part, sigma in zip(parts, self.sigmas, strict=True)]
        measured = np.concatenate([values for *_, values in self.layout])
        rows = np.where(np.isfinite(measured)[:, None], np.concatenate(scaled), 0.0)
        return rows if np.isfinite(rows).all() else None

    def _confirmed(self, found: Floats, by_differences: Floats) -> bool:
        apart = np.linalg.norm(found - by_differences, axis=0)
        return bool((apart <= _CLOSE * np.linalg.norm(found, axis=0) + 1e-9).all())

    def _differences(self, at: Floats, steps: Floats, low: Floats, high: Floats) -> Floats:
        """Central differences, one-sided at a bound; all runs at once."""
        up, down = np.minimum(at + steps, high), np.maximum(at - steps, low)
        points = []
        for k in range(len(at)):
            for end in (up, down):
                point = at.copy()
                point[k] = end[k]
                points.append(point)
        found = self(np.array(points))
        width = up - down
        made = np.stack([(found[2 * k] - found[2 * k + 1]) / width[k] for k in range(len(at))], axis=1)
        return np.where(np.isfinite(made), made, 0.0)


def _tangents_beside(found: list[Work] | None, work: Work, names: Sequence[str]) -> list[Work] | None:
    """The runs of another experiment with tangents beside those that are there; None: not all have them."""
    tangents = None if found is None else with_tangents(work.experiment, names)
    signals = None if tangents is None else tangents.of(work.signals)
    if found is None or tangents is None or signals is None:
        return None
    return [*found, Work(tangents.experiment, work.samples, {}, {}, signals, work.grid)]


def _steps(model: _Model, at: Floats, low: Floats, high: Floats, first: Floats) -> Floats:
    """The steps of differences. Results of a few runs close together differ by their noise (of solvers with
    tolerances, of events); a central difference is best where that and its own error are alike (Moré and
    Wild's table of differences)."""
    scale = high - low
    chosen = np.empty(len(at))
    points = []
    for k in range(len(at)):
        spacing = 1e-9 * scale[k]
        for i in range(_NOISE_POINTS):
            point = at.copy()
            point[k] = np.clip(at[k] + (i - _NOISE_POINTS / 2) * spacing, low[k], high[k])
            points.append(point)
    values = model(np.array(points))
    size = float(np.sqrt(np.mean(first * first))) + 1e-300
    for k in range(len(at)):
        rows = values[k * _NOISE_POINTS : (k + 1) * _NOISE_POINTS]
        noise = np.inf
        differences, factor = rows, 1.0
        for order in range(1, _NOISE_POINTS - 1):
            differences = np.diff(differences, axis=0)
            factor *= order / (2.0 * (2 * order - 1))  # (k!)² / (2k)!
            level = (
                float(np.sqrt(factor * np.nanmean(differences**2)))
                if np.isfinite(differences).any()
                else 1e-8
            )
            noise = min(noise, level)
        relative = max(noise / size, 1e-16)
        chosen[k] = float(np.clip(relative ** (1 / 3), 1e-6, 1e-2)) * scale[k]
    return chosen


class _Found(NamedTuple):
    """Where a search ended."""

    best: Floats
    residuals: Floats
    derivative: Floats
    """Of the residuals, by the parameters."""
    search: Any
    """What SciPy says of it."""
    loss: str


_RISES: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "linear": lambda z: (np.ones_like(z), np.zeros_like(z)),
    "soft_l1": lambda z: ((1 + z) ** -0.5, -0.5 * (1 + z) ** -1.5),
    "huber": lambda z: (
        np.where(z <= 1, 1.0, np.maximum(z, 1.0) ** -0.5),
        np.where(z <= 1, 0.0, -0.5 * np.maximum(z, 1.0) ** -1.5),
    ),
    "cauchy": lambda z: (1 / (1 + z), -1 / (1 + z) ** 2),
    "arctan": lambda z: (1 / (1 + z * z), -2 * z / (1 + z * z) ** 2),
}
"""The first and second derivatives of the losses of SciPy, by the squares of residuals."""


def _variance(residuals: Floats, loss: str, free: int) -> float:
    """Of the noise, as it counts for the parameters: with a loss for outliers that of Huber's estimators, in
    which they count as little as in the fit."""
    first, second = _RISES[loss](residuals * residuals)
    pull = residuals * first
    bend = float(np.mean(first + 2.0 * residuals * residuals * second))
    return float(pull @ pull) / free / max(bend, 1e-3) ** 2


def _judged(found: _Found, model: _Model, low: Floats, high: Floats, *, known: bool) -> Calibration:
    """How well the parameters are known: by the derivatives of residuals at the best point. `known`: how
    large the noise is."""
    best, final, derivative, told, loss = found
    names = model.names
    stats = need("scipy.stats", "explore", "confidence intervals")
    there = np.concatenate([np.isfinite(measured) for _, _, _, measured in model.layout])
    count = int(there.sum())
    free = count - len(best)
    notes: list[str] = []
    if free > 0:
        variance, quantile = _variance(final[there], loss, free), float(stats.t.ppf(0.975, free))
    elif known:
        variance, quantile = 1.0, float(stats.norm.ppf(0.975))
    else:
        variance, quantile = inf, 1.0
        notes.append(
            "no more was measured than there are parameters: these fit any noise, too, and how well they "
            "are known cannot be told. Measure more, or say how large the noise is (sigma)"
        )
    scaled = derivative * (high - low)
    lost = np.zeros((max(0, len(best) - len(scaled)), len(best)))  # of parameters, fewer data show less
    _, values, right = np.linalg.svd(np.concatenate([scaled, lost]), full_matrices=False)
    weak = values < 1e-8 * (values[0] if len(values) and values[0] > 0 else 1.0)
    inverse = (right.T / np.where(weak, np.inf, values) ** 2) @ right
    shape = inverse * np.outer(high - low, high - low)  # of the covariance
    blind = np.zeros(len(best), bool)
    for direction in right[weak]:
        involved = np.abs(direction) > 0.1
        blind |= involved
        some = [name for name, part in zip(names, involved, strict=True) if part]
        if len(some) == 1:
            notes.append(
                f"'{some[0]}' cannot be found from these data: nothing that was measured depends on it"
            )
        else:
            notes.append(
                f"{' and '.join(some)} cannot be told apart by these data: only a combination of them shows"
            )
    errors = np.where(blind, inf, np.sqrt(np.maximum(np.diag(shape), 0.0)))
    with np.errstate(all="ignore"):
        correlation = shape / np.outer(errors, errors)
    errors = errors * np.sqrt(variance)
    width = quantile * errors
    for i in range(len(best)):
        for k in range(i):
            if np.isfinite(correlation[i, k]) and abs(correlation[i, k]) > 0.98:
                both = f"{names[k]} and {names[i]}"
                notes.append(f"{both} are hard to tell apart: their correlation is {correlation[i, k]:.3f}")
        if min(best[i] - low[i], high[i] - best[i]) < 1e-6 * (high[i] - low[i]):
            notes.append(f"'{names[i]}' lies at a bound ({best[i]:.6g}): the best value may be beyond it")
    if not told.success:
        notes.append(f"the search did not converge: {told.message}")
    shown = final * model.spread(model.sigmas) / model.spread(model.given)
    rms = float(np.sqrt(shown @ shown / max(count, 1)))
    # What a loss for outliers makes count little is nothing that the model has to explain.
    usual = rms if loss == "linear" else 1.4826 * float(np.median(np.abs(shown[there])))
    if not known and usual > 0.1:
        notes.append(
            f"the residuals are {100.0 * usual:.0f} % of the range of the measurements: the model does not "
            "explain them, or the search has ended in a valley that is not the deepest: give another guess, "
            "or say how large the noise is (sigma)"
        )
    if known and usual > 2.0:
        notes.append(f"the residuals are {usual:.1f} times the noise: the model does not explain the data")
    simulated = model.simulated(best[None, :])
    residuals = tuple(
        (f"{signal}" if len(model.pairs) == 1 else f"{signal} ({number + 1})", times, measured, values[0])
        for (number, signal, times, measured), values in zip(model.layout, simulated, strict=True)
    )
    estimates = {
        name: Estimate(float(best[i]), float(errors[i]), float(best[i] - width[i]), float(best[i] + width[i]))
        for i, name in enumerate(names)
    }
    return Calibration(
        estimates,
        correlation,
        float(told.cost),
        rms,
        residuals,
        bool(told.success),
        model.count,
        tuple(notes),
        known,
        "equations" if model.through_equations else "differences",
    )
