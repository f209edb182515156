"""`PythonUnit`: any Python object with the few calls of a unit as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from upbeat.core.abilities import Ability, Unit, made
from upbeat.core.ports import Causality, Port, Signal, Value
from upbeat.units.calls import check_callable
from upbeat.units.shorthand import Complaints, check_settable, check_unique, with_starts

Factory = Callable[[str, float, dict[str, Signal]], Any]
"""Makes a unit from its name, the start time and the values of its parameters."""


@dataclass(frozen=True)
class PythonUnit:
    """A model whose units are made by your own code.

        PythonUnit(Thermostat, ports(["T"], {"on": {"kind": "boolean"}}, parameters={"limit": 21.0}))

    `factory(name, start, parameters)` returns an object with the calls of `upbeat.core.abilities.Unit`, and
    `set` if it has inputs, whose start values it is told at once. `ports` comes from `upbeat.units.ports`, or
    is a sequence of `Port`s. An enumeration may be given out by label or by index. `abilities` are promises
    that the object keeps, such as `Ability.ROLLBACK`.
    """

    factory: Factory
    ports: tuple[Port, ...]
    abilities: frozenset[Ability] = frozenset()

    def __init__(self, factory: Factory, ports: Iterable[Port], abilities: Iterable[Ability] = ()) -> None:
        object.__setattr__(self, "factory", factory)
        object.__setattr__(self, "ports", tuple(ports))
        object.__setattr__(self, "abilities", frozenset(abilities))
        complaints = Complaints()
        check_callable("factory", factory, complaints)
        if Ability.NATIVE in self.abilities:
            complaints.add("abilities", "a Python object cannot run inside the native engine; see NativeUnit")
        check_unique(self.ports, complaints)
        complaints.raise_if_any()

    def instantiate(self, name: str, start: float) -> Unit:
        """What the factory makes, if it has the calls that the engine will use."""
        unit = made(self, self.factory(name, start, self._values()), name)
        labelled = {
            port.name: port for port in self.ports if port.items and port.causality is Causality.OUTPUT
        }
        for port in self.ports:  # an input that nothing drives keeps its start value
            if port.causality is Causality.INPUT and port.start is not None:
                unit.set(port.name, [port.start if port.size is not None else port.start[0]])
        return cast(Unit, _Labelled(unit, labelled) if labelled else unit)

    def _values(self) -> dict[str, Signal]:
        parameters = [port for port in self.ports if port.causality is Causality.PARAMETER]
        return {port.name: port.initial if port.size is not None else port.initial[0] for port in parameters}

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> PythonUnit:
        """The same model with other parameters or input starts."""
        check_settable(values, [port.name for port in self.ports if port.causality is not Causality.OUTPUT])
        return PythonUnit(self.factory, with_starts(self.ports, values), self.abilities)


class _Labelled:
    """A unit that may give its enumerations by label or by index; anything else is refused."""

    def __init__(self, unit: Unit, ports: Mapping[str, Port]) -> None:
        self._unit = unit
        self._ports = ports

    def __getattr__(self, call: str) -> Any:
        return getattr(self._unit, call)

    def get(self, port: str) -> Signal | None:
        given = self._unit.get(port)
        if port not in self._ports or given is None:
            return given
        cells = self._ports[port].accept(given)
        return cells[0] if self._ports[port].size is None else cells
