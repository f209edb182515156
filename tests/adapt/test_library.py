"""The library of adaptations: against the same thing typed by hand, closed forms, and on both engines."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from fmu_maker import COMPILER
from upbeat.engine.nesting.adapted import KINDS
from upbeat.engine.packing import fingerprint
from upbeat.units import wrapped

PLANT = up.Ode({"x": "(u - x)/T"}, inputs={"u": 0.25}, outputs={"y": "x"}, parameters={"T": 0.5})
WAVE = up.Function(outputs={"y": "2*sin(3*time)"})


def both(scenario: up.Scenario, **settings: Any) -> up.Trace:
    settings = {"pace": 0.05, "until": 2.0, **settings}
    first, second = (up.simulate(scenario, engine=engine, **settings) for engine in ("interpret", "native"))
    for name in first.names:
        assert first[name].tolist() == second[name].tolist(), name
    return second


def adapted(*what: Any, port: str = "u") -> up.Scenario:
    return up.Scenario({"s": WAVE, "m": up.adapted(PLANT, *what)}, {f"m.{port}": "s.y"})


COUPLINGS = [None, up.GaussSeidel(), up.GaussSeidel(order=("m", "s")), up.MultiRate({"m": 4}), up.Iterated()]


@pytest.mark.parametrize("coupling", COUPLINGS, ids=lambda c: type(c).__name__)
def test_an_adapted_unit_is_the_same_thing_typed_by_hand(coupling: Any) -> None:
    what = ("gain 2 on y", "low_pass 0.1 on y", "saturation on u with low = -1, high = 1", "u = 3*v + 0.1")
    units = {"s": WAVE, "m": PLANT, "f": up.blocks.first_order(0.1)}
    wires = {"m.u": "max(min(3*s.y + 0.1, 1), -1)", "f.u": "2*m.y"}
    typed = coupling
    if isinstance(coupling, up.GaussSeidel) and coupling.order:
        typed = up.GaussSeidel(order=("m", "f", "s"))
    if isinstance(coupling, up.MultiRate):
        typed = up.MultiRate({"m": 4, "f": 4})
    one = both(adapted(*what, port="v"), coupling=coupling)
    other = both(up.Scenario(units, wires), coupling=typed)
    assert one["m.y"].tolist() == other["f.y"].tolist()


def test_stability_sees_through_adaptations() -> None:
    """A delay that makes a loop unstable, and the radius of the loop with the same delay typed by hand."""
    plant = up.blocks.integrator(-2.0, start=1.0)
    for delay, verdict in ((0.5, "stable"), (1.0, "unstable")):
        late = up.adapted(plant, f"transport_delay {delay} on u with points = 5, hold = true")
        one = up.stability_of(up.Scenario({"p": late}, {"p.u": "p.y"}), step=0.1, scan=False)
        block = up.blocks.transport_delay(delay, points=5, hold=True)
        units = {"p": plant, "d": block}
        other = up.stability_of(up.Scenario(units, {"p.u": "d.y", "d.u": "p.y"}), step=0.1, scan=False)
        assert one.verdict == other.verdict == verdict
        assert one.spectral_radius == pytest.approx(other.spectral_radius, rel=1e-9)


def test_signs_offsets_units_and_frames() -> None:
    sensor = up.Function(outputs={"x": "1 + time", "y": {"value": "2*time", "unit": "m"}, "n": "60*time"})
    seen = up.adapted(sensor, "negate on x", "offset 3 on x", "unit mm on y", "unit rpm on n")
    take = up.Ode(
        {"z": "w"}, inputs={"w": {"unit": "rad/s"}, "d": {"unit": "m"}}, outputs={"z": "z", "d_out": "d"}
    )
    t = both(up.Scenario({"s": seen, "t": take}, {"t.w": "s.n", "t.d": "s.y"}), until=1.0)
    assert t["s.x"] == pytest.approx(2 - t.time)
    assert t["t.d_out"] == pytest.approx(2e-3 * t.time)
    turned = up.adapted(up.Function(outputs={"x": "1", "y": "time"}), "rotate 90 on x, y")
    t = both(up.Scenario({"s": turned}), until=1.0)
    assert t["s.x"] == pytest.approx(t.time)
    assert t["s.y"] == pytest.approx(-np.ones(len(t.time)))
    driven = up.adapted(up.Function(["a", "b"], {"p": "a", "q": "b"}), "rotate 30 on a, b")
    t = both(up.Scenario({"s": driven}, {"s.a": "x", "s.b": "1"}, inputs={"x": 2.0}), until=0.1)
    c, s = math.cos(math.pi / 6), math.sin(math.pi / 6)
    assert t["s.p"][-1] == pytest.approx(2 * c + s)
    assert t["s.q"][-1] == pytest.approx(c - 2 * s)


def test_formulas_make_ports() -> None:
    made = up.adapted(PLANT, "u = 2*(up - down)", "power = y*y")
    assert [port.name for port in made.ports][:4] == ["down", "up", "y", "power"]
    t = both(up.Scenario({"m": made}, {"m.up": "1", "m.down": "0"}))
    exact = 2 + (0 - 2) * np.exp(-t.time / 0.5)
    assert t["m.y"] == pytest.approx(exact, abs=1e-5)
    assert t["m.power"] == pytest.approx(exact**2, abs=1e-4)


def test_arrays_are_adapted_cell_by_cell() -> None:
    two = up.Function({"u": [0.0, 0.0]}, {"y": ["u[0]", "2*u[1]"]})
    made = up.adapted(two, "gain 3 on u", "low_pass 0.1 on y")
    t = both(up.Scenario({"m": made}, {"m.u": ["1", "2"]}), until=1.0)
    rise = 1 - np.exp(-t.time / 0.1)
    assert t["m.y[0]"] == pytest.approx(3 * rise, abs=1e-4)
    assert t["m.y[1]"] == pytest.approx(12 * rise, abs=5e-4)


def test_rotated_arrays() -> None:
    two = up.Function({"u": [1.0, -2.0], "v": [0.5, 3.0]}, {"y": ["u[0]", "u[1]"], "z": ["v[0]", "v[1]"]})
    c, s = math.cos(0.5), math.sin(0.5)
    turned = np.array([[c, s], [-s, c]]) @ np.array([[1.0, -2.0], [0.5, 3.0]])
    for on in ("u, v", "y, z"):
        t = both(up.Scenario({"m": up.adapted(two, f"rotate {math.degrees(0.5)!r} on {on}")}))
        seen = [[t[f"m.{port}[{i}]"][-1] for i in (0, 1)] for port in "yz"]
        assert np.array(seen) == pytest.approx(turned)
    odd = up.Function(outputs={"y": ["1", "2"], "z": "3"})
    with pytest.raises(up.ModelError, match="two ports of one size"):
        up.adapted(odd, "rotate 30 on y, z")


RAW = {
    "gain 2": lambda u: 2 * u,
    "offset 0.5": lambda u: u + 0.5,
    "unit mm": lambda u: u,
    "unit km": lambda u: u,
    "saturation -1": lambda u: np.maximum(u, -1),
    "low_pass 0.001": lambda u: u,
    "derivative 0.001": lambda u: 0 * u,
    "rate_limiter 1e6 with tau = 0.001": lambda u: u,
    "sample_hold 0.1": lambda u: u,
    "transport_delay 0.2": lambda u: u,
}
"""What they make of a constant, in numbers, once they have settled."""


@pytest.mark.parametrize("seed", range(4))
def test_units_of_measure_through_chains(seed: int) -> None:
    """Numbers go through a chain as they are; what the outer port says they are in is converted outside."""
    drawn = np.random.default_rng(seed)
    for _ in range(6):
        kinds = [str(kind) for kind in drawn.choice(list(RAW), 2)]
        inward, array = bool(drawn.integers(2)), bool(drawn.integers(2))
        port = "u" if inward else "y"
        what = [re.sub(r"^(\S+ \S+)", rf"\1 on {port}", kind) for kind in kinds]
        factor, rates = 1.0, 0
        for kind in kinds:
            if kind.startswith("unit"):
                factor, rates = {"unit mm": 1e-3, "unit km": 1e3}[kind], 0
            rates += kind.startswith("derivative")
        unit = "m" + (["", "*s", "*s^2"] if inward else ["", "/s", "/s^2"])[rates]
        values: Any = ["2", "2"] if array else "2"
        same: Any = ["u[0]", "u[1]"] if array else "u"
        start: Any = [0.0, 0.0] if array else 0.0
        source = up.Function(outputs={"y": {"value": values, "unit": unit if inward else "m"}})
        target = up.Function({"u": {"start": start, "unit": "m" if inward else unit}}, {"v": same})
        units = {"s": source, "t": target}
        units["t" if inward else "s"] = up.adapted(units["t" if inward else "s"], *what)
        t = both(up.Scenario(units, {"t.u": "s.y"}), until=1.0)
        raw = np.array([2.0 / factor if inward else 2.0])
        for kind in reversed(kinds) if inward else kinds:
            raw = RAW[kind](raw)
        wanted = raw[0] if inward else raw[0] * factor
        assert t["t.v[1]" if array else "t.v"][-1] == pytest.approx(wanted, abs=1e-9), what


def test_a_formula_sees_ports_in_the_units_that_adaptations_say() -> None:
    sensor = up.Function(outputs={"y": {"value": "2", "unit": "m"}, "z": {"value": "7", "unit": "m"}})
    t = both(up.Scenario({"s": up.adapted(sensor, "unit mm on y", "z = y + z")}))
    assert t["s.z"][-1] == pytest.approx(7.002)
    assert t["s.y"][-1] == 2.0
    event = up.adapted(sensor, "unit mm on y", "sample 0.1 on y")
    held = up.adapted(up.Function({"u": {"unit": "m"}}, {"v": "u"}), "hold on u")
    t = both(up.Scenario({"s": event, "h": held}, {"h.u": "s.y"}))
    assert t["h.v"][-1] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("unit", "on_y", "on_u"),
    [("m", ("m/s", "m*s"), ("m*s", "m/s")), ("m/s", ("m/s^2", "m"), ("m", "m/s^2")),
     ("degC", ("delta_degC/s", "delta_degC*s"), ("delta_degC*s", "delta_degC/s"))],
)  # fmt: skip
def test_derivatives_and_integrals_have_units_of_their_own(unit: str, on_y: Any, on_u: Any) -> None:
    plain = up.Function({"u": {"unit": unit}}, {"y": {"value": "u", "unit": unit}})
    for port, wanted in (("y", on_y), ("u", on_u)):
        for kind, said in zip(("derivative 0.1", "integrator 1"), wanted, strict=True):
            made = up.adapted(plain, f"{kind} on {port}")
            assert {p.name: p.unit for p in made.ports}[port] == said


def test_blocks_begin_with_the_start_value_of_an_input() -> None:
    """Nothing drives u, which is 0.25 from the start on: it was so before."""
    for what in (
        "low_pass 0.1 on u", "second_order 5 on u with damping = 1", "transport_delay 0.5 on u",
        "rate_limiter 1 on u with tau = 0.1", "sample_hold 0.1 on u with offset = 0.05",
    ):  # fmt: skip
        t = both(up.Scenario({"m": up.adapted(up.Function({"u": 0.25}, {"y": "u"}), what)}))
        assert t["m.y"] == pytest.approx(np.full(len(t.time), 0.25)), what
    t = both(up.Scenario({"m": up.adapted(up.Function({"u": 20.0}, {"y": "u"}), "derivative 0.01 on u")}))
    assert t["m.y"] == pytest.approx(np.zeros(len(t.time)))


def test_blocks_between_ports() -> None:
    t = both(adapted("transport_delay 0.2 on y with points = 4", "dead_band on u with low = -1, high = 1"))
    plain = both(up.Scenario({"s": WAVE, "m": PLANT}, {"m.u": "s.y - max(min(s.y, 1), -1)"}))
    late = np.interp(t.time - 0.2, plain.time, plain["m.y"])
    assert t["m.y"][8:] == pytest.approx(late[8:], abs=1e-9)
    noisy = [both(adapted("noise 0.1 on y with every = 0.05, seed = 7"))["m.y"].tolist() for _ in range(2)]
    assert noisy[0] == noisy[1] != plain["m.y"].tolist()
    steps = set(both(adapted("quantizer 0.5 on y with hysteresis = 0.1"))["m.y"].tolist())
    assert steps <= {k / 2 for k in range(-5, 6)}
    estimated = both(adapted("derivative 0.001 on y"), pace=0.001, until=1.0)
    exact = np.gradient(both(adapted(), pace=0.001, until=1.0)["m.y"], 0.001)
    assert estimated["m.y"][20:-1] == pytest.approx(exact[20:-1], abs=0.02)


def test_events_and_signals() -> None:
    room = up.Ode({"T": "20*heat - T"}, inputs={"heat": 1.0}, start={"T": 10.0}, outputs=["T"])
    switch = up.StateMachine(
        states={"on": {}, "off": {}}, initial="on",
        inputs={"hot": {"event": True}, "cold": {"event": True}},
        outputs={"heat": {"value": "1 if state == 'on' else 0"}},
        transitions=[{"from": "on", "to": "off", "on": "hot"}, {"from": "off", "to": "on", "on": "cold"}],
    )  # fmt: skip
    control = up.adapted(switch, "threshold 15 on hot", "threshold 12 on cold with below = true")
    wires = {"c.hot": "r.T", "c.cold": "r.T", "r.heat": "c.heat"}
    t = both(up.Scenario({"r": room, "c": control}, wires), pace=0.001, until=3.0)
    assert t["r.T"].max() == pytest.approx(15, abs=0.02)
    assert t["r.T"][1500:].min() == pytest.approx(12, abs=0.02)
    clock = up.adapted(WAVE, "sample 0.5 on y")
    held = up.adapted(up.Function(["u"], {"v": "u"}), "hold on u")
    t = both(up.Scenario({"s": clock, "h": held}, {"h.u": "s.y"}), pace=0.1).one_sided()
    assert t["h.v"] == pytest.approx(2 * np.sin(3 * 0.5 * np.floor(t.time / 0.5 + 1e-9)))


def test_explain_says_what_became_of_those_in_python() -> None:
    class Plain:
        def get(self, port: str) -> float:
            return 0.0

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    python = up.PythonUnit(lambda *_: Plain(), outputs=["y"])
    units = {"a": up.adapted(PLANT, "every 0.02"), "b": up.adapted(python, "replay", "every 0.1")}
    text = up.explain(up.experiment(up.Scenario(units), step=0.1, until=1.0))
    assert "every 0.02: runs in Python, at 0.02 s and its multiples" in text
    assert "replay: runs in Python, with a second instance" in text


def test_events_of_outputs_that_follow_inputs_at_once() -> None:
    inner = up.Function(
        inputs=["u"],
        outputs={
            "y": "3*u",
            "high": {"value": "u > 0.55", "kind": "boolean"},
            "n": {"value": "floor(10*u)", "kind": "integer"},
        },
    )
    source = up.adapted(inner, "sample 0.25 on y", "edge on high", "sample 0.1 on n")
    ramp = up.Function(outputs={"y": "2*time"})
    units = {"s": ramp, "m": source, "y": up.LastValue(0.0), "n": up.LastValue(0, of="integer")}
    wires = {"m.u": "s.y", "y.event": "m.y", "n.event": "m.n"}
    t = both(up.Scenario(units, wires), pace=0.2, until=1.0, events="auto")
    ticks = 0.25 * np.floor(t.one_sided().time / 0.25 + 1e-9)
    assert t.one_sided()["y.value"] == pytest.approx(6 * ticks)
    assert t["n.value"][-1] == 20
    assert t.events.times("m.high") == pytest.approx([0.275], abs=1e-5)


@pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
def test_the_compiled_engine_names_what_runs_in_python() -> None:
    with pytest.raises(up.InvalidInput, match=r"'m' \(adapted by 'every 0.02', which runs in Python\)"):
        up.simulate(adapted("every 0.02"), pace=0.05, until=0.1, engine="compiled")


@pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
@pytest.mark.parametrize(
    "what",
    [("rate 3", "average on y"), ("crossing 0.4 on y",), ("fixed_step 0.03", "lazy with longest = 0.2")],
)
def test_the_compiled_engine_does_the_same(what: tuple[str, ...]) -> None:
    settings = {"pace": 0.1, "until": 1.0, "coupling": up.Negotiated()}
    one, other = (up.simulate(adapted(*what), engine=e, **settings) for e in ("interpret", "compiled"))
    for name in one.names:
        assert one[name].tolist() == other[name].tolist(), name


def test_inputs_that_go_on_between_communication_points() -> None:
    for order, inputs in ((0, up.Hold()), (1, up.Linear()), (2, up.Polynomial(2))):
        one = both(adapted(f"extrapolate {order} on u"), pace=0.1)
        other = both(adapted(), pace=0.1, ports={"m.u": inputs})
        assert one["m.y"].tolist() == other["m.y"].tolist()
    ahead = both(adapted("interpolate on u", "extrapolate 1 on u"), coupling=up.GaussSeidel())
    late = both(adapted("delayed on u", "extrapolate 0 on u"), coupling=up.GaussSeidel(order=("s", "m")))
    exact = up.simulate(adapted().monolith(), pace=0.05, until=2.0)["m.y"]
    assert abs(ahead["m.y"] - exact).max() < 0.1 * abs(late["m.y"] - exact).max()


def test_values_files_and_pickles(tmp_path: Path) -> None:
    made = up.adapted(PLANT, "low_pass 0.1 on y", {"kind": "gain", "on": "u", "k": 2.0})
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.with_values({"T": 0.2}) == up.adapted(PLANT.with_values({"T": 0.2}), *made.adaptations)
    scenario = up.Scenario({"s": WAVE, "m": made}, {"m.u": "s.y"})
    experiment = up.experiment(scenario, step=0.1, until=1.0)
    up.write_scenario(experiment, tmp_path / "a.toml")
    again = up.load(tmp_path / "a.toml")
    assert again.scenario == scenario
    changed = up.load(tmp_path / "a.toml", values={"m.T": 0.2, "m.low_pass_y.tau": 0.3}).run()
    x = lag = 0.0
    for k, seen in enumerate(changed["m.y"]):  # every input is held over a step: exact, step by step
        assert seen == pytest.approx(lag, abs=1e-3)  # the plant's solver: one step of half its time constant
        lag += (x - lag) * (1 - math.exp(-0.1 / 0.3))
        x += (4 * math.sin(0.3 * k) - x) * (1 - math.exp(-0.1 / 0.2))


def test_stacked_adaptations_are_one() -> None:
    at_once = up.adapted(PLANT, "gain 2 on y", "low_pass 0.1 on y", "negate on y")
    one_by_one = up.adapted(up.adapted(up.adapted(PLANT, "gain 2 on y"), "low_pass 0.1 on y"), "negate on y")
    assert one_by_one == at_once


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("gian 2 on y", "Did you mean 'gain'"),
        ("gain 2 on z", "there is no port 'z'"),
        ("gain on y", "gain needs k"),
        ("gain 2", "is on a port"),
        ("gain x on y", "k must be a finite number"),
        ("low_pass 0 on y", "tau must be more than 0"),
        ("gain 2 on y with q = 3", "gain has no 'q'"),
        ("gain 2 on y with k = 3", "says k twice, 2 and 3"),
        ("gain 2 on y, y", "names the port y twice"),
        ({"kind": "gain", "on": ["y", "y"], "k": 2.0}, "names the port y twice"),
        ("saturation on y with low = 1, low = 2", "says low twice"),
        ("rotate 30 on y, y", "names the port y twice"),
        ("gain 2 on y with q", 'after "with" stand values'),
        ("u = y", "an input can follow inputs only"),
        ("w = z", "there is no output 'z'"),
        ("y = 2*", "ends too early"),
        ("hold on y", "hold is on an event output"),
        ("low_pass 0.1", 'write "low_pass … on y"'),
        ("rotate 30 on y", "two ports"),
        ("extrapolate 1 on y", "'y' is an output"),
        ("extrapolate 9 on u", "order must be"),
        ("", "is not an adaptation"),
        ({"on": "y"}, "has a kind"),
        ({"kind": "gain", "on": 3, "k": 1}, "a port or a list of ports"),
        (3, "a text"),
    ],
)
def test_what_cannot_be_is_said(what: Any, said: str) -> None:
    with pytest.raises(up.ModelError, match=said):
        up.adapted(PLANT, what)


def test_files_say_which_one_and_where(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[units.m]\noutputs = { y = "time" }\nadapt = [\n  "gain 2 on y",\n  "gian 2 on y",\n]\n')
    with pytest.raises(up.ScenarioError, match=r"line [345]: .*adapt.*1.*Did you mean 'gain'"):
        up.load(file, step=0.1, until=1.0)


def test_a_file_of_its_own(tmp_path: Path) -> None:
    """An adaptation in a .sa file is one among others, looked for beside the scenario file."""
    (tmp_path / "double_sa.sa").write_text(
        "semantic adaptation reactive mealy Double double_sa\n"
        'at "Double.fmu"\n'
        "for inner fmu Motor motor\n"
        '  at "motor.fmu"\n'
        "  with input ports u\n"
        "  with output ports y\n"
        "input ports u -> motor.u\n"
        "output ports y\n"
        "out var stored := 0.0;\n"
        "out rules { true -> { stored := 2.0*motor.y; } --> { y := stored; }; }\n"
    )
    (tmp_path / "a.toml").write_text(
        '[units.m]\nstates = { x = "(u - x)/0.5" }\ninputs = ["u"]\noutputs = { y = "x" }\n'
        'adapt = ["double_sa.sa", "negate on y"]\n[connections]\nm.u = "1"\n'
        '[master]\nstep = 0.1\ncoupling = "gauss_seidel"\n[run]\nuntil = 3.0\n'
    )
    trace = up.load(tmp_path / "a.toml").run()
    assert trace["m.y"] == pytest.approx(-2 * (1 - np.exp(-trace.time / 0.5)), abs=1e-4)
    with pytest.raises(up.UpbeatError, match="no_sa"):
        up.adapted(PLANT, "no_sa.sa")


def test_whole_units_become_discrete_or_continuous(tmp_path: Path) -> None:
    """What `as_discrete` does is an adaptation like any other, in files, too."""
    (tmp_path / "a.toml").write_text(
        '[units.room]\nstates = { T = "-T" }\nstart = { T = 1.0 }\n'
        'adapt = [{ kind = "as_discrete", pace = 0.25, sample = ["T"] }]\n'
        '[units.seen]\nkind = "hold"\n[connections]\nseen.event = "room.T"\n'
        "[master]\nstep = 0.25\n[run]\nuntil = 1.0\n"
    )
    trace = up.load(tmp_path / "a.toml").run()
    assert trace["seen.value"][-1] == pytest.approx(math.exp(-1), abs=1e-3)


def test_loops_inside_a_scenario_are_solved_as_one_likes() -> None:
    """a = 0.5·b + u, b = cos(a): by three methods, against the root."""
    from scipy.optimize import brentq

    half = up.Function(["b", "u"], {"y": "0.5*b + u"})
    bent = up.Function(["a"], {"y": "cos(a)"})
    inside = up.Scenario(
        {"a": half, "b": bent}, {"a.b": "b.y", "b.a": "a.y", "a.u": "u"}, inputs=["u"], outputs={"y": "a.y"}
    )
    nest = up.Nested(inside, up.Master(up.Fixed(0.1)))
    root = brentq(lambda a: a - 0.5 * math.cos(a) - 0.7, -5, 5)
    for method in ("newton", "anderson", "substitution"):
        made = up.adapted(nest, f"solve {method}")
        t = both(up.Scenario({"m": made}, {"m.u": "0.7"}), pace=0.1, until=0.3)
        assert t["m.y"][-1] == pytest.approx(root, abs=1e-9)
    stiff = up.Ode({"x": "v", "v": "F - x"}, inputs=["F"], start={"x": 1.0}, outputs=["x", "v"])
    pair = up.Scenario(
        {"l": stiff, "r": stiff}, {"l.F": "5*(r.v - l.v)", "r.F": "5*(l.v - r.v)"}, outputs={"x": "l.x"}
    )
    weak = up.Nested(pair, up.Master(up.Fixed(0.1), up.GaussSeidel()))
    strong = up.Nested(pair, up.Master(up.Fixed(0.1), up.Iterated(up.GaussSeidel())))
    assert up.adapted(weak, "iterate") == strong
    with pytest.raises(up.ModelError, match="units that are scenarios"):
        up.adapted(PLANT, "iterate")
    with pytest.raises(up.ModelError, match="there is no method 'newtn'"):
        up.adapted(nest, "solve newtn")


WORDS = [
    *"[](),=*`'\"",
    "gain",
    "on",
    "with",
    "y",
    "u",
    "2",
    "-1",
    "low",
    "k",
    "tau",
    "every",
    "rate",
    "lazy",
    ".sa",
]
ODD = [0, -1, 2.5, True, "x", "", [], [1, "x"], [[1, 2]], {"a": 1}, None, math.nan, math.inf, 10**30]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join))
def test_any_text_gives_a_unit_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(up.UpbeatError):
        up.adapted(PLANT, text)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(KINDS)), data=st.data())
def test_any_table_gives_a_unit_or_an_error_of_ours(kind: str, data: st.DataObject) -> None:
    keys = [key for key in inspect.signature(KINDS[kind]).parameters if key not in ("work", "model", "on")]
    values = {key: data.draw(st.sampled_from(ODD)) for key in keys if data.draw(st.booleans())}
    on = data.draw(st.sampled_from([(), "u", "y", ["u", "y"], 3, "q"]))
    with contextlib.suppress(up.UpbeatError):
        up.adapted(PLANT, {"kind": kind, "on": on, **values})


@pytest.mark.parametrize("driven", [True, False])
@pytest.mark.parametrize("order", list(itertools.permutations(["m.unit.T", "m.low_pass_y.k", "m.unit.x"])))
def test_values_stay_when_others_are_given(order: tuple[str, ...], driven: bool) -> None:
    values = {"m.unit.T": 0.2, "m.low_pass_y.k": 5.0, "m.unit.x": 2.0}
    connections = {"m.u": "s.y"} if driven else {}
    units = {"s": WAVE, "m": PLANT.with_values({"T": 0.2, "x": 2.0})}
    lag = up.blocks.first_order(0.1, 5.0, start=10.0, solver={"kind": "rk4", "step": 0.025})
    hand = up.Scenario({**units, "f": lag}, {**connections, "f.u": "m.y"})
    expected = both(hand, until=0.5)["f.y"].tolist()
    scenario = up.Scenario({"s": WAVE, "m": up.adapted(PLANT, "low_pass 0.1 on y")}, connections)
    for engine in ("interpret", "native"):
        quick = up.experiment(scenario, step=0.05, until=0.5, engine=engine)
        slow = scenario
        for name in order:
            quick, slow = quick.with_values({name: values[name]}), slow.with_values({name: values[name]})
        assert quick.run()["m.y"].tolist() == expected
        assert up.simulate(slow, step=0.05, until=0.5, engine=engine)["m.y"].tolist() == expected
    stacked = up.Scenario({"s": WAVE, "m": up.adapted(slow.units["m"], "negate on y")}, connections)
    assert both(stacked, until=0.5)["m.y"].tolist() == [-y for y in expected]


@pytest.mark.parametrize("open_input", ["u", "h"])  # h is the size of a step inside an adaptation
@pytest.mark.parametrize("kinds", [("rate 3",), ("gain 2 on y", "rate 3"), ("rate 3", "gain 2 on y")])
def test_programs_inside_keep_values_and_are_written(
    open_input: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    def plant(**values: Any) -> up.Ode:
        equations, inputs = {"x": f"({open_input} - x)/T"}, {open_input: values.get("u", 1.0)}
        return up.Ode(equations, inputs=inputs, outputs={"y": "x"}, parameters={"T": values.get("T", 0.5)})

    scenario = up.Scenario({"m": up.adapted(plant(), *kinds)})
    there = up.Scenario({"m": up.adapted(plant(T=0.2, u=3.0), *kinds)})
    expected = both(there, until=0.5)["m.y"].tolist()
    values = {"m.T": 0.2, f"m.{open_input}": 3.0}
    for engine in ("interpret", "native"):
        quick = up.experiment(scenario, step=0.05, until=0.5, engine=engine)
        for name, value in values.items():
            quick = quick.with_values({name: value})
        assert quick.run()["m.y"].tolist() == expected
    if open_input == "u":
        up.write_scenario(quick, tmp_path / "a.toml")
        assert up.load(tmp_path / "a.toml").run()["m.y"].tolist() == expected


def test_units_inside_stay_in_processes_of_their_own() -> None:
    scenario = up.Scenario({"m": up.adapted(PLANT, "rate 3")}, {"m.u": "1"})
    for engine in ("interpret", "native"):
        there = up.experiment(scenario, step=0.1, until=0.3, engine=engine, isolation="process")
        changed = there.with_values({"m.T": 0.2})
        (inside,) = changed.plan.scenario.units["m"].scenario.units.values()
        assert isinstance(inside, up.Isolated)
    here = up.simulate(scenario.with_values({"m.T": 0.2}), step=0.1, until=0.3)
    assert changed.run()["m.y"].tolist() == here["m.y"].tolist()


@pytest.mark.parametrize(
    "what",
    [
        ("low_pass 0.1 on y",),
        ("sample_hold 0.07 on u", "gain 2 on y"),
        ("relay on u with above = 0.1, below = -0.1",),
        ("rate 3", "low_pass 0.1 on y"),
        ("low_pass 0.1 on y", "every 0.02", "gain 2 on u"),
    ],
)
def test_a_process_changes_no_result_of_an_adapted_unit(what: tuple[str, ...], tmp_path: Path) -> None:
    """The unit gets the process; blocks around it stay where they are, events and samples included."""
    source = up.Ode({"v": "-3*w", "w": "3*v"}, start={"v": 1.0}, outputs=["v"])
    here = up.Scenario({"s": source, "m": up.adapted(PLANT, *what)}, {"m.u": "s.v"})
    apart = here.with_units({"m": up.Isolated(up.adapted(PLANT, *what))})
    file = tmp_path / "apart.toml"
    up.write_scenario(apart, file)
    settings: dict[str, Any] = {"coupling": up.GaussSeidel(), "pace": 0.05, "until": 1.0, "events": "auto"}
    first = up.simulate(here, **settings)
    for other in (apart, up.load(file, step=0.05, until=1.0).scenario):
        found = up.simulate(other, **settings)
        assert {name: list(found[name]) for name in first.names} == {n: list(first[n]) for n in first.names}
    placed = up.experiment(apart, step=0.05, until=1.0).plan.scenario
    assert any(isinstance(one, up.Isolated) for one in placed.units.values())


def test_inputs_of_one_formula_with_different_trajectories() -> None:
    wave = up.Function(outputs={"a": "time*time", "b": "sin(9*time)"})
    sums = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    scenario = up.Scenario({"s": wave, "m": up.adapted(sums, "u = a - b")}, {"m.a": "s.a", "m.b": "s.b"})

    def ends(**ports: str) -> float:
        given = {f"m.{name}": course for name, course in ports.items()}
        (warned,) = up.experiment(scenario, step=0.1, until=1.0, ports=given).remarks
        assert "have different approximations" in warned
        return float(both(scenario, pace=0.1, until=1.0, ports=given)["m.x"][-1])

    times = 0.1 * np.arange(10)
    held = 0.1 * (times**2 - np.sin(9 * times)).sum()
    for ports in (
        {"a": "linear"},
        {"b": "linear"},
        {"a": "hold", "b": "linear"},
        {"a": "linear", "b": "hold"},
    ):
        assert ends(**ports) == pytest.approx(held, rel=1e-12)


def test_flatten_and_engine_reach_what_is_inside() -> None:
    inner = up.Scenario({"p": PLANT}, {"p.u": "u"}, inputs=["u"], outputs={"z": "p.y"})
    nest = up.Nested(inner, up.Master(up.Fixed(0.05)))
    for kinds in (("gain 2 on z",), ("every 0.1",)):
        scenario = up.Scenario({"m": up.adapted(nest, *kinds)}, {"m.u": "1"})
        kept = up.experiment(scenario, step=0.05, until=0.5, flatten=False)
        (inside,) = kept.plan.scenario.units.values()
        assert not getattr(inside, "model", inside).flatten
        assert both(scenario)["m.z"].tolist() == both(scenario, flatten=False)["m.z"].tolist()
    program = up.adapted(PLANT, "rate 3", engine="interpret", flatten=False)
    assert (program.engine, program.flatten) == ("interpret", False)
    with pytest.raises(up.InvalidInput, match="engine and flatten are for adaptations that become a program"):
        up.adapted(PLANT, "gain 2 on y", flatten=False)
    scenario = up.Scenario({"m": program}, {"m.u": "1"})
    assert (
        both(scenario)["m.y"].tolist()
        == both(up.Scenario({"m": up.adapted(PLANT, "rate 3")}, {"m.u": "1"}))["m.y"].tolist()
    )


def test_states_of_other_models_at_a_rate_are_refused() -> None:
    others = [
        up.Ode({"z": "u - z"}, inputs=["u"], outputs={"y": "z"}),
        up.Ode({"x": "u - x", "w": "1"}, inputs=["u"], outputs={"y": "x"}),
        up.Function(["u"], {"y": "u"}),
    ]
    known = set()
    for model in (
        up.adapted(PLANT, "every 0.1"),
        up.adapted(PLANT, "every 0.2"),
        *(up.adapted(m, "every 0.1") for m in others),
    ):
        plan = up.experiment(up.Scenario({"m": model}, {"m.u": "1"}), step=0.1, until=1.0).plan
        known.add(fingerprint(plan.program, plan.scenario.units))
    assert len(known) == 5


def test_replaying_follows_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    class Counted(wrapped._Call):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looked_at
            looked_at += name == "before"
            return super().__getattribute__(name)

    monkeypatch.setattr(wrapped, "_Call", Counted)
    unit = wrapped.Replayed(PLANT).instantiate("m", 0.0)
    for k in range(100):
        point = unit.save()
        unit.set("u", (float(k),))
        unit.advance(0.1 * k, 0.1 * (k + 1), False)
    assert looked_at <= 200
    y = unit.get("y")
    unit.restore(point)
    unit.set("u", (99.0,))
    unit.advance(0.1 * 99, 0.1 * 100, False)
    assert unit.get("y") == y
