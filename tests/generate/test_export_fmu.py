"""Exported FMUs: FMPy runs them and judges descriptions; closed forms and our own runs judge numbers."""

from __future__ import annotations

import ctypes
import gc
import re
import resource
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Model, FMU2Slave
from fmpy.fmi3 import FMU3Slave
from fmpy.validation import validate_fmu

import upbeat as up
from upbeat.engine.native import machine as native_core
from upbeat.generate import compiling

EXAMPLES = Path(__file__).parents[2] / "examples"
needs_native = pytest.mark.skipif(not native_core.available(), reason="the native core is not built")
KINDS = ["source", pytest.param("core", marks=needs_native)]

try:
    compiling.compiler()
except up.InvalidInput:
    pytest.skip("there is no C compiler", allow_module_level=True)


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    """The bits do not depend on how hard the compiler tries, and tests have no time for that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "OPTIMISE", "-O0")
        yield


Made = Callable[..., Path]


@pytest.fixture
def export(tmp_path: Path) -> Made:
    def made(experiment: up.Experiment, fmi: int = 2, **options: Any) -> Path:
        path = tmp_path / f"made{len(list(tmp_path.iterdir()))}.fmu"
        up.export_fmu(experiment, path, fmi=fmi, **options)
        assert validate_fmu(str(path)) == []
        return path

    return made


class Host:
    """An importer: one instance, variables by name."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.folder = fmpy.extract(str(path))
        self.about = fmpy.read_model_description(self.folder)
        self.variables = {v.name: v for v in self.about.modelVariables}
        self.said: list[str] = []
        self.two = self.about.fmiVersion == "2.0"
        common = {
            "guid": self.about.guid,
            "unzipDirectory": self.folder,
            "modelIdentifier": (self.about.coSimulation or self.about.modelExchange).modelIdentifier,
            "instanceName": "one",
        }
        if self.two:
            kind = FMU2Slave if self.about.coSimulation else FMU2Model
            self.fmu: Any = kind(**common)
            callbacks = fmpy.fmi2.fmi2CallbackFunctions()
            self._log = fmpy.fmi2.fmi2CallbackLoggerTYPE(
                lambda _, name, status, category, message: self.said.append(message.decode())
            )
            callbacks.logger = self._log
            callbacks.allocateMemory = fmpy.fmi2.fmi2CallbackAllocateMemoryTYPE(fmpy.fmi2.calloc)
            callbacks.freeMemory = fmpy.fmi2.fmi2CallbackFreeMemoryTYPE(fmpy.fmi2.free)
            self._callbacks = callbacks
            self.fmu.instantiate(callbacks=callbacks, loggingOn=True)
        else:
            self.fmu = FMU3Slave(**common)
            self._log = fmpy.fmi3.fmi3LogMessageCallback(
                lambda _, status, category, message: self.said.append(message.decode())
            )
            self.fmu.instantiate(loggingOn=True, logMessage=self._log, **options)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.fmu.freeInstance()

    def __getitem__(self, name: str) -> Any:
        v = self.variables[name]
        if self.two:
            kind = {"Enumeration": "Integer"}.get(v.type, v.type)
            return getattr(self.fmu, f"get{kind}")([v.valueReference])[0]
        kind = {"Enumeration": "Int64"}.get(v.type, v.type)
        cells = int(np.prod([int(d.start) for d in v.dimensions])) if v.dimensions else 1
        found = list(getattr(self.fmu, f"get{kind}")([v.valueReference], cells))
        return found if v.dimensions else found[0]

    def __setitem__(self, name: str, value: Any) -> None:
        v = self.variables[name]
        kind = {"Enumeration": "Integer" if self.two else "Int64"}.get(v.type, v.type)
        getattr(self.fmu, f"set{kind}")([v.valueReference], value if isinstance(value, list) else [value])

    def start(self, t: float = 0.0) -> Host:
        if self.two:
            self.fmu.setupExperiment(startTime=t)
            self.fmu.enterInitializationMode()
        else:
            self.fmu.enterInitializationMode(startTime=t)
        self.fmu.exitInitializationMode()
        return self

    def step(self, t: float, length: float) -> Any:
        return self.fmu.doStep(currentCommunicationPoint=t, communicationStepSize=length)


