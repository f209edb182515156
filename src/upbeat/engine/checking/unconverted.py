"""Connections of FMUs whose units of measure nobody knows: told before a run, as nothing converts them."""

from __future__ import annotations

import logging

from upbeat.core.abilities import FromFile
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.scenario import Scenario
from upbeat.units.process.isolated import bare

_log = logging.getLogger("upbeat.fmu")


def tell_unconverted(scenario: Scenario) -> None:
    """Log a warning for each connection that may need a conversion which nobody can do."""
    models = [bare(model) for model in scenario.units.values()]
    if not any(hasattr(model, "undefined") for model in models):  # quicker than to ask for the protocol
        return
    if not any(isinstance(model, FromFile) and model.undefined() for model in models):
        return
    for connection in scenario.connections:
        if isinstance(connection.text, dict):
            continue  # with convert = false: as asked for
        target = (connection.unit, connection.port)
        known, odd = _unit(scenario, target)
        for source in connection.sources:
            other, odd_too = _unit(scenario, source)
            if known is None or other is None or known == other or not (odd or odd_too):
                continue
            _log.warning(
                "is given '%s' in '%s' for '%s' in '%s' as it is: nothing defines that unit. "
                'To say that this is meant: "%s" = { value = "%s", convert = false }',
                ".".join(source), other, target[1], known, ".".join(target), connection.text,
                extra={"unit": target[0]},
            )  # fmt: skip


def _unit(scenario: Scenario, end: End) -> tuple[str | None, bool]:
    """What a port is in, and whether that is a name without a meaning."""
    unit, name = end
    if unit == INPUTS or unit not in scenario.units:
        return next((port.unit for port in scenario.inputs if port.name == name), None), False
    model = bare(scenario.units[unit])
    if isinstance(model, FromFile) and name in model.undefined():
        return model.undefined()[name], True
    return next((port.unit for port in model.ports if port.name == name), None), False
