"""FMUs that other tools make, and events and clocks of our own ones, called as FMPy calls them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fmu_maker import COMPILER, SUFFIX
from fmu_models import bounces
from fmu_opened import CS, ME, opened
from upbeat.units.fmi.description import (
    Causality,
    CoSimulation,
    ModelDescription,
    Type,
    Variability,
    Variable,
)
from upbeat.units.fmi.instance import FmuError, Updated, instantiate, resources
from upbeat.units.fmi.library import Platform

Fmus = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


def test_pythonfmu(exported: dict[int, Path]) -> None:
    with opened(exported[2]) as model:
        one = model.instance()
        one.writer(model["k"])(3.0)
        one.enter_initialization(0.0, 1.0, None)
        one.exit_initialization()
        one.writer(model["u"])(2.5)
        one.step(0.0, 0.1, True)
        found = {name: one.reader(model[name])() for name in ("y", "n", "on", "text")}
        assert found == {"y": 7.5, "n": 3, "on": True, "text": "t"}
        one.terminate()


def test_pythonfmu3(exported: dict[int, Path]) -> None:
    with opened(exported[3]) as model:
        one = model.begun()
        one.writer(model["u"])(2.5)
        assert one.step(0.0, 0.1, True).reached == 0.1
        found = {name: one.reader(model[name])() for name in ("u", "x", "n", "on")}
        assert found == {"u": 2.5, "x": 1.0, "n": 3, "on": True}
        one.terminate()


@BOTH
def test_time_events_of_model_exchange(version: int, fmu: Fmus) -> None:
    with opened(fmu("stairs", version)) as stairs:
        one = stairs.begun(ME)
        assert one.update() == Updated(next_time=0.25)
        one.enter_continuous_time_mode()
        one.set_time(0.25)
        one.enter_event_mode()
        assert one.update() == Updated(next_time=0.5)
        assert one.reader(stairs["y"])() == 1.5


@BOTH
def test_indicators_and_states_that_jump(version: int, fmu: Fmus) -> None:
    with opened(fmu("ball", version)) as ball:
        one = ball.begun(ME)
        while one.update().again:
            pass
        one.enter_continuous_time_mode()
        assert (one.states(), one.derivatives()) == ([1.0, 0.0], [0.0, -9.81])
        (above,) = one.indicators()
        when, speed = bounces(1.0)[0]
        one.set_time(when)
        one.set_states([-1e-9, -9.81 * when])
        (below,) = one.indicators()
        assert above * below < 0
        one.enter_event_mode()
        assert one.update().states_changed
        one.enter_continuous_time_mode()
        assert one.states()[1] == pytest.approx(speed)


def test_a_step_returns_early_for_an_event(fmu: Fmus) -> None:
    when, speed = bounces(1.0)[0]
    with opened(fmu("ball", 3)) as ball:
        one = ball.begun(event_mode=True, early_return=True)
        while one.update().again:
            pass
        one.enter_step_mode()
        ended = one.step(0.0, 1.0, True)
        assert (ended.event, ended.early, ended.terminate) == (True, True, False)
        assert ended.reached == pytest.approx(when, abs=1e-9)
        one.enter_event_mode()
        while one.update().again:
            pass
        one.enter_step_mode()
        assert one.reader(ball["v"])() == pytest.approx(speed)
        assert one.reader(ball["bounces"])() == 1


def test_clocks(fmu: Fmus) -> None:
    with opened(fmu("clocks", 3)) as clocks:
        one = clocks.begun(event_mode=True, early_return=True)
        one.writer(clocks["u"])(4.5)
        one.writer(clocks["hit"])(True)
        while one.update().again:
            pass
        assert one.reader(clocks["held"])() == 4.5
        one.writer(clocks["tick"])(True)
        assert one.reader(clocks["ticks"])() == 1
        assert one.reader(clocks["hit"])() is False
        assert one.reader(clocks["tick"])() is True


MINIATURE = """
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
typedef void (*Log)(void*, int, const char*, const char*);
void* fmi3InstantiateCoSimulation(const char* name, const char* token, const char* resources, bool visible,
    bool logging, bool events, bool early, const uint32_t* refs, size_t n, void* environment, Log log,
    void* update) {
  static int it;
  log(environment, 1, "", resources);
  it = visible + 2 * logging + 4 * events + 8 * early + 16 * (int)n + 512 * !update;
  if (n) it += 32 * (int)refs[0];
  return &it;
}
void fmi3FreeInstance(void* it) {}
int fmi3GetInt32(void* it, const uint32_t* refs, size_t n, int32_t* to, size_t count) {
  return *to = *(int*)it, 0;
}
"""


@pytest.fixture
def miniature(tmp_path: Path) -> Path:
    """An FMU that shows what it was made with."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "mit Größe"
    library = folder / "binaries" / Platform.here().folders(3)[0] / f"miniature{SUFFIX}"
    library.parent.mkdir(parents=True)
    command = [COMPILER, "-std=c99", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=MINIATURE.encode(), check=True, timeout=60)
    return folder


def variable(name: str, type: Type, reference: int = 5) -> Variable:
    return Variable(
        name=name,
        reference=reference,
        type=type,
        causality=Causality.INPUT,
        variability=Variability.DISCRETE,
        initial=None,
    )


def test_what_an_fmu_of_fmi_3_is_made_with(miniature: Path, caplog: pytest.LogCaptureFixture) -> None:
    description = ModelDescription(
        version=3,
        written_version="3.0",
        name="miniature",
        token="{}",
        co_simulation=CoSimulation(model_identifier="miniature"),
    )
    seen, clock = variable("seen", Type.INT32), variable("clock", Type.CLOCK)
    plain = instantiate(miniature, description, CS, "one")
    assert plain.reader(seen)() == 512
    assert caplog.messages == [f"{miniature}/resources/"]
    for options, code in (
        ({"logging": True}, 514),
        ({"event_mode": True}, 516),
        ({"early_return": True}, 520),
        ({"required": [clock]}, 16 + 32 * 5),
    ):
        assert instantiate(miniature, description, CS, "one", **options).reader(seen)() == code
    with pytest.raises(FmuError, match="the FMU has no fmi3Terminate"):
        plain.terminate()
    plain.free()


def test_fmi_2_gets_its_resources_as_a_uri(tmp_path: Path) -> None:
    found = resources(tmp_path / "mit Größe", 2)
    assert found.startswith("file:///")
    assert found.endswith("/mit%20Gr%C3%B6%C3%9Fe/resources")
