"""What is said about results, against closed forms; and what is never said."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.judging.comparing import UNCHANGED, Change, Trial, Trials, compare
from upbeat.judging.trust import _horizon
from upbeat.report.trust import describe

FALL = up.Ode({"x": "-u"}, inputs=["u"], start={"x": 1.0}, solver=up.DormandPrince(rtol=1e-10, atol=1e-12))
DECAY = up.Scenario(
    {"tank": FALL, "valve": up.Function(inputs=["x"], outputs={"u": "2*x"})},
    {"tank.u": "valve.u", "valve.x": "tank.x"},
)
"""x' = -2x, with an input that is held: exp(-2t) becomes (1 - 2H)^k."""


@pytest.mark.parametrize("step", [0.1, 0.02, 0.004])
def test_an_error_of_first_order_is_estimated_and_judged(step: float) -> None:
    found = up.trust(DECAY, step=step, until=2.0)
    signal = found["tank.x"]
    k = np.arange(round(2.0 / step) + 1)
    true = np.abs((1.0 - 2.0 * step) ** k - np.exp(-2.0 * step * k)).max()
    assert signal.error == pytest.approx(true, rel=0.05)
    assert signal.order == pytest.approx(1.0, abs=0.15)
    assert signal.coupling > 100 * signal.solver
    right = true / signal.scale <= 0.01
    assert signal.verdict in ("undecided", "good" if right else "not good")
    assert len(signal.band) == len(signal.time)
    assert found.repeats
    assert found.stability is not None
    assert found.stability.verdict == "stable"


def test_solvers_have_their_own_part() -> None:
    coarse = up.Ode({"x": "-x"}, start={"x": 1.0}, solver=up.Euler(step=0.02))
    found = up.trust(up.Scenario({"tank": coarse}), step=0.2, until=2.0)["tank.x"]
    true = abs(0.98**50 - np.exp(-1.0)) / found.scale  # 0.43 %
    assert found.relative == pytest.approx(true, rel=0.05)  # not three quarters of it
    assert found.solver == pytest.approx(found.error, rel=0.01)
    assert found.coupling < 1e-10


def test_solvers_of_nested_units_are_seen_like_others() -> None:
    coarse = up.Ode({"x": "-x"}, start={"x": 1.0}, solver=up.Euler(step=0.02))
    inner = up.Scenario({"tank": coarse}, outputs={"x": "tank.x"})
    nested = up.Nested(inner, up.Master(up.Fixed(0.2)), flatten=False)
    found = up.trust(up.Scenario({"plant": nested}), step=0.2, until=2.0)
    signal = found["plant.x"]
    assert signal.error == pytest.approx(abs(0.98**50 - np.exp(-1.0)), rel=0.05)
    assert signal.solver == pytest.approx(signal.error, rel=0.01)
    assert not any("make inside themselves" in note for note in found.notes)


def test_an_error_of_solvers_alone_is_judged_without_an_order() -> None:
    """A sampled controller: steps of any size give the same up to the unit's solver, which is coarse."""
    period, gain = 0.4, 1.5
    plant = up.Ode({"x": "u - 2*x"}, inputs=["u"], start={"x": 1.0}, solver=up.RK4())
    control = up.StateMachine(
        inputs={"seen": {"event": True, "kind": "real"}},
        variables={"u": 0.0},
        outputs={"u": "u"},
        initial="on",
        states=["on"],
        transitions=[{"from": "on", "on": "seen", "do": {"u": f"-{gain}*seen"}}],
    )
    units = {"plant": plant, "sample": up.Sampler(period), "control": control}
    links = {"sample.signal": "plant.x", "control.seen": "sample.event", "plant.u": "control.u"}
    found = up.trust(up.Scenario(units, links), step=period, until=3.2)
    trace, x, true = found.trace, 1.0, [1.0]
    assert trace is not None
    for _ in range(8):
        x = -gain * x / 2 + (x + gain * x / 2) * np.exp(-2 * period)
        true.append(x)
    error = max(abs(trace.at(k * period)["plant.x"] - x) for k, x in enumerate(true))
    signal = found["plant.x"]
    assert signal.error == pytest.approx(error, rel=0.05)
    assert signal.coupling < 0.05 * signal.solver
    assert (error / signal.scale < 0.005, signal.verdict) == (True, "good")


