"""Start values of an FMU's variables: which may be given, and what they may be.

FMI's rules are kept before the FMU is called, because what an FMU does with a value that it does not
expect is anybody's guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upbeat.core.errors import ModelError, suggest
from upbeat.core.names import resolve
from upbeat.core.ports import Causality as Direction
from upbeat.core.ports import Kind, Port, Value, Values
from upbeat.units.fmi.description import Causality, Initial, ModelDescription, Type, Variability, Variable
from upbeat.units.fmi.ports import kind_of, plain, reshaped

Starts = dict[str, Values]
"""The values that somebody gave, one per cell, by the name of the variable."""


def refusal(variable: Variable) -> str:
    """Why nobody may give this variable a start value; empty if one may."""
    if variable.causality is Causality.INDEPENDENT:
        return "it is the time, which the run gives: see start and until"
    if variable.type is Type.CLOCK:
        return "it is a clock, which has no value"
    if variable.variability is Variability.CONSTANT:
        return "it is a constant of the model"
    if variable.initial is Initial.CALCULATED:
        return "the FMU calculates it"
    return ""


def settable(description: ModelDescription) -> list[str]:
    """The names of everything that can be given a start value."""
    return [variable.name for variable in description.variables if not refusal(variable)]


def with_starts(
    description: ModelDescription, before: Mapping[str, Values], more: Mapping[str, Any]
) -> Starts:
    """The start values with some more, all of them checked. `ModelError` has every complaint."""
    found = dict(before)
    complaints: list[tuple[str, str]] = []
    by_name = description.by_name
    # Structural parameters first: they say how large the others are.
    structural = Causality.STRUCTURAL_PARAMETER
    order = sorted(more, key=lambda key: key not in by_name or by_name[key].causality is not structural)
    for key in order:
        try:
            name, cell = _place(key, description)
            variable = reshaped(by_name[name], sizes_of(description, found))
            found[name] = _checked(variable, more[key], cell, found.get(name))
        except ModelError as error:
            complaints.append((key, str(error)))
    complaints += _misfits(description, found, set(more)) if not complaints else []
    if complaints:
        raise ModelError("\n".join(what for _, what in complaints), complaints)
    return found


def sizes_of(description: ModelDescription, starts: Mapping[str, Values]) -> dict[str, int]:
    """The structural parameters that have been given another value."""
    by_name = description.by_name
    found: dict[str, int] = {}
    for name, values in starts.items():
        if by_name[name].causality is Causality.STRUCTURAL_PARAMETER and isinstance(values[0], int):
            found[by_name[name].alias_of or name] = int(values[0])
    return found


def _place(key: str, description: ModelDescription) -> tuple[str, int | None]:
    """The variable that `key` names, and the cell if it names only one."""
    by_name = description.by_name
    name, cell = resolve(key, by_name)
    if name not in by_name:
        hint = suggest(key, settable(description), "variables that can be set")
        raise ModelError(f"the FMU has no variable '{key}' to set. {hint}")
    if why := refusal(by_name[name]):
        raise ModelError(f"'{name}' cannot be set: {why}")
    return name, cell


def _checked(variable: Variable, given: object, cell: int | None, before: Values | None) -> Values:
    name = variable.name
    array = bool(variable.dimensions)
    if cell is None:
        return _values(variable, given, variable.cells if array else None)
    if not array or cell >= variable.cells:
        have = f"has the cells {name}[0] … [{variable.cells - 1}]" if array else "is a single value"
        raise ModelError(f"there is no '{name}[{cell}]': '{name}' {have}")
    values = list(before or _declared(variable))
    (values[cell],) = _values(variable, given, None)
    return tuple(values)


def _declared(variable: Variable) -> Values:
    """What the description gives every cell."""
    start = tuple(plain(value) for value in variable.start or ())
    if len(start) == 1:
        return start * variable.cells
    if len(start) != variable.cells:
        raise ModelError(f"'{variable.name}' has no start value of its own: give all {variable.cells} cells")
    return start


def _values(variable: Variable, given: object, size: int | None) -> Values:
    port = Port("value", Direction.PARAMETER, kind_of(variable.type), size)
    if isinstance(given, bytes):
        given = given.hex()
    given = _as_written(port.kind, given)
    if variable.items:
        given = _codes(variable, given)
    values = port.values(given, variable.name)
    for value in values:
        _check(variable, value)
    return values


def _as_written(kind: Kind, given: object) -> object:
    """Numbers for what FMI's files write as numbers: 0 and 1 for booleans, 2.0 for a whole number."""
    given = given.tolist() if hasattr(given, "tolist") else given  # NumPy
    if isinstance(given, (list, tuple)):
        return [_as_written(kind, item) for item in given]
    if kind is Kind.BOOLEAN and isinstance(given, (int, float)) and given in (0, 1):
        return bool(given)
    if kind is Kind.INTEGER and isinstance(given, float) and given.is_integer():
        return int(given)
    return given


def _codes(variable: Variable, given: object) -> object:
    """An enumeration's value for each of its labels."""
    if isinstance(given, (list, tuple)):
        return [_codes(variable, item) for item in given]
    known = {item.name: item.value for item in variable.items}
    if isinstance(given, str):
        if given not in known:
            raise ModelError(f"'{variable.name}' cannot be {given!r}. {suggest(given, known, 'labels')}")
        return known[given]
    if isinstance(given, int) and not isinstance(given, bool) and given not in known.values():
        listed = ", ".join(f"{item.name} = {item.value}" for item in variable.items[:12])
        raise ModelError(f"'{variable.name}' cannot be {given}: the values are {listed}")
    return given


def _check(variable: Variable, value: Value) -> None:
    """That one cell may have this value."""
    name, properties = variable.name, variable.properties
    if variable.type is Type.BINARY and isinstance(value, str):
        try:
            bytes.fromhex(value)
        except ValueError:
            raise ModelError(
                f"'{name}' holds bytes: write them as hexadecimal digits, not {value!r}"
            ) from None
    if isinstance(value, (bool, str)):
        return
    bounds = variable.type.range
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise ModelError(
            f"'{name}' is {variable.type.value}, which holds {bounds[0]} to {bounds[1]}, not {value}"
        )
    low, high = properties.min, properties.max
    if (low is not None and value < low) or (high is not None and value > high):
        allowed = " to ".join(("…" if bound is None else f"{bound:g}") for bound in (low, high))
        raise ModelError(f"'{name}' cannot be {value:g}: the FMU allows {allowed}")


def _misfits(
    description: ModelDescription, starts: Mapping[str, Values], new: set[str]
) -> list[tuple[str, str]]:
    """Arrays that have been given another size than their values, and names for one variable at odds."""
    by_name, sizes = description.by_name, sizes_of(description, starts)
    complaints = []
    leaders: dict[str, str] = {}
    for name, values in starts.items():
        variable = reshaped(by_name[name], sizes)
        if variable.dimensions and len(values) != variable.cells:
            what = (
                f"'{name}' was given {len(values)} values, and has {variable.cells} cells now: give them all"
            )
            complaints.append((name, what))
        leader = variable.alias_of or name
        first = leaders.setdefault(leader, name)
        if starts[first] != values:
            what = f"'{first}' and '{name}' are one variable: it cannot be both {starts[first]} and {values}"
            complaints.append((name if name in new else first, what))
    return complaints
