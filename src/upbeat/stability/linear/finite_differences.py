"""Units of which nothing is known but what they do: slopes found by trying, states seen in what they save."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from upbeat.core.abilities import StateAccess
from upbeat.core.errors import FAULTS, InvalidInput, StepError
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.stability.linear.flows import ROUNDING, Flow, Moving, best_slopes
from upbeat.stability.linear.forms import TRYING, Array, DynamicLinearUnit, NoMatrix, Rows, differ

# ----------------------------------------------------------------------------------------------------
# The states of a unit in its own tokens: the numbers in what `save` gives, less those that are no states.
#
# Nothing is left out because of what it looks like. Every number is moved, from several operating points,
# by little and by much, together with the inputs and the other numbers. What is left out then is what
# nothing reads, what an input has written, and what goes its own way whatever happens, such as a parameter
# or a clock. Where this leaves something open there is no verdict, and the number is named.

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
        self._unread = [p for p in moving if p in reacts and p not in self._paths]
        self._fed = fed
        self._check_rest(points)
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
        """What is no number that could move a little must stay as it is, or not matter."""
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

    def remainder(self) -> tuple[dict[Path, float], dict[Path, Any]]:
        """What is not among the states, and must not depend on them."""
        look = Look(self._unit.save())
        numbers = {p: look.numbers[p] for p in (*self._steady, *self._whole) if p in look.numbers}
        return numbers, {p: v for p, v in look.others.items() if p not in self._fed}

    def check_remainder(self, one: tuple[Any, Any], two: tuple[Any, Any]) -> None:
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

    def ahead(self, t: float, to: float) -> Ahead:
        """Numbers that nobody reads now may be read then, and move, too."""
        unit, token = self._unit, self._unit.save()
        before = Look(token).numbers
        unit.advance(t, to, False)
        after = Look(unit.save()).numbers
        unit.restore(token)
        far = {p: after[p] - before[p] for p in before.keys() & after.keys() if before[p] != after[p]}
        free = [p for p in (*self._steady, *self._unread) if p in far]
        whole = [p for p in self._whole if p in far]

        def put(steps: float, values: Sequence[float], moved: float = 0.0) -> None:
            wanted = dict(zip(self._paths, values, strict=True))
            if steps:
                wanted |= {p: before[p] + steps * far[p] for p in free}
                wanted |= {p: int(before[p] + round(steps) * far[p]) for p in whole}
            if moved:
                wanted |= {
                    p: (v := wanted.get(p, before[p])) + moved * (1.0 + abs(v))
                    for p in self._unread
                    if p in before
                }
            unit.restore(rebuilt(token, wanted))

        return put


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
            f"save() gives a {type(leaf).__name__}, whose contents are not accessible: numbers in it may be "
            "states. Give them as numbers, in tuples, lists, dictionaries or arrays."
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


# ----------------------------------------------------------------------------------------------------
# Units whose equations are not known: what they do is tried out, from where they are, and undone.
#
# All that is needed are the unit's own calls and rollback. States are whatever numbers can be read of it.
# Where they can be written, too, each is moved to both sides; where not, inputs move them, and how the unit
# goes on is fitted to what it did.

STEP = 1e-4
"""How far things are moved at first, relative to 1 + their size: further than the noise of a solver inside.
Where that and a quarter of it give other slopes, things may be smaller than that: shorter ways are tried, and
what the best two still differ by is how well slopes are known."""
ACCURACY = 1e-7
DISTANT = 1000
"""Up to so many steps ahead a unit is tried in each of them: in one of many it may do something else."""
EARLY = 32
"""So many of them it is tried in, and must be able to make from where it is, however short the run."""
FAINT = 1e-7
"""States that move so little, compared with the others, cannot be told apart."""
Trajectory = tuple[float, list[Signal]]


class Ahead(Protocol):
    """Puts a unit where it is so many steps later, with these states."""

    def __call__(self, steps: float, values: Sequence[float], moved: float = 0.0) -> None:
        """`moved`: how far, relatively, to move what is no state because nobody reads it now."""
        ...


class Handle(Protocol):
    """Where the states of a unit are found."""

    labels: tuple[str, ...]
    writable: bool
    advice: str
    """What to do where it tells of no states."""

    def read(self) -> list[float]: ...

    def write(self, values: Sequence[float]) -> None: ...

    def remainder(self) -> Any:
        """What is to be seen next to the states, and must not depend on them."""
        ...

    def check_remainder(self, one: Any, two: Any) -> None:
        """That it does not: `NoMatrix` if it does."""
        ...

    def ahead(self, t: float, to: float) -> Ahead:
        """What puts other states into the unit, and lets what goes its own way be as so many steps later."""
        ...

    def check_length(self, step: float) -> None:
        """That steps of this length are all alike: `NoMatrix` if they are not."""
        ...


class StatesOnly:
    """A handle that tells of nothing next to the states."""

    def remainder(self) -> Any:
        return None

    def check_remainder(self, one: Any, two: Any) -> None:
        pass

    def ahead(self, t: float, to: float) -> Ahead:
        raise NotImplementedError  # only what can be written is sent ahead

    def check_length(self, step: float) -> None:
        pass


class ReadOnly(StatesOnly):
    """A handle for units that let their states be read; `check` refuses steps of some lengths."""

    writable = False

    def __init__(self, access: StateAccess, check: Callable[[float], None]) -> None:
        self.labels, self.advice, self._read = access.names, access.advice, access.read
        self._check = check

    def check_length(self, step: float) -> None:
        self._check(step)

    def read(self) -> list[float]:
        return list(self._read())

    def write(self, values: Sequence[float]) -> None:
        raise NotImplementedError  # `writable` says so


class DifferencedUnit(DynamicLinearUnit):
    """Finds derivatives by moving states and inputs a little, and setting the unit back after it."""

    linear = False
    _sizes: Mapping[str, float] = MappingProxyType({})

    def __init__(
        self,
        name: str,
        unit: Any,
        ports: Sequence[Port],
        handle: Handle,
        trajectories: Mapping[str, Callable[[], Trajectory | None]],
        step: float,
        sizes: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`sizes`: how large inputs usually are, where that is known; otherwise about 1."""
        self._sizes = sizes
        real = [port for port in ports if port.kind is Kind.REAL and not port.event]
        inputs = [port for port in real if port.causality is Causality.INPUT]
        self._given_out = [port for port in real if port.causality is Causality.OUTPUT]
        super().__init__(handle.labels, inputs, self._given_out)
        self._name, self._unit, self._handle, self._step = name, unit, handle, step
        self._given, self._ports = trajectories, inputs
        self._time = self._doubt = 0.0
        self._known: tuple[Array, Array] | None = None
        self._fitted: tuple[Array, Array] | None = None

    @property
    def slopes(self) -> float:
        return max(ACCURACY, self._doubt)

    @property
    def reach(self) -> float:
        return TRYING if any(not port.event for port in self._given_out) else 0.0

    @property
    def _now(self) -> float:
        return self._time

    def begin(self, states: Array) -> None:
        super().begin(states)
        self._doubt = 0.0
        self._known = self._fitted = None

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        super().give(port, time, rows)
        self._time, self._known = time, None

    def restore(self, token: Any) -> None:
        super().restore(token)
        self._known = None

    def arrive(self, left: Any, t: float, to: float) -> None:
        self._step = to - t
        if not self.labels and to > t:
            self._refuse_memory(left, t, to)
        super().arrive(left, t, to)
        self._time, self._known = to, None

    def leave(self) -> Any:
        return self._unit.save()

    def values(self) -> list[float]:
        return self._handle.read()

    def put(self, values: Sequence[float]) -> None:
        if self._handle.writable:
            self._handle.write(values)

    def _refuse_memory(self, left: Any, t: float, to: float) -> None:
        """A unit that tells of no states must have none: what its inputs were is over when they are back."""
        after = self._unit.save()
        outputs = []
        for away in (0.0, 1.0):
            self._unit.restore(left)
            trajectories = {port.name: self._trajectory(port, t) for port in self._ports}
            for port in self._ports:
                self._set(port, [[row[0] + away] for row in trajectories[port.name]])
            self._unit.advance(t, to, False)
            for port in self._ports:
                self._set(port, [[row[0]] for row in trajectories[port.name]])
            outputs.append(self._outputs_now())
        self._unit.restore(after)
        largest = float(np.abs(outputs).max(initial=0.0))
        if not np.allclose(outputs[0], outputs[1], rtol=1e-9, atol=1e-12 * largest):
            raise StepError(
                f"'{self._name}' cannot be linearised: it remembers what its inputs were, but shows nothing "
                f"of its states. {self._handle.advice}"
            )

    # ---------------------------------------------------------------- trying

    def _outputs_now(self) -> Array:
        cells: list[float] = []
        for port in self._given_out:
            value = self._unit.get(port.name)
            cells += [float(value)] if port.size is None else [float(v) for v in value]
        return np.array(cells)

    def _trajectory(self, port: Port, t: float) -> list[list[float]]:
        """The coefficients of each cell of an input around `t`."""
        known = self._given[port.name]()
        if known is None:
            return [[float(value)] for value in port.initial]
        origin, trajectory = known
        rows: list[Any] = [[c] if port.size is None else list(c) for c in trajectory]  # type: ignore[arg-type]
        moved: Array = Moving(((0, len(rows)),)).shifted(t - origin) @ np.array(rows, dtype=np.float64)
        return [[float(value) for value in row] for row in moved.T]

    def _set(self, port: Port, cells: Sequence[Sequence[float]]) -> None:
        orders = zip(*cells, strict=True)
        given: list[Signal] = [row[0] if port.size is None else tuple(row) for row in orders]
        self._unit.set(port.name, given)

    def _input_slopes(self, t: float, count: Sequence[int], result: Callable[[], Array]) -> list[Array]:
        """How `result` reacts to the first coefficients of every input cell, each from the same point."""
        token = self._unit.save()
        columns: list[Array] = []
        number = 0
        for port in self._ports:
            trajectory = self._trajectory(port, t)
            for cell in range(port.cells):
                for order in range(count[number]):

                    def move(side: float, port: Port = port, cell: int = cell, order: int = order) -> None:
                        moved = [
                            list(row) + [0.0] * (order + 1 - len(row)) for row in self._trajectory(port, t)
                        ]
                        moved[cell][order] += side
                        self._set(port, moved)

                    value = trajectory[cell][0]
                    columns.append(self._slope(token, self._size(port, value), value, move, result))
                number += 1
        self._unit.restore(token)
        return columns

    def _state_slopes(self, result: Callable[[], Array]) -> list[Array]:
        token, values = self._unit.save(), self._handle.read()
        columns: list[Array] = []
        for i, value in enumerate(values):

            def move(side: float, i: int = i) -> None:
                self._handle.write([*values[:i], values[i] + side, *values[i + 1 :]])

            columns.append(self._slope(token, 1.0 + abs(value), value, move, result))
        self._unit.restore(token)
        return columns

    def _slope(
        self,
        token: Any,
        size: float,
        value: float,
        move: Callable[[float], None],
        result: Callable[[], Array],
    ) -> Array:
        """How `result` reacts to one number that `move` moves, over lengths that agree."""
        wide: Array | None = None

        def over(length: float) -> tuple[Array, Array]:
            nonlocal wide
            ends = []
            for side in (length, -length):
                self._unit.restore(token)
                move(side)
                ends.append(result())
            slopes: Array = (ends[0] - ends[1]) / (2.0 * length)
            wide = np.abs(slopes) if wide is None else np.maximum(wide, np.abs(slopes))
            return slopes, ROUNDING * (np.abs(ends[0]) + np.abs(ends[1])) / length

        return self._known_as(best_slopes(over, STEP * size, STEP * size, STEP * abs(value)), wide)

    def _known_as(self, best: tuple[Array, float, float], wide: Array | None) -> Array:
        """The best slopes. How well they are known counts; those of the flat parts of a staircase are not."""
        found, doubt, _ = best
        flat = wide is not None and bool(((found == 0.0) & (wide > 0.0)).any())
        self._doubt = max(self._doubt, 1.0 if flat else doubt)
        return found

    def _size(self, port: Port, value: float) -> float:
        """How far, relatively, an input is moved."""
        return self._sizes.get(port.name, 1.0) + abs(value)

    def _gains(self) -> tuple[Array, Array]:
        if self._known is None:
            cells, states = len(self._outputs_now()), len(self.labels)
            direct = self._input_slopes(self._time, [1] * self._cells, self._outputs_now)
            if not states:
                by_state = np.zeros((cells, 0))
            elif self._handle.writable:
                by_state = np.array(self._state_slopes(self._outputs_now)).T
            else:
                by_state = self._fit(self._time)[1]
            self._known = by_state, np.array(direct).T.reshape(cells, self._cells)
        return self._known

    @property
    def _cells(self) -> int:
        return sum(port.cells for port in self._ports)

    def _flow(self, left: Any, t: float, to: float, moving: Moving) -> Flow:
        after = self._unit.save()
        self._unit.restore(left)

        usual: list[Any] = []

        def advanced() -> Array:
            self._unit.advance(t, to, False)
            remainder = self._handle.remainder()
            if usual:
                self._handle.check_remainder(usual[0], remainder)
            usual.append(remainder)
            return np.array(self._handle.read())

        try:
            advanced()
            self._unit.restore(left)
            counts = [0] * self._cells
            for place, count in moving.cells:
                counts[place] = count
            columns = self._input_slopes(t, counts, advanced)
            if self._handle.writable:
                states = np.array(self._state_slopes(advanced)).T
            else:
                states = self._fit(t)[0]
        finally:
            self._unit.restore(after)
        in_order = _by_place(moving, columns)
        return Flow(np.hstack([states, np.array(in_order).T]) if in_order else states, self.slopes)

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        if not self._handle.writable:
            return ()  # an FMU's own business: its time is not ours to change
        unit, t = self._unit, now
        token, values = unit.save(), self._handle.read()
        put = self._handle.ahead(t, t + step)

        def slopes(later: float, moved: Port | None = None, by: float = 0.0) -> Array:
            put(later, values)
            if moved is not None:
                self._set(moved, [[row[0] + by * (1.0 + abs(row[0]))] for row in self._trajectory(moved, t)])
            columns: list[Array] = []

            def advanced() -> Array:
                unit.advance(t + later * step, t + (later + 1.0) * step, False)
                return np.array(self._handle.read())

            held = unit.save()
            for result in (advanced, self._outputs_now):
                unit.restore(held)
                columns += self._state_slopes(result)
                unit.restore(held)
                if moved is None:
                    columns += self._input_slopes(t, [1] * self._cells, result)
            return np.concatenate([column.ravel() for column in columns] or [np.zeros(0)])

        try:
            base = slopes(0.0)
            tried: list[float] = []
            for k in (float(round(k)) or k for k in later):
                try:
                    other = slopes(k)
                except (InvalidInput, OverflowError):
                    if k < EARLY:
                        raise
                    break  # the run may never come there in this state
                if differ(base, other):
                    return None
                tried.append(k)
            for port in self._ports:
                if port.name in driven:
                    one, *others = (slopes(0.0, port, by) for by in (1e-9, 0.3, -0.7))
                    if any(differ(one, other) for other in others):
                        return None
            most = min(DISTANT, max(EARLY, *map(int, later), 0) + 1)  # not beyond the end of the run
            return tried if self._goes_on(put, values, t, step, most) else None
        finally:
            unit.restore(token)

    def _goes_on(self, put: Ahead, values: Sequence[float], t: float, step: float, most: int) -> bool:
        """Whether each of so many steps does the same to a deviation, and the deviation nothing to what is
        no state. One direction is enough: it has a part of each."""
        turn = np.random.default_rng(13)
        here = np.array(values)
        way = STEP * (1.0 + np.abs(here)) * turn.uniform(0.5, 1.0, len(here))
        given = [(port, self._trajectory(port, t)) for port in self._ports]
        ways = [
            STEP * self._size(port, row[0]) * turn.uniform(0.5, 1.0) for port, rows in given for row in rows
        ]

        def ended(k: int, side: float) -> tuple[Array, Any]:
            put(k, (here + side * way).tolist(), side * STEP)
            far = iter(ways)
            for port, rows in given:
                self._set(port, [[row[0] + side * next(far), *row[1:]] for row in rows])
            shown = self._outputs_now()
            self._unit.advance(t + k * step, t + (k + 1) * step, False)
            return np.concatenate([self._handle.read(), shown, self._outputs_now()]), self._handle.remainder()

        base: Array | None = None
        for k in range(most):
            try:
                (one, left), (two, right) = ended(k, 1.0), ended(k, -1.0)
                self._handle.check_remainder(left, right)
            except NoMatrix:
                return False
            except (InvalidInput, OverflowError):
                if k < EARLY:
                    raise
                break  # as above
            if base is None:
                base = one - two
            elif differ(base, one - two):
                return False
        return True

    def _fit(self, t: float) -> tuple[Array, Array]:
        """How states and outputs follow from states, fitted to runs in which inputs moved them."""
        if self._fitted is not None:
            return self._fitted
        self._handle.check_length(self._step)
        unit, h, size = self._unit, self._step, len(self.labels)
        token, turn = unit.save(), np.random.default_rng(7)
        length, runs = size + 3, 2 + size

        def run(moved: Array) -> tuple[list[Array], list[Array]]:
            unit.restore(token)
            states, outputs = [np.array(self._handle.read())], []
            for k in range(length):
                place = 0
                for port in self._ports:
                    trajectory = self._trajectory(port, t)
                    for cell in range(port.cells):
                        trajectory[cell] = [trajectory[cell][0] + moved[k, place]]
                        place += 1
                    self._set(port, [row[:1] for row in trajectory])
                outputs.append(self._outputs_now())
                unit.advance(t + k * h, t + (k + 1) * h, False)
                states.append(np.array(self._handle.read()))
            return states, outputs

        sizes = np.array([self._size(p, cell[0]) for p in self._ports for cell in self._trajectory(p, t)])
        ways = [sizes * turn.uniform(-1.0, 1.0, (length, self._cells)) for _ in range(runs)]
        base = run(np.zeros((length, self._cells)))
        unit.restore(token)
        values = np.concatenate([np.abs(part).max(axis=0, initial=0.0) for part in base])

        def fitted(far: float) -> tuple[Array, Array]:
            """All of it flat, from inputs that are moved so far, and what rounding makes of it."""
            rows: list[Array] = []
            ends: list[Array] = []
            for way in ways:
                states, outputs = run(far * way)
                for k in range(length):
                    rows.append(np.concatenate([states[k] - base[0][k], far * way[k]]))
                    ends.append(np.concatenate([states[k + 1] - base[0][k + 1], outputs[k] - base[1][k]]))
            return _solved(np.array(rows), np.array(ends), values)

        try:
            best = best_slopes(fitted, 10.0 * STEP, 10.0 * STEP)
        finally:
            unit.restore(token)
        if not np.isfinite(best[0]).all():
            raise StepError(
                f"'{self._name}' cannot be linearised: its inputs do not move all of its states ("
                f"{', '.join(self.labels)}), and these can neither be set nor are derivatives known. An FMU "
                "for model exchange, or one with directional derivatives, could be."
            )
        found = self._known_as(best, None).reshape(-1, size + self._cells)
        self._fitted = fitted_to = found[:size, :size], found[size:, :size]
        return fitted_to


