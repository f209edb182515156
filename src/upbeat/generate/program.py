"""A program as C: the third reader of the tables that the native core runs (`upbeat.engine.native.lower`).

One struct holds everything: registers, units, what was saved. One function for each block, and the loop that
the core has in native/src/loop.cpp. Nothing is allocated, nothing is global. See `Translation` for what it is to
those who call it.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from upbeat.core.abilities import Ability, Model, Native
from upbeat.core.errors import InvalidInput, ModelError
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.native.entry import Inside
from upbeat.engine.native.lower import KINDS, Code, Tables, lower, slopes_asked
from upbeat.engine.nesting.model import nested_of
from upbeat.engine.plan import Plan
from upbeat.generate.printing import (
    Dialect,
    KernelPrinter,
    Names,
    Shared,
    array,
    block,
    comment,
    is_free,
    literal,
    quoted,
    without_remarks,
)
from upbeat.generate.units import (
    AnyType,
    DiscreteType,
    OdeType,
    PortPlace,
    discrete_key,
    function,
    slope_word,
    stored,
    unsettable,
    with_zeros,
)
from upbeat.master.program import Computation, Layout, Program
from upbeat.scenario.merging.inline import path_of
from upbeat.units import OdeTables
from upbeat.units.discrete.unit import DiscreteTables
from upbeat.units.equations.data import Numbers

_MANY = 8
"""So many units of one type lie in an array, and so many rows of one kind are a loop."""
_PERIOD = 6
"""Loops are looked for in which so many instructions come again and again."""
_EVEN: dict[int, tuple[int, ...]] = {Code.GET: (2, 4, 5), Code.SET: (2, 3, 4, 6), Code.ADVANCE: (5,)}
"""Of instructions that come in runs: the operands that must not differ."""
KIND_OF = {number: kind for kind, number in KINDS.items()}
"""The kinds by the numbers that the core gives them."""
CALLS = {
    Code.GET: 1, Code.GET_EVENT: 1, Code.SET: 2, Code.GATHER: 2, Code.ADVANCE: 3, Code.JUMP: 4, Code.SLOPE: 8,
    Code.DUE: 10,
}  # fmt: skip
"""The calls of a unit, by the instruction that makes them, as native/src/error.hpp numbers them."""


_LATEST = (
    "  m->late_times[m->late_steps % 8] = *reached;",
    "  m->late_why[m->late_steps++ % 8] = stop > 0 ? -stop : lands ? reason : INT32_MIN;",
)
External = Literal["none", "native", "all"]
"""Which units that cannot be printed may be attached: none, those that run without Python, all."""


@dataclass
class Entered:
    """A unit as it entered: its tables, or the scenario inside it; and the numbers that it starts with."""

    tables: OdeTables | DiscreteTables | None
    values: tuple[float, ...]
    inside: Inside | None = None
    units: Mapping[str, Entered] = field(default_factory=dict)
    """Of the scenario inside."""
    value_names: tuple[str, ...] = ()
    external: tuple[Port, ...] | None = None
    """The ports of a unit that is not printed, but attached by whoever runs the program."""


class PrintedCore:
    """The `Core` of `upbeat.core.abilities` to which models give their equations, to be printed."""

    def __init__(self, slopes: Sequence[tuple[str, str]]) -> None:
        self.slopes = slopes

    def ode(self, tables: OdeTables, values: Numbers) -> Entered:
        """A unit given by equations."""
        names = tables.compute.inputs[1:]  # time, and then these
        return Entered(tables, tuple(float(v) for part in values for v in part), value_names=names)

    def discrete(self, tables: DiscreteTables) -> Entered:
        """A discrete-event unit."""
        inputs = [name for _, port in tables.inputs for name in cell_names(port.name, port.size)]
        names = (*map(str, range(len(tables.start))), *inputs, *map(str, range(len(tables.parameters))))
        return Entered(tables, (*tables.start, *tables.input_start, *tables.parameters), value_names=names)

    def addresses(self, functions: Mapping[str, int], pointer: int) -> None:
        """Machine code that lies somewhere in this process cannot be printed."""

    def table(self, address: int) -> None:
        """Nor can this."""

    def nested(self, inside: Inside, start: float) -> Entered | Refused:
        """A scenario with a loop of its own."""
        units, refused = enter_all(inside.program, inside.models, start, inside.paths)
        if refused:
            return Refused(refused)
        values = tuple(v for one in units.values() for v in one.values)
        called = {unit: inside.paths.get(unit, unit) for unit in units}
        names = tuple(f"{called[unit]}.{own}" for unit, one in units.items() for own in one.value_names)
        return Entered(None, values, inside, units, names)


@dataclass
class Refused:
    """A nested scenario in which some units cannot be printed: their names, and what they are."""

    units: list[tuple[str, str]]


def enter_all(
    program: Program, models: Mapping[str, Model], start: float, called: Mapping[str, str]
) -> tuple[dict[str, Entered], list[tuple[str, str]]]:
    """Every unit as it enters; and those that cannot be printed, with what they are."""
    slopes = slopes_asked(program)
    found: dict[str, Entered] = {}
    refused: list[tuple[str, str]] = []
    for name, model in models.items():
        one: object = None
        if _prints(model):
            assert isinstance(model, Native)
            one = model.enter(PrintedCore(slopes.get(name, ())), name, start)
        path = called.get(name, name)
        if isinstance(one, Entered):
            found[name] = _named(one, model)
        elif isinstance(one, Refused):
            refused += [(f"{path}.{unit}", kind) for unit, kind in one.units]
        else:
            refused.append((path, _kind(model)))
    return found, refused


def entered(
    program: Program,
    models: Mapping[str, Model],
    start: float,
    called: Mapping[str, str],
    external: External = "none",
) -> dict[str, Entered]:
    """Every unit as it enters; `ModelError` names those that cannot be printed, and says what to do.

    Those that are `external` whoever runs the program will attach.
    """
    attached = {name: model for name, model in models.items() if _attachable(model, external)}
    rest = {name: model for name, model in models.items() if name not in attached}
    found, refused = enter_all(program, rest, start, called)
    if refused:
        names = [f"'{name}' ({kind})" for name, kind in refused]
        some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise ModelError(
            "only equations, discrete-event units and nested scenarios of such can be printed as C, but there is "
            f"{some}. Write them as equations (ode, function, discrete, machine …), or take another engine: "
            "--engine native."
        )
    return {
        name: found.get(name) or Entered(None, (), external=model.ports) for name, model in models.items()
    }


def _prints(model: Model) -> bool:
    """Whether it gives its equations when it enters. What else is native makes something as soon as it does."""
    return Ability.NATIVE in model.abilities and (hasattr(model, "lower") or nested_of(model) is not None)


def _whole(model: Model) -> bool:
    """Whether all of it prints, that inside a nested scenario, too."""
    nested = nested_of(model)
    inside = () if nested is None else nested.flat.scenario.units.values()
    return _prints(model) and all(map(_whole, inside))


def _attachable(model: Model, external: External) -> bool:
    """Whether it is called from the code. A nested scenario with a unit that is not printed is called as one."""
    if external == "none" or _whole(model):
        return False
    return external == "all" or Ability.NATIVE in model.abilities


def _named(one: Entered, model: Model) -> Entered:
    """With the names of the variables and parameters of a discrete-event unit, which its tables do not have."""
    own: Any = getattr(model, "discrete", model)
    if isinstance(one.tables, DiscreteTables) and hasattr(own, "variables"):
        variables = [variable.name for variable in own.variables]
        constants = [p for p in own.ports if p.causality is Causality.PARAMETER]
        parameters = [name for port in constants for name in cell_names(port.name, port.size)]
        count = len(one.tables.start)
        inputs = one.value_names[count : count + len(one.tables.input_start)]
        names = (*variables, *inputs, *parameters)
        if len(names) == len(one.values):
            return replace(one, value_names=names)
    return one


def _kind(model: Model) -> str:
    if not isinstance(model, Native) or Ability.NATIVE not in model.abilities:
        adapts = getattr(model, "adapts", None)
        return "Python" if adapts is None else f"adapted by {adapts[1]!r}, which runs in Python"
    return type(model).__name__


@dataclass(frozen=True)
class Part:
    """One program in a translation, that of a nested scenario or the outermost one: `name` is what its functions
    begin with, `inside` has those of its units that are scenarios themselves, by their numbers."""

    name: str
    program: Program
    models: Mapping[str, Model]
    tables: Tables
    units: tuple[Entered, ...]
    state_sizes: tuple[int, ...]
    """How many numbers the state of each unit is, packed."""
    paths: Mapping[str, str]
    inside: Mapping[int, Part]


@dataclass(frozen=True)
class Translation:
    """A program as C, and what one has to know to call it.

    `source` is a whole translation unit. `name` is what its functions begin with: `NAME_size`, `NAME_make` and so
    on, whose comments say what they do. `values` are the numbers that its units start with, in the order of the
    units: with others, the same code runs with other parameters and start values. If `whole`, they are part of
    the source (`NAME_values`).
    """

    name: str
    source: str
    part: Part
    values: tuple[float, ...]
    value_names: tuple[str, ...]
    """What each of these is: a state or variable at the start, an input at the start, or a parameter."""
    strings: tuple[str, ...]
    """The texts of string cells, by number."""
    most_events: int
    """No instant fires more than so many, as far as its loops tell."""


def translate(
    plan: Plan,
    start: float,
    *,
    name: str = "upbeat_run",
    whole: bool = True,
    rows: Mapping[tuple[str, str], int] | None = None,
    external: External = "none",
) -> Translation:
    """The plan as C; `ModelError` names what cannot be printed.

    `rows`: inputs (unit, port) that are set from outside with so many coefficients, where that is more than the
    program itself hands over. `external`: units that cannot be printed, all of them or those that run without
    Python, are called through tables of functions (upbeat/unit.h), which the caller attaches with `NAME_attach`.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or not is_free(name):
        raise InvalidInput(
            f"functions of C cannot begin with {name!r}, and a struct not be called so: choose another name"
        )
    called = {unit: path_of(plan.scenario, unit) for unit in plan.scenario.units}
    units = entered(plan.program, plan.scenario.units, start, called, external)
    numbers = {
        unit: (number, {port.name: place for place, port in enumerate(model.ports)})
        for number, (unit, model) in enumerate(plan.scenario.units.items())
    }
    given = {
        (numbers[unit][0], numbers[unit][1][port]): count for (unit, port), count in (rows or {}).items()
    }
    printer = Printer(Context(name=name), plan.program, plan.scenario.units, units, called, name, given)
    return printer.translation(whole)


