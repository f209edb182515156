"""Units as C: of each kind of unit a struct, and the functions that a program calls.

Units whose equations are the same share them (a *type*): what differs between them is numbers, which are handed
over when a program starts. A type has `T_state`, what rollback keeps, and `T`, which has more around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upbeat.core.expr import Kernel
from upbeat.core.ports import Kind, Port
from upbeat.engine.native.lower import KINDS
from upbeat.generate.printing import KernelPrinter, Names, Shared, block, comment, literal
from upbeat.units import MAX_DEGREE, OdeTables
from upbeat.units.discrete.unit import Assigning, DiscreteTables, Piece
from upbeat.units.equations.hybrid import MAX_EVENTS
from upbeat.units.equations.lowered import ADAPTIVE, BY_TIME, PortTable, SolverTable

ROWS = MAX_DEGREE + 1
"""The most coefficients of a course."""
_CHEAP = 12
"""Outputs of so few operations are computed where they are asked for; of others the values are kept."""


@dataclass(frozen=True)
class PortPlace:
    """A port: its number among all of the model, its name, kind, first cell among its like, and cells."""

    number: int
    name: str
    kind: Kind
    first: int
    cells: int

    @classmethod
    def of(cls, ports: Sequence[PortTable] | Sequence[tuple[int, Port]]) -> tuple[PortPlace, ...]:
        """The places of ports in a row."""
        found, first = [], 0
        for port in ports:
            if isinstance(port, PortTable):
                found.append(cls(port.port, port.name, port.kind, first, port.cells))
            else:
                number, one = port
                found.append(cls(number, one.name, one.kind, first, one.cells))
            first += found[-1].cells
        return tuple(found)


def number_of(cell: str, kind: Kind) -> str:
    """How expressions see a cell."""
    return f"{cell}.r" if kind is Kind.REAL else f"(real){cell}.i"


def stored(cell: str, kind: Kind, value: str, shared: Shared) -> str:
    """The statement by which a cell takes what an expression has computed."""
    if kind is Kind.REAL:
        return f"{cell}.r = {value};"
    if kind is Kind.BOOLEAN:
        return f"{cell}.i = ({value}) != 0.0;"
    return f"{cell}.i = {shared.need('to_integer')}({value});"


ROUGH = 1e-5
"""What a solver can keep at best in single precision."""


def kept_tolerances(solver: SolverTable, single: bool) -> tuple[float, float]:
    """The tolerances of a solver with step-size control, relative and absolute."""
    return (max(solver.rtol, ROUGH), max(solver.atol, 0.1 * ROUGH)) if single else (solver.rtol, solver.atol)


def slope_word(output: int, given: int) -> str:
    """What the function is called that differentiates an output by an input, or by the time."""
    return f"slope_{output}_{'time' if given == BY_TIME else given}"


def unsettable(number: int) -> str:
    """The call that sets a port which nobody sets: a parameter that is written into the code."""
    return f"refuse(e, SAYS_NO_PORT, {literal(float(number))}, 0.0, 0.0)"


@dataclass
class Course:
    """An input as the state holds it: a value, or a polynomial where the program hands over such."""

    port: PortPlace
    word: str
    rows: int
    quick: bool = False
    """Whether all coefficients count, those beyond the last one being 0."""

    @property
    def moves(self) -> bool:
        return self.rows > 1

    def member(self) -> str:
        about = comment(f"the input {self.port.name}")
        cells = self.port.cells
        if not self.moves:
            return f"real {self.word}[{cells}]; {about}"
        return f"struct {{ real origin; int32_t count; real c[{self.rows * cells}]; }} {self.word}; {about}"

    def begin(self, values: str) -> list[str]:
        """From the start values."""
        of = f"u->s.{self.word}"
        if not self.moves:
            return [f"for (int i = 0; i < {self.port.cells}; ++i) {of}[i] = {values}[i];"]
        return [
            f"{of}.origin = t;",
            f"{of}.count = 1;",
            f"for (int i = 0; i < {self.rows * self.port.cells}; ++i) {of}.c[i] = 0.0;",
            f"for (int i = 0; i < {self.port.cells}; ++i) {of}.c[i] = {values}[i];",
        ]

    def value(self, cell: int, time: str, shared: Shared) -> str:
        """One of its cells at a time."""
        of = f"u->s.{self.word}"
        if not self.moves:
            return f"{of}[{cell}]"
        shared.need("horner")
        count = self.rows if self.quick else f"{of}.count"
        return f"horner({of}.c + {cell}, {count}, {self.port.cells}, {time} - {of}.origin)"

    def lanes(self) -> list[str]:
        """The same of several units, lane by lane."""
        rows = f"real {self.word}[{self.rows * self.port.cells}][LANES];"
        if not self.moves:
            return [rows]
        return [rows, f"real {self.word}_origin[LANES];", f"int32_t {self.word}_count[LANES];"]

    def into_lane(self) -> list[str]:
        """The statements that copy it from `one` to lane `l` of `u`."""
        own, of = self.word, f"one->s.{self.word}"
        cells = self.rows * self.port.cells
        copied = f"for (int i = 0; i < {cells}; ++i) u->{own}[i][l] = {of}{'.c' if self.moves else ''}[i];"
        if not self.moves:
            return [copied]
        return [copied, f"u->{own}_origin[l] = {of}.origin;", f"u->{own}_count[l] = {of}.count;"]

    def in_lane(self, cell: int, time: str) -> str:
        """One of its cells at a time, in lane `l`: what `horner` computes, whatever the number of coefficients."""
        own, cells = f"u->{self.word}", self.port.cells
        text = f"{own}[{(self.rows - 1) * cells + cell}][l]"
        for k in reversed(range(self.rows - 1)):
            one = f"{own}[{k * cells + cell}][l]"
            more = f"{text} * ({time} - {own}_origin[l]) + {one}"
            text = f"({own}_count[l] > {k + 1} ? {more} : {one})"
        return text

    def take(self, time: str) -> list[str]:
        """The body of the function that sets it: `from`, `count`."""
        of, cells = f"u->s.{self.word}", self.port.cells
        rows = self.rows if self.port.kind is Kind.REAL else 1
        head = [
            f"if (count < 1 || count > {rows}) "
            f"return refuse(e, SAYS_COEFFICIENTS, (real)count, (real){rows}, 0.0);"
        ]
        source = number_of("from[i]", self.port.kind)
        if not self.moves:
            return [*head, f"for (int i = 0; i < {cells}; ++i) {of}[i] = {source};"]
        return [
            *head,
            f"{of}.origin = {time};",
            f"{of}.count = count;",
            f"for (int i = 0; i < count * {cells}; ++i) {of}.c[i] = {source};",
            *(
                [f"for (int i = count * {cells}; i < {self.rows * cells}; ++i) {of}.c[i] = 0.0;"]
                if self.quick
                else []
            ),
        ]

    def packed(self) -> list[str]:
        """Write it to `to`, as upbeat.units.inputs does."""
        cells = self.port.cells
        if not self.moves:
            return [
                "*to++ = s->time;",
                "*to++ = 1.0;",
                f"for (int i = 0; i < {ROWS * cells}; ++i) *to++ = i < {cells} ? s->{self.word}[i] : 0.0;",
            ]
        of = f"s->{self.word}"
        return [
            f"*to++ = {of}.origin;",
            f"*to++ = (real){of}.count;",
            f"for (int i = 0; i < {ROWS * cells}; ++i) *to++ = i < {of}.count * {cells} ? {of}.c[i] : 0.0;",
        ]

    def unpacked(self) -> list[str]:
        """Read it from `from`; what has more coefficients than there is room for is refused."""
        cells = self.port.cells
        of = f"s->{self.word}"
        head = [
            f"if (from[1] > {literal(float(self.rows))}) "
            f"return refuse(e, SAYS_COEFFICIENTS, from[1], (real){self.rows}, 0.0);"
        ]
        if not self.moves:
            body = [f"for (int i = 0; i < {cells}; ++i) {of}[i] = from[2 + i];"]
        else:
            body = [
                f"{of}.origin = from[0];",
                f"{of}.count = (int32_t)from[1];",
                f"for (int i = 0; i < {self.rows * cells}; ++i) {of}.c[i] = from[2 + i];",
            ]
        return [*head, *body, f"from += {2 + ROWS * cells};"]


def function(head: str, body: Sequence[str], about: str = "", *, scope: str = "static ") -> str:
    """The text of a function; compilers are told of the parameters that it does not look at."""
    inside = "\n".join(body)
    given = [
        words[-1] for words in map(_WORDS.findall, head[head.index("(") :].split(",")) if words != ["void"]
    ]
    unused = [f"(void){word};" for word in given if not re.search(rf"\b{word}\b", inside)]
    lines = [comment(about)] if about else []
    return "\n".join([*lines, f"{scope}{head} {{", *block([*unused, *body]), "}"])


_WORDS = re.compile(r"\w+")


# ----------------------------------------------------------------------------------------------------
# Equations, with or without events: the twin of native/src/ode.cpp, solver.cpp and hybrid.cpp.


def with_zeros(tables: OdeTables) -> OdeTables:
    """The same without its numbers: equal for units that can share their code."""
    return replace(
        tables,
        start=(0.0,) * len(tables.start),
        parameters=(0.0,) * len(tables.parameters),
        inputs=tuple(replace(port, start=()) for port in tables.inputs),
    )


@dataclass
class OdeType:
    """Equations as C. `rows`: how many coefficients each input may get."""

    name: str
    tables: OdeTables
    rows: Mapping[int, int]
    slopes: tuple[tuple[int, int, Kernel], ...]
    kernels: KernelPrinter
    used_by: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tables = self.tables
        self.n = len(tables.start)
        self.inputs = PortPlace.of(tables.inputs)
        self.outputs = PortPlace.of(tables.outputs)
        self.tunable = PortPlace.of(tables.tunable)
        self.heard = PortPlace.of(tables.heard)
        self.sent = PortPlace.of(tables.sent)
        self.adaptive = tables.solver.code == ADAPTIVE
        names = Names()
        self.courses = tuple(
            Course(port, names(f"in_{port.name}"), self.rows.get(port.number, 1), self.shared.quick)
            for port in self.inputs
        )
        self.plain = all(port.kind is Kind.REAL for port in self.outputs)
        self.direct = self.plain and len(tables.compute.code) <= _CHEAP
        self.hybrid = tables.reactions is not None
        self.early = self.hybrid
        solver, others = tables.solver, tables.others
        self.in_lanes = bool(
            self.shared.lanes
            and self.n
            and not (others or self.adaptive or solver.step > 0.0)
            and not (tables.reactions is not None and self.plan.watched)
        )
        """Whether several can be solved in step: as many steps for all, and nothing to look for on the way."""
        self.words = Names(ends=True)

    @property
    def shared(self) -> Shared:
        return self.kernels.shared

    @property
    def plan(self) -> Any:
        assert self.tables.reactions is not None
        return self.tables.reactions

    # ------------------------------------------------------------ the numbers that each unit has of its own

    @property
    def values(self) -> int:
        """How many numbers a unit is started with: states, inputs, parameters."""
        return self.n + sum(port.cells for port in self.inputs) + len(self.tables.parameters)

    @property
    def state_size(self) -> int:
        return self.tables.state_size

    # ------------------------------------------------------------ the text

    def text(self) -> str:
        parts = [self._structs(), self._begin()]
        if self.n and self.tables.derivatives is not None:
            parts.append(self._rates())
        parts += self._getters()
        parts += [self._slope(*slope) for slope in self.slopes]
        if self.hybrid:
            parts += self._events()
        parts += self._advance()
        if self.in_lanes:
            parts += self._lanes(self.tables.solver)
        parts += self._setters()
        parts += [self._restore(), self._pack(), self._unpack()]
        return "\n\n".join(parts)

    def _structs(self) -> str:
        T, n = self.name, self.n
        state = ["real time;"]
        if n:
            state.append(f"real x[{n}]; {comment(', '.join(self.tables.states))}")
        if self.adaptive:
            state.append("real h; /* the solver's step to try next */")
        state += [course.member() for course in self.courses]
        if self.hybrid:
            state.append(
                f"real events[{max(1, self.plan.extra)}]; /* what events change, which are armed, which are due, "
                "what was heard, what waits to be sent */"
            )
        more = [f"{T}_state s;"]
        if self.tables.parameters:
            more.append(f"real p[{len(self.tables.parameters)}]; {comment(', '.join(self._constants))}")
        if not self.direct:
            more += [
                f"real y[{self._cells}]; {comment(', '.join(p.name for p in self.outputs))}",
                "int current;",
            ]
        if self.hybrid:
            more += ["int fresh;", "real clock;"]
        if self.n or self.hybrid:
            more.append("int64_t counts[4]; /* solver steps, rejected ones, stops, evaluations */")
        if self.in_lanes:
            more.append(f"real known, after[{n}]; /* where a lane has solved to, and the states there */")
        about = comment(f"equations of {', '.join(self.used_by[:6])}{' …' if len(self.used_by) > 6 else ''}")
        return "\n".join(
            [
                about,
                "typedef struct {",
                *block(state),
                f"}} {T}_state;",
                "typedef struct {",
                *block(more),
                f"}} {T};",
            ]
        )

    @property
    def _cells(self) -> int:
        return max(1, sum(port.cells for port in self.outputs))

    @property
    def _constants(self) -> Sequence[str]:
        return self.tables.compute.inputs[1 + self.n + sum(port.cells for port in self.inputs) :]

    def _begin(self) -> str:
        T = self.name
        body = ["u->s.time = t;"]
        at = 0
        if self.n:
            body.append(f"for (int j = 0; j < {self.n}; ++j) u->s.x[j] = v[j];")
            at = self.n
        if self.adaptive:
            body.append("u->s.h = 0.0;")
        for course in self.courses:
            body += course.begin(f"(v + {at})")
            at += course.port.cells
        count = len(self.tables.parameters)
        if count:
            body.append(f"for (int i = 0; i < {count}; ++i) u->p[i] = v[{at} + i];")
        if not self.direct:
            body.append("u->current = 0;")
        if self.hybrid:
            body += ["u->fresh = 0;", "u->clock = t;"]
            plan = self.plan
            body.append(f"for (int i = 0; i < {max(1, plan.extra)}; ++i) u->s.events[i] = 0.0;")
            body += [f"u->s.events[{i}] = u->p[{place}];" for i, place in enumerate(plan.mutable)]
            first = len(plan.mutable)
            body.append(f"for (int i = 0; i < {plan.watched}; ++i) u->s.events[{first} + i] = 1.0;")
        if self.n or self.hybrid:
            body.append("for (int i = 0; i < 4; ++i) u->counts[i] = 0;")
        if self.in_lanes:
            body.append("u->known = NAN;")
        return function(f"void {T}_begin({T} *u, real t, const real *v)", body, "from its start values")

    def _arguments(
        self, kernel: Kernel, time: str, x: str, extra: Sequence[str] = (), *, lane: bool = False
    ) -> tuple[list[str], list[str]]:
        """The texts of a kernel's inputs, and the statements before them that give those a name."""
        used = {
            place
            for row in kernel.code
            for place in KernelPrinter._read(row[0], *row[2:])
            if place < kernel.n_inputs
        } | {place for place in kernel.results if place < kernel.n_inputs}
        names = Names(["u", "t", "xs", "dxs", "z", "to", "e"])
        texts, head = [], []
        sources = [time, *(f"{x}[{j}]" for j in range(self.n))]
        for course in self.courses:
            cells = range(course.port.cells)
            sources += [
                course.in_lane(i, time) if lane else course.value(i, time, self.shared) for i in cells
            ]
        sources += [f"u->p[{i}]{'[l]' if lane else ''}" for i in range(len(self.tables.parameters))]
        sources += extra
        for place, source in enumerate(sources):
            if place not in used:
                texts.append("0.0")
            elif place == 0:
                texts.append(source)
            else:
                word = names(kernel.inputs[place], key=place)
                head.append(f"const real {word} = {source};")
                texts.append(word)
        return texts, head

    def _rates(self, *, lane: bool = False) -> str:
        kernel = self.tables.derivatives
        assert kernel is not None
        texts, head = self._arguments(kernel, "t", "xs", lane=lane)
        first = kernel.n_inputs - len(self.tables.parameters)
        changing = self.plan.mutable if self.hybrid else ()
        steady = frozenset(first + i for i in range(len(self.tables.parameters)) if i not in changing)
        body = head + self.kernels.lines(kernel, texts, lambda i, text: f"dxs[{i}] = {text};", steady=steady)
        T = self.name
        names = ", ".join(self.tables.states)
        if lane:
            head_ = (
                f"inline void {T}_rates_in_lane(const {T}_lanes *u, int l, real t, const real *xs, real *dxs)"
            )
            return function(head_, body, f"the derivatives of {names}, in one lane")
        return function(
            f"inline void {T}_rates(const {T} *u, real t, const real *xs, real *dxs)",
            body,
            f"the derivatives of {names}",
        )

    # ------------------------------------------------------------ outputs

    def _getters(self) -> list[str]:
        T, kernel, parts = self.name, self.tables.compute, []
        if self.direct:
            for port in self.outputs:
                part = Kernel(kernel.inputs, kernel.outputs[port.first : port.first + port.cells])
                texts, head = self._arguments(part, "u->s.time", "u->s.x")
                body = head + self.kernels.lines(part, texts, lambda i, text: f"to[{i}].r = {text};")
                parts.append(
                    function(
                        f"inline void {T}_get_{self.word(port)}(const {T} *u, cell *to)",
                        body,
                        f"the output {port.name}",
                    )
                )
            return parts
        texts, head = self._arguments(kernel, "u->s.time", "u->s.x")
        body = head + self.kernels.lines(kernel, texts, lambda i, text: f"u->y[{i}] = {text};")
        body.append("u->current = 1;")
        for port in self.outputs:
            if port.kind is not Kind.REAL:
                self.shared.need("misfit")
                kind = KINDS[port.kind]
                body.append(
                    f"for (int i = {port.first}; i < {port.first + port.cells}; ++i) "
                    f"if (is_misfit(u->y[i], {kind})) {{ u->current = 0; "
                    f"return refuse(e, SAYS_MISFIT, u->y[i], {literal(float(kind))}, 0.0); }}"
                )
        body.append("return 0;")
        parts.append(
            function(
                f"int {T}_outputs({T} *u, upbeat_error *e)",
                body,
                f"the outputs {', '.join(port.name for port in self.outputs)}",
            )
        )
        for port in self.outputs:
            store = stored("to[i]", port.kind, f"u->y[{port.first} + i]", self.shared)
            parts.append(
                function(
                    f"inline int {T}_get_{self.word(port)}({T} *u, cell *to, upbeat_error *e)",
                    [
                        f"if (!u->current && {T}_outputs(u, e)) return 1;",
                        f"for (int i = 0; i < {port.cells}; ++i) {store}",
                        "return 0;",
                    ],
                )
            )
        return parts

    def word(self, port: PortPlace) -> str:
        return self.words(port.name, key=port.number)

    def get(self, unit: str, number: int, to: str) -> tuple[str, bool]:
        """The call that reads an output, and whether it can fail."""
        for port in self.outputs:
            if port.number == number:
                call = f"{self.name}_get_{self.word(port)}({unit}, {to}"
                return (f"{call})", False) if self.direct else (f"{call}, e)", True)
        port = next(port for port in self.sent if port.number == number)
        return f"{self.name}_get_{self.word(port)}({unit}, {to}, e)", True

    def _slope(self, output: int, given: int, kernel: Kernel) -> str:
        texts, head = self._arguments(kernel, "u->s.time", "u->s.x")
        body = head + self.kernels.lines(kernel, texts, lambda i, text: f"to[{i}].r = {text};")
        return function(
            f"inline void {self.name}_{slope_word(output, given)}(const {self.name} *u, cell *to)", body
        )

    # ------------------------------------------------------------ inputs

    def _setters(self) -> list[str]:
        parts = []
        stale = [] if self.direct else ["u->current = 0;"]
        fresh = ["u->fresh = 0;"] if self.hybrid else []
        for course in self.courses:
            body = [*fresh, *course.take("u->s.time"), *stale, "return 0;"]
            parts.append(self._setter(course.port, body))
        heard_at = self._heard_at if self.hybrid else {}
        for port in self.heard:
            at = heard_at[port.number]
            body = [
                "if (count != 1) return refuse(e, SAYS_COEFFICIENTS, (real)count, 1.0, 0.0);",
                *fresh,
                f"u->s.events[{at}] = 1.0;",
                f"for (int i = 0; i < {port.cells}; ++i) u->s.events[{at + 1} + i] = {number_of('from[i]', port.kind)};",
                "return 0;",
            ]
            parts.append(self._setter(port, body))
        for port in self.tunable:
            body = [
                "if (count != 1) return refuse(e, SAYS_COEFFICIENTS, (real)count, 1.0, 0.0);",
                *fresh,
                f"for (int i = 0; i < {port.cells}; ++i) u->p[{port.first} + i] = {number_of('from[i]', port.kind)};",
                *stale,
            ]
            if self.hybrid:
                body += [f"u->s.events[{i}] = u->p[{place}];" for i, place in enumerate(self.plan.mutable)]
            parts.append(self._setter(port, [*body, "return 0;"]))
        return parts

    def _setter(self, port: PortPlace, body: list[str]) -> str:
        T = self.name
        return function(
            f"inline int {T}_set_{self.word(port)}({T} *u, const cell *from, int32_t count, upbeat_error *e)",
            body,
            f"the input {port.name}",
        )

    @property
    def settable(self) -> tuple[PortPlace, ...]:
        return (*self.inputs, *self.heard, *self.tunable)

    def set(self, unit: str, number: int, source: str, count: int | str) -> str:
        """The call that sets an input; it is 0 if that went well."""
        for port in self.settable:
            if port.number == number:
                return f"{self.name}_set_{self.word(port)}({unit}, {source}, {count}, e)"
        return unsettable(number)

    # ------------------------------------------------------------ advancing

    def _weights(self, row: Sequence[float], of: Callable[[int], str]) -> str:
        return " + ".join(f"{literal(w)} * {of(q)}" for q, w in enumerate(row) if w != 0.0)

    def _change(self, h: str, row: Sequence[float], of: Callable[[int], str]) -> str:
        """By how much a step of `h` moves something: with one rounding for the sum, or as quickly as it goes."""
        if not self.shared.quick:
            return f"{h} * ({self._weights(row, of)})"
        return " + ".join(f"{literal(w)} * {h} * {of(q)}" for q, w in enumerate(row) if w != 0.0)

    def _each(self, statement: Callable[[str], str]) -> list[str]:
        """A statement for each state: one by one where there are few."""
        if self.n <= 4:
            return [statement(str(j)) for j in range(self.n)]
        return [f"for (int j = 0; j < {self.n}; ++j) {statement('j')}"]

    def _stages(self, solver: SolverTable, t: str, h: str) -> list[str]:
        """All stages but the first one."""
        lines: list[str] = []
        T, count = self.name, solver.stages
        for s in range(1, count):
            row = solver.a[s * count : s * count + s]
            at = f"{t} + {literal(solver.c[s])} * {h}"
            if any(row):
                lines += self._each(
                    lambda j, row=row: f"y[{j}] = x[{j}] + {self._change(h, row, lambda q: f'k[{q}][{j}]')};"  # type: ignore[misc]
                )
                lines.append(f"{T}_rates(u, {at}, y, k[{s}]);")
            else:
                lines.append(f"{T}_rates(u, {at}, x, k[{s}]);")
        return lines

    def _counted(self, solver: SolverTable) -> list[str]:
        if not solver.step > 0.0:
            return [f"const int64_t count = {solver.steps};"]
        self.shared.need("micro_steps")
        step = literal(solver.step)
        return [
            f"const int64_t count = micro_steps({step}, to - t);",
            f"if (count == 0) return refuse(e, SAYS_TOO_MANY, {step}, to - t, 0.0);",
        ]

    def _known(self, solver: SolverTable, more: Sequence[str] = ()) -> list[str]:
        """What a lane has solved already."""
        if not self.in_lanes:
            return []
        counted = (f"u->counts[0] += {solver.steps};", f"u->counts[3] += {solver.stages * solver.steps};")
        copied = f"for (int j = 0; j < {self.n}; ++j) u->s.x[j] = u->after[j];"
        inside = [copied, "u->known = NAN;", *counted, *more, "return 0;"]
        return ["if (u->known == to) {", *block(inside), "}"]

    def _lanes(self, solver: SolverTable) -> list[str]:
        """Several units in step, each in a lane of the registers: what compilers make of a loop over lanes whose
        body has no branches."""
        T, n, stages = self.name, self.n, solver.stages
        members = [f"real p[{len(self.tables.parameters)}][LANES];"] if self.tables.parameters else []
        members += [line for course in self.courses for line in course.lanes()] or ["char nothing;"]
        waits = f"{T}_look(one), {T}_waits(one) || " if self.hybrid else ""
        load = [
            f"{T} *const one = units[l < count ? l : 0];",
            "const real to = tos[l < count ? l : 0];",
            f"one->known = ({waits}!(one->s.time < to)) ? NAN : to;",
            "t[l] = one->s.time;",
            f"hs[l] = (to - one->s.time) / (real){solver.steps};",
            f"for (int j = 0; j < {n}; ++j) xs[j][l] = one->s.x[j];",
            *(
                [f"for (int i = 0; i < {len(self.tables.parameters)}; ++i) u->p[i][l] = one->p[i];"]
                if self.tables.parameters
                else []
            ),
            *(line for course in self.courses for line in course.into_lane()),
        ]
        step = [
            "const real h = hs[l], start = t[l] + (real)i * h;",
            f"real x[{n}], k[{stages}][{n}], y[{n}];",
            *(f"x[{j}] = xs[{j}][l];" for j in range(n)),
            f"{T}_rates(u, start, x, k[0]);",
            *self._stages(solver, "start", "h"),
            *(
                f"xs[{j}][l] = x[{j}] + {self._change('h', solver.b, lambda q, j=j: f'k[{q}][{j}]')};"  # type: ignore[misc]
                for j in range(n)
            ),
        ]
        step = [line.replace(f"{T}_rates(u, ", f"{T}_rates_in_lane(u, l, ") for line in step]
        body = [
            f"{T}_lanes lanes, *const u = &lanes;",
            f"real t[LANES], hs[LANES], xs[{n}][LANES];",
            "for (int l = 0; l < LANES; ++l) {",
            *block(load),
            "}",
            f"for (int i = 0; i < {solver.steps}; ++i) {{",
            "  for (int l = 0; l < LANES; ++l) {",
            *block(block(step)),
            "  }",
            "}",
            "for (int l = 0; l < count; ++l) {",
            f"  for (int j = 0; j < {n}; ++j) units[l]->after[j] = xs[j][l];",
            "}",
        ]
        return [
            "\n".join(["typedef struct {", *block(members), f"}} {T}_lanes;"]),
            self._rates(lane=True),
            function(
                f"void {T}_in_lanes({T} *const *units, const real *tos, int32_t count)",
                body,
                "several of them at a time: where each will be",
            ),
        ]

    def _steps(self) -> list[str]:
        """The head of a loop over steps of equal size."""
        unrolled = ["#pragma unroll 8"] if self.shared.quick else []
        return [*unrolled, "for (int64_t i = 0; i < count; ++i) {"]

    def _fixed(self, solver: SolverTable, number: int) -> str:
        T, n, stages = self.name, self.n, solver.stages
        weights = self._each(
            lambda j: f"x[{j}] = x[{j}] + {self._change('h', solver.b, lambda q: f'k[{q}][{j}]')};"
        )
        body = [
            *self._known(solver),
            *self._counted(solver),
            "const real h = (to - t) / (real)count;",
            "real *const x = u->s.x;",
            f"real k[{stages}][{n}];",
            *([f"real y[{n}];"] if any(solver.a) else []),
            *self._steps(),
            *block(
                [
                    "const real start = t + (real)i * h;",
                    f"{T}_rates(u, start, x, k[0]);",
                    *self._stages(solver, "start", "h"),
                    *weights,
                ]
            ),
            "}",
            "u->counts[0] += count;",
            f"u->counts[3] += {stages} * count;",
            "return 0;",
        ]
        return function(
            f"inline int {T}_solve{number}({T} *u, real t, real to, upbeat_error *e)",
            body,
            f"{stages} stages, steps of equal size",
        )

    def _adaptive(self, solver: SolverTable, number: int, watched: bool) -> str:
        T, n, stages = self.name, self.n, solver.stages
        for name in ("ulp", "larger", "step_factor", "weighted_norm"):
            self.shared.need(name)
        rtol, atol = (literal(number) for number in kept_tolerances(solver, self.shared.single))

        def limited(text: str) -> str:
            return f"smaller({text}, {literal(solver.longest)})" if solver.longest > 0.0 else text

        if solver.first > 0.0:
            first = [f"const real guess = smaller({literal(solver.first)}, to - t);"]
        else:
            first = [
                f"const real size = weighted_norm(x, x, x, {n}, {rtol}, {atol});",
                f"const real speed = weighted_norm(k[0], x, x, {n}, {rtol}, {atol});",
                "const int known = 1e-5 < size && size < INFINITY && 1e-5 < speed && speed < INFINITY;",
                "const real guess = known ? smaller(0.01 * (size / speed), to - t) : (to - t) / 10.0;",
            ]
        accepted = self._watched(
            "t", "end", "next", self._dense_call("t", "length", f"k[{stages - 1}]", any(solver.d), solver)
        )
        moved = self._each(
            lambda j: f"next[{j}] = x[{j}] + {self._change('length', solver.b, lambda q: f'k[{q}][{j}]')};"
        )
        errors = self._each(
            lambda j: f"error[{j}] = length * ({self._weights(solver.e, lambda q: f'k[{q}][{j}]')});"
        )
        taken = self._each(lambda j: f"x[{j}] = next[{j}];")
        body = [
            "real *const x = u->s.x;",
            f"real k[{stages}][{n}], y[{n}], next[{n}], error[{n}], h = u->s.h;",
            f"{T}_rates(u, t, x, k[0]);",
            "++u->counts[3];",
            "if (!(h > 0.0)) {",
            *block([*first, "h = larger(guess, 16.0 * ulp(t));"]),
            "}",
            *([f"h = {limited('h')};"] if solver.longest > 0.0 else []),
            f"for (int64_t tried = 0; tried < {solver.max_steps}; ++tried) {{",
            *block(
                [
                    "const int cut = t + 1.0000001 * h >= to;",
                    "const real length = cut ? to - t : h;",
                    "if (!cut && h < 16.0 * ulp(t)) return refuse(e, SAYS_TOO_SMALL, h, t, 0.0);",
                    *self._stages(solver, "t", "length"),
                    f"u->counts[3] += {stages - 1};",
                    *moved,
                    *errors,
                    f"const real size = weighted_norm(error, x, next, {n}, {rtol}, {atol});",
                    "const real factor = step_factor(size);",
                    "if (!(size <= 1.0)) {",
                    "  h = length * smaller(1.0, factor);",
                    "  ++u->counts[1];",
                    "  continue;",
                    "}",
                    "++u->counts[0];",
                    f"const real proposed = {limited('length * factor')};",
                    "h = cut ? larger(h, proposed) : proposed;",
                    "const real end = cut ? to : t + length;",
                    *(accepted if watched else ["const int stopped = 0;"]),
                    *taken,
                    *(["if (stopped) ++u->counts[2];"] if watched else []),
                    "if (cut || stopped) {",
                    "  u->s.h = h;",
                    "  return 0;",
                    "}",
                    "t = end;",
                    *self._each(lambda j: f"k[0][{j}] = k[{stages - 1}][{j}];"),
                ]
            ),
            "}",
            "return refuse(e, SAYS_NOT_THERE, to, t, h);",
        ]
        more = f", {T}_watch *w" if watched else ""
        return function(
            f"int {T}_solve{number}({T} *u, real t, real to{more}, upbeat_error *e)",
            body,
            f"{stages} stages, steps of the size that the tolerances allow",
        )

    def _advance(self) -> list[str]:
        T, parts = self.name, []
        solvers = (self.tables.solver, *self.tables.others)
        if self.n and not self.hybrid:
            parts += [
                self._adaptive(solver, i, False) if solver.code == ADAPTIVE else self._fixed(solver, i)
                for i, solver in enumerate(solvers)
            ]
        if self.hybrid:
            return [*parts, *self._hybrid_advance(solvers)]
        body = ["if (to < t) return refuse(e, SAYS_BACKWARDS, t, to, 0.0);"]
        if self.n:
            body += ["if (to > t) {", *block(self._chosen(solvers, "")), "}"]
        body += ["u->s.time = to;", *([] if self.direct else ["u->current = 0;"]), "return 0;"]
        head = f"inline int {T}_advance({T} *u, real t, real to, upbeat_error *e)"
        return [*parts, function(head, body, "from t to a later time")]

    def _chosen(self, solvers: Sequence[SolverTable], watch: str) -> list[str]:
        T = self.name
        if self.tables.chooser < 0:
            return [f"if ({T}_solve0(u, t, to{watch}, e)) return 1;"]
        course = self.courses[self.tables.chooser]
        wanted = f"u->s.{course.word}{'.c' if course.moves else ''}[0]"
        count = literal(float(len(solvers)))
        lines = [
            f"const real wanted = {wanted};",
            f"if (!(wanted >= 0.0 && wanted < {count})) return refuse(e, SAYS_NO_SOLVER, wanted, {count}, 0.0);",
            "switch ((int)wanted) {",
        ]
        for i in range(len(solvers)):
            lines.append(f"  case {i}: if ({T}_solve{i}(u, t, to{watch}, e)) return 1; break;")
        return [*lines, "}"]

    def advance(self, unit: str, start: str, until: str, early: bool, reached: str) -> tuple[str, bool]:
        """The call that advances, and whether it may end before."""
        if self.hybrid:
            return f"{self.name}_advance({unit}, {start}, {until}, {int(early)}, &{reached}, e)", True
        return f"{self.name}_advance({unit}, {start}, {until}, e)", False

    # ------------------------------------------------------------ events

    @property
    def _heard_at(self) -> dict[int, int]:
        """Where in `events` each event that is heard, or sent, lies: whether it is there, then its cells."""
        plan = self.plan
        at, found = len(plan.mutable) + 2 * plan.watched, {}
        for port in (*self.heard, *self.sent):
            found[port.number] = at
            at += 1 + port.cells
        return found

    def _dense_call(self, t: str, h: str, after: str, top: bool, solver: SolverTable) -> list[str]:
        """Fill the watch's polynomial over a step from x to next."""
        n = self.n
        if not n:
            return []
        body = [
            "const real change = next[j] - x[j];",
            f"const real left = {h} * k[0][j] - change;",
            "w->rows[0][j] = x[j];",
            "w->rows[1][j] = change;",
            "w->rows[2][j] = left;",
            f"w->rows[3][j] = change - {h} * {after}[j] - left;",
        ]
        weights = self._weights(solver.d, lambda q: f"k[{q}][j]") if top else ""
        body.append(f"w->rows[4][j] = {f'{h} * ({weights})' if top else '0.0'};")
        return [
            f"w->start = {t};",
            f"w->length = {h};",
            f"for (int j = 0; j < {n}; ++j) {{",
            *block(body),
            "}",
        ]

    def _watched(self, start: str, end: str, x: str, dense: Sequence[str]) -> list[str]:
        """Look at an accepted step; `stopped` says whether it ends here."""
        T = self.name
        if not self.hybrid:
            return []
        return [
            f"w->time = {end};",
            f"const int stopped = w->stopped = {T}_crosses(u, w, {end}, {x});",
            "if (stopped) {",
            *block([*dense, f"{T}_locate(u, w, {start}, {end}, {x});"]),
            "}",
            f"for (int i = 0; i < {self.plan.watched}; ++i) {{",
            "  const real kept = w->low[i];",
            "  w->low[i] = w->high[i];",
            "  w->high[i] = kept;",
            "}",
        ]

    def _events(self) -> list[str]:
        """Indicators, what is due, and what happens then."""
        T, n, plan = self.name, self.n, self.plan
        z = max(1, plan.watched)
        armed, due = len(plan.mutable), len(plan.mutable) + plan.watched
        self.shared.need("crossings")
        parts = [
            "\n".join(
                [
                    "/* how the solver looks at the events of the unit */",
                    "typedef struct {",
                    f"  real low[{z}], high[{z}], middle[{z}], time, start, length, rows[5][{max(1, n)}];",
                    f"  char crossed[{z}], found[{z}];",
                    "  int stopped;",
                    f"}} {T}_watch;",
                ]
            )
        ]
        texts, head = self._arguments(plan.indicators, "t", "xs")
        body = head + self.kernels.lines(plan.indicators, texts, lambda i, text: f"z[{i}] = {text};")
        parts.append(
            function(
                f"void {T}_indicators(const {T} *u, real t, const real *xs, real *z)",
                body,
                "the event indicators",
            )
        )
        extra = [
            f"u->s.events[{self._heard_at[port.number] + 1 + i}]"
            for port in self.heard
            for i in range(port.cells)
        ]
        texts, head = self._arguments(plan.actions, "u->s.time", "u->s.x", extra)
        body = head + self.kernels.lines(plan.actions, texts, lambda i, text: f"to[{i}] = {text};")
        results = max(1, len(plan.actions.results))
        parts.append(
            function(f"void {T}_actions(const {T} *u, real *to)", body, "what events write and send")
        )
        parts.append(
            function(
                f"int {T}_waits(const {T} *u)",
                [
                    f"for (int i = 0; i < {plan.watched}; ++i) if (u->s.events[{due} + i] != 0.0) return 1;",
                    "return 0;",
                ],
            )
        )
        state = "u->s.x" if n else "0"
        parts.append(
            function(
                f"void {T}_look({T} *u)",
                [
                    "if (u->fresh) return;",
                    "u->fresh = 1;",
                    f"real z[{z}];",
                    f"{T}_indicators(u, u->s.time, {state}, z);",
                    f"for (int i = 0; i < {plan.watched}; ++i) {{",
                    "  if (z[i] > 0.0) {",
                    f"    u->s.events[{armed} + i] = 1.0;",
                    f"  }} else if (u->s.events[{armed} + i] != 0.0) {{",
                    f"    u->s.events[{armed} + i] = 0.0;",
                    f"    u->s.events[{due} + i] = 1.0;",
                    "  }",
                    "}",
                ],
                "what is due at the unit's own time",
            )
        )
        happens = {
            event.indicator: " && ".join(
                [
                    f"u->s.events[{due + event.indicator}] != 0.0",
                    *(f"u->s.events[{due + other}] == 0.0" for other in plan.rivals[event.indicator]),
                ]
            )
            for event in plan.events
            if event.indicator >= 0
        }
        collect, act = [], []
        for event in plan.events:
            about = comment(event.name)
            happen = happens.get(event.indicator)
            sends = []
            for one in event.sends:
                port = self.sent[one.port]
                at = self._heard_at[port.number]
                sends += [
                    f"if (to[{one.first}] != 0.0) {{",
                    f"  u->s.events[{at}] = 1.0;",
                    f"  for (int i = 0; i < {port.cells}; ++i) u->s.events[{at + 1} + i] = to[{one.first + 1} + i];",
                    "}",
                ]
            if happen and sends:
                collect += [f"if ({happen}) {{ {about}", *block(sends), "}"]
            tests = [happen] if happen else []
            tests += [f"u->s.events[{self._heard_at[self.heard[port].number]}] != 0.0" for port in event.on]
            writes = []
            for target, place in event.writes:
                if target < n:
                    writes.append(f"u->s.x[{target}] = to[{place}];")
                else:
                    writes.append(f"u->s.events[{plan.mutable.index(target - n)}] = to[{place}];")
            if tests and writes:
                condition = tests[0] if len(tests) == 1 else " || ".join(f"({test})" for test in tests)
                act += [f"if ({condition}) {{ {about}", *block(writes), "}"]
        parts.append(
            function(
                f"void {T}_collect({T} *u, const real *to)",
                collect,
                "what is sent joins what waits to be sent",
            )
        )
        rearm = [
            f"if (u->s.events[{due + i}] != 0.0 && !({happen})) u->s.events[{armed + i}] = 1.0;"
            for i, happen in happens.items()
        ]
        parts.append(self._refreshed())
        parts.append(
            function(
                f"void {T}_act({T} *u)",
                [
                    f"real to[{results}];",
                    f"{T}_actions(u, to);",
                    f"{T}_collect(u, to);",
                    *act,
                    *rearm,
                    f"for (int i = 0; i < {plan.watched}; ++i) u->s.events[{due} + i] = 0.0;",
                    *self._cleared(self.heard),
                    f"{T}_refresh(u);",
                    f"{T}_look(u);",
                ],
                "all that is due happens",
            )
        )
        for port in self.sent:
            parts.append(self._sent_getter(port, results))
        unsent = [f"u->s.events[{self._heard_at[port.number]}] != 0.0" for port in self.sent]
        parts.append(
            function(
                f"int {T}_due({T} *u, real *time, upbeat_error *e)",
                [
                    f"{T}_look(u);",
                    f"*time = {' || '.join([f'{T}_waits(u)', *unsent])} ? u->s.time : INFINITY;",
                    "return 0;",
                ],
            )
        )
        parts.append(
            function(
                f"int {T}_jump({T} *u, int *again, upbeat_error *e)",
                [
                    f"{T}_look(u);",
                    f"{T}_act(u);",
                    *self._cleared(self.sent),
                    f"*again = {T}_waits(u);",
                    "return 0;",
                ],
            )
        )
        return parts

    def _refreshed(self) -> str:
        """What is in the state has been changed: what was derived from it is not right any more."""
        body = []
        if self.hybrid:
            body += [f"u->p[{place}] = u->s.events[{i}];" for i, place in enumerate(self.plan.mutable)]
            body.append("u->fresh = 0;")
        if not self.direct:
            body.append("u->current = 0;")
        return function(f"void {self.name}_refresh({self.name} *u)", body)

    def _cleared(self, ports: Sequence[PortPlace]) -> list[str]:
        return [
            f"for (int i = 0; i < {1 + port.cells}; ++i) u->s.events[{self._heard_at[port.number]} + i] = 0.0;"
            for port in ports
        ]

    def _sent_getter(self, port: PortPlace, results: int) -> str:
        """Looked at, not taken: what waits is as it was afterwards."""
        T, at = self.name, self._heard_at[port.number]
        first = self._heard_at[self.sent[0].number]
        size = self.plan.extra - first
        body = [
            f"{T}_look(u);",
            f"real waiting[{size}];",
            f"for (int i = 0; i < {size}; ++i) waiting[i] = u->s.events[{first} + i];",
            f"if ({T}_waits(u)) {{",
            f"  real to_[{results}];",
            f"  {T}_actions(u, to_);",
            f"  {T}_collect(u, to_);",
            "}",
            "int status = 0;",
            f"to[{port.cells}].i = u->s.events[{at}] != 0.0;",
            f"for (int i = 0; i < {port.cells}; ++i) {{",
            f"  const real value = u->s.events[{at + 1} + i];",
        ]
        if port.kind is not Kind.REAL:
            self.shared.need("misfit")
            kind = KINDS[port.kind]
            body.append(
                f"  if (is_misfit(value, {kind})) {{ "
                f"status = refuse(e, SAYS_MISFIT, value, {literal(float(kind))}, 0.0); break; }}"
            )
        body += [
            f"  {stored('to[i]', port.kind, 'value', self.shared)}",
            "}",
            f"for (int i = 0; i < {size}; ++i) u->s.events[{first} + i] = waiting[i];",
            "return status;",
        ]
        return function(
            f"int {T}_get_{self.word(port)}({T} *u, cell *to, upbeat_error *e)",
            body,
            f"the event {port.name}",
        )

    def _hybrid_advance(self, solvers: Sequence[SolverTable]) -> list[str]:
        T, n, plan = self.name, self.n, self.plan
        armed, due = len(plan.mutable), len(plan.mutable) + plan.watched
        parts = [
            function(
                f"int {T}_crosses(const {T} *u, {T}_watch *w, real t, const real *x)",
                [
                    f"{T}_indicators(u, t, x, w->high);",
                    f"return find_crossings(w->low, w->high, w->found, {plan.watched});",
                ],
                "whether an indicator has another sign at the end of a step",
            ),
            self._locate(),
        ]
        for i, solver in enumerate(solvers):
            if not n:
                parts.append(self._still(solver, i))
            elif solver.code == ADAPTIVE:
                parts.append(self._adaptive(solver, i, True))
            else:
                parts.append(self._fixed_watched(solver, i))
        state = "u->s.x" if n else "0"
        chosen = [line.replace("(u, t, to", "(u, u->s.time, to") for line in self._chosen(solvers, ", w")]
        go = [
            f"{T}_watch watch, *const w = &watch;",
            "while (u->s.time < to) {",
            *block(
                [
                    f"{T}_indicators(u, u->s.time, {state}, w->low);",
                    *chosen,
                    "const int stopped = w->stopped;",
                    "u->s.time = stopped ? w->time : to;",
                    *([] if self.direct else ["u->current = 0;"]),
                    "u->fresh = 1;",
                    f"for (int i = 0; i < {plan.watched}; ++i) {{",
                    f"  if (w->low[i] > 0.0) u->s.events[{armed} + i] = 1.0;",
                    "  if (stopped && w->crossed[i] && !(w->low[i] > 0.0)) {",
                    f"    u->s.events[{armed} + i] = 0.0;",
                    f"    u->s.events[{due} + i] = 1.0;",
                    "  }",
                    "}",
                    f"if ({T}_waits(u)) return 0;",
                ]
            ),
            "}",
            "return 0;",
        ]
        parts.append(
            function(
                f"int {T}_go({T} *u, real to, upbeat_error *e)",
                go,
                "as far as the next event that becomes due, and not beyond a time",
            )
        )
        parts.append(
            function(
                f"int {T}_advance({T} *u, real t, real to, int early, real *reached, upbeat_error *e)",
                [
                    "if (to < t) return refuse(e, SAYS_BACKWARDS, t, to, 0.0);",
                    "int rounds = 0;",
                    f"{T}_look(u);",
                    "for (;;) {",
                    f"  while ({T}_waits(u)) {{",
                    f"    if (++rounds > {MAX_EVENTS}) return refuse(e, SAYS_ENDLESS, u->s.time, 0.0, 0.0);",
                    f"    {T}_act(u);",
                    "  }",
                    "  if (u->s.time >= to) break;",
                    f"  if ({T}_go(u, to, e)) return 1;",
                    f"  if ({T}_waits(u) && (early || u->s.time >= to)) break;",
                    "}",
                    "*reached = u->s.time;",
                    "return 0;",
                ],
                "from t to a later time; early: or to an event on the way",
            )
        )
        return parts

    def _locate(self) -> str:
        T, n, z = self.name, self.n, max(1, self.plan.watched)
        at = [
            "const real s = (t - w->start) / w->length, r = 1.0 - s;",
            f"for (int j = 0; j < {n}; ++j) {{",
            "  state[j] = w->rows[0][j] + s * (w->rows[1][j] + r * (w->rows[2][j] + s * (w->rows[3][j] + "
            "r * w->rows[4][j])));",
            "}",
        ]
        body = [
            f"real state[{max(1, n)}], weight = 1.0;",
            "int moved = 0, slow = 0;",
            f"for (int i = 0; i < {z}; ++i) w->crossed[i] = w->found[i];",
            "const real room = larger(1e-12 * (high - low), 4.0 * ulp(larger(fabs(low), fabs(high))));",
            "while (high - low > room) {",
            *block(
                [
                    "const real width = high - low;",
                    f"const real part = slow == 2 ? 0.5 : first_root(w->low, w->high, {self.plan.watched}, weight);",
                    "if (slow == 2) slow = 0;",
                    "const real t = larger(low + 0.5 * room, smaller(high - 0.5 * room, low + part * width));",
                    *(at if n else []),
                    f"{T}_indicators(u, t, state, w->middle);",
                    f"if (find_crossings(w->low, w->middle, w->found, {self.plan.watched})) {{",
                    "  weight = moved == 1 ? 0.5 * weight : 1.0;",
                    "  moved = 1;",
                    "  high = t;",
                    f"  for (int i = 0; i < {z}; ++i) {{",
                    "    w->high[i] = w->middle[i];",
                    "    w->crossed[i] = w->found[i];",
                    "  }",
                    f"  for (int j = 0; j < {n}; ++j) x[j] = state[j];",
                    "} else {",
                    "  weight = moved == -1 ? 2.0 * weight : 1.0;",
                    "  moved = -1;",
                    "  low = t;",
                    f"  for (int i = 0; i < {z}; ++i) w->low[i] = w->middle[i];",
                    "}",
                    "slow = high - low > 0.5 * width ? slow + 1 : 0;",
                ]
            ),
            "}",
            "w->time = high;",
        ]
        return function(
            f"void {T}_locate(const {T} *u, {T}_watch *w, real low, real high, real *x)",
            body,
            "where in a step the first indicator changes its sign; x becomes the state there",
        )

    def _fixed_watched(self, solver: SolverTable, number: int) -> str:
        T, n, stages = self.name, self.n, solver.stages
        weights = self._each(
            lambda j: f"next[{j}] = x[{j}] + {self._change('h', solver.b, lambda q: f'k[{q}][{j}]')};"
        )
        dense = [
            f"{T}_rates(u, end, next, y);",
            "++u->counts[3];",
            *self._dense_call("start", "h", "y", False, solver),
        ]
        body = [
            *self._known(solver, ["w->time = to;", "w->stopped = 0;"]),
            *self._counted(solver),
            "const real h = (to - t) / (real)count;",
            "real *const x = u->s.x;",
            f"real k[{stages}][{n}], y[{n}], next[{n}];",
            *self._steps(),
            *block(
                [
                    "const real start = t + (real)i * h;",
                    f"{T}_rates(u, start, x, k[0]);",
                    *self._stages(solver, "start", "h"),
                    f"u->counts[3] += {stages};",
                    "++u->counts[0];",
                    *weights,
                    "const real end = i + 1 < count ? t + (real)(i + 1) * h : to;",
                    *self._watched("start", "end", "next", dense),
                    *self._each(lambda j: f"x[{j}] = next[{j}];"),
                    "if (stopped) {",
                    "  ++u->counts[2];",
                    "  return 0;",
                    "}",
                ]
            ),
            "}",
            "return 0;",
        ]
        return function(
            f"int {T}_solve{number}({T} *u, real t, real to, {T}_watch *w, upbeat_error *e)",
            body,
            f"{stages} stages, steps of equal size, up to the first event",
        )

    def _still(self, solver: SolverTable, number: int) -> str:
        T = self.name
        counted = ["const int64_t count = 1;"] if solver.code == ADAPTIVE else self._counted(solver)
        body = [
            *counted,
            "const real h = (to - t) / (real)count;",
            "real next[1];",
            *self._steps(),
            *block(
                [
                    "const real start = t + (real)i * h;",
                    "const real end = i + 1 < count ? t + (real)(i + 1) * h : to;",
                    *self._watched("start", "end", "next", []),
                    "if (stopped) return 0;",
                ]
            ),
            "}",
            "return 0;",
        ]
        return function(
            f"int {T}_solve{number}({T} *u, real t, real to, {T}_watch *w, upbeat_error *e)",
            body,
            "without states, only time and inputs can make something happen",
        )

    # ------------------------------------------------------------ rollback

    def _restore(self) -> str:
        T = self.name
        body = ["u->s = *s;"]
        if self.hybrid:
            body += [f"{T}_refresh(u);", "u->clock = s->time;"]
        elif not self.direct:
            body.append("u->current = 0;")
        return function(f"inline void {T}_restore({T} *u, const {T}_state *s)", body)

    def _pack(self) -> str:
        body = ["*to++ = s->time;"]
        if self.n:
            body.append(f"for (int j = 0; j < {self.n}; ++j) *to++ = s->x[j];")
        if self.adaptive:
            body.append("*to++ = s->h;")
        for course in self.courses:
            body += course.packed()
        if self.hybrid:
            body.append(f"for (int i = 0; i < {self.plan.extra}; ++i) *to++ = s->events[i];")
        return function(f"void {self.name}_pack(const {self.name}_state *s, real *to)", body)

    def _unpack(self) -> str:
        body = ["s->time = *from++;"]
        if self.n:
            body.append(f"for (int j = 0; j < {self.n}; ++j) s->x[j] = *from++;")
        if self.adaptive:
            body.append("s->h = *from++;")
        for course in self.courses:
            body += course.unpacked()
        if self.hybrid:
            body.append(f"for (int i = 0; i < {self.plan.extra}; ++i) s->events[i] = *from++;")
        return function(
            f"int {self.name}_unpack({self.name}_state *s, const real *from, upbeat_error *e)",
            [*body, "return 0;"],
        )


