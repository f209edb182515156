"""Pictures: what goes into which panel, where labels go, which files come out."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from sample_traces import record
from upbeat.core.errors import FileProblem, InvalidInput, MissingExtra
from upbeat.core.ports import Kind
from upbeat.core.reasons import EXPECTED, Reason
from upbeat.report.plot import (
    COLOURS,
    LINES,
    PRIVATE,
    SHARED,
    arrange,
    lane,
    plot,
    pretty,
    ranks,
    select,
    spread,
    step_panel,
    thin,
    thin_marks,
)
from upbeat.trace.events import EventKind, EventLog
from upbeat.trace.log import StepLog
from upbeat.trace.trace import Trace

TIME = np.linspace(0.0, 10.0, 101)


def waves(units: dict[str, str | None]) -> Trace:
    """A trace with one wave for every name, with these units of measure."""
    signals = {name: np.sin(TIME + number) for number, name in enumerate(units)}
    return Trace.from_arrays(TIME, signals, {name: unit for name, unit in units.items() if unit is not None})


MASSES = {"left.x": "m", "left.v": "m/s", "right.x": "m", "right.v": "m/s"}


def grid(*ends: float) -> StepLog:
    log = StepLog()
    for first, last in itertools.pairwise(ends):
        log.append(first, last, "grid")
    return log


# ---------------------------------------------------------------------------------------- panels


def test_signals_are_grouped_by_unit_of_measure() -> None:
    panels = arrange({"": waves(MASSES)}, None)
    assert [panel.title for panel in panels] == ["x (m)", "v (m/s)"]
    assert [[line.label for line in panel.lines] for panel in panels] == [
        ["left.x", "right.x"],
        ["left.v", "right.v"],
    ]
    assert [line.colour for line in panels[0].lines] == ["left", "right"]


def test_signals_without_a_unit_are_grouped_by_port_if_there_are_few() -> None:
    assert [p.title for p in arrange({"": waves({"a.x": None, "b.x": None, "a.F": None})}, None)] == [
        "x",
        "F",
    ]
    many = waves({f"a.p{i}": None for i in range(7)})
    assert [len(p.lines) for p in arrange({"": many}, None)] == [7]


def test_a_large_group_is_split_evenly_and_keeps_one_scale() -> None:
    panels = arrange({"": waves({f"room{i}.T": "degC" for i in range(25)})}, None)
    assert [len(panel.lines) for panel in panels] == [7, 7, 7, 4]
    assert len(panels[0].lines) <= LINES == len(COLOURS)
    assert len({panel.share for panel in panels}) == 1
    assert panels[0].share


def test_a_crowd_is_one_panel() -> None:
    assert [len(p.lines) for p in arrange({"": waves({f"u{i}.y": "1" for i in range(60)})}, None)] == [60]


def test_booleans_and_enumerations_have_words_on_their_axis() -> None:
    panels = arrange({"": record(None, 10)}, None)
    assert [panel.ticks for panel in panels] == [(), (), ("false", "true"), ("off", "heat", "cool")]
    assert [panel.lines[0].held for panel in panels] == [False, True, True, True]


def test_runs_are_compared_signal_by_signal() -> None:
    panels = arrange({"coarse": waves(MASSES), "fine": waves(MASSES)}, "left.*")
    assert [panel.title for panel in panels] == ["left.x (m)", "left.v (m/s)"]
    assert [line.label for line in panels[0].lines] == ["coarse", "fine"]


def test_choosing_signals() -> None:
    trace = waves({"a.x[0]": None, "a.x[1]": None, "a.y": None, "b.y": None})
    assert [c.name for c in select(trace, "a.x")] == ["a.x[0]", "a.x[1]"]
    assert [c.name for c in select(trace, ["*.y"])] == ["a.y", "b.y"]
    assert [c.name for c in select(trace, ["a.x[1]", "a.*"])] == ["a.x[1]", "a.x[0]", "a.y"]
    with pytest.raises(InvalidInput, match=r"no signal matches 'a\.z'. Did you mean"):
        select(trace, ["a.z"])
    with pytest.raises(InvalidInput, match="holds text"):
        select(record(None, 1), "ctl.text")


def test_step_sizes_are_logarithmic_only_if_they_vary() -> None:
    trace = waves(MASSES)
    trace.steps = grid(0.0, 1.0, 2.0, 2.5)
    panel = step_panel({"": trace})
    assert panel.lines[0].values.tolist() == [1.0, 1.0, 0.5, 0.5]
    assert panel.lines[0].time.tolist() == [0.0, 1.0, 2.0, 2.5]
    assert not panel.log
    trace.steps = grid(0.0, 1.0, 1.01, 2.0)
    assert step_panel({"": trace}).log


@settings(deadline=None)
@given(count=st.integers(1, 30_000), spike=st.integers(0, 29_999))
def test_thinning_keeps_ends_and_extremes(count: int, spike: int) -> None:
    time, values = np.arange(count, dtype=float), np.zeros(count)
    values[spike % count] = 1.0
    times, kept = thin(time, values)
    assert (times[0], times[-1], kept.max()) == (0.0, count - 1.0, 1.0)
    assert len(times) <= 6200
    assert np.all(np.diff(times) > 0)


@given(st.lists(st.floats(-0.5, 1.5), max_size=9))
def test_labels_do_not_meet(wanted: list[float]) -> None:
    places = spread(wanted, 0.1)
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    gaps = np.diff(sorted(places))
    assert np.all(gaps >= 0.1 - 1e-9)
    assert [places[i] for i in sorted(range(len(wanted)), key=wanted.__getitem__)] == sorted(places)


def test_labels_with_room_stay_where_they_belong() -> None:
    assert spread([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])


def test_units_look_as_on_paper() -> None:
    assert [pretty(u) for u in ("m/s**2", "N*m", "degC", "1", None, "kg * m^2")] == [
        "m/s²",
        "N·m",
        "°C",
        "",
        "",
        "kg·m²",
    ]


# -------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_files(suffix: str, start: bytes, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"run.{suffix}"
    plot(waves(MASSES), out=path, title="Masses")
    assert path.read_bytes().startswith(start)


def test_steps_and_events_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    trace = waves(MASSES)
    trace.steps = grid(0.0, 5.0, 10.0)
    trace.events = EventLog()
    trace.events.append("bang", 5.0)
    trace.events.append("stop", 7.0)
    axes = plot(trace, steps=True).axes
    assert [axis.get_title(loc="left") for axis in axes] == ["x (m)", "v (m/s)", "step size (s)", "events"]
    assert [label.get_text() for label in axes[-1].get_yticklabels()] == ["bang", "stop"]
    assert [axis.get_xlabel() for axis in axes] == ["", "", "", "time (s)"]
    assert len(plot(trace, events=False).axes) == 2


def eventful(count: int) -> Trace:
    """A trace with events between units, and a step for each of them."""
    trace = waves(MASSES)
    steps, events = StepLog(), EventLog()
    at = 10.0 * np.arange(1, count + 1) / (count + 1)
    for first, last in itertools.pairwise((0.0, *at.tolist(), 10.0)):
        name = "floor" if len(events) % 5 == 4 else "hit"
        steps.append(first, first + 0.75 * (last - first), "usual step")
        steps.append(first + 0.75 * (last - first), last, Reason(EXPECTED, name, last))
        if last < 10.0:
            units = ("left",) if name == "floor" else ("left", "right")
            events.append(name, last, 0, True, units, {"landed": 1e-6})
    trace.steps, trace.events = steps, events
    return trace


def test_events_between_units_show_whom_they_concern() -> None:
    pytest.importorskip("matplotlib")
    axes = plot(eventful(12)).axes
    assert [axis.get_title(loc="left") for axis in axes] == ["x (m)", "v (m/s)", "step size (s)", "events"]
    assert [label.get_text() for label in axes[-1].get_yticklabels()] == ["hit", "floor"]
    assert [text.get_text() for text in axes[-1].texts] == ["10 × shared: left, right", "2 × private: left"]
    hit, floor = (text.get_color() for text in axes[-1].texts)
    assert (hit, floor) == (SHARED, PRIVATE)
    drawn = [line.get_color() for line in axes[0].lines]
    assert (drawn.count(hit), drawn.count(floor)) == (10, 2)
    reasons = [text.get_text() for text in axes[2].texts]
    assert reasons == ["13 × usual step", "11 × hit expected", "2 × floor expected"]
    assert [text.get_color() for text in axes[2].texts][1:] == [hit, floor]


def test_very_many_events_leave_the_signals_visible() -> None:
    pytest.importorskip("matplotlib")
    axes = plot(eventful(500)).axes
    assert len(axes[0].lines) == 2
    assert [text.get_text()[:5] for text in axes[-1].texts] == ["400 ×", "100 ×"]
    assert len(plot(eventful(500), steps=False).axes) == 3


def test_compared_runs_have_their_colours_in_the_lanes_too() -> None:
    pytest.importorskip("matplotlib")
    figure = plot({"one": eventful(4), "other": eventful(5)})
    ticks = figure.axes[-1].get_yticklabels()
    assert [tick.get_text() for tick in ticks] == ["hit: one", "hit: other", "floor: other"]
    lines = [line.get_color() for line in figure.axes[0].lines]
    assert [tick.get_color() for tick in ticks] == [lines[0], lines[1], lines[1]]


def test_every_line_has_its_name_beside_it() -> None:
    pytest.importorskip("matplotlib")
    axes = plot(waves(MASSES)).axes
    assert [[text.get_text() for text in axis.texts] for axis in axes] == [
        ["left.x", "right.x"],
        ["left.v", "right.v"],
    ]
    colours = [[text.get_color() for text in axis.texts] for axis in axes]
    assert colours == [[line.get_color() for line in axis.lines] for axis in axes]
    assert colours[0] == colours[1]
    compared = plot({"coarse": waves(MASSES), "fine": waves(MASSES)}).axes
    assert [len(axis.texts) for axis in compared] == [2, 0, 0, 0]


def test_odd_signals_do_no_harm() -> None:
    pytest.importorskip("matplotlib")
    odd = {
        "a.flat": np.full(101, 1e9),
        "a.zero": np.zeros(101),
        "a.holes": np.where(TIME > 5, np.nan, 1.0),
        "a.wild": np.where(TIME == 5, np.inf, TIME),
    }
    assert len(plot(Trace.from_arrays(TIME, odd)).axes) == 4
    assert len(plot(Trace.from_arrays([1.0], {"a.x": [2.0]})).axes) == 1
    crowd = plot([waves({f"u{i}.y": "1" for i in range(60)})]).axes
    assert "60 signals" in crowd[0].texts[0].get_text()


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(FileProblem, match=r"must be \.png, \.svg or \.pdf"):
        plot(waves(MASSES), out=tmp_path / "run.doc")
    with pytest.raises(FileProblem, match="there is no folder"):
        plot(waves(MASSES), out=tmp_path / "no" / "run.png")
    with pytest.raises(InvalidInput, match="the trace is empty"):
        plot(record(None, 0))
    with pytest.raises(InvalidInput, match="no trace was given"):
        plot({})
    with pytest.raises(InvalidInput, match="no signals"):
        plot(Trace.from_arrays([0.0], {"s": ["text"]}))


def test_without_matplotlib_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'upbeat\[plot\]'"):
        plot(waves(MASSES))


def test_pyplot_is_left_alone_and_imports_stay_small() -> None:
    code = (
        "import sys; import upbeat.report.plot, upbeat.report.summary, upbeat.trace.trace as t\n"
        "heavy = {'matplotlib', 'pandas', 'polars', 'xarray', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "try:\n    upbeat.report.plot.plot(t.Trace.from_arrays([0.0, 1.0], {'x': [1.0, 2.0]}))\n"
        "except Exception as error:\n    assert 'upbeat[plot]' in str(error)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


# ---------------------------------------------------------------------------------------- events


def crossing() -> Trace:
    """Waves, a lamp that changes three times at one instant, a button, a scale and a text."""
    trace = waves({"plant.T": "degC"})
    trace.events = EventLog(
        [
            EventKind("light.lamp", Kind.INTEGER, 1, items=("red", "green")),
            EventKind("scale.weight", Kind.REAL, 1, "kg"),
            EventKind("never.heard"),
        ]
    )
    for entry in (
        ("light.lamp", 1.0, 0, "red"),
        ("button", 2.0, 0),
        ("light.lamp", 5.0, 0, "green"),
        ("scale.weight", 5.0, 1, 2.5),
        ("light.lamp", 5.0, 2, "red"),
        ("light.lamp", 5.0, 3, "green"),
        ("scale.weight", 7.0, 0, -1.0),
        ("button", 8.0, 0, True),
    ):
        trace.events.append(*entry)
    return trace


def test_events_of_one_instant_are_stacked_in_their_order() -> None:
    found = lane(crossing(), "light.lamp", "lamp")
    assert found.times.tolist() == [1.0, 5.0, 5.0, 5.0]
    assert found.ranks.tolist() == [0, 0, 1, 2]
    assert found.texts == ("red", "green", "red", "green")
    assert lane(crossing(), "button", "b").texts == ("", "")
    assert ranks(np.array([])).tolist() == []


def test_events_with_numbers_have_stems_and_the_others_lanes() -> None:
    pytest.importorskip("matplotlib")
    axes = plot(crossing()).axes
    assert [axis.get_title(loc="left") for axis in axes] == ["T (°C)", "scale.weight (kg)", "events"]
    assert [label.get_text() for label in axes[-1].get_yticklabels()] == ["light.lamp", "button"]
    stems = [line.get_xydata().tolist() for line in axes[1].lines if len(line.get_xdata()) == 2]
    assert [[5.0, 2.5], [7.0, -1.0]] in stems
    heights = sorted({round(y, 6) for x, y in axes[-1].collections[1].get_offsets().tolist() if x == 5.0})
    assert len(heights) == 3
    words = {text.get_text(): text.get_color() for text in axes[-1].texts}
    assert words == {"red": COLOURS[1], "green": COLOURS[2]}, "a lamp that says red does so in red"


def test_events_are_chosen_by_name_like_signals() -> None:
    pytest.importorskip("matplotlib")

    def titles(*names: str) -> list[str]:
        axes = plot(crossing(), names).axes
        lanes = [
            label.get_text() for axis in axes for label in axis.get_yticklabels() if "." in label.get_text()
        ]
        return [axis.get_title(loc="left") for axis in axes] + [name for name in lanes if name[0].isalpha()]

    assert titles("plant.T") == ["T (°C)"]
    assert titles("light.lamp") == ["events", "light.lamp"]
    assert titles("light.*", "plant.T", "scale.*") == ["T (°C)", "scale.weight (kg)", "events", "light.lamp"]
    assert titles("never.heard") == ["events", "never.heard"]
    with pytest.raises(InvalidInput, match=r"no signal matches 'light\.lamb'. Did you mean 'light\.lamp'"):
        plot(crossing(), "light.lamb")
    assert len(plot({"a": crossing(), "b": crossing()}, ["light.lamp"]).axes[-1].get_yticks()) == 2


def test_very_many_events_do_no_harm() -> None:
    pytest.importorskip("matplotlib")
    trace, count = crossing(), 50_000
    times = np.linspace(8, 10, count)
    for name, cells in (("light.lamp", np.zeros(count, np.int64)), ("scale.weight", np.sin(times))):
        trace.events.extend([name], np.zeros(count, int), times, np.zeros(count, int), cells)
    for index in range(300):
        trace.events.append("deep", 3.0, index)
    assert len(lane(trace, "light.lamp", "x").times) <= 4010
    assert len(plot(trace).axes) == 3


# ---------------------------------------------------------------- what new users met


def test_signals_of_different_size_have_panels_of_their_own() -> None:
    time = np.linspace(0.0, 1.0, 50)
    sizes = [3e4, 1e4, 100.0, 90.0, 1.0, 0.5, 0.4, 1e-3, 0.0]
    signals = {f"c.s{i}": size * np.sin(9 * time) for i, size in enumerate(sizes)}
    panels = arrange({"": up.Trace.from_arrays(time, signals)}, None)
    assert [[line.label for line in panel.lines] for panel in panels] == [
        ["c.s0", "c.s1"],
        ["c.s2", "c.s3"],
        ["c.s4", "c.s5", "c.s6"],
        ["c.s7", "c.s8"],
    ]
    pressures = {"a.p": 2e5 * np.sin(9 * time), "b.p": np.sin(9 * time)}
    measured = up.Trace.from_arrays(time, pressures, {"a.p": "Pa", "b.p": "Pa"})
    assert [panel.title for panel in arrange({"": measured}, None)] == ["p (Pa)", "p (Pa)"]


def test_a_part_of_the_time_and_no_events(tmp_path: Path) -> None:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
    floor = up.Scenario(
        {"ball": ball}, events={"hit": {"when": "ball.x <= 0", "then": {"ball.v": "-ball.v"}}}
    )
    trace = up.simulate(floor, pace=up.LookAhead(0.05), until=4.0)
    figure = up.plot(trace, between=(1.0, 2.0))
    assert figure.axes[0].get_xlim() == (1.0, 2.0)
    part = trace.between(1.0, 2.0)
    assert part.time[0] <= 1.0 < part.time[1]
    assert part.time[-2] < part.time[-1]
    assert len(part.events) == sum(1.0 <= event.time <= 2.0 for event in trace.events) > 0
    with pytest.raises(up.InvalidInput, match="from an earlier to a later time"):
        up.plot(trace, between=(2.0, 1.0))
    with_events, without = up.plot(trace), up.plot(trace, events=False)
    assert len(without.axes) == len(with_events.axes) - 1
    file = tmp_path / "ball.csv"
    trace.save(file)
    from upbeat.cli.main import main

    out = tmp_path / "ball.png"
    assert main(["plot", str(file), "--no-events", "--between", "1", "2", "--out", str(out)]) == 0
    assert out.exists()


def test_thinned_events_are_drawn_once() -> None:
    """One that was kept as an extreme and as one of many stood beside itself, as a ghost of the series."""
    time = np.arange(25_000) / 100
    times, values = thin_marks(time, np.sin(time))
    assert len(times) < 16_000
    assert len(np.unique(times)) == len(times)
    assert values.max() == np.sin(time).max()
    assert (np.sin(times) == values).all()


def test_runs_that_are_compared_may_have_other_units_and_other_signals() -> None:
    def of(der: str, unit: str, **more: str) -> up.Trace:
        states = {"x": {"der": der, "unit": unit}, **more}
        return up.simulate(up.Scenario({"a": up.Ode(states)}), pace=0.1, until=1.0)

    traces = {"m": of("1", "m"), "mm": of("1000", "mm", z="1"), "kg": of("1", "kg")}
    axes = plot(traces, ["a.x", "a.z"], steps=False).axes
    assert [axis.get_title(loc="left") for axis in axes] == ["a.x (m)", "a.z", "a.x (kg)"]
    one, other = (line.get_ydata() for line in axes[0].lines)
    np.testing.assert_allclose(one, other, rtol=1e-13)
    np.testing.assert_allclose(one[-1], 1.0)
    with pytest.raises(up.InvalidInput, match=r"no signal matches 'a\.y'"):
        plot(traces, ["a.y"])
