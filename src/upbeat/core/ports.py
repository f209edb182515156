"""Ports: the typed, named variables through which units talk, and the values they carry."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.names import Labels, objection_to, objection_to_port
from upbeat.core.records import dataclass

Value = float | int | bool | str
"""What one cell carries."""
Values = tuple[Value, ...]
"""One value per cell, also for a scalar: how start values are stored."""
Signal = Value | Sequence[Value]
"""What a unit is given and gives: a plain value for a scalar port, a sequence for an array."""

MAX_CELLS = 100_000
"""The most cells of one port. More is a slip of the finger: every cell is a column of its own."""
MAX_CELLS_IN_ALL = 1_000_000
"""The most cells of all ports of a scenario."""

_ZEROS: dict[str, Value] = {"real": 0.0, "integer": 0, "boolean": False, "string": ""}


class Kind(enum.Enum):
    """What one cell of a port holds. An enumeration is an INTEGER port with `items`."""

    REAL = "real"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    STRING = "string"

    @property
    def zero(self) -> Value:
        """The value of a cell of this kind that was not given one."""
        return _ZEROS[self.value]


class Causality(enum.Enum):
    """Who writes a port: the master (INPUT), the unit (OUTPUT), or the user before the run (PARAMETER)."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class Port:
    """One named variable of a model.

    * `name` is any text that can be typed (see `upbeat.core.names`); equations need identifiers.
    * `size` is None for a scalar and n for an array of n cells.
    * `unit` is a unit of measure (see `upbeat.core.measure`); None means unspecified, "1" dimensionless.
    * `depends` (outputs): the inputs this output depends on *directly*, at the same instant.
    * `reactive` (inputs): True, the unit expects the value at the end of the step; False, the
      value at its start (*delayed*); None, it does not mind and the coupling chooses.
    * `derivative` (real outputs): the output of the same unit that is this one's time derivative.
    * `items`: the labels of an enumeration, in order; the value is the code of one, which is its index
      unless `codes` says otherwise.
    * `event` (inputs, outputs): the port has a value only at instants; in between it is absent. An event
      that says no more than that it happens is boolean, and always true.
    * `extra` (outputs): read only where something uses it; NaN as long as its value is not known, and then
      connected inputs keep what they have.
    * `internal`: made by a master for its own use. No trace shows it.
    * `indicates` (real outputs): the event inside the unit that happens when this number, or the largest of
      several with the same name here, falls to zero.
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
    event: bool = False
    codes: tuple[int, ...] = ()
    extra: bool = False
    internal: bool = False
    indicates: str = ""

    def __post_init__(self) -> None:
        if objection := objection_to_port(self.name):
            raise ModelError(f"{_short(self.name)} is not a port name: {objection}")
        for key, kind in (("causality", Causality), ("kind", Kind)):
            if not isinstance(getattr(self, key), kind):
                known = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
                given = _short(getattr(self, key))
                raise ModelError(f"port '{self.name}': {key} must be one of {known}, not {given}")
        if self.unit is not None and not isinstance(self.unit, str):
            raise ModelError(f"port '{self.name}': unit must be a text, not {_short(self.unit)}")
        if not isinstance(self.depends, frozenset):
            if isinstance(self.depends, str) or not isinstance(self.depends, Iterable):
                raise ModelError(f"port '{self.name}': depends must be names, not {_short(self.depends)}")
            listed = tuple(self.depends)
            if not all(isinstance(name, str) for name in listed):
                raise ModelError(f"port '{self.name}': depends must be names, not {_short(self.depends)}")
            object.__setattr__(self, "depends", frozenset(listed))
        if self.size is not None and (isinstance(self.size, bool) or not isinstance(self.size, int)):
            raise ModelError(f"port '{self.name}': size must be a whole number, not {_short(self.size)}")
        if self.size is not None and self.size < 1:
            raise ModelError(f"port '{self.name}': an array needs at least one cell, not {self.size}")
        if self.size is not None and self.size > MAX_CELLS:
            count = f"{self.size:,}" if self.size < 2**64 else _short(self.size)
            raise ModelError(f"port '{self.name}': an array has at most {MAX_CELLS:,} cells, not {count}")
        try:
            labels = Labels(self.items, self.codes)
        except ModelError as error:
            raise ModelError(f"port '{self.name}': {error}") from None
        except TypeError:
            raise ModelError(
                f"port '{self.name}': items and codes must be lists, of texts and numbers"
            ) from None
        object.__setattr__(self, "items", labels)
        object.__setattr__(self, "codes", labels.codes)
        if self.start is not None:
            object.__setattr__(
                self, "start", self.values(self.start, finite=False)
            )  # FMUs may have infinite ones
        if not isinstance(self.event, bool):
            raise ModelError(f"port '{self.name}': event must be True or False, not {_short(self.event)}")
        if self.event:
            self._check_event()

    def _check_event(self) -> None:
        if self.causality is Causality.PARAMETER:
            raise ModelError(f"port '{self.name}': a parameter cannot be an event")
        given = [
            key
            for key, value in (
                ("a start value", self.start),
                ("a derivative", self.derivative),
                ("reactive", self.reactive),
                ("depends", self.depends or None),
            )
            if value is not None
        ]
        if given:
            raise ModelError(
                f"port '{self.name}': an event is absent between instants, so it cannot have {given[0]}"
            )

    @property
    def cells(self) -> int:
        """How many register cells the port fills."""
        return self.size or 1

    @property
    def counts(self) -> bool:
        """Whether it is made by a master to learn that something has happened inside the unit: then it is
        another number."""
        return self.internal and self.causality is Causality.OUTPUT and self.kind is Kind.INTEGER

    @property
    def initial(self) -> Values:
        """The start value, or zeros; of an enumeration, its first label."""
        if self.start is not None:
            return self.start
        return (self.codes[0] if self.codes else self.kind.zero,) * self.cells

    def starting(self, start: Values | None) -> Port:
        """The same port with these start values, which `values` has checked."""
        made = object.__new__(Port)
        for name in Port.__slots__:
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(made, "start", start)
        if self.event:
            made._check_event()
        return made

    @property
    def labels(self) -> Labels:
        """The `items` with their `codes`."""
        return Labels.of(self.items)

    def values(self, given: object, called: str = "", *, finite: bool = True) -> Values:
        """`given` as one checked value per cell: a single value for all of them, or a list of all.

        An enumeration takes labels and codes. A `ModelError` speaks of the port as `called`.
        """
        name = called or self.name
        given = given.tolist() if hasattr(given, "tolist") else given  # NumPy
        if not isinstance(given, (tuple, list)):
            return (self.value(given, name, finite=finite),) * self.cells
        if len(given) != self.cells:
            raise ModelError(f"port '{name}' has {self.cells} cell(s), but {len(given)} values were given")
        return tuple(self.value(item, name, finite=finite) for item in given)

    def accept(self, given: object) -> list[Value]:
        """What a unit gave, one value per cell; TypeError or ValueError, with the reason, if it does not fit.

        More is welcome than in `values`: what Python counts as a number or a truth, and NaN, on which the
        engine has a word of its own.
        """
        entries = (given,) if self.size is None else tuple(given)  # type: ignore[arg-type]
        if len(entries) != self.cells:
            raise ValueError(f"{len(entries)} values")
        return [self.accepted(entry) for entry in entries]

    def accepted(self, entry: Any) -> Value:
        """What a unit gave for one cell."""
        match self.kind:
            case Kind.REAL:
                return float(entry)
            case Kind.BOOLEAN:
                return bool(entry)
            case Kind.STRING if not isinstance(entry, str):
                raise TypeError("not a string")
            case Kind.INTEGER if self.items and isinstance(entry, str):
                return self._index(entry)
            case Kind.INTEGER:
                return self._whole(operator.index(entry))
        return str(entry)

    def value(self, item: object, called: str = "", *, finite: bool = True) -> Value:
        """`item` as a checked value of one cell."""
        name = called or self.name
        if hasattr(item, "item"):  # a NumPy scalar
            item = item.item()
        try:
            match self.kind:
                case Kind.REAL if isinstance(item, (int, float)) and not isinstance(item, bool):
                    if math.isnan(item):
                        raise ValueError("NaN is not a value")
                    if finite and math.isinf(item):
                        raise ValueError("a value must be finite: write a large number, such as 1e30")
                    return float(item)
                case Kind.INTEGER if self.items and isinstance(item, str):
                    return self._index(item)
                case Kind.INTEGER if isinstance(item, int) and not isinstance(item, bool):
                    return self._whole(item)
                case Kind.BOOLEAN if isinstance(item, bool):
                    return item
                case Kind.STRING if isinstance(item, str):
                    return item
        except OverflowError:
            raise ModelError(f"port '{name}': the number is too large for a real") from None
        except ValueError as error:
            raise ModelError(f"port '{name}': {error}") from None
        raise ModelError(f"port '{name}' is {self.kind.value}, but was given {_short(item)}")

    def _index(self, label: str) -> int:
        if label not in self.items:
            raise ValueError(f"{_short(label)} is not one of {', '.join(self.items)}")
        return self.labels.code(label)

    def _whole(self, number: int) -> int:
        if self.items and number not in self.codes:
            what, have = "an index", f"0 to {len(self.items) - 1}"
            if not self.labels.default_codes:
                what, have = "a code", ", ".join(map(str, self.codes))
            raise ValueError(f"{_short(number)} is not {what} of {', '.join(self.items)} ({have})")
        if not -(2**63) <= number < 2**63:
            raise ValueError("an integer has 64 bits: this one lies beyond ±9.2e18")
        return number


EVENTS = Port("events()", Causality.OUTPUT, Kind.INTEGER, internal=True)
"""How often something has happened inside a unit that is no equations."""


def _short(given: object, width: int = 60) -> str:
    """How messages show a value; a number of a thousand digits is no help."""
    if isinstance(given, int) and not -(2**64) < given < 2**64:
        return "a huge number"
    shown = repr(given)
    return shown if len(shown) <= width else f"{shown[:width]}…"


def check_variable(name: str) -> None:
    """Refuse the name of a port that equations use, or code as a keyword, unless it is an identifier."""
    if objection := objection_to(name):
        raise ModelError(f"{_short(name)} is not a port name: {objection}")
