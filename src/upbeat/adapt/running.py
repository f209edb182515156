"""Adaptations about how a unit runs: its rate, when it is called, where it stops, and what others see of it.

Most are a few lines on `Adaptation`: what goes in and out is passed on through storage (`_Passing`), and the
control says which steps the unit makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from upbeat.adapt.adaptation import (
    SIZES,
    TIMES,
    Adaptation,
    Assign,
    Break,
    Local,
    Loop,
    Return,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
    own_time,
)
from upbeat.adapt.library import INSIDE
from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import Apply, Expr, Kernel, Name, Number, Op, all_of, any_of, apply, fold, names, parse
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.core.records import dataclass
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.ode import Ode, equations_of, over_time, periods
from upbeat.units.wrapped import Replayed, Resampled

MAX_STEPS = 1_000_000
"""Of a unit in one step around it."""


SHORTEST = 1e-12
"""Of periods, in seconds: a shorter one is lost when it is added to times."""


@dataclass
class _Passing:
    """A unit whose inputs and outputs are passed on through storage: ``i0``, ``i1``, … and ``o0``, ``o1``,
    …"""

    model: Model

    def __post_init__(self) -> None:
        self.ports = tuple(
            port
            for port in self.model.ports
            if port.causality is not Causality.PARAMETER and not port.internal and not port.extra
        )
        odd = [port.name for port in self.ports if port.event or port.kind is Kind.STRING]
        if odd:
            raise ModelError(f"{', '.join(odd)}: this is for units whose ports are signals and numbers")
        taken = {port.name for port in self.ports}
        self.renamed: dict[str, str] = {}
        """Ports whose names mean something else in an adaptation, and what they are called there."""
        for port in self.ports:
            if port.name in TIMES | SIZES or _OWN.fullmatch(port.name):
                other = f"{port.name}_"
                while other in taken:
                    other += "_"
                taken.add(other)
                self.renamed[port.name] = other
        self.number()

    def number(self) -> None:
        """Give the cells of ports their places in storage."""
        self.into = self._numbered(Causality.INPUT, "i")
        self.out = self._numbered(Causality.OUTPUT, "o")

    def outer(self, cell: str) -> str:
        """What a cell of a port of the adapted unit is called in expressions."""
        name, bracket, index = cell.partition("[")
        return self.renamed.get(name, name) + bracket + index if name in self.renamed else cell

    def _numbered(self, causality: Causality, letter: str) -> dict[str, str]:
        """Cells of ports, and where they are stored."""
        cells = [c for p in self.ports if p.causality is causality for c in cell_names(p.name, p.size)]
        return {cell: f"{letter}{number}" for number, cell in enumerate(cells)}

    def kind(self, cell: str) -> Kind:
        return next(p.kind for p in self.ports if cell in cell_names(p.name, p.size))

    def start(self, cell: str) -> float:
        for port in self.ports:
            found = cell_names(port.name, port.size)
            if cell in found:
                return float(port.initial[found.index(cell)])
        return 0.0

    def on(self, ports: Iterable[str], causality: Causality) -> list[str]:
        """The cells of these ports, which are real; of all, if none is named."""
        known = {
            p.name: cell_names(p.name, p.size)
            for p in self.ports
            if p.causality is causality and p.kind is Kind.REAL
        }
        what = "real outputs" if causality is Causality.OUTPUT else "real inputs"
        for name in ports:
            if name not in known:
                raise ModelError(f"'{name}' is none of its {what}. {suggest(name, known, what)}")
        return [cell for name in (tuple(ports) or known) for cell in known[name]]

    def stored(self, cells: Iterable[str], prefix: str) -> tuple[Stored, ...]:
        """More storage, one for each of these cells."""
        return tuple(Stored(f"{prefix}{n}", self.start(cell)) for n, cell in enumerate(cells))

    def adaptation(
        self,
        control: tuple[Statement, ...] | None,
        *,
        name: str,
        shown: Callable[[str], str | None] = lambda cell: None,
        given: Callable[[str], Assign | None] = lambda cell: None,
        controls: tuple[Stored, ...] = (),
        init: tuple[Statement, ...] = (),
        out_rules: tuple[Rule, ...] = (),
        **more: Any,
    ) -> Program:
        """The adaptation; `shown` says what else than the unit's value an output shows, `given` what else
        an input inside is given."""
        fresh = [cell for cell in self.out if shown(cell) is None]
        take = tuple(Assign(stored, _name(self.outer(cell))) for cell, stored in self.into.items())
        hand = tuple(
            given(cell) or Assign(f"{INSIDE}.{cell}", _name(stored)) for cell, stored in self.into.items()
        )
        seen = tuple(Assign(self.out[cell], _name(f"{INSIDE}.{cell}")) for cell in fresh)
        show = tuple(Assign(self.outer(cell), parse(shown(cell) or self.out[cell])) for cell in self.out)
        ports = tuple(replace(p, name=self.renamed.get(p.name, p.name), derivative=None) for p in self.ports)
        made = Adaptation(
            {INSIDE: self.model},
            ports,
            in_rules=(Rule(take, hand),) if self.into else (),
            out_rules=(*out_rules, Rule(seen, show)),
            inputs=tuple(Stored(s, self.start(c), self.kind(c)) for c, s in self.into.items()),
            outputs=tuple(Stored(self.out[c], self.start(c), self.kind(c)) for c in fresh),
            controls=controls,
            control=control,
            init=init,
            name=name,
            **more,
        )
        return Program(made, {other: name for name, other in self.renamed.items()})


@dataclass(frozen=True)
class Program:
    """An adaptation, and what its ports are called outside where that is something else."""

    adaptation: Adaptation
    renamed: Mapping[str, str]
    derived: bool = False
    """Whether numbers in it follow from values of the unit, and so are others with other values."""


_OWN = re.compile(r"[iobmalckprsn]\d*|fa|fb|fc|last|size|called|side|made")
"""The names of storage and local variables here."""


def _name(name: str) -> Expr:
    return Name(name)


def _whole(name: str, value: Any, maximum: int = MAX_STEPS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise ModelError(f"{name} must be a whole number from 1 to {maximum:,}, not {value!r}")
    return value


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1e300:
        raise ModelError(f"{name} must be a number above 0, not {value!r}")
    return float(value)


def _substeps(times: int, stopped: tuple[Statement, ...] | None = None) -> tuple[Statement, ...]:
    """The unit makes so many equal steps. If it may stop early, the step ends there: `stopped` is done then,
    with the time since the start of the step in `made`."""
    part = apply(Op.DIV, Name("H"), Number(float(times)))
    start = apply(Op.ADD, Name("t"), apply(Op.MUL, Name("n"), part))
    if stopped is None:
        return (Loop(times, (Step(INSIDE, start, part),), index="n"),)
    early = apply(Op.LT, Name("made"), part * (1.0 - 1e-9))
    end: tuple[Statement, ...] = (Assign("made", f"made + n*H/{times}"), *stopped, Return("made"))
    body = (Step(INSIDE, start, part, "made"), When(early, end))
    return (Local("made", 0.0), Loop(times, body, index="n"))


FINE = 1597
"""Steps for the mean of what depends on time."""
POINTS = 16
"""Solver steps in a period that is known, at least."""
GOLDEN = (5.0**0.5 - 1.0) / 2.0


def _uneven_substeps(count: int) -> tuple[Statement, ...]:
    """The unit makes so many steps of two lengths, a golden ratio and one apart, in the order of a Fibonacci
    word: whatever period a signal has, its phases at these points are spread evenly."""

    def past(n: str) -> str:
        return f"({n}*{GOLDEN!r} - floor({n}*{GOLDEN!r}))"

    total = count + (count * GOLDEN) % 1.0
    start = parse(f"t + (n + {past('n')})*H/{total!r}")
    size = parse(f"(1 + {past('(n + 1)')} - {past('n')})*H/{total!r}")
    return (Loop(count, (Step(INSIDE, start, size),), index="n"),)


def _timed(equations: Equations) -> bool:
    """Whether equations depend on time directly."""
    cells = [cell for output in equations.outputs for cell in output.definition.cells]
    cells += [cell for one in equations.locals for cell in one.cells]
    cells += [cell for state in equations.states for cell in state.derivative.cells]
    return any(TIME in names(cell) for cell in cells)


def _jumps(equations: Equations) -> bool:
    """Whether outputs may jump: one step of a solver sees nothing of a pulse."""

    def inner(node: Any, found: list[bool]) -> bool:
        jumping = isinstance(node, Apply) and node.op in (Op.FLOOR, Op.CEIL, Op.ROUND, Op.MOD, Op.WHERE)
        return jumping or any(found)

    cells = [equations.written_out(cell) for one in equations.outputs for cell in one.definition.cells]
    return any(fold(cell, lambda leaf: False, inner) for cell in cells)


def _jumps_with(equations: Equations, cell: str) -> list[str]:
    """States and inputs with which an output jumps, at times that are not known beforehand."""

    def inner(node: Any, found: list[tuple[frozenset[str], frozenset[str]]]) -> Any:
        every = frozenset().union(*(all_names for all_names, _ in found))
        with_them = frozenset().union(*(jumping for _, jumping in found))
        if isinstance(node, Apply) and node.op is Op.WHERE:
            with_them |= found[0][0]
        elif isinstance(node, Apply) and node.op in (Op.FLOOR, Op.CEIL, Op.ROUND, Op.MOD):
            with_them |= every
        return every, with_them

    def leaf(node: Any) -> Any:
        return frozenset([str(node.id)] if isinstance(node, Name) else []), frozenset()

    _, found = fold(over_time(equations, cell), leaf, inner)
    return sorted(found - {TIME})


def _mean_of_period(equations: Equations, cell: str) -> float | None:
    """The mean of an output that is a periodic function of time alone; None if it is anything else."""
    tree = over_time(equations, cell)
    found = periods(equations, cell)
    if names(tree) != {TIME} or not found:
        return None
    value, period = Kernel((TIME,), (tree,)).python(), found[-1]
    points = [(k + 0.5) * period / FINE for k in range(FINE)]
    here = [float(value((t,))[0]) for t in points]
    later = [float(value((t + 3 * period,))[0]) for t in points[::50]]
    size = max(map(abs, here))
    if not size < 1e300 or any(abs(a - b) > 1e-6 * size for a, b in zip(here[::50], later, strict=True)):
        return None
    return sum(here) / FINE


# ----------------------------------------------------------------------------------------------------
# Rates.


def every(model: Model, seconds: float) -> Model:
    """The unit runs at a rate of its own, whatever the communication step is: it is told its inputs, and
    its outputs change, every so many seconds."""
    period = _positive("seconds", seconds)
    if period < SHORTEST:
        raise ModelError(f"seconds must be {SHORTEST:g} or more, not {seconds!r}")
    own = getattr(model, "sampled", None)
    return Resampled(model, period) if own is None else own(period)


def rate(model: Model, times: int, inputs: str = "linear") -> Program:
    """The unit makes `times` steps in each communication step. Its inputs run from what they were to what
    they are ("linear"), or are held ("hold")."""
    work = _Passing(model)
    count = _whole("times", times)
    if inputs not in ("linear", "hold"):
        raise ModelError(f"there is no way {inputs!r}. {suggest(str(inputs), ('linear', 'hold'), 'ways')}")
    moving = work.on((), Causality.INPUT) if inputs == "linear" else []
    before = {cell: f"b{n}" for n, cell in enumerate(moving)}

    def given(cell: str) -> Assign | None:
        if cell not in before:
            return None
        old, new = before[cell], work.into[cell]
        return Assign(f"{INSIDE}.{cell}", f"{old} + ({new} - {old})*dt/H", (f"({new} - {old})/H",))

    after = tuple(Assign(old, work.into[cell]) for cell, old in before.items())
    first = tuple(Assign(old, _name(work.outer(cell))) for cell, old in before.items())
    reached = tuple(Assign(b, f"{b} + ({work.into[cell]} - {b})*made/H") for cell, b in before.items())
    stopped = reached if Ability.EARLY_RETURN in model.abilities else None
    return work.adaptation(
        (*_substeps(count, stopped), *after), name=f"rate {count}", given=given, init=first,
        controls=work.stored(moving, "b"),
    )  # fmt: skip


def average(
    model: Model, on: tuple[str, ...] = (), steps: int | None = None, start: float | None = None
) -> Program:
    """Outputs show their mean over the last communication step, so that what flows through them in a step
    is right whatever happens within it. Where the unit is given by equations the mean is an integral by its
    solver, in steps of two lengths if they depend on time or jump: no period falls into step with these.
    Of others it is the trapezoidal rule over `steps` equal steps."""
    count = 1 if steps is None else _whole("steps", steps)
    equations = equations_of(model)
    exact = equations is not None
    cells = _Passing(model).on(on, Causality.OUTPUT)
    timed, begin = False, {}
    if equations is not None:
        timed = _timed(equations) or _jumps(equations)
        begin = {cell: _mean_of_period(equations, cell) for cell in cells}
        quickest = min((p for cell in cells for p in periods(equations, cell)), default=None)
        model, areas = cast(Ode, model).integrating(cells, None if quickest is None else quickest / POINTS)
    work = _Passing(model)
    hidden = {name for both in areas.values() for name in both} if exact else set()
    work.ports = tuple(port for port in work.ports if port.name not in hidden)
    work.number()
    means = {cell: f"m{n}" for n, cell in enumerate(cells)}
    sums = {cell: f"a{n}" for n, cell in enumerate(cells)}
    control: list[Statement] = []
    if exact:
        # What is left of the step before is drained in this one, so that nothing piles up.
        control += [Assign(f"{INSIDE}.{drain}", f"{INSIDE}.{area}/H") for area, drain in areas.values()]
        control += _uneven_substeps(max(count, FINE)) if timed else _substeps(count)
        control += [Assign(means[cell], f"{INSIDE}.{areas[cell][0]}/H") for cell in cells]
    else:
        part = apply(Op.DIV, Name("H"), Number(float(count)))
        body: list[Statement] = [Assign(f"l{n}", _name(f"{INSIDE}.{cell}")) for n, cell in enumerate(cells)]
        body += [Step(INSIDE, apply(Op.ADD, Name("t"), apply(Op.MUL, Name("n"), part)), part)]
        body += [
            Assign(
                sums[cell],
                apply(Op.ADD, Name(sums[cell]), apply(Op.ADD, Name(f"l{n}"), Name(f"{INSIDE}.{cell}"))),
            )
            for n, cell in enumerate(cells)
        ]
        control += [Assign(sums[cell], 0.0) for cell in cells]
        control += [Loop(count, tuple(body), index="n")]
        control += [Assign(means[cell], f"{sums[cell]}/{2 * count}") for cell in cells]
    if start is not None and (isinstance(start, bool) or not isinstance(start, (int, float))):
        raise ModelError(f"start must be a number, not {start!r}")
    if start is not None:
        begin = dict.fromkeys(cells, float(start))
    values = {cell: begin.get(cell) for cell in cells}
    first = tuple(
        Assign(means[cell], _name(f"{INSIDE}.{cell}") if (value := values[cell]) is None else value)
        for cell in cells
    )
    sampled = (
        f"the mean of {', '.join(cells)} is sampled: the trapezoidal rule over {count} steps of the unit in "
        "a communication step (steps); what is quicker than these is not seen"
    )
    with_what = sorted({name for cell in cells for name in _jumps_with(equations, cell)} if equations else ())
    jumps = (
        f"{', '.join(cells)} may jump with {', '.join(with_what)}, at times that are not known beforehand: "
        f"the mean is taken in {max(count, FINE)} solver steps in a communication step (steps), and is right "
        f"while there are at most {max(count, FINE) // POINTS} pulses in it"
    )
    remark = sampled if not exact else jumps if with_what else ""
    more = () if exact else (*work.stored(cells, "a"), *work.stored(cells, "l"))
    made = work.adaptation(
        tuple(control), name=f"average of {', '.join(cells)}", shown=means.get, init=first,
        controls=(*work.stored(cells, "m"), *more), remark=remark,
    )  # fmt: skip
    return replace(made, derived=exact)


def fixed_step(model: Model, step: float, order: int = 1) -> Program:
    """A unit that can only make steps of one length, under any communication step: it makes as many as fit,
    and its real outputs go on from the last (order 0: held, 1: along a straight line)."""
    length = _positive("step", step)
    if order not in (0, 1) or isinstance(order, bool):
        raise ModelError(f"order must be 0 or 1, not {order!r}")
    work = _Passing(model)
    moving = work.on((), Causality.OUTPUT) if order else []
    now, prev = ({cell: f"{letter}{n}" for n, cell in enumerate(moving)} for letter in ("c", "p"))
    reached = own_time(INSIDE)
    # Times on the grid are computed from their number; a step that does not fit by rounding alone fits.
    ends = parse(f"r + (k + 1)*{length!r}")
    beyond = apply(Op.GT, ends, parse(f"t + H + {1e-9 * length!r}"))
    kept = tuple(Assign(prev[cell], now[cell]) for cell in moving)
    seen = tuple(Assign(now[cell], _name(f"{INSIDE}.{cell}")) for cell in moving)
    make = (Step(INSIDE, reached, apply(Op.SUB, ends, reached)), Assign("k", "k + 1"))
    body: tuple[Statement, ...] = (When(beyond, (Break(),)), *kept, *make, *seen)
    since = apply(Op.SUB, apply(Op.ADD, Name("t"), Name("H")), reached)
    control = (Loop(MAX_STEPS, body), Assign("s", since))

    def shown(cell: str) -> str | None:
        return f"{now[cell]} + ({now[cell]} - {prev[cell]})*s/{length!r}" if cell in now else None

    first = tuple(Assign(to, _name(f"{INSIDE}.{cell}")) for made in (now, prev) for cell, to in made.items())
    first = (*first, Assign("r", "t"))
    return work.adaptation(
        control, name=f"steps of {length:g}", shown=shown, init=first, mealy=False,
        controls=(*work.stored(moving, "c"), *work.stored(moving, "p"), *map(Stored, ("s", "k", "r"))),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# When it is called.


def lazy(
    model: Model, on: tuple[str, ...] = (), tolerance: float = 0.0, longest: float | None = None
) -> Program:
    """The unit is called only when one of these inputs (all, if none is named) has changed by more than
    `tolerance`, or `longest` seconds have passed; until then it stays where it is, and shows what it
    showed. So one that moves by itself needs `longest`."""
    work = _Passing(model)
    watched = [cell for cell in work.into if not on or cell.partition("[")[0] in on]
    known = [port.name for port in work.ports if port.causality is Causality.INPUT]
    for name in on:
        if name not in known:
            raise ModelError(f"there is no input '{name}'. {suggest(name, known, 'inputs')}")
    if longest is None and (why := _moves(model)):
        raise ModelError(
            f"{why}, and lazy stops it while its inputs stand still: say how long it may wait, with "
            "longest = …, or leave lazy to units that only answer to their inputs"
        )
    if not watched and longest is None:
        raise ModelError("it has no inputs to wait for: say how long it may wait, with longest = …")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not tolerance >= 0.0:
        raise ModelError(f"tolerance must be 0 or more, not {tolerance!r}")
    taken = {cell: f"s{n}" for n, cell in enumerate(work.into)}
    moved = [
        apply(
            Op.GT,
            apply(Op.ABS, apply(Op.SUB, Name(work.into[cell]), Name(taken[cell]))),
            Number(float(tolerance)),
        )
        for cell in watched
    ]
    reached = own_time(INSIDE)
    if longest is not None:
        waited = apply(Op.SUB, apply(Op.ADD, Name("t"), Name("H")), reached)
        moved.append(apply(Op.GE, waited, Number(_positive("longest", longest) * (1.0 - 1e-9))))
    again = any_of([*moved, apply(Op.LT, Name("called"), Number(0.5))])
    catch_up = Step(INSIDE, reached, apply(Op.MAX, apply(Op.SUB, Name("t"), reached), Number(0.0)))
    told = tuple(Assign(taken[cell], _name(stored)) for cell, stored in work.into.items())
    call: tuple[Statement, ...] = (Step(INSIDE),)
    if Ability.EARLY_RETURN in model.abilities:  # at an event of its own, where the step ends for all
        call = (Local("made", 0.0), Step(INSIDE, to="made"), Return("made"))
    control = (When(again, (catch_up, *told, Assign("called", 1.0), *call)),)

    def given(cell: str) -> Assign:
        return Assign(f"{INSIDE}.{cell}", _name(taken[cell]))

    storage = tuple(Stored(taken[c], work.start(c), work.kind(c)) for c in work.into)
    first = tuple(Assign(taken[cell], _name(work.outer(cell))) for cell in work.into)
    return work.adaptation(
        control, name="lazy", given=given, controls=(*storage, Stored("called")), init=first, mealy=False
    )


def _moves(model: Model) -> str:
    """Why a unit changes while its inputs stand still, if its equations say so."""
    inside = getattr(model, "adapts", None)
    if inside is not None:
        return _moves(inside[0])
    nested = getattr(model, "scenario", None)
    if isinstance(nested, Scenario):
        return next((why for inner in nested.units.values() if (why := _moves(inner))), "")
    equations = getattr(model, "equations", None)
    if not isinstance(equations, Equations):
        return ""
    if equations.states:
        return f"it has states ({', '.join(state.port.name for state in equations.states)})"
    return "it depends on time" if _timed(equations) else ""


def step_delay(model: Model) -> Program:
    """Outputs change with steps alone: at a communication point they show what the inputs of the step
    before made of them. That breaks an algebraic loop, at the price of a delay of one communication
    step."""
    return _Passing(model).adaptation(None, name="step delay", mealy=False)


def restart(model: Model, on: tuple[str, ...], jump: float) -> Program:
    """Inputs go on along straight lines, but begin again where they jump: by more than `jump` from one
    communication point to the next."""
    work = _Passing(model)
    moving = work.on(on, Causality.INPUT)
    limit = _positive("jump", jump)
    before = {cell: f"b{n}" for n, cell in enumerate(moving)}
    rates = {cell: f"r{n}" for n, cell in enumerate(moving)}
    control: list[Statement] = [Local("last", Name("size"))]
    for cell in moving:
        change = f"({work.into[cell]} - {before[cell]})"
        control.append(Assign(rates[cell], f"0 if last <= 0 or abs{change} > {limit!r} else {change}/last"))
        control.append(Assign(before[cell], work.into[cell]))
    # Not early: inputs that stand still from there on, as held ones do, would end their lines.
    control += [Step(INSIDE), Assign("size", "H")]

    def given(cell: str) -> Assign | None:
        if cell not in rates:
            return None
        return Assign(f"{INSIDE}.{cell}", _name(work.into[cell]), (_name(rates[cell]),))

    # It takes its inputs when it makes its first step; what is inside begins with them, too.
    kept = {**{work.into[cell]: cell for cell in work.into}, **{old: cell for cell, old in before.items()}}
    first = tuple(Assign(to, _name(work.outer(cell))) for to, cell in kept.items())
    return work.adaptation(
        tuple(control), name="restart", given=given, init=first, reactive=False,
        controls=(*work.stored(moving, "b"), *(Stored(r) for r in rates.values()), Stored("size")),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# Where it stops.


def crossing(model: Model, on: tuple[str, ...], level: float = 0.0, tolerance: float = 1e-6) -> Program:
    """A step in which an output crosses `level` is made again until it ends `tolerance` seconds behind the
    crossing at most (regula falsi, Illinois). The coupling around it must let units end steps early:
    `Negotiated`."""
    work = _Passing(model)
    if Ability.ROLLBACK not in model.abilities:
        raise ModelError('the unit cannot be set back; give it rollback first: "replay"')
    cells = work.on(on, Causality.OUTPUT)
    if len(cells) != 1:
        raise ModelError("name the output that crosses: on y")
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not abs(level) < 1e300:
        raise ModelError(f"level must be a finite number, not {level!r}")
    near = _positive("tolerance", tolerance)
    value = apply(Op.SUB, Name(f"{INSIDE}.{cells[0]}"), Number(float(level)))
    sides = all_of([parse("fa*fb < 0"), parse(f"b - a > {near!r}")])
    search: tuple[Statement, ...] = (
        When(parse(f"not (b - a > {near!r})"), (Break(),)),
        Assign("c", f"min(max(b - fb*(b - a)/(fb - fa), a + {near / 4!r}), b - {near / 4!r})"),
        Rollback(INSIDE),
        Step(INSIDE, by="c"),
        Assign("fc", value),
        # The same end twice in a row: the other one counts half, so that it moves, too.
        When(
            parse("fc*fb > 0"),
            (
                When("side > 0", (Assign("fa", "fa/2"),)),
                Assign("b", "c"),
                Assign("fb", "fc"),
                Assign("side", 1.0),
            ),
            (
                When("side < 0", (Assign("fb", "fb/2"),)),
                Assign("a", "c"),
                Assign("fa", "fc"),
                Assign("side", -1.0),
            ),
        ),
    )
    locate: tuple[Statement, ...] = (
        Loop(100, search),
        Rollback(INSIDE),
        Step(INSIDE, by="b"),  # the end that is behind the crossing
        Return("b"),
    )
    early = Ability.EARLY_RETURN in model.abilities  # at an event of its own, before the crossing perhaps
    control: tuple[Statement, ...] = (
        SaveState(INSIDE),
        Local("a", 0.0),
        Local("fa", value),
        Local("b", "H"),
        Step(INSIDE, to="b" if early else None),
        Local("fb", value),
        Local("c", 0.0),
        Local("fc", 0.0),
        Local("side", 0.0),
        When(sides, locate),
        *((Return("b"),) if early else ()),
    )
    stops = f"where {cells[0]} crosses {level:g}"
    return work.adaptation(control, name=f"crossing of {cells[0]}", stops=stops)


def replay(model: Model) -> Model:
    """Rollback for a unit that has none: it is run again, from the start to the point, in a second
    instance."""
    if Ability.ROLLBACK in model.abilities:
        raise ModelError("it can be set back already")
    return Replayed(model)


RUNNING: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (every, rate, average, fixed_step, lazy, step_delay, restart, crossing, replay)
}
"""How a unit runs."""
