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
from upbeat.master.events.instants import Simultaneous

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
    simultaneous = Simultaneous(tuple(order), max_iterations=MOST)
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
    turns = Simultaneous((*order[:first], "group", *order[last + 1 :]), max_iterations=MOST)
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
    with pytest.raises(up.MasterError, match="'plan', which is not a unit"):
        up.simulate(up.Scenario({"plant": decay}), pace=0.1, until=1, simultaneous=["plan"])
    for bad in (["a", "a"], {"max_iterations": 1}, {"max_iterations": 2.5}, {"order": "ab"}):
        with pytest.raises(up.InvalidInput):
            up.simulate(up.Scenario({"plant": decay}), pace=0.1, until=1, simultaneous=bad)  # type: ignore[arg-type]


# -------------------------------------------------------------------- hybrids

ENGINES: list[Any] = ["interpret", "native"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "loops", [up.Newton(), up.Newton(slopes="differences"), up.FixedPoint(), up.Anderson()]
)
def test_a_loop_through_a_unit_that_jumps_is_solved_again(engine: Any, loops: Any) -> None:
    """y = k·u, u = 1 + y/2; when k becomes -1, y = -2/3."""
    machine = up.StateMachine(
        inputs=["u"],
        variables={"k": 1.0},
        outputs={"y": "k*u"},
        initial="a",
        states=["a", "b"],
        transitions=[{"from": "a", "to": "b", "after": 1.0, "do": {"k": -1.0}}],
    )
    other = up.Function(inputs=["y"], outputs={"u": "1 + 0.5*y"})
    scenario = up.Scenario({"m": machine, "f": other}, {"m.u": "f.u", "f.y": "m.y"})
    trace = up.simulate(scenario, pace=1.0, until=2.0, engine=engine, coupling=up.Jacobi(loops=loops))
    assert trace["m.y"] == pytest.approx([2.0, 2.0, -2 / 3, -2 / 3])  # at 1 before and after
    assert trace["f.u"] == pytest.approx([2.0, 2.0, 2 / 3, 2 / 3])


COUPLINGS = [
    up.Jacobi(),
    up.Jacobi(outputs="lagged"),
    up.GaussSeidel(),
    up.GaussSeidel(order=("m", "h", "s")),
    up.Iterated(up.GaussSeidel()),
    up.MultiRate({"m": 2}),
    up.MultiRate({"h": 2}),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("pace", [up.EventDriven(), up.Fixed(0.4)], ids=str)
def test_a_guard_sees_what_an_event_has_changed_at_once(engine: Any, coupling: Any, pace: Any) -> None:
    machine = up.StateMachine(
        inputs=["u"],
        outputs={"fired": {"event": True}},
        initial="a",
        states=["a", "b"],
        transitions=[{"from": "a", "to": "b", "when": "u > 0.5", "emit": {"fired": True}}],
    )
    units = {"s": up.Schedule([1.0], [1.0]), "h": up.LastValue(0.0), "m": machine}
    scenario = up.Scenario(units, {"h.event": "s.event", "m.u": "h.value"})
    trace = up.simulate(scenario, pace=pace, until=3.0, engine=engine, coupling=coupling)
    assert [(e.name, e.time, e.index) for e in trace.events] == [("s.event", 1.0, 0), ("m.fired", 1.0, 1)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel(), up.MultiRate({"t": 2})], ids=str)
def test_what_a_signal_is_at_the_start_is_no_event(engine: Any, coupling: Any) -> None:
    units = {"c": up.Function(outputs={"y": "5.0"}), "t": up.Threshold(1.0)}
    scenario = up.Scenario(units, {"t.signal": "c.y"})
    trace = up.simulate(scenario, pace=0.1, until=1.0, engine=engine, coupling=coupling)
    assert len(trace.events) == 0


def test_a_silent_jump_leaves_the_histories_of_others_alone() -> None:
    """x' = cos t, extrapolated along lines: the error is of second order, also beside a unit that ticks."""
    wave = up.Ode({"p": "v", "v": "-p"}, start={"p": 1.0, "v": 0.0}, outputs=["p"])
    plant = up.Ode({"x": "u"}, inputs={"u": 0.0}, start={"x": 0.0}, outputs=["x"])
    ticking = up.StateMachine(
        outputs={"rare": {"event": True, "kind": "real"}},
        variables={"n": 0.0},
        initial="a",
        states=["a"],
        transitions=[
            {"from": "a", "after": 0.1, "do": {"n": "n + 1"}},
            {"from": "a", "after": 2000, "emit": {"rare": "1.0"}},
        ],
    )
    scenario = up.Scenario(
        {"wave": wave, "plant": plant, "t": ticking, "h": up.LastValue(0.0)},
        {"plant.u": "h.value + wave.p", "h.event": "t.rare"},
    )
    trace = up.simulate(scenario, pace=0.1, until=3.0, inputs=up.Linear())
    assert max(abs(x - math.sin(t)) for t, x in zip(trace.time, trace["plant.x"], strict=True)) < 0.01


