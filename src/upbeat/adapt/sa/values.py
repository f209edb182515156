"""What is known of expressions before a run: constants, and kinds of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from upbeat.adapt.sa.tree import (
    Adapted,
    Binary,
    Call,
    Expr,
    For,
    Literal,
    Ref,
    Unary,
    expressions,
    statements,
)


def flagged(condition: Expr) -> bool:
    """Whether it is the constant true."""
    return isinstance(condition, Literal) and condition.value is True


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


def is_truth(expr: Expr) -> bool:
    """Whether a number may stand for true or false."""
    return isinstance(expr, Literal) and expr.value in (0.0, 1.0)


def joined(op: str, parts: Sequence[Expr]) -> Expr:
    """All of them with the operator between."""
    found = parts[0]
    for part in parts[1:]:
        found = Binary(op, found, part)
    return found


def naming(name: str, by: Ref) -> Callable[[Expr], Expr]:
    """Puts a port in the place of a name, such as ``signal``."""
    return lambda one: (
        replace(by, index=one.index) if isinstance(one, Ref) and not one.owner and one.name == name else one
    )


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


def needed(it: Adapted, names: Iterable[str]) -> set[str]:
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
    return needed(it, (e.name for e in expressions(ends) if isinstance(e, Ref)))
