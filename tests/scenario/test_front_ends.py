"""State machines and converters in scenario files: read, written back, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import upbeat as up

EXAMPLES = Path(__file__).parents[2] / "examples"

CONVERTERS = """
upbeat = 1
[units.held]
kind = "hold"
start = "off"
items = ["off", "on"]
[units.probe]
kind = "sample"
every = 0.5
offset = 0.25
unit = "m"
[units.edge]
kind = "edge"
[units.limit]
kind = "threshold"
level = 2.0
hysteresis = 0.5
[units.clock]
kind = "clock"
every = 0.1
[units.plan]
kind = "schedule"
at = [1.0, 2.0]
value = ["on", "off"]
[models.tick]
kind = "clock"
every = 1.0
[units.slow]
model = "tick"
parameters = { every = 3.0 }
[units.fast]
model = "tick"
[run]
until = 1.0
"""


def test_every_converter_has_a_kind(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(CONVERTERS)
    units = up.load(tmp_path / "s.toml").scenario.units
    assert units == {
        "held": up.LastValue("off", items=["off", "on"]),
        "probe": up.Sampler(0.5, offset=0.25, unit="m"),
        "edge": up.Edge(),
        "limit": up.Threshold(2.0, hysteresis=0.5),
        "clock": up.Clock(0.1),
        "plan": up.Schedule([1.0, 2.0], ["on", "off"]),
        "slow": up.Clock(3.0),
        "fast": up.Clock(1.0),
    }


@pytest.mark.parametrize("name", ["traffic_light", "thermostat_hybrid", ""])
def test_files_are_written_back(name: str, tmp_path: Path) -> None:
    (tmp_path / "converters.toml").write_text(CONVERTERS)
    made = up.load(EXAMPLES / f"{name}.toml" if name else tmp_path / "converters.toml")
    up.write_scenario(made, tmp_path / "again.toml")
    again = up.load(tmp_path / "again.toml")
    assert again.scenario == made.scenario
    if name == "traffic_light":
        text = (tmp_path / "again.toml").read_text()
        assert "transitions = [\n    { from = " in text, "a line for each"


def test_transitions_say_that_it_is_a_state_machine(tmp_path: Path) -> None:
    text = (EXAMPLES / "traffic_light.toml").read_text()
    (tmp_path / "s.toml").write_text(text.replace('kind = "state_machine"\n', ""))
    assert up.load(tmp_path / "s.toml").scenario == up.load(EXAMPLES / "traffic_light.toml").scenario


def test_mistakes_have_lines(tmp_path: Path) -> None:
    text = """upbeat = 1
[units.m]
kind = "state_machine"
initial = "a"
states = { a = {}, b = { entry = { n = "1" } } }
transitions = [
    { from = "a", to = "b", after = 1 },
    { from = "b", to = "c", after = 1 },
]
[units.clock]
kind = "clock"
[units.probe]
kind = "sample"
every = -1.0
[master]
step = 0.1
[run]
until = 1.0
"""
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(up.ScenarioError) as caught:
        up.load(tmp_path / "s.toml")
    found = {(problem.line, ".".join(problem.where)) for problem in caught.value.problems}
    assert found == {
        (5, "units.m.states.b.entry.n"),
        (8, "units.m.transitions.1.to"),
        (10, "units.clock.every"),
        (14, "units.probe.every"),
    }


def test_explain_lists_states_that_nothing_leads_to() -> None:
    machine = up.StateMachine(["a", "b"], initial="a")
    text = up.explain(up.experiment(up.Scenario({"m": machine}), until=1.0), program=False)
    assert "no transition leads to b" in text


def test_the_hints_of_connections_are_true() -> None:
    units = {
        "m": up.StateMachine(
            ["a"],
            initial="a",
            outputs={"lamp": {"event": True, "items": ["off", "on"]}},
            transitions=[{"from": "a", "after": 1, "emit": {"lamp": "on"}}],
        ),
        "f": up.Function({"lamp": {"items": ["off", "on"]}}, {"y": "lamp"}),
    }
    with pytest.raises(up.ScenarioError) as caught:
        up.Scenario(units, {"f.lamp": "m.lamp"})
    assert '[units.held] with kind = "hold", items = ["off", "on"] (in Python: up.LastValue)' in str(
        caught.value
    )
    units["held"] = up.LastValue(items=["off", "on"])
    scenario = up.Scenario(units, {"held.event": "m.lamp", "f.lamp": "held.value"})
    trace = up.simulate(scenario, pace=0.5, until=2.0)
    assert trace["f.y"].tolist() == [0, 0, 0, 1, 1, 1]  # at 1 before and after
