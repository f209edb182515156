"""How far the control brings its units: what is certain of sizes of steps, and what only a run can tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from upbeat.adapt.sa.showing import shown
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Call,
    Do,
    Expr,
    For,
    If,
    Literal,
    Place,
    Ref,
    Return,
    Statement,
    Unary,
    Var,
    expressions,
    statements,
)
from upbeat.adapt.sa.values import constant, fixed_parameters

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
