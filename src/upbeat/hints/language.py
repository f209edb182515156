"""Hints as data, and their text: what engineers know about a system, in their own words.

    Hint ExecRate {
      description "The controller is software."
      statements {
        Property rate := FMUProperty Controller.exec_rate == val 1 kHz
      }
      scope Globally
      pattern Universality:always-the-case-that rate holds
    }

A statement is about a unit (`Fact`), about two ports that exchange a power (`Bonded`), about a signal that
moves smoothly (`Smooth`), or any condition over ports in the language of properties (`Condition`). The same
in Python is ``Hint("ExecRate", {"rate": "FMUProperty Controller.exec_rate == val 1 kHz"})``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from upbeat.core.errors import (
    ExpressionError,
    FileProblem,
    InvalidInput,
    Problem,
    Problems,
    ScenarioError,
    cannot_read,
    check_type,
    suggest,
)
from upbeat.core.expr import Apply, Expr, Name, Number, Op
from upbeat.core.expr.operations import Level
from upbeat.core.expr.parse import MAX_TEXT, Token
from upbeat.core.measure import MeasureError, conversion, in_si
from upbeat.core.names import objection_to
from upbeat.core.ports import Causality
from upbeat.core.records import dataclass
from upbeat.hints.patterns import MAX_TIMES, Misread, Pattern, Scope, occasion, read_pattern, read_scope
from upbeat.properties.formula import (
    FUTURE,
    QUANTITY,
    WHOLE,
    Combined,
    Derived,
    Formula,
    Predicate,
    Reader,
    Signal,
    Temporal,
    parse,
    parts_of,
    read_formula,
    signals_of,
)
from upbeat.properties.robustness import Property
from upbeat.scenario.bonds import power_bonds
from upbeat.scenario.events.declared import Readable
from upbeat.scenario.properties import read_properties
from upbeat.scenario.scenario import Scenario

Kind = Literal["Property", "Event"]

FACTS: Final[dict[str, tuple[str, str]]] = {
    "exec_rate": ("Hz", "it is software that runs so often"),
    "time_constant": ("s", "its quickest motion takes so long"),
    "shortest_step": ("s", "it must not be called more often"),
    "rollback": ("", "whether it can be set back: true or false"),
}
"""What can be said about units: the unit of measure of the value, and what it means."""


@dataclass(frozen=True)
class Fact:
    """Something about a unit, in SI units: ``FMUProperty Controller.exec_rate == val 1 kHz``."""

    unit: str
    name: str
    value: float | bool

    def __str__(self) -> str:
        value = str(self.value).lower() if isinstance(self.value, bool) else f"val {self.value!r}"
        return f"FMUProperty {self.unit}.{self.name} == {value} {FACTS[self.name][0]}".rstrip()


@dataclass(frozen=True)
class Bonded:
    """Two ports whose product is a power: ``Plant.f == PowerBondSuggestions with Load.v``. Each is the output
    that gives one of the two, or the input that takes it."""

    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.one} == PowerBondSuggestions with {self.other}"


@dataclass(frozen=True)
class Smooth:
    """A signal without corners, as far as steps show it: ``smooth(Load.x)``."""

    of: str

    def __str__(self) -> str:
        return f"smooth({self.of})"


@dataclass(frozen=True)
class Condition:
    """What is true or false at a time, in the language of properties."""

    text: str
    signals: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


About = Fact | Bonded | Smooth | Condition


@dataclass(frozen=True)
class Statement:
    """Something that a hint says, as an event (it happens) or a property (it is so)."""

    about: About
    kind: Kind = "Property"
    line: int | None = field(default=None, compare=False, repr=False)
    column: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Hint:
    """What somebody knows about a system: statements, when they hold (`scope`) and how (`pattern`).

        Hint("calm", {"calm": "smooth(Load.x)"})
        Hint("settles", {"step": "time >= 1 s", "close": "abs(Load.x - 1) < 2 mm"},
             scope="After step", pattern="SteadyState: close holds in the long run")

    `statements` may be one text. Unless told, a hint is about its last statement, which holds always.
    """

    name: str
    statements: Mapping[str, Statement]
    description: str = ""
    scope: Scope = field(default_factory=Scope)
    pattern: Pattern = field(default_factory=Pattern)
    line: int | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        name: str,
        statements: Mapping[str, Any] | str,
        description: str = "",
        scope: Scope | str = Scope(),  # noqa: B008  # frozen
        pattern: Pattern | str | None = None,
        line: int | None = None,
    ) -> None:
        check_type(name, str, "the name of a hint")
        texts = {name: statements} if isinstance(statements, str) else statements
        check_type(statements, (str, Mapping), "the statements of a hint")
        check_type(description, str, "the description of a hint")
        check_type(scope, (str, Scope), "the scope of a hint")
        check_type(pattern, (str, Pattern, type(None)), "the pattern of a hint")
        set_ = object.__setattr__
        try:
            if objection := objection_to(name):
                raise Misread(f"{name!r} is not a name for a hint", f"{objection.capitalize()}.")
            if not texts:
                raise Misread(f"the hint '{name}' says nothing", "Give it a statement.")
            made = {str(key): _statement(one) for key, one in texts.items()}
            last = next(reversed(made))
            read = read_scope(scope) if isinstance(scope, str) else scope
            if pattern is None:
                pattern = Pattern("Universality", {"p": last})
            how = read_pattern(pattern, last) if isinstance(pattern, str) else pattern
            _fit(made, read, how)
        except Misread as wrong:
            raise ScenarioError([Problem(("hints", str(name)), wrong.what, wrong.hint)], "hints") from None
        for key, value in zip(
            ("name", "statements", "description", "scope", "pattern", "line"),
            (name, made, str(description), read, how, line),
            strict=True,
        ):
            set_(self, key, value)

    def __str__(self) -> str:
        lines = [f"Hint {self.name} {{"]
        lines += [f'  description "{self.description}"'] if self.description else []
        lines += ["  statements {"]
        for name, one in self.statements.items():
            lines.append(f"    {one.kind} {name} := {one.about}")
        return "\n".join([*lines, "  }", f"  scope {self.scope}", f"  pattern {self.pattern}", "}"])

    @property
    def about(self) -> tuple[About, ...]:
        """What its pattern is about."""
        return tuple(self.statements[name].about for name in self.pattern.statements)

    def formula(self, span: float = math.inf) -> str:
        """What a trace of `span` seconds should be like, in the language of properties; empty, if it is about
        units alone."""
        if not isinstance(self.about[0], Condition):
            return ""
        return self.pattern.formula(self.scope, self._texts, span)

    @property
    def _texts(self) -> dict[str, str]:
        return {name: str(one.about) for name, one in self.statements.items()}

    @property
    def occasion(self) -> tuple[str, str]:
        """What has to happen for it to ask for anything, in the language of properties, and what to say of a
        trace where it does not; empty, if it asks for something whatever happens."""
        return occasion(self.pattern, self.scope, self._texts) if self.formula() else ("", "")


def _fit(statements: Mapping[str, Statement], scope: Scope, pattern: Pattern) -> None:
    """Refuse what has no meaning together."""
    for name in (*scope.statements, *pattern.statements):
        if name not in statements:
            raise Misread(f"there is no statement '{name}'", suggest(name, statements, "statements"))
    plain = not scope.statements and pattern.name == "Universality"
    for name in (*scope.statements, *pattern.statements):
        about = statements[name].about
        if not isinstance(about, Condition) and not (plain and name in pattern.statements):
            raise Misread(
                f"'{about}' is so always, and has no times at which it holds",
                f"Write scope Globally, and pattern Universality: always the case that {name} holds.",
            )
    times = pattern.places.get("n", 0) if scope.statements or "when" in pattern.places else 0
    if times > MAX_TIMES:
        raise Misread(
            f"{times} times are more than can be followed within a part of a run",
            f"At most {MAX_TIMES}; Globally there is no limit.",
        )
    if pattern.name == "SteadyState" and scope.ends:
        raise Misread(f"the long run goes with Globally and After, not with '{scope}'")


# ----------------------------------------------------------------------------------------------------
# Statements.

_UNIT, _PORT = r"[A-Za-z_]\w*", r"[A-Za-z_]\w*(?:\[\d+\])?(?:\.[A-Za-z_]\w*(?:\[\d+\])?)*|`[^`]*`"
_FACT = re.compile(
    rf"(?:FMU|Unit)Property\s+(?P<unit>[A-Za-z_][\w.]*)\.(?P<name>{_UNIT})\s*==\s*(?:val\b\s*)?(?P<value>\S+)"
    r"\s*(?P<measure>\S.*)?",
    re.S,
)
_BOND = re.compile(rf"(?P<one>{_PORT})\s*==\s*PowerBondSuggestions\s+with\s+(?P<other>{_PORT})")
_SMOOTH = re.compile(rf"smooth\s*\(\s*(?P<of>{_PORT})\s*\)")
_SPELLED: Final = {"hz": "Hz", "khz": "kHz", "mhz": "MHz", "ghz": "GHz", "sec": "s", "msec": "ms"}


def _statement(given: Any) -> Statement:
    if isinstance(given, Statement):
        return given
    if isinstance(given, (Fact, Bonded, Smooth, Condition)):
        return Statement(given)
    if not isinstance(given, str):
        raise Misread(f"a statement is a text, not {given!r}", 'Write "smooth(load.x)", or "load.x < 3 cm".')
    kind: Kind = "Property"
    if found := re.match(r"\s*(Event|Property)\s+(?=\S)", given):
        kind = "Event" if found[1] == "Event" else "Property"
        given = given[found.end() :]
    return Statement(read_statement(given), kind)


def read_statement(text: str) -> About:
    """What a statement is about; `Misread` says what is wrong with its text, and where."""
    start = len(text) - len(text.lstrip())
    body = text.strip()
    if not body:
        raise Misread("the statement is empty", "Write what is so, such as load.x < 3 cm.")
    if body.startswith(("FMUProperty", "UnitProperty")):
        found = _FACT.fullmatch(body)
        if found is None:
            example = "FMUProperty Controller.exec_rate == val 1 kHz"
            raise Misread("this says nothing about a unit", f"Write {example}.", start)
        return _fact(found, start)
    if "PowerBondSuggestions" in body:
        found = _BOND.fullmatch(body)
        if found is None:
            example = "Plant.f == PowerBondSuggestions with Load.v"
            raise Misread("this is no power bond", f"Write {example}.", start)
        return Bonded(found["one"].strip("`"), found["other"].strip("`"))
    if found := _SMOOTH.fullmatch(body):
        return Smooth(found["of"].strip("`"))
    try:
        node = read_formula(_Words(text, {}))
    except ExpressionError as error:
        raise Misread(error.reason, "", start if error.column is None else error.column) from None
    return Condition(str(node), signals_of(node))


def _fact(found: re.Match[str], start: int) -> Fact:
    unit, name, value, measure = found["unit"], found["name"], found["value"], found["measure"]
    if name not in FACTS:
        known = ", ".join(f"{one} ({what})" for one, (_, what) in FACTS.items())
        raise Misread(
            f"nothing is known about '{name}' of a unit",
            f"{suggest(name, FACTS, 'names')} They mean: {known}.",
            start + found.start("name"),
        )
    wanted = FACTS[name][0]
    if not wanted:
        if value not in ("true", "false") or measure:
            raise Misread(f"{name} is true or false", f"Write {name} == true.", start + found.start("value"))
        return Fact(unit, name, value == "true")
    try:
        number = float(value)
    except ValueError:
        at = start + found.start("value")
        raise Misread(f"{value!r} is no number", f"Write {name} == val 2 {wanted}.", at) from None
    given = (measure or "").strip()
    given = _SPELLED.get(given.lower(), given)
    if not given:
        at = start + found.end("value")
        raise Misread("the unit of measure is missing", f"Write val {value} {wanted}.", at)
    try:
        number *= conversion(given, wanted).scale
    except MeasureError as error:
        at = start + found.start("measure")
        raise Misread(str(error), f"Write val {value} {wanted}.", at) from None
    if not 0 < number < math.inf:
        raise Misread(f"{name} is more than 0", "", start + found.start("value"))
    return Fact(unit, name, number)


class _Words(Reader):
    """The language of properties, and words of hints: ``val 3 cm``, ``derivative(x)``, ``energy(F, v)``"""

    def prefix(self, lowest: Level) -> Expr:
        token = self.token
        if token.kind == "name" and token.text == "val":
            self.take()
            minus = self.accept("-")
            if self.token.kind != "number":
                self.fail("a value stands behind val: val 3 cm")
            found = super().prefix(Level.UNARY)
            return self.grown(Apply(Op.NEG, (found,))) if minus else found
        if token.kind == "name" and token.text in ("derivative", "energy"):
            self.take()
            return self.derivative(token) if token.text == "derivative" else self.energy(token)
        if token.kind == "name" and token.text == "smooth":
            self.fail(
                "smooth(unit.port) stands alone, as a statement of its own; a limit on it is roughness(…)"
            )
        return super().prefix(lowest)

    def derivative(self, token: Token) -> Expr:
        self.expect("(", "write derivative(…)")
        of = self.signal(self.expression(Level.TERNARY), token)
        self.expect(")", "a parenthesis was opened before")
        return self.made(Derived("der", of))

    def energy(self, token: Token) -> Expr:
        self.expect("(", "write energy(effort, flow)")
        effort = self.expression(Level.TERNARY)
        self.expect(",", "an energy is that of an effort and a flow: energy(F, v)")
        flow = self.expression(Level.TERNARY)
        self.expect(")", "a parenthesis was opened before")
        power = self.signal(self.grown(Apply(Op.MUL, (effort, flow))), token)
        return self.made(Derived("integral", power))


# ----------------------------------------------------------------------------------------------------
# Texts of hints.

_SPACE = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*)+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_STRING = re.compile(r'"([^"\n]*)"')
_NEXT = re.compile(r"\}|(?<=\s)(?:Event|Property)\s+\w+\s*:=")
_KEY = re.compile(r"\}|(?<=\s)(?:description|statements|scope|pattern)\b")
KEY: Final = ("hints",)
"""Where hints are in a scenario file."""
_PARTS: Final = ("description", "statements", "scope", "pattern")


class _Source:
    """A text of hints, read from its beginning to its end."""

    def __init__(self, text: str) -> None:
        # Remarks become spaces, so that nothing else has to know of them and columns stay.
        quoted = r'"[^"\n]*"|`[^`\n]*`'
        blank = lambda found: found[0] if found[0][0] in '"`' else " " * len(found[0])  # noqa: E731
        self.text = re.sub(rf"{quoted}|//[^\n]*|#[^\n]*", blank, text)
        self.at = 0
        self.skip()

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = self.at if found is None else found.end()

    def take(self, pattern: re.Pattern[str], what: str, hint: str = "") -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise Misread(f"{what} is missing{self.seen()}", hint, self.at)
        self.at = found.end()
        self.skip()
        return found[found.re.groups]

    def symbol(self, symbol: str, hint: str = "") -> None:
        self.take(re.compile(re.escape(symbol)), f"'{symbol}'", hint)

    def seen(self) -> str:
        rest = self.text[self.at :].split(None, 1)
        return f" before {rest[0][:30]!r}" if rest else " at the end"

    def until(self, pattern: re.Pattern[str]) -> tuple[str, int]:
        """The text up to something, and where it begins."""
        found = pattern.search(self.text, self.at)
        if found is None:
            raise Misread("'}' is missing at the end", "", len(self.text))
        begin, self.at = self.at, found.start()
        body = self.text[begin : self.at]
        self.skip()
        return body.rstrip(), begin

    def place(self, at: int) -> tuple[int, int]:
        line = self.text.count("\n", 0, at) + 1
        return line, at - (self.text.rfind("\n", 0, at) + 1) + 1


def parse_hints(text: str, source: str = "hints") -> tuple[Hint, ...]:
    """The hints in a text; every mistake that is found is told with its line and column."""
    check_type(text, str, "hints")
    if len(text) > 10 * MAX_TEXT:
        raise FileProblem(f"{source}: has {len(text):,} characters, which no hints need")
    reading, problems = _Source(text), list[Problem]()
    found: dict[str, Hint] = {}
    while reading.at < len(reading.text):
        begin = reading.at
        try:
            hint = _hint(reading)
            if hint.name in found:
                raise Misread(f"there are two hints '{hint.name}'", "Choose another name.", begin)
            found[hint.name] = hint
        except Misread as wrong:
            line, column = reading.place(wrong.at)
            problems.append(Problem((), wrong.what, wrong.hint, line, column))
            later = re.compile(r"^[ \t]*Hint\b", re.M).search(reading.text, max(reading.at, begin + 4))
            if later is None:
                break
            reading.at = later.start()
            reading.skip()
    if problems:
        raise ScenarioError(problems, source)
    if not found:
        raise FileProblem(f"{source}: there are no hints. Write Hint NAME {{ statements {{ … }} }}")
    return tuple(found.values())


def _hint(reading: _Source) -> Hint:
    begin = reading.at
    if reading.take(_WORD, "'Hint'", "A hint begins with Hint NAME {.") != "Hint":
        raise Misread("a hint begins with Hint NAME {", "", begin)
    name = reading.take(_WORD, "the name of the hint")
    reading.symbol("{", "A hint is written Hint NAME { … }.")
    statements: dict[str, Statement] = {}
    parts: dict[str, tuple[str, int]] = {}
    while not reading.text.startswith("}", reading.at):
        at = reading.at
        key = reading.take(_WORD, "'}'")
        if key not in _PARTS:
            raise Misread(f"a hint has no {key!r}", suggest(key, _PARTS, "parts"), at)
        if key in parts:
            raise Misread(f"there are two {key} in the hint '{name}'", "", at)
        if key == "description":
            parts[key] = reading.take(_STRING, "a text in quotation marks", 'Write description "…".'), at
        elif key == "statements":
            parts[key] = "", at
            reading.symbol("{", "Statements are written statements { Property P := … }.")
            while not reading.text.startswith("}", reading.at):
                _read_statement(reading, statements)
            reading.symbol("}")
        else:
            parts[key] = reading.until(_KEY)
    reading.symbol("}")
    if not statements:
        raise Misread(f"the hint '{name}' says nothing", "Give it statements { Property P := … }.", begin)

    def part(key: str, read: Any, usual: Any, *more: Any) -> Any:
        if key not in parts:
            return usual
        body, at = parts[key]
        try:
            return read(body, *more)
        except Misread as wrong:
            raise Misread(wrong.what, wrong.hint, at + wrong.at) from None

    last = next(reversed(statements))
    scope = part("scope", read_scope, Scope())
    pattern = part("pattern", read_pattern, Pattern("Universality", {"p": last}), last)
    try:
        _fit(statements, scope, pattern)
    except Misread as wrong:
        raise Misread(wrong.what, wrong.hint, parts.get("pattern", ("", begin))[1]) from None
    description = parts.get("description", ("", 0))[0]
    return Hint(name, statements, description, scope, pattern, reading.place(begin)[0])


def _read_statement(reading: _Source, statements: dict[str, Statement]) -> None:
    at = reading.at
    kind = reading.take(_WORD, "'Event' or 'Property'", "Write Property NAME := …, or Event NAME := ….")
    if kind not in ("Event", "Property"):
        raise Misread(f"a statement is an Event or a Property, not {kind!r}", "", at)
    where = reading.at
    name = reading.take(_WORD, "the name of the statement")
    if name in statements:
        raise Misread(f"there are two statements '{name}'", "Choose another name.", where)
    reading.symbol(":=", f"Write {kind} {name} := ….")
    body, begin = reading.until(_NEXT)
    try:
        about = read_statement(body)
    except Misread as wrong:
        raise Misread(wrong.what, wrong.hint, begin + wrong.at) from None
    line, column = reading.place(begin)
    statements[name] = Statement(about, "Event" if kind == "Event" else "Property", line, column)


def read_hints(given: str | Path) -> tuple[Hint, ...]:
    """The hints in a file. All its problems are reported together, with line and column."""
    path = Path(given)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from None
    try:
        return parse_hints(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileProblem(f"{path}: line {line}: is not a text in UTF-8; save it as UTF-8") from None


def hints_of_table(given: object, source: str = "") -> tuple[Hint, ...]:
    """The hints in a table ``[hints]``: a statement, or a table with the parts of a hint, for each name."""
    problems = Problems()
    found: list[Hint] = []
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f'hints are a table: [hints] with lines such as calm = "smooth(load.x)", not {given!r}'
        )
    for name, entry in given.items():
        table = entry if isinstance(entry, Mapping) else {"statements": entry}
        wrong = [key for key in table if key not in _PARTS]
        if wrong:
            problems.add(
                ("hints", name, wrong[0]), f"a hint has no '{wrong[0]}'", suggest(wrong[0], _PARTS, "parts")
            )
            continue
        try:
            found.append(Hint(name, **{"statements": {}, **table}))
        except ScenarioError as error:
            problems.found += error.problems
        except InvalidInput as error:
            problems.add(("hints", name), str(error))
    problems.raise_if_any(source)
    return tuple(found)


# ----------------------------------------------------------------------------------------------------
# Hints about a scenario.


class Read(NamedTuple):
    """Hints that fit a scenario, and their conditions as properties of it, which have the names of hints."""

    hints: tuple[Hint, ...]
    properties: tuple[Property, ...]
    occasions: tuple[Property, ...] = ()
    """What has to happen for them to ask for anything, under the same names."""


def about(
    scenario: Scenario, hints: Sequence[Hint], *, span: float = math.inf, source: str = "hints"
) -> Read:
    """The hints, looked up in a scenario. Names that do not exist, units of measure that do not fit,
    contradictions and what takes longer to tell than `span` seconds are told in one `ScenarioError`."""
    problems: list[Problem] = []
    properties: list[Property] = []
    occasions: list[Property] = []
    parts = scenario.parts
    directory = Readable(parts.units, parts.inputs, ())
    directory.driven = {f"{one.unit}.{one.port}" for one in parts.connections}
    for hint in hints:
        for name, one in hint.statements.items():
            for what, advice in _unknown(scenario, one.about):
                problems.append(Problem((*KEY, hint.name, name), what, advice, one.line, one.column))
    known = {problem.where[1] for problem in problems}
    taken = {port.name for port in parts.inputs} | {one.port.name for one in parts.outputs}
    taken |= {event.name for event in parts.events} | {one.name for one in parts.properties}
    for hint in hints:
        text = hint.formula(span)
        if not text or hint.name in known:
            continue
        own = Problems()
        made = read_properties({hint.name: text}, directory, parts.outputs, own, taken)
        statement = hint.statements[hint.pattern.statements[0]]
        for problem in own.found:
            problems.append(
                replace(problem, where=(*KEY, hint.name), line=statement.line, column=statement.column)
            )
        for asked in made:
            if (ahead := needed(asked)) > span:
                problems.append(
                    Problem(
                        (*KEY, hint.name),
                        f"the run is too short for it: it takes {ahead:g} s to tell, and the run lasts "
                        f"{span:g} s",
                        "Run for longer, or ask for less.",
                        statement.line,
                        statement.column,
                    )
                )
            properties.append(asked)
        if made and (when := hint.occasion[0]):
            occasions += read_properties({hint.name: when}, directory, parts.outputs, own, taken)
    problems += dict.fromkeys(_contradictions(hints))
    if problems:
        raise ScenarioError(problems, source)
    return Read(tuple(hints), tuple(properties), tuple(occasions))


def needed(of: Property) -> float:
    """How many seconds of a run it takes to know a property at least; windows without an end take any."""

    def seconds(node: Formula) -> float:
        match node:
            case Predicate():
                return 0.0
            case Combined(parts=parts):
                return max(map(seconds, parts))
            case Temporal(op, parts, window):
                inner = max(map(seconds, parts))
                if op not in FUTURE:
                    return max(inner, window.first)
                return inner + (window.first if window.last == math.inf else window.last)

    return seconds(of.formula)


def _unknown(scenario: Scenario, one: About) -> Iterator[tuple[str, str]]:
    """What a statement names and a scenario does not have, or does not have so."""
    ports = known_ports(scenario)
    if isinstance(one, Fact):
        units = [name for name in scenario.units if name not in scenario.added_units]
        if one.unit not in units:
            yield f"there is no unit '{one.unit}'", suggest(one.unit, units, "units")
        return
    names: tuple[str, ...] = ()
    if isinstance(one, Bonded):
        names = (one.one, one.other)
    elif isinstance(one, Smooth):
        names = (one.of,)
    else:
        own = {port.name for port in (*scenario.inputs, *(o.port for o in scenario.outputs))}
        names = tuple(sorted(n for n in one.signals if n.partition("[")[0] not in own and n not in own))
    missing = [name for name in names if name not in ports and name.partition("[")[0] not in ports]
    for name in missing:
        yield f"there is no port '{name}'", suggest(name, ports, "ports")
    if isinstance(one, Bonded) and not missing:
        try:
            power_bonds(scenario, [outputs_of(scenario, one)])
        except InvalidInput as error:
            yield str(error), "Name two outputs, or the inputs that take them."


def outputs_of(scenario: Scenario, bond: Bonded) -> tuple[str, str]:
    """Both outputs of a bond, whichever ports it is described by; `InvalidInput` if there are none."""
    return _output_of(scenario, bond.one), _output_of(scenario, bond.other)


def _output_of(scenario: Scenario, name: str) -> str:
    unit, port, causality = known_ports(scenario)[name]
    if causality is not Causality.INPUT:
        return name
    found = [one.sources for one in scenario.connections if (one.unit, one.port) == (unit, port)]
    sources = [end for ends in found for end in ends if end[0] in scenario.units]
    if len(sources) != 1 or sources[0][0] in scenario.added_units:
        raise InvalidInput(
            f"'{name}' belongs to no power bond: it is an input that no output goes to by itself"
        )
    return scenario.column(*sources[0])


def known_ports(scenario: Scenario) -> dict[str, tuple[str, str, Causality]]:
    """The ports of a scenario by their names: unit, port, and whether it is an input or an output."""
    return {
        scenario.column(unit, port.name): (unit, port.name, port.causality)
        for unit, model in scenario.units.items()
        for port in model.ports
        if unit not in scenario.added_units
    }


# ----------------------------------------------------------------------------------------------------
# Hints that cannot all be true.


class _Range(NamedTuple):
    """Between which numbers a signal is, and whether they belong to it."""

    low: float
    high: float
    low_too: bool = False
    high_too: bool = False

    def both(self, other: _Range) -> _Range:
        """What is in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return _Range(
            low,
            high,
            all(one.low < low or one.low_too for one in (self, other)),
            all(one.high > high or one.high_too for one in (self, other)),
        )

    @property
    def empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and not (self.low_too and self.high_too))


