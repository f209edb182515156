"""Units that change in jumps alone are left standing: nobody but the clock can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from conftest import ENGINES
from upbeat.master import master as masters
from upbeat.master.program import Advance, Due, Get, walk

COUPLINGS: dict[str, tuple[Any, Any]] = {
    "jacobi": (up.Jacobi(), 0.25),
    "gauss_seidel": (up.GaussSeidel(), 0.25),
    "iterated": (up.Iterated(up.Jacobi()), 0.25),
    "multirate": (up.MultiRate({"tank": 3}), 0.25),
    "negotiated": (up.Negotiated(), 0.25),
    "error control": (up.Jacobi(), up.ErrorControl(1e-4)),
}


def station(start: str = "idle", work: float = 1.0) -> up.StateMachine:
    """Waits for a job, works on it for a while and hands it on; counts, and says for how long it waited."""
    return up.StateMachine(
        states=["idle", "busy"],
        initial=start,
        inputs={"job": {"event": True}},
        outputs={"done": {"event": True}, "count": "n", "waited": "w"},
        variables={"n": 0, "w": 0.0},
        parameters={"work": work},
        transitions=[
            {"from": "idle", "to": "busy", "on": "job", "do": {"w": "elapsed"}},
            {"from": "busy", "to": "idle", "after": "work", "do": {"n": "n + 1"}, "emit": {"done": True}},
        ],
    )


def ring(stations: int) -> up.Scenario:
    """One job goes round; station k is done with it for the first time at k + 1."""
    units = {f"s{k}": station("idle" if k else "busy") for k in range(stations)}
    links = {f"s{k}.job": f"s{(k - 1) % stations}.done" for k in range(stations)} if stations > 1 else {}
    return up.Scenario(units, links)


def plant() -> up.Scenario:
    """Two stations, and a tank that is filled as fast as the first one has been quick."""
    tank = up.Ode(states={"level": "inflow - 0.5*level"}, inputs={"inflow": 0.0}, outputs=["level"])
    units = {"first": station("busy", 0.7), "tank": tank, "second": station("idle", 0.45)}
    links = {"first.job": "second.done", "second.job": "first.done", "tank.inflow": "first.count"}
    return up.Scenario(units, links)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stations", [2, 3, 7, 60])
def test_a_job_goes_round(engine: str, stations: int) -> None:
    trace = up.simulate(ring(stations), until=2.5 * stations, engine=engine)
    expected = [(k + 1.0, f"s{k % stations}.done") for k in range(int(2.5 * stations))]
    assert [(event.time, event.name) for event in trace.events] == expected
    assert list(trace["s1.waited"][-1:]) == [stations - 1.0]


def test_a_step_moves_only_what_moves() -> None:
    program = up.Master(up.Fixed(0.25)).program(plant())
    (step,) = program.steps.values()
    assert {i.unit for i in walk(step) if isinstance(i, Advance | Get)} == {"tank"}
    asked = {i.unit for i in program.instant if isinstance(i, Due)}
    assert asked == set()  # only who has jumped is asked anew


def test_who_shows_the_time_goes_along() -> None:
    shown = up.StateMachine(
        states=["on"], initial="on", outputs={"since": "elapsed"}, variables={"n": 0},
        transitions=[{"from": "on", "after": 1.0, "do": {"n": "n + 1"}}],
    )  # fmt: skip
    watching = up.StateMachine(
        states=["low", "high"], initial="low", inputs={"level": 0.0},
        transitions=[{"from": "low", "to": "high", "when": "level > 1"}],
    )  # fmt: skip
    assert station().still
    assert not shown.still
    assert not watching.still
    program = up.Master(up.Fixed(0.25)).program(up.Scenario({"shown": shown, "watching": watching}))
    (step,) = program.steps.values()
    assert {i.unit for i in step if isinstance(i, Advance)} == {"shown", "watching"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_it_means_the_same_to_every_coupling(
    engine: str, coupling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, pace = COUPLINGS[coupling]
    settings: dict[str, Any] = {"coupling": way, "pace": pace, "until": 6.0, "engine": engine}
    left = up.simulate(plant(), **settings)
    monkeypatch.setattr(masters, "idle", lambda wiring, steps: frozenset())
    moved = up.simulate(plant(), **settings)
    assert left.names == moved.names
    assert all((left[name] == moved[name]).all() for name in left.names)
    assert list(left.time) == list(moved.time)
    assert [(e.time, e.name) for e in left.events] == [(e.time, e.name) for e in moved.events]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_event_set_by_hand_finds_the_unit_at_the_present_time(engine: str) -> None:
    scenario = up.Scenario({"lonely": station(), "tank": up.Ode(states={"x": "-x"}, outputs=["x"])})
    with up.start(scenario, pace=0.5, until=5.0, engine=engine) as run:
        for _ in range(3):
            run.step()
        run.set("lonely.job", True)
        trace = run.finish()
    assert [(event.time, event.name) for event in trace.events] == [(2.5, "lonely.done")]
    assert trace["lonely.waited"][-1] == 1.5


@pytest.mark.parametrize("engine", ENGINES)
def test_a_checkpoint_keeps_where_units_stand(engine: str, tmp_path: Path) -> None:
    whole = up.simulate(ring(5), until=40.0, engine=engine)
    place = tmp_path / "ring.checkpoint"
    with up.start(ring(5), until=40.0, engine=engine, checkpoint=place, out=tmp_path / "r.journal") as run:
        for _ in range(17):
            run.step()
    again = up.resume(place)
    assert [(e.time, e.name) for e in again.events] == [(e.time, e.name) for e in whole.events]
