"""A thin binding of FMI 2.0 and 3.0 over ctypes. `instantiate` is all that others need of it."""

from __future__ import annotations

from upbeat.units.fmi.binding.make import instantiate

__all__ = ["instantiate"]
