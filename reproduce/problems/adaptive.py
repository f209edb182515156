"""Adaptive co-simulations (thesis, chapter 5): parts of `reproduce/stability.py`, *thesis | here*."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from problems import late
from problems.policies import (
    EXACT,
    FER1,
    FER10,
    MASSES,
    PENDULA,
    STEP,
    masses_scenario,
    masses_variants,
    pendulum_scenario,
    pendulum_variants,
)
from upbeat.stability.switched.stabilise import stabilise_best, stabilise_greedily

Part = tuple[Any, bool]
PICTURE = Path("build/reproduce/adaptive.png")
STEPS = 1000
"""Of each co-simulation in figures 5.4 and 5.5: 100 s."""
MIXED = "1110" * 2 + "10"
"""Of ten steps seven with ten internal ones (1) and three with one (0): 70 % and 30 %, as for table 5.1."""
WRONG = "0001" * 2 + "01"
"""The other way round, as in figure 5.5."""


# -------------------------------------------------------------------- section 5.4


def policies() -> Part:
    system = up.SwitchedSystem(list(MASSES.values()), names=MASSES)
    radii = np.array(system.radii)
    unstable = int(np.count_nonzero(radii >= 1))
    pairs = np.array(system.products(2).radii)
    bound = up.joint_radius(system.only(np.flatnonzero(radii < 1).tolist()), tolerance=1e-5)
    checked = all(proof.check() for proof in bound.certificates)
    print("Section 5.4, two masses with 16 policies                    thesis | here")
    print(f"  all-Euler, one step of the solver                            > 1 | {system.radii[0]:.7f}")
    print(f"  policies that are unstable alone                               1 | {unstable} of {len(radii)}")
    print(
        f"  joint spectral radius of the others                  <= 0.992905 | {bound.lower:.7f} to", end=" "
    )
    print(f"{bound.upper:.7f}{', proof checked' if checked else ''}")
    print("  The thesis's bound cannot hold: the undivided system itself decays by only", end=" ")
    print(f"{np.exp(STEP * np.linalg.eigvals(EXACT).real.max()):.6f}.")
    bad = int(np.count_nonzero(pairs >= 1))
    print(f"  pairs that are unstable                                        1 | {bad} of {len(pairs)}")
    print(
        f"  the largest radius of the others                     <= 0.982986 | {pairs[pairs < 1].max():.6f}"
    )
    ok = (
        abs(system.radii[0] - 1.0025062) < 1e-7
        and (unstable, bad) == (4, 22)
        and 0.999118 <= bound.lower <= bound.upper <= 0.99914
        and checked
    )
    found = {"unstable": unstable, "jsr": [bound.lower, bound.upper], "unstable_pairs": bad}
    apart = _from_program(radii)
    print(f"  the same 16 from one program whose solvers take turns: radii differ by {apart:.1e}")
    figures, drawn = _figures()
    return {**found, "program_apart": apart, **figures}, ok and drawn and apart < 1e-9


def _from_program(radii: np.ndarray) -> float:
    """How far the radii of the equations are from those of one program with 16 step blocks."""
    found = up.certified(masses_scenario("euler"), [STEP], coupling=masses_variants(), lift=0, seconds=20.0)
    return float(np.abs(np.sort(found.system.radii) - np.sort(radii)).max())


def _figures() -> tuple[dict[str, Any], bool]:
    """Table 5.1 and figures 5.4 and 5.5."""
    patterns = {"fer10": "1", "fer1": "0", "ferm": MIXED, "fer1M": WRONG}
    counts, courses = {}, {}
    for name, pattern in patterns.items():
        x, course, count = np.array([1.0, 0.0, 0.0, 0.0]), [1.0], 0
        for k in range(STEPS):
            fine = pattern[k % len(pattern)] == "1"
            x = (FER10 if fine else FER1) @ x
            course.append(float(x[0]))
            count += 20 if fine else 2
        counts[name], courses[name] = count, np.array(course)
    thesis = {"fer10": 20000, "fer1": 2000, "ferm": 14600}
    print("  Table 5.1, evaluations:", ", ".join(f"{n} {thesis[n]} | {counts[n]}" for n in thesis))
    # What Upbeat runs is the same as the matrices say.
    apart = 0.0
    for name, micro in (("fer1", 1), ("fer10", 10)):
        run = up.simulate(masses_scenario(up.Euler(micro)), pace=STEP, until=STEP * STEPS)
        apart = max(apart, float(np.abs(run["left.x"] - courses[name]).max()))
    late = {n: float(np.abs(c[-200:]).max() / np.abs(c[400:600]).max()) for n, c in courses.items()}
    print(f"  runs against their matrices: {apart:.1e}")
    print("  Figures 5.4 and 5.5, size at the end over size in the middle:", end=" ")
    print(", ".join(f"{n} {r:.3g}" for n, r in late.items()))
    _draw(courses)
    rest = late["fer10"] < 1 and late["ferm"] < 1 < min(late["fer1"], late["fer1M"])
    ok = all(counts[n] == thesis[n] for n in thesis) and apart < 1e-9 and rest
    return {"evaluations": counts, "late": late}, ok


def _draw(courses: dict[str, np.ndarray]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    times = STEP * np.arange(STEPS + 1)
    values, vectors = np.linalg.eig(EXACT)
    start = np.linalg.solve(vectors, np.array([1.0, 0.0, 0.0, 0.0]))
    exact = (vectors[0] * start * np.exp(np.outer(times, values))).sum(1).real
    figure, (one, two) = pyplot.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained")
    for axes, names in ((one, ("fer1", "fer10", "ferm")), (two, ("fer1M", "fer10"))):
        for name in names:
            axes.plot(times, courses[name], lw=0.9, label=f"x1_{name}")
        axes.plot(times, exact, "k", lw=0.9, label="x1_sol")
        axes.set_ylabel("x1")
        axes.legend(loc="upper right", ncols=4, fontsize=8)
    one.set_title("Figure 5.4: one internal step is too few, seven in ten with ten are enough")
    two.set_title("Figure 5.5: three in ten are not")
    two.set_xlabel("time")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    pyplot.close(figure)
    print(f"  drawn: {PICTURE}")


# -------------------------------------------------------------------- section 5.10


GOALS = {
    0: (5.0, "5", 0.13),
    1: (7.2568898, "7.2568898", 1.8),
    2: (7.75, "7.7083039", 280.0),
    3: (7.86, "-", None),
}


def lifts() -> Part:
    system = up.SwitchedSystem(list(PENDULA.values()), names=PENDULA)
    print("Table 5.2, pendulum with 8 policies                         thesis | here")
    rows, ok = [], True
    for lift, (goal, printed, cpu) in GOALS.items():
        begun = time.process_time()
        found = up.stabilise(system, lift=lift, seconds=600.0, report=_progress)
        proven = found.proven and all(proof.check() for proof in found.certificates)
        cpu_here = time.process_time() - begun
        was = "" if cpu is None else f" in {cpu:g} s"
        print(f"  lift {lift}, base of the entropy {printed + was:>32} | {found.entropy_base:.7f}", end=" ")
        checked = "proof checked" if proven else "no proof"
        print(f"in {found.seconds:.1f} s ({cpu_here:.1f} of the processor), {checked}")
        rows.append(
            {
                "lift": lift,
                "entropy_base": found.entropy_base,
                "seconds": found.seconds,
                "cpu_seconds": cpu_here,
                "certified": proven,
                "forbidden": len(found.cut),
                "nodes": found.automaton.nodes,
            }
        )
        ok = ok and proven and found.entropy_base >= goal - 1e-6
    greedy = [stabilise_greedily(system, lift=lift).entropy_base for lift in (0, 1, 2)]
    print(f"  Algorithm 5 as it is written, lifts 0 to 2: {', '.join(f'{base:.7f}' for base in greedy)}")
    return rows, bool(ok)


def best_cuts() -> Part:
    """The best cut of lift 1 (section 5.9), and example 21."""
    best = stabilise_best(up.SwitchedSystem(list(PENDULA.values()), names=PENDULA), lift=1)
    print("Section 5.9 and example 21                                  thesis | here")
    print(
        f"  lift 1, the best cut there is                          7.2568898 | {best.entropy_base:.7f}",
        end=" ",
    )
    print(f"({'proven best' if best.best else 'not proven'})")
    simple = up.SwitchedSystem([[[1.0]], [[0.5]]])
    golden = [up.stabilise(simple, lift=lift).entropy_base for lift in range(1, 6)]
    print(f"  Example 21, lifts 1 to 5: {', '.join(f'{base:.7f}' for base in golden)}")
    expected = (1.6180340, 1.8392868, 1.9275620, 1.9659482, 1.9835828)
    ok = bool(best.best) and np.allclose(golden, expected, atol=1e-7, rtol=0)
    return {"lift1": best.entropy_base, "proven": bool(best.best), "example21": golden}, bool(ok)


def _progress(text: str) -> None:
    print(f"    {text}", file=sys.stderr, flush=True)


def monitor() -> Part:
    """Requests that are the worst possible, or random, with and without the monitor."""
    system = up.SwitchedSystem(list(PENDULA.values()), names=PENDULA)
    kept = up.stabilise(system, lift=2, seconds=600.0)
    steps = 400
    print(f"Run-time monitor, pendulum, {steps} steps, table of {kept.automaton.nodes} nodes × 8 policies")
    rng = np.random.default_rng(0)
    worst = int(np.argmax(system.radii))
    found: dict[str, Any] = {}
    for name, requests in (("worst", np.full(steps, worst)), ("random", rng.integers(0, 8, steps))):
        free, held, replaced = _requested(system, kept.automaton, requests)
        print(f"  {name} requests: size at the end {free:.1e} without, {held:.1e} with it;", end=" ")
        print(f"{100 * replaced:.1f} % replaced")
        found[name] = {"free": free, "monitored": held, "replaced": replaced}
    scenario = pendulum_scenario(up.Euler(10))
    certified = up.certified(scenario, [0.1, 0.2], lift=2)
    wild = up.EventDriven(0.2)
    runs = {}
    for name, pace in (("free", wild), ("monitored", certified.monitor(wild))):
        runs[name] = float(np.abs(up.simulate(scenario, pace=pace, until=60.0)["plant.p"][-10:]).max())
    print(f"  a run that always asks for 0.2 s: {runs['free']:.1e} without, {runs['monitored']:.1e} with it")
    found["run"] = runs
    found["policies"], kept_down = _switching()
    ok = (
        kept_down
        and found["worst"]["free"] > 1e80
        and max(found[n]["monitored"] for n in ("worst", "random")) < 1e-6
    )
    return found, bool(ok and runs["free"] > 1e20 and runs["monitored"] < 1e-4)


def _switching() -> Part:
    """The pendulum under all 8 policies of one program, on both engines: always the worst is asked for."""
    scenario = pendulum_scenario(up.Euler(1))
    table = up.certified(scenario, [0.1, 0.2], coupling=pendulum_variants(), lift=1)
    wish = up.Pattern([0.2], ["midpoint×10"])
    sizes: dict[str, float] = {}
    for engine in ("interpret", "native"):
        for name, pace in (("free", wish), ("monitored", table.monitor(wish))):
            run = up.simulate(scenario, pace=pace, coupling=pendulum_variants(), until=60.0, engine=engine)
            sizes[f"{name}, {engine}"] = float(np.abs(run["plant.p"][-10:]).max())
            changed = sum(step.count for step in run.steps if "not proven here" in step.reason)
    words = ", ".join(f"{name} {size:.1e}" for name, size in sizes.items())
    print(f"  solvers and steps that change, the worst policy asked for every time: {words}")
    ok = all(size > 1e20 if "free" in name else size < 1e-4 for name, size in sizes.items())
    return {**sizes, "base": table.kept.entropy_base, "replaced": changed}, ok


def _requested(
    system: up.SwitchedSystem, automaton: up.Automaton, requests: np.ndarray
) -> tuple[float, float, float]:
    """The sizes at the end without and with the monitor, and the part of requests that it replaced."""
    allowed: list[dict[int, int]] = [{} for _ in range(automaton.nodes)]
    for edge in automaton.edges:
        allowed[edge.source][edge.symbol] = edge.target
    free, held, node, replaced = np.ones(4), np.ones(4), 0, 0
    for request in requests.tolist():
        free = system.matrices[request] @ free
        policy = min(allowed[node], key=lambda k, wanted=request: (abs(k - wanted), k))
        replaced += policy != request
        held = system.matrices[policy] @ held
        node = allowed[node][policy]
    return float(np.linalg.norm(free)), float(np.linalg.norm(held)), replaced / len(requests)


PARTS = {
    "policies": policies,
    "lifts": lifts,
    "best_cuts": best_cuts,
    "monitor": monitor,
    "max_delay": late.max_delay,
}
