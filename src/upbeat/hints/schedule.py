"""Operation schedules: in which order a co-simulation step asks, tells and steps its units.

Operations are nodes of a directed graph, and an edge says that one must come before the other:

* an input is told before its unit makes its step;
* an output is asked just before the inputs are told that it goes to;
* the source of an input that *interpolates* (is reactive) has made its step before it is asked;
* the source of any other input makes its step after the input was told.

A schedule is valid if the graph has no cycle; every order that it allows then means the same. Units that step
several times together are one unit of the outer graph, with a schedule of their own inside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Literal, NamedTuple

from upbeat.core.errors import MasterError
from upbeat.core.records import dataclass


class Coupled(NamedTuple):
    """A connection: the unit and output that it comes from, the unit and input that it goes to."""

    source: str
    output: str
    target: str
    input: str
    reactive: bool = False
    """Whether the input is told its value at the end of the step."""
    fixed: bool = False
    """Whether the unit says so itself, and nobody can change it."""


class UnitGroup(NamedTuple):
    """Units that make `rate` steps together while the others make one."""

    units: tuple[str, ...]
    rate: int

    @property
    def name(self) -> str:
        return "+".join(self.units)


class Operation(NamedTuple):
    """One call in a step."""

    call: Literal["get", "set", "step"]
    what: str
    late: bool = False
    """Of an output: asked after its unit has made its step."""

    def __str__(self) -> str:
        if self.call == "step":
            return f"step {self.what}"
        if self.call == "set":
            return f"set {self.what}"
        return f"get {self.what} {'after' if self.late else 'before'} its step"


class Edge(NamedTuple):
    """`first` comes before `then`."""

    first: Operation
    then: Operation
    why: str

    def __str__(self) -> str:
        return f"{self.first} → {self.then} ({self.why})"


class InvalidSchedule(MasterError):
    """No order of operations meets all conditions; `cycle` has the edges that exclude each other."""

    def __init__(self, cycle: Sequence[Edge]) -> None:
        self.cycle = tuple(cycle)
        told = [one.then for one in self.cycle if one.then.call == "set"]
        self.inputs = frozenset(one.what for one in told)
        """The inputs in it."""
        edges = "; ".join(map(str, self.cycle))
        super().__init__(
            f"there is no valid order of operations, because each of these waits for the next: {edges}"
        )


@dataclass(frozen=True)
class Schedule:
    """Operations in a possible order, and the edges that any order has to respect."""

    order: tuple[Operation, ...]
    edges: frozenset[Edge]
    inner: tuple[tuple[UnitGroup, Schedule], ...] = field(default=())
    """The schedules of groups of units, which run when the group makes its step."""

    @property
    def units(self) -> tuple[str, ...]:
        """The units, those of groups one by one, in the order in which they make their steps."""
        inside = {group.name: schedule.units for group, schedule in self.inner}
        steps = [one.what for one in self.order if one.call == "step"]
        return tuple(unit for name in steps for unit in inside.get(name, (name,)))

    @property
    def text(self) -> str:
        """The order in words."""
        return ", ".join(map(str, self.order))


def scheduled(units: Sequence[str], links: Sequence[Coupled], groups: Sequence[UnitGroup] = ()) -> Schedule:
    """A valid schedule; `InvalidSchedule` with the edges of a cycle if there is none.

    Inputs of one output may differ in what they want: it is asked twice then. Where several orders are
    possible, the one is taken that keeps the order of `units` best.
    """
    inside = {unit: group.name for group in groups for unit in group.units}
    names = list(dict.fromkeys(inside.get(unit, unit) for unit in units))
    outer = [
        link._replace(
            source=inside.get(link.source, link.source), target=inside.get(link.target, link.target)
        )
        for link in links
    ]
    edges = frozenset(_edges([link for link in outer if link.source != link.target]))
    order = _sorted(names, edges)
    inner = tuple(
        (group, scheduled(group.units, [one for one in links if {one.source, one.target} <= {*group.units}]))
        for group in groups
    )
    return Schedule(order, edges, inner)


_CALLS = ("set", "get", "step")


def _edges(links: Collection[Coupled]) -> Iterator[Edge]:
    for link in links:
        asked = Operation("get", link.output, link.reactive)
        told, made = Operation("set", link.input), Operation("step", link.source)
        yield Edge(asked, told, f"{link.input} is told what {link.output} shows")
        yield Edge(told, Operation("step", link.target), f"{link.target} needs {link.input} for its step")
        if link.reactive:
            yield Edge(made, asked, f"{link.input} interpolates")
        else:
            yield Edge(told, made, f"{link.input} goes on from the start of the step")


def _sorted(units: Sequence[str], edges: Collection[Edge]) -> tuple[Operation, ...]:
    sorter: TopologicalSorter[Operation] = TopologicalSorter()
    for unit in units:
        sorter.add(Operation("step", unit))
    for edge in edges:
        sorter.add(edge.then, edge.first)
    try:
        sorter.prepare()
    except CycleError as error:
        around: list[Operation] = error.args[1]
        known = {(edge.first, edge.then): edge for edge in edges}
        found = [known.get(pair) or known[pair[::-1]] for pair in pairwise(around)]
        raise InvalidSchedule(found) from None
    place = {unit: k for k, unit in enumerate(units)}
    found_order: list[Operation] = []
    ready: list[Operation] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        # What was asked is told at once, and steps come last, in the order of the scenario.
        ready.sort(key=lambda one: (_CALLS.index(one.call), place.get(one.what, 0), one))
        found_order.append(ready.pop(0))
        sorter.done(found_order[-1])
    return tuple(found_order)
