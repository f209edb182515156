"""Instances of FMI 3.0."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint64,
    c_void_p,
)
from functools import cache, cached_property
from math import inf
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from upbeat.units.fmi.binding.calls import Calls
from upbeat.units.fmi.binding.logging import logger3
from upbeat.units.fmi.binding.shared import Shared, references
from upbeat.units.fmi.description import Interface, InterfaceKind, ModelDescription, Variable
from upbeat.units.fmi.instance import Intermediate, OnIntermediate, Stepped, Updated

_NOT_YET_KNOWN = 0
_FLAGS = (c_bool(False), c_bool(True))
_instances: WeakValueDictionary[int, Fmi3] = WeakValueDictionary()
"""By the number of their journal, which is their environment."""


def resources(folder: Path) -> bytes:
    """The path of the FMU's resources, which ends in a separator."""
    return os.fsencode(folder.resolve() / "resources") + os.sep.encode()


class Fmi3(Shared):
    """An instance of FMI 3.0."""

    version = 3
    boolean = c_bool
    state_word = "FMUState"
    deserialize = "DeserializeFMUState"
    derivatives_word = "GetContinuousStateDerivatives"

    def __init__(self, description: ModelDescription, interface: Interface, name: str, calls: Calls) -> None:
        super().__init__(description, interface, name, calls)
        self.on_intermediate: OnIntermediate | None = None
        self._raised: BaseException | None = None
        _instances[calls.journal.number] = self

    def start(
        self,
        folder: Path,
        visible: bool,
        logging: bool,
        event_mode: bool = False,
        early_return: bool = False,
        intermediate: OnIntermediate | int | None = None,
        required: Sequence[Variable] = (),
    ) -> int:
        """Make it: what the FMU returns, 0 if nothing."""
        calls = self.calls
        common = (
            c_char_p(self.name.encode()),
            c_char_p(self.description.token.encode()),
            c_char_p(resources(folder)),
            c_bool(visible),
            c_bool(logging),
        )
        environment = c_void_p(calls.journal.number)
        if self.interface.kind is InterfaceKind.MODEL_EXCHANGE:
            instantiate = calls.raw("fmi3InstantiateModelExchange", c_void_p)
            return instantiate(*common, environment, logger3()) or 0
        instantiate = calls.raw("fmi3InstantiateCoSimulation", c_void_p)
        called_back: Any = None
        if isinstance(intermediate, int):
            called_back = c_void_p(intermediate)
        elif intermediate is not None:
            called_back, self.on_intermediate = _on_intermediate(), intermediate
        return (
            instantiate(
                *common,
                c_bool(event_mode),
                c_bool(early_return),
                references(required) if required else None,
                c_size_t(len(required)),
                environment,
                logger3(),
                called_back,
            )
            or 0
        )

    # -- life ----------------------------------------------------------------------------------

    def enter_configuration(self) -> None:
        self._call("EnterConfigurationMode")()

    def exit_configuration(self) -> None:
        self._call("ExitConfigurationMode")()
        self._vectors.clear()  # there may be more or fewer states now

    def enter_initialization(
        self,
        start: float,
        stop: float | None,
        tolerance: float | None,
        give: Callable[[], None] = lambda: None,
    ) -> None:
        self.time = start
        give()
        enter = self._call("EnterInitializationMode", c_bool, c_double, c_double, c_bool, c_double)
        enter(
            tolerance is not None, tolerance or 0.0, start, stop is not None, start if stop is None else stop
        )

    # -- co-simulation -------------------------------------------------------------------------

    def step(self, t: float, length: float, no_set_prior: bool) -> Stepped:
        calls, journal = self.calls, self._journal
        function, at, by, results, event, terminate, early, last = self._do_step
        if journal.news or calls.library.doom:
            calls.settle("fmi3DoStep")
        journal.time = at.value = t
        by.value = length
        last.value = end = t + length
        event.value = terminate.value = early.value = False
        status = function(calls.pointer, at, by, _FLAGS[no_set_prior], *results)
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        if status:
            calls.judge("fmi3DoStep", status)
        returned = early.value
        return Stepped(last.value if returned else end, event.value, terminate.value, returned)

    @cached_property
    def _do_step(self) -> Any:
        places = (c_bool(), c_bool(), c_bool(), c_double())
        results = tuple(byref(place) for place in places)
        return self.calls.raw("fmi3DoStep"), c_double(), c_double(), results, *places

    def set_input_derivatives(
        self, variables: Sequence[Variable], orders: Sequence[int], values: Sequence[float]
    ) -> None:
        raise self._lacks("derivatives of inputs: they are set in intermediate updates")

    def output_derivatives(self, variables: Sequence[Variable], orders: Sequence[int]) -> Sequence[float]:
        cells = sum(variable.cells for variable in variables)
        return self._derivatives_of_outputs("GetOutputDerivatives", variables, orders, cells)

    def intermediate(self, moment: Intermediate) -> float | None:
        """Called back from within a step. What is raised waits until the FMU has returned."""
        if self.on_intermediate is None or self._raised is not None:
            return moment.time if moment.may_return and self._raised is not None else None
        try:
            return self.on_intermediate(moment)
        except BaseException as error:  # noqa: BLE001
            self._raised = error
            return moment.time if moment.may_return else None

    # -- events --------------------------------------------------------------------------------

    def update(self) -> Updated:
        again, terminate, nominals, states, defined = (c_bool() for _ in range(5))
        next_time = c_double()
        self._call("UpdateDiscreteStates")(
            *map(byref, (again, terminate, nominals, states, defined)), byref(next_time)
        )
        return Updated(
            again.value,
            terminate.value,
            nominals.value,
            states.value,
            next_time.value if defined.value else inf,
        )

    def enter_step_mode(self) -> None:
        self._call("EnterStepMode")()

    def clocks(self, variables: Sequence[Variable]) -> Sequence[bool]:
        found = (c_bool * len(variables))()
        self._call("GetClock")(references(variables), c_size_t(len(variables)), found)
        return found[:]

    def tick(self, variables: Sequence[Variable]) -> None:
        count = len(variables)
        self._call("SetClock")(references(variables), c_size_t(count), (c_bool * count)(*[True] * count))

    def intervals(self, variables: Sequence[Variable]) -> Sequence[tuple[float | None, int]]:
        count = len(variables)
        qualifiers = (c_int * count)()
        found = self._seconds("GetInterval", variables, qualifiers)
        return [
            (None if qualifier == _NOT_YET_KNOWN else seconds, qualifier)
            for seconds, qualifier in zip(found, qualifiers, strict=True)
        ]

    def shifts(self, variables: Sequence[Variable]) -> Sequence[float]:
        return self._seconds("GetShift", variables)

    def _seconds(self, name: str, variables: Sequence[Variable], *more: Any) -> list[float]:
        """As decimal numbers, or as fractions if the FMU has only those."""
        count, which = len(variables), references(variables)
        fractions = f"fmi3{name}Fraction"
        if self.address(f"fmi3{name}Decimal") or not self.address(fractions):
            seconds = (c_double * count)()
            self._call(f"{name}Decimal")(which, c_size_t(count), seconds, *more)
            return seconds[:]
        counters, resolutions = (c_uint64 * count)(), (c_uint64 * count)()
        self._call(f"{name}Fraction")(which, c_size_t(count), counters, resolutions, *more)
        return [a / b if b else 0.0 for a, b in zip(counters, resolutions, strict=True)]

    # -- derivatives ---------------------------------------------------------------------------

    def directional(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> Sequence[float]:
        found = (c_double * sum(variable.cells for variable in unknowns))()
        return self._sensitivity("GetDirectionalDerivative", unknowns, knowns, seed, found)

    def adjoint(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> Sequence[float]:
        found = (c_double * sum(variable.cells for variable in knowns))()
        return self._sensitivity("GetAdjointDerivative", unknowns, knowns, seed, found)

    def _sensitivity(
        self,
        name: str,
        unknowns: Sequence[Variable],
        knowns: Sequence[Variable],
        seed: Sequence[float],
        found: Any,
    ) -> list[float]:
        self._call(name)(
            references(unknowns),
            c_size_t(len(unknowns)),
            references(knowns),
            c_size_t(len(knowns)),
            (c_double * len(seed))(*seed),
            c_size_t(len(seed)),
            found,
            c_size_t(len(found)),
        )
        result: list[float] = found[:]
        return result

    def _count(self, what: str) -> int:
        """The FMU knows best: structural parameters change the size of its state."""
        name = "GetNumberOfEventIndicators" if what == "indicators" else "GetNumberOfContinuousStates"
        if not self.address(f"fmi3{name}"):
            return super()._count(what)
        count = c_size_t()
        self._call(name)(byref(count))
        return count.value


@cache
def _on_intermediate() -> Any:
    """The function that FMUs call within their steps, for all instances."""

    def update(
        number: int, t: float, may_set: bool, may_get: bool, done: bool, may_return: bool, early: Any, at: Any
    ) -> None:
        instance = _instances.get(number or 0)
        moment = Intermediate(t, may_set, may_get, done, may_return)
        wanted = None if instance is None else instance.intermediate(moment)
        early[0] = wanted is not None and may_return
        at[0] = t if wanted is None else wanted

    return CFUNCTYPE(None, c_void_p, c_double, *[c_bool] * 4, POINTER(c_bool), POINTER(c_double))(update)
