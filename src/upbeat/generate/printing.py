"""C as text: names that C allows, numbers to the bit, kernels of expressions, and what programs share.

All of it is printed as C99 in double precision; a `Dialect` makes something else of the whole text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import inf
from textwrap import wrap

from upbeat.core.errors import ModelError
from upbeat.core.expr import Kernel
from upbeat.core.expr.operations import LOOKUP1, LOOKUP2, OPS, Level, Op
from upbeat.core.expr.tables import Table, Table1
from upbeat.master.registers import NEXT

# ----------------------------------------------------------------------------------------------------
# Names.

_TAKEN = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
alignas alignof bool catch class constexpr decltype delete explicit export false friend mutable namespace new
noexcept nullptr operator private protected public template this throw true try typeid typename using virtual
and or not xor bitand bitor compl unix linux NULL NAN INFINITY EOF I main real cell
sin cos tan asin acos atan atan2 sinh cosh tanh exp log log10 pow hypot sqrt floor ceil fabs nearbyint
larger smaller ulp horner refuse
"""
_RESERVED = frozenset(_TAKEN.split())
_LIBRARY = """
acosh asinh atanh cbrt copysign erf erfc exp2 expm1 fdim fma fmax fmin fmod frexp gamma ilogb j0 j1 jn ldexp lgamma llrint
llround log1p log2 logb lrint lround modf nan nextafter nexttoward remainder remquo rint round scalbln scalbn signgam tgamma
trunc y0 y1 yn FILE clearerr fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc fputs fread freopen fscanf fseek
fsetpos ftell fwrite getc getchar gets perror printf putc putchar puts remove rename rewind scanf setbuf setvbuf snprintf
sprintf sscanf stderr stdin stdout tmpfile tmpnam ungetc vfprintf vprintf vsnprintf vsprintf abort abs atexit atof atoi atol
bsearch calloc div exit free getenv labs ldiv malloc qsort rand realloc srand strtod strtof strtol strtoul system memchr memcmp
memcpy memmove memset strcat strchr strcmp strcoll strcpy strcspn strerror strlen strncat strncmp strncpy strpbrk strrchr strspn
strstr strtok strxfrm assert errno clock time signal raise bool true false
"""
_TYPE = re.compile(r"\w+_t")


def is_free(name: str) -> bool:
    """Whether a whole program may be called so: neither C nor its library has the word."""
    return name not in _RESERVED and name not in _LIBRARY.split() and not _TYPE.fullmatch(name)


_MACRO = re.compile(
    r"(_|FP_|INT|UINT|SIZE_|PTRDIFF|WCHAR|WINT|SIG_|HUGE|MATH_|FAULT_|SAYS_|M_|is|op_|t\d|(filled|saved|ode|discrete|list|table|was|by)\d)"
)


class Names:
    """Words of C for names of a scenario, each for one of them: what C forbids is written otherwise."""

    def __init__(self, taken: Iterable[str] = (), *, ends: bool = False) -> None:
        """`ends`: words that others end with, which may be anything."""
        self._taken = set(taken)
        self._reserved: frozenset[str] = frozenset() if ends else _RESERVED
        self._ends = ends
        self._known: dict[object, str] = {}

    def __call__(self, name: str, key: object = None) -> str:
        """The word for `name`; for the same `key` (usually the name) always the same one."""
        key = name if key is None else key
        if key not in self._known:
            word = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or "x"
            if not self._ends and (word[0].isdigit() or word in _RESERVED or _MACRO.match(word)):
                word = f"a_{word}"
            word = word[:48]
            found, number = word, 2
            while found in self._taken or found in self._reserved:
                found, number = f"{word}_{number}", number + 1
            self._taken.add(found)
            self._known[key] = found
        return self._known[key]


