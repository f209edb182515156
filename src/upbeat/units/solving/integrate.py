"""Integrators in Python: one generic explicit Runge-Kutta step, and the two loops around it.

The order of floating-point operations is part of the meaning: the native engine performs the same
ones, and results are compared bit for bit. Writing [j] for a component of the state:

* A weighted sum Σ w[q]·k[q] runs over the q with w[q] ≠ 0 in rising order:
  acc = w[q0]·k[q0][j], then acc = acc + w[q]·k[q][j]. A stage without weights takes x itself.
* Stage s: ts = t + c[s]·h and xs[j] = x[j] + h·acc. New state: x[j] + h·acc.
* Fixed steps: h = (to - t)/n, and step i starts at t + i·h.
* Solver step i ends where the next one starts, the last one at `to`.
* Adaptive steps: see `Adaptive.advance`. `max(a, b)` is b if a < b else a, `min(a, b)` is b if b < a else a.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from upbeat.units.solving.cvode import Inputs, Jacobian, Multistep
from upbeat.units.solving.effort import Effort
from upbeat.units.solving.located import Watch
from upbeat.units.solving.solvers import Cvode, DormandPrince, RungeKutta, Solver, SolverError
from upbeat.units.solving.tableau import Tableau

Vector = list[float]
Rhs = Callable[[float, Vector], Sequence[float]]
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
        self, f: Rhs, t: float, x: Vector, h: float, k1: Sequence[float]
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

    def __init__(self, solver: RungeKutta) -> None:
        assert not isinstance(solver, DormandPrince)
        self._count = solver.count
        self._step = _Step(solver.tableau)
        self.effort = Effort()

    def advance(self, f: Rhs, t: float, x: Vector, to: float, watch: Watch | None = None) -> Vector:
        """The state at `to`, from state `x` at `t` < `to`; or at `watch.time` if that has stopped."""
        count = self._count(to - t)
        h = (to - t) / count
        step, effort = self._step, self.effort
        for i in range(count):
            ti = t + i * h
            k = step.stage_values(f, ti, x, h, f(ti, x))
            new = _moved(x, h, step.b, k)
            effort.steps += 1
            effort.evaluations += len(k)
            if watch is not None:
                end = t + (i + 1) * h if i + 1 < count else to
                dense = partial(_cubic, f, ti, h, x, new, k[0], end)
                stopped = watch.step(ti, end, new, dense)
                effort.evaluations += bool(watch.crossed)
                if stopped is not None:
                    effort.stops += 1
                    return stopped
            x = new
        return x


def _cubic(
    f: Rhs, t: float, h: float, x: Vector, new: Vector, before: Sequence[float], end: float
) -> Interpolant:
    return _interpolant(t, h, x, new, before, f(end, new), [0.0] * len(x))


class Adaptive:
    """Dormand-Prince with step-size control. `h` is the step to try next (0.0: choose one)."""

    def __init__(self, solver: DormandPrince) -> None:
        self.solver = solver
        self.h = 0.0
        self.last: Interpolant | None = None
        self.effort = Effort()
        self._step = _Step(solver.tableau)
        self._atol: Iterable[float] = repeat(solver.atol)

    def scale(self, nominals: Sequence[float]) -> None:
        """The absolute tolerance of each component becomes `atol` times the size that it usually has."""
        self._atol = [self.solver.atol * nominal for nominal in nominals]

    def advance(self, f: Rhs, t: float, x: Vector, to: float, watch: Watch | None = None) -> Vector:
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
        solver, step, effort = self.solver, self._step, self.effort
        k1 = f(t, x)
        effort.evaluations += 1
        # The first step is a guess: that time cannot tell it from none is no reason to give up.
        h = self._limited(self.h if self.h > 0.0 else max(self._first(k1, t, x, to), 16.0 * math.ulp(t)))
        for _ in range(solver.most):
            cut = t + 1.0000001 * h >= to
            length = to - t if cut else h
            if not cut and h < 16.0 * math.ulp(t):
                raise SolverError(
                    f"the step size fell to {h:.3g} at t = {t:.9g}: the solution grows without bound, "
                    "jumps, or is too stiff for an explicit method"
                )
            k = step.stage_values(f, t, x, length, k1)
            effort.evaluations += len(k) - 1
            new = _moved(x, length, step.b, k)
            error = self._norm([length * v for v in _combine(step.e, k)], x, new)
            factor = _factor(error)
            if not error <= 1.0:
                h = length * min(1.0, factor)
                effort.rejected += 1
                continue
            effort.steps += 1
            top = [length * v for v in _combine(step.d, k)]
            self.last = dense = _interpolant(t, length, x, new, k[0], k[-1], top)
            proposed = self._limited(length * factor)
            h = max(h, proposed) if cut else proposed
            end = to if cut else t + length
            if watch is not None:
                stopped = watch.step(t, end, new, lambda dense=dense: dense)  # type: ignore[misc]
                if stopped is not None:
                    self.h = h
                    effort.stops += 1
                    return stopped
            x = new
            if cut:
                self.h = h
                return x
            t = end
            k1 = k[-1]
        raise SolverError(
            f"{solver.most:,} steps did not reach {to:.9g} (at t = {t:.9g}, step size {h:.3g}); "
            "loosen rtol and atol, raise 'most', or take shorter communication steps"
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


def integrator(
    solver: Solver, inputs: Callable[[], Inputs] = lambda: ([], {}), jacobian: Jacobian | None = None
) -> Fixed | Adaptive | Multistep:
    """A fresh integrator for one unit. `inputs` gives what all inputs do; `jacobian` may help."""
    if isinstance(solver, Cvode):
        return Multistep(solver, inputs, jacobian)
    return Adaptive(solver) if isinstance(solver, DormandPrince) else Fixed(solver)
