"""The points of a study: grids, lists, tables, random and quasi-random samples of distributions."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite, prod
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import FileProblem, InvalidInput, cannot_read, suggest
from upbeat.core.records import dataclass
from upbeat.trace.extras import need

Column = npt.NDArray[Any]
"""The values of one parameter, run by run: numbers, or texts and whatever else settings take."""

MOST = 100_000_000
"""So many runs a study has at most: of more, nobody could keep the results."""

SETTINGS = ("master.", "run.")
"""What the names of settings begin with; all others are of units."""

DESIGNS = {
    "grid": "every value with every other",
    "together": "lists of equal length, value by value",
    "random": "random samples",
    "sobol": "a scrambled Sobol' sequence",
    "halton": "a scrambled Halton sequence",
    "latin_hypercube": "a Latin hypercube",
}
"""How points are chosen, by name."""


# ----------------------------------------------------------------------------------------------------
# What one parameter may be.


@dataclass(frozen=True)
class Listed:
    """These values, one after the other."""

    values: tuple[Any, ...]

    def ppf(self, u: npt.NDArray[np.float64]) -> Column:
        """One of them, all equally likely."""
        place = np.minimum((u * len(self.values)).astype(np.int64), len(self.values) - 1)
        return np.array(self.values)[place]


@dataclass(frozen=True)
class Spread:
    """A distribution by name, with the numbers that it takes."""

    name: str
    numbers: tuple[float, ...]

    def ppf(self, u: npt.NDArray[np.float64]) -> Column:
        """The quantiles."""
        found: Column = _DISTRIBUTIONS[self.name][1](*self.numbers).ppf(u)
        return found

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value; infinite where there is none."""
        low, high = _DISTRIBUTIONS[self.name][1](*self.numbers).support()
        return float(low), float(high)


def _stats() -> Any:
    return need("scipy.stats", "explore", "sampling a distribution")


def _triangular(low: float, mode: float, high: float) -> Any:
    return _stats().triang((mode - low) / (high - low), low, high - low)


def _truncated(mean: float, std: float, low: float, high: float) -> Any:
    return _stats().truncnorm((low - mean) / std, (high - mean) / std, mean, std)


_DISTRIBUTIONS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "uniform": (("low", "high"), lambda low, high: _stats().uniform(low, high - low)),
    "loguniform": (("low", "high"), lambda low, high: _stats().loguniform(low, high)),
    "normal": (("mean", "std"), lambda mean, std: _stats().norm(mean, std)),
    "lognormal": (("median", "sigma"), lambda median, sigma: _stats().lognorm(sigma, 0.0, median)),
    "triangular": (("low", "mode", "high"), _triangular),
    "truncated_normal": (("mean", "std", "low", "high"), _truncated),
    "beta": (("a", "b", "low", "high"), lambda a, b, low, high: _stats().beta(a, b, low, high - low)),
}
"""The distributions that a file can name, what their numbers are, and the one of scipy.stats."""

_RISING = {"low", "mode", "high"}
_POSITIVE = {"std", "sigma", "median", "a", "b"}


def varied(key: str, given: Any) -> Any:
    """What `given` says about a parameter: `Listed`, `Spread`, or a frozen distribution of scipy.stats."""
    if hasattr(given, "ppf"):
        return _frozen(key, given)
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, (list, tuple, range)):
        if not given:
            raise InvalidInput(f"'{key}': the list of values is empty")
        if (odd := _odd(key, given)) is not None:
            raise InvalidInput(
                f"'{key}': value {odd + 1} is {given[odd]!r}, which is no number as others of it are"
            )
        return Listed(tuple(given))
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"'{key}' must be a list of values, a range such as {{ from = 1, to = 2, count = 5 }}, or a "
            "distribution such as "
            f"{{ uniform = [1, 2] }}, not {given!r}"
        )
    if "from" in given or "to" in given:
        return _ranged(key, given)
    return _spread(key, given)


def _frozen(key: str, given: Any) -> Any:
    """A distribution of scipy.stats, with all that it needs."""
    try:
        value = np.asarray(given.ppf(np.array([0.5])))
        known = value.shape == (1,) and np.isfinite(value).all()
    except (TypeError, ValueError):
        known = False
    if not known:
        raise InvalidInput(
            f"'{key}': this distribution has no values: it needs numbers, as in "
            "scipy.stats.gamma(2.0, scale=0.1)"
        )
    return given