def _solved(data: Array, ends: Array, values: Array) -> tuple[Array, Array]:
    """How ends follow from data, and what rounding of these values makes of it, both flat; not a number where
    the data do not tell."""
    scale = np.abs(data).max(axis=0) + 1e-300
    sizes = np.linalg.svd(data / scale, compute_uv=False)
    if not len(sizes) or not sizes[-1] >= FAINT * sizes[0]:
        nothing = np.full(ends.shape[1] * data.shape[1], np.nan)
        return nothing, nothing
    found = np.linalg.lstsq(data / scale, ends, rcond=None)[0].T / scale
    noise = ROUNDING * float(sizes[0] / sizes[-1]) * values[:, None] / scale[None, :]
    return np.asarray(found, dtype=np.float64).ravel(), noise.ravel()


def _by_place(moving: Moving, columns: list[Array]) -> list[Array]:
    """Columns that come by the place of their inputs, in the order of `moving`."""
    counts = dict(moving.cells)
    first: dict[int, int] = {}
    total = 0
    for place in sorted(counts):
        first[place] = total
        total += counts[place]
    return [columns[first[place] + k] for place, count in moving.cells for k in range(count)]


# ----------------------------------------------------------------------------------------------------
# Whether a unit is set back by its own `restore`, before anything is concluded from trying it out.

