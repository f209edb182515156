"""The scheduling heuristic: how good its plans are, and how long it takes for ten thousand operations.

Random graphs: durations are exponential with mean 1, task i needs up to three of the fifty tasks before it,
each drawn evenly, and belongs to a unit drawn evenly (or to none). A plan is compared with what no plan can
beat: the critical path, the work divided by the cores, and the heaviest unit, which stays on one core.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from time import perf_counter, process_time

from upbeat.engine.parallel.heuristic import Rule, Task, bounds, by_rule, planned

GRAPHS = 200


def graph(rng: random.Random, count: int, groups: int | None) -> list[Task]:
    tasks: list[Task] = []
    for i in range(count):
        before = {rng.randrange(max(0, i - 50), i) for _ in range(rng.randint(0, 3))} if i else set()
        group = None if groups is None else rng.randrange(groups)
        tasks.append(Task(rng.expovariate(1.0), tuple(sorted(before)), group))
    return tasks


def ratios(pinned: bool, rule: Rule | None) -> list[float]:
    """Makespan over the best possible, for every graph."""
    rng, found = random.Random(2014), []
    for _ in range(GRAPHS):
        cores = rng.choice([2, 4, 8])
        tasks = graph(rng, rng.randint(5, 200), rng.randint(cores, 6 * cores) if pinned else None)
        plan = planned(tasks, cores) if rule is None else by_rule(tasks, cores, rule)
        found.append(plan.makespan / bounds(tasks, cores).best)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    result: dict[str, object] = {}
    print("asked: median ≤ 1.3 where units are pinned, all ≤ 2 where they are not")
    print(f"{'makespan over the best possible':40}{'median':>8}{'worst':>8}")
    for pinned in (False, True):
        for rule in (*Rule, None):
            found = ratios(pinned, rule)
            name = f"{'pinned' if pinned else 'anywhere'}: {'best of all' if rule is None else rule.value}"
            print(f"  {name:38.38}{statistics.median(found):8.3f}{max(found):8.3f}")
            if rule is None:
                key = "pinned" if pinned else "anywhere"
                result[key] = {"median": statistics.median(found), "worst": max(found)}
    tasks = graph(random.Random(64), 10_000, 300)
    began, worked = perf_counter(), process_time()
    plan = planned(tasks, 64)
    seconds, worked = perf_counter() - began, process_time() - worked
    ratio = plan.makespan / bounds(tasks, 64).best
    print(f"10,000 operations on 64 cores: {seconds:.2f} s, {worked:.2f} s of work (asked: < 2)")
    print(f"  {ratio:.3f} × the best possible")
    result |= {"seconds": seconds, "cpu_seconds": worked, "ratio": ratio}
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
