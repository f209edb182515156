"""Studies with FMUs: reset between runs where that works, instantiated again where it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_runs import same

import upbeat as up
from fmu_maker import COMPILER, make
from upbeat.explore.outputs import formula
from upbeat.explore.work import Group, Work

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def work_with(path: Path, until: float = 1.0) -> Work:
    source = up.Function(outputs={"y": "sin(3*time)"})
    scenario = up.Scenario({"s": source, "f": up.Fmu(path)}, {"f.u": "s.y"})
    made = up.experiment(scenario, step=0.05, until=until)
    return Work(
        made,
        {"f.a": (-1.0, -2.0), "f.x": (1.0, 0.5)},
        {"end": formula("final(f.y)"), "all": formula("integral(f.y)")},
        {},
    )


COLUMNS = {"f.a": np.array([-1.0, -3.0, -0.5, -1.0]), "f.x": np.array([1.0, 2.0, 0.0, 1.0])}


@pytest.mark.parametrize("version", [2, 3])
def test_fmus_that_reset_run_in_the_core(tmp_path: Path, version: int) -> None:
    work = work_with(make("linear", version, tmp_path))
    group = Group(work, {})
    assert group.in_core
    found = group.run(COLUMNS)
    assert same(found, group._one_by_one(COLUMNS, 4))
    assert found.outputs[0].tolist() == found.outputs[3].tolist() != found.outputs[1].tolist()
    group.close()


def test_an_fmu_whose_reset_lies_is_instantiated_again(tmp_path: Path) -> None:
    groups = []
    for name in ("relapsing", "linear"):
        work = work_with(make(name, 2, tmp_path))
        groups.append(Group(Work(work.experiment, {"f.a": (-1.0, -2.0)}, work.formulas, {}), {}))
    lies, honest = groups  # of the state, which nobody sets
    assert not lies.in_core
    assert honest.in_core
    columns = {"f.a": COLUMNS["f.a"]}
    assert same(lies.run(columns), honest.run(columns))
    honest.close()


def test_model_exchange_is_instantiated_again(tmp_path: Path) -> None:
    path = make("linear", 2, tmp_path)
    scenario = up.Scenario({"f": up.Fmu(path, interface="model-exchange")})
    work = Work(
        up.experiment(scenario, step=0.05, until=1.0), {"f.x": (1.0, 2.0)}, {"end": formula("final(f.y)")}, {}
    )
    group = Group(work, {})
    assert not group.in_core
    found = group.run({"f.x": np.array([1.0, 2.0])})
    assert found.outputs[1, 0] == pytest.approx(2.0 * found.outputs[0, 0])
