"""Runs in real time: simulated time t = α·τ keeps up with the time τ of a clock.

A step is made as soon as the one before it was due, and the run then waits until the clock shows where the
step has ended. So a step has all of its own time to be computed in, and paces that find out only during a
step how long it will be are paced like all others. What happens at its end is thus computed up to one step
before its time. Only where nothing at all happens before the end of a step (`EventDriven`) the wait comes
first: an event happens when its time has come.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.records import dataclass
from upbeat.engine.loop import ENDLESS
from upbeat.trace.log import Lateness, StepLog

if TYPE_CHECKING:
    from upbeat.engine.by_hand import Drive

Late = Literal["warn", "skip", "stop"]


class LateWarning(UserWarning):
    """A run in real time fell behind the clock by more than its tolerance."""


class Clock(Protocol):
    """What a run keeps up with. Seconds from anywhere, never going back."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The clock of the computer."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class RealTime:
    """Keep up with the clock: `factor` seconds of simulated time in a second.

    `late` says what to do when a step is done more than `tolerance` seconds after it was due: "warn" once
    and try to catch up; "skip" the lost time, so that all that follows is due later; or "stop" the run, which
    keeps its results. `trace.lateness` tells how late the steps were. `clock` may be any other one, such as
    that of the machine on the test bench.
    """

    factor: float = 1.0
    late: Late = "warn"
    tolerance: float = 0.05
    clock: Clock = field(default_factory=WallClock, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("factor", "tolerance"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not abs(value) < 1e300:  # type: ignore[operator]
                raise InvalidInput(f"the {name} of real time must be a number, not {value!r}")
            object.__setattr__(self, name, float(value))
        if self.factor <= 0:
            raise InvalidInput(f"the factor of real time must be more than 0, not {self.factor:g}")
        if self.tolerance < 0:
            raise InvalidInput(f"the tolerance of real time must not be negative, but is {self.tolerance:g}")
        if not isinstance(self.late, str) or self.late not in get_args(Late):
            known = get_args(Late)
            raise InvalidInput(
                f"'late' cannot be {self.late!r}. {suggest(str(self.late), known, 'policies')}"
            )


def real_time_from(given: Any) -> RealTime | None:
    """What a file or an argument says: a factor, true or false, a table, or a `RealTime`."""
    if given is None or given is False or isinstance(given, RealTime):
        return given or None
    if not isinstance(given, Mapping):
        return RealTime() if given is True else RealTime(given)
    for key in given:
        if key not in KEYS:
            raise InvalidInput(f"real_time has no setting '{key}'. {suggest(key, KEYS, 'settings')}")
    return RealTime(**given)


KEYS = tuple(f.name for f in fields(RealTime) if f.name != "clock")
"""What a file may say."""


def real_time_table(given: RealTime) -> float | dict[str, Any]:
    """The words of a file that give the same."""
    options = {k: getattr(given, k) for k in KEYS if getattr(given, k) != getattr(RealTime(), k)}
    return given.factor if options.keys() <= {"factor"} else options


def overruled(before: Any, given: Any) -> Any:
    """The setting `before`, with what is `given` instead: a number overrules the factor alone."""
    plain = isinstance(given, Real) and not isinstance(given, bool)
    return {**before, "factor": given} if plain and isinstance(before, Mapping) else given


def with_policy(before: Any, late: Any) -> Any:
    """The setting `before` with another policy."""
    if before is None or before is False:
        raise InvalidInput("there is no real time to be late for: give real_time (--real-time), too")
    if isinstance(before, RealTime):
        return RealTime(before.factor, late, before.tolerance, before.clock)
    table = before if isinstance(before, Mapping) else {} if before is True else {"factor": before}
    return {**table, "late": late}


class Paced:
    """A drive (see `engine.run`) that makes another one keep up with the clock."""

    def __init__(self, drive: Drive, settings: RealTime, before: Mapping[str, Any] | None = None) -> None:
        self.lateness = Lateness(settings.tolerance) if before is None else Lateness.from_data(before)
        self.too_late = False
        """Whether the policy "stop" has ended the run."""
        self._drive = drive
        self._settings = settings
        self._clock = settings.clock
        self._anchor: tuple[float, float] | None = (
            None  # a time of the clock, and the simulated one it stands for
        )
        self._due: float | None = None  # what the clock is waited for to show
        self._planned = False  # whether the clock has been waited for, for the step to come

    @property
    def time(self) -> float:
        return self._drive.time

    @property
    def steps(self) -> StepLog:
        return self._drive.steps

    @property
    def finished(self) -> bool:
        return self.too_late or (self._drive.finished and self._due is None)

    def begin(self) -> None:
        self._drive.begin()

    def before_change(self) -> None:
        self._drive.before_change()

    def exchange(self, arrived: Iterable[str] = ()) -> None:
        self._drive.exchange(arrived)
        if self._drive.event_driven:  # the next event may be another one now
            self._planned, self._due = False, None

    @property
    def event_driven(self) -> bool:
        return self._drive.event_driven

    def target(self) -> float:
        return self._drive.target()

    def set_time(self, t: float) -> None:
        """Stand there; from there on the clock counts from zero."""
        self._drive.set_time(t)
        self._anchor = self._due = None

    def step(self) -> None:
        """One step, and the wait for the clock: before it, if nothing happens but at its end; else after."""
        if self._drive.event_driven:
            self._plan()
            self._wait(inf)
        self._make()
        self._wait(inf)

    def go(self, seconds: float, max_steps: int = ENDLESS, pause: float = inf) -> None:
        """Step and wait for about `seconds`; a wait that is not over then goes on in the next call."""
        deadline = self._clock.now() + seconds
        while not self.finished and ((max_steps > 0 and self.time < pause) or self._due is not None):
            if self._due is None and self._drive.event_driven and not self._planned:
                self._plan()
            elif self._due is None:
                self._make()
                max_steps -= 1
            self._wait(deadline)
            if self._clock.now() >= deadline:
                return

    def begin_again(self) -> None:
        """What comes next is due from now on: the time that has passed since the last step does not count."""
        self._anchor, self._due, self._planned = None, None, False

    def _plan(self) -> None:
        """Nothing happens before the end of the step to come, so it is made when its time has come."""
        self._due, self._planned = self._wall(self._drive.target()), True

    def _wall(self, t: float) -> float:
        """What the clock shows when it is `t`."""
        if self._anchor is None:  # not when the run was set up, which may take any time
            self._anchor = self._clock.now(), self._drive.time
        wall, began = self._anchor
        return wall + (t - began) / self._settings.factor

    def _make(self) -> None:
        """One step, and how late it was."""
        self._wall(self._drive.time)
        self._drive.step()
        self._planned = False
        due = self._wall(self._drive.time)
        late = self._clock.now() - due
        self.lateness.add(late)
        if late <= self._settings.tolerance:
            self._due = due if late < 0 else None
            return
        match self._settings.late:
            case "warn" if self.lateness.beyond == 1:
                warnings.warn(
                    f"the run is {late:.3g} s behind real time at t = {self._drive.time:.9g}; it goes on as "
                    "fast as it can, and trace.lateness counts what else is late",
                    LateWarning,
                    stacklevel=2,
                )
            case "skip":
                self._anchor = self._clock.now(), self._drive.time
                self.lateness.skip(late)
            case "stop":
                self.too_late = not self._drive.finished

    def _wait(self, deadline: float) -> None:
        """Until the clock shows what it should, but not beyond `deadline`."""
        while self._due is not None:
            now = self._clock.now()
            if now >= self._due:
                self._due = None
            elif now >= deadline:
                return
            else:
                self._clock.sleep(min(self._due, deadline) - now)
