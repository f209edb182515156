"""SSPs for tests: archives from the text of their SSD, with FMUs and other files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

NAMESPACES = " ".join(
    f'xmlns:{prefix}="http://ssp-standard.org/SSP1/SystemStructure{name}"'
    for prefix, name in {
        "ssc": "Common",
        "ssd": "Description",
        "ssv": "ParameterValues",
        "ssm": "ParameterMapping",
        "ssb": "SignalDictionary",
    }.items()
)


def ssd(
    system: str, *, rest: str = '<ssd:DefaultExperiment startTime="0" stopTime="1"/>', version: str = "1.0"
) -> str:
    """A whole SSD; `system` is what stands inside the root system, called `root`."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ssd:SystemStructureDescription {NAMESPACES} version="{version}" name="test">\n'
        f'<ssd:System name="root">\n{system}\n</ssd:System>\n{rest}\n</ssd:SystemStructureDescription>\n'
    )


def connectors(**kinds: str) -> str:
    """``u="input"``; with a type and a unit: ``u="input Real mm"``."""
    found = []
    for name, text in kinds.items():
        kind, *rest = text.split()
        inner = ""
        if rest:
            unit = f' unit="{rest[1]}"' if len(rest) > 1 else ""
            inner = f"<ssc:{rest[0]}{unit}/>"
        found.append(f'<ssd:Connector name="{name}" kind="{kind}">{inner}</ssd:Connector>')
    return f"<ssd:Connectors>{''.join(found)}</ssd:Connectors>"


def component(name: str, source: str, inner: str = "", **kinds: str) -> str:
    """A component with connectors; `inner` comes behind them."""
    return f'<ssd:Component name="{name}" source="{source}">{connectors(**kinds)}{inner}</ssd:Component>'


def connection(start: str, end: str, inner: str = "", **attributes: str) -> str:
    """``connection("a.y", "b.u")``; a name without a dot is a connector of the system."""
    ends = {}
    for side, text in (("start", start), ("end", end)):
        element, _, connector = text.rpartition(".")
        ends |= {f"{side}Element": element} if element else {}
        ends[f"{side}Connector"] = connector
    pairs = " ".join(f'{key}="{value}"' for key, value in (ends | attributes).items())
    return f"<ssd:Connection {pairs}>{inner}</ssd:Connection>"


def elements(*parts: str) -> str:
    return f"<ssd:Elements>{''.join(parts)}</ssd:Elements>"


def connections(*parts: str) -> str:
    return f"<ssd:Connections>{''.join(parts)}</ssd:Connections>"


def parameter_set(*, rest: str = "", version: str = "1.0", **values: object) -> str:
    """An SSV of real parameters; ``a__k`` is the name ``a.k``."""
    found = []
    for name, value in values.items():
        number, *unit = str(value).split()
        said = f' unit="{unit[0]}"' if unit else ""
        text = name.replace("__", ".")
        found.append(f'<ssv:Parameter name="{text}"><ssv:Real value="{number}"{said}/></ssv:Parameter>')
    return (
        f'<ssv:ParameterSet {NAMESPACES} version="{version}" name="set">'
        f"<ssv:Parameters>{''.join(found)}</ssv:Parameters>{rest}</ssv:ParameterSet>"
    )


def bindings(*parts: str) -> str:
    return f"<ssd:ParameterBindings>{''.join(parts)}</ssd:ParameterBindings>"


def binding(content: str, *, mapping: str = "", prefix: str = "") -> str:
    """A binding with its values inline."""
    said = f' prefix="{prefix}"' if prefix else ""
    values = f"<ssd:ParameterValues>{content}</ssd:ParameterValues>"
    inner = f"<ssd:ParameterMapping>{mapping}</ssd:ParameterMapping>" if mapping else ""
    return f"<ssd:ParameterBinding{said}>{values}{inner}</ssd:ParameterBinding>"


def mapping(*entries: str) -> str:
    return f'<ssm:ParameterMapping {NAMESPACES} version="1.0">{"".join(entries)}</ssm:ParameterMapping>'


def units(prefix: str, **bases: str) -> str:
    """``units("ssd", mm="m 0.001", degC="K 1 273.15")``: a base unit, a factor, an offset."""
    found = []
    for name, text in bases.items():
        base, factor, offset = (text + " 1 0").split()[:3] if " " not in text else (text + " 0").split()[:3]
        inner = f'<ssc:BaseUnit {base}="1" factor="{factor}" offset="{offset}"/>'
        found.append(f'<ssc:Unit name="{name}">{inner}</ssc:Unit>')
    return f"<{prefix}:Units>{''.join(found)}</{prefix}:Units>"


def pack(path: Path, text: str, files: Mapping[str, Path | str | bytes] | None = None) -> Path:
    """The archive; its path."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("SystemStructure.ssd", text)
        for name, content in (files or {}).items():
            if isinstance(content, Path):
                archive.write(content, name)
            else:
                archive.writestr(name, content)
    return path


def measured(fmu: Path, path: Path, **units: str) -> Path:
    """A copy of an FMU (FMI 2) whose variables have these units: m or mm."""
    known = {"mm": 'm="1" factor="0.001"'}
    return described(fmu, path, known, **{name: f'unit="{unit}"' for name, unit in units.items()})


def described(fmu: Path, path: Path, units: Mapping[str, str], **attributes: str) -> Path:
    """A copy of an FMU that defines other `units`, and whose variables have further attributes."""
    with zipfile.ZipFile(fmu) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    text = content["modelDescription.xml"].decode()
    known = "".join(f'<Unit name="{name}"><BaseUnit {base}/></Unit>' for name, base in units.items())
    text = text.replace("<UnitDefinitions>", f"<UnitDefinitions>{known}")  # of two, the first counts
    for name, added in attributes.items():
        # FMI 2 has them in an element inside of the variable, FMI 3 in the variable itself.
        text = re.sub(
            rf'(<Float64(?= [^>]*name="{name}")|name="{name}"[^>]*><Real)', rf"\1 {added}", text, count=1
        )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, text if name == "modelDescription.xml" else data)
    return path
