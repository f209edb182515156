"""A pace that makes steps as long as a tolerance allows: error estimates and a PI controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import inf, isfinite, nan
from typing import Literal, get_args

from upbeat.core.errors import InvalidInput, MasterError
from upbeat.core.expr import Cell, Expr
from upbeat.core.reasons import BEFORE, CONTROLLED, ERROR, FIRST, HALF, LONGEST, STOP, STUCK
from upbeat.core.records import dataclass
from upbeat.core.time import Span, checked_step
from upbeat.master import checks
from upbeat.master.computations import SLACK
from upbeat.master.paces.estimate import (
    Estimate,
    driven,
    energy,
    lowest_order,
    milne,
    orders,
    richardson,
)
from upbeat.master.paces.pace import Written
from upbeat.master.paces.watching import Watched, check_rollback, rough, unseen, watched
from upbeat.master.program import Block, Blocks, Let
from upbeat.master.registers import Steps, Writer, absolute, equal, isnan, maximum, minimum, power, where
from upbeat.master.wiring import Wiring
from upbeat.scenario.bonds import Bond, power_bonds

Method = Literal["richardson", "milne", "order", "energy"]
Correct = Literal["repeat", "next"]
Per = Literal["run", "step"]

_ESTIMATES: dict[str, Callable[[Blocks, Wiring, Sequence[Watched], int], Estimate]] = {
    "richardson": richardson,
    "milne": milne,
    "order": orders,
}

TINY = 1e-3
"""Errors below this count as this: a step next to no error says little about the next one."""

FLOOR = 1e-14
"""The smallest tolerance: about what rounding leaves of the values of a few operations."""


@dataclass(frozen=True, slots=True)
class ErrorControl:
    """Steps as long as the errors of the watched ports allow.

    An error counts relative to tolerance·(nominal + |value|). `ports` gives single ports a tolerance of
    their own (infinite: do not watch it), `nominal` their usual size, 1 unless given.

    `method` says how errors are estimated. "richardson": every step is made as a whole and again in two
    halves (all units need rollback); all real outputs, connected inputs and states of equations are watched,
    but of other units no more than they give out. "milne": what an
    input was extrapolated to against what it turned out to be. "order": against what a polynomial of the
    next degree would have extrapolated. These two watch all connected real inputs. None watches the unknowns
    of a `Constrained` coupling, what follows them directly, and outputs of equations whose rate does (forces
    and velocities), unless `ports` names them: they grow as steps get shorter. A Richardson error is
    one of the result, and with `per` = "run" a step of length h may use up h/(length of the run) of the
    tolerance, so that all steps together use up one; with "step" each may use up all of it. The other
    two are errors of an input while a step lasts, and `per` does not matter. "energy" watches power bonds
    instead (Sadjina and others, 2017): what the coupling creates or destroys in a step of what goes through
    each, relative to the largest power so far. Bonds are recognised by units of measure, or are the `bonds`,
    pairs of outputs with the effort first.

    `correct` = "repeat" rejects a step whose error is too large and tries a shorter one (all units need
    rollback); "next" lets it stand and only makes the next one shorter. `order` is the order of
    convergence of the coupling, taken from the input approximations unless given. The next step is
    h·`safety`·e^(-(i+p)/k)·e'^(p/k), where e and e' are the errors of this step and the one before, k the
    power of h that they grow with, and (i, p) the `gains`; but never less than `factors`[0]·h or more
    than `factors`[1]·h, and between `shortest` and `longest`. `first` is the first step tried. Unless they
    are given, these follow from the length of the run: `longest` is a tenth of it. In a nested scenario,
    which is not told how long the run is, they follow from its first advance, there is no longest step, and a
    Richardson error must be one `per` "step".

    Where a rate jumps and no event says so, the error of a step is in proportion to its length, and no step
    is short enough for its share of the tolerance. Such a step may use up a tenth of what the steps before it
    have left over of theirs, so that all together still use up no more than one.
    """

    tolerance: float = 1e-4
    method: Method = "richardson"
    correct: Correct = "repeat"
    first: float | None = None
    shortest: float | None = None
    longest: float | None = None
    ports: Mapping[str, float] = field(default_factory=dict)
    nominal: Mapping[str, float] = field(default_factory=dict)
    per: Per = "run"
    order: int | None = None
    safety: float = 0.9
    gains: tuple[float, float] = (0.3, 0.4)
    factors: tuple[float, float] = (0.2, 2.0)
    bonds: tuple[tuple[str, str], ...] = ()

    def open_ended(self) -> ErrorControl:
        """As it is in a nested scenario, which is not told how long the run is."""
        if self.method == "richardson" and self.per == "run":
            raise MasterError(
                "a nested scenario does not know the stop time, over which this ErrorControl shares its "
                'tolerance. Give every step the same: ErrorControl(…, per="step") (in a file: per = "step").'
            )
        return self if self.longest is not None else replace(self, longest=inf)

    def scaled(self, factor: float) -> ErrorControl:
        """The same with another tolerance: that of steps which are longer by `factor`, if its `order` is
        theirs (1 unless given; otherwise they follow it less)."""
        part = factor ** (self.order or 1)
        first, shortest, longest = (
            None if size is None else size * factor for size in (self.first, self.shortest, self.longest)
        )
        return replace(
            self,
            tolerance=max(self.tolerance * part, FLOOR),
            ports={name: max(value * part, FLOOR) for name, value in self.ports.items()},
            first=first,
            shortest=shortest,
            longest=longest,
        )

    @property
    def needs_span(self) -> str | None:
        if self.first is not None and self.shortest is not None:
            return None
        return "Give both: ErrorControl(…, first=1e-3, shortest=1e-9)."

    def __post_init__(self) -> None:
        self._check_choices()
        for name in ("tolerance", "first", "shortest", "longest"):
            value = getattr(self, name)
            if name == "longest" and isinstance(value, float) and value == inf:
                continue
            if value is not None or name == "tolerance":
                object.__setattr__(self, name, checked_step(value, f"{name} of ErrorControl"))
        if self.shortest is not None and self.longest is not None and self.shortest > self.longest:
            raise MasterError(
                f"the shortest step of ErrorControl ({self.shortest:g}) is longer than 'longest' "
                f"({self.longest:g})"
            )
        if self.first is not None and self.longest is not None and self.first > self.longest:
            raise MasterError(
                f"the first step of ErrorControl ({self.first:g}) is longer than 'longest' ({self.longest:g})"
            )
        for what, value in (("tolerance", self.tolerance), *_tolerances(self.ports)):
            if value < FLOOR:
                raise MasterError(
                    f"the {what} of ErrorControl, {value:g}, is below what rounding leaves of any value: "
                    f"take at least {FLOOR:g}"
                )
        for name in ("ports", "nominal"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) or not all(_number(v) and v > 0 for v in given.values()):
                raise MasterError(f"{name} of ErrorControl must name positive numbers, not {given!r}")
        object.__setattr__(self, "bonds", _bonds(self.bonds, self.method))
        for name in ("gains", "factors"):
            object.__setattr__(self, name, _pair(name, getattr(self, name)))
        if not 0 < self.factors[0] < 1 < self.factors[1]:
            raise MasterError(f"factors of ErrorControl must lie on both sides of 1, not be {self.factors}")
        if not self.gains[0] > 0:
            raise MasterError(f"the first of the gains of ErrorControl must be positive, not {self.gains[0]}")
        if not _number(self.safety) or not 0 < self.safety <= 1:
            raise MasterError(f"safety of ErrorControl must be above 0 and at most 1, not {self.safety!r}")

    def _check_choices(self) -> None:
        for name, choices in (("method", Method), ("correct", Correct), ("per", Per)):
            checks.choice(getattr(self, name), get_args(choices), f"{name} of ErrorControl")
        if self.order is not None and (type(self.order) is not int or not 1 <= self.order <= 20):
            raise MasterError(
                f"order of ErrorControl must be a whole number from 1 to 20, not {self.order!r}"
            )

    @property
    def retries(self) -> bool:
        return self.correct == "repeat"

    @property
    def states(self) -> bool:
        """Whether units are to give out all their states: an estimate of the result watches these, too."""
        return self.method == "richardson"

    @property
    def sees_jumps(self) -> bool:
        """Whether a step in which a unit jumps is repeated until it is short enough."""
        return self.retries and self.method != "order"

    def check_span(self, span: Span) -> None:
        long = self.longest is not None and (span.stop - span.start) / self.longest >= 1e15
        if long and isfinite(span.stop):
            raise InvalidInput(
                f"the longest step of ErrorControl ({self.longest:g}) would mean 1e15 steps or more: raise it"
            )

    # ---------------------------------------------------------------- the pace

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        """Blocks with an estimate of the errors, and those of the control."""
        check_rollback(self, wiring)
        order = self.order or lowest_order(wiring)
        if self.method == "energy":
            found, names = energy(blocks, wiring, self._power_bonds(wiring), order, self.tolerance)
        else:
            ports = watched(self, wiring, driven(blocks, wiring))
            found = _ESTIMATES[self.method](blocks, wiring, ports, order)
            names = tuple(port.name for port in ports)
        shared = self.method == "richardson" and self.per == "run"
        note = f"steps by error control ({self.method}, order {order}) of {', '.join(names)}"
        notes = (*found.blocks.notes, note, *rough(self, wiring), *unseen(self, wiring))
        control = _Control(self, steps, names, Cell(found.errors), float(found.power - shared), shared)
        return replace(found.blocks, notes=notes), control.written()

    def _power_bonds(self, wiring: Wiring) -> tuple[Bond, ...]:
        try:
            found = power_bonds(wiring.scenario, self.bonds)
        except InvalidInput as error:
            raise MasterError(f"bonds of ErrorControl: {error}") from None
        if not found:
            raise MasterError(
                'method = "energy" watches power bonds, and there is none: no two units exchange outputs '
                "whose units of measure multiply to watts. Give the outputs their units of measure, or name "
                'them, the effort first: bonds = [["spring.F", "mass.v"]]'
            )
        return found


class _Control:
    """The control as blocks: `started`, `propose`, `review`, `note`, from top to bottom."""

    def __init__(
        self, pace: ErrorControl, steps: Steps, names: Sequence[str], errors: Cell, power: float, shared: bool
    ) -> None:
        self.pace, self.steps, self.names, self.errors = pace, steps, names, errors
        self.power, self.shared = power, shared
        new = steps.new
        self.step = new("control′step")  # the step to try next
        self.error = new("control′error")  # of the last step, over its tolerance; 0: none to compare with
        self.port = new("control′port")  # the place of the port with that error
        self.held = new("control′held")  # 1 after a rejection: the next step may not be longer
        self.span = new("control′span")  # the length of the run
        self.shortest, self.longest = new("control′shortest"), new("control′longest")
        self.worst, self.place = new("control′worst"), new("control′place")
        self.length, self.factor = new("control′length"), new("control′factor")
        if shared:
            self.spare = new("control′spare")  # of the tolerance, which the steps so far have left over
            self.used = new("control′used")  # of the tolerance, by this step
            # of the last try that was rejected: its error, its length, and where it ended
            self.rejected, self.tried = new("control′rejected"), new("control′tried")
            self.until, self.jumps = new("control′until"), new("control′jumps")

    def written(self) -> Written:
        begin = Writer()
        with begin.when(self.steps.limit < inf):  # else the rest comes with the first proposal
            self._started(begin)
        return Written(self.pace, begin.block, self._propose(), self._review(), self._note())

    def _started(self, w: Writer) -> None:
        """What follows from the length of the run, where it is not given."""
        pace, t, limit = self.pace, self.steps.now, self.steps.limit
        w.let(self.span, limit - t)
        rounding = 1e-12 * self.span + 1e-14 * maximum(absolute(t), absolute(limit))
        w.let(self.shortest, pace.shortest or rounding)
        w.let(self.longest, pace.longest or 0.1 * self.span)
        # Before there is a history even a curved input is held, and that error is of the size of the step.
        first = pace.first or self.span * min(1e-3, pace.tolerance)
        w.let(self.step, minimum(maximum(first, self.shortest), self.longest))
        w.let(self.longest, maximum(self.shortest, self.longest))

    def _propose(self) -> Block:
        w, steps, step = Writer(), self.steps, self.step
        t, limit = steps.now, steps.limit
        remaining = limit - t
        with w.when(equal(self.span, 0.0)):
            self._started(w)
        with w.when(step >= remaining * (1.0 - SLACK)):
            steps.propose(w, limit, steps.number(STOP))
        with w.otherwise():
            with w.when(2.0 * step > remaining):  # two equal steps rather than one and a tiny one
                steps.propose(w, t + 0.5 * remaining, steps.number(HALF))
            with w.otherwise():
                before = steps.numbers(BEFORE, self.names, of=1)
                longest = where(step >= self.longest, steps.number(LONGEST), steps.number(CONTROLLED))
                usual = where(equal(self.error, 0.0), steps.number(FIRST), longest)
                why = where(self.error > 1.0, before + self.port, usual)
                steps.propose(w, t + step, why, self.error, self.error)
        return w.block

    def _review(self) -> Block:
        w, pace, steps = Writer(), self.pace, self.steps
        t, reached, error, length, held = steps.now, steps.reached, self.worst, self.length, self.held
        small, large = pace.factors
        w.let(steps.again, 0.0)
        w.let(length, reached - t)
        self._find_worst(w)
        if self.shared:
            self._share(w)
        with w.when(~(error <= 1.0)):
            # A second rejection shows that the error falls less quickly than hoped for (there is no history
            # yet, or a jump): then in proportion.
            root = where(held, -1.0, -1.0 / self.power)
            w.let(self.factor, minimum(pace.safety, maximum(small, pace.safety * power(error, root))))
            w.let(self.step, maximum(length * self.factor, self.shortest))
            w.let(held, 1.0)
            if pace.correct == "repeat":
                w.let(steps.again, 1.0)
                w.let(self.error, 0.0)
                stuck = length <= self.shortest * (1.0 + SLACK)
                with w.when(stuck):
                    why = steps.numbers(STUCK, self.names, at=True, of=2) + self.place
                    steps.propose(w, nan, why, t, error, self.shortest)
                with w.otherwise():
                    why = steps.numbers(ERROR, self.names, of=1) + self.place
                    steps.propose(w, t + self.step, why, t, error)
            else:
                w.let(self.error, error)
                w.let(self.port, self.place)
        with w.otherwise():
            w.let(error, maximum(error, TINY))
            w.let(self.factor, minimum(large, maximum(small, self._growth(error, self.error))))
            w.let(self.factor, where(held, minimum(self.factor, 1.0), self.factor))
            longer = length * self.factor
            # Cut short by the stop time or a unit: no reason for shorter ones.
            step = where(length < 0.99 * self.step, maximum(longer, self.step), longer)
            w.let(self.step, minimum(maximum(step, self.shortest), self.longest))
            w.let(self.error, error)
            w.let(self.port, self.place)
            w.let(held, 0.0)
            if self.shared:
                w.let(self.spare, self.spare + (length / self.span - self.used))
        return w.block

    def _share(self, w: Writer) -> None:
        """The error over the share of the tolerance that a step of this length has; 1 where a jump of a rate
        takes what others have left over."""
        error, length, t = self.worst, self.length, self.steps.now
        w.let(self.used, error)
        w.let(error, error * (self.span / length))
        with w.when(~(error <= 1.0)):
            # Half way between an error that falls with the step and one that does not.
            falls = error <= self.rejected * power(length / self.tried, 0.5)
            used = self.used * (2.0**self.power - 1.0)  # there, halves are no better than the whole
            w.let(self.jumps, (t < self.until) & ~falls & (used <= 0.1 * self.spare))
            w.let(self.used, where(self.jumps, used, self.used))
            w.let(self.rejected, error)
            w.let(self.tried, length)
            w.let(self.until, t + length)
            w.let(error, where(self.jumps, 1.0, error))

    def _find_worst(self, w: Writer) -> None:
        """The largest error and the place of its port; the first that is no number is the largest."""
        w.let(self.worst, 0.0)
        w.let(self.place, 0.0)
        for k in range(len(self.names)):
            error = Cell(self.errors.index + k)
            worse = ~(error <= self.worst) & ~isnan(self.worst)
            w.let(self.place, where(worse, float(k), self.place))
            w.let(self.worst, where(worse, error, self.worst))

    def _growth(self, error: Expr, before: Expr) -> Expr:
        """What the controller makes of the errors of this step and the one before."""
        safety, (integral, proportional) = self.pace.safety, self.pace.gains
        alone = safety * power(error, -1.0 / self.power)
        both = (
            safety
            * power(error, -(integral + proportional) / self.power)
            * power(before, proportional / self.power)
        )
        return where(equal(before, 0.0) | equal(error, TINY), alone, both)

    def _note(self) -> Block:
        # What was learnt before an event says nothing about what comes after it.
        return (Let(self.error.index, where(self.steps.fired > 0.0, 0.0, self.error)),)


def _tolerances(ports: object) -> list[tuple[str, float]]:
    """Those of single ports; whether these are numbers at all is checked elsewhere."""
    given = ports.items() if isinstance(ports, Mapping) else ()
    return [(f"tolerance for '{name}'", value) for name, value in given if _number(value) and value > 0]


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bonds(given: object, method: str) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for pair in given if isinstance(given, (list, tuple)) else (None,):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(n, str) for n in pair):
            raise MasterError(
                f'bonds of ErrorControl are pairs of outputs, such as [["spring.F", "mass.v"]], not {given!r}'
            )
        pairs.append((pair[0], pair[1]))
    if pairs and method != "energy":
        raise MasterError('bonds of ErrorControl are for method = "energy"')
    return tuple(pairs)


def _pair(name: str, given: object) -> tuple[float, float]:
    pair = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2 or not all(_number(value) and 0 <= value < inf for value in pair):
        raise MasterError(f"{name} of ErrorControl must be two numbers that are not negative, not {given!r}")
    return (float(pair[0]), float(pair[1]))
