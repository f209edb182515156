"""What paces watch: conditions of events, how close they are, and how many events are allowed."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import inf
from typing import NamedTuple, Protocol

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import Cell, Expr, Op, apply
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master.loops import worst_of
from upbeat.master.port_registers import End
from upbeat.master.program import Reg
from upbeat.master.registers import minimum
from upbeat.master.wiring import Wiring
from upbeat.units.discrete.model import changes_at_instants
from upbeat.units.equations.data import Equations
from upbeat.units.process import bare
from upbeat.units.solving.solvers import RK4, Cvode, DormandPrince, Euler, Midpoint, solver_of

# ----------------------------------------------------------------------------------------------------
# Events that come one right after the other: what is taken for a chain without end.
#
# A step that ends at an event which depends on states (expected by the pace, gone back to, or found by a
# unit) is paid from a budget, and time that passes refills it. So a burst is fine, and so are ten such
# events a step for as long as the run lasts; what goes on and on without getting anywhere is ended by the
# loop, whatever the pace, the coupling and the distance between two events. Events whose times are known
# beforehand cost nothing: there may be any number of them.

BURST = 2_000.0
"""So many events may come one right after the other, and so many there may be at any time at most."""
PER_STEP = 10.0
"""So many more for each usual step that passes."""
PER_RUN = 100_000.0
"""So many in a run that are spread evenly over it are fine, however long the steps."""
FEW = 3
"""So many in a row are an endless chain, if the next one would come too soon to be seen."""
TINY = 1e-3
"""The part of what is close enough to an event below which nothing is told apart."""


def right_after(close: Expr, step: float) -> Expr:
    """An event that comes no later than this after another one may be part of an endless chain.

    A ball that is landed on late by `close` each time, and keeps the part e of its speed, ends up with
    leaps of close·(1 + e)/(1 - e).
    """
    return minimum(100.0 * close, 0.01 * step)


def allowance(step: float, span: float = inf) -> float:
    """How many events a second may go on and on: in steps of this usual size (0: there is none), in a run of
    this length (infinity: not known)."""
    return max(PER_STEP / step if step else 0.0, PER_RUN / span)


def left(budget: float, rate: float, t: float, reached: float, limit: float, event: bool) -> float:
    """What is left of a budget after the step from `t` to `reached`, which has ended at an event or not.

    The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
    """
    passed = reached - t
    earned = passed * rate if rate > 0.0 else PER_STEP * (passed / (limit - t))
    budget = min(budget + earned, BURST)
    return budget - 1.0 if event else budget


# ----------------------------------------------------------------------------------------------------
# How close to an event is close enough, where it is not given: as close as the units' solvers can tell.

RELATIVE_MARGIN = 1e-5
"""Of a step: closer is of no use, for inputs are not known as well as that between communication points."""
MAX_RTOL = 1e-2
"""Of a step: no solver is as bad as that, whatever tolerance it was given."""
_OWN: dict[type, float] = {Euler: 1e-3, Midpoint: 1e-4, RK4: 1e-5}
"""Of a step of a solver that takes all of them alike: about what an order of convergence more is worth."""


GRAINS = 4.0
"""So many times what numbers of the size of the time can tell apart: late in a run, nothing is closer."""


class Margin(NamedTuple):
    """How close, in seconds, and why."""

    length: float
    why: str


def margin(units: Mapping[str, Model], step: float, called: Callable[[str], str] = str) -> Margin:
    """What is close enough to an event in steps of this size; `called` says what people call a unit."""
    found = Margin(
        RELATIVE_MARGIN * step,
        f"{RELATIVE_MARGIN:g} of a step, and no unit's solver is known to be less exact",
    )
    for unit, model in units.items():
        inner = bare(model)
        solver = solver_of(inner)
        length, why = 0.0, ""
        if isinstance(solver, (DormandPrince, Cvode)):
            length = min(solver.rtol, MAX_RTOL) * step
            why = (
                f"the solver of {called(unit)} is exact to {solver.rtol:g} only, so it is that part of a step"
            )
        elif isinstance(solver, (Euler, Midpoint, RK4)):
            own = step / solver.count(step)
            length = _OWN[type(solver)] * own
            why = f"{called(unit)} takes steps of {own:.3g} s by {solver.method}, and knows no better"
        if length > found.length:
            found = Margin(length, why)
    return found


# ----------------------------------------------------------------------------------------------------
# What an error control asks of a scenario: ports to watch, units that go back, solvers that are accurate.


@dataclass(frozen=True, slots=True)
class Watched:
    """A real port whose error counts, by the name it has in a trace. Scale: tolerance·(nominal + |value|)."""

    end: End
    name: str
    register: Reg
    cells: int
    tolerance: float
    nominal: float

    def error(self, differences: Sequence[Expr]) -> Expr:
        """The largest of the differences, one per cell, over the scale there."""
        parts = [
            apply(Op.ABS, difference)
            / (self.tolerance * (apply(Op.ABS, Cell(self.register + i)) + self.nominal))
            for i, difference in enumerate(differences)
        ]
        return worst_of(parts)


class Control(Protocol):
    """The settings of an `ErrorControl` that matter here."""

    @property
    def tolerance(self) -> float: ...
    @property
    def method(self) -> str: ...
    @property
    def ports(self) -> Mapping[str, float]: ...
    @property
    def nominal(self) -> Mapping[str, float]: ...
    @property
    def retries(self) -> bool: ...


def watched(control: Control, wiring: Wiring, left: Container[Reg]) -> list[Watched]:
    """The ports to watch, those in `left` only if named; two of the same source and scale count once."""
    units = wiring.scenario.units
    ends: dict[End, Reg] = {end: wiring.inputs[end] for unit in units for end in wiring.connected(unit)}
    if control.method == "richardson":
        states = {(unit, name) for unit, names in _states(wiring).items() for name in names}
        shown = [
            end
            for end in wiring.outputs
            if end in states or not (wiring.port(end).extra or wiring.port(end).internal)
        ]
        ends |= {end: wiring.outputs[end] for end in shown}
    column = wiring.scenario.column
    real = {column(*end): end for end in ends if wiring.port(end).kind is Kind.REAL}
    for name in (*control.ports, *control.nominal):
        if name not in real:
            noun = "real ports" if control.method == "richardson" else "connected real inputs"
            raise MasterError(f"ErrorControl cannot watch '{name}'. {suggest(name, real, noun)}")
    found: dict[tuple[Reg, float, float], Watched] = {}
    for name, end in real.items():
        usual = inf if ends[end] in left else control.tolerance
        tolerance, nominal = control.ports.get(name, usual), control.nominal.get(name, 1.0)
        if tolerance < inf:
            port = Watched(end, name, ends[end], wiring.port(end).cells, float(tolerance), float(nominal))
            found.setdefault((port.register, port.tolerance, port.nominal), port)
    if not found:
        raise MasterError("there is no real port whose error ErrorControl could watch")
    return list(found.values())


def _states(wiring: Wiring) -> dict[str, list[str]]:
    """By unit of equations: the outputs, made by the master, that are states not given out otherwise."""
    found: dict[str, list[str]] = {}
    for unit, model in wiring.scenario.units.items():
        equations = getattr(bare(model), "equations", None)
        if isinstance(equations, Equations):
            found[unit] = [
                output.port.name
                for output in equations.outputs
                if output.port.internal and output.port.description.startswith("the state ")
            ]
    return found


def unseen(control: Control, wiring: Wiring) -> list[str]:
    """What is not watched, though it is a part of the result: states that units keep to themselves."""
    if control.method != "richardson":
        return []
    known = {*_states(wiring), *wiring.scenario.added_units}
    silent = [
        wiring.called(unit)
        for unit, model in wiring.scenario.units.items()
        if unit not in known and not changes_at_instants(bare(model))
    ]
    if not silent:
        return []
    return [
        f"of {', '.join(silent)} only outputs are watched: errors of states that are not given out may grow "
        "beyond the tolerance"
    ]


def check_rollback(control: Control, wiring: Wiring) -> None:
    """Raises `MasterError` if the control would repeat steps of a unit that cannot be set back."""
    unable = [name for name, m in wiring.scenario.units.items() if Ability.ROLLBACK not in m.abilities]
    if unable and (control.retries or control.method == "richardson"):
        why = "repeats every step" if control.method == "richardson" else "repeats steps it rejects"
        raise MasterError(
            f"{', '.join(unable)} cannot be set back to an earlier state (rollback), and this error "
            f'control {why}. Use ErrorControl(method="milne", correct="next").'
        )


def rough(control: Control, wiring: Wiring) -> list[str]:
    """A warning where units' own solvers leave errors that no shorter step makes smaller."""
    solvers = {unit: getattr(model, "solver", None) for unit, model in wiring.scenario.units.items()}
    tolerances = {unit: getattr(solver, "rtol", 0.0) for unit, solver in solvers.items()}
    rough = [wiring.called(unit) for unit, rtol in tolerances.items() if rtol > control.tolerance / 100]
    if not rough:
        return []
    return [
        f"the solvers of {', '.join(rough)} are not a hundred times as accurate as the tolerance of "
        f"{control.tolerance:g}: their errors may make steps shorter than need be. Lower their rtol and atol"
    ]
