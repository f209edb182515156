"""A generic adaptation as data: inner units, storage, and what is done with both.

From outside the adapted unit is a unit like any other. Inside it has units with connections between them,
storage for inputs, control and outputs, and six functions that are lists of statements:

| function | when it is called | reads | writes |
|---|---|---|---|
| Init (`start` values, then `init`) | once, at the start time | ports, storage | storage |
| In (first parts of `in_rules`) | before every step | inputs, storage | input storage |
| MapIn (second parts of `in_rules`) | before every step of an inner unit | storage | inputs of inner units |
| Ctrl (`control`) | once a step of the adapted unit, after In | all | storage, inputs of inner units |
| MapOut (first parts of `out_rules`) | after every such step | its outputs, storage | output storage |
| Out (second parts of `out_rules`) | whenever outputs are asked for | storage | outputs |

A step of the adapted unit from `t` by `H` is In, then Ctrl. Its outputs at a time
are found thus, and change nothing that is stored: In (if it is `mealy`), then for the inner
units in the order of their direct feedthrough MapIn with ``h = dt = 0``, their outputs and MapOut; then Out.
Where the inner units form an algebraic loop there is no such order, and Out shows what was stored last.

The conditions of all rules of a list are evaluated before any of its first parts is run (by In, and by
MapOut); which ones held is kept, and says which second parts run (in MapIn, and in Out).

At the start time In (not of a delayed one), MapIn and MapOut are run once before `init`, with the inputs of
that time. Where these depend on outputs of the same unit, they are what follows from their start values.

Names in expressions: a port or a variable by its name, ports of inner units as ``unit.port``; an output of
an inner unit is the one that was read last, be it for outputs at a time.
Besides, everywhere but in In: `t`, the time at the start of the
step (in outputs: the present one), and `H`, the size of the step of the adapted unit (in outputs: of the last
one, 1 before the first); in MapIn and MapOut: `h`, the size of the step of the inner unit, and `dt`, how long
after `t` it starts.

Everything is checked when an `Adaptation` is made. `upbeat.engine.nesting.model.adapted` makes a model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import Expr, Name, Number, Op, apply, fits, names, parse, substitute
from upbeat.core.measure import MeasureError, conversion
from upbeat.core.names import cell_names, objection_to, split
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.scenario.scenario import Scenario

Given: TypeAlias = Expr | str | float
"""An expression: as a tree, as text or as a number. What is stored is always a tree (`expr`)."""


def expr(given: Given) -> Expr:
    """The tree of an expression."""
    if isinstance(given, str):
        return parse(given)
    return Number(float(given)) if isinstance(given, (bool, int, float)) else given


def is_close(a: Given, b: Given, relative: Given, absolute: Given) -> Expr:
    """Whether two numbers are nearly the same: |a - b| ≤ max(relative·max(|a|, |b|), absolute)."""
    one, other = expr(a), expr(b)
    size = apply(Op.MAX, apply(Op.ABS, one), apply(Op.ABS, other))
    allowed = apply(Op.MAX, apply(Op.MUL, expr(relative), size), expr(absolute))
    return apply(Op.LE, apply(Op.ABS, apply(Op.SUB, one, other)), allowed)


def own_time(unit: str) -> Name:
    """In expressions of `control`: the time that an inner unit has reached."""
    return Name(f"{unit}′time")


# ----------------------------------------------------------------------------------------------------
# Statements.


@dataclass(frozen=True, slots=True)
class Assign:
    """``to := value``. With `rates`, an input of an inner unit follows ``value + rates[0]·τ + rates[1]·τ² …``
    over its next step, where τ is the time since the start of that step; without, it is held."""

    to: str
    value: Given
    rates: tuple[Given, ...] = ()
    at: str = field(default="", compare=False, repr=False, kw_only=True)
    """Where it is written, for messages."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", expr(self.value))
        object.__setattr__(self, "rates", tuple(map(expr, self.rates)))


@dataclass(frozen=True, slots=True)
class Local:
    """A variable that is known from here to the end of `control` (elsewhere: of the part of the rule, or the
    branch), and its first value. It is not stored."""

    name: str
    value: Given
    kind: Kind = Kind.REAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", expr(self.value))


@dataclass(frozen=True, slots=True)
class When:
    """If `condition` holds `then`, else `orelse`."""

    condition: Given
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", expr(self.condition))


@dataclass(frozen=True, slots=True)
class Loop:
    """`body`, `times` times (a whole number that is known now, so that every loop ends); sooner if `Break` is
    met, or if `until` holds after a round.

    `index` is a local variable: 0, 1, 2, … . With ``exhausted="fail"`` a loop that was not left sooner ends
    the run, and says that `what` did not come to an end. One that sets a unit back at the end of a round
    needs that, or a step of the unit behind it.
    """

    times: int
    body: tuple[Statement, ...]
    index: str | None = None
    until: Given | None = None
    exhausted: Literal["accept", "fail"] = "accept"
    what: str = "the iteration"

    def __post_init__(self) -> None:
        if self.until is not None:
            object.__setattr__(self, "until", expr(self.until))


