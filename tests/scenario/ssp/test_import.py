"""Systems from SSPs, against what they mean by hand: y = k u for the gain, x' = a x + b u, y = c x + d u."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import upbeat as up
from ssp_maker import (
    binding,
    bindings,
    component,
    connection,
    connections,
    connectors,
    described,
    elements,
    mapping,
    measured,
    parameter_set,
    ssd,
    units,
)

Pack = Callable[..., Path]

GAIN = "resources/gain2.fmu"
LINEAR = "resources/linear2.fmu"
METRES = units("ssd", m="m", mm="m 0.001")
MILLIMETRES = units("ssv", mm="m 0.001")
SPAN = '<ssd:DefaultExperiment startTime="0" stopTime="1"/>'


def linear_factor(factor: float = 1.0, offset: float = 0.0) -> str:
    return f'<ssc:LinearTransformation factor="{factor}" offset="{offset}"/>'


def gain(name: str, inner: str = "", u: str = "input", y: str = "output", **more: str) -> str:
    return component(name, GAIN, inner, u=u, y=y, **more)


def two_gains(link: str, *, u: str = "input", y: str = "output", rest: str = SPAN) -> str:
    """``a.u`` is 3 and hence ``a.y`` is 6; `link` connects it to ``b.u``."""
    start = bindings(binding(parameter_set(a__u=3)))
    return ssd(start + elements(gain("a", y=y), gain("b", u=u)) + connections(link), rest=rest)


def value_at_end(path: Path, column: str, engine: str = "interpret", **settings: object) -> float:
    made = up.load(path, engine=engine, record=["*"], **settings)  # type: ignore[arg-type]
    return float(made.run()[column][-1])


# -------------------------------------------------------------------- structure


@pytest.mark.supports("ssp", "Components that are FMUs (FMI 2 and 3)")
@pytest.mark.supports("ssp", "Inputs and outputs of the system", "yes: those of the scenario")
@pytest.mark.supports("ssp", "Linear transformations")
@pytest.mark.parametrize("version", [2, 3])
def test_a_system_of_two(ssp: Pack, engine: str, version: int) -> None:
    lin = component("lin", f"resources/linear{version}.fmu", u="input", y="output", a="parameter")
    g = component("g", f"resources/gain{version}.fmu", u="input", y="output")
    text = ssd(
        connectors(push="input", out="output")
        + bindings(binding(parameter_set(push=0.5, lin__a=-1)))
        + elements(lin, g)
        + connections(
            connection("g.y", "lin.u", linear_factor(2, 0.25)),
            connection("push", "g.u"),
            connection("lin.y", "out", linear_factor(10)),
        )
    )
    trace = up.load(ssp(text), engine=engine).run()
    drive = 2 * (2 * 0.5) + 0.25
    exact = 3 * (drive + (1 - drive) * math.exp(-1)) + 0.5 * drive
    assert trace["time"][-1] == 1.0
    assert trace["lin.y"][-1] == pytest.approx(exact, rel=1e-6)
    assert trace["out"][-1] == pytest.approx(10 * exact, rel=1e-6)
    assert trace["push"][-1] == 0.5


@pytest.mark.supports("ssp", "Nested systems", "yes: flattened, `Inner.a` is the unit `Inner_a`")
def test_nested_systems(ssp: Pack, engine: str) -> None:
    inner = (
        '<ssd:System name="Inner">'
        + connectors(left="input", right="output")
        + elements(gain("a"), gain("b 1"))
        + connections(
            connection("left", "a.u", linear_factor(1, 1)),
            connection("a.y", "b 1.u"),
            connection("b 1.y", "right", linear_factor(3)),
        )
        + "</ssd:System>"
    )
    text = ssd(
        connectors(push="input", out="output")
        + bindings(binding(parameter_set(push=2)))
        + elements(inner, gain("a"))
        + connections(
            connection("push", "Inner.left", linear_factor(5)),
            connection("Inner.right", "a.u", linear_factor(1, -1)),
            connection("a.y", "out"),
        )
    )
    made = up.load(ssp(text), engine=engine)
    assert list(made.scenario.units) == ["Inner_a", "Inner_b_1", "a"]
    trace = made.run()
    assert trace["Inner_b_1.y"][-1] == 2 * 2 * (5 * 2 + 1)
    assert trace["out"][-1] == 2 * (3 * 2 * 2 * (5 * 2 + 1) - 1)


@pytest.mark.supports("ssp", "Nested systems", "also as SSP, SSD or by the id of a system")
@pytest.mark.parametrize("how", ["ssp", "variant", "ssd", "id"])
def test_systems_in_other_files(
    ssp: Pack, tmp_path: Path, fmu: Callable[[str, int], Path], engine: str, how: str
) -> None:
    def system(factor: float) -> str:
        return (
            connectors(left="input", right="output")
            + bindings(binding(parameter_set(g__k=7)))
            + elements(gain("g"))
            + connections(connection("left", "g.u"), connection("g.y", "right", linear_factor(factor)))
        )

    files: dict[str, Path | str | bytes] = {GAIN: fmu("gain", 2)}
    first, extra = "", ""
    if how in ("ssp", "variant"):
        inside = ssp(ssd(system(10)), {"Other.ssd": ssd(system(20)), GAIN: fmu("gain", 2)}, "sub.ssp")
        files["resources/sub.ssp"] = inside
        extra = ' type="application/x-ssp-package" source="resources/sub.ssp'
        extra += '"' if how == "ssp" else '#Other.ssd"'
    elif how == "ssd":
        files["sub.ssd"] = ssd(system(10))
        extra = ' source="sub.ssd" type="application/x-ssp-definition"'
    else:
        first = f'<ssd:System name="first" id="one">{system(10)}</ssd:System>'
        extra = ' source="#one"'
    bound = bindings(binding(parameter_set(g__k=4)))
    part = (
        f'<ssd:Component name="sub"{extra}>{connectors(left="input", right="output")}{bound}</ssd:Component>'
    )
    text = ssd(
        connectors(out="output")
        + bindings(binding(parameter_set(sub__g__u=3)))
        + elements(first, part)
        + connections(connection("sub.right", "out"))
    )
    path = ssp(text, files)
    expected = 4 * 3 * (20 if how == "variant" else 10)
    assert value_at_end(path, "out", engine) == expected


@pytest.mark.supports("ssp", "Variants", "yes: `system.ssp#Variant.ssd`")
def test_variants(ssp: Pack) -> None:
    other = two_gains(connection("a.y", "b.u", linear_factor(5)))
    path = ssp(two_gains(connection("a.y", "b.u")), {"Other.ssd": other})
    assert up.read_ssp(path).run()["b.y"][-1] == 12
    assert up.read_ssp(path, variant="Other.ssd").run()["b.y"][-1] == 60
    assert up.load(f"{path}#Other.ssd").run()["b.y"][-1] == 60
    with pytest.raises(up.FileProblem, match=r"there is no Othr\.ssd in it\. Did you mean 'Other\.ssd'"):
        up.read_ssp(path, variant="Othr.ssd")


@pytest.mark.supports("ssp", "Connections whose end is the source", "yes: what the connectors are decides")
def test_the_order_of_ends_does_not_matter(ssp: Pack, engine: str) -> None:
    text = two_gains(connection("b.u", "a.y", linear_factor(1, 1)))
    assert value_at_end(ssp(text), "b.y", engine) == 2 * (6 + 1)


@pytest.mark.supports("ssp", "Signal dictionaries")
@pytest.mark.parametrize("external", [False, True])
def test_signal_dictionaries(ssp: Pack, engine: str, external: bool) -> None:
    from ssp_maker import NAMESPACES

    content = (
        f'<ssb:SignalDictionary {NAMESPACES} version="1.0"><ssb:DictionaryEntry name="speed">'
        f'<ssc:Real unit="mm"/></ssb:DictionaryEntry>{units("ssb", mm="m 0.001")}</ssb:SignalDictionary>'
    )
    source = ' source="bus.ssb"' if external else ""
    dictionary = f'<ssd:SignalDictionaries><ssd:SignalDictionary name="bus"{source}>'
    dictionary += f"{'' if external else content}</ssd:SignalDictionary></ssd:SignalDictionaries>"
    place = f'<ssd:SignalDictionaryReference name="ref" dictionary="bus">{connectors(speed="inout")}'
    place += "</ssd:SignalDictionaryReference>"
    inner = (
        '<ssd:System name="Inner">'
        + elements(place, gain("b", u="input Real m"))
        + connections(connection("ref.speed", "b.u"))
        + "</ssd:System>"
    )
    text = ssd(
        bindings(binding(parameter_set(a__u=3)))
        + elements(gain("a", y="output Real m"), place, inner)
        + connections(connection("a.y", "ref.speed"))
        + dictionary,
        rest=METRES + SPAN,
    )
    assert value_at_end(ssp(text, {"bus.ssb": content}), "Inner_b.u", engine) == 6.0


# -------------------------------------------------------------------- units and transformations


@pytest.mark.supports("ssp", "Conversion of units, and its suppression")
@pytest.mark.parametrize(
    ("inner", "attributes", "expected"),
    [
        ("", {}, 0.006),
        (linear_factor(2, 0.5), {}, 2 * 0.006 + 0.5),
        ("", {"suppressUnitConversion": "true"}, 6.0),
        (linear_factor(2, 0.5), {"suppressUnitConversion": "true"}, 12.5),
    ],
)
def test_units(
    ssp: Pack, engine: str, tmp_path: Path, inner: str, attributes: dict[str, str], expected: float
) -> None:
    """Units are converted first, then comes the transformation."""
    link = connection("a.y", "b.u", inner, **attributes)
    text = two_gains(link, u="input Real m", y="output Real mm", rest=METRES + SPAN)
    assert value_at_end(ssp(text), "b.u", engine) == pytest.approx(expected, rel=1e-15)


@pytest.mark.supports("ssp", "Conversion of units, and its suppression")
@pytest.mark.parametrize(
    ("inner", "attributes", "expected"),
    [
        ("", {}, 0.006),
        (linear_factor(2, 0.5), {}, 2 * 0.006 + 0.5),
        ("", {"suppressUnitConversion": "true"}, 6.0),
        (linear_factor(2, 0.5), {"suppressUnitConversion": "true"}, 12.5),
    ],
)
def test_units_of_the_fmus(
    ssp: Pack,
    fmu: Callable[[str, int], Path],
    tmp_path: Path,
    engine: str,
    inner: str,
    attributes: dict[str, str],
    expected: float,
) -> None:
    """The same where the FMUs say the units, which a scenario would convert by itself."""
    files: dict[str, Path | str | bytes] = {
        GAIN: measured(fmu("gain", 2), tmp_path / "one.fmu", y="mm"),
        "resources/other.fmu": measured(fmu("gain", 2), tmp_path / "other.fmu", u="m"),
    }
    parts = elements(gain("a"), component("b", "resources/other.fmu", u="input", y="output"))
    link = connections(connection("a.y", "b.u", inner, **attributes))
    text = ssd(connectors(out="output") + bindings(binding(parameter_set(a__u=3))) + parts + link)
    assert value_at_end(ssp(text, files), "b.u", engine) == pytest.approx(expected, rel=1e-15)


@pytest.mark.supports("ssp", "Conversion of units, and its suppression")
def test_units_with_an_offset(ssp: Pack, engine: str) -> None:
    known = units("ssd", K="K", degC="K 1 273.15")
    text = two_gains(
        connection("a.y", "b.u"),
        u="input Real K",
        y="output Real degC",
        rest=known + SPAN,
    )
    assert value_at_end(ssp(text), "b.u", engine) == 6 + 273.15


@pytest.mark.supports("ssp", "Units that do not fit", "an error")
def test_units_that_measure_different_things(ssp: Pack) -> None:
    known = units("ssd", K="K", m="m") + SPAN
    text = two_gains(connection("a.y", "b.u"), u="input Real K", y="output Real m", rest=known)
    with pytest.raises(up.ScenarioError, match="'m' and 'K' do not measure the same thing"):
        up.load(ssp(text))


DRIVE = {"rad/s": 'rad="1" s="-1"', "rev/min": 'rad="1" s="-1" factor="0.1"', "N": 'kg="1" m="1" s="-2"'}
"""A factor that only the FMU can have told."""


@pytest.mark.supports("ssp", "Units that only the FMU defines")
@pytest.mark.parametrize("named", [True, False])
def test_units_that_only_the_fmus_define(
    ssp: Pack, fmu: Callable[[str, int], Path], tmp_path: Path, engine: str, named: bool
) -> None:
    made = described(fmu("gain", 2), tmp_path / "one.fmu", DRIVE, y='unit="rad/s"', u='unit="rev/min"')
    kinds = {"u": "input Real rev/min", "y": "output Real rad/s"} if named else {}
    text = two_gains(connection("a.y", "b.u"), rest=SPAN, **kinds)
    assert value_at_end(ssp(text, {GAIN: made}), "b.u", engine) == pytest.approx(60.0, rel=1e-15)


@pytest.mark.supports("ssp", "Units that do not fit", "an error")
@pytest.mark.parametrize("units", [DRIVE, {}])
def test_units_of_fmus_that_do_not_fit(
    ssp: Pack, fmu: Callable[[str, int], Path], tmp_path: Path, units: dict[str, str]
) -> None:
    """It is clear whether the FMU defines them, or the names alone say so."""
    made = described(fmu("gain", 2), tmp_path / "one.fmu", units, y='unit="rad/s"', u='unit="N"')
    text = two_gains(connection("a.y", "b.u"), u="input Real N", y="output Real rad/s", rest=SPAN)
    with pytest.raises(up.ScenarioError, match="'rad/s' and 'N' do not measure the same thing"):
        up.load(ssp(text, {GAIN: made}))


def test_units_of_the_ssd_count(
    ssp: Pack,
    fmu: Callable[[str, int], Path],
    tmp_path: Path,
    engine: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = measured(fmu("gain", 2), tmp_path / "one.fmu", y="mm", u="m")
    text = two_gains(connection("a.y", "b.u"), u="input Real m", y="output Real m", rest=METRES + SPAN)
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        assert value_at_end(ssp(text, {GAIN: made}), "b.u", engine) == 6.0
    assert "'y' is in mm for the FMU, but in m for the SSD, which counts" in caplog.text


CELSIUS = {"degC": 'K="1" offset="273.15"', "K": 'K="1"'}


@pytest.mark.supports("ssp", "Conversion of units, and its suppression")
@pytest.mark.parametrize(("relative", "expected"), [("true", 6.0), ("false", 279.15)])
def test_differences_get_no_offset(
    ssp: Pack, fmu: Callable[[str, int], Path], tmp_path: Path, engine: str, relative: str, expected: float
) -> None:
    more = f'relativeQuantity="{relative}"'
    made = described(
        fmu("gain", 2), tmp_path / "one.fmu", CELSIUS, y=f'unit="degC" {more}', u=f'unit="K" {more}'
    )
    text = two_gains(connection("a.y", "b.u"), rest=SPAN)
    assert value_at_end(ssp(text, {GAIN: made}), "b.u", engine) == expected


def test_a_difference_is_not_a_temperature(
    ssp: Pack, fmu: Callable[[str, int], Path], tmp_path: Path
) -> None:
    made = described(
        fmu("gain", 2),
        tmp_path / "one.fmu",
        CELSIUS,
        y='unit="degC" relativeQuantity="true"',
        u='unit="degC"',
    )
    with pytest.raises(up.ScenarioError, match="a difference is not a temperature"):
        up.load(ssp(two_gains(connection("a.y", "b.u"), rest=SPAN), {GAIN: made}))


@pytest.mark.supports("ssp", "Boolean, integer and enumeration mappings")
def test_mapping_transformations(ssp: Pack, engine: str) -> None:
    def entries(kind: str, *pairs: tuple[str, str]) -> str:
        inner = "".join(f'<ssc:MapEntry source="{a}" target="{b}"/>' for a, b in pairs)
        return f"<ssc:{kind}MappingTransformation>{inner}</ssc:{kind}MappingTransformation>"

    kinds = {"int32": "Integer", "boolean": "Boolean", "string": "String"}
    ports = {f"{name}_{side}": word for name in kinds for side, word in (("in", "input"), ("out", "output"))}
    ports |= {"enumeration_in": "input", "enumeration_out": "output"}
    a, b = (component(name, "resources/types2.fmu", **ports) for name in ("a", "b"))
    values = "".join(
        f'<ssv:Parameter name="a.{name}_in"><ssv:{kind} value="{value}"/></ssv:Parameter>'
        for name, kind, value in (
            ("int32", "Integer", "4"),
            ("boolean", "Boolean", "true"),
            ("string", "String", "what ever"),
            ("enumeration", "Enumeration", "fast"),
        )
    )
    content = parameter_set().replace("<ssv:Parameters>", f"<ssv:Parameters>{values}")
    text = ssd(
        bindings(binding(content))
        + elements(a, b)
        + connections(
            connection("a.int32_out", "b.int32_in", entries("Integer", ("4", "40"), ("5", "50"))),
            connection(
                "a.boolean_out", "b.boolean_in", entries("Boolean", ("true", "false"), ("false", "true"))
            ),
            connection("a.string_out", "b.string_in"),
            connection(
                "a.enumeration_out",
                "b.enumeration_in",
                entries("Enumeration", ("fast", "slow"), ("slow", "off")),
            ),
        )
    )
    trace = up.load(ssp(text), engine="interpret", until=0.02).run()
    assert trace["b.int32_out"][-1] == 40
    assert trace["b.boolean_out"][-1] == False  # noqa: E712 - NumPy's own
    assert trace["b.string_out"][-1] == "what ever"
    assert trace["b.enumeration_out"][-1] in (3, "slow")


# -------------------------------------------------------------------- parameters


@pytest.mark.supports("ssp", "Parameter bindings", "outer ones win over inner, later ones over earlier")
def test_which_binding_wins(ssp: Pack, engine: str) -> None:
    own = bindings(binding(parameter_set(k=10, u=1)), binding(parameter_set(k=11)))
    inner = bindings(binding(parameter_set(a__u=2))) + elements(gain("a", own))
    inner = f'<ssd:System name="S">{inner}</ssd:System>'
    text = ssd(bindings(binding(parameter_set(S__a__u=5))) + elements(inner))
    assert value_at_end(ssp(text), "S_a.y", engine) == 5 * 11
    assert value_at_end(ssp(text.replace("S.a.u", "S.a.v")), "S_a.y", engine) == 2 * 11


@pytest.mark.supports("ssp", "Parameter bindings", "inline, in a file, inside of an FMU; with a prefix")
@pytest.mark.parametrize("place", ["inline", "file", "component"])
def test_where_values_stand(
    ssp: Pack, tmp_path: Path, fmu: Callable[[str, int], Path], engine: str, place: str
) -> None:
    import shutil
    import zipfile

    values = parameter_set(k=4, u=3)
    files: dict[str, Path | str | bytes] = {}
    bound = binding(values, prefix="a.")
    own = ""
    if place == "file":
        files["resources/my values.ssv"] = values
        bound = '<ssd:ParameterBinding prefix="a." source="resources/my%20values.ssv"/>'
    if place == "component":
        changed = tmp_path / "gain.fmu"
        shutil.copy(fmu("gain", 2), changed)
        with zipfile.ZipFile(changed, "a") as archive:
            archive.writestr("resources/values.ssv", values)
        files[GAIN] = changed
        own = bindings('<ssd:ParameterBinding source="resources/values.ssv" sourceBase="component"/>')
        bound = ""
    text = ssd((bindings(bound) if bound else "") + elements(gain("a", own)))
    assert value_at_end(ssp(text, files), "a.y", engine) == 12


@pytest.mark.supports("ssp", "Parameter mappings", "inline and in a file, with transformations and units")
@pytest.mark.parametrize("external", [False, True])
def test_mappings(ssp: Pack, engine: str, external: bool) -> None:
    entries = mapping(
        f'<ssm:MappingEntry source="stiffness" target="a.k">{linear_factor(2, 1)}</ssm:MappingEntry>',
        '<ssm:MappingEntry source="length" target="a.u"/>',
        '<ssm:MappingEntry source="length" target="b.u" suppressUnitConversion="true"/>',
    )
    values = parameter_set(
        stiffness=4,
        length="5000 mm",
        a__k=99,
        rest=MILLIMETRES,
    )
    bound = binding(values, mapping=entries)
    if external:
        bound = '<ssd:ParameterMapping source="m.ssm"/>'
        bound = f'<ssd:ParameterBinding source="v.ssv">{bound}</ssd:ParameterBinding>'
    text = ssd(
        bindings(bound) + elements(gain("a", u="input Real m"), gain("b", u="input Real m")),
        rest=METRES + SPAN,
    )
    trace = up.load(ssp(text, {"v.ssv": values, "m.ssm": entries}), engine=engine).run()
    assert trace["a.y"][-1] == (2 * 4 + 1) * 5
    assert trace["b.y"][-1] == 2 * 5000


@pytest.mark.supports("ssp", "Parameter bindings", "units converted, with a warning")
def test_values_in_other_units(ssp: Pack, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    text = ssd(
        bindings(binding(parameter_set(a__u="250 mm", rest=MILLIMETRES)))
        + elements(gain("a", u="input Real m")),
        rest=METRES + SPAN,
    )
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        assert value_at_end(ssp(text), "a.y", engine) == 2 * 0.25
    assert "'a.u' is converted from mm to m" in caplog.text


@pytest.mark.supports("ssp", "Parameter bindings", "units converted, with a warning")
def test_units_around_inline_values(ssp: Pack, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """A parameter set has to define its units; those around it say what is meant if it does not."""
    text = ssd(
        bindings(binding(parameter_set(a__u="250 mm"))) + elements(gain("a", u="input Real m")),
        rest=METRES + SPAN,
    )
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        assert value_at_end(ssp(text), "a.y", engine) == 2 * 0.25
    assert "<ssv:Units> does not define the unit 'mm': it is taken from <ssd:Units>" in caplog.text


def test_units_that_nobody_defines(ssp: Pack, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """Those around a file are not its own: what its names usually mean counts, with a warning."""
    text = ssd(
        bindings('<ssd:ParameterBinding source="v.ssv"/>') + elements(gain("a", u="input Real m")),
        rest=METRES + SPAN,
    )
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        made = ssp(text, {"v.ssv": parameter_set(a__u="250 mm")})
        assert value_at_end(made, "a.y", engine) == 2 * 0.25
    assert (
        "'mm' is not defined under Units: 'mm' is converted to 'm' as these names usually mean" in caplog.text
    )


def test_units_that_nobody_knows(ssp: Pack, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """They are connected as they are, with a warning; what cannot be the same is an error still."""
    parts = elements(gain("a", y="output Real furlongs"), gain("b", u="input Real barleycorns"))
    values = bindings(binding(parameter_set(a__u="1.5")))
    text = ssd(values + parts + connections(connection("a.y", "b.u")))
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        assert value_at_end(ssp(text), "b.y", engine) == 6.0
    assert "values are passed from 'furlongs' to 'barleycorns' as they are" in caplog.text
    parts = elements(gain("a", y="output Real kg"), gain("b", u="input Real s"))
    with pytest.raises(up.ScenarioError, match="'kg' and 's' do not measure the same thing"):
        up.load(ssp(ssd(values + parts + connections(connection("a.y", "b.u")))))


@pytest.mark.supports("ssp", "Parameters of systems, connected to those of elements")
def test_parameters_of_systems(ssp: Pack, engine: str) -> None:
    inner = (
        '<ssd:System name="S">'
        + connectors(gain="parameter", drive="parameter")
        + bindings(binding(parameter_set(gain=3, drive=1)))
        + elements(gain("a", k="parameter"))
        + connections(connection("gain", "a.k", linear_factor(2)), connection("drive", "a.u"))
        + "</ssd:System>"
    )
    text = ssd(bindings(binding(parameter_set(S__drive=5))) + elements(inner))
    assert value_at_end(ssp(text), "S_a.y", engine) == 2 * 3 * 5


@pytest.mark.supports("ssp", "Parameters that follow what an FMU computes", "an error")
def test_a_parameter_cannot_follow_a_signal(ssp: Pack) -> None:
    text = ssd(
        elements(gain("a"), gain("b", k="parameter")) + connections(connection("a.y", "b.k")),
    )
    with pytest.raises(up.ScenarioError, match="it is fixed before the run"):
        up.load(ssp(text))


@pytest.mark.supports("ssp", "Values for names that do not exist", "ignored with a warning")
def test_values_for_nobody(ssp: Pack, caplog: pytest.LogCaptureFixture) -> None:
    text = ssd(bindings(binding(parameter_set(a__k=1, a__kk=2, b__k=3))) + elements(gain("a")))
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        up.load(ssp(text))
    assert "nothing is called 'a.kk', 'b.k': such values are ignored" in caplog.text


# -------------------------------------------------------------------- types of SSP 2.0


@pytest.mark.supports("ssp", "Arrays and the types of FMI 3 (SSP 2.0)")
def test_arrays(ssp: Pack, engine: str) -> None:
    """With A = -I, x' = -x + (u, 0) from (1, 2), y = x: both cells in closed form."""
    sized = "".join(
        f'<ssv:Parameter name="s.{name}"><ssv:UInt64 value="{value}"/></ssv:Parameter>'
        for name, value in (("n", 2), ("m", 1), ("r", 2))
    )
    arrays = "".join(
        f'<ssv:Parameter name="s.{name}"><ssv:Float64 value="{value}"/>'
        + "".join(f'<ssc:Dimension size="{size}"/>' for size in sizes)
        + "</ssv:Parameter>"
        for name, value, sizes in (("C", "1 0 0 1", (2, 2)), ("D", "0 0", (2, 1)), ("u", "3", (1,)))
    )
    content = parameter_set(version="2.0").replace("<ssv:Parameters>", f"<ssv:Parameters>{sized}{arrays}")
    ports = (
        '<ssd:Connectors><ssd:Connector name="y" kind="output"><ssc:Float64/>'
        '<ssc:Dimension sizeConnector="r"/></ssd:Connector>'
        '<ssd:Connector name="r" kind="structuralParameter"><ssc:UInt64/></ssd:Connector>'
        "</ssd:Connectors>"
    )
    text = ssd(
        connectors(out="output")
        + bindings(binding(content))
        + elements(f'<ssd:Component name="s" source="resources/space3.fmu">{ports}</ssd:Component>')
        + connections(connection("s.y", "out", linear_factor(2))),
        version="2.0",
    )
    trace = up.load(ssp(text), engine=engine).run()
    assert trace["out[0]"][-1] == pytest.approx(2 * (3 - 2 * math.exp(-1)), rel=1e-6)
    assert trace["out[1]"][-1] == pytest.approx(2 * 2 * math.exp(-1), rel=1e-6)


