"""Equations that also give out how fast their outputs change, as far as that follows from the equations.

And states that nobody has asked them for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from upbeat.core.expr import Name, looks_up, names, show, time_derivative
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.equations.changing import free_name
from upbeat.units.equations.data import Definition, Equations, Output


def with_rates(equations: Equations, wanted: Mapping[str, int]) -> Equations:
    """The equations with outputs for so many time derivatives of the outputs in `wanted`.

    States change as their equations say, variables and parameters only at events, and inputs in a way that
    nobody inside knows: the derivatives go as far as they can be told without that of an input. Where an
    output declares its derivative, that one is taken.
    """
    outputs = {output.port.name: output for output in equations.outputs}
    growing = _Growing(equations, {port.name for port in equations.ports})
    for name, most in wanted.items():
        current = name
        for _ in range(most):
            if current not in outputs or outputs[current].port.kind is not Kind.REAL:
                break
            following = outputs[current].port.derivative
            if following is None:
                made = growing.rate(outputs[current], name)
                if made is None:
                    break
                following = made.port.name
                outputs[following] = made
                port = replace(outputs[current].port, derivative=following)
                outputs[current] = replace(outputs[current], port=port)
            current = following
    return replace(equations, outputs=tuple(outputs.values())) if growing.made else equations


def with_states(equations: Equations) -> Equations:
    """The equations with an output for each state that no output is, by its own name if that is free."""
    given = {output.definition.cells for output in equations.outputs}
    taken = {port.name for port in equations.ports}
    made: list[Output] = []
    for port in (state.port for state in equations.states):
        texts = tuple(cell_names(port.name, port.size)) if port.size is not None else (port.name,)
        cells = tuple(map(Name, texts))
        if cells in given:
            continue
        name = port.name if port.name not in taken else free_name(f"{port.name}_state", taken)
        told = f"the state {port.name}"
        shown = Port(name, Causality.OUTPUT, size=port.size, unit=port.unit, internal=True, description=told)
        made.append(Output(shown, Definition(name, texts, port.size, cells=cells)))
    return replace(equations, outputs=(*equations.outputs, *made)) if made else equations


class _Growing:
    def __init__(self, equations: Equations, taken: set[str]) -> None:
        self._equations = equations
        self._taken = taken | {name.partition("[")[0] for name in equations.arguments}
        self._taken |= {local.name for local in equations.locals} | {name for name, _ in equations.tables}
        self._inputs = {cell: port for port in equations.inputs for cell in cell_names(port.name, port.size)}
        self._rates = {
            name: equations.written_out(cell)
            for state in equations.states
            for name, cell in zip(
                cell_names(state.port.name, state.port.size), state.derivative.cells, strict=True
            )
        }
        self.made = 0

    def rate(self, output: Output, first: str) -> Output | None:
        """The output that is the time derivative of `output`; None if an input's would be needed, or that of
        a table, which has no name to be written down by."""
        own = [self._equations.written_out(cell) for cell in output.definition.cells]
        seen = frozenset().union(*map(names, own))
        if any(self._inputs[name].kind is Kind.REAL for name in seen if name in self._inputs):
            return None
        cells = tuple(time_derivative(cell, self._rates) for cell in own)
        if any(looks_up(cell) for cell in cells):
            return None
        self.made += 1
        size = output.port.size
        port = Port(
            free_name(f"{first}_rate", self._taken),
            Causality.OUTPUT,
            size=size,
            depends=frozenset(
                self._inputs[name].name for cell in cells for name in names(cell) if name in self._inputs
            ),
            description=f"time derivative of {output.port.name}",
            internal=True,
        )
        return Output(port, Definition(port.name, tuple(map(show, cells)), size, cells=cells))
