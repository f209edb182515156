"""Properties during a run: told where the rows so far decide, on every engine, and runs that end there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.core.errors import ScenarioError
from upbeat.properties.formula import parse, unwatchable
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.trace import Trace

# ----------------------------------------------------------------------------------------------------
# Drawn formulas on drawn signals: x goes along straight lines, y jumps at samples of it.

BOUNDS = st.integers(-4, 4).map(lambda n: n + 0.5)
TIMES = st.integers(0, 12).map(lambda n: n / 4)
STATES = st.recursive(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["<", ">="]), BOUNDS).map(
        lambda a: f"{a[0]} {a[1]} {a[2]}"
    ),
    lambda inner: st.one_of(
        inner.map(lambda p: f"not ({p})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda a: f"({a[0]}) {a[1]} ({a[2]})"),
        st.tuples(st.sampled_from(["once", "historically"]), inner, TIMES).map(
            lambda a: f"{a[0]}[0, {a[2]}]({a[1]})" if a[2] else f"{a[0]}({a[1]})"
        ),
        st.tuples(inner, st.sampled_from(["", "[0, 1.5]"]), inner).map(
            lambda a: f"(({a[0]}) since{a[1]} ({a[2]}))"
        ),
    ),
    max_leaves=3,
)
WINDOWS = st.tuples(TIMES, TIMES).map(sorted).map(lambda w: f"[{w[0]}, {w[1]}]") | st.just("")
TOPS = st.one_of(
    STATES,
    st.tuples(st.sampled_from(["always", "eventually"]), WINDOWS, STATES).map(
        lambda a: f"{a[0]}{a[1]}({a[2]})"
    ),
    st.tuples(STATES, WINDOWS, STATES).map(lambda a: f"({a[0]}) until{a[1]} ({a[2]})"),
    st.tuples(WINDOWS, STATES, st.sampled_from(["always", "eventually"]), TIMES, STATES).map(
        lambda a: f"always{a[0]}(({a[1]}) implies {a[2]}[0, {a[3]}]({a[4]}))"
    ),
    st.tuples(TIMES, STATES).map(lambda a: f"always(eventually[0, {a[0]}]({a[1]}))"),
)
FORMULAS = st.one_of(
    TOPS,
    TOPS.map(lambda p: f"not ({p})"),
    st.tuples(TOPS, st.sampled_from(["and", "or", "implies"]), TOPS).map(
        lambda a: f"({a[0]}) {a[1]} ({a[2]})"
    ),
)


def scenario(values: list[int], formula: str, online: str = "watch") -> up.Scenario:
    table = {"course": {"x": [k / 2 for k in range(len(values))], "y": list(map(float, values))}}
    source = up.Function(outputs={"y": "course(time)"}, tables=table)
    text = formula.replace("x ", "source.y ").replace("y ", "hold.y ").replace("source.hold.y", "source.y")
    return up.Scenario(
        {"source": source, "hold": up.blocks.sample_hold(every=0.5)},
        {"hold.u": "source.y"},
        properties={"p": {"holds": text, "online": online}},
    )


@settings(max_examples=80)
@given(FORMULAS, st.lists(st.integers(-5, 5), min_size=8, max_size=8), st.sampled_from([0.25, 0.5, 0.3, 0.7]))
def test_a_violation_is_told_at_the_first_row_that_decides_it(
    formula: str, values: list[int], step: float
) -> None:
    assume(not unwatchable(parse(formula.replace("x ", "a.x ").replace("y ", "a.y "))))
    made = scenario(values, formula)
    traces = [up.simulate(made, pace=up.Fixed(step), until=3.5, engine=engine) for engine in ENGINES]
    first = traces[0]
    for other in traces[1:]:
        assert other.events == first.events
        assert other.time.tolist() == first.time.tolist()
    told = [event.time for event in first.events if event.name == "p"]
    assert told == decided(first, made)[:1]


ENGINES = ("interpret", "native")


def decided(trace: Trace, of: up.Scenario) -> list[float]:
    """The times of rows from which on the rows so far say that the property is violated."""
    arrays = {name: trace[name] for name in trace.names}
    found = []
    for count in range(1, len(trace) + 1):
        part = Trace.from_arrays(
            trace.time[:count], {name: values[:count] for name, values in arrays.items()}
        )
        so_far = Trace(part.columns, part.source, Ending(Outcome.RUNNING))
        if of.judged(so_far)["p"].verdict == "violated":
            found.append(float(trace.time[count - 1]))
    return found


def test_the_compiled_engine_tells_the_same() -> None:
    text = "always(x < 1.5 implies eventually[0, 0.75](y >= 2.5)) and always(x < 6)"
    made = scenario([0, 1, 3, 1, 0, 0, 1, 5], text)
    plain, compiled = (
        up.simulate(made, pace=up.Fixed(0.25), until=3.5, engine=e) for e in ("interpret", "compiled")
    )
    assert plain.events == compiled.events
    assert len(plain.events["p"]) == 1


# ----------------------------------------------------------------------------------------------------
# Where it matters.

BALL = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
FALLS = (2 / 9.81) ** 0.5


def falling(online: str = "stop", holds: str = "always(ball.x > 0)") -> up.Scenario:
    return up.Scenario({"ball": BALL}, properties={"above": {"holds": holds, "online": online}})


@pytest.mark.parametrize("engine", ["interpret", "native", "compiled"])
def test_a_run_ends_where_a_property_is_violated(engine: Any) -> None:
    trace = up.simulate(falling(), step=0.1, until=1.0, engine=engine)
    assert trace.outcome is Outcome.STOPPED_BY_EVENT
    assert trace.outcome.ok
    assert trace.time[-1] == trace.events[0].time == pytest.approx(FALLS, abs=1e-5)
    assert falling().judged(trace)["above"].verdict == "violated"
    late = up.simulate(falling(), pace=up.Fixed(0.1), until=1.0, engine=engine)
    assert late.time[-1] == 0.5
    watched = up.simulate(falling("watch"), step=0.1, until=1.0, engine=engine)
    assert (watched.time[-1], watched.outcome) == (1.0, Outcome.FINISHED)
    assert watched.events[0].time == pytest.approx(FALLS, abs=1e-5)
    assert trace.names == watched.names == ("ball.x", "ball.v")


def test_a_property_that_is_violated_at_once_ends_the_run_at_its_start() -> None:
    for engine in ENGINES:
        trace = up.simulate(falling(holds="always(ball.x > 2)"), step=0.1, until=1.0, engine=engine)
        assert trace.time.tolist() == [0.0]
        assert trace.outcome is Outcome.STOPPED_BY_EVENT


def test_steps_end_where_a_comparison_changes_and_where_time_decides() -> None:
    holds = "always(ball.x < 0.5 implies eventually[0, 0.123](ball.v < -9))"
    trace = up.simulate(falling("watch", holds), step=0.1, until=1.0)
    crossing = (2 * 0.5 / 9.81) ** 0.5
    near = trace.time[abs(trace.time - crossing).argmin()]
    assert near == pytest.approx(crossing, abs=1e-5)
    assert trace.events["above"][0].time == near + 0.123


def test_a_run_can_be_stepped_up_to_its_end() -> None:
    with up.start(falling(), step=0.1, until=1.0) as run:
        while not run.finished:
            run.step()
        assert run.time == pytest.approx(FALLS, abs=1e-5)
        with pytest.raises(up.StepError, match="where a property is violated"):
            run.step()
    assert run.finished
    assert run.trace.outcome is Outcome.STOPPED_BY_EVENT


def test_units_inside_nested_scenarios_are_watched_from_outside(tmp_path: Path) -> None:
    inside = up.Scenario({"ball": BALL}, outputs={"height": "ball.x"}, properties={
        "inner": {"holds": "always(ball.x > 0.5)", "online": "stop"}})  # fmt: skip
    for flatten in (True, False):
        box = up.Nested(inside, up.Master(up.Fixed(0.1)), flatten=flatten)
        outer = up.Scenario({"box": box}, properties={
            "above": {"holds": "always(box.height > 0)", "online": "stop"}})  # fmt: skip
        trace = up.simulate(outer, pace=up.Fixed(0.1), until=1.0)
        assert trace.time[-1] == 0.5  # and what should hold inside does not end it
        assert [event.name for event in trace.events] == ["above"]
    up.write_scenario(outer, tmp_path / "outer.toml")
    assert up.load(tmp_path / "outer.toml", step=0.1, until=1.0).scenario.properties == outer.properties


def test_inputs_parameters_outputs_and_signals_are_known_by_name() -> None:
    mass = up.Ode(
        {"x": "v", "v": "(F - k*x)/m"}, inputs=["F"], parameters={"m": 1.0, "k": 1.0}, outputs=["x", "v"]
    )
    made = up.Scenario(
        {"mass": mass},
        {"mass.F": "2*push"},
        inputs={"push": 0.5},
        outputs={"twice": "2*mass.x"},
        properties={
            "driven": "always(mass.F <= 1)",
            "stiff": {"holds": "always(mass.x <= 2.5*mass.m/mass.k)", "online": "watch"},
            "own": {"holds": "always(twice < 3 or push > 1)", "online": "watch"},
        },
    )
    trace = up.simulate(made, pace=up.Fixed(0.01), until=10.0)
    found = made.judged(trace)
    assert [found[name].verdict for name in ("driven", "stiff", "own")] == ["holds", "holds", "violated"]
    assert trace.events.times("own")[0] == pytest.approx(2.094, abs=0.02)  # where 1 - cos(t) = 1.5
    other = made.with_values({"mass.k": 2.0})
    again = up.simulate(other, pace=up.Fixed(0.01), until=10.0)
    assert other.judged(again)["stiff"].low == pytest.approx(1.25 - 1.0, abs=1e-3)


def test_units_of_measure_are_converted() -> None:
    fast = up.Function(outputs={"v": {"value": "time", "unit": "km/h"}})
    slow = up.Function(outputs={"v": {"value": "1", "unit": "m/s"}})
    made = up.Scenario({"a": fast, "b": slow}, properties={
        "slower": "always(a.v < b.v)",
        "bend": "always(abs(der(a.v)) < 2)"})  # fmt: skip
    trace = up.simulate(made, pace=up.Fixed(0.1), until=5.0)
    found = made.judged(trace)["slower"]
    assert (found.verdict, found.at) == ("violated", 5.0)
    assert found.low == pytest.approx(3.6 - 5.0, rel=0.01) or found.low == pytest.approx(1.0 - 5 / 3.6)
    wrong = {"a": fast, "b": up.Function(outputs={"m": {"value": "1", "unit": "kg"}})}
    with pytest.raises(ScenarioError, match="kg"):
        up.Scenario(wrong, properties={"p": "always(a.v < b.m)"})


def test_a_monolith_keeps_the_properties() -> None:
    made = up.experiment(falling("stop"), step=0.1, until=0.4)
    whole = made.monolithic()
    assert whole.scenario.judged(whole.run())["above"].verdict == "holds"


def test_what_was_not_recorded_is_undecided() -> None:
    made = up.experiment(falling("watch"), step=0.1, until=1.0, record=["ball.v"])
    trace = made.run()
    found = trace.properties["above"]
    assert (found.verdict, "ball.x was not recorded" in found.reason) == ("undecided", True)
    assert len(trace.events["above"]) == 1  # which needs no rows


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("always(bal.x > 0)", r"no unit 'bal'[\s\S]*Did you mean 'ball'"),
        ("always(ball.z > 0)", r"no output 'z'"),
        ("always(ball.x)", "is a number"),
        ("always(ball.x > 0", r"'\)' is missing"),
        (3, "is a text"),
        ({"hold": "always(ball.x > 0)"}, r"unknown key 'hold'[\s\S]*Did you mean 'holds'"),
        ({"online": "stop"}, "does not say what holds"),
        ({"holds": "always(ball.x > 0)", "online": "yes"}, '"watch" or "stop"'),
        ({"holds": "always(eventually(ball.x > 0))", "online": "stop"}, "cannot be watched.*has no end"),
        ({"holds": "always(eventually[1, 2](ball.x > 0))", "online": "stop"}, "does not begin at once"),
        ({"holds": "always(der(ball.x) > 0)", "online": "stop"}, "when the run is over"),
        (
            {"holds": "eventually(always[0, 1](eventually[0, 1](ball.x > 0)))", "online": "stop"},
            "looks ahead within",
        ),
        ({"holds": "always(time < 3)", "online": "stop"}, "names the time"),
        (
            {"holds": "not always[0, 1](ball.x > 0 or always[0, 1](ball.v < 0))", "online": "stop"},
            "beyond the window",
        ),
    ],
)
def test_a_wrong_property_is_refused_with_what_to_write(entry: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        up.Scenario({"ball": BALL}, properties={"p": entry})


def test_names_are_used_once() -> None:
    with pytest.raises(ScenarioError, match="used twice"):
        up.Scenario(
            {"ball": BALL}, events={"p": {"when": "ball.x <= 0"}}, properties={"p": "always(ball.x > 0)"}
        )
    with pytest.raises(ScenarioError, match="not a name for a property"):
        up.Scenario({"ball": BALL}, properties={"a b": "always(ball.x > 0)"})


def test_files_say_where_a_property_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "ball.toml"
    file.write_text(
        '[units.ball]\nstates = { x = "v", v = "-9.81" }\n\n[properties]\nfine = "always(ball.x < 2)"\n'
        'bad = { holds = "always(ball.y < 2)", online = "stop" }\n'
        "[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"
    )
    with pytest.raises(ScenarioError, match=r"line 6: \[properties › bad\] 'ball.y' does not exist"):
        up.load(file)
    file.write_text(file.read_text().replace("ball.y", "ball.x"))
    made = up.load(file)
    assert [(one.name, one.online) for one in made.scenario.properties] == [("fine", ""), ("bad", "stop")]
