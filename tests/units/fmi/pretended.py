"""An FMU for model exchange in plain Python that is strict about FMI's order of calls.

Its functions are those of FMI 3, as the core calls those of a library.
"""

from __future__ import annotations

import copy
import ctypes
import math
import sys
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import replace
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
from upbeat.units.fmi.instance import FmuError, Instance, Updated
from upbeat.units.fmi.ports import Layout
from upbeat.units.fmi.unit import PackableFmuUnit, unit_of

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
        variables = (
            *states,
            *rates,
            *zs,
            *(real(name, Role.INPUT) for name in inputs),
            *(real(name, Role.INPUT, variability=Variability.DISCRETE) for name in discrete),
            *(real(name, Role.OUTPUT) for name in self.outputs),
        )
        self.description = ModelDescription(
            version=3,
            written_version="3.0",
            name="pretended",
            token="",
            model_exchange=self.interface,
            event_indicator_count=count,
            variables=tuple(replace(v, reference=i) for i, v in enumerate(variables)),
            structure=Structure(
                derivatives=tuple(Unknown(v.name) for v in rates),
                event_indicators=tuple(Unknown(v.name, known) for v in zs),
            ),
        )
        self.ports = tuple(
            [Port(name, Causality.INPUT, Kind.REAL, start=0.0) for name in self.u]
            + [Port(name, Causality.OUTPUT, Kind.REAL) for name in self.outputs]
        )

    def _in(self, call, *allowed):
        if self.life not in allowed:
            raise AssertionError(f"{call} in {self.life}")
        self.calls.append(call)

    def get(self, name):
        self._in("get", *LIFE[:3])
        return self.outputs[name](self)

    def set(self, name, value):
        variable = self.description.by_name[name]
        self._in("set", *(LIFE[:2] if variable.variability is Variability.DISCRETE else LIFE[:3]))
        self.u[name] = value

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

    def save(self):
        return copy.deepcopy((self.x, self.t, self.u, self.memory, self.life))

    def restore(self, state):
        self.x, self.t, self.u, self.memory, self.life = copy.deepcopy(state)

    def to_bytes(self, state):
        return repr((state[0], state[1], state[2], vars(state[3]), state[4])).encode()

    def from_bytes(self, data):
        x, t, u, memory, life = eval(data, {"nan": math.nan, "inf": math.inf})
        return x, t, u, SimpleNamespace(**memory), life

    def directional(self, unknowns, knowns, seed):
        self._in("directional", *LIFE[:3])
        return [
            sum(self.partial(self, unknown, known) * s for known, s in zip(knowns, seed, strict=True))
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


class Library:
    """The functions of a pretended FMU, where the core finds them. `kept` counts the states that it holds."""

    def __init__(self, fmu):
        self.doom = ctypes.c_char_p()
        self._fmu = fmu
        self._names = [v.name for v in fmu.description.variables]
        self._states = {}
        self._functions = {}
        fmu.library = self
        doubles, references, flag = POINTER(c_double), POINTER(c_uint32), POINTER(c_bool)
        sized = (doubles, c_size_t)
        bytes_ = (c_void_p, c_size_t)
        many = (references, c_size_t)
        for name, function, *types in (
            ("Terminate", fmu.terminate),
            ("ExitInitializationMode", fmu.exit_initialization),
            ("EnterEventMode", fmu.enter_event_mode),
            ("EnterContinuousTimeMode", fmu.enter_continuous_time_mode),
            ("SetTime", fmu.set_time, c_double),
            ("SetContinuousStates", lambda x, n: fmu.set_states(x[:n]), *sized),
            ("GetContinuousStates", self._gives(fmu.states), *sized),
            ("GetContinuousStateDerivatives", self._gives(fmu.derivatives), *sized),
            ("GetEventIndicators", self._gives(fmu.indicators), *sized),
            ("GetNominalsOfContinuousStates", self._gives(fmu.nominals), *sized),
            ("GetFloat64", self._get, *many, *sized),
            ("SetFloat64", self._set, *many, *sized),
            ("UpdateDiscreteStates", self._update, flag, flag, flag, flag, flag, doubles),
            ("CompletedIntegratorStep", self._completed, c_bool, flag, flag),
            ("GetDirectionalDerivative", self._directional, *many, *many, *sized, *sized),
            ("GetFMUState", self._save, POINTER(c_void_p)),
            ("SetFMUState", lambda state: fmu.restore(self._states[state]), c_void_p),
            ("FreeFMUState", lambda state: self._states.pop(state[0]), POINTER(c_void_p)),
            ("SerializedFMUStateSize", self._size, c_void_p, POINTER(c_size_t)),
            ("SerializeFMUState", self._serialise, c_void_p, *bytes_),
            ("DeserializeFMUState", self._deserialise, *bytes_, POINTER(c_void_p)),
        ):
            self._functions[f"fmi3{name}"] = CFUNCTYPE(c_int, c_void_p, *types)(self._judged(function))
        made = CFUNCTYPE(c_void_p, *[c_char_p] * 3, c_bool, c_bool, c_void_p, c_void_p)(lambda *_: 1)
        freed = CFUNCTYPE(None, c_void_p)(lambda _: fmu.free())
        self._functions |= {"fmi3InstantiateModelExchange": made, "fmi3FreeInstance": freed}

    def address(self, name):
        return ctypes.cast(self._functions[name], c_void_p).value if name in self._functions else 0

    @property
    def kept(self):
        return len(self._states)

    def _judged(self, function):
        """With the status that FMI gives for what it raises."""

        def called(_, *arguments):
            try:
                function(*arguments)
            except FmuError as error:
                return 2 if error.discarded else 3
            except Exception as error:  # noqa: BLE001 - a wrong call, for whoever reads the test's output
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                return 3
            return 0

        return called

    def _gives(self, function):
        def give(to, n):
            to_list = function()
            assert len(to_list) == n
            for i, value in enumerate(to_list):
                to[i] = value

        return give

    def _get(self, which, _, to, n):
        to[0] = self._fmu.get(self._names[which[0]])

    def _set(self, which, _, values, n):
        self._fmu.set(self._names[which[0]], values[0])

    def _update(self, *to):
        found = self._fmu.update()
        for place, value in zip(to, (*found[:4], found.next_time < math.inf, found.next_time), strict=True):
            place[0] = value

    def _completed(self, no_prior, event, terminate):
        event[0], terminate[0] = self._fmu.completed_step(no_prior)

    def _directional(self, unknown, rows, known, columns, seed, seeds, to, size):
        names = [
            [self._names[which[i]] for i in range(n)] for which, n in ((unknown, rows), (known, columns))
        ]
        for i, value in enumerate(self._fmu.directional(*names, seed[:seeds])):
            to[i] = value

    def _save(self, place):
        place[0] = place[0] or max(self._states, default=0) + 1
        self._states[place[0]] = self._fmu.save()

    def _size(self, state, to):
        to[0] = len(self._fmu.to_bytes(self._states[state]))

    def _serialise(self, state, to, size):
        ctypes.memmove(to, self._fmu.to_bytes(self._states[state]), size)

    def _deserialise(self, data, size, place):
        place[0] = place[0] or max(self._states, default=0) + 1
        self._states[place[0]] = self._fmu.from_bytes(ctypes.string_at(data, size))


def unit(fmu, solver, kind=PackableFmuUnit, more=()):
    """A unit of a pretended FMU, as an engine would make it; `more` are ports beyond its own."""
    instance = Instance(fmu.description, fmu.interface, "pretended", Library(fmu))
    instance.native.instantiate("pretended", "", "", True, False, False, False, False, [])
    layout = Layout(fmu.ports, fmu.description.by_name)
    ports = (*fmu.ports, *more)
    model = SimpleNamespace(
        interface=fmu.interface, layout=layout, ports=ports, step=0.0, effective_solver=solver
    )
    made = kind(unit_of(instance, model, 0.0, lambda: None), ports, layout, instance)
    made.fmu = fmu
    return made
