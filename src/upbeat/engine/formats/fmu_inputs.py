"""Signals for free inputs of FMUs without a scenario file: a table with columns named ``unit.input``.

With one FMU the name of the input will do. Real inputs that are discrete are held from row to row. Columns of
strings and of tunable parameters are set by the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from upbeat.core.errors import FileProblem
from upbeat.core.names import resolve, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.signals import TIME, Signals, header_of, read_columns
from upbeat.units.fmi.description import Variability
from upbeat.units.fmi.model import Fmu


class Driven:
    """The inputs that a table drives: `inputs` of the scenario for them, by the port that each stands for.

    A scenario's own input has no dot in its name: these are called ``a_u``, ``a_u_2``, ….
    """

    def __init__(self, path: Path, units: Mapping[str, Fmu], connected: Collection[str]) -> None:
        self._path = path
        self._units = units
        self._free = {
            f"{unit}.{port.name}": replace(port, name=f"{unit}.{port.name}", start=None)
            for unit, model in units.items()
            for port in model.ports
            if port.causality is not Causality.OUTPUT and not port.event
            if f"{unit}.{port.name}" not in connected
        }
        self._set = {name for name, port in self._free.items()
                     if port.causality is Causality.PARAMETER or port.kind is Kind.STRING}  # fmt: skip
        alone = f"{next(iter(units))}." if len(units) == 1 else ""
        short = {name.removeprefix(alone): name for name in self._free} if alone else {}
        self._meant: dict[str, str] = {}  # the input, by the name that the table has for it
        for column in header_of(path):
            name = resolve(column, self._free)[0]
            name = name if name in self._free else resolve(column, short)[0]
            if column == TIME or not (name in self._free or name in short):
                continue  # the reader complains
            full = name if name in self._free else short[name]
            other = next((known for known, one in self._meant.items() if one == full and known != name), None)
            if other is not None:
                raise FileProblem(f"{path}: line 1: the columns '{other}' and '{name}' are one input")
            self._meant[name] = full
        self.inputs: dict[str, Port] = {}
        for full in (full for full in self._meant.values() if full not in self._set):
            self.inputs[full] = replace(self._free[full], name=self._own_name(full))

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
        rest = {name: name for name in self._free if name not in self._meant.values()}
        named = [(full, replace(self._free[full], name=name)) for name, full in (self._meant | rest).items()]
        own = [port for full, port in named if full not in self._set]
        found = read_columns(self._path, own, [port for full, port in named if full in self._set])
        renamed = {}
        for column, values in found.values.items():
            name, cell = resolve(column, self._meant)
            full = self._meant[name]
            given = full if full in self._set else self.inputs[full].name
            renamed[given + ("" if cell is None else f"[{cell}]")] = values
        return Signals(
            found.time, renamed, [port.name for name, port in self.inputs.items() if self._held(name)]
        )

    def _held(self, name: str) -> bool:
        unit, variable = split(name)
        return self._units[unit].layout.variables[variable].variability is Variability.DISCRETE
