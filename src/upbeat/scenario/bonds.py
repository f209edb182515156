"""Power bonds: two connections in opposite directions whose values multiply to a power.

One unit gives out an effort (a force, a voltage, a pressure) and takes in the flow (a velocity, a current)
that the other makes of it. What leaves one should arrive at the other: what a coupling creates or destroys of
it on the way is an error that can be seen without knowing the solution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.expr import Apply, Expr, Name, Number, Op, evaluate, names
from upbeat.core.measure import Measure, MeasureError, conversion
from upbeat.core.ports import Kind, Port
from upbeat.scenario.directory import End
from upbeat.scenario.scenario import Scenario

WATT = "W"


FLOWS = ("m/s", "rad/s", "A", "m^3/s", "kg/s", "mol/s", "W/K")
"""What is a flow and not an effort, by its unit of measure."""


@dataclass(frozen=True)
class Bond:
    """`one` is an output, the effort, that goes to the input `one_to` of the unit whose output `other`, the
    flow, comes back to `other_to`. The product of both outputs, times `watts`, is the power in W that goes
    into the unit with the flow (in what the units have, if their measures are not known)."""

    one: End
    one_to: End
    other: End
    other_to: End
    watts: float = 1.0
    recognised: bool = True
    """By units of measure; otherwise it is declared."""

    @property
    def turned(self) -> Bond:
        """The same, seen from the other end."""
        return replace(self, one=self.other, one_to=self.other_to, other=self.one, other_to=self.one_to)

    def named(self, scenario: Scenario) -> tuple[str, str]:
        """Both outputs as columns of a trace."""
        return scenario.column(*self.one), scenario.column(*self.other)

    def factor(self, scenario: Scenario, target: End) -> float:
        """What an output is multiplied by on its way to an input of the bond."""
        way = next(c for c in scenario.connections if (c.unit, c.port) == target)
        return evaluate(way.cells[0], dict.fromkeys(names(way.cells[0]), 1.0))


def power_bonds(scenario: Scenario, declared: Iterable[tuple[str, str]] = ()) -> tuple[Bond, ...]:
    """The power bonds of a closed scenario: those that were declared, as pairs of outputs ``("a.F", "b.v")``
    (the effort first), and those whose units of measure multiply to watts."""
    ways = list(_ways(scenario))
    found: list[Bond] = []
    names = {scenario.column(*source): source for source, _ in ways}
    for pair in declared:
        ends = [_known(name, names) for name in pair]
        bond = next((b for b in _pairs(ways) if {b.one, b.other} == set(ends)), None)
        if bond is not None and bond.one != ends[0]:
            bond = bond.turned
        if bond is None:
            raise InvalidInput(
                f"{pair[0]} and {pair[1]} are no power bond: each has to go, by itself or times a number, to "
                "the unit that the other one comes from"
            )
        found.append(_measured(scenario, bond, declared=True) or _signed(scenario, bond))
    taken = {frozenset((bond.one, bond.other)) for bond in found}
    for bond in _pairs(ways):
        made = _measured(scenario, bond)
        if made is not None and frozenset((bond.one, bond.other)) not in taken:
            taken.add(frozenset((bond.one, bond.other)))
            found.append(made)
    return tuple(found)


def _known(name: str, names: dict[str, End]) -> End:
    if name not in names:
        raise InvalidInput(f"'{name}' is no output that an input takes. {suggest(name, names, 'outputs')}")
    return names[name]


def _ways(scenario: Scenario) -> Iterable[tuple[End, End]]:
    """Each output that goes to an input by itself, or times a number."""
    for connection in scenario.connections:
        ports = {port.name: port for port in scenario.units[connection.unit].ports}
        if connection.unit in scenario.added_units or len(connection.sources) != 1:
            continue
        (source,) = connection.sources
        if source[0] not in scenario.units or len(connection.cells) != 1 or not _scaled(connection.cells[0]):
            continue
        if _port(scenario, source).kind is Kind.REAL and ports[connection.port].kind is Kind.REAL:
            yield source, (connection.unit, connection.port)


def _scaled(formula: Expr) -> bool:
    """Whether a formula is a name, with a sign or a factor."""
    if isinstance(formula, Name):
        return True
    if not isinstance(formula, Apply) or formula.op not in (Op.NEG, Op.MUL, Op.DIV):
        return False
    first, *rest = sorted(formula.args, key=lambda part: isinstance(part, Number))
    return _scaled(first) and all(isinstance(part, Number) for part in rest)


def _pairs(ways: Iterable[tuple[End, End]]) -> Iterable[Bond]:
    known = list(ways)
    for n, (one, one_to) in enumerate(known):
        for other, other_to in known[n + 1 :]:
            if one[0] == other_to[0] and other[0] == one_to[0] and one[0] != other[0]:
                yield Bond(one, one_to, other, other_to)


def _port(scenario: Scenario, end: End) -> Port:
    return next(port for port in scenario.units[end[0]].ports if port.name == end[1])


def _measured(scenario: Scenario, bond: Bond, *, declared: bool = False) -> Bond | None:
    """The bond with its factor to watts; None if the units of measure are missing or say something else."""
    units = [_port(scenario, end).unit for end in (bond.one, bond.other)]
    if units[0] is None or units[1] is None:
        return None
    try:
        product = Measure.of(units[0]).times(Measure.of(units[1]))
        factor = conversion(product, Measure.of(WATT)).scale
    except MeasureError:
        return None
    if _is_flow(units[0]) and not _is_flow(units[1]):
        bond = bond.turned
    return _signed(scenario, replace(bond, watts=factor, recognised=not declared))


def _is_flow(unit: str) -> bool:
    for flow in FLOWS:
        try:
            conversion(Measure.of(unit), Measure.of(flow))
        except MeasureError:
            continue
        return True
    return False


def _signed(scenario: Scenario, bond: Bond) -> Bond:
    """The bond with the sign with which the effort arrives."""
    way = next(c for c in scenario.connections if (c.unit, c.port) == bond.one_to)
    return replace(bond, watts=-bond.watts) if _negative(way.cells[0]) else bond


def _negative(formula: Expr) -> bool:
    """Whether a name arrives with a minus."""
    if isinstance(formula, Number):
        return formula.value < 0
    if not isinstance(formula, Apply):
        return False
    found = formula.op is Op.NEG
    for part in formula.args:
        found ^= _negative(part)
    return found
