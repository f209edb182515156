"""Discrete-event units: modes, variables, what is sent and when, and what is wrong with such a model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from upbeat.core.abilities import Ability, Core, speaks_for_itself
from upbeat.core.errors import ExpressionError, ModelError, check_type, suggest
from upbeat.core.expr import Apply, Expr, Name, Number, Op, any_of, apply, indicator, names, show
from upbeat.core.expr.nodes import ordered
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Value, check_variable
from upbeat.core.records import dataclass
from upbeat.units.equations.arranging import free_name
from upbeat.units.equations.data import TIME
from upbeat.units.inputs import packed_size
from upbeat.units.shorthand import Complaints, check_settable, check_unique, unwrapped, with_starts

if TYPE_CHECKING:
    from upbeat.units.discrete.unit import DiscreteTables, DiscreteUnit, ModePieces, Piece


# ----------------------------------------------------------------------------------------------------
# Plain Python values as text and back: exact, and safe to read from anywhere, because nothing is executed.
#
# JSON, with what it lacks as tables of one entry: ``{"tuple": […]}``, ``{"dict": [[key, value], …]}``,
# ``{"set": […]}``, ``{"frozenset": […]}``, ``{"bytes": "hex"}``. Infinity and NaN are written as Python's
# own reader of JSON knows them. Pickle would take more, but runs code when it is read.

_PLAIN = (type(None), bool, int, float, str)


def dumps(value: Any) -> str:
    """The text of `value`; TypeError, naming the culprit, if it contains anything but plain values."""
    try:
        return json.dumps(_tagged(value), separators=(",", ":"))
    except RecursionError:
        raise TypeError("it is nested too deeply, or contains itself") from None


def loads(text: str | bytes) -> Any:
    """The value of a text; ValueError if `dumps` did not write it."""
    try:
        return _untagged(json.loads(text))
    except (TypeError, RecursionError):
        raise ValueError("this is no text of a plain value") from None


def _tagged(value: Any) -> Any:
    kind = type(value)  # and not isinstance: a named tuple would come back as a mere tuple
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is tuple:
        return {"tuple": [_tagged(item) for item in value]}
    if kind is dict:
        return {"dict": [[_tagged(key), _tagged(item)] for key, item in value.items()]}
    if kind in (set, frozenset):  # in an order that does not depend on the run
        return {kind.__name__: sorted((_tagged(item) for item in value), key=json.dumps)}
    if kind is bytes:
        return {"bytes": value.hex()}
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__} is no plain value")


_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda items: tuple(map(_untagged, items)),
    "dict": lambda pairs: {_untagged(key): _untagged(item) for key, item in pairs},
    "set": lambda items: set(map(_untagged, items)),
    "frozenset": lambda items: frozenset(map(_untagged, items)),
    "bytes": bytes.fromhex,
}


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if isinstance(value, dict):
        if len(value) != 1 or (tag := next(iter(value))) not in _READERS:
            raise ValueError("this is no text of a plain value")
        return _READERS[tag](value[tag])
    return value


_FIXED = (type(None), bool, int, float, complex, str, bytes)


def is_fixed(value: Any) -> bool:
    """Whether `value` cannot be changed, so that it need not be copied."""
    kind = type(value)
    if kind in _FIXED:
        return True
    return kind in (tuple, frozenset) and all(map(is_fixed, value))


# ----------------------------------------------------------------------------------------------------
# What can be wrong with a `Discrete` model; everything is found before anything is raised.


def check(model: Discrete) -> None:
    """Raise a `ModelError` with everything that is wrong."""
    check_type(model.ports, Iterable, "ports")
    for port in model.ports:
        check_type(port, Port, "a port")
    complaints = Complaints()
    _check_names(model, complaints)
    complaints.raise_if_any()  # what follows looks for names
    _check_modes(model, complaints)
    _check_outputs(model, complaints)
    known = model.places
    quiet = _quiet_names(model)
    _check_assignments(model, "initial", model.initial, _start_names(model), complaints)
    for i, mode in enumerate(model.modes):
        _check_expressions([(f"modes[{i}].due", [mode.due])], known, complaints)
        _check_emissions(model, f"modes[{i}].emissions", mode.emissions, complaints)
        _check_assignments(model, f"modes[{i}].internal", mode.internal, known, complaints)
        _check_assignments(model, f"modes[{i}].external", mode.external, known, complaints)
    shown = [(f"outputs.{name}", cells) for name, cells in model.outputs]
    _check_expressions(shown, quiet, complaints)
    complaints.raise_if_any()


def with_depends(ports: Iterable[Port], outputs: Iterable[tuple[str, Sequence[Expr]]]) -> tuple[Port, ...]:
    """The ports, with each ordinary output depending on the inputs that its expressions contain."""
    ports = tuple(ports)
    behind = {
        cell: port.name
        for port in ports
        if port.causality is Causality.INPUT and not port.event
        for cell in cell_names(port.name, port.size)
    }
    used = {
        name: frozenset(behind[n] for cell in cells for n in names(cell) if n in behind)
        for name, cells in outputs
    }
    return tuple(
        replace(port, depends=used[port.name])
        if port.causality is Causality.OUTPUT and not port.event
        else port
        for port in ports
    )


def _check_names(model: Discrete, complaints: Complaints) -> None:
    check_unique(model.ports, complaints)
    for port in model.ports:
        with complaints.at(port.name):
            check_variable(port.name)
        if port.kind is Kind.STRING:
            complaints.add(port.name, "a discrete unit has no strings; use an integer with items")
        if port.name == TIME:
            complaints.add(port.name, f"'{TIME}' is the unit's own time; choose another name")
    taken = {
        port.name: port.causality.value for port in model.ports if port.causality is not Causality.OUTPUT
    }
    taken[TIME] = "the unit's own time"
    for variable in model.variables:
        where = f"variables.{variable.name}"
        with complaints.at(where):
            if variable.kind is Kind.STRING:
                raise ModelError("a variable is real, integer or boolean")
            if variable.items and variable.kind is not Kind.INTEGER:
                raise ModelError(f"items make an enumeration, which is integer and not {variable.kind.value}")
            check_variable(variable.name)
            _ = variable.port  # says what is wrong with the start
        if variable.name in taken:
            complaints.add(where, f"the name '{variable.name}' is used twice (also {taken[variable.name]})")
        taken[variable.name] = "variable"


def _check_modes(model: Discrete, complaints: Complaints) -> None:
    if not model.modes:
        complaints.add("modes", "a discrete unit needs at least one mode")
    if model.mode is None:
        if len(model.modes) > 1:
            complaints.add("mode", "with several modes, name the integer variable that says which one holds")
        return
    found = {variable.name: variable for variable in model.variables}.get(model.mode)
    if found is None:
        hint = suggest(model.mode, [variable.name for variable in model.variables], "variables")
        complaints.add("mode", f"there is no variable '{model.mode}'. {hint}")
    elif found.kind is not Kind.INTEGER:
        complaints.add("mode", f"'{model.mode}' is {found.kind.value}, but must be an integer")
    elif not 0 <= int(found.start) < len(model.modes):
        complaints.add(
            "mode",
            f"'{model.mode}' starts at {found.start}, but there are the modes 0 to {len(model.modes) - 1}",
        )


def _check_outputs(model: Discrete, complaints: Complaints) -> None:
    ports = {port.name: port for port in model.shown}
    given = Counter(name for name, _ in model.outputs)
    for name, cells in model.outputs:
        where = f"outputs.{name}"
        if name not in ports:
            hint = suggest(name, ports, "ordinary outputs")
            complaints.add(where, f"there is no ordinary output '{name}'. {hint}")
        elif len(cells) != ports[name].cells:
            complaints.add(where, f"{ports[name].cells} expression(s) needed, not {len(cells)}")
        if given[name] > 1:
            complaints.add(where, "given twice")
    for name in ports:
        if name not in given:
            complaints.add(f"outputs.{name}", "this output has no expression")


def _check_emissions(
    model: Discrete, where: str, emissions: Sequence[Emission], complaints: Complaints
) -> None:
    ports = {port.name: port for port in model.sent}
    seen: set[str] = set()
    used: list[tuple[str, Sequence[Expr]]] = []
    for emission in emissions:
        here = f"{where}.{emission.port}"
        if emission.port not in ports:
            hint = suggest(emission.port, ports, "event outputs")
            complaints.add(here, f"there is no event output '{emission.port}'. {hint}")
            continue
        if emission.port in seen:
            complaints.add(here, "given twice")
        if len(emission.cells) != ports[emission.port].cells:
            needed = ports[emission.port].cells
            complaints.add(here, f"{needed} expression(s) needed, not {len(emission.cells)}")
        seen.add(emission.port)
        used.append((here, [emission.present, *emission.cells]))
    _check_expressions(used, model.places, complaints)


def _check_assignments(
    model: Discrete, where: str, assignments: Assignments, known: Iterable[str], complaints: Complaints
) -> None:
    variables = {variable.name for variable in model.variables}
    seen: set[str] = set()
    used: list[tuple[str, Sequence[Expr]]] = []
    for name, value in assignments:
        if name not in variables:
            hint = suggest(name, variables, "variables")
            complaints.add(f"{where}.{name}", f"there is no variable '{name}'. {hint}")
        if name in seen:
            complaints.add(f"{where}.{name}", "given twice")
        seen.add(name)
        used.append((f"{where}.{name}", [value]))
    _check_expressions(used, known, complaints)


def _check_expressions(
    used: Iterable[tuple[str, Sequence[Expr]]], known: Iterable[str], complaints: Complaints
) -> None:
    known, used = set(known), list(used)
    together = ordered(expr for _, exprs in used for expr in exprs)  # they share parts
    if all(node.id in known for node in together if isinstance(node, Name)):
        return
    for where, exprs in used:
        for name in sorted({name for expr in exprs for name in names(expr)} - known):
            complaints.add(where, f"'{name}' is not known here. {suggest(name, known, 'names')}")


def _quiet_names(model: Discrete) -> list[str]:
    """What an ordinary output may name: everything but events, which are absent between instants."""
    events = {name for port in model.heard for name in (*cell_names(port.name, port.size), f"{port.name}?")}
    return [name for name in model.arguments if name not in events]


def _start_names(model: Discrete) -> list[str]:
    """What an initial value may name: inputs have not been set yet, so everything but these."""
    inputs = {name for port in model.inputs for name in cell_names(port.name, port.size)}
    return [name for name in _quiet_names(model) if name not in inputs]


# ----------------------------------------------------------------------------------------------------
# `Discrete`: a unit whose state changes only at events, as frozen data: variables, modes and expressions.

Assignments = tuple[tuple[str, Expr], ...]
"""New values of variables. All are computed before any is written; the other variables keep theirs."""

NEVER = 1e100
"""Seconds: later than any run, and small enough that predictions may take its square."""


@dataclass(frozen=True)
class Variable:
    """One cell of the state: real, integer (an enumeration has `items`) or boolean."""

    name: str
    kind: Kind
    start: Value
    items: tuple[str, ...] = ()

    @property
    def port(self) -> Port:
        """The same as a port with a value to set, like that of a parameter."""
        return Port(self.name, Causality.PARAMETER, self.kind, start=(self.start,), items=self.items)


@dataclass(frozen=True)
class Emission:
    """What an event output sends: the values of `cells`, unless `present` is 0."""

    port: str
    present: Expr
    cells: tuple[Expr, ...]


@dataclass(frozen=True)
class Mode:
    """What holds in one mode.

    * `due`: when something will happen by itself, as an absolute time; infinity for never. The own time or
      earlier means at once, so that a condition on inputs is ``where(condition, time, …)``.
    * `emissions`: what the next jump sends, if it is due. Event outputs that are not listed are absent.
    * `internal`: what a jump does when it is due by itself; `external`: when events have been set.
    """

    due: Expr
    emissions: tuple[Emission, ...] = ()
    internal: Assignments = ()
    external: Assignments = ()


@dataclass(frozen=True)
class Discrete:
    """A discrete-event unit: its variables change only in jumps, by the expressions of the active mode.

    * `ports`: inputs and outputs, events among them, and parameters. No strings. What an ordinary output
      depends on directly is found in its expressions.
    * `mode`: the integer variable that says which of `modes` holds; None if there is only one.
    * `outputs`: the ordinary outputs, one expression per cell.
    * `initial`: values of variables at the start, from the start time, the start values and the parameters.

    Names in expressions: ``time`` (the unit's own), variables, ordinary inputs, parameters (cells of arrays
    as ``u[0]``). An event input stands for what has been set, and ``port?`` is 1 if it has been set and 0 if
    not; ordinary outputs and `initial` do not see events. All values are doubles; an integer variable takes
    the nearest whole number, a boolean one everything but 0 as true.
    """

    ports: tuple[Port, ...]
    variables: tuple[Variable, ...] = ()
    mode: str | None = None
    modes: tuple[Mode, ...] = ()
    outputs: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    initial: Assignments = ()
    at_instants: ClassVar[bool] = True

    def __post_init__(self) -> None:

        check(self)
        object.__setattr__(self, "ports", with_depends(self.ports, self.outputs))

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what has been computed from them.
        return type(self), tuple(getattr(self, field.name) for field in fields(Discrete))

    @property
    def abilities(self) -> frozenset[Ability]:
        native = {Ability.NATIVE} if speaks_for_itself(type(self)) else set()
        return frozenset({Ability.ROLLBACK, Ability.SERIALISE, Ability.NEXT_EVENT, *native})

    @property
    def remembers(self) -> tuple[str, ...]:
        """What the bytes of its states hold besides inputs and events."""
        return tuple(f"{variable.name}: {variable.kind.value}" for variable in self.variables)

    def named_states(self) -> tuple[str, ...]:
        """The variables; the rest of its states as bytes is the time, what inputs do and what has come."""
        heard = sum(port.cells + 1 for port in self.heard)
        names = (variable.name for variable in self.variables)
        return ("", *names, *[""] * (packed_size(self.inputs) + heard))

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same model with other parameters, starts of ordinary inputs or starts of variables."""
        settable = [p for p in self.ports if p.causality is not Causality.OUTPUT and not p.event]
        variables = tuple(variable.port for variable in self.variables)
        check_settable(values, [port.name for port in (*settable, *variables)])
        changed = {port.name: port for port in with_starts(settable, values)}
        starts = [port.initial[0] for port in with_starts(variables, values)]
        return replace(
            self,
            ports=tuple(changed.get(port.name, port) for port in self.ports),
            variables=tuple(
                replace(variable, start=start) for variable, start in zip(self.variables, starts, strict=True)
            ),
        )

    def instantiate(self, name: str, start: float) -> DiscreteUnit:
        """A unit for the interpreter, in its start state."""
        from upbeat.units.discrete.unit import DiscreteUnit

        return DiscreteUnit(self, start)

    def enter(self, core: Core, name: str, start: float) -> object:
        """A unit for the native engine, in its start state."""
        return core.discrete(self.lower(start))

    def lower(self, start: float) -> DiscreteTables:
        """The same unit as flat tables, for the native engine, in its state at time `start`."""
        from upbeat.units.discrete.unit import lower

        return lower(self, start)

    @cached_property
    def still(self) -> bool:
        """Whether nothing but its own time changes between two jumps, so that it may be left standing."""
        shown = [cell for _, cells in self.outputs for cell in cells]
        seen = {name for expr in (*shown, *(mode.due for mode in self.modes)) for name in names(expr)}
        heard = {name for port in self.heard for name in (f"{port.name}?", *cell_names(port.name, port.size))}
        return speaks_for_itself(type(self)) and not self.inputs and seen.isdisjoint({TIME, *heard})

    def showing(self) -> Discrete:
        """The same model with outputs for the variables that what it waits for depends on, its mode among
        them; itself if it waits for nothing but time and events."""
        used = {name for _, zs in self.awaited for z in zs for name in names(z)}
        hidden = [variable for variable in self.variables if variable.name in used]
        taken = {*self.arguments, *(port.name for port in self.ports)}
        made = [(free_name(f"now_{variable.name}", taken), variable) for variable in hidden]
        if not self.awaited or any(port.internal for port in self.shown):
            return self
        ports = [Port(name, Causality.OUTPUT, variable.kind, internal=True) for name, variable in made]
        shown = tuple((name, (_finite(variable),)) for name, variable in made)
        return replace(self, ports=(*self.ports, *ports), outputs=(*self.outputs, *shown))

    # -- what is computed from the fields, once ----------------------------------------------------

    @cached_property
    def awaited(self) -> tuple[tuple[str, tuple[Expr, ...]], ...]:
        """The conditions on ordinary inputs that it waits for: as they were written, and as numbers in its
        own names, all of which are at most zero when one comes true. Of several modes, the first number says
        whether it is in one that waits for it."""
        kinds = {name: port.kind for port in self.ports for name in cell_names(port.name, port.size)}
        kinds |= {variable.name: variable.kind for variable in self.variables}
        cells = {name for port in self.inputs for name in cell_names(port.name, port.size)}
        heard = {f"{port.name}?" for port in self.heard}
        heard |= {name for port in self.heard for name in cell_names(port.name, port.size)}
        found: dict[tuple[Expr, ...], tuple[str, list[int]]] = {}
        for number, mode in enumerate(self.modes):
            for parts in _at_once(mode.due):
                seen = {name for part in parts for name in names(part)}
                if seen & cells and not seen & heard:
                    zs = tuple(dict.fromkeys(_indicated(part, kinds) for part in parts))
                    text = " and ".join(show(part) for part in parts if names(part) & cells)
                    found.setdefault(zs, (text, []))[1].append(number)
        if self.mode is None or len(self.modes) == 1:
            return tuple((text, zs) for zs, (text, _) in found.items())
        return tuple((text, (self._in_one_of(modes), *zs)) for zs, (text, modes) in found.items())

    def _in_one_of(self, modes: Sequence[int]) -> Expr:
        assert self.mode is not None
        mode = Name(self.mode)
        holds = any_of([Apply(Op.EQ, (mode, Number(float(number)))) for number in modes])
        return Apply(Op.WHERE, (holds, Number(-0.5), Number(0.5)))

    def _ports(self, causality: Causality, event: bool) -> tuple[Port, ...]:
        return tuple(p for p in self.ports if p.causality is causality and p.event is event)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The ordinary inputs."""
        return self._ports(Causality.INPUT, event=False)

    @cached_property
    def heard(self) -> tuple[Port, ...]:
        """The event inputs."""
        return self._ports(Causality.INPUT, event=True)

    @cached_property
    def shown(self) -> tuple[Port, ...]:
        """The ordinary outputs."""
        return self._ports(Causality.OUTPUT, event=False)

    @cached_property
    def sent(self) -> tuple[Port, ...]:
        """The event outputs."""
        return self._ports(Causality.OUTPUT, event=True)

    @property
    def values(self) -> tuple[float, ...]:
        """The value of every parameter cell."""
        parameters = self._ports(Causality.PARAMETER, event=False)
        return tuple(float(value) for port in parameters for value in port.initial)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """What expressions may name, in the order in which a unit holds them: time, variables, the cells of
        ordinary inputs, those of event inputs, whether each event has been set, the cells of parameters."""
        cells = [
            [name for port in ports for name in cell_names(port.name, port.size)]
            for ports in (self.inputs, self.heard, self._ports(Causality.PARAMETER, event=False))
        ]
        variables = [variable.name for variable in self.variables]
        flags = [f"{port.name}?" for port in self.heard]
        return (TIME, *variables, *cells[0], *cells[1], *flags, *cells[2])

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each argument is."""
        return {name: place for place, name in enumerate(self.arguments)}

    @cached_property
    def mode_place(self) -> int | None:
        """Which variable is the mode."""
        names = [variable.name for variable in self.variables]
        return None if self.mode is None else names.index(self.mode)

    @cached_property
    def _pieces(self) -> dict[int, ModePieces]:
        return {}

    def pieces(self, mode: int) -> ModePieces:
        """The code of a mode, made when it is first needed."""
        from upbeat.units.discrete.unit import mode_pieces

        if mode not in self._pieces:
            self._pieces[mode] = mode_pieces(self, self.modes[mode])
        return self._pieces[mode]

    @cached_property
    def computed(self) -> Piece:
        """The code of the ordinary outputs, in the order of the ports."""
        from upbeat.units.discrete.unit import Piece

        cells = dict(self.outputs)
        return Piece.of(self.places, [cell for port in self.shown for cell in cells[port.name]])


