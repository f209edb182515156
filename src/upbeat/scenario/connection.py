"""Connections ``input = expression`` and scenario outputs, with the rules of what fits where.

* real takes integers and booleans, too; integer takes booleans; a real must be rounded by hand.
* a string is passed on as it is; an enumeration goes to one with the same labels.
* array sizes agree, or a single value goes to every cell; a list gives one expression per cell.
* units of measure are converted, all through an expression (see `upbeat.scenario.dimensions`), if every
  port in it has one; otherwise all values are taken as they are. An input without a unit is not checked.
* ``{ value = "a.y", convert = false }``: all values are taken as they are, whatever the units.
* signals only: an event input is connected by `upbeat.scenario.events.links`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from upbeat.core.expr import Apply, Expr, Name, Op, substitute
from upbeat.core.measure import MeasureError, UnknownMeasure
from upbeat.core.ports import Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.dimensions import FACTOR, Quantity
from upbeat.scenario.directory import INPUTS, Directory, End, Unclear, Wrong
from upbeat.scenario.events.errors import event_for_signal
from upbeat.scenario.formula import Formula, described, formula

Written = str | tuple[str, ...] | Mapping[str, Any]
"""An expression as it was written, or one for every cell; or a table of it and ``convert = false``."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What an input is given: one expression per cell, conversion of units included.

    The names in `cells` are ``unit.port``, ``unit.port[i]`` (in arrays of more than one cell) and, for
    scenario inputs, the bare name. `sources` are the ports they belong to; that of a scenario input
    is ``("inputs", name)``. Of these, `rates` give only derivatives: its value needs none of them.
    """

    unit: str
    port: str
    cells: tuple[Expr, ...]
    sources: tuple[End, ...]
    text: Written = field(compare=False)
    rates: tuple[End, ...] = ()

    @property
    def target(self) -> str:
        """The input's name, ``unit.port``."""
        return f"{self.unit}.{self.port}"


@dataclass(frozen=True, slots=True)
class ScenarioOutput:
    """An output of the scenario itself; `cells` and `sources` are as in a `Connection`."""

    port: Port
    cells: tuple[Expr, ...]
    sources: tuple[End, ...]
    text: Written = field(compare=False)


def connect(target: str, value: object, directory: Directory) -> Connection:
    """The checked connection of the input `target` to what `value` says. Raises `Wrong`."""
    (unit, _), port = directory.target(target)
    value, convert = _conversion_of(value, target)
    formulas = formulas_of(value, port, target, directory)
    _check_signals(formulas, target, directory)
    cells, sources = fitted(formulas, port, target, convert=convert)
    return Connection(unit, port.name, cells, sources, _written(formulas, convert))


def _conversion_of(table: object, target: str) -> tuple[object, bool]:
    """An expression, and whether units are converted; what ``{ value = …, convert = … }`` says."""
    if not isinstance(table, Mapping) or "value" not in table or "event" in table:
        return table, True
    for key in table:
        if key not in ("value", "convert"):
            raise Wrong(f"unknown key '{key}' for the signal '{target}'", "The keys are: value, convert.")
    convert = table.get("convert", True)
    if not isinstance(convert, bool):
        raise Wrong(f"convert must be true or false, not {convert!r}")
    return table["value"], convert


def deliver(port: Port, value: object, directory: Directory, *, fixed: bool) -> ScenarioOutput:
    """A scenario output computed from what `value` says. Raises `Wrong`.

    Unless `fixed`, the port takes its kind and labels from the expression; its size it always does,
    and its unit of measure where none is given and the expression has one.
    """
    value, convert = _conversion_of(value, port.name)
    if isinstance(value, (list, tuple)) and port.size is None:
        port = replace(port, size=len(value) or None)
    formulas = formulas_of(value, port, port.name, directory)
    _check_signals(formulas, port.name, directory)
    first = formulas[0]
    source = first.plain
    port = replace(port, size=port.size or first.size)
    if not fixed:
        port = replace(port, kind=source.port.kind if source else first.kind)
        port = replace(port, items=source.port.items if source else ())
    if port.unit is None and convert:
        port = replace(port, unit=_unit_of(formulas))
    cells, sources = fitted(formulas, port, port.name, convert=convert)
    return ScenarioOutput(port, cells, sources, _written(formulas, convert))


