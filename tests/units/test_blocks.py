"""The block library, against closed forms and SciPy, on both engines."""

from __future__ import annotations

import contextlib
import inspect
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import upbeat as up
from upbeat.units.blocks import BLOCKS

ENGINES = ("interpret", "native")


def response(
    block: Any, u: str | list[str], *, step: float = 0.05, until: float = 2.0, **more: Any
) -> up.Trace:
    """A block driven by an expression in time, on both engines, which must agree to the bit."""
    source = up.Function(outputs={"u": u if isinstance(u, str) else list(u)})
    scenario = up.Scenario({"source": source, "block": block}, {"block.u": "source.u"})
    return both(scenario, step, until, **more)


def both(scenario: up.Scenario, step: Any, until: float, **more: Any) -> up.Trace:
    first, second = (up.simulate(scenario, pace=step, until=until, engine=name, **more) for name in ENGINES)
    for column in first.names:
        assert first[column].tolist() == second[column].tolist(), column
    return second


def test_blocks_without_memory() -> None:
    x = "4*time - 3"
    t = response(up.blocks.gain(2.5), x)
    u = 4 * t.time - 3
    assert t["block.y"] == pytest.approx(2.5 * u)
    assert response(up.blocks.saturation(-1, 2), x)["block.y"] == pytest.approx(np.clip(u, -1, 2))
    assert response(up.blocks.saturation(high=2), x)["block.y"] == pytest.approx(np.minimum(u, 2))
    assert response(up.blocks.dead_band(-1, 2), x)["block.y"] == pytest.approx(u - np.clip(u, -1, 2))
    points = ([-2, 0, 1, 3], [5, 1, 0, 4])
    assert response(up.blocks.lookup(*points), x)["block.y"] == pytest.approx(np.interp(u, *points))


def test_sums_and_tables_of_two_variables() -> None:
    source = up.Function(outputs={"a": "time", "b": "1 + 3*time"})
    units = {
        "s": source,
        "minus": up.blocks.sum("+-"),
        "named": up.blocks.sum({"a": 2, "b": -0.5}),
        "plane": up.blocks.lookup([0, 1], [0, 10], [[0, 10], [1, 11]]),
    }
    wires = {
        "minus.u1": "s.a",
        "minus.u2": "s.b",
        "named.a": "s.a",
        "named.b": "s.b",
        "plane.u": "s.a",
        "plane.v": "s.b",
    }
    t = both(up.Scenario(units, wires), 0.25, 1.0)
    a, b = t.time, 1 + 3 * t.time
    assert t["minus.y"] == pytest.approx(a - b)
    assert t["named.y"] == pytest.approx(2 * a - 0.5 * b)
    assert t["plane.y"] == pytest.approx(a + b)


@pytest.mark.parametrize("step", [0.01, 0.5])
def test_linear_blocks_follow_their_step_responses(step: float) -> None:
    """Also where the communication step is many times longer than the time constant."""
    lag = response(up.blocks.first_order(0.02, 3.0), "1", step=step)
    assert lag["block.y"] == pytest.approx(3 * (1 - np.exp(-lag.time / 0.02)), abs=1e-4)
    two = response(up.blocks.second_order(30.0, 0.2, 2.0), "1", step=step)
    w, z = 30.0, 0.2
    wd = w * math.sqrt(1 - z * z)
    t = two.time
    exact = 2 * (1 - np.exp(-z * w * t) * (np.cos(wd * t) + z * w / wd * np.sin(wd * t)))
    assert two["block.y"] == pytest.approx(exact, abs=2e-3)
    rate = response(up.blocks.derivative(0.05), "1", step=step)
    assert rate["block.y"] == pytest.approx(np.exp(-rate.time / 0.05) / 0.05, abs=2e-3)
    assert response(up.blocks.integrator(2.0, start=1.0), "3", step=step)["block.y"] == pytest.approx(
        1 + 6 * t
    )


POLES = st.complex_numbers(max_magnitude=5.0, min_magnitude=0.2, allow_nan=False, allow_infinity=False)