class _Claim(NamedTuple):
    """What a hint says of the values of a signal: always, or some time."""

    hint: Hint
    always: bool
    signal: str
    range: _Range


def _contradictions(hints: Sequence[Hint]) -> Iterator[Problem]:
    facts: dict[tuple[str, str], tuple[Hint, Fact]] = {}
    bonds: dict[str, tuple[Hint, Bonded]] = {}
    claims: list[_Claim] = []
    shapes: dict[tuple[str, str], Hint] = {}
    for hint in hints:
        for one in hint.about:
            if isinstance(one, Fact):
                first = facts.setdefault((one.unit, one.name), (hint, one))
                if first[1] != one:
                    yield _against(first[0], hint, f"'{first[1]}' and '{one}'")
            elif isinstance(one, Bonded):
                for port in (one.one, one.other):
                    before = bonds.setdefault(port, (hint, one))
                    if {before[1].one, before[1].other} != {one.one, one.other}:
                        yield _against(before[0], hint, f"{port} belongs to one power bond only")
        about_ = hint.about[0]
        pattern = hint.pattern.name
        limited = hint.scope.statements or "when" in hint.pattern.places
        if not isinstance(about_, Condition) or limited or pattern not in _PLAIN:
            continue
        never = [other for other in _PLAIN if "Absence" in (pattern, other) and pattern != other]
        told = [shapes[about_.text, other] for other in never if (about_.text, other) in shapes]
        for first_hint in told[:1]:
            when = "some time" if "Existence" in (pattern, first_hint.pattern.name) else "always"
            yield _against(first_hint, hint, f"'{about_.text}' {when} and never")
        shapes[about_.text, pattern] = hint
        for signal, always, span in _said(parse(about_.text), pattern == "Absence", pattern != "Existence"):
            claim = _Claim(hint, always, signal, span)
            for other in (*claims, claim):
                if (
                    other.signal != signal
                    or other.hint in told
                    or not (other.always or always or other is claim)
                ):
                    continue
                if other.range.both(span).empty:
                    yield _against(other.hint, hint, f"{signal} has no value that suits both")
            claims.append(claim)
    for (unit, name), (hint, fact) in facts.items():
        limit = facts.get((unit, "shortest_step"))
        if name == "exec_rate" and limit is not None and fact.value * limit[1].value > 1.0 + 1e-9:
            yield _against(hint, limit[0], f"'{fact}' and '{limit[1]}'")


