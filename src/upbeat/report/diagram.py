"""The block diagram of a scenario: where its boxes and wires are, as data, and the picture made of them.

`arrange` finds places and nothing else, so that other drawings (the page of `upbeat studio`) starts
from the same data; `svg` draws them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import pairwise
from typing import Any
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import check_type
from upbeat.core.expr import Name
from upbeat.core.ports import Causality, Port
from upbeat.engine.experiment import Experiment
from upbeat.engine.nesting.model import kind_name, nested_of
from upbeat.master.paces.pace import equal_steps, nominal_step
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import bare
from upbeat.units.solving.solvers import solver_of, solver_spec

# ----------------------------------------------------------------------------------------------------
# What there is to draw: boxes with pins at their sides, and links between pins.

MAX_UNITS = 200
"""A diagram of more than these is a texture, and a table tells more."""
_DETAILED, _PINS = 14, 14
"""Up to so many units, with so many pins on one side each, every port is drawn; beyond, units alone."""
_EVENTS = 12
_WATCHED = " "
"""The pin by which a unit is tied to the events that are about it."""
_LONGEST = 26
"""Letters of a name that are shown; the tooltip has all of it."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A port at the left (input) or right (output) side of a box, at the height `y`."""

    name: str
    y: float
    tooltip: str
    loop: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A unit, or an input, an output or an event of the scenario itself, which `kind` says.

    Under the `title` there are `lines` of small text: the kind of the model, and its rate if it has one.
    """

    name: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[str, ...]
    inputs: tuple[Pin, ...]
    outputs: tuple[Pin, ...]
    tooltip: str
    loop: bool = False
    through: tuple[tuple[float, float], ...] = ()
    """Direct feedthrough that is a part of an algebraic loop: from the height of an input to an output's."""

    @property
    def key(self) -> str:
        """Its name among all boxes: an event and a unit may be called the same."""
        return _box_key(self.kind, self.name)


def _box_key(kind: str, name: str) -> str:
    return name if kind in ("unit", "nested") else f"{kind} {name}"


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection through these points, from an output to an input; `kind` is signal, event or watch.

    One that watches goes from a unit to an event that is about it; `both` if the event changes the unit.
    """

    source: str
    target: str
    kind: str
    points: tuple[tuple[float, float], ...]
    tooltip: str
    loop: bool = False
    both: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    """Boxes and wires at their places. Units of length are pixels, and y grows downwards."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    detailed: bool
    """Whether ports are drawn; if not, wires go from unit to unit, and stand for several connections."""

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"boxes": [asdict(box) | {"key": box.key} for box in self.boxes]}

    def _repr_svg_(self) -> str:
        return svg(self)

    def __str__(self) -> str:
        count = sum(box.kind in ("unit", "nested") for box in self.boxes)
        return f"A block diagram of {count} units, {self.width:.0f} × {self.height:.0f} pixels."


@dataclass(slots=True)
class _Node:
    """A box without a place. Pins by their key: the name of the port, or "" for all of them."""

    name: str
    kind: str
    title: str
    lines: tuple[str, ...]
    tooltip: str
    inputs: dict[str, tuple[str, bool]] = field(default_factory=dict)  # tooltip, in a loop
    outputs: dict[str, tuple[str, bool]] = field(default_factory=dict)
    loop: bool = False
    through: list[tuple[str, str]] = field(default_factory=list)
    column: int = 0
    band: int = 0
    x: float = 0.0
    y: float = 0.0
    nudged: dict[tuple[bool, str], float] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        return self.kind in ("unit", "nested") and any(name.strip() for name in (*self.inputs, *self.outputs))

    @property
    def width(self) -> float:
        left, right = (
            max((_wide(_short(name), _PIN_TEXT) for name in names), default=0.0)
            for names in (self.inputs, self.outputs)
        )
        inside = left + right + 3 * _PAD if self.labelled else 0.0
        texts = [_wide(self.title, _TITLE), *(_wide(line, _PIN_TEXT) for line in self.lines)]
        return _grid(max(inside, max(texts) + 2 * _PAD, _ROW * 3))

    @property
    def height(self) -> float:
        rows = max(len(self.inputs), len(self.outputs)) if self.labelled else 0
        return _ROW * (1.5 + len(self.lines) * 0.75 + rows + (0.5 if rows else 0))

    def pin(self, out: bool, key: str) -> float:
        """How far below the top of the box a pin is."""
        nudge = self.nudged.get((out, key), 0.0)
        pins = list(self.outputs if out else self.inputs)
        if not self.labelled:
            return self.height / 2 + nudge + (8.0 if key == _WATCHED else 0.0)
        return _ROW * (1.5 + len(self.lines) * 0.75 + pins.index(key) + 0.5) + nudge


@dataclass(frozen=True, slots=True)
class _Link:
    source: int
    out: str
    target: int
    into: str
    kind: str
    tooltip: str
    loop: bool
    both: bool = False
    names: tuple[str, str] = ("", "")
    net: Net = (False, -1, "")


Net = tuple[bool, int, str]
"""Whether it is that of an input, the number of the node, the pin."""
_FAN_IN = 3


_ROW, _PAD = 16.0, 8.0
_TITLE, _PIN_TEXT = 12.0, 10.0
_LETTER = 0.62
"""How wide a letter is, in heights of the text: all fonts with equal letters have some 0.6."""


