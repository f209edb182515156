"""One instance of an FMU as the rest of the package sees it, whatever the version of FMI.

Times and states are floats; values go in and out through readers and writers that are prepared once.
Every call that the FMU refuses raises `FmuError`; after a fatal one, of this instance or another one of the
same library, only `free` does anything, and that is to forget the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_double
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

from upbeat.core.errors import EndRequest, UpbeatError
from upbeat.core.ports import Signal
from upbeat.units.fmi.description import Interface, ModelDescription, Variable

Reader = Callable[[], Signal]
"""Gives the value now: a plain value for a scalar, a tuple of all cells for an array."""
Writer = Callable[[Signal], None]
State = Any
"""A handle of a state that the FMU keeps."""


class FmuError(UpbeatError):
    """A call that the FMU did not carry out. The engine wraps it into a `UnitError` with unit and time.

    `call` is the name of the FMI function. `fatal` says that the instance may not be used any more,
    `discarded` that the FMU could do it with other values (a shorter step, states nearer to the last ones).
    """

    def __init__(self, message: str, call: str = "", fatal: bool = False, discarded: bool = False) -> None:
        super().__init__(message)
        self.call = call
        self.fatal = fatal
        self.discarded = discarded


def end_request(instance: Instance, t: float) -> EndRequest:
    """What a unit raises whose FMU has asked for the end before."""
    return EndRequest(
        f"the FMU asked to end the simulation at t = {t:.9g}", unit=instance.name, call="advance()", time=t
    )


class Stepped(NamedTuple):
    """How a co-simulation step ended: the time reached, and what the FMU asks for.

    `early` says that it is not all of the step: FMI 3's early return, or FMI 2's discard.
    A tuple, because every step makes one.
    """

    reached: float
    event: bool = False
    terminate: bool = False
    early: bool = False


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A moment within a step at which the FMU lets its importer in (FMI 3).

    `may_set`: intermediate inputs can be set for this time; `may_get`: intermediate outputs belong to it;
    `finished`: an internal step is complete; `may_return`: the step may be ended here.
    """

    time: float
    may_set: bool
    may_get: bool
    finished: bool
    may_return: bool


OnIntermediate = Callable[[Intermediate], "float | None"]
"""Called within `step`. It returns None to go on, or the time at which the step should return early."""


@dataclass(frozen=True, slots=True)
class Updated:
    """What one round of event iteration left: `next_time` is infinite where no time event is known."""

    again: bool = False
    terminate: bool = False
    nominals_changed: bool = False
    states_changed: bool = False
    next_time: float = inf


class Instance(Protocol):
    """One instance. Call order is that of the standard; the units on top keep to it.

    Made by `upbeat.units.fmi.binding.instantiate`, in the state "instantiated".
    """

    @property
    def description(self) -> ModelDescription: ...

    @property
    def interface(self) -> Interface: ...

    @property
    def name(self) -> str: ...

    @property
    def pointer(self) -> int:
        """What the FMU's functions take as their first argument."""
        ...

    def address(self, function: str) -> int:
        """Where an FMI function lies (``fmi2DoStep``); 0 if the FMU lacks it."""
        ...

    @property
    def time(self) -> float:
        """Where the instance is, for its log messages; whoever calls its addresses may tell."""
        ...

    @time.setter
    def time(self, t: float) -> None: ...

    def tell_time_by(self, clock: c_double) -> None:
        """Whoever calls its addresses writes the time there."""
        ...

    @property
    def environment(self) -> int:
        """What its log messages carry, so that they find their way: also those of whoever calls for it."""
        ...

    def note(self, text: str) -> None:
        """A warning about the FMU, among its own messages."""
        ...

    def complaints(self) -> Sequence[str]:
        """What the FMU said of late about something that went wrong: for those who call its addresses."""
        ...

    @property
    def doomed(self) -> bool:
        """An instance of the same library failed for good: no further call, not even free."""
        ...

    @property
    def doom(self) -> int:
        """Where that is known to whoever calls its addresses: of a C string that is null until then."""
        ...

    def abandon(self, why: str) -> None:
        """Others call its addresses, and free it: no further call from here."""
        ...

    # -- values --------------------------------------------------------------------------------

    def reader(self, variable: Variable, cells: int | None = None) -> Reader:
        """`cells` where structural parameters gave an array another size than the description's."""
        ...

    def writer(self, variable: Variable, cells: int | None = None) -> Writer: ...

    # -- life ----------------------------------------------------------------------------------

    def enter_configuration(self) -> None:
        """FMI 3: structural parameters may be set until `exit_configuration`."""
        ...

    def exit_configuration(self) -> None: ...

    def enter_initialization(
        self,
        start: float,
        stop: float | None,
        tolerance: float | None,
        give: Callable[[], None] = lambda: None,
    ) -> None:
        """With what FMI 2 calls setting up the experiment; `give` sets start values, right before the mode.

        Not earlier: there are FMUs that reset all values when the experiment is set up.
        """
        ...

    def exit_initialization(self) -> None: ...

    def terminate(self) -> None: ...

    def free(self) -> None:
        """Once or more often; after a fatal error it only forgets."""
        ...

    # -- co-simulation -------------------------------------------------------------------------

    def step(self, t: float, length: float, no_set_prior: bool) -> Stepped:
        """`no_set_prior`: no state before `t` will be set any more."""
        ...

    def set_input_derivatives(
        self, variables: Sequence[Variable], orders: Sequence[int], values: Sequence[float]
    ) -> None:
        """FMI 2."""
        ...

    def output_derivatives(self, variables: Sequence[Variable], orders: Sequence[int]) -> Sequence[float]: ...

    # -- events --------------------------------------------------------------------------------

    def enter_event_mode(self) -> None: ...

    def update(self) -> Updated:
        """One round: new discrete states."""
        ...

    def enter_step_mode(self) -> None: ...

    def enter_continuous_time_mode(self) -> None: ...

    def clocks(self, variables: Sequence[Variable]) -> Sequence[bool]:
        """Which of these clocks tick now."""
        ...

    def tick(self, variables: Sequence[Variable]) -> None:
        """Activate these input clocks."""
        ...

    def intervals(self, variables: Sequence[Variable]) -> Sequence[tuple[float | None, int]]:
        """The interval of each clock in seconds (None: not yet known) and FMI's qualifier (0, 1, 2)."""
        ...

    def shifts(self, variables: Sequence[Variable]) -> Sequence[float]: ...

    # -- state ---------------------------------------------------------------------------------

    def save(self, into: State | None = None) -> State:
        """A copy of the state; `into` is one made before whose place may be used again."""
        ...

    def restore(self, state: State) -> None: ...

    def drop(self, state: State) -> None:
        """The state is no longer needed."""
        ...

    def to_bytes(self, state: State) -> bytes: ...

    def from_bytes(self, data: bytes) -> State: ...

    # -- derivatives ---------------------------------------------------------------------------

    def directional(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> Sequence[float]:
        """The Jacobian of `unknowns` by `knowns` times `seed`."""
        ...

    def adjoint(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> Sequence[float]:
        """`seed` times the Jacobian (FMI 3)."""
        ...

    # -- model exchange ------------------------------------------------------------------------

    def set_time(self, t: float) -> None: ...

    def set_states(self, x: Sequence[float]) -> None: ...

    def states(self) -> list[float]: ...

    def derivatives(self) -> list[float]: ...

    def indicators(self) -> list[float]: ...

    def nominals(self) -> list[float]: ...

    def completed_step(self, no_set_prior: bool) -> tuple[bool, bool]:
        """After each accepted step of the solver: whether an event is wanted, and the end of the run."""
        ...
