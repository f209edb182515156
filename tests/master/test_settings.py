"""Masters as plain settings: there and back, and every mistake named."""

from __future__ import annotations

import pytest

import upbeat as up
from upbeat.core.errors import Problems
from upbeat.master.settings import master_from, settings_of

MASTERS = [
    up.Master(
        pace=up.Fixed(0.1), coupling=up.Iterated(up.GaussSeidel(loops=up.Anderson(depth=2)), corrections=2)
    ),
    up.Master(pace=up.Fixed(0.1), coupling=up.Jacobi(loops=up.FixedPoint()), inputs=up.Hermite(2)),
    up.Master(pace=up.Fixed(0.1), coupling=up.Jacobi(loops=up.Newton(slopes="units"))),
    up.Master(
        pace=up.Fixed(0.1), inputs=up.Polynomial(3), ports={"a.u": up.Smooth(), "a.v": up.Continuous()}
    ),
    up.Master(pace=up.Fixed(0.1)),
    up.Master(pace=up.Fixed(0.5), coupling=up.Jacobi(outputs="lagged"), inputs=up.Linear()),
    up.Master(
        pace=up.Fixed(1),
        coupling=up.GaussSeidel(order=("b", "a")),
        ports={"a.u": up.Linear(), "b.u": up.Hold()},
    ),
]


@pytest.mark.parametrize("master", MASTERS)
def test_settings_give_the_master_back(master: up.Master) -> None:
    problems = Problems()
    assert master_from(settings_of(master), problems) == master
    assert not problems.found


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ({}, ["step of a communication|communication step"]),
        ({"step": 0}, ["positive"]),
        (
            {"step": 1, "coupling": {"kind": "jacobi", "loops": {"kind": "newton", "slopes": "exact"}}},
            ["one of .*differences.*not 'exact'"],
        ),
        ({"step": -1.0}, ["positive"]),
        ({"step": float("nan")}, ["positive and finite"]),
        ({"step": "fast"}, ["must be a number"]),
        ({"step": True}, ["must be a number, not True"]),
        ({"step": 0.1, "inputs": 5}, ["an approximation is a name"]),
        ({"step": 0.1, "pace": "fixed"}, ["both"]),
        ({"step": 0.1, "coupling": "jacoby"}, ["unknown coupling 'jacoby'.*Did you mean 'jacobi'"]),
        (
            {"step": 0.1, "coupling": {"kind": "jacobi", "output": "solved"}},
            ["no setting 'output'.*'outputs'"],
        ),
        ({"step": 0.1, "coupling": {"outputs": "solved"}}, ["a name or a table with a kind"]),
        (
            {"step": 0.1, "inputs": "cubic", "couplin": "x"},
            ["unknown approximation", "unknown key 'couplin'.*'coupling'"],
        ),
        ({"step": 0.1, "ports": {"a.u": "lin"}}, ["unknown approximation 'lin'"]),
        ({"step": 0.1, "ports": 3}, ["must be a table"]),
        (
            {"step": 0.1, "coupling": {"kind": "iterated", "coupling": "jacoby"}},
            ["coupling.*unknown coupling.*'jacobi'"],
        ),
        (
            {"step": 0.1, "coupling": {"kind": "iterated", "max_iterations": 0}},
            ["max_iterations of Iterated"],
        ),
        ({"step": 0.1, "coupling": {"kind": "jacobi", "loops": "bisect"}}, ["unknown loop solver"]),
        ({"step": 0.1, "inputs": {"kind": "polynomial", "degree": 9}}, ["from 1 to 5"]),
    ],
)
def test_mistakes_are_named_all_at_once(settings: dict[str, object], texts: list[str]) -> None:
    problems = Problems()
    assert master_from(settings, problems) is None
    assert len(problems.found) == len(texts)
    for text in texts:
        with pytest.raises(up.ScenarioError, match=f"(?s){text}"):
            problems.raise_if_any()
