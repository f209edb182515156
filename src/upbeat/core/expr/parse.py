"""Expressions as text: reading them, and writing them again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, NoReturn

from upbeat.core.errors import ExpressionError, suggest
from upbeat.core.expr.nodes import Apply, Expr, Lookup, Name, Number
from upbeat.core.expr.operations import BINARY, CONSTANTS, FUNCTIONS, KEYWORDS, OPS, Level, Op
from upbeat.core.expr.tables import Table, named
from upbeat.core.names import Labels, resolve
from upbeat.core.ports import MAX_CELLS

# ----------------------------------------------------------------------------------------------------
# Words of an expression text, with their columns and with help for what belongs to other languages.

TokenKind = Literal["number", "name", "quoted", "tail", "string", "symbol", "end"]
"""A `quoted` name stood in backticks; a `tail` is what goes on behind an index, as in ``a.b[2].c``."""


class Token(NamedTuple):
    """One word of a text."""

    kind: TokenKind
    text: str
    column: int


_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<number> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
    | (?P<name>   [A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)* )
    | (?P<quoted> `[^`\n]*` )
    | (?P<tail>   (?:\.[A-Za-z_][A-Za-z0-9_]*)+ )
    | (?P<string> '[^'\n]*'|"[^"\n]*" )
    | (?P<symbol> \*\*|//|<=|>=|==|!=|<>|&&|\|\||:=|->|[-+*/<>()\[\],%^&|!=?:;{}@~.'"\\#$`] )
    | (?P<end>    \Z )
    )""",
    re.VERBOSE,
)

_FOREIGN: Final = {
    "^": "a power is written '**'",
    "%": "the remainder is written mod(a, b)",
    "//": "whole-number division is written floor(a / b)",
    "&&": "write 'and'",
    "&": "write 'and'",
    "||": "write 'or'",
    "|": "write 'or'",
    "!": "write 'not'",
    "~": "write 'not'",
    "<>": "write '!='",
    "?": "a choice is written 'a if condition else b'",
    "=": "an expression has no assignment; to compare, write '=='",
    ":=": "an expression has no assignment; to compare, write '=='",
    ":": "expressions have no slices and no functions of their own",
    "->": "expressions have no functions of their own",
    "{": "use round parentheses",
    "}": "use round parentheses",
    ";": "one expression only",
    ".": "only names such as unit.port have a dot, and nothing can follow ')' after a dot",
    "`": "the backtick has no partner on the same line",
    "'": "the quotation mark has no partner",
    '"': "the quotation mark has no partner",
    "π": "write 'pi'",
    "·": "write '*'",
    "×": "write '*'",
    "÷": "write '/'",
    "−": "write '-'",
    "–": "write '-'",
    "≤": "write '<='",
    "≥": "write '>='",
    "≠": "write '!='",
    "²": "write '**2'",
    "³": "write '**3'",
    "√": "write sqrt(…)",
    "∞": "write 'inf'",
}

_WORDS: Final = {
    "lambda": "expressions have no functions of their own",
    "for": "expressions have no loops and no comprehensions",
    "while": "expressions have no loops",
    "in": "expressions have no sets; compare with '==' and 'or'",
    "is": "compare with '=='",
    "import": "expressions cannot import anything",
    "None": "every value is a number",
    "xor": "write 'a != b'",
    "elif": "write 'a if c else (b if d else …)'",
    "then": "a choice is written 'a if condition else b'",
}


RESERVED: Final = frozenset({*FUNCTIONS, *CONSTANTS, *KEYWORDS, *_WORDS})
"""Words that no variable can bear, because an expression takes them for something else."""


_PLAIN: Final = re.compile(
    r"(?P<first>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"(?:\[INDEX\](?:\.[A-Za-z_]\w*)+)*(?:\[INDEX\])?\Z".replace(
        "INDEX", r"(?:0|[1-9]\d{0,5})(?:, ?\d{1,6})*"
    ),
    re.ASCII,
)


def written(name: str) -> str:
    """A name as an expression writes it: in backticks, where it would be taken for something else."""
    plain = _PLAIN.match(name)
    return name if plain and plain["first"] not in RESERVED and "__" not in name else f"`{name}`"


def foreign(token: Token) -> str:
    """Help with a token that has no meaning here, or an empty text."""
    return _FOREIGN.get(token.text, "") or _WORDS.get(token.text, "")


def tokens(text: str) -> Iterator[Token]:
    """The words of `text`, lazily; the last one is of kind 'end'."""
    position, before = 0, ""
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            column = position + len(text[position:]) - len(text[position:].lstrip(" \t\r\n"))
            character = text[column]
            hint = _FOREIGN.get(
                character, "names use the letters a-z, digits and underscores, or stand in backticks"
            )
            raise ExpressionError(f"{character!r} has no meaning in an expression: {hint}", text, column)
        kind: TokenKind = found.lastgroup  # type: ignore[assignment]
        token = Token(kind, found[kind], found.start(kind))
        if kind == "tail" and (before != "]" or token.column > position):
            token = Token("symbol", ".", token.column)
        _check(token, text)
        yield token
        before = token.text
        position = found.end()
        if kind == "end":
            return


