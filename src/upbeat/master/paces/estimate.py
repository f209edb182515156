"""Error estimates as instructions: what a step-size control reads, added to the blocks of any coupling.

Each estimate turns step blocks into ones that also leave, for every watched port, its error over its
tolerance in a register. Nothing here knows which coupling wrote the blocks: a step block goes from
the time in register `now` to the one in `next`, and that is all that is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.dataflow import Flow, Resource, knows_end, live, touched
from upbeat.master.inputs.approximation import (
    MAX_POLYNOMIAL,
    Approximation,
    Place,
    Polynomial,
    convergence,
    uncorrected,
)
from upbeat.master.paces.watching import Watched
from upbeat.master.program import Block, Blocks, If, Instruction, Let, Reg, Restore, Save, Set, walk
from upbeat.master.wiring import Wiring
from upbeat.scenario.bonds import Bond
from upbeat.units.equations.data import Equations

SUDDEN = 8.0
"""An input that is off by so many times as much after the second half of a step as after the first has met
something in it: where it goes on smoothly, both are about the same."""

ROUNDING = 16 * 2.0**-52
"""What two ways of computing a value may differ by, relative to it, without meaning anything."""


class Estimate(NamedTuple):
    """Blocks that estimate, the first register of the errors, and the power of the step they grow with."""

    blocks: Blocks
    errors: Reg
    power: int


def lowest_order(wiring: Wiring) -> int:
    """The order of a coupling is that of its worst input; inputs that are not real do not count."""
    ends = [end for unit in wiring.scenario.units for end in wiring.connected(unit)]
    real = [wiring.approximation(end) for end in ends if wiring.port(end).kind is Kind.REAL]
    return min((convergence(approximation) for approximation in real), default=1)


def driven(blocks: Blocks, wiring: Wiring) -> frozenset[Reg]:
    """The cells of inputs that the coupling finds by itself, of all that follows them at one instant, and of
    outputs whose rates do.

    What is found for a step depends on where the step lies: a force that is held while it closes a gap is the
    larger the shorter the step, and so is the velocity it leaves. No step would be short enough for these.
    """
    connected = {end for unit in wiring.scenario.units for end in wiring.connected(unit)}
    handed = (i for step in blocks.steps.values() for i in walk(step) if isinstance(i, Set))
    found = {(i.unit, i.port) for i in handed} - connected
    if not found:
        return frozenset()
    flow = Flow(wiring.registers.layout(), wiring.scenario.units)
    _, spoilt = touched(blocks.exchange, flow, [("input", *end) for end in found])
    steered: set[Resource] = set()
    for unit, model in wiring.scenario.units.items():
        equations = getattr(model, "equations", None)
        if isinstance(equations, Equations):
            inputs = {port.name for port in equations.inputs if ("input", unit, port.name) in spoilt}
            ends = [(unit, name) for name in equations.steered(inputs)]
            steered |= {("cell", wiring.outputs[e] + i) for e in ends for i in range(wiring.port(e).cells)}
    _, behind = touched(blocks.exchange, flow, steered)
    return frozenset(r[1] for r in spoilt | behind if isinstance(r, tuple) and r[0] == "cell")


def richardson(blocks: Blocks, wiring: Wiring, watched: Sequence[Watched], order: int) -> Estimate:
    """Each step once as a whole and again in two halves; the halves stand.

    With two halves of order p, what they still are away from the solution is their distance from the
    whole step over 2^p - 1. That is a local error, so it grows with the power p + 1 of the step.
    What may be rounding does not count, or short steps would never be good enough.

    What happens in the second half (a jump, a kink) is seen by neither of the two where an input is
    continued over it: so inputs are also compared with what they were expected to be at the end of each half.
    One that is off by more than its tolerance after the second, and by `SUDDEN` times as much as after the
    first, makes the step too long, so that a shorter one has it in its first half.
    """
    new = wiring.registers.new
    ahead = {
        port: _Ahead(port, wiring, uncorrected(wiring.approximation(port.end)), "half")
        for port in watched
        if _continued(port, blocks, wiring)
    }
    off = {port: new(wiring.registers.unique(f"{port.name}′off")) for port in ahead}
    kept = [new(f"{port.name}′whole", size=port.cells) for port in watched]
    errors = new("error", size=len(watched))
    begin, end = new("whole step′from"), new("whole step′to")
    slot = wiring.registers.slot()
    save = Save(tuple(wiring.scenario.units), _live(blocks, wiring), slot)
    now, until = Cell(wiring.now), Cell(wiring.next)
    keep = [
        Let(to + i, Cell(p.register + i)) for p, to in zip(watched, kept, strict=True) for i in range(p.cells)
    ]
    judge: list[Instruction] = []
    for k, (port, whole) in enumerate(zip(watched, kept, strict=True)):
        distances: list[Expr] = []
        for i in range(port.cells):
            value = Cell(port.register + i)
            distance = apply(Op.ABS, value - Cell(whole + i)) - ROUNDING * apply(Op.ABS, value)
            distances.append(apply(Op.MAX, 0.0, distance))  # in this order, or "not a number" would get lost
        judge.append(Let(errors + k, port.error(distances) / float(2**order - 1)))
        if port in ahead:
            late = ahead[port].error()
            sudden = apply(Op.AND, apply(Op.GT, late, 1.0), apply(Op.GT, late, SUDDEN * Cell(off[port])))
            judge.append(Let(errors + k, apply(Op.WHERE, sudden, late, Cell(errors + k))))
    before = [let for one in ahead.values() for let in one.before]
    after = [let for one in ahead.values() for let in one.after]
    expected = [Let(off[port], one.error()) for port, one in ahead.items()]

    def doubled(step: Block) -> Block:
        return (
            save,
            *step,
            *keep,
            Let(begin, now),
            Let(end, until),  # what the whole step reached: units may have agreed on less than was asked
            Restore(slot),
            Let(wiring.next, now + 0.5 * (Cell(end) - now)),
            *before,
            *step,
            *expected,
            *after,
            Let(wiring.now, until),
            Let(wiring.next, Cell(end)),
            *before,
            *step,
            *judge,
            *after,
            Let(wiring.now, Cell(begin)),
        )

    steps = {name: doubled(step) for name, step in blocks.steps.items()}
    return Estimate(_remembering(blocks, steps, after), errors, order + 1)


def _continued(port: Watched, blocks: Blocks, wiring: Wiring) -> bool:
    """Whether this is an input that does not know what it follows at the end of a step."""
    if port.end not in wiring.connected(port.end[0]):
        return False
    sources = [s for c in wiring.scenario.connections if (c.unit, c.port) == port.end for s, _ in c.sources]
    return not all(knows_end(step, s, port.end) for s in sources for step in blocks.steps.values())


def _live(blocks: Blocks, wiring: Wiring) -> tuple[Reg, ...]:
    """The registers that a step reads from before it. Its two ends are written by hand."""
    layout, units = wiring.registers.layout(), wiring.scenario.units
    found = {r for step in blocks.steps.values() for r in live(layout, units, (*step, *blocks.instant))}
    return tuple(sorted(found - {wiring.now, wiring.next}))


def milne(blocks: Blocks, wiring: Wiring, watched: Sequence[Watched], order: int) -> Estimate:
    """What an input was expected to be at the end of the step, against what it is.

    The error of an *input* over a step, not of a state: it moves states by about its size times the
    step, so it already is an error per time.
    """
    ahead = {
        port: _Ahead(port, wiring, uncorrected(wiring.approximation(port.end)), "ahead") for port in watched
    }
    return _predicted(
        blocks,
        wiring,
        order,
        list(ahead.values()),
        [one.error() for one in ahead.values()],
    )


def orders(blocks: Blocks, wiring: Wiring, watched: Sequence[Watched], order: int) -> Estimate:
    """What an input was expected to be at the end of the step, against a polynomial of the next degree.

    Where there is none of the next degree, one of a lower degree, which sees more error than there is.
    """
    pairs: list[tuple[_Ahead, _Ahead]] = []
    for port in watched:
        chosen = uncorrected(wiring.approximation(port.end))
        degree = convergence(chosen) if convergence(chosen) <= MAX_POLYNOMIAL else MAX_POLYNOMIAL - 1
        order = min(order, degree)
        other = Polynomial(degree)
        pairs.append((_Ahead(port, wiring, chosen, "ahead"), _Ahead(port, wiring, other, "other")))
    return _predicted(
        blocks,
        wiring,
        order,
        [one for pair in pairs for one in pair],
        [
            port.error([one.value(i) - other.value(i) for i in range(port.cells)])
            for port, (one, other) in zip(watched, pairs, strict=True)
        ],
    )


def energy(
    blocks: Blocks, wiring: Wiring, bonds: Sequence[Bond], order: int, tolerance: float
) -> tuple[Estimate, tuple[str, ...]]:
    """What a coupling creates or destroys at power bonds, over the largest power so far; and their names.

    One unit gives out an effort and gets the flow that the other one makes of it. Where what they were given
    at the end of the step is not what there is, the powers on both sides differ there, by a number that has
    grown with the power `order` of the step: over the step it is that over order + 1 on the average.
    """
    ahead: list[_Ahead] = []
    errors: list[Expr] = []
    judge: list[Let] = []
    names = []
    step = next(iter(blocks.steps.values()))
    for bond in bonds:
        effort, flow = Cell(wiring.outputs[bond.one]), Cell(wiring.outputs[bond.other])
        name = " and ".join(bond.named(wiring.scenario))
        off: list[Expr] = []
        for source, target, other in ((bond.one, bond.one_to, flow), (bond.other, bond.other_to, effort)):
            if knows_end(step, source[0], target):
                continue
            port = Watched(target, wiring.label(target), wiring.inputs[target], 1, tolerance, 1.0)
            given = _Ahead(port, wiring, uncorrected(wiring.approximation(target)), "ahead")
            ahead.append(given)
            wrong = (given.value(0) - Cell(port.register)) / bond.factor(wiring.scenario, target)
            off.append(wrong * other if source == bond.one else -(wrong * other))
        largest = wiring.registers.new(wiring.registers.unique(f"{name}′power"))
        power = apply(Op.MAX, Cell(largest), apply(Op.ABS, effort * flow))
        judge.append(Let(largest, power))
        created: Expr = off[0] + off[1] if len(off) == 2 else off[0] if off else Number(0.0)
        error = apply(Op.ABS, created) / (tolerance * (order + 1.0) * Cell(largest))
        errors.append(apply(Op.WHERE, apply(Op.GT, Cell(largest), Number(0.0)), error, Number(0.0)))
        names.append(name)
    found = _predicted(blocks, wiring, order, ahead, errors, judge)
    return found, tuple(names)


class _Ahead:
    """The trajectory of an input by an approximation, kept besides the coupling's own.

    Separately, because a coupling hands over what it likes: an input that sees the end of the step
    (Gauss-Seidel, Iterated) has no extrapolated trajectory there, and its error is wanted all the same.
    """

    def __init__(self, port: Watched, wiring: Wiring, approximation: Approximation, mark: str) -> None:
        self._port = port
        name, kind = f"{port.name}′{mark}", wiring.port(port.end).kind
        sources = wiring.known(port.end)[: approximation.derivatives + 1]
        known = tuple(
            wiring.registers.new(f"{name} at start{'′' * k}", kind, port.cells) for k in range(len(sources))
        )
        unsure = wiring.unsure(port.end) and len(known) > 1
        counts = wiring.counts(port.end)
        place = Place(
            name,
            kind,
            port.cells,
            known,
            known,
            wiring.now,
            wiring.next,
            unsure,
            counts,
            counts,
            wiring.within(port.end),
        )
        trajectory = approximation.extrapolate(place, wiring.registers)
        wiring.track(port.end, trajectory)
        copies = [
            Let(to + i, Cell(s + i)) for to, s in zip(known, sources, strict=True) for i in range(port.cells)
        ]
        self.before: list[Instruction] = list(trajectory.late) if trajectory.at_start else []
        if trajectory.near is not None:
            self.before.append(If(trajectory.near, trajectory.again))
        self.after: list[Let] = copies if trajectory.at_start else [*copies, *trajectory.late]
        self._by = trajectory.by
        self._length = Cell(wiring.next) - Cell(wiring.now)

    def error(self) -> Expr:
        """How far it is from what was expected at the end of the step, over its tolerance."""
        port = self._port
        return port.error([Cell(port.register + i) - self.value(i) for i in range(port.cells)])

    def value(self, cell: int) -> Expr:
        """What was expected at the end of the step."""
        value: Expr = Cell(self._by[-1] + cell)
        for register in self._by[-2::-1]:
            value = value * self._length + Cell(register + cell)
        return value


def _predicted(
    blocks: Blocks,
    wiring: Wiring,
    power: int,
    ahead: Sequence[_Ahead],
    errors: Sequence[Expr],
    first_of_all: Sequence[Let] = (),
) -> Estimate:
    """Blocks that judge before they take the new values in."""
    first = wiring.registers.new("error", size=len(errors))
    before = [let for one in ahead for let in one.before]
    after = [let for one in ahead for let in one.after]
    judge = [*first_of_all, *(Let(first + k, error) for k, error in enumerate(errors))]
    steps = {name: (*before, *step, *judge, *after) for name, step in blocks.steps.items()}
    return Estimate(_remembering(blocks, steps, after), first, power)


def _remembering(blocks: Blocks, steps: Mapping[str, Block], after: Sequence[Let]) -> Blocks:
    """The blocks with these steps, which take new values in wherever there are some."""
    return replace(
        blocks,
        start=(*blocks.start, *after),
        steps=steps,
        exchange=(*blocks.exchange, *after),
        instant=(*blocks.instant, *after) if blocks.instant else (),
    )