def comment(text: str) -> str:
    """Text as a comment, which nothing in it can end."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return f"/* {plain.replace('*/', '* /').replace('/*', '/ *').replace('??', '? ?')} */"


def paragraph(text: str) -> str:
    """A longer comment, in lines of moderate length."""
    first, *rest = wrap(comment(text)[3:-3], 110)
    return "\n".join([f"/* {first}", *(f" * {line}" for line in rest)]) + " */"


def quoted(value: str) -> str:
    """A string of C, in UTF-8: what is not plain is written as bytes."""
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in value.encode()
    )
    return f'"{plain}"'


# ----------------------------------------------------------------------------------------------------
# Texts of C.

_REMARK = re.compile(r"/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_STATIC = re.compile(r"static\s+(?:[A-Za-z_]\w*[\s*]+)+(?!__)([A-Za-z]\w*)\s*[(\[=;]")


def without_remarks(text: str) -> str:
    """A text without its comments."""
    return _REMARK.sub("", text).strip()


def used(parts: Sequence[str], by: Iterable[str]) -> list[str]:
    """The declarations and definitions that others need, in their order: no static function or table for nobody."""
    plain = [without_remarks(part) for part in parts]
    names = [found[1] if (found := _STATIC.match(text)) else None for text in plain]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name is not None:
            places.setdefault(name, []).append(place)
    kept = {place for place, name in enumerate(names) if name is None}
    open_ = [*by, *(plain[place] for place in sorted(kept))]
    while open_:
        for word in _WORD.findall(open_.pop()):
            for place in places.pop(word, ()):
                kept.add(place)
                open_.append(plain[place])
    return [part for place, part in enumerate(parts) if place in kept]


def items(text: str) -> Iterator[str]:
    """The declarations and definitions of a text, each with the comment before it."""
    lines: list[str] = []
    depth, conditional, remark = 0, 0, False
    for line in text.splitlines():
        if not line.strip() and not lines:
            continue
        lines.append(line)
        code = re.sub(r"/\*.*?\*/", "", line)
        remark = ("/*" in code or remark) and "*/" not in code
        if remark or line.lstrip().startswith("*") or (line.startswith("/*") and not code.strip()):
            continue
        conditional += code.startswith("#if") - code.startswith("#endif")
        depth += code.count("{") - code.count("}")
        ends = code.rstrip().endswith((";", "}")) or code.startswith("#")
        if depth == 0 and conditional == 0 and ends:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def literal(value: float) -> str:
    """A number to the bit."""
    if value != value:
        return "NAN"
    if abs(value) == inf:
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def block(lines: Iterable[str], by: int = 1) -> list[str]:
    """Lines, indented."""
    return [f"{'  ' * by}{line}" if line else line for line in lines]


def array(values: Sequence[float] | Sequence[int], width: int = 110) -> list[str]:
    """The inside of an initialiser, in lines of moderate length."""
    lines, line = [], ""
    for value in values:
        text = literal(value) if isinstance(value, float) else str(value)
        if len(line) + len(text) + 2 > width:
            lines.append(line.rstrip())
            line = ""
        line += f"{text}, "
    return [*lines, line.rstrip(", ")]


# ----------------------------------------------------------------------------------------------------
# Other kinds of C.

_LITERAL = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])")
_LIBM = re.compile(
    r"\b(sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|exp|log|log10|pow|hypot|sqrt|floor|ceil|fabs|nearbyint"
    r"|nextafter)\("
)
_SMALLEST, _LARGEST = 1.17549435e-38, 3.40282347e38
_ROUNDING = {NEXT: 2.0**-24 + 2.0**-47, **{k * 2.0**-52: k * 2.0**-23 for k in (1, 2, 4, 8, 16)}}
"""Numbers that say how doubles are rounded, and what they are in single precision."""


@dataclass(frozen=True)
class Dialect:
    """What is not the same in every C: in which precision it computes, and the words before functions (`local`)
    and tables (`table`) of the file. (Those before functions that others call are `Context.face`.)

    The printer writes C99 in double precision; `spoken` is the last thing that happens to its text. `quick`: not to
    the bit as the engines do it, but for processors that like other things (see `Shared`). `lanes`: so many units
    can solve their equations at a time, each in a lane of the processor's registers.
    """

    single: bool = False
    local: str = "static"
    table: str = "static const"
    quick: bool = False
    lanes: int = 0

    def spoken(self, text: str) -> str:
        """A whole text of C in this dialect; comments stay as they are."""
        parts = re.split(r"(/\*.*?\*/)", text, flags=re.DOTALL)
        return "".join(part if part.startswith("/*") else self._code(part) for part in parts)

    def _code(self, code: str) -> str:
        if self.table != "static const":
            code = re.sub(r"(?m)^static const\b", self.table, code)
        if self.local != "static":
            code = re.sub(r"(?m)^static (?:inline )?(?!const\b|__)", f"{self.local} ", code)
        if not self.single:
            return code
        code = code.replace("typedef double real;", "typedef float real;")
        code = _LIBM.sub(r"\1f(", code)
        return _LITERAL.sub(lambda found: _as_float(found[0]), code)


def _as_float(text: str) -> str:
    """A number in single precision: none becomes zero or infinite that was neither, and what is said of rounding
    is true of it."""
    value = float(text)
    if value in _ROUNDING:
        return f"{_ROUNDING[value]!r}f"
    if 0.0 < value < _SMALLEST:
        return f"{_SMALLEST!r}f"
    return f"{_LARGEST!r}f" if value > _LARGEST else f"{text}f"


# ----------------------------------------------------------------------------------------------------
# What programs share: sections of runtime.c, each printed where something needs it.


@cache
def sections() -> dict[str, tuple[tuple[str, ...], str]]:
    """Of each section of runtime.c by name: what it needs, and its text."""
    text = (files("upbeat.generate") / "c" / "runtime.c").read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"^//@ ", text, flags=re.MULTILINE)[1:]:
        head, body = part.split("\n", 1)
        name, needs = head.split(":")
        found[name] = (tuple(needs.split()), body.rstrip("\n"))
    return found


class Shared:
    """The sections and tables that a translation unit needs, in their order; in single precision, `NAME_single`
    takes the place of a section."""

    def __init__(self, *, single: bool = False, quick: bool = False, lanes: int = 0) -> None:
        """`quick`: not to the bit as the engines do it, but for processors that like other things: courses have a
        fixed number of coefficients, and what divides by a parameter multiplies with its reciprocal."""
        self.single = single
        self.quick = quick
        self.lanes = lanes
        self._wanted: set[str] = set()
        self._tables: dict[Table, str] = {}
        self._lists: dict[tuple[int, ...], str] = {}

    def need(self, name: str) -> str:
        """Say that a section is needed; its name again, so that it can be written in a call."""
        if name not in self._wanted:
            if name not in sections():
                raise ModelError(
                    f"{name.replace('_', ' ')} cannot be printed as C: runtime.c has no section '{name}'. Write it "
                    "(see docs/extending.md), or take another engine: --engine native."
                )
            self._wanted.add(name)
            for other in sections()[name][0]:
                self.need(other)
        return name

    def table(self, table: Table) -> str:
        """The name of a table's numbers."""
        return self._tables.setdefault(table, f"table{len(self._tables)}")

    def listed(self, numbers: Sequence[int]) -> str:
        """The name of a list of numbers."""
        return self._lists.setdefault(tuple(numbers), f"list{len(self._lists)}")

    def text(self) -> str:
        """All that is needed."""
        for section in ("head", "exact", "refuse"):
            self.need(section)
        own = {name: f"{name}_single" if self.single else name for name in self._wanted}
        parts = [
            sections().get(own[name], (needs, text))[1]
            for name, (needs, text) in sections().items()
            if name in self._wanted
        ]
        if self.quick:
            parts = [_with_reciprocals(text) for text in parts]
        for table, name in self._tables.items():
            parts.append("\n".join([comment(f"the table {table.name}"), *_numbers(table, name)]))
        for numbers, name in self._lists.items():
            parts.append("\n".join([f"static const int32_t {name}[] = {{", *block(array(numbers)), "};"]))
        return "\n\n".join(parts)


