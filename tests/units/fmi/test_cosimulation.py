"""Co-simulation with FMUs that have events, clocks and oddities, on both engines, against closed forms."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from fmu_maker import COMPILER, make
from fmu_models import MODELS, bounces, height
from upbeat.engine.formats.fmus import fmu_experiment
from upbeat.trace.trace import read
from upbeat.units.fmi.unit import PackableFmuUnit

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


def alone(model: up.Fmu, engine: str, **settings: Any) -> up.Trace:
    return up.simulate(up.Scenario({"one": model}), engine=engine, **settings)  # type: ignore[arg-type]


def unit_of(model: up.Fmu, start: float = 0.0) -> PackableFmuUnit:
    unit = model.instantiate("one", start)
    assert isinstance(unit, PackableFmuUnit)
    return unit


# -------------------------------------------------------------------- time


@BOTH
@pytest.mark.supports("fmi2", "Co-simulation", "on both engines; times are multiples of the step, never sums")
@pytest.mark.supports("fmi3", "Co-simulation", "on both engines; times are multiples of the step, never sums")
def test_time_is_never_summed(fmu: Made, version: int, engine: str) -> None:
    trace = alone(up.Fmu(fmu("summer", version)), engine, pace=0.1, until=100.0)
    assert trace["one.steps"][-1] == 1000
    assert list(trace["one.last_t"][1:]) == [k * 0.1 for k in range(1000)]
    assert trace["one.sum"][-1] == pytest.approx(100.0)


@BOTH
def test_steps_of_no_length_are_not_passed_on(fmu: Made, version: int) -> None:
    unit = unit_of(up.Fmu(fmu("summer", version)))
    assert unit.advance(0.0, 0.0) == 0.0
    assert unit.get("steps") == 0
    assert unit.advance(0.0, 0.5) == 0.5
    assert unit.advance(0.5, 0.5) == 0.5
    assert (unit.get("steps"), unit.get("last_h")) == (1, 0.5)
    unit.close()
    unit.close()


@BOTH
def test_initialization_mode_lasts_until_time_passes(fmu: Made, version: int) -> None:
    """So that loops can be solved at the start: what is set there counts at once."""
    unit = unit_of(up.Fmu(fmu("linear", version), parameters={"x": 2.0}))
    assert unit.get("y") == 6.0
    unit.set("u", [4.0])
    assert unit.get("y") == 8.0
    unit.close()


# -------------------------------------------------------------------- events


@pytest.mark.parametrize(("name", "version"), [("ball", 2), ("ball", 3), ("inside", 3)])
def test_a_ball(fmu: Made, name: str, version: int, engine: str) -> None:
    """Its events lie between communication points, and are gone through inside the step."""
    trace = alone(up.Fmu(fmu(name, version)), engine, pace=0.1, until=3.0)
    np.testing.assert_allclose(trace["one.h"], [height(t) for t in trace.time], atol=1e-9)
    assert trace["one.bounces"][-1] == len(bounces(3.0))


@pytest.mark.supports("fmi3", "Events in co-simulation", "event mode, early return, next event times")
@pytest.mark.parametrize("coupling", [up.Negotiated(), up.Interruptible()], ids=lambda c: type(c).__name__)
def test_a_ball_whose_bounces_are_communication_points(fmu: Made, engine: str, coupling: Any) -> None:
    trace = alone(up.Fmu(fmu("ball", 3)), engine, pace=0.1, until=2.0, coupling=coupling)
    expected = bounces(2.0)
    for t, v in expected:  # the second time the FMU may find its root a hair later
        row = np.flatnonzero(np.abs(np.asarray(trace.time) - t) < 1e-9)[-1]
        assert trace["one.v"][row] == pytest.approx(v, abs=1e-9)


def test_time_events_bound_the_steps(fmu: Made, engine: str) -> None:
    trace = alone(up.Fmu(fmu("stairs", 3)), engine, pace=0.1, until=1.1)
    times = np.asarray(trace.time)
    for t in (0.25, 0.75):
        assert t in times
    assert list(trace.one_sided()["one.count"]) == [math.floor(t / 0.25 + 1e-9) for t in np.unique(times)]
    for k in (1, 2, 3, 4):  # in event mode it has a value before and one after
        assert (trace.at(0.25 * k, "one.count", side="left"), trace.at(0.25 * k, "one.count")) == (k - 1, k)
    assert list(trace["one.y"]) == [1.5 * count for count in trace["one.count"]]


def test_a_next_event_that_is_past_is_none(fmu: Made, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """After three stairs the FMU goes on to name the time of the first one."""
    scenario = up.Scenario({"one": up.Fmu(fmu("stale", 3)), "ball": up.Fmu(fmu("ball", 3))})
    with caplog.at_level(logging.WARNING, "upbeat.fmu"):  # the ball's events make for more updates
        trace = up.simulate(scenario, pace=0.1, until=2.0, engine=engine)  # type: ignore[arg-type]
    assert trace["one.count"][-1] == 3
    (record,) = caplog.records
    assert (
        record.getMessage() == "its next event would be at t = 0.25, which is past at t = 0.75: taken as none"
    )
    assert (record.name, record.time) == ("upbeat.fmu.one", 0.75)


def test_without_instants_events_are_gone_through_all_the_same(fmu: Made) -> None:
    unit = unit_of(up.Fmu(fmu("stairs", 3)))
    assert unit.due() == 0.0
    assert unit.advance(0.0, 0.6) == 0.6
    assert unit.get("count") == 2
    assert unit.due() == 0.75
    assert unit.advance(0.6, 0.9, early=True) == 0.75
    assert unit.due() == 0.75
    assert unit.get("count") == 2
    assert unit.jump() is False
    assert unit.get("count") == 3
    assert unit.due() == 1.0
    unit.close()


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_discrete_inputs_are_events(engine: str, tmp_path: Path) -> None:
    """u goes from 0 to 1 at 0.5: x' = -2 x + u. In step mode such an input may not be set."""
    known = MODELS["linear", 3]
    variables = tuple(replace(v, variability="discrete") if v.name == "u" else v for v in known.variables)
    path = make(replace(known, variables=variables, event_mode=True), 3, tmp_path)
    source = up.Function(outputs={"y": "1 if time >= 0.5 else 0"})
    scenario = up.Scenario({"one": up.Fmu(path, locals=["x"]), "source": source}, {"one.u": "source.y"})
    trace = up.simulate(scenario, pace=0.1, until=1.0, engine=engine)
    for t, x in zip(trace.time, trace["one.x"], strict=True):
        since = max(0.0, t - 0.5)
        there = math.exp(-2 * min(t, 0.5))
        assert x == pytest.approx(
            0.5 * (t > 0.5) + (there - 0.5 * (t > 0.5)) * math.exp(-2 * since), rel=1e-8
        )


