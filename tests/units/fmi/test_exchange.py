"""Model exchange on an instance that is strict about the order of calls, against closed forms."""

from __future__ import annotations

import math
from math import inf

import pytest
from tests.units.fmi import pretended
from tests.units.fmi.pretended import Pretended, Refuses

from upbeat.core.abilities import Indicators, NextEvent, Rollback, Serialise, Slopes
from upbeat.core.errors import EndRequest, ModelError
from upbeat.core.ports import EVENTS
from upbeat.units import RK4, Cvode, DormandPrince, Euler, Midpoint, SolverError
from upbeat.units.fmi.instance import FmuError, Updated
from upbeat.units.fmi.ports import indicator_names, shown
from upbeat.units.fmi.unit import FmuUnit, PackableFmuUnit

G, E = 9.81, 0.7
SOLVERS = [
    Midpoint(step=0.01),
    RK4(step=0.01),
    DormandPrince(rtol=1e-9, atol=1e-11),
    Cvode(rtol=1e-9, atol=1e-11),
]


def run(fmu, solver=None, kind=PackableFmuUnit):
    return pretended.unit(fmu, solver or DormandPrince(1e-9, 1e-11), kind)


def bounce(self):
    if self.x[0] <= 0.0 and self.x[1] < 0.0:
        self.memory.bounces = getattr(self.memory, "bounces", 0) + 1
        self.x = [0.0, -E * self.x[1]]
        return Updated(states_changed=True)
    return Updated()


def ball(**more):
    return Pretended(
        [1.0, 0.0],
        lambda self: [self.x[1], -G],
        lambda self: [self.x[0]],
        bounce,
        {
            "h": lambda self: self.x[0],
            "v": lambda self: self.x[1],
            "bounces": lambda self: float(getattr(self.memory, "bounces", 0)),
        },
        **more,
    )


def bounces_until(end):
    """The times of the bounces: the first fall lasts √(2/g), each flight after that 2·e**n·√(2/g)."""
    fall = math.sqrt(2 / G)
    times, n = [fall], 1
    while times[-1] + 2 * E**n * fall < end:
        times.append(times[-1] + 2 * E**n * fall)
        n += 1
    return times


def height(t):
    times = bounces_until(t)
    if t < times[0]:
        return 1 - G / 2 * t * t
    v = E ** len(times) * math.sqrt(2 * G)
    since = t - times[-1]
    return v * since - G / 2 * since * since


def test_it_is_what_it_says():
    unit = run(ball())
    for ability in (NextEvent, Rollback, Serialise, Slopes, Indicators):
        assert isinstance(unit, ability)
    assert not isinstance(run(ball(), kind=FmuUnit), Serialise)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("step", [0.05, 0.3, 2.5])
def test_a_bouncing_ball_meets_its_closed_form(solver, step):
    unit = run(ball(), solver)
    for k in range(round(2.5 / step)):
        unit.advance(k * step, (k + 1) * step)
        if (k + 1) * step < 2.0:  # later the bounces crowd
            assert unit.get("h") == pytest.approx(height((k + 1) * step), abs=1e-6)
    until = step * round(2.5 / step)
    assert unit.get("bounces") == len(bounces_until(until))
    unit.close()
    assert unit.fmu.life == "freed"


@pytest.mark.parametrize("solver", SOLVERS)
def test_early_return_stops_at_every_bounce(solver):
    unit = run(ball(), solver)
    assert unit.due() == 0.0
    assert unit.jump() is False
    assert unit.due() == inf
    t, found = 0.0, []
    while t < 2.0:
        reached = unit.advance(t, 2.0, early=True)
        assert (reached < 2.0) == (unit.due() == reached)
        if reached < 2.0:
            assert unit.get("h") <= 1e-8
            before = unit.get("bounces")
            while unit.jump():
                pass
            if unit.get("bounces") > before:
                found.append(reached)
        t = reached
    assert found == pytest.approx(bounces_until(2.0), abs=1e-7)


