"""What was asked of several cores: plans, delays, efficiency, the same bits."""

from __future__ import annotations

from tools.evidence.claim import Claim, Data, ratio

CORES, PLANS, DELAYS = "benchmarks/parallel.py", "benchmarks/scheduling.py", "reproduce/no_delay.py"


def efficiency(units: str, name: str) -> Claim:
    """The speed-up on two cores over that of two threads that never wait for each other."""

    def value(d: Data) -> float:
        return float(d[name]["speedup"] / d[name]["bare"])

    return Claim(
        f"{units} of 50 µs on two cores, against bare threads",
        "≥ 0.95",
        CORES,
        lambda d: f"{value(d):.3f} ({d[name]['speedup']:.2f} × of {d[name]['bare']:.2f} ×)",
        lambda d: value(d) >= 0.95,
        "The units of a step wait for the slower one of them; threads that never wait make up for it.",
    )


CLAIMS = (
    Claim(
        "delay of a direct-feedthrough signal with sv, ev, refined",
        "1, 1, 0 steps, and said",
        DELAYS,
        lambda d: ", ".join(str(d["delay_steps"][method]) for method in ("sv", "ev", "refined")),
        lambda d: bool(d["ok"]) and d["delay_steps"] == {"sv": 1, "ev": 1, "refined": 0},
    ),
    ratio(
        "random graphs, units for threads: worst plan over the best possible",
        2.0,
        PLANS,
        lambda d: d["anywhere"]["worst"],
    ),
    ratio(
        "… units on one core each: median plan over the best possible",
        1.3,
        PLANS,
        lambda d: d["pinned"]["median"],
    ),
    ratio("10,000 operations on 64 cores, planned in", 2.0, PLANS, lambda d: d["seconds"], times=" s"),
    efficiency("two units", "two_units"),
    efficiency("64 units", "sixty_four_units"),
    ratio("a wait for another core, free cores", 1000.0, CORES, lambda d: d["edge_ns"], times=" ns"),
    Claim(
        "two cores over one, a second process on each",
        "≥ 0.5 ×",
        CORES,
        lambda d: f"{d['busy_ratio']:.2f} ×",
        lambda d: d["busy_ratio"] >= 0.5,
    ),
    Claim(
        "repeats on two cores with the bits of one",
        "1000 of 1000",
        CORES,
        lambda d: f"{d['repeats']['identical']} of {d['repeats']['n']}",
        lambda d: d["repeats"]["identical"] == d["repeats"]["n"] >= 1000,
    ),
)