# -------------------------------------------------------------------- clocks


@pytest.mark.supports("fmi3", "Clocks in co-simulation", "periodic and triggered")
def test_clocks_that_tick_by_themselves(fmu: Made, engine: str) -> None:
    """`tick` every 0.1 from the start on, `wait` 0.15, 0.30, 0.45 later; `alarm` with each third tick."""
    trace = alone(up.Fmu(fmu("clocks", 3)), engine, pace=0.5, until=1.0)
    found = {round(t, 9): row for row, t in enumerate(trace.time)}
    for k in range(11):
        row = found[round(k * 0.1, 9)]
        assert trace["one.ticks"][row] == k + 1
        assert trace["one.told"][row] == (k + 1) // 3
    waits = {0.15: 1, 0.45: 2, 0.9: 3}
    for t, count in waits.items():
        assert trace["one.waits"][found[t]] == count
    alarms = [event.time for event in trace.events if event.name == "one.alarm"]
    assert alarms == pytest.approx([0.2, 0.5, 0.8])


@pytest.mark.supports("fmi3", "Clocks in co-simulation", "periodic and triggered")
def test_clocks_that_are_triggered(fmu: Made, engine: str) -> None:
    """Every 0.3 the input is taken over; in between it changes without an effect."""
    scenario = up.Scenario(
        {
            "one": up.Fmu(fmu("clocks", 3)),
            "ramp": up.Function(outputs={"y": "10*time"}),
            "beat": up.Clock(every=0.3, offset=0.3),
        },
        {"one.hit": {"event": "beat.tick"}, "one.u": "ramp.y"},
    )
    trace = up.simulate(scenario, pace=0.05, until=1.0, engine=engine)
    trace = trace.one_sided()
    for t, held in zip(trace.time, trace["one.held"], strict=True):
        assert held == pytest.approx(10 * 0.3 * math.floor(t / 0.3 + 1e-9), abs=1e-9)