def test_a_jump_inside_a_unit_that_comes_a_hair_later_is_no_error() -> None:
    """A step ends at the event, and the only row of that time is before it in one run and after it in the
    other: that is no error of the whole jump."""
    mass = up.Ode(
        {"x": "v", "v": "u - 16*x - 0.1*v"},
        inputs=["u"],
        start={"x": 1.0},
        events={"hit": {"when": "x <= 0.1 and v < 0", "then": {"v": "-0.9*v"}}},
        solver=up.RK4(4),
    )
    follower = up.Ode({"y": "2*(u - y)"}, inputs=["u"])
    links = {"mass.u": "follower.y", "follower.u": "mass.x"}
    found = up.trust(up.Scenario({"mass": mass, "follower": follower}, links), step=0.12, until=6.0)
    assert found["mass.v"].relative < 1e-3  # it was 89 %
    assert {signal.verdict for signal in found.signals.values()} <= {"good", "undecided"}


def test_a_relay_that_chatters_is_not_chaos() -> None:
    tank = up.Ode({"x": "u + 0.3*cos(time)"}, inputs=["u"], start={"x": 1.0})
    relay = up.Function(inputs=["x"], outputs={"u": "-sign(x)"})
    scenario = up.Scenario({"tank": tank, "relay": relay}, {"tank.u": "relay.u", "relay.x": "tank.x"})
    found = up.trust(scenario, step=0.1, until=5.0)
    assert found["tank.x"].verdict == "not good"  # it stays within 0.13 of zero, and not within 0.01
    assert found.horizon is None


def test_what_keeps_time_with_the_steps_is_not_good() -> None:
    """Pulses that steps of H, H/2, H/4 and H/8 see in the same way: none of them is right."""
    pulses = up.Function(outputs={"P": "1 if mod(time, 0.01) < 0.003 else 0"})
    room = up.Ode({"T": "P - T"}, inputs=["P"])
    scenario = up.Scenario({"pulses": pulses, "room": room}, {"room.P": "pulses.P"})
    found = up.trust(scenario, step=0.08, until=2.0)
    assert found["room.T"].verdict != "good"
    assert any(one.aliased for one in found.inputs)
    assert found.verdict != "good"


class Noise:
    """Somebody who throws dice."""

    def __init__(self, *_: Any) -> None:
        self.y = 0.0

    def get(self, port: str) -> float:
        return self.y

    def advance(self, t: float, to: float, early: bool) -> float:
        self.y = random.random()
        return to


def test_a_unit_that_is_not_deterministic_is_found() -> None:
    noise = up.PythonUnit(Noise, outputs=["y"], sample_time=0.1)
    room = up.Ode({"T": "P - T"}, inputs=["P"])
    found = up.trust(up.Scenario({"noise": noise, "room": room}, {"room.P": "noise.y"}), step=0.1, until=1.0)
    assert found.repeats is False
    assert {signal.verdict for signal in found.signals.values()} == {"undecided"}
    assert any("the same run again" in note for note in found.notes)
    assert found.stability is not None
    assert found.stability.verdict != "stable"


def test_the_output_of_a_sampled_controller_is_compared_though_it_jumps_at_each_sample() -> None:
    """Random numbers at each sample are not good, and a gain is as far off as the state that it follows."""

    class Dice:
        def __init__(self, name: str, start: float, parameters: Any) -> None:
            self.u = 0.0

        def get(self, port: str) -> float:
            return self.u

        def set(self, port: str, coefficients: Any) -> None:
            pass

        def advance(self, t: float, to: float, early: bool) -> float:
            self.u = random.random()
            return to

    class Gain(Dice):
        def set(self, port: str, coefficients: Any) -> None:
            self.x = coefficients[0]

        def advance(self, t: float, to: float, early: bool) -> float:
            self.u = -self.x
            return to

    def judged(controller: Any) -> up.Trust:
        control = up.PythonUnit(controller, inputs=["x"], outputs={"u": {"depends": []}}, sample_time=0.1)
        plant = up.Ode({"x": "u - x"}, inputs=["u"], start={"x": 1.0}, solver=up.Euler())
        scenario = up.Scenario(
            {"control": control, "plant": plant}, {"control.x": "plant.x", "plant.u": "control.u"}
        )
        return up.trust(scenario, step=0.05, until=2.0)

    assert judged(Dice)["control.u"].verdict == "undecided"
    found = judged(Gain)
    assert found["control.u"].error == pytest.approx(found["plant.x"].error, rel=0.3)
    assert found["control.u"].error > 1e-3


