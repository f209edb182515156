"""What inputs do between communication points, seen by an integrator and checked against closed forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import upbeat as up
from conftest import ENGINES
from upbeat.master.program import Blocks
from upbeat.master.registers import Steps
from upbeat.master.wiring import Wiring

H, N = 0.25, 12
T = H * np.arange(N + 1)
SOURCE_FIRST = up.GaussSeidel(order=("source", "sum"))


def integral(engine: str, signal: str, inputs: object, coupling: object = None, **rates: str) -> np.ndarray:
    """∫ u dt where u follows `signal`, by RK4 with enough solver steps to be exact for quintics."""
    outputs: dict[str, object] = {"y": {"value": signal, "derivative": "dy"} if rates else signal}
    if rates:
        outputs["dy"] = {"value": rates["first"], **({"derivative": "ddy"} if "second" in rates else {})}
    if "second" in rates:
        outputs["ddy"] = rates["second"]
    source = up.Function(outputs=outputs)
    total = up.Ode(states={"x": "u"}, inputs=["u"], solver=up.DormandPrince(rtol=1e-12, atol=1e-13))
    scenario = up.Scenario(units={"sum": total, "source": source}, connections={"sum.u": "source.y"})
    return up.simulate(scenario, pace=H, until=N * H, inputs=inputs, coupling=coupling, engine=engine)[
        "sum.x"
    ]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_polynomial_continues_polynomials_of_its_degree(engine: str, order: int) -> None:
    found = integral(engine, f"1 + time**{order}", up.Polynomial(order))
    exact = T + T ** (order + 1) / (order + 1)
    steps, true = np.diff(found), np.diff(exact)
    np.testing.assert_allclose(steps[order:], true[order:], rtol=1e-9)
    assert abs(steps[0] - true[0]) > 1e-6, "the first step has no history"


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_polynomial_interpolates_one_degree_earlier(engine: str, order: int) -> None:
    found = integral(engine, f"1 + time**{order}", up.Polynomial(order), SOURCE_FIRST)
    np.testing.assert_allclose(
        np.diff(found)[order - 1 :], np.diff(T + T ** (order + 1) / (order + 1))[order - 1 :], rtol=1e-9
    )


def test_hermite_with_one_derivative_is_exact_for_cubics(engine: str) -> None:
    found = integral(engine, "time**3", up.Hermite(1), first="3*time**2")
    np.testing.assert_allclose(np.diff(found)[1:], np.diff(T**4 / 4)[1:], rtol=1e-9)


def test_hermite_with_two_derivatives_is_exact_for_quintics(engine: str) -> None:
    found = integral(engine, "time**5", up.Hermite(2), first="5*time**4", second="20*time**3")
    np.testing.assert_allclose(np.diff(found)[1:], np.diff(T**6 / 6)[1:], rtol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_taylor_goes_on_with_the_derivatives_of_now(engine: str, order: int) -> None:
    """Of t³ the input is t³ + 3t²·τ (+ 3t·τ²), from the first step on."""
    found = integral(engine, "time**3", up.Taylor(order), first="3*time**2", second="6*time")
    t = T[:-1]
    steps = H * t**3 + 3 * t**2 * H**2 / 2 + (3 * t * H**3 / 3 if order == 2 else 0.0)
    np.testing.assert_allclose(np.diff(found), steps, rtol=1e-9, atol=1e-15)


def test_hermite_interpolates_cubics_from_the_first_step_on(engine: str) -> None:
    found = integral(engine, "1 + time**3", up.Hermite(1), SOURCE_FIRST, first="3*time**2")
    np.testing.assert_allclose(found, T + T**4 / 4, rtol=1e-9)


def test_hermite_takes_derivatives_through_the_connection(engine: str) -> None:
    """u = 2·a.y - b.y² has the rate 2·a.dy - 2·b.y·b.dy."""
    a = up.Function(outputs={"y": {"value": "time**3", "derivative": "dy"}, "dy": "3*time**2"})
    b = up.Function(outputs={"y": {"value": "time", "derivative": "dy"}, "dy": "1 + 0*time"})
    total = up.Ode(states={"x": "u"}, inputs=["u"], solver=up.DormandPrince(rtol=1e-12, atol=1e-13))
    scenario = up.Scenario(units={"s": total, "a": a, "b": b}, connections={"s.u": "2*a.y - b.y*b.y"})
    trace = up.simulate(scenario, pace=H, until=N * H, inputs=up.Hermite(1), engine=engine)
    np.testing.assert_allclose(np.diff(trace["s.x"])[1:], np.diff(T**4 / 2 - T**3 / 3)[1:], rtol=1e-9)


def test_hermite_says_which_derivative_is_missing() -> None:
    units = {
        "source": up.PythonFunction(lambda t, u, p: [t], outputs=["y"]),
        "sum": up.Ode(states={"x": "u"}, inputs=["u"]),
    }
    scenario = up.Scenario(units, {"sum.u": "source.y"})
    with pytest.raises(
        up.MasterError, match=r"sum\.u.*source\.y does not say which output is its derivative"
    ):
        up.simulate(scenario, pace=H, until=1.0, ports={"sum.u": up.Hermite(1)})


def test_hermite_takes_derivatives_from_equations(engine: str) -> None:
    """Nobody declares that of 1 + t³; it is what it would be if somebody did."""
    found = integral(engine, "1 + time**3", up.Hermite(1), SOURCE_FIRST)
    np.testing.assert_allclose(found, T + T**4 / 4, rtol=1e-9)


def test_continuous_inputs_never_jump(engine: str) -> None:
    """From where the last trajectory ended to the latest value: the area is h·(u[n-1] + u[n])/2."""
    u = np.cos(T)
    found = integral(engine, "cos(time)", up.Continuous())
    expected = H * np.concatenate([[u[0]], (u[:-2] + u[1:-1]) / 2])
    np.testing.assert_allclose(np.diff(found), expected, rtol=1e-9)


def probe(seen: list[tuple[float, list[float]]]) -> up.PythonUnit:
    """A unit that notes the length of every step and the coefficients of its input `u` over it."""

    class Probe:
        def __init__(self, name: str, start: float, parameters: dict[str, object]) -> None:
            self.trajectory: list[float] = []

        def get(self, port: str) -> float:
            return 0.0

        def set(self, port: str, coefficients: list[float]) -> None:
            self.trajectory = list(coefficients)

        def advance(self, t: float, to: float, early: bool) -> float:
            seen.append((to - t, self.trajectory))
            return to

    return up.PythonUnit(Probe, (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT)))


def trajectories(engine: str, inputs: object) -> list[tuple[float, list[float]]]:
    """The length and the coefficients of the trajectory that an input was handed in each step."""
    seen: list[tuple[float, list[float]]] = []
    source = up.Function(outputs={"y": "sin(time)"})
    scenario = up.Scenario(units={"s": probe(seen), "source": source}, connections={"s.u": "source.y"})
    up.simulate(scenario, pace=H, until=N * H, inputs=inputs, engine=engine)
    return seen


@pytest.mark.parametrize(("inputs", "smoothness"), [(up.Continuous(), 1), (up.Smooth(), 2)])
def test_trajectories_join_without_jumps_or_kinks(engine: str, inputs: object, smoothness: int) -> None:
    found = trajectories(engine, inputs)
    assert len(found) == N
    for (length, before), (_, after) in pairwise(found):
        left, right = np.polynomial.Polynomial(before), np.polynomial.Polynomial(after)
        for k in range(smoothness):
            assert left.deriv(k)(length) == pytest.approx(right.deriv(k)(0.0), abs=1e-12)


def test_smooth_trajectories_arrive_where_linear_extrapolation_would(engine: str) -> None:
    for k, (length, trajectory) in enumerate(trajectories(engine, up.Smooth())[1:], 1):
        expected = 2 * np.sin(k * H) - np.sin((k - 1) * H)
        assert np.polynomial.Polynomial(trajectory)(length) == pytest.approx(expected, abs=1e-12)


def test_histories_survive_a_repeated_exchange(engine: str) -> None:
    """Setting another input exchanges again at the same instant: the history must not see that as a step."""
    total = up.Ode(states={"x": "u + w"}, inputs=["u", "w"], solver=up.RK4())
    clock = up.Function(outputs={"y": "time"})
    scenario = up.Scenario(units={"s": total, "c": clock}, connections={"s.u": "c.y"})
    with up.start(scenario, pace=H, until=N * H, inputs=up.Linear(), engine=engine) as run:
        while not run.finished:
            run.set("s.w", 0.0)
            run.step()
        assert run["s.x"] == pytest.approx(T[-1] ** 2 / 2 - H**2 / 2, rel=1e-12)


def test_derivatives_of_a_scenario_input_are_not_asked_for_where_none_can_be_given() -> None:
    total = up.Ode(states={"x": "q"}, inputs=["q"])
    scenario = up.Scenario(units={"s": total}, connections={"s.q": "f"}, inputs=["f"])
    with pytest.raises(up.MasterError, match=r"'f' is an input of the scenario.*\"s\.q\" = \"linear\""):
        up.simulate(scenario, pace=0.1, until=1.0, ports={"s.q": up.Hermite()})


def test_setting_an_input_restarts_what_follows_it(engine: str) -> None:
    """x' = q with q set from 0 to 1 at t = 0.3 is 0.7 at t = 1, whatever the approximation."""
    gain = up.Function(inputs=["u"], outputs={"y": "u"})
    total = up.Ode(states={"x": "q", "t": "r"}, inputs=["q", "r"], solver=up.RK4())
    clock = up.Function(outputs={"y": "time"})
    scenario = up.Scenario(
        units={"gain": gain, "direct": total, "behind": total, "clock": clock},
        connections={"gain.u": "f", "direct.q": "f", "behind.q": "gain.y", "behind.r": "clock.y"},
        inputs=["f"],
    )
    kinds = [up.Hold(), up.Linear(), up.Polynomial(2), up.Polynomial(5), up.Continuous(), up.Smooth()]
    kinds += [up.Nepce(), up.Nepce(up.Polynomial(2))]
    couplings = [up.Jacobi(), up.GaussSeidel(), up.MultiRate({"behind": 2}), up.Jacobi(outputs="lagged")]
    for kind, coupling in product(kinds, couplings):
        settings = {"pace": 0.1, "until": 1.0, "inputs": kind, "coupling": coupling, "engine": engine}
        with up.start(scenario, **settings) as run:
            for _ in range(3):
                run.step()
            run.set("f", 1.0)
            run.finish()
            assert run.trace["direct.x"][-1] == pytest.approx(0.7, abs=1e-12), (kind, coupling)
            if coupling != up.Jacobi(outputs="lagged"):  # where the jump arrives a step later, as any change
                assert run.trace["behind.x"][-1] == pytest.approx(0.7, abs=1e-12), (kind, coupling)
        if coupling == up.Jacobi() and kind == up.Linear():  # what does not follow it keeps its history
            assert run.trace["behind.t"][-1] == pytest.approx(0.5 - 0.1**2 / 2, abs=1e-12)


