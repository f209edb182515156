"""Adaptations with all that conventions add (section 7.5.3.1), and what is told of those that are wrong."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from upbeat.adapt.sa.declarative import layers
from upbeat.adapt.sa.explicit import explicit
from upbeat.adapt.sa.loading import Library, all_of, checked
from upbeat.adapt.sa.parsing import parse
from upbeat.adapt.sa.progress import Progress
from upbeat.adapt.sa.showing import text_of
from upbeat.cli.main import main
from upbeat.core.errors import ScenarioError

WINDOW = """
semantic adaptation reactive mealy WindowSA windowSA
at "WindowSA.fmu"
for inner fmu Window window
  at "Window.fmu"
  with input ports displacement (rad), speed (rad/s), reaction_force (N)
  with output ports height (cm), reaction_torque (N.m)
output ports disp (m) <- window.height, tau
out rules {
  true -> {} -> { windowSA.tau := -window.reaction_torque; };
}
"""

WINDOW_EXPLICIT = """semantic adaptation reactive mealy WindowSA windowSA
at "WindowSA.fmu"

for inner fmu Window window
  at "Window.fmu"
  with input ports displacement (rad), speed (rad/s), reaction_force (N)
  with output ports height (cm), reaction_torque (N.m)

input ports displacement,
            speed,
            reaction_force

output ports disp,
             tau

param INIT_WINDOWSA_DISPLACEMENT := 0,
      INIT_WINDOWSA_SPEED := 0,
      INIT_WINDOWSA_REACTION_FORCE := 0,
      INIT_WINDOW_HEIGHT := 0,
      INIT_WINDOW_REACTION_TORQUE := 0;

control rules {
  var H_window := do_step(window, t, H);
  return H_window;
}

in var stored_windowsa_displacement := INIT_WINDOWSA_DISPLACEMENT,
       stored_windowsa_speed := INIT_WINDOWSA_SPEED,
       stored_windowsa_reaction_force := INIT_WINDOWSA_REACTION_FORCE;

in rules {
  true -> {
    stored_windowsa_displacement := windowSA.displacement;
    stored_windowsa_speed := windowSA.speed;
    stored_windowsa_reaction_force := windowSA.reaction_force;
  } --> {
    window.displacement := stored_windowsa_displacement;
    window.speed := stored_windowsa_speed;
    window.reaction_force := stored_windowsa_reaction_force;
  };
}

out var stored_window_height := INIT_WINDOW_HEIGHT,
        stored_window_reaction_torque := INIT_WINDOW_REACTION_TORQUE;

out rules {
  true -> {
    stored_window_height := window.height;
    stored_window_reaction_torque := window.reaction_torque;
  } --> {
    windowSA.disp := stored_window_height / 100;
  };
  true -> { } --> {
    windowSA.tau := -stored_window_reaction_torque;
  };
}
"""

PAIR = """
for inner fmu A a with input ports Real u (m), Real k with output ports Real y (m)
for inner fmu B b with input ports Real v (cm) with output ports Real z (m)
  with a.y -> b.v
