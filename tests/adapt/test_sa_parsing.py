"""Texts in the baseSA language: both dialects are read, and what cannot be read is told with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from upbeat.adapt.sa.language import BUILT_IN
from upbeat.adapt.sa.parsing import GRAMMAR, parse
from upbeat.adapt.sa.tree import (
    Adapted,
    Binary,
    Call,
    Delay,
    For,
    Hold,
    If,
    Literal,
    MultiRate,
    Otherwise,
    Periodic,
    Quantize,
    Ref,
    Return,
    Rule,
    Substitution,
    Triggered,
    Unary,
)
from upbeat.core.errors import ScenarioError

ROOT = Path(__file__).parents[2]
THESIS = """
semantic adaptation delayed Mealy HeaterSA heater
at "out/HeaterSA.fmu"

for inner fmu Heater core
  at "Heater.fmu"
  with input ports power (W) gain, feedback (degC)     // a comma is missing, as in the listings
  with output ports warmth (degC), flow (N.m)
for inner fmu Room room
  with input ports heat
  with output ports air
  with core.warmth -> room.heat
  with room.air -> core.feedback

input ports power (kW) -> core.power
output ports temperature (K) <- core.warmth, current
param MAX := 3 TOL := 1e-5;
control var last := 0.0,
            first := -1;
control rules {
  var near := false;
  for (var i in 0 .. MAX) {
    near := is_close(last, core.warmth, TOL, TOL);
    if (not near and last < 2) or (last >= 3) { break; } else { do_step(core; t, H / MAX); }
  }
  return H;
}
in rules { true → { last := power; } → { core.power := last; }; }
out rules { core.warmth > 3 -> { } --> { heater.current := 1.0; }; }
"""

TOOL = """
/* the other dialect */
import Plants
module Both
fmu pump
type continuous time
input ports u output ports q (m/s)
full internal dependencies
fmu both composed of pump, heater
pump.q -> heater.flow

semantic adaptation reactive moore Sensor
at "./Sensor.fmu"
    for inner fmu reactive moore Raw raw
        at "./Raw.fmu"
        with input ports Real f "F_IN@x", Bool on := true
        with output ports Real x := -1.5 "X_OUT@x"
    for inner fmu Filter filter with input ports Real u with output ports Real y
    coupled as raw.x -> filter.u, filter.y -> raw.f
in rules with crossing absolute tolerance = 1e-8 and relative tolerance = 1e-4, no hold {
    f >! 5 -> { on := true; } --> { };
    otherwise -> on := false;
    quantize f every 0.5 with offset 0.1;
    quantize(f, "low", 3, "high");
}
out rules with zero order hold { x := x[prev]; delay at x and y; }