def test_an_output_clock_that_depends_on_what_an_input_clock_brings(fmu: Made, engine: str) -> None:
    """`hit` brings 150 at 0.15: there `alarm` ticks, too, and each third `tick` as ever."""
    scenario = up.Scenario(
        {
            "one": up.Fmu(fmu("clocks", 3)),
            "ramp": up.Function(outputs={"y": "1000*time"}),
            "beat": up.Clock(every=10.0, offset=0.15),
        },
        {"one.hit": {"event": "beat.tick"}, "one.u": "ramp.y"},
    )
    trace = up.simulate(scenario, pace=0.05, until=0.25, engine=engine)
    assert [e.time for e in trace.events if e.name == "one.alarm"] == pytest.approx([0.15, 0.2])
    assert trace["one.told"][-1] == 2


# -------------------------------------------------------------------- inputs in motion


@pytest.mark.parametrize(
    ("name", "version", "least", "most"),
    [("linear", 2, 0.0, 1e-6), ("smooth", 3, 1e-3, 3e-3), ("linear", 3, 1e-2, 3e-2)],
)
def test_inputs_that_move(fmu: Made, name: str, version: int, least: float, most: float, engine: str) -> None:
    """u = t: x' = -2 x + t from 1 has x = (2t - 1)/4 + 5/4 e^-2t.

    FMI 2 is told the slope; `smooth` asks ten times a step and holds u in between; the last one holds it for
    the whole step, which is ten times worse.
    """
    scenario = up.Scenario(
        {"one": up.Fmu(fmu(name, version), locals=["x"]), "ramp": up.Ode({"y": "1"}, start={"y": 0.0})},
        {"one.u": "ramp.y"},
    )
    settings: dict[str, Any] = {"pace": 0.1, "until": 1.0, "engine": engine, "inputs": "linear"}
    trace = up.simulate(scenario, **settings)
    t = np.asarray(trace.time)
    x = (2 * t - 1) / 4 + 1.25 * np.exp(-2 * t)
    # The first step has no past to draw a line through: there u is held, and what that does fades away.
    first = trace["one.x"][1] - x[1]
    error = np.abs(np.asarray(trace["one.x"])[1:] - x[1:] - first * np.exp(-2 * (t[1:] - t[1])))
    assert least <= error.max() < most


# -------------------------------------------------------------------- state


@BOTH
def test_states(fmu: Made, version: int) -> None:
    unit = unit_of(up.Fmu(fmu("linear", version)))
    begun = unit.save()
    unit.set("u", [1.0])
    unit.advance(0.0, 0.1)
    middle = unit.save()
    unit.advance(0.1, 0.2)
    end = unit.get("y")
    data = unit.to_bytes(middle)
    for token in (middle, unit.from_bytes(data)):
        unit.restore(token)
        assert unit.time == 0.1
        unit.advance(0.1, 0.2)
        assert unit.get("y") == end
    unit.restore(begun)
    assert unit.get("y") == 3.0
    other = unit_of(up.Fmu(fmu("linear", version)))
    other.restore(other.from_bytes(data))
    other.advance(0.1, 0.2)
    assert other.get("y") == end
    for broken in (b"", data[:-1], data + b"x", b"\xff" * len(data)):
        with pytest.raises((up.ModelError, up.UpbeatError)):
            other.from_bytes(broken)
    unit.close()
    other.close()


def test_the_state_of_clocks(fmu: Made) -> None:
    unit = unit_of(up.Fmu(fmu("clocks", 3)))
    unit.advance(0.0, 0.32)
    token = unit.save()
    data = unit.to_bytes(token)
    unit.advance(0.32, 0.77)
    there = [unit.get(name) for name in ("ticks", "waits", "told")]
    assert there == [8, 2, 2]
    for again in (token, unit.from_bytes(data)):
        unit.restore(again)
        assert (unit.get("ticks"), unit.due()) == (4, pytest.approx(0.4))
        unit.advance(0.32, 0.77)
        assert [unit.get(name) for name in ("ticks", "waits", "told")] == there
    unit.close()


