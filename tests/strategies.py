"""Random scenarios and masters for property tests: every kind of unit, port and connection there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

import upbeat as up
from event_strategies import PURE, event_links, event_units, orders
from happening_strategies import happenings, own_events
from shapes import REALS, Events, Payload, Shape
from upbeat.adapt import (
    Assign,
    Break,
    Discard,
    Local,
    Loop,
    Return,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
)
from upbeat.engine.native import machine as native
from upbeat.engine.parallel.cores import Profile, sharing
from upbeat.engine.schedule import Schedule
from upbeat.master.program import Program

APPROXIMATIONS = [up.Hold(), up.Linear(), up.Polynomial(2), up.Polynomial(3), up.Continuous(), up.Smooth(),
                  up.Nepce(), up.Nepce(up.Polynomial(2), gain=0.75)]  # fmt: skip

EXACT = (
    "{a} + {b}",
    "{a} - {b}",
    "{a} * {b}",
    "{a} / (2 + {b}*{b})",
    "sqrt(1 + {a}*{a}) - {b}",
    "min({a}, {b})",
)
EXACT += (
    "max({a}, -{b})",
    "{a} if {a} > {b} else {b}",
    "clip({a}, -1, {b})",
    "abs({a}) - {b}",
    "floor({a}) + {b}",
)
LIBM = (
    "sin({a}) + {b}",
    "exp(-{a}*{a}) * {b}",
    "atan2({a}, 1 + {b}*{b})",
    "tanh({a}) - {b}",
    "(1 + {a}*{a}) ** 0.3 + {b}",
)


@st.composite
def formulas(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    """A bounded, finite formula over `names`."""
    if depth == 0 or draw(st.booleans()):
        pool = st.sampled_from(names) if names else st.nothing()
        return draw(pool | REALS.map(lambda v: f"({v!r})"))
    shape = draw(st.sampled_from(EXACT + LIBM))
    return "(" + shape.format(a=draw(formulas(names, depth - 1)), b=draw(formulas(names, depth - 1))) + ")"


@st.composite
def solvers(draw: st.DrawFn) -> Any:
    return draw(
        st.sampled_from(
            [
                up.Euler(),
                up.Euler(steps=3),
                up.Midpoint(steps=2),
                up.RK4(),
                up.RK4(steps=2),
                up.DormandPrince(rtol=1e-5, atol=1e-7),
            ]
        )
    )


@st.composite
def ode_units(draw: st.DrawFn) -> Shape:
    states = [f"x{i}" for i in range(draw(st.integers(1, 3)))]
    inputs = [f"u{i}" for i in range(draw(st.integers(0, 2)))]
    names = [*states, *inputs, "p", "time"]
    wide = draw(st.booleans())
    given: dict[str, Any] = {
        name: {"start": draw(REALS), "reactive": draw(st.sampled_from([None, None, False, True]))}
        for name in inputs
    }
    if wide:
        given["w"] = {"size": 2, "start": [draw(REALS), draw(REALS)]}
        names += ["w[0]", "w[1]"]
    outputs: dict[str, Any] = {"y": draw(formulas(states)), "z": draw(formulas(names))}
    slopes = {name: f"-{name} + {draw(formulas(names))}" for name in states}
    steep = draw(st.integers(0, 2)) == 0
    if steep:
        outputs |= {"s": {"value": states[0], "derivative": "ds"}, "ds": slopes[states[0]]}
    if wide:
        outputs["a"] = [draw(formulas(names)), states[0]]
    model = up.Ode(
        states=slopes,
        start={name: draw(REALS) for name in states},
        inputs=given,
        outputs=outputs,
        parameters={"p": draw(REALS)},
        solver=draw(solvers()),
        events=draw(own_events(states)),
    )
    return Shape(
        model,
        dict.fromkeys(inputs, ("real", None)) | ({"w": ("real", 2)} if wide else {}),
        {"y": ("real", None), "z": ("real", None)}
        | ({"a": ("real", 2)} if wide else {})
        | ({"s": ("real", None)} if steep else {}),
    )


@st.composite
def function_units(draw: st.DrawFn) -> Shape:
    names = ["u", "n", "b", "time"]
    model = up.Function(
        inputs={
            "u": {"start": draw(REALS)},
            "n": {"kind": "integer", "start": draw(st.integers(-3, 3))},
            "b": {"kind": "boolean"},
        },
        outputs={
            "y": draw(formulas(names)),
            "k": {"value": f"round({draw(formulas(['u', 'n']))})", "kind": "integer"},
            "on": {"value": f"{draw(formulas(['u', 'n']))} > 0", "kind": "boolean"},
        },
    )
    return Shape(
        model,
        {"u": ("real", None), "n": ("integer", None), "b": ("boolean", None)},
        {"y": ("real", None), "k": ("integer", None), "on": ("boolean", None)},
    )


class Words:
    """A unit in plain Python with a string, an integer and an array output, and rollback."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.time, self.u, self.count = start, (0.0,), 0

    def get(self, port: str) -> Any:
        value = sum(c * 0.0**k for k, c in enumerate(self.u))
        return {
            "word": f"{self.count % 3}",
            "count": self.count,
            "pair": (value, float(self.count)),
            "flag": self.count % 2 == 0,
        }[port]

    def set(self, port: str, coefficients: Any) -> None:
        if port == "u":
            self.u = tuple(coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        self.time, self.count = to, self.count + 1
        return to

    def jump(self) -> bool:
        return False

    def slope(self, output: str, port: str) -> Any:
        assert (output, port) == ("pair", "u")
        return (1.0, 0.0)

    def save(self) -> Any:
        return self.time, self.u, self.count

    def restore(self, token: Any) -> None:
        self.time, self.u, self.count = token

    def to_bytes(self, token: Any) -> bytes:
        return json.dumps(token).encode()

    def from_bytes(self, data: bytes) -> Any:
        time, u, count = json.loads(data)
        return time, tuple(u), count


def python_units() -> st.SearchStrategy[Shape]:
    return st.sampled_from(
        [_words(slopes=True), _words(slopes=False), _words(slopes=False, sample_time=0.07)]
    )


def _words(*, slopes: bool, sample_time: float | None = None) -> Shape:
    port, kind, way = up.Port, up.Kind, up.Causality
    ports = (
        port("u", way.INPUT),
        port("heard", way.INPUT, kind.STRING),
        port("word", way.OUTPUT, kind.STRING),
        port("count", way.OUTPUT, kind.INTEGER),
        port("pair", way.OUTPUT, size=2, depends=frozenset({"u"})),
        port("flag", way.OUTPUT, kind.BOOLEAN),
    )
    abilities = (up.Ability.ROLLBACK, up.Ability.SLOPES) if slopes else (up.Ability.ROLLBACK,)
    shape = Shape(
        up.PythonUnit(
            Words, ports=ports, abilities={*abilities, up.Ability.SERIALISE}, sample_time=sample_time
        ),
        {"u": ("real", None), "heard": ("string", None)},
        {
            "word": ("string", None),
            "count": ("integer", None),
            "pair": ("real", 2),
            "flag": ("boolean", None),
        },
    )
    return shape


@st.composite
def nests(draw: st.DrawFn) -> Shape:
    """A random scenario with a random master as a unit; it stays nested."""
    inner = draw(scenarios().filter(lambda scenario: scenario.outputs or scenario.event_outputs))
    paces = [up.Fixed(0.1), up.Fixed(0.04), up.Fixed(0.25), up.ErrorControl(0.01, shortest=0.02, per="step")]
    if discrete(inner):
        paces = [up.EventDriven(), up.EventDriven(), up.Fixed(0.1)]
    master = up.Master(
        draw(st.sampled_from(paces)),
        draw(couplings(inner)),
        draw(st.sampled_from(APPROXIMATIONS)),
        simultaneous=draw(orders(inner)),
    )
    try:
        master.program(inner)
        model = up.Nested(inner, master, flatten=False)
        assert model.ports
    except up.MasterError:
        reject()
    return Shape(
        model,
        {port.name: ("real", None) for port in inner.inputs if not port.event},
        {output.port.name: ("real", None) for output in inner.outputs},
        {port.name: _payload(port) for port in inner.inputs if port.event},
        {output.port.name: _payload(output.port) for output in inner.event_outputs},
    )


@st.composite
def adapted_units(draw: st.DrawFn, depth: int = 2) -> Shape:
    """A random unit, or two, adapted at random; perhaps once more. It may be merged, or stay a program."""
    kinds = st.one_of(ode_units(), function_units(), python_units())
    if depth > 0:
        kinds = st.one_of(kinds, adapted_units(depth - 1))
    shapes = {f"w{i}": draw(kinds) for i in range(draw(st.integers(1, 2)))}
    units = {name: shape.model for name, shape in shapes.items()}
    able = all(up.Ability.ROLLBACK in model.abilities for model in units.values())
    takes = [f"{u}.{p}" for u, s in shapes.items() for p, how in s.inputs.items() if how == ("real", None)]
    gives = [f"{u}.{p}" for u, s in shapes.items() for p, how in s.outputs.items() if how == ("real", None)]
    linked = {to: draw(st.sampled_from(gives)) for to in takes if gives and draw(st.integers(0, 3)) == 0}
    free = [to for to in takes if to not in linked]
    condition = draw(st.sampled_from(["1", "1", "u > 0.1", "s <= u"]))
    rates = draw(st.sampled_from([(), (), ("(s - n)/8",)]))
    into = tuple(Assign(to, draw(formulas(["s", "n", "K"], 1)), rates) for to in free)
    in_rules = [Rule((Assign("s", draw(formulas(["u", "K", "u"], 1))),), into, condition)]
    stored = [Assign("o", draw(formulas([*gives, "o"], 1)))]
    shown = [Assign("y", draw(formulas(["o", "s", "n"], 1)))]
    made = draw(st.sampled_from(["1", "1", "o > 0"]))
    steps = [Step(unit) for unit in units]
    controls: list[tuple[Statement, ...] | None] = [
        None,
        None,
        (*steps, Assign("n", "n + 0.25"), Return()),
        (
            Local("inner", "t"),
            Loop(3, (*(Step(u, "inner", "H/3") for u in units), Assign("inner", "inner + H/3")), "k"),
            Assign("n", "s"),
        ),
        (Local("made", 0.0), *(Step(u, "t", "H*0.75", "made") for u in units), Return("made")),
    ]
    if able:
        back = [part for unit in units for part in (SaveState(unit), Step(unit), Rollback(unit))]
        controls.append((Loop(2, tuple(back), until="o > n"), *steps, Assign("n", "o")))
        controls.append((When("H > 0.06", (Discard("H/2"),)), *steps, Assign("n", "n + H")))
        controls.append((Loop(2, (When("n > 3", (Break(),)), Assign("n", "n + 1"))), *steps))
    ports = (
        up.Port("u", up.Causality.INPUT, start=(draw(REALS),)),
        up.Port("y", up.Causality.OUTPUT),
        up.Port("K", up.Causality.PARAMETER, start=(draw(REALS),)),
    )
    try:
        model = up.adapted(
            up.Adaptation(
                units,
                ports,
                linked,
                tuple(in_rules),
                draw(st.sampled_from(controls)),
                (Rule(tuple(stored), tuple(shown), made),),
                inputs=(Stored("s", "K"),),
                controls=(Stored("n", 0.5),),
                outputs=(Stored("o", 0.25),),
                reactive=draw(st.sampled_from([None, None, True, False])),
                mealy=draw(st.booleans()),
                delayed=frozenset(unit for unit in units if draw(st.integers(0, 4)) == 0),
            ),
            flatten=draw(st.booleans()),
        )
        model.check()  # type: ignore[attr-defined]
    except (up.MasterError, up.ModelError, up.ScenarioError):
        reject()
    return Shape(model, {"u": ("real", None)}, {"y": ("real", None)})


def _payload(port: up.Port) -> Payload:
    return Payload(port.kind.value, port.size, port.items)


def discrete(scenario: up.Scenario) -> bool:
    """Whether all units are discrete-event ones."""
    return all(up.Ability.NEXT_EVENT in model.abilities for model in scenario.units.values())


def on_engine(engine: Any, scenario: up.Scenario) -> up.Scenario:
    """The scenario with all nested ones on this engine."""
    return scenario.with_units(
        {
            name: replace(model, scenario=on_engine(engine, model.scenario), engine=engine)
            for name, model in scenario.units.items()
            if isinstance(model, up.Nested) and not (model.adaptation and model.flatten)
        }
        | {
            name: _adapted_on(engine, model)
            for name, model in scenario.units.items()
            if isinstance(model, up.Nested) and model.adaptation and model.flatten
        }
    )


def _adapted_on(engine: Any, model: up.Nested, *, inside: bool = False) -> up.Nested:
    """An adapted unit on this engine; those inside that become part of it ask for none."""
    units: dict[str, Any] = {
        name: _adapted_on(engine, one, inside=True)
        if one.adaptation and one.flatten
        else replace(one, scenario=on_engine(engine, one.scenario), engine=engine)
        for name, one in model.scenario.units.items()
        if isinstance(one, up.Nested)
    }
    return replace(model, scenario=model.scenario.with_units(units), engine="auto" if inside else engine)


@st.composite
def scenarios(draw: st.DrawFn, nested: bool = False) -> up.Scenario:
    """A random scenario: units of all kinds, connected at random; if asked for, some are `nested` ones.

    Most of them are hybrids, or networks of discrete-event units alone.
    """
    moving = st.one_of(ode_units(), ode_units(), function_units(), python_units())
    kinds = draw(st.sampled_from([event_units(), st.one_of(moving, event_units(), event_units()), moving]))
    if nested:
        kinds = st.one_of(kinds, kinds, nests(), adapted_units())
    shapes = {f"m{i}": draw(kinds) for i in range(draw(st.integers(1, 4)))}
    sources = [(unit, port, *what) for unit, shape in shapes.items() for port, what in shape.outputs.items()]
    real = [f"{u}.{p}" for u, p, k, s in sources if k == "real" and s is None]
    connections: dict[str, Any] = {}
    for unit, shape in shapes.items():
        for port, (kind, size) in shape.inputs.items():
            fitting = [
                f"{u}.{p}"
                for u, p, k, s in sources
                if s == size and (k == kind or (kind == "real" and k != "string"))
            ]
            if not fitting or draw(st.integers(0, 3)) == 0:
                continue
            source = draw(st.sampled_from(fitting))
            if kind == "real" and size is None and real and draw(st.booleans()):
                source = f"0.5*{source} - 0.25*{draw(st.sampled_from(real))}"
            connections[f"{unit}.{port}"] = source
    inputs: dict[str, Any] = {}
    if real and draw(st.booleans()):
        inputs = {"push": {"start": draw(REALS)}}
        target = next((t for t, source in connections.items() if source in real), None)
        if target is not None:
            connections[target] = f"{connections[target]} + push"
    outputs: dict[str, Any] = {"total": " + ".join([*real[:3], *inputs])} if real else {}
    return up.Scenario(
        units={name: shape.model for name, shape in shapes.items()},
        events=draw(happenings(shapes, real)),
        **draw(with_events(shapes, real, connections, inputs, outputs)),
    )


@st.composite
def with_events(
    draw: st.DrawFn,
    shapes: dict[str, Shape],
    signals: list[str],
    connections: dict[str, Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
) -> dict[str, Any]:
    """The parts of a scenario with event connections, an event input and an event output of its own."""
    senders: Events = {f"{u}.{port}": p for u, shape in shapes.items() for port, p in shape.sends.items()}
    poked = any(shape.hears for shape in shapes.values()) and draw(st.booleans())
    reachable = senders | ({"poke": PURE} if poked else {})
    links = {
        f"{unit}.{port}": draw(event_links(payload, reachable, signals))
        for unit, shape in shapes.items()
        for port, payload in shape.hears.items()
        if draw(st.integers(0, 3))
    }
    told = {"told": draw(st.sampled_from(sorted(senders)))} if senders and draw(st.booleans()) else {}
    return {
        "connections": connections | {target: link for target, link in links.items() if link is not None},
        "inputs": inputs | ({"poke": {"event": True, "kind": "boolean"}} if poked else {}),
        "outputs": outputs | told,
    }


@st.composite
def couplings(draw: st.DrawFn, scenario: up.Scenario) -> Any:
    """Any coupling; whether it fits the scenario is for the caller to find out."""
    outputs = draw(st.sampled_from(["solved", "solved", "lagged"]))
    newtons = [
        up.Newton(max_iterations=8, slopes=words) for words in ("auto", "auto", "units", "differences")
    ]
    loops = draw(
        st.sampled_from([*newtons, up.FixedPoint(max_iterations=20), up.Anderson(max_iterations=12, depth=2)])
    )
    order = draw(st.none() | st.permutations(list(scenario.units)))
    plain = draw(
        st.sampled_from(
            [
                up.Jacobi(outputs, loops),
                up.GaussSeidel(None, outputs, loops),
                up.GaussSeidel(order, outputs, loops),
            ]
        )
    )
    match draw(
        st.sampled_from(
            ["plain"] * 4 + ["corrections", "tolerance", "rates", "beside", "negotiated", "refined"]
        )
    ):
        case "corrections":
            return up.Iterated(plain, corrections=draw(st.integers(1, 2)))
        case "tolerance":
            return up.Iterated(plain, tolerance=1e-3, max_iterations=8)
        case "rates":
            return up.MultiRate({unit: draw(st.integers(1, 3)) for unit in scenario.units}, loops)
        case "beside":
            fast = draw(st.integers(2, 3))
            rates = {unit: draw(st.sampled_from([1, fast])) for unit in scenario.units}
            return up.MultiRate(rates, loops, slower="beside")
        case "negotiated":
            return up.Negotiated(up.Jacobi(outputs, loops))
        case "refined":
            targets = sorted(c.target for c in scenario.connections)
            asked = draw(st.lists(st.sampled_from(targets), unique=True, max_size=2)) if targets else []
            methods = [up.Refined(loops=loops), up.Refined(delays=tuple(asked), loops=loops)]
            return draw(st.sampled_from([*methods, up.Refined("sv"), up.Refined("ev")]))
    return plain


@st.composite
def monitored(draw: st.DrawFn, step: float) -> up.Monitored:
    """A monitor with a random table around a pace that asks for many sizes."""
    sizes = (step / 4, step / 2, step, 1.5 * step)[: draw(st.integers(1, 4))]
    nodes = draw(st.integers(1, 3))
    lead = st.integers(-1, nodes - 1)
    rows = [draw(st.tuples(*[lead] * len(sizes)).filter(lambda row: max(row) >= 0)) for _ in range(nodes)]
    control = up.ErrorControl(0.01, first=step, shortest=step / 8, longest=4 * step, per="step")
    inner = draw(st.sampled_from([control, up.Fixed(step), up.EventDriven(1.5 * step)]))
    return up.Monitored(inner, sizes, rows, draw(st.integers(0, nodes - 1)))


@st.composite
def choosing(draw: st.DrawFn, step: float, blocks: list[str]) -> Any:
    """A pattern of steps by these blocks; often under a monitor with a random table of policies."""
    block = st.sampled_from(blocks)
    count = draw(st.integers(1, 5))
    sizes = [draw(st.sampled_from([step, step / 2])) for _ in range(count)]
    pattern = up.Pattern(sizes, [draw(block) for _ in range(count)])
    if draw(st.booleans()):
        return pattern
    pairs = sorted({(draw(st.sampled_from([step / 2, step])), draw(block)) for _ in range(4)})
    nodes = draw(st.integers(1, 3))
    lead = st.integers(-1, nodes - 1)
    rows = [draw(st.tuples(*[lead] * len(pairs)).filter(lambda row: max(row) >= 0)) for _ in range(nodes)]
    inner = draw(st.sampled_from([pattern, up.ErrorControl(0.01, first=step, shortest=step / 8, per="step")]))
    return up.Monitored(inner, [size for size, _ in pairs], rows, 0, [name for _, name in pairs])


@st.composite
def variants(draw: st.DrawFn, scenario: up.Scenario) -> up.Variants:
    """Couplings and solvers that take turns."""
    plain = [up.Euler(), up.Euler(3), up.Midpoint(2), up.RK4()]
    fixed = [
        name
        for name, model in scenario.units.items()
        if type(model) is up.Ode and isinstance(model.solver, up.Euler | up.Midpoint | up.RK4)
    ]
    others = {}
    for name in ("a", "b")[: draw(st.integers(1, 2))]:
        solvers = {unit: draw(st.sampled_from(plain)) for unit in fixed if draw(st.booleans())}
        coupling = draw(couplings(scenario)) if draw(st.booleans()) else None
        others[name] = up.Variant(coupling, solvers)
    return up.Variants(draw(couplings(scenario)), others)


@st.composite
def paces(draw: st.DrawFn, step: float, scenario: up.Scenario) -> Any:
    """Steps of one size, most often; error control; a monitor; looking ahead where there is something."""
    inside = any(isinstance(model, up.Ode) and model.equations.events for model in scenario.units.values())
    if (scenario.events or inside) and draw(st.integers(0, 2)):
        methods = ["auto", "auto", "published", "secant", "quadratic", "hermite", "hermite2"]
        return up.LookAhead(
            step,
            draw(st.sampled_from(methods)),
            tolerance=draw(st.sampled_from([None, step / 100])),
            after=draw(st.sampled_from([None, 1.0])),
            symbolic=draw(st.integers(0, 3)) > 0,
            inside=draw(st.integers(0, 3)) > 0 or not scenario.events,
        )
    if not draw(st.integers(0, 5)):
        return draw(monitored(step))
    if draw(st.integers(0, 3)):
        return up.Fixed(step)
    method = draw(st.sampled_from(["richardson", "milne", "order"]))
    correct = draw(st.sampled_from(["repeat", "next"]))
    per = draw(st.sampled_from(["run", "step"]))
    return up.ErrorControl(0.01, method, correct, first=step, shortest=step / 8, longest=4 * step, per=per)


def steep_inputs(scenario: up.Scenario) -> list[str]:
    """The inputs whose sources all say what their derivatives are."""
    ports = {(unit, port.name): port for unit, model in scenario.units.items() for port in model.ports}
    return [
        c.target
        for c in scenario.connections
        if c.sources and all(end in ports and ports[end].derivative for end in c.sources)
    ]


@st.composite
def experiments(draw: st.DrawFn) -> up.Experiment:
    """A random scenario with a random master that fits it."""
    scenario = draw(scenarios(nested=True))
    step = draw(st.sampled_from([0.1, 0.25, 0.0625]))
    steep = steep_inputs(scenario)
    pace = up.EventDriven() if discrete(scenario) and draw(st.booleans()) else draw(paces(step, scenario))
    coupling = draw(couplings(scenario))
    if not draw(st.integers(0, 4)):
        coupling = draw(variants(scenario))
        pace = draw(choosing(step, ["step", *coupling.others]))
    made = up.experiment(
        scenario,
        pace=pace,
        simultaneous=draw(orders(scenario)),
        ports={
            name: draw(st.sampled_from([up.Hermite(), up.Taylor()])) for name in steep if draw(st.booleans())
        },
        until=step * draw(st.integers(1, 8)) + draw(st.sampled_from([0.0, 0.03])),
        start=draw(st.sampled_from([0.0, -1.5])),
        coupling=coupling,
        inputs=draw(st.sampled_from(APPROXIMATIONS)),
        record=["*"],
        every=draw(st.integers(1, 3)),
    )
    try:
        assert made.plan
    except up.MasterError:
        reject()  # a reactive input that nobody can serve, a loop of whole numbers
    return made


def shared_out(program: Any, models: Any, cores: int, profile: Profile | None = None) -> dict[str, Any]:
    """Schedules for those steps of a program that are shared out."""
    found = sharing(program, models, cores, profile)
    return {block: shared.schedule for block, shared in found.items() if shared.schedule is not None}


Given = dict[int, list[tuple[str, object]]]
"""Inputs that are set by hand, and to what, after so many steps."""


class Outcome(NamedTuple):
    """What a run gives, bit for bit: its error text (if any), every column, the steps, the events."""

    error: str
    columns: dict[str, list[object]]
    steps: list[object]
    events: list[object]


def outcome(
    experiment: up.Experiment,
    program: Program | None = None,
    given: Given | None = None,
    schedules: Mapping[str, Schedule] | None = None,
) -> Outcome:
    """The outcome of a run, in which some inputs may be set by hand."""
    made = replace(experiment)
    if not experiment.structures:  # each of which has a plan of its own
        plan = replace(experiment.plan, program=program or experiment.plan.program)
        made.__dict__.update(plan=plan, choice=experiment.choice)
        if made.choice.name == "native":
            made.__dict__["lowered"] = native.Lowered(plan.program, plan.scenario.units, schedules=schedules)
    try:
        with made.open() as run:
            for k in range(max(given, default=-1) + 1 if given else 0):
                for name, value in given.get(k, []) if given else ():
                    run.set(name, value)
                if run.finished:
                    break
                run.step()
            trace = run.finish()
        text = ""
    except up.RunError as error:
        text, trace = str(error), error.trace
        assert trace is not None
    columns = {"time": trace.time, **{name: trace[name] for name in trace.names}}
    return Outcome(
        text,
        {name: [bits(v) for v in values] for name, values in columns.items()},
        list(trace.steps),
        [(e.name, e.time, e.index, bits(e.value), e.units, repr(e.details)) for e in trace.events],
    )


def bits(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return float(value).hex() if isinstance(value, (float, np.floating)) else value
