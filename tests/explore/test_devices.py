"""Generated code for ensembles: as C the bits of the core, as CUDA C++ the same to rounding."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_runs import OUTPUTS, drawn, same, two_masses

import upbeat as up
from upbeat.engine.native import machine as native
from upbeat.explore import devices
from upbeat.explore.devices import Compiled, OnDevice, neighbours, source_of
from upbeat.explore.outputs import formula
from upbeat.explore.work import Group, Status, Work

pytestmark = [
    pytest.mark.skipif(not native.available(), reason="the native engine is not built"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler"),
]

PACES: dict[str, Any] = {
    "fixed": 0.08,
    "look_ahead": up.LookAhead(0.08),
    "published": up.LookAhead(0.08, method="published"),
    "revised": up.Revised(up.LookAhead(0.08)),
}


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_the_c_of_a_run_has_the_bits_of_the_core(pace: Any) -> None:
    work, columns = two_masses(pace), drawn(40)
    group = Group(work, {})
    assert same(
        group.run(columns), next(OnDevice(work, "compiled", workers=1).do(work, iter([job(columns)])))[1]
    )


def job(columns: Any) -> Any:
    from upbeat.explore.executors import Job

    return Job(0, columns)


EMULATED = r"""
#include <math.h>
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define int8_t own_int8
#define int32_t own_int32
#define int64_t own_int64
#define uint32_t own_uint32
#define uint64_t own_uint64
#undef INT32_MIN
#undef INT64_MAX
static thread_local struct { int x; } blockIdx, blockDim, threadIdx;
%s
extern "C" void all(long long runs, const double *t, double *s, double *a, int *e, double *w, double *o,
                    int *f) {
  blockDim.x = 1;
  for (blockIdx.x = 0; blockIdx.x < runs; ++blockIdx.x) upbeat_ensemble(runs, t, s, a, e, w, o, f);
}
"""


def emulated(group: Group, columns: Any, count: int, folder: Path) -> tuple[Any, Any]:
    """What the kernel for a GPU gives, as C++ and thread after thread, and its table."""
    asked = group.question.asked
    (folder / "kernel.cpp").write_text(EMULATED % source_of(group, "cuda").text)
    command = ["g++", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off", "kernel.cpp", "-o", "kernel.so"]
    subprocess.run(command, cwd=folder, check=True)
    call = ctypes.CDLL(str(folder / "kernel.so")).all
    table = np.ascontiguousarray(group.table(columns, count).T)
    room = devices._room(asked, count)
    call(ctypes.c_int64(count), *(ctypes.c_void_p(one.ctypes.data) for one in (table, *room.values())))
    return devices._told(asked, count, room), table


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_the_kernel_for_a_gpu_gives_the_same_to_rounding(pace: Any, tmp_path: Path) -> None:
    work, columns = two_masses(pace), drawn(40)
    group = Group(work, {})
    told, table = emulated(group, columns, 40, tmp_path)
    found = group.answers(told, table.T, {})
    wanted = group.run(columns)
    assert found.totals[:, :3].tolist() == wanted.totals[:, :3].tolist()  # steps and events of all runs
    assert found.events.tolist() == wanted.events.tolist()
    np.testing.assert_allclose(found.outputs, wanted.outputs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.samples, wanted.samples, rtol=1e-7, atol=1e-9)


SIDE_BY_SIDE: dict[str, Any] = {
    "jacobi": {"step": 0.1},
    "lines": {"step": 0.1, "inputs": "linear"},
    "polynomials": {"step": 0.1, "inputs": up.Hermite(2)},
    "straight": {"step": 0.1, "inputs": up.Taylor(1)},
    "gauss_seidel": {"step": 0.1, "coupling": up.GaussSeidel()},
    "iterated": {"step": 0.1, "coupling": up.Iterated()},
    "multi_rate": {"step": 0.1, "coupling": up.MultiRate({"a": 4})},
    "error_control": {"pace": up.ErrorControl(0.05)},  # steps of their own, some of them sent back
}


def some_lost(settings: Any, count: int) -> tuple[Work, Any]:
    """Units with other steps and solvers, sines, branches; of seven runs the fourth is lost."""
    a = up.Ode(
        {"x": "v", "v": "-k*x - 0.2*v + u + (0.5 if x > 0.3 else sin(x))"},
        start={"x": 1.0},
        inputs=["u"],
        outputs={"x": "x", "v": "v"},
        parameters={"k": 2.0},
        solver=up.RK4(steps=3),
    )
    b = up.Ode({"y": "u - y + g*y*y"}, inputs=["u"], parameters={"g": 0.0}, solver=up.Euler(steps=2))
    c = up.Ode({"z": "u - z"}, inputs=["u"], solver=up.RK4(step=0.03))
    wires = {"b.u": "a.x", "c.u": "b.y", "a.u": "c.z"}
    made = up.experiment(up.Scenario({"a": a, "b": b, "c": c}, wires), until=3.0, **settings)
    outputs = {"end": formula("final(a.v)"), "all": formula("integral(b.y)"), "most": formula("maximum(c.z)")}
    samples = {"a.k": (1.0, 2.0), "a.x": (1.0, 1.5), "b.g": (0.0, 0.1)}
    random = np.random.default_rng(5)
    columns = {
        "a.k": random.uniform(0.5, 5.0, count),
        "a.x": random.uniform(-2.0, 2.0, count),
        "b.g": np.where(np.arange(count) % 7 == 3, 1e200, 0.01),  # these are lost on the way
    }
    work = Work(made, samples, outputs, {}, ("a.x",), tuple(np.linspace(0.0, 3.0, 5).tolist()))
    return work, columns


@pytest.mark.parametrize("settings", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
@pytest.mark.parametrize("count", [1, 21])
def test_runs_side_by_side_have_the_bits_of_the_core(settings: Any, count: int) -> None:
    """Several runs at a time."""
    work, columns = some_lost(settings, count)
    group = Group(work, {})
    assert group.in_core
    assert "_in_lanes(units" in source_of(group, "c").text
    assert "_in_lanes" not in source_of(group, "cuda").text
    wanted = group.run(columns)
    found = next(OnDevice(work, "compiled", workers=1).do(work, iter([job(columns)])))[1]
    assert same(found, wanted)
    assert found.reasons == wanted.reasons
    assert (wanted.status[3::7] == Status.FAILED).all()
    assert (wanted.status == Status.DONE).any()


@pytest.mark.parametrize("settings", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_the_kernel_for_a_gpu_loses_the_same_runs(settings: Any, tmp_path: Path) -> None:
    """Values that are no numbers are noticed at the end of their step there, and leave others alone."""
    work, columns = some_lost(settings, 21)
    group = Group(work, {})
    told, _ = emulated(group, columns, 21, tmp_path)
    wanted = group.run(columns)
    lost = wanted.status == Status.FAILED
    assert sorted(told.failures) == np.flatnonzero(lost).tolist()
    np.testing.assert_allclose(told.statistics[~lost, 1], wanted.outputs[~lost, 1], rtol=1e-7, atol=1e-9)


def test_the_kernel_for_a_gpu_has_many_units_in_loops(tmp_path: Path) -> None:
    one = up.Ode(
        {"x": "v", "v": "-k*x + 0.3*(left - x)"}, inputs=["left"], parameters={"k": 1.0}, start={"x": 1.0}
    )
    names = [f"u{i}" for i in range(30)]
    wires = {f"{name}.left": f"{names[i - 1]}.x" for i, name in enumerate(names)}
    made = up.experiment(up.Scenario(dict.fromkeys(names, one), wires), step=0.05, until=2.0)
    work = Work(made, {"u0.k": (1.0, 2.0)}, {"end": formula("final(u3.x)")}, {})
    group, columns = Group(work, {}), {"u0.k": np.linspace(0.5, 2.0, 7)}
    assert "[3 + 2 * i + 0]" in source_of(group, "cuda").text  # or the next lines show nothing new
    told, table = emulated(group, columns, 7, tmp_path)
    found, wanted = group.answers(told, table.T, {}), group.run(columns)
    np.testing.assert_allclose(found.outputs, wanted.outputs, rtol=1e-9)


def test_a_study_by_generated_code_is_the_same_study() -> None:
    made = up.experiment(two_masses().experiment.scenario, pace=up.LookAhead(0.08), until=4.0)
    study = up.Study(
        made,
        vary={
            "upper.x": {"uniform": [-3, -0.7]},
            "lower.x": {"uniform": [-9, -5]},
            "upper.m": {"uniform": [0.1, 0.4]},
        },
        outputs=OUTPUTS,
        samples=50,
        signals=["upper.x"],
        times=7,
        events=3,
    )
    one, other = study.run("here"), study.run(device="compiled", workers=2)
    for name in one.layout.arrays():
        a, b = np.asarray(one[name]), np.asarray(other[name])
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


def test_each_program_has_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock runs to other times; of the programs planned for these, one is kept at a time."""
    monkeypatch.setattr("upbeat.explore.work._KEPT", 1)
    monkeypatch.setattr(devices, "_WORTH", 1)
    clock = up.Scenario({"a": up.Ode({"t": "k"}, start={"t": 0.0}, parameters={"k": 1.0})})
    made = up.experiment(clock, step=0.125, until=1.0)
    stops = [0.5, 1.0, 1.5, 2.0, 2.5]
    study = up.Study(made, {"run.until": stops, "a.k": [1.0, 2.0]}, {"end": "final(a.t)"})
    crew = devices.OnDevice(study.work, "compiled", workers=1)
    chunks = dict(crew.do(study.work, study._jobs(range(5), 2)))
    for k, stop in enumerate(stops):
        assert chunks[k].outputs[:, 0] == pytest.approx([stop, 2.0 * stop])
    mixed = study.run(device="compiled", workers=1)["end"]
    assert mixed == pytest.approx([k * stop for stop in stops for k in (1.0, 2.0)])