@pytest.mark.supports("ssp", "Connections of single cells (startIndices, endIndices)", "an error")
def test_indices(ssp: Pack) -> None:
    text = two_gains(connection("a.y", "b.u", startIndices="1"))
    with pytest.raises(up.ScenarioError, match="single cells"):
        up.load(ssp(text))


# -------------------------------------------------------------------- the experiment


@pytest.mark.supports("ssp", "Default experiment", "also without times")
def test_times(ssp: Pack) -> None:
    link = connection("a.y", "b.u")
    span = up.load(ssp(two_gains(link, rest='<ssd:DefaultExperiment startTime="0.5" stopTime="4"/>'))).span
    assert (span.start, span.stop) == (0.5, 4.0)
    for rest in ("", "<ssd:DefaultExperiment/>", '<ssd:DefaultExperiment startTime="0"/>'):
        made = up.load(ssp(two_gains(link, rest=rest)))
        assert (made.span.start, made.span.stop) == (0.0, 2.0), "the FMUs say 2"
        assert up.load(ssp(two_gains(link, rest=rest)), until=3.0).span.stop == 3.0
    assert made.master == up.Master(up.Fixed(0.01), events="auto"), "the FMUs say 0.01"


@pytest.mark.supports("ssp", "A fixed step in other tools' annotations")
def test_a_step_in_an_annotation(ssp: Pack) -> None:
    note = (
        '<ssd:DefaultExperiment stopTime="1"><ssd:Annotations><ssc:Annotation type="org.other">'
        '<FixedStepMaster xmlns="urn:other" stepSize="0.125"/></ssc:Annotation></ssd:Annotations>'
        "</ssd:DefaultExperiment>"
    )
    assert up.load(ssp(two_gains(connection("a.y", "b.u"), rest=note))).master == up.Master(
        up.Fixed(0.125), events="auto"
    )


