"""Derivatives of outputs that FMUs tell after their steps: extra ports, and what `Hermite` makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from fmu_maker import make
from fmu_models import MODELS
from upbeat.units.fmi.unit import PackableFmuUnit

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


def port(model: up.Fmu, name: str) -> Any:
    return next(p for p in model.ports if p.name == name)


def unit_of(model: up.Fmu) -> PackableFmuUnit:
    unit = model.instantiate("one", 0.0)
    assert isinstance(unit, PackableFmuUnit)
    return unit


@BOTH
def test_they_are_extra_ports(fmu: Made, version: int) -> None:
    model = up.Fmu(fmu("linear", version))
    assert port(model, "y").derivative == "der(y)"
    found = port(model, "der(y)")
    assert (found.extra, found.derivative, found.depends) == (True, None, frozenset())
    assert [p.name for p in up.Fmu(fmu("linear", version), interface="model-exchange").ports if p.extra] == []
    assert [p.name for p in up.Fmu(fmu("bare", version)).ports if p.extra] == []


@BOTH
def test_names_that_are_taken_stay_what_they_are(version: int, tmp_path: Path) -> None:
    known = MODELS["linear", version]
    named = tuple(replace(v, name="der(y)") if v.name == "d" else v for v in known.variables)
    model = up.Fmu(make(replace(known, variables=named), version, tmp_path))
    assert port(model, "y").derivative is None
    assert not port(model, "der(y)").extra


@BOTH
def test_nobody_knows_them_before_the_first_step(fmu: Made, version: int) -> None:
    """y = 3 x + u / 2, x' = -2 x + u, x(0) = 1: with u = 0, y' = -6 exp(-2 t)."""
    unit = unit_of(up.Fmu(fmu("linear", version)))
    assert math.isnan(unit.get("der(y)"))  # type: ignore[arg-type]
    unit.advance(0.0, 0.5)
    assert unit.get("der(y)") == pytest.approx(-6 * math.exp(-1.0), rel=1e-6)
    there = unit.save()
    unit.set("u", (4.0,))  # tells nothing about the step that has been done
    assert unit.get("der(y)") == pytest.approx(-6 * math.exp(-1.0), rel=1e-6)
    unit.advance(0.5, 1.0)
    later = unit.get("der(y)")
    unit.restore(unit.from_bytes(unit.to_bytes(there)))
    assert unit.get("der(y)") == pytest.approx(-6 * math.exp(-1.0), rel=1e-6)
    unit.set("u", (4.0,))
    unit.advance(0.5, 1.0)
    assert unit.get("der(y)") == later
    unit.close()


@BOTH
def test_they_can_be_asked_for_late(fmu: Made, version: int) -> None:
    unit = unit_of(up.Fmu(fmu("linear", version)))
    unit.advance(0.0, 0.5)
    assert unit.get("der(y)") == pytest.approx(-6 * math.exp(-1.0), rel=1e-6)
    unit.close()


@BOTH
def test_connections_and_what_is_recorded(fmu: Made, version: int, engine: str) -> None:
    """The gain keeps its start value, 0.25, until there is a derivative."""
    units = {
        "one": up.Fmu(fmu("linear", version)),
        "two": up.Fmu(fmu("gain", version), parameters={"u": 0.25}),
    }
    scenario = up.Scenario(units, {"two.u": "`one.der(y)` / 2"}, outputs={"rate": "`one.der(y)`"})
    trace = up.simulate(scenario, pace=0.1, until=0.5, engine=engine)  # type: ignore[arg-type]
    assert "one.der(y)" not in trace.names
    assert math.isnan(trace["rate"][0])
    assert trace["two.y"][0] == 0.5
    exact = [-6 * math.exp(-2 * t) for t in trace.time[1:]]
    assert list(trace["rate"][1:]) == pytest.approx(exact, rel=1e-6)
    assert list(trace["two.y"][1:]) == pytest.approx(exact, rel=1e-6)
    chosen = up.simulate(scenario, pace=0.1, until=0.5, record=["one.der(y)"], engine=engine)  # type: ignore[arg-type]
    assert list(chosen["one.der(y)"][1:]) == pytest.approx(exact, rel=1e-6)


@BOTH
def test_nobody_asks_for_what_is_not_used(fmu: Made, version: int, engine: str) -> None:
    """This FMU says that it has derivatives, and does not have the function."""
    model = up.Fmu(fmu("hollow", version), rollback="never")
    up.simulate(up.Scenario({"one": model}), pace=0.1, until=0.5, engine=engine)  # type: ignore[arg-type]
    scenario = up.Scenario({"one": model}, outputs={"rate": "`one.der(y)`"})
    with pytest.raises(up.UnitError, match=r"OutputDerivatives"):
        up.simulate(scenario, pace=0.1, until=0.5, engine=engine)  # type: ignore[arg-type]


def _follower() -> up.Ode:
    """z' = u: z(1) is the integral of what the input was over time."""
    return up.Ode(states={"z": "u"}, inputs={"u": 0.0}, outputs={"w": "z"})