@settings(max_examples=15, deadline=None)
@given(
    poles=st.lists(POLES, min_size=1, max_size=2),
    zeros=st.lists(st.floats(-3, 3), min_size=0, max_size=2),
    k=st.floats(-2, 2),
)
def test_transfer_functions_are_those_of_scipy(poles: list[complex], zeros: list[float], k: float) -> None:
    pairs = [part for p in poles for part in (complex(-abs(p.real), p.imag), complex(-abs(p.real), -p.imag))]
    den = np.real(np.poly(pairs))
    num = (k if abs(k) > 0.01 else 1.0) * np.atleast_1d(np.poly(zeros))
    trace = response(up.blocks.transfer_function(num.tolist(), den.tolist()), "1", step=0.1)
    _, exact = signal.step((num, den), T=trace.time)
    assert trace["block.y"] == pytest.approx(exact, rel=1e-3, abs=1e-3 * max(1.0, abs(exact).max()))


def test_state_space_with_several_inputs_and_outputs() -> None:
    A, B = [[0.0, 1.0], [-4.0, -0.5]], [[0.0, 1.0], [1.0, 0.0]]
    C, D = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]]
    block = up.blocks.state_space(A, B, C, D, start=[1.0, 0.0])
    trace = response(block, ["1", "-0.5"], step=0.1)
    system = signal.StateSpace(A, B, C, D)
    u = np.tile([1.0, -0.5], (len(trace.time), 1))
    _, exact, _ = signal.lsim(system, u, trace.time, X0=[1.0, 0.0])
    for i in range(3):
        assert trace[f"block.y[{i}]"] == pytest.approx(exact[:, i], abs=1e-4)
    by_name = {port.name: port for port in block.ports}
    assert by_name["y"].depends == {"u"}  # through D
    no_d = up.blocks.state_space(A, [[0.0], [1.0]], [[1.0, 0.0]])
    assert {port.name: port.depends for port in no_d.ports}["y"] == frozenset()


def test_an_integrator_leaves_its_limit_at_once() -> None:
    """u = cos(t): y rises to the limit 0.5 at pi/6, stays until u turns at pi/2, and falls from there."""
    trace = response(up.blocks.integrator(high=0.5), "cos(time)", step=0.01, until=4.0, inputs="linear")
    t = trace.time
    exact = np.where(t < math.pi / 6, np.sin(t), np.where(t < math.pi / 2, 0.5, 0.5 - 1 + np.sin(t)))
    assert trace["block.y"] == pytest.approx(exact, abs=2e-3)


def test_rate_limiters() -> None:
    for block, error in (
        (up.blocks.rate_limiter(2, 1, tau=1e-3), 3e-3),
        (up.blocks.rate_limiter(2, 1, every=1e-2), 3e-2),
    ):
        trace = response(block, "1 if time < 1 else 0", step=0.01, until=2.5)
        t = trace.time
        exact = np.where(t < 1, np.minimum(2 * t, 1), np.maximum(1 - (t - 1), 0))
        assert trace["block.y"] == pytest.approx(exact, abs=error)


# -- controllers ---------------------------------------------------------------------------------------


def loop(control: Any, plant: Any, setpoint: str = "1") -> up.Scenario:
    return up.Scenario(
        {"r": up.Function(outputs={"y": setpoint}), "c": control, "plant": plant},
        {"c.setpoint": "r.y", "c.measured": "plant.y", "plant.u": "c.y"},
    )


def test_a_continuous_pi_loop_is_its_transfer_function() -> None:
    """kp = 3, ki = 4 around 1/(s + 1): closed loop (3 s + 4)/(s² + 4 s + 4)."""
    scenario = loop(up.blocks.pi(3.0, 4.0), up.blocks.first_order(1.0))
    trace = up.simulate(scenario.monolith(), pace=0.05, until=4.0)
    _, exact = signal.step(([3, 4], [1, 4, 4]), T=trace.time)
    assert trace["plant.y"] == pytest.approx(exact, abs=1e-5)


