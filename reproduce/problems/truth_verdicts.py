"""Random couplings of every class that a stability verdict may meet, and what their runs really do.

Each class draws a scenario with a master. The judge does not know how verdicts are made: a long run (two,
where something forces the system) either settles, does not settle, or leaves it open; where a class has a
closed form (exact units with held inputs, sampled controllers), the step map is written down a second time
with matrix exponentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import log, pi
from typing import Any

import numpy as np
from scipy.linalg import expm

import upbeat as up
from problems import truth
from upbeat import extend

STEPS = 4000
CLEAR = 3e-4
"""A motion whose logarithm changes by less than this per step is not judged by a run of `STEPS` steps."""


@dataclass(frozen=True)
class Case:
    """A coupled system, how to run it, and what is known of it beforehand."""

    scenario: up.Scenario
    step: float
    settings: dict[str, Any] = field(default_factory=dict)
    steps: int = STEPS
    at: str | float = "start"
    radius: float | None = None  # over `per` communication steps, from a second derivation
    per: int = 1
    starts: tuple[dict[str, float], ...] = ({},)
    forced: bool = False
    states: tuple[str, ...] = ()
    bounded: bool = False  # by limits of a controller
    passing: bool = False  # a run may leave the point of the verdict: "unstable" there, it settles elsewhere

    def run(self, changes: dict[str, float]) -> np.ndarray:
        """The recorded states, one row per communication point, as far as they are finite."""
        planned = up.experiment(
            self.scenario.with_values(changes) if changes else self.scenario,
            pace=self.step,
            until=self.steps * self.step,
            **self.settings,
        )
        try:
            trace = planned.run()
        except up.RunError as grown:  # out of all bounds
            trace = grown.trace
        rows = np.column_stack([np.asarray(trace[name], dtype=float) for name in self.states])
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        return rows[: bad[0]] if len(bad) else rows


def settles(case: Case) -> bool | None:
    """Whether motions die out in the runs; None where they do not tell."""
    known = None if case.radius is None else log(max(case.radius, 1e-300)) / case.per
    if known is not None:
        return None if abs(known) < CLEAR else known < 0.0
    answers = [_dies_out(case, changes) for changes in case.starts]
    if False in answers:
        return False
    return None if None in answers else True


def _dies_out(case: Case, changes: dict[str, float]) -> bool | None:
    rows = case.run(changes)
    if case.forced:  # what is left of a small difference at the start
        moved = case.run({name: value + 1e-3 for name, value in changes.items()})
        both = min(len(rows), len(moved))
        size, level = np.abs(rows[:both] - moved[:both]).max(axis=1), np.abs(rows[:both]).max() * 1e-13
    else:  # how much still changes from step to step
        size = np.abs(np.diff(rows, axis=0)).max(axis=1) if len(rows) > 1 else np.array([np.inf])
        level = np.abs(rows).max() * 1e-13 + 1e-290
    if len(size) < case.steps // 2 or size[-1] > 1e30:
        return False
    quarter = len(size) // 4
    early, late = size[quarter : 2 * quarter].max(), size[-quarter:].max()
    if late <= level:
        return True
    slope = log(late / early) / (2 * quarter) if early > 0 else 0.0
    if slope < -CLEAR and late > size[2 * quarter : 3 * quarter].max():
        return None  # what dies out quickly may hide what grows slowly
    if abs(slope) > CLEAR:
        return slope < 0.0
    # Between limits, what neither grows nor decays is a limit cycle, and no rest; elsewhere it may be slow.
    if case.bounded and late > 1e-2 * np.abs(rows).max() and abs(log(late / early)) < 0.05:
        return False
    return None


# ------------------------------------------------------------------------------------ units by chance


def plant(turn: np.random.Generator, start: np.ndarray | None = None) -> tuple[up.Ode, tuple[Any, Any, Any]]:
    """x' = A·x + b·u, y = c·x with one to three states."""
    size = int(turn.integers(1, 4))
    a = turn.normal(size=(size, size))
    a -= (np.linalg.eigvals(a).real.max() + turn.uniform(-0.2, 1.0)) * np.eye(size)
    b, c = turn.normal(size=size), turn.normal(size=size)
    if start is None:
        start = turn.normal(size=size)
    names = [f"x{i}" for i in range(size)]
    rates = {n: f"{total(a[i], names)} + ({float(b[i])!r})*u" for i, n in enumerate(names)}
    solver = {"kind": "dormand_prince", "rtol": 1e-10, "atol": 1e-12}
    ode = up.Ode(
        rates,
        inputs=["u"],
        outputs={"y": total(c, names), **{n: n for n in names}},
        start={n: float(v) for n, v in zip(names, np.resize(start, size), strict=True)},
        solver=solver,
    )
    return ode, (a, b, c)


