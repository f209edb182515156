"""Adapted units: `upbeat.adapted`, and what the library of adaptations (`upbeat.adapt.library`) becomes.

Adaptations that stand between a unit and its ports are a nested scenario that always gives way to what is in
it: the program is that of the same blocks typed by hand, under every coupling. Those about how a unit runs
are programs inside a unit (`upbeat.adapt.adaptation`) or models around the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

from upbeat.adapt.adaptation import Adaptation, Assign, Rule, Stored
from upbeat.adapt.library import INSIDE, SIGNALS, Asked, Given, Kinds, Wired, read
from upbeat.adapt.running import RUNNING, Program
from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import InvalidInput, ModelError, check_type, suggest
from upbeat.core.expr import Expr, Name
from upbeat.core.names import cell_names, resolve, split
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.engine.choose import EngineName
from upbeat.engine.nesting.model import Nested, as_continuous, as_discrete
from upbeat.engine.nesting.model import adapted as program_of
from upbeat.master.couplings.coupling import Coupling, GaussSeidel
from upbeat.master.couplings.iterated import Iterated
from upbeat.master.couplings.negotiated import Negotiated
from upbeat.master.inputs.approximation import Approximation
from upbeat.master.loops import Anderson, FixedPoint, Newton
from upbeat.master.master import Master
from upbeat.master.paces.pace import EventDriven


def sa(
    model: Model, file: str, adaptation: str = "", parameters: Mapping[str, float | bool] | None = None
) -> Adaptation:
    """The adaptation in a `.sa` file around the unit, which is the only one inside it."""
    check_type(file, str, "file")
    check_type(adaptation, str, "adaptation")
    check_type(parameters or {}, Mapping, "parameters")
    from upbeat.adapt.sa.compiling import adaptation_of  # few scenarios have any
    from upbeat.adapt.sa.loading import Library

    known = [one for one in Library().load(Path(file)).adaptations if adaptation in ("", one.name, one.type)]
    units = known[-1].inner if known else ()
    if len(units) > 1:
        raise ModelError(
            f"{file} has several units inside, {', '.join(unit.name for unit in units)}, and this is for "
            'one: make a unit of them, sa = "…" with units = {…}'
        )
    inner = {unit.name: model for unit in units}
    return adaptation_of(file, inner, program_of, name=adaptation, parameters=parameters)


def iterate(
    model: Model, tolerance: float = 1e-8, max_iterations: int = 50, corrections: int | None = None
) -> Nested:
    """A unit that is a scenario: its steps are repeated until what its units give each other agrees."""
    nest = _nest(model)
    coupling: Any = nest.master.coupled
    made = Iterated(coupling, tolerance=tolerance, max_iterations=max_iterations, corrections=corrections)
    return replace(nest, master=replace(nest.master, coupling=made))


_SOLVERS: dict[str, Callable[..., Any]] = {
    "newton": Newton, "anderson": Anderson, "substitution": FixedPoint
}  # fmt: skip


def solve(
    model: Model, method: str = "newton", tolerance: float = 1e-10, max_iterations: int = 200
) -> Nested:
    """A unit that is a scenario: its algebraic loops are solved by Newton's method, by Anderson's, or by
    successive substitution."""
    nest = _nest(model)
    if not isinstance(method, str) or method not in _SOLVERS:
        raise ModelError(f"there is no method {method!r}. {suggest(str(method), _SOLVERS, 'methods')}")
    coupling: Any = nest.master.coupled
    if not hasattr(coupling, "loops"):
        raise ModelError(f"its coupling is {type(coupling).__name__}, which has no loops to solve")
    loops = _SOLVERS[method](tolerance=tolerance, max_iterations=max_iterations)
    return replace(nest, master=replace(nest.master, coupling=replace(coupling, loops=loops)))


def _nest(model: Model) -> Nested:
    if type(model) is not Nested or model.adaptation is not None:
        raise ModelError(
            "this is for units that are scenarios: put the units of the loop into one, up.Nested(…), or "
            'scenario = "…" in a file'
        )
    return model


_WHOLE = (iterate, solve, sa, as_discrete, as_continuous)
KINDS: Kinds = {**SIGNALS, **RUNNING, **{made.__name__: made for made in _WHOLE}}
"""All adaptations by name: between a unit and its ports, how it runs, and those that need a master inside."""


@dataclass(frozen=True)
class Adapted(Nested):
    """A unit with blocks between it and its ports: `model`, with `adaptations` as they were written."""

    model: Model | None = None
    adaptations: tuple[Given, ...] = ()
    approximations: tuple[tuple[str, Approximation], ...] = ()
    """What inputs inside do between communication points, where adaptations say so, by ``unit.port``."""
    chosen: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    """Values that blocks were given after they were made."""
    derived: bool = False
    """Whether blocks begin with what the unit shows at the start."""

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Adapted:
        """Other values: those of the unit by the names that they had, of blocks as ``low_pass_y.tau``."""
        if (again := self._made_again(values)) is not None:
            return again  # type: ignore[return-value]
        scenario, model, chosen = self.scenario, self.model, dict(self.chosen)
        assert model is not None
        own = {port.name for port in model.ports}
        outer = {port.name for port in scenario.inputs}
        blocks = scenario.units.keys() - {INSIDE}
        for key, value in values.items():
            port = resolve(key, own)[0]
            if resolve(key, outer)[0] in outer:
                scenario = scenario.with_values({key: value})
                if port in own:  # the same start value, which the input outside has from the one inside
                    model = model.with_values({key: value})
                    inside = scenario.units[INSIDE].with_values({key: value})
                    scenario = scenario.with_units({INSIDE: inside})
            elif split(key)[0] in blocks:
                scenario, chosen[key] = scenario.with_values({key: value}), value
            else:
                short = key if port in own else key.removeprefix(f"{INSIDE}.")
                model = model.with_values({short: value})
                scenario = scenario.with_values({f"{INSIDE}.{short}": value})
        if self.derived:
            made = _wired(model, [(given, read(given, KINDS)) for given in self.adaptations], chosen)
            begun = {name: unit for name, unit in made.scenario.units.items() if name != INSIDE}
            scenario = scenario.with_units(begun).with_values(chosen)
        made = replace(self, scenario=scenario, model=model, chosen=tuple(chosen.items()))
        return made.made_of(self._adapts_with(values))


def adapted(
    what: Model | Adaptation, *adaptations: Given, engine: EngineName = "auto", flatten: bool = True
) -> Model:
    """A model with adaptations around it, the first that is listed nearest to it; or an `Adaptation` as a
    model.

        up.adapted(motor, "gain 0.1047 on n", "low_pass 0.02 on n", "every 0.001")

    Each is a text or a table: the page on adaptations has all of them. `engine` and `flatten` are those of
    the programs inside that an `Adaptation`, and adaptations about how a unit runs (``rate 3``), become.
    """
    found: Model
    program = isinstance(what, Adaptation)
    if isinstance(what, Adaptation):
        found = program_of(what, engine=engine, flatten=flatten)
    elif hasattr(what, "ports") and hasattr(what, "instantiate"):
        found = what
    else:
        raise ModelError(f"the first argument of adapted is a model or an Adaptation, not {what!r}")
    waiting = [(given, read(given, KINDS)) for given in adaptations]
    while waiting:
        signals = []
        while waiting and waiting[0][1].kind in SIGNALS:
            signals.append(waiting.pop(0))
        if signals:
            found = _wired(found, signals)
        if waiting:
            given, asked = waiting.pop(0)
            found = _run(found, given, asked, engine, flatten)
            program |= isinstance(found, Nested)
    if not program and (engine != "auto" or not flatten):
        raise InvalidInput(
            "engine and flatten are for adaptations that become a program inside the unit, as rate 3 does, "
            "and there is none. Leave them out here, and give them to the experiment"
        )
    return found


def _wired(
    model: Model, asked: Sequence[tuple[Given, Asked]], chosen: Mapping[str, Any] | None = None
) -> Adapted:
    """Blocks around a model, which have been given `chosen` values since, if they are made again."""
    before: tuple[Given, ...] = ()
    stacked: Adapted | None = None
    if type(model) is Adapted and model.model is not None and model.adapts is None:
        before, stacked, model = model.adaptations, model, model.model  # stacked adaptations are one
    values = dict(chosen or (() if stacked is None else stacked.chosen))
    work = Wired(model, chosen=values)
    for k, one in enumerate((*(read(given, KINDS) for given in before), *(one for _, one in asked))):
        if stacked is not None and k == len(before):  # with the values that it has by now
            work.units.update(stacked.scenario.units)
            for port in stacked.scenario.inputs:
                work.inputs[port.name] = replace(work.inputs[port.name], start=port.start)
        try:
            SIGNALS[one.kind](work, one.on, **one.arguments)
        except InvalidInput as error:
            text = str(error)
            raise ModelError(text if repr(one.text) in text else f"{one.text!r}: {text}") from None
    given = (*before, *(given for given, _ in asked))
    paths = tuple(work.approximations.items())
    return Adapted(
        work.scenario(), _master(work), model=model, adaptations=given, approximations=paths,
        chosen=tuple(values.items()), derived=work.derived,
    )  # fmt: skip


def formulas_of(model: Adapted) -> Nested | None:
    """The same as a program, if only formulas are between a unit and its ports: then it is part of a program
    around it, and the unit follows its inputs as it would without them. None if there is more."""
    scenario = model.scenario
    if scenario.units.keys() != {INSIDE} or model.approximations:
        return None
    inside = scenario.units[INSIDE]
    outer = (*scenario.inputs, *(output.port for output in scenario.outputs))
    inner = tuple(port for port in inside.ports if port.causality is not Causality.PARAMETER)
    odd = (port.event or port.kind is Kind.STRING or port.reactive is not None for port in (*outer, *inner))
    if Ability.NEXT_EVENT in inside.abilities or any(odd):
        return None
    found: dict[str, tuple[Port, Expr]] = {}  # of every cell
    sizes = {port.name: port for port in inner}
    for connection in scenario.connections:
        port = sizes[connection.port]
        ends = cell_names(f"{INSIDE}.{port.name}", port.size)
        found |= {end: (port, cell) for end, cell in zip(ends, connection.cells, strict=True)}
    stored_in = {end: f"taken_{n}" for n, end in enumerate(found)}
    shown = {
        end: (output.port, cell)
        for output in scenario.outputs
        for end, cell in zip(cell_names(output.port.name, output.port.size), output.cells, strict=True)
    }
    stored_out = {end: f"shown_{n}" for n, end in enumerate(shown)}
    first, second = (
        Rule(
            tuple(Assign(to[end], cell) for end, (_, cell) in ends.items()),
            tuple(Assign(end, Name(to[end])) for end in ends),
        )
        for ends, to in ((found, stored_in), (shown, stored_out))
    )
    try:
        made = Adaptation(
            {INSIDE: inside},
            tuple(replace(port, derivative=None, unit=None) for port in outer),
            in_rules=(first,) if found else (),
            out_rules=(second,),
            inputs=tuple(Stored(stored_in[end], 0.0, port.kind) for end, (port, _) in found.items()),
            outputs=tuple(Stored(stored_out[end], 0.0, port.kind) for end, (port, _) in shown.items()),
            name="formulas",
        )
    except ModelError:  # a name that means something else there, or what connections alone can do
        return None
    return program_of(made) if made.mapping is not None else None


def _run(model: Model, given: Given, asked: Asked, engine: EngineName, flatten: bool) -> Model:
    """An adaptation about how the unit runs; `engine` and `flatten` are those of a program."""
    arguments: dict[str, Any] = dict(asked.arguments)
    make = KINDS[asked.kind]
    on = signature(make).parameters.get("on")
    if on is None and asked.on:
        raise ModelError(f"{asked.text!r}: {asked.kind} is about the whole unit; leave out 'on …'")
    if on is not None and on.default is on.empty and not asked.on:
        raise ModelError(f"{asked.text!r}: say which ports it is about: on …")
    if asked.on:
        arguments["on"] = asked.on
    try:
        made = make(model, **arguments)
    except InvalidInput as error:
        raise ModelError(f"{asked.text!r}: {error}") from None
    if isinstance(made, Adaptation):
        made = Program(made, {})
    derived = isinstance(made, Program) and made.derived
    if isinstance(made, Program):
        made = _renamed(program_of(made.adaptation, engine=engine, flatten=flatten), made.renamed)
    elif isinstance(made, Nested) and (engine != "auto" or not flatten):
        made = replace(made, engine=engine, flatten=flatten)
    assert hasattr(made, "instantiate")
    if isinstance(made, Nested):
        return made.made_of((model, given), derived=derived)
    return made  # type: ignore[no-any-return]


def _renamed(model: Model, names: Mapping[str, str]) -> Model:
    """The model with other names of ports."""
    if not names:
        return model
    work = Wired(model)
    for old, new in names.items():
        work.rename(old, new)
    return Adapted(work.scenario(), _master(work), model=model)


def _master(work: Wired) -> Master:
    """For blocks around a unit that are a program of their own, inside another adaptation: they stop where
    the unit does."""
    inside = work.units[INSIDE]
    coupling: Coupling | None = Negotiated() if Ability.EARLY_RETURN in inside.abilities else None
    if any(port.reactive for port in inside.ports):
        coupling = GaussSeidel()
    return Master(EventDriven(), coupling, ports=dict(work.approximations))


def names_in(part: object) -> Iterator[str]:
    """All texts in a part of a master: what it calls units and ports."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for key, value in part.items():
            yield from names_in(key)
            yield from names_in(value)
    elif isinstance(part, (list, tuple, set, frozenset)):
        for item in part:
            yield from names_in(item)
    elif is_dataclass(part) and not isinstance(part, type):
        for one in fields(part):
            yield from names_in(getattr(part, one.name))


