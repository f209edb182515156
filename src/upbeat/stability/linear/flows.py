"""How the states of a unit at the end of a step depend on those at its start and on its inputs' courses.

A flow is a matrix over the states, then the coefficients of all inputs that move, around the start of the
step: the states at its end are the flow times both. With it comes how well it is known: what is wrong with
the derivatives grows with how much happens in a step, and rounding with the number of products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, comb, factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import StepError
from upbeat.stability.linear.exponential import balanced, exponential, norm, size
from upbeat.stability.linear.jacobians import EXACT
from upbeat.units.solving.solvers import Cvode, DormandPrince, Solver
from upbeat.units.solving.tableau import DORMAND_PRINCE, Tableau

Array = npt.NDArray[np.float64]
Rates = Callable[[float, Array], tuple[Array, Array, Array]]
"""At a time and a state: the derivatives f, ∂f/∂x and ∂f/∂u."""

FINE = 0.1
"""Solvers that look after their own error are followed in steps of about this part of the fastest motion."""
MOST = 20_000
"""The most steps in which these are followed …"""
STAGES = 100_000
"""… and the most stages of solvers with steps of their own, where slopes are not the same everywhere."""
HALVED = 40
"""How often a step is halved until a solver would take it."""
SHARE = 0.1
"""Whoever asks how well an eigenvalue is known multiplies accuracies by 8 and more: those are of rounding
errors that add up, and this one is of a single kind."""
LEFT_OUT = 1e-3
"""Of the sixth power of such a step, at most, is what it leaves out: 1/600 - 1/720 for linear equations."""


class Flow(NamedTuple):
    """A flow, and how well its entries are known, relative to the size of all."""

    matrix: Array
    accuracy: float


@dataclass(frozen=True, slots=True)
class Moving:
    """The inputs that move: the place of each cell among all inputs, and its number of coefficients."""

    cells: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        return sum(count for _, count in self.cells)

    def values(self, tau: float, inputs: int) -> Array:
        """What every input cell is so long after the start, as a matrix over all coefficients."""
        matrix = np.zeros((inputs, self.size))
        column = 0
        for place, count in self.cells:
            matrix[place, column : column + count] = tau ** np.arange(count)
            column += count
        return matrix

    def shifted(self, tau: float) -> Array:
        """The matrix that gives the coefficients around a point so long after the start."""
        matrix = np.zeros((self.size, self.size))
        column = 0
        for _, count in self.cells:
            for k in range(count):
                for power in range(k, count):
                    matrix[column + k, column + power] = comb(power, k) * tau ** (power - k)
            column += count
        return matrix


def followed(
    tableau: Tableau, count: int, rates: Rates, t: float, to: float, x: Array, moving: Moving
) -> Array:
    """The flow through the steps of a solver, with derivatives taken wherever the solver takes them.

    It belongs to the numbers that the solver computes, not to the solution that they come close to.
    """
    size = len(x)
    matrix = np.hstack([np.eye(size), np.zeros((size, moving.size))])
    h = (to - t) / count
    for i in range(count):
        begin = t + i * h
        slopes: list[Array] = []
        stages: list[Array] = []
        for c, weights in zip(tableau.c, tableau.a, strict=True):
            at, state, row = begin + c * h, x, matrix
            for weight, slope, stage in zip(weights, slopes, stages, strict=True):
                if weight:
                    state, row = state + h * weight * slope, row + h * weight * stage
            rate, by_state, by_input = rates(at, state)
            slopes.append(rate)
            stage = by_state @ row
            stage[:, size:] += by_input @ moving.values(at - t, by_input.shape[1])
            stages.append(stage)
        for weight, slope, stage in zip(tableau.b, slopes, stages, strict=True):
            if weight:
                x, matrix = x + h * weight * slope, matrix + h * weight * stage
    return matrix


def stepped(
    tableau: Tableau, count: int, by_state: Array, by_input: Array, length: float, moving: Moving
) -> Array:
    """The same for constant matrices: all solver steps are alike, so they are a power of one."""
    size = len(by_state)

    def rates(_t: float, x: Array) -> tuple[Array, Array, Array]:
        return np.zeros(len(x)), by_state, by_input

    one = followed(tableau, 1, rates, 0.0, length / count, np.zeros(size), moving)
    if count == 1:
        return one
    lower = np.hstack([np.zeros((moving.size, size)), moving.shifted(length / count)])
    whole: Array = np.linalg.matrix_power(np.vstack([one, lower]), count)
    return whole[:size]


def exact(by_state: Array, by_input: Array, length: float, moving: Moving, slopes: float) -> Flow:
    """The flow of the solution itself, for constant matrices.

    By the exponential of one matrix that holds the states and the derivatives of all inputs. Adding up the
    integral of the inputs by quadrature instead goes wrong for stiff units. `slopes`: how well these
    matrices are known.
    """
    own = len(by_state)
    matrix = np.zeros((own + moving.size, own + moving.size))
    matrix[:own, :own] = by_state * length
    scale = np.ones(moving.size)
    column = 0
    for place, count in moving.cells:
        matrix[:own, own + column] = by_input[:, place] * length
        for k in range(count):
            scale[column + k] = factorial(k)
            if k + 1 < count:
                matrix[own + column + k, own + column + k + 1] = length
        column += count
    found: Array = exponential(matrix)[:own]
    found[:, own:] *= scale
    return Flow(found, slopes * max(1.0, size(matrix)))


def tolerated(solver: DormandPrince | Cvode, by_state: Array, length: float) -> float:
    """By how much, relative to its states, a solver that controls its own error may be wrong after `length`.

    Where one step passes for every state, and no longer one is allowed, that is the step's own error. Else
    each step may err by the tolerance; what comes of it at the end grows and decays as the states do.
    """
    own = balanced(by_state)[0]
    if not len(own) or not np.isfinite(own).all():
        return solver.rtol
    h = length if solver.longest is None else min(length, solver.longest)
    halved = 0
    while halved < HALVED:
        stage, estimate = _tried(own * h)
        if norm(estimate) <= solver.rtol:
            break
        h, halved = 0.5 * h, halved + 1
    count = ceil(length / h * (1.0 - 1e-9))
    through = exponential(own * h)
    error = 2.0 * norm(stage - through) if halved == 0 and isinstance(solver, DormandPrince) else solver.rtol
    total, steps = 1.0, 1
    while steps < count and np.isfinite(total):
        total *= 1.0 + norm(through)
        through, steps = through @ through, 2 * steps
    return min(error * total, 1e300) if np.isfinite(total) else 1e300


def _tried(matrix: Array) -> tuple[Array, Array]:
    """What one step of Dormand and Prince does to states, and its estimate of the error."""
    one = np.eye(len(matrix))
    slopes: list[Array] = []
    for weights in DORMAND_PRINCE.a:
        state = one + sum((w * k for w, k in zip(weights, slopes, strict=True)), np.zeros_like(one))
        slopes.append(matrix @ state)
    new = one + sum((w * k for w, k in zip(DORMAND_PRINCE.b, slopes, strict=True)), np.zeros_like(one))
    error = sum((w * k for w, k in zip(DORMAND_PRINCE.e, slopes, strict=True)), np.zeros_like(one))
    return new, error


def flow(
    solver: Solver,
    rates: Rates,
    t: float,
    to: float,
    x: Array,
    moving: Moving,
    *,
    constant: bool,
    ideal: bool,
    slopes: float,
) -> Flow:
    """What a unit with this solver makes of a step; `ideal`: as if it made no error of its own.

    Of solvers that control their own error nobody knows which steps they take: their flow is that of the
    solution, and known as well as their tolerance says. `slopes`: how well derivatives are known.
    """
    length = to - t
    _, by_state, by_input = rates(t, x)
    speed = size(by_state * length)
    if isinstance(solver, (DormandPrince, Cvode)) or ideal:
        blur = 0.0
        if isinstance(solver, (DormandPrince, Cvode)) and not ideal:
            blur = SHARE * tolerated(solver, by_state, length)
        if constant:
            found, own = exact(by_state, by_input, length, moving, slopes)
            return Flow(found, own + blur)
        count = min(MOST, max(4, ceil(speed / FINE)))
        left_out = LEFT_OUT * count * (speed / count) ** 6 + blur
        found = followed(DORMAND_PRINCE, count, rates, t, to, x, moving)
    else:
        count, left_out = solver.count(length), 0.0
        if constant:
            found = stepped(solver.tableau, count, by_state, by_input, length, moving)
        else:
            if count * len(solver.tableau.c) > STAGES:
                raise StepError(
                    f"{count:,} solver steps are too many to follow slopes through. Take shorter "
                    "communication steps, or fewer or longer solver steps",
                    unending=True,
                )
            found = followed(solver.tableau, count, rates, t, to, x, moving)
    return Flow(found, max(slopes * max(1.0, speed), EXACT * count) + left_out)
