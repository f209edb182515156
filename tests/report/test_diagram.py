"""Block diagrams: nothing lies on top of anything else, wires end at their ports, and the SVG is one file."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from odd_units import integrator
from upbeat.core.expr import Name, show
from upbeat.report.diagram import _LETTER, Diagram, arrange, svg

EXAMPLES = Path(__file__).parents[2] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def coupled(count: int, seed: int, ports: int = 2) -> up.Scenario:
    """Random wires among units, some of which react at once, so that there may be loops."""
    draw = random.Random(seed)
    names = [f"in{k}" for k in range(ports)]
    state = up.Ode({"x": "-x + " + " + ".join(names)}, inputs=names)
    gain = up.Function(inputs=names, outputs={"x": "0.1*(" + " + ".join(names) + ")"})
    units = {f"u{k}" + "_long" * draw.randrange(4): draw.choice([state, gain]) for k in range(count)}
    wires = {
        f"{unit}.{name}": " + ".join(
            f"{draw.choice(list(units))}.x" for _ in range(draw.choice([1, 1, 2, 5]))
        )
        for unit in units
        for name in names
        if draw.random() < 0.8
    }
    events = {"hit": {"when": f"{draw.choice(list(units))}.x > 1"}} if draw.random() < 0.3 else {}
    return up.Scenario(units, wires, outputs={"all": f"{draw.choice(list(units))}.x"}, events=events)


def boxes_of_texts(drawn: str) -> list[tuple[float, float, float, float]]:
    """Where texts are: generously, as no font with equal letters is wider."""
    found = []
    for text in ET.fromstring(drawn).iter(f"{SVG}text"):
        size, x, y = (float(text.attrib[name]) for name in ("font-size", "x", "y"))
        wide = _LETTER * size * len(text.text or "")
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
        found.append((left, y - 0.75 * size, left + wide, y + 0.2 * size))
    return found


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def check(diagram: Diagram) -> None:
    boxes = [(b.x, b.y, b.x + b.width, b.y + b.height) for b in diagram.boxes]
    for number, one in enumerate(boxes):
        assert one[0] >= 0
        assert one[1] >= 0
        assert one[2] <= diagram.width
        assert one[3] <= diagram.height
        for other in boxes[:number]:
            assert not overlap(one, other)
    for wire in diagram.wires:
        for (x0, y0), (x1, y1) in zip(wire.points, wire.points[1:], strict=False):
            assert x0 == x1 or y0 == y1, "wires turn at right angles"
            inner = (min(x0, x1) + 0.1, min(y0, y1) + 0.1, max(x0, x1) - 0.1, max(y0, y1) - 0.1)
            if inner[0] < inner[2] or inner[1] < inner[3]:
                line = (*sorted((x0, x1)), *sorted((y0, y1)))
                segment = (line[0] + 0.1, line[2] - 0.05, line[1] - 0.1, line[3] + 0.05)
                if x0 == x1:
                    segment = (line[0] - 0.05, line[2] + 0.1, line[1] + 0.05, line[3] - 0.1)
                assert not any(overlap(segment, box) for box in boxes), f"{wire.source} runs through a box"
    pins = {(f"{b.name}.{p.name}"): p.y for b in diagram.boxes for p in b.outputs}
    for wire in diagram.wires:
        if diagram.detailed and wire.source in pins:
            assert wire.points[0][1] == pins[wire.source]
    texts = boxes_of_texts(svg(diagram))
    for number, text in enumerate(texts):
        assert not any(overlap(text, other) for other in texts[:number])
        assert text[0] >= -1
        assert text[2] <= max(diagram.width, 120) + 1 or text[1] > diagram.height


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 24), st.integers(0, 10**6), st.integers(1, 4))
def test_nothing_overlaps_in_random_diagrams(count: int, seed: int, ports: int) -> None:
    check(arrange(coupled(count, seed, ports)))


@pytest.mark.parametrize(
    "name",
    ["coupled_masses", "ten_units", "two_mass/lookahead", "power_window/power_window", "tank"],
)
def test_nothing_overlaps_in_the_examples(name: str) -> None:
    check(arrange(up.load(EXAMPLES / f"{name}.toml")))


def test_fifty_units_are_folded_like_lines_of_a_text() -> None:
    unit = up.Ode({"x": "-x + u"}, inputs=["u"])
    chain = up.Scenario(
        {f"u{k}": unit for k in range(50)}, {f"u{k}.u": f"u{(k - 1) % 50}.x" for k in range(50)}
    )
    diagram = arrange(chain)
    check(diagram)
    assert diagram.width < 1400
    assert diagram.height < 1000
    place = {box.name: (box.y, box.x) for box in diagram.boxes}
    assert sorted(place, key=lambda name: place[name]) == list(chain.units), "read like a text"


def test_a_wire_that_only_passes_another_ones_port_does_not_seem_to_end_there() -> None:
    """Two pins that face each other at one height look connected: where they are not, one is moved."""
    for seed in range(40):
        diagram = arrange(coupled(8, seed))
        starts = {(w.points[0], w.source) for w in diagram.wires}
        for wire in diagram.wires:
            if len(wire.points) == 2:
                assert (wire.points[0], wire.source) in starts
        ends = {(w.source, w.target) for w in diagram.wires}
        straight = {
            (a.source, b.target)
            for a in diagram.wires
            for b in diagram.wires
            if a.points[0][1] == b.points[-1][1] and a.points[1][0] > b.points[-2][0] > a.points[0][0]
            and a.points[1][0] < b.points[-1][0] and (a.source, b.target) not in ends
            and not any(w.target == b.target and w.source == a.source for w in diagram.wires)
        }  # fmt: skip
        assert not straight


def test_loops_rates_and_units_of_measure_are_told() -> None:
    gain = up.Function(inputs={"u": {"unit": "N"}}, outputs={"y": {"value": "0.5*u", "unit": "N"}})
    loop = up.Scenario({"a": gain, "b": gain}, {"a.u": "b.y", "b.u": "a.y"})
    diagram = arrange(loop)
    assert all(wire.loop for wire in diagram.wires)
    assert all(box.loop and box.through for box in diagram.boxes)
    drawn = svg(diagram)
    assert "algebraic loop" in drawn
    assert "a.y → b.u (N)" in drawn
    state = up.Ode({"x": "-x + u"}, inputs=["u"])
    rates = up.Scenario({"slow": state, "fast": state}, {"fast.u": "slow.x", "slow.u": "fast.x"})
    made = up.experiment(rates, pace=0.1, until=1.0, coupling=up.MultiRate({"fast": 4}))
    assert "step 0.025 s" in svg(arrange(made))
    assert "algebraic loop" not in svg(arrange(made))
    clock = up.Scenario({"clock": up.Clock(0.25), "gate": up.LastValue(0.0)}, {})
    assert "every 0.25 s" in svg(arrange(clock))


def test_events_between_units_are_tied_to_them() -> None:
    diagram = arrange(up.load(EXAMPLES / "two_mass/lookahead.toml"))
    watching = {(w.source, w.target): w.both for w in diagram.wires if w.kind == "watch"}
    assert watching == {("upper", "masses"): True, ("lower", "masses"): True, ("upper", "ceiling"): True}


def test_odd_names_cannot_break_the_drawing() -> None:
    text = 'a<b>&"quoted" ü 漢字 ' + "x" * 200
    odd = integrator(text, text + "y", "der(x)", "*")
    scenario = up.Scenario({"one": odd, "two": odd}, {f"one.{text}": show(Name(f"two.{text}y"))})
    diagram = arrange(scenario)
    check(diagram)
    ET.fromstring(svg(diagram, title="<&>"))


def test_places_are_plain_data() -> None:
    diagram = arrange(up.load(EXAMPLES / "coupled_masses.toml"))
    data = json.loads(json.dumps(diagram.to_data()))
    assert {box["name"] for box in data["boxes"]} == {"left", "right", "stretch"}
    assert data["wires"][0]["points"]
    assert arrange(up.load(EXAMPLES / "coupled_masses.toml")) == diagram, "the same every time"


# ----------------------------------------------------------------------------------------------------
# Places that somebody has chosen.


def corners(diagram: Diagram) -> dict[str, tuple[float, float]]:
    return {box.key: (box.x, box.y) for box in diagram.boxes}


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 16), st.integers(0, 10**6), st.data())
def test_boxes_stay_where_they_were_put_and_wires_find_their_way(
    count: int, seed: int, data: st.DataObject
) -> None:
    """On a wide grid, in any order: no wire has to run through a box."""
    scenario = coupled(count, seed)
    keys = list(corners(arrange(scenario, every_port=True)))
    cells = data.draw(st.permutations(range(2 * len(keys))))
    places = {
        key: (40.0 + 320 * (cell % 5), 60.0 + 200 * (cell // 5))
        for key, cell in zip(keys, cells, strict=False)
    }
    diagram = arrange(scenario, every_port=True, places=places)
    check(diagram)
    assert corners(diagram) == places
    again = arrange(scenario, every_port=True, places=places, before=diagram)
    assert again.wires == diagram.wires, "nothing has moved"


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 16), st.integers(0, 10**6), st.data())
def test_a_new_box_finds_a_free_place_and_moves_no_other(count: int, seed: int, data: st.DataObject) -> None:
    scenario = coupled(count, seed)
    known = corners(arrange(scenario, every_port=True))
    new = data.draw(st.sets(st.sampled_from(sorted(known)), min_size=1, max_size=3))
    kept = {key: at for key, at in known.items() if key not in new} or {"nobody": (0.0, 0.0)}
    found = arrange(scenario, every_port=True, places=kept)
    assert {key: at for key, at in corners(found).items() if key in kept} == {
        k: kept[k] for k in known if k in kept
    }
    boxes = [(b.x, b.y, b.x + b.width, b.y + b.height) for b in found.boxes]
    for number, one in enumerate(boxes):
        assert not any(overlap(one, other) for other in boxes[:number])


def test_every_port_is_drawn_if_asked_for() -> None:
    unit = up.Ode({"x": "-x + u"}, inputs=["u", "spare"])
    many = up.Function(inputs=[f"u{k}" for k in range(60)], outputs={"y": "u0"})
    chain = up.Scenario(
        {f"u{k}": unit for k in range(30)} | {"many": many}, {"u1.u": "u0.x", "many.u59": "u0.x"}
    )
    diagram = arrange(chain, every_port=True)
    check(diagram)
    assert diagram.detailed
    first, last = diagram.boxes[0], next(box for box in diagram.boxes if box.name == "many")
    assert [pin.name for pin in first.inputs] == ["u", "spare"]
    assert [pin.name for pin in last.inputs] == [*(f"u{k}" for k in range(13)), "u59"]
    assert not any(pin.name == "spare" for box in arrange(chain).boxes for pin in box.inputs)


def test_wires_that_need_not_move_stay(tmp_path: Path) -> None:
    scenario = coupled(12, 3)
    places = {key: (1.5 * x, 1.5 * y) for key, (x, y) in corners(arrange(scenario, every_port=True)).items()}
    before = arrange(scenario, every_port=True, places=places)
    moved = max(places, key=lambda key: places[key][1])
    places[moved] = (places[moved][0], places[moved][1] + 240)
    after = arrange(scenario, every_port=True, places=places, before=before)
    for one, other in zip(before.wires, after.wires, strict=True):
        if moved not in (one.source.split(".")[0], one.target.split(".")[0]) and moved not in one.target:
            assert one == other


def test_the_legend_is_inside_the_picture() -> None:
    """Also of a diagram that is narrower than its words."""
    ball = up.Ode({"h": "v", "v": "-9.81"}, start={"h": 1.0})
    bounce = {"when": ["ball.h", "ball.v"], "then": {"ball.v": "-0.8*ball.v"}}
    drawn = ET.fromstring(svg(arrange(up.Scenario({"ball": ball}, events={"bounce": bounce}))))
    texts = [text for text in drawn.iter(f"{SVG}text") if "event between units" in (text.text or "")]
    assert len(texts) == 1
    text = texts[0]
    end = float(text.get("x", 0)) + len(text.text or "") * _LETTER * float(text.get("font-size", 0))
    assert end <= float(drawn.get("width", 0))
