"""What FMUs cost in a ring: the loop written by hand in C, both engines of Upbeat, FMPy, and libcosim.

N instances of one feedthrough FMU for co-simulation: each output feeds the next input, one step late.
Every output is recorded into memory on all sides. The variants run interleaved in this one process; the
figures are medians, in nanoseconds per instance and step. Processor time counts; for libcosim, which has
threads of its own, the lesser of that and the time on the wall. The slow ones (the interpreter, FMPy,
libcosim) take fewer steps per repeat, which changes nothing per step.

There are two FMUs of our own, from one source (feedthrough.c). The goals are for the first, which does what
exported FMUs do in a step: ten micro-steps of a solver. The second does next to nothing, and shows the price
of the calls alone: no FMU of any tool is as quick.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from upbeat.units.fmi.archive import folder_of
from upbeat.units.fmi.library import Platform, find_library

HERE = Path(__file__).parent
SIZES = (2, 10, 50)
STEPS = 100_000
SHORT = 50
"""The slow ones take so many times fewer steps per repeat."""
STEP = 1e-3
GOALS = {"native": 1.5, "fmpy": 20.0}

DESCRIPTION = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="feedthrough" guid="{feedthrough}">
<CoSimulation modelIdentifier="feedthrough" canHandleVariableCommunicationStepSize="true"/>
<ModelVariables>
<ScalarVariable name="time" valueReference="0" causality="independent" variability="continuous">
<Real/></ScalarVariable>
<ScalarVariable name="k" valueReference="1" causality="parameter" variability="fixed" initial="exact">
<Real start="0.999"/></ScalarVariable>
<ScalarVariable name="u" valueReference="2" causality="input"><Real start="1"/></ScalarVariable>
<ScalarVariable name="y" valueReference="3" causality="output"><Real/></ScalarVariable>
</ModelVariables>
<ModelStructure><Outputs><Unknown index="4" dependencies="3"/></Outputs></ModelStructure>
</fmiModelDescription>
"""
Measured = tuple[float, np.ndarray]
"""Seconds of the loop itself, not of building it; and the last row."""


MICRO = {"ring": 10, "bare": 0}
"""The micro-steps in a step of our own FMUs."""


def compiled(source: Path, target: Path, *flags: str) -> Path:
    """A shared library."""
    command = [os.environ.get("CC", "cc"), "-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(
        [*command, *flags, "-fvisibility=hidden", str(source), "-o", str(target), "-ldl"], check=True
    )
    return target


def own_fmu(folder: Path, micro: int) -> Path:
    """The FMU of feedthrough.c."""
    folder.mkdir()
    platform = Platform.here()
    suffix = ".dylib" if platform.system == "darwin" else ".so"
    library = compiled(HERE / "feedthrough.c", folder / f"feedthrough{suffix}", f"-DMICRO={micro}")
    path = folder / "feedthrough.fmu"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", DESCRIPTION)
        archive.write(library, f"binaries/{platform.folders(2)[0]}/feedthrough{suffix}")
    return path


