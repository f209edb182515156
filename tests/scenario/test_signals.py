"""Signals for scenario inputs: CSV files good and bad, and the unit that plays them."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from scenario_models import typed
from upbeat.core.errors import FileProblem, InvalidInput
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import Signals, read_signals
from upbeat.units import Function

SCENARIO = Scenario(
    {"a": typed()},
    {"a.u": "force"},
    inputs={
        "force": {"unit": "N", "start": 1.5},
        "gear": {"kind": "integer", "start": 2},
        "brake": False,
        "mode": {"items": ["off", "heat"], "start": "heat"},
        "wind": {"size": 2, "start": [3.0, 4.0]},
    },
)


@pytest.fixture
def csv(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "signals.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refusal(path: Path, scenario: Scenario = SCENARIO) -> str:
    with pytest.raises(FileProblem) as caught:
        read_signals(path, scenario)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_reading(csv: Any) -> None:
    text = "\ufeff time, force ,brake,mode,gear\n0,1e1,true,off,1\r\n\n0.5,-2,0,heat,2.0\n1,3,FALSE,1,3\n"
    signals = read_signals(csv(text), SCENARIO)
    assert signals.time == (0.0, 0.5, 1.0)
    assert signals.values == {
        "force": (10.0, -2.0, 3.0),
        "brake": (True, False, False),
        "mode": (0, 1, 1),
        "gear": (1, 2, 3),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty; the first line must name the columns: time,force,gear,brake,mode,wind[0],wind[1]"),
        ("\n\n", "is empty"),
        ("t,force\n0,1\n", "line 1: the column 'time' is missing; the columns are: t, force"),
        ("time,forc\n0,1\n", "line 1: the scenario has no input 'forc'. Did you mean 'force'?"),
        ("time,force,force\n0,1,1\n", "line 1: the column 'force' is there twice"),
        ("time\n0\n", "line 1: there is no column but 'time'; add one per input: force"),
        ("time,wind[0]\n0,1\n", "line 1: a column for 'wind[1]' is missing, though 'wind' is driven"),
        ("time,force\n", "has a header, but no rows"),
        ("time,force\n0,1\n0.5,abc\n", "line 3, column 'force': 'abc' is not a number"),
        ("time,force\n0,1\n\n0.5,\n", "line 4, column 'force': the value is missing"),
        ("time,force\nx,1\n", "line 2, column 'time': 'x' is not a number"),
        ("time,force\n0,nan\n", "line 2, column 'force': nan is not a finite number"),
        ("time,force\n0,1\n1,2,3\n", "line 3 has 3 values, but the header names 2"),
        ("time,force\n0,1\n2,1\n1,1\n", "line 4: the time 1 lies before 2; sort the rows by time"),
        ("time,brake\n0,maybe\n", "line 2, column 'brake': 'maybe' is neither true nor false"),
        ("time,gear\n0,1.5\n", "line 2, column 'gear': 1.5 is not a whole number"),
        ("time,mode\n0,hot\n", "line 2, column 'mode': 'hot' is not a label"),
    ],
)
def test_bad_files_say_what_and_where(csv: Any, text: str, expected: str) -> None:
    assert expected in refusal(csv(text))


def test_files_that_are_no_text(csv: Any, tmp_path: Path) -> None:
    assert "UTF-8" in refusal(csv(b"time,force\n0,\xff\xfe\n"))
    assert "is not a CSV file" in refusal(csv('time,force\n0,"' + "1" * 200_000 + '"\n'))
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(FileProblem, match=f"cannot read '{path}': "):
            read_signals(path, SCENARIO)


def test_a_scenario_without_inputs(csv: Any) -> None:
    message = refusal(csv("time,force\n0,1\n"), Scenario({"a": typed()}))
    assert "the scenario has no inputs" in message
    assert 'force = { unit = "N" }' in message


def test_signals_from_python_are_checked() -> None:
    with pytest.raises(InvalidInput, match="must increase, but 0 follows 1"):
        Signals([0, 1, 0], {"force": [1, 2, 3]})
    with pytest.raises(InvalidInput, match="'force' has 1 values for 2 points in time"):
        Signals([0, 1], {"force": [1]})
    with pytest.raises(InvalidInput, match="at least one point"):
        Signals([], {})
    with pytest.raises(InvalidInput, match="finite"):
        Signals([0, float("inf")], {"force": [1, 2]})


# -------------------------------------------------------------------- the unit that plays them


def value_at(scenario: Scenario, time: float) -> dict[str, Any]:
    unit = scenario.units["inputs"].instantiate("inputs", 0.0)
    if time:
        unit.advance(0.0, time, False)
    return {port.name: unit.get(port.name) for port in scenario.opened_inputs}


def test_reals_are_interpolated_and_all_others_held() -> None:
    signals = Signals(
        [0.0, 2.0],
        {
            "force": [1.0, 3.0],
            "gear": [1, 5],
            "brake": [True, False],
            "mode": ["off", "heat"],
            "wind[0]": [0.0, 1.0],
            "wind[1]": [5.0, 5.0],
        },
    )
    driven = SCENARIO.driven(signals)
    assert value_at(driven, 1.0) == {"force": 2.0, "gear": 1, "brake": True, "mode": 0, "wind": (0.5, 5.0)}
    assert value_at(driven, 9.0) == {"force": 3.0, "gear": 5, "brake": False, "mode": 1, "wind": (1.0, 5.0)}
    assert driven.free_inputs == {}
    assert pickle.loads(pickle.dumps(driven)) == driven


def test_what_is_not_driven_starts_at_its_start_and_can_be_set() -> None:
    driven = SCENARIO.driven({"time": [0.0, 1.0], "force": [0.0, 1.0]})
    unit = driven.units["inputs"].instantiate("inputs", 0.0)
    assert {name: unit.get(name) for name in ("gear", "brake", "mode", "wind")} == {
        "gear": 2,
        "brake": False,
        "mode": 1,
        "wind": (3.0, 4.0),
    }
    assert list(driven.free_inputs) == ["gear", "brake", "mode", "wind"]
    unit.set(driven.free_inputs["gear"][1].name, [4])
    unit.set(driven.free_inputs["wind"][1].name, [(1.0, 2.0)])
    assert unit.get("gear") == 4
    assert unit.get("wind") == (1.0, 2.0)


def test_ports_keep_kind_unit_and_labels() -> None:
    for driven in (SCENARIO.closed(), SCENARIO.driven({"time": [0], "mode": ["off"], "force": [2.0]})):
        for port in SCENARIO.inputs:
            played = driven.port(f"inputs.{port.name}")
            assert (played.kind, played.unit, played.size, played.items) == (
                port.kind,
                port.unit,
                port.size,
                port.items,
            )


def test_one_row_is_a_constant() -> None:
    assert value_at(SCENARIO.driven(Signals([3.0], {"force": [7.5]})), 1.0)["force"] == 7.5


def test_signals_for_something_else_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no scenario input 'forc'\. Did you mean 'force'"):
        SCENARIO.driven({"time": [0, 1], "forc": [1, 2]})
    with pytest.raises(InvalidInput, match=r"no signal for 'wind\[1\]'"):
        SCENARIO.driven({"time": [0, 1], "wind[0]": [1, 2]})
    with pytest.raises(InvalidInput, match="signal 'brake': port 'brake' is boolean, but was given 3"):
        SCENARIO.driven({"time": [0, 1], "brake": [3, 2]})
    with pytest.raises(InvalidInput, match="no scenario input 'force'"):
        Scenario({"a": typed()}).driven({"time": [0], "force": [1]})


def test_an_index_that_no_label_has(tmp_path: Path) -> None:
    made = Scenario({"a": Function(outputs={"y": "1"})}, inputs={"mode": {"items": ["off", "on"]}})
    path = tmp_path / "signals.csv"
    path.write_text("time,mode\n0,on\n1,2\n")
    with pytest.raises(FileProblem, match=r"line 3, column 'mode': .*2 is not an index of off, on"):
        read_signals(path, made)
    with pytest.raises(InvalidInput, match=r"signal 'mode': .*7 is not an index of off, on"):
        made.driven({"time": [0, 1], "mode": [0, 7]})
    assert made.driven({"time": [0, 1], "mode": ["off", 1]})


# -------------------------------------------------------------------- events

CALLS = Scenario(
    {"a": typed()},
    {"a.u": "force"},
    inputs={
        "force": {"unit": "N", "start": 1.5},
        "call": {"event": True, "items": ["stop", "go"]},
        "ring": {"event": True},
        "pair": {"event": True, "kind": "real", "size": 2},
    },
)


def heard(scenario: Scenario, until: float, start: float = 0.0) -> list[tuple[float, dict[str, Any]]]:
    """What the unit sends by itself, from event to event."""
    unit: Any = scenario.units["inputs"].instantiate("inputs", start)
    found = []
    time = start
    while unit.due() <= until:
        if unit.due() > time:
            unit.advance(time, unit.due(), False)
            time = unit.due()
        sent = {name: unit.get(name) for name in ("call", "ring", "pair")}
        found.append((time, {name: value for name, value in sent.items() if value is not None}))
        unit.jump()
    return found


def test_events_at_given_times() -> None:
    signals = {
        "time": [0.0, 2.0],
        "force": [1.0, 3.0],
        "call": {"at": [1.0, 2.5], "value": ["go", "stop"]},
        "ring": {"at": (1.0, 3.0, 4.0)},
        "pair": {"at": 1.5, "value": [[1, 2]]},
    }
    driven = CALLS.driven(signals)
    assert heard(driven, 3.5) == [
        (1.0, {"call": 1, "ring": True}),
        (1.5, {"pair": (1.0, 2.0)}),
        (2.5, {"call": 0}),
        (3.0, {"ring": True}),
    ]
    assert heard(driven, 9.0, start=2.5) == [(2.5, {"call": 0}), (3.0, {"ring": True}), (4.0, {"ring": True})]
    assert heard(driven, 9.0, start=3.5) == [(4.0, {"ring": True})]
    unit: Any = driven.units["inputs"].instantiate("inputs", 0.0)
    unit.advance(0.0, 0.5, False)
    assert unit.get("force") == 1.5
    assert driven.free_inputs == {}


def test_events_set_by_hand_are_handed_on_at_once() -> None:
    closed = CALLS.driven({"ring": {"at": [1.0]}})
    assert set(closed.free_inputs) == {"force", "call", "pair"}
    unit: Any = closed.units["inputs"].instantiate("inputs", 0.0)
    assert unit.due() == 1.0
    unit.set("set_call", [1])
    assert unit.due() <= 0.0
    assert (unit.get("call"), unit.get("ring")) == (1, None)
    unit.jump()
    assert (unit.get("call"), unit.due()) == (None, 1.0)
    unit.advance(0.0, 1.0, False)
    unit.set("set_pair", [[3.0, 4.0]])
    assert (unit.get("pair"), unit.get("ring")) == ((3.0, 4.0), True)  # both in the one jump
    unit.jump()
    assert unit.due() == float("inf")


def test_events_from_a_file(csv: Any) -> None:
    text = "time,force,call,ring,pair[0],pair[1]\n0,1,go,,,\n1,2,,,,\n2,2,stop,true,1,2\n"
    signals = read_signals(csv(text), CALLS)
    assert signals.values["call"] == (1, None, 0)
    assert heard(CALLS.driven(signals), 9.0) == [
        (0.0, {"call": 1}),
        (2.0, {"call": 0, "ring": True, "pair": (1.0, 2.0)}),
    ]
    assert heard(CALLS.driven(read_signals(csv("time,ring\n0,\n"), CALLS)), 9.0) == []


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ({"call": {"at": [1.0], "value": ["halt"]}}, "signal 'call': .*'halt' is not one of stop, go"),
        ({"call": {"at": [1.0]}}, "signal 'call': port 'call' is integer, but was given True"),
        ({"call": {"at": [1.0, 2.0], "value": ["go"]}}, "'call' has 1 values for 2 points in time"),
        ({"call": {"at": [2.0, 1.0], "value": "go"}}, "must increase"),
        ({"call": {"value": "go"}}, "does not say when"),
        ({"call": {"at": [], "value": "go"}}, "'call' has no times"),
        ({"call": {"at": [1.0], "valu": "go"}}, "Did you mean 'value'"),
        ({"cal": {"at": [1.0], "value": "go"}}, "Did you mean 'call'"),
        ({"force": {"at": [1.0], "value": 2.0}}, "'force' is not an event"),
        ({"time": [0, 1], "force": [None, 1.0]}, "is real, but was given None"),
        ({"time": [0, 1], "pair[0]": [None, 1.0]}, "there is no signal for 'pair\\[1\\]'"),
        ({"time": [0], "pair[0]": [None], "pair[1]": [1.0]}, "was given None"),
    ],
)  # fmt: skip
def test_events_that_are_refused(signals: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInput, match=expected):
        CALLS.driven(signals)


def test_the_unit_that_sends_events_is_a_value() -> None:
    driven = CALLS.driven({"ring": {"at": [1.0, 2.0]}})
    assert pickle.loads(pickle.dumps(driven)) == driven
    assert driven == CALLS.driven({"ring": {"at": [1.0, 2.0]}})
    assert driven != CALLS.driven({"ring": {"at": [1.0, 2.5]}})


def test_two_rows_of_one_time_are_a_jump(csv: Any, engine: str) -> None:
    """At that time, and at communication points that are rounded to just before it, it has happened."""
    scenario = up.Scenario(
        units={"one": up.Function(inputs=["u"], outputs={"y": "u"})},
        inputs=["force"],
        connections={"one.u": "force"},
    )
    signals = read_signals(csv("time,force\n0,9\n0,1\n29,2\n29,5\n40,5\n"), scenario)
    for step in (0.29, 0.1, 1.0, 0.01):  # 100 * 0.29 is 28.999999999999996
        trace = up.simulate(scenario, pace=step, until=30.0, signals=signals, engine=engine)  # type: ignore[arg-type]
        time, y = np.asarray(trace.time), np.asarray(trace["one.y"])
        before = time < 29.0 * (1 - 1e-12)
        np.testing.assert_allclose(y[before], 1 + time[before] / 29, rtol=1e-12)
        np.testing.assert_array_equal(y[~before], 5.0)


def test_of_more_rows_of_one_time_the_first_and_the_last_count(csv: Any) -> None:
    """As in a trace, so that one can be a signal."""
    one = up.Function(inputs=["u"], outputs={"y": "u"})
    scenario = up.Scenario({"one": one}, {"one.u": "force"}, inputs=["force"])
    more = read_signals(csv("time,force\n0,9\n0,4\n0,1\n2,3\n2,-7\n2,-8\n2,5\n4,5\n"), scenario)
    two = read_signals(csv("time,force\n0,9\n0,1\n2,3\n2,5\n4,5\n"), scenario)
    for held in ((), ("force",)):
        played = [
            up.simulate(scenario, pace=0.25, until=4.0, signals=Signals(one.time, one.values, held))["one.y"]
            for one in (more, two)
        ]
        np.testing.assert_array_equal(*played)


def test_what_is_held_keeps_its_value_from_row_to_row(engine: str) -> None:
    scenario = up.Scenario(
        units={"one": up.Function(inputs=["u"], outputs={"y": "u"})},
        inputs=["force"],
        connections={"one.u": "force"},
    )
    signals = Signals([0.0, 29.0, 29.0, 31.0], {"force": [1.0, 7.0, 2.0, 3.0]}, held=["force"])
    trace = up.simulate(scenario, pace=0.29, until=32.0, signals=signals, engine=engine)  # type: ignore[arg-type]
    time = np.asarray(trace.time)
    expected = np.where(time < 28.99, 1.0, np.where(time < 31.0, 2.0, 3.0))
    np.testing.assert_array_equal(trace["one.y"], expected)


# ---------------------------------------------------------------- parameters and strings, which a run sets


def _decay(kind: str) -> tuple[up.Model, str]:
    """x' = -k x; a nest of one, too, and one with an array and a whole number."""
    ode = up.Ode({"x": "-k*x"}, start={"x": 1.0}, parameters={"k": 5.0}, outputs={"x": "x", "rate": "-k*x"},
                 solver=up.DormandPrince(1e-11, 1e-13))  # fmt: skip
    if kind != "nest":
        return ode, "m.k"
    inner = up.Scenario({"s": ode}, outputs={"x": "s.x", "rate": "s.rate"})
    return up.Nested(inner, up.Master(up.Fixed(0.1)), flatten=False), "m.s.k"


