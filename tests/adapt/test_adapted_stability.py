"""Stability verdicts see through adaptations: the step as a matrix, beside that of the same thing by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up
from adaptations import inp, out, passing, rated
from upbeat.adapt import Adaptation, Assign, Rule, Step, Stored
from upbeat.core.ports import Kind

MASS = up.Ode({"x": "v", "v": "-x - 0.1*v + F"}, inputs=["F"], outputs=["x"], start={"x": 1.0})
SPRING = up.Function(inputs=["x"], outputs={"f": "-5*x"})
A = np.array([[0.0, 1.0], [-1.0, -0.1]])
B = np.array([0.0, 1.0])


def coupled(spring: Any) -> up.Scenario:
    return up.Scenario({"m": MASS, "k": spring}, {"m.F": "k.f", "k.x": "m.x"})


def judged(scenario: up.Scenario, step: float, **more: Any) -> Any:
    return up.induced(up.experiment(scenario, pace=step, until=10.0, **more))


def spectrum(matrix: Any) -> np.ndarray:
    """The eigenvalues that are not zero."""
    found = np.linalg.eigvals(np.asarray(matrix))
    return np.sort_complex(found[np.abs(found) > 1e-7])


def over_step(step: float) -> tuple[np.ndarray, np.ndarray]:
    """The states after a step with a held force, exactly."""
    block = expm(step * np.block([[A, B[:, None]], [np.zeros((1, 3))]]))
    return block[:2, :2], block[:2, 2]


def test_merged_ones_have_the_matrix_of_the_connections() -> None:
    double = Adaptation(
        {"w": SPRING},
        (inp("x"), out("f")),
        in_rules=(Rule((Assign("s", "2*x"),), (Assign("w.x", "s/4"),)),),
        out_rules=(Rule((Assign("o", "w.f"),), (Assign("f", "2*o"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
    )
    by_hand = up.Scenario({"m": MASS, "k": SPRING}, {"m.F": "2*k.f", "k.x": "m.x/2"})
    one, other = (judged(scenario, 0.1) for scenario in (by_hand, coupled(up.adapted(double))))
    np.testing.assert_allclose(other.matrix, one.matrix, rtol=1e-12, atol=1e-15)
    kept = judged(coupled(up.adapted(double, flatten=False)), 0.1)
    np.testing.assert_allclose(spectrum(kept.matrix), spectrum(one.matrix), rtol=1e-9)


@pytest.mark.parametrize("step", [0.03, 0.2])
def test_a_delay_is_found(step: float) -> None:
    """Delayed and Moore: the force is that of the position one step before, which destabilises."""
    late = up.adapted(passing({"w": SPRING}, {"x": "w.x"}, {"f": "w.f"}, mealy=False, reactive=False))
    phi, gamma = over_step(step)
    by_hand = np.zeros((3, 3))  # x, v, and the force that is under way
    by_hand[:2, :2], by_hand[:2, 2], by_hand[2, 0] = phi, gamma, -5.0
    found = judged(coupled(late), step)
    np.testing.assert_allclose(spectrum(found.matrix), spectrum(by_hand), rtol=1e-4)  # RK4, exact
    without = np.block([[phi - 5.0 * np.outer(gamma, [1.0, 0.0])]])
    verdicts = [
        up.stability_of(up.experiment(coupled(spring), pace=step, until=10.0), scan=False).verdict
        for spring in (SPRING, late)
    ]
    radii = [max(abs(np.linalg.eigvals(matrix))) for matrix in (without, by_hand)]
    assert verdicts == ["stable" if radius < 1.0 else "unstable" for radius in radii]
    assert step > 0.1 or verdicts == ["stable", "unstable"]


def test_after_its_source_nothing_is_late() -> None:
    moore = Adaptation(
        {"w": SPRING},
        (inp("x"), out("f")),
        in_rules=(Rule((Assign("s", "x"),), (Assign("w.x", "s"),)),),
        out_rules=(Rule((Assign("o", "w.f"),), (Assign("f", "o"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
        control=(Step("w"),),
        mealy=False,
    )
    found = judged(coupled(up.adapted(moore)), 0.03, coupling=up.GaussSeidel(("m", "k")))
    phi, gamma = over_step(0.03)
    by_hand = phi - 5.0 * np.outer(gamma, [1.0, 0.0])  # f(t) = -5·x(t): nothing is late in this order
    np.testing.assert_allclose(spectrum(found.matrix), spectrum(by_hand), rtol=1e-6)


def test_several_steps_inside() -> None:
    """Interpolated inputs over micro-steps, written out: four exact steps with held values."""
    filter_ = up.Ode({"x": "20*(u - x)"}, inputs=["u"], outputs=["x"])
    model = up.adapted(rated(filter_, 4))
    scenario = up.Scenario({"m": MASS, "k": model}, {"m.F": "-5*k.y", "k.u": "m.x"})
    step = 0.1
    found = judged(scenario, step, coupling=up.GaussSeidel(("m", "k")))
    phi, gamma = over_step(step)
    by_hand = np.zeros((4, 4))  # x, v, the filter, and the position one step before
    decay = 1.0 - (z := 20.0 * step / 4) + z**2 / 2 - z**3 / 6 + z**4 / 24  # RK4
    by_hand[:2, :2], by_hand[:2, 2] = phi, -5.0 * gamma
    by_hand[3] = by_hand[0]
    row = np.array([0.0, 0.0, 1.0, 0.0])
    for k in range(1, 5):
        value = np.array([0.0, 0.0, 0.0, 1.0]) * (1 - k / 4) + by_hand[0] * (k / 4)
        row = decay * row + (1.0 - decay) * value
    by_hand[2] = row
    np.testing.assert_allclose(spectrum(found.matrix), spectrum(by_hand), rtol=1e-5)


# What is stored and changes by itself.

GAIN = 0.9048375  # of a step of 0.1 s of x' = u - x, by the classical Runge-Kutta method


def scheduled(
    update: str | dict[str, str], gain: str, *, start: float = 0.0, loop: float = 8.0, kind: Kind = Kind.REAL
) -> up.Scenario:
    """x' = u - x with the feedback -`loop`·x, which is multiplied with a gain made of stored variables."""
    updates = {"n": update} if isinstance(update, str) else update
    lag = up.Ode({"x": "u - x"}, start={"x": 0.01}, inputs=["u"], outputs={"y": "x"})
    adapted = Adaptation(
        {"p": lag},
        (inp("u"), out("y")),
        in_rules=(Rule((Assign("s", "u"),), (Assign("p.u", f"({gain})*s"),)),),
        control=(*(Assign(to, value) for to, value in updates.items()), Step("p")),
        out_rules=(Rule((Assign("o", "p.y"),), (Assign("y", "o"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
        controls=tuple(Stored(name, start, kind) for name in updates),
        mealy=False,
    )
    return up.Scenario({"m": up.adapted(adapted)}, {"m.u": f"{-loop}*m.y"})


@pytest.mark.parametrize(
    ("update", "gain", "start"),
    [
        ("1 - n", "1 + 3*n", 0.0),
        ("1 - n", "1 + 3*n", 1.0),
        ("-n", "2.5 - 1.5*n", 1.0),
        ("0.5*n + 2", "n", 1.0),
        ("0.99*n + 0.05", "n", 0.1),
        ("min(n + 0.1, 4)", "n", 0.0),
        ("n + 0.001", "4*round(n) - 3", 1.0),
        ({"n": "1 - m", "m": "1 - m"}, "1 + 3*n", 0.0),
        ("n + 1", "4 if mod(n, 7) > 5 else 1", 0.0),
        ("0.99*n + 0.05 + 0*s", "n", 0.1),
    ],
)
def test_a_gain_that_changes_by_itself_decides_nothing_at_the_start(
    update: Any, gain: str, start: float
) -> None:
    found = up.stability_of(scheduled(update, gain, start=start), step=0.1, scan=False)
    assert found.verdict == "undecided"
    assert found.local


def test_who_changes_it_is_named() -> None:
    found = up.stability_of(scheduled("0.99*n + 0.05", "n", start=0.1), step=0.1, scan=False)
    assert "the adaptation changes m.n (register) by 0.0485 in a step, by itself" in str(found)
    flips = scheduled("not n", "4 if n else 1", start=False, kind=Kind.BOOLEAN)
    assert "from step to step" in str(up.stability_of(flips, step=0.1, scan=False))


def test_the_time_as_a_factor() -> None:
    found = up.stability_of(scheduled("n", "0.01*t", loop=2.0), step=0.1, scan=False)
    assert found.verdict == "undecided"
    assert "a factor in the adaptation of 'm' changes with the time" in str(found)


@pytest.mark.parametrize(("loop", "verdict"), [(2.0, "stable"), (8.0, "unstable")])
def test_where_all_that_is_stored_rests_too(loop: float, verdict: str) -> None:
    """n settles at 5: the matrix is diag(0.99, a - (1 - a)·5·loop)."""
    scenario = scheduled("0.99*n + 0.05", "n", start=0.1, loop=loop)
    found = up.stability_of(scenario, step=0.1, scan=False, at="rest")
    expected = max(0.99, abs(GAIN - (1.0 - GAIN) * 5.0 * loop))
    assert (found.verdict, found.local) == (verdict, True)
    assert found.spectral_radius == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("update", "radius", "verdict"),
    [("0.97*n + 1", 0.97, "stable"), ("1.1*n + 1", 1.1, "unstable"), ("1 - n", 1.0, "undecided")],
)
def test_what_is_only_added_has_its_eigenvalue(update: str, radius: float, verdict: str) -> None:
    lag = up.Ode({"x": "u - x"}, start={"x": 0.01}, inputs=["u"], outputs={"y": "x"})
    added = Adaptation(
        {"p": lag},
        (inp("u"), out("y")),
        in_rules=(Rule((Assign("s", "u"),), (Assign("p.u", "s + n"),)),),
        control=(Assign("n", update), Step("p")),
        out_rules=(Rule((Assign("o", "p.y"),), (Assign("y", "o"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
        controls=(Stored("n"),),
        mealy=False,
    )
    scenario = up.Scenario({"m": up.adapted(added)}, {"m.u": "-2*m.y"})
    judged_now = up.stability_of(scenario, step=0.1, scan=False)
    assert judged_now.verdict == verdict
    assert judged_now.spectral_radius == pytest.approx(radius, rel=1e-9)


@pytest.mark.parametrize(("value", "verdict"), [("4.0", "unstable"), ("1.0", "stable"), ("10*H", "stable")])
def test_what_is_the_same_in_all_steps_is_a_constant(value: str, verdict: str) -> None:
    found = up.stability_of(scheduled(value, "n", start=0.5), step=0.1, scan=False)
    assert (found.verdict, found.local) == (verdict, False)


def test_an_input_that_nobody_has_set_yet(tmp_path: Path) -> None:
    file = tmp_path / "periodic.sa"
    file.write_text(
        'semantic adaptation delayed moore A a\nfor inner fmu P p at "p.fmu" with input ports u with output '
        "ports y\ninput ports u\noutput ports y <- p.y\nperiodic every 0.5\n"
    )
    lag = up.Ode({"x": "u - x"}, inputs=["u"], outputs={"y": "x"})
    scenario = up.Scenario({"m": up.read_sa(file, {"p": lag})}, {"m.u": "1"})
    assert up.stability_of(scenario, step=0.1, scan=False).verdict == "undecided"


@pytest.mark.parametrize("seed", range(24))
def test_random_stored_gains_are_never_judged_wrongly(seed: int) -> None:
    """The judge is the recursion of x and n, by hand."""
    draw = np.random.default_rng(seed)
    a, b, c = (round(float(draw.uniform(*ends)), 3) for ends in ((-1.0, 1.0), (-1.0, 1.0), (0.2, 2.0)))
    update = str(
        draw.choice(
            [
                f"{a}*n + {b}",
                f"{a}*n*n + {b}",
                "1 - n",
                f"{c}",
                f"min(n + {c}, 3)",
                f"{b} if n > 0.5 else 1",
                "n",
            ]
        )
    )
    gain = str(draw.choice([f"{c} + {b}*n", "n", f"{c}", "round(n)", "4 if n > 0.5 else 1"]))
    start, loop = float(draw.choice([0.0, 1.0, c])), float(draw.choice([2.0, 8.0, 18.0]))
    found = up.stability_of(scheduled(update, gain, start=start, loop=loop), step=0.1, scan=False)
    x, n, early = 0.01, start, 0.0
    for k in range(800):
        n = float(eval(update, {"n": n, "min": min}))
        x *= GAIN - (1.0 - GAIN) * float(eval(gain, {"n": n, "round": round})) * loop
        early = max(early, abs(x)) if k < 200 else early
        if abs(x) > 1e60:
            break
    assert not (found.verdict == "stable" and abs(x) > early)
    assert not (found.verdict == "unstable" and abs(x) < 0.5 * early)


def sampled_loop(seed: int) -> tuple[up.Scenario, float, np.ndarray]:
    """A lag and a sampled PI controller, `every` around equations; and the map over a period, by hand."""
    turn = np.random.default_rng(seed)
    lag, h = turn.uniform(0.2, 1.0), 0.1
    kp, ki = turn.uniform(0.5, 14.0), turn.uniform(0.1, 4.0)
    plant = up.Ode({"x": f"(u - x)/{lag!r}"}, inputs=["u"], outputs=["x"], solver={"kind": "rk4", "step": h})
    control = up.Ode({"i": "w"}, inputs=["w"], outputs={"u": f"{ki!r}*i + {kp!r}*w"})
    units = {"p": plant, "c": up.adapted(control, f"every {h}")}
    z = -h / lag
    a = 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24
    # From sample to sample: x after the step, the integral with the last w, and w = -x.
    step = np.array([[a - (1 - a) * kp, (1 - a) * ki], [-h, 1.0]])
    return up.Scenario(units, {"p.u": "c.u", "c.w": "-p.x"}), h, step


@pytest.mark.parametrize("seed", range(6))
def test_every_around_equations_is_the_map_over_a_period(seed: int) -> None:
    scenario, h, by_hand = sampled_loop(seed)
    radius = float(max(abs(np.linalg.eigvals(by_hand))))
    for coupling in ("jacobi", "gauss_seidel"):
        found = up.stability_of(up.experiment(scenario, step=h, until=1.0, coupling=coupling), scan=False)
        assert abs(found.spectrum.values).max() == pytest.approx(radius, rel=1e-5)
        assert found.verdict == ("stable" if radius < 1 else "unstable")


@pytest.mark.parametrize("port", ["w", "u"])
@pytest.mark.parametrize(("count", "gain"), [(1, 3.0), (2, 2.0), (3, 2.2), (4, 4.0)])
def test_a_transport_delay_is_a_line_of_states(port: str, count: int, gain: float) -> None:
    h, lag = 0.1, 0.5
    plant = up.Ode({"x": f"(u - x)/{lag}"}, inputs=["u"], outputs=["x"], solver={"kind": "rk4", "step": h})
    factor = up.Function(["w"], {"u": f"{gain}*w"})
    late = up.adapted(factor, f"transport_delay {count * h!r} on {port} with points = {count}")
    scenario = up.Scenario({"p": plant, "c": late}, {"p.u": "c.u", "c.w": "-p.x"})
    z = -h / lag
    a = 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24
    line = np.eye(count + 1, k=-1)
    line[0, 0], line[0, count] = a, line[0, count] - (1 - a) * gain
    radius = float(max(abs(np.linalg.eigvals(line))))
    found = up.stability_of(up.experiment(scenario, step=h, until=1.0), scan=False)
    assert abs(found.spectrum.values).max() == pytest.approx(radius, rel=1e-4)
    assert found.verdict == ("stable" if radius < 1 else "unstable")
