"""Instances are called as FMPy calls them: same FMU, same calls, same numbers; and closed forms."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from fmu_opened import CS, ME, Opened, opened
from upbeat.units.fmi.instance import FmuError, Stepped, Updated, instantiate


@pytest.fixture(params=[2, 3])
def linear(request: pytest.FixtureRequest, compiled: dict[tuple[str, int], Path]) -> Iterator[Opened]:
    with opened(compiled["linear", request.param]) as one:
        yield one


def test_co_simulation_follows_the_closed_form(linear: Opened) -> None:
    # x' = -2 x + u, x(0) = 1, u = 4, y = 3 x + 0.5 u
    one = linear.begun()
    one.writer(linear["u"])(4.0)
    x, y = one.reader(linear["x"]), one.reader(linear["y"])
    for k in range(10):
        assert one.step(k * 0.1, 0.1, True) == Stepped(k * 0.1 + 0.1)
    exact = 2 - math.exp(-2.0)
    assert x() == pytest.approx(exact, abs=1e-8)
    assert y() == pytest.approx(3 * exact + 2, abs=3e-8)
    one.terminate()


def test_the_same_calls_give_the_numbers_of_fmpy(linear: Opened) -> None:
    from fmpy import read_model_description
    from fmpy.simulation import instantiate_fmu

    theirs = read_model_description(linear.folder)
    judge = instantiate_fmu(str(linear.folder), theirs, "CoSimulation")
    version = linear.version
    if version == 2:
        judge.setupExperiment(startTime=0.0)
        judge.enterInitializationMode()
    else:
        judge.enterInitializationMode(startTime=0.0)
    judge.exitInitializationMode()
    get = judge.getReal if version == 2 else judge.getFloat64
    put = judge.setReal if version == 2 else judge.setFloat64
    one = linear.begun()
    u, readers = one.writer(linear["u"]), [one.reader(v) for v in linear.description.variables]
    references = [variable.reference for variable in linear.description.variables]
    for k in range(50):
        value = math.sin(k)
        u(value)
        put([linear["u"].reference], [value])
        one.step(k * 0.02, 0.02, True)
        judge.doStep(currentCommunicationPoint=k * 0.02, communicationStepSize=0.02)
        assert [read() for read in readers] == list(get(references))
    judge.terminate()
    judge.freeInstance()


def test_states_come_back_in_memory_and_as_bytes(linear: Opened, tmp_path: Path) -> None:
    model = up.Fmu(linear.folder, rollback="trust", locals=["x"])
    one: Any = model.instantiate("one", 0.0)
    one.advance(0.0, 0.5)
    kept, state = one.get("x"), one.save()
    data = one.to_bytes(state)
    one.advance(0.5, 1.0)
    later = one.get("x")
    one.restore(state)
    assert one.get("x") == kept != later
    one.advance(0.5, 1.0)
    assert one.get("x") == later
    other: Any = model.instantiate("other", 0.0)
    other.restore(other.from_bytes(data))
    assert (other.get("x"), other.time) == (kept, 0.5)
    with pytest.raises(up.ModelError, match="not a state of this unit"):
        other.from_bytes(data[:-1])
    broken = data[:-9] + bytes([(data[-9] + 1) % 256]) + data[-8:]
    with contextlib.suppress(FmuError):  # it may notice, and must not crash
        other.from_bytes(broken)
    one.close()
    other.close()


def test_model_exchange(linear: Opened) -> None:
    one = linear.begun(ME)
    assert one.update() == Updated(next_time=math.inf)
    one.enter_continuous_time_mode()
    one.set_time(0.25)
    one.set_states([3.0])
    one.writer(linear["u"])(1.0)
    assert one.states() == [3.0]
    assert one.derivatives() == [-5.0]
    assert one.nominals() == [1.0]
    assert one.indicators() == []
    assert one.time == one.reader(linear["time"])() == 0.25


def test_derivatives_along_and_against(linear: Opened) -> None:
    one = linear.begun()
    unknowns, knowns = [linear["y"], linear["der(x)"]], [linear["x"], linear["u"]]
    assert one.directional(unknowns, knowns, [1.0, 10.0]) == [8.0, 8.0]
    if linear.version == 2:
        with pytest.raises(FmuError, match="the FMU has no fmi3GetAdjointDerivative"):
            one.adjoint(unknowns, knowns, [1.0, 10.0])
    else:
        assert one.adjoint(unknowns, knowns, [1.0, 10.0]) == [-17.0, 10.5]


def test_a_refused_call_says_why_and_the_instance_lives_on(linear: Opened) -> None:
    one = linear.begun()
    name = f"fmi{linear.version}Set"
    with pytest.raises(FmuError, match=f"{name}.* failed: .*refused") as caught:
        one.writer(linear["y"])(1.0)
    assert not caught.value.fatal
    assert caught.value.call.startswith(name)
    assert one.reader(linear["x"])() == 1.0


def test_nothing_is_called_after_free(linear: Opened) -> None:
    one = linear.begun()
    read, write = one.reader(linear["x"]), one.writer(linear["u"])
    one.free()
    one.free()
    for call in (read, lambda: write(1.0), one.terminate, lambda: one.step(0, 1, True)):
        with pytest.raises(FmuError, match="has been freed"):
            call()


def test_inputs_move_along_their_derivatives(compiled: dict[tuple[str, int], Path]) -> None:
    # x' = -2 x + t, x(0) = 1
    one: Any = up.Fmu(compiled["linear", 2], locals=["x"]).instantiate("one", 0.0)
    one.set("u", [0.0, 1.0])
    one.advance(0.0, 1.0)
    assert one.get("x") == pytest.approx(1.25 * math.exp(-2) + 0.5 - 0.25, abs=1e-5)
    one.close()


def test_a_wrong_token_gives_no_instance(linear: Opened) -> None:
    wrong = replace(linear.description, token="{other}")
    with pytest.raises(FmuError, match=r"gave no instance.*'\{other\}'"):
        instantiate(linear.folder, wrong, CS, "one")


def test_a_scalar_has_no_cells_to_choose(linear: Opened) -> None:
    one = linear.begun()
    one.writer(linear["u"], 1)(2.0)
    assert one.reader(linear["u"], 1)() == 2.0
