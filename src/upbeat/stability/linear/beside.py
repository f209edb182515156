"""The linear part of one unit, beside the unit: rows for its states and for the courses of its inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import StepError
from upbeat.core.ports import Kind, Port
from upbeat.stability.linear.flows import Flow, Moving

Array = npt.NDArray[np.float64]
Rows = Array | None
"""One row per cell over the extended state; None: all zero."""
Course = tuple[float, tuple[Rows, ...]]
"""Its origin, and the rows of each coefficient."""


LATER = (0.37, 1.0, 2.3, 7.1, 31.7)
"""How many steps later slopes are looked at again, to see whether they change with the time …"""
MUCH_LATER = (103.0, 1009.0, 10_007.0, 100_003.0)
"""… as long as that is before the end of the run …"""
SHARES = (0.13, 0.38, 0.62, 0.87, 1.0)
"""… and at these parts of what is left of it, unless it is so long that nobody knows its end."""
LONG = 1e6
"""So many steps are."""


def later_steps(left: float) -> tuple[float, ...]:
    """How many steps later slopes are looked at again, in a run with so many steps left."""
    much = [k for k in MUCH_LATER if k < left]
    parts = [share * (left - 1.0) for share in SHARES] if LATER[-1] < left <= LONG else []
    return (*LATER, *sorted((*much, *parts)))


def differ(one: Array, two: Array) -> bool:
    """Whether slopes are not the same, beyond what differences and trying leave open."""
    return bool(np.abs(one - two).max(initial=0.0) > 1e-5 * np.abs(one).max(initial=1e-12))


class NoMatrix(StepError):
    """Nobody knows a single matrix for what steps do to small deviations, so that nothing can be decided."""

    def __init__(self, text: str) -> None:
        super().__init__(text, unending=True)


class Entry(NamedTuple):
    """One number that a unit takes over from step to step."""

    name: str
    port: str
    """The state or port that it is about, among those of the unit."""
    own: bool = True
    """Whether it is a state of a unit; otherwise an input that is held inside, or a register."""
    loop: str = ""
    """The iteration that determines it anew in every step, in words, if there is one."""


class Beside(Protocol):
    """What a machine of linear forms needs of a unit: the derivatives of whatever the unit does.

    Call order as for the unit itself; `leave` before and `arrive` after the unit advances.
    """

    linear: bool
    """Whether it is proven to be linear (or affine)."""

    @property
    def accuracy(self) -> float:
        """How well all that has been asked for since `begin` is known, relatively."""
        ...

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its states, and what else it takes over from step to step. All below is about these."""
        ...

    def begin(self, states: Array) -> None:
        """The rows of its states; inputs are held at what they are until they are given."""
        ...

    def states(self) -> Array: ...

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        """An input follows a course with these rows from `time` on."""
        ...

    def course(self, port: str) -> Course | None:
        """The course that an input follows; None if nothing in it moves."""
        ...

    def read(self, port: str) -> Rows:
        """The rows of an output now."""
        ...

    def leave(self) -> Any: ...

    def arrive(self, left: Any, t: float, to: float) -> None: ...

    def save(self) -> Any: ...

    def restore(self, token: Any) -> None: ...

    def strike(self) -> Any:
        """Before the unit jumps …"""
        ...

    def struck(self, left: Any) -> None:
        """… and after it."""
        ...

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        """How many steps later, of those in `later`, it was tried and had the same slopes.

        None, if slopes change with the time, or with inputs `driven` by it, as far as trying tells. Nothing,
        if they are known not to.
        """
        ...

    def values(self) -> list[float]:
        """What its states are."""
        ...

    def put(self, values: Sequence[float]) -> None:
        """Other values for its states."""
        ...


class Unstruck:
    """What followers share whose units do nothing at events, or nothing that is looked at."""

    def strike(self) -> Any:
        return None

    def struck(self, left: Any) -> None:
        return None

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        return ()


