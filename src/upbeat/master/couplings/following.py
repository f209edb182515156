"""A step in which one unit goes first, as far as it goes, and all others follow to there."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.master.couplings.leaders import Leader
from upbeat.master.layout import Reg
from upbeat.master.port_registers import End
from upbeat.master.program import If, Instruction, Let, Set
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.watcher import watchers


def sweep(
    wiring: Wiring, order: tuple[str, ...], leaders: list[Leader], first: Reg, quiet: Reg | None
) -> list[Instruction]:
    """Whoever goes first, as far as it goes; then all others to there."""
    number = {leader.unit: k for k, leader in enumerate(leaders, 1)}
    sees = _sees(wiring, order, number, first)
    found: list[Instruction] = []
    for unit in order:
        for end in wiring.connected(unit):
            found += wiring.begin(end)
            found += wiring.remember(end) if end in sees else []
    for leader in leaders:
        if leader.watching is None:
            continue
        told = wiring.inputs[leader.unit, leader.watching]
        leads: Expr = _is(first, number[leader.unit])
        if quiet is not None:
            leads = apply(Op.AND, leads, apply(Op.NOT, Cell(quiet)))
        found += [Let(told, leads), Set(leader.unit, leader.watching, (told,))]
    reads = {unit: [i for end in wiring.outputs_of(unit) for i in wiring.get(end)] for unit in order}
    for unit, k in number.items():
        goes = [*wiring.advance(unit, early=True), Let(wiring.next, Cell(wiring.reached(unit))), *reads[unit]]
        found.append(If(_is(first, k), tuple(goes)))
    for unit in order:
        block: list[Instruction] = []
        for end in (end for end in wiring.connected(unit) if end in sees):
            block.append(If(sees[end], tuple(wiring.interpolate(end))))
        block += [*wiring.advance(unit), *reads[unit]]
        found += [If(apply(Op.NOT, _is(first, number[unit])), tuple(block))] if unit in number else block
    return found


def _sees(wiring: Wiring, order: tuple[str, ...], number: Mapping[str, int], first: Reg) -> dict[End, Expr]:
    """When an input of a unit that follows sees the end of the step: all its sources have gone before."""
    rank = {unit: place for place, unit in enumerate(order)}
    looking = watchers(wiring.scenario.units)
    found: dict[End, Expr] = {}
    for connection in wiring.scenario.connections:
        end = (connection.unit, connection.port)
        if connection.unit in looking or wiring.port(end).reactive is False or not connection.sources:
            continue
        late = {unit for unit, _ in connection.sources if rank[unit] >= rank[connection.unit]}
        if not late:
            found[end] = apply(Op.GT, Cell(first), Number(0.0))
        elif len(late) == 1 and connection.unit not in late and late <= number.keys():
            found[end] = _is(first, number[next(iter(late))])
    return found


def _is(register: Reg, number: int) -> Expr:
    return apply(Op.EQ, Cell(register), Number(float(number)))