# ----------------------------------------------------------------------------------------------------
# Discrete-event units: the twin of native/src/discrete.cpp, which keeps what it has computed.


def discrete_key(tables: DiscreteTables) -> DiscreteTables:
    """The same without its numbers."""
    return replace(
        tables,
        start=(0.0,) * len(tables.start),
        input_start=(0.0,) * len(tables.input_start),
        parameters=(0.0,) * len(tables.parameters),
    )


@dataclass
class DiscreteType:
    """A discrete-event unit as C: `a` holds [time, variables, inputs, cells of events, which were set]."""

    name: str
    tables: DiscreteTables
    rows: Mapping[int, int]
    kernels: KernelPrinter
    used_by: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tables = self.tables
        self.inputs = PortPlace.of(tables.inputs)
        self.heard = PortPlace.of(tables.heard)
        self.outputs = PortPlace.of(tables.outputs)
        self.sent = PortPlace.of(tables.sent)
        self.inputs_at = 1 + len(tables.kinds)
        self.events_at = self.inputs_at + sum(port.cells for port in self.inputs)
        self.flags_at = self.events_at + sum(port.cells for port in self.heard)
        self.end = self.flags_at + len(self.heard)
        names = Names(["time", "a"])
        self.courses = tuple(
            Course(port, names(f"in_{port.name}"), self.rows.get(port.number, 1), self.shared.quick)
            for port in self.inputs
        )
        self.moving = [course for course in self.courses if course.moves]
        self.words = Names(ends=True)
        self.early = False

    @property
    def shared(self) -> Shared:
        return self.kernels.shared

    @property
    def values(self) -> int:
        return len(self.tables.start) + len(self.tables.input_start) + len(self.tables.parameters)

    @property
    def state_size(self) -> int:
        return self.tables.state_size

    def text(self) -> str:
        parts = [self._structs(), self._begin()]
        parts += self._dues()
        parts += self._getters()
        parts += self._setters()
        parts += [self._jump(), self._advance(), self._restore(), self._pack(), self._unpack()]
        return "\n\n".join(parts)

    def _structs(self) -> str:
        T = self.name
        state = [f"real a[{self.end}]; /* time, variables, inputs, events that were set and which */"]
        state += [course.member() for course in self.moving]
        more = [f"{T}_state s;"]
        if self.tables.parameters:
            more.append(f"real p[{len(self.tables.parameters)}];")
        about = comment(f"events of {', '.join(self.used_by[:6])}{' …' if len(self.used_by) > 6 else ''}")
        return "\n".join(
            [
                about,
                "typedef struct {",
                *block(state),
                f"}} {T}_state;",
                "typedef struct {",
                *block(more),
                f"}} {T};",
            ]
        )

    def _begin(self) -> str:
        tables = self.tables
        body = ["u->s.a[0] = t;"]
        given = len(tables.start) + len(tables.input_start)
        body.append(f"for (int i = 1; i < {self.end}; ++i) u->s.a[i] = i <= {given} ? v[i - 1] : 0.0;")
        at = len(tables.start)
        for course in self.courses:
            if course.moves:
                body += course.begin(f"(v + {at})")
            at += course.port.cells
        if tables.parameters:
            body.append(f"for (int i = 0; i < {len(tables.parameters)}; ++i) u->p[i] = v[{at} + i];")
        return function(
            f"void {self.name}_begin({self.name} *u, real t, const real *v)", body, "from its start values"
        )

    def _piece(self, piece: Piece, store: Callable[[int, str], str]) -> list[str]:
        kernel = piece.kernel
        used = {place for row in kernel.code for place in KernelPrinter._read(row[0], *row[2:])} | set(
            kernel.results
        )
        names = Names(["u", "e", "v", "at", "to", "again", "next", "time", "i"])
        texts, head = [], []
        for i, place in enumerate(piece.places):
            source = f"u->s.a[{place}]" if place < self.end else f"u->p[{place - self.end}]"
            if i in used:
                word = names(kernel.inputs[i], key=i)
                head.append(f"const real {word} = {source};")
                texts.append(word)
            else:
                texts.append("0.0")
        return head + self.kernels.lines(kernel, texts, store)

    def _modes(self, body: Callable[[int], list[str]]) -> list[str]:
        """What the mode that holds does."""
        count = len(self.tables.modes)
        if self.tables.mode < 0 or count == 1:
            return body(0)
        lines = [f"switch ((int)u->s.a[{1 + self.tables.mode}]) {{"]
        for mode in range(count):
            lines += [f"  case {mode}: {{", *block(body(mode), 2), "    break;", "  }"]
        return [*lines, "}"]

    def _dues(self) -> list[str]:
        T, modes = self.name, self.tables.modes

        def due(mode: int) -> list[str]:
            return self._piece(modes[mode].due, lambda _, text: f"*time = {text};")

        return [
            function(
                f"int {T}_due({T} *u, real *time, upbeat_error *e)",
                [
                    "*time = INFINITY;",
                    *self._modes(due),
                    "return *time != *time ? refuse(e, SAYS_NO_TIME, 0.0, 0.0, 0.0) : 0;",
                ],
                "the time of the next event",
            )
        ]

    def word(self, port: PortPlace) -> str:
        return self.words(port.name, key=port.number)

    def _fitting(self, value: str, kind: Kind) -> list[str]:
        if kind is Kind.REAL:
            return []
        self.shared.need("misfit")
        number = KINDS[kind]
        return [
            f"if (is_misfit({value}, {number})) "
            f"return refuse(e, SAYS_MISFIT, {value}, {literal(float(number))}, 0.0);"
        ]

    def _getters(self) -> list[str]:
        T, parts = self.name, []
        total = max(1, sum(port.cells for port in self.outputs))
        if self.outputs:
            body = self._piece(self.tables.compute, lambda i, text: f"v[{i}] = {text};")
            for port in self.outputs:
                for i in range(port.first, port.first + port.cells):
                    body += self._fitting(f"v[{i}]", port.kind)
            parts.append(
                function(f"int {T}_outputs(const {T} *u, real *v, upbeat_error *e)", [*body, "return 0;"])
            )
        for port in self.outputs:
            store = stored("to[i]", port.kind, f"v[{port.first} + i]", self.shared)
            parts.append(
                function(
                    f"int {T}_get_{self.word(port)}({T} *u, cell *to, upbeat_error *e)",
                    [
                        f"real v[{total}];",
                        f"if ({T}_outputs(u, v, e)) return 1;",
                        f"for (int i = 0; i < {port.cells}; ++i) {store}",
                        "return 0;",
                    ],
                    f"the output {port.name}",
                )
            )
        widest = max([1, *(len(mode.emissions.kernel.results) for mode in self.tables.modes)])
        if self.sent:
            parts.append(self._emissions())
        for place, port in enumerate(self.sent):
            store = stored("to[i]", port.kind, f"v[at[{place}] + i]", self.shared)
            body = [
                "real next;",
                f"if ({T}_due(u, &next, e)) return 1;",
                f"to[{port.cells}].i = 0;",
                f"for (int i = 0; i < {port.cells}; ++i) to[i].i = 0;",
                "if (!(next <= u->s.a[0])) return 0;",
                f"real v[{widest}];",
                f"int at[{len(self.sent)}];",
                f"if ({T}_emissions(u, v, at, e)) return 1;",
                f"if (at[{place}] < 0) return 0;",
                f"to[{port.cells}].i = 1;",
                f"for (int i = 0; i < {port.cells}; ++i) {store}",
                "return 0;",
            ]
            head = f"int {T}_get_{self.word(port)}({T} *u, cell *to, upbeat_error *e)"
            parts.append(function(head, body, f"the event {port.name}"))
        return parts

    def _emissions(self) -> str:
        T = self.name

        def sent(number: int) -> list[str]:
            mode = self.tables.modes[number]
            lines = self._piece(mode.emissions, lambda i, text: f"v[{i}] = {text};")
            first = 0
            for output in mode.emitted:
                port = self.sent[output]
                checks = [
                    line
                    for i in range(port.cells)
                    for line in self._fitting(f"v[{first + 1 + i}]", port.kind)
                ]
                lines += [
                    *self._fitting(f"v[{first}]", Kind.BOOLEAN),
                    f"if (v[{first}] != 0.0) {{ {comment(port.name)}",
                    *block([*checks, f"at[{output}] = {first + 1};"]),
                    "}",
                ]
                first += 1 + port.cells
            return lines

        body = [
            f"for (int i = 0; i < {len(self.sent)}; ++i) at[i] = -1;",
            *self._modes(sent),
            "return 0;",
        ]
        return function(
            f"int {T}_emissions(const {T} *u, real *v, int *at, upbeat_error *e)",
            body,
            "the events that are sent now: where the cells of each are, or -1",
        )

    def get(self, unit: str, number: int, to: str) -> tuple[str, bool]:
        """The call that reads an output, and whether it can fail."""
        port = next(port for port in (*self.outputs, *self.sent) if port.number == number)
        return f"{self.name}_get_{self.word(port)}({unit}, {to}, e)", True

    @property
    def settable(self) -> tuple[PortPlace, ...]:
        return (*self.inputs, *self.heard)

    def set(self, unit: str, number: int, source: str, count: int | str) -> str:
        """The call that sets an input; it is 0 if that went well."""
        for port in self.settable:
            if port.number == number:
                return f"{self.name}_set_{self.word(port)}({unit}, {source}, {count}, e)"
        return unsettable(number)

    def _setters(self) -> list[str]:
        T, parts = self.name, []

        def setter(port: PortPlace, body: list[str]) -> str:
            head = f"int {T}_set_{self.word(port)}({T} *u, const cell *from, int32_t count, upbeat_error *e)"
            return function(head, [*body, "return 0;"], f"the input {port.name}")

        one = "if (count != 1) return refuse(e, SAYS_COEFFICIENTS, (real)count, 1.0, 0.0);"
        for course in self.courses:
            port = course.port
            at = self.inputs_at + port.first
            source = number_of("from[i]", port.kind)
            body = course.take("u->s.a[0]") if course.moves else [one]
            body.append(f"for (int i = 0; i < {port.cells}; ++i) u->s.a[{at} + i] = {source};")
            parts.append(setter(port, body))
        for place, port in enumerate(self.heard):
            at = self.events_at + port.first
            source = number_of("from[i]", port.kind)
            body = [
                one,
                f"for (int i = 0; i < {port.cells}; ++i) u->s.a[{at} + i] = {source};",
                f"u->s.a[{self.flags_at + place}] = 1.0;",
            ]
            parts.append(setter(port, body))
        return parts

    def _assigned(self, code: Assigning) -> list[str]:
        kinds = self.tables.kinds
        lines = [f"real v[{max(1, len(code.to))}];"] if code.to else []
        lines += self._piece(code.piece, lambda i, text: f"v[{i}] = {text};")
        for i, place in enumerate(code.to):
            kind = kinds[place]
            value = f"v[{i}]"
            lines += self._fitting(value, kind)
            if kind is Kind.BOOLEAN:
                value = f"{value} != 0.0 ? 1.0 : 0.0"
            elif kind is not Kind.REAL:
                value = f"(real){self.shared.need('to_integer')}({value})"
            lines.append(f"u->s.a[{1 + place}] = {value};")
        return lines

    def _jump(self) -> str:
        T, modes = self.name, self.tables.modes
        flags = " || ".join(f"u->s.a[{self.flags_at + i}] != 0.0" for i in range(len(self.heard)))
        internal = self._modes(lambda mode: self._assigned(modes[mode].internal))
        own = [
            f"if ({T}_due(u, &next, e)) return 1;",
            "if (next > u->s.a[0]) {",
            "  *again = 0;",
            "  return 0;",
            "}",
        ]
        body = ["real next;"]
        if self.heard:
            external = self._modes(lambda mode: self._assigned(modes[mode].external))
            clear = f"for (int i = {self.events_at}; i < {self.end}; ++i) u->s.a[i] = 0.0;"
            body += [
                f"if ({flags}) {{ /* an event has come in */",
                *block(["{", *block(external), "}", clear]),
                "} else {",
                *block([*own, *internal]),
                "}",
            ]
        else:
            body += [*own, "{", *block(internal), "}"]
        if self.tables.mode >= 0:
            mode, last = f"u->s.a[{1 + self.tables.mode}]", literal(float(len(modes)))
            body.append(
                f"if (!({mode} >= 0.0 && {mode} < {last})) "
                f"return refuse(e, SAYS_NO_MODE, {mode}, {literal(float(len(modes) - 1))}, 0.0);"
            )
        body += [f"if ({T}_due(u, &next, e)) return 1;", "*again = next <= u->s.a[0];", "return 0;"]
        return function(f"int {T}_jump({T} *u, int *again, upbeat_error *e)", body, "one micro-step")

    def _advance(self) -> str:
        follow = [
            f"u->s.a[{self.inputs_at + course.port.first + i}] = {course.value(i, 'to', self.shared)};"
            for course in self.moving
            for i in range(course.port.cells)
        ]
        body = [
            "if (to < t) return refuse(e, SAYS_BACKWARDS, t, to, 0.0);",
            "u->s.a[0] = to;",
            *follow,
            "return 0;",
        ]
        return function(
            f"inline int {self.name}_advance({self.name} *u, real t, real to, upbeat_error *e)", body
        )

    def advance(self, unit: str, start: str, until: str, early: bool, reached: str) -> tuple[str, bool]:
        """The call that advances, and whether it may end before."""
        return f"{self.name}_advance({unit}, {start}, {until}, e)", False

    def _restore(self) -> str:
        return function(
            f"inline void {self.name}_restore({self.name} *u, const {self.name}_state *s)", ["u->s = *s;"]
        )

    def _pack(self) -> str:
        body = [f"for (int i = 0; i < {self.inputs_at}; ++i) *to++ = s->a[i];"]
        for course in self.courses:
            cells, at = course.port.cells, self.inputs_at + course.port.first
            if course.moves:
                body += course.packed()
            else:
                body += [
                    "*to++ = s->a[0];",
                    "*to++ = 1.0;",
                    f"for (int i = 0; i < {ROWS * cells}; ++i) *to++ = i < {cells} ? s->a[{at} + i] : 0.0;",
                ]
        body.append(f"for (int i = {self.events_at}; i < {self.end}; ++i) *to++ = s->a[i];")
        return function(f"void {self.name}_pack(const {self.name}_state *s, real *to)", body)

    def _unpack(self) -> str:
        body = [f"for (int i = 0; i < {self.inputs_at}; ++i) s->a[i] = *from++;"]
        for course in self.courses:
            cells, at = course.port.cells, self.inputs_at + course.port.first
            if course.moves:
                body += course.unpacked()
                self.shared.need("horner")
                of = f"s->{course.word}"
                body.append(
                    f"for (int i = 0; i < {cells}; ++i) s->a[{at} + i] = "
                    f"horner({of}.c + i, {of}.count, {cells}, s->a[0] - {of}.origin);"
                )
            else:
                body += [
                    "if (from[1] > 1.0) return refuse(e, SAYS_COEFFICIENTS, from[1], 1.0, 0.0);",
                    f"for (int i = 0; i < {cells}; ++i) s->a[{at} + i] = from[2 + i];",
                    f"from += {2 + ROWS * cells};",
                ]
        body.append(f"for (int i = {self.events_at}; i < {self.end}; ++i) s->a[i] = *from++;")
        return function(
            f"int {self.name}_unpack({self.name}_state *s, const real *from, upbeat_error *e)",
            [*body, "return 0;"],
        )


AnyType = OdeType | DiscreteType
