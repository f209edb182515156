"""Error control: the tolerance is kept, steps are as long as it allows, and every rejection is explained."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import upbeat as up
from upbeat.core.errors import Problems
from upbeat.master.settings import master_from, settings_of

METHODS = ("richardson", "milne", "order")
ENGINES = ("interpret", "auto")


def oscillator() -> up.Scenario:
    """x' = v and v' = -x in two units: x = cos t."""
    solver = up.DormandPrince(rtol=1e-12, atol=1e-12)
    position = up.Ode(states={"x": "v"}, start={"x": 1.0}, inputs=["v"], solver=solver)
    velocity = up.Ode(states={"v": "-x"}, inputs=["x"], solver=solver)
    return up.Scenario(units={"p": position, "q": velocity}, connections={"p.v": "q.v", "q.x": "p.x"})


def run(pace: object, until: float = 5.0, **more: object) -> up.Trace:
    return up.simulate(oscillator(), pace=pace, until=until, **{"inputs": up.Linear(), **more})


def error(trace: up.Trace) -> float:
    return float(np.abs(trace["p.x"] - np.cos(trace.time)).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("correct", ["repeat", "next"])
@pytest.mark.parametrize(
    "coupling", [up.Jacobi(), up.GaussSeidel(), up.Iterated()], ids=["jacobi", "gauss_seidel", "iterated"]
)
def test_the_error_follows_the_tolerance(method: str, correct: str, coupling: object) -> None:
    tolerances = (1e-3, 1e-4, 1e-5)
    found = [
        error(run(up.ErrorControl(t, method=method, correct=correct), coupling=coupling)) for t in tolerances
    ]
    assert np.polyfit(np.log(tolerances), np.log(found), 1)[0] == pytest.approx(1.0, abs=0.2)
    assert all(e < 5 * t for e, t in zip(found, tolerances, strict=True))


@pytest.mark.parametrize(
    ("inputs", "order"),
    [(up.Hold(), 1), (up.Linear(), 2), (up.Polynomial(3), 4), (up.Smooth(), 2), (up.Continuous(), 1)],
    ids=["hold", "linear", "cubic", "smooth", "continuous"],
)
@pytest.mark.parametrize("method", METHODS)
def test_steps_are_as_long_as_the_order_allows(method: str, inputs: object, order: int) -> None:
    """Ten times the tolerance means 10^(1/order) times the step."""
    counts = [run(up.ErrorControl(t, method=method), inputs=inputs).steps.count for t in (1e-3, 1e-4)]
    assert counts[1] / counts[0] == pytest.approx(10 ** (1 / order), rel=0.25)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        up.ErrorControl,
        st.floats(1e-2, 1.0),
        method=st.sampled_from(METHODS),
        correct=st.sampled_from(["repeat", "next"]),
        per=st.sampled_from(["run", "step"]),
        first=st.none() | st.floats(1e-6, 0.01),
        longest=st.none() | st.floats(0.01, 10.0),
        order=st.none() | st.integers(1, 6),
        safety=st.floats(0.5, 1.0),
        gains=st.tuples(st.floats(0.1, 1.0), st.floats(0.0, 0.7)),
        factors=st.tuples(st.floats(0.1, 0.9), st.floats(1.1, 5.0)),
    ),
    st.sampled_from([up.Linear(), up.Polynomial(3), up.Smooth()]),
    st.floats(0.1, 2.0),
)
def test_both_engines_take_the_same_steps(pace: up.ErrorControl, inputs: object, until: float) -> None:
    here, there = (run(pace, until=until, inputs=inputs, engine=engine) for engine in ENGINES)
    assert list(here.steps) == list(there.steps)
    np.testing.assert_array_equal(here.time, there.time)
    np.testing.assert_array_equal(here["p.x"], there["p.x"])


def test_the_halves_stand_and_the_histories_go_on(engine: str) -> None:
    """Steps that cannot be rejected or changed are pairs of fixed steps of half the size, bit for bit."""
    pace = up.ErrorControl(1e9, first=0.25, shortest=0.25, longest=0.25)
    for coupling in (up.Jacobi(), up.GaussSeidel(), up.Iterated(corrections=2)):
        halves = run(0.125, coupling=coupling, inputs=up.Polynomial(2), engine=engine)
        trace = run(pace, coupling=coupling, inputs=up.Polynomial(2), engine=engine)
        np.testing.assert_array_equal(trace["p.x"], halves["p.x"][::2])
        np.testing.assert_array_equal(trace.time, halves.time[::2])


def test_per_step_every_step_may_use_up_the_tolerance() -> None:
    run_, step = (run(up.ErrorControl(1e-4, per=per), inputs=up.Hold()) for per in ("run", "step"))
    assert step.steps.count < run_.steps.count / 5
    counts = [run(up.ErrorControl(t, per="step"), inputs=up.Hold()).steps.count for t in (1e-4, 1e-6)]
    assert counts[1] / counts[0] == pytest.approx(10, rel=0.1)


def test_rejections_are_counted_and_explained(engine: str) -> None:
    trace = run(up.ErrorControl(1e-4, first=0.5), engine=engine)
    assert trace.steps.rejected >= 1
    first = next(iter(trace.steps))
    assert first.rejected >= 1
    assert first.reason.startswith("error ")
    assert " × tolerance at " in first.reason
    assert set(first.reason.split()[-1].split(".")) <= {"p", "q", "x", "v"}
    assert "error control" in trace.steps.reasons()


def test_without_rollback_the_next_step_is_shorter_and_says_why() -> None:
    trace = run(up.ErrorControl(1e-4, method="milne", correct="next", first=0.5))
    assert trace.steps.rejected == 0
    second = list(trace.steps)[1]
    assert second.reason.endswith("in the step before")
    assert second.size < 0.5


class _Forward:
    """y' = 1 - y, without rollback."""

    def __init__(self, name: str, start: float, parameters: dict[str, object]) -> None:
        self.y = self.u = 0.0

    def get(self, port: str) -> float:
        return self.y

    def set(self, port: str, coefficients: list[float]) -> None:
        self.u = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.y += (1.0 - self.y) * (1 - np.exp(t - to))
        return to


