"""State machines: a front end of `Discrete`."""

from __future__ import annotations

from upbeat.units.discrete.machine.model import StateMachine

__all__ = ["StateMachine"]
