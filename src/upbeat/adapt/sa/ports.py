"""Ports that conventions add, the order of the units inside, and units of measure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from upbeat.adapt.sa.language import refused
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Expr,
    Inner,
    Literal,
    Place,
    Port,
    Ref,
    Rule,
    Statement,
    Wire,
    statements,
)
from upbeat.core.measure import Conversion, MeasureError, conversion


def unit_text(unit: str) -> str:
    """A unit of measure as the rest of Upbeat writes it: ``N.m`` is ``N*m``."""
    return re.sub(r"(?<=[A-Za-z0-9])\.(?=[A-Za-z])", "*", unit)


def default_of(port: Port) -> Literal:
    """The value of a port before anybody has given it one."""
    if isinstance(port.initial, Literal):
        return replace(port.initial)
    return Literal(False) if port.type == "Boolean" else Literal(0.0)


def port_of(it: Adapted, ref: Ref) -> Port | None:
    """The port of an inner unit, if there is one."""
    unit = it.unit(ref.owner)
    return unit.port(ref.name) if unit else None


def with_ports(it: Adapted) -> Adapted:
    """Rules 1 and 6: AddInPorts and AddOutPorts; and ports that are bound by having the same name."""
    assigned = {(one.target.owner, one.target.name) for one in statements_of(it) if isinstance(one, Assign)}
    bare = {name for owner, name in assigned if not owner}
    wired = {(wire.target.owner, wire.target.name) for wire in it.wires}
    given = list(it.inputs or ())
    fed = wired | {(port.bound.owner, port.bound.name) for port in given if port.bound}
    free = [
        (unit, port)
        for unit in it.inner
        for port in unit.inputs
        if (unit.name, port.name) not in fed
        and (unit.name, port.name) not in assigned
        and port.name not in bare
    ]
    inputs = _by_name(it, given, free)
    taken = {port.bound.text for port in inputs if port.bound}
    inputs += _added(free, {port.name for port in inputs}, taken)
    outputs = list(it.outputs or ())
    every = [(unit, port) for unit in it.inner for port in unit.outputs]
    if it.outputs is None:
        outputs = _added(every, set(), set())
    else:
        said = {name for owner, name in assigned if owner in ("", it.name)}
        outputs = _by_name(it, outputs, [pair for pair in every if pair[1].name not in said])
    return replace(it, inputs=tuple(inputs), outputs=tuple(outputs))


def _by_name(it: Adapted, ports: list[Port], free: list[tuple[Inner, Port]]) -> list[Port]:
    found = []
    for port in ports:
        same = [unit for unit, inner in free if inner.name == port.name]
        if port.bound is None and len(same) == 1:
            found.append(replace(port, bound=Ref(port.name, same[0].name, at=port.at)))
        else:
            found.append(port)
    return found


def _added(free: list[tuple[Inner, Port]], names: set[str], taken: set[str]) -> list[Port]:
    count: dict[str, int] = {}
    for _, port in free:
        count[port.name] = count.get(port.name, 0) + 1
    found = []
    for unit, port in free:
        if f"{unit.name}.{port.name}" in taken:
            continue
        name = port.name if count[port.name] == 1 and port.name not in names else f"{unit.name}_{port.name}"
        if name not in names:
            bound = Ref(port.name, unit.name, at=port.at)
            found.append(replace(port, name=name, alias="", bound=bound))
            names.add(name)
    return found


def statements_of(it: Adapted) -> Iterator[Statement]:
    """Those of the control and of all rules."""
    yield from statements(it.control or ())
    for block in (it.in_rules, it.out_rules):
        for rule in block.rules if block else ():
            if isinstance(rule, Rule):
                yield from statements((*rule.first, *rule.second))


def like_bound(it: Adapted, port: Port) -> dict[str, object]:
    """What a port says of itself, and else what it is bound to."""
    inner = port_of(it, port.bound) if port.bound else None
    if inner is None:
        return {}
    return {
        "unit": port.unit or inner.unit,
        "type": port.type or inner.type,
        "initial": port.initial or inner.initial,
    }


def order_of(it: Adapted, cut: frozenset[Ref]) -> list[str]:
    """The inner units, each after those it depends on; without the connections from `cut`."""
    needs: dict[str, set[str]] = {unit.name: set() for unit in it.inner}
    for wire in it.wires:
        target = it.unit(wire.target.owner)
        if target is None or wire.source in cut or wire.source.owner not in needs:
            continue
        if not (target.reactive is False and target.mealy is False) and target.name != wire.source.owner:
            needs[target.name].add(wire.source.owner)
    order: list[str] = []
    while len(order) < len(needs):
        ready = [name for name in needs if name not in order and needs[name] <= set(order)]
        if not ready:
            loop = [name for name in needs if name not in order]
            raise refused(
                it.at,
                f"the inner units {', '.join(loop)} depend on each other: an algebraic loop",
                "Write 'successive substitution starts at …', 'delay at …', or control rules that solve it.",
            )
        order += ready
    return order


def convert(value: Expr, source: Port | None, target: Port | None, at: Place) -> Expr:
    """`value`, in the unit of `source`, in the unit of `target`."""
    if source is None or target is None or not source.unit or not target.unit or source.unit == target.unit:
        return value
    try:
        how = conversion(unit_text(source.unit), unit_text(target.unit))
    except MeasureError as error:
        raise refused(
            at,
            f"'{source.name}' in {source.unit} cannot be '{target.name}' in {target.unit}: {error}",
            "Correct one of the units, or convert it in a rule.",
        ) from None
    return scaled(value, how)


def scaled(value: Expr, how: Conversion) -> Expr:
    """`value` in another unit, as people would write it: ``x / 100``, not ``0.01 * x``."""
    inverse = 1.0 / how.scale if how.scale else 0.0
    if how.scale != 1.0:
        whole = abs(inverse) > 1.0 and abs(inverse - round(inverse)) < 1e-9 * abs(inverse)
        exact = whole and 1.0 / float(round(inverse)) == how.scale
        value = (
            Binary("/", value, Literal(float(round(inverse))))
            if exact
            else Binary("*", value, Literal(how.scale))
        )
    return Binary("+", value, Literal(how.offset)) if how.offset else value


def converted(it: Adapted, wire: Wire, value: Expr) -> Expr:
    """`value`, in the unit of the source of a connection, in that of its target."""
    return convert(value, port_of(it, wire.source), port_of(it, wire.target), wire.at)
