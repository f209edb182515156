"""Runs: stepping by hand, setting inputs, recording, and what is left when something fails."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.core.reasons import Reason
from upbeat.engine.native import machine as native
from upbeat.trace.events import EventLog
from upbeat.trace.files.journal import JournalReader

CHARGE = up.Scenario(
    units={"tank": up.Ode(states={"x": "u"}, inputs=["u"], outputs=["x"], solver=up.Euler())},
    connections={"tank.u": "2*rate"},
    inputs={"rate": {"start": 1.0}},
    outputs={"double": "2*tank.x"},
)


def test_stepping_by_hand_sees_what_was_set(engine: str) -> None:
    with up.start(CHARGE, pace=0.5, until=3.0, engine=engine) as run:
        assert run.time == 0.0
        assert run.step() == 0.5
        assert run["tank.x"] == 1.0
        run.set("rate", 5.0)
        assert run["rate"] == 5.0
        assert run.step() == 1.0
        assert run["tank.x"] == 6.0
        assert run["double"] == 12.0
        trace = run.finish()
    np.testing.assert_array_equal(trace.time, [0, 0.5, 0.5, 1, 1.5, 2, 2.5, 3], "before and after the jump")
    np.testing.assert_array_equal(trace["tank.x"], [0, 1, 1, 6, 11, 16, 21, 26])
    assert trace.outcome is up.Outcome.FINISHED
    assert trace.steps.count == 6


def test_stepping_to_the_end_gives_the_trace_of_simulate(engine: str) -> None:
    with up.start(CHARGE, pace=0.3, until=1.0, engine=engine) as run:
        while not run.finished:
            run.step()
        by_hand = run.trace
        with pytest.raises(up.StepError, match="stop time"):
            run.step()
    whole = up.simulate(CHARGE, pace=0.3, until=1.0, engine=engine)
    np.testing.assert_array_equal(by_hand.time, whole.time)
    np.testing.assert_array_equal(by_hand["tank.x"], whole["tank.x"])
    assert whole.time[-1] == 1.0
    assert list(by_hand.steps) == list(whole.steps)
    assert [step.count for step in whole.steps] == [3, 1], "three whole steps and a short one"


def test_a_run_that_is_over_says_so(engine: str) -> None:
    with up.start(CHARGE, pace=0.5, until=1.0, engine=engine) as run:
        run.step()
    assert run.trace.outcome is up.Outcome.STOPPED
    assert len(run.trace) == 2
    with pytest.raises(up.StepError, match="over"):
        run.step()


def test_wrong_names_are_explained(engine: str) -> None:
    with up.start(CHARGE, pace=0.5, until=1.0, engine=engine) as run:
        with pytest.raises(up.InvalidInput, match=r"'tank\.y'.*tank\.x"):
            run["tank.y"]
        with pytest.raises(up.InvalidInput, match=r"'tank\.u' is neither .* that can be set.*rate"):
            run.set("tank.u", 1.0)
        with pytest.raises(up.ModelError, match="real"):
            run.set("rate", "fast")


def test_grid_times_come_from_their_index(engine: str) -> None:
    trace = up.simulate(CHARGE, pace=0.1, until=100.0, engine=engine)
    np.testing.assert_array_equal(trace.time[:-1], [k * 0.1 for k in range(1000)])
    assert trace.time[-1] == 100.0
    assert len(trace) == 1001


@pytest.mark.parametrize("every", [1, 3, 4, 1000])
@pytest.mark.parametrize("end", ["closed", "failed", "set"])
def test_thinning_keeps_the_last_row_of_a_run_that_ends_before_its_time(
    engine: str, every: int, end: str
) -> None:
    """Left alone, by a unit that fails in the eighth step, and after something was set there."""
    ramp = up.Ode({"x": "u"}, inputs={"u": 1.0}, outputs={"x": "x", "seen": "u"})
    bad = up.PythonFunction(
        lambda t, u, p: {"y": t if t < 0.75 or end != "failed" else math.nan}, outputs=["y"]
    )
    run = up.start(up.Scenario({"m": ramp, "b": bad}), pace=0.1, until=10.0, engine=engine, every=every)
    with run, contextlib.suppress(up.UnitError):
        for _ in range(9 if end == "failed" else 7):
            run.step()
        if end == "set":
            run.set("m.u", 2.0)
            assert run["m.seen"] == 2.0
    trace = run.trace
    rows = [k for k in range(8) if k % every == 0 or k == 7] + ([7] if end == "set" else [])
    np.testing.assert_allclose(trace.time, [0.1 * k for k in rows])
    np.testing.assert_allclose(trace["m.x"], [0.1 * k for k in rows])
    assert trace["m.seen"].tolist() == [1.0] * (len(rows) - (end == "set")) + [2.0] * (end == "set")


@pytest.mark.parametrize("every", [1, 3, 10, 1000])
def test_thinning_keeps_the_first_and_the_last(engine: str, every: int) -> None:
    trace = up.simulate(CHARGE, pace=0.1, until=2.0, every=every, engine=engine)
    kept = sorted({*range(0, 21, every), 20})
    np.testing.assert_allclose(trace.time, [k * 0.1 for k in kept], rtol=1e-12)


def test_more_rows_than_a_chunk_holds(engine: str) -> None:
    steps = 3 * (1 << 20) // 16 // 40 if engine == "interpret" else 200_000
    trace = up.simulate(CHARGE, pace=1.0, until=float(steps), engine=engine, record=["tank.x"])
    np.testing.assert_array_equal(trace["tank.x"], 2.0 * np.arange(steps + 1))


# -------------------------------------------------------------------- failures


class Unruly:
    """A unit that misbehaves on demand."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.time = start
        self.do = parameters["do"]

    def get(self, port: str) -> Any:
        bad = self.time > 0.25
        return (
            {"nan": float("nan"), "text": "high", "pair": (1.0, 2.0), "none": None}.get(self.do, 1.0)
            if bad
            else 1.0
        )

    def set(self, port: str, coefficients: Any) -> None:
        if self.do == "set" and self.time > 0.25:
            raise KeyError("no such thing")

    def advance(self, t: float, to: float, early: bool) -> float:
        if self.do == "raise" and to > 0.35:
            raise RuntimeError("broken")
        self.time = to if not (self.do == "stop" and to > 0.35) else t
        return self.time

    def jump(self) -> bool:
        return False


