"""Integrating from one communication point to the next, and locating events on the way."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Protocol, runtime_checkable

from upbeat.core.errors import MissingExtra
from upbeat.core.records import dataclass
from upbeat.units.solving.solvers import Cvode, DormandPrince, RungeKutta, Solver, SolverError
from upbeat.units.solving.tableau import Tableau

# ----------------------------------------------------------------------------------------------------
# How hard a solver has worked, in numbers: to see what makes a unit slow.


@dataclass(slots=True)
class SolverStatistics:
    """Since a unit was made: a step that is done again after a rollback counts again.

    * `steps` that stand;
    * `rejected` ones, made again with a shorter length, because their error was too large;
    * `stops`: steps that ended early, where an event indicator changed its sign or an FMU asked for an event;
    * `evaluations` of the derivatives.
    """

    steps: int = 0
    rejected: int = 0
    stops: int = 0
    evaluations: int = 0

    def __add__(self, other: SolverStatistics) -> SolverStatistics:
        """That of two solvers of one unit."""
        return SolverStatistics(
            self.steps + other.steps,
            self.rejected + other.rejected,
            self.stops + other.stops,
            self.evaluations + other.evaluations,
        )

    def to_data(self) -> dict[str, int]:
        """By name, for `trace.info`."""
        return {
            "steps": self.steps,
            "rejected": self.rejected,
            "stops": self.stops,
            "evaluations": self.evaluations,
        }


@runtime_checkable
class HasStatistics(Protocol):
    """A unit that tells how hard its solver has worked; None if it has none that counts."""

    @property
    def statistics(self) -> SolverStatistics | None: ...


# ----------------------------------------------------------------------------------------------------
# Events inside a step: where along a solution some function changes its sign first.
#
# A function z of time and state *crosses* when it goes from z > 0 to z ≤ 0 or back, as in FMI. Only the
# ends of an accepted step are compared, so that two crossings within one step are none; between them the
# root is looked for on the dense output. The order of floating-point operations is part of the meaning, as
# it is in `upbeat.units.solving.integrate`: the native engine performs the same ones.

Vector = list[float]
Indicators = Callable[[float, Vector], Sequence[float]]
"""The values of all functions at a time and a state. Each call gives a sequence of its own."""
Dense = Callable[[float], Vector]

TOLERANCE = 1e-12
"""A root is enclosed by so much of the step that it lies in, or by four units in the last place of time."""


def crossings(before: Sequence[float], after: Sequence[float]) -> tuple[int, ...]:
    """Which functions have another sign than before. Not a number counts as not positive."""
    return tuple(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if (a > 0.0) != (b > 0.0))


class Watch:
    """Looks at every accepted step of a solver and ends it at the first crossing.

    `accepted` is told where each step has ended, and may ask to stop there. Between two advances the values
    at the start are those at the end of the last one; give new ones to `begin` where they have changed.
    """

    def __init__(
        self,
        indicators: Indicators | None,
        accepted: Callable[[float, Vector], bool] | None = None,
    ) -> None:
        self._indicators = indicators
        self._accepted = accepted
        self.z: Sequence[float] = ()
        """The values where the last step ended."""
        self.time = math.nan
        """Where the last step ended."""
        self.crossed: tuple[int, ...] = ()
        """The functions that have crossed there."""
        self.stopped = False
        """Whether the last step ended an advance before its time: at a crossing, or because of `accepted`."""

    def begin(self, z: Sequence[float]) -> None:
        """The values at the start of the next step, with which its end will be compared."""
        self.z = z

    def step(self, start: float, end: float, x: Vector, dense: Callable[[], Dense]) -> Vector | None:
        """After an accepted step that arrived at `x`: None to go on, or the state at `time`, to stop there.

        `dense` gives the solution within the step; it is asked only if something has crossed.
        """
        self.crossed = ()
        if self._indicators is not None:
            z = self._indicators(end, x)
            self.crossed = crossings(self.z, z)
            if self.crossed:
                end, x, z = self._locate(start, end, x, z, dense())
            self.z = z
        self.time = end
        wanted = self._accepted is not None and self._accepted(end, x)
        self.stopped = bool(self.crossed) or wanted
        return x if self.stopped else None

    def _locate(
        self, low: float, high: float, x: Vector, z_high: Sequence[float], dense: Dense
    ) -> tuple[float, Vector, Sequence[float]]:
        """The far end of a bracket around the first root, by the rule called Illinois.

        For each function that crosses between `low` and `high` the straight line through both values has
        a root; the first of them is tried. An end that stays twice has its value halved (here, what is the
        same, `weight` scales the values at `low`). If two tries in a row
        leave more than half, the middle is next.
        """
        assert self._indicators is not None
        z_low = self.z
        room = max(TOLERANCE * (high - low), 4.0 * math.ulp(max(abs(low), abs(high))))
        weight, moved, slow = 1.0, 0, 0
        while high - low > room:
            width = high - low
            part = 0.5 if slow == 2 else _first_root(z_low, z_high, weight)
            slow = 0 if slow == 2 else slow
            t = max(low + 0.5 * room, min(high - 0.5 * room, low + part * width))
            state = dense(t)
            z = self._indicators(t, state)
            crossed = crossings(z_low, z)
            if crossed:
                weight = 0.5 * weight if moved == 1 else 1.0
                high, x, z_high, moved, self.crossed = t, state, z, 1, crossed
            else:
                weight = 2.0 * weight if moved == -1 else 1.0
                low, z_low, moved = t, z, -1
            slow = slow + 1 if high - low > 0.5 * width else 0
        return high, x, z_high


def _first_root(low: Sequence[float], high: Sequence[float], weight: float) -> float:
    """The smallest fraction at which a line from weight·low to high is zero, among those that cross."""
    first = 1.0
    for a, b in zip(low, high, strict=True):
        if (a > 0.0) != (b > 0.0):
            scaled = weight * a
            fall = scaled - b
            part = scaled / fall if fall != 0.0 else 0.5
            if not 0.0 <= part <= 1.0:  # values that are infinite, or not numbers
                part = 0.5
            first = min(first, part)
    return first


# ----------------------------------------------------------------------------------------------------
# CVODE for one unit: kept warm from one communication step to the next where the inputs allow it.

Rhs = Callable[[float, list[float]], Sequence[float]]
Jacobian = Callable[[float, list[float]], Sequence[Sequence[float]]]
"""The derivatives of all components of the right-hand side (rows) by all of the state (columns)."""
Inputs = tuple[list[Any], dict[int, Any]]
"""The values of all inputs, and the trajectories of those that move (`InputTrajectories.trajectories`)."""

MAX_ASTRAY = 1000
"""So often in one advance the derivatives may be no finite numbers."""


_MORE_STEPS = " Raise 'max_steps' of the solver, or its tolerances, or take shorter communication steps."

_SWAPPING = threading.RLock()
"""Held while stdout is swapped, which is one for all threads: two that swap it in turns would put each
other's stand-in back for good. Re-entrant, since equations may run whatever they like. The price is that
units with CVODE in several threads go one after the other; under the interpreter's lock they mostly do
anyway."""


class Multistep:
    """A solver with a past: the steps before decide its order and the length of the next one.

    The past is of use only as long as the equations stay the same, so it restarts when an input has
    changed. It cannot be saved either: after `forget`, and for a state that was set, it restarts, too,
    so that a unit that was set back goes exactly the way it went before.
    """

    statistics: SolverStatistics | None = None  # CVODE's own counts are of another kind
    last: Interpolant | None = None

    def __init__(self, solver: Cvode, inputs: Callable[[], Inputs], jacobian: Jacobian | None = None) -> None:
        # SUNDIALS writes warnings to stderr; what matters of them comes with the failure that follows.
        os.environ.setdefault("SUNLOGGER_WARNING_FILENAME", os.devnull)
        self.starts = 0
        """How often it has restarted."""
        self._is = solver
        self._inputs = inputs
        self._jacobian = jacobian
        self._seen: Inputs | None = None
        self._at = math.nan
        self._x: list[float] | None = None
        self._f: Rhs | None = None
        self._astray = 0
        self._where = (0, math.nan)
        self._core = self._made(solver.atol)

    def _made(self, atol: float | list[float]) -> Any:
        try:
            from sksundae.cvode import CVODE
        except ImportError:
            raise MissingExtra("cvode", "the solver CVODE") from None
        solver = self._is
        return CVODE(
            self._fill,
            method=solver.formula.upper(),
            rtol=solver.rtol,
            atol=atol,
            first_step=solver.first or 0.0,
            max_step=solver.longest or 0.0,
            max_num_steps=solver.max_steps,
            jacfn=None if self._jacobian is None else self._fill_jacobian,
        )

    def scale(self, nominals: Sequence[float]) -> None:
        """The absolute tolerance of each component becomes `atol` times the size that it usually has."""
        self._core = self._made([self._is.atol * nominal for nominal in nominals])
        self.forget()

    def _fill_jacobian(self, t: float, x: Any, slopes: Any, to: Any) -> None:
        assert self._jacobian is not None
        to[:, :] = self._jacobian(t, x.tolist())

    def _fill(self, t: float, x: Any, to: Any) -> None:
        assert self._f is not None
        found = self._f(t, x.tolist())
        to[:] = found
        if not all(map(math.isfinite, found)):
            self._astray += 1  # CVODE tries a shorter step, which may help: but not for ever
            self._where = next(k for k, value in enumerate(found) if not math.isfinite(value)), t
            if self._astray > MAX_ASTRAY:
                raise SolverError(f"CVODE cannot go on: {self._lost()}")

    def _lost(self) -> str:
        place, t = self._where
        return f"the derivative of state number {place + 1} is not finite, last at {t:.9g}"

    def advance(self, f: Rhs, t: float, x: list[float], to: float, watch: Watch | None = None) -> list[float]:
        """The state at `to`, from state `x` at `t` < `to`; or at `watch.time` if that has stopped."""
        self._f = f
        if not x:
            if watch is not None:
                watch.step(t, to, x, lambda: lambda _: [])
            return x
        inputs = self._inputs()
        fresh = x is not self._x or t != self._at or inputs != self._seen
        self._x = None  # until it has arrived
        self._astray = 0
        if fresh:
            with _SWAPPING, contextlib.redirect_stdout(_Hush()):
                self._core.init_step(t, x)
            self._seen = inputs
            self.starts += 1
        if watch is not None:
            return self._watched(t, to, watch)
        # Going past `to` and coming back by interpolation leaves its steps as long as they like; but
        # what an input that moves would be beyond `to` is not known.
        moving = inputs[1]
        _, found = self._step(to, to, "normal", to if moving else None)
        self._at, self._x = to, found
        return found

    def _watched(self, t: float, to: float, watch: Watch) -> list[float]:
        """Step by step, none beyond `to`: what would be found there has not happened yet."""
        for _ in range(self._is.max_steps):
            end, x = self._step(to, to, "onestep", to)
            stopped = watch.step(t, end, x, lambda: self._within)
            if stopped is not None:
                return stopped
            if end >= to:
                self._at, self._x = to, x
                return x
            t = end
        raise SolverError(
            f"CVODE did not reach {to:.9g} in {self._is.max_steps:,} steps (at t = {t:.9g}).{_MORE_STEPS}"
        )

    def _within(self, t: float) -> list[float]:
        """The solution within the last step: CVODE interpolates when it is asked for a time that is past."""
        return self._step(t, t, "normal", None)[1]

    def _step(self, t: float, to: float, method: str, stop: float | None) -> tuple[float, list[float]]:
        with _SWAPPING, contextlib.redirect_stdout(_Hush()) as hush:
            result = self._core.step(t, method=method, tstop=stop)
        if not result.success:
            text = f"CVODE stopped on the way to {to:.9g}: {hush.said or result.message}"
            if self._astray:
                text += f" {self._lost()[0].upper()}{self._lost()[1:]}."
            elif "mxstep" in text:
                text += _MORE_STEPS
            raise SolverError(text)
        return float(result.t), result.y.ravel().tolist()

    def forget(self) -> None:
        """Restart at the next step."""
        self._x = None

    def save(self) -> tuple[float, ...]:
        """Nothing; but it restarts here, as one that is set back will."""
        self.forget()
        return ()

    def restore(self, numbers: list[Any]) -> list[Any]:
        """`numbers` are not its own."""
        return numbers


class _Hush:
    """Stands in for stdout: keeps the messages that scikit-sundae prints there, and passes on the rest."""

    def __init__(self) -> None:
        self.said = ""
        self._out = sys.stdout
        self._end = False

    def write(self, text: str) -> int:
        if text.startswith("\n[") and "Error: " in text:
            self.said = text.partition("]")[2].strip()
            self._end = True
        elif not (self._end and text == "\n"):
            self._out.write(text)
        return len(text)

    def flush(self) -> None:
        self._out.flush()


# ----------------------------------------------------------------------------------------------------
# Integrators in Python: one generic explicit Runge-Kutta step, and the two loops around it.
#
# The order of floating-point operations is part of the meaning: the native engine performs the same
# ones, and results are compared bit for bit. Writing [j] for a component of the state:
#
# * A weighted sum Σ w[q]·k[q] runs over the q with w[q] ≠ 0 in rising order:
#   acc = w[q0]·k[q0][j], then acc = acc + w[q]·k[q][j]. A stage without weights takes x itself.
# * Stage s: ts = t + c[s]·h and xs[j] = x[j] + h·acc. New state: x[j] + h·acc.
# * Fixed steps: h = (to - t)/n, and step i starts at t + i·h.
# * Solver step i ends where the next one starts, the last one at `to`.
# * Adaptive steps: see `Adaptive.advance`. `max(a, b)` is b if a < b else a, `min(a, b)` is b if b < a else
#   a.

Derivatives = Callable[[float, Vector], Sequence[float]]
"""The right-hand side: derivatives of the state at a time and a state."""

_Weights = tuple[tuple[int, float], ...]


def _weights(row: Sequence[float]) -> _Weights:
    return tuple((q, w) for q, w in enumerate(row) if w != 0.0)


def _combine(weights: _Weights, k: Sequence[Sequence[float]]) -> Vector:
    q, w = weights[0]
    acc = [w * v for v in k[q]]
    for q, w in weights[1:]:
        acc = [a + w * v for a, v in zip(acc, k[q], strict=True)]
    return acc


def _moved(x: Vector, h: float, weights: _Weights, k: Sequence[Sequence[float]]) -> Vector:
    if len(weights) == 1:  # the same operations, without the list between
        q, w = weights[0]
        return [v + h * (w * d) for v, d in zip(x, k[q], strict=True)]
    return [v + h * a for v, a in zip(x, _combine(weights, k), strict=True)]


class _Step:
    """A tableau prepared for stepping: zero weights dropped once."""

    def __init__(self, tableau: Tableau) -> None:
        self.stages = tuple((c, _weights(a)) for c, a in zip(tableau.c, tableau.a, strict=True))[1:]
        self.b = _weights(tableau.b)
        self.e = _weights(tableau.e)
        self.d = _weights(tableau.d)

    def stage_values(
        self, f: Derivatives, t: float, x: Vector, h: float, k1: Sequence[float]
    ) -> list[Sequence[float]]:
        k = [k1]
        for c, weights in self.stages:
            k.append(f(t + c * h, _moved(x, h, weights, k) if weights else x))
        return k


@dataclass(frozen=True, slots=True)
class Interpolant:
    """The solution within the last accepted step, by a polynomial of degree 4 (or 3) in each component."""

    start: float
    length: float
    rows: tuple[tuple[float, ...], ...]

    def __call__(self, t: float) -> Vector:
        """The state at `t`, which should lie within the step."""
        s = (t - self.start) / self.length
        r = 1.0 - s
        return [a + s * (b + r * (c + s * (d + r * e))) for a, b, c, d, e in zip(*self.rows, strict=True)]


def _interpolant(
    t: float, h: float, x: Vector, new: Vector, before: Sequence[float], after: Sequence[float], top: Vector
) -> Interpolant:
    """From states and slopes at both ends; without a term at the `top` it is Hermite's cubic."""
    change = [b - a for a, b in zip(x, new, strict=True)]
    left = [h * v - d for v, d in zip(before, change, strict=True)]
    right = [d - h * v - w for d, v, w in zip(change, after, left, strict=True)]
    return Interpolant(t, h, (tuple(x), tuple(change), tuple(left), tuple(right), tuple(top)))