class Moved(Unstruck, ABC):
    """What goes beside any unit that moves: rows are kept here; how it moves is up to the kinds of unit."""

    linear: bool
    labels: tuple[str, ...]

    def __init__(self, labels: tuple[str, ...], inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.labels = labels
        self._rows = np.zeros((len(labels), 0))
        self._courses: Mapping[str, Course] = {}
        self._blur = 0.0  # how well the flows are known that have led to the rows, all together
        self._inputs = _places(inputs)
        self._outputs = {port.name: (*place, port.kind is Kind.REAL) for port, place in _placed(outputs)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(Entry(label, label) for label in self.labels)

    @property
    def accuracy(self) -> float:
        return max(self.slopes, self._blur)

    @property
    @abstractmethod
    def slopes(self) -> float:
        """How well the derivatives of its equations are known, relatively."""

    @property
    @abstractmethod
    def _now(self) -> float:
        """The unit's own time."""

    @abstractmethod
    def _gains(self) -> tuple[Array, Array]:
        """How all cells of outputs react to states and inputs, now."""

    @abstractmethod
    def _flow(self, left: Any, t: float, to: float, moving: Moving) -> Flow:
        """How the states at `to` react to those at `t` and to coefficients (see `stability.flows`)."""

    @abstractmethod
    def leave(self) -> Any: ...

    @abstractmethod
    def values(self) -> list[float]: ...

    @abstractmethod
    def put(self, values: Sequence[float]) -> None: ...

    def begin(self, states: Array) -> None:
        self._rows, self._courses, self._blur = states, {}, 0.0

    def states(self) -> Array:
        return self._rows

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        while rows and rows[-1] is None:
            rows = rows[:-1]
        rest = {name: course for name, course in self._courses.items() if name != port}
        self._courses = rest | {port: (time, tuple(rows))} if rows else rest

    def course(self, port: str) -> Course | None:
        return self._courses.get(port)

    def read(self, port: str) -> Rows:
        first, count, real = self._outputs.get(port, (0, 0, False))
        if not real:
            return None
        by_state, by_input = (part[first : first + count] for part in self._gains())
        rows = by_state @ self._rows
        for name, (origin, coefficients) in self._courses.items():
            place, cells = self._inputs[name]
            gain = by_input[:, place : place + cells]
            if gain.any():
                rows = rows + gain @ _at(coefficients, self._now - origin)
        return rows if rows.any() else None

    def arrive(self, left: Any, t: float, to: float) -> None:
        if not self.labels or to <= t:
            return
        size, columns = self._rows.shape
        moving = [
            (self._inputs[name][0] + cell, _around(coefficients, t - origin, cell, columns))
            for name, (origin, coefficients) in self._courses.items()
            for cell in range(self._inputs[name][1])
        ]
        through, blur = self._flow(left, t, to, Moving(tuple((place, len(rows)) for place, rows in moving)))
        states = through[:, :size] @ self._rows
        if moving:
            states = states + through[:, size:] @ np.vstack([rows for _, rows in moving])
        self._rows = states
        self._blur += blur

    def save(self) -> Any:
        return self._rows, self._courses, self._blur

    def restore(self, token: Any) -> None:
        self._rows, self._courses, self._blur = token


def _placed(ports: Sequence[Port]) -> list[tuple[Port, tuple[int, int]]]:
    """Where the cells of each port are among those of all, and how many there are."""
    found, first = [], 0
    for port in ports:
        found.append((port, (first, port.cells)))
        first += port.cells
    return found


def _places(ports: Sequence[Port]) -> dict[str, tuple[int, int]]:
    return {port.name: place for port, place in _placed(ports)}


def _around(coefficients: Sequence[Rows], tau: float, cell: int, columns: int) -> Array:
    """The rows of one cell's coefficients around a point so long after the origin of the course."""
    rows = np.array([np.zeros(columns) if part is None else part[cell] for part in coefficients])
    return rows if tau == 0.0 else Moving(((0, len(rows)),)).shifted(tau) @ rows


def _at(coefficients: Sequence[Rows], tau: float) -> Array:
    """The rows of a course so long after its origin."""
    total: Array | None = None
    for k, rows in enumerate(coefficients):
        if rows is not None:
            part = rows * tau**k
            total = part if total is None else total + part
    assert total is not None  # courses without rows are not kept
    return total


class Still(Unstruck):
    """Beside a unit that gives out nothing that moves with the others: all its rows are zero."""

    accuracy = 0.0
    linear = True
    entries: tuple[Entry, ...] = ()

    def begin(self, states: Array) -> None:
        self._none = states

    def states(self) -> Array:
        return self._none

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        pass

    def course(self, port: str) -> Course | None:
        return None

    def read(self, port: str) -> Rows:
        return None

    def leave(self) -> None:
        pass

    def arrive(self, left: None, t: float, to: float) -> None:
        pass

    def save(self) -> None:
        pass

    def restore(self, token: None) -> None:
        pass

    def values(self) -> list[float]:
        return []

    def put(self, values: Sequence[float]) -> None:
        pass
