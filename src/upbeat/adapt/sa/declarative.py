"""Declarative rules, such as ``multiply rate 10 times``, as statements.

If there are several, each is a layer around the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from upbeat.adapt.sa.language import MAX_ROUNDS, SIZE, TIME, TRUE, refused
from upbeat.adapt.sa.parsing import bad
from upbeat.adapt.sa.ports import convert, converted, default_of, like_bound, order_of, port_of, with_ports
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Call,
    Declared,
    Delay,
    Do,
    Expr,
    For,
    If,
    Inner,
    Literal,
    MultiRate,
    Periodic,
    Port,
    Ref,
    Return,
    Rule,
    Rules,
    Statement,
    Substitution,
    Tolerance,
    Triggered,
    Var,
    expressions,
    mapped,
)
from upbeat.adapt.sa.values import joined, naming
from upbeat.core.errors import Problem, ScenarioError, suggest

ROUNDS = 100
"""The most rounds of a successive substitution."""


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


def tolerances(given: Iterable[Tolerance]) -> tuple[Expr, Expr]:
    """Relative and absolute."""
    given = tuple(given)
    for one in given:
        if isinstance(one.value, Literal) and isinstance(one.value.value, float) and one.value.value < 0.0:
            raise refused(one.value.at, f"a tolerance is 0 or more, not {one.value.value:g}", "Write 1e-8.")
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
        raise refused(
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
                raise refused(
                    ref.at,
                    f"no inner unit reads '{ref.text}', so that a delay there would change nothing",
                    f"To show an output one step later, write: out rules {{ delay at {shown_as}; }}",
                )
    for rule in group:
        for ref in rule.signals if isinstance(rule, Substitution) else ():
            if _signal(it, ref) not in _looped(it):
                raise refused(
                    ref.at,
                    f"'{ref.text}' is in no loop of the inner units, so that there is nothing to solve",
                    "Leave out this line, or connect them to a loop: with unit.port -> unit.port.",
                )
    iterated = [ref for ref, rule in cut.items() if isinstance(rule, Substitution)]
    delayed = [ref for ref, rule in cut.items() if isinstance(rule, Delay)]
    order = order_of(it, frozenset(cut))
    names = {ref: f"previous_{ref.owner}_{ref.name}" for ref in cut}
    kept = tuple(Declared(name, _initial(it, ref)) for ref, name in names.items())
    steps: list[Statement] = []
    for unit in order:
        steps += [
            Assign(wire.target, converted(it, wire, Ref(names[wire.source])))
            for wire in it.wires
            if wire.target.owner == unit and wire.source in cut
        ]
        steps.append(Do(Call("do_step", (Ref(unit), TIME, SIZE))))
    body: list[Statement] = []
    if iterated:
        rule = next(rule for rule in group if isinstance(rule, Substitution))
        relative, absolute = tolerances(rule.tolerances)
        near = [Call("is_close", (Ref(names[ref]), ref, relative, absolute)) for ref in iterated]
        back = tuple(Do(Call("rollback", (Ref(unit),))) for unit in order)
        body += [Do(Call("save_state", (Ref(unit),))) for unit in order]
        rounds: list[Statement] = [If(Binary(">", Ref("round_number"), Literal(0.0)), back), *steps]
        rounds.append(Var((Declared("close_enough", joined("and", near)),)))
        rounds += [Assign(Ref(names[ref]), ref) for ref in iterated]
        rounds.append(If(Ref("close_enough"), (Break(),)))
        body.append(For("round_number", Literal(0.0), Literal(float(ROUNDS)), tuple(rounds)))
    else:
        body += steps
    body += [Assign(Ref(names[ref]), ref) for ref in delayed]
    body.append(Return(SIZE))
    return replace(it, control_vars=(*it.control_vars, *kept), control=tuple(body))


def _looped(it: Adapted) -> set[Ref]:
    """The signals of connections that are part of a loop between the inner units."""
    reached: dict[str, set[str]] = {unit.name: {unit.name} for unit in it.inner}
    for _ in it.inner:
        for wire in it.wires:
            if {wire.source.owner, wire.target.owner} <= reached.keys():
                reached[wire.source.owner] |= reached[wire.target.owner]
    return {wire.source for wire in it.wires if wire.source.owner in reached.get(wire.target.owner, set())}


def _initial(it: Adapted, ref: Ref) -> Expr:
    unit = it.unit(ref.owner)
    port = unit and unit.port(ref.name)
    return default_of(port) if port else Literal(0.0)


def _multirate(it: Adapted, rule: MultiRate) -> Adapted:
    if not 1 <= rule.times <= MAX_ROUNDS:
        raise refused(rule.at, f"the rate can be multiplied by 1 to {MAX_ROUNDS:,}, not by {rule.times:,}")
    if rule.order > 2:
        raise refused(
            rule.at,
            f"inputs are interpolated by order 0, 1 or 2, not {rule.order}",
            "Write 'with second order interpolation'.",
        )
    order = order_of(it, frozenset())
    micro, start = Ref("micro_step"), Binary("+", TIME, Binary("*", Ref("part_number"), Ref("micro_step")))
    steps = tuple(Do(Call("do_step", (Ref(unit), start, micro))) for unit in order)
    body: list[Statement] = [
        Var((Declared("micro_step", Binary("/", SIZE, Literal(float(rule.times)))),)),
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
        slope = Binary("/", Binary("-", now, was), SIZE)
        value: Expr = Binary("+", was, Binary("*", slope, tau))
        if rule.order == 2:
            bend = Ref(f"bend_{port.name}")
            control_vars.append(Declared(bend.name, Literal(0.0)))
            control_vars.append(Declared(f"slope_{port.name}", Literal(0.0)))
            before = Ref(f"slope_{port.name}")
            late = Binary("+", SIZE, Ref("last_step"))
            body.insert(
                1,
                If(
                    Binary(">", Ref("last_step"), Literal(0.0)),
                    (Assign(bend, Binary("/", Binary("-", slope, before), late)),),
                ),
            )
            value = Binary("+", value, Binary("*", Binary("*", bend, tau), Binary("-", tau, SIZE)))
            ends.append(Assign(before, slope))
        ends.append(Assign(was, now))
        outs.append(Assign(port.bound, convert(value, port, port_of(it, port.bound), port.at)))
    if rule.order == 2 and followed:
        control_vars.append(Declared("last_step", Literal(0.0)))
        ends.append(Assign(Ref("last_step"), SIZE))
    body += [*ends, Return(SIZE)]
    old = it.in_rules or Rules()
    rules = (Rule(TRUE, tuple(ins), tuple(outs)),) if followed else ()
    return replace(
        it,
        control_vars=(*it.control_vars, *control_vars),
        control=tuple(body),
        in_vars=(*it.in_vars, *in_vars),
        in_rules=replace(old, rules=(*rules, *old.rules)) if rules or it.in_rules else None,
        inputs=tuple(
            replace(port, bound=None, **like_bound(it, port)) if port in followed else port  # type: ignore[arg-type]
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
            raise refused(rule.at, "'signal' stands for any input, and there are none")
        condition = joined("or", [mapped(condition, naming("signal", port)) for port in ports])
    it, taken = _sampled(it)
    body = (If(condition, (*taken, *_caught_up(it, Binary("+", TIME, SIZE)))), Return(SIZE))
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
    rules = (Rule(TRUE, (), tuple(mapped_in)),) if bound else ()
    free = tuple(replace(port, **like_bound(it, port)) for port in it.inputs)  # type: ignore[arg-type]
    it = replace(
        it,
        inputs=tuple(replace(port, bound=None) for port in free),
        control_vars=(*it.control_vars, *kept),
        in_rules=replace(old, rules=(*rules, *old.rules)) if rules or it.in_rules else None,
    )
    return it, taken


def _caught_up(it: Adapted, until: Expr) -> Iterator[Statement]:
    for unit in order_of(it, frozenset()):
        since = Call("last_execution_time", (Ref(unit),))
        yield Do(Call("do_step", (Ref(unit), since, Binary("-", until, since))))


def _periodic(it: Adapted, rule: Periodic) -> Adapted:
    every, first = rule.every, rule.first or Literal(0.0)
    if not isinstance(every, Literal) or not isinstance(every.value, float) or every.value <= 0.0:
        raise refused(rule.at, "a period is a positive number", "Write 'periodic every 0.1'.")
    if not isinstance(first, Literal) or not isinstance(first.value, float) or first.value < 0.0:
        raise refused(rule.at, "the first time is 0 or more", f"Write 'periodic at 0 every {every.value:g}'.")
    due = Binary("+", first, Binary("*", Ref("ticks"), every))
    kept = Declared("ticks", Literal(0.0))
    late = Binary("*", every, Literal(1e-9))
    past = Call("floor", (Binary("+", Binary("/", Binary("-", TIME, first), every), Literal(1e-9)),))
    it, taken = _sampled(it)
    run = (
        *taken,
        *_caught_up(it, Ref("due")),
        Assign(Ref("ticks"), Binary("+", Ref("ticks"), Literal(1.0))),
        Return(Binary("-", Ref("due"), TIME)),
    )
    ahead = Assign(Ref("ticks"), Binary("+", past, Literal(1.0)))
    body = (
        If(Binary("<=", due, Binary("+", TIME, late)), (ahead,)),
        Var((Declared("due", due),)),
        If(Binary(">=", Binary("+", Binary("+", TIME, SIZE), late), Ref("due")), run),
        Return(SIZE),
    )
    return replace(it, control_vars=(*it.control_vars, kept), control=body)
