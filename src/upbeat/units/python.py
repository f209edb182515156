"""Units written in Python: classes, functions, and how they are called."""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any, ClassVar, Self, cast

from upbeat.core.abilities import Ability, KeptNumbers, Sampling, Unit, made
from upbeat.core.errors import ModelError, check_type, suggest
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.core.records import dataclass
from upbeat.units.discrete.model import dumps, loads
from upbeat.units.inputs import EXACT, InputTrajectories, check_packed, packed_size
from upbeat.units.shorthand import (
    Complaints,
    check_settable,
    check_unique,
    entries,
    is_empty,
    read_outputs,
    read_ports,
    unwrapped,
    with_starts,
)
from upbeat.units.shorthand import ports as read_all
from upbeat.units.solving.solvers import RK4, Euler, Solver, solver_from
from upbeat.units.solving.unit import Behaviour, Equation, ExactUnit, remembered

# ----------------------------------------------------------------------------------------------------
# Between the flat cells of a solved unit and what a user's Python function takes and returns.


def check_callable(where: str, given: object, complaints: Complaints) -> None:
    """Refuse anything that cannot be called."""
    if not callable(given):
        complaints.add(where, f"expected a function, not {given!r}")


def check_fields(ports: Iterable[Port], complaints: Complaints) -> None:
    """Refuse names that cannot be written as ``u.name``."""
    for port in ports:
        if port.name.startswith("_") or iskeyword(port.name):
            complaints.add(
                port.name,
                "a Python function reads this as an attribute, so it must not start with an underscore "
                "or be a Python keyword",
            )


def record(title: str, ports: Sequence[Port]) -> Callable[[Sequence[Any]], Any]:
    """A function from flat cells to a named tuple with one field per port; an array is a tuple."""
    kind = namedtuple(title, [port.name for port in ports])  # type: ignore[misc]
    if all(port.size is None for port in ports):
        return kind._make

    def make(cells: Sequence[Any]) -> Any:
        rest = iter(cells)
        return kind._make(
            next(rest) if port.size is None else tuple(next(rest) for _ in range(port.size)) for port in ports
        )

    return make


def flat(result: Any, ports: Sequence[Port], what: str) -> list[Any]:
    """What a function returned for `ports` (a mapping, a sequence, or a single value) as flat cells."""
    names = [port.name for port in ports]
    if result is None:
        raise ModelError(f"{what} returned nothing: is a 'return' missing? {_wanted(names)}")
    if isinstance(result, Mapping):
        for name in result:
            if name not in names:
                raise ModelError(f"{what} returned an unknown '{name}'. {suggest(str(name), names)}")
        for name in names:
            if name not in result:
                raise ModelError(f"{what} returned no value for '{name}'")
        values = [result[name] for name in names]
    elif isinstance(result, Iterable) and not isinstance(result, str):
        values = list(result)
        if len(ports) == 1 and ports[0].size == len(values) != 1:
            values = [values]  # the cells of the only port, without a list around it
    else:
        values = [result]
    if len(values) != len(ports):
        raise ModelError(
            f"{what} returned {len(values)} value(s), but {len(ports)} are needed: {', '.join(names)}"
        )
    return [cell for port, value in zip(ports, values, strict=True) for cell in cells_of(port, value, what)]


def _wanted(names: Sequence[str]) -> str:
    return f"It gives a value for {', '.join(names)}"


def cells_of(port: Port, value: Any, what: str) -> Sequence[Any]:
    """One value of a port as its cells."""
    if value is None:
        raise ModelError(f"{what} returned nothing for '{port.name}': is a 'return' missing?")
    if port.size is None:
        return (value,)
    cells = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if len(cells) != port.size:
        raise ModelError(
            f"{what} returned {len(cells)} value(s) for '{port.name}', which has {port.size} cells"
        )
    return cells


