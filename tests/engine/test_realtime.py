"""Real time, with a clock of our own: nothing here depends on how fast the machine is."""

from __future__ import annotations

import math
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from upbeat.engine.formats.files import file_of
from upbeat.trace.log import Lateness

DECAY = up.Scenario(units={"tank": up.Ode(states={"x": "-x"}, outputs=["x"], start={"x": 1.0})})


class FakeClock:
    """Time passes only while somebody sleeps, and by `costs` seconds for each step that looks at it."""

    def __init__(self, costs: dict[int, float] | None = None, begin: float = 1000.0) -> None:
        self.time = begin
        self.slept: list[float] = []
        self._costs = costs or {}
        self.steps = 0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.time += seconds

    def work(self) -> None:
        """A step is made."""
        self.steps += 1
        self.time += self._costs.get(self.steps, 0.0)


class Slow:
    """A unit that takes its time, by the fake clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def __call__(self, name: str, start: float, parameters: dict) -> Slow:
        return self

    def get(self, port: str) -> float:
        return 1.0

    def set(self, port: str, coefficients: object) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        self._clock.work()
        return to


def slow(clock: FakeClock) -> up.Scenario:
    model = up.PythonUnit(Slow(clock), (up.Port("y", up.Causality.OUTPUT),))
    return up.Scenario(units={"plant": model})


def test_a_run_waits_for_the_clock(engine: str) -> None:
    clock = FakeClock()
    real_time = up.RealTime(2.0, clock=clock)
    trace = up.simulate(DECAY, pace=0.5, until=2.0, engine=engine, real_time=real_time)
    assert clock.time == pytest.approx(1001.0), "2 s of simulated time at twice the speed of the clock"
    assert trace.outcome is up.Outcome.FINISHED
    plain = up.simulate(DECAY, pace=0.5, until=2.0, engine=engine)
    np.testing.assert_array_equal(trace["tank.x"], plain["tank.x"])
    assert list(trace.steps) == list(plain.steps)
    assert plain.lateness is None
    late = trace.lateness
    assert late is not None
    assert (late.count, late.maximum, late.mean, late.share, late.percentile(100)) == (4, 0.0, 0.0, 0.0, 0.0)


def test_waiting_is_cut_into_pieces_so_that_a_run_can_be_interrupted(engine: str) -> None:
    clock = FakeClock()
    up.simulate(DECAY, pace=10.0, until=10.0, engine=engine, real_time=up.RealTime(clock=clock))
    assert max(clock.slept) <= 0.05 * (1 + 1e-9)
    assert sum(clock.slept) == pytest.approx(10.0)


def test_ctrl_c_while_the_run_waits(engine: str) -> None:
    class Interrupting(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if len(self.slept) == 3:
                signal.raise_signal(signal.SIGINT)

    clock = Interrupting()
    with pytest.raises(up.Interrupted) as caught:
        up.simulate(DECAY, pace=10.0, until=100.0, engine=engine, real_time=up.RealTime(clock=clock))
    assert clock.time == pytest.approx(1000.15)
    assert caught.value.trace.outcome is up.Outcome.INTERRUPTED
    assert list(caught.value.trace.time) == [0.0, 10.0]


def test_steps_by_hand_wait_too(engine: str) -> None:
    clock = FakeClock()
    with up.start(DECAY, pace=1.0, until=3.0, engine=engine, real_time=up.RealTime(clock=clock)) as run:
        clock.time += 100.0  # set-up takes as long as it takes: the clock starts with the first step
        run.step()
        assert clock.time == pytest.approx(1101.0)
        clock.time += 0.6
        run.step()
        assert clock.time == pytest.approx(1102.0)


# Steps of 1 s. The third one takes 2.5 s (done at 4.5, due at 3), the others no time at all.
COSTS = {3: 2.5}


def test_warn_once_and_catch_up(engine: str) -> None:
    clock = FakeClock(COSTS)
    with pytest.warns(up.LateWarning, match=r"1\.5 s behind real time at t = 3") as caught:
        trace = up.simulate(
            slow(clock), pace=1.0, until=8.0, engine=engine, real_time=up.RealTime(1.0, clock=clock)
        )
    assert len(caught) == 1
    assert clock.time == pytest.approx(1008.0), "it has caught up"
    late = trace.lateness
    assert late is not None
    assert (late.count, late.beyond, late.skips) == (8, 2, 0)
    assert late.maximum == pytest.approx(1.5)
    assert late.mean == pytest.approx((1.5 + 0.5) / 8)
    assert late.percentile(75) == 0.0
    assert 0.5 <= late.percentile(80) <= 0.5 * 1.13
    assert late.percentile(99) == pytest.approx(1.5)


def test_skip_gives_the_lost_time_up(engine: str) -> None:
    clock = FakeClock(COSTS)
    real_time = up.RealTime(1.0, late="skip", clock=clock)
    trace = up.simulate(slow(clock), pace=1.0, until=8.0, engine=engine, real_time=real_time)
    assert clock.time == pytest.approx(1009.5), "all steps after the third are due 1.5 s later"
    late = trace.lateness
    assert late is not None
    assert (late.count, late.beyond, late.skips) == (8, 1, 1)
    assert late.given_up == pytest.approx(1.5)


def test_stop_keeps_the_results(engine: str, tmp_path: Path) -> None:
    clock, out = FakeClock(COSTS), tmp_path / "run.journal"
    real_time = up.RealTime(1.0, late="stop", clock=clock)
    trace = up.simulate(slow(clock), pace=1.0, until=8.0, engine=engine, real_time=real_time, out=out)
    assert trace.outcome is up.Outcome.TOO_LATE
    assert not trace.outcome.ok
    again = up.read(out)
    assert list(again.time) == [0.0, 1.0, 2.0, 3.0]
    assert again.outcome is up.Outcome.TOO_LATE
    assert again.lateness == trace.lateness
    with up.start(slow(FakeClock()), pace=1.0, until=8.0, engine=engine, real_time=1e9) as run:
        assert run.step() == 1.0


def test_a_run_by_hand_that_was_stopped_says_why(engine: str) -> None:
    clock = FakeClock({1: 9.0})
    real_time = up.RealTime(late="stop", clock=clock)
    with up.start(slow(clock), pace=1.0, until=8.0, engine=engine, real_time=real_time) as run:
        run.step()
        assert run.finished
        with pytest.raises(up.StepError, match="t = 1, because it fell behind real time"):
            run.step()


def test_within_the_tolerance_nothing_happens(engine: str) -> None:
    clock = FakeClock(COSTS)
    real_time = up.RealTime(1.0, late="stop", tolerance=1.6, clock=clock)
    trace = up.simulate(slow(clock), pace=1.0, until=8.0, engine=engine, real_time=real_time)
    assert trace.outcome is up.Outcome.FINISHED
    assert trace.lateness is not None
    assert trace.lateness.beyond == 0


def test_the_last_step_is_not_stopped_any_more(engine: str) -> None:
    clock = FakeClock({8: 20.0})
    real_time = up.RealTime(1.0, late="stop", clock=clock)
    trace = up.simulate(slow(clock), pace=1.0, until=8.0, engine=engine, real_time=real_time)
    assert trace.outcome is up.Outcome.FINISHED


def test_the_summary_tells() -> None:
    clock = FakeClock(COSTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", up.LateWarning)
        trace = up.simulate(slow(clock), pace=1.0, until=8.0, real_time=up.RealTime(clock=clock))
    assert "Real time: 2 of 8 steps more than 50 ms late, mean 250 ms" in up.summary(trace)
    assert "latest 1.5 s." in up.summary(trace)


# -------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (1.5, up.RealTime(1.5)),
        (True, up.RealTime(1.0)),
        (False, None),
        ({"late": "skip", "tolerance": 1}, up.RealTime(1.0, "skip", 1.0)),
        (up.RealTime(3, "stop"), up.RealTime(3.0, "stop")),
    ],
)
def test_what_may_be_given(given: object, made: up.RealTime | None) -> None:
    found = up.experiment(DECAY, pace=0.1, until=1.0, real_time=given)  # type: ignore[arg-type]
    assert found.real_time == made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0.0, "must be more than 0"),
        (-1, "must be more than 0"),
        (math.inf, "must be a number"),
        ("fast", "must be a number, not 'fast'"),
        ({"late": "cry"}, "'late' cannot be 'cry'.*warn"),
        ({"late": "warn", "slack": 1}, "no setting 'slack'"),
        ({"tolerance": -1.0}, "must not be negative"),
    ],
)
def test_what_is_refused(given: object, message: str) -> None:
    with pytest.raises(up.InvalidInput, match=f"(?s)real_time: .*{message}.*up.RealTime"):
        up.experiment(DECAY, pace=0.1, until=1.0, real_time=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("real_time", [None, 2.0, up.RealTime(2.0, "skip", 0.5), up.RealTime(late="stop")])
def test_files_say_the_same(tmp_path: Path, real_time: up.RealTime | float | None) -> None:
    made = up.experiment(DECAY, pace=0.1, until=1.0, real_time=real_time)
    up.write_scenario(made, tmp_path / "decay.toml")
    assert up.load(tmp_path / "decay.toml").real_time == made.real_time
    if real_time is not None:
        assert up.load(tmp_path / "decay.toml", real_time=False).real_time is None
        again = up.load(tmp_path / "decay.toml", real_time=5.0).real_time
        assert again is not None
        assert made.real_time is not None
        assert (again.factor, again.late) == (5.0, made.real_time.late), "a number overrules the factor only"
        assert file_of(made).run["real_time"] is not None


# -------------------------------------------------------------------- the distribution


def test_the_distribution_against_all_values() -> None:
    values = np.abs(np.random.default_rng(4).lognormal(-7, 2, 5000))
    values[::3] = 0.0
    late = Lateness(0.01)
    for value in values:
        late.add(float(value))
    assert late.count == 5000
    assert late.beyond == np.count_nonzero(values > 0.01)
    assert late.mean == pytest.approx(values.mean(), rel=1e-3)
    assert late.maximum == values.max()
    for percent in (10, 50, 90, 99, 99.9, 100):
        exact = float(np.percentile(values, percent, method="inverted_cdf"))
        assert exact <= late.percentile(percent) <= max(1e-6, 1.13 * exact)
    assert Lateness.from_data(late.to_data()) == late
    assert len(late.to_data()["bins"]) < 300
    assert "5000 steps" in repr(late)


@pytest.mark.parametrize("engine", ["interpret", "native"])
def test_an_event_happens_when_its_time_has_come(engine: str) -> None:
    clock = FakeClock(begin=0.0)
    seen: list[float] = []

    def internal(state: int) -> int:
        seen.append(clock.now())
        return state + 1

    ticking = up.PythonDiscrete(
        start=0,
        time_advance=lambda state: 10.0,
        internal=internal,
        output=lambda state: {"tick": True},
        outputs={"tick": {"event": True}},
    )
    scenario = up.Scenario({"c": ticking})
    real_time = up.RealTime(2.0, clock=clock)
    trace = up.simulate(scenario, until=35.0, real_time=real_time, engine=engine)  # type: ignore[arg-type]
    assert trace.events.times("c.tick").tolist() == [10.0, 20.0, 30.0]
    assert seen == pytest.approx([5.0, 10.0, 15.0]), "half of the simulated time, and not before"
    assert clock.now() == pytest.approx(17.5)