class Telling:
    """How a program tells what happens: to the host that whoever runs it hands over, if there is one."""

    keeps_latest = True
    """Whether it is kept at which events steps have ended of late, for a message about chattering."""
    needs = "host"

    def members(self) -> list[str]:
        """What an instance keeps for it."""
        return ["upbeat_host *host;"]

    def begin(self) -> list[str]:
        """Of a new instance."""
        return ["m->host = 0;"]

    def before(self) -> list[str]:
        """Before what happens at an instant."""
        return ["if (m->host) host_before(m->host, c);"]

    def committed(self) -> list[str]:
        """The events since the last time belong to the time t."""
        return ["if (m->host) host_commit(m->host, t);"]

    def row(self) -> list[str]:
        """All is as it is at the time t."""
        return ["if (m->host) host_row(m->host, t, c, last);"]

    def cut(self) -> list[str]:
        """What has fired since the last commit has not happened."""
        return ["if (m->host) host_cut(m->host);"]

    def event(self, event: int, now: str, values: str, cells: int, failed: str) -> list[str]:
        """An event fires."""
        return [f"if (m->host && !host_event(m->host, {event}, {now}, {values}, {cells})) {failed}"]

    def step(self, body: Sequence[str]) -> list[str]:
        """A step stands; `body` tells a host of it."""
        return ["if (m->host) {", *block(body), "}"]


@dataclass
class Context:
    """What all programs of a translation share."""

    dialect: Dialect = field(default_factory=Dialect)
    types: dict[Any, PrintedType] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)
    name: str = "upbeat_run"
    nests: int = 0
    face: str = ""
    """What the functions that others call begin with; "static " where all is one file."""
    explains: bool = False
    """Whether it can be asked which unit failed."""
    telling: Telling = field(default_factory=Telling)

    def nest(self) -> str:
        """The name of a program inside."""
        self.nests += 1
        return f"{self.name}_nest{self.nests}"

    def __post_init__(self) -> None:
        dialect = self.dialect
        self.shared = Shared(single=dialect.single, quick=dialect.quick, lanes=dialect.lanes)
        self.shared.need(self.telling.needs)
        self.kernels = KernelPrinter(self.shared)


def values_of(plan: Plan, start: float, external: External = "none") -> tuple[float, ...]:
    """The numbers that the units of a plan start with."""
    units = entered(plan.program, plan.scenario.units, start, {}, external)
    return tuple(v for one in units.values() for v in one.values)


def over(tables: Tables, cells: str) -> str:
    """Whether the program is over before its limit, as C."""
    return "0" if tables.ends < 0 else f"{cells}[{tables.ends}].r != 0.0"


