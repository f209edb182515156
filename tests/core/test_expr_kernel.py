"""Kernels: three backends must agree to the last bit with the plain walk over the tree."""

from __future__ import annotations

import math
import pickle
import struct
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upbeat.core.errors import ExpressionError, MissingExtra
from upbeat.core.expr import (
    OPS,
    Apply,
    Cell,
    Expr,
    Kernel,
    Lookup,
    Name,
    Number,
    Op,
    Table1,
    Table2,
    differentiate,
    evaluate,
    jit,
    parse,
)
from upbeat.core.expr.operations import IMPLEMENTATION, LOOKUP1, LOOKUP2

TABLES = (
    Table1((0.0, 1.0, 2.5), (1.0, -2.0, 0.1)),
    Table1((-1.0, 1.0, 2.5), (1.0, -2.0, 0.1), extrapolate="linear"),
    Table1((0.0, 1.0, 2.5), (1.0, -2.0, 0.1), mode="hold"),
    Table1((0.0, 1.0, 2.5), (1.0, -2.0, 0.1), mode="slope"),
    Table2((0.0, 1.0, 2.5), (0.0, 0.1), ((1.0, -2.0), (0.1, 3.0), (0.7, 0.3))),
    Table2((0.0, 1.0), (0.0, 0.1), ((1.0, -2.0), (0.1, 3.0)), mode="slope_x", extrapolate="linear"),
)


def bits(value: float) -> bytes:
    """What must agree; a NaN has no particular sign or payload."""
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def machine(kernel: Kernel, values: list[float]) -> list[float]:
    """An independent reading of the rows, as the native core reads them."""
    work = [*values, *kernel.constants] + [math.nan] * len(kernel.code)
    assert len(work) == kernel.size
    for opcode, dst, a, b, c in kernel.code:
        if opcode == LOOKUP1:
            work[dst] = kernel.tables[a](work[b])  # type: ignore[call-arg]
        elif opcode == LOOKUP2:
            work[dst] = kernel.tables[a](work[b], work[c])  # type: ignore[call-arg]
        else:
            args = [work[i] for i in (a, b, c)][: OPS[Op(opcode)].arity]
            work[dst] = IMPLEMENTATION[opcode](*args)
    return [work[i] for i in kernel.results]


def expressions() -> st.SearchStrategy[Expr]:
    numbers = st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, -1.0, 0.5, math.inf, -math.inf]),
        st.floats(allow_nan=False, width=32),
    )
    leaves = st.one_of(st.sampled_from([Name("x"), Name("y"), Name("z")]), numbers.map(Number))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        applied = st.sampled_from(list(Op)).flatmap(
            lambda op: st.tuples(*[inner] * OPS[op].arity).map(lambda args: Apply(op, args))
        )
        looked = st.sampled_from(TABLES).flatmap(
            lambda table: st.tuples(*[inner] * table.arity).map(lambda args: Lookup(table, args))
        )
        return st.one_of(applied, applied, applied, looked)

    return st.recursive(leaves, grow, max_leaves=15)


anything = st.one_of(
    st.floats(), st.floats(-3, 3), st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.1, 2.5, math.inf, math.nan])
)


@given(st.lists(expressions(), min_size=1, max_size=3), st.lists(anything, min_size=3, max_size=3))
@settings(max_examples=400, deadline=None)
def test_python_backend_agrees_bit_for_bit(outputs: list[Expr], values: list[float]) -> None:
    kernel = Kernel(("x", "y", "z"), tuple(outputs))
    env = dict(zip("xyz", values, strict=True))
    expected = [bits(evaluate(expr, env)) for expr in outputs]
    assert list(map(bits, kernel.python()(values))) == expected
    assert list(map(bits, machine(kernel, values))) == expected


@given(
    st.lists(expressions(), min_size=1, max_size=3),
    st.lists(st.lists(anything, min_size=3, max_size=3), min_size=4, max_size=4),
)
@settings(max_examples=120, deadline=None)
def test_machine_code_agrees_bit_for_bit(outputs: list[Expr], points: list[list[float]]) -> None:
    pytest.importorskip("llvmlite")
    kernel = Kernel(("x", "y", "z"), tuple(outputs))
    compiled = jit.compile(kernel)
    for values in points:
        env = dict(zip("xyz", values, strict=True))
        assert list(map(bits, compiled(values))) == [bits(evaluate(expr, env)) for expr in outputs]


def test_an_overflow_elsewhere_is_not_taken_for_one_of_hypot() -> None:
    import ctypes

    for a, b in ((0.0, math.nan), (math.nan, 1.0), (3.0, 4.0)):
        libm = ctypes.CDLL(None)
        libm.exp.restype, libm.exp.argtypes = ctypes.c_double, [ctypes.c_double]
        assert libm.exp(710.0) == math.inf  # sets errno to ERANGE
        assert bits(evaluate(parse("hypot(x, z)"), {"x": a, "z": b})) == bits(math.hypot(a, b))


