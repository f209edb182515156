"""Adaptations in the baseSA language, run: against closed forms and loops by hand, on both engines."""

from __future__ import annotations

import sys
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from fmu_maker import COMPILER
from strategies import on_engine

POWER_WINDOW = Path(__file__).parents[2] / "examples" / "power_window"
sys.path[:0] = [str(POWER_WINDOW.parents[1] / "reproduce")]


def ran(scenario: up.Scenario, **more: Any) -> up.Trace:
    """On both engines, which agree to the last bit."""
    settings = {"pace": 0.1, "until": 1.0, "coupling": up.GaussSeidel(), "inputs": "linear", **more}
    first, second = (
        up.simulate(on_engine(engine, scenario), engine=engine, **settings)
        for engine in ("interpret", "native")
    )
    for name in first:
        assert np.array_equal(first[name], second[name]), name
    return first


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def made(text: str, **more: Any) -> up.Model:
        file = tmp_path / "it.sa"
        file.write_text(text)
        parameters = more.pop("parameters", None)
        return up.read_sa(file, more, parameters=parameters)

    return made


RAMP = up.Ode({"x": "1"}, outputs=["x"])
LAG = up.Ode({"x": "u - x"}, inputs=["u"], outputs=["x"], solver=up.RK4(20))
HEAD = "semantic adaptation reactive moore S s\n"
ONE = f"{HEAD}for inner fmu A a with input ports u with output ports x\n"


def test_units_of_measure_and_signs(read: Any) -> None:
    text = """semantic adaptation reactive mealy S s
        for inner fmu A a with input ports u (km) with output ports y (cm), z
        input ports u (m) -> a.u
        output ports far (m) <- a.y, back
        out rules { true -> { } --> { s.back := -a.z; }; }"""
    inner = up.Function(
        inputs={"u": {"unit": "km"}}, outputs={"y": {"value": "100*u", "unit": "cm"}, "z": "u"}
    )
    trace = ran(up.Scenario({"r": RAMP, "s": read(text, a=inner)}, {"s.u": "r.x"}))
    np.testing.assert_allclose(trace["s.far"], trace["time"] / 1000, rtol=1e-12)
    np.testing.assert_allclose(trace["s.back"], -trace["time"] / 1000, rtol=1e-12)


def test_rules_have_variables_and_loops_of_their_own(read: Any) -> None:
    """`half` takes half of what q is beyond it, and n three times that; outputs see both once more."""
    text = """semantic adaptation reactive mealy S s
        for inner fmu A a with input ports u with output ports y
        input ports q
        output ports shown, next, last
        in var half := 0.0, n := 0.0;
        in rules { true -> {
            var d := q - half; half := half + 0.5 * d; n := 0;
            for (var i in 0 .. 3) { n := n + i * d; }
        } --> { var k := 2 * half; if (k > 1) { a.u := k; } else { var d := 3; a.u := d; } }; }
        out var first := 0.0;
        out rules {
            true -> { first := last_execution_time(a); } --> { s.last := first; };
            true -> { } --> {
                var d := a.y; for (var i in 0 .. 3) { d := 2 * d + n; }
                s.shown := d; s.next := min(get_next_time_step(a), 9);
            };
        }"""
    plain = up.Function(inputs=["u"], outputs={"y": "u"})
    source = up.Function(outputs={"y": "1 + time"})
    trace = ran(up.Scenario({"r": source, "s": read(text, a=plain)}, {"s.q": "r.y"}))

    def taken(s: float, q: float) -> tuple[float, float]:
        return s + 0.5 * (q - s), 3.0 * (q - s)

    s = 0.0
    for time, found in zip(trace["time"], trace["s.shown"], strict=True):
        s, _ = taken(s, 1.0 + time)
        again, n = taken(s, 1.0 + time)
        assert found == pytest.approx(8 * (2 * again if 2 * again > 1 else 3) + 7 * n, rel=1e-12)
    np.testing.assert_allclose(trace["s.last"], trace["time"], atol=1e-12)
    assert set(trace["s.next"]) == {9.0}


