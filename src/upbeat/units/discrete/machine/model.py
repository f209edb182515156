"""State machines: states, transitions and actions, as a user writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from upbeat.core.expr import Expr, Name, kind_of, names, substitute
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.units.discrete.machine.chart import (
    ELAPSED,
    STATE,
    Chart,
    State,
    Transition,
    candidates,
    complain_about_loops,
    read_chart,
    read_transitions,
)
from upbeat.units.discrete.machine.compiler import Actions, Compiler
from upbeat.units.discrete.model import Discrete, FrontEnd
from upbeat.units.equations.data import Output, in_order, table_spec
from upbeat.units.equations.events import is_event, read_sent, read_variables
from upbeat.units.equations.scope import Raw, Scope, Vocabulary
from upbeat.units.equations.spec import output_entries, read_tables
from upbeat.units.shorthand import Complaints, check_settable, entries, port_spec, with_starts

# ----------------------------------------------------------------------------------------------------
# Reading a whole state machine: every mistake is found before any is raised.

AT_THE_START = (
    "at the start no input has a value yet. Start in a state of its own, and leave it by a transition with "
    "after = 0"
)


class Made(NamedTuple):
    """A machine that has been read."""

    discrete: Discrete
    written: dict[str, Any]
    variables: tuple[Port, ...]
    notes: tuple[str, ...]


def read_machine(sections: Mapping[str, Any]) -> Made:
    """The machine in these sections, by the names that a file has for them; or a `ModelError` with everything
    that is wrong."""
    complaints, given = Complaints(), sections.get
    initial, transitions = given("initial"), given("transitions")
    chart = read_chart(given("states"), initial, complaints)
    scope = Scope(complaints)
    read_tables(entries(given("tables"), "tables", complaints), scope)
    input_ports = scope.ports("inputs", given("inputs"), Causality.INPUT)
    parameter_ports = scope.ports("parameters", given("parameters"), Causality.PARAMETER)
    variable_ports = read_variables(given("variables"), scope)
    raw_locals = {name: Raw.of(text) for name, text in scope.entries("locals", given("locals")).items()}
    for name, raw in raw_locals.items():
        scope.declare("locals", name, raw.size)
    _declare_own(scope, chart)
    given_outputs = entries(given("outputs"), "outputs", complaints)
    sent = read_sent(given_outputs, scope)
    shown = output_entries(_computed(given_outputs), scope)
    scope.outputs = (*given_outputs,)

    vocabulary = Vocabulary(
        scope,
        variables={port.name: port for port in variable_ports},
        events={port.name: port for port in input_ports if port.event},
        signals={port.name for port in input_ports if not port.event},
        sent={port.name: port for port in sent},
        own=(ELAPSED, STATE),
    )
    _read_locals(raw_locals, vocabulary)
    read = [
        _quiet(scope.output(port, definition), vocabulary)
        for name, (port, raw) in shown.items()
        if (definition := scope.definition("outputs", name, raw, whole=True))
    ]
    if chart is None:
        complaints.raise_if_any()
        raise AssertionError("without states there is a complaint")
    actions = _read_actions(chart, vocabulary)
    found = read_transitions(transitions, chart, vocabulary)
    if not complaints.found:
        complain_about_loops(chart, found, complaints)
    complaints.raise_if_any()

    own = (
        [] if given_outputs.get(STATE) else [Port(STATE, Causality.OUTPUT, Kind.INTEGER, items=chart.labels)]
    )
    computed = [
        (output.port.name, tuple(substitute(cell, vocabulary.locals) for cell in output.definition.cells))
        for output in read
    ]
    computed += [(port.name, (Name(STATE),)) for port in own]
    compiler = Compiler(
        chart, found, actions, variable_ports, scope.sizes, computed, tuple(vocabulary.events)
    )
    discrete = Discrete(
        ports=(*input_ports, *sent, *(output.port for output in read), *own, *parameter_ports),
        variables=compiler.variables,
        mode=STATE,
        modes=compiler.modes,
        outputs=compiler.outputs,
        initial=compiler.initial,
    )
    written = {
        "outputs": given_outputs,
        "locals": {name: raw.given[0] if raw.size is None else raw.given for name, raw in raw_locals.items()},
        "tables": {name: table_spec(table) for name, table in scope.tables.items()},
        "initial": initial,
        "states": _written_states(chart.root),
        "transitions": transitions or (),
    }
    return Made(discrete, written, variable_ports, tuple(_notes(chart, found)))


def _declare_own(scope: Scope, chart: Chart | None) -> None:
    """The names that every machine has."""
    for name in (ELAPSED, STATE):
        if name in scope.sections:
            scope.complaints.add(
                f"{scope.sections[name]}.{name}",
                f"'{name}' already has a meaning in a state machine; choose another name",
            )
        scope.sizes[name] = None
    scope.sections[ELAPSED] = "states"
    scope.kinds |= {ELAPSED: Kind.REAL, STATE: Kind.INTEGER}
    if chart is not None:
        scope.enums[STATE] = chart.labels


def _computed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ordinary outputs; `state` alone is the one that is always there."""
    return {
        name: entry
        for name, entry in given.items()
        if not is_event(entry) and not (name == STATE and not entry)
    }


