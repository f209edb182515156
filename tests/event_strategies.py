"""Random discrete-event units and event connections, for the scenarios of `strategies`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

import upbeat as up
from discrete_models import LABELS, MOTION, model_of, systems
from machine_models import COLOURS, machines
from shapes import REALS, Payload, Shape

PURE = Payload("boolean")
NUMBER = Payload("real")
WHOLE = Payload("integer")
PAIR = Payload("real", 2)
TEXT = Payload("string")
LABEL = Payload("integer", None, LABELS)
COLOUR = Payload("integer", None, tuple(COLOURS))

EVERY = [0.1, 0.07, 0.3, 0.25]


@st.composite
def event_units(draw: st.DrawFn) -> Shape:
    """A discrete-event unit of any kind."""
    kind = st.sampled_from(
        ["system", "motion", "machine", "machine", "queue", "hold", "hold", "sample", "edge", "limit",
         "clock", "clock", "schedule", "post"]
    )  # fmt: skip
    match draw(kind):
        case "system":
            return Shape(
                model_of(draw(systems())),
                {},
                {"x": ("integer", None), "count": ("integer", None)},
                {"tell": LABEL},
                {"said": NUMBER},
            )
        case "motion":
            return Shape(
                MOTION,
                {"u": ("real", None), "w": ("real", 2), "on": ("boolean", None)},
                {"y": ("real", None), "calm": ("boolean", None)},
                {"hit": PAIR, "reset": PURE, "kind": LABEL},
                {"passed": PAIR, "echo": LABEL, "done": PURE},
            )
        case "machine":
            return Shape(
                up.StateMachine(**draw(machines())),
                {"u": ("real", None)},
                {"n": ("integer", None), "x": ("real", None), "sum": ("real", None)},
                {"go": PURE, "tell": LABEL},
                {"done": PURE, "said": COLOUR, "num": NUMBER},
            )
        case "queue":
            return _queue(draw(st.sampled_from([0.0, 0.05, 0.2])))
        case "post":
            return _post(draw(st.sampled_from([0.15, 0.4])))
        case "hold":
            carried, size = draw(st.sampled_from([("real", None), ("integer", None), ("real", 2)]))
            model = up.LastValue(None if size else 1, of=carried, size=size)
            return Shape(model, {}, {"value": (carried, size)}, {"event": Payload(carried, size)})
        case "sample":
            carried, size = draw(st.sampled_from([("real", None), ("integer", None), ("real", 2)]))
            model = up.Sampler(draw(st.sampled_from(EVERY)), of=carried, size=size)
            return Shape(model, {"signal": (carried, size)}, {}, {}, {"event": Payload(carried, size)})
        case "edge":
            return Shape(up.Edge(), {"signal": ("boolean", None)}, {}, {}, {"rise": PURE, "fall": PURE})
        case "limit":
            model = up.Threshold(draw(REALS), hysteresis=draw(st.sampled_from([0.0, 0.1])))
            return Shape(model, {"signal": ("real", None)}, {}, {}, {"above": PURE, "below": PURE})
        case "clock":
            model = up.Clock(draw(st.sampled_from(EVERY)), offset=draw(st.sampled_from([0.0, 0.05, -1.0])))
            return Shape(model, {}, {}, {}, {"tick": PURE})
    times = sorted(
        draw(st.lists(st.sampled_from([-1.5, -1.2, 0.0, 0.1, 0.25, 0.31]), min_size=1, max_size=4))
    )
    values = [draw(REALS) for _ in times]
    return Shape(up.Schedule(times, values), {}, {}, {}, {"event": NUMBER})


def _queue(lasts: float) -> Shape:
    """A server in Python, whose state is a list; what it sends is an array."""
    model = up.PythonDiscrete(
        start=[],
        time_advance=lambda waiting: lasts if waiting else float("inf"),
        internal=lambda waiting: waiting[1:],
        output=lambda waiting: {"served": (waiting[0], float(len(waiting))), "left": len(waiting) - 1},
        external=lambda waiting, elapsed, events: [*waiting, events.get("come", elapsed)][-5:],
        shows=lambda waiting: {"length": len(waiting)},
        inputs={"come": {"kind": "real"}, "also": {"kind": "boolean"}},
        outputs={
            "served": {"event": True, "size": 2},
            "left": {"event": True, "kind": "integer"},
            "length": {"kind": "integer"},
        },
    )
    return Shape(
        model,
        {},
        {"length": ("integer", None)},
        {"come": NUMBER, "also": PURE},
        {"served": PAIR, "left": WHOLE},
    )


def _post(lasts: float) -> Shape:
    """A unit in Python that passes texts on, and sends some of its own."""
    model = up.PythonDiscrete(
        start={"text": "", "n": 0},
        time_advance=lambda state: lasts,
        internal=lambda state: {"text": state["text"][-3:] + "x", "n": state["n"] + 1},
        output=lambda state: {"out": state["text"]} if state["n"] % 3 else None,
        external=lambda state, elapsed, events: {"text": events["in"] + "y", "n": state["n"]},
        shows=lambda state: {"text": state["text"]},
        inputs={"in": {"kind": "string"}},
        outputs={"out": {"event": True, "kind": "string"}, "text": {"kind": "string"}},
    )
    return Shape(model, {}, {"text": ("string", None)}, {"in": TEXT}, {"out": TEXT})


# -------------------------------------------------------------------- connections


@st.composite
def event_links(draw: st.DrawFn, to: Payload, senders: Mapping[str, Payload], signals: list[str]) -> Any:
    """What an event input is connected to: one to three senders, or None where nothing fits."""
    fitting = [name for name, sent in senders.items() if to.kind != "string" or sent.kind == "string"]
    if not fitting:
        return None
    count = draw(st.sampled_from([1, 1, 1, 2, 3]))
    links = []
    for _ in range(count):
        name = draw(st.sampled_from(fitting))
        links.append(draw(_link(to, name, senders[name], signals)))
    return links[0] if count == 1 else links


@st.composite
def _link(draw: st.DrawFn, to: Payload, name: str, sent: Payload, signals: list[str]) -> Any:
    when = {"when": f"{draw(st.sampled_from(signals))} > 0"} if signals and draw(st.booleans()) else {}
    same = sent == to
    if same and (to.kind == "string" or draw(st.booleans())):
        return {"event": name, **when} if when else name
    signal = draw(st.sampled_from(signals)) if signals else "0.5"
    if to.items:
        if sent.items and draw(st.booleans()):
            keys = draw(st.lists(st.sampled_from(sent.items), min_size=1, unique=True))
            return {"event": name, "map": {key: draw(st.sampled_from(to.items)) for key in keys}, **when}
        return {"event": name, "value": draw(st.sampled_from(to.items)), **when}
    if to.size is not None:
        own = f"{name}[1]" if sent.size == 2 else "0.25"
        return {"event": name, "value": [signal, own], **when}
    if to.kind == "real":
        if sent == NUMBER:
            return f"0.5*{name} + {signal}"
        return {"event": name, "value": signal, **when}
    value = {"boolean": "1 > 0", "integer": 2}[to.kind]
    return {"event": name, "value": value, **when}


@st.composite
def orders(draw: st.DrawFn, scenario: up.Scenario) -> up.Simultaneous:
    """Who goes first; a chain that does not end is noticed soon."""
    able = [unit for unit, model in scenario.units.items() if up.Ability.NEXT_EVENT in model.abilities]
    chosen = draw(st.permutations(able))[: draw(st.integers(0, len(able)))]
    return up.Simultaneous(tuple(chosen), max_iterations=30)