@BOTH
def test_steps_that_are_rejected(fmu: Made, version: int, engine: str) -> None:
    """Error control sets FMUs back: the ring a' = -2 a + b, b' = -2 b - a from 1, 1 turns and decays."""
    models = {name: up.Fmu(fmu("linear", version), parameters={"c": 1.0, "d": 0.0}) for name in "ab"}
    scenario = up.Scenario(models, {"a.u": "b.y", "b.u": "-a.y"})
    trace = up.simulate(scenario, pace=up.ErrorControl(1e-3), until=1.0, inputs="linear", engine=engine)
    t = np.asarray(trace.time)
    np.testing.assert_allclose(trace["a.y"], np.exp(-2 * t) * (np.cos(t) + np.sin(t)), atol=2e-2)


@pytest.mark.supports("fmi3", "Adjoint derivatives", "where there are no directional ones")
def test_slopes_row_by_row(fmu: Made, engine: str) -> None:
    """p = 0.5 (1 + q), q = -2 p: p = 0.25. This FMU has adjoint derivatives only."""
    half = up.Fmu(fmu("rows", 3), parameters={"k": 0.5})
    unit = unit_of(half)
    assert list(unit.slope("y", "u")) == [0.5]
    unit.close()
    scenario = up.Scenario({"p": half, "q": half.with_values({"k": -2.0})}, {"p.u": "1 + q.y", "q.u": "p.y"})
    coupling = up.Jacobi(loops=up.Newton(slopes="units"))
    trace = up.simulate(scenario, pace=0.5, until=1.0, coupling=coupling, engine=engine)
    np.testing.assert_allclose(trace["p.y"], 0.25, rtol=1e-12)


@BOTH
def test_slopes(fmu: Made, version: int) -> None:
    unit = unit_of(up.Fmu(fmu("linear", version), parameters={"d": 0.25}))
    assert list(unit.slope("y", "u")) == [0.25]
    unit.close()


# -------------------------------------------------------------------- oddities


@BOTH
@pytest.mark.supports("fmi2", "Discarded steps", "continued from the last successful time")
def test_steps_in_part(fmu: Made, version: int, engine: str) -> None:
    """It does at most 0.03 of a step: x' = -x from 1."""
    trace = alone(up.Fmu(fmu("partial", version)), engine, pace=0.1, until=1.0)
    assert trace["one.y"][-1] == pytest.approx(math.exp(-1.0), rel=1e-9)
    trace = alone(up.Fmu(fmu("partial", version)), engine, pace=0.1, until=1.0, coupling=up.Negotiated())
    np.testing.assert_allclose(trace["one.y"], np.exp(-np.asarray(trace.time)), rtol=1e-9)
    assert len(trace.time) == (41 if version == 2 else 11)  # FMI 3: it must declare that it stops early


@BOTH
@pytest.mark.parametrize(
    ("name", "what", "rows"),
    [
        ("stuck", "refused the step from 0 to 0.1 and did not move at all (try a smaller step", 1),
        ("fail", "failed", 6),
        ("doom", "fatal", 6),
        ("pend", "asynchronous steps are not supported", 6),
    ],
)
@pytest.mark.supports("fmi2", "Asynchronous steps (`fmi2Pending`)", "no: refused in words")
def test_what_ends_a_run(
    fmu: Made, name: str, what: str, rows: int, version: int, engine: str, tmp_path: Path
) -> None:
    """The results so far are kept; after "fatal" nothing is called, or it would abort this process."""
    if (name, version) == ("pend", 3):
        pytest.skip("FMI 3 has no such answer")
    path = tmp_path / "its.fmu"  # a library of its own: a fatal one stays doomed
    path.write_bytes(fmu(name, version).read_bytes())
    with pytest.raises(up.UnitError) as caught:
        alone(up.Fmu(path), engine, pace=0.1, until=1.0)
    assert what in str(caught.value)
    assert "unit 'one' failed in advance(" in str(caught.value)
    assert caught.value.trace is not None
    assert len(caught.value.trace.time) == rows


