"""Events beside a CSV file: ``run.events.csv``, with the columns ``time,index,event,value``.

Where there are events with more to say, there is ``details`` as well. Reals are written as the shortest text
that reads back to the same double, booleans as ``true`` and ``false``, enumerations as their labels, arrays
as ``[1.0 2.0]``, nothing for an event without payload. Texts are always quoted. An array of texts is a quoted
JSON list; a text that begins like one, or with a backslash, gets a backslash in front. Details are a JSON
object, the units concerned among them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upbeat.core.errors import FileProblem, InvalidInput, cannot_read
from upbeat.trace.eventcolumns import checked_details
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.events import EventLog
from upbeat.trace.files.output import Appender, warn

HEAD = "time,index,event,value\n"
DETAILED = "time,index,event,value,details\n"
_FIELD = r'("(?:[^"]|"")*"|[^",\r\n]*)'
_LINE = re.compile(rf"([^,\r\n]*),([0-9]+),{_FIELD},{_FIELD}(?:,{_FIELD})?\r?\n")
_QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|\Z)')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_ .-]*")
_TAKEN = {"true", "false", "nan", "inf", "infinity"}
_WORDS = {"true": True, "false": False}


class CsvEvents:
    """Writes the events of a run to a file of their own, which only comes to stay if there are any."""

    def __init__(self, path: Path) -> None:
        self._file = Appender(path)
        self._detailed: bool | None = None

    def begin(self) -> None:
        """Let go of what an earlier run has left there."""
        self._file.begin(b"")

    def write(self, events: EventLog) -> None:
        kinds = events.kinds
        names = [quote(kind.name) if re.search(r'[",\r\n]', kind.name) else kind.name for kind in kinds]
        if self._detailed is None:
            self._detailed = any(kind.detailed for kind in kinds) or bool(events.more)
        width, head, line = (
            (5, DETAILED, "%r,%d,%s,%s,%s\n") if self._detailed else (4, HEAD, "%r,%d,%s,%s\n")
        )
        flat: list[Any] = [None] * (width * len(events))
        flat[0::width] = events.times().tolist()
        flat[1::width] = events.indices.tolist()
        codes = events.codes.tolist()
        flat[2::width] = [names[code] for code in codes]
        labelled = [bool(kind.items) for kind in kinds]
        flat[3::width] = [
            _text(entry, labelled[code])
            for entry, code in zip(events.payloads().tolist(), codes, strict=True)
        ]
        if self._detailed:
            flat[4::width] = _details(events)
        text = line * len(events) % tuple(flat)
        self._file.append(((head if self._file.size == 0 else "") + text).encode())

    def close(self) -> None:
        self._file.close()

    @property
    def file(self) -> Appender:
        """The file itself, for whoever goes on with it."""
        return self._file


def _details(events: EventLog) -> list[str]:
    """What there is to say about every event, as fields."""
    fields, more = [""] * len(events), events.more
    for place, (units, details) in more.items():
        told = ({"units": units} if units else {}) | dict(details)
        fields[place] = quote(json.dumps(told, ensure_ascii=False, default=str))
    return fields


def quote(text: str) -> str:
    """A field that is text, whatever it looks like."""
    return '"' + text.replace('"', '""') + '"'


def _text(value: Any, labelled: bool = False) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() | int():
            return repr(value)
        case str():
            if labelled and _PLAIN.fullmatch(value) and value.lower() not in _TAKEN:
                return value
            return quote("\\" + value if value.startswith(("[", "\\")) else value)
    if any(isinstance(cell, str) for cell in value):
        return quote(json.dumps(value, ensure_ascii=False))
    return f"[{' '.join(map(_text, value))}]"


def is_events(path: Path) -> bool:
    """Whether there is a file of events; one of another program that happens to have the name is not."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.readline(len(DETAILED) + 4).decode("utf-8-sig").strip()
            return head in (HEAD.strip(), DETAILED.strip())
    except (OSError, UnicodeDecodeError):
        return False


def read_events(path: Path, kinds: Sequence[EventKind] = ()) -> EventLog:
    """The events beside a CSV file; none if there is no such file. A cut-off last line is dropped."""
    log = EventLog(kinds)
    if not is_events(path):
        return log
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # a text keeps its own line ends
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, str(error)) from error
    at = text.find("\n") + 1 or len(text)
    while found := _LINE.match(text, at):
        time, index, name, value, about = found.groups()
        try:
            units, details = _told(about)
            log.append(unquote(name), float(time), int(index), _value(value), units, details)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, InvalidInput):
            raise _damaged(path, text, at) from None
        at = found.end()
    if rest := text[at:].strip():
        if "\n" in _QUOTED.sub("", text[at:]):
            raise _damaged(path, text, at)
        warn(f"'{path}' ends in the middle of a line: {rest[:40]!r} was dropped")
    return log


def _told(field: str | None) -> tuple[list[str], dict[str, Any]]:
    """The units and details that `_details` wrote; `ValueError` if it was not."""
    details = json.loads(unquote(field)) if field else {}
    if not isinstance(details, dict):
        raise ValueError("details are an object of JSON")
    units = details.pop("units", [])
    if not isinstance(units, list) or not all(isinstance(unit, str) for unit in units):
        raise ValueError("units are a list of names")
    return units, dict(checked_details(details))


def _damaged(path: Path, text: str, at: int) -> FileProblem:
    line = text.count("\n", 0, at) + 1
    return FileProblem(
        f"'{path}', line {line}: {text[at : at + 80].splitlines()[0]!r} is no event: time,index,event,value"
    )


def unquote(field: str) -> str:
    """The text in a field, quoted or not."""
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def _value(field: str) -> Any:
    """The payload that a field holds; a bare word is an enumeration's label."""
    if field.startswith('"'):
        text = unquote(field)
        return json.loads(text) if text.startswith("[") else text[1:] if text.startswith("\\") else text
    if field.startswith("["):
        return [_value(cell) for cell in field[1:-1].split()]
    if not field:
        return None
    if field in _WORDS:
        return _WORDS[field]
    for parse in (int, float):
        try:
            return parse(field)
        except ValueError:
            continue
    return field