def closed(cells: Sequence[Expr], inputs: Sequence[Port]) -> tuple[Expr, ...]:
    """The expressions with scenario inputs replaced by outputs of the unit that drives them."""
    moved: dict[str, Expr] = {}
    for port in inputs:
        for name in (port.name, *(f"{port.name}[{i}]" for i in range(port.cells))):
            moved[name] = Name(f"{INPUTS}.{name}")
    return tuple(substitute(cell, moved) for cell in cells)


def formulas_of(value: object, port: Port, target: str, directory: Directory) -> tuple[Formula, ...]:
    """The formula of the whole port; or, from a list, one per cell."""
    if isinstance(value, Mapping):
        raise Wrong(
            f"expected an expression for the signal '{target}', not a table with other keys than value and "
            "convert: that is for event inputs",
            f'Write an expression: "{target}" = "unit.port".',
        )
    if not isinstance(value, (list, tuple)):
        return (formula(value, directory),)
    if len(value) != port.cells:
        raise Wrong(
            f"'{target}' has {port.cells} cell(s), but the list has {len(value)} expressions",
            "A list needs one expression per cell.",
        )
    formulas = tuple(formula(item, directory) for item in value)
    for one in formulas:
        if one.size is not None:
            raise Wrong(
                f"'{one.text}' in the list has {one.size} cells, but stands for one",
                "Pick a cell by its index, counted from 0, or leave the list out.",
            )
    return formulas


def fitted(
    formulas: tuple[Formula, ...], port: Port, target: str, *, convert: bool = True
) -> tuple[tuple[Expr, ...], tuple[End, ...]]:
    """One expression per cell of `port`, and the ends they come from."""
    for one in formulas:
        _check_kind(one, port, target)
        _check_size(one, port, target)
    ready = [_converted(one, port, target) if convert else one for one in formulas]
    if len(ready) == 1:
        cells = ready[0].cells(port.cells)
    else:
        cells = tuple(one.cells(1)[0] for one in ready)
    ends = dict.fromkeys(source.end for one in formulas for source in one.sources.values())
    return cells, tuple(ends)


def _check_signals(formulas: tuple[Formula, ...], target: str, directory: Directory) -> None:
    for one in formulas:
        for source in one.sources.values():
            if source.port.event:
                raise event_for_signal(target, one.text, source, directory)


def _check_kind(given: Formula, port: Port, target: str) -> None:
    source, text = given.plain, given.text
    if port.kind is Kind.STRING or (source is not None and source.port.kind is Kind.STRING):
        if source is None or source.port.kind is not port.kind:
            raise Wrong(
                f"'{target}' is {described(port)}, but '{text}' is {_kind_of(given)}",
                "A string input takes a string output as it is, and nothing else does.",
            )
        return
    if port.items:
        if not given.labelled(port.items):
            first, other = port.codes[0], port.codes[min(1, len(port.codes) - 1)]
            raise Wrong(
                f"'{target}' is an {described(_one(port))}, but '{text}' is {_kind_of(given)}",
                "An enumeration is connected to one with the same labels in the same order; "
                f'to translate, use a choice such as "{first} if a.x > 1 else {other}".',
            )
    elif source is not None and source.port.items:
        label, number = source.port.items[0], "index" if source.port.labels.default_codes else "code"
        raise Wrong(
            f"'{target}' is {port.kind.value}, but '{text}' is an {described(_one(source.port))}",
            f"Compare it, {text} == '{label}', or pass on its {number} with {text} + 0.",
        )
    elif not given.fits(port.kind):
        integer = port.kind is Kind.INTEGER
        fix = f'Round it: "{target}" = "round({text})".' if integer else f'Compare it: "{text} > 0".'
        raise Wrong(f"'{target}' is {port.kind.value}, but '{text}' is {_kind_of(given)}", fix)


