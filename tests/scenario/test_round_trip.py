"""Any scenario survives being written to a file and read back; so do all examples."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upbeat.scenario.files.reading import ScenarioFile, read_scenario, read_text, scenario_text
from upbeat.scenario.files.toml import toml_text
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import read_signals
from upbeat.units import RK4, DormandPrince, Euler, Function, Ode

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

reals = st.floats(-1e6, 1e6)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
measures = st.sampled_from([None, "m", "mm", "km"])


def option(key: str, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | strategy.filter(lambda value: value is not None).map(lambda value: {key: value})


@st.composite
def ports(draw: st.DrawFn, start: str, kind: str = "real") -> dict[str, Any]:
    values = {"real": reals, "integer": st.integers(-9, 9), "boolean": st.booleans()}[kind]
    entry = {"kind": kind, **draw(option("description", texts))}
    entry |= draw(option(start, values))
    return entry | (draw(option("unit", measures)) if kind == "real" else {})


@st.composite
def models(draw: st.DrawFn) -> Ode | Function:
    """Every model has inputs u, n, on, w[2] and outputs y, k, b, a[2]."""
    inputs = {
        "u": draw(ports("start") | st.builds(dict, reactive=st.booleans())),
        "n": draw(ports("start", "integer")),
        "on": draw(ports("start", "boolean")),
        "w": {"size": 2, **draw(option("start", st.lists(reals, min_size=2, max_size=2)))},
        "mode": {"items": ["off", "heat"], **draw(option("start", st.sampled_from(["off", "heat"])))},
    }
    outputs = {
        "y": {
            "value": draw(st.sampled_from(["p*u", "u if on else 0", "t1(u) + l", "w[0] - time"])),
            **draw(option("unit", measures)),
        },
        "k": {"value": "round(n + u)", "kind": "integer"},
        "b": {"value": "mode == 'heat' and on", "kind": "boolean"},
        "a": draw(st.sampled_from(["w", ["u", "w[1]"]])),
        "m": {"value": "mode", "items": ["off", "heat"]},
    }
    spec: dict[str, Any] = {
        "inputs": inputs,
        "outputs": outputs,
        "parameters": {
            "p": {**draw(ports("value")), "value": draw(reals)} if draw(st.booleans()) else draw(reals),
            "q": draw(st.lists(reals, min_size=1, max_size=3)),
        },
        "locals": {"l": "p*q[0]"},
        "tables": {
            "t1": {
                "x": [0, 1.5],
                "y": [draw(reals), 2],
                **draw(option("mode", st.sampled_from(["hold", "linear"]))),
            }
        },
    }
    if draw(st.booleans()):
        return Function(**spec)
    solver = draw(st.sampled_from([RK4(), Euler(steps=3), Euler(step=0.1), DormandPrince(rtol=1e-4)]))
    states = {"x": {"der": "-x + u", "start": draw(reals)}, "z": ["x", "z[0]"]}
    return Ode(states=states, solver=solver, **spec)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    names = draw(
        st.lists(st.sampled_from(["left", "right", "b", "_x1", "time"]), min_size=1, max_size=4, unique=True)
    )
    shared = draw(models())
    units = {name: draw(st.just(shared) | models()) for name in names}
    unit = st.sampled_from(names)
    values: dict[str, list[str]] = {
        "u": ["{}.y", "2*{}.y + force", "{}.k", "force", "{}.a[1]", "3 if {}.b else 1"],
        "n": ["{}.k", "gear", "round({}.y)", "2"],
        "on": ["{}.b", "{}.y > 0", "{}.m == 'heat'", "true"],
        "w": ["{}.a", "{}.y", "2*{}.a - wind"],
        "mode": ["{}.m", "0"],
    }
    connections: dict[str, Any] = {}
    for name in draw(st.permutations(names)):
        for port in draw(st.lists(st.sampled_from(list(values)), unique=True)):
            connections[f"{name}.{port}"] = draw(st.sampled_from(values[port])).format(draw(unit))
        if draw(st.booleans()):
            connections[f"{name}.w"] = [f"{draw(unit)}.y", 1.5]
    inputs = {"force": draw(ports("start")), "gear": draw(ports("start", "integer")), "wind": {"size": 2}}
    outputs: dict[str, Any] = {
        "o1": f"{draw(unit)}.y",
        "o2": {"value": f"{draw(unit)}.a", **draw(option("description", texts))},
        "o3": {"value": f"{draw(unit)}.k", "kind": draw(st.sampled_from(["real", "integer"]))},
        "o4": {"value": "force + 1", **draw(option("unit", measures))},
        "o5": [f"{draw(unit)}.y", "gear"],
        "o6": f"{draw(unit)}.m",
    }
    kept = draw(st.lists(st.sampled_from(list(outputs)), unique=True))
    return Scenario(
        units, connections, inputs=inputs, outputs={k: outputs[k] for k in kept}, name=draw(texts)
    )


plain = st.recursive(
    reals | st.integers(-(2**40), 2**40) | texts | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
tables = st.dictionaries(texts, plain, max_size=3)


@given(scenarios(), tables, tables, tables)
@settings(max_examples=60, deadline=None)
def test_files_round_trip(scenario: Scenario, master: Any, run: Any, record: Any) -> None:
    file = ScenarioFile(scenario, master, run, record)
    text = scenario_text(file)
    assert read_text(text) == file
    assert scenario_text(read_text(text)).count("\n") >= 3


@given(st.dictionaries(st.sampled_from(["a", "run", "x-y"]), st.dictionaries(texts, plain, min_size=1)))
def test_any_table_survives(content: dict[str, Any]) -> None:
    read = tomllib.loads(toml_text({"v": 1, **content}))
    assert read == {"v": 1, **content}
    assert [list(table) for table in list(read.values())[1:]] == [list(table) for table in content.values()]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    file = read_scenario(path)
    assert read_text(scenario_text(file)) == file
    assert file.scenario.graph.loops == ()
    signals = path.with_suffix(".csv")
    if signals.exists():
        driven = file.scenario.driven(read_signals(signals, file.scenario))
        assert driven.free_inputs == {}
