"""How fast small deviations grow because inputs are extrapolated: an estimate before the run.

Inputs that continue what they follow by polynomials make a coupling unstable at steps at which held ones
would not: a strong damper between two units, with a cubic, from half of its time constant on. From the
equations of all units, made linear at the start values, the matrix of one step is computed in which all units
advance side by side; its spectral radius is the growth per step. Other units (FMUs, Python) count as standing
still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import UpbeatError
from upbeat.core.expr import differentiate, evaluate, names
from upbeat.core.ports import Kind
from upbeat.master.events.prediction import cubic, quintic, straight
from upbeat.master.inputs.approximation import Approximation, Hermite, Linear
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.data import Equations
from upbeat.units.process import bare

Matrix = npt.NDArray[np.float64]
DEGREE = 5
MOST = 240
"""A larger system is not looked at: the matrices are dense."""
LARGEST = 1e9
"""Nothing is said about systems with larger slopes."""
SWEEPS = 4
"""So often outputs are handed on, to find out what inputs are at the start."""


class Linearised(NamedTuple):
    """x' = own·x + by·u with the inputs u = back·x, all of them at the start; and the names of the inputs."""

    own: Matrix
    by: Matrix
    back: Matrix
    inputs: tuple[str, ...]


def linearised(closed: Scenario) -> Linearised | None:
    """The equations of all units around the start; None where that cannot be said."""
    try:
        return _linearised(closed)
    except (UpbeatError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None  # the run will say what is wrong, if something is


def _linearised(closed: Scenario) -> Linearised | None:
    found: dict[str, Equations] = {}
    for unit, model in closed.units.items():
        equations = getattr(bare(model), "equations", None)
        if isinstance(equations, Equations):
            found[unit] = equations
    links = [c for c in closed.connections if c.unit in found]
    signals = [port for e in found.values() for port in (*e.inputs, *(o.port for o in e.outputs))]
    if any(port.size is not None for port in signals):
        return None
    links = [c for c in links if next(p for p in found[c.unit].inputs if p.name == c.port).kind is Kind.REAL]
    values: dict[str, list[float]] = {}
    places: dict[str, tuple[int, int]] = {}  # of an input: the unit's arguments, and its number
    outputs: list[str] = []
    states = 0
    for unit, e in found.items():
        given = [float(value) for port in e.inputs for value in port.initial]
        values[unit] = [0.0, *e.start, *given, *e.values]
        places |= {f"{unit}.{port.name}": (1 + len(e.start), k) for k, port in enumerate(e.inputs)}
        outputs += [f"{unit}.{o.port.name}" for o in e.outputs]
        states += len(e.start)
    targets = [c.target for c in links]
    if not states or not targets or states + (DEGREE + 1) * len(targets) > MOST:
        return None
    computed = {unit: e.computed.python() for unit, e in found.items()}
    rates = {unit: e.derivatives.python() for unit, e in found.items() if e.derivatives is not None}
    known = {name: 0.0 for c in links for name in names(c.cells[0])}
    known |= {name: float(value) for name, value in _others(closed, found)}
    for _ in range(SWEEPS):
        for unit, e in found.items():
            for output, value in zip(e.outputs, computed[unit](values[unit]), strict=True):
                known[f"{unit}.{output.port.name}"] = value
        for c in links:
            first, k = places[c.target]
            values[c.unit][first + k] = evaluate(c.cells[0], known)
    own, by = np.zeros((states, states)), np.zeros((states, len(targets)))
    out, through = np.zeros((len(outputs), states)), np.zeros((len(outputs), len(targets)))
    row = line = 0
    for unit, e in found.items():
        n, mine = len(e.start), [j for j, c in enumerate(links) if c.unit == unit]
        cells = [*range(1, 1 + n), *(sum(places[targets[j]]) for j in mine)]
        for function, to, size, at in (
            (rates.get(unit), (own, by), n, row), (computed[unit], (out, through), len(e.outputs), line)
        ):  # fmt: skip
            if function is not None and size:
                slopes = _slopes(function, values[unit], cells)
                to[0][at : at + size, row : row + n] = slopes[:, :n]
                to[1][at : at + size, mine] = slopes[:, n:]
        row, line = row + n, line + len(e.outputs)
    mixes = np.zeros((len(targets), len(outputs)))
    place = {name: k for k, name in enumerate(outputs)}
    for j, c in enumerate(links):
        for name in names(c.cells[0]) & place.keys():
            mixes[j, place[name]] = evaluate(differentiate(c.cells[0], name), known)
    back: Matrix = np.asarray(np.linalg.solve(np.eye(len(targets)) - mixes @ through, mixes @ out), float)
    used = [j for j in range(len(targets)) if by[:, j].any()]  # what functions do is seen at instants only
    made = Linearised(own, by[:, used], back[used], tuple(targets[j] for j in used))
    return made if all((np.abs(part) < LARGEST).all() for part in made[:3]) else None


def _others(closed: Scenario, found: Mapping[str, Equations]) -> list[tuple[str, Any]]:
    """What everybody else gives out, and scenario inputs: at the start."""
    ports = [
        (f"{unit}.{port.name}", port)
        for unit, model in closed.units.items()
        if unit not in found
        for port in model.ports
    ]
    ports += [(name, port) for name, (_, port) in closed.free_inputs.items()]
    return [
        (name, port.initial[0])
        for name, port in ports
        if port.initial and isinstance(port.initial[0], (int, float))
    ]


def _slopes(
    function: Callable[[Sequence[float]], list[float]], at: list[float], cells: Sequence[int]
) -> Matrix:
    """By central differences."""
    columns = []
    for cell in cells:
        step = 1e-5 * max(abs(at[cell]), 1e-2)
        ends = []
        for sign in (1.0, -1.0):
            moved = list(at)
            moved[cell] += sign * step
            ends.append(np.array(function(moved), float))
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.array(columns).T.reshape(-1, len(cells))


def growth(system: Linearised, step: float) -> Callable[[Mapping[str, Approximation]], float]:
    """A function that gives the spectral radius of a step with some approximations; other inputs are held."""
    n, m = len(system.own), len(system.inputs)
    whole = system.own + system.by @ system.back
    known = [system.back, system.back @ whole, system.back @ whole @ whole]
    size = n + (DEGREE + 1) * m
    chain = np.zeros((size, size))
    chain[:n, :n], chain[:n, n : n + m] = system.own, system.by
    for k in range(DEGREE):
        first = n + k * m
        chain[first : first + m, first + m : first + 2 * m] = np.eye(m)
    moved = _exponential(chain * step)[:n]
    parts = [factorial(k) * moved[:, n + k * m : n + (k + 1) * m] for k in range(DEGREE + 1)]

    def radius(ways: Mapping[str, Approximation]) -> float:
        now, before = np.zeros((DEGREE + 1, m, n)), np.zeros((DEGREE + 1, m, n))
        for j, name in enumerate(system.inputs):
            for order, (new, old) in enumerate(_weights(ways.get(name), step)):
                for k in range(DEGREE + 1):
                    now[k, j] += new[k] * known[order][j]
                    before[k, j] += old[k] * known[order][j]
        map_ = np.zeros((2 * n, 2 * n))
        map_[:n, :n], map_[n:, :n] = moved[:, :n], np.eye(n)
        for k, part in enumerate(parts):
            map_[:n, :n] += part @ now[k]
            map_[:n, n:] += part @ before[k]
        return float(np.abs(np.linalg.eigvals(map_)).max()) if np.isfinite(map_).all() else float("inf")

    return radius


def exact_growth(system: Linearised, step: float) -> float:
    """What it is without any coupling error."""
    largest = float(np.linalg.eigvals(system.own + system.by @ system.back).real.max()) * step
    return float(np.exp(largest)) if isfinite(largest) and largest < 700 else float("inf")


def _weights(way: Approximation | None, h: float) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """By order of derivative: what its value now, and the one a step ago, give to the coefficients."""
    unit = ((1.0, 0.0), (0.0, 1.0))
    nothing = (0.0, 0.0)
    if way == Linear():
        return [(straight(unit[0], h), straight(unit[1], h))]
    if way == Hermite(1):
        return [
            (cubic(unit[0], nothing, h), cubic(unit[1], nothing, h)),
            (cubic(nothing, unit[0], h), cubic(nothing, unit[1], h)),
        ]
    if way == Hermite(2):
        return [
            (quintic(unit[0], nothing, nothing, h), quintic(unit[1], nothing, nothing, h)),
            (quintic(nothing, unit[0], nothing, h), quintic(nothing, unit[1], nothing, h)),
            (quintic(nothing, nothing, unit[0], h), quintic(nothing, nothing, unit[1], h)),
        ]
    held = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return [(held, (0.0,) * (DEGREE + 1))]


def _exponential(matrix: Matrix) -> Matrix:
    """exp(matrix), by its series for a small part of it, squared again and again."""
    norm = float(np.abs(matrix).sum(axis=1).max())
    halvings = max(0, int(np.ceil(np.log2(max(norm, 1e-300)))) + 2)
    part = matrix / 2.0**halvings
    term = np.eye(len(matrix))
    total = term.copy()
    for k in range(1, 16):
        term = term @ part / k
        total += term
    for _ in range(halvings):
        total = total @ total
    return total
