"""How an FMU responds to its inputs, and to others of its kind: tried once, in a process to be thrown away.

An FMU declares which outputs depend directly on which inputs. Real ones forget some; and outputs of FMUs for
co-simulation may show a change of an input only after the next step, which is no direct dependency at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from upbeat.core.ports import Causality, Port
from upbeat.units.fmi import known
from upbeat.units.fmi.bench import settings_of
from upbeat.units.fmi.description import CoSimulation
from upbeat.units.fmi.trial import attempt

if TYPE_CHECKING:
    from upbeat.units.fmi.model import Fmu

Responses = Mapping[str, tuple[list[str], list[str]]]
"""For each input that was tried, the outputs that react to it at once, and those that do after a step."""


def responses(model: Fmu) -> tuple[Responses, str]:
    """What was found, now or before; and why it is not all there is, or nothing."""
    what = f"responses-{model.interface_name}"
    found = known.recall(model.path, what)
    if found is None:
        from upbeat.units.fmi.probe.trials import respond  # trials are made of models

        trial = attempt(respond, {"path": str(model.path), "settings": settings_of(model)})
        tried = {k.removeprefix("input "): v for k, v in trial.found.items() if k.startswith("input ")}
        found = {"inputs": tried, "why": trial.why}
        known.remember(model.path, what, found, lasting=not trial.failure)
    return {name: (at_once, later) for name, (at_once, later) in found["inputs"].items()}, found["why"]


def lags(model: Fmu) -> list[tuple[str, str]]:
    """The pairs (output, input) that are declared, but where the output reacts only after the next step.

    An output of which nothing is declared may be a state, which cannot react at once: that is no fault.
    """
    if not isinstance(model.interface, CoSimulation):
        return []
    said = {u.variable for u in model.description.structure.outputs if u.dependencies is not None}
    declared = [(out.name, name) for out in _outputs(model) if out.name in said for name in out.depends]
    if not declared:
        return []
    found, _ = responses(model)
    return sorted(
        (output, name)
        for output, name in declared
        if name in found and output not in found[name][0] and output in found[name][1]
    )


def undeclared(model: Fmu) -> tuple[list[tuple[str, str]], str]:
    """The pairs (output, input) where the output reacts at once and is declared not to; and what failed."""
    found, why = responses(model)
    depends = {out.name: out.depends for out in _outputs(model)}
    pairs = [
        (output, name)
        for name, (at_once, _) in found.items()
        for output in at_once
        if output in depends and name not in depends[output]
    ]
    return sorted(pairs), why


def disturbed(model: Fmu) -> str:
    """What goes wrong where two units of this FMU run on two threads at the same time; empty: nothing."""
    what = f"threads-{model.interface_name}"
    found = known.recall(model.path, what)
    if found is None:
        from upbeat.units.fmi.probe.trials import threads  # trials are made of models

        trial = attempt(threads, {"path": str(model.path), "settings": settings_of(model)})
        found = trial.found["threads"][2] if "threads" in trial.found else trial.why
        known.remember(model.path, what, found, lasting=not trial.failure)
    return str(found)


def _outputs(model: Fmu) -> list[Port]:
    return [p for p in model.ports if p.causality is Causality.OUTPUT and not p.event and not p.extra]
