"""A flight-control case like that of Gomes and others (2019): which master keeps the load smooth?

Software moves a load through an actuator: `controller` runs 1000 times a second, `plant` (the actuator) and
`load` are joined by a power bond (a velocity one way, the force of a stiff spring the other), `environment`
gives the supply and a reference that steps at 0.1 s. The units are black boxes: none can be set back, and
none says which outputs follow inputs at once.

By hand, with communication steps of one sample: side by side (Jacobi), the same with ten steps of plant and
load in each (multi-rate), and one after the other (Gauss-Seidel), with held inputs, of which the force on the
plant is interpolated in the last; the load trembles.
Then `up.configure` is told what an engineer knows (problems/flight_control.hints) and looks for a master.

*Roughness* is the root mean square of the second differences of the load's position, over that of the
undivided problem, both at the samples of the controller. *Work* is calls of units. The *energy residual* is
the root mean square of what the coupling has created at the power bond, as both units add it up, over what
goes through in all. The undivided problem is solved by SciPy's DOP853 from sample to sample.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import upbeat as up
from upbeat.judging.steps import work_of

SAMPLE, UNTIL, STEPS_AT = 1e-3, 1.0, 0.1
KP, KD, LIMIT = 60.0, 12.0, 40.0
PLANT_MASS, FRICTION, DRAG = 1.0, 0.3, 60.0
LOAD_MASS, STIFFNESS, AIR = 1.0, 7e5, 0.3
INSIDE = 1e-4
"""Units make steps of their own that are no longer than this."""
HINTS = Path(__file__).parent / "problems" / "flight_control.hints"
GOAL = 20.0


def control(x: float, before: float, reference: float, supply: float) -> float:
    """The force that the software asks for."""
    wanted = KP * (reference - x) - KD * (x - before) / SAMPLE
    return supply * max(-LIMIT, min(LIMIT, wanted))


class Environment:
    """The supply, and a reference that steps."""

    def __init__(self, name: str, start: Any, parameters: Any) -> None:
        self.t = 0.0

    def get(self, port: str) -> float:
        return 1.0 if port == "psu" or self.t >= STEPS_AT - 1e-9 else 0.0

    def advance(self, t: float, to: float, early: bool) -> float:
        self.t = to
        return to


class Controller:
    """Sampled software: what it has computed is seen one sample later."""

    def __init__(self, name: str, start: Any, parameters: Any) -> None:
        self.now = {"x": 0.0, "ref": 0.0, "psu": 0.0}
        self.before = self.u = 0.0

    def get(self, port: str) -> float:
        return self.u

    def set(self, port: str, coefficients: Any) -> None:
        self.now[port] = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.u = control(self.now["x"], self.before, self.now["ref"], self.now["psu"])
        self.before = self.now["x"]
        return to


class Mechanics:
    """What moves: integrated by the classic Runge-Kutta method, with inputs as polynomials."""

    states: tuple[float, ...] = ()

    def __init__(self, name: str, start: Any, parameters: Any) -> None:
        self.z = np.array(self.states)
        self.inputs: dict[str, tuple[float, ...]] = {}

    def set(self, port: str, coefficients: Any) -> None:
        self.inputs[port] = tuple(map(float, coefficients))

    def value(self, port: str, after: float) -> float:
        total = 0.0
        for c in reversed(self.inputs.get(port, (0.0,))):
            total = total * after + c
        return total

    def slopes(self, z: np.ndarray, after: float) -> np.ndarray:
        raise NotImplementedError

    def advance(self, t: float, to: float, early: bool) -> float:
        count = max(1, round((to - t) / INSIDE + 0.499))
        h = (to - t) / count
        for k in range(count):
            s = k * h
            a = self.slopes(self.z, s)
            b = self.slopes(self.z + h / 2 * a, s + h / 2)
            c = self.slopes(self.z + h / 2 * b, s + h / 2)
            d = self.slopes(self.z + h * c, s + h)
            self.z = self.z + h / 6 * (a + 2 * b + 2 * c + d)
        for port in self.inputs:  # from the new time on
            self.inputs[port] = (self.value(port, to - t),)
        return to


class Plant(Mechanics):
    """An actuator with friction: velocity v, and E, the energy that it has given away."""

    states = (0.0, 0.0)

    def get(self, port: str) -> float:
        return float(self.z[("v", "E").index(port)])

    def slopes(self, z: np.ndarray, after: float) -> np.ndarray:
        v, f = z[0], self.value("f", after)
        force = self.value("u", after) - FRICTION * v - DRAG * v**3 - f
        return np.array([force / PLANT_MASS, f * v])


class Load(Mechanics):
    """A mass behind a stiff spring, whose other end moves with v: x, its speed w, the spring's length s."""

    states = (0.0, 0.0, 0.0, 0.0)

    def get(self, port: str) -> float:
        if port == "f":
            return float(STIFFNESS * self.z[2])
        return float(self.z[("x", "w", "s", "E").index(port)])

    def slopes(self, z: np.ndarray, after: float) -> np.ndarray:
        _, w, s, _ = z
        v = self.value("v", after)
        return np.array([w, (STIFFNESS * s - AIR * w) / LOAD_MASS, v - w, STIFFNESS * s * v])


