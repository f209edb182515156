"""Where the keys of a TOML text are written: key path → line number, by a light scan.

The text must be valid TOML already; the scan only follows its structure (headers, dotted keys, inline
tables, arrays, strings over several lines) and never looks at values.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable

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
_SCALAR = re.compile(r"[^,\]}#\n]*")

Path = tuple[str, ...]


class Lines:
    """The line of every key in a text, found under the key's path."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._found: dict[str, int] = {}
        self._text = text
        self._at = 0

    def of(self, path: Iterable[str]) -> int | None:
        """The line of the key at `path`, or of the nearest table around it that has a line."""
        if not self._starts:  # only of files with problems does anybody want to know
            self._starts = [0, *(match.end() for match in re.finditer("\n", self._text))]
            self._scan()
        parts = ".".join(path).split(".")
        while parts:
            line = self._found.get(".".join(parts))
            if line is not None:
                return line
            parts.pop()
        return None

    # ---------------------------------------------------------------- the scan

    def _scan(self) -> None:
        table: Path = ()
        repeated: dict[Path, int] = {}
        self._skip()
        while self._at < len(self._text):
            here = self._at
            if self._text.startswith("[", here):
                double = self._text.startswith("[[", here)
                self._at += 2 if double else 1
                self._skip()
                table = self._key()
                if double:
                    repeated[table] = repeated.get(table, -1) + 1
                    table = (*table, str(repeated[table]))
                self._note(table, here)
                self._at = self._text.index("]", self._at) + (2 if double else 1)
            else:
                self._pair(table)
            self._skip()

    def _pair(self, table: Path) -> None:
        """``key = value``."""
        here = self._at
        path = (*table, *self._key())
        self._note(path, here)
        self._at = self._text.index("=", self._at) + 1
        self._skip()
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self._text[self._at : self._at + 1]
        if opening not in ("[", "{"):
            match = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            self._at = match.end() if match else len(self._text)
            return
        closing = "]" if opening == "[" else "}"
        self._at += 1
        self._skip()
        index = 0
        while self._at < len(self._text) and not self._text.startswith(closing, self._at):
            if opening == "[":
                self._note((*path, str(index)), self._at)
                self._value((*path, str(index)))
                index += 1
            else:
                self._pair(path)
            self._skip()
            if self._text.startswith(",", self._at):
                self._at += 1
                self._skip()
        self._at += 1

    def _key(self) -> Path:
        parts: list[str] = []
        while True:
            if match := _BARE_KEY.match(self._text, self._at):
                parts.append(match[0])
            elif match := _STRING.match(self._text, self._at):
                parts.append(tomllib.loads(f"key = {match[0]}")["key"])
            else:
                raise ValueError(f"no key at position {self._at}")
            self._at = match.end()
            dot = _DOT.match(self._text, self._at)
            if not dot:
                return tuple(parts)
            self._at = dot.end()

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None  # it matches the empty text
        self._at = match.end()

    def _note(self, path: Path, at: int) -> None:
        line = bisect_right(self._starts, at)
        for depth in range(len(path), 0, -1):  # a table begins where its first part is written
            # joined, so that "left.F" = … and left.F = … are found the same way
            key = ".".join(path[:depth])
            if key in self._found:
                break  # and so are the tables around it
            self._found[key] = line
