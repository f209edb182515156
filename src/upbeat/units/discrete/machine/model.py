"""`StateMachine`: states and transitions, written as people draw them, run as a `Discrete` model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from upbeat.core.ports import Causality, Port, Value
from upbeat.units.discrete.front import FrontEnd
from upbeat.units.discrete.machine.reading import read_machine
from upbeat.units.shorthand import check_settable, port_spec, with_starts


@dataclass(frozen=True, init=False)
class StateMachine(FrontEnd):
    """A machine that is in one leaf of a tree of states at a time, and changes by transitions.

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
        made = read_machine(
            states=states, initial=initial, transitions=transitions, inputs=inputs, outputs=outputs,
            variables=variables, parameters=parameters, locals=locals, tables=tables,
        )  # fmt: skip
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