@dataclass(frozen=True, slots=True)
class Break:
    """Leave the innermost `Loop`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an inner unit by `by`, from the time that it has reached (``do_step``).

    MapIn is called with ``h = by`` and ``dt = start - t``, and connections are followed; an input that
    `control` has assigned before, in the same step of the adapted unit, keeps that instead. Then the unit is
    advanced; one that is `delayed` with the inputs that were found for its step before this one, held. Its
    outputs are read, and MapOut is called. The size of the step that it has made goes to the variable `to`:
    less than `by` if the unit stops early, which it may do only if there is such a variable. A step of no
    length is none: the unit stays where it is, and its outputs are read.
    """

    unit: str
    start: Given = field(default_factory=lambda: Name("t"))
    by: Given = field(default_factory=lambda: Name("H"))
    to: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", expr(self.start))
        object.__setattr__(self, "by", expr(self.by))


@dataclass(frozen=True, slots=True)
class SaveState:
    """Keep the state of an inner unit, until the end of this step at most. It needs rollback."""

    unit: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """Set an inner unit back to the state that was kept last. What was read of its outputs stays known.
    A `SaveState` must certainly come before it in the same step."""

    unit: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """``to :=`` how long a step of an inner unit is until something happens in it by itself: infinity
    if nothing will, or if it does not know (``get_next_time_step``)."""

    unit: str
    to: str


