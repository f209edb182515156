"""What a scenario says for a signal of an SSP: as plainly as it can be said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from upbeat.core import measure
from upbeat.core.expr import Apply, Expr, Name, Number, Op, names, show
from upbeat.core.ports import Kind, Port
from upbeat.scenario.ssp.conversion import Affine
from upbeat.scenario.ssp.following import Signal
from upbeat.units.fmi.model import Fmu


def source_port(
    signal: Signal,
    units: Mapping[str, Fmu],
    units_of: Mapping[tuple[str, ...], str],
    inputs: Mapping[str, Port],
    own: Mapping[str, str],
) -> Port | None:
    """The port that a signal comes from."""
    path, name = signal.source
    if path == ():
        return inputs.get(own[name])
    return next((port for port in units[units_of[path]].ports if port.name == name), None)


def link(signal: Signal, source: Port | None, unit: str | None) -> Any:
    """What a scenario says for a signal, where the target is in `unit`."""
    before = None if source is None else source.unit
    if not signal.table:
        name = Name(_name_in(signal))
        if _same(_natural(before, unit), signal.affine):
            return show(name) if source is not None and source.event else name
    if before is None or unit is None:
        return signal.made
    return {"value": signal.made, "convert": False}


def coded_link(signal: Signal, source: Port | None, port: Port) -> tuple[Expr, str] | None:
    """An integer that goes to an enumeration, or the reverse, by its codes; and what is to be said about it.

    SSP leaves it to tools whether they connect these. None: it is another connection.
    """
    if source is None or signal.table or Kind.INTEGER not in (source.kind, port.kind):
        return None
    if source.kind is not port.kind or bool(source.items) == bool(port.items):
        return None
    if source.items:
        return signal.made + Number(0.0), "an enumeration is connected to an integer, which gets its codes"
    first, *others = port.codes
    made: Expr = Number(float(first))
    for code in reversed(others):
        made = Apply(Op.WHERE, (Apply(Op.EQ, (signal.made, Number(float(code)))), Number(float(code)), made))
    what = "an integer is connected to an enumeration: it is taken as a code, and any other number as "
    return made, f"{what}{first} ('{port.items[0]}')"


def _name_in(signal: Signal) -> str:
    (name,) = names(signal.made)
    return name


def _natural(source: str | None, target: str | None) -> measure.Conversion | None:
    """What a plain connection would do; None if it would be refused."""
    try:
        return measure.conversion(source, target)
    except measure.MeasureError:
        return None


def _same(one: measure.Conversion | None, other: Affine) -> bool:
    if one is None:
        return False
    scale, offset = float(other.scale), float(other.offset)
    near = math.isclose(one.scale, scale, rel_tol=1e-12)
    return near and math.isclose(one.offset, offset, rel_tol=1e-12, abs_tol=1e-300)
