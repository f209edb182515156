"""Units with unknowns: solutions, rollback, and what is refused."""

from __future__ import annotations

import pickle

import pytest

import upbeat as up
from upbeat.units.equations.implicit import Implicit
from upbeat.units.solving.solvers import SolverError

CUBIC = up.Ode(
    {"x": "-z + u"},
    start={"x": 2.0},
    inputs={"z": 1.0, "u": 0.0},
    outputs={"x": "x", "z_out": "z", "r": "z + k*z**3 - x", "n": {"value": "round(z)", "kind": "integer"}},
    parameters={"k": 1.0},
)


def test_it_looks_like_a_unit_without_unknowns() -> None:
    made = Implicit(CUBIC, {"z": "r"})
    assert [port.name for port in made.ports] == ["u", "x", "z_out", "n", "k"]
    unit = made.instantiate("m", 0.0)
    assert unit.get("z_out") == pytest.approx(1.0, abs=1e-12)
    assert unit.get("n") == 1
    assert made.with_values({"k": 0.0}).instantiate("m", 0.0).get("z_out") == pytest.approx(2.0)
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_an_unknown_depends_on_its_users_depend_on() -> None:
    inner = up.Function(inputs=["z", "a", "b", "c"], outputs={"r": "z - a", "y": "z + b", "w": "c"})
    depends = {port.name: port.depends for port in Implicit(inner, {"z": "r"}).ports}
    assert depends["y"] == {"a", "b"}
    assert depends["w"] == {"c"}


def test_rollback_and_bytes_are_exact() -> None:
    unit = Implicit(CUBIC, {"z": "r"}).instantiate("m", 0.0)
    unit.advance(0.0, 0.5)
    unit.set("u", [0.5, -1.0])
    token = unit.save()
    unit.advance(0.5, 1.0)
    first = (unit.save(), unit.get("z_out"))
    unit.restore(unit.from_bytes(unit.to_bytes(token)))
    unit.get("z_out")
    unit.get("x")
    unit.advance(0.5, 1.0)
    assert (unit.save(), unit.get("z_out")) == first
    with pytest.raises(up.ModelError, match="not a state of this unit"):
        unit.from_bytes(b"12345678")


def test_a_branch_is_followed() -> None:
    inner = up.Function(inputs={"z": -1.0}, outputs={"y": "z", "r": "z*z - 1 - time"})
    unit = Implicit(inner, {"z": "r"}).instantiate("m", 0.0)
    for k in range(10):
        unit.advance(k / 10, (k + 1) / 10)
    assert unit.get("y") == pytest.approx(-(2.0**0.5))


def test_no_solution_is_said_with_what_was_left() -> None:
    unit = (
        Implicit(up.Function(inputs=["z"], outputs={"y": "z", "r": "z*z + 1"}), {"z": "r"})
        .with_values({"z": 0.3})
        .instantiate("m", 0.0)
    )
    with pytest.raises(SolverError, match=r"no solution was found for z \(residual .*\) at t = 0"):
        unit.get("y")
    singular = Implicit(up.Function(inputs=["z"], outputs={"y": "z", "r": "1 + 0*z"}), {"z": "r"})
    with pytest.raises(SolverError, match="singular"):
        singular.instantiate("m", 0.0).get("y")


def test_wrong_unknowns_are_refused() -> None:
    with pytest.raises(up.ModelError, match=r"(?s)no 'w'.*no 's'"):
        Implicit(CUBIC, {"w": "s"})
    with pytest.raises(up.ModelError, match="must be a single real value"):
        Implicit(CUBIC, {"z": "n"})
    with pytest.raises(up.ModelError, match="an output of its own"):
        Implicit(CUBIC, {"z": "r", "u": "r"})
    with pytest.raises(up.ModelError, match="there are none"):
        Implicit(CUBIC, {})


def jumping(slope: float) -> up.Function:
    """slope·(z - c) ± 0.5 jumps over zero at z = c."""
    zero = f"{slope!r}*(z - c) + (0.5 if z > c else -0.5)"
    return up.Function(inputs={"z": 0.0, "c": 0.3}, outputs={"r": zero, "y": "z"})


@pytest.mark.parametrize("slope", [1.0, 1e3, 1e6, 1e9])
def test_a_jump_over_zero_is_no_solution(slope: float) -> None:
    unit = Implicit(jumping(slope), {"z": "r"}).instantiate("m", 0.0)
    with pytest.raises(SolverError, match=r"residual [-+]?0\.5.*jump over zero"):
        unit.get("y")


def test_a_monolith_does_not_jump_over_it_either() -> None:
    """a.u = b.y with b.y - a.u = 1e6·(a.u - c) ± 0.5: the connected ports cannot agree."""
    law = up.Function(inputs={"u": 0.0}, outputs={"y": "u + 1e6*(u - 0.3) + (0.5 if u > 0.3 else -0.5)"})
    copy = up.Function(inputs={"u": 0.0}, outputs={"y": "u"})
    scenario = up.Scenario(units={"a": copy, "b": law}, connections={"a.u": "b.y", "b.u": "a.y"})
    with pytest.raises(up.UpbeatError, match="no solution"):
        up.simulate(scenario.monolith(), pace=1.0, until=1.0)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12])
def test_rounding_is_no_jump(offset: float) -> None:
    """Where large numbers cancel, the residual cannot become smaller than their last digits."""
    model = up.Function(
        inputs={"z": 0.0, "a": 1.0},
        outputs={"r": "(z + z**3 + p) - (p + a)", "y": "z"},
        parameters={"p": offset},
    )
    z = Implicit(model, {"z": "r"}).instantiate("m", 0.0).get("y")
    assert z + z**3 == pytest.approx(1.0, abs=1e-12 + 4e-16 * offset)


def test_a_point_without_derivative_is_left() -> None:
    model = up.Function(inputs={"z": 0.0}, outputs={"r": "sqrt(z) - z + 2", "y": "z"})
    assert Implicit(model, {"z": "r"}).instantiate("m", 0.0).get("y") == pytest.approx(4.0)
