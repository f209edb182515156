"""Ports: what is a name, a size and a value."""

from __future__ import annotations

import numpy as np
import pytest

from upbeat.core.errors import ModelError
from upbeat.core.ports import MAX_CELLS, Causality, Kind, Port, check_variable


def port(kind: Kind = Kind.REAL, **more: object) -> Port:
    return Port("p", Causality.INPUT, kind=kind, **more)  # type: ignore[arg-type]


MODE = port(Kind.INTEGER, items=("off", "on"))


@pytest.mark.parametrize(
    ("name", "why"),
    [("2x", "not starting with a digit"), ("a b", "letters"), ("", "letters"), ("a__b", "two underscores")],
)
def test_names_of_variables(name: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        check_variable(name)


def test_sizes_are_bounded() -> None:
    assert port(size=MAX_CELLS).cells == MAX_CELLS
    with pytest.raises(ModelError, match=r"at most 100,000 cells, not 2,000,000,000"):
        port(size=2_000_000_000)
    with pytest.raises(ModelError, match="at least one cell"):
        port(size=0)


def test_values_of_every_cell() -> None:
    assert port().values(1) == (1.0,)
    assert port().values([1]) == (1.0,)
    assert port(size=2).values(1.5) == (1.5, 1.5)
    assert port(size=2).values(np.array([1, 2])) == (1.0, 2.0)
    assert port(size=2).values(np.float64(3)) == (3.0, 3.0)
    assert port(Kind.BOOLEAN).values(np.True_) == (True,)
    for given in ([1.0], [1.0, 2.0, 3.0], []):
        with pytest.raises(ModelError, match=r"has 2 cell\(s\)"):
            port(size=2).values(given)


@pytest.mark.parametrize(
    ("one", "given", "why"),
    [
        (port(), None, "port 'wind' is real, but was given None"),
        (port(), 10**400, "too large for a real"),
        (port(), "x" * 1000, "but was given 'xxxxx"),
        (port(), float("nan"), "NaN is not a value"),
        (port(), float("inf"), "a value must be finite"),
        (port(), float("-inf"), "a value must be finite"),
        (port(), True, "is real, but was given True"),
        (port(), {"a": 1}, "is real, but was given"),
        (port(size=2), [1.0, None], "is real, but was given None"),
        (port(Kind.INTEGER), 2**70, "an integer has 64 bits"),
        (port(Kind.INTEGER), -(2**63) - 1, "an integer has 64 bits"),
        (port(Kind.INTEGER), 1.0, "is integer, but was given 1.0"),
        (port(Kind.BOOLEAN), 1, "is boolean, but was given 1"),
        (port(Kind.STRING), 1, "is string, but was given 1"),
        (MODE, 2, r"port 'wind': 2 is not an index of off, on \(0 to 1\)"),
        (MODE, -1, "-1 is not an index"),
        (MODE, "auto", "'auto' is not one of off, on"),
        (MODE, True, "is integer, but was given True"),
    ],
)
def test_values_that_are_none(one: Port, given: object, why: str) -> None:
    with pytest.raises(ModelError, match=why) as caught:
        one.values(given, "wind")
    assert len(str(caught.value)) < 200


def test_numbers_beyond_printing() -> None:
    with pytest.raises(ModelError, match="an integer has 64 bits"):
        port(Kind.INTEGER).values(1 << 20_000)
    with pytest.raises(ModelError, match="is boolean, but was given a huge number"):
        port(Kind.BOOLEAN).values(1 << 20_000)
    with pytest.raises(ModelError, match="at most"):
        port(size=1 << 20_000)


def test_enumerations_take_labels_and_indices() -> None:
    assert MODE.values("on") == MODE.values(1) == (1,)
    with pytest.raises(ModelError, match="not an index"):
        port(Kind.INTEGER, items=("off", "on"), start=(7,))


def test_what_units_give() -> None:
    assert port().accept(1) == [1.0]
    assert np.isnan(port().accept(float("nan"))[0])
    assert port(size=2).accept(np.array([1, 2])) == [1.0, 2.0]
    assert port(Kind.INTEGER).accept(np.int64(3)) == [3]
    assert port(Kind.BOOLEAN).accept(np.True_) == [True]
    assert port(Kind.STRING).accept("a") == ["a"]
    assert MODE.accept("on") == MODE.accept(1) == [1]


@pytest.mark.parametrize(
    ("one", "given", "error", "why"),
    [
        (MODE, 7, ValueError, "7 is not an index of off, on"),
        (MODE, "auto", ValueError, "'auto' is not one of off, on"),
        (MODE, 1.0, TypeError, "integer"),
        (port(Kind.INTEGER), 2**63, ValueError, "64 bits"),
        (port(Kind.INTEGER), "on", TypeError, "integer"),
        (port(Kind.STRING), 1, TypeError, "not a string"),
        (port(size=2), [1.0], ValueError, "1 values"),
        (port(size=2), 1.0, TypeError, "not iterable"),
        (port(), "x", ValueError, "could not convert"),
        (port(), None, TypeError, "NoneType"),
    ],
)
def test_what_units_may_not_give(one: Port, given: object, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        one.accept(given)