def exact_lag(x: float, u: float, h: float) -> float:
    return u + (x - u) * exp(-h)


@pytest.mark.parametrize("order", ["no", "first order", "second order"])
def test_multi_rate_against_a_loop_by_hand(read: Any, order: str) -> None:
    """The unit makes four steps with its input held; what it is held at is interpolated."""
    model = read(f"{ONE}multiply rate 4 times with {order} interpolation", a=LAG)
    square = up.Ode({"x": "2*time"}, outputs=["x"], solver=up.RK4(20))
    trace = ran(up.Scenario({"r": square, "s": model}, {"s.u": "r.x"}))
    x, found = 0.0, [0.0]
    for k in range(10):
        start, end, before = (k * 0.1) ** 2, ((k + 1) * 0.1) ** 2, ((k - 1) * 0.1) ** 2
        for i in range(1, 5):
            tau = i * 0.025
            u = end if order == "no" else start + (end - start) / 0.1 * tau
            if order == "second order" and k > 0:
                u += ((end - start) / 0.1 - (start - before) / 0.1) / 0.2 * tau * (tau - 0.1)
            x = exact_lag(x, u, 0.025)
        found.append(x)
    np.testing.assert_allclose(trace["s.x"], found, atol=1e-9)


def test_successive_substitution_solves_the_loop(read: Any) -> None:
    """y = cos z + u and z = y/3, with u of the outside: the fixed point of each step, for either signal."""
    from scipy.optimize import brentq

    inner = {
        "a": up.Function(inputs=["z", "u"], outputs={"y": "cos(z) + u"}),
        "b": up.Function(inputs=["y"], outputs={"z": "y/3"}),
    }
    for signal in ("a.y", "b.z"):
        text = f"""{HEAD}for inner fmu A a with input ports z, u with output ports y
            for inner fmu B b with input ports y with output ports z
            with a.y -> b.y with b.z -> a.z
            successive substitution starts at {signal} with absolute tolerance = 1e-12
            multiply rate 2 times with first order interpolation"""
        trace = ran(up.Scenario({"r": RAMP, "s": read(text, **inner)}, {"s.u": "r.x"}), until=0.5)
        for t, y in zip(trace["time"][1:], trace["s.y"][1:], strict=True):
            assert y == pytest.approx(
                brentq(lambda v, t=t: np.cos(v / 3) + t - v, 0, 3, xtol=1e-14), rel=1e-6
            )


def test_a_loop_that_does_not_converge_ends_the_run(read: Any) -> None:
    text = f"""{HEAD}for inner fmu A a with input ports z with output ports y
        for inner fmu B b with input ports y with output ports z
        with a.y -> b.y with b.z -> a.z
        successive substitution starts at a.y"""
    inner = {
        "a": up.Function(inputs=["z"], outputs={"y": "1 - 2*z"}),
        "b": up.Function(inputs=["y"], outputs={"z": "y"}),
    }
    with pytest.raises(up.RunError, match="the iteration in s"):
        up.simulate(up.Scenario({"s": read(text, **inner)}), pace=0.1, until=1.0, coupling=up.GaussSeidel())


def test_a_delay_shows_the_value_of_one_step_ago(read: Any) -> None:
    gain = up.Function(inputs=["u"], outputs={"x": "2*u"})
    text = f"{ONE}output ports x out rules {{ delay at x; }}"
    trace = ran(up.Scenario({"r": RAMP, "s": read(text, a=gain)}, {"s.u": "r.x"}))
    np.testing.assert_allclose(trace["s.x"][2:], 2 * trace["time"][1:-1], atol=1e-12)


def test_periodic_execution_samples_at_its_own_times(read: Any) -> None:
    gain = up.Function(inputs=["u"], outputs={"x": "u"})
    model = read(f"{ONE}periodic every 0.25", a=gain)
    trace = ran(up.Scenario({"r": RAMP, "s": model}, {"s.u": "r.x"}))
    expected = [0.25 * np.floor((t + 1e-9) / 0.25) for t in trace["time"]]
    np.testing.assert_allclose(trace["s.x"], expected, atol=1e-9)


