"""Whether a unit that promises rollback can be set back: tried by replaying, in an instance made for it.

A `save` that forgets a state, a token that the unit goes on writing into, a `restore` that works once: the
run looks well and is wrong. So before a promise is relied on, a state is saved, the unit runs on, goes back
and runs on again in the same way, twice: its outputs must be the same. Through bytes, too, into a second
instance. Before a run that is done near its start, which must not take long; a strict check does it at
several times, since a unit may have nothing to forget at first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf, isfinite
from typing import Any

from upbeat.core.abilities import Ability, Model, instantiated
from upbeat.core.errors import FAULTS, StepError
from upbeat.core.ports import Causality, Kind, Port, Signal, Value

NEARLY = 1e-6
"""A state that comes back with errors beyond this part of what moved meanwhile has not come back."""
_MOVES = (0.5, -0.75, 0.25, 1.0, -0.3)
_STEPS = 6
"""As many as it may take until a state that was forgotten shows in an output."""
_MAX_JUMPS = 100
_EARLY = 2
LATER = (32, 62, 92)
"""Where a strict check replays as well; a deep check makes steps of a hundredth of the run."""

WORK = 200_000
"""How many evaluations of its equations a unit that is tried out may take."""

Seen = list[Signal | None]
"""The value of every output."""


_UNTIL: ContextVar[float] = ContextVar("until", default=inf)


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """What is tried out here ends with `StepError` when so many seconds on the wall are over."""
    before = _UNTIL.set(min(_UNTIL.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _UNTIL.reset(before)


def check_time() -> None:
    """Raise `StepError` if the time is over that `no_longer_than` has given."""
    if time.monotonic() > _UNTIL.get():
        raise StepError("it takes longer than there is time for", unending=True)


class Allowance:
    """How much may still be computed, counted in evaluations of equations: for those who only try a unit out.

    A run may take as long as its user likes. What is looked at before it has to end, whatever the numbers of
    a scenario are; it ends with `StepError`.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = self.left = maximum

    def renew(self) -> None:
        """Begin to count again from zero."""
        self.left = self.maximum

    def spend(self) -> None:
        """One evaluation, or something like it."""
        check_time()
        self.left -= 1
        if self.left < 0:
            raise StepError(
                f"it takes more than {self.maximum:,} evaluations of equations, too many to try it out. Take "
                "shorter communication steps, fewer or longer solver steps, or larger tolerances",
                unending=True,
            )

    def bound(self, unit: object) -> None:
        """Count what the solver of a unit evaluates, if it is one of ours, from now on."""
        counted = getattr(unit, "counted", None)
        if counted is not None:
            counted(self)


def broken_promise(
    model: Model, ability: Ability, *, step: float, start: float = 0.0, strict: bool = False
) -> str | None:
    """Why a promise (`ROLLBACK`, `SERIALISE`) is not kept; None if it is, or if that cannot be said.

    `strict`: outputs must be back as soon as the unit is, before anybody sets an input again; and that is
    tried again `LATER` steps after the start.
    """
    for fed in (True, False):  # a unit may not like the inputs that are made up here
        trials: list[_Trial] = []
        try:
            return _tried(model, ability, step, start, fed, strict, trials)
        except _Failed as failed:
            return str(failed)
        except FAULTS:
            pass
        finally:
            for trial in trials:
                with suppress(*FAULTS):
                    getattr(trial.unit, "close", lambda: None)()
    return None


def _tried(
    model: Model, ability: Ability, step: float, start: float, fed: bool, strict: bool, trials: list[_Trial]
) -> str | None:
    first = _Trial(model, step, start, fed)
    trials.append(first)
    for late in (_EARLY, *LATER) if strict else (_EARLY,):
        first.run(late - first.count)
        trial = first
        at, before = (trial.time, trial.count), trial.seen()
        token = trial.state("save")
        wanted = trial.run(_STEPS)
        if ability is Ability.SERIALISE:
            data = trial.state("to_bytes", token)
            trial = _Trial(model, step, start, fed)
            trials.append(trial)
            token = trial.state("from_bytes", data)
        for _ in range(2):
            trial.state("restore", token)
            trial.time, trial.count = at
            found = trial.seen() if strict else before
            again = [found, *trial.run(_STEPS)]
            if (what := _apart(trial.outputs, [before, *wanted], again)) is not None:
                how = (
                    "its state has gone through bytes" if ability is Ability.SERIALISE else "it was set back"
                )
                return (
                    f"when this was tried, {what} after {how}. What save gives must hold everything that the "
                    "future depends on, inputs included, as a copy that the unit does not write into any "
                    "more; restore must bring all of it back, as often as it is asked to"
                )
    return None