def test_what_cannot_be_printed_stays_in_the_core_with_another_step_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_WORTH", 1)
    python = up.PythonFunction(lambda t, u, p: u, inputs=["u"], outputs=["y"])
    scenario = up.Scenario({"a": up.Ode({"x": "1"}, start={"x": 0.0}), "f": python}, {"f.u": "a.x"})
    made = up.experiment(scenario, step=0.5, until=1.0)
    for steps in ([0.25], [0.25, 0.125]):
        study = up.Study(made, {"master.step": steps}, {"end": "final(a.x)"})
        caplog.clear()
        assert study.run(device="compiled", workers=1)["end"] == pytest.approx([1.0] * len(steps))
        assert caplog.text.count("'f' (Python)") == 1


def test_runs_that_fail_have_the_words_of_the_core() -> None:
    grows = up.Scenario({"a": up.Ode({"x": "k*x*x"}, start={"x": 1.0}, parameters={"k": 0.1})})
    study = up.Study(
        up.experiment(grows, step=0.1, until=3.0), {"a.k": [0.1, 50.0, 0.2]}, {"end": "final(a.x)"}
    )
    one, other = study.run("here"), study.run(device="compiled")
    assert one["reason"].tolist() == other["reason"].tolist()
    assert other["status"].tolist() == [0, 1, 0]
    assert np.array_equal(one["end"], other["end"], equal_nan=True)


