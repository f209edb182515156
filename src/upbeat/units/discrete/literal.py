"""Plain Python values as text and back: exact, and safe to read from anywhere, because nothing is executed.

JSON, with what it lacks as tables of one entry: ``{"tuple": […]}``, ``{"dict": [[key, value], …]}``,
``{"set": […]}``, ``{"frozenset": […]}``, ``{"bytes": "hex"}``. Infinity and NaN are written as Python's own
reader of JSON knows them. Pickle would take more, but runs code when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_PLAIN = (type(None), bool, int, float, str)


def dumps(value: Any) -> str:
    """The text of `value`; TypeError, naming the culprit, if it contains anything but plain values."""
    try:
        return json.dumps(_tagged(value), separators=(",", ":"))
    except RecursionError:
        raise TypeError("it is nested too deeply, or contains itself") from None


def loads(text: str | bytes) -> Any:
    """The value of a text; ValueError if `dumps` did not write it."""
    try:
        return _untagged(json.loads(text))
    except (TypeError, RecursionError):
        raise ValueError("this is no text of a plain value") from None


def _tagged(value: Any) -> Any:
    kind = type(value)  # and not isinstance: a named tuple would come back as a mere tuple
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is tuple:
        return {"tuple": [_tagged(item) for item in value]}
    if kind is dict:
        return {"dict": [[_tagged(key), _tagged(item)] for key, item in value.items()]}
    if kind in (set, frozenset):  # in an order that does not depend on the run
        return {kind.__name__: sorted((_tagged(item) for item in value), key=json.dumps)}
    if kind is bytes:
        return {"bytes": value.hex()}
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__} is no plain value")


_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda items: tuple(map(_untagged, items)),
    "dict": lambda pairs: {_untagged(key): _untagged(item) for key, item in pairs},
    "set": lambda items: set(map(_untagged, items)),
    "frozenset": lambda items: frozenset(map(_untagged, items)),
    "bytes": bytes.fromhex,
}


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if isinstance(value, dict):
        if len(value) != 1 or (tag := next(iter(value))) not in _READERS:
            raise ValueError("this is no text of a plain value")
        return _READERS[tag](value[tag])
    return value


_FIXED = (type(None), bool, int, float, complex, str, bytes)


def is_fixed(value: Any) -> bool:
    """Whether nobody can change `value`, so that it need not be copied."""
    kind = type(value)
    if kind in _FIXED:
        return True
    return kind in (tuple, frozenset) and all(map(is_fixed, value))
