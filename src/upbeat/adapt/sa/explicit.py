"""Reduction to explicit form: what a description leaves out is added by the conventions of the language.

What is declarative is written out before (`declarative`). Then the thirteen rules are applied in their order
(`explicit`). On the way every name is looked up; what comes out is checked (`checking`, `progress`), and
problems are told together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any

from upbeat.adapt.sa.checking import Check
from upbeat.adapt.sa.declarative import tolerances
from upbeat.adapt.sa.language import (
    BUILT_IN,
    MOMENTS,
    OF_UNITS,
    PLACES,
    SIZE,
    STEPPING,
    TIME,
    TIMES,
    TRUE,
    variable,
)
from upbeat.adapt.sa.parsing import bad
from upbeat.adapt.sa.ports import (
    convert,
    default_of,
    like_bound,
    order_of,
    port_of,
    statements_of,
    unit_text,
    with_ports,
)
from upbeat.adapt.sa.showing import shown
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Call,
    Crossing,
    Declared,
    Delay,
    Do,
    Expr,
    For,
    Hold,
    If,
    Literal,
    Otherwise,
    Place,
    Port,
    Quantize,
    Ref,
    Return,
    Rule,
    Rules,
    Statement,
    Substitution,
    Unary,
    Var,
    Wire,
    expressions,
    mapped,
    statements,
)
from upbeat.adapt.sa.values import constant, flagged, joined, kind_of, naming
from upbeat.core.errors import Problem, ScenarioError, suggest
from upbeat.core.measure import MeasureError
from upbeat.core.measure import check as check_measure


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
            in_rules = [Rule(TRUE, tuple(added_in), tuple(added_map)), *in_rules]
        if added_stored or added_out:
            out_rules = [Rule(TRUE, tuple(added_stored), tuple(added_out)), *out_rules]
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
        Check(made, self, {ref.name: Ref(name, owner) for (owner, name), ref in store.items()}).all()
        self.stop()
        return Explicit(made, it.inputs, it.outputs, self.kinds, frozenset(self.located))

    def with_units(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """A port that says nothing of its unit and type has those of what it is bound to."""
        found = []
        for port in ports:
            found.append(replace(port, **like_bound(self.it, port)))  # type: ignore[arg-type]
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
                self.converted(SIZE, ends[0], ends[1], wire.at)
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
            for call in expressions((*statements_of(it), *self._conditions()))
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
        order = order_of(self.it, frozenset())
        steps = [Var((Declared(f"H_{unit}", Call("do_step", (Ref(unit), TIME, SIZE))),)) for unit in order]
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
            rule, condition=Unary("not", joined("or", self.conditions)) if self.conditions else TRUE
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
            return [Rule(TRUE, (), (If(rule.condition, rule.second, at=rule.at),), at=rule.at)]
        if seen or (past and into):  # and not when inputs are taken
            second = (If(rule.condition, (*rule.first, *rule.second), at=rule.at),)
            return [Rule(TRUE, (), second, at=rule.at)]
        return [rule]

    def crossing(self, one: Binary, near: Crossing) -> Expr:
        """Listing 7.6: the step is made again so that it ends where the level is met."""
        number = 1 + sum(name.startswith("crossed_") for name in self.kinds)
        crossed, was = Ref(f"crossed_{number}"), Ref(f"before_{number}")
        level, value = one.right, one.left
        seen = (ref for ref in expressions((value, level)) if isinstance(ref, Ref))
        self.located |= {ref.name for ref in seen if ref.owner in ("", self.it.name)} & self.inputs.keys()
        relative, absolute = tolerances(near.tolerances)
        up, down = ("<", ">") if one.op == ">!" else (">", "<")

        def close(at: Expr) -> Expr:
            return Call("is_close", (at, level, relative, absolute))

        part = Binary("/", Binary("-", level, was), Binary("-", value, was))
        far = Binary("and", Binary(down, value, level), Unary("not", close(value)))
        far = Binary("and", far, Binary(">", SIZE, Literal(1e-9)))
        self.before += [
            Assign(crossed, Literal(False)),
            If(
                Binary("and", Binary(up, was, level), Unary("not", close(was))),
                (
                    If(far, (Do(Call("discard", (Binary("*", SIZE, part),), at=one.at), at=one.at),)),
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
            value = mapped(rule.formula, naming("signal", raw))
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
            return [Rule(TRUE, (), tuple(found), at=rule.at)]
        target = Ref(port.name, it.name) if out else port.bound
        inner = port_of(it, port.bound)
        value = self.converted(value, inner if out else port, port if out else inner, rule.at)
        return [Rule(TRUE, (), (Assign(target, value, at=rule.at),), at=rule.at)]

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
                    Assign(Ref(since), Binary("+", TIME, Binary("+", Ref("dt"), Ref("h")))),
                ),
            )
            late = Binary("-", TIME, Ref(since))
            value = Binary("+", port.bound, Binary("*", Ref(slope), late))
            if parabola:
                curve = Binary("*", Binary("*", Ref(bend), late), Binary("+", late, Ref(width)))
                value = Binary("+", value, curve)
            inner = port_of(self.it, port.bound)
            value_out = self.converted(value, inner, port, hold.at)
            self.early.append(self.resolved(Rule(TRUE, (first,), (), at=rule.at), "MapOut", "Out"))
            found.append(Rule(TRUE, (), (Assign(Ref(port.name, self.it.name), value_out),), at=rule.at))
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
                rules.insert(0, Rule(TRUE, (Assign(fresh, value),), (), at=port.at))
            found.append(Rule(TRUE, (), (Assign(Ref(name, owner), late),), at=port.at))
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
            if isinstance(one, Call) and one.name in OF_UNITS and one.args
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
        return Binary("-", TIME, last, at=at)

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
        if one.name in STEPPING and where != "Ctrl":
            self.bad(one.at, f"'{one.name}' belongs into the control rules", "Write it there.")
        if one.name in OF_UNITS:
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
            return Binary("-", TIME, replace(one, name="last_execution_time"), at=one.at)
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
        times = TIMES.get(where, ("t", "H"))
        if one.name in MOMENTS:
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
            hint, why = "", f"in {PLACES[where]}"
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
                f"Read {ref.name}[prev] in {PLACES['MapIn']} of a reactive one, or in control rules; "
                "or make the adaptation a moore one.",
            )
            return ref
        late = where == "In" if outside else bool(ref.owner) and where in ("MapOut", "Out")
        base = variable("past", ref.owner, ref.name) if ref.owner else variable("past", ref.name)
        depth = steps - late
        _, held = self.back.get(base, (ref, -1))
        start = Literal(0.0) if ref.name in MOMENTS and not ref.owner else replace(ref, index=0)
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


_HOLDS = ("outputs are held by order 0, 1 or 2", "Write 'zero', 'first' or 'second order hold'.")
_ALIKE = str.maketrans("1I0", "llO")


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