"""
LOOP = f"{PAIR}  with b.z -> a.u\n"


def made(text: str) -> str:
    return "\n".join(text_of(layer.explicit.it) for layer in _layers(text))


def _layers(text: str) -> list[object]:
    library = Library()
    return [one for layer in all_of(library, library.add(text), "x.sa") for one in layer.all()]


def test_listing_7_1_becomes_listing_7_2() -> None:
    assert made(WINDOW) == WINDOW_EXPLICIT


PLAIN = "for inner fmu A a with input ports Real x with output ports Real y\n"
EXAMPLES = {
    "window": WINDOW,
    "order": f"semantic adaptation S s {PAIR}",
    "solved": f"semantic adaptation S s {LOOP} successive substitution starts at b.z",
    "delayed": f"semantic adaptation S s {LOOP} delay at y",
    "layers": f"semantic adaptation reactive moore S s {LOOP} output ports z <- b.z\n"
    "successive substitution starts at z with absolute tolerance = 1e-9\n"
    "multiply rate 3 times with second order interpolation\nperiodic at 0.5 every 0.1",
    "crossing": "semantic adaptation S s\nfor inner fmu A a\n"
    "with input ports Boolean on, Real x with output ports Real y\n"
    "input ports level, x in rules with crossing absolute tolerance = 1e-8 {\n"
    "level >! 5 -> a.on := true; otherwise -> a.on := x[prev] > 3; quantize x every 0.5 offset 0.1; }\n"
    "out rules with first order hold { true -> { } --> { }; }",
    "late": "semantic adaptation S s for inner fmu A a\n"
    "with input ports x with output ports Boolean up, Boolean off\n"
    'output ports Real u out rules { "up" -> u := 1; "off" -> u := 0; delay at u; }',
    "triggered": f"semantic adaptation S s {PLAIN}triggered by signal != signal[prev]",
    "zones": f"semantic adaptation S s {PLAIN}"
    'in rules { quantize(x, "low", 3, "high"); } out rules { quantize(y, = signal * 2); }',
    "steps": f"semantic adaptation S s {PLAIN}"
    "control { do_step(a, e + H); if (is_set(a.y)) { discard(H / 2); }\n"
    "return min(H, get_next_time_step(a)); }",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_explicit_form_is_a_text_that_means_itself(name: str) -> None:
    for layer in _layers(EXAMPLES[name]):
        it = layer.explicit.it  # type: ignore[attr-defined]
        (again,) = parse(text_of(it)).adaptations
        assert again == it
        assert text_of(explicit(again).it) == text_of(it)


def test_units_come_in_the_order_of_their_connections_and_values_are_converted() -> None:
    text = made(EXAMPLES["order"])
    assert text.index("do_step(a") < text.index("b.v := stored_a_y * 100") < text.index("do_step(b")
    assert "return min(H_a, H_b);" in text
    assert "input ports Real u,\n            Real k" in text


def test_layers_are_solved_inside_and_timed_outside() -> None:
    first, second, third = _layers(EXAMPLES["layers"])
    assert "is_close(previous_b_z, stored_b_z, 1e-06, 1e-09)" in text_of(first.explicit.it)  # type: ignore[attr-defined]
    assert "H / 3" in text_of(second.explicit.it)  # type: ignore[attr-defined]
    assert "bend_k" in text_of(second.explicit.it)  # type: ignore[attr-defined]
    assert "ticks" in text_of(third.explicit.it)  # type: ignore[attr-defined]
    assert [port.name for port in third.explicit.outputs] == ["z"]  # type: ignore[attr-defined]


STEPS = "do_step(a, t, H); do_step(b, t, H);"


def test_the_time_since_the_last_execution() -> None:
    text = made(f"semantic adaptation S s {PAIR} control {{ var late := e; {STEPS} return H; }}")
    assert "var late := t - max(last_execution_time(a), last_execution_time(b));" in text


def test_the_smallest_of_several() -> None:
    text = made(f"semantic adaptation S s {PAIR} control {{ {STEPS} return min(H, 3, max(1, H, 2)); }}")
    assert "return min(min(H, 3), max(max(1, H), 2));" in text


def test_connections_of_a_module_give_inputs_the_names_of_their_sources() -> None:
    """`armature_current -> obj_detected`: the tool's way to say that a port changes its name."""
    text = """fmu power output ports current (A), speed
        fmu control input ports found, start output ports up
        power.current -> found
        semantic adaptation S s for fmu control
        in rules with crossing absolute tolerance = 1e-8 { current >! 5 -> found := 1.0; }"""
    (layer,) = _layers(text)
    assert [(port.name, port.unit) for port in layer.explicit.inputs] == [("current", "A"), ("start", "")]  # type: ignore[attr-defined]
    both = text.replace("for fmu control", "for fmu power, control").partition("in rules")[0]
    (layer,) = _layers(both)
    assert "control.found := stored_power_current;" in text_of(layer.explicit.it)  # type: ignore[attr-defined]
    assert [port.name for port in layer.explicit.inputs] == ["start"]  # type: ignore[attr-defined]


