"""Units that nobody can look into: FMUs of all kinds, and Python objects with rollback."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from fmu_maker import COMPILER, LINEAR, MODELS, SUFFIX, compile_library, make
from upbeat.cli.stability import Unstable, certify
from upbeat.report.stability import describe
from upbeat.units import ports

Fmus = Callable[[str, int], Path]


def around(model: Any, gain: float = -0.8) -> up.Scenario:
    """A unit u → y in a circle with a gain and a slow unit, so that its states and feedthrough matter."""
    slow = up.Ode({"z": "-0.5*z + 0.3*y"}, inputs=["y"], outputs=["z"], start={"z": 1.0})
    return up.Scenario(
        units={"model": model, "slow": slow}, connections={"model.u": f"{gain}*slow.z", "slow.y": "model.y"}
    )


def twin(solver: Any = "rk4") -> up.Ode:
    """What the FMU `linear` computes, as equations."""
    return up.Ode(
        {"x": "-2*x + u"}, inputs=["u"], outputs={"y": "3*x + 0.5*u"}, start={"x": 1.0}, solver=solver
    )


COUPLINGS = [
    (up.Jacobi(), up.Hold()),
    (up.GaussSeidel(("slow", "model")), up.Linear()),
    (up.Iterated(up.Jacobi("lagged"), corrections=2), up.Hold()),
]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("coupling", "inputs"), COUPLINGS, ids=str)
def test_an_fmu_for_model_exchange_is_as_its_equations(
    fmu: Fmus, version: int, coupling: Any, inputs: Any
) -> None:
    for solver in ("midpoint", "dormand_prince"):
        model = up.Fmu(fmu("linear", version), interface="model-exchange", solver=solver)
        found = up.stability_of(around(model), pace=0.3, coupling=coupling, inputs=inputs, scan=False)
        same = up.stability_of(around(twin(solver)), pace=0.3, coupling=coupling, inputs=inputs, scan=False)
        assert found.local
        assert "model.x" in found.model.names
        assert found.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-7)


@pytest.mark.parametrize("version", [2, 3])
def test_an_fmu_for_co_simulation_tells_its_derivatives(fmu: Fmus, version: int) -> None:
    """Its solver is unknown and counts as exact."""
    model = up.Fmu(fmu("linear", version), interface="co-simulation")
    found = up.stability_of(around(model), pace=0.3, scan=False)
    same = up.stability_of(around(twin("dormand_prince")), pace=0.3, scan=False)
    assert found.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-9)


def blind(folder: Path, version: int, **changes: Any) -> Path:
    """The same FMU without derivatives."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    named = "_".join(["blind", *changes])
    return make(replace(LINEAR, name=named, source="linear", derivatives=False, **changes), version, folder)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("coupling", [coupling for coupling, _ in COUPLINGS], ids=str)
def test_an_fmu_that_can_only_be_set_back_is_tried_out(fmu_folder: Path, version: int, coupling: Any) -> None:
    """Inside it goes ten steps of Runge and Kutta: that is what trying finds, not the exact solution."""
    model = up.Fmu(blind(fmu_folder, version), interface="co-simulation")
    found = up.stability_of(around(model), pace=2.0, coupling=coupling, scan=False)
    same = up.stability_of(around(twin(up.RK4(steps=10))), pace=2.0, coupling=coupling, scan=False)
    assert found.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-7)
    assert "model.x" in found.model.names


def test_an_fmu_with_neither_derivatives_nor_rollback_is_refused(fmu_folder: Path) -> None:
    model = up.Fmu(blind(fmu_folder, 2, state=False), interface="co-simulation")
    with pytest.raises(up.InvalidInput, match=r"'model' cannot be linearised: it has no directional"):
        up.stability_of(around(model), pace=0.3)


def test_hidden_states_are_found_out(fmu_folder: Path) -> None:
    """An FMU for co-simulation need not list its states; one that has some cannot be judged without."""
    hidden = tuple(replace(v, derivative=None) if v.derivative else v for v in LINEAR.variables)
    model = up.Fmu(
        blind(fmu_folder, 2, variables=hidden, exchange=False, depends={"y": ("u",)}),
        interface="co-simulation",
    )
    with pytest.raises(up.RunError, match="remembers what its inputs were"):
        up.stability_of(around(model), pace=0.3, scan=False)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("derivatives", [True, False])
