"""Exported FMUs in other hosts: FMPy, libcosim, Ecos and Upbeat itself, each with the same numbers.

* The two masses of `examples/two_mass/lookahead.toml` as FMUs of both versions and both kinds, asked every
  0.5 s. The events are those that the FMU tells its host of; e_rms is that of reproduce/two_mass.py, at the
  communication points of the host. libcosim and Ecos run the FMI 2 ones where they are installed
  (pip install libcosimpy ecospy).
* The engine (`examples/engine`, 118 states) as one FMU, run by FMPy: the torque against our own run.
* Rollback through an exported FMU, to the bit; two instances in one process; what a thousand lives leave.
* The generated sources under the address and undefined-behaviour sanitizers, with the `main.c` of `--c`, for
  every example, and each structure of those that have several.

Asked | here.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave, fmi3LogMessageCallback
from fmpy.validation import validate_fmu
from two_mass import START, UNTIL, Reference, matched

import upbeat as up
from upbeat.generate.compiling import compiler

EXAMPLES = Path(__file__).parents[1] / "examples"
STEP = 0.5
VARIABLES = ("upper.x", "upper.v", "lower.x", "lower.v")
Rows = dict[str, np.ndarray]


def by_fmpy(path: Path, until: float = UNTIL, step: float = STEP) -> Rows:
    found = fmpy.simulate_fmu(str(path), stop_time=until, step_size=step, output_interval=step)
    return {name: found[name] for name in found.dtype.names}


def by_upbeat(path: Path) -> Rows:
    trace = up.simulate(up.Scenario({"fmu": up.Fmu(path)}), step=STEP, until=UNTIL).one_sided()
    return {name: trace[f"fmu.{name}"] for name in VARIABLES}


def nested_again(path: Path) -> Rows:
    """The exported FMU in a scenario that is exported in its turn."""
    outer = up.experiment(up.Scenario({"fmu": up.Fmu(path)}), step=STEP, until=UNTIL)
    up.export_fmu(outer, path.with_name(f"again_{path.name}"), kind="core", force=True)
    found = by_fmpy(path.with_name(f"again_{path.name}"))
    return {name: found[f"fmu.{name}"] for name in VARIABLES}


def by_libcosim(path: Path) -> Rows:
    from libcosimpy.CosimEnums import CosimVariableType
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimLogging import CosimLogLevel, log_output_level
    from libcosimpy.CosimObserver import CosimObserver
    from libcosimpy.CosimSlave import CosimLocalSlave

    log_output_level(CosimLogLevel.FATAL)
    about = {v.name: v.valueReference for v in fmpy.read_model_description(str(path)).modelVariables}
    execution = CosimExecution.from_step_size(step_size=STEP * 1e9)
    slave = execution.add_local_slave(CosimLocalSlave(str(path), "fmu"))
    observer = CosimObserver.create_time_series(buffer_size=100)
    execution.add_observer(observer)
    for name in VARIABLES:
        observer.start_time_series(slave, about[name], CosimVariableType.REAL)
    steps = round(UNTIL / STEP)
    execution.step(step_count=steps)
    return {
        name: np.array(observer.time_series_real_samples(slave, about[name], 1, steps)[2])
        for name in VARIABLES
    }


def by_ecos(path: Path) -> Rows:
    from ecospy import EcosSimulation, EcosSimulationStructure

    rows: list[list[float]] = []
    with EcosSimulationStructure() as structure:
        structure.add_model("fmu", path)
        with EcosSimulation(structure=structure, step_size=STEP) as simulation:
            simulation.init()
            for _ in range(round(UNTIL / STEP)):
                simulation.step()
                rows.append([simulation.get_real(f"fmu::{name}") for name in VARIABLES])
            simulation.terminate()
    return {name: np.array(values) for name, values in zip(VARIABLES, zip(*rows, strict=True), strict=True)}


def apart(some: Rows, others: Rows) -> float:
    """The largest difference at the communication points that both have (some hosts leave out the first)."""
    rows = min(len(some[VARIABLES[0]]), len(others[VARIABLES[0]]))
    return max(float(np.max(np.abs(some[name][-rows:] - others[name][-rows:]))) for name in VARIABLES)


def events_told(path: Path) -> list[tuple[str, float]]:
    """The events of which an FMU tells a host that neither returns early nor knows event mode."""
    about = fmpy.read_model_description(str(path))
    said: list[str] = []
    log = fmi3LogMessageCallback(lambda _, status, category, text: said.append(text.decode()))
    fmu = FMU3Slave(
        guid=about.guid,
        unzipDirectory=fmpy.extract(str(path)),
        modelIdentifier=about.coSimulation.modelIdentifier,
        instanceName="told",
    )
    fmu.instantiate(loggingOn=True, logMessage=log)
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    for number in range(round(UNTIL / STEP)):
        fmu.doStep(currentCommunicationPoint=number * STEP, communicationStepSize=STEP)
    fmu.terminate()
    fmu.freeInstance()
    found = [re.match(r"event '(\w+)' at t = (\S+?)[,.:;]?(\s|$)", text) for text in said]
    return [(match[1], float(match[2])) for match in found if match]


def two_masses(folder: Path) -> dict[str, Any]:
    """All exports in all hosts, the events, and the error."""
    made = up.load(EXAMPLES / "two_mass" / "lookahead.toml")
    exact = Reference(START)
    hosts = {"Upbeat": by_upbeat, "Upbeat, exported again": nested_again}
    others = {"libcosim": (by_libcosim, "libcosimpy"), "Ecos": (by_ecos, "ecospy")}
    result: dict[str, Any] = {"hosts": {}, "invalid": [], "absent": {}}
    first: Rows | None = None
    for fmi in (2, 3):
        for kind in ("source", "core"):
            path = folder / f"masses_{fmi}_{kind}.fmu"
            up.export_fmu(made, path, fmi=fmi, kind=kind)  # type: ignore[arg-type]
            result["invalid"] += [f"{path.name}: {problem}" for problem in validate_fmu(str(path))]
            rows = by_fmpy(path)
            first = first or rows
            differences = {"FMPy": apart(rows, first)}
            for name, host in hosts.items():
                differences[name] = apart(host(path), first)
            for name, (other, package) in others.items():
                if fmi == 3:
                    continue
                try:
                    differences[name] = apart(other(path), first)
                except (ImportError, OSError) as error:  # Ecos needs a library of the system, too
                    result["absent"][name] = f"pip install {package} ({error})"
            result["hosts"][f"FMI {fmi}, {kind}"] = differences
    assert first is not None
    times = np.arange(1, round(UNTIL / STEP) + 1) * STEP
    true = exact.positions(times)
    error = np.abs(first["upper.x"][1:] - true[0]) + np.abs(first["lower.x"][1:] - true[1])
    result["e_rms"] = float(np.sqrt(np.mean(error**2)))
    told = events_told(folder / "masses_3_source.fmu")
    result["events"] = {
        "met": matched(told, exact.events),
        "told": len(told),
        "true": len(exact.events),
        "late": max(abs(a[1] - b[1]) for a, b in zip(told, exact.events, strict=False)),
    }
    return result


def one_life(path: Path, about: Any, folder: str, second: bool = False) -> tuple[float, ...]:
    def life() -> FMU2Slave:
        fmu = FMU2Slave(
            guid=about.guid,
            unzipDirectory=folder,
            modelIdentifier=about.coSimulation.modelIdentifier,
            instanceName=path.stem,
        )
        fmu.instantiate()
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        return fmu

    references = [v.valueReference for v in about.modelVariables if v.name in VARIABLES]
    mine = [life(), life()] if second else [life()]
    for number in range(4):
        for fmu in mine:  # in turns: neither may know of the other
            fmu.doStep(currentCommunicationPoint=number * STEP, communicationStepSize=STEP)
    found = [tuple(fmu.getReal(references)) for fmu in mine]
    for fmu in mine:
        fmu.terminate()
        fmu.freeInstance()
    assert all(values == found[0] for values in found), "two instances disturb each other"
    return found[0]


def lives(path: Path, count: int) -> float:
    """Megabytes that so many lives leave behind, after the first hundred."""
    about, folder = fmpy.read_model_description(str(path)), fmpy.extract(str(path))
    first = one_life(path, about, folder, second=True)
    for _ in range(100):
        assert one_life(path, about, folder) == first
    before = resident()
    for _ in range(count):
        one_life(path, about, folder)
    return resident() - before


def resident() -> float:
    """Megabytes of this process that are in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def rollback(path: Path) -> bool:
    """Whether a step that is made again from a kept state has the same bits."""
    about = fmpy.read_model_description(str(path))
    fmu = FMU2Slave(
        guid=about.guid,
        unzipDirectory=fmpy.extract(str(path)),
        modelIdentifier=about.coSimulation.modelIdentifier,
        instanceName="again",
    )
    fmu.instantiate()
    fmu.setupExperiment(startTime=0.0)
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    references = [v.valueReference for v in about.modelVariables if v.name in VARIABLES]
    same = True
    for number in range(round(UNTIL / STEP)):
        state = fmu.getFMUstate()
        fmu.doStep(currentCommunicationPoint=number * STEP, communicationStepSize=STEP)
        once = fmu.getReal(references)
        fmu.setFMUstate(state)
        fmu.doStep(currentCommunicationPoint=number * STEP, communicationStepSize=STEP)
        same = same and fmu.getReal(references) == once
        fmu.freeFMUstate(state)
    fmu.terminate()
    fmu.freeInstance()
    return same


