"""Programs for many runs at once: one function that makes a whole run, printed for a GPU (CUDA C++) or as C.

A run is one thread of a GPU, or one turn of a loop. It begins with numbers of its own, and tells what `Asked` asks: the
twin of native/src/ensemble.cpp. All of an instance is meant to be in registers: everything is inlined, nothing is
indexed by what is not known, and numbers that do not vary are written into the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from upbeat.core.errors import ModelError
from upbeat.core.ports import Kind
from upbeat.core.time import Span
from upbeat.engine.native.ensemble import Asked, What
from upbeat.engine.native.lower import Code
from upbeat.engine.plan import Plan
from upbeat.generate.printing import Dialect, array, block, literal
from upbeat.generate.program import KIND_OF, Context, Printer, Telling, entered
from upbeat.generate.units import DiscreteType, OdeType, function, number_of, stored
from upbeat.master.computations import Fall
from upbeat.master.paces.watching import allowance
from upbeat.master.program import Computation
from upbeat.scenario.merging.inline import path_of

Target = Literal["cuda", "c"]
NAME = "upbeat_run"

LANES = 8
"""Runs that a processor makes side by side: as many numbers as its widest registers have."""
_KEPT = "(limit|whole|due|event|rejected|until|which)"
"""The variables of a step that it needs after its units have advanced."""
_LONGEST = 12_000
"""More lines than these are compiled for a GPU in many minutes, and run there no quicker than on a CPU."""
_WITHOUT_LEFT = (What.INITIAL, What.FINAL)
"""Statistics that do not look at the values before a jump."""


@dataclass(frozen=True)
class EnsembleSource:
    """The text, and how to call it.

    The function `upbeat_ensemble` takes the number of runs, the table (column by column), and where to write statistics,
    samples, numbers and times of events, totals (all number by number, so that neighbouring runs write to neighbouring
    places) and faults: 0 where a run came to its end.
    """

    text: str
    target: Target
    columns: int


class Watching(Telling):
    """Tells of a run what was asked, from the instance itself."""

    keeps_latest = False
    needs = "finite"

    def __init__(self, asked: Asked, *, quick: bool = False) -> None:
        self.asked = asked
        self.quick = quick
        signals = {of for what, of in asked.statistics if what < What.COUNT} | set(asked.sampled)
        self.at_end = not asked.sampled and all(
            what is What.FINAL for what, _ in asked.statistics if what < What.COUNT
        )
        """Whether only the last row counts."""
        self.looks = bool(signals)
        self.both_sides = any(w not in _WITHOUT_LEFT for w, _ in asked.statistics if w < What.COUNT) or bool(
            asked.sampled
        )
        self.events = sorted({of for what, of in asked.statistics if what >= What.COUNT})

    def members(self) -> list[str]:
        asked = self.asked
        lines = [f"real stat{k};" for k in range(len(asked.statistics))]
        if not self.at_end and self.looks:
            lines += [f"real was{k};" for k in range(len(asked.kernel.results))]
            lines += ["real was_at;", "int32_t any, sample;"]
        lines += [f"real column{k};" for k in range(asked.kernel.n_inputs - 1 - len(asked.cells))]
        lines += [f"int32_t pending{event};" for event in self.events]
        lines += ["int64_t steps, rejected, used, mark, run, runs;"]
        lines += ["double *samples, *times;", "int32_t *listed;"]
        if self.quick:
            lines.append("real sound; /* 0, or no number where some value of the step was none */")
        return lines

    def begin(self) -> list[str]:
        lines = []
        for k, (what, _) in enumerate(self.asked.statistics):
            lines.append(f"m->stat{k} = {'0.0' if what in (What.INTEGRAL, What.COUNT) else 'NAN'};")
        if not self.at_end and self.looks:
            lines.append("m->any = m->sample = 0;")
        lines += [f"m->pending{event} = 0;" for event in self.events]
        if self.quick:
            lines.append("m->sound = 0.0;")
        return [*lines, "m->steps = m->rejected = m->used = m->mark = 0;"]

    def before(self) -> list[str]:
        return ["@_look(m, t);"] if self.both_sides and not self.at_end else []

    def row(self) -> list[str]:
        return ["(void)last;", *(["@_look(m, t);"] if self.looks and not self.at_end else [])]

    def committed(self) -> list[str]:
        lines = []
        for event in self.events:
            inside = []
            for k, (what, of) in enumerate(self.asked.statistics):
                if of == event and what is What.COUNT:
                    inside.append(f"m->stat{k} += (real)m->pending{event};")
                elif of == event and what is What.FIRST_EVENT:
                    inside.append(f"if (m->stat{k} != m->stat{k}) m->stat{k} = t;")
                elif of == event and what is What.LAST_EVENT:
                    inside.append(f"m->stat{k} = t;")
            inside.append(f"m->pending{event} = 0;")
            lines += [f"if (m->pending{event}) {{", *block(inside), "}"]
        if self.asked.events:
            lines += [
                "for (; m->mark < m->used; ++m->mark)",
                f"  if (m->mark < {self.asked.events}) m->times[m->mark * m->runs + m->run] = t;",
            ]
        else:
            lines.append("m->mark = m->used;")
        return lines

    def cut(self) -> list[str]:
        return [*(f"m->pending{event} = 0;" for event in self.events), "m->used = m->mark;"]

    def event(self, event: int, now: str, values: str, cells: int, failed: str) -> list[str]:
        lines = [f"++m->pending{event};"] if event in self.events else []
        if self.asked.events:
            lines.append(
                f"if (m->used < {self.asked.events}) m->listed[m->used * m->runs + m->run] = {event};"
            )
        return [*lines, "++m->used;"]

    def step(self, body: Sequence[str]) -> list[str]:
        lines = ["(void)which; (void)known; (void)stop;", "++m->steps;", "m->rejected += rejected;"]
        if self.quick:
            lines.append("if (m->sound != 0.0) return @_fails(m, FAULT_NOT_FINITE, -1);")
        return lines


_STRAIGHT = ("Fit", "Grid", "Solve")
"""Computations that touch the same cells whatever these contain: they can be part of the function of a run."""


class EnsemblePrinter(Printer):
    """Prints a program as one function for a run.

    For a GPU, what is rare or looks up cells by what others contain is a function of its own, on copies: all else can
    be in registers then.
    """

    def _computation(self, computation: Computation, cells: str = "c") -> list[str]:
        if type(computation).__name__ in _STRAIGHT or not self.shared.quick:
            return super()._computation(computation, cells)
        if isinstance(computation, Fall):
            return self._falls(computation)
        touched = sorted({cell for first, count in computation.reads for cell in range(first, first + count)})
        written = [cell for first, count in computation.writes for cell in range(first, first + count)]
        lines = [f"cell apart[{max([*touched, *written]) + 1}];"]
        lines += [f"apart[{cell}] = c[{cell}];" for cell in touched]
        lines += super()._computation(computation, "apart")
        return ["{", *block([*lines, *(f"c[{cell}] = apart[{cell}];" for cell in written)]), "}"]

    def _checked(self, source: str, count: int, width: int, row: int | str) -> str:
        """Values that are no numbers end the step, once for all of them: wherever a thread may leave a run, all
        that is in its registers is moved to where it would be wanted then."""
        if not self.shared.quick:
            return super()._checked(source, count, width, row)
        name, first = ("c", f"{source[4:]} + ") if source.startswith("c + ") else (source, "")
        return f"m->sound += 0.0 * ({' + '.join(f'{name}[{first}{i}].r' for i in range(count))});"

    def _ends(
        self, condition: str, fault: str, *told: tuple[str, str], row: int = -1, else_with: str = ""
    ) -> list[str]:
        if not self.shared.quick:
            return super()._ends(condition, fault, *told, row=row, else_with=else_with)
        return [f"if ({condition}) {{ m->sound = NAN; {else_with} }}"]

    def _falls(self, falls: Fall) -> list[str]:
        """Most conditions stay above zero, which is seen quickly."""
        self.shared.need("compute_fall")
        span, behind, curve, to = f"c[{falls.span}].r", f"c[{falls.behind}].r", falls.curves, falls.to + 1
        lines = ["real telling = 0.0;"]
        for count in falls.counts:
            stays = " || ".join(f"curve_stays_above(c + {curve + 6 * k}, {span})" for k in range(count))
            lines += [
                f"c[{to}].r = c[{to + 1}].r = c[{to + 2}].r = INFINITY;",
                f"c[{to + 3}].r = 1.0;",
                f"c[{to + 4}].r = 0.0;",
                f"if (!({stays})) {{",
                f"  cell curves[{6 * count}], found[5];",
                f"  for (int k = 0; k < {6 * count}; ++k) curves[k] = c[{curve} + k];",
                f"  for (int k = 0; k < 5; ++k) found[k] = c[{to} + k];",
                f"  fall_of(curves, {count}, {span}, {behind}, found);",
                f"  for (int k = 0; k < 5; ++k) c[{to} + k] = found[k];",
                f"  if (c[{to}].r < INFINITY || c[{to + 4}].r != 0.0) telling += 1.0;",
                "}",
            ]
            curve, to = curve + 6 * count, to + 5
        return ["{", *block([*lines, f"c[{falls.to}].r = telling;"]), "}"]

    def _row(self, at: int, row: list[Any], where: str = "") -> list[str]:
        if not self.shared.quick or row[0] not in (Code.GET_EVENT, Code.JUMP):
            return super()._row(at, row, where)
        kind = self.of_unit[row[1]]
        if not isinstance(kind, DiscreteType):
            return super()._row(at, row, where)
        unit = f"m->{self.member(row[1])}"
        failed = [
            "  m->error.code = said.code;",
            f"  return @_fails(m, FAULT_REFUSED, {where or at});",
            "}",
        ]
        lines = ["upbeat_error said;", f"{kind.name} apart = {unit};"]
        if row[0] == Code.GET_EVENT:
            _, _, port, to, cells, number, *_ = row
            call, _ = kind.get("&apart", port, "got")
            lines += [f"cell got[{cells + 1}];", f"if ({call.replace(', e)', ', &said)')}) {{", *failed]
            lines += [f"for (int i = 0; i < {cells + 1}; ++i) c[{to} + i] = got[i];"]
            lines.append(f"if (c[{to + cells}].i == 0) for (int i = 0; i < {cells}; ++i) c[{to} + i].i = 0;")
            if KIND_OF[number] is Kind.REAL:
                lines.append(f"else {self._checked(f'c + {to}', cells, cells, at)}")
        else:
            _, _, to, number, *_ = row
            lines += ["int again = 0;", f"if ({kind.name}_jump(&apart, &again, &said)) {{", *failed]
            lines += [
                f"{unit} = apart;",
                stored(f"c[{to}]", KIND_OF[number], "again ? 1.0 : 0.0", self.shared),
            ]
        return ["{", *block(lines), "}"]

    # Lanes: several runs of a processor side by side. Each goes on by itself until one of its units is to advance, and
    # waits there; when most of them wait for the same unit, its equations are solved for all of them at once. To wait, a
    # block and a step return, and are entered again where they were: their variables are those of the instance.

    def _rows(self, at: int, end: int) -> Iterator[str]:
        self._depth += 1
        yield from super()._rows(at, end)
        self._depth -= 1

    def _block(self, name: str, number: int) -> str:
        assert self.tables.pace is not None
        # Only in the blocks of a step, and there not within loops, whose counters would be lost.
        self._stepping = bool(self.shared.lanes) and number in self.tables.pace[2]
        before = len(self.waits)
        text = super()._block(name, number)
        self._stepping = False
        if len(self.waits) == before:
            return text
        head = "  cell *const c = m->c;\n"
        begin = text.index(head) + len(head)
        end = text.rindex("  return 0;")
        return f"{text[:begin]}  switch (m->place) {{\n  case 0:;\n{text[begin:end]}  }}\n{text[end:]}"

    def _advanced(self, at: int, row: list[Any], where: str) -> list[str]:
        lines = super()._advanced(at, row, where)
        if self.shared.quick:
            return [re.sub(r"return @_stuck\(.*?\);", "m->sound = NAN;", line) for line in lines]
        kind = self.of_unit[row[1]]
        if not (self._stepping and self._depth == 1 and isinstance(kind, OdeType) and kind.in_lanes):
            return lines
        if self._in_loop[0] >= 0:
            return lines
        self.waits.append((kind.name, self.member(row[1]), row[3]))
        place = len(self.waits)
        return [f"m->place = {place};", "return WAITS;", f"case {place}:;", *lines]

    def _loop(self) -> str:
        """That of any program; of runs that wait, a step keeps its variables in the instance."""
        text = super()._loop()
        assert self.tables.pace is not None
        if not self.waits:
            return text
        begin = text.index("static int @_step(")
        step = text[begin:]
        step = re.sub(
            rf"^( *)(?:const )?(?:real|int|int32_t|int64_t) (?={_KEPT} =)", r"\1", step, flags=re.MULTILINE
        )
        step = re.sub(rf"^ *(?:real|int32_t) {_KEPT};\n", "", step, flags=re.MULTILINE)
        step = re.sub(rf"(?<![\w.>]){_KEPT}\b", r"m->way_\1", step)
        head, body = step.split("{\n", 1)
        head = head.replace("m->way_limit", "limit")
        following = f"    c[{self.tables.next}].r = m->way_until;\n"
        called = "m->entered = 1;\n    m->place = 0;\n  case 1:;\n"
        body = body.replace(following, following + "    " + called, 1)
        number = self.tables.pace[2][0]
        body = body.replace(
            f"if (@_block{number}(m)) return 1;",
            f"const int left = @_block{number}(m);\n    if (left) return left;",
            1,
        )
        first, rest = body.split("\n", 1)
        begun = "  switch (m->entered) {\n  case 0:;\n  m->way_limit = limit;\n"
        end = rest.rindex("  return 0;")
        body = f"{first}\n{begun}{rest[:end]}  }}\n  m->entered = 0;\n{rest[end:]}"
        return f"{text[:begin]}{head}{{\n{body}"

    def _struct(self) -> str:
        text = super()._struct()
        if not self.shared.lanes:
            return text
        lines = [
            "int entered, place; /* where a step and its block go on */",
            "real way_limit, way_whole, way_due, way_until, reached;",
            "int way_event;",
            "int32_t way_which;",
            "int64_t way_rejected;",
        ]
        return text.replace("upbeat_error error;", "\n  ".join(["upbeat_error error;", *lines]), 1)

    def _side_by_side(self, span: Span, watching: Watching, begin: list[str], end: list[str]) -> str:
        """The runs of a range, as many at a time as there are lanes."""
        assert self.tables.pace is not None
        now, stop = f"m->c[{self.tables.now}].r", literal(span.stop)
        go = [
            "for (;;) {",
            "  if (!m->entered) {",
            f"    if (@_commit(m, m->reached, m->reached >= {stop})) return 1;",
            f"    if (!({now} < {stop})) return 0;",
            "  }",
            f"  const int left = @_step(m, {now}, {stop}, &m->reached);",
            "  if (left) return left;",
            "}",
        ]
        cases = []
        for number, (kind, member, until) in enumerate(self.waits, 1):
            cases += [
                f"case {number}: {{",
                f"  {kind} *units[LANES];",
                f"  for (int k = 0; k < count; ++k) {{ units[k] = &all[chosen[k]].{member}; tos[k] = all[chosen[k]].c[{until}].r; }}",
                f"  {kind}_in_lanes(units, tos, count);",
                "  break;",
                "}",
            ]
        most = len(self.waits)
        body = [
            "@ *const all = (@ *)malloc(LANES * sizeof(@));",
            "int at[LANES], chosen[LANES];",
            "real tos[LANES];",
            "for (int l = 0; l < LANES; ++l) at[l] = -1;",
            "for (;;) {",
            "  /* whoever has nothing to do takes the next run, up to where its first unit is to advance */",
            f"  int waiting[{most + 1}] = {{0}}, most = 0;",
            "  for (int l = 0; l < LANES; ++l) {",
            "    while (at[l] < 0 && first < last) {",
            "      at[l] = @_begun(all + l, first++, PASSED) ? 1 : @_go(all + l);",
            "      if (at[l] != WAITS) at[l] = @_ended(all + l, at[l], PASSED);",
            "    }",
            "    if (at[l] >= 0 && ++waiting[all[l].place] > waiting[most]) most = all[l].place;",
            "  }",
            "  if (most == 0) break;",
            "  int count = 0;",
            "  for (int l = 0; l < LANES; ++l) if (at[l] >= 0 && all[l].place == most) chosen[count++] = l;",
            "  switch (most) {",
            *block(cases),
            "  }",
            "  for (int k = 0; k < count; ++k) {",
            "    const int l = chosen[k];",
            "    at[l] = @_go(all + l);",
            "    if (at[l] != WAITS) at[l] = @_ended(all + l, at[l], PASSED);",
            "  }",
            "}",
            "free(all);",
        ]
        body = [line.replace("PASSED", _PASSED) for line in body]
        begin = [line for line in begin if not line.startswith("@ machine")]
        return "\n\n".join(
            [
                function("int @_go(@ *m)", go, "until a unit is to advance, or to the end; 1: it failed"),
                function(
                    f"int @_begun(@ *m, int64_t run, {_ARGUMENTS})",
                    [
                        *begin,
                        "m->entered = m->place = 0;",
                        "m->reached = NOW;".replace("NOW", now),
                        "if (failed) return 1;",
                        "return 0;",
                    ],
                    "a run before its first step",
                ),
                function(
                    f"int @_ended(@ *m, int failed, {_ARGUMENTS})",
                    ["const int64_t run = m->run;", *end, "return -1;"],
                    "a run at its end",
                ),
                function(
                    f"void @_range(int64_t first, int64_t last, {_ARGUMENTS})",
                    body,
                    "several runs side by side",
                ),
            ]
        )

    def kernel(self, span: Span, values: Sequence[str], watching: Watching) -> str:
        """Struct, blocks, loop, and the function of a run; `values` are texts."""
        tables, pace = self.tables, self.tables.pace
        assert pace is not None
        self.waits: list[tuple[str, str, int]] = []
        self._depth, self._stepping = 0, False
        wanted = {tables.start_block, tables.instant_block, *pace[1], *pace[2]}
        blocks = [self._block(name, number) for name, number in tables.blocks.items() if number in wanted]
        parts = [
            self._struct(),
            *self._look(watching),
            *blocks,
            self._loop(),
            self._make("static "),
            self._one(span, values, watching),
        ]
        return "\n\n".join(parts).replace("@", self.name)

    def _look(self, watching: Watching) -> list[str]:
        asked = watching.asked
        if not watching.looks:
            return []
        inputs = ["t", *(f"({number_of(f'c[{cell}]', self.kinds[cell])})" for cell in asked.cells)]
        inputs += [f"m->column{k}" for k in range(asked.kernel.n_inputs - len(inputs))]
        body = ["const cell *const c = m->c;"]
        body += self.kernels.lines(asked.kernel, inputs, lambda k, text: f"const real now{k} = {text};")
        for k, (what, of) in enumerate(asked.statistics):
            stat, now = f"m->stat{k}", f"now{of}"
            match what:
                case What.FINAL:
                    body.append(f"{stat} = {now};")
                case What.INITIAL:
                    body.append(f"if (!m->any) {stat} = {now};")
                case What.MINIMUM | What.MAXIMUM:
                    sign = "<" if what is What.MINIMUM else ">"
                    body.append(f"if (!m->any || {now} {sign} {stat} || {now} != {now}) {stat} = {now};")
                case What.INTEGRAL:
                    middle = f"m->was{of}" if asked.held[of] else f"0.5 * (m->was{of} + {now})"
                    body.append(f"if (m->any) {stat} = {stat} + ({middle}) * (t - m->was_at);")
                case What.FIRST:
                    body.append(f"if ({now} != 0.0 && {stat} != {stat}) {stat} = t;")
                case What.LAST:
                    body.append(f"if ({now} != 0.0) {stat} = t;")
        if asked.sampled:
            body += [
                f"while (m->any && m->sample < {len(asked.grid)} && sample_times[m->sample] < t) {{",
                "  const real past = sample_times[m->sample] - m->was_at;",
                "  const real part = past > 0.0 ? past / (t - m->was_at) : 0.0;",
                *block(self._samples(asked, "part")),
                "  ++m->sample;",
                "}",
            ]
        if not watching.at_end:
            body += [f"m->was{k} = now{k};" for k in range(len(asked.kernel.results))]
            body += ["m->was_at = t;", "m->any = 1;"]
        grid = []
        if asked.sampled:
            lines = block(array([float(t) for t in asked.grid]))
            grid = ["\n".join(["static const real sample_times[] = {", *lines, "};"])]
        return [*grid, function("void @_look(@ *m, real t)", body, "a row: what was asked of every run")]

    def _samples(self, asked: Asked, part: str) -> list[str]:
        lines = []
        for k, of in enumerate(asked.sampled):
            between = f"m->was{of} + {part} * (now{of} - m->was{of})"
            value = f"m->was{of}" if not part or asked.held[of] else f"{part} == 0.0 ? m->was{of} : {between}"
            lines.append(
                f"m->samples[(m->sample * {len(asked.sampled)} + {k}) * m->runs + m->run] = {value};"
            )
        return lines

    def _one(self, span: Span, values: Sequence[str], watching: Watching) -> str:
        tables, asked = self.tables, watching.asked
        assert tables.pace is not None
        now = f"m->c[{tables.now}].r"
        stop = literal(span.stop)
        body = [
            "@ machine, *const m = &machine;",
            f"const real values[] = {{{', '.join(values) or '0.0'}}};",
            "m->run = run;",
            "m->runs = runs;",
            "m->samples = samples;",
            "m->times = times;",
            "m->listed = events;",
        ]
        body += [
            f"m->column{k} = (real)table[{k} * runs + run];"
            for k in range(asked.kernel.n_inputs - 1 - len(asked.cells))
        ]
        size = len(asked.sampled) * len(asked.grid)
        if size:
            body.append(f"for (int32_t k = 0; k < {size}; ++k) samples[k * runs + run] = NAN;")
        if asked.events:
            body += [
                f"for (int32_t k = 0; k < {asked.events}; ++k) {{",
                "  events[k * runs + run] = -1;",
                "  times[k * runs + run] = NAN;",
                "}",
            ]
        body += [f"@_make(m, {literal(span.start)}, values);", f"m->c[{tables.pace[0][0]}].r = {stop};"]
        if self.program.budget is not None:
            allowed = allowance(self.program.budget.step, span.stop - span.start)
            body.append(f"m->c[{self.program.budget.register + 1}].r = {literal(allowed)};")
        begun = f"@_block{tables.start_block}(m)" if tables.start_block >= 0 else "0"
        body.append(f"int failed = {begun};")
        begin, body = body, []
        if watching.looks and watching.at_end:
            body.append(f"@_look(m, {now});")
        if asked.sampled:
            body += [
                f"while (m->any && m->sample < {len(asked.grid)} && sample_times[m->sample] <= m->was_at) {{",
                *block(self._samples(asked, "")),
                "  ++m->sample;",
                "}",
            ]
        body += [f"statistics[{k} * runs + run] = m->stat{k};" for k in range(len(asked.statistics))]
        body += [
            "totals[run] = (double)m->steps;",
            "totals[runs + run] = (double)m->rejected;",
            "totals[2 * runs + run] = (double)m->mark;",
            f"totals[3 * runs + run] = {now};",
            *(["if (m->sound != 0.0) failed = 1;"] if watching.quick else []),
            "faults[run] = failed ? (m->error.fault ? m->error.fault : 1) : 0;",
        ]
        if self.waits:
            return self._side_by_side(span, watching, begin, body)
        loop = [
            f"real reached = {now};",
            "for (;;) {",
            f"  failed = failed || @_commit(m, reached, reached >= {stop});",
            f"  if (failed || !({now} < {stop})) break;",
            f"  failed = @_step(m, {now}, {stop}, &reached);",
            "}",
        ]
        head = (
            "void @_one(int64_t run, int64_t runs, const double *table, double *statistics, double *samples, "
            "int32_t *events, double *times, double *totals, int32_t *faults)"
        )
        return function(head, [*begin, *loop, *body], "a run")


_ARGUMENTS = (
    "int64_t runs, const double *table, double *statistics, double *samples, int32_t *events, double *times, "
    "double *totals, int32_t *faults"
)
_PASSED = "runs, table, statistics, samples, events, times, totals, faults"
_CUDA = f"""extern "C" __global__ void __launch_bounds__(THREADS) upbeat_ensemble({_ARGUMENTS}) {{
  const int64_t run = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (run < runs) {NAME}_one(run, {_PASSED});
}}
"""
_LANES = f"""void upbeat_ensemble(int64_t first, int64_t last, {_ARGUMENTS}) {{
  {NAME}_range(first, last, {_PASSED});
}}
"""
_C = f"""void upbeat_ensemble(int64_t first, int64_t last, {_ARGUMENTS}) {{
  for (int64_t run = first; run < last; ++run) {NAME}_one(run, {_PASSED});
}}
"""
_CUDA_HEAD = """
typedef signed char int8_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MAX 9223372036854775807LL
#ifndef NAN
#define NAN __longlong_as_double(0x7ff8000000000000LL)
#endif
#ifndef INFINITY
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#endif
"""


def printed(
    plan: Plan,
    span: Span,
    asked: Asked,
    columns: int,
    places: Sequence[tuple[int, str, int]],
    target: Target,
    *,
    single: bool = False,
) -> EnsembleSource:
    """A plan for many runs; `ModelError` names what cannot be printed. `places` are those of `Runs`."""
    called = {unit: path_of(plan.scenario, unit) for unit in plan.scenario.units}
    units = entered(plan.program, plan.scenario.units, span.start, called)
    for name, one in units.items():
        if one.inside is not None:
            raise ModelError(f"'{called[name]}' is a scenario with a loop of its own, which stays on the CPU")
    watching = Watching(asked, quick=target == "cuda")
    dialect = replace(_CUDA_DIALECT if target == "cuda" else Dialect(lanes=LANES), single=single)
    context = Context(dialect, telling=watching)
    printer = EnsemblePrinter(context, plan.program, plan.scenario.units, units, called, NAME)
    varied = {(unit, place): column for column, unit, place in places}
    values = [
        f"(real)table[{varied[unit, k]} * runs + run]" if (unit, k) in varied else literal(value)
        for unit, one in units.items()
        for k, value in enumerate(one.values)
    ]
    own = printer.kernel(span, values, watching)
    types = [one.text() for one in context.types.values()]
    lanes = (
        f"#include <stdlib.h>\n#define LANES {LANES}\n#define WAITS 2"
        if printer.waits
        else f"#define LANES {LANES}"
    )
    call = _CUDA if target == "cuda" else _LANES if printer.waits else _C
    text = "\n\n".join([context.shared.text(), *([] if target == "cuda" else [lanes]), *types, own, call])
    text = dialect.spoken(text)
    if target == "cuda":
        if (lines := text.count("\n")) > _LONGEST:
            raise ModelError(
                f"the program of a run has {lines:,} lines, which takes longer to compile for a GPU than it would save"
            )
        text = _as_cuda(text)
    return EnsembleSource(text, target, columns)


_APART = r"fall_of|compute_(?:rank|pick)|discrete\d+_(?:get_\w+|emissions|jump)"
"""Functions that stay by themselves on a GPU."""


_CUDA_DIALECT = Dialect(
    local="static __device__ __forceinline__", table="static __device__ const", quick=True
)


def _as_cuda(text: str) -> str:
    """The C of a run as CUDA C++: without headers, and some functions by themselves."""
    text = re.sub(r"^#include <.*>\n", "", text, flags=re.MULTILINE)
    text = re.sub(rf"__forceinline__ ((?:void|int) (?:{_APART})\()", r"__noinline__ \1", text)
    return _CUDA_HEAD + text
