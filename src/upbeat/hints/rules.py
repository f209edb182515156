"""What follows from hints and from the scenario itself: rules, each a few lines, that make a search space.

A rule looks at what is *known* and adds to a draft: adaptations that are decided, choices with weights, and
why. Add yours to `RULES`:

    def no_jacobi(known: Known, draft: Draft) -> None:
        if len(known.units) == 2:
            draft.offer("coupling", Option("gauss_seidel", 5.0, (Decision("coupling", GaussSeidel()),), "…"))

The first five are those of Gomes and others (2019); the others stand for what is told by the units alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from upbeat.core.abilities import Ability
from upbeat.core.errors import InvalidInput, MasterError, UpbeatError
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.engine.experiment import Experiment
from upbeat.engine.isolation import some_apart
from upbeat.engine.nesting.adapted import adapted
from upbeat.hints.language import Bonded, Condition, Fact, Hint, Read, Smooth, known_ports, outputs_of
from upbeat.hints.schedule import Coupled, Schedule
from upbeat.hints.space import (
    STEP,
    Adaptation,
    Candidate,
    Choice,
    Corrected,
    Decision,
    Extrapolated,
    Interpolated,
    Option,
    Rated,
    SearchSpace,
    Times,
    Variant,
    schedule_of,
)
from upbeat.judging.steps import keeping
from upbeat.master.couplings.coupling import Coupling, GaussSeidel, Jacobi, Sequential
from upbeat.master.couplings.iterated import Iterated
from upbeat.master.couplings.multirate import MultiRate
from upbeat.master.inputs.approximation import Approximation, Hermite, Hold, Linear, Nepce, Polynomial
from upbeat.master.paces.pace import Fixed, Pace, equal_steps, nominal_step, scaled
from upbeat.scenario.bonds import Bond, power_bonds
from upbeat.scenario.scenario import Scenario
from upbeat.stability.verdicts.judge import induced

HALVINGS: Final = (-2, -1, 0, 1, 2, 3, 4)
"""Steps without hints: the present one, halved so many times."""
APART: Final = 20.0
"""Neighbours whose quickest motions differ by so much are fast and slow."""
STIFF: Final = 0.5
"""A pair whose quickest motion is this part of a step, or less, is a stiff one."""

PATIENCE: Final = 5.0
"""So many seconds are spent on one unit's motions."""


# ----------------------------------------------------------------------------------------------------
# What is known.


