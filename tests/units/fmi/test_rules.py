"""The tables of causality, variability and initial, laid out as in the standards, apart from the code."""

from __future__ import annotations

import itertools

import pytest

from upbeat.units.fmi.description import Initial, parse_description

CAUSALITIES = ("parameter", "calculatedParameter", "input", "output", "local", "independent")
# FMI 2.0, section 2.2.7: rows are variabilities, columns causalities; A to E are the RULES, - is forbidden.
TABLE = {
    "constant":   "- - - A A -",
    "fixed":      "A B - - B -",
    "tunable":    "A B - - B -",
    "discrete":   "- - D C C -",
    "continuous": "- - D C C E",
}  # fmt: skip
RULES = {
    "A": ("exact", {"exact"}),
    "B": ("calculated", {"approx", "calculated"}),
    "C": ("calculated", {"exact", "approx", "calculated"}),
    "D": ("exact", {"exact"}),  # FMI 2 does not name it, but an input's start value is its value
    "E": (None, set()),
}
CASES = [
    (causality, variability, rule)
    for variability, row in TABLE.items()
    for causality, rule in zip(CAUSALITIES, row.split(), strict=True)
]


def _text(version: int, causality: str, variability: str, initial: str | None, start: bool) -> bytes:
    given = f'initial="{initial}"' if initial else ""
    value = 'start="1"' if start else ""
    common = f'name="v" valueReference="1" causality="{causality}" variability="{variability}" {given}'
    if version == 2:
        variable, token = f"<ScalarVariable {common}><Real {value}/></ScalarVariable>", "guid"
    else:
        variable, token = f"<Float64 {common} {value}/>", "instantiationToken"
    return (
        f'<fmiModelDescription fmiVersion="{version}.0" modelName="m" {token}="t">'
        f'<CoSimulation modelIdentifier="m"/><ModelVariables>{variable}</ModelVariables><ModelStructure/>'
        "</fmiModelDescription>"
    ).encode()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("causality", "variability", "rule"), CASES)
def test_every_combination(version: int, causality: str, variability: str, rule: str) -> None:
    for initial, start in itertools.product((None, "exact", "approx", "calculated"), (False, True)):
        text = _text(version, causality, variability, initial, start)
        default, possible = RULES.get(rule, (None, set()))
        counts = initial or default
        allowed = rule != "-" and (initial is None or initial in possible)
        if causality != "input" and counts in ("exact", "approx") and not start:
            allowed = False  # an input without one is tolerated
        if not allowed:
            assert parse_description(text).violations
            continue
        assert not parse_description(text).violations
        variable = parse_description(text).by_name["v"]
        assert variable.initial == (Initial(counts) if counts else None)
        has_start = start and counts in ("exact", "approx")
        assert variable.start == ((1.0,) if has_start else None)


@pytest.mark.parametrize("variability", ["constant", "fixed", "tunable", "discrete", "continuous"])
def test_structural_parameters(variability: str) -> None:
    text = _text(3, "structuralParameter", variability, None, True).replace(b"Float64", b"UInt64")
    if variability in ("fixed", "tunable"):
        assert parse_description(text).by_name["v"].initial is Initial.EXACT
    else:
        assert parse_description(text).violations
