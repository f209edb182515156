"""A pace that makes steps as long as a tolerance allows: error estimates and a PI controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan, pow
from typing import Literal, NamedTuple, get_args

from upbeat.core.errors import InvalidInput, MasterError
from upbeat.core.reasons import BEFORE, CONTROLLED, ERROR, FIRST, HALF, LONGEST, STOP, STUCK, Reason, Why
from upbeat.core.time import Span, checked_step
from upbeat.master import checks
from upbeat.master.blocks import Blocks
from upbeat.master.layout import Reg
from upbeat.master.paces.estimate import Estimate, Watched, driven, lowest_order, milne, orders, richardson
from upbeat.master.paces.pace import SLACK, Pace, Proposal, Read, State, Twin
from upbeat.master.paces.watching import check_rollback, rough, unseen, watched
from upbeat.master.wiring import Wiring

Method = Literal["richardson", "milne", "order"]
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


class Watch(NamedTuple):
    """What a control knows about its program."""

    names: tuple[str, ...] = ()  # the watched ports
    errors: Reg = 0  # the first of the registers of their errors
    power: float = 1.0  # the errors grow with this power of the step
    shared: bool = False  # an error counts per length of the step


class _State(NamedTuple):
    """What the control remembers, in numbers only: the native core keeps the same ones in this order."""

    step: float  # the step to try next
    error: float  # of the last step, over its tolerance; 0: there is none to compare with
    port: float  # the place of the port with that error
    held: float  # 1 after a rejection: the next step may not be longer
    span: float  # the length of the run
    shortest: float
    longest: float


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
    two are errors of an input while a step lasts, and `per` does not matter.

    `correct` = "repeat" rejects a step whose error is too large and tries a shorter one (all units need
    rollback); "next" lets it stand and only makes the next one shorter. `order` is the order of
    convergence of the coupling, taken from the input approximations unless given. The next step is
    h·`safety`·e^(-(i+p)/k)·e'^(p/k), where e and e' are the errors of this step and the one before, k the
    power of h that they grow with, and (i, p) the `gains`; but never less than `factors`[0]·h or more
    than `factors`[1]·h, and between `shortest` and `longest`. `first` is the first step tried. Unless they
    are given, these follow from the length of the run: `longest` is a tenth of it. In a nested scenario,
    which is not told how long the run is, they follow from its first advance, there is no longest step, and a
    Richardson error must be one `per` "step".
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
    watch: Watch | None = field(default=None, repr=False)
    """Filled in by `prepare`."""

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
        if not isinstance(self.watch, Watch | None):
            raise MasterError("watch of ErrorControl is for its own use; leave it out")
        if self.order is not None and (type(self.order) is not int or not 1 <= self.order <= 20):
            raise MasterError(
                f"order of ErrorControl must be a whole number from 1 to 20, not {self.order!r}"
            )

    # ---------------------------------------------------------------- before the run

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        """Blocks with an estimate of the errors, and the control that knows its registers."""
        check_rollback(self, wiring)
        ports = watched(self, wiring, driven(blocks, wiring))
        order = self.order or lowest_order(wiring)
        found = _ESTIMATES[self.method](blocks, wiring, ports, order)
        shared = self.method == "richardson" and self.per == "run"
        names = tuple(port.name for port in ports)
        watch = Watch(names, found.errors, float(found.power - shared), shared)
        note = f"steps by error control ({self.method}, order {order}) of {', '.join(names)}"
        notes = (*found.blocks.notes, note, *rough(self, wiring), *unseen(self, wiring))
        return replace(found.blocks, notes=notes), replace(self, watch=watch)

    # ---------------------------------------------------------------- the pace

    @property
    def retries(self) -> bool:
        return self.correct == "repeat"

    @property
    def states(self) -> bool:
        """Whether units are to give out all their states: an estimate of the result watches these, too."""
        return self.method == "richardson"

    def native(self) -> Twin | None:
        if self.watch is None or type(self) is not ErrorControl:
            return None
        names, errors, power, shared = self.watch
        limits = (self.first or 0.0, self.shortest or 0.0, self.longest or 0.0)
        numbers = (
            power,
            shared,
            self.retries,
            self.tolerance,
            *limits,
            self.safety,
            *self.gains,
            *self.factors,
        )
        parameters = tuple(float(number) for number in (errors, len(names), *numbers))
        return Twin("error_control", parameters, names)

    def begin(self, span: Span) -> State:
        if (
            self.longest is not None
            and isfinite(span.stop)
            and (span.stop - span.start) / self.longest >= 1e15
        ):
            raise InvalidInput(
                f"the longest step of ErrorControl ({self.longest:g}) would mean 1e15 steps or more: raise it"
            )
        if isfinite(span.stop):
            return self._started(span.start, span.stop)
        return _State(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # the rest comes with the first proposal

    def _started(self, t: float, limit: float) -> _State:
        length = limit - t
        shortest = self.shortest or 1e-12 * length + 1e-14 * max(abs(t), abs(limit))
        longest = self.longest or 0.1 * length
        # Before there is a history even a curved input is held, and that error is of the size of the step.
        first = self.first or length * min(1e-3, self.tolerance)
        return _State(
            min(max(first, shortest), longest), 0.0, 0.0, 0.0, length, shortest, max(shortest, longest)
        )

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        s = _State(*state)
        if s.span == 0.0:
            s = self._started(t, limit)
        remaining = limit - t
        if s.step >= remaining * (1.0 - SLACK):
            return Proposal(limit, STOP), s
        if 2.0 * s.step > remaining:  # two equal steps rather than one and a tiny one
            return Proposal(t + 0.5 * remaining, HALF), s
        return Proposal(t + s.step, self._why(s)), s

    def review(self, state: State, t: float, reached: float, read: Read) -> tuple[Proposal | None, State]:
        s, watch = _State(*state), self._watch
        length = reached - t
        error, port = _worst(watch, read)
        if watch.shared:
            error = error * (s.span / length)
        small, large = self.factors
        if not error <= 1.0:
            # A second rejection shows that the error falls less quickly than hoped for (there is no history
            # yet, or a jump): then in proportion.
            power = 1.0 if s.held else watch.power
            factor = min(self.safety, max(small, self.safety * pow(error, -1.0 / power)))
            step = max(length * factor, s.shortest)
            if self.correct == "repeat":
                again = Proposal(t + step, Reason(ERROR, watch.names[port], of=(error,)))
                if length <= s.shortest * (1.0 + SLACK):
                    again = Proposal(nan, Reason(STUCK, watch.names[port], t, (error, s.shortest)))
                return again, s._replace(step=step, error=0.0, held=1.0)
            return None, s._replace(step=step, error=error, port=float(port), held=1.0)
        factor = min(large, max(small, self._factor(max(error, TINY), s.error)))
        if s.held:
            factor = min(factor, 1.0)
        step = length * factor
        if length < 0.99 * s.step:  # cut short by the stop time or a unit: no reason for shorter ones
            step = max(step, s.step)
        step = min(max(step, s.shortest), s.longest)
        return None, s._replace(step=step, error=max(error, TINY), port=float(port), held=0.0)

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        # What was learnt before an event says nothing about what comes after it.
        return _State(*state)._replace(error=0.0) if fired else state

    @property
    def _watch(self) -> Watch:
        return self.watch or Watch()

    def _factor(self, error: float, before: float) -> float:
        power, (integral, proportional) = self._watch.power, self.gains
        if before == 0.0 or error == TINY:
            return self.safety * pow(error, -1.0 / power)
        return (
            self.safety * pow(error, -(integral + proportional) / power) * pow(before, proportional / power)
        )

    def _why(self, s: _State) -> Why:
        if s.error > 1.0:
            return Reason(BEFORE, self._watch.names[int(s.port)], of=(s.error,))
        if s.error == 0.0:
            return FIRST
        return LONGEST if s.step >= s.longest else CONTROLLED


def _worst(watch: Watch, read: Read) -> tuple[float, int]:
    """The largest error and the place of its port; one that is no number is the largest."""
    worst, place = 0.0, 0
    for k in range(len(watch.names)):
        error = float(read(watch.errors + k))
        if not error <= worst:
            worst, place = error, k
            if error != error:
                break
    return worst, place


def _tolerances(ports: object) -> list[tuple[str, float]]:
    """Those of single ports; whether these are numbers at all is checked elsewhere."""
    given = ports.items() if isinstance(ports, Mapping) else ()
    return [(f"tolerance for '{name}'", value) for name, value in given if _number(value) and value > 0]


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pair(name: str, given: object) -> tuple[float, float]:
    pair = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2 or not all(_number(value) and 0 <= value < inf for value in pair):
        raise MasterError(f"{name} of ErrorControl must be two numbers that are not negative, not {given!r}")
    return (float(pair[0]), float(pair[1]))
