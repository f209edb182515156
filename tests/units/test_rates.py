"""Outputs for derivatives that follow from equations: against closed forms, and where they end."""

from __future__ import annotations

import math
import pickle

import pytest

import upbeat as up
from upbeat.core.ports import Port


def port(model: up.Ode | up.Function, name: str) -> Port:
    return next(p for p in model.ports if p.name == name)


def chain(model: up.Ode | up.Function, name: str) -> list[str]:
    """The names of an output and of its derivatives."""
    found = [name]
    while (following := port(model, found[-1]).derivative) is not None:
        found.append(following)
    return found


def test_states_move_as_their_equations_say() -> None:
    """x' = v, v' = -k x, y = x²: y' = 2 x v, y'' = 2 v² - 2 k x², at x = 3, v = 5, k = 2."""
    model = up.Ode(
        {"x": "v", "v": "pull"}, start={"x": 3.0, "v": 5.0}, parameters={"k": 2.0}, locals={"pull": "-k*x"},
        outputs={"y": "x**2"},
    ).giving_rates({"y": 2})  # fmt: skip
    unit = model.instantiate("one", 0.0)
    assert [unit.get(name) for name in chain(model, "y")] == pytest.approx([9.0, 30.0, 14.0])
    assert all(p.internal for p in model.ports if p.name not in ("y", "k"))


def test_time_moves_too_and_functions_have_rates() -> None:
    model = up.Function(outputs={"y": "sin(2*time)"}).giving_rates({"y": 2})
    unit = model.instantiate("one", 0.3)
    expected = [math.sin(0.6), 2 * math.cos(0.6), -4 * math.sin(0.6)]
    assert [unit.get(name) for name in chain(model, "y")] == pytest.approx(expected)


def test_inputs_end_the_chain() -> None:
    """x'' = F depends on F, and says so; how F changes nobody inside knows."""
    model = up.Ode({"x": "v", "v": "F"}, inputs=["F"], outputs={"x": "x", "y": "F"})
    grown = model.giving_rates({"x": 3, "y": 1})
    names = chain(grown, "x")
    assert len(names) == 3
    assert port(grown, names[2]).depends == {"F"}
    assert port(grown, names[1]).depends == frozenset()
    assert port(grown, "y").derivative is None
    assert model.giving_rates({"y": 1}) is model


def test_variables_and_inputs_that_are_no_numbers_are_constant_between_events() -> None:
    model = up.Ode(
        {"x": "gear*(1 if on else 0)"}, inputs={"on": {"kind": "boolean", "start": True}},
        variables={"gear": 3.0}, outputs={"y": "gear*x*(1 if on else 0)"},
        events={"up": {"when": "x >= 1", "then": {"gear": "4"}}},
    ).giving_rates({"y": 1})  # fmt: skip
    unit = model.instantiate("one", 0.0)
    assert unit.get(chain(model, "y")[1]) == 9.0


def test_arrays_cell_by_cell() -> None:
    model = up.Ode(
        {"x": ["x[1]", "-x[0]"]}, start={"x": [1.0, 2.0]}, outputs={"y": ["3*x[0]", "x[0]*x[1]"]}
    ).giving_rates({"y": 1})
    unit = model.instantiate("one", 0.0)
    assert unit.get(chain(model, "y")[1]) == pytest.approx((6.0, 3.0))


def test_declared_derivatives_are_taken_and_names_do_not_clash() -> None:
    model = up.Ode(
        {"x": "v", "v": "-x"},
        outputs={"x": {"value": "x", "derivative": "w"}, "w": "v", "x_rate": "7*x"},
    ).giving_rates({"x": 2})
    assert chain(model, "x") == ["x", "w", "x_rate_2"]


def test_a_table_ends_the_chain() -> None:
    tables = {"f": {"x": [0, 1], "y": [0, 2]}}
    model = up.Ode({"x": "1"}, tables=tables, outputs={"y": "f(x)", "x": "x"})
    assert chain(model.giving_rates({"y": 1, "x": 1}), "y") == ["y"]


def test_it_can_be_sent_to_another_process() -> None:
    model = up.Ode({"x": "v", "v": "-sin(x)/3"}, start={"x": 1.0}).giving_rates({"x": 2})
    sent = pickle.loads(pickle.dumps(model))
    names = chain(model, "x")
    assert chain(sent, "x") == names
    assert sent.instantiate("one", 0.0).get(names[2]) == model.instantiate("one", 0.0).get(names[2])