def test_a_filtered_pid_loop_is_its_transfer_function() -> None:
    kp, ki, kd, tf = 4.0, 2.0, 0.5, 0.05
    scenario = loop(up.blocks.pid(kp, ki, kd, filter=tf, c=1.0), up.blocks.second_order(1.0, 0.1))
    trace = up.simulate(scenario.monolith(), pace=0.02, until=4.0)
    c = np.polyadd(np.polyadd(np.array([kp * tf, kp, 0.0]), [ki * tf, ki]), [kd, 0, 0])
    below = np.polyadd(np.polymul([tf, 1, 0], [1, 0.2, 1]), c)
    _, exact = signal.step((c, below), T=trace.time)
    assert trace["plant.y"] == pytest.approx(exact, abs=1e-4)


def test_anti_windup_keeps_the_overshoot_small() -> None:
    """Behind a limit of 0.1 it is on its way for ten seconds; without tracking it goes far beyond."""
    plant = up.blocks.integrator()
    overshoots = []
    for limits in ({"low": -0.1, "high": 0.1}, {"low": -0.1, "high": 0.1, "tracking": 1e6}):
        trace = both(loop(up.blocks.pi(1.0, 0.5, **limits), plant), 0.05, 60.0)
        overshoots.append(trace["plant.y"].max() - 1)
        assert abs(trace["c.y"]).max() <= 0.1
    assert overshoots[0] < 0.15 < 0.5 < overshoots[1]


def textbook(
    kp: float, ki: float, kd: float, tf: float, h: float, r: float, y: list[float], cap: float
) -> list[float]:
    """The sampled controller, written down once more, independently."""
    integral, last, slope, out = 0.0, None, 0.0, []
    for measured in y:
        slope = 0.0 if last is None else (tf * slope + kd * (last - measured)) / (tf + h)
        last = measured
        v = kp * (r - measured) + integral + slope
        u = max(-cap, min(cap, v))
        integral += h * (ki * (r - measured) + (u - v) / (kp / ki))
        out.append(u)
    return out


@pytest.mark.parametrize("step", [0.1, 0.03, 0.025])
def test_a_sampled_pid_is_the_textbook_one_whatever_the_communication_step(step: float) -> None:
    control = up.blocks.pid(2.0, 1.0, 0.3, filter=0.05, low=-1.5, high=1.5, every=0.1)
    trace = both(loop(control, up.blocks.second_order(1.0, 0.3)), step, 5.0).one_sided()
    at = [int(np.searchsorted(trace.time, k * 0.1 - 1e-9)) for k in range(50)]
    measured = trace["plant.y"][at].tolist()
    expected = textbook(2.0, 1.0, 0.3, 0.05, 0.1, 1.0, measured, 1.5)
    assert trace["c.y"][at] == pytest.approx(expected, abs=1e-9)
    assert len({round(v, 12) for v in trace["c.y"].tolist()}) <= 52  # it changes at its samples only


# -- delays, switches and clocks -----------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.05, 0.04, 0.11])
def test_a_transport_delay_is_late_by_the_delay(step: float) -> None:
    trace = response(up.blocks.transport_delay(0.3, points=30, start=7.0), "sin(3*time)", step=step)
    late = trace.time >= 0.3 + 1e-9
    assert trace["block.y"][late] == pytest.approx(np.sin(3 * (trace.time[late] - 0.3)), abs=2e-4)
    assert (trace["block.y"][trace.time < 0.3 - 1e-9] == 7.0).all()


def test_a_pade_delay_is_late_for_slow_signals() -> None:
    trace = response(up.blocks.pade_delay(0.3, 3), "sin(time)", step=0.02, until=6.0, inputs="linear")
    late = trace.time > 3
    assert trace["block.y"][late] == pytest.approx(np.sin(trace.time[late] - 0.3), abs=2e-3)


