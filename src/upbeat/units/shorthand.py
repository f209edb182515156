"""Ports in shorthand: what people write in Python or in a file, read into `Port`s and written back.

    inputs     = ["F"]   or   { F = 1.5 }   or   { F = { start = 1.5, unit = "N" } }
    parameters = { m = 1.0, mode = { value = "heat", items = ["off", "heat"] } }
    outputs    = ["y"]   or   { y = { unit = "m", depends = ["F"] } }

The items of an enumeration count from 0; with other codes they are a table: { off = 1, heat = 4 }.
A start value says the kind (true: boolean, "text": string, a number: real) and, as a list, the
size, unless `kind` and `size` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from upbeat.core import measure
from upbeat.core.errors import InvalidInput, ModelError, suggest
from upbeat.core.names import Labels, bare, resolve
from upbeat.core.ports import Causality, Kind, Port, Values, check_variable

KEYS = {
    Causality.INPUT: ("start", "unit", "kind", "size", "reactive", "items", "description", "event"),
    Causality.OUTPUT: ("value", "unit", "kind", "size", "items", "derivative", "description", "event"),
    Causality.PARAMETER: ("value", "unit", "kind", "size", "items", "description"),
}


def is_empty(given: object) -> bool:
    """Whether nothing was given. An array, which may have no truth value, is something, if wrong."""
    return given is None or (isinstance(given, Sized) and len(given) == 0)


class Complaints:
    """Everything that is wrong with a model, collected and then raised as one `ModelError`."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, where: str, what: str) -> None:
        self.found.append((where, what))

    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Collect what the body complains about, and go on after it."""
        try:
            yield
        except InvalidInput as error:
            self.add(where, str(error))

    def raise_if_any(self) -> None:
        if not self.found:
            return
        lines = [f"{where}: {what}" if where else what for where, what in self.found]
        if len(lines) > 1:
            lines = [f"the model has {len(lines)} problems", *(f"  • {line}" for line in lines)]
        raise ModelError("\n".join(lines), self.found)


def entries(given: object, where: str, complaints: Complaints) -> dict[str, Any]:
    """A list of names or a table, as a table: a name in a list has an empty entry, a `Port` itself."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    if isinstance(given, Iterable) and not isinstance(given, str):
        table: dict[str, Any] = {}
        for name in given:
            key = name.name if isinstance(name, Port) else name
            if not isinstance(key, str):
                complaints.add(where, f"expected a name, not {name!r}")
            elif key in table:
                complaints.add(where, f"'{key}' is listed twice")
            else:
                table[key] = name if isinstance(name, Port) else {}
        return table
    complaints.add(where, f"expected a list of names or a table, not {given!r}")
    return {}


def unwrapped(value: Any) -> Any:
    """A NumPy array or number as plain Python; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def check_keys(entry: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse an entry with an unknown key."""
    known = tuple(known)
    for key in entry:
        if key not in known:
            raise ModelError(f"unknown key {key!r}. {suggest(str(key), known, 'keys')}")


def read_port(
    name: str, given: object, causality: Causality, more: tuple[str, ...] = (), *, any_name: bool = False
) -> Port:
    """One port from its shorthand. `more` names keys that the caller reads itself.

    The name must be an identifier, unless `any_name` says that no expression and no code has to write it.
    """
    if not any_name:
        check_variable(name)
    if isinstance(given, Port):  # read before: `dataclasses.replace` hands ports back as they are
        if given.causality is not causality:
            raise ModelError(f"this is an {given.causality.value}, not an {causality.value}")
        return given
    value_key = "start" if causality is Causality.INPUT else "value"
    entry = dict(given) if isinstance(given, Mapping) else {value_key: given}
    check_keys(entry, (*KEYS[causality], *more))
    items = Labels.read(entry["items"]) if "items" in entry else ()
    start = None if value_key in more else unwrapped(entry.get(value_key))
    size = entry.get("size", len(start) if isinstance(start, (list, tuple)) else None)
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        raise ModelError(f"size must be a whole number of cells, not {size!r}")
    reactive = entry.get("reactive")
    if reactive is not None and not isinstance(reactive, bool):
        raise ModelError(f"reactive must be true or false, not {reactive!r}")
    event = entry.get("event", False)
    if not isinstance(event, bool):
        raise ModelError(f"event must be true or false, not {event!r}")
    unit = _text(entry, "unit")
    if unit is not None:
        measure.check(unit)
    given_kind = entry.get("kind")
    if event and given_kind is None and "unit" not in entry:
        given_kind = Kind.INTEGER if items else Kind.BOOLEAN  # an event that only happens
    port = Port(
        name,
        causality,
        kind=_kind(given_kind, start, items),
        size=size,
        unit=unit,
        reactive=reactive,
        derivative=_text(entry, "derivative"),
        items=items,
        description=_text(entry, "description") or "",
        event=event,
    )
    return port if start is None else port.starting(port.values(start))


