"""Units of measure: exact conversions, clear refusals, and no pint unless it is needed."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest

from upbeat.core.measure import Conversion, Measure, MeasureError, check, conversion, defined


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("km", "m", Conversion(1000.0)),
        ("m", "mm", Conversion(1000.0)),
        ("mm", "m", Conversion(0.001)),
        ("degC", "K", Conversion(1.0, 273.15)),
        ("degF", "degC", Conversion(5 / 9, -160 / 9)),
        ("degC/s", "K/s", Conversion()),
        ("rpm", "rad/s", Conversion(0.10471975511965978)),
        ("%", "1", Conversion(0.01)),
        ("kWh", "J", Conversion(3.6e6)),
        ("m/s**2", "m/s^2", Conversion()),
        ("m^3/h", "L/min", Conversion(50 / 3)),
        ("m**0.5", "cm^(1/2)", Conversion(10.0)),
        ("kg m^-2", "g/cm^2", Conversion(0.1)),
        (None, "m", Conversion()),
        ("m", None, Conversion()),
        ("no unit at all", "no unit at all", Conversion()),
    ],
)
def test_conversions_are_rounded_once_from_their_exact_value(
    source: str | None, target: str | None, expected: Conversion
) -> None:
    assert conversion(source, target) == expected


def test_nothing_to_convert_is_false() -> None:
    assert not conversion("m", "m")
    assert conversion("km", "m")
    assert conversion("degC", "K")


@pytest.mark.parametrize(("source", "target"), [("N", "m"), ("m", "1"), ("degC", "Pa"), ("kg", "N")])
def test_other_dimensions_are_refused_by_name(source: str, target: str) -> None:
    with pytest.raises(MeasureError, match=f"'{source}' and '{target}' do not measure the same thing"):
        conversion(source, target)


@pytest.mark.parametrize(("source", "target"), [("Hz", "rad/s"), ("rad/s", "Hz"), ("rpm", "Hz")])
def test_cycles_and_angles_are_not_mixed_up(source: str, target: str) -> None:
    with pytest.raises(MeasureError, match=r"2\*pi\*f"):
        conversion(source, target)


@pytest.mark.parametrize(
    "text", ["m/s^2", "N*s/m", "kg/(m*s)", "1", "W/(m^2*K)", "Ω", "µm", "m³", "furlong", "cmH2O"]
)
def test_units_that_exist(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "text",
    ["Newtn", "m+s", "2 m", "l/100km", "m**", "m*(s", ")", "()", "m^", "__import__('os')", "x" * 200, "m/"],
)
def test_texts_that_are_no_units_say_what_to_write(text: str) -> None:
    with pytest.raises(MeasureError, match=r'is not a unit of measure; write for instance "m/s\^2"'):
        check(text)


@pytest.mark.parametrize("text", ["", "   "])
def test_dimensionless_is_written_1(text: str) -> None:
    with pytest.raises(MeasureError, match='write "1"'):
        check(text)


@pytest.mark.parametrize(
    "text",
    ["m**10**10**10", "10**9999999", "m^2^3^4", "(((10^99)^99)^99)^99", "1e999999999*m", "m**999999999"],
)
def test_towers_of_powers_are_refused_at_once(text: str) -> None:
    with pytest.raises(MeasureError):
        check(text)


def test_pint_is_loaded_only_when_texts_differ() -> None:
    code = (
        "import sys, upbeat; from upbeat.core import measure;"
        "assert 'pint' not in sys.modules, 'import upbeat loads pint';"
        "measure.check('kg*m/s^2'); measure.check('W/(m^2*K)'); measure.conversion('N*m', 'N*m');"
        "assert 'pint' not in sys.modules, 'pint is loaded for plain units';"
        "measure.conversion('km', 'm'); assert 'pint' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("source", "target", "scale", "offset"),
    [
        ("[0.002*m]", "mm", 2.0, 0.0),
        ("m", "[7*m]", 1 / 7, 0.0),
        ("[K + 273.15]", "degC", 1.0, 0.0),
        ("[0.5*K + 250]", "K", 0.5, 250.0),
        ("K", "[0.5*K + 250.0]", 2.0, -500.0),
        ("delta_[0.5*K + 250]", "K", 0.5, 0.0),
        ("[7*m]^2/s", "m^2/s", 49.0, 0.0),
        ("W/[0.5*K + 250]", "W/K", 2.0, 0.0),
        ("[1e-05*1]", "%", 1e-3, 0.0),
        ("[1e+05*kg/(m*s^2) + 101325]", "bar", 1.0, 1.01325),
        ("[-2*m + -3]", "m", -2.0, -3.0),
    ],
)
def test_units_by_definition(source: str, target: str, scale: float, offset: float) -> None:
    assert conversion(source, target) == Conversion(scale, offset)


@pytest.mark.parametrize(
    "text", ["[7*m", "[7*m]2", "[0*m]", "[2*bogus]", "[2]", "[]", "[[2*m]*s]", "[2*m*3]"]
)
def test_definitions_that_are_none(text: str) -> None:
    with pytest.raises(MeasureError):
        check(text)


def test_cycles_are_no_angles_by_definition_either() -> None:
    with pytest.raises(MeasureError, match="counts cycles"):
        conversion("Hz", "[0.1*rad/s]")


def test_the_product_of_definitions_is_a_unit_again() -> None:
    product = Measure.of("[7*m]").times(Measure.of("[2*s]"), Fraction(-2))
    assert conversion(str(product), "m/s^2").scale == 7 / 4


@pytest.mark.parametrize(
    ("given", "text"),
    [(("m", 1.0, 0.0), "m"), (("m", 7.0, 0.0), "[7.0*m]"), (("K", 1.0, 273.0), "[K + 273.0]")],
)
def test_texts_of_definitions(given: tuple[str, float, float], text: str) -> None:
    assert defined(*given) == text
