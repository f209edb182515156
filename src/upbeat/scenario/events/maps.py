"""Maps between events: which label (or whole number, or truth value) of one becomes what of the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import Apply, Expr, Number, Op
from upbeat.core.ports import Kind, Port
from upbeat.scenario.directory import Source, Wrong
from upbeat.scenario.formula import described

_WHOLE = re.compile(r"[+-]?\d{1,15}\Z")


@dataclass(frozen=True, slots=True)
class EventMap:
    """Values by what the source carries. `whole`: no value that it can carry is left out."""

    source: Source
    pairs: tuple[tuple[int, object], ...]
    keys: tuple[str, ...]
    whole: bool

    @property
    def kind(self) -> Kind:
        """What the values are, for a port without a kind of its own."""
        values = [value for _, value in self.pairs]
        label = next((value for value in values if isinstance(value, str)), None)
        if label is not None:
            raise Wrong(
                f"'{label}' is a label, but the output has none",
                "Give it all its labels, in order: "
                f"{{ value = {{ event = …, map = … }}, items = [{', '.join(map(repr, _texts(values)))}] }}.",
            )
        if all(isinstance(value, bool) for value in values):
            return Kind.BOOLEAN
        return Kind.INTEGER if all(isinstance(value, int) for value in values) else Kind.REAL

    def fitted(self, port: Port, target: str) -> tuple[Expr | None, tuple[Expr, ...]]:
        """The condition under which there is an entry (None: always), and the value for every cell."""
        if port.kind is Kind.STRING:
            raise Wrong(
                f"'{target}' is a string, and a map gives labels and numbers only",
                "Make it an enumeration, with items in place of the kind.",
                ("map",),
            )
        rows: list[list[Expr]] = []
        for (_, value), key in zip(self.pairs, self.keys, strict=True):
            try:
                rows.append([Number(float(cell)) for cell in port.values(value, target)])
            except ModelError as error:
                known = suggest(str(value), port.items, "labels") if port.items else ""
                raise Wrong(str(error), known, ("map", key)) from None
        name = self.source.cell(0)
        tests: list[Expr] = [Apply(Op.EQ, (name, Number(float(index)))) for index, _ in self.pairs]
        cells = list(rows[-1])
        for test, row in zip(tests[-2::-1], rows[-2::-1], strict=True):
            cells = [Apply(Op.WHERE, (test, value, other)) for value, other in zip(row, cells, strict=True)]
        known_ones = tests[0]
        for test in tests[1:]:
            known_ones = Apply(Op.OR, (known_ones, test))
        return None if self.whole else known_ones, tuple(cells)


def read_map(given: object, source: Source) -> EventMap:
    """The map from what `source` carries. Raises `Wrong`."""
    port, path = source.port, source.path
    if not isinstance(given, Mapping) or not given:
        raise Wrong(
            f"a map is a table with at least one entry, not {given!r}", 'Write map = { label = "label" }.'
        )
    if source.size is not None:
        raise Wrong(
            f"'{path}' has {source.size} cells, and a map is for a single value",
            f'Pick one of them, counted from 0: event = "{path}[0]".',
        )
    if not port.items and port.kind not in (Kind.INTEGER, Kind.BOOLEAN):
        raise Wrong(
            f"'{path}' is {described(port)}, and a map is for labels, whole numbers and truth values",
            f'Give an expression instead: {{ event = "{path}", value = "…" }}.',
        )
    pairs: dict[int, object] = {}
    keys: list[str] = []
    for key, value in given.items():
        text = str(key).lower() if isinstance(key, bool) else str(key)
        index = _index(text, port, path)
        if index in pairs:
            raise Wrong(f"'{text}' is in the map twice", "Keep one of the two.", (text,))
        pairs[index] = value
        keys.append(text)
    possible = len(port.items) or (2 if port.kind is Kind.BOOLEAN else None)
    return EventMap(source, tuple(pairs.items()), tuple(keys), len(pairs) == possible)


def _index(key: str, port: Port, path: str) -> int:
    if port.items:
        if key not in port.items:
            raise Wrong(f"'{key}' is not a label of '{path}'", suggest(key, port.items, "labels"), (key,))
        return port.labels.code(key)
    if port.kind is Kind.BOOLEAN:
        if key not in ("true", "false"):
            raise Wrong(f"'{path}' is true or false, and never '{key}'", "Write map = { true = … }.", (key,))
        return int(key == "true")
    if not _WHOLE.match(key):
        raise Wrong(f"'{path}' is a whole number, and never '{key}'", "Write map = { 0 = … }.", (key,))
    return int(key)


def _texts(values: list[object]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values))
