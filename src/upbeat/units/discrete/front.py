"""What all front ends of `Discrete` share: they are written in other words, and run as what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from upbeat.core.abilities import Ability, Core, speaks_for_itself
from upbeat.core.expr import Expr, show
from upbeat.core.ports import Port, Value
from upbeat.units.discrete.model import Discrete
from upbeat.units.shorthand import unwrapped

if TYPE_CHECKING:
    from upbeat.units.discrete.unit import DiscreteTables, DiscreteUnit


@dataclass(frozen=True, init=False)
class FrontEnd:
    """A model that is a `Discrete` one inside. Two are equal if they were written the same way.

    `discrete` is what it means; `written` is the part of the description that values do not change, as text.
    """

    discrete: Discrete
    written: str

    def __init__(self, discrete: Discrete, written: Mapping[str, Any]) -> None:
        object.__setattr__(self, "discrete", discrete)
        object.__setattr__(self, "written", json.dumps(plain_of(written)))

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters."""
        return self.discrete.ports

    @property
    def abilities(self) -> frozenset[Ability]:
        own = self.discrete.abilities
        return own if speaks_for_itself(type(self)) else own - {Ability.NATIVE}

    @property
    def still(self) -> bool:
        """Whether nothing but its own time changes between two jumps."""
        return self.discrete.still and speaks_for_itself(type(self))

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same model with other values."""
        raise NotImplementedError

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``type(model)(**model.to_spec()) == model``."""
        raise NotImplementedError

    def instantiate(self, name: str, start: float) -> DiscreteUnit:
        """A unit for the interpreter, in its start state."""
        return self.discrete.instantiate(name, start)

    def enter(self, core: Core, name: str, start: float) -> object:
        """A unit for the native engine, in its start state."""
        return self.discrete.enter(core, name, start)

    def lower(self, start: float) -> DiscreteTables:
        """The same unit as flat tables, for the native engine, in its state at time `start`."""
        return self.discrete.lower(start)

    def __reduce__(self) -> tuple[Any, ...]:
        # As it was written: short, and independent of what it is compiled to.
        return _rebuild, (type(self), self.to_spec())


def _rebuild(kind: type[Any], spec: dict[str, Any]) -> Any:
    return kind(**spec)


def plain_of(value: Any) -> Any:
    """A description as texts, numbers, lists and tables: what a file can hold."""
    value = unwrapped(value)
    if isinstance(value, Mapping):
        return {str(key): plain_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_of(item) for item in value]
    return show(value) if isinstance(value, Expr) else value