@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(-4, 24), st.floats(0.1, 5.0)), min_size=1, max_size=6),
    kind=st.sampled_from(["ode", "nest", "monolith"]),
    start=st.sampled_from([0.0, 0.3]),
)
def test_columns_of_parameters_set_them(rows: Any, kind: str, start: float) -> None:
    """Judged by the closed form: a value counts from the first communication point at or after its row.

    Rows lie on halves of steps; two of one time are a jump, of which the second counts.
    """
    rows = sorted({(t, n): (t, k) for n, (t, k) in enumerate(rows)}.values(), key=lambda row: row[0])
    rows = [row for i, row in enumerate(rows) if i < 2 or rows[i - 2][0] != row[0]]
    model, name = _decay(kind)
    scenario = up.Scenario({"m": model})
    signals = Signals([t * 0.05 for t, _ in rows], {name: [k for _, k in rows]})
    x, expected = 1.0, []
    for step in range(11):
        reached = [k for t, k in rows if t * 0.05 <= start + step * 0.1 + 1e-9]
        k = reached[-1] if reached else [k for t, k in rows if t == rows[0][0]][-1]
        expected.append((x, -k * x if step < 10 else None))
        x *= math.exp(-k * 0.1)
    traces = []
    for engine in ("interpret", "native"):
        plan = up.experiment(
            scenario, pace=up.Fixed(0.1), start=start, until=start + 1.0, signals=signals, engine=engine
        )
        trace = (plan.monolithic() if kind == "monolith" else plan).run()
        traces.append(trace)
        for step, (value, rate) in enumerate(expected):
            at = trace.at(start + step * 0.1)
            assert at["m.x"] == pytest.approx(value, rel=1e-8)
            assert rate is None or at["m.rate"] == pytest.approx(rate, rel=1e-8)
    assert traces[0]["m.rate"].tobytes() == traces[1]["m.rate"].tobytes()
    assert traces[0].time.tobytes() == traces[1].time.tobytes()