def test_triggered_execution_waits_for_its_condition(read: Any) -> None:
    model = read(f"{ONE}triggered by u > 0.55", a=up.Function(inputs=["u"], outputs={"x": "u"}))
    trace = ran(up.Scenario({"r": RAMP, "s": model}, {"s.u": "r.x"}))
    late = trace["time"] > 0.55
    np.testing.assert_allclose(trace["s.x"], np.where(late, trace["time"], 0.0), atol=1e-12)


def test_stairs_zones_and_the_past(read: Any) -> None:
    inner = up.Function(inputs=["u", "v", "w"], outputs={"x": "u", "y": "v", "z": "w"})
    text = f"""{HEAD}for inner fmu A a with input ports u, v, w with output ports x, y, z
        input ports u, v
        in rules {{ quantize u every 0.2 with offset 0.05; quantize(v, "low", 0.35, "middle", 0.75, "high");
                    true -> {{ }} --> {{ a.w := v[prev]; }}; }}"""
    trace = ran(up.Scenario({"r": RAMP, "s": read(text, a=inner)}, {"s.u": "r.x", "s.v": "r.x"}))
    t = trace["time"]
    np.testing.assert_allclose(trace["s.x"], np.floor((t - 0.05) / 0.2) * 0.2 + 0.05, atol=1e-12)
    assert trace["s.y"].tolist() == [float(int(v >= 0.35) + int(v >= 0.75)) for v in t]
    np.testing.assert_allclose(trace["s.z"][1:], t[:-1], atol=1e-12)


def test_a_crossing_is_located_inside_a_step(read: Any) -> None:
    """The inner unit counts the time since it was told: it is told when the ramp passes 0.55, not at 0.6."""
    text = f"""{HEAD}for inner fmu A a with input ports on with output ports x
        input ports level
        in rules with crossing absolute tolerance = 1e-9 {{
            level >! 0.55 -> a.on := 1.0; otherwise -> a.on := 0.0; }}"""
    counter = up.Ode({"x": "on"}, inputs=["on"], outputs=["x"], solver=up.RK4(20))
    trace = ran(up.Scenario({"r": RAMP, "s": read(text, a=counter)}, {"s.level": "r.x"}))
    assert trace["s.x"][-1] == pytest.approx(0.05, abs=1e-8)  # from 0.5 to 0.55, the step that ends there


def test_what_a_crossing_decides_may_be_stored(read: Any) -> None:
    """The number of crossings: two of a wave in 1 s, upwards; inputs that are held are told."""
    text = f"""{HEAD}for inner fmu A a with input ports u with output ports x
        input ports level
        in var count := 0.0;
        in rules with crossing absolute tolerance = 1e-9 {{
            level >! 0.5 -> {{ count := count + 1; }} --> {{ }};
            true -> {{ }} --> {{ a.u := count; }}; }}"""
    counter = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"], solver=up.RK4(20))
    wave = up.Function(outputs={"x": "sin(4*3.141592653589793*time)"})
    scenario = up.Scenario({"r": wave, "s": read(text, a=counter)}, {"s.level": "r.x"})
    t = ran(scenario, pace=0.01)
    at = np.array([1 / 24, 1 / 24 + 0.5])  # where sin is 1/2; the step that ends there counts already
    starts = np.floor(at / 0.01) * 0.01
    assert t["s.x"][-1] == pytest.approx((1.0 - starts).sum(), abs=1e-6)
    held = up.experiment(scenario, step=0.01, until=1.0, coupling=up.GaussSeidel(), inputs="hold")
    assert any("(s.level) where their crossing" in note for note in held.plan.program.notes)
    moved = up.experiment(scenario, step=0.01, until=1.0, coupling=up.GaussSeidel(), inputs="linear")
    assert not any("crossing" in note for note in moved.plan.program.notes)