def test_integers_and_enumerations(ssp: Pack, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """By their codes, with a warning: the standard leaves it open, and systems do it."""
    ports = {"int32_in": "input", "int32_out": "output"}
    ports |= {"enumeration_in": "input", "enumeration_out": "output"}
    parts = elements(*(component(name, "resources/types2.fmu", **ports) for name in ("a", "b", "c")))
    links = connections(
        connection("a.int32_out", "b.enumeration_in"), connection("b.enumeration_out", "c.int32_in")
    )
    for given, code in ((7, 7), (3, 3), (1, 1), (5, 1)):
        text = ssd(parts + links)
        with caplog.at_level(logging.WARNING, "upbeat.ssp"):
            made = up.load(ssp(text), engine=engine, record=["*"], values={"a.int32_in": given})
            assert made.run()["c.int32_out"][-1] == code
    assert (
        "an integer is connected to an enumeration: it is taken as a code, and any other number as 1 ('off')"
        in (caplog.text)
    )
    assert "an enumeration is connected to an integer, which gets its codes" in caplog.text


def test_the_base_step_of_the_open_simulation_platform(ssp: Pack) -> None:
    note = (
        '<ssd:DefaultExperiment stopTime="1"><ssd:Annotations>'
        '<ssc:Annotation type="com.opensimulationplatform"><osp:SimulationInformation xmlns:osp="urn:osp">'
        '<osp:FixedStepAlgorithm baseStepSize="0.0625"/></osp:SimulationInformation></ssc:Annotation>'
        "</ssd:Annotations></ssd:DefaultExperiment>"
    )
    made = up.load(ssp(two_gains(connection("a.y", "b.u"), rest=note)))
    assert made.master == up.Master(up.Fixed(0.0625), events="auto")


def test_sources_begin_at_the_ssd_that_has_them(ssp: Pack, engine: str) -> None:
    """Also upwards, within the archive; and at its top, as other tools mean it."""
    for source in ("../../resources/gain2.fmu", "resources/gain2.fmu"):
        inner = ssd(
            connectors(u="input", y="output")
            + elements(component("a", source, u="input", y="output"))
            + connections(connection("u", "a.u"), connection("a.y", "y"))
        )
        nested = component("S", "extra/deep/inner.ssd", u="input", y="output").replace(
            "<ssd:Component ", '<ssd:Component type="application/x-ssp-definition" '
        )
        values = bindings(binding(parameter_set(S__u=1.5)))
        text = ssd(values + elements(nested, gain("b"))).replace(
            "<ssd:System", "<!-- resources/gain2.fmu --><ssd:System"
        )
        made = ssp(text, {"extra/deep/inner.ssd": inner})
        assert value_at_end(made, "S_a.y", engine) == 3.0


def test_inputs_of_the_system_start_where_the_fmu_does(ssp: Pack, engine: str) -> None:
    text = ssd(
        connectors(push="input")
        + elements(gain("a"))
        + connections(connection("push", "a.u", linear_factor(2, 1)))
    )
    made = up.load(ssp(text), engine=engine)
    assert made.scenario.port("push").start == (-0.5,), "2 · -0.5 + 1 is the gain's own start value, 0"
    assert up.load(ssp(text), engine=engine, values={"push": 4.0}).run()["a.y"][-1] == 2 * 9


# -------------------------------------------------------------------- problems


@pytest.mark.supports("ssp", "Problems", "all reported at once, with file and line")
def test_all_problems_at_once(ssp: Pack) -> None:
    text = ssd(
        "\n".join(
            [
                elements(
                    gain("a"), gain("b"), component("c", "resources/gone.fmu"), component("d", "../up.fmu")
                ),
                connections(
                    connection("a.y", "b.uu"),
                    connection("a.y", "x.u"),
                    connection("a.u", "b.u"),
                    connection("nothing", "b.u"),
                ),
            ]
        )
    )
    with pytest.raises(up.ScenarioError) as caught:
        up.load(ssp(text))
    message = str(caught.value)
    for words in (
        "there is no file 'resources/gone.fmu' in the SSP",
        "'../up.fmu' leads out of the SSP",
    ):
        assert words in message
    assert all(problem.line for problem in caught.value.problems)
    text = text.replace(component("c", "resources/gone.fmu"), "").replace(component("d", "../up.fmu"), "")
    with pytest.raises(up.ScenarioError) as caught:
        up.load(ssp(text))
    message = str(caught.value)
    for words in (
        "the FMU 'b' has no connector 'uu'",
        "there is no element 'x'",
        "'u' (input) and 'u' (input) cannot be connected",
        "the system has no connector 'nothing'",
    ):
        assert words in message
    assert [problem.line for problem in caught.value.problems] == [5] * 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("1.0", "3.0"), "it follows version 3.0 of SSP"),
        (('source="resources/gain2.fmu"', 'source="http://x/gain.fmu"'), "lies elsewhere"),
        (('kind="input"', 'kind="inputt"'), "Did you mean 'input'"),
        (("<ssd:Component", '<ssd:Component type="text/x-java"'), "of the type 'text/x-java' cannot be run"),
        (('<ssd:Component name="b"', '<ssd:Component name="a"'), "two elements are called 'a'"),
        (("ssd:Component", "ssd:Compoment"), "<ssd:Compoment> is not supported"),
        (("<ssd:Connections>", "<ssd:Connections>" + connection("a.y", "b.u")), "has two sources"),
        (('name="u" kind="input"', 'name="u" kind="output"'), "in the FMU it is input"),
    ],
)
def test_problems(ssp: Pack, change: tuple[str, str], words: str) -> None:
    text = two_gains(connection("a.y", "b.u"))
    assert change[0] in text
    with pytest.raises(up.ScenarioError) as caught:
        up.load(ssp(text.replace(*change)))
    assert words in str(caught.value)


