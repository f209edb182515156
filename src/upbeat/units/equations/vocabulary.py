"""The names that conditions and actions of events may use, and reading such expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from upbeat.core.errors import suggest
from upbeat.core.expr import Expr, Number, fits, kind_of, labelled, names, substitute
from upbeat.core.ports import Kind, Port
from upbeat.units.equations.data import TIME
from upbeat.units.equations.scope import Raw, Scope
from upbeat.units.shorthand import Complaints


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
