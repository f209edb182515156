"""The two calls most people need: `simulate` to the end, and `start` to step by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from upbeat.engine.choose import EngineName
from upbeat.engine.experiment import experiment
from upbeat.engine.run import Run
from upbeat.master.approximation import Approximation
from upbeat.master.coupling import Coupling
from upbeat.master.pace import Pace
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import Signals
from upbeat.trace.trace import Trace


def simulate(
    scenario: Scenario,
    *,
    pace: Pace | float,
    until: float,
    start: float = 0.0,
    coupling: Coupling | None = None,
    inputs: Approximation | None = None,
    ports: Mapping[str, Approximation] | None = None,
    signals: Signals | None = None,
    record: Sequence[str] | None = None,
    every: int = 1,
    out: str | Path | None = None,
    engine: EngineName = "auto",
    jit: bool = False,
    report: Callable[[float], None] | None = None,
) -> Trace:
    """Run a scenario from `start` to `until` and return its trace.

    Args:
        scenario: what to run.
        pace: the communication steps; a number is the size of a fixed step.
        until: the stop time.
        start: the start time.
        coupling: how values travel; `Jacobi()` unless given.
        inputs: what inputs do between communication points; `Hold()` unless given.
        ports: approximations for single inputs, by name ``unit.port``.
        signals: drives the scenario's own inputs.
        record: patterns over ``unit.port`` names; every output unless given.
        every: record every n-th communication point only (the first and last always).
        out: stream the results to this file (``.csv`` or ``.parquet``) instead of keeping them in memory.
        engine: ``"auto"``, ``"native"`` or ``"interpret"``.
        jit: compile expressions to machine code (needs ``upbeat[jit]``).
        report: called now and then with the simulated time reached.

    A failing unit raises `UnitError`, whose `trace` holds the results so far.
    """
    plan = experiment(
        scenario,
        pace=pace,
        until=until,
        start=start,
        coupling=coupling,
        inputs=inputs,
        ports=ports,
        signals=signals,
        record=record,
        every=every,
        out=out,
        engine=engine,
        jit=jit,
    )
    return plan.run(report)


def start(
    scenario: Scenario,
    *,
    pace: Pace | float,
    until: float,
    start: float = 0.0,
    coupling: Coupling | None = None,
    inputs: Approximation | None = None,
    ports: Mapping[str, Approximation] | None = None,
    record: Sequence[str] | None = None,
    engine: EngineName = "auto",
) -> Run:
    """A run to step by hand: ``with up.start(...) as run: run.step(); run["left.x"]``."""
    return experiment(
        scenario,
        pace=pace,
        until=until,
        start=start,
        coupling=coupling,
        inputs=inputs,
        ports=ports,
        record=record,
        engine=engine,
    ).open()
