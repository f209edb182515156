"""The language of hints: files and objects mean the same, and mistakes are told where they are."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.hints.language import Bonded, Condition, Fact, Smooth, about, hints_of_table, parse_hints
from upbeat.hints.patterns import CATALOGUE
from upbeat.trace.log import Outcome
from upbeat.trace.trace import Ending, Trace

PRINTED = """
Hint ExecRate{
  description "Controller FMU is software."
  statements {
    Property ExecRate :=
      FMUProperty FMU1.exec_rate == val 1.0e+6 hz
  }
  scope Globally
  pattern Universality:always-the-case-that ExecRate holds
}
Hint PowerBond{
  description "Plant/Load FMUs share a power connection."
  statements {
    Property PowerBond :=
      Plant.f == PowerBondSuggestions with Load.v
  }
  scope Globally
  pattern Universality:always-the-case-that PowerBond holds
}
"""


def masses() -> up.Scenario:
    return up.Scenario(
        {
            "left": up.Ode(
                {"x": {"der": "v", "unit": "m"}, "v": "F - x"},
                inputs=["F"],
                outputs=["x", "v"],
                start={"x": 1.0},
            ),
            "right": up.Ode({"s": "v"}, inputs=["v"], outputs={"F": "-4*s"}),
        },
        {"left.F": "right.F", "right.v": "left.v"},
    )


def test_the_hints_of_the_thesis_are_read_as_they_are_printed() -> None:
    rate, bond = parse_hints(PRINTED)
    assert rate.about == (Fact("FMU1", "exec_rate", 1e6),)
    assert rate.description == "Controller FMU is software."
    assert bond.about == (Bonded("Plant.f", "Load.v"),)


def test_objects_and_texts_mean_the_same() -> None:
    made = up.Hint(
        "settles",
        {"begin": "Event time >= val 1 s", "calm": "abs(derivative(left.x)) < 3 cm/s"},
        "It comes to rest.",
        "After begin",
        "MinDuration: once calm holds it-will-hold-for-at-least 20 ms",
    )
    (read,) = parse_hints(
        """
        Hint settles {  // what one expects
          description "It comes to rest."
          statements { Event begin := time >= 1 s
                       Property calm := abs(der(left.x)) < val 3 cm/s }
          scope after begin
          pattern MinDuration: once calm it will hold for at least 0.02 s
        }"""
    )
    assert made == read
    assert parse_hints(str(made)) == (made,)
    table = {
        "settles": {
            "statements": {"begin": "Event time >= 1 s", "calm": "abs(der(left.x)) < 3 cm/s"},
            "description": "It comes to rest.",
            "scope": "After begin",
            "pattern": "MinDuration: once calm holds it will hold for at least 0.02 s",
        }
    }
    assert hints_of_table(table) == (made,)


def test_a_statement_alone_holds_always() -> None:
    assert up.Hint("calm", "smooth(left.x)").about == (Smooth("left.x"),)
    assert up.Hint("small", "left.x < 2").formula() == "always(left.x < 2)"
    energy = up.Hint("energy", "energy(left.F, left.v) < 3 J").about[0]
    assert energy == Condition("integral(left.F*left.v) < 3 J")


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("Hint a {\n  statements { Property x := left.y < 3 }\n}", 2, 30, "'left.x'"),
        ("Hint a {\n  statements { Property x := left.x <  }\n}", 2, 38, "ends too early"),
        ("Hint a {\n statements { Property x := FMUProperty lft.exec_rate == 1 kHz } }", 2, 29, "'left'"),
        ("Hint a {\n statements { Property x := FMUProperty left.exec == 1 Hz } }", 2, 46, "exec_rate"),
        ("Hint a {\n statements { Property x := FMUProperty left.exec_rate == 1 m } }", 2, 61, "same thing"),
        (
            "Hint a {\n statements { Property x := FMUProperty left.exec_rate == 1 } }",
            2,
            60,
            "unit of measure",
        ),
        ("Hint a { statements { Property x := left.x < 3 }\n scope When x }", 2, 8, "Before EVENT"),
        ("Hint a { statements { Property x := left.x < 3 }\n pattern Never: x }", 2, 10, "patterns are"),
        (
            "Hint a { statements { Property x := left.x < 3 }\n pattern Existence: z holds eventually }",
            2,
            10,
            "x",
        ),
        (
            "Hint a { statements { Property x := left.x < 3 }\n pattern Absence: perhaps x }",
            2,
            17,
            "never the case",
        ),
        ("Hint a { statements { Property x := left.x < 3 }\n shape Globally }", 2, 2, "'scope'"),
        ("Hint a { statements { Thing x := left.x < 3 } }", 1, 23, "Event or a Property"),
        ("Hint a {\n  statements { Property x := left.x < 3 kg }\n}", 2, 30, "does not fit"),
        ("Hint a { statements { Property x := left.x < 3 }", 1, 49, "missing"),
        ("Hint a { statements { Property x := left.F == PowerBondSuggestions } }", 1, 37, "with Load.v"),
        (
            "Hint a { statements { Property x := left.x == PowerBondSuggestions with right.F } }",
            1,
            37,
            "no output that an input takes",
        ),
        (
            "Hint a { statements { Property x := average[2](left.v) < 3 m/s } }",
            1,
            37,
            "'average[2](left.v)' has no unit",
        ),
    ],
)
def test_mistakes_are_told_where_they_are(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(up.ScenarioError) as error:
        about(masses(), parse_hints(text))
    (problem,) = error.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert said in str(problem)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "the statements of a hint must be str or Mapping, not 3"),
        (["left.x < 3"], "the statements of a hint must be str or Mapping"),
        ({"statements": "left.x < 3", "scope": 3}, "the scope of a hint must be str or Scope, not 3"),
        ({"statements": "left.x < 3", "pattern": 3}, "the pattern of a hint must be str"),
        ({"statements": "left.x < 3", "description": 3}, "the description of a hint must be str, not 3"),
        ("not (" * 300 + "left.x < 3" + ")" * 300, "within each other"),
        ("abs(" * 150 + "left.x" + ")" * 150 + " < 3", "within each other"),
        (
            {
                "statements": {"q": "left.x > 1", "p": "left.x > 0"},
                "scope": "After q",
                "pattern": "BoundedExistence: p holds at most 16 times",
            },
            "At most 15; Globally there is no limit",
        ),
    ],
)
def test_what_is_no_hint_in_a_table_is_told(given: object, said: str) -> None:
    with pytest.raises(up.ScenarioError, match=re.escape(said)):
        hints_of_table({"wrong": given})


def test_long_rows_and_many_times_are_no_deep_nests() -> None:
    long = up.Hint("long", " or ".join(f"left.x < {k}" for k in range(900)))
    often = up.Hint("often", {"p": "left.x > 0"}, pattern="BoundedExistence: p holds at most 1000 times")
    most = up.Hint(
        "most",
        {"q": "left.x > 1", "r": "left.x > 2", "p": "left.x > 0"},
        scope="Between q and r",
        pattern="BoundedExistence: p holds at most 15 times",
    )
    read = about(masses(), (long, often, most))
    trace = Trace.from_arrays([0.0, 1.0], {"left.x": [0.5, 1.5]})
    assert [one.on(trace).verdict for one in read.properties] == ["holds"] * 3


def test_all_mistakes_are_told_together() -> None:
    text = "Hint a { scop Globally }\nHint b { statements { Property x := smooth(left.x) } scope After x }\n"
    with pytest.raises(up.ScenarioError) as error:
        parse_hints(text)
    assert [problem.line for problem in error.value.problems] == [1, 2]


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("left.x < 3", "left.x > 4", "no value that suits both"),
        ("left.x < 3 cm", "val 40 mm < left.x", "no value that suits both"),
        ("abs(left.v) < 3", "left.v > 4", "left.v has no value"),
        ("abs(left.v - 2) <= 1", "left.v < 1", "left.v has no value"),
        ("abs(left.x) < 3 cm", "left.x == -3 cm", "left.x (SI) has no value"),
        ("left.v < right.F", "left.v > right.F", "left.v - right.F has no value"),
        ("2*left.v > 2*right.F", "right.F - left.v >= 0", "left.v - right.F has no value"),
        ("1 - 2*left.v < 5", "left.v <= -2", "left.v has no value"),
        ("FMUProperty left.exec_rate == 1 kHz", "FMUProperty left.exec_rate == 2 kHz", "1000"),
        (
            "left.F == PowerBondSuggestions with right.v",
            "left.F == PowerBondSuggestions with left.v",
            "one power bond only",
        ),
    ],
)
def test_hints_that_contradict_each_other_are_both_named(one: str, other: str, why: str) -> None:
    with pytest.raises(up.ScenarioError, match="'first' and 'second' contradict each other") as error:
        about(masses(), (up.Hint("first", one), up.Hint("second", other)))
    assert why in str(error.value)
    never = up.Hint("second", {"p": "left.x < 3"}, pattern="Absence: never the case that p holds")
    with pytest.raises(up.ScenarioError, match="always and never"):
        about(masses(), (up.Hint("first", "left.x < 3"), never))
    about(masses(), (up.Hint("first", "left.x < 3"), up.Hint("second", "left.x > 2")))
    for one, other in (
        ("abs(left.v) > 3", "left.v < 0"),
        ("abs(left.v - 2) <= 1", "left.v <= 1"),
        ("abs(left.x - 1) < 2 mm", "left.x > 100 cm"),  # 1 is in the unit of measure of the port
        ("left.v < right.F", "left.v < 2*right.F"),
        ("left.v < right.F + 1", "right.F < left.v"),
        ("1 - 2*left.v < 5", "left.v < -1.9"),
    ):
        about(masses(), (up.Hint("first", one), up.Hint("second", other)))
    slow = up.Hint("second", "FMUProperty left.shortest_step == 2 ms")
    with pytest.raises(up.ScenarioError, match="'first' and 'second' contradict each other"):
        about(masses(), (up.Hint("first", "FMUProperty left.exec_rate == 1 kHz"), slow))


VALUES = [k / 2 for k in range(-1, 12)]
"""Those in hints are whole, so that there are some between and beyond them."""
SAYS = {"<": float.__lt__, "<=": float.__le__, ">": float.__gt__, ">=": float.__ge__, "==": float.__eq__}


@settings(max_examples=300, deadline=None)
@given(
    *[st.lists(st.tuples(st.sampled_from(sorted(SAYS)), st.integers(0, 5)), min_size=1, max_size=2)] * 2,
    *[st.sampled_from(["Universality", "Absence", "Existence"])] * 2,
    st.booleans(),
)
def test_contradictions_are_told_exactly_where_no_trace_has_both(
    one: list[tuple[str, int]], other: list[tuple[str, int]], how: str, how_other: str, turned: bool
) -> None:
    """On one signal: what holds always leaves values, among which must be those that occur some time."""
    one = one if how != "Absence" else one[:1]  # which of two has to fail is not looked into
    other = other if how_other != "Absence" else other[:1]
    hints, kept, wanted = [], VALUES, []
    for name, limits, pattern in (("a", one, how), ("b", other, how_other)):
        text = " and ".join(
            f"{number} {'=' if op == '==' else dict(zip('<>', '><', strict=True))[op[0]]}{op[1:]} left.v"
            if turned
            else f"left.v {op} {number}"
            for op, number in limits
        )
        hints.append(up.Hint(name, {"p": text}, pattern=pattern))
        holds = {v for v in VALUES if all(SAYS[op](v, float(number)) for op, number in limits)}
        if pattern == "Existence":
            wanted.append(holds)
        else:
            kept = [v for v in kept if (v in holds) is (pattern == "Universality")]
    possible = bool(kept) and all(need & {*kept} for need in wanted)
    if possible:
        about(masses(), hints)
        return
    if "Absence" in (how, how_other) and "==" in str(one) + str(other):
        return  # that a signal is never some number leaves all others
    with pytest.raises(up.ScenarioError, match="contradict"):
        about(masses(), hints)


@pytest.mark.parametrize("text", ["eventually[0, 20](left.x < 3)", "historically[20, 21](left.x < 3)"])
def test_what_takes_longer_than_the_run_is_refused(text: str) -> None:
    late = up.Hint("late", text)
    with pytest.raises(up.ScenarioError, match="it takes 20 s to tell, and the run lasts 10 s"):
        about(masses(), (late,), span=10.0)
    about(masses(), (late,), span=20.0)


# ----------------------------------------------------------------------------------------------------
# Scopes and patterns, against what they say, row by row.

SCOPES = ("Globally", "Before q", "After q", "Between q and r", "After q until r")
NAMES = ("p", "s", "t", "q", "r", "z")
TIMED = ("MinDuration", "MaxDuration", "Recurrence", "SteadyState", "TransientState")
UNTIMED = [name for name in CATALOGUE if name not in TIMED]


@dataclass
class Rows:
    """What holds when, in rows one second apart."""

    truths: dict[str, list[bool]]

    def __len__(self) -> int:
        return len(self.truths["p"])

    def segments(self, scope: str) -> list[tuple[int, int, bool]]:
        """From, to (not included), and whether something ended it."""
        n, q, r = len(self), self.truths["q"], self.truths["r"]
        first = next((i for i in range(n) if q[i]), n)
        if scope == "Globally":
            return [(0, n, False)]
        if scope == "Before q":
            return [(0, first, True)] if first < n else []
        if scope == "After q":
            return [(first, n, False)] if first < n else []
        found, i = [], 0
        while i < n:
            if q[i] and not r[i]:
                end = next((k for k in range(i, n) if r[k]), None)
                if end is not None or scope == "After q until r":
                    found.append((i, n if end is None else end, end is not None))
                i = n if end is None else end
            else:
                i += 1
        return found


def expected(pattern: str, rows: Rows, scope: str) -> bool:
    """What a pattern says, by looking at every row of every segment."""
    p, s, t = rows.truths["p"], rows.truths["s"], rows.truths["t"]
    for begin, end, _ in rows.segments(scope):
        inside = range(begin, end)
        good = True
        match pattern:
            case "Universality":
                good = all(p[i] for i in inside)
            case "Absence":
                good = not any(p[i] for i in inside)
            case "Existence":
                good = any(p[i] for i in inside) or not inside
            case "BoundedExistence":
                good = sum(p[i] and (i == begin or not p[i - 1]) for i in inside) <= 3
            case "Precedence":
                good = all(any(s[k] for k in range(begin, i + 1)) for i in inside if p[i])
            case "PrecedenceChain":
                good = all(
                    any(t[k] and any(s[j] for j in range(begin, k + 1)) for k in range(begin, i + 1))
                    for i in inside
                    if p[i]
                )
            case "Response":
                good = all(any(s[k] for k in range(i, end)) for i in inside if p[i])
            case "ResponseChain":
                good = all(
                    any(s[k] and any(t[j] for j in range(k, end)) for k in range(i, end))
                    for i in inside
                    if p[i]
                )
            case "PrecedenceChain1N":
                good = all(
                    any(t[k] for k in range(begin, i + 1))
                    for i in inside
                    if p[i] and any(s[k] for k in range(i, end))
                )
            case "ResponseChainN1":
                good = all(
                    any(t[k] for k in range(j, end)) for i in inside if p[i] for j in range(i, end) if s[j]
                )
            case "ResponseInvariance":
                good = all(all(s[k] for k in range(i, end)) for i in inside if p[i])
            case "Until":
                done = next((i for i in inside if s[i]), None)
                good = not inside or (done is not None and all(p[i] for i in range(begin, done)))
        if not good:
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(UNTIMED),
    st.sampled_from(SCOPES),
    st.lists(st.tuples(*[st.booleans()] * 6), min_size=3, max_size=14),
)
def test_patterns_mean_what_their_phrases_say(pattern: str, scope: str, rows: list[tuple[bool, ...]]) -> None:
    truths = {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}
    phrase = re.sub(r"\[.*?\]", "", CATALOGUE[pattern].phrase).format(p="p", s="s", t="t", n=3)
    hint = up.Hint(
        "h", {name: f"u.{name} > 0.5" for name in NAMES}, scope=scope, pattern=f"{pattern}: {phrase}"
    )
    found = up.robustness(trace_of(truths), hint.formula())
    assert (found.verdict == "holds") is expected(pattern, Rows(truths), scope)
    assert found.verdict != "undecided"


PHRASES = {
    "MinDuration": "once p holds it will hold for at least {} s",
    "MaxDuration": "once p holds it will hold for less than {} s",
    "Recurrence": "p holds repeatedly every {} s",
    "Response": "if p holds then in response s holds within {} s",
    "SteadyState": "p holds in the long run",
    "TransientState": "p holds after {} s",
}


def in_time(pattern: str, rows: Rows, scope: str, times: list[float], seconds: float) -> bool:
    """The same for patterns with times: nothing fails for which the run has no time left."""
    p, s, n = rows.truths["p"], rows.truths["s"], len(rows)
    for begin, end, _ in rows.segments(scope):
        for i in range(begin, end):
            soon = [k for k in range(i, n) if times[k] <= times[i] + seconds]
            late = times[i] + seconds > times[-1]
            first, last = i, i  # of the rows around at which p goes on, the first and the last one inside
            while first > 0 and p[i] and p[first - 1]:
                first -= 1
            while last + 1 < end and p[i] and p[last + 1]:
                last += 1
            match pattern:
                case "MinDuration":
                    bad = p[i] and last < end - 1 and times[last] - times[first] < seconds
                case "MaxDuration":
                    bad = p[i] and times[last] - times[i] >= seconds
                case "TransientState":
                    then = next((k for k in range(begin, end) if times[k] - times[begin] >= seconds), None)
                    bad = then is not None and not p[then]
                case "Recurrence":
                    bad = not late and not any(p[k] or k >= end for k in soon)
                case "Response":
                    bad = p[i] and not late and not any(s[k] and k < end for k in soon)
                case _:
                    bad = not p[n - 1]
            if bad:
                return False
    return True


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(PHRASES)),
    st.sampled_from(SCOPES),
    st.lists(st.tuples(*[st.booleans()] * 6), min_size=6, max_size=14),
    st.lists(st.sampled_from([0.5, 1.0]), min_size=14, max_size=14),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_patterns_with_times_count_seconds(
    pattern: str, scope: str, rows: list[tuple[bool, ...]], steps: list[float], seconds: float
) -> None:
    if pattern == "SteadyState" and scope not in ("Globally", "After q"):
        return  # a long run has no end
    truths = {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}
    times = [sum(steps[:k]) for k in range(len(rows))]
    hint = up.Hint(
        "h",
        {name: f"u.{name} > 0.5" for name in NAMES},
        scope=scope,
        pattern=f"{pattern}: {PHRASES[pattern].format(seconds)}",
    )
    found = up.robustness(trace_of(truths, times), hint.formula(times[-1]))
    assert (found.verdict == "holds") is in_time(pattern, Rows(truths), scope, times, seconds)
    assert found.verdict != "undecided"


LIMITED = [name for name, spec in CATALOGUE.items() if "{when}" in spec.phrase]


def in_window(
    pattern: str, rows: Rows, scope: str, times: list[float], a: float, b: float, avoid: bool
) -> bool:
    """The same for patterns that are to hold from some seconds on (after the scope has begun, or after or
    before something else), until others."""
    p, s, t, n = rows.truths["p"], rows.truths["s"], rows.truths["t"], len(rows)
    z = rows.truths["z"] if avoid else [False] * n
    for begin, end, ended in rows.segments(scope):
        inside = range(begin, end)
        part = [i for i in inside if a <= times[i] - times[begin] <= b]
        cut = end == n and not ended and times[-1] - times[begin] < b < math.inf

        def near(i: int, here: range = inside) -> list[int]:
            """Rows so many seconds after a row."""
            return [k for k in here if k >= i and times[i] + a <= times[k] <= times[i] + b]

        def earlier(i: int, here: range = inside) -> list[int]:
            return [k for k in here if k <= i and times[i] - b <= times[k] <= times[i] - a]

        soon = [i for i in inside if times[i] + (b if b < math.inf else a) <= times[-1]]
        match pattern:
            case "Universality":
                good = all(p[i] for i in part)
            case "Absence":
                good = not any(p[i] for i in part)
            case "Existence":
                good = not part or cut or any(p[i] for i in part)
            case "BoundedExistence":
                good = sum(p[i] and (i == part[0] or not p[i - 1]) for i in part) <= 1
            case "Until":
                done = next((i for i in part if s[i]), None)
                good = done is not None or not part or cut
                good = good and all(p[i] for i in inside if done is None or i < done)
            case "Precedence":
                good = all(any(s[k] for k in earlier(i)) for i in inside if p[i])
            case "PrecedenceChain":
                good = all(any(t[k] and any(s[begin : k + 1]) for k in earlier(i)) for i in inside if p[i])
            case "PrecedenceChain1N":
                good = all(any(t[k] for k in earlier(i)) for i in inside if p[i] and any(s[i:end]))
            case "Response":
                good = all(any(s[k] and not any(z[i:k]) for k in near(i)) for i in soon if p[i])
            case "ResponseChain":
                good = all(
                    any(s[k] and any(t[j] and not any(z[k:j]) for j in range(k, end)) for k in near(i))
                    for i in soon
                    if p[i]
                )
            case "ResponseChainN1":
                good = all(any(t[k] for k in near(i)) for i in soon if s[i] and any(p[begin : i + 1]))
            case _:
                good = all(s[i] for i in inside if any(p[k] for k in earlier(i)))
        if not good:
            return False
    return True


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(LIMITED),
    st.sampled_from(SCOPES),
    st.lists(st.tuples(*[st.booleans()] * 6), min_size=8, max_size=16),
    st.lists(st.sampled_from([0.5, 1.0]), min_size=16, max_size=16),
    st.sampled_from([(0.0, 1.0), (0.0, 2.5), (0.5, 2.0), (1.0, math.inf), (2.0, 3.0)]),
    st.booleans(),
)
def test_patterns_with_limits_in_time(
    pattern: str,
    scope: str,
    rows: list[tuple[bool, ...]],
    steps: list[float],
    when: tuple[float, float],
    avoid: bool,
) -> None:
    truths = {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}
    times = [sum(steps[:k]) for k in range(len(rows))]
    a, b = when
    said = f"after {a} s" if b == math.inf else f"between {a} s and {b} s" if a else f"within {b} s"
    phrase = CATALOGUE[pattern].phrase.replace("[ {when}]", f" {said}")
    phrase = phrase.replace("[ without {z} in between]", " without z in between" if avoid else "")
    hint = up.Hint(
        "h",
        {name: f"u.{name} > 0.5" for name in NAMES},
        scope=scope,
        pattern=f"{pattern}: {phrase.format(p='p', s='s', t='t', n=1)}",
    )
    assert parse_hints(str(hint)) == (hint,)
    found = up.robustness(trace_of(truths, times), hint.formula(times[-1]))
    avoided = avoid and "{z}" in CATALOGUE[pattern].phrase
    assert (found.verdict == "holds") is in_window(pattern, Rows(truths), scope, times, a, b, avoided)
    assert found.verdict != "undecided"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Universality: it is always the case that p holds", "Universality: always the case that p"),
        (
            "MinimumDuration: once p becomes satisfied, it remains so for at least 2 s",
            "MinDuration: once p holds it will hold for at least 2 s",
        ),
        (
            "Precedence: if p holds then it must have been the case that s has occurred before p holds",
            "Precedence: if p holds then s held before",
        ),
        (
            "Response: if p has occurred then in response s eventually holds within 5 ms",
            "Response: if p then in response s within 0.005 s",
        ),
        (
            "PrecedenceChainN-1: if p holds then it must have been the case that s and afterwards t have "
            "occurred before p holds",
            "PrecedenceChain: if p then s and afterwards t held before",
        ),
        ("BoundedExistence: p holds at most 1 time", "BoundedExistence: p holds at most 1 times"),
    ],
)
def test_the_words_of_the_catalogue_are_understood(said: str, meant: str) -> None:
    statements = {name: f"left.x > {k}" for k, name in enumerate("pst")}
    assert up.Hint("h", statements, pattern=said) == up.Hint("h", statements, pattern=meant)


def trace_of(truths: dict[str, list[bool]], times: list[float] | None = None) -> Trace:
    n = len(next(iter(truths.values())))
    values = {f"u.{name}": np.array(given, float) for name, given in truths.items()}
    made = Trace.from_arrays(np.arange(float(n)) if times is None else np.array(times), values)
    return Trace(made.columns, made.source, Ending(Outcome.FINISHED))