@pytest.mark.supports(
    "fmi2", "Output derivatives", "extra ports `der(y)`, for connections and `Hermite` inputs"
)
@pytest.mark.supports(
    "fmi3", "Output derivatives", "extra ports `der(y)`, for connections and `Hermite` inputs"
)
@BOTH
@pytest.mark.parametrize("coupling", ["jacobi", "gauss_seidel"])
def test_hermite(fmu: Made, version: int, coupling: str, engine: str) -> None:
    """The integral of y = 3 exp(-2 t): the first step is held (or a chord), the second a line; then cubics"""
    units = {"one": up.Fmu(fmu("linear", version)), "two": _follower()}
    scenario = up.Scenario(units, {"two.u": "one.y"})

    def z(h: float, **more: Any) -> Any:
        settings = {"inputs": up.Hermite(), "coupling": coupling} | more
        trace = up.simulate(scenario, pace=h, until=1.0, engine=engine, **settings)  # type: ignore[arg-type]
        return trace["two.w"]

    def y(t: float) -> float:
        return 3 * math.exp(-2 * t)

    def exact(a: float, b: float) -> float:
        return (y(a) - y(b)) / 2

    h = 0.01
    found = z(h)
    if coupling == "jacobi":
        assert found[1] == pytest.approx(h * y(0.0), rel=1e-9)
        assert found[2] - found[1] == pytest.approx(h * y(h) - h * h / 2 * 2 * y(h), rel=1e-6)
        assert found[-1] - found[2] == pytest.approx(exact(2 * h, 1.0), rel=1e-5)
    else:
        assert found[1] == pytest.approx(h * (y(0.0) + y(h)) / 2, rel=1e-9)
        assert found[-1] - found[1] == pytest.approx(exact(h, 1.0), rel=1e-9)


def test_events_make_them_unknown(engine: str, tmp_path: Path) -> None:
    """u goes from 0 to 1 at 0.5, in event mode: what was told before the event does not hold after it."""
    known = MODELS["linear", 3]
    variables = tuple(replace(v, variability="discrete") if v.name == "u" else v for v in known.variables)
    path = make(replace(known, variables=variables, event_mode=True), 3, tmp_path)
    source = up.Function(outputs={"y": "1 if time >= 0.5 else 0"})
    scenario = up.Scenario(
        {"one": up.Fmu(path), "source": source}, {"one.u": "source.y"}, outputs={"rate": "`one.der(y)`"}
    )
    trace = up.simulate(scenario, pace=0.1, until=1.0, engine=engine)  # type: ignore[arg-type]
    unknown = [t for t, rate in zip(trace.time, trace["rate"], strict=True) if math.isnan(rate)]
    assert unknown == [0.0, 0.5]
    x = math.exp(-2 * 0.5) * math.exp(-1.0) + 0.5 * (1 - math.exp(-1.0))
    assert trace["rate"][-1] == pytest.approx(3 * (-2 * x + 1), rel=1e-6)


@BOTH
def test_events_are_seen_coming_by_them(fmu: Made, version: int, engine: str) -> None:
    """3 exp(-2 t) = 1 at t = ln(3)/2. They are known from the first step on."""
    scenario = up.Scenario({"one": up.Fmu(fmu("linear", version))}, events={"low": {"when": "one.y <= 1"}})
    settings: Any = {"pace": up.LookAhead(0.2), "until": 1.0, "engine": engine}
    trace = up.simulate(scenario, **settings)
    assert trace.events.times("low") == pytest.approx([math.log(3) / 2], abs=2e-4)
    assert next(step.reason for step in trace.steps) == "first step"
    assert "one.der(y)" not in trace.names
    told = up.explain(up.experiment(scenario, **settings))
    assert "event 'low' is predicted from values and rates" in told