@dataclass(frozen=True)
class Known:
    """A scenario with its master, what hints say of it, and what its units tell by themselves."""

    experiment: Experiment
    read: Read = Read((), ())

    def __getstate__(self) -> dict[str, Any]:
        return {"experiment": self.experiment, "read": self.read}

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The hints, which fit the scenario."""
        return self.read.hints

    @cached_property
    def scenario(self) -> Scenario:
        """The closed scenario."""
        return self.experiment.closed

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The units that somebody has made."""
        return tuple(name for name in self.scenario.units if name not in self.scenario.added_units)

    @cached_property
    def links(self) -> tuple[Coupled, ...]:
        """Which output goes to which input, and whether units say that it has to be the newest."""
        column, found = self.scenario.column, list[Coupled]()
        for one in self.scenario.connections:
            port = next(p for p in self.scenario.units[one.unit].ports if p.name == one.port)
            for unit, output in one.sources:
                if unit in self.units and one.unit in self.units:
                    told = port.reactive
                    names = unit, column(unit, output), one.unit, column(one.unit, one.port)
                    found.append(Coupled(*names, reactive=bool(told), fixed=told is not None))
        return tuple(found)

    @cached_property
    def facts(self) -> dict[tuple[str, str], float | bool]:
        """What hints say of units."""
        return {(one.unit, one.name): one.value for one in self._about if isinstance(one, Fact)}

    @property
    def _about(self) -> Iterator[Fact | Bonded | Smooth | Condition]:
        for hint in self.hints:
            yield from hint.about

    def rate(self, unit: str) -> float | None:
        """How often software runs, if somebody has said so."""
        found = self.facts.get((unit, "exec_rate"))
        return None if found is None else float(found)

    @property
    def software(self) -> dict[str, float]:
        """The units that are software, and their rates."""
        return {unit: float(value) for (unit, name), value in self.facts.items() if name == "exec_rate"}

    @cached_property
    def smooth(self) -> tuple[str, ...]:
        """Signals that are to be smooth."""
        return tuple(dict.fromkeys(one.of for one in self._about if isinstance(one, Smooth)))

    @cached_property
    def bonds(self) -> tuple[Bond, ...]:
        """The power bonds: those of hints, and those that units of measure tell."""
        declared = [outputs_of(self.scenario, one) for one in self._about if isinstance(one, Bonded)]
        return power_bonds(self.scenario, declared)

    @cached_property
    def occasions(self) -> Scenario:
        """The scenario with what has to happen for hints to ask for anything, as its properties."""
        return self.scenario.with_parts(properties=self.read.occasions)

    @cached_property
    def hinted_bonds(self) -> tuple[Bond, ...]:
        """Those of hints."""
        hinted = {frozenset(outputs_of(self.scenario, one)) for one in self._about if isinstance(one, Bonded)}
        return tuple(bond for bond in self.bonds if frozenset(bond.named(self.scenario)) in hinted)

    def inputs_of(self, unit: str) -> tuple[str, ...]:
        """The inputs of a unit that others drive."""
        return tuple(dict.fromkeys(link.input for link in self.links if link.target == unit))

    def continuous(self, name: str) -> bool:
        """Whether an input is a real number, which may move between communication points."""
        unit, port, _ = known_ports(self.scenario)[name]
        return next(p for p in self.scenario.units[unit].ports if p.name == port).kind is Kind.REAL

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Units that drive each other."""
        ways = {(link.source, link.target) for link in self.links}
        return tuple(sorted((a, b) for a, b in ways if a < b and (b, a) in ways))

    @cached_property
    def rollback(self) -> bool:
        """Whether all units can be set back."""
        models = self.scenario.units.items()
        able = all(
            Ability.ROLLBACK in m.abilities for name, m in models if name not in self.scenario.added_units
        )
        return able and not any(name == "rollback" and not value for (_, name), value in self.facts.items())

    @property
    def step(self) -> float:
        """The communication step that there is now, as a rule; 0 where the pace has no usual one."""
        step = nominal_step(self.experiment.master.pace)
        return step if step < math.inf else 0.0

    def steps(self, *factors: float) -> list[float]:
        """The present step, times each of these factors: nothing, where steps cannot be made longer or
        shorter, and `Times` where the pace chooses them itself."""
        pace = self.experiment.master.pace
        if scaled(pace, 0.5) in (None, pace):
            return []
        return [self.step * each if self.step else Times(each) for each in factors]

    @cached_property
    def shortest(self) -> dict[str, float]:
        """The units that must not be called more often than every so many seconds."""
        return {unit: float(value) for (unit, name), value in self.facts.items() if name == "shortest_step"}

    @property
    def span(self) -> float:
        """How long a run is."""
        return self.experiment.span.stop - self.experiment.span.start

    @cached_property
    def scales(self) -> dict[str, float]:
        """The time constants of the quickest motions of units, as far as hints or their equations tell."""
        found = {unit: float(v) for (unit, name), v in self.facts.items() if name == "time_constant"}
        for unit in self.units:
            if unit not in found and (scale := self._quickest((unit,))) is not None:
                found[unit] = scale
        return found

    def _quickest(self, units: Collection[str]) -> float | None:
        """The time constant of the quickest motion of some units, with what they exchange; None if nobody
        knows, or if they run in processes of their own: one that may crash is not tried in this one."""
        if some_apart(self.scenario, self.experiment.isolation):
            return None
        step = 1e-5 * self.span
        inner = [c for c in self.scenario.connections
                 if c.unit in units and all(unit in units for unit, _ in c.sources)]  # fmt: skip
        try:
            part = Scenario({unit: self.scenario.units[unit] for unit in units}).with_parts(
                connections=tuple(inner)
            )
            values = np.linalg.eigvals(induced(part, step=step, patience=PATIENCE).matrix)
        except UpbeatError:
            return None
        lasting = values[np.abs(values) > 1e-6]
        rates = np.abs(np.log(lasting.astype(complex))) / step
        rates = rates[rates > 1e-6 / self.span]
        return float(1.0 / rates.max()) if len(rates) else None

    def stiff(self, pair: Sequence[str]) -> float | None:
        """The time constant of a pair that moves quicker together than each of the two can be stepped."""
        together = self._quickest(pair)
        return together if together is not None and together <= STIFF * self.step else None

    @property
    def records(self) -> tuple[str, ...] | None:
        """What the experiment records; None: everything."""
        return self.experiment.record


# ----------------------------------------------------------------------------------------------------
# What rules add to.


class Draft:
    """A search space in the making."""

    def __init__(self) -> None:
        self.adaptations: list[Adaptation | Decision] = []
        self.choices: dict[str, dict[str, Option]] = {}
        self.notes: list[str] = []

    def decide(self, one: Adaptation | Decision, why: str) -> None:
        """Something that every variant does."""
        if one not in self.adaptations:
            self.adaptations.append(one)
            self.notes.append(f"{one}: {why}")

    def offer(self, name: str, *options: Option) -> None:
        """Alternatives; one that is there already stays, with the larger of both weights."""
        known = self.choices.setdefault(name, {})
        for option in options:
            before = known.get(str(option.value))
            if before is None or option.weight > before.weight:
                known[str(option.value)] = option

    def space(self) -> SearchSpace:
        """The search space."""
        choices = tuple(Choice(name, tuple(known.values())) for name, known in self.choices.items())
        return SearchSpace((Candidate(choices, tuple(self.adaptations)),), tuple(self.notes))


class Rule(NamedTuple):
    """What it is called, and what it does."""

    name: str
    apply: Callable[[Known, Draft], None]


# ----------------------------------------------------------------------------------------------------
# The rules for hints.


def software_inputs(known: Known, draft: Draft) -> None:
    """Software sees what was at its last sample, and what it does is seen from then on."""
    for unit, rate in known.software.items():
        why = f"{unit} is software"
        for port in known.inputs_of(unit):
            draft.decide(Extrapolated(port, 0), why)
        for link in known.links:
            if link.source == unit:
                draft.decide(Extrapolated(link.input, 0), why)
        draft.decide(Decision("every", (unit, 1.0 / rate)), f"{why} that runs {rate:g} times a second")


def software_rates(known: Known, draft: Draft) -> None:
    """The communication step is a sample of the slowest software; quicker software makes several steps."""
    rates = sorted(set(known.software.values()))
    if not rates:
        return
    if len(rates) == 1:
        step = 1.0 / rates[0]
        draft.offer(
            STEP,
            Option(_rounded(step / 10), 4.0, why=f"ten steps in a sample of {', '.join(known.software)}"),
            Option(_rounded(step), 3.0, why=f"a step is a sample of {', '.join(known.software)}"),
        )
        return
    draft.offer(STEP, Option(_rounded(1.0 / rates[0]), 4.0, why="a step is a sample of the slowest software"))


def power_bonds_of_hints(known: Known, draft: Draft) -> None:
    """What a coupling creates at a power bond is made good."""
    for bond in known.hinted_bonds:
        ports = tuple(known.scenario.column(*end) for end in (bond.one_to, bond.other_to))
        draft.decide(Corrected(ports, 1), f"{bond.one[0]} and {bond.other[0]} exchange a power")


def untouched_units(known: Known, draft: Draft) -> None:
    """Units that no hint is about step more often, at different orders of magnitude."""
    if not (known.software or known.hinted_bonds):
        return  # what else hints say of a unit tells nothing about others
    touched = {unit for unit, _ in known.facts} | {
        end[0] for b in known.hinted_bonds for end in (b.one, b.other)
    }
    for unit in known.units:
        if unit in touched:
            continue
        draft.offer(
            f"rate of {unit}",
            Option(100, 2.0, (Rated((unit,), 100),), f"no hint is about {unit}: short steps"),
            Option(10, 1.0, (Rated((unit,), 10),), f"no hint is about {unit}: steps that are not so short"),
        )
        decided = {a.port for a in draft.adaptations if isinstance(a, Extrapolated)}
        ports = [p for p in known.inputs_of(unit) if p not in decided and known.continuous(p)]
        if ports:
            draft.offer(
                f"inputs of {unit}",
                Option("interpolated", 1.8, tuple(map(Interpolated, ports))),
                Option("extrapolated", 0.8, tuple(Extrapolated(port, 1) for port in ports)),
            )


def orders_of_magnitude(known: Known, draft: Draft) -> None:
    """Where hints leave the communication step open, several are tried."""
    if STEP in draft.choices or not known.hints:
        return
    for k, step in enumerate(known.steps(1.0, 0.1, 0.01)):
        draft.offer(STEP, Option(_rounded(step), 3.0 + k, why=f"{10**k} × as many steps"))


# ----------------------------------------------------------------------------------------------------
# Rules for what is seen without hints.


def no_more_than_needed(known: Known, draft: Draft) -> None:
    """Where a unit may step more often, once is an alternative, too: it costs less."""
    for name, options in list(draft.choices.items()):
        if name.startswith("rate of "):
            weight = min(option.weight for option in options.values()) / 2
            draft.offer(name, Option(1, weight, why=f"{name.removeprefix('rate of ')} steps once"))


def bonded_together(known: Known, draft: Draft) -> None:
    """Beside software, units that exchange a power may step together, more often than it runs."""
    if not known.software:
        return
    for bond in known.hinted_bonds:
        units = tuple(unit for unit in known.units if unit in (bond.one[0], bond.other[0]))
        if any(unit in known.software for unit in units):
            continue
        name = f"rate of {' and '.join(units)}"
        why = f"{' and '.join(units)} move each other between two samples"
        draft.offer(name, Option(10, 2.5, (Rated(units, 10),), why), Option(1, 1.5))


def halved_steps(known: Known, draft: Draft) -> None:
    """Without a hint about time, steps around the present one."""
    if STEP in draft.choices:
        return
    for k, step in zip(HALVINGS, known.steps(*(2.0**-k for k in HALVINGS)), strict=False):
        if isinstance(step, Times) or 4 * step <= known.span or k == 0:  # a run has room for some
            draft.offer(STEP, Option(step, 10.0 + k))


def between_samples(known: Known, draft: Draft) -> None:
    """Where samples of software say how long a step is, a shorter one, too: it shows how large errors are,
    and the present one, if that is shorter still: other units may want it."""
    rate, several = max(known.software.values(), default=0.0), len(set(known.software.values())) > 1
    if several:
        draft.offer(
            STEP, Option(_rounded(0.1 / rate), 3.5, why="ten steps in a sample of the quickest software")
        )
    steps = [float(option.value) for option in draft.choices.get(STEP, {}).values()]
    if rate and 0 < known.step < min(steps) * (1.0 - 1e-9):
        count = math.ceil(1.0 / (rate * known.step) - 1e-9)
        why = f"the present step, {count:,} in a sample of {'the quickest ' if several else ''}software"
        draft.offer(STEP, Option(_rounded(1.0 / (rate * count)), 3.2, why=why))


def couplings(known: Known, draft: Draft) -> None:
    """Side by side, one after the other in both directions, and repeated where units can be set back."""
    own = known.experiment.master.settled(known.scenario).coupled
    if not _usual(own):
        return  # chosen for what it does besides: early stops, rates, constraints
    if known.software or known.hinted_bonds or any(n.startswith("inputs of ") for n in draft.choices):
        _in_turn(known, draft)
        return

    def offer(name: str, weight: float, coupling: Coupling) -> None:
        kept = keeping(own, coupling)
        draft.offer("coupling", Option(name, weight, (Decision("coupling", kept),)))

    offer("jacobi", 1.0, Jacobi())
    offer("gauss_seidel", 2.0, GaussSeidel())
    if known.rollback:
        offer("iterated", 4.0, Iterated(GaussSeidel(), corrections=1))
        offer("iterated twice", 3.0, Iterated(GaussSeidel(), corrections=2))
    if len(known.units) > 1:
        order = tuple(reversed(known.units))
        backward = Option("gauss_seidel, backward", 1.5, (Decision("coupling", GaussSeidel(order)),))
        draft.offer("coupling", backward)


def _usual(coupling: Coupling) -> bool:
    """Whether a coupling exchanges values and nothing else, if need be several times."""
    inside = (
        coupling.coupling if hasattr(coupling, "corrections") and hasattr(coupling, "coupling") else coupling
    )
    return isinstance(inside, Sequential)


def _in_turn(known: Known, draft: Draft) -> None:
    """Side by side, or in turn: software first, and inputs that may be interpolated where sources went
    before."""
    held = {a.port for a in draft.adaptations if isinstance(a, Extrapolated)}
    rest = [unit for unit in known.units if unit not in known.software]
    bonded = [unit for bond in known.hinted_bonds for unit in (bond.other[0], bond.one[0])]
    rest.sort(key=lambda unit: bonded.index(unit) if unit in bonded else -1)
    draft.offer("coupling", Option("side by side", 0.6))
    for label, order in (("in turn", rest), ("in turn, backward", rest[::-1])):
        place = {unit: k for k, unit in enumerate((*known.software, *order))}
        ports = [
            link.input
            for link in known.links
            if place[link.source] < place[link.target]
            and link.input not in held
            and known.continuous(link.input)
        ]
        if ports:
            weight = 0.7 if label == "in turn" else 0.65
            draft.offer("coupling", Option(label, weight, tuple(map(Interpolated, dict.fromkeys(ports)))))


def input_approximations(known: Known, draft: Draft) -> None:
    """Inputs that stay, go on along lines, parabolas, or with their derivatives."""
    if any(isinstance(a, (Extrapolated, Corrected)) for a in draft.adaptations):
        draft.offer("inputs", Option("linear", 0.5, (Decision("inputs", Linear()),)))
        return
    kinds: list[tuple[str, float, Approximation]] = [
        ("hermite", 5.0, Hermite()), ("polynomial 2", 4.5, Polynomial(2)), ("linear", 3.5, Linear()),
        ("hold", 2.5, Hold()),
    ]  # fmt: skip
    for name, weight, kind in kinds:
        draft.offer("inputs", Option(name, weight, (Decision("inputs", kind),)))


def bonds_of_measures(known: Known, draft: Draft) -> None:
    """Power bonds that units of measure tell: with the correction, or without."""
    recognised = [bond for bond in known.bonds if bond not in known.hinted_bonds]
    ports = tuple(known.scenario.column(*end) for b in recognised for end in (b.one_to, b.other_to))
    taken = {p for a in draft.adaptations if isinstance(a, Corrected) for p in a.ports}
    free = tuple(dict.fromkeys(p for p in ports if p not in taken))
    if free:
        said = f"units of measure say that {', '.join(free)} belong to power bonds"
        draft.offer(
            "power bonds", Option("corrected", 2.2, (Corrected(free, 1),), said), Option("plain", 2.1)
        )


def stiff_pairs(known: Known, draft: Draft) -> None:
    """Two units that move each other quicker than a step: steps are repeated until both agree."""
    if not known.rollback or "iterated" not in draft.choices.get("coupling", {}):
        return
    for one, other in known.pairs:
        if (scale := known.stiff((one, other))) is not None:
            why = f"{one} and {other} move each other within {scale:.2g} s, and a step is {known.step:.2g} s"
            before = draft.choices["coupling"]["iterated"]
            draft.offer("coupling", replace(before, weight=6.0, why=why))


def events_between(known: Known, draft: Draft) -> None:
    """Events that several units share: steps that end there, ahead by looking, or back by rollback."""
    master, scenario = known.experiment.master, known.experiment.scenario
    if equal_steps(master.pace) is None or master.events not in (None, "auto"):
        return
    shared = [e.name for e in scenario.events if not e.hidden and len({u for u, _ in e.reads}) > 1]
    if not shared:
        return
    said = f"{', '.join(shared)}: an event that several units share"
    draft.offer("events", Option("look_ahead", 1.4, (Decision("events", "look_ahead"),), said))
    if known.rollback:
        draft.offer(
            "events",
            Option("revised", 1.5, (Decision("events", "revised"),), f"{said}, and all can be set back"),
        )


def fast_beside_slow(known: Known, draft: Draft) -> None:
    """A quick unit beside a slow one steps more often; where nobody looks at it, the slow one gets means."""
    if "jacobi" not in draft.choices.get("coupling", {}):
        return
    for link in known.links:
        fast, slow = link.source, link.target
        quick, long = known.scales.get(fast), known.scales.get(slow)
        if quick is None or long is None or long < APART * quick:
            continue
        rate = int(min(10, long / quick))
        why = f"{fast} moves in {quick:.2g} s, {slow} in {long:.2g} s"
        several = Decision("coupling", MultiRate({fast: rate}))
        draft.offer("coupling", Option(f"{fast} × {rate}", 1.2, (several,), why))
        if known.records is not None and not any(_records(known.records, port.name, fast) for port in
                                                 known.scenario.units[fast].ports):  # fmt: skip
            output = link.output.removeprefix(f"{fast}.")
            mean = Decision("adapt", (fast, f"average on {output}"))
            draft.offer("coupling", Option(f"{fast} × {rate}, means", 1.1, (several, mean), why))


def _records(patterns: Sequence[str], port: str, unit: str) -> bool:
    from fnmatch import fnmatchcase

    return any(fnmatchcase(f"{unit}.{port}", pattern) for pattern in patterns)


OF_HINTS: Final = (
    Rule("software sees its last sample", software_inputs),
    Rule("steps are samples of software", software_rates),
    Rule("power bonds are corrected", power_bonds_of_hints),
    Rule("other units step more often", untouched_units),
    Rule("steps of several orders of magnitude", orders_of_magnitude),
)
"""What follows from hints, after Gomes and others (2019)."""

RULES: Final = (
    *OF_HINTS,
    Rule("no more steps than needed", no_more_than_needed),
    Rule("bonded units step together", bonded_together),
    Rule("steps between samples", between_samples),
    Rule("steps around the present one", halved_steps),
    Rule("couplings", couplings),
    Rule("inputs", input_approximations),
    Rule("power bonds by units of measure", bonds_of_measures),
    Rule("a stiff pair is iterated", stiff_pairs),
    Rule("shared events are met", events_between),
    Rule("a fast unit beside a slow one", fast_beside_slow),
)
"""All rules, in the order in which they are asked."""


def search_space(known: Known, rules: Sequence[Rule] = RULES) -> SearchSpace:
    """The search space that follows from what is known."""
    draft = Draft()
    for rule in rules:
        rule.apply(known, draft)
    if known.shortest and STEP in draft.choices:
        draft.choices[STEP] = _long_enough(known, draft.choices[STEP])
    return draft.space()


def _long_enough(known: Known, steps: Mapping[str, Option]) -> dict[str, Option]:
    """The steps that no unit forbids."""
    unit, least = max(known.shortest.items(), key=lambda one: one[1])
    told = f"'{unit}' must not be called more often than every {least:g} s"
    if any(isinstance(option.value, Times) for option in steps.values()):
        raise InvalidInput(
            f"{told}, and the pace chooses its steps itself: say which fixed step to begin with "
            "(step=0.1, --step 0.1)"
        )
    kept = {name: option for name, option in steps.items() if option.value >= least * (1.0 - 1e-9)}
    if not kept:
        longest = max(option.value for option in steps.values())
        raise InvalidInput(f"{told}, and the longest step that follows from the other hints is {longest:g} s")
    if len(kept) < len(steps) and not known.software:  # whose samples end steps, too
        most = max(option.weight for option in steps.values())
        kept.setdefault(str(least), Option(least, most, why=told))
    return kept


def _rounded(value: float) -> float:
    """A number without the noise of a division."""
    return type(value)(f"{float(value):.12g}")


# ----------------------------------------------------------------------------------------------------
# From a variant to an experiment.


@dataclass(frozen=True, eq=False)
class Realised:
    """A variant as an experiment that can be run, and what it does about units, as people write it."""

    variant: Variant
    experiment: Experiment
    adapts: Mapping[str, tuple[str, ...]]
    schedule: Schedule

    def of(self, experiment: Experiment) -> Experiment:
        """It, whatever the experiment is that it was made from."""
        return self.experiment


def realised(known: Known, variant: Variant) -> Realised:
    """The experiment of a variant. `InvalidSchedule` if there is no valid order; whatever else a scenario
    does not allow is the error that it always is."""
    schedule = schedule_of(variant, known.units, known.links)
    made = known.experiment
    master = made.master
    chosen = variant.chosen.get(STEP)
    step = known.step if chosen is None or isinstance(chosen, Times) else float(chosen)
    ports: dict[str, Approximation] = dict(master.ports)
    adapts: dict[str, list[str]] = {}
    rates: dict[str, int] = {}
    inner: dict[str, int] = {}
    parts: dict[str, Any] = {}
    held: set[str] = set()
    late = {edge.then.what for edge in schedule.edges if edge.first.call == "get" and edge.first.late}
    for group, inside in schedule.inner:
        late |= {edge.then.what for edge in inside.edges if edge.first.call == "get" and edge.first.late}
        rates |= dict.fromkeys(group.units, group.rate)
    for one in variant.adaptations:
        match one:
            case Extrapolated(port, order):
                ports[port] = Hold() if order == 0 else Linear() if order == 1 else Polynomial(order)
                held.add(port)
            case Interpolated(port):
                ports.setdefault(port, Linear())
            case Corrected(several, degree):
                ports |= dict.fromkeys(several, Nepce(Linear() if degree else Hold()))
            case Rated((unit,), rate):
                inner[unit] = rate
                adapts.setdefault(unit, []).append(f"rate {rate}")
            case Decision("every", (unit, period)):
                sampled = any(
                    getattr(known.scenario.units[unit], name, None) for name in ("sample_time", "period")
                )
                if not sampled and abs(step - period) > 1e-9 * period:
                    adapts.setdefault(unit, []).append(f"every {period!r}")
            case Decision("adapt", (unit, text)):
                adapts.setdefault(unit, []).append(text)
            case Decision(part, value):
                parts[part] = value
    coupling = parts.get("coupling", master.coupling)
    if rates:
        coupling = MultiRate(rates)
    elif "coupling" not in parts and late:
        units = schedule.units
        coupling = keeping(master.coupled, GaussSeidel()) if _usual(master.coupled) else GaussSeidel()
        coupling = replace(coupling, order=units)  # type: ignore[type-var]
        place = {unit: k for k, unit in enumerate(units)}
        for link in known.links:
            if link.input not in late and not link.fixed and place[link.source] < place[link.target]:
                text = f"delayed on {link.input.removeprefix(f'{link.target}.')}"
                told = adapts.setdefault(link.target, [])
                if text not in told and not any(one.startswith("every ") for one in told):  # that samples
                    told.append(text)
    _check_rates(known, step, {**inner, **getattr(coupling, "rates", {})})
    changed = replace(
        master,
        pace=_paced(known, chosen),
        coupling=coupling,
        inputs=parts.get("inputs", master.inputs),
        ports=ports,
        events=parts.get("events", master.events),
    )
    scenario = made.scenario
    given = {unit: tuple(texts) for unit, texts in adapts.items() if texts}
    if given:
        models = {unit: adapted(scenario.units[unit], *texts) for unit, texts in given.items()}
        scenario = scenario.with_units(models)
    made = (
        made.with_(master=changed)
        if scenario is made.scenario
        else made.with_(master=changed, scenario=scenario)
    )
    return Realised(variant, made, given, schedule)


def _paced(known: Known, step: Any) -> Pace:
    """The pace with another step."""
    pace = known.experiment.master.pace
    if step is None:
        return pace
    factor = float(step) if isinstance(step, Times) else step / known.step if known.step else None
    return (None if factor is None else scaled(pace, factor)) or Fixed(float(step))


def _check_rates(known: Known, step: float, rates: Mapping[str, int]) -> None:
    """Refuse to call a unit more often than it may be."""
    for unit, least in known.shortest.items():
        own = step / rates.get(unit, 1)
        if 0 < own < least * (1.0 - 1e-9):
            raise MasterError(
                f"'{unit}' would be called every {own:g} s, and must not be more often than every {least:g} s"
            )


__all__ = ["OF_HINTS", "RULES", "Draft", "Known", "Realised", "Rule", "realised", "search_space"]
