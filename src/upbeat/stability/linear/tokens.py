"""The states of a unit in its own tokens: the numbers in what `save` gives, less those that are no states.

Nothing is left out because of what it looks like. Every number is moved, from several operating points, by
little and by much, together with the inputs and the other numbers. What is left out then is what nothing
reads, what an input has written, and what goes its own way whatever happens, such as a parameter or a clock.
Where this leaves something open there is no verdict, and the number is named.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput
from upbeat.core.ports import Causality, Kind, Port
from upbeat.stability.linear.beside import NoMatrix

Path = tuple[Any, ...]
"""Where a number is in a token: indices, keys and attributes, from outside in."""
TRIALS = 24
"""How often everything is moved at random at each operating point."""
SIZES = (-4.0, 4.0)
"""By how much, as powers of ten."""
SAME = 1e-11
"""What differs by more, relatively, is not the same number."""


class Look:
    """What is in a token: its numbers, and everything else as bytes that can be compared."""

    __slots__ = ("numbers", "others", "real")

    def __init__(self, token: Any) -> None:
        self.numbers: dict[Path, float] = {}
        self.others: dict[Path, Any] = {}
        self.real: set[Path] = set()
        for path, leaf in leaves(token):
            if _real(leaf) or _whole(leaf):
                self.numbers[path] = float(leaf)
                if _real(leaf):
                    self.real.add(path)
            else:
                self.others[path] = _comparable(leaf)


class Tokens:
    """A handle for units whose tokens are made of numbers, in whatever Python keeps things in.

    `free` are numbers that go on by themselves, whatever happens: they move by the same amount in any step.
    """

    writable = True
    advice = (
        "What save() gives should hold them as numbers, in tuples, lists, dictionaries or arrays; or write "
        "the unit with equations (PythonOde)."
    )

    def __init__(self, name: str, unit: Any, ports: Sequence[Port], time: float, step: float) -> None:
        self._name, self._unit, self._time, self._step = name, unit, time, step
        real = [port for port in ports if port.kind is Kind.REAL and not port.event]
        self._inputs = [port for port in real if port.causality is Causality.INPUT]
        self._given_out = [port for port in real if port.causality is Causality.OUTPUT]
        self._turn = np.random.default_rng(11)
        first = unit.save()
        try:
            points = self._points(first)
            self._find(points)
        finally:
            unit.restore(first)

    # ---------------------------------------------------------------- which numbers are states

    def _points(self, first: Any) -> list[tuple[Any, float]]:
        """Operating points to try from, the start among them: tokens and their times."""
        found = [(first, self._time)]
        for k, size in enumerate((0.0, 1.0, 30.0)):
            self._unit.restore(found[-1][0])
            with suppress(InvalidInput):  # it may refuse inputs that it never gets
                if size:
                    self._push(size)
                t = self._time + k * self._step
                self._unit.advance(t, t + self._step, False)
                found.append((self._unit.save(), t + self._step))
        return found

    def _push(self, size: float) -> None:
        for port in self._inputs:
            given = [float(v) + size * self._turn.choice([-1.0, 1.0]) for v in port.initial]
            self._unit.set(port.name, [given[0] if port.size is None else tuple(given)])

    def _find(self, points: Sequence[tuple[Any, float]]) -> None:
        looks = [Look(token) for token, _ in points]
        later = looks[1:] or looks
        fed = self._written_by_inputs(points[-1][0])
        shape = later[-1].numbers.keys() - fed
        for look in later:
            if look.numbers.keys() - fed != shape:
                odd = min((look.numbers.keys() - fed) ^ shape, key=str)
                raise NoMatrix(
                    f"'{self._name}' keeps {called(odd)} at some times and not at others, so that its state "
                    "is no fixed list of numbers, and nothing linear describes it."
                )
        if looks[0].numbers.keys() - fed != shape:  # what it is made with need not be what it goes on with
            points, looks = points[1:], looks[1:]
        moving = [p for p in later[-1].numbers if p in shape and any(p in look.real for look in looks)]
        self._whole = [p for p in shape if p not in set(moving)]
        reacts = set[Path]()
        for token, t in points:
            reacts |= self._reacting(token, t, moving)
        self._steady = [p for p in moving if p not in reacts]
        self._paths = [p for p in moving if p in reacts and self._read_by_others(p, points, moving)]
        self._left_out = {*self._steady, *(p for p in moving if p in reacts)} - set(self._paths)
        self._fed = fed
        self._check_rest(points)
        one, two = looks[-2:] if len(looks) > 1 else (looks[-1], looks[-1])
        by = [two.numbers[p] - one.numbers[p] for p in (*self._steady, *self._whole) if p in one.numbers]
        self.counts = any(far and far == round(far) for far in by if abs(far) < 1e15)
        """Whether something goes on by a whole number from step to step."""
        self.labels = tuple(called(path) for path in self._paths)

    def _written_by_inputs(self, token: Any) -> set[Path]:
        """The numbers that setting an input determines, whatever they were: these belong to inputs."""
        unit = self._unit
        before = Look(token)
        found = set[Path]()
        for port in self._inputs:
            for count in (1, 2, 3):
                given = [[float(v) * 0.7 + 0.3 * k + 1.1 for v in port.initial] for k in range(count)]
                rows = [row[0] if port.size is None else tuple(row) for row in given]
                try:
                    unit.restore(token)
                    unit.set(port.name, rows)
                    after = Look(unit.save())
                except InvalidInput:
                    continue  # it takes no polynomials of that degree
                changed = {p for p, v in after.numbers.items() if before.numbers.get(p) != v}
                found |= changed
                held = {p: before.numbers[p] + 0.37 * (1.0 + abs(before.numbers[p])) for p in before.real}
                unit.restore(rebuilt(token, held))
                unit.set(port.name, rows)
                again = Look(unit.save()).numbers
                for p in changed & before.numbers.keys():
                    if not _same(after.numbers[p], again.get(p, np.nan)):
                        raise NoMatrix(
                            f"set('{port.name}') of '{self._name}' changes {called(p)}, and what it becomes "
                            "depends on what was there before. That is a state which moves whenever an input "
                            "is set: let advance() move it, or write the unit with equations (PythonOde)."
                        )
        return found

    def _reacting(self, token: Any, t: float, moving: Sequence[Path]) -> set[Path]:
        """The numbers that do not move by the same amount, whatever else is moved by however much."""
        start = Look(token).numbers
        found = set[Path]()
        own: dict[Path, float] | None = None
        for trial in range(TRIALS + 1):
            wanted: dict[Path, float] = {}
            for p in moving:
                if trial and self._turn.random() < 0.5:
                    far = 10.0 ** self._turn.uniform(*SIZES) * self._turn.choice([-1.0, 1.0])
                    wanted[p] = 0.0 if self._turn.random() < 0.1 else start[p] + far
            try:
                self._unit.restore(rebuilt(token, wanted))
                if trial:
                    self._push(10.0 ** self._turn.uniform(*SIZES))
                self._unit.advance(t, t + self._step, False)
                after = Look(self._unit.save()).numbers
            except InvalidInput:
                if not trial:
                    raise
                continue  # out of what it can do
            moved = {p: after.get(p, np.nan) - wanted.get(p, start[p]) for p in moving}
            if own is None:
                own = moved
            for p in moving:
                size = max(abs(start[p]), abs(wanted.get(p, 0.0)), abs(own[p]))
                if not abs(moved[p] - own[p]) <= SAME * size and moved[p] != own[p]:
                    found.add(p)
        return found

    def _read_by_others(
        self, path: Path, points: Sequence[tuple[Any, float]], moving: Sequence[Path]
    ) -> bool:
        """Whether anything else is ever different where this number is."""
        for token, t in points:
            start = Look(token).numbers[path]
            base = self._future(token, t, path)
            for far in (1e-4, -1e-2, 1.0, -1e2):
                moved = rebuilt(token, {path: start + far * (1.0 + abs(start))})
                try:
                    other = self._future(moved, t, path)
                except InvalidInput:
                    return True  # it refuses such a number: so it has read it
                if other != base:
                    return True
        return False

    def _future(self, token: Any, t: float, without: Path) -> list[Any]:
        """All that is to be seen of a unit over two steps, but for one number."""
        self._unit.restore(token)
        seen: list[Any] = [self._outputs()]
        for k in range(2):
            self._unit.advance(t + k * self._step, t + (k + 1) * self._step, False)
            look = Look(self._unit.save())
            seen += [self._outputs(), {p: v for p, v in look.numbers.items() if p != without}, look.others]
        return seen

    def _outputs(self) -> list[Any]:
        return [repr(self._unit.get(port.name)) for port in self._given_out]

    def _check_rest(self, points: Sequence[tuple[Any, float]]) -> None:
        """What is no number that could move a little must stay as it is, or matter to nobody."""
        for token, t in points:
            self._unit.restore(token)
            before = Look(token)
            self._unit.advance(t, t + self._step, False)
            after_token = self._unit.save()
            after = Look(after_token)
            whole = [p for p in self._whole if before.numbers.get(p) != after.numbers.get(p)]
            others = [p for p in {**before.others, **after.others} if p not in self._fed]
            odd = [p for p in others if before.others.get(p) != after.others.get(p) and p in after.others]
            old = dict(leaves(token))
            for p in (*whole, *odd):
                if p in old and not self._matters(after_token, t + self._step, p, old[p]):
                    continue
                if p in whole or p in before.others:
                    raise NoMatrix(
                        f"{called(p)} of '{self._name}' changes from one step to the next and is no number "
                        "that could be moved a little, and what the unit does depends on it. So its steps "
                        f"are not all alike, and no single matrix says what they do. {self.advice}"
                    )

    def _matters(self, token: Any, t: float, path: Path, value: Any) -> bool:
        """Whether a unit goes on in another way with another value there."""
        try:
            return self._future(token, t, path) != self._future(replaced(token, path, value), t, path)
        except InvalidInput:  # it refuses that: so it has read it
            return True

    # ---------------------------------------------------------------- the states

    @property
    def remembered(self) -> list[Path]:
        """The places of states, and of inputs that it keeps from one of its steps to the next."""
        token = self._unit.save()
        fed = [path for path, leaf in leaves(token) if path in self._fed and (_real(leaf) or _whole(leaf))]
        return [*self._paths, *(path for path in fed if path not in self._paths)]

    @property
    def steady(self) -> list[Path]:
        """The places of numbers that go their own way."""
        return list(self._steady)

    def read(self) -> list[float]:
        known = Look(self._unit.save()).numbers
        return [known[path] for path in self._paths]

    def write(self, values: Sequence[float]) -> None:
        wanted = dict(zip(self._paths, values, strict=True))
        self._unit.restore(rebuilt(self._unit.save(), wanted))

    def apart(self) -> tuple[dict[Path, float], dict[Path, Any]]:
        """What is not among the states, and must not depend on them."""
        look = Look(self._unit.save())
        numbers = {p: look.numbers[p] for p in (*self._steady, *self._whole) if p in look.numbers}
        return numbers, {p: v for p, v in look.others.items() if p not in self._fed}

    def check_apart(self, one: tuple[Any, Any], two: tuple[Any, Any]) -> None:
        """That moving a state or an input has not moved what is left out of them."""
        for p, value in one[0].items():
            if not _same(value, two[0].get(p, np.nan)):
                raise self._tied(p)
        for p in {**one[1], **two[1]}:
            if one[1].get(p) != two[1].get(p):
                raise self._tied(p)

    def _tied(self, path: Path) -> NoMatrix:
        return NoMatrix(
            f"{called(path)} of '{self._name}' stayed as it was when the unit was tried out, but here it "
            "depends on the states or inputs: it switches at this operating point, and nothing linear "
            "describes that. Choose another point (at=…, --at), or write the unit with equations (PythonOde)."
        )

    def check_length(self, step: float) -> None:
        """Steps of any length are tried as they are."""

    def later(self, t: float, to: float, steps: float) -> None:
        """Let the numbers that are no states be what they are so many steps later; all else stays."""
        token = self._unit.save()
        before = Look(token).numbers
        self._unit.advance(t, to, False)
        after = Look(self._unit.save()).numbers
        moved = {
            p: before[p] + steps * (after[p] - before[p])
            for p in self._left_out
            if p in before and p in after and before[p] != after[p]
        }
        for p in self._whole:
            if p in before and p in after and before[p] != after[p]:
                moved[p] = int(before[p] + round(steps) * (after[p] - before[p]))
        self._unit.restore(rebuilt(token, moved))


def called(path: Path) -> str:
    """The name of a place in a token."""
    return ".".join(map(str, path)) or "state"


def numbers(token: Any) -> Iterator[tuple[Path, float]]:
    """Every real number in a token."""
    for path, leaf in leaves(token):
        if _real(leaf):
            yield path, float(leaf)


def _real(leaf: Any) -> bool:
    return isinstance(leaf, (float, np.floating))


def _whole(leaf: Any) -> bool:
    return isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool)


def _same(one: float, two: float) -> bool:
    return one == two or (one != one and two != two) or abs(one - two) <= SAME * max(abs(one), abs(two))


def _comparable(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, (bool, str, bytes, complex)):
        return leaf
    try:
        return pickle.dumps(leaf)
    except (pickle.PickleError, TypeError, AttributeError, RecursionError):
        raise NoMatrix(
            f"save() gives a {type(leaf).__name__}, which nobody can look into: numbers in it may be states. "
            "Give them as numbers, in tuples, lists, dictionaries or arrays."
        ) from None


def _parts(token: Any) -> Iterator[tuple[Any, Any]] | None:
    """The parts of what holds others, with their keys; None: it is a part itself."""
    if isinstance(token, np.ndarray):
        return ((index, value) for index, value in np.ndenumerate(token))
    if isinstance(token, Mapping):
        return iter(token.items())
    if isinstance(token, (tuple, list, deque)):
        return iter(enumerate(token))
    if dataclasses.is_dataclass(token) and not isinstance(token, type):
        return ((one.name, getattr(token, one.name)) for one in dataclasses.fields(token))
    if hasattr(token, "__dict__") and not isinstance(token, type) and not callable(token):
        attributes: dict[str, Any] = vars(token)
        return iter(attributes.items())
    return None


def leaves(token: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything in a token that holds nothing else."""
    parts = _parts(token)
    if parts is None:
        yield path, token
        return
    for key, value in parts:
        own = key if isinstance(token, np.ndarray) else (key,)
        yield from leaves(value, (*path, *own))