def forward() -> up.Scenario:
    ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
    unit = up.PythonUnit(_Forward, ports)
    return up.Scenario(units={"a": unit, "b": unit}, connections={"a.u": "b.y", "b.u": "a.y"})


def test_units_without_rollback() -> None:
    for pace in (up.ErrorControl(), up.ErrorControl(method="milne"), up.ErrorControl(correct="next")):
        with pytest.raises(up.MasterError, match=r'a, b cannot be set back.*method="milne", correct="next"'):
            up.simulate(forward(), pace=pace, until=1.0)
    trace = up.simulate(forward(), pace=up.ErrorControl(1e-3, method="milne", correct="next"), until=1.0)
    assert trace["a.y"][-1] == pytest.approx(1 - np.exp(-1.0))


def test_a_jump_ends_the_run_by_name(engine: str) -> None:
    source = up.Function(outputs={"y": "1 if time > 0.5 else 0"})
    sink = up.Ode(states={"x": "u - x"}, inputs=["u"])
    scenario = up.Scenario(units={"s": source, "x": sink}, connections={"x.u": "s.y"})
    pace = up.ErrorControl(1e-4, method="milne", shortest=1e-6)
    with pytest.raises(
        up.StepError, match=r"from t = 0\.49999.*error 5e\+03 × tolerance at x\.u.*1e-06"
    ) as caught:
        up.simulate(scenario, pace=pace, until=1.0, engine=engine)
    assert caught.value.trace.time[-1] == pytest.approx(0.5, abs=1e-5)
    stands = up.ErrorControl(1e-4, method="milne", correct="next", shortest=1e-6)
    assert up.simulate(scenario, pace=stands, until=1.0, engine=engine).time[-1] == 1.0


