"""TOML texts as people write them: values in their words, where keys stand, and edits that leave the rest.

An edit changes the text where it has to and nowhere else: comments, order, spaces and the way in which a
table is written (under a head, by dotted keys, within braces) stay as they are. `tomllib` reads what comes
out, and it has to say exactly what was asked for.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import tomli_w

from upbeat.core.errors import InvalidInput

Keys = tuple[str, ...]
"""The way to a value: keys of tables, and places in lists as texts (``"0"``)."""
Span = tuple[int, int]

# ----------------------------------------------------------------------------------------------------
# Tables as text that people like to read.

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_SPREAD = ("states", "inputs", "outputs", "parameters", "variables", "locals", "tables", "transitions")
"""Parts of a unit that are written with a line for each entry."""
_GROUPS = ("models", "units", "events", "structures")
"""Tables whose entries have a head each."""
KEYS = (
    *("upbeat", "name", *_GROUPS[:2], "connections", "inputs", "outputs", "events", "properties"),
    *("structures", "hints", "master", "run", "record", "study"),
)
"""What a file may have, in the order in which it is written."""


def toml_text(content: Mapping[str, Any]) -> str:
    """`content` as TOML. Entries keep their order, which a scenario needs; empty ones are left out."""
    return "\n\n".join("\n".join(block) for block in _blocks(content)) + "\n"


def _blocks(content: Mapping[str, Any]) -> Iterator[list[str]]:
    given = {key: value for key, value in content.items() if value not in ("", {})}
    yield [f"{key} = {value_text(value)}" for key, value in given.items() if not isinstance(value, Mapping)]
    for key, table in given.items():
        if key in _GROUPS:
            for name, entries in table.items():
                yield [f"[{key}.{key_text(name)}]", *_unit_lines(entries, spread=key == "structures")]
        elif isinstance(table, Mapping):
            yield [f"[{key}]", *(f"{key_text(k)} = {value_text(v)}" for k, v in table.items())]


def _unit_lines(entries: Mapping[str, Any], spread: bool = False) -> Iterator[str]:
    for key, value in entries.items():
        if (spread or key in _SPREAD) and isinstance(value, Mapping) and value:
            for name, entry in value.items():
                yield f"{key_text(key)}.{key_text(name)} = {value_text(entry)}"
        elif key in _SPREAD and isinstance(value, list):
            yield f"{key_text(key)} = ["
            yield from (f"    {value_text(entry)}," for entry in value)
            yield "]"
        else:
            yield f"{key_text(key)} = {value_text(value)}"


def value_text(value: Any) -> str:
    """On one line; strings and numbers are left to the library, which knows all their rules."""
    if isinstance(value, Mapping):
        pairs = [f"{key_text(key)} = {value_text(item)}" for key, item in value.items() if item is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(value_text(item) for item in value)}]"
    if isinstance(value, PurePath):
        value = str(value)
    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")


def key_text(key: str) -> str:
    """A key as it is written: in quotation marks where it has to be."""
    return key if _BARE.match(key) else tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


# ----------------------------------------------------------------------------------------------------
# Where everything stands. The text must be valid TOML already: the scan follows its structure (heads, dotted
# keys, tables within braces, arrays, strings over several lines) and never looks at values.

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*[^,\]}#\s]|")


@dataclass(slots=True)
class Value:
    """A value where it stands, with what is inside: pairs within braces, values within brackets."""

    span: Span
    kind: str  # one of scalar, array, table
    pairs: list[Pair] = field(default_factory=list)
    items: list[Value] = field(default_factory=list)

    @property
    def parts(self) -> list[Span]:
        """Where its entries stand."""
        return [pair.span for pair in self.pairs] + [item.span for item in self.items]


@dataclass(slots=True)
class Pair:
    """``key = value``, from the first letter of the key to the last of the value."""

    path: Keys
    keys: list[Span]  # of the parts of the path that are written here, the last ones
    span: Span
    value: Value


@dataclass(slots=True)
class Head:
    """``[a.b]``, or an element of an array ``[[a.b]]``, whose path then ends with its place."""

    path: Keys
    keys: list[Span]
    span: Span
    repeated: bool = False


class Layout:
    """Heads and pairs of a text in their order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.statements: list[Head | Pair] = []
        self._at = 0
        self._scan()

    def _scan(self) -> None:
        table: Keys = ()
        repeated: dict[Keys, int] = {}
        self._skip()
        while self._at < len(self.text):
            here = self._at
            if self.text.startswith("[", here):
                double = self.text.startswith("[[", here)
                self._at += 2 if double else 1
                self._skip()
                table, keys = self._key()
                if double:
                    repeated[table] = repeated.get(table, -1) + 1
                    table = (*table, str(repeated[table]))
                else:  # [[a]] and then [a.b]: of the last element
                    table = self._inside(table, repeated)
                self._at = self.text.index("]", self._at) + (2 if double else 1)
                self.statements.append(Head(table, keys, (here, self._at), double))
            else:
                self.statements.append(self._pair(table))
            self._skip()

    @staticmethod
    def _inside(table: Keys, repeated: Mapping[Keys, int]) -> Keys:
        found: Keys = ()
        for k, part in enumerate(table):
            found = (*found, part)
            if found in repeated and k + 1 < len(table):
                found = (*found, str(repeated[found]))
        return found

    def _pair(self, table: Keys) -> Pair:
        here = self._at
        own, keys = self._key()
        self._at = self.text.index("=", self._at) + 1
        self._skip()
        value = self._value((*table, *own))
        return Pair((*table, *own), keys, (here, value.span[1]), value)

    def _value(self, path: Keys) -> Value:
        here = self._at
        opening = self.text[here : here + 1]
        if opening not in ("[", "{"):
            match = _STRING.match(self.text, here) or _SCALAR.match(self.text, here)
            self._at = match.end() if match else len(self.text)
            return Value((here, self._at), "scalar")
        made = Value((here, here), "array" if opening == "[" else "table")
        closing = "]" if opening == "[" else "}"
        self._at += 1
        self._skip()
        while self._at < len(self.text) and not self.text.startswith(closing, self._at):
            if opening == "[":
                made.items.append(self._value((*path, str(len(made.items)))))
            else:
                made.pairs.append(self._pair(path))
            self._skip()
            if self.text.startswith(",", self._at):
                self._at += 1
                self._skip()
        self._at += 1
        made.span = (here, self._at)
        return made

    def _key(self) -> tuple[Keys, list[Span]]:
        parts: list[str] = []
        spans: list[Span] = []
        while True:
            if match := _BARE_KEY.match(self.text, self._at):
                parts.append(match[0])
            elif match := _STRING.match(self.text, self._at):
                parts.append(tomllib.loads(f"key = {match[0]}")["key"])
            else:
                raise ValueError(f"no key at position {self._at}")
            spans.append(match.span())
            self._at = match.end()
            dot = _DOT.match(self.text, self._at)
            if not dot:
                return tuple(parts), spans
            self._at = dot.end()

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self._at)
        assert match is not None  # it matches the empty text
        self._at = match.end()

    # ---------------------------------------------------------------- looking

    def find(self, path: Keys) -> Value | None:
        """The value that stands at `path` in one piece; None if there is none, or it is spread over lines."""
        for one in self.statements:
            if isinstance(one, Pair) and path[: len(one.path)] == one.path:
                found = _within(one.value, one.path, path)
                if found is not None:
                    return found
        return None

    def under(self, path: Keys) -> list[Head | Pair]:
        """The heads and pairs that are a part of the table at `path`."""
        return [one for one in self.statements if one.path[: len(path)] == path]

    def pairs(self) -> Iterator[Pair]:
        """All pairs, those within braces included."""
        waiting: list[Any] = [one for one in reversed(self.statements) if isinstance(one, Pair)]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Pair):
                yield one
                one = one.value
            waiting += [*reversed(one.pairs), *reversed(one.items)]

    def section(self, place: int) -> int:
        """The number of the head after the statement number `place`: there its section ends."""
        heads = (k for k in range(place + 1, len(self.statements)) if isinstance(self.statements[k], Head))
        return next(heads, len(self.statements))

    def line(self, span: Span) -> Span:
        """The whole lines of a span, with the comment behind it and the end of the line."""
        start = self.text.rfind("\n", 0, span[0]) + 1
        end = self.text.find("\n", span[1])
        return start, len(self.text) if end < 0 else end + 1

    def with_remarks(self, span: Span) -> Span:
        """The lines of a head, with the comments right above it."""
        start, end = self.line(span)
        while start:
            before = self.text.rfind("\n", 0, start - 1) + 1
            if not self.text[before:start].lstrip().startswith("#"):
                break
            start = before
        return start, end


