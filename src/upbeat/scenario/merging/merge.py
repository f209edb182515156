"""Several units of equations merged into one, algebraic loops solved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Model
from upbeat.core.errors import Problem, ScenarioError
from upbeat.core.expr import (
    ONE,
    ZERO,
    Apply,
    Expr,
    Lookup,
    Name,
    Number,
    Op,
    Table1,
    Table2,
    fold,
    names,
    show,
    simplify,
    substitute,
)
from upbeat.core.expr.nodes import Inner, Leaf, loose, ordered, with_args
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.scenario.directory import EVENTS, End
from upbeat.scenario.events.watcher import ObservedEvent, observed_events, watchers
from upbeat.scenario.graph import components, cycle, torn
from upbeat.units.equations.data import Equations, variable_spec
from upbeat.units.equations.events import EquationEvent
from upbeat.units.equations.ode import Ode
from upbeat.units.shorthand import port_spec

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario


# ----------------------------------------------------------------------------------------------------
# Linear equations among expressions: recognising them, solving them by formulas, naming shared parts.


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + Σ slopes[z]·z, where neither the constant nor the slopes contain an unknown z."""

    constant: Expr
    slopes: dict[str, Expr] = field(default_factory=dict)

    @classmethod
    def unknown(cls, name: str) -> Affine:
        return cls(ZERO, {name: ONE})

    def map(self, change: Callable[[Expr], Expr]) -> Affine:
        return Affine(change(self.constant), {name: change(slope) for name, slope in self.slopes.items()})

    def join(self, other: Affine, by: Callable[[Expr, Expr], Expr]) -> Affine:
        """Constants with constants, slopes with slopes."""
        names = dict.fromkeys((*self.slopes, *other.slopes))
        slopes = {name: by(self.slopes.get(name, ZERO), other.slopes.get(name, ZERO)) for name in names}
        return Affine(by(self.constant, other.constant), {n: s for n, s in slopes.items() if s != ZERO})


def affine(expr: Expr, forms: Mapping[str, Affine]) -> Affine | None:
    """`expr` as a form in the unknowns, where names have the `forms` given; None if it is not linear.

    The judgement is by structure and not by derivatives: that of round(z) is zero, but it is not constant.
    """

    def leaf(node: Leaf) -> Affine | None:
        return forms.get(node.id, Affine(node)) if isinstance(node, Name) else Affine(node)

    return fold(expr, leaf, _combined)


def _combined(node: Inner, args: list[Affine | None]) -> Affine | None:
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args):
        return None
    if not any(arg.slopes for arg in known):
        return Affine(with_args(node, [arg.constant for arg in known]))
    if not isinstance(node, Apply):
        return None
    match node.op, known:
        case (Op.ADD, (a, b)):
            return a.join(b, _plus)
        case (Op.SUB, (a, b)):
            return a.join(b, _minus)
        case (Op.NEG, (a,)):
            return a.map(lambda part: _minus(ZERO, part))
        case (Op.MUL, (a, b)) if not b.slopes:
            return a.map(lambda part: _times(part, b.constant))
        case (Op.MUL, (a, b)) if not a.slopes:
            return b.map(lambda part: _times(a.constant, part))
        case (Op.DIV, (a, b)) if not b.slopes:
            return a.map(lambda part: _over(part, b.constant))
        case (Op.WHERE, (test, a, b)) if not test.slopes:
            return a.join(b, lambda yes, no: _made(Op.WHERE, test.constant, yes, no))
    return None


