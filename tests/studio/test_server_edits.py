"""Edits change what was asked for and nothing else: not the other data, not comments, not the order."""

from __future__ import annotations

import copy
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.core.errors import InvalidInput
from upbeat.studio.edits import edited
from upbeat.studio.library import library

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = [
    path.read_text()
    for path in sorted(EXAMPLES.rglob("*.toml"))
    if "units" in tomllib.loads(path.read_text())
]

MASSES = """# two masses                            <- the first line
name = "a # b"   # not a comment: the first one

[units.left]     # the left one
states = { x = "v", v = "(F - c*x)/m" }   # its states
inputs = { F = { unit = "N" } }
outputs = ["x", "v"]
# its parameters
parameters = { m = 1.0, c = 2.0 }

[units."right"]
outputs = { F = "-k*u" }
inputs = ["u"]
parameters.k = 3.0   # stiff

# what goes where
[connections]
left.F = "right.F + 0.0*left.v"   # with left.v, for no reason
"right.u" = "left.x"

[outputs]
load = "right.F"

[events.touch]
when = "left.x > 2.0"   # left.x
then = { left.v = "-left.v" }

[master]
step = 0.01
coupling = { kind = "gauss_seidel", order = ["left", "right"] }
[master.ports]
"left.F" = "linear"

[run]
until = 1.0

[record]
signals = ["left.*", "right.F"]   # left, right
"""


