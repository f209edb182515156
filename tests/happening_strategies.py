"""Random events between units and inside equations, for the scenarios of `strategies`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import upbeat as up
from shapes import REALS, Shape


@st.composite
def own_events(draw: st.DrawFn, states: list[str]) -> dict[str, Any]:
    """An event inside equations, now and then: a state that reaches a border is thrown back."""
    if draw(st.integers(0, 3)):
        return {}
    state = draw(st.sampled_from(states))
    border, other = draw(REALS), draw(st.sampled_from(["p", *states]))
    above = draw(st.booleans())
    condition = f"{state} >= {border!r}" if above else f"{state} <= {border!r}"
    if draw(st.booleans()):
        condition += f" and {other} > {draw(REALS)!r}"
    back = f"{border!r} {'-' if above else '+'} 0.25"
    return {"back": {"when": condition, "then": {state: back}}}


def _difference(a: float, b: float) -> float:
    return a - 0.5 * b


@st.composite
def happenings(draw: st.DrawFn, shapes: dict[str, Shape], signals: list[str]) -> dict[str, Any]:
    """Up to three events between units, some by Python functions, some that change states."""
    if not signals or draw(st.integers(0, 1)):
        return {}
    states = [
        f"{unit}.{state.port.name}"
        for unit, shape in shapes.items()
        if isinstance(shape.model, up.Ode)
        for state in shape.model.equations.states
    ]
    found: dict[str, Any] = {}
    for k in range(draw(st.integers(1, 3))):
        one, other = draw(st.sampled_from(signals)), draw(st.sampled_from(signals))
        event: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"when": f"{one} <= {draw(REALS)!r}"},
                    {"when": [f"{one} - {draw(REALS)!r}", f"0.1 - {other}"]},
                    {"when": f"{one} > {other} or {other} < {draw(REALS)!r}"},
                    {"when": _difference, "of": [one, other]},
                ]
            )
        )
        if states and draw(st.booleans()):
            targets = draw(st.lists(st.sampled_from(states), min_size=1, max_size=2, unique=True))
            event = event | {"then": {target: f"0.5*{one} + {draw(REALS)!r}" for target in targets}}
        found[f"event{k}"] = event
    return found