def test_a_controller_without_a_rate_is_another_one_with_other_steps() -> None:
    class Gain:
        def __init__(self, *_: Any) -> None:
            self.u = 0.0

        def get(self, port: str) -> float:
            return -self.u

        def set(self, port: str, coefficients: Any) -> None:
            self.u = coefficients[0]

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    gain = up.PythonUnit(Gain, inputs={"u": 0.0}, outputs={"y": {"depends": []}})
    room = up.Ode({"T": "P"}, inputs=["P"], start={"T": 1.0})
    links = {"room.P": "gain.y", "gain.u": "room.T"}
    found = up.trust(up.Scenario({"gain": gain, "room": room}, links), step=0.1, until=1.0)
    assert found.verdict == "undecided"
    assert "sample_time" in found.reason


def test_a_run_changed_by_hand_cannot_be_repeated() -> None:
    push = up.Scenario({"tank": FALL}, {"tank.u": "push"}, inputs={"push": 0.5})
    with up.start(push, step=0.1, until=1.0) as run:
        run.step()
        run.set("push", 1.0)
        trace = run.finish()
    found = trace.trust()
    assert found.verdict == "undecided"
    assert any("by hand" in note for note in found.notes)
    with pytest.raises(up.InvalidInput, match="upbeat trust FILE"):
        up.Trace.from_arrays([0.0, 1.0], {"y": [0.0, 1.0]}).trust()
    assert up.simulate(push, step=0.1, until=1.0).trust().verdict == "good"


def test_what_should_not_change_is_judged_by_its_size_and_what_should_be_zero_not_at_all() -> None:
    """The energy of an oscillator has no range but its error, and with half the step a quarter of that."""
    scenario = up.Scenario(
        {
            "mass": up.Ode({"x": "v", "v": "F"}, inputs=["F"], start={"x": 1.0}),
            "spring": up.Function(inputs=["x"], outputs={"F": "-25*x"}),
            "meter": up.Function(
                inputs=["x", "v"],
                locals={"energy": "0.5*v*v + 12.5*x*x"},
                outputs={"E": "energy", "lost": "12.5 - energy"},
            ),
        },
        {"mass.F": "spring.F", "spring.x": "mass.x", "meter.x": "mass.x", "meter.v": "mass.v"},
    )
    found = up.trust(scenario, step=0.002, until=10.0, inputs="linear")
    assert found.trace is not None
    true = np.abs(found.trace["meter.E"] - 12.5).max()
    assert found["meter.E"].verdict == "good"
    assert found["meter.E"].error == pytest.approx(true, rel=0.05)
    assert found["meter.E"].scale == pytest.approx(12.5, rel=1e-3)
    assert found["meter.lost"].verdict == "undecided"
    assert "zero but for errors" in found["meter.lost"].reason
    exact = up.Ode({"a": "-a", "b": "a"}, start={"a": 3.0, "b": 2.0})  # the sum moves by rounding only
    total = up.Function(inputs=["a", "b"], outputs={"sum": "a + b"})
    sums = up.Scenario({"tanks": exact, "total": total}, {"total.a": "tanks.a", "total.b": "tanks.b"})
    assert up.trust(sums, step=0.001, until=2.0)["total.sum"].verdict == "good"


