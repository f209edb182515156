"""Random discrete-event systems: as plain tables with a simulator of their own, and as `Discrete` models."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import strategies as st

from upbeat.core.expr import Expr, Name, Number, Op, apply, parse
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.discrete import Discrete, Emission, Mode, Variable

LABELS = ("a", "b", "c")


@dataclass(frozen=True)
class State:
    """One state of a system: how long it lasts, what it sends at its end and where it goes; and for each
    event where that leads, and whether time then starts anew."""

    lasts: float
    sends: float | None
    goes: int
    hears: tuple[tuple[int, bool], ...]


@st.composite
def systems(draw: st.DrawFn) -> tuple[State, ...]:
    count = draw(st.integers(1, 6))
    durations = st.one_of(st.sampled_from([0.0, math.inf, 1.0]), st.floats(0.01, 3.0))
    states = st.integers(0, count - 1)
    return tuple(
        State(
            draw(durations),
            draw(st.none() | st.floats(-5, 5)),
            draw(states),
            tuple((draw(states), draw(st.booleans())) for _ in LABELS),
        )
        for _ in range(count)
    )


class Devs:
    """The system by the book: total state (x, time of the last transition), and when the next one is due."""

    def __init__(self, system: tuple[State, ...], start: float) -> None:
        self.system, self.x, self.time = system, 0, start
        self.count = 0
        self.until = start + system[0].lasts

    def sends(self) -> float | None:
        return self.system[self.x].sends

    def internal(self) -> None:
        self.enter(self.system[self.x].goes)
        self.count += 1

    def external(self, label: int) -> None:
        to, anew = self.system[self.x].hears[label]
        if anew:
            self.enter(to)
        else:
            self.x = to

    def enter(self, x: int) -> None:
        self.x = x
        self.until = self.time + self.system[x].lasts


def model_of(system: tuple[State, ...]) -> Discrete:
    """The same system as data. `tell` is an event in, `said` one out; `x` and `count` are shown."""
    time = Name("time")
    lasts = [Number(state.lasts) for state in system]

    def choice(options: list[Expr]) -> Expr:
        chosen = options[0]
        for i, option in enumerate(options[1:], 1):
            chosen = apply(Op.WHERE, apply(Op.EQ, Name("tell"), Number(i)), option, chosen)
        return chosen

    modes = []
    for state in system:
        emissions = () if state.sends is None else (Emission("said", Number(1.0), (Number(state.sends),)),)
        anew = [time + lasts[to] if restart else Name("until") for to, restart in state.hears]
        modes.append(
            Mode(
                due=Name("until"),
                emissions=emissions,
                internal=(
                    ("x", Number(state.goes)),
                    ("until", time + lasts[state.goes]),
                    ("count", parse("count + 1")),
                ),
                external=(("x", choice([Number(to) for to, _ in state.hears])), ("until", choice(anew))),
            )
        )
    return Discrete(
        ports=(
            Port("tell", Causality.INPUT, Kind.INTEGER, items=LABELS, event=True),
            Port("said", Causality.OUTPUT, event=True),
            Port("x", Causality.OUTPUT, Kind.INTEGER),
            Port("count", Causality.OUTPUT, Kind.INTEGER),
        ),
        variables=(
            Variable("x", Kind.INTEGER, 0),
            Variable("until", Kind.REAL, 0.0),
            Variable("count", Kind.INTEGER, 0),
        ),
        mode="x",
        modes=tuple(modes),
        outputs=(("x", (Name("x"),)), ("count", (Name("count"),))),
        initial=(("until", time + lasts[0]),),
    )


MOTION = Discrete(
    ports=(
        Port("u", Causality.INPUT, start=(1.0,)),
        Port("w", Causality.INPUT, size=2, start=(0.5, -0.5)),
        Port("on", Causality.INPUT, Kind.BOOLEAN, start=(True,)),
        Port("hit", Causality.INPUT, event=True, size=2),
        Port("reset", Causality.INPUT, Kind.BOOLEAN, event=True),
        Port("kind", Causality.INPUT, Kind.INTEGER, items=LABELS, event=True),
        Port("passed", Causality.OUTPUT, event=True, size=2),
        Port("echo", Causality.OUTPUT, Kind.INTEGER, items=LABELS, event=True),
        Port("done", Causality.OUTPUT, Kind.BOOLEAN, event=True),
        Port("y", Causality.OUTPUT),
        Port("z", Causality.OUTPUT, Kind.INTEGER, size=2),
        Port("calm", Causality.OUTPUT, Kind.BOOLEAN),
        Port("limit", Causality.PARAMETER, start=(0.25,)),
        Port("gain", Causality.PARAMETER, size=2, start=(1.5, -2.0)),
    ),
    variables=(
        Variable("phase", Kind.INTEGER, 0, ("low", "high")),
        Variable("x", Kind.REAL, 0.1),
        Variable("until", Kind.REAL, math.inf),
        Variable("flag", Kind.BOOLEAN, False),
        Variable("n", Kind.INTEGER, 0),
    ),
    mode="phase",
    modes=(
        Mode(  # a guard, and a relay
            due=apply(
                Op.WHERE, Name("kind?"), Name("time"), parse("time if u + w[0] < limit and on else until")
            ),
            emissions=(
                Emission("passed", parse("u > 0"), (parse("u*gain[0]"), parse("x + gain[1]"))),
                Emission("echo", Name("kind?"), (Name("kind"),)),
            ),
            internal=(
                ("phase", Number(1.0)),
                ("x", parse("x*0.5 + u")),
                ("until", parse("time + 0.3")),
                ("flag", parse("u")),
            ),
            external=(
                ("x", parse("x + hit[0]*hit[1] + 0.1")),
                ("until", parse("time + abs(sin(x + hit[0])) + 0.01")),
                ("n", parse("n + 1.4*gain[0]")),
            ),
        ),
        Mode(
            due=Name("until"),
            emissions=(Emission("done", Number(1.0), (Number(1.0),)),),
            internal=(
                ("phase", Number(0.0)),
                ("until", parse("time + 1/(1 + x**2)")),
                ("n", parse("n + 0.5")),
            ),
            external=(
                ("phase", apply(Op.WHERE, Name("reset?"), Number(0.0), Name("phase"))),
                ("x", apply(Op.WHERE, Name("hit?"), parse("hit[1]"), Name("x"))),
            ),
        ),
    ),
    outputs=(
        ("y", (parse("x*u + time"),)),
        ("z", (parse("n + w[1]"), parse("round(x)"))),
        ("calm", (parse("not flag"),)),
    ),
    initial=(("until", parse("time + limit")),),
)
"""All that such a unit can have: arrays, every kind, a guard on moving inputs, a relay."""