def test_first_order_hold_goes_on_between_executions(read: Any) -> None:
    gain = up.Function(inputs=["u"], outputs={"x": "u"})
    text = f"{ONE}periodic every 0.2 out rules with first order hold {{ true -> {{ }} --> {{ }}; }}"
    trace = ran(up.Scenario({"r": RAMP, "s": read(text, a=gain)}, {"s.u": "r.x"}))
    np.testing.assert_allclose(trace["s.x"][3:], trace["time"][3:], atol=1e-9)


def test_second_order_hold_goes_on_along_a_parabola(read: Any) -> None:
    """With the start and two executions it shows a square exactly, also between executions."""
    gain = up.Function(inputs=["u"], outputs={"x": "u"})
    text = f"{ONE}periodic every 0.2 out rules with second order hold {{ true -> {{ }} --> {{ }}; }}"
    square = up.Ode({"x": "2*time"}, outputs=["x"], solver=up.RK4(20))
    trace = ran(up.Scenario({"r": square, "s": read(text, a=gain)}, {"s.u": "r.x"}), until=2.0)
    late = trace["time"] > 0.35
    np.testing.assert_allclose(trace["s.x"][late], trace["time"][late] ** 2, atol=1e-9)


@pytest.mark.parametrize("kind", ["moore", "mealy"])
def test_the_past_begins_with_what_was_at_the_start(read: Any, kind: str) -> None:
    """Of an input that starts at 3, of an output, and of a variable that starts at 5."""
    late = up.Ode({"x": "1"}, start={"x": 3.0}, outputs=["x"])
    inner = up.Function(inputs=["u", "v", "w", "d"], outputs={"x": "u", "y": "v", "z": "w", "r": "d"})
    text = f"""semantic adaptation reactive {kind} S s
        for inner fmu A a with input ports u, v, w, d with output ports x, y, z, r
        input ports i
        control var p := 5.0;
        control rules {{ a.v := p[prev]; p := p + 1; a.w := i; do_step(a, t, H); return H; }}
        in rules {{ true -> {{ }} --> {{ a.u := i[prev]; }};
                    i > i[prev] -> a.d := 1.0; otherwise -> a.d := -1.0; }}
        output ports x, y, z, r
        out rules {{ true -> {{ }} --> {{ s.z := a.z[prev]; }}; }}"""
    trace = ran(up.Scenario({"r": late, "s": read(text, a=inner)}, {"s.i": "r.x"}))
    source = trace["r.x"].tolist()
    assert trace["s.x"].tolist() == [3.0, *source[:-1]]
    assert trace["s.y"][1:].tolist() == [5.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]
    assert trace["s.z"][2:].tolist() == source[1:-1]
    assert trace["s.r"].tolist() == [-1.0] + [1.0] * 10


def test_state_machines_inside_react_and_wait(read: Any) -> None:
    """A state machine that is on for 0.25 after its input rises, executed when that changes or it is due."""
    machine = up.StateMachine(
        inputs={"go": {"kind": "boolean"}},
        initial="off",
        states=["off", "on", "done"],
        transitions=[
            {"from": "off", "to": "on", "when": "go"},
            {"from": "on", "to": "done", "after": 0.25},
        ],
        outputs={"lit": {"value": "state == 'on'", "kind": "boolean"}},
    )
    text = f"{HEAD}for inner fmu A a with input ports Boolean go with output ports Boolean lit"
    ramp = up.Function(outputs={"go": {"value": "time >= 0.3", "kind": "boolean"}})
    trace = ran(up.Scenario({"r": ramp, "s": read(text, a=machine)}, {"s.go": "r.go"}))
    lit = trace["time"][np.asarray(trace["s.lit"], dtype=bool)]
    assert lit.min() == pytest.approx(0.3)
    assert lit.max() == pytest.approx(0.4)


