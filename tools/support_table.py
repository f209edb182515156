"""Writes docs/support.md: what is supported of FMI and SSP, from the tests that show it.

A test says what it shows with a marker:

    @pytest.mark.supports("fmi3", "Triggered clocks")
    @pytest.mark.supports("ssp", "Signal dictionaries", "refused with an error that names them")

The first argument is one of `AREAS`, the second the feature, the third (left out where the answer is
simply yes) what Upbeat does about it. Tests are read, not run, so this takes no time. After adding a
marker, or when the page does not merge: ``make support-table``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "support.md"
AREAS = {"fmi2": "FMI 2.0", "fmi3": "FMI 3.0", "ssp": "SSP 1.0 and 2.0"}
VERSIONS = {"fmi2": "2.0", "fmi3": "3.0"}
YES = "yes"

_INTRODUCTION = """\
# What is supported of FMI and SSP

Every row is shown by tests, which carry it as a marker: `@pytest.mark.supports("ssp", "Variants")`. This page
is made of the markers (`make support-table`).
"""

Rows = dict[tuple[str, str], dict[str, list[str]]]
"""By area and feature: what Upbeat does about it, with the tests that show it."""


def marks(source: str, path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The arguments of every ``supports`` marker in a test file, and the name of the test."""
    for node in ast.walk(ast.parse(source, path)):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.supports":
                yield _arguments(decorator, f"{path}:{decorator.lineno}"), node.name


def _arguments(call: ast.Call, place: str) -> tuple[str, ...]:
    texts = tuple(node.value for node in call.args if isinstance(node, ast.Constant))
    plain = all(isinstance(text, str) for text in texts) and len(texts) == len(call.args)
    if not plain or call.keywords or len(texts) not in (2, 3):
        sys.exit(f"{place}: write supports(area, feature) or supports(area, feature, what), all plain texts")
    if texts[0] not in AREAS:
        sys.exit(f"{place}: there is no area {texts[0]!r}; the areas are {', '.join(AREAS)}")
    return texts


def collected(tests: Path) -> Rows:
    """All features that tests speak of."""
    rows: Rows = {}
    for path in sorted(tests.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.supports(" not in source:
            continue
        name = path.relative_to(tests).as_posix()
        for (area, feature, *what), test in marks(source, name):
            answers = rows.setdefault((area, feature), {})
            answers.setdefault(what[0] if what else YES, []).append(f"{name}::{test}")
    return rows


def page(rows: Rows) -> str:
    """The text of docs/support.md."""
    fmi: dict[tuple[str, str], list[str]] = {}
    for (area, feature), answers in rows.items():
        if area in VERSIONS:
            fmi.setdefault((feature, _answer(answers)), []).append(VERSIONS[area])
    table = ["## FMI", "", "| Feature | Supported | FMI |", "|---|---|---|"]
    table += [
        f"| {feature} | {answer} | {', '.join(sorted(which))} |"
        for (feature, answer), which in sorted(fmi.items())
    ]
    ssp = ["## SSP 1.0 and 2.0", "", "| Feature | Supported |", "|---|---|"]
    ssp += [
        f"| {feature} | {_answer(answers)} |"
        for (area, feature), answers in sorted(rows.items())
        if area == "ssp"
    ]
    return "\n".join([_INTRODUCTION, *table, "", *ssp]) + "\n"


def _answer(answers: dict[str, list[str]]) -> str:
    """ "Yes" first: what follows are the limits of it."""
    return "; ".join(sorted(answers, key=lambda answer: (answer != YES, answer)))


if __name__ == "__main__":
    PAGE.write_text(page(collected(ROOT / "tests")), encoding="utf-8")
