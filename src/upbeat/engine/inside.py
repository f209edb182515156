"""What is inside a nested unit: the program, its models and pace, and where the unit's ports are in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from upbeat.core.abilities import Model
from upbeat.core.ports import Causality, Port
from upbeat.master.program import Program


@dataclass(frozen=True)
class Inside:
    """All that the native core needs to run a nested scenario (see `Core.nested`)."""

    program: Program
    models: Mapping[str, Model]
    ports: tuple[Port, ...]
    """Of the nested unit."""
    inputs: Mapping[str, tuple[str, Port]]
    """The inputs, and the parameters, with the unit and the port that they are inside."""
    paths: Mapping[str, str]
    """What people call the units inside, where that is not their name."""

    def places(self, units: Mapping[str, int]) -> list[tuple[int, int, int]]:
        """Every port as the core takes it (native/src/nested.hpp), for units of these numbers."""
        found = []
        for port in self.ports:
            if port.causality is not Causality.OUTPUT:
                unit, inner = self.inputs[port.name]
                number = [p.name for p in self.models[unit].ports].index(inner.name)
                found.append((units[unit], number, port.cells))
            else:
                found.append((-1, self.program.columns[port.name].register, port.cells))
        return found