SAME_STATE = 1e-9
"""What differs by more, relatively, is not the same again."""


class NamedErrors:
    """A unit whose errors say that they are its own, and in which call; `advice` comes after that."""

    def __init__(self, name: str, unit: Any, advice: str = "") -> None:
        self._name, self._unit, self._advice = name, unit, advice

    def get(self, port: str) -> Any:
        return self._call(f"get('{port}')", self._unit.get, port)

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        self._call(f"set('{port}', {list(coefficients)})", self._unit.set, port, coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        reached: float = self._call(f"advance({t:g}, {to:g})", self._unit.advance, t, to, early)
        return reached

    def save(self) -> Any:
        return self._call("save()", self._unit.save)

    def restore(self, token: Any) -> None:
        self._call("restore()", self._unit.restore, token)

    def _call(self, what: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except FAULTS as cause:
            raise InvalidInput(
                f"'{self._name}' cannot be linearised: it failed in its own {what} while it was tried out: "
                f"{type(cause).__name__}: {cause}.{self._advice}"
            ) from cause


def check_rollback(
    name: str,
    unit: Any,
    ports: Sequence[Port],
    states: Callable[[], Sequence[float]],
    time: float,
    step: float,
) -> None:
    """Make a step several times from the same token: all have to begin and to end alike.

    First a step is made to somewhere that has nothing special about it: at its start a unit may have
    nothing to forget. Before the last time inputs are moved, for these belong to a token, too. What there is
    to be seen are the numbers in tokens, the `states` that are known otherwise, and the outputs.
    """
    real = [port for port in ports if port.kind is Kind.REAL and not port.event]
    outputs = [port for port in real if port.causality is Causality.OUTPUT]
    inputs = [port for port in real if port.causality is Causality.INPUT]

    def now() -> list[float]:
        found = [value for _, value in numbers(unit.save())] + [float(value) for value in states()]
        for port in outputs:
            value = unit.get(port.name)
            found += [] if value is None else [float(value)] if port.size is None else map(float, value)
        return found

    def on(moved: bool = False) -> None:
        for port in inputs if moved else ():
            given = [float(value) + STEP * (1.0 + abs(float(value))) for value in port.initial]
            unit.set(port.name, [given[0] if port.size is None else tuple(given)])
        unit.advance(time + step, time + 2.0 * step, False)

    first = unit.save()
    unit.advance(time, time + step, False)
    token = unit.save()
    seen: list[tuple[list[float], list[float]]] = []
    for moved in (False, False, True, False):
        begun = now()
        on(moved)
        if not moved:
            seen.append((begun, now()))
        unit.restore(token)
    unit.restore(first)
    for place, what in enumerate(("is not where it was", "goes on in another way than before")):
        one, *others = (pair[place] for pair in seen)
        for two in others:
            if len(one) != len(two) or not np.allclose(
                one, two, rtol=SAME_STATE, atol=SAME_STATE, equal_nan=True
            ):
                raise InvalidInput(
                    f"'{name}' cannot be linearised: after restore() it {what}. What it does is tried out "
                    "and undone, so save() has to keep all that its future depends on, and restore() to "
                    "bring it back."
                )
