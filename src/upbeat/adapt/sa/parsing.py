"""The text of a `.sa` file as data. Both dialects are read: that of the thesis and that of its tool.

The grammar is flat: a file is a sequence of sections, and `_put_together` finds what belongs to one unit. So
sections may stand in any order, and what is missing or stands twice is told in words. Commas
between ports and between declarations may be left out, as the printed listings do.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upbeat.adapt.sa.tree import (
    Adapted,
    Assign,
    Binary,
    Break,
    Call,
    Crossing,
    Declared,
    Delay,
    Do,
    Expr,
    File,
    For,
    Hold,
    If,
    Inner,
    Literal,
    MultiRate,
    Otherwise,
    Periodic,
    Place,
    Port,
    Quantize,
    Ref,
    Return,
    Rule,
    Rules,
    Substitution,
    Tolerance,
    Triggered,
    Unary,
    Var,
    Wire,
)
from upbeat.core.errors import MissingExtra, Problem, ScenarioError, cannot_read, suggest

if TYPE_CHECKING:
    from lark import Lark

LARGEST = 1_000_000
"""Characters of a file."""
DEEPEST = 100
"""How deeply expressions and blocks may be nested."""

GRAMMAR = r"""
start: _piece*
_piece: import_ | module | fmu | adaptation | at | composed | modeltype | full | inner | listed | with_in
      | with_out | with_wire | coupled | wire | inputs | outputs | params | substitution | within | delay
      | multirate | interpolation | control_var | control | implied | triggered | periodic | multiplied
      | in_var | in_rules | out_var | out_rules

import_: "import" NAME ";"?
module: "module" NAME ";"?
fmu: "fmu" NAME NAME?
adaptation: "semantic" "adaptation" KIND* NAME+ WITHOUT?
at: AT STRING
composed: "composed" "of" NAME ("," NAME)*
modeltype: "type" (MODEL | "discrete" "event" | "discrete" "time" | "continuous" "time")
full: "full" "internal" "dependencies"
inner: "for" KIND* "inner" KIND* "fmu" KIND* NAME NAME?
listed: "for" "fmu" listed_fmu ("," listed_fmu)*
listed_fmu: NAME NAME?
with_in: "with" "input" "ports" ports
with_out: "with" "output" "ports" ports
with_wire: "with" portname ARROW portname
coupled: "coupled" "as" coupling ("," coupling)*
coupling: portname ARROW portname
wire: portname ARROW portname ";"?
inputs: "input" "ports" ports ";"?
outputs: "output" "ports" ports ";"?

ports: port (","? port)*
port: TYPE? portname part*
portname: NAME ("." NAME)?
?part: ":=" (signed | array) -> initial
    | "[" INT (".." INT)? "]" -> many
    | MEASURE -> measure
    | STRING -> alias
    | ARROW portname -> bound
    | BACK portname -> taken
    | LONG portname -> depends
array: "[" signed ("," signed)* "]"
signed: MINUS? literal

params: "param" _declarations ";"?
_declarations: declared (","? declared)*
declared: TYPE? NAME ((":=" | "=") expr)?
control_var: "control" "var" _declarations ";"?
in_var: "in" "var" _declarations ";"?
out_var: "out" "var" _declarations ";"?

control: "control" "rules"? block
implied: "implied"
triggered: "triggered" "by" expr ";"?
periodic: "periodic" (AT signed)? "every" signed ";"?
multiplied: "multiplied" INT "times" ";"?
substitution: "successive" "substitution" "starts" AT _signals
within: "with" tolerance ("and" tolerance)*
delay: "delay" AT _signals
_signals: ref (("and" | ",") ref)*
multirate: "multiply" "rate" INT "times"
interpolation: "with" (ORDER "order"? "interpolation" | "interpolation" "of" "order" INT)
tolerance: TOLERANCE "tolerance" "=" sum

in_rules: "in" "rules" settings? rules
out_rules: "out" "rules" settings? rules
settings: "with" _setting ("," _setting)*
_setting: crossing | hold
crossing: "crossing" (tolerance ("and" tolerance)*)?
hold: ORDER ("order")? "hold" | SHORT
rules: "{" (var | rule | _quantized | _delayed | _solved | plain)* "}"
_quantized: quantize (LONG hold)? ";"
_delayed: delay ";"
_solved: substitution within? ";"
plain: assign (_then part2)? ";"
rule: (expr tolerances? | block) ARROW part1 (_then part2)? ";"?
tolerances: tolerance ("and" tolerance)*
_then: ARROW | LONG
?part1: block | assign | expr
?part2: block | assign | expr | hold
quantize: "quantize" "(" ref "," STRING ("," sum "," STRING)* ")" -> zones
    | "quantize" "(" ref "," "=" sum ")" -> formula
    | "quantize" ref "every" sum ("with"? "offset" sum)? -> stairs

