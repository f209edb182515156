"""CVODE for one unit: kept warm from one communication step to the next where the inputs allow it."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from upbeat.core.errors import MissingExtra
from upbeat.units.solving.located import Watch
from upbeat.units.solving.solvers import Cvode, SolverError

Rhs = Callable[[float, list[float]], Sequence[float]]
Jacobian = Callable[[float, list[float]], Sequence[Sequence[float]]]
"""The derivatives of all components of the right-hand side (rows) by all of the state (columns)."""
Inputs = tuple[list[Any], dict[int, Any]]
"""The values of all inputs, and the courses of those that move (`Courses.courses`)."""

MOST_ASTRAY = 1000
"""So often in one advance the derivatives may be no finite numbers."""


_MORE_STEPS = " Raise 'most' of the solver, or its tolerances, or take shorter communication steps."

_SWAPPING = threading.RLock()
"""Held while stdout is swapped, which is one for all threads: two that swap it in turns would put each
other's stand-in back for good. Re-entrant, since equations may run whatever they like. The price is that
units with CVODE in several threads go one after the other; under the interpreter's lock they mostly do
anyway."""


class Multistep:
    """A solver with a past: the steps before decide its order and the length of the next one.

    The past is of use only as long as the equations stay the same, so it starts anew when an input has
    changed. It cannot be saved either: after `forget`, and for a state that somebody has set, it starts
    anew too, so that a unit that was set back goes exactly the way it went before.
    """

    def __init__(self, solver: Cvode, inputs: Callable[[], Inputs], jacobian: Jacobian | None = None) -> None:
        # SUNDIALS writes warnings to stderr; what matters of them comes with the failure that follows.
        os.environ.setdefault("SUNLOGGER_WARNING_FILENAME", os.devnull)
        self.starts = 0
        """How often it has started anew."""
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
            max_num_steps=solver.most,
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
            if self._astray > MOST_ASTRAY:
                raise SolverError(f"CVODE cannot go on: {self._lost()}")

    def _lost(self) -> str:
        place, t = self._where
        return f"the derivative of state number {place + 1} is no finite number, last at {t:.9g}"

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
        # what an input that moves would be beyond `to`, nobody knows.
        moving = inputs[1]
        _, found = self._step(to, to, "normal", to if moving else None)
        self._at, self._x = to, found
        return found

    def _watched(self, t: float, to: float, watch: Watch) -> list[float]:
        """Step by step, none beyond `to`: what would be found there has not happened yet."""
        for _ in range(self._is.most):
            end, x = self._step(to, to, "onestep", to)
            stopped = watch.step(t, end, x, lambda: self._within)
            if stopped is not None:
                return stopped
            if end >= to:
                self._at, self._x = to, x
                return x
            t = end
        raise SolverError(
            f"CVODE did not reach {to:.9g} in {self._is.most:,} steps (at t = {t:.9g}).{_MORE_STEPS}"
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
        """Start anew at the next step."""
        self._x = None


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
