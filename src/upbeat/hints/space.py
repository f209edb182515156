"""The search space of masters as data, and its variants in the order in which they are worth a try.

    space = SearchSpace((
        Candidate(
            choices=(
                Choice("H", (Option(1e-7, weight=4), Option(1e-6, weight=3))),
                Choice("R", (Option(100, weight=2), Option(10, weight=1))),
            ),
        ),
    ))
    [variant.values for variant in space.variants()]

A candidate is what is decided already, with choices between what excludes each other. Its *variant diagram*
has a level for each choice, all nodes of a level have the same children, and choices with larger weights are
nearer to the root: a variant is a path from there to a leaf, and they come depth first, with the largest
weight first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple

from upbeat.core.errors import InvalidInput
from upbeat.core.records import dataclass
from upbeat.hints.schedule import Coupled, Schedule, UnitGroup, scheduled

STEP: Final = "step"
"""The choice between communication steps, where there is one."""


class Times(float):
    """The steps of a pace that chooses them itself: so many times as long as they would be now."""

    def __str__(self) -> str:
        return f"{float(self)!r} × the present ones"


# ----------------------------------------------------------------------------------------------------
# Adaptations: what a variant does about units, inputs and power bonds.


@dataclass(frozen=True)
class Extrapolated:
    """An input goes on from what was known at the start of the step, along a polynomial of this order."""

    port: str
    order: int = 0

    def __str__(self) -> str:
        return f"{self.port} {'held' if self.order == 0 else f'extrapolated, order {self.order}'}"


@dataclass(frozen=True)
class Interpolated:
    """An input is told its value at the end of the step: its source goes first."""

    port: str

    def __str__(self) -> str:
        return f"{self.port} interpolated"


@dataclass(frozen=True)
class Rated:
    """Units make so many steps per communication step; several of them are a unit by themselves."""

    units: tuple[str, ...]
    rate: int

    def __str__(self) -> str:
        return f"{', '.join(self.units)}: {self.rate} steps in one"


@dataclass(frozen=True)
class Corrected:
    """The inputs of a power bond make good the energy that the coupling has got wrong."""

    ports: tuple[str, ...]
    order: int = 0
    """Of the extrapolation that is corrected."""

    def __str__(self) -> str:
        return f"{' and '.join(self.ports)} correct the energy of the step before"


Adaptation = Extrapolated | Interpolated | Rated | Corrected


@dataclass(frozen=True)
class Decision:
    """A part of a master: ``coupling``, ``inputs`` or ``events``, and what is taken for it."""

    part: str
    value: Any = field(hash=False)

    def __str__(self) -> str:
        if self.part == "every":
            return f"{self.value[0]} every {self.value[1]:g} s"
        return f"{self.part}: {self.value}"


# ----------------------------------------------------------------------------------------------------
# Choices, candidates and variants.


@dataclass(frozen=True)
class Option:
    """One of several that exclude each other. `value` is what tells it apart; what it means are its
    `adaptations`. The larger its weight, the sooner it is tried."""

    value: Any
    weight: float = 1.0
    adaptations: tuple[Adaptation | Decision, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Choice:
    """Alternatives, of which a variant has exactly one."""

    name: str
    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise InvalidInput(f"the choice '{self.name}' has no options")

    @property
    def ranked(self) -> tuple[Option, ...]:
        """Its options, those with the largest weight first."""
        return tuple(sorted(self.options, key=lambda option: -option.weight))


@dataclass(frozen=True)
class Candidate:
    """A master with some things left open: adaptations that are decided, and choices."""

    choices: tuple[Choice, ...] = ()
    adaptations: tuple[Adaptation | Decision, ...] = ()
    name: str = ""
    weight: float = 1.0

    @property
    def levels(self) -> tuple[Choice, ...]:
        """The levels of its variant diagram, from the root on."""
        return tuple(sorted(self.choices, key=lambda choice: -choice.ranked[0].weight))


@dataclass(frozen=True)
class Variant:
    """A candidate with everything decided: a path through its diagram."""

    candidate: Candidate
    path: tuple[tuple[str, Option], ...]

    @property
    def values(self) -> tuple[Any, ...]:
        """What was chosen, from the root of the diagram on."""
        return tuple(option.value for _, option in self.path)

    @property
    def chosen(self) -> Mapping[str, Any]:
        """What was chosen, by the name of the choice."""
        return {name: option.value for name, option in self.path}

    @property
    def adaptations(self) -> tuple[Adaptation | Decision, ...]:
        """All that it does."""
        return (*self.candidate.adaptations, *(a for _, option in self.path for a in option.adaptations))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why its options are among the choices."""
        return tuple(dict.fromkeys(option.why for _, option in self.path if option.why))

    @property
    def way(self) -> tuple[Any, ...]:
        """What tells it apart from others with the same communication step."""
        return (self.candidate.name, *(str(o.value) for name, o in self.path if name != STEP))

    def __str__(self) -> str:
        said = [f"{name} = {option.value}" for name, option in self.path]
        return ", ".join([self.candidate.name, *said] if self.candidate.name else said)


