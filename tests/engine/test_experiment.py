"""Experiments: plain arguments and the words of a file, what is wrong with them, and back to a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.engine.formats.files import file_of

DECAY = up.Scenario(
    units={
        "a": up.Ode(states={"x": "u - x"}, start={"x": 1.0}, inputs=["u"]),
        "b": up.Function(inputs=["v"], outputs={"y": "0.5*v"}),
    },
    connections={"a.u": "b.y + push", "b.v": "a.x"},
    inputs={"push": {"start": 0.0}},
)


def test_the_words_of_a_file_mean_the_same() -> None:
    objects = up.experiment(
        DECAY,
        pace=up.Fixed(0.1),
        until=1.0,
        coupling=up.GaussSeidel(order=("a", "b")),
        inputs=up.Linear(),
        ports={"b.v": up.Hold()},
    )
    words = up.experiment(
        DECAY,
        pace={"kind": "fixed", "step": 0.1},
        until=np.int64(1),  # type: ignore[arg-type]
        start=np.float32(0),
        coupling={"kind": "gauss_seidel", "order": ["a", "b"]},
        inputs="linear",
        ports={"b.v": "hold"},
    )
    assert objects == words
    assert up.experiment(DECAY, pace=0.1, until=1, coupling="jacobi") == up.experiment(
        DECAY, pace=np.float32(0.1).item() and 0.1, until=1.0, coupling=up.Jacobi()
    )


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"pace": None}, "'pace' is missing: write pace=0.01"),
        ({"pace": "x"}, "pace: unknown pace 'x'"),
        ({"pace": True}, "pace: .* not True.* Write for example pace=0.01"),
        ({"pace": -1}, "pace: .* positive"),
        ({"pace": "fixed"}, "pace: the pace 'fixed' needs 'step'"),
        ({"pace": up.Fixed}, "pace: Fixed is a class"),
        ({"coupling": up.Jacobi}, "coupling: Jacobi is a class"),
        ({"coupling": "jacoby"}, "coupling: unknown coupling 'jacoby'"),
        ({"coupling": 3}, "coupling: .* coupling=up.GaussSeidel"),
        ({"inputs": "lineal"}, "inputs: unknown approximation 'lineal'"),
        ({"ports": {"a.u": "lineal"}}, r"ports\['a.u'\]: unknown approximation"),
        ({"ports": ["a.u"]}, 'ports: .* ports={"left.F": "linear"}'),
        ({"until": None}, "'until' is missing: write until=10.0"),
        ({"until": "2"}, "until: a time must be a number, not '2'"),
        ({"until": True}, "until: a time must be a number"),
        ({"until": float("nan")}, "until: .*finite"),
        ({"start": "0"}, "start: a time must be a number"),
        ({"every": 0}, "every: every must be"),
        ({"every": 1.5}, "every: every must be"),
        ({"record": 5}, "record: must be a list of names"),
        ({"out": 5}, "out: must be the name of a file"),
        ({"out": "x.txt"}, "out: .*suffix"),
        ({"engine": "fast"}, "engine: there is no engine 'fast'"),
        ({"jit": "yes"}, "jit: must be true or false"),
        ({"cores": 0}, "cores: cores must be a whole number from 1 to 1024, not 0. .* cores=4"),
        ({"cores": 2.0}, "cores: cores must be a whole number"),
        ({"cores": True}, "cores: cores must be a whole number"),
        ({"cores": 5000}, "cores: cores must be a whole number from 1 to 1024"),
        ({"flatten": 1}, "flatten: must be true or false"),
        ({"signals": "in.csv"}, "signals=up.read_signals"),
        ({"untill": 3.0}, "there is no setting 'untill'. Did you mean 'until'"),
    ],
)
def test_wrong_arguments_say_what_to_type(wrong: dict[str, Any], text: str) -> None:
    for call in (up.simulate, up.start, up.experiment):
        with pytest.raises(up.InvalidInput, match=text):
            call(DECAY, **({"pace": 0.1, "until": 1.0} | wrong))


@pytest.mark.parametrize(
    ("scenario", "text"),
    [
        ({"units": {}}, "not {'units': {}}. Write up.Scenario"),
        ("s.toml", 'To run a file, write up.load("s.toml").run()'),
        (up.experiment(DECAY, pace=0.1, until=1.0), "call its run()"),
    ],
)
def test_only_a_scenario_is_a_scenario(scenario: Any, text: str) -> None:
    with pytest.raises(up.InvalidInput, match=re.escape(text)):
        up.simulate(scenario, pace=0.1, until=1.0)


def test_several_wrong_arguments_are_reported_together() -> None:
    with pytest.raises(up.InvalidInput) as caught:
        up.simulate(DECAY, pace=-1, until="2", coupling="x")  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 3


def test_start_takes_what_simulate_takes(tmp_path: Path, engine: Any) -> None:
    signals = up.Signals([0.0, 1.0], {"push": [1.0, 1.0]})
    settings: up.Settings = {
        "pace": 0.1,
        "until": 1.0,
        "signals": signals,
        "every": 5,
        "record": ["a.x", "push"],
        "engine": engine,
    }
    with up.start(DECAY, out=tmp_path / "by_hand.csv", **settings) as run:
        while not run.finished:
            run.step()
    up.simulate(DECAY, out=tmp_path / "at_once.csv", **settings)
    assert (tmp_path / "by_hand.csv").read_text() == (tmp_path / "at_once.csv").read_text()
    assert len(up.read(tmp_path / "by_hand.csv")) == 3


def test_jit_is_not_ignored_on_the_interpreter() -> None:
    with pytest.raises(up.InvalidInput, match=r"jit is for the native engine.*asked for.*choice of engine"):
        up.simulate(DECAY, pace=0.1, until=1.0, engine="interpret", jit=True)


# ------------------------------------------------------------------------------------ files


def test_an_experiment_round_trips_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    made = up.experiment(
        DECAY,
        pace=0.1,
        start=0.5,
        until=2.0,
        coupling=up.GaussSeidel(outputs="lagged"),
        inputs=up.Polynomial(2),
        ports={"b.v": up.Hold()},
        record=["a.*"],
        every=3,
        out="r.csv",
        engine="interpret",
    )
    up.write_scenario(made, path)
    assert up.load(path) == made
    up.write_scenario(up.load(path), tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_text() == path.read_text()


def test_a_scenario_is_written_without_a_master(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    up.write_scenario(DECAY, path)
    assert up.load(path, pace=0.1, until=1.0) == up.experiment(DECAY, pace=0.1, until=1.0)
    with pytest.raises(up.ScenarioError, match="stop time is missing"):
        up.load(path, pace=0.1)


def test_a_master_of_ones_own_has_no_words() -> None:
    class Own(up.Fixed):
        pass

    with pytest.raises(up.InvalidInput, match="cannot be written to a file"):
        file_of(up.experiment(DECAY, pace=Own(0.1), until=1.0))


def test_methods_on_top_of_a_built_in_pace_that_nobody_would_call_are_refused() -> None:
    class Shorter(up.Fixed):
        def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
            raise AssertionError

    with pytest.raises(
        up.InvalidInput, match=r"Shorter\.propose would never be called.*not derived from Fixed"
    ):
        up.simulate(DECAY, pace=Shorter(0.1), until=1.0)


def test_load_overrules_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    up.write_scenario(up.experiment(DECAY, pace=0.1, until=2.0, out="r.csv"), path)
    signals = up.Signals([0.0], {"push": [1.0]})
    made = up.load(path, step=0.5, until=1.0, coupling="gauss_seidel", signals=signals, record="a.x", every=2)
    assert made.master == up.Master(up.Fixed(0.5), up.GaussSeidel(), events="auto")
    assert (made.span.stop, made.signals, made.record, made.every) == (1.0, signals, ("a.x",), 2)
    assert made.out == Path("r.csv")
    with pytest.raises(up.ScenarioError) as caught:
        up.load(path, step=0.0, record=["z*"])
    assert [problem.where for problem in caught.value.problems] == [("step=",), ("record=",)]
    assert all(problem.line is None for problem in caught.value.problems)


def test_sentences_end_once() -> None:
    engines = r"The engines are: auto, compiled, interpret, native\. Write"
    with pytest.raises(up.InvalidInput, match=engines) as caught:
        up.experiment(up.Scenario(units={"a": up.Ode(states={"x": "1"})}), pace=0.1, until=1.0, engine="fast")  # type: ignore[arg-type]
    assert ".." not in str(caught.value)
