"""What was asked of events: looking ahead, locating, revising steps."""

from __future__ import annotations

from tools.evidence.claim import Claim, Data, furthest, ratio

TWO, SEQUENTIAL = "reproduce/two_mass.py", "reproduce/sequential_events.py"
BALL, COST = "reproduce/relaxed_ball.py", "benchmarks/lookahead.py"


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


def near(found: list[float], wanted: tuple[float, ...], by: float) -> bool:
    return len(found) == len(wanted) and furthest(found, list(wanted)) <= by + 1e-9


CLAIMS = (
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
        "LookAhead's own work per condition and step, best method, slope from 1 to 1000 conditions",
        60.0,
        COST,
        lambda d: d["best"]["per_condition_ns"],
        "Up to a hundred conditions it is below 60 ns. What a thousand units and their events work with "
        "does not fit into the nearest cache.",
        times=" ns",
    ),
    ratio(
        "… with one condition only",
        60.0,
        COST,
        lambda d: d["rows"][0]["best_ns"],
        "What a pace costs per step at all is in it, and has only this condition to be shared by.",
        times=" ns",
    ),
    ratio(
        "… growth from 10 to 1000 conditions",
        1.5,
        COST,
        lambda d: d["best"]["growth"],
        "With a thousand units and their events the work no longer fits into the nearest cache.",
    ),
)
