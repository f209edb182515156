"""From data to the text of a `.sa` file, in the thesis's dialect; parsing it gives equal data back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Call,
    Declared,
    Do,
    Expr,
    For,
    If,
    Literal,
    Otherwise,
    Port,
    Ref,
    Return,
    Rule,
    Statement,
    Unary,
    Var,
)

_LEVELS = {"or": 1, "and": 2, "not": 3, "+": 5, "-": 5, "*": 6, "/": 6}
_COMPARES, _SIGN, _ATOM = 4, 7, 8


def number(value: float) -> str:
    """A number as short as it can be read back, and with a point, as a Real has one, unless it is whole."""
    if value == int(value) and abs(value) < 1e15 if abs(value) < 1e300 else False:
        return f"{int(value)}"
    return repr(value)


def shown(expr: Expr) -> str:
    """The text of an expression, with no more parentheses than needed."""
    return _shown(expr)[0]


def _shown(expr: Expr) -> tuple[str, int]:
    match expr:
        case Literal(value=bool() as truth):
            return "true" if truth else "false", _ATOM
        case Literal(value=float() as value):
            return number(value), _ATOM if value >= 0 else _SIGN
        case Literal(value=str() as text):
            return f'"{text}"', _ATOM
        case Literal():
            return "null", _ATOM
        case Ref(index=index):
            when = "" if index == 0 else "[prev]" if index == -1 else f"[{index}]"
            return f"{expr.text}{when}", _ATOM
        case Unary(op=op, arg=arg):
            level = _LEVELS["not"] if op == "not" else _SIGN
            return f"{'not ' if op == 'not' else '-'}{_inside(arg, level)}", level
        case Binary(op=op, left=left, right=right):
            level = _LEVELS.get(op, _COMPARES)
            first = level + 1 if level == _COMPARES else level
            return f"{_inside(left, first)} {op} {_inside(right, level + 1)}", level
        case Call(name=name, args=args):
            return f"{name}({', '.join(map(shown, args))})", _ATOM
        case Otherwise():
            return "otherwise", _ATOM


def _inside(expr: Expr, minimum: int) -> str:
    text, level = _shown(expr)
    return text if level >= minimum else f"({text})"


def _block(statements: Iterable[Statement], indent: str) -> Iterator[str]:
    for one in statements:
        match one:
            case Var(declared=declared):
                yield f"{indent}var {', '.join(map(_declared, declared))};"
            case Assign(target=target, value=value):
                yield f"{indent}{shown(target)} := {shown(value)};"
            case Do(call=call):
                yield f"{indent}{shown(call)};"
            case Return(value=value):
                yield f"{indent}return {shown(value)};"
            case Break():
                yield f"{indent}break;"
            case If(condition=condition, then=then, otherwise=otherwise):
                yield f"{indent}if ({shown(condition)}) {{"
                yield from _block(then, f"{indent}  ")
                if otherwise:
                    yield f"{indent}}} else {{"
                    yield from _block(otherwise, f"{indent}  ")
                yield f"{indent}}}"
            case For(variable=variable, first=first, last=last, body=body):
                yield f"{indent}for (var {variable} in {shown(first)} .. {shown(last)}) {{"
                yield from _block(body, f"{indent}  ")
                yield f"{indent}}}"


def _declared(one: Declared) -> str:
    head = f"{one.type} {one.name}" if one.type else one.name
    return head if one.value is None else f"{head} := {shown(one.value)}"


def _port(port: Port, arrow: str = "->") -> str:
    text = f"{port.type} {port.name}" if port.type else port.name
    if port.initial is not None:
        text += f" := {shown(port.initial)}"
    if port.unit:
        text += f" ({port.unit})"
    if port.alias:
        text += f' "{port.alias}"'
    return text if port.bound is None else f"{text} {arrow} {port.bound.text}"


def _list(head: str, items: Iterable[str], end: str = "") -> Iterator[str]:
    lines = list(items)
    if lines:
        indent = " " * (len(head) + 1)
        yield f"{head} " + f",\n{indent}".join(lines) + end
        yield ""


def _rules(head: str, rules: Iterable[object]) -> Iterator[str]:
    yield f"{head} rules {{"
    for rule in rules:
        assert isinstance(rule, Rule)
        first, second = list(_block(rule.first, "    ")), list(_block(rule.second, "    "))
        yield f"  {shown(rule.condition)} -> {{" + ("" if first else " } --> {" + ("" if second else " };"))
        if first:
            yield from first
            yield "  } --> {" + ("" if second else " };")
        if second:
            yield from second
            yield "  };"
    yield "}"


def _kinds(reactive: bool | None, mealy: bool | None) -> str:
    one = {True: "reactive ", False: "delayed ", None: ""}[reactive]
    return one + {True: "mealy ", False: "moore ", None: ""}[mealy]


def text_of(it: Adapted) -> str:
    """The text of an adaptation in explicit form."""
    return "\n".join(_lines(it)).rstrip() + "\n"


def _lines(it: Adapted) -> Iterator[str]:
    yield f"semantic adaptation {_kinds(it.reactive, it.mealy)}{it.type} {it.name}"
    if it.path:
        yield f'at "{it.path}"'
    yield ""
    for unit in it.inner:
        yield f"for inner fmu {_kinds(unit.reactive, unit.mealy)}{unit.type} {unit.name}"
        if unit.path:
            yield f'  at "{unit.path}"'
        if unit.inputs:
            yield f"  with input ports {', '.join(map(_port, unit.inputs))}"
        if unit.outputs:
            yield f"  with output ports {', '.join(map(_port, unit.outputs))}"
        yield ""
    for wire in it.wires:
        yield f"  with {wire.source.text} -> {wire.target.text}"
    if it.wires:
        yield ""
    yield from _list("input ports", map(_port, it.inputs or ()))
    yield from _list("output ports", (_port(port, "<-") for port in it.outputs or ()))
    yield from _list("param", map(_declared, it.params), ";")
    yield from _list("control var", map(_declared, it.control_vars), ";")
    if it.control is not None:
        yield "control rules {"
        yield from _block(it.control, "  ")
        yield "}"
        yield ""
    yield from _list("in var", map(_declared, it.in_vars), ";")
    if it.in_rules is not None:
        yield from _rules("in", it.in_rules.rules)
        yield ""
    yield from _list("out var", map(_declared, it.out_vars), ";")
    if it.out_rules is not None:
        yield from _rules("out", it.out_rules.rules)
