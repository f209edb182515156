"""Random linear scenarios under random masters, and how fast their co-simulations really grow."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

import upbeat as up

STEPS = 10_000
SIZE, FLOOR, CEILING = 1e120, 1e3, 1e150
"""Runs begin so large, and are looked at within these bounds: below the tolerance of a loop solver (1e-10
beside 1) there is nothing left to solve, and a motion goes on in another way than it did before."""


@dataclass(frozen=True)
class Drawn:
    """A scenario whose units, connected, are stable, and a master for it."""

    scenario: up.Scenario
    step: float
    settings: dict[str, Any]

    @property
    def experiment(self) -> up.Experiment:
        return up.experiment(self.scenario, pace=self.step, until=STEPS * self.step, **self.settings)


def draw(turn: np.random.Generator) -> Drawn:
    """Two to four units with one to three states each; every unit sees one or two others."""
    while True:
        sizes = turn.integers(1, 4, turn.integers(2, 5))
        names = [f"unit{i}" for i in range(len(sizes))]
        direct = bool(turn.random() < 0.3)
        units, links, parts = {}, {}, []
        for i, size in enumerate(sizes):
            others = [j for j in range(len(sizes)) if j != i]
            chosen = turn.choice(others, min(len(others), int(turn.integers(1, 3))), replace=False)
            a = turn.normal(size=(size, size))
            a -= (np.linalg.eigvals(a).real.max() + turn.uniform(0.05, 1.0)) * np.eye(size)
            b = turn.normal(size=(size, len(chosen)))
            c = turn.normal(size=size)
            d = turn.uniform(-0.6, 0.6, len(chosen)) if direct else np.zeros(len(chosen))
            units[names[i]] = unit(a, b, c, d, turn)
            links |= {f"{names[i]}.u{k}": f"{names[j]}.y" for k, j in enumerate(chosen)}
            parts.append((a, b, c, d, chosen))
        rates = coupled(parts)
        if rates is None or rates.real.max() > -0.02:
            continue
        step = float(np.exp(turn.uniform(log(0.03), log(8.0)))) / float(np.abs(rates).max())
        return Drawn(up.Scenario(units=units, connections=links), step, master(names, turn))


def unit(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, turn: np.random.Generator) -> up.Ode:
    """x' = a·x + b·u with y = c·x + d·u, and a solver by chance."""
    states = [f"x{i}" for i in range(len(a))]
    inputs = [f"u{k}" for k in range(b.shape[1])]

    def total(weights: np.ndarray, names: list[str]) -> str:
        return " + ".join(f"({float(w)!r})*{n}" for w, n in zip(weights, names, strict=True))

    rates = {name: f"{total(a[i], states)} + {total(b[i], inputs)}" for i, name in enumerate(states)}
    given = total(c, states) + (f" + {total(d, inputs)}" if d.any() else "")
    solver = turn.choice(np.array([up.Euler(5), up.Midpoint(2), up.RK4(), up.RK4(3)], dtype=object))
    start = {name: float(value) for name, value in zip(states, SIZE * turn.normal(size=len(a)), strict=True)}
    outputs = {"y": given, **{name: name for name in states}}
    guesses = {name: {"start": SIZE} for name in inputs}  # where the search for a loop's solution begins
    return up.Ode(rates, inputs=guesses, outputs=outputs, start=start, solver=solver)


def coupled(parts: list[Any]) -> np.ndarray | None:
    """The eigenvalues of all units connected without delay; None where their outputs have no solution."""
    first = np.cumsum([0, *(len(a) for a, *_ in parts)])
    size, count = int(first[-1]), len(parts)
    whole, gains = np.zeros((size, size)), np.zeros((size, count))
    reads, mixes = np.zeros((count, size)), np.zeros((count, count))
    for i, (a, b, c, d, chosen) in enumerate(parts):
        own = slice(first[i], first[i + 1])
        whole[own, own], reads[i, own] = a, c
        gains[own, chosen] = b
        mixes[i, chosen] = d
    if np.linalg.cond(np.eye(count) - mixes) > 50:
        return None
    return np.linalg.eigvals(whole + gains @ np.linalg.solve(np.eye(count) - mixes, reads))


def master(names: list[str], turn: np.random.Generator) -> dict[str, Any]:
    """A coupling in some order, and what inputs do."""
    outputs = "lagged" if turn.random() < 0.3 else "solved"
    order = tuple(turn.permutation(names).tolist())
    inner = up.Jacobi(outputs) if turn.random() < 0.5 else up.GaussSeidel(order, outputs)
    kinds = [up.Hold(), up.Linear(), up.Polynomial(2), up.Continuous(), up.Smooth()]
    kind = turn.random()
    coupling: Any = inner
    if kind < 0.2:
        coupling = up.Iterated(inner, corrections=int(turn.integers(1, 4)))
    elif kind < 0.35:
        coupling = up.MultiRate({names[0]: int(turn.integers(2, 4))})
    return {"coupling": coupling, "inputs": kinds[turn.integers(len(kinds))]}


def growth(drawn: Drawn) -> float:
    """The slope of log‖x‖ per step over the second half of a run, as far as numbers can show it."""
    try:
        trace = drawn.experiment.run()
    except up.RunError as grown:  # out of all bounds
        trace = grown.trace
    states = [name for name in trace.names if not name.endswith(".y")]
    norms = np.max(np.abs([trace[name] for name in states]), axis=0)
    outside = np.flatnonzero((norms < FLOOR) | (norms > CEILING) | ~np.isfinite(norms))
    last = int(outside[0]) if len(outside) else len(norms)
    window = np.arange(last // 2, last)
    return float(np.polyfit(window, np.log(norms[window]), 1)[0])
