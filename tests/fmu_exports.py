"""FMUs that other tools make when the tests run: pythonfmu (FMI 2), pythonfmu3 and casadi (FMI 3)."""

from __future__ import annotations

import os
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from fmu_maker import SUFFIX, compile_library
from upbeat.units.fmi.library import Platform

LAG2 = """
from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Integer, Real

class Lag(Fmi2Slave):
    \"\"\"x' = (k u - x) / T by explicit Euler, one step per step.\"\"\"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.u, self.y, self.k, self.T, self.n = 0.0, 0.0, 2.0, 0.5, 0
        self.register_variable(Real("u", causality=Fmi2Causality.input, start=0.0))
        self.register_variable(Real("y", causality=Fmi2Causality.output))
        parameter = {"causality": Fmi2Causality.parameter, "variability": Fmi2Variability.tunable}
        for name, start in (("k", 2.0), ("T", 0.5)):
            self.register_variable(Real(name, start=start, **parameter))
        self.register_variable(Integer("n", causality=Fmi2Causality.output))

    def do_step(self, t, h):
        self.y += h * (self.k * self.u - self.y) / self.T
        self.n += 1
        return True
"""
LAG3 = """
from pythonfmu3 import Fmi3Causality, Fmi3Initial, Fmi3Slave, Fmi3Variability, Float64, Int32

class Lag(Fmi3Slave):
    \"\"\"x' = (k u - x) / T by explicit Euler, one step per step.\"\"\"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.time, self.u, self.y, self.k, self.T, self.n = 0.0, 0.0, 0.0, 2.0, 0.5, 0
        continuous, tunable = Fmi3Variability.continuous, Fmi3Variability.tunable
        self.register_variable(Float64("time", causality=Fmi3Causality.independent, variability=continuous))
        self.register_variable(Float64("u", causality=Fmi3Causality.input, start=0.0))
        self.register_variable(Float64("y", causality=Fmi3Causality.output, variability=continuous))
        for name, start in (("k", 2.0), ("T", 0.5)):
            self.register_variable(
                Float64(name, causality=Fmi3Causality.parameter, variability=tunable, start=start)
            )
        count = Int32("n", causality=Fmi3Causality.output, variability=Fmi3Variability.discrete)
        self.register_variable(count)

    def do_step(self, t, h):
        self.y += h * (self.k * self.u - self.y) / self.T
        self.n += 1
        return True
"""


def python_fmu(version: int, folder: Path, text: str = "", name: str = "lag", state: bool = True) -> Path:
    """An FMU of pythonfmu or pythonfmu3: a lag of first order unless the text of a script is given.

    In a process that loads both, their scripts must not have the same name: Python has one of each module.
    """
    module = pytest.importorskip("pythonfmu" if version == 2 else "pythonfmu3").__name__
    path = folder / f"{name}{version}py.fmu"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            script = Path(inside) / f"{name}{version}.py"
            script.write_text(text or (LAG2 if version == 2 else LAG3))
            options = {"canGetAndSetFMUstate" if version == 2 else "canGetAndSetFMUState": state}
            options |= {"canSerializeFMUstate" if version == 2 else "canSerializeFMUState": state}
            builder = import_module(f"{module}.builder").FmuBuilder
            Path(builder.build_FMU(script, dest=Path(inside) / "made", **options)).replace(path)
    return path


def casadi_fmu(folder: Path) -> Path:
    """x' = v, v' = -k x + u, y = x² + u from x = 1, with k = 4: model exchange with exact derivatives."""
    ca = pytest.importorskip("casadi")
    headers = Path(pytest.importorskip("fmpy").__file__).parent / "c-code"
    path = folder / "spring3ca.fmu"
    if path.exists():
        return path
    dae = ca.DaeBuilder("spring")
    x = dae.add("x", "output", {"start": 1.0, "initial": "exact"})
    v = dae.add("v", "output", {"start": 0.0, "initial": "exact"})
    u = dae.add("u", "input", {"start": 0.0})
    k = dae.add("k", "parameter", "tunable", {"start": 4.0})
    y = dae.add("y", "output", {})
    dae.eq(dae.der(x), v)
    dae.eq(dae.der(v), -k * x + u)
    dae.eq(y, x * x + u)
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        before = Path.cwd()
        os.chdir(inside)  # casadi writes where it is
        try:
            files = dae.export_fmu({})
            sources = [Path(name) for name in files if name.endswith(".c")]
            library = compile_library(
                sources, Path(f"spring{SUFFIX}"), f"-I{headers}", "-I.", "-D_GNU_SOURCE"
            )
            with zipfile.ZipFile("packed", "w") as archive:
                for name, where in files.items():
                    archive.write(name, os.path.normpath(where))
                archive.write(library, f"binaries/{Platform.here().folders(3)[0]}/{library.name}")
            Path("packed").replace(path)
        finally:
            os.chdir(before)
    return path