def _check(token: Token, text: str) -> None:
    if token.kind in ("name", "tail") and "__" in token.text:
        raise ExpressionError(
            f"{_short(token.text)!r} is not a name here: names must not contain two underscores in a row, "
            "unless they stand in backticks",
            text,
            token.column,
        )
    hint = foreign(token) if token.kind in ("name", "symbol") else ""
    if hint:
        raise ExpressionError(f"{token.text!r} has no meaning in an expression: {hint}", text, token.column)


def _short(text: str, width: int = 40) -> str:
    return text if len(text) <= width else f"{text[:width]}…"


# ----------------------------------------------------------------------------------------------------
# From text to expression: a small operator-precedence parser that runs nothing and is bounded.
#
# The language is a slice of Python: numbers, names (``x``, ``unit.port``, ``unit.port[2]``,
# ``unit.body[1].v``; in backticks any others, such as unit.der(x)), arithmetic, comparisons (also chained),
# ``and or not``, ``a if c else b``, the functions of `operations`, tables by name, and, against an
# enumeration, labels: ``mode == 'heat'``.

MAX_TEXT: Final = 100_000
MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 200

_STRETCHABLE: Final = (Op.MIN, Op.MAX)
_LEVELS: Final[dict[str, Level]] = {
    "if": Level.TERNARY,
    **{symbol: OPS[op].level for symbol, op in BINARY.items()},
}


def parse(
    text: str,
    tables: Mapping[str, Table] | None = None,
    enums: Mapping[str, Sequence[str]] | None = None,
) -> Expr:
    """The expression that `text` describes.

    `tables` are called by their names; `enums` gives the labels of names that hold an enumeration, or an
    array of them.
    Names are not checked: ask `names` and compare. Every problem is an `ExpressionError` with its column.
    """
    if not isinstance(text, str):
        raise ExpressionError(f"an expression is a text, not {text!r}")
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters; at most {MAX_TEXT} are allowed")
    return Parser(text, tables or {}, enums or {}).whole()