def _with_reciprocals(text: str) -> str:
    """`compute_fit` with one division by the distance of samples, in place of several for each number."""
    if "compute_fit" not in text:
        return text
    text = text.replace("const real h = c[listed[4]].r,", "const real h = c[listed[4]].r, by = 1.0 / h,")
    for divided, multiplied in (
        (" / (h * h)", " * (by * by)"),
        ("c5 = d / (cube * h * h);", "c5 = d * (by * by * by) * (by * by);"),
        ("c4 = b / (cube * h);", "c4 = b * (by * by) * (by * by);"),
        ("c3 = a / cube;", "c3 = a * (by * by * by);"),
        (" / h;", " * by;"),
    ):
        text = text.replace(divided, multiplied)
    return text


def _numbers(table: Table, name: str) -> list[str]:
    if isinstance(table, Table1):
        knots, origin, base, slope = table.lowered
        both = [value for pair in zip(base, slope, strict=True) for value in pair]
        parts = {"x": knots, "ox": origin, "z": both}
    else:
        x, y, origin_x, origin_y, coefficients = table.lowered
        parts = {"x": x, "y": y, "ox": origin_x, "oy": origin_y, "z": coefficients}
    return [
        line
        for part, values in parts.items()
        for line in (
            f"static const real {name}_{part}[] = {{",
            *block(array([float(v) for v in values])),
            "};",
        )
    ]