class Fixed:
    """Equal solver steps; nothing to remember between communication steps."""

    last: Interpolant | None = None

    def __init__(self, solver: RungeKutta) -> None:
        assert not isinstance(solver, DormandPrince)
        self._count = solver.count
        self._step = _Step(solver.tableau)
        self.statistics = SolverStatistics()

    def advance(self, f: Derivatives, t: float, x: Vector, to: float, watch: Watch | None = None) -> Vector:
        """The state at `to`, from state `x` at `t` < `to`; or at `watch.time` if that has stopped."""
        count = self._count(to - t)
        h = (to - t) / count
        step, statistics = self._step, self.statistics
        for i in range(count):
            ti = t + i * h
            k = step.stage_values(f, ti, x, h, f(ti, x))
            new = _moved(x, h, step.b, k)
            statistics.steps += 1
            statistics.evaluations += len(k)
            if watch is not None:
                end = t + (i + 1) * h if i + 1 < count else to
                dense = partial(_cubic, f, ti, h, x, new, k[0], end)
                stopped = watch.step(ti, end, new, dense)
                statistics.evaluations += bool(watch.crossed)
                if stopped is not None:
                    statistics.stops += 1
                    return stopped
            x = new
        return x

    def forget(self) -> None:
        """There is no past."""

    def save(self) -> tuple[float, ...]:
        """Nothing."""
        return ()

    def restore(self, numbers: list[Any]) -> list[Any]:
        """`numbers` are not its own."""
        return numbers


