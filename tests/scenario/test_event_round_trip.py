"""Any scenario with events survives being written to tables and read back."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scenario_models import fake, input_, output
from upbeat.core.ports import Kind
from upbeat.scenario.files.toml import toml_text
from upbeat.scenario.files.written import scenario_tables
from upbeat.scenario.scenario import Scenario

ORDERS = ("toIdle", "toWork", "true", "0")
MODES = ("toAuto", "toOff")
names = st.sampled_from(["left", "right", "b"])


def unit() -> Any:
    """Events of every kind in and out, and signals to sample."""
    return fake(
        *(make(f"{letter}{number}", event=True, **options)
          for make, letter in ((input_, "i"), (output, "o"))
          for number, options in enumerate(KINDS)),
        output("x", unit="kg"),
        output("on", kind=Kind.BOOLEAN),
    )  # fmt: skip


KINDS: list[dict[str, Any]] = [
    {"kind": Kind.BOOLEAN},
    {"kind": Kind.INTEGER},
    {"kind": Kind.REAL, "unit": "kg"},
    {"kind": Kind.REAL, "size": 2},
    {"kind": Kind.INTEGER, "items": ORDERS},
    {"kind": Kind.INTEGER, "items": MODES},
    {"kind": Kind.STRING},
]
# By the number of the target's kind: what may stand there, where {0} and {1} are units.
TEXTS: dict[int, list[str]] = {
    0: ["{0}.o0", "{0}.o0 or {1}.o0", "{0}.o1 > 3", "ring", "not {0}.o0 and {1}.on", "{0}.o4 == 'true'"],
    1: ["{0}.o1", "{0}.o1 or {1}.o0", "round({0}.o2/3)", "2*{0}.o1 + {1}.on"],
    2: ["{0}.o2", "2*{0}.o2 + {1}.x", "{0}.o2 or {1}.o2 or grams", "{0}.o3[1]"],
    3: ["{0}.o3", "2*{0}.o3", "{0}.o1", "{0}.o3 or {1}.o3"],
    4: ["{0}.o4", "{0}.o4 or call"],
    5: ["{0}.o5"],
    6: ["{0}.o6", "{0}.o6 or {1}.o6"],
}
VALUES: dict[int, list[Any]] = {
    0: [True, "{0}.on"],
    1: [3, "round({0}.x)"],
    2: ["{0}.x", "2.5*{0}.x", 1.5],
    3: [["{0}.x", 2], "{0}.x"],
    4: ["toWork", "'true'", 2],
    5: ["toOff"],
}
MAPPED: dict[int, st.SearchStrategy[Any]] = {
    0: st.booleans(),
    1: st.integers(-9, 9),
    2: st.floats(-9, 9),
    3: st.floats(-9, 9) | st.lists(st.floats(-9, 9), min_size=2, max_size=2),
    4: st.sampled_from(ORDERS) | st.integers(0, 3),
    5: st.sampled_from(MODES),
}
KEYS = {0: ("true", "false"), 1: ("-1", "0", "7"), 4: ORDERS, 5: MODES}


def filled(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, list):
        return [filled(draw, item) for item in value]
    return value.format(draw(names), draw(names)) if isinstance(value, str) else value


@st.composite
def entries(draw: st.DrawFn, target: int) -> Any:
    if target not in VALUES or draw(st.booleans()):
        return filled(draw, draw(st.sampled_from(TEXTS[target])))
    source = draw(st.sampled_from(list(KEYS)))
    table: dict[str, Any] = {"event": f"{draw(names)}.o{source}"}
    if draw(st.booleans()):
        table["value"] = filled(draw, draw(st.sampled_from(VALUES[target])))
    else:
        keys = draw(st.lists(st.sampled_from(KEYS[source]), min_size=1, unique=True))
        table["map"] = {key: draw(MAPPED[target]) for key in keys}
    if draw(st.booleans()):
        table["when"] = filled(draw, draw(st.sampled_from(["{0}.on", "{0}.x > 2 and ready", "not {1}.on"])))
    return table


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    one = unit()
    connections: dict[str, Any] = {}
    for name in ("left", "right", "b"):
        for target in draw(st.lists(st.sampled_from(list(TEXTS)), unique=True)):
            entry = entries(target)
            connections[f"{name}.i{target}"] = draw(entry | st.lists(entry, min_size=1, max_size=3))
    outputs: dict[str, Any] = {
        "plain": f"{draw(names)}.o4",
        "grams_out": {"value": f"{draw(names)}.o2", "unit": "g", "description": "so much"},
        "mapped": {"value": draw(entries(5)), "items": list(MODES)},
        "numbers": {"value": {"event": "b.o4", "map": {"toIdle": draw(st.integers(0, 9))}}},
        "either": {"value": [f"{draw(names)}.o1", {"event": "b.o0", "value": 3}]},
        "both": "left.o3 or right.o3",
        "signal": f"{draw(names)}.x",
    }
    kept = draw(st.lists(st.sampled_from(list(outputs)), unique=True))
    return Scenario(
        {"left": one, "right": one, "b": one},
        connections,
        inputs={
            "ring": {"event": True},
            "call": {"event": True, "items": list(ORDERS)},
            "grams": {"event": True, "unit": "g"},
            "ready": False,
        },
        outputs={key: outputs[key] for key in kept},
    )


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_events_round_trip(scenario: Scenario) -> None:
    tables = scenario_tables(scenario, lambda name, model: {"kind": "test"})
    read = tomllib.loads(toml_text({key: tables[key] for key in ("connections", "inputs", "outputs")}))
    again = Scenario(
        scenario.units, read.get("connections", {}), inputs=read["inputs"], outputs=read.get("outputs", {})
    )
    assert again == scenario
    assert scenario_tables(again, lambda name, model: {"kind": "test"}) == tables
