"""Strong coupling: a step is repeated until the inputs it assumed agree with the outputs it gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import inf

from upbeat.core.errors import renamed
from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.coupling import GaussSeidel, Jacobi, UnitSequence, exchange, labelled, sweep
from upbeat.master.dataflow import live
from upbeat.master.loops import excess, worst_of
from upbeat.master.port_registers import End
from upbeat.master.program import Blocks, If, Instruction, Let, Reg, Repeat, Restore, Save
from upbeat.master.wiring import Guess, Wiring

PATIENCE, MAX_PATIENCE = 4, 10
"""So many rounds in a row without a smaller change are rounding; in a ring of many units a change needs as
many to go around."""


@renamed
@dataclass(frozen=True, slots=True)
class Iterated:
    """Repeat each step of `coupling` with inputs that interpolate to the values of the round before.

    The step stands when no input changes by more than `tolerance` from one round to the next, relative to the
    largest value it has had in this step, and those that are not real do not change at all. Where rounding is
    all that is left of a value, that may never be: a step also stands if changes are within `tolerance` of 1
    + |value| and more rounds do not make them smaller. Not getting there within `max_iterations` rounds ends
    the run. With `corrections` given, that many rounds are made and the result is taken as it is
    (semi-implicit coupling). All units need rollback.
    """

    coupling: Jacobi | GaussSeidel = field(default_factory=Jacobi)
    tolerance: float = 1e-8
    max_iterations: int = 50
    corrections: int | None = None

    def __post_init__(self) -> None:
        checks.inside(self.coupling, "Iterated", (Jacobi, GaussSeidel))
        checks.positive(self.tolerance, "the tolerance of Iterated")
        checks.count(self.max_iterations, "max_iterations of Iterated")
        if self.corrections is not None:
            checks.count(self.corrections, "corrections of Iterated")

    def label(self, inputs: str) -> str:
        """In a few words, with what is said of its inputs."""
        times = "once" if self.corrections == 1 else f"{self.corrections} times"
        how = "iterated" if self.corrections is None else f"corrected {times}"
        return f"{labelled(self.coupling, inputs)}, {how}"

    def blocks(self, wiring: Wiring) -> Blocks:
        sequence = self.coupling.sequence(wiring)
        parts = exchange(wiring, self.coupling, sequence)
        guesses = {end: wiring.guess(end) for end in self._open(wiring, sequence)}
        again = (*sweep(wiring, sequence, guesses), *parts.after)
        keep = [let for guess in guesses.values() for let in guess.keep]
        judged = _Judge(self.tolerance, wiring, guesses)
        slot = wiring.registers.slot()
        names = ", ".join(map(wiring.label, guesses))
        repeat = Repeat(
            max_iterations=self.corrections or self.max_iterations,
            body=(*keep, Restore(slot), *again, *judged.judge()),
            until=Number(0.0) if self.corrections else Cell(judged.done),
            exhausted="accept" if self.corrections else "fail",
            what=f"repeating the step until {names} agree",
            shows=judged.shows,
            advice="Take shorter steps, allow more rounds (max_iterations) or a larger tolerance, or make a "
            "fixed number of corrections (corrections).",
        )
        own = {wiring.now, wiring.next, *(let.to for guess in guesses.values() for let in guess.keep)}
        kept = live(wiring.registers.layout(), wiring.scenario.units, again)
        save = Save(tuple(wiring.scenario.units), tuple(r for r in kept if r not in own), slot)
        step = (*judged.start(), save, *sweep(wiring, sequence), *parts.after, *judged.grow(), repeat)
        how = f"corrected {self.corrections} times"
        if self.corrections is None:
            how = f"repeated until its inputs agree to {self.tolerance:g}"
        notes = tuple(note for note in (sequence.note, parts.note, f"every step is {how}") if note)
        return Blocks(parts.start, {"step": step}, parts.again, notes=notes)

    def _open(self, wiring: Wiring, sequence: UnitSequence) -> list[End]:
        """The inputs that do not see the end of the step by themselves."""
        ends = [end for unit in sequence.order for end in wiring.connected(unit)]
        return [
            end for end in ends if end not in sequence.reactive and wiring.port(end).reactive is not False
        ]


class _Judge:
    """Whether a repeated step agrees with itself, as instructions.

    `worst` is the largest change, each relative to the largest value of its input in the step. Values that
    are all rounding (a difference of large numbers that should be zero) never agree in that sense. There
    `worst` does not fall any more, while the changes compared with 1 + |value| (`plain`) are small and have
    been larger since it fell last.
    """

    def __init__(self, tolerance: float, wiring: Wiring, guesses: Mapping[End, Guess]) -> None:
        self._tolerance, self._wiring, self._guesses = tolerance, wiring, guesses
        self._mark = wiring.registers.unique("iterated")
        self._patience = min(max(PATIENCE, len({unit for unit, _ in guesses})), MAX_PATIENCE)
        self._each = self._new("changes", max(1, len(guesses)))
        self._worst, self._plain = self._new("change"), self._new("plain change")
        self._smallest, self._before = self._new("least change"), self._new("largest plain change")
        self._idle = self._new("idle", kind=Kind.INTEGER)
        self.done = self._new("done", kind=Kind.BOOLEAN)
        self._sizes: dict[Reg, Reg] = {}
        for end in guesses:
            port, first = wiring.port(end), wiring.inputs[end]
            if port.kind is Kind.REAL:
                size = self._new(f"size of {wiring.label(end)}", port.cells)
                self._sizes |= {first + i: size + i for i in range(port.cells)}
        self.shows = tuple(
            (f"change of {wiring.label(end)} over its tolerance", self._each + k)
            for k, end in enumerate(guesses)
        )

    def _new(self, name: str, size: int = 1, kind: Kind = Kind.REAL) -> Reg:
        return self._wiring.registers.new(f"{self._mark}′{name}", kind, size)

    def start(self) -> list[Instruction]:
        """Before the step: the sizes of the values with which it begins."""
        sizes = [Let(size, apply(Op.ABS, Cell(value))) for value, size in self._sizes.items()]
        begin = [(self._smallest, inf), (self._before, inf), (self._idle, 0.0)]
        return [*sizes, *(Let(cell, Number(value)) for cell, value in begin)]

    def grow(self) -> list[Instruction]:
        """After a round: a value may be larger than it was before."""
        return [
            Let(size, apply(Op.MAX, Cell(size), apply(Op.ABS, Cell(value))))
            for value, size in self._sizes.items()
        ]

    def judge(self) -> list[Instruction]:
        """After a round but the first: the changes, and whether they are small enough."""
        plain: list[Expr] = []
        lets: list[Instruction] = self.grow()
        for k, (end, guess) in enumerate(self._guesses.items()):
            changes: list[Expr] = []
            for i in range(self._wiring.port(end).cells):
                cell = self._wiring.inputs[end] + i
                value, before = Cell(cell), Cell(guess.value + i)
                if cell in self._sizes:
                    change = value - before
                    part = apply(Op.ABS, change) / (self._tolerance * Cell(self._sizes[cell]))
                    changes.append(apply(Op.WHERE, apply(Op.EQ, change, 0.0), 0.0, part))
                    plain.append(excess(change, self._tolerance, value))
                else:  # the same or not: there is no "nearly"
                    changes.append(apply(Op.NE, value, before) / self._tolerance)
                    plain.append(changes[-1])
            lets.append(Let(self._each + k, worst_of(changes)))
        lets.append(Let(self._worst, worst_of(Cell(self._each + k) for k in range(len(self._guesses)))))
        lets.append(Let(self._plain, worst_of(plain)))
        lets.append(Let(self.done, apply(Op.LE, Cell(self._worst), 1.0)))
        better = (
            Let(self._smallest, Cell(self._worst)),
            Let(self._before, Cell(self._plain)),
            Let(self._idle, Number(0.0)),
        )
        idle = apply(Op.GE, Cell(self._idle), float(self._patience))
        grows = apply(Op.GT, Cell(self._plain), Cell(self._before))
        still = apply(Op.AND, idle, apply(Op.AND, apply(Op.LE, Cell(self._plain), 1.0), apply(Op.NOT, grows)))
        wait = (
            Let(self._idle, Cell(self._idle) + 1.0),
            If(still, (Let(self.done, Number(1.0)),)),
            Let(self._before, apply(Op.MAX, Cell(self._before), Cell(self._plain))),
        )
        return [*lets, If(apply(Op.LT, Cell(self._worst), Cell(self._smallest)), better, wait)]
