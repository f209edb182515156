"""What FMI 2 and 3 have in common: values, the end of a life, states, and the calls of model exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, byref, c_char, c_double, c_int32, c_size_t, c_uint32, c_void_p
from functools import cached_property
from typing import Any, ClassVar

from upbeat.units.fmi.binding import values
from upbeat.units.fmi.binding.calls import FATAL, Calls
from upbeat.units.fmi.binding.logging import logger2
from upbeat.units.fmi.description import Interface, ModelDescription, Variable
from upbeat.units.fmi.instance import FmuError, Reader, State, Writer


class Shared:
    """The half of an instance that does not care for the version, but for the names and types below."""

    version: ClassVar[int]
    boolean: ClassVar[Any]
    """What C makes of a truth value."""
    state_word: ClassVar[str]
    """How this version spells a state."""
    deserialize: ClassVar[str]
    derivatives_word: ClassVar[str]

    def __init__(self, description: ModelDescription, interface: Interface, name: str, calls: Calls) -> None:
        self.description = description
        self.interface = interface
        self.name = name
        self.calls = calls
        self._journal = calls.journal
        self._prepared: dict[str, Callable[..., None]] = {}
        self._states: dict[int, State] = {}
        self._vectors: dict[str, tuple[Any, Callable[[], None]]] = {}
        self._t = c_double()

    @property
    def pointer(self) -> int:
        return self.calls.component

    @property
    def time(self) -> float:
        return self._journal.time

    @time.setter
    def time(self, t: float) -> None:
        self._journal.time = t

    def tell_time_by(self, clock: c_double) -> None:
        self._journal.clock = clock

    def address(self, function: str) -> int:
        return self.calls.library.address(function)

    @property
    def environment(self) -> int:
        logger2()  # from now on the core knows where messages go
        return self._journal.number

    def note(self, text: str) -> None:
        self._journal.note(text)

    def complaints(self) -> Sequence[str]:
        return self._journal.complaints()

    @property
    def doomed(self) -> bool:
        return bool(self.calls.library.doom)

    @property
    def doom(self) -> int:
        return addressof(self.calls.library.doom)

    def abandon(self, why: str) -> None:
        self.calls.end(why)

    def _call(self, name: str, *types: Any) -> Callable[..., None]:
        """The function of this name without ``fmi2`` or ``fmi3``, prepared once."""
        call = self._prepared.get(name)
        if call is None:
            call = self._prepared[name] = self.calls.prepare(f"fmi{self.version}{name}", *types)
        return call

    def _fixed(self, name: str, *arguments: Any) -> Callable[[], None]:
        return self.calls.fixed(f"fmi{self.version}{name}", *arguments)

    def _lacks(self, what: str) -> FmuError:
        return FmuError(f"FMI {self.version} has no {what}")

    # -- values --------------------------------------------------------------------------------

    def reader(self, variable: Variable, cells: int | None = None) -> Reader:
        return values.reader(self.calls, variable, self.version, cells)

    def writer(self, variable: Variable, cells: int | None = None) -> Writer:
        return values.writer(self.calls, variable, self.version, cells)

    # -- life ----------------------------------------------------------------------------------

    def exit_initialization(self) -> None:
        self._call("ExitInitializationMode")()

    def terminate(self) -> None:
        self._call("Terminate")()

    def free(self) -> None:
        if self.calls.gone:
            return
        self.calls.end("the instance has been freed")
        if self.doomed:
            return
        states = list(self._states.values())
        self._states.clear()
        # Not through `drop`: whatever there is to complain of, the rest is to be freed all the same.
        free_state = self.calls.raw(f"fmi{self.version}Free{self.state_word}")
        free = self.calls.raw(f"fmi{self.version}FreeInstance", None)
        try:
            for state in states:
                if free_state(self.calls.pointer, byref(state)) == FATAL:
                    return self.calls.library.give_up(f"fmi{self.version}Free{self.state_word}")
            free(self.calls.pointer)
        except FmuError as missing:
            self._journal.note(str(missing))
        finally:
            self._journal.settle()

    # -- state ---------------------------------------------------------------------------------

    def save(self, into: State | None = None) -> State:
        state = c_void_p() if into is None else into
        self._call(f"Get{self.state_word}")(byref(state))
        self._states[id(state)] = state
        return state

    def restore(self, state: State) -> None:
        self._call(f"Set{self.state_word}", c_void_p)(state)

    def drop(self, state: State) -> None:
        if self._states.pop(id(state), None) is None:
            return
        self._call(f"Free{self.state_word}")(byref(state))

    def to_bytes(self, state: State) -> bytes:
        size = c_size_t()
        self._call(f"Serialized{self.state_word}Size", c_void_p, c_void_p)(state, byref(size))
        data = (c_char * size.value)()
        self._call(f"Serialize{self.state_word}", c_void_p, c_void_p, c_size_t)(state, data, size)
        return bytes(data)

    def from_bytes(self, data: bytes) -> State:
        state = c_void_p()
        copy = (c_char * len(data)).from_buffer_copy(data)
        self._call(self.deserialize, c_void_p, c_size_t, c_void_p)(copy, len(data), byref(state))
        self._states[id(state)] = state
        return state

    # -- derivatives ---------------------------------------------------------------------------

    def _derivatives_of_outputs(
        self, name: str, variables: Sequence[Variable], orders: Sequence[int], *more: int
    ) -> list[float]:
        count = len(variables)
        found = (c_double * sum(variable.cells for variable in variables))()
        self._call(name)(
            references(variables), c_size_t(count), (c_int32 * count)(*orders), found, *map(c_size_t, more)
        )
        return found[:]

    # -- events and model exchange -------------------------------------------------------------

    def enter_event_mode(self) -> None:
        self._call("EnterEventMode")()

    def enter_continuous_time_mode(self) -> None:
        self._call("EnterContinuousTimeMode")()

    def set_time(self, t: float) -> None:
        self._journal.time = self._t.value = t
        self._set_time()

    def set_states(self, x: Sequence[float]) -> None:
        place, put = self._vector("SetContinuousStates", "states")
        place[:] = x
        put()

    def states(self) -> list[float]:
        return self._got("GetContinuousStates", "states")

    def derivatives(self) -> list[float]:
        return self._got(self.derivatives_word, "states")

    def indicators(self) -> list[float]:
        return self._got("GetEventIndicators", "indicators")

    def nominals(self) -> list[float]:
        return self._got("GetNominalsOfContinuousStates", "states")

    def completed_step(self, no_set_prior: bool) -> tuple[bool, bool]:
        kept, event, terminate, call = self._completed
        kept.value, event.value, terminate.value = no_set_prior, False, False
        call()
        return bool(event.value), bool(terminate.value)

    def _got(self, function: str, what: str) -> list[float]:
        place, get = self._vector(function, what)
        get()
        found: list[float] = place[:]
        return found

    def _vector(self, function: str, what: str) -> tuple[Any, Callable[[], None]]:
        """A place for all states or indicators, and a call of a function with it; made once."""
        vector = self._vectors.get(function)
        if vector is None:
            count = self._count(what)
            place = (c_double * count)()
            call = self._fixed(function, byref(place), c_size_t.from_param(count))
            vector = self._vectors[function] = (place, call)
        return vector

    @cached_property
    def _set_time(self) -> Callable[[], None]:
        return self._fixed("SetTime", self._t)

    @cached_property
    def _completed(self) -> Any:
        kept, event, terminate = places = [self.boolean() for _ in range(3)]
        return *places, self._fixed("CompletedIntegratorStep", kept, byref(event), byref(terminate))

    def _count(self, what: str) -> int:
        if what == "indicators":
            return self.description.event_indicator_count
        by_name = self.description.by_name
        return sum(by_name[name].cells for name in self.description.states)


def references(variables: Sequence[Variable]) -> Any:
    """Their value references, as C wants them."""
    return (c_uint32 * len(variables))(*(variable.reference for variable in variables))