def solutions(equations: Mapping[str, Affine]) -> tuple[Expr, dict[str, Expr]]:
    """The determinant of the system z = equations[z], and its solution by Cramer's rule.

    Elimination would do with fewer operations, but has to choose pivots before their values are known.
    """
    unknowns = list(equations)
    columns: list[list[Expr]] = [
        [_minus(ONE if row == column else ZERO, equations[row].slopes.get(column, ZERO)) for row in unknowns]
        for column in unknowns
    ]
    columns.append([equations[row].constant for row in unknowns])
    minors: dict[tuple[int, ...], Expr] = {(): ONE}

    def determinant(chosen: tuple[int, ...]) -> Expr:
        """Of the chosen columns and as many of the last rows; developed along the first of these."""
        if chosen not in minors:
            row, total = len(unknowns) - len(chosen), ZERO
            for i, column in enumerate(chosen):
                if columns[column][row] != ZERO:
                    term = _times(columns[column][row], determinant(chosen[:i] + chosen[i + 1 :]))
                    total = _minus(total, term) if i % 2 else _plus(total, term)  # type: ignore[assignment]
            minors[chosen] = total
        return minors[chosen]

    whole = tuple(range(len(unknowns)))
    common = determinant(whole)
    replaced = [(*whole[:k], len(unknowns), *whole[k + 1 :]) for k in whole]
    return common, {
        name: _over(determinant(chosen), common) for name, chosen in zip(unknowns, replaced, strict=True)
    }


def with_names(roots: Sequence[Expr], fresh: Callable[[], str]) -> tuple[dict[str, Expr], list[Expr]]:
    """`roots` with every part that occurs more than once replaced by a fresh name, and what these stand for.

    Expressions are graphs, but their texts are trees: without names, what is shared would be repeated.
    """
    order = ordered(roots)
    uses: dict[int, int] = {}
    for used in (*roots, *(arg for node in order for arg in node.args)):
        uses[id(used)] = uses.get(id(used), 0) + 1
    named: dict[str, Expr] = {}
    values: dict[int, Expr] = {}
    for node in order:
        value: Expr = node
        if node.args:
            value = with_args(node, [values[id(arg)] for arg in node.args])  # type: ignore[arg-type]
            if uses[id(node)] > 1:
                name = fresh()
                named[name], value = value, Name(name)
        values[id(node)] = value
    return named, [values[id(root)] for root in roots]


def _made(op: Op, *args: Expr) -> Expr:
    return loose(Apply(op, args), args)


def _plus(a: Expr, b: Expr) -> Expr:
    return _made(Op.ADD, a, b)


def _minus(a: Expr, b: Expr) -> Expr:
    return a if b == ZERO else _made(Op.SUB, a, b)


def _times(a: Expr, b: Expr) -> Expr:
    return _made(Op.MUL, a, b)


def _over(a: Expr, b: Expr) -> Expr:
    return _made(Op.DIV, a, b)


# ----------------------------------------------------------------------------------------------------
# Events between units where the units are merged into one: they become events of that one.


@dataclass(frozen=True, slots=True)
class SharedEvent:
    """An event over the ports of the scenario: new values for cells of units. `end`: the port that sends it.

    It is `logged`, unless it was inside a nested scenario, where it is not seen.
    """

    end: End
    conditions: tuple[Expr, ...]
    then: tuple[tuple[str, str, Expr], ...]
    logged: bool


def shared_events(scenario: Scenario) -> tuple[dict[str, Model], list[SharedEvent]]:
    """The units of a flat scenario without those that watch, and without inputs for what they send; and
    what these watch for."""
    looking = watchers(scenario.units)
    targets: dict[End, tuple[End, ...]] = {}
    for connection in scenario.event_connections:
        for sender in connection.senders:
            if sender.source[0] in looking:
                targets[sender.source] = (*targets.get(sender.source, ()), (connection.unit, connection.port))
    targets_of_events = {end for ends in targets.values() for end in ends}
    units = {
        name: _without(name, model, targets_of_events)
        for name, model in scenario.units.items()
        if name not in looking
    }
    return units, [_shared_event(observed, scenario, targets) for observed in observed_events(scenario)]


