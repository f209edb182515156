"""Models around another model that change how its units are run: at a rate of their own, or with rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any, TypeAlias

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import ModelError
from upbeat.core.names import ADAPTED
from upbeat.core.ports import Causality, Port, Signal, Value
from upbeat.core.records import dataclass
from upbeat.units.inputs import packed_size
from upbeat.units.python import Sampled, check_sampled
from upbeat.units.shorthand import Complaints, unwrapped
from upbeat.units.solving.unit import SolvedUnit

# ----------------------------------------------------------------------------------------------------
# A rate of its own.


@dataclass(frozen=True)
class Resampled:
    """A model whose units run at a rate of their own, whatever the communication step is.

    At the start and every `every` seconds after it, and at no other time, a unit is advanced by that long
    with the inputs it was told last, told the inputs of that instant, and asked for its outputs, which are
    held.
    """

    model: Model
    every: float

    def __post_init__(self) -> None:
        complaints = Complaints()
        check_sampled(self.model.ports, self.every, complaints, "every")
        if Ability.NEXT_EVENT in self.model.abilities:
            complaints.add("model", "it has events of its own, at times that a rate would miss")
        complaints.raise_if_any()

    @property
    def ports(self) -> tuple[Port, ...]:
        """Those of the model; what is held does not follow inputs."""
        return tuple(
            replace(port, depends=frozenset(), derivative=None)
            if port.causality is Causality.OUTPUT
            else port
            for port in self.model.ports
        )

    @property
    def abilities(self) -> frozenset[Ability]:
        kept = {Ability.ROLLBACK, Ability.SERIALISE} & self.model.abilities
        return frozenset({Ability.NEXT_EVENT, *kept})

    def instantiate(self, name: str, start: float) -> Any:
        """A unit, in its start state."""
        unit: Any = self.model.instantiate(name, start)
        if type(unit) is SolvedUnit:
            unit = Stepped(unit, [p for p in self.ports if p.causality is Causality.INPUT])
        return Sampled(unit, self.ports, float(self.every), start)

    @property
    def remembers(self) -> tuple[str, ...]:
        """What the bytes of its states hold: what the unit inside does, and when it runs next."""
        inside = self.model
        return (type(inside).__qualname__, repr(float(self.every)), *getattr(inside, "remembers", ()))

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Resampled:
        """The same with other values of the model."""
        return replace(self, model=self.model.with_values(_of_inside(self.model, values)))

    @property
    def adapts(self) -> tuple[Model, str]:
        """The model inside, and what a file calls this."""
        return self.model, f"every {self.every!r}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of it."""
        inside = getattr(self.model, "notes", ())
        said = f"every {self.every!r}: runs in Python, at {self.every!r} s and its multiples after the start"
        return (*inside, f"{said}; its outputs are held")

    def around(self, model: Model) -> Resampled:
        """The same around another model."""
        return self if model is self.model else replace(self, model=model)


class Stepped:
    """A solved unit whose inputs are held over every step: what it remembers is its time, its states and
    these values, and not when they were given, which would look like one more state."""

    def __init__(self, unit: SolvedUnit, inputs: Sequence[Port]) -> None:
        self._unit, self._inputs = unit, tuple(inputs)
        self.get, self.set, self.advance = unit.get, unit.set, unit.advance

    def save(self) -> tuple[Any, ...]:
        """Time and states, then the cells of inputs."""
        token = self._unit.save()
        at = len(token) - packed_size(self._inputs)
        found = list(token[:at])
        for port in self._inputs:
            found += token[at + 2 : at + 2 + port.cells]
            at += packed_size([port])
        return tuple(found)

    def _whole(self, token: Sequence[Any]) -> tuple[Any, ...]:
        """The token of the unit itself."""
        at = len(token) - sum(port.cells for port in self._inputs)
        found = list(token[:at])
        for port in self._inputs:
            rest = packed_size([port]) - 2 - port.cells
            found += (token[0], 1.0, *token[at : at + port.cells], *(0.0,) * rest)
            at += port.cells
        return tuple(found)

    def restore(self, token: tuple[Any, ...]) -> None:
        """Set back to what `save` gave."""
        self._unit.restore(self._whole(token))

    def to_bytes(self, token: tuple[Any, ...]) -> bytes:
        """Those of the unit itself."""
        return self._unit.to_bytes(self._whole(token))

    def from_bytes(self, data: bytes) -> tuple[Any, ...]:
        """The token that `to_bytes` was given."""
        kept = self._unit.save()
        self._unit.restore(self._unit.from_bytes(data))
        found = self.save()
        self._unit.restore(kept)
        return found


Values: TypeAlias = Mapping[str, Value | Sequence[Value]]


def _of_inside(model: Model, values: Values) -> Values:
    """Values of the unit inside by the names that it knows: ``unit.T``, the whole way, is ``T``."""
    nested = any(port.name.startswith(f"{ADAPTED}.") for port in model.ports)
    return values if nested else {name.removeprefix(f"{ADAPTED}."): x for name, x in values.items()}


# ----------------------------------------------------------------------------------------------------
# Rollback by replaying.


