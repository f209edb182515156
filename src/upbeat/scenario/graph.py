"""The graph of a scenario: which port depends on which at one instant, and in which order units can go."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Literal, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.errors import MasterError
from upbeat.core.ports import Causality, Port
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import End

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario


# ----------------------------------------------------------------------------------------------------
# Orders of things that depend on each other: strong components, and sorting with ties by position.
#
# Nodes are integers, so that ties are settled by the order of declaration, and nothing recurses, so that a
# ring of a hundred thousand nodes is fine. All run in time proportional to nodes and edges (sorting: times
# the logarithm).

Edges = Sequence[Collection[int]]
"""For every node, the nodes that it needs: these come before it."""


def components(before: Edges) -> list[list[int]]:
    """The strong components (Tarjan), each after those it needs; nodes inside in increasing order."""
    count = len(before)
    visited = [0] * count  # when a node was first seen, from 1
    lowest = [0] * count  # the earliest node on the path that it reaches
    on_path = bytearray(count)
    path: list[int] = []
    found: list[list[int]] = []
    clock = 0
    for root in range(count):
        if visited[root]:
            continue
        work = [(root, iter(before[root]))]
        while work:
            node, rest = work[-1]
            if not visited[node]:
                clock += 1
                visited[node] = lowest[node] = clock
                path.append(node)
                on_path[node] = 1
            for other in rest:
                if not visited[other]:
                    work.append((other, iter(before[other])))
                    break
                if on_path[other]:
                    lowest[node] = min(lowest[node], visited[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == visited[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(path.pop())
                        on_path[component[-1]] = 0
                    found.append(sorted(component))
    return found


def arranged(before: Edges) -> list[list[int]]:
    """The strong components so that each comes after those it needs; the one with the first node first."""
    groups = components(before)
    group_of = {node: g for g, group in enumerate(groups) for node in group}
    needs = [{group_of[n] for node in group for n in before[node]} - {g} for g, group in enumerate(groups)]
    after: list[list[int]] = [[] for _ in groups]
    for g, needed in enumerate(needs):
        for other in needed:
            after[other].append(g)
    missing = [len(needed) for needed in needs]
    ready = [(groups[g][0], g) for g, count in enumerate(missing) if count == 0]
    heapify(ready)
    result: list[list[int]] = []
    while ready:
        _, g = heappop(ready)
        result.append(groups[g])
        for other in after[g]:
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, (groups[other][0], other))
    return result


def cycle(before: Edges, members: Collection[int]) -> list[int]:
    """A shortest cycle from the first of `members`, a strong component: each node needs the one before it."""
    inside = set(members)
    first = min(inside)
    came_from: dict[int, int] = {}
    queue = deque([first])
    while queue:
        node = queue.popleft()
        for other in sorted(inside & set(before[node])):
            if other == first:
                path = [node]
                while path[-1] != first:
                    path.append(came_from[path[-1]])
                return [first, *path[:-1]]
            if other not in came_from:
                came_from[other] = node
                queue.append(other)
    return [first]


def torn(
    before: Edges, cuttable: Collection[int], maximum: int | None = None
) -> tuple[list[int], list[int]] | None:
    """Nodes of `cuttable` that leave no cycle when they are taken out, and the others in order.

    Taking out as few as possible is hard in general; taking the busiest one again and again is close, and
    exact for a simple ring. Every cycle must contain a node that can be cut. None: it takes more than
    `maximum`.
    """
    left, tears = list(range(len(before))), list[int]()
    while True:
        place = {node: k for k, node in enumerate(left)}
        edges = [{place[n] for n in before[node] if n in place} for node in left]
        knots = [group for group in components(edges) if len(group) > 1 or group[0] in edges[group[0]]]
        if not knots:
            return tears, [left[k] for group in arranged(edges) for k in group]
        if maximum is not None and len(tears) >= maximum:
            return None
        knot = set(knots[0])
        users = {k: 0 for k in knot if left[k] in cuttable}
        for j in knot:
            for k in edges[j] & users.keys():
                users[k] += 1
        tears.append(left.pop(max(users, key=lambda k: (users[k] * len(edges[k] & knot), -k))))


# ----------------------------------------------------------------------------------------------------


class Node(NamedTuple):
    """A port in the graph."""

    side: Literal["in", "out"]
    unit: str
    port: str

    def __str__(self) -> str:
        return f"{self.unit}.{self.port}"


class Graph:
    """Dependencies between ports at one instant: an input needs its sources, an output its `depends`.

    Event ports are not in it: they have no value that others could wait for.

    * `order`: every input and output, each after those it needs. Where that leaves a choice, and inside
      loops, the order of declaration decides; but first come the counts of what has happened inside units
      (`Port.counts`), for the inputs whose trajectory begins again then. What gives only the derivatives of
      an input (`Connection.rates`) goes before it where it can: it is on no loop, as no value waits for it.
    * `loops`: the algebraic loops (strong components), each as a cycle in the direction of the signals.
    """

    order: tuple[Node, ...]
    loops: tuple[tuple[Node, ...], ...]

    def __init__(self, units: Mapping[str, Model], connections: Iterable[Connection]) -> None:
        ports = [
            (unit, port)
            for unit, model in units.items()
            for port in model.ports
            if port.causality is not Causality.PARAMETER and not port.event
        ]
        ports.sort(key=lambda end: not end[1].counts)
        nodes = [
            Node("in" if port.causality is Causality.INPUT else "out", unit, port.name)
            for unit, port in ports
        ]
        number = {node: i for i, node in enumerate(nodes)}
        before: list[set[int]] = [set() for _ in nodes]
        rates: dict[int, set[int]] = {}
        for connection in connections:
            to = number[Node("in", connection.unit, connection.port)]
            sources = (number.get(Node("out", *end)) for end in connection.sources)
            before[to] = {source for source in sources if source is not None}
            if connection.rates:
                rates[to] = {number[Node("out", *end)] for end in connection.rates}
        for unit, model in units.items():
            for port in model.ports:
                if port.causality is Causality.OUTPUT and not port.event:
                    here = number[Node("out", unit, port.name)]
                    before[here] = {number[Node("in", unit, name)] for name in port.depends}
        self._followed = {node: [nodes[i] for i in sorted(before[k])] for k, node in enumerate(nodes)}
        for group in components(before) if rates else ():
            for to in rates.keys() & group:
                before[to] -= rates[to].intersection(group)
        self._before = {node: [nodes[i] for i in sorted(before[k])] for k, node in enumerate(nodes)}
        self._torn: dict[Node, tuple[list[Node], list[Node]]] = {}
        groups = arranged(before)
        self.order = tuple(nodes[i] for group in groups for i in group)
        self.loops = tuple(
            tuple(nodes[i] for i in _loop(before, group)) for group in groups if len(group) > 1
        )

    def orderable(self, more: Mapping[str, Mapping[str, Collection[str]]]) -> set[str]:
        """Of units whose outputs need `more` inputs than usual, those for which these can be known before."""
        able = set(more)
        while able:
            before = self._edges({unit: more[unit] for unit in able})
            group_of = {node: g for g, group in enumerate(components(before)) for node in group}
            around = {
                node.unit
                for k, node in enumerate(self.order)
                if node.side == "out" and node.unit in able
                for i in before[k]
                if self.order[i] not in self._before[node] and group_of[i] == group_of[k]
            }
            if not around:
                break
            able -= around
        return able

    def order_with(self, more: Mapping[str, Mapping[str, Collection[str]]]) -> tuple[Node, ...]:
        """The order if outputs of units need `more` inputs than usual."""
        return tuple(self.order[i] for group in arranged(self._edges(more)) for i in group)

    def _edges(self, more: Mapping[str, Mapping[str, Collection[str]]]) -> list[set[int]]:
        """What every node of `order` needs, if outputs of units need `more` inputs than usual."""
        number = {node: i for i, node in enumerate(self.order)}
        before = [{number[other] for other in self._before[node]} for node in self.order]
        for unit, outputs in more.items():
            for output, inputs in outputs.items():
                before[number[Node("out", unit, output)]] |= {number[Node("in", unit, i)] for i in inputs}
        return before

    def followed(self, ends: Iterable[End]) -> set[str]:
        """The units that these inputs follow: at once, or through outputs that depend directly on others."""
        waiting, seen = [Node("in", *end) for end in ends], set[Node]()
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self._followed[node]
        return {node.unit for node in seen if node.side == "out"}

    def behind(self, outputs: Iterable[End]) -> set[End]:
        """The inputs that these outputs depend on at one instant, through whatever lies between."""
        waiting, seen = [Node("out", *end) for end in outputs], set[Node]()
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self._before.get(node, ())
        return {(node.unit, node.port) for node in seen if node.side == "in"}

    def torn(self, loop: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """A loop cut open: ports that break all its cycles when they are guessed, and the rest in order.

        These are inputs or, where fewer of them will do (each is read by many units), outputs.
        """
        known = self._torn.get(loop[0])
        if known is not None:
            return known
        inside = set(loop)
        members = [node for node in self.order if node in inside]
        number = {node: i for i, node in enumerate(members)}
        before = [{number[n] for n in self._before[node] if n in number} for node in members]
        sides = [[i for i, node in enumerate(members) if node.side == side] for side in ("in", "out")]
        outputs = torn(before, set(sides[1]))
        assert outputs is not None
        # Cells are not counted: ports that are connected have as many as each other.
        tears, rest = torn(before, set(sides[0]), maximum=len(outputs[0])) or outputs
        found = self._torn[loop[0]] = [members[i] for i in tears], [members[i] for i in rest]
        return found


def _loop(before: Sequence[set[int]], group: list[int]) -> list[int]:
    """All members of a strong component: a cycle through the first one, then what else belongs to it."""
    around = cycle(before, group)
    return around + sorted(set(group).difference(around))


class Need(enum.IntEnum):
    """How much an input wants its source to have gone before, in a sequential step."""

    DIRECT = 0  # it feeds an output directly
    BEHIND = 1  # and this output goes on, directly, to a reactive input
    REACTIVE = 2  # it is reactive itself


class Link(NamedTuple):
    """A connection that says something about the order of units."""

    source: End
    to: End
    need: Need


def unit_order(scenario: Scenario) -> tuple[str, ...]:
    """An order of the units for a sequential (Gauss-Seidel) step.

    A reactive input expects the value at the end of the step, so the units that it comes from go first.
    This always holds, or a `MasterError` names the ports that are in its way. As far as possible, so do
    the units behind them, whose signals pass directly through to that input; and after that, units go
    before all those with an input for them that feeds an output directly. Otherwise the order is that of
    declaration.
    """
    names = list(scenario.units)
    number = {name: i for i, name in enumerate(names)}
    links = [link for link in _links(scenario) if link.source[0] in number]
    levels: list[list[set[int]]] = [[set() for _ in names] for _ in Need]
    for link in links:
        for level in range(link.need + 1):
            levels[level][number[link.to[0]]].add(number[link.source[0]])
    must = levels[Need.REACTIVE]
    for group in components(must):
        if len(group) > 1 or group[0] in must[group[0]]:
            raise _deadlock([names[i] for i in cycle(must, group)], links)
    return tuple(names[i] for i in _refined(list(range(len(names))), levels))


def _refined(units: list[int], levels: Sequence[Sequence[set[int]]]) -> list[int]:
    """The units so that all needs are met; those that form a cycle, by the stronger needs only."""
    if len(units) < 2 or not levels:
        return units
    place = {unit: k for k, unit in enumerate(units)}
    before = [{place[other] for other in levels[0][unit] if other in place} for unit in units]
    return [unit for group in arranged(before) for unit in _refined([units[k] for k in group], levels[1:])]


def _links(scenario: Scenario) -> list[Link]:
    ports = {(unit, port.name): port for unit, model in scenario.units.items() for port in model.ports}
    sources = {(c.unit, c.port): c.sources for c in scenario.connections}
    direct = {(unit, name) for (unit, _), port in ports.items() for name in port.depends}
    behind = _behind_reactive(ports, sources)
    links: list[Link] = []
    for end, ends in sources.items():
        if ports[end].reactive:
            need = Need.REACTIVE
        elif ports[end].reactive is None and end in direct:
            need = Need.BEHIND if end in behind else Need.DIRECT
        else:
            continue
        links += [Link(source, end, need) for source in ends]
    return links


def _behind_reactive(ports: Mapping[End, Port], sources: Mapping[End, Sequence[End]]) -> set[End]:
    """The inputs from which signals pass directly to a reactive input."""
    todo = [end for end in sources if ports[end].reactive]
    found: set[End] = set()
    while todo:
        for unit, name in sources[todo.pop()]:
            if (unit, name) not in ports:
                continue  # a scenario input
            for end in ((unit, other) for other in sorted(ports[unit, name].depends)):
                if end in sources and end not in found and ports[end].reactive is None:
                    found.add(end)
                    todo.append(end)
    return found


def _deadlock(around: list[str], links: Sequence[Link]) -> MasterError:
    """`around` are units each of which must come after the one before it."""
    steps = []
    for source, to in zip(around, around[1:] + around[:1], strict=True):
        link = next(k for k in links if (k.source[0], k.to[0], k.need) == (source, to, Need.REACTIVE))
        steps.append(f"{'.'.join(link.source)} → {'.'.join(link.to)}")
    return MasterError(
        f"no order of the units suits all reactive inputs: {'; '.join(steps)}. Each of these inputs expects "
        "its source to have finished the step already. Declare one of them delayed (reactive = false), which "
        "gives it the value at the start of the step."
    )