class Node(NamedTuple):
    """A node of a variant diagram: what is decided there, its weight, and the choice below it."""

    name: str
    option: Option | None
    children: tuple[Node, ...]

    @property
    def leaves(self) -> int:
        """How many variants there are below it."""
        return 1 if not self.children else len(self.children) * self.children[0].leaves


def diagram(candidate: Candidate) -> Node:
    """The variant diagram of a candidate: its root. Siblings share their children."""
    below: tuple[Node, ...] = ()
    for choice in reversed(candidate.levels):
        below = tuple(Node(choice.name, option, below) for option in choice.ranked)
    return Node(candidate.name, None, below)


@dataclass(frozen=True)
class SearchSpace:
    """All masters that are thought of."""

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(prod(len(choice.options) for choice in one.choices) for one in self.candidates)

    def variants(self) -> Iterator[Variant]:
        """All variants, one after the other, those that are worth a try first."""
        for candidate in sorted(self.candidates, key=lambda one: -one.weight):
            yield from _paths(candidate, diagram(candidate), ())

    def ladders(self, count: int) -> Iterator[tuple[Variant, ...]]:
        """The first of its ways, each with all communication steps, the longest first."""
        ways = islice((way for one in self._without_steps for way in one), count)
        for candidate, way in ways:
            steps = next((choice for choice in candidate.choices if choice.name == STEP), None)
            options = () if steps is None else sorted(steps.options, key=lambda option: -float(option.value))
            chosen = dict(way)
            rungs = [{**chosen, STEP: option} for option in options] or [chosen]
            names = [choice.name for choice in candidate.levels]
            yield tuple(Variant(candidate, tuple((name, rung[name]) for name in names)) for rung in rungs)

    @property
    def _without_steps(self) -> Iterator[Iterator[tuple[Candidate, tuple[tuple[str, Option], ...]]]]:
        for candidate in sorted(self.candidates, key=lambda one: -one.weight):
            rest = replace(candidate, choices=tuple(c for c in candidate.choices if c.name != STEP))
            yield ((candidate, variant.path) for variant in SearchSpace((rest,)).variants())

    def first(self, count: int) -> list[Variant]:
        """The first of them."""
        return list(islice(self.variants(), count))


def _paths(candidate: Candidate, node: Node, path: tuple[tuple[str, Option], ...]) -> Iterator[Variant]:
    if not node.children:
        yield Variant(candidate, path)
    for child in node.children:
        assert child.option is not None
        yield from _paths(candidate, child, (*path, (child.name, child.option)))


# ----------------------------------------------------------------------------------------------------
# Whether a variant can be carried out.


def schedule_of(variant: Variant, units: Sequence[str], links: Sequence[Coupled]) -> Schedule:
    """The operation schedule of a variant: in which order units are asked, stepped and told.

    `links` are the connections with what units say of their inputs themselves; adaptations go before. An
    input of which nothing is known is held, so that it is told its value before the source has moved on.
    """
    reactive = {a.port: isinstance(a, Interpolated) for a in variant.adaptations
                if isinstance(a, (Interpolated, Extrapolated))}  # fmt: skip
    for one in variant.adaptations:
        if isinstance(one, Corrected):  # of what is interpolated nothing has to be made good
            reactive = dict.fromkeys(one.ports, False) | reactive
    links = [
        link._replace(reactive=reactive[link.input]) if link.input in reactive and not link.fixed else link
        for link in links
    ]
    groups = [UnitGroup(one.units, one.rate) for one in variant.adaptations
              if isinstance(one, Rated) and len(one.units) > 1]  # fmt: skip
    return scheduled(units, links, groups)