def _text(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise ModelError(f"{key} must be a text, not {value!r}")
    return value


def _kind(given: object, start: object, items: tuple[str, ...]) -> Kind:
    if given is None:
        first = start[0] if isinstance(start, (list, tuple)) and start else start
        if items:
            return Kind.INTEGER
        if isinstance(first, bool):
            return Kind.BOOLEAN
        return Kind.STRING if isinstance(first, str) else Kind.REAL
    names = [kind.value for kind in Kind]
    if isinstance(given, Kind):
        kind = given
    elif isinstance(given, str) and given in names:
        kind = Kind(given)
    else:
        raise ModelError(f"there is no kind {given!r}. {suggest(str(given), names, 'kinds')}")
    if items and kind is not Kind.INTEGER:
        raise ModelError(f"items make an enumeration, which is integer and not {kind.value}")
    return kind


def read_ports(
    given: object, causality: Causality, where: str, complaints: Complaints, *, any_name: bool = False
) -> tuple[Port, ...]:
    """All ports of one causality."""
    found = []
    for name, entry in entries(given, where, complaints).items():
        with complaints.at(f"{where}.{name}"):
            port = read_port(name, entry, causality, any_name=any_name)
            if where == "parameters" and port.start is None:
                raise ModelError(f"a parameter needs a value, such as parameters = {{ {name} = 1.0 }}")
            found.append(port)
    return tuple(found)


def read_outputs(
    given: Mapping[str, Any],
    inputs: Sequence[Port],
    where: str,
    complaints: Complaints,
    *,
    any_name: bool = False,
) -> tuple[Port, ...]:
    """Outputs computed by code, which cannot be searched for the inputs it reads.

    An output therefore depends on all inputs, unless its `depends` says on which.
    """
    names = [port.name for port in inputs if not port.event]
    found = []
    for name, entry in given.items():
        with complaints.at(f"{where}.{name}"):
            more = ("depends", "value")
            port = read_port(name, entry, Causality.OUTPUT, more, any_name=any_name)
            own = port.depends if isinstance(entry, Port) else () if port.event else names
            depends = entry.get("depends", own) if isinstance(entry, Mapping) else own
            if isinstance(depends, str) or not isinstance(depends, Iterable):
                raise ModelError(f"depends must be a list of inputs, not {depends!r}")
            for other in (depends := list(depends)):
                if other not in names:
                    hint = suggest(str(other), names, "inputs")
                    raise ModelError(f"depends on unknown input {other!r}. {hint}")
            found.append(replace(port, depends=frozenset(depends)))
    return tuple(found)


def check_unique(ports: Iterable[Port], complaints: Complaints) -> None:
    """Refuse a name that two ports share."""
    seen: dict[str, Port] = {}
    for port in ports:
        if port.name in seen:
            first, second = seen[port.name].causality.value, port.causality.value
            complaints.add("", f"the name '{port.name}' is used twice ({first} and {second})")
        seen[port.name] = port


def ports(inputs: object = (), outputs: object = (), parameters: object = ()) -> tuple[Port, ...]:
    """The ports of a model written in Python, from shorthand. They may have any name."""
    complaints = Complaints()
    read_inputs = read_ports(inputs, Causality.INPUT, "inputs", complaints, any_name=True)
    given = entries(outputs, "outputs", complaints)
    read = (
        *read_inputs,
        *read_outputs(given, read_inputs, "outputs", complaints, any_name=True),
        *read_ports(parameters, Causality.PARAMETER, "parameters", complaints, any_name=True),
    )
    check_unique(read, complaints)
    complaints.raise_if_any()
    return read


def port_spec(port: Port) -> Any:
    """The shorthand that `read_port` reads back (without `depends`, and without an output's value)."""
    value_key = "start" if port.causality is Causality.INPUT else "value"
    entry: dict[str, Any] = {}
    if port.start is not None or port.causality is Causality.PARAMETER:  # which always has a value
        entry[value_key] = plain(port, port.initial)
    if port.items:
        entry["items"] = port.labels.written
    elif port.kind is not (_kind(None, entry.get(value_key), ())):
        entry["kind"] = port.kind.value
    if port.size is not None and not isinstance(entry.get(value_key), list):
        entry["size"] = port.size
    if port.event:
        entry["event"] = True
        if port.kind is Kind.BOOLEAN:
            del entry["kind"]
        elif port.kind is Kind.REAL and port.unit is None:
            entry["kind"] = port.kind.value
    for key in ("unit", "reactive", "derivative", "description"):
        if getattr(port, key) not in (None, ""):
            entry[key] = getattr(port, key)
    return entry[value_key] if entry.keys() == {value_key} else entry


def plain(port: Port, values: Values) -> Any:
    """Values as they are written: a list for an array, the label for an enumeration."""
    labels = port.labels
    shown = [v if isinstance(v, str) or (label := labels.label(v)) is None else label for v in values]
    return shown if port.size is not None else shown[0]


def with_starts(ports: Iterable[Port], values: Mapping[str, Any]) -> tuple[Port, ...]:
    """The ports with other start values where `values` has one, for the port or for a cell: ``v[0]``."""
    ports = tuple(ports)
    changed = {port.name: port for port in ports}
    meant = [(*resolve(bare(key), changed), key, value) for key, value in values.items()]
    for name, index, key, value in sorted(meant, key=lambda entry: entry[1] is not None):  # cells come last
        if name not in changed:
            continue
        port = changed[name]
        if index is None:
            changed[name] = port.starting(port.values(value))
        else:
            changed[name] = _with_cell(port, key, index, value)
    return tuple(changed[port.name] for port in ports)


def _with_cell(port: Port, key: str, index: int, value: object) -> Port:
    if port.size is None or index >= port.size:
        have = (
            "is a single value" if port.size is None else f"has the cells {port.name}[0] … [{port.size - 1}]"
        )
        raise ModelError(f"there is no '{key}': '{port.name}' {have}")
    start = list(port.initial)
    start[index] = port.value(value, key)
    return port.starting(tuple(start))


def check_settable(values: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse values for names that cannot be set."""
    known = tuple(known)
    for name in values:
        if resolve(bare(name), known)[0] not in known:
            raise ModelError(f"there is no value '{name}' to set. {suggest(name, known, 'settable names')}")
