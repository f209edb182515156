"""FMUs for tests: the C sources in tests/fmus, compiled and packed for FMI 2 or 3 with their descriptions."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import quoteattr

from fmu_models import GAIN, LINEAR, MODELS, Fmu, Var
from upbeat.units.fmi.library import Platform

__all__ = ["COMPILER", "GAIN", "LINEAR", "MODELS", "Fmu", "Var", "compile_library", "description", "make"]

SOURCES = Path(__file__).parent / "fmus"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
SUFFIX = ".dylib" if Platform.here().system == "darwin" else ".so"
_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-parameter"]


def description(fmu: Fmu, version: int) -> str:
    """modelDescription.xml of this model."""
    interfaces, variables, structure, root = _fmi2(fmu) if version == 2 else _fmi3(fmu)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<fmiModelDescription fmiVersion="{version}.0" modelName="{fmu.name}" {root}>\n'
        f"{interfaces}\n{_UNITS}\n{_type_definitions(fmu, version)}{_CATEGORIES}\n{_EXPERIMENT}\n"
        f"<ModelVariables>\n{chr(10).join(variables)}\n</ModelVariables>\n"
        f"<ModelStructure>{structure}</ModelStructure>\n</fmiModelDescription>\n"
    )


_UNITS = (
    '<UnitDefinitions><Unit name="1/s"><BaseUnit s="-1"/></Unit><Unit name="m"><BaseUnit m="1"/></Unit>'
    '<Unit name="m/s"><BaseUnit m="1" s="-1"/></Unit></UnitDefinitions>'
)
_CATEGORIES = "<LogCategories>" + "".join(
    f'<Category name="{name}"/>' for name in ("logStatusError", "logStatusWarning", "logEvents")
)
_CATEGORIES += "</LogCategories>"
_EXPERIMENT = '<DefaultExperiment startTime="0" stopTime="2" stepSize="0.01"/>'


def _attributes(pairs: dict[str, object]) -> str:
    texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in pairs.items()}
    return "".join(
        f" {key}={quoteattr(str(value))}" for key, value in texts.items() if value not in (None, "")
    )


def _element(tag: str, pairs: dict[str, object], inside: str = "") -> str:
    return f"<{tag}{_attributes(pairs)}>{inside}</{tag}>" if inside else f"<{tag}{_attributes(pairs)}/>"


def _type_definitions(fmu: Fmu, version: int) -> str:
    items = next((v.items for v in fmu.variables if v.items), ())
    if not items:
        return ""
    inside = "".join(f'<Item name="{name}" value="{value}"/>' for name, value in items)
    if version == 2:
        text = f'<SimpleType name="Mode"><Enumeration>{inside}</Enumeration></SimpleType>'
    else:
        text = f'<EnumerationType name="Mode">{inside}</EnumerationType>'
    return f"<TypeDefinitions>{text}</TypeDefinitions>\n"


def _token(fmu: Fmu) -> str:
    return f"{{{fmu.source or fmu.name}}}"


def _fmi2(fmu: Fmu) -> tuple[str, list[str], str, str]:
    variables: list[str] = []
    unknowns: dict[str, list[str]] = {"Outputs": [], "Derivatives": [], "InitialUnknowns": []}
    names = {"Float64": "Real", "Int32": "Integer"}
    for position, v in enumerate(fmu.variables):
        state = None if v.derivative is None else fmu.position(v.derivative) + 1
        outer = {"name": v.name, "valueReference": position, "causality": v.causality}
        outer |= {"variability": v.variability, "initial": v.initial}
        inner: dict[str, object] = {"start": v.start, "derivative": state, "unit": v.unit}
        inner |= {"declaredType": "Mode" if v.items else None, "reinit": v.more.get("reinit")}
        text = _element(names.get(v.type, v.type), inner)
        if v.type == "String" and v.start == "":
            text = '<String start=""/>'
        variables.append(_element("ScalarVariable", outer, text))
        if v.name in fmu.depends:
            knowns = " ".join(str(fmu.position(name) + 1) for name in fmu.depends[v.name])
            part = "Derivatives" if v.derivative else "Outputs"
            unknowns[part].append(f'<Unknown index="{position + 1}" dependencies="{knowns}"/>')
            if v.initial is None:
                unknowns["InitialUnknowns"].append(f'<Unknown index="{position + 1}"/>')
    structure = "".join(f"<{part}>{''.join(found)}</{part}>" for part, found in unknowns.items() if found)
    common = {
        "modelIdentifier": fmu.name,
        "canGetAndSetFMUstate": fmu.state,
        "canSerializeFMUstate": fmu.state,
    }
    common |= {
        "providesDirectionalDerivative": fmu.derivatives,
        "canBeInstantiatedOnlyOncePerProcess": fmu.once,
    }
    exchange = common | {"completedIntegratorStepNotNeeded": True}
    stepped = common | {"canHandleVariableCommunicationStepSize": fmu.variable_step}
    stepped |= {"canInterpolateInputs": fmu.derivatives, "maxOutputDerivativeOrder": int(fmu.derivatives)}
    interfaces = _element("ModelExchange", exchange) + "\n" if fmu.exchange else ""
    root = f'guid="{_token(fmu)}" numberOfEventIndicators="{len(fmu.indicators)}"'
    return interfaces + _element("CoSimulation", stepped), variables, structure, root


def _fmi3(fmu: Fmu) -> tuple[str, list[str], str, str]:
    variables: list[str] = []
    parts = ("Output", "ContinuousStateDerivative", "ClockedState", "InitialUnknown", "EventIndicator")
    unknowns: dict[str, list[str]] = {part: [] for part in parts}
    for position, v in enumerate(fmu.variables):
        state = None if v.derivative is None else fmu.position(v.derivative)
        own: dict[str, object] = {"name": v.name, "valueReference": position, "causality": v.causality}
        own |= {"variability": v.variability, "initial": v.initial, "unit": v.unit, "start": v.start}
        own |= {"derivative": state, "declaredType": "Mode" if v.items else None} | v.more
        sizes = "".join(f'<Dimension valueReference="{fmu.position(name)}"/>' for name in v.dimensions)
        if v.type in ("String", "Binary") and own.pop("start") is not None:
            sizes += f'<Start value="{v.start}"/>'
        variables.append(_element(v.type, own, sizes))
        if v.name in fmu.depends:
            knowns = " ".join(str(fmu.position(name)) for name in fmu.depends[v.name])
            part = "ContinuousStateDerivative" if v.derivative else "Output"
            unknowns[part].append(f'<{part} valueReference="{position}" dependencies="{knowns}"/>')
            if v.type != "Clock" and "clocks" not in v.more and v.initial is None:
                unknowns["InitialUnknown"].append(f'<InitialUnknown valueReference="{position}"/>')
        if "previous" in v.more:
            unknowns["ClockedState"].append(f'<ClockedState valueReference="{position}"/>')
        if v.name in fmu.indicators:
            unknowns["EventIndicator"].append(f'<EventIndicator valueReference="{position}"/>')
    structure = "".join(element for part in unknowns.values() for element in part)
    common = {
        "modelIdentifier": fmu.name,
        "canGetAndSetFMUState": fmu.state,
        "canSerializeFMUState": fmu.state,
    }
    common |= {
        "providesDirectionalDerivatives": fmu.derivatives and not fmu.adjoint,
        "providesAdjointDerivatives": fmu.derivatives,
    }
    common |= {"canBeInstantiatedOnlyOncePerProcess": fmu.once}
    stepped = common | {"canHandleVariableCommunicationStepSize": fmu.variable_step}
    stepped |= {"maxOutputDerivativeOrder": int(fmu.derivatives), "hasEventMode": fmu.event_mode}
    stepped |= {"mightReturnEarlyFromDoStep": fmu.event_mode, "providesIntermediateUpdate": fmu.intermediate}
    stepped |= {"canReturnEarlyAfterIntermediateUpdate": fmu.intermediate}
    interfaces = _element("ModelExchange", common) + "\n" if fmu.exchange else ""
    root = f'instantiationToken="{_token(fmu)}"'
    return interfaces + _element("CoSimulation", stepped), variables, structure, root


def compile_library(sources: list[Path], library: Path, *options: str) -> Path:
    """A shared library from C sources."""
    assert COMPILER, "there is no C compiler"
    command = [COMPILER, "-std=c99", "-O1", "-fPIC", "-ffp-contract=off", "-fstack-protector-all", "-shared"]
    subprocess.run(
        [*command, *options, "-o", str(library), *map(str, sources), "-lm"], check=True, timeout=120
    )
    return library


def make(fmu: Fmu | str, version: int, folder: Path) -> Path:
    """The FMU in `folder`, compiled and packed unless it is there already; its path.

    Several processes may do this at a time: the finished file gets its name in one go.
    """
    fmu = MODELS[fmu, version] if isinstance(fmu, str) else fmu
    path = folder / f"{fmu.name}{version}.fmu"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        library = Path(inside) / f"{fmu.library or fmu.name}{SUFFIX}"
        sources = [SOURCES / f"{fmu.source or fmu.name}.c", SOURCES / f"fmi{version}.c"]
        defines = [f"-D{define}" for define in fmu.defines]
        compile_library(sources, library, *_WARNINGS, "-fvisibility=hidden", f"-I{SOURCES}", *defines)
        packed = Path(inside) / "packed"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("modelDescription.xml", description(fmu, version))
            archive.write(library, f"binaries/{Platform.here().folders(version)[0]}/{library.name}")
        with suppress(FileExistsError):  # the first one stays: others may have begun to use it
            os.link(packed, path)
    return path
