"""Isolation in scenarios, files and runs: who gets a process, and that results stay what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from isolated_models import counter
from upbeat.engine.isolation import Isolation, separated, together
from upbeat.units.process import Isolated

MASS = up.Ode(states={"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"], outputs=["x"])
SPRING = up.Function(inputs=["x"], outputs={"F": "-0.5*x"})


def pair(mass: up.Model = MASS, spring: up.Model = SPRING) -> up.Scenario:
    return up.Scenario({"mass": mass, "spring": spring}, {"mass.F": "spring.F", "spring.x": "mass.x"})


def apart(scenario: up.Scenario) -> dict[str, bool]:
    return {name: isinstance(model, Isolated) for name, model in scenario.units.items()}


def test_the_word_of_the_run_and_of_the_unit() -> None:
    every, none = Isolation("process"), Isolation("none")
    assert apart(separated(pair(), Isolation())) == {"mass": False, "spring": False}
    assert apart(separated(pair(), every)) == {"mass": True, "spring": True}
    own = pair(Isolated(MASS, isolation="none"), Isolated(SPRING))
    assert apart(separated(own, every)) == {"mass": False, "spring": True}
    assert apart(separated(own, none)) == {"mass": False, "spring": True}
    waiting = pair(Isolated(MASS, deadline=3.0, isolation="auto"))
    assert separated(waiting, every).units["mass"] == Isolated(MASS, deadline=3.0)
    assert separated(waiting, none).units["mass"] == MASS
    assert separated(pair(), Isolation("process", 2.0, 1)).units["mass"] == Isolated(MASS, 2.0, 1)
    assert together(own) == pair()


def test_units_of_nested_scenarios_get_processes_of_their_own() -> None:
    inside = up.Scenario({"mass": MASS}, {"mass.F": "F"}, inputs=["F"], outputs={"x": "mass.x"})
    nested = up.Nested(inside, up.Master(up.Fixed(0.1)))
    outer = up.Scenario({"car": nested, "spring": SPRING}, {"car.F": "spring.F", "spring.x": "car.x"})
    made = separated(outer, Isolation("process")).units["car"]
    assert isinstance(made, up.Nested)
    assert made.scenario.units["mass"] == Isolated(MASS)
    whole = outer.with_units({"car": Isolated(nested)})
    assert separated(whole, Isolation("none")).units["car"] == Isolated(nested)


FILE = """
upbeat = 1
[models.mass]
states = { x = "v", v = "F - x" }
start = { x = 1.0 }
inputs = ["F"]
outputs = ["x"]
isolation = "process"
deadline = 3.0
[units.mass]
model = "mass"
restart = 2
[units.spring]
inputs = ["x"]
outputs = { F = "-0.5*x" }
isolation = "none"
[connections]
mass.F = "spring.F"
spring.x = "mass.x"
[master]
step = 0.1
[run]
until = 1.0
isolation = "process"
restart = 1
"""


def test_files_say_it_and_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "pair.toml"
    path.write_text(FILE)
    made = up.load(path)
    assert made.isolation == Isolation("process", 10.0, 1)
    assert made.scenario.units["mass"] == Isolated(MASS, 3.0, 2)
    assert made.scenario.units["spring"] == Isolated(SPRING, isolation="none")
    up.write_scenario(made, tmp_path / "again.toml")
    again = up.load(tmp_path / "again.toml")
    assert again.scenario == made.scenario
    assert again.isolation == made.isolation
    text = up.explain(made)
    assert "mass (Ode, solver rk4, in a process of its own)" in text
    assert "spring (Function)" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'isolation = "none"',
            'isolation = "prozess"',
            "there is no isolation 'prozess'. Did you mean 'process'?",
        ),
        ("deadline = 3.0", "deadline = -3.0", "positive number of seconds"),
        ("restart = 2", "restart = 2.5", "whole number"),
        ("restart = 1\n", "restart = -1\n", "at least 0"),
        ('isolation = "process"\nrestart = 1', 'isolation = "always"', "there is no isolation 'always'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "pair.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(up.ScenarioError, match=words) as caught:
        up.load(path)
    assert all(problem.line is not None for problem in caught.value.problems)


def test_settings_are_checked() -> None:
    with pytest.raises(up.InvalidInput, match="Write for example isolation="):
        up.simulate(pair(), pace=0.1, until=1.0, isolation="always")  # type: ignore[arg-type]
    with pytest.raises(up.InvalidInput, match=r"unit 'a' cannot run in a process of its own: .*SERIALISE"):
        up.simulate(
            up.Scenario({"a": counter(abilities=())}), pace=1, until=1, isolation="process", restart=1
        )


def test_results_are_the_same_bit_for_bit(engine: str) -> None:
    settings = {"pace": 0.1, "until": 2.0, "inputs": up.Linear(), "engine": engine}
    here = up.simulate(pair(), **settings)
    there = up.simulate(pair(), isolation="process", **settings)
    assert here["mass.x"].tobytes() == there["mass.x"].tobytes()
    assert here["spring.F"].tobytes() == there["spring.F"].tobytes()


def test_the_monolith_is_the_same() -> None:
    plain = up.experiment(pair(), pace=0.1, until=1.0).monolithic().run()
    apart = up.experiment(pair(Isolated(MASS)), pace=0.1, until=1.0, isolation="process").monolithic().run()
    np.testing.assert_array_equal(plain["mass.x"], apart["mass.x"])


def test_a_checkpoint_does_not_care_where_units_run(engine: str, tmp_path: Path) -> None:
    settings = {"pace": 0.1, "until": 2.0, "engine": engine}
    whole = up.simulate(pair(), **settings)
    kept = up.Checkpoint(tmp_path / "run.checkpoint")
    first = up.experiment(pair(), checkpoint=kept, isolation="process", **settings)
    with first.open() as run:
        for _ in range(7):
            run.step()
    rest = up.resume(kept.path, experiment=up.experiment(pair(), **settings))
    assert whole["mass.x"].tobytes() == rest["mass.x"].tobytes()


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["coupled_masses", "tank", "thermostat_hybrid", "traffic_light"])
def test_examples_give_the_same_bits_and_events(engine: str, name: str) -> None:
    def outcome(isolation: str) -> tuple[object, ...]:
        trace = up.load(EXAMPLES / f"{name}.toml", engine=engine, isolation=isolation, record=None).run()  # type: ignore[arg-type]
        columns = {column.name: trace[column.name].tolist() for column in trace.columns}
        return repr(columns), trace.time.tobytes(), repr(list(trace.events))

    assert outcome("process") == outcome("none")


@pytest.mark.parametrize("engine", ["interpret", "native"])
def test_a_process_finds_the_module_beside_the_file(engine: str, tmp_path: Path) -> None:
    (tmp_path / f"beside_{engine}.py").write_text(
        "class Unit:\n"
        "    def __init__(self, *given):\n        self.v = 0.0\n"
        "    def get(self, port):\n        return self.v\n"
        "    def advance(self, t, to, early=False):\n        self.v = to\n        return to\n"
    )
    (tmp_path / "json.py").write_text("raise RuntimeError('not this one')\n")  # nobody asked for it
    path = tmp_path / "beside.toml"
    path.write_text(
        f'units.x = {{ kind = "python", class = "beside_{engine}:Unit", outputs = ["y"] }}\n'
        f'master.step = 0.25\n[run]\nuntil = 1.0\nengine = "{engine}"\nisolation = "process"\n'
    )
    assert up.load(path, allow_python=True).run()["x.y"].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
