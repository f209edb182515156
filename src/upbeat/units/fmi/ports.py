"""The ports of an FMU, and start values of its variables: what its description says, in Upbeat's words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any, Literal

from upbeat.core import measure
from upbeat.core.abilities import Ability
from upbeat.core.errors import ModelError, suggest
from upbeat.core.names import Labels, matching, objection_to_port, resolve
from upbeat.core.ports import Causality, Kind, Port, Value, Values
from upbeat.core.records import dataclass
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import (
    CoSimulation,
    Dimension,
    Initial,
    Interface,
    IntervalVariability,
    ModelDescription,
    ModelExchange,
    Type,
    UnitDefinition,
    Variability,
    Variable,
    measure_of,
)

# -- the two ways of running an FMU: which one is meant, and what units of it are able to do -------------


InterfaceName = Literal["co-simulation", "model-exchange"]
CO_SIMULATION, MODEL_EXCHANGE = "co-simulation", "model-exchange"
NAMES = (CO_SIMULATION, MODEL_EXCHANGE)


def interface_of(description: ModelDescription, wanted: str | None) -> CoSimulation | ModelExchange:
    """The interface that is asked for, or co-simulation where there is a choice."""
    offered: dict[str, CoSimulation | ModelExchange] = {}
    if description.co_simulation is not None:
        offered[CO_SIMULATION] = description.co_simulation
    if description.model_exchange is not None:
        offered[MODEL_EXCHANGE] = description.model_exchange
    if wanted is not None and wanted not in NAMES:
        what = f"there is no interface {wanted!r}. {suggest(str(wanted), NAMES, 'interfaces')}"
        raise ModelError(what, [("interface", what)])
    if not offered:
        raise ModelError(
            f"the FMU '{description.name}' offers scheduled execution only, which Upbeat does not run: "
            "export it for co-simulation or model exchange"
        )
    if wanted is None:
        return next(iter(offered.values()))
    if wanted not in offered:
        what = f"the FMU '{description.name}' offers no {wanted}, only {' and '.join(offered)}"
        raise ModelError(what, [("interface", what)])
    return offered[wanted]


def name_of(interface: Interface) -> str:
    """The word for it in files and on the command line."""
    return CO_SIMULATION if isinstance(interface, CoSimulation) else MODEL_EXCHANGE


def has_events(description: ModelDescription, interface: Interface) -> bool:
    """Whether its units have instants of their own: `due` and `jump` mean something."""
    return isinstance(interface, ModelExchange) or (
        isinstance(interface, CoSimulation) and interface.event_mode and description.version == 3
    )


def own_clocks(description: ModelDescription) -> list[str]:
    """The input clocks that tick by themselves at times that are known, in the order of the file."""
    return [
        variable.name
        for variable in description.variables
        if variable.type is Type.CLOCK
        and variable.causality is Role.INPUT
        and variable.alias_of is None
        and variable.properties.clock is not None
        and variable.properties.clock.variability is not IntervalVariability.TRIGGERED
    ]


def abilities_of(description: ModelDescription, interface: Interface, *, rollback: bool) -> set[Ability]:
    """What is declared, which is not always what is true: see `upbeat.units.fmi.claims`."""
    found = set()
    if interface.saves_state and rollback:
        found.add(Ability.ROLLBACK)
        if interface.serialises_state:
            found.add(Ability.SERIALISE)
    if interface.directional_derivatives or interface.adjoint_derivatives:
        found.add(Ability.SLOPES)
    if has_events(description, interface):
        found.add(Ability.NEXT_EVENT)
    if isinstance(interface, ModelExchange):
        found.add(Ability.EARLY_RETURN)
        if description.event_indicator_count:
            found.add(Ability.INDICATORS)
    elif isinstance(interface, CoSimulation) and (description.version == 2 or interface.may_return_early):
        found.add(Ability.EARLY_RETURN)  # in FMI 2 by discarding the rest of a step
    return found


# -- the ports of an FMU: what its description says, in Upbeat's words -----------------------------------


_CAUSALITIES = {
    Role.INPUT: Causality.INPUT,
    Role.OUTPUT: Causality.OUTPUT,
    Role.PARAMETER: Causality.PARAMETER,
    Role.STRUCTURAL_PARAMETER: Causality.PARAMETER,
}
_CHOSEN = (Role.LOCAL, Role.CALCULATED_PARAMETER)
"""What becomes an output only if asked for."""
_SETTLED = (Variability.CONSTANT, Variability.FIXED, Variability.TUNABLE)
"""What no input changes during a run."""
_LARGEST = 2**63
MAX_RATES = 2
"""Derivatives of outputs of a higher order are of no use to anybody here."""
_SHOWN = 60


def kind_of(type: Type) -> Kind:
    """What one cell of such a variable holds."""
    if type.is_float:
        return Kind.REAL
    if type in (Type.BOOLEAN, Type.CLOCK):
        return Kind.BOOLEAN
    return Kind.STRING if type in (Type.STRING, Type.BINARY) else Kind.INTEGER


@dataclass(frozen=True)
class Layout:
    """The ports, the variable behind each with its size as it is now, and what has no port.

    A port with an order is that time derivative of its variable, which the FMU is asked for separately.
    `undefined` has the units of measure, by port, that are names and nothing more.
    """

    ports: tuple[Port, ...]
    variables: Mapping[str, Variable]
    notes: tuple[str, ...] = ()
    orders: Mapping[str, int] = field(default_factory=dict)
    undefined: Mapping[str, str] = field(default_factory=dict)

    def fixed(self, parameter: str) -> str | None:
        """Why a parameter stays what it is while the FMU runs; None if it may change."""
        variable = self.variables[parameter]
        if variable.causality is Role.STRUCTURAL_PARAMETER:
            return "it is structural, the sizes of arrays follow from it"
        if variable.variability is not Variability.TUNABLE:
            return f'its variability in the FMU is "{variable.variability.value}", not "tunable"'
        if kind_of(variable.type) is Kind.STRING:
            return "it is a text"
        return None

    @property
    def tunable(self) -> list[tuple[Port, Variable]]:
        """The parameters that may change while the FMU runs."""
        return [end for end in self.of(Causality.PARAMETER) if self.fixed(end[0].name) is None]

    def of(self, causality: Causality, *, event: bool = False) -> list[tuple[Port, Variable]]:
        """The ports of one causality with their variables."""
        return [
            (port, self.variables[port.name])
            for port in self.ports
            if port.causality is causality and port.event == event
        ]


def layout(
    description: ModelDescription,
    interface: Interface,
    sizes: Mapping[str, int],
    patterns: Sequence[str] = (),
    told: Sequence[str] = (),
) -> Layout:
    """The ports when the structural parameters have these values; `patterns` choose more outputs, and `told`
    are variables that are outputs for the master alone."""
    chosen = _matching(description, patterns) | set(told)
    events = has_events(description, interface)
    taken: list[tuple[Variable, Causality]] = []
    notes = []
    for variable in description.variables:
        causality = Causality.OUTPUT if variable.name in chosen else _CAUSALITIES.get(variable.causality)
        if causality is None or (variable.type is Type.CLOCK and not (events and _is_port(variable))):
            continue
        if objection := objection_to_port(variable.name):
            notes.append(f"{variable.causality.value} {variable.name!r} is left out: {objection}")
            continue
        shaped = reshaped(variable, sizes)
        if shaped.cells == 0:
            notes.append(f"{variable.causality.value} '{variable.name}' is left out: it has no cells")
            continue
        taken.append((shaped, causality))
    depends = _Dependencies(description, [v for v, c in taken if c is Causality.INPUT])
    slopes = _slopes(description, [v.name for v, c in taken if c is Causality.OUTPUT])
    units = {unit.name: unit for unit in description.units}
    made = []
    undefined: dict[str, str] = {}
    for variable, causality in taken:
        measure = _measure(variable, units)
        if measure is None and variable.type.is_float and (name := variable.properties.unit) is not None:
            undefined[variable.name] = name
            what = (
                f"{variable.causality.value} '{variable.name}' is in {name[:_SHOWN]!r}, which is not a unit"
            )
            notes.append(f"{what} that is known here or defined in the FMU: its values are never converted")
        port = Port(
            name=variable.name,
            causality=causality,
            kind=kind_of(variable.type),
            size=variable.cells if variable.dimensions else None,
            unit=measure,
            description=variable.description,
            event=variable.type is Type.CLOCK,
            items=_labels(variable),
            internal=variable.name in told,
        )
        if causality is Causality.OUTPUT:
            port = replace(port, depends=depends.of(variable), derivative=slopes.get(variable.name))
        made.append(replace(port, start=_start(port, variable)))
    variables = {variable.name: variable for variable, _ in taken}
    orders: dict[str, int] = {}
    for port in [port for port in made if _has_rates(port, variables[port.name], interface)]:
        found = _rates(port, description, interface)
        made[made.index(port)] = replace(port, derivative=found[0].name if found else None)
        made += found
        variables |= {rate.name: variables[port.name] for rate in found}
        orders |= {rate.name: order for order, rate in enumerate(found, 1)}
    order = (Causality.INPUT, Causality.OUTPUT, Causality.PARAMETER)
    ports = tuple(sorted(made, key=lambda port: order.index(port.causality)))
    return Layout(ports, variables, tuple(notes), orders, undefined)


def reshaped(variable: Variable, sizes: Mapping[str, int]) -> Variable:
    """The variable with its shape under these values of the structural parameters."""
    if not any(dimension.parameter in sizes for dimension in variable.dimensions):
        return variable
    shape = tuple(_length(d, now, sizes) for d, now in zip(variable.dimensions, variable.shape, strict=True))
    return replace(variable, shape=shape)


def _length(dimension: Dimension, now: int, sizes: Mapping[str, int]) -> int:
    return now if dimension.parameter is None else sizes.get(dimension.parameter, now)


def choices(description: ModelDescription) -> list[str]:
    """The variables that are no ports unless asked for."""
    return [v.name for v in description.variables if v.causality in _CHOSEN and v.type is not Type.CLOCK]


def _matching(description: ModelDescription, patterns: Sequence[str]) -> set[str]:
    """The variables that patterns choose; one that matches nothing is a slip."""
    names = choices(description)
    found: set[str] = set()
    for pattern in patterns:
        if not (matches := matching(pattern, names)):
            what = f"no local variable of the FMU matches '{pattern}'"
            raise ModelError(f"{what}. {suggest(pattern, names, 'local variables')}", [("locals", what)])
        found.update(matches)
    return found


def _is_port(clock: Variable) -> bool:
    """Others tick by themselves."""
    own = clock.properties.clock
    return own is not None and own.variability is IntervalVariability.TRIGGERED


class _Dependencies:
    """On which inputs each output depends at the same instant."""

    def __init__(self, description: ModelDescription, inputs: Iterable[Variable]) -> None:
        # An event has its effect in a jump, and so has what a clock hands over.
        plain = [v for v in inputs if v.type is not Type.CLOCK and not v.clocks]
        self._inputs: dict[str, set[str]] = {}
        for variable in plain:
            self._inputs.setdefault(variable.alias_of or variable.name, set()).add(variable.name)
        self._all = frozenset(variable.name for variable in plain)
        structure = description.structure
        self._unknowns = {u.variable: u.dependencies for u in (*structure.derivatives, *structure.outputs)}
        self._states = set(description.states)
        by_name = description.by_name
        self._leader = {name: variable.alias_of or name for name, variable in by_name.items()}

    def of(self, variable: Variable) -> frozenset[str]:
        leader = self._leader[variable.name]
        if variable.type is Type.CLOCK or variable.clocks or variable.variability in _SETTLED:
            return frozenset()
        known = next((self._unknowns[n] for n in (variable.name, leader) if n in self._unknowns), None)
        if known is None:
            return frozenset() if leader in self._states else self._all
        leaders = {self._leader[name] for name, _ in known}
        return frozenset(name for each in leaders for name in self._inputs.get(each, ()))


def rates_in(description: ModelDescription, name: str) -> list[str]:
    """The time derivative of a variable, that of this one, and so on, as far as variables are these."""
    by_name = description.by_name

    def leader(name: str) -> str:
        return by_name[name].alias_of or name

    known = {
        leader(v.derivative_of): v for v in reversed(description.variables) if v.derivative_of is not None
    }
    found: list[str] = []
    while len(found) < MAX_RATES and (rate := known.get(leader(name))) is not None:
        if rate.name in found or rate.shape != by_name[name].shape or objection_to_port(rate.name):
            break
        found.append(name := rate.name)
    return found


def _slopes(description: ModelDescription, outputs: Sequence[str]) -> dict[str, str]:
    """The output that is the time derivative of another, by the other's name."""
    known = {name: rates_in(description, name)[:1] for name in outputs}
    return {name: rates[0] for name, rates in known.items() if rates and rates[0] in outputs}


