"""Ports: the typed, named variables through which units talk, and the values they carry."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from upbeat.core.errors import ModelError

Value = float | int | bool | str
"""What one cell carries."""
Values = tuple[Value, ...]
"""One value per cell, also for a scalar: how start values are stored."""
Signal = Value | Sequence[Value]
"""What a unit is given and gives: a plain value for a scalar port, a sequence for an array."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


_ZEROS: dict[str, Value] = {"real": 0.0, "integer": 0, "boolean": False, "string": ""}


class Kind(enum.Enum):
    """What one cell of a port holds. An enumeration is an INTEGER port with `items`."""

    REAL = "real"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    STRING = "string"

    @property
    def zero(self) -> Value:
        """The value of a cell of this kind that nobody has given one."""
        return _ZEROS[self.value]


class Causality(enum.Enum):
    """Who writes a port: the master (INPUT), the unit (OUTPUT), or the user before the run (PARAMETER)."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class Port:
    """One named variable of a model.

    * `size` is None for a scalar and n for an array of n cells.
    * `unit` is a unit of measure (any text that pint reads); None means unspecified, "1" dimensionless.
    * `depends` (outputs): the inputs this output depends on *directly*, at the same instant.
    * `reactive` (inputs): True, the unit expects the value at the end of the step (thesis, definition
      39); False, the value at its start (*delayed*); None, it does not mind and the coupling chooses.
    * `derivative` (real outputs): the output of the same unit that is this one's time derivative.
    * `items`: the labels of an enumeration, in order; the value is the index.
    """

    name: str
    causality: Causality
    kind: Kind = Kind.REAL
    size: int | None = None
    unit: str | None = None
    start: Values | None = None
    depends: frozenset[str] = frozenset()
    reactive: bool | None = None
    derivative: str | None = None
    items: tuple[str, ...] = ()
    description: str = ""

    def __post_init__(self) -> None:
        if not _IDENTIFIER.match(self.name):
            raise ModelError(
                f"{self.name!r} is not a port name: use letters, digits and underscores, "
                "not starting with a digit"
            )
        if self.size is not None and self.size < 1:
            raise ModelError(f"port '{self.name}': an array needs at least one cell, not {self.size}")
        if self.start is not None:
            object.__setattr__(self, "start", self.values(self.start))

    @property
    def cells(self) -> int:
        """How many register cells the port fills."""
        return self.size or 1

    @property
    def initial(self) -> Values:
        """The start value, or zeros."""
        return self.start if self.start is not None else (self.kind.zero,) * self.cells

    def values(self, given: object) -> Values:
        """`given` (a scalar, a sequence, an enumeration label) as one checked value per cell."""
        items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(items) == 1 and self.cells > 1:
            items = items * self.cells
        if len(items) != self.cells:
            raise ModelError(
                f"port '{self.name}' has {self.cells} cell(s), but {len(items)} values were given"
            )
        return tuple(self._value(item) for item in items)

    def _value(self, item: object) -> Value:
        if hasattr(item, "item"):  # a NumPy scalar
            item = item.item()
        match self.kind:
            case Kind.REAL if isinstance(item, (int, float)) and not isinstance(item, bool):
                if math.isnan(item):
                    raise ModelError(f"port '{self.name}': NaN is not a value")
                return float(item)
            case Kind.INTEGER if self.items and isinstance(item, str):
                if item not in self.items:
                    raise ModelError(f"port '{self.name}': {item!r} is not one of {', '.join(self.items)}")
                return self.items.index(item)
            case Kind.INTEGER if isinstance(item, int) and not isinstance(item, bool):
                return item
            case Kind.BOOLEAN if isinstance(item, bool):
                return item
            case Kind.STRING if isinstance(item, str):
                return item
        raise ModelError(f"port '{self.name}' is {self.kind.value}, but was given {item!r}")