@pytest.mark.parametrize("until", [1.0, 0.7300000001, 5.0 / 3.0])
def test_it_lands_on_the_stop_time_without_a_tiny_step(until: float) -> None:
    for first, most in itertools.product((0.1, 0.0999999), (0.1, 0.3)):
        trace = run(up.ErrorControl(1e-1, first=first, longest=most), until=until)
        assert trace.time[-1] == until
        sizes = np.diff(trace.time)
        assert sizes[-1] > 0.4 * sizes[:-1].max()
        assert sizes.max() <= most * (1 + 1e-5)


def test_limits(engine: str) -> None:
    sizes = np.diff(run(up.ErrorControl(1e-2, shortest=1e-3, longest=0.05), engine=engine).time)
    assert sizes.max() <= 0.05 * (1 + 1e-9)
    trace = run(up.ErrorControl(1e2, longest=0.05), engine=engine)
    assert "the longest step" in trace.steps.reasons()


def test_tolerance_and_nominal_of_single_ports() -> None:
    every = run(up.ErrorControl(1e-4)).steps.count
    strict = run(up.ErrorControl(1e-4, ports={"q.x": 1e-5})).steps.count
    loose = run(up.ErrorControl(1e-4, nominal={"p.x": 100.0, "q.x": 100.0, "p.v": 100.0, "q.v": 100.0}))
    assert strict > 2 * every
    assert loose.steps.count < every / 5
    quiet = {"p.v": float("inf"), "q.v": float("inf")}
    trace = run(up.ErrorControl(1e-4, ports=quiet, first=0.5))
    assert next(iter(trace.steps)).reason.endswith((".x", ".x"))


def test_arrays_and_ports_that_are_not_real(engine: str) -> None:
    solver = up.DormandPrince(rtol=1e-10, atol=1e-10)
    a = up.Ode(
        states={"x": ["u[0]", "u[1]"]}, start={"x": [1.0, 0.0]}, inputs={"u": [0.0, 0.0]}, solver=solver
    )
    b = up.Function(
        inputs={"x": [0.0, 0.0], "n": 1},
        outputs={"y": {"value": ["x[1]", "-x[0]"]}, "m": {"value": "round(x[0])", "kind": "integer"}},
    )
    scenario = up.Scenario(units={"a": a, "b": b}, connections={"a.u": "b.y", "b.x": "a.x", "b.n": "b.m"})
    trace = up.simulate(scenario, pace=up.ErrorControl(1e-5), until=3.0, inputs=up.Linear(), engine=engine)
    np.testing.assert_allclose(trace["a.x[0]"], np.cos(trace.time), atol=5e-5)


def test_a_scenario_without_real_ports_is_refused() -> None:
    unit = up.Function(outputs={"y": {"value": "time > 1", "kind": "boolean"}})
    with pytest.raises(up.MasterError, match="no real port"):
        up.simulate(up.Scenario(units={"a": unit}, connections={}), pace=up.ErrorControl(), until=1.0)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"tolerance": 0}, "tolerance of ErrorControl must be positive"),
        ({"shortest": 1.0, "longest": 0.1}, "shortest step of ErrorControl"),
        ({"method": "euler"}, 'method of ErrorControl must be one of "richardson", "milne", "order"'),
        ({"correct": "never"}, 'correct of ErrorControl must be "repeat" or "next"'),
        ({"order": 0}, "order of ErrorControl"),
        ({"safety": 1.5}, "safety of ErrorControl"),
        ({"gains": (0.3,)}, "gains of ErrorControl"),
        ({"factors": (1.5, 2.0)}, "factors of ErrorControl"),
        ({"ports": {"a.b": -1}}, "ports of ErrorControl"),
    ],
)
def test_settings_are_checked(given_: dict[str, object], message: str) -> None:
    with pytest.raises(up.InvalidInput, match=message):
        up.ErrorControl(**given_)