def unruly(do: str) -> up.Scenario:
    ports = (
        up.Port("y", up.Causality.OUTPUT),
        up.Port("u", up.Causality.INPUT),
        up.Port("do", up.Causality.PARAMETER, up.Kind.STRING, start=(do,)),
    )
    clock = up.Function(outputs={"y": "time"})
    return up.Scenario(
        units={"bad": up.PythonUnit(Unruly, ports), "clock": clock}, connections={"bad.u": "clock.y"}
    )


@pytest.mark.parametrize(
    ("do", "call", "text"),
    [
        ("nan", "get('y')", "output 'y' is nan"),
        ("text", "get('y')", "output 'y' is real, but the unit gave 'high'"),
        ("pair", "get('y')", "output 'y' is real, but the unit gave (1.0, 2.0)"),
        ("none", "get('y')", "output 'y' is real, but the unit gave None"),
        ("set", "set('u')", "KeyError: 'no such thing'"),
        ("raise", "advance(0.3, 0.4)", "RuntimeError: broken"),
        ("stop", "advance(0.3, 0.4)", "it stopped at 0.3 instead of 0.4"),
    ],
)
def test_a_failure_names_unit_call_and_time_and_keeps_the_results(
    engine: str, tmp_path: Path, do: str, call: str, text: str
) -> None:
    out = tmp_path / "r.csv"
    with pytest.raises(up.UnitError) as caught:
        up.simulate(unruly(do), pace=0.1, until=1.0, engine=engine, out=out)
    error = caught.value
    assert (error.unit, error.call) == ("bad", call)
    assert error.time == pytest.approx(0.3)
    assert text in str(error)
    assert error.trace is not None
    assert error.trace.outcome is up.Outcome.FAILED
    last = 0.2 if call.startswith(("get", "set")) else 0.3
    assert error.trace.time[-1] == pytest.approx(last)
    assert up.read(out).time[-1] == pytest.approx(last), "on disk, too"
    if do in ("set", "raise"):
        assert error.__cause__ is not None
        assert error.__cause__.__traceback__ is not None, "with the user's own traceback"


def test_an_expression_that_leaves_the_finite_numbers_is_named(engine: str) -> None:
    blow = up.Ode(states={"x": "x*x"}, start={"x": 1.0}, solver=up.Euler())
    with pytest.raises(up.UnitError, match=r"unit 'blow'.*output 'x' is (inf|nan)") as caught:
        up.simulate(up.Scenario(units={"blow": blow}), pace=0.5, until=100.0, engine=engine)
    assert caught.value.trace is not None
    assert np.isfinite(caught.value.trace["blow.x"]).all()


