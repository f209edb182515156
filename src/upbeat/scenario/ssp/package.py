"""The files of an SSP: unpacked safely, found by their URIs, read and put together."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from upbeat.core.atomic import check_regular
from upbeat.core.errors import FileProblem, InvalidInput, cannot_read, suggest
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Description, System
from upbeat.scenario.ssp.structure import StructureReader
from upbeat.units.fmi import xml
from upbeat.units.fmi.archive import Unpacked, unpack
from upbeat.units.fmi.description.attributes import Attributes, shown

DEFAULT = "SystemStructure.ssd"
_DEEPEST = 10
_LIMITS = xml.Limits(size=64 << 20, elements=1_000_000)

_unpacked: dict[tuple[str, int, int], Unpacked] = {}
"""Archives stay unpacked until the process ends: the FMUs in them are needed when a run begins."""


def read_package(path: str | os.PathLike[str], variant: str | None = None) -> tuple[Description, Findings]:
    """The system in an .ssp, an .ssd or a folder with one, and what was found on the way.

    `variant` names another SSD of the archive than SystemStructure.ssd. Raises `ScenarioError` with all
    problems at once, `FileProblem` if there is nothing to read.
    """
    path = Path(path)
    findings = Findings(str(path))
    file = ssd_of(path, variant)
    made = _Package(file.parent, findings, (), path).description(file)
    findings.raise_if_any()
    assert made is not None, "without a description there is a finding"
    return made, findings


def ssd_of(path: str | os.PathLike[str], variant: str | None = None) -> Path:
    """The SSD itself, unpacked."""
    path = Path(path)
    folder, name = _opened(path, variant)
    file = folder / name
    if not file.is_file():
        others = sorted(other.name for other in folder.glob("*.ssd"))
        hint = suggest(name, others, "SSDs") if others else "It is no SSP."
        raise FileProblem(f"{path}: there is no {name} in it. {hint}")
    return file


def _opened(path: Path, variant: str | None) -> tuple[Path, str]:
    """The folder with the files, and the name of the SSD; ``system.ssp#Other.ssd`` names both."""
    archive, mark, fragment = str(path).rpartition("#")
    if mark and variant is None and not path.exists():
        path, variant = Path(archive), fragment
    if path.suffix.lower() == ".ssd" and not path.is_dir():
        if variant is not None:
            raise InvalidInput(f"{path} is one SSD: a variant can be chosen of an .ssp only")
        return path.parent, path.name
    name = variant or DEFAULT
    if Path(name).name != name:
        raise InvalidInput(f"'{name}' is not the name of an SSD: variants lie at the top of an SSP")
    return _kept(path), name


def _kept(path: Path) -> Path:
    try:
        status = path.stat()
    except OSError as error:
        raise cannot_read(path, error) from None
    except ValueError:
        raise FileProblem(f"{str(path)!r} is not the name of a file") from None
    key = (str(path.resolve()), status.st_mtime_ns, status.st_size)
    if key not in _unpacked or not _unpacked[key].path.is_dir():
        _unpacked[key] = unpack(path)
    return _unpacked[key].path


class _Package:
    """One folder of files; `outer` are the SSDs that use it, for those that use themselves.

    URIs begin at `base`, the folder of the SSD that has them, and do not leave the folder of all files.
    """

    def __init__(
        self,
        folder: Path,
        findings: Findings,
        outer: tuple[Path, ...],
        source: Path,
        base: Path | None = None,
    ) -> None:
        self._folder = folder.resolve()
        self._base = self._folder if base is None else base.resolve()
        self._findings = findings
        self._outer = outer
        self._source = source

    def description(self, file: Path) -> Description | None:
        findings = self._findings.within(file.name)
        root = self._read(file, findings)
        outer = (*self._outer, file.resolve())
        inner = _Package(self._folder, findings, outer, self._source, file.parent)
        return None if root is None else StructureReader(inner, findings).read(root)

    # ---------------------------------------------------------------- what a reader asks for

    def document(self, uri: str, findings: Findings) -> xml.Element | None:
        file = self._find(uri, findings)
        return None if file is None else self._read(file, findings)

    def inside(self, fmu: Path, uri: str, findings: Findings) -> xml.Element | None:
        try:
            folder = _kept(fmu)
        except FileProblem as error:
            findings.error(0, "", str(error))
            return None
        return _Package(folder, findings, self._outer, fmu).document(uri, findings)

    def fmu(self, uri: str, at: Attributes) -> Path | None:
        return self._find(uri, self._findings, at)

    def nested(self, uri: str, at: Attributes) -> System | None:
        uri, _, variant = uri.partition("#")
        file = self._find(uri, self._findings, at)
        if file is None:
            return None
        if len(self._outer) >= _DEEPEST:
            at.error(f"SSPs are nested more than {_DEEPEST} deep")
            return None
        package = self
        if file.suffix.lower() != ".ssd" or file.is_dir():
            try:
                folder = _kept(file)
            except FileProblem as error:
                at.error(str(error))
                return None
            package = _Package(folder, self._findings, self._outer, file)
            found = package._find(variant or DEFAULT, self._findings, at)
            if found is None:
                return None
            file = found
        if file.resolve() in self._outer:
            at.error("it contains itself")
            return None
        description = package.description(file)
        return None if description is None else description.system

    # ---------------------------------------------------------------- files

    def _find(self, uri: str, findings: Findings, at: Attributes | None = None) -> Path | None:
        """The file that a URI means; None, and an error, if that is none of ours."""
        try:
            file, why = self._resolved(uri)
        except (ValueError, OSError) as error:
            file, why = None, f"'{shown(uri)}' is not a URI: {error}"
        if why:
            where, line = ("", 0) if at is None else (at.where, at.element.line)
            findings.error(line, where, why)
        return file

    def _resolved(self, uri: str) -> tuple[Path | None, str]:
        parts = urlsplit(uri)
        if parts.scheme or parts.netloc:
            return None, f"'{shown(uri)}' lies elsewhere: only files inside of the SSP are used"
        name = unquote(parts.path)
        if Path(name).is_absolute():
            return None, f"'{shown(uri)}' leads out of the SSP"
        file = (self._base / name).resolve()
        if not file.is_relative_to(self._folder) or not file.exists():
            # Many tools mean the folder of the whole archive, wherever the SSD lies in it.
            from_the_top = (self._folder / name).resolve()
            file = from_the_top if from_the_top.exists() or file == from_the_top else file
        if not file.is_relative_to(self._folder):
            return None, f"'{shown(uri)}' leads out of the SSP"
        if not name or not file.exists():
            return None, f"there is no file '{shown(uri)}' in the SSP"
        return file, ""

    def _read(self, file: Path, findings: Findings) -> xml.Element | None:
        try:
            check_regular(file)
            data = file.read_bytes() if file.stat().st_size <= _LIMITS.size else bytes(_LIMITS.size + 1)
            return xml.parse(data, file.name, _LIMITS)
        except OSError as error:
            findings.error(0, "", f"it cannot be read: {error.strerror or error}")
        except FileProblem as error:
            findings.error(0, "", str(error))
        return None
