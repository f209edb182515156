"""A run whose scenario changes its structure: one plan after the other, over one trace.

Each structure has an experiment and so a plan of its own, made once. Where an event leads to another
structure, its machine takes over: units that are in both go on with exactly the state they had, those that
appear are made, and the others are let go. What only the run knows (signals that are set by hand, parameters
that were given on the way) goes on with the units.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from upbeat.core.abilities import Ability, Model, NamedStates
from upbeat.core.errors import InvalidInput, ScenarioError, StepError, UnitError
from upbeat.core.names import matching, split
from upbeat.core.ports import Causality, Kind, Value
from upbeat.core.records import dataclass
from upbeat.engine.interpret import Interpreter
from upbeat.engine.machine import Machine
from upbeat.engine.packing import Contents, Packing
from upbeat.engine.plan import Plan
from upbeat.engine.selection import Selection, select
from upbeat.master.couplings.interruptible import COLUMN as LEADER
from upbeat.master.paces.pace import nominal_step
from upbeat.master.program import Leads, Program
from upbeat.scenario.directory import EVENTS
from upbeat.scenario.structures import COLUMN, Switch
from upbeat.trace.columns import Cells, Column
from upbeat.trace.recorder import Recorder
from upbeat.units.process import bare

if TYPE_CHECKING:
    from upbeat.engine.experiment import Experiment

MOST = 200
"""So many structures in less time than a step are more than anybody simulates."""
NO_STEP = 1e-9
"""Where a pace has no usual step, this part of the span is one."""


# ----------------------------------------------------------------------------------------------------
# Which columns a trace has whose structures have different ones.


@dataclass(frozen=True)
class Selections:
    """What is recorded of each structure, and of all together: `places` say where its columns are there, and
    `labels` which label there stands for each of its own, of columns (by place) where these are others."""

    whole: Selection
    parts: Mapping[str, Selection]
    places: Mapping[str, tuple[int, ...]]
    labels: Mapping[str, Mapping[int, tuple[int, ...]]]

    @classmethod
    def of(cls, structures: Mapping[str, Experiment], patterns: Sequence[str] | None) -> Selections:
        """What the patterns ask for, of each structure that has it."""
        programs = {name: part.plan.program for name, part in structures.items()}
        parts = {name: select(program, _there(program, patterns)) for name, program in programs.items()}
        for pattern in patterns or ():
            if all(pattern not in (_there(program, [pattern]) or ()) for program in programs.values()):
                select(next(iter(programs.values())), [pattern])  # which says what is wrong
        columns: dict[str, Column] = {}
        kinds: dict[str, Any] = {}
        for name, part in parts.items():
            for column in part.columns:
                known = columns.setdefault(column.name, column)
                columns[column.name] = together = _with_labels(known, column)
                if together != _with_labels(column, known, first=known):
                    raise InvalidInput(
                        f"'{column.name}' is something else in the structure '{name}' than in one before: "
                        "give it the same kind, unit of measure and labels everywhere, or another name"
                    )
            for kind in part.kinds:
                if kinds.setdefault(kind.name, kind) != kind:
                    raise InvalidInput(
                        f"the event '{kind.name}' carries something else in the structure '{name}' than in "
                        "one before: give it another name"
                    )
        ordered = [*columns.values(), Column(COLUMN, Kind.INTEGER, None, tuple(structures))]
        index = {column.name: place for place, column in enumerate(ordered)}
        places = {name: tuple(index[column.name] for column in part.columns) for name, part in parts.items()}
        labels = {
            name: {
                (at := index[column.name]): tuple(map(ordered[at].items.index, column.items))
                for column in part.columns
                if column.items != ordered[index[column.name]].items
            }
            for name, part in parts.items()
        }
        return cls(Selection(tuple(ordered), (), tuple(kinds.values())), parts, places, labels)


def _with_labels(column: Column, other: Column, first: Column | None = None) -> Column:
    """A column with the labels of another one as well, where it says which unit went first: there are others
    in each structure."""
    if column.name != LEADER or not (column.items and other.items):
        return column
    known = first or column
    return replace(column, items=tuple(dict.fromkeys((*known.items, *column.items, *other.items))))


def _there(program: Program, patterns: Sequence[str] | None) -> list[str] | None:
    """The patterns that match something of this program."""
    if patterns is None:
        return None
    known = [*program.columns, *program.events]
    return [pattern for pattern in patterns if matching(pattern, known)]


class Rows:
    """A recorder as one structure sees it: with its own columns, which it puts where they belong.

    What is absent is not a number; an integer, a truth value or a text, of which each is something, is zero,
    false or empty.
    """

    def __init__(self, recorder: Recorder, selections: Selections, structure: str) -> None:
        self._recorder = recorder
        self._places = selections.places[structure]
        self._labels = selections.labels[structure]
        columns = selections.whole.columns
        self._texts = [at for at in self._places if columns[at].kind is Kind.STRING]
        blank: list[Value] = [nan if c.kind is Kind.REAL else c.kind.zero for c in columns]
        blank[-1] = list(selections.parts).index(structure)
        self._blank = blank
        self._cells = np.zeros(1 + len(columns))
        for at, (column, value) in enumerate(zip(columns, blank, strict=True), 1):
            number = recorder.number(str(value)) if column.kind is Kind.STRING else value
            self._cells[at] = number if column.kind is Kind.REAL else _bits(int(number))
        self.every, self.jumps, self.chunk_rows = recorder.every, recorder.jumps, recorder.chunk_rows
        self.events = recorder.events
        self._begun = False

    def _wide(self, values: Sequence[Value]) -> list[Value]:
        row = self._blank.copy()
        for at, value in zip(self._places, values, strict=True):
            row[at] = value
        for at, labels in self._labels.items():
            row[at] = labels[int(row[at])]
        return row

    def _matrix(self, cells: Cells, strings: Sequence[str] | None) -> Cells:
        made = np.tile(self._cells, (len(cells), 1))
        made[:, 0] = cells[:, 0]
        made[:, [1 + at for at in self._places]] = cells[:, 1:]
        for at, labels in self._labels.items():
            column = np.ascontiguousarray(made[:, 1 + at]).view(np.int64)
            made[:, 1 + at] = np.array(labels, dtype=np.int64)[column].view(np.float64)
        if self._texts and strings is not None:
            numbers = np.array([self._recorder.number(text) for text in strings], dtype=np.int64)
            for at in self._texts:
                column = np.ascontiguousarray(made[:, 1 + at]).view(np.int64)
                made[:, 1 + at] = numbers[column].view(np.float64)
        return made

    def after(self, rows: int) -> None:
        self._begun = True
        self._recorder.after(rows)

    def row(self, time: float, values: Sequence[Value], left: Sequence[Value] | None = None) -> None:
        wide = time, self._wide(values), None if left is None else self._wide(left)
        if self._begun:
            self._recorder.row(*wide)
        else:  # the row with which a structure begins: kept, if it is not there already
            self._recorder.finish(*wide)
            self.after(1)

    def finish(self, time: float, values: Sequence[Value], left: Sequence[Value] | None = None) -> None:
        self._recorder.finish(time, self._wide(values), None if left is None else self._wide(left))

    def jump(self, time: float, left: Sequence[Value], right: Sequence[Value]) -> None:
        self._recorder.jump(time, self._wide(left), self._wide(right))

    def block(self, cells: Cells, strings: Sequence[str] | None = None) -> None:
        if len(cells):
            self._recorder.block(self._matrix(cells, strings))

    def leave_out(self, cells: Cells, strings: Sequence[str]) -> None:
        self._recorder.leave_out(self._matrix(cells, strings), self._recorder.events.strings)

    @property
    def takes_early(self) -> bool:
        return self._recorder.takes_early

    def save_rows(self, more: Cells | None = None) -> None:
        self._recorder.save_rows(None if more is None else self._matrix(more, None))


def _bits(number: int) -> float:
    value: float = struct.unpack("=d", struct.pack("=q", number))[0]
    return value


# ----------------------------------------------------------------------------------------------------
# Which structure there is, what has led there, and what has been conserved.


class StructureHistory:
    """The structures that a run has gone through. `known` is what `entries` gave, if it is resumed."""

    def __init__(self, experiment: Experiment, known: Iterable[Mapping[str, Any]] = ()) -> None:
        self._structures = experiment.structures
        self.selections = experiment.selections
        self._span = experiment.span
        self._shared = frozenset(event.name for event in experiment.scenario.events)
        begun = {"structure": next(iter(self._structures)), "from": experiment.span.start, "values": {}}
        self._entries: list[dict[str, Any]] = [dict(one) for one in known] or [begun]
        self._latest: deque[float] = deque(maxlen=MOST)
        self._check_engine()

    def _check_engine(self) -> None:
        """Units that cannot be turned into bytes go on as the objects they are, which only Python has."""
        engine = next(iter(self._structures.values())).choice.name
        unit = needs_objects(self._structures) if engine != "interpret" else None
        if unit is not None:
            raise InvalidInput(
                f"unit '{unit}' is there where the structure changes, and its state cannot be turned into "
                f"bytes: the {engine} engine cannot hand it over. Take the interpreter (--engine interpret), "
                "or leave the engine open"
            )

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What a trace says: structures with their times, the events between, and what was conserved."""
        return self._entries

    @property
    def name(self) -> str:
        """The structure that there is."""
        return str(self._entries[-1]["structure"])

    @property
    def part(self) -> Experiment:
        """Its experiment, with the values that were given on the way."""
        plain = self._structures[self.name]
        values = self._entries[-1]["values"]
        return plain.with_values(values) if values else plain

    @property
    def notes(self) -> list[str]:
        """The structures in sentences."""
        found = []
        for one in self._entries[1:]:
            found.append(
                f"structure '{one['structure']}' from t = {one['from']:.9g} on (event '{one['event']}')"
            )
        return [f"structure '{self._entries[0]['structure']}' at the start", *found]

    def rows(self, recorder: Recorder) -> Rows:
        """The recorder for the structure that there is."""
        return Rows(recorder, self.selections, self.name)

    def switched(self, machine: Machine, plan: Plan) -> bool:
        """Whether an event has ended the structure."""
        return bool(machine.read(_leads(plan).to))

    def go_on(self, machine: Machine, plan: Plan, t: float) -> Experiment:
        """The event that has ended a structure leads to the next, from the time `t` on: its experiment."""
        leads = _leads(plan)
        number = int(float(machine.read(leads.to))) - 1
        switch = leads.stage.switches[number]
        self._look_for_end(t, switch.event, switch.to)
        given: dict[str, Value] = {}
        for (name, kind, _), register in zip(switch.start, leads.starts[number], strict=True):
            value = float(machine.read(register))
            if not isfinite(value):
                raise self._wrong_start(switch, t, f"'{name}' would be {value:g}")
            given[name] = _as_kind(value, kind)
        after = self._structures[switch.to].plan
        staying = after.scenario.units.keys() & plan.scenario.units.keys()
        given |= lost_values(machine, plan, after)
        kept = {
            name: value for name, value in self._entries[-1]["values"].items() if split(name)[0] in staying
        }
        before = {name: [float(machine.read(cell)) for cell in cells] for name, cells in leads.last.items()}
        self._entries[-1]["until"] = t
        self._entries.append(
            {
                "structure": switch.to,
                "from": t,
                "event": switch.event,
                "values": {**kept, **given},
                "conserved": before,
            }
        )
        try:
            return self.part
        except ScenarioError as error:
            what = "; ".join(problem.what for problem in error.problems)
            raise self._wrong_start(switch, t, what) from error

    @staticmethod
    def _wrong_start(switch: Switch, t: float, what: str) -> StepError:
        return StepError(
            f"the event '{switch.event}' leads to '{switch.to}' at t = {t:.9g} with start values that no "
            f"unit can have: {what}. Look at its start"
        )

    def _look_for_end(self, t: float, event: str, to: str) -> None:
        self._latest.append(t)
        if len(self._latest) < MOST:
            return
        pace = self._structures[to].plan.master.pace
        usual = nominal_step(pace) or NO_STEP * (self._span.stop - self._span.start)
        if t - self._latest[0] < usual:
            names = " and ".join(dict.fromkeys(f"'{one['structure']}'" for one in self._entries[-4:]))
            raise StepError(
                f"structures follow each other without end at t = {t:.9g}: {names}, {MOST} of them in "
                f"{t - self._latest[0]:.3g} s, the last by the event '{event}'. What leads back must not "
                "hold where the other one begins: give the conditions a direction (and a.v < 0), or a "
                "hysteresis"
            )

    def check_conserved(self, machine: Machine, plan: Plan) -> None:
        """What both structures call conserved is the same in the one that has just begun."""
        entry, leads = self._entries[-1], _leads(plan)
        found = {}
        for one in leads.stage.conserved:
            if one.name not in entry["conserved"]:
                continue
            before, size_before = entry["conserved"][one.name]
            after, size = (float(machine.read(cell)) for cell in leads.first[one.name])
            found[one.name] = [before, after]
            allowed = one.tolerance * max(size, size_before)
            if not abs(after - before) <= allowed:
                raise StepError(
                    f"'{one.name}' is not conserved where the event '{entry['event']}' leads from "
                    f"'{self._entries[-2]['structure']}' to '{self.name}' at t = {entry['from']:.9g}: "
                    f"{before:.12g} before, {after:.12g} after, a difference of {abs(after - before):.3g} "
                    f"where {allowed:.3g} is allowed. Look at then and start of the event, or at the "
                    "formulas of the quantity in both structures; what is lost on purpose, leave out of one"
                )
        entry["conserved"] = found

    def take_over(
        self, before: tuple[Machine, Plan], made: tuple[Machine, Plan], *, living: Mapping[str, Any]
    ) -> None:
        """Let units of one machine go on in another."""
        carry(before, made, self._shared, living)

    def living(self, machine: Machine, plan: Plan) -> dict[str, Any]:
        """Units that go on as the objects they are: the machine lets go of them."""
        return released(machine, plan, self._structures[self.name].plan)