def _has_rates(port: Port, variable: Variable, interface: Interface) -> bool:
    """Whether the FMU can be asked for time derivatives of this output, of which none is a port yet."""
    return (
        isinstance(interface, CoSimulation)
        and interface.output_derivative_order > 0
        and port.derivative is None
        and port.kind is Kind.REAL
        and variable.causality is Role.OUTPUT
        and variable.variability is Variability.CONTINUOUS
    )


def _rates(port: Port, description: ModelDescription, interface: Interface) -> list[Port]:
    """``der(y)`` and, where the FMU goes as far, ``der(y,2)``: unless a variable has that name.

    They are those at the end of the last step, so no input changes them before the next one.
    """
    assert isinstance(interface, CoSimulation)
    found: list[Port] = []
    unit = port.unit
    for order in range(1, min(interface.output_derivative_order, MAX_RATES) + 1):
        name = f"der({port.name})" if order == 1 else f"der({port.name},{order})"
        if name in description.by_name or objection_to_port(name):
            break
        unit = None if unit is None else _per_second(unit)
        what = f"time derivative of {port.name}" if order == 1 else f"time derivative {order} of {port.name}"
        found.append(replace(port, name=name, unit=unit, description=what, depends=frozenset(), extra=True))
    chain = [rate.name for rate in found[1:]]
    return [replace(rate, derivative=next_) for rate, next_ in zip(found, [*chain, None], strict=False)]


