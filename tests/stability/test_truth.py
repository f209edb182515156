"""What a verdict says is what a long run does; the whole of it is in reproduce/stability.py."""

from __future__ import annotations

import importlib.util
import sys
from math import log
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import upbeat as up


@pytest.fixture(scope="module")
def truth() -> ModuleType:
    place = Path(__file__).parents[2] / "reproduce/problems/truth.py"
    spec = importlib.util.spec_from_file_location("truth_of_stability", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(12))
def test_runs_grow_and_decay_as_the_verdict_says(seed: int, truth: ModuleType) -> None:
    drawn = truth.draw(np.random.default_rng(seed))
    found = up.stability_of(drawn.experiment, scan=False)
    expected = log(found.spectral_radius)
    assert abs(expected) > 1e-3  # else draw another
    assert truth.growth(drawn) == pytest.approx(expected, rel=0.1)
    assert found.verdict == ("unstable" if expected > 0 else "stable")