@dataclass(frozen=True)
class Replayed:
    """A model whose units can be set back although those of `model` cannot.

    What a unit was told is remembered. At a saved point a second instance has been told the same, and takes
    the place of the first when that is set back; another one is made when the next point is saved. The two
    must show the same there, or the run ends: a unit that is random, or reads a clock, cannot be replayed.
    Going back costs a run from the start to the point, so this is for units that are quick or seldom set
    back.
    """

    model: Model

    @property
    def ports(self) -> tuple[Port, ...]:
        """Those of the model."""
        return self.model.ports

    @property
    def abilities(self) -> frozenset[Ability]:
        here = {Ability.NATIVE, Ability.SERIALISE, Ability.THREADS, Ability.MOVES, Ability.INDICATORS}
        return (self.model.abilities - here) | {Ability.ROLLBACK}

    def instantiate(self, name: str, start: float) -> ReplayedUnit:
        """A unit, in its start state."""
        return ReplayedUnit(self.model, name, start)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Replayed:
        """The same with other values of the model."""
        return Replayed(self.model.with_values(_of_inside(self.model, values)))

    @property
    def adapts(self) -> tuple[Model, str]:
        """The model inside, and what a file calls this."""
        return self.model, "replay"

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of it."""
        said = "replay: runs in Python, with a second instance that is told the same and takes its place"
        return (*getattr(self.model, "notes", ()), f"{said} where it is set back")

    def around(self, model: Model) -> Replayed:
        """The same around another model."""
        return self if model is self.model else Replayed(model)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call of a unit, what it gave, and the calls before it: a chain that going back leaves as it is."""

    before: _Call | None
    name: str
    arguments: tuple[Any, ...]
    gave: Any
    count: int


class ReplayedUnit:
    """A unit that remembers what it was told, and a second instance at the last point that was saved."""

    def __init__(self, model: Model, name: str, start: float) -> None:
        self._model, self._name, self._start = model, name, start
        self._outputs = [p.name for p in model.ports if p.causality is Causality.OUTPUT and not p.event]
        self._last: _Call | None = None
        self._unit: Any = self._fresh()
        self._spare: Any = None
        self._spare_at: _Call | None = None

    def _fresh(self) -> Any:
        try:
            return self._model.instantiate(self._name, self._start)
        except Exception as error:
            if not hasattr(self, "_unit"):
                raise
            raise ModelError(
                f"to be set back it needs a second instance, and there is none: {error}"
            ) from error

    def _call(self, name: str, *arguments: Any) -> Any:
        gave = getattr(self._unit, name)(*arguments)
        count = 1 + (0 if self._last is None else self._last.count)
        self._last = _Call(self._last, name, arguments, gave, count)
        return gave

    def get(self, port: str) -> Signal | None:
        """An output; asking changes nothing, and is not remembered."""
        found: Signal | None = self._unit.get(port)
        return found

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """An input, which is remembered as it is."""
        self._call("set", port, tuple(unwrapped(c) for c in coefficients))

    def advance(self, t: float, to: float, early: bool) -> float:
        """A step, which is remembered."""
        return float(self._call("advance", t, to, early))

    def jump(self) -> bool:
        """A micro-step, which is remembered."""
        return bool(self._call("jump"))

    def due(self) -> float:
        """When something happens by itself."""
        return float(self._unit.due())

    def save(self) -> _Call | None:
        """The point on its way where it is now; a second instance follows to it."""
        if self._last is not self._spare_at or self._spare is None:
            self._follow()
        return self._last

    def _follow(self) -> None:
        """Bring the second instance to where the first one is, and compare."""
        way = None if self._spare is None else _way(self._last, self._spare_at)
        if way is None:
            self._drop()
            self._spare, way = self._fresh(), _way(self._last, None)
        _replay(self._spare, way or ())
        self._spare_at = self._last
        for port in self._outputs:
            mine, other = unwrapped(self._unit.get(port)), unwrapped(self._spare.get(port))
            if mine != other and not (isinstance(mine, float) and isnan(mine)):
                raise ModelError(
                    f"it cannot be set back by replaying: with the same inputs, a second instance "
                    f"gives {other!r} "
                    f"for '{port}' where the first gives {mine!r}. A unit that is random, reads a clock or "
                    "shares something with other instances cannot be replayed"
                )

    def restore(self, token: _Call | None) -> None:
        """Back at a point that was saved."""
        before = self._unit
        if self._spare is not None and self._spare_at is token:
            self._unit, self._spare, self._spare_at = self._spare, None, None
        else:
            self._unit = self._fresh()
            _replay(self._unit, _way(token, None) or ())
        self._last = token
        _close(before)

    def _drop(self) -> None:
        if self._spare is not None:
            _close(self._spare)
        self._spare, self._spare_at = None, None

    def close(self) -> None:
        """Let both instances go."""
        self._drop()
        _close(self._unit)


def _way(last: _Call | None, since: _Call | None) -> list[_Call] | None:
    """The calls after `since` up to the last, in their order; None if that one is not among those before."""
    found = []
    while last is not since:
        if last is None or (since is not None and last.count <= since.count):
            return None
        found.append(last)
        last = last.before
    return found[::-1]


def _replay(unit: Any, calls: Sequence[_Call]) -> None:
    for call in calls:
        gave = getattr(unit, call.name)(*call.arguments)
        if call.name == "advance" and gave != call.gave:
            raise ModelError(
                f"it cannot be set back by replaying: with the same inputs, a second instance "
                f"stops at {gave!r} "
                f"where the first stopped at {call.gave!r}"
            )


def _close(unit: Any) -> None:
    getattr(unit, "close", lambda: None)()