def released(machine: Machine, plan: Plan, after: Plan) -> dict[str, Any]:
    """Units that go on as the objects they are, in another plan: the machine lets go of them."""
    if not isinstance(machine, Interpreter):
        return {}
    return {
        unit: machine.release(unit)
        for unit, model in plan.scenario.units.items()
        if unit in after.scenario.units and Ability.SERIALISE not in model.abilities
    }


def needs_objects(structures: Mapping[str, Experiment]) -> str | None:
    """A unit because of which only the interpreter can run these structures, if there is one: its state
    cannot be turned into bytes, where units go on from one structure to another."""
    for part in structures.values():
        stage = part.scenario.stage
        for switch in stage.switches if stage is not None else ():
            if not part.scenario.units.keys().isdisjoint(structures[switch.to].scenario.units):
                for end in (part, structures[switch.to]):
                    for unit, model in end.plan.scenario.units.items():
                        if Ability.SERIALISE not in model.abilities:
                            return unit
    return None


def _leads(plan: Plan) -> Leads:
    leads = plan.program.leads
    assert leads is not None
    return leads


def _as_kind(value: Value, kind: Kind) -> Value:
    number = float(value)
    return number if kind is Kind.REAL else bool(number) if kind is Kind.BOOLEAN else round(number)


# ----------------------------------------------------------------------------------------------------
# States of units that go on.