def slopes_of(result: Any, output: Port, given: Port) -> list[float]:
    """The slopes of one output by one input, row by row, in what a function of slopes returned.

    That is ``{output: {input: slope}}``. The slope is a number between single values; for arrays a list of
    rows, or of all entries.
    """
    import numpy as np  # only here: a process of one unit starts without it

    pair, shape = f"'{output.name}' by '{given.name}'", (output.cells, given.cells)
    try:
        slope = result[output.name][given.name]
    except (KeyError, IndexError, TypeError):
        raise ModelError(f"slopes returned none of {pair}: expected {{output: {{input: slope}}}}") from None
    try:
        entries = np.asarray(slope, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(
            f"slopes returned {slope!r} for {pair}, which is neither a number nor a matrix"
        ) from None
    count = output.cells * given.cells
    if entries.size != count or entries.shape not in ((), (count,), shape):
        raise ModelError(f"slopes returned {entries.shape} entries for {pair}, which has {shape}")
    return [float(entry) for entry in entries.ravel()]


# ----------------------------------------------------------------------------------------------------
# Units whose equations are Python functions: `PythonOde` and `PythonFunction`.


def _deliver(port: Port) -> Callable[[Any], Value]:
    return float if port.kind is Kind.REAL else port.accepted


Source = Callable[..., Any] | str | None
"""Where an output of a `PythonOde` comes from: its function, a state, or the common function `compute`."""


@dataclass(frozen=True, init=False)
class _Coded:
    """What the two share: ports, abilities, values."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[Port, ...]
    slopes: Callable[..., Any] | None

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters."""
        return (*self.inputs, *self.outputs, *self.parameters)

    @property
    def abilities(self) -> frozenset[Ability]:
        known = set() if self.slopes is None else {Ability.SLOPES}
        return frozenset({Ability.ROLLBACK, Ability.SERIALISE, *known})

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same model with other parameters, input starts or state starts."""
        groups = {name: getattr(self, name, ()) for name in ("parameters", "states", "inputs")}
        check_settable(values, [port.name for group in groups.values() for port in group])
        changed = copy.copy(self)
        changed._fix(**{name: with_starts(group, values) for name, group in groups.items() if group})
        return changed

    def _fix(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _slope(self, arguments: Callable[..., tuple[Any, ...]]) -> Callable[[str, str], Equation] | None:
        """The slopes by pair, where `arguments` makes what the user's functions take of (t, x, u)."""
        function = self.slopes
        if function is None:
            return None
        known = {port.name: port for port in self.ports}

        def slope(output: str, given: str) -> Equation:
            return lambda t, x, u: slopes_of(function(*arguments(t, x, u)), known[output], known[given])

        return slope

    @property
    def remembers(self) -> tuple[str, ...]:
        """What the bytes of its states hold: those of a model that remembers something else are refused."""
        return remembered(getattr(self, "states", ()), getattr(self, "solver", Euler()))

    def fixed(self, parameter: str) -> str | None:
        """None: the functions are given all parameters whenever they are called."""
        return None

    def _unit(
        self, start: float, solver: Solver, state: Sequence[Port], given: _Parameters, **equations: Any
    ) -> ExactUnit:
        values = tuple(float(value) for port in state for value in port.initial)
        behaviour = Behaviour(
            self.inputs, self.outputs, values, solver, convert=EXACT, deliver=_deliver,
            parameters=self.parameters, tune=given.tune,
            names=tuple(name for port in state for name in cell_names(port.name, port.size)), **equations,
        )  # fmt: skip
        return ExactUnit(behaviour, start)


class _Parameters:
    """The parameters of one unit, as the user's functions take them: `p`."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self._record = record("p", ports)
        self._cells = [value for port in ports for value in port.initial]
        self.p = self._record(self._cells)

    def tune(self, first: int, cells: list[Any]) -> None:
        """Other values for some cells."""
        self._cells[first : first + len(cells)] = cells
        self.p = self._record(self._cells)


@dataclass(frozen=True, init=False)
class PythonOde(_Coded):
    """Differential equations as a Python function.

        PythonOde(lambda t, x, u, p: {"x": x.v, "v": u.F - p.k * x.x}, states={"x": 1.0, "v": 0.0},
                  inputs=["F"], parameters={"k": 4.0}, outputs=["x"])

    `derivatives(t, x, u, p)` is given the time and named tuples of states, inputs and parameters (an
    array is a tuple) and returns a mapping, or a sequence in the order of `states`. It must be pure.

    `outputs` is a list of names, or a table from name to a function of (t, x, u, p), to the name of a
    state, or to an entry ``{"value": …, "unit": …, "depends": […]}``. Names that are no state and have no
    function of their own come from `compute(t, x, u, p)`, which returns a mapping or a sequence.
    Code cannot be searched for the inputs it reads: what a function computes counts as depending directly
    on all inputs, unless `depends` says on which. Without `outputs`, all states are given out.

    `slopes(t, x, u, p)`, if it is given, returns the derivatives of outputs by the inputs that they depend on
    directly, as ``{output: {input: slope}}``; for arrays a slope is a list of rows. They serve to solve
    algebraic loops.
    """

    derivatives: Callable[..., Any]
    states: tuple[Port, ...]
    sources: tuple[Source, ...]
    compute: Callable[..., Any] | None
    solver: Solver

    def __init__(
        self,
        derivatives: Callable[..., Any],
        states: Mapping[str, Any] | Sequence[Port],
        *,
        inputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        outputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        compute: Callable[..., Any] | None = None,
        parameters: Mapping[str, Any] | Sequence[Port] | None = None,
        solver: Solver | str | Mapping[str, Any] | None = None,
        slopes: Callable[..., Any] | None = None,
        sources: Sequence[Source] | None = None,
    ) -> None:
        complaints = Complaints()
        check_callable("derivatives", derivatives, complaints)
        if slopes is not None:
            check_callable("slopes", slopes, complaints)
        known = _read_states(states, complaints)
        given = read_ports(inputs, Causality.INPUT, "inputs", complaints)
        table = entries(list(known) if outputs is None else outputs, "outputs", complaints)
        if sources is None:  # else `dataclasses.replace` hands back what was found here before
            sources = [_source(name, table, known, compute, complaints) for name in table]
        computed = read_outputs(table, given, "outputs", complaints)
        values = read_ports(parameters, Causality.PARAMETER, "parameters", complaints)
        arguments = (*given, *known.values(), *values)
        check_unique(arguments, complaints)
        check_unique((*given, *computed, *values), complaints)
        check_fields(arguments, complaints)
        with complaints.at("solver"):
            self._fix(solver=RK4() if solver is None else solver_from(solver))
        check_type(sources, (tuple, list), "sources")
        complaints.raise_if_any()
        self._fix(
            derivatives=derivatives, states=tuple(known.values()), sources=tuple(sources), compute=compute
        )
        self._fix(inputs=given, outputs=computed, parameters=values, slopes=slopes)

    def instantiate(self, name: str, start: float) -> ExactUnit:
        """A unit in its start state."""
        of_states, of_inputs = record("x", self.states), record("u", self.inputs)
        own = _Parameters(self.parameters)
        pairs = tuple(zip(self.outputs, self.sources, strict=True))
        shared = [port for port, source in pairs if source is None]

        def derivatives(t: float, x: Sequence[float], u: Sequence[Any]) -> list[float]:
            result = self.derivatives(t, of_states(x), of_inputs(u), own.p)
            return [float(value) for value in flat(result, self.states, "the function of the derivatives")]

        def compute(t: float, x: Sequence[float], u: Sequence[Any]) -> list[Any]:
            given = (t, of_states(x), of_inputs(u), own.p)
            common = iter(flat(self.compute(*given), shared, "compute") if shared and self.compute else ())
            cells: list[Any] = []
            for port, source in pairs:
                if source is None:
                    cells += [next(common) for _ in range(port.cells)]
                else:
                    value = getattr(given[1], source) if isinstance(source, str) else source(*given)
                    cells += cells_of(port, value, f"the function of output '{port.name}'")
            return cells

        slope = self._slope(lambda t, x, u: (t, of_states(x), of_inputs(u), own.p))
        return self._unit(
            start, self.solver, self.states, own, derivatives=derivatives, compute=compute, slope=slope
        )


def _read_states(given: object, complaints: Complaints) -> dict[str, Port]:
    ports = read_ports(given, Causality.PARAMETER, "states", complaints)  # like a parameter: a value to set
    for port in ports:
        if port.kind is not Kind.REAL:
            complaints.add(f"states.{port.name}", "a state is real, and its start value a number")
    if is_empty(given):
        complaints.add("states", "an ode needs at least one state; without any it is a PythonFunction")
    return {port.name: port for port in ports}


def _source(
    name: str,
    table: dict[str, Any],
    states: Mapping[str, Port],
    compute: Callable[..., Any] | None,
    complaints: Complaints,
) -> Source:
    """Where output `name` comes from. Its entry in `table` is completed on the way."""
    entry = table[name] if isinstance(table[name], Mapping) else {"value": table[name]}
    source = entry.get("value", name if name in states else None)
    table[name] = {key: value for key, value in entry.items() if key != "value"}
    where = f"outputs.{name}"
    if isinstance(source, str):
        if source in states:
            state = states[source]
            table[name] = {"unit": state.unit, "depends": (), **table[name], "size": state.size}
        else:
            complaints.add(where, f"there is no state '{source}'. {suggest(source, states, 'states')}")
    elif source is None and compute is None:
        hint = suggest(name, states, "states")
        complaints.add(where, f"this is no state and has no function. {hint} Or give a function compute=…")
    elif source is not None:
        check_callable(where, source, complaints)
    return source if source is None or isinstance(source, str) or callable(source) else None


@dataclass(frozen=True, init=False)
class PythonFunction(_Coded):
    """Algebraic equations as a Python function, without memory.

        PythonFunction(lambda t, u, p: u.a * p.gain, inputs=["a"], outputs=["y"], parameters={"gain": 2.0})

    `function(t, u, p)` is given the time and named tuples of inputs and parameters, and returns a mapping,
    a sequence in the order of `outputs`, or the value of the only output. It must be pure. Every output
    counts as depending directly on all inputs, unless its `depends` says on which. `slopes(t, u, p)`, if it
    is given, returns the derivatives of outputs by inputs, as for `PythonOde`: ``{"y": {"a": p.gain}}``.
    """

    function: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        outputs: Mapping[str, Any] | Sequence[str | Port] = ("y",),
        *,
        parameters: Mapping[str, Any] | Sequence[Port] | None = None,
        slopes: Callable[..., Any] | None = None,
    ) -> None:
        complaints = Complaints()
        check_callable("function", function, complaints)
        if slopes is not None:
            check_callable("slopes", slopes, complaints)
        given = read_ports(inputs, Causality.INPUT, "inputs", complaints)
        computed = read_outputs(entries(outputs, "outputs", complaints), given, "outputs", complaints)
        values = read_ports(parameters, Causality.PARAMETER, "parameters", complaints)
        check_unique((*given, *computed, *values), complaints)
        check_fields((*given, *values), complaints)
        if is_empty(outputs):
            complaints.add("outputs", "a function needs at least one output")
        complaints.raise_if_any()
        self._fix(function=function, inputs=given, outputs=computed, parameters=values, slopes=slopes)

    def instantiate(self, name: str, start: float) -> ExactUnit:
        """A unit; its only memory are its inputs."""
        of_inputs = record("u", self.inputs)
        own = _Parameters(self.parameters)

        def compute(t: float, x: Sequence[float], u: Sequence[Any]) -> list[Any]:
            return flat(self.function(t, of_inputs(u), own.p), self.outputs, "the function")

        slope = self._slope(lambda t, x, u: (t, of_inputs(u), own.p))
        return self._unit(start, Euler(), (), own, derivatives=compute, compute=compute, slope=slope)


# ----------------------------------------------------------------------------------------------------
# `PythonUnit`: any Python object with the few calls of a unit as one, at a rate of its own if it has one.

Factory = Callable[[str, float, dict[str, Signal]], Any]
"""Makes a unit from its name, the start time and the values of its parameters."""

_NOT_SAMPLED = frozenset({Ability.SLOPES, Ability.EARLY_RETURN, Ability.INDICATORS})
"""What an object may promise and is never asked for between two samples."""


@dataclass(frozen=True)
class PythonUnit:
    """A model whose units are made by your own code.

        PythonUnit(Thermostat, inputs=["T"], outputs={"on": {"kind": "boolean"}}, parameters={"limit": 21.0})

    `factory(name, start, parameters)` returns an object with the calls of `upbeat.core.abilities.Unit`, and
    `set` if it has inputs, whose start values it is told at once (0 where none is given). In place of
    `inputs`, `outputs` and `parameters`, `ports` may be a sequence of `Port`s, such as `upbeat.units.ports`
    makes. An enumeration may be given out by label or by index. `abilities` are promises that the object
    keeps, such as `Ability.ROLLBACK`; their names in lower case will do.

    Without a `sample_time` the object is advanced from one communication point to the next, whatever their
    distance. With one it runs at its own rate in every run: at the start and every `sample_time` after it,
    and at no other time, the object is advanced by a whole `sample_time`, told the inputs of that instant,
    and asked for its outputs, which are held until the next. These instants are communication points.
    """

    factory: Factory
    ports: tuple[Port, ...]
    abilities: frozenset[Ability] = frozenset()
    sample_time: float | None = None
    open_tokens: ClassVar[bool] = True

    def __init__(
        self,
        factory: Factory,
        ports: Iterable[Port] | None = None,
        abilities: Iterable[Ability | str] = (),
        *,
        inputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        outputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        parameters: Mapping[str, Any] | Sequence[Port] | None = None,
        sample_time: float | None = None,
    ) -> None:
        complaints = Complaints()
        check_callable("factory", factory, complaints)
        declared = _declared(ports, (inputs, outputs, parameters), complaints)
        promised: frozenset[Ability] = frozenset()
        with complaints.at("abilities"):
            promised = Ability.read(abilities)
        if Ability.NATIVE in promised:
            complaints.add("abilities", "a Python object cannot run inside the native engine; see NativeUnit")
        check_unique(declared, complaints)
        if sample_time is not None:
            check_sampled(declared, sample_time, complaints)
            # What is held does not follow the inputs, and the next sample is an event whose time is known.
            declared = tuple(
                replace(port, depends=frozenset()) if port.causality is Causality.OUTPUT else port
                for port in declared
            )
            promised = (promised - _NOT_SAMPLED) | {Ability.NEXT_EVENT}
        complaints.raise_if_any()
        object.__setattr__(self, "factory", factory)
        object.__setattr__(self, "ports", declared)
        object.__setattr__(self, "abilities", promised)
        object.__setattr__(self, "sample_time", None if sample_time is None else float(sample_time))

    def instantiate(self, name: str, start: float) -> Unit:
        """What the factory makes, if it has the calls that the engine will use."""
        object_itself = self.factory(name, start, self._values())
        if self.sample_time is None:
            unit = made(self, object_itself, name)
        else:
            unit = made(self, object_itself, name, without=Ability.NEXT_EVENT)
        labelled = {
            port.name: port for port in self.ports if port.items and port.causality is Causality.OUTPUT
        }
        for port in self.ports:  # an input that nothing drives keeps its start value
            if port.causality is Causality.INPUT and not port.event:
                unit.set(port.name, [_signal(port)])
        unit = _Labelled(unit, labelled) if labelled else unit
        if self.sample_time is not None:
            unit = Sampled(unit, self.ports, self.sample_time, start)
        return cast(Unit, unit)

    def sampled(self, period: float) -> PythonUnit:
        """The same model with this sample time."""
        return replace(self, sample_time=period)

    def reacting(self, input: str, reactive: bool) -> PythonUnit:
        """The same model, with an input that expects the value at the end of a step, or at its start."""
        ports = (replace(port, reactive=reactive) if port.name == input else port for port in self.ports)
        return replace(self, ports=tuple(ports))

    def _values(self) -> dict[str, Signal]:
        parameters = [port for port in self.ports if port.causality is Causality.PARAMETER]
        return {port.name: _signal(port) for port in parameters}

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> PythonUnit:
        """The same model with other parameters or input starts."""
        check_settable(values, [port.name for port in self.ports if port.causality is not Causality.OUTPUT])
        return replace(self, ports=with_starts(self.ports, values))


def _declared(
    ports: Iterable[Port] | None, parts: tuple[Any, Any, Any], complaints: Complaints
) -> tuple[Port, ...]:
    """The ports, given as such or by inputs, outputs and parameters."""
    if ports is None:
        with complaints.at(""):
            return read_all(*(() if part is None else part for part in parts))
        return ()
    if any(part is not None for part in parts):
        complaints.add("ports", "given together with inputs, outputs or parameters: keep one of the two ways")
    listed = tuple(ports) if isinstance(ports, Iterable) and not isinstance(ports, str) else (ports,)
    odd = [port for port in listed if not isinstance(port, Port)]
    if odd:
        complaints.add(
            "ports",
            f"expected Ports, not {odd[0]!r}: a name does not say whether it goes in or out. Write "
            'PythonUnit(factory, inputs=["u"], outputs=["y"])',
        )
    return tuple(port for port in listed if isinstance(port, Port))


def check_sampled(
    ports: Sequence[Port], period: Any, complaints: Complaints, where: str = "sample_time"
) -> None:
    """What a unit cannot have if it runs at a rate of its own."""
    number = isinstance(period, (int, float)) and not isinstance(period, bool)
    if not number or not 0.0 < period < 1e300:
        complaints.add(where, f"a sample time is a number of seconds above 0, not {period!r}")
    for port in ports:
        if port.event:
            complaints.add(port.name, "a unit with a sample time has no event ports: see PythonDiscrete")


def _signal(port: Port) -> Signal:
    return port.initial if port.size is not None else port.initial[0]


class _Labelled:
    """A unit that may give its enumerations by label or by index; anything else is refused."""

    def __init__(self, unit: Unit, ports: Mapping[str, Port]) -> None:
        self._unit = unit
        self._ports = ports

    def __getattr__(self, call: str) -> Any:
        return getattr(self._unit, call)

    def get(self, port: str) -> Signal | None:
        given = self._unit.get(port)
        if port not in self._ports or given is None:
            return given
        cells = self._ports[port].accept(given)
        return cells[0] if self._ports[port].size is None else cells


class Sampled:
    """A unit that runs another one at instants `period` apart: the map over a period, and held outputs.

    The unit inside sees no other steps than whole periods, with inputs that are constant. Samples are jumps
    at times that are known before (`due`), computed from their number.
    """

    def __init__(self, unit: Any, ports: Sequence[Port], period: float, start: float) -> None:
        self._unit = unit
        self._inputs = [port for port in ports if port.causality is Causality.INPUT]
        self._outputs = [port for port in ports if port.causality is Causality.OUTPUT]
        self._trajectories = InputTrajectories(self._inputs, start, EXACT)
        self._period, self._start = period, start
        self._time = start
        self._count = 0  # samples so far
        self._held = self._shown()

    @property
    def time(self) -> float:
        """Its own time: that of the last sample or later."""
        return self._time

    def _shown(self) -> dict[str, Any]:
        """The outputs, as plain values: what the unit goes on writing into is not what it gave out."""
        given = {port.name: unwrapped(self._unit.get(port.name)) for port in self._outputs}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    def get(self, port: str) -> Signal | None:
        """What the last sample gave."""
        return cast(Signal, self._held[port])

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """The trajectory of an input, for the next sample to look at."""
        self._trajectories.set(port, self._time, coefficients)

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Nothing happens between samples."""
        self._time = to
        return to

    def due(self) -> float:
        """The time of the next sample."""
        return self._start + self._count * self._period

    def jump(self) -> bool:
        """A sample, if one is due."""
        now = self.due()
        if now > self._time:
            return False
        if self._count:
            before = self._start + (self._count - 1) * self._period
            reached = self._unit.advance(before, now, False)
            if reached != now:
                raise ModelError(
                    f"advance({before:.9g}, {now:.9g}) gave {reached!r}: end it with 'return to'"
                )
        cells = iter(self._trajectories.at(self._time))
        for port in self._inputs:
            values = tuple(next(cells) for _ in range(port.cells))
            self._unit.set(port.name, [values[0] if port.size is None else values])
        self._held = self._shown()
        self._count += 1
        return False

    def save(self) -> Any:
        """Everything, inputs included."""
        return self._time, self._count, tuple(self._trajectories.pack()), dict(self._held), self._unit.save()

    def kept_numbers(self) -> KeptNumbers:
        """What it holds, and the states of the unit inside; it counts its samples."""
        held = tuple((3, port.name) for port in self._outputs)
        return KeptNumbers(held, times=((1,),), sampling=Sampling(self._unit, self._period, (4,)))

    def restore(self, token: Any) -> None:
        """Set back to what `save` gave."""
        self._time, self._count, trajectories, held, inside = token
        self._trajectories.unpack(trajectories)
        self._held = dict(held)
        self._unit.restore(inside)

    def to_bytes(self, token: Any) -> bytes:
        """A text of plain values, the bytes of the unit inside among them."""
        return dumps((*token[:-1], self._unit.to_bytes(token[-1]))).encode()

    def from_bytes(self, data: bytes) -> Any:
        """The token that `to_bytes` was given."""
        try:
            time, count, trajectories, held, inside = loads(data)
            if type(time) is not float or type(count) is not int or type(inside) is not bytes:
                raise ValueError("expected a time, a count, inputs, outputs and bytes")
            if not isinstance(held, dict) or held.keys() != self._held.keys():
                raise ValueError("it has other outputs")
            if len(trajectories) != packed_size(self._inputs):
                raise ValueError("it has other inputs")
        except (TypeError, ValueError) as error:
            raise ModelError(f"not a state of this unit: {error}") from None
        check_packed(self._inputs, trajectories)
        return time, count, trajectories, held, self._unit.from_bytes(inside)

    def close(self) -> None:
        """Let the unit go, if it wants to be told."""
        getattr(self._unit, "close", lambda: None)()