def test_sample_and_hold() -> None:
    trace = response(up.blocks.sample_hold(0.5, start=-1.0), "time**2", step=0.1)
    assert trace["block.y"][0] == -1.0
    trace = trace.one_sided()
    assert trace["block.y"] == pytest.approx((0.5 * np.floor(trace.time / 0.5 + 1e-9)) ** 2)
    units = {
        "s": up.Function(outputs={"y": "time"}),
        "clock": up.Clock(0.7, offset=0.2),
        "hold": up.blocks.sample_hold(),
    }
    trace = both(up.Scenario(units, {"hold.u": "s.y", "hold.clock": "clock.tick"}), 0.1, 2.0).one_sided()
    ticks = np.array([0.2, 0.9, 1.6])
    expected = [max([0.0, *ticks[ticks <= t + 1e-9]]) for t in trace.time]
    assert trace["hold.y"] == pytest.approx(expected)


def test_a_relay_and_a_quantizer_have_hysteresis() -> None:
    trace = response(
        up.blocks.relay(0.5, -0.5, high=2.0, low=-1.0), "sin(3*time)", step=0.01, until=4.0
    ).one_sided()
    state, expected = False, []
    for u in np.sin(3 * trace.time):
        state = u > 0.5 or (state and not u < -0.5)
        expected.append(2.0 if state else -1.0)
    assert trace["block.y"].tolist() == expected
    trace = response(
        up.blocks.quantizer(0.5, hysteresis=0.25), "2*sin(time)", step=0.01, until=7.0
    ).one_sided()
    n, expected = 0, []
    for u in 2 * np.sin(trace.time):
        n = round(u / 0.5) if abs(u / 0.5 - n) > 0.75 else n
        expected.append(0.5 * n)
    assert trace["block.y"].tolist() == expected


