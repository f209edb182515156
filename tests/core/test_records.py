"""Our quick dataclasses beside those of Python, which are what they have to be like."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from upbeat.core.records import dataclass

OPTIONS = [
    {"frozen": True, **dict(zip(names, values, strict=True))}
    for names in [("slots", "kw_only", "eq", "repr")]
    for values in itertools.product([False, True], repeat=4)
]


def made(dataclass: Any, options: dict[str, Any], *, checked: bool) -> Any:
    class Point:
        """A point."""

        x: float
        y: float = field(hash=False)
        tags: list[str] = field(default_factory=list, compare=False)
        label: str = "p"
        _kept: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
        late: float = field(init=False, compare=False, default=1.5)
        only: int = field(default=3, kw_only=True)
        if checked:

            def __post_init__(self) -> None:
                object.__setattr__(self, "x", float(self.x))

    return dataclass(**options)(Point)


def outcome(call: Any) -> Any:
    """What it gives, or the error and what that says."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("_dflt_", "_default_")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("checked", [False, True])
def test_they_are_like_the_ones_of_python(options: dict[str, Any], checked: bool) -> None:
    ours, theirs = (made(one, options, checked=checked) for one in (dataclass, dataclasses.dataclass))
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1, 2), {}), ((1,), {"y": 2}), ((), {"x": 1, "y": 2, "tags": ["a"]}), ((1, 2, [], "q"), {"only": 4}),
        ((), {}), ((1, 2, 3, 4, 5), {}), ((1, 2), {"none": 1}), ((), {"x": 1, "y": 2, "late": 2.0}),
    ]  # fmt: skip
    for arguments, named in calls:
        both = [outcome(lambda c=c, a=arguments, n=named: c(*a, **n)) for c in (ours, theirs)]
        assert isinstance(both[0], ours) == isinstance(both[1], theirs)
        if not isinstance(both[0], ours):
            assert both[0] == both[1]
            continue
        if options["repr"]:
            assert repr(both[0]) == repr(both[1])
        assert dataclasses.asdict(both[0]) == dataclasses.asdict(both[1])
        for spoil in (
            lambda p: setattr(p, "x", 1),
            lambda p: delattr(p, "y"),
            lambda p: setattr(p, "new", 1),
        ):
            with pytest.raises(FrozenInstanceError):
                spoil(both[0])
        again = dataclasses.replace(both[0], y=both[0].y)
        other = dataclasses.replace(both[0], y=9)
        assert (again == both[0]) is options["eq"]
        assert other != both[0]
        assert both[0] != both[1]
        assert both[0].__eq__(both[1]) is NotImplemented
        assert (hash(again) == hash(both[0])) is options["eq"]  # else it is that of the object
        assert (hash(other) == hash(both[0])) is options["eq"]  # y is not hashed
        assert copy.deepcopy(both[0]) == both[0] or not options["eq"]
        assert hasattr(both[0], "__dict__") is hasattr(both[1], "__dict__")
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(theirs)]


@dataclass(frozen=True, slots=True)
class Pair:
    a: int
    b: object = None


@dataclasses.dataclass(frozen=True)
class Triple(Pair):
    c: int = 0


@dataclass(frozen=True, kw_only=True)
class Four(Pair):
    c: int
    d: int = 4


@dataclass(frozen=True)
class Own:
    a: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __repr__(self) -> str:
        return "own"


class Free(Pair):
    """Which is no dataclass: it may have more than its fields."""


def test_pickled_extended_and_with_methods_of_their_own() -> None:
    pair = Pair(1, Pair(2))
    assert pickle.loads(pickle.dumps(pair)) == pair == copy.copy(pair)
    assert Triple(1, 2, 3) == Triple(1, 2, 3) != Triple(1, 2, 4)
    four = Four(1, c=3)
    assert four == Four(1, None, c=3, d=4) != Four(1, c=4)
    assert four != Pair(1)
    assert pickle.loads(pickle.dumps(four)) == four
    assert repr(four) == "Four(a=1, b=None, c=3, d=4)"
    for name in ("a", "d"):
        with pytest.raises(FrozenInstanceError):
            setattr(four, name, 2)
    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == hash((1,))
    free = Free(1)
    free.more = 2  # type: ignore[attr-defined]
    assert free.more == 2  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        free.a = 2  # type: ignore[misc]


def test_one_that_contains_itself_can_be_shown() -> None:
    inside: list[Any] = []
    pair = Pair(1, inside)
    inside.append(pair)
    assert repr(pair) == "Pair(a=1, b=[...])"
