"""Interruption: one unit goes first and stops at the events it finds, and the others follow to it.

No unit is ever set back. After D. Dejaco and M. Benedikt, "A Novel Approach for Handling Discontinuities in
Non-iterative Co-simulation": there for two units, here for any number of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import ClassVar

from upbeat.core.errors import MasterError
from upbeat.core.expr import ONE, ZERO, Cell, Expr, Op, apply
from upbeat.core.ports import Kind
from upbeat.master import checks
from upbeat.master.algebra.loops import LoopSolver, Newton
from upbeat.master.blocks import Blocks
from upbeat.master.couplings.coupling import (
    Jacobi,
    Outputs,
    Sequence,
    check_loops,
    check_outputs,
    exchange,
    refuse_reactive,
)
from upbeat.master.couplings.following import sweep
from upbeat.master.couplings.leaders import Leader, able_to, believed, deciding, hidden, leaders_of
from upbeat.master.couplings.leading import choice, chosen
from upbeat.master.events.conditions import Watch, followed, jumps
from upbeat.master.inputs.approximation import Hold
from upbeat.master.layout import Recordable, Reg
from upbeat.master.program import If, Instruction, Let
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import unit_order
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.stops import with_stops
from upbeat.units.equations.ode import Ode
from upbeat.units.process import bare

PART = 1e-3
"""The part of a step that the one after an event is, if nothing else is known."""
NEAR = 0.1
"""What is a much shorter step than others."""
COLUMN = "leader"
"""What a trace calls the signal that says who went first in the step that ends there."""
NOBODY = "(nobody)"


@dataclass(frozen=True, slots=True)
class Interruptible:
    """The unit that finds the next event goes first and stops there; all others follow to it.

    Whoever goes first has extrapolated inputs. Those that follow know what it has reached, and what those
    before them have, as in a `GaussSeidel` coupling. Events of the scenario that a unit has a part in are
    located by its own solver (it must be an `Ode`), and happen at that time in all units at once. A unit with
    events of its own stops at these, too; so do FMUs that return early. What nobody saw happens when
    units communicate, and late.

    `leader` says who may go first: "auto", all that can; a unit; or a list of them. At the start of each step
    events are expected from the rates of their conditions, for `forecast` steps to come. The unit goes first
    that can locate the first of them: the one of the step before, if it can. Where none is expected, all
    units go side by side on extrapolated inputs, unless `parallel` is off, one unit was told to go first,
    or an event has just happened. But nobody can expect the events inside a unit that is no `Ode`: the first
    such unit goes first then.

    After an event inputs need two points for a straight line, so that the first step after it is as short as
    `interruption`. It is 0 (that step is as long as any) where inputs know their derivatives or are held;
    otherwise, if it is not given, it comes from the solvers of the units. `outputs` and `loops` are those of
    `Jacobi`.
    """

    leader: str | tuple[str, ...] = "auto"
    parallel: bool = True
    forecast: float = 2.0
    interruption: float | None = None
    outputs: Outputs = "solved"
    loops: LoopSolver = field(default_factory=Newton)

    derivatives: ClassVar[int] = 2
    """Of conditions."""
    symbolic: ClassVar[bool] = True
    """They may come from the equations of units."""
    inside: ClassVar[bool] = True
    """It follows the conditions of events inside units, too."""

    def __post_init__(self) -> None:
        given = (self.leader,) if isinstance(self.leader, str) else self.leader
        if not isinstance(given, (list, tuple)) or not given or not all(isinstance(u, str) for u in given):
            raise MasterError(
                f'leader of Interruptible must be "auto", a unit, or a list of units, not {self.leader!r}'
            )
        if not isinstance(self.leader, str):
            object.__setattr__(self, "leader", tuple(given))
        checks.flag(self.parallel, "parallel of Interruptible")
        if checks.positive(self.forecast, "forecast of Interruptible") < 1.0:
            raise MasterError(f"forecast of Interruptible must be at least 1, not {self.forecast!r}")
        if self.interruption is not None:
            checks.natural(self.interruption, "interruption of Interruptible")
        check_outputs(self.outputs)
        check_loops(self.loops, "Interruptible")

    def arranged(self, closed: Scenario) -> Scenario:
        """The scenario in which the units that may go first stop at the events they have a part in."""
        return with_stops(closed, lambda unit: self._allowed is None or unit in self._allowed)

    @property
    def _allowed(self) -> tuple[str, ...] | None:
        if self.leader == "auto":
            return None
        return (self.leader,) if isinstance(self.leader, str) else self.leader

    @property
    def _beside(self) -> bool:
        """Whether units go side by side at times: not where one has been told to go first."""
        return self.parallel and (self._allowed is None or len(self._allowed) > 1)

    # ---------------------------------------------------------------- the program

    def blocks(self, wiring: Wiring) -> Blocks:
        leaders = leaders_of(wiring, self._allowed)
        refuse_reactive(wiring, "an Interruptible")
        order = unit_order(wiring.scenario)
        parts = exchange(wiring, Jacobi(self.outputs, self.loops), Sequence(order, frozenset()))
        wanted = wiring.registers.new("interruptible′wanted")
        begins = Let(wanted, Cell(wiring.next))
        plain = Blocks(parts.start, {"step": (begins,)}, parts.again)
        made = followed(plain, wiring, self.derivatives)
        blocks, watch = made[:2] if made is not None else (plain, Watch())
        able = [able_to(name, wiring, leaders) for name in watch.names]
        deciders = [deciding(name, wiring, leaders, k) for name, k in zip(watch.names, able, strict=True)]
        picked = choice(wiring)
        jumped, begin, end, after = jumps(wiring, wiring.outputs)
        blocks = replace(
            blocks,
            start=(*blocks.start, *begin, *end),
            steps={"step": (*begin, *blocks.steps["step"], *end)},
            exchange=(*blocks.exchange, after),
        )
        quiet, wait, why = self._quiet(wiring, jumped)
        own = next((k for k, leader in enumerate(leaders, 1) if leader.own and not leader.expected), None)
        beside = self._beside and own is None
        step = [*wait, *believed(wiring, watch, jumped, always=self.outputs == "lagged")]
        step += chosen(
            wiring, picked, watch, able, deciders, self.forecast, otherwise=own, beside=beside, jumped=jumped
        )
        stops = wiring.registers.new("interruptible′stops")
        step.append(Let(wanted, Cell(wiring.next)))
        step += sweep(wiring, order, leaders, picked.first, quiet)
        sooner = apply(Op.LT, Cell(wiring.next), Cell(wanted))
        step.append(Let(stops, apply(Op.WHERE, sooner, Cell(picked.first), ZERO)))
        if quiet is None:
            fresh = wiring.registers.new("interruptible′fresh", Kind.BOOLEAN)
            step = [Let(fresh, Cell(jumped)), *step, *_anew(wiring, fresh)]
        around = blocks.steps["step"]
        place = around.index(begins) + 1
        called = tuple(wiring.called(leader.unit) for leader in leaders)
        return replace(
            blocks,
            steps={"step": (*around[:place], *step, *parts.after, *around[place:])},
            notes=(*self._told(wiring, leaders, watch, able, own), why, parts.note),
            columns={COLUMN: Recordable(picked.first, items=(NOBODY, *called))},
            stops=Recordable(stops, items=called),
        )

    def _quiet(self, wiring: Wiring, jumped: Reg) -> tuple[Reg | None, list[Instruction], str]:
        """A register that says whether this is the short step after an event, how it is made one, and why."""
        length, why = self._interruption(wiring)
        if length == 0.0:
            return None, [], f"the step after an event is as long as any: {why}"
        quiet = wiring.registers.new("interruptible′quiet", Kind.BOOLEAN)
        now, until = Cell(wiring.now), Cell(wiring.next)
        end: Expr = now + (length if length is not None else PART * (until - now))
        room = apply(Op.GT, until - now, 2.0 * length) if length is not None else ONE
        instructions: list[Instruction] = [
            Let(quiet, apply(Op.AND, Cell(jumped), room)),
            Let(wiring.next, apply(Op.WHERE, Cell(quiet), end, until)),
        ]
        how = f"{length:g} long" if length is not None else f"{PART:g} of a step long"
        return quiet, instructions, f"the step after an event is {how}: {why}"

    def _interruption(self, wiring: Wiring) -> tuple[float | None, str]:
        """How long the step after an event is (None: a part of what was asked), and why."""
        if self.interruption is not None:
            return float(self.interruption), "as it was given"
        ends = [end for unit in wiring.scenario.units for end in wiring.connected(unit)]
        lines = [wiring.approximation(end) for end in ends]
        if all(line.derivatives > 0 or isinstance(line, Hold) for line in lines):
            return 0.0, "inputs know their derivatives, or are held"
        found: list[tuple[float, str]] = []
        for unit, model in wiring.scenario.units.items():
            solver = getattr(bare(model), "solver", None) if type(bare(model)) is Ode else None
            step, tolerance = getattr(solver, "step", None), getattr(solver, "rtol", None)
            if step is not None:
                found.append(
                    (step, f"inputs need two points, and {wiring.called(unit)} takes steps of {step:g}")
                )
            elif tolerance is not None:
                about = f"{wiring.called(unit)} is accurate to {tolerance:g}"
                found.append((sqrt(tolerance), f"inputs need two points, and {about}"))
        return max(found) if found else (None, "inputs need two points")

    def _told(
        self, wiring: Wiring, leaders: list[Leader], watch: Watch, able: list[list[int]], own: int | None
    ) -> list[str]:
        """Who may go first, and why."""
        found = []
        for k, leader in enumerate(leaders, 1):
            located = [f"'{name}'" for name, units in zip(watch.names, able, strict=True) if k in units]
            what = ["events of its own"] if leader.own and not leader.expected else []
            what += [f"the event{'s' if len(located) > 1 else ''} {', '.join(located)}"] if located else []
            found.append(f"{wiring.called(leader.unit)} may go first: it locates {' and '.join(what)}")
        for name, units in zip(watch.names, able, strict=True):
            if not units:
                found.append(
                    f"nobody who may go first locates '{name}': it is noticed when units communicate"
                )
        found += hidden(wiring, leaders)
        if own is not None:
            found.append(
                f"where no event is expected {wiring.called(leaders[own - 1].unit)} goes first, because "
                "nobody expects its own events"
            )
        elif self._beside:
            found.append("where no event is expected all units go side by side")
        return found


def _anew(wiring: Wiring, fresh: Reg) -> list[Instruction]:
    """After an event and a step that was much shorter than others, the courses of inputs begin once more.

    Polynomials through two points say nothing about a time that is far away, compared to their distance.
    """
    usual = wiring.registers.new("interruptible′usual")
    length = Cell(wiring.next) - Cell(wiring.now)
    tiny = apply(Op.AND, Cell(fresh), apply(Op.LT, length, NEAR * Cell(usual)))
    restarts = tuple(let for history in wiring.histories for let in history.restart)
    return [If(tiny, restarts), Let(usual, apply(Op.MAX, length, 0.5 * Cell(usual)))]
