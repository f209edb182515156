"""The one table of operations: parser, printer, evaluator, derivatives, kernel, native core and JIT use it.

Every operation maps IEEE doubles to one IEEE double and never raises. Truth is ``x != 0`` (so NaN is
true), and a truth value is 0.0 or 1.0. Nothing short-circuits, and products and sums are never
contracted (no FMA). The definitions, the same in every backend (written as in C):

    add sub mul div neg    a + b   a - b   a * b   a / b   -a
    pow(a, b)              b == 2 ? a * a : b == 3 ? (a * a) * a : C pow(a, b)
    lt le gt ge eq ne      a < b ? 1.0 : 0.0, and so on
    and or not             (a != 0 && b != 0)   (a != 0 || b != 0)   (a == 0)
    where(a, b, c)         a != 0 ? b : c                    text: ``b if a else c``
    min(a, b)              a < b ? a : b
    max(a, b)              a > b ? a : b
    clip(a, b, c)          a < b ? b : (a > c ? c : a)
    abs floor ceil         C fabs, floor, ceil
    round(a)               C nearbyint: half to even
    sign(a)                (a > 0) - (a < 0)
    mod(a, b)              a - floor(a / b) * b              the sign of b, as in Python
    sqrt exp … hypot       the function of that name in the C library

and for tables (see `tables`) LOOKUP1 and LOOKUP2. A NaN has no particular sign or payload.

The numbers of `Op` are the opcodes of the native core: never change or reuse one, append.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Final

from upbeat.core.ports import Kind
from upbeat.core.records import dataclass

# ----------------------------------------------------------------------------------------------------
# IEEE arithmetic in Python: where Python raises, these return the inf or NaN that C would.
#
# `math` calls the C library, so apart from the exceptions the bits are those of C.


def divide(a: float, b: float) -> float:
    """C division."""
    try:
        return a / b
    except ZeroDivisionError:
        if a != a:
            return a
        if a == 0.0:
            return math.inf - math.inf  # the sign of what the machine calls no number, as 0/0 has it in C
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def power(a: float, b: float) -> float:
    """C pow, except that squares and cubes are products."""
    if b == 2.0:
        return a * a
    if b == 3.0:
        return (a * a) * a
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.copysign(math.inf, a) if _odd(b) else math.inf
    except ValueError:
        if a != 0.0:
            return math.nan  # a negative number to a broken power
        return math.copysign(math.inf, a) if _odd(b) else math.inf


def _odd(b: float) -> bool:
    return math.fmod(b, 2.0) in (1.0, -1.0)


def hypotenuse(a: float, b: float) -> float:
    """C hypot. `math.hypot` has an algorithm of its own with other last bits; complex abs calls C's.

    Only with finite parts: for others CPython's complex abs looks at an `errno` it has not cleared, and
    reports an overflow that some earlier C function left behind.
    """
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf if math.isinf(a) or math.isinf(b) else math.nan
    try:
        return abs(complex(a, b))
    except OverflowError:
        return math.inf


def sinh(a: float) -> float:
    """C sinh."""
    try:
        return math.sinh(a)
    except OverflowError:
        return math.copysign(math.inf, a)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def total(a: float) -> float:
        # copysign keeps the sign of zero, which a Python int does not have
        return math.copysign(function(a), a) if math.isfinite(a) else a

    return total


def _total(function: Callable[[float], float], at_zero: float = math.nan) -> Callable[[float], float]:
    """`function` with NaN outside its domain (but `at_zero` at zero) and inf where it overflows."""

    def total(a: float) -> float:
        try:
            return function(a)
        except ValueError:
            return at_zero if a == 0.0 else math.nan
        except OverflowError:
            return math.inf

    return total


HELPERS: Final[dict[str, object]] = {
    "divide": divide,
    "power": power,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "nearest": _whole(round),
    "sqrt": _total(math.sqrt),
    "exp": _total(math.exp),
    "log": _total(math.log, at_zero=-math.inf),
    "log10": _total(math.log10, at_zero=-math.inf),
    "sin": _total(math.sin),
    "cos": _total(math.cos),
    "tan": _total(math.tan),
    "asin": _total(math.asin),
    "acos": _total(math.acos),
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": sinh,
    "cosh": _total(math.cosh),
    "tanh": math.tanh,
    "hypot": hypotenuse,
    "inf": math.inf,
    "nan": math.nan,
}
"""What the Python text of an operation may name."""


# ----------------------------------------------------------------------------------------------------


class Op(enum.IntEnum):
    """An operation; the value is its opcode."""

    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    POW = 5
    NEG = 6
    LT = 7
    LE = 8
    GT = 9
    GE = 10
    EQ = 11
    NE = 12
    AND = 13
    OR = 14
    NOT = 15
    WHERE = 16
    MIN = 17
    MAX = 18
    CLIP = 19
    ABS = 20
    SIGN = 21
    FLOOR = 22
    CEIL = 23
    ROUND = 24
    MOD = 25
    SQRT = 26
    EXP = 27
    LOG = 28
    LOG10 = 29
    SIN = 30
    COS = 31
    TAN = 32
    ASIN = 33
    ACOS = 34
    ATAN = 35
    ATAN2 = 36
    SINH = 37
    COSH = 38
    TANH = 39
    HYPOT = 40


LOOKUP1: Final = 41
"""Opcode of a `Table1` lookup: row (LOOKUP1, dst, table, a, 0)."""
LOOKUP2: Final = 42
"""Opcode of a `Table2` lookup: row (LOOKUP2, dst, table, a, b)."""


class Level(enum.IntEnum):
    """How tightly a piece of text holds together; as in Python."""

    TERNARY = 1
    OR = 2
    AND = 3
    NOT = 4
    COMPARISON = 5
    SUM = 6
    PRODUCT = 7
    UNARY = 8
    POWER = 9
    ATOM = 10


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table.

    * `name` is the function name in texts, or the symbol of an operator.
    * `python` is the meaning as Python text over {a}, {b}, {c}, each of them a name or a literal.
    * `rate` is the rate of change, in the expression language itself: over the arguments a, b, c,
      their rates da, db, dc, and the result y.
    * `kind` is what comes out; None means whatever the arguments have in common.
    * `level` is the binding level of an operator; functions are atoms.
    * `libm` is the C library function that does all the work, if there is one.
    """

    name: str
    arity: int
    python: str
    rate: str
    kind: Kind | None = Kind.REAL
    level: Level = Level.ATOM
    libm: str = ""


