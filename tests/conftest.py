"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

from upbeat.engine import native

ENGINES = ["interpret", "native"] if native.available()[0] else ["interpret"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, where both are there."""
    return str(request.param)