class Parser:
    """Reads one text; languages on top of expressions extend it."""

    def __init__(self, text: str, tables: Mapping[str, Table], enums: Mapping[str, Sequence[str]]) -> None:
        self.text = text
        self.tables = tables
        self.enums = enums
        self.stream = tokens(text)
        self.token = next(self.stream)
        self.depth = 0
        self.nodes = 0

    # -- words ---------------------------------------------------------------------------------

    def take(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.token = next(self.stream)
        return token

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind in ("symbol", "name"):
            self.take()
            return True
        return False

    def expect(self, text: str, why: str) -> None:
        if not self.accept(text):
            self.fail(f"{text!r} is missing: {why}")

    def fail(self, message: str, at: Token | None = None) -> NoReturn:
        raise ExpressionError(message, self.text, (at or self.token).column)

    def grown(self, node: Expr) -> Expr:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.fail(f"the expression has more than {MAX_NODES} parts; use locals or a table")
        return node

    # -- grammar -------------------------------------------------------------------------------

    def whole(self) -> Expr:
        if not self.text.strip():
            self.fail("the expression is empty")
        expr = self.expression(Level.TERNARY)
        rest = self.take()
        if rest.kind != "end":
            self.fail(self.stray(rest), rest)
        return expr

    def stray(self, token: Token) -> str:
        if token.text == ")":
            return "this ')' has no partner"
        if token.text == "[":
            return "only a name can have an index"
        if token.kind in ("name", "quoted", "number", "string") or token.text == "(":
            return f"an operator is missing before {token.text!r}"
        return f"{token.text!r} does not fit here"

    def expression(self, lowest: Level) -> Expr:
        """Everything from here on that binds at least as tightly as `lowest`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"the expression is nested more than {MAX_DEPTH} levels deep; use locals")
        left = self.prefix(lowest)
        while (level := self.level()) >= lowest:
            if level is Level.TERNARY:
                left = self.choice(left)
            elif level is Level.COMPARISON:
                left = self.comparison(left)
            else:
                op = BINARY[self.take().text]
                # a power groups to the right, and its exponent may have a sign
                right = self.expression(Level.UNARY if op is Op.POW else Level(level + 1))
                left = self.grown(Apply(op, (left, right)))
        self.depth -= 1
        return left

    def level(self) -> int:
        """The level of the operator that comes next; 0 if none does."""
        return _LEVELS.get(self.token.text, 0) if self.token.kind in ("symbol", "name") else 0

    def choice(self, value: Expr) -> Expr:
        self.take()
        condition = self.expression(Level.OR)
        self.expect("else", "a choice is written 'a if condition else b'")
        return self.grown(Apply(Op.WHERE, (condition, value, self.expression(Level.TERNARY))))

    def comparison(self, left: Expr) -> Expr:
        """``a < b``, or a chain ``a < b <= c``, which means ``a < b and b <= c``."""
        result: Expr | None = None
        while self.level() is Level.COMPARISON:
            op = BINARY[self.take().text]
            right = self.label(op, left) if self.token.kind == "string" else self.expression(Level.SUM)
            test = self.grown(Apply(op, (left, right)))
            result = test if result is None else self.grown(Apply(Op.AND, (result, test)))
            left = right
        assert result is not None
        return result

    def prefix(self, lowest: Level) -> Expr:
        token = self.take()
        match token.kind, token.text:
            case "number", text:
                return self.grown(Number(float(text)))
            case "symbol", "(":
                inner = self.expression(Level.TERNARY)
                self.expect(")", "a parenthesis was opened before")
                return inner
            case "symbol", "+":
                return self.expression(Level.UNARY)
            case "symbol", "-":
                literal = self.token.kind == "number" or self.token.text in ("inf", "nan", "pi", "e")
                operand = self.expression(Level.UNARY)
                if literal and isinstance(operand, Number):
                    return Number(-operand.value)
                return self.grown(Apply(Op.NEG, (operand,)))
            case "name", "not":
                if lowest > Level.NOT:
                    self.fail("put '(not …)' in parentheses here", token)
                return self.grown(Apply(Op.NOT, (self.expression(Level.NOT),)))
            case "name", text if text not in KEYWORDS:
                return self.call(token) if self.accept("(") else self.variable(token)
            case "quoted", text:
                if not (name := text[1:-1].strip()):
                    self.fail("there is no name between the backticks", token)
                return self.indexed(name)
            case "string", _:
                self.fail("a label can only stand behind a comparison: write name == 'label'", token)
            case "end", _:
                self.fail("the expression ends too early: a value is missing", token)
        self.fail(f"a value is missing before {token.text!r}", token)

    def label(self, op: Op, left: Expr) -> Expr:
        """The code of an enumeration's label, as in ``mode == 'heat'``."""
        token = self.take()
        text = token.text[1:-1]
        if op not in (Op.EQ, Op.NE):
            self.fail("labels can only be compared with '==' and '!='", token)
        items = self.enums.get(resolve(left.id, self.enums)[0]) if isinstance(left, Name) else None
        if items is None:
            have = suggest(left.id, self.enums, "enumerations") if isinstance(left, Name) else ""
            self.fail(f"the label {token.text} needs an enumeration to its left. {have}".rstrip(), token)
        if text not in items:
            self.fail(f"{text!r} is not one of its labels. {suggest(text, items, 'labels')}", token)
        return self.grown(Number(float(Labels.of(items).code(text))))

    def variable(self, token: Token) -> Expr:
        text = token.text
        if text in CONSTANTS:
            return self.grown(Number(CONSTANTS[text]))
        if text in FUNCTIONS or text in self.tables:
            self.fail(f"'{text}' is a {'function' if text in FUNCTIONS else 'table'}: write {text}(…)", token)
        return self.indexed(text)

    def indexed(self, name: str) -> Expr:
        """The variable that begins with `name` and may go on with an index: ``u[2]``, ``body[2].v[1]``."""
        while self.token.text == "[":
            name = f"{name}[{self.index()}]"
            if self.token.kind != "tail":
                break
            name += self.take().text
        return self.grown(Name(name))

    def index(self) -> str:
        """What stands in brackets; more than one number only where they are part of a port's name."""
        first = self.take().column + 1
        numbers: list[str] = []
        while not numbers or self.accept(","):
            number = self.take()
            if number.kind != "number" or not number.text.isdigit():
                self.fail("an index is a whole number, counted from 0", number)
            if len(number.text) > len(str(MAX_CELLS)):
                self.fail(f"no array has that many cells: at most {MAX_CELLS:,} are allowed", number)
            numbers.append(number.text)
        last = self.token.column
        self.expect("]", "an index was opened before")
        # [1, 1] is as the tool that made the model wrote it; an index of ours is a number
        return str(int(numbers[0])) if len(numbers) == 1 else self.text[first:last].strip()

    def call(self, token: Token) -> Expr:
        name = token.text
        table = named(self.tables, name)
        if table is None and name not in FUNCTIONS:
            known = [*FUNCTIONS, *self.tables]
            self.fail(f"there is no function '{name}'. {suggest(name, known, 'functions')}", token)
        args = self.arguments()
        if table is not None:
            self.check_count(token, len(args), table.arity)
            return self.grown(Lookup(table, tuple(args)))
        op = FUNCTIONS[name]
        if op not in _STRETCHABLE or len(args) < 2:
            self.check_count(token, len(args), OPS[op].arity)
            return self.grown(Apply(op, tuple(args)))
        result = args[0]
        for arg in args[1:]:
            result = self.grown(Apply(op, (result, arg)))
        return result

    def check_count(self, token: Token, given: int, needed: int) -> None:
        if given != needed:
            shape = f"{token.text}({', '.join('abc'[:needed])})"
            self.fail(f"{token.text} takes {needed} argument(s), not {given}: write {shape}", token)

    def arguments(self) -> list[Expr]:
        args: list[Expr] = []
        if self.accept(")"):
            return args
        while True:
            args.append(self.expression(Level.TERNARY))
            if not self.accept(","):
                self.expect(")", "a call was opened before")
                return args