def _wide(text: str, size: float) -> float:
    return _LETTER * size * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _grid(length: float) -> float:
    return 8.0 * -(-length // 8.0)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


# ----------------------------------------------------------------------------------------------------
# Nodes and links of a scenario.


Places = Mapping[str, tuple[float, float]]
"""Where the upper left corners of boxes are, by their keys."""


def arrange(
    what: Scenario | Experiment,
    *,
    every_port: bool = False,
    places: Places | None = None,
    before: Diagram | None = None,
) -> Diagram:
    """The block diagram of a scenario or an experiment, which also knows at which rates its units go.

    With `every_port` also those ports are drawn that nothing is connected to, however many units there are.
    Boxes stay at the `places` that are given, if any are; others find one next to what they are connected to.
    Wires then go as they did `before`, unless an end has moved or a box is in the way.
    """
    check_type(what, (Scenario, Experiment), "what")
    scenario = what.scenario if isinstance(what, Experiment) else what
    detailed = every_port or _detail(scenario)
    made = _Parts(scenario, detailed, every_port)
    made.build(what if isinstance(what, Experiment) else None)
    if places:
        return _as_placed(made.nodes, list(made.links.values()), places, before, detailed)
    return _placed(made.nodes, list(made.links.values()), detailed)


def _used(scenario: Scenario) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The inputs and the outputs of every unit that something is connected to."""
    read: dict[End, None] = {}
    driven: dict[End, None] = {}
    for to, ends, _ in _connections(scenario):
        driven[to] = None
        read |= dict.fromkeys(ends)
    for own in scenario.outputs:
        read |= dict.fromkeys(own.sources)
    for sent in scenario.event_outputs:
        read |= dict.fromkeys(sender.source for sender in sent.senders)
    found: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for unit, model in scenario.units.items():
        for side, wanted in zip(found, (driven, read), strict=True):
            side[unit] = [port.name for port in model.ports if (unit, port.name) in wanted]
    return found


def _connections(scenario: Scenario) -> Iterator[tuple[End, tuple[End, ...], str]]:
    """Every connected input, where it comes from, and what was written."""
    for connection in scenario.connections:
        plain = len(connection.cells) == 1 and isinstance(connection.cells[0], Name)
        yield (connection.unit, connection.port), connection.sources, "" if plain else _text(connection.text)
    for link in scenario.event_connections:
        ends = tuple(dict.fromkeys(end for s in link.senders for end in (s.source, *s.reads)))
        yield (link.unit, link.port), ends, _text(link.text) if len(ends) > 1 else ""


def _text(written: Any) -> str:
    if isinstance(written, Mapping):
        return ", ".join(f"{key} {_text(value)}" for key, value in written.items())
    return ", ".join(map(_text, written)) if isinstance(written, (tuple, list)) else str(written)


def _detail(scenario: Scenario) -> bool:
    read = _used(scenario)
    most = max((len(names) for side in read for names in side.values()), default=0)
    return len(scenario.units) <= _DETAILED and most <= _PINS and len(scenario.outputs) <= _PINS


class _Parts:
    """Nodes and links, one after the other."""

    def __init__(self, scenario: Scenario, detailed: bool, every_port: bool) -> None:
        self.scenario, self.detailed, self.every_port = scenario, detailed, every_port
        self.nodes: list[_Node] = []
        self.links: dict[tuple[Any, ...], _Link] = {}
        self._place: dict[tuple[str, str], int] = {}  # by kind and name; "" for all of a kind
        self._loops = {
            (node.side, node.unit, node.port): number
            for number, loop in enumerate(scenario.graph.loops)
            for node in loop
        }

    def build(self, experiment: Experiment | None) -> None:
        self.add_units(experiment)
        self.add_own("input", self.scenario.inputs)
        self.add_own("output", [output.port for output in self.scenario.all_outputs])
        self.connect()
        self.watch()

    def add_units(self, experiment: Experiment | None) -> None:
        inside = {unit for _, unit, _ in self._loops}
        driven, read = _used(self.scenario)
        for name, model in self.scenario.units.items():
            node = _unit(name, model, experiment, name in inside)
            ports = {port.name: port for port in model.ports}
            if self.every_port:
                driven[name] = _with_others(model, Causality.INPUT, driven[name])
                read[name] = _with_others(model, Causality.OUTPUT, read[name])
            for side, pins, names in (("in", node.inputs, driven[name]), ("out", node.outputs, read[name])):
                for one in names if self.detailed else [""][: len(names)]:
                    known = (side, name, one) in self._loops
                    pins[one] = (_port(name, ports[one]) if one else "", known)
            node.through = [
                (into, port.name)
                for port in model.ports
                for into in sorted(port.depends)
                if into in node.inputs and port.name in node.outputs
                if self._one_loop((name, port.name), (name, into))
            ]
            self._add("unit", name, node)

    def add_own(self, kind: str, ports: Sequence[Port]) -> None:
        """The inputs or the outputs of the scenario itself."""
        if self.every_port or len(ports) <= (_PINS if self.detailed else 3):
            for port in ports:
                self._add(kind, port.name, _Node(port.name, kind, _short(port.name), (), _port("", port)))
        else:
            names = ", ".join(port.name for port in ports)
            self._add(kind, "", _Node(f"{kind}s", kind, f"{len(ports)} {kind}s", (), names))

    def connect(self) -> None:
        for to, ends, written in _connections(self.scenario):
            port, name = self.scenario.ports[".".join(to)], ".".join(to)
            measure = f" ({port.unit})" if port.unit else ""
            for end in ends:
                source = end[1] if end[0] == INPUTS else ".".join(end)
                tip = f"{source} → {name}{measure}" + (f", which is {written}" if written else "")
                kind = "event" if port.event else "signal"
                self._link(end, ("unit", to), kind, tip, (source, name), loop=self._one_loop(end, to))
        for own in self.scenario.outputs:
            self._deliver(own.port, own.sources, own.text)
        for sent in self.scenario.event_outputs:
            self._deliver(sent.port, [sender.source for sender in sent.senders], sent.text)

    def _deliver(self, port: Port, ends: Iterable[End], text: Any) -> None:
        for end in ends:
            kind = "event" if port.event else "signal"
            source = end[1] if end[0] == INPUTS else ".".join(end)
            tip = f"{port.name} is {_text(text)}"
            self._link(end, ("output", (port.name, "")), kind, tip, (source, port.name))

    def watch(self) -> None:
        """Events between units: dotted wires from the units that they are about."""
        events = self.scenario.events
        single = self.every_port or len(events) <= (_EVENTS if self.detailed else 3)
        if not single:
            names = ", ".join(event.name for event in events)
            self._add("event", "", _Node("events", "event", f"{len(events)} events", (), names))
        for event in events:
            changed = {change.unit for change in event.then}
            if single:
                when = f"{event.name}: when {_text(event.written.get('when', ''))}"
                then = "".join(f"\nthen {c.unit}.{c.name} is set" for c in event.then)
                self._add(
                    "event", event.name, _Node(event.name, "event", _short(event.name), (), when + then)
                )
            for unit in event.units:
                self.nodes[self._place["unit", unit]].outputs.setdefault(_WATCHED, ("", False))
                tip = f"{event.name} {'changes' if unit in changed else 'reads'} {unit}"
                to = ("event", (event.name, ""))
                self._link((unit, _WATCHED), to, "watch", tip, (unit, event.name), both=unit in changed)

    def _add(self, kind: str, name: str, node: _Node) -> None:
        if kind == "input":
            node.outputs[""] = ("", False)
        elif kind != "unit":
            node.inputs[""] = ("", False)
        self._place[kind, name] = len(self.nodes)
        self.nodes.append(node)

    def _at(self, kind: str, name: str) -> int:
        return self._place[kind, name] if (kind, name) in self._place else self._place[kind, ""]

    def _one_loop(self, out: End, into: End) -> bool:
        """Whether an output and an input belong to the same algebraic loop."""
        return self._loops.get(("out", *out), -1) == self._loops.get(("in", *into), -2)

    def _link(
        self,
        source: End,
        target: tuple[str, End],
        kind: str,
        tip: str,
        names: tuple[str, str],
        *,
        loop: bool = False,
        both: bool = False,
    ) -> None:
        """Another wire, or one more connection in a wire that is there."""
        own = source[0] == INPUTS
        begin = self._at("input", source[1]) if own else self._at("unit", source[0])
        out = "" if own or not (self.detailed or kind == "watch") else source[1]
        end, into = self._at(target[0], target[1][0]), target[1][1] if self.detailed else ""
        key = (begin, out, end, into, kind)
        if key in self.links:
            before = self.links[key]
            tip, loop, both = f"{before.tooltip}\n{tip}", loop or before.loop, both or before.both
        self.links[key] = _Link(begin, out, end, into, kind, tip, loop, both, names)


def _with_others(model: Model, side: Causality, used: Sequence[str]) -> list[str]:
    """The ports on one side, in the order of the model; of very many those in `used`, and some others."""
    names = [port.name for port in model.ports if port.causality is side and not port.internal]
    free = [name for name in names if name not in used][: max(_PINS - len(used), 0)]
    return [name for name in names if name in used or name in free]


def _unit(name: str, model: Model, experiment: Experiment | None, loop: bool) -> _Node:
    inner = bare(model)
    kind, nested = kind_name(inner), nested_of(inner)
    rate = _rate(name, inner, experiment)
    solver = solver_of(model)
    facts = [f"{name}: {kind}"]
    if solver is not None:
        spec = solver_spec(solver)
        facts.append(f"solver {spec if isinstance(spec, str) else spec.get('kind', '')}")
    if nested is not None:
        facts.append(f"inside: {', '.join(nested.scenario.units)}")
    for side in (Causality.INPUT, Causality.OUTPUT):
        names = [_measured(p) for p in model.ports if p.causality is side and not p.internal]
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        facts.append(f"{side.value}s: {shown or 'none'}")
    if Ability.ROLLBACK not in model.abilities:
        facts.append("no rollback")
    lines = (kind, rate) if rate else (kind,)
    shape = "unit" if nested is None else "nested"
    return _Node(name, shape, _short(name), tuple(map(_short, lines)), "\n".join(facts), loop=loop)


def _rate(name: str, model: Model, experiment: Experiment | None) -> str:
    """How often a unit does something, if that is not as often as all others."""
    coupling = None if experiment is None else experiment.master.coupled
    if (often := getattr(coupling, "rates", {}).get(name, 1)) > 1:
        step = None if experiment is None else equal_steps(experiment.master.pace)
        return f"step {step / often:.4g} s" if step else f"{often} × as often"
    if (nested := nested_of(model)) is not None:
        step = nominal_step(nested.master.pace)
        return f"inner step {step:.4g} s" if step else ""
    period = getattr(model, "sample_time", None)
    for port in model.ports:
        if (
            port.causality is Causality.PARAMETER
            and port.name == "every"
            and Ability.NEXT_EVENT in model.abilities
        ):
            period = port.initial[0]
    return f"every {period:.4g} s" if isinstance(period, float) else ""


def _measured(port: Port) -> str:
    return port.name + (f"[{port.size}]" if port.size else "") + (f" ({port.unit})" if port.unit else "")


def _port(unit: str, port: Port) -> str:
    name = f"{unit}.{port.name}" if unit else port.name
    kind = "enumeration" if port.items else port.kind.value
    parts = [f"{name}: {port.causality.value}", f"{kind} event" if port.event else kind]
    if port.size:
        parts.append(f"{port.size} cells")
    return ", ".join([*parts, f"in {port.unit}" if port.unit else "no unit of measure"])


# ----------------------------------------------------------------------------------------------------
# Places. Columns in the direction of the signals; where there are many, several bands of them, like lines
# of a text. A wire to the next column turns in the channel between the two; one that goes farther runs in a
# lane above its band, and one that goes back (feedback) in a lane below it. Wires of one *net* share their
# way: those from one output, or those to an input that is a formula of many outputs.

_WIDEST = 1250.0
_TRACK, _LANE = 8.0, 12.0
_CHANNEL = 34.0
_MARGIN = 12.0
_BETWEEN = 18.0
_NUDGE = 5.0


def _placed(nodes: list[_Node], links: Sequence[_Link], detailed: bool) -> Diagram:
    if not nodes:
        return Diagram(2 * _MARGIN, 2 * _MARGIN, (), (), detailed)
    _columns(nodes, links)
    links = _nets(links)
    columns = 1 + max(node.column for node in nodes)
    _order(nodes, links, columns)
    routes = [_route(nodes, link) for link in links]
    lanes = _lanes(links, routes)
    _heights(nodes, links, lanes)
    _apart(nodes, links, routes)
    tracks = _tracks(nodes, links, routes, lanes, columns)
    widths = [max((n.width for n in nodes if n.column == c), default=0.0) for c in range(columns)]
    room = [
        _CHANNEL + _TRACK * (1 + max((t for (c, _), t in tracks.items() if c == channel), default=-1))
        for channel in range(-1, columns)
    ]
    for side in (0, -1):  # nothing leaves the picture there, unless something turns round
        if not any(c == (-1 if side == 0 else columns - 1) for c, _ in tracks):
            room[side] = _MARGIN
    starts = [sum(room[: c + 1]) + sum(widths[:c]) for c in range(columns)]
    for node in nodes:
        node.x = starts[node.column] + (widths[node.column] - node.width) / 2

    def at(channel: int, net: Net) -> float:
        left = 0.0 if channel < 0 else starts[channel] + widths[channel]
        return left + _CHANNEL / 2 + _TRACK * tracks.get((channel, net), 0)

    wires = tuple(_wire(nodes, link, route, lanes, at) for link, route in zip(links, routes, strict=True))
    bottoms = [node.y + node.height for node in nodes] + [y for wire in wires for _, y in wire.points]
    height = max(bottoms) + _MARGIN
    return Diagram(sum(room) + sum(widths), height, tuple(map(_box, nodes)), wires, detailed)


def _nets(links: Sequence[_Link]) -> list[_Link]:
    """The links with the nets that they belong to."""
    fan_in = Counter((link.target, link.into) for link in links if link.kind != "watch")
    fan_out = Counter((link.source, link.out) for link in links)
    found = []
    for link in links:
        into, out = (link.target, link.into), (link.source, link.out)
        joined = fan_in[into] > max(_FAN_IN, fan_out[out])
        found.append(replace(link, net=(True, *into) if joined else (False, *out)))
    return found


def _columns(nodes: list[_Node], links: Sequence[_Link]) -> None:
    """A layer for every node, one after those it gets something from; and layers to columns and bands."""
    count = len(nodes)
    forth: list[dict[int, int]] = [{} for _ in nodes]
    for link in links:
        if link.source != link.target:
            forth[link.source][link.target] = forth[link.source].get(link.target, 0) + 1
    order = _sequence(nodes, forth)
    rank = {node: k for k, node in enumerate(order)}
    layer = [0] * count
    for node in order:
        for other in forth[node]:
            if rank[other] > rank[node]:
                layer[other] = max(layer[other], layer[node] + 1)
    for node in reversed(order):  # what needs nothing stands next to the first that needs it
        later = [layer[other] for other in forth[node] if rank[other] > rank[node]]
        first = not any(node in forth[other] for other in order[: rank[node]])
        if later and first:
            layer[node] = min(later) - 1
    layers = 1 + max(layer)
    typical = sorted(node.width for node in nodes)[count // 2] + _CHANNEL + 2 * _TRACK
    most = max(2, int(_WIDEST // typical))
    bands = -(-layers // most)
    each = -(-layers // bands)
    for box, place in zip(nodes, layer, strict=True):
        box.band, box.column = divmod(place, each)


def _sequence(nodes: Sequence[_Node], forth: Sequence[Mapping[int, int]]) -> list[int]:
    """An order in which few links go back (after Eades, Lin and Smyth); ties as they were declared."""
    back: list[dict[int, int]] = [{} for _ in nodes]
    for node, others in enumerate(forth):
        for other, weight in others.items():
            back[other][node] = weight
    gives = [sum(others.values()) for others in forth]
    takes = [sum(others.values()) for others in back]
    left, first, last = dict.fromkeys(range(len(nodes))), list[int](), list[int]()

    def remove(node: int) -> None:
        del left[node]
        for other, weight in forth[node].items():
            takes[other] -= weight
        for other, weight in back[node].items():
            gives[other] -= weight

    while left:
        if sinks := [node for node in left if gives[node] == 0 and takes[node] > 0]:
            last.append(sinks[-1])
            remove(sinks[-1])
        elif sources := [node for node in left if takes[node] == 0]:
            first.append(sources[0])
            remove(sources[0])
        else:
            best = max(left, key=lambda node: (gives[node] - takes[node], -node))
            first.append(best)
            remove(best)
    return first + last[::-1]


def _order(nodes: list[_Node], links: Sequence[_Link], columns: int) -> None:
    """Sorts each column so that few wires cross: again and again by the mean place of the neighbours."""
    place = {k: float(k) for k in range(len(nodes))}
    near: list[list[int]] = [[] for _ in nodes]
    for link in links:
        if nodes[link.source].column != nodes[link.target].column:
            near[link.source].append(link.target)
            near[link.target].append(link.source)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, node in enumerate(nodes):
        groups.setdefault((node.band, node.column), []).append(k)
    for sweep in range(8):
        for key in sorted(groups, reverse=bool(sweep % 2)):
            members = groups[key]
            if sweep:
                members.sort(
                    key=lambda k: sum(place[o] for o in near[k]) / len(near[k]) if near[k] else place[k]
                )
            for rank, k in enumerate(members):
                place[k] = (rank + 0.5) / len(members)
    for members in groups.values():
        for rank, k in enumerate(members):
            nodes[k].y = float(rank)


def _route(nodes: Sequence[_Node], link: _Link) -> tuple[int, int, int | None]:
    """The channels in which a wire begins and ends, and its lane: twice its band, plus 1 if it is below."""
    source, target = nodes[link.source], nodes[link.target]
    begin, end = source.column, target.column - 1
    if begin == end:
        return begin, end, None
    if source.band == target.band:
        return begin, end, 2 * source.band + (end < begin)
    return begin, end, 2 * min(source.band, target.band) + 1


def _lanes(
    links: Sequence[_Link], routes: Sequence[tuple[int, int, int | None]]
) -> dict[tuple[int, Net], int]:
    """For each net that uses a block of lanes, which lane: those that overlap do not share one."""
    spans: dict[int, dict[Net, tuple[int, int]]] = {}
    for link, (begin, end, lane) in zip(links, routes, strict=True):
        if lane is not None:
            net = link.net
            low, high = spans.setdefault(lane, {}).get(net, (begin, begin))
            spans[lane][net] = min(low, begin, end), max(high, begin, end)
    found: dict[tuple[int, Net], int] = {}
    for lane, nets in spans.items():
        free: list[int] = []  # where each lane of the block ends
        for net, (low, high) in sorted(nets.items(), key=lambda item: (item[1][1] - item[1][0], item[1])):
            # The shortest come first, so that they are the nearest ones to the boxes.
            taken = [
                other for other, span in nets.items() if (lane, other) in found and _meet(span, (low, high))
            ]
            used = {found[lane, other] for other in taken}
            found[lane, net] = next(k for k in range(len(free) + 1) if k not in used)
            if found[lane, net] == len(free):
                free.append(high)
    return found


def _meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _heights(nodes: list[_Node], links: Sequence[_Link], lanes: dict[tuple[int, Net], int]) -> None:
    """The height of everything: bands below each other, with their lanes; lanes become heights, too."""
    top = _MARGIN
    groups: dict[tuple[int, int], list[_Node]] = {}
    for node in nodes:
        groups.setdefault((node.band, node.column), []).append(node)
    for band in range(1 + max(node.band for node in nodes)):
        above = [key for key in lanes if key[0] == 2 * band]
        count = 1 + max((lanes[key] for key in above), default=-1)
        for key in above:
            lanes[key] = round(top + _LANE * (count - 1 - lanes[key]) + _LANE / 2)
        top = _grid(top + _LANE * count + (_LANE if count else 0))
        columns = [sorted(group, key=lambda n: n.y) for (b, _), group in sorted(groups.items()) if b == band]
        _stack(nodes, links, columns, top)
        top = max(node.y + node.height for group in columns for node in group) + _LANE / 2
        below = [key for key in lanes if key[0] == 2 * band + 1]
        for key in below:
            lanes[key] = round(top + _LANE * lanes[key] + _LANE / 2)
        top = max([top, *(lanes[key] for key in below)]) + 1.5 * _LANE


def _stack(
    nodes: Sequence[_Node], links: Sequence[_Link], columns: Sequence[Sequence[_Node]], top: float
) -> None:
    """Heights within a band: near what a node is connected to, in the order of its column, apart."""
    for group in columns:
        at = 0.0
        for node in group:
            node.y, at = at, at + node.height + _BETWEEN
    mine = {id(node): k for k, node in enumerate(nodes)}
    wires: dict[int, list[tuple[_Node, float]]] = {}
    for link in links:
        one, other = nodes[link.source], nodes[link.target]
        if one.band == other.band and abs(one.column - other.column) == 1:
            shift = one.pin(True, link.out) - other.pin(False, link.into)
            wires.setdefault(link.source, []).append((other, -shift))
            wires.setdefault(link.target, []).append((one, shift))
    for sweep in range(6):
        for group in columns if sweep % 2 == 0 else columns[::-1]:
            wanted = []
            for node in group:
                near = wires.get(mine[id(node)], [])
                wanted.append(sum(other.y + shift for other, shift in near) / len(near) if near else node.y)
            for node, y in zip(group, _isotonic(wanted, [n.height + _BETWEEN for n in group]), strict=True):
                node.y = y
    least = min(node.y for group in columns for node in group)
    for group in columns:
        end = 0.0
        for node in group:
            node.y = max(_grid(top + node.y - least - 4.0), end)
            end = _grid(node.y + node.height + _BETWEEN)


def _isotonic(wanted: Sequence[float], rooms: Sequence[float]) -> list[float]:
    """Places nearest to the `wanted` ones (least squares), in order, each with its room before the next."""
    offsets = [sum(rooms[:k]) for k in range(len(rooms))]
    pools: list[tuple[float, int]] = []  # mean and number
    for want, offset in zip(wanted, offsets, strict=True):
        pools.append((want - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    means = [mean for mean, number in pools for _ in range(number)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _ends(nodes: Sequence[_Node], link: _Link) -> tuple[float, float]:
    source, target = nodes[link.source], nodes[link.target]
    return source.y + source.pin(True, link.out), target.y + target.pin(False, link.into)


def _apart(
    nodes: Sequence[_Node], links: Sequence[_Link], routes: Sequence[tuple[int, int, int | None]]
) -> None:
    """Moves pins a little where one faces a pin of another wire: the two would look connected."""
    for _ in range(3):
        begins: dict[tuple[int, float], set[Net]] = {}
        for link, (begin, _, _) in zip(links, routes, strict=True):
            begins.setdefault((begin, _ends(nodes, link)[0]), set()).add(link.net)
        moved = False
        for link, (_, end, _) in zip(links, routes, strict=True):
            if begins.get((end, _ends(nodes, link)[1]), set()) - {link.net}:
                nudged = nodes[link.target].nudged
                nudged[False, link.into] = _NUDGE if nudged.get((False, link.into), 0.0) <= 0 else -_NUDGE
                moved = True
        if not moved:
            return


def _tracks(
    nodes: Sequence[_Node],
    links: Sequence[_Link],
    routes: Sequence[tuple[int, int, int | None]],
    lanes: Mapping[tuple[int, Net], float],
    columns: int,
) -> dict[tuple[int, Net], int]:
    """For each net in a channel, which of its vertical tracks: those that overlap do not share one."""
    spans: dict[int, dict[Net, list[float]]] = {}
    for link, (begin, end, lane) in zip(links, routes, strict=True):
        net = link.net
        y0, y1 = _ends(nodes, link)
        if lane is None:
            spans.setdefault(begin, {}).setdefault(net, []).extend([y0, y1])
        else:
            height = lanes[lane, net]
            spans.setdefault(begin, {}).setdefault(net, []).extend([y0, height])
            spans.setdefault(end, {}).setdefault(net, []).extend([height, y1])
    found: dict[tuple[int, Net], int] = {}
    for channel, nets in spans.items():
        taken: list[list[tuple[float, float]]] = []
        for net, heights in sorted(nets.items(), key=lambda item: _turning(item[1])):
            span = min(heights) - _LANE / 2, max(heights) + _LANE / 2
            track = next(
                (k for k, spans in enumerate(taken) if not any(_meet(span, s) for s in spans)), len(taken)
            )
            if track == len(taken):
                taken.append([])
            taken[track].append(span)
            found[channel, net] = track
    return found


def _turning(heights: Sequence[float]) -> tuple[bool, float]:
    """Wires that go down turn the later the higher they begin, those that go up the other way round."""
    down = sum(heights) / len(heights) > heights[0]
    return down, -heights[0] if down else heights[0]


def _wire(
    nodes: Sequence[_Node],
    link: _Link,
    route: tuple[int, int, int | None],
    lanes: Mapping[tuple[int, Net], float],
    at: Any,
) -> Wire:
    source, target, net = nodes[link.source], nodes[link.target], link.net
    y0, y1 = _ends(nodes, link)
    begin, end, lane = route
    first, last = (source.x + source.width, y0), (target.x, y1)
    x0, x1 = at(begin, net), at(end, net)
    middle: list[tuple[float, float]] = [(x0, y0), (x0, y1)]
    if lane is not None:
        height = lanes[lane, net]
        middle = [(x0, y0), (x0, height), (x1, height), (x1, y1)]
    points = [first, *middle, last]
    kept = [p for k, p in enumerate(points) if k == 0 or p != points[k - 1]]
    return Wire(*link.names, link.kind, tuple(kept), link.tooltip, link.loop, link.both)


# ----------------------------------------------------------------------------------------------------
# Places that a user has chosen. Boxes are where they were put, so that there are no columns and channels:
# each wire takes the best of some ways with two or four turns, clear of boxes and of the wires before it.

_STUB = 14.0
"""How far a wire goes on from its pin before it turns."""
_CLEAR = 5.0
"""How near a wire comes to a box, or runs next to another wire."""
_BEND, _OVER, _THROUGH = 10.0, 150.0, 1500.0
"""What a turn costs, running along another wire, and running through a box, in pixels of way."""
_LANES_TRIED, _TRACKS_TRIED, _TURNS_TRIED = 12, 14, 3

_NOBODY = -1.0
"""A net that no wire runs along."""

Numbers = NDArray[np.float64]


def _as_placed(
    nodes: list[_Node], links: Sequence[_Link], places: Places, before: Diagram | None, detailed: bool
) -> Diagram:
    """The diagram with boxes at given places."""
    if not nodes:
        return _placed(nodes, links, detailed)
    done: list[_Node] = []
    for node in nodes:
        if (at := places.get(_box_key(node.kind, node.name))) is not None:
            node.x, node.y = float(at[0]), float(at[1])
            done.append(node)
    for number, node in enumerate(nodes):
        if _box_key(node.kind, node.name) not in places:
            _find_place(node, _neighbours(nodes, links, number, done), done)
            done.append(node)
    wires = _routed(nodes, _nets(links), before.wires if before is not None else ())
    right = max(node.x + node.width for node in nodes)
    bottom = max(node.y + node.height for node in nodes)
    points = [point for wire in wires for point in wire.points]
    width = max([right, *(x for x, _ in points)]) + _MARGIN
    height = max([bottom, *(y for _, y in points)]) + _MARGIN
    return Diagram(width, height, tuple(map(_box, nodes)), wires, detailed)


def _neighbours(
    nodes: Sequence[_Node], links: Sequence[_Link], number: int, done: Sequence[_Node]
) -> tuple[list[_Node], list[_Node]]:
    """What a node gets something from and gives something to, as far as that has a place."""
    placed = {id(node) for node in done}
    back = [nodes[link.source] for link in links if link.target == number]
    forth = [nodes[link.target] for link in links if link.source == number]
    return [n for n in back if id(n) in placed], [n for n in forth if id(n) in placed]


def _find_place(node: _Node, near: tuple[list[_Node], list[_Node]], done: Sequence[_Node]) -> None:
    """Right of what it needs, left of what needs it, or below all; from there to the nearest free place."""
    back, forth = near
    if back:
        node.x = max(other.x + other.width for other in back) + 2 * _CHANNEL
    elif forth:
        node.x = min(other.x for other in forth) - node.width - 2 * _CHANNEL
    else:
        node.x = min((other.x for other in done), default=_MARGIN)
    beside = back or forth
    if beside:
        node.y = sum(other.y + other.height / 2 for other in beside) / len(beside) - node.height / 2
    else:
        node.y = max((other.y + other.height for other in done), default=0.0) + 2 * _BETWEEN
    node.x, first = _grid(node.x), _grid(node.y)
    for k in range(4 * len(done) + 60):  # up and down by turns, a little farther each time
        node.y = first + (k + 1) // 2 * 3 * 8.0 * (1 if k % 2 else -1)
        if not any(_too_near(node, other) for other in done):
            return
    node.y = max(other.y + other.height for other in done) + 2 * _BETWEEN


def _too_near(one: _Node, other: _Node) -> bool:
    return (
        one.x < other.x + other.width + _BETWEEN
        and other.x < one.x + one.width + _BETWEEN
        and one.y < other.y + other.height + _BETWEEN
        and other.y < one.y + one.height + _BETWEEN
    )


def _routed(nodes: Sequence[_Node], links: Sequence[_Link], before: Iterable[Wire]) -> tuple[Wire, ...]:
    """All wires: those that can stay as they were, then the short ones, which have the least choice."""
    router = _Router(nodes)
    known = {(wire.source, wire.target, wire.kind): wire.points for wire in before}
    ends = [
        ((nodes[link.source].x + nodes[link.source].width, y0), (nodes[link.target].x, y1))
        for link in links
        for y0, y1 in [_ends(nodes, link)]
    ]
    nets = {net: float(k) for k, net in enumerate(dict.fromkeys(link.net for link in links))}
    length = [abs(b[0] - a[0]) + abs(b[1] - a[1]) + (a[0] > b[0]) * 1e4 for a, b in ends]
    ways: dict[int, tuple[tuple[float, float], ...]] = {}
    for k, link in enumerate(links):
        a, b = ends[k]
        router.take([a, (a[0] + _STUB, a[1])], nets[link.net])
        router.take([(b[0] - _STUB, b[1]), b], nets[link.net])
        way = known.get((*link.names, link.kind), ())
        if way and (way[0], way[-1]) == ends[k] and router.clear(way, link.source, link.target):
            ways[k] = way
            router.take(way, nets[link.net])
    for k in sorted(range(len(links)), key=lambda k: length[k]):
        if k not in ways:
            ways[k] = router.way(*ends[k], nets[links[k].net], links[k].source, links[k].target)
            router.take(ways[k], nets[links[k].net])
    return tuple(
        Wire(*link.names, link.kind, ways[k], link.tooltip, link.loop, link.both)
        for k, link in enumerate(links)
    )


class _Router:
    """Boxes, and the wires so far as segments: each (x0, y0, x1, y1), with the net that it belongs to."""

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self._boxes = np.array([(n.x, n.y, n.x + n.width, n.y + n.height) for n in nodes])
        self._taken = np.empty((64, 5))
        self._count = 0

    def way(
        self, a: tuple[float, float], b: tuple[float, float], net: float, source: int, target: int
    ) -> tuple[tuple[float, float], ...]:
        """The best way from `a` to `b`: with two turns if there is a clear one, else with up to four."""
        ends = (source, target)
        best, cost = self._two_turns(a, b, net, ends)
        if cost >= _OVER:
            other, more = self._four_turns(a, b, net, ends)
            best = other if more < cost else best
        return tuple(p for k, p in enumerate(best) if k == 0 or p != best[k - 1])

    def clear(self, way: Sequence[tuple[float, float]], source: int, target: int) -> bool:
        """Whether no box is in the way."""
        last = len(way) - 2
        for k, ((x0, y0), (x1, y1)) in enumerate(pairwise(way)):
            end = source if k == 0 else target if k == last else None
            if self._cost(x0, y0, x1, y1, _NOBODY, end) >= _THROUGH:
                return False
        return True

    def _two_turns(
        self, a: tuple[float, float], b: tuple[float, float], net: float, ends: tuple[int, int]
    ) -> tuple[list[tuple[float, float]], float]:
        """Out, to the height of the other end, and in; with what it costs beyond its length and turns."""
        room = b[0] - a[0] - 2 * _STUB
        if room < 0:
            return [a, b], math.inf
        xs = a[0] + _STUB + np.linspace(0.0, room, min(_TRACKS_TRIED, 1 + int(room // _TRACK)))
        cost = (
            self._cost(a[0], a[1], xs, a[1], net, ends[0])
            + self._cost(xs, a[1], xs, b[1], net)
            + self._cost(xs, b[1], b[0], b[1], net, ends[1])
        )
        k = int(np.argmin(cost))
        x = float(xs[k])
        return [a, (x, a[1]), (x, b[1]), b], float(cost[k])

    def _four_turns(
        self, a: tuple[float, float], b: tuple[float, float], net: float, ends: tuple[int, int]
    ) -> tuple[list[tuple[float, float]], float]:
        """Out, to a lane above or below boxes, along it, and to the other end."""
        steps = _STUB + _TRACK * np.arange(_TURNS_TRIED)
        xa, xb, ys = a[0] + steps, b[0] - steps, self._lanes(a, b)
        first = self._cost(a[0], a[1], xa, a[1], net, ends[0])[:, None, None]
        down = self._cost(xa[:, None], a[1], xa[:, None], ys, net)[:, None, :]
        along = self._cost(xa[:, None, None], ys, xb[:, None], ys, net)
        up = self._cost(xb[:, None], ys, xb[:, None], b[1], net)[None, :, :]
        last = self._cost(xb, b[1], b[0], b[1], net, ends[1])[None, :, None]
        extra = first + down + along + up + last
        length = (
            np.abs(ys - a[1]) + np.abs(ys - b[1]) + np.abs(xa[:, None, None] - xb[:, None])
            + steps[:, None, None] + steps[:, None]
        )  # fmt: skip
        i, j, k = (int(n) for n in np.unravel_index(np.argmin(extra + length), extra.shape))
        y = float(ys[k])
        return [a, (xa[i], a[1]), (xa[i], y), (xb[j], y), (xb[j], b[1]), b], float(extra[i, j, k]) + 2 * _BEND

    def _lanes(self, a: tuple[float, float], b: tuple[float, float]) -> Numbers:
        """Heights just above and below boxes on the way, the nearest ones; and beyond all of them."""
        left, right = min(a[0], b[0]) - 4 * _STUB, max(a[0], b[0]) + 4 * _STUB
        near = self._boxes[(self._boxes[:, 0] < right) & (self._boxes[:, 2] > left)]
        above, below = near[:, 1] - 2 * _CLEAR, near[:, 3] + 2 * _CLEAR
        lanes = np.concatenate(
            [above, above - _TRACK, above - 2 * _TRACK, below, below + _TRACK, below + 2 * _TRACK]
        )
        lanes = np.unique(np.round(lanes))
        low, high = min(a[1], b[1]), max(a[1], b[1])
        away = np.abs(np.maximum(0.0, np.maximum(low - lanes, lanes - high)))
        chosen = lanes[np.argsort(away, kind="stable")[:_LANES_TRIED]]
        return np.concatenate([chosen, lanes[:3], lanes[-3:]])

    def _cost(self, x0: Any, y0: Any, x1: Any, y1: Any, net: float, end: int | None = None) -> Numbers:
        """What segments, all horizontal or all vertical, cost beyond their lengths: for boxes that they come
        too near to (but for their own `end`), and for wires of other nets that they run along."""
        x0, y0, x1, y1 = np.broadcast_arrays(x0, y0, x1, y1)
        shape, along = x0.shape, 1 if bool((x0 == x1).all()) and bool((y0 != y1).any()) else 0
        first, last, at = (y0, y1, x0) if along else (x0, x1, y0)
        low, high, at = (
            np.minimum(first, last).reshape(-1, 1),
            np.maximum(first, last).reshape(-1, 1),
            at.reshape(-1, 1),
        )
        boxes = self._boxes if end is None else np.delete(self._boxes, end, axis=0)
        boxes = self._around(boxes, low, high, at, along)
        hit = (low - _CLEAR < boxes[:, 2 + along]) & (high + _CLEAR > boxes[:, along])
        hit &= (at - _CLEAR < boxes[:, 3 - along]) & (at + _CLEAR > boxes[:, 1 - along])
        cost = _THROUGH * hit.sum(axis=1)
        if net != _NOBODY:
            wires = self._taken[: self._count]
            wires = wires[(wires[:, 1 - along] == wires[:, 3 - along]) & (wires[:, 4] != net)]
            wires = self._around(wires, low, high, at, along)
            beside = (low < wires[:, 2 + along] - 1.0) & (high > wires[:, along] + 1.0)
            beside &= np.abs(at - wires[:, 1 - along]) < _CLEAR
            cost = cost + _OVER * beside.sum(axis=1)
        result: Numbers = np.asarray(cost, dtype=np.float64).reshape(shape)
        return result

    @staticmethod
    def _around(those: Numbers, low: Numbers, high: Numbers, at: Numbers, along: int) -> Numbers:
        """Those boxes or wires that any of the segments may come near to."""
        near = (those[:, along] < high.max() + _CLEAR) & (those[:, 2 + along] > low.min() - _CLEAR)
        near &= (those[:, 1 - along] < at.max() + _CLEAR) & (those[:, 3 - along] > at.min() - _CLEAR)
        found: Numbers = those[near]
        return found

    def take(self, way: Sequence[tuple[float, float]], net: float) -> None:
        """From now on other wires do not run along this one."""
        for (x0, y0), (x1, y1) in pairwise(way):
            if self._count == len(self._taken):
                self._taken = np.concatenate([self._taken, np.empty_like(self._taken)])
            self._taken[self._count] = min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1), net
            self._count += 1


def _box(node: _Node) -> Box:
    def pins(out: bool) -> tuple[Pin, ...]:
        given = node.outputs if out else node.inputs
        return tuple(
            Pin(name, node.y + node.pin(out, name), tip, loop) for name, (tip, loop) in given.items()
        )

    through = tuple((node.y + node.pin(False, i), node.y + node.pin(True, o)) for i, o in node.through)
    return Box(
        node.name, node.kind, node.x, node.y, node.width, node.height, node.title, node.lines, pins(False),
        pins(True), node.tooltip, node.loop, through,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# The drawing. No style sheet: on a page with several pictures they would get at each other.

_INK, _QUIET, _LINE = "#222222", "#666666", "#5b6b7a"
_LOOP, _EVENT, _WATCH = "#D55E00", "#0072B2", "#7B3FA0"
_FILL = {"unit": "#f4f7fa", "nested": "#eef3ee", "input": "#ffffff", "output": "#ffffff", "event": "#f7f1fb"}
_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(diagram: Diagram, *, title: str = "") -> str:
    """The diagram as an SVG element that stands for itself: in a file, or in the middle of a page."""
    legend, widest, height = _legend(diagram)
    wide, high = max(diagram.width, widest, 120.0), diagram.height + height
    body: list[str] = []
    body += [_drawn_wire(wire) for wire in sorted(diagram.wires, key=lambda w: (w.loop, w.kind != "watch"))]
    body += [piece for box in diagram.boxes for piece in _drawn_box(box)]
    arrows = "".join(
        f'<marker id="upbeat-{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" '
        f'markerHeight="8" markerUnits="userSpaceOnUse" '
        f'orient="auto-start-reverse"><path d="M0,0.5 L8,4 L0,7.5 z" fill="{colour}"/></marker>'
        for name, colour in (("line", _LINE), ("loop", _LOOP), ("event", _EVENT), ("watch", _WATCH))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" '
        f'height="{high:g}" style="max-width:100%;height:auto" font-family="{_FONT}" role="img">'
        f"<title>{escape(title or str(diagram))}</title><defs>{arrows}</defs>"
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(body)}{legend}</svg>'
    )


def _colour(wire: Wire) -> tuple[str, str]:
    name = "loop" if wire.loop else {"signal": "line", "event": "event", "watch": "watch"}[wire.kind]
    return name, {"line": _LINE, "loop": _LOOP, "event": _EVENT, "watch": _WATCH}[name]


def _drawn_wire(wire: Wire) -> str:
    name, colour = _colour(wire)
    path = "M" + " L".join(f"{x:g},{y:g}" for x, y in _rounded(wire.points))
    dashes = {"signal": "", "event": ' stroke-dasharray="6 3"', "watch": ' stroke-dasharray="2 3"'}[wire.kind]
    ends = f' marker-end="url(#upbeat-{name})"'
    if wire.kind == "watch":
        ends = f' marker-start="url(#upbeat-{name})"' if wire.both else ""
    width = 2 if wire.loop else 1.3
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"'
        f"{dashes}{ends}><title>{escape(wire.tooltip)}</title></path>"
    )


def _rounded(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without points that lie between their neighbours."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if len(kept) > 1 and (
            kept[-2][0] == kept[-1][0] == point[0] or kept[-2][1] == kept[-1][1] == point[1]
        ):
            kept[-1] = point
        else:
            kept.append(point)
    return kept


def _drawn_box(box: Box) -> Iterator[str]:
    edge = _LOOP if box.loop else _WATCH if box.kind == "event" else _LINE
    round_ = {"unit": 4.0, "nested": 4.0}.get(box.kind, box.height / 2)
    yield f"<g><title>{escape(box.tooltip)}</title>"
    yield (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="{round_:g}" '
        f'fill="{_FILL[box.kind]}" stroke="{edge}" stroke-width="1.4"/>'
    )
    if box.kind == "nested":
        yield (
            f'<rect x="{box.x + 3:g}" y="{box.y + 3:g}" width="{box.width - 6:g}" '
            f'height="{box.height - 6:g}" rx="3" fill="none" stroke="{edge}" stroke-width="0.7"/>'
        )
    unit = box.kind in ("unit", "nested")
    yield _written(
        box.title, box.x + box.width / 2, box.y + (16.0 if unit else 16.5), _TITLE, _INK, bold=unit
    )
    for number, line in enumerate(box.lines):
        colour = _QUIET if number == 0 else _EVENT
        yield _written(line, box.x + box.width / 2, box.y + 29.0 + 12.0 * number, _PIN_TEXT, colour)
    for y0, y1 in box.through:
        left, right = box.x + 2, box.x + box.width - 2
        yield (
            f'<path d="M{left:g},{y0:g} L{right:g},{y1:g}" stroke="{_LOOP}" stroke-width="1" fill="none" '
            'stroke-dasharray="3 3" opacity="0.6"/>'
        )
    for pins, x, anchor in ((box.inputs, box.x + 6, "start"), (box.outputs, box.x + box.width - 6, "end")):
        for pin in pins:
            if pin.name.strip() and unit:
                text = _written(
                    _short(pin.name), x, pin.y + 3.5, _PIN_TEXT, _LOOP if pin.loop else _INK, anchor
                )
                yield text.replace("</text>", f"<title>{escape(pin.tooltip)}</title></text>")
    yield "</g>"


def _written(
    text: str, x: float, y: float, size: float, colour: str, anchor: str = "middle", *, bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )


def _legend(diagram: Diagram) -> tuple[str, float, float]:
    """What the colours mean, for those that occur; and how wide and high that is."""
    entries = []
    if any(wire.loop for wire in diagram.wires):
        entries.append(("algebraic loop", _LOOP, ""))
    if any(wire.kind == "event" for wire in diagram.wires):
        entries.append(("event", _EVENT, "6 3"))
    if any(wire.kind == "watch" for wire in diagram.wires):
        entries.append(("event between units (arrow: it changes the unit)", _WATCH, "2 3"))
    pieces, x, y, widest = [], _MARGIN, diagram.height + 10.0, 0.0
    for text, colour, dashes in entries:
        wide = 30 + _wide(text, _PIN_TEXT) + 16
        if x > _MARGIN and x + wide > diagram.width:
            x, y = _MARGIN, y + _ROW
        pieces.append(
            f'<path d="M{x:g},{y - 3:g} h24" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
            + _written(text, x + 30, y, _PIN_TEXT, _QUIET, "start")
        )
        x += wide
        widest = max(widest, x)
    return "".join(pieces), widest, (y - diagram.height + 10.0) if pieces else 0.0