_PLAIN: Final = ("Universality", "Absence", "Existence")


def _against(one: Hint, other: Hint, why: str) -> Problem:
    where = (*KEY, other.name)
    if one is other:
        return Problem(where, f"the hint '{one.name}' contradicts itself: {why}", "", one.line)
    return Problem(
        where, f"the hints '{one.name}' and '{other.name}' contradict each other: {why}", "", other.line
    )


def _said(node: Formula, turned: bool, always: bool) -> Iterator[tuple[str, bool, _Range]]:
    """What a formula that holds (`turned`: that does not) says of the values of single signals."""
    match node:
        case Combined("not", (part,)):
            yield from _said(part, not turned, always)
        case Combined(op, parts) if (op == "and") is not turned:
            now: dict[str, _Range] = {}
            for part in parts:
                for signal, when, span in _said(part, turned, always):
                    if any(isinstance(one, Temporal) for one in parts_of(part)):
                        yield signal, when, span
                    else:  # at one time
                        now[signal] = now[signal].both(span) if signal in now else span
            yield from ((signal, always, span) for signal, span in now.items())
        case Temporal("always" | "eventually" as op, (part,), window) if window == WHOLE:
            yield from _said(part, turned, always and (op == "always") is not turned)
        case Predicate(signal):
            yield from ((name, always, span) for name, span in _limits(signal, turned))


