"""Units of FMUs as texts that Upbeat understands."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import upbeat as up
from ssp_maker import described
from upbeat.core import measure
from upbeat.units.fmi.description import BaseUnit, UnitDefinition, measure_of


def base(factor: float = 1.0, offset: float = 0.0, **exponents: int) -> BaseUnit:
    return BaseUnit(tuple(exponents.items()), factor, offset)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("N", base(kg=1, m=1, s=-2), "N"),
        ("N.m", base(kg=1, m=2, s=-2), "N*m"),
        ("m/s2", base(m=1, s=-2), "m/s^2"),
        ("W/(m2.K)", base(kg=1, s=-3, K=-1), "W/(m^2*K)"),
        ("bar", base(1e5, kg=1, m=-1, s=-2), "bar"),
        ("degC", base(1.0, 273.15, K=1), "degC"),
        ("rad/s", base(rad=1, s=-1), "rad/s"),
        ("rpm", base(0.10471975511965977, rad=1, s=-1), "rpm"),
        ("m3/s", None, "m^3/s"),
        ("kg", None, "kg"),
        ("-", None, "1"),
        ("", None, "1"),
        ("1", base(), "1"),
        ("Flummox", None, None),
        ("Flummox", base(kg=1, m=-1), "kg/m"),
        ("Flummox", base(2.5, kg=1), "[2.5*kg]"),
        ("mm", base(0.002, m=1), "[0.002*m]"),  # a name that means something else
        ("my_unit", base(7.0, m=1), "[7.0*m]"),
        ("C", base(1.0, 273.15, K=1), "degC"),  # for the name alone it would be coulomb
        ("rev/min", base(0.10471975511965977, rad=1, s=-1), "rpm"),
        ("rev/min", base(0.1047, rad=1, s=-1), "[0.1047*rad/s]"),
        ("barg", base(1e5, 101325.0, kg=1, m=-1, s=-2), "[100000.0*kg/(m*s^2) + 101325.0]"),
        ("tiny", base(1e-9), "[1e-09*1]"),
        ("m", base(s=1), "s"),  # the exponents say what is meant
        ("min", base(1.0, s=1), "s"),  # … and the factor, too
        ("x" * 5000, None, None),
        ("\x00", None, None),
    ],
)
def test_text(name: str, given: BaseUnit | None, expected: str | None) -> None:
    found = measure_of(UnitDefinition(name, given))
    assert found == expected
    if found is not None:
        measure.check(found)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("degC", base(1.0, 273.15, K=1), "delta_degC"),
        ("odd", base(0.5, 250.0, K=1), "delta_[0.5*K + 250.0]"),
        ("K", base(K=1), "K"),
        ("mm", base(0.001, m=1), "mm"),
        ("Flummox", None, None),
    ],
)
def test_differences(name: str, given: BaseUnit | None, expected: str | None) -> None:
    """Of a relative quantity, the zero of the scale does not matter."""
    assert measure_of(UnitDefinition(name, given), relative=True) == expected


# name of the unit, its base unit; the same of the target; a value there, by the definition of FMI:
# base = factor·value + offset
CONNECTED = [
    ("rad/s", 'rad="1" s="-1"', "rev/min", 'rad="1" s="-1" factor="0.10471975511965977"', 30 / math.pi * 6.0),
    ("my_unit", 'm="1" factor="7"', "m", 'm="1"', 42.0),
    ("m", 'm="1"', "mm", 'm="1" factor="0.002"', 3000.0),
    ("C", 'K="1" offset="273.15"', "K", 'K="1"', 279.15),
    ("odd", 'K="1" factor="0.5" offset="250"', "other", 'K="1" factor="2" offset="200"', 26.5),
]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("name", "given", "to", "wanted", "expected"), CONNECTED)
@pytest.mark.supports("fmi2", "Units of measure", "connections convert")
@pytest.mark.supports("fmi3", "Units of measure", "connections convert")
def test_connections_convert_by_base_units(
    fmu: Callable[[str, int], Path],
    tmp_path: Path,
    engine: str,
    version: int,
    name: str,
    given: str,
    to: str,
    wanted: str,
    expected: float,
) -> None:
    a = described(fmu("gain", version), tmp_path / "a.fmu", {name: given}, y=f'unit="{name}"')
    b = described(fmu("gain", version), tmp_path / "b.fmu", {to: wanted}, u=f'unit="{to}"')
    scenario = up.Scenario(
        units={"a": up.Fmu(a).with_values({"u": 3.0, "k": 2.0}), "b": up.Fmu(b)},
        connections={"b.u": "a.y"},
    )
    trace = up.simulate(scenario, pace=0.5, until=1.0, engine=engine, record=["b.u"])
    assert trace["b.u"][-1] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("true", "true", 6.0), ("true", "false", 6.0), ("false", "false", 279.15)],
)
def test_a_difference_gets_no_offset(
    fmu: Callable[[str, int], Path], tmp_path: Path, engine: str, first: str, second: str, expected: float
) -> None:
    known = {"degC": 'K="1" offset="273.15"', "K": 'K="1"'}
    a = described(fmu("gain", 2), tmp_path / "a.fmu", known, y=f'unit="degC" relativeQuantity="{first}"')
    b = described(fmu("gain", 2), tmp_path / "b.fmu", known, u=f'unit="K" relativeQuantity="{second}"')
    scenario = up.Scenario(
        units={"a": up.Fmu(a).with_values({"u": 3.0, "k": 2.0}), "b": up.Fmu(b)},
        connections={"b.u": "a.y"},
    )
    assert up.simulate(scenario, pace=0.5, until=1.0, engine=engine, record=["b.u"])["b.u"][-1] == expected


def test_a_difference_is_not_a_temperature(fmu: Callable[[str, int], Path], tmp_path: Path) -> None:
    known = {"degC": 'K="1" offset="273.15"'}
    a = described(fmu("gain", 2), tmp_path / "a.fmu", known, y='unit="degC" relativeQuantity="true"')
    b = described(fmu("gain", 2), tmp_path / "b.fmu", known, u='unit="degC"')
    with pytest.raises(up.ScenarioError, match="a difference is not a temperature"):
        up.Scenario(units={"a": up.Fmu(a), "b": up.Fmu(b)}, connections={"b.u": "a.y"})


def test_a_unit_that_nobody_defines_is_told(fmu: Callable[[str, int], Path], tmp_path: Path) -> None:
    found = up.Fmu(described(fmu("gain", 2), tmp_path / "a.fmu", {}, y='unit="Flummox"'))
    assert any("output 'y' is in 'Flummox', which is not a unit" in note for note in found.notes)


@pytest.mark.parametrize(
    ("first", "second", "convert", "told"),
    [
        ("Flummox", "m", True, True),
        ("Flummox", "Blip", True, True),
        ("Flummox", "Flummox", True, False),
        ("Flummox", "m", False, False),
    ],
)
def test_what_cannot_be_converted_is_told_before_a_run(
    fmu: Callable[[str, int], Path],
    tmp_path: Path,
    engine: str,
    caplog: pytest.LogCaptureFixture,
    first: str,
    second: str,
    convert: bool,
    told: bool,
) -> None:
    a = described(fmu("gain", 2), tmp_path / "a.fmu", {}, y=f'unit="{first}"')
    b = described(fmu("gain", 2), tmp_path / "b.fmu", {"m": 'm="1"'}, u=f'unit="{second}"')
    link = {"b.u": "a.y" if convert else {"value": "a.y", "convert": False}}
    scenario = up.Scenario(units={"a": up.Fmu(a), "b": up.Fmu(b)}, connections=link)
    with caplog.at_level(logging.WARNING, "upbeat.fmu"):
        up.simulate(scenario, pace=0.5, until=1.0, engine=engine)
    assert (f"is given 'a.y' in 'Flummox' for 'u' in '{second}' as it is" in caplog.text) is told