def _at_once(due: Expr) -> list[tuple[Expr, ...]]:
    """The conditions under which a due time is the present one, each a list of truths that all hold."""
    match due:
        case Name(id=name) if name == TIME:
            return [()]
        case Apply(op=Op.WHERE, args=(condition, one, other)):
            denied = Apply(Op.NOT, (condition,))
            holds = [(*_parts(condition), *rest) for rest in _at_once(one)]
            return holds + [(*_parts(denied), *rest) for rest in _at_once(other)]
        case Apply(op=Op.MIN, args=(one, other)):
            return _at_once(one) + _at_once(other)
    return []


def _parts(condition: Expr) -> Iterator[Expr]:
    """What must all hold for a condition to do so."""
    todo = [condition]
    while todo:
        match todo.pop():
            case Apply(op=Op.AND, args=args):
                todo += reversed(args)
            case part:
                yield part


def _indicated(condition: Expr, kinds: Mapping[str, Kind]) -> Expr:
    """A number that is at most zero where a condition holds; one that has no sides jumps."""
    try:
        return indicator(condition, kinds)
    except ExpressionError:
        return Apply(Op.WHERE, (condition, Number(-0.5), Number(0.5)))


def _finite(variable: Variable) -> Expr:
    """A variable as an output, which must be a number: a time that never comes is a very late one."""
    if variable.kind is not Kind.REAL:
        return Name(variable.name)
    return apply(Op.MIN, apply(Op.MAX, Name(variable.name), Number(-NEVER)), Number(NEVER))