def total(weights: Any, names: list[str]) -> str:
    """Σ weight·name as an expression."""
    return " + ".join(f"({float(w)!r})*{n}" for w, n in zip(weights, names, strict=True))


def held(a: np.ndarray, b: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """exp(A·h) and the integral of it times b, from one exponential."""
    size = len(a)
    whole = np.zeros((size + 1, size + 1))
    whole[:size, :size], whole[:size, size] = a * step, b * step
    whole = expm(whole)
    return whole[:size, :size], whole[:size, size]


class Controller:
    """z⁺ = F·z + g·e, u = k·z + d·e, with e = reference - y, and the odds and ends that such classes keep."""

    def __init__(self, law: tuple[Any, ...], name: str, start: float, parameters: dict[str, float]) -> None:
        self.f, self.g, self.k, self.d, self.limit, first, self.reference, self.keeps = law
        self.z = [float(v) for v in first]
        self.y, self.u, self.time, self.count, self.step = 0.0, 0.0, start, 0, 0.0

    def get(self, port: str) -> float:
        return self.u

    def set(self, port: str, coefficients: Any) -> None:
        self.y = coefficients[0]

    def advance(self, t: float, to: float, early: bool = False) -> float:
        e = self.reference - self.y
        self.u = sum(k * z for k, z in zip(self.k, self.z, strict=True)) + self.d * e
        new = [
            sum(f * z for f, z in zip(row, self.z, strict=True)) + g * e
            for row, g in zip(self.f, self.g, strict=True)
        ]
        self.z = [max(-self.limit, min(self.limit, z)) for z in new]
        self.time, self.count, self.step = to, self.count + 1, to - t
        return to

    def save(self) -> Any:
        odd = {"time": self.time, "count": self.count, "step": self.step} if "odds" in self.keeps else {}
        if "dict" in self.keeps:
            return {"z": list(self.z), "y": self.y, "u": self.u, **odd}
        return (list(self.z), self.y, self.u, *odd.values())

    def restore(self, token: Any) -> None:
        values = list(token.values()) if isinstance(token, dict) else list(token)
        self.z, self.y, self.u = list(values[0]), values[1], values[2]
        if len(values) > 3:
            self.time, self.count, self.step = values[3:]


def law(turn: np.random.Generator, size: int, integrates: bool) -> tuple[Any, ...]:
    """The matrices of a sampled controller; an integrator is its first state where it has one."""
    f = turn.normal(size=(size, size)) * 0.4
    g, k, d = turn.normal(size=size), turn.normal(size=size), turn.normal()
    if integrates:
        f[0, :], f[0, 0] = 0.0, 1.0
        g[0] = abs(g[0]) * 0.3
    return f, g, k, float(d)


# --------------------------------------------------------------------------------- classes of coupling


def equations(turn: np.random.Generator) -> Case:
    """Linear units under any coupling: the runs of `problems.truth`, which are looked at there."""
    return _linear(truth.draw(turn))


def _linear(drawn: truth.Drawn) -> Case:
    slope = truth.growth(drawn)
    radius = float(np.exp(slope)) if abs(slope) > CLEAR else 1.0
    return Case(drawn.scenario, drawn.step, drawn.settings, radius=radius)


def multirate(turn: np.random.Generator) -> Case:
    """The same with a group of units that steps more often."""
    while True:
        drawn = truth.draw(turn)
        if isinstance(drawn.settings["coupling"], up.MultiRate):
            return _linear(drawn)


def exact(turn: np.random.Generator) -> Case:
    """Two units without feedthrough, exactly solved, held inputs: the step map from matrix exponentials."""
    step = float(np.exp(turn.uniform(log(0.02), log(4.0))))
    (first, one), (second, two) = plant(turn), plant(turn)
    (a1, b1, c1), (a2, b2, c2) = one, two
    (p1, q1), (p2, q2) = held(a1, b1, step), held(a2, b2, step)
    n1 = len(a1)
    whole = np.block([[p1, np.outer(q1, c2)], [np.outer(q2, c1), p2]])
    seidel = bool(turn.random() < 0.5)
    if seidel:  # the second sees what the first has reached
        whole[n1:] = np.hstack([np.outer(q2, c1 @ p1), p2 + np.outer(q2, c1 @ q1 * c2)])
    coupling = up.GaussSeidel(("a", "b")) if seidel else up.Jacobi()
    scenario = up.Scenario({"a": first, "b": second}, {"a.u": "b.y", "b.u": "a.y"})
    settings = {"coupling": coupling, "inputs": "hold"}
    return Case(scenario, step, settings, radius=float(np.abs(np.linalg.eigvals(whole)).max()))


def python(turn: np.random.Generator) -> Case:
    """A plant of equations and a controller that is a Python class; integrators may begin saturated."""
    step = float(np.exp(turn.uniform(log(0.02), log(1.0))))
    rest = bool(turn.random() < 0.5)
    ode, _ = plant(turn, np.zeros(1) if rest else None)
    size = int(turn.integers(1, 3))
    integrates = bool(turn.random() < 0.7)
    f, g, k, d = law(turn, size, integrates)
    if integrates and rest:
        g[0] = 1.0  # from rest the integral of a unit error is at first the time, to the bit
    gain = float(np.exp(turn.uniform(log(0.1), log(3.0))))
    limit = float(turn.uniform(0.5, 3.0)) if turn.random() < 0.3 else np.inf
    first = np.zeros(size) if rest else turn.normal(size=size)
    if np.isfinite(limit):
        first = np.full(size, limit) if turn.random() < 0.5 else np.clip(first, -limit, limit)
    keeps = (["odds"] if turn.random() < 0.7 else []) + (["dict"] if turn.random() < 0.5 else [])
    reference = 1.0 if rest else float(turn.choice([0.0, 1.0]))
    chosen = (f.tolist(), (g * step).tolist(), (gain * k).tolist(), gain * d, limit, first.tolist())
    factory = partial(Controller, (*chosen, reference, keeps))
    ports = extend.ports(["y"], {"u": {"depends": []}})
    unit = up.PythonUnit(factory, ports, abilities=[up.Ability.ROLLBACK])
    order = up.GaussSeidel(("c", "p") if turn.random() < 0.5 else ("p", "c"))
    coupling = up.Jacobi() if turn.random() < 0.5 else order
    scenario = up.Scenario({"p": ode, "c": unit}, {"p.u": "c.u", "c.y": "p.y"})
    names = tuple(f"p.{port.name}" for port in ode.ports if port.name.startswith("x"))
    at = "rest" if np.isfinite(limit) and turn.random() < 0.5 else "start"
    bounded = bool(np.isfinite(limit))
    ways: dict[str, Any] = {"at": at, "bounded": bounded, "passing": bounded}
    return Case(scenario, step, {"coupling": coupling}, states=(*names, "c.u"), steps=2000, **ways)


def sampled(turn: np.random.Generator) -> Case:
    """A plant, a sampler, a discrete controller and a hold: the map over one sampling period is known."""
    ode, (a, b, c) = plant(turn)
    per = int(turn.integers(1, 5))
    step = float(np.exp(turn.uniform(log(0.02), log(0.7))))
    every = per * step
    f, g, k, d = (
        float(turn.uniform(-1, 1)),
        float(turn.normal()),
        float(turn.normal()),
        float(turn.normal()),
    )
    gain = float(np.exp(turn.uniform(log(0.1), log(3.0))))
    k, d = gain * k, gain * d
    kind = str(turn.choice(["python", "discrete", "machine"]))
    controller = _discrete(kind, f, g, k, d)
    scenario = up.Scenario(
        {"p": ode, "s": up.Sampler(every), "c": controller, "h": up.LastValue(0.0)},
        {"s.signal": "p.y", "c.y": "s.event", "h.event": "c.u", "p.u": "h.value"},
    )
    # At a sampling instant z⁺ = f·z + g·y and u = k·z⁺ + d·y; the plant then follows the held u for a period.
    big, lead = held(a, b, every)
    row = (k * g + d) * c
    whole = np.block([[big + np.outer(lead, row), k * f * lead[:, None]], [g * c[None, :], np.array([[f]])]])
    radius = float(np.abs(np.linalg.eigvals(whole)).max())
    return Case(scenario, step, {}, radius=radius, per=per)


def _discrete(kind: str, f: float, g: float, k: float, d: float) -> Any:
    if kind == "python":
        return up.PythonDiscrete(
            start=(0.0, 0.0, False),
            time_advance=lambda s: 0.0 if s[2] else float("inf"),
            internal=lambda s: (s[0], s[1], False),
            output=lambda s: {"u": k * s[0] + d * s[1]},
            external=lambda s, elapsed, events: (f * s[0] + g * events["y"], events["y"], True),
            inputs={"y": {"kind": "real"}},
            outputs={"u": {"event": True, "kind": "real"}},
        )
    if kind == "machine":
        return up.StateMachine(
            states={"waiting": {}},
            initial="waiting",
            inputs={"y": {"event": True, "kind": "real"}},
            outputs={"u": {"event": True, "kind": "real"}},
            variables={"z": 0.0},
            transitions=[
                {
                    "from": "waiting",
                    "on": "y",
                    "do": {"z": f"({f!r})*z + ({g!r})*y"},
                    "emit": {"u": f"({k!r})*(({f!r})*z + ({g!r})*y) + ({d!r})*y"},
                }
            ],
        )
    inf = float("inf")
    return up.Discrete(
        ports=(
            up.Port("y", up.Causality.INPUT, event=True),
            up.Port("u", up.Causality.OUTPUT, event=True),
        ),
        variables=(
            up.Variable("z", up.Kind.REAL, 0.0),
            up.Variable("seen", up.Kind.REAL, 0.0),
            up.Variable("next", up.Kind.REAL, inf),
        ),
        modes=(
            up.Mode(
                due=extend.Name("next"),
                emissions=(
                    up.Emission(
                        "u", present=extend.Number(1), cells=(extend.parse(f"({k!r})*z + ({d!r})*seen"),)
                    ),
                ),
                internal=(("next", extend.Number(inf)),),
                external=(
                    ("z", extend.parse(f"({f!r})*z + ({g!r})*y")),
                    ("seen", extend.Name("y")),
                    ("next", extend.Name("time")),
                ),
            ),
        ),
        outputs=(),
    )


KINKS = ("abs({0})", "max({0}, 0)", "({0} if {0} > 0 else 0)", "min({0}, 0.5*({0}))")


def kinks(turn: np.random.Generator) -> Case:
    """Two units with a kink at the operating point; deviations in many directions are followed."""
    step = float(np.exp(turn.uniform(log(0.02), log(0.5))))
    sizes = turn.integers(1, 3, 2)
    units, links = {}, {}
    for name, other, size in zip("ab", "ba", sizes, strict=True):
        names = [f"x{i}" for i in range(size)]
        a = turn.normal(size=(size, size))
        a -= (np.linalg.eigvals(a).real.max() + turn.uniform(0.3, 1.5)) * np.eye(size)
        bent = str(turn.choice(np.array(KINKS))).format(total(turn.normal(size=size), names))
        w = turn.normal(size=size)
        rates = {
            n: f"{total(a[i], names)} + ({turn.normal():.6f})*u + ({float(w[i])!r})*{bent}"
            for i, n in enumerate(names)
        }
        units[name] = up.Ode(
            rates, inputs=["u"], outputs=names, start=dict.fromkeys(names, 0.0), solver="rk4"
        )
        links[f"{name}.u"] = f"{other}.x0"
    names = tuple(f"{n}.x{i}" for n, size in zip("ab", sizes, strict=True) for i in range(size))
    starts = tuple(
        dict(zip(names, (1e-3 * v / np.linalg.norm(v)).tolist(), strict=True))
        for v in turn.normal(size=(24, len(names)))
    )
    coupling = up.Jacobi() if turn.random() < 0.5 else up.GaussSeidel()
    scenario = up.Scenario(units, links)
    return Case(
        scenario, step, {"coupling": coupling, "inputs": "hold"}, states=names, starts=starts, steps=1500
    )


def varying(turn: np.random.Generator) -> Case:
    """Oscillators whose stiffness or damping depends on time, periodically or not, or that are pushed."""
    kind = str(turn.choice(["periodic", "periodic", "periodic", "drift", "pushed"]))
    w, phase = turn.uniform(0.5, 4.0), turn.uniform(0, 2 * pi)
    if turn.random() < 0.8:
        step = 2 * pi / w / int(turn.integers(8, 60))
    else:
        step = float(turn.uniform(0.02, 0.3))
    wave = f"cos({w!r}*time + {phase!r})"
    k, d, q = turn.uniform(0.5, 4.0), turn.uniform(0.0, 0.3), turn.uniform(0.2, 2.5)
    stiff = {"periodic": f"({k!r} + {q!r}*{wave})", "drift": f"({k!r} - 0.02*time)", "pushed": f"{k!r}"}[kind]
    push = f" + {wave}" if kind == "pushed" else ""
    a = up.Ode(
        {"x": "v", "v": f"-{stiff}*x - {d!r}*v + u{push}"},
        inputs=["u"],
        outputs=["x", "v"],
        start={"x": 1.0, "v": 0.0},
        solver={"kind": "rk4", "steps": 4},
    )
    b = up.Ode(
        {"y": f"-{turn.uniform(0.5, 3.0)!r}*y + {turn.normal() * 0.5!r}*u"},
        inputs=["u"],
        outputs=["y"],
        start={"y": 0.5},
    )
    scenario = up.Scenario({"a": a, "b": b}, {"a.u": "b.y", "b.u": "a.x"})
    starts = ({"a.x": 1.0},) if kind == "pushed" else ({},)
    return Case(scenario, step, {}, states=("a.x", "a.v", "b.y"), starts=starts, forced=kind == "pushed")


def nests(turn: np.random.Generator) -> Case:
    """Scenarios inside a scenario, at steps of their own or from event to event inside."""
    step = float(np.exp(turn.uniform(log(0.05), log(1.0))))

    def gain(most: float) -> str:
        return f"({turn.uniform(-most, most):.4f})"

    def unit() -> up.Ode:
        names = [f"x{i}" for i in range(int(turn.integers(1, 3)))]
        mixed = " + ".join(f"{gain(1.5)}*{name}" for name in names)
        return up.Ode(
            {n: f"{mixed} - 1.2*{n} + {gain(2.0)}*u + {gain(2.0)}*w" for n in names},
            start={name: float(turn.uniform(-1.0, 1.0)) for name in names},
            inputs=["u", "w"],
            outputs={"y": mixed, "z": "x0"},
            solver=str(turn.choice(["euler", "midpoint", "rk4"])),
        )

    inside = up.Scenario(
        {"a": unit(), "b": unit()},
        {"a.u": f"{gain(1.5)}*b.z + u", "a.w": f"{gain(1.5)}*b.y", "b.u": f"{gain(1.5)}*a.z", "b.w": "w"},
        inputs=["u", "w"],
        outputs={"y": "a.y + b.z", "z": "a.z"},
    )
    kinds = [up.Hold(), up.Linear(), up.Polynomial(2)]
    share = step / float(turn.choice([1.0, 2.0, 3.0, 2.5, 3.7]))
    pace = up.Fixed(share) if turn.random() < 0.6 else up.EventDriven(share)
    couplings = [up.Jacobi(), up.GaussSeidel(), up.Iterated(up.Jacobi(), corrections=1)]
    master = up.Master(pace, couplings[int(turn.integers(3))], inputs=kinds[int(turn.integers(3))])
    nest = up.Nested(inside, master, flatten=bool(turn.random() < 0.3))
    links = {
        "n.u": f"{gain(1.5)}*c.y",
        "n.w": f"{gain(1.5)}*c.z",
        "c.u": f"{gain(1.5)}*n.y",
        "c.w": f"{gain(1.5)}*n.z",
    }
    scenario = up.Scenario({"n": nest, "c": unit()}, links)
    settings = {"coupling": couplings[int(turn.integers(2))], "inputs": kinds[int(turn.integers(3))]}
    return Case(scenario, step, settings, states=("n.y", "n.z", "c.y", "c.z"), steps=3000)


CLASSES: dict[str, tuple[Callable[[np.random.Generator], Case], float]] = {
    "equations": (equations, 0.25),
    "multirate": (multirate, 0.1),
    "exact": (exact, 0.15),
    "python": (python, 0.15),
    "sampled": (sampled, 0.1),
    "kinks": (kinks, 0.1),
    "varying": (varying, 0.075),
    "nests": (nests, 0.075),
}
"""What is drawn, and which part of all cases it is."""


def judged(kind: str, seed: int) -> dict[str, Any]:
    """One case: what the verdict says, and what happens."""
    case = CLASSES[kind][0](np.random.default_rng([seed, list(CLASSES).index(kind)]))
    found: dict[str, Any] = {"kind": kind, "seed": seed, "settles": settles(case), "passing": case.passing}
    try:
        planned = up.experiment(case.scenario, pace=case.step, until=case.steps * case.step, **case.settings)
        verdict = up.stability_of(planned, scan=False, at=case.at)
    except up.UpbeatError as refused:
        return found | {"verdict": "undecided", "why": f"refused: {refused}"}
    return found | {"verdict": verdict.verdict, "why": verdict.why or verdict.model.unseen}


def drawn(n: int, seed: int) -> Iterator[tuple[str, int]]:
    """`n` cases, spread over the classes."""
    for kind, (_, share) in CLASSES.items():
        yield from ((kind, seed + i) for i in range(round(n * share)))


def verdicts(
    n: int, seed: int, progress: Callable[[int, int], None] | None = None, processes: int = 2
) -> dict[str, Any]:
    """What verdicts on `n` random couplings are worth."""
    cases = list(drawn(n, seed))
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor(processes) as pool:
        for done in pool.map(judged, *zip(*cases, strict=True), chunksize=8):
            results.append(done)
            if progress is not None:
                progress(len(results), len(cases))
    return tally(results)


def tally(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts in all and by class, and the seeds of what was wrong."""
    clear = [r for r in results if r["settles"] is not None]
    wrong = {
        "false_stable": [r for r in clear if r["verdict"] == "stable" and not r["settles"]],
        "false_unstable": [
            r for r in clear if r["verdict"] == "unstable" and r["settles"] and not r["passing"]
        ],
    }
    by = {
        kind: dict(
            Counter(
                r["verdict"] if r["settles"] is not None else "run leaves it open"
                for r in results
                if r["kind"] == kind
            )
        )
        for kind in CLASSES
    }
    return {
        "n": len(results),
        "judged": len(clear),
        **{name: len(found) for name, found in wrong.items()},
        "undecided": sum(r["verdict"] == "undecided" for r in clear),
        "by_class": by,
        "wrong": [f"{name}: {r['kind']} {r['seed']}" for name, found in wrong.items() for r in found],
        "reasons": dict(
            Counter((r.get("why") or "")[:100] for r in clear if r["verdict"] == "undecided").most_common(8)
        ),
    }
