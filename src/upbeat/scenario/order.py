"""Orders of things that depend on each other: strong components, and sorting with ties by position.

Nodes are integers, so that ties are settled by the order of declaration, and nothing recurses, so that
a ring of a hundred thousand nodes is fine. All run in time proportional to nodes and edges (sorting: times
the logarithm).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush

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
    before: Edges, cuttable: Collection[int], most: int | None = None
) -> tuple[list[int], list[int]] | None:
    """Nodes of `cuttable` that leave no cycle when they are taken out, and the others in order.

    Taking out as few as possible is hard in general; taking the busiest one again and again is close, and
    exact for a simple ring. Every cycle must contain a node that can be cut. None: it takes more than `most`.
    """
    left, tears = list(range(len(before))), list[int]()
    while True:
        place = {node: k for k, node in enumerate(left)}
        edges = [{place[n] for n in before[node] if n in place} for node in left]
        knots = [group for group in components(edges) if len(group) > 1 or group[0] in edges[group[0]]]
        if not knots:
            return tears, [left[k] for group in arranged(edges) for k in group]
        if most is not None and len(tears) >= most:
            return None
        knot = set(knots[0])
        users = {k: 0 for k in knot if left[k] in cuttable}
        for j in knot:
            for k in edges[j] & users.keys():
                users[k] += 1
        tears.append(left.pop(max(users, key=lambda k: (users[k] * len(edges[k] & knot), -k))))
