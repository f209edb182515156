"""Answers of studies, against what is known: Sobol indices, spreads, fronts, optima, parameters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import upbeat as up
from upbeat.cli.main import main
from upbeat.explore.calibrate import calibrate
from upbeat.explore.gradients import with_tangents
from upbeat.explore.optimise import not_dominated
from upbeat.explore.words import of_calibration, of_robustness
from upbeat.explore.work import Work


def of_function(text: str, names: str, given: Any, outputs: Any = None, **more: Any) -> up.Study:
    """A study of a function of parameters."""
    unit = up.Function(outputs={"y": text}, parameters=dict.fromkeys(names, 0.1))
    made = up.experiment(up.Scenario({"f": unit}), step=1.0, until=1.0)
    vary = {f"f.{name}": given for name in names}
    return up.Study(made, vary, outputs or {"y": "final(f.y)"}, **{"samples": 8, **more})


def test_sobol_indices_of_a_sum_are_known() -> None:
    """y = 3a + b: shares 0.9 and 0.1, no interactions."""
    found = of_function("3*a + b + 0*c", "abc", {"uniform": [0, 1]}).sensitivity(
        "sobol", 1024, executor="here"
    )
    shares = {one.parameter: (one.first, one.total) for one in found["y"]}
    assert shares["f.a"] == pytest.approx((0.9, 0.9), abs=0.02)
    assert shares["f.b"] == pytest.approx((0.1, 0.1), abs=0.02)
    assert shares["f.c"] == pytest.approx((0.0, 0.0), abs=0.02)


def test_morris_effects_of_a_line_are_its_slopes() -> None:
    found = of_function("3*a - b", "ab", {"uniform": [0, 1]}).sensitivity("morris", 16, executor="here")
    effects = {one.parameter: (one.first, one.total, one.spread) for one in found["y"]}
    assert effects["f.a"] == pytest.approx((3.0, 3.0, 0.0), abs=1e-6)
    assert effects["f.b"] == pytest.approx((-1.0, 1.0, 0.0), abs=1e-6)


def test_morris_effects_of_what_has_no_ends_are_of_most_of_it() -> None:
    """y = x, normal: a jump over four of seven gaps between quantiles of 0.5 % … 99.5 %."""
    study = of_function("p", "p", {"normal": [0.0, 1.0]})
    (one,) = study.sensitivity("morris", 64, executor="here")["y"]
    levels = stats.norm.ppf(0.005 + 0.99 * np.arange(8) / 7)
    effects = (levels[4:] - levels[:4]) / (4 / 7)
    assert effects.min() <= one.total <= effects.max()
    assert one.first == pytest.approx(one.total)


def test_what_has_no_sensitivity_is_told() -> None:
    study = of_function("0*a + 1", "a", {"uniform": [0, 1]})
    assert "nothing matters" in study.sensitivity(samples=8, executor="here").notes[0]
    with pytest.raises(up.InvalidInput, match="independent"):
        replace(
            of_function("a + b", "ab", {"uniform": [0, 1]}), correlations=[["f.a", "f.b", 0.5]]
        ).sensitivity()
    with pytest.raises(up.InvalidInput, match="no method"):
        study.sensitivity("guess")


def test_the_spread_of_a_normal_number() -> None:
    study = of_function("a", "a", {"normal": [5, 2]}, samples=4000, design="random")
    spread = study.run("here").uncertainty()["y"]
    assert abs(spread.mean - 5.0) < 4 * spread.error
    assert spread.error == pytest.approx(2.0 / 4000**0.5, rel=0.05)
    value, low, high = spread.quantiles[0.95]
    assert low < 5 + 1.645 * 2 < high
    assert low < value < high
    assert spread.converged


def test_fronts_by_comparing_all_pairs() -> None:
    random = np.random.default_rng(4)
    for goals in (1, 2, 3):
        values = random.random((300, goals))
        better = (values[:, None] <= values).all(axis=2) & (values[:, None] < values).any(axis=2)
        assert sorted(not_dominated(values)) == np.flatnonzero(~better.any(axis=0)).tolist()
    assert not_dominated(np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0], [0.0, 3.0]])).tolist() == [2, 0]


def test_a_front_of_very_many_designs() -> None:
    """All of a line, which comparing pairs would need ten thousand million looks for."""
    falling = np.linspace(0.0, 1.0, 100_000)
    assert len(not_dominated(np.stack([falling, 1.0 - falling], axis=1))) == 100_000


def test_an_optimum_with_a_constraint() -> None:
    """The least (a - 0.7)² + (b - 0.2)² with a + b <= 0.5 is at the edge: (0.5, 0)."""
    outputs = {"y": "final(f.y)"}
    study = of_function("(a - 0.7)**2 + (b - 0.2)**2", "ab", {"from": 0, "to": 1}, outputs)
    free = study.optimise(minimise=["y"], evaluations=400)
    assert list(free.best.values()) == pytest.approx([0.7, 0.2], abs=1e-3)
    bound = study.optimise(minimise=["y"], subject=["`f.a` + `f.b` <= 0.5"], evaluations=800)
    assert bound.feasible
    assert list(bound.best.values()) == pytest.approx([0.5, 0.0], abs=0.02)
    impossible = study.optimise(minimise=["y"], subject=["`f.a` >= 2"], evaluations=50)
    assert not impossible.feasible
    with pytest.raises(up.InvalidInput, match="no output 'z'"):
        study.optimise(minimise=["z"])
    with pytest.raises(up.InvalidInput, match="is no constraint"):
        study.optimise(minimise=["y"], subject=["y < 3 maybe"])


def test_conditions_with_several_comparisons_are_several_constraints() -> None:
    """Each of them is kept to: the least of (a - 3)² + b is at an end of what they allow."""
    study = of_function("(a - 3)**2 + b", "ab", {"from": 0.0, "to": 5.0})
    for text, a, b in (("0.5 <= f.a <= 1", 1.0, 0.0), ("f.a <= 2 and f.b >= 0.5", 2.0, 0.5)):
        found = study.optimise(minimise=["y"], subject=[text], evaluations=600)
        assert found.feasible
        assert found.best == pytest.approx({"f.a": a, "f.b": b}, abs=2e-3)


def test_a_front_of_two_goals() -> None:
    """y = a² + b, z = (a - 1)² + b: the front is b = 0, where √y + √z = 1."""
    unit = up.Function(outputs={"y": "a**2 + b", "z": "(a - 1)**2 + b"}, parameters={"a": 0.5, "b": 0.5})
    made = up.experiment(up.Scenario({"f": unit}), step=1.0, until=1.0)
    ranges = {"f.a": {"from": -1, "to": 2}, "f.b": {"from": 0, "to": 1}}
    study = up.Study(made, ranges, {"y": "final(f.y)", "z": "final(f.z)"}, samples=8)
    found = study.optimise(minimise=["y", "z"], evaluations=1500)
    assert len(found.parameters) > 20
    assert np.abs(np.sqrt(found.objectives).sum(axis=1) - 1.0).max() < 0.1


DECAY = up.Ode(
    {"x": "-k*x + 0*q"},
    start={"x": 1.0},
    parameters={"k": 1.0, "c": 1.0, "q": 1.0},
    outputs={"y": "c*x", "x": "x"},
)
MADE = up.experiment(up.Scenario({"a": DECAY}), step=0.05, until=2.0)
TIMES = np.linspace(0.0, 2.0, 41)


def measured(k: float = 1.3, noise: float = 0.01, seed: int = 1) -> up.Trace:
    random = np.random.default_rng(seed)
    return up.Trace.from_arrays(TIMES, {"level": np.exp(-k * TIMES) + random.normal(0, noise, 41)})


def test_a_calibration_finds_what_was_put_in() -> None:
    found = calibrate(MADE, measured(), {"a.k": (0.5, 3.0)}, {"a.x": "level"}, 0.01)
    one = found.estimates["a.k"]
    assert one.low < 1.3 < one.high
    assert 0.7 < found.rms < 1.3
    assert found.converged
    assert not found.notes
    # the standard error by hand: 1/sqrt(Σ (t·exp(-kt)/σ)²)
    assert one.error == pytest.approx(
        found.rms / np.sqrt(((TIMES * np.exp(-1.3 * TIMES) / 0.01) ** 2).sum()), rel=0.1
    )


@pytest.mark.parametrize(
    ("sigma", "loss", "outliers"),
    [(None, "linear", 0.0), (None, "soft_l1", 0.1), (0.02, "cauchy", 0.1), (0.02, "huber", 0.1)],
)
def test_intervals_hold_the_truth_whatever_is_known_of_the_noise(
    sigma: float | None, loss: str, outliers: float
) -> None:
    """Two signals with noises of other sizes, perhaps with outliers: 95 % of intervals hold the truth, and
    are not much wider than those of a fit by all that could be known, without outliers."""
    made = up.experiment(
        up.Scenario({"a": up.Ode({"h": "1 - k*h", "T": "h - c*T"}, parameters={"k": 0.5, "c": 0.3})}),
        step=0.05,
        until=10.0,
    )
    truth, noise = {"a.k": 0.5, "a.c": 0.3}, {"a.h": 0.3, "a.T": 0.02}
    bounds = {"a.k": (0.1, 2.0), "a.c": (0.05, 1.0)}
    clean, times, random = made.run(), np.linspace(0.0, 10.0, 61), np.random.default_rng(5)
    inside, widths, least = 0, [], []
    for _ in range(40):
        pure = {name: clean.at(times, name) + random.normal(0.0, size, 61) for name, size in noise.items()}
        bad = {
            name: (random.random(61) < outliers) * random.normal(0.0, 15.0 * noise[name], 61)
            for name in noise
        }
        data = up.Trace.from_arrays(times, {name: pure[name] + bad[name] for name in noise})
        given = None if sigma is None else noise
        found = calibrate(made, data, bounds, sigma=given, loss=loss)
        best = calibrate(made, up.Trace.from_arrays(times, pure), bounds, sigma=noise)
        for name, value in truth.items():
            one = found.estimates[name]
            inside += one.low <= value <= one.high
            widths.append(one.error)
            least.append(best.estimates[name].error)
    assert inside >= 69  # of 80, of which 76 are expected: fewer happen once in a thousand
    assert np.mean(np.array(widths) / least) < 1.35


def test_what_json_has_no_word_for() -> None:
    """A parameter that nothing depends on has an endless interval."""
    found = calibrate(MADE, measured(), {"a.k": (0.5, 3.0), "a.q": (0.1, 2.0)}, {"a.x": "level"}, 0.01)
    told = json.loads(json.dumps(of_calibration(found)[0], allow_nan=False))
    assert told["estimates"]["a.q"][1:] == [None, None, None]


def test_several_experiments_at_once_know_more() -> None:
    one = calibrate(MADE, measured(), {"a.k": (0.5, 3.0)}, {"a.x": "level"}, 0.01)
    data = [measured(seed=seed) for seed in range(4)]
    four = calibrate(MADE, data, {"a.k": (0.5, 3.0)}, {"a.x": "level"}, 0.01)
    assert four.estimates["a.k"].error == pytest.approx(one.estimates["a.k"].error / 2, rel=0.3)


def test_what_data_cannot_tell_is_told() -> None:
    found = calibrate(MADE, measured(), {"a.k": (0.5, 3.0), "a.q": (0.1, 2.0)}, {"a.x": "level"}, 0.01)
    assert any("'a.q' cannot be found" in note for note in found.notes)
    assert found.estimates["a.q"].error == np.inf
    product = up.Ode({"x": "-k*c*x"}, start={"x": 1.0}, parameters={"k": 1.0, "c": 1.0})
    made = up.experiment(up.Scenario({"a": product}), step=0.05, until=2.0)
    both = calibrate(made, measured(), {"a.k": (0.5, 3.0), "a.c": (0.5, 3.0)}, {"a.x": "level"}, 0.01)
    assert any("cannot be told apart" in note or "hard to tell apart" in note for note in both.notes)
    bound = calibrate(MADE, measured(), {"a.k": (0.5, 1.0)}, {"a.x": "level"}, 0.01)
    assert any("lies at a bound" in note for note in bound.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameters": {"a.z": (0, 1)}}, "no value 'z'"),
        ({"parameters": {"a.k": (2, 1)}}, "needs bounds"),
        ({"parameters": {}}, "which parameters"),
        ({"signals": {"a.w": "level"}}, "no signal 'a.w'"),
        ({"signals": {"a.x": "levle"}}, "no column 'levle'"),
        ({"sigma": -1.0}, "must be a number above 0"),
    ],
)
def test_calibrations_that_cannot_be(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "parameters": {"a.k": (0.5, 3.0)},
        "signals": {"a.x": "level"},
        "sigma": 0.01,
    } | change
    with pytest.raises(up.InvalidInput, match=said):
        calibrate(MADE, measured(), **given)


def tangents_of(made: up.Experiment, keys: list[str], signals: list[str], at: list[float]) -> Any:
    """Derivatives of signals by numbers, at 21 times: through equations, or None."""
    found = with_tangents(made, keys)
    names = None if found is None else found.of(signals)
    if found is None or names is None:
        return None
    grid = tuple(np.linspace(made.span.start, made.span.stop, 21).tolist())
    work = Work(
        found.experiment, {key: (v, v + 0.1) for key, v in zip(keys, at, strict=True)}, {}, {}, names, grid
    )
    told = work.run({key: np.array([v]) for key, v in zip(keys, at, strict=True)})
    return told.samples[0].reshape(21, len(signals), len(keys))


def test_gradients_through_equations_of_a_decay() -> None:
    """x = x0·exp(-k·t), of which RK4 with this step is 1e-7 off."""
    k, x0, t = 1.3, 1.7, np.linspace(0.0, 2.0, 21)
    found = tangents_of(MADE, ["a.k", "a.x"], ["a.x"], [k, x0])[:, 0]
    assert found[:, 0] == pytest.approx(-t * x0 * np.exp(-k * t), abs=1e-6)
    assert found[:, 1] == pytest.approx(np.exp(-k * t), abs=1e-6)


BODY = up.Ode(
    {"x": "v", "v": "(F - k*x**3)/m"}, inputs=["F"], parameters={"m": 1.0, "k": 2.0}, start={"x": 1.0}
)
PAIR = up.Scenario(
    {
        "a": BODY,
        "b": BODY,
        "d": up.Function(inputs=["v", "w"], outputs={"F": "d*(v - w)"}, parameters={"d": 0.5}),
    },
    {"a.F": "-d.F", "b.F": "d.F + 0.1*a.x*b.x", "d.v": "a.v", "d.w": "b.v"},
)


@pytest.mark.parametrize(
    "settings", [{"coupling": up.GaussSeidel()}, {"coupling": up.Jacobi(), "inputs": "linear"}]
)
def test_gradients_of_a_co_simulation_are_those_of_its_steps(settings: dict[str, Any]) -> None:
    """Beside central differences of the very runs: the errors of large steps are in them, too."""
    made = up.experiment(PAIR, step=0.1, until=2.0, **settings)
    keys, at, signals = ["a.k, b.k", "a.m", "d.d", "b.x"], [2.0, 1.0, 0.5, 0.8], ["a.x", "b.v"]
    found = tangents_of(made, keys, signals, at)
    for k in range(len(keys)):
        ends = []
        for sign in (-1.0, 1.0):
            moved = [value + sign * 1e-5 * (place == k) for place, value in enumerate(at)]
            values = {name: v for key, v in zip(keys, moved, strict=True) for name in key.split(", ")}
            trace = made.with_values(values).run()
            ends.append(np.stack([trace.at(np.linspace(0.0, 2.0, 21), name) for name in signals], axis=1))
        assert found[:, :, k] == pytest.approx((ends[1] - ends[0]) / 2e-5, abs=1e-7)


def test_where_gradients_come_from() -> None:
    """Equations without events and tables; all else by differences, to the same values."""
    for name, more, bounds in (
        ("equations", {}, {}),
        ("differences", {"events": {"deep": {"when": "x <= 0.5", "then": {"x": "x"}}}}, {}),
        ("differences", {"solver": {"kind": "rk4", "step": "0.05/k"}}, {}),
        ("differences", {}, {"a.k": (0.5, 3.0), "master.step": (0.04, 0.06)}),
    ):
        unit = up.Ode({"x": "-k*x"}, start={"x": 1.0}, parameters={"k": 1.0}, **more)
        made = up.experiment(up.Scenario({"a": unit}), step=0.05, until=2.0)
        found = calibrate(made, measured(), bounds or {"a.k": (0.5, 3.0)}, {"a.x": "level"})
        assert found.gradients == name
        assert found.values["a.k"] == pytest.approx(1.3, abs=0.02)


def test_no_more_data_than_parameters_tell_nothing_of_noise() -> None:
    """x = x0·exp(-k·t): of one value only a combination shows, of two both do, without any noise to see; with
    a noise that is known, k from x(1) has the error sigma/x(1)."""
    one, two = (up.Trace.from_arrays(t, {"level": np.exp(-1.3 * np.array(t))}) for t in ([1.0], [1.0, 2.0]))
    both = {"a.k": (0.5, 3.0), "a.x": (0.5, 2.0)}
    found = calibrate(MADE, one, both, {"a.x": "level"}, sigma=0.01)
    assert {each.high for each in found.estimates.values()} == {np.inf}
    assert "a.k and a.x cannot be told apart by these data" in found.notes[0]
    blind = calibrate(MADE, two, both, {"a.x": "level"})
    assert {each.error for each in blind.estimates.values()} == {np.inf}
    assert "cannot be told" in blind.notes[0]
    seen = calibrate(MADE, one, {"a.k": (0.5, 3.0)}, {"a.x": "level"}, sigma=0.01)
    assert seen.estimates["a.k"].error == pytest.approx(0.01 / np.exp(-1.3), rel=1e-3)


def test_what_was_not_measured_tells_nothing() -> None:
    """Columns with gaps have the intervals of the values that are there."""
    full = measured()
    few = slice(None, None, 5)
    gaps = np.full(len(full.time), np.nan)
    gaps[few] = full["level"][few]
    settings: dict[str, Any] = {"parameters": {"a.k": (0.5, 3.0)}, "signals": {"a.x": "level"}}
    some = calibrate(MADE, up.Trace.from_arrays(full.time[few], {"level": gaps[few]}), **settings)
    with_gaps = calibrate(MADE, up.Trace.from_arrays(full.time, {"level": gaps}), **settings)
    assert with_gaps.estimates["a.k"] == pytest.approx(some.estimates["a.k"], rel=1e-6)
    assert with_gaps.rms == pytest.approx(some.rms, rel=1e-6)


def test_a_calibration_begins_in_the_deepest_of_several_valleys() -> None:
    swing = up.Scenario({"a": up.Ode({"x": "v", "v": "-k*x"}, start={"x": 1.0}, parameters={"k": 9.0})})
    made = up.experiment(swing, step=0.02, until=10.0)
    found = calibrate(made, made.run(), {"a.k": (1.0, 40.0)}, ["a.x"])
    assert found.values["a.k"] == pytest.approx(9.0, rel=1e-6)
    lost = calibrate(made, made.run(), {"a.k": (1.0, 40.0, 30.0)}, ["a.x"])  # a guess stays what it is
    assert abs(lost.values["a.k"] - 9.0) > 1.0
    assert any("valley" in note for note in lost.notes)


def test_searches_run_where_they_are_told_to() -> None:
    study = up.Study(MADE, {"a.k": {"from": 0.5, "to": 3.0}}, {"end": "final(a.x)"}, samples=8)
    seen = []
    for where in ({"executor": "here"}, {"workers": 2}, {"executor": "processes", "workers": 2}):
        found = study.optimise(minimise=["end"], evaluations=40, **where)
        assert len(found.results) == len(found.tried)
        seen.append(found.results["end"].tolist())
    assert seen[0] == seen[1] == seen[2]
    here, apart = (
        calibrate(MADE, measured(), {"a.k": (0.5, 3.0)}, {"a.x": "level"}, executor=one, workers=2)
        for one in ("here", "processes")
    )
    assert here.values == apart.values


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: s.sensitivity("sobol", 3), "take 2 or 4 samples"),
        (lambda s: s.sensitivity("morris", 1.5), "samples must be a whole number"),
        (lambda s: s.optimise(minimise="end"), r'minimise is a list of texts, such as \["end"\]'),
        (lambda s: s.optimise(minimise=["end"], subject=["end <= = 1"]), "is no constraint"),
        (lambda s: s.optimise(minimise=["end"], subject=["end < 1"]), "is no constraint"),
        (lambda s: s.optimise(minimise=["end"], subject=["end <= (0 <= 1)"]), "is no constraint"),
        (lambda s: s.optimise(minimise=["end"], subject=["end <= 1 or end >= 2"]), "is no constraint"),
        (lambda s: s.optimise(minimise=["end"], evaluations=1.5), "ten evaluations"),
        (lambda s: s.calibrate(measured(), {"a.x": "level"}, loss="huge"), "no loss 'huge'.*huber"),
        (lambda s: s.calibrate(measured(), {"a.x": "level"}, sigma="x"), "must be a number above 0, not 'x'"),
        (lambda s: s.calibrate(measured(), {"a.x": "level"}, {"a.y": 1.0}), "'a.y', which is not compared"),
        (
            lambda s: s.calibrate(measured(), {"a.x": "level", "a.y": "level"}, {"a.x": 1.0}),
            "sigma of 'a.y' is missing",
        ),
        (lambda s: s.calibrate(measured(), 3), "signals are a list of names"),
        (lambda s: s.run("here").uncertainty([2.0]), "between 0 and 1"),
        (lambda s: s.robustness({"a": {"a.k": 1.0}}), "'a.k' varies in the study"),
    ],
)
def test_questions_that_cannot_be(ask: Any, said: str) -> None:
    with pytest.raises(up.InvalidInput, match=said):
        ask(up.Study(MADE, {"a.k": {"from": 0.5, "to": 3.0}}, {"end": "final(a.x)"}, samples=8))


def test_few_runs_do_not_bound_a_quantile() -> None:
    """Of the least of n values 95 % of all may be below: no order statistic says more."""
    study = up.Study(MADE, {"a.k": {"uniform": [0.5, 3]}}, {"end": "final(a.x)"}, samples=16)
    quantiles = study.run("here").uncertainty((0.01, 0.5))["end"].quantiles
    assert quantiles[0.01][1] == -np.inf
    assert np.isfinite(quantiles[0.5]).all()


def test_a_conclusion_that_holds_and_one_that_does_not() -> None:
    study = up.Study(MADE, {"a.k": [0.5, 1.0, 2.0]}, {"end": "final(a.x)", "mean": "mean(a.x)"})
    found = study.robustness(executor="here")
    assert found.holds("end")
    turned = replace(study, outputs={"end": "final(a.y)", "low": "first(a.y < 0)"}).robustness(
        {"turned": {"a.c": -1.0}, "twice": {"a.c": 2.0}}, executor="here"
    )
    assert turned.compared["end"]["turned"][1:] == (pytest.approx(-1.0), False, 0)
    assert turned.compared["end"]["twice"][1:] == (pytest.approx(1.0), True, 0)
    assert not turned.holds("end")
    assert turned.compared["low"]["turned"].lost == 3
    assert not turned.holds("low")
    told = json.loads(json.dumps(of_robustness(turned)[0], allow_nan=False))
    assert told["low"]["masters"]["turned"] == {"change": None, "ranks": None, "same_best": False, "lost": 3}


def test_a_conclusion_about_other_designs_does_not_hold() -> None:
    """The best of 1000 designs becomes the worst, which ranks hardly see; ten have no value any more."""
    last = up.Function(
        outputs={"y": "sqrt(n - lose) + (2000 if n < swap else 0) - (2000 if n > top else 0)"},
        parameters={"n": 0.0, "swap": -1.0, "lose": 0.0, "top": 1e6},
    )
    made = up.experiment(up.Scenario({"a": last}), step=1.0, until=1.0)
    study = up.Study(made, {"a.n": list(range(1000))}, {"y": "final(a.y)"})
    masters = {"swap": {"a.swap": 0.5}, "lose": {"a.lose": 9.5}, "top": {"a.top": 998.5}}
    found = study.robustness(masters, executor="here")
    swap, lose, top = (found.compared["y"][name] for name in masters)
    assert top.ranks > 0.99
    assert not top.same_best  # of somebody who looks for the greatest
    assert swap.ranks > 0.99
    assert not swap.same_best
    assert lose[1:] == (pytest.approx(1.0), True, 10)
    assert not found.holds("y")


STUDY = """
units.a.states = { x = "-k*x" }
units.a.start = { x = 1.0 }
units.a.parameters = { k = 1.0 }
master = { step = 0.05 }
run = { until = 2.0 }
[study]
samples = 64
[study.vary]
a.k = { uniform = [0.5, 3] }
[study.outputs]
end = "final(a.x)"
some = "final(log(a.x - 0.1))"
"""


def test_uncertainty_and_robustness_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        STUDY
        + "[study.uncertainty]\nprobabilities = [0.5]\n"
        + "[study.robustness.masters]\nfine.master.step = 0.01\n"
    )
    assert main(["explore", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    # x(2) = exp(-2k), k uniform: the median is that of the median of k
    value, low, high = told["uncertainty"]["end"]["quantiles"]["0.5"]
    assert low < np.exp(-2 * 1.75) < high
    assert value == pytest.approx(np.exp(-2 * 1.75), rel=0.1)
    assert told["robustness"]["end"]["holds"] is True
    assert told["robustness"]["end"]["masters"]["fine"]["change"] < 1e-4
    assert main(["explore", str(path)]) == 0
    said = capsys.readouterr().out
    assert "mean ± standard error" in said
    assert "rank correlation" in said
    assert f"note: some has a value in {told['outputs']['some']['runs']} runs only" in said


def test_where_the_runs_of_answers_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, store, designs = tmp_path / "a.toml", tmp_path / "a.zarr", tmp_path / "designs.csv"
    path.write_text(STUDY + "[study.sensitivity]\nsamples = 8\n")
    assert main(["explore", str(path), "--out", str(store)]) == 0
    assert main(["explore", str(path), "--out", str(store)]) == 0  # which finds all of them
    assert xarray_runs(store) == 8 * 3
    path.write_text(STUDY + '[study.optimise]\nminimise = ["end"]\nevaluations = 40\n')
    assert main(["explore", str(path), "--save", str(designs)]) == 0
    assert len(designs.read_text().splitlines()) == 1 + 40
    capsys.readouterr()
    assert main(["explore", str(path), "--out", str(tmp_path / "b.zarr")]) == 3
    assert "--save FILE.csv writes the designs of optimise" in capsys.readouterr().err


def xarray_runs(store: Path) -> int:
    xarray = pytest.importorskip("xarray")
    with xarray.open_zarr(store, consolidated=False) as found:
        return int(found.sizes["run"])


def test_answers_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "data.csv").write_text("time,level\n" + "".join(f"{t},{np.exp(-1.3 * t)}\n" for t in TIMES))
    (tmp_path / "a.toml").write_text(
        """
        units.a.states = { x = "-k*x" }
        units.a.start = { x = 1.0 }
        units.a.parameters = { k = 1.0 }
        master = { step = 0.05 }
        run = { until = 2.0 }
        [study]
        samples = 16
        [study.vary]
        a.k = { from = 0.5, to = 3 }
        [study.outputs]
        end = "final(a.x)"
        [study.sensitivity]
        samples = 16
        [study.optimise]
        minimise = ["end"]
        evaluations = 40
        [study.calibrate]
        measured = "data.csv"
        signals = { "a.x" = "level" }
        """
    )
    words = ["explore", str(tmp_path / "a.toml"), "--workers", "1"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["calibrate"]["estimates"]["a.k"][0] == pytest.approx(1.3, abs=1e-3)
    assert told["optimise"]["designs"][0][0] == pytest.approx(3.0, abs=0.01)
    assert main([*words, "--plots", str(tmp_path / "pictures")]) == 0
    assert "calibrated with" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {
        "tornado_end.png",
        "designs.png",
        "residuals.png",
    }
