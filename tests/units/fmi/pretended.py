"""An instance for model exchange in plain Python that is strict about FMI's order of calls."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import (
    DependencyKind,
    Initial,
    ModelDescription,
    ModelExchange,
    Structure,
    Type,
    Unknown,
    Variability,
    Variable,
)
from upbeat.units.fmi.instance import FmuError, Updated

LIFE = ("initialization", "event", "continuous", "terminated", "freed")


def real(name, role=Role.LOCAL, reference=0, **more):
    return Variable(
        name=name,
        reference=reference,
        type=Type.FLOAT64,
        causality=role,
        variability=more.pop("variability", Variability.CONTINUOUS),
        initial=Initial.EXACT,
        **more,
    )


class Pretended:
    """x' = rate(t, x, u), indicators z(t, x, u), events by `event`, which may change x and `memory`."""

    doomed = False

    def __init__(
        self,
        x=(),
        rate=lambda self: [],
        indicate=None,
        event=lambda self: Updated(),
        outputs=None,
        inputs=("u",),
        discrete=(),
        completed=None,
        nominals=None,
        version=3,
        jacobian=None,
        **abilities,
    ):
        self.x = list(x)
        self.t = 0.0
        self.u = dict.fromkeys((*inputs, *discrete), 0.0)
        self.memory = SimpleNamespace()
        self.rate, self.indicate, self.event = rate, indicate, event
        self.outputs = outputs or {"t": lambda self: self.t}
        self.wants = completed
        self.sizes = nominals
        self.partial = jacobian
        self.life = "initialization"
        self.calls = []
        self.kept = 0
        self.interface = ModelExchange(
            model_identifier="pretended",
            saves_state=abilities.pop("saves_state", True),
            serialises_state=True,
            completed_integrator_step=completed is not None,
            **abilities,
        )
        count = 0 if indicate is None else len(indicate(self))
        states = [real(f"x{i}") for i in range(len(self.x))]
        rates = [real(f"der(x{i})", derivative_of=f"x{i}") for i in range(len(self.x))]
        zs = [real(f"z{i}") for i in range(count)]
        known = tuple((v.name, DependencyKind.DEPENDENT) for v in states)
        self.description = ModelDescription(
            version=version,
            written_version=f"{version}.0",
            name="pretended",
            token="",
            model_exchange=self.interface,
            event_indicator_count=count,
            variables=(
                *states,
                *rates,
                *zs,
                *(real(name, Role.INPUT) for name in inputs),
                *(real(name, Role.INPUT, variability=Variability.DISCRETE) for name in discrete),
                *(real(name, Role.OUTPUT) for name in self.outputs),
            ),
            structure=Structure(
                derivatives=tuple(Unknown(v.name) for v in rates),
                event_indicators=tuple(Unknown(v.name, known) for v in zs),
            ),
        )
        self.name = "pretended"
        self.variables = self.description.by_name
        self.ports = tuple(
            [Port(name, Causality.INPUT, Kind.REAL, start=0.0) for name in self.u]
            + [Port(name, Causality.OUTPUT, Kind.REAL) for name in self.outputs]
        )

    def _in(self, call, *allowed):
        if self.life not in allowed:
            raise AssertionError(f"{call} in {self.life}")
        self.calls.append(call)

    def reader(self, variable, cells=None):
        def read():
            self._in("get", *LIFE[:3])
            return self.outputs[variable.name](self)

        return read

    def writer(self, variable, cells=None):
        def write(value):
            modes = LIFE[:2] if variable.variability is Variability.DISCRETE else LIFE[:3]
            self._in("set", *modes)
            self.u[variable.name] = value

        return write

    def exit_initialization(self):
        self._in("exit_initialization", "initialization")
        self.life = "event"

    def enter_event_mode(self):
        self._in("enter_event_mode", "continuous")
        self.life = "event"

    def enter_continuous_time_mode(self):
        self._in("enter_continuous_time_mode", "event")
        self.life = "continuous"

    def update(self):
        self._in("update", "event")
        return self.event(self)

    def terminate(self):
        self._in("terminate", "event", "continuous")
        self.life = "terminated"

    def free(self):
        self._in("free", *LIFE[:4])
        self.life = "freed"

    def set_time(self, t):
        self._in("set_time", "continuous")
        self.t = t

    def set_states(self, x):
        self._in("set_states", "continuous")
        self.x = list(x)

    def states(self):
        self._in("states", *LIFE[:3])
        return list(self.x)

    def derivatives(self):
        self._in("derivatives", *LIFE[:3])
        return list(self.rate(self))

    def indicators(self):
        self._in("indicators", *LIFE[:3])
        return list(self.indicate(self))

    def nominals(self):
        self._in("nominals", *LIFE[:3])
        return list(self.sizes or [1.0] * len(self.x))

    def completed_step(self, no_set_prior):
        self._in("completed_step", "continuous")
        return self.wants(self)

    def save(self, into=None):
        self.kept += 1
        return copy.deepcopy((self.x, self.t, self.u, self.memory, self.life))

    def restore(self, state):
        self.x, self.t, self.u, self.memory, self.life = copy.deepcopy(state)

    def drop(self, state):
        self.kept -= 1

    def to_bytes(self, state):
        return repr((state[0], state[1], state[2], vars(state[3]), state[4])).encode()

    def from_bytes(self, data):
        self.kept += 1
        x, t, u, memory, life = eval(data, {"nan": math.nan, "inf": math.inf})
        return x, t, u, SimpleNamespace(**memory), life

    def directional(self, unknowns, knowns, seed):
        self._in("directional", *LIFE[:3])
        return [
            sum(
                self.partial(self, unknown.name, known.name) * s
                for known, s in zip(knowns, seed, strict=True)
            )
            for unknown in unknowns
        ]


class Refuses(Pretended):
    """One whose derivatives cannot be computed beyond some state."""

    beyond = math.inf
    refused = 0

    def derivatives(self):
        if self.x[0] > self.beyond:
            self.refused += 1
            raise FmuError("too far", "derivatives", discarded=True)
        return super().derivatives()
