"""Which engine runs a scenario, and why."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, get_args

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import InvalidInput
from upbeat.core.records import dataclass
from upbeat.engine.native import machine as native

EngineName = Literal["auto", "native", "interpret", "compiled"]

_COMPILED = "upbeat.generate.engine"
"""The compiled engine: it stands above all that it prints, so it is not imported but found by its name."""


def compiled_engine() -> Any:
    """The module of the compiled engine."""
    return import_module(_COMPILED)


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine that will run, and the sentence that says why."""

    name: Literal["native", "interpret", "compiled"]
    why: str


def choose(wanted: EngineName, models: Mapping[str, Model]) -> Choice:
    """The engine for these models. Asking for the native one where there is none is an error."""
    if wanted not in get_args(EngineName):
        raise InvalidInput(
            f"there is no engine '{wanted}'; the engines are: {', '.join(get_args(EngineName))}"
        )
    if wanted in ("interpret", "compiled"):
        return Choice(wanted, "asked for")
    available = native.available()
    if not available:
        if wanted == "native":
            raise InvalidInput(
                f"the native engine is not available: {available.why}. Reinstall Upbeat where a C++ "
                "compiler is present, or use --engine interpret."
            )
        return Choice("interpret", f"the native engine is not available: {available.why}")
    python = [name for name, model in models.items() if Ability.NATIVE not in model.abilities]
    if not python:
        return Choice("native", "every unit runs natively")
    shown = ", ".join(python[:5]) + (f" and {len(python) - 5} more" if len(python) > 5 else "")
    return Choice("native", f"it also runs Python units, by calling back into Python for {shown}")