def _per_second(unit: str) -> str | None:
    """None where that means nothing, as of a temperature that is not a difference."""
    text = "1/s" if unit == "1" else f"({unit})/s"
    try:
        measure.check(text)
    except measure.MeasureError:
        return None
    return text


@cache
def _text_of(unit: UnitDefinition, relative: bool) -> str | None:
    return measure_of(unit, relative=relative)


def _measure(variable: Variable, units: Mapping[str, UnitDefinition]) -> str | None:
    name = variable.properties.unit
    if name is None or not variable.type.is_float:
        return None
    return _text_of(units.get(name) or UnitDefinition(name), variable.properties.relative)


def _labels(variable: Variable) -> Labels:
    """The labels of an enumeration; none where two of them, or their values, are the same."""
    names, codes = [item.name for item in variable.items], [item.value for item in variable.items]
    unique = len(set(names)) == len(names) and len(set(codes)) == len(codes)
    return Labels(names, codes) if unique else Labels()


def _start(port: Port, variable: Variable) -> Values | None:
    """The start value that the description gives; None where it says none that a port can hold."""
    if variable.start is None or port.causality is Causality.OUTPUT or port.event:
        return None
    values = tuple(plain(value) for value in variable.start)
    if any(isinstance(v, float) and math.isnan(v) for v in values):
        return None
    if any(isinstance(v, int) and not -_LARGEST <= v < _LARGEST for v in values):
        return None
    if port.items and not set(values) <= set(port.codes):
        return None
    if len(values) not in (1, port.cells):
        return None  # the array has another size than the file thought
    return values * port.cells if len(values) == 1 else values


