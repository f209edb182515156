"""Event connections: what they mean, and what is said where they make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from scenario_models import Fake, fake, input_, output
from upbeat.core.errors import MasterError, ModelError, ScenarioError
from upbeat.core.expr import evaluate, parse
from upbeat.core.ports import Kind
from upbeat.master.inputs.approximation import Hold
from upbeat.master.master import Master
from upbeat.master.paces.pace import Fixed
from upbeat.scenario.events.links import EventConnection, Sender
from upbeat.scenario.files.reading import Lines, read_text
from upbeat.scenario.scenario import Scenario
from upbeat.units import Function, Ode

ORDERS = ("toIdle", "toWork")
MODES = ("toAuto", "toOff", "toManual")


def units() -> dict[str, Fake]:
    """An officer and a boss who give orders, a light that takes modes, a machine, a plant of signals."""
    orders = {"kind": Kind.INTEGER, "items": ORDERS, "event": True}
    return {
        "officer": fake(output("cmd", **orders), output("seen", kind=Kind.BOOLEAN, event=True)),
        "boss": fake(output("cmd", **orders), input_("cmd_in", **orders)),
        "light": fake(
            input_("control", kind=Kind.INTEGER, items=MODES, event=True),
            input_("tick", kind=Kind.BOOLEAN, event=True),
            input_("bright"),
            output("lamp", kind=Kind.INTEGER, items=("red", "green"), event=True),
        ),
        "machine": fake(
            output("amount", unit="kg", event=True),
            output("pair", size=2, event=True),
            output("count", kind=Kind.INTEGER, event=True),
            output("text", kind=Kind.STRING, event=True),
        ),
        "counter": fake(
            input_("amount", unit="g", event=True),
            input_("pair", size=2, event=True),
            input_("count", kind=Kind.INTEGER, event=True),
            input_("text", kind=Kind.STRING, event=True),
        ),
        "plant": fake(
            output("x", unit="kg"),
            output("on", kind=Kind.BOOLEAN),
            output("mode", kind=Kind.INTEGER, items=ORDERS),
            input_("q"),
        ),
    }


def linked(target: str, value: Any, **more: Any) -> EventConnection:
    scenario = Scenario(units(), {target: value}, **more)
    assert scenario.connections == ()
    (found,) = scenario.event_connections
    assert found.target == target
    return found


def complaint(target: str, value: Any, **more: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        Scenario(units(), {target: value}, **more)
    return str(caught.value)


def sent(
    link: EventConnection, present: dict[str, dict[str, float]], **signals: float
) -> tuple[float, ...] | None:
    """What arrives, by the words of the documentation: the first sender that is present counts."""
    values = {name.replace("_", ".", 1): value for name, value in signals.items()}
    for sender in link.senders:
        source = ".".join(sender.source)
        if source not in present:
            continue
        known = values | present[source]
        if sender.when is None or evaluate(sender.when, known):
            return tuple(evaluate(cell, known) for cell in sender.cells)
    return None


def event(name: str, value: float = 1.0) -> dict[str, dict[str, float]]:
    return {name: {name: value}}


# -------------------------------------------------------------------- what is sent


def test_passed_on_as_it_is() -> None:
    link = linked("boss.cmd_in", "officer.cmd")
    assert link.senders == (Sender(("officer", "cmd"), None, (parse("officer.cmd"),)),)
    assert link.text == "officer.cmd"


def test_the_unit_of_measure_is_converted() -> None:
    link = linked("counter.amount", "machine.amount")
    assert sent(link, event("machine.amount", 2.0)) == pytest.approx((2000.0,))
    doubled = linked("counter.amount", "2*machine.amount + plant.x")
    assert sent(doubled, event("machine.amount", 2.0), plant_x=1.0) == pytest.approx((5000.0,))
    assert doubled.senders[0].reads == (("plant", "x"),)


def test_the_first_that_is_present() -> None:
    link = linked("boss.cmd_in", "officer.cmd or boss.cmd")
    assert [sender.source for sender in link.senders] == [("officer", "cmd"), ("boss", "cmd")]
    assert sent(link, event("boss.cmd", 1)) == (1,)
    assert sent(link, event("boss.cmd", 1) | event("officer.cmd", 0)) == (0,)
    assert sent(link, {}) is None


def test_texts_and_arrays_too() -> None:
    assert linked("counter.text", "machine.text or machine.text").senders[0].source == ("machine", "text")
    link = linked("counter.pair", "2*machine.pair")
    assert sent(link, {"machine.pair": {"machine.pair[0]": 1, "machine.pair[1]": 2}}) == (2, 4)
    turned = {"event": "machine.pair", "value": ["machine.pair[1]", "machine.pair[0]"]}
    link = linked("counter.pair", turned)
    assert sent(link, {"machine.pair": {"machine.pair[0]": 1, "machine.pair[1]": 2}}) == (2, 1)
    assert linked("counter.pair", "machine.amount").senders[0].cells == (parse("machine.amount"),) * 2


def test_mapped_labels() -> None:
    whole = linked("light.control", {"event": "officer.cmd", "map": {"toIdle": "toAuto", "toWork": "toOff"}})
    assert whole.senders[0].when is None
    assert [sent(whole, event("officer.cmd", i)) for i in (0, 1)] == [(0,), (1,)]
    part = linked("light.control", {"event": "officer.cmd", "map": {"toWork": "toManual"}})
    assert [sent(part, event("officer.cmd", i)) for i in (0, 1)] == [None, (2,)]


def test_mapped_numbers_and_truths() -> None:
    numbers = linked("light.control", {"event": "machine.count", "map": {"0": "toAuto", -7: "toManual"}})
    assert [sent(numbers, event("machine.count", n)) for n in (0, -7, 3)] == [(0,), (2,), None]
    truths = linked("counter.amount", {"event": "officer.seen", "map": {True: 2.5, "false": 1}})
    assert [sent(truths, event("officer.seen", n)) for n in (0, 1)] == [(1.0,), (2.5,)]
    assert truths.text == {"event": "officer.seen", "map": {"true": 2.5, "false": 1}}


def test_a_value_in_place_of_the_payload() -> None:
    label = linked("light.control", {"event": "officer.cmd", "value": "toManual"})
    assert sent(label, event("officer.cmd", 0)) == (2,)
    assert linked("light.control", {"event": "officer.cmd", "value": "'toManual'"}).senders == label.senders
    pure = linked("light.tick", {"event": "officer.cmd", "value": True})
    assert sent(pure, event("officer.cmd", 0)) == (1,)
    level = linked("counter.amount", {"event": "officer.cmd", "value": "plant.x"})
    assert sent(level, event("officer.cmd"), plant_x=3.0) == pytest.approx((3000.0,))


def test_conditions() -> None:
    table = {"event": "machine.amount", "when": "machine.amount > plant.x and officer_on"}
    link = linked("counter.amount", table, inputs={"officer_on": True})
    on = {"officer_on": 1.0, "plant.x": 3.0}
    assert [sent(link, {"machine.amount": {"machine.amount": amount, **on}}) for amount in (2.0, 4.0)] == [
        None,
        pytest.approx((4000.0,)),
    ]
    both = {"event": "officer.cmd", "map": {"toWork": "toOff"}, "when": "plant.on"}
    link = linked("light.control", both)
    found = [sent(link, event("officer.cmd", i), plant_on=on) for i in (0, 1) for on in (0, 1)]
    assert found == [None, None, None, (1,)]


def test_a_list_of_senders() -> None:
    link = linked(
        "light.control",
        [
            {"event": "boss.cmd", "value": "toOff", "when": "plant.on"},
            {"event": "officer.cmd or boss.cmd", "map": {"toIdle": "toAuto"}},
        ],
    )
    assert len(link.senders) == 3
    assert sent(link, event("boss.cmd", 0), plant_on=1) == (1,)
    assert sent(link, event("boss.cmd", 0), plant_on=0) == (0,)
    assert sent(link, event("boss.cmd", 1), plant_on=0) is None


def test_a_unit_may_send_to_itself() -> None:
    assert linked("boss.cmd_in", "boss.cmd").senders[0].source == ("boss", "cmd")


def test_expressions_as_objects() -> None:
    link = linked("counter.amount", parse("3*machine.amount"))
    assert link.text == "3*machine.amount"
    table = {"event": parse("machine.amount"), "when": parse("plant.on")}
    assert linked("counter.amount", table).text == {"event": "machine.amount", "when": "plant.on"}


# -------------------------------------------------------------------- inputs and outputs of the scenario


def test_event_inputs_of_the_scenario() -> None:
    inputs = {"call": {"event": True, "items": ORDERS}, "ring": {"event": True}}
    link = linked("boss.cmd_in", "call or officer.cmd", inputs=inputs)
    assert link.senders[0] == Sender(("inputs", "call"), None, (parse("call"),))
    assert Scenario(units(), inputs=inputs).inputs[1].kind is Kind.BOOLEAN


def test_event_outputs_take_their_type_from_the_source() -> None:
    outputs = {
        "lamp": "light.lamp",
        "mass": {"value": "machine.amount", "description": "how much"},
        "grams": {"value": "machine.amount", "unit": "g"},
        "twice": "2*machine.pair",
        "first": "machine.pair[0]",
        "both": "officer.cmd or boss.cmd",
        "mapped": {"value": {"event": "officer.cmd", "map": {"toWork": "go"}}, "items": ["go"]},
        "numbers": {"value": {"event": "officer.cmd", "map": {"toWork": 2, "toIdle": 3}}},
        "x": "plant.x",
    }
    scenario = Scenario(units(), outputs=outputs)
    ports = {output.port.name: output.port for output in scenario.event_outputs}
    assert [output.port.name for output in scenario.outputs] == ["x"]
    assert all(port.event for port in ports.values())
    assert ports["lamp"].items == ("red", "green")
    assert (ports["mass"].unit, ports["mass"].kind, ports["mass"].description) == (
        "kg",
        Kind.REAL,
        "how much",
    )
    assert (ports["twice"].size, ports["first"].size) == (2, None)
    assert ports["both"].items == ORDERS
    assert ports["mapped"].items == ("go",)
    assert (ports["numbers"].kind, ports["numbers"].items) == (Kind.INTEGER, ())
    grams = next(output for output in scenario.event_outputs if output.port.name == "grams")
    assert evaluate(grams.senders[0].cells[0], {"machine.amount": 1.0}) == pytest.approx(1000.0)
    assert scenario.port("lamp") is ports["lamp"]


# -------------------------------------------------------------------- what is refused


def test_an_event_is_no_signal() -> None:
    message = complaint("plant.q", "2*machine.amount")
    assert (
        "'plant.q' is a signal, but 'machine.amount' is an event, which has a value only at instants"
        in message
    )
    assert '[units.held] with kind = "hold"' in message
    assert '"held.event" = "machine.amount" and "plant.q" = "2*held.value"' in message


@pytest.mark.parametrize(
    ("source", "kind", "port"),
    [
        ("plant.x", "threshold", "crossed.above"),
        ("plant.on", "edge", "changed.rise"),
        ("plant.x > 3", "edge", "changed.rise"),
        ("plant.mode", "sample", "sampled.event"),
    ],
)
def test_a_signal_is_no_event(source: str, kind: str, port: str) -> None:
    message = complaint("light.tick", source)
    assert (
        f"'light.tick' is an event, which has a value only at instants, but '{source}' is a signal" in message
    )
    assert f'kind = "{kind}"' in message
    assert f'"light.tick" = "{port}"' in message


@pytest.mark.parametrize(
    ("target", "value", "words"),
    [
        ("light.tick", 1, "is a constant: it does not say when it happens"),
        ("light.tick", "officer.seen or plant.on", "'plant.on' is a signal"),
        ("counter.amount", "machine.amount + counted", "combines the events counted and machine.amount"),
        ("counter.amount", "machine.amount + counted", '"counter.amount" = "counted or machine.amount"'),
        ("light.control", "officer.cmd", "An enumeration is connected to one with the same labels"),
        ("counter.count", "machine.amount", "Round it"),
        ("light.control", {"event": "officer.cmd", "map": {"toIdel": "toAuto"}}, "Did you mean 'toIdle'"),
        ("light.control", {"event": "officer.cmd", "map": {"toIdle": "toAut"}}, "Did you mean 'toAuto'"),
        ("light.control", {"event": "officer.seen", "map": {"yes": "toAuto"}}, "never 'yes'"),
        ("light.control", {"event": "machine.count", "map": {"one": "toAuto"}}, "never 'one'"),
        ("light.control", {"event": "machine.count", "map": {"1": "toAuto", "+1": "toOff"}}, "twice"),
        ("light.control", {"event": "machine.amount", "map": {"1": "toAuto"}}, "a map is for labels"),
        ("light.control", {"event": "machine.pair", "map": {"1": "toAuto"}}, 'event = "machine.pair[0]"'),
        ("light.control", {"event": "officer.cmd", "map": {}}, "at least one entry"),
        ("light.control", {"event": "officer.cmd", "map": {"toIdle": 7}}, "not an index"),
        ("counter.text", {"event": "officer.cmd", "map": {"toIdle": "a"}}, "is a string"),
        ("light.control", {"event": "officer.cmd", "value": "toAuto", "map": {}}, "Keep the map or"),
        ("light.control", {"map": {"toIdle": "toAuto"}}, "does not say which event"),
        ("light.control", {"event": "plant.mode"}, "'plant.mode' is not the name of an event"),
        ("light.control", {"event": "officer.cmd + 1"}, "is not the name of an event"),
        ("light.control", {"evnt": "officer.cmd"}, "Did you mean 'event'"),
        ("light.tick", {"event": "officer.seen", "when": "plant.x"}, "'when' is boolean"),
        ("light.tick", {"event": "officer.seen", "when": "boss.cmd == 'toIdle'"}, "another event"),
        ("counter.amount", {"event": "officer.seen", "value": "machine.amount"}, "another event"),
        ("light.tick", [], "empty list"),
        ("plant.q", {"event": "officer.seen"}, "expected an expression for the signal"),
        ("light.control", {"event": "officer.cmd", "value": "toOff"}, "a scenario input, too"),
    ],
)  # fmt: skip
def test_refused(target: str, value: Any, words: str) -> None:
    inputs = {"counted": {"event": True, "unit": "kg"}, "toOff": 1.0}
    assert words in complaint(target, value, inputs=inputs)


def test_two_sources_are_joined_by_or() -> None:
    with pytest.raises(ScenarioError, match=r'"boss.cmd_in" = "a.y or b.y"'):
        Scenario(units(), [("boss.cmd_in", "officer.cmd"), ("boss.cmd_in", "boss.cmd")])


def test_outputs_that_are_refused() -> None:
    for value, words in {
        "officer.cmd + machine.amount": "combines the events",
        "officer.nothing": "does not exist",
    }.items():
        with pytest.raises(ScenarioError, match=words):
            Scenario(units(), outputs={"y": value})
    with pytest.raises(ScenarioError, match=r"'y' is an event, which .* but 'plant.x' is a signal"):
        Scenario(units(), outputs={"y": {"value": "plant.x", "event": True}})
    with pytest.raises(ScenarioError, match=r"Give it all its labels, in order: .* items = \['go'\]"):
        Scenario(units(), outputs={"y": {"value": {"event": "officer.cmd", "map": {"toIdle": "go"}}}})


def test_an_output_does_not_depend_on_an_event() -> None:
    bad = fake(input_("u", event=True), output("y", "u"))
    with pytest.raises(ScenarioError, match="depends on the event 'u'"):
        Scenario({"a": bad})


# -------------------------------------------------------------------- the scenario around them


def test_graph_and_free_inputs() -> None:
    scenario = Scenario(units(), {"boss.cmd_in": "officer.cmd", "plant.q": "plant.x"})
    assert [str(node) for node in scenario.graph.order] == [
        "light.bright", "plant.x", "plant.on", "plant.mode", "plant.q",
    ]  # fmt: skip
    assert "light.control" in scenario.free_inputs
    assert "boss.cmd_in" not in scenario.free_inputs
    assert scenario != Scenario(units(), {"boss.cmd_in": "boss.cmd", "plant.q": "plant.x"})
    assert repr(scenario).endswith("connections=2)")


def test_driven_and_closed() -> None:
    inputs = {"call": {"event": True, "items": ORDERS}, "level": 2.0}
    connections = {"boss.cmd_in": {"event": "call or officer.cmd", "when": "level > 1"}}
    scenario = Scenario(units(), connections, inputs=inputs, outputs={"heard": "call"})
    closed = scenario.closed()
    first, second = closed.event_connections[0].senders
    assert first == Sender(("inputs", "call"), parse("inputs.level > 1"), (parse("inputs.call"),))
    assert second.source == ("officer", "cmd")
    assert closed.event_outputs[0].senders == (Sender(("inputs", "call"), None, (parse("inputs.call"),)),)
    assert closed.column("inputs", "set_call") == "call"
    assert {"call", "level"} <= set(closed.free_inputs)
    sender = next(port for port in closed.units["inputs"].ports if port.name == "call")
    assert sender.event
    assert sender.items == ORDERS


def test_values_for_events_are_refused() -> None:
    scenario = Scenario(units(), inputs={"call": {"event": True}})
    with pytest.raises(ScenarioError, match="an event is absent between instants"):
        scenario.with_values({"call": True})


def test_no_monolith_with_events() -> None:
    with pytest.raises(ScenarioError, match="'light' deals in events"):
        Scenario({"light": units()["light"]}).monolith()
    ode = Ode(states={"x": "-x"}, outputs=["x"])
    with pytest.raises(ScenarioError, match="the scenario has event inputs"):
        Scenario({"a": ode}, inputs={"call": {"event": True}}).monolith()


def test_no_approximation_for_events() -> None:
    master = Master(Fixed(1.0), ports={"light.tick": Hold()})
    with pytest.raises(MasterError, match=r"'light.tick', which is an event: it is absent between instants"):
        master.program(Scenario(units()))


# -------------------------------------------------------------------- in files

FILE = """
[units.a]
outputs.y = "2"
inputs = ["u"]