def _check_size(given: Formula, port: Port, target: str) -> None:
    if given.size is None or given.size == port.cells:
        return
    if port.cells == 1:
        array = next(source for source in given.sources.values() if source.size is not None)
        raise Wrong(
            f"'{target}' is a single value, but '{given.text}' has {given.size} cells",
            f"Pick one of them, counted from 0: {array.path}[0].",
        )
    raise Wrong(
        f"'{target}' has {port.cells} cells, but '{given.text}' has {given.size}",
        f'Give one expression per cell: "{target}" = ["…", "…"].',
    )


def _unit_of(formulas: tuple[Formula, ...]) -> str | None:
    """The unit that all formulas have; None if there is none, or more than one."""
    found = {one.plain.port.unit if one.plain else _text(_if_it_fits(one)) for one in formulas}
    return found.pop() if len(found) == 1 else None


def _text(measured: Quantity | None) -> str | None:
    return None if measured is None or measured.measure is None else measured.text


def _if_it_fits(given: Formula) -> Quantity | None:
    try:
        return given.measured()
    except Wrong:
        return None  # metres are added to seconds: the numbers in it must stand for more than they say


_ROUNDING = (Op.ROUND, Op.FLOOR, Op.CEIL)


def _converted(given: Formula, port: Port, target: str) -> Formula:
    """The formula with its value in the unit of `port`; if that has none, with parts that fit together."""
    if given.plain and port.unit in (None, given.plain.port.unit):
        return given
    if port.unit is None:
        truth = port.kind is Kind.BOOLEAN or port.items
        measured = given.measured() if truth else _if_it_fits(given)
        return given if measured is None else replace(given, expr=measured.expr)
    if isinstance(given.expr, Apply) and given.expr.op in _ROUNDING:
        # Rounding comes last, so that round(a.x) in mm gives whole metres to an input in m.
        inner = _converted(replace(given, expr=given.expr.args[0]), replace(port, kind=Kind.REAL), target)
        return replace(given, expr=Apply(given.expr.op, (inner.expr,)))
    measured = given.measured(port.unit)
    if measured is None:
        return given
    try:
        made = replace(given, expr=measured.converted(port.unit))
    except UnknownMeasure:
        raise Unclear from None
    except MeasureError as error:
        raise Wrong(
            f"'{target}' is in {port.unit} and '{given.text}' is in {measured.text}: {error}",
            "Correct one of the units, or connect something else." if given.plain else FACTOR,
        ) from None
    if not made.fits(port.kind):
        raise Wrong(
            f"'{target}' is {port.kind.value} in {port.unit} and '{given.text}' is in {measured.text}: "
            "converted values need not be whole",
            f'Round them: "{target}" = "round({given.text})".',
        )
    return made


def _kind_of(given: Formula) -> str:
    return described(_one(given.plain.port)) if given.plain else given.kind.value


def _one(port: Port) -> Port:
    """The port as a single value."""
    return replace(port, size=None, start=None)


def _written(formulas: tuple[Formula, ...], convert: bool) -> Written:
    text = formulas[0].text if len(formulas) == 1 else tuple(one.text for one in formulas)
    return text if convert else {"value": text, "convert": False}


def pairs_of(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Inputs and what drives them; ``left.F = …`` without quotation marks is a table in a table to TOML.

    Behind the port, a table is a value: ``light.control = { event = "officer.cmd" }``.
    """
    for key, value in table.items():
        if isinstance(value, Mapping) and "." not in prefix + key:
            yield from pairs_of(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
