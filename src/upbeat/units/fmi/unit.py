"""From a model to a running unit: unpacked, loaded, instantiated, initialised, and then run by the core.

The unit itself is in native/fmi. The engines drive one and the same: the native one takes it as it is
(`entered`), the interpreter calls it through `FmuUnit`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from ctypes import c_float
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Ability, Columns, Core, StateAccess, Unit
from upbeat.core.errors import ModelError, suggest
from upbeat.core.names import cell_names
from upbeat.core.plain import Place, Places
from upbeat.core.ports import Causality, Kind, Port, Signal, Value, Values
from upbeat.units.fmi.archive import begin, end, folder_of
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import CoSimulation, Initial, ModelDescription, Type, Variable
from upbeat.units.fmi.instance import TYPES, FmuError, Instance, core, fitting, instantiate
from upbeat.units.fmi.ports import Layout, has_events, reshaped, sizes_of
from upbeat.units.fmi.tables import Keeper, can_follow, lower, lower_exchange
from upbeat.units.inputs import MAX_DEGREE, NUMBERS
from upbeat.units.solving.integrate import Jacobian, Multistep, SolverStatistics, Watch
from upbeat.units.solving.solvers import Cvode, Solver
from upbeat.units.solving.unit import Behaviour, from_number

if TYPE_CHECKING:
    from upbeat import _native
    from upbeat.units.fmi.model import Fmu

_KINDS = {kind: number for number, kind in enumerate(Kind)}
_MAX_SHOWN = 5
"""Violations of the standard that a run warns of, one by one."""

Given = list[tuple[Variable, Values]]


def launch(model: Fmu, name: str, start: float) -> Unit:
    """A unit in initialization mode, for the interpreter."""
    instance, native = _made(model, name, start)
    kind = PackableFmuUnit if Ability.SERIALISE in model.abilities else FmuUnit
    solver = None if isinstance(model.interface, CoSimulation) else model.effective_solver
    return kind(native, model.ports, model.layout, instance, solver)


def enter(model: Fmu, core: Core, name: str, start: float) -> object:
    """A unit in initialization mode, which belongs to the core."""
    return _made(model, name, start)[1]


def _made(model: Fmu, name: str, start: float) -> tuple[Instance, _native.Fmu]:
    instance, gone = initialized(model, name, start)
    try:
        return instance, unit_of(instance, model, start, gone)
    except BaseException:
        instance.free()
        gone()
        raise


def unit_of(instance: Instance, model: Fmu, start: float, gone: Callable[[], None]) -> _native.Fmu:
    """The unit of an instance that is in initialization mode; `gone` is called when it has been freed."""
    other: WithCvode | None = None
    tables: Any
    if isinstance(model.interface, CoSimulation):
        counted = len(model.layout.ports) if model.counted else -1
        tables = lower(instance, model.layout, start, model.step, counted)
        if (given := numbers_given(model)) is not None:
            stop = None if model.stop is None or model.stop <= start else model.stop
            tables = replace(tables, resets=True, given=given, stop=stop, tolerance=model.solver_tolerance)
    else:
        solver = model.effective_solver
        other = WithCvode(solver, instance) if isinstance(solver, Cvode) else None
        tables = lower_exchange(instance, model.layout, model.ports, start, model.step, solver, other)
    made: _native.Fmu = core().Fmu(instance.native, tables, rows(model.ports), Keeper(instance.journal, gone))
    if other is not None:
        other.drive(made)
    return made


def rows(ports: Sequence[Port]) -> list[tuple[int, int, bool]]:
    """Ports as the core takes them: kind, size (-1 for a scalar), and whether they are events."""
    return [(_KINDS[port.kind], -1 if port.size is None else port.size, port.event) for port in ports]


def initialized(model: Fmu, name: str, start: float) -> tuple[Instance, Callable[[], None]]:
    """An instance with its start values, in initialization mode; and what to call when it has been freed."""
    core()  # before anything is unpacked
    description, interface = model.description, model.interface
    identifier = interface.model_identifier
    if not begin(model.key, identifier, only_once=interface.only_once_per_process):
        raise FmuError(
            f"{model.path.name} can be instantiated only once per process, and it is running here already. "
            'Run the others in processes of their own: isolation = "process"'
        )

    def gone() -> None:
        end(model.key, identifier)

    try:
        co_simulation = interface if isinstance(interface, CoSimulation) else None
        inputs = [variable for _, variable in model.layout.of(Causality.INPUT)]
        followed = [v for v in inputs if description.version == 3 and can_follow(description, interface, v)]
        instance = instantiate(
            folder_of(model.key),
            description,
            interface.kind,
            name,
            logging=model.logging,
            event_mode=co_simulation is not None and has_events(description, interface),
            early_return=co_simulation is not None and co_simulation.may_return_early,
            required=followed,
        )
        try:
            _initialize(instance, model, start)
        except BaseException:
            instance.free()
            raise
    except BaseException:
        gone()
        raise
    return instance, gone


def _initialize(instance: Instance, model: Fmu, start: float) -> None:
    structural, others = _given(model)
    if structural:
        instance.enter_configuration()
        _give(instance, structural)
        instance.exit_configuration()
    stop = None if model.stop is None or model.stop <= start else model.stop
    instance.enter_initialization(start, stop, model.solver_tolerance, lambda: _give(instance, others))
    _read_back(instance, structural + others)
    violations = model.description.violations
    for note in violations[:_MAX_SHOWN]:
        instance.note(f"against the standard, but it runs: modelDescription.xml, {note}")
    if len(violations) > _MAX_SHOWN:
        instance.note(f"… and {len(violations) - _MAX_SHOWN} violations more (upbeat check)")


def _given(model: Fmu) -> tuple[Given, Given]:
    """What was given, nothing else: the FMU knows its own start values. Sizes of arrays apart."""
    description, starts = model.description, dict(model.starts)
    sizes = sizes_of(description, starts)
    found: tuple[Given, Given] = [], []
    for name, values in starts.items():
        variable = reshaped(description.by_name[name], sizes)
        found[variable.causality is not Role.STRUCTURAL_PARAMETER].append((variable, values))
    return found


def numbers_given(model: Fmu) -> tuple[tuple[int, int, str, tuple[float, ...]], ...] | None:
    """The given start values, as the core sets them again after a reset: numbers, all of them.

    None where the FMU has to be instantiated again: texts, sizes of arrays, model exchange.
    """
    structural, others = _given(model)
    if structural or not isinstance(model.interface, CoSimulation):
        return None
    if any(isinstance(value, str) for _, values in others for value in values):
        return None
    return tuple(
        (TYPES[variable.type], variable.reference, variable.name, tuple(float(v) for v in values))
        for variable, values in others
    )


def _give(instance: Instance, given: Given) -> None:
    for variable, values in given:
        instance.writer(variable)(values if variable.dimensions else values[0])


def _read_back(instance: Instance, given: Given) -> None:
    """Some FMUs lose values that they accepted: what did not take is told by name."""
    for variable, values in given:
        if variable.initial is Initial.APPROX:  # the FMU may look for a better one
            continue
        try:
            read = instance.reader(variable)()
        except FmuError as error:
            if error.fatal:
                raise
            instance.note(f"'{variable.name}' was set, but cannot be read back: {error}")
            continue
        found = read if isinstance(read, (tuple, list)) else (read,)
        if not all(map(_same, [variable.type] * len(values), values, found)):
            given_as, found_as = (_shown(variable, cells) for cells in (values, tuple(found)))
            instance.note(
                f"'{variable.name}' was set to {given_as}, but the FMU has {found_as}: the value did not take"
            )


def _same(type: Type, given: Value, found: Value) -> bool:
    if type is Type.FLOAT32 and isinstance(given, (int, float)):
        given = c_float(given).value
    if type is Type.BINARY and isinstance(given, str) and isinstance(found, str):
        return given.lower() == found.lower()
    return given == found or (given != given and found != found)


def _shown(variable: Variable, cells: Sequence[Value]) -> str:
    return repr(tuple(cells) if variable.dimensions else cells[0])


# -- the unit as Python calls it -------------------------------------------------------------------------


class FmuUnit:
    """A unit of the core, called by the names of its ports."""

    def __init__(
        self,
        native: _native.Fmu,
        ports: Sequence[Port],
        layout: Layout,
        instance: Instance,
        solver: Solver | None = None,
    ) -> None:
        self.native = native
        self.instance = instance
        """The FMU, for those who look at more of it than its ports."""
        self.solver = solver
        """The one that integrates it (model exchange)."""
        self._ports = ports
        self._variables = layout.variables
        self._journal = instance.journal
        tunable = {port.name for port, _ in layout.tunable}
        self._outputs = {p.name: n for n, p in enumerate(ports) if p.causality is Causality.OUTPUT}
        self._inputs = {
            p.name: n for n, p in enumerate(ports) if p.causality is Causality.INPUT or p.name in tunable
        }
        self._places = Places()

    @property
    def time(self) -> float:
        """Its own time."""
        return self.native.time

    def get(self, port: str) -> Signal | None:
        """An output now; of a clocked one the value at the last tick, of an event None if it is absent."""
        number = self._outputs.get(port)
        if number is None:
            raise ModelError(f"there is no output '{port}'. {suggest(port, self._outputs, 'outputs')}")
        if self._journal.news:
            self._journal.settle()
        found: Signal | None = self.native.get(number)
        return found

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k, as far as the FMU can follow that."""
        number = self._inputs.get(port)
        if number is None:
            raise ModelError(f"there is no input '{port}'. {suggest(port, self._inputs, 'inputs')}")
        if self._journal.news:
            self._journal.settle()
        try:
            self.native.set(number, coefficients)
        except (TypeError, ValueError, OverflowError):
            if self._ports[number].event:  # whatever it carries: a clock ticks
                self.native.set(number, [True])
            else:
                self.native.set(number, self._fitting(self._ports[number], coefficients))

    def _fitting(self, port: Port, coefficients: Sequence[Any]) -> list[Any]:
        """The same as the core takes it; raises what is wrong with it."""
        max_degree = MAX_DEGREE if port.kind is Kind.REAL else 0
        if not 1 <= len(coefficients) <= max_degree + 1:
            raise ModelError(
                f"input '{port.name}' ({port.kind.value}) takes polynomials of degree 0 to {max_degree}, "
                f"not {len(coefficients)} coefficients"
            )
        variable = self._variables[port.name]
        if port.size is None:
            return [fitting(variable, value) for value in coefficients]
        for row in coefficients:
            if len(row) != port.size:
                raise ModelError(
                    f"input '{port.name}' has {port.size} cells, but was given {len(row)} values"
                )
        return [[fitting(variable, value, row) for value in row] for row in coefficients]

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Simulate from `t` to `to`; with `early` no further than the first event or refusal."""
        if self._journal.news:
            self._journal.settle()
        return self.native.advance(t, to, early)

    def due(self) -> float:
        """When something happens by itself: now, if the FMU waits for event mode."""
        return self.native.due()

    def jump(self) -> bool:
        """One round of event mode, if there is something to do; what ticked is sent by the next jump."""
        if self._journal.news:
            self._journal.settle()
        return self.native.jump()

    def slope(self, output: str, input: str) -> Sequence[float]:
        """The derivatives of an output by an input, row by row."""
        return self.native.slope(self._outputs[output], self._inputs[input])

    def save(self) -> Place:
        """The FMU's state, and that of the unit. It may be restored many times."""
        place = self._places.take()
        self.native.save(place.number)
        return place

    def restore(self, token: Place) -> None:
        """Set the FMU and everything here back."""
        self.native.restore(token.number)

    def close(self) -> None:
        """Terminate if that makes sense, then free the instance with its states, whatever else fails."""
        self.native.close()

    # -- what only FMUs have ---------------------------------------------------------------------

    @property
    def statistics(self) -> SolverStatistics | None:
        """How hard our solver has worked; None if there is none that counts."""
        found = self.native.statistics()
        return None if found is None else SolverStatistics(*found)

    def take_any_length(self) -> None:
        """Try steps of all lengths, whatever the FMU declares: for those who measure what it can do."""
        self.native.take_any_length()

    def indicators(self) -> Sequence[float]:
        """The FMU's event indicators, now (model exchange)."""
        return self.native.look()

    # -- what is known of its states: equations in model exchange, derivatives where it tells them ---------

    @property
    def state(self) -> tuple[float, ...]:
        """The continuous states now (model exchange)."""
        return tuple(self.native.states())

    def put(self, state: Sequence[float]) -> None:
        """Other states from now on, in continuous time: for those who ask what would be if."""
        self.native.put(list(state))

    def inputs_at(self, t: float) -> list[float]:
        """What the cells of all real inputs are at `t` (model exchange)."""
        return self.native.inputs_at(t)

    @property
    def constants(self) -> None:
        """Nothing is known of them."""
        return None

    @cached_property
    def behaviour(self) -> Behaviour | None:
        """Its equations, as the core asks for them (model exchange)."""
        if self.solver is None:
            return None
        states = self._states
        names = [cell for state in states for cell in cell_names(state.name, _size(state))]
        inputs = [self._variables[port.name] for port in self._real(Causality.INPUT)]
        self._writers = [
            self.instance.writer(variable, port.size)
            for variable, port in zip(inputs, self._real(Causality.INPUT), strict=True)
        ]
        return Behaviour(
            inputs=self._real(Causality.INPUT),
            outputs=self._real(Causality.OUTPUT),
            state=(),
            solver=self.solver,
            derivatives=lambda t, x, u: self._at(t, x, u, self.instance.derivatives) if x else (),
            compute=lambda t, x, u: self._at(t, x, u, self._cells_now),
            convert=NUMBERS,
            deliver=from_number,
            names=tuple(names),
            jacobian=(lambda given, t, x, u: self._at(t, x, u, lambda: self._slopes(given)))
            if self._knows_slopes and self._scalar
            else None,
            nominal=tuple(size for one in (*states, *inputs) for size in (_nominal(one),) * one.cells),
            pure=False,
        )

    def state_access(self) -> StateAccess:
        """The states that the description names."""
        if not self._scalar:  # arrays may change their size
            raise ModelError("it has arrays. Use it for model exchange")
        readers = [self.instance.reader(state) for state in self._states]
        return StateAccess(
            tuple(state.name for state in self._states),
            lambda: [float(read()) for read in readers],  # type: ignore[arg-type]
            jacobian=self._slopes if self._knows_slopes else None,
            nominal={port.name: _nominal(self._variables[port.name]) for port in self._real(Causality.INPUT)},
            advice="An FMU has to list its states (ModelStructure, Derivatives), and to have directional "
            "derivatives or rollback; or use it for model exchange, if it allows that.",
        )

    @cached_property
    def _states(self) -> list[Variable]:
        description = self.instance.description
        return [description.by_name[name] for name in description.states]

    def _real(self, causality: Causality) -> tuple[Port, ...]:
        return tuple(
            p for p in self._ports if p.causality is causality and p.kind is Kind.REAL and not p.event
        )

    @property
    def _knows_slopes(self) -> bool:
        return bool(self.instance.interface.directional_derivatives)

    @property
    def _scalar(self) -> bool:
        """Whether states and real ports are single numbers."""
        ports = (*self._real(Causality.INPUT), *self._real(Causality.OUTPUT))
        return all(port.size is None for port in ports) and not any(one.dimensions for one in self._states)

    def _slopes(self, outputs: bool) -> tuple[Columns, Columns]:
        """The FMU's directional derivatives, by states and by inputs."""
        description = self.instance.description
        if outputs:
            unknown = [self._variables[port.name] for port in self._real(Causality.OUTPUT)]
        else:
            unknown = [description.by_name[each.variable] for each in description.structure.derivatives]
        inputs = [self._variables[port.name] for port in self._real(Causality.INPUT)]

        def by(known: Sequence[Variable]) -> Columns:
            return [self.instance.directional(unknown, [one], (1.0,)) if unknown else () for one in known]

        return by(self._states), by(inputs)

    def _cells_now(self) -> list[float]:
        cells: list[float] = []
        for port in self._real(Causality.OUTPUT):
            value: Any = self.get(port.name)
            cells += [float(value)] if port.size is None else [float(v) for v in value]
        return cells

    def _at(self, t: float, x: Sequence[float], u: Sequence[Any], result: Callable[[], Any]) -> Any:
        """What the FMU gives at a time and a state, with these inputs; then it is where it was."""
        self._place(t, x, u)
        try:
            return result()
        finally:
            self._place(self.time, self.state, self.inputs_at(self.time))

    def _place(self, t: float, x: Sequence[float], u: Sequence[Any]) -> None:
        if self.native.continuous:
            self.native.place(t, list(x))
        first = 0
        for port, write in zip(self._real(Causality.INPUT), self._writers, strict=True):
            own = u[first : first + port.cells]
            write(own[0] if port.size is None else tuple(own))
            first += port.cells