def _without(name: str, model: Model, targets_of_events: set[End]) -> Model:
    """The model without the event inputs through which it was told what to change."""
    ports = {port for unit, port in targets_of_events if unit == name}
    equations = getattr(model, "equations", None)
    if not ports or equations is None:
        return model
    changed = replace(
        equations,
        heard=tuple(port for port in equations.heard if port.name not in ports),
        events=tuple(event for event in equations.events if ports.isdisjoint(event.on)),
    )
    return Ode(**{**changed.to_spec(), "solver": getattr(model, "solver", None)})


def _shared_event(
    observed: ObservedEvent, scenario: Scenario, targets: dict[End, tuple[End, ...]]
) -> SharedEvent:
    then = []
    for output, values in observed.then:
        for other, port in targets[observed.watcher, output]:
            equations = getattr(scenario.units[other], "equations", None)
            assert equations is not None  # nothing else lets itself be changed
            then += [(other, cell, new) for cell, new in _changed(equations, port, values)]
    return SharedEvent(observed.place, observed.conditions, tuple(then), observed.watcher == EVENTS)


def _changed(equations: Equations, port: str, values: tuple[Expr, ...]) -> list[tuple[str, Expr]]:
    """What an event input with these values gives which cell."""
    heard = next(known for known in equations.heard if known.name == port)
    given = dict(zip(cell_names(port, heard.size), values, strict=True))
    events = [event for event in equations.events if port in event.on]
    return [(cell, substitute(new, given)) for event in events for cell, new in event.then]


# ----------------------------------------------------------------------------------------------------
# The equations of all units of a scenario in one model: names made unique, inputs made definitions.

_FORBIDDEN = re.compile(r"[^A-Za-z0-9]+")
_DROPPED = ("value", "start", "size", "reactive", "derivative")
"""What a port as an output of the merged model does not say itself, or no longer needs to."""


