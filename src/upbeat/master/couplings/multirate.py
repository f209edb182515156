"""Several rates: groups of units that step many times while the others step once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import Cell, Number, Op, apply
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.coupling import Part, begun, check_loops, settled
from upbeat.master.couplings.refined import Slow, mixed, of_units
from upbeat.master.loops import LoopSolver, Newton
from upbeat.master.port_registers import End, Interval
from upbeat.master.program import Block, Blocks, If, Instruction, Let, Repeat, Set
from upbeat.master.wiring import Wiring

MAX_RATE = 1_000_000
"""The highest rate."""


@dataclass(frozen=True)
class MultiRate:
    """Units in `rates` step that many times per communication step, the others once.

    Units with the same rate are a group, and exchange values among themselves after each of their own
    steps. Slower groups go first: what a faster one gets from them runs from the value at the start
    of the communication step to the one at its end, also where it is a part of an expression with faster
    sources in it (except into inputs declared *delayed*: they go on what was known at the start). What a
    slower group gets from a faster one is extrapolated over the whole step.

    With `slower="beside"` the groups advance side by side as in a `Jacobi` coupling: what a faster one
    gets from slower ones is extrapolated, too. There may be one faster group then. The highest
    rate is a million.
    """

    rates: Mapping[str, int]
    loops: LoopSolver = field(default_factory=Newton)
    slower: Literal["first", "beside"] = "first"

    def with_several(self, unit: str, units: tuple[str, ...]) -> MultiRate:
        """The same, with `units` wherever `unit` was."""
        rates = {name: rate for name, rate in self.rates.items() if name != unit}
        return (
            replace(self, rates=rates | dict.fromkeys(units, self.rates[unit]))
            if unit in self.rates
            else self
        )

    def __post_init__(self) -> None:
        if not isinstance(self.rates, Mapping) or not self.rates:
            raise MasterError(
                "the rates of MultiRate say how often units step per communication step, such as "
                f'{{"engine": 10}}, not {self.rates!r}'
            )
        check_loops(self.loops, "MultiRate")
        checks.choice(self.slower, ("first", "beside"), "slower")
        for unit, rate in self.rates.items():
            if checks.count(rate, f"the rate of '{unit}'") > MAX_RATE:
                raise MasterError(
                    f"the rate of '{unit}', {rate}, is more than {MAX_RATE} steps per communication step: "
                    "take shorter communication steps, or leave the small steps to the unit's own solver"
                )
        if self.slower == "beside" and len({rate for rate in self.rates.values() if rate != 1}) > 1:
            raise MasterError('with slower = "beside" there may be one rate besides 1')

    def blocks(self, wiring: Wiring) -> Blocks:
        units = wiring.scenario.units
        known = [unit for unit in units if unit not in wiring.scenario.added_units]
        for unit in self.rates:
            if unit not in known:
                raise MasterError(
                    f"a rate is given for '{unit}', which is not a unit. {suggest(unit, known, 'units')}"
                )
        rate = {unit: self.rates.get(unit, 1) for unit in units}
        groups = {k: [unit for unit in units if rate[unit] == k] for k in sorted(set(rate.values()))}
        sources = {
            (c.unit, c.port): [rate[unit] for unit, _ in c.sources] for c in wiring.scenario.connections
        }
        late = () if self.slower == "beside" else sources
        ahead = frozenset(
            e
            for e in late
            if sources[e] and max(sources[e]) < rate[e[0]] and wiring.port(e).reactive is not False
        )
        self._refuse_reactive(wiring, ahead)
        parts = {k: wiring.interval(wiring.registers.unique(f"rate {k}")) for k in groups if k > 1}
        over = {
            e: parts[k]
            for e, from_ in sources.items()
            if (k := rate[e[0]]) > 1 and k in from_ and max(from_) == k
        }
        slow = mixed(wiring, over, rate, ahead=self.slower == "first")
        step: list[Instruction] = [i for one in slow.values() for i in one.begin]
        for end in sources:
            step += wiring.remember(end) if end in ahead else [] if end in over else wiring.begin(end)
        for k, members in groups.items():
            for end in (e for unit in members for e in wiring.connected(unit) if e in ahead):
                step += wiring.interpolate(end)
            own = of_units(slow, members)
            step += [i for one in own for i in one.known]
            step += self._group(wiring, members, k, parts.get(k), over, ahead, own)
        finish = (*(i for one in slow.values() for i in one.after), *wiring.finish())
        after = settled(wiring, ahead, self.loops, None, Part(over))
        reset = [Let(part.next, Cell(wiring.next)) for part in parts.values()]
        start = (*reset, *begun(wiring, ahead, self.loops, Part(over)), *finish)
        note = "; ".join(
            f"{', '.join(map(wiring.called, members))}: {k} step(s)" for k, members in groups.items()
        )
        return Blocks(
            start,
            {"step": (*step, *after, *finish)},
            exchange=(*reset, *after, *finish),
            notes=(f"steps per communication step: {note}",),
        )

    def _group(
        self,
        wiring: Wiring,
        members: list[str],
        rate: int,
        part: Interval | None,
        over: Mapping[End, Interval],
        ahead: frozenset[End],
        slow: list[Slow],
    ) -> list[Instruction]:
        """One group over the communication step, in `rate` steps of its own."""
        if part is None:
            instructions = [i for unit in members for i in wiring.advance(unit)]
        else:
            instructions = self._parts(wiring, members, rate, part, over, ahead, slow)
        for unit in members if self.slower == "first" else ():  # others still need the values of the start
            for output in wiring.outputs_of(unit):
                instructions += wiring.get(output)
        return instructions

    def _parts(
        self,
        wiring: Wiring,
        members: list[str],
        rate: int,
        part: Interval,
        over: Mapping[End, Interval],
        ahead: frozenset[End],
        slow: list[Slow],
    ) -> list[Instruction]:
        """The steps of a group one after the other, as a loop: programs are no longer for higher rates."""
        inputs = [end for unit in members for end in wiring.connected(unit)]
        delayed = frozenset(end for end in inputs if end not in over)
        between: list[Instruction] = []
        inner: Block = tuple(settled(wiring, ahead | delayed, self.loops, None, Part(over, members)))
        for one in slow:
            between += one.sample
            inner = one.seen(inner)
        between += [i for i in inner if not _sets(i, delayed)]
        count = wiring.registers.new(f"{wiring.registers.unique(f'steps of rate {rate}')}′count")
        now, until = Cell(wiring.now), Cell(wiring.next)
        last = apply(Op.GE, Cell(count), Number(float(rate)))
        end = now + (until - now) * (Cell(count) / float(rate))
        body = [
            Let(count, Cell(count) + 1.0),
            Let(part.now, Cell(part.next)),
            Let(part.next, apply(Op.WHERE, last, until, end)),
            *(i for target in inputs if target in over for i in wiring.begin(target, part)),
            *(i for unit in members for i in wiring.advance(unit, part)),
            If(last, (), tuple(between)),
        ]
        loop = Repeat(rate, tuple(body), last, "accept", f"the {rate} steps of {', '.join(members)}")
        return [Let(count, Number(0.0)), Let(part.next, now), loop]

    def _refuse_reactive(self, wiring: Wiring, ahead: frozenset[End]) -> None:
        for unit in wiring.scenario.units:
            for end in wiring.connected(unit):
                if wiring.port(end).reactive and end not in ahead:
                    raise MasterError(
                        f"{wiring.label(end)} is reactive: it expects the value at the end of the step, "
                        "which in a MultiRate coupling only inputs from slower units know. Raise the "
                        "unit's rate."
                    )


def _sets(instruction: Instruction, ends: frozenset[End]) -> bool:
    """Whether an instruction would take the trajectory of an input away that runs over the whole step."""
    return isinstance(instruction, Set) and (instruction.unit, instruction.port) in ends