def _size(variable: Variable) -> int | None:
    return variable.cells if variable.dimensions else None


def _nominal(variable: Variable) -> float:
    """How large a variable usually is: 1, if its description has no nominal value."""
    return abs(variable.properties.nominal or 1.0)


class PackableFmuUnit(FmuUnit):
    """One whose states can be turned into bytes; a class of its own, since others lack the two calls."""

    def to_bytes(self, token: Place) -> bytes:
        """As native/fmi lays it out, with the FMU's own bytes."""
        return self.native.pack(token.number)

    def from_bytes(self, data: bytes) -> Place:
        """What `to_bytes` gave, in this process or another one."""
        place = self._places.take()
        self.native.unpack(place.number, data)
        return place


# -- CVODE, which the core does not have -----------------------------------------------------------------


class WithCvode:
    """Integrates an FMU for model exchange in the place of a solver of the core, which calls it."""

    def __init__(self, solver: Cvode, instance: Instance) -> None:
        self._instance = instance
        states, self._indicators = instance.sizes()
        interface = instance.interface
        completes = bool(getattr(interface, "completed_integrator_step", False))
        self._unit: Any = None
        self._last: list[float] | None = None
        self._watch = Watch(
            self._crossing if self._indicators else None, self._accepted if completes else None
        )
        self._watches = self._indicators > 0 or completes
        self._solver = Multistep(solver, self._inputs, self._jacobian() if states else None)

    def drive(self, unit: _native.Fmu) -> None:
        """Whose equations these are. Not held: it holds this."""
        self._unit = weakref.proxy(unit)

    def advance(
        self, t: float, to: float, x: list[float], z: list[float]
    ) -> tuple[list[float], list[float], float, bool]:
        """From `t` to `to` or the first event: the states and indicators there, when, and if it was one."""
        known = self._last if self._last is not None and self._last == x else x
        watch = self._watch if self._watches else None
        self._watch.begin(z)
        self._last = None
        found = self._solver.advance(self._unit.derivatives, t, known, to, watch)
        self._last = found
        if watch is None:
            return found, z, to, False
        return found, list(watch.z), watch.time, watch.stopped

    def scale(self, nominals: list[float]) -> None:
        """How large the states usually are."""
        self._solver.scale(nominals)

    def forget(self) -> None:
        """Another motion begins: restart."""
        self._last = None
        self._solver.forget()

    def _crossing(self, t: float, x: list[float]) -> list[float]:
        found: list[float] = self._unit.indicators(t, x, self._indicators)
        return found

    def _accepted(self, t: float, x: list[float]) -> bool:
        return bool(self._unit.accepted(t, x))

    def _inputs(self) -> tuple[list[Any], dict[int, Any]]:
        values, moving = self._unit.trajectories()
        return values, {0: True} if moving else {}

    def _jacobian(self) -> Jacobian | None:
        """The derivatives of all state derivatives by all states at a time and a state; None if not known."""
        description: ModelDescription = self._instance.description
        known = [description.by_name[name] for name in description.states]
        if not self._instance.interface.directional_derivatives or any(v.dimensions for v in known):
            return None  # arrays may have another size than the description says
        unknown = [description.by_name[each.variable] for each in description.structure.derivatives]

        def at(t: float, x: list[float]) -> list[list[float]]:
            self._unit.place(t, x)
            columns = [self._instance.directional(unknown, [state], (1.0,)) for state in known]
            return [list(row) for row in zip(*columns, strict=True)]

        return at
