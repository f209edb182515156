"""Edits of TOML texts: they say what was asked for, and all else in the text is as it was."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import InvalidInput
from upbeat.scenario.files.toml import key_text, renamed, value_text, with_value, with_values, without

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))

# ----------------------------------------------------------------------------------------------------
# Texts in every style that TOML has, with a remark on every line, by a writer of their own.

keys = st.sampled_from(["a", "b", "c", "units", "x y", "left.F", "0"])
scalars = (
    st.integers(-5, 5) | st.booleans() | st.sampled_from(["", "x # y", 'say "no"', "two\nlines", "}", "]"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
contents = st.dictionaries(keys, values, max_size=4)


class Writer:
    """Writes a table: pairs, dotted keys, braces and heads, as drawn."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.remarks, self.lines = draw, 0, []

    def remark(self) -> str:
        self.remarks += 1
        return f"# {self.remarks}."

    def write(self, table: dict[str, Any], path: tuple[str, ...] = (), prefix: str = "") -> None:
        heads = []
        for key, value in table.items():
            style = (
                self.draw(st.sampled_from(["pair", "dotted", "head"])) if isinstance(value, dict) else "pair"
            )
            if style == "dotted" and value:
                self.write(value, (*path, key), f"{prefix}{key_text(key)}.")
            elif style == "head" and not prefix:
                heads.append((key, value))
            else:
                self.pair(f"{prefix}{key_text(key)}", value)
        for key, value in heads:
            here = ".".join(map(key_text, (*path, key)))
            self.lines += self.draw(st.sampled_from([[], [""], ["", self.remark()]]))
            self.lines.append(f"[{here}] {self.remark()}")
            self.write(value, (*path, key))

    def pair(self, key: str, value: Any) -> None:
        indent, equals = self.draw(st.sampled_from(["", "  "])), self.draw(st.sampled_from([" = ", "="]))
        if isinstance(value, list) and value and self.draw(st.booleans()):
            comma = "," if self.draw(st.booleans()) else ""
            inside = [f"    {value_text(item)}, {self.remark()}" for item in value[:-1]]
            inside.append(f"    {value_text(value[-1])}{comma} {self.remark()}")
            self.lines += [f"{indent}{key}{equals}[", *inside, f"{indent}] {self.remark()}"]
        else:
            self.lines.append(f"{indent}{key}{equals}{value_text(value)} {self.remark()}")


@st.composite
def written(draw: Any) -> tuple[dict[str, Any], str]:
    content = draw(contents)
    writer = Writer(draw)
    writer.write(content)
    text = draw(st.sampled_from(["\n", "\r\n"])).join(writer.lines) + draw(st.sampled_from(["", "\n"]))
    text = text.replace("\r\n", "\n") if "two\nlines" in text else text
    return content, text