def test_the_start_is_an_event_and_get_and_set_come_before_it():
    fake = Pretended(outputs={"y": lambda self: 2 * self.u["u"]})
    unit = run(fake)
    assert unit.due() == 0.0
    unit.set("u", [3.0])
    assert unit.get("y") == 6.0
    assert fake.life == "initialization"
    unit.jump()
    assert (fake.life, unit.due()) == ("event", inf)
    unit.advance(0.0, 1.0)
    assert fake.life == "continuous"


def test_whoever_never_jumps_gets_the_start_event_with_the_first_step():
    fake = Pretended([1.0], lambda self: [-self.x[0]], outputs={"x": lambda self: self.x[0]})
    unit = run(fake)
    assert unit.advance(0.0, 1.0) == 1.0
    assert fake.calls[:3] == ["exit_initialization", "update", "enter_continuous_time_mode"]
    assert unit.get("x") == pytest.approx(math.exp(-1), abs=1e-8)


def test_no_step_at_all_calls_nothing():
    fake = ball()
    unit = run(fake)
    assert unit.advance(0.0, 0.0) == 0.0
    assert fake.calls == []
    with pytest.raises(SolverError, match="backwards, from 1 to 0"):
        unit.advance(1.0, 0.0)


def stairs(period=0.25):
    def event(self):
        self.memory.n = math.floor(self.t / period + 1e-9)
        return Updated(next_time=(self.memory.n + 1) * period)

    return Pretended(
        event=event, outputs={"y": lambda self: float(self.memory.n)}, completed=lambda self: (False, False)
    )


@pytest.mark.parametrize("solver", [Euler(), RK4(steps=3), DormandPrince(), Cvode()])
def test_time_events_are_never_stepped_over(solver):
    unit = run(stairs(), solver)
    unit.jump()
    assert unit.due() == 0.25
    assert unit.advance(0.0, 1.1) == 1.1
    assert unit.get("y") == 4.0
    assert unit.due() == 1.25
    assert unit.advance(1.1, 2.0, early=True) == 1.25
    assert (unit.due(), unit.get("y")) == (1.25, 4.0)
    unit.jump()
    assert (unit.due(), unit.get("y")) == (1.5, 5.0)


def test_an_event_at_a_communication_point_waits_for_it():
    unit = run(stairs())
    assert unit.advance(0.0, 0.25) == 0.25
    assert (unit.due(), unit.get("y")) == (0.25, 0.0)
    unit.jump()
    assert unit.get("y") == 1.0


def test_inputs_are_polynomials_at_every_evaluation():
    # x' = u with u = 1 + 2τ + 3τ² from t = 1 on: x = τ + τ² + τ³
    fake = Pretended([0.0], lambda self: [self.u["u"]], outputs={"x": lambda self: self.x[0]})
    unit = run(fake, RK4())
    unit.advance(0.0, 1.0)
    unit.set("u", [1.0, 2.0, 3.0])
    unit.advance(1.0, 3.0)
    assert unit.get("x") == pytest.approx(2 + 4 + 8)
    assert fake.u["u"] == 1 + 4 + 12
    unit.set("u", [5.0])
    fake.calls.clear()
    unit.advance(3.0, 4.0)
    assert unit.get("x") == pytest.approx(14 + 5)
    assert "set" not in fake.calls  # an input that is held is written once


def test_a_moving_input_makes_an_indicator_cross_where_it_should():
    fake = Pretended(
        [0.0],
        lambda self: [self.x[0] * 0.0],
        lambda self: [self.u["u"] - 0.5],
        outputs={"t": lambda self: self.t},
    )
    unit = run(fake)
    unit.jump()
    unit.set("u", [0.0, 1.0, 1.0])  # τ + τ² = 1/2
    assert unit.advance(0.0, 1.0, early=True) == pytest.approx((math.sqrt(3) - 1) / 2, abs=1e-11)


