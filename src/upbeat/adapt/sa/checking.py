"""Checks of what is written out: loops, types, units of measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from upbeat.adapt.sa.language import MAX_ROUNDS, MAX_WRITTEN, STEPPING, variable
from upbeat.adapt.sa.ports import port_of, scaled, unit_text
from upbeat.adapt.sa.progress import Progress
from upbeat.adapt.sa.showing import shown
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Do,
    Expr,
    For,
    If,
    Literal,
    Place,
    Port,
    Ref,
    Return,
    Rule,
    Statement,
    Unary,
    Var,
    expressions,
    mapped,
    statements,
)
from upbeat.adapt.sa.values import constant, is_truth, needed
from upbeat.core.errors import Problem
from upbeat.core.measure import MeasureError, conversion


class Reduced(Protocol):
    """What the reduction to explicit form knows of ports and kinds, and who is told what is wrong."""

    problems: list[Problem]
    inputs: dict[str, Port]
    outputs: dict[str, Port]

    def bad(self, at: Place, what: str, hint: str = "") -> None:
        """Tell a problem."""

    def kind_of(self, expr: Expr) -> str:
        """Real, Boolean, String, or empty."""
        ...


@dataclass
class Check:
    """All checks of an adaptation in explicit form."""

    it: Adapted
    of: Reduced
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
                if one.name in needed(it, names):
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
                    if call.name not in STEPPING:
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
                    if two == {"Real", "Boolean"} and not ({is_truth(left), is_truth(right)} & {True}):
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
            and not (kind == "Boolean" and is_truth(value))
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
            meant = scaled(Unary("-", source) if negative else source, how)
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
