"""Lines of keys in TOML: headers, dotted keys, inline tables, strings and arrays over several lines."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from upbeat.scenario.files.toml import Lines

TEXT = '''upbeat = 1
# [no.header] and no = "key"
name = """several
[lines]
key = 3 \\""" still "" inside"""

[ units . "le.ft" ]
states = { x = "v", v = { der = "#no comment", start = 1.0 } } # a comment with = and [
outputs = [
  "x",   # ]
  { a = 1 }, 'literal # [',
]
inputs.F.unit = "N"

[connections]
left.F = "right.F"
"right.x" = 'left.x'

[[many]]
c = 1
[[many]]
c = 1979-05-27 07:32:00
d.e = \'\'\'quote \' and
\'\' two\'\'\'\'
f = inf
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("upbeat",), 1),
        (("name",), 3),
        (("units", "le.ft"), 7),
        (("units", "le.ft", "states", "v", "start"), 8),
        (("units", "le.ft", "outputs"), 9),
        (("units", "le.ft", "outputs", "0"), 10),
        (("units", "le.ft", "outputs", "1", "a"), 11),
        (("units", "le.ft", "inputs", "F", "unit"), 13),
        (("connections", "left.F"), 16),
        (("connections", "left", "F"), 16),
        (("connections", "right.x"), 17),
        (("many", "0", "c"), 20),
        (("many", "1", "c"), 22),
        (("many", "1", "d", "e"), 23),
        (("many", "1", "f"), 25),
        (("connections", "no.such"), 15),
        (("units", "le.ft", "states", "zz", "der"), 8),
        (("no",), None),
        (("lines",), None),
        ((), None),
    ],
)
def test_lines(path: tuple[str, ...], line: int | None) -> None:
    tomllib.loads(TEXT)
    assert Lines(TEXT).of(path) == line


def test_windows_line_ends() -> None:
    lines = Lines("a = 1\r\n\r\n[b]\r\nc = 2\r\n")
    assert (lines.of(("a",)), lines.of(("b", "c"))) == (1, 4)


def test_an_empty_text() -> None:
    assert Lines("").of(("a",)) is None
    assert Lines("# nothing\n").of(("a",)) is None


values = st.recursive(
    st.integers(-5, 5) | st.text(max_size=8) | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), values, max_size=5), st.booleans())
def test_every_key_of_any_text_is_found(content: dict[str, Any], multiline: bool) -> None:
    text = tomli_w.dumps(content, multiline_strings=multiline)
    lines = Lines(text)
    for key in content:
        assert lines.of((key,)) is not None
