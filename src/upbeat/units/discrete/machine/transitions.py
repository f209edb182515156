"""The transitions of a state machine, read and checked one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from upbeat.core.errors import suggest
from upbeat.core.expr import ONE, ZERO, Expr, Number, simplify
from upbeat.units.discrete.machine.chart import Chart, State
from upbeat.units.discrete.model import Assignments
from upbeat.units.equations.reactions import Sending, heard_events, listed, sendings
from upbeat.units.equations.vocabulary import Vocabulary
from upbeat.units.shorthand import Complaints

KEYS = ("from", "to", "after", "on", "when", "do", "emit")
FIXED = (
    'a delay is fixed when the state is entered. To follow a signal, write when = "…"; to take its value '
    'then, keep it in a variable: entry = { wait = "…" }'
)


@dataclass(frozen=True)
class Transition:
    """One transition, with its place in the list. Without `to` it is internal: no state is left."""

    number: int
    sources: tuple[State, ...]
    to: State | None
    after: Expr | None
    on: tuple[str, ...]
    when: Expr | None
    do: Assignments
    emit: tuple[Sending, ...]

    def source(self, leaf: State) -> State | None:
        """The innermost of its sources that `leaf` is or lies in."""
        return next((state for state in leaf.upwards() if state in self.sources), None)


def read_transitions(given: object, chart: Chart, names: Vocabulary) -> tuple[Transition, ...]:
    """All transitions that could be read."""
    complaints = names.complaints
    if given is None:
        return ()
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        complaints.add(
            "transitions", f'a list of tables is needed: [{{ from = "…", to = "…" }}], not {given!r}'
        )
        return ()
    found = []
    for number, entry in enumerate(given):
        where = f"transitions.{number}"
        if not isinstance(entry, Mapping):
            complaints.add(where, f'a transition is a table: {{ from = "…", to = "…" }}, not {entry!r}')
            continue
        for key in entry:
            if key not in KEYS:
                complaints.add(f"{where}.{key}", f"unknown key {key!r}. {suggest(str(key), KEYS, 'keys')}")
        found.append(_read(number, where, entry, chart, names))
    return tuple(found)


def _read(number: int, where: str, entry: Mapping[str, Any], chart: Chart, names: Vocabulary) -> Transition:
    complaints = names.complaints
    sources = []
    if "from" not in entry:
        complaints.add(where, f'a transition starts somewhere: from = "{chart.labels[0]}"')
    for given in listed(entry.get("from")):
        state = chart.find(given, f"{where}.from", complaints)
        if state is not None and state in sources:
            complaints.add(f"{where}.from", f"'{given}' is listed twice")
        elif state is not None:
            sources.append(state)
    to = chart.find(entry["to"], f"{where}.to", complaints) if "to" in entry else None
    on = heard_events(where, entry.get("on"), names)
    if "after" in entry and "on" in entry:
        complaints.add(
            f"{where}.after",
            'a transition is either timed or waits for an event. For "not before", write on and '
            f'when = "elapsed >= {entry["after"]}"',
        )
    if not {"after", "on", "when"} & entry.keys():
        complaints.add(where, 'say when it is taken: after = "60", on = "event" or when = "condition"')
    heard = on if len(on) == 1 else ()
    when = names.truth(where, "when", entry["when"], heard) if "when" in entry else None
    if "when" in entry and when is None:
        when = ONE
    after = _delay(where, entry["after"], names) if "after" in entry else None
    do = names.assignments(f"{where}.do", entry.get("do"), heard)
    emit = sendings(where, entry.get("emit"), names, heard)
    return Transition(number, tuple(sources), to, after, on, when, do, emit)


def _delay(where: str, given: object, names: Vocabulary) -> Expr:
    expr = names.expression(where, "after", given, still=FIXED)
    if expr is None:
        return ONE
    known = simplify(expr)
    if isinstance(known, Number) and not known.value >= 0.0:
        what = "not a number" if math.isnan(known.value) else f"{known.value:g}"
        names.complaints.add(f"{where}.after", f"a delay is 0 or more, not {what}")
    return expr


def complain_about_loops(chart: Chart, transitions: tuple[Transition, ...], complaints: Complaints) -> None:
    """Refuse chains of transitions without delay and condition that never end."""
    certain: dict[State, Transition] = {}
    for leaf in chart.leaves:
        first = next((t for t, _ in candidates(leaf, transitions) if not t.on), None)
        if first is None or first.when is not None or first.after is None:
            continue
        if simplify(first.after) == ZERO:
            certain[leaf] = first
    told: set[int] = set()
    for leaf in certain:
        seen: list[State] = []
        at = leaf
        while at in certain and at not in seen:
            seen.append(at)
            to = certain[at].to
            at = at if to is None else to.first
        if at in seen and certain[at].number not in told:
            loop = seen[seen.index(at) :]
            told |= {certain[state].number for state in loop}
            names = " → ".join(state.name for state in (*loop, loop[0]))
            complaints.add(
                f"transitions.{certain[at].number}.after",
                f"this never ends: {names} takes no time. Give one of them a delay or a condition",
            )


def candidates(leaf: State, transitions: tuple[Transition, ...]) -> list[tuple[Transition, State]]:
    """The transitions that may be taken in a leaf, by priority, each with the source that it starts from."""
    found = [(t, source) for t in transitions if (source := t.source(leaf)) is not None]
    return sorted(found, key=lambda pair: (-len(pair[1].path), pair[0].number))
