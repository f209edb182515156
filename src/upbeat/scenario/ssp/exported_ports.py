"""The scenario's own inputs and outputs in SSP: connectors of the system, and start values."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.core.errors import Problems
from upbeat.core.ports import Kind, Port
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.ssp.exported_units import Definitions, port_variables, typed
from upbeat.scenario.ssp.keeping import Kept
from upbeat.scenario.ssp.xmltext import element
from upbeat.units.fmi.description import UnitDefinition, Variable, measure_of
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.xml import Element


class ExportedPorts:
    """Those of one scenario of these `units`. `new`: in the words of SSP 2.0."""

    def __init__(
        self,
        scenario: Scenario,
        units: Mapping[str, Fmu],
        new: bool,
        known: Definitions,
        kept: Kept,
        problems: Problems,
    ) -> None:
        self._scenario = scenario
        self._units = units
        self._new = new
        self._known = known
        self._kept = kept
        self._refuse = problems.add

    def connectors(self) -> list[Element]:
        """One for each port."""
        found = []
        for port, kind in (
            *((port, "input") for port in self._scenario.inputs),
            *((output.port, "output") for output in self._scenario.outputs),
        ):
            sizes = [element("ssc:Dimension", size=port.size)] if port.size is not None else []
            kept = self._kept.connectors_of("").get(port.name, ())
            one = element("ssd:Connector", self._type(port), *sizes, *kept, name=port.name, kind=kind)
            one.attributes |= {"description": port.description} if port.description else {}
            found.append(one)
        return found

    def _type(self, port: Port) -> Element:
        match port.kind:
            case Kind.REAL:
                unit = self._known.unit(self.unit(port))
                return element("ssc:Float64" if self._new else "ssc:Real", unit=unit)
            case Kind.INTEGER if port.items and (variable := self._like(port)) is not None:
                made = typed(variable, self._new, self._known, None)
                assert made is not None
                return made
            case Kind.INTEGER:
                return element("ssc:Int64" if self._new else "ssc:Integer")
            case Kind.BOOLEAN:
                return element("ssc:Boolean")
        return element("ssc:String")

    def _like(self, port: Port) -> Variable | None:
        """A variable with the same labels."""
        for fmu in self._units.values():
            for other, variable in port_variables(fmu).values():
                if other.items == port.items and variable.items:
                    return variable
        return None

    def unit(self, port: Port) -> UnitDefinition | None:
        """The definition of a unit that some FMU knows."""
        if port.unit is None:
            return None
        for fmu in self._units.values():
            for definition in fmu.description.units:
                if definition.base is not None and measure_of(definition) == port.unit:
                    return definition
        return None

    def starts(self) -> list[Element]:
        """The values that inputs start with, as parameters."""
        found = []
        for port in self._scenario.inputs:
            if port.event:
                self._refuse(("inputs", port.name), "it is an event, which SSP does not know")
                continue
            kind = {Kind.REAL: "Real", Kind.INTEGER: "Integer", Kind.BOOLEAN: "Boolean"}[port.kind]
            if self._new:
                kind = {"Real": "Float64", "Integer": "Int64"}.get(kind, kind)
            texts = [str(value).lower() if isinstance(value, bool) else repr(value) for value in port.initial]
            inner = element(f"ssv:{kind}", value=" ".join(texts))
            sizes = [element("ssc:Dimension", size=port.size)] if port.size is not None else []
            found.append(element("ssv:Parameter", inner, *sizes, name=port.name))
        return found