def test_unknown_ports_are_named() -> None:
    with pytest.raises(up.MasterError, match=r"cannot watch 'q\.y'.*'q\.x'"):
        run(up.ErrorControl(ports={"q.y": 1e-3}))
    with pytest.raises(up.MasterError, match=r"cannot watch 'q\.x\.'"):
        run(up.ErrorControl(nominal={"q.x.": 2.0}, method="milne"))


def test_in_files() -> None:
    problems = Problems()
    written = {
        "inputs": "linear",
        "pace": {"kind": "error_control", "tolerance": 1e-5, "ports": {"q.x": 1e-6}, "gains": [0.4, 0.2]},
    }
    master = master_from(written, problems)
    assert not problems.found
    assert master is not None
    assert master.pace == up.ErrorControl(1e-5, ports={"q.x": 1e-6}, gains=(0.4, 0.2))
    assert master_from(settings_of(master), problems) == master


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tolerance": 1e-300}, "the tolerance of ErrorControl, 1e-300, is below what rounding leaves"),
        ({"tolerance": 1e-15}, "take at least 1e-14"),
        ({"ports": {"a.x": 1e-20}}, "the tolerance for 'a.x' of ErrorControl, 1e-20, is below"),
        (
            {"first": 1.0, "longest": 0.5},
            r"first step of ErrorControl \(1\) is longer than .longest. \(0.5\)",
        ),
    ],
)
def test_settings_that_lead_nowhere_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(up.MasterError, match=words):
        up.ErrorControl(**settings)  # type: ignore[arg-type]


def test_a_longest_step_that_would_never_get_there_is_refused(engine: str) -> None:
    scenario = up.Scenario(units={"a": up.Ode(states={"x": "-x"}, start={"x": 1.0})})
    with pytest.raises(
        up.InvalidInput, match=r"longest step of ErrorControl \(1e-20\) would mean 1e15 steps"
    ):
        up.simulate(scenario, pace=up.ErrorControl(1e-3, longest=1e-20), until=1.0, engine=engine)


def test_a_step_that_is_rejected_again_and_again_comes_with_advice(engine: str) -> None:
    """A jump of an input at t = 0.5 is no error that gets smaller with the step."""
    source = up.Function(outputs={"y": "time > 0.5"})
    total = up.Ode(states={"x": "u"}, inputs=["u"])
    scenario = up.Scenario(units={"s": source, "t": total}, connections={"t.u": "s.y"})
    pace = up.ErrorControl(1e-3, method="milne", shortest=1e-300, factors=(0.999, 2.0), safety=0.9999)
    with pytest.raises(up.StepError, match=r'rejected 100 times; .*correct="next"|cannot be shorter'):
        up.simulate(scenario, pace=pace, until=1.0, engine=engine)


def test_units_whose_own_solvers_are_too_rough_are_named() -> None:
    def notes(rtol: float) -> str:
        unit = up.Ode(states={"x": "-x"}, start={"x": 1.0}, solver=up.DormandPrince(rtol=rtol, atol=rtol))
        made = up.experiment(up.Scenario(units={"a": unit}), pace=up.ErrorControl(1e-5), until=1.0)
        return "; ".join(made.plan.program.notes)

    assert "the solvers of a are not a hundred times as accurate as the tolerance of 1e-05" in notes(1e-6)
    assert "accurate" not in notes(1e-7)


# ------------------------------------------------ jumps nobody declared, states nobody gives out


