"""Tables of monitors and patterns, proven anew: anybody may have written them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from upbeat.engine.experiment import Experiment
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pace import Pace
from upbeat.master.paces.pattern import Pattern
from upbeat.master.paces.wrapping import Wrapping
from upbeat.stability.linear.induced import At, Inducing
from upbeat.stability.switched.automaton import Automaton, Edge
from upbeat.stability.switched.decide import Decision, decide
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.stability.switched.windows import Policy, spelled, windows


def tabled(pace: Pace) -> Monitored | Pattern | None:
    """Who lists the steps that may follow each other: this pace, or one inside it; None if nobody does."""
    if isinstance(pace, (Monitored, Pattern)):
        return pace
    return tabled(pace.pace) if isinstance(pace, Wrapping) else None


def as_table(pace: Monitored | Pattern) -> Monitored:
    """A pattern as a table that lets nothing else through."""
    if isinstance(pace, Monitored):
        return pace
    made = tuple(map(Policy, pace.named, pace.steps))
    policies = sorted(dict.fromkeys(made), key=lambda policy: policy.step)
    count = len(made)
    leads = [[(k + 1) % count if p == made[k] else -1 for p in policies] for k in range(count)]
    return Monitored(
        pace, tuple(p.step for p in policies), tuple(map(tuple, leads)), 0, tuple(p.block for p in policies)
    )


@dataclass(frozen=True)
class Held:
    """Whether every sequence that a table lets through dies out; everywhere only if `linear`."""

    pace: Monitored
    decision: Decision
    linear: bool
    notes: tuple[str, ...]
    at: At

    @property
    def growing(self) -> str:
        """The fastest sequence that grows, in words; nothing, if none does."""
        policies = tuple(map(Policy, self.pace.named, self.pace.steps))
        fastest = self.decision.growing[0].policies if self.decision.growing else ()
        return spelled([policies[k % len(policies)] for k in fastest], " → ")

    def word(self, policies: Sequence[int]) -> str:
        """A sequence of policies in words."""
        return " → ".join(self.pace.labels[k % len(self.pace.steps)] for k in policies)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        count = len(self.pace.steps)
        return {
            "verdict": self.decision.verdict,
            "proven": bool(self.decision.certificates),
            "local": not self.linear,
            "at": self.at,
            "steps": list(self.pace.steps),
            "blocks": list(self.pace.named),
            "leads": [list(row) for row in self.pace.leads],
            "growing": [
                {"policies": [k % count for k in one.policies], "growth": one.growth}
                for one in self.decision.growing[:10]
            ],
            "why": self.decision.why,
            "notes": list(self.notes),
        }


def table_holds(made: Experiment, pace: Monitored, *, at: At = "start", seconds: float = 60.0) -> Held:
    """Whether every sequence that a monitor lets through dies out, whoever wrote its table."""
    policies = tuple(map(Policy, pace.named, pace.steps))
    with Inducing(made, blocks=tuple(dict.fromkeys(pace.named)), sizes=pace.steps) as inducing:
        memory, matrices, linear, notes = windows(inducing, policies, at)
    count, pasts = len(policies), len(policies) ** memory
    edges = tuple(
        Edge(node * pasts + past, lead * pasts + (past * count + step) % pasts, past * count + step)
        for node, row in enumerate(pace.leads)
        for past in range(pasts)
        for step, lead in enumerate(row)
        if lead >= 0
    )
    system = SwitchedSystem(matrices, Automaton(len(pace.leads) * pasts, edges))
    return Held(pace, decide(system, seconds=seconds), linear, notes, at)