@pytest.mark.parametrize("engine", ENGINES)
def test_events_set_by_hand(engine: Any) -> None:
    machine = up.StateMachine(
        inputs={"go": {"event": True, "kind": "real"}},
        outputs={"done": {"event": True, "kind": "real"}},
        initial="a",
        states=["a"],
        transitions=[{"from": "a", "on": "go", "emit": {"done": "2*go"}}],
    )
    scenario = up.Scenario(
        {"m": machine, "c": up.Clock(1.0)}, {"m.go": "go"}, inputs={"go": {"event": True, "kind": "real"}}
    )
    with up.start(scenario, until=3.5, engine=engine) as run:
        run.step()
        run.set("go", 3.0)
        run.set("go", 4.0)  # after the first one, at the same time
        run.step()
        run.set("go", 5.0)
        trace = run.finish()
    assert [(e.name, e.time, e.index, e.value) for e in trace.events] == [
        ("c.tick", 0.0, 0, True),
        ("c.tick", 1.0, 0, True),
        ("go", 1.0, 1, 3.0),
        ("m.done", 1.0, 2, 6.0),
        ("go", 1.0, 3, 4.0),
        ("m.done", 1.0, 4, 8.0),
        ("c.tick", 2.0, 0, True),
        ("go", 2.0, 1, 5.0),
        ("m.done", 2.0, 2, 10.0),
        ("c.tick", 3.0, 0, True),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_events_at_one_instant_are_no_endless_chain(engine: Any) -> None:
    scenario = up.Scenario({"s": up.Schedule([1.0] * 1500, [float(k) for k in range(1500)])})
    trace = up.simulate(scenario, until=2.0, engine=engine)
    assert trace.events.values("s.event").tolist() == list(range(1500))


def test_a_nest_does_not_pass_events_straight_on() -> None:
    inner = up.Scenario(
        {"c": up.Clock(1.0)}, inputs={"x": {"event": True}}, outputs={"y": "x", "tick": "c.tick"}
    )
    with pytest.raises(up.MasterError, match="passes the event input 'x' straight on"):
        up.Nested(inner, up.Master(up.EventDriven()))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("flatten", [True, False])
def test_known_events_inside_a_nest_bound_the_steps_outside(engine: Any, flatten: bool) -> None:
    """A counter ticks every 0.03 s inside; its integral outside is exact only if no tick is stepped over."""
    counter = up.StateMachine(
        inputs={"tick": {"event": True}},
        variables={"n": 0.0},
        outputs={"n": "n"},
        initial="on",
        states=["on"],
        transitions=[{"from": "on", "on": "tick", "do": {"n": "n + 1"}}],
    )
    inner = up.Scenario(
        {"clock": up.Clock(0.03, offset=0.03), "counter": counter},
        {"counter.tick": "clock.tick"},
        outputs={"n": "counter.n"},
    )
    nest = up.Nested(inner, up.Master(up.EventDriven()), flatten=flatten)
    total = up.Ode({"y": "u"}, inputs=["u"], start={"y": 0.0}, outputs=["y"])
    scenario = up.Scenario({"nest": nest, "total": total}, {"total.u": "nest.n"})
    trace = up.simulate(scenario, pace=0.1, until=0.32, engine=engine)
    # n is k from 0.03·k on, for k = 1 … 10
    assert trace["total.y"][-1] == pytest.approx(sum(0.32 - 0.03 * k for k in range(1, 11)))


@pytest.mark.parametrize("engine", ENGINES)
def test_events_close_to_each_other_do_not_spoil_trajectories(engine: Any) -> None:
    wave = up.Ode({"x": "v", "v": "-x"}, start={"x": 1.0, "v": 0.0}, solver=up.RK4(steps=4))
    total = up.Ode({"y": "u"}, inputs={"u": 0.0}, outputs=["y"])
    for apart in (2e-16, 1e-11, 1e-7):
        units = {"wave": wave, "total": total, "s": up.Schedule([1.05, 1.05 + apart], [0.0, 0.0])}
        scenario = up.Scenario(units, {"total.u": "wave.x"})
        for inputs in ("hermite", {"kind": "polynomial", "degree": 3}):
            trace = up.simulate(scenario, pace=0.1, until=2.0, inputs=inputs, engine=engine)
            assert trace["total.y"][-1] == pytest.approx(math.sin(2.0), abs=2e-3)
