"""What a unit can do: the few calls every unit has, and the abilities only some have.

An ability is declared by the *model* (`Model.abilities`), so that a master can be checked against
a scenario before anything runs, and is a tiny protocol of the *unit*.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import Causality, Port, Signal, Value
from upbeat.core.records import dataclass


class Ability(enum.Enum):
    """Each value is the sentence that `upbeat explain` prints."""

    ROLLBACK = "can be set back to an earlier state (rollback)"
    SERIALISE = "can turn its state into bytes and back"
    EARLY_RETURN = "can stop before the end of a step and say when"
    NEXT_EVENT = "knows the time of its next event"
    SLOPES = "knows its slopes: how outputs react to inputs"
    INDICATORS = "has event indicators"
    NATIVE = "runs inside the native engine without Python"
    THREADS = "can be called from several threads at once"
    MOVES = "can be called from different threads, one call at a time"

    @classmethod
    def read(cls, given: Iterable[Ability | str]) -> frozenset[Ability]:
        """Abilities, where files and people write their names: ``["rollback", "serialise"]``."""
        names = {ability.name.lower(): ability for ability in cls}
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ModelError(f'abilities are a list of names, such as ["rollback"], not {given!r}')
        found: set[Ability] = set()
        for one in given:
            if not isinstance(one, cls) and (not isinstance(one, str) or one not in names):
                raise ModelError(f"there is no ability {one!r}. {suggest(str(one), names, 'abilities')}")
            found.add(one if isinstance(one, cls) else names[str(one)])
        return frozenset(found)


class Unit(Protocol):
    """One running instance of a model.

    Call order: `set` (`Listens`) and `get` in any order at the unit's own time; then `advance`, which moves
    that time; and so on. A source of signals needs no more than `get` and `advance`; what others have are the
    protocols below. A call that cannot be carried out raises any exception: the engine names unit, call and
    time, keeps the results so far and ends the run. After a failure only
    `close` (if there is one) is called.
    """

    def get(self, port: str) -> Signal | None:
        """The value of an output at the unit's own time. Pure: asking twice changes nothing.

        A plain value for a scalar port, a sequence of one per cell for an array. An event output gives
        what the next `jump` will send, and None (absent) if that is nothing.
        """
        ...

    def advance(self, t: float, to: float, early: bool) -> float:
        """Simulate from `t` (the unit's own time) to `to` and return the time reached.

        With `early` the unit may return before `to`, at an event. Without it, anything but `to`
        ends the run.
        """
        ...


@runtime_checkable
class Listens(Protocol):
    """The unit has inputs."""

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From the unit's own time T on, the input is Σ coefficients[k]·(t - T)**k, cell by cell.

        An event input that is set has an event with this value: the next `jump` takes it.
        """
        ...


@runtime_checkable
class Tunable(Protocol):
    """A model some of whose parameters may change while its units run: `Listens.set` takes them, too.

    Such a value stays when a state from before is restored, unless parameters belong to the unit's state.
    """

    def fixed(self, parameter: str) -> str | None:
        """Why this parameter stays what it is while a unit runs; None if it may change."""
        ...


@runtime_checkable
class FromFile(Protocol):
    """A model whose code is in a file that others made (an FMU): it wants to know more of a run, may need
    a process of its own, and is tried out in others, since it may do anything."""

    path: Path
    interface_name: str
    isolation: Literal["auto", "process", "none"]

    def planned(self, stop: float, step: float) -> Model:
        """The same model for runs that end at `stop`, in steps that are usually as long as `step`, or 0."""
        ...

    def endangers(self, units: int) -> bool:
        """Whether the process would suffer from it, with so many units of the same file."""
        ...

    def undeclared(self) -> tuple[list[tuple[str, str]], str]:
        """The pairs (output, input) where an output reacts at once, though declared not to; what failed."""
        ...

    def lags(self) -> list[tuple[str, str]]:
        """Which outputs follow which inputs only after the next step, though declared to do so at once."""
        ...

    def disturbed(self) -> str:
        """What goes wrong where two units of it run on two threads at the same time; empty: nothing."""
        ...

    def content(self) -> str:
        """A hash of the file, wherever it lies."""
        ...

    def undefined(self) -> Mapping[str, str]:
        """The units of measure, by port, that are names and nothing more."""
        ...

    @property
    def indicators(self) -> tuple[str, ...]:
        """The names of its event indicators: what its events change is not known."""
        ...

    def inner_step_seen(self, step: float, start: float) -> float:
        """The time between two of its own solver steps, where communication steps of size `step` are no whole
        number of them, so that it moves in some and not in others; 0 where it moves in every one."""
        ...

    def talking(self) -> Model:
        """The same model, whose units log all that they can."""
        ...


def why_fixed(model: Model, parameter: str) -> str | None:
    """Why a parameter of a unit of this model cannot change during a run; None if it can."""
    if isinstance(model, Tunable):
        return model.fixed(parameter)
    return f"a {type(model).__name__} is given its parameters once, when the unit is made"


@runtime_checkable
class Jumps(Protocol):
    """The unit has event inputs, or events of its own (`Ability.NEXT_EVENT`)."""

    def jump(self) -> bool:
        """One discrete micro-step at the unit's own time; True asks for another one.

        It takes the events that have been set, if there are any; otherwise what is due by itself.
        """
        ...


@runtime_checkable
class Rollback(Protocol):
    """The unit can be set back. A token holds everything, inputs included, and can be used many times."""

    def save(self) -> Any: ...

    def restore(self, token: Any) -> None: ...


@runtime_checkable
class Serialise(Protocol):
    """The unit's tokens can be turned into bytes and back, in another process too.

    Call order: `to_bytes` any time after the `save` of the token; what `from_bytes` gives can be restored.
    Bytes that are no state of this unit make `from_bytes` raise, and leave the unit as it was.
    """

    def to_bytes(self, token: Any) -> bytes: ...

    def from_bytes(self, data: bytes) -> Any: ...


@runtime_checkable
class NextEvent(Protocol):
    """The unit knows when something will happen by itself (`Ability.NEXT_EVENT`); no step goes beyond it."""

    def due(self) -> float:
        """That time; the unit's own time or earlier if a `jump` is due at once; infinity for never. Pure."""
        ...


@runtime_checkable
class TellsRates(Protocol):
    """A model that can give out time derivatives of its outputs, without knowing those of its inputs."""

    def known_rates(self, output: str) -> int:
        """How many of an output it can tell."""
        ...

    def giving_rates(self, wanted: Mapping[str, int], fed: Mapping[str, int] | None = None) -> Model:
        """The same model with internal outputs for so many of these outputs."""
        ...


@runtime_checkable
class Slopes(Protocol):
    """The unit knows how its outputs react to its inputs (`Ability.SLOPES`)."""

    def slope(self, output: str, input: str) -> Sequence[float]:
        """The partial derivatives of an output by an input that it depends on directly (`Port.depends`).

        At the unit's own time, with its present inputs and state: row by row, one row per cell of the
        output, one column per cell of the input. Both are real. Pure: asking twice changes nothing.
        Where there is no finite slope (sqrt(u) at 0) it may be infinite or not a number.
        """
        ...


@runtime_checkable
class Indicators(Protocol):
    """The unit has functions of its own whose change of sign is an event inside it (`Ability.INDICATORS`).

    A function z crosses when it goes from z > 0 to z ≤ 0 or back. There are as many in all calls.
    """

    def indicators(self) -> Sequence[float]:
        """Their values at the unit's own time. Pure: asking twice changes nothing."""
        ...


@runtime_checkable
class Verifiable(Protocol):
    """A model whose abilities are only declared, which can be put to the test (see `doubt`)."""

    def verify(self, ability: Ability) -> str | None:
        """Why a declared ability cannot be relied on, and what to type; None if it can. May take seconds."""
        ...


@runtime_checkable
class Waiting(Protocol):
    """A model whose units may change in jumps alone. It is asked before a run."""

    @property
    def still(self) -> bool:
        """Whether nothing but its own time changes between jumps: not what it shows, nor when it is due.

        Such a unit, if it has no inputs but events, is left standing, and moved right before it jumps.
        """
        ...


@runtime_checkable
class Lagging(Protocol):
    """A model whose outputs may show a change of an input only after the next step, whatever it declares."""

    def lags(self) -> Sequence[tuple[str, str]]:
        """The pairs (output, input), found by trying, where the output is declared to depend directly on the
        input (`Port.depends`) but does not follow it before the next `advance`. May take seconds."""
        ...


# ----------------------------------------------------------------------------------------------------
# What is known of the states of a unit. The linearisation of a step, and so every verdict on stability, asks
# for these, in this order: equations (`behaviour`, see `upbeat.units.solving.unit.Equated`), numbers kept
# from jump to jump, states that can be read, tokens that can be looked into.


@dataclass(frozen=True)
class StateAccess:
    """States that can be read, and not written: they belong to the unit alone."""

    names: tuple[str, ...]
    read: Callable[[], Sequence[float]]
    """Their values now."""
    jacobian: Callable[[bool], tuple[Columns, Columns]] | None = None
    """How the derivatives of the states (or, if True, the real outputs) react to the states and to the real
    inputs, now; None where the unit does not know. The solver inside counts as exact then."""
    nominal: Mapping[str, float] = field(default_factory=dict)
    """How large real inputs usually are, where that is known."""
    advice: str = ""
    """What to do about a unit that keeps its states to itself."""


Columns = Sequence[Sequence[float]]
"""A matrix, column by column."""


@runtime_checkable
class ReadableStates(Protocol):
    """The unit gives access to its states, or says that it has none."""

    def state_access(self) -> StateAccess:
        """Raises `ModelError` with the reason, if they cannot be read."""
        ...


@runtime_checkable
class NamedStates(Protocol):
    """A model that knows what the states of its units hold as bytes: little-endian doubles, of which each has
    a name here. One without a name belongs to the run that the unit is in (its time, what inputs do).

    So a unit can go on where another one has left, whose model is the same but for what was added to it.
    """

    def named_states(self) -> Sequence[str]: ...


TokenPath = tuple[Any, ...]
"""Where something is in a token: indices, keys and attributes, from outside in."""


@dataclass(frozen=True)
class Sampling:
    """A unit that another one runs at equal distances in time: itself, its period, and where its token is."""

    unit: Any
    period: float
    token: TokenPath


@dataclass(frozen=True)
class KeptNumbers:
    """What the tokens of a unit hold that changes in jumps only. Each place is that of a value, or of
    something that holds values."""

    states: tuple[TokenPath, ...]
    names: tuple[str, ...] = ()
    """What people call them; else they are called by their places."""
    times: tuple[TokenPath, ...] = ()
    """Numbers that say when the unit jumps, or count that: they must not depend on the states."""
    modes: tuple[TokenPath, ...] = ()
    """What is no real number, and states or outputs depend on."""
    timed: bool = False
    """Whether what a jump does may depend on the time itself, and not only on how long ago something was."""
    sampling: Sampling | None = None
    """The unit inside, whose states are states of this one."""


@runtime_checkable
class KeepsNumbers(Protocol):
    """The unit changes in jumps only (`Jumps`, `NextEvent`, `Rollback`), and knows where in its tokens the
    numbers are that it keeps from one to the next."""

    def kept_numbers(self) -> KeptNumbers: ...


@runtime_checkable
class OpenTokens(Protocol):
    """A model whose units may save numbers and other plain values, instead of a handle to something that is
    kept elsewhere: then their states are found in the tokens."""

    open_tokens: bool


class Core(Protocol):
    """What the native engine offers to a model that enters it. Each call gives what `enter` returns."""

    @property
    def slopes(self) -> Sequence[tuple[str, str]]:
        """The pairs (output, input) whose slopes the program will ask of this unit."""
        ...

    def ode(self, tables: Any, values: Any) -> object:
        """A unit given by equations, as `upbeat.units.OdeTables`, with its start values and parameters."""
        ...

    def discrete(self, tables: Any) -> object:
        """A discrete-event unit, as `upbeat.units.discrete.DiscreteTables`."""
        ...

    def addresses(self, functions: Mapping[str, int], pointer: int) -> object:
        """A unit given by the addresses of its functions, named as in unit.h, and its `self`.

        The engine calls `destroy` in the end, exactly once, also if no run comes about.
        """
        ...

    def table(self, address: int) -> object:
        """The same, for a filled `upbeat_unit` (unit.h) that lies at `address`."""
        ...

    def nested(self, inside: Any, start: float) -> object:
        """A scenario with a loop of its own, as `upbeat.engine.native.entry.Inside`."""
        ...


@runtime_checkable
class Native(Protocol):
    """The model's units can run inside the native engine, without Python (`Ability.NATIVE`).

    Ports have the numbers of their places in `Model.ports`.
    """

    def enter(self, core: Core, name: str, start: float) -> object:
        """A new unit as `instantiate` would make it, by one of the calls of `core`."""
        ...


_CALLS = {
    Ability.ROLLBACK: ("save", "restore"),
    Ability.SERIALISE: ("to_bytes", "from_bytes"),
    Ability.NEXT_EVENT: ("due", "jump"),
    Ability.SLOPES: ("slope",),
}


def made(model: Model, unit: Any, name: str, without: Ability | None = None) -> Any:
    """A unit that has just been made of `model`, if it has all the calls that ports and abilities promise.

    Those of the ability `without` come from elsewhere.
    """
    listens = any(port.causality is Causality.INPUT for port in model.ports)
    needed = ["get", "set", "advance"] if listens else ["get", "advance"]
    for ability in sorted(model.abilities - {without}, key=lambda ability: ability.name):
        needed += _CALLS.get(ability, ())
    missing = [call for call in needed if not callable(getattr(unit, call, None))]
    if missing:
        raise ModelError(
            f"the object made for unit '{name}' ({type(unit).__name__}) has no {', no '.join(missing)}"
            + (": does the factory return it?" if unit is None else "")
        )
    return unit


def instantiated(model: Model, name: str, start: float) -> Any:
    """A new unit of `model`, with all the calls that it promises."""
    return made(model, model.instantiate(name, start), name)


def speaks_for_itself(model: type) -> bool:
    """Whether `enter` still makes the unit that `instantiate` makes.

    A subclass that replaces only `instantiate` means another unit: it runs as that one, called back.
    """
    for base in model.__mro__:
        if "enter" in vars(base):
            return True
        if "instantiate" in vars(base):
            return False
    return False


def doubt(model: Model, ability: Ability, step: float = 0.01) -> str | None:
    """Why an ability that the model declares cannot be relied on; None if it can.

    Asked by those who are about to rely on it, before a run, and only for what they need. Rollback of a unit
    that is a user's own code is tried by replaying some steps of the size `step`, once for each model.
    """
    if isinstance(model, Verifiable):
        return model.verify(ability)
    if ability not in (Ability.ROLLBACK, Ability.SERIALISE) or Ability.NATIVE in model.abilities:
        return None
    return replayed(model, ability, step)


_REPLAYED: dict[int, tuple[Any, dict[tuple[Ability, float], str | None]]] = {}
"""Findings by the identity of a model, with a reference that says whether it is still that model."""


def replayed(model: Model, ability: Ability, step: float) -> str | None:
    """What `broken_promise` finds; a model is tried once."""
    from upbeat.core.replay import broken_promise  # which makes units

    kept = _REPLAYED.get(id(model))
    if kept is None or kept[0]() is not model:
        key = id(model)
        try:
            reference: Any = weakref.ref(model, lambda _: _REPLAYED.pop(key, None))
        except TypeError:  # it has slots: try it every time
            return broken_promise(model, ability, step=step)
        kept = _REPLAYED[key] = reference, {}
    found = kept[1]
    if (ability, step) not in found:
        found[ability, step] = broken_promise(model, ability, step=step)
    return found[ability, step]


class Model(Protocol):
    """A recipe for units: frozen, cheap to pickle, and shared by all its instances."""

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs and parameters; names are unique."""
        ...

    @property
    def abilities(self) -> frozenset[Ability]: ...

    def instantiate(self, name: str, start: float) -> Unit:
        """A new unit at time `start`, in its start state. `name` is for messages only."""
        ...

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Model:
        """The same model with other parameters, input starts or state starts.

        An unknown name raises `ModelError` and lists the names that exist.
        """
        ...
