"""The two calls most people need: `simulate` to the end, and `start` to step by hand."""

from __future__ import annotations

from typing import Unpack

from upbeat.engine.experiment import Report, experiment
from upbeat.engine.run import Run
from upbeat.engine.settings import Settings
from upbeat.scenario.scenario import Scenario
from upbeat.trace.trace import Trace


def simulate(
    scenario: Scenario,
    *,
    step: float | None = None,
    report: Report | None = None,
    **settings: Unpack[Settings],
) -> Trace:
    """Run a scenario and return its trace: ``simulate(scenario, pace=0.01, until=10.0)``.

    `settings` are described under `Settings`: `pace` (or a fixed `step`) and `until` must be given, and there
    are `start`, `coupling`, `inputs`, `ports`, `events`, `signals`, `record`, `every`, `jumps`, `out`,
    `engine`, `jit`, `cores`, `flatten`, `isolation`, `deadline`, `restart`, `checkpoint` and `real_time`.
    `report` is called now and then with the simulated time reached.

    A failing unit raises `UnitError`, whose `trace` holds the results so far.
    """
    return experiment(scenario, step=step, **settings).run(report)


def start(scenario: Scenario, *, step: float | None = None, **settings: Unpack[Settings]) -> Run:
    """A run to step by hand: ``with up.start(scenario, pace=0.01, until=10.0) as run: run.step()``.

    Takes the settings that `simulate` takes; see `Settings`.
    """
    return experiment(scenario, step=step, **settings).open()
