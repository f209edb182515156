"""The test FMUs do what they are made for, as FMPy sees them."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_double, c_int, c_uint32
from pathlib import Path
from typing import Any

import fmpy
import pytest
from fmpy.simulation import instantiate_fmu

from fmu_exports import casadi_fmu, python_fmu
from fmu_models import MODELS, bounces, height
from upbeat.units.fmi.archive import unpack
from upbeat.units.fmi.description import read_description
from upbeat.units.fmi.library import find_library

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


@contextmanager
def running(
    path: Path, folder: Path, kind: str = "CoSimulation", **settings: Any
) -> Iterator[tuple[Any, dict[str, int]]]:
    """An instance after its initialisation, in the hands of FMPy, and the references by name."""
    description = fmpy.read_model_description(str(path), validate=False)
    unpacked = fmpy.extract(str(path), str(folder))
    fmu = instantiate_fmu(unpacked, description, kind, **settings)
    if description.fmiVersion == "2.0":
        fmu.setupExperiment(startTime=0.0)
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    yield fmu, {v.name: v.valueReference for v in description.modelVariables}
    fmu.terminate()
    fmu.freeInstance()


@pytest.mark.parametrize(("name", "version"), sorted(MODELS))
def test_all_are_described_properly(fmu: Made, name: str, version: int) -> None:
    path = fmu(name, version)
    with unpack(path) as folder:
        ours = read_description(folder.path)
        bare = name in ("upper", "lower")  # which say nothing about dependencies, on purpose
        assert bool(ours.warnings) == bare
        assert bool(find_library(folder.path, version, name).warnings) == (name == "renamed")
    structured = name != "clocks" and not bare  # FMPy wants output clocks among the initial unknowns
    fmpy.read_model_description(str(path), validate_variable_names=True, validate_model_structure=structured)


def test_a_model_is_compiled_once(fmu: Made) -> None:
    first = fmu("gain", 2)
    made = first.stat().st_mtime_ns
    assert fmu("gain", 2) == first
    assert first.stat().st_mtime_ns == made


def test_bounces_of_the_ball() -> None:
    """Energy: it leaves at e times the speed at which it arrives, and falls from v²/2g in v/g."""
    found = bounces(100.0)
    assert found[0][0] == pytest.approx(0.4515236)
    assert found[-1][1] == 0.0
    speeds = [math.sqrt(2 * 9.81) * 0.7 ** (k + 1) for k in range(len(found))]
    assert [v for _, v in found[:-1]] == pytest.approx(speeds[:-1])
    assert speeds[-1] < 0.1 < speeds[-2]
    assert height(found[3][0]) == pytest.approx(0, abs=1e-12)


@BOTH
def test_the_ball_inside_co_simulation(fmu: Made, version: int) -> None:
    result = fmpy.simulate_fmu(
        str(fmu("ball" if version == 2 else "inside", version)), stop_time=3.0, output_interval=0.01
    )
    assert list(result["h"]) == pytest.approx([height(t) for t in result["time"]], abs=1e-9)
    assert result["bounces"][-1] == len(bounces(3.0))
    assert bool(result["rests"][-1]) == (bounces(3.0)[-1][1] == 0)


@BOTH
def test_the_ball_in_model_exchange(fmu: Made, version: int) -> None:
    options: dict[str, Any] = {"fmi_type": "ModelExchange", "relative_tolerance": 1e-10}
    result = fmpy.simulate_fmu(str(fmu("ball", version)), stop_time=1.2, output_interval=0.1, **options)
    for t, h in zip(result["time"], result["h"], strict=True):
        assert h == pytest.approx(height(t), abs=1e-6)
    assert result["bounces"][-1] == len(bounces(1.2))


def test_the_ball_returns_early_at_its_root(fmu: Made, tmp_path: Path) -> None:
    found = []
    settings = {"event_mode_used": True, "early_return_allowed": True}
    with running(fmu("ball", 3), tmp_path, **settings) as (ball, refs):
        ball.updateDiscreteStates()
        ball.enterStepMode()
        t, k = 0.0, 0
        while k < 20:
            event, end, early, reached = ball.doStep(t, (k + 1) * 0.1 - t)
            assert not end
            assert event == early
            assert early == (reached < (k + 1) * 0.1)
            if event:
                assert -1e-14 < ball.getFloat64([refs["h"]])[0] <= 0
                ball.enterEventMode()
                again, _, _, changed, *_ = ball.updateDiscreteStates()
                assert changed
                assert not again
                found.append((reached, ball.getFloat64([refs["v"]])[0]))
                ball.enterStepMode()
            t, k = reached, k + (not early)
    expected = bounces(2.0)
    assert len(found) == len(expected) == 4
    for have, want in zip(found, expected, strict=True):
        assert have == pytest.approx(want, abs=1e-12)


@BOTH
@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
def test_stairs(fmu: Made, version: int, kind: str) -> None:
    result = fmpy.simulate_fmu(str(fmu("stairs", version)), fmi_type=kind, stop_time=1.1, output_interval=0.1)
    for t, y, count in zip(result["time"], result["y"], result["count"], strict=True):
        if abs(t / 0.25 - round(t / 0.25)) > 1e-9:  # FMPy records both sides of an event
            assert (y, count) == (1.5 * math.floor(t / 0.25), math.floor(t / 0.25))


@BOTH
def test_the_summer_notices_sums(fmu: Made, tmp_path: Path, version: int) -> None:
    with running(fmu("summer", version), tmp_path) as (summer, refs):
        for k in range(1000):
            summer.doStep(k * 0.1, 0.1)
        get = summer.getReal if version == 2 else summer.getFloat64
        assert get([refs["last_t"]]) == [999 * 0.1]
        assert get([refs["sum"]])[0] == pytest.approx(100.0)
        assert get([refs["sum"]])[0] != 100.0
        steps = (summer.getInteger if version == 2 else summer.getInt32)([refs["steps"]])
        assert steps == [1000]


def interval(fmu: Any, clock: int) -> tuple[float, int]:
    value, qualifier = c_double(), c_int()
    fmu.fmi3GetIntervalDecimal(fmu.component, (c_uint32 * 1)(clock), 1, byref(value), byref(qualifier))
    return value.value, qualifier.value


def test_clocks(fmu: Made, tmp_path: Path) -> None:
    with running(fmu("clocks", 3), tmp_path, event_mode_used=True, early_return_allowed=True) as (
        clocks,
        refs,
    ):
        for waits in range(3):
            assert interval(clocks, refs["wait"]) == (pytest.approx(0.15 * (waits + 1)), 2)
            clocks.setClock([refs["wait"]], [True])
            clocks.updateDiscreteStates()
        assert interval(clocks, refs["tick"]) == (0.1, 2)
        assert interval(clocks, refs["hit"])[1] == 0
        alarms = []
        for _ in range(7):
            clocks.setClock([refs["tick"]], [True])
            alarms.append(clocks.getClock([refs["alarm"]])[0])
            clocks.updateDiscreteStates()
            assert clocks.getClock([refs["alarm"], refs["tick"]]) == [False, False]
        assert alarms == [False, False, True, False, False, True, False]
        assert clocks.getInt32([refs["ticks"], refs["told"], refs["waits"]]) == [7, 2, 3]
        clocks.setFloat64([refs["u"]], [4.5])
        assert clocks.getFloat64([refs["held"]]) == [0.0]
        clocks.setClock([refs["hit"]], [True])
        assert clocks.getFloat64([refs["held"]]) == [4.5]


def test_arrays_take_the_sizes_they_are_given(fmu: Made, tmp_path: Path) -> None:
    path = fmu("space", 3)
    description = fmpy.read_model_description(str(path))
    refs = {v.name: v.valueReference for v in description.modelVariables}
    space = instantiate_fmu(fmpy.extract(str(path), str(tmp_path)), description, "CoSimulation")
    space.enterConfigurationMode()
    space.setUInt64([refs["n"], refs["m"], refs["r"]], [3, 2, 2])
    space.exitConfigurationMode()
    space.enterInitializationMode()
    space.setFloat64([refs["D"]], [0.0, 10.0, 20.0, 0.0])
    space.setFloat64([refs["u"]], [1.0, 2.0])
    space.exitInitializationMode()
    assert list(space.getFloat64([refs["y"]], nValues=2)) == [1 + 20.0, 2 + 20.0]
    space.doStep(0.0, 0.1)
    # x' = -x + u (u3 = 0) from 1, 2, 3: the first two are where they stay
    assert list(space.getFloat64([refs["x"]], nValues=3)) == pytest.approx(
        [1, 2, 3 * math.exp(-0.1)], rel=1e-9
    )
    space.freeInstance()


def test_types_of_fmi_2(fmu: Made, tmp_path: Path) -> None:
    with running(fmu("types", 2), tmp_path) as (types, refs):
        assert types.getInteger([refs["enumeration_out"]]) == [3]
        types.setReal([refs["float64_in"]], [1.5])
        types.setInteger([refs["int32_in"], refs["enumeration_in"]], [-7, 7])
        types.setBoolean([refs["boolean_in"]], [True])
        types.setString([refs["string_in"]], ["größer"])
        assert types.getReal([refs["float64_out"]]) == [1.5]
        assert types.getInteger([refs["int32_out"], refs["enumeration_out"]]) == [-7, 7]
        assert types.getBoolean([refs["boolean_out"]]) == [1]
        assert types.getString([refs["string_out"]])[0].decode() == "größer"


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("Float32", 0.5),
        ("Int8", -128),
        ("UInt8", 255),
        ("Int16", -(2**15)),
        ("UInt16", 2**16 - 1),
        ("Int32", -(2**31)),
        ("UInt32", 2**32 - 1),
        ("Int64", -(2**63)),
        ("UInt64", 2**64 - 1),
        ("Boolean", True),
    ],
)
def test_types_of_fmi_3(fmu: Made, tmp_path: Path, type: str, value: object) -> None:
    with running(fmu("types", 3), tmp_path) as (types, refs):
        getattr(types, f"set{type}")([refs[f"{type.lower()}_in"]], [value])
        assert list(getattr(types, f"get{type}")([refs[f"{type.lower()}_out"]])) == [value]
        types.setBinary([refs["binary_in"]], [b"\x00\xff\x00"])
        assert types.getBinary([refs["binary_out"]]) == [b"\x00\xff\x00"]


SCRIPT = """
import sys, fmpy
fmpy.simulate_fmu(sys.argv[1], stop_time=1.0, output_interval=0.1, logger=lambda *a: None)
"""


@BOTH
@pytest.mark.parametrize(
    ("name", "code"), [("nothing", 0), ("crash", -11), ("exit", 3), ("overflow", -6), ("fail", 1)]
)
def test_what_kills_a_process(fmu: Made, name: str, version: int, code: int) -> None:
    command = [sys.executable, "-c", SCRIPT, str(fmu(name, version))]
    assert subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == code


@BOTH
@pytest.mark.parametrize(
    ("name", "off"), [("nothing", {}), ("forget", {"z": -(1 - math.exp(-0.1))}), ("approximate", {"y": 5e-7})]
)
def test_what_a_restored_state_lacks(
    fmu: Made, tmp_path: Path, name: str, off: dict[str, float], version: int
) -> None:
    with running(fmu(name, version), tmp_path) as (fault, refs):
        get = fault.getReal if version == 2 else fault.getFloat64
        fault.doStep(0.0, 0.1)
        before = get([refs["y"], refs["z"]])
        assert before == pytest.approx([math.exp(-0.1), 1 - math.exp(-0.1)], rel=1e-9)
        state = fault.getFMUstate() if version == 2 else fault.getFMUState()
        fault.doStep(0.1, 0.1)
        (fault.setFMUstate if version == 2 else fault.setFMUState)(state)
        (fault.freeFMUstate if version == 2 else fault.freeFMUState)(state)
        lost = [off.get("y", 0.0), off.get("z", 0.0)]
        assert get([refs["y"], refs["z"]]) == pytest.approx(
            [a + b for a, b in zip(before, lost, strict=True)], rel=1e-9, abs=1e-10
        )


@BOTH
def test_lags_made_in_python(fmu_folder: Path, version: int) -> None:
    path = python_fmu(version, fmu_folder)
    options: dict[str, Any] = {"stop_time": 1.0, "output_interval": 0.1, "validate": False}
    result = fmpy.simulate_fmu(str(path), start_values={"u": 1.0}, **options)
    expected = [2 * (1 - 0.8**n) for n in range(11)]
    assert list(result["y"]) == pytest.approx(expected, rel=1e-12)
    assert list(result["n"]) == list(range(11))
    description = fmpy.read_model_description(str(path), validate=False)
    assert description.coSimulation.canGetAndSetFMUstate


def test_a_spring_made_by_casadi(fmu_folder: Path, tmp_path: Path) -> None:
    path = casadi_fmu(fmu_folder)
    description = fmpy.read_model_description(str(path), validate=False)
    refs = {v.name: v.valueReference for v in description.modelVariables}
    spring = instantiate_fmu(fmpy.extract(str(path), str(tmp_path)), description, "ModelExchange")
    spring.enterInitializationMode()
    spring.setFloat64([refs["u"]], [0.5])
    spring.exitInitializationMode()
    assert list(spring.getFloat64([refs["der(v)"], refs["y"]])) == [-3.5, 1.5]
    unknowns, knowns = [refs["der(v)"], refs["y"]], [refs["x"], refs["u"]]
    assert list(spring.getDirectionalDerivative(unknowns, knowns, [1.0, 10.0])) == pytest.approx([6.0, 12.0])
    assert list(spring.getAdjointDerivative(unknowns, knowns, [1.0, 10.0])) == pytest.approx([16.0, 11.0])
    spring.freeInstance()