def _read_locals(raw: Mapping[str, Raw], vocabulary: Vocabulary) -> None:
    scope = vocabulary.scope
    read = tuple(d for name, given in raw.items() if (d := scope.definition("locals", name, given)))
    for definition in read:
        _complain_about_events(f"locals.{definition.name}", definition.cells, vocabulary)
    with scope.complaints.at("locals"):
        scope.locals = in_order(read)
    for name, cell in scope.locals.items():
        scope.kinds[name] = kind_of(cell, scope.kinds)
        vocabulary.locals[name] = substitute(cell, vocabulary.locals)


def _complain_about_events(where: str, cells: tuple[Expr, ...], vocabulary: Vocabulary) -> None:
    used = {name.partition("[")[0] for cell in cells for name in names(cell)}
    for name in sorted(used & vocabulary.events.keys()):
        vocabulary.complaints.add(
            where,
            f"'{name}' is an event, which has a value only when it happens. Keep it in a variable, by a "
            f'transition with on = "{name}" and do = {{ last = "{name}" }}',
        )


def _quiet(output: Output, vocabulary: Vocabulary) -> Output:
    _complain_about_events(f"outputs.{output.port.name}", output.definition.cells, vocabulary)
    return output


def _read_actions(chart: Chart, vocabulary: Vocabulary) -> dict[State, Actions]:
    at_first = set(chart.root.first.upwards())
    return {
        state: Actions(
            vocabulary.assignments(
                f"{state.where}.entry", state.entry, still=AT_THE_START if state in at_first else ""
            ),
            vocabulary.assignments(f"{state.where}.exit", state.exit),
        )
        for state in chart.states
    }


def _notes(chart: Chart, transitions: tuple[Transition, ...]) -> list[str]:
    """Which states can never be entered. No mistake: people try things out by leaving transitions away."""
    todo, reached = [chart.root.first], set[State]()
    while todo:
        leaf = todo.pop()
        if leaf not in reached:
            reached.add(leaf)
            todo += [t.to.first for t, _ in candidates(leaf, transitions) if t.to is not None]
    lost = [label for leaf, label in zip(chart.leaves, chart.labels, strict=True) if leaf not in reached]
    return [f"no transition leads to {', '.join(lost)}"] if lost else []


def _written_states(state: State) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, child in state.children.items():
        entry: dict[str, Any] = {}
        if child.children:
            assert child.initial is not None
            initial = child.initial.path[len(child.path) :]
            entry = {"initial": ".".join(initial), "states": _written_states(child)}
        entry |= {"entry": child.entry} if child.entry else {}
        entry |= {"exit": child.exit} if child.exit else {}
        found[name] = entry
    return found


# ----------------------------------------------------------------------------------------------------
# `StateMachine`: states and transitions, written as people draw them, run as a `Discrete` model.


