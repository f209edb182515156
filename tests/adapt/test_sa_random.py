"""Random adaptations: what is written out means itself, both engines do the same, and so does an independent
interpreter (`reference_adaptation`), to the last bit."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from reference_adaptation import plain, shown
from strategies import on_engine
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
)
from upbeat.adapt.sa.explicit import explicit
from upbeat.adapt.sa.loading import Library, all_of
from upbeat.adapt.sa.parsing import parse
from upbeat.adapt.sa.showing import text_of

SEEDS = int(os.environ.get("UPBEAT_EXAMPLES", "8"))
UNITS = {
    "a": up.Ode({"x": "u - x"}, inputs=["u"], outputs=["x"], solver=up.RK4(2)),
    "b": up.Function(inputs=["v", "w"], outputs={"y": "0.3*v - 0.2*w"}),
}


class Drawn:
    """A text of the language, drawn statement by statement; numbers stay small."""

    def __init__(self, seed: int) -> None:
        self.turn = random.Random(seed)
        self.loops = 0

    def number(self) -> str:
        return self.turn.choice(("0.5", "2", "-1.25", "1e-1", "K"))

    def value(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.turn.random() < 0.3:
            return self.turn.choice([*names, self.number()])
        one, other = self.value(names, depth - 1), self.value(names, depth - 1)
        return self.turn.choice(
            (
                f"0.5 * ({one} {self.turn.choice('+-')} {other})",
                f"min({one}, {other})",
                f"max(-{one}, {other})" if not one.startswith("-") else one,
                f"floor(4 * {one}) / 4",
                f"abs({one}) / (1 + abs({other}))",
            )
        )

    def truth(self, names: list[str]) -> str:
        one, other = self.value(names, 1), self.value(names, 1)
        simple = f"{one} {self.turn.choice(('<', '<=', '>', '>='))} {other}"
        return self.turn.choice(
            (simple, f"not ({simple})", f"is_close({one}, {other}, 0.1, 0.1)", f"{simple} or flag")
        )

    def block(self, names: list[str], targets: list[str], depth: int = 2) -> str:
        lines = []
        for _ in range(self.turn.randrange(1, 4)):
            roll = self.turn.random()
            if roll < 0.55 or depth == 0:
                lines.append(f"{self.turn.choice(targets)} := {self.value(names)};")
            elif roll < 0.8:
                other = (
                    f" else {{ {self.block(names, targets, depth - 1)} }}" if self.turn.random() < 0.5 else ""
                )
                lines.append(f"if ({self.truth(names)}) {{ {self.block(names, targets, depth - 1)} }}{other}")
            else:
                lines.append(f"flag := {self.truth(names)};" if "flag" in targets[-1:] else "")
        return " ".join(lines)

    def part(self, names: list[str], targets: list[str], depth: int = 1) -> str:
        """A part of a rule, with a variable of its own and a loop perhaps."""
        own = self.turn.choice(("v", "w2"))
        lines = [f"var {own} := {self.value(names)};"]
        if self.turn.random() < 0.5:
            lines.append(f"for (var k in 0 .. 3) {{ {own} := {self.value([*names, own, 'k'])}; }}")
        if self.turn.random() < 0.5:
            to = self.turn.choice([own, *targets])
            inner = f"var inner := {self.value([*names, own])}; {to} := {self.value(['inner', own])};"
            lines.append(f"if ({self.truth([*names, own]).replace(' or flag', '')}) {{ {inner} }}")
        return f"{' '.join(lines)} {self.block([*names, own], [*targets, own], depth)}"

    def control(self) -> str:
        names = ["p", "q", "a.x", "b.y", "s.in1", "t", "H"]
        before = self.block(names, ["p", "q", "a.u"])
        parts = self.turn.choice((1, 2, 3))
        leave = f"if ({self.truth(names)}) {{ break; }}" if self.turn.random() < 0.3 else ""
        back = "save_state(b); do_step(b, t, H); rollback(b);" if self.turn.random() < 0.4 else ""
        steps = f"do_step(a, t + i * H / {parts}, H / {parts});"
        rest = "do_step(a, last_execution_time(a), t + H - last_execution_time(a));"
        loop = f"for (var i in 0 .. {parts}) {{ {steps} {self.block(names, ['p', 'q'], 1)} {leave} }}"
        return f"{before} {back} {loop} {rest} do_step(b, t, H); {self.block(names, ['p', 'q'])} return H;"

    def text(self) -> str:
        stored = ["i1", "p", "q"]
        second = self.part([*stored, "dt", "h", "last_execution_time(b)"], ["a.u", "b.w"])
        shown = self.part(["o1", "p", "b.y", "a.x", "elapsed(a)"], ["s.out1"])
        kinds = f"{self.turn.choice(('reactive', 'delayed'))} {self.turn.choice(('moore', 'mealy'))}"
        return f"""semantic adaptation {kinds} S s
            for inner fmu A a with input ports u with output ports x
            for inner fmu B b with input ports v, w with output ports y
            with a.x -> b.v
            input ports in1, in2 -> b.w
            output ports out1, out2 <- b.y
            param K := 0.75;
            control var p := 0.1, q := K, flag := false;
            control rules {{ {self.control()} }}
            in var i1 := 0.2;
            in rules {{
                {self.truth(["in1", "p"])} -> {{ {self.part(["in1", "q", "i1"], ["i1"])} }}
                    --> {{ {second} }};
                true -> {{ }} --> {{ a.u := {self.value(stored)}; }};
            }}
            out var o1 := 0.3;
            out rules {{
                true -> {{ {self.part(["a.x", "b.y", "o1", "h"], ["o1"])} }} --> {{ s.out1 := o1; }};
                {self.truth(["a.x", "q"])} -> {{ }} --> {{ {shown} }};
            }}"""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_adaptations(seed: int, tmp_path: Path) -> None:
    text = Drawn(seed).text()
    library = Library()
    (layer,) = all_of(library, library.add(text), "drawn")
    written = text_of(layer.explicit.it)
    (again,) = parse(written).adaptations
    assert text_of(explicit(again).it) == written
    traces = []
    for engine in ("interpret", "native"):
        for number, source in enumerate((text, written)):  # the explicit form does the same as what it is of
            file = tmp_path / f"{engine}{number}.sa"
            file.write_text(source)
            wave = up.Function(outputs={"y": "sin(7*time)", "z": "cos(5*time)"})
            model = up.read_sa(file, UNITS)
            scenario = up.Scenario({"r": wave, "s": model}, {"s.in1": "r.y", "s.in2": "r.z"})
            made = on_engine(engine, scenario)
            traces.append(up.simulate(made, engine=engine, pace=0.1, until=1.0, coupling=up.GaussSeidel()))
    for trace in traces[1:]:
        for name in ("s.out1", "s.out2"):
            assert np.array_equal(trace[name], traces[0][name], equal_nan=True), (seed, name)


def same_as_the_reference(model: up.Nested, seed: int) -> None:
    wave = up.Function(outputs={"y": "sin(7*time)", "z": "cos(5*time)"})
    scenario = up.Scenario({"r": wave, "s": model}, {"s.in1": "r.y", "s.in2": "r.z"})
    engine = ("interpret", "native")[seed % 2]
    made = on_engine(engine, scenario)
    trace = up.simulate(made, engine=engine, pace=0.1, until=1.0, coupling=up.GaussSeidel())
    given = [{"in1": one, "in2": other} for one, other in zip(trace["r.y"], trace["r.z"], strict=True)]
    assert model.adaptation is not None
    found = shown(model.adaptation, trace["time"], given)
    for name in ("out1", "out2"):
        assert [one[name] for one in found] == trace[f"s.{name}"].tolist(), (seed, name)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_texts_mean_what_the_six_functions_say(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "drawn.sa"
    file.write_text(Drawn(seed).text())
    same_as_the_reference(up.read_sa(file, {"a": plain("u", "x"), "b": plain("vw", "y")}), seed)


class Statements(Drawn):
    """An adaptation, drawn as data: with branches that assign inputs, leave, save, set back and discard."""

    names = ("p", "q", "i", "o", "a.x", "b.y", "in1", "t", "H")

    def assign(self) -> Statement:
        to = self.turn.choice(("p", "q", "p", "q", "a.u", "b.w", "b.v"))
        rates = (self.value(["p", "0.5"], 1),) if to == "a.u" and self.turn.random() < 0.5 else ()
        return Assign(to, self.value(list(self.names)), rates)

    def some(self, depth: int, *, loop: bool) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for _ in range(self.turn.randrange(1, 4)):
            roll = self.turn.random()
            if roll < 0.5 or depth == 0:
                found.append(self.assign())
            elif roll < 0.75:
                other = self.some(depth - 1, loop=loop) if self.turn.random() < 0.5 else ()
                found.append(When(self.chance(), self.some(depth - 1, loop=loop), other))
            elif roll < 0.85:
                found.append(Loop(2, self.some(depth - 1, loop=True), until=self.chance()))
            elif roll < 0.9 and loop:
                found.append(When(self.chance(), (Break(),)))
            elif roll < 0.95:
                found.append(When(self.chance(), (Return(),)))
            else:
                unit = self.turn.choice("ab")
                found += [SaveState(unit), Step(unit, by="H/2"), Rollback(unit)]
        return tuple(found)

    def chance(self) -> str:
        one, other = (self.value(list(self.names), 1) for _ in range(2))
        return f"{one} {self.turn.choice(('<', '>='))} {other}"

    def adaptation(self) -> Adaptation:
        steps: tuple[Statement, ...] = (Step("a"), *self.some(1, loop=False), Step("b"))
        if self.turn.random() < 0.4:
            part = (Step("a", "at", "H/3"), *self.some(1, loop=True), Assign("at", "at + H/3"))
            steps = (Step("b"), Local("at", "t"), Loop(3, part))
        end = self.turn.choice(
            (
                (),
                (Return(),),
                (Local("made", 0.0), Step("b", "t + H", "H/4", "made"), Return("H - made")),
                (When("H > 0.06", (Discard("H/2"),)),),
            )
        )
        start = up.Port("K", up.Causality.PARAMETER, start=(0.75,))
        outer = [up.Port(name, up.Causality.INPUT) for name in ("in1", "in2")]
        outer += [up.Port(name, up.Causality.OUTPUT) for name in ("out1", "out2")]
        stored = ["p", "q", "i"]
        return Adaptation(
            {"a": plain("u", "x"), "b": plain("vw", "y")},
            (*outer, start),
            {"b.v": "2*a.x"},
            in_rules=(
                Rule((Assign("i", self.value(["in1", "i"])),), (Assign("a.u", self.value(stored)),)),
                Rule((), (Assign("b.w", self.value([*stored, "dt", "h"])),)),
                Rule((Assign("j", "in2"),), (Assign("b.w", "j"),), f"in2 > {self.value(['p', 'in1'], 1)}"),
            ),
            control=(*self.some(2, loop=False), *steps, *self.some(1, loop=False), *end),
            out_rules=(
                Rule((Assign("o", self.value(["a.x", "b.y", "o", "h"])),), (Assign("out1", "o"),)),
                Rule((), (Assign("out2", self.value(["o", *stored])),)),
            ),
            inputs=(Stored("i", 0.2), Stored("j")),
            controls=(Stored("p", 0.1), Stored("q", "K")),
            outputs=(Stored("o", 0.3),),
            reactive=self.turn.choice((True, False)),
            mealy=self.turn.random() < 0.5,
            delayed=frozenset(unit for unit in "ab" if self.turn.random() < 0.2),
        )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_statements_mean_what_the_six_functions_say(seed: int) -> None:
    same_as_the_reference(up.adapted(Statements(seed).adaptation()), seed)
