"""The running unit of equations with events: a solved unit that stops where something happens.

The order of operations is part of the meaning here, too: the native engine performs the same ones.

* An event is *armed* once its indicator has been above zero (and before anything has been looked at).
* Looking: an armed event whose indicator is not above zero becomes *due*, and is no longer armed.
* Acting: all new values are computed before any is written; then it is looked once more, so that one
  event may lead to another at the same time. Of events that write the same, the first one acts; the others
  are armed again, so that the next look decides whether they still happen.
* On the way an indicator that falls ends a step of the solver at its root; the event is due there. One that
  is zero and goes on falling has happened already: it is armed again by rising above zero only.
* What is sent while a step is under way waits for its end: of several events through one port the last.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from upbeat.core.errors import ModelError
from upbeat.core.ports import Signal
from upbeat.units.equations.events import Reaction, Reactions
from upbeat.units.inputs import check_packed, packed_size
from upbeat.units.solving.integrate import Watch
from upbeat.units.solving.solvers import SolverError
from upbeat.units.solving.unit import Behaviour, SolvedUnit, Token, from_number, state_size

MAX_EVENTS: Final = 10_000
"""So many events in a row within one step, or at one instant, are taken for an endless chain."""


def endless(events: str, t: float) -> str:
    """What a unit says whose events do not end on the way."""
    return (
        f"more than {MAX_EVENTS:,} events on the way, the last at t = {t:.9g}: {events}. A chain that does "
        "not end, such as a ball that bounces lower and lower, needs an end of its own: rests = true in that "
        "event (slides = true for a relay without hysteresis), or a condition under which it comes to rest"
    )


_Cells = tuple[float, ...] | None
"""The cells of an event, if it is there."""


class HybridUnit(SolvedUnit):
    """A solved unit with events. `values` are its parameters and variables, which `behaviour` reads."""

    def __init__(self, behaviour: Behaviour, start: float, plan: Reactions, values: list[float]) -> None:
        super().__init__(behaviour, start)
        self._plan = plan
        self._values = values
        self._z: Callable[[Sequence[float]], Sequence[float]] = plan.indicators.python()
        self._actions: Callable[[Sequence[float]], Sequence[float]] = plan.actions.python()
        self._armed = [True] * plan.watched
        self._due = [False] * plan.watched
        self._heard: list[_Cells] = [None] * len(plan.heard)
        self._unsent: list[_Cells] = [None] * len(plan.sent)
        self._fresh = False
        self._watch = Watch(self._watched)
        self._hears = {port.name: i for i, port in enumerate(plan.heard)}
        self._sends = {port.name: i for i, port in enumerate(plan.sent)}
        self._indicated = [event for event in plan.events if event.indicator >= 0]
        self._rivals = plan.rivals

    @property
    def constants(self) -> tuple[float, ...]:
        """The values of parameters and variables now."""
        return tuple(self._values)

    def put(self, state: Sequence[float]) -> None:
        """Other states from now on; what they make true will be seen."""
        super().put(state)
        self._fresh = False

    # -- looking -------------------------------------------------------------------------------

    def _watched(self, t: float, x: list[float]) -> Sequence[float]:
        return self._z((t, *x, *self._trajectories.at(t), *self._values))

    def _arguments(self) -> tuple[Any, ...]:
        return (self.time, *self._x, *self._trajectories.at(self.time), *self._values)

    def _look(self) -> None:
        """What is due at the unit's own time."""
        if self._fresh:
            return
        self._fresh = True
        for i, value in enumerate(self._z(self._arguments())):
            if value > 0.0:
                self._armed[i] = True
            elif self._armed[i]:
                self._armed[i], self._due[i] = False, True

    def due(self) -> float:
        """Now, if something has come true; else it will be seen on the way."""
        self._look()
        waits = any(self._due) or any(cells is not None for cells in self._unsent)
        return self.time if waits else math.inf

    # -- events --------------------------------------------------------------------------------

    def get(self, port: str) -> Signal | None:  # type: ignore[override]
        """An output now; of an event, what the next jump will send."""
        if port not in self._sends:
            return super().get(port)
        self._look()
        number = self._sends[port]
        known = self._plan.sent[number]
        found = self._unsent[number]
        if any(one.port == number for event in self._firing for one in event.sends):
            found = self._sending(self._results())[number]
        if found is None:
            return None
        deliver = from_number(known)
        cells = tuple(deliver(cell) for cell in found)
        return cells[0] if known.size is None else cells

    @property
    def _firing(self) -> list[Reaction]:
        return [event for event in self._indicated if self._happens(event.indicator)]

    def _happens(self, indicator: int) -> bool:
        return self._due[indicator] and not any(self._due[rival] for rival in self._rivals[indicator])

    def _sending(self, results: Sequence[float]) -> list[_Cells]:
        """What is sent, what has been waiting included."""
        found = self._unsent.copy()
        for one in (one for event in self._firing for one in event.sends):
            if results[one.first]:
                after = one.first + 1
                found[one.port] = tuple(results[after : after + self._plan.sent[one.port].cells])
        return found

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k; an event waits for the next jump."""
        self._fresh = False
        if port not in self._hears:
            super().set(port, coefficients)
            return
        number = self._hears[port]
        known = self._plan.heard[number]
        (given,) = coefficients
        cells = (given,) if known.size is None else tuple(given)  # type: ignore[arg-type]
        self._heard[number] = tuple(float(cell) for cell in cells)  # type: ignore[arg-type]

    def jump(self) -> bool:
        """Everything that is due, and everything that waits for events that have come."""
        self._look()
        self._act()
        self._unsent = [None] * len(self._unsent)
        return any(self._due)

    def _results(self) -> Sequence[float]:
        heard = (
            cell
            for port, cells in zip(self._plan.heard, self._heard, strict=True)
            for cell in (cells or (0.0,) * port.cells)
        )
        return self._actions((*self._arguments(), *heard))

    def _act(self) -> None:
        results = self._results()
        self._unsent = self._sending(results)
        states = len(self._x)
        self._x = self._x.copy()
        for event in self._plan.events:
            waited = any(self._heard[port] is not None for port in event.on)
            if not (waited or (event.indicator >= 0 and self._happens(event.indicator))):
                continue
            for target, place in event.writes:
                if target < states:
                    self._x[target] = results[place]
                else:
                    self._values[target - states] = results[place]
        for i, due in enumerate(self._due):
            if due and not self._happens(i):
                self._armed[i] = True
        self._due = [False] * len(self._due)
        self._heard = [None] * len(self._heard)
        self._cached = None
        self._forget()
        self._fresh = False
        self._look()

    # -- on the way ----------------------------------------------------------------------------

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Integrate to `to`, or with `early` to the first event; without it, act on events on the way."""
        if to < t:
            raise SolverError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        rounds = 0
        self._look()
        while True:
            while any(self._due):
                rounds += 1
                if rounds > MAX_EVENTS:
                    raise SolverError(self._endless())
                self._act()
            if self.time >= to:
                return self.time
            self._go(to)
            if any(self._due) and (early or self.time >= to):
                return self.time

    def _go(self, to: float) -> None:
        """As far as the next event that becomes due, and not beyond `to`."""
        solver = self._chosen()
        while self.time < to:
            self._watch.begin(self._z(self._arguments()))
            self._x = solver.advance(self._rhs, self.time, self._x, to, self._watch)
            self.time = self._watch.time if self._watch.stopped else to
            self._cached = None
            self._fresh = True
            for i, value in enumerate(self._watch.z):
                if value > 0.0:
                    self._armed[i] = True
            for i in self._watch.crossed if self._watch.stopped else ():
                if not self._watch.z[i] > 0.0:
                    self._armed[i], self._due[i] = False, True
            if any(self._due):
                return

    def _endless(self) -> str:
        names = ", ".join(f"'{event.name}'" for event in self._firing)
        return endless(names, self.time)

    def _forget(self) -> None:
        """After a jump of the state nothing that the solver remembers is right; the length of a step is."""
        if hasattr(self._solver, "forget"):
            self._solver.forget()

    # -- states --------------------------------------------------------------------------------

    def save(self) -> Token:
        """As without events; then what can change, which events are armed and which due, those that came and
        those that wait to be sent."""
        plan = self._plan
        events = [
            number
            for port, cells in zip((*plan.heard, *plan.sent), (*self._heard, *self._unsent), strict=True)
            for number in (float(cells is not None), *(cells or (0.0,) * port.cells))
        ]
        values = (self._values[place] for place in self._plan.mutable)
        flags = (float(flag) for flag in (*self._armed, *self._due))
        return (*super().save(), *values, *flags, *events)

    def restore(self, token: Token) -> None:
        """Set back to what `save` gave."""
        first = len(token) - self._plan.extra
        super().restore(token[:first])
        rest = [float(number) for number in token[first:]]
        for place, value in zip(self._plan.mutable, rest, strict=False):
            self._values[place] = value
        rest = rest[len(self._plan.mutable) :]
        count = self._plan.watched
        self._armed = [flag != 0.0 for flag in rest[:count]]
        self._due = [flag != 0.0 for flag in rest[count : 2 * count]]
        rest = rest[2 * count :]
        for kept, ports in ((self._heard, self._plan.heard), (self._unsent, self._plan.sent)):
            for i, port in enumerate(ports):
                kept[i] = tuple(rest[1 : 1 + port.cells]) if rest[0] else None
                rest = rest[1 + port.cells :]
        self._fresh = False

    def from_bytes(self, data: bytes) -> Token:
        """The token that `to_bytes` was given."""
        plain = state_size(len(self._x), self._is.solver, self._is.inputs)
        size = plain + self._plan.extra
        if len(data) != 8 * size:
            raise ModelError(f"not a state of this unit: expected {8 * size} bytes, not {len(data)}")
        token = struct.unpack(f"<{size}d", data)
        check_packed(self._is.inputs, token[plain - packed_size(self._is.inputs) : plain])
        return token
