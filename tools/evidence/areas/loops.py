"""What was asked of loops, constraints, error control and nesting."""

from __future__ import annotations

from tools.evidence.claim import flag, spread

CLAIMS = (
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
