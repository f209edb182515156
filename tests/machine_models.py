"""Random state machines as plain descriptions, and an interpreter that follows such a description.

The interpreter knows nothing of modes or compiled expressions: it keeps a path in a tree of dictionaries,
and evaluates texts as Python.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

Path = tuple[str, ...]

LABELS = ["a", "b", "c"]
COLOURS = ["red", "green"]
PORTS: dict[str, Any] = {
    "inputs": {"u": 0.0, "go": {"event": True}, "tell": {"event": True, "items": LABELS}},
    "outputs": {
        "done": {"event": True},
        "said": {"event": True, "items": COLOURS},
        "num": {"event": True, "kind": "real"},
        "n": {"value": "n", "kind": "integer"},
        "x": "x",
        "sum": "x + 2*u + load",
    },
    "variables": {"n": {"start": 0, "kind": "integer"}, "x": 0.5},
    "parameters": {"p": 0.75},
    "locals": {"load": "p*n"},
}
EVENTS = ("done", "said", "num")


# -------------------------------------------------------------------- random descriptions


@st.composite
def _assignments(draw: st.DrawFn, readable: tuple[str, ...]) -> dict[str, str]:
    found = {}
    if draw(st.booleans()):
        found["n"] = draw(st.sampled_from(["n + 1", "2*n - 1", "0", "round(x) + n"]))
    if draw(st.booleans()):
        found["x"] = draw(st.sampled_from(["x/2 + n", "1 - x", "x + load", *readable]))
    return found


@st.composite
def _states(draw: st.DrawFn, counter: list[int], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(draw(st.integers(1 if depth else 2, 3))):
        name = f"s{counter[0]}"
        counter[0] += 1
        entry: dict[str, Any] = {}
        if depth < 2 and draw(st.integers(0, 2)) == 0:
            inner = draw(_states(counter, depth + 1))
            entry = {"initial": draw(st.sampled_from(sorted(inner))), "states": inner}
        for key in ("entry", "exit"):
            if assignments := draw(_assignments(("x + time",))):
                entry[key] = assignments
        found[name] = entry
    return found


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """The description of a machine with states, timers, conditions and events."""
    states = draw(_states([0], 0))
    names = sorted(name for name, _ in _walk(states))
    count = draw(st.integers(1, 8))
    transitions = [draw(_transitions(names)) for _ in range(count)]
    return {
        **PORTS,
        "initial": draw(st.sampled_from(sorted(states))),
        "states": states,
        "transitions": transitions,
    }


@st.composite
def _transitions(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "from": draw(
            st.sampled_from(names) | st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
        )
    }
    if draw(st.integers(0, 3)):
        found["to"] = draw(st.sampled_from(names))
    match draw(st.sampled_from(["after", "both", "when", "go", "tell", "any"])):
        case "after":
            found["after"] = draw(_DELAYS)
        case "both":
            found |= {"after": draw(_DELAYS), "when": draw(_CONDITIONS)}
        case "when":
            found["when"] = draw(_CONDITIONS)
        case "go":
            found["on"] = "go"
            found |= {"when": draw(_CONDITIONS)} if draw(st.booleans()) else {}
        case "tell":
            found |= {
                "on": "tell",
                "when": draw(st.sampled_from(["tell == 'a'", "tell != 'c' and u > 0", "tell"])),
            }
            if found["when"] == "tell":
                del found["when"]
        case "any":
            found["on"] = ["go", "tell"]
    if do := draw(_assignments(("u", "elapsed"))):
        found["do"] = do
    if draw(st.booleans()):
        pool: dict[str, Any] = {
            "done": draw(st.sampled_from([True, "n > 1"])),
            "said": draw(st.sampled_from([*COLOURS, "1 if x > 0 else 0"])),
            "num": draw(st.sampled_from(["x + n", "elapsed", "u"])),
        }
        chosen = draw(st.sets(st.sampled_from(EVENTS), min_size=1))
        found["emit"] = {name: pool[name] for name in EVENTS if name in chosen}
    return found


_DELAYS = st.sampled_from([1, 0.5, "p", "0.25 + abs(n)", "2*p", 0.1, 3])
_CONDITIONS = st.sampled_from(
    ["u > 0", "n < 2", "elapsed >= 0.4", "u < -0.5 and x < 3", "load > 1", "x >= n"]
)


def _walk(states: dict[str, Any], path: Path = ()) -> list[tuple[str, Path]]:
    found = []
    for name, entry in states.items():
        found.append((name, (*path, name)))
        found += _walk(entry.get("states", {}), (*path, name))
    return found


# -------------------------------------------------------------------- the interpreter


class Reference:
    """A machine by the book, called like a unit."""

    def __init__(self, spec: dict[str, Any], start: float) -> None:
        self.spec, self.time = spec, start
        self.paths = dict(_walk(spec["states"]))
        self.values = {"n": 0, "x": 0.5}
        self.u = 0.0
        self.events: dict[str, Any] = {}
        self.waiting: dict[str, Any] = {}
        self.deadlines: dict[tuple[int, Path], float] = {}
        self.leaf: Path = ()
        self.entered = start
        target = self.first(self.paths[spec["initial"]])
        self.leaf = target  # what `state` and `elapsed` say at the start
        self.enter([target[: i + 1] for i in range(len(target))])

    # -- the tree

    def node(self, path: Path) -> dict[str, Any]:
        node: dict[str, Any] = {"states": self.spec["states"]}
        for name in path:
            node = node["states"][name]
        return node

    def first(self, path: Path) -> Path:
        while "states" in self.node(path):
            path = (*path, self.node(path)["initial"])
        return path

    # -- expressions

    def evaluate(self, text: Any) -> Any:
        names = {
            **self.values, "u": self.u, "p": 0.75, "load": 0.75 * self.values["n"], "time": self.time,
            "elapsed": self.time - self.entered, "round": round, "abs": abs, **self.events,
        }  # fmt: skip
        return eval(text, {}, names) if isinstance(text, str) else text

    def assign(self, given: dict[str, str] | None, before: float) -> None:
        """`before` is when the leaf that is left was entered."""
        entered, self.entered = self.entered, before
        self.values |= {name: self.evaluate(text) for name, text in (given or {}).items()}
        self.entered = entered

    # -- when

    def active(self) -> list[tuple[int, dict[str, Any], Path]]:
        """Transitions of the leaf and the states around it, inner ones first, then in order."""
        found = []
        for depth in range(len(self.leaf), 0, -1):
            state = self.leaf[:depth]
            for i, transition in enumerate(self.spec["transitions"]):
                sources = [self.paths[name] for name in _listed(transition["from"])]
                deeper = any(self.leaf[:d] in sources for d in range(depth + 1, len(self.leaf) + 1))
                if state in sources and not deeper:
                    found.append((i, transition, state))
        return found

    def holds(self, transition: dict[str, Any]) -> bool:
        return bool(self.evaluate(transition["when"])) if "when" in transition else True

    def due(self) -> float:
        if self.waiting:
            return self.time
        times = [math.inf]
        for i, transition, state in self.active():
            if "on" in transition:
                continue
            deadline = self.deadlines[i, state] if "after" in transition else -math.inf
            if "when" not in transition or deadline > self.time:
                times.append(deadline)
            elif self.holds(transition):
                times.append(self.time)
        return min(times)

    def next(self) -> tuple[int, dict[str, Any], Path] | None:
        for i, transition, state in self.active():
            ready = "on" not in transition and self.deadlines.get((i, state), -math.inf) <= self.time
            if ready and self.holds(transition):
                return i, transition, state
        return None

    # -- what

    def sends(self) -> dict[str, Any]:
        if self.due() > self.time:
            return {}
        if self.waiting:
            return dict(self.waiting)
        chosen = self.next()
        return self.emitted(chosen[1]) if chosen else {}

    def emitted(self, transition: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, text in transition.get("emit", {}).items():
            value = COLOURS.index(text) if text in COLOURS else self.evaluate(text)
            if name != "done" or value:
                found[name] = bool(value) if name == "done" else value
        return found

    def jump(self) -> None:
        if self.events:
            for i, transition, state in self.active():
                heard = [name for name in _listed(transition.get("on", [])) if name in self.events]
                if heard and self.holds(transition):
                    self.waiting |= self.emitted(transition)
                    self.take(i, transition, state)
                    break
            self.events = {}
        elif self.due() <= self.time:
            chosen = self.next()
            if self.waiting:
                self.waiting = {}
            elif chosen:
                self.take(*chosen)

    def take(self, i: int, transition: dict[str, Any], source: Path) -> None:
        since = self.entered
        if "to" not in transition:
            self.assign(transition.get("do"), since)
            if "after" in transition:
                self.deadlines[i, source] = self.time + self.evaluate(transition["after"])
            return
        to = self.paths[transition["to"]]
        common = 0
        while common < min(len(source), len(to)) - 1 and source[common] == to[common]:
            common += 1
        for depth in range(len(self.leaf), common, -1):
            self.assign(self.node(self.leaf[:depth]).get("exit"), since)
        self.assign(transition.get("do"), since)
        self.events = {}
        target = self.first(to)
        self.leaf = target
        self.enter([target[: d + 1] for d in range(common, len(target))], since)

    def enter(self, states: list[Path], since: float | None = None) -> None:
        for state in states:
            self.assign(self.node(state).get("entry"), self.time if since is None else since)
        self.entered = self.time
        for i, transition in enumerate(self.spec["transitions"]):
            for name in _listed(transition["from"]):
                if "after" in transition and self.paths[name] in states:
                    self.deadlines[i, self.paths[name]] = self.time + self.evaluate(transition["after"])


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]
