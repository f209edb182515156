"""What was asked of verdicts on stability."""

from __future__ import annotations

from typing import Any

from tools.evidence.claim import Claim

SCRIPT, COST = "reproduce/stability.py", "benchmarks/monitor.py"
STEPS = {
    "Jacobi, hold": [(0.0, 0.3346)],
    "Jacobi, hold, lagged output": [(0.0, 0.1994)],
    "Jacobi, linear": [(0.0, 0.5971)],
    "Jacobi, extrapolated interpolation": [(0.0, 0.1652)],
    "Gauss-Seidel, hold": [(0.0, 0.2007)],
    "Gauss-Seidel, interpolating": [(0.0, 0.5161)],
    "the same, 5 iterations": [(0.0, 1.9233), (2.206, 2.279)],
}
"""The stable steps of two coupled masses, as they are known."""
EXAMPLE_21 = (1.6180340, 1.8392868, 1.9275620, 1.9659482, 1.9835828)
BUSY = (
    "the time is that of the clock on the wall, so that it counts what other work on the machine took away."
)
OWN = (
    "the seconds are those of the processor: waiting for other work does not count, but the same work takes "
    "more of them on a slower processor, or where other work shares its caches."
)


def apart(found: dict[str, Any]) -> float:
    """How far intervals of steps are from the known ones; infinite if there are more or fewer."""
    worst = 0.0
    for name, known in STEPS.items():
        if len(found[name]) != len(known):
            return float("inf")
        for one, two in zip(found[name], known, strict=True):
            worst = max(worst, *(abs(a - b) for a, b in zip(one, two, strict=True)))
    return worst


def lift(degree: int, least: float, seconds: float | None = None) -> Claim:
    """The entropy that a lift leaves, certified, and in how much time of the processor."""

    def holds(d: Any) -> bool:
        row = d["lifts"][degree]
        quick = seconds is None or row["cpu_seconds"] < seconds
        return bool(row["certified"] and row["entropy_base"] >= least - 1e-6 and quick)

    def reached(d: Any) -> str:
        row = d["lifts"][degree]
        proof = "certified" if row["certified"] else "no proof"
        return f"{row['entropy_base']:.7f}, {proof}, {row['cpu_seconds']:.1f} s"

    asked = f"≥ {least:.8g} certified" + ("" if seconds is None else f" in < {seconds:g} s")
    return Claim(
        f"table 5.2, lift {degree}: base of the entropy",
        asked,
        SCRIPT,
        reached,
        holds,
        "" if seconds is None else OWN,
    )


def delay(name: str, expected: float) -> Claim:
    """A largest delay, from functions and from a scenario file, confirmed by the return map on both sides."""

    def holds(d: Any) -> bool:
        row = d["max_delay"][name]
        close = all(abs(row[key] - expected) < 2e-9 for key in ("delay", "from_file"))
        return bool(close and row["rest_below"] and row["cycle_above"])

    return Claim(
        f"chapter 6, largest delay ({name})",
        f"{expected:.8g} s ± 2e-9, confirmed at 0.99 × and 1.01 ×",
        SCRIPT,
        lambda d: (
            f"{d['max_delay'][name]['delay']:.10f} s (from its file {d['max_delay'][name]['from_file']:.10f})"
        ),
        holds,
    )


def scale(place: int, what: str, asked: str, key: str, most: float) -> Claim:
    """How long a verdict takes, or how much memory."""
    return Claim(
        what,
        asked,
        SCRIPT,
        lambda d: f"{d['scale'][place]['seconds']:.1f} s, {d['scale'][place]['peak_gib']:.2f} GiB",
        lambda d: d["scale"][place][key] < most,
        BUSY if key == "seconds" else "",
    )


def monitor_cost(d: Any) -> str:
    """Over all paces and tables, the largest of which are named."""
    sizes = {(row["policies"], row["nodes"]) for row in d["rows"]}
    large = {max(sizes), max(sizes, key=lambda size: size[1])}
    named = " and ".join(f"{policies} policies × {nodes} nodes" for policies, nodes in sorted(large))
    least = min(row["monitor_ns"] for row in d["rows"])
    return f"{least:.0f} to {d['worst_ns']:.0f} ns, tables up to {named}"


