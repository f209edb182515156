"""The states of a machine: a tree, how its nodes are addressed, and what their labels are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upbeat.core.errors import suggest
from upbeat.core.names import objection_to
from upbeat.units.shorthand import Complaints, entries

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
        # Whoever looks at the tree in spite of a complaint finds leaves everywhere.
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