def test_a_unit_that_cannot_be_made_is_named(engine: str) -> None:
    def factory(name: str, start: float, parameters: dict[str, Any]) -> Any:
        raise OSError("no licence")

    model = up.PythonUnit(factory, (up.Port("y", up.Causality.OUTPUT),))
    with pytest.raises(up.UnitError, match=r"unit 'x' failed in instantiate.*OSError: no licence"):
        up.simulate(up.Scenario(units={"x": model}), pace=0.1, until=1.0, engine=engine)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x", None])
def test_steps_must_be_positive_numbers(bad: Any) -> None:
    with pytest.raises(up.InvalidInput, match=r"positive and finite|must be a number"):
        up.Fixed(bad)


@pytest.mark.parametrize(("start", "until"), [(0, 0), (1, 0), (0, float("nan")), (0, float("inf"))])
def test_times_must_be_finite_and_in_order(start: float, until: float) -> None:
    with pytest.raises(up.InvalidInput, match=r"finite|must lie after"):
        up.simulate(CHARGE, pace=0.1, start=start, until=until)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(up.InvalidInput, match="there is no engine 'fast'"):
        up.simulate(CHARGE, pace=0.1, until=1, engine="fast")  # type: ignore[arg-type]


@pytest.fixture
def listening() -> Iterator[None]:
    """A shell that starts the tests in the background has Ctrl-C ignored in them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_ends_between_two_steps(engine: str) -> None:
    run = up.start(CHARGE, pace=1e-3, until=1e6, engine=engine, every=1000)
    with pytest.raises(up.Interrupted, match="interrupted at t") as caught:
        run.finish(report=lambda t: signal.raise_signal(signal.SIGINT))
    assert isinstance(caught.value, KeyboardInterrupt)
    trace = caught.value.trace
    assert trace.outcome is up.Outcome.INTERRUPTED
    assert run.time > 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_can_be_closed_from_another_thread(engine: str) -> None:
    run = up.start(CHARGE, pace=1e-6, until=1e3, engine=engine, record=["tank.x"])
    failed: list[BaseException] = []

    def work() -> None:
        try:
            run.finish()
        except up.RunError as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    while run.time == 0.0:
        pass
    run.close()
    worker.join(timeout=30)
    assert not worker.is_alive()
    assert "over" in str(failed[0])
    assert run.trace.outcome is up.Outcome.STOPPED
    assert run.trace.time[-1] > 0


def test_units_are_closed_once_even_if_others_fail(engine: str) -> None:
    closed: list[str] = []

    class Unit:
        def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
            self.name = name
            if name == "broken":
                raise OSError("cannot start")

        def get(self, port: str) -> float:
            return 1.0

        def set(self, port: str, coefficients: Any) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

        def close(self) -> None:
            closed.append(self.name)
            if self.name == "rude":
                raise ValueError("no")

    model = up.PythonUnit(Unit, (up.Port("y", up.Causality.OUTPUT),))
    with pytest.raises(up.UnitError, match="cannot start"):
        up.simulate(up.Scenario(units={"a": model, "broken": model}), pace=1, until=2, engine=engine)
    assert closed == ["a"]
    closed.clear()
    with pytest.warns(RuntimeWarning, match=r"unit 'rude' failed in close\(\): ValueError: no"):
        trace = up.simulate(up.Scenario(units={"rude": model, "b": model}), pace=1, until=2, engine=engine)
    assert sorted(closed) == ["b", "rude"]
    assert trace.outcome is up.Outcome.FINISHED


def test_an_input_that_its_connection_makes_infinite_is_named(engine: str) -> None:
    ramp = up.Function(outputs={"z": "0.5 - time"})
    scenario = up.Scenario(
        units={"m": up.Ode(states={"x": "-x/u"}, inputs={"u": 1.0}), "s": ramp}, connections={"m.u": "1/s.z"}
    )
    with pytest.raises(
        up.UnitError, match=r"unit 'm' failed in set\('u'\) at t = 0.5.*input 'u' would become inf"
    ):
        up.simulate(scenario, pace=0.25, until=2.0, engine=engine)


def test_setting_an_unconnected_input_shows_in_its_column(engine: str) -> None:
    scenario = up.Scenario(units={"tank": up.Ode(states={"x": "u"}, inputs=["u"], solver=up.Euler())})
    with up.start(scenario, pace=0.5, until=1.0, engine=engine, record=["*"]) as run:
        run.set("tank.u", 5.0)
        assert run["tank.u"] == 5.0
        trace = run.finish()
    np.testing.assert_array_equal(trace["tank.x"], [0, 0, 2.5, 5])
    np.testing.assert_array_equal(trace["tank.u"], [0, 5, 5, 5])


def test_setting_something_else_leaves_a_lagged_run_alone(engine: str) -> None:
    half = up.Function(inputs={"u": 1.0}, outputs={"y": "0.5*u + 1"})
    scenario = up.Scenario(units={"a": half, "b": half, "c": half}, connections={"a.u": "b.y", "b.u": "a.y"})
    coupling = up.Jacobi(outputs="lagged")
    plain = up.simulate(scenario, pace=0.5, until=3.0, coupling=coupling, engine=engine)
    with up.start(scenario, pace=0.5, until=3.0, coupling=coupling, engine=engine) as run:
        while not run.finished:
            run.set("c.u", 1.0)
            run.step()
        np.testing.assert_array_equal(run.trace["a.y"], plain["a.y"])


@pytest.mark.parametrize(("pace", "until"), [(1e-320, 1.0), (1e-12, 1e10), (1.0, 1e300)])
def test_more_steps_than_anybody_can_count_are_refused(engine: str, pace: float, until: float) -> None:
    with pytest.raises(up.InvalidInput, match="steps"):
        up.simulate(CHARGE, pace=pace, until=until, engine=engine)


def test_a_remainder_of_half_a_step_is_a_step_of_its_own(engine: str) -> None:
    trace = up.simulate(CHARGE, pace=1.0, start=1e6, until=1e6 + 3.5, engine=engine)
    np.testing.assert_allclose(np.diff(trace.time), [1, 1, 1, 0.5])


def test_one_cell_of_an_array_is_one_column(engine: str) -> None:
    pair = up.Ode(states={"x": {"der": ["-x[0]", "-x[1]"], "start": [1.0, 2.0]}}, outputs=["x"])
    scenario = up.Scenario(units={"r": pair}, outputs={"second": "r.x[1]"})
    trace = up.simulate(scenario, pace=0.1, until=0.2, engine=engine)
    assert trace.names == ("r.x[0]", "r.x[1]", "second")
    assert trace["second"].tolist() == trace["r.x[1]"].tolist()


# ---------------------------------------------------------------- rows at an instant that somebody changed


class Counted:
    """A pace in Python: the loop around the native engine is another one then."""

    def begin(self, span):
        return 0

    def propose(self, state, t, limit, read):
        return (min(t + 0.25, limit), Reason("fixed"), "step"), state


@settings(max_examples=25, deadline=None)
@given(
    changes=st.dictionaries(st.integers(0, 7), st.floats(-5, 5).filter(bool), max_size=5),
    every=st.integers(1, 4),
    pace=st.sampled_from(["fixed", "python"]),
    look=st.booleans(),
)
def test_a_value_set_by_hand_has_two_rows_of_that_time(changes, every, pace, look) -> None:
    """Judged by a staircase written down here: the integral of what was set, exact for held inputs."""
    twice = up.Function(["a"], {"y": "2*a"})
    sums = up.Ode({"x": "a"}, inputs=["a"], solver=up.Euler())
    scenario = up.Scenario({"f": twice, "i": sums}, {"f.a": "push", "i.a": "push"}, inputs={"push": 1.0})
    expected, push, x = [], 1.0, 0.0
    for k in range(9):
        rows = [(k / 4, 2 * push, x, push)]
        if k < 8 and k in changes and changes[k] != push:
            push = changes[k]
            rows.append((k / 4, 2 * push, x, push))
        if k % every == 0 or k == 8 or len(rows) == 2:
            expected += rows
        x += push / 4
    traces = []
    for engine in ("interpret", "native"):
        how = {"until": 2.0, "every": every, "engine": engine, "record": ["f.y", "i.x", "push"]}
        with up.start(scenario, pace=0.25 if pace == "fixed" else Counted(), **how) as run:
            for k in range(8):
                if k in changes:
                    run.set("push", changes[k])
                    if look:
                        assert run["f.y"] == 2 * changes[k]
                run.step()
            traces.append(run.trace)
    for trace in traces:
        columns = (trace.time, trace["f.y"], trace["i.x"], trace["push"])
        np.testing.assert_allclose(np.column_stack(columns), expected, rtol=1e-12)
        for k, value in changes.items():
            assert trace.at(k / 4)["f.y"] == 2 * value  # from then on
    assert traces[0]["i.x"].tobytes() == traces[1]["i.x"].tobytes()


@pytest.mark.parametrize("engine", ["interpret", "native"])
def test_the_row_agrees_with_the_event_log(engine, tmp_path) -> None:
    relay = up.Ode(
        {"x": "v"}, variables={"v": 1.0}, inputs={"turn": {"event": True}},
        events={"turned": {"on": "turn", "then": {"v": "-v"}}}, outputs=["x", "v"],
    )  # fmt: skip
    with up.start(
        up.Scenario({"m": relay}), pace=0.5, until=2.0, engine=engine, out=tmp_path / "r.csv"
    ) as run:
        run.step()
        run.set("m.turn", True)
        run.step()
        assert run.trace.time.tolist() == [0.0, 0.5, 0.5, 1.0]
        assert run.trace["m.v"].tolist() == [1.0, 1.0, -1.0, -1.0]
        run.finish()
    assert up.read(tmp_path / "r.csv")["m.v"].tolist() == [1.0, 1.0, -1.0, -1.0, -1.0, -1.0]


@pytest.mark.skipif(not native.available(), reason="needs the native core")
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("solver", [up.RK4(step=1e-9), up.DormandPrince(longest=1e-9, max_steps=10**9)])
def test_ctrl_c_inside_a_long_native_step_ends_the_run(solver: Any, cores: int) -> None:
    """A step that would take a minute, and with it the run; what was there before it is kept."""
    slow = up.Ode({"x": "-x*k"}, inputs={"k": 1.0}, start={"x": 1.0}, solver=solver)
    scenario = up.Scenario({"a": slow, "b": slow})
    with up.start(scenario, pace=0.5, until=1.0, cores=cores) as run:
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(up.Interrupted) as caught:
            run.finish()
    assert caught.value.trace.outcome is up.Outcome.INTERRUPTED
    assert caught.value.trace.time.tolist() == [0.0]


# ---------------------------------------------------------------- parameters that somebody changed


def _spring(kind: str) -> up.Model:
    """x'' = -k x, exact to 1e-9; with events that nothing meets, and in Python."""
    tight = up.DormandPrince(1e-11, 1e-13)
    if kind == "python":
        return up.PythonOde(
            lambda t, x, u, p: {"x": x.v, "v": -p.k * x.x}, {"x": 1.0, "v": 0.0}, parameters={"k": 4.0},
            outputs={"x": "x", "v": "v", "f": lambda t, x, u, p: -p.k * x.x}, solver=tight,
        )  # fmt: skip
    events: dict[str, object] = {}
    if kind == "hybrid":  # an event that could change k belongs to the state
        events = {"variables": {"n": 0}, "events": {"never": {"when": "x > 1e9", "then": {"k": "1"}}}}
    return up.Ode(
        {"x": "v", "v": "-k*x"}, start={"x": 1.0}, parameters={"k": 4.0},
        outputs={"x": "x", "v": "v", "f": "-k*x"}, solver=tight, **events,
    )  # fmt: skip


@settings(max_examples=8, deadline=None)
@example(changes={0: 9.0, 3: 2.0}, kind="isolated", coupling=up.Iterated(), restart=True)
@given(
    changes=st.dictionaries(st.integers(0, 7), st.floats(0.5, 30.0), max_size=4),
    kind=st.sampled_from(["ode", "hybrid", "python", "nest"]),
    coupling=st.sampled_from([up.Jacobi(), up.GaussSeidel(), up.Iterated()]),
    restart=st.booleans(),
)
def test_a_parameter_set_by_hand_counts_from_then_on(changes, kind, coupling, restart) -> None:
    """Judged by the closed form: an oscillator whose stiffness changes at known times.

    `Iterated` goes back in every step, and what was set stays.
    """
    model, name = _spring("ode" if kind in ("nest", "isolated") else kind), "m.k"
    if kind == "nest":
        inner = up.Scenario({"s": model}, outputs={name: f"s.{name}" for name in "xvf"})
        model, name = up.Nested(inner, up.Master(up.Fixed(0.125)), flatten=False), "m.s.k"
    if kind == "isolated":
        model = up.Isolated(model)
    double = up.Function(["f"], {"y": "g*f"}, parameters={"g": 2.0})
    scenario = up.Scenario({"m": model, "d": double}, {"d.f": "m.f"})
    k, x, v, rows = 4.0, 1.0, 0.0, []
    for step in range(9):
        if step < 8 and step in changes:
            k = changes[step]
        rows.append((x, v, -2.0 * k * x))
        w = k**0.5
        c, s = np.cos(w / 4), np.sin(w / 4)
        x, v = x * c + v / w * s, v * c - x * w * s
    traces = []
    for engine in ("interpret",) if kind == "isolated" else ("interpret", "native"):
        with up.start(
            scenario, pace=up.Fixed(0.25), until=2.0, coupling=coupling, inputs=up.Linear(), engine=engine
        ) as run:
            for step in range(8):
                if step in changes:
                    run.set(name, changes[step], restart=restart)
                assert run["d.y"] == pytest.approx(rows[step][2], abs=1e-7)
                run.step()
            traces.append(run.trace)
    for trace in traces:
        last = [trace.at(step / 4) for step in range(9)]
        found = [(row["m.x"], row["m.v"], row["d.y"]) for row in last]
        np.testing.assert_allclose(found, rows, atol=1e-7)
        assert [change[:1] for change in trace.info.get("parameters", {}).get(name, [])] == [
            [step / 4] for step in sorted(changes)
        ]
        assert bool(changes) == any(f"'{name}' was set by hand" in note for note in trace.notes)
    assert all(trace[c].tobytes() == traces[0][c].tobytes() for trace in traces for c in ("m.x", "d.y"))


def test_a_parameter_survives_rejected_steps(engine: str) -> None:
    with up.start(
        up.Scenario({"m": _spring("ode")}), pace=up.ErrorControl(1e-6, first=0.3), until=2.0, engine=engine
    ) as run:
        while run.time < 0.5:
            run.step()
        t, x, v = run.time, run["m.x"], run["m.v"]
        run.set("m.k", 90.0)
        trace = run.finish()
    w = 90.0**0.5
    expected = x * np.cos(w * (2.0 - t)) + v / w * np.sin(w * (2.0 - t))
    assert trace["m.x"][-1] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("kind", ["ode", "hybrid"])
def test_a_checkpoint_keeps_parameters_that_were_set(kind: str, engine: str, tmp_path) -> None:
    experiment = up.experiment(
        up.Scenario({"m": _spring(kind)}), pace=0.25, until=2.0, engine=engine, checkpoint=tmp_path / "c"
    )
    with up.start(up.Scenario({"m": _spring(kind)}), pace=0.25, until=2.0, engine=engine) as run:
        run.step()
        before = run["m.k"]
        run.set("m.k", 9.0)
        assert run["m.k"] == 9.0 != before
        whole = run.finish()
    with experiment.open() as run:
        run.step()
        run.set("m.k", 9.0)
        run.step()
    resumed = up.resume(tmp_path / "c", experiment=experiment)
    assert resumed["m.x"].tobytes() == whole["m.x"].tobytes()
    assert resumed.info["parameters"] == whole.info["parameters"] == {"m.k": [[0.25, 9.0]]}


def test_arrays_and_whole_numbers_are_parameters_too(engine: str) -> None:
    ode = up.Function(
        [],
        {"y": "k[0] + 10*k[1] + 100*n"},
        parameters={"k": [1.0, 2.0], "n": {"value": 3, "kind": "integer"}},
    )
    with up.start(up.Scenario({"m": ode}), pace=0.25, until=1.0, engine=engine) as run:
        assert run["m.y"] == 321.0
        run.set("m.k", [5.0, 6.0])
        run.set("m.n", 7)
        assert run["m.y"] == 765.0
        run.step()
        assert run["m.y"] == 765.0
        with pytest.raises(up.ModelError, match="2 cell"):
            run.set("m.k", [5.0, 6.0, 7.0])


def test_parameters_of_a_monolith_have_their_names(engine: str) -> None:
    scenario = up.Scenario({"m": _spring("ode")})
    with up.start(scenario.monolith(), pace=0.25, until=1.0, engine=engine) as run:
        run.set("m.k", 9.0)
        assert run["m.f"] == -9.0


def test_a_parameter_that_is_fixed_says_why() -> None:
    class Limit:
        def __init__(self, name, start, parameters):
            self.limit = parameters["limit"]

        def get(self, port):
            return self.limit

        def advance(self, t, to, early):
            return to

    unit = up.PythonUnit(Limit, outputs=["y"], parameters={"limit": 1.0})
    again = up.Isolated(_spring("ode"), restart=1)
    with up.start(up.Scenario({"m": unit, "i": again}), pace=0.1, until=1.0) as run:
        with pytest.raises(up.InvalidInput, match=r"'m.limit' cannot change.*PythonUnit is given its param"):
            run.set("m.limit", 2.0)
        with pytest.raises(up.InvalidInput, match=r"'i.k' cannot change.*restart"):
            run.set("i.k", 2.0)
        with pytest.raises(up.InvalidInput, match=r"neither a parameter nor an input.*m.limit"):
            run.set("m.limi", 2.0)
        run.step()  # a refusal ends nothing


@pytest.mark.parametrize("kind", ["plain", "function", "flat", "nest", "monolith"])
def test_a_parameter_that_an_event_reads_is_fixed(kind: str) -> None:
    """The event has its value from before the run: it would go on with that, silently."""
    ball = up.Ode({"x": "v", "v": "-g"}, start={"x": 1.0}, parameters={"r": 0.0, "g": 9.81})
    event = {"when": "ball.x <= ball.r", "then": {"ball.v": "-ball.v"}}
    if kind == "function":
        event |= {"when": lambda x, r: x - r, "of": ["ball.x", "ball.r"]}
    scenario, inside = up.Scenario({"ball": ball}, events={"hit": event}, outputs={"x": "ball.x"}), ""
    if kind == "monolith":
        scenario = scenario.monolith()
    elif kind in ("flat", "nest"):
        nest = up.Nested(scenario, up.Master(up.Fixed(0.1)), flatten=kind == "flat")
        scenario, inside = up.Scenario({"n": nest}), "n."
    with up.start(scenario, pace=0.1, until=1.0) as run:
        with pytest.raises(up.InvalidInput, match=rf"'{inside}ball.r' cannot.*event 'hit' reads it.*r_now"):
            run.set(f"{inside}ball.r", 0.5)
        run.set(f"{inside}ball.g", 1.0)


@pytest.mark.parametrize("loops", [up.Newton(), up.Anderson(), up.FixedPoint()])
def test_algebraic_loops_see_parameters_that_were_set(loops: Any, engine: str) -> None:
    line = up.Function(["u"], {"y": "g*u + c"}, parameters={"g": 0.5, "c": 1.0})
    scenario = up.Scenario({"a": line, "b": line}, {"a.u": "b.y", "b.u": "a.y"})
    with up.start(scenario, pace=0.1, until=1.0, engine=engine, coupling=up.Jacobi(loops=loops)) as run:
        run.set("a.g", -0.7)
        run.set("b.c", 3.0)
        for _ in range(2):
            assert run["a.y"] == pytest.approx((1.0 - 0.7 * 3.0) / (1.0 + 0.7 * 0.5), rel=1e-8)
            run.step()


def test_a_run_that_goes_on_in_parts_can_be_followed_in_its_file(engine: str, tmp_path: Path) -> None:
    """What has been recorded is in the file after each part, and the whole is that of one go."""
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    drop = up.Scenario({"ball": ball}, events={"hit": {"when": "ball.x <= 0", "then": {"ball.v": "-ball.v"}}})
    made = up.experiment(drop, pace=up.LookAhead(0.01), until=3.0, engine=engine)
    whole = made.run()
    file = tmp_path / "run.journal"
    rows: list[Any] = []
    events: list[Any] = []
    reader: JournalReader | None = None
    with made.with_(out=file).open() as run:
        while not run.finished:
            before = run.time
            assert run.go(1e-4) > before
            reader = reader or JournalReader(file)
            for part in reader.more():
                (events if isinstance(part, EventLog) else rows).extend(part)
            assert rows[-1][0] == run.time
    assert reader is not None
    assert not list(reader.more())
    assert reader.ending.outcome.ok
    assert [row[0] for row in rows] == whole.time.tolist()
    assert [row[1] for row in rows] == whole["ball.x"].tolist()
    assert [event.time for event in events] == whole.events.times("hit").tolist()
