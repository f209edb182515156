"""Every bad input of `tools/evidence/bad`: the words, the exit code, what is kept."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.evidence.bad import CASES
from tools.evidence.bad.case import PYTHON, Case, tried

from fmu_maker import COMPILER
from upbeat.cli.main import main
from upbeat.engine.native import machine as native

ALL = [case for cases in CASES.values() for case in cases]


FOR_REAL = [case for case in ALL if case.fmus or case.kept or case.own]
"""What starts processes, is interrupted, or leaves something behind gets a process of its own."""


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_a_bad_input_is_answered_in_words(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def here(case: Case, folder: Path) -> tuple[int, str, str]:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
        monkeypatch.setenv("COLUMNS", "110")
        try:
            if case.run[0] == "python":
                exec(PYTHON, {"sys": SimpleNamespace(argv=case.run, exit=sys.exit)})
                code = 0
            else:
                code = main(case.run)
        except SystemExit as ended:  # argparse's own way
            code = int(ended.code or 0)
        return code, *capsys.readouterr()

    if case.fmus and COMPILER is None:
        pytest.skip("no C compiler")
    if "native" in case.run and not native.available():
        pytest.skip("no native engine")
    some = ALL.index(case) % 24 == 0
    assert tried(case, tmp_path, None if case in FOR_REAL or some else here).wrong == ""


def test_no_two_cases_are_the_same() -> None:
    assert len({case.id for case in ALL}) == len(ALL)