_DENIED: Final = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}
_TURNED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ}


def _limits(signal: Signal, turned: bool) -> Iterator[tuple[str, _Range]]:
    """What a comparison says: signals, and where they are. Nothing, where it compares anything else."""
    expr = signal.expr
    if not isinstance(expr, Apply) or expr.op not in _TURNED or (turned and expr.op is Op.EQ):
        return
    op = _DENIED[expr.op] if turned else expr.op
    sides = [_linear(side, signal) for side in expr.args]
    if None in sides:
        return
    one, other = (side for side in sides if side is not None)
    sum_ = one.plus(other, -1.0)
    measured = any(made.kind == QUANTITY for _, made in signal.derived)
    if measured and sum_.plain:
        return  # a plain number is in the unit of measure of the port
    at = -(sum_.plain or sum_.si)
    low = at if op in (Op.GT, Op.GE, Op.EQ) else -math.inf
    high = at if op in (Op.LT, Op.LE, Op.EQ) else math.inf
    span = _Range(low, high, op in (Op.GE, Op.EQ), op in (Op.LE, Op.EQ))
    yield from _within(sum_, span, signal, " (SI)" if measured else "")


class _Linear(NamedTuple):
    """A sum of signals, times factors, and of numbers: plain ones, and those with a unit, in SI."""

    terms: Mapping[str, float]
    plain: float = 0.0
    si: float = 0.0

    def plus(self, other: _Linear, factor: float) -> _Linear:
        """Another one is added, so many times."""
        terms = dict(self.terms)
        for name, value in other.terms.items():
            terms[name] = terms.get(name, 0.0) + factor * value
        return _Linear(terms, self.plain + factor * other.plain, self.si + factor * other.si)