class Ring:
    """One FMU in all the ways in which it is rung."""

    def __init__(self, path: Path, input: str, output: str, folder: Path) -> None:
        self.path, self.input, self.output, self._folder = path, input, output, folder
        self.model = up.Fmu(path, interface="co-simulation")
        by_name = self.model.description.by_name
        for name, causality in ((input, "input"), (output, "output")):
            if name not in by_name or by_name[name].causality.value != causality:
                raise SystemExit(f"{path} has no {causality} '{name}': name one with --{causality}")
        self.references = by_name[input].reference, by_name[output].reference
        self._loop = ctypes.CDLL(str(compiled(HERE / "fmu_loop.c", folder / "libloop.so")))

    def by_hand(self, n: int, steps: int) -> Measured:
        """The loop in C."""
        model, folder = self.model, folder_of(self.model.key)
        version, interface = model.description.version, model.interface
        library = find_library(folder, version, interface.model_identifier).path
        resources = f"{folder}/resources/" if version == 3 else f"file://{folder}/resources"
        record, seconds = np.empty((steps + 1, n + 1)), ctypes.c_double()
        failed = getattr(self._loop, f"ring{version}")(
            os.fsencode(library),
            model.description.token.encode(),
            resources.encode(),
            n,
            ctypes.c_long(steps),
            ctypes.c_double(STEP),
            *(ctypes.c_uint32(reference) for reference in self.references),
            record.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
            ctypes.byref(seconds),
        )
        if failed:
            raise SystemExit(f"the loop in C failed ({failed})")
        return seconds.value, record[-1, 1:]

    def by_upbeat(self, n: int, steps: int, engine: str) -> Measured:
        """An engine of Upbeat, with the outputs of the ring recorded."""
        names = [f"u{i}.{self.output}" for i in range(n)]
        connections = {
            f"u{(i + 1) % n}.`{self.input}`"
            if not self.input.isidentifier()
            else f"u{(i + 1) % n}.{self.input}": names[i]
            for i in range(n)
        }
        plan = up.experiment(
            up.Scenario(units={f"u{i}": self.model for i in range(n)}, connections=connections),
            pace=STEP,
            until=steps * STEP,
            coupling=up.Jacobi(outputs="lagged"),
            record=names,
            engine=engine,  # type: ignore[arg-type]
        )
        with plan.open() as run:
            began = time.process_time()
            trace = run.finish()
            seconds = time.process_time() - began
        return seconds, np.array([trace[name][-1] for name in names])

    def by_fmpy(self, n: int, steps: int) -> Measured:
        """The loop that one writes with FMPy."""
        import fmpy
        from fmpy.fmi2 import FMU2Slave
        from fmpy.fmi3 import FMU3Slave

        folder, description = (
            str(folder_of(self.model.key)),
            fmpy.read_model_description(str(self.path), validate=False),
        )
        old = description.fmiVersion.startswith("2")
        kind = FMU2Slave if old else FMU3Slave
        slaves = []
        for i in range(n):
            slave = kind(
                guid=description.guid,
                unzipDirectory=folder,
                modelIdentifier=description.coSimulation.modelIdentifier,
                instanceName=f"u{i}",
            )
            slave.instantiate()
            if old:
                slave.setupExperiment(startTime=0.0)
            slave.enterInitializationMode()
            slaves.append(slave)
        given, asked = ([reference] for reference in self.references)
        get = [slave.getReal if old else slave.getFloat64 for slave in slaves]
        set = [slave.setReal if old else slave.setFloat64 for slave in slaves]
        y = [0.0] * n
        for i in range(n):
            y[i] = get[i](asked)[0]
            set[(i + 1) % n](given, [y[i]])
        for slave in slaves:
            slave.exitInitializationMode()
        rows = [(0.0, *y)]
        began = time.process_time()
        now = 0.0
        for k in range(1, steps + 1):
            next = k * STEP
            for slave in slaves:
                slave.doStep(now, next - now)
            y = [one(asked)[0] for one in get]
            for i in range(n):
                set[i](given, [y[i - 1]])
            now = next
            rows.append((now, *y))
        seconds = time.process_time() - began
        for slave in slaves:
            slave.terminate()
            with suppress(Exception):  # which unloads the library, too
                slave.fmi2FreeInstance(slave.component) if old else slave.fmi3FreeInstance(slave.component)
        return seconds, np.array(rows[-1][1:])

    def by_libcosim(self, n: int, steps: int) -> Measured:
        """libcosim with an observer that keeps time series; its clock counts nanoseconds."""
        from libcosimpy.CosimEnums import CosimVariableType
        from libcosimpy.CosimExecution import CosimExecution
        from libcosimpy.CosimLogging import CosimLogLevel, log_output_level
        from libcosimpy.CosimObserver import CosimObserver
        from libcosimpy.CosimSlave import CosimLocalSlave

        log_output_level(CosimLogLevel.FATAL)
        execution = CosimExecution.from_step_size(step_size=STEP * 1e9)
        given, asked = self.references
        slaves = [execution.add_local_slave(CosimLocalSlave(str(self.path), f"u{i}")) for i in range(n)]
        observer = CosimObserver.create_time_series(buffer_size=steps + 1)
        execution.add_observer(observer)
        for i, slave in enumerate(slaves):
            execution.connect_real_variables(slaves[i - 1], asked, slave, given)
            observer.start_time_series(slave, asked, CosimVariableType.REAL)
        execution.step()  # the first one initializes
        began, wall = time.process_time(), time.perf_counter()
        execution.step(step_count=steps - 1)
        seconds = min(time.process_time() - began, time.perf_counter() - wall)
        seconds *= steps / (steps - 1)
        last = [observer.time_series_real_samples(slave, asked, steps, 1)[2] for slave in slaves]
        return seconds, np.array([value[0] for value in last])