def _operator(symbol: str, python: str, rate: str, level: Level, kind: Kind | None = None) -> Operation:
    return Operation(symbol, 1 if level in (Level.UNARY, Level.NOT) else 2, python, rate, kind, level)


def _truth(symbol: str, test: str, level: Level = Level.COMPARISON) -> Operation:
    return _operator(symbol, f"(1.0 if {test} else 0.0)", "0", level, Kind.BOOLEAN)


def _library(name: str, rate: str, arity: int = 1) -> Operation:
    return Operation(name, arity, f"{name}({'{a}' if arity == 1 else '{a}, {b}'})", rate, libm=name)


OPS: Final[dict[Op, Operation]] = {
    Op.ADD: _operator("+", "{a} + {b}", "da + db", Level.SUM),
    Op.SUB: _operator("-", "{a} - {b}", "da - db", Level.SUM),
    Op.MUL: _operator("*", "{a} * {b}", "da*b + a*db", Level.PRODUCT),
    Op.DIV: _operator("/", "divide({a}, {b})", "(da - y*db)/b", Level.PRODUCT, Kind.REAL),
    Op.POW: _operator("**", "power({a}, {b})", "b*a**(b - 1)*da + y*log(a)*db", Level.POWER, Kind.REAL),
    Op.NEG: _operator("-", "-{a}", "-da", Level.UNARY),
    Op.LT: _truth("<", "{a} < {b}"),
    Op.LE: _truth("<=", "{a} <= {b}"),
    Op.GT: _truth(">", "{a} > {b}"),
    Op.GE: _truth(">=", "{a} >= {b}"),
    Op.EQ: _truth("==", "{a} == {b}"),
    Op.NE: _truth("!=", "{a} != {b}"),
    Op.AND: _truth("and", "{a} and {b}", Level.AND),
    Op.OR: _truth("or", "{a} or {b}", Level.OR),
    Op.NOT: _truth("not", "not {a}", Level.NOT),
    Op.WHERE: Operation("if", 3, "({b} if {a} else {c})", "db if a else dc", None, Level.TERNARY),
    Op.MIN: Operation("min", 2, "({a} if {a} < {b} else {b})", "da if a < b else db", None),
    Op.MAX: Operation("max", 2, "({a} if {a} > {b} else {b})", "da if a > b else db", None),
    Op.CLIP: Operation(
        "clip",
        3,
        "({b} if {a} < {b} else ({c} if {a} > {c} else {a}))",
        "db if a < b else (dc if a > c else da)",
        None,
    ),
    Op.ABS: Operation("abs", 1, "abs({a})", "sign(a)*da", None),
    Op.SIGN: Operation("sign", 1, "float(({a} > 0.0) - ({a} < 0.0))", "0", Kind.INTEGER),
    Op.FLOOR: Operation("floor", 1, "floor({a})", "0", Kind.INTEGER),
    Op.CEIL: Operation("ceil", 1, "ceil({a})", "0", Kind.INTEGER),
    Op.ROUND: Operation("round", 1, "nearest({a})", "0", Kind.INTEGER),
    Op.MOD: Operation("mod", 2, "{a} - floor(divide({a}, {b})) * {b}", "da - floor(a/b)*db", None),
    Op.SQRT: _library("sqrt", "da/(2*y)"),
    Op.EXP: _library("exp", "y*da"),
    Op.LOG: _library("log", "da/a"),
    Op.LOG10: _library("log10", "da/(a*log(10))"),
    Op.SIN: _library("sin", "cos(a)*da"),
    Op.COS: _library("cos", "-(sin(a)*da)"),
    Op.TAN: _library("tan", "(1 + y*y)*da"),
    Op.ASIN: _library("asin", "da/sqrt((1 - a)*(1 + a))"),
    Op.ACOS: _library("acos", "-(da/sqrt((1 - a)*(1 + a)))"),
    Op.ATAN: _library("atan", "da/(1 + a*a)"),
    Op.ATAN2: _library("atan2", "(b*da - a*db)/(a*a + b*b)", 2),
    Op.SINH: _library("sinh", "cosh(a)*da"),
    Op.COSH: _library("cosh", "sinh(a)*da"),
    Op.TANH: _library("tanh", "(1 - y*y)*da"),
    Op.HYPOT: _library("hypot", "(a*da + b*db)/y", 2),
}

FUNCTIONS: Final[dict[str, Op]] = {row.name: op for op, row in OPS.items() if row.level is Level.ATOM}
BINARY: Final[dict[str, Op]] = {
    row.name: op for op, row in OPS.items() if row.arity == 2 and row.level is not Level.ATOM
}
CONSTANTS: Final[dict[str, float]] = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "true": 1.0,
    "false": 0.0,
    "True": 1.0,
    "False": 0.0,
}
KEYWORDS: Final = frozenset({"if", "else", "and", "or", "not"})

_lambdas = ", ".join(
    f"{op.value}: lambda {', '.join('abc'[: row.arity])}: {row.python.format(a='a', b='b', c='c')}"
    for op, row in OPS.items()
)
IMPLEMENTATION: Final[dict[int, Callable[..., float]]] = eval(f"{{{_lambdas}}}", dict(HELPERS))  # noqa: S307
"""Each operation as a Python function, made from the constant texts of the `python` column above."""
