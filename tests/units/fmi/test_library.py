"""Libraries that lack something: what the message names, and what still works."""

from __future__ import annotations

import ctypes
import logging
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from fmu_maker import COMPILER, SUFFIX
from upbeat.core.errors import FileProblem
from upbeat.units.fmi.archive import unpack
from upbeat.units.fmi.description import InterfaceKind, read_description
from upbeat.units.fmi.instance import FmuError, instantiate
from upbeat.units.fmi.library import Platform, load

CS = InterfaceKind.CO_SIMULATION
LINUX = pytest.mark.skipif(Platform.here().system != "linux", reason="the words of Linux's loader")


def place(folder: Path, name: str = "model") -> Path:
    """Where the library of an FMU of FMI 2 in `folder` belongs."""
    path = folder / "binaries" / Platform.here().folders(2)[0] / f"{name}{SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def build(library: Path, text: str, *options: str) -> None:
    """Compile a library from C text."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", str(library), *options]
    subprocess.run(command, input=text.encode(), check=True, timeout=60)


def test_a_library_is_loaded_once(tmp_path: Path) -> None:
    build(place(tmp_path), "int fmi2Reset(void* c) { return 0; }")
    first = load(tmp_path, 2, "model")
    assert load(tmp_path, 2, "model") is first
    assert first.address("fmi2Reset") != 0
    assert first.address("fmi2Terminate") == 0


def test_names_may_begin_with_the_model_identifier(tmp_path: Path) -> None:
    build(place(tmp_path), "int model_fmi2Reset(void* c) { return 0; }")
    assert load(tmp_path, 2, "model").address("fmi2Reset") != 0


def test_another_file_name_is_taken_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(place(tmp_path, "other"), "int fmi2Reset(void* c) { return 0; }")
    with caplog.at_level(logging.WARNING, "upbeat.fmu"):
        load(tmp_path, 2, "model")
    assert f"the only library there is taken: other{SUFFIX}" in caplog.text


def test_no_library_for_this_machine(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no library for this machine"):
        load(tmp_path, 2, "model")


@LINUX
def test_a_dependency_that_is_missing_is_named(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "libabsent.so"
    build(other, "int absent(void) { return 1; }")
    text = "int absent(void); int fmi2Reset(void* c) { return absent(); }"
    build(place(tmp_path), text, str(other))
    other.unlink()
    with pytest.raises(FmuError, match=r"needs .*libabsent.so.*LD_LIBRARY_PATH"):
        load(tmp_path, 2, "model")


@LINUX
def test_a_dependency_in_the_same_folder_is_found(tmp_path: Path) -> None:
    helper = place(tmp_path, "libhelper")
    build(helper, "int helper(void) { return 7; }", "-Wl,-soname,libhelper.so")
    text = "int helper(void); int fmi2Reset(void* c) { return helper(); }"
    build(place(tmp_path), text, str(helper))
    library = load(tmp_path, 2, "model")
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(library.address("fmi2Reset"))(None) == 7


@LINUX
def test_an_undefined_symbol_is_named(tmp_path: Path) -> None:
    build(place(tmp_path), "int nowhere(void); int fmi2Reset(void* c) { return nowhere(); }")
    with pytest.raises(FmuError, match=r"symbol nowhere.*forgot to link"):
        load(tmp_path, 2, "model")


@LINUX
@pytest.mark.parametrize("data", [b"", b"not a library at all" * 20, b"\x7fELF" + bytes(200)])
def test_a_damaged_library(tmp_path: Path, data: bytes) -> None:
    place(tmp_path).write_bytes(data)
    with pytest.raises(FmuError, match="damaged or made for another machine"):
        load(tmp_path, 2, "model")


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_missing_is_missed_when_it_is_called(
    version: int, compiled: dict[tuple[str, int], Path], tmp_path: Path
) -> None:
    # In a copy of a good FMU some functions get other names.
    source = unpack(compiled["linear", version])
    folder = tmp_path / "fmu"
    shutil.copytree(source.path, folder)
    (library,) = folder.rglob(f"*{SUFFIX}")
    data = library.read_bytes()
    word = "FMUstate" if version == 2 else "FMUState"
    for name in (f"Get{word}", f"Serialize{word}", "GetDirectionalDerivative", "DoStep"):
        data = data.replace(f"fmi{version}{name}\0".encode(), f"xmi{version}{name}\0".encode())
    library.write_bytes(data)
    description = read_description(folder)
    one = instantiate(folder, description, CS, "one")
    one.enter_initialization(0.0, 1.0, 1e-6)
    one.exit_initialization()
    y = description.by_name["y"]
    unit: Any = up.Fmu(folder, rollback="trust").instantiate("two", 0.0)
    with pytest.raises(FmuError, match=f"no fmi{version}Get{word}, though it declares canGetAndSet{word}"):
        unit.save()
    unit.close()
    with pytest.raises(FmuError, match=r"no fmi.GetDirectionalDerivative, though it declares directional"):
        one.directional([y], [description.by_name["u"]], [1.0])
    with pytest.raises(FmuError, match=f"the FMU has no fmi{version}DoStep$") as caught:
        one.step(0.0, 0.1, True)
    assert caught.value.call == f"fmi{version}DoStep"
    assert one.reader(y)() == 3.0
    one.terminate()
    one.free()
    source.close()


def test_an_interface_that_is_not_offered(compiled: dict[tuple[str, int], Path]) -> None:
    with unpack(compiled["gain", 2]) as source:
        description = replace(read_description(source.path), co_simulation=None)
        with pytest.raises(FmuError, match="cannot be run as CoSimulation"):
            instantiate(source.path, description, CS, "one")
