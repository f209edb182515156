"""Steps of several sizes as policies of a switched system, and the monitor that keeps to what is proven."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from upbeat.core.errors import InvalidInput
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pace import Pace
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.induced import Inducing
from upbeat.stability.switched.automaton import Array, Automaton, Edge
from upbeat.stability.switched.decide import Decision, Stability, decide
from upbeat.stability.switched.stabilise import Report, Stabilised, stabilise
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.stability.verdicts.judge import experiment_of

SAME = 1e-12
"""Matrices that differ by less than this, relatively, are the same but for rounding."""
WINDOWS = 4096
"""Sequences of steps whose matrices are looked at."""


@dataclass(frozen=True)
class Certified:
    """Steps of several sizes, in which sequences of them every motion decays, and the proof of that.

    `system` is the switched system: one matrix for each step, or for each sequence of `memory` steps and
    the one that follows, where inputs are extrapolated from that far back. `freely` says what is known of
    all sequences, `kept` which of them remain and whether that is proven. Unless `linear`, all this is
    local: about small motions around the point of linearisation.
    """

    steps: tuple[float, ...]
    system: SwitchedSystem
    memory: int
    freely: Decision
    kept: Stabilised
    linear: bool
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What is known if any of the steps may follow any other: stable, unstable or undecided."""
        return str(self.freely.stability)

    @property
    def proven(self) -> bool:
        """Whether the sequences that remain are proven to be stable."""
        return self.kept.proven

    @property
    def forbidden(self) -> tuple[tuple[float, ...], ...]:
        """Steps that may not follow each other so."""
        found = []
        for word in self.kept.forbidden:
            windows = [self._window(symbol) for symbol in word]
            found.append(tuple(self.steps[k] for k in (*windows[0], *(w[-1] for w in windows[1:]))))
        return tuple(found)

    @property
    def leads(self) -> tuple[tuple[int, ...], ...]:
        """The table of the monitor: by node and step, the node to which it leads, or -1."""
        table = [[-1] * len(self.steps) for _ in range(self.kept.automaton.nodes)]
        for edge in self.kept.automaton.edges:
            table[edge.source][self._window(edge.symbol)[-1]] = edge.target
        return tuple(map(tuple, table))

    def _window(self, symbol: int) -> tuple[int, ...]:
        """The steps that a policy of the system stands for, the last being the one that is made."""
        count, digits = len(self.steps), []
        for _ in range(self.memory + 1):
            symbol, digit = divmod(symbol, count)
            digits.append(digit)
        return tuple(reversed(digits))

    def monitor(self, pace: Pace) -> Monitored:
        """`pace`, kept to sequences that are proven to be stable."""
        if not self.proven:
            raise InvalidInput(f"there is nothing to keep to: {self}")
        freest = max(range(len(self.leads)), key=lambda node: sum(lead >= 0 for lead in self.leads[node]))
        return Monitored(pace, self.steps, self.leads, freest)

    def data(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "verdict": self.verdict,
            "steps": list(self.steps),
            "proven": self.proven,
            "local": not self.linear,
            "growing": [
                {"steps": [self.steps[self._window(k)[-1]] for k in one.policies], "growth": one.growth}
                for one in self.freely.near
                if one.policies in self.freely.cycles
            ][:10],
            "lift": self.kept.lift.degree,
            "entropy_base": self.kept.entropy_base,
            "forbidden": [list(word) for word in self.forbidden],
            "leads": [list(row) for row in self.leads],
            "seconds": self.kept.seconds,
        }

    def __str__(self) -> str:
        sizes = ", ".join(f"{step:g}" for step in self.steps)
        where = "" if self.linear else "Near the point of linearisation: "
        if self.freely.stability is Stability.STABLE:
            return f"{where}Stable: with steps of {sizes} s in any sequence every motion decays."
        if not self.kept.automaton.edges:
            return (
                f"{where}Unstable: with steps of {sizes} s some sequence grows, and forbidding sequences of "
                f"{self.kept.lift.degree + 1} steps leaves none. Take shorter steps, or a larger lift."
            )
        if not self.proven:
            return f"{where}Undecided: nothing could be proven about steps of {sizes} s in the time given."
        left, all_ = self.kept.entropy_base, self.system.automaton.entropy_base
        some = "some sequence grows" if self.freely.cycles else "not every sequence is proven"
        return (
            f"{where}With steps of {sizes} s in any sequence {some}; kept to those that are proven to decay, "
            f"there are {left:.4g} instead of {all_:.4g} choices at each step."
        )


