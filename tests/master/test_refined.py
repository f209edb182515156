"""The refined coupling: no delay where none is needed, and exactly the delays that others or users want."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from upbeat.core.ports import Port
from upbeat.engine.native import machine as native

ENGINES = ["interpret", "native"] if native.available() else ["interpret"]
ENGINE_FILE = Path(__file__).parents[2] / "examples" / "ten_units.toml"
H, N = 0.1, 40


def figure_5() -> up.Scenario:
    """Figure 5 of the paper, as far as its text tells: A and B both have direct feedthrough, and Y_B2 goes to
    U_A1, Y_A1 to U_B3, on which Y_B1 depends directly. Most of what B gives out is slow."""
    a = up.Ode(
        {"x": "u1"}, inputs=["u1", "u2"], outputs={"y1": "x", "y2": "2*x", "y3": "x + u2"}, solver=up.RK4()
    )
    b = up.Ode(
        {"x": "0.01"},
        start={"x": 5.0},
        inputs=["u3"],
        outputs={"y1": "x + 2*u3", "y2": "x", "y3": "2*x"},
        solver=up.RK4(),
    )
    return up.Scenario(
        units={"A": a, "B": b},
        connections={"A.u1": "B.y2", "B.u3": "A.y1", "A.u2": "r"},
        inputs={"r": {"start": 3.0}},
    )


def slow(n: np.ndarray) -> np.ndarray:
    """The state of B, and of the air path."""
    return 5.0 + 0.01 * H * n


def summed(n: np.ndarray) -> np.ndarray:
    """What a state gathers that is fed with `slow`, held over each step."""
    return H * (5.0 * n + 0.01 * H * n * (n - 1) / 2)


def simulated(coupling: object, scenario: up.Scenario | None = None, engine: str = "auto") -> up.Trace:
    return up.simulate(
        scenario or figure_5(), coupling=coupling, pace=H, until=N * H, engine=engine, record=["*"]
    )


def delay_of(trace: up.Trace, name: str, exact: Sequence[float] | np.ndarray, slope: np.ndarray) -> float:
    """By how many steps a signal is late, seen from its values; `slope` is its change over the last step."""
    late = (np.asarray(exact) - trace[name]) / slope
    assert np.ptp(late[1:]) < 1e-9, "the same at all times"
    return float(late[1:].mean())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("method", "steps"), [("refined", 0), ("sv", 1), ("ev", 1)])
def test_figure_5_is_delayed_by_modular_methods_only(engine: str, method: str, steps: int) -> None:
    trace = simulated(up.Refined(method), engine=engine)  # type: ignore[arg-type]
    n = np.arange(N + 1.0)
    through = 2 * (summed(n) - summed(n - 1))
    assert delay_of(trace, "B.y1", slow(n) + 2 * summed(n), through) == pytest.approx(steps, abs=1e-9)
    # All the rest is not late, whatever the method.
    np.testing.assert_allclose(trace["A.y1"], summed(n), rtol=1e-12)
    np.testing.assert_allclose(trace["A.y3"], summed(n) + 3, rtol=1e-12)
    np.testing.assert_allclose(trace["B.y2"], slow(n), rtol=1e-12)
    (said,) = [note for note in trace.notes if "delayed" in note]
    late = "delayed by one communication step: B.y1, because B.u3 (from A.y1) is of the step before"
    assert said == (late if steps else "no signal is delayed")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("method", "steps"), [("refined", 0), ("sv", 1), ("ev", 1)])
def test_ten_units_have_one_delay_with_modular_methods(engine: str, method: str, steps: int) -> None:
    plan = up.load(ENGINE_FILE, coupling={"kind": "refined", "method": method}, until=N * H, engine=engine)
    trace, n = plan.run(), np.arange(N + 1.0)
    gained = 45 * (summed(n) - summed(n - 1))
    assert delay_of(trace, "air.torque", 45 * summed(n) - slow(n), gained) == pytest.approx(steps, abs=1e-9)
    np.testing.assert_allclose(trace["c1.heat"], 2 * summed(n) + 0.5, rtol=1e-12)
    (said,) = [note for note in trace.notes if "delayed" in note]
    late = "delayed by one communication step: air.torque, because air.load (from c1.work"
    assert said.startswith(late) if steps else said == "no signal is delayed"
    assert said.count("because") == steps


def test_standard_modular_goes_by_feedthrough_then_by_how_slow() -> None:
    """The slow unit comes last in the file, and first after the one without feedthrough."""
    fast = up.Ode({"x": "1 + 0*u"}, inputs=["u"], outputs={"y": "x + u"}, solver=up.RK4())
    still = up.Ode(
        {"x": "0"}, start={"x": 1.0}, inputs=["u"], outputs={"y": "x", "w": "2*x", "z": "u"}, solver=up.RK4()
    )
    source = up.Ode({"x": "10"}, outputs=["x"], solver=up.RK4())
    scenario = up.Scenario(
        units={"fast": fast, "source": source, "still": still},
        connections={"fast.u": "still.y", "still.u": "fast.y + source.x"},
    )
    plan = up.experiment(scenario, coupling=up.Refined("sv"), pace=H, until=N * H)
    (order,) = [note for note in plan.plan.program.notes if "take turns" in note]
    # x goes from 1 to 5 in 40 steps, and 0.1 is 1/50 of 5: the mean change relative to the largest value.
    assert order == (
        "units take turns: source (no direct feedthrough) → still (outputs change by 0 % per step) → "
        f"fast (outputs change by {100 * 0.1 / 5:.3g} % per step)"
    )
    assert "units take turns: source" in up.explain(plan)
    (late,) = [note for note in plan.plan.program.notes if "delayed" in note]
    assert "still.z, because still.u (from fast.y, source.x)" in late
    # Told otherwise, it is the other way round.
    given = up.Refined("sv", changes={"still": 1.0, "fast": 0.5})
    notes = up.Master(up.Fixed(H), given).program(scenario).notes
    assert any("source (no direct feedthrough) → fast (outputs change by 50 %" in note for note in notes)
    assert any("fast.y, because fast.u (from still.y)" in note for note in notes)
    # Without having run anything a program cannot know.
    notes = up.Master(up.Fixed(H), up.Refined("sv")).program(scenario).notes
    assert any("fast (as declared: how much outputs change was not measured) → still" in n for n in notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_delays_are_where_the_user_asks_for_them(engine: str) -> None:
    trace, n = simulated(up.Refined(delays=("B.u3",)), engine=engine), np.arange(N + 1.0)
    through = 2 * (summed(n) - summed(n - 1))
    assert delay_of(trace, "B.y1", slow(n) + 2 * summed(n), through) == pytest.approx(1, abs=1e-9)
    assert any("B.y1, because B.u3 (from A.y1) is of the step before" in note for note in trace.notes)
    assert trace.notes[-2].endswith(
        "agree at every communication point, but for the delays that are asked for"
    )
    # An input that no output shows directly is not late for anybody.
    trace = simulated(up.Refined(delays=("A.u1",)), engine=engine)
    assert "no signal is delayed" in trace.notes
    assert trace.notes[-2].endswith("agree at every communication point")
    np.testing.assert_allclose(trace["A.y1"], summed(n), rtol=1e-12)


def ring(gain: float) -> up.Scenario:
    """A real algebraic loop: a = gain·b + 1, b = a."""
    return up.Scenario(
        units={
            "a": up.Function(inputs=["u"], outputs={"y": f"{gain}*u + 1"}),
            "b": up.Function(inputs=["u"], outputs={"y": "u"}),
        },
        connections={"a.u": "b.y", "b.u": "a.y"},
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_algebraic_loops_are_solved_or_cut(engine: str) -> None:
    trace = simulated(up.Refined(), ring(0.5), engine)
    np.testing.assert_allclose(trace["a.y"], 2.0, rtol=1e-9)
    assert any("algebraic loops by Newton" in note for note in trace.notes)
    trace = simulated(up.Refined(delays=("a.u",)), ring(0.5), engine)
    # a(0) sees the start value 0; from then on a(n) = 0.5·a(n-1) + 1, which ends at 2.
    np.testing.assert_allclose(trace["a.y"], 2 - 0.5 ** np.arange(N + 1), rtol=1e-12)
    assert any("a.y, because a.u (from b.y)" in note for note in trace.notes)
    assert not any("algebraic loops" in note for note in trace.notes)
    for method in ("sv", "ev"):
        trace = simulated(up.Refined(method), ring(0.5), engine)  # type: ignore[arg-type]
        assert trace["a.y"][-1] == pytest.approx(2.0, rel=1e-4), "a delay, and the loop settles"


def test_refined_is_what_jacobi_with_solved_outputs_computes() -> None:
    one, two = simulated(up.Refined()), simulated(up.Jacobi())
    for name in one.names:
        assert np.array_equal(one[name], two[name])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "rcosim"}, r'must be one of "refined", "sv", "ev", not \'rcosim\''),
        ({"delays": "A.u1"}, r"delays of Refined list inputs"),
        ({"delays": ("A.u1",), "method": "sv"}, r'"sv" chooses by itself what is late'),
        ({"changes": {"A": -1.0}}, r"the change of 'A' must be a number of at least 0"),
        ({"changes": 3}, r"changes of Refined are such as"),
        ({"loops": "newton"}, r"loops of Refined"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(up.MasterError, match=message):
        up.Refined(**wrong)  # type: ignore[arg-type]


def test_wrong_names_are_refused() -> None:
    with pytest.raises(up.MasterError, match=r"'A.u9', which is not a connected input\. .*A\.u1"):
        simulated(up.Refined(delays=("A.u9",)))
    for method in ("sv", "ev", "refined"):
        with pytest.raises(
            up.MasterError, match=r"changes name 'C', which is not a unit\. The units are: A, B"
        ):
            up.Master(up.Fixed(H), up.Refined(method, changes={"C": 1.0})).program(figure_5())


def test_the_paper_calls_refined_r(tmp_path: Path) -> None:
    assert up.Refined("R") == up.Refined("refined")
    made = up.experiment(figure_5(), coupling={"kind": "refined", "method": "R"}, pace=H, until=1.0)
    assert made.master.coupling == up.Refined()
    file = tmp_path / "it.toml"
    up.write_scenario(up.experiment(figure_5(), coupling=up.Refined("sv"), pace=H, until=1.0), file)
    file.write_text(file.read_text().replace('"sv"', '"R"', 1))
    assert up.load(file).master.coupling == up.Refined()


def test_explain_does_not_promise_an_order_that_is_not_followed() -> None:
    for method, followed in (("R", True), ("sv", False), ("ev", False)):
        made = up.experiment(figure_5(), coupling=up.Refined(method), pace=H, until=1.0)
        said = up.explain(made, program=False)
        assert ("Order in which ports are evaluated at one instant" in said) == followed
        assert ("Order in which ports depend on each other" in said) != followed


def test_reactive_inputs_are_refused() -> None:
    unit = up.Ode({"x": "u"}, inputs={"u": {"reactive": True}}, outputs=["x"])
    scenario = up.Scenario(units={"a": unit, "b": unit}, connections={"a.u": "b.x"})
    with pytest.raises(up.MasterError, match=r"which a Refined coupling does not know"):
        simulated(up.Refined(), scenario)


class Late:
    """A model that declares a dependency which its units show only after the next step."""

    def __init__(self, model: up.Function) -> None:
        self._model = model
        self.ports: tuple[Port, ...] = model.ports
        self.abilities = model.abilities - {up.Ability.NATIVE}
        self.asked = 0

    def lags(self) -> Sequence[tuple[str, str]]:
        self.asked += 1
        return [("y", "u")]

    def instantiate(self, name: str, start: float) -> object:
        return self._model.instantiate(name, start)

    def with_values(self, values: object) -> Late:
        return self


def test_an_edge_that_a_unit_does_not_follow_at_once_is_refused() -> None:
    late = Late(up.Function(inputs=["u", "w"], outputs={"y": "2*u", "z": "w"}))
    clock = up.Function(outputs={"t": "time"})
    end = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    links = {"late.u": "clock.t", "late.w": "clock.t", "end.u": "late.y"}
    scenario = up.Scenario(units={"clock": clock, "late": late, "end": end}, connections=links)
    with pytest.raises(up.MasterError) as refused:
        simulated(up.Refined(), scenario)
    assert "late.y is declared to depend directly on late.u, and others need it at once" in str(refused.value)
    assert 'delays = ["late.u"]' in str(refused.value)
    assert "late.w" not in str(refused.value)
    notes = simulated(up.Refined(delays=("late.u",)), scenario).notes
    assert any("late.y, because late.u" in note for note in notes)
    # What nobody else needs may be late.
    alone = up.Scenario(units={"clock": clock, "late": late}, connections={"late.u": "clock.t"})
    late.asked = 0
    simulated(up.Refined(), alone)
    assert late.asked == 0, "asking may take seconds"