def test_noise_is_normal_and_the_same_for_the_same_seed() -> None:
    first, again, other = (
        response(up.blocks.noise(2.0, 0.01, seed=seed), "10", step=0.01, until=20.0).one_sided()["block.y"]
        for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()
    for drawn in (first, other):
        assert drawn.mean() == pytest.approx(10.0, abs=0.15)
        assert drawn.std() == pytest.approx(2.0, abs=0.1)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.07
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.07


# -- as models -----------------------------------------------------------------------------------------

EXAMPLES: dict[str, dict[str, Any]] = {
    "gain": {"k": 2.0},
    "sum": {"of": "+-"},
    "saturation": {"low": -1.0},
    "dead_band": {"low": -1.0, "high": 1.0},
    "lookup": {"x": [0, 1], "y": [2, 3]},
    "integrator": {"high": 2.0},
    "first_order": {"tau": 0.5},
    "second_order": {"frequency": 2.0, "damping": 0.5},
    "transfer_function": {"num": [1], "den": [1, 2]},
    "state_space": {"A": [[-1.0]], "B": [[1.0]], "C": [[1.0]]},
    "derivative": {"tau": 0.1},
    "rate_limiter": {"rise": 1.0, "every": 0.1},
    "pi": {"kp": 1.0, "ki": 2.0, "every": 0.1},
    "pid": {"kp": 1.0, "ki": 2.0, "kd": 0.1, "every": 0.1},
    "transport_delay": {"delay": 0.2, "points": 4},
    "pade_delay": {"delay": 0.2},
    "sample_hold": {"every": 0.1},
    "relay": {"above": 1.0, "below": 0.0},
    "quantizer": {"step": 0.1},
    "noise": {"amplitude": 1.0, "every": 0.1, "seed": 3},
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_blocks_are_kinds_of_files_and_are_written_and_pickled(kind: str, tmp_path: Path) -> None:
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in EXAMPLES[kind].items()]
    text = "\n".join([f'[units.b]\nkind = "{kind}"', *lines, "[master]\nstep = 0.1\n[run]\nuntil = 1.0"])
    (tmp_path / "one.toml").write_text(text)
    experiment = up.load(tmp_path / "one.toml")
    model = experiment.scenario.units["b"]
    assert model == BLOCKS[kind](**EXAMPLES[kind])
    assert pickle.loads(pickle.dumps(model)) == model
    up.write_scenario(experiment, tmp_path / "two.toml")
    assert up.load(tmp_path / "two.toml").scenario.units["b"] == model


def test_every_block_has_an_example() -> None:
    assert EXAMPLES.keys() == BLOCKS.keys()


def test_parameters_can_be_changed() -> None:
    sampled = up.blocks.pid(1.0, 2.0, every=0.1).with_values({"kp": 5.0})
    assert sampled == up.blocks.pid(5.0, 2.0, every=0.1)
    delay = up.blocks.transport_delay(0.2, points=4).with_values({"delay": 0.4})
    assert delay == up.blocks.transport_delay(0.4, points=4)


@pytest.mark.parametrize(
    "late",
    [lambda t: up.blocks.pade_delay(t, 4), lambda t: up.blocks.transport_delay(t, points=10, hold=True)],
)
def test_blocks_are_linearised(late: Any) -> None:
    """A delay in the loop decides: a loop of gain 2 and an integrator bears one of pi/4 at most."""
    verdicts = []
    for delay in (0.5, 1.0):
        units = {"plant": up.blocks.integrator(-2.0, start=1.0), "late": late(delay)}
        scenario = up.Scenario(units, {"plant.u": "late.y", "late.u": "plant.y"})
        verdicts.append(up.stability_of(scenario, step=0.05, scan=False).verdict)
    assert verdicts == ["stable", "unstable"]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: up.blocks.first_order(0.0), "tau must be more than 0"),
        (lambda: up.blocks.first_order(float("nan")), "tau must be a finite number"),
        (lambda: up.blocks.gain("2"), "k must be a finite number"),  # type: ignore[arg-type]
        (lambda: up.blocks.transfer_function([1, 0], [2]), "improper"),
        (lambda: up.blocks.transfer_function([1], [0, 0]), "the denominator is 0"),
        (lambda: up.blocks.transfer_function([], [1]), "num must be a list of numbers"),
        (lambda: up.blocks.state_space([[1, 2]], [[1]], [[1]]), "must be square"),
        (lambda: up.blocks.state_space([[1]], [[1], [2]], [[1]]), "B is 2 × 1"),
        (lambda: up.blocks.lookup([], []), "x"),
        (lambda: up.blocks.saturation(2, 1), "low must be less than high"),
        (up.blocks.saturation, "give low, high or both"),
        (lambda: up.blocks.sum("+x"), "say which inputs"),
        (lambda: up.blocks.sum({"y": 1}), "'y' is the output"),
        (lambda: up.blocks.pid(1.0, kd=1.0), "needs a filter"),
        (lambda: up.blocks.rate_limiter(1.0), "give tau"),
        (lambda: up.blocks.relay(0.0, 1.0), "below must not be more than above"),
        (lambda: up.blocks.transport_delay(1.0, points=0), "whole number from 1 to 1000"),
        (lambda: up.blocks.gain(1.0, units={"v": "m"}), "there is no port 'v'"),
        (lambda: up.blocks.gain(1.0, units={"u": "foo"}), "foo"),
    ],
)
def test_what_cannot_be_is_said(make: Any, what: str) -> None:
    with pytest.raises(up.ModelError, match=what):
        make()


def test_files_say_near_names_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        '[units.a]\nkind = "pdi"\n[units.b]\nkind = "first_order"\nta = 1.0\n[units.c]\nkind = "pid"\n'
    )
    with pytest.raises(up.ScenarioError) as error:
        up.load(file)
    text = str(error.value)
    assert "'pid'" in text or "pid" in text
    assert "tau" in text
    assert "kp = 1.0" in text


WRONG = (
    None,
    object(),
    "x",
    b"x",
    [],
    [None],
    {1: 2},
    True,
    -1,
    10**400,
    math.nan,
    math.inf,
    np.ones((2, 2)),
)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_wrong_arguments(kind: str) -> None:
    """One argument at a time, whatever it is: it is taken, or refused by an error of Upbeat."""
    for argument in inspect.signature(BLOCKS[kind]).parameters:
        for wrong in WRONG:
            with contextlib.suppress(up.UpbeatError):
                BLOCKS[kind](**{**EXAMPLES[kind], argument: wrong})


