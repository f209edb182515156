"""`Variants`: several ways to make a step in one program, among which a pace chooses step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import inf
from typing import Any, cast

from upbeat.core.errors import MasterError, ModelError, suggest
from upbeat.core.expr import Cell, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.couplings.coupling import Coupling, Jacobi, unknowns
from upbeat.master.program import Block, Blocks, If, Instruction, Let, Reg, Set, walk
from upbeat.master.registers import TakenError
from upbeat.master.wiring import Wiring
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.ode import Ode, equations_of
from upbeat.units.solving.solvers import Solver, solver_from, solver_spec

USUAL = "step"
"""The block of the coupling that is varied."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A step by another coupling, with other solvers of units, or both."""

    coupling: Coupling | None = None
    solvers: Mapping[str, Solver] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.coupling is not None:
            checks.has(self.coupling, "blocks", "the coupling of a Variant", "up.GaussSeidel()")
        if not isinstance(self.solvers, Mapping):
            raise MasterError(
                f'solvers of a Variant are such as {{"left": up.Euler(10)}}, not {self.solvers!r}'
            )
        try:
            made = {unit: solver_from(given) for unit, given in self.solvers.items()}
        except ModelError as error:
            raise MasterError(str(error)) from None
        object.__setattr__(self, "solvers", made)


