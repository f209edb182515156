"""Connections ``input = expression`` and scenario outputs, with the rules of what fits where.

* real takes integers and booleans, too; integer takes booleans; a real must be rounded by hand.
* a string is passed on as it is; an enumeration goes to one with the same labels.
* array sizes agree, or a single value goes to every cell; a list gives one expression per cell.
* a plain ``input = output`` converts units of measure. In any other expression nothing is converted:
  values are in the units of the ports that they come from, and the result is taken to be in the
  unit of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from upbeat.core.expr import Expr, Name, Number, substitute
from upbeat.core.measure import Conversion, MeasureError, conversion
from upbeat.core.ports import Kind, Port
from upbeat.scenario.directory import INPUTS, Directory, End, Source, Wrong
from upbeat.scenario.formula import Formula, described, formula

Written = str | tuple[str, ...]
"""An expression as it was written, or one for every cell."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What an input is given: one expression per cell, conversion of units included.

    The names in `cells` are ``unit.port``, ``unit.port[i]`` (in arrays of more than one cell) and, for
    scenario inputs, the bare name. `sources` are the ports they belong to; that of a scenario input
    is ``("inputs", name)``.
    """

    unit: str
    port: str
    cells: tuple[Expr, ...]
    sources: tuple[End, ...]
    text: Written = field(compare=False)

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
    formulas = _formulas(value, port, target, directory)
    cells, sources = _fitted(formulas, port, target)
    return Connection(unit, port.name, cells, sources, _written(formulas))


def deliver(port: Port, value: object, directory: Directory, *, fixed: bool) -> ScenarioOutput:
    """A scenario output computed from what `value` says. Raises `Wrong`.

    Unless `fixed`, the port takes its kind and labels from the expression; its size it always does,
    and its unit of measure where the expression is just a port and no unit is given.
    """
    if isinstance(value, (list, tuple)) and port.size is None:
        port = replace(port, size=len(value) or None)
    formulas = _formulas(value, port, port.name, directory)
    first = formulas[0]
    source = first.plain
    port = replace(port, size=port.size or first.size)
    if not fixed:
        port = replace(port, kind=source.port.kind if source else first.kind)
        port = replace(port, items=source.port.items if source else ())
    units = {one.plain.port.unit if one.plain else None for one in formulas}
    if port.unit is None and len(units) == 1:
        port = replace(port, unit=units.pop())
    cells, sources = _fitted(formulas, port, port.name)
    return ScenarioOutput(port, cells, sources, _written(formulas))


def closed(cells: Sequence[Expr], inputs: Sequence[Port]) -> tuple[Expr, ...]:
    """The expressions with scenario inputs replaced by outputs of the unit that drives them."""
    moved: dict[str, Expr] = {}
    for port in inputs:
        for name in (port.name, *(f"{port.name}[{i}]" for i in range(port.cells))):
            moved[name] = Name(f"{INPUTS}.{name}")
    return tuple(substitute(cell, moved) for cell in cells)


def _formulas(value: object, port: Port, target: str, directory: Directory) -> tuple[Formula, ...]:
    """The formula of the whole port; or, from a list, one per cell."""
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


def _fitted(
    formulas: tuple[Formula, ...], port: Port, target: str
) -> tuple[tuple[Expr, ...], tuple[End, ...]]:
    """One expression per cell of `port`, and the ends they come from."""
    for one in formulas:
        _check_kind(one, port, target)
        _check_size(one, port, target)
    if len(formulas) == 1:
        (one,) = formulas
        change = _conversion(one, port, target)
        cells = tuple(_converted(cell, change) for cell in one.cells(port.cells))
    else:
        cells = tuple(_converted(f.cells(1)[0], _conversion(f, port, target)) for f in formulas)
    ends = dict.fromkeys(source.end for one in formulas for source in one.sources.values())
    return cells, tuple(ends)


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
            raise Wrong(
                f"'{target}' is an {described(_one(port))}, but '{text}' is {_kind_of(given)}",
                "An enumeration is connected to one with the same labels in the same order; "
                'to translate, use a choice such as "0 if a.x > 1 else 1".',
            )
    elif source is not None and source.port.items:
        label = source.port.items[0]
        raise Wrong(
            f"'{target}' is {port.kind.value}, but '{text}' is an {described(_one(source.port))}",
            f"Compare it, {text} == '{label}', or pass on its index with {text} + 0.",
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


def _conversion(given: Formula, port: Port, target: str) -> Conversion:
    source = given.plain
    if source is None:
        return Conversion()
    try:
        change = conversion(source.port.unit, port.unit)
    except MeasureError as error:
        raise Wrong(
            f"'{target}' is in {port.unit} and '{source.path}' is in {source.port.unit}: {error}",
            "Connect a port with the same dimension, correct one of the units, or write the "
            f'conversion yourself, such as "{target}" = "1.0*{source.path}".',
        ) from None
    if change and port.kind is not Kind.REAL:
        raise _inexact(source, port, target, change)
    return change


def _inexact(source: Source, port: Port, target: str, change: Conversion) -> Wrong:
    offset = f" + {change.offset!r}" if change.offset else ""
    return Wrong(
        f"'{target}' is {port.kind.value} in {port.unit} and '{source.path}' is in {source.port.unit}: "
        "converted values need not be whole",
        f'Round them: "{target}" = "round({change.scale!r}*{source.path}{offset})".',
    )


def _converted(cell: Expr, change: Conversion) -> Expr:
    if change.scale != 1.0:
        cell = Number(change.scale) * cell
    return cell + Number(change.offset) if change.offset else cell


def _kind_of(given: Formula) -> str:
    return described(_one(given.plain.port)) if given.plain else given.kind.value


def _one(port: Port) -> Port:
    """The port as a single value."""
    return replace(port, size=None, start=None)


def _written(formulas: tuple[Formula, ...]) -> Written:
    return formulas[0].text if len(formulas) == 1 else tuple(one.text for one in formulas)