@pytest.mark.parametrize("engine", ENGINES)
def test_the_step_of_the_solver_follows_the_values(engine: Any, tmp_path: Path) -> None:
    """A block that was made slow and is told to be quick: its solver took steps a hundred times too long."""
    units = {"s": up.Function(outputs={"y": "1"}), "f": up.blocks.first_order(1.0)}
    scenario = up.Scenario(units, {"f.u": "s.y"})
    slow = up.experiment(scenario, step=0.1, until=1.0, engine=engine)
    up.write_scenario(slow, tmp_path / "a.toml")
    quick = {"f.tau": 0.01}
    for made in (
        slow.with_values(quick),
        up.experiment(scenario.with_values(quick), step=0.1, until=1.0, engine=engine),
        up.load(tmp_path / "a.toml", values=quick, engine=engine),
    ):
        t = made.run()
        assert t["f.y"] == pytest.approx(1 - np.exp(-t.time / 0.01), abs=1e-4)
    m = up.adapted(units["s"], "low_pass 1 on y")
    slow = up.experiment(up.Scenario({"m": m}), step=0.1, until=1.0, engine=engine)
    assert slow.with_values({"m.low_pass_y.tau": 0.01}).run()["m.y"][-1] == pytest.approx(1.0)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_step_of_a_transfer_function_follows_its_poles(order: int) -> None:
    drawn = np.random.default_rng(order)
    for _ in range(20):
        slow, quick = (
            np.poly(-drawn.uniform(0.5, 2.0, order) * by) for by in (1.0, drawn.choice([1e-2, 1e3]))
        )
        block = up.blocks.transfer_function([1.0], slow.tolist())
        for made, den in ((block, slow), (block.with_values({"den": quick.tolist()}), quick)):
            exact = 0.25 / abs(np.roots(den)).max()
            assert exact / (2 * order + 0.01) <= made.solver.step <= exact * 1.001
    poles = -np.array([300.0, 400.0, 500.0, 600.0, 700.0][:order])
    block = block.with_values({"den": np.poly(poles).tolist(), "num": [abs(np.prod(poles))]})
    t = response(block, "1", step=0.1, until=0.5)
    assert t["block.y"][1:] == pytest.approx(np.ones(len(t.time) - 1), abs=1e-3)


def test_a_step_by_a_formula_says_what_is_wrong() -> None:
    lag = {"states": {"x": "-x/tau"}, "parameters": {"tau": 1.0}}
    with pytest.raises(up.ModelError, match=r"step = 'tua/4': 'tua' has no value. Did you mean 'tau'"):
        up.Ode(**lag, solver={"kind": "rk4", "step": "tua/4"})
    with pytest.raises(up.ModelError, match=r"must be positive; it is -0.25 with tau = -1"):
        up.Ode(**lag, solver={"kind": "rk4", "step": "tau/4"}).with_values({"tau": -1.0})
    scenario = up.Scenario({"f": up.blocks.first_order(1.0)})
    with up.start(scenario, step=0.1, until=1.0) as run:
        with pytest.raises(up.InvalidInput, match="the step of the solver follows from it"):
            run.set("f.tau", 0.01)
        run.set("f.k", 2.0)


def test_a_derivative_that_is_told_where_it_begins_starts_without_a_kick() -> None:
    still = up.blocks.pid(1.0, 0.0, 1.0, filter=0.01).with_values({"seen": -20.0})
    t = both(up.Scenario({"c": still}, {"c.setpoint": "20", "c.measured": "20"}), 0.05, 0.2)
    assert t["c.y"] == pytest.approx(np.zeros(5))
    t = both(up.Scenario({"d": up.blocks.derivative(0.01, start=20.0)}, {"d.u": "20"}), 0.05, 0.2)
    assert t["d.y"] == pytest.approx(np.zeros(5))
