"""The largest of several errors: one that is no number is not lost among those that are."""

from __future__ import annotations

from itertools import permutations
from math import inf, isnan, nan

import pytest

from upbeat.core.expr import Cell, Kernel, Name, fold
from upbeat.core.expr.nodes import with_args
from upbeat.master.loops import worst_of
from upbeat.master.paces.estimate import Watched


def worst(values: tuple[float, ...]) -> float:
    names = tuple(f"e{i}" for i in range(len(values)))
    return float(Kernel(names, (worst_of([Name(name) for name in names]),)).python()(values)[0])


@pytest.mark.parametrize("values", list(permutations((0.5, 3.0, nan, 1.0))))
def test_a_number_that_is_none_wins(values: tuple[float, ...]) -> None:
    assert isnan(worst(values))


@pytest.mark.parametrize("values", [(), (0.0,), (2.0, 1.0), (1.0, inf), (inf, 1.0), (0.25, 0.5, 0.125)])
def test_otherwise_it_is_the_maximum(values: tuple[float, ...]) -> None:
    assert worst(values) == max(values, default=0.0)


def test_an_array_with_one_cell_that_is_no_number_has_no_small_error() -> None:
    error = Watched(("a", "u"), "a.u", 0, 2, 1e-3, 1.0).error([Name("d"), Name("e")])
    bound = fold(error, lambda leaf: Name("v") if isinstance(leaf, Cell) else leaf, with_args)
    call = Kernel(("d", "e", "v"), (bound,)).python()
    for given in ((nan, 0.0, 1.0), (0.0, nan, 1.0)):
        assert isnan(call(given)[0])
    assert call((1e-3, 4e-3, 1.0))[0] == pytest.approx(2.0)
