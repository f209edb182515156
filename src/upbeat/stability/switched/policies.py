"""Policies of a program as a switched system, and the monitor that keeps to what is proven of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from upbeat.core.errors import InvalidInput
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pace import Lists, Pace
from upbeat.master.paces.wrapping import Wrapping
from upbeat.scenario.scenario import Scenario
from upbeat.stability.budget import checked_degree, checked_seconds
from upbeat.stability.linear.followed import USUAL, Verdict
from upbeat.stability.linear.induced import At, Inducing, check_blocks, experiment_of, named, verdict_sentence
from upbeat.stability.switched.automaton import Automaton, Edge
from upbeat.stability.switched.decide import Decision, Repeated, decide
from upbeat.stability.switched.stabilise import Report, Stabilised, stabilise
from upbeat.stability.switched.system import Policy, SwitchedSystem, shifts, spelled, windows


@dataclass(frozen=True)
class Certified:
    """Sequences of policies in which every motion decays, and the proof.

    A policy is a step of some size, made by one of the step blocks of the program. `system` is the switched
    system: one matrix for each policy, or for each sequence of `memory` policies and the one that follows,
    where inputs are extrapolated from that far back, or couplings take turns. `freely` says what is known of
    all sequences, `kept` which of them remain and whether that is proven. Unless `linear`, all this is
    local: about small motions around the point `at`.
    """

    policies: tuple[Policy, ...]
    system: SwitchedSystem
    memory: int
    freely: Decision
    kept: Stabilised
    linear: bool
    notes: tuple[str, ...] = ()
    at: At = "start"

    @property
    def steps(self) -> tuple[float, ...]:
        """The size of each policy's step."""
        return tuple(policy.step for policy in self.policies)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The block of each policy's step; none, if it is the usual one for all."""
        return () if self._plain else tuple(policy.block for policy in self.policies)

    @property
    def _plain(self) -> bool:
        return all(policy.block == USUAL for policy in self.policies)

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies in words."""
        return tuple(f"{p.step:g}" if self._plain else f"{p.block} {p.step:g}" for p in self.policies)

    @property
    def verdict(self) -> Verdict:
        """What is known if any of the policies may follow any other: stable, unstable or undecided."""
        return self.freely.verdict

    @property
    def proven(self) -> bool:
        """Whether the sequences that remain are proven to be stable."""
        return self.kept.proven

    @property
    def forbidden(self) -> tuple[tuple[float | Policy, ...], ...]:
        """Policies that may not follow each other so; sizes of steps, where that is all they are."""
        return tuple(tuple(self._shown(k) for k in word) for word in self.forbidden_words)

    @property
    def forbidden_words(self) -> tuple[tuple[int, ...], ...]:
        """The same by the places of the policies."""
        found = []
        for word in self.kept.forbidden:
            pasts = [self._window(symbol) for symbol in word]
            found.append((*pasts[0], *(past[-1] for past in pasts[1:])))
        return tuple(found)

    def _shown(self, place: int) -> float | Policy:
        policy = self.policies[place]
        return policy.step if self._plain else policy

    @property
    def leads(self) -> tuple[tuple[int, ...], ...]:
        """The table of the monitor: by node and policy, the node to which it leads, or -1."""
        table = [[-1] * len(self.policies) for _ in range(self.kept.automaton.nodes)]
        for edge in self.kept.automaton.edges:
            table[edge.source][self._window(edge.symbol)[-1]] = edge.target
        return tuple(map(tuple, table))

    def _window(self, symbol: int) -> tuple[int, ...]:
        """The policies that a symbol of the system stands for, the last being the one that is taken."""
        count, digits = len(self.policies), []
        for _ in range(self.memory + 1):
            symbol, digit = divmod(symbol, count)
            digits.append(digit)
        return tuple(reversed(digits))

    def monitor(self, pace: Pace) -> Monitored:
        """`pace`, kept to sequences that are proven to be stable."""
        if not self.proven:
            raise InvalidInput(f"there is nothing to keep to: {self}")
        freest = max(range(len(self.leads)), key=lambda node: sum(lead >= 0 for lead in self.leads[node]))
        return Monitored(pace, self.steps, self.leads, freest, self.blocks)

    def data(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "verdict": self.verdict,
            "steps": list(self.steps),
            "blocks": [policy.block for policy in self.policies],
            "proven": self.proven,
            "local": not self.linear,
            "at": self.at,
            "growing": [self._repeated(one) for one in self.freely.growing[:10]],
            "marginal": [self._repeated(one) for one in self._marginal[:10]],
            "lift": self.kept.lift.degree,
            "entropy_base": self.kept.entropy_base,
            "forbidden": [
                [step if isinstance(step, float) else list(step) for step in word] for word in self.forbidden
            ],
            "leads": [list(row) for row in self.leads],
            "seconds": self.kept.seconds,
        }

    @property
    def _marginal(self) -> list[Repeated]:
        """What neither dies out nor grows, as far as can be seen."""
        grown = {one.policies for one in self.freely.growing}
        whole = {one.policies for one in self.freely.near if one.policies in self.freely.cycles}
        return [] if grown else [one for one in self.freely.near if one.policies in whole]

    def _repeated(self, one: Repeated) -> dict[str, Any]:
        return {**self._listed(self._window(k)[-1] for k in one.policies), "growth": one.growth}

    def _listed(self, places: Iterable[int]) -> dict[str, Any]:
        word = [self.policies[place] for place in places]
        named = {} if self._plain else {"blocks": [policy.block for policy in word]}
        return {"steps": [policy.step for policy in word], **named}

    def __str__(self) -> str:
        sizes = spelled(self.policies)
        if self.freely.verdict == "stable":
            return self._sentence(
                "Stable", f"if steps of {sizes} follow each other in any order, every motion decays."
            )
        if not self.kept.automaton.edges:
            return self._nothing_left(sizes)
        if not self.proven:
            return self._sentence(
                "Undecided", f"nothing could be proven about steps of {sizes} in the time given."
            )
        left, all_ = self.kept.entropy_base, self.system.automaton.entropy_base
        some = "some sequence grows" if self.freely.growing else "not every sequence is proven to decay"
        where = "If" if self.linear else f"For small motions around {named(self.at)}: if"
        return (
            f"{where} steps of {sizes} follow each other in any order, {some}; kept to the sequences that "
            f"are proven to decay, there are {left:.4g} instead of {all_:.4g} choices at each step."
        )

    def _nothing_left(self, sizes: str) -> str:
        """The verdict where no sequence remains, and what would help."""
        if not self.freely.growing:
            return self._sentence(
                "Undecided",
                f"with steps of {sizes} some motion neither decays nor grows as far as can be seen, so that "
                "no sequence is proven to decay. A verdict on one step (--step) names that motion; hold or "
                "damp it, if it should come to rest.",
            )
        alone = {one.policies[0] for one in self.freely.growing if len(one.policies) == 1}
        if len(alone) == len(self.policies) and not self.memory:
            advice = (
                "Each of them grows alone: take steps below the largest stable one, which a verdict on one "
                "step (--step) gives, if there is one."
            )
        else:
            advice = "Take a larger lift, or leave out sizes that grow."
        return self._sentence(
            "Unstable",
            f"with steps of {sizes} some sequence grows, and forbidding sequences of "
            f"{self.kept.lift.degree + 1} steps leaves none. {advice}",
        )

    def _sentence(self, word: str, what: str) -> str:
        return verdict_sentence(word, what, linear=self.linear, at=self.at)


def certified(
    given: Scenario | Experiment,
    steps: Iterable[float | tuple[str, float]],
    *,
    blocks: Sequence[str] | None = None,
    lift: int = 1,
    at: At = "start",
    ideal: bool = False,
    seconds: float = 60.0,
    report: Report | None = None,
    **settings: Unpack[Settings],
) -> Certified:
    """In which sequences steps of these sizes are proven to be stable.

        found = up.certified(scenario, [0.05, 0.1, 0.2])
        up.simulate(scenario, pace=found.monitor(up.ErrorControl(1e-3)), until=10.0)

    A program may have several step blocks: couplings and solvers of units that take turns (see `Variants`).
    Then each size goes with each of them, or with those in `blocks`; single policies are pairs such as
    ``("fine", 0.1)``.

    What is forbidden are sequences of `lift` + 1 steps: the more, the less has to be given up, and the longer
    it takes. `at` and `ideal` as in `stability_of`; `seconds` is about how much work of the processor it may
    take.
    """
    if isinstance(steps, str) or not isinstance(steps, Iterable):
        raise InvalidInput(f"steps are a list of sizes, such as [0.05, 0.1], not {steps!r}")
    checked_seconds(seconds)
    checked_degree(lift)
    asked = [_asked(step) for step in steps]
    if not asked:
        raise InvalidInput("give at least one size of steps, such as [0.05, 0.1]")
    if isinstance(given, Scenario) and settings.get("pace") is None:
        settings = {**settings, "pace": asked[0][1]}  # which pace it is does not matter
    made = experiment_of(given, settings)
    policies = _policies(asked, blocks, made)
    used = tuple(dict.fromkeys(policy.block for policy in policies))
    sizes = {policy.step for policy in policies}
    with Inducing(made, ideal=ideal, blocks=used, sizes=sizes) as inducing:
        memory, matrices, linear, notes = windows(inducing, policies, at)
    words = itertools.product(policies, repeat=memory + 1)
    names = [" → ".join(map(str, word)) for word in words]
    system = SwitchedSystem(matrices, shifts(len(policies), memory), names)
    freely = decide(system, seconds=0.25 * seconds, lift=1)
    kept = stabilise(system, lift=lift, seconds=seconds, report=report)
    return Certified(policies, system, memory, freely, kept, linear, notes, at)


def _asked(step: float | tuple[str, float]) -> tuple[str | None, float]:
    """A policy, or a size that stands for one of every block."""
    if isinstance(step, (tuple, list)):
        if len(step) != 2 or not isinstance(step[0], str):
            raise InvalidInput(f'a policy is a step block and a size, such as ("fine", 0.1), not {step!r}')
        return step[0], checked_step(step[1], "the step of each of the policies")
    return None, checked_step(step, "each of the steps")


def _policies(
    asked: Sequence[tuple[str | None, float]], blocks: Sequence[str] | None, made: Experiment
) -> tuple[Policy, ...]:
    """The policies in ascending order of steps, then as the program lists its blocks."""
    program = made.plan.program
    known = sorted(program.steps, key=lambda name: name != USUAL)
    chosen = known if blocks is None else list(blocks)
    found = {Policy(name, size) for block, size in asked for name in ([block] if block else chosen)}
    check_blocks([*chosen, *(policy.block for policy in found)], program)
    return tuple(sorted(found, key=lambda policy: (policy.step, known.index(policy.block))))


# ----------------------------------------------------------------------------------------------------
# Tables of monitors and patterns, proven again: anybody may have written them.


def tabled(pace: Pace) -> Lists | None:
    """Who lists the steps that may follow each other: this pace, or one inside it; None if there is none."""
    if isinstance(pace, Lists):
        return pace
    return tabled(pace.pace) if isinstance(pace, Wrapping) else None


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
    """Whether every sequence that a monitor lets through dies out, from wherever its table is."""
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