def _within(value: Value, own: Keys, path: Keys) -> Value | None:
    """What stands at `path` inside of a value that stands at `own`."""
    if own == path:
        return value
    if value.kind == "array":
        key = path[len(own)]
        if key.isdigit() and int(key) < len(value.items):
            return _within(value.items[int(key)], (*own, key), path)
        return None
    for pair in value.pairs:
        if (
            path[: len(pair.path)] == pair.path
            and (found := _within(pair.value, pair.path, path)) is not None
        ):
            return found
    return None


class Lines:
    """The line of every key in a text, found under the key's path."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._found: dict[str, int] = {}

    def of(self, path: Iterable[str]) -> int | None:
        """The line of the key at `path`, or of the nearest table around it that has a line."""
        if not self._starts:  # only of files with problems does anybody want to know
            self._starts = [0, *(match.end() for match in re.finditer("\n", self._text))]
            for one in Layout(self._text).statements:
                self._note(one.path, one.span[0])
                if isinstance(one, Pair):
                    self._inside(one.path, one.value)
        parts = ".".join(path).split(".")
        while parts:
            line = self._found.get(".".join(parts))
            if line is not None:
                return line
            parts.pop()
        return None

    def _inside(self, path: Keys, value: Value) -> None:
        for pair in value.pairs:
            self._note(pair.path, pair.span[0])
            self._inside(pair.path, pair.value)
        for k, item in enumerate(value.items):
            self._note((*path, str(k)), item.span[0])
            self._inside((*path, str(k)), item)

    def _note(self, path: Keys, at: int) -> None:
        line = bisect_right(self._starts, at)
        for depth in range(len(path), 0, -1):  # a table begins where its first part is written
            # joined, so that "left.F" = … and left.F = … are found the same way
            key = ".".join(path[:depth])
            if key in self._found:
                break  # and so are the tables around it
            self._found[key] = line


# ----------------------------------------------------------------------------------------------------
# Edits. Each returns the text with it, or raises `InvalidInput` and says what to write by hand.


def with_value(text: str, path: Keys, value: Any) -> str:
    """The text with `value` at `path`: in place of what is there, or as something new in its table."""
    value = tomllib.loads(f"v = {value_text(value)}")["v"]
    return _checked(text, _set(text, path, value), _with(tomllib.loads(text), path, value), (), path, value)


def with_values(text: str, where: Keys, values: Mapping[str, Any]) -> str:
    """The text with other `values` in one of its tables."""
    for key, value in values.items():
        text = with_value(text, (*where, key), value)
    return text


def without(text: str, path: Keys) -> str:
    """The text without what is at `path`; as it is, if there is nothing."""
    wanted = tomllib.loads(text)
    inner = _at(wanted, path[:-1])
    key: Any = int(path[-1]) if isinstance(inner, list) and path[-1].isdigit() else path[-1]
    if not (isinstance(inner, list) and isinstance(key, int) and key < len(inner)) and (
        not isinstance(inner, dict) or key not in inner
    ):
        return text
    del inner[key]
    return _checked(text, _removed(text, path), wanted, path, path)


def renamed(text: str, path: Keys, key: str) -> str:
    """The text with another `key` for what is at `path`; its place stays."""
    wanted = tomllib.loads(text)
    inner = _at(wanted, path[:-1])
    if not isinstance(inner, dict) or path[-1] not in inner:
        return text
    if key in inner:
        raise InvalidInput(f"there is a '{key}' already")
    inner[key] = inner.pop(path[-1])
    layout, depth = Layout(text), len(path)
    written: list[Head | Pair] = [one for one in layout.statements if isinstance(one, Head)]
    written += layout.pairs()
    spans = {
        one.keys[depth - 1 - shift]
        for one in written
        if one.path[:depth] == path
        if (shift := _own(one)) < depth
    }
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]}{key_text(key)}{text[end:]}"
    return _checked(layout.text, text, wanted, (), path)


def _own(one: Head | Pair) -> int:
    """How much of its path is not written in it: the head of its section, or keys around it."""
    return len(one.path) - len(one.keys) - (isinstance(one, Head) and one.repeated)


def _checked(before: str, changed: str, wanted: Any, gone: Keys, path: Keys, value: Any = None) -> str:
    """The changed text, if it says what is `wanted`.

    Where something is `gone`, so may be the empty tables around it.
    """
    try:
        found: Any = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        found = None
    while found != wanted and gone:
        gone = gone[:-1]
        inner = _at(wanted, gone[:-1]) if gone else None
        if not isinstance(inner, dict) or inner.get(gone[-1]) != {}:
            break
        del inner[gone[-1]]
    if found == wanted:
        return changed
    what = f"{'.'.join(map(key_text, path))} = {value_text(value)}" if value is not None else "it"
    raise InvalidInput(
        f"'{'.'.join(path)}' is written in a form that cannot be changed without touching what is around it, "
        f"so that it is left as it is. Write yourself: {what}"
    )


def _at(content: Any, path: Iterable[str]) -> Any:
    """What stands at `path` in plain data; None if nothing does."""
    for key in path:
        if isinstance(content, list) and key.isdigit() and int(key) < len(content):
            content = content[int(key)]
        elif isinstance(content, dict) and key in content:
            content = content[key]
        else:
            return None
    return content


def _with(content: Any, path: Keys, value: Any) -> Any:
    """Plain data with `value` at `path`; one behind the end of a list is added to it."""
    inner = content
    for k, key in enumerate(path):
        last = k + 1 == len(path)
        if isinstance(inner, list) and key.isdigit() and int(key) <= len(inner):
            if int(key) == len(inner):
                inner.append({})
            if last:
                inner[int(key)] = deepcopy(value)
            inner = inner[int(key)]
        elif isinstance(inner, dict):
            if last:
                inner[key] = deepcopy(value)
            elif not isinstance(inner.get(key), (dict, list)):
                if key in inner:
                    raise InvalidInput(f"'{'.'.join(path[: k + 1])}' is not a table")
                inner[key] = {}
            inner = inner[key]
        else:
            raise InvalidInput(f"'{'.'.join(path[:k])}' is not a table")
    return content


def _set(text: str, path: Keys, value: Any) -> str:
    layout, before = Layout(text), _at(tomllib.loads(text), path)
    found = layout.find(path)
    if isinstance(before, dict) and isinstance(value, dict) and (before or found is None):
        for key in before.keys() - value.keys():
            text = _removed(text, (*path, key))
        for key, item in value.items():
            if key not in before or before[key] != item:
                text = _set(text, (*path, key), item)
        return text if value or _at(tomllib.loads(text), path) is not None else _inserted(text, path, value)
    if found is not None:
        return (
            _set_list(text, path, before, value)
            if isinstance(before, list)
            else _put(text, found.span, value)
        )
    if before is not None:
        text = _removed(text, path)
    return _inserted(text, path, value)


def _put(text: str, span: Span, value: Any) -> str:
    return f"{text[: span[0]]}{value_text(value)}{text[span[1] :]}"


def _set_list(text: str, path: Keys, before: list[Any], value: Any) -> str:
    """Another list: element by element as far as they go, so that remarks between them stay."""
    found = Layout(text).find(path)
    assert found is not None
    if not isinstance(value, list) or not before or not value:
        return _put(text, found.span, value)
    for k in range(len(before) - 1, len(value) - 1, -1):
        text = _removed(text, (*path, str(k)))
    for k, item in enumerate(value):
        if k >= len(before):
            text = _joined(text, path, value_text(item))
        elif item != before[k]:
            text = _set(text, (*path, str(k)), item)
    return text


def _joined(text: str, path: Keys, entry: str) -> str:
    """One more entry in a value within braces or brackets."""
    found = Layout(text).find(path)
    assert found is not None
    start, end = found.span
    if not found.parts:
        inside = f" {entry} " if found.kind == "table" else entry
        return f"{text[: start + 1]}{inside}{text[end - 1 :]}"
    last = found.parts[-1]
    rest = text[last[1] : end - 1]
    comma = _SPACE.match(rest)
    closed = comma is not None and rest.startswith(",", comma.end())
    if "\n" in text[start : found.parts[0][0]]:  # an entry on each line
        line = text.rfind("\n", 0, last[0]) + 1
        indent = text[line : last[0]] if not text[line : last[0]].strip() else "    "
        behind = last[1] + (comma.end() + 1 if comma is not None and closed else 0)
        stop = text.find("\n", behind)
        stop = end - 1 if stop < 0 or stop > end else stop
        head = text[: last[1]] + ("" if closed else ",") + text[last[1] : stop]
        return f"{head}{_ending(text)}{indent}{entry}{',' if closed else ''}{text[stop:]}"
    return f"{text[: last[1]]}, {entry}{text[last[1] :]}"


def _ending(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _removed(text: str, path: Keys) -> str:
    layout = Layout(text)
    around = layout.find(path[:-1]) if len(path) > 1 else None
    if around is not None:
        return _taken_out(text, around, path)
    found = layout.under(path)
    if not found:  # a.b = 1 within braces: what is around it may be no value of its own
        for pair in layout.pairs():
            if pair.path[: len(path)] == path:
                outer = next(v for v in _values(layout) if pair in v.pairs)
                return _removed(_cut_entries(text, outer, [pair.span]), path)
        return text
    spans = []
    for one in found:
        if isinstance(one, Pair):
            spans.append(layout.line(one.span))
        else:
            place = layout.statements.index(one)
            after = layout.section(place)
            end = (
                layout.with_remarks(layout.statements[after].span)[0]
                if after < len(layout.statements)
                else len(text)
            )
            spans.append((layout.with_remarks(one.span)[0], end))
    for start, end in _united(spans)[::-1]:
        text = text[:start] + text[end:]
        if start >= len(text):  # the last of the file: no empty lines behind the others
            text = text.rstrip() + _ending(text) if text.strip() else ""
    return text


def _united(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _values(layout: Layout) -> Iterator[Value]:
    for pair in layout.pairs():
        waiting = [pair.value]
        while waiting:
            one = waiting.pop()
            yield one
            waiting += one.items


def _taken_out(text: str, around: Value, path: Keys) -> str:
    """Without one entry of a value within braces or brackets; by dotted keys, it may be several pairs."""
    if around.kind == "array":
        return _cut_entries(text, around, [around.items[int(path[-1])].span])
    return _cut_entries(text, around, [pair.span for pair in around.pairs if pair.path[: len(path)] == path])


def _cut_entries(text: str, around: Value, spans: Sequence[Span]) -> str:
    for span in reversed(spans):
        parts = around.parts
        k = parts.index(span)
        if k + 1 < len(parts):
            start, end = span[0], parts[k + 1][0]
        elif k:
            start, end = parts[k - 1][1], span[1]
        else:
            start, end = span[0], span[1]
            rest = _SPACE.match(text, end)
            if rest is not None and text.startswith(",", rest.end()):
                end = rest.end() + 1
            if around.kind == "table":
                start, end = around.span[0] + 1, around.span[1] - 1
        text = text[:start] + text[end:]
        around = _shortened(around, k, end - start)
    return text


def _shortened(around: Value, place: int, by: int) -> Value:
    """Only what stands before the entry that was cut is still where it was."""
    span = around.span[0], around.span[1] - by
    if around.kind == "array":
        return Value(span, around.kind, [], around.items[:place])
    return Value(span, around.kind, around.pairs[:place], [])


def _inserted(text: str, path: Keys, value: Any) -> str:
    """The text with something that is new in its table, in the way that table is written in."""
    layout, content = Layout(text), tomllib.loads(text)
    depth = len(path) - 1
    while depth and _at(content, path[:depth]) is None:  # tables around it that are not there, either
        depth -= 1
    parent = path[:depth]
    if (not parent and len(path) > 1) or (parent and parent[-1] in _GROUPS):
        path, value = path[: depth + 1], _nested(path[depth + 1 :], value)
    key = ".".join(map(key_text, path[depth:]))
    around = layout.find(parent) if parent else None
    if around is not None:
        return _joined(
            text, parent, value_text(value) if around.kind == "array" else f"{key} = {value_text(value)}"
        )
    family = layout.under(parent)
    dotted = [one for one in layout.pairs() if one.path[: len(parent)] == parent and _own(one) < len(parent)]
    if dotted:
        last = dotted[-1]
        written = last.keys[: len(parent) - _own(last)]
        prefix = f"{text[written[0][0] : written[-1][1]]}.{key}"
        if last not in layout.statements:  # within braces
            return _joined(text, last.path[: _own(last)], f"{prefix} = {value_text(value)}")
        spread = value.items() if isinstance(value, dict) and parent[-1] in _GROUPS else ()
        lines = [f"{prefix}.{key_text(k)} = {value_text(v)}" for k, v in spread]
        return _below(layout, last.span, lines or [f"{prefix} = {value_text(value)}"])
    heads = [one for one in family if isinstance(one, Head)]
    own = next((one for one in heads if one.path == parent), None)
    grouped = not parent or parent[-1] in _GROUPS or any(len(one.path) > len(parent) for one in heads)
    if isinstance(value, dict) and grouped:
        return _with_section(layout, path, value)
    if parent and own is None:
        return _with_section(layout, parent, _nested(path[depth:], value))
    return _with_line(layout, own, f"{key} = {value_text(value)}")


def _nested(keys: Keys, value: Any) -> Any:
    """A value in as many tables as there are keys."""
    for key in reversed(keys):
        value = {key: value}
    return value


def _with_line(layout: Layout, head: Head | None, line: str) -> str:
    """A line more in a section: below its last pair, or right below its head."""
    statements = layout.statements
    first = 0 if head is None else statements.index(head) + 1
    last = layout.section(first - 1)
    if last > first:
        return _below(layout, statements[last - 1].span, [line])
    if head is not None:
        return _below(layout, head.span, [line])
    end = _ending(layout.text)
    start = layout.with_remarks(statements[0].span)[0] if statements else len(layout.text)
    gap = end if start < len(layout.text) else ""
    before = layout.text[:start]
    if before and not before.endswith("\n"):
        before += end
    return f"{before}{line}{end}{gap}{layout.text[start:]}"


def _below(layout: Layout, span: Span, lines: Sequence[str]) -> str:
    """Lines below the one that this span ends on, as far in as that."""
    text, end = layout.text, _ending(layout.text)
    start, stop = layout.line(span)
    indent = re.match(r"[ \t]*", text[start:])
    above = text[:stop] if text[:stop].endswith("\n") else text[:stop] + end
    new = "".join(f"{indent[0] if indent else ''}{line}{end}" for line in lines)
    return f"{above}{new}{text[stop:]}"


def _with_section(layout: Layout, path: Keys, value: Mapping[str, Any]) -> str:
    """A new table, or group of them, under heads of its own: after its siblings, or before what is later."""
    text, end = layout.text, _ending(layout.text)
    if value and path[-1] in _GROUPS and all(isinstance(entry, dict) for entry in value.values()):
        tables = {(*path, name): entry for name, entry in value.items()}
    else:
        tables = {path: value}
    blocks = [
        end.join([f"[{'.'.join(map(key_text, where))}]", *_unit_lines(table, where == ("connections",)), ""])
        for where, table in tables.items()
    ]
    block = end.join(blocks)
    statements = layout.statements
    siblings = [k for k, one in enumerate(statements) if one.path[:1] == path[:1]]
    if siblings and any(isinstance(statements[k], Head) for k in siblings):
        place = layout.section(siblings[-1])
    else:
        rank = _rank(path[0])
        later = [k for k, one in enumerate(statements) if isinstance(one, Head) and _rank(one.path[0]) > rank]
        place = later[0] if later else len(statements)
    if place >= len(statements):
        above = text.rstrip("\r\n \t")
        return f"{above}{2 * end if above else ''}{block}"
    start = layout.with_remarks(statements[place].span)[0]
    above = text[:start].rstrip("\r\n \t")
    return f"{above}{2 * end if above else ''}{block}{end}{text[start:]}"


def _rank(name: str) -> int:
    return KEYS.index(name) if name in KEYS else len(KEYS)
