"""The graph: evaluation order, loops, and the order of units in a sequential step."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import effort
from scenario_models import Fake, fake, input_, output
from upbeat.core.errors import MasterError
from upbeat.scenario.graph import arranged, components, cycle, unit_order
from upbeat.scenario.scenario import Scenario

THROUGH = fake(input_(), output("y", "u"))
MEMORY = fake(input_(), output("y"))
REACTIVE = fake(input_(reactive=True), output("y"))
REACTIVE_THROUGH = fake(input_(reactive=True), output("y", "u"))
DELAYED = fake(input_(reactive=False), output("y", "u"))
SOURCE = fake(output("y"))


def chain(units: Mapping[str, Fake], *links: str) -> Scenario:
    """`links` such as "a>b": output y of a goes to input u of b; several sources are added."""
    sources: dict[str, list[str]] = {}
    for link in links:
        source, target = link.split(">")
        sources.setdefault(f"{target}.u", []).append(f"{source}.y")
    return Scenario(units, {target: " + ".join(ends) for target, ends in sources.items()})


def names(nodes: object) -> list[str]:
    return [str(node) for node in nodes]  # type: ignore[attr-defined]


def test_order_follows_the_signals() -> None:
    graph = chain({"c": THROUGH, "b": THROUGH, "a": SOURCE}, "a>b", "b>c").graph
    assert names(graph.order) == ["a.y", "b.u", "b.y", "c.u", "c.y"]
    assert graph.loops == ()
    assert graph.order[0] == ("out", "a", "y")


def test_ties_are_settled_by_declaration() -> None:
    graph = chain({"b": MEMORY, "a": MEMORY}, "a>b", "b>a").graph
    assert names(graph.order) == ["b.y", "a.u", "a.y", "b.u"]


def test_an_algebraic_loop_is_named_in_the_direction_of_the_signals() -> None:
    graph = chain({"a": THROUGH, "b": THROUGH, "c": THROUGH, "d": MEMORY}, "a>b", "b>c", "c>a", "d>a").graph
    (loop,) = graph.loops
    assert names(loop) == ["a.u", "a.y", "b.u", "b.y", "c.u", "c.y"]
    assert names(graph.order)[:1] == ["d.y"] or "d.u" in names(graph.order)[:2]


def test_two_loops() -> None:
    units = dict.fromkeys("abcd", THROUGH)
    graph = chain(units, "a>b", "b>a", "c>d", "d>c").graph
    assert [names(loop) for loop in graph.loops] == [
        ["a.u", "a.y", "b.u", "b.y"],
        ["c.u", "c.y", "d.u", "d.y"],
    ]


def test_a_unit_may_feed_itself() -> None:
    assert chain({"a": MEMORY}, "a>a").graph.loops == ()
    assert names(chain({"a": THROUGH}, "a>a").graph.loops[0]) == ["a.u", "a.y"]


def test_only_direct_inputs_make_a_loop() -> None:
    model = fake(input_("u"), input_("w"), output("y", "u"), output("z", "w"))
    made = Scenario({"a": model, "b": model}, {"b.u": "a.y", "a.w": "b.y"})
    assert made.graph.loops == ()


# -------------------------------------------------------------------- units


def test_units_stay_in_their_order_where_nothing_speaks_against_it() -> None:
    assert unit_order(chain({"b": MEMORY, "a": MEMORY}, "a>b", "b>a")) == ("b", "a")


def test_sources_go_before_what_signals_pass_through() -> None:
    assert unit_order(chain({"c": MEMORY, "b": THROUGH, "a": MEMORY}, "a>b", "b>c", "c>a")) == ("c", "a", "b")


def test_sources_go_before_reactive_inputs() -> None:
    assert unit_order(chain({"b": REACTIVE, "a": MEMORY}, "a>b", "b>a")) == ("a", "b")


def test_reactivity_is_stronger_than_feedthrough() -> None:
    assert unit_order(chain({"a": THROUGH, "b": REACTIVE_THROUGH}, "a>b", "b>a")) == ("a", "b")
    assert unit_order(chain({"a": REACTIVE_THROUGH, "b": THROUGH}, "b>a")) == ("b", "a")


def test_a_delayed_input_asks_for_nothing() -> None:
    assert unit_order(chain({"b": DELAYED, "a": MEMORY}, "a>b")) == ("b", "a")


def test_a_reactive_input_needs_what_passes_through_its_source_too() -> None:
    # c expects b.y at the end of the step, which is a.y then: that a goes before b weighs more than
    # that b should go before a because of a.w
    two = fake(input_("u"), input_("w"), output("y", "u"), output("z", "w"))
    made = Scenario(
        {"c": REACTIVE, "b": two, "a": two}, {"c.u": "b.y", "b.u": "a.y", "b.w": "a.z", "a.w": "b.z"}
    )
    assert unit_order(made) == ("a", "b", "c")


def test_reactive_inputs_that_wait_for_each_other_are_named() -> None:
    made = chain({"a": REACTIVE, "b": REACTIVE, "c": MEMORY}, "a>b", "b>a", "c>a")
    with pytest.raises(MasterError) as caught:
        unit_order(made)
    message = str(caught.value)
    assert "a.y → b.u; b.y → a.u" in message
    assert "reactive = false" in message
    with pytest.raises(MasterError, match=r"a\.y → a\.u"):
        unit_order(chain({"a": REACTIVE}, "a>a"))


def test_scenario_inputs_come_first() -> None:
    made = Scenario({"b": REACTIVE, "a": MEMORY}, {"b.u": "a.y + f", "a.u": "f"}, inputs=["f"])
    assert unit_order(made) == ("a", "b")
    assert unit_order(made.closed()) == ("inputs", "a", "b")


@pytest.mark.parametrize("model", [THROUGH, MEMORY, REACTIVE])
def test_large_rings_are_quick(model: Fake) -> None:
    def build(count: int) -> None:
        units = {f"u{i}": model for i in range(count)} | {"u0": MEMORY}
        ring = Scenario(units, {f"u{i}.u": f"u{(i - 1) % count}.y" for i in range(count)})
        assert len(ring.graph.order) == 2 * count
        assert len(unit_order(ring)) == count

    build(10)  # imports what it needs
    assert effort(lambda: build(1000)) < 2.2 * effort(lambda: build(500)), "twice the units, twice the work"


# -------------------------------------------------------------------- the algorithms

graphs = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.sets(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
)


def reachable(before: list[set[int]], start: int) -> set[int]:
    seen: set[int] = set()
    todo = [start]
    while todo:
        for other in before[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen


@given(graphs)
def test_components_are_what_reaches_each_other(before: list[set[int]]) -> None:
    reach = [reachable(before, node) | {node} for node in range(len(before))]
    expected = {frozenset(b for b in reach[a] if a in reach[b]) for a in range(len(before))}
    for found in (components(before), arranged(before)):
        assert {frozenset(group) for group in found} == expected
        place = {node: i for i, group in enumerate(found) for node in group}
        assert all(place[other] <= place[node] for node in place for other in before[node])


@given(graphs)
def test_cycles_are_cycles(before: list[set[int]]) -> None:
    for group in components(before):
        if len(group) > 1:
            around = cycle(before, group)
            assert around[0] == group[0]
            assert all(a in before[b] for a, b in zip(around, around[1:] + around[:1], strict=True))


def test_long_paths_do_not_recurse() -> None:
    count = 100_000
    assert len(arranged([{i + 1} if i < count - 1 else set() for i in range(count)])) == count
    shuffled = random.Random(1).sample(range(count), count)
    follower = dict(zip(shuffled, shuffled[1:] + shuffled[:1], strict=True))
    assert len(components([{follower[i]} for i in range(count)])) == 1