# ----------------------------------------------------------------------------------------------------
# What all front ends of `Discrete` share: they are written in other words, and run as what they mean.


def changes_at_instants(model: object) -> bool:
    """Whether what a model gives out changes in jumps only, as a `Discrete` one says of itself."""
    return bool(getattr(model, "at_instants", False))


def discrete_of(model: object) -> Discrete | None:
    """The variables and modes that say all about a model; None if it is something else, or a subclass of
    `Discrete`, which may mean more than they say."""
    found = model.discrete if isinstance(model, FrontEnd) else model
    return found if type(found) is Discrete else None


@dataclass(frozen=True, init=False)
class FrontEnd:
    """A model that is a `Discrete` one inside. Two are equal if they were written the same way.

    `discrete` is what it means; `written` is the part of the description that values do not change, as text.
    """

    discrete: Discrete
    written: str

    def __init__(self, discrete: Discrete, written: Mapping[str, Any]) -> None:
        object.__setattr__(self, "discrete", discrete)
        object.__setattr__(self, "written", json.dumps(plain_of(written)))

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters."""
        return self.discrete.ports

    @property
    def abilities(self) -> frozenset[Ability]:
        own = self.discrete.abilities
        return own if speaks_for_itself(type(self)) else own - {Ability.NATIVE}

    @property
    def still(self) -> bool:
        """Whether nothing but its own time changes between two jumps."""
        return self.discrete.still and speaks_for_itself(type(self))

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same model with other values."""
        raise NotImplementedError

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``type(model)(**model.to_spec()) == model``."""
        raise NotImplementedError

    def instantiate(self, name: str, start: float) -> DiscreteUnit:
        """A unit for the interpreter, in its start state."""
        return self.discrete.instantiate(name, start)

    def enter(self, core: Core, name: str, start: float) -> object:
        """A unit for the native engine, in its start state."""
        return self.discrete.enter(core, name, start)

    def lower(self, start: float) -> DiscreteTables:
        """The same unit as flat tables, for the native engine, in its state at time `start`."""
        return self.discrete.lower(start)

    def __reduce__(self) -> tuple[Any, ...]:
        # As it was written: short, and independent of what it is compiled to.
        return _rebuild, (type(self), self.to_spec())


def _rebuild(kind: type[Any], spec: dict[str, Any]) -> Any:
    return kind(**spec)


def plain_of(value: Any) -> Any:
    """A description as texts, numbers, lists and tables: what a file can hold."""
    value = unwrapped(value)
    if isinstance(value, Mapping):
        return {str(key): plain_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_of(item) for item in value]
    return show(value) if isinstance(value, Expr) else value
