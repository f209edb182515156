"""The calls of a unit as C sees them: the cells and functions of unit.h for ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from types import MappingProxyType
from typing import Any

from upbeat.core.errors import UpbeatError
from upbeat.core.ports import Kind, Value


class Cell(ctypes.Union):
    """One cell as C sees it: `upbeat_cell` of unit.h."""

    _fields_ = (("r", c_double), ("i", c_int64))


SIGNATURES: Mapping[str, Any] = MappingProxyType(
    {
        "create": CFUNCTYPE(c_void_p, c_char_p, c_double, POINTER(Cell)),
        "get": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(Cell)),
        "set": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(Cell), c_int),
        "advance": CFUNCTYPE(c_int, c_void_p, c_double, c_double, c_int, POINTER(c_double)),
        "jump": CFUNCTYPE(c_int, c_void_p, POINTER(c_int)),
        "save": CFUNCTYPE(c_int, c_void_p, c_int),
        "restore": CFUNCTYPE(c_int, c_void_p, c_int),
        "message": CFUNCTYPE(c_char_p, c_void_p),
        "destroy": CFUNCTYPE(None, c_void_p),
        "pack": CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, POINTER(c_uint64)),
        "unpack": CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_uint64),
        "due": CFUNCTYPE(c_int, c_void_p, POINTER(c_double)),
        "slope": CFUNCTYPE(c_int, c_void_p, c_int, c_int, POINTER(Cell)),
    }
)
"""The calls of `upbeat_unit` in unit.h, and `create`, which makes one: void* create(const char* name,
double start, const upbeat_cell* parameters), with the cells of all parameters in the order of the ports."""


class NativeFailure(UpbeatError):
    """A call into a native unit returned a status other than 0."""


def write(cell: Cell, kind: Kind, value: Any) -> None:
    """Put a value of this kind into a cell."""
    if kind is Kind.REAL:
        cell.r = value
    else:
        cell.i = int(value)


def read(cell: Cell, kind: Kind) -> Value:
    """The value of this kind in a cell."""
    if kind is Kind.REAL:
        return float(cell.r)
    return bool(cell.i) if kind is Kind.BOOLEAN else int(cell.i)