def engine(folder: Path) -> dict[str, Any]:
    """The engine as one FMU, for one turn of the crankshaft: its torque against our own run."""
    made = up.load(EXAMPLES / "engine" / "engine.toml", until=0.03, record=("air.torque",))
    trace = made.run().one_sided()
    path = folder / "engine.fmu"
    up.export_fmu(made, path, kind="core")
    step = float(trace.time[1] - trace.time[0])
    found = by_fmpy(path, 0.03, step)
    column = next(name for name in found if name.endswith("torque"))
    rows = min(len(found[column]), len(trace))
    difference = np.max(np.abs(found[column][:rows] - trace["air.torque"][:rows]))
    return {
        "states": sum(len(unit.to_spec()["states"]) for unit in made.scenario.units.values()),  # type: ignore[attr-defined]
        "rows": rows,
        "difference": float(difference / np.max(np.abs(trace["air.torque"]))),
        "invalid": validate_fmu(str(path)),
    }


def examples() -> Iterator[tuple[str, up.Experiment]]:
    for path in sorted(EXAMPLES.rglob("*.toml")):
        if path.parent.name == "engine":
            continue  # half an hour of compiling with sanitizers
        name, made = str(path.relative_to(EXAMPLES)), up.load(path)
        if not made.structures:
            yield name, made
        for structure, one in made.structures.items():
            yield f"{name}: {structure}", one


