"""`PythonUnit`: any Python object with the few calls of a unit as one, at a rate of its own if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from upbeat.core.abilities import Ability, Unit, made
from upbeat.core.errors import ModelError
from upbeat.core.ports import Causality, Port, Signal, Value
from upbeat.units.calls import check_callable
from upbeat.units.discrete.literal import dumps, loads
from upbeat.units.inputs import EXACT, Courses, check_packed, packed_size
from upbeat.units.shorthand import Complaints, check_settable, check_unique, unwrapped, with_starts
from upbeat.units.shorthand import ports as read_all

Factory = Callable[[str, float, dict[str, Signal]], Any]
"""Makes a unit from its name, the start time and the values of its parameters."""

_NOT_SAMPLED = frozenset({Ability.SLOPES, Ability.EARLY_RETURN, Ability.INDICATORS})
"""What an object may promise and nobody asks of it between two samples."""


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
            _check_sampled(declared, sample_time, complaints)
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
        complaints.add("ports", "given beside inputs, outputs or parameters: keep one of the two ways")
    listed = tuple(ports) if isinstance(ports, Iterable) and not isinstance(ports, str) else (ports,)
    odd = [port for port in listed if not isinstance(port, Port)]
    if odd:
        complaints.add(
            "ports",
            f"expected Ports, not {odd[0]!r}: a name does not say whether it goes in or out. Write "
            'PythonUnit(factory, inputs=["u"], outputs=["y"])',
        )
    return tuple(port for port in listed if isinstance(port, Port))


def _check_sampled(ports: Sequence[Port], sample_time: Any, complaints: Complaints) -> None:
    number = isinstance(sample_time, (int, float)) and not isinstance(sample_time, bool)
    if not number or not 0.0 < sample_time < 1e300:
        complaints.add("sample_time", f"a sample time is a number of seconds above 0, not {sample_time!r}")
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
        self._courses = Courses(self._inputs, start, EXACT)
        self._period, self._start = period, start
        self._time = start
        self._count = 0  # samples so far
        self._held = self._shown()

    @property
    def inside(self) -> Any:
        """The unit that it runs."""
        return self._unit

    @property
    def time(self) -> float:
        """Its own time: that of the last sample or later."""
        return self._time

    @property
    def period(self) -> float:
        """The time between two samples."""
        return self._period

    def _shown(self) -> dict[str, Any]:
        """The outputs, as plain values: what the unit goes on writing into is not what it gave out."""
        given = {port.name: unwrapped(self._unit.get(port.name)) for port in self._outputs}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    def get(self, port: str) -> Signal | None:
        """What the last sample gave."""
        return cast(Signal, self._held[port])

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """The course of an input, for the next sample to look at."""
        self._courses.set(port, self._time, coefficients)

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
        cells = iter(self._courses.at(self._time))
        for port in self._inputs:
            values = tuple(next(cells) for _ in range(port.cells))
            self._unit.set(port.name, [values[0] if port.size is None else values])
        self._held = self._shown()
        self._count += 1
        return False

    def save(self) -> Any:
        """Everything, inputs included."""
        return self._time, self._count, tuple(self._courses.pack()), dict(self._held), self._unit.save()

    def restore(self, token: Any) -> None:
        """Set back to what `save` gave."""
        self._time, self._count, courses, held, inside = token
        self._courses.unpack(courses)
        self._held = dict(held)
        self._unit.restore(inside)

    def to_bytes(self, token: Any) -> bytes:
        """A text of plain values, the bytes of the unit inside among them."""
        return dumps((*token[:-1], self._unit.to_bytes(token[-1]))).encode()

    def from_bytes(self, data: bytes) -> Any:
        """The token that `to_bytes` was given."""
        try:
            time, count, courses, held, inside = loads(data)
            if type(time) is not float or type(count) is not int or type(inside) is not bytes:
                raise ValueError("expected a time, a count, inputs, outputs and bytes")
            if not isinstance(held, dict) or held.keys() != self._held.keys():
                raise ValueError("it has other outputs")
            if len(courses) != packed_size(self._inputs):
                raise ValueError("it has other inputs")
        except (TypeError, ValueError) as error:
            raise ModelError(f"not a state of this unit: {error}") from None
        check_packed(self._inputs, courses)
        return time, count, courses, held, self._unit.from_bytes(inside)

    def close(self) -> None:
        """Let the unit go, if it wants to be told."""
        getattr(self._unit, "close", lambda: None)()