def test_an_fmu_with_longer_steps_inside_is_undecided(
    fmu_folder: Path, version: int, derivatives: bool
) -> None:
    """It stands still in most communication steps; with steps that are its own it is as its equations."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    named = f"inner{int(derivatives)}"
    inner = replace(LINEAR, name=named, source="linear", derivatives=derivatives, defines=("INNER=0.25",))
    scenario = around(up.Fmu(make(inner, version, fmu_folder), interface="co-simulation"))
    found = up.stability_of(scenario, pace=0.05, scan=False)
    assert found.verdict == "undecided"
    assert "steps of its own of 0.25 s inside" in found.why
    assert "Take communication steps of 0.25 s" in found.why
    assert "0.25 s inside" in describe(found)
    same = up.stability_of(around(twin(up.RK4(steps=1))), pace=0.25, scan=False)
    own = up.stability_of(scenario, pace=0.25, scan=False)
    assert own.verdict == same.verdict == "stable"
    assert own.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-3 if derivatives else 1e-7)


class Leaky:
    """x' = -2·x + u by the exact formula for held u; y = 3·x + 0.5·u. Keeps its time and a parameter, too."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.kept: dict[str, Any] = {"time": start, "x": [1.0], "u": 0.0, "rate": 2.0, "steps": 0}

    def get(self, port: str) -> float:
        return float(3.0 * self.kept["x"][0] + 0.5 * self.kept["u"])

    def set(self, port: str, coefficients: Any) -> None:
        self.kept = self.kept | {"u": float(coefficients[0])}

    def advance(self, t: float, to: float, early: bool) -> float:
        decay = exp(-self.kept["rate"] * (to - t))
        x = decay * self.kept["x"][0] + (1 - decay) / self.kept["rate"] * self.kept["u"]
        self.kept = self.kept | {"time": to, "x": [x], "steps": self.kept["steps"] + 1}
        return to

    def save(self) -> Any:
        return self.kept

    def restore(self, token: Any) -> None:
        self.kept = token


def test_a_python_unit_with_rollback_is_tried_out() -> None:
    model = up.PythonUnit(Leaky, ports(["u"], {"y": {"depends": ["u"]}}), [up.Ability.ROLLBACK])
    found = up.stability_of(around(model), pace=0.3, scan=False)
    same = up.stability_of(around(twin("dormand_prince")), pace=0.3, scan=False)
    assert [name for name in found.model.names if name.startswith("model.")] == [
        "model.x.0",
        "model.u (held)",
    ]
    assert found.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-8)
    np.testing.assert_allclose(
        sorted(np.abs(found.spectrum.values))[-2:], sorted(np.abs(same.spectrum.values))[-2:], atol=1e-8
    )


class Short(Leaky):
    """Cannot make steps of more than a second."""

    def advance(self, t: float, to: float, early: bool) -> float:
        if to - t > 1.0:
            raise ValueError("too far for me")
        return super().advance(t, to, early)


def test_steps_without_a_matrix_are_undecided_and_the_reason_is_told() -> None:
    model = up.PythonUnit(Short, ports(["u"], {"y": {"depends": ["u"]}}), [up.Ability.ROLLBACK])
    found = up.stability_of(around(model), pace=0.3, scan=(0.1, 3.0), points=4)
    assert found.verdict == "stable"
    assert found.steps is not None
    assert found.steps.undecided[-1].low == pytest.approx(1.0, rel=1e-5)
    for told in (found.steps.why, describe(found), found.data()["undecided_why"]):
        assert "too far for me" in told


class Silent(Leaky):
    """The same, whose token is a secret."""

    def save(self) -> Any:
        return repr(self.kept)


def test_a_unit_without_readable_state_is_refused() -> None:
    model = up.PythonUnit(Silent, ports(["u"], ["y"]))
    with pytest.raises(up.InvalidInput, match=r"'model' cannot be linearised"):
        up.stability_of(around(model), pace=0.3)


class Stuck(Leaky):
    """Promises to be set back, and is not."""

    def restore(self, token: Any) -> None:
        pass