def test_otherwise_is_the_opposite_of_a_crossing() -> None:
    text = made(EXAMPLES["crossing"])
    assert "if (crossed_1) {\n      a.on := true;" in text
    assert "if (not crossed_1) {\n      a.on := past_s_x_1 > 3;" in text
    assert "a.x := floor((stored_s_x - 0.1) / 0.5) * 0.5 + 0.1;" in text
    assert "discard(H * ((5 - before_1) / (stored_s_level - before_1)));" in text
    timed = EXAMPLES["crossing"].replace("in rules", "periodic every 0.1 in rules")
    assert "if (not crossed_1) {" in made(timed.replace("quantize x every 0.5 offset 0.1;", ""))


ONE = (
    "semantic adaptation S s\nfor inner fmu A a with input ports Real x (m), Boolean on\n"
    "with output ports Real y (N)\n"
)
RULE = (
    "semantic adaptation S s for inner fmu A a\nwith input ports u\nwith output ports y\n"
    "input ports q\nin var k := 0.0;\nin rules { true ->"
)


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (f"{ONE}output ports z (s) <- a.y", 4, "cannot be 'z' in s", "Correct one of the units"),
        (f"{ONE}output ports z (N) <- a.yy", 4, "'a' has no output 'yy'", "'y'"),
        (f"{ONE}output ports z", 4, "nothing gives the output 'z' a value", "z <- a.y"),
        (f"{ONE}output ports z (parrots) <- a.y", 4, "parrots", ""),
        (f"{ONE}control {{\n do_stop(a, t, H); }}", 5, "there is no function 'do_stop'", "'do_step'"),
        (f"{ONE}control {{\n do_step(b, t, H); }}", 5, "'b' is no inner unit", "a"),
        (f"{ONE}control {{\n a.x := a.x; }}", 5, "'a.x' is an input, and cannot be read", ""),
        (f"{ONE}control {{\n a.on := 3 + a.y; }}", 5, "'a.on' is Boolean", "comparison"),
        (f"{ONE}control {{\n if (a.y) {{ return H; }} }}", 5, "where a condition is expected", "!= 0"),
        (f"{ONE}control {{\n var q := 1 + true; }}", 5, "is true or false", "if"),
        (f"{ONE}control {{\n for (var i in 0 .. a.y) {{ }} }}", 5, "must be fixed", "parameter"),
        (f"{ONE}control {{\n for (var i in 0 .. 2.5) {{ }} }}", 5, "whole number", ""),
        (f"{ONE}control {{\n for (var i in 0 .. 1e300*1e300) {{ }} }}", 5, "whole number", ""),
        (f"{ONE}control {{\n for (var i in 0 .. floor(1e300*1e300)) {{ }} }}", 5, "must be fixed", ""),
        (f"{ONE}control {{\n for (var i in 0 .. 9999999) {{ }} }}", 5, "rounds", ""),
        (f"{ONE}control {{\n break; }}", 5, "no loop around", ""),
        (f"{ONE}control {{\n return speed; }}", 5, "there is no 'speed'", ""),
        (f"{ONE}in rules {{\n true -> {{ do_step(a, t, H); }} --> {{ }}; }}", 5, "control rules", ""),
        (
            f"{ONE}in rules {{\n true -> {{ a.x := h; }} --> {{ }}; b > 3 -> {{ }}; }}",
            5,
            "there is no 'b'",
            "",
        ),
        (f"{ONE}out rules {{\n true -> {{ }} --> {{ s.y := a.x; }}; }}", 5, "is an input", ""),
        (f"{ONE}input ports q (cm)\nin rules {{\n true -> {{ }} --> {{ a.x := q; }}; }}", 6, "in m", "/ 100"),
        (f"{ONE}param P := 1;\ncontrol {{\n P := 2; }}", 6, "is a parameter", "variable"),
        (f"{ONE}successive substitution starts at q", 4, "'q' is no output of an inner unit", ""),
        (f"{ONE}multiply rate 3 times with fourth order interpolation", 4, "order 0, 1 or 2", ""),
        (f"semantic adaptation S s {LOOP}", 1, "an algebraic loop", "successive substitution"),
        ("semantic adaptation S s\nfor fmu q", 2, "the ports of 'q' are not known", "with input ports"),
        (
            "semantic adaptation S s\nfor fmu T t\nsemantic adaptation T t\nfor fmu S s",
            1,
            "contain itself",
            "",
        ),
        ("semantic adaptation S s", 1, "has no unit inside", "for inner fmu"),
        (f"{ONE}param X := Y, Y := X;", 4, "the parameter 'X' is given by itself", "Write a number"),
        (f"{ONE}param Z := 0, X := 1/Z;", 4, "the value of the parameter 'X' is not known", "Write a number"),
        (f"{ONE}param X := 1/0;", 4, "division by 0", ""),
        (f"{ONE}input ports Boolean b := 3.5", 4, "the port 'b' is Boolean, and 3.5 is not", "true"),
        (f"{ONE}input ports Integer n := 3.5", 4, "the port 'n' is Integer", "n := 1"),
        (f"{ONE}input ports Real r := true", 4, "the port 'r' is Real", "1.0"),
        (f"{ONE}in rules {{\n quantize x every 0; }}", 5, "steps of more than 0", "every 0.1"),
        (f"{ONE}param Q := -2;\nin rules {{\n quantize x every Q; }}", 6, "'Q' is -2", "every 0.1"),
        (f"{ONE}periodic at -1 every 0.5", 4, "the first time is 0 or more", "at 0 every 0.5"),
        (f"{ONE}control {{\n do_step(a, t, H/(2 - 2)); }}", 5, "division by 0", ""),
        (f"{ONE}control {{\n return H; }}", 2, "nothing steps 'a'", "do_step(a, t, H);"),
        (
            f"{ONE}output ports q (s)\nout rules {{\n true -> {{ }} --> {{ s.q := a.y; }}; }}",
            6,
            "'a.y' in ",
            "",
        ),
        (f"{ONE}control {{\n do_step(a, t, H); return -H; }}", 5, "'-H' is 0 or less", "return H;"),
        (f"{ONE}control {{\n do_step(a, t, H); return 0; }}", 5, "'0' is 0 or less", "return H;"),
        (f"{ONE}control {{\n do_step(a, t, H); return 2*H; }}", 5, "'2 * H' is more than H", "return H;"),
        (f"{ONE}control {{\n var h2 := 2*H; return h2 + H; }}", 5, "is more than H", "return H;"),
        (
            f"{ONE}control {{\n do_step(a, t, -H); return H; }}",
            5,
            "cannot be stepped by '-H'",
            "do_step(a, t, H)",
        ),
        (f"{ONE}control {{\n do_step(a, t, H); do_step(a, t, H);\n return H; }}", 6, "beyond", "once"),
        (
            f"{ONE}control {{\n for (var i in 0 .. 3) {{ do_step(a, t, H/2); }}\n return H; }}",
            6,
            "1.5*H",
            "once",
        ),
        (f"{ONE}control {{\n do_step(a, t, H/2); return H; }}", 5, "not been brought to the end", "once"),
        (
            f"{ONE}control {{\n rollback(a); do_step(a, t, H); save_state(a); return H; }}",
            5,
            "no save_state(a) is certainly before",
            "write save_state",
        ),
        (
            f"{ONE}control {{\n if (a.y > 0) {{ do_step(a, t, H/2); }} else {{ do_step(a, t, H/4); }} }}",
            5,
            "not",
            "",
        ),
        (f"{ONE}out rules\nwith fourth order hold {{ }}", 5, "order 0, 1 or 2", "second order hold"),
        (f"{ONE}input ports q, true", 4, "'true' is a word of the language", 'true_ "true"'),
        (f"{ONE}control var otherwise := 1;", 4, "'otherwise' is a word", "another name"),
        (f"{ONE}delay at a.y", 4, "no inner unit reads 'a.y'", "out rules { delay at y; }"),
        (f"{ONE}control {{\n t := 2; }}", 5, "'t' is the time, and cannot be assigned", "variable"),
        (f"{ONE}successive substitution starts at a.y", 4, "in no loop of the inner units", "Leave out"),
        (
            f"semantic adaptation S s {LOOP} successive substitution starts at z\n"
            "with absolute tolerance = -1",
            7,
            "a tolerance is 0 or more, not -1",
            "1e-8",
        ),
        (f'{ONE}in rules {{\n quantize(x, "low", 3, "middle", 1, "high"); }}', 5, "1 comes behind 3", ""),
        (f"{ONE}in rules\nwith first order hold {{ }}", 5, "inputs are held as they are", "interpolation"),
        (f"{ONE}input ports q\nin rules {{\n is_set(q + 1) -> {{ }}; }}", 6, "asks for a variable", ""),
        (f"{ONE}control {{\n var z := 1; z := z[prev]; }}", 5, "'z' lives in one step only", "control var z"),
        (f"{ONE}input ports q\ncontrol var k :=\n q[prev];", 6, "nothing was before the start", ""),
        (
            f"{ONE}input ports q\nin var k := 0.0;\nin rules {{ true -> {{\n k := q[prev]; }}; }}",
            7,
            "not known yet here what it was a step ago",
            "q[prev] in the second part of in rules",
        ),
        (
            "semantic adaptation S s for inner fmu A a with output ports Boolean up\n"
            "for inner fmu B b with input ports Real v\nwith a.up -> b.v",
            3,
            "'b.v' is Real, and 'a.up' is Boolean",
            "in rules",
        ),
        (f"{RULE} {{ for (var i in 0 .. 3) {{\n break; }} }}; }}", 7, "'break' stands in control rules", ""),
        (
            f"{RULE} {{\n for (var i in 0 .. 2000) {{ k := i; }} }}; }}",
            7,
            "2,000 rounds, and at most 1,000",
            "",
        ),
        (
            f"{RULE} {{\n k := elapsed(a); }}; }}",
            7,
            "'elapsed' is not known where inputs are stored",
            "second",
        ),
        (f"{RULE} {{ }}; get_next_time_step(a) < 1 -> {{ }}; }}", 6, "is not asked", "Store it"),
        (f"{RULE} {{ var d := 1; }}; true ->\n {{ k := d; }}; }}", 7, "'d' cannot be read", ""),
        (f"{RULE} {{ if (q > 1) {{ var d := 1; }}\n k := d; }}; }}", 7, "'d' cannot be read", ""),
        (f"{ONE}control {{ if (a.y > 1) {{ var d := 1.0; }}\n return d*H; }}", 5, "'d' cannot be read", ""),
        (f"{RULE} {{ var d := 1; }} --> {{\n a.u := d; }}; }}", 7, "'d' cannot be read", ""),
        (f"{RULE} {{ var d := 1; k :=\n d[prev]; }}; }}", 7, "'d' lives in one step only", "var d"),
        ("module nothing", None, "no adaptation", "semantic adaptation"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, line: int | None, what: str, hint: str) -> None:
    library = Library()
    with pytest.raises(ScenarioError) as error:
        all_of(library, library.add(text), "x.sa")
    found = [p for p in error.value.problems if what in p.what and hint in p.hint and p.line == line]
    assert found, str(error.value)


