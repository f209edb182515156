"""Readers and writers of single variables, with everything prepared that does not change between calls."""

from __future__ import annotations

import ctypes as c
import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from upbeat.core.ports import Signal
from upbeat.units.fmi.binding.calls import Calls
from upbeat.units.fmi.description import Type, Variable
from upbeat.units.fmi.instance import FmuError, Reader, Writer

_GREATEST = 2**63 - 1
_GREATEST_SINGLE = 3.4028235677973366e38  # from here on a double rounds to an infinite float

FMI2: dict[Type, tuple[str, Any]] = {
    Type.FLOAT64: ("Real", c.c_double),
    Type.INT32: ("Integer", c.c_int32),
    Type.ENUMERATION: ("Integer", c.c_int32),
    Type.BOOLEAN: ("Boolean", c.c_int),
    Type.STRING: ("String", c.c_char_p),
}
FMI3: dict[Type, tuple[str, Any]] = {
    Type.FLOAT32: ("Float32", c.c_float),
    Type.FLOAT64: ("Float64", c.c_double),
    Type.INT8: ("Int8", c.c_int8),
    Type.UINT8: ("UInt8", c.c_uint8),
    Type.INT16: ("Int16", c.c_int16),
    Type.UINT16: ("UInt16", c.c_uint16),
    Type.INT32: ("Int32", c.c_int32),
    Type.UINT32: ("UInt32", c.c_uint32),
    Type.INT64: ("Int64", c.c_int64),
    Type.UINT64: ("UInt64", c.c_uint64),
    Type.ENUMERATION: ("Int64", c.c_int64),
    Type.BOOLEAN: ("Boolean", c.c_bool),
    Type.CLOCK: ("Clock", c.c_bool),
    Type.STRING: ("String", c.c_char_p),
    Type.BINARY: ("Binary", c.c_void_p),
}


class _Slot:
    """The arguments of one variable's get or set function, and the place where its values are."""

    def __init__(self, calls: Calls, verb: str, variable: Variable, version: int, cells: int | None) -> None:
        what, kind = (FMI2 if version == 2 else FMI3)[variable.type]
        name = f"fmi{version}{verb}{what}"
        self.is_array = bool(variable.dimensions)
        self.count = variable.cells if cells is None or not self.is_array else cells
        self.place = (kind * self.count)() if self.is_array else kind()
        # A parameter object keeps alive what it points to.
        arguments = [c.byref(c.c_uint32(variable.reference)), c.c_size_t.from_param(1)]
        if variable.type is Type.BINARY:
            self.sizes = (c.c_size_t * self.count)()
            arguments.append(c.byref(self.sizes))
        arguments.append(c.byref(self.place))
        if version == 3 and variable.type is not Type.CLOCK:
            arguments.append(c.c_size_t.from_param(self.count))
        self.call = calls.fixed(name, *arguments)


def reader(calls: Calls, variable: Variable, version: int, cells: int | None) -> Reader:
    """What gets this variable. `cells` is the size of an array if it is not the description's."""
    slot = _Slot(calls, "Get", variable, version, cells)
    fetch, place, convert = slot.call, slot.place, _from_c(variable)
    if variable.type is Type.BINARY:

        def binary() -> Signal:
            fetch()
            addresses = place if slot.is_array else (place.value,)
            found = [
                c.string_at(at, size).hex() if at and size else ""
                for at, size in zip(addresses, slot.sizes, strict=True)
            ]
            return tuple(found) if slot.is_array else found[0]

        return binary
    if slot.is_array:

        def array() -> Signal:
            fetch()
            return tuple(place[:]) if convert is None else tuple(map(convert, place[:]))

        return array
    if convert is not None:

        def converted() -> Signal:
            fetch()
            return convert(place.value)  # type: ignore[no-any-return]

        return converted

    def scalar() -> Signal:
        fetch()
        return place.value  # type: ignore[no-any-return]

    return scalar


