"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from fmu_maker import COMPILER, MODELS, make
from upbeat.engine.native import machine as native

# How long an example takes says more about the machine than about the code.
_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# `make test` draws the same examples every time, so that a change is refused for what it changed;
# `make fuzz` draws new ones, and goes on where a failure was found before.
settings.register_profile("steady", derandomize=True, **_CALM)
settings.register_profile("fuzz", derandomize=False, print_blob=True, **_CALM)
_PROFILE = os.environ.get("UPBEAT_TESTS", "steady")
settings.load_profile(_PROFILE)
if _PROFILE == "steady":
    # Hypothesis also draws constants that it finds in the modules loaded so far: which these are depends on
    # the tests that a worker process happened to run before. There is no setting to turn that off.
    assert callable(providers._get_local_constants)
    _NONE = providers.Constants()
    providers._get_local_constants = lambda: _NONE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` draws a third of the examples that a law asks for, others as many and at least so many."""
    least = os.environ.get("UPBEAT_EXAMPLES")
    for law in {item.obj for item in items if isinstance(item, pytest.Function)}:
        if is_hypothesis_test(law):
            given = getattr(law, "_hypothesis_internal_use_settings", settings.default)
            asked = given.max_examples
            count = max(asked, int(least)) if least else max(asked // 3, min(asked, 10))
            law._hypothesis_internal_use_settings = settings(given, max_examples=count)


def pytest_collection_finish() -> None:
    """Look for garbage among what tests make, not among 9,000 tests, and less often."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


ENGINES = ["interpret", "native"] if native.available() else ["interpret"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, where both are there."""
    return str(request.param)


@pytest.fixture(scope="session")
def fmu_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the FMUs of this session are, for all its worker processes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fmus"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def own_cache(fmu_folder: Path) -> Iterator[None]:
    """What is found out about FMUs stays with the session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(fmu_folder / "cache"))
        yield


@pytest.fixture(scope="session")
def fmu(fmu_folder: Path) -> Callable[[str, int], Path]:
    """``fmu("ball", 3)``: the path of an FMU of tests/fmus for a version of FMI, made once per session."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    if not native.available():
        pytest.skip("FMUs need the native core")
    return lambda name, version: make(MODELS[name, version], version, fmu_folder)
