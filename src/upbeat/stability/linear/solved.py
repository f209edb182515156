"""Beside units whose equations are known, at least as functions, and whose solver is ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upbeat.core.errors import FAULTS
from upbeat.stability.linear.beside import LATER, Array, Moved, differ
from upbeat.stability.linear.flows import Flow, Moving, Rates, flow
from upbeat.stability.linear.jacobians import Differences, Equated, Jacobian, Symbolic
from upbeat.units.solving.unit import SolvedUnit

KEPT = 64
"""How many flows of a linear unit are remembered."""


class Solved(Moved):
    """The unit's own solver, followed step by step with derivatives; `ideal`: as if it made no error."""

    def __init__(self, unit: Equated, jacobian: Jacobian, labels: tuple[str, ...], *, ideal: bool) -> None:
        super().__init__(labels, unit.behaviour.inputs, unit.behaviour.outputs)
        self._unit, self._jacobian, self._ideal = unit, jacobian, ideal
        self.linear = jacobian.constant
        self._flows: dict[object, Flow] = {}
        self._known: tuple[Array, Array] | None = None
        self._constants: object = None

    @property
    def slopes(self) -> float:
        return self._jacobian.accuracy

    @property
    def _now(self) -> float:
        return self._unit.time

    def _fresh(self) -> None:
        """Forget what was found with parameters that an event has changed since."""
        if self._unit.constants != self._constants:
            self._constants, self._known = self._unit.constants, None
            self._flows.clear()

    def _gains(self) -> tuple[Array, Array]:
        self._fresh()
        unit, now = self._unit, self._unit.time
        if self._known is None or not self.linear:
            self._known = self._jacobian.outputs(unit, now, unit.state, unit.inputs_at(now))
        return self._known

    def leave(self) -> Array:
        return np.array(self._unit.state)

    def _flow(self, left: Array, t: float, to: float, moving: Moving) -> Flow:
        unit, jacobian = self._unit, self._jacobian

        def rates(at: float, state: Array) -> tuple[Array, Array, Array]:
            values, given = state.tolist(), unit.inputs_at(at)
            now = np.array(unit.behaviour.derivatives(at, values, given), dtype=float)
            return (now, *jacobian.dynamics(unit, at, values, given))

        if not self.linear:
            return self._found(rates, t, to, left, moving)
        self._fresh()
        # Steps that are repeated, and units with many solver steps, are glad of this.
        key = (to - t, moving, unit.solver)
        if key not in self._flows:
            if len(self._flows) >= KEPT:
                self._flows.clear()
            self._flows[key] = self._found(rates, t, to, left, moving)
        return self._flows[key]

    def _found(self, rates: Rates, t: float, to: float, left: Array, moving: Moving) -> Flow:
        return flow(
            self._unit.solver,
            rates,
            t,
            to,
            left,
            moving,
            constant=self.linear,
            ideal=self._ideal,
            slopes=self.slopes,
        )

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        """Of expressions it is known from their form; an FMU is not sent further than a little way ahead."""
        if isinstance(self._jacobian, Symbolic):
            return ()
        own = isinstance(self._unit, SolvedUnit)
        unit, now = self._unit, self._unit.time
        x, u = unit.state, unit.inputs_at(now)

        def slopes(t: float, u: Sequence[Any]) -> Array:
            parts = (*self._jacobian.dynamics(unit, t, x, u), *self._jacobian.outputs(unit, t, x, u))
            return np.concatenate([part.ravel() for part in parts])

        known = self._jacobian.accuracy  # how well is known what it does later, and elsewhere, is no matter
        base = slopes(now, u)
        others = []
        tried: list[float] = []
        for k in later if own else LATER:
            try:
                others.append(slopes(now + k * step, u))
            except FAULTS:
                if k in LATER:
                    raise
                break  # the run may never come there in this state
            tried.append(k)
        for port in driven:
            first, count = self._inputs[port]
            for place in range(first, first + count):
                for by in (0.3, -0.7):
                    moved = float(u[place]) + by * (1.0 + abs(float(u[place])))
                    others.append(slopes(now, [*u[:place], moved, *u[place + 1 :]]))
        if isinstance(self._jacobian, Differences):
            self._jacobian.accuracy = known
        return None if any(differ(base, other) for other in others) else tried if own else ()

    def values(self) -> list[float]:
        return list(self._unit.state)

    def put(self, values: Sequence[float]) -> None:
        self._unit.put(values)