@dataclass(frozen=True, slots=True)
class Return:
    """The step of the adapted unit ends here, with this size: less than `H` shortens it, for who is around
    the unit, too, if that can be (`Negotiated`); else it goes on from there by itself. Without a `Return` a
    step has the size `H`."""

    by: Given = field(default_factory=lambda: Name("H"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", expr(self.by))


@dataclass(frozen=True, slots=True)
class Discard:
    """This step is rejected: all storage and all inner units are set back to its start, and it is repeated
    with the size `by`, beginning with In. All inner units need rollback."""

    by: Given

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", expr(self.by))


Statement: TypeAlias = (
    Assign | Local | When | Loop | Break | Step | SaveState | Rollback | NextStep | Return | Discard
)
"""In, MapIn, MapOut, Out and Init may consist of `Assign`, `When`, `Local` and `NextStep` alone."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``condition -> { first } --> { second }``."""

    first: tuple[Statement, ...] = ()
    second: tuple[Statement, ...] = ()
    condition: Given = field(default_factory=lambda: Number(1.0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", expr(self.condition))

    @property
    def always(self) -> bool:
        """Whether its condition is the constant true."""
        return isinstance(self.condition, Number) and self.condition.value != 0.0


@dataclass(frozen=True, slots=True)
class Stored:
    """A variable that is kept from one step to the next, and set back with the unit. `start` is a number, or
    an expression of parameters."""

    name: str
    start: Given = 0.0
    kind: Kind = Kind.REAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", expr(self.start))


# ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adaptation:
    """Units and what is done with them; see the module for when what is called.

    `ports` are those of the adapted unit: inputs, outputs and parameters. `connections` give inputs of inner
    units expressions of outputs of inner units, as in a `Scenario`. `reactive` says when inputs are taken:
    True, at the end of the step; False (*delayed*), at its start; None, at the end, and whoever couples the
    unit may choose a coupling that does not know the end (they are held or extrapolated then). `mealy`:
    outputs follow inputs at the same instant; else (*Moore*) they change with steps alone. `delayed` names
    the inner units whose steps see the inputs of the step before.

    `control` of None steps every inner unit once, from `t` by `H`, in the order of its connections, and
    returns the smallest of the sizes.
    """

    units: Mapping[str, Model]
    ports: tuple[Port, ...]
    connections: Mapping[str, Given] = field(default_factory=dict)
    in_rules: tuple[Rule, ...] = ()
    control: tuple[Statement, ...] | None = None
    out_rules: tuple[Rule, ...] = ()
    inputs: tuple[Stored, ...] = ()
    """The input storage; `controls` and `outputs` are the others."""
    controls: tuple[Stored, ...] = ()
    outputs: tuple[Stored, ...] = ()
    init: tuple[Statement, ...] = ()
    reactive: bool | None = None
    mealy: bool = True
    delayed: frozenset[str] = frozenset()
    name: str = "adaptation"
    """For messages."""
    remark: str = ""
    """Said in the notes of every run with it."""
    locates: frozenset[str] = frozenset()
    """Inputs whose crossing of a level it looks for within a step: the notes of a run say if these are held
    there."""
    stops: str = ""
    """Where it ends steps for all ("where h crosses 0.37"): the notes of a run say if the others go on."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", dict(self.units))
        object.__setattr__(self, "delayed", frozenset(self.delayed))
        object.__setattr__(self, "connections", {end: expr(x) for end, x in self.connections.items()})
        _Check(self).all()

    @property
    def parameters(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.causality is Causality.PARAMETER)

    @property
    def stored(self) -> tuple[Stored, ...]:
        """All storage."""
        return (*self.inputs, *self.controls, *self.outputs)

    @property
    def kind(self) -> str:
        """As the thesis says it: ``reactive mealy``."""
        return f"{'delayed' if self.reactive is False else 'reactive'} {'mealy' if self.mealy else 'moore'}"

    @cached_property
    def constants(self) -> dict[str, Expr]:
        """The values of parameters, by name."""
        return {port.name: Number(float(port.initial[0])) for port in self.parameters}

    def all_statements(self) -> Iterator[Statement]:
        """Every statement of every function, those inside others included."""
        for rule in (*self.in_rules, *self.out_rules):
            yield from statements((*rule.first, *rule.second))
        yield from statements((*(self.control or ()), *self.init))

    @cached_property
    def mapping(self) -> Arithmetic | None:
        """What it does, if that is mere arithmetic between its ports and those of one inner unit that makes
        the same steps: then it means the same as connections with the arithmetic in them. None if not.

        The inner unit then follows its inputs within a step, too, as it would without the adaptation.
        """
        try:
            return _mapping(self)
        except _NoMapping:
            return None

    @cached_property
    def inside(self) -> Scenario:
        """The inner units and their connections, with units of measure converted."""
        links: dict[str, Any] = dict(self.connections)
        for unit, model in self.units.items():
            for port in model.ports:
                cells = [f"{unit}.{cell}" for cell in cell_names(port.name, port.size)]
                if port.size is not None and cells[0] in links:
                    links[f"{unit}.{port.name}"] = [links.pop(cell) for cell in cells]
        return Scenario(self.units, links, name=self.name)

    def inputs_of(self, unit: str) -> tuple[Port, ...]:
        """The inputs of an inner unit."""
        ports = self.units[unit].ports
        return tuple(port for port in ports if port.causality is Causality.INPUT and not port.event)

    def is_delayed(self, unit: str, port: Port) -> bool:
        """Whether a step of an inner unit sees what this input was given for the step before."""
        return unit in self.delayed or port.reactive is False

    @property
    def discards(self) -> bool:
        """Whether it may repeat a step."""
        if self.control is None:
            return self.shortens and len(self.units) > 1
        return any(isinstance(one, Discard) for one in self.all_statements())

    @cached_property
    def direct(self) -> dict[str, frozenset[str]]:
        """For every output, the inputs that it follows at the same instant."""
        return self._followed(self.out_rules, always=False)

    def _followed(self, out_rules: tuple[Rule, ...], *, always: bool) -> dict[str, frozenset[str]]:
        """The same with other rules, and of Moore ones too if `always`."""
        sources: dict[str, set[str]] = {}
        ordered = not self.inside.graph.loops

        def follow(found: Iterable[Statement], also: frozenset[str]) -> None:
            for one in found:
                match one:
                    case Assign():
                        sources.setdefault(one.to, set()).update(names(expr(one.value)) | also)
                    case Local():
                        sources.setdefault(one.name, set()).update(names(expr(one.value)) | also)
                    case When():
                        follow((*one.then, *one.orelse), also | names(expr(one.condition)))

        for rule in self.in_rules:
            also = frozenset(names(expr(rule.condition)))
            follow((*rule.first, *(rule.second if ordered else ())), also)
        for rule in out_rules:
            also = frozenset(names(expr(rule.condition))) if ordered else frozenset()
            follow((*(rule.first if ordered else ()), *rule.second), also)
        for link in self.inside.connections if ordered else ():
            for to, cell in zip(_called(link.target, self.inside.port(link.target)), link.cells, strict=True):
                sources.setdefault(to, set()).update(names(cell))
        for unit, model in self.units.items() if ordered else ():
            ports = {port.name: port for port in model.ports}
            for port in model.ports:
                for name in port.depends:
                    for to in _called(f"{unit}.{port.name}", port):
                        sources.setdefault(to, set()).update(_called(f"{unit}.{name}", ports[name]))
        own = {cell: port.name for port in self.ports for cell in _called(port.name, port)}
        inputs = {port.name for port in self.ports if port.causality is Causality.INPUT}
        made: dict[str, frozenset[str]] = {}
        for port in self.ports:
            if port.causality is Causality.OUTPUT:
                seen: set[str] = set()
                waiting = [*_called(port.name, port)] if self.mealy or always else []
                while waiting:
                    name = waiting.pop()
                    if name not in seen:
                        seen.add(name)
                        waiting += sources.get(name, ())
                made[port.name] = frozenset(own[name] for name in seen if own.get(name) in inputs)
        return made

    @cached_property
    def begins_with(self) -> dict[str, frozenset[str]]:
        """If what is done at the start time reads inputs of the adapted unit: for every output, the inputs
        that it follows at that time. Else nothing."""
        late = self.reactive is False  # whose In begins with the first step
        found = [] if late else [one for rule in self.in_rules for one in rule.first]
        reads = {name for rule in self.in_rules for name in names(expr(rule.condition))}
        for one in statements((*found, *self.init)):
            if isinstance(one, Assign | Local | When):
                reads |= names(expr(one.condition if isinstance(one, When) else one.value))
        inputs = (port for port in self.ports if port.causality is Causality.INPUT)
        if not any(cell in reads for port in inputs for cell in _called(port.name, port)):
            return {}
        return self._followed((*self.out_rules, Rule((), self.init)), always=True)

    def moving(self) -> frozenset[str]:
        """The names of everything that depends on what is given to the adapted unit or shown inside: not
        times, counters and sizes of steps."""
        found = {cell for p in self.ports if p.causality is Causality.INPUT for cell in _called(p.name, p)}
        found |= {
            cell
            for unit, model in self.units.items()
            for port in model.ports
            if port.causality is Causality.OUTPUT
            for cell in _called(f"{unit}.{port.name}", port)
        }
        every = tuple(self.all_statements())
        grown = -1
        while grown != len(found):
            grown = len(found)
            for one in every:
                if isinstance(one, Assign | Local):
                    to = one.to if isinstance(one, Assign) else one.name
                    rates = one.rates if isinstance(one, Assign) else ()
                    if any(names(expr(part)) & found for part in (one.value, *rates)):
                        found.add(to)
                elif isinstance(one, Step | NextStep) and one.to is not None:
                    found.add(one.to)
        return frozenset(found)

    def written_at(self, to: str) -> str:
        """Where a port is given a value, as far as that is known, for messages: ``line 9 of gain.sa``."""
        found = (one for one in self.all_statements() if isinstance(one, Assign))
        places = {one.at: None for one in found if one.at and one.to.partition("[")[0] == to}
        return ", ".join(places)

    @property
    def sets_back(self) -> frozenset[str]:
        """The inner units that it sets back, and that need rollback for it."""
        if self.discards:
            return frozenset(self.units)
        return frozenset(one.unit for one in self.all_statements() if isinstance(one, SaveState | Rollback))

    @property
    def shortens(self) -> bool:
        """Whether a step may end before its proposed end."""
        for one in self.all_statements():
            if isinstance(one, Discard) or (isinstance(one, Return) and one.by != Name("H")):
                return True
        return self.control is None and any(
            Ability.EARLY_RETURN in model.abilities or Ability.NEXT_EVENT in model.abilities
            for model in self.units.values()
        )

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Adaptation:
        """The same with other parameters and start values: its own (``"K"``), or of units inside
        (``"motor.k"``)."""
        own = {port.name: port for port in self.ports if port.causality is not Causality.OUTPUT}
        inner: dict[str, dict[str, Value | Sequence[Value]]] = {}
        made = dict(own)
        for name, value in values.items():
            unit, rest = split(name)
            if name in own:
                made[name] = replace(own[name], start=own[name].values(value))
            elif unit in self.units:
                inner.setdefault(unit, {})[rest] = value
            elif len(self.units) == 1:
                try:
                    next(iter(self.units.values())).with_values({name: value})
                except ModelError as error:
                    known = [port.name for port in self.parameters]
                    hint = suggest(name, known, "parameters") if known else ""
                    raise ModelError(
                        f"there is no parameter '{name}' of '{self.name}'. {hint} {error}"
                    ) from None
                inner.setdefault(next(iter(self.units)), {})[name] = value
            else:
                raise ModelError(
                    f"there is no parameter '{name}'. {suggest(name, [*own, *self.units], 'names')}"
                )
        units = {unit: self.units[unit].with_values(found) for unit, found in inner.items()}
        ports = tuple(made.get(port.name, port) for port in self.ports)
        return replace(self, ports=ports, units={**self.units, **units})


class Arithmetic(NamedTuple):
    """Expressions: of every input of the inner unit that is given something, over inputs of the adapted unit;
    of every output, over both inputs of that one and outputs of the inner unit."""

    inputs: dict[str, Expr]
    outputs: dict[str, Expr]


class _NoMapping(Exception):
    """An adaptation that is more than arithmetic."""


def _mapping(it: Adaptation) -> Arithmetic:
    """The functions, one after the other, on expressions instead of values."""
    plain = (
        it.control is None and it.mealy and it.reactive is not False and not it.init and not it.connections
    )
    if not plain or len(it.units) != 1 or it.delayed:
        raise _NoMapping
    (unit,) = it.units
    if any(it.is_delayed(unit, port) for port in it.inputs_of(unit)):
        raise _NoMapping
    known: dict[str, Expr] = dict(it.constants)
    free = {
        cell
        for prefix, ports in (("", it.ports), (f"{unit}.", it.units[unit].ports))
        for port in ports
        if port.causality is not Causality.PARAMETER
        for cell in _called(f"{prefix}{port.name}", port)
    }

    def value(given: Given) -> Expr:
        tree = expr(given)
        if not names(tree) <= free | known.keys():
            raise _NoMapping  # something stored, or the step
        return substitute(tree, known)

    local: set[str] = set()

    def run(found: Iterable[Statement], to: dict[str, Expr], *, branch: bool = False) -> None:
        for one in found:
            if isinstance(one, Local) and not branch:
                local.add(one.name)
                known[one.name] = value(one.value)
            elif isinstance(one, Assign) and not one.rates and one.to not in local:
                to[one.to] = value(one.value)
            elif isinstance(one, When):
                condition, before = value(one.condition), dict(to)
                run(one.then, to, branch=True)
                then = dict(to)
                to.clear()
                to.update(before)
                run(one.orelse, to, branch=True)
                for name in {*then, *to}:
                    if name not in then or name not in to:
                        raise _NoMapping
                    if then[name] is not to[name]:
                        to[name] = apply(Op.WHERE, condition, then[name], to[name])
            else:
                raise _NoMapping

    inputs: dict[str, Expr] = {}
    outputs: dict[str, Expr] = {}
    for rules, second in ((it.in_rules, inputs), (it.out_rules, outputs)):
        if not all(rule.always for rule in rules):
            raise _NoMapping
        for rule in rules:
            run(rule.first, known)
        for rule in rules:
            run(rule.second, second)
    if any(
        cell not in outputs
        for port in it.ports
        if port.causality is Causality.OUTPUT
        for cell in _called(port.name, port)
    ):
        raise _NoMapping
    for port in it.inputs_of(unit):
        given = [cell in inputs for cell in _called(f"{unit}.{port.name}", port)]
        if any(given) and not all(given):
            raise _NoMapping
    return Arithmetic(inputs, outputs)


def statements(found: Iterable[Statement]) -> Iterator[Statement]:
    """The statements, and those inside them."""
    for one in found:
        yield one
        match one:
            case When():
                yield from statements((*one.then, *one.orelse))
            case Loop():
                yield from statements(one.body)


def breaks(one: Statement) -> bool:
    """Whether a statement may leave the loop that it is in."""
    match one:
        case Break():
            return True
        case When():
            return any(map(breaks, (*one.then, *one.orelse)))
    return False


def _ends(found: Iterable[Statement]) -> bool:
    """Whether what comes behind these statements is never reached from them."""
    for one in found:
        if isinstance(one, Break | Return | Discard):
            return True
        if isinstance(one, When) and _ends(one.then) and _ends(one.orelse):
            return True
    return False


def traced(
    code: tuple[Statement, ...], mark: Callable[[Statement], str | None]
) -> Iterator[tuple[Statement, frozenset[str], frozenset[str]]]:
    """Every statement of `control` in the order of the text, with the marks of those that have been run
    before it whatever happened, and of those that may have been, in the same step."""
    perhaps: set[str] = set()

    def run(
        found: Iterable[Statement], sure: set[str]
    ) -> Iterator[tuple[Statement, frozenset[str], frozenset[str]]]:
        left: set[str] | None = None  # what is sure even if the rest of `found` is left out
        for one in found:
            yield one, frozenset(sure), frozenset(perhaps)
            match one:
                case When():
                    then, orelse = set(sure), set(sure)
                    yield from run(one.then, then)
                    yield from run(one.orelse, orelse)
                    sure |= then & orelse
                case Loop():
                    perhaps.update(made for i in statements(one.body) if (made := mark(i)) is not None)
                    yield from run(one.body, sure)
            if (own := mark(one)) is not None:
                sure.add(own)
                perhaps.add(own)
            leaves = breaks(one) or any(isinstance(i, Return | Discard) for i in statements([one]))
            if leaves and left is None:
                left = set(sure)
        if left is not None:
            sure &= left

    yield from run(code, set())


def _left_behind(body: tuple[Statement, ...]) -> frozenset[str]:
    """The inner units that a round of a loop certainly sets back to where they were before it, and that have
    made no step since, where it comes to its end."""
    moved: set[str] = set()
    later: set[str] = set()  # whose state was kept when they had moved

    def run(found: Iterable[Statement], behind: frozenset[str]) -> frozenset[str]:
        for one in found:
            match one:
                case SaveState():
                    later.update({one.unit} & moved)
                case Rollback():
                    behind |= {one.unit} - later
                case Step():
                    moved.add(one.unit)
                    behind -= {one.unit}
                case Loop():
                    behind = run(one.body, behind)
                case When():
                    ways = [run(way, behind) for way in (one.then, one.orelse) if not _ends(way)]
                    behind = frozenset.intersection(*ways) if ways else frozenset()
                case Break() | Return() | Discard():
                    return frozenset()
        return behind

    return run(body, frozenset())


# ----------------------------------------------------------------------------------------------------
# Checks: all mistakes at once, each with its place and what to write instead.

TIMES = frozenset({"t", "H"})
SIZES = frozenset({"h", "dt"})
MAX_ROUNDS = 1_000_000
"""The most rounds of a loop."""


class _Check:
    def __init__(self, adaptation: Adaptation) -> None:
        self._it = adaptation
        self._found: list[str] = []
        self._kinds: dict[str, Kind] = {}
        """Of everything that an expression may name."""
        self._locals: set[str] = set()
        """Local variables of rules, which may have the same name in several."""

    def all(self) -> None:
        it = self._it
        if not it.units:
            self._found.append('an adaptation needs a unit inside: units={"motor": motor}')
        self._units()
        self._ports()
        self._connections()
        inside = self._inner(Causality.OUTPUT)
        reads = self._storage | self._parameters | {own_time(unit).id for unit in it.units}
        outer = self._outer(Causality.INPUT)
        for rule in it.in_rules:
            self._expr(rule.condition, outer | reads, "the condition of an input rule")
            self._data(rule.first, outer | reads, {one.name for one in it.inputs}, "In", "input storage")
            mapped = reads | TIMES | SIZES
            self._data(rule.second, mapped, self._inner(Causality.INPUT), "MapIn", "inputs of inner units")
        for rule in it.out_rules:
            seen = reads | inside | TIMES | SIZES
            self._expr(rule.condition, seen, "the condition of an output rule")
            self._data(rule.first, seen, {one.name for one in it.outputs}, "MapOut", "output storage")
            self._data(rule.second, reads | TIMES, self._outer(Causality.OUTPUT), "Out", "outputs")
        everything = reads | inside | TIMES
        stored = {one.name for one in it.stored}
        self._data(it.init, everything | outer, stored, "Init", "storage")
        if it.control is not None:
            everything |= outer
            self._control(it.control, set(everything), stored | self._inner(Causality.INPUT), loop=False)
            self._set_back(it.control)
        self._measures()
        if not self._found:
            _ = it.inside.graph  # units of measure, and whatever else connections must fulfil
        else:
            head = f"{it.name}: " if it.name else ""
            raise ModelError(head + "; ".join(self._found))

    # ------------------------------------------------------------------ declarations

    @property
    def _storage(self) -> set[str]:
        return {one.name for one in self._it.stored}

    @property
    def _parameters(self) -> set[str]:
        return {port.name for port in self._it.parameters}

    def _inner(self, causality: Causality) -> set[str]:
        return {
            cell
            for unit, model in self._it.units.items()
            for port in model.ports
            if port.causality is causality and not port.event
            for cell in _called(f"{unit}.{port.name}", port)
        }

    def _outer(self, causality: Causality) -> set[str]:
        ports = self._it.ports
        return {cell for port in ports if port.causality is causality for cell in _called(port.name, port)}

    def _units(self) -> None:
        it = self._it
        for unit, model in it.units.items():
            if objection := objection_to(unit):
                self._found.append(f"'{unit}' is no name of a unit: {objection}")
            if not hasattr(model, "ports") or not hasattr(model, "instantiate"):
                self._found.append(f"the inner unit '{unit}' is no model: {model!r}")
                raise ModelError("; ".join(self._found))
            for port in model.ports:
                if port.event and port.causality is not Causality.PARAMETER:
                    self._found.append(
                        f"{unit}.{port.name} is an event, and an adaptation deals with signals: put a "
                        "converter between (up.as_continuous), and adapt that"
                    )
                for cell in _called(f"{unit}.{port.name}", port):
                    self._kinds[cell] = port.kind
        for unit in sorted(it.delayed - it.units.keys()):
            self._found.append(
                f"delayed names '{unit}', which is not an inner unit. {suggest(unit, it.units, 'units')}"
            )
        for unit in sorted(it.sets_back & it.units.keys()):
            if Ability.ROLLBACK not in it.units[unit].abilities:
                self._found.append(
                    f"the control sets '{unit}' back, which cannot be set back to an earlier state: "
                    "leave out SaveState, Rollback and Discard, or take a model that can"
                )

    def _ports(self) -> None:
        it = self._it
        taken: dict[str, str] = dict.fromkeys(TIMES | SIZES, "the adaptation itself")
        for port in it.ports:
            self._take(port.name, "a port", taken)
            if port.event:
                self._found.append(
                    f"the port '{port.name}' is an event, and an adaptation deals with signals"
                )
            if port.causality is Causality.PARAMETER and (port.size is not None or port.kind is Kind.STRING):
                self._found.append(f"the parameter '{port.name}' must be one number")
            if port.kind is Kind.STRING:
                self._found.append(
                    f"the port '{port.name}' is a string, and an adaptation deals with numbers"
                )
            for cell in _called(port.name, port):
                self._kinds[cell] = port.kind
        for one in it.stored:
            self._take(one.name, "a stored variable", taken)
            if objection := objection_to(one.name):
                self._found.append(f"'{one.name}' is no name of a variable: {objection}")
            if one.kind is Kind.STRING:
                self._found.append(f"'{one.name}' is a string, and storage is for numbers")
            self._kinds[one.name] = one.kind
            self._expr(one.start, self._parameters, f"the start value of '{one.name}'")

    def _take(self, name: str, what: str, taken: dict[str, str]) -> None:
        if name in taken:
            self._found.append(f"'{name}' names {what} and {taken[name]}: give one another name")
        taken[name] = what

    def _connections(self) -> None:
        it = self._it
        inputs, outputs = self._inner(Causality.INPUT), self._inner(Causality.OUTPUT)
        for end, value in it.connections.items():
            if end not in inputs:
                self._unknown(end, inputs, "a connection", "inputs of inner units")
            self._expr(value, outputs, f"the connection of {end}")
        for unit, model in it.units.items():
            for port in model.ports if it.connections else ():
                cells = _called(f"{unit}.{port.name}", port)
                given = [cell for cell in cells if cell in it.connections]
                if given and len(given) < len(cells):
                    missing = ", ".join(cell for cell in cells if cell not in given)
                    self._found.append(
                        f"{unit}.{port.name} is an array, which is connected as a whole, and {missing} is "
                        "not: connect that, too, or give all of its cells values in rules"
                    )

    def _measures(self) -> None:
        """What goes from one port to another as it is, through storage perhaps, must be in one unit."""
        it = self._it
        ports = {f"{unit}.{port.name}": port for unit, model in it.units.items() for port in model.ports}
        ports |= {port.name: port for port in it.ports}
        copies: dict[str, set[str]] = {}
        for rule in (*it.in_rules, *it.out_rules):
            for one in statements((*rule.first, *rule.second)):
                if isinstance(one, Assign | Local):
                    to, rates = (one.to, one.rates) if isinstance(one, Assign) else (one.name, ())
                    plain = isinstance(one.value, Name) and not rates
                    copies.setdefault(to, set()).add(str(one.value.id) if plain else "")  # type: ignore[union-attr]
        for to in copies.keys() & ports.keys():
            source = to
            for _ in copies:  # from one to the next, however they are chained
                found = copies.get(source, set())
                source = next(iter(found)) if len(found) == 1 else source if not found else ""
            if source not in ports or source == to:
                continue
            own, wanted = ports[source].unit, ports[to].unit
            try:
                change = conversion(own, wanted)
            except MeasureError as error:
                self._found.append(f"'{source}' is passed on to '{to}' as it is: {error}")
                continue
            if change:
                formula = f"{change.scale:g}*…" + (f" + {change.offset:g}" if change.offset else "")
                self._found.append(
                    f"'{source}' is in {own} and is passed on to '{to}', which is in {wanted}, as it is: "
                    f"write {formula} on the way"
                )

    # ------------------------------------------------------------------ statements

    def _expr(
        self, given: Given, known: set[str], where: str, kind: Kind | None = None, to: str = ""
    ) -> None:
        tree = expr(given)
        wrong = sorted(name for name in names(tree) if name not in known)
        for name in wrong:
            self._unknown(name, known, where, "names")
        if not wrong and kind is not None and not fits(tree, self._kinds, kind):
            self._found.append(
                f"{where}: '{to}' is {kind.value}, and {tree} is not. Write a comparison for a boolean, "
                "round(…) for an integer"
            )

    def _unknown(self, name: str, known: Iterable[str], where: str, what: str) -> None:
        if name in SIZES:
            hint = f"'{name}' is known in MapIn and MapOut only"
        elif name in self._kinds:
            hint = f"'{name}' cannot be used here"
        else:
            hint = f"there is no '{name}'"
        self._found.append(f"{where}: {hint}. {suggest(name, sorted(known), what)}")

    def _assign(self, one: Assign, reads: set[str], writes: set[str], where: str, what: str) -> None:
        where = f"{where}, {one.to} := {one.value}"
        if one.to not in writes:
            self._unknown(one.to, writes, where, what)
            return
        kind = self._kinds[one.to]
        self._expr(one.value, reads, where, kind, one.to)
        for rate in one.rates:
            self._expr(rate, reads, where)
        if one.rates and (kind is not Kind.REAL or one.to not in self._inner(Causality.INPUT)):
            self._found.append(f"{where}: only real inputs of inner units have rates")

    def _data(
        self, found: Iterable[Statement], reads: set[str], writes: set[str], where: str, what: str
    ) -> None:
        reads, writes = set(reads), set(writes)
        for one in found:
            match one:
                case Assign():
                    self._assign(one, reads, writes, where, what)
                case Local():
                    self._local(one.name, one.kind, reads, writes, where)
                    self._expr(one.value, reads, f"{where}, {one.name} := {one.value}", one.kind, one.name)
                    self._locals.add(one.name)
                case NextStep():
                    self._asked(one.unit, where)
                    self._result(one.to, writes, where)
                case When():
                    self._expr(one.condition, reads, where)
                    self._data(one.then, reads, writes, where, what)
                    self._data(one.orelse, reads, writes, where, what)
                case _:
                    self._found.append(
                        f"{where} may only assign and choose: {type(one).__name__} belongs into the control"
                    )

    def _control(self, found: Iterable[Statement], reads: set[str], writes: set[str], *, loop: bool) -> None:
        """`reads` and `writes` grow by the local variables that are met."""
        where, what = "control", "storage, inputs of inner units and local variables"
        for one in found:
            if isinstance(one, Step | SaveState | Rollback | NextStep):
                self._asked(one.unit, where)
            match one:
                case Assign():
                    self._assign(one, reads, writes, where, what)
                case Local():
                    self._local(one.name, one.kind, reads, writes)
                    self._expr(one.value, reads, f"{where}, {one.name} := {one.value}", one.kind, one.name)
                case When():
                    self._expr(one.condition, reads, where)
                    self._control(one.then, reads, writes, loop=loop)
                    self._control(one.orelse, reads, writes, loop=loop)
                case Loop():
                    if (
                        isinstance(one.times, bool)
                        or not isinstance(one.times, int)
                        or not 0 < one.times <= MAX_ROUNDS
                    ):
                        self._found.append(
                            f"{where}: a loop has 1 to {MAX_ROUNDS:,} rounds, a fixed number, "
                            f"not {one.times!r}"
                        )
                    if one.index is not None:
                        self._local(one.index, Kind.INTEGER, reads, writes)
                    self._control(one.body, reads, writes, loop=True)
                    if one.until is not None:
                        self._expr(one.until, reads, where)
                case Break():
                    if not loop:
                        self._found.append(f"{where}: there is no loop around this Break")
                case Step():
                    self._expr(one.start, reads, f"{where}, the start of a step of {one.unit}")
                    self._expr(one.by, reads, f"{where}, the size of a step of {one.unit}")
                    self._result(one.to, writes, where)
                case NextStep():
                    self._result(one.to, writes, where)
                case Return() | Discard():
                    self._expr(one.by, reads, f"{where}, {type(one).__name__}")
                case SaveState() | Rollback():
                    pass

    def _set_back(self, control: tuple[Statement, ...]) -> None:
        """What is kept of a unit is kept for this step: so a rollback in another one, of the adapted unit
        itself or to a checkpoint, need not know of it."""
        missing: dict[str, None] = {}
        for one, saved, _ in traced(control, lambda one: one.unit if isinstance(one, SaveState) else None):
            if isinstance(one, Rollback) and one.unit not in saved:
                missing[one.unit] = None
        for unit in missing:
            self._found.append(
                f"control: no SaveState('{unit}') is certainly before a Rollback('{unit}') in the same step, "
                "and what is saved is forgotten at the end of a step. "
                f"Write SaveState('{unit}') at the start of the control, outside of every When and Loop"
            )
        every = list(statements(control))
        for unit in sorted(self._it.units.keys() - {one.unit for one in every if isinstance(one, Step)}):
            self._found.append(
                f"control: nothing steps '{unit}', which stays at the start: write Step('{unit}')"
            )
        for place, one in enumerate(every):
            if not isinstance(one, Loop) or one.exhausted == "fail":
                continue
            inside = list(statements(one.body))
            left = one.until is not None or any(map(breaks, one.body))
            left = left or any(isinstance(i, Return | Discard) for i in inside)
            others = [*every[:place], *every[place + 1 + len(inside) :]]
            if not left or any(isinstance(i, Discard) for i in others):
                continue
            stepped = {i.unit for i in others if isinstance(i, Step)}  # then these are trials
            for unit in sorted(_left_behind(one.body) - stepped):
                self._found.append(
                    f"control: a Loop sets '{unit}' back at the end of a round; if it is not left in any of "
                    f"its {one.times} rounds, '{unit}' has made no step. Write exhausted=\"fail\" in the "
                    f"Loop, or Step('{unit}') behind it"
                )

    def _asked(self, unit: str, where: str) -> None:
        if unit not in self._it.units:
            hint = suggest(unit, self._it.units, "inner units")
            self._found.append(f"{where}: there is no inner unit '{unit}'. {hint}")

    def _local(
        self, name: str, kind: Kind, reads: set[str], writes: set[str], where: str = "control"
    ) -> None:
        if objection := objection_to(name):
            self._found.append(f"'{name}' is no name of a variable: {objection}")
        known = name in self._kinds and name not in self._locals
        if self._kinds[name] is not kind if name in writes else known:
            self._found.append(
                f"{where}: the local variable '{name}' has the name of something else: rename it"
            )
        self._kinds[name] = kind
        reads.add(name)
        writes.add(name)

    def _result(self, to: str | None, writes: set[str], where: str) -> None:
        if to is not None and to not in writes:
            self._unknown(to, writes, where, "variables")
        elif to is not None and self._kinds[to] is not Kind.REAL:
            self._found.append(f"{where}: '{to}' gets a size of a step, and is {self._kinds[to].value}")


def _called(name: str, port: Port) -> tuple[str, ...]:
    """What expressions call a port: by its name, or cell by cell."""
    return (name,) if port.size is None else tuple(f"{name}[{i}]" for i in range(port.size))
