"""The scheduling heuristic: tasks with durations on a few cores, so that the last one ends early.

The rule is that of Ben Khaled et al., "Fast multi-core co-simulation of Cyber-Physical Systems" (2014):
of all tasks that are ready, take the one with the largest *schedule pressure*, and put it where
its pressure is smallest. The pressure of a task is how much its start there makes the critical path longer,
less its flexibility, which comes to start + duration + (longest way from it to the end) - critical path.
Printed as it is, the algorithm gives invalid schedules: a core is free again when its task *ends*, and a
task cannot start before those it needs have ended where they were put. Both are done here.

A rule that commits a core to a task which cannot start yet leaves gaps, so it has no guarantee. So the same
pressures are tried in two more ways, and the shortest result wins: `Rule.EARLIEST` takes the task that can
start first (pressure decides between equals), which never leaves a core idle that could work and therefore
ends within total/cores + critical path (Graham); `Rule.PACKED` does that after dealing the groups out to the
cores, the heaviest first. Everything is deterministic: ties go to the task with the lower number.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf


@dataclass(frozen=True, slots=True)
class Task:
    """Something that takes `duration` and comes after the tasks in `before`, which have lower numbers.

    All tasks of one `group` run on one core; without a group any core will do.
    """

    duration: float
    before: tuple[int, ...] = ()
    group: int | None = None


class Rule(enum.Enum):
    """How the next task is chosen; the value is for people."""

    PRESSURE = "largest schedule pressure"
    EARLIEST = "earliest start"
    PACKED = "earliest start, heaviest units dealt out first"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where and when each task runs, and in which order they were placed (each after those it needs)."""

    core: tuple[int, ...]
    start: tuple[float, ...]
    end: tuple[float, ...]
    order: tuple[int, ...]
    rule: Rule

    @property
    def makespan(self) -> float:
        return max(self.end, default=0.0)

    def foreign(self, number: int, tasks: Sequence[Task]) -> int:
        """How many tasks of other cores a task needs."""
        return sum(self.core[b] != self.core[number] for b in tasks[number].before)

    def taking(self, tasks: Sequence[Task], crossing: float) -> float:
        """How long the plan takes if everything that a task needs of another core costs so much more.

        A core may wait once for many of them; but the memory of each has to come over to it.
        """
        idle, end = dict.fromkeys(self.core, 0.0), [0.0] * len(tasks)
        for number in self.order:
            core, task = self.core[number], tasks[number]
            ready = max((end[b] for b in task.before), default=0.0)
            taken = task.duration + crossing * self.foreign(number, tasks)
            end[number] = idle[core] = max(idle[core], ready) + taken
        return max(end, default=0.0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no plan can do better than."""

    critical: float
    """The longest chain of tasks."""
    shared: float
    """All the work, evenly on all cores."""
    heaviest: float
    """The work of the heaviest group."""

    @property
    def best(self) -> float:
        return max(self.critical, self.shared, self.heaviest)


def bounds(tasks: Sequence[Task], cores: int) -> Bounds:
    """Lower bounds for the makespan of any plan."""
    weights: dict[int, float] = {}
    for task in tasks:
        if task.group is not None:
            weights[task.group] = weights.get(task.group, 0.0) + task.duration
    total = sum(task.duration for task in tasks)
    longest = max(starts_and_tails(tasks)[1], default=0.0)
    return Bounds(longest, total / cores, max(weights.values(), default=0.0))


def starts_and_tails(tasks: Sequence[Task]) -> tuple[list[float], list[float]]:
    """Each task's earliest start, and the longest way from its start to the end of everything."""
    starts = [0.0] * len(tasks)
    for number, task in enumerate(tasks):
        starts[number] = max((starts[b] + tasks[b].duration for b in task.before), default=0.0)
    tails = [task.duration for task in tasks]
    for number in range(len(tasks) - 1, -1, -1):
        for b in tasks[number].before:
            tails[b] = max(tails[b], tasks[b].duration + tails[number])
    return starts, tails


def planned(tasks: Sequence[Task], cores: int, crossing: float = 0.0) -> Plan:
    """A short plan for the tasks: the best that the three rules find (the first one, of equals).

    The rules know nothing of what it costs that tasks need others of another core (`crossing`); but it counts
    when the best of their plans is chosen.
    """
    if cores < 1:
        raise ValueError(f"a plan needs at least one core, not {cores}")
    grouped = any(task.group is not None for task in tasks)
    rules = [rule for rule in Rule if grouped or rule is not Rule.PACKED]
    plans = (by_rule(tasks, cores, rule) for rule in rules)
    return min(plans, key=lambda plan: plan.taking(tasks, crossing) if crossing else plan.makespan)


def by_rule(tasks: Sequence[Task], cores: int, rule: Rule) -> Plan:
    """The plan that one rule gives."""
    work = _Work(tasks, cores, rule)
    while (number := work.next()) is not None:
        work.place(number)
    return Plan(tuple(work.core), tuple(work.start), tuple(work.end), tuple(work.order), rule)


class _Work:
    """A plan that is being made. Queue number `cores` is for tasks that may run on any core."""

    def __init__(self, tasks: Sequence[Task], cores: int, rule: Rule) -> None:
        self.tasks, self.cores, self.rule = tasks, cores, rule
        self.core, self.order = [0] * len(tasks), list[int]()
        self.start, self.end = [0.0] * len(tasks), [0.0] * len(tasks)
        self._tails = starts_and_tails(tasks)[1]
        self._missing = [len(task.before) for task in tasks]
        self._followers: list[list[int]] = [[] for _ in tasks]
        self._members: dict[int, list[int]] = {}
        for number, task in enumerate(tasks):
            for b in task.before:
                self._followers[b].append(number)
            if task.group is not None:
                self._members.setdefault(task.group, []).append(number)
        self._home = [cores] * len(tasks)
        if rule is Rule.PACKED:
            durations = [task.duration for task in tasks]
            for group, core in _dealt(self._members, durations, cores).items():
                for number in self._members[group]:
                    self._home[number] = core
        self._idle = [0.0] * (cores + 1)  # when each core is free again; the last: when the first one is
        self._queues = [_Queue() for _ in range(cores + 1)]
        self._best: list[Key] = [NOTHING] * (cores + 1)
        for number in range(len(tasks)):
            if not self._missing[number]:
                self._push(number)
        for queue in range(cores + 1):
            self._look(queue)

    def next(self) -> int | None:
        """The task to place next; None if all are placed."""
        best = min(self._best)
        return None if best is NOTHING else best[2]

    def place(self, number: int) -> None:
        """Put a task on its core, or on the best one."""
        home, earliest = self._home[number], self.start[number]
        core = home if home < self.cores else self._fitting(earliest)
        self.start[number] = max(earliest, self._idle[core])
        self.end[number] = self._idle[core] = self.start[number] + self.tasks[number].duration
        self._idle[-1] = min(self._idle[:-1])
        self.core[number] = core
        self._home[number] = -1  # placed: queues that still have it skip it
        self.order.append(number)
        changed = {core, home, self.cores}
        if home == self.cores and (group := self.tasks[number].group) is not None:
            for other in self._members[group]:
                if other != number:
                    self._home[other] = core
                    if not self._missing[other]:
                        self._push(other)
        for follower in self._followers[number]:
            self.start[follower] = max(self.start[follower], self.end[number])
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._push(follower)
                changed.add(self._home[follower])
        for queue in changed:
            self._look(queue)

    def _push(self, number: int) -> None:
        earliest, tail = self.start[number], self._tails[number]
        self._queues[self._home[number]].push(number, earliest, tail)

    def _look(self, queue: int) -> None:
        """What this queue would do next."""
        now = self._idle[queue]
        self._best[queue] = self._queues[queue].best(
            now, lambda number: self._home[number] == queue, pressing=self.rule is Rule.PRESSURE
        )

    def _fitting(self, start: float) -> int:
        """The core idle for the shortest time at `start`; if none is idle, the one that is free first."""
        idle = self._idle[:-1]
        free = [(-when, core) for core, when in enumerate(idle) if when <= start]
        return min(free)[1] if free else idle.index(min(idle))


Key = tuple[float, float, int]
"""What is compared to find the next task, the smallest first; last comes the number of the task."""
NOTHING: Key = (inf, inf, -1)


class _Queue:
    """Tasks that are ready for one core: those that could start when it is free, and those that could not.

    Tasks that have left for another queue, or are placed, stay in the heaps until they come up.
    """

    def __init__(self) -> None:
        self._now: list[tuple[float, int]] = []  # by -tail
        self._later: list[tuple[float, float, int]] = []  # by start, then -tail
        self._pressing: list[tuple[float, int]] = []  # the same ones, by -(start + tail)
        self._waits: set[int] = set()

    def push(self, number: int, earliest: float, tail: float) -> None:
        heappush(self._later, (earliest, -tail, number))
        heappush(self._pressing, (-(earliest + tail), number))
        self._waits.add(number)

    def best(self, now: float, here: Callable[[int], bool], *, pressing: bool) -> Key:
        """The task to take when the core is free at `now`."""
        while self._later and (self._later[0][0] <= now or not here(self._later[0][2])):
            _, tail, number = heappop(self._later)
            self._waits.discard(number)
            if here(number):
                heappush(self._now, (tail, number))
        while self._now and not here(self._now[0][1]):
            heappop(self._now)
        if not pressing:
            if self._now:
                return (now, *self._now[0])
            return self._later[0] if self._later else NOTHING
        while self._pressing and not (self._pressing[0][1] in self._waits and here(self._pressing[0][1])):
            heappop(self._pressing)
        found = NOTHING
        if self._now:
            tail, number = self._now[0]
            found = (tail - now, 0.0, number)
        if self._pressing:
            cost, number = self._pressing[0]
            found = min(found, (cost, 0.0, number))
        return found


def _dealt(members: dict[int, list[int]], durations: Sequence[float], cores: int) -> dict[int, int]:
    """A core for every group: the heaviest group first, each to the core with the least work so far."""
    weights = {group: sum(durations[n] for n in numbers) for group, numbers in members.items()}
    loads = [(0.0, core) for core in range(cores)]
    dealt: dict[int, int] = {}
    for group in sorted(weights, key=lambda g: (-weights[g], g)):
        load, core = heappop(loads)
        dealt[group] = core
        heappush(loads, (load + weights[group], core))
    return dealt