class Living:
    """A model whose unit is there already, and goes on."""

    def __init__(self, model: Model, unit: Any) -> None:
        self._model, self._unit = model, unit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def instantiate(self, name: str, start: float) -> Any:
        """The unit that there is."""
        return self._unit


def carry(
    before: tuple[Machine, Plan],
    made: tuple[Machine, Plan],
    events: frozenset[str],
    living: Mapping[str, Any],
) -> None:
    """Units of one machine go on in another one, which has just been made, with their states.

    `events` are those between units that all structures have, and which stay armed or not; `living` units
    are in the new machine already.
    """
    (old, plan), (new, next_plan) = before, made
    units, others = next_plan.scenario.units, plan.scenario.units
    going = [unit for unit in units if unit in others and unit not in living]
    if any(getattr(units[unit], "initializes", False) for unit in going):
        new.execute("start")  # ends the initialization of units, after which they take states
        new.fired.clear()
    if not living and all(
        Ability.SERIALISE in model.abilities for model in (*units.values(), *others.values())
    ):
        _carry_all(before, made, going, events)
    elif going:
        assert isinstance(old, Interpreter)
        assert isinstance(new, Interpreter)
        for unit in going:
            source, target = old.units[unit], new.units[unit]
            state = source.to_bytes(source.save())
            fresh = target.to_bytes(target.save())
            moved = _moved(unit, (others[unit], state), (units[unit], fresh), events)
            target.restore(target.from_bytes(moved))
    _set_inputs(before, made, {*going, *living})