def relay(**more):
    def event(self):
        self.memory.on = self.u["u"] > 1.0
        return Updated()

    return Pretended(
        [0.0],
        lambda self: [1.0 if self.memory.on else 0.0],
        lambda self: [self.u["u"] - 1.0],
        event,
        {"on": lambda self: float(self.memory.on), "x": lambda self: self.x[0]},
        **more,
    )


def test_an_input_that_jumps_over_an_indicator_is_an_event_at_the_start_of_the_step():
    unit = run(relay())
    unit.advance(0.0, 1.0)
    unit.set("u", [2.0])
    assert unit.get("on") == 0.0  # in continuous time nothing discrete changes
    assert unit.advance(1.0, 2.0, early=True) == 2.0
    assert (unit.get("on"), unit.get("x")) == (1.0, pytest.approx(1.0))
    unit.set("u", [0.5])
    unit.advance(2.0, 3.0)
    assert (unit.get("on"), unit.get("x")) == (0.0, pytest.approx(1.0))


def test_an_input_that_changes_in_event_mode_asks_for_another_round():
    unit = run(relay())
    unit.jump()
    assert unit.due() == inf
    unit.set("u", [0.0])
    assert unit.due() == inf  # nothing new
    unit.set("u", [2.0])
    assert unit.due() == 0.0
    unit.jump()
    assert (unit.get("on"), unit.due()) == (1.0, inf)


def test_a_discrete_input_is_changed_in_event_mode_only():
    fake = relay(inputs=(), discrete=("u",))
    unit = run(fake)
    unit.set("u", [0.0])
    unit.advance(0.0, 1.0)
    unit.set("u", [0.0, 5.0])  # the same value; slopes mean nothing to it
    assert (unit.due(), fake.life) == (inf, "continuous")
    unit.set("u", [2.0])
    assert (unit.due(), fake.life) == (1.0, "event")
    unit.advance(1.0, 2.0)
    assert unit.get("x") == pytest.approx(1.0)


def test_a_completed_step_may_ask_for_an_event():
    heard = []

    def completed(self):
        heard.append(self.t)
        return self.t >= 0.5 and not hasattr(self.memory, "done"), False

    def event(self):
        if self.t >= 0.5:
            self.memory.done = True
        return Updated()

    fake = Pretended([0.0], lambda self: [1.0], event=event, completed=completed)
    unit = run(fake, Euler(steps=4))
    unit.jump()
    assert unit.advance(0.0, 1.0, early=True) == 0.5
    assert heard == [0.25, 0.5]
    assert unit.due() == 0.5
    assert unit.advance(0.5, 1.0) == 1.0
    assert fake.memory.done


@pytest.mark.parametrize("way", ["completed", "update"])
def test_an_fmu_may_ask_to_end_the_simulation(way):
    if way == "completed":
        fake = Pretended([0.0], lambda self: [1.0], completed=lambda self: (False, self.t >= 0.5))
    else:
        fake = Pretended(event=lambda self: Updated(terminate=self.t > 0, next_time=0.5))
    unit = run(fake, Euler(steps=4))
    assert unit.advance(0.0, 1.0) == 1.0  # with what it was at 0.5
    if way == "completed":
        assert unit.state == (0.5,)
    assert unit.due() == math.inf
    with pytest.raises(EndRequest, match=r"asked to end the simulation at t = 0\.5"):
        unit.advance(1.0, 2.0)


def test_event_iteration_takes_several_rounds_but_not_for_ever():
    def event(self):
        self.memory.rounds = getattr(self.memory, "rounds", 0) + 1
        return Updated(again=self.memory.rounds < 5)

    fake = Pretended(event=event)
    unit = run(fake)
    assert [unit.jump() for _ in range(5)] == [True, True, True, True, False]
    with pytest.raises(FmuError, match="did not come to an end in 1,000 rounds"):
        run(Pretended(event=lambda self: Updated(again=True))).advance(0.0, 1.0)


