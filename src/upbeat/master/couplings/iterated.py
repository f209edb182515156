"""Strong coupling: a step is repeated until the inputs it assumed agree with the outputs it gave."""

from __future__ import annotations

from dataclasses import dataclass, field

from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master import checks
from upbeat.master.algebra.worst import excess, worst_of
from upbeat.master.blocks import Blocks
from upbeat.master.couplings.coupling import GaussSeidel, Jacobi, Sequence, exchange, sweep
from upbeat.master.dataflow import live
from upbeat.master.layout import Reg
from upbeat.master.port_registers import End
from upbeat.master.program import Instruction, Let, Repeat, Restore, Save
from upbeat.master.wiring import Guess, Wiring


@dataclass(frozen=True, slots=True)
class Iterated:
    """Repeat each step of `coupling` with inputs that run towards the values found in the round before.

    The step stands when no input changes by more than `tolerance` (relative to 1 + |value|) from one
    round to the next, and those that are not real do not change at all; not getting there within `most`
    rounds ends the run. With `corrections` given, that many rounds are made and the result is taken as it is
    (semi-implicit coupling). All units need rollback.
    """

    coupling: Jacobi | GaussSeidel = field(default_factory=Jacobi)
    tolerance: float = 1e-8
    most: int = 50
    corrections: int | None = None

    def __post_init__(self) -> None:
        checks.inside(self.coupling, "Iterated", (Jacobi, GaussSeidel))
        checks.positive(self.tolerance, "the tolerance of Iterated")
        checks.count(self.most, "most of Iterated")
        if self.corrections is not None:
            checks.count(self.corrections, "corrections of Iterated")

    def blocks(self, wiring: Wiring) -> Blocks:
        sequence = self.coupling.sequence(wiring)
        parts = exchange(wiring, self.coupling, sequence)
        guesses = {end: wiring.guess(end) for end in self._open(wiring, sequence)}
        again = (*sweep(wiring, sequence, guesses), *parts.after)
        keep = [let for guess in guesses.values() for let in guess.keep]
        error, judge, shows = self._judge(wiring, guesses)
        slot = wiring.registers.slot()
        names = ", ".join(map(wiring.label, guesses))
        repeat = Repeat(
            most=self.corrections or self.most,
            body=(*keep, Restore(slot), *again, *judge),
            until=Number(0.0) if self.corrections else apply(Op.LE, Cell(error), 1.0),
            exhausted="accept" if self.corrections else "fail",
            what=f"repeating the step until {names} agree",
            shows=shows,
            advice="Take shorter steps, allow more rounds (most) or a larger tolerance, or make a fixed "
            "number of corrections (corrections).",
        )
        own = {wiring.now, wiring.next, *(let.to for guess in guesses.values() for let in guess.keep)}
        kept = live(wiring.registers.layout(), wiring.scenario.units, again)
        save = Save(tuple(wiring.scenario.units), tuple(r for r in kept if r not in own), slot)
        step = (save, *sweep(wiring, sequence), *parts.after, repeat)
        how = f"corrected {self.corrections} times"
        if self.corrections is None:
            how = f"repeated until its inputs agree to {self.tolerance:g}"
        notes = tuple(note for note in (sequence.note, parts.note, f"every step is {how}") if note)
        return Blocks(parts.start, {"step": step}, parts.again, notes=notes)

    def _open(self, wiring: Wiring, sequence: Sequence) -> list[End]:
        """The inputs that do not see the end of the step by themselves."""
        ends = [end for unit in sequence.order for end in wiring.connected(unit)]
        return [
            end for end in ends if end not in sequence.reactive and wiring.port(end).reactive is not False
        ]

    def _judge(
        self, wiring: Wiring, guesses: dict[End, Guess]
    ) -> tuple[Reg, list[Instruction], tuple[tuple[str, Reg], ...]]:
        """The register of the largest change over its tolerance, how it is found, and what to show of it."""
        mark = wiring.registers.unique("iterated")
        error = wiring.registers.new(f"{mark}′change")
        each = wiring.registers.new(f"{mark}′changes", size=max(1, len(guesses)))
        found: list[Expr] = []
        for end, guess in guesses.items():
            changes: list[Expr] = []
            for i in range(wiring.port(end).cells):
                value, before = Cell(wiring.inputs[end] + i), Cell(guess.value + i)
                if wiring.port(end).kind is Kind.REAL:
                    changes.append(excess(value - before, self.tolerance, value))
                else:  # the same or not: there is no "nearly"
                    changes.append(apply(Op.NE, value, before) / self.tolerance)
            found.append(worst_of(changes))
        lets = [Let(each + k, change) for k, change in enumerate(found)]
        largest = Let(error, worst_of(Cell(each + k) for k in range(len(found))))
        names = [f"change of {wiring.label(end)} over its tolerance" for end in guesses]
        shows = tuple((name, each + k) for k, name in enumerate(names))
        return error, [*lets, largest], shows
