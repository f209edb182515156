"""A unit given by equations as flat tables: all that the native engine needs to run it without Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from upbeat.core.errors import ModelError
from upbeat.core.expr import Kernel
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.equations.data import Equations
from upbeat.units.equations.events import Reactions, reactions
from upbeat.units.solving.solvers import Choice, Cvode, DormandPrince, Solver
from upbeat.units.solving.unit import state_size

FIXED = 0
ADAPTIVE = 1
BY_TIME = -1
"""What stands for the number of an input in the slope of an output by the time."""


@dataclass(frozen=True, slots=True)
class PortTable:
    """One port: its name and kind, its first cell among those of its causality, and how many it has.

    `port` is its position among all ports of the model. `start` is empty for outputs. `direct`: a change
    of this input shows in an output at once; this output depends on an input at the same instant.
    """

    name: str
    port: int
    kind: Kind
    first: int
    cells: int
    start: tuple[float, ...]
    direct: bool


@dataclass(frozen=True, slots=True)
class SolverTable:
    """A solver in numbers.

    * `code`: FIXED (0) or ADAPTIVE (1).
    * `stages`, `c`, `a` (row by row, stages × stages, zeros included), `b`: the tableau.
    * `e`, `d`: its error and dense-output weights; empty if it has none.
    * `steps`, `step`: of fixed solvers; `step` is 0.0 if not given, and then `steps` counts.
    * `rtol`, `atol`, `first`, `longest`, `max_steps`: of adaptive ones; 0.0 stands for "not given".
    """

    code: int
    stages: int
    c: tuple[float, ...]
    a: tuple[float, ...]
    b: tuple[float, ...]
    e: tuple[float, ...]
    d: tuple[float, ...]
    steps: int = 1
    step: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    first: float = 0.0
    longest: float = 0.0
    max_steps: int = 0


@dataclass(frozen=True, slots=True)
class OdeTables:
    """A whole unit.

    * `states`: the names of the state cells; `start`: their start values.
    * `inputs`, `outputs`: the ports, with their cells.
    * `parameters`: the value of every parameter cell, then of every variable; `tunable`: the ports of the
      parameters, which can be set as inputs are.
    * `derivatives`: the kernel [time, states, inputs, parameters] → derivative of every state cell;
      None if there is no state, and then `advance` only moves the time.
    * `compute`: the kernel with the same arguments → value of every output cell, as doubles.
    * `slopes`: for each pair that was asked for, the positions of an output and of an input among all ports
      (`BY_TIME`: the time), and the kernel with the same arguments → derivatives of the output's cells by the
      input's, row by row.
    * `heard`, `sent`: the ports of events, and `reactions` what they do; None if there are no events.
    * `solver`: how `advance` integrates; `others` may take its place, and the input at the place `chooser`
      says which (-1: there are none).
    * `state_size`: the length of the state array [time, states, step to try next (adaptive only, 0.0 at
      first), then for each input: origin, number of coefficients, (MAX_DEGREE + 1) × cells coefficients;
      then what `HybridUnit.save` adds, if there are events].
    """

    states: tuple[str, ...]
    start: tuple[float, ...]
    inputs: tuple[PortTable, ...]
    outputs: tuple[PortTable, ...]
    parameters: tuple[float, ...]
    derivatives: Kernel | None
    compute: Kernel
    slopes: tuple[tuple[int, int, Kernel], ...]
    solver: SolverTable
    state_size: int
    heard: tuple[PortTable, ...] = ()
    sent: tuple[PortTable, ...] = ()
    reactions: Reactions | None = None
    others: tuple[SolverTable, ...] = ()
    chooser: int = -1
    tunable: tuple[PortTable, ...] = ()


@cache
def lower_solver(solver: Solver) -> SolverTable:
    """The numbers of a solver."""
    if isinstance(solver, Cvode):
        raise ModelError("a unit solved by CVODE runs in Python only")
    t = solver.tableau
    a = tuple(w for row in t.a for w in (*row, *(0.0,) * (t.stages - len(row))))
    if isinstance(solver, DormandPrince):
        return SolverTable(
            ADAPTIVE, t.stages, t.c, a, t.b, t.e, t.d,
            rtol=solver.rtol, atol=solver.atol, first=solver.first or 0.0, longest=solver.longest or 0.0,
            max_steps=solver.max_steps,
        )  # fmt: skip
    return SolverTable(FIXED, t.stages, t.c, a, t.b, t.e, t.d, steps=solver.steps, step=solver.step or 0.0)


def lower(
    equations: Equations,
    solver: Solver,
    slopes: Sequence[tuple[str, str]] = (),
    choice: Choice | None = None,
) -> OdeTables:
    """The tables of a unit."""
    number = {port.name: i for i, port in enumerate(equations.ports)}
    outputs = tuple(output.port for output in equations.outputs)
    direct = frozenset(name for port in outputs for name in port.depends)
    plan = reactions(equations) if equations.events else None
    first_output = len(equations.inputs) + len(equations.heard)
    return OdeTables(
        states=equations.arguments[1 : 1 + len(equations.start)],
        start=equations.start,
        inputs=_port_tables(equations.inputs, 0, direct),
        outputs=_port_tables(outputs, first_output, frozenset(p.name for p in outputs if p.depends)),
        parameters=equations.values,
        derivatives=equations.derivatives,
        compute=equations.computed,
        slopes=tuple((number[y], number.get(u, BY_TIME), equations.slope(y, u)) for y, u in slopes),
        solver=lower_solver(solver),
        state_size=state_size(len(equations.start), solver, equations.inputs) + (plan.extra if plan else 0),
        heard=_port_tables(equations.heard, len(equations.inputs), frozenset()),
        sent=_port_tables(equations.sent, first_output + len(outputs), frozenset()),
        reactions=plan,
        others=() if choice is None else tuple(map(lower_solver, choice.others)),
        chooser=-1 if choice is None else [port.name for port in equations.inputs].index(choice.by),
        tunable=_port_tables(
            equations.parameters, len(equations.ports) - len(equations.parameters), frozenset()
        ),
    )


def _port_tables(ports: tuple[Port, ...], offset: int, direct: frozenset[str]) -> tuple[PortTable, ...]:
    tables = []
    first = 0
    for i, port in enumerate(ports):
        start = tuple(float(v) for v in port.initial) if port.causality is Causality.INPUT else ()
        tables.append(
            PortTable(port.name, offset + i, port.kind, first, port.cells, start, port.name in direct)
        )
        first += port.cells
    return tuple(tables)
