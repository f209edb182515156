"""Inputs and parameters that are set by hand during a run, and the exchange after which all have seen it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, Protocol

from upbeat.core.errors import InvalidInput, check_type, suggest
from upbeat.core.names import without_inside
from upbeat.core.ports import Causality, Port, Signal, Value, Values
from upbeat.core.records import dataclass
from upbeat.engine.loop import ENDLESS
from upbeat.engine.machine import Machine
from upbeat.master.dataflow import forgetful
from upbeat.master.program import Program, Reg
from upbeat.scenario.scenario import Scenario
from upbeat.trace.log import StepLog

# ----------------------------------------------------------------------------------------------------
# What turns a machine into a run, seen from the run.


class Drive(Protocol):
    """What turns a machine into a run: the loop in Python, or the one in the native core."""

    @property
    def time(self) -> float: ...

    @property
    def steps(self) -> StepLog: ...

    @property
    def finished(self) -> bool: ...

    def begin(self) -> None: ...

    def before_change(self) -> None:
        """To be called before an input is changed by hand; `exchange` follows."""
        ...

    def exchange(self, arrived: Iterable[str] = ()) -> None: ...

    def step(self) -> None: ...

    def go(self, seconds: float, max_steps: int = ENDLESS, pause: float = inf) -> None:
        """Step until the end, until about `seconds` have passed, `max_steps` steps, or until the first one
        that has reached the time `pause`."""
        ...

    @property
    def event_driven(self) -> bool:
        """Whether nothing happens between the ends of steps, which are known before (`EventDriven`)."""
        ...

    def target(self) -> float:
        """Where the next step will end, if that is `event_driven`."""
        ...

    def set_time(self, t: float) -> None:
        """Go on from this time, to which the machine was set back."""
        ...


# ----------------------------------------------------------------------------------------------------

SHOWN = 5
"""So many changes of a parameter are listed in a note."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value for an input that nothing drives, or for a parameter."""

    name: str
    unit: str
    port: Port
    values: Values

    @property
    def signal(self) -> Signal:
        """As a unit takes it."""
        return self.values[0] if self.port.size is None else self.values


Changes = Mapping[str, Sequence[Sequence[Any]]]
"""By parameter: a time and the values of its cells from then on, for each change."""