def _odd(key: str, values: Sequence[Any]) -> int | None:
    """The place of a value that is no number, where others are: no unit takes both."""
    if key.startswith(SETTINGS):
        return None
    numbers = [isinstance(one, Real) for one in values]
    if not any(numbers):
        return None
    return next((k for k, one in enumerate(values) if not numbers[k] or not isfinite(one)), None)


def says_range(table: Mapping[str, Any]) -> bool:
    """Whether a table describes the values of one parameter, and is not a table of parameters."""
    return bool(table.keys() & {"from", "to", *_DISTRIBUTIONS}) or not any(
        isinstance(v, (Mapping, list)) for v in table.values()
    )


def _ranged(key: str, given: Mapping[str, Any]) -> Any:
    known = ("from", "to", "count", "spaced")
    for name in given:
        if name not in known:
            raise InvalidInput(f"'{key}': a range has no '{name}'. {suggest(name, known, 'keys')}")
    low, high = (_number(key, given.get(end), end) for end in ("from", "to"))
    spaced = given.get("spaced", "evenly")
    if spaced not in ("evenly", "log"):
        raise InvalidInput(f'\'{key}\': spaced is "evenly" or "log", not {spaced!r}')
    if spaced == "log" and not (low > 0.0 and high > 0.0):
        raise InvalidInput(
            f"'{key}': a range spaced by logarithms needs ends above 0, not {low:g} and {high:g}"
        )
    if "count" not in given:
        return Spread("uniform" if spaced == "evenly" else "loguniform", _ends(key, low, high))
    count = given["count"]
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInput(f"'{key}': count must be a whole number of at least 1, not {count!r}")
    if count > MOST:
        raise InvalidInput(f"'{key}' would take {count:,} values: a study has at most {MOST:,} runs")
    space = np.linspace if spaced == "evenly" else np.geomspace
    return Listed(tuple(space(low, high, count).tolist()))


def _ends(key: str, low: float, high: float) -> tuple[float, float]:
    if not low < high:
        raise InvalidInput(
            f"'{key}': a range goes from a smaller to a greater value, not from {low:g} to {high:g}"
        )
    return low, high


def _spread(key: str, given: Mapping[str, Any]) -> Spread:
    if len(given) != 1:
        raise InvalidInput(
            f"'{key}': name one distribution, as in {{ normal = [10, 0.5] }}, not {dict(given)!r}"
        )
    ((name, numbers),) = given.items()
    if name not in _DISTRIBUTIONS:
        raise InvalidInput(
            f"'{key}': there is no distribution '{name}'. {suggest(name, _DISTRIBUTIONS, 'distributions')}"
        )
    wanted, _ = _DISTRIBUTIONS[name]
    if isinstance(numbers, Mapping):
        if set(numbers) != set(wanted):
            raise InvalidInput(
                f"'{key}': {name} takes {', '.join(wanted)}, not {', '.join(map(str, numbers))}"
            )
        numbers = [numbers[one] for one in wanted]
    if not isinstance(numbers, (list, tuple)) or len(numbers) != len(wanted):
        raise InvalidInput(f"'{key}': {name} takes [{', '.join(wanted)}], not {numbers!r}")
    found = tuple(_number(key, value, one) for one, value in zip(wanted, numbers, strict=True))
    named = dict(zip(wanted, found, strict=True))
    rising = [named[one] for one in wanted if one in _RISING]
    if any(b < a for a, b in pairwise(rising)) or (rising and rising[0] == rising[-1]):
        raise InvalidInput(
            f"'{key}': the numbers of {name} ({', '.join(wanted)}) must rise, not {list(numbers)}"
        )
    for one in _POSITIVE & named.keys():
        if not named[one] > 0.0:
            raise InvalidInput(f"'{key}': {one} of {name} must be above 0, not {named[one]:g}")
    if name == "loguniform" and not named["low"] > 0.0:
        raise InvalidInput(f"'{key}': low of loguniform must be above 0, not {named['low']:g}")
    return Spread(name, found)


