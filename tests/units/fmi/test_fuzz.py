"""Whatever bytes come in: an error of Upbeat's own kind, or success. Never another exception, nor a hang."""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fmu_texts
from upbeat.core.errors import InvalidInput
from upbeat.units.fmi.archive import Limits, unpack
from upbeat.units.fmi.description import measure_of, parse_description

BOUNDED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
TEXTS = (fmu_texts.FMI2, fmu_texts.FMI3)
VALUES = [re.findall(r'"[^"]*"', text) for text in TEXTS]
NASTY = st.sampled_from(
    [
        *(
            "",
            " ",
            "0",
            "-1",
            "1",
            "2",
            "3",
            "7",
            "99",
            "4294967296",
            "9" * 30,
            "1e999",
            "NaN",
            "INF",
            "-INF",
        ),
        *(
            "true",
            "exact",
            "input",
            "output",
            "parameter",
            "independent",
            "constant",
            "discrete",
            "continuous",
        ),
        *("0 1 2", "1 1 1", "x" * 300, "../..", "\U0001f600", "٣", "1_0", "0x10", "Mode", "Gear", "&#9;"),
    ]
)


def read(data: bytes) -> None:
    try:
        found = parse_description(data)
    except InvalidInput:
        return
    assert found.by_name
    assert len(found.states) <= len(found.structure.derivatives)
    for unit in found.units[:3]:
        measure_of(unit)


@BOUNDED
@given(st.data())
def test_changed_attributes(data: st.DataObject) -> None:
    """Valid XML with other values: the rules of the description get to work."""
    which = data.draw(st.integers(0, 1))
    text = TEXTS[which]
    for _ in range(data.draw(st.integers(1, 4))):
        old = data.draw(st.sampled_from(VALUES[which]))
        new = data.draw(st.one_of(NASTY, st.sampled_from(VALUES[which]).map(lambda v: v[1:-1])))
        places = [match.start() for match in re.finditer(re.escape(old), text)]
        if places:
            at = data.draw(st.sampled_from(places))
            text = f'{text[:at]}"{new}"{text[at + len(old) :]}'
    read(text.encode())


@BOUNDED
@given(st.data())
def test_lines_lost_doubled_and_moved(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    pieces = re.findall(r"<[^>]*>|[^<]+", text)
    for _ in range(data.draw(st.integers(1, 5))):
        at, to = data.draw(st.integers(0, len(pieces) - 1)), data.draw(st.integers(0, len(pieces) - 1))
        match data.draw(st.integers(0, 2)):
            case 0 if len(pieces) > 2:
                del pieces[at]
            case 1:
                pieces.insert(to, pieces[at])
            case _:
                pieces[at], pieces[to] = pieces[to], pieces[at]
    read("".join(pieces).encode())


@BOUNDED
@given(st.data())
def test_changed_bytes(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS)).encode()
    at = data.draw(st.integers(0, len(text)))
    new = data.draw(st.one_of(st.binary(max_size=20), NASTY.map(str.encode)))
    read(text[:at] + new + text[at + data.draw(st.integers(0, 40)) :])


@BOUNDED
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: f"<a>{t}</a>".encode())))
def test_any_bytes(data: bytes) -> None:
    read(data)


def _archive() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", fmu_texts.FMI2)
        archive.writestr("binaries/linux64/tank.so", bytes(300))
        archive.writestr("resources/", "")
    return packed.getvalue()


ARCHIVE = _archive()
DIRECTORY = ARCHIVE.index(b"PK\x01\x02")


@BOUNDED
@given(st.data())
def test_archives(data: st.DataObject) -> None:
    """Changes anywhere, most of them where the structure of the archive is. Nothing is left outside."""
    packed = bytearray(ARCHIVE)
    for _ in range(data.draw(st.integers(1, 6))):
        first = data.draw(st.sampled_from([0, DIRECTORY]))
        at = data.draw(st.integers(first, len(packed) - 1))
        packed[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(packed)), st.integers(0, len(packed))))
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name)
        path = outer / "a.fmu"
        path.write_bytes(packed[:end])
        try:
            with unpack(path, Limits(total=1 << 20, entry=1 << 20)) as folder:
                inside = [file for file in folder.path.rglob("*") if not file.is_dir()]
                assert not any(file.is_symlink() for file in inside)
        except InvalidInput:
            pass
        else:
            assert not folder.path.exists()
        assert sorted(outer.iterdir()) == [path]
