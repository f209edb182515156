"""Reading XML from strangers."""

from __future__ import annotations

from pathlib import Path

import pytest

from upbeat.core.errors import FileProblem
from upbeat.units.fmi.xml import Limits, parse, read

LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;">]>
<a>&y;</a>"""


def test_elements_with_lines_text_and_namespaces() -> None:
    root = parse(b'<a xmlns:n="urn:n" n:k="1" k="2">\n <b>one<c/>two</b>\n\n<n:b/><!-- no --></a>', "f")
    assert (root.tag, root.line, root.attributes) == ("a", 1, {"{urn:n}k": "1", "k": "2"})
    assert [(child.tag, child.line, child.text) for child in root.children] == [
        ("b", 2, "onetwo"),
        ("{urn:n}b", 4, ""),
    ]
    assert root.first("b") is root.children[0]
    assert root.first("c") is None


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_encodings(codec: str) -> None:
    name = codec.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{name}"?><a name="Größe"/>'
    assert parse(text.encode(codec), "f").attributes == {"name": "Größe"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (LAUGHS, "f, line 2: a document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "a document type"),
        (b"<a>\n&undefined;</a>", "f, line 2: this is not well-formed XML: undefined entity"),
        (b"<a>\n<b></a>", "line 2: this is not well-formed XML: mismatched tag"),
        (b"", "no element found"),
        (b"\x00\x01", "not well-formed"),
        (b'<a x="1" x="2"/>', "duplicate attribute"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "the encoding"),
        (b'<?xml version="1.0" encoding="zlib"?><a/>', "the encoding"),
        (b'<?xml version="1.0" encoding="punycode"?><a/>', "f"),
    ],
)
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(FileProblem, match=message):
        parse(data, "f")


def test_limits() -> None:
    limits = Limits(size=1000, depth=5, elements=10)
    parse(b"<a>" * 5 + b"</a>" * 5, "f", limits)
    with pytest.raises(FileProblem, match="more than 5 deep"):
        parse(b"<a>" * 6 + b"</a>" * 6, "f", limits)
    with pytest.raises(FileProblem, match="more than 10 elements"):
        parse(b"<a>" + b"<b/>" * 10 + b"</a>", "f", limits)
    with pytest.raises(FileProblem, match="larger than 1,000 bytes"):
        parse(b" " * 1001, "f", limits)
    with pytest.raises(FileProblem, match="deep"):
        parse(b"<a>" * 200_000, "f")


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"cannot read '.*no\.xml': No such file"):
        read(tmp_path / "no.xml")
    with pytest.raises(FileProblem, match="cannot read"):
        read(tmp_path)
    (tmp_path / "a.xml").write_bytes(b"<a/>")
    assert read(tmp_path / "a.xml").tag == "a"
