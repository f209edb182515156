"""The graph of a scenario: which port depends on which at one instant, and in which order units can go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.errors import MasterError
from upbeat.core.ports import Causality, Port
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import End
from upbeat.scenario.order import arranged, components, cycle

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario


class Node(NamedTuple):
    """A port in the graph."""

    side: Literal["in", "out"]
    unit: str
    port: str

    def __str__(self) -> str:
        return f"{self.unit}.{self.port}"


class Graph:
    """Dependencies between ports at one instant: an input needs its sources, an output its `depends`.

    * `order`: every input and output, each after those it needs. Where that leaves a choice, and inside
      loops, the order of declaration decides.
    * `loops`: the algebraic loops (strong components), each as a cycle in the direction of the signals.
    """

    order: tuple[Node, ...]
    loops: tuple[tuple[Node, ...], ...]

    def __init__(self, units: Mapping[str, Model], connections: Iterable[Connection]) -> None:
        nodes = [
            Node("in" if port.causality is Causality.INPUT else "out", unit, port.name)
            for unit, model in units.items()
            for port in model.ports
            if port.causality is not Causality.PARAMETER
        ]
        number = {node: i for i, node in enumerate(nodes)}
        before: list[set[int]] = [set() for _ in nodes]
        for connection in connections:
            to = number[Node("in", connection.unit, connection.port)]
            sources = (number.get(Node("out", *end)) for end in connection.sources)
            before[to] = {source for source in sources if source is not None}
        for unit, model in units.items():
            for port in model.ports:
                if port.causality is Causality.OUTPUT:
                    here = number[Node("out", unit, port.name)]
                    before[here] = {number[Node("in", unit, name)] for name in port.depends}
        groups = arranged(before)
        self.order = tuple(nodes[i] for group in groups for i in group)
        self.loops = tuple(
            tuple(nodes[i] for i in _loop(before, group)) for group in groups if len(group) > 1
        )


def _loop(before: Sequence[set[int]], group: list[int]) -> list[int]:
    """All members of a strong component: a cycle through the first one, then what else belongs to it."""
    around = cycle(before, group)
    return around + sorted(set(group).difference(around))


def unit_order(scenario: Scenario) -> tuple[str, ...]:
    """An order of the units for a sequential (Gauss-Seidel) step.

    A reactive input expects the value at the end of the step, so the units that it comes from go first;
    likewise the units behind them, as far as signals pass directly through. This always holds, or a
    `MasterError` names the ports in whose way it is. Beyond that, sources go before inputs that feed an
    output directly, as far as possible. Otherwise the order is that of declaration.
    """
    names = list(scenario.units)
    number = {name: i for i, name in enumerate(names)}
    links = _links(scenario, number)
    must: list[set[int]] = [set() for _ in names]
    should: list[set[int]] = [set() for _ in names]
    for to, source, hard in links.values():
        (must if hard else should)[to].add(source)
    for group in components(must):
        if len(group) > 1 or group[0] in must[group[0]]:
            raise _deadlock(names, cycle(must, group), links)
    wanted = [must[i] | should[i] for i in range(len(names))]
    order: list[int] = []
    for group in arranged(wanted):
        place = {node: k for k, node in enumerate(group)}
        inner = [{place[n] for n in must[node] if n in place} for node in group]
        order += [group[k] for one in arranged(inner) for k in one]
    return tuple(names[i] for i in order)


_Link = tuple[int, int, bool]
"""To which unit, from which unit, and whether the source must go first."""


def _links(scenario: Scenario, number: Mapping[str, int]) -> dict[tuple[End, End], _Link]:
    """The connections, as (source, input), that say something about the order of units."""
    ports = {(unit, port.name): port for unit, model in scenario.units.items() for port in model.ports}
    sources = {(c.unit, c.port): [end for end in c.sources if end[0] in number] for c in scenario.connections}
    direct = {(unit, name) for (unit, _), port in ports.items() for name in port.depends}
    hard = _needed_at_the_end(ports, sources)
    return {
        (source, end): (number[end[0]], number[source[0]], end in hard)
        for end, ends in sources.items()
        if end in hard or (end in direct and ports[end].reactive is not False)
        for source in ends
    }


def _needed_at_the_end(ports: Mapping[End, Port], sources: Mapping[End, list[End]]) -> set[End]:
    """The inputs whose value at the end of the step is needed: the reactive ones and, through direct
    feedthrough, those behind them."""
    todo = [end for end in sources if ports[end].reactive]
    found = set(todo)
    while todo:
        for unit, name in sources[todo.pop()]:
            for behind in sorted(ports[unit, name].depends):
                end = (unit, behind)
                if end in sources and end not in found and ports[end].reactive is not False:
                    found.add(end)
                    todo.append(end)
    return found


def _deadlock(names: list[str], around: list[int], links: Mapping[tuple[End, End], _Link]) -> MasterError:
    """`around` is a cycle in which each unit must come after the one before it."""
    steps = []
    for source, to in zip(around, around[1:] + around[:1], strict=True):
        ends = next(ends for ends, link in links.items() if link == (to, source, True))
        steps.append(" → ".join(".".join(end) for end in ends))
    return MasterError(
        f"no order of the units suits all reactive inputs: {'; '.join(steps)}. Each of these inputs expects "
        "its source to have finished the step already. Declare one of them delayed (reactive = false), which "
        "gives it the value at the start of the step."
    )
