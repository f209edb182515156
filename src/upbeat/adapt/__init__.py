"""Semantic adaptations: other behaviour for units that stay as they are."""

from __future__ import annotations

from upbeat.adapt.adaptation import (
    Adaptation,
    Assign,
    Break,
    Discard,
    Local,
    Loop,
    NextStep,
    Return,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
    is_close,
    own_time,
)

__all__ = [
    "Adaptation",
    "Assign",
    "Break",
    "Discard",
    "Local",
    "Loop",
    "NextStep",
    "Return",
    "Rollback",
    "Rule",
    "SaveState",
    "Statement",
    "Step",
    "Stored",
    "When",
    "is_close",
    "own_time",
]