class Counting(Leaky):
    """Every other step goes another way, and no token knows of that."""

    count = 0

    def advance(self, t: float, to: float, early: bool) -> float:
        self.count += 1
        return super().advance(t, to if self.count % 2 else to + 1.0, early)


class Shared(Leaky):
    """Goes on working on what it has given out as its token."""

    def save(self) -> Any:
        self.token = self.kept
        return self.kept

    def advance(self, t: float, to: float, early: bool) -> float:
        self.kept["x"][0] *= 0.5
        return to


@pytest.mark.parametrize(
    ("kind", "what"), [(Stuck, "not where it was"), (Counting, "another way"), (Shared, "not where it was")]
)
def test_a_rollback_that_does_not_roll_back_is_noticed(kind: type, what: str) -> None:
    model = up.PythonUnit(kind, ports(["u"], {"y": {"depends": ["u"]}}), [up.Ability.ROLLBACK])
    with pytest.raises(
        up.InvalidInput, match=rf"'model' cannot be linearised: after restore\(\) it .*{what}"
    ):
        up.stability_of(around(model), pace=0.3, scan=False)


class Wrong(Leaky):
    """Takes the coefficients of an input for a number."""

    def advance(self, t: float, to: float, early: bool) -> float:
        self.kept["x"][0] += (to - t) * [self.kept["u"]]  # type: ignore[operator]
        return to


class Secret(Leaky):
    """Can be set back, by a token that tells nothing."""

    def save(self) -> Any:
        return repr(self.kept)

    def restore(self, token: Any) -> None:
        self.kept = eval(token)


def test_an_error_of_the_unit_itself_is_called_so() -> None:
    model = up.PythonUnit(Wrong, ports(["u"], {"y": {"depends": ["u"]}}), [up.Ability.ROLLBACK])
    with pytest.raises(up.InvalidInput, match=r"in its own advance\(0, 0\.3\).*TypeError") as error:
        up.stability_of(around(model), pace=0.3, scan=False)
    assert "tokens should" not in str(error.value)


def test_a_python_unit_gets_no_advice_about_fmus() -> None:
    model = up.PythonUnit(Secret, ports(["u"], {"y": {"depends": ["u"]}}), [up.Ability.ROLLBACK])
    found = up.stability_of(around(model), pace=0.3, scan=False)
    assert found.verdict == "undecided"
    assert "What save() gives should hold them as numbers" in found.why
    assert "FMU" not in found.why


def liar(folder: Path, name: str, version: int, **settings: Any) -> up.Fmu:
    """An FMU for co-simulation without derivatives that does not come back to where it was."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    fault = replace(MODELS[name, version], name=f"blind_{name}", derivatives=False)
    return up.Fmu(make(fault, version, folder), interface="co-simulation", **settings)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("name", "settings"),
    [("forget", {"rollback": "trust"}), ("approximate", {}), ("approximate", {"rollback": "trust"})],
)
def test_an_fmu_that_does_not_come_back_is_noticed(
    fmu_folder: Path, name: str, version: int, settings: Any
) -> None:
    """Though it is where it was at the start, where it has nothing to forget yet."""
    model = liar(fmu_folder, name, version, **settings)
    with pytest.raises(
        up.InvalidInput, match=r"'model' cannot be linearised: after restore\(\) it is not where it was"
    ):
        up.stability_of(around(model), pace=0.3, scan=False)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("name", "why"), [("forget", "after going back"), ("savecrash", "while saving its state")]
)
def test_an_fmu_is_tried_out_in_a_process_of_its_own_first(
    fmu_folder: Path, name: str, version: int, why: str
) -> None:
    """Going on would give wrong numbers, or crash."""
    with pytest.raises(up.InvalidInput, match=rf"'model' cannot be linearised: .*{why}") as error:
        up.stability_of(around(liar(fmu_folder, name, version)), pace=0.3, scan=False)
    assert "model exchange" in str(error.value)


IN_C = """
#include <stdlib.h>
typedef union { double r; long long i; } cell;
typedef struct { double x, u; } unit;
static unit slots[64];
void* create(const char* name, double start, const cell* p) { return calloc(1, sizeof(unit)); }
int get(unit* m, int port, cell* to) { to->r = 0.4*m->u + MEMORY*m->x; return 0; }
int set(unit* m, int port, const cell* by, int count) { m->u = by->r; return 0; }
int advance(unit* m, double t, double to, int early, double* reached) {
  m->x += (to - t)*(m->u - m->x);
  return 0;
}
int save(unit* m, int slot) { slots[slot] = *m; return 0; }
int restore(unit* m, int slot) {
  double now = m->u;
  *m = slots[slot];
  if (FORGETS) m->u = now;
  return 0;
}
void destroy(unit* m) { free(m); }
"""


def in_c(folder: Path, *, memory: int = 0, forgets: int = 0) -> up.NativeUnit:
    """y = 0.4·u, plus a state perhaps; its restore() may leave out the input."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    source = folder / "unit.c"
    source.write_text(IN_C)
    library = compile_library(
        [source], folder / f"unit{memory}{forgets}{SUFFIX}", f"-DMEMORY={memory}", f"-DFORGETS={forgets}"
    )
    return up.NativeUnit.from_library(ctypes.CDLL(str(library)), ports(["u"], {"y": {"depends": ["u"]}}))