def test_a_history_can_go_on_when_an_input_is_set(engine: str) -> None:
    """A ramp that is set by hand, step by step, is followed as one that comes from a unit."""
    total = up.Ode(states={"x": "q"}, inputs=["q"], solver=up.RK4())
    scenario = up.Scenario(units={"s": total}, connections={"s.q": "f"}, inputs=["f"])
    with up.start(scenario, pace=H, until=N * H, inputs=up.Linear(), engine=engine) as run:
        while not run.finished:
            run.set("f", run.time, restart=False)
            run.step()
        assert run["s.x"] == pytest.approx(T[-1] ** 2 / 2 - H**2 / 2, rel=1e-12)


class Restarting:
    """A coupling whose exchanges from outside forget the history of s.u."""

    def __init__(self, inner: up.Jacobi | up.GaussSeidel) -> None:
        self.inner = inner

    def blocks(self, wiring: Wiring) -> Blocks:
        made = self.inner.blocks(wiring)
        return replace(made, exchange=(*wiring.restart(("s", "u")), *made.exchange))


@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel(order=("source", "s"))], ids=["J", "GS"])
@pytest.mark.parametrize(
    "inputs",
    [
        up.Hold(),
        up.Linear(),
        up.Polynomial(3),
        up.Hermite(1),
        up.Hermite(2),
        up.Continuous(),
        up.Smooth(),
        up.Nepce(),
        up.Nepce(up.Linear()),
        up.Nepce(up.Hermite(1)),
    ],
    ids=str,
)
def test_a_restarted_history_is_as_good_as_none(engine: str, inputs: object, coupling: object) -> None:
    """After a jump and a restart, the trajectories are those of a run that begins there."""
    source = up.Function(
        inputs=["k"],
        outputs={
            "y": {"value": "k + sin(time)", "derivative": "dy"},
            "dy": {"value": "cos(time)", "derivative": "ddy"},
            "ddy": "-sin(time)",
        },
    )

    def run(start: float, jumps: bool) -> list[tuple[float, list[float]]]:
        seen: list[tuple[float, list[float]]] = []
        scenario = up.Scenario(
            units={"s": probe(seen), "source": source.with_values({"k": 0.0 if jumps else 5.0})},
            connections={"s.u": "source.y"},
        )
        chosen = Restarting(coupling) if jumps else coupling
        kept = {"pace": H, "until": N * H, "inputs": inputs, "coupling": chosen, "engine": engine}
        with up.start(scenario, start=start, **kept) as going:
            while jumps and going.time < 6 * H:
                going.step()
            if jumps:
                going.set("source.k", 5.0)
            going.finish()
        return seen

    restarted, fresh = run(0.0, jumps=True)[6:], run(6 * H, jumps=False)
    assert len(restarted) == len(fresh) == 6
    for (length, trajectory), (other, expected) in zip(restarted, fresh, strict=True):
        assert length == other
        assert trajectory == pytest.approx(expected, abs=1e-12)