def sanitized(folder: Path) -> dict[str, str]:
    """Each example, or structure of one, as C with its own main.c, sanitized: clean, or what they say."""
    found = {}
    for name, made in examples():
        target = folder / re.sub(r"\W", "_", name)
        try:
            up.export_c(made, target, force=True)
        except up.UpbeatError as error:
            found[name] = f"refused: {error}".split(". ")[0]
            continue
        sources = [str(file) for file in sorted(target.glob("*.c"))]
        flags = ["-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        binary = str(target / "sanitized")
        built = subprocess.run(
            [*compiler(), *flags, "-I", str(target), *sources, "-lm", "-o", binary],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            found[name] = built.stderr[-500:]
            continue
        done = subprocess.run([binary], capture_output=True, text=True, check=False)
        found[name] = "clean" if done.returncode == 0 else done.stderr[-500:]
        print(f"  {name:40} {found[name]}", flush=True)
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="one JSON object, alone on standard output")
    arguments.add_argument("--lives", type=int, default=1000)
    arguments.add_argument("--quick", action="store_true", help="without the engine and the sanitizers")
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    logging.disable(logging.WARNING)
    misses: list[str] = []

    def line(what: str, asked: str, here: str, holds: bool) -> None:
        print(f"{what:58} {asked} | {here}", flush=True)
        if not holds:
            misses.append(f"{what}: asked {asked}, reached {here}")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        masses = two_masses(folder)
        for export, hosts in masses["hosts"].items():
            for host, difference in hosts.items():
                line(f"{export} in {host}: difference", "≤ 1e-12", f"{difference:.1e}", difference <= 1e-12)
        for host, advice in masses["absent"].items():
            print(f"not run in {host}: {advice}")
        line("checks of FMPy", "clean", "; ".join(masses["invalid"]) or "clean", not masses["invalid"])
        events = masses["events"]
        met = events["met"] == events["told"] == events["true"]
        line("events met, asked every 0.5 s", "12 of 12", f"{events['met']} of {events['true']}", met)
        line("e_rms", "≤ 1e-4", f"{masses['e_rms']:.1e}", masses["e_rms"] <= 1e-4)
        result: dict[str, Any] = {"two_mass": masses}
        for kind in ("source", "core"):
            path = folder / f"masses_2_{kind}.fmu"
            same = rollback(path)
            line(f"rollback ({kind})", "exact", "exact" if same else "not exact", same)
            grown = lives(path, options.lives)
            line(f"{options.lives} lives ({kind})", "< 1 MB", f"{grown:.2f} MB", grown < 1.0)
            result[kind] = {"rollback_exact": same, "growth_mb": grown}
        if not options.quick:
            result["engine"] = engine(folder)
            difference = result["engine"]["difference"]
            line("engine as one FMU: torque, relative", "same", f"{difference:.1e}", difference <= 1e-12)
            result["sanitized"] = sanitized(folder)
            bad = {name: said for name, said in result["sanitized"].items() if said != "clean"}
            line("examples as C under sanitizers", "clean", ", ".join(bad) or "clean", not bad)
    result["known_misses"] = misses
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