def plain(value: float | bool | str | bytes) -> Value:
    """A start value as a port has it: bytes are hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else value


def indicator_names(description: ModelDescription) -> tuple[str, ...]:
    """A name for each event indicator: FMI 3's own, or numbers."""
    named = [description.by_name[each.variable] for each in description.structure.event_indicators]
    if not named:
        return tuple(f"z[{i + 1}]" for i in range(description.event_indicator_count))
    return tuple(v.name if not v.dimensions else f"{v.name}[{i + 1}]" for v in named for i in range(v.cells))


def shown(indicators: Sequence[str], derivatives: int) -> tuple[Port, ...]:
    """Ports through which a pace sees event indicators in model exchange, and their derivatives after them.

    Two for each: to FMI a sign that changes is an event both ways, and a pace looks for what falls.
    """
    ways = [(name, way) for name in indicators for way in ("falls", "rises")]
    known = [(f"{way}({name})", f"{name} {way}") for name, way in ways]
    found: list[Port] = []
    for order in range(derivatives + 1):
        for port, event in known:
            rate = f"der({port})" if order < derivatives else None
            found.append(Port(port, Causality.OUTPUT, internal=True, indicates=event, derivative=rate))
        known = [(f"der({port})", "") for port, _ in known]
    return tuple(found)


