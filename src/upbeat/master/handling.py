"""How events between units are dealt with: what `events` makes of a pace, a coupling and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability, Model, doubt
from upbeat.core.errors import MasterError, UpbeatError
from upbeat.core.expr import Expr, differentiate, evaluate, names
from upbeat.core.names import resolve, split
from upbeat.core.ports import Kind
from upbeat.master.checks import Events
from upbeat.master.couplings.coupling import Coupling, GaussSeidel, Jacobi, ends_early
from upbeat.master.couplings.interruptible import Interruptible
from upbeat.master.events.conditions import with_own_events
from upbeat.master.events.details import leaps
from upbeat.master.inputs.approximation import Approximation, Hermite, Hold, Linear
from upbeat.master.inputs.derivatives import constant_inputs, known, with_rates
from upbeat.master.paces.lookahead import LookAhead
from upbeat.master.paces.pace import Pace, equal_steps, nominal_step, plain
from upbeat.master.paces.revised import Revised
from upbeat.master.paces.wrapping import Wrapping, error_control, follower, sees_events
from upbeat.master.prediction import cubic, quintic, straight
from upbeat.scenario.events.functions import computes_conditions
from upbeat.scenario.events.watcher import (
    looked_at,
    looks_at_instants,
    observed_events,
    waiting,
    waits,
    watchers,
)
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario, located, with_stops
from upbeat.units.discrete.model import changes_at_instants
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.ode import equations_of
from upbeat.units.process import bare

# ----------------------------------------------------------------------------------------------------
# How fast small deviations grow because inputs are extrapolated: an estimate before the run.
#
# Inputs that continue what they follow by polynomials make a coupling unstable at steps at which held ones
# would not: a strong damper between two units, with a cubic, from half of its time constant on. From the
# equations of all units, made linear at the start values, the matrix of one step is computed in which all
# units advance side by side; its spectral radius is the growth per step. Other units (FMUs, Python) count
# as standing still.

Matrix = npt.NDArray[np.float64]
DEGREE = 5
MAX_UNKNOWNS = 240
"""A larger system is not looked at: the matrices are dense."""
LARGEST = 1e9
"""Nothing is said about systems with larger slopes."""
SWEEPS = 4
"""So often outputs are handed on, to find out what inputs are at the start."""


class Linearised(NamedTuple):
    """x' = own·x + by·u with the inputs u = back·x, all of them at the start; and the names of the inputs."""

    own: Matrix
    by: Matrix
    back: Matrix
    inputs: tuple[str, ...]