def ways(content: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The way to everything in some data."""
    found: list[tuple[str, ...]] = []
    if isinstance(content, (dict, list)):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            found += [(*path, str(key)), *ways(value, (*path, str(key)))]
    return found


def changed(content: dict[str, Any], path: tuple[str, ...], change: Any) -> dict[str, Any]:
    """Data in which `change` was done to the container of the last key."""
    made = deepcopy(content)
    inner: Any = made
    for key in path[:-1]:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    change(inner, int(path[-1]) if isinstance(inner, list) else path[-1])
    return made


def pruned(data: Any) -> Any:
    """Without empty tables: where the last entry of a table goes, the table may go with it."""
    if isinstance(data, list):
        return [pruned(entry) for entry in data]
    if not isinstance(data, dict):
        return data
    inside = {key: pruned(value) for key, value in data.items()}
    return {key: value for key, value in inside.items() if value != {}}


@given(written(), values, st.data())
def test_any_value_can_be_another_one(made: tuple[dict[str, Any], str], value: Any, data: Any) -> None:
    content, text = made
    assert tomllib.loads(text) == content
    places = ways(content)
    path = data.draw(st.sampled_from(places)) if places else ("new",)
    before: Any = content
    for key in path if places else ():
        before = before[int(key)] if isinstance(before, list) else before[key]
    new = with_value(text, path, value)
    assert tomllib.loads(new) == changed(content, path, lambda inner, key: inner.__setitem__(key, value))
    if not isinstance(before, (dict, list)):
        assert [part for part in text.split() if part.endswith(".") and part[:-1].isdigit()] == [
            part for part in new.split() if part.endswith(".") and part[:-1].isdigit()
        ]  # every remark is there, in its order


@given(written(), values, st.data())
def test_something_new_in_any_table(made: tuple[dict[str, Any], str], value: Any, data: Any) -> None:
    content, text = made
    tables = [(), *(way for way in ways(content) if isinstance(_get(content, way), dict))]
    path = (*data.draw(st.sampled_from(tables)), *data.draw(st.sampled_from([("new",), ("very", "n e w")])))
    new = with_value(text, path, value)
    wanted = deepcopy(content)
    inner = (
        _get(wanted, path[:-1])
        if len(path) < 2 or path[-2] != "very"
        else _get(wanted, path[:-2]).setdefault("very", {})
    )
    inner[path[-1]] = value
    assert tomllib.loads(new) == wanted
    for line in text.splitlines():  # nothing but braces gets longer
        assert not line.strip() or line in new.splitlines() or "{" in line


def _get(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


@given(written(), st.data())
def test_anything_can_go(made: tuple[dict[str, Any], str], data: Any) -> None:
    content, text = made
    places = ways(content)
    if not places:
        assert without(text, ("a",)) == text
        return
    path = data.draw(st.sampled_from(places))
    new = without(text, path)
    assert pruned(tomllib.loads(new)) == pruned(
        changed(content, path, lambda inner, key: inner.__delitem__(key))
    )
    assert without(text, (*path, "nothing")) == text or isinstance(_get(content, path), (dict, list))


@given(written(), st.data())
def test_any_key_can_have_another_name(made: tuple[dict[str, Any], str], data: Any) -> None:
    content, text = made
    places = [way for way in ways(content) if isinstance(_get(content, way[:-1]), dict)]
    if not places:
        return
    path = data.draw(st.sampled_from(places))
    new = renamed(text, path, "ne.w")
    assert tomllib.loads(new) == changed(
        content, path, lambda inner, key: inner.__setitem__("ne.w", inner.pop(key))
    )
    assert len(new.splitlines()) == len(text.splitlines())


# ----------------------------------------------------------------------------------------------------
# What people write, line by line.

DAMPED = """\
# damped.toml
units.mass.states = { x = "v", v = "(F - x)/m" }   # a mass
units.damper.outputs = { F = "-d*v" }

connections = { "mass.F" = "damper.F" }
"""


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        ("[master]\nstep=1.0#x\n", "master.step", 0.5, "[master]\nstep=0.5#x\n"),
        ("master = { step = 0.1 } # !\n", "master.step", 0.2, "master = { step = 0.2 } # !\n"),
        ("master.step = 0.1\n", "master.inputs", "hold", 'master.step = 0.1\nmaster.inputs = "hold"\n'),
        (
            "[master]\r\n  step = 1.0\r\n",
            "master.inputs",
            "hold",
            '[master]\r\n  step = 1.0\r\n  inputs = "hold"\r\n',
        ),
        ("[master]\nstep = 1.0", "master.inputs", "hold", '[master]\nstep = 1.0\ninputs = "hold"\n'),
        (
            '[master]\nnote = """\nstep = 3\n"""\nstep = 0.1\n',
            "master.step",
            2,
            '[master]\nnote = """\nstep = 3\n"""\nstep = 2\n',
        ),
        ("upbeat = 1\n", "master.step", 0.5, "upbeat = 1\n\n[master]\nstep = 0.5\n"),
        (
            "[master]\nstep = 1.0\n",
            "connections.b.u",
            "a.y",
            '[connections]\nb.u = "a.y"\n\n[master]\nstep = 1.0\n',
        ),
        (
            DAMPED,
            "units.wall",
            {"inputs": ["x"], "outputs": {"F": "-k*x"}},
            DAMPED.replace(
                '"-d*v" }\n', '"-d*v" }\nunits.wall.inputs = ["x"]\nunits.wall.outputs = { F = "-k*x" }\n'
            ),
        ),
        (DAMPED, "connections.damper/v", "mass.v", DAMPED.replace('F" }\n', 'F", "damper.v" = "mass.v" }\n')),
        (
            "# one\n[units.a]\n\n# two\n[run]\nuntil=1\n",
            "units.b",
            {"states": {"x": "-x"}, "start": {"x": 1.0}},
            '# one\n[units.a]\n\n[units.b]\nstates.x = "-x"\nstart = { x = 1.0 }\n\n# two\n[run]\nuntil=1\n',
        ),
        (
            'signals = [\n  "a",\n  "b", # last\n]\n',
            "signals.2",
            "c",
            'signals = [\n  "a",\n  "b", # last\n  "c",\n]\n',
        ),
    ],
)
def test_something_is_written(text: str, path: str, value: Any, expected: str) -> None:
    way = tuple(part.replace("/", ".") for part in path.split("."))
    assert with_value(text, way, value) == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (
            "# a file\n\n# of a\n[units.a]\nx = 1\n\n# of b\n[units.b]\ny = 2\n",
            "units.a",
            "# a file\n\n# of b\n[units.b]\ny = 2\n",
        ),
        ("[units.a]\nx = 1\n\n# of b\n[units.b]\ny = 2\n", "units.b", "[units.a]\nx = 1\n"),
        (DAMPED, "connections.mass/F", DAMPED.replace('{ "mass.F" = "damper.F" }', "{}")),
        ("c = { a = 1, b = 2, c = 3 }\n", "c.b", "c = { a = 1, c = 3 }\n"),
        ("c = [1, 2, 3]\n", "c.2", "c = [1, 2]\n"),
        ("[a]\nx = 1\n[a.b]\ny = 2\n[c]\nz = 3\n", "a", "[c]\nz = 3\n"),
    ],
)
def test_something_goes(text: str, path: str, expected: str) -> None:
    assert without(text, tuple(part.replace("/", ".") for part in path.split("."))) == expected


def test_several_values_at_once() -> None:
    text = '[master]\n[master.pace]\nkind = "look_ahead"\nstep = 0.1 # c\n'
    new = with_values(text, ("master",), {"pace": {"kind": "look_ahead", "step": 0.05}, "events": "auto"})
    assert new == '[master]\nevents = "auto"\n[master.pace]\nkind = "look_ahead"\nstep = 0.05 # c\n'


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is a 'b' already"):
        renamed("a = 1\nb = 2\n", ("a",), "b")


def test_what_is_no_table_gets_no_keys() -> None:
    with pytest.raises(InvalidInput, match="'a' is not a table"):
        with_value("a = 1\n", ("a", "b"), 2)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_value_of_the_examples(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    content = tomllib.loads(text)
    places = ways(content)
    for place in places[:: 1 + len(places) // 60]:
        assert _get(tomllib.loads(with_value(text, place, 1.5)), place) == 1.5
        without(text, place)
