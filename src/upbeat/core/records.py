"""Frozen dataclasses that are quickly made: importing makes some 250 of them before anything runs.

`dataclass` here means what the one of Python does, with the same arguments. That one writes and compiles six
methods for every class, which is a third of the time that a short run takes; of these only the constructor
gains from it, so the others are functions that all classes share. What is not frozen is left to Python's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """`dataclasses.dataclass`, quicker where the class is frozen."""
        return (lambda made: _made(made, **options)) if cls is None else _made(cls, **options)


def _made(cls: type, **options: bool) -> type:
    if not options.get("frozen") or not options.keys() <= _KNOWN:
        return dataclasses.dataclass(**options)(cls)
    own = cls.__dict__
    extends = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else its signature is looked for
    layout = {name: options[name] for name in ("slots", "kw_only") if name in options}
    # A frozen class extends frozen ones only, so this has to be said; it costs two methods, which we have.
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=extends, **layout)(cls)
    made.__dataclass_params__.frozen = True  # for those who extend it
    fields = dataclasses.fields(made)
    shared = _methods(made, fields)
    wanted = ["__setattr__", "__delattr__"]
    wanted += ["__repr__"] if options.get("repr", True) else []
    wanted += ["__eq__", "__hash__"] if options.get("eq", True) else []
    wanted += ["__getstate__", "__setstate__"] if options.get("slots") and "__getstate__" not in own else []
    for name in wanted:
        if own.get(name) is None:  # of a class with an equality of its own, `__hash__` is None
            setattr(made, name, shared[name])
    if options.get("init", True) and "__init__" not in own:
        made.__init__ = _constructor(made, fields)
    return made  # type: ignore[no-any-return]


_KNOWN = {"frozen", "slots", "kw_only", "init", "repr", "eq"}


def _methods(cls: type[Any], fields: tuple[Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    """What needs no code of its own for each class."""
    names = [field.name for field in fields]
    compared = _values([field.name for field in fields if field.compare])
    hashed = _values([one.name for one in fields if (one.compare if one.hash is None else one.hash)])

    @recursive_repr("...")
    def __repr__(self: Any) -> str:
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # of a class that extends this one

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def __getstate__(
        self: Any,
    ) -> list[Any]:  # for copies and for pickle, also of classes that extend this one
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)

    own = (__repr__, __eq__, __hash__, __setattr__, __delattr__, __getstate__, __setstate__)
    return {method.__name__: method for method in own}


def _values(names: list[str]) -> Callable[[Any], Any]:
    """The values of these fields, to compare or to hash."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


class _Factory:
    """Stands for a value that is made when none is given, also where a signature is shown."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _constructor(cls: Any, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """The `__init__`, compiled: it is called more often than anything else."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    plain: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in fields:
        name = field.name
        value = name
        if field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        if field.init:
            argument = name
            if field.default is not MISSING:
                known[f"_default_{name}"] = field.default
                argument = f"{name}=_default_{name}"
            elif field.default_factory is not MISSING:
                argument = f"{name}=_FACTORY"
            (named if field.kw_only else plain).append(argument)
        elif field.default is not MISSING:
            known[f"_default_{name}"] = field.default
            value = f"_default_{name}"
        elif field.default_factory is MISSING:
            continue  # `__post_init__` sets it
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    arguments = ", ".join(["self", *plain, *(["*", *named] if named else [])])
    exec(f"def __init__({arguments}):\n" + ("\n".join(body) or " pass"), known)  # noqa: S102
    made: Any = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return made  # type: ignore[no-any-return]