def rebuilt(token: Any, wanted: Mapping[Path, float]) -> Any:
    """The token with other numbers in some places."""
    return _rebuilt(token, wanted, ()) if wanted else token


def replaced(token: Any, path: Path, value: Any) -> Any:
    """The token with another value in one place."""
    return _rebuilt(token, {path: value}, ())


def _rebuilt(token: Any, wanted: Mapping[Path, Any], path: Path) -> Any:
    parts = _parts(token)
    if parts is None:
        return wanted.get(path, token)
    if isinstance(token, np.ndarray):
        changed = token.copy()
        for index in np.ndindex(token.shape):
            if (*path, *index) in wanted:
                changed[index] = wanted[(*path, *index)]
        return changed
    made = [(key, _rebuilt(value, wanted, (*path, key))) for key, value in parts]
    if isinstance(token, Mapping):
        if type(token) is dict:
            return dict(made)
        kept: Any = copy.copy(token)
        for key, value in made:
            kept[key] = value
        return kept
    if isinstance(token, deque):
        return type(token)((value for _, value in made), token.maxlen)
    if isinstance(token, (tuple, list)):
        items = [value for _, value in made]
        if isinstance(token, list):
            return items
        return type(token)(*items) if hasattr(token, "_fields") else tuple(items)
    twin = copy.copy(token)
    for key, value in made:
        object.__setattr__(twin, key, value)
    return twin
