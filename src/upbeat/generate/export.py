"""What of a scenario is seen outside: its variables, and the program that runs behind them.

An exported scenario is a nested one (`upbeat.engine.nesting`) without an outside: whoever runs the FMU, or
the C, sets its inputs, lets it go on to a time and reads what it shows. Everything here is the same for an
FMU with sources, an FMU with the native core, and C for an embedded target.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

from upbeat.core.abilities import Ability, FromFile, Model, Native
from upbeat.core.errors import ExpressionError, InvalidInput, ScenarioError, UpbeatError
from upbeat.core.expr import Expr, Kernel, Name, directional_derivative, names, show, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Value, Values
from upbeat.core.records import dataclass
from upbeat.engine.experiment import Experiment
from upbeat.engine.isolation import Isolation, together
from upbeat.engine.native.entry import Inside
from upbeat.engine.native.lower import lower as lower_program
from upbeat.engine.native.lower import slopes_asked
from upbeat.engine.nesting.model import Nested, nested_of
from upbeat.engine.plan import Plan
from upbeat.generate.printing import array, block, comment, literal
from upbeat.generate.program import Context, Entered, NestedType, PrintedCore, over
from upbeat.generate.signals import signals_only
from upbeat.generate.tables import fmu_starts
from upbeat.generate.units import OdeType, function
from upbeat.master.paces.pace import nominal_step
from upbeat.master.program import Asked, Program, Recordable
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.merging.inline import path_of
from upbeat.units import MAX_DEGREE
from upbeat.units.discrete.model import changes_at_instants
from upbeat.units.equations.arranging import free_name
from upbeat.units.equations.data import Definition, Equations, Output
from upbeat.units.equations.lowered import lower
from upbeat.units.equations.ode import equations_of
from upbeat.units.fmi.model import Fmu
from upbeat.units.process import bare
from upbeat.units.solving.solvers import DormandPrince

Role = Literal["input", "output", "local", "parameter", "tunable", "constant", "state", "rate", "indicator"]


@dataclass(frozen=True)
class Variable:
    """One variable of an exported scenario.

    * `name` is what traces call it; `port` says what it holds (kind, size, unit of measure, labels).
    * `role`: an output, or *local*: shown, but nobody's business. A parameter is set before the start;
      a *tunable* one in a run, too; a *constant* is written into the program. Model exchange has *states*,
      their derivatives (*rate*) and event *indicators*.
    * `number`: of the unit's port by which it is read or set; -1: there is none. Of a state, its derivative and
      an indicator: the place of its first cell among its like.
    * `value`: the place of its first cell among the values that the units start with; -1: it has none.
    * `start`: its start value; of what is shown, only if it is a state.
    * `depends`: the inputs that it follows at the same instant; `discrete`: whether it changes at instants only.
    * `rate`: the number of the port with its time derivative; -1: that is not known. In model exchange: the place
      of its first cell among those of directional derivatives.
    * `result`: whether it is one of the outputs, if it is a state.
    """

    name: str
    port: Port
    role: Role
    number: int = -1
    value: int = -1
    start: Values | None = None
    depends: tuple[str, ...] = ()
    discrete: bool = False
    rate: int = -1
    result: bool = False

    @property
    def is_output(self) -> bool:
        return self.role == "output" or self.result

    @property
    def shown(self) -> bool:
        return self.role in ("output", "local")


@dataclass(frozen=True)
class Exported:
    """A scenario, ready to be written."""

    name: str
    ports: tuple[Port, ...]
    """Of the unit that it is."""
    variables: tuple[Variable, ...]
    values: tuple[float, ...]
    """What the units start with, in their order."""
    start: float
    stop: float
    step: float
    any_start: bool
    """Whether values and program are the same at any start time."""
    saves: bool
    serialises: bool
    eventful: bool = False
    """Whether something may happen at an instant."""
    inside: Inside | None = None
    """The program; of model exchange there is none."""
    units: Mapping[str, Entered] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    equations: Equations | None = None
    """Model exchange: the equations of the whole scenario."""
    files: tuple[str, ...] = ()
    """The units that are FMUs themselves."""
    slopes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """By the numbers of the ports of an output and an input: the cell where its derivatives begin."""
    rates: bool = False
    """Whether the time derivatives of all real outputs are known."""
    notes: tuple[str, ...] = ()
    """What a user should know."""

    @property
    def length(self) -> float:
        """How long a run is, as far as paces ask: as here, whenever it starts and wherever the host ends it."""
        return self.stop - self.start


def exported(experiment: Experiment, name: str = "", *, asked: bool = True) -> Exported:
    """What an experiment exports; `asked`: with derivatives. Errors name what cannot be, and say what to do."""
    return _Export(experiment, name, asked).made()


# ----------------------------------------------------------------------------------------------------


class _Export:
    def __init__(self, experiment: Experiment, name: str, asked: bool) -> None:
        self._notes: list[str] = []
        if experiment.signals is not None:
            self._notes.append("its inputs are those of the FMU, and not driven by the signals of the run")
        if experiment.cores > 1:
            self._notes.append("it runs on one core")
        scenario, told = signals_only(together(experiment.scenario))
        self._notes += told
        self._experiment = replace(
            experiment,
            scenario=scenario,
            signals=None,
            cores=1,
            isolation=Isolation("none"),
            checkpoint=None,
            real_time=None,
        )
        self.name = name or experiment.scenario.name or "scenario"

        self._plan = self._experiment.plan
        self._closed = self._plan.scenario
        self._start = experiment.span.start
        self._check_units()
        self._program, _ = self._plan.master.written(self._closed, asked=asked)
        self._slopes = slopes_asked(self._program)
        if self._program.pace is not None and self._program.pace.calls:
            pace = type(self._program.pace.calls[0].pace).__name__
            raise InvalidInput(
                f"the pace {pace} is written in Python, which cannot be exported: write it with blocks (see "
                "docs/extending.md, 'A pace'), or take a built-in one."
            )

    # ------------------------------------------------------------ what cannot be

    def _check_units(self) -> None:
        """Refuse, by name, what runs in Python or lives in this process only."""
        found = []
        for unit, model in self._closed.units.items():
            found += list(_unfit(model, path_of(self._closed, unit)))
        if not found:
            return
        some = "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
        raise InvalidInput(
            f"an exported scenario runs without Python, but {some}. Write such units as equations or as "
            "discrete-event units (ode, function, discrete, machine …), or make FMUs of them that bring all they need."
        )

    def made(self) -> Exported:
        units = self._entered()
        values = tuple(v for one in units.values() for v in one.values)
        variables = self._variables(units)
        numbered, ports = self._numbered(variables)
        abilities = [model.abilities for model in self._closed.units.values()]
        inside = Inside(
            self._with_rates(),
            self._closed.units,
            tuple(ports),
            {**self._closed.parameters, **self._closed.free_inputs},
            self._closed.origin.paths if self._closed.origin is not None else {},
        )
        other = tuple(v for one in self._entered(self._start + 1.0).values() for v in one.values)
        asked = self._asked
        numbers = {variable.name: variable.number for variable in numbered}
        slopes = {
            (numbers[output], numbers[given]): register
            for (output, given), register in asked.slopes.items()
            if output in numbers and given in numbers
        }
        lagged = getattr(self._plan.master.coupled, "outputs", None) == "lagged"
        real = [v for v in numbered if v.role == "output" and v.port.kind is Kind.REAL]
        pace = self._plan.master.pace
        return Exported(
            self.name,
            tuple(ports),
            tuple(numbered),
            values,
            self._start,
            self._experiment.span.stop,
            nominal_step(pace) or (self._experiment.span.stop - self._start) / 500.0,
            eventful=bool(self._program.instant),
            inside=inside,
            units=units,
            events=tuple(self._events()),
            any_start=_same_numbers(values, other),
            saves=all(Ability.ROLLBACK in own for own in abilities),
            serialises=all(Ability.SERIALISE in own for own in abilities),
            files=tuple(_files(self._closed.units)),
            slopes={} if lagged else slopes,
            rates=bool(real) and all(v.rate >= 0 for v in real),
            notes=tuple(self._notes),
        )

    @property
    def _asked(self) -> Asked:
        return self._program.asked or Asked({}, {}, {})

    # ------------------------------------------------------------ units

    def _entered(self, start: float | None = None) -> dict[str, Entered]:
        """The units as they are printed. FMUs have no values of their own here."""
        when = self._start if start is None else start
        return {
            unit: _enter(model, self._slopes.get(unit, ()), unit, when)
            for unit, model in self._closed.units.items()
        }

    def _events(self) -> Iterator[str]:
        """The names of events by their numbers in the log."""
        yield from lower_program(self._program, self._closed.units).events

    # ------------------------------------------------------------ variables

    def _variables(self, units: Mapping[str, Entered]) -> list[Variable]:
        firsts, at = {}, 0
        for unit, one in units.items():
            firsts[unit] = at
            at += len(one.values)
        inputs = list(self._inputs(units, firsts))
        known = {variable.name for variable in inputs}
        starts = {variable.name: variable for variable in self._settable(units, firsts)}
        shown = [v for v in self._shown(starts) if v.name not in known]
        known |= {variable.name for variable in shown}
        return [*inputs, *shown, *(v for name, v in starts.items() if name not in known)]

    def _inputs(self, units: Mapping[str, Entered], firsts: Mapping[str, int]) -> Iterator[Variable]:
        unknowns = self._plan.master.unknowns
        for name, (unit, port) in self._closed.free_inputs.items():
            if name in unknowns or port.event:
                continue
            place = _place(units[unit], port)
            if place is None:  # a text of an FMU inside
                self._notes.append(
                    f"the input '{name}' keeps its value: it is a text, which is not handed on"
                )
                continue
            own = next((p for p in self._experiment.scenario.inputs if p.name == name), port)
            yield Variable(
                name, replace(own, name=name), "input", value=firsts[unit] + place, start=port.initial,
                discrete=port.kind is not Kind.REAL,
            )  # fmt: skip

    def _shown(self, starts: Mapping[str, Variable]) -> Iterator[Variable]:
        """What traces may record of outputs: the scenario's own, or else what is recorded, are outputs."""
        own = {output.port.name for output in self._experiment.scenario.outputs}
        labels = {column.name for column in self._experiment.selection.columns}
        recorded = own or {n for n in self._program.columns if n in labels or f"{n}[0]" in labels}
        ports = {
            self._closed.column(unit, p.name): (unit, p)
            for unit, m in self._closed.units.items()
            for p in m.ports
        }
        results = {output.port.name: output for output in self._closed.outputs}
        origin = {} if self._closed.origin is None else self._closed.origin.columns
        named = {origin.get(("", name), name): output for name, output in results.items()}
        for name, column in self._program.columns.items():
            if not column.output and name not in named:
                continue
            if name in named:
                output = named[name]
                port, sources, discrete = output.port, output.sources, False
            elif name in ports and ports[name][0] != INPUTS:
                unit, port = ports[name]
                if port.event or port.internal:
                    continue
                sources, discrete = ((unit, port.name),), changes_at_instants(bare(self._closed.units[unit]))
            else:
                continue
            start = starts.get(name)
            yield Variable(
                name,
                replace(
                    port,
                    name=name,
                    causality=Causality.OUTPUT,
                    depends=frozenset(),
                    derivative=None,
                    start=None,
                ),
                "output" if name in recorded else "local",
                value=-1 if start is None or start.role == "constant" else start.value,
                start=None if start is None or start.role == "constant" else start.start,
                depends=self._direct(sources),
                discrete=discrete or port.kind is not Kind.REAL,
            )

    def _direct(self, sources: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """The inputs that reach these outputs at the same instant; all of them, if a unit that reacts to
        events is one of those on the way."""
        free = {(unit, port.name): name for name, (unit, port) in self._closed.free_inputs.items()}
        reached = self._closed.graph.behind(sources)
        units = {unit for unit, _ in (*sources, *reached)} - {INPUTS}
        if any(Ability.NEXT_EVENT in self._closed.units[unit].abilities for unit in units):
            return tuple(free.values())
        return tuple(name for end, name in free.items() if end in reached)

    def _settable(self, units: Mapping[str, Entered], firsts: Mapping[str, int]) -> Iterator[Variable]:
        """Parameters, and the start values of states: whatever the units start with and the program does not
        know. Whether it does is found out by giving each of them another value."""
        for unit, model in self._closed.units.items():
            if unit in self._closed.added_units:
                continue
            path = path_of(self._closed, unit)
            for port, is_parameter in _changeable(model):
                name = f"{path}.{port.name}"
                place = self._changes(unit, name, port, units[unit])
                if place is None and not is_parameter:
                    continue
                role: Role = "constant" if place is None else "parameter"
                if is_parameter and place is not None and self._closed.why_fixed(unit, port.name) is None:
                    role = "tunable"
                value = -1 if place is None else firsts[unit] + place
                shown = replace(
                    port,
                    name=name,
                    causality=Causality.PARAMETER,
                    depends=frozenset(),
                    start=port.initial,
                    derivative=None,
                )
                yield Variable(name, shown, role, value=value, start=port.initial)

    @cached_property
    def _settled(self) -> Plan:
        """The plan with a master that stays as it is: what an FMU has is not chosen anew for other values."""
        return replace(self._plan, measured=False, master=replace(self._plan.master, why=()))

    def _changes(self, unit: str, name: str, port: Port, entered: Entered) -> int | None:
        """Where another value of this shows among the values of its unit; None if more depends on it."""
        for other in _others(port):
            try:
                changed = self._experiment.scenario.with_values({name: other})
                plan = self._settled.with_values({name: other}, self._experiment.scenario, changed)
            except (UpbeatError, ArithmeticError):
                continue
            if plan is None:
                return None
            model = plan.scenario.units[unit]
            if (nested := nested_of(model)) and not _runs_the_same(nested, self._closed.units[unit]):
                return None
            made = _enter(model, self._slopes.get(unit, ()), unit, self._start).values
            cells = [float(v) for v in _listed(other, port)]
            differ = [i for i, (a, b) in enumerate(zip(entered.values, made, strict=True)) if a != b]
            if len(differ) != len(cells) or differ != list(range(differ[0], differ[0] + len(cells))):
                return None
            return differ[0] if list(made[differ[0] : differ[0] + len(cells)]) == cells else None
        return None

    # ------------------------------------------------------------ ports of the unit

    def _with_rates(self) -> Program:
        """The program whose columns have the rates, too."""
        asked = self._asked
        more = {
            _rate_name(name): Recordable(register, None, (), cells=self._program.columns[name].cells)
            for name, register in asked.rates.items()
            if name in self._program.columns
        }
        return replace(self._program, columns={**self._program.columns, **more})

    def _numbered(self, variables: Sequence[Variable]) -> tuple[list[Variable], list[Port]]:
        """The variables with the ports of the unit by which they are read and set, and these ports."""
        ports: list[Port] = []
        found: list[Variable] = []
        asked = self._asked
        for variable in variables:
            number = -1
            if variable.shown or variable.role in ("input", "tunable"):
                number = len(ports)
                ports.append(variable.port)
            found.append(replace(variable, number=number))
        for i, variable in enumerate(found):
            if variable.role == "output" and variable.name in asked.rates:
                found[i] = replace(variable, rate=len(ports))
                ports.append(replace(variable.port, name=_rate_name(variable.name), unit=None))
        return found, ports


def _rate_name(name: str) -> str:
    return f"der({name})"


def _unfit(model: Model, path: str) -> Iterator[str]:
    """Why a unit cannot be exported, or some of those inside it."""
    if (nested := nested_of(model)) is not None:
        for unit, inner in nested.flat.scenario.units.items():
            yield from _unfit(inner, f"{path}.{unit}")
        if nested._built[0].pace is not None and nested._built[0].pace.calls:
            yield f"the pace inside '{path}' is written in Python"
        if nested.has_events:
            yield f"'{path}' is a nested scenario with event ports, which runs in Python"
    elif hasattr(model, "lower"):
        if Ability.NATIVE not in model.abilities:
            solver = getattr(model, "solver", None)
            yield f"'{path}' is solved by {type(solver).__name__}, which is Python (take dormand_prince)"
    elif isinstance(model, FromFile):
        if Ability.NATIVE not in model.abilities:
            yield f"'{path}' is solved by CVODE, which is Python (take dormand_prince)"
    elif Ability.NATIVE in model.abilities:
        yield f"'{path}' ({type(model).__name__}) lives in this process"
    else:
        yield f"'{path}' is written in Python ({type(model).__name__})"


def _files(units: Mapping[str, Model], inside: str = "") -> Iterator[str]:
    """The units that are FMUs, at all depths."""
    for unit, model in units.items():
        if isinstance(model, FromFile):
            yield inside + unit
        elif (nested := nested_of(model)) is not None:
            yield from _files(nested.flat.scenario.units, f"{inside}{unit}.")


class _Entering(PrintedCore):
    """Takes the equations of models, also of those inside scenarios with FMUs, which cannot be printed."""

    def nested(self, inside: Inside, start: float) -> Entered:
        slopes = slopes_asked(inside.program)
        units = {
            name: _enter(model, slopes.get(name, ()), name, start) for name, model in inside.models.items()
        }
        values = tuple(v for one in units.values() for v in one.values)
        called = {unit: inside.paths.get(unit, unit) for unit in units}
        names = tuple(f"{called[unit]}.{own}" for unit, one in units.items() for own in one.value_names)
        return Entered(None, values, inside, units, names)

    def fmu(self, model: Fmu, name: str, start: float) -> Entered:
        """An FMU, which is not made here: what it may be told at the start."""
        starts = [one.port for one in fmu_starts(model)]
        names = tuple(name for port in starts for name in cell_names(port.name, port.size))
        values = tuple(float(v) for port in starts for v in port.initial)
        return Entered(None, values, external=model.ports, value_names=names)


def _enter(model: Model, slopes: Sequence[tuple[str, str]], name: str, start: float) -> Entered:
    assert isinstance(model, Native)
    made: Any = model.enter(_Entering(slopes), name, start)
    assert isinstance(made, Entered)
    return made


def _changeable(model: Model) -> list[tuple[Port, bool]]:
    """What of a model has a value before the run: parameters, and (False) states and variables of equations."""
    ports = [port for port in model.ports if port.causality is Causality.PARAMETER and not port.internal]
    found = [(port, True) for port in ports]
    equations = equations_of(bare(model))
    if equations is not None:
        found += [(port, False) for port in (*(s.port for s in equations.states), *equations.variables)]
    return found


def _place(entered: Entered, port: Port) -> int | None:
    """Where the cells of an input begin among the values of its unit; inside a nested one, at the unit they reach."""
    if entered.inside is not None:
        unit, inner = entered.inside.inputs[port.name]
        before = 0
        for name, one in entered.units.items():
            if name == unit:
                place = _place(one, inner)
                return None if place is None else before + place
            before += len(one.values)
    first = port.name if port.size is None else f"{port.name}[0]"
    return entered.value_names.index(first) if first in entered.value_names else None


def _others(port: Port) -> Iterator[Any]:
    """Other values than the present ones, each cell another; some may not be allowed."""

    def whole(changed: Sequence[Value]) -> Any:
        return changed[0] if port.size is None else tuple(changed)

    values = port.initial
    match port.kind:
        case Kind.BOOLEAN:
            yield whole([not v for v in values])
        case Kind.INTEGER:
            if port.items:
                yield whole([next((c for c in port.codes if c != v), v) for v in values])
            else:
                for by in (1, -1):
                    yield whole([int(v) + by for v in values])
        case Kind.REAL:
            for factor, offset in ((1.25, 0.0), (1.0, 1.0), (0.5, 0.0), (1.0, -1.0)):
                changed = [float(v) * factor + offset for v in values]
                if all(a != b and math.isfinite(a) for a, b in zip(changed, values, strict=True)):
                    yield whole(changed)


def _listed(value: Any, port: Port) -> Sequence[Any]:
    return (value,) if port.size is None else value


def _runs_the_same(one: Nested, other: Model) -> bool:
    nested = nested_of(other)
    return nested is not None and one._built[0] == nested._built[0]


def _same_numbers(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(
        a == b or (a != a and b != b) for a, b in zip(one, other, strict=True)
    )


# ----------------------------------------------------------------------------------------------------


def identifier(name: str) -> str:
    """A name as C and FMI want it: letters, digits and underscores, and no digit first."""
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "scenario"
    made = f"m_{made}" if made[0].isdigit() else made
    return made[:60]


# ----------------------------------------------------------------------------------------------------
# Model exchange: the scenario merged into one set of equations, which the importer's solver integrates.


def exported_equations(experiment: Experiment, name: str = "") -> Exported:
    """What an experiment exports for model exchange. Errors name what has no equations, and say what to do."""
    return _ExportEquations(experiment, name).made()


class _ExportEquations:
    def __init__(self, experiment: Experiment, name: str) -> None:
        self._experiment = experiment
        self.name = name or experiment.scenario.name or "scenario"
        try:
            self._whole = together(experiment.scenario).monolith()
        except ScenarioError as error:
            raise InvalidInput(
                f"for model exchange a scenario must be one set of equations: {error} Export it for co-simulation "
                "(leave out --interface)."
            ) from None
        ((self._unit, model),) = self._whole.units.items()
        equations = equations_of(model)
        if equations is None or not hasattr(model, "lower"):
            raise InvalidInput(
                "an algebraic loop of the scenario is not linear, and is solved in Python: it cannot be exported for model "
                "exchange. Export it for co-simulation (leave out --interface), or break the loop."
            )
        self._equations = self._with_outputs(equations)

    def _with_outputs(self, equations: Equations) -> Equations:
        """The equations with the outputs of the scenario itself."""
        taken = {port.name for port in equations.ports} | {local.name for local in equations.locals}
        taken |= {*equations.arguments}
        made: list[Output] = []
        for output in self._whole.outputs:
            word = free_name(identifier(output.port.name), taken)
            moved = {
                name: Name(name.partition(".")[2])
                for cell in output.cells
                for name in names(cell)
                if "." in name
            }
            cells = tuple(substitute(cell, moved) for cell in output.cells)
            port = replace(output.port, name=word, causality=Causality.OUTPUT)
            texts = tuple(map(show, cells))
            made.append(Output(port, Definition(word, texts, port.size, cells=cells)))
            self._results[word] = output.port.name
        return replace(equations, outputs=(*equations.outputs, *made)) if made else equations

    @cached_property
    def _results(self) -> dict[str, str]:
        """The scenario's own outputs, by what they are called in the equations."""
        return {}

    def _called(self, port: str) -> str:
        if port in self._results:
            return self._results[port]
        assert self._whole.origin is not None
        return self._whole.origin.columns.get((self._unit, port), port)

    def made(self) -> Exported:
        equations, experiment = self._equations, self._experiment
        ports: list[Port] = []
        inputs, shown, parameters = (
            list(found(ports)) for found in (self._inputs, self._shown, self._parameters)
        )
        starts = {variable.name: variable for variable in self._changing()}
        for i, one in enumerate(shown):  # what changes at events and is shown, too, is one variable
            if one.name in starts:
                start = starts.pop(one.name)
                shown[i] = replace(one, value=start.value, start=start.start)
        variables = [*inputs, *shown, *parameters, *starts.values()]
        span = experiment.span
        step = nominal_step(experiment.master.pace) or (span.stop - span.start) / 500.0
        return Exported(
            self.name,
            tuple(ports),
            tuple(variables),
            tuple(v for part in equations.numbers for v in part),
            span.start,
            span.stop,
            step,
            any_start=True,
            saves=True,
            serialises=True,
            eventful=bool(equations.events),
            equations=equations,
            notes=tuple(self._goes_on()),
        )

    def _goes_on(self) -> Iterator[str]:
        """What would end a run here, and the host's does not know of."""
        scenario = self._experiment.scenario
        ending = [one.name for one in scenario.properties if one.online == "stop"]
        ending += [switch.event for switch in scenario.parts.stage.switches] if scenario.parts.stage else []
        if ending:
            some = ", ".join(f"'{name}'" for name in ending)
            yield f"for model exchange nothing ends a run: it goes on after {some}. For co-simulation it ends there"

    def _inputs(self, ports: list[Port]) -> Iterator[Variable]:
        at, seed = len(self._equations.start), 0
        own = {port.name: port for port in self._experiment.scenario.inputs}
        for port in self._equations.inputs:
            name, real = self._called(port.name), port.kind is Kind.REAL
            ports.append(port)
            shown = replace(own.get(name, port), name=name)
            yield Variable(
                name,
                shown,
                "input",
                len(ports) - 1,
                at,
                port.initial,
                discrete=not real,
                rate=seed if real else -1,
            )
            at += port.cells
            seed += port.cells if real else 0

    def _shown(self, ports: list[Port]) -> Iterator[Variable]:
        """States with their derivatives, event indicators, and what else is shown."""
        equations, experiment = self._equations, self._experiment
        labels = {column.name for column in experiment.selection.columns}
        own = {output.port.name for output in experiment.scenario.outputs}
        results = own or labels
        by_state: dict[str, str] = {}
        for output in equations.outputs:
            cells = [cell.id for cell in output.definition.cells if isinstance(cell, Name)]
            if len(cells) == output.port.cells:
                by_state.setdefault(cells[0].partition("[")[0], output.port.name)
        taken = {self._called(port.name) for port in equations.inputs}
        at = 0
        for state in equations.states:
            name = self._called(by_state.get(state.port.name, state.port.name))
            taken.add(name)
            plain = replace(
                state.port, name=name, causality=Causality.OUTPUT, depends=frozenset(), derivative=None
            )
            result = name in results or f"{name}[0]" in results
            yield Variable(name, plain, "state", at, at, state.port.initial, result=result, rate=-1)
            yield Variable(
                _rate_name(name), replace(plain, name=_rate_name(name), unit=None, start=None), "rate", at
            )
            at += state.port.cells
        watched = [event.name for event in equations.events if event.indicator is not None]
        for number, event in enumerate(watched):
            port = Port(f"indicator({event})", Causality.OUTPUT)
            yield Variable(port.name, port, "indicator", number)
        seen = 0
        for output in equations.outputs:
            port, name = output.port, self._called(output.port.name)
            if name in taken or port.event or port.internal:
                continue
            taken.add(name)
            ports.append(port)
            result, real = name in results or f"{name}[0]" in results, port.kind is Kind.REAL
            shown = replace(
                port, name=name, causality=Causality.OUTPUT, depends=frozenset(), derivative=None, start=None
            )
            yield Variable(
                name,
                shown,
                "output" if result else "local",
                len(ports) - 1,
                discrete=not real,
                rate=seen if real else -1,
            )
            seen += port.cells if real else 0

    def _parameters(self, ports: list[Port]) -> Iterator[Variable]:
        equations, origin = self._equations, self._whole.origin
        assert origin is not None
        at = len(equations.start) + sum(port.cells for port in equations.inputs)
        for port in equations.parameters:
            name = self._called(port.name)
            shown = replace(port, name=name)
            if name in origin.fixed:
                yield Variable(name, shown, "constant", start=port.initial)
            else:
                ports.append(port)
                yield Variable(name, shown, "tunable", len(ports) - 1, at, port.initial)
            at += port.cells

    def _changing(self) -> Iterator[Variable]:
        """The start values of variables that change at events."""
        equations = self._equations
        at = len(equations.start)
        at += sum(port.cells for port in (*equations.inputs, *equations.parameters))
        for port in equations.variables:
            name = self._called(port.name)
            start = replace(port, name=name, causality=Causality.PARAMETER)
            yield Variable(name, start, "parameter", -1, at, port.initial)
            at += port.cells


_MAX_CODE = 20_000


def directional(made: Exported) -> Kernel | None:
    """From [time, states, inputs, parameters, variables, seeds of states and real inputs] to how the derivatives of
    the states and what is shown change in the direction of the seeds; None if that takes too much code."""
    equations = made.equations
    assert equations is not None
    shown = [made.ports[v.number].name for v in made.variables if v.shown and v.rate >= 0]
    seeds: dict[Expr, Expr] = {}
    seeded = [name for state in equations.states for name in cell_names(state.port.name, state.port.size)]
    seeded += [n for p in equations.inputs if p.kind is Kind.REAL for n in cell_names(p.name, p.size)]
    for name in seeded:
        seeds[Name(name)] = Name(f"seed of {name}")
    cells = [cell for state in equations.states for cell in state.derivative.cells]
    cells += [
        cell
        for name in shown
        for output in equations.outputs
        if output.port.name == name
        for cell in output.definition.cells
    ]
    try:
        ways = tuple(directional_derivative(equations.written_out(cell), seeds) for cell in cells)
        kernel = Kernel((*equations.arguments, *(f"seed of {name}" for name in seeded)), ways)
        return kernel if len(kernel.code) <= _MAX_CODE else None
    except ExpressionError:  # too large to be written down
        return None


# ----------------------------------------------------------------------------------------------------
# The exported scenario as C: a nested one, with functions for whoever knows its ports by number.


class ExportedType(NestedType):
    """The program and the unit around it. With `early`, a step ends where something has happened: what is
    shown is then what it was before, until `jump`."""

    def __init__(self, context: Context, one: Exported, name: str, *, moving: bool) -> None:
        """`moving`: inputs may be polynomials."""
        self.exported = one
        assert one.inside is not None
        rows = {
            variable.number: MAX_DEGREE + 1
            for variable in one.variables
            if moving and variable.role == "input" and variable.port.kind is Kind.REAL
        }
        values = tuple(v for unit in one.units.values() for v in unit.values)
        super().__init__(context, one.inside, Entered(None, values, one.inside, one.units), rows, name)
        self.length = one.length
        self.used_by.append(one.name)
        self._shown = [
            (number, port, self.places[number])
            for number, port in enumerate(self.ports)
            if port.causality is Causality.OUTPUT
        ]
        self._blocks = self._asked()

    def _asked(self) -> dict[int, int]:
        """The blocks that compute what some ports show, by the numbers of both."""
        blocks = self.printer.tables.blocks
        return {v.rate: blocks["rates"] for v in self.exported.variables if v.rate >= 0}

    def text(self) -> str:
        T, inner, tables = self.name, self.printer.name, self.printer.tables
        columns = [
            place + i
            for n, _, (_, place, cells) in self._shown
            if n not in self._blocks
            for i in range(cells)
        ]
        width = len(columns)
        failed = "refuse(e, SAYS_INSIDE, 0.0, 0.0, 0.0)"
        parts = [
            self.printer.text(),
            "\n".join(
                [
                    comment(
                        f"The scenario '{self.exported.name}': what is shown outside is `left` while an event waits to be seen."
                    ),
                    f"typedef struct {{ {inner}_saved m; int32_t stale, pending; cell left[{max(1, width)}]; }} {T}_state;",
                    f"typedef struct {{ {inner} m; int32_t stale, pending; cell left[{max(1, width)}]; }} {T};",
                    "",
                    f"static const int32_t {T}_columns[] = {{",
                    *block(array([*columns, 0])),
                    "};",
                ]
            ),
            function(
                f"void {T}_begin({T} *u, real t, const real *v)",
                [f"{inner}_make(&u->m, t, v);", "u->stale = u->pending = 0;"],
                "from start values and parameters",
            ),
            function(
                f"int {T}_start({T} *u, upbeat_error *e)",
                [
                    f"if ({inner}_begin_units(&u->m) || {inner}_begin(&u->m, 0, {self._limit})) return {failed};",
                    "return 0;",
                ],
                "everything that happens at the start time",
            ),
            function(
                f"int {T}_refresh({T} *u, upbeat_error *e)",
                [
                    "if (!u->stale) return 0;",
                    "u->stale = 0;",
                    f"return {inner}_refresh(&u->m) ? {failed} : 0;",
                ],
                "an input was set: everybody sees it, and what follows from that happens",
            ),
            self._get(failed),
            self._set(failed),
            self._slope(failed),
            function(
                f"int {T}_advance({T} *u, upbeat_host *host, real to, int early, real *reached, upbeat_error *e)",
                [
                    "u->pending = 0;",
                    *self._taken,
                    f"if ({T}_refresh(u, e)) return 1;",
                    f"const real *const now = &u->m.c[{tables.now}].r;",
                    "while (*now < to) {",
                    "  host->told = 0;",
                    f"  const int status = {inner}_run(&u->m, host, to, 1, INFINITY);",
                    f"  if (status == 3) return {failed};",
                    "  if (status == 1) break; /* there is no more room for events */",
                    "  u->pending = early && host->events_used > 0;",
                    f"  for (int32_t i = 0; i < {width} && early && host->told && !u->pending; ++i) {{",
                    f"    u->pending = u->left[i].i != u->m.c[{T}_columns[i]].i;",
                    "  }",
                    "  if (u->pending || status == 0) break; /* something has happened, or the scenario is over */",
                    "}",
                    "*reached = *now;",
                    "return 0;",
                ],
                "on to a time; early: or to where something has happened. The host hears of events, and has `left`",
            ),
            function(
                f"int {T}_due({T} *u, real *time, upbeat_error *e)",
                [
                    f"if ({T}_refresh(u, e)) return 1;",
                    f"const real next = {f'u->m.c[{tables.due}].r' if tables.due >= 0 else 'INFINITY'};",
                    f"*time = u->pending ? u->m.c[{tables.now}].r : next;",
                    "return 0;",
                ],
                "when something is due by itself; now, if it waits to be seen",
            ),
            function(
                f"int {T}_jump({T} *u, int *again, upbeat_error *e)",
                ["u->pending = *again = 0;", "return 0;"],
                "what has happened is seen",
            ),
            function(
                f"int {T}_over(const {T} *u)",
                [f"return {over(tables, 'u->m.c')};"],
                "whether an event has asked for the end: it goes no further",
            ),
            function(
                f"void {T}_save({T} *u, {T}_state *s)",
                [
                    f"{inner}_save(&u->m, &s->m);",
                    "s->stale = u->stale;",
                    "s->pending = u->pending;",
                    f"for (int32_t i = 0; i < {width}; ++i) s->left[i] = u->left[i];",
                ],
            ),
            function(
                f"void {T}_restore({T} *u, const {T}_state *s)",
                [
                    f"{inner}_restore(&u->m, &s->m);",
                    "u->stale = s->stale;",
                    "u->pending = s->pending;",
                    f"for (int32_t i = 0; i < {width}; ++i) u->left[i] = s->left[i];",
                ],
            ),
        ]
        self.printer.shared.need("copy")
        parts.append(
            function(
                f"const upbeat_error *{T}_why({T} *u, const upbeat_error *own, const char **unit)",
                [f"return own->code == SAYS_INSIDE ? {inner}_why(&u->m, unit) : own;"],
                "what failed, and in which unit",
            )
        )
        return "\n\n".join(parts)

    def _get(self, failed: str) -> str:
        T = self.name
        cases, left = [], 0
        for number, port, (_, place, cells) in self._shown:
            about = comment(port.name)
            if number in self._blocks:
                run = f"if ({self.printer.name}_block{self._blocks[number]}(&u->m)) return {failed};"
                cases.append(
                    f"  case {number}: {run} copy_cells(to, u->m.c + {place}, {cells}); return 0; {about}"
                )
                continue
            source = f"u->pending ? u->left + {left} : u->m.c + {place}"
            cases.append(f"  case {number}: copy_cells(to, {source}, {cells}); return 0; {about}")
            left += cells
        return function(
            f"int {T}_get({T} *u, int32_t port, cell *to, upbeat_error *e)",
            [
                f"if ({T}_refresh(u, e)) return 1;",
                "switch (port) {",
                *cases,
                "  default: return refuse(e, SAYS_NO_PORT, (real)port, 0.0, 0.0);",
                "}",
            ],
            "what is shown, by the numbers of ports",
        )

    def _set(self, failed: str) -> str:
        cases = []
        for number, port in enumerate(self.ports):
            unit, place, _ = self.places[number]
            if unit < 0:
                continue
            member = self.printer.member(unit)
            call = self.printer.of_unit[unit].set(f"&u->m.{member}", place, "from", "count")
            noted = f"e->cell = {place}; e->start = {literal(float(unit))};"
            cases.append(f"  case {number}: if ({call}) {{ {noted} break; }} return 0; {comment(port.name)}")
        return function(
            f"int {self.name}_set({self.name} *u, int32_t port, const cell *from, int32_t count, upbeat_error *outer)",
            [
                "upbeat_error *const e = &u->m.error;",
                "u->stale = 1;",
                "switch (port) {",
                *cases,
                "  default: return refuse(outer, SAYS_NO_PORT, (real)port, 0.0, 0.0);",
                "}",
                "e->fault = FAULT_REFUSED;",
                "e->row = -1;",
                "e->until = 2.0;",
                f"return {failed.replace('(e,', '(outer,')};",
            ],
            "inputs and parameters",
        )

    def _slope(self, failed: str) -> str:
        T, slopes = self.name, self.exported.slopes
        head = f"int {T}_slope({T} *u, int32_t output, int32_t input, cell *to, upbeat_error *e)"
        about = "how an output reacts at once to an input: a row for each of its cells"
        cells = {number: port.cells for number, port in enumerate(self.ports)}
        cases = [
            f"if (output == {output} && input == {given}) "
            f"{{ copy_cells(to, u->m.c + {register}, {cells[output] * cells[given]}); return 0; }}"
            for (output, given), register in slopes.items()
        ]
        sizes = ", ".join(str(port.cells) for port in self.ports) or "0"
        zero = [
            f"static const int32_t cells[] = {{{sizes}}};",
            "for (int32_t i = 0; i < cells[output] * cells[input]; ++i) to[i].r = 0.0;",
            "return 0;",
        ]
        if not slopes:
            return function(head, zero, about)
        run = f"if ({self.printer.name}_block{self.printer.tables.blocks['slopes']}(&u->m)) return {failed};"
        return function(head, [f"if ({T}_refresh(u, e)) return 1;", run, *cases, *zero], about)


class EquationsType:
    """The equations of a scenario as C, with the functions of an exported one, and those for model exchange."""

    def __init__(self, context: Context, made: Exported, name: str) -> None:
        self.name, self.made, self.context = name, made, context
        equations = made.equations
        assert equations is not None
        self.tables = lower(equations, DormandPrince())
        self.kind = OdeType(f"{name}_equations", self.tables, {}, (), context.kernels)
        self.kind.used_by.append(made.name)
        self.directional = directional(made)
        numbers = {port.name: number for number, port in enumerate(equations.ports)}
        self.places = [numbers[port.name] for port in made.ports]

    def text(self) -> str:
        T, inner, kind = self.name, self.kind.name, self.kind
        n, z = kind.n, kind.plan.watched if kind.hybrid else 0
        parts = [
            kind.text(),
            "\n".join(
                [
                    comment(f"The scenario '{self.made.name}', for a solver that is not ours."),
                    f"typedef struct {{ {inner}_state u; }} {T}_state;",
                    f"typedef struct {{ {inner} u; int32_t pending; cell left[1]; }} {T};",
                    f"static const int32_t {T}_columns[] = {{0}};",
                    f"enum {{ {T}_states = {n}, {T}_indicators = {z} }};",
                ]
            ),
            function(
                f"void {T}_begin({T} *u, real t, const real *v)",
                [f"{inner}_begin(&u->u, t, v);", "u->pending = 0;"],
                "from start values and parameters",
            ),
            function(f"int {T}_start({T} *u, upbeat_error *e)", ["return 0;"]),
            self._get(),
            self._set(),
            function(
                f"int {T}_advance({T} *u, upbeat_host *host, real to, int early, real *reached, upbeat_error *e)",
                ["return refuse(e, SAYS_STATUS, 0.0, 0.0, 0.0);"],
                "whoever has a solver does that",
            ),
            function(
                f"int {T}_due({T} *u, real *time, upbeat_error *e)",
                [f"return {inner}_due(&u->u, time, e);"]
                if kind.hybrid
                else ["*time = INFINITY;", "return 0;"],
                "now, if an event has become due",
            ),
            function(
                f"int {T}_jump({T} *u, int *again, upbeat_error *e)",
                [f"return {inner}_jump(&u->u, again, e);"] if kind.hybrid else ["*again = 0;", "return 0;"],
                "what is due happens",
            ),
            function(f"int {T}_over(const {T} *u)", ["return 0;"]),
            function(
                f"int {T}_slope({T} *u, int32_t output, int32_t input, cell *to, upbeat_error *e)",
                ["return refuse(e, SAYS_STATUS, 0.0, 0.0, 0.0);"],
            ),
            function(f"void {T}_save({T} *u, {T}_state *s)", ["s->u = u->u.s;"]),
            function(f"void {T}_restore({T} *u, const {T}_state *s)", [f"{inner}_restore(&u->u, &s->u);"]),
            function(
                f"const upbeat_error *{T}_why({T} *u, const upbeat_error *own, const char **unit)",
                ["return own;"],
            ),
            function(
                f"void {T}_place({T} *u, real t, const real *x)",
                [
                    "u->u.s.time = t;",
                    *([f"for (int j = 0; x && j < {n}; ++j) u->u.s.x[j] = x[j];"] if n else []),
                    *([] if kind.direct else ["u->u.current = 0;"]),
                    *(["u->u.fresh = 0;"] if kind.hybrid else []),
                ],
                "the time and the states from now on",
            ),
            function(
                f"void {T}_read(const {T} *u, real *x)",
                [f"for (int j = 0; j < {n}; ++j) x[j] = u->u.s.x[j];"] if n else [],
            ),
            function(
                f"void {T}_rates(const {T} *u, real *to)",
                [f"{inner}_rates(&u->u, u->u.s.time, u->u.s.x, to);"] if n else [],
                "the derivatives of the states",
            ),
            function(
                f"void {T}_look(const {T} *u, real *to)",
                [f"{inner}_indicators(&u->u, u->u.s.time, {'u->u.s.x' if n else '0'}, to);"]
                if kind.hybrid
                else [],
                "the event indicators",
            ),
            self._directional(),
        ]
        return "\n\n".join(parts)

    def _get(self) -> str:
        cases = []
        for number, port in enumerate(self.made.ports):
            if port.causality is Causality.OUTPUT:
                call, fails = self.kind.get("&u->u", self.places[number], "to")
                does = f"return {call};" if fails else f"{call}; return 0;"
                cases.append(f"  case {number}: {does} {comment(port.name)}")
        return function(
            f"int {self.name}_get({self.name} *u, int32_t port, cell *to, upbeat_error *e)",
            [
                "switch (port) {",
                *cases,
                "  default: return refuse(e, SAYS_NO_PORT, (real)port, 0.0, 0.0);",
                "}",
            ],
            "what is shown, by the numbers of ports",
        )

    def _set(self) -> str:
        cases = []
        for number, port in enumerate(self.made.ports):
            if port.causality is not Causality.OUTPUT:
                call = self.kind.set("&u->u", self.places[number], "from", "count")
                cases.append(f"  case {number}: return {call}; {comment(port.name)}")
        return function(
            f"int {self.name}_set({self.name} *u, int32_t port, const cell *from, int32_t count, upbeat_error *e)",
            [
                "switch (port) {",
                *cases,
                "  default: return refuse(e, SAYS_NO_PORT, (real)port, 0.0, 0.0);",
                "}",
            ],
            "inputs and parameters",
        )

    def _directional(self) -> str:
        head = f"int {self.name}_directional(const {self.name} *v, const real *seeds, real *to)"
        if self.directional is None:
            return function(head, ["return 1;"], "not known")
        kernel, own = self.directional, len(self.tables.compute.inputs)
        extra = [f"seeds[{i}]" for i in range(len(kernel.inputs) - own)]
        texts, given = self.kind._arguments(kernel, "u->s.time", "u->s.x", extra)
        lines = given + self.context.kernels.lines(kernel, texts, lambda i, text: f"to[{i}] = {text};")
        place = [f"const {self.kind.name} *const u = &v->u;"] if any("u->" in line for line in lines) else []
        body = [*place, *lines, "return 0;"]
        return function(head, body, "how derivatives and outputs change in a direction")