class Echo:
    def __init__(self, name: str, start: float, parameters: Any) -> None:
        self.said = ""

    def set(self, port: str, coefficients: Any) -> None:
        (self.said,) = coefficients

    def get(self, port: str) -> str:
        return self.said

    def advance(self, t: float, to: float, early: bool) -> float:
        return to


def test_columns_of_strings_and_arrays(csv: Any, engine: str) -> None:
    heard = up.Port("says", up.Causality.INPUT, up.Kind.STRING, start="nothing")
    told = up.Port("said", up.Causality.OUTPUT, up.Kind.STRING, depends=frozenset({"says"}))
    line = up.Function([], {"y": "k[0] + 10*k[1] + 100*n"},
                       parameters={"k": [1.0, 2.0], "n": {"value": 0, "kind": "integer"}})  # fmt: skip
    scenario = up.Scenario({"e": up.PythonUnit(Echo, [heard, told]), "f": line})
    path = csv('time,e.says,f.k[0],f.k[1],f.n\n0.1,"a, b",1,2,3\n0.2,,1,2,3\n0.2,c,4,5,3\n9,d,0,0,0\n')
    signals = read_signals(path, scenario)
    trace = up.simulate(scenario, pace=0.1, until=0.3, signals=signals, engine=engine)
    assert [trace.at(t)["e.said"] for t in (0.0, 0.1, 0.2, 0.3)] == ["a, b", "a, b", "c", "c"]
    assert [trace.at(t)["f.y"] for t in (0.0, 0.1, 0.2, 0.3)] == [321.0, 321.0, 354.0, 354.0]
    assert len(trace) == 5
    assert "the parameter 'f.k' was set by its signal: (4, 5) at t = 0.2" in trace.notes
    run = up.start(scenario, pace=0.1, until=0.3, signals=signals, engine=engine)
    with run, pytest.raises(InvalidInput, match=r"'f.k' follows a signal"):
        run.set("f.k", [1.0, 2.0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,m.k\n0,1\n", r"signal for the parameter 'm.k', which cannot change.*event 'low' reads it"),
        (
            "time,u.limit\n0,1\n",
            r"signal for the parameter 'u.limit', which cannot change.*PythonUnit is given",
        ),
        ("time,m.kk\n0,1\n", r"no input 'm.kk'.*'m.k'"),
        ("time,m.a[0]\n0,1\n", r"column for 'm.a\[1\]' is missing"),
        ("time,m.a[0],m.a[1]\n0,1,x\n", r"line 2, column 'm.a\[1\]': 'x' is not a number"),
    ],
)
def test_columns_that_cannot_be_set_are_refused(text: str, words: str, csv: Any) -> None:
    ode = up.Ode({"x": "-k*x + a[0]*a[1]"}, start={"x": 1.0}, parameters={"k": 5.0, "a": [0.0, 0.0]})
    unit = up.PythonUnit(Echo, outputs=["y"], parameters={"limit": 1.0})
    scenario = up.Scenario({"m": ode, "u": unit}, events={"low": {"when": "m.x <= m.k - 4.5"}})
    with pytest.raises(up.UpbeatError, match=words):
        up.simulate(scenario, pace=0.1, until=0.3, signals=read_signals(csv(text), scenario))


