"""Where a value changes at an instant, a trace has it before and after: two rows of one time."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.engine.native import machine as native
from upbeat.trace.columns import Column
from upbeat.trace.recorder import MemorySink, Recorder
from upbeat.trace.trace import Trace

ENGINES = ["interpret", *(["native"] if native.available() else [])]
COMPILED = ["compiled"] if shutil.which("cc") else []
engines = pytest.mark.parametrize("engine", ENGINES)

G, FALL = 9.81, 0.7
SPEED = math.sqrt(2 * G)  # of a fall from 1 m
BALL = up.Ode(
    {"h": "v", "v": "-9.81"},
    start={"h": 1.0},
    outputs=["h", "v"],
    events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-0.7*v"}}},
)
BOUNCES = [SPEED / G + 2 * SPEED / G * sum(FALL**k for k in range(1, n)) for n in (1, 2, 3, 4)]


def rows_at(trace: up.Trace, t: float) -> int:
    return int(np.count_nonzero(trace.time == t))


def jumps_of(trace: up.Trace) -> np.ndarray[Any, Any]:
    return np.flatnonzero(np.diff(trace.time) == 0.0)


def fallen(**more: Any) -> up.Trace:
    return up.simulate(up.Scenario({"ball": BALL}), pace=0.1, until=2.0, coupling=up.Negotiated(), **more)


@engines
def test_a_ball_has_its_speed_before_and_after_each_bounce(engine: str) -> None:
    trace = fallen(engine=engine)
    at = trace.time[jumps_of(trace)]
    np.testing.assert_allclose(at, BOUNCES, atol=1e-9)
    for n, t in enumerate(at):
        assert trace.at(t, "ball.v", side="left") == pytest.approx(-(FALL**n) * SPEED, abs=1e-8)
        assert trace.at(t, "ball.v") == pytest.approx(FALL ** (n + 1) * SPEED, abs=1e-8)
        assert trace.at(t, "ball.h", side="left") == trace.at(t, "ball.h") == pytest.approx(0.0, abs=1e-8)
        assert rows_at(trace, t) == 2
    assert len(trace) == 1 + trace.steps.count + len(at)
    assert trace.summary("ball.v").minimum == trace.at(at[0], "ball.v", side="left")  # type: ignore[union-attr]


@engines
@pytest.mark.parametrize("pace", [up.LookAhead(0.1), up.Revised(0.1), up.Fixed(0.1)])
def test_an_event_between_units_changes_what_its_log_says(engine: str, pace: Any) -> None:
    """Also where steps were rejected on the way: they leave no rows."""
    free = up.Ode({"h": "v", "v": "-9.81"}, start={"h": 1.0}, outputs=["h", "v"])
    event = {"when": "ball.h <= 0 and ball.v < 0", "then": {"ball.v": "-0.7*ball.v"}}
    scenario = up.Scenario({"ball": free}, events={"bounce": event})
    trace = up.simulate(scenario, pace=pace, until=1.5, engine=engine)
    assert len(trace.events) >= 2
    for happened in trace.events:
        before, after = happened.details["changes"]["ball.v"]
        assert trace.at(happened.time, "ball.v", side="left") == before
        assert trace.at(happened.time, "ball.v") == after
    assert len(trace) == 1 + trace.steps.count + len(trace.events)


@engines
def test_what_is_set_by_hand_is_a_jump(engine: str) -> None:
    scenario = up.Scenario(
        {"sum": up.Ode({"x": "u"}, inputs={"u": 1.0}, outputs={"x": "x", "twice": "2*u"})},
    )
    with up.start(scenario, pace=0.25, until=1.0, engine=engine) as run:
        run.step()
        run.step()
        run.set("sum.u", 3.0)
        trace = run.finish()
    assert trace.at(0.5, "sum.twice", side="left") == 2.0
    assert trace.at(0.5, "sum.twice") == 6.0
    assert trace.at(0.5, "sum.x", side="left") == trace.at(0.5, "sum.x") == pytest.approx(0.5)
    assert trace["sum.x"][-1] == pytest.approx(2.0)
    assert trace.time.tolist() == [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]


@engines
def test_set_at_the_instant_of_an_event(engine: str) -> None:
    """The first row is from before both, the last from after both."""
    units = {
        "held": up.blocks.sample_hold(0.5, start=-1.0),
        "wave": up.Function(outputs={"y": "10*time"}),
        "gain": up.Function(inputs={"a": 0.0, "b": 0.0}, outputs={"y": "a + b"}),
    }
    scenario = up.Scenario(units, {"held.u": "wave.y", "gain.a": "held.y"})
    with up.start(scenario, pace=0.25, until=1.0, engine=engine) as run:
        run.step()
        run.step()
        run.set("gain.b", 100.0)
        trace = run.finish()
    assert trace.at(0.5, "gain.y", side="left") == 0.0
    assert trace.at(0.5, "gain.y") == 105.0
    again = up.Signals(trace.time, {"u": trace["gain.y"]})
    played = up.simulate(FOLLOWED, signals=again, pace=0.125, until=1.0)
    assert [float(v) for v in played.at([0.375, 0.5, 0.625], "f.y")] == [0.0, 105.0, 105.0]


FOLLOWED = up.Scenario(
    {"f": up.Function(inputs={"u": 0.0}, outputs={"y": "u"}), "sum": up.Ode({"x": "v"}, inputs={"v": 0.0})},
    {"f.u": "u", "sum.v": "u"},
    inputs={"u": {"start": 0.0}},
)


@engines
def test_a_sampler_with_a_hold(engine: str) -> None:
    units = {"wave": up.Function(outputs={"y": "sin(time)"}), "held": up.blocks.sample_hold(0.3, start=-7.0)}
    trace = up.simulate(up.Scenario(units, {"held.u": "wave.y"}), pace=0.1, until=1.0, engine=engine)
    assert trace.at(0.0, "held.y", side="left") == -7.0
    assert trace.at(0.0, "held.y") == 0.0
    for k in (1, 2, 3):
        t = k * 0.3
        assert trace.at(t, "held.y", side="left") == math.sin((k - 1) * 0.3)
        assert trace.at(t, "held.y") == math.sin(t)
        assert trace.at(t - 0.01, "held.y") == math.sin((k - 1) * 0.3), "held, not a ramp"


@engines
def test_a_state_machine(engine: str) -> None:
    light = up.StateMachine(
        states=["red", "green"],
        initial="red",
        transitions=[
            {"from": "red", "to": "green", "after": 0.5, "do": {"n": "n + 1"}},
            {"from": "green", "to": "red", "after": 0.25},
        ],
        variables={"n": {"start": 0, "kind": "integer"}},
        outputs={"n": {"value": "n", "kind": "integer"}},
    )
    trace = up.simulate(up.Scenario({"light": light}), pace=up.EventDriven(), until=2.0, engine=engine)
    names = trace.labels("light.state")
    pairs = [(trace.time[k], names[k], names[k + 1]) for k in jumps_of(trace)]
    assert pairs == [
        (0.5, "red", "green"),
        (0.75, "green", "red"),
        (1.25, "red", "green"),
        (1.5, "green", "red"),
        (2.0, "red", "green"),
    ]
    assert trace.at(1.25, "light.n", side="left") == 1
    assert trace.at(1.25, "light.n") == 2


@engines
def test_a_chain_of_events_at_one_instant_has_two_rows(engine: str) -> None:
    chain = up.StateMachine(
        states=["a", "b", "c", "d"],
        initial="a",
        transitions=[
            {"from": "a", "to": "b", "after": 1.0},
            {"from": "b", "to": "c", "after": 0.0},
            {"from": "c", "to": "d", "after": 0.0},
        ],
    )
    trace = up.simulate(up.Scenario({"m": chain}), pace=0.5, until=1.5, engine=engine)
    assert trace.time.tolist() == [0.0, 0.5, 1.0, 1.0, 1.5]
    assert trace.labels("m.state").tolist() == ["a", "a", "a", "d", "d"]


@engines
def test_no_rows_where_nothing_that_is_recorded_changes(engine: str) -> None:
    units = {
        "clock": up.Clock(0.1),
        "held": up.blocks.sample_hold(0.2),
        "flat": up.Function(outputs={"y": "3"}),
        "x": up.Ode({"x": "-x"}, start={"x": 1.0}),
    }
    scenario = up.Scenario(units, {"held.u": "flat.y"})
    trace = up.simulate(scenario, pace=0.1, until=1.0, engine=engine)
    assert len(trace) == 1 + trace.steps.count + 1, "the first sample alone changes something"
    one = up.simulate(scenario, pace=0.1, until=1.0, engine=engine, record=["x.x"])
    assert len(one) == 1 + one.steps.count


@engines
def test_a_failure_at_the_instant_leaves_no_rows_of_it(engine: str) -> None:
    ticking = up.Scenario(
        {
            "held": up.blocks.sample_hold(0.2),
            "wave": up.Function(outputs={"y": "1/(1 - floor(time/0.6 + 0.1))"}),
        },
        {"held.u": "wave.y"},
    )
    with pytest.raises(up.RunError) as caught:
        up.simulate(ticking, pace=0.2, until=1.0, engine=engine, every=3)
    trace = caught.value.trace
    assert trace is not None
    assert trace.time[-1] == pytest.approx(0.4)


@pytest.mark.parametrize("engine", [*ENGINES, *COMPILED])
def test_thinning_keeps_jumps_and_the_phase_of_the_other_rows(engine: str) -> None:
    """Rows are those of every third communication point, the last one, and both of each jump."""
    whole, thin = fallen(engine="interpret"), fallen(engine=engine, every=3)
    plain = fallen(engine=engine, every=3, jumps=False)
    single = fallen(engine=engine, jumps=False)
    points = whole.one_sided()
    np.testing.assert_array_equal(points["ball.v"], single["ball.v"])
    assert (np.diff(points.time) > 0).all()
    kept = sorted({*range(0, len(points), 3), len(points) - 1})
    np.testing.assert_array_equal(plain.time, points.time[kept])
    np.testing.assert_array_equal(plain["ball.v"], points["ball.v"][kept])
    at = jumps_of(whole)
    wanted = {*points.time[kept], *whole.time[at]}
    rows = [k for k in range(len(whole)) if whole.time[k] in wanted]
    np.testing.assert_array_equal(thin.time, whole.time[rows])
    np.testing.assert_array_equal(thin["ball.v"], whole["ball.v"][rows])


@pytest.mark.skipif(not native.available(), reason="the native engine is not built")
@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3), st.data())
def test_both_engines_write_the_same_rows(made: list[tuple[int, bool]], data: st.DataObject) -> None:
    """Samplers of random rates, thinned or not, in one piece or stepped and changed by hand."""
    units: dict[str, Any] = {"wave": up.Function(outputs={"y": "sin(3*time)"})}
    links: dict[str, Any] = {}
    for k, (ticks, slow) in enumerate(made):
        units[f"h{k}"] = up.blocks.sample_hold(0.1 * ticks, offset=0.05 if slow else 0.0)
        links[f"h{k}.u"] = "wave.y" if k == 0 else f"h{k - 1}.y"
    units["x"] = up.Ode({"x": "u - x"}, inputs={"u": 0.0, "w": 0.0}, outputs={"x": "x", "y": "w + u"})
    links["x.u"] = f"h{len(made) - 1}.y"
    scenario = up.Scenario(units, links)
    chosen: dict[str, Any] = {
        "every": data.draw(st.integers(1, 4)),
        "jumps": data.draw(st.booleans()),
        "record": data.draw(st.sampled_from([None, ["x.*"], ["h0.y", "x.x"]])),
        "coupling": data.draw(st.sampled_from(["jacobi", "gauss_seidel"])),
    }
    changed = data.draw(st.lists(st.integers(0, 8), unique=True, max_size=3))

    def rows(engine: str) -> list[Any]:
        with up.start(scenario, pace=0.1, until=1.0, engine=engine, **chosen) as run:
            for k in range(8):
                if k in changed:
                    run.set("x.w", float(k))
                run.step()
            trace = run.finish()
        return [[float(v).hex() for v in trace[name]] for name in ("time", *trace.names)]

    found = rows("interpret")
    assert found == rows("native")
    if not chosen["jumps"]:
        assert len(set(found[0])) == len(found[0])


@engines
def test_a_resumed_run_writes_the_same_rows(engine: str, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"pace": 0.1, "coupling": up.Negotiated(), "engine": engine, "every": 4}
    scenario = up.Scenario({"ball": BALL})
    up.simulate(scenario, until=2.0, out=tmp_path / "whole.csv", **chosen)
    kept = tmp_path / "run.checkpoint"
    run = up.start(scenario, until=2.0, out=tmp_path / "parts.csv", checkpoint=kept, **chosen)
    while run.time < BOUNCES[0]:
        run.step()
    run.close()
    up.resume(kept)
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "journal"])
def test_files_have_both_rows(suffix: str, tmp_path: Path) -> None:
    trace, path = fallen(), tmp_path / f"ball.{suffix}"
    trace.save(path)
    again = up.read(path)
    assert len(again) == len(trace)
    for name in ("time", *trace.names):
        np.testing.assert_array_equal(again[name], trace[name])
    t = trace.time[jumps_of(trace)[0]]
    assert again.at(t, "ball.v", side="left") == trace.at(t, "ball.v", side="left")
    if suffix == "journal":
        return
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(path) if suffix == "csv" else pandas.read_parquet(path)
    assert len(table) == len(trace)
    after = table.drop_duplicates("time", keep="last")
    before = table.drop_duplicates("time", keep="first")
    np.testing.assert_array_equal(after["ball.v"], trace.one_sided()["ball.v"])
    np.testing.assert_array_equal(before["ball.v"], trace.one_sided("left")["ball.v"])


def test_tables_of_other_packages() -> None:
    trace = fallen()
    frame = pytest.importorskip("pandas") and trace.to_pandas()
    t = trace.time[jumps_of(trace)[0]]
    assert list(frame.loc[t, "ball.v"]) == [trace.at(t, "ball.v", side="left"), trace.at(t, "ball.v")]
    assert not frame.index.is_unique
    assert trace.one_sided().to_pandas().index.is_unique
    pytest.importorskip("xarray")
    found = trace.one_sided("left").to_xarray().sel(time=t, method="nearest")
    assert float(found["ball.v"]) == trace.at(t, "ball.v", side="left")


def test_a_trace_as_a_signal_means_the_same() -> None:
    """The speed of the ball is a line between bounces, so its integral is the height, jumps or not."""
    trace = fallen(every=50)
    signals = up.Signals(trace.time, {"u": trace["ball.v"]})
    again = up.simulate(FOLLOWED, signals=signals, pace=0.0005, until=2.0, inputs="linear", every=100)
    np.testing.assert_allclose(again.at(2.0, "sum.x") + 1.0, trace.at(2.0, "ball.h"), atol=5e-3)
    for t in (0.3, 0.44, 0.46, 1.0, 1.06, 1.09, 1.9):
        played = up.simulate(FOLLOWED, signals=signals, pace=t, until=t).at(t, "f.y")
        assert played == pytest.approx(trace.at(t, "ball.v"), abs=1e-9)


@engines
def test_several_cores_write_the_same_rows(engine: str) -> None:
    if engine != "native":
        return
    units: dict[str, Any] = {f"b{k}": BALL for k in range(3)}
    scenario = up.Scenario(units, events={"lift": {"when": "b0.h < 0.5", "then": {"b1.v": "b1.v + 1"}}})
    one, two = (up.simulate(scenario, pace=0.1, until=1.0, engine=engine, cores=n) for n in (1, 2))
    for name in ("time", *one.names):
        np.testing.assert_array_equal(one[name], two[name])
    assert len(jumps_of(one))


@engines
def test_a_scenario_inside_another_one_has_jumps_too(engine: str) -> None:
    """Where its events are known outside; else they are within its own step, and known after it only."""
    counter = up.StateMachine(
        states=["on"],
        initial="on",
        transitions=[{"from": "on", "after": 0.25, "do": {"n": "n + 1"}, "emit": {"tick": True}}],
        variables={"n": 0.0},
        outputs={"y": "n", "tick": {"event": True}},
    )
    for events in ({"tick": {"value": "count.tick"}}, {}):
        inside = up.Scenario({"count": counter}, outputs={"y": "count.y", **events})
        nest = up.Scenario({"n": up.Nested(inside, up.Master(pace=up.EventDriven()))})
        for flatten in (True, False):
            trace = up.simulate(nest, pace=0.1, until=1.0, engine=engine, flatten=flatten)
            for k in (1, 2, 3, 4):
                assert trace.at(0.25 * k, "n.y") == k
                assert trace.at(0.25 * k, "n.y", side="left") == (k - 1 if events else k)


# ---------------------------------------------------------------- what traces and recorders do with two rows

STEPS = Trace.from_arrays(
    [0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0],
    {
        "x": [0.0, 2.0, 5.0, 6.0, 0.0, -1.0, 1.0],
        "n": [0, 0, 1, 1, 2, 3, 3],
        "s": ["a", "a", "b", "b", "c", "d", "d"],
    },
)


def test_values_at_either_side() -> None:
    when = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert STEPS.at(when, "x").tolist() == [0.0, 1.0, 5.0, 5.5, -1.0, 0.0, 1.0]
    assert STEPS.at(when, "x", side="left").tolist() == [0.0, 1.0, 2.0, 5.5, 6.0, 0.0, 1.0]
    assert STEPS.at(when, "n").tolist() == [0, 0, 1, 1, 3, 3, 3]
    assert STEPS.at(when, "n", side="left").tolist() == [0, 0, 0, 1, 1, 3, 3]
    assert STEPS.at(2.0) == {"x": -1.0, "n": 3, "s": "d"}
    assert STEPS.at(2.0, side="left") == {"x": 6.0, "n": 1, "s": "b"}
    with pytest.raises(up.InvalidInput, match="side must be 'left' or 'right', not 'both'"):
        STEPS.at(1.0, side="both")  # type: ignore[arg-type]


def test_one_side_of_all() -> None:
    right, left = STEPS.one_sided(), STEPS.one_sided("left")
    assert right.time.tolist() == left.time.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert right["x"].tolist() == [0.0, 5.0, -1.0, 1.0]
    assert left["s"].tolist() == ["a", "a", "b", "d"]
    assert right.one_sided("left") is right
    assert len(Trace.from_arrays([], {"x": []}).one_sided()) == 0
    with pytest.raises(up.InvalidInput, match="side must be"):
        STEPS.one_sided("up")  # type: ignore[arg-type]


def test_the_mean_over_time_knows_jumps() -> None:
    found = STEPS.summary("x")
    assert found is not None
    assert found.mean == pytest.approx((1.0 + 5.5 + 0.0) / 3)
    assert (found.minimum, found.maximum) == (-1.0, 6.0)


def test_a_recorder_asks_for_every_bit() -> None:
    recorder = Recorder([Column("x"), Column("y")], MemorySink())
    recorder.row(0.0, (math.nan, 1.0), (math.nan, 1.0))
    recorder.row(1.0, (0.0, 1.0), (-0.0, 1.0))
    recorder.finish(2.0, (0.0, 2.0), (0.0, 1.0))
    trace = Trace.from_recorder(recorder, outcome=up.Outcome.FINISHED)
    assert trace.time.tolist() == [0.0, 1.0, 1.0, 2.0, 2.0]
    assert trace["y"].tolist() == [1.0, 1.0, 1.0, 1.0, 2.0]
