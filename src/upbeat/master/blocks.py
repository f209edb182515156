"""Blocks: what a coupling makes of a scenario, and paces and events add to, until they are a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upbeat.master.program import Block, Recordable


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a coupling contributes to a program, and a pace may add to."""

    start: Block
    steps: Mapping[str, Block]
    exchange: Block
    instant: Block = ()
    notes: tuple[str, ...] = ()
    columns: Mapping[str, Recordable] = field(default_factory=dict)
    """What a trace may record besides ports."""
    stops: Recordable | None = None
    """See `Program.stops`."""