def test_a_resumed_run_goes_on_with_its_signals(tmp_path: Path, engine: str) -> None:
    scenario = up.Scenario({"m": _decay("ode")[0]})
    signals = Signals([0.0, 0.2, 0.4, 0.75], {"m.k": [1.0, 3.0, 2.0, 0.5]})
    how: Any = {"pace": up.Fixed(0.1), "until": 1.0, "signals": signals, "engine": engine}
    whole = up.simulate(scenario, **how)
    plan = up.experiment(scenario, **how, checkpoint=tmp_path / "c")
    with plan.open() as run:
        for _ in range(4):
            run.step()
    resumed = up.resume(tmp_path / "c", experiment=plan)
    assert resumed["m.x"].tobytes() == whole["m.x"].tobytes()
    assert resumed.info["parameters"] == whole.info["parameters"]


def test_a_verdict_is_about_one_set_of_parameters() -> None:
    scenario = up.Scenario({"m": _decay("ode")[0]})
    settings: Any = {"pace": up.Fixed(0.1), "until": 1.0}
    with pytest.raises(InvalidInput, match=r"changes 'm.k' at t = 0.5.*--set m.k"):
        up.stability_of(scenario, **settings, signals=Signals([0.0, 0.5], {"m.k": [1.0, -2.0]}))
    growing = up.stability_of(scenario, **settings, signals=Signals([0.0], {"m.k": [-2.0]}))
    assert growing.spectral_radius == pytest.approx(math.exp(0.2), rel=1e-6)