def writer(calls: Calls, variable: Variable, version: int, cells: int | None) -> Writer:
    """What sets this variable, after a look whether the values fit its type."""
    slot = _Slot(calls, "Set", variable, version, cells)
    send, place, check = slot.call, slot.place, _to_c(variable, version)
    if variable.type is Type.BINARY:
        kept: list[Any] = []  # until the next call: the FMU copies during this one

        def binary(value: Signal) -> None:
            texts = _cells(variable, value, slot.count) if slot.is_array else (value,)
            data = [check(text) for text in texts]
            kept[:] = [c.create_string_buffer(each, len(each) or 1) for each in data]
            addresses = [c.addressof(buffer) for buffer in kept]
            slot.sizes[:] = [len(each) for each in data]
            if slot.is_array:
                place[:] = addresses
            else:
                place.value = addresses[0]
            send()

        return binary
    if slot.is_array:

        def array(value: Signal) -> None:
            given = _cells(variable, value, slot.count)
            try:
                place[:] = given if variable.type is Type.FLOAT64 else [check(cell) for cell in given]
            except TypeError:
                raise _wrong(variable, value, "numbers") from None
            send()

        return array
    if variable.type is not Type.FLOAT64:

        def checked(value: Signal) -> None:
            place.value = check(value)
            send()

        return checked

    def scalar(value: Signal) -> None:
        try:
            place.value = value
        except TypeError:
            raise _wrong(variable, value, "a number") from None
        send()

    return scalar


def _from_c(variable: Variable) -> Callable[[Any], Any] | None:
    """What makes a value of ours of one of C's; None where nothing is to be done."""
    if variable.type is Type.STRING:
        return lambda text: "" if text is None else text.decode("utf-8", "replace")
    if variable.type in (Type.BOOLEAN, Type.CLOCK):
        return bool
    if variable.type is Type.UINT64:

        def bounded(value: int) -> int:
            if value > _GREATEST:
                raise FmuError(
                    f"'{variable.name}' is {value}, but integers above {_GREATEST} are not supported"
                )
            return value

        return bounded
    return None


def _to_c(variable: Variable, version: int) -> Callable[[Any], Any]:
    """What makes a value of C's of one of ours, or says why it cannot."""
    match variable.type:
        case Type.STRING:
            return lambda value: _text(variable, value)
        case Type.BINARY:
            return lambda value: _bytes(variable, value)
        case Type.BOOLEAN | Type.CLOCK:
            return bool
        case Type.FLOAT64:
            return float  # never used: C takes numbers as they are
        case Type.FLOAT32:
            return lambda value: _single(variable, value)
    bounds = Type.INT32.range if version == 2 else variable.type.range
    assert bounds is not None
    least, greatest = bounds[0], min(bounds[1], _GREATEST)

    def whole(given: Any) -> int:
        value: int
        try:
            value = int(given) if isinstance(given, float) and given.is_integer() else index(given)
        except TypeError:
            raise _wrong(variable, given, "an integer") from None
        if not least <= value <= greatest:
            raise FmuError(
                f"'{variable.name}' cannot be {value}: its type {variable.type.value} "
                f"goes from {least} to {greatest}"
            )
        return value

    return whole


def _real(variable: Variable, value: Any) -> float:
    if not isinstance(value, (float, int)):
        raise _wrong(variable, value, "a number")
    return float(value)


def _single(variable: Variable, value: Any) -> float:
    number = _real(variable, value)
    if _GREATEST_SINGLE <= abs(number) < math.inf:
        raise FmuError(f"'{variable.name}' cannot be {number}: its type Float32 goes up to 3.4e38")
    return number


def _text(variable: Variable, value: Any) -> bytes:
    if not isinstance(value, str):
        raise _wrong(variable, value, "a text")
    if "\0" in value:
        raise FmuError(f"'{variable.name}' cannot be {value!r}: a text of FMI ends at a character 0")
    return value.encode("utf-8", "replace")


def _bytes(variable: Variable, value: Any) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise _wrong(variable, value, "bytes as hexadecimal digits, such as '00ff'") from None


def _cells(variable: Variable, value: Any, count: int) -> Sequence[Any]:
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise _wrong(variable, value, f"an array of {count} values")
    if len(value) != count:
        raise FmuError(f"'{variable.name}' has {count} cells, and {len(value)} values are given")
    found: Sequence[Any] = value
    return found


def _wrong(variable: Variable, value: Any, wanted: str) -> FmuError:
    return FmuError(f"'{variable.name}' cannot be {value!r}: it needs {wanted}")
