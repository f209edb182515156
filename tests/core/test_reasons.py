"""Reasons of steps: data, sentences, files."""

from __future__ import annotations

import json

import pytest

import upbeat as up
from upbeat.core import reasons
from upbeat.core.reasons import Reason, as_reason
from upbeat.trace.log import StepLog


def test_a_reason_has_a_sentence_a_label_and_an_event() -> None:
    why = Reason(reasons.EXPECTED, "hit", 0.4515236409857309)
    assert str(why) == "event 'hit' expected at 0.451523641"
    assert (why.label, why.event) == ("hit expected", "hit")
    error = Reason(reasons.ERROR, "a.x", of=(float("nan"),))
    assert str(error) == "error nan × tolerance at a.x"
    assert (error.label, error.event) == ("error at a.x", "")
    assert str(Reason(reasons.ROUNDED, "slow 0.5", of=(0.5,))) == "slow 0.5, the next of the proven steps"


def test_what_is_no_kind_of_ours_is_taken_as_it_is_written() -> None:
    own = as_reason("warming {up}")
    assert (str(own), own.label, own.event, own.plain) == ("warming {up}", "warming {up}", "", True)
    assert as_reason(own) is own


@pytest.mark.parametrize("kind", reasons.SENTENCES)
def test_a_text_that_happens_to_be_a_kind_of_ours_is_taken_as_it_is_written(kind: str) -> None:
    own = as_reason(kind)
    assert (str(own), own.label, own.event, own.plain) == (kind, kind, "", True)
    log = StepLog()
    log.append(0.0, 1.0, kind)
    assert log.reasons() == {kind: 1}
    assert [step.reason for step in StepLog.from_data(log.to_data())] == [kind]


@pytest.mark.parametrize(
    "why", [Reason("own"), Reason(reasons.BACK, "hit", 1.5), Reason(reasons.ERROR, "a.x", of=(2.0,))]
)
def test_reasons_go_through_files(why: Reason) -> None:
    assert Reason.from_data(json.loads(json.dumps(why.to_data()))) == why


@pytest.mark.parametrize("kind", reasons.SENTENCES)
def test_every_sentence_can_be_said(kind: str) -> None:
    why = Reason(kind, "hit", 1.5, (2.5, 3.5))
    assert "{" not in str(why)
    assert "{" not in why.label


def test_a_trace_tells_why_as_data(engine: str) -> None:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0}, solver="midpoint")
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
    scenario = up.Scenario({"ball": ball}, events={"bounce": bounce})
    trace = up.simulate(scenario, pace=up.LookAhead(0.1), until=0.6, engine=engine)
    (seen,) = [step.why for step in trace.steps if step.why.event]
    assert seen == Reason(reasons.EXPECTED, "bounce", trace.events[0].time)
    back = up.simulate(scenario, pace=up.Revised(0.1), until=0.6, engine=engine)
    (gone,) = [step.why for step in back.steps if step.why.event]
    assert (gone.kind, gone.about) == (reasons.BACK, "bounce")
    assert gone.at == pytest.approx((2 / 9.81) ** 0.5, abs=1e-9)
