"""A unit that promises rollback and does not keep it is found by `check --deep`, and before a run."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.cli.main import main
from upbeat.core.replay import broken_promise

RIGHT = ("copy", "tuple")
WRONG = ("forgets", "alias", "shares", "once", "nothing", "token grows old")


class Lags:
    """A chain of lags with a wrong or right way to save them, named by `way`."""

    def __init__(self, way: str, states: int) -> None:
        self.way, self.x, self.u = way, [0.0] * states, 0.0
        self.hidden = 0

    def get(self, port: str) -> float:
        return self.x[-1] + self.hidden

    def set(self, port: str, coefficients: Any) -> None:
        self.u = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        for i in range(len(self.x)):
            self.x[i] += (to - t) * ((self.u if i == 0 else self.x[i - 1]) - self.x[i]) + 0.01 * (to - t)
        if self.way == "token grows old":
            self.hidden += 1
        return to

    def save(self) -> Any:
        match self.way:
            case "forgets":
                return [0.0, *self.x[1:]], self.u
            case "alias" | "shares":
                return (self.x if self.way == "alias" else list(self.x)), self.u
            case "tuple":
                return tuple(self.x), self.u
        return copy.copy(self.x), self.u

    def restore(self, token: Any) -> None:
        x, self.u = token
        match self.way:
            case "forgets":
                self.x[1:] = x[1:]  # what is not given out takes some steps to show
            case "shares":
                self.x = x  # and goes on writing into the token
            case "once":
                self.x = [x.pop(0) if x else 0.0 for _ in self.x]
            case "nothing":
                pass
            case _:
                self.x = list(x)

    def to_bytes(self, token: Any) -> bytes:
        return json.dumps(token).encode()

    def from_bytes(self, data: bytes) -> Any:
        x, u = json.loads(data)
        return list(x), u


def lags(way: str, states: int = 2, abilities: Any = ("rollback",)) -> up.PythonUnit:
    return up.PythonUnit(
        lambda name, start, parameters: Lags(way, states),
        inputs=["u"],
        outputs={"y": {"depends": []}},
        abilities=abilities,
    )


@settings(max_examples=40, deadline=None)
@given(
    way=st.sampled_from([*RIGHT, *WRONG]),
    states=st.integers(1, 3),
    step=st.floats(0.01, 0.5),
    start=st.sampled_from([0.0, 3.0, -2.0]),
)
def test_every_wrong_way_is_found_and_no_right_one(way: str, states: int, step: float, start: float) -> None:
    found = broken_promise(lags(way, states), up.Ability.ROLLBACK, step=step, start=start)
    assert (found is None) == (way in RIGHT), (way, found)


def pair(way: str) -> up.Scenario:
    plant = up.Ode({"x": "u - x"}, inputs=["u"], start={"x": 1.0})
    return up.Scenario({"lags": lags(way), "plant": plant}, {"lags.u": "plant.x", "plant.u": "1 - lags.y"})


@pytest.mark.parametrize("engine", ["interpret", "native"])
@pytest.mark.parametrize("way", [*RIGHT, *WRONG])
def test_a_run_that_relies_on_it_is_refused(way: str, engine: Any) -> None:
    run = up.experiment(pair(way), step=0.1, until=0.5, coupling=up.Iterated(), engine=engine)
    if way in RIGHT:
        run.run()
    else:
        with pytest.raises(up.MasterError, match="unit 'lags': when this was tried, output 'y' was"):
            run.run()
    up.simulate(pair(way), step=0.1, until=0.5, engine=engine)  # where nothing goes back, it does not matter


MODULE = """
from tests.engine.test_rollback_promises import Lags

def wrong(name, start, parameters):
    return Lags("nothing", 2)

def right(name, start, parameters):
    return Lags("copy", 2)
"""


class Late(Lags):
    """What it forgets moves only after a while."""

    def __init__(self) -> None:
        super().__init__("copy", 2)
        self.forgotten = 0.0

    def get(self, port: str) -> float:
        return super().get(port) + self.forgotten

    def advance(self, t: float, to: float, early: bool = False) -> float:
        if t > 1.0:
            self.forgotten += to - t
        return super().advance(t, to, early)


def test_what_is_forgotten_later_is_seen_by_a_strict_check() -> None:
    late = up.PythonUnit(lambda *_: Late(), inputs=["u"], outputs=["y"], abilities=["rollback", "serialise"])
    for ability in (up.Ability.ROLLBACK, up.Ability.SERIALISE):
        assert broken_promise(late, ability, step=0.03) is None
        assert "output 'y' was" in str(broken_promise(late, ability, step=0.03, strict=True))
        right = lags("copy", 2)
        assert broken_promise(right, ability, step=0.03, strict=True) is None


@pytest.mark.parametrize("way", ["right", "wrong"])
def test_a_deep_check_replays(way: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"promises_{way}.py").write_text(MODULE)
    file = tmp_path / "s.toml"
    file.write_text(
        f'[units.lags]\nkind = "python"\nclass = "promises_{way}:{way}"\ninputs = ["u"]\n'
        'outputs = { y = { depends = [] } }\nabilities = ["rollback", "serialise"]\n'
        "[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"
    )
    assert main(["check", str(file), "--allow-python"]) == 0
    code = main(["check", str(file), "--allow-python", "--deep"])
    text = "".join(capsys.readouterr())
    if way == "right":
        assert code == 0
    else:
        assert code == 3
        assert "it says that it can be set back to an earlier state (rollback): when this was tried" in text


class Raises(Lags):
    def restore(self, token: Any) -> None:
        raise KeyError("x")


def test_a_restore_that_fails_is_told_before_the_run() -> None:
    unit = up.PythonUnit(
        lambda name, start, parameters: Raises("copy", 1), inputs=["u"], outputs=["y"], abilities=["rollback"]
    )
    with pytest.raises(up.MasterError, match="restore failed with KeyError"):
        up.simulate(up.Scenario({"lags": unit}), step=0.1, until=0.5, coupling=up.Iterated())


def test_functions_that_are_not_pure_are_found() -> None:
    calls = []

    def counting(t: float, u: Any, p: Any) -> float:
        calls.append(t)
        return float(len(calls))

    noise = up.PythonFunction(counting, ["a"], ["y"])
    with pytest.raises(up.MasterError, match="unit 'noise': when this was tried, output 'y' was"):
        up.simulate(up.Scenario({"noise": noise}), step=0.1, until=0.5, coupling=up.Iterated())


def test_bytes_that_do_not_hold_everything_are_found() -> None:
    class Lossy(Lags):
        def from_bytes(self, data: bytes) -> Any:
            x, u = json.loads(data)
            return [0.0] * len(x), u

    for made, right in ((Lags, True), (Lossy, False)):
        unit = up.PythonUnit(
            lambda name, start, parameters, made=made: made("copy", 2),
            inputs=["u"], outputs=["y"], abilities=["rollback", "serialise"],
        )  # fmt: skip
        assert (broken_promise(unit, up.Ability.SERIALISE, step=0.1) is None) == right
        assert broken_promise(unit, up.Ability.ROLLBACK, step=0.1) is None
