"""`ExchangeTables`: all that the native engine needs to run an instance for model exchange without Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.equations.lowered import SolverTable, lower_solver
from upbeat.units.fmi.description import ModelExchange
from upbeat.units.fmi.exchange.state import sizes
from upbeat.units.fmi.instance import Instance
from upbeat.units.fmi.ports import Layout
from upbeat.units.fmi.tables import FmuTables, Keeper, lower
from upbeat.units.solving.solvers import Solver


@dataclass(frozen=True, slots=True)
class ExchangeTables(FmuTables):
    """A whole unit for model exchange, in initialization mode.

    * `states`, `indicators`: how many there are; `completes`: whether it wants to know of accepted steps.
    * `input_start`, `held_start`: the start values of the cells of real inputs, and of the others.
    * `solver`: what integrates it.
    * `shown`: the number of the first port that shows an indicator (see `shown`), all others
      follow; -1 if none does.
    """

    states: int
    indicators: int
    completes: bool
    input_start: tuple[float, ...]
    held_start: tuple[int, ...]
    solver: SolverTable
    shown: int


def lower_exchange(
    instance: Instance, layout: Layout, ports: Sequence[Port], start: float, solver: Solver, keeper: Keeper
) -> ExchangeTables:
    """The tables of an instance that is in initialization mode; `ports` are those with their start values."""
    interface = instance.interface
    assert isinstance(interface, ModelExchange)
    states, indicators = sizes(instance)
    first, last = len(layout.ports), len(ports) - 1
    common = lower(instance, layout, start, keeper, counted=last if last >= first else -1)
    inputs = [port for port in ports if port.causality is Causality.INPUT and not port.event]
    real = [port for port in inputs if port.kind is Kind.REAL]
    return ExchangeTables(
        **{field.name: getattr(common, field.name) for field in fields(common)},
        states=states,
        indicators=indicators,
        completes=interface.completed_integrator_step,
        input_start=tuple(float(value) for port in real for value in port.initial),
        held_start=tuple(int(v) for port in inputs if port.kind is not Kind.REAL for v in port.initial),
        solver=lower_solver(solver),
        shown=first if last > first else -1,
    )