@BOTH
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.supports("fmi2", "Fatal errors", "no further call to any instance of the same library")
@pytest.mark.supports("fmi3", "Fatal errors", "no further call to any instance of the same library")
def test_a_fatal_error_ends_all_instances(
    fmu: Made, version: int, cores: int, engine: str, tmp_path: Path
) -> None:
    """Any call afterwards, even free, would abort this process; only the one that failed is blamed."""
    if (engine, cores) == ("interpret", 2):
        pytest.skip("threads belong to the native engine")
    path, results = tmp_path / "its.fmu", tmp_path / "results.csv"
    path.write_bytes(fmu("doom", version).read_bytes())
    well = up.Fmu(path, isolation="none").with_values({"at": 100.0})
    units = {"one": well, "bad": up.Fmu(path, isolation="none"), "two": well, "three": well}
    with pytest.raises(up.UnitError, match=rf"failed in advance\(0\.5, 0\.6\).*fmi{version}DoStep") as caught:
        up.simulate(up.Scenario(units), pace=0.1, until=1.0, engine=engine, cores=cores, out=results)
    assert (caught.value.unit, caught.value.time) == ("bad", 0.5)
    assert caught.value.trace is not None
    assert len(caught.value.trace.time) == len(read(results).time) == 6
    with pytest.raises(up.UnitError, match=r"cannot be instantiated: .* isolation = \"process\""):
        alone(well, engine, pace=0.1, until=1.0)


def test_one_instance_per_process(fmu: Made, engine: str) -> None:
    model = up.Fmu(fmu("once", 2), isolation="none")
    with pytest.raises(up.UnitError, match="only once per process"):
        up.simulate(up.Scenario({"one": model, "two": model}), pace=0.1, until=0.2, engine=engine)
    for _ in range(2):  # one after the other is fine
        assert alone(model, engine, pace=0.1, until=0.2)["one.y"][-1] == pytest.approx(math.exp(-0.2))


# -------------------------------------------------------------------- kinds of variables


@BOTH
@pytest.mark.supports("fmi2", "All types of variables")
@pytest.mark.supports("fmi3", "All types of variables")
def test_every_type(fmu: Made, version: int, engine: str) -> None:
    model = up.Fmu(fmu("types", version))
    values: dict[str, Any] = {"float64_in": 1.5, "int32_in": -7, "boolean_in": True}
    values |= {"string_in": "größer", "enumeration_in": "fast"}
    if version == 3:
        values |= {
            "float32_in": 0.5,
            "int8_in": -128,
            "uint8_in": 255,
            "int16_in": -(2**15),
            "binary_in": "00ff00",
        }
        values |= {
            "uint16_in": 2**16 - 1,
            "uint32_in": 2**32 - 1,
            "int64_in": -(2**63),
            "uint64_in": 2**63 - 1,
        }
    trace = alone(model.with_values(values), engine, pace=0.5, until=1.0)
    for name, value in values.items():
        out = f"one.{name.removesuffix('_in')}_out"
        assert trace[out][-1] == (7 if value == "fast" else value)


def test_values_out_of_range(fmu: Made) -> None:
    model = up.Fmu(fmu("types", 3))
    for name, value, what in (
        ("int8_in", 128, "holds -128 to 127"),
        ("uint32_in", -1, "holds 0 to"),
        ("uint64_in", 2**63, "64 bits"),
        ("enumeration_in", "faster", "cannot be 'faster'"),
        ("enumeration_in", 2, "cannot be 2: the values are off = 1, slow = 3, fast = 7"),
        ("binary_in", "xyz", "hexadecimal"),
        ("boolean_in", 2, "is boolean, but was given 2"),
    ):
        with pytest.raises(up.ModelError, match=what):
            model.with_values({name: value})


@pytest.mark.supports("fmi3", "Arrays", "sized by structural parameters")
def test_arrays_and_their_sizes(fmu: Made, engine: str) -> None:
    """x' = -x + u (u3 = 0) from 1, 2, 3: the first two are where they stay."""
    model = up.Fmu(fmu("space", 3), locals=["x"]).with_values({"n": 3, "m": 2, "r": 2, "D": [0, 10, 20, 0]})
    sizes = {port.name: port.size for port in model.ports}
    assert (sizes["A"], sizes["u"], sizes["x"], sizes["y"], sizes["n"]) == (9, 2, 3, 2, None)
    trace = alone(model.with_values({"u": [1.0, 2.0]}), engine, pace=0.1, until=1.0)
    assert [trace[f"one.x[{i}]"][-1] for i in range(3)] == pytest.approx([1, 2, 3 * math.exp(-1)], rel=1e-6)
    assert [trace[f"one.y[{i}]"][0] for i in range(2)] == [21.0, 22.0]
    cell = model.with_values({"u": 1.0}).with_values({"u[1]": 5.0})
    assert {port.name: port.start for port in cell.ports}["u"] == (1.0, 5.0)
    with pytest.raises(up.ModelError, match="'u' was given 2 values, and has 4 cells now"):
        cell.with_values({"m": 4})
    with pytest.raises(up.ModelError, match="'n' cannot be 9: the FMU allows 1 to 8"):
        model.with_values({"n": 9})