@dataclass(frozen=True)
class Variants:
    """Steps of `coupling`, and `others` by their names.

        Variants(Jacobi(), {
            "fine": Variant(solvers={"left": Euler(10), "right": Euler(10)}),
            "strong": Variant(Iterated(Jacobi())),
        })

    "step" is the block of `coupling` with the units as they are. Who chooses is the pace, `Pattern`,
    `Monitored` or your own; those that do not choose take "step". Solvers that change have equal steps
    (euler, midpoint, rk4) and belong to units given by equations. Where a step is made by another coupling
    than the one before, values are exchanged again, and inputs forget what that one has not kept up to date.
    """

    coupling: Coupling = field(default_factory=Jacobi)
    others: Mapping[str, Variant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.has(self.coupling, "blocks", "the coupling of Variants", "up.Jacobi()")
        named = isinstance(self.others, Mapping) and all(
            isinstance(one, Variant) for one in self.others.values()
        )
        if not named:
            raise MasterError(
                f'others of Variants are such as {{"fine": up.Variant(solvers=…)}}, not {self.others!r}'
            )
        for name in self.others:
            if not isinstance(name, str) or not name or name in TAKEN:
                raise MasterError(f"a variant cannot be called {name!r}: that is something else in a program")

    @property
    def all(self) -> dict[str, Variant]:
        """Every way by its name, the usual one first."""
        return {USUAL: Variant(), **self.others}

    # ---------------------------------------------------------------- units

    def arranged(self, closed: Scenario) -> Scenario:
        """The scenario whose units can change their solvers as the variants say."""
        wanted: dict[str, list[Solver]] = {}
        known = [unit for unit in closed.units if unit not in closed.added_units]
        for name, variant in self.others.items():
            for unit, solver in variant.solvers.items():
                if unit not in known:
                    raise MasterError(
                        f"the variant '{name}' gives '{unit}' a solver, which is not a unit. "
                        f"{suggest(unit, known, 'units')}"
                    )
                own = wanted.setdefault(unit, [])
                if solver not in own and solver != getattr(closed.units[unit], "solver", None):
                    own.append(solver)
        changed = {unit: _choosing(closed, unit, solvers) for unit, solvers in wanted.items() if solvers}
        return closed.with_units(changed) if changed else closed

    def _choices(self, wiring: Wiring) -> dict[str, list[Instruction]]:
        """By variant, what tells the units which solver to take."""
        models = wiring.scenario.units
        varied = {unit: model for unit, model in models.items() if getattr(model, "choice", None) is not None}
        mine = {unit for variant in self.others.values() for unit in variant.solvers}
        found: dict[str, list[Instruction]] = {name: [] for name in self.all}
        for unit in (unit for unit in varied if unit in mine):
            model: Any = varied[unit]
            assert model.choice is not None
            solvers = (model.solver, *model.choice.others)
            for name, variant in self.all.items():
                place = solvers.index(variant.solvers.get(unit, model.solver))
                choice = wiring.registers.new(f"{name}′solver of {unit}", Kind.INTEGER, start=(place,))
                found[name].append(Set(unit, model.choice.by, (choice,)))
        return found

    # ---------------------------------------------------------------- blocks

    def blocks(self, wiring: Wiring) -> Blocks:
        couplings = list(dict.fromkeys(_Same(one.coupling or self.coupling) for one in self.all.values()))
        try:
            made = [_plain(one.coupling, wiring) for one in couplings]
        except TakenError as taken:
            raise MasterError(
                "couplings of several rates cannot take turns here: each would keep a history of its own "
                f"({taken}), and the one that stands still would not know what its input did meanwhile. Hold "
                'such inputs (inputs = "hold"), or take couplings with the same rates.'
            ) from None
        choices = self._choices(wiring)
        usual = made[0]
        last = wiring.registers.new("variants′last") if len(made) > 1 else None
        change = [() if last is None else _changed(wiring, made, place, last) for place in range(len(made))]
        steps: dict[str, Block] = {}
        for name, variant in self.all.items():
            place = couplings.index(_Same(variant.coupling or self.coupling))
            steps[name] = (*change[place], *choices[name], *made[place].steps[USUAL])
        # Whatever has changed values from outside: the next step of another coupling exchanges them again.
        again = () if last is None else (Let(last, Number(0.0)),)
        notes = [*usual.notes]
        for name, variant in self.others.items():
            own = made[couplings.index(_Same(variant.coupling))] if variant.coupling is not None else None
            notes.append(f"step block '{name}': {_said(variant, own)}")
        return Blocks(usual.start, steps, (*usual.exchange, *again), notes=tuple(notes))


TAKEN = frozenset({USUAL, "start", "exchange", "instant", "micro", "send"})
"""Names of other blocks."""


@dataclass(frozen=True, slots=True)
class _Same:
    """A coupling that can be looked up; those with mappings in them have no hash of their own."""

    coupling: Coupling

    def __hash__(self) -> int:
        return hash(type(self.coupling))


def _choosing(closed: Scenario, unit: str, solvers: list[Solver]) -> Ode:
    model = cast(Ode, closed.units[unit])
    equations = equations_of(model)
    if equations is None or not equations.states:
        raise MasterError(
            f"the solver of '{unit}' cannot change while it runs: it is of the kind {type(model).__name__}, "
            "and only units given by equations (Ode) take turns with their solvers. What you may do is judge "
            "such policies: up.SwitchedSystem takes the matrices of up.induced."
        )
    if model.choice is not None:
        own = (model.solver, *model.choice.others)
        if all(solver in own for solver in solvers):
            return model  # arranged already
        raise MasterError(
            f"the solver of '{unit}' is chosen by its input '{model.choice.by}': leave out its choice, or "
            "the solvers of the variants"
        )
    try:
        return model.choosing(solvers)[0]
    except ModelError as error:
        raise MasterError(f"the solver of '{unit}' cannot change while it runs: {error}") from None


def _plain(coupling: Coupling, wiring: Wiring) -> Blocks:
    """The blocks of a coupling, if a program can have others next to them."""
    alone = bool(unknowns(coupling)) or hasattr(coupling, "arranged")
    blocks = Blocks((), {}, ()) if alone else coupling.blocks(wiring)
    if set(blocks.steps) != {USUAL} or blocks.stops is not None or blocks.instant or blocks.columns:
        raise MasterError(
            f"{type(coupling).__name__} cannot be one of several variants: it has a hand in what happens "
            "between steps as well, and another coupling would not know of that. Jacobi, GaussSeidel, "
            "Iterated, MultiRate and Refined can."
        )
    return blocks


def _changed(wiring: Wiring, made: list[Blocks], place: int, last: Reg) -> tuple[Instruction, ...]:
    """What a step does first where the step before was made by another coupling.

    It exchanges values, at the start of the step, which is the time of the latest exchange for as long as
    that takes. Histories that not every coupling keeps up to date begin again: what was noted before the
    others took over is of no particular age.
    """
    kept = [{i.to for i in walk(one.steps[USUAL]) if isinstance(i, Let)} for one in made]
    everywhere = set.intersection(*kept)
    restart = [
        Let(time, Number(-inf))
        for history in wiring.histories
        for time in history.times
        if time not in everywhere
    ]
    end = wiring.registers.new(f"variants′end {place}")
    then: tuple[Instruction, ...] = (
        Let(end, Cell(wiring.next)),
        Let(wiring.next, Cell(wiring.now)),
        *restart,
        *made[place].exchange,
        Let(wiring.next, Cell(end)),
    )
    other = apply(Op.NE, Cell(last), Number(float(place)))
    return (If(other, then), Let(last, Number(float(place))))


def _said(variant: Variant, blocks: Blocks | None) -> str:
    """A variant in words."""
    solvers = [f"{unit} by {_solver(solver)}" for unit, solver in variant.solvers.items()]
    coupled = [] if blocks is None else [type(variant.coupling).__name__, *blocks.notes]
    return "; ".join([*coupled, *solvers]) or "as the usual one"


def _solver(solver: Solver) -> str:
    spec = solver_spec(solver)
    if isinstance(spec, str):
        return spec
    options = ", ".join(f"{key} {value:g}" for key, value in spec.items() if key != "kind")
    return f"{spec['kind']} ({options})"