def linearised(closed: Scenario) -> Linearised | None:
    """The equations of all units around the start; None where that cannot be said."""
    try:
        return _linearised(closed)
    except (UpbeatError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None  # the run will say what is wrong, if something is


def _linearised(closed: Scenario) -> Linearised | None:
    found: dict[str, Equations] = {}
    for unit, model in closed.units.items():
        equations = getattr(bare(model), "equations", None)
        if isinstance(equations, Equations):
            found[unit] = equations
    links = [c for c in closed.connections if c.unit in found]
    signals = [port for e in found.values() for port in (*e.inputs, *(o.port for o in e.outputs))]
    if any(port.size is not None for port in signals):
        return None
    links = [c for c in links if next(p for p in found[c.unit].inputs if p.name == c.port).kind is Kind.REAL]
    values: dict[str, list[float]] = {}
    places: dict[str, tuple[int, int]] = {}  # of an input: the unit's arguments, and its number
    outputs: list[str] = []
    states = 0
    for unit, e in found.items():
        given = [float(value) for port in e.inputs for value in port.initial]
        values[unit] = [0.0, *e.start, *given, *e.values]
        places |= {f"{unit}.{port.name}": (1 + len(e.start), k) for k, port in enumerate(e.inputs)}
        outputs += [f"{unit}.{o.port.name}" for o in e.outputs]
        states += len(e.start)
    targets = [c.target for c in links]
    if not states or not targets or states + (DEGREE + 1) * len(targets) > MAX_UNKNOWNS:
        return None
    computed = {unit: e.computed.python() for unit, e in found.items()}
    rates = {unit: e.derivatives.python() for unit, e in found.items() if e.derivatives is not None}
    known = {name: 0.0 for c in links for name in names(c.cells[0])}
    known |= {name: float(value) for name, value in _others(closed, found)}
    for _ in range(SWEEPS):
        for unit, e in found.items():
            for output, value in zip(e.outputs, computed[unit](values[unit]), strict=True):
                known[f"{unit}.{output.port.name}"] = value
        for c in links:
            first, k = places[c.target]
            values[c.unit][first + k] = evaluate(c.cells[0], known)
    own, by = np.zeros((states, states)), np.zeros((states, len(targets)))
    out, through = np.zeros((len(outputs), states)), np.zeros((len(outputs), len(targets)))
    row = line = 0
    for unit, e in found.items():
        n, mine = len(e.start), [j for j, c in enumerate(links) if c.unit == unit]
        cells = [*range(1, 1 + n), *(sum(places[targets[j]]) for j in mine)]
        for function, to, size, at in (
            (rates.get(unit), (own, by), n, row), (computed[unit], (out, through), len(e.outputs), line)
        ):  # fmt: skip
            if function is not None and size:
                slopes = _slopes(function, values[unit], cells)
                to[0][at : at + size, row : row + n] = slopes[:, :n]
                to[1][at : at + size, mine] = slopes[:, n:]
        row, line = row + n, line + len(e.outputs)
    mixes = np.zeros((len(targets), len(outputs)))
    place = {name: k for k, name in enumerate(outputs)}
    for j, c in enumerate(links):
        for name in names(c.cells[0]) & place.keys():
            mixes[j, place[name]] = evaluate(differentiate(c.cells[0], name), known)
    back: Matrix = np.asarray(np.linalg.solve(np.eye(len(targets)) - mixes @ through, mixes @ out), float)
    used = [j for j in range(len(targets)) if by[:, j].any()]  # what functions do is seen at instants only
    made = Linearised(own, by[:, used], back[used], tuple(targets[j] for j in used))
    return made if all((np.abs(part) < LARGEST).all() for part in made[:3]) else None


def _others(closed: Scenario, found: Mapping[str, Equations]) -> list[tuple[str, Any]]:
    """What everybody else gives out, and scenario inputs: at the start."""
    ports = [
        (f"{unit}.{port.name}", port)
        for unit, model in closed.units.items()
        if unit not in found
        for port in model.ports
    ]
    ports += [(name, port) for name, (_, port) in closed.free_inputs.items()]
    return [
        (name, port.initial[0])
        for name, port in ports
        if port.initial and isinstance(port.initial[0], (int, float))
    ]


def _slopes(
    function: Callable[[Sequence[float]], list[float]], at: list[float], cells: Sequence[int]
) -> Matrix:
    """By central differences."""
    columns = []
    for cell in cells:
        step = 1e-5 * max(abs(at[cell]), 1e-2)
        ends = []
        for sign in (1.0, -1.0):
            moved = list(at)
            moved[cell] += sign * step
            ends.append(np.array(function(moved), float))
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.array(columns).T.reshape(-1, len(cells))


def growth(system: Linearised, step: float) -> Callable[[Mapping[str, Approximation]], float]:
    """A function that gives the spectral radius of a step with some approximations; other inputs are held."""
    map_of = _map_of(system, step)

    def radius(ways: Mapping[str, Approximation]) -> float:
        map_ = map_of(ways)
        return float(np.abs(np.linalg.eigvals(map_)).max()) if np.isfinite(map_).all() else float("inf")

    return radius


def error_per_step(system: Linearised, step: float, ways: Mapping[str, Approximation]) -> float:
    """By how much a step with these approximations changes lasting motions wrongly, relatively: how far its
    eigenvalues are from the exact ones. What dies out within a few steps does not count."""
    map_ = _map_of(system, step)(ways)
    with np.errstate(over="ignore"):
        exact = np.exp(np.linalg.eigvals(system.own + system.by @ system.back) * step)
    if not (np.isfinite(map_).all() and np.isfinite(exact).all()):
        return float("inf")
    found = np.linalg.eigvals(map_)
    return max((float(np.abs(found - one).min()) for one in exact if abs(one) > LASTING), default=0.0)


def _map_of(system: Linearised, step: float) -> Callable[[Mapping[str, Approximation]], Matrix]:
    """A function that gives the matrix of a step: from the states now and a step ago to those after it."""
    n, m = len(system.own), len(system.inputs)
    whole = system.own + system.by @ system.back
    known = [system.back, system.back @ whole, system.back @ whole @ whole]
    size = n + (DEGREE + 1) * m
    chain = np.zeros((size, size))
    chain[:n, :n], chain[:n, n : n + m] = system.own, system.by
    for k in range(DEGREE):
        first = n + k * m
        chain[first : first + m, first + m : first + 2 * m] = np.eye(m)
    moved = _exponential(chain * step)[:n]
    parts = [factorial(k) * moved[:, n + k * m : n + (k + 1) * m] for k in range(DEGREE + 1)]

    def map_of(ways: Mapping[str, Approximation]) -> Matrix:
        now, before = np.zeros((DEGREE + 1, m, n)), np.zeros((DEGREE + 1, m, n))
        for j, name in enumerate(system.inputs):
            for order, (new, old) in enumerate(_weights(ways.get(name), step)):
                for k in range(DEGREE + 1):
                    now[k, j] += new[k] * known[order][j]
                    before[k, j] += old[k] * known[order][j]
        map_ = np.zeros((2 * n, 2 * n))
        map_[:n, :n], map_[n:, :n] = moved[:, :n], np.eye(n)
        for k, part in enumerate(parts):
            map_[:n, :n] += part @ now[k]
            map_[:n, n:] += part @ before[k]
        return map_

    return map_of


def exact_growth(system: Linearised, step: float) -> float:
    """What it is without any coupling error."""
    largest = float(np.linalg.eigvals(system.own + system.by @ system.back).real.max()) * step
    return float(np.exp(largest)) if isfinite(largest) and largest < 700 else float("inf")


def _weights(way: Approximation | None, h: float) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """By order of derivative: what its value now, and the one a step ago, give to the coefficients."""
    unit = ((1.0, 0.0), (0.0, 1.0))
    nothing = (0.0, 0.0)
    if way == Linear():
        return [(straight(unit[0], h), straight(unit[1], h))]
    if way == Hermite(1):
        return [
            (cubic(unit[0], nothing, h), cubic(unit[1], nothing, h)),
            (cubic(nothing, unit[0], h), cubic(nothing, unit[1], h)),
        ]
    if way == Hermite(2):
        return [
            (quintic(unit[0], nothing, nothing, h), quintic(unit[1], nothing, nothing, h)),
            (quintic(nothing, unit[0], nothing, h), quintic(nothing, unit[1], nothing, h)),
            (quintic(nothing, nothing, unit[0], h), quintic(nothing, nothing, unit[1], h)),
        ]
    held = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return [(held, (0.0,) * (DEGREE + 1))]


def _exponential(matrix: Matrix) -> Matrix:
    """exp(matrix), by its series for a small part of it, squared again and again."""
    norm = float(np.abs(matrix).sum(axis=1).max())
    halvings = max(0, int(np.ceil(np.log2(max(norm, 1e-300)))) + 2)
    part = matrix / 2.0**halvings
    term = np.eye(len(matrix))
    total = term.copy()
    for k in range(1, 16):
        term = term @ part / k
        total += term
    for _ in range(halvings):
        total = total @ total
    return total


# ----------------------------------------------------------------------------------------------------
# How events between units are dealt with: what `events` makes of a pace, a coupling and inputs.


class Handling(NamedTuple):
    """The pace, the coupling and what inputs do that deal with the events of a scenario, and why these;
    `warnings` say what could not be chosen well."""

    pace: Pace
    coupling: Coupling
    why: tuple[str, ...]
    ports: Mapping[str, Approximation] = {}
    warnings: tuple[str, ...] = ()
    drift: float = 0.0
    """By what part of its size a step puts the motion off, as far as that can be estimated."""


def handled(
    events: Events,
    pace: Pace,
    coupling: Coupling | None,
    inputs: Approximation | None,
    ports: Mapping[str, Approximation],
    closed: Scenario,
) -> Handling:
    """What `events` makes of a pace, a coupling and inputs, for a closed scenario; None is left open."""
    usual = coupling if coupling is not None else Jacobi()
    if events == "off":
        way = "events are noticed only where units communicate, as was asked"
        if _locating(coupling):
            way = (
                "the pace does not look at events, as was asked; units locate those they can (Interruptible)"
            )
        return Handling(plain(pace), usual, (way,) if looked_at(closed) else ())
    case = _Case(pace, usual, closed, coupling is None)
    if events == "auto":
        return _automatic(case, ports if inputs is None else None)
    if case.watched:
        return _HANDLERS[events](case)
    if not case.stopping:
        return Handling(pace, usual, ("there are no events to look for: steps are as the pace says",))
    if events == "interruptible":
        return _interrupted(case)
    return Handling(
        pace, usual, (f"it is not known when events happen inside {', '.join(case.stopping)} coming",)
    )


def noticed_late(pace: Pace, coupling: Coupling, closed: Scenario) -> str | None:
    """A remark on events that nothing deals with."""
    if not looked_at(closed):
        return None
    if sees_events(pace):
        return sinking(closed)
    if _locating(coupling):
        found = (observed.event for observed in observed_events(closed) if observed.event.turning)
        return sinking(closed, [e.name for e in found if not set(e.turning) <= set(e.conditions)])
    usual = nominal_step(pace)
    size = f" ({usual:g} s)" if usual else ""
    turning = [observed.event.name for observed in observed_events(closed) if observed.event.turning]
    deeper = (
        f"; a body that event '{turning[0]}' stops lies too deep then, and sinks a little in every step "
        "unless the event sets its position, too"
        if turning
        else ""
    )
    return (
        f"events between units are noticed where these communicate, up to a step{size} late{deeper}: "
        'events="auto" (--events auto; in a file events = "auto" under [master]) sees to it'
    )


def beyond_tolerance(pace: Pace, coupling: Coupling, closed: Scenario) -> tuple[str, ...]:
    """A warning where a tolerance promises more than a pace that does not look at events can keep."""
    control = error_control(pace)
    if control is None or sees_events(pace) or _locating(coupling):
        return ()
    if looked_at(closed):
        return (
            f"{type(control).__name__} does not look at events: those between units are noticed up to a step "
            'late, whatever the tolerance. events="auto" (--events auto; in a file events = "auto" under '
            "[master]) goes back to them",
        )
    if getattr(control, "sees_jumps", True) or ends_early(coupling):
        return ()
    followed = {unit for c in closed.connections for unit, _ in c.sources}
    inside = [path_of(closed, unit) for unit in with_own_events(closed, followed)]
    if not inside:
        return ()
    return (
        f"{type(control).__name__} does not go back to what jumps within a step, as it is set: those that "
        f"follow {_few(inside)} get events from inside up to a step late, whatever the tolerance. Take "
        'method="richardson" with correct="repeat", or coupling="negotiated", which ends steps there',
    )


def sinking(closed: Scenario, stops: Sequence[str] | None = None) -> str | None:
    """A remark about events that may go on holding where they have happened: landing on them is no help.

    Unless `stops` says which, those whose own change lets their condition stay as it is.
    """
    found = (
        stops
        if stops is not None
        else [observed.event.name for observed in observed_events(closed) if observed.event.rests]
    )
    if not found:
        return None
    return (
        f"the condition of event '{found[0]}' may still hold where it has happened. It happens again at the "
        "end of each step that goes deeper: a body that lies there sinks a little in every step. Let the "
        "event set the position, too"
    )


def jumping(closed: Scenario) -> tuple[str, ...]:
    """A note on events whose conditions jump: what these do between two communication points is not seen."""
    found = {closed.column(*one.place): one.conditions for one in observed_events(closed)}
    found |= {f"{path_of(closed, one.unit)}: {one.text}": one.conditions for one in waits(closed)}
    events = [name for name, conditions in found.items() if any(_jumps(z, closed) for z in conditions)]
    if not events:
        return ()
    who, has = ("event", "its condition jumps") if len(events) == 1 else ("events", "their conditions jump")
    return (
        f"{who} {_few(events)}: {has} instead of coming nearer, and what holds for less than a step, between "
        "two communication points, may be missed. Write inequalities of continuous quantities, or take a "
        "shorter step",
    )


def _jumps(z: Expr, closed: Scenario) -> bool:
    """Whether a condition may jump during a step: by itself, or by an output that it looks at. What
    discrete-event units give out changes at instants only."""
    moving = False
    for name in names(z) - {TIME}:
        unit, rest = split(name)
        model = (
            closed.units.get(unit) if rest else None
        )  # None: a variable of the discrete-event unit that waits
        if model is None or (changes_at_instants(bare(model)) and not computes_conditions(model)):
            continue
        moving = True
        ports = {port.name: port for port in model.ports}
        port = ports[resolve(rest, ports)[0]]
        if port.kind is not Kind.REAL or computes_conditions(model):
            return True
        equations = getattr(bare(model), "equations", None)
        if isinstance(equations, Equations):
            for output in equations.outputs:
                if output.port.name == port.name:
                    cells = map(equations.written_out, output.definition.cells)
                    if any(leaps(cell) for cell in cells):
                        return True
    return (moving or TIME in names(z)) and leaps(z)


class _Case(NamedTuple):
    pace: Pace
    coupling: Coupling
    closed: Scenario
    open: bool  # whether the coupling was left open

    @property
    def units(self) -> dict[str, Model]:
        """The units of the scenario, by what people call them."""
        closed = self.closed
        return {path_of(closed, u): m for u, m in closed.units.items() if u not in closed.added_units}

    @property
    def watched(self) -> list[str]:
        """Those that have a part in events: between units, and inside where the pace sees these coming."""
        seen = {*looked_at(self.closed), *waiting(self.closed)}
        seen |= {*(with_own_events(self.closed) if _looking(self.pace) else ())}
        return [path_of(self.closed, unit) for unit in self.closed.units if unit in seen]

    @property
    def stopping(self) -> list[str]:
        """Those that stop at events inside, which are not known outside: FMUs that return early, nests."""
        return [
            unit
            for unit, model in self.units.items()
            if Ability.EARLY_RETURN in model.abilities and equations_of(bare(model)) is None
            if unit not in self.watched
        ]

    @property
    def free(self) -> bool:
        """Whether the coupling may be one in which units stop: it is already, or it was left open."""
        return self.open or _locating(self.coupling)

    def says(self, what: str, watched: Sequence[str]) -> str:
        return f"events of {', '.join(watched)}: {what}"

    def others(self) -> list[str]:
        """About those that have no part in events."""
        known = {*self.watched, *self.stopping}
        rest = [unit for unit in self.units if unit not in known]
        return [f"{', '.join(rest)}: no condition of an event looks at it"] if rest else []


def _looked_ahead(case: _Case) -> Handling:
    pace = _looking(case.pace)
    if pace is None:
        if isinstance(case.pace, Wrapping):
            raise MasterError(
                f'events="look_ahead" takes the place of a pace, and {type(case.pace).__name__} has a say in '
                'every step: put it inside, pace=LookAhead(0.01) there, or take events="revised".'
            )
        raise MasterError(
            f'events="look_ahead" needs a nominal step size, and {type(case.pace).__name__} has none: give '
            'the step (pace=0.01), or take events="revised".'
        )
    what = "seen coming by LookAhead, as was asked"
    return Handling(pace, case.coupling, (case.says(what, case.watched), *case.others()))


def _revised(case: _Case) -> Handling:
    pace = Revised(case.pace) if _located_by(case.pace) is None else case.pace
    if not looked_at(case.closed) and not waiting(case.closed):
        return Handling(case.pace, case.coupling, ("there are no events between units to go back to",))
    what = "a step that has gone past an event is repeated up to there (Revised), as was asked"
    return Handling(pace, case.coupling, (case.says(what, case.watched), *case.others()))


def _interrupted(case: _Case) -> Handling:
    if not case.free:
        raise MasterError(
            f'events="interruptible" is the coupling Interruptible, and {type(case.coupling).__name__} is '
            "another one: leave out one of the two."
        )
    what = "located by the unit that goes first, to which the others follow (Interruptible), as was asked"
    coupling = case.coupling if _locating(case.coupling) else Interruptible()
    notes = (case.says(what, [*case.watched, *case.stopping]), *case.others())
    return Handling(case.pace, coupling, notes)


def _followed(case: _Case, pace: Pace, said: Sequence[str] = ()) -> Handling:
    """With this pace, and the others following those who stop at events inside, where the coupling can."""
    if not case.stopping:
        return Handling(pace, case.coupling, (*said, *case.others()))
    if not case.free:
        name = type(case.coupling).__name__
        way = f"not waited for: with {name} it goes on by itself to the end of the step"
        return Handling(pace, case.coupling, (*said, case.says(way, case.stopping), *case.others()))
    way = "it stops at them by itself, and the others follow (Interruptible)"
    coupling = case.coupling if _locating(case.coupling) else Interruptible()
    return Handling(pace, coupling, (*said, case.says(way, case.stopping), *case.others()))


def _automatic(case: _Case, ports: Mapping[str, Approximation] | None) -> Handling:
    """See events coming; go back to those that were missed, or else let units locate what they can. Inputs
    follow what is known of their sources, unless they were given (None); `ports` are those given singly."""
    followed = {(source, c.unit) for c in case.closed.connections for source, _ in c.sources}
    others_see = {source for source, unit in followed if source != unit}
    if not (
        looked_at(case.closed) or waiting(case.closed) or any(with_own_events(case.closed, others_see))
    ):  # units see to what happens inside them, unnoticed by others, unless one stops there and says so
        notes = [unit for unit in case.stopping if Ability.NEXT_EVENT in case.units[unit].abilities]
        if any(path_of(case.closed, unit) in notes for unit in others_see):
            return _followed(case, case.pace)
        if case.closed.stage is None or ports is None:
            return Handling(case.pace, case.coupling, ())
        # One structure of several: its inputs are chosen as they are in those that have events.
        chosen = _inputs(case.closed, ports, nominal_step(case.pace))
        coupling = GaussSeidel() if case.open and chosen.why else case.coupling
        return Handling(
            case.pace, coupling, tuple(chosen.why), chosen.ports, tuple(chosen.warnings), chosen.drift
        )
    steady = [unit for unit, model in case.units.items() if getattr(model, "steady", False)]
    if steady:
        names = ", ".join(steady)
        late = f"events are noticed up to a step late, because {names} takes only steps of one length"
        return Handling(case.pace, case.coupling, (late,), warnings=(late,))
    chosen = _Inputs({}, [], []) if ports is None else _inputs(case.closed, ports, nominal_step(case.pace))
    found = _located(case, chosen.why)
    warnings = found.warnings or tuple(chosen.warnings)  # who cannot be set back is the greater trouble
    why = (*found.why, *chosen.why)
    return found._replace(ports=chosen.ports, warnings=warnings, why=why, drift=chosen.drift)


def _located(case: _Case, rates: Sequence[str]) -> Handling:
    """The pace and the coupling of "auto"; with `rates` of inputs an order of units is worth while."""
    pace = _looking(case.pace)
    step = _foreseen(case.pace, pace)
    unable = [unit for unit, model in case.units.items() if not _set_back(model)]
    if case.open and rates:
        case = case._replace(coupling=GaussSeidel())
    if not unable:
        back = "; a step that goes past one is repeated (Revised), because all units can be set back"
        inner = pace if pace is not None else case.pace
        own = _located_by(case.pace)
        whole: Any = Revised(inner) if own is None else own.around(_looking(own.pace) or own.pace)
        return _followed(case, whole, [case.says(step + back, case.watched)])
    cannot = f"because {', '.join(unable)} cannot be set back"
    stopping = _stopping(case.closed)
    able = [unit for unit in case.watched if unit in stopping] if case.free else []
    found: list[str] = []
    if able:
        coupling = case.coupling if _locating(case.coupling) else Interruptible()
        case = case._replace(coupling=coupling, open=False)
        found.append(
            case.says(
                f"{step}, and located by its own solver (Interruptible), at which all stop; "
                f"no step is repeated, {cannot}",
                able,
            )
        )
    rest = [unit for unit in case.watched if unit not in able]
    warnings: tuple[str, ...] = ()
    if rest:
        advice = "compare with a run of half the step"
        equal = equal_steps(case.pace)
        boxes = all(equations_of(bare(case.units[unit])) is None for unit in rest)
        if boxes and equal is not None and not able and _dealt_with_inside(case.closed):
            pace = LookAhead(equal / SHORTER, method="approach")
            step = (
                f"it deals with them inside, and sees others held during a step: steps of at most "
                f"{pace.step:g} s, 1/{SHORTER} of those asked for, end before an event, and a short one goes "
                "over it (LookAhead)"
            )
            advice = f"steps are 1/{SHORTER} of those asked for; {advice}"
        found.append(case.says(f"{step}; no step is repeated, {cannot}", rest))
        warnings = (
            f"events of {', '.join(rest)} are met only as well as they are seen coming, {cannot}: {advice}",
        )
    return _followed(case, pace if pace is not None else case.pace, found)._replace(warnings=warnings)


class _Inputs(NamedTuple):
    """What inputs do that were left open, why, and what is not known."""

    ports: dict[str, Approximation]
    why: list[str]
    warnings: list[str]
    drift: float = 0.0


def _inputs(closed: Scenario, given: Mapping[str, Approximation], step: float) -> _Inputs:
    """With as many derivatives as are known; without any, a straight line between units of equations. What
    discrete-event units give out is constant between events, and so may what a unit gives out of which
    nothing is known. Fewer, or held, where that would make deviations grow at this step."""
    units, looked = closed.units, _leading_to(closed, {*looked_at(closed), *waiting(closed)})
    wanted, once = ({c.target: max_order for c in closed.connections} for max_order in (MAX_DERIVATIVES, 1))
    counts, still = known(with_rates(closed, wanted, alone=True), MAX_DERIVATIVES), constant_inputs(closed)
    # Where several units go into a derivative, a second one gives little, and takes stability at long steps.
    for target, count in known(with_rates(closed, once), 1).items():
        counts[target] = counts.get(target) or count
    ports: dict[str, Approximation] = {}
    blind: list[str] = []
    for c in closed.connections:
        target, model = c.target, units[c.unit]
        inner = bare(model)
        if changes_at_instants(inner) or looks_at_instants(inner):
            continue
        if target not in counts or target in given or target in still:
            continue
        sources = [bare(units[unit]) for unit, _ in c.sources if unit in units]
        if counts[target]:
            ports[target] = Hermite(counts[target])
        elif sources and all(equations_of(source) is not None for source in sources):
            ports[target] = Linear()
        elif sources and c.unit in looked:
            blind.append(f"{path_of(closed, c.unit)}.{c.port}")
    ports, unstable, drift = _calmed(closed, ports, given, step)
    ways: dict[Approximation, list[str]] = {}
    for target, chosen in ports.items():
        unit, port = split(target)
        ways.setdefault(chosen, []).append(f"{path_of(closed, unit)}.{port}")
    why = [f"inputs {', '.join(names)}: {_CHOSEN[chosen]}" for chosen, names in ways.items()]
    warnings = [_blind(blind)] if blind else []
    warnings += unstable
    if (lines := ways.get(Linear())) and not unstable:
        warnings.append(
            f"inputs follow straight lines during a step ({_few(lines)}), because no derivative is known of "
            "what they follow: events may be missed, or late by more than the tolerance. Compare with a run "
            "of half the step"
        )
    return _Inputs(ports, why, warnings, drift)


def calm(closed: Scenario, ports: Mapping[str, Approximation], step: float) -> bool:
    """Whether these inputs are known to make no deviations grow at this step, and hardly any error, by
    equations at the start."""
    if not step or all(way == Hold() for way in ports.values()):
        return True
    system = linearised(closed)
    if system is None or growth(system, step)(ports) > max(1.0, exact_growth(system, step)) * GROWS:
        return False
    return error_per_step(system, step, ports) <= COARSE


class _Calmed(NamedTuple):
    """What inputs do, what to say of that, and the error of a step that was not told of."""

    ports: dict[str, Approximation]
    warnings: tuple[str, ...] = ()
    drift: float = 0.0


def _calmed(
    closed: Scenario, ports: dict[str, Approximation], given: Mapping[str, Approximation], step: float
) -> _Calmed:
    """The same, or with fewer derivatives, straight lines or held, whichever comes first at which deviations
    do not grow beyond what the system itself does; and a warning then. Inputs that were given stay so."""
    system = linearised(closed) if ports and step else None
    if system is None:
        return _Calmed(ports)
    enough, radius = max(1.0, exact_growth(system, step)) * GROWS, growth(system, step)
    tried: list[tuple[float, dict[str, Approximation]]] = []
    for max_order in (MAX_DERIVATIVES, 1, 0, -1):  # derivatives; straight lines; held
        simpler: dict[str, Approximation] = {}
        for target, way in ports.items():
            order = way.derivatives if max_order >= 0 else -1
            held = Linear() if min(order, max_order) == 0 else Hold()
            simpler[target] = Hermite(min(order, max_order)) if min(order, max_order) > 0 else held
        tried.append((radius({**simpler, **given}), simpler))
        if tried[-1][0] <= enough:
            break
    rate, chosen = min(tried, key=lambda one: max(one[0], enough))
    if rate <= enough and chosen == ports:
        error = error_per_step(system, step, {**ports, **given})
        if error <= COARSE or Linear() in ports.values():  # of which there is another warning
            return _Calmed(ports, drift=min(error, COARSE))
        warning = (
            "the step is long for this coupling: inputs that are continued over it put the motion off by "
            f"{error:.2g} of its size with every step (estimated at the start), and every event adds to "
            "that. Events late in the run may be wrong: compare with a run of half the step"
        )
        return _Calmed(ports, (warning,))
    if chosen == ports:
        warning = (
            f"the coupling is unstable at this step, whatever inputs do: deviations grow by {rate:.3g} per "
            "step (estimated at the start). Take a shorter step"
        )
        return _Calmed(ports, (warning,))
    how = "held" if Hold() in chosen.values() else "continued with fewer derivatives than are known"
    names = [f"{path_of(closed, unit)}.{port}" for unit, port in map(split, chosen)]
    grows = "" if rate <= enough else f"; even so they grow by {rate:.3g}"
    warning = (
        f"inputs {_few(names)} are {how} during a step: with all derivatives, deviations would grow by "
        f"{tried[0][0]:.3g} per step, because the coupling is stiff at this step (estimated at the start)"
        f"{grows}. Events may be late, or missed: take a shorter step"
    )
    return _Calmed(chosen, (warning,))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _blind(names: Sequence[str]) -> str:
    return (
        f"inputs are held during a step ({_few(names)}), because it is not known how their sources change: "
        'events come at wrong times for that. Give outputs their derivative, or choose inputs="linear" if '
        "they change steadily"
    )


def _leading_to(closed: Scenario, units: set[str]) -> set[str]:
    """These units, and all whose outputs act on them, also through others."""
    found = set(units)
    while more := {unit for c in closed.connections if c.unit in found for unit, _ in c.sources} - found:
        found |= more
    return found


def _dealt_with_inside(closed: Scenario) -> bool:
    """Whether all events between units are only looked for: nothing is done about them outside of units."""
    looking = watchers(closed.units)
    listened = any(s.source[0] in looking for c in closed.event_connections for s in c.senders)
    return not listened and not waiting(closed) and not any(one.then for one in observed_events(closed))


SHORTER = 4
"""Into so many parts a step is divided where units see others held, and deal with events inside."""
MAX_DERIVATIVES = 2
"""So many derivatives of inputs are made use of."""
COARSE = 2e-4
"""A step that puts lasting motions off by more than this part of their size is told of."""
LASTING = 0.5
"""A motion of which more than this is left after a step."""
GROWS = 1.02
"""Deviations that grow by more than this factor per step, beyond what the system does, are unstable."""
_CHOSEN: dict[Approximation, str] = {
    Hermite(2): "hermite with two derivatives, which are known",
    Hermite(1): "hermite with one derivative, which is known",
    Linear(): "linear, because no derivative is known, or of use at this step",
    Hold(): "held, because the coupling is stiff at this step",
}


_HANDLERS = {
    "look_ahead": _looked_ahead,
    "revised": _revised,
    "interruptible": _interrupted,
}


def _stopping(closed: Scenario) -> set[str]:
    """The units of equations that stop at events, if Interruptible lets them: those that can tell all of a
    condition (a function in Python or a table can hide it), and those that have events inside."""
    stopping = with_stops(closed, lambda _: True)
    found = {unit for ends in located(stopping).values() for unit, _ in ends}
    for unit, model in closed.units.items():
        equations = equations_of(bare(model))
        if equations is not None and any(event.indicator is not None for event in equations.events):
            found.add(unit)
    return {path_of(closed, unit) for unit in found}


def _set_back(model: Model) -> bool:
    """Whether a unit can be set back, put to the test where that is only declared."""
    return Ability.ROLLBACK in model.abilities and doubt(model, Ability.ROLLBACK) is None


def _foreseen(given: Pace, looking: Pace | None) -> str:
    """Whether events are seen coming by the pace that looks ahead in place of the given one, and why not."""
    if isinstance(looking, Wrapping):
        return f"left to the pace inside {type(looking).__name__}"
    if looking is not None:
        return f"seen coming by LookAhead, with steps of {nominal_step(looking):g} s at most"
    own = _located_by(given)
    inner = given if own is None else own.pace
    why = "has a say in every step" if isinstance(inner, Wrapping) else "has no nominal step"
    return f"not looked ahead for, because {type(inner).__name__} {why}"


def _looking(pace: Pace) -> Pace | None:
    """A pace that looks ahead, with the same steps."""
    own = _located_by(pace)
    if own is not None:
        return _looking(own.pace)
    if follower(pace) is not None:
        return pace
    if isinstance(pace, Wrapping):  # nothing may take its place
        return None
    step = nominal_step(pace)
    return LookAhead(step) if step else None


def _locating(coupling: Coupling | None) -> bool:
    """Whether units stop at events by themselves, and the others follow."""
    return bool(getattr(coupling, "locates", False))


def _located_by(pace: Pace) -> Wrapping | None:
    """The pace itself, if it is around another one and goes back to events that this one has missed."""
    return pace if isinstance(pace, Wrapping) and pace.locates else None