def test_nothing_is_good_without_steps_that_fall_in_with_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pulse in every eighth of a step looks the same with H, H/2, H/4 and H/8."""
    cost = Trials.cost
    monkeypatch.setattr(Trials, "cost", lambda self, by: np.inf if 0.3 < by.step < 0.4 else cost(self, by))
    found = up.trust(DECAY, step=0.004, until=2.0)
    signal = found["tank.x"]
    assert signal.relative < 0.005  # which is good with them
    assert signal.verdict == "undecided"
    assert "keeps time with the steps" in signal.reason


def test_inputs_of_another_order_have_to_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Trials.run

    def other(self: Trials, change: Change = UNCHANGED) -> Trial:
        coarse = replace(change, step=50.0) if change.inputs is not None else change
        return replace(run(self, coarse), change=change)

    monkeypatch.setattr(Trials, "run", other)  # as if they gave what they give with steps of 0.2: 5 % off
    signal = up.trust(DECAY, step=0.004, until=2.0)["tank.x"]
    assert signal.verdict == "undecided"
    assert "Linear(), finer solvers differs by" in signal.reason


def test_steps_longer_than_the_run_are_compared_with_parts_of_the_run() -> None:
    found = up.trust(DECAY, step=100.0, until=0.1)["tank.x"]
    assert found.error == pytest.approx(np.exp(-0.2) - 0.8, rel=0.05)
    assert found.order == pytest.approx(1.0, abs=0.15)


def test_after_ctrl_c_what_is_known_is_said() -> None:
    def until(change: str) -> Callable[[str], None]:
        def progress(text: str) -> None:
            if text.startswith(change):
                raise KeyboardInterrupt

        return progress

    found = up.trust(DECAY, step=0.1, until=2.0, progress=until("steps / 8"))
    signal = found["tank.x"]
    k = np.arange(21)
    assert signal.error == pytest.approx(np.abs(0.8**k - np.exp(-0.2 * k)).max(), rel=0.05)
    assert signal.verdict == "not good"
    assert found.interrupted
    assert found.runs[-1].failure == "not run: interrupted"
    assert not up.trust(DECAY, step=0.02, until=2.0).interrupted
    with pytest.raises(KeyboardInterrupt):
        up.trust(DECAY, step=0.02, until=2.0, progress=until("as it is"))


def test_a_budget_is_kept_and_told() -> None:
    found = up.trust(DECAY, step=0.1, until=2.0, seconds=0.0)
    assert found.verdict == "undecided"
    assert any("not run" in run.failure for run in found.runs)


def bouncing(pace: Any) -> up.Experiment:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    hit = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
    return up.experiment(up.Scenario({"ball": ball}, events={"hit": hit}), pace=pace, until=2.0)


def test_events_late_missed_and_met() -> None:
    late = up.trust(bouncing(up.Fixed(0.05)))
    assert late.verdict != "good"
    assert late.events[0].verdict == "not good"
    assert late.events[0].shift > 0.01
    met = up.trust(bouncing(up.LookAhead(0.05)))
    assert met.events[0].verdict == "good"
    assert met.events[0].predicted == met.events[0].count == 3
    assert {signal.verdict for signal in met.signals.values()} == {"good"}


def test_what_lies_between_late_events_is_not_called_good() -> None:
    """A square wave that is late by more than the tolerance agrees wherever it can be compared."""
    ramp = up.Ode({"x": "1 + 0*u"}, inputs=["u"])
    relay = up.Ode({"q": "0"}, start={"q": 0.0})
    switch = {"when": "ramp.x >= 0.505", "then": {"relay.q": "1"}}
    scenario = up.Scenario({"ramp": ramp, "relay": relay}, {"ramp.u": "relay.q"}, events={"on": switch})
    found = up.trust(scenario, pace=up.Fixed(0.2), until=1.0)
    assert found["relay.q"].verdict != "good"
    assert found.events[0].verdict == "not good"


def test_energy_of_a_bond_that_units_of_measure_show() -> None:
    """A mass on a spring: with held inputs the coupling creates energy, as each unit sees the other late."""
    mass = up.Ode(
        {"v": "F"},
        inputs={"F": {"unit": "N"}},
        outputs={"v": {"value": "v", "unit": "m/s"}},
        start={"v": 1.0},
    )
    spring = up.Ode({"s": "v"}, inputs={"v": {"unit": "m/s"}}, outputs={"F": {"value": "-s", "unit": "N"}})
    scenario = up.Scenario({"mass": mass, "spring": spring}, {"mass.F": "spring.F", "spring.v": "mass.v"})
    found = up.trust(scenario, step=0.05, until=6.0)
    (bond,) = found.energy
    assert bond.recognised
    trace = found.trace
    assert trace is not None
    gained = 0.5 * (trace["mass.v"][-1] ** 2 + trace["spring.F"][-1] ** 2) - 0.5
    assert gained > 0.1
    assert bond.created == pytest.approx(gained, rel=0.05)
    assert len(bond.residual) == len(bond.time)
    declared = up.trust(scenario, step=0.05, until=0.5, bonds=[("mass.v", "spring.F")]).energy
    assert not declared[0].recognised
    for coupling in (up.Jacobi(), up.GaussSeidel(("mass", "spring")), up.GaussSeidel(("spring", "mass"))):
        for inputs in (up.Hold(), up.Linear()):
            found = up.trust(scenario, step=0.05, until=6.0, coupling=coupling, inputs=inputs, seconds=0)
            trace = found.trace
            assert trace is not None
            gained = 0.5 * (trace["mass.v"][-1] ** 2 + trace["spring.F"][-1] ** 2) - 0.5
            assert found.energy[0].created == pytest.approx(gained, rel=0.1, abs=1e-4)
    with pytest.raises(up.InvalidInput, match="no output that an input takes"):
        up.trust(scenario, step=0.05, until=0.5, bonds=[("mass.v", "spring.x")])


def test_a_horizon_is_for_chaos_only() -> None:
    t = np.linspace(0.0, 20.0, 401)
    good = np.ones(len(t), dtype=bool)
    chaos = [np.minimum(1e-4 * 0.5**k * np.exp(1.2 * t), 0.6) for k in range(3)]
    signal = np.sin(6.0 * t)
    found = _horizon(t, signal, chaos, good, 1.0)
    assert found == pytest.approx(np.log(1e3) / 1.2, abs=0.1)
    phase = [0.02 * 0.5**k * t for k in range(3)]  # a frequency that is a little wrong
    assert _horizon(t, signal, phase, good, 1.0) is None
    switch = [np.where(t > 5.0 + 0.1 * k, 1.0, 0.0) for k in range(3)]
    assert _horizon(t, signal, switch, good, 1.0) is None
    unstable = [1e-3 * np.exp(2.0 * t), 1e-4 * np.exp(t), 1e-5 * np.ones(len(t))]
    assert _horizon(t, signal, unstable, good, 1.0) is None


def test_an_oscillator_that_is_steep_at_times_and_drifts_is_not_chaos() -> None:
    """Van der Pol's: its phase is wrong by an amount in every turn, and differences are as large as they get
    wherever it is steep."""
    slow = up.Ode({"x": "v"}, inputs=["v"], start={"x": 2.0})
    steep = up.Ode({"v": "20*(1 - x**2)*v - x"}, inputs=["x"], solver=up.RK4(steps=4))
    scenario = up.Scenario({"p": slow, "q": steep}, {"p.v": "q.v", "q.x": "p.x"})
    found = up.trust(scenario, step=0.01, until=60.0)
    assert found.horizon is None
    assert found.verdict != "good"


PULSE = up.Function(outputs={"P": "1e4 if 3.33 <= time < 3.3301 else 0"})
SPIKE = up.Function(
    outputs={"P": "spike(time)"},
    tables={"spike": {"x": [0.0, 3.329, 3.33, 3.3301, 3.3302, 5.0], "y": [0.0, 0.0, 0.0, 1e4, 0.0, 0.0]}},
)


BELL = up.Function(outputs={"P": "1e4/sqrt(pi)*exp(-((time - 3.33)/1e-4)**2)"})


@pytest.mark.parametrize("heater", [PULSE, SPIKE, BELL])
def test_a_pulse_that_falls_between_all_steps_is_seen(heater: up.Function) -> None:
    """Every run on a grid goes over it, and all agree; the room is warmer by 1 in truth."""
    room = up.Ode({"T": "P - 0.5*T"}, inputs=["P"], start={"T": 1.0})
    scenario = up.Scenario({"heater": heater, "room": room}, {"room.P": "heater.P"})
    found = up.trust(scenario, step=0.1, until=6.0)["room.T"]
    assert found.verdict == "not good"
    assert found.error == pytest.approx(np.exp(-0.5 * (3.4 - 3.33)), rel=0.02)


def test_a_spike_of_an_input_that_falls_between_all_steps_is_seen() -> None:
    room = up.Ode({"T": "P - 0.5*T"}, inputs=["P"], start={"T": 1.0})
    scenario = up.Scenario({"room": room}, {"room.P": "heat"}, inputs=["heat"])
    spike = up.Signals([0.0, 3.33, 3.3301, 3.3302, 6.0], {"heat": [0.0, 0.0, 1e4, 0.0, 0.0]})
    found = up.trust(scenario, step=0.1, until=6.0, signals=spike)["room.T"]
    assert found.verdict == "not good"
    smooth = up.Signals([0.0, 3.33, 3.3301, 3.3302, 6.0], {"heat": [0.0, 0.0, 0.0, 0.0, 0.0]})
    assert up.trust(scenario, step=0.1, until=6.0, signals=smooth)["room.T"].verdict == "good"


def test_an_event_whose_condition_holds_between_all_steps_is_missed() -> None:
    clock = up.Ode({"x": "1"})
    tank = up.Ode({"y": "-y"}, start={"y": 1.0})
    hit = {"when": "(clock.x - 3.0137)**2 <= 1e-8", "then": {"tank.y": "tank.y + 1"}}
    scenario = up.Scenario({"clock": clock, "tank": tank}, events={"hit": hit})
    found = up.trust(scenario, step=0.1, until=5.0, events="off")
    (event,) = found.events
    assert (event.verdict, event.count) == ("not good", 0)
    assert event.missed == pytest.approx((3.0136,), abs=1e-5)
    assert found["tank.y"].verdict == "not good"


def test_cells_of_arrays_are_signals() -> None:
    """x' = -x + y and y' = -3y, twice, with held inputs."""
    one = up.Ode({"x": ["-x[0] + u[0]", "-x[1] + u[1]"]}, inputs={"u": {"size": 2}}, start={"x": [1.0, 2.0]})
    two = up.Ode({"y": ["-3*y[0]", "-3*y[1]"]}, start={"y": [1.0, 0.0]})
    found = up.trust(up.Scenario({"one": one, "two": two}, {"one.u": "two.y"}), step=0.1, until=2.0)
    exact = 1.5 * np.exp(-found.trace.time) - 0.5 * np.exp(-3 * found.trace.time)
    true = float(np.abs(found.trace["one.x[0]"] - exact).max())
    assert found["one.x[0]"].error == pytest.approx(true, rel=0.05)
    assert found["one.x[1]"].verdict == "good"
    assert "one.u[0]" in [one.name for one in found.inputs]


def test_steps_that_samples_cut_are_halved_all_the_same() -> None:
    """x' = -x, sampled every 0.05 s while the usual step is 0.2 s: with the half of it nothing changes."""
    units = {"tank": FALL, "look": up.blocks.sample_hold(0.05)}
    scenario = up.Scenario(units, {"look.u": "tank.x", "tank.u": "look.y"})
    found = up.trust(scenario, step=0.2, until=2.0)
    assert found.verdict == "good"
    assert abs(found.trace["tank.x"][-1] - 0.95**40) < 1e-6