# -------------------------------------------------------------------- many of them


def test_many_units_share_what_is_read(fmu: Made, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    from upbeat.units.fmi import archive

    count = {"read": 0, "unpack": 0}
    read, unpack = archive.parse_description, archive.unpack

    def counted(*arguments: Any) -> Any:
        count["read"] += 1
        return read(*arguments)

    def counting(*arguments: Any) -> Any:
        count["unpack"] += 1
        return unpack(*arguments)

    monkeypatch.setattr(archive, "parse_description", counted)
    monkeypatch.setattr(archive, "unpack", counting)
    monkeypatch.setattr(archive, "_DESCRIPTIONS", {})
    monkeypatch.setattr(archive, "_FOLDERS", {})
    path = fmu("gain", 2)
    units = {f"u{i}": up.Fmu(path, parameters={"k": 1.0 + i}) for i in range(200)}
    links = {f"u{i}.u": f"u{i - 1}.y / {1.0 + i}" for i in range(1, 200)}
    trace = up.simulate(up.Scenario(units, links), pace=0.1, until=0.2, engine=engine, record=["u199.y"])
    assert trace["u199.y"][-1] == 0.0
    assert count == {"read": 1, "unpack": 1}


@BOTH
@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
def test_a_tunable_parameter_may_change_during_a_run(
    fmu: Made, engine: str, version: int, interface: str
) -> None:
    """x' = a x + b u, y = c x + d u: judged by the closed form of the two pieces."""
    model = up.Fmu(fmu("linear", version), interface=interface, isolation="none")
    gain = up.Fmu(fmu("gain", version), isolation="none")
    scenario = up.Scenario({"one": model, "two": gain})
    with up.start(scenario, pace=0.1, until=1.0, engine=engine) as run:
        for _ in range(5):
            run.step()
        before = run["one.y"]
        run.set("one.c", 6.0)
        assert run["one.y"] == pytest.approx(2.0 * before, rel=1e-12)
        run.set("one.a", -0.5)
        with pytest.raises(up.InvalidInput, match=r"'two.k' cannot change.*\"fixed\""):
            run.set("two.k", 2.0)
        trace = run.finish()
    assert before == pytest.approx(3.0 * np.exp(-1.0), rel=1e-2)
    assert trace["one.y"][-1] / before == pytest.approx(2.0 * np.exp(-0.25), rel=1e-2)


@BOTH
def test_columns_of_an_input_file_for_strings_and_tunable_parameters(
    fmu: Made, engine: str, version: int, tmp_path: Path
) -> None:
    """Of one FMU by short names; y = c x of a decay that is judged by its closed form."""
    table = tmp_path / "t.csv"
    table.write_text("time,c,a\n0,3,-2\n0.5,6,-0.5\n")
    path = fmu("linear", version)
    settings: Any = {"until": 1.0, "pace": up.Fixed(0.1), "engine": engine}
    trace = fmu_experiment([path], settings, table=table).experiment.run()
    unit = next(name.removesuffix(".y") for name in trace.names if name.endswith(".y"))
    y = [trace.at(t)[f"{unit}.y"] for t in (0.0, 0.4, 0.5, 1.0)]
    assert y[1] / y[0] == pytest.approx(np.exp(-0.8), rel=1e-2)
    assert y[2] / y[1] == pytest.approx(2.0 * np.exp(-0.2), rel=1e-2)
    assert y[3] / y[2] == pytest.approx(np.exp(-0.25), rel=1e-2)
    table.write_text("time,k\n0,1\n")
    with pytest.raises(up.InvalidInput, match=r"parameter '.*k', which cannot change.*\"fixed\".*--set"):
        fmu_experiment([fmu("gain", version)], settings, table=table).experiment.run()
    table.write_text("time,string_in,int32_in\n0,größer,1\n0.5,kleiner,2\n")
    trace = fmu_experiment([fmu("types", version)], settings, table=table).experiment.run()
    unit = next(name.removesuffix(".string_out") for name in trace.names if name.endswith(".string_out"))
    said = [trace.at(t)[f"{unit}.string_out"] for t in (0.0, 0.4, 0.5, 1.0)]
    assert said == ["größer", "größer", "kleiner", "kleiner"]