block: "{" _statement* _last? "}"
_statement: var | assign ";" | do ";" | return_ ";" | break_ ";" | if_ | for_ | def_
_last: assign | do | return_ | break_
var: "var" _declarations ";"
assign: ref ":=" expr
do: call
return_: "return" expr
break_: "break"
if_: "if" expr block ("else" (block | if_))?
for_: "for" "(" "var"? NAME "in" sum ".." sum ")" block
def_: "def" NAME ("(" NAME ("," NAME)* ")")? block

?expr: or_
?or_: and_ | or_ "or" and_
?and_: not_ | and_ "and" not_
?not_: comparison | "not" not_ -> negated
?comparison: sum | sum COMPARES sum
?sum: product | sum (PLUS | MINUS) product
?product: sign | product TIMES sign
?sign: atom | MINUS sign -> minus
?atom: "(" expr ")" | literal | call | ref | otherwise
otherwise: "otherwise"
call: NAME "(" [expr (("," | ";") expr)*] ")"
ref: NAME ("." NAME)? index?
index: "[" (WHEN | MINUS? INT) "]"
literal: INT | REAL | TRUTH | NULL | STRING

KIND.2: /(?:reactive|delayed|moore|mealy)\b/i
WITHOUT: /without\s+master\b/
MODEL.2: /(?:DE|UT|CT|DT|de|ut|ct|dt|untimed|DiscreteEvent|ContinuousTime|DiscreteTime|Untimed)\b/
ORDER.2: /(?:no|zero|first|second|third|fourth)\b/
SHORT.2: /(?:ZOH|FOH)\b/
TOLERANCE.2: /(?:absolute|relative)\b/
TYPE.2: /(?:Real|Integer|Boolean|Bool|String)\b/
TRUTH.2: /(?:true|false)\b/
NULL.2: /null\b/
WHEN.2: /(?:now|prev)\b/
AT: "at"
COMPARES: ">=" | "<=" | "==" | "!=" | ">!" | "<!" | ">" | "<"
PLUS: "+"
MINUS: "-"
TIMES: "*" | "/"
ARROW: "->" | "→"
LONG: "-->" | "⟶"
BACK: "<-" | "←"
MEASURE: /\((?:[^()\n]|\([^()\n]*\))*\)/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
INT: /[0-9]+/
REAL.2: /[0-9]+\.(?!\.)[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+/
STRING: /"[^"\n]*"|'[^'\n]*'/
WS: /[ \t\f\r\n]+/
COMMENT: /\/\/[^\n]*/
REMARK: /\/\*(?:[^*]|\*(?!\/))*\*\//
%ignore WS
%ignore COMMENT
%ignore REMARK
"""

_WORDS = {
    "NAME": "a name",
    "STRING": 'a text in quotes ("…")',
    "INT": "a whole number",
    "REAL": "a number",
    "TRUTH": "true or false",
    "NULL": "null",
    "COMPARES": "a comparison (< <= > >= == != >! <!)",
    "TIMES": "* or /",
    "ARROW": "'->'",
    "LONG": "'-->'",
    "BACK": "'<-'",
    "KIND": "reactive, delayed, moore or mealy",
    "TYPE": "a type (Real, Integer, Boolean, String)",
    "MEASURE": "a unit of measure in parentheses",
    "ORDER": "an order (no, zero, first, second)",
    "TOLERANCE": "absolute or relative",
    "$END": "the end of the file",
}
_OPERAND = {"NAME", "INT", "REAL", "TRUTH", "STRING", "LPAR"}
_OPERATOR = {"COMPARES", "TIMES", "PLUS", "MINUS", "AND", "OR"}
_SECTIONS = "'input ports', 'output ports', 'param', 'control rules', 'in rules' or 'out rules'"


@cache
def _parser() -> Lark:
    try:
        from lark import Lark
    except ImportError:
        raise MissingExtra("sa", "reading .sa files") from None
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def bad(at: Place, what: str, hint: str = "") -> Problem:
    """A problem with its place in the text."""
    return Problem((), what, hint, at.line or None, at.column or None)


class Refused(Exception):
    """One problem that ends the reading of this text."""

    def __init__(self, at: Place, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.problem = bad(at, what, hint)


def read(path: Path | str) -> File:
    """The file at `path`; `ScenarioError` with line and column if it does not parse."""
    place = Path(path)
    try:
        if place.stat().st_size > 4 * LARGEST:
            raise cannot_read(place, f"it is larger than {4 * LARGEST // 1_000_000} MB, which no .sa file is")
        text = place.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise cannot_read(place, error) from None
    except UnicodeDecodeError:
        raise cannot_read(place, "it is not text in UTF-8") from None
    except ValueError as error:  # a NUL in the name
        raise cannot_read(place, str(error)) from None
    return parse(text, str(path))


def parse(text: str, source: str = "") -> File:
    """The file with this text; `source` is what messages call it."""
    parser = _parser()
    from lark.exceptions import UnexpectedInput

    if len(text) > LARGEST:
        raise ScenarioError([Problem((), f"it has more than {LARGEST:,} characters")], source)
    try:
        return _put_together(_built(parser.parse(text)), source)
    except UnexpectedInput as error:
        raise ScenarioError([_syntax(error, text, parser)], source) from None
    except Refused as refused:
        raise ScenarioError([refused.problem], source) from None


def _syntax(error: Any, text: str, parser: Lark) -> Problem:
    """What lark found, in words: what stands there, what could have stood there, and names near by."""
    from lark.exceptions import UnexpectedCharacters

    names = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or error.allowed or ())
    token = getattr(error, "token", None)
    start = getattr(error, "pos_in_stream", None)
    here = text[start : start + 2] if start is not None else ""
    if here == "/*":
        return bad(
            Place(error.line, error.column), "a comment begins here and has no end", "End it with '*/'."
        )
    if here[:1] in ('"', "'") and (token is None or token.type != "STRING"):
        what = "a text begins here and has no end in its line"
        return bad(Place(error.line, error.column), what, "End it with a quotation mark.")
    if isinstance(error, UnexpectedCharacters) or token is None:
        place, found = Place(error.line, error.column), repr(here[:1])
    elif token.type == "$END":
        lines = text.rstrip().split("\n")
        place, found = Place(len(lines), len(lines[-1]) + 1), "the end of the file"
    else:
        place, found = Place(token.line, token.column), f"'{_short(token)}'"
    texts = {name: _text(parser, name) for name in names}
    hint = ""
    if token is not None and token.type != "$END":
        words = [text.strip("'") for text in texts.values() if text.strip("'").isalpha()]
        near = suggest(str(token), words) if words and str(token).isidentifier() else ""
        hint = near if near.startswith("Did you mean") else ""
    lines = text.split("\n")
    before = lines[place.line - 1][: place.column - 1] if 0 < place.line <= len(lines) else ""
    if re.search(r"\b(while|do|repeat)\b[^;{}]*$", before):
        hint = "Loops have a fixed number of rounds, and may be left: for (var i in 0 .. 10) { … break; }."
    return bad(place, f"{found} cannot stand here; expected {_choice(names, texts)}", hint)


def _short(token: object) -> str:
    text = str(token).split("\n")[0]
    return text if len(text) <= 40 else f"{text[:37]}…"


def _text(parser: Lark, name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    pattern = parser.get_terminal(name).pattern
    return f"'{pattern.value}'" if pattern.type == "str" else name.lower()


def _choice(names: set[str], texts: dict[str, str]) -> str:
    left, said = set(names), []
    if len(_OPERAND & left) >= 4:
        said.append("a value")
        left -= {*_OPERAND, "MINUS", "NOT", "NULL", "OTHERWISE"}
    if {"SEMANTIC", "CONTROL"} <= left:
        said.append(f"another section ({_SECTIONS})")
        left = left & ({"SEMICOLON", "RBRACE", "COMMA"} | _OPERATOR)
    if len(_OPERATOR & left) >= 3:
        said.append("an operator")
        left -= _OPERATOR
    said = [*sorted(texts[name] for name in left), *said]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}" if said else "nothing"


# ----------------------------------------------------------------------------------------------------
# From lark's tree to ours: one method of `_Make` per rule of the grammar, called from the leaves up.


def _built(tree: Any) -> list[Any]:
    make = _Make()
    made: dict[int, Any] = {}
    depths: dict[int, int] = {}
    for node in tree.iter_subtrees():
        at = Place(getattr(node.meta, "line", 0), getattr(node.meta, "column", 0))
        items = [made.get(id(child), child) for child in node.children]
        depths[id(node)] = 1 + max((depths.get(id(child), 0) for child in node.children), default=0)
        if depths[id(node)] > DEEPEST:
            raise Refused(
                at, f"this is nested more than {DEEPEST} levels deep", "Use a variable for a part of it."
            )
        made[id(node)] = getattr(make, node.data)(at, items)
    sections: list[Any] = made[id(tree)]
    return sections


def _is(item: object, *kinds: str) -> bool:
    return getattr(item, "type", None) in kinds


def _texts(items: list[Any]) -> list[str]:
    return [str(item) for item in items]


def _number(token: object) -> int:
    text = str(token)
    return int(text) if len(text) < 10 else 10**9


_ORDERS = {"no": 0, "zero": 0, "first": 1, "second": 2, "third": 3, "fourth": 4}
_TYPES = {"Bool": "Boolean"}


class _Section:
    """A piece of a file: the rule that it is, its place, and what it says."""

    __slots__ = ("at", "items", "kind")

    def __init__(self, kind: str, at: Place, items: Any) -> None:
        self.kind, self.at, self.items = kind, at, items


def _section(kind: str) -> Any:
    return lambda self, at, items: _Section(kind, at, items)


class _Make:
    """One method per rule of the grammar: place and children in, a node of ours out."""

    # sections
    def start(self, at: Place, items: list[Any]) -> list[Any]:
        return items

    import_ = _section("import_")
    module = _section("module")
    fmu = _section("fmu")
    adaptation = _section("adaptation")
    at = _section("at")
    composed = _section("composed")
    modeltype = _section("ignored")
    full = _section("ignored")
    inner = _section("inner")
    listed = _section("listed")
    with_in = _section("with_in")
    with_out = _section("with_out")
    inputs = _section("inputs")
    outputs = _section("outputs")
    params = _section("params")
    control_var = _section("control_vars")
    in_var = _section("in_vars")
    out_var = _section("out_vars")
    implied = _section("ignored")
    within = _section("within")
    interpolation = _section("interpolation")

    def listed_fmu(self, at: Place, items: list[Any]) -> Inner:
        return Inner(str(items[0]), str(items[-1]), at=at)

    def with_wire(self, at: Place, items: list[Any]) -> _Section:
        return _Section("wires", at, [Wire(items[0], items[2], at=at)])

    wire = with_wire

    def coupling(self, at: Place, items: list[Any]) -> Wire:
        return Wire(items[0], items[2], at=at)

    def coupled(self, at: Place, items: list[Any]) -> _Section:
        return _Section("wires", at, items)

    def control(self, at: Place, items: list[Any]) -> _Section:
        return _Section("control", at, items[0])

    def triggered(self, at: Place, items: list[Any]) -> _Section:
        return _Section("general", at, Triggered(items[0], at=at))

    def periodic(self, at: Place, items: list[Any]) -> _Section:
        values = [item for item in items if not _is(item, "AT")]
        return _Section("general", at, Periodic(values[-1], values[0] if values[1:] else None, at=at))

    def multiplied(self, at: Place, items: list[Any]) -> _Section:
        return _Section("general", at, MultiRate(_number(items[0]), 0, at=at))

    def multirate(self, at: Place, items: list[Any]) -> _Section:
        return _Section("general", at, MultiRate(_number(items[0]), at=at))

    def substitution(self, at: Place, items: list[Any]) -> _Section:
        return _Section("general", at, Substitution(tuple(items[1:]), at=at))

    def delay(self, at: Place, items: list[Any]) -> _Section:
        return _Section("general", at, Delay(tuple(items[1:]), at=at))

    def tolerance(self, at: Place, items: list[Any]) -> Tolerance:
        return Tolerance(str(items[0]), items[1], at=at)

    # ports and declarations
    def ports(self, at: Place, items: list[Any]) -> tuple[Port, ...]:
        return tuple(items)

    def portname(self, at: Place, items: list[Any]) -> Ref:
        return Ref(str(items[-1]), str(items[0]) if items[1:] else "", at=at)

    def port(self, at: Place, items: list[Any]) -> Port:
        type_ = str(items.pop(0)) if _is(items[0], "TYPE") else ""
        name, *parts = items
        said: dict[str, Any] = {}
        for key, value, place in parts:
            if key in said:
                raise Refused(place, f"the port '{name.text}' has two {_PARTS[key]}")
            said[key] = value
        said.pop("depends", None)
        _free(
            name.text, name.at, f'Give it another name, and this one behind it: {name.name}_ "{name.name}".'
        )
        return Port(name.text, type=_TYPES.get(type_, type_), at=at, **said)

    def initial(self, at: Place, items: list[Any]) -> tuple[str, Any, Place]:
        return "initial", items[0], at

    def measure(self, at: Place, items: list[Any]) -> tuple[str, Any, Place]:
        return "unit", str(items[0])[1:-1].strip(), at

    def alias(self, at: Place, items: list[Any]) -> tuple[str, Any, Place]:
        return "alias", str(items[0])[1:-1], at

    def bound(self, at: Place, items: list[Any]) -> tuple[str, Any, Place]:
        return "bound", items[1], at

    taken = bound

    def depends(self, at: Place, items: list[Any]) -> tuple[str, Any, Place]:
        return "depends", items[1], at

    def many(self, at: Place, items: list[Any]) -> Any:
        raise Refused(at, "ports with several cells are not adapted yet", "Declare one port for each cell.")

    def array(self, at: Place, items: list[Any]) -> Any:
        raise Refused(at, "an array cannot be an initial value here", "Give one number.")

    def declared(self, at: Place, items: list[Any]) -> Declared:
        type_ = str(items.pop(0)) if _is(items[0], "TYPE") else ""
        _free(str(items[0]), at, "Give it another name.")
        return Declared(str(items[0]), items[1] if items[1:] else None, _TYPES.get(type_, type_), at=at)

    # rules
    def settings(self, at: Place, items: list[Any]) -> list[Any]:
        return items

    def crossing(self, at: Place, items: list[Any]) -> Crossing:
        return Crossing(tuple(items), at=at)

    def hold(self, at: Place, items: list[Any]) -> Hold:
        if _is(items[0], "SHORT"):
            return Hold(1 if items[0] == "FOH" else 0, at=at)
        return Hold(-1 if items[0] == "no" else _ORDERS[str(items[0])], at=at)

    def rules(self, at: Place, items: list[Any]) -> list[Any]:
        return items

    def in_rules(self, at: Place, items: list[Any]) -> _Section:
        return _Section("in_rules", at, (items[-1], items[0] if items[1:] else []))

    def out_rules(self, at: Place, items: list[Any]) -> _Section:
        return _Section("out_rules", at, (items[-1], items[0] if items[1:] else []))

    def plain(self, at: Place, items: list[Any]) -> tuple[str, Any]:
        return "rule", (at, None, items[0], items[-1] if items[1:] else None)

    def rule(self, at: Place, items: list[Any]) -> tuple[str, Any]:
        condition, *rest = (item for item in items if not _is(item, "ARROW", "LONG"))
        near = rest.pop(0) if isinstance(rest[0], list) else ()
        return "rule", (at, (condition, near), rest[0], rest[1] if rest[1:] else None)

    def tolerances(self, at: Place, items: list[Any]) -> list[Any]:
        return items

    def zones(self, at: Place, items: list[Any]) -> Quantize:
        zones = tuple(str(item)[1:-1] for item in items[1::2])
        return Quantize(items[0], zones=zones, bounds=tuple(items[2::2]), at=at)

    def formula(self, at: Place, items: list[Any]) -> Quantize:
        return Quantize(items[0], formula=items[1], at=at)

    def stairs(self, at: Place, items: list[Any]) -> Quantize:
        return Quantize(items[0], every=items[1], offset=items[2] if items[2:] else None, at=at)

    # statements
    def block(self, at: Place, items: list[Any]) -> tuple[Any, ...]:
        return tuple(items)

    def var(self, at: Place, items: list[Any]) -> Var:
        return Var(tuple(items), at=at)

    def assign(self, at: Place, items: list[Any]) -> Assign:
        return Assign(items[0], items[1], at=at)

    def do(self, at: Place, items: list[Any]) -> Do:
        return Do(items[0], at=at)

    def return_(self, at: Place, items: list[Any]) -> Return:
        return Return(items[0], at=at)

    def break_(self, at: Place, items: list[Any]) -> Break:
        return Break(at=at)

    def if_(self, at: Place, items: list[Any]) -> If:
        other = items[2] if items[2:] else ()
        return If(items[0], items[1], other if isinstance(other, tuple) else (other,), at=at)

    def for_(self, at: Place, items: list[Any]) -> For:
        return For(str(items[0]), items[1], items[2], items[3], at=at)

    def def_(self, at: Place, items: list[Any]) -> Any:
        raise Refused(
            at,
            f"functions such as '{items[0]}' cannot be defined: an adaptation has to come to an end",
            "Write its statements where it is called; loops have a fixed number of rounds.",
        )

    # expressions
    def _two(self, at: Place, items: list[Any]) -> Expr:
        return Binary(str(items[1]), items[0], items[2], at=at)

    comparison = sum = product = _two

    def or_(self, at: Place, items: list[Any]) -> Expr:
        return Binary("or", items[0], items[1], at=at)

    def and_(self, at: Place, items: list[Any]) -> Expr:
        return Binary("and", items[0], items[1], at=at)

    def negated(self, at: Place, items: list[Any]) -> Expr:
        return Unary("not", items[0], at=at)

    def minus(self, at: Place, items: list[Any]) -> Expr:
        arg = items[-1]
        if isinstance(arg, Literal) and isinstance(arg.value, float) and arg.value > 0:
            return Literal(-arg.value, at=at)
        return Unary("-", arg, at=at)

    def otherwise(self, at: Place, items: list[Any]) -> Expr:
        return Otherwise(at=at)

    def call(self, at: Place, items: list[Any]) -> Call:
        return Call(str(items[0]), tuple(items[1:]), at=at)

    def ref(self, at: Place, items: list[Any]) -> Ref:
        index = items.pop() if isinstance(items[-1], int) else 0
        return Ref(str(items[-1]), str(items[0]) if items[1:] else "", index, at=at)

    def index(self, at: Place, items: list[Any]) -> int:
        if _is(items[0], "WHEN"):
            return -1 if items[0] == "prev" else 0
        found = _number(items[-1])
        if found and not items[1:]:
            raise Refused(
                at, f"[{found}] would be in the future", "Write [prev] or a negative number of steps."
            )
        return -found

    def signed(self, at: Place, items: list[Any]) -> Expr:
        return self.minus(at, items) if items[1:] else items[0]

    def literal(self, at: Place, items: list[Any]) -> Literal:
        token, text = items[0], str(items[0])
        match token.type:
            case "INT" | "REAL":
                if float(text) > 1e300:
                    raise Refused(
                        at, f"{_short(text)} is too large to compute with", "Write a number up to 1e300."
                    )
                return Literal(float(text), at=at)
            case "TRUTH":
                return Literal(text == "true", at=at)
            case "NULL":
                return Literal(None, at=at)
        return Literal(text[1:-1], at=at)


_TAKEN = {"true", "false", "null", "not", "and", "or", "otherwise", "if", "else", "for", "var", "return"}
_TAKEN |= {"break", "def"}


def _free(name: str, at: Place, hint: str) -> None:
    """A name that expressions can read."""
    if name in _TAKEN:
        raise Refused(at, f"'{name}' is a word of the language, and no name", hint)


_PARTS = {
    "initial": "initial values",
    "unit": "units of measure",
    "alias": "other names",
    "bound": "bindings",
    "depends": "lists of what they depend on",
}

# ----------------------------------------------------------------------------------------------------
# From sections to units: what stands behind a header belongs to it.

_OF_INNER = {"at": "at", "with_in": "with input ports", "with_out": "with output ports"}
_ONCE = {"inputs": "input ports", "outputs": "output ports", "control": "control rules"}
_TITLES = {
    **_OF_INNER,
    **_ONCE,
    "in_rules": "in rules",
    "out_rules": "out rules",
    "params": "param",
    "general": "this",
    "inner": "for inner fmu",
    "listed": "for fmu",
    "within": "with … tolerance",
    "interpolation": "with … interpolation",
    "composed": "composed of",
    "control_vars": "control var",
    "in_vars": "in var",
    "out_vars": "out var",
}


def _put_together(sections: list[_Section], source: str) -> File:
    file = File(source=source)
    unit: Adapted | Inner | None = None
    for section in sections:
        if section.kind in ("fmu", "adaptation") or (
            section.kind == "wires" and not isinstance(unit, Adapted)
        ):
            file, unit = _finish(file, unit), None
        match section.kind:
            case "import_":
                name = Ref(str(section.items[0]), at=section.at)
                file = replace(file, imports=(*file.imports, name))
            case "module":
                if file.module:
                    raise Refused(section.at, f"this file is the module '{file.module}' already")
                file = replace(file, module=str(section.items[0]))
            case "fmu":
                names = _texts(section.items)
                unit = Inner(names[0], names[-1], at=section.at)
            case "adaptation":
                unit = _adaptation(section)
            case "wires" if unit is None:
                file = replace(file, wires=(*file.wires, *section.items))
            case "ignored":
                pass
            case _ if isinstance(unit, Adapted):
                unit = _of_adaptation(unit, section)
            case _ if isinstance(unit, Inner):
                unit = _of_fmu(unit, section)
            case kind:
                raise Refused(
                    section.at,
                    f"'{_TITLES[kind]}' belongs to no unit",
                    "Begin with 'semantic adaptation reactive moore TYPE name', or with 'fmu TYPE name'.",
                )
    return _finish(file, unit)


def _finish(file: File, unit: Adapted | Inner | None) -> File:
    if unit is None:
        return file
    if isinstance(unit, Adapted):
        return replace(file, adaptations=(*file.adaptations, replace(unit, source=file.source)))
    # a connection that follows a list of ports without a comma looks like one of them with a binding
    wires = tuple(
        Wire(_ref_of(port), port.bound, at=port.at) for port in (*unit.inputs, *unit.outputs) if port.bound
    )
    kept = [tuple(port for port in ports if not port.bound) for ports in (unit.inputs, unit.outputs)]
    unit = replace(unit, inputs=kept[0], outputs=kept[1])
    return replace(file, fmus=(*file.fmus, unit), wires=(*file.wires, *wires))


def _ref_of(port: Port) -> Ref:
    owner, _, name = port.name.rpartition(".")
    return Ref(name, owner, at=port.at)


def _adaptation(section: _Section) -> Adapted:
    kinds, names = _split(section)
    if len(names) > 2:
        wrong = names[0]
        what = f"an adaptation has a type and a name, and '{wrong}' is no kind"
        raise Refused(section.at, what, suggest(wrong, ("reactive", "delayed", "moore", "mealy"), "kinds"))
    return Adapted(names[0], names[-1], reactive=kinds[0], mealy=kinds[1], at=section.at)


def _split(section: _Section) -> tuple[tuple[bool | None, bool | None], list[str]]:
    """The kinds, reactive and Mealy, and the names of a header."""
    said = [str(item).lower() for item in section.items if _is(item, "KIND")]
    for one, other in (("reactive", "delayed"), ("mealy", "moore")):
        if said.count(one) + said.count(other) > 1:
            raise Refused(section.at, f"a unit is either {one} or {other}, and only once", "Leave one out.")
    reactive = "reactive" in said if {"reactive", "delayed"} & set(said) else None
    mealy = "mealy" in said if {"mealy", "moore"} & set(said) else None
    return (reactive, mealy), [str(item) for item in section.items if _is(item, "NAME")]


def _plain(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    for port in ports:
        if "." in port.name:
            raise Refused(
                port.at,
                f"a port is declared by its own name, and '{port.name}' has two",
                "Leave out the unit.",
            )
    return ports


def _of_fmu(unit: Inner, section: _Section) -> Inner:
    match section.kind:
        case "at":
            return replace(unit, path=str(section.items[-1])[1:-1])
        case "inputs" | "with_in":
            return replace(unit, inputs=(*unit.inputs, *section.items[0]))
        case "outputs" | "with_out":
            return replace(unit, outputs=(*unit.outputs, *section.items[0]))
        case "composed":
            return replace(unit, parts=(*unit.parts, *_texts(section.items)))
    raise Refused(
        section.at,
        f"'{_TITLES[section.kind]}' belongs to an adaptation, and '{unit.name}' is an fmu",
        "Write 'semantic adaptation …' before it.",
    )


def _of_adaptation(unit: Adapted, section: _Section) -> Adapted:
    items, at = section.items, section.at
    match section.kind:
        case "inner":
            kinds, names = _split(section)
            new = Inner(names[0], names[-1], reactive=kinds[0], mealy=kinds[1], at=at)
            return replace(unit, inner=(*unit.inner, new))
        case "listed":
            return replace(unit, inner=(*unit.inner, *items))
        case "at" if not unit.inner:
            return replace(unit, path=str(items[-1])[1:-1])
        case "at" | "with_in" | "with_out":
            if not unit.inner:
                raise Refused(
                    at,
                    f"'{_TITLES[section.kind]}' stands before any inner fmu",
                    "Write 'for inner fmu TYPE name' first.",
                )
            *others, last = unit.inner
            return replace(unit, inner=(*others, _of_fmu(last, section)))
        case "wires":
            return replace(unit, wires=(*unit.wires, *items))
        case "inputs" | "outputs" | "control" as kind:
            if getattr(unit, kind) is not None:
                raise Refused(
                    at, f"'{_TITLES[kind]}' stands here a second time in '{unit.name}'", "Keep one of them."
                )
            return replace(unit, **{kind: _plain(items[0]) if kind != "control" else items})  # type: ignore[arg-type]
        case "params" | "control_vars" | "in_vars" | "out_vars" as kind:
            return replace(unit, **{kind: (*getattr(unit, kind), *items)})  # type: ignore[arg-type]
        case "general":
            return replace(unit, general=(*unit.general, items))
        case "within" | "interpolation":
            return _qualified(unit, section)
        case "in_rules" | "out_rules" as kind:
            if getattr(unit, kind) is not None:
                raise Refused(
                    at,
                    f"'{_TITLES[kind]}' stand here a second time in '{unit.name}'",
                    "Keep one block of them.",
                )
            return replace(unit, **{kind: _rules(section)})  # type: ignore[arg-type]
    raise Refused(at, f"'{_TITLES[section.kind]}' cannot stand in an adaptation")


def _qualified(unit: Adapted, section: _Section) -> Adapted:
    """``with absolute tolerance = …`` and ``with … interpolation`` say more of what stands before."""
    last = unit.general[-1] if unit.general else None
    if section.kind == "within" and isinstance(last, Substitution) and not last.tolerances:
        last = replace(last, tolerances=tuple(section.items))
    elif section.kind == "interpolation" and isinstance(last, MultiRate):
        item = section.items[0]
        last = replace(last, order=_number(item) if _is(item, "INT") else _ORDERS[str(item)])
    else:
        before = "successive substitution" if section.kind == "within" else "multiply rate"
        raise Refused(section.at, f"'{_TITLES[section.kind]}' belongs behind '{before} …'")
    return replace(unit, general=(*unit.general[:-1], last))


def _rules(section: _Section) -> Rules:
    items, settings = section.items
    found: list[Any] = []
    declared: list[Var] = []
    for item in items:
        if isinstance(item, Var):
            declared.append(item)
        elif isinstance(item, _Section) and item.kind == "within":
            last = found.pop()
            if not isinstance(last, Substitution):
                raise Refused(item.at, "'with … tolerance' belongs behind 'successive substitution …'")
            found.append(replace(last, tolerances=tuple(item.items)))
        elif isinstance(item, _Section):
            found.append(item.items)
        elif isinstance(item, Hold):
            pass
        elif isinstance(item, tuple) and item[0] == "rule":
            found.append(_rule(tuple(declared), *item[1]))
        elif isinstance(item, Quantize):
            found.append(item)
    return Rules(tuple(found), tuple(settings), at=section.at)


def _rule(declared: tuple[Var, ...], at: Place, condition: Any, first: Any, second: Any) -> Rule:
    when: Expr = Literal(True, at=at)
    if condition is not None:
        when = condition[0]
        if isinstance(when, tuple):  # a block that ends with a return
            *before, last = when or (None,)
            if before or not isinstance(last, Return):
                raise Refused(
                    at, "a condition in braces is one 'return …;'", "Write the condition without braces."
                )
            when = last.value
    hold = second if isinstance(second, Hold) else None
    parts = [_part(part, at) for part in (first, None if hold else second)]
    return Rule(when, (*declared, *parts[0]) if declared else parts[0], parts[1], hold, at=at)


def _part(part: Any, at: Place) -> tuple[Any, ...]:
    match part:
        case None:
            return ()
        case tuple():
            return part
        case Assign():
            return (part,)
    raise Refused(
        getattr(part, "at", at),
        "a rule assigns something, and this is only a value",
        "Write { port := value; }.",
    )