# -- start values of an FMU's variables: which may be given, and what they may be ------------------------
#
# FMI's rules are kept before the FMU is called, because what an FMU does with a value that it does not
# expect is anybody's guess.


Starts = dict[str, Values]
"""The given values, one per cell, by the name of the variable."""


def refusal(variable: Variable) -> str:
    """Why this variable may not be given a start value; empty if one may."""
    if variable.causality is Role.INDEPENDENT:
        return "it is the time, which the run gives: see start and until"
    if variable.type is Type.CLOCK:
        return "it is a clock, which has no value"
    if variable.variability is Variability.CONSTANT:
        return "it is a constant of the model"
    if variable.initial is Initial.CALCULATED:
        return "the FMU calculates it"
    return ""


def settable(description: ModelDescription) -> list[str]:
    """The names of everything that can be given a start value."""
    return [variable.name for variable in description.variables if not refusal(variable)]


def with_starts(
    description: ModelDescription, before: Mapping[str, Values], more: Mapping[str, Any]
) -> Starts:
    """The start values with some more, all of them checked. `ModelError` has every complaint."""
    found = dict(before)
    complaints: list[tuple[str, str]] = []
    by_name = description.by_name
    # Structural parameters first: they say how large the others are.
    structural = Role.STRUCTURAL_PARAMETER
    order = sorted(more, key=lambda key: key not in by_name or by_name[key].causality is not structural)
    for key in order:
        try:
            name, cell = _place(key, description)
            variable = reshaped(by_name[name], sizes_of(description, found))
            found[name] = _checked(variable, more[key], cell, found.get(name))
        except ModelError as error:
            complaints.append((key, str(error)))
    complaints += _misfits(description, found, set(more)) if not complaints else []
    if complaints:
        raise ModelError("\n".join(what for _, what in complaints), complaints)
    return found


def sizes_of(description: ModelDescription, starts: Mapping[str, Values]) -> dict[str, int]:
    """The structural parameters that have been given another value."""
    by_name = description.by_name
    found: dict[str, int] = {}
    for name, values in starts.items():
        if by_name[name].causality is Role.STRUCTURAL_PARAMETER and isinstance(values[0], int):
            found[by_name[name].alias_of or name] = int(values[0])
    return found


def _place(key: str, description: ModelDescription) -> tuple[str, int | None]:
    """The variable that `key` names, and the cell if it names only one."""
    by_name = description.by_name
    name, cell = resolve(key, by_name)
    if name not in by_name:
        hint = suggest(key, settable(description), "variables that can be set")
        raise ModelError(f"the FMU has no variable '{key}' to set. {hint}")
    if why := refusal(by_name[name]):
        raise ModelError(f"'{name}' cannot be set: {why}")
    return name, cell