def test_parameters_and_names_of_the_fmu(read: Any) -> None:
    text = """semantic adaptation S s
        for inner fmu A a with input ports Real v "u" with output ports Real w "x"
        param Real K := 2.0, N := 3;
        control { for (var i in 0 .. N) { do_step(a, t + i * H / N, H / N); } return H; }
        in rules { true -> { } --> { a.v := K * v; }; }
        input ports v"""
    gain = up.Function(inputs=["u"], outputs={"x": "u"})
    model = read(text, a=gain, parameters={"K": 5.0, "N": 4})
    assert [port.name for port in model.ports][:2] == ["v", "w"]
    trace = ran(up.Scenario({"r": RAMP, "s": model}, {"s.v": "r.x"}))
    np.testing.assert_allclose(trace["s.w"], 5 * trace["time"], atol=1e-12)
    assert model.with_values({"K": 7.0}).ports  # which is no part of a loop, and can still be changed
    with pytest.raises(up.ModelError, match=r"there is no .* 'N'"):
        model.with_values({"N": 7})


PAIR = up.Ode(
    {"x": ["u[0] - x[0]", "2*u[1] - x[1]"]}, inputs={"u": {"size": 2}}, outputs=["x"], solver=up.RK4(20)
)


@pytest.mark.parametrize(
    ("declared", "first", "second"),
    [
        ("", "u_0", "u_1"),
        (' with input ports one "u[0]", u_1 with output ports x_0, x_1', "one", "u_1"),
    ],
)
def test_arrays_are_given_cell_by_cell(read: Any, declared: str, first: str, second: str) -> None:
    """The cells of one unit go crosswise to those of another one; closed forms of lags in a row."""
    text = f"""semantic adaptation reactive moore S s
        for inner fmu A a{declared}
        for inner fmu B b
        with a.x_0 -> b.v_1
        with a.x_1 -> b.v_0
        in rules {{ true -> {{ }} --> {{ a.{first} := 1; }}; }}
        input ports w -> a.{second}
        output ports x_0, x_1, y_0, y_1"""
    swap = up.Function(inputs={"v": {"size": 2}}, outputs={"y": ["v[0]", "10*v[1]"]})
    model = read(text, a=PAIR, b=swap)
    trace = ran(up.Scenario({"r": up.Function(outputs={"z": "3"}), "s": model}, {"s.w": "r.z"}))
    grown = 1 - np.exp(-trace["time"])
    for name, value in (("x_0", grown), ("x_1", 6 * grown), ("y_0", 6 * grown), ("y_1", 10 * grown)):
        np.testing.assert_allclose(trace[f"s.{name}"], value, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{HEAD}for inner fmu A a\n with input ports u", r"line 3, column 19: 'a\.u' is an array of 2"),
        (
            f"{HEAD}for inner fmu A a\nfor inner fmu B b\nwith b.z -> a.u_0",
            r"connected as a whole, and a\.u\[1\]",
        ),
        (f"{HEAD}for inner fmu A a\nfor inner fmu B b\n with output ports name", r"'b\.name' is a string"),
        (f"{HEAD}for inner fmu A a\n with output ports x_7", "Did you mean 'x_"),
    ],
)
def test_what_ports_are_not_is_said(read: Any, text: str, what: str) -> None:
    ports = (up.Port("z", up.Causality.OUTPUT), up.Port("name", up.Causality.OUTPUT, up.Kind.STRING))
    other = up.PythonUnit(_Plain, ports=ports)
    with pytest.raises(up.ScenarioError, match=what):
        read(text, a=PAIR, **({"b": other} if "B b" in text else {}))


def test_texts_that_nobody_reads_are_left_out(read: Any) -> None:
    ports = (up.Port("z", up.Causality.OUTPUT), up.Port("name", up.Causality.OUTPUT, up.Kind.STRING))
    model = read(f"{HEAD}for inner fmu B b", b=up.PythonUnit(_Plain, ports=ports))
    assert [port.name for port in model.ports if port.causality is up.Causality.OUTPUT] == ["z"]


class _Plain:
    """A unit that cannot be set back."""

    def set(self, port: str, coefficients: Any) -> None:
        self.u = coefficients[0]

    def get(self, port: str) -> float:
        return getattr(self, "u", 0.0)

    def advance(self, t: float, to: float, early: bool) -> float:
        return to


