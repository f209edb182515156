"""The connections of a scenario in SSP: copies and linear transformations, constants as start values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upbeat.core.errors import Problems
from upbeat.core.expr import Expr, evaluate, names
from upbeat.core.ports import Kind
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.merging.affine import Affine as Form
from upbeat.scenario.merging.affine import affine
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.ssp.exported_ports import ExportedPorts
from upbeat.scenario.ssp.exported_units import converts, port_variables, unit_definition
from upbeat.scenario.ssp.keeping import Kept
from upbeat.scenario.ssp.xmltext import element
from upbeat.units.fmi.description import UnitDefinition
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.xml import Element


class Links:
    """Those of one scenario of these `units`."""

    def __init__(
        self, scenario: Scenario, units: Mapping[str, Fmu], own: ExportedPorts, kept: Kept, problems: Problems
    ) -> None:
        self._scenario = scenario
        self._units = units
        self._own = own
        self._kept = kept
        self._refuse = problems.add

    def elements(self, starts: dict[str, dict[str, tuple[Any, ...]]]) -> list[Element]:
        """All of them; what is constant goes into `starts`, by unit."""
        found: list[Element] = []
        for connection in self._scenario.connections:
            if connection.unit not in self._units:
                continue
            form = self._form(connection, ("connections", connection.target))
            if form is None:
                continue
            source, scale, offset = form
            if source is None:
                self._constant(connection, starts)
            else:
                end = (connection.unit, connection.port)
                found.append(self._link(source, end, scale, offset, self._unit(end)))
        for output in self._scenario.outputs:
            form = self._form(output, ("outputs", output.port.name))
            if form is None:
                continue
            source, scale, offset = form
            if source is None:
                self._refuse(("outputs", output.port.name), "it is a constant, which no connection carries")
            else:
                unit = self._own.unit(output.port)
                found.append(self._link(source, (INPUTS, output.port.name), scale, offset, unit))
        for event in self._scenario.event_connections:
            first = event.senders[0]
            if len(event.senders) > 1 or first.when is not None or not isinstance(event.text, str):
                self._refuse(("connections", event.target), "it is more than an event that is passed on")
            else:
                found.append(self._link(first.source, (event.unit, event.port), 1.0, 0.0, None))
        for output_ in self._scenario.event_outputs:
            self._refuse(("outputs", output_.port.name), "it is an event, which SSP does not know")
        return found

    def _form(
        self, given: Connection | ScenarioOutput, where: tuple[str, ...]
    ) -> tuple[End | None, float, float] | None:
        """``scale · source + offset``; None, and a complaint, if it is anything else."""
        if any(unit != INPUTS and unit not in self._units for unit, _ in given.sources):
            return None  # there is a complaint about that unit already
        found = {_numbers(cell, i, len(given.cells)) for i, cell in enumerate(given.cells)}
        form = found.pop() if len(found) == 1 else None
        if form is None or len(given.sources) > 1:
            self._refuse(
                where,
                f"{given.text!r} is more than factor · source + offset, which is all that SSP can say",
                "Put the formula into an FMU.",
            )
            return None
        return (given.sources[0] if given.sources else None), *form

    def _constant(self, connection: Connection, starts: dict[str, dict[str, tuple[Any, ...]]]) -> None:
        """An input that is constant starts with that value and keeps it."""
        port, _ = port_variables(self._units[connection.unit])[connection.port]
        numbers = [evaluate(cell) for cell in connection.cells]
        values = tuple(
            bool(n) if port.kind is Kind.BOOLEAN else int(n) if port.kind is Kind.INTEGER else n
            for n in numbers
        )
        starts[connection.unit][connection.port] = values

    def _unit(self, end: End) -> UnitDefinition | None:
        """What SSP will take the unit of a port to be."""
        unit, name = end
        if unit == INPUTS:
            port = next(port for port in self._scenario.inputs if port.name == name)
            return self._own.unit(port)
        fmu = self._units[unit]
        return unit_definition(fmu, port_variables(fmu)[name][1])

    def _link(
        self, source: End, target: End, scale: float, offset: float, unit: UnitDefinition | None
    ) -> Element:
        known = converts(self._unit(source), unit, scale, offset)
        plain = scale == 1 and offset == 0
        change = None
        if known is not True and not plain:
            change = element("ssc:LinearTransformation", factor=scale, offset=offset)
        start, end = (None if unit_name == INPUTS else unit_name for unit_name, _ in (source, target))
        return element(
            "ssd:Connection",
            change,
            *self._kept.connection(start or "", source[1], end or "", target[1]),
            startElement=start,
            startConnector=source[1],
            endElement=end,
            endConnector=target[1],
            suppressUnitConversion=True if known is False else None,
        )


def _numbers(cell: Expr, index: int, count: int) -> tuple[float, float] | None:
    """Factor and offset of an expression over one name, which is the right cell of its array."""
    found = sorted(names(cell))
    if len(found) > 1 or any(count > 1 and not name.endswith(f"[{index}]") and "[" in name for name in found):
        return None
    form = affine(cell, {name: Form.unknown(name) for name in found})
    if form is None:
        return None
    scale = evaluate(form.slopes[found[0]]) if found and found[0] in form.slopes else 0.0
    return float(scale), float(evaluate(form.constant))
