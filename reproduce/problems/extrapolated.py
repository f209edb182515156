"""Zero crossings the way of INTO-CPS Maestro: a declared port, or a difference of two, is extrapolated.

Our own reading, written from what its documentation promises: each crossing is a number made of one or two
ports. A polynomial of degree 1 or 2 through its last values is continued, and the step ends at its first zero
within a step; no step is shorter than `least`. That is all it knows: no rates, nothing about
which conditions belong together, and nothing of an event having happened, so that values from
before it are still among the last ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from upbeat.core.time import Span
from upbeat.extend import Blocks, Pace, Proposal, Read, State, Wiring

Crossing = tuple[tuple[tuple[str, str], float], ...]
"""Ports and their factors; the number is their sum, and the offset that comes with it."""


@dataclass(frozen=True)
class Extrapolated:
    """Steps of `step`, but shorter where one of `crossings` is extrapolated to zero.

    State: the last `order` + 1 times, newest first, and the numbers at each of them.
    """

    step: float
    crossings: tuple[tuple[Crossing, float], ...]
    order: int = 2
    least: float = 0.002
    registers: tuple[tuple[tuple[int, float], ...], ...] = ()

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        found = tuple(
            tuple((wiring.outputs[end], factor) for end, factor in ports) for ports, _ in self.crossings
        )
        return blocks, replace(self, registers=found)

    def begin(self, span: Span) -> State:
        return ()

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        now = [
            offset + sum(factor * float(read(register)) for register, factor in registers)  # type: ignore[arg-type]
            for registers, (_, offset) in zip(self.registers, self.crossings, strict=True)
        ]
        return (t, *now, *state)[: (self.order + 1) * (1 + len(now))]

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        samples = np.array(state).reshape(-1, 1 + len(self.crossings))
        waits = [self._zero(samples[:, 0] - t, samples[:, 1 + k]) for k in range(len(self.crossings))]
        wait = max(self.least, min(waits, default=self.step))
        reason = "usual step" if wait >= self.step else "a port is extrapolated to zero"
        until = t + min(wait, self.step)
        return Proposal(limit if until > limit - 1e-6 * self.step else until, reason), state

    def _zero(self, times: np.ndarray, values: np.ndarray) -> float:
        """How long until the polynomial through these points is zero, at most a step."""
        if len(times) <= self.order or values[0] <= 0.0:
            return self.step
        roots = np.roots(np.polyfit(times, values, self.order))
        later = [float(root.real) for root in roots if abs(root.imag) < 1e-12 and root.real > 0.0]
        return min(later, default=self.step)
