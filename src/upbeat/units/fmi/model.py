"""`Fmu`: an FMU file as a model."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from upbeat.core.abilities import Ability, Core, Unit, speaks_for_itself
from upbeat.core.atomic import as_path
from upbeat.core.errors import ModelError, suggest
from upbeat.core.names import objection_to
from upbeat.core.ports import EVENTS, Port, Value, Values
from upbeat.core.records import dataclass
from upbeat.units.fmi.archive import Key, describe
from upbeat.units.fmi.description import Causality, CoSimulation, Interface, ModelDescription, ModelExchange
from upbeat.units.fmi.instance import no_core
from upbeat.units.fmi.known import content, known_to_fail
from upbeat.units.fmi.library import objection as no_library
from upbeat.units.fmi.ports import (
    CO_SIMULATION,
    MODEL_EXCHANGE,
    InterfaceName,
    Layout,
    Starts,
    abilities_of,
    choices,
    has_events,
    indicator_names,
    interface_of,
    layout,
    name_of,
    rates_in,
    shown,
    sizes_of,
    with_starts,
)
from upbeat.units.fmi.unit import enter, launch
from upbeat.units.solving.solvers import (
    Cvode,
    DormandPrince,
    Solver,
    solver_from,
    solver_spec,
    with_tolerance,
)

# -- arguments of `Fmu`: what they may be ----------------------------------------------------------------


def solver_for(given: Any, interface: Interface, tolerance: float | None) -> Solver | None:
    """The solver, if one was asked for and the FMU can use it; a tolerance is for those that keep one."""
    if given is None:
        return None
    if isinstance(interface, CoSimulation):
        what = "an FMU for co-simulation brings its own solver: leave it out, or ask for interface = "
        raise wrong("solver", f'{what}"model-exchange"')
    solver = solver_from(given)
    if tolerance is not None and not isinstance(solver, (DormandPrince, Cvode)):
        raise wrong(
            "tolerance",
            f"the solver {solver.method} takes steps of one size whatever they cost: leave the tolerance "
            "out, or take a solver that keeps it (dormand_prince, cvode)",
        )
    return solver


def checked_tolerance(given: object) -> float | None:
    """A tolerance that there can be."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < float("inf"):
        raise wrong("tolerance", f"a tolerance is a positive number, not {given!r}")
    return float(given)


def categories(description: ModelDescription, wanted: object) -> bool | tuple[str, ...]:
    """Categories of messages that there are, if the FMU says which; or all, or none in particular."""
    if isinstance(wanted, bool):
        return wanted
    found, known = texts("logging", wanted), [name for name, _ in description.log_categories]
    for name in found if known else ():
        if name not in known:
            what = f"the FMU has no messages of category {name!r}. {suggest(name, known, 'categories')}"
            raise wrong("logging", what)
    return found


def texts(name: str, given: object) -> tuple[str, ...]:
    """A list of texts, for the argument of this name."""
    if isinstance(given, (list, tuple)) and all(isinstance(item, str) for item in given):
        return tuple(given)
    raise wrong(name, f'{name} is a list of texts, such as ["x", "body.*"], not {given!r}')


def wrong(where: str, what: str) -> ModelError:
    """An error that knows which argument is to blame."""
    return ModelError(what, [(where, what)])


# -- what there is to say about an FMU: for `upbeat explain` and `upbeat check` --------------------------


_MAX_ODDITIES = 5
_MAX_INDICATORS = 5

UNIT = "UNIT"
"""Stands for the name of the unit, which a model does not know."""


def notes_of(description: ModelDescription, interface: Interface) -> tuple[str, ...]:
    """Sentences: what it is, what it needs, what is tolerated."""
    found = [headline(description, interface)]
    if interface.needs_execution_tool:
        found.append("it needs the tool that made it to be installed here")
    if interface.only_once_per_process:
        found.append("only one unit of it can run in a process")
    found += indicator_advice(description, interface)
    odd = description.warnings
    found += [f"tolerated: {note}" for note in odd[:_MAX_ODDITIES]]
    if len(odd) > _MAX_ODDITIES:
        found.append(f"tolerated: … and {len(odd) - _MAX_ODDITIES} oddities more in its description")
    return tuple(found)


