"""The engine of `examples/engine` in all the ways in which `reproduce/engine.py` runs it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up

FILE = Path(__file__).parents[2] / "examples" / "engine" / "engine.toml"
METHODS = ("sv", "ev", "refined")
TORQUE, PRESSURE = "air.torque", "air.p_im_out"
EXHAUST = "air.p_em_out"
SIGNALS = (TORQUE, PRESSURE, EXHAUST, "air.oxygen")
"""What table 1 of the paper compares."""
ENTERS, LEAVES = "air.w_compressor", "air.w_tail"
CYCLE = 0.06
"""Seconds: two turns of the crankshaft."""
GRID = 25e-6
"""Seconds between two samples of the reference: every communication step below is a multiple."""
FINE, COARSE = 1e-8, 1e-7
"""Tolerances of the reference, and of the one that says whether it is stable."""


def tolerance(rtol: float) -> up.DormandPrince:
    """The error-controlled solver, with absolute tolerances that suit grams, kilowatts and kelvins."""
    return up.DormandPrince(rtol=rtol, atol=rtol / 100)


def loaded(until: float, **settings: Any) -> up.Experiment:
    return up.load(FILE, until=until, record=(*SIGNALS, ENTERS, LEAVES), jumps=False, jit=True, **settings)


def unsplit(plan: up.Experiment, rtol: float, pace: float) -> up.Experiment:
    """All units merged into one, with one solver that meets all events."""
    return plan.monolithic(tolerance(rtol), pace)


@dataclass(frozen=True)
class Split:
    """One of the three methods at a communication step, for as many threads as `cores`.

    Inputs are held over a step, as in the paper, unless said otherwise (the file has them go on as they did).
    """

    method: str
    step: float
    cores: int = 1
    inputs: up.Hold | up.Linear = field(default_factory=up.Hold)

    def of(self, plan: up.Experiment) -> up.Experiment:
        master = up.Master(up.Fixed(self.step), up.Refined(self.method), self.inputs)  # type: ignore[arg-type]
        return plan.with_(master=master, cores=self.cores)


LATE = tuple(f"c{number}.{port}" for number in (1, 2, 3, 4) for port in ("p_im", "p_em"))
"""The pressures that cylinders are told of by the manifolds."""
VARIANTS = {
    "delays": {"coupling": up.Refined(delays=LATE), "inputs": up.Hold()},
    "linear": {"inputs": up.Linear()},
}
"""What else there is to "refined": these pressures late on purpose, and inputs that go on as they did."""


def variant(plan: up.Experiment, name: str, step: float) -> up.Experiment:
    """The refined method in one of the `VARIANTS`."""
    return plan.with_(master=up.Master(up.Fixed(step), **{"coupling": up.Refined(), **VARIANTS[name]}))


@dataclass(frozen=True)
class Errors:
    """In percent: the mean difference over the mean reference, and formula (6) of the paper."""

    mean: float
    six: float


def errors(trace: up.Trace, truth: up.Trace, signal: str) -> Errors:
    """Over the points that both have in common; `truth` has one every `GRID`."""
    places = np.round(trace.time / GRID).astype(int)
    assert np.allclose(places * GRID, trace.time, atol=1e-9), "off the grid of the reference"
    exact, found = truth[signal][places], trace[signal]
    off = np.abs(found - exact)
    return Errors(float(100 * off.mean() / np.abs(exact).mean()), float(100 * np.mean(off / np.abs(exact))))


def made(trace: up.Trace, truth: up.Trace) -> float:
    """Percent of gas that comes from nowhere: leaving over entering, against the same in one piece.

    Over the last whole cycles of the second half, where there is one, so that nothing but the coupling
    can make a difference.
    """
    cycles = max(int(trace.time[-1] / 2 / CYCLE + 1e-9), 1)
    late = trace.time > trace.time[-1] - cycles * CYCLE + 1e-9
    places = np.round(trace.time[late] / GRID).astype(int)
    here = trace[LEAVES][late].mean() / trace[ENTERS][late].mean()
    exact = truth[LEAVES][places].mean() / truth[ENTERS][places].mean()
    return float(100 * (here / exact - 1))


def interleaved(plans: Mapping[Any, up.Experiment], rounds: int, note: Any) -> dict[Any, float]:
    """The least wall time of each plan, without building it: in turns, so that all meet the same machine."""
    best = dict.fromkeys(plans, float("inf"))
    for number in range(rounds):
        note(f"round {number + 1} of {rounds}")
        for name, plan in plans.items():
            with plan.open() as run:
                began = time.perf_counter()
                run.finish()
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def mechanism(whole: up.Trace, parts: up.Trace, until: float) -> list[tuple[str, int, int, float]]:
    """For each solver: stops at events, steps, and the mean length of a step in microseconds."""
    rows = {"unsplit": whole.info["solvers"]["monolith"], **parts.info["solvers"]}
    return [
        (name, counts["stops"], counts["steps"], 1e6 * until / counts["steps"])
        for name, counts in rows.items()
    ]


def multistep(until: float) -> dict[str, float]:
    """Processor seconds in one piece and in parts (refined, 500 µs) with CVODE, a solver like the paper's."""
    solver = up.Cvode(rtol=1e-4, atol=1e-6)
    plan = up.load(FILE, until=until, record=[TORQUE])
    parts = plan.scenario
    units = {name: up.Ode(**{**model.to_spec(), "solver": solver}) for name, model in parts.units.items()}
    links = {link.target: link.text for link in parts.connections}
    split = plan.with_(scenario=up.Scenario(units, links, inputs=parts.inputs))
    master = up.Master(up.Fixed(500e-6), up.Refined())
    plans = {"unsplit": plan.monolithic(solver, until), "refined": split.with_(master=master)}
    found = {}
    for name, made in plans.items():
        with made.open() as run:
            began = time.process_time()
            run.finish()
            found[name] = time.process_time() - began
    return found
