"""Algebraic loops among merged definitions: replaced by formulas where linear, by unknowns elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upbeat.core.errors import Problem, ScenarioError
from upbeat.core.expr import Expr, Name, Number, names, show, simplify, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind
from upbeat.scenario.merging.affine import Affine, affine, solutions, with_names
from upbeat.scenario.merging.merge import Merged
from upbeat.scenario.order import components, cycle, torn

MOST_SYMBOLIC = 4
"""Linear loops with more unknowns than this are solved by numbers: their formulas grow too long."""


def open_loops(made: Merged) -> tuple[dict[str, str], tuple[str, ...]]:
    """Rid the definitions of loops; gives the pairs (unknown input, output to be zero), and what was done.

    A loop is cut at some inputs. If the rest is linear in them, they are replaced by formulas. Otherwise
    the merged model gets an input for each, to be found at every instant, and an output to be zero.
    """
    cells = {
        cell: expr
        for name, exprs in made.definitions.items()
        for cell, expr in zip(cell_names(name, made.sizes[name]), exprs, strict=True)
    }
    order = list(cells)
    number = {cell: i for i, cell in enumerate(order)}
    before = [{number[name] for name in names(cells[cell]) if name in number} for cell in order]
    inputs = {number[cell] for cell in made.tears}
    solution: dict[str, Expr] = {}
    zeros: dict[str, str] = {}
    notes: list[str] = []
    for group in components(before):
        if len(group) == 1 and group[0] not in before[group[0]]:
            continue
        around = [order[i] for i in cycle(before, group)]
        first = around.index(next(cell for cell in made.tears if cell in around))
        shown = [made.ports[c][0] for c in around[first:] + around[:first] if c in made.ports]
        loop = " → ".join(shown)
        _check_kinds([order[i] for i in group], made, loop)
        tears, rest = _cut(group, before, inputs)
        unknowns = {order[i]: cells[order[i]] for i in tears}
        found = _linear(unknowns, {order[i]: cells[order[i]] for i in rest}, made, loop)
        if found is not None:
            solution |= found
            notes.append(f"the loop {loop} is linear and was solved symbolically")
            continue
        for cell, value in unknowns.items():
            unknown, zero = _unknown(cell, value, made, loop)
            zeros[unknown] = zero
            solution[cell] = Name(unknown)
        notes.append(f"the loop {loop} is solved by Newton's method at every evaluation")
    for name, exprs in made.definitions.items():
        own = zip(cell_names(name, made.sizes[name]), exprs, strict=True)
        made.definitions[name] = tuple(solution.get(cell, expr) for cell, expr in own)
    return zeros, tuple(notes)


def _check_kinds(cells: Sequence[str], made: Merged, loop: str) -> None:
    for name, port in (made.ports[cell] for cell in cells if cell in made.ports):
        if port.kind is not Kind.REAL:
            what = f"{name} in the algebraic loop {loop} is {port.kind.value}"
            raise ScenarioError([Problem((), what, "Only real signals can be solved for.")])


def _cut(group: Sequence[int], before: Sequence[set[int]], inputs: set[int]) -> tuple[list[int], list[int]]:
    """A loop cut open at inputs, and the rest in order.

    As `Graph.torn`, but by cells, so that an array whose cells do not need each other makes no loop.
    """
    place = {node: k for k, node in enumerate(group)}
    edges = [{place[n] for n in before[node] if n in place} for node in group]
    found = torn(edges, {place[node] for node in group if node in inputs})
    assert found is not None
    tears, rest = found
    return [group[k] for k in tears], [group[k] for k in rest]


def _linear(
    unknowns: Mapping[str, Expr], rest: Mapping[str, Expr], made: Merged, loop: str
) -> dict[str, Expr] | None:
    """The unknowns as formulas; None if the loop is not linear in them, or too large."""
    if len(unknowns) > MOST_SYMBOLIC:
        return None
    forms = {name: Affine.unknown(name) for name in unknowns}
    equations: dict[str, Affine] = {}
    for cell, expr in (*rest.items(), *unknowns.items()):
        form = affine(expr, forms)
        if form is None:
            return None
        (equations if cell in unknowns else forms)[cell] = form
    determinant, found = solutions(equations)
    value = simplify(substitute(determinant, made.values))
    if isinstance(value, Number) and value.value == 0.0:
        what = f"the algebraic loop {loop} has no unique solution"
        raise ScenarioError([Problem((), what, "Its equations contradict, or repeat, each other.")])
    shared, formulas = with_names(list(found.values()), lambda: made.names.new("loop", "part"))
    for name, expr in shared.items():
        made.define(name, None, [expr])
    return dict(zip(found, formulas, strict=True))


def _unknown(cell: str, value: Expr, made: Merged, loop: str) -> tuple[str, str]:
    """An input of the merged model for `cell`, and an output that is zero where it has its `value`."""
    shown, port = made.ports[cell]
    unknown, zero = made.names.new(cell, "unknown"), made.names.new(cell, "residual")
    start = port.initial[int(cell.partition("[")[2].rstrip("]") or 0)]
    made.inputs[unknown] = {"start": start, "description": f"{shown} in the loop {loop}"}
    made.outputs[zero] = show(value - Name(unknown))
    return unknown, zero
