"""Events over the border of a nested scenario: the flat one sends what the nested one would."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from scenario_models import Fake, fake, input_, output
from upbeat.core.expr import evaluate
from upbeat.core.ports import Causality, Kind
from upbeat.scenario.event_connection import Sender
from upbeat.scenario.inline import inlined
from upbeat.scenario.inline_events import CannotInline
from upbeat.scenario.scenario import Scenario

ORDERS = ("toIdle", "toWork")
MODES = ("toAuto", "toOff")


def order(**more: Any) -> dict[str, Any]:
    return {"kind": Kind.INTEGER, "items": ORDERS, "event": True, **more}


def mode() -> dict[str, Any]:
    return {"kind": Kind.INTEGER, "items": MODES, "event": True}


OFFICER = fake(output("cmd", **order()), output("other", **order()), output("sunny", kind=Kind.BOOLEAN))
BOSS = fake(output("cmd", **order()))
LIGHT = fake(input_("control", **mode()), input_("tick", event=True), output("lamp", **order()))
COUNT = fake(input_("lamp", **order()), input_("n", kind=Kind.INTEGER, event=True))


def whole(inner: Scenario) -> Fake:
    outputs = (o.port for o in inner.all_outputs)
    return fake(*inner.inputs, *outputs)


def arrives(senders: tuple[Sender, ...], sent: dict[tuple[str, str], float], values: dict[str, float]) -> Any:
    """What a list of senders delivers: the first one that is present."""
    for sender in senders:
        if sender.source in sent:
            known = {
                ".".join(sender.source): sent[sender.source],
                sender.source[1]: sent[sender.source],
                **values,
            }
            if sender.when is None or evaluate(sender.when, known):
                return evaluate(sender.cells[0], known)
    return None


def test_what_goes_in_and_what_comes_out() -> None:
    inner = Scenario(
        {"light": LIGHT},
        {"light.control": {"event": "order", "map": {"toIdle": "toAuto", "toWork": "toOff"}, "when": "day"}},
        inputs={"order": {"event": True, "items": ORDERS}, "day": False},
        outputs={"lamp": {"event": True, "value": "light.lamp"}},
    )
    outer = Scenario(
        {"officer": OFFICER, "boss": BOSS, "crossing": whole(inner), "count": COUNT},
        {
            "crossing.order": {
                "event": "officer.cmd or boss.cmd",
                "map": {"toIdle": "toWork", "toWork": "toIdle"},
            },
            "crossing.day": "officer.sunny",
            "count.n": {"event": "crossing.lamp", "value": "2 if crossing.lamp == 'toWork' else 1"},
            "count.lamp": "crossing.lamp or boss.cmd",
        },
        outputs={"shown": "crossing.lamp"},
    )
    flat, names = inlined(outer, "crossing", inner)
    assert names == {"light": "crossing_light"}
    links = {c.target: c.senders for c in flat.event_connections}
    assert list(links) == ["count.n", "count.lamp", "crossing_light.control"]
    for who, cmd, sunny in product(("officer", "boss"), (0, 1), (0, 1)):
        got = arrives(links["crossing_light.control"], {(who, "cmd"): cmd}, {"officer.sunny": sunny})
        assert got == (1 - cmd if sunny else None)  # turned round outside, passed through the map inside
    for lamp in (0, 1):
        sent = {("crossing_light", "lamp"): lamp}
        assert arrives(links["count.n"], sent, {}) == (2 if lamp == 1 else 1)
        assert arrives(links["count.lamp"], sent, {}) == lamp
    assert [o.port.name for o in flat.event_outputs] == ["shown", "crossing_order", "crossing_lamp"]
    assert flat.event_outputs[0].senders[0].source == ("crossing_light", "lamp")
    assert flat.origin is not None
    assert flat.origin.columns["", "crossing_lamp"] == "crossing.lamp"
    assert flat.origin.columns["crossing_light", "lamp"] == "crossing.light.lamp"
    assert not any("lamp" in name or "order" in name for name in flat.origin.shown)


def test_inputs_that_nobody_drives_are_handed_on() -> None:
    inner = Scenario(
        {"light": LIGHT},
        {"light.control": "call", "light.tick": {"event": "call", "value": True, "when": "call == 'toOff'"}},
        inputs={"call": {"event": True, "items": MODES}},
    )
    flat, _ = inlined(Scenario({"crossing": whole(inner)}), "crossing", inner)
    control, tick = flat.event_connections
    assert control.senders[0].source == ("crossing_inputs", "call") == tick.senders[0].source
    assert control.text == "crossing_inputs.call"
    assert tick.text == {"event": "crossing_inputs.call", "value": "1", "when": "crossing_inputs.call == 1"}
    holder = flat.units["crossing_inputs"]
    assert {p.name for p in holder.ports if p.causality is Causality.INPUT and p.event} == {"set_call"}
    assert list(flat.free_inputs) == ["crossing.call"]


def test_events_that_pass_through() -> None:
    inner = Scenario({"light": LIGHT}, inputs={"a": {"event": True}}, outputs={"b": "a"})
    units = {"boss": fake(output("y", kind=Kind.BOOLEAN, event=True)), "x": whole(inner), "count": LIGHT}
    flat, _ = inlined(Scenario(units, {"x.a": "boss.y", "count.tick": "x.b"}), "x", inner)
    (link,) = flat.event_connections
    assert link.senders[0].source == ("boss", "y")
    with pytest.raises(CannotInline, match="comes back to itself"):
        inlined(Scenario(units, {"x.a": "x.b"}), "x", inner)


def test_a_condition_behind_several_senders_in_one_unit() -> None:
    inner = Scenario(
        {"light": LIGHT},
        {"light.tick": {"event": "a", "value": True, "when": "a == 'toWork'"}},
        inputs={"a": {"event": True, "items": ORDERS}},
    )
    units = {"officer": OFFICER, "x": whole(inner)}
    with pytest.raises(CannotInline, match="several senders in one unit"):
        inlined(Scenario(units, {"x.a": "officer.cmd or officer.other"}), "x", inner)
    flat, _ = inlined(Scenario(units, {"x.a": "officer.cmd"}), "x", inner)
    assert len(flat.event_connections) == 1
