"""Conditions of events that are Python functions: a unit of the scenario computes them.

    Scenario(…, events={"hit": {"when": lambda x, y: hypot(x, y) - 1.0, "of": ["ball.x", "ball.y"]}})

What such a function gives is watched like any other condition: it happens when the number falls to zero, or
when a truth becomes true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import ModelError
from upbeat.core.expr import Expr, Name, names, substitute
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import CONDITIONS, Directory
from upbeat.units.python import PythonFunction

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what it is called with; `name` stands for its value among the conditions of an event."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expr, ...]
    kinds: tuple[Kind, ...]

    def __call__(self, values: Sequence[Any]) -> float:
        found = self.function(*values)
        found = found.item() if hasattr(found, "item") else found  # NumPy
        if isinstance(found, bool):
            return -0.5 if found else 0.5
        if not isinstance(found, (int, float)):
            raise ModelError(
                f"the condition {self.name} gave {found!r}, which is neither a number nor True or False"
            )
        return float(found)


class Conditions(PythonFunction):
    """The unit that computes all conditions that are functions."""


def computes_conditions(model: object) -> bool:
    """Whether a unit computes conditions that are functions: of these only values are known."""
    return isinstance(model, Conditions)


def with_functions(parts: Parts, behind: Mapping[str, Expr]) -> Parts:
    """The scenario with a unit that computes the functions among its conditions, which become its outputs.

    `behind` is what stands behind the names of inputs and of parameters.
    """
    calls = {call.name: call for event in parts.events for call in event.calls}
    if not calls:
        return parts
    directory = Directory(parts.units, parts.inputs)
    inputs: list[Port] = []
    connections: list[Connection] = []
    for call in calls.values():
        for argument, kind in zip(call.arguments, call.kinds, strict=True):
            cell = substitute(argument, behind)
            port = Port(f"in{len(inputs)}", Causality.INPUT, kind, internal=True)
            sources = dict.fromkeys(directory.source(name).end for name in sorted(names(cell)))
            inputs.append(port)
            connections.append(Connection(CONDITIONS, port.name, (cell,), tuple(sources), call.name))
    made = [f"z{k}" for k in range(len(calls))]
    values = dict(zip(calls, (Name(f"{CONDITIONS}.{name}") for name in made), strict=True))
    return replace(
        parts,
        units={CONDITIONS: _unit(list(calls.values()), inputs, made), **parts.units},
        connections=(*connections, *parts.connections),
        events=tuple(
            replace(event, conditions=tuple(substitute(z, values) for z in event.conditions), calls=())
            for event in parts.events
        ),
    )


def _unit(calls: Sequence[Call], inputs: Sequence[Port], made: Sequence[str]) -> Conditions:
    def compute(t: float, u: Sequence[Any], p: Any) -> list[float]:
        rest = iter(u)
        return [call([next(rest) for _ in call.arguments]) for call in calls]

    known = {port.name: {"kind": port.kind.value} for port in inputs}
    unit = Conditions(compute, known, list(made))
    outputs = (
        replace(port, internal=True, description=call.name)
        for port, call in zip(unit.outputs, calls, strict=True)
    )
    unit._fix(inputs=tuple(inputs), outputs=tuple(outputs))
    return unit
