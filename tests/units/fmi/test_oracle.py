"""FMPy, an independent reader, finds the same in the same files; and the compiled FMUs simulate in it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import fmpy
import pytest

import fmu_texts
from upbeat.units.fmi.archive import unpack
from upbeat.units.fmi.description import (
    DependencyKind,
    ModelDescription,
    Type,
    Unknown,
    Variable,
    parse_description,
    read_description,
)
from upbeat.units.fmi.library import find_library

FMI2_TYPES = {"Real": Type.FLOAT64, "Integer": Type.INT32}


def same(ours: ModelDescription, theirs: Any) -> None:
    assert (ours.written_version, ours.name, ours.token) == (
        theirs.fmiVersion,
        theirs.modelName,
        theirs.guid,
    )
    experiment = theirs.defaultExperiment
    if experiment is not None:
        given = (experiment.startTime, experiment.stopTime, experiment.tolerance, experiment.stepSize)
        found = ours.experiment
        numbers = (found.start, found.stop, found.tolerance, found.step)
        assert numbers == tuple(None if text is None else float(text) for text in given)
    for interface, other in (
        (ours.co_simulation, theirs.coSimulation),
        (ours.model_exchange, theirs.modelExchange),
    ):
        assert (interface is None) == (other is None)
        if interface is not None:
            assert interface.model_identifier == other.modelIdentifier
            assert interface.saves_state == other.canGetAndSetFMUstate
            assert interface.serialises_state == other.canSerializeFMUstate
            if ours.version == 2:  # FMPy passes over FMI 3's
                assert interface.directional_derivatives == other.providesDirectionalDerivative
            assert interface.only_once_per_process == other.canBeInstantiatedOnlyOncePerProcess
    assert [unit.name for unit in ours.units] == [unit.name for unit in theirs.unitDefinitions]
    assert {variable.name for variable in ours.variables} == {v.name for v in theirs.modelVariables}
    for other in theirs.modelVariables:
        same_variable(ours.by_name[other.name], other)
    structure = ours.structure
    for unknowns, others in (
        (structure.outputs, theirs.outputs),
        (structure.derivatives, theirs.derivatives),
        (structure.initial_unknowns, theirs.initialUnknowns),
        (structure.event_indicators, theirs.eventIndicators),
    ):
        assert list(unknowns) == [converted(unknown) for unknown in others]
    assert len(ours.states) == theirs.numberOfContinuousStates
    assert ours.event_indicator_count == (theirs.numberOfEventIndicators or 0)


def converted(theirs: Any) -> Unknown:
    if theirs.dependencies is None:
        return Unknown(theirs.variable.name)
    kinds = theirs.dependenciesKind or ["dependent"] * len(theirs.dependencies)
    pairs = zip(theirs.dependencies, kinds, strict=True)
    return Unknown(
        theirs.variable.name, tuple((variable.name, DependencyKind(kind)) for variable, kind in pairs)
    )


def same_variable(ours: Variable, theirs: Any) -> None:
    assert ours.reference == theirs.valueReference
    assert ours.type is (FMI2_TYPES.get(theirs.type) or Type(theirs.type))
    assert ours.causality.value == theirs.causality
    # FMPy keeps FMI 2's default, which means nothing for other types than Real (pythonfmu relies on it).
    forced = theirs.variability == "continuous" and not ours.type.is_float
    assert ours.variability.value == ("discrete" if forced else theirs.variability)
    if ours.type is not Type.CLOCK:
        assert (ours.initial.value if ours.initial else None) == theirs.initial
    assert ours.shape == theirs.shape
    assert ours.derivative_of == (theirs.derivative.name if theirs.derivative else None)
    declared = theirs.declaredType
    assert ours.properties.unit == (theirs.unit or (declared.unit if declared else None))
    if theirs.start is None:
        assert ours.start is None
    elif ours.type.is_float:
        single = ours.type is Type.FLOAT32
        expected = [float(text) for text in theirs.start.split()]
        assert ours.start == (pytest.approx(expected, rel=1e-7) if single else tuple(expected))
    elif ours.type.range is not None:
        assert ours.start == tuple(int(text) for text in theirs.start.split())


@pytest.mark.parametrize("text", [fmu_texts.FMI2, fmu_texts.FMI3], ids=["2", "3"])
def test_written_by_hand(tmp_path: Path, text: str) -> None:
    path = tmp_path / "modelDescription.xml"
    # What FMPy cannot read: the properties of binary types, and types of clocks.
    text = text.replace(' mimeType="image/png" maxSize="100"', "")
    text = text.replace(' declaredType="Fast" ', ' intervalDecimal="0.01" ')
    path.write_text(text)
    same(parse_description(text.encode()), fmpy.read_model_description(str(path), validate=False))


@pytest.mark.parametrize("version", [2, 3])
def test_exported(exported: dict[int, Path], version: int) -> None:
    theirs = fmpy.read_model_description(str(exported[version]), validate=False)
    with unpack(exported[version]) as folder:
        ours = read_description(folder.path)
        same(ours, theirs)
        assert ours.co_simulation is not None
        library = find_library(folder.path, version, ours.co_simulation.model_identifier)
        assert library.warnings == ()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["linear", "gain"])
def test_compiled(compiled: dict[tuple[str, int], Path], name: str, version: int) -> None:
    path = compiled[name, version]
    theirs = fmpy.read_model_description(
        str(path), validate_variable_names=True, validate_model_structure=True
    )
    with unpack(path) as folder:
        ours = read_description(folder.path)
        assert ours.warnings == ()
        assert find_library(folder.path, version, name).warnings == ()
    same(ours, theirs)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("kind", "tolerance"), [("CoSimulation", 1e-12), ("ModelExchange", 1e-6)])
def test_compiled_fmus_simulate(
    compiled: dict[tuple[str, int], Path], version: int, kind: str, tolerance: float
) -> None:
    """x' = -2 x + u from 1 with u = 1: x = (1 + e^-2t) / 2, y = 3 x + u / 2."""
    options: dict[str, Any] = {"fmi_type": kind, "stop_time": 1.0, "output_interval": 0.01}
    options |= {"relative_tolerance": 1e-9} if kind == "ModelExchange" else {}
    result = fmpy.simulate_fmu(str(compiled["linear", version]), start_values={"u": 1.0}, **options)
    assert len(result) == 101
    for t, y in result:
        assert y == pytest.approx(1.5 * (1 + math.exp(-2 * t)) + 0.5, rel=tolerance)
    result = fmpy.simulate_fmu(str(compiled["gain", version]), start_values={"u": 1.5, "k": 4.0}, **options)
    assert list(result["y"]) == [6.0] * 101


