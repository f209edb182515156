"""Unpacking archives from strangers."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from upbeat.core.errors import FileProblem
from upbeat.units.fmi.archive import Limits, unpack


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of our own for temporary folders; each test leaves it empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def pack(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def info(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


def test_contents_arrive_and_go(tmp_path: Path, temporary: Path) -> None:
    script = info("tool/run", stat.S_IFREG | 0o4755)
    path = pack(tmp_path / "a.fmu", ("./x.xml", b"<x/>"), ("b/c//d.txt", b"d"), ("e/", b""), (script, b"#!"))
    with unpack(path) as folder:
        found = folder.path
        assert temporary in found.parents
        files = sorted(p.relative_to(found).as_posix() for p in found.rglob("*"))
        assert files == ["b", "b/c", "b/c/d.txt", "e", "tool", "tool/run", "x.xml"]
        assert (found / "b/c/d.txt").read_bytes() == b"d"
        assert stat.S_IMODE((found / "tool/run").stat().st_mode) == 0o700
        assert not os.access(found / "x.xml", os.X_OK)
    assert not found.exists()
    folder.close()


def test_backslashes_mean_folders(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.fmu", ("binaries\\win64\\m.dll", b"m"))
    with unpack(path) as folder:
        assert (folder.path / "binaries/win64/m.dll").is_file()


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "fmu").mkdir()
    with unpack(tmp_path / "fmu") as folder:
        assert folder.path == tmp_path / "fmu"
    assert (tmp_path / "fmu").is_dir()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../evil", "leads out"),
        ("a/../../evil", "leads out"),
        ("..\\evil", "leads out"),
        ("/etc/evil", "absolute"),
        ("\\\\server\\evil", "absolute"),
        ("C:\\evil", "absolute"),
        ("c:evil", "absolute"),
        ("a\nb", "control characters"),
        (".", "no name"),
    ],
)
@pytest.mark.supports("fmi2", "Untrusted archives", "unpacked safely, or refused")
@pytest.mark.supports("fmi3", "Untrusted archives", "unpacked safely, or refused")
@pytest.mark.supports("ssp", "Untrusted archives", "unpacked safely, or refused")
def test_paths(tmp_path: Path, name: str, why: str) -> None:
    path = pack(tmp_path / "a.fmu", ("good", b""), (name, b"bad"))
    with pytest.raises(FileProblem, match=why) as caught:
        unpack(path)
    assert "a.fmu' is not unpacked because of its entry" in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "why"),
    [(stat.S_IFLNK | 0o777, "symbolic link"), (stat.S_IFIFO, "neither"), (stat.S_IFCHR, "neither")],
)
@pytest.mark.supports("fmi2", "Untrusted archives", "unpacked safely, or refused")
@pytest.mark.supports("fmi3", "Untrusted archives", "unpacked safely, or refused")
@pytest.mark.supports("ssp", "Untrusted archives", "unpacked safely, or refused")
def test_links_and_devices(tmp_path: Path, mode: int, why: str) -> None:
    path = pack(tmp_path / "a.fmu", (info("link", mode), b"/etc/passwd"))
    with pytest.raises(FileProblem, match=f"entry 'link': .*{why}"):
        unpack(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_doubled_entries(tmp_path: Path) -> None:
    for one, other in (("a", "a"), ("a", "./a"), ("b/a", "b\\a")):
        with pytest.raises(FileProblem, match="another entry"):
            unpack(pack(tmp_path / "a.fmu", (one, b"1"), (other, b"2")))
    for one, other in (("a", "a/b"), ("a/b", "a")):
        with pytest.raises(FileProblem, match="is a file in the same archive"):
            unpack(pack(tmp_path / "a.fmu", (one, b"1"), (other, b"2")))


@pytest.mark.supports("fmi2", "Untrusted archives", "unpacked safely, or refused")
@pytest.mark.supports("fmi3", "Untrusted archives", "unpacked safely, or refused")
@pytest.mark.supports("ssp", "Untrusted archives", "unpacked safely, or refused")
def test_sizes(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.fmu", ("a", b"0" * 1000), ("b", b"0" * 1000))
    unpack(path, Limits(total=2000, entry=1000, entries=2)).close()
    with pytest.raises(FileProblem, match="'a': it would fill 1,000 bytes"):
        unpack(path, Limits(entry=999))
    with pytest.raises(FileProblem, match="would fill 2,000 bytes"):
        unpack(path, Limits(total=1999))
    with pytest.raises(FileProblem, match="2 entries"):
        unpack(path, Limits(entries=1))
    with pytest.raises(FileProblem, match="which no real file does"):
        unpack(path, Limits(ratio=10, ratio_from=100))


def test_a_directory_that_lies_about_sizes(tmp_path: Path) -> None:
    """The sizes in the directory say 10, the data unpack to a million."""
    path = pack(tmp_path / "a.fmu", ("a", b"0" * 1_000_000))
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    data[central + 24 : central + 28] = struct.pack("<I", 10)
    path.write_bytes(data)
    with pytest.raises(FileProblem, match="'a' cannot be read"):
        unpack(path, Limits(total=100))


def test_encrypted_and_strange_compression(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.fmu", ("a", b"1"))
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(FileProblem, match="'a': it is encrypted"):
        unpack(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", b"1")
    with pytest.raises(FileProblem, match="compression method 14"):
        unpack(path)


def test_damage(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.fmu", ("a", bytes(range(256)) * 20))
    data = path.read_bytes()
    path.write_bytes(data[:50] + b"\xff" * 20 + data[70:])
    with pytest.raises(FileProblem, match=r"a\.fmu' is damaged: 'a' cannot be read"):
        unpack(path)
    for broken in (b"", b"no zip", data[: len(data) // 2]):
        path.write_bytes(broken)
        with pytest.raises(FileProblem, match=r"a\.fmu' is damaged or is not a zip archive"):
            unpack(path)
    with pytest.raises(FileProblem, match="no such file"):
        unpack(tmp_path / "nowhere.fmu")
    os.mkfifo(tmp_path / "pipe.fmu")
    with pytest.raises(FileProblem, match="neither a file nor a folder"):
        unpack(tmp_path / "pipe.fmu")
    with pytest.raises(FileProblem, match=r"cannot be unpacked: File name too long"):
        unpack(pack(path, ("n" * 300, b"")))


PROGRAM = """
import os, sys, tempfile
from upbeat.units.fmi.archive import unpack
tempfile.tempdir = sys.argv[2]
kept = unpack(sys.argv[1])
if os.fork() == 0:
    sys.exit(0)
