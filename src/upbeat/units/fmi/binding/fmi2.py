"""Instances of FMI 2.0."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import Structure, byref, c_char_p, c_double, c_int, c_int32, c_size_t, c_void_p
from functools import cache, cached_property
from math import inf
from pathlib import Path
from typing import Any

from upbeat.units.fmi.binding.calls import DISCARD, FATAL, OK, WARNING
from upbeat.units.fmi.binding.logging import logger2
from upbeat.units.fmi.binding.shared import Shared, references
from upbeat.units.fmi.description import InterfaceKind, Variable
from upbeat.units.fmi.instance import Stepped, Updated

_TYPES = {InterfaceKind.MODEL_EXCHANGE: 0, InterfaceKind.CO_SIMULATION: 1}
_LAST_SUCCESSFUL_TIME, _TERMINATED = 2, 3
_FLAGS = (c_int.from_param(0), c_int.from_param(1))
_SHORTER = "Try a shorter communication step"


class _Callbacks(Structure):
    _fields_ = (
        ("logger", c_void_p),
        ("allocate", c_void_p),
        ("free", c_void_p),
        ("step_finished", c_void_p),
        ("environment", c_void_p),
    )


class _EventInfo(Structure):
    _fields_ = (
        ("again", c_int),
        ("terminate", c_int),
        ("nominals_changed", c_int),
        ("states_changed", c_int),
        ("next_defined", c_int),
        ("next_time", c_double),
    )


@cache
def _memory() -> tuple[int, int]:
    """Where the C library's own calloc and free lie, which have the types that FMI 2 asks for."""
    process = ctypes.CDLL(None)
    found = [ctypes.cast(function, c_void_p).value or 0 for function in (process.calloc, process.free)]
    return found[0], found[1]


def resources(folder: Path) -> bytes:
    """The URI of the FMU's resources."""
    return (folder.resolve() / "resources").as_uri().encode()


class Fmi2(Shared):
    """An instance of FMI 2.0."""

    version = 2
    boolean = c_int
    state_word = "FMUstate"
    deserialize = "DeSerializeFMUstate"
    derivatives_word = "GetDerivatives"

    def start(self, folder: Path, visible: bool, logging: bool) -> int:
        """Make it: what the FMU returns, 0 if nothing."""
        calls = self.calls
        instantiate = calls.raw("fmi2Instantiate", c_void_p)
        # The FMU may keep the pointer to this for as long as it lives.
        self._callbacks = _Callbacks(logger2(), *_memory(), None, calls.journal.number)
        found = instantiate(
            c_char_p(self.name.encode()),
            c_int(_TYPES[self.interface.kind]),
            c_char_p(self.description.token.encode()),
            c_char_p(resources(folder)),
            byref(self._callbacks),
            c_int(visible),
            c_int(logging),
        )
        return found or 0

    # -- life ----------------------------------------------------------------------------------

    def enter_configuration(self) -> None:
        raise self._lacks("configuration mode")

    def exit_configuration(self) -> None:
        raise self._lacks("configuration mode")

    def enter_initialization(
        self,
        start: float,
        stop: float | None,
        tolerance: float | None,
        give: Callable[[], None] = lambda: None,
    ) -> None:
        self.time = start
        setup = self._call("SetupExperiment", c_int, c_double, c_double, c_int, c_double)
        setup(
            tolerance is not None, tolerance or 0.0, start, stop is not None, start if stop is None else stop
        )
        give()
        self._call("EnterInitializationMode")()

    # -- co-simulation -------------------------------------------------------------------------

    def step(self, t: float, length: float, no_set_prior: bool) -> Stepped:
        calls, journal = self.calls, self._journal
        function, at, by = self._do_step
        if journal.news or calls.library.doom:
            calls.settle("fmi2DoStep")
        journal.time = at.value = t
        by.value = length
        if status := function(calls.pointer, at, by, _FLAGS[no_set_prior]):
            if status == DISCARD:
                return self._discarded(t)
            calls.judge("fmi2DoStep", status)
        return Stepped(t + length)

    @cached_property
    def _do_step(self) -> tuple[Any, c_double, c_double]:
        return self.calls.raw("fmi2DoStep"), c_double(), c_double()

    def _discarded(self, t: float) -> Stepped:
        """How far it came. An FMU that cannot tell has not come anywhere that can be relied on."""
        reached, ends = c_double(t), c_int(0)
        if not self._told("fmi2GetRealStatus", _LAST_SUCCESSFUL_TIME, reached):
            self.calls.fail("fmi2DoStep", DISCARD, _SHORTER)
        asked = self._told("fmi2GetBooleanStatus", _TERMINATED, ends) and bool(ends.value)
        return Stepped(reached.value, terminate=asked, early=True)

    def _told(self, name: str, kind: int, place: Any) -> bool:
        """Whether the FMU could say this about its last step."""
        if not self.address(name):
            return False
        if self.doomed:
            self.calls.settle(name)
        status = self.calls.raw(name)(self.calls.pointer, c_int(kind), byref(place))
        if status == FATAL:
            self.calls.fail(name, status)
        return status in (OK, WARNING)

    def set_input_derivatives(
        self, variables: Sequence[Variable], orders: Sequence[int], values: Sequence[float]
    ) -> None:
        count = len(variables)
        self._call("SetRealInputDerivatives")(
            references(variables), c_size_t(count), (c_int32 * count)(*orders), (c_double * count)(*values)
        )

    def output_derivatives(self, variables: Sequence[Variable], orders: Sequence[int]) -> Sequence[float]:
        return self._derivatives_of_outputs("GetRealOutputDerivatives", variables, orders)

    # -- events --------------------------------------------------------------------------------

    def update(self) -> Updated:
        info = _EventInfo()
        self._call("NewDiscreteStates")(byref(info))
        return Updated(
            bool(info.again),
            bool(info.terminate),
            bool(info.nominals_changed),
            bool(info.states_changed),
            info.next_time if info.next_defined else inf,
        )

    def enter_step_mode(self) -> None:
        raise self._lacks("step mode")

    def clocks(self, variables: Sequence[Variable]) -> Sequence[bool]:
        raise self._lacks("clocks")

    def tick(self, variables: Sequence[Variable]) -> None:
        raise self._lacks("clocks")

    def intervals(self, variables: Sequence[Variable]) -> Sequence[tuple[float | None, int]]:
        raise self._lacks("clocks")

    def shifts(self, variables: Sequence[Variable]) -> Sequence[float]:
        raise self._lacks("clocks")

    # -- derivatives ---------------------------------------------------------------------------

    def directional(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> Sequence[float]:
        rows, columns = len(unknowns), len(knowns)
        found = (c_double * rows)()
        self._call("GetDirectionalDerivative")(
            references(unknowns),
            c_size_t(rows),
            references(knowns),
            c_size_t(columns),
            (c_double * columns)(*seed),
            found,
        )
        return found[:]

    def adjoint(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> Sequence[float]:
        raise self._lacks("adjoint derivatives")