def test_what_is_wrong_with_the_units_is_told_at_its_place(read: Any) -> None:
    plain = up.PythonUnit(_Plain, inputs=["u"], outputs=["x"])
    text = f"{ONE}control {{\n save_state(a); do_step(a, t, H); rollback(a); return H; }}"
    with pytest.raises(up.ScenarioError, match=r"line 4, column 2: 'a' cannot be set back"):
        read(text, a=plain)
    with pytest.raises(up.ScenarioError, match="line 2, column 1: it is not said what the inner unit 'a' is"):
        read(ONE)
    text = f"{ONE}control {{\n if (t > 1) {{ save_state(a); }}\n rollback(a); do_step(a, t, H); return H; }}"
    with pytest.raises(up.ScenarioError, match=r"line 5, column 2: no save_state\(a\) is certainly before"):
        read(text, a=LAG)
    with pytest.raises(up.ScenarioError, match="there is no inner unit 'b'"):
        read(ONE, a=LAG, b=LAG)
    with pytest.raises(up.ScenarioError, match="line 2, column 36: 'a' has no input 'u'"):
        read(ONE, a=RAMP)
    with pytest.raises(up.ScenarioError, match="is Real, not Boolean"):
        read(ONE.replace("ports u", "ports Boolean u"), a=LAG)
    feedthrough = up.Function(inputs=["u"], outputs={"x": "u"})
    with pytest.raises(up.ScenarioError, match="'a' is no moore unit: its output 'x' follows its input 'u'"):
        read(ONE.replace("fmu A a", "fmu moore A a"), a=feedthrough)
    late = up.Ode({"x": "u - x"}, inputs={"u": {"reactive": False}}, outputs=["x"])
    with pytest.raises(up.ScenarioError, match="'a' is not reactive: its input 'u' is delayed"):
        read(ONE.replace("fmu A a", "fmu reactive A a"), a=late)
    with pytest.raises(up.InvalidInput, match="no parameter 'Q'"):
        read(ONE, a=LAG, parameters={"Q": 1})
    with pytest.raises(up.InvalidInput, match=r"there is no 'b\.Q'"):
        read(ONE, a=LAG, parameters={"b.Q": 1})
    metres = up.Function(inputs={"u": {"unit": "m"}}, outputs={"x": "u"})
    with pytest.raises(up.ScenarioError, match=r"'a.u' is in m, not in cm"):
        read(ONE.replace("ports u", "ports u (cm)"), a=metres)


def test_parameters_of_adaptations_inside() -> None:
    import power_window as pw

    inner = {name: pw.models()[name] for name in ("window", "obstacle")}
    once = up.read_sa(pw.FILES / "rate_sa.sa", inner, parameters={"loop_sa.MAXITER": 1, "RATE": 2})
    with pytest.raises(up.RunError, match="the iteration in loop_sa"):
        pw.run(pw.adapted(window=once))


FILE = """upbeat = 1
units.r = { states = { x = "1" }, outputs = ["x"] }
units.s = { sa = "it.sa", units = { a = { inputs = ["u"], outputs = { x = "2*u" } } } }
connections = { "s.u" = "r.x" }
master = { step = 0.1, coupling = "gauss_seidel" }
run.until = 1.0
"""


def test_in_scenario_files(tmp_path: Path) -> None:
    (tmp_path / "it.sa").write_text(ONE)
    (tmp_path / "it.toml").write_text(FILE)
    trace = up.load(tmp_path / "it.toml").run()
    assert trace["s.x"][-1] == pytest.approx(2.0)
    (tmp_path / "it.toml").write_text(FILE.replace("a = {", "b = {"))
    with pytest.raises(up.ScenarioError, match=r"it is not said what the inner unit 'a' is"):
        up.load(tmp_path / "it.toml")
    (tmp_path / "it.toml").write_text(FILE.replace('x = "2*u"', 'x = "2*v"'))
    with pytest.raises(up.ScenarioError, match=r"units › s › units › a"):
        up.load(tmp_path / "it.toml")
    (tmp_path / "it.toml").write_text(FILE.replace("it.sa", "that.sa"))
    with pytest.raises(up.ScenarioError, match=r"that.sa"):
        up.load(tmp_path / "it.toml")