def _lookup(table: Table, name: str, arguments: Sequence[str]) -> str:
    size = len(table.lowered[0])
    if isinstance(table, Table1):
        return f"lookup1({name}_x, {size}, {name}_ox, {name}_z, {arguments[0]})"
    columns = len(table.lowered[1])
    head = f"{name}_x, {size}, {name}_y, {columns}, {name}_ox, {name}_oy, {name}_z"
    return f"lookup2({head}, {', '.join(arguments)})"


# ----------------------------------------------------------------------------------------------------
# Kernels: straight-line code, in which what is used once stands where it is used.

_SHORT = 60
"""A longer text gets a name of its own."""
_SYMBOLS = {"and": "&&", "or": "||"}


@dataclass(frozen=True, slots=True)
class _Text:
    """A piece of C: how tightly it holds together, and whether it is a test, which is 1 or 0 as a number."""

    text: str
    level: Level = Level.ATOM
    test: bool = False

    def within(self, level: Level, also: bool = False) -> str:
        """As part of something of this level; `also`: of the same level, too."""
        number = self.number
        fits = number.level > level or (also and number.level == level)
        return number.text if fits else f"({number.text})"

    @property
    def number(self) -> _Text:
        return _Text(f"{self.within_test(Level.OR)} ? 1.0 : 0.0", Level.TERNARY) if self.test else self

    def within_test(self, level: Level) -> str:
        """As a condition that is part of one of this level."""
        if not self.test:
            return f"{self.within(Level.COMPARISON)} != 0.0"
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class KernelPrinter:
    """Prints kernels into functions of one translation unit."""

    shared: Shared
    counter: int = field(default=0, init=False)

    def lines(
        self,
        kernel: Kernel,
        inputs: Sequence[str],
        store: Callable[[int, str], str],
        *,
        test: bool = False,
        steady: frozenset[int] = frozenset(),
    ) -> list[str]:
        """The statements that compute the results of a kernel whose inputs are these texts (atoms).

        `store` gives the statement for the result with this number and text. With `test` there is one result,
        and its text is a condition. `steady` inputs never change.
        """
        fixed = set(steady) | set(range(kernel.n_inputs, kernel.n_inputs + len(kernel.constants)))
        texts = [_Text(word) for word in inputs] + [_Text(literal(v), Level.ATOM) for v in kernel.constants]
        uses = [0] * kernel.size
        for opcode, _, a, b, c in kernel.code:
            for place in self._read(opcode, a, b, c):
                uses[place] += 1
        for place in kernel.results:
            uses[place] += 1
        found: list[str] = []
        divided = Counter(b for opcode, _, _, b, _ in kernel.code if opcode == Op.DIV and self.shared.quick)
        for opcode, dst, a, b, c in kernel.code:
            piece = self._piece(kernel, texts, opcode, a, b, c)
            if opcode == Op.DIV and b not in fixed and divided[b] > 1:  # by the same number again and again
                if divided.get(-1 - b, 0) == 0:
                    divided[-1 - b] = 1
                    found.append(f"const real by{b} = 1.0 / {texts[b].within(Level.PRODUCT)};")
                piece = _Text(f"{texts[a].within(Level.PRODUCT, also=True)} * by{b}", Level.PRODUCT)
            if all(place in fixed for place in self._read(opcode, a, b, c)):
                fixed.add(dst)
            elif self.shared.quick and opcode == Op.DIV and b in fixed:
                by = f"(1.0 / {texts[b].within(Level.PRODUCT)})"
                piece = _Text(f"{texts[a].within(Level.PRODUCT, also=True)} * {by}", Level.PRODUCT)
            if uses[dst] > 1 or (len(piece.text) > _SHORT and dst not in kernel.results):
                name = f"t{dst}"
                found.append(f"const real {name} = {piece.number.text};")
                piece = _Text(name)
            texts.append(piece)
        for number, place in enumerate(kernel.results):
            piece = texts[place]
            found.append(store(number, piece.within_test(Level.TERNARY) if test else piece.number.text))
        return found

    @staticmethod
    def _read(opcode: int, a: int, b: int, c: int) -> Sequence[int]:
        if opcode == LOOKUP1:
            return (b,)
        if opcode == LOOKUP2:
            return b, c
        return (a, b, c)[: OPS[Op(opcode)].arity]

    def _piece(self, kernel: Kernel, texts: Sequence[_Text], opcode: int, a: int, b: int, c: int) -> _Text:
        arguments = [texts[place] for place in self._read(opcode, a, b, c)]
        if opcode in (LOOKUP1, LOOKUP2):
            table = kernel.tables[a]
            self.shared.need("lookup1" if opcode == LOOKUP1 else "lookup2")
            return _Text(_lookup(table, self.shared.table(table), [one.number.text for one in arguments]))
        op = Op(opcode)
        row = OPS[op]
        match row.level:
            case Level.SUM | Level.PRODUCT:
                left, right = arguments[0].within(row.level, also=True), arguments[1].within(row.level)
                return _Text(f"{left} {row.name} {right}", row.level)
            case Level.UNARY:
                return _Text(f"-{arguments[0].within(Level.POWER)}", Level.UNARY)
            case Level.COMPARISON:
                left, right = (one.within(Level.COMPARISON) for one in arguments)
                return _Text(f"{left} {row.name} {right}", row.level, test=True)
            case Level.AND | Level.OR:  # tests of another level get brackets, which compilers like to see
                left, right = (one.within_test(Level.COMPARISON) for one in arguments)
                return _Text(f"{left} {_SYMBOLS[row.name]} {right}", row.level, test=True)
            case Level.NOT:
                if arguments[0].test:
                    return _Text(f"!({arguments[0].text})", Level.UNARY, test=True)
                return _Text(f"{arguments[0].within(Level.COMPARISON)} == 0.0", Level.COMPARISON, test=True)
            case Level.TERNARY:
                test, then, orelse = arguments
                text = (
                    f"{test.within_test(Level.OR)} ? {then.within(Level.TERNARY)} : "
                    f"{orelse.within(Level.TERNARY)}"
                )
                return _Text(text, Level.TERNARY)
        name = row.libm or self.shared.need("op_power" if op is Op.POW else f"op_{row.name}")
        return _Text(f"{name}({', '.join(one.number.text for one in arguments)})")
