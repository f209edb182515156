"""Broken files of every kind are read or refused in Upbeat's own words; `make fuzz` tries many more."""

from __future__ import annotations

import pytest
from tools.fuzz import KINDS, fuzz


@pytest.mark.parametrize("kind", KINDS)
def test_broken_files(kind: str) -> None:
    tally = fuzz(kind, range(120), seed=0)
    assert tally.n == 120
    assert not tally.tracebacks + tally.hangs + tally.crashes, tally.cases
