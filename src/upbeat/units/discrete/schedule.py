"""`Schedule`: events at times that are known beforehand."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.expr import ONE, Expr, Lookup, Name, Number, Table1
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.discrete.converter import Converter, carried, formula, payload
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.shorthand import Complaints, unwrapped


@dataclass(frozen=True, init=False)
class Schedule(Converter):
    """Events from the output `event` at given times, each with its value.

        Schedule([1.0, 2.5, 2.5], ["on", "off", "on"])
        Schedule([1.0, 2.0])

    Times do not fall; those that are equal are events one after the other at the same instant, and those
    before the start of the run are left out. Without values the event only happens. Texts are labels, in
    the order of `items`, or else in that of their first appearance; `of` (the kind) and `unit` are those of
    the event. In files: ``kind = "schedule"``.
    """

    def __init__(
        self,
        at: Sequence[float],
        value: Sequence[Any] | None = None,
        *,
        of: str | None = None,
        items: Sequence[str] | Mapping[str, int] | None = None,
        unit: str | None = None,
    ) -> None:
        complaints = Complaints()
        times = _times(unwrapped(at), complaints)
        port, values = _values(unwrapped(value), len(times), of, items, unit, complaints)
        complaints.raise_if_any()
        discrete = Discrete(
            ports=(carried(port, "event", Causality.OUTPUT, event=True),),
            variables=(Variable("k", Kind.INTEGER, 0),),
            modes=(
                Mode(
                    due=formula(f"at if k < {len(times)} else inf", at=_nth(times)),
                    emissions=(Emission("event", ONE, (ONE if value is None else _nth(values),)),),
                    internal=(("k", formula("k + 1")),),
                ),
            ),
            initial=(("k", _passed(times)),),
        )
        spec = {"at": at, "value": value, "of": of, "items": items, "unit": unit}
        super().__init__(discrete, spec)


def _times(given: Any, complaints: Complaints) -> list[float]:
    port = Port("at", Causality.PARAMETER)
    times: list[float] = []
    with complaints.at("at"):
        if not isinstance(given, (list, tuple)) or not given:
            raise ModelError(f"a schedule needs its times: at = [1.0, 2.0], not {given!r}")
        times = [float(port.value(item)) for item in given]
        for time in times:
            if not math.isfinite(time):
                raise ModelError(f"a time of a schedule is a finite number, not {time}")
        for before, after in pairwise(times):
            if after < before:
                raise ModelError(f"the times of a schedule do not fall, but {after:g} follows {before:g}")
    return times


def _values(
    given: Any, count: int, of: Any, items: Any, unit: Any, complaints: Complaints
) -> tuple[Port, list[float]]:
    """What the events are, and what each of them says."""
    pure = Port("value", Causality.PARAMETER, Kind.BOOLEAN)
    with complaints.at("value"):
        if given is None:
            if any(option is not None for option in (of, items, unit)):
                raise ModelError(
                    "without values the event only happens: give a list of values, one for each time"
                )
            return pure, []
        if not isinstance(given, (list, tuple)):
            raise ModelError(f"one value for each time is needed, in a list, not {given!r}")
        if count and len(given) != count:
            raise ModelError(f"there are {count} times, but {len(given)} values")
        if items is None and given and all(isinstance(item, str) for item in given):
            items = list(dict.fromkeys(given))
        port = payload("value", None, of, items, unit, None)
        if port.kind is Kind.BOOLEAN or any(isinstance(item, bool) for item in given):
            raise ModelError("an event that is boolean only happens: leave the values out")
        return port, [float(port.value(item)) for item in given]
    return pure, []


def _nth(values: Sequence[float]) -> Expr:
    """The value at place `k`."""
    places = range(max(len(values), 2))  # a table has two points at least
    padded = [values[min(place, len(values) - 1)] for place in places]
    return Lookup(Table1(tuple(map(float, places)), tuple(padded), mode="hold"), (Name("k"),))


def _passed(times: Sequence[float]) -> Expr:
    """How many times lie before the start."""
    knots = sorted(set(times))
    if len(knots) == 1:
        return formula(f"{len(times)} if time > last else 0", last=Number(knots[0]))

    def table(values: Sequence[float]) -> Expr:
        return Lookup(Table1(tuple(knots), tuple(values), mode="hold"), (Name("time"),))

    before = table([float(bisect_left(times, knot)) for knot in knots])
    until = table([float(bisect_right(times, knot)) for knot in knots])
    return formula(
        "0 if time <= first else before if time == knot else until",
        first=Number(knots[0]), before=before, until=until, knot=table(knots),
    )  # fmt: skip
