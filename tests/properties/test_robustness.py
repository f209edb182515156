"""Robustness on traces: against a slow evaluation by the book, against rtamt, and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.core.errors import ExpressionError, InvalidInput
from upbeat.properties.formula import parse
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.trace import Trace

INF = math.inf

# ----------------------------------------------------------------------------------------------------
# An evaluation by the book, written apart: formulas are nested tuples, and every operator is the definition
# over all rows, one by one. A number is a pair (at least, at most).

Row = tuple[float, dict[str, float]]


def by_the_book(node: Any, rows: list[Row], i: int, ended: bool = True) -> tuple[float, float]:
    time = [t for t, _ in rows]
    match node:
        case ("<" | "<=" | ">" | ">=" as op, name, bound):
            x = rows[i][1][name]
            far = bound - x if op[0] == "<" else x - bound
            return (far, far)
        case ("not", part):
            low, high = by_the_book(part, rows, i, ended)
            return -high, -low
        case ("and" | "or" as op, *parts):
            found = [by_the_book(part, rows, i, ended) for part in parts]
            best = min if op == "and" else max
            return best(low for low, _ in found), best(high for _, high in found)
        case ("always" | "eventually" as op, a, b, part):
            mine, open_ = ahead(time, i, a, b, ended)
            found = [by_the_book(part, rows, j, ended) for j in mine]
            if not mine and not open_:
                return -INF, INF
            best, nothing = (min, INF) if op == "always" else (max, -INF)
            low = best([low for low, _ in found], default=nothing)
            high = best([high for _, high in found], default=nothing)
            if open_ and op == "always":
                return -INF, high
            return (low, INF) if open_ else (low, high)
        case ("once" | "historically" as op, a, b, part):
            best, nothing = (min, INF) if op == "historically" else (max, -INF)
            if time[i] - a < time[0]:
                return nothing, nothing
            mine = back(time, i, a, b)
            if not mine:
                return -INF, INF
            found = [by_the_book(part, rows, j, ended) for j in mine]
            return best(low for low, _ in found), best(high for _, high in found)
        case ("until", a, b, one, other):
            mine, open_ = ahead(time, i, a, b, ended)
            if not mine and not open_:
                before = [k for k in range(i, len(rows)) if time[k] < time[i] + a]
                return -INF, min((by_the_book(one, rows, k, ended)[1] for k in before), default=INF)
            low = high = -INF
            for j in mine:
                held = [by_the_book(one, rows, k, ended) for k in range(i, j)]
                q = by_the_book(other, rows, j, ended)
                low = max(low, min([q[0], *(h[0] for h in held)]))
                high = max(high, min([q[1], *(h[1] for h in held)]))
            if open_:
                held = [by_the_book(one, rows, k, ended) for k in range(i, len(rows))]
                high = max(high, min(h[1] for h in held))
            return low, high
        case ("since", a, b, one, other):
            if time[i] - a < time[0]:
                return -INF, -INF
            mine = back(time, i, a, b)
            if not mine:
                return -INF, INF
            low = high = -INF
            for j in mine:
                held = [by_the_book(one, rows, k, ended) for k in range(j + 1, i + 1)]
                q = by_the_book(other, rows, j, ended)
                low = max(low, min([q[0], *(h[0] for h in held)]))
                high = max(high, min([q[1], *(h[1] for h in held)]))
            return low, high
    raise AssertionError(node)


def ahead(time: list[float], i: int, a: float, b: float, ended: bool) -> tuple[list[int], bool]:
    mine = [j for j in range(len(time)) if (j >= i if a == 0 else time[j] >= time[i] + a)]
    open_ = (not ended) if b == INF else time[i] + b > time[-1]
    return [j for j in mine if time[j] <= time[i] + b], open_


def back(time: list[float], i: int, a: float, b: float) -> list[int]:
    mine = [j for j in range(len(time)) if (j <= i if a == 0 else time[j] <= time[i] - a)]
    return [j for j in mine if time[j] >= time[i] - b]


def text(node: Any) -> str:
    """A formula in words."""

    def window(a: float, b: float) -> str:
        return "" if (a, b) == (0, INF) else f"[{a}, {b}]"

    match node:
        case ("not", part):
            return f"not ({text(part)})"
        case ("and" | "or" as op, *parts):
            return f" {op} ".join(f"({text(part)})" for part in parts)
        case ("until" | "since" as op, a, b, one, other):
            return f"({text(one)}) {op}{window(a, b)} ({text(other)})"
        case ("<" | "<=" | ">" | ">=" as op, name, bound):
            return f"u.{name} {op} {bound}"
        case (op, a, b, part):
            return f"{op}{window(a, b)}({text(part)})"
    raise AssertionError(node)


# Whole numbers, and windows and times that are multiples of 1/4: there is no rounding, and ends meet.
QUARTERS = st.integers(0, 12).map(lambda n: n / 4)
WINDOWS = st.one_of(
    st.just((0, INF)), st.tuples(QUARTERS, QUARTERS).map(sorted).map(tuple), QUARTERS.map(lambda a: (a, INF))
)
ATOMS = st.tuples(
    st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from("xy"), st.integers(-9, 9).map(lambda n: n + 0.5)
)


def bigger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one = st.sampled_from(["always", "eventually", "once", "historically"])
    two = st.sampled_from(["until", "since"])
    return st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(one, WINDOWS, inner).map(lambda n: (n[0], *n[1], n[2])),
        st.tuples(two, WINDOWS, inner, inner).map(lambda n: (n[0], *n[1], n[2], n[3])),
    )


FORMULAS = st.recursive(ATOMS, bigger, max_leaves=5)


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    """Steps of different lengths, some of none: two rows of one time are a jump."""
    steps = draw(st.lists(st.sampled_from([0.25, 0.25, 0.5, 1.0, 0.0]), min_size=1, max_size=12))
    rows: list[Row] = []
    time = 0.0
    for step in [0.0, *steps]:
        if step == 0.0 and len(rows) > 1 and rows[-1][0] == rows[-2][0] == time:
            continue  # not three
        time += step
        rows.append((time, {name: float(draw(st.integers(-9, 9))) for name in "xy"}))
    return rows


def traced(rows: list[Row], outcome: Outcome = Outcome.FINISHED) -> Trace:
    values = {f"u.{name}": [row[name] for _, row in rows] for name in "xy"}
    made = Trace.from_arrays([t for t, _ in rows], values)
    return Trace(made.columns, made.source, Ending(outcome))


@settings(max_examples=1000)
@given(FORMULAS, traces(), st.booleans())
def test_robustness_is_what_the_definition_says(node: Any, rows: list[Row], ended: bool) -> None:
    trace = traced(rows, Outcome.FINISHED if ended else Outcome.RUNNING)
    found = up.robustness(trace, text(node))
    assert (found.low, found.high) == by_the_book(node, rows, 0, ended), text(node)
    verdict = "holds" if found.low > 0 else "violated" if found.high < 0 else "undecided"
    assert found.verdict == verdict
    assert found.reason.startswith(verdict)
    assert str(parse(str(parse(text(node))))) == str(parse(text(node)))


@settings(max_examples=60)
@given(FORMULAS, traces())
def test_more_rows_only_narrow_down_what_is_known(node: Any, rows: list[Row]) -> None:
    """Of a run under way: what is decided stays decided, and the end decides as one who sees all of it."""
    low, high = -INF, INF
    for count in range(1, len(rows) + 1):
        found = up.robustness(traced(rows[:count], Outcome.RUNNING), text(node))
        if count > 1 and rows[count - 1][0] == rows[count - 2][0]:
            continue
        if _looks_around(node):
            return  # the row before a jump may be all that a window has
        assert low <= found.low <= found.high <= high
        low, high = found.low, found.high
    whole = up.robustness(traced(rows), text(node))
    assert low <= whole.low <= whole.high <= high


def _looks_around(node: Any) -> bool:
    """Whether a window may be without a row, which one that comes later can change."""
    if isinstance(node, tuple) and node[0] in (
        "always",
        "eventually",
        "until",
        "once",
        "historically",
        "since",
    ):
        return node[1] > 0 or any(_looks_around(part) for part in node[3:])
    return isinstance(node, tuple) and any(_looks_around(part) for part in node[1:])


@settings(max_examples=150)
@given(FORMULAS, st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=25))
def test_rtamt_agrees_where_a_trace_decides(node: Any, values: list[tuple[int, int]]) -> None:
    rtamt = pytest.importorskip("rtamt")
    if _has(node, "until", "since"):  # which it defines with the first also at the end
        return
    rows: list[Row] = [(float(k), {"x": float(x), "y": float(y)}) for k, (x, y) in enumerate(values)]
    whole = _whole(node)
    found = up.robustness(traced(rows), text(whole))
    if found.low != found.high:
        return
    spec = rtamt.StlDiscreteTimeSpecification()
    for name in ("x", "y", "out"):
        spec.declare_var(name, "float")
    spec.spec = f"out = {_foreign(whole)}"
    spec.parse()
    data = {"time": list(range(len(rows))), "x": [r["x"] for _, r in rows], "y": [r["y"] for _, r in rows]}
    assert spec.evaluate(data)[0][1] == found.value


def _has(node: Any, *words: str) -> bool:
    return isinstance(node, tuple) and (node[0] in words or any(_has(part, *words) for part in node))


def _whole(node: Any) -> Any:
    """Windows in whole rows."""
    if not isinstance(node, tuple):
        return node
    if node[0] in ("always", "eventually", "once", "historically"):
        return (
            node[0],
            math.ceil(node[1]),
            node[2] if node[2] == INF else math.ceil(node[2]),
            _whole(node[3]),
        )
    return tuple(_whole(part) for part in node)


def _foreign(node: Any) -> str:
    match node:
        case ("not", part):
            return f"(not ({_foreign(part)}))"
        case ("and" | "or" as op, one, other):
            return f"(({_foreign(one)}) {op} ({_foreign(other)}))"
        case ("<" | "<=" | ">" | ">=" as op, name, bound):
            return f"({name} {op} {bound})"
        case (op, a, b, part):
            if b == INF and a == 0:
                return f"({op}({_foreign(part)}))"
            return f"({op}[{a}:{1000 if b == INF else b}]({_foreign(part)}))"
    raise AssertionError(node)


# ----------------------------------------------------------------------------------------------------
# By hand.


def ramp(outcome: Outcome = Outcome.FINISHED) -> Trace:
    time = np.linspace(0.0, 4.0, 41)
    made = Trace.from_arrays(time, {"a.x": time, "a.y": 4.0 - time, "a.on": time > 1.95})
    return Trace(made.columns, made.source, Ending(outcome))


@pytest.mark.parametrize(
    ("formula", "low", "high"),
    [
        ("always(a.x <= 5)", 1.0, 1.0),
        ("eventually(a.x > 3.5)", 0.5, 0.5),
        ("always[1, 2](a.x < 3)", 1.0, 1.0),
        ("always(a.x < 3 or a.y < 2)", 0.5, 0.5),
        ("always(a.on implies a.x > 1.5)", 0.5, 0.5),
        ("a.y > 1 until a.x >= 2", 0.5, 0.5),
        ("eventually(always[0, 1](a.x >= 2))", 1.0, 2.0),
        ("always(eventually[0, 1](a.on))", -INF, -INF),
        ("always(count(a.on) <= 1)", 0.0, 0.0),
        ("eventually(duration(a.on) >= 1.95)", 0.05, 0.05),
        ("always(abs(der(a.x) - 1) < 0.25)", 0.25, 0.25),
        ("eventually(integral(a.x) > 7)", 1.0, 1.0),
        ("eventually(average[1](a.x) > 3)", 0.5, 0.5),
        ("eventually(average(a.x) > 1)", 1.0, 1.0),
        ("always(roughness(a.x) < 0.5)", 0.5, 0.5),
        ("always[0, 9](a.x < 5)", -INF, 1.0),
        ("eventually[0, 9](a.x > 5)", -1.0, INF),
        ("always(time < 5)", 1.0, 1.0),
        ("always(2 < 3)", 1.0, 1.0),
        ("always(a.x < 2 if a.x < 1.05 else a.x > 0.5)", 0.05, 0.05),
    ],
)  # fmt: skip
def test_a_formula_has_the_robustness_that_one_expects(formula: str, low: float, high: float) -> None:
    found = up.robustness(ramp(), formula)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_where_both_sides_are_equal_the_truth_decides_the_sign() -> None:
    still = Trace.from_arrays([0.0, 1.0], {"a.x": [2.0, 2.0]})
    for formula, holds in {"a.x <= 2": True, "a.x < 2": False, "a.x >= 2": True, "a.x > 2": False}.items():
        for text_, truth in ((formula, holds), (f"not ({formula})", not holds)):
            assert up.robustness(still, f"always({text_})").verdict == ("holds" if truth else "violated")
    assert "on the border" in up.robustness(still, "always(a.x <= 2)").reason


def test_a_jump_is_seen_on_both_sides() -> None:
    bounce = Trace.from_arrays([0.0, 1.0, 1.0, 2.0], {"b.v": [0.0, -3.0, 2.5, 1.0]})
    assert up.robustness(bounce, "always(b.v > -2)").value == -1.0
    assert up.robustness(bounce, "always(b.v < 2)").value == -0.5
    assert up.robustness(bounce, "always[1, 1](b.v > 0)").value == -3.0


def test_what_is_not_a_number_is_not_decided() -> None:
    hole = Trace.from_arrays([0.0, 1.0, 2.0], {"a.x": [1.0, math.nan, 1.0]})
    found = up.robustness(hole, "always(a.x < 2)")
    assert (found.verdict, found.high) == ("undecided", 1.0)
    assert "not a number at t = 1" in found.reason
    assert "Up to there" not in found.reason


def test_a_rate_is_known_on_both_sides_of_any_jump() -> None:
    """Also where there is no step before or behind it: a sample at the start or the end of a run."""
    for time in ([0.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 2.0], [0.0, 1.0, 1.0, 1.0, 2.0]):
        straight = Trace.from_arrays(time, {"a.x": 3.0 * np.array(time)})
        assert up.robustness(straight, "always(der(a.x) <= 3)").low > 0
        assert up.robustness(straight, "always(der(a.x) >= 3)").low > 0
    lone = Trace.from_arrays([0.0, 0.0], {"a.x": [1.0, 2.0]})
    assert up.robustness(lone, "always(der(a.x) < 3)").verdict == "undecided"


def test_only_the_side_that_counts_has_to_be_a_number() -> None:
    hole = Trace.from_arrays([0.0, 1.0], {"a.x": [1.0, math.nan], "a.on": [True, False]})
    for formula in ("a.x < 2 if a.on else true", "a.x < 2 or not a.on", "a.on implies a.x < 2"):
        assert up.robustness(hole, f"always({formula})").value == 1.0


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.RUNNING, Outcome.CUT_OFF, Outcome.INTERRUPTED])
def test_a_run_that_was_cut_short_decides_what_it_can(outcome: Outcome) -> None:
    assert up.robustness(ramp(outcome), "always(a.x < 9)").verdict == "undecided"
    assert up.robustness(ramp(outcome), "always(a.x < 3)").verdict == "violated"
    assert up.robustness(ramp(outcome), "eventually(a.x > 3)").verdict == "holds"
    assert up.robustness(ramp(outcome), "eventually[0, 3](a.x > 3.5)").verdict == "violated"


def test_an_undecided_property_says_why_and_what_to_ask() -> None:
    found = up.robustness(ramp(), "always(a.x > 3 implies eventually[0, 2](a.y > 9))")
    assert found.verdict == "undecided"
    assert "the run ends at t = 4" in found.reason
    assert "always[0, 2]" in found.reason
    gap = Trace.from_arrays([0.0, 1.0, 3.0], {"a.x": [0.0, 1.0, 2.0]})
    assert "no row from t = 1.25 to 1.75" in up.robustness(gap, "eventually[1.25, 1.75](a.x > 0)").reason


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("always(a.x", "')' is missing"),
        ("always a.x < 5", "in parentheses"),
        ("always[2, 1](a.x < 5)", "not from 2 to 1"),
        ("always[-1, 1](a.x < 5)", "not negative"),
        ("always[a.x, 5](a.x < 5)", "numbers of seconds"),
        ("always[1](a.x < 5)", "two ends"),
        ("always(a.x < 5) + 1 > 2", "true or false"),
        ("der[2](a.x) < 1", "has no window"),
        ("average[0](a.x) < 1", "positive"),
        ("a.x < 1 until a.x < 2 until a.x < 3", "in parentheses"),
        ("forever(a.x < 1)", "there is no function 'forever'"),
        ("", "empty"),
    ],
)
def test_a_text_that_is_no_property_is_refused_where_it_goes_wrong(formula: str, said: str) -> None:
    with pytest.raises(
        ExpressionError, match=said.replace("(", r"\(").replace("[", r"\[").replace(")", r"\)")
    ):
        parse(formula)


def test_wrong_names_and_kinds_are_told() -> None:
    with pytest.raises(InvalidInput, match=r"no signal 'a.z'.*Did you mean"):
        up.robustness(ramp(), "always(a.z < 1)")
    with pytest.raises(InvalidInput, match=r"compare it, such as 'a.x > 0'"):
        up.robustness(ramp(), "always(a.x)")
    with pytest.raises(InvalidInput, match="must be str or Property"):
        up.robustness(ramp(), 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match='"watch" or "stop"'):
        up.Property("always(a.x < 1)", online="yes")  # type: ignore[arg-type]
