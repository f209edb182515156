"""What was asked of generated code: as quick as a loop by hand, and the same bits as the engines."""

from __future__ import annotations

from typing import Any

from tools.evidence.claim import Claim, ratio, worst

RING, SAME, HOSTS = "benchmarks/generated.py", "reproduce/generated.py", "reproduce/exported.py"

CLAIMS = (
    ratio(
        "ring of expression units with 100 ns of own work, against the loop in C",
        1.3,
        RING,
        lambda d: worst(d["ring"], "compiled_ns"),
    ),
    Claim(
        "every example, generated = native = interpreted, to the bit",
        "all",
        SAME,
        lambda d: f"{sum(what == 'same' for what in d['examples'].values())} of {len(d['examples'])}",
        lambda d: all(what == "same" for what in d["examples"].values()),
    ),
    Claim(
        "… random scenarios",
        "200 of 200",
        SAME,
        lambda d: f"{sum(d['random'].values()) - d['random']['different']} of {sum(d['random'].values())}",
        lambda d: d["random"]["different"] == 0 and sum(d["random"].values()) >= 200,
    ),
    ratio(
        "a macro step through an exported FMU, against the nested scenario",
        1.2,
        RING,
        lambda d: d["export_overhead"],
    ),
    Claim(
        "exported FMUs in FMPy, libcosim, Ecos and Upbeat: largest difference",
        "≤ 1e-12",
        HOSTS,
        lambda d: f"{_apart(d):.0e}",
        lambda d: _apart(d) <= 1e-12 and not d["two_mass"]["absent"],
    ),
    Claim(
        "the two masses as an FMU, asked every 0.5 s: events met; e_rms",
        "12 of 12; ≤ 1e-4",
        HOSTS,
        lambda d: f"{d['two_mass']['events']['met']} of 12; {d['two_mass']['e_rms']:.1e}",
        lambda d: d["two_mass"]["events"]["met"] == 12 and d["two_mass"]["e_rms"] <= 1e-4,
    ),
    Claim(
        "1000 lives of an exported FMU: growth of memory",
        "< 1 MB",
        HOSTS,
        lambda d: f"{max(d[kind]['growth_mb'] for kind in ('source', 'core')):.2f} MB",
        lambda d: all(d[kind]["growth_mb"] < 1.0 for kind in ("source", "core")),
    ),
    Claim(
        "the engine as one FMU: difference of the torque",
        "same",
        HOSTS,
        lambda d: f"{d['engine']['difference']:.0e}",
        lambda d: d["engine"]["difference"] <= 1e-12,
    ),
    Claim(
        "generated C of the examples under sanitizers",
        "clean",
        HOSTS,
        lambda d: f"{sum(what == 'clean' for what in d['sanitized'].values())} of {len(d['sanitized'])}",
        lambda d: all(what == "clean" for what in d["sanitized"].values()),
    ),
)


def _apart(found: dict[str, Any]) -> float:
    return max(apart for hosts in found["two_mass"]["hosts"].values() for apart in hosts.values())
