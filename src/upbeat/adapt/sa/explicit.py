"""Reduction to explicit form: what a description leaves out is added by the conventions of the language.

Declarative rules come first: each becomes statements, and if there are several, each a layer around the
one before (`layers`). Then the thirteen rules are applied to every layer in their order (`explicit`). On the
way every name is looked up, and types, units of measure and loops are checked; problems are told together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any

from upbeat.adapt.sa.parsing import bad
from upbeat.adapt.sa.showing import shown
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Call,
    Crossing,
    Declared,
    Delay,
    Do,
    Expr,
    For,
    Hold,
    If,
    Inner,
    Literal,
    MultiRate,
    Otherwise,
    Periodic,
    Place,
    Port,
    Quantize,
    Ref,
    Return,
    Rule,
    Rules,
    Statement,
    Substitution,
    Tolerance,
    Triggered,
    Unary,
    Var,
    Wire,
    expressions,
    mapped,
    statements,
)
from upbeat.core.errors import Problem, ScenarioError, suggest
from upbeat.core.measure import Conversion, MeasureError, conversion
from upbeat.core.measure import check as check_measure

ROUNDS = 100
"""The most rounds of a successive substitution."""
MAX_ROUNDS = 1_000_000
"""The most rounds of all loops around a statement together."""
MAX_WRITTEN = 1_000
"""The same in a rule, where every round is written out."""

_TRUE, _H, _T = Literal(True), Ref("H"), Ref("t")
BUILT_IN = {
    **dict.fromkeys(("floor", "ceil", "abs", "sqrt", "exp", "log", "sin", "cos", "tan"), (1, 1)),
    **{"round": (1, 1), "min": (2, 99), "max": (2, 99), "is_close": (4, 4), "is_set": (1, 1)},
    **{"do_step": (2, 3), "get_next_time_step": (1, 1), "elapsed": (1, 1), "last_execution_time": (1, 1)},
    **{"save_state": (1, 1), "rollback": (1, 1), "discard": (1, 1)},
}
"""The functions, and how many arguments each takes."""
_OF_UNITS = {"do_step", "get_next_time_step", "elapsed", "last_execution_time", "save_state", "rollback"}
_STEPPING = {"do_step", "save_state", "rollback", "discard"}
_TIMES = {"In": (), "MapIn": ("t", "H", "h", "dt"), "MapOut": ("t", "H", "h", "dt")}


def unit_text(unit: str) -> str:
    """A unit of measure as the rest of Upbeat writes it: ``N.m`` is ``N*m``."""
    return re.sub(r"(?<=[A-Za-z0-9])\.(?=[A-Za-z])", "*", unit)


def flagged(condition: Expr) -> bool:
    """Whether it is the constant true."""
    return isinstance(condition, Literal) and condition.value is True


# ----------------------------------------------------------------------------------------------------
# Declarative rules as statements, each a layer.


def layers(it: Adapted) -> tuple[Adapted, ...]:
    """The adaptation with all that is declarative written out: innermost first, the one asked for last.

    Loops inside are solved first, whatever the order is; the others are applied in the order of the text.
    """
    problems: list[Problem] = []
    solving = [rule for rule in it.general if isinstance(rule, Substitution | Delay)]
    rest = [rule for rule in it.general if not isinstance(rule, Substitution | Delay)]
    if not solving and not rest:
        return (it,)
    if it.control is not None:
        problems.append(
            bad(it.general[0].at, "there are control rules besides this rule", "Leave out one of the two.")
        )
        raise ScenarioError(problems)
    groups: list[list[Any]] = [solving] if solving else []
    groups += [[rule] for rule in rest]
    found: list[Adapted] = []
    around = replace(it, general=())
    for number, group in enumerate(groups, 1):
        last = number == len(groups)
        layer = around if last else _bare(around, number)
        layer = _layer(layer, group, problems)
        found.append(layer)
        if not last:
            around = _around(around, layer)
    if problems:
        raise ScenarioError(problems)
    return tuple(found)


def _bare(it: Adapted, number: int) -> Adapted:
    """A layer inside: the same units, and everything else by convention."""
    return Adapted(
        f"{it.type}_{number}",
        f"{it.name}_{number}",
        reactive=it.reactive,
        mealy=False if it.mealy is None else it.mealy,
        inner=it.inner,
        wires=it.wires,
        at=it.at,
    )


def _around(it: Adapted, inside: Adapted) -> Adapted:
    """The rest of the description, for the unit that `inside` makes; its ports have the names of that."""
    ports = with_ports(inside)
    assert ports.inputs is not None
    assert ports.outputs is not None
    unit = Inner(
        inside.type,
        inside.name,
        inputs=tuple(replace(port, bound=None) for port in ports.inputs),
        outputs=tuple(replace(port, bound=None) for port in ports.outputs),
        at=it.at,
    )
    new = {
        (port.bound.owner, port.bound.name): port.name
        for port in (*ports.inputs, *ports.outputs)
        if port.bound
    }

    def moved(expr: Expr) -> Expr:
        if isinstance(expr, Ref) and (expr.owner, expr.name) in new:
            return replace(expr, owner=inside.name, name=new[expr.owner, expr.name])
        return expr

    def bound(ports: tuple[Port, ...] | None) -> tuple[Port, ...] | None:
        return ports and tuple(replace(p, bound=p.bound and moved(p.bound)) for p in ports)  # type: ignore[arg-type]

    return replace(
        it,
        inner=(unit,),
        wires=(),
        inputs=bound(it.inputs),
        outputs=bound(it.outputs),
        in_rules=mapped(it.in_rules, moved),
        out_rules=mapped(it.out_rules, moved),
    )


def _layer(it: Adapted, group: list[Any], problems: list[Problem]) -> Adapted:
    try:
        match group[0]:
            case MultiRate() as rate:
                return _multirate(it, rate)
            case Triggered() as trigger:
                return _triggered(it, trigger)
            case Periodic() as clock:
                return _periodic(it, clock)
        return _solved(it, group)
    except ScenarioError as error:
        problems += error.problems
        return it


def _refuse(at: Place, what: str, hint: str = "") -> ScenarioError:
    return ScenarioError([bad(at, what, hint)])


def _tolerances(given: Iterable[Tolerance]) -> tuple[Expr, Expr]:
    """Relative and absolute."""
    given = tuple(given)
    for one in given:
        if isinstance(one.value, Literal) and isinstance(one.value.value, float) and one.value.value < 0.0:
            raise _refuse(one.value.at, f"a tolerance is 0 or more, not {one.value.value:g}", "Write 1e-8.")
    said = {one.kind: one.value for one in given}
    return said.get("relative", Literal(1e-6)), said.get("absolute", Literal(1e-8))


def _signal(it: Adapted, ref: Ref) -> Ref:
    """The output of an inner unit that a rule names, with or without its owner."""
    outputs = {
        f"{unit.name}.{port.name}": Ref(port.name, unit.name) for unit in it.inner for port in unit.outputs
    }
    if ref.owner:
        found = [outputs[ref.text]] if ref.text in outputs else []
    else:
        found = [one for one in outputs.values() if one.name == ref.name]
        found += [wire.source for wire in it.wires if wire.target.name == ref.name] if not found else []
    if len(set(found)) != 1:
        near = suggest(
            ref.text, [*outputs, *(one.name for one in outputs.values())], "outputs of inner units"
        )
        raise _refuse(
            ref.at,
            f"'{ref.text}' is no output of an inner unit"
            if not found
            else f"'{ref.text}' could be any of {', '.join(one.text for one in found)}",
            near,
        )
    return found[0]


def _solved(it: Adapted, group: list[Any]) -> Adapted:
    """Successive substitution and delays: connections from their signals are cut, the rest is in order."""
    cut: dict[Ref, Substitution | Delay] = {}
    for rule in group:
        for ref in rule.signals:
            cut[_signal(it, ref)] = rule
    for rule in group:
        for ref in rule.signals if isinstance(rule, Delay) else ():
            if _signal(it, ref) not in {wire.source for wire in it.wires}:
                shown_as = next((p.name for p in it.outputs or () if p.bound == _signal(it, ref)), ref.name)
                raise _refuse(
                    ref.at,
                    f"no inner unit reads '{ref.text}', so that a delay there would change nothing",
                    f"To show an output one step later, write: out rules {{ delay at {shown_as}; }}",
                )
    for rule in group:
        for ref in rule.signals if isinstance(rule, Substitution) else ():
            if _signal(it, ref) not in _looped(it):
                raise _refuse(
                    ref.at,
                    f"'{ref.text}' is in no loop of the inner units, so that there is nothing to solve",
                    "Leave out this line, or connect them to a loop: with unit.port -> unit.port.",
                )
    iterated = [ref for ref, rule in cut.items() if isinstance(rule, Substitution)]
    delayed = [ref for ref, rule in cut.items() if isinstance(rule, Delay)]
    order = _order(it, frozenset(cut))
    names = {ref: f"previous_{ref.owner}_{ref.name}" for ref in cut}
    kept = tuple(Declared(name, _initial(it, ref)) for ref, name in names.items())
    steps: list[Statement] = []
    for unit in order:
        steps += [
            Assign(wire.target, _converted(it, wire, Ref(names[wire.source])))
            for wire in it.wires
            if wire.target.owner == unit and wire.source in cut
        ]
        steps.append(Do(Call("do_step", (Ref(unit), _T, _H))))
    body: list[Statement] = []
    if iterated:
        rule = next(rule for rule in group if isinstance(rule, Substitution))
        relative, absolute = _tolerances(rule.tolerances)
        near = [Call("is_close", (Ref(names[ref]), ref, relative, absolute)) for ref in iterated]
        back = tuple(Do(Call("rollback", (Ref(unit),))) for unit in order)
        body += [Do(Call("save_state", (Ref(unit),))) for unit in order]
        rounds: list[Statement] = [If(Binary(">", Ref("round_number"), Literal(0.0)), back), *steps]
        rounds.append(Var((Declared("close_enough", _joined("and", near)),)))
        rounds += [Assign(Ref(names[ref]), ref) for ref in iterated]
        rounds.append(If(Ref("close_enough"), (Break(),)))
        body.append(For("round_number", Literal(0.0), Literal(float(ROUNDS)), tuple(rounds)))
    else:
        body += steps
    body += [Assign(Ref(names[ref]), ref) for ref in delayed]
    body.append(Return(_H))
    return replace(it, control_vars=(*it.control_vars, *kept), control=tuple(body))


def _looped(it: Adapted) -> set[Ref]:
    """The signals of connections that are part of a loop between the inner units."""
    reached: dict[str, set[str]] = {unit.name: {unit.name} for unit in it.inner}
    for _ in it.inner:
        for wire in it.wires:
            if {wire.source.owner, wire.target.owner} <= reached.keys():
                reached[wire.source.owner] |= reached[wire.target.owner]
    return {wire.source for wire in it.wires if wire.source.owner in reached.get(wire.target.owner, set())}


def _joined(op: str, parts: Sequence[Expr]) -> Expr:
    found = parts[0]
    for part in parts[1:]:
        found = Binary(op, found, part)
    return found


def _initial(it: Adapted, ref: Ref) -> Expr:
    unit = it.unit(ref.owner)
    port = unit and unit.port(ref.name)
    return default_of(port) if port else Literal(0.0)


def default_of(port: Port) -> Literal:
    """The value of a port before anybody has given it one."""
    if isinstance(port.initial, Literal):
        return replace(port.initial)
    return Literal(False) if port.type == "Boolean" else Literal(0.0)


def _multirate(it: Adapted, rule: MultiRate) -> Adapted:
    if not 1 <= rule.times <= MAX_ROUNDS:
        raise _refuse(rule.at, f"the rate can be multiplied by 1 to {MAX_ROUNDS:,}, not by {rule.times:,}")
    if rule.order > 2:
        raise _refuse(
            rule.at,
            f"inputs are interpolated by order 0, 1 or 2, not {rule.order}",
            "Write 'with second order interpolation'.",
        )
    order = _order(it, frozenset())
    micro, start = Ref("micro_step"), Binary("+", _T, Binary("*", Ref("part_number"), Ref("micro_step")))
    steps = tuple(Do(Call("do_step", (Ref(unit), start, micro))) for unit in order)
    body: list[Statement] = [
        Var((Declared("micro_step", Binary("/", _H, Literal(float(rule.times)))),)),
        For("part_number", Literal(0.0), Literal(float(rule.times)), steps),
    ]
    it = with_ports(it)
    assert it.inputs is not None
    followed = [port for port in it.inputs if port.bound and port.type in ("", "Real")] if rule.order else []
    in_vars, control_vars, ins, outs, ends = [], [], [], [], []
    tau = Binary("+", Ref("dt"), Ref("h"))
    for port in followed:
        now, was = Ref(f"current_{port.name}"), Ref(f"previous_{port.name}")
        assert port.bound is not None
        in_vars.append(Declared(now.name, default_of(port)))
        control_vars.append(Declared(was.name, now))
        ins.append(Assign(now, Ref(port.name, it.name)))
        slope = Binary("/", Binary("-", now, was), _H)
        value: Expr = Binary("+", was, Binary("*", slope, tau))
        if rule.order == 2:
            bend = Ref(f"bend_{port.name}")
            control_vars.append(Declared(bend.name, Literal(0.0)))
            control_vars.append(Declared(f"slope_{port.name}", Literal(0.0)))
            before = Ref(f"slope_{port.name}")
            late = Binary("+", _H, Ref("last_step"))
            body.insert(
                1,
                If(
                    Binary(">", Ref("last_step"), Literal(0.0)),
                    (Assign(bend, Binary("/", Binary("-", slope, before), late)),),
                ),
            )
            value = Binary("+", value, Binary("*", Binary("*", bend, tau), Binary("-", tau, _H)))
            ends.append(Assign(before, slope))
        ends.append(Assign(was, now))
        outs.append(Assign(port.bound, convert(value, port, port_of(it, port.bound), port.at)))
    if rule.order == 2 and followed:
        control_vars.append(Declared("last_step", Literal(0.0)))
        ends.append(Assign(Ref("last_step"), _H))
    body += [*ends, Return(_H)]
    old = it.in_rules or Rules()
    rules = (Rule(_TRUE, tuple(ins), tuple(outs)),) if followed else ()
    return replace(
        it,
        control_vars=(*it.control_vars, *control_vars),
        control=tuple(body),
        in_vars=(*it.in_vars, *in_vars),
        in_rules=replace(old, rules=(*rules, *old.rules)) if rules or it.in_rules else None,
        inputs=tuple(
            replace(port, bound=None, **_like(it, port)) if port in followed else port  # type: ignore[arg-type]
            for port in it.inputs
        ),
    )


def _triggered(it: Adapted, rule: Triggered) -> Adapted:
    """Units inside stand still unless the condition holds, and are then brought to the end of the step."""
    it = with_ports(it)
    condition = rule.condition
    if any(isinstance(one, Ref) and one.name == "signal" and not one.owner for one in expressions(condition)):
        ports = [Ref(port.name, it.name, at=rule.at) for port in it.inputs or ()]
        if not ports:
            raise _refuse(rule.at, "'signal' stands for any input, and there are none")
        condition = _joined("or", [mapped(condition, _named("signal", port)) for port in ports])
    it, taken = _sampled(it)
    body = (If(condition, (*taken, *_caught_up(it, Binary("+", _T, _H)))), Return(_H))
    return replace(it, control=body)


def _sampled(it: Adapted) -> tuple[Adapted, list[Statement]]:
    """Inputs reach the units inside when these are executed, and not before; and what takes them there."""
    it = with_ports(it)
    assert it.inputs is not None
    bound = [port for port in it.inputs if port.bound]
    taken: list[Statement] = []
    kept, mapped_in = [], []
    for port in bound:
        assert port.bound is not None
        inner = port_of(it, port.bound)
        now, held = Ref(port.name, it.name), Ref(f"sampled_{port.name}")
        kind = port.type or (inner.type if inner else "")
        kept.append(Declared(held.name, now, kind))
        taken.append(Assign(held, now))
        mapped_in.append(Assign(port.bound, convert(held, port, inner, port.at)))
    old = it.in_rules or Rules()
    rules = (Rule(_TRUE, (), tuple(mapped_in)),) if bound else ()
    free = tuple(replace(port, **_like(it, port)) for port in it.inputs)  # type: ignore[arg-type]
    it = replace(
        it,
        inputs=tuple(replace(port, bound=None) for port in free),
        control_vars=(*it.control_vars, *kept),
        in_rules=replace(old, rules=(*rules, *old.rules)) if rules or it.in_rules else None,
    )
    return it, taken


def _like(it: Adapted, port: Port) -> dict[str, object]:
    """What a port says of itself, and else what it is bound to."""
    inner = port_of(it, port.bound) if port.bound else None
    if inner is None:
        return {}
    return {
        "unit": port.unit or inner.unit,
        "type": port.type or inner.type,
        "initial": port.initial or inner.initial,
    }


def _named(name: str, by: Ref) -> Callable[[Expr], Expr]:
    return lambda one: (
        replace(by, index=one.index) if isinstance(one, Ref) and not one.owner and one.name == name else one
    )


def _caught_up(it: Adapted, until: Expr) -> Iterator[Statement]:
    for unit in _order(it, frozenset()):
        since = Call("last_execution_time", (Ref(unit),))
        yield Do(Call("do_step", (Ref(unit), since, Binary("-", until, since))))


def _periodic(it: Adapted, rule: Periodic) -> Adapted:
    every, first = rule.every, rule.first or Literal(0.0)
    if not isinstance(every, Literal) or not isinstance(every.value, float) or every.value <= 0.0:
        raise _refuse(rule.at, "a period is a positive number", "Write 'periodic every 0.1'.")
    if not isinstance(first, Literal) or not isinstance(first.value, float) or first.value < 0.0:
        raise _refuse(rule.at, "the first time is 0 or more", f"Write 'periodic at 0 every {every.value:g}'.")
    due = Binary("+", first, Binary("*", Ref("ticks"), every))
    kept = Declared("ticks", Literal(0.0))
    late = Binary("*", every, Literal(1e-9))
    past = Call("floor", (Binary("+", Binary("/", Binary("-", _T, first), every), Literal(1e-9)),))
    it, taken = _sampled(it)
    run = (
        *taken,
        *_caught_up(it, Ref("due")),
        Assign(Ref("ticks"), Binary("+", Ref("ticks"), Literal(1.0))),
        Return(Binary("-", Ref("due"), _T)),
    )
    ahead = Assign(Ref("ticks"), Binary("+", past, Literal(1.0)))
    body = (
        If(Binary("<=", due, Binary("+", _T, late)), (ahead,)),
        Var((Declared("due", due),)),
        If(Binary(">=", Binary("+", Binary("+", _T, _H), late), Ref("due")), run),
        Return(_H),
    )
    return replace(it, control_vars=(*it.control_vars, kept), control=body)


# ----------------------------------------------------------------------------------------------------
# Ports and order.


def port_of(it: Adapted, ref: Ref) -> Port | None:
    """The port of an inner unit, if there is one."""
    unit = it.unit(ref.owner)
    return unit.port(ref.name) if unit else None


def with_ports(it: Adapted) -> Adapted:
    """Rules 1 and 6: AddInPorts and AddOutPorts; and ports that are bound by having the same name."""
    assigned = {(one.target.owner, one.target.name) for one in _all_statements(it) if isinstance(one, Assign)}
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


def _all_statements(it: Adapted) -> Iterator[Statement]:
    yield from statements(it.control or ())
    for block in (it.in_rules, it.out_rules):
        for rule in block.rules if block else ():
            if isinstance(rule, Rule):
                yield from statements((*rule.first, *rule.second))


def _order(it: Adapted, cut: frozenset[Ref]) -> list[str]:
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
            raise _refuse(
                it.at,
                f"the inner units {', '.join(loop)} depend on each other: an algebraic loop",
                "Write 'successive substitution starts at …', 'delay at …', or control rules that solve it.",
            )
        order += ready
    return order


# ----------------------------------------------------------------------------------------------------
# Units of measure.


def convert(value: Expr, source: Port | None, target: Port | None, at: Place) -> Expr:
    """`value`, in the unit of `source`, in the unit of `target`."""
    if source is None or target is None or not source.unit or not target.unit or source.unit == target.unit:
        return value
    try:
        how = conversion(unit_text(source.unit), unit_text(target.unit))
    except MeasureError as error:
        raise _refuse(
            at,
            f"'{source.name}' in {source.unit} cannot be '{target.name}' in {target.unit}: {error}",
            "Correct one of the units, or convert it in a rule.",
        ) from None
    return _scaled(value, how)


def _scaled(value: Expr, how: Conversion) -> Expr:
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


def _converted(it: Adapted, wire: Wire, value: Expr) -> Expr:
    return convert(value, port_of(it, wire.source), port_of(it, wire.target), wire.at)


# ----------------------------------------------------------------------------------------------------
# The thirteen rules.


@dataclass(frozen=True, slots=True)
class Explicit:
    """An adaptation in explicit form, and what the form itself does not say any more."""

    it: Adapted
    inputs: tuple[Port, ...]
    """Ports from outside, with their units and types."""
    outputs: tuple[Port, ...]
    kinds: dict[str, str]
    """The types of variables and parameters: Real, Boolean, or empty where nothing says it."""
    located: frozenset[str] = frozenset()
    """The inputs whose crossings are looked for within a step."""


def explicit(it: Adapted) -> Explicit:
    """Everything written out; `ScenarioError` with all that is wrong."""
    return _Reduction(it).made()


def variable(prefix: str, *names: str) -> str:
    """A name for what the conventions add: ``stored_windowsa_speed``, ``INIT_WINDOWSA_SPEED``."""
    text = "_".join((prefix, *names))
    text = text.upper() if prefix.isupper() else text.lower()
    return re.sub(r"__+", "_", text)


@dataclass
class _Reduction:
    it: Adapted
    problems: list[Problem] = field(default_factory=list)
    before: list[Statement] = field(default_factory=list)
    """What the control does first, and what it does last."""
    after: list[Statement] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    locals: set[str] = field(default_factory=set)
    """Variables that live in a block, and may have the same name in several."""
    back: dict[str, tuple[Ref, int]] = field(default_factory=dict)
    """What is remembered of the past, and for how many steps."""
    inputs: dict[str, Port] = field(default_factory=dict)
    outputs: dict[str, Port] = field(default_factory=dict)
    located: set[str] = field(default_factory=set)

    def bad(self, at: Place, what: str, hint: str = "") -> None:
        found = bad(at, what, hint)
        if len(self.problems) < 50 and found not in self.problems:
            self.problems.append(found)

    def stop(self) -> None:
        if self.problems:
            raise ScenarioError(self.problems)

    # ------------------------------------------------------------------ all of it

    def made(self) -> Explicit:
        self.units()
        self.stop()
        it = self.it = with_ports(self.it)  # rules 1 and 6
        assert it.inputs is not None
        assert it.outputs is not None
        self.ports(it.inputs, it.outputs)
        self.stop()
        assert self.it.inputs is not None
        assert self.it.outputs is not None
        inputs, outputs = self.with_units(self.it.inputs), self.with_units(self.it.outputs)
        it = self.it = replace(self.it, inputs=inputs, outputs=outputs)
        self.inputs = {port.name: port for port in inputs}
        self.outputs = {port.name: port for port in outputs}
        self.declared()
        started = tuple(
            replace(one, value=self.resolve_initial(one.value)) if one.value is not None else one
            for one in it.control_vars
        )
        it = self.it = replace(self.it, control_vars=started)
        control = it.control if it.control is not None else self.default_control()  # rule 11
        in_rules, out_rules = (
            self.lowered(it.in_rules, self.in_rule),
            self.lowered(it.out_rules, self.out_rule),
        )
        out_rules += self.delayed(it, out_rules)
        control = (*self.before, *control)
        in_rules = [self.moved(rule, "In") for rule in in_rules]
        out_rules = [self.moved(rule, "MapOut") for rule in out_rules]
        in_rules = [self.resolved(rule, "In", "MapIn") for rule in in_rules]
        out_rules = [self.resolved(rule, "MapOut", "Out") for rule in out_rules]
        self.after = list(self.block(tuple(self.after), "Ctrl", set()))
        control = self.block(control, "Ctrl", set())
        self.stop()
        control = (*self.moved_on(), *_ended(control, tuple(self.after)))
        self.stop()
        return self.written(in_rules, control, out_rules)

    def written(
        self, in_rules: list[Rule], control: tuple[Statement, ...], out_rules: list[Rule]
    ) -> Explicit:
        it, name = self.it, self.it.name
        assert it.inputs is not None
        assert it.outputs is not None
        params, in_vars, out_vars = list(it.params), list(it.in_vars), list(it.out_vars)
        known = {one.name for one in params}
        variables = {one.name for one in (*in_vars, *out_vars, *it.control_vars)}

        def kept(port: Port, owner: str, to: list[Declared]) -> Ref:
            init, stored = variable("INIT", owner, port.name), variable("stored", owner, port.name)
            if init not in known:
                params.append(Declared(init, default_of(port), at=port.at))
                known.add(init)
                self.kinds[init] = port.type
            if stored not in variables:
                to.append(Declared(stored, Ref(init), at=port.at))
                variables.add(stored)
                self.kinds[stored] = port.type
            return Ref(stored)

        added_in, added_map, added_out, added_stored = [], [], [], []
        store: dict[tuple[str, str], Ref] = {}
        for port in it.inputs:  # rules 2 to 4
            store[name, port.name] = ref = kept(port, name, in_vars)
            added_in.append(Assign(ref, Ref(port.name, name)))
        for port in it.inputs:
            if port.bound:
                value = self.converted(Ref(port.name, name), port, port_of(it, port.bound), port.at)
                added_map.append(Assign(port.bound, value))
        for unit in it.inner:  # rules 7 to 9
            for port in unit.outputs:
                store[unit.name, port.name] = ref = kept(port, unit.name, out_vars)
                added_stored.append(Assign(ref, Ref(port.name, unit.name)))
        for port in it.outputs:
            if port.bound and (name, port.name) not in self._late:
                value = self.converted(port.bound, port_of(it, port.bound), port, port.at)
                added_out.append(Assign(Ref(port.name, name), value))
        done = {one for rule in (*in_rules, *out_rules) if flagged(rule.condition) for one in rule.first}
        added_in = [one for one in added_in if one not in done]
        added_stored = [one for one in added_stored if one not in done]
        if added_in or added_map:
            in_rules = [Rule(_TRUE, tuple(added_in), tuple(added_map)), *in_rules]
        if added_stored or added_out:
            out_rules = [Rule(_TRUE, tuple(added_stored), tuple(added_out)), *out_rules]
        out_rules = [*self.early, *out_rules]
        control = self.connected(control)  # rule 12

        def stored(one: Expr) -> Expr:  # rule 13
            found = store.get((one.owner, one.name)) if isinstance(one, Ref) else None
            return replace(found, at=one.at) if found else one

        in_rules = [replace(rule, second=_reads(rule.second, stored)) for rule in in_rules]
        control = _reads(control, stored)
        out_rules = [replace(rule, second=_reads(rule.second, stored)) for rule in out_rules]
        control_vars = tuple(replace(one, value=mapped(one.value, stored)) for one in it.control_vars)
        made = replace(
            it,
            inputs=tuple(Port(port.name, type=port.type) for port in it.inputs),  # rules 5 and 10
            outputs=tuple(Port(port.name, type=port.type) for port in it.outputs),
            params=tuple(params),
            control_vars=control_vars,
            control=control,
            in_vars=tuple(in_vars),
            in_rules=Rules(tuple(in_rules)) if in_rules else None,
            out_vars=tuple(out_vars),
            out_rules=Rules(tuple(out_rules)) if out_rules else None,
        )
        self.stop()
        _Check(made, self, {ref.name: Ref(name, owner) for (owner, name), ref in store.items()}).all()
        self.stop()
        return Explicit(made, it.inputs, it.outputs, self.kinds, frozenset(self.located))

    def with_units(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """A port that says nothing of its unit and type has those of what it is bound to."""
        found = []
        for port in ports:
            found.append(replace(port, **_like(self.it, port)))  # type: ignore[arg-type]
        return tuple(found)

    def converted(self, value: Expr, source: Port | None, target: Port | None, at: Place) -> Expr:
        try:
            return convert(value, source, target, at)
        except ScenarioError as error:
            self.problems += error.problems
            return value

    # ------------------------------------------------------------------ declarations

    def units(self) -> None:
        it, seen = self.it, {self.it.name}
        if not it.inner:
            self.bad(it.at, f"'{it.name}' has no unit inside", "Write 'for inner fmu TYPE name'.")
        for unit in it.inner:
            if unit.name in seen:
                self.bad(unit.at, f"'{unit.name}' names two units", "Give one of them another name.")
            seen.add(unit.name)
            twice = [
                port
                for i, port in enumerate((*unit.inputs, *unit.outputs))
                if port.name in {p.name for p in (*unit.inputs, *unit.outputs)[:i]}
            ]
            for port in twice:
                self.bad(port.at, f"'{unit.name}' has two ports '{port.name}'", "Leave one out.")
        for wire in it.wires:
            ends = []
            for end, ports in ((wire.source, "outputs"), (wire.target, "inputs")):
                inner = it.unit(end.owner)
                if inner is None:
                    self.bad(
                        end.at,
                        f"there is no inner unit '{end.owner}'"
                        if end.owner
                        else f"'{end.name}' does not say of which unit it is a port",
                        suggest(end.owner, [unit.name for unit in it.inner], "inner units"),
                    )
                    continue
                known = [port.name for port in getattr(inner, ports)]
                if end.name not in known:
                    self.bad(
                        end.at,
                        f"'{inner.name}' has no {ports[:-1]} '{end.name}'",
                        suggest(end.name, known, ports),
                    )
                    continue
                ends.append(inner.port(end.name))
            if len(ends) == 2:
                self.converted(_H, ends[0], ends[1], wire.at)
                made, taken = (port.type if port else "" for port in ends)
                if made and taken and (made == "Boolean") is not (taken == "Boolean"):
                    what = f"'{wire.target.text}' is {taken}, and '{wire.source.text}' is {made}"
                    self.bad(
                        wire.at, what, f"Give it a value by a rule: in rules {{ … {wire.target.text} := …; }}"
                    )
        targets = [wire.target for wire in it.wires]
        for i, target in enumerate(targets):
            if target in targets[:i]:
                self.bad(target.at, f"two connections lead to {target.text}", "Keep one of them.")

    def ports(self, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        it, seen = self.it, set[str]()
        for port, kind in (
            (port, kind) for ports, kind in ((inputs, "inputs"), (outputs, "outputs")) for port in ports
        ):
            if port.name in seen:
                self.bad(
                    port.at, f"'{it.name}' has two ports '{port.name}'", "Give one of them another name."
                )
            seen.add(port.name)
            if port.name in ("t", "H", "h", "dt", "e"):
                self.bad(
                    port.at,
                    f"'{port.name}' is a name of the language, and no port can have it",
                    "Rename the port.",
                )
            if port.bound is None:
                continue
            ref = port.bound
            if not ref.owner:
                units = [unit for unit in it.inner if ref.name in {p.name for p in getattr(unit, kind)}]
                if len(units) == 1:
                    ref = replace(ref, owner=units[0].name)
            inner = it.unit(ref.owner)
            if inner is None:
                self.bad(
                    ref.at,
                    f"'{port.name}' is bound to '{ref.text}', and there is no inner unit '{ref.owner}'",
                    suggest(ref.owner or ref.name, [f"{unit.name}" for unit in it.inner], "inner units"),
                )
            elif ref.name not in {p.name for p in getattr(inner, kind)}:
                known = [p.name for p in getattr(inner, kind)]
                self.bad(
                    ref.at, f"'{inner.name}' has no {kind[:-1]} '{ref.name}'", suggest(ref.name, known, kind)
                )
        for port in (*inputs, *outputs, *(p for unit in it.inner for p in (*unit.inputs, *unit.outputs))):
            if port.unit:
                try:
                    check_measure(unit_text(port.unit))
                except MeasureError as error:
                    self.bad(port.at, f"'{port.name}': {error}")
            self.initial(port)
        if not outputs:
            what = f"'{it.name}' shows nothing: the units inside have no outputs"
            self.bad(
                it.at, what, "Give it one: output ports y, and out rules { true -> { } --> { y := …; }; }"
            )
        complete = {"inputs": inputs, "outputs": outputs}
        for kind, found in complete.items():
            owned = tuple(self._owned(port, kind) for port in found)
            self.it = replace(self.it, **{kind: owned})  # type: ignore[arg-type]

    def initial(self, port: Port) -> None:
        """The initial value of a port is of its type."""
        value = port.initial.value if isinstance(port.initial, Literal) else None
        fits = {
            "Boolean": isinstance(value, bool) or value in (0.0, 1.0),
            "Integer": isinstance(value, float) and value.is_integer(),
            "Real": isinstance(value, float),
            "String": isinstance(value, str),
        }
        if value is not None and not fits.get(port.type, True) and port.initial is not None:
            example = {"Boolean": "true", "Integer": "1", "Real": "1.0", "String": '"text"'}[port.type]
            self.bad(
                port.initial.at if port.initial.at.line else port.at,
                f"the port '{port.name}' is {port.type}, and {shown(port.initial)} is not",
                f"Write for instance {port.name} := {example}.",
            )

    def _owned(self, port: Port, kind: str) -> Port:
        if port.bound is None or port.bound.owner:
            return port
        units = [u for u in self.it.inner if port.bound.name in {p.name for p in getattr(u, kind)}]
        return replace(port, bound=replace(port.bound, owner=units[0].name)) if len(units) == 1 else port

    def declared(self) -> None:
        it = self.it
        seen = {**dict.fromkeys(("t", "H", "h", "dt", "e"), "the language"), it.name: "the adaptation"}
        seen |= {unit.name: "an inner unit" for unit in it.inner}
        groups = (("a parameter", it.params), ("an input variable", it.in_vars))
        for what, group in (
            *groups,
            ("an output variable", it.out_vars),
            ("a control variable", it.control_vars),
        ):
            for one in group:
                if one.name in seen:
                    self.bad(
                        one.at,
                        f"'{one.name}' names {what} and {seen[one.name]}",
                        "Give one of them another name.",
                    )
                seen[one.name] = what
                self.kinds[one.name] = one.type or (self.kind_of(one.value) if one.value else "")
                if what == "a parameter" and one.value is None:
                    self.bad(one.at, f"the parameter '{one.name}' has no value", f"Write {one.name} := 0.0.")

        asked = {
            call.args[0].name
            for call in expressions((*_all_statements(it), *self._conditions()))
            if isinstance(call, Call)
            and call.name == "is_set"
            and call.args
            and isinstance(call.args[0], Ref)
        }
        for kind in ("in_vars", "out_vars", "control_vars"):
            own: tuple[Declared, ...] = getattr(self.it, kind)
            fresh = [one.name for one in own if one.value is None and one.name in asked]
            flags = tuple(Declared(f"{name}_is_set", Literal(False)) for name in fresh)
            self.unset |= {*fresh}
            self.kinds |= {flag.name: "Boolean" for flag in flags}
            self.it = replace(self.it, **{kind: (*own, *flags)})  # type: ignore[arg-type]

    def _conditions(self) -> Iterator[Expr]:
        for block in (self.it.in_rules, self.it.out_rules):
            yield from (rule.condition for rule in block.rules if isinstance(rule, Rule)) if block else ()

    def kind_of(self, value: Expr) -> str:
        return kind_of(value, self.kinds, self.port_kind)

    def port_kind(self, ref: Ref) -> str:
        port = self.inputs.get(ref.name) or self.outputs.get(ref.name) if ref.owner == self.it.name else None
        port = port or port_of(self.it, ref)
        return ("Real" if port.type == "Integer" else port.type) if port else ""

    def default_control(self) -> tuple[Statement, ...]:
        order = _order(self.it, frozenset())
        steps = [Var((Declared(f"H_{unit}", Call("do_step", (Ref(unit), _T, _H))),)) for unit in order]
        minimum: Expr = Ref(f"H_{order[0]}")
        for unit in order[1:]:
            minimum = Call("min", (minimum, Ref(f"H_{unit}")))
        return (*steps, Return(minimum))

    # ------------------------------------------------------------------ declarative rules in blocks

    _late: set[tuple[str, str]] = field(default_factory=set)
    early: list[Rule] = field(default_factory=list)
    """Output rules before all others: they need what was stored before."""
    unset: set[str] = field(default_factory=set)
    """Variables without a first value: whether they have one is kept beside them."""
    conditions: list[Expr] = field(default_factory=list)
    """Of the rules so far in a block, for `otherwise`."""

    def lowered(self, rules: Rules | None, change: Callable[[Any, Rules], list[Rule]]) -> list[Rule]:
        found: list[Rule] = []
        self.conditions = []
        holds = [one for one in (rules.settings if rules else ()) if isinstance(one, Hold)]
        holds += [one.hold for one in (rules.rules if rules else ()) if isinstance(one, Rule) and one.hold]
        for hold in holds:
            if hold.order > 2:
                self.bad(hold.at, *_HOLDS)
            elif hold.order > 0 and change == self.in_rule:
                what = "inputs are held as they are between communication points"
                self.bad(hold.at, what, "Write 'multiply rate 10 times with first order interpolation'.")
        for rule in rules.rules if rules else ():
            found += change(rule, rules or Rules())
        return found

    def settled(self, rule: Rule) -> Rule:
        """The rule with `otherwise` written out; its condition is kept for a later one."""
        if not isinstance(rule.condition, Otherwise):
            self.conditions += [] if flagged(rule.condition) else [rule.condition]
            return rule
        return replace(
            rule, condition=Unary("not", _joined("or", self.conditions)) if self.conditions else _TRUE
        )

    def in_rule(self, rule: Any, rules: Rules) -> list[Rule]:
        match rule:
            case Quantize():
                return self.quantized(rule)
            case Delay() | Substitution():
                self.bad(
                    rule.at,
                    "this stands outside of the in rules",
                    "Move it before 'in rules', or into the out rules.",
                )
                return []
        assert isinstance(rule, Rule)
        near = next((one for one in rules.settings if isinstance(one, Crossing)), Crossing())

        def crossing(one: Expr) -> Expr:
            return self.crossing(one, near) if isinstance(one, Binary) and one.op in (">!", "<!") else one

        rule = self.settled(replace(rule, condition=mapped(rule.condition, crossing)))
        seen = any(
            isinstance(one, Ref) and one.name.startswith("crossed_") for one in expressions(rule.condition)
        )
        past = any(isinstance(one, Ref) and one.index for one in expressions(rule.condition))
        into = all(self.inner_input(one.target) for one in statements(rule.first) if isinstance(one, Assign))
        if seen and not into:  # known when the control has looked, which then stores what is to be stored
            self.before.append(If(rule.condition, rule.first, at=rule.at))
            return [Rule(_TRUE, (), (If(rule.condition, rule.second, at=rule.at),), at=rule.at)]
        if seen or (past and into):  # and not when inputs are taken
            second = (If(rule.condition, (*rule.first, *rule.second), at=rule.at),)
            return [Rule(_TRUE, (), second, at=rule.at)]
        return [rule]

    def crossing(self, one: Binary, near: Crossing) -> Expr:
        """Listing 7.6: the step is made again so that it ends where the level is met."""
        number = 1 + sum(name.startswith("crossed_") for name in self.kinds)
        crossed, was = Ref(f"crossed_{number}"), Ref(f"before_{number}")
        level, value = one.right, one.left
        seen = (ref for ref in expressions((value, level)) if isinstance(ref, Ref))
        self.located |= {ref.name for ref in seen if ref.owner in ("", self.it.name)} & self.inputs.keys()
        relative, absolute = _tolerances(near.tolerances)
        up, down = ("<", ">") if one.op == ">!" else (">", "<")

        def close(at: Expr) -> Expr:
            return Call("is_close", (at, level, relative, absolute))

        part = Binary("/", Binary("-", level, was), Binary("-", value, was))
        far = Binary("and", Binary(down, value, level), Unary("not", close(value)))
        far = Binary("and", far, Binary(">", _H, Literal(1e-9)))
        self.before += [
            Assign(crossed, Literal(False)),
            If(
                Binary("and", Binary(up, was, level), Unary("not", close(was))),
                (
                    If(far, (Do(Call("discard", (Binary("*", _H, part),), at=one.at), at=one.at),)),
                    Assign(crossed, Binary("or", Binary(down, value, level), close(value))),
                ),
            ),
        ]
        self.after.append(Assign(was, value))
        self.kinds |= {crossed.name: "Boolean", was.name: "Real"}
        start = (Declared(crossed.name, Literal(False)), Declared(was.name, self.resolve_initial(value)))
        self.it = replace(self.it, control_vars=(*self.it.control_vars, *start))
        return replace(crossed, at=one.at)

    def resolve_initial(self, value: Expr) -> Expr:
        past = next((e for e in expressions(value) if isinstance(e, Ref) and e.index), None)
        if past is not None:
            self.bad(past.at, f"nothing was before the start, and {shown(past)} is an initial value")
            return value
        return mapped(value, lambda e: self.ref(e, "Ctrl", set()) if isinstance(e, Ref) else e)

    def quantized(self, rule: Quantize, out: bool = False) -> list[Rule]:
        it = self.it
        ports = self.outputs if out else self.inputs
        port = ports.get(rule.signal.name)
        if port is None or port.bound is None or rule.signal.owner not in ("", it.name):
            known = [one.name for one in ports.values() if one.bound]
            if port is not None:
                what = f"'{port.name}' is not bound to a port inside, or another rule takes its value"
                self.bad(rule.signal.at, what, "Quantize it in an adaptation of its own.")
                return []
            self.bad(
                rule.signal.at,
                f"'{rule.signal.text}' is no port that is bound to one inside, and only those are quantized",
                suggest(rule.signal.name, known, "ports"),
            )
            return []
        raw: Expr = port.bound if out else Ref(port.name, it.name)
        if rule.every is not None:
            step = constant(rule.every, it)
            if step is not None and not step > 0.0:
                self.bad(
                    rule.every.at,
                    f"a signal is quantized in steps of more than 0, and '{shown(rule.every)}' is {step:g}",
                    f"Write quantize {rule.signal.text} every 0.1.",
                )
                return []
            moved = Binary("-", raw, rule.offset) if rule.offset else raw
            value: Expr = Binary("*", Call("floor", (Binary("/", moved, rule.every),)), rule.every)
            value = Binary("+", value, rule.offset) if rule.offset else value
        elif rule.formula is not None:
            assert isinstance(raw, Ref)
            value = mapped(rule.formula, _named("signal", raw))
        else:  # the number of the zone
            found: list[Statement] = []
            if not rule.bounds:
                self.bad(rule.at, "one zone alone divides nothing", 'Write quantize(x, "low", 3.0, "high").')
            limits = [(constant(bound, it), bound.at) for bound in rule.bounds]
            for (one, _), (other, at) in pairwise(limits):
                if one is not None and other is not None and not one < other:
                    self.bad(at, f"limits of zones rise, and {other:g} comes behind {one:g}")
            value = Literal(0.0)
            target = Ref(port.name, it.name) if out else port.bound
            found.append(Assign(target, value))
            for number, bound in enumerate(rule.bounds, 1):
                found.append(If(Binary(">=", raw, bound), (Assign(target, Literal(float(number))),)))
            return [Rule(_TRUE, (), tuple(found), at=rule.at)]
        target = Ref(port.name, it.name) if out else port.bound
        inner = port_of(it, port.bound)
        value = self.converted(value, inner if out else port, port if out else inner, rule.at)
        return [Rule(_TRUE, (), (Assign(target, value, at=rule.at),), at=rule.at)]

    def out_rule(self, rule: Any, rules: Rules) -> list[Rule]:
        match rule:
            case Quantize():
                return self.quantized(rule, out=True)
            case Delay():
                for ref in rule.signals:
                    if ref.name not in self.outputs or ref.owner not in ("", self.it.name):
                        self.bad(
                            ref.at,
                            f"'{ref.text}' is no output of '{self.it.name}'",
                            suggest(ref.name, self.outputs, "outputs"),
                        )
                    self._late.add((self.it.name, ref.name))
                return []
            case Substitution():
                self.bad(rule.at, "this stands outside of the out rules", "Move it before 'in rules'.")
                return []
        assert isinstance(rule, Rule)
        if isinstance(rule.condition, Literal) and isinstance(rule.condition.value, str):
            rule = replace(rule, condition=Ref(rule.condition.value, at=rule.condition.at))
        rule = self.settled(rule)
        if any(isinstance(one, Binary) and one.op in (">!", "<!") for one in expressions(rule.condition)):
            self.bad(rule.at, "a crossing is located in the inputs only", "Write it into the in rules.")
        hold = rule.hold or next((one for one in rules.settings if isinstance(one, Hold)), None)
        return [rule, *self.held(rule, hold)] if hold is not None and hold.order in (1, 2) else [rule]

    def held(self, rule: Rule, hold: Hold) -> list[Rule]:
        """First and second order: outputs go on along the line, or the parabola, through those that the unit
        has shown after its last two, or three, steps."""
        found: list[Rule] = []
        for port in self.outputs.values():
            if port.bound is None or port.type not in ("", "Real"):
                continue
            slope, since, bend, width = (
                f"{what}_{port.name}" for what in ("slope", "since", "bend", "width")
            )
            if slope in self.kinds:
                continue
            parabola = hold.order == 2
            own = (slope, since, bend, width) if parabola else (slope, since)
            self.kinds |= dict.fromkeys(own, "Real")
            self.it = replace(
                self.it, out_vars=(*self.it.out_vars, *(Declared(n, Literal(0.0)) for n in own))
            )
            old = Ref(variable("stored", port.bound.owner, port.bound.name))
            self.kinds.setdefault(old.name, "Real")
            grown = Binary("/", Binary("-", port.bound, old), Ref("h"))
            wide = Binary("+", Ref("h"), Ref(width))
            bent = Assign(Ref(bend), Binary("/", Binary("-", grown, Ref(slope)), wide))
            turn = (If(Binary(">", Ref(width), Literal(0.0)), (bent,)), Assign(Ref(width), Ref("h")))
            first = If(
                Binary(">", Ref("h"), Literal(0.0)),
                (
                    *(turn if parabola else ()),
                    Assign(Ref(slope), grown),
                    Assign(Ref(since), Binary("+", _T, Binary("+", Ref("dt"), Ref("h")))),
                ),
            )
            late = Binary("-", _T, Ref(since))
            value = Binary("+", port.bound, Binary("*", Ref(slope), late))
            if parabola:
                curve = Binary("*", Binary("*", Ref(bend), late), Binary("+", late, Ref(width)))
                value = Binary("+", value, curve)
            inner = port_of(self.it, port.bound)
            value_out = self.converted(value, inner, port, hold.at)
            self.early.append(self.resolved(Rule(_TRUE, (first,), (), at=rule.at), "MapOut", "Out"))
            found.append(Rule(_TRUE, (), (Assign(Ref(port.name, self.it.name), value_out),), at=rule.at))
        return found

    def delayed(self, it: Adapted, rules: list[Rule]) -> list[Rule]:
        """Outputs of `delay at`: shown one step after they were found."""
        found: list[Rule] = []
        for owner, name in sorted(self._late):
            port = self.outputs.get(name)
            if port is None:
                continue
            fresh, late = Ref(f"fresh_{name}"), Ref(f"late_{name}")
            for i, rule in enumerate(rules):
                keep = [one for one in rule.second if not _writes(one, owner, name)]
                move = [
                    replace(one, target=fresh)
                    for one in rule.second
                    if isinstance(one, Assign) and _writes(one, owner, name)
                ]
                first = tuple(
                    replace(one, target=fresh)
                    if isinstance(one, Assign) and _writes(one, owner, name)
                    else one
                    for one in rule.first
                )
                rules[i] = replace(rule, first=(*first, *move), second=tuple(keep))
            if port.bound:
                value = self.converted(port.bound, port_of(self.it, port.bound), port, port.at)
                rules.insert(0, Rule(_TRUE, (Assign(fresh, value),), (), at=port.at))
            found.append(Rule(_TRUE, (), (Assign(Ref(name, owner), late),), at=port.at))
            self.kinds |= {fresh.name: port.type, late.name: port.type}
            self.it = replace(
                self.it,
                out_vars=(*self.it.out_vars, Declared(fresh.name, default_of(port))),
                control_vars=(*self.it.control_vars, Declared(late.name, default_of(port))),
            )
            self.before.append(Assign(late, fresh))
        return found

    def moved(self, rule: Rule, where: str) -> Rule:
        """Inputs of inner units are assigned in MapIn and outputs in Out, wherever they are written."""
        target = self.inner_input if where == "In" else self.outer_output
        own = {item.name for one in statements(rule.first) if isinstance(one, Var) for item in one.declared}

        def late(one: Statement) -> bool:
            if not isinstance(one, Assign) or (not one.target.owner and one.target.name in own):
                return False
            return target(one.target)

        first = [one for one in rule.first if not late(one)]
        moved = [one for one in rule.first if late(one)]
        return replace(rule, first=tuple(first), second=(*moved, *rule.second)) if moved else rule

    def inner_input(self, ref: Ref) -> bool:
        if not ref.owner:
            return ref.name not in self.kinds and any(
                ref.name in {p.name for p in unit.inputs} for unit in self.it.inner
            )
        unit = self.it.unit(ref.owner)
        return unit is not None and ref.name in {port.name for port in unit.inputs}

    def outer_output(self, ref: Ref) -> bool:
        return ref.owner in ("", self.it.name) and ref.name not in self.kinds and ref.name in self.outputs

    # ------------------------------------------------------------------ names

    def resolved(self, rule: Rule, first: str, second: str) -> Rule:
        return replace(
            rule,
            condition=self.asked_before(self.value(rule.condition, first, set())),
            first=self.block(rule.first, first, set()),
            second=self.block(rule.second, second, set()),
        )

    def asked_before(self, condition: Expr) -> Expr:
        """The condition of a rule, which units inside are not asked in."""
        for one in expressions(condition):
            if isinstance(one, Call) and one.name == "get_next_time_step":
                hint = "Store it in a rule before: true -> { next := get_next_time_step(…); } --> { };"
                self.bad(one.at, "a unit is not asked for its next step in the condition of a rule", hint)
        return condition

    def block(self, found: tuple[Statement, ...], where: str, local: set[str]) -> tuple[Statement, ...]:
        made: list[Statement] = []
        for one in found:
            made.append(self.statement(one, where, local))
            if isinstance(one, Assign) and not one.target.owner and one.target.name in self.unset:
                made.append(Assign(Ref(f"{one.target.name}_is_set"), Literal(True)))
        return tuple(made)

    def statement(self, one: Statement, where: str, local: set[str]) -> Statement:
        match one:
            case Var(declared=declared):
                made = []
                for item in declared:
                    value = self.value(item.value, where, local) if item.value is not None else None
                    if item.name in self.kinds and item.name not in {*local, *self.locals}:
                        self.bad(
                            item.at,
                            f"'{item.name}' is the name of something else already",
                            "Rename the variable.",
                        )
                    local.add(item.name)
                    self.locals.add(item.name)
                    kind = item.type or (self.kind_of(value) if value is not None else "")
                    self.kinds[item.name] = kind if kind == self.kinds.get(item.name, kind) else ""
                    made.append(replace(item, value=value))
                return replace(one, declared=tuple(made))
            case Assign(target=target, value=value):
                value = self.value(value, where, local)
                return replace(one, target=self.ref(target, where, local, write=True), value=value)
            case If(condition=condition, then=then, otherwise=otherwise):
                condition = self.value(condition, where, local)
                then, otherwise = (self.block(branch, where, {*local}) for branch in (then, otherwise))
                return replace(one, condition=condition, then=then, otherwise=otherwise)
            case For(variable=name, first=first, last=last, body=body):
                first, last = self.value(first, where, local), self.value(last, where, local)
                inside = {*local, name}
                self.kinds[name] = "Real"
                return replace(one, first=first, last=last, body=self.block(body, where, inside))
            case Return(value=value):
                return replace(one, value=self.value(value, where, local))
            case Do(call=call):
                made_call = self.value(call, where, local)
                assert isinstance(made_call, Call)
                return replace(one, call=made_call)
        return one

    def value(self, expr: Expr, where: str, local: set[str]) -> Expr:
        units = {
            id(one.args[0])
            for one in expressions(expr)
            if isinstance(one, Call) and one.name in _OF_UNITS and one.args
        }
        # What is wrong with a function that does not exist is its name.
        units |= {
            id(arg)
            for one in expressions(expr)
            if isinstance(one, Call) and one.name not in BUILT_IN
            for arg in one.args
        }

        def change(one: Expr) -> Expr:
            if isinstance(one, Ref) and id(one) not in units:
                if one == Ref("e") and where == "Ctrl" and "e" not in local:
                    return self.elapsed(one.at)
                return self.ref(one, where, local)
            if isinstance(one, Call):
                return self.call(one, where)
            if isinstance(one, Otherwise):
                self.bad(one.at, "'otherwise' is a condition of a rule, and stands alone")
            if isinstance(one, Binary) and one.op in (">!", "<!"):
                self.bad(one.at, f"'{one.op}' stands in conditions of in rules only", "Write > or <.")
            return one

        return mapped(expr, change)

    def elapsed(self, at: Place) -> Expr:
        """`e`: how long ago a unit inside was executed last."""
        last: Expr = Call("last_execution_time", (Ref(self.it.inner[0].name),), at=at)
        for unit in self.it.inner[1:]:
            last = Call("max", (last, Call("last_execution_time", (Ref(unit.name),))), at=at)
        return Binary("-", _T, last, at=at)

    def call(self, one: Call, where: str) -> Expr:
        it = self.it
        if one.name not in BUILT_IN:
            self.bad(one.at, f"there is no function '{one.name}'", suggest(one.name, BUILT_IN, "functions"))
            return one
        minimum, maximum = BUILT_IN[one.name]
        if not minimum <= len(one.args) <= maximum:
            count = (
                f"{minimum}" if minimum == maximum else f"{minimum} or {'more' if maximum > 3 else maximum}"
            )
            self.bad(
                one.at,
                f"'{one.name}' takes {count} argument{'s' if maximum > 1 else ''}, not {len(one.args)}",
            )
            return one
        if one.name in _STEPPING and where != "Ctrl":
            self.bad(one.at, f"'{one.name}' belongs into the control rules", "Write it there.")
        if one.name in _OF_UNITS:
            unit = one.args[0]
            if not isinstance(unit, Ref) or unit.owner or it.unit(unit.name) is None:
                self.bad(
                    unit.at,
                    f"'{shown(unit)}' is no inner unit",
                    suggest(shown(unit), [u.name for u in it.inner], "inner units"),
                )
                return one
        if one.name in ("min", "max") and len(one.args) > 2:
            return reduce(lambda left, right: Call(one.name, (left, right), at=one.at), one.args)
        if one.name == "do_step" and len(one.args) == 2:
            since = Call("last_execution_time", (one.args[0],), at=one.at)
            return replace(one, args=(one.args[0], since, one.args[1]))
        if one.name == "elapsed":
            if where == "In":
                hint = "Write it into the second part, or into the control rules."
                self.bad(
                    one.at, "'elapsed' is not known where inputs are stored: they may be later ones", hint
                )
            return Binary("-", _T, replace(one, name="last_execution_time"), at=one.at)
        if one.name == "is_set":  # every port has a value from the start on
            what = one.args[0]
            if not isinstance(what, Ref) or what.index:
                self.bad(one.at, f"'is_set' asks for a variable, and '{shown(what)}' is none")
            unset = isinstance(what, Ref) and not what.owner and what.name in self.unset
            return Ref(f"{what.name}_is_set", at=one.at) if unset else Literal(True, at=one.at)  # type: ignore[union-attr]
        return one

    def ref(self, one: Ref, where: str, local: set[str], write: bool = False) -> Ref:
        found = self.found(one, where, local, write)
        if found is None:
            return one
        if one.index and write:
            self.bad(one.at, f"the past of '{one.text}' cannot be changed", "Leave out the index.")
        if not one.index or one.name in {p.name for p in self.it.params}:
            return found
        if one.name in local and not one.owner:
            self.bad(
                one.at,
                f"'{one.name}' lives in one step only, and has no past",
                f"Write: control var {one.name}",
            )
            return found
        return self.past(found, -one.index, where)

    def found(self, one: Ref, where: str, local: set[str], write: bool) -> Ref | None:
        it = self.it
        if one.owner:
            return self.port_ref(one, where, write)
        if one.name in local or one.name in self.kinds.keys() - self.locals:
            if write and one.name in {p.name for p in it.params}:
                self.bad(
                    one.at,
                    f"'{one.name}' is a parameter, and cannot be changed",
                    "Declare a variable for it.",
                )
            return one
        times = _TIMES.get(where, ("t", "H"))
        if one.name in _MOMENTS:
            if write:
                what = {"t": "the time", "H": "the size of the step"}.get(one.name, "a time of the language")
                self.bad(
                    one.at, f"'{one.name}' is {what}, and cannot be assigned", "Declare a variable for it."
                )
            elif one.name not in times:
                places = (
                    "MapIn and MapOut parts"
                    if one.name in ("h", "dt")
                    else "control rules, out rules and the second part of in rules"
                )
                self.bad(one.at, f"'{one.name}' is known in {places} only")
            return one
        inner_in = [
            Ref(one.name, u.name, at=one.at) for u in it.inner if one.name in {p.name for p in u.inputs}
        ]
        inner_out = [
            Ref(one.name, u.name, at=one.at) for u in it.inner if one.name in {p.name for p in u.outputs}
        ]
        mine_in = [Ref(one.name, it.name, at=one.at)] if one.name in self.inputs else []
        mine_out = [Ref(one.name, it.name, at=one.at)] if one.name in self.outputs else []
        if write:
            choices = [mine_out] if where in ("MapOut", "Out") else [inner_in]
        else:
            choices = [inner_out, mine_in] if where in ("MapOut", "Out") else [mine_in, inner_out]
        for found in choices:
            if len(found) == 1:
                return found[0]
            if found:
                self.bad(
                    one.at,
                    f"'{one.name}' could be any of {', '.join(r.text for r in found)}",
                    f"Write {found[0].text}.",
                )
                return None
        known = {
            *self.kinds,
            *self.inputs,
            *self.outputs,
            *(p.name for u in it.inner for p in (*u.inputs, *u.outputs)),
        }
        if one.name == "e" and not write:
            self.bad(one.at, "'e', the time since the last execution, is known in control rules only")
        elif one.name in known:
            what = "assigned" if write else "read"
            inside = [u.name for u in it.inner if one.name in {p.name for p in u.inputs}]
            hint, why = "", f"in {_PLACES[where]}"
            if not write and inside:
                why = f"here: it is an input of '{inside[0]}', and no input of '{it.name}'"
                hint = f"Declare one: input ports {one.name}."
            self.bad(one.at, f"'{one.name}' cannot be {what} {why}", hint)
        else:
            what = f"there is no '{one.name}'"
            if all(problem.what != what for problem in self.problems):  # its first place is enough
                alike = [n for n in sorted(known) if n.translate(_ALIKE) == one.name.translate(_ALIKE)]
                digits = f"Did you mean '{alike[0]}'? Letters and digits look alike." if alike else ""
                self.bad(one.at, what, digits or suggest(one.name, known, "names"))
        return None

    def port_ref(self, one: Ref, where: str, write: bool) -> Ref | None:
        it = self.it
        if one.owner in (it.name, it.type) and it.unit(one.owner) is None:
            ports, other = (self.outputs, self.inputs) if write else (self.inputs, self.outputs)
            if one.name in ports:
                if write and where not in ("Out", "MapOut"):
                    self.bad(one.at, f"outputs such as '{one.text}' are assigned in out rules only")
                return replace(one, owner=it.name)
            kind = "output" if write else "input"
            hint = suggest(one.name, ports, f"{kind}s")
            if one.name in other:
                hint = f"It is an {'input' if write else 'output'}."
            self.bad(one.at, f"'{it.name}' has no {kind} '{one.name}'", hint)
            return None
        unit = it.unit(one.owner)
        if unit is None:
            hint = suggest(one.owner, [it.name, *(u.name for u in it.inner)], "units")
            self.bad(one.at, f"there is no unit '{one.owner}' here", hint)
            return None
        ports_of = unit.inputs if write else unit.outputs
        if one.name not in {port.name for port in ports_of}:
            kind = "input" if write else "output"
            is_other = unit.port(one.name) is not None
            hint = suggest(one.name, [port.name for port in ports_of], f"{kind}s of {unit.name}")
            opposite, done = ("output", "assigned") if write else ("input", "read")
            what = f"'{one.text}' is an {opposite}, and cannot be {done}"
            self.bad(one.at, what if is_other else f"'{unit.name}' has no {kind} '{one.name}'", hint)
            return None
        if write and where not in ("MapIn", "Ctrl"):
            self.bad(
                one.at,
                f"inputs of inner units such as '{one.text}' are assigned in in rules and control rules only",
            )
        return one

    def past(self, ref: Ref, steps: int, where: str) -> Ref:
        """A variable with the value that `ref` had so many steps ago.

        Such variables are moved on when the control begins. In comes before that, when the last one of an
        input is still the one before; and out rules see outputs that are newer than the control did.
        """
        if steps > 100:
            self.bad(ref.at, "at most 100 steps are remembered", "Write a smaller index.")
            return ref
        outside = ref.owner == self.it.name
        if outside and self.it.mealy is not False and (where == "In" or self.it.reactive is False):
            self.bad(
                ref.at,
                f"outputs of a mealy adaptation follow '{ref.name}' at once, when it is not known yet here "
                "what it was a step ago",
                f"Read {ref.name}[prev] in {_PLACES['MapIn']} of a reactive one, or in control rules; "
                "or make the adaptation a moore one.",
            )
            return ref
        late = where == "In" if outside else bool(ref.owner) and where in ("MapOut", "Out")
        base = variable("past", ref.owner, ref.name) if ref.owner else variable("past", ref.name)
        depth = steps - late
        _, held = self.back.get(base, (ref, -1))
        start = Literal(0.0) if ref.name in _MOMENTS and not ref.owner else replace(ref, index=0)
        for number in range(held + 1, depth + 1):
            self.kinds[f"{base}_{number}"] = self.kind_of(ref)
            more = Declared(f"{base}_{number}", start)
            self.it = replace(self.it, control_vars=(*self.it.control_vars, more))
        self.back[base] = (ref, max(held, depth))
        return Ref(f"{base}_{depth}", at=ref.at)

    def moved_on(self) -> Iterator[Statement]:
        """Every remembered value becomes one step older."""
        for base, (ref, depth) in self.back.items():
            for number in range(depth, 0, -1):
                yield Assign(Ref(f"{base}_{number}"), Ref(f"{base}_{number - 1}"))
            yield Assign(Ref(f"{base}_0"), replace(ref, index=0))

    # ------------------------------------------------------------------ rule 12

    def connected(self, control: tuple[Statement, ...]) -> tuple[Statement, ...]:
        wires: dict[str, list[Wire]] = {}
        for wire in self.it.wires:
            wires.setdefault(wire.target.owner, []).append(wire)
        assigned: set[tuple[str, str]] = set()

        def walked(found: tuple[Statement, ...]) -> tuple[Statement, ...]:
            new: list[Statement] = []
            for given in found:
                one = given
                for unit in _stepped(one):
                    for wire in wires.get(unit, ()):
                        if (wire.target.owner, wire.target.name) not in assigned:
                            value = self.converted(
                                wire.source,
                                port_of(self.it, wire.source),
                                port_of(self.it, wire.target),
                                wire.at,
                            )
                            new.append(Assign(replace(wire.target), value))
                if isinstance(one, Assign):
                    assigned.add((one.target.owner, one.target.name))
                if isinstance(one, If):
                    one = replace(one, then=walked(one.then), otherwise=walked(one.otherwise))
                elif isinstance(one, For):
                    one = replace(one, body=walked(one.body))
                new.append(one)
            return tuple(new)

        return walked(control)


_MOMENTS = ("t", "H", "h", "dt")
_HOLDS = ("outputs are held by order 0, 1 or 2", "Write 'zero', 'first' or 'second order hold'.")
_ALIKE = str.maketrans("1I0", "llO")
_PLACES = {
    "In": "the first part of in rules",
    "MapIn": "the second part of in rules",
    "Ctrl": "control rules",
    "MapOut": "the first part of out rules",
    "Out": "the second part of out rules",
}


def _stepped(one: Statement) -> list[str]:
    """The units that a statement itself steps, without those inside blocks."""
    parts: tuple[Any, ...] = ()
    match one:
        case Var(declared=declared):
            parts = tuple(item.value for item in declared if item.value is not None)
        case Assign(value=value) | Return(value=value):
            parts = (value,)
        case Do(call=call):
            parts = (call,)
        case If(condition=condition):
            parts = (condition,)
    return [
        call.args[0].name
        for call in expressions(parts)
        if isinstance(call, Call) and call.name == "do_step" and call.args and isinstance(call.args[0], Ref)
    ]


def _writes(one: Statement, owner: str, name: str) -> bool:
    return isinstance(one, Assign) and one.target.name == name and one.target.owner in ("", owner)


def _ended(control: tuple[Statement, ...], last: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """`last` before every return, and at the end if there is none."""
    if not last:
        return control

    def walked(found: tuple[Statement, ...]) -> tuple[Statement, ...]:
        new: list[Statement] = []
        for given in found:
            one = given
            if isinstance(one, Return):
                new += last
            elif isinstance(one, If):
                one = replace(one, then=walked(one.then), otherwise=walked(one.otherwise))
            elif isinstance(one, For):
                one = replace(one, body=walked(one.body))
            new.append(one)
        return tuple(new)

    made = walked(control)
    return made if made and isinstance(made[-1], Return) else (*made, *last)


def _reads(found: tuple[Statement, ...], change: Callable[[Expr], Expr]) -> tuple[Statement, ...]:
    """The statements with other expressions, and the targets of assignments as they were."""
    new: list[Statement] = []
    for given in found:
        one = given
        match one:
            case Assign(value=value):
                one = replace(one, value=mapped(value, change))
            case If(condition=condition, then=then, otherwise=otherwise):
                condition = mapped(condition, change)
                one = replace(
                    one, condition=condition, then=_reads(then, change), otherwise=_reads(otherwise, change)
                )
            case For(body=body):
                one = replace(one, body=_reads(body, change))
            case _:
                one = mapped(one, change)
        new.append(one)
    return tuple(new)


# ----------------------------------------------------------------------------------------------------
# Checks of what is written out.


def kind_of(expr: Expr, kinds: dict[str, str], port: Callable[[Ref], str]) -> str:
    """Real, Boolean, String, or empty where nothing says it."""
    match expr:
        case Literal(value=bool()):
            return "Boolean"
        case Literal(value=float()):
            return "Real"
        case Literal(value=str()):
            return "String"
        case Ref(owner="") if expr.name in kinds:
            found = kinds[expr.name]
            return "Real" if found == "Integer" else found
        case Ref(owner="", name="t" | "H" | "h" | "dt"):
            return "Real"
        case Ref():
            return port(expr)
        case Unary(op=op):
            return "Boolean" if op == "not" else "Real"
        case Binary(op=op):
            return "Real" if op in "+-*/" else "Boolean"
        case Call(name="is_close" | "is_set"):
            return "Boolean"
        case Call():
            return "Real"
    return ""


@dataclass
class _Check:
    it: Adapted
    of: _Reduction
    origin: dict[str, Ref]
    """Which port a stored variable is for: messages name what the user wrote."""

    def said(self, expr: Expr) -> str:
        return shown(mapped(expr, lambda e: self.origin.get(e.name, e) if isinstance(e, Ref) else e))

    def all(self) -> None:
        it = self.it
        assigned: set[str] = set()
        for block, first, second in ((it.in_rules, "In", "MapIn"), (it.out_rules, "MapOut", "Out")):
            for rule in block.rules if block else ():
                assert isinstance(rule, Rule)
                self.condition(rule.condition)
                for part, where in ((rule.first, first), (rule.second, second)):
                    self.block(part, 1, loop=None, where=where)
                    assigned |= {
                        one.target.name
                        for one in statements(part)
                        if isinstance(one, Assign) and one.target.owner == it.name
                    }
        if it.control is not None:
            self.block(it.control, 1, loop=False, where="Ctrl")
            if not self.of.problems:
                for at, what, hint in Progress(it).wrong:
                    self.of.bad(at, what, hint)
        for one in it.params:
            if one.value is not None and constant(one.value, it) is None:
                names = {e.name for e in expressions(one.value) if isinstance(e, Ref)}
                what = f"the value of the parameter '{one.name}' is not known: '{shown(one.value)}'"
                if one.name in _needed(it, names):
                    what = f"the parameter '{one.name}' is given by itself: '{shown(one.value)}'"
                self.of.bad(one.at, what, "Write a number, or an expression of parameters before it.")
        for one in (*it.params, *it.in_vars, *it.out_vars, *it.control_vars):
            if one.value is not None:
                self.numbers(one.value)
                self.fits(one.name, one.type, one.value, one.at)
        for port in it.outputs or ():
            if port.name not in assigned:
                origin = self.of.outputs[port.name]
                near = [f"{u.name}.{p.name}" for u in it.inner for p in u.outputs]
                self.of.bad(
                    origin.at,
                    f"nothing gives the output '{port.name}' a value",
                    f"Write {port.name} <- {(near or ['unit.port'])[0]}, or assign it in the out rules.",
                )

    def block(self, found: tuple[Statement, ...], rounds: int, *, loop: bool | None, where: str) -> None:
        for one in found:
            match one:
                case Var(declared=declared):
                    for item in declared:
                        if item.value is not None:
                            self.numbers(item.value)
                            self.fits(item.name, item.type, item.value, item.at)
                case Assign(target=target, value=value):
                    self.numbers(value)
                    self.fits(target.text, self.of.kind_of(target), value, one.at)
                    self.measures(target, value, one.at)
                case If(condition=condition, then=then, otherwise=otherwise):
                    self.condition(condition)
                    self.block(then, rounds, loop=loop, where=where)
                    self.block(otherwise, rounds, loop=loop, where=where)
                case For(body=body):
                    most = MAX_ROUNDS if loop is not None else MAX_WRITTEN
                    first, last = self.bounds(one)
                    count = rounds * max(last - first, 1)
                    if count > most:
                        here = "" if loop is not None else " in a rule"
                        self.of.bad(
                            one.at, f"these are {count:,} rounds, and at most {most:,} are allowed{here}"
                        )
                        continue
                    for inside in statements(body):
                        if isinstance(inside, Assign) and inside.target == Ref(one.variable):
                            self.of.bad(
                                inside.at, f"'{one.variable}' counts the rounds, and cannot be assigned"
                            )
                    self.block(body, count, loop=None if loop is None else True, where=where)
                case Return(value=value):
                    if loop is None:
                        self.of.bad(one.at, "'return' stands in control rules only")
                    self.numbers(value)
                    self.fits("the size of the step", "Real", value, one.at)
                case Break():
                    if loop is None:
                        self.of.bad(one.at, "'break' stands in control rules only", "Write if (…) { … }.")
                    elif not loop:
                        self.of.bad(one.at, "there is no loop around this 'break'")
                case Do(call=call):
                    if call.name not in _STEPPING:
                        self.of.bad(
                            one.at, f"the value of '{call.name}' is lost here", "Assign it to a variable."
                        )
                    self.numbers(call)

    def bounds(self, one: For) -> tuple[int, int]:
        found = []
        for end in (one.first, one.last):
            value = constant(end, self.it)
            if value is None:
                self.of.bad(
                    end.at,
                    f"the number of rounds must be fixed, and '{self.said(end)}' is not",
                    "Use a number or a parameter: every adaptation has to come to an end.",
                )
                value = 1.0
            elif not abs(value) <= 1e9 or value != int(value):
                self.of.bad(
                    end.at,
                    f"a loop goes from one whole number to another, and '{self.said(end)}' is {value:g}",
                )
                value = 1.0
            found.append(int(value))
        if found[1] <= found[0] and not self.of.problems:
            self.of.bad(one.at, f"this loop from {found[0]} to below {found[1]} has no rounds")
        return found[0], found[1]

    def kind(self, expr: Expr) -> str:
        return self.of.kind_of(expr)

    def condition(self, expr: Expr) -> None:
        self.numbers(expr)
        if self.kind(expr) in ("Real", "String"):
            self.of.bad(
                expr.at,
                f"'{self.said(expr)}' is {self.kind(expr)} where a condition is expected",
                f"Write {self.said(expr)} != 0.",
            )

    def numbers(self, expr: Expr) -> None:
        """Operands: truths in logic, numbers in arithmetic, no texts."""
        for one in expressions(expr):
            match one:
                case Binary(op="and" | "or", left=left, right=right):
                    for side in (left, right):
                        if self.kind(side) == "Real":
                            self.of.bad(
                                side.at,
                                f"'{self.said(side)}' is a number, and '{one.op}' joins conditions",
                                f"Write {self.said(side)} != 0.",
                            )
                case Unary(op="not", arg=arg) if self.kind(arg) == "Real":
                    self.of.bad(
                        arg.at,
                        f"'{self.said(arg)}' is a number, and 'not' turns a condition round",
                        f"Write {self.said(arg)} == 0.",
                    )
                case Binary(op="==" | "!=", left=left, right=right):
                    two = {self.kind(left), self.kind(right)}
                    if two == {"Real", "Boolean"} and not ({_truth(left), _truth(right)} & {True}):
                        self.of.bad(one.at, f"'{self.said(one)}' compares a number with a condition")
                case Binary(left=left, right=right):
                    plain = not any(isinstance(e, Ref) for e in expressions(right))
                    if one.op == "/" and plain and constant(right, self.it) == 0.0:
                        self.of.bad(right.at, f"'{self.said(one)}' is a division by 0")
                    for side in (left, right):
                        if self.kind(side) == "Boolean":
                            self.of.bad(
                                side.at,
                                f"'{self.said(side)}' is true or false, and '{one.op}' is for numbers",
                                "Use an 'if'.",
                            )
                case Unary(op="-", arg=arg) if self.kind(arg) == "Boolean":
                    self.of.bad(
                        arg.at, f"'{self.said(arg)}' is true or false, and '-' is for numbers", "Write 'not'."
                    )
                case Literal(value=str() | None):
                    self.of.bad(
                        one.at,
                        f"{self.said(one)} is no number and no condition, and nothing else is computed with",
                    )

    def fits(self, name: str, kind: str, value: Expr, at: Place) -> None:
        other = self.kind(value)
        if (
            kind
            and other
            and kind != other
            and not (kind == "Boolean" and _truth(value))
            and not (kind == "Integer" and other == "Real")
        ):
            hint = (
                "Write a comparison." if kind == "Boolean" else "Use an 'if': 1.0 where it holds, else 0.0."
            )
            self.of.bad(at, f"'{name}' is {kind}, and '{self.said(value)}' is {other}", hint)

    def measures(self, target: Ref, value: Expr, at: Place) -> None:
        """What is assigned as it is has the unit of where it goes."""
        to, source = self.unit(target), value
        negative = isinstance(source, Unary) and source.op == "-"
        if isinstance(source, Unary) and source.op == "-":
            source = source.arg
        if not to or not isinstance(source, Ref):
            return
        unit = self.unit(source)
        if not unit or unit == to:
            return
        try:
            how = conversion(unit_text(unit), unit_text(to))
        except MeasureError as error:
            self.of.bad(
                at,
                f"'{target.text}' is in {to}, and '{self.said(source)}' in {unit}: {error}",
                "Correct the unit, or compute the value.",
            )
            return
        if how:
            meant = _scaled(Unary("-", source) if negative else source, how)
            self.of.bad(
                at,
                f"'{target.text}' is in {to}, and '{self.said(source)}' in {unit}",
                f"Write {self.said(target)} := {self.said(meant)};",
            )

    def unit(self, ref: Ref) -> str:
        """Of a port; storage that the conventions add has that of its port."""
        if ref.owner == self.it.name:
            port = self.of.inputs.get(ref.name) or self.of.outputs.get(ref.name)
            return port.unit if port else ""
        if ref.owner:
            port = port_of(self.it, ref)
            return port.unit if port else ""
        for unit in self.it.inner:
            for one in unit.outputs:
                if variable("stored", unit.name, one.name) == ref.name:
                    return one.unit
        for one in self.of.inputs.values():
            if variable("stored", self.it.name, one.name) == ref.name:
                return one.unit
        return ""


def _truth(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value in (0.0, 1.0)


def constant(expr: Expr, it: Adapted, depth: int = 0) -> float | None:
    """The value of an expression of numbers and parameters; None if it depends on anything else."""
    if depth > 50:
        return None
    match expr:
        case Literal(value=bool() as truth):
            return float(truth)
        case Literal(value=float() as value):
            return value
        case Ref(owner=""):
            found = next((one for one in it.params if one.name == expr.name), None)
            return constant(found.value, it, depth + 1) if found and found.value is not None else None
        case Unary(op="-", arg=arg):
            inner = constant(arg, it, depth)
            return None if inner is None else -inner
        case Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right):
            a, b = constant(left, it, depth), constant(right, it, depth)
            if a is None or b is None or (op == "/" and b == 0.0):
                return None
            return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[op]
        case Call(name="floor" | "ceil" | "round" as name, args=(arg,)):
            inner = constant(arg, it, depth)
            if inner is None or not abs(inner) <= 1e15:
                return None
            rounded = math.floor(inner) if name == "floor" else math.ceil(inner)
            return float(round(inner) if name == "round" else rounded)
        case Call(name="min" | "max" as name, args=args):
            values = [constant(arg, it, depth) for arg in args]
            known = [value for value in values if value is not None]
            return (min(known) if name == "min" else max(known)) if len(known) == len(values) else None
    return None


def _needed(it: Adapted, names: Iterable[str]) -> set[str]:
    """The parameters that these are made of, themselves included."""
    values = {one.name: one.value for one in it.params}
    waiting, found = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in values and name not in found:
            found.add(name)
            value = values[name]
            waiting += [e.name for e in expressions(value) if isinstance(e, Ref)] if value is not None else []
    return found


def fixed_parameters(it: Adapted) -> set[str]:
    """Parameters in bounds of loops, and all that these are made of: constants once the text is read."""
    loops = [one for one in statements(it.control or ()) if isinstance(one, For)]
    ends = tuple(end for one in loops for end in (one.first, one.last))
    return _needed(it, (e.name for e in expressions(ends) if isinstance(e, Ref)))


# ----------------------------------------------------------------------------------------------------
# How far the control brings its units.

Range = tuple[float, float]
"""Minimum and maximum, as shares of H."""
_ANY: Range = (-math.inf, math.inf)
_NONE: Range = (0.0, 0.0)
_NEAR = 1e-9


@dataclass
class _Known:
    """At one place of the control: how far units have come in this step, and what is in variables."""

    gone: dict[str, Range]
    saved: dict[str, Range] = field(default_factory=dict)
    variables: dict[str, Range] = field(default_factory=dict)

    def copy(self) -> _Known:
        return _Known({**self.gone}, {**self.saved}, {**self.variables})

    def joined(self, other: _Known | None) -> _Known:
        if other is None:
            return self
        parts = []
        for one, two in zip(self.parts(), other.parts(), strict=True):
            parts.append({n: (min(one[n][0], two[n][0]), max(one[n][1], two[n][1])) for n in one if n in two})
        return _Known(*parts)

    def parts(self) -> tuple[dict[str, Range], ...]:
        return self.gone, self.saved, self.variables


def not_saved(unit: str) -> tuple[str, str]:
    """What is wrong with a rollback to nothing, and what to do."""
    return (
        f"no save_state({unit}) is certainly before this rollback({unit}) in the same step",
        "What is saved is forgotten at the end of a step: "
        f"write save_state({unit}); at the start of the control rules, outside of 'if' and 'for'.",
    )


class Progress:
    """Follows the control of an adaptation, with what is certain of sizes of steps.

    `wrong` is what cannot be right however it runs. `open` are the returns of the text of which only a run
    can tell whether their size is one, and `beyond` the units that might have been brought beyond H there.
    """

    def __init__(self, it: Adapted) -> None:
        self.it = it
        self.fixed = fixed_parameters(it)
        self.wrong: list[tuple[Place, str, str]] = []
        self.open: set[Place] = set()
        self.beyond: dict[Place, set[str]] = {}
        self._left: list[list[_Known]] = []
        saved: set[str] = set()
        for one in statements(it.control or ()):
            match one:
                case Do(call=Call(name="save_state", args=(Ref(name=unit), *_))):
                    saved.add(unit)
                case Do(call=Call(name="rollback", args=(Ref(name=unit), *_))) if unit not in saved:
                    self.wrong.append((one.call.at, *not_saved(unit)))
        calls = [one for one in expressions(tuple(statements(it.control or ()))) if isinstance(one, Call)]
        stepped = {
            one.args[0].name for one in calls if one.name == "do_step" and isinstance(one.args[0], Ref)
        }
        for inner in it.inner if it.control is not None else ():
            if inner.name not in stepped:
                what = f"nothing steps '{inner.name}', which stays at the start"
                self.wrong.append(
                    (inner.at, what, f"Write do_step({inner.name}, t, H); in the control rules.")
                )
        end = self._block(it.control or (), _Known({unit.name: _NONE for unit in it.inner}))
        if end is not None and it.control:
            self._ends((1.0, 1.0), it.control[-1].at, end, "at the end of the control rules")

    def _block(self, found: Iterable[Statement], known: _Known) -> _Known | None:
        """What is known behind it; None if nothing gets there."""
        now: _Known | None = known
        for one in found:
            if now is None:
                return None
            now = self._statement(one, now)
        return now

    def _statement(self, one: Statement, known: _Known) -> _Known | None:
        match one:
            case Var(declared=declared):
                for item in declared:
                    known.variables[item.name] = self._value(item.value, known) if item.value else _ANY
            case Assign(target=target, value=value):
                size = self._value(value, known)
                if not target.owner:
                    known.variables[target.name] = size
            case If(condition=condition, then=then, otherwise=otherwise):
                self._value(condition, known)
                ends = [self._block(part, known.copy()) for part in (then, otherwise)]
                return ends[0].joined(ends[1]) if ends[0] is not None else ends[1]
            case For():
                return self._loop(one, known)
            case Break():
                self._left[-1].append(known)
                return None
            case Return(value=value):
                size = self._value(value, known)
                if self._size(value, size, one.at):
                    self._ends(size, one.at, known, "here")
                return None
            case Do(call=Call(name="save_state" | "rollback" as name, args=(Ref(name=unit), *_))):
                if name == "save_state":
                    known.saved[unit] = known.gone[unit]
                else:
                    known.gone[unit] = known.saved.get(unit, _ANY)
            case Do(call=Call(name="discard", args=(value,))):
                self._size(value, self._value(value, known), one.at)
                return None
            case Do(call=call):
                self._value(call, known, whole=True)
        return known

    def _loop(self, one: For, known: _Known) -> _Known | None:
        first, last = constant(one.first, self.it), constant(one.last, self.it)
        inside = tuple(statements(one.body))
        changed = {i.target.name for i in inside if isinstance(i, Assign)}
        changed |= {item.name for i in inside if isinstance(i, Var) for item in i.declared} | {one.variable}
        back = any(isinstance(i, Do) and i.call.name == "rollback" for i in inside)
        leaves = any(isinstance(i, Break | Return) for i in inside)
        jumps = leaves or any(isinstance(i, Do) and i.call.name != "do_step" for i in inside)
        known.variables = {n: size for n, size in known.variables.items() if n not in changed}
        if not jumps and first is not None and last is not None:
            before = {**known.gone}
            known.gone = dict.fromkeys(before, _NONE)
            after = self._block(one.body, known)
            assert after is not None
            for unit, (low, high) in before.items():
                more, most = after.gone[unit]
                rounds = last - first
                after.gone[unit] = (low + rounds * more, high + rounds * most)
            after.variables = {n: size for n, size in after.variables.items() if n not in changed}
            return after
        start = known
        for turn in range(3):
            # Only what is found with the last, widest state counts.
            kept = list(self.wrong), set(self.open), dict(self.beyond)
            self._left.append([])
            end = self._block(one.body, start.copy())
            left = self._left.pop()
            wider = start.joined(end)
            if wider.parts() == start.parts():
                break
            self.wrong, self.open, self.beyond = kept
            start = wider
            if turn == 1:
                same = {n: size if size == known.gone[n] else _ANY for n, size in wider.gone.items()}
                start = _Known(same, dict.fromkeys(wider.saved, _ANY), {})
        solves = leaves and back  # such a loop fails if it is not left
        found = None if solves else start.joined(end)
        for other in left:
            found = other if found is None else found.joined(other)
        if found is not None:
            found.variables = {n: size for n, size in found.variables.items() if n not in changed}
        return found

    def _size(self, value: Expr, size: Range, at: Place) -> bool:
        """Whether it may be a size."""
        low, high = size
        if not at.line:
            return True  # the conventions return what is right
        if high <= 0.0 or low > 1.0 + _NEAR:
            what = "0 or less" if high <= 0.0 else "more than H"
            hint = "Return more than 0 and at most H: return H;"
            self.wrong.append(
                (value.at, f"a step ends after a part of H, and '{shown(value)}' is {what}", hint)
            )
            return False
        if low < 0.0 or high > 1.0 + _NEAR:
            self.open.add(at)
        return True

    def _ends(self, size: Range, at: Place, known: _Known, where: str) -> None:
        if not at.line:
            return
        for unit, (low, high) in known.gone.items():
            hint = f"Write do_step({unit}, t, H); once, or parts that make up the step."
            if low > 1.0 + _NEAR:  # less than H may be returned: then the step is made again
                what = f"'{unit}' has been brought beyond the end of the step {where}"
                self.wrong.append((at, f"{what}: by {low:g}*H", hint))
            elif low > 0.0 and high < size[0] - _NEAR:
                what = f"'{unit}' has not been brought to the end of the step {where}"
                self.wrong.append((at, f"{what}: by {high:g}*H of {size[0]:g}*H", hint))
            elif high > 1.0 + _NEAR:
                self.beyond.setdefault(at, set()).add(unit)

    def _value(self, expr: Expr, known: _Known, whole: bool = False) -> Range:
        match expr:
            case Literal(value=float() as number):
                return _NONE if number == 0.0 else (0.0, math.inf) if number > 0.0 else (-math.inf, 0.0)
            case Ref(owner="", name="H"):
                return 1.0, 1.0
            case Ref(owner=""):
                return known.variables.get(expr.name, _ANY)
            case Unary(op="-", arg=arg):
                low, high = self._value(arg, known)
                return -high, -low
            case Binary(op="*" | "/" as op, left=left, right=right):
                one, two = self._value(left, known), self._value(right, known)
                factor = self._constant(right)
                if factor is None and op == "*":
                    factor, one = self._constant(left), two
                if not factor or not math.isfinite(factor):
                    return _ANY
                ends = [end * factor if op == "*" else end / factor for end in one]
                return min(ends), max(ends)
            case Binary(op="+" | "-" as op, left=left, right=right):
                one, two = self._value(left, known), self._value(right, known)
                if op == "-":
                    two = -two[1], -two[0]
                return one[0] + two[0], one[1] + two[1]
            case Call(name="min" | "max" as name, args=(left, right)):
                one, two = self._value(left, known), self._value(right, known)
                pick = min if name == "min" else max
                return pick(one[0], two[0]), pick(one[1], two[1])
            case Call(name="do_step", args=(Ref(name=unit), start, by)):
                self._value(start, known)
                low, high = self._value(by, known)
                if high <= 0.0 and low < 0.0:
                    hint = f"Write do_step({unit}, t, H);"
                    self.wrong.append(
                        (expr.at, f"'{unit}' cannot be stepped by '{shown(by)}', less than 0", hint)
                    )
                made = (low, high) if whole else (0.0, max(high, 0.0))  # it may stop early
                gone = known.gone[unit]
                known.gone[unit] = gone[0] + made[0], gone[1] + made[1]
                return made
            case Call(name="get_next_time_step"):
                return _ANY
        for part in expr.args if isinstance(expr, Call) else ():
            self._value(part, known)
        if isinstance(expr, Binary):
            self._value(expr.left, known)
            self._value(expr.right, known)
        elif isinstance(expr, Unary):
            self._value(expr.arg, known)
        return _ANY

    def _constant(self, expr: Expr) -> float | None:
        """Of numbers, and of parameters that cannot be changed later."""
        if any(isinstance(e, Ref) and e.name not in self.fixed for e in expressions(expr)):
            return None
        return constant(expr, self.it)
