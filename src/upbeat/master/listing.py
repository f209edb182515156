"""Programs in readable form: one line per instruction, registers by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from upbeat.core.expr import Cell, Expr, Name, fold, show
from upbeat.core.expr.nodes import with_args
from upbeat.master.layout import Layout
from upbeat.master.program import (
    Advance,
    Block,
    Call,
    Due,
    Fall,
    Fire,
    Fit,
    Get,
    Grid,
    If,
    Jump,
    Let,
    Pick,
    Rank,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    Solve,
)


def block_lines(
    block: Block, layout: Layout, called: Callable[[str], str] = str, indent: str = "  "
) -> list[str]:
    """The lines of one block; `called` gives what people call a unit."""
    return [f"{indent}{line}" for line in _lines(block, layout, called)]


def _lines(block: Block, layout: Layout, called: Callable[[str], str]) -> Iterator[str]:
    name = layout.name

    def text(value: Expr) -> str:
        named = fold(
            value, lambda leaf: Name(name(leaf.index)) if isinstance(leaf, Cell) else leaf, with_args
        )
        return show(named)

    for instruction in block:
        match instruction:
            case Get(unit, port, to):
                source, target = f"{called(unit)}.{port}", layout.of(to).name
                yield f"get      {source}" + ("" if source == target else f" → {target}")
            case Set(unit, port, by):
                terms = [
                    layout.of(r).name + ("", "·τ", "·τ²", "·τ³")[k] if k < 4 else f"{layout.of(r).name}·τ^{k}"
                    for k, r in enumerate(by)
                ]
                yield f"set      {called(unit)}.{port} := {' + '.join(terms)}"
            case Let(to, value):
                yield f"let      {name(to)} := {text(value)}"
            case Solve(size, matrix, right, to):
                system, rest, result = (layout.of(r).name for r in (matrix, right, to))
                yield f"solve    {system} · {result} = {rest} ({size} equations)"
            case Fit(orders, samples, to=to):
                through = layout.of(samples[0]).name
                yield f"fit      {layout.of(to).name} through {through} ({len(orders)} curves)"
            case Fall(counts, curves, span, _, to):
                several = f"{layout.of(curves).name} ({len(counts)} groups)"
                yield f"fall     {several} within {name(span)} → {layout.of(to).name}"
            case Pick(first, _, index, to):
                yield f"pick     {name(to)} := {layout.of(first).name}[{name(index)}]"
            case Rank(first, _, other, to):
                yield f"rank     {name(to)} := how many of {layout.of(first).name} ≤ {name(other)}"
            case Grid(first, now, limit, to):
                after = f"{layout.of(first).name} after {name(now)}"
                yield f"grid     {name(to)} := next of {after}, up to {name(limit)}"
            case Call(pace, asked):
                yield f"call     {type(pace.pace).__name__}.{asked}"
            case Slope(unit, output, port, to):
                yield f"slope    ∂{unit}.{output}/∂{unit}.{port} → {layout.of(to).name}"
            case Advance(unit, start, until, reached, early):
                how = f", early return, reached → {name(reached)}" if early else ""
                yield f"advance  {called(unit)} from {name(start)} to {name(until)}{how}"
            case Jump(unit, again):
                yield f"jump     {called(unit)}, again → {name(again)}"
            case Due(unit, to):
                yield f"due      {called(unit)} → {name(to)}"
            case Save(units, registers, slot):
                what = [*map(called, units), *(layout.of(r).name for r in registers)]
                yield f"save     slot {slot}: {', '.join(what)}"
            case Restore(slot):
                yield f"restore  slot {slot}"
            case Repeat(most, body, until, exhausted):
                yield f"repeat   at most {most} times, until {text(until)}; otherwise {exhausted}:"
                yield from (f"  {line}" for line in _lines(body, layout, called))
            case If(condition, then, orelse):
                yield f"if       {text(condition)}:"
                yield from (f"  {line}" for line in _lines(then, layout, called))
                if orelse:
                    yield "else:"
                    yield from (f"  {line}" for line in _lines(orelse, layout, called))
            case Fire(event, value):
                yield f"fire     {event}" + ("" if value is None else f" with {layout.of(value).name}")
