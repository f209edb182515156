"""What was asked of discrete events and long runs."""

from __future__ import annotations

from tools.evidence.claim import Claim, flag, furthest

CLAIMS = (
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
