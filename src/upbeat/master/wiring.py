"""Wiring: the instructions that move values between the registers of a scenario's ports.

Every coupling is written with these few snippets; none of them knows in which order they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from upbeat.core.expr import Cell
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master.inputs.approximation import Approximation, Place, Trajectory
from upbeat.master.port_registers import End, Interval, PortRegisters
from upbeat.master.program import Advance, Block, Doubt, Get, History, If, Instruction, Let, Reg, Set
from upbeat.scenario.scenario import Scenario

if TYPE_CHECKING:
    from upbeat.master.events.conditions import Followed


@dataclass(frozen=True, slots=True)
class Guess:
    """What an input is assumed to be at the end of a step: registers, and the lets that take it over."""

    value: Reg
    rates: tuple[Reg, ...]
    keep: tuple[Let, ...]
    mark: str = ""
    """Tells it from other guesses of the same input."""
    counts: tuple[Reg, ...] = ()
    """How many events had happened in the units that it follows."""

    @property
    def registers(self) -> tuple[Reg, ...]:
        return (self.value, *self.rates)


class Wiring(PortRegisters):
    """Instruction snippets over the registers of a scenario's ports."""

    def __init__(
        self, scenario: Scenario, default: Approximation, special: Mapping[str, Approximation]
    ) -> None:
        super().__init__(scenario, default, special)
        self.notes: dict[str, None] = {}
        self.doubts: list[Doubt] = []
        """What blocks may notice while they run."""
        self.drift = 0.0
        """By what part of its size a step puts the motion off (see `Master.drift`)."""
        self.predictions: dict[str, Reg] = {}
        """By event: two registers in which the pace says when it first saw it coming, and for when."""
        self.struck: dict[str, list[Let]] = {}
        """By unit: how those are told who want to know that an event has reached it."""
        self.leading: Mapping[str, Block] = {}
        """By event: what follows it, where it ends a structure."""
        self.over: Reg | None = None
        """Where it says that the run is over, before its stop time."""
        self.followed: dict[bool, Followed] = {}
        """The conditions of events that are computed already: with rates from equations, and without."""
        self._trajectories: dict[tuple[End, Interval, bool, Guess | None], Trajectory] = {}
        self._guesses: dict[End, int] = {}
        self._tracked: list[tuple[End, Trajectory]] = []

    def interval(self, name: str) -> Interval:
        """Registers for the ends of a part of a step."""
        return Interval(self.registers.new(f"{name}′now"), self.registers.new(f"{name}′next"))

    def ending(self) -> Reg:
        """The register that says that the run is over, before its stop time."""
        if self.over is None:
            self.over = self.registers.new("over")
        return self.over

    def note(self, text: str) -> None:
        """Something that `upbeat explain` should say, once."""
        self.notes[text] = None

    def get(self, end: End) -> list[Instruction]:
        """Read an output into its register."""
        return [Get(*end, self.outputs[end])]

    def compute(self, end: End) -> list[Instruction]:
        """Compute an input's value from the outputs it comes from (nothing, if it is a copy)."""
        return list(self._lets.get(end, ()))

    def extrapolate(self, end: End, over: Interval | None = None) -> list[Instruction]:
        """Hand an input its trajectory from the latest exchange on, as far as it is known there."""
        trajectory = self._trajectory(end, over, interpolate=False)
        if trajectory.at_start:
            return self.hold(end) if end in self._direct else self.compute(end)
        return [*self.compute(end), *trajectory.late, Set(*end, trajectory.by)]

    def begin(self, end: End, over: Interval | None = None) -> list[Instruction]:
        """Hand an input a trajectory that needs to know how long the step is."""
        trajectory = self._trajectory(end, over, interpolate=False)
        if trajectory.near is not None:
            return [If(trajectory.near, (*trajectory.again, Set(*end, trajectory.by)))]
        return [*trajectory.late, Set(*end, trajectory.by)] if trajectory.at_start else []

    def guess(self, end: End) -> Guess:
        """Registers for an assumed end value of an input, and of its derivatives."""
        port = self._ports[end]
        sources = self.known(end)
        count = self._guesses[end] = self._guesses.get(end, 0) + 1
        mark = "" if count == 1 else f" {count}"
        made = [
            self.registers.new(f"{self.label(end)}′guess{mark}{'′' * k}", port.kind, port.cells)
            for k in range(len(sources))
        ]
        pairs = [(to + i, s + i) for to, s in zip(made, sources, strict=True) for i in range(port.cells)]
        counts = self.counts(end)
        counted = [
            self.registers.new(f"{self.label(end)}′guess{mark}′events {k}", Kind.INTEGER)
            for k in range(len(counts))
        ]
        pairs += zip(counted, counts, strict=True)
        keep = tuple(Let(to, Cell(s)) for to, s in pairs)
        return Guess(made[0], tuple(made[1:]), keep, mark, tuple(counted))

    def remember(
        self, end: End, over: Interval | None = None, guess: Guess | None = None
    ) -> list[Instruction]:
        """What `interpolate` must keep from the start of the step."""
        return list(self._trajectory(end, over, interpolate=True, guess=guess).early)

    def interpolate(
        self, end: End, over: Interval | None = None, guess: Guess | None = None
    ) -> list[Instruction]:
        """Hand an input its trajectory over the step whose end value is already known, or guessed."""
        trajectory = self._trajectory(end, over, interpolate=True, guess=guess)
        compute = self.compute(end) if guess is None else []
        return [*compute, *trajectory.late, Set(*end, trajectory.by)]

    def hold(self, end: End) -> list[Instruction]:
        """Hand an input its value at this instant, for outputs that depend on it directly."""
        return [*self.compute(end), Set(*end, (self.inputs[end],))]

    def track(self, end: End, trajectory: Trajectory) -> None:
        """Take note of a trajectory that is kept besides the coupling's own: it restarts with the input."""
        self._tracked.append((end, trajectory))

    def restart(self, end: End) -> list[Instruction]:
        """Forget the history of an input, because an event has changed what it follows.

        Exchange values after it: the trajectories handed over before go on as they were. It covers those
        made so far, so write it when the blocks of the coupling and of the pace are there.
        """
        return [
            let
            for history in self.histories
            if (history.unit, history.port) == end
            for let in history.restart
        ]

    @property
    def histories(self) -> tuple[History, ...]:
        """What the trajectories made so far remember."""
        times: dict[End, tuple[Reg, ...]] = {}
        spacing: dict[End, tuple[Reg, ...]] = {}
        for end, trajectory in (
            *((key[0], trajectory) for key, trajectory in self._trajectories.items()),
            *self._tracked,
        ):
            if trajectory.history:
                times[end] = times.get(end, ()) + trajectory.history
                spacing[end] = spacing.get(end, ()) + trajectory.spacing
        sources = {(c.unit, c.port): c.sources for c in self.scenario.connections}
        return tuple(
            History(
                *end,
                tuple(
                    self.outputs[source] + i
                    for source in sources[end]
                    for i in range(self._ports[source].cells)
                ),
                found,
                spacing[end],
            )
            for end, found in times.items()
        )

    def advance(self, unit: str, over: Interval | None = None, *, early: bool = False) -> list[Instruction]:
        """Simulate a unit over an interval; with `early` it may stop before its end."""
        now, until = over or self.whole
        advance = Advance(unit, now, until, self._reached[unit], early)
        count = self.count(unit)
        return [advance] if count is None else [advance, *self.get(count)]

    def finish(self) -> list[Instruction]:
        """Compute the scenario's own outputs."""
        return list(self._result_lets)

    def _trajectory(
        self, end: End, over: Interval | None, *, interpolate: bool, guess: Guess | None = None
    ) -> Trajectory:
        key = (end, over or self.whole, interpolate, guess)
        if key not in self._trajectories:
            port, (now, until) = self._ports[end], key[1]
            known = self.known(end)
            ahead = guess.registers if guess is not None else known
            name = self.label(end) + ("" if guess is None else f"′again{guess.mark}")
            counts = self.counts(end)
            there = guess.counts if guess is not None else counts
            place = Place(
                name,
                port.kind,
                port.cells,
                known,
                ahead,
                now,
                until,
                self.unsure(end),
                counts,
                there,
                self.within(end),
            )
            chosen = self.approximation(end)
            method = chosen.interpolate if interpolate else chosen.extrapolate
            self._trajectories[key] = method(place, self.registers)
        return self._trajectories[key]
