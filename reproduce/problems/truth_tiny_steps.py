"""Random ticks and events at any distance from other communication points: no step is too short for a run.

Two oscillators, coupled by a spring, that nothing disturbs but velocities that jump at known times: what is
right is a matrix exponential from jump to jump, in NumPy alone. Every case has a pattern of instants, some of
them a part from 1e-9 to 1 of a step behind or before a communication point or another instant; an
approximation of inputs; a coupling; and a pace. What happens at the instants:

* ticks: a discrete-event unit that nobody listens to has an event, so that there is a communication point;
* kicks: such a unit sends an event that changes a velocity;
* events: a unit (a clock) gets to a threshold, and the scenario changes a velocity, as the pace finds it;
* inside: the same, but the event is one of the equations that jump (its condition is about the time).

The error, the largest of both positions over all rows, is compared with that of the plain run: steps of one
size (or the same error control) without ticks, and with all jumps on points of the grid, where nothing is
short. Paces that find events land within 1e-8 of a step: an event that comes later than it should, by the
usual 1e-5 of a step, is an error of its own, and may be ten times that of good inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import upbeat as up

STEPS = 60
"""How long a case is, in steps."""
FLOOR = 3e-8
"""Errors of this size, beside positions of about 1, are those of the units' own solvers."""
SOLVER = up.DormandPrince(rtol=1e-11, atol=1e-13)
APPROXIMATIONS: tuple[Any, ...] = (
    up.Hold(),
    up.Linear(),
    *(up.Polynomial(degree) for degree in range(1, 6)),
    up.Hermite(1),
    up.Hermite(2),
    up.Continuous(),
    up.Smooth(),
)
TICKED = ("fixed", "event_driven", "pattern", "error_control")
NESTED = ("nest_fixed", "nest_event_driven")
FOUND = ("revised", "look_ahead", "revised_look_ahead")

Array = npt.NDArray[np.float64]


class Case(NamedTuple):
    """All that a run needs; `size` is that of a step, `kicks` are instants with what they add to
    velocities."""

    size: float
    springs: tuple[float, float, float]
    damping: float
    approximation: Any
    coupling: str
    pace: str
    way: str
    ticks: tuple[float, ...]
    kicks: tuple[tuple[float, float, float], ...]

    @property
    def until(self) -> float:
        return STEPS * self.size

    @property
    def plain(self) -> Case:
        """The same at steps of one size, all jumps where these end."""
        snapped: dict[float, tuple[float, float]] = {}
        for t, v, w in self.kicks:
            point = max(1, round(t / self.size)) * self.size
            before = snapped.get(point, (0.0, 0.0))
            snapped[point] = (before[0] + v, before[1] + w)
        pace = self.pace if self.pace in ("error_control", *NESTED) else "fixed"
        return self._replace(
            pace=pace, way="ticks", ticks=(), kicks=tuple((t, *vw) for t, vw in sorted(snapped.items()))
        )

    def __str__(self) -> str:
        seen = ", ".join(f"{t / self.size:.12g}" for t in (*self.ticks, *(kick[0] for kick in self.kicks)))
        how = f"{self.approximation}, {self.coupling}, {self.pace}"
        return f"{how}, {self.way} at {seen} steps of {self.size:.4g} s"


def drawn(turn: np.random.Generator) -> Case:
    """A random case."""
    size = float(turn.uniform(0.03, 0.12))
    way = str(turn.choice(["ticks", "ticks", "kicks", "events", "inside"]))
    paces = {"ticks": (*TICKED, *NESTED), "kicks": TICKED, "events": FOUND, "inside": FOUND[1:]}
    pace = str(turn.choice(paces[way]))
    instants = _instants(turn, size, clustered=way in ("ticks", "kicks"))
    kicks: list[tuple[float, float, float]] = []
    if way != "ticks":
        kicks = [(t, *map(float, turn.uniform(-1, 1, 2))) for t in instants]
    return Case(
        size=size,
        springs=tuple(map(float, turn.uniform([0.5, 0.5, 0.1], [4.0, 4.0, 1.0]))),
        damping=float(turn.uniform(0.05, 0.4)),
        approximation=APPROXIMATIONS[int(turn.integers(len(APPROXIMATIONS)))],
        coupling=str(turn.choice(["jacobi", "gauss_seidel"])),
        pace=pace,
        way=way,
        ticks=tuple(instants) if way == "ticks" else (),
        kicks=tuple(kicks),
    )