def certified(
    given: Scenario | Experiment,
    steps: Iterable[float],
    *,
    lift: int = 1,
    ideal: bool = False,
    seconds: float = 60.0,
    report: Report | None = None,
    **settings: Unpack[Settings],
) -> Certified:
    """In which sequences steps of these sizes are proven to be stable.

        found = up.certified(scenario, [0.05, 0.1, 0.2])
        up.simulate(scenario, pace=found.monitor(up.ErrorControl(1e-3)), until=10.0)

    What is forbidden are sequences of `lift` + 1 steps: the more, the less has to be given up, and the longer
    it takes. `ideal` as in `stability_of`; `seconds` is about how long it may take.
    """
    sizes = tuple(sorted({checked_step(step, "each of the steps") for step in steps}))
    if not sizes:
        raise InvalidInput("give at least one size of steps, such as [0.05, 0.1]")
    if isinstance(given, Scenario) and settings.get("pace") is None:
        settings = {**settings, "pace": sizes[0]}  # which pace it is does not matter
    made = experiment_of(given, settings)
    with Inducing(made, ideal=ideal) as inducing:
        memory, matrices, linear, notes = _matrices(inducing, sizes)
    words = itertools.product(range(len(sizes)), repeat=memory + 1)
    names = [" → ".join(f"{sizes[k]:g}" for k in word) for word in words]
    system = SwitchedSystem(reduced(matrices), _shifts(len(sizes), memory), names)
    freely = decide(system, seconds=0.25 * seconds, lift=1)
    kept = stabilise(system, lift=lift, seconds=seconds, report=report)
    return Certified(sizes, system, memory, freely, kept, linear, notes)


def table_holds(made: Experiment, pace: Monitored, *, seconds: float = 60.0) -> tuple[Decision, bool]:
    """Whether every sequence that a monitor lets through dies out, whoever wrote its table.

    And whether that is so everywhere (the scenario is linear) or only near the point of linearisation.
    """
    with Inducing(made) as inducing:
        memory, matrices, linear, _ = _matrices(inducing, pace.steps)
    count, pasts = len(pace.steps), len(pace.steps) ** memory
    edges = tuple(
        Edge(node * pasts + past, lead * pasts + (past * count + step) % pasts, past * count + step)
        for node, row in enumerate(pace.leads)
        for past in range(pasts)
        for step, lead in enumerate(row)
        if lead >= 0
    )
    system = SwitchedSystem(reduced(matrices), Automaton(len(pace.leads) * pasts, edges))
    return decide(system, seconds=seconds), linear


def _matrices(inducing: Inducing, sizes: Sequence[float]) -> tuple[int, Array, bool, tuple[str, ...]]:
    """How many steps back matter, and the matrix for each sequence of so many steps and one more."""
    depth = inducing.machine(sizes[0]).depth
    if len(sizes) ** depth > WINDOWS:
        raise InvalidInput(
            f"inputs look back so far that there are {len(sizes) ** depth} cases to tell apart: take fewer "
            f"sizes of steps than {len(sizes)}, or simpler approximations of inputs"
        )
    found: list[Array] = []
    linear = True
    notes: tuple[str, ...] = ()
    for window in itertools.product(sizes, repeat=depth):
        # One step before the window, so that histories are complete; which one does not matter any more.
        (model,) = inducing.along([sizes[0], *window][-depth - 1 :])
        found.append(model.matrix)
        linear, notes = linear and model.linear, model.notes
    matrices, memory = np.array(found), depth - 1
    while memory:  # a step that makes no difference need not be remembered
        split = matrices.reshape(len(sizes), -1, *matrices.shape[1:])
        if np.abs(split - split[0]).max() > SAME * max(1.0, float(np.abs(split).max())):
            break
        matrices, memory = split[0], memory - 1
    return memory, matrices, linear, notes


def _shifts(count: int, memory: int) -> Automaton:
    """All sequences, with nodes that remember so many steps."""
    nodes = count**memory
    edges = (
        Edge(window // count, window % nodes if memory else 0, window) for window in range(nodes * count)
    )
    return Automaton(nodes, tuple(edges))


def reduced(matrices: Array) -> Array:
    """The same system without what every step overwrites, or makes of the rest.

    After one step the state lies in what the matrices can give; and what all of them ignore does not matter.
    """
    while True:
        size = matrices.shape[1]
        for rows in (True, False):
            stacked = np.concatenate(list(matrices if rows else matrices.transpose(0, 2, 1)), axis=0)
            _, strengths, basis = np.linalg.svd(stacked, full_matrices=False)
            rank = int(np.count_nonzero(strengths > SAME * max(float(strengths[0]), 1e-300)))
            kept = basis[: max(rank, 1)]
            matrices = kept @ matrices @ kept.T
        if matrices.shape[1] == size:
            return matrices
