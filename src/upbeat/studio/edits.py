"""Edits of a scenario's text, as the page asks for them: all else stays, comments and order included.

Each edit is a table with ``op``. They are made of the few edits that `upbeat.scenario.files.toml` knows,
which read their own result back and refuse to write anything else than what was asked for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from upbeat.core.errors import InvalidInput, suggest
from upbeat.scenario.files.reading import parse
from upbeat.scenario.files.toml import Keys, renamed, with_value, without

_MANY = 1000
_ELSEWHERE = (
    "connections", "outputs", "events", "properties", "structures", "master", "record", "study",
)  # fmt: skip
"""The tables that speak of units by their names."""


def edited(text: object, edits: object) -> tuple[str, list[str]]:
    """The text with all edits, one after the other, and the names of units that were added."""
    if not isinstance(text, str):
        raise InvalidInput("text must be a text")
    if not isinstance(edits, list) or len(edits) > _MANY:
        raise InvalidInput(f"edits must be a list of at most {_MANY}")
    parse(text, "the scenario")
    added: list[str] = []
    for edit in edits:
        if not isinstance(edit, Mapping) or not isinstance(edit.get("op"), str):
            raise InvalidInput("an edit is a table with an op")
        if edit["op"] not in _OPS:
            raise InvalidInput(f"there is no edit {edit['op']!r}. {suggest(edit['op'], _OPS, 'edits')}")
        if edit["op"] == "add_unit":
            text, name = _add_unit(text, edit)
            added.append(name)
        else:
            text = _OPS[edit["op"]](text, edit)
    return text, added


def _at(edit: Mapping[str, Any]) -> Keys:
    at = edit.get("at")
    if not isinstance(at, list) or not at or len(at) > 50:
        raise InvalidInput('an edit of a value needs its place: "at": ["units", "mass", "parameters", "m"]')
    if not all(isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)) for key in at):
        raise InvalidInput("a place is made of names and of numbers in lists")
    return tuple(map(str, at))


def _word(edit: Mapping[str, Any], key: str) -> str:
    found = edit.get(key)
    if not isinstance(found, str) or not found or len(found) > 10_000:
        raise InvalidInput(f"an edit '{edit['op']}' needs '{key}'")
    return found


def _set(text: str, edit: Mapping[str, Any]) -> str:
    return with_value(text, _at(edit), _value(edit, "value"))


def _value(edit: Mapping[str, Any], key: str) -> Any:
    """What is to be written: as JSON, or as ``toml``, in which 2.0 is not 2."""
    if edit.get("toml") is not None:
        try:
            found = tomllib.loads(f"v = {_word(edit, 'toml')}")
        except (ValueError, RecursionError):
            found = {}
        if found.keys() != {"v"}:
            raise InvalidInput(f"this is not a value: {str(edit['toml'])[:100]}")
        return _plain(found["v"])
    if edit.get(key) is None:
        raise InvalidInput("TOML has no null: use remove to take a value away")
    return _plain(edit[key])


def _plain(value: Any, depth: int = 0) -> Any:
    """A value as TOML can say it: entries that are null are left out."""
    if depth > 50:
        raise InvalidInput("a value is nested too deeply")
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        if any(item is None for item in value):
            raise InvalidInput("TOML has no null: leave it out of the list")
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInput("a whole number has 64 bits: write it as a real, such as 1e30")
    return value


def _remove(text: str, edit: Mapping[str, Any]) -> str:
    return without(text, _at(edit))


def _rename(text: str, edit: Mapping[str, Any]) -> str:
    return renamed(text, _at(edit), _word(edit, "to"))


# ----------------------------------------------------------------------------------------------------
# Connections. In TOML, left.F = … and "left.F" = … are different keys that mean the same.


def connection_keys(content: Mapping[str, Any], target: str) -> Keys | None:
    """The keys of what is connected to an input; None if nothing is."""
    return next((keys for keys, name, _ in connections(content) if name == target), None)


def connections(content: Mapping[str, Any]) -> Iterator[tuple[Keys, str, Any]]:
    """Every connection of a scenario as it is written: its keys, the input, and what was written for it."""
    table = content.get("connections")
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if isinstance(value, Mapping) and "." not in key:
            yield from ((("connections", key, port), f"{key}.{port}", own) for port, own in value.items())
        else:
            yield ("connections", key), key, value


def _connect(text: str, edit: Mapping[str, Any]) -> str:
    content = tomllib.loads(text)
    target = _word(edit, "to")
    unit, dot, port = target.partition(".")
    if not dot or not unit or not port:
        raise InvalidInput(f"a connection goes to the input of a unit, such as left.F, not to '{target}'")
    value = edit.get("text")
    if value is None:
        value = _word(edit, "from")
    if not isinstance(value, (str, list, dict)) or not value:
        raise InvalidInput("the text of a connection is an expression")
    keys = connection_keys(content, target)
    if keys is None:
        dotted = [len(keys) == 3 for keys, _, _ in connections(content)]
        keys = ("connections", unit, port) if dotted and all(dotted) else ("connections", target)
    return with_value(text, keys, _plain(value))


def _disconnect(text: str, edit: Mapping[str, Any]) -> str:
    keys = connection_keys(tomllib.loads(text), _word(edit, "to"))
    return text if keys is None else without(text, keys)


# ----------------------------------------------------------------------------------------------------
# Units.


def _add_unit(text: str, edit: Mapping[str, Any]) -> tuple[str, str]:
    if edit.get("block") is not None:
        from upbeat.studio.library import beginning  # which knows all there is, and few edits need

        table = beginning(_word(edit, "block"))
    else:
        table = _value(edit, "table")
    if not isinstance(table, Mapping) or not table:
        raise InvalidInput("a new unit needs its table")
    wanted = re.sub(r"\W", "_", _word(edit, "name"), flags=re.ASCII)
    wanted = f"unit_{wanted}" if not wanted[:1].isalpha() else wanted
    taken = {"inputs", "events", "conditions", *tomllib.loads(text).get("units", {})}
    name = next(
        one for one in (wanted, *(f"{wanted}{number}" for number in range(2, 100_000))) if one not in taken
    )
    return with_value(text, ("units", name), table), name


def _rename_unit(text: str, edit: Mapping[str, Any]) -> str:
    old, new = _word(edit, "unit"), _word(edit, "to")
    units = tomllib.loads(text).get("units", {})
    if old not in units:
        raise InvalidInput(f"there is no unit '{old}'. {suggest(old, units, 'units')}")
    if old == new:
        return text
    if new in units:
        raise InvalidInput(f"there is a unit '{new}' already: choose another name")
    if not new.isidentifier() or new in ("inputs", "events", "conditions"):
        raise InvalidInput(f"'{new}' is not the name of a unit: letters, digits and _, not a digit first")
    text = renamed(text, ("units", old), new)
    mention = re.compile(rf"(?<![\w.`]){re.escape(old)}(?=\s*\.)", re.ASCII)
    for keys, value in list(_texts(tomllib.loads(text))):
        changed = new if keys[0] in ("master", "structures") and value == old else mention.sub(new, value)
        if changed != value:
            text = with_value(text, keys, changed)
    while found := next(_mentioning_keys(tomllib.loads(text), old), None):
        key = found[-1]
        text = renamed(text, found, new if key == old else f"{new}{key.removeprefix(old)}")
    return text


def _texts(content: Mapping[str, Any]) -> Iterator[tuple[Keys, str]]:
    """All texts in the tables that speak of units."""
    waiting: list[tuple[Keys, Any]] = [((key,), content[key]) for key in _ELSEWHERE if key in content]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, str):
            yield keys, value
        elif isinstance(value, Mapping):
            waiting += [((*keys, str(key)), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*keys, str(k)), item) for k, item in enumerate(value)]


def _mentioning_keys(content: Mapping[str, Any], unit: str) -> Iterator[Keys]:
    """The keys that are the name of a unit, or of one of its ports."""
    waiting: list[tuple[Keys, Any]] = [((key,), content[key]) for key in _ELSEWHERE if key in content]
    while waiting:
        keys, value = waiting.pop()
        if not isinstance(value, Mapping):
            continue
        for key, item in value.items():
            own = keys[0] in ("connections", "study") or keys[-1] in ("then", "ports", "rates")
            if key.startswith(f"{unit}.") or (key == unit and own):
                yield (*keys, key)
            waiting.append(((*keys, key), item))


def _remove_unit(text: str, edit: Mapping[str, Any]) -> str:
    unit = _word(edit, "unit")
    units = tomllib.loads(text).get("units", {})
    if unit not in units:
        raise InvalidInput(f"there is no unit '{unit}'. {suggest(unit, units, 'units')}")
    mention = re.compile(rf"(?<![\w.`]){re.escape(unit)}\s*\.", re.ASCII)

    def speaks(value: Any) -> bool:
        if isinstance(value, str):
            return mention.search(value) is not None
        items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        return any(map(speaks, items))

    text = without(text, ("units", unit))
    content = tomllib.loads(text)
    for keys, target, value in list(connections(content)):
        if target.startswith(f"{unit}.") or speaks(value):
            text = without(text, keys)
    outputs = content.get("outputs", {})
    for name, value in outputs.items() if isinstance(outputs, Mapping) else ():
        if speaks(value):
            text = without(text, ("outputs", name))
    ports = content.get("master", {}).get("ports", {})
    for name in ports if isinstance(ports, Mapping) else ():
        if name.startswith(f"{unit}."):
            text = without(text, ("master", "ports", name))
    return text


_OPS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "set": _set,
    "remove": _remove,
    "rename": _rename,
    "connect": _connect,
    "disconnect": _disconnect,
    "add_unit": lambda text, edit: _add_unit(text, edit)[0],
    "rename_unit": _rename_unit,
    "remove_unit": _remove_unit,
}