def _cubic(
    f: Derivatives, t: float, h: float, x: Vector, new: Vector, before: Sequence[float], end: float
) -> Interpolant:
    return _interpolant(t, h, x, new, before, f(end, new), [0.0] * len(x))


class Adaptive:
    """Dormand-Prince with step-size control. `h` is the step to try next (0.0: choose one)."""

    def __init__(self, solver: DormandPrince) -> None:
        self.solver = solver
        self.h = 0.0
        self.last: Interpolant | None = None
        self.statistics = SolverStatistics()
        self._step = _Step(solver.tableau)
        self._atol: Iterable[float] = repeat(solver.atol)

    def scale(self, nominals: Sequence[float]) -> None:
        """The absolute tolerance of each component becomes `atol` times the size that it usually has."""
        self._atol = [self.solver.atol * nominal for nominal in nominals]

    def forget(self) -> None:
        """There is no past but a step size, whose error is looked at again."""

    def save(self) -> tuple[float, ...]:
        """The step size to try next."""
        return (self.h,)

    def restore(self, numbers: list[Any]) -> list[Any]:
        """Take what `save` gave from the head of `numbers`; returns the others."""
        self.h, *others = numbers
        self.last = None
        return others

    def advance(self, f: Derivatives, t: float, x: Vector, to: float, watch: Watch | None = None) -> Vector:
        """The state at `to`, from state `x` at `t` < `to`; or at `watch.time` if that has stopped.

        Each attempt takes `h`, or what remains if t + 1.0000001·h reaches `to`; only a step that was
        not cut short in this way can be too short. It is accepted when the error norm
        √(Σ (e[j]/(atol + rtol·max(|x[j]|, |x'[j]|)))² / n) is at most 1, and then h := length·factor,
        but a step that was cut short never lowers h. A rejected one sets h := length·min(1, factor).
        A crossing that `watch` finds within an accepted step changes nothing of that.
        """
        if not x:  # nothing that could err: one step, in which only time and inputs can make something cross
            if watch is not None:
                watch.step(t, to, x, lambda: lambda _: [])
            return x
        solver, step, statistics = self.solver, self._step, self.statistics
        k1 = f(t, x)
        statistics.evaluations += 1
        # The first step is a guess: that time cannot tell it from none is no reason to give up.
        h = self._limited(self.h if self.h > 0.0 else max(self._first(k1, t, x, to), 16.0 * math.ulp(t)))
        for _ in range(solver.max_steps):
            cut = t + 1.0000001 * h >= to
            length = to - t if cut else h
            if not cut and h < 16.0 * math.ulp(t):
                raise SolverError(
                    f"the step size fell to {h:.3g} at t = {t:.9g}: the solution grows without bound, "
                    "jumps, or is too stiff for an explicit method"
                )
            k = step.stage_values(f, t, x, length, k1)
            statistics.evaluations += len(k) - 1
            new = _moved(x, length, step.b, k)
            error = self._norm([length * v for v in _combine(step.e, k)], x, new)
            factor = _factor(error)
            if not error <= 1.0:
                h = length * min(1.0, factor)
                statistics.rejected += 1
                continue
            statistics.steps += 1
            top = [length * v for v in _combine(step.d, k)]
            self.last = dense = _interpolant(t, length, x, new, k[0], k[-1], top)
            proposed = self._limited(length * factor)
            h = max(h, proposed) if cut else proposed
            end = to if cut else t + length
            if watch is not None:
                stopped = watch.step(t, end, new, lambda dense=dense: dense)  # type: ignore[misc]
                if stopped is not None:
                    self.h = h
                    statistics.stops += 1
                    return stopped
            x = new
            if cut:
                self.h = h
                return x
            t = end
            k1 = k[-1]
        raise SolverError(
            f"{solver.max_steps:,} steps did not reach {to:.9g} (at t = {t:.9g}, step size {h:.3g}); "
            "loosen rtol and atol, raise 'max_steps', or take shorter communication steps"
        )

    def _limited(self, h: float) -> float:
        longest = self.solver.longest
        return h if longest is None else min(h, longest)

    def _first(self, k1: Sequence[float], t: float, x: Vector, to: float) -> float:
        """The first step: a hundredth of |x|/|f| where that says something, else a tenth of the interval."""
        remaining = to - t
        if self.solver.first is not None:
            return min(self.solver.first, remaining)
        size, speed = self._norm(x, x, x), self._norm(k1, x, x)
        if not (1e-5 < size < math.inf and 1e-5 < speed < math.inf):
            return remaining / 10.0
        return min(0.01 * (size / speed), remaining)

    def _norm(self, values: Sequence[float], x: Vector, new: Vector) -> float:
        rtol = self.solver.rtol
        total = 0.0
        for value, before, after, atol in zip(values, x, new, self._atol, strict=False):
            part = value / (atol + rtol * max(abs(before), abs(after)))
            total = total + part * part
        return math.sqrt(total / len(x))