def driven() -> up.Experiment:
    """x' = v, v' = (F - x)/m, with an output that follows F at once."""
    mass = up.Ode(
        {"x": "v", "v": "(F - k*x)/m"},
        inputs={"F": {"unit": "N", "start": 0.5}},
        outputs={"x": "x", "v": "v", "push": "2*F + x"},
        parameters={"m": 2.0, "k": 1.0},
        start={"x": 1.0},
    )
    scale = up.Function(inputs=["u"], outputs={"y": "3*u"})
    scenario = up.Scenario(
        {"mass": mass, "scale": scale},
        {"mass.F": "force", "scale.u": "mass.push"},
        inputs={"force": {"unit": "N", "start": 0.5}},
        outputs={"x": "mass.x", "y": "scale.y", "sum": "mass.x + scale.y"},
        name="driven mass",
    )
    return up.experiment(scenario, step=0.01, until=1.0)


def ball() -> up.Experiment:
    """A ball that meets the floor at sqrt(2/9.81), and loses half of its speed."""
    falling = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0}, outputs=["x", "v"])
    scenario = up.Scenario(
        {"ball": falling},
        events={"hit": {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.5*ball.v"}}},
    )
    return up.experiment(scenario, pace=up.LookAhead(0.1), until=1.0)


FALL = np.sqrt(2.0 / 9.81)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_a_run_in_another_host_has_the_numbers_of_ours(export: Made, kind: str, fmi: int) -> None:
    experiment = up.load(EXAMPLES / "coupled_masses.toml")
    path = export(experiment, fmi, kind=kind)
    trace = experiment.run()
    found = fmpy.simulate_fmu(str(path), stop_time=10.0, step_size=0.1, output_interval=0.1)
    assert np.max(np.abs(found["stretch"] - trace["stretch"])) < 1e-12
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert ("sources/model.c" in names) == (kind == "source")
    assert ("resources/scenario.upbeat" in names) == (kind == "core")


@needs_native
@pytest.mark.parametrize(
    "name", ["tank", "thermostat_hybrid", "bouncing_ball/ball", "adaptive_masses", "ten_units"]
)
def test_examples_have_the_same_numbers_as_here(export: Made, name: str) -> None:
    experiment = up.load(EXAMPLES / f"{name}.toml")
    path = export(experiment, kind="core")
    step = experiment.master.pace.step if hasattr(experiment.master.pace, "step") else 0.2
    count = min(200, round((experiment.span.stop - experiment.span.start) / step))
    stop = experiment.span.start + count * step
    nested = up.Nested(experiment.scenario, experiment.master) if experiment.scenario.outputs else None
    found = fmpy.simulate_fmu(str(path), stop_time=stop, step_size=step, output_interval=step)
    again = up.simulate(up.Scenario({"fmu": up.Fmu(path)}), step=step, until=stop).one_sided()
    for column in found.dtype.names[1:]:
        mine = again[f"fmu.{column}"]
        assert np.max(np.abs(found[column].astype(float) - np.asarray(mine, float))) < 1e-12
        if nested is not None and column in {o.port.name for o in experiment.scenario.outputs}:
            inside = up.simulate(up.Scenario({"n": nested}), step=step, until=stop).one_sided()
            assert np.max(np.abs(found[column] - inside[f"n.{column}"])) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_values_before_and_in_a_run_are_those_of_a_run_here(export: Made, kind: str, fmi: int) -> None:
    experiment = driven()
    changed = {"mass.m": 3.0, "mass.x": -0.25, "force": 1.5}
    expected = experiment.with_(scenario=experiment.scenario.with_values(changed)).run()
    with Host(export(experiment, fmi, kind=kind)) as host:
        assert host["mass.m"] == 2.0
        for name, value in changed.items():
            host[name] = value
        host.start()
        assert host["y"] == expected["y"][0] == 3.0 * (2.0 * 1.5 - 0.25)
        for k in range(50):
            host.step(k * 0.02, 0.02)
        assert abs(host["x"] - expected["x"][-1]) < 1e-12
        host["force"] = -1.0  # and outputs follow at once
        assert abs(host["y"] - 3.0 * (-2.0 + host["x"])) < 1e-12
        host["mass.k"] = 0.0  # tunable
        before = host["mass.v"]
        host.step(1.0, 0.5)
        assert abs(host["mass.v"] - (before - 0.5 / 3.0)) < 1e-9
        host.fmu.reset()
        host.start()
        assert host["x"] == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_rollback_is_exact_and_states_travel_as_bytes(export: Made, kind: str, fmi: int) -> None:
    path = export(ball(), fmi, kind=kind)
    get, set_, free = (
        ("getFMUstate", "setFMUstate", "freeFMUstate")
        if fmi == 2
        else ("getFMUState", "setFMUState", "freeFMUState")
    )
    pack = "serializeFMUstate" if fmi == 2 else "serializeFMUState"
    unpack = "deSerializeFMUstate" if fmi == 2 else "deserializeFMUState"
    with Host(path) as one, Host(path) as other:
        one.start()
        one.step(0.0, 0.3)
        state = getattr(one.fmu, get)()
        runs = []
        for _ in range(2):
            one.step(0.3, 0.17)
            one.step(0.47, 0.5)
            runs.append((one["ball.x"], one["ball.v"]))
            getattr(one.fmu, set_)(state)
        assert runs[0] == runs[1]
        data = getattr(one.fmu, pack)(state)
        getattr(one.fmu, free)(state)
        other.start()
        mine = getattr(other.fmu, unpack)(data)
        getattr(other.fmu, set_)(mine)
        other.step(0.3, 0.17)
        other.step(0.47, 0.5)
        assert (other["ball.x"], other["ball.v"]) == runs[0]
        with pytest.raises(fmpy.fmi1.FMICallException):
            getattr(other.fmu, unpack)(data[:-8])
        assert "not a state of this FMU" in other.said[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_event_mode_shows_values_before_and_after_an_event(export: Made, kind: str) -> None:
    path = export(ball(), 3, kind=kind)
    with Host(path, eventModeUsed=True, earlyReturnAllowed=True) as host:
        host.start()
        host.fmu.updateDiscreteStates()
        host.fmu.enterStepMode()
        needed, _, early, reached = host.step(0.0, 1.0)
        assert needed
        assert early
        assert abs(reached - FALL) < 1e-6
        assert abs(host["ball.v"] + 9.81 * FALL) < 1e-5
        host.fmu.enterEventMode()
        again, _, _, changed, defined, _ = host.fmu.updateDiscreteStates()
        assert (again, changed, defined) == (False, True, False)
        assert abs(host["ball.v"] - 0.5 * 9.81 * FALL) < 1e-5
        host.fmu.enterStepMode()
        needed, _, early, last = host.step(reached, 0.2)
        assert (needed, early, last) == (False, False, reached + 0.2)
        assert any(re.match(r"event 'hit' at t = 0\.4515", text) for text in host.said)
    with Host(
        path, earlyReturnAllowed=True
    ) as host:  # without event mode the values after it are there at once
        host.start()
        needed, _, early, reached = host.step(0.0, 1.0)
        assert (needed, early) == (False, True)
        assert host["ball.v"] > 0.0
    with Host(path) as host:  # whoever allows nothing is not stopped
        host.start()
        assert host.step(0.0, 1.0)[2:] == (False, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_discarded_at_events_if_asked_for(export: Made, kind: str) -> None:
    with Host(export(ball(), 2, kind=kind)) as host:
        host["upbeat.discard_at_events"] = True
        host.start()
        with pytest.raises(fmpy.fmi1.FMICallException) as raised:
            host.step(0.0, 1.0)
        assert raised.value.status == 2
        assert abs(host.fmu.getRealStatus(2) - FALL) < 1e-6
        assert host["ball.v"] > 0.0
        host.step(host.fmu.getRealStatus(2), 0.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_derivatives_are_those_of_the_equations(export: Made, kind: str, fmi: int) -> None:
    with Host(export(driven(), fmi, kind=kind)) as host:
        host.start()
        host.step(0.0, 0.5)
        x, v = host["mass.x"], host["mass.v"]
        references = {name: host.variables[name].valueReference for name in ("x", "y", "sum", "force")}
        outputs, known = [references[n] for n in ("x", "y", "sum")], [references["force"]]
        asked = "getDirectionalDerivative"
        found = list(
            getattr(host.fmu, asked)(outputs, known, [2.0])
            if fmi == 2
            else getattr(host.fmu, asked)(outputs, known, [2.0], 3)
        )
        assert found == [0.0, 12.0, 12.0]
        if fmi == 2:
            orders, values = (ctypes.c_int * 3)(1, 1, 1), (ctypes.c_double * 3)()
            host.fmu.fmi2GetRealOutputDerivatives(
                host.fmu.component, (ctypes.c_uint * 3)(*outputs), 3, orders, values
            )
        else:
            orders, values = (ctypes.c_int32 * 3)(1, 1, 1), (ctypes.c_double * 3)()
            host.fmu.fmi3GetOutputDerivatives(
                host.fmu.component, (ctypes.c_uint * 3)(*outputs), 3, orders, values, 3
            )
        assert np.allclose(list(values), [v, 3.0 * v, 4.0 * v], rtol=0, atol=1e-14)
        assert x != 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_equations_are_given_to_the_solver_of_the_host(export: Made, kind: str, fmi: int) -> None:
    falling = up.Ode(
        {"h": "v", "v": "-g"},
        start={"h": 1.0},
        parameters={"g": 9.81},
        variables={"hits": {"start": 2, "kind": "integer"}, "kept": 0.5},
        events={"hit": {"when": "h <= 0 and v < 0", "then": {"v": "-kept*v", "hits": "hits + 1"}}},
        outputs={"h": "h", "hits": {"value": "hits", "kind": "integer"}},
    )
    twice = up.Function(inputs=["u", "w"], outputs={"y": "2*u + w*w"})
    scenario = up.Scenario({"ball": falling, "twice": twice}, {"twice.u": "ball.h"}, name="ball")
    path = export(up.experiment(scenario, step=0.01, until=0.6), fmi, kind=kind, interface="model-exchange")
    about = {v.name: v for v in fmpy.read_model_description(str(path)).modelVariables}
    assert {"ball.h", "ball.v", "ball.hits", "ball.kept", "der(ball.v)", "twice.y", "twice.w"} <= about.keys()
    assert (about["ball.hits"].causality, about["ball.hits"].start) == ("output", "2")
    assert about["der(ball.v)"].derivative is about["ball.v"]
    given = {"ball.hits": 5, "ball.kept": 0.25, "twice.w": 3.0}
    rows = fmpy.simulate_fmu(
        str(path), start_values=given, stop_time=0.6, output_interval=0.1, relative_tolerance=1e-9
    )
    rest = 0.6 - FALL  # after the first hit it goes up with a quarter of its speed
    height = 0.25 * 9.81 * FALL * rest - 0.5 * 9.81 * rest**2
    assert rows["ball.h"][-1] == pytest.approx(height, abs=1e-6)
    assert rows["twice.y"][-1] == pytest.approx(2.0 * height + 9.0, abs=1e-6)
    assert list(rows["ball.hits"][[0, -1]]) == [5, 6]


def test_inputs_may_move_within_a_step(export: Made) -> None:
    integrator = up.Ode({"x": "u"}, inputs={"u": 0.0}, outputs={"x": "x"}, solver="rk4")
    scenario = up.Scenario({"i": integrator}, {"i.u": "u"}, inputs=["u"])
    path = export(up.experiment(scenario, step=0.125, until=1.0, inputs=up.Linear()), 2)
    with Host(path) as host:
        host.start()
        reference = host.variables["u"].valueReference
        host["u"] = 1.0
        host.fmu.fmi2SetRealInputDerivatives(
            host.fmu.component,
            (ctypes.c_uint * 1)(reference),
            1,
            (ctypes.c_int * 1)(1),
            (ctypes.c_double * 1)(4.0),
        )
        host.step(0.0, 0.5)
        assert abs(host["u"] - 3.0) < 1e-14
        moved = host["i.x"]
        assert abs(moved - (0.5 + 2.0 * 0.25)) < 0.13  # sampled inside: the first step is held
        host["u"] = 0.0  # held again
        host.step(0.5, 0.5)
        assert abs(host["i.x"] - moved) < 0.4


@needs_native
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_host_that_loads_and_unloads_it_gets_its_memory_back(export: Made) -> None:
    path = export(ball(), kind="core")
    folder = fmpy.extract(str(path))
    about = fmpy.read_model_description(folder)

    def life() -> None:
        fmu = FMU2Slave(
            guid=about.guid,
            unzipDirectory=folder,
            modelIdentifier=about.coSimulation.modelIdentifier,
            instanceName="one",
        )
        fmu.instantiate()
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        fmu.doStep(currentCommunicationPoint=0.0, communicationStepSize=1.0)
        fmu.terminate()
        fmu.freeInstance()  # and its library

    def pages() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1])

    for _ in range(20):
        life()
    before = pages()
    for _ in range(100):
        life()
    assert (pages() - before) * resource.getpagesize() < 1e6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_arrays_are_variables_of_their_own_cells_in_fmi_2(export: Made, kind: str, fmi: int) -> None:
    unit = up.Ode(
        {"x": "-k[0]*x + u[1]"},
        start={"x": 1.0},
        inputs={"u": [0.0, 0.0]},
        parameters={"k": [1.0, 3.0]},
        outputs={"pair": ["x", "k[1]*x + u[0]"]},
        solver=up.DormandPrince(rtol=1e-10, atol=1e-12),
    )
    with Host(export(up.experiment(up.Scenario({"a": unit}), step=0.1, until=1.0), fmi, kind=kind)) as host:

        def put(name: str, values: list[float]) -> None:
            if fmi == 3:
                host[name] = values
            for i in range(2) if fmi == 2 else ():
                host[f"{name}[{i}]"] = values[i]

        put("a.k", [2.0, 5.0])
        put("a.u", [7.0, 4.0])
        host.start()
        host.step(0.0, 0.5)
        x = 2.0 - np.exp(-1.0)  # of x' = 4 - 2 x, x(0) = 1
        found = host["a.pair"] if fmi == 3 else [host["a.pair[0]"], host["a.pair[1]"]]
        assert found == pytest.approx([x, 5.0 * x + 7.0], rel=1e-8)


@pytest.mark.parametrize("fmi", [2, 3])
def test_names_that_c_knows_are_no_trouble(export: Made, fmi: int) -> None:
    unit = up.Ode({"double": "-double"}, start={"double": 1.0}, solver="rk4")
    scenario = up.Scenario({"while": unit}, name='1st "model" */ für <&>')
    path = export(up.experiment(scenario, step=0.1, until=1.0), fmi)
    found = fmpy.simulate_fmu(str(path), stop_time=1.0, output_interval=0.5)
    assert abs(found["while.double"][-1] - np.exp(-1.0)) < 1e-6


def test_units_in_python_are_refused_by_name(tmp_path: Path) -> None:
    clock = up.PythonFunction(lambda t, u, p: t, outputs=["y"])
    made = up.experiment(up.Scenario({"clock": clock}), step=0.1, until=1.0)
    with pytest.raises(up.InvalidInput, match="'clock'"):
        up.export_fmu(made, tmp_path / "clock.fmu")
    assert not (tmp_path / "clock.fmu").exists()


@needs_native
def test_an_inner_fmu_without_a_library_for_this_machine_is_refused_by_name(tmp_path: Path) -> None:
    up.export_fmu(ball(), tmp_path / "whole.fmu")
    with (
        zipfile.ZipFile(tmp_path / "whole.fmu") as whole,
        zipfile.ZipFile(tmp_path / "bare.fmu", "w") as bare,
    ):
        for name in whole.namelist():
            if not name.startswith("binaries/"):
                bare.writestr(name, whole.read(name))
    made = up.experiment(up.Scenario({"plant": up.Fmu(tmp_path / "bare.fmu")}), step=0.1, until=1.0)
    with pytest.raises(up.FileProblem, match=r"'plant' \(bare\.fmu\) .*no library for this machine"):
        up.export_fmu(made, tmp_path / "out.fmu")
    assert not (tmp_path / "out.fmu").exists()


def test_without_a_compiler_there_is_no_library_and_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    done = up.export_fmu(ball(), tmp_path / "ball.fmu")
    assert not done.library
    assert any("compiler" in note for note in done.notes)
    with zipfile.ZipFile(tmp_path / "ball.fmu") as archive:
        assert not [name for name in archive.namelist() if name.startswith("binaries/")]


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.fmu"
    path.write_bytes(b"precious")
    with pytest.raises(up.FileProblem, match=r"mine\.fmu"):
        up.export_fmu(ball(), path)
    assert path.read_bytes() == b"precious"
    with pytest.raises(up.FileProblem, match="is a folder"):
        up.export_fmu(ball(), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_inputs_of_nested_scenarios_are_set_and_read(export: Made, kind: str, fmi: int) -> None:
    body = up.Ode({"x": "u - x"}, start={"x": 1.0}, inputs={"u": 0.0}, outputs={"y": "2*u"})
    inner = up.Scenario(
        {"body": body}, {"body.u": "given"}, inputs={"given": {"start": 0.5}}, outputs={"y": "body.y"}
    )
    deep = up.Nested(inner, up.Master(up.Fixed(0.05)), flatten=False)
    middle = up.Scenario(
        {"first": body, "inner": deep},
        {"inner.given": "given"},
        inputs={"given": {"start": 0.5}},
        outputs={"y": "inner.y"},
    )
    deeper = up.Nested(middle, up.Master(up.Fixed(0.05)), flatten=False)
    scenario = up.Scenario({"first": body, "deep": deep, "deeper": deeper})
    with Host(export(up.experiment(scenario, step=0.1, until=1.0), fmi, kind=kind)) as host:
        for given in ("deep.given", "deeper.given"):
            assert host[given] == 0.5
            host[given] = 3.0
        host.start()
        for given, y in (("deep.given", "deep.y"), ("deeper.given", "deeper.y")):
            assert (host[given], host[y]) == (3.0, 6.0)
            host[given] = -1.0
        host.step(0.0, 0.1)
        assert (host["deep.y"], host["deeper.y"]) == (-2.0, -2.0)


@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_sources_are_plain_c99_without_warnings(
    export: Made, tmp_path: Path, fmi: int, interface: str
) -> None:
    path = export(
        ball() if interface == "co-simulation" else driven(), fmi, kind="source", interface=interface
    )
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "fmu")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    main = tmp_path / "fmu" / "sources" / "fmu.c"
    done = subprocess.run(
        [*compiling.compiler(), *flags, str(main)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@needs_native
def test_parameters_can_be_set_if_the_master_was_chosen_for_others(export: Made) -> None:
    body = up.Ode({"x": "v", "v": "F/m"}, inputs=["F"], parameters={"m": 1000.0}, outputs=["x", "v"])
    hitch = up.Function(inputs=["d", "w"], outputs={"F": "20000*d + 3000*w"})
    scenario = up.Scenario(
        {"car": body, "trailer": body, "hitch": hitch},
        {
            "car.F": "-hitch.F",
            "trailer.F": "hitch.F",
            "hitch.d": "car.x - trailer.x",
            "hitch.w": "car.v - trailer.v",
        },
        events={"stop": {"when": "car.x >= 1000", "then": {"car.v": "0"}}},
    )
    made = up.experiment(scenario, step=0.1, until=12.0, events="auto")
    assert made.plan.master.warnings  # so that it would be chosen anew
    with Host(export(made, kind="core")) as host:
        host["car.m"], host["car.v"] = 2000.0, 3.0
        host.start()
        host.step(0.0, 12.0)
        assert host["car.v"] == pytest.approx(2.0, abs=1e-3)  # both go on with the momentum of the car
        assert host["trailer.v"] == pytest.approx(2.0, abs=1e-3)


@needs_native
def test_terminals_of_fmus_inside_are_kept_if_they_are_seen_outside(export: Made, tmp_path: Path) -> None:
    plain = export(driven(), 3, kind="core")
    text = """<?xml version="1.0" encoding="UTF-8"?>
    <fmiTerminalsAndIcons fmiVersion="3.0"><Terminals>
      <Terminal name="flange" matchingRule="plug" terminalKind="org.example.flange">
        <TerminalMemberVariable variableName="force" memberName="f" variableKind="inflow"/>
        <Terminal name="motion" matchingRule="bus">
          <TerminalMemberVariable variableName="x" memberName="s" variableKind="signal"/>
        </Terminal>
      </Terminal>
    </Terminals></fmiTerminalsAndIcons>"""
    with zipfile.ZipFile(plain, "a") as archive:
        archive.writestr("terminalsAndIcons/terminalsAndIcons.xml", text)
    one = up.Fmu(plain)
    scenario = up.Scenario({"free": one, "driven": one}, {"driven.force": "free.x"})
    with zipfile.ZipFile(export(up.experiment(scenario, step=0.1, until=1.0), 3)) as archive:
        root = ElementTree.fromstring(archive.read("terminalsAndIcons/terminalsAndIcons.xml"))
    assert [terminal.get("name") for terminal in root.iter("Terminal")] == ["free.flange", "motion"]
    assert [m.get("variableName") for m in root.iter("TerminalMemberVariable")] == ["free.force", "free.x"]
    assert root.find(".//Terminal").attrib["matchingRule"] == "plug"  # type: ignore[union-attr]
    again = export(
        up.experiment(up.Scenario({"other": one}, {"other.force": "u"}, inputs=["u"]), step=0.1, until=1.0), 3
    )
    with zipfile.ZipFile(again) as archive:
        assert "terminalsAndIcons/terminalsAndIcons.xml" not in archive.namelist()


def ramp() -> up.Experiment:
    """x = t, and a property that ends the run at 0.55."""
    scenario = up.Scenario(
        {"clock": up.Ode({"x": "1"}, outputs=["x"])},
        properties={"early": {"holds": "always(clock.x < 0.55)", "online": "stop"}},
    )
    return up.experiment(scenario, step=0.1, until=2.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_an_event_that_ends_the_scenario_asks_the_host_for_the_end(export: Made, kind: str, fmi: int) -> None:
    path = export(ramp(), fmi, kind=kind)
    with Host(path) as host:
        host.start()
        host.step(0.0, 0.4)
        t = 0.4
        for _ in range(2):  # asked again, it stays where it is
            if fmi == 2:
                with pytest.raises(fmpy.fmi1.FMICallException) as raised:
                    host.step(t, 0.4)
                assert raised.value.status == 2  # discard
                assert host.fmu.getBooleanStatus(3)
                t = host.fmu.getRealStatus(2)
            else:
                _, terminate, early, t = host.step(t, 0.4)
                assert terminate
                assert early
            assert abs(t - 0.55) < 1e-5
            assert abs(host["clock.x"] - 0.55) < 1e-5
    trace = up.simulate(up.Scenario({"fmu": up.Fmu(path)}), step=0.4, until=2.0)
    assert trace.outcome is up.Outcome.STOPPED_BY_UNIT
    assert abs(trace["fmu.clock.x"][-1] - 0.55) < 1e-5


def test_model_exchange_says_that_it_does_not_end(tmp_path: Path) -> None:
    done = up.export_fmu(ramp(), tmp_path / "ramp.fmu", interface="model-exchange")
    assert any("it goes on after 'early'" in note for note in done.notes)


def desk() -> up.Experiment:
    """Events of every kind come in and go out again, after they have left something behind."""
    event = {"event": True}
    pair = {**event, "kind": "real", "size": 2}
    modes = {**event, "items": {"off": 1, "heat": 4}}
    clerk = up.StateMachine(
        inputs={"add": {**event, "kind": "real"}, "pair": pair, "mode": modes, "poke": event},
        variables={"sum": 0.0, "pokes": {"start": 0, "kind": "integer"}},
        outputs={
            "sum": "sum",
            "pokes": {"value": "pokes", "kind": "integer"},
            "echo": {**event, "kind": "real"},
            "bing": event,
            "swapped": pair,
            "now": modes,
        },
        initial="there",
        states=["there"],
        transitions=[
            {"from": "there", "on": "add", "do": {"sum": "sum + add"}, "emit": {"echo": "10*add"}},
            {"from": "there", "on": "pair", "emit": {"swapped": ["pair[1]", "pair[0]"]}},
            {"from": "there", "on": "mode", "emit": {"now": "mode"}},
            {"from": "there", "on": "poke", "do": {"pokes": "pokes + 1"}, "emit": {"bing": True}},
        ],
    )
    room = up.Ode({"x": "u - x"}, inputs={"u": 0.0}, outputs=["x"])
    scenario = up.Scenario(
        {"clerk": clerk, "room": room},
        {
            "clerk.add": {"event": "add", "when": "room.x > -1", "value": "2*add + offset"},
            "clerk.pair": "pair",
            "clerk.mode": "mode",
            "clerk.poke": "poke",
            "room.u": "clerk.sum",
        },
        inputs={
            "add": {**event, "kind": "real", "unit": "m"},
            "pair": pair,
            "mode": modes,
            "poke": {**event, "kind": "boolean"},
            "offset": 0.5,
        },
        outputs={**{name: f"clerk.{name}" for name in ("echo", "bing", "swapped", "now")}, "x": "room.x"},
    )
    # every unit is named, so that those which stand for events must not get in the way
    return up.experiment(scenario, step=0.125, until=1.0, coupling=up.GaussSeidel(["clerk", "room"]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_events_of_the_scenario_are_signals_outside(export: Made, kind: str, fmi: int) -> None:
    experiment = desk()
    with experiment.open() as run:
        for k in range(8):
            if k in (2, 3):
                run.set("add", 1.5)
            run.step()
        expected = run.finish()
    with Host(export(experiment, fmi, kind=kind)) as host:
        assert not {"poke", "bing"} & {*host.variables}  # which say nothing
        host.start()
        for k in range(8):
            if k in (2, 3):  # twice the same: it is the count that tells them apart
                host["add"], host["add_count"] = 1.5, k
            if k == 4:
                host["poke_count"] = 7
                if fmi == 3:
                    host["pair"] = [2.0, 3.0]
                else:
                    host["pair[0]"], host["pair[1]"] = 2.0, 3.0
                host["pair_count"] = -1
                assert host["clerk.pokes"] == 1  # at once
            if k == 6:
                host["mode"], host["mode_count"] = 4, 1
            host.step(k * 0.125, 0.125)
        assert host["x"] == expected["x"][-1] > 0.5
        assert (host["echo"], host["echo_count"], host["bing_count"]) == (35.0, 2, 1)
        assert (host["now"], host["now_count"], host["swapped_count"]) == (4, 1, 1)
        pair = host["swapped"] if fmi == 3 else [host["swapped[0]"], host["swapped[1]"]]
        assert pair == [3.0, 2.0]


@needs_native
def test_what_goes_out_of_one_exported_scenario_can_come_into_another(export: Made) -> None:
    lamp = export(up.load(EXAMPLES / "traffic_light.toml"), 3, kind="core")
    labels = {"event": True, "items": ["red", "green", "yellow"]}
    counter = up.StateMachine(
        inputs={"lamp": labels},
        variables={"greens": {"start": 0, "kind": "integer"}},
        outputs={"greens": {"value": "greens", "kind": "integer"}},
        initial="on",
        states=["on"],
        transitions=[{"from": "on", "on": "lamp", "when": "lamp == 'green'", "do": {"greens": "greens + 1"}}],
    )
    other = up.Scenario({"counter": counter}, {"counter.lamp": "lamp"}, inputs={"lamp": labels})
    heard = export(up.experiment(other, pace=up.EventDriven(), until=700.0), 3, kind="core")
    both = up.Scenario(
        {"light": up.Fmu(lamp), "heard": up.Fmu(heard)},
        {"heard.lamp": "light.lamp", "heard.lamp_count": "light.lamp_count"},
    )
    trace = up.simulate(both, step=50.0, until=700.0)
    assert trace["light.lamp_count"][-1] == trace["heard.counter.greens"][-1] == 3  # at 60, 360 and 660 s


def controlled() -> up.Experiment:
    """A mass and a damper, with steps as long as a tolerance for the whole run allows."""
    mass = up.Ode({"x": "v", "v": "F - x"}, inputs=["F"], start={"x": 1.0}, outputs=["x", "v"])
    damper = up.Function(inputs=["v"], outputs={"F": "-0.5*v"})
    scenario = up.Scenario({"mass": mass, "damper": damper}, {"mass.F": "damper.F", "damper.v": "mass.v"})
    return up.experiment(scenario, pace=up.ErrorControl(0.01), until=3.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_a_tolerance_is_shared_over_the_run_of_the_experiment(export: Made, kind: str, fmi: int) -> None:
    trace = controlled().run()
    with Host(export(controlled(), fmi, kind=kind)) as host:
        host.start()
        host.step(0.0, 3.0)  # in one step of the host it makes those of the run
        assert host["mass.x"] == trace["mass.x"][-1]
        host.step(3.0, 1.0)  # and goes on
    with Host(export(controlled(), fmi, kind=kind)) as host:
        host.start()
        for k in range(30):
            host.step(k * 0.1, 0.1)
        # the largest error that the tolerance allows: x'' = -x - x'/2 from 1 at rest
        w = np.sqrt(15.0) / 4.0
        exact = np.exp(-0.75) * (np.cos(3.0 * w) + np.sin(3.0 * w) / (4.0 * w))
        assert abs(host["mass.x"] - exact) < 0.01 * 2.0


def test_a_parameter_that_a_step_of_a_solver_follows_from_is_constant(export: Made) -> None:
    solver = {"kind": "rk4", "step": "tau/4"}
    lag = up.Ode({"x": "-x/tau"}, start={"x": 1.0}, parameters={"tau": 1.0}, outputs=["x"], solver=solver)
    with Host(export(up.experiment(up.Scenario({"lag": lag}), step=0.5, until=2.0))) as host:
        assert host.variables["lag.tau"].variability == "constant"
        with pytest.raises(fmpy.fmi1.FMICallException):
            host["lag.tau"] = 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_an_fmu_that_has_not_begun_refuses_inputs_when_it_is_over(export: Made, kind: str) -> None:
    with Host(export(driven(), kind=kind)) as host:
        host.fmu.terminate()
        with pytest.raises(fmpy.fmi1.FMICallException):
            host["force"] = 1.0
        assert "it has not begun" in host.said[-1]
