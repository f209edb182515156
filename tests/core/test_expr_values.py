"""The meaning of every operation and of tables, judged by the math module, closed forms and NumPy."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upbeat.core.errors import ExpressionError
from upbeat.core.expr import OPS, RESERVED, Op, Table1, Table2, evaluate, kind_of, parse, simplify
from upbeat.core.expr.operations import IMPLEMENTATION, LOOKUP1, LOOKUP2
from upbeat.core.ports import Kind

INF, NAN = math.inf, math.nan
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    3.0,
    -2.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    1e308,
    -1e308,
    5e-324,
    710.0,
    INF,
    -INF,
    NAN,
)


def same(a: float, b: float) -> bool:
    """Equal to the last bit; all NaNs are one."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def value(text: str, **env: float) -> float:
    return evaluate(parse(text), env)


def test_opcodes_are_unique_and_never_change() -> None:
    assert sorted(op.value for op in Op) == list(range(1, 41))
    assert (LOOKUP1, LOOKUP2) == (41, 42)
    assert (Op.ADD, Op.NEG, Op.WHERE, Op.MOD, Op.HYPOT) == (1, 6, 16, 25, 40)
    assert set(OPS) == set(Op)


@pytest.mark.parametrize("op", [op for op in Op if OPS[op].libm])
def test_library_functions_are_the_c_library_to_the_last_bit(op: Op) -> None:
    row = OPS[op]
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    function = getattr(libm, row.libm)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * row.arity
    tried = (*SPECIAL, *np.random.default_rng(1).normal(0, 5, 50).tolist())
    for args in itertools.product(tried, repeat=row.arity):
        assert same(IMPLEMENTATION[op](*args), function(*args)), (row.name, args)


def test_power_is_the_c_library_except_for_squares_and_cubes() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.pow.restype, libm.pow.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    for a, b in itertools.product((*SPECIAL, -1e200, -7.0), (*SPECIAL, 1e10, -3.0, -1e10, 1001.0, -1001.0)):
        expected = a * a if b == 2 else a * a * a if b == 3 else libm.pow(a, b)
        assert same(IMPLEMENTATION[Op.POW](a, b), expected), (a, b)


def test_division_never_raises() -> None:
    with np.errstate(all="ignore"):
        for a, b in itertools.product(SPECIAL, repeat=2):
            assert same(IMPLEMENTATION[Op.DIV](a, b), float(np.float64(a) / np.float64(b))), (a, b)


@pytest.mark.parametrize(("op", "judge"), [(Op.FLOOR, np.floor), (Op.CEIL, np.ceil), (Op.ROUND, np.rint)])
def test_rounding_keeps_the_sign_of_zero(op: Op, judge: np.ufunc) -> None:
    for a in (*SPECIAL, -0.3, 3.5, 4.5, -2.5, 1e17, 0.49999999999999994):
        assert same(IMPLEMENTATION[op](a), float(judge(a))), a


def test_definitions_of_the_choosers() -> None:
    assert value("min(x, 2)", x=NAN) == 2.0  # a < b ? a : b
    assert math.isnan(value("min(2, x)", x=NAN))
    assert value("max(3, 1, 2)") == 3.0
    assert value("clip(x, 0, 1)", x=-3.0) == 0.0
    assert value("clip(x, 0, 1)", x=3.0) == 1.0
    assert math.isnan(value("clip(x, 0, 1)", x=NAN))
    assert [value("sign(x)", x=x) for x in (-2.0, 0.0, 5.0, NAN)] == [-1.0, 0.0, 1.0, 0.0]
    assert value("mod(x, 3)", x=-1.0) == 2.0
    assert value("mod(x, -3)", x=1.0) == -2.0
    assert math.isnan(value("mod(x, 0)", x=1.0))
    assert value("1 if x else 2", x=NAN) == 1.0
    assert value("not x", x=NAN) == 0.0
    assert value("x and y", x=2.0, y=0.5) == 1.0
    assert value("1 < x < 3", x=2.0) == 1.0
    assert value("1 < x < 3", x=3.0) == 0.0
    assert value("1/0") == INF
    assert value("-1/0") == -INF
    assert value("pi") == math.pi
    assert value("e + 0*true") == math.e


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 0", "x + 0"),  # -0 + 0 is +0
        ("x - 0", "x"),
        ("1*x*1", "x"),
        ("x/1", "x"),
        ("0*x", "0*x"),  # NaN and inf
        ("2*3 + x", "6 + x"),
        ("x**2", "x*x"),
        ("x**3", "x*x*x"),
        ("x**1", "x"),
        ("--x", "x"),
        ("x if 1 < 2 else y", "x"),
        ("0/0", "0/0"),
        ("sin(0) + x", "0 + x"),
    ],
)
def test_simplification_is_light_and_exact(text: str, expected: str) -> None:
    assert str(simplify(parse(text))) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", Kind.REAL),
        ("n", Kind.INTEGER),
        ("n + 1", Kind.INTEGER),
        ("n + 0.5", Kind.REAL),
        ("n*n - m", Kind.INTEGER),
        ("n/m", Kind.REAL),
        ("n**2", Kind.REAL),
        ("-n", Kind.INTEGER),
        ("n < x", Kind.BOOLEAN),
        ("not b", Kind.BOOLEAN),
        ("b and x > 1", Kind.BOOLEAN),
        ("b if x > 1 else false", Kind.BOOLEAN),
        ("b + b", Kind.INTEGER),
        ("n if b else 1", Kind.INTEGER),
        ("n if b else x", Kind.REAL),
        ("floor(x)", Kind.INTEGER),
        ("round(x) + 1", Kind.INTEGER),
        ("max(n, m)", Kind.INTEGER),
        ("abs(n)", Kind.INTEGER),
        ("mod(n, 2)", Kind.INTEGER),
        ("sin(n)", Kind.REAL),
        ("1", Kind.REAL),
        ("1 + 1", Kind.REAL),
        ("unknown", Kind.REAL),
    ],
)
def test_kinds_are_inferred(text: str, kind: Kind) -> None:
    kinds = {"n": Kind.INTEGER, "m": Kind.INTEGER, "b": Kind.BOOLEAN, "x": Kind.REAL}
    assert kind_of(parse(text), kinds) is kind