def _instants(turn: np.random.Generator, size: float, *, clustered: bool) -> list[float]:
    """Times at all distances from the grid and, if `clustered`, from each other."""
    found: list[float] = []
    for _ in range(int(turn.integers(1, 7))):
        away = size * 10.0 ** turn.uniform(-9, 0)
        near = size * float(turn.integers(3, STEPS - 3))
        if found and clustered and turn.random() < 0.4:
            near, away = found[-1], abs(away)
        found.append(near + (away if turn.random() < 0.6 else -away))
    ordered = sorted(t for t in found if 0 < t < (STEPS - 1) * size)
    apart = 1e-10 * size if clustered else 4 * size  # what follows an event is looked at before the next one
    kept: list[float] = []
    for t in ordered:
        if not kept or t - kept[-1] > apart:
            kept.append(float(t))
    return kept or [5.5 * size]


# ---------------------------------------------------------------- what is right


def exact(case: Case, times: Array) -> Array:
    """Both positions at these times (rows in their order; at a jump they are continuous)."""
    k1, k2, c = case.springs
    d = case.damping
    matrix = np.array(
        [[0, 1, 0, 0], [-k1 - c, -d, c, 0], [0, 0, 0, 1], [c, 0, -k2 - c, -d]], dtype=np.float64
    )
    values, vectors = np.linalg.eig(matrix)
    inverse = np.linalg.inv(vectors)

    def moved(x: Array, t: Array) -> Array:
        modes = inverse @ x.astype(complex)
        return np.asarray((vectors @ (np.exp(np.outer(values, t)) * modes[:, None])).real)

    x, begun = np.array([1.0, 0.0, -0.5, 0.0]), 0.0
    found = np.empty((2, len(times)))
    for t, v, w in (*case.kicks, (np.inf, 0.0, 0.0)):
        some = (times >= begun) & (times < t)
        found[:, some] = moved(x, times[some] - begun)[[0, 2]]
        if t < np.inf:
            x = moved(x, np.array([t - begun]))[:, 0] + np.array([0.0, v, 0.0, w])
            begun = t
    return found


# ---------------------------------------------------------------- the run


def experiment(case: Case) -> up.Experiment:
    """The case, ready to run."""
    k1, k2, c = case.springs
    values = {"d": case.damping, "c": c}

    def oscillator(x: float, k: float, jumps: list[tuple[float, float]]) -> up.Ode:
        written: dict[str, Any] = {
            "states": {"x": "v", "v": "-k*x - d*v - c*(x - u)"},
            "start": {"x": x, "v": 0.0},
            "inputs": {"u": {}},
            "outputs": {"x": "x", "v": "v"},
            "parameters": {**values, "k": k},
            "solver": SOLVER,
        }
        if case.way in ("ticks", "kicks") and case.kicks:
            written["inputs"]["kick"] = {"event": True, "kind": "real"}
            written["events"] = {"kicked": {"on": "kick", "then": {"v": "v + kick"}}}
        if case.way == "inside":
            written["events"] = {
                f"kicked{i}": {"when": f"time >= {t!r}", "then": {"v": f"v + {by!r}"}}
                for i, (t, by) in enumerate(jumps)
            }
        return up.Ode(**written)

    kicks = case.kicks
    units: dict[str, Any] = {
        "a": oscillator(1.0, k1, [(t, v) for t, v, _ in kicks]),
        "b": oscillator(-0.5, k2, [(t, w) for t, _, w in kicks]),
    }
    links: dict[str, Any] = {"a.u": "b.x", "b.u": "a.x"}
    events: dict[str, Any] = {}
    if case.ticks:
        units["ticks"] = up.Schedule(list(case.ticks))
    if kicks and case.way in ("ticks", "kicks"):
        units["one"] = up.Schedule([t for t, _, _ in kicks], [v for _, v, _ in kicks])
        units["two"] = up.Schedule([t for t, _, _ in kicks], [w for _, _, w in kicks])
        links |= {"a.kick": "one.event", "b.kick": "two.event"}
    if case.way == "events":
        units["clock"] = up.Ode({"t": "1"}, solver=up.RK4())
        for i, (t, v, w) in enumerate(kicks):
            then = {"a.v": f"a.v + {v!r}", "b.v": f"b.v + {w!r}"}
            events[f"kick{i}"] = {"when": f"clock.t >= {t!r}", "then": then}
    coupling = up.GaussSeidel() if case.coupling == "gauss_seidel" else up.Jacobi()
    approximation = case.approximation
    if case.pace.startswith("nest"):  # both oscillators, in steps of their own between the ticks outside
        inner = up.Fixed(case.size / 3) if case.pace == "nest_fixed" else up.EventDriven(case.size / 3)
        pair = up.Scenario({u: units.pop(u) for u in "ab"}, links, outputs={"xa": "a.x", "xb": "b.x"})
        units["pair"] = up.Nested(pair, up.Master(inner, coupling, approximation), flatten=False)
        links, coupling, approximation = {}, up.Jacobi(), up.Hold()
    scenario = up.Scenario(units, links, events=events)
    return up.experiment(
        scenario,
        pace=_pace(case),
        until=case.until,
        coupling=coupling,
        inputs=approximation,
        record=positions(case),
    )