@pytest.mark.parametrize("version", [2, 3])
def test_compiled_fmus_have_what_they_declare(compiled: dict[tuple[str, int], Path], version: int) -> None:
    """State, also as bytes, slopes of inputs and outputs, and derivatives of the linear model."""
    from fmpy.simulation import instantiate_fmu

    description = fmpy.read_model_description(str(compiled["linear", version]))
    names = {v.name: v.valueReference for v in description.modelVariables}
    x, u, y, rate = (names[name] for name in ("x", "u", "y", "der(x)"))
    folder = fmpy.extract(str(compiled["linear", version]), str(compiled["linear", version].with_suffix("")))
    fmu = instantiate_fmu(folder, description, "CoSimulation")
    get = fmu.getReal if version == 2 else fmu.getFloat64
    if version == 2:
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
    else:
        fmu.enterInitializationMode(startTime=0.0)
    fmu.exitInitializationMode()
    state = fmu.getFMUstate() if version == 2 else fmu.getFMUState()
    fmu.doStep(currentCommunicationPoint=0.0, communicationStepSize=0.1)
    assert get([x]) == pytest.approx([math.exp(-0.2)], rel=1e-9)  # ten RK4 steps: 2.7e-10
    if version == 2:
        kept = fmu.serializeFMUstate(state)
        fmu.freeFMUstate(state)
        state = fmu.deSerializeFMUstate(kept)
        fmu.setFMUstate(state)
        fmu.freeFMUstate(state)
    else:
        kept = fmu.serializeFMUState(state)
        fmu.freeFMUState(state)
        state = fmu.deserializeFMUState(kept)
        fmu.setFMUState(state)
        fmu.freeFMUState(state)
    assert get([x]) == [1.0]
    assert fmu.getDirectionalDerivative([rate, y], [x, u], [1.0, 10.0]) == [8.0, 8.0]
    if version == 2:
        # u = t from 0: x' = -2 x + t has x = (2 t - 1) / 4 + 5/4 e^-2t
        fmu.setReal([u], [0.0])
        fmu.setRealInputDerivatives([u], [1], [1.0])
        fmu.doStep(currentCommunicationPoint=0.0, communicationStepSize=0.1)
        expected = (2 * 0.1 - 1) / 4 + 1.25 * math.exp(-0.2)
        assert fmu.getReal([x]) == pytest.approx([expected], rel=1e-9)
        assert fmu.getReal([u]) == pytest.approx([0.1])
        assert fmu.getRealOutputDerivatives([y], [1]) == pytest.approx([3 * (-2 * expected + 0.1) + 0.5])
    else:
        assert fmu.getAdjointDerivative([rate, y], [x, u], [1.0, 10.0]) == [28.0, 6.0]
        assert list(fmu.getOutputDerivatives([y], [1])) == pytest.approx([-6.0])
    fmu.terminate()
    fmu.freeInstance()
