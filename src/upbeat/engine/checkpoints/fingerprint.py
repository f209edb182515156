"""What an experiment is, in sixteen bytes a part: the same in every process, another for anything else.

Objects are read as data: the fields of dataclasses, the entries of containers, the names of functions.
What is left is known by its text, without addresses in memory.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from upbeat.core.abilities import FromFile
from upbeat.units.process import Isolated

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Digest:
    """Digests objects; one that is shared is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}

    def of(self, item: Any) -> bytes:
        """The digest of any object. Where a unit runs is no part of what it is."""
        if isinstance(item, Isolated):
            item = item.model
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = item, _hashed(*self._parts(item))
        return known[1]

    def _parts(self, item: Any) -> list[bytes]:
        match item:
            case None | bool() | int() | float() | str() | bytes() if not isinstance(item, enum.Enum):
                return [type(item).__name__.encode(), repr(item).encode()]
            case enum.Enum():
                return [b"enum", type(item).__qualname__.encode(), item.name.encode()]
            case type() | FunctionType() | BuiltinFunctionType() | MethodType():
                return [b"code", f"{item.__module__}.{item.__qualname__}".encode()]
            case np.ndarray():
                return [b"array", str(item.dtype).encode(), str(item.shape).encode(), item.tobytes()]
            case Mapping():
                return [b"mapping", *(self.of(part) for pair in item.items() for part in pair)]
            case AbstractSet():
                return [b"set", *sorted(map(self.of, item))]
            case Sequence():
                return [b"sequence", *map(self.of, item)]
        name = f"{type(item).__module__}.{type(item).__qualname__}".encode()
        if is_dataclass(item):
            # What begins with an underscore is remembered for speed, and may differ from process to process.
            known = [f.name for f in fields(item) if f.compare and not f.name.startswith("_")]
            parts = {each: getattr(item, each) for each in known}
            if isinstance(item, FromFile):  # not where it lies: an SSP is unpacked to another place each time
                parts["path"] = item.content()
            return [name, *map(self.of, parts.values())]
        return [name, _ADDRESS.sub("", repr(item)).encode()]


def digests(**parts: Any) -> dict[str, str]:
    """The digest of each part, as text."""
    digest = Digest()
    return {name: digest.of(part).hex() for name, part in parts.items()}


def _hashed(*parts: bytes) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()
