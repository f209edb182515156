"""Scenario files of absurd sizes and numbers are refused in a sentence, before anything is made of them."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

import upbeat as up
from upbeat.core.errors import suggest

SCENARIO = (
    'units.a.states = {{ x = "-x" }}\nmaster = {{ step = {step} }}\nrun = {{ until = {until}{more} }}\n'
)


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "odd.toml"
    path.write_text(text)
    with pytest.raises(up.UpbeatError) as found:
        up.load(path)
    return str(found.value)


@pytest.mark.parametrize(
    "field", [{"step": "9" * 400}, {"until": "9" * 400}, {"more": ", real_time = 1" + "0" * 400}]
)
def test_whole_numbers_that_no_real_can_hold(tmp_path: Path, field: dict[str, str]) -> None:
    message = refused(tmp_path, SCENARIO.format(**({"step": "0.1", "until": "1.0", "more": ""} | field)))
    assert "too large for a real" in message


@pytest.mark.parametrize("key", ["a" + ".a" * 30_000, '"a"' + ' . "b.c"' * 200])
def test_keys_of_too_many_parts(tmp_path: Path, key: str) -> None:
    assert "line 2: a key of more than 50 parts" in refused(tmp_path, f"upbeat = 1\nunits.{key} = 1\n")


def test_long_words_are_no_deep_keys(tmp_path: Path) -> None:
    """… and looking for these takes no time that grows with the square of their length."""
    assert "unknown key" in refused(
        tmp_path, f"{'word' * 100_000} = 1\n" + SCENARIO.format(step=1, until=1, more="")
    )


def test_large_files(tmp_path: Path) -> None:
    assert "into a CSV file" in refused(tmp_path, "# " + "x" * (17 << 20))


END = "\nmaster = { step = 0.1 }\nrun = { until = 1.0 }\n"
MANY = {
    "units": lambda n: "\n".join(f'units.a{i}.states = {{ x = "-x" }}' for i in range(n)),
    "chain": lambda n: "\n".join(
        f'units.a{i} = {{ states = {{ x = "u-x" }}, inputs = ["u"] }}\n'
        f'connections.a{i}.u = "a{max(0, i - 1)}.x"'
        for i in range(n)
    ),
    "outputs": lambda n: (
        'units.a.states = { x = "-x" }\n' + "\n".join(f'units.a.outputs.y{i} = "x + {i}"' for i in range(n))
    ),
    "events": lambda n: (
        'units.a.states = { x = "-x" }\n'
        + "\n".join(f'events.e{i} = {{ when = "a.x > {i}", then = {{ a.x = "0" }} }}' for i in range(n))
    ),
    "parameters": lambda n: (
        'units.a.states = { x = "-x" }\n' + "\n".join(f"units.a.parameters.p{i} = {i}.0" for i in range(n))
    ),
    "unknown": lambda n: (
        'units.a.states = { x = "-x" }\n' + "\n".join(f'connections.b{i}.u = "c{i}.x"' for i in range(n))
    ),
}


def work(path: Path, text: str) -> int:
    """How many functions are called to load a file, whatever comes of it."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    path.write_text(text + END)
    sys.setprofile(count)
    try:
        with contextlib.suppress(up.UpbeatError):
            _ = up.load(path).remarks
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", MANY)
def test_twice_as_much_takes_twice_as_long(tmp_path: Path, kind: str) -> None:
    """Counted in calls, which do not depend on how busy the machine is."""
    path = tmp_path / "many.toml"
    work(path, MANY[kind](3))  # loads modules
    few, some, many = (work(path, MANY[kind](n)) for n in (20, 40, 80))
    assert many - some < 2.4 * (some - few) + 1000


def test_of_very_many_problems_the_first_are_told(tmp_path: Path) -> None:
    message = refused(tmp_path, MANY["unknown"](300) + END)
    assert "more than 200 problems, of which these are the first" in message
    assert message.count("there is no unit") == 200
    assert "line 2:" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("units.a.parameters.p = " + "[" * 60 + "]" * 60, "nested more than 50 levels deep"),
        (MANY["parameters"](15_001), "has 15,004 entries, and a scenario file may have 15,000"),
        ("units.a.states.x = '" + "x" * 1_000_000 + "'", "entries"),
        ("events = {" + ",".join(f"e{i} = {{}}" for i in range(1001)) + "}", "there are 1,001 events"),
    ],
)
def test_sizes(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text + END)


def test_numbers_of_long_tables_do_not_count(tmp_path: Path) -> None:
    column = ", ".join(map(str, range(20_000)))
    (tmp_path / "a.toml").write_text(
        f'units.a = {{ states = {{ x = "t(x)" }}, tables = {{ t = {{ x = [{column}], y = [{column}] }} }} }}'
        + END
    )
    assert list(up.load(tmp_path / "a.toml").scenario.units) == ["a"]


def nests(folder: Path, outputs: str, depth: int) -> Path:
    """Files of eight units each, which are scenarios again: `depth` of them mean 8 ** depth units."""
    units = "\n".join(f'units.u{i}.states = {{ x = "-x" }}' for i in range(8))
    for level in range(depth):
        (folder / f"a{level}.toml").write_text(units + outputs.format(y="y" if level else "x") + END)
        units = "\n".join(f'units.u{i}.scenario = "a{level}.toml"' for i in range(8))
    return folder / f"a{depth - 1}.toml"


def test_a_few_small_files_that_mean_millions_of_units(tmp_path: Path) -> None:
    with pytest.raises(up.UpbeatError, match="more than 10,000 units in all") as found:
        up.load(nests(tmp_path, '\noutputs.y = "u0.{y}"', 12))
    assert str(found.value).count("\n") < 150


def test_what_is_wrong_with_a_file_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(up.UpbeatError, match="needs outputs of its own") as found:
        up.load(nests(tmp_path, "", 12))
    assert str(found.value).count("\n") < 150


def test_a_wrong_name_among_very_many(tmp_path: Path) -> None:
    names = [f"unit_number_{i}" for i in range(5000)]
    assert "Did you mean 'unit_number_" in suggest("unit_number_1234x", names)
    assert "5000 in all" in suggest("x" * 100_000, names)
