"""State machines, converters between signals and events, and blocks, as the tables of a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import ModelError
from upbeat.units.blocks import BLOCKS, DiscreteBlock
from upbeat.units.discrete import Clock, Edge, LastValue, Sampler, Schedule, StateMachine, Threshold
from upbeat.units.discrete.model import FrontEnd

_CLASSES: dict[str, type[FrontEnd]] = {
    "state_machine": StateMachine,
    "hold": LastValue,
    "sample": Sampler,
    "edge": Edge,
    "threshold": Threshold,
    "clock": Clock,
    "schedule": Schedule,
}
_LISTS = {"at": "[1.0, 2.0]", "x": "[0, 1]", "y": "[0, 1]", "num": "[1]", "den": "[1, 1]"}
_MATRICES = {"A": "[[-1.0]]", "B": "[[1.0]]", "C": "[[1.0]]"}
_EXAMPLES = {"every": "0.1", "states": "{ idle = {} }", "damping": "0.7", **_LISTS, **_MATRICES}

_MAKERS: dict[str, Callable[..., Any]] = {**_CLASSES, **BLOCKS}
KEYS: dict[str, tuple[str, ...]] = {
    kind: tuple(inspect.signature(made).parameters) for kind, made in _MAKERS.items()
}
"""The kinds, and the keys that each of them has: the arguments of its class or function."""


def front_end(kind: str, table: Mapping[str, Any]) -> Model:
    """The model that `table` describes."""
    made = _MAKERS[kind]
    missing = [
        (name, f"it is missing: {name} = {_EXAMPLES.get(name, '1.0')}")
        for name, argument in inspect.signature(made).parameters.items()
        if argument.default is argument.empty and name not in table
    ]
    if missing:
        raise ModelError("; ".join(what for _, what in missing), missing)
    model: Model = made(**table)
    return model


def front_end_table(model: Model) -> dict[str, Any] | None:
    """The table that `front_end` reads back; None if there is no kind for it. A subclass may do more."""
    if type(model) is DiscreteBlock:  # the others are equations, and written as such
        return model.to_spec()
    kind = next((kind for kind, made in _CLASSES.items() if type(model) is made), None)
    return {"kind": kind, **model.to_spec()} if kind and isinstance(model, FrontEnd) else None
