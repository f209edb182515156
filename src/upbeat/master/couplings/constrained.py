"""Algebraic constraints between units: inputs without a source are found so that outputs fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from upbeat.core.errors import MasterError, renamed
from upbeat.core.expr import Cell
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.corrections import Corrections, Unknowns
from upbeat.master.couplings.coupling import GaussSeidel, Jacobi, exchange, sweep
from upbeat.master.dataflow import live
from upbeat.master.program import Block, Blocks, Let, Restore, Save
from upbeat.master.wiring import Wiring


@renamed
@dataclass(frozen=True)
class Constrained:
    """Find inputs so that constraints between outputs hold at the end of every step.

    ``constraints={"force": "left.x - right.x + step/2*(left.v - right.v)"}``: each key names an input that
    nothing drives, usually one of the scenario's own (connections say where it goes: ``"left.F": "force"``,
    ``"right.F": "-force"``); each value is an expression that must become zero. It may read outputs, scenario
    inputs, and `step`, the length of the step. The unknown inputs are held over a step and start
    from what they were in the one before.

    A step of `coupling` is made with these, and once more for every unknown with that one changed by
    `difference` (relative to max(1, |value|)). This gives the sensitivities for a Newton correction, with
    which the step is repeated: until no residual is above `tolerance`, relative to the largest that the terms
    of its constraint have been in the run; not getting there within `max_iterations` corrections ends the
    run. With `corrections` given, that many are made and the result is taken as it is. `sensitivities` are
    for those who know them, at least roughly: expressions for the derivative of each constraint with respect
    to its own unknown. Corrections then need no steps for finite differences. All units need rollback.

    Choose constraints that leave nothing to swing. A force that is held over a step and must close a gap at
    its end, ``"left.x - right.x"`` alone, sends the masses through each other: the difference of their
    velocities changes its sign from step to step, and nothing but the units' own damping calms it.
    Velocities alone never close a gap. The sum above, which is the gap half a step further on, closes it in
    two steps and keeps it closed. From a start where it is open this takes a force that grows as steps
    get shorter: begin with `consistent` start values, or with a step that is not too short. `ErrorControl`
    does not watch the unknowns and what they drive; velocities of units that are no equations (Python
    functions, C) it does not know as such: leave them out by ``ports={"left.v": inf}``.
    """

    constraints: Mapping[str, str]
    coupling: Jacobi | GaussSeidel = field(default_factory=Jacobi)
    tolerance: float = 1e-10
    max_iterations: int = 20
    corrections: int | None = None
    difference: float = 1e-4
    sensitivities: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _check_table("constraints", self.constraints)
        object.__setattr__(self, "constraints", dict(self.constraints))
        checks.inside(self.coupling, "Constrained", (Jacobi, GaussSeidel))
        for name in ("tolerance", "difference"):
            checks.positive(getattr(self, name), f"the {name} of Constrained")
        checks.count(self.max_iterations, "max_iterations of Constrained")
        if self.corrections is not None:
            checks.count(self.corrections, "corrections of Constrained")
        if self.sensitivities is not None:
            _check_table("sensitivities", self.sensitivities)
            object.__setattr__(self, "sensitivities", dict(self.sensitivities))
            if set(self.sensitivities) != set(self.constraints):
                raise MasterError(
                    "sensitivities are given for all unknowns or for none: there are constraints for "
                    f"{', '.join(self.constraints)}, and sensitivities for {', '.join(self.sensitivities)}"
                )

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The free inputs that it finds; see `upbeat.master.couplings.coupling.unknowns`."""
        return tuple(self.constraints)

    def blocks(self, wiring: Wiring) -> Blocks:
        sequence = self.coupling.sequence(wiring)
        parts = exchange(wiring, self.coupling, sequence)
        unknowns = Unknowns(wiring, tuple(self.constraints))
        problem = Corrections(self, wiring, unknowns)
        once: Block = (*sweep(wiring, sequence), *parts.after)
        # The new inputs hold from the start of the step on, so there values are exchanged once more.
        again = (
            Let(wiring.next, Cell(wiring.now)),
            *parts.again,
            Let(wiring.next, Cell(problem.end)),
            *once,
        )
        slot = wiring.registers.slot()
        corrected = problem.corrected((Restore(slot),), again)
        own = {wiring.now, wiring.next, problem.end}
        kept = live(wiring.registers.layout(), wiring.scenario.units, again)
        save = Save(tuple(wiring.scenario.units), tuple(r for r in kept if r not in own), slot)
        step = (*problem.begin(), save, *once, *problem.judge(first=True), *corrected)
        names = ", ".join(self.constraints)
        how = f"with {self.corrections} corrections"
        if self.corrections is None:
            how = f"until the constraints hold to {self.tolerance:g}"
        note = f"every step is repeated with other values of {names}, {how}"
        notes = tuple(text for text in (sequence.note, parts.note, note) if text)
        return Blocks(parts.start, {"step": step}, parts.again, notes=notes)


def _check_table(what: str, table: object) -> None:
    if (
        not isinstance(table, Mapping)
        or not table
        or not all(isinstance(name, str) and isinstance(text, str) for name, text in table.items())
    ):
        raise MasterError(
            f"the {what} of Constrained are expressions by the names of the unknown inputs, one for each, "
            f'such as {{"force": "left.x - right.x"}}, not {table!r}'
        )
