"""A pace of one's own: short steps at the start and after every event, which grow from there."""

from collections.abc import Sequence
from dataclasses import dataclass

import upbeat as up
from upbeat.extend import Proposal, Read, Span, State


@dataclass(frozen=True)
class WarmUp:
    """Steps from `first` up to `longest`, each `factor` times the one before; again after every event."""

    first: float
    longest: float
    factor: float = 2.0

    def begin(self, span: Span) -> State:
        return (self.first / self.factor,)  # `note` has its say before the first step, too

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        return Proposal(min(t + state[0], limit), "warming up" if state[0] < self.longest else "warm"), state

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        return (self.first if fired else min(state[0] * self.factor, self.longest),)


body = up.Ode({"T": "(20 - T)/5"}, start={"T": 80.0})
bell = up.Clock(every=1.7)
trace = up.simulate(up.Scenario({"body": body, "bell": bell}), pace=WarmUp(0.125, 0.5), until=3.0)
for run in trace.steps:
    print(f"{run.first:6.3f} → {run.last:6.3f}  {run.count} × {run.size:.3f}  {run.reason}")
