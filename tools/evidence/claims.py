"""What was asked for: each claim names its script, how to read the number off, and when it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Data = Any
"""What a script prints as its last line with `--json`."""


@dataclass(frozen=True)
class Claim:
    """One number. `why` explains a miss; it is shown only where there is one."""

    what: str
    asked: str
    script: str
    reached: Callable[[Data], str]
    holds: Callable[[Data], bool]
    why: str = ""


def worst(rows: list[dict[str, float]], key: str, by: str = "c_ns") -> float:
    """The largest ratio of two columns."""
    return max(row[key] / row[by] for row in rows if row.get(key) is not None)


def least(rows: list[dict[str, float]], key: str, by: str) -> float:
    """The smallest ratio of two columns."""
    return min(row[key] / row[by] for row in rows if row.get(key) is not None)


def ratio(
    what: str, most: float, script: str, value: Callable[[Data], float], why: str = "", *, times: str = " ×"
) -> Claim:
    """A number that should not be above `most`."""
    return Claim(
        what,
        f"≤ {most:g}{times}",
        script,
        lambda d: f"{value(d):.3g}{times}",
        lambda d: value(d) <= most,
        why,
    )


def flag(what: str, asked: str, script: str, reached: Callable[[Data], str]) -> Claim:
    """A script that judges by itself, in `ok`."""
    return Claim(what, asked, script, reached, lambda d: bool(d["ok"]))


OVERHEAD, RING, LIFE = "benchmarks/overhead.py", "benchmarks/fmu_ring.py", "benchmarks/fmu_life.py"
START, TWO = "benchmarks/start.py", "reproduce/two_mass.py"


def furthest(some: list[float], others: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(some, others, strict=True))


def spread(values: dict[str, float]) -> str:
    return f"{min(values.values()):.2f} to {max(values.values()):.2f}"


FOUNDATION = (
    ratio("native engine, units of about 100 ns", 1.5, OVERHEAD, lambda d: worst(d["ring"], "native_ns")),
    ratio("native engine, empty units", 2.0, OVERHEAD, lambda d: worst(d["ring_empty"], "native_ns")),
    ratio("expressions (bytecode)", 10.0, OVERHEAD, lambda d: worst(d["ring"], "expression_ns")),
    ratio("expressions, compiled (jit)", 2.5, OVERHEAD, lambda d: worst(d["ring"], "jit_ns")),
    ratio(
        "growth per unit and step from 10 to 1000 units",
        1.3,
        OVERHEAD,
        lambda d: (
            {r["n"]: r["native_ns"] for r in d["ring"]}[1000]
            / {r["n"]: r["native_ns"] for r in d["ring"]}[10]
        ),
    ),
    ratio(
        "interpreter, per unit and step",
        8.0,
        OVERHEAD,
        lambda d: max(r["interpreted_ns"] for r in d["ring"]) / 1e3,
        times=" µs",
    ),
    ratio("memory of recording 10⁶ × 10 values", 1.3, OVERHEAD, lambda d: d["record_overhead"]),
    ratio("`import upbeat`", 0.2, START, lambda d: d["import_s"], times=" s"),
    ratio("`upbeat run` of a small example", 1.0, START, lambda d: d["run_s"], times=" s"),
    Claim(
        "heavy packages that `import upbeat` loads",
        "none",
        START,
        lambda d: ", ".join(d["heavy"]) or "none",
        lambda d: not d["heavy"],
    ),
    flag(
        "coupled masses: order of Jacobi and Gauss-Seidel, held and linear inputs",
        "1 and 2",
        "reproduce/coupled_masses.py",
        lambda d: "; ".join(", ".join(f"{o:.2f}" for o in by.values()) for by in d["here"].values()),
    ),
)

LOOPS = (
    flag(
        "massless link: largest residual with 1, 2, 3 corrections",
        "each 5 × smaller",
        "reproduce/massless_link.py",
        lambda d: ", ".join(f"{r:.1e}" for r in d["residual"]),
    ),
    flag(
        "orders of 12 combinations of coupling and inputs",
        "within 0.2 of theory",
        "reproduce/orders.py",
        lambda d: (
            "off by at most "
            + format(
                max(abs(d["orders"][c][i] - d["theory"][c][i]) for c in d["orders"] for i in d["orders"][c]),
                ".2f",
            )
        ),
    ),
    flag(
        "error control: slope of error over tolerance, ten problems",
        "1 ± 0.2",
        "reproduce/error_control.py",
        lambda d: f"{spread(d['slopes'])} (Richardson), {spread(d['milne'])} (Milne)",
    ),
    flag(
        "three units negotiate steps, flat and nested",
        "the earliest stop",
        "reproduce/negotiation.py",
        lambda d: f"{len(d['flat'])} cases as expected" if d["ok"] else "differ",
    ),
    flag(
        "nested three deep = flat",
        "bit for bit",
        "reproduce/nested.py",
        lambda d: f"{sum(map(len, d['differ'].values()))} runs compared",
    ),
    flag("what nesting costs", "< 5 %", "benchmarks/nesting.py", lambda d: f"{100 * d['overhead']:.1f} %"),
    flag(
        "random graphs with loops",
        "solved or named",
        "reproduce/random_loops.py",
        lambda d: f"{d['with_loops']} of {d['graphs']} graphs have loops; all solved or named",
    ),
)

HYBRID = (
    flag(
        "traffic light and officer to t = 700",
        "the exact trace",
        "reproduce/traffic_light.py",
        lambda d: f"{len(d['states'])} states, {len(d['outputs'])} outputs, both orders at t = 60",
    ),
    flag(
        "thermostat: switching times",
        "to the step",
        "reproduce/thermostat.py",
        lambda d: f"within {furthest(d['switches'], d['analytic']):.4f} at {d['step']:g}",
    ),
    flag(
        "kill -9 at random moments, then resume",
        "the same trace",
        "reproduce/kill_resume.py",
        lambda d: f"{d['identical']} of {d['kills']} identical",
    ),
    Claim(
        "discrete events per second, native",
        "≥ 10⁶",
        "benchmarks/discrete.py",
        lambda d: f"{d['events_per_s'] / 1e6:.1f} million (SimPy {d['simpy_events_per_s'] / 1e6:.2f})",
        lambda d: d["events_per_s"] >= 1e6,
    ),
)

FMI = (
    ratio(
        "ring of FMUs, native against C",
        1.5,
        RING,
        lambda d: worst(d["ring"], "native_ns"),
        "Three calls through the table of a unit, their checks and the recording cost 15 to 20 ns; with an "
        "FMU that does next to nothing that is more than the FMU itself.",
    ),
    Claim(
        "… against a loop with FMPy",
        "≥ 20 × faster",
        RING,
        lambda d: f"{least(d['ring'], 'fmpy_ns', 'native_ns'):.0f} ×",
        lambda d: least(d["ring"], "fmpy_ns", "native_ns") >= 20,
    ),
    Claim(
        "… interpreted, against FMPy",
        "faster",
        RING,
        lambda d: f"{least(d['ring'], 'fmpy_ns', 'interpreted_ns'):.2f} ×",
        lambda d: least(d["ring"], "fmpy_ns", "interpreted_ns") > 1.0,
        "Both are Python calling the same C functions; on a busy machine their order changes.",
    ),
    Claim(
        "1000 lives of an FMU leave behind",
        "< 1 MB",
        LIFE,
        lambda d: f"{max(r['grown_mb'] for r in d['life']):.2f} MB",
        lambda d: max(r["grown_mb"] for r in d["life"]) < 1,
    ),
    Claim(
        "200 FMUs in one scenario load in",
        "< 5 s",
        LIFE,
        lambda d: f"{max(r['load_s'] for r in d['life']):.1f} s",
        lambda d: max(r["load_s"] for r in d["life"]) < 5,
    ),
    ratio(
        "a call to an isolated unit, free cores",
        5.0,
        "benchmarks/isolation.py",
        lambda d: d["call_us"],
        "Both processes look at shared memory while they wait, so each needs a core of its own.",
        times=" µs",
    ),
)


def two_masses(name: str, what: str, steps: int, error: float) -> Claim:
    """One method on the two masses under a ceiling."""

    def found(d: Data) -> dict[str, float]:
        return d["methods"][name]

    def reached(d: Data) -> str:
        m = found(d)
        events = f"{12 - m['missed']:.0f} of 12, {m['spurious']:.0f} spurious"
        return f"{m['steps']:.0f} steps, {m['e_rms']:.2g}, {events}"

    def holds(d: Data) -> bool:
        m = found(d)
        return m["steps"] <= steps and m["e_rms"] <= error and m["missed"] == m["spurious"] == 0

    return Claim(what, f"≤ {steps} steps, e_rms ≤ {error:g}, 12 of 12", TWO, reached, holds)


EVENTS = (
    two_masses("lookahead_published", "two masses: LookAhead as published", 290, 0.25),
    two_masses("best_first_derivatives", "two masses: positions and velocities only", 270, 0.02),
    two_masses("best", "two masses: best method", 265, 5e-4),
    two_masses("best_jacobi", "two masses: best method, units side by side", 265, 5e-4),
    two_masses("revision", "two masses: step revision", 265, 5.3e-4),
    Claim(
        "best method from 100 random starts",
        "all events right, e_rms ≤ 2e-3",
        TWO,
        lambda d: (
            f"{d['ensemble']['all_events_right']} of {d['ensemble']['n']}, {d['ensemble']['max_e_rms']:.1g}"
        ),
        lambda d: (
            d["ensemble"]["all_events_right"] == d["ensemble"]["n"] and d["ensemble"]["max_e_rms"] <= 2e-3
        ),
    ),
    Claim(
        "LookAhead against the fixed step, error",
        "≥ 15 × less",
        TWO,
        lambda d: f"{d['methods']['fixed']['e_rms'] / d['methods']['lookahead_published']['e_rms']:.0f} ×",
        lambda d: d["methods"]["fixed"]["e_rms"] >= 15 * d["methods"]["lookahead_published"]["e_rms"],
    ),
)

SEQUENTIAL, BALL, COST = (
    "reproduce/sequential_events.py",
    "reproduce/relaxed_ball.py",
    "benchmarks/lookahead.py",
)


def near(found: list[float], wanted: tuple[float, ...], by: float) -> bool:
    return len(found) == len(wanted) and furthest(found, list(wanted)) <= by + 1e-9


EVENTS += (
    Claim(
        "two masses as black boxes (FMUs without rollback)",
        "≤ 290 steps, 12 of 12, ≥ 15 × better than fixed",
        TWO,
        lambda d: (
            f"{d['black_boxes']['lookahead']['steps']} steps, "
            f"{12 - d['black_boxes']['lookahead']['missed']} of 12, "
            f"{d['black_boxes']['fixed']['e_rms'] / d['black_boxes']['lookahead']['e_rms']:.0f} ×"
        ),
        lambda d: (
            d["black_boxes"]["lookahead"]["steps"] <= 290
            and d["black_boxes"]["lookahead"]["missed"] == d["black_boxes"]["lookahead"]["spurious"] == 0
            and d["black_boxes"]["fixed"]["e_rms"] >= 15 * d["black_boxes"]["lookahead"]["e_rms"]
        ),
    ),
    Claim(
        "located without rollback, macro steps of 0.1",
        "4 of 4, within 0.02 s, e_rms ≤ 0.1",
        SEQUENTIAL,
        lambda d: (
            f"{d['dt_0.1']['events']}, {d['dt_0.1']['max_time_error']:.4f} s, {d['dt_0.1']['e_rms']:.3f}"
        ),
        lambda d: (
            d["dt_0.1"]["missed"] == 0
            and d["dt_0.1"]["max_time_error"] <= 0.02
            and d["dt_0.1"]["e_rms"] <= 0.1
        ),
    ),
    Claim(
        "… of 0.3, as published: a ceiling that is not there",
        "near 0.9",
        SEQUENTIAL,
        lambda d: ", ".join(f"{name} at {t:.3f}" for name, t in d["dt_0.3"]["spurious"]),
        lambda d: near([t for _, t in d["dt_0.3"]["spurious"]], (0.906,), 0.01),
    ),
    Claim(
        "… moving walls: events, and left to CHECK",
        "9 of 9, none",
        SEQUENTIAL,
        lambda d: f"{d['moving']['events']}, {d['moving']['left_to_check']}",
        lambda d: d["moving"]["missed"] == d["moving"]["left_to_check"] == 0,
    ),
    Claim(
        "… moving walls: the sequence switches",
        "near 2.40, 3.60, 4.75",
        SEQUENTIAL,
        lambda d: ", ".join(f"{t:.2f}" for t in d["moving"]["switches"]),
        lambda d: near(d["moving"]["switches"], (2.40, 3.60, 4.75), 0.05),
    ),
    Claim(
        "a ball on a contact spring, 0.002 s late: energy",
        "gains; with LookAhead it does not",
        BALL,
        lambda d: f"{d['delayed']['gains']} gains; {d['lookahead']['gains']}",
        lambda d: d["delayed"]["gains"] > 0 and d["lookahead"]["gains"] == 0,
    ),
    ratio(
        "LookAhead's own work per condition and step, best method",
        60.0,
        COST,
        lambda d: d["best"]["worst_ns"],
        times=" ns",
    ),
)

AREAS = {
    "Foundation: overhead, start, orders": FOUNDATION,
    "Loops, constraints, error control, nesting": LOOPS,
    "Discrete events and long runs": HYBRID,
    "FMUs": FMI,
    "Events": EVENTS,
}
