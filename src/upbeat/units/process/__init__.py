"""Any unit in a process of its own, so that one that crashes or hangs does not take the run with it."""

from __future__ import annotations

from upbeat.units.process.isolated import DEADLINE, KEEP_EVERY, Isolated, When, as_isolated, bare, placed_like

__all__ = ["DEADLINE", "KEEP_EVERY", "Isolated", "When", "as_isolated", "bare", "placed_like"]
