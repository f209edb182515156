"""FMUs for tests: the C sources in tests/fmus, compiled and packed for FMI 2 or 3 with their descriptions."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from upbeat.units.fmi.binaries import Platform

SOURCES = Path(__file__).parent / "fmus"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@dataclass(frozen=True)
class Var:
    """A real variable; its value reference is its position in the model."""

    name: str
    causality: str = "local"
    variability: str = "continuous"
    initial: str | None = None
    start: float | None = None
    derivative: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Fmu:
    """What the description of a model in tests/fmus says. `depends` has the computed variables."""

    name: str
    variables: tuple[Var, ...]
    depends: dict[str, tuple[str, ...]]

    def position(self, name: str) -> int:
        return [variable.name for variable in self.variables].index(name)


_TIME = Var("time", "independent")

LINEAR = Fmu(
    "linear",
    (
        _TIME,
        Var("a", "parameter", "tunable", "exact", -2.0, unit="1/s"),
        Var("b", "parameter", "tunable", "exact", 1.0),
        Var("c", "parameter", "tunable", "exact", 3.0),
        Var("d", "parameter", "tunable", "exact", 0.5),
        Var("u", "input", start=0.0),
        Var("x", initial="exact", start=1.0),
        Var("der(x)", derivative="x"),
        Var("y", "output"),
    ),
    {"der(x)": ("x", "u"), "y": ("x", "u")},
)
GAIN = Fmu(
    "gain",
    (_TIME, Var("k", "parameter", "fixed", "exact", 2.0), Var("u", "input", start=0.0), Var("y", "output")),
    {"y": ("u",)},
)


def description(fmu: Fmu, version: int) -> str:
    """modelDescription.xml of this model."""
    return _fmi2(fmu) if version == 2 else _fmi3(fmu)


def _attributes(pairs: dict[str, object]) -> str:
    return "".join(f" {key}={quoteattr(str(value))}" for key, value in pairs.items() if value is not None)


_UNITS = '<UnitDefinitions><Unit name="1/s"><BaseUnit s="-1"/></Unit></UnitDefinitions>'
_EXPERIMENT = '<DefaultExperiment startTime="0" stopTime="2" stepSize="0.01"/>'


def _fmi2(fmu: Fmu) -> str:
    variables, unknowns = [], {}
    for position, v in enumerate(fmu.variables):
        state = None if v.derivative is None else fmu.position(v.derivative) + 1
        outer = {"name": v.name, "valueReference": position, "causality": v.causality}
        outer |= {"variability": v.variability, "initial": v.initial}
        real = _attributes({"start": v.start, "derivative": state, "unit": v.unit})
        variables.append(f"<ScalarVariable{_attributes(outer)}><Real{real}/></ScalarVariable>")
        if v.name in fmu.depends:
            knowns = " ".join(str(fmu.position(name) + 1) for name in fmu.depends[v.name])
            unknown = f'<Unknown index="{position + 1}" dependencies="{knowns}"/>'
            unknowns.setdefault("Derivatives" if v.derivative else "Outputs", []).append(unknown)
            if v.derivative or v.causality == "output":
                unknowns.setdefault("InitialUnknowns", []).append(f'<Unknown index="{position + 1}"/>')
    structure = "".join(
        f"<{part}>{''.join(unknowns[part])}</{part}>"
        for part in ("Outputs", "Derivatives", "InitialUnknowns")
        if part in unknowns
    )
    flags = f'modelIdentifier="{fmu.name}" canGetAndSetFMUstate="true" canSerializeFMUstate="true" '
    flags += 'providesDirectionalDerivative="true"'
    co_simulation = 'canHandleVariableCommunicationStepSize="true" canInterpolateInputs="true" '
    co_simulation += 'maxOutputDerivativeOrder="1"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<fmiModelDescription fmiVersion="2.0" modelName="{fmu.name}" guid="{{{fmu.name}}}" '
        'numberOfEventIndicators="0">\n'
        f'<ModelExchange {flags} completedIntegratorStepNotNeeded="true"/>\n'
        f"<CoSimulation {flags} {co_simulation}/>\n"
        f'{_UNITS}\n<LogCategories><Category name="logStatusError"/></LogCategories>\n{_EXPERIMENT}\n'
        f"<ModelVariables>\n{chr(10).join(variables)}\n</ModelVariables>\n"
        f"<ModelStructure>{structure}</ModelStructure>\n</fmiModelDescription>\n"
    )


def _fmi3(fmu: Fmu) -> str:
    variables, unknowns = [], {"Output": [], "ContinuousStateDerivative": [], "InitialUnknown": []}
    for position, v in enumerate(fmu.variables):
        state = None if v.derivative is None else fmu.position(v.derivative)
        own = {"name": v.name, "valueReference": position, "causality": v.causality}
        own |= {"variability": v.variability, "initial": v.initial, "unit": v.unit}
        own |= {"start": v.start, "derivative": state}
        variables.append(f"<Float64{_attributes(own)}/>")
        if v.name in fmu.depends:
            knowns = " ".join(str(fmu.position(name)) for name in fmu.depends[v.name])
            part = "ContinuousStateDerivative" if v.derivative else "Output"
            unknowns[part].append(f'<{part} valueReference="{position}" dependencies="{knowns}"/>')
            unknowns["InitialUnknown"].append(f'<InitialUnknown valueReference="{position}"/>')
    flags = f'modelIdentifier="{fmu.name}" canGetAndSetFMUState="true" canSerializeFMUState="true" '
    flags += 'providesDirectionalDerivatives="true" providesAdjointDerivatives="true"'
    co_simulation = 'canHandleVariableCommunicationStepSize="true" maxOutputDerivativeOrder="1"'
    structure = "".join(element for part in unknowns.values() for element in part)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<fmiModelDescription fmiVersion="3.0" modelName="{fmu.name}" instantiationToken="{{{fmu.name}}}">\n'
        f"<ModelExchange {flags}/>\n<CoSimulation {flags} {co_simulation}/>\n"
        f'{_UNITS}\n<LogCategories><Category name="logStatusError"/></LogCategories>\n{_EXPERIMENT}\n'
        f"<ModelVariables>\n{chr(10).join(variables)}\n</ModelVariables>\n"
        f"<ModelStructure>{structure}</ModelStructure>\n</fmiModelDescription>\n"
    )


def make(fmu: Fmu, version: int, folder: Path) -> Path:
    """Compile and pack an FMU into `folder`; its path."""
    assert COMPILER, "there is no C compiler"
    suffix = ".dylib" if Platform.here().system == "darwin" else ".so"
    library = folder / f"{fmu.name}{version}{suffix}"
    command = [COMPILER, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command += [
        "-Wno-unused-parameter",
        "-fPIC",
        "-ffp-contract=off",
        "-shared",
        "-fvisibility=hidden",
        f"-I{SOURCES}",
        "-o",
        str(library),
    ]
    command += [str(SOURCES / f"{fmu.name}.c"), str(SOURCES / f"fmi{version}.c")]
    subprocess.run(command, check=True, timeout=120)
    path = folder / f"{fmu.name}{version}.fmu"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", description(fmu, version))
        archive.write(library, f"binaries/{Platform.here().folders(version)[0]}/{fmu.name}{suffix}")
    return path