def scenario() -> up.Scenario:
    """The four black boxes."""
    return up.Scenario(
        {
            "Environment": up.PythonUnit(Environment, outputs=["psu", "ref"]),
            "Controller": up.PythonUnit(Controller, inputs=["x", "ref", "psu"], outputs=["u"]),
            "Plant": up.PythonUnit(Plant, inputs=["u", "f"], outputs=["v", "E"]),
            "Load": up.PythonUnit(Load, inputs=["v"], outputs=["x", "f", "E"]),
        },
        {
            "Controller.x": "Load.x",
            "Controller.ref": "Environment.ref",
            "Controller.psu": "Environment.psu",
            "Plant.u": "Controller.u",
            "Plant.f": "Load.f",
            "Load.v": "Plant.v",
        },
    )


def reference() -> np.ndarray:
    """The load's position at the samples, of the undivided problem."""

    def slopes(t: float, z: np.ndarray, u: float) -> list[float]:
        v, _, w, s = z
        force = u - FRICTION * v - DRAG * v**3 - STIFFNESS * s
        return [force / PLANT_MASS, w, (STIFFNESS * s - AIR * w) / LOAD_MASS, v - w]

    z, u, before, found = np.zeros(4), 0.0, 0.0, [0.0]
    for k in range(round(UNTIL / SAMPLE)):
        t, x = k * SAMPLE, float(z[1])
        # What is computed at a sample is seen one sample later.
        following = control(x, before, float(t >= STEPS_AT - 1e-9), 1.0)
        before = x
        run = solve_ivp(slopes, (0.0, SAMPLE), z, "DOP853", rtol=1e-11, atol=1e-13, args=(u,))
        z, u = run.y[:, -1], following
        found.append(float(z[1]))
    return np.array(found)


def second_differences(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.diff(values, 2) ** 2)))


def at_samples(trace: up.Trace) -> np.ndarray:
    """The load's position at the samples of the controller."""
    every = np.arange(round(UNTIL / SAMPLE) + 1) * SAMPLE
    place = np.searchsorted(trace.time, every - 1e-9)
    assert np.allclose(trace.time[place], every, atol=1e-9)
    return trace["Load.x"][place]


def residual(trace: up.Trace) -> float:
    created = trace["Plant.E"] - trace["Load.E"]
    through = np.abs(np.diff(trace["Plant.E"])).sum()
    return float(np.sqrt(np.mean(created**2)) / through)


BY_HAND: dict[str, dict[str, Any]] = {
    "jacobi": {"coupling": up.Jacobi()},
    "multirate": {"coupling": up.MultiRate({"Plant": 10, "Load": 10})},
    "gauss_seidel": {
        "coupling": up.GaussSeidel(("Environment", "Controller", "Load", "Plant")),
        "ports": {"Plant.f": up.Linear()},
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--picture", type=Path, help="draw the load's position")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    logging.disable(logging.WARNING)
    true = reference()
    smooth = second_differences(true)
    traces: dict[str, up.Trace] = {}
    work: dict[str, int] = {}
    for name, settings in BY_HAND.items():
        made = up.experiment(scenario(), step=SAMPLE, until=UNTIL, **settings)
        traces[name] = made.run()
        work[name] = work_of(made, traces[name]).total
    given = up.experiment(scenario(), step=SAMPLE, until=UNTIL, record=["Load.x"])
    found = up.configure(given, HINTS, tolerance=1e-2, seconds=300)
    print(found.reason)
    assert found.best is not None
    made = found.improved().with_(record=None)
    traces["hinted"] = made.run()
    work["hinted"] = found.best.work or 0  # what units do inside is counted, too
    roughness = {name: second_differences(at_samples(trace)) / smooth for name, trace in traces.items()}
    energy = {name: residual(trace) for name, trace in traces.items()}
    print(f"{'':14} {'roughness':>10} {'work':>8} {'energy residual':>16} {'largest error':>14}")
    for name, trace in traces.items():
        error = np.abs(at_samples(trace) - true).max()
        print(f"{name:14} {roughness[name]:10.3g} {work[name]:8,} {energy[name]:16.2g} {error:14.2g}")
    best = min(BY_HAND, key=lambda name: roughness[name])
    times = roughness[best] / roughness["hinted"]
    print(
        f"{times:.3g} × as smooth as {best}, the best by hand, "
        f"at {work['hinted'] / work[best]:.2f} of its work"
    )
    misses = []
    if times < GOAL:
        misses.append(f"{times:.3g} × as smooth as {best}, {GOAL:g} × asked for")
    if work["hinted"] > work[best]:
        misses.append(f"more work than {best}")
    if options.picture is not None:
        draw(options.picture, traces, true)
    result = {
        "roughness": roughness, "energy_residual": energy, "work": work, "smoother": times,
        "configuration": found.best.data(), "variants": found.variants, "known_misses": misses,
    }  # fmt: skip
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


def draw(path: Path, traces: dict[str, up.Trace], true: np.ndarray) -> None:
    """The four masters beside each other, and the undivided problem behind each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = {
        "jacobi": "Jacobi",
        "multirate": "Multi-rate",
        "gauss_seidel": "Gauss-Seidel",
        "hinted": "From hints",
    }
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.4), sharex=True, sharey=True, layout="constrained")
    every = np.arange(len(true)) * SAMPLE
    for axis, (name, title) in zip(axes.flat, names.items(), strict=True):
        axis.plot(every, true, color="#b8c4d0", linewidth=3.5, label="undivided")
        axis.plot(
            every, at_samples(traces[name]), color="#b3261e" if name != "hinted" else "#1a6b4a", linewidth=0.9
        )
        axis.set_title(title, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[1]:
        axis.set_xlabel("time in s")
    for axis in axes[:, 0]:
        axis.set_ylabel("position of the load in m")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
