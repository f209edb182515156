"""Kernels as machine code, through LLVM (extra ``[jit]``).

The assembly is written as text, so only compiling needs llvmlite. There are no fast-math flags and no
optimisation passes: a kernel has nothing left to share, and a pass might replace one library function by
another with other last bits (pow(2, x) by exp2). The code generator does the rest, without contraction.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from upbeat.core.errors import MissingExtra
from upbeat.core.expr.operations import LOOKUP1, LOOKUP2, OPS, Op
from upbeat.core.expr.tables import Table, Table1

if TYPE_CHECKING:
    from upbeat.core.expr.kernel import Kernel


@dataclass(frozen=True)
class Compiled:
    """Machine code at `address`: void(const double* inputs, double* outputs); the two may overlap.

    The code lives as long as this object: keep it while the address is in use.
    """

    kernel: Kernel
    address: int
    _engine: Any = field(repr=False, compare=False)

    def __call__(self, values: Sequence[float]) -> list[float]:
        """The outputs for input `values`; for trying out, not for speed."""
        inputs = (ctypes.c_double * self.kernel.n_inputs)(*values)
        outputs = (ctypes.c_double * len(self.kernel.outputs))()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.address)(inputs, outputs)
        return list(outputs)


def compile(kernel: Kernel) -> Compiled:
    """Machine code for `kernel` on this machine."""
    llvm = _llvm()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    module = llvm.parse_assembly(ir_of(kernel, "kernel"))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return Compiled(kernel, engine.get_function_address("kernel"), engine)


@cache
def _llvm() -> Any:
    """The LLVM binding, ready for this machine."""
    try:
        from llvmlite import binding
    except ImportError:
        raise MissingExtra("jit", "compiling expressions to machine code") from None
    with contextlib.suppress(RuntimeError):  # newer versions do it themselves, and complain
        binding.initialize()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    if binding.address_of_symbol("sin") is None:
        binding.load_library_permanently("libm.dylib" if sys.platform == "darwin" else "libm.so.6")
    return binding


# -- assembly ------------------------------------------------------------------------------------

_ZERO: Final = "0.0"


def _test(condition: str) -> str:
    return f"{{d}}.t = {condition}\n{{d}} = uitofp i1 {{d}}.t to double"


def _choose(condition: str, yes: str, no: str) -> str:
    return f"{{d}}.t = {condition}\n{{d}} = select i1 {{d}}.t, double {yes}, double {no}"


_TRUTHS: Final = f"{{d}}.a = fcmp une double {{a}}, {_ZERO}\n{{d}}.b = fcmp une double {{b}}, {_ZERO}\n"

_ASSEMBLY: Final[dict[Op, str]] = {
    Op.ADD: "{d} = fadd double {a}, {b}",
    Op.SUB: "{d} = fsub double {a}, {b}",
    Op.MUL: "{d} = fmul double {a}, {b}",
    Op.DIV: "{d} = fdiv double {a}, {b}",
    Op.NEG: "{d} = fneg double {a}",
    Op.POW: """{d}.2 = fmul double {a}, {a}
{d}.3 = fmul double {d}.2, {a}
{d}.p = call double @pow(double {a}, double {b})
{d}.is2 = fcmp oeq double {b}, 2.0
{d}.is3 = fcmp oeq double {b}, 3.0
{d}.q = select i1 {d}.is3, double {d}.3, double {d}.p
{d} = select i1 {d}.is2, double {d}.2, double {d}.q""",
    Op.LT: _test("fcmp olt double {a}, {b}"),
    Op.LE: _test("fcmp ole double {a}, {b}"),
    Op.GT: _test("fcmp ogt double {a}, {b}"),
    Op.GE: _test("fcmp oge double {a}, {b}"),
    Op.EQ: _test("fcmp oeq double {a}, {b}"),
    Op.NE: _test("fcmp une double {a}, {b}"),
    Op.AND: _TRUTHS + _test("and i1 {d}.a, {d}.b"),
    Op.OR: _TRUTHS + _test("or i1 {d}.a, {d}.b"),
    Op.NOT: _test(f"fcmp oeq double {{a}}, {_ZERO}"),
    Op.WHERE: _choose(f"fcmp une double {{a}}, {_ZERO}", "{b}", "{c}"),
    Op.MIN: _choose("fcmp olt double {a}, {b}", "{a}", "{b}"),
    Op.MAX: _choose("fcmp ogt double {a}, {b}", "{a}", "{b}"),
    Op.CLIP: """{d}.above = fcmp ogt double {a}, {c}
{d}.top = select i1 {d}.above, double {c}, double {a}
"""
    + _choose("fcmp olt double {a}, {b}", "{b}", "{d}.top"),
    Op.SIGN: f"""{{d}}.above = fcmp ogt double {{a}}, {_ZERO}
{{d}}.below = fcmp olt double {{a}}, {_ZERO}
{{d}}.p = uitofp i1 {{d}}.above to double
{{d}}.n = uitofp i1 {{d}}.below to double
{{d}} = fsub double {{d}}.p, {{d}}.n""",
    Op.ABS: "{d} = call double @llvm.fabs.f64(double {a})",
    Op.FLOOR: "{d} = call double @llvm.floor.f64(double {a})",
    Op.CEIL: "{d} = call double @llvm.ceil.f64(double {a})",
    Op.ROUND: "{d} = call double @llvm.nearbyint.f64(double {a})",
    Op.SQRT: "{d} = call double @llvm.sqrt.f64(double {a})",
    Op.MOD: """{d}.q = fdiv double {a}, {b}
{d}.f = call double @llvm.floor.f64(double {d}.q)
{d}.m = fmul double {d}.f, {b}
{d} = fsub double {a}, {d}.m""",
}
_INTRINSICS: Final = (
    "llvm.fabs.f64",
    "llvm.floor.f64",
    "llvm.ceil.f64",
    "llvm.nearbyint.f64",
    "llvm.sqrt.f64",
)

_COUNT: Final = """define internal i64 @count(ptr %knots, i64 %n, double %u) {
entry:
  br label %loop
loop:
  %low = phi i64 [ 0, %entry ], [ %low2, %halve ]
  %high = phi i64 [ %n, %entry ], [ %high2, %halve ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %halve, label %done
halve:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %place = getelementptr double, ptr %knots, i64 %middle
  %knot = load double, ptr %place
  %before = fcmp olt double %u, %knot
  %after = add i64 %middle, 1
  %low2 = select i1 %before, i64 %low, i64 %after
  %high2 = select i1 %before, i64 %middle, i64 %high
  br label %loop
done:
  ret i64 %low
}
define internal double @term(double %c, double %d) {
  %nothing = fcmp oeq double %c, 0.0
  %product = fmul double %c, %d
  %term = select i1 %nothing, double 0.0, double %product
  ret double %term
}"""


def ir_of(kernel: Kernel, name: str) -> str:
    """`kernel` as LLVM assembly that defines ``void name(ptr inputs, ptr outputs)``."""
    word = [f"%x{i}" for i in range(kernel.n_inputs)]
    word += map(_literal, kernel.constants)
    word += [f"%t{i}" for i in range(len(word), kernel.size)]
    body = [line for i in range(kernel.n_inputs) for line in _load(f"x{i}", "%inputs", str(i))]
    for opcode, d, a, b, c in kernel.code:
        body += _row(opcode, word[d], a, (word[a] if a < len(word) else "", word[b], word[c]))
    for i, place in enumerate(kernel.results):
        body.append(f"%y{i} = getelementptr double, ptr %outputs, i64 {i}")
        body.append(f"store double {word[place]}, ptr %y{i}")
    return "\n".join(
        [
            *_declarations(opcode for opcode, *_ in kernel.code),
            *([_COUNT] if kernel.tables else []),
            *(_table(i, table) for i, table in enumerate(kernel.tables)),
            f"define void @{name}(ptr %inputs, ptr %outputs) {{",
            *body,
            "ret void",
            "}",
            "",
        ]
    )


def _declarations(opcodes: Iterable[int]) -> list[str]:
    used = {Op(opcode) for opcode in opcodes if opcode not in (LOOKUP1, LOOKUP2)}
    functions = {OPS[op].libm: OPS[op].arity for op in used if op not in _ASSEMBLY}
    if Op.POW in used:
        functions["pow"] = 2
    return [f"declare double @{name}(double)" for name in _INTRINSICS] + [
        f"declare double @{name}({', '.join(['double'] * arity)})"
        for name, arity in sorted(functions.items())
    ]


def _row(opcode: int, d: str, table: int, words: tuple[str, str, str]) -> list[str]:
    a, b, c = words
    if opcode == LOOKUP1:
        return [f"{d} = call double @table{table}(double {b})"]
    if opcode == LOOKUP2:
        return [f"{d} = call double @table{table}(double {b}, double {c})"]
    op = Op(opcode)
    if op in _ASSEMBLY:
        return _ASSEMBLY[op].format(d=d, a=a, b=b, c=c).split("\n")
    args = ", ".join(f"double {word}" for word in words[: OPS[op].arity])
    return [f"{d} = call double @{OPS[op].libm}({args})"]


def _literal(value: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _load(name: str, array: str, index: str) -> list[str]:
    return [
        f"%{name}.at = getelementptr double, ptr {array}, i64 {index}",
        f"%{name} = load double, ptr %{name}.at",
    ]


def _array(name: str, values: Sequence[float]) -> str:
    items = ", ".join(f"double {_literal(value)}" for value in values)
    return f"@{name} = internal constant [{len(values)} x double] [{items}]"


def _table(number: int, table: Table) -> str:
    """A function ``@tableN`` that does what `tables` defines."""
    name = f"table{number}"
    arrays = [_array(f"{name}.{what}", values) for what, values in table.lowered._asdict().items()]
    if isinstance(table, Table1):
        lines = [
            f"define internal double @{name}(double %u) {{",
            f"%k = call i64 @count(ptr @{name}.knots, i64 {len(table.x)}, double %u)",
            *_load("origin", f"@{name}.origin", "%k"),
            "%d = fsub double %u, %origin",
            *_load("base", f"@{name}.base", "%k"),
            *_load("slope", f"@{name}.slope", "%k"),
            "%rise = call double @term(double %slope, double %d)",
            "%value = fadd double %base, %rise",
        ]
        return "\n".join([*arrays, *lines, *_unless_nan("d", "value", "result"), "ret double %result", "}"])
    lines = [
        f"define internal double @{name}(double %u, double %v) {{",
        f"%k = call i64 @count(ptr @{name}.x, i64 {len(table.x)}, double %u)",
        f"%l = call i64 @count(ptr @{name}.y, i64 {len(table.y)}, double %v)",
        *_load("ox", f"@{name}.origin_x", "%k"),
        *_load("oy", f"@{name}.origin_y", "%l"),
        "%dx = fsub double %u, %ox",
        "%dy = fsub double %v, %oy",
        "%dxy = fmul double %dx, %dy",
        f"%row = mul i64 %k, {len(table.y) + 1}",
        "%patch = add i64 %row, %l",
        "%first = mul i64 %patch, 4",
        *_load("c0", f"@{name}.coefficients", "%first"),
    ]
    total = "%c0"
    for i, d in enumerate(("dx", "dy", "dxy"), 1):
        lines += [
            f"%i{i} = add i64 %first, {i}",
            *_load(f"c{i}", f"@{name}.coefficients", f"%i{i}"),
            f"%m{i} = call double @term(double %c{i}, double %{d})",
            f"%s{i} = fadd double {total}, %m{i}",
        ]
        total = f"%s{i}"
    lines += [*_unless_nan("dy", "s3", "result.y"), *_unless_nan("dx", "result.y", "result")]
    return "\n".join([*arrays, *lines, "ret double %result", "}"])


def _unless_nan(test: str, value: str, to: str) -> list[str]:
    return [
        f"%{to}.nan = fcmp uno double %{test}, %{test}",
        f"%{to} = select i1 %{to}.nan, double %{test}, double %{value}",
    ]