def test_one_jump_that_nobody_declared_costs_a_few_steps(engine: str) -> None:
    """Steps shrink by orders of magnitude there, and are soon as long as they were without it."""
    follower = up.Ode({"x": "u - x"}, inputs=["u"], solver=up.DormandPrince(rtol=1e-10, atol=1e-12))
    counts = []
    for signal in ("sin(time)", "sin(time) + (1 if time > 3 else 0)"):
        source = up.Function(outputs={"y": signal})
        scenario = up.Scenario({"source": source, "follower": follower}, {"follower.u": "source.y"})
        trace = up.simulate(
            scenario,
            pace=up.ErrorControl(1e-4, method="order"),
            until=10.0,
            inputs=up.Linear(),
            engine=engine,
        )
        counts.append(len(trace.time))
    assert counts[1] <= 1.3 * counts[0]


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
@pytest.mark.parametrize("inputs", [up.Linear(), up.Hermite(1), up.Polynomial(2)], ids=str)
def test_a_jump_of_a_rate_takes_what_other_steps_have_left_over(
    inputs: up.Approximation, tolerance: float
) -> None:
    """No step across it is short enough for its share of the tolerance: such runs ended with an error."""
    solver = up.DormandPrince(rtol=1e-12, atol=1e-14)
    counts = []
    for push in ("0", "(5 if time > 3 else 0)"):
        mass = up.Ode(
            {"x": "v", "v": "-4*x - 0.5*v + u"}, inputs=["u"], outputs=["x"], start={"x": 1.0}, solver=solver
        )
        lag = up.Ode({"y": f"x - y + {push}"}, inputs=["x"], outputs=["y"], solver=solver)
        scenario = up.Scenario({"mass": mass, "lag": lag}, {"mass.u": "lag.y", "lag.x": "mass.x"})
        trace = up.simulate(scenario, pace=up.ErrorControl(tolerance), until=10.0, inputs=inputs)
        counts.append(len(trace.time))
    assert counts[1] <= 3 * counts[0] + 50
    # The motion is linear with a constant push in both parts: exponentials of a matrix, for judge.
    matrix = np.array([[0, 1, 0, 0], [-4, -0.5, 1, 0], [1, 0, -1, 5], [0, 0, 0, 0]], dtype=float)
    free = matrix.copy()
    free[:, 3] = 0
    before = np.array([1.0, 0.0, 0.0, 1.0])
    after = expm(3 * free) @ before
    some = slice(None, None, 1 + len(trace.time) // 100)
    times, found = trace.time[some], trace["mass.x"][some]
    true = np.array(
        [(expm(t * free) @ before if t <= 3 else expm((t - 3) * matrix) @ after)[0] for t in times]
    )
    assert (np.abs(found - true) / (1 + np.abs(true))).max() < tolerance


def test_a_signal_that_jumps_at_an_event_of_its_unit(engine: str) -> None:
    """The event ends no step: what follows sees it at the next communication point."""
    leap = up.Ode({"x": "0"}, outputs=["x"], events={"leap": {"when": "time >= 3", "then": {"x": "x + 1"}}})
    other = up.Ode({"y": "u - y"}, inputs=["u"], outputs=["y"])
    scenario = up.Scenario({"leap": leap, "other": other}, {"other.u": "leap.x"})
    trace = up.simulate(scenario, pace=up.ErrorControl(1e-4), until=10.0, inputs="linear", engine=engine)
    true = np.where(trace.time < 3, 0.0, 1 - np.exp(3 - trace.time))
    assert np.abs(trace["other.y"] - true).max() < 2e-4


def test_events_that_it_does_not_look_at_are_a_warning() -> None:
    """They were noticed up to a step late, 0.6 off in this run, and the tolerance said nothing of that."""
    leap = up.Ode({"x": "0", "c": "1"}, outputs=["x", "c"])
    other = up.Ode({"y": "u - y"}, inputs=["u"], outputs=["y"])
    events = {"leap": {"when": "leap.c >= 3.1 and leap.x < 0.5", "then": {"leap.x": "leap.x + 1"}}}
    scenario = up.Scenario({"leap": leap, "other": other}, {"other.u": "leap.x"}, events=events)
    pace = up.ErrorControl(1e-4)
    said = "ErrorControl does not look at events"
    assert said in up.summary(up.simulate(scenario, pace=pace, until=10.0))
    for more in ({"events": "auto"}, {"coupling": up.Interruptible()}):
        trace = up.simulate(scenario, pace=pace, until=10.0, **more)  # type: ignore[arg-type]
        assert said not in up.summary(trace)
        true = np.where(trace.time < 3.1, 0.0, 1 - np.exp(3.1 - trace.time))
        assert np.abs(trace["other.y"] - true).max() < 1e-4


@pytest.mark.parametrize("settings", [{"method": "order"}, {"correct": "next"}])
def test_jumps_inside_that_it_does_not_go_back_to_are_a_warning(settings: Any) -> None:
    """0.6 and 0.2 off, without a word."""
    event = {"when": "c >= 3.1 and x < 0.5", "then": {"x": "x + 1"}}
    leap = up.Ode({"x": "0", "c": "1"}, outputs=["x"], events={"leap": event})
    other = up.Ode({"y": "u - y"}, inputs=["u"], outputs=["y"])
    scenario = up.Scenario({"leap": leap, "other": other}, {"other.u": "leap.x"})
    how: Any = {"pace": up.ErrorControl(1e-4, **settings), "until": 10.0, "inputs": "linear"}
    errors, said = [], []
    for coupling in ("jacobi", "negotiated"):
        trace = up.simulate(scenario, coupling=coupling, **how)
        true = np.where(trace.time < 3.1, 0.0, 1 - np.exp(3.1 - trace.time))
        errors.append(np.abs(trace["other.y"] - true).max())
        said.append("those that follow leap get events from inside up to a step late" in up.summary(trace))
    assert said == [True, False]
    assert errors[1] < 0.05 * errors[0]
    alone = up.simulate(up.Scenario({"leap": leap, "other": other}, {"other.u": 0.0}), **how)
    assert "Warning" not in up.summary(alone)


@pytest.mark.parametrize("at", [0.31, 3.1, 3.37, 7.77])
@pytest.mark.parametrize("inputs", ["hold", "linear", up.Polynomial(3)], ids=str)
def test_a_jump_inside_a_unit_is_in_the_first_half_of_a_step(engine: str, at: float, inputs: Any) -> None:
    """In the second half, the whole step and its halves agree on what is wrong: up to 0.2 off, silently."""
    event = {"when": f"c >= {at} and x < 0.5", "then": {"x": "x + 1"}}
    leap = up.Ode({"x": "0", "c": "1"}, outputs=["x"], events={"leap": event})
    for nested in (False, True):
        inner = up.Scenario({"leap": leap}, outputs={"x": "leap.x"})
        unit = up.Nested(inner, up.Master(up.Fixed(0.05)), flatten=False) if nested else leap
        other = up.Ode({"y": "u - y"}, inputs=["u"], outputs=["y"])
        scenario = up.Scenario({"leap": unit, "other": other}, {"other.u": "leap.x"})
        pace = up.ErrorControl(1e-3)
        trace = up.simulate(scenario, pace=pace, until=10.0, inputs=inputs, engine=engine)
        true = np.where(trace.time < at, 0.0, 1 - np.exp(at - trace.time))
        assert np.abs(trace["other.y"] - true).max() < 1e-3


def test_states_that_are_not_given_out_are_watched() -> None:
    """Errors of velocities used to make those of positions grow past any tolerance (slope 0.6)."""
    equations = {"x": "v", "v": "-k*x - 0.4*(x - u)"}
    solver = up.DormandPrince(rtol=1e-12, atol=1e-14)
    mass = up.Ode(
        equations, inputs=["u"], outputs=["x"], start={"x": 1.0}, parameters={"k": 1.0}, solver=solver
    )
    units = {"a": mass, "b": mass.with_values({"x": -0.5, "k": 2.0})}
    scenario = up.Scenario(units, {"a.u": "b.x", "b.u": "a.x"})
    matrix = np.array([[0, 1, 0, 0], [-1.4, 0, 0.4, 0], [0, 0, 0, 1], [0.4, 0, -2.4, 0]], dtype=float)
    values, vectors = np.linalg.eig(matrix)
    modes = np.linalg.solve(vectors, np.array([1.0, 0.0, -0.5, 0.0]))
    errors = []
    for tolerance in (1e-3, 1e-5):
        trace = up.simulate(scenario, pace=up.ErrorControl(tolerance), until=20.0, inputs=up.Linear())
        true = (vectors @ (np.exp(np.outer(values, trace.time)) * modes[:, None])).real
        errors.append(max(abs(trace["a.x"] - true[0]).max(), abs(trace["b.x"] - true[2]).max()))
        assert errors[-1] < tolerance
        assert trace.names == ("a.x", "b.x")
    assert np.log(errors[0] / errors[1]) / np.log(100.0) > 0.9


def test_what_is_not_watched_is_said() -> None:
    """A nested scenario, run as a unit, keeps its states to itself."""
    inner = up.Scenario(
        {"lag": up.Ode({"x": "u - x"}, inputs=["u"], outputs={"y": "2*x"})},
        {"lag.u": "u"},
        inputs=["u"],
        outputs={"y": "lag.y"},
    )
    nest = up.Nested(inner, up.Master(up.Fixed(0.01)), flatten=False)
    source = up.Function(outputs={"y": "sin(time)"})
    scenario = up.Scenario({"nest": nest, "source": source}, {"nest.u": "source.y"})
    trace = up.simulate(scenario, pace=up.ErrorControl(1e-2), until=1.0)
    assert any(note.startswith("of nest only outputs are watched") for note in trace.notes)


@pytest.mark.parametrize("inputs", [up.Smooth(), up.Linear()], ids=str)
def test_steps_may_become_much_shorter_at_an_event(inputs: object, engine: str) -> None:
    """The trajectory of a smooth input begins again, and steps as short as the tolerance asks for are no
    exceptions among the longer ones before it. It went straight on, off by what no step could make good."""
    equations = {"x": "v", "v": "-2*x - 0.2*v + 0.5*u"}
    kicked: Any = {
        "inputs": {"u": {}, "kick": {"event": True, "kind": "real"}},
        "events": {"kicked": {"on": "kick", "then": {"v": "v + kick"}}},
        "solver": up.DormandPrince(rtol=1e-8, atol=1e-10),
    }
    one, other = (up.Ode(equations, start={"x": x}, outputs=["x"], **kicked) for x in (1.0, -0.5))
    units = {"a": one, "b": other, "kicks": up.Schedule([0.2, 0.9], [0.8, -1.0])}
    links = {"a.u": "b.x", "b.u": "a.x", "a.kick": "kicks.event"}
    pace = up.ErrorControl(1e-4, method="milne", longest=0.13)
    trace = up.simulate(up.Scenario(units, links), pace=pace, until=2.0, inputs=inputs, engine=engine)

    # The whole in closed form: the sum and the difference of both move on their own.
    def mode(k: float, x: float, v: float, t: float) -> tuple[float, float]:
        w, d = math.sqrt(k - 0.01), math.exp(-0.1 * t)
        c, s = math.cos(w * t), math.sin(w * t)
        b = (v + 0.1 * x) / w
        return d * (x * c + b * s), d * (v * c - (k * x + 0.1 * v) / w * s)

    together, apart, begun = (0.5, 0.0), (1.5, 0.0), 0.0
    for t, kick in ((0.2, 0.8), (0.9, -1.0), (2.0, 0.0)):
        together, apart = mode(1.5, *together, t - begun), mode(2.5, *apart, t - begun)
        together, apart = (together[0], together[1] + kick), (apart[0], apart[1] + kick)
        begun = t
    assert trace["a.x"][-1] == pytest.approx((together[0] + apart[0]) / 2, abs=2e-4)
    assert trace["b.x"][-1] == pytest.approx((together[0] - apart[0]) / 2, abs=2e-4)
