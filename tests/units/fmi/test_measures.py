"""Units of FMUs as texts that Upbeat understands."""

from __future__ import annotations

import pytest

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
        ("Flummox", base(2.5, kg=1), None),
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