semantic adaptation Layers layers
for fmu Sensor sensor, pump
successive substitution starts at x and q with absolute tolerance = 1e-8 and relative tolerance = 0.001
multiply rate 10 times with second order interpolation
triggered by sensor.x > 2
periodic at 0.5 every 0.1
multiplied 4 times
"""


def only(text: str) -> Adapted:
    (found,) = parse(text).adaptations
    return found


def test_the_dialect_of_the_thesis() -> None:
    found = only(THESIS)
    assert (found.type, found.name, found.reactive, found.mealy) == ("HeaterSA", "heater", False, True)
    core, room = found.inner
    assert [port.name for port in core.inputs] == ["power", "gain", "feedback"]
    assert [port.unit for port in core.inputs] == ["W", "", "degC"]
    assert core.path == "Heater.fmu"
    assert room.path == ""
    assert [(w.source.text, w.target.text) for w in found.wires] == [
        ("core.warmth", "room.heat"),
        ("room.air", "core.feedback"),
    ]
    assert found.inputs is not None
    assert found.outputs is not None
    assert found.inputs[0].bound == Ref("power", "core")
    assert found.outputs[0].bound == Ref("warmth", "core")
    assert found.outputs[1].bound is None
    assert [p.name for p in found.params] == ["MAX", "TOL"]
    assert [p.value for p in found.control_vars] == [Literal(0.0), Literal(-1.0)]
    assert found.control is not None
    _, loop, last = found.control
    assert isinstance(loop, For)
    assert last == Return(Ref("H"))
    choice = loop.body[1]
    assert isinstance(choice, If)
    assert choice.condition == Binary(
        "or",
        Binary("and", Unary("not", Ref("near")), Binary("<", Ref("last"), Literal(2.0))),
        Binary(">=", Ref("last"), Literal(3.0)),
    )
    assert choice.otherwise[0].call == Call(  # type: ignore[union-attr]
        "do_step", (Ref("core"), Ref("t"), Binary("/", Ref("H"), Ref("MAX")))
    )


def test_the_dialect_of_the_tool() -> None:
    file = parse(TOOL)
    assert file.module == "Both"
    assert [name.name for name in file.imports] == ["Plants"]
    assert [fmu.name for fmu in file.fmus] == ["pump", "both"]
    assert file.fmus[1].parts == ("pump", "heater")
    assert [(w.source.text, w.target.text) for w in file.wires] == [("pump.q", "heater.flow")]
    sensor, layers = file.adaptations
    assert sensor.name == sensor.type == "Sensor"
    raw = sensor.inner[0]
    assert (raw.reactive, raw.mealy) == (True, False)
    assert [(p.name, p.type, p.alias, p.initial) for p in raw.inputs] == [
        ("f", "Real", "F_IN@x", None),
        ("on", "Boolean", "", Literal(True)),
    ]
    assert raw.outputs[0].initial == Literal(-1.5)
    assert len(sensor.wires) == 2
    assert sensor.in_rules is not None
    crossing, other, stairs, zones = sensor.in_rules.rules
    assert isinstance(crossing, Rule)
    assert crossing.condition == Binary(">!", Ref("f"), Literal(5.0))
    assert isinstance(other, Rule)
    assert other.condition == Otherwise()
    assert stairs == Quantize(Ref("f"), every=Literal(0.5), offset=Literal(0.1))
    assert zones == Quantize(Ref("f"), zones=("low", "high"), bounds=(Literal(3.0),))
    assert sensor.in_rules.settings[1] == Hold(-1)
    assert sensor.out_rules is not None
    assert sensor.out_rules.rules[1] == Delay((Ref("x"), Ref("y")))
    match layers.general:
        case (
            Substitution() as solved,
            MultiRate() as rate,
            Triggered(),
            Periodic() as clock,
            MultiRate(4, 0),
        ):
            assert [tolerance.kind for tolerance in solved.tolerances] == ["absolute", "relative"]
            assert rate == MultiRate(10, 2)
            assert clock == Periodic(Literal(0.1), Literal(0.5))
        case other_rules:
            pytest.fail(f"{other_rules}")


@pytest.mark.parametrize(
    ("text", "line", "column", "what", "hint"),
    [
        ("semantic adaption X x", 1, 10, "expected 'adaptation'", "Did you mean 'adaptation'?"),
        ("semantic adaptation X x\n input portz a", 2, 8, "expected 'ports'", "Did you mean 'ports'?"),
        ("semantic adaptation X x control rules {\n a := 1 + ; }", 2, 11, "expected a value", ""),
        ("semantic adaptation X x control rules {\n a := 1 ", 2, 8, "the end of the file cannot", ""),
        ("semantic adaptation X x /* no end", 1, 25, "has no end", "'*/'"),
        ('semantic adaptation X x at "no end', 1, 28, "has no end", "quotation mark"),
        ("\ninput ports a", 2, 1, "belongs to no unit", "semantic adaptation"),
        ("semantic adaptation reactve moore X x", 1, 1, "'reactve' is no kind", "'reactive'"),
        ("semantic adaptation reactive delayed X x", 1, 1, "either reactive or delayed", ""),
        ("semantic adaptation X x control {} control {}", 1, 36, "a second time", ""),
        ("semantic adaptation X x control { def f(x) { return x; } }", 1, 35, "cannot be defined", "loops"),
        ("semantic adaptation X x input ports a (m) (s)", 1, 43, "two units of measure", ""),
        ("semantic adaptation X x with input ports a", 1, 25, "before any inner fmu", "for inner fmu"),
        ("semantic adaptation X x multiply rate 2 times with absolute tolerance = 1", 1, 47, "belongs", ""),
        ("semantic adaptation X x in rules { true -> 3; }", 1, 44, "only a value", "port := value"),
        ("semantic adaptation X x control { a := 1e999; }", 1, 40, "too large", "1e300"),
        ("semantic adaptation X x control { a := b[2]; }", 1, 41, "in the future", "[prev]"),
        ("semantic adaptation X x control { a := " + "1+" * 300 + "1; }", 1, 40, "nested", "variable"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(
    text: str, line: int, column: int, what: str, hint: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(text, "x.sa")
    (problem,) = error.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert what in problem.what
    assert hint in problem.hint
    assert f"line {line}, column {column}" in str(error.value)


def test_editors_colour_every_word_of_the_language() -> None:
    grammar = json.loads((ROOT / "editors/sa.tmLanguage.json").read_text())
    coloured = json.dumps(grammar)
    assert grammar["fileTypes"] == ["sa"]
    words = set(re.findall(r'"([a-z]+)"', GRAMMAR)) | {*BUILT_IN}
    assert [word for word in sorted(words) if not re.search(rf"\b{word}\b", coloured)] == []


def test_a_loop_without_a_number_of_rounds_is_told_what_to_type() -> None:
    text = """semantic adaptation reactive mealy S s
        for inner fmu A a with input ports u with output ports x
        control rules { while (true) { do_step(a, t, H); } return H; }"""
    with pytest.raises(ScenarioError, match=r"for \(var i in 0 \.\. 10\)"):
        parse(text)