class Printer:
    """Prints one program. `rows`: how many coefficients inputs get from outside, by unit and port."""

    def __init__(
        self,
        context: Context,
        program: Program,
        models: Mapping[str, Model],
        units: Mapping[str, Entered],
        called: Mapping[str, str],
        name: str,
        rows: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        if program.pace is None:
            raise ModelError("this program does not say how far its steps go: it cannot be printed")
        if program.pace.calls:
            raise ModelError(
                f"the pace {type(program.pace.calls[0].pace).__name__} is written in Python, which cannot be printed "
                "as C: write it with blocks (see docs/extending.md, 'A pace'), or take another engine: "
                "--engine native."
            )
        self.name = name
        self.context = context
        self.program = program
        self.models = models
        self.layout: Layout = program.layout
        self.tables = lower(program, models)
        self.shared = context.shared
        self.kernels = context.kernels
        self.telling = context.telling
        self.units = units
        self.called = {unit: called.get(unit, unit) for unit in self.units}
        self.kinds = [KIND_OF[int(kind)] for kind in self.tables.kinds]
        self.code: list[list[int]] = self.tables.code.tolist()
        self.members = Names(
            [
                "c",
                "error",
                "host",
                "fired",
                "late_times",
                "late_why",
                "late_fired",
                "late_steps",
                "late_events",
                "last_event",
                "place",
            ]
        )
        self.given = self._most_rows(rows or {})
        self._known: dict[Any, PrintedType] = {}
        self.of_unit: list[PrintedType] = [
            self._type(number, unit, one) for number, (unit, one) in enumerate(self.units.items())
        ]
        self.places = self._arrays()
        self.groups = self._groups()
        self.saves = self._saves()
        self._in_loop: tuple[int, str] = (-1, "")

    # ------------------------------------------------------------ units

    def _most_rows(self, given: Mapping[tuple[int, int], int]) -> dict[int, dict[int, int]]:
        """How many coefficients each input gets, by unit and port, where it is more than one."""
        found: dict[int, dict[int, int]] = {}
        sets = [row[1:4] for row in self.code if row[0] in (Code.SET, Code.GATHER)]
        for unit, port, count in [*([*key, count] for key, count in given.items()), *sets]:
            if count > 1:
                own = found.setdefault(unit, {})
                own[port] = max(own.get(port, 1), count)
        return found

    def _type(self, number: int, unit: str, one: Entered) -> PrintedType:
        moving = tuple(sorted(self.given.get(number, {}).items()))
        if one.external is not None:
            self.shared.need("external")
            return ExternalType(one.external)
        tables = one.tables
        near = (id(one.inside if tables is None else tables), moving)
        if near in self._known:
            self._known[near].used_by.append(self.called[unit])
            return self._known[near]
        types = self.context.types
        key: Any
        if isinstance(tables, OdeTables):
            key = (with_zeros(tables), moving)
        elif isinstance(tables, DiscreteTables):
            key = (discrete_key(tables), moving)
        else:
            key = (id(one.inside), moving)
        if key not in types:
            if isinstance(tables, OdeTables):
                types[key] = OdeType(f"ode{len(types)}", tables, dict(moving), tables.slopes, self.kernels)
            elif isinstance(tables, DiscreteTables):
                types[key] = DiscreteType(f"discrete{len(types)}", tables, dict(moving), self.kernels)
            else:
                assert one.inside is not None
                name = self.context.nest()
                made = NestedType(self.context, one.inside, one, dict(moving), name)
                types[key] = made  # after those of its units, whose text comes before its own
        types[key].used_by.append(self.called[unit])
        self._known[near] = types[key]
        return types[key]

    def _arrays(self) -> dict[int, tuple[str, int]]:
        """Of units of which there are many of a type: the array that they lie in, and their place there."""
        counts = Counter(one.name for one in self.of_unit if isinstance(one, (OdeType, DiscreteType)))
        found: dict[int, tuple[str, int]] = {}
        used: Counter[str] = Counter()
        for number, one in enumerate(self.of_unit):
            if counts[one.name] >= _MANY:
                found[number] = (f"{one.name}s", used[one.name])
                used[one.name] += 1
        return found

    def _groups(self) -> list[tuple[int, int]]:
        """Units that lie in a row, one after the other: the first, and how many."""
        found: list[tuple[int, int]] = []
        for number in range(len(self.of_unit)):
            before = self.places.get(number - 1)
            if number in self.places and before is not None and before[0] == self.places[number][0]:
                first, count = found.pop()
                found.append((first, count + 1))
            else:
                found.append((number, 1))
        return found

    def member(self, number: int, more: str = "") -> str:
        """What a unit is called in the struct; of a group, that of the first unit and so many `more`."""
        if number in self.places:
            array, index = self.places[number]
            return f"{array}[{index}{f' + {more}' if more else ''}]"
        return self.members(self.called[self.tables.units[number]], key=number)

    def unit(self, number: int) -> str:
        """A pointer to a unit."""
        return self._in_loop[1] if number == self._in_loop[0] else f"&m->{self.member(number)}"

    def _each_group(self, statement: Callable[[int, str], str]) -> list[str]:
        """A statement for each unit, in loops over those that lie in a row."""
        lines = []
        for first, count in self.groups:
            if count == 1:
                lines.append(statement(first, self.member(first)))
            else:
                lines.append(f"for (int i = 0; i < {count}; ++i) {statement(first, self.member(first, 'i'))}")
        return lines

    def _by_unit(self, body: Callable[[int, str], str | None], rest: str) -> list[str]:
        """What is done for the unit with the number `unit`: texts that return."""
        cases, before = [], []
        for first, count in self.groups:
            text = body(first, self.member(first) if count == 1 else self.member(first, f"(unit - {first})"))
            if text is None:
                continue
            if count == 1:
                cases.append(f"  case {first}: {text}")
            else:
                before.append(f"if (unit >= {first} && unit < {first + count}) {{ {text} }}")
        return [*before, *(["switch (unit) {", *cases, "  default: break;", "}"] if cases else []), rest]

    def _declared(self, end: str) -> list[str]:
        """The members of a struct for all units, or for their states."""
        lines, done = [], set()
        for number, one in enumerate(self.of_unit):
            if number not in self.places:
                lines.append(f"{one.name}{end} {self.member(number)};")
            elif one.name not in done:
                done.add(one.name)
                count = sum(other is one for other in self.of_unit)
                lines.append(f"{one.name}{end} {one.name}s[{count}];")
        return lines

    def _saves(self) -> dict[int, list[int]]:
        """The rows that save, by slot."""
        found: dict[int, list[int]] = {}
        for i, row in enumerate(self.code):
            if row[0] == Code.SAVE:
                found.setdefault(row[1], []).append(i)
        return found

    # ------------------------------------------------------------ the whole

    def text(self) -> str:
        """Struct, blocks, loop and face of this program, without its units."""
        blocks = [self._block(name, number) for name, number in self.tables.blocks.items()]
        parts = [self._struct(), *blocks, self._loop(), self._face()]
        parts += [self._why()] if self.context.explains else []
        return "\n\n".join(parts).replace("@", self.name)

    @property
    def part(self) -> Part:
        """What one has to know of it."""
        return Part(
            self.name,
            self.program,
            self.models,
            self.tables,
            tuple(self.units.values()),
            tuple(one.state_size for one in self.of_unit),
            self.called,
            {i: one.printer.part for i, one in enumerate(self.of_unit) if isinstance(one, NestedType)},
        )

    def translation(self, whole: bool) -> Translation:
        """All of it; `whole`: with the numbers that units start with."""
        own = self.text()
        types = [one.text() for one in self.context.types.values()]
        values = tuple(v for one in self.units.values() for v in one.values)
        about = comment(
            f"Generated by Upbeat from a scenario with the units {', '.join(self.called.values())[:400]}. "
            "Needs the C library's math (-lm). Compile without contraction of products and sums "
            "(-ffp-contract=off) to get the same numbers everywhere."
        )
        parts = [about, self.shared.text(), *types, own]
        if whole:
            lines = [
                "/* the start values and parameters of all units */",
                f"const real {self.name}_values[] = {{",
            ]
            for unit, one in self.units.items():
                lines.append(f"  {comment(self.called[unit])}")
                lines += [f"  {', '.join(map(literal, one.values))}," if one.values else ""]
            parts.append("\n".join([*lines, "  0.0", "};"]))
        return Translation(
            self.name,
            self.context.dialect.spoken("\n\n".join(parts) + "\n"),
            self.part,
            values,
            tuple(
                f"{self.called[unit]}.{own}" for unit, one in self.units.items() for own in one.value_names
            ),
            tuple(self.context.strings),
            self.most_events(),
        )

    def most_events(self) -> int:
        """How many events an instant fires at most, by its loops; a bound for the room in the log."""

        def most(first: int, end: int) -> int:
            total, at = 0, first
            code = self.code
            while at < end:
                row = code[at]
                if row[0] == Code.FIRE:
                    total += 1
                elif row[0] == Code.BEGIN:
                    until = next(
                        i for i in range(at, end) if code[i][0] == Code.UNTIL and code[i][1] == row[1]
                    )
                    total += min(code[until][3], 1000) * most(at + 1, until)
                    at = until
                at += 1
            return total

        return sum(most(int(first), self._end(int(first))) for first in self.tables.entries)

    def _end(self, first: int) -> int:
        return next(i for i in range(first, len(self.code)) if self.code[i][0] == Code.END)

    def _struct(self) -> str:
        lines = [f"cell c[{max(1, len(self.kinds))}]; /* the registers */"]
        lines += self._declared("")
        for slot, rows in self.saves.items():
            lines.append(f"int32_t filled{slot}; /* by which row the slot was saved; -1: not yet */")
            for row in rows:
                _, _, at, units, cells, *_ = self.code[row]
                members = [
                    f"{self.of_unit[unit].name}_state u{unit}{f'[{count}]' if count > 1 else ''};"
                    for unit, count in self._in_rows(self._operands(at, units))
                ]
                if cells:
                    members.append(f"cell c[{cells}];")
                lines.append(f"struct {{ {' '.join(members) or 'char nothing;'} }} saved{row};")
        lines += [
            "upbeat_error error;",
            *self.telling.members(),
            "int64_t fired; /* events of the present time */",
        ]
        if self._latest:
            lines += [
                "real late_times[8]; /* at which events steps have ended of late, why, and what fired there */",
                "int32_t late_why[8], late_fired[8];",
                "int64_t late_steps, late_events;",
                "int32_t last_event;",
            ]
        kept = [f"cell c[{max(1, len(self.kinds))}];", *self._declared("_state")]
        if self._attached:
            kept.append("int32_t place; /* from 0 on: under which number attached units keep their states */")
        return "\n".join(
            [
                "/* One instance of the program: all the memory that it needs. */",
                "typedef struct @ {",
                *block(lines),
                "} @;",
                "",
                "/* What @_save keeps: registers and the states of units. */",
                "typedef struct @_saved {",
                *block(kept),
                "} @_saved;",
                "",
                "static int @_fails(@ *m, int32_t fault, int32_t row) {",
                "  m->error.fault = fault;",
                "  m->error.row = row;",
                "  return 1;",
                "}",
                "static inline int @_stuck(@ *m, int32_t fault, int32_t row, real start, real until, real reached) {",
                "  m->error.start = start;",
                "  m->error.until = until;",
                "  m->error.value = reached;",
                "  return @_fails(m, fault, row);",
                "}",
            ]
        )

    @property
    def _latest(self) -> bool:
        """Whether it is kept at which events steps have ended of late."""
        return self.tables.budget >= 0 and self.telling.keeps_latest

    @property
    def _attached(self) -> list[int]:
        return [number for number, one in enumerate(self.of_unit) if isinstance(one, ExternalType)]

    def _operands(self, at: int, count: int) -> list[int]:
        return [int(v) for v in self.tables.operands[at : at + count]]

    # ------------------------------------------------------------ blocks

    def _block(self, name: str, number: int) -> str:
        first = int(self.tables.entries[number])
        body = list(self._rows(first, self._end(first)))
        uses_error = any(", e)" in line or "(e," in line for line in body)
        head = ["cell *const c = m->c;"]
        if uses_error:
            head.append("upbeat_error *const e = &m->error;")
        if not body:
            head = []
        return function(f"int @_block{number}(@ *m)", [*head, *body, "return 0;"], f"the block '{name}'")

    def _about(self, row: int) -> str:
        origin = self.tables.origins[row]
        unit, port = getattr(origin, "unit", ""), getattr(origin, "port", "")
        name = self.called.get(unit, unit)
        return f" {comment(f'{name}.{port}' if port else name)}" if name else ""

    def _rows(self, at: int, end: int) -> Iterator[str]:
        code = self.code
        while at < end:
            row = code[at]
            period, count = self._alike(at, end)
            if count >= _MANY:
                yield from self._loop_over(at, period, count)
                at += period * count
                continue
            match row[0]:
                case Code.UNLESS:
                    target = row[2]
                    orelse: list[str] = []
                    after = target
                    if (
                        code[target - 1][0] == Code.GOTO
                        and self.tables.origins[target - 1] is self.tables.origins[at]
                    ):
                        after = code[target - 1][1]
                        orelse = list(self._rows(target, after))
                        then = list(self._rows(at + 1, target - 1))
                    else:
                        then = list(self._rows(at + 1, target))
                    lines = self._condition(row[1], lambda text: f"if ({text}) {{")
                    lines += [*block(then), *(["} else {", *block(orelse)] if orelse else []), "}"]
                    yield from self._closed(lines)
                    at = after
                    continue
                case Code.BEGIN:
                    until = next(
                        i for i in range(at, end) if code[i][0] == Code.UNTIL and code[i][1] == row[1]
                    )
                    yield from self._loop_rows(at, until)
                    at = until + 1
                    continue
                case _:
                    yield from self._row(at, row)
            at += 1

    def _alike(self, at: int, end: int) -> tuple[int, int]:
        """How many rows from here on do something to one unit, and how often that comes again for the next
        units in a row: all operands grow evenly."""
        if self.code[at][0] not in _EVEN or self.code[at][1] not in self.places:
            return 1, 1
        for period in range(1, _PERIOD + 1):
            if at + 2 * period > end:
                break
            counts = [self._evenly(at + k, period, end) for k in range(period)]
            if min(counts) >= _MANY:
                return period, min(counts)
        return 1, 1

    def _evenly(self, at: int, period: int, end: int) -> int:
        first, second = self.code[at], self.code[at + period]
        fixed, place = _EVEN.get(first[0]), self.places.get(first[1])
        steps = [b - a for a, b in zip(first, second, strict=True)]
        if fixed is None or place is None or steps[1] != 1 or any(steps[k] for k in (0, *fixed)):
            return 1
        array, index = place
        count = 1
        while at + count * period < end:
            row = self.code[at + count * period]
            grown = all(v == a + count * d for v, a, d in zip(row, first, steps, strict=True))
            if not grown or self.places.get(row[1]) != (array, index + count):
                break
            count += 1
        return count

    def _loop_over(self, at: int, period: int, count: int) -> list[str]:
        """Rows that come again and again, as a loop: operands that grow are texts with `i` in them."""
        lines = []
        for one in range(at, at + period):
            first, second = self.code[one], self.code[one + period]
            row: list[Any] = [
                a if a == b or k == 1 else f"{a} + i" if b == a + 1 else f"{a} + {b - a} * i"
                for k, (a, b) in enumerate(zip(first, second, strict=True))
            ]
            self._in_loop = (first[1], f"&m->{self.member(first[1], 'i')}")
            lines += self._row(one, row, f"{one} + {period} * i" if period > 1 else f"{one} + i")
        self._in_loop = (-1, "")
        last = comment(f"to {self.called[self.tables.units[self.code[at][1] + count - 1]]}")
        return [f"for (int32_t i = 0; i < {count}; ++i) {{ {last}", *block(lines), "}"]

    @staticmethod
    def _closed(lines: list[str]) -> list[str]:
        """Statements that declare something, in a scope of their own."""
        declares = any(line.startswith("const real ") for line in lines)
        return ["{", *block(lines), "}"] if declares else lines

    def _condition(self, number: int, store: Any) -> list[str]:
        kernel_number, source, _ = self.tables.expressions[number]
        kernel = self.tables.kernels[kernel_number]
        texts = [self._number(cell) for cell in source]
        return self.kernels.lines(kernel, texts, lambda _, text: store(text), test=True)

    def _number(self, cell: int) -> str:
        kind = self.kinds[cell]
        return f"c[{cell}].r" if kind is Kind.REAL else f"((real)c[{cell}].i)"

    def _loop_rows(self, begin: int, until: int) -> list[str]:
        _, _, condition, most, _, fails, *_ = self.code[until]
        end = f"return @_fails(m, FAULT_EXHAUSTED, {until});" if fails else "break;"
        test = self._condition(condition, lambda text: f"if ({text}) break;")
        return [
            "for (int32_t round = 1;; ++round) {",
            *block([*self._rows(begin + 1, until), *self._closed(test), f"if (round >= {most}) {end}"]),
            "}",
        ]

    def _row(self, at: int, row: list[Any], where: str = "") -> list[str]:
        about = self._about(at)
        where = where or str(at)
        refused = f"return @_fails(m, FAULT_REFUSED, {where});"
        match row[0]:
            case Code.GET:
                _, unit, port, to, cells, kind, *_ = row
                call, fails = self.of_unit[unit].get(self.unit(unit), port, f"c + {to}")
                lines = [f"if ({call}) {refused}{about}" if fails else f"{call};{about}"]
                if KIND_OF[kind] is Kind.REAL:
                    lines.append(self._checked(f"c + {to}", cells, cells, where))
                return lines
            case Code.SET:
                _, unit, port, count, cells, source, checked = row
                call = self.of_unit[unit].set(self.unit(unit), port, f"c + {source}", count)
                lines = [self._checked(f"c + {source}", count * cells, cells, where)] if checked else []
                return [*lines, f"if ({call}) {refused}{about}"]
            case Code.GATHER:
                _, unit, port, count, cells, first, *_ = row
                parts = [f"c[{at_ + i}]" for at_ in self._operands(first, count) for i in range(cells)]
                call = self.of_unit[unit].set(self.unit(unit), port, "gathered", count)
                return [
                    "{",
                    *block(
                        [
                            f"const cell gathered[] = {{{', '.join(parts)}}};",
                            self._checked("gathered", count * cells, cells, at),
                            f"if ({call}) {refused}{about}",
                        ]
                    ),
                    "}",
                ]
            case Code.COMPUTE:
                return self._compute(row[1])
            case Code.COPY:
                _, source, to, count, *_ = row
                if count == 1:
                    return [f"c[{to}] = c[{source}]; {comment(self.layout.name(to))}"]
                self.shared.need("copy")
                return [f"copy_cells(c + {to}, c + {source}, {count}); {comment(self.layout.name(to))}"]
            case Code.ADVANCE:
                return self._advanced(at, row, where)
            case Code.JUMP:
                _, unit, to, kind, *_ = row
                store = stored(f"c[{to}]", KIND_OF[kind], "again ? 1.0 : 0.0", self.shared)
                if not self._jumps(unit):
                    return [stored(f"c[{to}]", KIND_OF[kind], "0.0", self.shared)]
                call = f"{self.of_unit[unit].name}_jump({self.unit(unit)}, &again, e)"
                return ["{", "  int again = 0;", f"  if ({call}) {refused}{about}", f"  {store}", "}"]
            case Code.DUE:
                _, unit, to, *_ = row
                if not self._jumps(unit) and not isinstance(self.of_unit[unit], (NestedType, ExternalType)):
                    return [f"c[{to}].r = INFINITY;{about}"]
                call = f"{self.of_unit[unit].name}_due({self.unit(unit)}, &c[{to}].r, e)"
                return [
                    f"if ({call}) {refused}{about}",
                    *self._ends(f"c[{to}].r != c[{to}].r", "FAULT_NOT_FINITE", row=at),
                ]
            case Code.GET_EVENT:
                _, unit, port, to, cells, kind, *_ = row
                call, _ = self.of_unit[unit].get(self.unit(unit), port, f"c + {to}")
                lines = [f"if ({call}) {refused}{about}"]
                zero = f"for (int i = 0; i < {cells}; ++i) c[{to} + i].i = 0;"
                lines.append(f"if (c[{to + cells}].i == 0) {zero}")
                if KIND_OF[kind] is Kind.REAL:
                    lines.append(f"else {self._checked(f'c + {to}', cells, cells, at)}")
                return lines
            case Code.FIRE:
                _, event, source, cells, *_ = row
                name = list(self.tables.events)[event]
                values = f"c + {source}" if cells else "c"
                late = [f"m->last_event = {event};"] if self._latest else []
                now, full = f"c[{self.tables.now}].r", f"return @_fails(m, FAULT_LOG_FULL, {at});"
                told = self.telling.event(event, now, values, cells, full)
                return [f"++m->fired; {comment(name)}", *late, *told]
            case Code.SLOPE:
                _, unit, output, given, to, *_ = row
                if isinstance(self.of_unit[unit], ExternalType):
                    call = f"external_slope({self.unit(unit)}, {output}, {given}, c + {to}, e)"
                    return [f"if ({call}) {refused}{about}"]
                call = f"{self.of_unit[unit].name}_{slope_word(output, given)}({self.unit(unit)}, c + {to})"
                return [f"{call};{about}"]
            case Code.SAVE:
                return self._save_row(at, row)
            case Code.RESTORE:
                return self._restore_row(at, row)
        computation = self.tables.origins[at]
        assert isinstance(computation, Computation)
        return self._computation(computation)

    def _computation(self, computation: Computation, cells: str = "c") -> list[str]:
        """What computes registers from registers, in these cells."""
        name = self.shared.need(f"compute_{type(computation).__name__.lower()}")
        operands = [str(v) for v in computation.operands]
        if computation.listed:
            operands.append(self.shared.listed(computation.listed))
        shown = comment(" ".join(computation.shown(self.layout).split()))
        if computation.room:
            return [
                f"{{ {shown}",
                f"  real room[{computation.room}];",
                f"  {name}({cells}, {', '.join([*operands, 'room'])});",
                "}",
            ]
        return [f"{name}({cells}, {', '.join(operands)}); {shown}"]

    def _jumps(self, unit: int) -> bool:
        one = self.of_unit[unit]
        return isinstance(one, (DiscreteType, ExternalType)) or (isinstance(one, OdeType) and one.hybrid)

    def _checked(self, source: str, count: int, width: int, row: int | str) -> str:
        self.shared.need("numbers")
        if count == 1 and source.startswith("c + "):
            cell = f"c[{source[4:]}].r"
            return (
                f"if (!finite_number({cell})) "
                f"{{ are_numbers({source}, 1, 1, &m->error); return @_fails(m, FAULT_NOT_FINITE, {row}); }}"
            )
        return (
            f"if (!are_numbers({source}, {count}, {width}, &m->error)) "
            f"return @_fails(m, FAULT_NOT_FINITE, {row});"
        )

    def _ends(
        self, condition: str, fault: str, *told: tuple[str, str], row: int = -1, else_with: str = ""
    ) -> list[str]:
        """Where a run ends with a fault. Who goes on all the same does so `else_with`."""
        details = [f"  m->error.{member} = {value};" for member, value in told]
        return [f"if ({condition}) {{", *details, f"  return @_fails(m, {fault}, {row});", "}"]

    def _compute(self, number: int) -> list[str]:
        kernel_number, source, to = self.tables.expressions[number]
        kernel = self.tables.kernels[kernel_number]
        head, texts = {}, []
        for i, cell in enumerate(source):
            if cell in to and len(to) > 1:  # it is written before all who read it have
                head[f"was{i}"] = f"{self._number(cell)}; {comment(self.layout.name(cell))}"
                texts.append(f"was{i}")
            else:
                texts.append(self._number(cell))

        def store(i: int, text: str) -> str:
            about = comment(self.layout.name(to[i]))
            return f"{stored(f'c[{to[i]}]', self.kinds[to[i]], text, self.shared)} {about}"

        lines = self.kernels.lines(kernel, texts, store)
        read = set(re.findall(r"\bwas\d+\b", "\n".join(map(without_remarks, lines))))
        kept = [f"const real {name} = {value}" for name, value in head.items() if name in read]
        return self._closed([*kept, *lines])

    def _advanced(self, at: int, row: list[Any], where: str) -> list[str]:
        _, unit, start, until, reached, early, *_ = row
        about = self._about(at)
        one = self.of_unit[unit]
        if not one.early:
            call, _ = one.advance(self.unit(unit), f"c[{start}].r", f"c[{until}].r", bool(early), "")
            ends = f"c[{start}].r, c[{until}].r, c[{until}].r"
            lines = [f"if ({call}) return @_stuck(m, FAULT_REFUSED, {where}, {ends});{about}"]
            return [*lines, f"c[{reached}].r = c[{until}].r;"] if reached != until else lines
        call, _ = one.advance(self.unit(unit), "start", "until", bool(early), "reached")
        short = "reached != until" + (" && !(start <= reached && reached <= until)" if early else "")
        body = [
            f"const real start = c[{start}].r, until = c[{until}].r;",
            "real reached = until;",
            f"const int status = {call};{about}",
            f"c[{reached}].r = reached;",
            f"if (status) return @_stuck(m, FAULT_REFUSED, {where}, start, until, reached);",
            f"if ({short}) return @_stuck(m, FAULT_NOT_REACHED, {where}, start, until, reached);",
            f"({self.unit(unit)})->clock = reached;",
        ]
        return ["{", *block(body), "}"]

    def _save_row(self, at: int, row: list[int]) -> list[str]:
        _, slot, first, units, cells, *_ = row
        lines = self._rolled("save", self._operands(first, units), str(slot), str(at))
        for unit, count in self._in_rows(self._operands(first, units)):
            if count == 1:
                lines.append(self._kept(unit, self.member(unit), f"m->saved{at}.u{unit}"))
            else:
                kept = self._kept(unit, self.member(unit, "i"), f"m->saved{at}.u{unit}[i]")
                lines.append(f"for (int i = 0; i < {count}; ++i) {kept}")
        lines += self._moved(self._operands(first + units, cells), f"m->saved{at}.c", save=True)
        return [*lines, f"m->filled{slot} = {at};"]

    def _kept(self, unit: int, member: str, place: str) -> str:
        """Keep the state of a unit at a place."""
        one = self.of_unit[unit]
        if isinstance(one, NestedType):
            return f"{one.name}_save(&m->{member}, &{place});"
        if isinstance(one, ExternalType):
            return f"{place}.clock = m->{member}.clock;"
        return f"{place} = m->{member}.s;"

    def _rolled(self, what: str, units: Sequence[int], slot: str, where: str) -> list[str]:
        """Have the units that are attached save their states under a number, or set them back."""
        return [
            f"if (external_{what}({self.unit(unit)}, {slot}, &m->error)) return @_fails(m, FAULT_REFUSED, {where});"
            for unit in units
            if isinstance(self.of_unit[unit], ExternalType)
        ]

    def _in_rows(self, units: Sequence[int]) -> list[tuple[int, int]]:
        """Those that lie in a row together: the first, and how many."""
        found: list[tuple[int, int]] = []
        for unit in units:
            first, count = found[-1] if found else (-1, 0)
            together = unit in self.places and first in self.places and unit == first + count
            if together and self.places[unit] == (self.places[first][0], self.places[first][1] + count):
                found[-1] = (first, count + 1)
            else:
                found.append((unit, 1))
        return found

    def _moved(self, cells: Sequence[int], place: str, *, save: bool) -> list[str]:
        """Copy cells to or from a place where they lie in a row: runs of neighbours at once."""
        lines, k = [], 0
        while k < len(cells):
            count = 1
            while k + count < len(cells) and cells[k + count] == cells[k] + count:
                count += 1
            here, there = f"c + {cells[k]}", f"{place} + {k}"
            if count == 1:
                pair = (f"{place}[{k}]", f"c[{cells[k]}]")
                lines.append("{} = {};".format(*(pair if save else pair[::-1])))
            else:
                self.shared.need("copy")
                to, source = (there, here) if save else (here, there)
                lines.append(f"copy_cells({to}, {source}, {count});")
            k += count
        return lines

    def _restore_row(self, at: int, row: list[int]) -> list[str]:
        slot = row[1]
        rows = self.saves.get(slot, [])
        lines = []
        for k, save in enumerate(rows):
            _, _, first, units, cells, *_ = self.code[save]
            body = self._rolled("back", self._operands(first, units), str(slot), str(at))
            for unit, count in self._in_rows(self._operands(first, units)):
                name, place = self.of_unit[unit].name, f"&m->saved{save}.u{unit}"
                if count == 1:
                    body.append(f"{name}_restore(&m->{self.member(unit)}, {place});")
                else:
                    member = self.member(unit, "i")
                    body.append(
                        f"for (int i = 0; i < {count}; ++i) {name}_restore(&m->{member}, {place}[i]);"
                    )
            body += self._moved(self._operands(first + units, cells), f"m->saved{save}.c", save=False)
            lines += [f"{'} else ' if k else ''}if (m->filled{slot} == {save}) {{", *block(body)]
        failed = f"return @_fails(m, FAULT_EMPTY_SLOT, {at});"
        return [*lines, "} else {", f"  {failed}", "}"] if rows else [failed]

    # ------------------------------------------------------------ the loop

    def _loop(self) -> str:
        tables = self.tables
        pace = tables.pace
        assert pace is not None
        (limit, until, wanted, reason, again, fired), numbers, steps, reasons = pace
        propose, review, note, _, keep, back = numbers
        now, following = f"c[{tables.now}].r", f"c[{tables.next}].r"
        parts = []
        commit = ["cell *const c = m->c;", f"{now} = t;"]
        if tables.instant_block >= 0:
            commit += self.telling.before()
            commit.append(f"if (@_block{tables.instant_block}(m)) return 1;")
        commit += self.telling.committed()
        if self._latest:
            commit.append("if (m->fired > 0) m->late_fired[m->late_events++ % 8] = m->last_event;")
        if note >= 0:
            commit += [f"c[{fired}].r = (real)m->fired;", f"if (@_block{note}(m)) return 1;"]
        if tables.ends >= 0:
            commit.append(f"last = last || {over(tables, 'c')};")
        commit += ["m->fired = 0;", *self.telling.row(), "return 0;"]
        parts.append(
            function(
                "int @_commit(@ *m, real t, int last)",
                commit,
                "the time t stands: what happens at that instant",
            )
        )
        given = [
            f"const real number = c[{reason}].r;",
            "return number >= 0.0 && number < 2147483647.0 ? (int32_t)number : 0;",
        ]
        parts.append(
            function("int32_t @_reason(const cell *c)", given, "the number that the pace gives its reason")
        )
        landed = [i for i, (_, _, lands) in enumerate(reasons) if lands]
        telling = [i for i, (at, of, _) in enumerate(reasons) if at or of]
        switch = [f"  case {i}: block = @_block{number}(m); break;" for i, number in enumerate(steps)]
        numbers_of = ", ".join(str(number) for number in steps)
        step = [
            "cell *const c = m->c;",
            "const real whole = limit;",
            f"const real due = {f'c[{tables.due}].r' if tables.due >= 0 else 'limit'};",
            "const int event = due < limit;",
            "if (event) limit = due;",
            f"c[{limit}].r = limit;",
            f"if (@_block{propose}(m)) return 1;",
            *([f"if (@_block{keep}(m)) return 1;"] if keep >= 0 else []),
            "int64_t rejected = 0;",
            "real until;",
            "int32_t which;",
            "for (;;) {",
            f"  until = c[{until}].r;",
            *block(
                self._ends(
                    "!(t < until && until <= limit)",
                    "FAULT_BAD_STEP",
                    ("time", "t"),
                    ("until", "until"),
                    ("value", "limit"),
                    else_with="until = limit;",
                )
            ),
            f"  const real wanted = c[{wanted}].r;",
            f"  which = wanted >= 0.0 && wanted < {literal(float(len(steps)))} ? (int32_t)wanted : 0;",
            f"  {following} = until;",
        ]
        if len(steps) == 1:
            step.append(f"  if (@_block{steps[0]}(m)) return 1;")
        else:
            step += [
                "  int block = 0;",
                "  switch (which) {",
                *block(switch),
                "  }",
                "  if (block) return 1;",
            ]
        step.append(f"  *reached = {following};")
        if review >= 0:
            step += [
                f"  if (@_block{review}(m)) return 1;",
                f"  if (c[{again}].r == 0.0) break;",
                "  if (++rejected > 100) {",
                "    m->error.time = t;",
                "    return @_fails(m, FAULT_REJECTED, -1);",
                "  }",
                *([f"  if (@_block{back}(m)) return 1;"] if back >= 0 else []),
                *block(self.telling.cut()),
                "  m->fired = 0;",
            ]
        else:
            step.append("  break;")
        stop = f"*reached < until ? (int32_t)c[{tables.stops}].r : 0" if tables.stops >= 0 else "0"
        step += [
            "}",
            f"const int32_t stop = {stop};",
            "const int known = event && *reached == due;",
            *self._ends("!(*reached > t) && m->fired == 0", "FAULT_NO_PROGRESS", ("time", "t")),
        ]
        lands = " || ".join(f"reason == {i}" for i in landed) or "0"
        step.append("const int32_t reason = @_reason(c);")
        if tables.budget >= 0:
            early = "*reached < until" if tables.stops < 0 else "stop > 0"
            step += [
                f"const int lands = {lands};",
                f"const int ends = !known && ({early} || lands);",
                f"const real passed = *reached - t, rate = c[{tables.budget + 1}].r;",
                "const real earned = rate > 0.0 ? passed * rate : 10.0 * (passed / (whole - t));",
                f"const real left = 2000.0 < c[{tables.budget}].r + earned ? 2000.0 : c[{tables.budget}].r + earned;",
                f"c[{tables.budget}].r = ends ? left - 1.0 : left;",
                "if (ends) {",
                *(_LATEST if self._latest else ()),
                *block(self._ends(f"c[{tables.budget}].r < 0.0", "FAULT_CHATTERING", ("time", "*reached"))),
                "}",
            ]
        else:
            step.append("(void)whole;")
        told = [
            f"static const int32_t blocks[] = {{{numbers_of}}};",
            "const int32_t why = known ? INT32_MIN : stop > 0 ? -stop : reason;",
        ]
        if telling:
            told += [
                "real numbers[4] = {0.0, 0.0, 0.0, 0.0};",
                "if (why >= 0) {",
                f"  numbers[0] = c[{reason}].r;",
            ]
            for i in telling:
                at, of, _ = reasons[i]
                parts_ = ([f"numbers[1] = c[{reason + 1}].r;"] if at else []) + [
                    f"numbers[{2 + k}] = c[{reason + 2 + k}].r;" for k in range(of)
                ]
                told.append(f"  if (why == {i}) {{ {' '.join(parts_)} }}")
            told += ["}", "host_step(m->host, t, *reached, why, numbers, blocks[which], rejected);"]
        else:
            told.append("host_step(m->host, t, *reached, why, 0, blocks[which], rejected);")
        step += [*self.telling.step(told), "return 0;"]
        parts.append(
            function(
                "int @_step(@ *m, real t, real limit, real *reached)",
                step,
                "one step from t, as often as it takes until the program accepts it",
            )
        )
        return "\n\n".join(parts)

    # ------------------------------------------------------------ what others call

    def _make(self, scope: str) -> str:
        tables = self.tables
        cells = np.asarray(tables.start, np.int64)
        begin = ["cell *const c = m->c;"]
        texts = []
        for i, kind in enumerate(self.kinds):
            if kind is Kind.REAL:
                texts.append(f".r = {literal(struct.unpack('=d', struct.pack('=q', int(cells[i])))[0])};")
                continue
            number = int(cells[i])
            if kind is Kind.STRING:
                text = self.tables.strings[number]
                number = self.context.strings.setdefault(text, len(self.context.strings))
            texts.append(f".i = {number};")
        i = 0
        while i < len(texts):
            count = next((k for k in range(1, len(texts) - i) if texts[i + k] != texts[i]), len(texts) - i)
            if count < _MANY:
                begin.append(f"c[{i}]{texts[i]} {comment(self.layout.name(i))}")
                i += 1
                continue
            named = comment(f"{self.layout.name(i)} to {self.layout.name(i + count - 1)}")
            begin.append(f"for (int i = {i}; i < {i + count}; ++i) c[i]{texts[i]} {named}")
            i += count
        begin += [f"c[{tables.now}].r = c[{tables.next}].r = t;"]
        at, firsts = 0, []
        for one in self.of_unit:
            firsts.append(at)
            at += one.values
        counts = dict(self.groups)
        begin += self._each_group(
            lambda number, member: (
                f"{self.of_unit[number].name}_begin(&m->{member}, t, values + {firsts[number]}"
                f"{f' + {self.of_unit[number].values} * i' if counts[number] > 1 else ''});"
            )
        )
        begin += [f"m->filled{slot} = -1;" for slot in self.saves]
        begin += [
            *self.telling.begin(),
            "m->fired = 0;",
            "m->error.fault = m->error.row = m->error.cell = m->error.code = 0;",
        ]
        if self._latest:
            begin.append("m->late_steps = m->late_events = m->last_event = 0;")
        about = (
            "an instance at the start time, with the start values and parameters of all units; needs no end"
        )
        return function("void @_make(@ *m, real t, const real *values)", begin, about, scope=scope)

    def _face(self) -> str:
        tables = self.tables
        counts = dict(self.groups)
        parts: list[str] = []

        def face(head: str, body: Sequence[str], about: str) -> None:
            parts.append(function(head, body, about, scope=self.context.face))

        face("int64_t @_size(void)", ["return (int64_t)sizeof(@);"], "how many bytes an instance takes")
        face("int64_t @_saved_size(void)", ["return (int64_t)sizeof(@_saved);"], "and what @_save keeps")
        parts.append(self._make(self.context.face))
        start = [f"m->c[{tables.pace[0][0]}].r = limit;" if tables.pace else ""]
        start.append("m->host = host;")
        if tables.start_block >= 0:
            start.append(f"if (@_block{tables.start_block}(m)) return 1;")
        start.append(f"return @_commit(m, m->c[{tables.now}].r, 0);")
        face(
            "int @_begin(@ *m, upbeat_host *host, real limit)",
            start,
            "everything that happens at the start time of a run to a limit (INFINITY: not known); 1: see @_error",
        )
        ended = "" if tables.ends < 0 else f" || {over(tables, 'm->c')}"
        face(
            "int @_run(@ *m, upbeat_host *host, real limit, int64_t steps, real pause)",
            [
                "m->host = host;",
                f"real *const now = &m->c[{tables.now}].r;",
                "for (;;) {",
                f"  if (*now >= limit{ended}) return 0;",
                "  if (host && host_room(host) <= 0) return 1;",
                "  if (steps-- <= 0 || *now >= pause) return 2;",
                "  if (host && host->stop) return 4;",
                "  real reached = *now;",
                "  if (@_step(m, *now, limit, &reached) || @_commit(m, reached, reached >= limit)) {",
                "    if (host) host_cut(host);",
                "    m->fired = 0;",
                "    return 3;",
                "  }",
                "}",
            ],
            "go on to the limit (0), until the host's memory is full (1), for so many steps or to the pause (2), or "
            "until asked to stop (4). 3: it failed, see @_error",
        )
        assert tables.pace is not None
        changed, fired, until = tables.pace[1][3], tables.pace[0][5], tables.pace[0][1]
        refresh = [f"if (@_block{tables.blocks['exchange']}(m)) return 1;"]
        if tables.instant_block >= 0:
            refresh.append(f"if (@_block{tables.instant_block}(m)) return 1;")
        if changed >= 0:
            refresh += [f"m->c[{fired}].r = (real)m->fired;", f"if (@_block{changed}(m)) return 1;"]
        face(
            "int @_refresh(@ *m)",
            [*refresh, "m->fired = 0;", "return 0;"],
            "after @_set: everybody sees the new inputs, and what follows from them at this time happens",
        )
        stop = "1" if tables.stops < 0 else f"(int32_t)m->c[{tables.stops}].r > 0"
        going = "" if tables.ends < 0 else f" && !({over(tables, 'm->c')})"
        face(
            "int @_follow(@ *m, real to, int early, real *reached)",
            [
                f"real *const now = &m->c[{tables.now}].r;",
                f"while (*now < to{going}) {{",
                "  real at = *now;",
                "  const int failed = @_step(m, *now, to, &at);",
                f"  const real until = m->c[{until}].r;",
                "  if (failed || @_commit(m, at, 0)) {",
                "    m->fired = 0;",
                "    *reached = *now;",
                "    return 1;",
                "  }",
                f"  if (early && at < until && {stop}) break;",
                "}",
                "*reached = *now;",
                "return 0;",
            ],
            "on to a time, as somebody's unit, or to where the program ends; early: or to where a unit inside has ended a step",
        )
        names = list(tables.blocks)
        cases = [f"  case {i}: return @_block{i}(m); {comment(name)}" for i, name in enumerate(names)]
        face(
            "int @_execute(@ *m, upbeat_host *host, int32_t block)",
            ["m->host = host;", "switch (block) {", *cases, "  default: return 1;", "}"],
            "one block by itself, for who drives a program by hand",
        )
        face("cell *@_cells(@ *m)", ["return m->c;"], "the registers; @_make tells their names")
        face("upbeat_error *@_error(@ *m)", ["return &m->error;"], "why it stopped")

        def given(number: int, member: str) -> str | None:
            one = self.of_unit[number]
            if not one.settable:
                return None
            calls = [
                f"case {port.number}: return {one.set(f'&m->{member}', port.number, 'from', 'count')}; "
                f"{comment(port.name)}"
                for port in one.settable
            ]
            end = "default: break; } break;" if counts[number] == 1 else "default: break; }"
            head = f"switch (port) {{ {comment(self.called[tables.units[number]])}"
            return "\n    ".join([head, *calls, end])

        lines = ["upbeat_error *const e = &m->error;"]
        lines += self._by_unit(given, "return refuse(e, SAYS_NO_PORT, (real)port, 0.0, 0.0);")
        face(
            "int @_set(@ *m, int32_t unit, int32_t port, const cell *from, int32_t count)",
            lines,
            "an input or parameter from outside: count coefficients of all cells; then the block 'exchange'",
        )

        def clock(number: int, member: str) -> str:
            one = self.of_unit[number]
            own = "clock" if one.early else "s.a[0]" if isinstance(one, DiscreteType) else "s.time"
            return f"return m->{member}.{own};"

        face(
            "real @_clock(const @ *m, int32_t unit)",
            self._by_unit(clock, f"return m->c[{tables.now}].r;"),
            "a unit's own time",
        )

        def worked(number: int, member: str) -> str | None:
            one = self.of_unit[number]
            return (
                f"return m->{member}.counts;" if isinstance(one, OdeType) and (one.n or one.hybrid) else None
            )

        face(
            "const int64_t *@_counts(const @ *m, int32_t unit)",
            self._by_unit(worked, "return 0;"),
            "how hard its solver has worked: steps, rejected ones, stops, evaluations; null: it has none",
        )
        size = max(1, len(self.kinds))
        own = self._attached
        save = self._rolled("save", own, f"{tables.slots} + to->place", "-1")
        save.append(f"for (int i = 0; i < {size}; ++i) to->c[i] = m->c[i];")
        save += self._each_group(lambda number, member: self._kept(number, member, f"to->{member}"))
        face("int @_save(@ *m, @_saved *to)", [*save, "return 0;"], "keep registers and units")
        restore = self._rolled("back", own, f"{tables.slots} + from->place", "-1")
        restore.append(f"for (int i = 0; i < {size}; ++i) m->c[i] = from->c[i];")
        restore += self._each_group(
            lambda number, member: f"{self.of_unit[number].name}_restore(&m->{member}, &from->{member});"
        )
        face(
            "int @_restore(@ *m, const @_saved *from)",
            [*restore, "return 0;"],
            "set them back, any number of times",
        )
        if own:
            face(
                "void @_keep_at(@_saved *to, int32_t place)",
                ["to->place = place;"],
                "before @_save: a number from 0 on, under which attached units keep their states",
            )
            attach = [f"  case {number}: m->{self.member(number)}.unit = table; return;" for number in own]
            face(
                "void @_attach(@ *m, int32_t unit, const upbeat_unit *table)",
                ["switch (unit) {", *attach, "  default: return;", "}"],
                "the functions of a unit that is not printed: after @_make, before anything else",
            )

        def packed(number: int, member: str) -> str | None:
            one = self.of_unit[number]
            return (
                None
                if isinstance(one, (NestedType, ExternalType))
                else f"{one.name}_pack(&from->{member}, to); return;"
            )

        face(
            "void @_pack(const @_saved *from, int32_t unit, real *to)",
            self._by_unit(packed, "return;"),
            "the kept state of a unit as numbers, as its model in Python has them",
        )

        def unpacked(number: int, member: str) -> str | None:
            one = self.of_unit[number]
            return (
                None
                if isinstance(one, (NestedType, ExternalType))
                else f"return {one.name}_unpack(&to->{member}, from, e);"
            )

        face(
            "int @_unpack(@ *m, @_saved *to, int32_t unit, const real *from)",
            ["upbeat_error *const e = &m->error;", *self._by_unit(unpacked, "return 1;")],
            "and back",
        )
        nests = [i for i, one in enumerate(self.of_unit) if isinstance(one, NestedType)]
        begun = [
            f"if ({self.of_unit[i].name}_start({self.unit(i)}, e)) "
            f"return @_stuck(m, FAULT_REFUSED, -1, {literal(float(i))}, 7.0, 0.0);"
            for i in nests
        ]
        face(
            "int @_begin_units(@ *m)",
            [*(["upbeat_error *const e = &m->error;"] if nests else []), *begun, "return 0;"],
            "what happens at the start time inside units that are scenarios themselves: after @_make",
        )
        inner = [f"  case {i}: return &({self.unit(i)})->m;" for i in nests]
        face(
            "void *@_inside(@ *m, int32_t unit)",
            ["switch (unit) {", *inner, "  default: return 0;", "}"],
            "the program inside a unit that is a scenario itself",
        )
        kept = [
            f"  case {i}: *stale = &from->{self.member(i)}.stale; return &from->{self.member(i)}.m;"
            for i in nests
        ]
        face(
            "void *@_saved_inside(@_saved *from, int32_t unit, int32_t **stale)",
            ["switch (unit) {", *kept, "  default: *stale = 0; return 0;", "}"],
            "what was saved of it, and whether an input had changed that nobody inside had seen",
        )
        face(
            "void @_told(upbeat_host *host)",
            ["host_hand_over(host);"],
            "before the host reads its steps: the run of equal steps that goes on is among them",
        )
        if tables.budget >= 0:
            late = [
                "for (int i = 0; i < 8; ++i) {",
                "  times[i] = m->late_times[i];",
                "  numbers[i] = m->late_why[i];",
                "  numbers[8 + i] = m->late_fired[i];",
                "}",
                "numbers[16] = (int32_t)(m->late_steps & 0x7fffffff);",
                "numbers[17] = (int32_t)(m->late_events & 0x7fffffff);",
            ]
        else:
            late = ["numbers[16] = numbers[17] = 0;"]
        face(
            "void @_latest(const @ *m, real *times, int32_t *numbers)",
            late,
            "of chattering: when steps have ended at events, why, what fired, and how often both, of which the last 8 are kept",
        )
        return "\n\n".join(parts)

    def _why(self) -> str:
        """Which unit an error comes from, however deep inside."""
        units = [row[1] if row[0] in CALLS else -1 for row in self.code]
        names = [self.called[unit] for unit in self.tables.units]
        nests = [i for i, one in enumerate(self.of_unit) if isinstance(one, NestedType)]
        cases = [
            f"  case {i}: return {one.printer.name}_why(&({self.unit(i)})->m, unit);"
            for i in nests
            if isinstance(one := self.of_unit[i], NestedType)
        ]
        body = [
            "static const int32_t units[] = {",
            *block(array([*units, -1])),
            "};",
            "static const char *const names[] = {",
            *block([f"{quoted(name)}," for name in [*names, ""]]),
            "};",
            "const upbeat_error *const e = &m->error;",
            "const int32_t number = e->row >= 0 ? units[e->row] : e->fault == FAULT_REFUSED ? (int32_t)e->start : -1;",
            f"if (number < 0 || number >= {len(names)}) return e;",
            "*unit = names[number];",
            "if (e->fault != FAULT_REFUSED || e->code != SAYS_INSIDE) return e;",
            *(["switch (number) {", *cases, "  default: break;", "}"] if cases else []),
            "return e;",
        ]
        return function(
            "const upbeat_error *@_why(@ *m, const char **unit)", body, "what failed, and in which unit"
        )


# ----------------------------------------------------------------------------------------------------
# A scenario as a unit: the twin of native/src/nested.cpp.


class NestedType:
    """A nested scenario as C: its program, and around it what the outer program calls."""

    early = True
    state_size = 0
    hybrid = False

    def __init__(
        self, context: Context, inside: Inside, one: Entered, rows: Mapping[int, int], name: str
    ) -> None:
        """`rows`: how many coefficients inputs get, by port."""
        self.name = name
        self.used_by: list[str] = []
        self.inside = inside
        self.ports = inside.ports
        numbers = {unit: number for number, unit in enumerate(inside.models)}
        self.places = inside.places(numbers)
        given = {
            (self.places[port][0], self.places[port][1]): count
            for port, count in rows.items()
            if self.places[port][0] >= 0
        }
        inner = f"{name}_program"
        self.printer = Printer(context, inside.program, inside.models, one.units, inside.paths, inner, given)
        self.values = len(one.values)
        self.words = Names(ends=True)
        self.length = math.inf
        """How long the run will be, if that is known."""

    @property
    def settable(self) -> tuple[Any, ...]:
        return tuple(
            PortPlace(i, port.name, port.kind, 0, port.cells)
            for i, port in enumerate(self.ports)
            if self.places[i][0] >= 0
        )

    @property
    def _limit(self) -> str:
        """Where the run ends, as far as that is known at its start."""
        now = f"u->m.c[{self.printer.tables.now}].r"
        return "INFINITY" if math.isinf(self.length) else f"{now} + {literal(self.length)}"

    @property
    def _taken(self) -> list[str]:
        """Where a step takes new inputs by itself, nothing is exchanged before it."""
        return ["u->stale = 0;"] if self.inside.program.takes_inputs else []

    def word(self, number: int) -> str:
        return self.words(self.ports[number].name, key=number)

    def get(self, unit: str, number: int, to: str) -> tuple[str, bool]:
        """The call that reads an output, and whether it can fail."""
        return f"{self.name}_get_{self.word(number)}({unit}, {to}, e)", True

    def set(self, unit: str, number: int, source: str, count: int | str) -> str:
        """The call that sets an input; it is 0 if that went well."""
        if self.places[number][0] < 0:
            return unsettable(number)
        return f"{self.name}_set_{self.word(number)}({unit}, {source}, {count}, e)"

    def advance(self, unit: str, start: str, until: str, early: bool, reached: str) -> tuple[str, bool]:
        """The call that advances, and whether it may end before."""
        return f"{self.name}_advance({unit}, {until}, {int(early)}, &{reached}, e)", True

    def text(self) -> str:
        T, inner, tables = self.name, self.printer.name, self.printer.tables
        failed = "refuse(e, SAYS_INSIDE, 0.0, 0.0, 0.0)"
        about = comment(f"the scenario inside {', '.join(self.used_by[:6])}")
        structs = "\n".join(
            [
                about,
                f"typedef struct {{ {inner}_saved m; int32_t stale; }} {T}_state;",
                f"typedef struct {{ {inner} m; int32_t stale; real clock; }} {T};",
            ]
        )
        refresh = [
            "if (!u->stale) return 0;",
            "u->stale = 0;",
            f"return {inner}_refresh(&u->m) ? {failed} : 0;",
        ]
        parts = [
            self.printer.text(),
            structs,
            function(
                f"void {T}_begin({T} *u, real t, const real *v)",
                [f"{inner}_make(&u->m, t, v);", "u->stale = 0;", "u->clock = t;"],
            ),
            function(
                f"int {T}_start({T} *u, upbeat_error *e)",
                [
                    f"if ({inner}_begin_units(&u->m) || {inner}_begin(&u->m, 0, {self._limit})) return {failed};",
                    "return 0;",
                ],
                "everything that happens inside at the start time",
            ),
            function(
                f"int {T}_refresh({T} *u, upbeat_error *e)",
                refresh,
                "an input was set: everybody inside sees it, and what follows from that happens",
            ),
        ]
        self.printer.shared.need("copy")
        for number, port in enumerate(self.ports):
            unit, place, cells = self.places[number]
            if unit >= 0:
                member = self.printer.member(unit)
                call = self.printer.of_unit[unit].set(f"&u->m.{member}", place, "from", "count")
                body = ["u->stale = 1;", "upbeat_error *const outer = e;", "e = &u->m.error;"]
                body += [
                    f"if ({call}) {{ e->fault = FAULT_REFUSED; e->row = -1; e->cell = {place}; "
                    f"e->start = {literal(float(unit))}; e->until = 2.0; return {failed.replace('(e,', '(outer,')}; }}",
                    "return 0;",
                ]
                head = f"int {T}_set_{self.word(number)}({T} *u, const cell *from, int32_t count, upbeat_error *e)"
                parts.append(function(head, body, f"the input {port.name}"))
            elif port.causality is Causality.OUTPUT:
                parts.append(
                    function(
                        f"int {T}_get_{self.word(number)}({T} *u, cell *to, upbeat_error *e)",
                        [
                            f"if ({T}_refresh(u, e)) return 1;",
                            f"copy_cells(to, u->m.c + {place}, {cells});",
                            "return 0;",
                        ],
                        f"the output {port.name}",
                    )
                )
        parts += [
            function(
                f"int {T}_advance({T} *u, real to, int early, real *reached, upbeat_error *e)",
                [
                    *self._taken,
                    f"if ({T}_refresh(u, e)) return 1;",
                    f"return {inner}_follow(&u->m, to, early, reached) ? {failed} : 0;",
                ],
            ),
            function(
                f"int {T}_due({T} *u, real *time, upbeat_error *e)",
                [
                    f"if ({T}_refresh(u, e)) return 1;",
                    f"*time = {f'u->m.c[{tables.due}].r' if tables.due >= 0 else 'INFINITY'};",
                    "return 0;",
                ],
            ),
            function(
                f"void {T}_save({T} *u, {T}_state *s)",
                [f"{inner}_save(&u->m, &s->m);", "s->stale = u->stale;"],
            ),
            function(
                f"void {T}_restore({T} *u, const {T}_state *s)",
                [
                    f"{inner}_restore(&u->m, &s->m);",
                    "u->stale = s->stale;",
                    f"u->clock = s->m.c[{tables.now}].r;",
                ],
            ),
        ]
        return "\n\n".join(parts)


class ExternalType:
    """A unit that is not printed: it is called through the table that whoever runs the program attaches."""

    name = "external"
    early = True
    values = 0
    state_size = 0

    def __init__(self, ports: Sequence[Port]) -> None:
        self.used_by: list[str] = []
        self.settable = tuple(
            PortPlace(i, port.name, port.kind, 0, port.cells)
            for i, port in enumerate(ports)
            if port.causality is not Causality.OUTPUT
        )

    def text(self) -> str:
        """Nothing of its own: runtime.c has it."""
        return ""

    def get(self, unit: str, number: int, to: str) -> tuple[str, bool]:
        """The call that reads an output, and whether it can fail."""
        return f"external_get({unit}, {number}, {to}, e)", True

    def set(self, unit: str, number: int, source: str, count: int | str) -> str:
        """The call that sets an input; it is 0 if that went well."""
        return f"external_set({unit}, {number}, {source}, {count}, e)"

    def advance(self, unit: str, start: str, until: str, early: bool, reached: str) -> tuple[str, bool]:
        """The call that advances, and whether it may end before."""
        return f"external_advance({unit}, {start}, {until}, {int(early)}, &{reached}, e)", True


PrintedType = AnyType | NestedType | ExternalType