def test_events_that_crowd_without_end_are_an_error_that_says_so():
    fake = Pretended(
        [0.0], lambda self: [0.0], event=lambda self: Updated(next_time=math.nextafter(self.t, inf))
    )
    with pytest.raises(SolverError, match="1,000 events in a row hardly let time go on"):
        run(fake).advance(0.0, 1.0)


def test_nominals_are_read_at_the_start_and_when_they_change():
    def event(self):
        if self.t > 0:
            self.sizes = [1e6]
        return Updated(nominals_changed=self.t > 0, next_time=0.5 if self.t < 0.5 else inf)

    fake = Pretended([1.0], lambda self: [-self.x[0]], event=event, nominals=[1.0])
    unit = run(fake)
    unit.advance(0.0, 1.0)
    assert fake.calls.count("nominals") == 2


def test_errors_are_measured_by_nominals():
    def steps(nominal):
        unit = run(
            Pretended([1.0], lambda self: [-self.x[0]], nominals=[nominal]), DormandPrince(1e-15, 1e-9)
        )
        unit.advance(0.0, 1.0)
        return unit.statistics.steps

    assert steps(1e6) < steps(1.0) < steps(1e-3)
    assert steps(-3.0) == steps(math.nan) == steps(math.inf) == steps(1.0)  # nonsense counts as 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_rollback_through_an_event_goes_the_same_way_again(solver):
    unit = run(ball(), solver)
    unit.set("u", [1.0, 2.0])
    unit.advance(0.0, 0.4)
    token = unit.save()
    unit.set("u", [5.0])

    def future():
        found = []
        for k in range(4, 12):
            unit.advance(k / 10, (k + 1) / 10)
            found += [unit.get("h"), unit.get("v"), unit.due(), *unit.indicators(), unit.fmu.u["u"]]
        return found

    unit.restore(token)
    first = future()
    unit.restore(token)
    assert future() == first
    assert first[0] == pytest.approx(height(0.5), abs=1e-6)
    del token
    unit.save()
    assert unit.fmu.library.kept == 1  # what nobody has is dropped when the next one is made


def test_a_state_in_the_middle_of_an_event_can_be_kept():
    unit = run(ball())
    unit.jump()
    reached = unit.advance(0.0, 1.0, early=True)
    waiting = unit.save()
    unit.jump()
    within = unit.save()
    unit.advance(reached, 1.0)
    end = unit.get("h"), unit.get("bounces")
    for token in (waiting, within):
        unit.restore(token)
        assert (unit.due() == reached) == (token is waiting)
        unit.advance(reached, 1.0)
        assert (unit.get("h"), unit.get("bounces")) == end
    assert end[0] == pytest.approx(height(1.0), abs=1e-6)


def test_bytes_carry_a_state_to_another_unit():
    unit = run(ball(discrete=("d",)))
    unit.set("u", [1.0, 2.0])
    unit.advance(0.0, 0.5)
    data = unit.to_bytes(unit.save())
    other = run(ball(discrete=("d",)))
    other.restore(other.from_bytes(data))
    assert (other.time, other.get("h")) == (0.5, unit.get("h"))
    assert other.to_bytes(other.save()) == data
    assert unit.advance(0.5, 1.0) == other.advance(0.5, 1.0)
    assert other.get("h") == unit.get("h")
    with pytest.raises(ModelError, match="not a state of this unit"):
        other.from_bytes(data[:40])
    with pytest.raises(ModelError, match="not a state of this unit"):
        other.from_bytes(data[:8] + b"\7" * 8 + data[16:])
    early = run(ball(discrete=("d",)))
    token = early.from_bytes(early.to_bytes(early.save()))
    early.restore(token)
    early.advance(0.0, 0.5)
    assert early.get("h") == unit.fmu.x[0] or early.get("h") == pytest.approx(height(0.5), abs=1e-6)