def test_a_smooth_trajectory_starts_level_after_a_restart(engine: str) -> None:
    """Nothing is known of the slope, so the value is held: the coefficients are 5, 0, 0, 0."""
    seen: list[tuple[float, list[float]]] = []
    source = up.Function(inputs=["k"], outputs={"y": "k + time"})
    scenario = up.Scenario(units={"s": probe(seen), "source": source}, connections={"s.u": "source.y"})
    coupling = Restarting(up.Jacobi())
    with up.start(
        scenario, pace=H, until=N * H, inputs=up.Smooth(), coupling=coupling, engine=engine
    ) as going:
        going.step()
        going.step()
        going.set("source.k", 5.0 - 2 * H)
        going.step()
    assert seen[2][1] == [5.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("method", ["milne", "order"])
def test_estimates_forget_with_the_input(method: str) -> None:
    """What an error control expects of an input restarts with it: the histories kept beside count too."""
    source = up.Function(outputs={"y": "time"})
    total = up.Ode(states={"x": "u"}, inputs=["u"])
    scenario = up.Scenario(units={"s": total, "source": source}, connections={"s.u": "source.y"})
    wiring = Wiring(scenario, up.Polynomial(2), {})
    made = up.Jacobi().blocks(wiring)
    alone = len(wiring.restart(("s", "u")))
    steps = Steps(wiring.registers, wiring.now, wiring.next, ["step"])
    up.ErrorControl(1e-3, method=method, correct="next").write(steps, made, wiring)
    kept = {"milne": 3, "order": 3 + 4}[method]  # as many points as the polynomials go through
    assert (alone, len(wiring.restart(("s", "u")))) == (3, 3 + kept)
    assert wiring.restart(("source", "y")) == []


@pytest.mark.parametrize("bad", [0, 6, 1.5, True, "two"])
def test_orders_are_small_whole_numbers(bad: object) -> None:
    with pytest.raises(up.MasterError, match="from 1 to 5"):
        up.Polynomial(bad)  # type: ignore[arg-type]
    with pytest.raises(up.MasterError, match="1 or 2"):
        up.Hermite(3)


# ---------------------------------------------------------------- steps of any length

INPUTS = [
    up.Linear(),
    up.Polynomial(3),
    up.Polynomial(5),
    up.Hermite(1),
    up.Hermite(2),
    up.Continuous(),
    up.Smooth(),
    up.Nepce(up.Linear()),
]


def oscillators(*ticks: float) -> up.Scenario:
    """Two of them, coupled by a spring; and somebody who ticks, to whom nobody listens."""
    equations = {"x": "v", "v": "-k*x - 0.4*(x - u)"}
    one = up.Ode(
        equations, inputs=["u"], outputs=["x"], start={"x": 1.0}, parameters={"k": 1.0}, solver=EXACT
    )
    units: dict[str, up.Model] = {"a": one, "b": one.with_values({"x": -0.5, "k": 2.0})}
    if ticks:
        units["ticks"] = up.Schedule(list(ticks))
    return up.Scenario(units, {"a.u": "b.x", "b.u": "a.x"})


EXACT = up.DormandPrince(rtol=1e-11, atol=1e-13)
MATRIX = np.array([[0, 1, 0, 0], [-1.4, 0, 0.4, 0], [0, 0, 0, 1], [0.4, 0, -2.4, 0]], dtype=float)


def wrong(trace: up.Trace) -> float:
    """The largest error of a position, by eigenvectors of the whole."""
    values, vectors = np.linalg.eig(MATRIX)
    modes = np.linalg.solve(vectors, np.array([1.0, 0.0, -0.5, 0.0]))
    true = (vectors @ (np.exp(np.outer(values, trace.time)) * modes[:, None])).real
    return float(max(abs(trace["a.x"] - true[0]).max(), abs(trace["b.x"] - true[2]).max()))


@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel()], ids=["jacobi", "gauss_seidel"])
@pytest.mark.parametrize("inputs", INPUTS, ids=str)
@pytest.mark.parametrize(
    "ticks",
    [
        (3e-6,),
        (2.0 + 1e-10,),
        (2.0 - 1e-7, 4.0 + 1e-4),
        (2.0 + 1e-7, 2.0 + 2e-7, 2.0 + 3e-7),
        (2.001, 2.002, 2.003, 2.01, 2.03, 2.06),
        tuple(0.1 * k + 1e-6 for k in range(1, 50)),
    ],
    ids=["at the start", "a hair behind", "before", "three in a row", "ever later", "each step"],
)
def test_a_tick_next_to_another_does_no_harm(
    inputs: object, coupling: object, ticks: tuple[float, ...]
) -> None:
    """It used to: differences between points that are close together were continued over a whole step."""
    how = {"until": 5.0, "inputs": inputs, "coupling": coupling}
    plain, ticked = (up.simulate(oscillators(*some), pace=0.1, **how) for some in ((), ticks))
    assert wrong(ticked) <= 1.5 * wrong(plain) + 1e-8
    driven = up.simulate(oscillators(*ticks), pace=up.EventDriven(0.1), **how)
    assert wrong(driven) <= 1.5 * wrong(plain) + 1e-8