def _number(key: str, value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not -inf < float(value) < inf:
        raise InvalidInput(f"'{key}': {what} must be a number, not {value!r}")
    return float(value)


# ----------------------------------------------------------------------------------------------------
# All of them together.


SAMPLES = 256
"""So many points are drawn unless it is said how many."""


@dataclass(frozen=True)
class Design:
    """Which points a study has: how they are chosen, from what, how many, and with which seed.

    `correlations` are (one, other, coefficient): ranks of random samples follow a normal distribution with
    these.
    """

    kind: str
    parameters: Mapping[str, Any]
    samples: int | None = None
    seed: int = 0
    correlations: tuple[tuple[str, str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in DESIGNS:
            raise InvalidInput(f"there is no design '{self.kind}'. {suggest(self.kind, DESIGNS, 'designs')}")
        _whole("seed", self.seed, 0)
        if self.sampled and self.samples is None:
            raise InvalidInput(f'the design "{self.kind}" needs samples = …, the number of runs')
        if self.samples is not None:
            _whole("samples", self.samples, 1)
        if not self.sampled:
            for key, one in self.parameters.items():
                if not isinstance(one, Listed):
                    raise InvalidInput(
                        f"'{key}' is a distribution, of which a {self.kind} has no points: give count = …, "
                        "or choose a "
                        'design that samples, such as design = "sobol"'
                    )
            if self.samples is not None:
                raise InvalidInput(
                    f'samples is for designs that draw points: design = "sobol", not "{self.kind}"'
                )
            if self.correlations:
                raise InvalidInput('correlations are for designs that draw points, such as design = "random"')
        if self.kind == "together":
            counts = {key: len(one.values) for key, one in self.parameters.items()}
            if len(set(counts.values())) > 1:
                shown = ", ".join(f"{key}: {count}" for key, count in counts.items())
                raise InvalidInput(f"lists that go together must be equally long, but there are {shown}")
        if self.count > MOST:
            raise InvalidInput(
                f"the study has {self.count:,} points, and at most {MOST:,} can be run: take fewer values "
                "for each "
                'parameter, or samples of them (design = "sobol", samples = 10000)'
            )
        self._factor  # noqa: B018  # correlations that cannot be are told now

    @property
    def sampled(self) -> bool:
        """Whether points are drawn."""
        return self.kind not in ("grid", "together")

    @property
    def count(self) -> int:
        """How many points there are."""
        if self.sampled:
            return self.samples or 0
        counts = [len(one.values) for one in self.parameters.values()]
        return prod(counts) if self.kind == "grid" else max(counts, default=1)

    @property
    def _factor(self) -> npt.NDArray[np.float64] | None:
        """The lower triangle that gives independent normal numbers these correlations."""
        if not self.correlations:
            return None
        names = list(self.parameters)
        matrix = np.eye(len(names))
        for one, other, value in self.correlations:
            for name in (one, other):
                if name not in names:
                    raise InvalidInput(
                        f"a correlation is given for '{name}'. {suggest(name, names, 'parameters')}"
                    )
            if not -1.0 < value < 1.0 or one == other:
                raise InvalidInput(
                    f"the correlation of '{one}' and '{other}' must be between -1 and 1, of two different "
                    f"ones, not {value:g}"
                )
            i, k = names.index(one), names.index(other)
            matrix[i, k] = matrix[k, i] = value
        try:
            return np.asarray(np.linalg.cholesky(matrix), np.float64)
        except np.linalg.LinAlgError:
            raise InvalidInput(
                "these correlations contradict each other: no numbers have all of them (their matrix is "
                "not positive definite)"
            ) from None

    def columns(self) -> dict[str, Column]:
        """The values of every parameter, run by run."""
        if not self.parameters:
            return {}
        if self.kind == "together":
            return {key: _array(one.values) for key, one in self.parameters.items()}
        if self.kind == "grid":
            found, before, count = {}, 1, self.count
            for key, one in self.parameters.items():  # the last one changes fastest
                own = len(one.values)
                found[key] = np.tile(np.repeat(_array(one.values), count // (before * own)), before)
                before *= own
            return found
        u = self.unit_points()
        return {key: _array(one.ppf(u[:, k])) for k, (key, one) in enumerate(self.parameters.items())}

    def unit_points(self) -> npt.NDArray[np.float64]:
        """Points in the unit cube, correlated as asked."""
        count, width = self.count, len(self.parameters)
        if self.kind == "random":
            u = np.random.default_rng(self.seed).random((count, width))
        else:
            qmc = need("scipy.stats.qmc", "explore", f'the design "{self.kind}"')
            names = {"sobol": "Sobol", "halton": "Halton", "latin_hypercube": "LatinHypercube"}
            engine = getattr(qmc, names[self.kind])(width, **_seeded(self.seed))
            if self.kind == "sobol" and count & (count - 1) == 0:
                u = engine.random_base2(count.bit_length() - 1)
            elif (
                self.kind == "sobol"
            ):  # of another number it is a part of the sequence, which is not as balanced
                u = engine.random_base2(count.bit_length())[:count]
            else:
                u = engine.random(count)
        factor = self._factor
        if factor is None:
            return u
        normal = _stats().norm
        inside = np.clip(u, 1e-16, 1.0 - 1e-16)
        return np.asarray(normal.cdf(normal.ppf(inside) @ factor.T))


def _seeded(seed: int) -> dict[str, Any]:
    """scipy has called it `seed` before, and calls it `rng` now."""
    import inspect

    qmc = need("scipy.stats.qmc", "explore", "a design")
    name = "rng" if "rng" in inspect.signature(qmc.Sobol.__init__).parameters else "seed"
    return {name: np.random.default_rng(seed)}


def _whole(what: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{what} must be a whole number of at least {least}, not {value!r}")


def _array(values: Any) -> Column:
    """Numbers as numbers; of anything else the objects themselves."""
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if all(isinstance(one, (bool, int, float, np.generic)) and not isinstance(one, str) for one in values):
        kinds = {bool if isinstance(one, (bool, np.bool_)) else float for one in values}
        if kinds == {float}:
            return np.array(values, np.float64)
    found = np.empty(len(values), object)
    found[:] = values
    return found


_NO_POINTS = "{}: needs a line with the names of parameters, and at least one with values"


def read_table(path: Path) -> dict[str, Column]:
    """The points in a CSV file: a column for each parameter, a row for each run."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise cannot_read(path, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileProblem(f"{path}: is no CSV file: {error}") from None
    if len(rows) < 2:
        raise FileProblem(_NO_POINTS.format(path))
    head = [name.strip() for name in rows[0]]
    if len(set(head)) < len(head):
        raise FileProblem(f"{path}: line 1: a parameter has two columns")
    values: list[list[Any]] = [[] for _ in head]
    lines = []
    for line, row in enumerate(rows[1:], 2):
        if not row:
            continue
        lines.append(line)
        if len(row) != len(head):
            raise FileProblem(
                f"{path}: line {line}: has {len(row)} values, but there are {len(head)} parameters"
            )
        for column, text in zip(values, row, strict=True):
            column.append(_read(text.strip()))
    if not lines:
        raise FileProblem(_NO_POINTS.format(path))
    for name, column in zip(head, values, strict=True):
        if (odd := _odd(name, column)) is not None:
            raise FileProblem(
                f"{path}: line {lines[odd]}: {column[odd]!r} is no number, as others of '{name}' are"
            )
    return {name: _array(column) for name, column in zip(head, values, strict=True)}


def _read(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def chosen(
    parameters: Mapping[str, Any],
    kind: str | None = None,
    samples: int | None = None,
    seed: int = 0,
    correlations: Sequence[Sequence[Any]] = (),
) -> Design:
    """The design that these settings describe; without a `kind`, samples where there are distributions, and
    256 of them unless it is said how many."""
    if not isinstance(parameters, Mapping):
        raise InvalidInput(f'what varies is a table such as {{ "car.k": [1, 2, 3] }}, not {parameters!r}')
    made = {key: varied(key, one) for key, one in parameters.items()}
    if kind is None:
        kind = (
            "grid" if all(isinstance(one, Listed) for one in made.values()) and samples is None else "sobol"
        )
    if samples is None and kind not in ("grid", "together"):
        samples = SAMPLES
    pairs = []
    for one in correlations:
        if not (isinstance(one, (list, tuple)) and len(one) == 3 and isinstance(one[2], Real)):
            raise InvalidInput(f'a correlation is such as ["car.m", "car.k", 0.5], not {one!r}')
        pairs.append((str(one[0]), str(one[1]), float(one[2])))
    return Design(kind, made, samples, seed, tuple(pairs))
