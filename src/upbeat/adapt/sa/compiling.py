"""From explicit form to an `Adaptation`, with models for the units inside.

Variables keep their names where they can. A parameter that says how often a loop goes round is a constant: it
is changed in the file, or where the file is read (`parameters`), not later. ``return x`` with an x that is
less than H means that the step is made again with the size x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from upbeat.adapt import adaptation as core
from upbeat.adapt.sa.loading import Layer, Library, Ports, all_of, elsewhere
from upbeat.adapt.sa.parsing import bad
from upbeat.adapt.sa.ports import convert, port_of, unit_text
from upbeat.adapt.sa.progress import Progress, not_saved
from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Call,
    Declared,
    Do,
    Expr,
    File,
    For,
    If,
    Inner,
    Literal,
    Place,
    Port,
    Ref,
    Return,
    Rule,
    Rules,
    Statement,
    Unary,
    Var,
    expressions,
    mapped,
    statements,
)
from upbeat.adapt.sa.values import constant, fixed_parameters
from upbeat.core import expr as trees
from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import InvalidInput, ModelError, Problem, ScenarioError, suggest
from upbeat.core.expr import Op
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.core.ports import Port as Outer

Make = Callable[[core.Adaptation], Model]
"""Makes a model of an adaptation; for the layer that can run one."""

_OPS = {
    **{"or": Op.OR, "and": Op.AND, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE, "==": Op.EQ},
    **{"!=": Op.NE, "+": Op.ADD, "-": Op.SUB, "*": Op.MUL, "/": Op.DIV},
}
_CALLS = {
    **{"floor": Op.FLOOR, "ceil": Op.CEIL, "round": Op.ROUND, "abs": Op.ABS, "min": Op.MIN, "max": Op.MAX},
    **{"sqrt": Op.SQRT, "exp": Op.EXP, "log": Op.LOG, "sin": Op.SIN, "cos": Op.COS, "tan": Op.TAN},
}
_KINDS = {"Boolean": Kind.BOOLEAN, "Integer": Kind.INTEGER, "String": Kind.STRING}
_TYPES = {Kind.REAL: "Real", Kind.BOOLEAN: "Boolean", Kind.INTEGER: "Integer", Kind.STRING: "String"}
_TIMES = ("t", "H", "h", "dt")


# ----------------------------------------------------------------------------------------------------
# Which model an inner unit is.


def ports_of(model: Model) -> Ports:
    """The ports of a model, as a text would declare them; ``v[0]`` of an array is ``v_0``."""
    found: dict[Causality, list[Port]] = {Causality.INPUT: [], Causality.OUTPUT: []}
    others: dict[str, str] = {}
    taken = {port.name for port in model.ports}
    for port in model.ports:
        if port.causality not in found:
            continue
        if port.event:
            others[port.name] = "an event, and an adaptation deals with signals"
            continue
        if port.kind is Kind.STRING:
            others[port.name] = "a string, and an adaptation deals with numbers"
            continue
        if port.size is not None:
            cells = ", ".join(f'{port.name}{i} "{port.name}[{i}]"' for i in range(min(port.size, 2)))
            more = ", …" if port.size > 2 else ""
            others[port.name] = f"an array of {port.size}: name its cells, {cells}{more}"
        for cell, value in zip(cell_names(port.name, port.size), port.initial, strict=True):
            name, alias = cell, ""
            if port.size is not None:
                name, alias = _free(f"{port.name}_{cell.rpartition('[')[2][:-1]}", taken), cell
            start = Literal(value if isinstance(value, bool) else float(value))
            unit = port.unit if port.unit and port.unit != "1" else ""
            found[port.causality].append(Port(name, unit, _TYPES[port.kind], start, alias))
    return Ports(tuple(found[Causality.INPUT]), tuple(found[Causality.OUTPUT]), others)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


@dataclass
class Models:
    """The models of inner units: by their way through the adaptations, by name, or by type."""

    given: Mapping[str, Model]
    folder: Path | None = None
    used: set[str] = field(default_factory=set)

    def find(self, inner: Inner, path: tuple[str, ...] = ()) -> Model | None:
        for key in (".".join((*path, inner.name)), inner.name, inner.type):
            if key in self.given:
                self.used.add(key)
                return self.given[key]
        if inner.path.endswith(".fmu") and self.folder is not None and (self.folder / inner.path).exists():
            from upbeat.units.fmi.model import Fmu

            return Fmu(self.folder / inner.path)
        return None

    def look(self, inner: Inner, path: tuple[str, ...]) -> Ports | None:
        model = self.find(inner, path)
        return None if model is None else ports_of(model)

    def unused(self) -> list[str]:
        return [name for name in self.given if name not in self.used]


def adaptation_of(
    file: Path | str,
    units: Mapping[str, Model],
    make: Make,
    *,
    name: str = "",
    parameters: Mapping[str, float | bool] | None = None,
) -> core.Adaptation:
    """The adaptation `name` (by default the last) of a file around these units.

    A unit inside another adaptation is given by its way (``"loop_sa.window"``), its name or its type; a
    unit with a path that leads to an FMU need not be given.
    """
    path = Path(file)
    models = Models(units, path.parent)
    library = Library(models.look)
    read = library.load(path)
    return compiled(library, read.adaptations, models, make, str(file), name=name, parameters=parameters)


def compiled(
    library: Library,
    adaptations: tuple[Adapted, ...],
    models: Models,
    make: Make,
    source: str,
    *,
    name: str = "",
    parameters: Mapping[str, float | bool] | None = None,
) -> core.Adaptation:
    """The chosen one of some adaptations of a library."""
    known = [one.name for one in adaptations]
    chosen = [one for one in adaptations if name in ("", one.name, one.type)]
    if not chosen:
        what = (
            f"there is no adaptation '{name}' in {source or 'it'}"
            if known
            else f"{source}: there is no adaptation in it"
        )
        raise InvalidInput(f"{what}. {suggest(name, known, 'adaptations')}")
    library.parameters = parameters or {}
    (layer,) = all_of(library, File(adaptations=(chosen[-1],)), source)
    problems: list[Problem] = []
    ways = {"": layer, **dict(_ways(layer))}
    for one in library.parameters:
        if one.rpartition(".")[0] not in ways:
            near = suggest(one.rpartition(".")[0], [way for way in ways if way], "adaptations inside")
            problems.append(Problem(("parameters", one), f"there is no '{one}'", near))
    made = _compiled(layer, models, make, problems, ())
    if unused := models.unused():
        every = sorted({unit.name for one in layer.all() for unit in one.explicit.it.inner})
        problems += [
            Problem(("units", one), f"there is no inner unit '{one}'", suggest(one, every, "inner units"))
            for one in unused
        ]
    if problems or made is None:
        raise ScenarioError(problems, source)
    return made


def _ways(layer: Layer, path: str = "") -> Iterator[tuple[str, Layer]]:
    """The adaptations inside, by the way to them."""
    for name, one in layer.inside.items():
        yield f"{path}{name}", one
        yield from _ways(one, f"{path}{name}.")


def _compiled(
    layer: Layer, models: Models, make: Make, problems: list[Problem], path: tuple[str, ...]
) -> core.Adaptation | None:
    units: dict[str, Model] = {}
    for inner in layer.explicit.it.inner:
        if (model := models.find(inner, path)) is None and inner.name in layer.inside:
            made = _compiled(layer.inside[inner.name], models, make, problems, (*path, inner.name))
            model = None if made is None else make(made)
            if made is None:
                continue
        if model is None:
            where = f" ('{inner.path}' is not there)" if inner.path else ""
            problems.append(
                bad(
                    inner.at,
                    f"it is not said what the inner unit '{inner.name}' is{where}",
                    f"Give it: units = {{ {inner.name} = … }}.",
                )
            )
            continue
        units[inner.name] = model
    if len(units) < len(layer.explicit.it.inner):
        return None
    found: list[Problem] = []
    made = None
    try:
        made = _Compiler(layer, units, found).made()
    except ModelError as error:
        found.append(bad(layer.explicit.it.at, str(error)))
    except ScenarioError as error:
        found += error.problems
    problems += [elsewhere(layer.explicit.it, one) for one in found] if path else found
    return made


# ----------------------------------------------------------------------------------------------------


class _Compiler:
    def __init__(self, layer: Layer, units: dict[str, Model], problems: list[Problem]) -> None:
        self.it = layer.explicit.it
        self.of = layer.explicit
        self.units = units
        self.inside = layer.inside
        self.problems = problems
        self.names: dict[str, str] = {}
        taken = {*_TIMES, *(port.name for port in (*self.of.inputs, *self.of.outputs))}
        it = self.it
        rules = [rule for block in (it.in_rules, it.out_rules) if block for rule in block.rules]
        parts = [part for one in rules if isinstance(one, Rule) for part in (one.first, one.second)]
        every = [one for part in (it.control or (), *parts) for one in statements(part)]
        locals_ = [item for one in every if isinstance(one, Var) for item in one.declared]
        loops = [Declared(one.variable) for one in every if isinstance(one, For)]
        for one in (*it.params, *it.in_vars, *it.out_vars, *it.control_vars, *locals_, *loops):
            if one.name in self.names:
                continue
            name = one.name.replace("__", "_").replace("__", "_")
            while name in taken:
                name = f"{name}_"[:-1] + "_v" if name.endswith("_") else f"{name}_v"
            self.names[one.name] = name
            taken.add(name)
        self.alias = {
            (unit.name, port.name): port.alias or port.name
            for unit in it.inner
            for port in (*unit.inputs, *unit.outputs)
        }
        self.fixed = self._fixed()
        self.able = {name: model.abilities for name, model in units.items()}
        self.back = all(Ability.ROLLBACK in able for able in self.able.values())
        self.whole = self._whole()
        self.rollbacks: list[Call] = []
        """In the order of the text."""
        self.progress = Progress(it)
        self.sizes: dict[int, str] = {}
        """The variables with the sizes of steps that are made inside expressions."""

    def _fixed(self) -> dict[str, float]:
        return {name: constant(Ref(name), self.it) or 0.0 for name in fixed_parameters(self.it)}

    def _whole(self) -> set[str]:
        """Local variables that are the size H for certain: of steps of units that never stop early."""
        early = {Ability.EARLY_RETURN, Ability.NEXT_EVENT}
        count: dict[str, int] = {}
        found: set[str] = set()
        for one in statements(self.it.control or ()):
            targets = [item.name for item in one.declared] if isinstance(one, Var) else []
            targets += [one.target.name] if isinstance(one, Assign) and not one.target.owner else []
            for name in targets:
                count[name] = count.get(name, 0) + 1
            for item in one.declared if isinstance(one, Var) else ():
                match item.value:
                    case Call(name="do_step", args=(Ref(name=unit), _, Ref(name="H"))):
                        if not self.able[unit] & early:
                            found.add(item.name)
        return {name for name in found if count[name] == 1}

    # ------------------------------------------------------------------ all of it

    def made(self) -> core.Adaptation | None:
        it, of = self.it, self.of
        before = len(self.problems)
        self._check_rollback()
        if len(self.problems) > before:
            return None
        ports = [self._outer(port, Causality.INPUT) for port in of.inputs]
        ports += [self._outer(port, Causality.OUTPUT) for port in of.outputs]
        for one in it.params:
            if one.name in self.fixed:
                continue
            value = constant(one.value, it) if one.value is not None else None
            if value is None:
                self.problems.append(
                    bad(
                        one.at,
                        f"the value of the parameter '{one.name}' must be known now",
                        "Write a number.",
                    )
                )
                value = 0.0
            kind = self._kind(one.name)
            start = (bool(value) if kind is Kind.BOOLEAN else value,)
            ports.append(Outer(self.names[one.name], Causality.PARAMETER, kind, start=start))
        init: list[core.Statement] = []
        stored = [
            tuple(self._stored(one, init) for one in group)
            for group in (it.in_vars, it.control_vars, it.out_vars)
        ]
        control = tuple(self._block(it.control or ()))
        if it.control and not isinstance(it.control[-1], Return):
            control = (*control, *self._checked(it.control[-1].at, Ref("H")))
        if not self._check_saved(control):
            return None
        made = core.Adaptation(
            self.units,
            tuple(ports),
            connections={
                f"{w.target.owner}.{self._port(w.target)}": self._linked(w.source, w.target) for w in it.wires
            },
            in_rules=self._rules(it.in_rules),
            control=control,
            out_rules=self._rules(it.out_rules),
            inputs=stored[0],
            controls=stored[1],
            outputs=stored[2],
            init=tuple(init),
            reactive=it.reactive,
            mealy=it.mealy is not False,
            delayed=frozenset(unit.name for unit in it.inner if unit.reactive is False),
            name=it.name,
            locates=of.located,
        )
        return made

    def _check_rollback(self) -> None:
        """Units that are set back need rollback, and the kinds that the text says must be so."""
        for unit in self.it.inner:
            outputs = [port for port in self.units[unit.name].ports if port.depends and not port.event]
            if unit.mealy is False and outputs and unit.name not in self.inside:
                follows = (
                    f"its output '{outputs[0].name}' follows its input '{min(outputs[0].depends)}' at once"
                )
                self.problems.append(
                    bad(unit.at, f"'{unit.name}' is no moore unit: {follows}", "Write mealy.")
                )
            inputs = [port for port in self.units[unit.name].ports if port.reactive is not None]
            wrong = [port for port in inputs if unit.reactive is not None and port.reactive != unit.reactive]
            if wrong and unit.name not in self.inside:
                said, true = ("reactive", "delayed") if unit.reactive else ("delayed", "reactive")
                what = f"'{unit.name}' is not {said}: its input '{wrong[0].name}' is {true}"
                self.problems.append(bad(unit.at, what, f"Write {true}."))
        calls = [
            one for one in expressions(tuple(statements(self.it.control or ()))) if isinstance(one, Call)
        ]
        back = [(call.args[0].name, call) for call in calls if call.name in ("save_state", "rollback")]  # type: ignore[union-attr]
        every = [call for call in calls if call.name == "discard"]
        for name, able in self.able.items():
            found = [call for unit_name, call in back if unit_name == name] or every
            if found and Ability.ROLLBACK not in able:
                what = f"'{name}' cannot be set back to an earlier state, and '{found[0].name}' needs that"
                hint = 'Take a model with rollback, or give it one: adapt = ["replay"].'
                self.problems.append(bad(found[0].at, what, hint))

    def _check_saved(self, control: tuple[core.Statement, ...]) -> bool:
        """What is saved is known until the end of the step."""
        before = len(self.problems)
        traced = core.traced(control, lambda one: one.unit if isinstance(one, core.SaveState) else None)
        unsaved = [saved for one, saved, _ in traced if isinstance(one, core.Rollback)]
        for call, saved in zip(self.rollbacks, unsaved, strict=True):
            unit = call.args[0].name if isinstance(call.args[0], Ref) else ""
            if unit not in saved:
                self.problems.append(bad(call.at, *not_saved(unit)))
        return len(self.problems) == before

    def _outer(self, port: Port, causality: Causality) -> Outer:
        kind = _KINDS.get(port.type, Kind.REAL)
        value = port.initial.value if isinstance(port.initial, Literal) else None
        start = None if value is None else ((bool(value),) if kind is Kind.BOOLEAN else (value,))
        return Outer(port.name, causality, kind, unit=unit_text(port.unit) or None, start=start)

    def _kind(self, name: str) -> Kind:
        return _KINDS.get(self.of.kinds.get(name, ""), Kind.REAL)

    def _port(self, ref: Ref) -> str:
        return self.alias[ref.owner, ref.name]

    def _port_of(self, ref: Ref) -> Outer:
        """The port of the model, of which this may be a cell."""
        called, ports = self._port(ref), self.units[ref.owner].ports
        return next(p for p in ports if called in (p.name, *cell_names(p.name, p.size)))

    def _linked(self, source: Ref, target: Ref) -> trees.Expr:
        ends = [self._port_of(ref) for ref in (source, target)]
        plain = trees.Name(f"{source.owner}.{self._port(source)}")
        if all(end.unit for end in ends):
            return plain  # and whoever reads the connection converts it
        return self._expr(convert(source, port_of(self.it, source), port_of(self.it, target), target.at))

    def _stored(self, one: Declared, init: list[core.Statement]) -> core.Stored:
        kind, name = self._kind(one.name), self.names[one.name]
        if one.value is None:
            return core.Stored(name, 0.0, kind)
        params = {p.name for p in self.it.params}
        if all(ref.name in params for ref in expressions(one.value) if isinstance(ref, Ref)):
            value = constant(one.value, self.it)
            refs = any(isinstance(ref, Ref) and ref.name not in self.fixed for ref in expressions(one.value))
            return core.Stored(name, self._expr(one.value) if refs or value is None else value, kind)
        init.append(core.Assign(name, self._expr(one.value)))
        return core.Stored(name, 0.0, kind)

    def _rules(self, rules: Rules | None) -> tuple[core.Rule, ...]:
        found = []
        for rule in rules.rules if rules else ():
            assert isinstance(rule, Rule)
            first, second = (tuple(self._block(self._written(part))) for part in (rule.first, rule.second))
            found.append(core.Rule(first, second, self._expr(rule.condition)))
        return tuple(found)

    def _written(self, found: Iterable[Statement]) -> Iterator[Statement]:
        """The statements of a part of a rule, with every round of its loops written out."""
        for one in found:
            match one:
                case For(variable=variable, body=body):
                    first, last = (int(constant(end, self.it) or 0.0) for end in (one.first, one.last))
                    for number in range(first, last):
                        yield from self._written(mapped(body, _as_number(variable, float(number))))
                case If():
                    then, otherwise = tuple(self._written(one.then)), tuple(self._written(one.otherwise))
                    yield replace(one, then=then, otherwise=otherwise)
                case _:
                    yield one

    def _place(self, one: Assign) -> str:
        """Where an assignment is written, if it is one of the text."""
        line = one.at.line or one.target.at.line
        file = f" of {Path(self.it.source).name}" if self.it.source else ""
        return f"line {line}{file}" if line else ""

    # ------------------------------------------------------------------ statements

    def _block(self, found: Iterable[Statement]) -> Iterator[core.Statement]:
        for one in found:
            yield from self._statement(one)

    def _statement(self, one: Statement) -> Iterator[core.Statement]:
        match one:
            case Var(declared=declared):
                for item in declared:
                    yield from self._local(item)
            case Assign(target=target, value=value):
                name = self.names[target.name] if not target.owner else self._outside(target)
                match value:
                    case Call(name="do_step", args=(Ref(name=unit), start, by)) if not target.owner:
                        yield from self._step(unit, start, by, name)
                    case Call(name="get_next_time_step", args=(Ref(name=unit),)) if not target.owner:
                        yield core.NextStep(unit, name)
                    case _:
                        yield from self._before(value)
                        yield core.Assign(name, self._expr(value), at=self._place(one))
            case If(condition=condition, then=then, otherwise=otherwise):
                yield from self._before(condition)
                made = self._expr(condition)
                yield core.When(made, tuple(self._block(then)), tuple(self._block(otherwise)))
            case For():
                yield self._loop(one)
            case Break():
                yield core.Break()
            case Return(value=value):
                yield from self._before(value)
                yield from self._checked(one.at, value)
                yield from self._return(value)
            case Do(call=call):
                yield from self._do(call)

    def _outside(self, ref: Ref) -> str:
        return ref.name if ref.owner == self.it.name else f"{ref.owner}.{self._port(ref)}"

    def _local(self, item: Declared) -> Iterator[core.Statement]:
        name, kind = self.names[item.name], self._kind(item.name)
        match item.value:
            case None:
                yield core.Local(name, 0.0, kind)
            case Call(name="do_step", args=(Ref(name=unit), start, by)):
                if item.name in self.whole:
                    yield core.Step(unit, self._expr(start), self._expr(by))
                    yield core.Local(name, trees.Name("H"), kind)
                    return
                yield core.Local(name, 0.0, kind)
                yield from self._step(unit, start, by, name)
            case Call(name="get_next_time_step", args=(Ref(name=unit),)):
                yield core.Local(name, 0.0, kind)
                yield core.NextStep(unit, name)
            case value:
                yield from self._before(value)
                yield core.Local(name, self._expr(value), kind)

    def _step(self, unit: str, start: Expr, by: Expr, to: str | None) -> Iterator[core.Statement]:
        yield from self._before(start)
        yield from self._before(by)
        yield core.Step(unit, self._expr(start), self._expr(by), to)

    def _do(self, call: Call) -> Iterator[core.Statement]:
        unit = call.args[0].name if isinstance(call.args[0], Ref) else ""
        match call.name:
            case "do_step":
                yield from self._step(unit, call.args[1], call.args[2], None)
            case "save_state":
                yield core.SaveState(unit)
            case "rollback":
                self.rollbacks.append(call)
                yield core.Rollback(unit)
            case "discard":
                yield from self._before(call.args[0])
                yield core.Discard(self._expr(call.args[0]))

    def _loop(self, one: For) -> core.Statement:
        first, last = (int(constant(end, self.it) or 0.0) for end in (one.first, one.last))
        name = self.names[one.variable]
        body = tuple(self._block(one.body))
        index = name
        if first:
            index = f"{name}_index"
            body = (core.Local(name, trees.Name(index) + float(first)), *body)
        inside = tuple(statements(one.body))
        solves = any(isinstance(i, Break | Return) for i in inside) and any(
            isinstance(i, Do) and i.call.name == "rollback" for i in inside
        )
        what = (
            f"the iteration in {self.it.name} (line {one.at.line})"
            if one.at.line
            else f"the iteration in {self.it.name}"
        )
        return core.Loop(last - first, body, index, exhausted="fail" if solves else "accept", what=what)

    def _checked(self, at: Place, value: Expr) -> Iterator[core.Statement]:
        """What only a run can tell of the end of a step: its size, and that no unit is beyond it."""
        here = f"{Path(self.it.source).name or self.it.name}, line {at.line}: the check that"
        size, whole = self._expr(value), trees.Name("H")
        if at in self.progress.open and not self._is_whole(value):
            some = trees.apply(Op.GT, size, trees.Number(0.0))
            fits = trees.apply(Op.LE, size, whole * (1.0 + 1e-9))
            what = f"{here} the size of the step is more than 0 and at most H"
            yield core.Loop(1, (), until=trees.apply(Op.AND, some, fits), exhausted="fail", what=what)
        for unit in sorted(self.progress.beyond.get(at, ())):
            end = trees.Name("t") + whole * (1.0 + 1e-6)  # rounding adds up over many steps
            what = f"{here} '{unit}' has not been stepped beyond the end of the step"
            until = trees.apply(Op.LE, core.own_time(unit), end)
            yield core.Loop(1, (), until=until, exhausted="fail", what=what)

    def _return(self, value: Expr) -> Iterator[core.Statement]:
        if self._is_whole(value):
            yield core.Return()
            return
        made = self._expr(value)
        if self.back:
            shorter = trees.apply(Op.LT, made, trees.Name("H") * (1.0 - 1e-9))
            yield core.When(shorter, (core.Discard(made),), (core.Return(),))
        else:
            yield core.Return(made)

    def _is_whole(self, value: Expr) -> bool:
        match value:
            case Ref(name="H", owner=""):
                return True
            case Ref(owner=""):
                return value.name in self.whole
            case Call(name="min", args=args):
                return all(map(self._is_whole, args))
        return False

    # ------------------------------------------------------------------ expressions

    def _before(self, value: Expr) -> Iterator[core.Statement]:
        """Steps inside an expression come before it, in their order; their sizes go to variables."""
        for call in expressions(value):
            if isinstance(call, Call) and call.name in ("do_step", "get_next_time_step"):
                name = self.sizes[id(call)] = f"size_{len(self.sizes) + 1}"
                unit = call.args[0].name if isinstance(call.args[0], Ref) else ""
                yield core.Local(name, 0.0)
                if call.name == "do_step":
                    yield core.Step(unit, self._expr(call.args[1]), self._expr(call.args[2]), name)
                else:
                    yield core.NextStep(unit, name)

    def _expr(self, value: Expr) -> trees.Expr:
        match value:
            case Literal(value=found):
                return trees.Number(float(found or 0.0) if not isinstance(found, str) else 0.0)
            case Ref(owner=""):
                if value.name in self.fixed:
                    return trees.Number(self.fixed[value.name])
                return trees.Name(self.names.get(value.name, value.name))
            case Ref():
                return trees.Name(self._outside(value))
            case Unary(op=op, arg=arg):
                return trees.apply(Op.NOT if op == "not" else Op.NEG, self._expr(arg))
            case Binary(op=op, left=left, right=right):
                return trees.apply(_OPS[op], self._expr(left), self._expr(right))
            case Call(name="is_close", args=args):
                return core.is_close(*map(self._expr, args))
            case Call(name="last_execution_time", args=(Ref(name=unit),)):
                return core.own_time(unit)
            case Call(name="do_step" | "get_next_time_step"):
                return trees.Name(self.sizes[id(value)])
            case Call(name=name, args=args):
                return trees.apply(_CALLS[name], *map(self._expr, args))
        raise AssertionError(value)


def _as_number(variable: str, number: float) -> Callable[[Expr], Expr]:
    """The counter of a loop as a number, in one of its rounds."""
    return lambda one: Literal(number, at=one.at) if one == Ref(variable) else one
