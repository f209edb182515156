"""Adapted units: `upbeat.adapted`, and what the library of adaptations (`upbeat.adapt.library`) becomes.

Adaptations that stand between a unit and its ports are a nested scenario that always gives way to what is in
it: the program is that of the same blocks typed by hand, under every coupling. Those about how a unit runs
are programs inside a unit (`upbeat.adapt.adaptation`) or models around the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

from upbeat.adapt.adaptation import Adaptation
from upbeat.adapt.library import INSIDE, KINDS, SIGNALS, Asked, Given, Wired, read
from upbeat.adapt.running import Program
from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, ModelError, check_type, suggest
from upbeat.core.ports import Value
from upbeat.engine.choose import EngineName
from upbeat.engine.nesting.model import Nested, as_continuous, as_discrete
from upbeat.engine.nesting.model import adapted as program_of
from upbeat.master.couplings.coupling import GaussSeidel
from upbeat.master.couplings.iterated import Iterated
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


KINDS.setdefault("iterate", iterate)
KINDS.setdefault("solve", solve)
KINDS.setdefault("sa", sa)
KINDS.setdefault("as_discrete", as_discrete)
KINDS.setdefault("as_continuous", as_continuous)


@dataclass(frozen=True)
class Adapted(Nested):
    """A unit with blocks between it and its ports: `model`, with `adaptations` as they were written."""

    model: Model | None = None
    adaptations: tuple[Given, ...] = ()
    approximations: tuple[tuple[str, Approximation], ...] = ()
    """What inputs inside do between communication points, where adaptations say so, by ``unit.port``."""

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Adapted:
        """Other values: those of the unit by the names that they had, of blocks as ``low_pass_y.tau``."""
        blocks = [name for name in self.scenario.units if name != INSIDE]
        own = {key: value for key, value in values.items() if key.partition(".")[0] not in blocks}
        others = {key: value for key, value in values.items() if key not in own}
        found = self
        if own:
            assert self.model is not None
            ports = {port.name for port in self.model.ports}
            short = {
                key.removeprefix(f"{INSIDE}.") if key not in ports else key: value
                for key, value in own.items()
            }
            made = adapted(self.model.with_values(short), *self.adaptations)
            assert isinstance(made, Adapted)
            found = made
        return replace(found, scenario=found.scenario.with_values(others)) if others else found


def adapted(
    what: Model | Adaptation, *adaptations: Given, engine: EngineName = "auto", flatten: bool = True
) -> Model:
    """A model with adaptations around it, the first that is listed nearest to it; or an `Adaptation` as a
    model.

        up.adapted(motor, "gain 0.1047 on n", "low_pass 0.02 on n", "every 0.001")

    Each is a text or a table: the page on adaptations has all of them. `engine` and `flatten` are those of
    the program inside that an `Adaptation` becomes.
    """
    found: Model
    if isinstance(what, Adaptation):
        found = program_of(what, engine=engine, flatten=flatten)
    elif hasattr(what, "ports") and hasattr(what, "instantiate"):
        found = what
    else:
        raise ModelError(f"the first argument of adapted is a model or an Adaptation, not {what!r}")
    waiting = [(given, read(given)) for given in adaptations]
    while waiting:
        signals = []
        while waiting and waiting[0][1].kind in SIGNALS:
            signals.append(waiting.pop(0))
        if signals:
            found = _wired(found, signals)
        if waiting:
            given, asked = waiting.pop(0)
            found = _run(found, given, asked)
    return found


def _wired(model: Model, asked: Sequence[tuple[Given, Asked]]) -> Model:
    before: tuple[Given, ...] = ()
    if type(model) is Adapted and model.model is not None:  # stacked adaptations are one
        before, model = model.adaptations, model.model
    work = Wired(model)
    for one in (*(read(given) for given in before), *(one for _, one in asked)):
        try:
            SIGNALS[one.kind](work, one.on, **one.arguments)
        except InvalidInput as error:
            text = str(error)
            raise ModelError(text if repr(one.text) in text else f"{one.text!r}: {text}") from None
    given = (*before, *(given for given, _ in asked))
    chosen = tuple(work.approximations.items())
    reactive = any(port.reactive for port in work.units[INSIDE].ports)
    master = Master(EventDriven(), GaussSeidel() if reactive else None, ports=dict(chosen))
    return Adapted(work.scenario(), master, model=model, adaptations=given, approximations=chosen)


def _run(model: Model, given: Given, asked: Asked) -> Model:
    """An adaptation about how the unit runs."""
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
    if isinstance(made, Program):
        found = _renamed(program_of(made.adaptation), made.renamed)
        object.__setattr__(found, "adapts", (model, given))  # what a file says; no part of what it is
        return found
    assert hasattr(made, "instantiate")
    if isinstance(made, Nested):
        object.__setattr__(made, "adapts", (model, given))
    return made  # type: ignore[no-any-return]


def _renamed(model: Model, names: Mapping[str, str]) -> Model:
    """The model with other names of ports."""
    if not names:
        return model
    work = Wired(model)
    for old, new in names.items():
        work.rename(old, new)
    return Adapted(work.scenario(), Master(EventDriven()), model=model)


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
        for field in fields(part):
            yield from names_in(getattr(part, field.name))


def mentions(part: object, unit: str) -> bool:
    """Whether a part of a master speaks of a unit by name."""
    return any(name == unit or name.startswith(f"{unit}.") for name in names_in(part))


def taken_apart(model: Model) -> tuple[Model, list[Any]] | None:
    """An adapted model as a file holds it: the model inside, and all adaptations; None if it is none."""
    given: list[Given] = []
    while True:
        found: tuple[Given, ...]
        if hasattr(model, "adapts"):
            inside, one = model.adapts
            found, model = (one,), inside
        elif isinstance(model, Adapted) and model.model is not None:
            if adapted(model.model, *model.adaptations) != model:
                raise InvalidInput(
                    "blocks of an adapted unit have other values than its adaptations say. Write these there"
                )
            found, model = model.adaptations, model.model
        else:
            break
        given = [*found, *given]
    return (model, [dict(one) if isinstance(one, Mapping) else one for one in given]) if given else None
