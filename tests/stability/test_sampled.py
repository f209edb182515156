"""Sampled controllers: the map over one sampling period decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up

Array = Any


def controller(a: Array, b: Array, c: Array, whole: bool = False) -> up.PythonDiscrete:
    """x⁺ = A·x + B·z at every sample, and u = C·x⁺ from then on."""
    zero: Any = tuple([0 if whole else 0.0] * len(a))
    return up.PythonDiscrete(
        start=zero,
        external=lambda x, elapsed, events: tuple(
            float(v) for v in a @ np.array(x, dtype=float) + b * events["z"]
        ),
        shows=lambda x: {"u": float(c @ np.array(x, dtype=float))},
        inputs={"z": {"kind": "real"}},
        outputs=["u"],
    )


def loop(unit: Any, every: float, rate: float, gain: float, offset: float = 0.0) -> up.Scenario:
    plant = up.Ode({"z": f"{-rate!r}*z + {gain!r}*u"}, inputs=["u"], outputs=["z"], start={"z": 1.0})
    return up.Scenario(
        {"plant": plant, "sampler": up.Sampler(every, offset=offset), "c": unit},
        {"sampler.signal": "plant.z", "c.z": "sampler.event", "plant.u": "c.u"},
    )


@pytest.mark.parametrize("seed", range(16))
def test_random_sampled_controllers_are_judged_as_their_closed_form(seed: int) -> None:
    turn = np.random.default_rng(seed)
    size, every = int(turn.integers(1, 4)), float(turn.choice([0.1, 0.2, 0.5]))
    a = turn.normal(size=(size, size)) * turn.choice([0.3, 0.7, 1.0]) / np.sqrt(size)
    b, c = turn.normal(size=size), turn.normal(size=size)
    rate, gain = float(turn.uniform(-0.5, 2.0)), float(turn.normal())
    step = every * float(turn.choice([0.1, 0.5, 1.0, 1.5, 2.0]))
    scenario = loop(controller(a, b, c, whole=bool(seed % 2)), every, rate, gain)
    found = up.stability_of(scenario, pace=step, scan=False, ideal=True)
    flow = expm(np.array([[-rate, gain], [0.0, 0.0]]) * every)
    through = flow[0, 1] * c[None, :]
    whole = np.block([[a, b[:, None]], [through @ a, flow[:1, :1] + through @ b[:, None]]])
    radius = float(np.abs(np.linalg.eigvals(whole)).max()) ** (step / every)
    assert found.spectral_radius == pytest.approx(radius, abs=1e-6)
    if abs(radius - 1.0) > 1e-4:
        assert found.verdict == ("stable" if radius < 1.0 else "unstable")


@pytest.mark.parametrize("gain", [0.5, 1.5, 2.5, 5.0])
@pytest.mark.parametrize("offset", [0.0, 0.03])
def test_a_proportional_controller_by_hold_alone(gain: float, offset: float) -> None:
    """z⁺ = (e - g·(1 - e))·z over each period of 0.5 s, with e = exp(-0.5)."""
    plant = up.Ode({"z": "-z + u"}, inputs=["u"], outputs=["z"], start={"z": 1.0}, solver="dormand_prince")
    scenario = up.Scenario(
        {"plant": plant, "sampler": up.Sampler(0.5, offset=offset), "hold": up.LastValue(0.0)},
        {
            "sampler.signal": "plant.z",
            "hold.event": {"event": "sampler.event"},
            "plant.u": f"{-gain}*hold.value",
        },
    )
    found = up.stability_of(scenario, pace=0.1, scan=False)
    e = np.exp(-0.5)
    factor = abs(e - gain * (1.0 - e))
    assert found.spectral_radius == pytest.approx(factor**0.2, abs=1e-6)
    assert found.verdict == ("stable" if factor < 1.0 else "unstable")


def machine(ki: float, kp: float, every: float) -> up.StateMachine:
    """A PI controller that samples by its own delays: an internal transition again and again."""
    return up.StateMachine(
        states=["on"],
        initial="on",
        inputs={"z": {"kind": "real"}},
        variables={"i": 0.0, "u": 0.0},
        outputs={"u": "u"},
        transitions=[
            {"from": "on", "after": every, "do": {"i": f"i - {ki!r}*z", "u": f"i - {ki!r}*z - {kp!r}*z"}}
        ],
    )


def by_data(ki: float, kp: float, every: float) -> up.StateMachine:
    """The same in two states that follow each other, of which only one acts."""
    return up.StateMachine(
        states=["waits", "acts"],
        initial="waits",
        inputs={"z": {"kind": "real"}},
        variables={"i": 0.0, "u": 0.0},
        outputs={"u": "u"},
        transitions=[
            {
                "from": "waits",
                "to": "acts",
                "after": 0.5 * every,
                "do": {"i": f"i - {ki!r}*z", "u": f"i - {ki!r}*z - {kp!r}*z"},
            },
            {"from": "acts", "to": "waits", "after": 0.5 * every},
        ],
    )


@pytest.mark.parametrize("make", [machine, by_data])
@pytest.mark.parametrize("seed", range(4))
def test_state_machines_that_sample_by_themselves(make: Any, seed: int) -> None:
    turn = np.random.default_rng(seed)
    ki, kp, every = float(turn.uniform(0.1, 4.0)), float(turn.uniform(0.0, 3.0)), 0.4
    plant = up.Ode({"z": "-z + u"}, inputs=["u"], outputs=["z"], start={"z": 1.0}, solver="dormand_prince")
    scenario = up.Scenario({"plant": plant, "c": make(ki, kp, every)}, {"c.z": "plant.z", "plant.u": "c.u"})
    found = up.stability_of(scenario, pace=0.1, scan=False)
    e = np.exp(-every)
    whole = np.array([[1.0, -ki], [1.0 - e, e - (1.0 - e) * (ki + kp)]])
    radius = float(np.abs(np.linalg.eigvals(whole)).max())
    assert found.spectral_radius == pytest.approx(radius**0.25, abs=1e-6)
    if abs(radius - 1.0) > 1e-3:
        assert found.verdict == ("stable" if radius < 1.0 else "unstable")


def clocked(lasts: Any, acts: Any) -> up.Scenario:
    """A controller in Python whose state is (value, count), asked for by a sampler of the plant."""
    unit = up.PythonDiscrete(
        start=(0.0, 0),
        external=lambda x, elapsed, events: acts(x, events["z"]),
        shows=lambda x: {"u": x[0]},
        inputs={"z": {"kind": "real"}},
        outputs=["u"],
    )
    return loop(unit, lasts, 1.0, 1.0)


def test_a_count_that_matters_makes_a_longer_period_or_is_undecided() -> None:
    """It acts at every third sample only: the verdict must not be that of a single one."""
    every = 0.2

    def acts(x: Any, z: float) -> Any:
        return (-7.0 * z if x[1] % 3 == 0 else x[0], x[1] + 1)

    found = up.stability_of(clocked(every, acts), pace=every, scan=False)
    e = np.exp(-3 * every)
    assert abs(e - 7.0 * (1.0 - e)) > 1.0  # it is unstable
    assert found.verdict != "stable"


def test_a_count_that_matters_much_later_is_undecided() -> None:
    def acts(x: Any, z: float) -> Any:
        return ((-2.0 if x[1] < 150 else -70.0) * z, x[1] + 1)

    assert up.stability_of(clocked(0.2, acts), pace=0.1, scan=False).verdict == "undecided"


def test_a_count_that_nobody_reads_changes_nothing() -> None:
    found = up.stability_of(clocked(0.2, lambda x, z: (-2.0 * z, x[1] + 1)), pace=0.1, scan=False)
    e = np.exp(-0.2)
    assert found.spectral_radius == pytest.approx(abs(e - 2.0 * (1.0 - e)) ** 0.5, abs=1e-6)
    assert found.verdict == "stable"


def test_events_whose_times_depend_on_states_are_undecided() -> None:
    unit = up.PythonDiscrete(
        start=1.0,
        time_advance=lambda x: 0.1 + 0.01 * abs(x),
        internal=lambda x: x,
        external=lambda x, elapsed, events: events["z"],
        shows=lambda x: {"u": -x},
        inputs={"z": {"kind": "real"}},
        outputs=["u"],
    )
    found = up.stability_of(loop(unit, 0.2, 1.0, 1.0), pace=0.1, scan=False)
    assert found.verdict == "undecided"


def test_runs_do_what_verdicts_say() -> None:
    for gain in (2.0, 9.0):
        scenario = clocked(0.2, lambda x, z, gain=gain: (-gain * z, x[1] + 1))
        found = up.stability_of(scenario, pace=0.1, scan=False)
        trace = up.simulate(scenario, pace=0.1, until=20.0).one_sided()  # rows are counted as steps below
        late = np.abs(trace["plant.z"][-40:]).max() / np.abs(trace["plant.z"][-120:-80]).max()
        assert late == pytest.approx(found.spectral_radius**80, rel=0.1)


class Sums:
    """u = -kp·z - ki·Σz, as an object that is advanced from sample to sample."""

    kp, ki = 0.5, 0.5

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.i, self.z, self.t = 0, 0.0, start

    def get(self, port: str) -> float:
        return -self.kp * self.z - self.ki * self.i

    def set(self, port: str, coefficients: Any) -> None:
        self.z = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.i += self.z
        self.t = to
        return to

    def save(self) -> Any:
        return dict(self.__dict__)

    def restore(self, token: Any) -> None:
        self.__dict__.update(token)


@pytest.mark.parametrize("seed", range(6))
def test_units_in_python_with_a_sample_time(seed: int) -> None:
    """At each sample the sum takes what the last one saw; the output knows the present one."""
    turn = np.random.default_rng(seed)
    kp, ki = float(turn.uniform(0.0, 6.0)), float(turn.uniform(0.05, 4.0))
    kind = type("S", (Sums,), {"kp": kp, "ki": ki})
    unit = up.PythonUnit(kind, inputs=["z"], outputs=["u"], abilities=["rollback"], sample_time=0.2)
    plant = up.Ode({"z": "-z + u"}, inputs=["u"], outputs=["z"], start={"z": 1.0}, solver="dormand_prince")
    scenario = up.Scenario({"plant": plant, "c": unit}, {"c.z": "plant.z", "plant.u": "c.u"})
    found = up.stability_of(scenario, pace=0.1, scan=False)
    e = np.exp(-0.2)
    # With S the sum at a sample and z the plant then: S⁺ = S + z, z⁺ = e·z + (1 - e)·(-kp·z - ki·S).
    whole = np.array([[1.0, 1.0], [-(1.0 - e) * ki, e - (1.0 - e) * kp]])
    radius = float(np.abs(np.linalg.eigvals(whole)).max())
    assert found.spectral_radius == pytest.approx(radius**0.5, abs=1e-6)
    if abs(radius - 1.0) > 1e-3:
        assert found.verdict == ("stable" if radius < 1.0 else "unstable")


@pytest.mark.parametrize("ideal", [False, True])
@pytest.mark.parametrize("far", ["1.0 if z < 0.5 else -1.0", "0.5*z if z < 2 else 5*z"])
def test_what_a_controller_decides_on_the_way_is_not_in_a_matrix(far: str, ideal: bool) -> None:
    """A relay, and a gain that jumps where the plant would come to rest: from afar both look linear."""
    python = compile(far, "far", "eval")
    relay = up.PythonDiscrete(
        start=(0.0,), external=lambda x, elapsed, events: (float(eval(python, {"z": events["z"]})),),
        shows=lambda x: {"u": x[0]}, inputs={"z": {"kind": "real"}}, outputs=["u"],
    )  # fmt: skip
    timed = up.StateMachine(
        states=["on"], initial="on", inputs={"z": {"kind": "real"}}, variables={"u": 0.0},
        outputs={"u": "u"}, transitions=[{"from": "on", "after": 0.5, "do": {"u": far}}],
    )  # fmt: skip
    plant = up.Ode({"z": "1 - z + u"}, inputs=["u"], outputs=["z"], start={"z": -20.0})
    sampled = up.Scenario(
        {"plant": plant, "sampler": up.Sampler(0.5), "c": relay},
        {"sampler.signal": "plant.z", "c.z": "sampler.event", "plant.u": "c.u"},
    )
    by_time = up.Scenario({"plant": plant, "c": timed}, {"c.z": "plant.z", "plant.u": "c.u"})
    for scenario in (sampled, by_time):
        found = up.stability_of(scenario, pace=0.1, scan=False, ideal=ideal)
        assert (found.verdict, "is not a point of rest" in found.model.unseen) == ("undecided", True)


def by_machine(do: str, out: str = "u", **more: Any) -> up.Scenario:
    """A plant with a machine that acts every 0.5 s."""
    unit = up.StateMachine(
        states=["on"], initial="on", inputs={"z": {"kind": "real"}}, variables={"u": 0.0, **more},
        outputs={"y": out}, transitions=[{"from": "on", "after": 0.5, "do": {"u": do}}],
    )  # fmt: skip
    plant = up.Ode({"z": "u - z"}, inputs=["u"], outputs=["z"], start={"z": 1.0})
    return up.Scenario({"plant": plant, "c": unit}, {"c.z": "plant.z", "plant.u": "c.y"})


@pytest.mark.parametrize(
    "scenario",
    [
        by_machine("-0.5*z if time < 40 else 5*z"),
        by_machine("-0.5*z", "u if time < 40 else -9*u"),
        by_machine("-0.5*z*min(time, 1) if time < 40 else 5*z"),
        by_machine("-0.5*z*elapsed"),  # it never leaves the state
    ],
)
def test_what_a_machine_does_at_other_times_is_not_known(scenario: up.Scenario) -> None:
    trace = up.simulate(scenario, pace=0.25, until=60.0)
    late = np.abs(trace["plant.z"][trace.time > 50.0])
    assert late.max() > 1e3 * late[0]  # that it grows in the end
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert (found.verdict, "a coefficient of c changes with the time" in found.why) == ("undecided", True)


@pytest.mark.parametrize(
    "do", ["-0.5*z + (1 if time < 300 else 2)", "-0.5*z + sin(time)", "u - 0.1*u - 0.1*z"]
)
def test_what_a_machine_adds_at_times_changes_nothing(do: str) -> None:
    assert up.stability_of(by_machine(do), pace=0.1, scan=False).verdict == "stable"


def test_a_machine_that_acts_long_after_is_not_forgotten() -> None:
    unit = up.StateMachine(
        states=["a", "b"], initial="a", inputs={"z": {"kind": "real"}},
        outputs={"y": "-0.5*z if state == 'a' else 5*z"},
        transitions=[{"from": "a", "to": "b", "after": 700.0}],
    )  # fmt: skip
    plant = up.Ode({"z": "u - z"}, inputs=["u"], outputs=["z"])
    scenario = up.Scenario({"plant": plant, "c": unit}, {"c.z": "plant.z", "plant.u": "c.y"})
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert (found.verdict, "the time between events of c" in found.why) == ("undecided", True)


class Late:
    """A gain that is another one after 700 samples, or 350 s."""

    counts = True

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.e, self.n = 0.0, 0
        self.t = start

    def get(self, port: str) -> float:
        late = self.n >= 700 if self.counts else self.t >= 350.0
        return 5.0 * self.e if late else -0.5 * self.e

    def set(self, port: str, coefficients: Any) -> None:
        self.e = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.n, self.t = self.n + 1, to
        return to

    def save(self) -> Any:
        return self.e, self.n, self.t

    def restore(self, token: Any) -> None:
        self.e, self.n, self.t = token


class LateByTime(Late):
    counts = False


@pytest.mark.parametrize("kind", [Late, LateByTime])
def test_units_with_a_sample_time_are_tried_at_later_samples(kind: type) -> None:
    """Both are found out as they are without a sample time."""
    plant = up.Ode({"z": "u - z"}, inputs=["u"], outputs=["z"], start={"z": 1.0})
    for how in ({}, {"sample_time": 0.5}):
        unit = up.PythonUnit(kind, up.units.ports(["e"], ["u"]), [up.Ability.ROLLBACK], **how)
        scenario = up.Scenario({"plant": plant, "c": unit}, {"c.e": "plant.z", "plant.u": "c.u"})
        found = up.stability_of(scenario, pace=0.1, scan=False)
        assert (found.verdict, "a coefficient of c changes with the time" in found.why) == ("undecided", True)