def _carry_all(
    before: tuple[Machine, Plan], made: tuple[Machine, Plan], going: Sequence[str], events: frozenset[str]
) -> None:
    (old, plan), (new, next_plan) = before, made
    units, others = next_plan.scenario.units, plan.scenario.units
    left = Packing(plan.program, others).read(old.pack(old.save()))
    packing = Packing(next_plan.program, units)
    fresh = packing.read(new.pack(new.save()))
    states = dict(zip(units, fresh.states, strict=True))
    there = dict(zip(others, left.states, strict=True))
    for unit in going:
        states[unit] = _moved(unit, (others[unit], there[unit]), (units[unit], states[unit]), events)
    body = packing.written(Contents(fresh.cells, fresh.clocks, list(states.values())))
    new.restore(new.unpack(body))


def _moved(unit: str, left: tuple[Model, bytes], fresh: tuple[Model, bytes], events: frozenset[str]) -> bytes:
    """The state of a unit that has just been made, with all that goes on from another one."""
    (old, state), (new, begun) = left, fresh
    if type(old) is not type(new):
        raise UnitError("it is something else in the next structure", unit=unit, call="restore()", time=nan)
    if not _named(new) or not _named(old):
        return state
    known = {name: value for name, value in zip(old.named_states(), _doubles(state), strict=True) if name}
    if unit == EVENTS:
        kept = {f"{word}_{event}" for word in ("armed", "last", "low", "turned") for event in events}
        known = {name: value for name, value in known.items() if name in kept}
    names = new.named_states()
    values = [known.get(name, value) for name, value in zip(names, _doubles(begun), strict=True)]
    return struct.pack(f"<{len(values)}d", *values)