class _Failed(Exception):
    """A call that has to do with states raised something."""


class _Trial:
    """One instance, and the steps that it makes."""

    def __init__(self, model: Model, step: float, start: float, fed: bool) -> None:
        signals = [port for port in model.ports if not port.event]
        self.inputs = [port for port in signals if port.causality is Causality.INPUT]
        self.outputs = [port for port in signals if port.causality is Causality.OUTPUT and not port.extra]
        self._jumps = Ability.NEXT_EVENT in model.abilities
        self._step, self._fed = step, fed
        self.time, self.count = start, 0
        self.unit: Any = instantiated(model, "trial", start)
        Allowance(WORK).bound(self.unit)
        self._settle()

    def run(self, steps: int) -> list[Seen]:
        """So many steps, with other inputs in each."""
        found = []
        for _ in range(steps):
            for port in self.inputs:
                values = _other(port, _MOVES[self.count % len(_MOVES)]) if self._fed else port.initial
                self.unit.set(port.name, [values[0] if port.size is None else tuple(values)])
            to = self.time + self._step
            if self._jumps:
                to = max(min(to, float(self.unit.due())), self.time)
            self.time = float(self.unit.advance(self.time, to, False))
            self._settle()
            self.count += 1
            found.append(self.seen())
        return found

    def state(self, call: str, *arguments: Any) -> Any:
        """One of the calls that have to do with states."""
        try:
            return getattr(self.unit, call)(*arguments)
        except FAULTS as error:
            what = f"{type(error).__name__}: {error}"
            raise _Failed(f"when this was tried, {call} failed with {what}") from error

    def seen(self) -> Seen:
        """All outputs now."""
        return [_copied(self.unit.get(port.name)) for port in self.outputs]

    def _settle(self) -> None:
        """What is due by itself now."""
        for _ in range(_MAX_JUMPS if self._jumps else 0):
            if float(self.unit.due()) > self.time:
                return
            self.unit.jump()


def _copied(value: Any) -> Any:
    """What is looked at later must not be what the unit goes on writing into."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(value) if isinstance(value, list) else value


def _other(port: Port, by: float) -> Sequence[Value]:
    match port.kind:
        case Kind.REAL:
            return [float(value) + by * (1.0 + abs(float(value))) for value in port.initial]
        case Kind.BOOLEAN:
            return [by > 0.0] * port.cells
    return port.initial


def _apart(ports: Sequence[Port], wanted: Sequence[Seen], found: Sequence[Seen]) -> str | None:
    """The first output that differs, if one does by more than a small part of its own movement."""
    for number, port in enumerate(ports):
        one, other = ([_cells(row[number]) for row in rows] for rows in (wanted, found))
        if repr(one) == repr(other):
            continue
        numbers = port.kind is Kind.REAL and all(_numbers(row) for row in (*one, *other))
        moved = (
            max((abs(a - b) for row in one for a, b in zip(row, one[0], strict=True)), default=0.0)
            if numbers
            else 0.0
        )
        for was, now in zip(one, other, strict=True):
            if repr(was) == repr(now):
                continue
            error = max(abs(a - b) for a, b in zip(was, now, strict=True)) if numbers else 1.0
            if error > NEARLY * moved:
                return f"output '{port.name}' was {_shown(now)} instead of {_shown(was)}"
    return None


def _cells(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _numbers(row: tuple[Any, ...]) -> bool:
    return all(isinstance(value, (int, float)) and isfinite(value) for value in row)


def _shown(row: tuple[Any, ...]) -> str:
    texts = [f"{value:.6g}" if isinstance(value, float) else repr(value) for value in row[:4]]
    return texts[0] if len(row) == 1 else f"({', '.join(texts)}{', …' if len(row) > 4 else ''})"
