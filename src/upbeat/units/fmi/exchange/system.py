"""An FMU in continuous time as solvers see it: derivatives and indicators at any time and state."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from upbeat.units.fmi.exchange.inputs import Inputs
from upbeat.units.fmi.instance import FmuError, Instance


class System:
    """Brings the instance wherever the solver looks, with what the inputs are there."""

    def __init__(self, instance: Instance, inputs: Inputs) -> None:
        self._instance = instance
        self._inputs = inputs
        self._final = not instance.interface.saves_state  # then no state before a completed step comes back
        self.patient = False
        """Whether the solver chooses its steps, so that it can try a shorter one."""
        self.ended: float | None = None
        """When the FMU asked to end the simulation."""

    def place(self, t: float, x: list[float]) -> None:
        """Bring the FMU to a time and a state."""
        self._instance.set_time(t)
        if x:
            self._instance.set_states(x)
        self._inputs.follow(t)

    def derivatives(self, t: float, x: list[float]) -> Sequence[float]:
        """The derivatives of the states; not numbers where the FMU has discarded them."""
        if not x:
            return ()
        try:
            self.place(t, x)
            return self._instance.derivatives()
        except FmuError as error:
            if error.discarded and self.patient:
                return [nan] * len(x)  # which a solver takes as: not so far
            raise

    def indicators(self, t: float, x: list[float]) -> Sequence[float]:
        """The event indicators."""
        self.place(t, x)
        return self._instance.indicators()

    def completed(self, t: float, x: list[float]) -> bool:
        """A step has been accepted; whether the FMU wants an event."""
        self.place(t, x)
        event, terminate = self._instance.completed_step(self._final)
        if terminate:
            self.ended = t
        return event or terminate
