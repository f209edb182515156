"""What an adaptation becomes: the blocks of a program, so that everybody who reads programs has it.

`Adapting` is the coupling of the scenario inside an adapted unit. It writes a step (In and Ctrl) and the
outputs at a time over registers. An adapted unit inside another one needs no program of its own: its
functions are written where the outer one steps it (`Adapting.places`), so that two stacked adaptations are
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import field
from math import inf

from upbeat.adapt.adaptation import (
    Adaptation,
    Assign,
    Break,
    Discard,
    Local,
    Loop,
    NextStep,
    Return,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
    breaks,
    expr,
    own_time,
    statements,
    traced,
)
from upbeat.core.abilities import Ability
from upbeat.core.expr import (
    ONE,
    ZERO,
    Cell,
    Expr,
    Name,
    Number,
    Op,
    any_of,
    apply,
    evaluate,
    names,
    substitute,
)
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.master.program import (
    Advance,
    Blocks,
    Due,
    Get,
    If,
    Instruction,
    Jump,
    Let,
    Reg,
    Repeat,
    Restore,
    Save,
    Set,
)
from upbeat.master.wiring import Wiring
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.graph import unit_order

NEAR = 1e-9
"""A time that is nearer to the end of a step than this part of it is the end."""
RETRIES = 100
"""So often a step may be discarded."""
PARTS = 1_000_000
"""Into so many parts a step of an inner unit may fall."""
JUMPS = 1000
"""So many events may happen in an inner unit at one time."""

Code = list[Instruction]
NOTHING: Mapping[str, Expr] = {}


@dataclass(frozen=True)
class Adapting:
    """The coupling inside an adapted unit.

    `places` says of inner units that are called something else in the program what they are called there; of
    those that are adapted units themselves, what has taken their place.
    """

    adaptation: Adaptation
    places: Mapping[str, str | Adapting] = field(default_factory=dict)

    @property
    def shortens(self) -> bool:
        """Whether a step may end before its proposed end."""
        return self.adaptation.shortens

    def renamed(self, called: Mapping[str, str]) -> Adapting:
        """The same, in a program where units have other names."""
        places: dict[str, str | Adapting] = {}
        for unit in self.adaptation.units:
            place = self.places.get(unit, unit)
            places[unit] = called.get(place, place) if isinstance(place, str) else place.renamed(called)
        return Adapting(self.adaptation, places)

    def blocks(self, wiring: Wiring) -> Blocks:
        return _Top(wiring, self).blocks()


class _Leaf:
    """A unit of the program inside an adaptation."""

    def __init__(self, wiring: Wiring, unit: str, rated: Mapping[str, int], delayed: Collection[str]) -> None:
        self.unit = unit
        self._model = wiring.scenario.units[unit]
        able = self._model.abilities
        self.early = Ability.EARLY_RETURN in able
        self.reacts = Ability.NEXT_EVENT in able
        self.reached = wiring.reached(unit)
        ports = {port.name: port for port in self._model.ports if not port.event}
        self.inputs = {p: wiring.inputs[unit, p] for p in ports if (unit, p) in wiring.inputs}
        self.outputs = {p: wiring.outputs[unit, p] for p in ports if (unit, p) in wiring.outputs}
        self.direct = frozenset(name for port in ports.values() for name in port.depends)
        new, label = wiring.registers.new, wiring.called(unit)
        self.rates = {
            p: tuple(new(f"{label}.{p}{'′' * k}", size=ports[p].cells) for k in range(1, count + 1))
            for p, count in rated.items()
        }
        self.before = {
            p: new(f"{label}.{p}′before", ports[p].kind, ports[p].cells, ports[p].initial) for p in delayed
        }
        self.cells = {p: ports[p].cells for p in self.inputs}
        self.starts: dict[str, tuple[Reg, Reg]] = {}
        self._due = new(f"{label}′next event") if self.reacts else -1
        self._again = new(f"{label}′jumps again", Kind.BOOLEAN) if self.reacts else -1

    @property
    def units(self) -> tuple[str, ...]:
        return (self.unit,)

    @property
    def registers(self) -> tuple[Reg, ...]:
        """What belongs to its state."""
        return (self.reached, *self.before.values())

    @property
    def known(self) -> tuple[Reg, ...]:
        """What was given to it and read of it last."""
        rates = (register for found in self.rates.values() for register in found)
        return (*self.outputs.values(), *self.inputs.values(), *rates)

    def begin(self, now: Reg) -> Code:
        return [Let(self.reached, Cell(now))]

    def first(self) -> Code:
        """Its outputs, at the start time."""
        return self.show(moved=True)

    def started(self) -> Code:
        """When all inputs are known at the start time."""
        return self._kept()

    def _kept(self) -> Code:
        return [
            Let(self.before[p] + i, Cell(self.inputs[p] + i))
            for p in self.before
            for i in range(self.cells[p])
        ]

    def feed(self, given: Iterable[str], size: Reg) -> Code:
        """Hand over inputs for a step of that size."""
        found: Code = []
        for p in given:
            if p in self.starts:
                start, rate = self.starts[p]
                found.append(Let(rate, (Cell(self.inputs[p]) - Cell(start)) / Cell(size)))
                found.append(Set(self.unit, p, (start, rate)))
            elif p in self.before:
                found.append(Set(self.unit, p, (self.before[p],)))
            else:
                found.append(Set(self.unit, p, (self.inputs[p], *self.rates.get(p, ()))))
        return [*found, *self._kept()]

    def follow(self, new: Callable[[str], Reg], given: Collection[str]) -> None:
        """Registers for real inputs: what they are at the start of a step, and their rate."""
        for port in self._model.ports:
            if port.name in given and port.kind is Kind.REAL and port.size is None:
                label = f"{self.unit}.{port.name}"
                self.starts[port.name] = (new(f"{label}′start"), new(f"{label}′rate"))

    def hold(self, given: Iterable[str], *, every: bool = False) -> Code:
        """Hand over inputs at an instant, for outputs that depend on them directly; `every` one at the start,
        where what is inside a unit may begin with them."""
        if self.reacts:  # and would answer to them, at its own time
            return []
        return [Set(self.unit, p, (self.inputs[p],)) for p in given if every or p in self.direct]

    def advance(self, start: Reg, until: Reg, *, early: bool) -> Code:
        """Move it; if somebody asks how far it gets, it may stop `early`."""
        move = Advance(self.unit, start, until, self.reached, self.early and early)
        if not self.reacts:
            return [move]
        due = Cell(self._due)
        until_due = If(due < Cell(until), (Let(until, due),))
        return [*self._settle(), until_due, move, *self._settle()]

    def _settle(self) -> Code:
        """All that happens in it at its own time."""
        ask = Due(self.unit, self._due)
        later = apply(Op.GT, Cell(self._due), Cell(self.reached))
        body = (Jump(self.unit, self._again), ask)
        what = f"the events of {self.unit} at one time"
        return [ask, If(apply(Op.NOT, later), (Repeat(JUMPS, body, later, "fail", what),))]

    def show(self, port: str | None = None, *, moved: bool) -> Code:
        """Read outputs, or one; unless the unit has `moved`, those that follow inputs."""
        depends = {port.name: port.depends for port in self._model.ports}
        wanted = self.outputs if port is None else [port] if port in self.outputs else []
        return [Get(self.unit, p, self.outputs[p]) for p in wanted if moved or depends[p]]

    def until_next(self, to: Reg) -> Code:
        if not self.reacts:
            return [Let(to, Number(inf))]
        return [Due(self.unit, self._due), Let(to, Cell(self._due) - Cell(self.reached))]


class _Level:
    """One adaptation in a program: its registers, and what writes its functions."""

    def __init__(self, wiring: Wiring, adapting: Adapting, path: str) -> None:
        it = self.it = _simplified(adapting.adaptation)
        self.wiring = wiring
        self._path = path
        self._own: list[Reg] = []
        self.now, self.next = self._times()
        self.inputs, self.seen, self.outputs = self._ends()
        self.reached = self.new("reached")
        self.size = self.new("H", start=(1.0,))
        self.sized, self.after = self.new("h"), self.new("dt")
        self.result = self.new("result")
        self.done = self.new("done", Kind.BOOLEAN)
        self.discarded = self.new("discarded", Kind.BOOLEAN)
        self.ordered = not it.inside.graph.loops
        """Whether the outputs of inner units can be found one after the other."""
        self.names: dict[str, Expr] = dict(it.constants)
        self._shadows: dict[str, Expr] = {}
        """Where the outputs at an instant keep what In and MapOut would store."""
        targets = {*_targets(it.in_rules), *_targets(it.out_rules)}
        for one in it.stored:
            start = (_start(one, it),)
            self.names[one.name] = Cell(self.new(one.name, one.kind, start=start))
            if one.name in targets:
                self._shadows[one.name] = Cell(self.new(f"{one.name}′shown", one.kind, start=start))
        self._flags = {  # which conditions held: stored, and shown
            id(rule): (self.new("rule", Kind.BOOLEAN), self.new("rule′shown", Kind.BOOLEAN))
            for rule in (*it.in_rules, *it.out_rules)
            if not rule.always
        }
        self._in = frozenset(_targets(it.in_rules)) if it.mealy else frozenset()
        self._out = frozenset(_targets(it.out_rules)) if self.ordered else frozenset()
        self._shown: dict[str, Expr] = {}
        self._locals: dict[tuple[str, Kind], Expr] = {}
        """The local variables of rules, which are given a value before they are read."""
        for port in it.ports:
            if port.causality is Causality.INPUT:
                self.names |= _cells(port.name, self.seen[port.name], port)
            elif port.causality is Causality.OUTPUT:
                self._shown |= _cells(port.name, self.outputs[port.name], port)
        self.inside: dict[str, _Leaf | _Inlined] = {}
        self.inner: dict[str, Expr] = {}
        """The inputs of inner units."""
        rated = _rated(it)
        for unit, model in it.units.items():
            place = adapting.places.get(unit, unit)
            own = {port: count for (owner, port), count in rated.items() if owner == unit}
            one_inside: _Leaf | _Inlined
            if isinstance(place, str):
                late = [port.name for port in it.inputs_of(unit) if it.is_delayed(unit, port)]
                one_inside = _Leaf(wiring, place, own, late)
            else:
                late = [port.name for port in it.inputs_of(unit) if it.is_delayed(unit, port)]
                one_inside = _Inlined(wiring, place, f"{path}{unit}.", own, late)
            self.inside[unit] = one_inside
            for port in model.ports:
                name = f"{unit}.{port.name}"
                if port.causality is Causality.OUTPUT and port.name in one_inside.outputs:
                    self.names |= _cells(name, one_inside.outputs[port.name], port)
                elif port.causality is Causality.INPUT and port.name in one_inside.inputs:
                    self.inner |= _cells(name, one_inside.inputs[port.name], port)
            self.names[own_time(unit).id] = Cell(one_inside.reached)
        self.links = {(c.unit, c.port): c for c in it.inside.connections}
        self.mapped = {_end(to) for rule in it.in_rules for to in _assigned(rule.second) if to in self.inner}
        self._back = it.sets_back
        self._slots: dict[str, int] = {}

    # ------------------------------------------------------------------ registers

    def _times(self) -> tuple[Reg, Reg]:
        return self.new("now"), self.new("next")

    def _ends(self) -> tuple[dict[str, Reg], dict[str, Reg], dict[str, Reg]]:
        """The inputs as they are given and as In sees them, and the outputs."""
        raise NotImplementedError

    def new(
        self, name: str, kind: Kind = Kind.REAL, size: int = 1, start: tuple[Value, ...] | None = None
    ) -> Reg:
        """A register of its own."""
        registers = self.wiring.registers
        made = registers.new(registers.unique(f"{self._path}{name}"), kind, size, start)
        self._own.append(made)
        return made

    def slot(self, unit: str) -> int:
        """Where the state of an inner unit is kept."""
        if unit not in self._slots:
            self._slots[unit] = self.wiring.registers.slot()
        return self._slots[unit]

    @property
    def units(self) -> tuple[str, ...]:
        """The units of the program that are inside."""
        return tuple(unit for one in self.inside.values() for unit in one.units)

    @property
    def registers(self) -> tuple[Reg, ...]:
        """What belongs to its state: all but what the one around it has given to it and read of it."""
        outer = {*self.known}
        inner = (r for one in self.inside.values() for r in (*one.registers, *one.known))
        return (*(register for register in self._own if register not in outer), *inner)

    @property
    def known(self) -> tuple[Reg, ...]:
        """What was given to it and read of it last."""
        return ()

    # ------------------------------------------------------------------ expressions and data

    def scope(self, shown: frozenset[str] | None = None) -> dict[str, Expr]:
        """What names mean in a step; or at an instant, where those in `shown` are not what is stored."""
        if shown is None:
            times = {"t": self.now, "H": self.size, "h": self.sized, "dt": self.after}
            return {**self.names, **{name: Cell(register) for name, register in times.items()}}
        instant: dict[str, Expr] = {"t": Cell(self.next), "H": Cell(self.size), "h": ZERO, "dt": ZERO}
        return {**self.names, **{name: self._shadows[name] for name in shown}, **instant}

    def assign(self, one: Assign, scope: Mapping[str, Expr], to: Mapping[str, Expr]) -> Code:
        target = _index(to[one.to])
        code: Code = [Let(target, substitute(expr(one.value), scope))]
        unit, port = _end(one.to)
        inner = self.inside.get(unit)
        if inner is not None and port in inner.rates:
            place = target - inner.inputs[port]
            for k, register in enumerate(inner.rates[port]):
                rate = substitute(expr(one.rates[k]), scope) if k < len(one.rates) else ZERO
                code.append(Let(register + place, rate))
        return code

    def data(
        self,
        found: Iterable[Statement],
        scope: Mapping[str, Expr],
        to: Mapping[str, Expr],
        wanted: Callable[[str], bool] = lambda _: True,
        unless: Mapping[str, Expr] = NOTHING,
        own: frozenset[str] = frozenset(),
    ) -> Code:
        """Assignments and choices; some `unless` a sign says that there is something already. `own` are local
        variables."""
        code: Code = []
        found = tuple(found)
        if not any(one in own or wanted(one) for one in _assigned(found)):
            return code
        for one in found:
            if isinstance(one, Assign) and (one.to in own or wanted(one.to)):
                code += _without(unless.get(one.to), self.assign(one, scope, to))
            elif isinstance(one, Local):
                if (one.name, one.kind) not in self._locals:
                    self._locals[one.name, one.kind] = Cell(self.new(one.name, one.kind))
                place = self._locals[one.name, one.kind]
                code.append(Let(_index(place), substitute(expr(one.value), scope)))
                scope, to, own = {**scope, one.name: place}, {**to, one.name: place}, own | {one.name}
            elif isinstance(one, NextStep):
                code += self.inside[one.unit].until_next(_index(to[one.to]))
            elif isinstance(one, When):
                then = self.data(one.then, scope, to, wanted, unless, own)
                orelse = self.data(one.orelse, scope, to, wanted, unless, own)
                if then or orelse:
                    code.append(If(substitute(expr(one.condition), scope), tuple(then), tuple(orelse)))
        return code

    def first_parts(
        self, rules: tuple[Rule, ...], shown: frozenset[str] | None = None, *, flags_only: bool = False
    ) -> Code:
        """In, or MapOut: all conditions, then the first parts of the rules whose condition holds."""
        scope, at_instant = self.scope(shown), shown is not None
        to = {**self.names, **{name: self._shadows[name] for name in shown or ()}}
        code: Code = []
        if shown is not None:
            code += [
                Let(_index(self._shadows[name]), self.names[name]) for name in sorted(_unsure(rules) & shown)
            ]
        for rule in rules:
            if not rule.always:
                code.append(Let(self._flags[id(rule)][at_instant], substitute(expr(rule.condition), scope)))
        for rule in () if flags_only else rules:
            code += self._where(rule, self.data(rule.first, scope, to), at_instant)
        return code

    def second_parts(
        self,
        rules: tuple[Rule, ...],
        to: Mapping[str, Expr],
        shown: frozenset[str] | None = None,
        *,
        flag_shown: bool = False,
        wanted: Callable[[str], bool] = lambda _: True,
        unless: Mapping[str, Expr] = NOTHING,
    ) -> Code:
        """MapIn, or Out: the second parts of the rules whose condition held."""
        scope = self.scope(shown)
        code: Code = []
        for rule in rules:
            code += self._where(rule, self.data(rule.second, scope, to, wanted, unless), flag_shown)
        return code

    def _where(self, rule: Rule, code: Code, shown: bool) -> Code:
        return code if rule.always or not code else [If(Cell(self._flags[id(rule)][shown]), tuple(code))]

    def link(
        self,
        end: tuple[str, str],
        scope: Mapping[str, Expr],
        given: Collection[str] = (),
        unless: Mapping[str, Expr] = NOTHING,
    ) -> Code:
        """An input of an inner unit that is connected to outputs of others; without the cells that are
        `given` something else, or are if a sign says so."""
        unit, port = end
        inner = self.inside[unit]
        (size,) = (one.size for one in self.it.units[unit].ports if one.name == port)
        code: Code = []
        for i, (name, cell) in enumerate(zip(cell_names(port, size), self.links[end].cells, strict=True)):
            to = f"{unit}.{name}"
            if to not in given:
                held = [Let(register + i, ZERO) for register in inner.rates.get(port, ())]
                value = Let(inner.inputs[port] + i, substitute(cell, scope))
                code += _without(unless.get(to), [value, *held])
        return code

    # ------------------------------------------------------------------ the outputs at an instant

    def outputs_now(self) -> Code:
        """Algorithm 11. Nothing that is stored changes."""
        it, taken = self.it, self._taken
        inputs = self._in if taken else frozenset()
        code = self.first_parts(it.in_rules, inputs) if taken else []
        if self._stands:
            return [*code, *self.second_parts(it.out_rules, self._shown, inputs)]
        stored = inputs | self._out
        if self.ordered:
            if self._fed_through:
                code += self.second_parts(it.in_rules, self.inner, inputs, flag_shown=taken)
            code += self._settled()
            code += self.first_parts(it.out_rules, stored)
        return [*code, *self.second_parts(it.out_rules, self._shown, stored, flag_shown=self.ordered)]

    @property
    def _taken(self) -> bool:
        """Whether outputs need In: they follow inputs of the same instant, or In makes something else of what
        is stored than it did before the last step."""
        it = self.it
        given = {name for port in it.ports for name in cell_names(port.name, port.size)}
        reads = {name for rule in it.in_rules for name in names(expr(rule.condition))}
        for one in statements(part for rule in it.in_rules for part in rule.first):
            if isinstance(one, Assign | Local | When):
                reads |= names(expr(one.condition if isinstance(one, When) else one.value))
        return any(it.direct.values()) or (it.mealy and not reads <= given)

    @property
    def _stands(self) -> bool:
        """Whether what MapOut has stored after the last step of a unit inside is what it would store now."""
        it = self.it
        firsts = [one for rule in it.out_rules for one in rule.first]
        plain = all(rule.always for rule in it.out_rules) and all(isinstance(one, Assign) for one in firsts)
        if not plain or not self.ordered or self._fed_through or it.sets_back:
            return False
        reads = {name for one in firsts if isinstance(one, Assign) for name in names(expr(one.value))}
        outputs = {f"{unit}." for unit in it.units}
        own = {one.name for one in it.outputs}
        written = {*_assigned(it.control or ()), *_assigned(it.init)}
        return all(name.partition(".")[0] + "." in outputs for name in reads - it.constants.keys()) and not (
            own & written
        )

    @property
    def _fed_through(self) -> bool:
        """Whether an output of an inner unit follows one of its inputs at the same instant."""
        return any(port in self.inside[unit].direct for unit, port in (*self.mapped, *self.links))

    def _settled(self) -> Code:
        """Inputs and outputs of all inner units at an instant, in the order of direct feedthrough."""
        code: Code = []
        scope = self.scope(self._in if self._taken else frozenset())
        for side, unit, port in self.it.inside.graph.order:
            inner, end = self.inside[unit], (unit, port)
            if side == "out":
                code += inner.show(port, moved=unit in self._back)
            elif port in inner.direct:
                code += self.link(end, scope) if end in self.links else []
                code += inner.hold([port]) if end in self.links or end in self.mapped else []
        return code

    # ------------------------------------------------------------------ the start

    def first(self) -> Code:
        """Init, when inputs are known; and the outputs."""
        it = self.it
        code: Code = [Let(_index(self.names[one.name]), Number(float(_start(one, it)))) for one in it.stored]
        code += [Let(self.size, ONE), Let(self.sized, ZERO), Let(self.after, ZERO)]
        for inner in self.inside.values():
            code += inner.begin(self.now)
        code += self.first_parts(it.in_rules, flags_only=it.reactive is False)
        code += self._first_inside()
        code += self.data(it.init, self.scope(), self.names)
        if _read_by(it.in_rules) & {*_assigned(it.init)}:  # which the units inside were given too early
            code += self._first_inside()
            own = {*_assigned(it.init)} - _targets(it.in_rules) - _targets(it.out_rules)
            begin = [one for one in it.stored if one.name in own]
            code += [Let(_index(self.names[one.name]), Number(float(_start(one, it)))) for one in begin]
            code += self.data(it.init, self.scope(), self.names)
        return [*code, *self.outputs_now()]

    def _first_inside(self) -> Code:
        """The units inside at the start time: their inputs, their outputs, and what is stored of these."""
        it = self.it
        code = self.second_parts(it.in_rules, self.inner)
        scope = self.scope()
        begun: set[str] = set()
        for side, unit, port in it.inside.graph.order:
            inner, end = self.inside[unit], (unit, port)
            if side == "in":
                code += self.link(end, scope) if end in self.links else []
                code += inner.hold([port], every=True) if end in self.links or end in self.mapped else []
            else:
                code += inner.show(port, moved=True) if unit in begun else inner.first()
                begun.add(unit)
        code += [i for unit, inner in self.inside.items() if unit not in begun for i in inner.first()]
        code += [i for inner in self.inside.values() for i in inner.started()]
        return [*code, *self.first_parts(it.out_rules, flags_only=not self.ordered)]

    # ------------------------------------------------------------------ a step

    def at_end(self) -> Code:
        """Takes the inputs to the end of the step."""
        raise NotImplementedError

    def keep(self) -> tuple[Code, Code]:
        """What keeps the inputs as they are at the start of the step, and what takes them back there."""
        return [], []

    def transition(self) -> Code:
        """Algorithm 10: a step from `now` to `next`, which is lowered if it gets shorter."""
        it = self.it
        size = Let(self.size, Cell(self.next) - Cell(self.now))
        late = it.reactive is False
        body: Code = [
            *self._starts(),
            *([] if late else self.at_end()),
            *self.first_parts(it.in_rules),
            *_Control(self).code(),
        ]
        if not it.shortens:
            return [size, *body, *(self.at_end() if late else [])]
        keep, back = ([], []) if late else self.keep()
        wanted = self.new("wanted")
        shorter = Cell(self.now) + Cell(self.result)
        near = apply(Op.LE, Cell(self.next) - shorter, Cell(self.size) * NEAR)
        if it.discards:
            slot = self.wiring.registers.slot()
            own = {self.result, self.discarded, self.next}
            whole = Save((*self.units, *self.moved), tuple(r for r in self.registers if r not in own), slot)
            again = If(Cell(self.discarded), (Restore(slot), Let(self.next, shorter)))
            body = [size, Let(self.discarded, ZERO), Let(wanted, Cell(self.next)), *body, again]
            done = apply(Op.NOT, Cell(self.discarded))
            what = f"finding a step that '{it.name}' accepts"
            advice = (
                "It discards every step, however short. If it looks for a crossing of an input, that must "
                'move within a step: choose inputs="linear" and GaussSeidel().'
            )
            body = [whole, Repeat(RETRIES, tuple(body), done, "fail", what, (), advice)]
        else:
            body = [size, Let(wanted, Cell(self.next)), *body]
        body.append(Let(self.next, apply(Op.WHERE, near, Cell(self.next), shorter)))
        if late:
            return [*body, *self.at_end()]
        return [*keep, *body, If(Cell(self.next) < Cell(wanted), (*back, *self.at_end()))]

    @property
    def moved(self) -> tuple[str, ...]:
        """Units of the program that are not inside, and that a step moves."""
        return ()

    def _starts(self) -> Code:
        """Behind mere arithmetic, a unit follows the line of its inputs over the step."""
        code: Code = []
        for unit, inner in self.inside.items() if self.it.mapping is not None else ():
            if isinstance(inner, _Leaf):
                inner.follow(self.new, {port for owner, port in self.mapped if owner == unit})
                to = {f"{unit}.{port}": Cell(inner.starts[port][0]) for port in inner.starts}
                code += self.second_parts(self.it.in_rules, to, wanted=to.__contains__)
        return code


class _Top(_Level):
    """The adaptation that the whole program is of."""

    def __init__(self, wiring: Wiring, adapting: Adapting) -> None:
        self._driven = INPUTS in wiring.scenario.units
        super().__init__(wiring, adapting, "")

    def _times(self) -> tuple[Reg, Reg]:
        return self.wiring.now, self.wiring.next

    def _ends(self) -> tuple[dict[str, Reg], dict[str, Reg], dict[str, Reg]]:
        ports = self.it.ports
        inputs = {
            port.name: self.wiring.outputs[INPUTS, port.name]
            for port in ports
            if port.causality is Causality.INPUT
        }
        outputs = {
            port.name: self.wiring.results[port.name] for port in ports if port.causality is Causality.OUTPUT
        }
        return inputs, inputs, outputs

    @property
    def moved(self) -> tuple[str, ...]:
        return (INPUTS,) if self._driven else ()

    def _read(self) -> Code:
        return [Get(INPUTS, name, register) for name, register in self.inputs.items()]

    def at_end(self) -> Code:
        if not self._driven:
            return []
        return [Advance(INPUTS, self.now, self.next, self.wiring.reached(INPUTS)), *self._read()]

    def keep(self) -> tuple[Code, Code]:
        if not self._driven:
            return [], []
        slot = self.wiring.registers.slot()
        return [Save((INPUTS,), (), slot)], [Restore(slot)]

    def blocks(self) -> Blocks:
        it = self.it
        stepped = self.new("stepped", Kind.BOOLEAN)
        # Outputs that somebody has added to those of the adaptation, to count events and the like.
        sizes = {port.name: port.cells for port in it.ports}
        cells = {self.outputs[name] + i for name in self.outputs for i in range(sizes[name])}
        added = [let for let in self.wiring.finish() if isinstance(let, Let) and let.to not in cells]
        first = [*self.first(), *added]
        late = it.reactive is False or it.mapping is not None  # which look at inputs before a step moves them
        taken = self._read() if late else []
        step = (*taken, *self.transition(), Let(stepped, ONE), *self.outputs_now(), *added)
        # Inputs may come after the start; later they change outputs only if these follow them at once.
        again = [*(self.outputs_now() if self._taken else []), *added]
        kept = [*(self._read() if again else []), *again]
        once = If(Cell(stepped), tuple(kept), (*self._read(), *first))
        order = "" if it.control is not None else f"; {' → '.join(unit_order(it.inside))}, one step each"
        shown = "" if self.ordered else "; outputs are those of the last step: the units inside form a loop"
        return Blocks(
            (*self._read(), *first),
            {"step": step},
            (once,),
            notes=(f"{it.name} is {it.kind}{order}{shown}",),
            settles=True,
            takes_inputs=True,
        )


class _Inlined(_Level):
    """An adaptation as a unit inside another one."""

    reacts = False

    def __init__(
        self,
        wiring: Wiring,
        adapting: Adapting,
        path: str,
        rated: Mapping[str, int],
        delayed: Collection[str],
    ) -> None:
        self._rated = rated
        self._delayed = delayed
        super().__init__(wiring, adapting, path)
        self.early = self.it.shortens
        self.direct = frozenset(name for found in self.it.direct.values() for name in found)

    def _ends(self) -> tuple[dict[str, Reg], dict[str, Reg], dict[str, Reg]]:
        ports = [port for port in self.it.ports if port.causality is not Causality.PARAMETER]
        made = {port.name: self.new(port.name, port.kind, port.cells, port.initial) for port in ports}
        inputs = {port.name: made[port.name] for port in ports if port.causality is Causality.INPUT}
        self._cells = {port.name: port.cells for port in ports}
        self.rates = {
            name: tuple(self.new(f"{name}{'′' * k}", size=self._cells[name]) for k in range(1, count + 1))
            for name, count in self._rated.items()
        }
        own = {*self._rated, *self._delayed}
        kinds = {port.name: port for port in ports}
        seen, self._before = (
            {
                name: self.new(f"{name}′{what}", kinds[name].kind, kinds[name].cells, kinds[name].initial)
                for name in sorted(which)
            }
            for what, which in (("seen", own), ("before", self._delayed))
        )
        return inputs, {**inputs, **seen}, {name: made[name] for name in made if name not in inputs}

    def _at(self, since: Expr) -> Code:
        """Inputs with a trajectory, so long after they were given; delayed ones as they are now."""
        code = self._copy(self.seen, self.inputs, self._before)
        for name, rates in self.rates.items():
            if name in self._before:
                continue
            for i in range(self._cells[name]):
                value: Expr = ZERO
                for register in reversed(rates):
                    value = (Cell(register + i) + value) * since
                code.append(Let(self.seen[name] + i, Cell(self.inputs[name] + i) + value))
        return code

    @property
    def known(self) -> tuple[Reg, ...]:
        rates = (register for found in self.rates.values() for register in found)
        return (*self.outputs.values(), *self.inputs.values(), *rates)

    def at_end(self) -> Code:
        return self._at(Cell(self.next) - Cell(self.now))

    def begin(self, now: Reg) -> Code:
        return [Let(register, Cell(now)) for register in (self.reached, self.now, self.next)]

    def first(self) -> Code:
        return [*self._at(ZERO), *super().first()]

    def _copy(self, to: Mapping[str, Reg], source: Mapping[str, Reg], which: Iterable[str]) -> Code:
        cells = self._cells
        return [Let(to[name] + i, Cell(source[name] + i)) for name in which for i in range(cells[name])]

    def started(self) -> Code:
        return self._copy(self._before, self.inputs, self._before)

    def feed(self, given: Iterable[str], size: Reg) -> Code:
        return self._at(ZERO)

    def hold(self, given: Iterable[str], *, every: bool = False) -> Code:
        return self._at(ZERO)

    def advance(self, start: Reg, until: Reg, *, early: bool) -> Code:
        begin: Code = [Let(self.now, Cell(start)), Let(self.next, Cell(until))]
        late = [*self._copy(self.seen, self._before, self._before), *self.started()]
        return [*begin, *late, *self.transition(), Let(self.reached, Cell(self.next))]

    def show(self, port: str | None = None, *, moved: bool) -> Code:
        depends = (
            any(self.it.direct.values()) if port is None else bool(self.it.direct.get(port))
        )  # or a count
        return self.outputs_now() if moved or depends else []

    def until_next(self, to: Reg) -> Code:
        return [Let(to, Number(inf))]


class _Control:
    """Writes Ctrl, statement by statement."""

    def __init__(self, level: _Level) -> None:
        self._level = level
        self._it = it = level.it
        self._code = it.control if it.control is not None else default_control(it)
        self._scope = level.scope()
        self._to: dict[str, Expr] = {**level.names, **level.inner}
        self._given: Iterator[tuple[frozenset[str], frozenset[str]]]
        """For every `Step`, in the order of the text: the inputs of its unit that `control` has given values
        to, and those that it may have."""
        self._signs: dict[str, Reg] = {}
        """Whether it has given a value to an input, in this step: where that is not known before."""
        self._find_given()
        ends = bool(self._code) and isinstance(self._code[-1], Return | Discard)
        inside = statements(self._code[:-1] if ends else self._code)
        self._leaves = any(isinstance(one, Return | Discard) for one in inside)
        self._plain = _plain(self._code) if not it.shortens else frozenset()

    def _find_given(self) -> None:
        level = self._level
        found: list[tuple[frozenset[str], frozenset[str]]] = []
        for one, sure, perhaps in traced(
            self._code, lambda one: one.to if isinstance(one, Assign) and one.to in level.inner else None
        ):
            if isinstance(one, Step):
                own = {to for to in perhaps if _end(to)[0] == one.unit}
                found.append((sure & own, frozenset(own)))
                for to in sorted(own - sure):
                    if to not in self._signs and (_end(to) in level.mapped or _end(to) in level.links):
                        self._signs[to] = level.new(f"{to}′given", Kind.BOOLEAN)
        self._given = iter(found)

    def code(self) -> Code:
        level = self._level
        head: Code = [Let(level.result, Cell(level.size))] if self._it.shortens else []
        head += [Let(sign, ZERO) for sign in self._signs.values()]
        head += [Let(level.done, ZERO)] if self._leaves else []
        return [*head, *self._block(self._code, None)]

    def _block(self, found: tuple[Statement, ...], broken: Reg | None) -> Code:
        """Statements in a row. What comes after one that may leave them is done if it has not."""
        code: Code = []
        for k, one in enumerate(found):
            code += self._statement(one, broken)
            signs: list[Reg] = []
            if any(isinstance(i, Return | Discard) for i in statements([one])):
                signs.append(self._level.done)
            if broken is not None and breaks(one):
                signs.append(broken)
            rest = found[k + 1 :]
            if rest and signs:
                left = any_of([Cell(sign) for sign in signs])
                return [*code, If(left, (), tuple(self._block(rest, broken)))]
        return code

    def _statement(self, one: Statement, broken: Reg | None) -> Code:
        level, scope = self._level, self._scope
        match one:
            case Assign():
                sign: Code = [Let(self._signs[one.to], ONE)] if one.to in self._signs else []
                return [*level.assign(one, scope, self._to), *sign]
            case Local():
                return [Let(self._local(one.name, one.kind), substitute(expr(one.value), scope))]
            case When():
                condition = substitute(expr(one.condition), scope)
                then = tuple(self._block(one.then, broken))
                return [If(condition, then, tuple(self._block(one.orelse, broken)))]
            case Loop():
                return self._loop(one)
            case Break():
                assert broken is not None
                return [Let(broken, ONE)]
            case Step():
                return self._step(one)
            case SaveState():
                inner = level.inside[one.unit]
                return [Save(inner.units, inner.registers, level.slot(one.unit))]
            case Rollback():
                return [Restore(level.slot(one.unit))]
            case NextStep():
                return level.inside[one.unit].until_next(_index(self._to[one.to]))
            case Return() | Discard():
                code: Code = [Let(level.done, ONE)] if self._leaves else []
                if self._it.shortens:
                    code.append(Let(level.result, substitute(expr(one.by), scope)))
                return [*code, Let(level.discarded, ONE)] if isinstance(one, Discard) else code

    def _local(self, name: str, kind: Kind) -> Reg:
        if name not in self._to:
            self._to[name] = self._scope[name] = Cell(self._level.new(name, kind))
        return _index(self._to[name])

    def _loop(self, one: Loop) -> Code:
        level = self._level
        code: Code = []
        body: Code = []
        ends: list[Expr] = []
        broken: Reg | None = None
        if any(breaks(i) for i in one.body):
            broken = level.new("break", Kind.BOOLEAN)
            code.append(Let(broken, ZERO))
            ends.append(Cell(broken))
        if any(isinstance(i, Return | Discard) for i in statements(one.body)):
            ends.append(Cell(level.done))
        if one.index is not None:
            index = self._local(one.index, Kind.INTEGER)
            code.append(Let(index, Number(-1.0)))
            body.append(Let(index, Cell(index) + 1.0))
        body += self._block(one.body, broken)
        if one.until is not None:
            ends.append(substitute(expr(one.until), self._scope))
        until = any_of(ends) if ends else ZERO
        return [*code, Repeat(one.times, tuple(body), until, one.exhausted, one.what)]

    def _step(self, one: Step) -> Code:
        level, scope = self._level, self._scope
        inner = level.inside[one.unit]
        size = Cell(level.sized)
        code: Code = [Let(level.sized, substitute(expr(one.by), scope))]
        if _uses(self._it, "dt"):
            code.append(Let(level.after, substitute(expr(one.start), scope) - Cell(level.now)))
        sure, perhaps = next(self._given)
        unless = {to: Cell(self._signs[to]) for to in perhaps - sure if to in self._signs}
        for port in inner.inputs:
            end = (one.unit, port)
            if end in level.links:
                code += level.link(end, scope, sure, unless)
        code += level.second_parts(
            self._it.in_rules,
            level.inner,
            wanted=lambda to: _end(to)[0] == one.unit and to not in sure,
            unless=unless,
        )
        fed = {port for unit, port in (*level.mapped, *level.links, *map(_end, perhaps)) if unit == one.unit}
        code += inner.feed([port for port in inner.inputs if port in fed], level.sized)
        whole = isinstance(inner, _Leaf) and one.to is None  # it is not asked how far it gets
        if one.unit in self._plain and (whole or not inner.early) and not inner.reacts:
            code += inner.advance(level.now, level.next, early=False)
            code += [Let(_index(self._to[one.to]), size)] if one.to is not None else []
        else:
            own, until, wanted = (level.new(f"{one.unit}′{name}") for name in ("from", "until", "wanted"))
            reached, end_of = Cell(inner.reached), Cell(level.next)
            there = Cell(own) + size
            near = apply(Op.LE, apply(Op.ABS, there - end_of), Cell(level.size) * NEAR)
            code += [Let(own, reached), Let(wanted, apply(Op.WHERE, near, end_of, there))]
            early = one.to is not None
            move: tuple[Instruction, ...] = (
                Let(until, Cell(wanted)),
                *inner.advance(inner.reached, until, early=early),
            )
            if not early and (inner.reacts or (inner.early and isinstance(inner, _Inlined))):
                there = apply(Op.GE, reached, Cell(wanted))  # in as many parts as it takes
                move = (Repeat(PARTS, move, there, "fail", f"the step of {one.unit}"),)
            code.append(If(Cell(wanted) > Cell(own), move))
            if one.to is not None:
                got_there = apply(Op.GE, reached, Cell(wanted))
                made = apply(Op.WHERE, got_there, apply(Op.MAX, size, ZERO), reached - Cell(own))
                code.append(Let(_index(self._to[one.to]), made))
        return [*code, *inner.show(moved=True), *level.first_parts(self._it.out_rules)]


# ----------------------------------------------------------------------------------------------------
# What can be read off statements.


def _simplified(it: Adaptation) -> Adaptation:
    """The same without the storage that mere arithmetic does not need."""
    if it.mapping is None:
        return it
    inputs, outputs = it.mapping
    made = copy(it)
    for name in ("direct", "all_statements"):
        made.__dict__.pop(name, None)
    rules = {
        "in_rules": (Rule((), tuple(Assign(to, value) for to, value in inputs.items())),),
        "out_rules": (Rule((), tuple(Assign(to, value) for to, value in outputs.items())),),
        "inputs": (),
        "controls": (),
        "outputs": (),
    }
    for name, value in rules.items():
        object.__setattr__(made, name, value)
    return made


def default_control(it: Adaptation) -> tuple[Statement, ...]:
    """Every inner unit once, in the order of its connections; all as far as the first that stops early."""
    order = unit_order(it.inside)
    if not it.shortens:
        return tuple(Step(unit) for unit in order)
    sizes = {unit: f"{unit}′size" for unit in order}
    steps = [part for unit in order for part in (Local(sizes[unit], 0.0), Step(unit, to=sizes[unit]))]
    minimum: Expr = Name(sizes[order[0]])
    for unit in order[1:]:
        minimum = apply(Op.MIN, minimum, Name(sizes[unit]))
    if len(order) == 1:
        return (*steps, Return(minimum))
    return (*steps, When(apply(Op.LT, minimum, Name("H")), (Discard(minimum),)))


def _cells(name: str, first: Reg, port: Port) -> dict[str, Expr]:
    """What expressions call the cells of a port."""
    if port.size is None:
        return {name: Cell(first)}
    return {f"{name}[{i}]": Cell(first + i) for i in range(port.size)}


def _without(sign: Expr | None, code: Code) -> Code:
    """Code that is done unless there is a sign, and it is set."""
    return code if sign is None else [If(sign, (), tuple(code))]


def _index(cell: Expr) -> Reg:
    assert isinstance(cell, Cell)
    return cell.index


def _start(one: Stored, it: Adaptation) -> Value:
    value = evaluate(substitute(expr(one.start), it.constants), {})
    return bool(value) if one.kind is Kind.BOOLEAN else round(value) if one.kind is Kind.INTEGER else value


def _end(to: str) -> tuple[str, str]:
    """The unit and the port of ``unit.port[2]``."""
    unit, _, port = to.partition(".")
    return unit, port.partition("[")[0]


def _assigned(found: Iterable[Statement]) -> Iterator[str]:
    return (one.to for one in statements(found) if isinstance(one, Assign | NextStep))


def _targets(rules: tuple[Rule, ...]) -> set[str]:
    """What the first parts of rules store."""
    every = [one for rule in rules for one in statements(rule.first)]
    stored = {one.to for one in every if isinstance(one, Assign | NextStep)}
    return stored - {one.name for one in every if isinstance(one, Local)}


def _read_by(rules: tuple[Rule, ...]) -> set[str]:
    """What second parts of rules read."""
    found: set[str] = set()
    for one in statements(one for rule in rules for one in rule.second):
        trees = [one.condition] if isinstance(one, When) else []
        trees += [one.value, *one.rates] if isinstance(one, Assign) else []
        trees += [one.value] if isinstance(one, Local) else []
        found |= {name for tree in trees for name in names(expr(tree))}
    return found


def _uses(it: Adaptation, name: str) -> bool:
    """Whether MapIn or MapOut read a name."""
    for rule in (*it.in_rules, *it.out_rules):
        if name in names(expr(rule.condition)):
            return True
        for one in statements((*rule.first, *rule.second)):
            trees = [one.condition] if isinstance(one, When) else []
            trees += [one.value, *one.rates] if isinstance(one, Assign) else []
            trees += [one.value] if isinstance(one, Local) else []
            if any(name in names(expr(tree)) for tree in trees):
                return True
    return False


def _unsure(rules: tuple[Rule, ...]) -> set[str]:
    """What the first parts of rules store, but perhaps not always, or not before it is read."""
    read: set[str] = set()
    sure: set[str] = set()
    for rule in rules:
        read |= names(expr(rule.condition))
        for one in statements(rule.first):
            if isinstance(one, Assign | Local):
                read |= names(expr(one.value))
            elif isinstance(one, When):
                read |= names(expr(one.condition))
        if rule.always:
            sure |= {one.to for one in rule.first if isinstance(one, Assign)}
    return _targets(rules) - (sure - read)


def _rated(it: Adaptation) -> dict[tuple[str, str], int]:
    """The inputs of inner units that are given a trajectory, and how many rates these have."""
    found: dict[tuple[str, str], int] = {}
    for one in it.all_statements():
        if isinstance(one, Assign) and one.rates:
            end = _end(one.to)
            found[end] = max(found.get(end, 0), len(one.rates))
    return found


def _plain(code: tuple[Statement, ...]) -> frozenset[str]:
    """The inner units that make one step in every step, over all of it."""
    every = [one.unit for one in statements(code) if isinstance(one, Step | Rollback)]
    found: set[str] = set()
    for one in code:
        if isinstance(one, Step) and (one.start, one.by) == (Name("t"), Name("H")):
            if every.count(one.unit) == 1:
                found.add(one.unit)
        elif any(isinstance(i, Return | Discard) for i in statements([one])):
            break
    return frozenset(found)