class Names:
    """Names that are all different: ``left.x`` becomes ``left_x``, or ``left_x_2`` if that is taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, *parts: str) -> str:
        wanted = _FORBIDDEN.sub("_", "_".join(parts))
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


@dataclass(slots=True)
class Merged:
    """The sections of the merged model, while they are filled.

    * `definitions`: of every local by name, one expression per cell. Connected inputs and outputs that
      are computed are among them, so that nothing is written out twice.
    * `sizes`: of the locals, None for a single value.
    * `reads`: what a name in a connection of the scenario stands for.
    * `ports`: the port behind a cell that is an input or an output, and what people call it.
    * `tunable`: the unit and the port that a parameter was; `values`: of the parameters, by cell.
    * `started`: the unit and the name that a state was, or a variable that changes at events.
    * `tears`: the cells of connected inputs, at which loops can be cut.
    * `sources`: the output (or input) of the merged model that stands for an original port.
    * `paths`: what people call a unit, where that is not its name.
    """

    names: Names = field(default_factory=Names)
    states: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    tunable: dict[str, End] = field(default_factory=dict)
    started: dict[str, End] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    events: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Table1 | Table2] = field(default_factory=dict)
    definitions: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    sizes: dict[str, int | None] = field(default_factory=dict)
    reads: dict[str, Expr] = field(default_factory=dict)
    ports: dict[str, tuple[str, Port]] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)
    tears: list[str] = field(default_factory=list)
    sources: dict[End, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def locals(self) -> dict[str, Any]:
        """The section of locals, as text."""
        return {
            name: [show(cell) for cell in cells] if self.sizes[name] is not None else show(cells[0])
            for name, cells in self.definitions.items()
        }

    def called(self, unit: str) -> str:
        """What people call a unit."""
        return self.paths.get(unit, unit)

    def define(self, name: str, size: int | None, cells: Iterable[Expr]) -> None:
        self.definitions[name], self.sizes[name] = tuple(cells), size


def merged(
    units: Mapping[str, Equations],
    connections: Mapping[End, Sequence[Expr]],
    paths: Mapping[str, str] | None = None,
    shared_events: Iterable[SharedEvent] = (),
) -> Merged:
    """All equations in one model; loops among its definitions are still in it.

    `paths`: what people call a unit, where that is not its name. `shared_events`: events between the units.
    """
    made = Merged(paths=paths or {})
    scopes = {unit: _declared(made, unit, equations, connections) for unit, equations in units.items()}
    for unit, equations in units.items():
        _defined(made, unit, equations, scopes[unit])
    for unit, equations in units.items():
        for port in equations.inputs:
            if (unit, port.name) in connections:
                name = scopes[unit].variables[port.name]
                cells = connections[unit, port.name]
                made.define(name, port.size, (substitute(cell, made.reads) for cell in cells))
                made.outputs[name] = _output(port, name)
                made.sources[unit, port.name] = name
    for shared in shared_events:
        _between(made, shared, scopes)
    return made


@dataclass(slots=True)
class _Scope:
    """What the names and tables of one unit are called in the merged model."""

    variables: dict[str, str] = field(default_factory=dict)
    cells: dict[str, Expr] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)

    def declare(self, name: str, new: str, size: int | None) -> None:
        self.variables[name] = new
        pairs = zip(cell_names(name, size), cell_names(new, size), strict=True)
        self.cells.update((old, Name(cell)) for old, cell in pairs)

    def read(self, exprs: Iterable[Expr]) -> list[Expr]:
        """The expressions in the names of the merged model."""

        def leaf(node: Leaf) -> Expr:
            return self.cells.get(node.id, node) if isinstance(node, Name) else node

        def inner(node: Inner, args: list[Expr]) -> Expr:
            if isinstance(node, Lookup):
                table = replace(node.table, name=self.tables[node.table.name])
                return Lookup(table, tuple(args))
            return with_args(node, args)

        return [fold(expr, leaf, inner) for expr in exprs]


def _declared(
    made: Merged, unit: str, equations: Equations, connections: Mapping[End, Sequence[Expr]]
) -> _Scope:
    scope = _Scope()
    for state in equations.states:
        name = made.names.new(unit, state.port.name)
        scope.declare(state.port.name, name, state.port.size)
        made.started[name] = unit, state.port.name
    for local in equations.locals:
        scope.declare(local.name, made.names.new(unit, local.name), local.size)
    for port in equations.parameters:
        name = made.names.new(unit, port.name)
        scope.declare(port.name, name, port.size)
        made.parameters[name] = port_spec(port)
        made.tunable[name] = unit, port.name
        numbers = (Number(float(value)) for value in port.initial)
        made.values.update(zip(cell_names(name, port.size), numbers, strict=True))
    for port in equations.variables:
        name = made.names.new(unit, port.name)
        scope.declare(port.name, name, port.size)
        made.variables[name] = variable_spec(port)
        made.started[name] = unit, port.name
    for port in equations.inputs:
        name = made.names.new(unit, port.name)
        scope.declare(port.name, name, port.size)
        if (unit, port.name) not in connections:
            made.inputs[name] = port_spec(port)
            made.sources[unit, port.name] = name
            continue
        for i, cell in enumerate(cell_names(name, port.size)):
            index = "" if port.size is None else f"[{i}]"
            made.ports[cell] = (f"{made.called(unit)}.{port.name}{index}", port)
            made.tears.append(cell)
    for key, table in equations.tables:
        name = made.names.new(unit, key)
        scope.tables[key] = name
        # an expression names a slope after the table it is the slope of
        made.tables[name] = replace(table, mode="linear") if table.mode.startswith("slope") else table
    return scope


def _merged_event(event: EquationEvent, scope: _Scope, sent: Mapping[str, str]) -> dict[str, Any]:
    """An event in the names of the merged model. `sent`: what its event outputs are called there."""
    assert event.indicator is not None  # those that wait for events have been refused
    then = _assigned((scope.cells[cell], scope.read([value])[0]) for cell, value in event.then)
    entry: dict[str, Any] = {"when": [show(z) for z in scope.read([event.indicator])], "then": then}
    for one in event.emit:
        plain = one.port.kind is Kind.BOOLEAN and one.port.size is None
        cells = [show(cell) for cell in scope.read([one.present] if plain else one.cells)]
        entry.setdefault("emit", {})[sent[one.port.name]] = cells if one.port.size is not None else cells[0]
    return entry


def _between(made: Merged, shared: SharedEvent, scopes: Mapping[str, _Scope]) -> None:
    """An event between units as one of the merged model, which says so if it is to be logged."""
    unit, port = shared.end
    name = made.names.new(unit, port)
    when = [show(substitute(z, made.reads)) for z in shared.conditions]
    then = ((scopes[u].cells[cell], substitute(new, made.reads)) for u, cell, new in shared.then)
    entry: dict[str, Any] = {"when": when, "then": _assigned(then)}
    if shared.logged:
        sent = made.names.new(unit, port, "happens")
        made.outputs[sent] = {"event": True}
        made.sources[shared.end] = sent
        entry["emit"] = {sent: True}
    made.events[name] = entry


def _assigned(pairs: Iterable[tuple[Expr, Expr]]) -> dict[str, Any]:
    """New values as they are written: of an array, a list of them."""
    then: dict[str, Any] = {}
    for target, value in pairs:
        assert isinstance(target, Name)
        name, bracket, _ = target.id.partition("[")
        if bracket:
            then.setdefault(name, []).append(show(value))
        else:
            then[name] = show(value)
    return then


def _defined(made: Merged, unit: str, equations: Equations, scope: _Scope) -> None:
    sent = {port.name: made.names.new(unit, port.name) for port in equations.sent}
    for port in equations.sent:
        made.outputs[sent[port.name]] = port_spec(port)
        made.sources[unit, port.name] = sent[port.name]
    for event in equations.events:
        made.events[made.names.new(unit, event.name)] = _merged_event(event, scope, sent)
    for state in equations.states:
        port, cells = state.port, scope.read(state.derivative.cells)
        entry = {"der": [show(cell) for cell in cells] if port.size is not None else show(cells[0])}
        given = {"start": port.initial if port.size is not None else port.initial[0]}
        given |= {"unit": port.unit} if port.unit is not None else {}
        given |= {"description": port.description} if port.description else {}
        made.states[scope.variables[port.name]] = entry | given
    for local in equations.locals:
        made.define(scope.variables[local.name], local.size, scope.read(local.cells))
    for output in equations.outputs:
        port = output.port
        cells = [_delivered(cell, port.kind) for cell in scope.read(output.definition.cells)]
        same = scope.variables.get(port.name, "")
        if cells != [Name(cell) for cell in cell_names(same, port.size)]:
            same = made.names.new(unit, port.name)
            made.define(same, port.size, cells)
        made.outputs[same] = _output(port, same)
        made.sources[unit, port.name] = same
        own = cell_names(same, port.size)
        for i, cell in enumerate(own):
            made.reads[f"{unit}.{port.name}[{i}]"] = Name(cell)
            made.ports[cell] = (
                f"{made.called(unit)}.{port.name}" + ("" if port.size is None else f"[{i}]"),
                port,
            )
        made.reads[f"{unit}.{port.name}"] = Name(own[0])


def _delivered(cell: Expr, kind: Kind) -> Expr:
    """What a unit hands over: whole numbers are rounded to, and all but zero is true."""
    match kind:
        case Kind.INTEGER:
            return Apply(Op.ROUND, (cell,))
        case Kind.BOOLEAN:
            return Apply(Op.NE, (cell, ZERO))
    return cell


def _output(port: Port, value: str) -> dict[str, Any]:
    spec = port_spec(port)
    entry = {key: v for key, v in spec.items() if key not in _DROPPED} if isinstance(spec, dict) else {}
    entry |= {} if port.items else {"kind": port.kind.value}
    return {**entry, "value": value}


# ----------------------------------------------------------------------------------------------------
# Algebraic loops among merged definitions: replaced by formulas where linear, by unknowns elsewhere.

MAX_SYMBOLIC = 4
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
    if len(unknowns) > MAX_SYMBOLIC:
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
