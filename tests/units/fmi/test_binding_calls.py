"""The binding calls FMUs as FMPy does: same FMU, same calls, same numbers; and closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fmu_opened import CS, ME, Opened, opened
from upbeat.units.fmi.binding import instantiate
from upbeat.units.fmi.instance import FmuError, Stepped, Updated


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
    assert one.output_derivatives([linear["y"]], [1]) == pytest.approx([3 * (4 - 2 * exact)], abs=1e-7)
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


def test_states_come_back_in_memory_and_as_bytes(linear: Opened) -> None:
    one = linear.begun()
    x = one.reader(linear["x"])
    one.step(0.0, 0.5, False)
    kept, state = x(), one.save()
    data = one.to_bytes(state)
    one.step(0.5, 0.5, False)
    later = x()
    one.restore(state)
    assert x() == kept != later
    one.step(0.5, 0.5, False)
    assert x() == later
    assert one.save(state) is state
    one.restore(state)
    assert x() == later
    one.drop(state)
    one.drop(state)
    other = linear.begun()
    other.restore(other.from_bytes(data))
    assert other.reader(linear["x"])() == kept
    with pytest.raises(FmuError, match=r"(?i)DeserializeFMUstate failed"):
        other.from_bytes(data[:-1])


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
    assert one.completed_step(True) == (False, False)
    assert one.time == one.reader(linear["time"])() == 0.25


def test_derivatives_along_and_against(linear: Opened) -> None:
    one = linear.begun()
    unknowns, knowns = [linear["y"], linear["der(x)"]], [linear["x"], linear["u"]]
    assert one.directional(unknowns, knowns, [1.0, 10.0]) == [8.0, 8.0]
    if linear.version == 2:
        with pytest.raises(FmuError, match="FMI 2 has no adjoint"):
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
    one.save()
    one.free()
    one.free()
    assert one.pointer == 0
    for call in (read, lambda: write(1.0), one.terminate, one.save, lambda: one.step(0, 1, True)):
        with pytest.raises(FmuError, match="has been freed"):
            call()


def test_addresses_are_those_of_the_library(linear: Opened) -> None:
    one = linear.instance()
    version = linear.version
    assert one.pointer
    assert one.address(f"fmi{version}DoStep") not in (0, one.address(f"fmi{version}Terminate"))
    assert one.address("fmi1DoStep") == 0


def test_inputs_move_along_their_derivatives(compiled: dict[tuple[str, int], Path]) -> None:
    # x' = -2 x + t, x(0) = 1
    with opened(compiled["linear", 2]) as linear:
        one = linear.begun()
        one.writer(linear["u"])(0.0)
        one.set_input_derivatives([linear["u"]], [1], [1.0])
        one.step(0.0, 1.0, True)
        exact = 1.25 * math.exp(-2) + 0.5 - 0.25
        assert one.reader(linear["x"])() == pytest.approx(exact, abs=1e-5)


def test_a_wrong_token_gives_no_instance(linear: Opened) -> None:
    wrong = replace(linear.description, token="{other}")
    with pytest.raises(FmuError, match=r"gave no instance.*'\{other\}'"):
        instantiate(linear.folder, wrong, CS, "one")


def test_a_scalar_has_no_cells_to_choose(linear: Opened) -> None:
    one = linear.begun()
    one.writer(linear["u"], 1)(2.0)
    assert one.reader(linear["u"], 1)() == 2.0