def test_the_verdict_on_stability_takes_no_longer_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delay line keeps so many numbers that to try out each of them takes many minutes."""
    monkeypatch.setattr("upbeat.judging.trust.LOOK", 0.2)
    units = {"tank": FALL, "pipe": up.blocks.transport_delay(delay=1.0, points=400)}
    scenario = up.Scenario(units, {"pipe.u": "tank.x", "tank.u": "pipe.y"})
    found = up.trust(scenario, step=0.05, until=0.2, seconds=1.0)
    assert found.stability is not None
    assert found.stability.reason == "undecided, because it takes longer than there is time for"


def test_the_command(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "decay.toml"
    file.write_text(
        '[units.tank]\nkind = "ode"\ninputs = ["u"]\nstart = { x = 1.0 }\nstates = { x = "-u" }\n'
        '[units.valve]\nkind = "function"\ninputs = ["x"]\noutputs = { u = "2*x" }\n'
        '[connections]\n"tank.u" = "valve.u"\n"valve.x" = "tank.x"\n'
        "[master]\nstep = 0.05\n[run]\nuntil = 1.0\n"
    )
    assert main(["trust", str(file), "--quiet"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("NOT GOOD: ")
    assert "tank.x" in text.splitlines()[4]
    assert main(["trust", str(file), "--json", "--tolerance", "0.2"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "good"
    assert {one["name"] for one in data["signals"]} == {"tank.x", "valve.u"}
    assert main(["run", str(file), "--json", "--trust", "0.2"]) == 0
    assert json.loads(capsys.readouterr().out)["trust"]["verdict"] == "good"
    assert main(["trust", str(file), "--bond", "tank.x"]) == 3


def test_a_result_is_no_scenario(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.parquet").write_bytes(b"PAR1\xff")
    for command in ("trust", "step"):
        assert main([command, str(tmp_path / "run.parquet")]) == 3
        assert "is a result: give the scenario file" in capsys.readouterr().err


def test_what_it_says_is_text_and_data() -> None:
    found = up.trust(DECAY, step=0.1, until=1.0)
    assert str(found).startswith("Not good: ")
    assert describe(found).splitlines()[0].startswith("NOT GOOD")
    json.dumps(found.as_json(), allow_nan=False)
    for wrong in ({"tolerance": 0.0}, {"tolerance": "1 %"}, {"seconds": -1}, {"progress": 3}):
        with pytest.raises(up.InvalidInput):
            up.trust(DECAY, step=0.1, until=1.0, **wrong)  # type: ignore[arg-type]


def test_where_time_is_short_longer_steps_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing may take twice as long as the run itself, steps of 2H, H and H/2 have to do."""
    plain = up.Scenario(
        {
            "tank": up.PythonOde(lambda t, x, u, p: [-u.u], states={"x": 1.0}, inputs=["u"], outputs=["x"]),
            "valve": up.Function(inputs=["x"], outputs={"u": "2*x"}),
        },
        {"tank.u": "valve.u", "valve.x": "tank.x"},
    )
    monkeypatch.setattr(Trials, "left", property(lambda self: 2.0))
    monkeypatch.setattr(Trials, "cost", lambda self, change: 1.0 / change.step)
    found = up.trust(plain, step=0.02, until=2.0)
    signal = found["tank.x"]
    k = np.arange(101)
    true = np.abs(0.96**k - np.exp(-0.04 * k)).max()
    assert any(run.change.startswith("steps × 2") and not run.failure for run in found.runs)
    assert not any(run.change.startswith("steps / 4") and not run.failure for run in found.runs)
    assert signal.error == pytest.approx(true, rel=0.1)
    assert any("not run" in note for note in found.notes)