@pytest.mark.parametrize(
    ("rest", "what", "hint"),
    [
        ("in rules { x >! 5 -> a.x := 1; otherwise -> a.x := 0; }", "no input of 's'", "input ports x"),
        ("control { foo(a); return H; }", "there is no function 'foo'", ""),
        ("control { do_step(a, t, H); return -H; }", "0 or less", ""),
    ],
)
def test_what_is_wrong_is_told_once(rest: str, what: str, hint: str) -> None:
    library = Library()
    with pytest.raises(ScenarioError) as error:
        all_of(library, library.add(f"{ONE}{rest}"), "x.sa")
    (found,) = error.value.problems
    assert what in found.what
    assert hint in found.hint


@pytest.mark.parametrize(
    "control",
    [
        "for (var i in 0 .. 4) { do_step(a, t + i*H/4, H/4); } return H;",
        "save_state(a); do_step(a, t, H); if (a.y > 5) { return H; } "
        "rollback(a); do_step(a, t, H/2); return H/2;",
        "if (a.y > 5) { do_step(a, t, H); } return H;",
        "do_step(a, last_execution_time(a), t + H - last_execution_time(a)); return H;",
        "for (var i in 0 .. 9) { save_state(a); do_step(a, t, H); if (a.y > 5) { break; }"
        " else { rollback(a); } } "
        "return H;",
        "do_step(a, t, H); if (a.y > 5) { return H/2; } return H;",
        "var s := do_step(a, t, H); return min(s, H);",
    ],
)
def test_steps_in_parts_and_steps_made_anew_are_accepted(control: str) -> None:
    made(f"{ONE}control {{ {control} }}")