def _doubles(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 8}d", data)


def lost_values(machine: Machine, plan: Plan, after: Plan) -> dict[str, Value]:
    """Parameters and variables that events have changed, and that no event changes in the next structure:
    there they are constants, and have to be given before."""
    wanted: dict[str, list[str]] = {}
    for unit, model in plan.scenario.units.items():
        other = after.scenario.units.get(unit)
        if unit == EVENTS or other is None or not _named(model) or not _named(other):
            continue
        there = {"", *other.named_states()}
        missing = [name for name in model.named_states() if name not in there and name.isidentifier()]
        if missing:
            wanted[unit] = missing
    states = _states(machine, plan, wanted) if wanted else {}
    lost: dict[str, Value] = {}
    for unit, names in wanted.items():
        known: Any = plan.scenario.units[unit]
        values = dict(zip(known.named_states(), _doubles(states[unit]), strict=True))
        kinds = {name: known.changeable[name].kind for name in names if name in known.changeable}
        lost |= {f"{unit}.{name}": _as_kind(values[name], kind) for name, kind in kinds.items()}
    return lost


def _named(model: Model) -> TypeGuard[NamedStates]:
    """Whether the numbers of its states have names."""
    return isinstance(model, NamedStates) and bare(model) is model


def _states(machine: Machine, plan: Plan, wanted: Iterable[str]) -> dict[str, bytes]:
    """The states of some units as bytes."""
    if isinstance(machine, Interpreter):
        return {name: unit.to_bytes(unit.save()) for name in wanted for unit in (machine.units[name],)}
    contents = Packing(plan.program, plan.scenario.units).read(machine.pack(machine.save()))
    return dict(zip(plan.scenario.units, contents.states, strict=True))


def _set_inputs(before: tuple[Machine, Plan], made: tuple[Machine, Plan], going: set[str]) -> None:
    """Inputs that nothing drives: what was set by hand stays, what was driven is at its start value."""
    (old, plan), (new, next_plan) = before, made
    free, was_free = next_plan.scenario.free_inputs, plan.scenario.free_inputs
    for name, (unit, port) in free.items():
        if unit not in going or port.event or port.causality is not Causality.INPUT:
            continue
        held = next_plan.program.columns.get(name)
        known = plan.program.columns.get(name)
        cells: Sequence[Value] = port.initial
        if name in was_free and known is not None:
            cells = [old.read(known.register + i) for i in range(port.cells)]
        new.set_input(unit, port.name, cells[0] if port.size is None else tuple(cells))
        if held is not None and not held.output:
            for i, cell in enumerate(cells):
                new.write(held.register + i, cell)
