"""Power bonds: inputs that make good what they got wrong, and steps by the energy that a coupling creates."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.core.errors import MasterError, ScenarioError
from upbeat.master.settings import settings_of

TIGHT = up.DormandPrince(rtol=1e-11, atol=1e-13)
H = 0.1


@pytest.fixture(params=["interpret", "native"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def integral(inputs: Any, y: str, pace: Any, engine: str, until: float = 2.0) -> float:
    """Of what a unit is given for an output y of the time."""
    source = up.Function(outputs={"y": y})
    total = up.Ode({"x": "u"}, inputs=["u"], solver=up.RK4(steps=4))
    scenario = up.Scenario({"source": source, "total": total}, {"total.u": "source.y"})
    trace = up.simulate(scenario, pace=pace, until=until, inputs=inputs, engine=engine)  # type: ignore[arg-type]
    return float(trace["total.x"][-1])


def test_what_was_missing_is_given_in_the_next_step(engine: str) -> None:
    """A ramp that is held: all but the error of the last step, which is h²/2, has been made good."""
    assert integral(up.Hold(), "time", up.Fixed(H), engine) == pytest.approx(2.0 - 2.0 * H / 2)
    assert integral(up.Nepce(), "time", up.Fixed(H), engine) == pytest.approx(2.0 - H**2 / 2, rel=1e-12)
    # Of a parabola along lines: the last step misses 5/6·h³, and the first one was taken for a line, which is
    # h³/6 too much.
    found = integral(up.Nepce(up.Linear()), "time**2", up.Fixed(H), engine)
    assert found == pytest.approx(8 / 3 - 4 / 6 * H**3, rel=1e-9)


def test_steps_of_all_lengths_make_good_what_they_owe(engine: str) -> None:
    pace = up.Pattern([0.1, 0.02, 0.05, 0.2, 0.003])
    held = abs(integral(up.Hold(), "time", pace, engine) - 2.0)
    assert abs(integral(up.Nepce(), "time", pace, engine) - 2.0) < 0.1 * held


def test_only_a_part_is_made_good_with_a_gain(engine: str) -> None:
    found = [integral(up.Nepce(gain=gain), "time", up.Fixed(H), engine) for gain in (1.0, 0.5)]
    # Half of what is owed is given each time, so that another half of a step stays owed in the end.
    assert found[0] - found[1] == pytest.approx(H**2 / 2, rel=1e-3)


def pair(unit: bool = False) -> up.Scenario:
    """Two masses, one with a spring between them, which exchange a force and a velocity; each adds up the
    energy that it gets or gives by what it is given."""
    newton, metres = ({"unit": "N"}, {"unit": "m/s"}) if unit else ({}, {})
    left = up.Ode(
        {"x": "v", "v": "F - x", "E": "F*v"},
        inputs={"F": newton},
        start={"x": 1.0},
        outputs={"x": "x", "E": "E", "v": {"value": "v", **metres}},
        solver=TIGHT,
    )
    right = up.Ode(
        {"s": "w - v", "w": "-s", "E": "s*v"},
        inputs={"v": metres},
        start={"s": -1.0},
        outputs={"E": "E", "F": {"value": "s", **newton}},
        solver=TIGHT,
    )
    return up.Scenario({"left": left, "right": right}, {"left.F": "right.F", "right.v": "left.v"})


def created(trace: up.Trace) -> float:
    """The energy that the coupling has created or destroyed, the most there was."""
    return float(np.abs(trace["left.E"] - trace["right.E"]).max())


@pytest.mark.parametrize("coupling", ["jacobi", "gauss_seidel"])
def test_a_power_bond_keeps_its_energy_and_the_order_is_one_more(coupling: str) -> None:
    truth = up.simulate(pair().monolith(), pace=0.05, until=10.0)["left.x"]
    for plain, order in ((up.Hold(), 2), (up.Linear(), 3 if coupling == "jacobi" else 2)):
        settings = {"until": 10.0, "coupling": coupling}
        without = up.simulate(pair(), pace=0.05, inputs=plain, **settings)  # type: ignore[arg-type]
        errors, residual = [], 0.0
        for step in (0.1, 0.05):
            trace = up.simulate(pair(), pace=step, inputs=up.Nepce(plain), **settings)  # type: ignore[arg-type]
            errors.append(np.abs(trace["left.x"] - truth[:: round(step / 0.05)]).max())
            residual = created(trace)
        assert log2(errors[0] / errors[1]) > order - 0.4
        assert residual < created(without) / (10 if plain == up.Hold() else 1.5)


def test_stability_sees_what_is_made_good() -> None:
    """The verdict is about the program: it agrees with a run that decays or grows."""
    damped = pair().with_units({})
    for step in (0.05, 0.8):
        made = up.experiment(damped, pace=up.Fixed(step), until=200 * step, inputs=up.Nepce())
        radius = up.stability_of(made).spectral_radius
        x = made.run()["left.x"]
        assert (np.abs(x[-40:]).max() > 1.05 * np.abs(x[:40]).max()) == (radius > 1.0005)


# ----------------------------------------------------------------------------------------------------
# Steps by energy.


def by_energy(tolerance: float, **more: Any) -> up.ErrorControl:
    return up.ErrorControl(tolerance, method="energy", correct="next", longest=1.0, **more)


@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Nepce(up.Linear())], ids=str)
def test_steps_are_as_long_as_the_energy_allows(engine: Any, inputs: Any) -> None:
    found, counts = [], []
    for tolerance in (1e-1, 1e-2, 1e-3):
        pace = by_energy(tolerance, bonds=[("right.F", "left.v")])
        trace = up.simulate(pair(), pace=pace, until=10.0, inputs=inputs, engine=engine)
        found.append(created(trace))
        counts.append(trace.steps.count)
    assert found[0] > 3 * found[1] > 9 * found[2]
    assert counts == sorted(counts)


def test_bonds_are_recognised_by_their_units_of_measure() -> None:
    named = up.simulate(pair(), pace=by_energy(1e-2, bonds=[("right.F", "left.v")]), until=5.0)
    seen = up.simulate(pair(unit=True), pace=by_energy(1e-2), until=5.0)
    assert named.time.tolist() == seen.time.tolist()
    assert "right.F and left.v" in " ".join(seen.notes)
    assert any("right.F and left.v" in step.reason for step in seen.steps)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "there is none"),
        ({"bonds": [("right.F", "left.w")]}, "'left.w' is no output"),
        ({"bonds": [("right.F", "left.x")]}, "are no power bond|no output that an input takes"),
    ],
)
def test_without_a_bond_there_is_nothing_to_watch(more: dict[str, Any], said: str) -> None:
    with pytest.raises(MasterError, match=said):
        up.simulate(pair(), pace=by_energy(1e-2, **more), until=1.0)


def test_wrong_settings_are_refused() -> None:
    for bonds in ("a", [("a.F",)], [("a.F", 1)], 3):
        with pytest.raises(MasterError, match="pairs of outputs"):
            by_energy(1e-2, bonds=bonds)
    with pytest.raises(MasterError, match='for method = "energy"'):
        up.ErrorControl(1e-2, bonds=[("a.F", "b.v")])
    with pytest.raises(MasterError, match="Nepce makes good what"):
        up.Nepce(up.Smooth())  # type: ignore[arg-type]
    for gain in (0.0, 1.5, "1", True):
        with pytest.raises(MasterError, match="the gain of Nepce"):
            up.Nepce(gain=gain)  # type: ignore[arg-type]


def test_both_are_written_to_files_and_read_back(tmp_path: Any) -> None:
    pace = by_energy(1e-2, bonds=[("right.F", "left.v")])
    made = up.experiment(pair(), pace=pace, until=1.0, inputs=up.Nepce(up.Linear(), gain=0.9))
    assert settings_of(made.master)["inputs"] == {"kind": "nepce", "approximation": "linear", "gain": 0.9}
    file = tmp_path / "pair.toml"
    up.write_scenario(made, file)
    again = up.load(file)
    assert again.master == made.master
    assert again.run()["left.x"].tolist() == made.run()["left.x"].tolist()
    file.write_text(file.read_text().replace('"linear"', '"smooth"'))
    with pytest.raises(ScenarioError, match="Nepce makes good"):
        up.load(file)


def test_trust_knows_what_was_given() -> None:
    """What `trust` says about a bond is near to what the units themselves have added up."""
    for inputs in (up.Hold(), up.Nepce()):
        made = up.experiment(pair(), pace=up.Fixed(0.05), until=5.0, inputs=inputs)
        trace = made.run()
        true = trace["left.E"] - trace["right.E"]
        (bond,) = up.trust(made, bonds=[("right.F", "left.v")], seconds=20.0).energy
        assert np.abs(bond.residual - true).max() < 0.15 * np.abs(true).max()