class ManualChanges:
    """What has been set in one run, and which of it has not been exchanged yet.

    `changes` are those of parameters so far: where they are is no part of a unit's state, nor of a trace.
    `later` is what signals say: from a time on, this one has these values.
    """

    def __init__(
        self,
        program: Program,
        scenario: Scenario,
        changes: Changes | None = None,
        later: Iterable[tuple[float, str, Values]] = (),
    ) -> None:
        self._later = deque(sorted(later, key=lambda change: change[0]))
        self._planned = {name for _, name, _ in self._later}
        self._program = program
        self._scenario = scenario
        self._stale = False
        self._arrived: dict[str, None] = {}
        self._pending: set[str] = set()  # events that have been set and not happened yet
        self._forgetful: dict[tuple[str, str], tuple[Reg, ...]] = {}
        self.changes = {name: [list(change) for change in made] for name, made in (changes or {}).items()}

    @cached_property
    def _parameters(self) -> dict[str, tuple[str, Port]]:
        return self._scenario.parameters

    def checked(self, name: str, value: Signal) -> Given:
        """The input or the parameter of this name, if it can be set to this value."""
        check_type(name, str, "the name of an input or a parameter")
        if name in self._planned:
            raise InvalidInput(f"'{name}' follows a signal: leave out the signal to set it by hand")
        return self._given(name, value)

    def _parameter(self, name: str) -> str:
        """A parameter of an adapted unit keeps the name that it had."""
        if name in self._parameters:
            return name
        short = without_inside(name)
        return next((known for known in self._parameters if without_inside(known) == short), name)

    def _given(self, name: str, value: Signal) -> Given:
        free = self._scenario.free_inputs
        name = name if name in free else self._parameter(name)
        if name not in free and name not in self._parameters:
            known = [*free, *self._parameters]
            raise InvalidInput(
                f"'{name}' is neither a parameter nor an input that can be set. "
                f"{suggest(name, known, 'free inputs and parameters')}"
            )
        unit, port = free[name] if name in free else self._parameters[name]
        if name not in free and (why := self._scenario.why_fixed(unit, port.name)) is not None:
            raise InvalidInput(
                f"the parameter '{name}' cannot change during a run: {why}. Give it before the run "
                f'(scenario.with_values({{"{name}": …}})), or make it an input with a start value if the '
                "model can have one: an input that nothing drives keeps its value until run.set gives another"
            )
        return Given(name, unit, port, port.values(value, name))

    @property
    def pause(self) -> float:
        """When the next one is to be set that signals tell of."""
        return self._later[0][0] if self._later else inf

    def follow(self, machine: Machine, drive: Drive, *, done: bool = False) -> None:
        """Set what signals say up to the present time, unless that is `done`."""
        due: dict[str, Values] = {}
        while self._later and self._later[0][0] <= drive.time:
            _, name, values = self._later.popleft()
            due[name] = values
        for name, values in due.items() if not done else ():
            self.set(machine, drive, self._given(name, values), restart=True)

    def set(self, machine: Machine, drive: Drive, given: Given, *, restart: bool) -> None:
        """Hand it over, and let its readers forget what was before, if `restart` says so."""
        unit, port, values = given.unit, given.port, given.values
        if port.event:
            if given.name in self._pending:  # one after the other, both at the present time
                self.refresh(drive)
            self._pending.add(given.name)
        drive.before_change()
        machine.set_input(unit, port.name, given.signal)
        if port.causality is Causality.PARAMETER:
            self.changes.setdefault(given.name, []).append([drive.time, *values])
        held = self._program.columns.get(given.name)
        if held is not None and not held.output:  # an input without a source has a register of its own
            for i, cell in enumerate(values):
                machine.write(held.register + i, cell)
        if unit in self._program.arrivals and port.event:
            self._arrived[unit] = None
        if restart:
            for register in self._histories(unit, port.name):
                machine.write(register, -inf)
        self._stale = True

    def parameter(self, name: str) -> Signal | None:
        """The present value of a parameter; None if there is none of that name."""
        name = self._parameter(name)
        if name not in self._parameters:
            return None
        _, port = self._parameters[name]
        values = tuple(self.changes[name][-1][1:]) if name in self.changes else port.initial
        return values[0] if port.size is None else values

    def again(self, machine: Machine) -> None:
        """Give parameters the values that they had got, before a state of then is restored."""
        for name, made in self.changes.items():
            given = self._given(name, made[-1][1:])
            machine.set_input(given.unit, given.port.name, given.signal)

    @property
    def notes(self) -> list[str]:
        """What a trace says about parameters that were changed: the last few changes of each."""
        found = []
        for name, made in self.changes.items():
            shown = [f"{_shown(values)} at t = {t:.9g}" for t, *values in made[-SHOWN:]]
            before = f"{len(made) - SHOWN:,} times before, then " if len(made) > SHOWN else ""
            how = "by its signal" if name in self._planned else "by hand"
            found.append(f"the parameter '{name}' was set {how}: {before}{', '.join(shown)}")
        return found

    def refresh(self, drive: Drive) -> None:
        """Exchange again at the present time, if something has been set since."""
        if self._stale:
            drive.exchange(self._arrived)
            self._arrived = {}
            self._pending.clear()
            self._stale = False

    def _histories(self, unit: str, port: str) -> tuple[Reg, ...]:
        """What to forget when this input is set; found once for each."""
        end = (unit, port)
        if end not in self._forgetful:
            self._forgetful[end] = forgetful(self._program, self._scenario.units, unit, port)
        return self._forgetful[end]


def _shown(values: Sequence[Value]) -> str:
    texts = [f"{value:.9g}" if isinstance(value, float) else str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
