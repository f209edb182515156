"""Every bad input of `tools/evidence/bad`, run for real: the words, the exit code, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.evidence.bad import CASES
from tools.evidence.bad.case import Case, tried

from fmu_maker import COMPILER
from upbeat.engine.native import machine as native

ALL = [case for cases in CASES.values() for case in cases]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_a_bad_input_is_answered_in_words(case: Case, tmp_path: Path) -> None:
    if case.fmus and COMPILER is None:
        pytest.skip("no C compiler")
    if "native" in case.run and not native.available():
        pytest.skip("no native engine")
    assert tried(case, tmp_path).wrong == ""


def test_no_two_cases_are_the_same() -> None:
    assert len({case.id for case in ALL}) == len(ALL)
