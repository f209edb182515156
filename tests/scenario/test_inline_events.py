"""Events over the border of a nested scenario: the flat one sends what the nested one would."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from scenario_models import Fake, fake, input_, output
from upbeat.core.expr import evaluate
from upbeat.core.ports import Causality, Kind
from upbeat.scenario.events.links import Sender
from upbeat.scenario.merging.inline import CannotInline, inlined
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
    assert [o.port.name for o in flat.event_outputs] == ["shown", "crossing_lamp"]
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


# -------------------------------------------------------------------- any wiring

CONDITIONS = ("s.a", "not s.b", "{} == 'toWork'", "{} == 'toIdle' or s.a")
TEXT = st.sampled_from(ORDERS)
SENT: tuple[dict[str, str], ...] = (
    {"boss.cmd": "toWork"},
    {"officer.cmd": "toIdle", "officer.other": "toWork"},
    {"officer.other": "toIdle"},
    {"x.light.lamp": "toWork"},
    {"x.light.lamp": "toIdle"},
)
"""What one unit sends in one micro-step."""


@st.composite
def wired(draw: st.DrawFn, sources: tuple[str, ...], signals: dict[str, str]) -> Any:
    """A list of senders from these sources, where `signals` says what s.a and s.b are called."""
    found = []
    for source in draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3)):
        table: dict[str, Any] = {"event": source}
        if draw(st.booleans()):
            table["map"] = draw(st.dictionaries(TEXT, TEXT, min_size=1))
        if draw(st.booleans()):
            text = draw(st.sampled_from(CONDITIONS)).format(source)
            for name, own in signals.items():
                text = text.replace(name, own)
            table["when"] = text
        found.append(table)
    return found


def told(table: list[dict[str, Any]], sent: dict[str, str], values: dict[str, bool]) -> str | None:
    """What a list of senders delivers, by the words of the documentation."""
    for entry in table:
        label = sent.get(entry["event"])
        label = entry["map"].get(label) if label is not None and "map" in entry else label
        if label is None:
            continue
        if "when" not in entry or holds(entry["when"], entry["event"], sent[entry["event"]], values):
            return label
    return None


def holds(text: str, event: str, label: str, values: dict[str, bool]) -> bool:
    known = dict(values, **{event: label})
    for name, value in known.items():
        text = text.replace(name, repr(value))
    return bool(eval(text))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_flat_is_what_nested_would_be(data: st.DataObject) -> None:
    signals = {"s.a": "day", "s.b": "night"}
    into = data.draw(wired(("first", "second"), signals))
    out = data.draw(wired(("first", "second", "light.lamp"), signals))
    inner = Scenario(
        {"light": fake(input_("order", **order()), output("lamp", **order()))},
        {"light.order": into},
        inputs={n: {"event": True, "items": ORDERS} for n in ("first", "second")}
        | {"day": False, "night": False},
        outputs={"lamp": {"value": out, "items": ORDERS}},
    )
    plain = {"s.a": "s.a", "s.b": "s.b"}
    given_ = {
        name: data.draw(wired(("officer.cmd", "officer.other", "boss.cmd"), plain))
        for name in ("first", "second")
    }
    behind = data.draw(wired(("x.lamp", "boss.cmd"), plain))
    outer = Scenario(
        {
            "s": fake(output("a", kind=Kind.BOOLEAN), output("b", kind=Kind.BOOLEAN)),
            "officer": OFFICER, "boss": BOSS, "x": whole(inner), "count": COUNT,
        },
        {**{f"x.{name}": table for name, table in given_.items()}, "x.day": "s.a", "x.night": "s.b",
         "count.lamp": behind},
    )  # fmt: skip
    try:
        flat, _ = inlined(outer, "x", inner)
    except CannotInline:
        reject()  # see the test before
    links = {c.target: c.senders for c in flat.event_connections}
    for a, b in product((False, True), repeat=2):
        for sent in SENT:
            outside = {name: label for name, label in sent.items() if not name.startswith("x.")}
            values = {"s.a": a, "s.b": b}
            inputs = {name: told(given_[name], outside, values) for name in given_}
            inside = {name: label for name, label in inputs.items() if label is not None}
            inside |= {"light.lamp": sent["x.light.lamp"]} if "x.light.lamp" in sent else {}
            own = {"day": a, "night": b}
            lamp = told(out, inside, own)
            expected = {
                "x_light.order": told(into, inside, own),
                "count.lamp": told(behind, outside | ({"x.lamp": lamp} if lamp is not None else {}), values),
            }
            flat_sent = {
                tuple(name.replace("x.light", "x_light").split(".")): float(ORDERS.index(label))
                for name, label in sent.items()
            }
            for target, label in expected.items():
                got = arrives(
                    links[target], flat_sent, {name: float(value) for name, value in values.items()}
                )
                assert got == (None if label is None else ORDERS.index(label)), (target, sent)