def _linear(expr: Expr, signal: Signal) -> _Linear | None:
    """An expression as a sum; None where a unit of measure cannot be converted."""
    match expr:
        case Number(value):
            return _Linear({}, value)
        case Apply(Op.ADD | Op.SUB as op, (one, other)):
            left, right = _linear(one, signal), _linear(other, signal)
            return left and right and left.plus(right, -1.0 if op is Op.SUB else 1.0)
        case Apply(Op.NEG, (one,)):
            inner = _linear(one, signal)
            return inner and _Linear({}).plus(inner, -1.0)
        case Apply(Op.MUL, (Number(factor), one)) | Apply(Op.MUL, (one, Number(factor))):
            inner = _linear(one, signal)
            return inner and _Linear({}).plus(inner, factor)
        case Name(name) if (made := dict(signal.derived).get(name)) is not None and made.kind == QUANTITY:
            scale = _to_si(made.unit)
            assert isinstance(made.of, Signal)
            assert isinstance(made.of.expr, Number)
            return None if scale is None else _Linear({}, si=made.of.expr.value * scale)
    return _Linear({str(Signal(expr, signal.derived)): 1.0})


def _within(of: _Linear, span: _Range, signal: Signal, unit: str) -> Iterator[tuple[str, _Range]]:
    """What follows for signals, where the terms of a sum are within a range."""
    names = sorted(name for name, factor in of.terms.items() if factor)
    if not names:
        return
    factor = of.terms[names[0]]
    if factor < 0:
        span = _Range(-span.high, -span.low, span.high_too, span.low_too)
    span = span._replace(low=span.low / abs(factor), high=span.high / abs(factor))
    if len(names) > 1 and (of.plain or of.si):
        return  # a number beside several signals may be in the unit of measure of any
    name = names[0]
    for other in names[1:]:
        times = of.terms[other] / factor
        name += f" {'-' if times < 0 else '+'} {'' if abs(times) == 1 else f'{abs(times):g}*'}{other}"
    inner = _magnitude(signal.expr, name, signal)
    if inner is not None:
        span = span.both(_Range(0.0, math.inf, low_too=True))
    yield name + unit, span
    if inner is not None and not (unit and inner.plain):
        off, high = inner.plain or inner.si, span.high
        both = _Range(-high - off, high - off, span.high_too, span.high_too)
        yield from _within(inner, both, signal, unit)


def _magnitude(expr: Expr, name: str, signal: Signal) -> _Linear | None:
    """What is in the absolute value of this name, somewhere in an expression."""
    if not isinstance(expr, Apply):
        return None
    if expr.op is Op.ABS and str(Signal(expr, signal.derived)) == name:
        return _linear(expr.args[0], signal)
    return next(filter(None, (_magnitude(part, name, signal) for part in expr.args)), None)


def _to_si(unit: str) -> float | None:
    found = in_si(unit)
    return None if found is None or found[1].offset else found[1].scale
