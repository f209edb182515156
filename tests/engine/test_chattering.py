"""Events that follow each other without end: the run ends with their names, whatever the pace."""

from __future__ import annotations

from typing import Any

import pytest

import upbeat as up

STEP = 1e-3


def relay(band: float, outputs: dict[str, str] | None = None) -> up.Scenario:
    """Goes up and down at unit speed within a band: one event for each `band` seconds."""
    plant = up.Ode({"x": "u"}, variables={"u": 1.0}, outputs=["x", "u"])
    return up.Scenario(
        {"plant": plant},
        events={
            "falls": {"when": f"plant.x >= {0.5 * band!r}", "then": {"plant.u": "-1"}},
            "rises": {"when": f"plant.x <= {-0.5 * band!r}", "then": {"plant.u": "1"}},
        },
        outputs=outputs or {},
    )


def own_relay(band: float) -> up.Scenario:
    """The same, inside the unit."""
    events = {
        "falls": {"when": f"x >= {0.5 * band!r}", "then": {"u": "-1"}},
        "rises": {"when": f"x <= {-0.5 * band!r}", "then": {"u": "1"}},
    }
    plant = up.Ode({"x": "u"}, variables={"u": 1.0}, outputs=["x", "u"], events=events)
    return up.Scenario({"plant": plant})


BETWEEN: dict[str, dict[str, Any]] = {
    "LookAhead": {"pace": up.LookAhead(STEP)},
    "Revised": {"pace": up.Revised(STEP)},
    "both": {"pace": up.Revised(up.LookAhead(STEP))},
    "Interruptible": {"pace": STEP, "coupling": up.Interruptible()},
    "auto": {"pace": STEP, "events": "auto"},
    "error control": {"pace": up.Revised(up.ErrorControl(1e-3))},
}
INSIDE: dict[str, dict[str, Any]] = {
    "LookAhead": {"pace": up.LookAhead(STEP)},
    "Negotiated": {"pace": STEP, "coupling": up.Negotiated()},
    "Interruptible": {"pace": STEP, "coupling": up.Interruptible()},
}


def told(scenario: up.Scenario, engine: str, until: float = 10.0, **more: Any) -> str:
    with pytest.raises(up.StepError) as caught:
        up.simulate(scenario, until=until, engine=engine, **more)
    return str(caught.value)


@pytest.mark.parametrize("way", BETWEEN)
def test_a_relay_that_chatters_ends_the_run_with_its_events_and_units(way: str) -> None:
    """A thousand events a step, each further from the one before than what is close to it."""
    text = told(relay(1e-6), "native", **BETWEEN[way])
    assert "'falls' (plant)" in text
    assert "'rises' (plant)" in text
    if way != "error control":
        assert "every 1e-06 s" in text or "every 1.01e-06 s" in text or "every 1.02e-06 s" in text
        assert "take a step of 1e-05 s at most" in text


@pytest.mark.parametrize("way", ["LookAhead", "Interruptible"])
def test_both_engines_end_at_the_same_event_with_the_same_words(way: str) -> None:
    native, interpreted = (told(relay(1e-6), engine, **BETWEEN[way]) for engine in ("native", "interpret"))
    assert native == interpreted


@pytest.mark.parametrize("way", INSIDE)
def test_so_does_one_inside_a_unit(way: str) -> None:
    text = told(own_relay(1e-6), "native", **INSIDE[way])
    assert (
        "'plant.falls'" in text and "'plant.rises'" in text
        if way == "LookAhead"
        else "stops of plant" in text
    )


@pytest.mark.parametrize(
    "way",
    [
        {"pace": up.LookAhead(0.1), "coupling": up.Interruptible()},
        {"pace": 0.1, "coupling": up.Interruptible()},
        {"pace": up.Revised(0.1)},
    ],
)
def test_a_ball_that_never_rests_is_told_by_name_with_the_remedy(engine: str, way: dict[str, Any]) -> None:
    """Its leaps add up to 2.56 s; what is behind that, no step however short gets to."""
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.7*ball.v"}}
    text = told(up.Scenario({"ball": ball}, events={"bounce": bounce}), engine, **way)
    assert "without end at t = 2.5" in text
    assert "'bounce' (ball)" in text
    assert "where the nominal step is 0.1 s" in text
    assert "a mode in which it rests" in text
    assert ("take a step" in text) == ("coupling" not in way), "leaps of 1e-15 s are rounding"