def _checked(variable: Variable, given: object, cell: int | None, before: Values | None) -> Values:
    name = variable.name
    array = bool(variable.dimensions)
    if cell is None:
        return _values(variable, given, variable.cells if array else None)
    if not array or cell >= variable.cells:
        have = f"has the cells {name}[0] … [{variable.cells - 1}]" if array else "is a single value"
        raise ModelError(f"there is no '{name}[{cell}]': '{name}' {have}")
    values = list(before or _declared(variable))
    (values[cell],) = _values(variable, given, None)
    return tuple(values)


def _declared(variable: Variable) -> Values:
    """What the description gives every cell."""
    start = tuple(plain(value) for value in variable.start or ())
    if len(start) == 1:
        return start * variable.cells
    if len(start) != variable.cells:
        raise ModelError(f"'{variable.name}' has no start value of its own: give all {variable.cells} cells")
    return start


def _values(variable: Variable, given: object, size: int | None) -> Values:
    port = Port("value", Causality.PARAMETER, kind_of(variable.type), size)
    if isinstance(given, bytes):
        given = given.hex()
    given = _as_written(port.kind, given)
    if variable.items:
        given = _codes(variable, given)
    values = port.values(given, variable.name)
    for value in values:
        _check(variable, value)
    return values


def _as_written(kind: Kind, given: object) -> object:
    """Numbers for what FMI's files write as numbers: 0 and 1 for booleans, 2.0 for a whole number."""
    given = given.tolist() if hasattr(given, "tolist") else given  # NumPy
    if isinstance(given, (list, tuple)):
        return [_as_written(kind, item) for item in given]
    if kind is Kind.BOOLEAN and isinstance(given, (int, float)) and given in (0, 1):
        return bool(given)
    if kind is Kind.INTEGER and isinstance(given, float) and given.is_integer():
        return int(given)
    return given


def _codes(variable: Variable, given: object) -> object:
    """An enumeration's value for each of its labels."""
    if isinstance(given, (list, tuple)):
        return [_codes(variable, item) for item in given]
    known = {item.name: item.value for item in variable.items}
    if isinstance(given, str):
        if given not in known:
            raise ModelError(f"'{variable.name}' cannot be {given!r}. {suggest(given, known, 'labels')}")
        return known[given]
    if isinstance(given, int) and not isinstance(given, bool) and given not in known.values():
        listed = ", ".join(f"{item.name} = {item.value}" for item in variable.items[:12])
        raise ModelError(f"'{variable.name}' cannot be {given}: the values are {listed}")
    return given


def _check(variable: Variable, value: Value) -> None:
    """That one cell may have this value."""
    name, properties = variable.name, variable.properties
    if variable.type is Type.BINARY and isinstance(value, str):
        try:
            bytes.fromhex(value)
        except ValueError:
            raise ModelError(
                f"'{name}' holds bytes: write them as hexadecimal digits, not {value!r}"
            ) from None
    if isinstance(value, (bool, str)):
        return
    bounds = variable.type.range
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise ModelError(
            f"'{name}' is {variable.type.value}, which holds {bounds[0]} to {bounds[1]}, not {value}"
        )
    low, high = properties.min, properties.max
    if (low is not None and value < low) or (high is not None and value > high):
        allowed = " to ".join(("…" if bound is None else f"{bound:g}") for bound in (low, high))
        raise ModelError(f"'{name}' cannot be {value:g}: the FMU allows {allowed}")


def _misfits(
    description: ModelDescription, starts: Mapping[str, Values], new: set[str]
) -> list[tuple[str, str]]:
    """Arrays that have been given another size than their values, and names for one variable at odds."""
    by_name, sizes = description.by_name, sizes_of(description, starts)
    complaints = []
    leaders: dict[str, str] = {}
    for name, values in starts.items():
        variable = reshaped(by_name[name], sizes)
        if variable.dimensions and len(values) != variable.cells:
            what = (
                f"'{name}' was given {len(values)} values, and has {variable.cells} cells now: give them all"
            )
            complaints.append((name, what))
        leader = variable.alias_of or name
        first = leaders.setdefault(leader, name)
        if starts[first] != values:
            what = f"'{first}' and '{name}' are one variable: it cannot be both {starts[first]} and {values}"
            complaints.append((name if name in new else first, what))
    return complaints
