"""FMUs that are made when the tests run: compiled from C, and exported by pythonfmu and pythonfmu3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PYTHONFMU = """
from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Boolean, Integer, Real, String

class Exported(Fmi2Slave):
    author = "A. Person"
    description = "a model in Python"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.u, self.y, self.n, self.on, self.text, self.k = 1.5, 0.0, 3, True, "t", 2.0
        self.register_variable(Real("u", causality=Fmi2Causality.input, start=1.5))
        self.register_variable(Real("y", causality=Fmi2Causality.output))
        self.register_variable(
            Real("k", causality=Fmi2Causality.parameter, variability=Fmi2Variability.tunable, start=2.0)
        )
        self.register_variable(Integer("n", causality=Fmi2Causality.output))
        self.register_variable(Boolean("on", causality=Fmi2Causality.output))
        self.register_variable(String("text", causality=Fmi2Causality.output))

    def do_step(self, t, h):
        self.y = self.k * self.u
        return True
"""
PYTHONFMU3 = """
from pythonfmu3 import Fmi3Causality, Fmi3Slave, Fmi3Variability, Fmi3Initial
from pythonfmu3 import Boolean, Float64, Int32, String, UInt64, Dimension, ModelExchange, CoSimulation

class Exported(Fmi3Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.time, self.u, self.x, self.dx, self.n, self.on = 0.0, 1.5, 1.0, 0.0, 3, True
        time = Float64("time", causality=Fmi3Causality.independent, variability=Fmi3Variability.continuous)
        self.register_variable(time)
        self.register_variable(Float64("u", causality=Fmi3Causality.input, start=1.5))
        self.register_variable(
            Float64("x", causality=Fmi3Causality.output, start=1.0, variability=Fmi3Variability.continuous,
                    initial=Fmi3Initial.exact)
        )
        self.register_variable(
            Float64("dx", causality=Fmi3Causality.local, variability=Fmi3Variability.continuous, derivative=3)
        )
        self.register_variable(
            Int32("n", causality=Fmi3Causality.parameter, variability=Fmi3Variability.fixed)
        )
        self.register_variable(Boolean("on", causality=Fmi3Causality.output))

    def do_step(self, t, h):
        return True
"""


@pytest.fixture(scope="session")
def compiled(fmu: Callable[[str, int], Path]) -> dict[tuple[str, int], Path]:
    """The two plainest FMUs of tests/fmus by name and version."""
    return {(name, version): fmu(name, version) for name in ("linear", "gain") for version in (2, 3)}


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """An FMU of pythonfmu (FMI 2) and one of pythonfmu3, by version."""
    from pythonfmu.builder import FmuBuilder
    from pythonfmu3.builder import FmuBuilder as FmuBuilder3

    found = {}
    for version, builder, text in ((2, FmuBuilder, PYTHONFMU), (3, FmuBuilder3, PYTHONFMU3)):
        folder = tmp_path_factory.mktemp(f"exported{version}")
        # FMUs of Python models share the host's modules: these need names of their own.
        script = folder / f"exported{version}.py"
        script.write_text(text)
        found[version] = Path(builder.build_FMU(script, dest=folder))
    return found
