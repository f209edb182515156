"""Fixtures that every test may use."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from upbeat.engine import native

# `make test` draws the same examples every time, so that a change is refused for what it changed;
# `make fuzz` draws new ones, and goes on where a failure was found before.
settings.register_profile("steady", derandomize=True)
settings.register_profile("fuzz", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("UPBEAT_TESTS", "steady"))

ENGINES = ["interpret", "native"] if native.available()[0] else ["interpret"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, where both are there."""
    return str(request.param)
