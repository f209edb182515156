"""The names in equations, and what they mean where they are used."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

from upbeat.core.errors import ExpressionError, ModelError, suggest
from upbeat.core.expr import (
    RESERVED,
    Expr,
    Name,
    Number,
    Table1,
    Table2,
    fits,
    kind_of,
    labelled,
    names,
    parse,
    show,
    substitute,
)
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, check_variable
from upbeat.core.records import dataclass
from upbeat.units.equations.data import TIME, Definition, Output
from upbeat.units.shorthand import Complaints, entries, read_ports, unwrapped

# ----------------------------------------------------------------------------------------------------
# The names that equations may use, and parsing expressions among them.

_INDEXED = re.compile(r"(.*)\[(\d+)\]\Z")


@dataclass(frozen=True)
class Raw:
    """Expressions as written, before anything is known about the names in them."""

    given: tuple[object, ...]
    size: int | None

    @classmethod
    def of(cls, given: object) -> Raw:
        return cls(tuple(given), len(given)) if isinstance(given, (list, tuple)) else cls((given,), None)


@dataclass
class Scope:
    """The names that equations may use, with their sizes, and how to parse an expression among them.

    `stand_ins` take the places of tables that have a problem, so that they are not missed.
    """

    complaints: Complaints
    sizes: dict[str, int | None] = field(default_factory=lambda: {TIME: None})
    sections: dict[str, str] = field(default_factory=dict)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    locals: dict[str, Expr] = field(default_factory=dict)
    tables: dict[str, Table1 | Table2] = field(default_factory=dict)
    stand_ins: dict[str, Table1 | Table2] = field(default_factory=dict)
    units: dict[str, str | None] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)
    outputs: tuple[str, ...] = ()

    def entries(self, section: str, given: object) -> dict[str, Any]:
        """A section as a table. What is wrong with an entry is said once, not again wherever it is used."""
        table = entries(given, section, self.complaints)
        self.mentioned |= table.keys()
        return table

    def declare(self, section: str, name: str, size: int | None, unit: str | None = None) -> None:
        """Add a variable, unless its name is taken."""
        where = f"{section}.{name}"
        if name == TIME or name in RESERVED:
            self.complaints.add(where, f"'{name}' already has a meaning in expressions; choose another name")
        elif name in self.sections:
            self.complaints.add(where, f"the name '{name}' is used twice (also in {self.sections[name]})")
        elif name in self.tables:
            self.complaints.add(where, f"the name '{name}' is used twice (also in tables)")
        else:
            with self.complaints.at(where):
                check_variable(name)  # a local, too, must have the name of a variable
            self.sizes[name] = size
            self.units[name] = unit
            self.sections[name] = section

    def ports(self, section: str, given: object, causality: Causality) -> tuple[Port, ...]:
        """The inputs or the parameters, which equations may use."""
        found = read_ports(self.entries(section, given), causality, section, self.complaints)
        for port in found:
            self.declare(section, port.name, port.size, port.unit)
            self.kinds |= dict.fromkeys(cell_names(port.name, port.size), port.kind)
            if port.kind is Kind.STRING:
                self.complaints.add(
                    f"{section}.{port.name}",
                    "equations work on numbers, not on strings; for a choice between labels write "
                    f'{port.name} = {{ items = ["off", "on"] }}',
                )
            if port.items:
                self.enums[port.name] = port.items
        return found

    def definition(self, section: str, name: str, raw: Raw, whole: bool = False) -> Definition | None:
        """Parse one expression per cell; None, and a complaint, if one of them is wrong.

        With `whole` the name of an array stands for all its cells.
        """
        if raw.size == 0:
            self.complaints.add(f"{section}.{name}", "an array needs at least one expression")
            return None
        only = raw.given[0] if raw.size is None else None
        if whole and isinstance(only, str) and (size := self.sizes.get(only.strip())) is not None:
            cells = tuple(Name(cell) for cell in cell_names(only.strip(), size))
            return Definition(name, (only,), size, True, cells)
        texts, exprs = [], []
        for cell, given in zip(cell_names(name, raw.size), raw.given, strict=True):
            with self.complaints.at(f"{section}.{cell}"):
                text = _text(given)
                texts.append(text)
                exprs.append(self._parse(text))
        if len(exprs) < len(raw.given):
            return None
        return Definition(name, tuple(texts), raw.size, False, tuple(exprs))

    def output(self, port: Port, definition: Definition) -> Output:
        """An output takes its size from its definition, and the unit of the variable that it passes on."""
        where = f"outputs.{port.name}"
        if port.size is not None and port.size != definition.size:
            self.complaints.add(
                where,
                f"size is {port.size}, but there are {definition.size or 1} expression(s); "
                f"give a list of {port.size}",
            )
        for text, cell in zip(definition.texts, definition.cells, strict=False):
            if what := self._misfit(port, cell, text):
                self.complaints.add(where, what)
        first = definition.cells[0]
        passed_on = self.units.get(_base(first.id)) if isinstance(first, Name) else None
        return Output(replace(port, size=definition.size, unit=port.unit or passed_on), definition)

    def _misfit(self, port: Port, cell: Expr, text: str) -> str:
        """Why an expression does not give what the output holds; empty if it does."""
        if port.items:
            done: dict[str, Expr] = {}
            for name, local in self.locals.items():
                done[name] = substitute(local, done)
            if labelled(substitute(cell, done), port.items, lambda name: self.enums.get(_base(name), ())):
                return ""
            labels = ", ".join(port.items)
            return (
                f"'{text}' need not be one of {labels}; choose by index, such as \"1 if {text} > 0 else 0\""
            )
        if fits(cell, self.kinds, port.kind):
            return ""
        found = kind_of(cell, self.kinds).value
        fix = f"round({text})" if port.kind is Kind.INTEGER else f"{text} > 0"
        return f"the output is {port.kind.value}, but '{text}' is {found}; write \"{fix}\""

    def _parse(self, text: str) -> Expr:
        expr = parse(text, tables=self.tables | self.stand_ins, enums=self.enums)
        wrong = [hint for used in sorted(names(expr)) if (hint := self._objection(used))]
        if wrong:
            raise ExpressionError("; ".join(wrong) + f" (in {text!r})", text)
        return expr

    def _objection(self, used: str) -> str:
        """What is wrong with a name in an expression; empty if nothing is."""
        indexed = _INDEXED.match(used)
        base = indexed[1] if indexed else used
        if base not in self.sizes:
            if base in self.mentioned:
                return ""
            if base in self.outputs:
                return f"'{base}' is an output; to use it in equations, define it under locals"
            return f"unknown name '{base}'. {suggest(base, self.sizes, 'names')}"
        size = self.sizes[base]
        if size is None:
            return f"'{base}' is not an array; write {base} instead of {used}" if indexed else ""
        if indexed is None:
            return f"'{base}' is an array of {size}; write {base}[0] … {base}[{size - 1}]"
        beyond = int(indexed[2]) >= size
        return f"{used} is beyond the end: the last one is {base}[{size - 1}]" if beyond else ""


def _base(name: str) -> str:
    """The variable that a cell belongs to."""
    return name.partition("[")[0]


def _text(given: object) -> str:
    """An expression as text; numbers and expression trees are fine, too."""
    given = unwrapped(given)
    if isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (int, float)):
        return repr(given)
    if isinstance(given, Expr):
        return show(given)
    raise ModelError(f"expected an expression, not {given!r}")


# ----------------------------------------------------------------------------------------------------
# The names that conditions and actions of events may use, and reading such expressions.


@dataclass
class Vocabulary:
    """What expressions may name, and what stands behind locals.

    `variables` can be assigned to, and `own` names follow from something else. What reacts to events is
    called a `reaction`: "a transition", "an event".
    """

    scope: Scope
    variables: Mapping[str, Port]
    events: Mapping[str, Port]
    signals: Collection[str]
    sent: Mapping[str, Port]
    locals: dict[str, Expr] = field(default_factory=dict)
    own: Collection[str] = ()
    reaction: str = "a transition"

    @property
    def complaints(self) -> Complaints:
        return self.scope.complaints

    def expression(
        self, where: str, key: str, given: object, heard: Collection[str] = (), still: str = ""
    ) -> Expr | None:
        """One expression over base names; None, and a complaint, if something is wrong with it.

        `heard`: the events whose payload it may read. `still`: why it may not read what moves by itself.
        """
        definition = self.scope.definition(where, key, Raw((given,), None))
        if definition is None:
            return None
        expr = substitute(definition.cells[0], self.locals)
        here = f"{where}.{key}"
        bases = sorted({name.partition("[")[0] for name in names(expr)})
        good = True
        for base in bases:
            if base in self.events and base not in heard:
                good = False
                self.complaints.add(
                    here,
                    f"'{base}' is an event, which has a value only when it happens: it can be read only in "
                    f'{self.reaction} with on = "{base}" and no other event',
                )
            elif still and (base in self.signals or base in self.own):
                good = False
                what = "a signal" if base in self.signals else "the unit's own"
                self.complaints.add(here, f"'{base}' is {what}, but {still}")
        return expr if good else None

    def value(
        self, where: str, key: str, given: object, port: Port, heard: Collection[str] = (), still: str = ""
    ) -> Expr | None:
        """An expression whose value `port` can hold; of an enumeration, also a label."""
        here = f"{where}.{key}"
        if port.items and isinstance(given, str):
            text = given.strip()
            bare = text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text
            quoted = bare != text
            if bare in port.items and not quoted and bare in self.scope.sizes:
                what = f"'{bare}' is a label of '{port.name}' and a name in expressions; for the label write"
                self.complaints.add(here, f"{what} \"'{bare}'\"")
                return None
            if bare in port.items:
                return Number(float(port.labels.code(bare)))
            if quoted or (bare.isidentifier() and bare not in {*self.scope.sizes, *self.scope.mentioned}):
                hint = suggest(bare, port.items, "labels")
                self.complaints.add(here, f"'{bare}' is not a label of '{port.name}'. {hint}")
                return None
        expr = self.expression(where, key, given, heard, still)
        if expr is None:
            return None
        if objection := self._misfit(port, expr, str(given)):
            self.complaints.add(here, objection)
            return None
        return expr

    def truth(self, where: str, key: str, given: object, heard: Collection[str] = ()) -> Expr | None:
        """A condition."""
        expr = self.expression(where, key, given, heard)
        if expr is not None and not fits(expr, self.scope.kinds, Kind.BOOLEAN):
            found = kind_of(expr, self.scope.kinds).value
            self.complaints.add(
                f"{where}.{key}", f"a condition is true or false, but '{given}' is {found}; compare it"
            )
            return None
        return expr

    def assignments(
        self, where: str, given: object, heard: Collection[str] = (), still: str = ""
    ) -> tuple[tuple[str, Expr], ...]:
        """New values of variables, as in ``{ n = "n + 1" }``."""
        if given is None:
            return ()
        if not isinstance(given, Mapping):
            self.complaints.add(where, f'expected assignments such as {{ n = "n + 1" }}, not {given!r}')
            return ()
        found = []
        for name, value in given.items():
            port = self.variables.get(name)
            if port is None:
                if objection := self._no_variable(str(name)):
                    self.complaints.add(f"{where}.{name}", objection)
                continue
            expr = self.value(where, name, value, port, heard, still)
            if expr is not None:
                found.append((name, expr))
        return tuple(found)

    def _no_variable(self, name: str) -> str:
        if name in self.events or name in self.signals:
            return f"'{name}' is an input, and the unit cannot assign to it; keep a variable of its own"
        if name in self.sent:
            return f"'{name}' is an event output; {self.reaction} sends it with emit"
        section = self.scope.sections.get(name)
        if name == TIME or name in self.own:
            return f"'{name}' goes by itself and cannot be assigned to"
        if section == "parameters":
            return f"'{name}' is a parameter, which stays as it is; make it a variable"
        if section == "locals" or name in self.scope.outputs:
            return f"'{name}' is computed from an expression; assign to the variables in it"
        if name in self.scope.mentioned:
            return ""  # what is wrong with it has been said
        return f"there is no variable '{name}'. {suggest(name, self.variables, 'variables')}"

    def _misfit(self, port: Port, expr: Expr, text: str) -> str:
        if port.items:
            if labelled(expr, port.items, lambda name: self.scope.enums.get(name.partition("[")[0], ())):
                return ""
            return f"'{text}' need not be one of {', '.join(port.items)}; give a label, or choose by index"
        if fits(expr, self.scope.kinds, port.kind):
            return ""
        fix = f"round({text})" if port.kind is Kind.INTEGER else f"{text} > 0"
        found = kind_of(expr, self.scope.kinds).value
        return f"'{port.name}' is {port.kind.value}, but '{text}' is {found}; write \"{fix}\""
