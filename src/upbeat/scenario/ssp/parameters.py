"""Which values the bindings of all levels give to which connectors and variables.

Of several bindings of one element the later ones win, and those of an outer system win over inner ones.
A name may mean several variables, because names of elements may have dots; then all of them get the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upbeat.scenario.ssp.conversion import Unfit, apply_to_value
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Binding, Component, Linear, MappingEntry, Parameter, System, Value
from upbeat.scenario.ssp.wiring import Node, Path, Wiring
from upbeat.units.fmi.description import UnitDefinition
from upbeat.units.fmi.description.attributes import shown

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Given:
    """Values of a node, in its unit, and the place that they come from."""

    values: tuple[Value, ...]
    array: bool
    unit: UnitDefinition | None
    file: str
    line: int


def bound(wiring: Wiring, findings: Findings) -> dict[Node, Given]:
    """The values of all connectors and variables that have one."""
    found: dict[Node, Given] = {}
    _Binder(wiring, findings, found).system(wiring.system, ())
    return found


class _Binder:
    def __init__(self, wiring: Wiring, findings: Findings, found: dict[Node, Given]) -> None:
        self._wiring = wiring
        self._findings = findings
        self._found = found

    def system(self, system: System, path: Path) -> None:
        for element in system.elements:
            inner = (*path, element.name)
            if isinstance(element, System):
                self.system(element, inner)
            elif isinstance(element, Component):
                for binding in element.bindings:
                    self._bind(binding, element, inner)
        for binding in system.bindings:
            self._bind(binding, system, path)

    def _bind(self, binding: Binding, element: Component | System, path: Path) -> None:
        where = f"parameters of '{shown('.'.join((self._wiring.system.name, *path)))}'"
        findings = self._findings.within(binding.file)
        if isinstance(element, Component) and path not in self._wiring.leaves:
            return  # the FMU has problems of its own
        lost = []
        for name, parameter, entry in _named(binding, findings, where):
            nodes = list(self._targets(element, path, name))
            for node in nodes:
                self._give(node, parameter, entry, findings, where)
            if not nodes:
                lost.append(name)
        if lost:
            names = ", ".join(f"'{shown(name)}'" for name in lost[:_NAMED])
            more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
            findings.warning(binding.line, where, f"nothing is called {names}{more}: such values are ignored")

    def _targets(self, element: Component | System, path: Path, name: str) -> Iterator[Node]:
        if isinstance(element, Component):
            if path in self._wiring.leaves and name in self._wiring.leaves[path].description.by_name:
                yield path, name
            return
        if any(connector.name == name for connector in element.connectors):
            yield path, name
        for inner in element.elements:
            if isinstance(inner, (Component, System)) and name.startswith(f"{inner.name}."):
                yield from self._targets(inner, (*path, inner.name), name[len(inner.name) + 1 :])

    def _give(
        self, node: Node, parameter: Parameter, entry: MappingEntry | None, findings: Findings, where: str
    ) -> None:
        end = self._wiring.end(node)
        unit = parameter.unit
        if unit is not None and unit.base is None and (leaf := self._wiring.leaves.get(node[0])) is not None:
            unit = leaf.defined(unit.name) or unit
        change = None if entry is None else entry.transformation
        convert = entry is None or entry.convert
        try:
            values = apply_to_value(
                parameter.values,
                unit,
                end.unit,
                change,
                convert,
                relative=end.relative is True,
                tell=lambda what: findings.warning(
                    parameter.line, where, f"'{shown(parameter.name)}': {what}"
                ),
            )
        except Unfit as error:
            findings.error(parameter.line, where, f"'{shown(parameter.name)}': {error}")
            return
        if convert and not isinstance(change, Linear) and values != parameter.values and end.unit is not None:
            assert parameter.unit is not None
            what = f"'{shown(parameter.name)}' is converted from {parameter.unit.name} to {end.unit.name}"
            if entry is None:  # not every tool does so without a mapping
                findings.warning(parameter.line, where, what)
        self._found[node] = Given(values, parameter.array, end.unit or unit, findings.file, parameter.line)


def _named(
    binding: Binding, findings: Findings, where: str
) -> Iterator[tuple[str, Parameter, MappingEntry | None]]:
    """The values of a binding by the names that they are for, prefix and mapping applied."""
    prefixed = {f"{binding.prefix}{parameter.name}": parameter for parameter in binding.parameters}
    if binding.mapping is None:
        for name, parameter in prefixed.items():
            yield name, parameter, None
        return
    for entry in binding.mapping:
        if entry.source in prefixed:
            yield entry.target, prefixed[entry.source], entry
        else:
            what = f"the mapping names '{shown(entry.source)}', which has no value in this binding"
            findings.warning(entry.line, where, what)
