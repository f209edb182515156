"""Words of an expression text, with their columns and with help for what belongs to other languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from upbeat.core.errors import ExpressionError
from upbeat.core.expr.operations import CONSTANTS, FUNCTIONS, KEYWORDS

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