WINDOW_7_3 = """semantic adaptation reactive moore LoopSA loop_sa
for inner fmu WindowSA window_sa
  with input ports displacement (rad), speed (rad/s), reaction_force (N)
  with output ports disp (m), tau (N.m)
for inner fmu Obstacle obstacle with input ports disp (m)
  with output ports reaction_force (m)
with window_sa.disp -> obstacle.disp
with obstacle.reaction_force -> window_sa.reaction_force
successive substitution starts at window_sa.disp"""
LAZY_7_5 = """semantic adaptation reactive moore LazySA lazy_sa
for inner fmu Controller controller with input ports up with output ports down
input ports up → controller.up
control var tn := -1.0,
t1 := -1.0,
prev_up := false;
control rules {
  var step_size := min(H, tn - t);
  if (lazy_sa.up != prev_up or (t+H) >= tn) {
    var step_done := do_step(controller; t, t+H-tl);
    tn := tl + step_done + get_next_time_step(controller);
    step_size := tl + step_done - t;
    tl := tl + step_done;
  }
  prev_up := lazy_sa.up;
  return step_size;
}"""
CONTROLLER_7_6 = """semantic adaptation reactive moore ControllerSA controller_sa
for inner fmu LazySA lazy with input ports obj_detected with output ports up
input ports amature_current -> lazy.obj_detected
output ports u
in var f_v := 0.0;
in rules { true -> {
    f_v := controller_sa.armature_current;
  } -> { lazy.obj_detected := f_v > 5; }; }
out rules { lazy.up -> { } -> {controller_sa.u := 1.0; }; }"""
RATE_7_8 = """fmu WindowSA windowSA with input ports reaction_force (N) with output ports disp (m)
fmu Obstacle obstacle with input ports disp (m) with output ports reaction_force (N)
semantic adaptation reactive moore RateLoopSA rate_loop
for fmu WindowSA windowSA, Obstacle obstacle
successive substitution starts at height with absolute tolerance = 1e-8
multiply rate 10 times with first order interpolation"""