@pytest.mark.parametrize("solver", [DormandPrince(rtol=1e-8), Cvode(rtol=1e-8)])
def test_solvers_that_choose_their_steps_take_a_discard_as_too_far(solver):
    # x' = -x from 1, with a solver that first tries a step that leads far below what the FMU knows
    fake = Refuses([-1.0], lambda self: [-self.x[0] * 50], outputs={"x": lambda self: self.x[0]})
    fake.beyond = 0.1
    solver = type(solver)(rtol=1e-8, first=0.5)
    unit = run(fake, solver)
    unit.advance(0.0, 1.0)
    assert fake.refused > 0
    assert unit.get("x") == pytest.approx(-math.exp(-50), abs=1e-6)
    blunt = Refuses([-1.0], lambda self: [-self.x[0] * 50])
    blunt.beyond = 0.1
    with pytest.raises(FmuError, match="fmi3GetContinuousStateDerivatives was discarded"):
        run(blunt, RK4()).advance(0.0, 1.0)


def test_slopes_come_from_directional_derivatives():
    fake = Pretended(
        [1.0],
        lambda self: [0.0],
        outputs={"y": lambda self: 3 * self.u["u"]},
        directional_derivatives=True,
        jacobian=lambda self, y, u: 3.0 if (y, u) == ("y", "u") else 0.0,
    )
    assert run(fake).slope("y", "u") == [3.0]


def test_cvode_uses_the_jacobian_that_the_fmu_offers():
    asked = []

    def partial(self, unknown, known):
        asked.append((unknown, known))
        return {("der(x0)", "x1"): 1.0, ("der(x1)", "x0"): -1e6, ("der(x1)", "x1"): -1e6}.get(
            (unknown, known), 0.0
        )

    # slow and fast: x0 ≈ exp(-t) after a fast start
    fake = Pretended(
        [1.0, 0.0],
        lambda self: [self.x[1], -1e6 * (self.x[0] + self.x[1])],
        outputs={"x": lambda self: self.x[0]},
        directional_derivatives=True,
        jacobian=partial,
    )
    unit = run(fake, Cvode(rtol=1e-8, atol=1e-10))
    unit.advance(0.0, 1.0)
    assert unit.get("x") == pytest.approx(math.exp(-1), abs=1e-5)
    assert ("der(x1)", "x0") in asked


def test_indicators():
    fake = Pretended([2.0, 3.0], lambda self: [self.x[1], -G], lambda self: [self.x[0], 2 * self.x[1]])
    unit = run(fake)
    unit.advance(0.0, 1e-3)
    assert unit.indicators() == [unit.fmu.x[0], 2 * unit.fmu.x[1]]
    assert indicator_names(fake.description) == ("z0", "z1")
    assert run(Pretended()).indicators() == []


def test_an_fmu_is_asked_once_for_all_indicators():
    fake = Pretended([2.0], lambda self: [-1.0], lambda self: [self.x[0], 3 * self.x[0] + self.u["u"]])
    ports = shown(("z0", "z1"), 0)
    unit = pretended.unit(fake, DormandPrince(1e-9, 1e-11), more=(*ports, EVENTS))

    def look():
        """The indicators, and how often the FMU was asked for them."""
        before = fake.calls.count("indicators")
        return [unit.get(port.name) for port in ports], fake.calls.count("indicators") - before

    while unit.due() <= 0.0:
        unit.jump()
    assert look() == ([2.0, -2.0, 6.0, -6.0], 1)
    assert look() == ([2.0, -2.0, 6.0, -6.0], 0)
    token = unit.save()
    unit.advance(0.0, 0.5)
    assert look() == (pytest.approx([1.5, -1.5, 4.5, -4.5]), 1)
    unit.set("u", [1.0])
    assert look() == (pytest.approx([1.5, -1.5, 5.5, -5.5]), 1)
    unit.restore(token)
    assert look() == ([2.0, -2.0, 6.0, -6.0], 1)
    assert look()[1] == 0


def test_names_that_do_not_exist_are_answered_with_those_that_do():
    unit = run(ball())
    with pytest.raises(ModelError, match=r"there is no output 'hh'.*'h'"):
        unit.get("hh")
    with pytest.raises(ModelError, match=r"there is no input 'v'"):
        unit.set("v", [1.0])