def indicator_advice(description: ModelDescription, interface: Interface) -> list[str]:
    """What to type so that steps end at the events of an FMU for co-simulation that names their indicators.

    FMI 3 does so for the sake of model exchange; most FMUs let the variables be read in co-simulation, too.
    """
    if not isinstance(interface, CoSimulation):
        return []
    named = [description.by_name[unknown.variable] for unknown in description.structure.event_indicators]
    named = [variable for variable in named if not variable.dimensions][:_MAX_INDICATORS]
    if not named:
        return []
    hidden = [f'"{v.name}"' for v in named if v.causality is not Causality.OUTPUT]
    entries = []
    for number, variable in enumerate(named, 1):
        plain = not objection_to(variable.name)
        event = variable.name if plain else f"indicator_{number}"
        path = f"{UNIT}.{variable.name}" if plain else f"`{UNIT}.{variable.name}`"
        entries.append(
            f'{event}_falls = {{ when = "{path} <= 0" }}, {event}_rises = {{ when = "{path} >= 0" }}'
        )
    shown = f"locals = [{', '.join(hidden)}] in its unit, and " if hidden else ""
    crossing = ", ".join(variable.name for variable in named)
    return [
        f"something happens inside where {crossing} changes its sign. To have steps end "
        f"there, write {shown}events = {{ {', '.join(entries)} }} with the pace look_ahead"
    ]


def headline(description: ModelDescription, interface: Interface) -> str:
    """``FMI 2.0 co-simulation, 'Pump' 1.2 made by Dymola 2024``."""
    offered = [CO_SIMULATION] if description.co_simulation is not None else []
    offered += [MODEL_EXCHANGE] if description.model_exchange is not None else []
    others = [name for name in offered if name != name_of(interface)]
    text = f"FMI {description.written_version} {name_of(interface)}, '{description.name}'"
    text += f" {description.model_version}" if description.model_version else ""
    text += f" made by {description.tool}" if description.tool else ""
    return text + (f" (it offers {others[0]}, too)" if others else "")


# -- `Fmu`: an FMU file as a model -----------------------------------------------------------------------


Rollback = Literal["check", "trust", "never"]
Isolation = Literal["auto", "process", "none"]

_WORDS: dict[str, tuple[str, ...]] = {
    "rollback": ("check", "trust", "never"),
    "isolation": ("auto", "process", "none"),
}


