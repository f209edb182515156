"""Adaptations that several tests use."""

from __future__ import annotations

from typing import Any

import upbeat as up
from upbeat.adapt import (
    Adaptation,
    Assign,
    Break,
    Discard,
    Local,
    Loop,
    Return,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
    is_close,
)


def port(name: str, causality: up.Causality, **more: Any) -> up.Port:
    return up.Port(name, causality, **more)


def inp(name: str, **more: Any) -> up.Port:
    return port(name, up.Causality.INPUT, **more)


def out(name: str, **more: Any) -> up.Port:
    return port(name, up.Causality.OUTPUT, **more)


def passing(
    units: dict[str, Any],
    u: dict[str, str],
    y: dict[str, str],
    control: tuple[Statement, ...] | None = None,
    **more: Any,
) -> Adaptation:
    """Inputs go to inner inputs, outputs come from inner outputs, through storage."""
    return Adaptation(
        units,
        (*(inp(name) for name in u), *(out(name) for name in y), *more.pop("ports", ())),
        in_rules=(
            Rule(
                tuple(Assign(f"in_{name}", name) for name in u),
                tuple(Assign(to, f"in_{name}") for name, to in u.items()),
            ),
            *more.pop("in_rules", ()),
        ),
        out_rules=(
            Rule(
                tuple(Assign(f"out_{name}", source) for name, source in y.items()),
                tuple(Assign(name, f"out_{name}") for name in y),
            ),
            *more.pop("out_rules", ()),
        ),
        inputs=(*(Stored(f"in_{name}") for name in u), *more.pop("inputs", ())),
        outputs=(*(Stored(f"out_{name}") for name in y), *more.pop("outputs", ())),
        control=control,
        **more,
    )


def lag(tau: float = 1.0, start: float = 0.0) -> up.Ode:
    return up.Ode({"x": f"(u - x)/{tau}"}, inputs=["u"], outputs=["x"], start={"x": start})


def rated(model: Any, rate: int, *, linear: bool = True) -> Adaptation:
    """Listing 7.4 of the thesis, with its missing /H."""
    value = "previous + (current - previous)*(dt + h)/H" if linear else "current"
    return Adaptation(
        {"w": model},
        (inp("u"), out("y")),
        in_rules=(Rule((Assign("current", "u"),), (Assign("w.u", value),)),),
        out_rules=(Rule((Assign("o", "w.x"),), (Assign("y", "o"),)),),
        inputs=(Stored("current"),),
        outputs=(Stored("o"),),
        controls=(Stored("previous"),),
        control=(
            Local("micro", f"H/{rate}"),
            Local("inner", "t"),
            Loop(rate, (Step("w", "inner", "micro"), Assign("inner", "inner + micro"))),
            Assign("previous", "current"),
            Return("H"),
        ),
        mealy=False,
        reactive=True,
        name="rate",
    )


def substitution(tolerance: float = 1e-12) -> Adaptation:
    """Listing 7.3: two gains in a loop, solved by successive substitution: y = 0.5·(u + 0.5·y)."""
    first = up.Function(inputs=["u", "b"], outputs={"y": "0.5*(u + b)"})
    second = up.Function(inputs=["u"], outputs={"y": "0.5*u"})
    return passing(
        {"a": first, "b": second},
        {"u": "a.u"},
        {"y": "a.y"},
        connections={"b.u": "a.y", "a.b": "b.y"},
        controls=(Stored("guess"),),
        control=(
            Local("near", 0.0, up.Kind.BOOLEAN),
            Loop(
                60,
                (
                    SaveState("a"),
                    SaveState("b"),
                    Assign("b.u", "guess"),
                    Step("b"),
                    Step("a"),
                    Assign("near", is_close("guess", "a.y", tolerance, tolerance)),
                    Assign("guess", "a.y"),
                    When("near", (Break(),), (Rollback("a"), Rollback("b"))),
                ),
                exhausted="fail",
            ),
        ),
        mealy=False,
        reactive=True,
    )


def crossing(tolerance: float = 1e-9) -> Adaptation:
    """Listing 7.6: the step in which the input passes 0.5 is discarded until it ends there; the unit inside
    counts time from then on."""
    timer = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    below = f"p < 0.5 - {tolerance}"
    return Adaptation(
        {"w": timer},
        (inp("u"), out("y"), out("found")),
        in_rules=(Rule((Assign("f", "u"),), (Assign("w.u", "1 if c else 0"),)),),
        out_rules=(Rule((Assign("o", "w.x"),), (Assign("y", "o"), Assign("found", "at"))),),
        inputs=(Stored("f"),),
        outputs=(Stored("o"),),
        controls=(Stored("p"), Stored("c", 0.0, up.Kind.BOOLEAN), Stored("at", -1.0)),
        control=(
            When(f"{below} and f > 0.5 + {tolerance}", (Discard("H*(0.5 - p)/(f - p)"),)),
            Step("w"),
            When(f"{below} and f >= 0.5 - {tolerance}", (Assign("c", 1.0), Assign("at", "t + H"))),
            Assign("p", "f"),
        ),
        init=(Assign("p", "f"),),
        mealy=False,
        reactive=True,
    )
