"""The scheduling heuristic: plans are valid, close to the best there is, and those of the paper."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.engine.parallel.heuristic import Plan, Rule, Task, bounds, by_rule, planned

EPS = 1e-9


def graph(rng: random.Random, count: int, groups: int | None) -> list[Task]:
    """The stated generator of random graphs.

    Durations are exponential with mean 1; task i needs up to three of the fifty tasks before it, each drawn
    evenly; its group is drawn evenly among `groups`, or there are none.
    """
    tasks: list[Task] = []
    for i in range(count):
        before = {rng.randrange(max(0, i - 50), i) for _ in range(rng.randint(0, 3))} if i else set()
        group = None if groups is None else rng.randrange(groups)
        tasks.append(Task(rng.expovariate(1.0), tuple(sorted(before)), group))
    return tasks


@st.composite
def cases(draw: st.DrawFn, *, grouped: bool) -> tuple[list[Task], int]:
    rng = random.Random(draw(st.integers(0, 2**32)))
    cores = draw(st.integers(1, 9))
    groups = draw(st.integers(1, 40)) if grouped else None
    tasks = graph(rng, draw(st.integers(0, 120)), groups)
    if draw(st.booleans()):  # many ties: only a few durations, zero among them
        tasks = [Task(float(round(t.duration)), t.before, t.group) for t in tasks]
    return tasks, cores


def check(tasks: list[Task], cores: int, plan: Plan) -> None:
    """A plan is valid: nothing starts too early, no core does two things, groups stay together."""
    assert sorted(plan.order) == list(range(len(tasks)))
    free = [0.0] * cores
    done: set[int] = set()
    homes: dict[int, int] = {}
    for number in plan.order:
        task, core = tasks[number], plan.core[number]
        assert done.issuperset(task.before)
        assert plan.start[number] >= max([free[core], *(plan.end[b] for b in task.before)])
        assert plan.end[number] == plan.start[number] + task.duration
        if task.group is not None:
            assert homes.setdefault(task.group, core) == core
        free[core] = plan.end[number]
        done.add(number)
    assert plan.makespan >= bounds(tasks, cores).best * (1 - EPS)


@given(cases(grouped=True), st.sampled_from(Rule))
def test_plans_are_valid(case: tuple[list[Task], int], rule: Rule) -> None:
    tasks, cores = case
    check(tasks, cores, by_rule(tasks, cores, rule))
    check(tasks, cores, planned(tasks, cores))
    assert planned(tasks, cores) == planned(list(tasks), cores)


@given(cases(grouped=False))
def test_tasks_that_may_run_anywhere_end_within_twice_the_best(case: tuple[list[Task], int]) -> None:
    tasks, cores = case
    plan, limits = planned(tasks, cores), bounds(tasks, cores)
    check(tasks, cores, plan)
    assert limits.heaviest == 0.0
    assert plan.makespan <= 2 * max(limits.critical, limits.shared) * (1 + EPS)


def test_pinned_units_end_close_to_the_best_in_most_cases() -> None:
    rng = random.Random(2014)
    ratios = []
    for _ in range(200):
        cores = rng.choice([2, 4, 8])
        tasks = graph(rng, rng.randint(5, 200), rng.randint(cores, 6 * cores))
        ratios.append(planned(tasks, cores).makespan / bounds(tasks, cores).best)
    assert statistics.median(ratios) <= 1.3
    assert min(ratios) >= 1 - EPS


def literal(tasks: list[Task], cores: int) -> tuple[list[int], list[float]]:
    """Algorithm 1 of the paper as it is printed, but for the two corrections."""
    ends: dict[int, float] = {}
    idle = [0.0] * cores
    fixed: dict[int, int] = {}
    core_of, start = [0] * len(tasks), [0.0] * len(tasks)
    from_end: dict[int, float] = {}  # E*: how long it takes from the end of the task to the end of all

    def tail(number: int) -> float:
        if number not in from_end:
            after = [k for k, task in enumerate(tasks) if number in task.before]
            from_end[number] = max((tasks[k].duration + tail(k) for k in after), default=0.0)
        return from_end[number]

    while len(ends) < len(tasks):
        chosen: tuple[float, int, int, float] | None = None
        for number, task in enumerate(tasks):
            if number in ends or any(b not in ends for b in task.before):
                continue
            earliest = max((ends[b] for b in task.before), default=0.0)
            group = task.group
            allowed = [fixed[group]] if group in fixed else list(range(cores))
            options = [(max(earliest, idle[core]), core) for core in allowed]
            first = min(begin for begin, _ in options)
            # Of equally good cores the paper takes the first one; ours is the one idle for the shortest time.
            core = min((-idle[core], core) for begin, core in options if begin == first)[1]
            cost = first + task.duration + tail(number)
            if chosen is None or cost > chosen[0]:
                chosen = cost, number, core, first
        assert chosen is not None
        _, number, core, begin = chosen
        core_of[number], start[number] = core, begin
        ends[number] = idle[core] = begin + tasks[number].duration
        if tasks[number].group is not None:
            fixed.setdefault(tasks[number].group, core)  # type: ignore[arg-type]
    return core_of, start


@given(cases(grouped=True))
def test_the_pressure_rule_is_algorithm_1_of_the_paper(case: tuple[list[Task], int]) -> None:
    tasks, cores = case
    # Whole durations: sums are exact, so both break the same ties.
    tasks = [Task(float(round(4 * t.duration)), t.before, t.group) for t in tasks]
    plan = by_rule(tasks, cores, Rule.PRESSURE)
    core_of, start = literal(tasks, cores)
    assert plan.start == tuple(start)
    assert plan.core == tuple(core_of)


@given(cases(grouped=True), st.sampled_from(Rule))
def test_what_crosses_cores_costs_more(case: tuple[list[Task], int], rule: Rule) -> None:
    tasks, cores = case
    plan = by_rule(tasks, cores, rule)
    crossing = sum(plan.core[b] != plan.core[k] for k, task in enumerate(tasks) for b in task.before)
    assert sum(plan.foreign(k, tasks) for k in range(len(tasks))) == crossing
    free, dear = plan.taking(tasks, 0.0), plan.taking(tasks, 0.5)
    assert free <= plan.makespan * (1 + EPS)
    assert free <= dear <= free + 0.5 * crossing + EPS
    assert planned(tasks, cores, 0.5).taking(tasks, 0.5) <= dear


def test_small_plans_by_hand() -> None:
    # Two chains of 3 and 1+1 on two cores end at 3; on one core they take all of it.
    tasks = [Task(1.0), Task(1.0), Task(2.0, (0,)), Task(1.0, (1,))]
    assert planned(tasks, 2).makespan == 3.0
    assert planned(tasks, 1).makespan == 5.0
    # A group stays together even where that takes longer.
    together = [Task(2.0, (), 7), Task(2.0, (), 7)]
    assert planned(together, 2).makespan == 4.0
    assert bounds(together, 2).best == 4.0
    assert planned([], 3).makespan == 0.0


def test_ten_thousand_operations_on_sixty_four_cores() -> None:
    tasks = graph(random.Random(64), 10_000, 300)
    plan = planned(tasks, 64)
    check(tasks, 64, plan)
    assert plan.makespan <= 1.3 * bounds(tasks, 64).best


def test_there_is_no_plan_without_cores() -> None:
    with pytest.raises(ValueError, match="at least one core"):
        planned([Task(1.0)], 0)