def mentions(part: object, unit: str) -> bool:
    """Whether a part of a master speaks of a unit by name."""
    return any(name == unit or name.startswith(f"{unit}.") for name in names_in(part))


def _alike(made: Model, model: Nested) -> bool:
    """Whether a model that is made again is the one that is there."""
    if not isinstance(made, Nested) or model.adaptation is None:
        return made == model
    # Storage of a program starts with what its inputs were when it was made, which is not seen.
    return (made.ports, made.engine, made.flatten) == (model.ports, model.engine, model.flatten)


def taken_apart(model: Model) -> tuple[Model, list[Any]] | None:
    """An adapted model as a file holds it: the model inside, and all adaptations; None if it is none."""
    given: list[Given] = []
    while True:
        found: tuple[Given, ...]
        if getattr(model, "adapts", None) is not None:
            inside, one = model.adapts  # type: ignore[attr-defined]
            found = (one,)
        elif isinstance(model, Adapted) and model.model is not None:
            inside, found = model.model, model.adaptations
        else:
            break
        if isinstance(model, Nested) and not _alike(adapted(inside, *found), model):
            raise InvalidInput(
                "an adapted unit is not what its adaptations say: blocks have other values, or it has an "
                "engine of its own, or stays nested. Write the values there; the others are for Python"
            )
        model = inside
        given = [*found, *given]
    return (model, [dict(one) if isinstance(one, Mapping) else one for one in given]) if given else None
