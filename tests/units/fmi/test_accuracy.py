"""Tolerances of FMUs: who says them, who is told, and which solver keeps them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up

Made = Callable[[str, int], Path]
EXPERIMENT = b'stepSize="0.01"'


@pytest.fixture
def changed(fmu: Made, tmp_path: Path) -> Callable[..., Path]:
    """An FMU with another text in its description."""

    def make(name: str, version: int, old: bytes, new: bytes) -> Path:
        path = tmp_path / "changed.fmu"
        with zipfile.ZipFile(fmu(name, version)) as source, zipfile.ZipFile(path, "w") as target:
            for entry in source.namelist():
                data = source.read(entry)
                if entry == "modelDescription.xml":
                    assert old in data
                    data = data.replace(old, new)
                target.writestr(entry, data)
        return path

    return make


def exchanged(path: Path, engine: str, **options: Any) -> np.ndarray[Any, Any]:
    model = up.Fmu(path, interface="model-exchange", **options)
    return np.asarray(up.simulate(up.Scenario({"a": model}), pace=0.5, until=2.0, engine=engine)["a.y"])  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["dormand_prince", "cvode"])
def test_a_named_solver_keeps_the_tolerance(fmu: Made, method: str, engine: str) -> None:
    if method == "cvode" and engine == "native":
        pytest.skip("CVODE runs on the interpreter")
    kind = up.DormandPrince if method == "dormand_prince" else up.Cvode
    coarse = exchanged(fmu("linear", 2), engine, solver=kind(rtol=1e-2, atol=1e-5))
    asked = exchanged(fmu("linear", 2), engine, solver=method, tolerance=1e-2)
    np.testing.assert_array_equal(asked, coarse)
    exact = 3 * np.exp(-2 * np.linspace(0, 2, 5))
    assert np.abs(asked - exact).max() > 1e-5  # the usual tolerance would do better
    own = exchanged(fmu("linear", 2), engine, solver=kind(rtol=1e-9, atol=1e-12), tolerance=1e-2)
    np.testing.assert_allclose(own, exact, rtol=1e-7)


def test_the_default_experiment_sets_the_tolerance(changed: Callable[..., Path], engine: str) -> None:
    path = changed("linear", 3, EXPERIMENT, b'stepSize="0.01" tolerance="1e-2"')
    coarse = exchanged(path, engine, solver={"kind": "dormand_prince", "rtol": 1e-2, "atol": 1e-5})
    for options in ({}, {"solver": "dormand_prince"}):
        np.testing.assert_array_equal(exchanged(path, engine, **options), coarse)
    finer = exchanged(path, engine, tolerance=1e-8)
    np.testing.assert_allclose(finer, 3 * np.exp(-2 * np.linspace(0, 2, 5)), rtol=1e-6)


def test_a_fixed_step_keeps_no_tolerance(fmu: Made, changed: Callable[..., Path]) -> None:
    with pytest.raises(
        up.ModelError, match="rk4 takes steps of one size whatever they cost: leave the toler"
    ):
        up.Fmu(fmu("linear", 2), interface="model-exchange", solver="rk4", tolerance=1e-8)
    path = changed("linear", 2, EXPERIMENT, b'stepSize="0.01" tolerance="1e-2"')
    model = up.Fmu(path, interface="model-exchange", solver="rk4")
    assert model.effective_solver == up.RK4()
    assert model.solver_tolerance is None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, 1e-5),
        ({"tolerance": 1e-3}, 1e-3),
        ({"interface": "model-exchange"}, 1e-5),
        ({"interface": "model-exchange", "solver": {"kind": "dormand_prince", "rtol": 1e-7}}, 1e-7),
        ({"interface": "model-exchange", "solver": "euler"}, None),
    ],
)
def test_the_fmu_is_told(
    changed: Callable[..., Path],
    version: int,
    options: dict[str, Any],
    told: float | None,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from upbeat.units.fmi.instance import Instance

    kind: Any = Instance
    enter, heard = kind.enter_initialization, []

    def listen(self: Any, start: float, stop: float | None, tolerance: float | None, give: Any) -> None:
        heard.append(tolerance)
        enter(self, start, stop, tolerance, give)

    monkeypatch.setattr(kind, "enter_initialization", listen)
    model = up.Fmu(changed("linear", version, EXPERIMENT, b'stepSize="0.01" tolerance="1e-5"'), **options)
    up.simulate(up.Scenario({"a": model}), pace=0.5, until=1.0, engine=engine)  # type: ignore[arg-type]
    assert heard == [told]
    assert up.Fmu(model.path).solver_tolerance == 1e-5


def test_categories_of_messages(fmu: Made) -> None:
    assert up.Fmu(fmu("linear", 2), logging=["logEvents"]).logging == ("logEvents",)
    with pytest.raises(up.ModelError, match=r"no messages of category 'nocat'.*logStatusError"):
        up.Fmu(fmu("linear", 2), logging=["nocat"])