@pytest.mark.parametrize(
    ("text", "misprint", "meant", "where", "told"),
    [
        # 7.1 reads an input of the window; 7.2, which is made of it, has the torque
        (
            WINDOW.strip().replace("-window.reaction_torque", "-window.reaction_force"),
            "-window.reaction_force",
            "-window.reaction_torque",
            "window.reaction_force;",
            "Did you mean 'reaction_torque'?",
        ),
        # 7.3 has a force in metres
        (
            WINDOW_7_3,
            "reaction_force (m)",
            "reaction_force (N)",
            "with obstacle.reaction",
            "Correct one of the units",
        ),
        # 7.5 declares t1 (with a digit) and uses tl (with a letter)
        (LAZY_7_5, "t1", "tl", "tl);", "Did you mean 't1'?"),
        # 7.6 declares amature_current and reads armature_current
        (
            CONTROLLER_7_6,
            "amature_current",
            "armature_current",
            "controller_sa.armature",
            "Did you mean 'amature_current'?",
        ),
        # 7.8 begins at the height of the window inside; that of WindowSA is called disp (7.3, lines 4 to 15)
        (RATE_7_8, "height", "disp", "height", "windowSA.disp"),
    ],
)
def test_listings_of_the_thesis_are_refused_at_their_misprints_alone(
    text: str, misprint: str, meant: str, where: str, told: str
) -> None:
    library = Library()
    with pytest.raises(ScenarioError) as error:
        all_of(library, library.add(text), "listing.sa")
    (found,) = error.value.problems
    before = text[: text.index(where)].split("\n")
    assert (found.line, found.column) == (len(before), len(before[-1]) + 1)
    assert told in found.hint
    library = Library()
    assert all_of(library, library.add(text.replace(misprint, meant)), "listing.sa")