@pytest.mark.parametrize("part", [0.05, 0.01, 1e-4, 1e-5])
def test_whatever_the_distance_between_events(part: float) -> None:
    """More than ten in a step for ever; the relay of half the rate goes on."""
    assert "without end" in told(relay(part * STEP), "native", 100.0, pace=up.LookAhead(STEP))


def test_the_step_that_is_offered_is_short_enough() -> None:
    trace = up.simulate(relay(1e-4), until=1.0, engine="native", pace=up.LookAhead(1e-3))
    assert len(trace.events) == pytest.approx(
        10_000, rel=0.01
    )  # ten a step, five times as many as come in a burst


def test_bursts_and_what_is_spread_over_the_run_are_fine() -> None:
    """Forty events a step, but no more of them than a run may have: those of a converter at 20 kHz, say."""
    trace = up.simulate(relay(2.5e-5), until=0.5, engine="native", pace=up.LookAhead(1e-3))
    assert len(trace.events) == pytest.approx(20_000, rel=0.01)


def test_known_events_cost_nothing(engine: str) -> None:
    """So many ticks in a step, beside an event that is looked for."""
    sampler = up.Sampler(every=1e-4)
    wave = up.Ode({"x": "v", "v": "-x"}, start={"x": 1.0}, outputs=["x"])
    scenario = up.Scenario(
        {"wave": wave, "sampler": sampler},
        {"sampler.signal": "wave.x"},
        events={"low": {"when": "wave.x <= 0"}},
    )
    count = 60_000 if engine == "native" else 6000
    trace = up.simulate(
        scenario, until=1e-4 * count, engine=engine, pace=up.LookAhead(0.5), record=["wave.x"]
    )
    assert trace.events.counts()["sampler.event"] == pytest.approx(count, abs=2)


def test_a_nest_that_chatters_says_where(engine: str) -> None:
    nest = up.Nested(relay(1e-6, {"x": "plant.x"}), master=up.Master(up.LookAhead(STEP)))
    other = up.Ode({"y": "-y"}, start={"y": 1.0}, outputs=["y"])
    text = told(up.Scenario({"nest": nest, "other": other}), engine, pace=0.5)
    assert text.startswith("inside 'nest': events follow each other without end")
    assert "'falls'" in text


def test_what_is_left_is_saved_with_the_run(tmp_path: Any) -> None:
    """A run that goes on from a checkpoint ends where the whole one does."""
    whole = told(relay(1e-6), "native", pace=up.LookAhead(STEP))
    keep = up.Checkpoint(tmp_path / "half", every=1e9)
    out = tmp_path / "run.journal"
    run = up.start(
        relay(1e-6), until=10.0, engine="native", pace=up.LookAhead(STEP), checkpoint=keep, out=out
    )
    for _ in range(1000):
        run.step()
    run.checkpoint()
    run.close()
    with pytest.raises(up.StepError) as caught:
        up.resume(tmp_path / "half")
    assert str(caught.value).partition(":")[0] == whole.partition(":")[0]


# -------------------------------------------------------------------- at one instant


def test_a_chain_at_one_instant_names_events_and_units(engine: str) -> None:
    switch = up.Ode({"x": "0"}, variables={"u": 1.0}, outputs=["u"])
    other = up.Ode({"x": "0"}, variables={"u": 1.0}, outputs=["u"])
    scenario = up.Scenario(
        {"left": switch, "right": other},
        events={
            "ping": {"when": "left.u > 0 and right.u > 0", "then": {"left.u": "-1"}},
            "pong": {"when": "left.u < 0", "then": {"left.u": "1"}},
            "never": {"when": "right.u < 0"},
        },
    )
    text = told(scenario, engine, pace=0.1)
    assert "event 'ping' (left, right): 2505 times, event 'pong' (left): 2505 times)" in text


def test_so_does_one_inside_a_unit_at_one_instant(engine: str) -> None:
    events = {"ping": {"when": "u > 0", "then": {"u": "-1"}}, "pong": {"when": "u < 0", "then": {"u": "1"}}}
    switch = up.Ode({"x": "0"}, variables={"u": 1.0}, outputs=["u"], events=events)
    assert "left (its events ping, pong)" in told(up.Scenario({"left": switch}), engine, pace=0.1)
