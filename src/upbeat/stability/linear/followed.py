"""A program followed on linear forms: from its start on as values, and single steps with their matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability, Model
from upbeat.core.ports import Signal
from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.master.program import Program
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.beside import Array, Beside
from upbeat.stability.linear.extended import Extended, extended, history_depth, looks_back
from upbeat.stability.linear.forms import Forms
from upbeat.stability.linear.linearise import beside, doubts

USUAL = "step"
"""The step block of a program that has no others."""
NEAR = 1e-3
"""How far away the neighbour stands that decides for a program which is not linear, relatively."""


@dataclass(frozen=True)
class Induced:
    """x(t + step) = matrix·x(t), to first order, for the extended state x of a coupled scenario.

    `linear` says that this is proven to hold everywhere; otherwise it is a linearisation, at the time `at` of
    the run or at a point of `rest`. `accuracy` is how well the entries of the matrix are known, relatively.
    """

    matrix: npt.NDArray[np.float64]
    step: float
    names: tuple[str, ...]
    ports: tuple[str, ...]
    linear: bool
    at: float
    accuracy: float
    notes: tuple[str, ...] = ()
    rest: bool = False

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def where(self) -> str:
        """The point of linearisation in words."""
        return "rest" if self.rest else f"t = {self.at:.6g} s"


class Followed:
    """The program of one scenario on linear forms, from its start on."""

    def __init__(
        self, scenario: Scenario, program: Program, start: float, length: float, *, ideal: bool,
        blocks: Sequence[str] = (USUAL,),
    ) -> None:  # fmt: skip
        """`blocks`: the step blocks among which each step chooses."""
        models: Mapping[str, Model] = scenario.units
        called = {unit: path_of(scenario, unit) for unit in models}
        self.notes = tuple(doubts(scenario, called))
        self.linear = not self.notes
        self._program, self._start = program, start
        self._usual = blocks[0]
        steps = [program.steps[name] for name in blocks]
        self.depth = history_depth(program) + (len(blocks) > 1 and looks_back(program, models, steps))
        self._neighbour = None if self.linear else Interpreter(program, models, start)
        try:
            self._forms = Forms(program, models, start, self._neighbour)
        except BaseException:
            if self._neighbour is not None:
                self._neighbour.close()
            raise
        try:
            given = self._forms.courses

            def besides(machine: Interpreter) -> dict[str, Beside]:
                return {
                    unit: beside(
                        called[unit], unit, model, machine.units[unit],
                        ideal=ideal, courses=given, start=start, step=length,
                    )
                    for unit, model in models.items()
                }  # fmt: skip

            self._forms.beside.update(besides(self._forms))
            self._near = self._forms.beside if self._neighbour is None else besides(self._neighbour)
            names = {unit: self._forms.beside[unit].labels for unit in models}
            self.extended: Extended = extended(program, models, steps, names, called)
            self.reusable = all(Ability.ROLLBACK in model.abilities for model in models.values())
            """Whether it can begin more than once."""
            self._first = [machine.save() for machine in self._machines] if self.reusable else []
        except BaseException:
            self.close()
            raise
        self._accuracy = max((one.accuracy for one in self._forms.beside.values()), default=1e-15)
        self._time = start
        self.whole: Array = np.zeros((0, 0))
        """The matrix of the last step over all of the extended state."""
        self._sizes = {(unit, port.name): port.size for unit, model in models.items() for port in model.ports}

    @property
    def _machines(self) -> tuple[Interpreter, ...]:
        return (self._forms,) if self._neighbour is None else (self._forms, self._neighbour)

    def close(self) -> None:
        for machine in self._machines:
            machine.close()

    # ---------------------------------------------------------------- values

    def begin(self, states: Array | None = None) -> None:
        """At the start again, perhaps in other states, with everything exchanged."""
        for machine, token in zip(self._machines, self._first, strict=False):
            machine.restore(token)
        if states is not None:
            for units in (self._forms.beside, self._near):
                self._put_states(units, states)
        self._forms.active, self._time = False, self._start
        self._forms.write(self._program.now, self._start)
        self._forms.write(self._program.next, self._start)
        self._forms.execute("start")
        self._instant()

    def go(self, step: float, block: str | None = None) -> None:
        """One step."""
        self._forms.write(self._program.next, self._time + step)
        self._forms.execute(self._usual if block is None else block)
        self._time = float(self._forms.read(self._program.next))
        self._forms.write(self._program.now, self._time)
        self._instant()

    def _instant(self) -> None:
        if self._program.instant:
            self._forms.execute("instant")
        for machine in self._machines:
            machine.fired.clear()

    def values(self) -> Array:
        """The extended state."""
        own = [value for one in self._forms.beside.values() for value in one.values()]
        held = []
        for one in self.extended.inputs:
            origin, course = self._forms.courses[one.unit, one.port]
            cell = [c if isinstance(c, (int, float)) else c[one.cell] for c in course]
            held.append(_shifted(np.array(cell, dtype=float), self._time - origin, one.order))
        cells = [float(self._forms.read(cell)) for cell in self.extended.cells]
        return np.array([*own, *held, *cells])

    def put(self, values: Array) -> None:
        """Another extended state, here and at the neighbour."""
        courses: dict[tuple[str, str], dict[int, list[float]]] = {}
        count = len(self.extended.states)
        for number, held in enumerate(self.extended.inputs, count):
            rows = courses.setdefault((held.unit, held.port), {})
            rows.setdefault(held.order, []).append(float(values[number]))
        for near, machine in ((self._forms.beside, self._forms), (self._near, self._neighbour)):
            if machine is None:
                continue
            self._put_states(near, values)
            for (unit, port), rows in courses.items():
                size = self._sizes[unit, port]
                given: list[Signal] = [rows[k][0] if size is None else tuple(rows[k]) for k in sorted(rows)]
                machine.set_input(unit, port, *given)
                self._forms.courses[unit, port] = self._time, given
            for number, cell in enumerate(self.extended.cells, count + len(self.extended.inputs)):
                Interpreter.write(machine, cell, float(values[number]))

    def _put_states(self, units: Mapping[str, Beside], values: Array) -> None:
        first = 0
        for one in units.values():
            own = len(one.labels)
            one.put(values[first : first + own].tolist())
            first += own

    # ---------------------------------------------------------------- rows

    def induced(self, step: float, block: str | None = None) -> Induced:
        """One step, and its matrix."""
        at = self._time
        self._displace()
        self._seed()
        self._forms.active = True
        try:
            self.go(step, block)
        finally:
            self._forms.active = False
        self.whole = matrix = self._matrix()
        # What a step leaves as it is moves nowhere: a register that waits for an event, an input left alone.
        first = len(self.extended.states)
        kept = [i for i, row in enumerate(matrix) if i < first or row[i] != 1.0 or np.count_nonzero(row) > 1]
        names, ports = self.extended.names, self.extended.ports
        return Induced(
            matrix=matrix[np.ix_(kept, kept)],
            step=step,
            names=tuple(names[i] for i in kept),
            ports=tuple(ports[i] for i in kept),
            linear=self.linear,
            at=at,
            accuracy=self._accuracy,
            notes=self.notes,
        )

    def _displace(self) -> None:
        """Stand somewhere where every decision is that of a state which has nothing special about it."""
        near = self._forms if self._neighbour is None else self._neighbour
        far = 1.0 if self._neighbour is None else NEAR
        turn = np.random.default_rng(1)
        for one in self._near.values():
            values = np.array(one.values())
            one.put((values + far * _away(values, turn)).tolist())
        for cell in self.extended.cells:
            value = np.array([float(near.read(cell))])
            Interpreter.write(near, cell, float((value + far * _away(value, turn))[0]))

    def _seed(self) -> None:
        layout, forms = self.extended, self._forms
        identity = np.eye(layout.size)
        forms.rows.clear()
        first = 0
        for one in forms.beside.values():
            count = len(one.labels)
            one.begin(identity[first : first + count])
            first += count
        courses: dict[tuple[str, str], dict[int, list[Array]]] = {}
        for held in layout.inputs:
            courses.setdefault((held.unit, held.port), {}).setdefault(held.order, []).append(identity[first])
            first += 1
        for (unit, port), rows in courses.items():
            forms.beside[unit].give(port, self._time, [np.array(rows[order]) for order in sorted(rows)])
        for cell in layout.cells:
            forms.rows[cell] = identity[first]
            first += 1

    def _matrix(self) -> Array:
        layout, forms = self.extended, self._forms
        size = layout.size
        matrix = np.zeros((size, size))
        first = 0
        for one in forms.beside.values():
            count = len(one.labels)
            matrix[first : first + count] = one.states()
            first += count
        for held in layout.inputs:
            course = forms.beside[held.unit].course(held.port)
            if course is not None:
                origin, rows = course
                tau = self._time - origin
                for order in range(held.order, len(rows)):
                    part = rows[order]
                    if part is not None:
                        power = order - held.order
                        matrix[first] += comb(order, held.order) * tau**power * part[held.cell]
            first += 1
        for cell in layout.cells:
            if cell in forms.rows:
                matrix[first] = forms.rows[cell]
            first += 1
        return matrix


def _shifted(coefficients: Array, tau: float, order: int) -> float:
    """One coefficient of a polynomial around a point `tau` later."""
    return float(
        sum(comb(k, order) * tau ** (k - order) * coefficients[k] for k in range(order, len(coefficients)))
    )


def _away(values: Array, turn: np.random.Generator) -> Array:
    """A direction with nothing special about it, as long as the values are large."""
    sizes: Array = turn.uniform(0.5, 1.0, len(values)) * (1.0 + np.abs(values))
    return np.where(turn.uniform(size=len(values)) < 0.5, -sizes, sizes)
