"""Random two-mass systems, given a step and events and nothing else, against the exact solution.

Two masses under a ceiling (two_mass.py has the system) with random masses, springs, dampers, restitution and
starts, in steps of random size. The motion between events is linear, so the reference is the exponential of a
matrix, and events are roots of its conditions: it shares nothing with the engines that are judged.

A run is *right* if the same events happen in the same order, none is missing or extra, and each is within
0.1 s. It is *silent* if its summary warns of nothing. Systems in which a contact comes to rest are set aside.

The same systems as black boxes: co-simulation FMUs (tests/fmus/mass.c) that can only go forward, tell of
nothing but places and velocities, and deal with their events inside.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import upbeat as up
from problems.black_boxes import LINKS, happened

UNTIL, HALF, GRAVITY, NEAR = 20.0, 0.55, 9.81, 0.1
GRID, REST, MOST = 1e-3, 0.02, 60
BOXES = 40
CLOSER = {
    "masses": ("upper.x - lower.x <= 1.1 and upper.v < lower.v"),
    "ceiling": ("upper.x >= -0.55 and upper.v > 0"),
}

TESTS = Path(__file__).parents[2] / "tests"

EventTimes = list[tuple[str, float]]
Counting = Callable[[up.Trace], EventTimes]


@dataclass(frozen=True)
class System:
    """A two-mass system, where it starts, and the communication step."""

    m1: float
    m2: float
    k1: float
    k2: float
    d1: float
    d2: float
    e: float
    start: tuple[float, float, float, float]
    step: float

    def scenario(self) -> up.Scenario:
        """As units of equations, with the events between them."""
        solver = up.DormandPrince(rtol=1e-10, atol=1e-12)
        values = {"k2": self.k2, "d2": self.d2, "g": GRAVITY}
        x1, v1, x2, v2 = self.start
        upper = up.Ode(
            {"x": "v", "v": "(-(k1 + k2)*x - (d1 + d2)*v + k2*x2 + d2*v2)/m - g"},
            inputs=["x2", "v2"],
            parameters={**values, "m": self.m1, "k1": self.k1, "d1": self.d1},
            start={"x": x1, "v": v1},
            solver=solver,
        )
        lower = up.Ode(
            {"x": "v", "v": "(-k2*(x - x1) - d2*(v - v1))/m - g"},
            inputs=["x1", "v1"],
            parameters={**values, "m": self.m2},
            start={"x": x2, "v": v2},
            solver=solver,
        )
        share = f"{1 + self.e!r}/(upper.m + lower.m)*(lower.v - upper.v)"
        then = {"upper.v": f"upper.v + lower.m*{share}", "lower.v": f"lower.v - upper.m*{share}"}
        events = {
            "masses": {"when": CLOSER["masses"], "then": then},
            "ceiling": {"when": CLOSER["ceiling"], "then": {"upper.v": f"-{self.e!r}*upper.v"}},
        }
        return up.Scenario({"upper": upper, "lower": lower}, LINKS, events=events)

    def boxes(self, fmus: Mapping[str, Path]) -> up.Scenario:
        """As black boxes; of the events no more than when they happen."""
        x1, v1, x2, v2 = self.start
        shared = {"k1": self.k1, "k2": self.k2, "d1": self.d1, "d2": self.d2, "e": self.e}
        values = {
            "upper": {"x": x1, "v": v1, "m": self.m1, "other": self.m2, **shared},
            "lower": {"x": x2, "v": v2, "m": self.m2, "other": self.m1, **shared},
        }
        units = {name: up.Fmu(path, parameters=values[name]) for name, path in fmus.items()}
        return up.Scenario(units, LINKS, events={name: {"when": when} for name, when in CLOSER.items()})


class Reference:
    """The exact motion: x(t) = rest + V·exp(λt)·c between events. `usable`: no contact comes to rest."""

    def __init__(self, system: System) -> None:
        s = system
        matrix = np.array(
            [
                [0, 1, 0, 0],
                [-(s.k1 + s.k2) / s.m1, -(s.d1 + s.d2) / s.m1, s.k2 / s.m1, s.d2 / s.m1],
                [0, 0, 0, 1],
                [s.k2 / s.m2, s.d2 / s.m2, -s.k2 / s.m2, -s.d2 / s.m2],
            ]
        )
        self._rest = np.linalg.solve(matrix, np.array([0, GRAVITY, 0, GRAVITY]))
        self._rates, self._modes = np.linalg.eig(matrix)
        self._back = np.linalg.inv(self._modes)
        self.events: EventTimes = []
        self._begun: list[float] = []
        self._parts: list[np.ndarray] = []
        t, state = 0.0, np.array(system.start)
        while True:
            self._begun.append(t)
            self._parts.append(self._back @ (state - self._rest))
            found = self._first(self._parts[-1], UNTIL - t)
            if found is None:
                break
            kind, wait = found
            t += wait
            state = self._at(self._parts[-1], np.array([wait]))[:, 0]
            x1, v1, x2, v2 = state
            if kind == "ceiling":
                state = np.array([x1, -s.e * v1, x2, v2])
            else:
                share = (1 + s.e) / (s.m1 + s.m2) * (v2 - v1)
                state = np.array([x1, v1 + s.m2 * share, x2, v2 - s.m1 * share])
            self.events.append((kind, t))
            if len(self.events) > MOST:
                break
        self.final = self._at(self._parts[-1], np.array([UNTIL - self._begun[-1]]))[:, 0]
        times = {kind: [t for name, t in self.events if name == kind] for kind in CLOSER}
        gaps = np.concatenate([np.diff(found) for found in times.values()])
        self.usable = (
            3 <= len(self.events) <= MOST
            and (not len(gaps) or float(gaps.min()) > REST)
            and self.events[-1][1] < UNTIL - REST
        )

    def _at(self, part: np.ndarray, times: np.ndarray) -> np.ndarray:
        moved = self._modes @ (np.exp(np.outer(self._rates, times)) * part[:, None])
        return self._rest[:, None] + moved.real

    @staticmethod
    def _conditions(state: np.ndarray) -> dict[str, np.ndarray]:
        x1, v1, x2, v2 = state
        return {"masses": np.array([x1 - x2 - 2 * HALF, v1 - v2]), "ceiling": np.array([-HALF - x1, -v1])}

    def _first(self, part: np.ndarray, span: float) -> tuple[str, float] | None:
        """The first event: where the largest of its conditions falls to zero, in a dip between two points of
        the grid, too."""
        chunk = 2048
        first = 0
        while first * GRID < span:
            times = np.minimum((first + np.arange(chunk + 1)) * GRID, span)
            values = {
                kind: both.max(axis=0) for kind, both in self._conditions(self._at(part, times)).items()
            }
            found = [
                (self._root(part, kind, times[i], low), kind)
                for kind, z in values.items()
                for i, low in [self._fall(part, kind, times, z)]
                if low is not None
            ]
            if found:
                wait, kind = min(found)
                return kind, wait
            first += chunk
        return None

    def _largest(self, part: np.ndarray, kind: str, t: float) -> float:
        return float(self._conditions(self._at(part, np.array([t])))[kind].max())

    def _fall(
        self, part: np.ndarray, kind: str, times: np.ndarray, z: np.ndarray
    ) -> tuple[int, float | None]:
        falls = np.flatnonzero((z[:-1] > 0) & (z[1:] <= 0))
        end = int(falls[0]) if len(falls) else len(z) - 1
        inside = z[1:-1]
        dips = np.flatnonzero((inside > 0) & (inside < 0.02) & (inside <= z[:-2]) & (inside <= z[2:]))
        for i in dips[dips < end]:
            low, high = float(times[i]), float(times[i + 2])
            for _ in range(80):
                third = (high - low) / 3
                if self._largest(part, kind, low + third) < self._largest(part, kind, high - third):
                    high -= third
                else:
                    low += third
            if self._largest(part, kind, low) <= 0:
                return int(i), low
        return (end, float(times[end + 1])) if len(falls) else (0, None)

    def _root(self, part: np.ndarray, kind: str, low: float, high: float) -> float:
        low = float(low)
        for _ in range(60):
            middle = (low + high) / 2
            if self._largest(part, kind, middle) > 0:
                low = middle
            else:
                high = middle
        return high

    def positions(self, times: np.ndarray) -> np.ndarray:
        """x1 and x2 at any times."""
        place = np.searchsorted(self._begun, times, side="right") - 1
        found = np.empty((2, len(times)))
        for k, (begun, part) in enumerate(zip(self._begun, self._parts, strict=True)):
            mine = place == k
            if mine.any():
                found[:, mine] = self._at(part, times[mine] - begun)[[0, 2]]
        return found


def drawn(turn: np.random.Generator) -> tuple[System, Reference]:
    """The next random system that is not set aside."""
    while True:
        m1, m2 = turn.uniform(0.1, 0.6, 2)
        k1, k2 = turn.uniform(0.4, 2.5, 2)
        d1, d2 = turn.uniform(0.005, 0.05, 2)
        x1 = turn.uniform(-6, -0.8)
        x2 = x1 - 2 * HALF - turn.uniform(0.3, 7)
        v1, v2 = turn.uniform(-6, 6, 2)
        step = float(np.exp(turn.uniform(np.log(0.02), np.log(0.2))))
        start = (float(x1), float(v1), float(x2), float(v2))
        numbers = map(float, (m1, m2, k1, k2, d1, d2, turn.uniform(0.5, 1.0)))
        system = System(*numbers, start=start, step=step)
        reference = Reference(system)
        if reference.usable:
            return system, reference


class Verdict(NamedTuple):
    """Whether all events are right, the error (rms of |x1 - ref| + |x2 - ref| over all times), and whether
    the summary warns of something."""

    right: bool
    error: float
    warned: bool


FAILED = Verdict(False, float("inf"), True)


def judged(trace: up.Trace, reference: Reference, events: EventTimes) -> Verdict:
    wanted = reference.events
    right = [kind for kind, _ in events] == [kind for kind, _ in wanted] and all(
        abs(t - at) <= NEAR for (_, t), (_, at) in zip(events, wanted, strict=True)
    )
    rows = trace.one_sided()
    exact = reference.positions(rows.time)
    error = np.abs(rows["upper.x"] - exact[0]) + np.abs(rows["lower.x"] - exact[1])
    return Verdict(right, float(np.sqrt(np.mean(error**2))), "Warning:" in up.summary(trace))


def logged(trace: up.Trace) -> EventTimes:
    return [(event.name, float(event.time)) for event in trace.events]


def tried(
    scenario: up.Scenario, system: System, reference: Reference, happened: Counting, **settings: Any
) -> Verdict:
    """A run with a step, events and nothing else (or these settings); one that ends with an error has told
    what is wrong."""
    try:
        trace = up.simulate(scenario, step=system.step, until=UNTIL, **settings)
    except up.RunError:
        return FAILED
    return judged(trace, reference, happened(trace))


def worse(one: Verdict, fixed: Verdict) -> bool:
    """Whether a run is clearly further off than the one of fixed steps; below 1 cm nobody would care."""
    return one.error > 1.05 * fixed.error + 0.01


def events(n: int, seed: int, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """`n` random systems with a step, events and nothing else, and 40 of them as black boxes.

    `wrong_silent`: events are wrong, or it is worse than fixed steps, and no warning says so.
    """
    turn = np.random.default_rng(seed)
    log = logging.getLogger("upbeat.run")
    level = log.level
    log.setLevel(logging.ERROR)  # the warnings are counted in summaries
    systems: list[tuple[System, Reference]] = []
    found: list[tuple[Verdict, Verdict]] = []
    try:
        for k in range(n):
            system, reference = drawn(turn)
            systems.append((system, reference))
            scenario = system.scenario()
            chosen = tried(scenario, system, reference, logged)
            found.append((chosen, tried(scenario, system, reference, logged, events="off")))
            if progress is not None:
                progress(k + 1, n)
        boxes = black_boxes(systems[:BOXES])
    finally:
        log.setLevel(level)
    errors = [one.error for one, _ in found]
    return {
        "n": n,
        "events": sum(len(reference.events) for _, reference in systems),
        "wrong_silent": sum((not one.right or worse(one, fixed)) and not one.warned for one, fixed in found)
        + boxes.pop("wrong_silent"),
        "right": sum(one.right for one, _ in found),
        "right_fixed": sum(fixed.right for _, fixed in found),
        "worse_than_fixed": sum(worse(one, fixed) for one, fixed in found),
        "median_error": float(np.median(errors)),
        "error_90": float(np.quantile(errors, 0.9)),
        "max_error": float(np.max(errors)),
        "median_error_fixed": float(np.median([fixed.error for _, fixed in found])),
        "black_boxes": boxes,
    }


def black_boxes(systems: Sequence[tuple[System, Reference]]) -> dict[str, Any]:
    """The systems as FMUs; without a C compiler there are none."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from fmu_maker import COMPILER, make

    found: list[tuple[Verdict, Verdict]] = []
    with tempfile.TemporaryDirectory() as folder:
        fmus = {name: make(name, 2, Path(folder)) for name in ("upper", "lower")} if COMPILER else {}
        for system, reference in systems if fmus else ():
            scenario = system.boxes(fmus)
            chosen = tried(scenario, system, reference, happened)
            found.append((chosen, tried(scenario, system, reference, happened, events="off")))
    return {
        "n": len(found),
        "wrong_silent": sum((not one.right or worse(one, fixed)) and not one.warned for one, fixed in found),
        "right": sum(one.right for one, _ in found),
        "right_fixed": sum(fixed.right for _, fixed in found),
        "worse_than_fixed": sum(worse(one, fixed) for one, fixed in found),
        "median_error": float(np.median([one.error for one, _ in found])) if found else None,
    }