def test_machine_code_does_not_contract_or_swap_functions() -> None:
    pytest.importorskip("llvmlite")
    texts = ("x*y + z", "x*y - z", "z - x*y", "2**x", "10**x", "x**0.5", "x**-1", "sin(x) + cos(x)", "x/y*y")
    kernel = Kernel(("x", "y", "z"), tuple(map(parse, texts)))
    compiled, python = jit.compile(kernel), kernel.python()
    for i in range(1, 400):
        values = [i / 7, 3 / i, -(i / 7) * (3 / i)]
        assert compiled(values) == python(values)


def test_machine_code_may_overwrite_its_inputs() -> None:
    pytest.importorskip("llvmlite")
    import ctypes

    kernel = Kernel(("x", "y"), (Name("y"), Name("x")))
    compiled = jit.compile(kernel)
    both = (ctypes.c_double * 2)(1.0, 2.0)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(compiled.address)(both, both)
    assert list(both) == [2.0, 1.0]


def test_without_llvmlite_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    jit._llvm.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(MissingExtra, match=r"upbeat\[jit\]"):
        jit.compile(Kernel((), (Number(1.0),)))
    assert "define void @step" in Kernel((), (Number(1.0),)).llvm_ir("step")
    jit._llvm.cache_clear()


def test_equal_parts_are_computed_once() -> None:
    kernel = Kernel(("x", "y"), (parse("sin(x*y) + x*y"), parse("cos(x*y)"), parse("x*y")))
    assert [Op(row[0]) for row in kernel.code] == [Op.MUL, Op.SIN, Op.ADD, Op.COS]
    assert kernel.results[2] == kernel.code[0][1]


def test_layout_is_inputs_constants_temporaries() -> None:
    kernel = Kernel(("x",), (parse("x + 2"), parse("x"), parse("7"), parse("x**2")))
    assert kernel.n_inputs == 1
    assert kernel.constants == (2.0, 7.0)
    assert kernel.code == ((Op.ADD, 3, 0, 1, 0), (Op.MUL, 4, 0, 0, 0))
    assert kernel.results == (3, 0, 2, 4)
    assert kernel.size == 5
    assert kernel.python()([3.0]) == [5.0, 3.0, 7.0, 9.0]


def test_rows_of_lookups_name_the_table_first() -> None:
    line, patch = TABLES[0], TABLES[4]
    kernel = Kernel(("x", "y"), (Lookup(line, (Name("y"),)), Lookup(patch, (Name("y"), Name("x")))))
    assert kernel.tables == (line, patch)
    assert kernel.code[0][:4] == (LOOKUP1, 2, 0, 1)
    assert kernel.code[1] == (LOOKUP2, 3, 1, 1, 0)


def test_zeros_of_either_sign_are_different_constants() -> None:
    kernel = Kernel(("x",), (parse("x*0"), Apply(Op.MUL, (Name("x"), Number(-0.0)))))
    assert [math.copysign(1.0, value) for value in kernel.python()([1.0])] == [1.0, -1.0]


def test_kernels_over_cells() -> None:
    kernel = Kernel.over_cells((Cell(7) - Cell(2), Cell(2) * 2))
    assert kernel.input_cells == (2, 7)
    assert kernel.python()([1.0, 5.0]) == [4.0, 2.0]
    assert Kernel.over_cells(()).python()([]) == []


def test_integers_and_booleans_become_doubles() -> None:
    kernel = Kernel(("n", "b"), (parse("n*n*n"), parse("b + b")))
    result = kernel.python()([10**9, True])
    assert result == [1e27, 2.0]
    assert all(isinstance(value, float) for value in result)


def test_kernels_can_be_pickled_after_use() -> None:
    kernel = Kernel(("x",), (parse("sin(x)*2"),))
    kernel.python()
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy == kernel
    assert copy.code == kernel.code
    assert copy.python()([0.5]) == kernel.python()([0.5])


def test_unknown_names_are_named() -> None:
    with pytest.raises(ExpressionError, match="Did you mean 'speed'"):
        Kernel(("speed",), (parse("sped"),))
    with pytest.raises(ExpressionError, match="cell 3"):
        Kernel((), (Cell(3),))


def test_large_kernels_are_quick() -> None:
    expr = parse("+".join(f"sin(x*{i})" for i in range(3000)))
    kernel = Kernel(("x",), (expr, differentiate(expr, "x")))
    assert kernel.python()([0.0]) == [0.0, pytest.approx(sum(range(3000)))]
