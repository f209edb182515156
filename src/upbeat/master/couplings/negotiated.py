"""Step negotiation: units may stop before the end of a step, and all end it at the earliest stop."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, renamed
from upbeat.core.expr import ZERO, Cell, Number, Op, apply
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.coupling import Jacobi, exchange
from upbeat.master.dataflow import live
from upbeat.master.program import Blocks, If, Instruction, Let, Recordable, Reg, Repeat, Restore, Save
from upbeat.master.wiring import Wiring


@renamed
@dataclass(frozen=True, slots=True)
class Negotiated:
    """As `coupling`, but a unit may take less than the step asked.

    Units that can be set back go first; the earliest stop among them becomes the end of the step, and they
    repeat it up to there, until none stops earlier still (at most `max_iterations` times, then the run ends).
    One alone repeats nothing.
    Then comes a unit that may stop but cannot be set back: if it does, the others are set back once more and
    follow to its stop, and one that does not get there ends the run. Units that neither stop nor can be set
    back come last. No unit is ever left at another time than the rest: two units that may stop and cannot be
    set back are refused before the run.

    `coupling` is a `Jacobi` coupling: one after the other would mean that units follow values which a
    later stop takes back. Stops that follow each other without end are chattering, which ends the run.
    """

    coupling: Jacobi = field(default_factory=Jacobi)
    max_iterations: int = 100
    ends_early: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.inside(self.coupling, "Negotiated", (Jacobi,))
        checks.count(self.max_iterations, "max_iterations of Negotiated")

    def blocks(self, wiring: Wiring) -> Blocks:
        sequence = self.coupling.sequence(wiring)
        parts = exchange(wiring, self.coupling, sequence)
        able = {unit: model.abilities for unit, model in wiring.scenario.units.items()}
        back = [unit for unit in able if Ability.ROLLBACK in able[unit]]
        rest = [unit for unit in able if unit not in back]
        stopping = [unit for unit in rest if Ability.EARLY_RETURN in able[unit]]
        steady = [unit for unit in rest if unit not in stopping]
        if len(stopping) > 1:
            raise MasterError(
                f"{' and '.join(stopping)} may stop before the end of a step and cannot be set back: "
                "whichever goes second may leave the first one ahead of the others. Give all but one of them "
                "rollback, or put them into one unit."
            )
        stops = wiring.registers.new("negotiated′stops")
        names = [unit for unit in able if Ability.EARLY_RETURN in able[unit]]
        wanted = wiring.registers.new("negotiated′wanted")
        slot = wiring.registers.slot()
        follow = self._units(wiring, back, early=False)
        kept = live(wiring.registers.layout(), wiring.scenario.units, follow)
        save = Save(tuple(back), tuple(r for r in kept if r not in wiring.whole), slot)
        first = (Let(wanted, Cell(wiring.next)), *self._units(wiring, back, early=True))
        step: list[Instruction] = [save, *first]
        sooner = apply(Op.LT, Cell(wiring.next), Cell(wanted))
        may_stop = [unit for unit in back if Ability.EARLY_RETURN in able[unit]]
        if may_stop:
            agree = self._earliest(wiring, may_stop, names, stops)
            again = Repeat(
                self.max_iterations,
                (Restore(slot), *first, *agree),
                apply(Op.NOT, sooner),
                "fail",
                f"agreeing with {', '.join(may_stop)} on the end of the step",
                (("earliest stop", wiring.next),),
                "A unit that stops earlier each time it is set back does not repeat what it did; raise "
                "max_iterations if it gets there in the end.",
            )
            # a unit alone is where it has stopped, and has none to agree with
            step += [*agree, *([If(sooner, (again,))] if len(back) > 1 else [])]
        if stopping:
            step += [Let(wanted, Cell(wiring.next)), *self._units(wiring, stopping, early=True)]
            step += [
                *self._earliest(wiring, stopping, names, stops),
                If(sooner, (Restore(slot), *follow)),
            ]
        if may_stop or stopping:
            step = [Let(stops, ZERO), *step]
        step += self._units(wiring, steady, early=False)
        order = " → ".join(map(wiring.called, (*back, *stopping, *steady)))
        known = ", ".join(map(wiring.called, back)) or "none"
        note = f"steps are negotiated, in the order {order}; to be set back: {known}"
        return Blocks(
            parts.start,
            {"step": (*step, *parts.after)},
            parts.again,
            notes=(note, parts.note),
            stops=Recordable(stops, items=tuple(map(wiring.called, names))) if names else None,
        )

    def _units(self, wiring: Wiring, units: list[str], *, early: bool) -> tuple[Instruction, ...]:
        """Units over the step, as far as they go."""
        begin = [i for unit in units for end in wiring.connected(unit) for i in wiring.begin(end)]
        stops = {u for u in units if early and Ability.EARLY_RETURN in wiring.scenario.units[u].abilities}
        return (*begin, *(i for unit in units for i in wiring.advance(unit, early=unit in stops)))

    def _earliest(self, wiring: Wiring, units: list[str], names: list[str], stops: Reg) -> list[Instruction]:
        """The end of the step becomes the earliest stop, and `stops` the number of who stopped there."""
        found: list[Instruction] = []
        for unit in units:
            reached = Cell(wiring.reached(unit))
            who = apply(
                Op.WHERE,
                apply(Op.LT, reached, Cell(wiring.next)),
                Number(1.0 + names.index(unit)),
                Cell(stops),
            )
            found += [Let(stops, who), Let(wiring.next, apply(Op.MIN, reached, Cell(wiring.next)))]
        return found
