"""Scenario files of absurd sizes and numbers are refused in a sentence, before anything is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import upbeat as up

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
