"""`Isolated`: any model, with each of its units in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from upbeat.core.abilities import Ability, Core, Lagging, Model, Native, Unit, Verifiable, why_fixed
from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import Port, Value
from upbeat.core.records import dataclass
from upbeat.units.addresses import NativeUnit
from upbeat.units.shorthand import Complaints

if TYPE_CHECKING:
    from upbeat.units.process.child import Child

When = Literal["process", "auto", "none"]
DEADLINE = 10.0
KEEP_EVERY = 100


@dataclass(frozen=True)
class Isolated:
    """A model whose units run in processes of their own.

        Isolated(Ode(states={"x": "-x"}), deadline=2.0)

    Ports and abilities are those of `model`, which must be one that can be pickled. A call that takes longer
    than `deadline` seconds counts as hung, and the process is killed. With `restart`, so many times a new
    process takes the place of one that died or hung: it starts from the last state that was kept (one every
    `keep_every` steps) and is told again what happened since.

    In a scenario, `isolation` may leave it to the run whether there is a process (``"auto"``), or forbid it
    (``"none"``), whatever the run says about all units.
    """

    model: Model
    deadline: float = DEADLINE
    restart: int = 0
    keep_every: int = KEEP_EVERY
    isolation: When = "process"

    def __post_init__(self) -> None:
        complaints = Complaints()
        if isinstance(self.model, Isolated):
            complaints.add("model", "it is isolated already")
        elif isinstance(self.model, NativeUnit):
            complaints.add("model", "a NativeUnit has addresses, which hold for one process only")
        elif not (hasattr(self.model, "ports") and hasattr(self.model, "instantiate")):
            complaints.add("model", f"expected a model, not {self.model!r}")
        if isinstance(self.deadline, bool) or not isinstance(self.deadline, (int, float)):
            complaints.add("deadline", f"expected seconds, not {self.deadline!r}")
        elif not self.deadline > 0:
            complaints.add("deadline", f"must be a positive number of seconds, not {self.deadline!r}")
        for name, minimum in (("restart", 0), ("keep_every", 1)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < minimum:
                complaints.add(name, f"must be a whole number of at least {minimum}, not {given!r}")
        if not isinstance(self.isolation, str) or self.isolation not in get_args(When):
            hint = suggest(str(self.isolation), get_args(When), "words")
            complaints.add("isolation", f"there is no isolation {self.isolation!r}. {hint}")
        complaints.raise_if_any()
        if self.restart and Ability.SERIALISE not in self.model.abilities:
            raise ModelError(
                "restart: a unit can be restarted only from a state that was turned into bytes, and a "
                f"{type(self.model).__name__} cannot do that (it lacks Ability.SERIALISE). Leave out restart"
            )

    @property
    def ports(self) -> tuple[Port, ...]:
        """Those of the model."""
        return self.model.ports

    @property
    def abilities(self) -> frozenset[Ability]:
        """Those of the model; whatever it is, the engine calls it without Python on its own side."""
        if self.isolation != "process":
            return self.model.abilities
        core = frozenset({Ability.NATIVE}) if has_core() else frozenset()
        # Indicators stay where the unit is: there is no call for them between processes. And there is one way
        # to the process, on which calls take turns.
        here = {Ability.NATIVE, Ability.INDICATORS, Ability.THREADS, Ability.MOVES}
        return (self.model.abilities - here) | core

    def verify(self, ability: Ability) -> str | None:
        """What is to be said against an ability of the model, as far as it says so itself.

        It is not tried out by replaying: whoever puts a unit into a process of its own does not want it here.
        """
        return self.model.verify(ability) if isinstance(self.model, Verifiable) else None

    def fixed(self, parameter: str) -> str | None:
        """As for the model; a new process would begin with the old value."""
        if self.restart and self.isolation == "process":
            return "with restart, a process that takes the place of another would not know of the change"
        return why_fixed(self.model, parameter)

    def lags(self) -> Sequence[tuple[str, str]]:
        """Which outputs of the model follow which inputs only after the next step."""
        return self.model.lags() if isinstance(self.model, Lagging) else ()

    @property
    def remembers(self) -> tuple[str, ...]:
        """What the bytes of its states hold."""
        return tuple(getattr(self.model, "remembers", ()))

    @property
    def announced(self) -> bool:
        """Whether everything that is to be seen outside happens at times that are known before."""
        return bool(getattr(self.model, "announced", Ability.NEXT_EVENT in self.model.abilities))

    @property
    def still(self) -> bool:
        """Whether nothing but its own time changes between two jumps of the model."""
        return bool(getattr(self.model, "still", False))

    @property
    def steady(self) -> bool:
        """Whether all steps of the model must be equally long."""
        return bool(getattr(self.model, "steady", False))

    @property
    def initializes(self) -> bool:
        """Whether the first jump of the model ends its initialization."""
        return bool(getattr(self.model, "initializes", False))

    @property
    def begins_with(self) -> Mapping[str, frozenset[str]]:
        """The inputs that outputs of the model follow at the start time alone."""
        return cast(Mapping[str, frozenset[str]], getattr(self.model, "begins_with", {}))

    @property
    def solver(self) -> object:
        """That of the model, if it has one."""
        return getattr(self.model, "solver", None)

    @property
    def equations(self) -> object:
        """Those of the model, if it has any: what is known of a unit does not depend on where it runs."""
        return getattr(self.model, "equations", None)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Isolated:
        """The same with another model inside."""
        return replace(self, model=self.model.with_values(values))

    def instantiate(self, name: str, start: float) -> Unit:
        """A unit for the interpreter: the other process makes it as the interpreter would."""
        if self.isolation != "process":
            return self.model.instantiate(name, start)
        from upbeat.units.process.unit import started

        child = self._started(name, start, None)
        return started(self.model.ports, child, self.restart, self.keep_every)

    def enter(self, core: Core, name: str, start: float) -> object:
        """A unit for the native engine: the other process makes it as that engine would."""
        if self.isolation != "process":
            assert isinstance(self.model, Native)
            return self.model.enter(core, name, start)
        from upbeat.units.process.unit import connect

        child = self._started(name, start, tuple(core.slopes))
        return connect(self.model.ports, child, self.restart, self.keep_every)

    def _started(self, name: str, start: float, slopes: tuple[tuple[str, str], ...] | None) -> Child:
        from upbeat.units.process.child import Child, Order

        try:
            model = pickle.dumps(self.model)
        except Exception as error:  # whatever a user's __reduce__ raises
            raise ModelError(_unsendable(name, self.model, error)) from error
        core = has_core()
        if self.restart and not core:
            raise ModelError("restart needs the compiled part of Upbeat, which is not there. Leave it out")
        order = Order(name, start, model, slopes, core)
        return Child(order, self.model.ports, float(self.deadline), self.restart)


def _unsendable(name: str, model: Model, error: Exception) -> str:
    """Why a model cannot be sent to another process, and what to do: mostly it is a lambda."""
    local = [
        (key, value)
        for key, value in getattr(model, "__dict__", {}).items()
        if callable(value) and "<" in getattr(value, "__qualname__", "")
    ]
    if not local:
        return (
            f"the model of unit '{name}' cannot be sent to another process: {error}. Models are sent by "
            "pickle, so functions and classes must lie in a module that can be imported"
        )
    key, value = local[0]
    code = getattr(value, "__code__", None)
    where = "" if code is None else f" ({Path(code.co_filename).name}, line {code.co_firstlineno})"
    what = "a lambda" if value.__qualname__.endswith("<lambda>") else "defined inside a function"
    return (
        f"unit '{name}' cannot run in a process of its own: its {key} is {what}{where}, which cannot be sent "
        "to another process. Define it with 'def' or 'class' at the top level of a module, or run the unit "
        "without isolation"
    )


def bare(model: Model) -> Model:
    """The model itself, wherever its units run."""
    return model.model if isinstance(model, Isolated) else model


def as_isolated(model: Model) -> Isolated | None:
    """The model with what was said about a process for its units; None if nothing was."""
    return model if isinstance(model, Isolated) else None


def placed_like(model: Model, made: Model) -> Model:
    """What was made of the model itself, where units of `model` run: in a process if these do."""
    return replace(model, model=made) if isinstance(model, Isolated) else made


def has_core() -> bool:
    """Whether there is a compiled core to exchange values through shared memory."""
    return find_spec("upbeat._native") is not None
