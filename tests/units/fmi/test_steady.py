"""FMUs that take only steps of one length: others are an error, and are foreseen."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest

import upbeat as up
from fmu_maker import LINEAR, MODELS, make


@pytest.fixture(scope="session", params=[2, 3])
def steady(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> up.Fmu:
    fmu = replace(LINEAR, name="steady", source="linear", variable_step=False)
    return up.Fmu(make(fmu, request.param, tmp_path_factory.mktemp("steady")), rollback="trust")


def test_steps_of_one_length(steady: up.Fmu, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """Far from zero the lengths differ by rounding alone."""
    scenario = up.Scenario({"a": steady})
    trace = up.simulate(scenario, pace=1e-3, start=1e5, until=1e5 + 1, engine=engine)  # type: ignore[arg-type]
    assert trace["a.y"][-1] == pytest.approx(3 * math.exp(-2), rel=1e-6)
    assert not caplog.records


def test_a_last_step_that_is_shorter(steady: up.Fmu, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    made = up.experiment(up.Scenario({"a": steady}), pace=0.3, until=1.0, engine=engine)  # type: ignore[arg-type]
    (remark,) = made.remarks
    assert "a: the FMU takes only steps of one length" in remark
    assert "the last one, from 0.9 to 1, will be shorter than 0.3" in remark
    assert "--until 0.9 or 1.2" in remark
    with caplog.at_level(logging.WARNING, "upbeat.run"):
        trace = made.run()
    assert [record.getMessage() for record in caplog.records] == [remark]
    assert trace["a.y"][-1] == pytest.approx(3 * math.exp(-2), rel=1e-5)


def test_a_last_step_may_be_repeated(steady: up.Fmu, engine: str) -> None:
    loop = up.Scenario({"a": steady}, {"a.u": "-0.5*a.y"})
    trace = up.simulate(loop, pace=0.3, until=1.0, coupling=up.Iterated(), engine=engine)  # type: ignore[arg-type]
    assert trace.time[-1] == 1.0


def test_error_control(steady: up.Fmu, engine: str) -> None:
    loop = up.Scenario({"a": steady}, {"a.u": "-0.5*a.y"})
    made = up.experiment(loop, pace=up.ErrorControl(1e-6), until=1.0, engine=engine)  # type: ignore[arg-type]
    assert any("the pace (ErrorControl) chooses others" in remark for remark in made.remarks)
    with pytest.raises(
        up.UnitError, match=r"(?s)'a'.*takes only steps of one length.*the first was .* long, the one"
    ):
        made.run()


def test_events_of_others(steady: up.Fmu, engine: str, tmp_path: Path) -> None:
    """A stair has its steps at whole quarters, which lie off the grid."""
    stairs = up.Fmu(make(MODELS["stairs", 3], 3, tmp_path))
    made = up.experiment(
        up.Scenario({"a": steady, "b": stairs}),
        pace=0.1,
        until=1.0,
        engine=engine,  # type: ignore[arg-type]
    )
    assert any("b can end one in between" in remark for remark in made.remarks)
    with pytest.raises(up.UnitError) as caught:
        made.run()
    assert "the first was 0.1 long" in str(caught.value)


def test_events_of_its_own(engine: str, tmp_path: Path) -> None:
    """Where it stops by itself the lengths around are its own doing."""
    own = up.Fmu(
        make(replace(MODELS["stairs", 3], name="own", source="stairs", variable_step=False), 3, tmp_path)
    )
    free = up.Fmu(make(MODELS["stairs", 3], 3, tmp_path))
    found = [
        up.simulate(up.Scenario({"a": model}), pace=0.1, until=1.0, engine=engine)  # type: ignore[arg-type]
        for model in (own, free)
    ]
    assert list(found[0].time) == list(found[1].time)


def test_others_are_free(fmu: object, engine: str, tmp_path: Path) -> None:
    model = up.Fmu(make(LINEAR, 2, tmp_path))
    made = up.experiment(up.Scenario({"a": model}), pace=0.3, until=1.0, engine=engine)  # type: ignore[arg-type]
    assert made.remarks == ()
