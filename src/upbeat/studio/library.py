"""What the page offers to choose from: blocks, couplings, paces, inputs, solvers and adaptations.

All of it is read from the tables that scenario files are read by, so that something new is here as soon as
files know it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from upbeat.adapt.library import SIGNALS
from upbeat.core.errors import InvalidInput, suggest
from upbeat.master.settings import PARTS
from upbeat.scenario.files.front_ends import KEYS, front_end_classes, needed_values
from upbeat.units.solving.solvers import METHODS

_WRITTEN = {
    "ode": (
        "Differential equations",
        "States with their rates, written as expressions: x' = …",
        {"states": {"x": {"der": "u - x", "start": 0.0}}, "inputs": {"u": 0.0}, "outputs": ["x"]},
    ),
    "function": (
        "Formula",
        "Outputs that follow from the inputs at the same instant: y = …",
        {"inputs": {"u": 0.0}, "outputs": {"y": "k*u"}, "parameters": {"k": 1.0}},
    ),
}
_BEGINNINGS: dict[str, dict[str, Any]] = {
    "dead_band": {"low": -1.0, "high": 1.0},
    "saturation": {"low": -1.0, "high": 1.0},
    "relay": {"above": 1.0, "below": -1.0},
    "rate_limiter": {"rise": 1.0, "tau": 0.1},
    "quantizer": {"step": 0.1},
    "noise": {"amplitude": 1.0, "every": 0.1},
    "sum": {"of": "+-"},
    "threshold": {"level": 1.0},
    "state_machine": {
        "states": {"off": {}, "on": {}},
        "inputs": {"switch": {"event": True}},
        "initial": "off",
        "transitions": [
            {"from": "off", "to": "on", "on": "switch"},
            {"from": "on", "to": "off", "on": "switch"},
        ],
    },
    "fixed": {"step": 0.01},
    "look_ahead": {"step": 0.01},
    "pattern": {"steps": [0.01]},
    "revised": {"pace": 0.01},
    "monitored": {"pace": 0.01, "steps": [0.01], "leads": [[0]]},
    "multi_rate": {"rates": {}},
    "constrained": {"constraints": {}},
    "polynomial": {"degree": 2},
    "offset": {"by": 0.0},
    "rotate": {"angle": 0.0},
    "unit": {"unit": "m"},
    "formula": {"value": "u"},
}
"""What to begin with, where the usual example would make no sense."""


def library() -> dict[str, Any]:
    """All there is, as plain data."""
    parts = {
        "couplings": PARTS["coupling"][1],
        "loops": PARTS["loops"][1],
        "paces": PARTS["pace"][1],
        "inputs": PARTS["approximation"][1],
        "solvers": METHODS,
    }
    equations = [
        {"kind": kind, "title": title, "about": about, "parameters": [], "toml": table}
        for kind, (title, about, table) in _WRITTEN.items()
    ]
    return {
        "blocks": [*equations, *(_entry(kind, made) for kind, made in front_end_classes(KEYS).items())],
        **{name: [_part(kind, made) for kind, made in known.items()] for name, known in parts.items()},
        "adaptations": [_entry(kind, made, skipped=2) for kind, made in SIGNALS.items()],
    }


def beginning(kind: str) -> dict[str, Any]:
    """The table of a new unit of this kind."""
    known = {one["kind"]: one["toml"] for one in library()["blocks"]}
    if kind not in known:
        raise InvalidInput(f"there is no block {kind!r}. {suggest(kind, known, 'blocks')}")
    found: dict[str, Any] = known[kind]
    return found


def _entry(kind: str, made: Callable[..., Any], skipped: int = 0) -> dict[str, Any]:
    arguments = list(inspect.signature(made).parameters.values())[skipped:]
    table = {"kind": kind, **_BEGINNINGS.get(kind, needed_values(arguments))}
    return _described(kind, made, arguments) | {"toml": table}


def _part(kind: str, made: type) -> dict[str, Any]:
    arguments = [
        one for one in inspect.signature(made).parameters.values() if one.name not in ("self", "step_formula")
    ]
    needed = _BEGINNINGS.get(kind, needed_values(arguments))
    return _described(kind, made, arguments) | {"toml": {"kind": kind, **needed} if needed else kind}


def _described(kind: str, made: Any, arguments: list[inspect.Parameter]) -> dict[str, Any]:
    about = inspect.getdoc(made) or ""
    return {
        "kind": kind,
        "title": kind.replace("_", " ").capitalize(),
        "about": about.partition("\n\n")[0].replace("\n", " "),
        "parameters": [
            {"name": one.name, "value": _default(one), "about": ""}
            for one in arguments
            if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ],
    }


def _default(argument: inspect.Parameter) -> Any:
    """A default as JSON can say it; None where there is none."""
    value = argument.default
    if value is argument.empty or value is None or repr(value) == "<factory>":  # of a dataclass
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(one, (int, float, str)) for one in value):
        return list(value)
    return {} if isinstance(value, Mapping) and not value else str(value)
