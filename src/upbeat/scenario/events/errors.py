"""What is said where signals and events meet without a converter, or events meet each other."""

from __future__ import annotations

import json
from collections.abc import Sequence

from upbeat.core.ports import Kind, Port
from upbeat.scenario.directory import Directory, Source, Wrong
from upbeat.scenario.formula import Formula


def event_for_signal(target: str, text: str, event: Source, directory: Directory) -> Wrong:
    """An ordinary input is connected to an event."""
    unit = _unused("held", directory)
    held = text.replace(event.path, f"{unit}.value")
    return Wrong(
        f"'{target}' is a signal, but '{event.path}' is an event, which has a value only at instants",
        f"Hold its last value: [units.{unit}] with {_keys('hold', event.port)} (in Python: up.LastValue), "
        f'and the connections "{unit}.event" = "{event.path}" and "{target}" = "{held}".',
    )


def signal_for_event(target: str, given: Formula, directory: Directory) -> Wrong:
    """An event input is connected to something without an event in it."""
    if not given.sources:
        return Wrong(
            f"'{target}' is an event, and '{given.text}' is a constant: it does not say when it happens",
            f'Name the event it comes with: "{target}" = {{ event = "unit.port", value = "{given.text}" }}.',
        )
    if any(source.port.kind is Kind.STRING for source in given.sources.values()):
        return Wrong(
            f"'{target}' is an event, which has a value only at instants, but '{given.text}' is a string",
            "No converter makes events of strings; make it an enumeration, with items in place of the kind.",
        )
    keys, unit, port = _converter(given, directory)
    return Wrong(
        f"'{target}' is an event, which has a value only at instants, but '{given.text}' is a signal",
        f"Make events of it: [units.{unit}] with {keys}, and the connections "
        f'"{unit}.signal" = "{given.text}" and "{target}" = "{unit}.{port}". Kinds that do so are edge '
        "(rise and fall of a boolean), threshold (above and below) and sample; in Python they are up.Edge, "
        "up.Threshold and up.Sampler.",
    )


def several_events(target: str, text: str, events: Sequence[Source]) -> Wrong:
    """One expression reads more than one event."""
    paths = [event.path for event in events]
    return Wrong(
        f"'{text}' combines the events {' and '.join(paths)}, which need not happen at the same instant",
        f'Take the first that is present, "{target}" = "{" or ".join(paths)}", or hold the others by '
        'units of kind "hold" (in Python: up.LastValue).',
    )


def foreign_event(event: Source, source: Source) -> Wrong:
    """A condition or a value reads another event than the one it belongs to."""
    return Wrong(
        f"'{event.path}' is another event than '{source.path}', and may be absent when that happens",
        f'Hold it by a unit of kind "hold" (in Python: up.LastValue), and read its output; or read '
        f"{source.path}.",
    )


def no_event(text: str, target: str) -> Wrong:
    """The `event` of a table does not name one."""
    return Wrong(
        f"'{text}' is not the name of an event",
        f'"{target}" = {{ event = "unit.port", value = "…" }}: the event says when, the value says what.',
    )


def _converter(given: Formula, directory: Directory) -> tuple[str, str, str]:
    """The keys of the converter, a name for it, and the output to use."""
    if given.plain and given.plain.port.items:
        return f"{_keys('sample', given.plain.port)}, every = 0.1", _unused("sampled", directory), "event"
    if given.fits(Kind.BOOLEAN):
        return 'kind = "edge"', _unused("changed", directory), "rise"
    return 'kind = "threshold", level = 0.0', _unused("crossed", directory), "above"


def _keys(kind: str, port: Port) -> str:
    """What a converter must say to carry what `port` does."""
    keys = [f'kind = "{kind}"']
    if port.items:
        labels = [json.dumps(item, ensure_ascii=False) for item in port.items]
        coded = [f"{label} = {code}" for label, code in zip(labels, port.codes, strict=True)]
        default_codes = port.labels.default_codes
        keys.append(
            f"items = [{', '.join(labels)}]" if default_codes else f"items = {{ {', '.join(coded)} }}"
        )
    elif port.kind is not Kind.REAL:
        keys.append(f'of = "{port.kind.value}"')
    keys += [f'unit = "{port.unit}"'] if port.unit else []
    keys += [f"size = {port.size}"] if port.size is not None else []
    return ", ".join(keys)


def _unused(name: str, directory: Directory) -> str:
    return name if name not in directory.units else _unused(f"{name}_2", directory)