def measure(ring: Ring, n: int, steps: int, repeats: int) -> dict[str, Any]:
    """Nanoseconds per instance and step of every variant, interleaved."""
    short = max(20, steps // SHORT)
    variants: dict[str, tuple[int, Callable[[int], Measured]]] = {
        "c_ns": (steps, lambda k: ring.by_hand(n, k)),
        "native_ns": (steps, lambda k: ring.by_upbeat(n, k, "native")),
        "interpreted_ns": (short, lambda k: ring.by_upbeat(n, k, "interpret")),
        "fmpy_ns": (short, lambda k: ring.by_fmpy(n, k)),
        "libcosim_ns": (short, lambda k: ring.by_libcosim(n, k)),
    }
    samples: dict[str, list[float]] = {name: [] for name in variants}
    rows: dict[str, np.ndarray] = {}
    for _ in range(repeats):
        for name, (count, run) in variants.items():
            try:
                seconds, rows[name] = run(count)
            except ImportError:
                continue
            samples[name].append(seconds / (count * n) * 1e9)
    for first, second in (("c_ns", "native_ns"), ("fmpy_ns", "interpreted_ns")):
        if second in rows and first in rows and not np.array_equal(rows[first], rows[second]):
            raise SystemExit(
                f"{second} and {first} are measured on different results: {rows[second]}, {rows[first]}"
            )
    medians = {name: statistics.median(values) if values else None for name, values in samples.items()}
    return {"n": n, "recording": True, **medians}


def table(rows: list[dict[str, Any]]) -> None:
    columns = {
        "native_ns": "native",
        "interpreted_ns": "interpreted",
        "fmpy_ns": "FMPy",
        "libcosim_ns": "libcosim",
    }
    print("ns per instance and step (× the loop in C)")
    print(f"{'N':>6}{'C loop':>10}" + "".join(name.rjust(20) for name in columns.values()))
    for row in rows:
        base = row["c_ns"]
        cells = ["—" if row[key] is None else f"{row[key]:.1f} ({row[key] / base:.1f}×)" for key in columns]
        print(f"{row['n']:>6}{base:10.1f}" + "".join(cell.rjust(20) for cell in cells))


def judge(rows: list[dict[str, Any]]) -> None:
    """Asked | reached."""

    def line(what: str, asked: str, reached: str) -> None:
        print(f"{what:34}{asked:>9} | {reached}")

    print("\nasked | reached (the worst of all N)")
    line(
        "native over the loop in C",
        f"≤ {GOALS['native']} ×",
        f"{max(r['native_ns'] / r['c_ns'] for r in rows):.2f} ×",
    )
    fmpy = [row for row in rows if row["fmpy_ns"] is not None]
    if fmpy:
        times = min(row["fmpy_ns"] / row["native_ns"] for row in fmpy)
        line("native faster than FMPy", f"≥ {GOALS['fmpy']:.0f} ×", f"{times:.0f} ×")
        times = min(row["fmpy_ns"] / row["interpreted_ns"] for row in fmpy)
        line("interpreted faster than FMPy", "> 1 ×", f"{times:.2f} ×")
    cosim = [row for row in rows if row["libcosim_ns"] is not None]
    if cosim:
        times = min(row["libcosim_ns"] / row["native_ns"] for row in cosim)
        line("native faster than libcosim", "> 1 ×", f"{times:.0f} ×")
    else:
        print("libcosim is not measured: pip install libcosimpy")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    arguments.add_argument("--fmu", type=Path, help="another FMU for co-simulation (FMI 2 or 3)")
    arguments.add_argument("--input", default="u", help="its input (a real one)")
    arguments.add_argument("--output", default="y", help="its output")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=STEPS)
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fmus = {"ring": options.fmu} if options.fmu else {k: own_fmu(folder / k, m) for k, m in MICRO.items()}
        for kind, path in fmus.items():
            ring = Ring(path, options.input, options.output, folder)
            for n in SIZES:
                print(f"measuring N = {n} ({path.name}, {kind}) …", file=sys.stderr)
                found.setdefault(kind, []).append(measure(ring, n, options.steps, options.repeats))
    short = max(20, options.steps // SHORT)
    print(
        f"{options.steps} steps; the interpreter, FMPy and libcosim {short}, which changes nothing per step\n"
    )
    table(found["ring"])
    judge(found["ring"])
    if "bare" in found:
        print("\nan FMU whose calls do next to nothing")
        table(found["bare"])
    if options.json:
        print(json.dumps(found), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
