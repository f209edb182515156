"""Which library of an FMU belongs to which machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from fmu_maker import description
from fmu_models import GAIN
from upbeat.cli.main import main
from upbeat.core.errors import FileProblem
from upbeat.units.fmi.library import Platform, find_library

LINUX = Platform("linux", "x86_64")


def fmu(folder: Path, *files: str) -> Path:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.mark.parametrize(
    ("system", "machine", "two", "three"),
    [
        ("linux", "x86_64", "linux64/m.so", "x86_64-linux/m.so"),
        ("linux", "x86", "linux32/m.so", "x86-linux/m.so"),
        ("linux", "aarch64", "aarch64-linux/m.so", "aarch64-linux/m.so"),
        ("darwin", "x86_64", "darwin64/m.dylib", "x86_64-darwin/m.dylib"),
        ("darwin", "aarch64", "darwin64/m.dylib", "aarch64-darwin/m.dylib"),
        ("windows", "x86_64", "win64/m.dll", "x86_64-windows/m.dll"),
    ],
)
def test_folders(tmp_path: Path, system: str, machine: str, two: str, three: str) -> None:
    folder = fmu(tmp_path, f"binaries/{two}", f"binaries/{three}", "binaries/mips-beos/m.so")
    for version, expected in ((2, two), (3, three)):
        found = find_library(folder, version, "m", Platform(system, machine))
        assert (found.path, found.warnings) == (folder / "binaries" / expected, ())


def test_the_only_library_will_do(tmp_path: Path) -> None:
    folder = fmu(tmp_path, "binaries/linux64/other.so", "binaries/linux64/data.txt")
    found = find_library(folder, 2, "m", LINUX)
    assert found.path.name == "other.so"
    assert found.warnings == ("there is no m.so, so the only library there is taken: other.so",)


def test_the_folder_of_the_other_version_will_do(tmp_path: Path) -> None:
    found = find_library(fmu(tmp_path, "binaries/linux64/m.so"), 3, "m", LINUX)
    assert found.warnings == ("the library is in binaries/linux64, which is FMI 2's",)


def test_several_are_listed(tmp_path: Path) -> None:
    folder = fmu(tmp_path, "binaries/linux64/a.so", "binaries/linux64/b.so")
    with pytest.raises(FileProblem, match=r"none of them is m\.so: linux64/a\.so, linux64/b\.so"):
        find_library(folder, 2, "m", LINUX)


def test_none_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="it has no binaries at all"):
        find_library(tmp_path, 2, "m", LINUX)
    folder = fmu(tmp_path, "binaries/win64/m.dll", "binaries/win32/m.dll", "sources/m.c")
    with pytest.raises(FileProblem, match=r"made for win32, win64\. It has sources"):
        find_library(folder, 2, "m", LINUX)


def test_a_name_is_never_a_path(tmp_path: Path) -> None:
    folder = fmu(tmp_path / "fmu", "binaries/linux64/a.so", "binaries/linux64/b.so")
    (tmp_path / "evil.so").touch()
    with pytest.raises(FileProblem):
        find_library(folder, 2, "../../../evil", LINUX)


@pytest.mark.parametrize("version", [2, 3])
def test_check_says_that_there_is_none(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pump.fmu"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", description(GAIN, version))
        archive.writestr("binaries/mips-beos/gain.so", "")
    assert main(["check", str(path)]) == 3
    said = capsys.readouterr().err
    assert "it cannot run here: the FMU has no library for this machine" in said
    assert "it is made for mips-beos" in said
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"binaries/{Platform.here().folders(version)[0]}/gain.so", "")
    main(["check", str(path)])
    if Platform.here().system == "linux":
        assert "cannot run here" not in "".join(capsys.readouterr())


def test_here() -> None:
    here = Platform.here()
    assert here.folders(3)[0] == f"{here.machine}-{here.system}"
