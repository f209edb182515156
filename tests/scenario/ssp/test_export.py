"""Scenarios of FMUs as SSPs: what comes back is the same, and others can read it."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmpy.ssp.simulation import simulate_ssp
from fmpy.ssp.ssd import read_ssd

import upbeat as up
from ssp_maker import component, connection, connections, connectors, elements, measured, ssd

Fmus = Callable[[str, int], Path]
Pack = Callable[..., Path]


def exported(experiment: up.Experiment, path: Path) -> str:
    """The SSD of an exported experiment."""
    up.write_ssp(experiment, path)
    return ssd_of(path)


def ssd_of(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("SystemStructure.ssd").decode()


def same_trace(one: up.Trace, other: up.Trace) -> None:
    assert one.names == other.names
    for name in one.names:
        np.testing.assert_array_equal(one[name], other[name])


def loop(fmu: Fmus, version: int = 2, **settings: Any) -> up.Experiment:
    """A linear system under a gain, with something of everything that SSP can say."""
    scenario = up.Scenario(
        units={
            "lin": up.Fmu(fmu("linear", version), parameters={"a": -1.5, "x": 2.0}),
            "g": up.Fmu(fmu("gain", version), parameters={"k": -0.5}),
            "still": up.Fmu(fmu("gain", version)),
        },
        connections={"lin.u": "2*g.y + push", "g.u": "lin.y"}
        if settings.pop("mixed", False)
        else {"lin.u": "2*g.y + 0.25", "g.u": "lin.y", "still.u": "1.25"},
        inputs={"push": {"start": 0.5}},
        outputs={"double": "2*lin.y - 1"},
        name="a loop",
    )
    return up.experiment(scenario, **({"pace": 0.05, "until": 2.0, "coupling": up.GaussSeidel()} | settings))


@pytest.mark.supports("ssp", "Export of a scenario of FMUs", "yes; reading it back gives the same trace")
@pytest.mark.parametrize("version", [2, 3])
def test_what_comes_back_is_the_same(fmu: Fmus, tmp_path: Path, engine: str, version: int) -> None:
    made = loop(fmu, version, engine=engine, record=["*"], inputs="linear")
    exported(made, tmp_path / "loop.ssp")
    back = up.load(tmp_path / "loop.ssp")
    assert back.master == made.master
    assert (back.span, back.record, back.engine) == (made.span, made.record, engine)
    trace = back.run()
    same_trace(made.run(), trace)
    assert trace["still.y"][-1] == 2.5


@pytest.mark.supports("ssp", "Export of a scenario of FMUs", "checked with the published schema (1.0)")
def test_others_can_read_it(fmu: Fmus, tmp_path: Path) -> None:
    text = exported(loop(fmu), tmp_path / "loop.ssp")
    found = read_ssd(str(tmp_path / "loop.ssp"), validate=True)
    assert found.version == "1.0"
    assert [element.name for element in found.system.elements] == ["lin", "g", "still"]
    assert '<ssd:DefaultExperiment startTime="0.0" stopTime="2.0"/>' in text
    assert {
        (c.startElement, c.startConnector, c.endElement, c.endConnector) for c in found.system.connections
    } == {
        ("g", "y", "lin", "u"),
        ("lin", "y", "g", "u"),
        ("lin", "y", None, "double"),
    }


def test_others_can_run_it(fmu: Fmus, tmp_path: Path) -> None:
    """FMPy needs all inputs connected, hands them over one step late, and labels rows one step early."""
    scenario = up.Scenario(
        units={"lin": up.Fmu(fmu("linear", 2))},
        connections={"lin.u": "push"},
        inputs={"push": {"start": 0.0}},
    )
    made = up.experiment(scenario, pace=0.125, until=1.0)
    exported(made, tmp_path / "one.ssp")
    theirs = simulate_ssp(str(tmp_path / "one.ssp"), stop_time=1.0, step_size=0.125)
    ours = up.load(tmp_path / "one.ssp").run()
    np.testing.assert_allclose(ours["lin.y"][1:], theirs["lin.y"], rtol=1e-12)
    assert ours["lin.y"][-1] == pytest.approx(3 * math.exp(-2), rel=1e-6)


@pytest.mark.supports("ssp", "Export of a scenario of FMUs", "units and conversions, also suppressed ones")
@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("a.y", "<ssd:Connection startElement="),
        ({"value": "a.y", "convert": False}, 'suppressUnitConversion="true"'),
        ({"value": "3*a.y + 1", "convert": False}, '<ssc:LinearTransformation factor="3.0" offset="1.0"/>'),
        ("3*a.y", '<ssc:LinearTransformation factor="0.003" offset="0.0"/>'),
    ],
)
def test_units(fmu: Fmus, tmp_path: Path, engine: str, link: Any, said: str) -> None:
    one = measured(fmu("gain", 2), tmp_path / "one.fmu", y="mm")
    other = measured(fmu("gain", 2), tmp_path / "other.fmu", u="m")
    scenario = up.Scenario(
        units={"a": up.Fmu(one, parameters={"u": 3.0}), "b": up.Fmu(other)},
        connections={"b.u": link},
        outputs={"y": {"value": "a.y", "unit": "m"}},
    )
    made = up.experiment(scenario, pace=0.25, until=0.5, engine=engine, record=["*"])
    text = exported(made, tmp_path / "u.ssp")
    assert said in text
    read_ssd(str(tmp_path / "u.ssp"), validate=True)
    before, after = made.run(), up.load(tmp_path / "u.ssp").run()
    for name in before.names:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-15)


@pytest.mark.supports(
    "ssp", "Export of a scenario of FMUs", "all types; arrays and the types of FMI 3 as SSP 2.0"
)
def test_types(fmu: Fmus, tmp_path: Path) -> None:
    values = {"int32_in": 4, "boolean_in": True, "string_in": 'a "b" <c>', "enumeration_in": "fast"}
    names = ("int32", "boolean", "string", "enumeration")
    for version in (2, 3):
        kinds = (*names, "uint64", "binary") if version == 3 else names
        given = values | ({"binary_in": "00ff", "uint64_in": 7} if version == 3 else {})
        scenario = up.Scenario(
            units={
                "a": up.Fmu(fmu("types", version), parameters=given),
                "b": up.Fmu(fmu("types", version)),
            },
            connections={f"b.{kind}_in": f"a.{kind}_out" for kind in kinds},
        )
        made = up.experiment(scenario, pace=0.25, until=0.5, engine="interpret")
        text = exported(made, tmp_path / "t.ssp")
        assert f'version="{version - 1}.0" name=' in text
        if version == 2:
            read_ssd(str(tmp_path / "t.ssp"), validate=True)
        back = up.load(tmp_path / "t.ssp", engine="interpret")
        same_trace(made.run(), back.run())


@pytest.mark.supports(
    "ssp", "Export of a scenario of FMUs", "all types; arrays and the types of FMI 3 as SSP 2.0"
)
def test_arrays(fmu: Fmus, tmp_path: Path, engine: str) -> None:
    sized = {"n": 2, "m": 2, "r": 2, "B": [1.0, 0.0, 0.0, 1.0], "C": [1.0, 0.0, 0.0, 1.0], "D": [0.0] * 4}
    space = up.Fmu(fmu("space", 3), parameters=sized)
    scenario = up.Scenario(units={"a": space, "b": space}, connections={"b.u": "-0.5*a.y", "a.u": "b.y"})
    made = up.experiment(scenario, pace=0.1, until=1.0, engine=engine)
    text = exported(made, tmp_path / "s.ssp")
    assert 'version="2.0"' in text
    assert text.count("resources/space3.fmu") == 2
    same_trace(made.run(), up.load(tmp_path / "s.ssp", engine=engine).run())


def test_settings_of_units_come_back(fmu: Fmus, tmp_path: Path) -> None:
    unit = up.Fmu(fmu("linear", 3), interface="model-exchange", solver="rk4", rollback="never", locals=["x"])
    made = up.experiment(up.Scenario(units={"lin": unit}), pace=0.1, until=1.0, every=2)
    text = exported(made, tmp_path / "m.ssp")
    assert 'implementation="ModelExchange"' in text
    back = up.load(tmp_path / "m.ssp")
    other = back.scenario.units["lin"]
    assert isinstance(other, up.Fmu)
    assert other.to_spec() == unit.to_spec() | {"interface": "model-exchange"}
    assert back.every == 2
    same_trace(made.run(), back.run())


def test_processes_of_their_own_come_back(fmu: Fmus, tmp_path: Path) -> None:
    unit = up.Isolated(up.Fmu(fmu("gain", 2), parameters={"u": 2.0}), deadline=7.0)
    up.write_ssp(up.Scenario(units={"g": unit}), tmp_path / "i.ssp")
    other = up.read_ssp(tmp_path / "i.ssp").scenario.units["g"]
    assert isinstance(other, up.Isolated)
    assert (other.deadline, other.isolation) == (7.0, "process")


@pytest.mark.supports("ssp", "Export of anything else", "refused, with a list of what SSP cannot say")
def test_what_cannot_be_said(fmu: Fmus, tmp_path: Path) -> None:
    scenario = up.Scenario(
        units={
            "lin": up.Fmu(fmu("linear", 2)),
            "g": up.Fmu(fmu("gain", 2)),
            "own": up.Ode(states={"x": "-x"}, outputs=["x"]),
        },
        connections={"lin.u": "g.y*g.y", "g.u": "lin.y + push"},
        inputs={"push": {}},
        outputs={"own": "own.x", "sum": "lin.y + g.y"},
    )
    with pytest.raises(up.ScenarioError) as caught:
        up.write_ssp(scenario, tmp_path / "no.ssp")
    assert [problem.where for problem in caught.value.problems] == [
        ("units", "own"),
        ("connections", "lin.u"),
        ("connections", "g.u"),
        ("outputs", "sum"),
    ]
    assert "it is a Ode, and SSP knows FMUs only" in str(caught.value)
    assert not (tmp_path / "no.ssp").exists()


def test_the_same_scenario_gives_the_same_bytes(fmu: Fmus, tmp_path: Path) -> None:
    for name in ("one.ssp", "two.ssp"):
        up.write_ssp(loop(fmu), tmp_path / name)
    assert (tmp_path / "one.ssp").read_bytes() == (tmp_path / "two.ssp").read_bytes()


def test_our_own_annotation_is_checked(fmu: Fmus, tmp_path: Path, ssp: Pack) -> None:
    text = exported(loop(fmu, out=tmp_path / "x.csv"), tmp_path / "loop.ssp")
    assert "x.csv" not in text, "where results go is a matter of each machine"
    for change, words in (
        (('coupling = "gauss_seidel"', "coupling = "), "Upbeat's own annotation cannot be read"),
        (('coupling = "gauss_seidel"', 'coupling = "gauss_sidel"'), "gauss_sidel"),
        (("[master]", "[mastr]"), "an unknown table 'mastr'"),
    ):
        assert change[0] in text
        with pytest.raises(up.ScenarioError, match=words):
            up.load(ssp(text.replace(*change)))
    text = text.replace("[master]", '[record]\nout = "/tmp/evil.csv"\n[master]')
    assert up.load(ssp(text)).out is None


# -------------------------------------------------------------------- import to a file, and annotations

NOTE = (
    '<ssd:Annotations><ssc:Annotation type="org.example">'
    '<my:note xmlns:my="urn:my" my:level="2" text="a &lt; b">'
    "<plain>words</plain></my:note></ssc:Annotation></ssd:Annotations>"
)
GEOMETRY = '<ssd:ElementGeometry x1="0" y1="0" x2="10" y2="5"/>'


@pytest.mark.supports("ssp", "Annotations, drawings, authors", "kept from import to export")
@pytest.mark.supports("ssp", "Import to a scenario file", "yes: `upbeat import`")
def test_annotations_go_through(ssp: Pack, tmp_path: Path) -> None:
    from upbeat.engine.formats.ssp import import_ssp

    inner = elements(component("b", "resources/gain2.fmu", u="input")) + NOTE
    inner = f'<ssd:System name="S">{inner}</ssd:System>'
    text = ssd(
        connectors(out="output")
        + elements(component("a 1", "resources/gain2.fmu", GEOMETRY + NOTE, u="input", y="output"), inner)
        + connections(connection("a 1.y", "out", NOTE.replace("words", "of a connection")))
        + NOTE.replace("words", "of the system"),
        rest='<ssd:DefaultExperiment stopTime="1"/>' + NOTE.replace("words", "of all"),
    ).replace(' name="test"', ' name="test" author="A. Person"')
    path = ssp(text)
    imported = import_ssp(path, tmp_path / "there")
    assert imported.names == {"a_1": "a 1", "S_b": "S.b"}
    assert sorted(file.name for file in (tmp_path / "there").iterdir()) == [
        "gain2.fmu",
        "scenario.ssd",
        "scenario.toml",
    ]
    same_trace(up.load(path).run(), up.load(tmp_path / "there" / "scenario.toml").run())
    made = up.load(tmp_path / "there" / "scenario.toml")
    up.write_ssp(made, tmp_path / "again.ssp", like=tmp_path / "there" / "scenario.ssd")
    read_ssd(str(tmp_path / "again.ssp"), validate=True)
    again = ssd_of(tmp_path / "again.ssp")
    for words in ("of all", "of the system", "of a connection", 'author="A. Person"', "<ssd:ElementGeometry"):
        assert again.count(words) == 1
    assert again.count("<plain") == 4, "that of the nested system has no place any more"
    assert 'text="a &lt; b"' in again
    with pytest.raises(up.FileProblem, match="not an empty folder"):
        import_ssp(path, tmp_path / "there")


def test_a_broken_ssp_leaves_no_folder(ssp: Pack, tmp_path: Path) -> None:
    from upbeat.engine.formats.ssp import import_ssp

    with pytest.raises(up.ScenarioError):
        import_ssp(ssp(ssd(elements(component("a", "resources/none.fmu")))), tmp_path / "there")
    assert not (tmp_path / "there").exists()
