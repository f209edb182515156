"""FMUs in processes of their own: those that crash, hang or exit, and those that allow one instance only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import upbeat as up
from fmu_maker import make

Made = Callable[[str, int], Path]


@pytest.fixture(scope="module")
def fmu(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("isolated_fmus")
    return lambda name, version: make(name, version, folder)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crash", "its process died of signal 11 (SIGSEGV)"),
        ("exit", "its process exited with code 3"),
        ("hang", "no answer within 0.5 s (hung); its process was killed"),
    ],
)
@pytest.mark.supports("fmi2", "Isolation", "crashes and hangs in a process of their own")
@pytest.mark.supports("fmi3", "Isolation", "crashes and hangs in a process of their own")
def test_a_faulty_fmu_ends_only_itself(fmu: Made, engine: str, version: int, name: str, words: str) -> None:
    model = up.Isolated(up.Fmu(fmu(name, version), parameters={"at": 0.3}), deadline=0.5)
    with pytest.raises(up.UnitError) as caught:
        up.simulate(up.Scenario({"tank": model}), pace=0.1, until=1.0, engine=engine)
    assert caught.value.unit == "tank"
    assert caught.value.call.startswith("advance(0.3")
    assert caught.value.reason.startswith(words)
    assert caught.value.trace is not None
    assert len(caught.value.trace.time) == 4  # 0, 0.1, 0.2 and 0.3


@pytest.mark.parametrize("version", [2, 3])
def test_a_failure_reads_as_without_isolation(fmu: Made, engine: str, version: int) -> None:
    """With what the FMU itself says about it."""
    model = up.Fmu(fmu("fail", version), parameters={"at": 0.3})
    said = []
    for one in (model, up.Isolated(model)):
        with pytest.raises(up.UnitError, match=f"fmi{version}DoStep failed: .*are there") as caught:
            up.simulate(up.Scenario({"tank": one}), pace=0.1, until=1.0, engine=engine)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_one_instance_per_process(fmu: Made) -> None:
    model = up.Fmu(fmu("once", 2))
    assert model.interface.only_once_per_process
    units = up.experiment(up.Scenario({"a": model, "b": model}), pace=0.1, until=1.0).plan.scenario.units
    assert dict(units) == {"a": up.Isolated(model), "b": up.Isolated(model)}
    alone = up.experiment(up.Scenario({"a": model}), pace=0.1, until=1.0).plan.scenario.units
    assert dict(alone) == {"a": model}
    trace = up.simulate(up.Scenario({"a": model, "b": model}), pace=0.1, until=0.5)
    assert trace["a.y"].tobytes() == trace["b.y"].tobytes()