def test_texts_do_not_compute() -> None:
    with pytest.raises(ExpressionError, match="text"):
        kind_of(parse("s + 1"), {"s": Kind.STRING})


def test_reserved_words_cannot_be_variables() -> None:
    assert {"sin", "pi", "e", "if", "and", "true", "lambda"} <= RESERVED
    assert "time" not in RESERVED


# -- tables


def _axis(size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.integers(-50, 50), min_size=2, max_size=size, unique=True).map(
        lambda xs: [x / 4 for x in sorted(xs)]
    )


@given(st.data(), _axis(6), st.floats(-20, 20))
@settings(deadline=None)
def test_linear_tables_agree_with_numpy(data: st.DataObject, x: list[float], u: float) -> None:
    y = data.draw(st.lists(st.floats(-100, 100), min_size=len(x), max_size=len(x)))
    table = Table1(tuple(x), tuple(y))
    assert table(u) == pytest.approx(float(np.interp(u, x, y)), rel=1e-9, abs=1e-9)
    assert [table(knot) for knot in x] == y


def test_extrapolation_hold_and_slope() -> None:
    x, y = (0.0, 1.0, 3.0), (0.0, 2.0, 3.0)
    line = Table1(x, y, extrapolate="linear")
    assert (line(-1.0), line(5.0)) == (-2.0, 4.0)
    assert (line(INF), line(-INF)) == (INF, -INF)
    flat = Table1(x, y)
    assert (flat(-1.0), flat(5.0), flat(INF), flat(-INF)) == (0.0, 3.0, 3.0, 0.0)
    assert math.isnan(flat(NAN))
    hold = Table1(x, y, mode="hold")
    assert [hold(u) for u in (-1.0, 0.0, 0.9, 1.0, 2.9, 3.0, 9.0)] == [0.0, 0.0, 0.0, 2.0, 2.0, 3.0, 3.0]
    slope = flat.slope()
    assert slope is not None
    assert [slope(u) for u in (-1.0, 0.5, 2.0, 4.0)] == [0.0, 2.0, 0.5, 0.0]
    assert slope.slope() is None
    assert hold.slope() is None
    assert pickle.loads(pickle.dumps(flat)) == flat


@given(_axis(4), _axis(4), st.floats(-15, 15), st.floats(-15, 15))
@settings(deadline=None)
def test_bilinear_tables_are_exact_for_bilinear_functions(
    x: list[float], y: list[float], u: float, v: float
) -> None:
    def f(a: float, b: float) -> float:
        return 1 + 2 * a - 3 * b + 0.5 * a * b

    z = tuple(tuple(f(a, b) for b in y) for a in x)
    line = Table2(tuple(x), tuple(y), z, extrapolate="linear")
    assert line(u, v) == pytest.approx(f(u, v), rel=1e-9, abs=1e-6)
    flat = Table2(tuple(x), tuple(y), z)
    clipped = min(max(u, x[0]), x[-1]), min(max(v, y[0]), y[-1])
    assert flat(u, v) == pytest.approx(f(*clipped), rel=1e-9, abs=1e-6)
    if x[0] < u < x[-1] and y[0] < v < y[-1]:
        by_x, by_y, both = (
            Table2(tuple(x), tuple(y), z, mode=m)(u, v) for m in ("slope_x", "slope_y", "slope_xy")
        )  # type: ignore[arg-type]
        assert (by_x, by_y, both) == pytest.approx((2 + 0.5 * v, -3 + 0.5 * u, 0.5), rel=1e-6, abs=1e-6)


def test_table2_beyond_everything() -> None:
    table = Table2((0.0, 1.0), (0.0, 1.0), ((0.0, 1.0), (2.0, 3.0)))
    assert table(INF, INF) == 3.0
    assert table(-INF, 0.5) == 0.5
    assert math.isnan(table(NAN, 0.0))
    assert math.isnan(table(0.0, NAN))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table1((0.0, 1.0), (1.0,), name="drag"), "'drag'.*x has 2 values, but y has 1"),
        (lambda: Table1((0.0,), (1.0,)), "at least two"),
        (lambda: Table1((0.0, 0.0), (1.0, 2.0)), "increase strictly"),
        (lambda: Table1((0.0, 1.0), (1.0, NAN)), "finite"),
        (lambda: Table1((0.0, 1.0), ("a", "b")), "list of numbers"),  # type: ignore[arg-type]
        (lambda: Table1((0.0, 1.0), (1.0, 2.0), mode="cubic"), "one of linear, hold"),  # type: ignore[arg-type]
        (lambda: Table2((0.0, 1.0), (0.0, 1.0), ((1.0, 2.0),)), "2 rows"),
        (lambda: Table2((0.0, 1.0), (0.0, 1.0), 3.0), "list of rows"),  # type: ignore[arg-type]
    ],
)
def test_bad_tables_are_explained(make: object, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        make()  # type: ignore[operator]