def comments(text: str) -> list[str]:
    """All comments of a text whose strings are on one line."""
    found = []
    for line in text.splitlines():
        bare = re.sub(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'', lambda string: "s" * len(string[0]), line)
        if "#" in bare:
            found.append(line[bare.index("#") :])
    return found


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in data that are not tables."""
    if isinstance(value, dict):
        return [path for key, item in value.items() for path in paths(item, (*at, key))]
    return [at]


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


@given(st.sampled_from(TEXTS), st.data(), SCALARS)
def test_a_value_that_is_set_and_nothing_else(text: str, data: st.DataObject, value: Any) -> None:
    before = tomllib.loads(text)
    path = data.draw(st.sampled_from(paths(before)))
    after, _ = edited(text, [{"op": "set", "at": list(path), "value": value}])
    wanted = copy.deepcopy(before)
    at(wanted, path[:-1])[path[-1]] = value
    assert tomllib.loads(after) == wanted
    gone = Counter(comments(text)) - Counter(comments(after))
    spread = isinstance(at(before, path), list)  # remarks within a list that is replaced go with it
    assert not gone or spread
    assert order(tomllib.loads(after)) == order(wanted)


def order(data: Any) -> Any:
    """The keys of tables in their order."""
    if isinstance(data, dict):
        return [(key, order(item)) for key, item in data.items()]
    return [order(item) for item in data] if isinstance(data, list) else None


@given(st.sampled_from(TEXTS), st.data(), VALUES)
def test_something_new(text: str, data: st.DataObject, value: Any) -> None:
    """A new value where there was none; or a refusal that leaves all as it was."""
    before = tomllib.loads(text)
    unit = data.draw(st.sampled_from(sorted(before["units"])))
    path = data.draw(
        st.sampled_from(
            [
                ("units", unit, "fresh"),
                ("units", unit, "parameters", "fresh"),
                ("run", "fresh"),
                ("fresh", "er"),
            ]
        )
    )
    wanted = copy.deepcopy(before)
    inner = wanted
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            return
    inner[path[-1]] = value
    try:
        after, _ = edited(text, [{"op": "set", "at": list(path), "value": value}])
    except InvalidInput as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert "so that it is left as it is" in refused
        return
    assert tomllib.loads(after) == wanted
    assert Counter(comments(after)) == Counter(comments(text))


@given(st.sampled_from(TEXTS), st.data())
def test_a_value_that_is_removed(text: str, data: st.DataObject) -> None:
    before = tomllib.loads(text)
    path = data.draw(st.sampled_from(paths(before)))
    wanted = copy.deepcopy(before)
    del at(wanted, path[:-1])[path[-1]]
    after, _ = edited(text, [{"op": "remove", "at": list(path)}])
    found = tomllib.loads(after)
    for depth in range(len(path) - 1, 0, -1):  # tables that have become empty may go, too
        if at(wanted, path[:depth]) == {} and path[depth - 1] not in _at(found, path[: depth - 1]):
            del at(wanted, path[: depth - 1])[path[depth - 1]]
    assert found == wanted
    own = [line for line in text.splitlines() if line not in after.splitlines()]
    assert Counter(comments(text)) - Counter(comments(after)) <= Counter(comments("\n".join(own)))


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    try:
        return at(data, path)
    except KeyError:
        return {}


@settings(max_examples=30)
@given(st.sampled_from(TEXTS), st.data(), st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True))
def test_a_renamed_unit_means_the_same(text: str, data: st.DataObject, name: str) -> None:
    """Back again, the scenario is the one it was, and in between there is none of that name."""
    units = tomllib.loads(text)["units"]
    unit = data.draw(st.sampled_from(sorted(units)))
    if name in units or name in ("inputs", "events", "conditions"):
        return
    there, _ = edited(text, [{"op": "rename_unit", "unit": unit, "to": name}])
    assert list(tomllib.loads(there)["units"]) == [name if one == unit else one for one in units]
    mention = re.compile(rf"(?<![\w.]){unit}\.")
    left = {
        key: value
        for key, value in tomllib.loads(there).items()
        if key in ("connections", "outputs", "events")
    }
    if name != unit:
        assert not mention.search(repr(left))
    back, _ = edited(there, [{"op": "rename_unit", "unit": name, "to": unit}])
    assert tomllib.loads(back) == tomllib.loads(text)
    assert Counter(comments(there)) == Counter(comments(text))


def test_renaming_reaches_all_that_speaks_of_a_unit() -> None:
    text, _ = edited(MASSES, [{"op": "rename_unit", "unit": "left", "to": "body"}])
    found = tomllib.loads(text)
    assert found["connections"] == {"body": {"F": "right.F + 0.0*body.v"}, "right.u": "body.x"}
    assert found["events"]["touch"] == {"when": "body.x > 2.0", "then": {"body": {"v": "-body.v"}}}
    assert found["master"]["coupling"]["order"] == ["body", "right"]
    assert found["master"]["ports"] == {"body.F": "linear"}
    assert found["record"]["signals"] == ["body.*", "right.F"]
    assert comments(text) == comments(MASSES)
    assert text.count("\n") == MASSES.count("\n")


def test_removing_a_unit_takes_its_connections_along() -> None:
    text, _ = edited(MASSES, [{"op": "remove_unit", "unit": "right"}])
    found = tomllib.loads(text)
    assert list(found["units"]) == ["left"]
    assert found.get("connections", {}) == {}
    assert found.get("outputs", {}) == {}
    assert found["events"]["touch"]["when"] == "left.x > 2.0"


def test_connecting_writes_as_the_file_does() -> None:
    dotted = '[units.a]\noutputs = { y = "1" }\n[units.b]\ninputs = ["u", "w"]\n[connections]\nb.u = "a.y"\n'
    text, _ = edited(dotted, [{"op": "connect", "from": "a.y", "to": "b.w"}])
    assert text == dotted + 'b.w = "a.y"\n'
    quoted = dotted.replace("b.u =", '"b.u" =')
    text, _ = edited(quoted, [{"op": "connect", "from": "a.y", "to": "b.w", "text": "2*a.y"}])
    assert text == quoted + '"b.w" = "2*a.y"\n'
    text, _ = edited(quoted, [{"op": "connect", "from": "a.z", "to": "b.u"}])
    assert text == quoted.replace("a.y", "a.z")
    text, _ = edited(dotted, [{"op": "disconnect", "to": "b.u"}])
    assert "connections" not in tomllib.loads(text) or tomllib.loads(text)["connections"] == {}
    assert edited(dotted, [{"op": "disconnect", "to": "b.w"}])[0] == dotted


def test_names_of_new_units_are_their_own() -> None:
    text, names = edited(MASSES, [{"op": "add_unit", "name": "left", "block": "gain"}] * 3)
    assert names == ["left2", "left3", "left4"]
    assert tomllib.loads(text)["units"]["left3"] == {"kind": "gain"}
    assert edited("", [{"op": "add_unit", "name": "1 & 2", "block": "gain"}])[1] == ["unit_1___2"]


def test_numbers_stay_what_they_are() -> None:
    """JSON of a browser cannot tell 2.0 from 2; TOML can."""
    text, _ = edited(MASSES, [{"op": "set", "at": ["units", "left", "parameters", "m"], "toml": "2.0"}])
    assert "m = 2.0" in text
    assert isinstance(tomllib.loads(text)["units"]["left"]["parameters"]["m"], float)


@pytest.mark.parametrize("block", library()["blocks"], ids=lambda block: str(block["kind"]))
def test_every_block_can_be_added_and_run(block: dict[str, Any], tmp_path: Path) -> None:
    text, (name,) = edited(
        "[master]\nstep = 0.1\n[run]\nuntil = 0.2\n",
        [{"op": "add_unit", "name": "a", "block": block["kind"]}],
    )
    (tmp_path / "a.toml").write_text(text)
    made = up.load(tmp_path / "a.toml")
    assert name in made.scenario.units
    assert made.run().outcome.ok


@pytest.mark.parametrize("adaptation", library()["adaptations"], ids=lambda one: str(one["kind"]))
def test_every_adaptation_says_what_it_takes(adaptation: dict[str, Any]) -> None:
    assert adaptation["about"].endswith((".", ":"))
    assert adaptation["toml"]["kind"] == adaptation["kind"]