def test_from_event_to_event_there_are_no_steps_to_be_wrong() -> None:
    light = up.StateMachine(
        outputs={"on": "1 if state == 'on' else 0", "lamp": {"event": True}},
        initial="off",
        states=["off", "on"],
        transitions=[
            {"from": "off", "to": "on", "after": 1.0, "emit": {"lamp": True}},
            {"from": "on", "to": "off", "after": 0.5},
        ],
    )
    found = up.trust(up.Scenario({"light": light}), until=10.0)
    assert found.verdict == "good"
    assert {event.verdict for event in found.events} == {"good"}
    assert [unit.unit for unit in found.solvers] == ["light"]


def test_a_run_through_several_structures_is_judged_as_a_whole() -> None:
    """A tank is emptied, and joined to another at half its height: closed forms before and after."""
    exact = up.DormandPrince(rtol=1e-10, atol=1e-12)
    first = up.Ode({"h": "-0.2 + q"}, inputs={"q": 0.0}, start={"h": 1.0}, solver=exact)
    second = up.Ode({"h": "q"}, inputs={"q": 0.0}, solver=exact)
    opens = {"when": "first.h <= 0.5", "to": "joined"}
    scenario = up.Scenario(
        {"first": first, "second": second},
        {"first.q": "second.h - first.h", "second.q": "first.h - second.h"},
        structures={"apart": {"units": ["first"], "events": {"opens": opens}}, "joined": {}},
    )
    found = up.trust(scenario, step=0.1, until=5.0, inputs="hold", events="look_ahead")
    t = found.trace.time
    after = np.maximum(t - 2.5, 0.0)
    joined = 0.5 * (0.5 - 0.2 * after - 0.1 + 0.6 * np.exp(-2.0 * after))
    true = np.abs(found.trace["first.h"] - np.where(t < 2.5, 1.0 - 0.2 * t, joined))
    assert found["first.h"].error == pytest.approx(float(true.max()), rel=0.1)
    assert found["second.h"].verdict == "not good", "of a unit that is there for half of the time"
    assert [(one.name, one.verdict) for one in found.events] == [("opens", "good")]
    assert found.repeats
    assert found.stability is not None
    assert found.stability.verdict == "undecided"
    with pytest.raises(up.InvalidInput, match="--structure"):
        up.trust(scenario, step=0.1, until=5.0, bonds=[("first.h", "second.h")])


def test_rows_of_one_time_are_compared_place_by_place() -> None:
    """Two jumps at one instant are three rows: the same run again is the same."""
    trace = up.Trace.from_arrays([0.0, 1.0, 1.0, 1.0, 2.0], {"mode": [0, 0, 1, 2, 2]})
    assert compare(trace, trace).worst == 0.0