CLAIMS = (
    Claim(
        "example 16, lagged outputs",
        "0.9992327 ± 1e-6",
        SCRIPT,
        lambda d: f"{d['example16']['stable']:.7f}",
        lambda d: abs(d["example16"]["stable"] - 0.9992327) < 1e-6,
    ),
    Claim(
        "example 16, d_c = 6e6: lagged, solved",
        "< 1, 5997.0 ± 0.1",
        SCRIPT,
        lambda d: f"{d['example16']['stiff_lagged']:.11f}, {d['example16']['unstable']:.2f}",
        lambda d: d["example16"]["stiff_lagged"] < 1.0 and abs(d["example16"]["unstable"] - 5997.0) < 0.1,
    ),
    Claim(
        "largest stable steps of two masses, as intervals",
        "within 1e-3",
        SCRIPT,
        lambda d: f"{len(STEPS)} couplings, off by at most {apart(d['largest_steps']):.1e}",
        lambda d: apart(d["largest_steps"]) <= 1e-3,
    ),
    Claim(
        "section 5.4: unstable policies, unstable pairs",
        "4 of 16, 22 of 256",
        SCRIPT,
        lambda d: f"{d['policies']['unstable']} of 16, {d['policies']['unstable_pairs']} of 256",
        lambda d: (d["policies"]["unstable"], d["policies"]["unstable_pairs"]) == (4, 22),
    ),
    Claim(
        "section 5.4: joint spectral radius of the other 12",
        "within 0.999118 … 0.99914",
        SCRIPT,
        lambda d: "{:.7f} … {:.7f}".format(*d["policies"]["jsr"]),
        lambda d: 0.999118 <= d["policies"]["jsr"][0] <= d["policies"]["jsr"][1] <= 0.99914,
    ),
    Claim(
        "section 5.4: the 16 policies from one program",
        "the same radii",
        SCRIPT,
        lambda d: f"apart by {d['policies']['program_apart']:.1e}",
        lambda d: d["policies"]["program_apart"] < 1e-9,
    ),
    Claim(
        "table 5.1: evaluations of fer10, fer1, ferm",
        "20000, 2000, 14600",
        SCRIPT,
        lambda d: ", ".join(str(d["policies"]["evaluations"][n]) for n in ("fer10", "fer1", "ferm")),
        lambda d: (
            [d["policies"]["evaluations"][n] for n in ("fer10", "fer1", "ferm")] == [20000, 2000, 14600]
        ),
    ),
    lift(0, 5.0),
    lift(1, 7.2568898),
    lift(2, 7.75, 15.0),
    lift(3, 7.86, 600.0),
    Claim(
        "section 5.9: the best cut of lift 1",
        "7.2568898, proven",
        SCRIPT,
        lambda d: f"{d['best_cuts']['lift1']:.7f}, {'proven' if d['best_cuts']['proven'] else 'not proven'}",
        lambda d: d["best_cuts"]["proven"] and abs(d["best_cuts"]["lift1"] - 7.2568898) < 1e-6,
    ),
    Claim(
        "example 21, k = 1 … 5",
        ", ".join(f"{base:.7f}" for base in EXAMPLE_21),
        SCRIPT,
        lambda d: ", ".join(f"{base:.7f}" for base in d["best_cuts"]["example21"]),
        lambda d: (
            max(abs(a - b) for a, b in zip(d["best_cuts"]["example21"], EXAMPLE_21, strict=True)) < 1e-6
        ),
    ),
    delay("c50000", 1.4128689e-3),
    delay("c40000", 1.6677445e-3),
    delay("affine", 1.6232054e-3),
    Claim(
        "random scenarios: verdict and long run agree",
        "200 of 200",
        SCRIPT,
        lambda d: f"{d['truth_check']['agree']} of {d['truth_check']['n']}",
        lambda d: d["truth_check"]["agree"] == d["truth_check"]["n"] >= 200,
    ),
    Claim(
        "adaptive runs with unstable sequences: free, monitored",
        "grows, never grows",
        SCRIPT,
        lambda d: ", ".join(
            f"{max(size for name, size in d['monitor']['policies'].items() if name.startswith(kind)):.1e}"
            for kind in ("free", "monitored")
        ),
        lambda d: all(
            d["monitor"]["policies"][f"free, {engine}"] > 1e20
            and d["monitor"]["policies"][f"monitored, {engine}"] < 1e-4
            for engine in ("interpret", "native")
        ),
    ),
    Claim(
        "the run-time monitor, native, per step",
        "nanoseconds: ≤ 100 ns",
        COST,
        monitor_cost,
        lambda d: d["worst_ns"] <= 100.0,
    ),
    scale(1, "verdict for 50 units, 500 states", "< 10 s", "seconds", 10.0),
    scale(2, "verdict for 200 units, 2,000 states", "< 2 GiB", "peak_gib", 2.0),
)