def test_the_power_window_is_sound() -> None:
    from upbeat.adapt.sa.loading import checked

    for file in sorted(POWER_WINDOW.glob("*.sa")):
        assert checked(file)


def test_the_power_window_meets_its_object() -> None:
    """Detection to 5 ms, positions to 1 %, beside the equations in one piece; both loops agree."""
    import power_window as pw

    trace = pw.run(pw.adapted())
    exact = pw.reference(trace["time"])
    found = pw.figures(trace, exact)
    assert abs(found["detected_at"] - exact["detected"]) < 5e-3
    assert abs(found["reversed_for"] - 1.0) < 5e-3
    assert found["position_error_percent"] < 1.0
    assert 2.4 < exact["met"] < 2.6
    inner = {name: pw.models()[name] for name in ("window", "obstacle")}
    both = up.read_sa(POWER_WINDOW / "rate_loop_sa.sa", inner)
    other = pw.run(pw.adapted(window=both))
    np.testing.assert_allclose(other["window.disp"], trace["window.disp"], atol=1e-6)
    assert len(pw.reasons()) == 3


@pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
def test_motor_and_window_as_fmus(fmu: Any) -> None:
    """Of FMI 3 they do what the equations do; the window of FMI 2 has no rollback, which loop_sa needs."""
    import power_window as pw

    obstacle = pw.models()["obstacle"]
    plain = pw.run(pw.adapted(), until=0.05)
    window = up.read_sa(pw.FILES / "rate_sa.sa", {"window": up.Fmu(fmu("window", 3)), "obstacle": obstacle})
    power = up.read_sa(pw.FILES / "power_sa.sa", {"power": up.Fmu(fmu("power", 3))})
    trace = pw.run(pw.adapted(window=window, power=power), until=0.05)
    for name in ("window.disp", "power.armature_current"):
        np.testing.assert_allclose(trace[name], plain[name], atol=1e-4)
    with pytest.raises(
        up.ScenarioError, match=r"line 30, column 5: \[loop_sa.sa\] 'window_sa' cannot be set back"
    ):
        up.read_sa(pw.FILES / "rate_sa.sa", {"window": up.Fmu(fmu("window", 2)), "obstacle": obstacle})


def test_whether_a_variable_has_a_value_yet(read: Any) -> None:
    """The first input is remembered, and no later one."""
    text = f"""{HEAD}for inner fmu A a with input ports u with output ports x
        input ports v
        in var kept;
        in rules {{ not is_set(kept) -> {{ kept := v; }} --> {{ }};
                    true -> {{ }} --> {{ a.u := kept + 10.0; }}; }}"""
    late = up.Ode({"x": "1"}, start={"x": 0.5}, outputs=["x"])
    gain = up.Function(inputs=["u"], outputs={"x": "u"})
    trace = ran(up.Scenario({"r": late, "s": read(text, a=gain)}, {"s.v": "r.x"}))
    assert trace["s.x"][1:].tolist() == [10.5] * 10


def test_a_loop_that_is_left_by_return_and_never_was_ends_the_run(read: Any) -> None:
    body = "save_state(a); do_step(a, t, H); if (a.x > 5) { return H; } rollback(a);"
    text = f"{ONE}output ports y <- a.x\ncontrol rules {{ for (var i in 0 .. 3) {{ {body} }} return H; }}"
    with pytest.raises(up.RunError, match="the iteration in s"):
        up.simulate(up.Scenario({"s": read(text, a=LAG)}), pace=0.1, until=1.0)


