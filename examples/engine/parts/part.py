"""One model of the engine while it is put together, and how it is written to a scenario file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = tuple[Any, str]
"""What stands on the right of a key, and the comment above it."""


@dataclass
class Part:
    """States, ports and events under their names, each with a comment; they are written in this order."""

    name: str
    about: str
    inputs: dict[str, Entry] = field(default_factory=dict)
    outputs: dict[str, Entry] = field(default_factory=dict)
    parameters: dict[str, Entry] = field(default_factory=dict)
    variables: dict[str, Entry] = field(default_factory=dict)
    locals: dict[str, Entry] = field(default_factory=dict)
    states: dict[str, Entry] = field(default_factory=dict)
    events: dict[str, Entry] = field(default_factory=dict)

    def input(self, name: str, unit: str, about: str = "", start: float = 0.0) -> None:
        self.inputs[name] = ({"unit": unit, "start": start} if start else {"unit": unit}, about)

    def output(self, name: str, value: str, unit: str, about: str = "") -> None:
        self.outputs[name] = ({"value": value, "unit": unit}, about)

    def parameter(self, name: str, value: float, about: str = "") -> None:
        self.parameters[name] = (value, about)

    def variable(self, name: str, start: Any, about: str = "") -> None:
        """What changes at events only: a truth, a whole number, or (a float) a value that is kept."""
        whole = isinstance(start, int) and not isinstance(start, bool)
        self.variables[name] = ({"start": start, "kind": "integer"} if whole else start, about)

    def local(self, name: str, value: str, about: str = "") -> None:
        self.locals[name] = (value, about)

    def state(self, name: str, derivative: str, start: float, about: str = "") -> None:
        self.states[name] = ({"der": derivative, "start": start}, about)

    def event(self, name: str, when: str, about: str = "", **then: str | float | bool) -> None:
        texts = {
            key: json.dumps(value) if not isinstance(value, str) else value for key, value in then.items()
        }
        self.events[name] = ({"when": when, "then": texts}, about)

    def lines(self) -> Iterator[str]:
        """The table `[models.NAME]`."""
        yield f"# {self.about}"
        for section in ("inputs", "outputs", "parameters", "variables", "locals", "states", "events"):
            yield f"[models.{self.name}.{section}]"
            for key, (value, about) in getattr(self, section).items():
                if about:
                    yield f"# {about}"
                yield f"{key} = {toml(value)}"
            yield ""


def toml(value: Any) -> str:
    """A value as TOML has it, on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
