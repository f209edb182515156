"""From states and transitions to the modes of a `Discrete` model: one mode for every leaf."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from upbeat.core.expr import ONE, ZERO, Expr, Name, Number, Op, apply, names, simplify, substitute
from upbeat.core.ports import Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.discrete.machine.chart import (
    ELAPSED,
    STATE,
    Chart,
    State,
    Transition,
    any_of,
    both,
    candidates,
    choice,
    either,
    negated,
)
from upbeat.units.discrete.model import Assignments, Emission, Mode, Variable
from upbeat.units.equations.data import TIME
from upbeat.units.equations.events import Sending

_TIME = Name(TIME)
_NEVER = Number(math.inf)
_Changes = dict[str, Expr]


@dataclass(frozen=True)
class Actions:
    """What happens when a state is entered and when it is left."""

    entry: Assignments = ()
    exit: Assignments = ()


@dataclass(frozen=True)
class _Waiting:
    """The variables that keep what an event triggered until it is sent: whether, and the cells."""

    present: str
    cells: tuple[str, ...]


class Compiler:
    """Variables of its own are the leaf (`state`), when the leaf was entered (if an expression asks for
    `elapsed`), a deadline for every timed transition and source, and events that wait to be sent.

    Deadlines are computed once, when their state is entered, so that they compare exactly.
    """

    def __init__(
        self,
        chart: Chart,
        transitions: tuple[Transition, ...],
        actions: Mapping[State, Actions],
        variables: Sequence[Port],
        taken: Collection[str],
        outputs: Iterable[tuple[str, tuple[Expr, ...]]],
        heard: Sequence[str],
    ) -> None:
        self._chart = chart
        self._transitions = transitions
        self._actions = actions
        self._public = [Variable(p.name, p.kind, p.initial[0], p.items) for p in variables]
        self._taken = {*taken, *(port.name for port in variables)}
        self._written = tuple(outputs)
        self._number = {leaf: i for i, leaf in enumerate(chart.leaves)}
        self._hidden: list[Variable] = []
        self._entered = self._own("_entered", Kind.REAL, 0.0) if self._asks_elapsed() else None
        self._deadlines = {
            (t.number, source): self._own(f"_deadline_{t.number}", Kind.REAL, math.inf)
            for t in transitions
            if t.after is not None
            for source in t.sources
        }
        self._waiting = {port.name: self._wait(port) for port in self._deferred()}
        self._quiet = negated(any_of([f"{port}?" for port in heard]))

    def _own(self, wanted: str, kind: Kind, start: float) -> str:
        """A variable of the machine's own, under a name that is free."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        value = {Kind.REAL: float, Kind.INTEGER: int, Kind.BOOLEAN: bool}[kind](start)
        self._hidden.append(Variable(name, kind, value))
        return name

    def _wait(self, port: Port) -> _Waiting:
        present = self._own(f"_waiting_{port.name}", Kind.BOOLEAN, 0.0)
        cells = [self._own(f"_payload_{port.name}", port.kind, 0.0) for _ in range(port.cells)]
        return _Waiting(present, tuple(cells))

    def _deferred(self) -> list[Port]:
        found = {s.port.name: s.port for t in self._transitions if t.on for s in t.emit}
        return list(found.values())

    def _asks_elapsed(self) -> bool:
        return any(ELAPSED in names(expr) for expr in self._expressions())

    def _expressions(self) -> Iterator[Expr]:
        for _, cells in self._written:
            yield from cells
        for actions in self._actions.values():
            yield from (expr for _, expr in (*actions.entry, *actions.exit))
        for t in self._transitions:
            yield from (expr for expr in (t.after, t.when) if expr is not None)
            yield from (expr for _, expr in t.do)
            yield from (expr for sending in t.emit for expr in (sending.present, *sending.cells))

    # ---------------------------------------------------------------- the parts of the model

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Those of the user first."""
        leaf = Variable(STATE, Kind.INTEGER, self._number[self._chart.root.first], self._chart.labels)
        return (*self._public, leaf, *self._hidden)

    @property
    def outputs(self) -> tuple[tuple[str, tuple[Expr, ...]], ...]:
        since = {} if self._entered is None else {ELAPSED: _TIME - Name(self._entered)}
        return tuple(
            (name, tuple(substitute(cell, since) for cell in cells)) for name, cells in self._written
        )

    @property
    def initial(self) -> Assignments:
        """The machine enters its first leaf."""
        root, leaf = self._chart.root, self._chart.root.first
        changes: _Changes = {}
        self._enter(changes, root.inwards(leaf))
        known = {STATE: Number(self._number[leaf]), ELAPSED: ZERO}
        del changes[STATE]
        return tuple((name, simplify(substitute(value, known))) for name, value in changes.items())

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(self._mode(leaf) for leaf in self._chart.leaves)

    def _mode(self, leaf: State) -> Mode:
        found = candidates(leaf, self._transitions)
        by_itself = [(t, source) for t, source in found if not t.on]
        by_events = [(t, source) for t, source in found if t.on]
        known: dict[str, Expr] = {STATE: Number(self._number[leaf])}
        if self._entered is not None:
            known[ELAPSED] = _TIME - Name(self._entered)

        def finished(expr: Expr) -> Expr:
            return simplify(substitute(expr, known))

        def assigned(changes: _Changes) -> Assignments:
            pairs = ((name, finished(value)) for name, value in changes.items())
            return tuple((name, value) for name, value in pairs if value != Name(name))

        return Mode(
            due=finished(self._due(by_itself)),
            emissions=tuple(self._emissions(by_itself, finished)),
            internal=assigned(self._internal(leaf, by_itself)),
            external=assigned(self._external(leaf, by_events)),
        )

    # ---------------------------------------------------------------- when

    @property
    def _something_waits(self) -> Expr:
        return any_of([waiting.present for waiting in self._waiting.values()])

    def _due(self, found: Sequence[tuple[Transition, State]]) -> Expr:
        due: Expr = _NEVER
        for t, source in reversed(found):
            due = (
                apply(Op.MIN, self._time_of(t, source), due)
                if due is not _NEVER
                else self._time_of(t, source)
            )
        return choice(self._something_waits, _TIME, due)

    def _time_of(self, t: Transition, source: State) -> Expr:
        """When a transition may be taken. One with delay and condition wants the deadline to be a
        communication point, also if the condition does not hold yet: that is when it is looked at."""
        if t.when is None:
            return self._deadline(t, source)
        if t.after is None:
            return choice(t.when, _TIME, _NEVER)
        deadline = self._deadline(t, source)
        return choice(apply(Op.GT, deadline, _TIME), deadline, choice(t.when, _TIME, _NEVER))

    def _enabled(self, t: Transition, source: State) -> Expr:
        trigger: Expr = ONE
        if t.on:
            trigger = any_of([f"{port}?" for port in t.on])
        elif t.after is not None:
            trigger = apply(Op.LE, self._deadline(t, source), _TIME)
        return both(trigger, t.when if t.when is not None else ONE)

    def _deadline(self, t: Transition, source: State) -> Expr:
        return Name(self._deadlines[t.number, source])

    # ---------------------------------------------------------------- what

    def _emissions(
        self, found: Sequence[tuple[Transition, State]], finished: Callable[[Expr], Expr]
    ) -> Iterator[Emission]:
        ports = {s.port.name: s.port for t, _ in found for s in t.emit}
        ports |= {s.port.name: s.port for t in self._transitions if t.on for s in t.emit}
        for name, port in ports.items():
            present: Expr = ZERO
            cells: list[Expr] = [ZERO] * port.cells
            for t, source in reversed(found):
                enabled = self._enabled(t, source)
                sending = _of(name, t)
                present = choice(enabled, ZERO if sending is None else sending.present, present)
                if sending is not None:
                    cells = [choice(enabled, new, old) for new, old in zip(sending.cells, cells, strict=True)]
            if name in self._waiting:
                kept = self._waiting[name]
                there = Name(kept.present)
                cells = [choice(there, Name(one), old) for one, old in zip(kept.cells, cells, strict=True)]
                present = choice(self._something_waits, there, present)
            elif self._waiting:
                present = both(negated(self._something_waits), present)
            # With events that have come in, the next jump is another one and sends nothing.
            yield Emission(name, finished(both(self._quiet, present)), tuple(map(finished, cells)))

    def _internal(self, leaf: State, found: Sequence[tuple[Transition, State]]) -> _Changes:
        changes = self._first(found, lambda t, source: self._effect(leaf, t, source))
        waits = self._something_waits
        changes = {name: choice(waits, Name(name), value) for name, value in changes.items()}
        for waiting in self._waiting.values():
            changes[waiting.present] = ZERO  # there is none left to be sent
        return changes

    def _external(self, leaf: State, found: Sequence[tuple[Transition, State]]) -> _Changes:
        def effect(t: Transition, source: State) -> _Changes:
            changes = self._effect(leaf, t, source)
            for sending in t.emit:
                waiting = self._waiting[sending.port.name]
                changes[waiting.present] = either(Name(waiting.present), sending.present)
                for cell, value in zip(waiting.cells, sending.cells, strict=True):
                    changes[cell] = value
            return changes

        return self._first(found, effect)

    def _first(
        self,
        found: Sequence[tuple[Transition, State]],
        effect: Callable[[Transition, State], _Changes],
    ) -> _Changes:
        """The changes of the first transition that is enabled."""
        result: _Changes = {}
        for t, source in reversed(found):
            enabled, changes = self._enabled(t, source), effect(t, source)
            result = {
                name: choice(enabled, changes.get(name, Name(name)), result.get(name, Name(name)))
                for name in {**changes, **result}
            }
        return result

    def _effect(self, leaf: State, t: Transition, source: State) -> _Changes:
        """Exits from inside out, the transition's own assignments, entries from outside in."""
        changes: _Changes = {}
        if t.to is None:
            _perform(changes, t.do)
            if t.after is not None:  # its own delay begins again; those of others go on
                changes[self._deadlines[t.number, source]] = _TIME + substitute(t.after, changes)
            return changes
        around = source.parent
        while around is not None and not around.contains(t.to):
            around = around.parent
        assert around is not None  # the machine itself contains every state
        for state in leaf.upwards():
            if around.contains(state):
                _perform(changes, self._actions[state].exit)
        _perform(changes, t.do)
        self._enter(changes, around.inwards(t.to.first))
        return changes

    def _enter(self, changes: _Changes, states: Sequence[State]) -> None:
        for state in states:
            _perform(changes, self._actions[state].entry)
        deadlines = {
            self._deadlines[t.number, state]: _TIME + substitute(t.after, changes)
            for t in self._transitions
            if t.after is not None
            for state in t.sources
            if state in states
        }
        changes |= deadlines
        changes[STATE] = Number(self._number[states[-1]])
        if self._entered is not None:
            changes[self._entered] = _TIME


def _perform(changes: _Changes, assignments: Assignments) -> None:
    """All of them read what was before them."""
    changes |= {name: substitute(value, changes) for name, value in assignments}


def _of(port: str, t: Transition) -> Sending | None:
    return next((sending for sending in t.emit if sending.port.name == port), None)
