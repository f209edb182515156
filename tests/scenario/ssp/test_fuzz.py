"""Whatever is in an SSP: a scenario, or an error of Upbeat's own kind. No other exception, and no hang."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from ssp_maker import (
    NAMESPACES,
    binding,
    bindings,
    component,
    connection,
    connections,
    connectors,
    elements,
    mapping,
    pack,
    parameter_set,
    ssd,
    units,
)
from upbeat.scenario.ssp.importing import Affine, Unfit

BOUNDED = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))

_ENTRY = '<ssc:MapEntry source="4" target="5"/><ssc:MapEntry source="7" target="8"/>'
_BUS = '<ssd:SignalDictionary name="bus" source="bus.ssb"/>'
_INNER = (
    '<ssd:System name="S" id="one">'
    + connectors(left="input Real mm", right="output", p="parameter")
    + bindings('<ssd:ParameterBinding source="v.ssv" prefix="g."/>')
    + elements(
        component("g", "gain.fmu", u="input Real mm", y="output Real mm", k="parameter"),
    )
    + connections(
        connection("left", "g.u"),
        connection("g.y", "right", '<ssc:LinearTransformation factor="2" offset="1"/>'),
        connection("p", "g.k"),
    )
    + "</ssd:System>"
)
SYSTEM = ssd(
    connectors(push="input Real m", out="output Real m", k="parameter")
    + bindings(
        '<ssd:ParameterBinding source="v.ssv"><ssd:ParameterMapping source="m.ssm"/></ssd:ParameterBinding>',
        binding(parameter_set(push=3, S__p=4, t__int32_in=4)),
    )
    + elements(
        _INNER,
        '<ssd:Component name="again" source="#one"/>',
        component("t", "types.fmu", int32_in="input Integer", int32_out="output Integer", float64_in="input"),
        component("t2", "types.fmu", int32_in="input Integer"),
        f'<ssd:SignalDictionaryReference name="ref" dictionary="bus">{connectors(speed="inout")}'
        "</ssd:SignalDictionaryReference>",
    )
    + connections(
        connection("push", "S.left"),
        connection("S.right", "out"),
        connection("S.right", "again.left"),
        connection("again.right", "ref.speed", suppressUnitConversion="true"),
        connection("ref.speed", "t.float64_in"),
        connection(
            "t.int32_out",
            "t2.int32_in",
            f"<ssc:IntegerMappingTransformation>{_ENTRY}</ssc:IntegerMappingTransformation>",
        ),
    )
    + f"<ssd:SignalDictionaries>{_BUS}</ssd:SignalDictionaries>",
    rest='<ssd:Enumerations><ssc:Enumeration name="E"><ssc:Item name="a" value="1"/></ssc:Enumeration>'
    "</ssd:Enumerations>"
    + units("ssd", m="m", mm="m 0.001")
    + '<ssd:DefaultExperiment startTime="0" stopTime="1"/>'
    '<ssd:Annotations><ssc:Annotation type="upbeat.settings">'
    '<settings>[run]\nengine = "interpret"</settings></ssc:Annotation></ssd:Annotations>',
    version="2.0",
)
VALUES = parameter_set(k=3, u="2 mm", rest=units("ssv", mm="m 0.001"))
MAPPING = mapping(
    '<ssm:MappingEntry source="k" target="S.g.k"><ssc:LinearTransformation factor="2"/></ssm:MappingEntry>',
    '<ssm:MappingEntry source="u" target="S.g.u" suppressUnitConversion="true"/>',
)
DICTIONARY = (
    f'<ssb:SignalDictionary {NAMESPACES} version="1.0"><ssb:DictionaryEntry name="speed">'
    '<ssc:Real unit="mm"/></ssb:DictionaryEntry></ssb:SignalDictionary>'
)
FILES = {"SystemStructure.ssd": SYSTEM, "v.ssv": VALUES, "m.ssm": MAPPING, "bus.ssb": DICTIONARY}
WORDS = [found[1:-1] for text in FILES.values() for found in re.findall(r'"[^"\n]*"', text)]
NASTY = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(["", " ", "0", "-1", "1e999", "NaN", "9" * 30, "#", "#one", "../x", "/etc", "http://x"]),
    st.sampled_from(["a:b", "%00", "\U0001f600", "x" * 300, "true", "[", "a.b", "constant", "&#9;", "."]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fmu: Callable[[str, int], Path]) -> Path:
    """An unpacked SSP."""
    place = tmp_path_factory.mktemp("fuzz")
    shutil.copy(fmu("gain", 2), place / "gain.fmu")
    shutil.copy(fmu("types", 2), place / "types.fmu")
    for name, text in FILES.items():
        (place / name).write_text(text)
    return place


def read(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    try:
        assert up.read_ssp(folder).scenario.units
    except up.UpbeatError:
        pass
    finally:
        (folder / name).write_text(FILES[name])


def test_the_system_itself_is_sound(folder: Path) -> None:
    trace = up.read_ssp(folder).run()
    assert trace["S_g.y"][-1] == 4 * 3000, "the connection to k wins; the input is converted to mm"
    assert trace["t2.int32_out"][-1] == 5


@pytest.mark.supports("ssp", "Whatever bytes come in", "an error of Upbeat's own kind")
@BOUNDED
@given(st.data())
def test_changed_attributes(folder: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(FILES)))
    text = FILES[name]
    for _ in range(data.draw(st.integers(1, 4))):
        found = [match.span() for match in re.finditer(r'"[^"\n]*"', text)]
        start, end = data.draw(st.sampled_from(found))
        text = f'{text[:start]}"{data.draw(NASTY)}"{text[end:]}'
    read(folder, name, text.encode())


@BOUNDED
@given(st.data())
def test_elements_lost_doubled_and_moved(folder: Path, data: st.DataObject) -> None:
    """Whole elements, so that most of it stays well-formed."""
    name = data.draw(st.sampled_from(list(FILES)))
    text = FILES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        found = [m.span() for m in re.finditer(r"<(ss\w:\w+)[^<>]*?(?:/>|>.*?</\1>)", text, re.DOTALL)]
        if not found:
            break
        start, end = data.draw(st.sampled_from(found))
        piece = text[start:end]
        if data.draw(st.booleans()):
            text = text[:start] + text[end:]
        ends = [m.end() for m in re.finditer(r"/>|</[^>]*>", text)]
        if ends and data.draw(st.booleans()):
            at = data.draw(st.sampled_from(ends))
            text = text[:at] + piece + text[at:]
    read(folder, name, text.encode())


@BOUNDED
@given(st.data())
def test_changed_bytes(folder: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(FILES)))
    raw = FILES[name].encode()
    at = data.draw(st.integers(0, len(raw)))
    new = data.draw(st.binary(max_size=20))
    read(folder, name, raw[:at] + new + raw[at + data.draw(st.integers(0, 40)) :])


@BOUNDED
@given(st.data())
def test_changed_archives(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    raw = packed.getvalue()
    at = data.draw(st.integers(0, len(raw)))
    new = data.draw(st.binary(max_size=8))
    path = tmp_path_factory.getbasetemp() / "changed.ssp"
    path.write_bytes(raw[:at] + new + raw[at + data.draw(st.integers(0, 8)) :])
    with pytest.raises(up.UpbeatError):
        up.read_ssp(path)


def test_a_system_that_grows_without_end(tmp_path: Path) -> None:
    """Each level uses the next one ten times: ten to the ninth components in a small file."""
    levels = [
        f'<ssd:System name="s{i}" id="i{i}">'
        + elements(*(f'<ssd:Component name="c{j}" source="#i{i + 1}"/>' for j in range(10)))
        + "</ssd:System>"
        for i in range(9)
    ]
    last = '<ssd:System name="last" id="i9"/>'
    path = pack(tmp_path / "large.ssp", ssd(elements(*levels, last)))
    with pytest.raises(up.ScenarioError, match="more than 50,000 elements"):
        up.load(path)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e308])
def test_numbers_that_cannot_be_converted_are_refused(value: float) -> None:
    with pytest.raises(Unfit, match="cannot be converted"):
        Affine(Fraction(1000)).of(value)
    with pytest.raises(Unfit, match="too large"):
        Affine(Fraction(10) ** 400)
