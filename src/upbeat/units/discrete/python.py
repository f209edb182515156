"""`PythonDiscrete`: a discrete-event unit as Python functions, in the terms of DEVS."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from upbeat.core.abilities import Ability
from upbeat.core.ports import Causality, Port, Value
from upbeat.core.records import dataclass
from upbeat.units.discrete.devs import DevsUnit
from upbeat.units.python import check_callable, check_fields, record
from upbeat.units.shorthand import Complaints, check_settable, check_unique, entries, read_ports, with_starts

Function = Callable[..., Any]


@dataclass(frozen=True, init=False)
class PythonDiscrete:
    """A discrete-event unit (DEVS) by Python functions.

        light = PythonDiscrete(
            start="red",
            time_advance=lambda state: {"red": 60, "green": 50, "yellow": 10, "off": math.inf}[state],
            internal=lambda state: {"red": "green", "green": "yellow", "yellow": "red"}[state],
            output=lambda state: {"colour": {"red": "green", "green": "yellow", "yellow": "red"}[state]},
            external=lambda state, elapsed, events: "off" if events["control"] == "to_off" else "red",
            inputs={"control": {"items": ["to_off", "to_auto"]}},
            outputs={"colour": {"event": True, "items": ["red", "green", "yellow", "off"]}},
        )

    * `start`: the state at first; any Python value. `elapsed`: for how long it has lasted by then.
    * `time_advance(state)`: how long the state lasts if nothing comes in; `math.inf` for ever.
    * `internal(state)`: the state after it. Left out together with `time_advance`: only events change it.
    * `output(state)`: the events sent right before `internal`, as a dict; None, or no entry, sends nothing.
    * `external(state, elapsed, events)`: the state after events have come in: a dict of those that did, after
      the state has lasted for `elapsed`. If the state ends at the same instant, the events come first.
    * `shows(state)`: the value of every output that is no event, as a dict.
    * `inputs` are all events; `outputs` are events where they say so.
    * `parameters`: with these, every function is given one more argument `p`, with an attribute for each.
    * `to_bytes(state)` → bytes and `from_bytes(bytes)` → state: for states that are not made of plain
      values, if runs are to be kept on disk.

    The functions must be pure, except that `internal` and `external` may change a state that they are given
    as long as they return it. Enumerations come in and go out by label; an event that only happens is True.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[Port, ...]
    start: Any = field(hash=False)  # which may be a list or a dict
    elapsed: float
    time_advance: Function | None
    internal: Function | None
    output: Function | None
    external: Function | None
    shows: Function | None
    to_bytes: Function | None
    from_bytes: Function | None

    def __init__(
        self,
        start: Any,
        *,
        time_advance: Function | None = None,
        internal: Function | None = None,
        output: Function | None = None,
        external: Function | None = None,
        shows: Function | None = None,
        inputs: Mapping[str, Any] | Sequence[str] | None = None,
        outputs: Mapping[str, Any] | Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        elapsed: float = 0.0,
        to_bytes: Function | None = None,
        from_bytes: Function | None = None,
    ) -> None:
        complaints = Complaints()
        heard = {
            name: {"event": True, **entry} if isinstance(entry, Mapping) else entry
            for name, entry in entries(inputs, "inputs", complaints).items()
        }
        given_out = {
            name: _without_depends(entry) for name, entry in entries(outputs, "outputs", complaints).items()
        }
        ports = (
            read_ports(heard, Causality.INPUT, "inputs", complaints),
            read_ports(given_out, Causality.OUTPUT, "outputs", complaints),
            read_ports(parameters, Causality.PARAMETER, "parameters", complaints),
        )
        given = {
            "time_advance": time_advance,
            "internal": internal,
            "output": output,
            "external": external,
            "shows": shows,
            "to_bytes": to_bytes,
            "from_bytes": from_bytes,
        }
        for name, function in given.items():
            if function is not None:
                check_callable(name, function, complaints)
        _check_together(given, ports[0], ports[1], complaints)
        check_unique((port for group in ports for port in group), complaints)
        check_fields(ports[2], complaints)
        if isinstance(elapsed, bool) or not isinstance(elapsed, (int, float)) or not 0 <= elapsed < 1e300:
            complaints.add("elapsed", f"a time that has passed is 0 or more, not {elapsed!r}")
        complaints.raise_if_any()
        fields = {"inputs": ports[0], "outputs": ports[1], "parameters": ports[2], "start": start, **given}
        for name, value in (fields | {"elapsed": float(elapsed)}).items():
            object.__setattr__(self, name, value)

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters."""
        return (*self.inputs, *self.outputs, *self.parameters)

    @property
    def still(self) -> bool:
        """Whether nothing but its own time changes between two jumps: so it is in this formalism."""
        return type(self) is PythonDiscrete

    @property
    def abilities(self) -> frozenset[Ability]:
        return frozenset({Ability.ROLLBACK, Ability.SERIALISE, Ability.NEXT_EVENT})

    @property
    def values(self) -> Any:
        """What every function gets as its argument `p`."""
        return record("p", self.parameters)([value for port in self.parameters for value in port.initial])

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> PythonDiscrete:
        """The same model with other parameters."""
        check_settable(values, [port.name for port in self.parameters])
        changed = copy.copy(self)
        object.__setattr__(changed, "parameters", with_starts(self.parameters, values))
        return changed

    def instantiate(self, name: str, start: float) -> DevsUnit:
        """A unit in its start state."""
        return DevsUnit(self, start)


def _without_depends(entry: Any) -> Any:
    """An entry without an empty `depends`, which files have: there are no inputs to depend on directly."""
    if not isinstance(entry, Mapping):
        return entry
    return {key: value for key, value in entry.items() if key != "depends" or value}


def _check_together(
    given: Mapping[str, Function | None],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    complaints: Complaints,
) -> None:
    """Refuse functions that are missing, or would never be called."""
    for one, other in (("time_advance", "internal"), ("to_bytes", "from_bytes")):
        if (given[one] is None) != (given[other] is None):
            present, missing = (one, other) if given[other] is None else (other, one)
            complaints.add(missing, f"{one} and {other} come together, but there is only {present}")
    for port in inputs:
        if not port.event:
            complaints.add(f"inputs.{port.name}", "an input of a PythonDiscrete is an event")
    events = [port.name for port in outputs if port.event]
    shown = [port.name for port in outputs if not port.event]
    if inputs and given["external"] is None:
        complaints.add("external", "there are inputs, but no function says what they do")
    if events and given["output"] is None:
        complaints.add("output", f"no function says when to send {', '.join(events)}")
    if events and given["time_advance"] is None and given["output"] is not None:
        complaints.add("time_advance", "events are sent when a state ends, so say how long each one lasts")
    if given["output"] is not None and not events:
        complaints.add("output", 'no output is an event: write outputs={"…": {"event": True}}, or use shows')
    if shown and given["shows"] is None:
        hint = 'if it is an event, write {"event": True}'
        complaints.add("shows", f"no function says what {', '.join(shown)} is; {hint}")
    if given["shows"] is not None and not shown:
        complaints.add("shows", "there is no output to show; events are sent by output")