def _factor(error: float) -> float:
    """By how much to change the step: 0.9·error**-0.2 within 0.2 … 5, and 0.2 if the error is not finite."""
    if error == 0.0:
        return 5.0
    if not error < math.inf:
        return 0.2
    return max(0.2, min(5.0, 0.9 * math.pow(error, -0.2)))


class Integrator(Protocol):
    """What moves the state of one unit: `Fixed`, `Adaptive` or `Multistep`."""

    @property
    def statistics(self) -> SolverStatistics | None:
        """How hard it has worked; None if that is not counted."""
        ...

    @property
    def last(self) -> Interpolant | None:
        """The solution within its last step, if it is kept."""
        ...

    def advance(self, f: Rhs, t: float, x: list[float], to: float, watch: Watch | None = None) -> list[float]:
        """The state at `to`, from state `x` at `t` < `to`; or at `watch.time` if that has stopped."""
        ...

    def forget(self) -> None:
        """What came before obeyed other equations."""
        ...

    def save(self) -> tuple[float, ...]:
        """What a token has to hold of it."""
        ...

    def restore(self, numbers: list[Any]) -> list[Any]:
        """Take what `save` gave from the head of `numbers`; returns the others."""
        ...


def integrator(
    solver: Solver, inputs: Callable[[], Inputs] = lambda: ([], {}), jacobian: Jacobian | None = None
) -> Integrator:
    """A fresh integrator for one unit. `inputs` gives what all inputs do; `jacobian` may help."""
    if isinstance(solver, Cvode):
        return Multistep(solver, inputs, jacobian)
    return Adaptive(solver) if isinstance(solver, DormandPrince) else Fixed(solver)