@pytest.mark.parametrize("engine", ["interpret", "native"])
@pytest.mark.parametrize(
    ("control", "what"),
    [
        ("do_step(a, t, H); return H*(1 + a.x);", "the size of the step is more than 0 and at most H"),
        (
            "do_step(a, t, H); if (a.x > 0.3) { return 0.3 - a.x; } return H;",
            "the size of the step is more than 0 and at most H",
        ),
        ("do_step(a, t, H); return H*a.x/(a.x - a.x);", "the size of the step is more than 0 and at most H"),
        (
            "do_step(a, t, H); if (a.x > 0.3) { do_step(a, t, H); }\n return H;",
            "'a' has not been stepped beyond",
        ),
        ("do_step(a, t, H);\n if (a.x > 0.3) { do_step(a, t, H); }", "'a' has not been stepped beyond"),
    ],
)
def test_wrong_sizes_that_only_a_run_can_know_end_it(read: Any, control: str, what: str, engine: str) -> None:
    line = 3 + control.count("\n")
    model = read(f"{ONE}control {{ {control} }}", a=LAG)
    scenario = on_engine(engine, up.Scenario({"s": model}, {"s.u": 1.0}))
    with pytest.raises(
        up.StepError, match=rf"it\.sa, line {line}: the check that {what}.* failed in the step"
    ):
        up.simulate(scenario, pace=0.1, until=1.0, coupling=up.GaussSeidel(), engine=engine)


def test_units_of_sa_files_are_written_as_such(tmp_path: Path) -> None:
    file = tmp_path / "adaptations" / "g.sa"
    file.parent.mkdir()
    file.write_text(
        """semantic adaptation reactive mealy G g
        for inner fmu P p with input ports u with output ports y
        param K := 2.0;
        input ports v
        output ports z
        control var n := 0;
        control rules { n := n + 1; do_step(p, t, H); return H; }
        in rules { true -> { } --> { p.u := K * g.v; }; }
        out rules { true -> { } --> { g.z := p.y; }; }"""
    )
    plant = up.Ode({"y": "k*u"}, inputs=["u"], outputs=["y"], parameters={"k": 1.0})
    model = up.read_sa(file, {"p": plant}, parameters={"K": 3.0})
    scenario = up.Scenario({"m": model, "r": up.Function(outputs={"y": "1"})}, {"m.v": "r.y"})
    for values, slope in (({}, 3.0), ({"m.K": 5.0, "m.p.k": 2.0}, 10.0), ({"m.k": 4.0}, 12.0)):
        written = tmp_path / "scenarios" / "whole.toml"
        written.parent.mkdir(exist_ok=True)
        up.write_scenario(scenario.with_values(values), written)
        assert '"../adaptations/g.sa"' in written.read_text()
        with written.open("a") as more:
            more.write('\n[master]\nstep = 0.1\ncoupling = "gauss_seidel"\n[run]\nuntil = 1.0\n')
        trace = up.load(written).run()
        assert trace["m.z"][-1] == pytest.approx(slope)


@pytest.mark.parametrize("engine", ["interpret", "native"])
@pytest.mark.parametrize(("inward", "line"), [(False, 8), (True, 7)])
def test_what_is_no_number_is_told_with_its_line(
    engine: str, inward: bool, line: int, tmp_path: Path
) -> None:
    file = tmp_path / "g.sa"
    into, out = ("1 / g.v", "p.y") if inward else ("g.v", "1 / p.y")
    file.write_text(
        f"""semantic adaptation reactive mealy G g
        for inner fmu P p with input ports u with output ports y
        input ports v
        output ports z
        control var n := 0;
        control rules {{ n := n + 1; do_step(p, t, H); return H; }}
        in rules {{ true -> {{ }} --> {{ p.u := {into}; }}; }}
        out rules {{ true -> {{ }} --> {{ g.z := {out}; }}; }}"""
    )
    model = up.read_sa(file, {"p": up.Ode({"y": "u"}, inputs=["u"], outputs=["y"])})
    scenario = up.Scenario({"r": up.Function(outputs={"y": "0"}), "m": model}, {"m.v": "r.y"})
    with pytest.raises(up.UnitError, match=rf"\(line {line} of g\.sa\)"):
        up.simulate(on_engine(engine, scenario), engine=engine, pace=0.1, until=0.5, coupling="gauss_seidel")
