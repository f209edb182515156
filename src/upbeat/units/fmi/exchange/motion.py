"""The continuous part of an FMU in model exchange: its states, the solver that moves them, what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from upbeat.units.fmi.description import ModelExchange
from upbeat.units.fmi.exchange.inputs import Inputs
from upbeat.units.fmi.exchange.slopes import jacobian
from upbeat.units.fmi.exchange.state import Ours, sizes
from upbeat.units.fmi.exchange.system import System
from upbeat.units.fmi.instance import Instance
from upbeat.units.solving.cvode import Multistep
from upbeat.units.solving.effort import Effort
from upbeat.units.solving.integrate import Adaptive, Fixed, integrator
from upbeat.units.solving.located import Watch, crossings
from upbeat.units.solving.solvers import Solver


class Motion:
    """What happens between two events."""

    def __init__(self, instance: Instance, inputs: Inputs, solver: Solver) -> None:
        interface = instance.interface
        assert isinstance(interface, ModelExchange)
        self._instance = instance
        states, indicators = sizes(instance)
        self.x = [0.0] * states
        self._has_indicators = indicators > 0
        self.system = system = System(instance, inputs)
        self._watch = Watch(
            system.indicators if self._has_indicators else None,
            system.completed if interface.completed_integrator_step else None,
        )
        self._watch.begin([0.0] * indicators)
        self._watches = self._has_indicators or interface.completed_integrator_step
        self.solver = integrator(solver, inputs.courses.courses, jacobian(instance, system.place))
        system.patient = not isinstance(self.solver, Fixed)
        self._scaled = False  # whether the solver knows how large the states usually are

    def begin(self) -> None:
        """Continuous time begins, with the states that the FMU has."""
        if isinstance(self.solver, Adaptive):
            # Another motion begins; with one long step a ball would leave the ground and be below it again.
            self.solver.h = 0.0
        if self.x:
            self.x = self._instance.states()
            if not self._scaled:
                self._scale()
        if self._has_indicators:
            self._watch.begin(self._instance.indicators())

    def go(self, t: float, until: float) -> tuple[float, bool]:
        """Integrate from `t` on; the time reached, and whether an event has ended it there."""
        watch = self._watch if self._watches else None
        self.x = self.solver.advance(self.system.derivatives, t, self.x, until, watch)
        reached, stopped = (until, False) if watch is None else (watch.time, watch.stopped)
        self.place(reached, self.x)
        return reached, stopped

    def place(self, t: float, x: list[float]) -> None:
        """Bring the FMU to a time and a state."""
        self.system.place(t, x)

    def crossed(self) -> bool:
        """Whether an indicator has crossed zero since the motion stopped, because an input has jumped."""
        if not self._has_indicators:
            return False
        z = self._instance.indicators()
        crossed = bool(crossings(self._watch.z, z))
        self._watch.begin(z)
        return crossed

    def indicators(self) -> Sequence[float]:
        """The FMU's event indicators, now."""
        return self._instance.indicators() if self._has_indicators else ()

    def forget_scale(self) -> None:
        """The states are no longer as large as they were said to be."""
        self._scaled = False

    def _scale(self) -> None:
        self._scaled = True
        if not isinstance(self.solver, Fixed):
            self.solver.scale([n if 0.0 < n < inf else 1.0 for n in self._instance.nominals()])

    @property
    def effort(self) -> Effort | None:
        """How hard the solver has worked; None without states, and of CVODE."""
        return None if isinstance(self.solver, Multistep) or not self.x else self.solver.effort

    @property
    def sizes(self) -> tuple[int, int]:
        """How many states and indicators there are."""
        return len(self.x), len(self._watch.z)

    def save(self) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
        """The step to try next, the states, and the indicators as they were seen last."""
        if isinstance(self.solver, Multistep):
            self.solver.forget()  # its past cannot be saved: go on as one that is set back would
        h = self.solver.h if isinstance(self.solver, Adaptive) else 0.0
        return h, tuple(self.x), tuple(self._watch.z)

    def restore(self, ours: Ours, *, moving: bool) -> None:
        """Set back; `moving`: in continuous time, where the solver must know the scale."""
        self.x = list(ours.x)
        self._watch.begin(ours.z)
        self._scaled = False
        if isinstance(self.solver, Adaptive):
            self.solver.h, self.solver.last = ours.h, None
        if moving and self.x:
            self._scale()