@pytest.mark.parametrize("coupling", [coupling for coupling, _ in COUPLINGS], ids=str)
def test_a_unit_in_c_without_states_is_tried_out(tmp_path: Path, coupling: Any) -> None:
    found = up.stability_of(around(in_c(tmp_path)), pace=0.3, coupling=coupling, scan=False)
    same = up.stability_of(
        around(up.Function(["u"], {"y": "0.4*u"})), pace=0.3, coupling=coupling, scan=False
    )
    assert found.local
    assert found.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-9)


def test_a_unit_in_c_that_forgets_its_inputs_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(
        up.InvalidInput, match=r"'model' cannot be linearised: after restore\(\) it is not where it was"
    ):
        up.stability_of(around(in_c(tmp_path, forgets=1)), pace=0.3, scan=False)


def test_a_unit_in_c_with_states_is_refused_with_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(up.RunError, match=r"shows nothing of its states\. A unit in C keeps its states"):
        up.stability_of(around(in_c(tmp_path, memory=1)), pace=0.3, scan=False)


def test_a_run_of_fmus_that_is_clearly_unstable_is_not_certified(fmu: Fmus, tmp_path: Path) -> None:
    """Of FMUs verdicts are local, always: that is no reason to begin a run that explodes."""
    model = up.Fmu(fmu("linear", 2), interface="co-simulation")
    for gain, fits in ((-400.0, False), (-1.0, True)):
        made = up.experiment(around(model, gain), pace=1.0, until=200.0)
        assert up.stability_of(made, scan=False).verdict == ("stable" if fits else "unstable")
        trace = up.simulate(around(model, gain), pace=1.0, until=20.0)
        assert bool(abs(trace["slow.z"][-1]) < 1.0) is fits  # the judge
        if fits:
            certify(made, quiet=True)
        else:
            with pytest.raises(Unstable, match="Locally unstable with steps of 1 s"):
                certify(made, quiet=True)


@pytest.mark.parametrize("interface", ["model-exchange", "co-simulation"])
def test_events_inside_an_fmu_are_in_no_matrix(fmu: Fmus, interface: str) -> None:
    """A mass that swings under a ceiling: one event indicator, and it is not at rest."""
    scenario = up.Scenario({"mass": up.Fmu(fmu("hanging", 3), interface=interface)})
    found = up.stability_of(scenario, pace=0.05, scan=False)
    assert found.verdict == "undecided"
    assert "mass is an FMU with 1 event indicator" in found.model.unseen


def test_a_relay_inside_an_fmu_leaves_a_run_open(fmu: Fmus) -> None:
    relay = up.Fmu(fmu("relay", 3), interface="model-exchange")  # x' = 1 - x while u > 0.5, else -x
    scenario = up.Scenario(
        {"r": relay, "g": up.Function(["x"], {"y": "1 - x"})}, {"r.u": "g.y", "g.x": "r.x"}
    )
    found = up.stability_along(scenario, pace=0.05, until=3.0)
    assert (found.verdict, "jumps close to where the run is" in found.why) == ("undecided", True)
