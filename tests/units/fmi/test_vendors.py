"""FMUs that behave like those of some vendors: what they lose, what they insist on, what they say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import fmpy
import numpy as np
import pytest

import upbeat as up

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


def alone(model: up.Fmu, engine: str, **more: object) -> up.Trace:
    given = {"pace": 0.1, "until": 1.0, "engine": engine} | more
    return up.simulate(up.Scenario(units={"one": model}), **given)


@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
def test_parameters_survive_an_experiment_that_resets_them(fmu: Made, engine: str, interface: str) -> None:
    """As of 20-sim: fmi2SetupExperiment resets all values. FMPy is the judge."""
    path = fmu("resets", 2)
    model = up.Fmu(path, interface=interface, parameters={"x": 3.0, "u": 2.0})
    trace = alone(model, engine)
    theirs = fmpy.simulate_fmu(
        str(path),
        stop_time=1.0,
        output_interval=0.1,
        start_values={"x": 3.0, "u": 2.0},
        fmi_type="CoSimulation" if interface == "co-simulation" else "ModelExchange",
        relative_tolerance=1e-9,
    )
    np.testing.assert_allclose(trace["one.y"], theirs["y"], rtol=1e-6)
    np.testing.assert_allclose(trace["one.y"], 2 + np.exp(-np.asarray(trace.time)), rtol=1e-6)


@BOTH
def test_a_value_that_does_not_take_is_told_by_name(
    fmu: Made, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "upbeat.fmu")
    alone(up.Fmu(fmu("stubborn", version), parameters={"at": 0.75, "x": 2.0}), engine)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "'at' was set to 0.75, but the FMU has 0.5: the value did not take"


@BOTH
def test_values_that_take_are_not_talked_about(
    fmu: Made, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All types, arrays and structural parameters included."""
    caplog.set_level(logging.WARNING, "upbeat.fmu")
    given: dict[str, object] = {"float64_in": 0.1, "int32_in": -3, "boolean_in": True, "string_in": "é"}
    if version == 3:
        given |= {"float32_in": 0.1, "uint64_in": 7, "binary_in": "00Ff", "int8_in": -8}
    alone(up.Fmu(fmu("types", version), parameters=given | {"enumeration_in": "fast"}), engine)
    if version == 3:
        sizes = {"n": 3, "A": [0.0] * 9, "x": [1.0, 2.0, 3.0], "B": [0.0] * 3, "C": [1.0] * 3}
        alone(up.Fmu(fmu("space", 3), parameters=sizes), engine)
    assert not caplog.records


@BOTH
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_the_stop_time_is_passed(fmu: Made, version: int, engine: str, isolation: str) -> None:
    """As of FMUs that die at the stop time of their default experiment."""
    model = up.Fmu(fmu("expires", version), isolation=isolation)  # type: ignore[arg-type]
    assert len(alone(model, engine).time) == 11
    inner = up.Scenario(units={"one": model}, outputs={"y": "one.y"})
    for flatten in (True, False):
        nest = up.Nested(inner, up.Master(up.Fixed(0.05)), flatten=flatten)
        trace = up.simulate(up.Scenario(units={"nest": nest}), pace=0.1, until=1.5, engine=engine)
        assert trace.time[-1] == 1.5


@BOTH
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_what_an_fmu_says_is_quoted(fmu: Made, version: int, engine: str, isolation: str) -> None:
    """Also if it calls it harmless."""
    model = up.Fmu(fmu("mumbling", version), isolation=isolation)  # type: ignore[arg-type]
    with pytest.raises(up.UnitError) as caught:
        alone(model, engine)
    assert 'its last message was "' in str(caught.value)
    assert 'refused: 13 variables are there"' in str(caught.value)
