"""Events in superdense time: networks of discrete-event units against an independent simulator."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from devs import LABELS, Endless, Network, State, simulated
from upbeat.core.expr import Expr, Name, Number, Op, apply
from upbeat.core.ports import Causality, Kind, Port
from upbeat.master.instants import Simultaneous

MOST = 40
ENUM = {"event": True, "items": list(LABELS)}


@st.composite
def networks(draw: st.DrawFn) -> Network:
    names = [f"u{i}" for i in range(draw(st.integers(1, 5)))]
    durations = st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 1.5, math.inf]) | st.floats(0.01, 3.0)
    systems = {}
    for name in names:
        count = draw(st.integers(1, 4))
        place = st.integers(0, count - 1)
        heard = st.tuples(*(place for _ in LABELS))
        state = st.builds(State, durations, st.none() | st.sampled_from(LABELS), place, heard, heard)
        systems[name] = tuple(draw(st.lists(state, min_size=count, max_size=count)))
    maps = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(LABELS), min_size=1)
    pairs = [(a, b) for a in names for b in names if a != b]
    links = {pair: draw(maps) for pair in pairs if draw(st.booleans())}
    return Network(systems, links)


def as_python(network: Network, unit: str) -> up.PythonDiscrete:
    """The unit as functions."""
    system = network.systems[unit]
    return up.PythonDiscrete(
        start=0,
        time_advance=lambda x: system[x].lasts,
        internal=lambda x: system[x].goes,
        output=lambda x: None if system[x].sends is None else {"out": system[x].sends},
        external=lambda x, elapsed, events: network.heard(unit, x, elapsed, events["heard"]),
        shows=lambda x: {"x": x},
        inputs={"heard": ENUM},
        outputs={"out": ENUM, "x": {"kind": "integer"}},
    )


def as_data(network: Network, unit: str) -> up.Discrete:
    """The unit as expressions, one mode for each state."""
    system = network.systems[unit]
    time, last, heard = Name("time"), Name("last"), Name("heard")

    def entered(state: Expr) -> tuple[tuple[str, Expr], ...]:
        lasts: Expr = Number(math.inf)
        for k, one in enumerate(system):
            lasts = apply(Op.WHERE, apply(Op.EQ, state, Number(float(k))), Number(one.lasts), lasts)
        return (("at", state), ("last", time), ("due", time + lasts))

    def where_to(one: State) -> Expr:
        place: Expr = Number(0.0)
        for k in range(len(LABELS)):
            early, late = Number(float(one.early[k])), Number(float(one.late[k]))
            soon = apply(Op.LT, time - last, Number(one.lasts / 2))
            leads = apply(Op.WHERE, soon, early, late)
            place = apply(Op.WHERE, apply(Op.EQ, heard, Number(float(k))), leads, place)
        return place

    modes = []
    for one in system:
        sent = () if one.sends is None else (Number(float(LABELS.index(one.sends))),)
        modes.append(
            up.Mode(
                due=Name("due"),
                emissions=(up.Emission("out", Number(1.0), sent),) if sent else (),
                internal=entered(Number(float(one.goes))),
                external=entered(where_to(one)),
            )
        )
    return up.Discrete(
        ports=(
            Port("heard", Causality.INPUT, Kind.INTEGER, items=LABELS, event=True),
            Port("out", Causality.OUTPUT, Kind.INTEGER, items=LABELS, event=True),
            Port("x", Causality.OUTPUT, Kind.INTEGER),
        ),
        variables=(
            up.Variable("at", Kind.INTEGER, 0),
            up.Variable("last", Kind.REAL, 0.0),
            up.Variable("due", Kind.REAL, system[0].lasts),
        ),
        mode="at",
        modes=tuple(modes),
        outputs=(("x", (Name("at"),)),),
    )


def connections(network: Network, inside: set[str]) -> dict[str, Any]:
    """The links between these units; those of one input are alternatives."""
    found: dict[str, Any] = {}
    for (source, target), labels in network.links.items():
        if source in inside and target in inside:
            found.setdefault(f"{target}.heard", []).append({"event": f"{source}.out", "map": dict(labels)})
    return found


def run(network: Network, order: list[str], python: set[str], engine: str, **more: Any) -> up.Trace:
    units = {u: (as_python if u in python else as_data)(network, u) for u in network.systems}
    scenario = up.Scenario(units, connections(network, set(units)))
    simultaneous = Simultaneous(tuple(order), most=MOST)
    return up.simulate(scenario, until=6.0, simultaneous=simultaneous, engine=engine, **more)


@settings(deadline=None)
@given(networks(), st.data())
def test_random_networks_behave_as_the_book_says(network: Network, data: st.DataObject) -> None:
    names = list(network.systems)
    order = data.draw(st.permutations(names))
    python = set(data.draw(st.lists(st.sampled_from(names), unique=True)))
    try:
        events, states = simulated(network, order, 6.0, MOST)
    except Endless:
        for engine in ("interpret", "native"):
            with pytest.raises(up.StepError, match="the chain of events at one instant did not end"):
                run(network, order, python, engine)
        return
    for engine in ("interpret", "native"):
        trace = run(network, order, python, engine)
        assert [(e.name, e.time, e.index, e.value) for e in trace.events] == [
            (f"{unit}.out", t, index, label) for unit, t, index, label in events
        ]
        assert {u: int(trace[f"{u}.x"][-1]) for u in names} == states


def nested(network: Network, order: list[str], group: list[str], python: set[str], flatten: bool) -> Any:
    """The same network with some units, neighbours in the order, in a scenario of their own."""
    units = {u: (as_python if u in python else as_data)(network, u) for u in network.systems}
    inside, outside = set(group), set(units) - set(group)
    inner = connections(network, inside)
    outer = connections(network, outside)
    for (source, target), labels in network.links.items():
        if source in outside and target in inside:
            link = {"event": f"{source}.out", "map": dict(labels)}
            outer.setdefault(f"group.to_{target}", []).append(link)
        elif source in inside and target in outside:
            link = {"event": f"group.from_{source}", "map": dict(labels)}
            outer.setdefault(f"{target}.heard", []).append(link)
    for unit in group:
        inner.setdefault(f"{unit}.heard", []).append(f"to_{unit}")
    scenario = up.Scenario(
        {u: units[u] for u in units if u in inside},
        inner,
        inputs={f"to_{u}": ENUM for u in group},
        outputs={f"from_{u}": f"{u}.out" for u in group} | {f"x_{u}": f"{u}.x" for u in group},
    )
    master = up.Master(up.EventDriven(), simultaneous=Simultaneous(tuple(group)))
    model = up.Nested(scenario, master, flatten=flatten)
    others = {u: units[u] for u in units if u in outside}
    return up.Scenario({"group": model, **others}, outer)


@settings(deadline=None)
@given(networks(), st.booleans(), st.data())
def test_a_nested_network_is_one_unit(network: Network, flatten: bool, data: st.DataObject) -> None:
    names = list(network.systems)
    order = list(data.draw(st.permutations(names)))
    first = data.draw(st.integers(0, len(order) - 1))
    last = data.draw(st.integers(first, len(order) - 1))
    group = order[first : last + 1]
    try:
        events, states = simulated(network, order, 6.0, MOST)
    except Endless:
        return
    python = set(data.draw(st.lists(st.sampled_from(names), unique=True)))
    scenario = nested(network, order, group, python, flatten)
    turns = Simultaneous((*order[:first], "group", *order[last + 1 :]), most=MOST)
    for engine in ("interpret", "native"):
        trace = up.simulate(scenario, until=6.0, simultaneous=turns, engine=engine)
        assert [(e.name, e.time, e.index, e.value) for e in trace.events] == [
            (f"group.from_{unit}" if unit in group else f"{unit}.out", t, index, label)
            for unit, t, index, label in events
        ]
        column = {u: f"group.x_{u}" if u in group else f"{u}.x" for u in names}
        assert {u: int(trace[column[u]][-1]) for u in names} == states


def test_an_endless_chain_names_its_units() -> None:
    quick = State(0.0, "a", 1, (0, 0, 0), (0, 0, 0))
    waits = State(math.inf, None, 0, (0, 0, 0), (0, 0, 0))
    late = State(1.0, "a", 1, (0, 0, 0), (0, 0, 0))
    network = Network({"one": (late, quick), "two": (waits,), "three": (late, waits)}, {})
    for engine in ("interpret", "native"):
        with pytest.raises(up.StepError) as caught:
            run(network, ["three", "two", "one"], set(), engine)
        message = str(caught.value)
        assert "did not end within 40 rounds" in message
        assert "one: " in message
        assert "two" not in message
        assert "three" not in message, "it acts once, and is not in the chain"


def test_the_order_names_units_with_events() -> None:
    decay = up.Ode({"x": "-x"}, start={"x": 1.0})
    with pytest.raises(up.MasterError, match="'plant', which has no events of its own"):
        up.simulate(up.Scenario({"plant": decay}), pace=0.1, until=1, simultaneous=["plant"])
    with pytest.raises(up.MasterError, match="'plan', which is no unit"):
        up.simulate(up.Scenario({"plant": decay}), pace=0.1, until=1, simultaneous=["plan"])
    for bad in (["a", "a"], {"most": 1}, {"most": 2.5}, {"order": "ab"}):
        with pytest.raises(up.InvalidInput):
            up.simulate(up.Scenario({"plant": decay}), pace=0.1, until=1, simultaneous=bad)  # type: ignore[arg-type]
