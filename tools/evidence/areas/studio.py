"""What was asked of the studio: that looking at a scenario or a run costs little and keeps nobody waiting."""

from __future__ import annotations

from tools.evidence.claim import Claim, ratio

SCRIPT = "benchmarks/studio.py"
BUSY = (
    "Measured while other work kept two cores busy nine times over. Browser, server and run "
    "share them, and Chromium draws without a GPU."
)

CLAIMS = (
    ratio(
        "more work for a native run of a second while it is watched",
        0.02,
        SCRIPT,
        lambda d: d["cost_of_being_watched"],
        BUSY,
        times="",
    ),
    Claim(
        "frames a second while moving about in 4 × 10⁵ points, all on the page",
        "≥ 24",
        SCRIPT,
        lambda d: f"{d['fps_4x1e5']:.0f}; {d['fps_usual']:.0f} with as many as the page takes by itself",
        lambda d: d["fps_4x1e5"] >= 24,
        BUSY,
    ),
    ratio("from a step of a run to the screen", 100.0, SCRIPT, lambda d: d["latency_ms"], BUSY, times=" ms"),
    ratio("layout of 50 units", 100.0, SCRIPT, lambda d: d["layout_ms"]["50"], BUSY, times=" ms"),
    ratio("layout of 500 units", 1000.0, SCRIPT, lambda d: d["layout_ms"]["500"], BUSY, times=" ms"),
    ratio("loaded for a first view", 2.0, SCRIPT, lambda d: d["bytes_transferred"] / 1e6, times=" MB"),
    ratio("first view of 50 units", 1000.0, SCRIPT, lambda d: d["first_view_ms"], BUSY, times=" ms"),
)
