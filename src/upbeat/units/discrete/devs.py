"""The running unit of a `PythonDiscrete`: total state (x, elapsed), kept as x, since when and until when."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import KeptNumbers
from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import Kind, Port, Signal
from upbeat.core.records import dataclass
from upbeat.units.discrete.model import dumps, is_fixed, loads
from upbeat.units.discrete.unit import DiscreteError
from upbeat.units.python import flat
from upbeat.units.shorthand import plain

if TYPE_CHECKING:
    from upbeat.units.discrete.python import PythonDiscrete


@dataclass(frozen=True)
class Token:
    """All that the future depends on. `state` belongs to the token alone, or cannot be changed."""

    time: float
    since: float
    until: float
    state: Any
    events: tuple[tuple[str, Any], ...]


class DevsUnit:
    """One running unit. `until` is computed once, when a state is entered, so that it compares exactly."""

    def __init__(self, model: PythonDiscrete, start: float) -> None:
        self._is = model
        self._more = (model.values,) if model.parameters else ()
        self._heard = {port.name: port for port in model.inputs}
        self._sent = {port.name: port for port in model.outputs if port.event}
        self._shown = [port for port in model.outputs if not port.event]
        self.time = start
        self._events: dict[str, Any] = {}
        lasts = self._enter(_own(model.start), start - model.elapsed)
        if lasts < model.elapsed:
            raise ModelError(f"elapsed is {model.elapsed:g}, but the state at first lasts only {lasts:g}")

    def _enter(self, state: Any, since: float) -> float:
        """Let `state` begin at `since`, and say how long it lasts."""
        self._state, self._since = state, since
        self._values: dict[str, Signal] | None = None
        self._sending: dict[str, Signal] | None = None
        lasts = math.inf if self._is.time_advance is None else self._is.time_advance(state, *self._more)
        if isinstance(lasts, bool) or not hasattr(lasts, "__float__") or not float(lasts) >= 0.0:
            raise DiscreteError(
                f"time_advance gave {_short(lasts)} for the state {_short(state)}: "
                "a state lasts 0 or more, or math.inf"
            )
        self._until = since + float(lasts)
        return float(lasts)

    def due(self) -> float:
        """When the state ends by itself."""
        return self._until

    def get(self, port: str) -> Signal | None:
        """An ordinary output now; of an event output what the next jump sends, None if that is nothing."""
        if port in self._sent:
            if self._until > self.time or self._events:
                return None
            if self._sending is None:
                self._sending = self._outgoing()
            return self._sending.get(port)
        if self._values is None:
            self._values = self._show()
        if port not in self._values:
            hint = suggest(port, [*self._values, *self._sent], "outputs")
            raise ModelError(f"there is no output '{port}'. {hint}")
        return self._values[port]

    def _outgoing(self) -> dict[str, Signal]:
        given = None if self._is.output is None else self._is.output(self._state, *self._more)
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise DiscreteError(f"output returned {_short(given)}: give a dict of events, or None")
        found: dict[str, Signal] = {}
        for name, value in given.items():
            if name not in self._sent:
                hint = suggest(str(name), self._sent, "event outputs")
                raise DiscreteError(f"output returned an unknown '{name}'. {hint}")
            if value is None:
                continue
            port = self._sent[name]
            signal = _accepted(port, value, "output")
            if (
                signal is not False or port.kind is not Kind.BOOLEAN
            ):  # an event that only happens, or does not
                found[name] = signal
        return found

    def _show(self) -> dict[str, Signal]:
        if self._is.shows is None:
            return {}
        cells = iter(flat(self._is.shows(self._state, *self._more), self._shown, "shows"))
        values: dict[str, Signal] = {}
        for port in self._shown:
            taken = [next(cells) for _ in range(port.cells)]
            values[port.name] = _accepted(port, taken[0] if port.size is None else taken, "shows")
        return values

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """An event comes in: the next jump takes it."""
        if port not in self._heard:
            raise ModelError(f"there is no input '{port}'. {suggest(port, self._heard, 'inputs')}")
        if len(coefficients) != 1:
            raise ModelError(f"an event has one value, not {len(coefficients)} coefficients")
        known = self._heard[port]
        try:
            value = plain(known, tuple(known.accept(coefficients[0])))
        except (TypeError, ValueError) as error:
            raise ModelError(f"event '{port}': {error}") from None
        self._events[port] = tuple(value) if known.size is not None else value

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Move the clock: nothing happens between events."""
        if to < t:
            raise DiscreteError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        self.time = to
        return to

    def jump(self) -> bool:
        """Take the events that have come in, or end the state if it is due; True if that is due again."""
        if self._events:
            assert self._is.external is not None  # as there are inputs
            events, self._events = self._events, {}
            state = self._is.external(self._state, self.time - self._since, events, *self._more)
            self._enter(self._next(state, "external"), self.time)
        elif self._until <= self.time:
            assert self._is.internal is not None  # as there is a time advance
            self._enter(self._next(self._is.internal(self._state, *self._more), "internal"), self.time)
        return self._until <= self.time

    def _next(self, state: Any, function: str) -> Any:
        if state is None and self._state is not None:
            raise DiscreteError(f"{function} returned None: it must return the new state")
        return state

    def save(self) -> Token:
        """Everything that the future depends on."""
        events = tuple(self._events.items())
        return Token(self.time, self._since, self._until, _own(self._state), events)

    def kept_numbers(self) -> KeptNumbers:
        """Whatever is in the state; and how long it lasts must not depend on that."""
        return KeptNumbers((("state",),), times=(("since",), ("until",)), modes=(("state",),))

    def restore(self, token: Token) -> None:
        """Set back to what `save` gave."""
        self.time, self._since, self._until = token.time, token.since, token.until
        self._state = _own(token.state)
        self._events = dict(token.events)
        self._values = self._sending = None

    def to_bytes(self, token: Token) -> bytes:
        """A text of plain values (`upbeat.units.discrete.model`)."""
        state = token.state if self._is.to_bytes is None else self._is.to_bytes(token.state)
        if self._is.to_bytes is not None and not isinstance(state, bytes):
            raise DiscreteError(f"to_bytes returned {_short(state)}, but must return bytes")
        try:
            return dumps((token.time, token.since, token.until, state, token.events)).encode()
        except TypeError as error:
            raise DiscreteError(
                f"the state {_short(token.state)} cannot be turned into bytes: {error}. "
                "Give functions that can do it: to_bytes=…, from_bytes=…"
            ) from None

    def from_bytes(self, data: bytes) -> Token:
        """The token that `to_bytes` was given."""
        try:
            read = loads(data)
        except ValueError as error:
            raise ModelError(f"not a state of this unit: {error}") from None
        match read:
            case (float() as time, float() as since, float() as until, state, tuple() as events):
                self._check_events(events)
            case _:
                raise ModelError("not a state of this unit: expected times, a state and events")
        return Token(
            time, since, until, state if self._is.from_bytes is None else self._is.from_bytes(state), events
        )

    def _check_events(self, events: Iterable[Any]) -> None:
        for event in events:
            match event:
                case (str() as name, _) if name in self._heard:
                    pass
                case _:
                    raise ModelError(f"not a state of this unit: there is no event {_short(event)}")


def _own(state: Any) -> Any:
    """The state, or a copy of it if it could be changed."""
    return state if is_fixed(state) else copy.deepcopy(state)


def _accepted(port: Port, value: Any, function: str) -> Signal:
    """What `function` gave for `port`, as the engine takes it."""
    value = value.tolist() if hasattr(value, "tolist") else value
    try:
        cells = port.accept(value)
    except (TypeError, ValueError) as error:
        size = "" if port.size is None else f"[{port.size}]"
        raise DiscreteError(
            f"{function} gave {_short(value)} for '{port.name}', which is {port.kind.value}{size}: {error}"
        ) from None
    return cells[0] if port.size is None else tuple(cells)


def _short(value: Any, width: int = 60) -> str:
    shown = repr(value)
    return shown if len(shown) <= width else f"{shown[:width]}…"