def test_modules_are_found_beside_a_file_and_circles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.sa").write_text(
        "module Plants\nfmu pump input ports u output ports q\nfmu tank input ports q output ports level\n"
    )
    (tmp_path / "both.sa").write_text(
        "import Plants\nfmu both composed of pump, tank output ports level\n"
        "semantic adaptation W w\nfor fmu both"
    )
    (layer,) = checked(tmp_path / "both.sa")
    assert [port.name for port in layer.explicit.inputs] == ["u"]
    inside = text_of(layer.inside["both"].explicit.it)
    assert "with pump.q -> tank.q" in inside
    (tmp_path / "model.sa").write_text("module Plants\nimport both\n")
    with pytest.raises(ScenarioError, match=r"line 2.*circle: .*both.sa → model.sa → both.sa"):
        checked(tmp_path / "both.sa")
    (tmp_path / "model.sa").write_text("module Plans\n")
    with pytest.raises(ScenarioError, match=r"line 1, column 1: there is no module 'Plants'"):
        checked(tmp_path / "both.sa")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "window.sa"
    file.write_text(WINDOW)
    assert main(["adapt", str(file), "--check"]) == 0
    assert "reactive mealy windowSA around window" in capsys.readouterr().out
    assert main(["adapt", str(file), "--explicit"]) == 0
    assert capsys.readouterr().out.strip() == WINDOW_EXPLICIT.strip()
    assert main(["adapt", str(file), "--explicit", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"]
    assert told["explicit"].strip() == WINDOW_EXPLICIT.strip()
    assert told["adaptations"][0]["outputs"] == ["disp", "tau"]
    file.write_text(WINDOW.replace("window.height", "window.hight"))
    assert main(["adapt", str(file), "--json"]) == 3
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["line"], problem["column"]) == (8, 26)
    assert "height" in problem["hint"]


def test_layers_of_a_plain_adaptation_is_itself() -> None:
    (it,) = parse(WINDOW).adaptations
    assert layers(it) == (it,)


def drawn_control(turn: random.Random, depth: int = 0) -> tuple[str, set[float]]:
    """Statements that step a unit, and how far (in parts of H) each way through them brings it."""
    text, ends = "", {0.0}
    for _ in range(turn.randint(1, 3)):
        kind = turn.choice(("step", "step", "if", "for")) if depth < 2 else "step"
        if kind == "step":
            share = turn.choice((0.25, 0.5, 1.0))
            text += f"do_step(a, t, H * {share}); "
            more = {share}
        elif kind == "if":
            (one, first), (two, second) = drawn_control(turn, depth + 1), drawn_control(turn, depth + 1)
            text += f"if (a.y > 1) {{ {one} }} else {{ {two} }} "
            more = first | second
        else:
            body, part = drawn_control(turn, 2)
            text += f"for (var i{depth}{len(text)} in 0 .. 2) {{ {body} }} "
            more = {2.0 * end for end in part}
        ends = {old + new for old in ends for new in more}
    return text, ends


@pytest.mark.parametrize("seed", range(40))
def test_how_far_units_are_brought_is_that_of_all_ways(seed: int) -> None:
    turn = random.Random(seed)
    text, ends = drawn_control(turn)
    (layer,) = layers(parse(f"{ONE}control {{ {text}\nreturn H; }}").adaptations[0])
    try:
        made = explicit(layer)
    except ScenarioError as error:
        (found,) = error.problems
        assert ("beyond" in found.what and min(ends) > 1.0) or ("not been" in found.what and max(ends) < 1.0)
        return
    assert min(ends) <= 1.0 <= max(ends)
    assert bool(Progress(made.it).beyond) == (max(ends) > 1.0)