@pytest.mark.parametrize("inputs", [up.Linear(), up.Hermite(2), up.Smooth()], ids=str)
def test_engines_agree_on_steps_of_all_lengths(inputs: object) -> None:
    sizes = np.random.default_rng(4).uniform(-9, -1, 30)
    pace = up.Pattern([float(10**size) for size in sizes])
    runs = [up.simulate(oscillators(), pace=pace, until=1.0, inputs=inputs, engine=e) for e in ENGINES]
    for trace in runs:
        np.testing.assert_array_equal(trace["a.x"], runs[0]["a.x"])
        np.testing.assert_array_equal(trace.time, runs[0].time)


def test_a_line_is_a_line_again_soon_after_steps_have_become_shorter(engine: str) -> None:
    """Once a step was a thousand times as long as those after it, its start was kept for ever."""
    pace = up.Pattern([0.2, *[0.2 / 5000] * 400])
    source = up.Ode({"y": "2*time"}, solver=EXACT)
    total = up.Ode({"x": "u"}, inputs=["u"], solver=EXACT)
    scenario = up.Scenario({"sum": total, "source": source}, {"sum.u": "source.y"})
    trace = up.simulate(scenario, pace=pace, until=0.21, inputs=up.Linear(), engine=engine)
    late = np.diff(trace["sum.x"])[40:200] - np.diff(trace.time**3 / 3)[40:200]
    step = 0.2 / 5000
    # The error of a line through the last two points: ∫ τ·(τ + h) dτ over a step, or 5/6·h³.
    np.testing.assert_allclose(late, -5 / 6 * step**3, atol=1e-15)


def test_a_point_of_the_grid_a_hair_behind_an_event_is_left_out(engine: str) -> None:
    trace = up.simulate(oscillators(0.29999, 0.55), pace=0.1, until=0.7, engine=engine)
    np.testing.assert_allclose(trace.time, [0, 0.1, 0.2, 0.29999, 0.4, 0.5, 0.55, 0.6, 0.7], atol=1e-15)
