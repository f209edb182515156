"""Search spaces, the order of their variants, and schedules of operations."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.hints.language import about, parse_hints
from upbeat.hints.rules import OF_HINTS, RULES, Draft, Known, Rule, realised, search_space
from upbeat.hints.schedule import Coupled, InvalidSchedule, Schedule, UnitGroup, scheduled
from upbeat.hints.space import Candidate, Choice, Decision, Interpolated, Option, SearchSpace, diagram


def test_the_published_search_space_has_its_four_variants_in_order() -> None:
    space = SearchSpace(
        (
            Candidate(
                (
                    Choice("R", (Option(10, 1.0), Option(100, 2.0))),
                    Choice("H", (Option(1e-6, 3.0), Option(1e-7, 4.0))),
                )
            ),
        )
    )
    assert [v.values for v in space.variants()] == [(1e-7, 100), (1e-7, 10), (1e-6, 100), (1e-6, 10)]
    assert len(space) == diagram(space.candidates[0]).leaves == 4
    assert [v.chosen["R"] for v in space.first(2)] == [100, 10]


def test_candidates_with_larger_weights_come_first() -> None:
    one = Candidate((Choice("a", (Option(1),)),), name="one", weight=1.0)
    two = Candidate(name="two", weight=2.0)
    assert [v.candidate.name for v in SearchSpace((one, two)).variants()] == ["two", "one"]


# -- schedules


LINKS = (
    Coupled("plant", "plant.v", "load", "load.v"),
    Coupled("load", "load.f", "plant", "plant.f"),
    Coupled("load", "load.x", "soft", "soft.x"),
    Coupled("soft", "soft.u", "plant", "plant.u"),
)


def meets(schedule: Schedule, links: Any) -> bool:
    """The conditions of a valid step, looked up in the order itself."""
    order = [str(one) for one in schedule.order]
    place = {text: k for k, text in enumerate(order)}
    if len(place) != len(order):
        return False
    for link in links:
        asked = f"get {link.output} {'after' if link.reactive else 'before'} its step"
        told, made, stepped = f"set {link.input}", f"step {link.source}", f"step {link.target}"
        if not place[asked] < place[told] < place[stepped]:
            return False
        if link.reactive and not place[made] < place[asked]:
            return False
        if not link.reactive and not place[told] < place[made]:
            return False
    return sum(text.startswith("step ") for text in order) == len(
        {u for li in links for u in (li.source, li.target)}
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()).filter(lambda one: one[0] != one[1]),
        min_size=1,
        max_size=7,
        unique_by=lambda one: one[:2],
    )
)
def test_a_schedule_is_found_exactly_where_units_can_be_ordered(given: list[tuple[int, int, bool]]) -> None:
    links = [Coupled(f"u{a}", f"u{a}.y{b}", f"u{b}", f"u{b}.x{a}", reactive) for a, b, reactive in given]
    units = sorted({u for link in links for u in (link.source, link.target)})
    # An interpolated input asks for its source before its unit; of others both may be done side by side.
    possible = any(
        all(order.index(link.source) < order.index(link.target) for link in links if link.reactive)
        for order in permutations(units)
    )
    try:
        found = scheduled(units, links)
    except InvalidSchedule as error:
        assert not possible
        for edge, following in zip(error.cycle, [*error.cycle[1:], error.cycle[0]], strict=True):
            assert edge.then == following.first
    else:
        assert possible
        assert meets(found, links)


def test_a_cycle_is_told_with_its_edges() -> None:
    both = [link._replace(reactive=True) for link in LINKS[:2]]
    with pytest.raises(
        InvalidSchedule, match=r"step plant → get plant.v after its step \(load.v interpolates\)"
    ):
        scheduled(["plant", "load"], both)


def test_units_that_step_together_have_a_schedule_of_their_own() -> None:
    links = [LINKS[0], LINKS[1]._replace(reactive=True), *LINKS[2:]]
    found = scheduled(["soft", "plant", "load"], links, [UnitGroup(("plant", "load"), 10)])
    assert [str(one) for one in found.order if one.call == "step"] == ["step soft", "step plant+load"]
    ((group, inside),) = found.inner
    assert group.rate == 10
    assert inside.units == ("load", "plant")
    assert found.units == ("soft", "load", "plant")


# -- rules


def flight(**settings: Any) -> up.Experiment:
    scenario = up.Scenario(
        {
            "soft": up.Ode({"s": "ref - x"}, inputs=["x", "ref"], outputs={"u": "s"}),
            "plant": up.Ode({"v": "u - f - v"}, inputs=["u", "f"], outputs=["v"]),
            "load": up.Ode({"x": "w", "w": "s", "s": "v - w"}, inputs=["v"], outputs={"x": "x", "f": "s"}),
            "source": up.Function(outputs={"ref": "1"}),
        },
        {
            "soft.x": "load.x",
            "soft.ref": "source.ref",
            "plant.u": "soft.u",
            "plant.f": "load.f",
            "load.v": "plant.v",
        },
    )
    return up.experiment(scenario, step=0.01, until=1.0, **settings)


HINTS = """
Hint rate { statements { Property p := FMUProperty soft.exec_rate == val 100 Hz } }
Hint bond { statements { Property p := plant.f == PowerBondSuggestions with load.v } }
"""


def known(text: str = HINTS, made: up.Experiment | None = None) -> Known:
    made = made or flight()
    return Known(made, about(made.scenario, parse_hints(text), span=1.0))


def test_rules_for_hints_make_the_space() -> None:
    space = search_space(known(), OF_HINTS)
    assert [v.values for v in space.variants()] == [(1e-3, 100), (1e-3, 10), (1e-2, 100), (1e-2, 10)]
    made = realised(known(), space.first(4)[2])
    master = made.experiment.master
    assert master.pace == up.Fixed(0.01)
    assert master.ports["soft.x"] == master.ports["plant.u"] == up.Hold()
    assert master.ports["plant.f"] == master.ports["load.v"] == up.Nepce(up.Linear())
    assert made.adapts == {"source": ("rate 100",)}


def test_several_rates_of_software_make_one_step() -> None:
    text = HINTS + "Hint slow { statements { Property p := FMUProperty source.exec_rate == val 20 Hz } }"
    (steps,) = [c for c in search_space(known(text), OF_HINTS).candidates[0].choices if c.name == "step"]
    assert [option.value for option in steps.options] == [0.05]
    made = realised(known(text), search_space(known(text), OF_HINTS).first(1)[0])
    assert made.adapts["soft"] == ("every 0.01",)


def test_where_software_is_slow_the_present_step_is_tried_as_well() -> None:
    """Others may move within a sample. A step is a whole part of the sample that is the shortest."""

    def steps(hz: str, more: str = "") -> list[float]:
        text = f"Hint rate {{ statements {{ Property p := FMUProperty soft.exec_rate == val {hz} Hz }} }}"
        (choice,) = (c for c in search_space(known(text + more)).candidates[0].choices if c.name == "step")
        return [option.value for option in choice.ranked]

    assert steps("100") == [1e-3, 1e-2]
    assert steps("2") == [0.05, 0.01, 0.5]
    assert steps("0.3") == pytest.approx([1 / 3, 10 / 3 / 334, 10 / 3])
    other = "Hint slow { statements { Property p := FMUProperty source.exec_rate == val 1 Hz } }"
    assert steps("2", other) == [1.0, 0.05, 0.01]


def test_bonds_are_known_by_outputs_too() -> None:
    text = "Hint bond { statements { Property p := load.f == PowerBondSuggestions with plant.v } }"
    assert [b.named(flight().scenario) for b in known(text).hinted_bonds] == [("load.f", "plant.v")]


def test_software_sees_nothing_of_the_future_when_units_go_in_turn() -> None:
    space = search_space(known())
    wanted = {"coupling": "in turn", "rate of source": 1, "rate of plant and load": 1}
    variant = next(v for v in space.variants() if wanted.items() <= dict(v.chosen).items())
    made = realised(known(), variant)
    coupling = made.experiment.master.coupling
    assert isinstance(coupling, up.GaussSeidel)
    assert coupling.order is not None
    first = coupling.order.index
    late = {one.port for one in variant.adaptations if isinstance(one, Interpolated)}
    assert late
    for link in known().links:
        ahead = first(link.source) < first(link.target)
        if link.input in late:
            assert ahead
        elif ahead:
            port = link.input.partition(".")[2]
            assert f"delayed on {port}" in made.adapts[link.target]


def test_facts_of_units_are_heard() -> None:
    text = "Hint no { statements { Property p := FMUProperty load.rollback == false } }"
    assert known().rollback
    assert not known(text).rollback
    scales = known("Hint t { statements { Property p := FMUProperty load.time_constant == 2 ms } }").scales
    assert scales["load"] == 2e-3
    assert abs(scales["plant"] - 1.0) < 1e-3  # of its own equation


def test_what_hints_say_of_one_unit_only_says_nothing_of_others() -> None:
    text = "Hint no { statements { Property p := FMUProperty load.rollback == false } }"
    names = {choice.name for choice in search_space(known(text)).candidates[0].choices}
    assert not [name for name in names if name.startswith(("rate of", "inputs of"))]
    text += "Hint rate { statements { Property p := FMUProperty soft.exec_rate == val 100 Hz } }"
    names = {choice.name for choice in search_space(known(text)).candidates[0].choices}
    assert {name for name in names if name.startswith("rate of")} == {"rate of plant", "rate of source"}


def test_stiff_pairs_iterate_and_fast_units_step_more_often() -> None:
    fast = up.Ode({"x": "-500*(x - u)"}, inputs=["u"])
    slow = up.Ode({"y": "z", "z": "-y - x"}, inputs=["x"], start={"y": 1.0}, outputs=["y", "z"])
    scenario = up.Scenario({"fast": fast, "slow": slow}, {"fast.u": "slow.z", "slow.x": "fast.x"})
    made = up.experiment(scenario, step=0.05, until=8.0)
    choices = {
        c.name: {o.value: o for o in c.options} for c in search_space(Known(made)).candidates[0].choices
    }
    assert choices["coupling"]["iterated"].weight == 6.0
    assert "move each other within 0.002 s" in choices["coupling"]["iterated"].why
    assert "fast moves in 0.002 s" in choices["coupling"]["fast × 10"].why
    assert "fast × 10, means" not in choices["coupling"]
    quiet = search_space(Known(made.with_(record=("slow.*",))))
    assert any("means" in str(v.chosen["coupling"]) for v in quiet.variants())


def test_shared_events_are_looked_ahead_for() -> None:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    other = up.Ode({"x": "v", "v": "0"})
    hit = {"when": "a.x <= b.x and a.v < b.v", "then": {"a.v": "-a.v"}}
    scenario = up.Scenario({"a": ball, "b": other}, events={"hit": hit})
    space = search_space(Known(up.experiment(scenario, step=0.05, until=1.0)))
    assert {v.chosen["events"] for v in space.variants()} == {"look_ahead", "revised"}


def test_a_rule_of_ones_own_is_a_few_lines() -> None:
    def only_jacobi(known: Known, draft: Draft) -> None:
        draft.choices["coupling"] = {
            "mine": Option("mine", 9.0, (Decision("coupling", up.Jacobi()),), "I say so")
        }

    space = search_space(Known(flight()), (*RULES, Rule("mine", only_jacobi)))
    assert {v.chosen["coupling"] for v in space.variants()} == {"mine"}
    assert "I say so" in space.first(1)[0].reasons