@dataclass(frozen=True, init=False)
class StateMachine(FrontEnd):
    """A machine with a tree of states and transitions between them.

        StateMachine(
            states=["red", "green", "off"],
            initial="red",
            inputs={"control": {"event": True, "items": ["toAuto", "toOff"]}},
            outputs={"lamp": {"event": True, "items": ["red", "green"]}},
            transitions=[
                {"from": "red", "to": "green", "after": 60, "emit": {"lamp": "green"}},
                {"from": ["red", "green"], "to": "off", "on": "control", "when": "control == 'toOff'"},
            ],
        )

    * `states`: a table of tables, or a list of names. A state with `states` inside is composite and has an
      `initial` one. `entry` and `exit` are assignments to variables: ``{"n": "n + 1"}``.
    * `transitions`: a list. `from` is a state (a composite one: any leaf in it) or a list of them; `to` a
      state, of a composite one its initial leaf. Without `to` the transition is internal: nothing is left or
      entered, and of all delays only its own begins again.
    * `after`: so long after the state in `from` was entered; fixed at that moment, from parameters and
      variables as the entry left them. `on`: an event input, or a list of them; with a single one, the
      transition may read its value by its name. `when`: a condition, looked at whenever units communicate.
      With `after` and `when`, both must hold.
    * `do`: assignments. `emit`: events to be sent, each with a label, an expression, or True; an event that
      is boolean is sent if its expression holds.
    * `variables`: start values, as for parameters; `inputs`, `outputs`, `parameters`, `locals` and `tables`
      are as in an `Ode`. Outputs with ``event = True`` are sent by `emit`, all others have an expression.

    Names in expressions are variables, ordinary inputs, parameters, locals, `time`, `elapsed` (since the leaf
    was entered) and `state` (an enumeration of the leaves). The leaf is also an output, `state`, unless there
    is another one of that name. Where a name like `red` could be several states, write a path: `auto.red`.

    A transition leaves all states inside the innermost one that contains both `from` and `to` properly:
    `exit` from inside out, then `do`, then `entry` from outside in, each reading what those before it wrote.
    Conditions and `emit` read the values before the transition, and so do `state` and `elapsed` everywhere.
    At the start the states around the first leaf are entered.

    There is at most one transition in a micro-step: those of inner states go before those of outer ones, then
    the order of the list counts. An event for which there is none is lost, and delays go on. What a
    transition by an event emits is sent in the next micro-step at the same instant, before anything else that
    is due; if another event comes in before, what that one emits by the same output replaces it.

    `notes` says which states can never be entered.
    """

    variables: tuple[Port, ...]
    notes: tuple[str, ...]

    def __init__(
        self,
        states: Mapping[str, Any] | Sequence[str],
        *,
        initial: str | None = None,
        transitions: Sequence[Mapping[str, Any]] = (),
        inputs: Mapping[str, Any] | Sequence[str] | None = None,
        outputs: Mapping[str, Any] | Sequence[str] | None = None,
        variables: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
    ) -> None:
        made = read_machine({
            "states": states, "initial": initial, "transitions": transitions, "inputs": inputs,
            "outputs": outputs, "variables": variables, "parameters": parameters, "locals": locals,
            "tables": tables,
        })  # fmt: skip
        super().__init__(made.discrete, made.written)
        object.__setattr__(self, "variables", made.variables)
        object.__setattr__(self, "notes", made.notes)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same machine with other parameters, starts of ordinary inputs or starts of variables."""
        settable = [p for p in self.ports if p.causality is not Causality.OUTPUT and not p.event]
        check_settable(values, [port.name for port in (*settable, *self.variables)])
        changed = object.__new__(type(self))
        for key, value in (
            ("discrete", self.discrete.with_values(values)),
            ("written", self.written),
            ("variables", with_starts(self.variables, values)),
            ("notes", self.notes),
        ):
            object.__setattr__(changed, key, value)
        return changed

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``StateMachine(**machine.to_spec()) == machine``."""
        written = json.loads(self.written)
        ports = {
            key: {port.name: port_spec(port) for port in self.ports if port.causality is causality}
            for key, causality in (("inputs", Causality.INPUT), ("parameters", Causality.PARAMETER))
        }
        variables = {port.name: _variable_spec(port) for port in self.variables}
        sections = {**ports, "variables": variables, **written}
        order = ("inputs", "outputs", "parameters", "variables", "locals", "tables", "initial", "states")
        return {key: sections[key] for key in (*order, "transitions") if sections.get(key)}


def _variable_spec(port: Port) -> Any:
    spec = port_spec(port)
    return (
        {"start" if key == "value" else key: v for key, v in spec.items()} if isinstance(spec, dict) else spec
    )