def test_what_cannot_be_printed_stays_in_the_core(caplog: pytest.LogCaptureFixture) -> None:
    slow = up.PythonFunction(lambda t, u, p: u, inputs=["u"], outputs=["y"])
    scenario = up.Scenario(
        {"a": up.Ode({"x": "-k*x"}, start={"x": 1.0}, parameters={"k": 1.0}), "f": slow}, {"f.u": "a.x"}
    )
    study = up.Study(up.experiment(scenario, step=0.1, until=1.0), {"a.k": [1.0, 2.0]}, {"end": "final(a.x)"})
    results = study.run(device="compiled", executor=None, workers=1)
    assert "'f' (Python)" in caplog.text
    assert results["end"] == pytest.approx(np.exp([-1.0, -2.0]), rel=1e-4)


def test_a_gpu_that_is_not_there() -> None:
    study = up.Study(two_masses().experiment, {"upper.x": [-1.0, -2.0]}, {"end": "final(upper.x)"})
    try:
        devices._driver()
    except (up.MissingExtra, up.InvalidInput):
        with pytest.raises((up.MissingExtra, up.InvalidInput), match=r"leave out --device gpu|upbeat.gpu."):
            study.run(device="gpu")
    with pytest.raises(up.InvalidInput, match="no device"):
        study.run(device="abacus")
    with pytest.raises(up.InvalidInput, match="single precision is for a GPU"):
        study.run(single=True)


def test_bindings_without_the_compiler_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise RuntimeError("libnvrtc.so.13: no such file")

    bindings = SimpleNamespace(nvrtc=SimpleNamespace(nvrtcCreateProgram=missing))
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=bindings))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    with pytest.raises(up.MissingExtra, match=r"upbeat\[gpu\]"):
        devices.compiled_for_gpu("", "sm_90")


def test_neighbours_in_space_are_neighbours_in_order() -> None:
    points = np.random.default_rng(2).random((3, 4096))
    sorted_ = points[:, neighbours(points)]

    def steps(table: np.ndarray) -> float:
        return float(np.linalg.norm(np.diff(table, axis=1), axis=0).mean())

    assert steps(sorted_) < 0.25 * steps(points)


def test_single_precision_is_printed() -> None:
    made = up.experiment(two_masses().experiment.scenario, pace=0.08, until=1.0)
    work = Work(made, {"upper.x": (-0.7, -1.0)}, {"end": formula("final(upper.x)")}, {})
    text = source_of(Group(work, {}), "cuda", single=True).text
    assert "typedef float real;" in text
    assert "9.81f" in text
    assert Compiled is not None
