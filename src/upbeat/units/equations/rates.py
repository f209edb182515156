"""Equations that also give out how fast their outputs change, as far as that follows from the equations.

And states that are not given out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from upbeat.core.expr import Expr, Name, looks_up, names, show, time_derivative
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.equations.arranging import free_name
from upbeat.units.equations.data import Definition, Equations, Output

RATE = "time derivative of "
"""How the description of what is made here begins."""


def needed_rates(equations: Equations, name: str, order: int) -> dict[str, int]:
    """How many time derivatives of which real inputs it takes to tell so many of the output `name`."""
    output = next((known for known in equations.outputs if known.port.name == name), None)
    if output is None or not order:
        return {}
    if output.port.derivative is not None:
        return needed_rates(equations, output.port.derivative, order - 1)
    inputs = {
        cell: port.name
        for port in equations.inputs
        if port.kind is Kind.REAL
        for cell in cell_names(port.name, port.size)
    }
    changes, found = equations.changes, dict[str, int]()
    seen = _named(equations.written_out(cell) for cell in output.definition.cells)
    for left in range(order, 0, -1):  # each state on the way takes one derivative off
        for cell in sorted(seen & inputs.keys()):
            found[inputs[cell]] = max(left, found.get(inputs[cell], 0))
        seen = _named(changes[cell] for cell in seen & changes.keys())
    return found


def with_rates(
    equations: Equations, wanted: Mapping[str, int], fed: Mapping[str, int] | None = None
) -> Equations:
    """The equations with outputs for so many time derivatives of the outputs in `wanted`.

    States change as their equations say, variables and parameters only at events, and inputs in a way that
    is not known inside: the derivatives go as far as they are known without that of an input. For those in
    `fed`, as many derivatives become inputs, behind the others and in this order. Where an output declares
    its derivative, that one is taken.
    """
    growing = _Growing(equations, {port.name for port in equations.ports})
    for name, max_order in (fed or {}).items():
        growing.feed(name, max_order)
    outputs = {output.port.name: output for output in equations.outputs}
    for name, max_order in wanted.items():
        current = name
        for _ in range(max_order):
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
    if not growing.made:
        return equations
    return replace(equations, inputs=(*equations.inputs, *growing.fed), outputs=tuple(outputs.values()))


def _named(cells: Iterable[Expr]) -> frozenset[str]:
    return frozenset().union(*map(names, cells))


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
        description = f"the state {port.name}"
        shown = Port(
            name, Causality.OUTPUT, size=port.size, unit=port.unit, internal=True, description=description
        )
        made.append(Output(shown, Definition(name, texts, port.size, cells=cells)))
    return replace(equations, outputs=(*equations.outputs, *made)) if made else equations


class _Growing:
    def __init__(self, equations: Equations, taken: set[str]) -> None:
        self._equations = equations
        self._taken = taken | {name.partition("[")[0] for name in equations.arguments}
        self._taken |= {local.name for local in equations.locals} | {name for name, _ in equations.tables}
        self._inputs = {cell: port for port in equations.inputs for cell in cell_names(port.name, port.size)}
        self._rates = equations.changes
        self.fed: list[Port] = []
        self.made = 0

    def feed(self, name: str, max_order: int) -> None:
        """Let so many derivatives of an input be inputs."""
        port = next(known for known in self._equations.inputs if known.name == name)
        for _ in range(max_order):
            description = f"{RATE}{port.name}"
            more = Port(
                free_name(f"{name}_rate", self._taken),
                Causality.INPUT,
                size=port.size,
                internal=True,
                description=description,
            )
            cells = cell_names(more.name, more.size)
            for cell, known in zip(cells, cell_names(port.name, port.size), strict=True):
                self._inputs[cell], self._rates[known] = more, Name(cell)
            self.fed.append(more)
            port = more

    def rate(self, output: Output, first: str) -> Output | None:
        """The output that is the time derivative of `output`; None if an input's would be needed, or that of
        a table, which has no name to be written down by."""
        own = [self._equations.written_out(cell) for cell in output.definition.cells]
        unknown = (name for name in _named(own) & self._inputs.keys() if name not in self._rates)
        if any(self._inputs[name].kind is Kind.REAL for name in unknown):
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
            description=f"{RATE}{output.port.name}",
            internal=True,
        )
        return Output(port, Definition(port.name, tuple(map(show, cells)), size, cells=cells))