os.wait()
print(len(os.listdir(sys.argv[2])))
if sys.argv[3] == "fail":
    raise RuntimeError
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", ["end", "fail"])
def test_nothing_is_left_at_the_end_of_a_process(tmp_path: Path, temporary: Path, how: str) -> None:
    """Neither when it fails; and a forked child that ends leaves its parent's folder alone."""
    path = pack(tmp_path / "a.fmu", ("a", b"1"))
    command = [sys.executable, "-c", PROGRAM, str(path), str(temporary), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "1\n"
    assert done.returncode == (1 if how == "fail" else 0)


def test_an_entry_without_a_name_is_refused(tmp_path: Path, temporary: Path) -> None:
    path = pack(tmp_path / "a.fmu", ("x", b"x"))
    data = path.read_bytes()
    # the name shrinks to nothing in the directory of the archive, where its length is 28 bytes in
    at = data.index(b"PK\x01\x02")
    length, name = slice(at + 28, at + 30), slice(at + 46, at + 47)
    changed = bytearray(data)
    changed[length] = b"\x00\x00"
    del changed[name]
    end = changed.index(b"PK\x05\x06")
    changed[end + 12 : end + 16] = (int.from_bytes(changed[end + 12 : end + 16], "little") - 1).to_bytes(
        4, "little"
    )
    path.write_bytes(changed)
    with pytest.raises(FileProblem):
        unpack(path)