[connections]
LINE
"""


@pytest.mark.parametrize("key", ["a.u", '"a.u"', "a . u"])
def test_a_table_behind_a_port_is_a_value(key: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_text(FILE.replace("LINE", f'{key} = {{ event = "a.y" }}'))
    (problem,) = caught.value.problems
    assert (problem.line, problem.where) == (7, ("connections", "a.u"))
    assert "expected an expression for the signal 'a.u', not a table" in problem.what


@pytest.mark.parametrize("ports", [{"inputs": {"u": {"event": True}}}, {"outputs": {"y": {"event": True}}}])
def test_functions_have_no_events(ports: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="events belong to discrete units"):
        Function(**{"outputs": {"z": "1"}, **ports})


@pytest.mark.parametrize("ports", [{"inputs": {"u": {"event": True}}}, {"outputs": {"y": {"event": True}}}])
def test_an_event_port_of_equations_needs_an_event(ports: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="no event"):
        Ode(**{"states": {"x": "0"}, **ports})


def test_problems_point_into_tables() -> None:
    value = [
        "boss.cmd",
        {"event": "officer.cmd", "map": {"toIdle": "toAuto", "toWerk": "toOff"}},
    ]
    with pytest.raises(ScenarioError) as caught:
        Scenario(units(), {"light.control": value})
    assert caught.value.problems[0].where == ("connections", "light.control", "1", "map", "toWerk")
    lines = Lines('[connections]\nlight.control = [\n "boss.cmd",\n { event = "officer.cmd" },\n]\n')
    assert lines.of(caught.value.problems[0].where) == 4
