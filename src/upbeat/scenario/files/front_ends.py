"""Kinds of unit that are the arguments of a class or function: blocks, state machines, converters."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from upbeat.core.abilities import Model
from upbeat.core.errors import ModelError
from upbeat.units.blocks import BLOCKS, DiscreteBlock
from upbeat.units.discrete import Clock, Edge, LastValue, Sampler, Schedule, StateMachine, Threshold


class Spelled(Protocol):
    """A model whose class takes the keys of a table as its arguments."""

    def to_spec(self) -> dict[str, Any]:
        """The table without its kind: arguments that make an equal model."""
        ...


_CLASSES: dict[str, type[Spelled]] = {
    "state_machine": StateMachine,
    "hold": LastValue,
    "sample": Sampler,
    "edge": Edge,
    "threshold": Threshold,
    "clock": Clock,
    "schedule": Schedule,
}
"""A new kind of unit is one line here."""
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


def front_end_classes(kinds: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """What makes the units of these kinds."""
    return {kind: _MAKERS[kind] for kind in kinds}


def needed_values(arguments: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """Values to begin with, for those arguments that have none of their own."""
    needed = [one.name for one in arguments if one.default is one.empty and one.kind not in _REST]
    return {name: tomllib.loads(f"v = {_EXAMPLES.get(name, '1.0')}")["v"] for name in needed}


_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def front_end_table(model: Model) -> dict[str, Any] | None:
    """The table that `front_end` reads back; None if there is no kind for it. A subclass may do more."""
    if type(model) is DiscreteBlock:  # the others are equations, and written as such
        return model.to_spec()
    own: Any = model
    return next(
        ({"kind": kind, **own.to_spec()} for kind, made in _CLASSES.items() if type(own) is made), None
    )
