"""What random scenarios need to know of a unit: its model, and the ports that connections may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st

REALS = st.floats(-2.0, 2.0, allow_nan=False, width=32)

Signals = dict[str, tuple[str, int | None]]
"""The kind and the size of each port."""


class Payload(NamedTuple):
    """What an event carries."""

    kind: str
    size: int | None = None
    items: tuple[str, ...] = ()


Events = dict[str, Payload]


@dataclass(frozen=True)
class Shape:
    """The ports that connections need to know about."""

    model: Any
    inputs: Signals
    outputs: Signals
    hears: Events = field(default_factory=dict)
    sends: Events = field(default_factory=dict)
