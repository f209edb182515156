"""Signals for free inputs of FMUs without a scenario file: a table with columns named ``unit.input``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from upbeat.core.names import resolve, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.signals import TIME, Signals, header_of, read_columns
from upbeat.units.fmi.model import Fmu


class Driven:
    """The inputs that a table drives: `inputs` of the scenario for them, by the port that each stands for.

    A scenario's own input has no dot in its name: these are called ``a_u``, ``a_u_2``, ….
    """

    def __init__(self, path: Path, units: Mapping[str, Fmu], connected: Collection[str]) -> None:
        self._path = path
        self._free = {
            f"{unit}.{port.name}": replace(port, name=f"{unit}.{port.name}", start=None)
            for unit, model in units.items()
            for port in model.ports
            if port.causality is Causality.INPUT and port.kind is not Kind.STRING and not port.event
            if f"{unit}.{port.name}" not in connected
        }
        columns = [resolve(name, self._free)[0] for name in header_of(path) if name != TIME]
        self.inputs: dict[str, Port] = {}
        for name in dict.fromkeys(column for column in columns if column in self._free):
            self.inputs[name] = replace(self._free[name], name=self._own_name(name))

    def _own_name(self, name: str) -> str:
        unit, rest = split(name)
        plain = f"{unit}_{''.join(c if c.isascii() and c.isalnum() else '_' for c in rest)}"
        taken = {port.name for port in self.inputs.values()}
        made, count = plain, 2
        while made in taken:
            made, count = f"{plain}_{count}", count + 1
        return made

    def signals(self) -> Signals:
        """The table, with every complaint in the names that it has itself."""
        found = read_columns(self._path, tuple(self._free.values()))
        renamed = {}
        for column, values in found.values.items():
            name, cell = resolve(column, self._free)
            renamed[self.inputs[name].name + ("" if cell is None else f"[{cell}]")] = values
        return Signals(found.time, renamed)
