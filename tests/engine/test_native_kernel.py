"""The core's evaluator gives the same bits as the Python one."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upbeat.core.expr import Apply, Cell, Expr, Kernel, Lookup, Name, Number, Op, Table1, Table2, parse
from upbeat.core.expr.operations import LOOKUP1, LOOKUP2, OPS
from upbeat.engine.native import machine as native
from upbeat.engine.native.entry import Entry

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

LINE = Table1((0.0, 1.0, 3.0), (0.0, 10.0, -1.0), extrapolate="linear", name="line")
STAIRS = Table1((-1.0, 0.5, 2.0), (3.0, 1.0, 2.0), mode="hold", name="stairs")
PLANE = Table2((0.0, 1.0), (0.0, 2.0, 3.0), ((0.0, 1.0, 2.0), (5.0, 4.0, 9.0)), name="plane")

values = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, -1.0]
)
leaves = st.builds(Number, values) | st.sampled_from([Name("x"), Name("y"), Name("z")])


def _apply(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def applied(op: Op) -> st.SearchStrategy[Expr]:
        arity = OPS[op].arity
        return st.tuples(*[children] * arity).map(lambda args: Apply(op, args))

    lookups = st.builds(
        lambda t, a: Lookup(t, (a,)), st.sampled_from([LINE, STAIRS, LINE.slope() or LINE]), children
    )
    planes = st.builds(lambda a, b: Lookup(PLANE, (a, b)), children, children)
    return st.sampled_from(list(Op)).flatmap(applied) | lookups | planes


expressions = st.recursive(leaves, _apply, max_leaves=20)


def bits(value: float) -> object:
    return "nan" if math.isnan(value) else struct.pack("=d", value)


def test_both_sides_number_the_operations_alike() -> None:
    from upbeat import _native

    expected = {op.name: int(op) for op in Op} | {"LOOKUP1": LOOKUP1, "LOOKUP2": LOOKUP2}
    assert _native.opcodes() == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(expressions, min_size=1, max_size=3), st.tuples(values, values, values))
def test_random_kernels_give_the_same_bits(outputs: list[Expr], inputs: tuple[float, float, float]) -> None:
    kernel = Kernel(("x", "y", "z"), tuple(outputs))
    here = kernel.python()(inputs)
    there = Entry(jit=False).kernel(kernel).evaluate(list(inputs))
    assert [bits(v) for v in there] == [bits(v) for v in here]


@pytest.mark.parametrize("op", list(Op), ids=lambda op: op.name)
def test_each_operation_on_every_kind_of_number(op: Op) -> None:
    numbers = [0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 3.0, -2.5, 3.5, 1e-300, 1e300, -1e300, math.pi]
    numbers += [math.inf, -math.inf, math.nan]
    kernel = Kernel(("a", "b", "c"), (Apply(op, (Name("a"), Name("b"), Name("c"))[: OPS[op].arity]),))
    here, there = kernel.python(), Entry(jit=False).kernel(kernel)
    for a in numbers:
        for b in numbers:
            given = [a, b, 1.5]
            assert bits(there.evaluate(given)[0]) == bits(here(given)[0]), given


def test_equal_kernels_are_one() -> None:
    entry = Entry(jit=False)
    one, two = (Kernel(("x",), (parse("2*x + 1"),)) for _ in range(2))
    assert entry.kernel(one) is entry.kernel(two)
    zero, minus = (Kernel(("x",), (Apply(Op.ADD, (Name("x"), Number(c))),)) for c in (0.0, -0.0))
    assert entry.kernel(zero) is not entry.kernel(minus) or zero.code == minus.code == ()


def test_unsound_tables_are_refused() -> None:
    import numpy as np

    from upbeat import _native

    with pytest.raises(ValueError, match="outside its work array"):
        _native.Kernel(1, np.zeros(0), np.array([[1, 1, 0, 9, 0]], np.int32), np.array([1], np.int32), [])
    assert Kernel.over_cells((Cell(3),)).input_cells == (3,)
