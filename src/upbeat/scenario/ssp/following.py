"""What each connector follows in the end: an expression over one signal, or a value that is known before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upbeat.core.expr import Expr, Name
from upbeat.scenario.ssp.conversion import (
    Affine,
    Tell,
    Unfit,
    apply_to_value,
    converted,
    linear,
    table_expr,
)
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Kind, Linear, Table
from upbeat.scenario.ssp.parameters import Given
from upbeat.scenario.ssp.wiring import Edge, Leaf, Node, Wiring, called
from upbeat.units.fmi.description import Causality, UnitDefinition, Variability


@dataclass(frozen=True, slots=True)
class Signal:
    """A connector follows `source` (an output of an FMU, or an input of the whole system)."""

    source: Node
    affine: Affine
    """What happens to it in all, if there is no table on the way; `made` has everything."""
    made: Expr
    table: bool
    edge: Edge


class Following:
    """Looks up what connectors follow. `name_of` says what expressions call a source."""

    def __init__(
        self,
        wiring: Wiring,
        values: Mapping[Node, Given],
        name_of: Callable[[Node], str],
        findings: Findings,
    ) -> None:
        self._wiring = wiring
        self._values = values
        self._name_of = name_of
        self._findings = findings

    def of(self, node: Node) -> Signal | Given | None:
        """The signal or value that a connector follows; None if nobody gives it one."""
        chain = list(self._wiring.chain(node))
        last = chain[-1][0]
        signal = len(chain) > 1 and (last[0] in self._wiring.leaves or self._is_input(last))
        if signal and last[0] in self._wiring.leaves and (given := self._constant(last)):
            return self._carried(given, chain, len(chain) - 1)
        if signal:
            return self._signal(chain)
        # The outermost system that has a value for a connector on the way decides.
        known = [i for i, (one, _) in enumerate(chain) if one in self._values and i > 0]
        return self._carried(self._values[chain[known[-1]][0]], chain, known[-1]) if known else None

    def _is_input(self, node: Node) -> bool:
        kind = self._wiring.end(node).kind
        return node[0] == () and kind in (Kind.INPUT, Kind.INOUT)

    def _constant(self, node: Node) -> Given | None:
        """The value of an FMU's constant, which its description says."""
        leaf = self._wiring.leaves[node[0]]
        variable = leaf.description.by_name[node[1]]
        if variable.variability is not Variability.CONSTANT or variable.start is None:
            return None
        values = tuple(value.hex() if isinstance(value, bytes) else value for value in variable.start)
        return Given(values, bool(variable.dimensions), self._wiring.end(node).unit, "", variable.line)

    def _signal(self, chain: list[tuple[Node, Edge | None]]) -> Signal | None:
        source = chain[-1][0]
        expr: Expr = Name(self._name_of(source))
        pending, whole, table = Affine(), Affine(), False
        end = self._wiring.end(source)
        unit, items = end.unit, end.items
        edge = None
        relative = self._relative(chain)
        for node, edge in reversed(chain[:-1]):
            assert edge is not None, "all but the last have one"
            connection, target = edge.connection, self._wiring.end(node)
            try:
                if connection.convert:
                    if relative is None:
                        raise Unfit("a difference is not a temperature (relativeQuantity differs)")
                    step = converted(
                        unit, target.unit, relative=relative is True, tell=self._telling(node, edge)
                    )
                    pending, whole = pending.then(step), whole.then(step)
                unit = self._unit_after(unit, target.unit, edge)
                match connection.transformation:
                    case Linear() as change:
                        pending, whole = pending.then(linear(change)), whole.then(linear(change))
                    case Table() as change:
                        table = True
                        to = target.items or self._wiring.end(chain[0][0]).items
                        expr, pending = table_expr(change, pending.expr(expr), items, to), Affine()
            except Unfit as error:
                name = called(node)
                self._findings.within(edge.file).error(connection.line, f"connection to '{name}'", str(error))
                return None
            items = target.items or items
        assert edge is not None
        return Signal(source, whole, pending.expr(expr), table, edge)

    def _telling(self, node: Node, edge: Edge) -> Tell:
        """Where warnings about a connection go."""
        findings, line = self._findings.within(edge.file), edge.connection.line
        return lambda what: findings.warning(line, f"connection to '{called(node)}'", what)

    def _relative(self, chain: list[tuple[Node, Edge | None]]) -> bool | None:
        """Whether a difference is passed on; None if the FMUs at both ends do not agree on that."""
        # Connectors of systems cannot say so: they are what the FMUs behind them are.
        said = {self._wiring.end(node).relative for node, _ in chain} - {None}
        return None if len(said) > 1 else True in said

    @staticmethod
    def _unit_after(
        unit: UnitDefinition | None, target: UnitDefinition | None, edge: Edge
    ) -> UnitDefinition | None:
        if target is not None:
            return target
        changed = not edge.connection.convert or edge.connection.transformation is not None
        return None if changed else unit

    def _carried(self, given: Given, chain: list[tuple[Node, Edge | None]], at: int) -> Given | None:
        """A value that is known before the run, carried along the connections."""
        values, unit = given.values, given.unit
        relative = self._relative(chain[: at + 1])
        for node, edge in reversed(chain[:at]):
            assert edge is not None
            target, connection = self._wiring.end(node), edge.connection
            try:
                values = apply_to_value(
                    values,
                    unit,
                    target.unit,
                    connection.transformation,
                    connection.convert,
                    relative=relative is True,
                    tell=self._telling(node, edge),
                )
            except Unfit as error:
                name = called(node)
                self._findings.within(edge.file).error(connection.line, f"connection to '{name}'", str(error))
                return None
            unit = self._unit_after(unit, target.unit, edge)
        return Given(values, given.array, unit, given.file, given.line)


def starts_of(leaf: Leaf, name: str, change: Affine) -> tuple[float, ...] | None:
    """What a signal must start with, so that the FMU's input `name` starts with its own start value."""
    variable = leaf.description.by_name[name]
    if variable.start is None or not change.scale or variable.causality is not Causality.INPUT:
        return None
    if any(isinstance(value, (str, bytes)) for value in variable.start):
        return None
    numbers = tuple(value for value in variable.start if not isinstance(value, (str, bytes)))
    try:
        inverse = Affine(1 / change.scale, -change.offset / change.scale)
        return tuple(inverse.of(float(value)) for value in numbers) if change else numbers
    except Unfit:
        return None