@dataclass(frozen=True, init=False)
class Fmu:
    """An FMU of FMI 2.0 or 3.0, for co-simulation or model exchange.

        pump = Fmu("pump.fmu", parameters={"k": 3.0})

    * `path`: the file, or the folder of an unpacked one.
    * `interface`: ``"co-simulation"`` (where both are offered) or ``"model-exchange"``.
    * `parameters`: start values by name, of parameters, inputs and states; see also `with_values`.
    * `solver`: for model exchange; `DormandPrince` unless given.
    * `tolerance`: of the FMU's own solver, or of the one for model exchange if that has only the usual
      tolerances; that of the default experiment unless given.
    * `locals`: patterns of local variables that are outputs, too, so that they can be recorded and connected.
    * `logging`: all messages of the FMU (True), those of some categories (a list), or those it sends anyway.
    * `rollback`: what is made of its claim that it can be set back: ``"check"``, ``"trust"`` or
      ``"never"`` believe it.
    * `isolation`: ``"process"`` runs each unit in a process of its own, ``"none"`` does not, ``"auto"`` does
      where it is needed.

    Ports have the names of the FMU's variables. Making an `Fmu` reads its description; the rest of the file
    is unpacked when the first unit runs.
    """

    path: Path
    interface_name: InterfaceName
    starts: tuple[tuple[str, Values], ...]
    solver: Solver | None
    tolerance: float | None
    locals: tuple[str, ...]
    logging: bool | tuple[str, ...]
    rollback: Rollback
    isolation: Isolation
    counted: bool
    watched: bool
    told: tuple[str, ...]
    stop: float | None = field(compare=False)
    step: float = field(compare=False)
    _key: Key = field(compare=False, repr=False)

    announced = False
    """Its events are not all that happens: it moves in between, in steps that must be chosen."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        interface: InterfaceName | None = None,
        parameters: Mapping[str, Any] | None = None,
        solver: Solver | str | Mapping[str, Any] | None = None,
        tolerance: float | None = None,
        locals: Sequence[str] = (),
        logging: bool | Sequence[str] = False,
        rollback: Rollback = "check",
        isolation: Isolation = "auto",
    ) -> None:
        where = as_path(path).resolve()
        key, description = describe(where)
        chosen = interface_of(description, interface)
        steps = solver_for(solver, chosen, tolerance)
        for name, word in (("rollback", rollback), ("isolation", isolation)):
            if word not in _WORDS[name]:
                raise wrong(name, f"there is no {name} {word!r}. {suggest(str(word), _WORDS[name], 'words')}")
        fields = {
            "path": where,
            "interface_name": name_of(chosen),
            "solver": steps,
            "tolerance": checked_tolerance(tolerance),
            "locals": texts("locals", locals),
            "logging": categories(description, logging),
            "rollback": rollback,
            "isolation": isolation,
            "counted": False,
            "watched": False,
            "told": (),
            "stop": None,
            "step": 0.0,
            "starts": (),
            "_key": key,
            "description": description,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        starts = with_starts(description, {}, parameters or {})
        object.__setattr__(self, "starts", tuple(sorted(starts.items())))
        self.layout  # noqa: B018 - what is wrong with it is said here

    # ---------------------------------------------------------------- what it is

    @cached_property
    def description(self) -> ModelDescription:
        """What the FMU says of itself."""
        key, found = describe(self.path)
        if key[1:] != self._key[1:]:
            object.__setattr__(self, "_key", key)
        return found

    @property
    def interface(self) -> CoSimulation | ModelExchange:
        """The way in which it is run, with what it declares there."""
        return interface_of(self.description, self.interface_name)

    @cached_property
    def layout(self) -> Layout:
        """The ports with the variables behind them."""
        sizes = sizes_of(self.description, dict(self.starts))
        return layout(self.description, self.interface, sizes, self.locals, self.told)

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters, with the start values that were given."""
        starts = dict(self.starts)
        given = {p.name for p in self.layout.ports if p.name in starts and p.causality.value != "output"}
        known = tuple(
            replace(port, start=starts[port.name]) if port.name in given else port
            for port in self.layout.ports
        )
        # Their derivatives are differences over a part of the usual step.
        seen = shown(self.indicators, 2 if self.step else 0) if self.watched else ()
        return (*known, *seen, EVENTS) if self.counted else known

    @cached_property
    def abilities(self) -> frozenset[Ability]:
        """What the FMU declares, unless it is not to be believed (`rollback`)."""
        found = abilities_of(self.description, self.interface, rollback=self.rollback != "never")
        # CVODE is a solver in Python, which the core calls back.
        python = isinstance(self.interface, ModelExchange) and isinstance(self.effective_solver, Cvode)
        natively = not python and speaks_for_itself(type(self))
        return frozenset({*found, Ability.NATIVE} if natively else found)

    def verify(self, ability: Ability) -> str | None:
        """What is to be said against its claim that it can be set back, as far as it is to be checked."""
        if self.rollback != "check" or ability not in (Ability.ROLLBACK, Ability.SERIALISE):
            return None
        from upbeat.units.fmi.claims import objection  # claims are checked with models

        return objection(self, ability)

    def undeclared(self) -> tuple[list[tuple[str, str]], str]:
        """The pairs (output, input) where an output reacts at once, though declared not to; what failed."""
        from upbeat.units.fmi.claims import undeclared  # found by trying models

        return undeclared(self)

    def disturbed(self) -> str:
        """What goes wrong where two units of it run on two threads at the same time; empty: nothing."""
        from upbeat.units.fmi.claims import disturbed  # found by trying models

        return disturbed(self)

    def lags(self) -> list[tuple[str, str]]:
        """Which outputs follow which inputs only after the next step, though declared to do so at once."""
        from upbeat.units.fmi.claims import lags  # found by trying models

        return lags(self)

    def inner_step_seen(self, step: float, start: float) -> float:
        """The time between two solver steps inside, where `step` is no whole number of them; else 0."""
        if not isinstance(self.interface, CoSimulation):
            return 0.0
        declared = self.interface.fixed_internal_step
        if declared and abs(step / declared - round(step / declared)) <= 1e-6 and step > 0.5 * declared:
            return 0.0
        from upbeat.units.fmi.claims import inner_step  # found by trying models

        return declared or inner_step(self, step, start)

    @property
    def indicators(self) -> tuple[str, ...]:
        """Names of its event indicators: variables in FMI 3, numbers in FMI 2, which does not name them."""
        return indicator_names(self.description)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What `upbeat explain` says of it: where it comes from, and what is odd about it."""
        found = tuple(f"against the standard: {note}" for note in self.description.violations[:5])
        if self._lacking is not None:
            found = (f"it cannot run here: {self._lacking}", *found)
        return (*found, *notes_of(self.description, self.interface), *self.layout.notes)

    @property
    def _lacking(self) -> str | None:
        return no_core() or no_library(self.path, self.description.version, self.interface.model_identifier)

    @property
    def problems(self) -> tuple[str, ...]:
        """What `upbeat check` refuses: a run fails at once, or has to guess what is meant."""
        found = [f"line {note.line}: {note.where}: {note.what}" for note in self.description.violations]
        return (*(() if self._lacking is None else (f"it cannot run here: {self._lacking}",)), *found)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The variables that `locals` could make outputs of, and does not."""
        return tuple(name for name in choices(self.description) if name not in self.layout.variables)

    @property
    def steady(self) -> bool:
        """Whether all of its steps must be equally long."""
        return isinstance(self.interface, CoSimulation) and not self.interface.variable_step

    @property
    def initializes(self) -> bool:
        """Whether its first jump ends initialization mode, and nothing else asks for one."""
        co_simulation = isinstance(self.interface, CoSimulation)
        return co_simulation and not has_events(self.description, self.interface)

    @property
    def remembers(self) -> tuple[str, ...]:
        """States of another FMU are not states of this one."""
        return (self.description.token, self.interface_name)

    @property
    def key(self) -> Key:
        """What its description was read from."""
        return self._key

    # ---------------------------------------------------------------- what it makes

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Fmu:
        """The same model with other parameters, input starts or state starts, if FMI lets them be set.

        A structural parameter changes the sizes of the arrays that depend on it.
        """
        starts: Starts = with_starts(self.description, dict(self.starts), values)
        changed = copy.copy(self)
        for name in ("layout", "ports") if sizes_of(self.description, starts) else ("ports",):
            changed.__dict__.pop(name, None)
        object.__setattr__(changed, "starts", tuple(sorted(starts.items())))
        changed.layout  # noqa: B018
        return changed

    def fixed(self, parameter: str) -> str | None:
        """Why a parameter stays what it is while the FMU runs; None for those that are tunable."""
        return self.layout.fixed(parameter)

    def indicating(self, *, conditions: bool = True) -> Fmu:
        """The same model with an output that counts the events inside it, if it can tell of any, and (with
        `conditions`, for model exchange) outputs for its event indicators."""
        named = [self.description.by_name[u.variable] for u in self.description.structure.event_indicators]
        arrays = any(variable.dimensions for variable in named)  # how many there are is known in the run only
        watched = conditions and Ability.INDICATORS in self.abilities and not arrays
        announces = not self.abilities.isdisjoint({Ability.NEXT_EVENT, Ability.EARLY_RETURN})
        if (
            not announces
            or (self.counted and self.watched >= watched)
            or EVENTS.name in self.layout.variables
        ):
            return self
        changed = copy.copy(self)
        changed.__dict__.pop("ports", None)
        object.__setattr__(changed, "counted", True)
        object.__setattr__(changed, "watched", watched)
        return changed

    def known_rates(self, output: str) -> int:
        """How many time derivatives of an output it can tell: in model exchange, those of states."""
        variable = self.layout.variables.get(output)
        if variable is None or output in self.layout.orders or not isinstance(self.interface, ModelExchange):
            return 0
        return len(rates_in(self.description, variable.name))

    def giving_rates(self, wanted: Mapping[str, int], fed: Mapping[str, int] | None = None) -> Fmu:
        """The same model with outputs for so many time derivatives of these outputs."""
        told = [
            rate
            for output, order in wanted.items()
            if self.known_rates(output)
            for rate in rates_in(self.description, output)[:order]
            if rate not in self.layout.variables
        ]
        if not told:
            return self
        changed = copy.copy(self)
        for name in ("layout", "ports"):
            changed.__dict__.pop(name, None)
        object.__setattr__(changed, "told", tuple(dict.fromkeys((*self.told, *told))))
        return changed

    def with_logging(self, logging: bool | tuple[str, ...]) -> Fmu:
        """The same model with other messages."""
        changed = copy.copy(self)
        object.__setattr__(changed, "logging", logging)
        return changed

    def talking(self) -> Fmu:
        """The same model with all messages, or those of the categories that were asked for."""
        return self.with_logging(self.logging or True)

    def planned(self, stop: float, step: float) -> Fmu:
        """The same model for runs that end at `stop`, in steps that are usually as long as `step`.

        The FMU is told so. 0: steps have no usual length.
        """
        changed = copy.copy(self)
        object.__setattr__(changed, "stop", stop)
        object.__setattr__(changed, "step", step)
        return changed

    def endangers(self, units: int) -> bool:
        """Whether several units cannot share a process, or one has crashed or hung when it was probed."""
        alone = self.interface.only_once_per_process and units > 1
        return alone or known_to_fail(self.path, self.interface_name) is not None

    def content(self) -> str:
        """A hash of the file, wherever it lies."""
        return content(self.path)

    def undefined(self) -> Mapping[str, str]:
        """The units of measure, by port, that are names and nothing more."""
        return self.layout.undefined

    def instantiate(self, name: str, start: float) -> Unit:
        """A new instance, in initialization mode at time `start`."""
        return launch(self, name, start)

    def enter(self, core: Core, name: str, start: float) -> object:
        """The same inside the native engine, which frees it in the end; some only want to know what it is."""
        described = getattr(core, "fmu", None)
        return enter(self, core, name, start) if described is None else described(self, name, start)

    def reset_numbers(self) -> tuple[float, ...]:
        """The numbers that a unit can begin again with others of: the given start values."""
        from upbeat.units.fmi.unit import numbers_given

        return tuple(value for *_, values in numbers_given(self) or () for value in values)

    @property
    def effective_solver(self) -> Solver:
        """The solver for model exchange, with the tolerance there is unless it brings its own."""
        return with_tolerance(self.solver or DormandPrince(), self.accuracy)

    @property
    def accuracy(self) -> float | None:
        """The relative tolerance that was asked for, else that of the default experiment."""
        return self.tolerance or self.description.experiment.tolerance

    @property
    def solver_tolerance(self) -> float | None:
        """What the FMU is told: how exactly it is to solve, or how exactly the importer solves it."""
        if isinstance(self.interface, CoSimulation):
            return self.accuracy
        solver = self.effective_solver
        return solver.rtol if isinstance(solver, (DormandPrince, Cvode)) else None

    def to_spec(self) -> dict[str, Any]:
        """The settings as a file has them, without the path: only what differs from the usual."""
        spec: dict[str, Any] = {}
        usual = interface_of(self.description, None)
        if self.interface_name != name_of(usual):
            spec["interface"] = self.interface_name
        if self.solver is not None:
            spec["solver"] = solver_spec(self.solver)
        if self.tolerance is not None:
            spec["tolerance"] = self.tolerance
        for key, usually in (
            ("locals", ()),
            ("logging", False),
            ("rollback", "check"),
            ("isolation", "auto"),
        ):
            value = getattr(self, key)
            if value != usually:
                spec[key] = list(value) if isinstance(value, tuple) else value
        if self.starts:
            by_name = self.description.by_name
            spec["parameters"] = {
                name: list(values) if by_name[name].dimensions else values[0] for name, values in self.starts
            }
        return spec

    def __copy__(self) -> Fmu:
        """With everything that is known already, unlike what another process gets."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Path and settings: the description is read again where it is needed."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
