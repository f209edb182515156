"""The states and transitions of a state machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from upbeat.core.errors import suggest
from upbeat.core.expr import ONE, ZERO, Expr, Name, Number, Op, apply, simplify
from upbeat.core.names import objection_to
from upbeat.core.records import dataclass
from upbeat.units.discrete.model import Assignments
from upbeat.units.equations.events import Sending, heard_events, listed, sendings
from upbeat.units.equations.scope import Vocabulary
from upbeat.units.shorthand import Complaints, entries

# ----------------------------------------------------------------------------------------------------
# The names that every state machine has.

ELAPSED = "elapsed"
"""The name of the time since the leaf was entered."""
STATE = "state"
"""The name of the leaf: in expressions, as a variable and as an output."""


# ----------------------------------------------------------------------------------------------------
# Truth values and choices as expressions, with less to do where a part is known.


def choice(condition: Expr, then: Expr, other: Expr) -> Expr:
    """One or the other."""
    if isinstance(condition, Number):
        return then if condition.value else other
    return then if then == other else apply(Op.WHERE, condition, then, other)


def both(one: Expr, two: Expr) -> Expr:
    """Whether both hold."""
    if one == ONE or two == ZERO:
        return two
    return one if two == ONE or one == ZERO else apply(Op.AND, one, two)


def either(one: Expr, two: Expr) -> Expr:
    """Whether one of them holds."""
    return ONE if two == ONE else apply(Op.OR, one, two)


def any_of(flags: Sequence[str]) -> Expr:
    """Whether one of these names is true."""
    found: Expr = ZERO
    for flag in flags:
        found = Name(flag) if found == ZERO else apply(Op.OR, found, Name(flag))
    return found


def negated(one: Expr) -> Expr:
    """Whether it does not hold."""
    return ONE if one == ZERO else apply(Op.NOT, one)


# ----------------------------------------------------------------------------------------------------
# The states of a machine: a tree, how its nodes are addressed, and what their labels are.

KEYS = ("initial", "states", "entry", "exit")


@dataclass(eq=False, slots=True)
class State:
    """One state. `path` are the names from the outermost state to this one; the machine itself has none.

    `entry` and `exit` are as they were written: a table of assignments.
    """

    path: tuple[str, ...]
    parent: State | None
    entry: Any = None
    exit: Any = None
    children: dict[str, State] = field(default_factory=dict)
    initial: State | None = None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def where(self) -> str:
        """Where the description of this state is found: ``states.auto.states.red``."""
        return ".".join(f"states.{name}" for name in self.path)

    @property
    def leaf(self) -> bool:
        return not self.children

    @property
    def first(self) -> State:
        """The leaf that is entered when this state is."""
        state = self
        while state.initial is not None:
            state = state.initial
        return state

    def upwards(self) -> Iterator[State]:
        """This state and the states around it; without the machine itself."""
        state = self
        while state.parent is not None:
            yield state
            state = state.parent

    def below(self) -> Iterator[State]:
        """All states inside this one, outer ones first."""
        for child in self.children.values():
            yield child
            yield from child.below()

    def contains(self, other: State) -> bool:
        """Whether `other` is properly inside this state."""
        return len(other.path) > len(self.path) and other.path[: len(self.path)] == self.path

    def inwards(self, leaf: State) -> list[State]:
        """The states that are entered on the way from this one to `leaf`, outer ones first."""
        return [state for state in reversed(list(leaf.upwards())) if self.contains(state)]


class Chart:
    """All states of a machine."""

    def __init__(self, root: State) -> None:
        self.root = root
        self.states = tuple(root.below())
        self.leaves = tuple(state for state in self.states if state.leaf)
        self.labels = tuple(self._label(leaf) for leaf in self.leaves)
        self._names = tuple(self._label(state) for state in self.states)

    def find(
        self, given: object, where: str, complaints: Complaints, inside: State | None = None
    ) -> State | None:
        """The state that `given` names: by its whole path, or by the end of it if that is clear."""
        around = inside or self.root
        if not isinstance(given, str):
            complaints.add(where, f'expected the name of a state, such as "{self.labels[0]}", not {given!r}')
            return None
        found = self._matches(given, around)
        if len(found) == 1:
            return found[0]
        if found:
            paths = " or ".join(f'"{state.name}"' for state in found)
            complaints.add(where, f"'{given}' could be several states; write {paths}")
            return None
        known = [name for name in self._names if self._matches(name, around)]
        place = f" in '{around.name}'" if around.path else ""
        complaints.add(where, f"there is no state '{given}'{place}. {suggest(given, known, 'states')}")
        return None

    def _matches(self, given: str, around: State) -> list[State]:
        path = tuple(given.split("."))
        for whole in (path, (*around.path, *path)):
            exact = [state for state in around.below() if state.path == whole]
            if exact:
                return exact
        return [state for state in around.below() if state.path[-len(path) :] == path]

    def _label(self, state: State) -> str:
        """The shortest name that means this state and no other."""
        ends = (".".join(state.path[-count:]) for count in range(1, len(state.path)))
        return next((end for end in ends if self._matches(end, self.root) == [state]), state.name)


def read_chart(states: object, initial: object, complaints: Complaints) -> Chart | None:
    """The tree of `states`; None, with complaints, if there is none to speak of."""
    root = State((), None)
    initials: list[tuple[State, object, str]] = [(root, initial, "initial")]
    _read_states(states, root, "states", initials, complaints)
    if not root.children:
        if not complaints.found:
            complaints.add("states", "a state machine needs at least one state: states = { idle = {} }")
        return None
    chart = Chart(root)
    for state, given, where in initials:
        if given is None:
            inner = f"'{state.name}'" if state.path else "the machine"
            example = next(iter(state.children))
            complaints.add(where, f'say in which state {inner} starts: initial = "{example}"')
        else:
            state.initial = chart.find(given, where, complaints, inside=state)
        # In spite of a complaint the tree has leaves everywhere.
        state.initial = state.initial or next(iter(state.children.values()))
    return chart


def _read_states(
    given: object,
    parent: State,
    where: str,
    initials: list[tuple[State, object, str]],
    complaints: Complaints,
) -> None:
    for name, given_state in entries(given, where, complaints).items():
        here = f"{where}.{name}"
        if objection := objection_to(name):
            complaints.add(here, f"{name!r} is not the name of a state: {objection}")
            continue
        if not isinstance(given_state, Mapping):
            complaints.add(here, f"a state is a table, such as {name} = {{}}, not {given_state!r}")
        entry = given_state if isinstance(given_state, Mapping) else {}
        for key in entry:
            if key not in KEYS:
                complaints.add(f"{here}.{key}", f"unknown key {key!r}. {suggest(str(key), KEYS, 'keys')}")
        state = State((*parent.path, name), parent, entry.get("entry"), entry.get("exit"))
        parent.children[name] = state
        if "states" in entry:
            before = len(complaints.found)
            initials.append((state, entry.get("initial"), f"{here}.initial"))
            _read_states(entry["states"], state, f"{here}.states", initials, complaints)
            if not state.children:
                initials.pop()
                if len(complaints.found) == before:
                    complaints.add(f"{here}.states", "there is no state inside; leave it out, or add one")
        elif "initial" in entry:
            complaints.add(f"{here}.initial", "there are no states inside among which it could start")


# ----------------------------------------------------------------------------------------------------
# The transitions of a state machine, read and checked one by one.

TRANSITION_KEYS = ("from", "to", "after", "on", "when", "do", "emit")
FIXED = (
    'a delay is fixed when the state is entered. To follow a signal, write when = "…"; to take its value '
    'then, keep it in a variable: entry = { wait = "…" }'
)


@dataclass(frozen=True)
class Transition:
    """One transition, with its place in the list. Without `to` it is internal: no state is left."""

    number: int
    sources: tuple[State, ...]
    to: State | None
    after: Expr | None
    on: tuple[str, ...]
    when: Expr | None
    do: Assignments
    emit: tuple[Sending, ...]

    def source(self, leaf: State) -> State | None:
        """The innermost of its sources that `leaf` is or lies in."""
        return next((state for state in leaf.upwards() if state in self.sources), None)


def read_transitions(given: object, chart: Chart, names: Vocabulary) -> tuple[Transition, ...]:
    """All transitions that could be read."""
    complaints = names.complaints
    if given is None:
        return ()
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        complaints.add(
            "transitions", f'a list of tables is needed: [{{ from = "…", to = "…" }}], not {given!r}'
        )
        return ()
    found = []
    for number, entry in enumerate(given):
        where = f"transitions.{number}"
        if not isinstance(entry, Mapping):
            complaints.add(where, f'a transition is a table: {{ from = "…", to = "…" }}, not {entry!r}')
            continue
        for key in entry:
            if key not in TRANSITION_KEYS:
                complaints.add(f"{where}.{key}", f"unknown key {key!r}. {suggest(str(key), KEYS, 'keys')}")
        found.append(_read(number, where, entry, chart, names))
    return tuple(found)


def _read(number: int, where: str, entry: Mapping[str, Any], chart: Chart, names: Vocabulary) -> Transition:
    complaints = names.complaints
    sources = []
    if "from" not in entry:
        complaints.add(where, f'a transition starts somewhere: from = "{chart.labels[0]}"')
    for given in listed(entry.get("from")):
        state = chart.find(given, f"{where}.from", complaints)
        if state is not None and state in sources:
            complaints.add(f"{where}.from", f"'{given}' is listed twice")
        elif state is not None:
            sources.append(state)
    to = chart.find(entry["to"], f"{where}.to", complaints) if "to" in entry else None
    on = heard_events(where, entry.get("on"), names)
    if "after" in entry and "on" in entry:
        complaints.add(
            f"{where}.after",
            'a transition is either timed or waits for an event. For "not before", write on and '
            f'when = "elapsed >= {entry["after"]}"',
        )
    if not {"after", "on", "when"} & entry.keys():
        complaints.add(where, 'say when it is taken: after = "60", on = "event" or when = "condition"')
    heard = on if len(on) == 1 else ()
    when = names.truth(where, "when", entry["when"], heard) if "when" in entry else None
    if "when" in entry and when is None:
        when = ONE
    after = _delay(where, entry["after"], names) if "after" in entry else None
    do = names.assignments(f"{where}.do", entry.get("do"), heard)
    emit = sendings(where, entry.get("emit"), names, heard)
    return Transition(number, tuple(sources), to, after, on, when, do, emit)


def _delay(where: str, given: object, names: Vocabulary) -> Expr:
    expr = names.expression(where, "after", given, still=FIXED)
    if expr is None:
        return ONE
    known = simplify(expr)
    if isinstance(known, Number) and not known.value >= 0.0:
        what = "not a number" if math.isnan(known.value) else f"{known.value:g}"
        names.complaints.add(f"{where}.after", f"a delay is 0 or more, not {what}")
    return expr


def complain_about_loops(chart: Chart, transitions: tuple[Transition, ...], complaints: Complaints) -> None:
    """Refuse chains of transitions without delay and condition that never end."""
    certain: dict[State, Transition] = {}
    for leaf in chart.leaves:
        first = next((t for t, _ in candidates(leaf, transitions) if not t.on), None)
        if first is None or first.when is not None or first.after is None:
            continue
        if simplify(first.after) == ZERO:
            certain[leaf] = first
    reported: set[int] = set()
    for leaf in certain:
        seen: list[State] = []
        at = leaf
        while at in certain and at not in seen:
            seen.append(at)
            to = certain[at].to
            at = at if to is None else to.first
        if at in seen and certain[at].number not in reported:
            loop = seen[seen.index(at) :]
            reported |= {certain[state].number for state in loop}
            names = " → ".join(state.name for state in (*loop, loop[0]))
            complaints.add(
                f"transitions.{certain[at].number}.after",
                f"this never ends: {names} takes no time. Give one of them a delay or a condition",
            )


def candidates(leaf: State, transitions: tuple[Transition, ...]) -> list[tuple[Transition, State]]:
    """The transitions that may be taken in a leaf, by priority, each with the source that it starts from."""
    found = [(t, source) for t in transitions if (source := t.source(leaf)) is not None]
    return sorted(found, key=lambda pair: (-len(pair[1].path), pair[0].number))