def test_systems_that_contain_themselves(ssp: Pack) -> None:
    again = '<ssd:Component name="again" source="#one"/>'
    text = ssd(elements(f'<ssd:System name="s" id="one">{elements(gain("a"), again)}</ssd:System>'))
    with pytest.raises(up.ScenarioError, match="the system 'one' contains itself"):
        up.load(ssp(text))
    with pytest.raises(up.ScenarioError, match="it contains itself"):
        up.load(ssp(ssd(elements('<ssd:Component name="again" source="SystemStructure.ssd"/>'))))


def test_signals_that_follow_themselves(ssp: Pack) -> None:
    inner = f'<ssd:System name="s">{connectors(i="input", o="output")}'
    inner += connections(connection("i", "o")) + "</ssd:System>"
    text = ssd(elements(inner, gain("a")) + connections(connection("s.o", "s.i"), connection("s.o", "a.u")))
    with pytest.raises(up.ScenarioError, match="follows itself through no FMU"):
        up.load(ssp(text))


def test_one_run_goes_on_from_a_checkpoint(ssp: Pack, tmp_path: Path) -> None:
    """The FMUs are unpacked to another place then, which does not matter."""
    import subprocess
    import sys

    lin = component("lin", LINEAR, u="input", y="output")
    path = ssp(ssd(elements(lin)))
    whole = up.load(path).run()
    script = (
        "import sys, upbeat as up\n"
        "every = up.Checkpoint(sys.argv[2], '1steps')\n"
        "run = up.load(sys.argv[1], checkpoint=every, out=sys.argv[3]).open()\n"
        "with run:\n    [run.step() for _ in range(30)]\n"
    )
    kept, out = tmp_path / "run.checkpoint", tmp_path / "out.csv"
    subprocess.run([sys.executable, "-c", script, str(path), str(kept), str(out)], check=True)
    trace = up.resume(kept, experiment=up.load(path, out=out, checkpoint=up.Checkpoint(kept, "1steps")))
    assert trace["lin.y"].tolist() == whole["lin.y"].tolist()


@pytest.mark.supports("ssp", "Metadata and signatures (SSP 2.0)", "kept, not used, with a warning")
def test_metadata_and_signatures_are_named(ssp: Pack, caplog: pytest.LogCaptureFixture) -> None:
    more = '<ssc:MetaData kind="general" type="text/xml"/><ssc:Signature role="authenticity" type="x"/>'
    with caplog.at_level(logging.WARNING, "upbeat.ssp"):
        up.load(ssp(ssd(elements(gain("a", more)), version="2.0")))
    assert "component 'a': its metadata is kept, and not used" in caplog.text
    assert "component 'a': its digital signature is not checked" in caplog.text
