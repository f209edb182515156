"""The extensions in examples/extensions: short, made of `upbeat.extend` alone, and doing what they say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "extensions"
FILES = sorted(FOLDER.glob("*.py"))
MAX_LINES = 40


def printed(name: str) -> list[str]:
    return (FOLDER / f"{name}.out").read_text().splitlines()  # test_examples.py compares it with a run


def numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+(?:e[+-]?\d+)?", line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_extension_is_short_and_uses_documented_names_only(path: Path) -> None:
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sum((node.end_lineno or 0) - node.lineno + 2 for node in classes) < MAX_LINES
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module for module in modules if module and module.startswith("upbeat")} == {"upbeat.extend"}


def test_alternating_makes_a_method_of_second_order_out_of_one_of_first() -> None:
    one_way, both_ways = (numbers(line) for line in printed("alternating"))
    assert 1.8 < one_way[-1] < 2.2, "half the step, half the error"
    assert 3.7 < both_ways[-1] < 4.3, "half the step, a quarter of the error"


def test_the_table_is_integrated_exactly() -> None:
    (line,) = printed("table")
    rising = [t**2 for t in (0.0, 0.5, 1.0)]  # the integral of 2t …
    falling = [1 + 2 * (t - 1) - (t - 1) ** 2 / 2 for t in (1.5, 2.0, 2.5, 3.0)]  # … and of 3 - t
    assert numbers(line) == pytest.approx([*rising, *falling], abs=1e-4)


def test_a_running_mean_is_seen() -> None:
    sent, seen = (numbers(line) for line in printed("smoothed"))
    mean, wanted = sent[0], [sent[0]]
    for value in sent[1:]:
        mean += 0.25 * (value - mean)
        wanted.append(mean)
    assert seen == pytest.approx(wanted, abs=1e-4)


def test_steps_grow_from_the_start_and_from_events() -> None:
    sizes = [numbers(line)[2] for line in printed("warm_up")]
    assert sizes == [0.125, 0.25, 0.5, 0.325, 0.125, 0.25, 0.5, 0.425]
