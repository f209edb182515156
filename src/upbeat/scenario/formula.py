"""Formulas: expressions over the ports of a scenario, with their size and kind.

An array name stands for all its cells: ``a.u - b.v`` is computed cell by cell, and a single value
goes with every cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from upbeat.core.errors import ExpressionError
from upbeat.core.expr import (
    Expr,
    Name,
    Number,
    fits,
    kind_of,
    labelled,
    names,
    parse,
    show,
    substitute,
)
from upbeat.core.measure import UnknownMeasure
from upbeat.core.ports import Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.dimensions import NUMBER, NoUnit, Quantity, infer
from upbeat.scenario.directory import Directory, Source, Unclear, Wrong

_PLAIN = re.compile(r"\s*([A-Za-z_]\w*\.[A-Za-z_]\w*)\s*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression whose names have been looked up."""

    expr: Expr
    sources: Mapping[str, Source]
    size: int | None
    text: str

    @property
    def plain(self) -> Source | None:
        """The source, if the formula is nothing but its name."""
        return self.sources[self.expr.id] if isinstance(self.expr, Name) else None

    def cells(self, count: int) -> tuple[Expr, ...]:
        """One expression per cell of a port with `count` cells."""
        return tuple(
            substitute(self.expr, {name: source.cell(i) for name, source in self.sources.items()})
            for i in range(count)
        )

    @property
    def kind(self) -> Kind:
        """What the expression computes."""
        return kind_of(self.expr, self._kinds)

    def fits(self, kind: Kind) -> bool:
        """Whether the value can be stored as `kind` without losing anything."""
        return fits(self.expr, self._kinds, kind)

    def labelled(self, items: tuple[str, ...]) -> bool:
        """Whether the value is an enumeration with these labels, or a choice between such values."""
        return labelled(self.expr, items, lambda name: self.sources[name].port.items)

    def measured(self, wanted: str | None = None) -> Quantity | None:
        """What the value is measured in, rather in `wanted`; None if a port in it has no unit of measure.

        Raises `Wrong` if the parts do not fit together, and `Unclear` if one has a unit that does not exist.
        """
        try:
            return infer(self.expr, self._unit_of, wanted)
        except NoUnit:
            return None
        except UnknownMeasure:
            raise Unclear from None

    def _unit_of(self, name: str) -> str | None:
        port = self.sources[name].port
        return NUMBER if port.unit is None and (port.kind is Kind.BOOLEAN or port.items) else port.unit

    @property
    def _kinds(self) -> dict[str, Kind]:
        return {name: source.port.kind for name, source in self.sources.items()}


def formula(value: object, directory: Directory) -> Formula:
    """`value` (a text, a number or an expression) over the ports in `directory`."""
    expr, text = expression(value, directory)
    sources = {name: directory.source(name) for name in sorted(names(expr))}
    sizes = {source.size: source.path for source in sources.values() if source.size is not None}
    if len(sizes) > 1:
        (one, first), (two, second) = list(sizes.items())[:2]
        raise Wrong(
            f"'{first}' has {one} cells and '{second}' has {two}: they cannot be combined cell by cell",
            f"Pick single cells, such as {first}[0], or give one expression per cell in a list.",
        )
    strings = [source.path for source in sources.values() if source.port.kind is Kind.STRING]
    if strings and not isinstance(expr, Name):
        raise Wrong(
            f"'{strings[0]}' is a string, and expressions compute with numbers only",
            f'A string can only be passed on as it is: "unit.port" = "{strings[0]}".',
        )
    return Formula(expr, sources, next(iter(sizes), None), text)


def expression(value: object, directory: Directory) -> tuple[Expr, str]:
    """`value` as an expression, whose names have not been looked up, and as a text."""
    match value:
        case str() if plain := _PLAIN.match(value):
            return Name(plain[1]), plain[1]  # by far the most common case
        case str():
            return _parsed(value, directory)
        case bool() | int() | float():
            try:
                number = Number(float(value))
            except OverflowError:
                raise Wrong("the number is too large") from None
            return number, show(number)
        case _ if isinstance(value, Expr):
            return value, show(value)
    raise Wrong(f"expected an expression, not {value!r}", 'Write it as a text: "unit.port" = "other.port".')


def _parsed(text: str, directory: Directory) -> tuple[Expr, str]:
    """What `text` says; where that means nothing, the port that is called so: ``a.der(x)``."""
    literal = directory.literal(text)
    try:
        expr = parse(text, enums=directory.enumerations)
    except ExpressionError as error:
        if literal is None:
            raise Wrong(str(error)) from None
    else:
        if literal is None or all(map(directory.has, names(expr))):
            return expr, text.strip()
    return Name(literal), show(Name(literal))


def described(port: Port) -> str:
    """What a port holds, in words: ``real``, ``integer[3]``, ``enumeration (off, on)``."""
    kind = f"enumeration ({port.labels})" if port.items else port.kind.value
    return kind if port.size is None else f"{kind}[{port.size}]"
