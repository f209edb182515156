"""The names that every state machine has."""

from __future__ import annotations

ELAPSED = "elapsed"
"""The name of the time since the leaf was entered."""
STATE = "state"
"""The name of the leaf: in expressions, as a variable and as an output."""