def positions(case: Case) -> list[str]:
    """What a trace calls both positions."""
    return ["pair.xa", "pair.xb"] if case.pace.startswith("nest") else ["a.x", "b.x"]


def _pace(case: Case) -> Any:
    size, tolerance = case.size, 1e-8 * case.size
    ahead = up.LookAhead(size, tolerance=tolerance)
    return {
        "fixed": up.Fixed(size),
        "event_driven": up.EventDriven(size),
        "pattern": up.Pattern([size, 0.37 * size, 1e-6 * size]),
        "error_control": up.ErrorControl(1e-4, method="milne", longest=4 * size),
        "look_ahead": ahead,
        "revised": up.Revised(size, tolerance=tolerance),
        "revised_look_ahead": up.Revised(ahead, tolerance=tolerance),
        "nest_fixed": up.Fixed(size),
        "nest_event_driven": up.Fixed(size),
    }[case.pace]


def error(case: Case) -> tuple[float, str]:
    """The largest of both positions over all rows; infinity for a run that fails, and why it did."""
    try:
        trace = experiment(case).run()
    except up.UpbeatError as failed:
        return float("inf"), str(failed)
    times = np.asarray(trace.time, dtype=np.float64)
    truth = exact(case, times)
    found = np.abs(np.array([trace[name] for name in positions(case)]) - truth)
    return float(np.nan_to_num(found, nan=np.inf).max()), ""


def judged(seed: int, number: int) -> dict[str, Any]:
    """One case: its error, that of its plain run, and the ratio of both (None: there is nothing to compare
    with)."""
    case = drawn(np.random.default_rng([seed, number]))
    (usual, why), (here, failed) = error(case.plain), error(case)
    ratio = None if np.isinf(usual) else here / (usual + FLOOR)
    found = {"number": number, "pace": case.pace, "case": str(case), "error": here, "plain_error": usual}
    return found | {"ratio": ratio, "why": why or failed}


def tiny_steps(
    n: int, seed: int, progress: Callable[[int, int], None] | None = None, processes: int = 2
) -> dict[str, Any]:
    """The worst ratio of the errors of `n` random cases and of their plain runs, and which cases are the
    worst."""
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor(processes) as pool:
        for done in pool.map(judged, repeat(seed, n), range(n), chunksize=8):
            results.append(done)
            if progress is not None:
                progress(len(results), n)
    return tally(results)


def tally(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratios in all and by pace, the worst cases, and those with nothing to compare with."""
    clear = sorted((r for r in results if r["ratio"] is not None), key=lambda r: -r["ratio"])
    ratios = [r["ratio"] for r in clear]
    return {
        "n": len(results),
        "worst_ratio": round(max(ratios, default=0.0), 3),
        "median_ratio": round(float(np.median(ratios)), 3) if ratios else None,
        "above_3": sum(ratio > 3.0 for ratio in ratios),
        "plain_run_failed": [r for r in results if r["ratio"] is None],
        "worst_by_pace": {
            pace: round(max(r["ratio"] for r in clear if r["pace"] == pace), 3)
            for pace in (*TICKED, *NESTED, *FOUND)
            if any(r["pace"] == pace for r in clear)
        },
        "worst": clear[:5],
    }
