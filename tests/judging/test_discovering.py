"""Events that nobody has declared: what is found in black boxes whose conditions are known, and what not."""

from __future__ import annotations

import json
import math
import signal as signal_

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems.black_boxes import LINKS
from problems.hidden import SYSTEMS, hidden, with_noise

import upbeat as up
from upbeat.cli.main import main
from upbeat.judging.discontinuities import Rows, happenings, suspects
from upbeat.judging.explaining import shortest


def found_in(name, **changes):
    system = SYSTEMS[name]
    return up.discover(system.make(), step=system.step, until=system.until, vary=system.vary, **changes)


def signal(times, values, **more):
    return Rows(up.Trace.from_arrays(times, {"unit.y": values, **more}))


# ---------------------------------------------------------------- discontinuities


@settings(max_examples=30)
@given(
    at=st.floats(0.3, 0.7),
    jump=st.sampled_from([0.0, -0.3, 2.0]),
    kink=st.sampled_from([0.0, 1.0, -5.0]),
    slope=st.floats(-2.0, 2.0),
    bend=st.floats(-4.0, 4.0),
)
def test_a_jump_or_a_kink_is_found_where_it_is(at, jump, kink, slope, bend):
    t = np.linspace(0.0, 1.0, 401)
    y = np.sin(3 * t) + slope * t + bend * t**2 + np.where(t > at, jump + kink * (t - at), 0.0)
    rows = signal(t, y)
    found = happenings(rows, [(0.0, 1.0)], 0.04)
    if not jump and not kink:
        assert found == []
        return
    (one,) = found
    assert one.low - 0.0026 <= at <= one.high + 0.0026
    kinds = {b.what for b in one.breaks}
    assert kinds == ({"jump"} if jump else {"kink"})
    (b,) = one.breaks
    assert b.size == pytest.approx(jump or kink, rel=0.05, abs=1e-3 + abs(kink) * 0.0026)
    if not jump:
        assert one.time == pytest.approx(at, abs=2 * one.spread + 1e-5)
    assert one.before["unit.y"].value == pytest.approx(
        math.sin(3 * one.time) + slope * one.time + bend * one.time**2, abs=0.01
    )


def test_what_is_quick_but_smooth_is_no_discontinuity():
    t = np.linspace(0.0, 1.0, 401)
    for width in (0.03, 0.1, 0.3):
        assert happenings(signal(t, np.tanh((t - 0.5) / width)), [(0.0, 1.0)], 0.04) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_discontinuity_and_does_not_hide_a_jump(seed):
    turn = np.random.default_rng(seed)
    t = np.linspace(0.0, 1.0, 401)
    noise = 0.01 * turn.standard_normal(len(t))
    assert happenings(signal(t, np.sin(5 * t) + noise), [(0.0, 1.0)], 0.04) == []
    (one,) = happenings(signal(t, np.sin(5 * t) + noise + (t > 0.4)), [(0.0, 1.0)], 0.04)
    assert one.time == pytest.approx(0.4, abs=0.003)


def test_modes_are_found_and_told():
    t = np.linspace(0.0, 1.0, 201)
    rows = signal(t, np.sin(t), **{"unit.on": t > 0.5})
    assert suspects(rows) == [(0.5, 0.505)]
    (one,) = happenings(rows, suspects(rows), 0.1)
    assert [str(b) for b in one.breaks] == ["unit.on False → True"]
    assert one.modes == {"unit.on": "False"}


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-0.549996, 2e-5, "-0.55"),
        (19.9996, 1e-3, "20"),
        (3e-9, 1e-6, "0"),
        (1 / 3, 1e-9, "0.333333333"),
        (12345.6, 0.1, "12345.6"),
    ],
)
def test_thresholds_are_as_short_as_they_are_known(value, error, text):
    assert shortest(value, error) == text


@pytest.mark.parametrize("bits", [6, 8, 12])
@pytest.mark.parametrize("noise", [0.0, 0.002])
def test_levels_of_a_sensor_are_no_discontinuities_and_do_not_hide_a_jump(bits, noise):
    t = np.linspace(0.0, 1.0, 1601)
    smooth = np.sin(7 * t) + noise * np.random.default_rng(bits).standard_normal(len(t))

    def seen(values):
        rows = signal(t, np.round(values * 2**bits / 2) / (2**bits / 2))
        return happenings(rows, [(0.0, 1.0)], 0.01)

    assert seen(smooth) == []
    (one,) = seen(smooth + (t > 0.4))
    assert one.time == pytest.approx(0.4, abs=0.002)


def test_what_counts_and_what_ramps_is_not_quantised():
    t = np.linspace(0.0, 8.0, 1601)
    count = np.floor(t * 5)
    assert len(happenings(signal(t, count), [(0.0, 8.0)], 0.04)) == 39
    triangle = np.abs((t + 1.0) % 2.0 - 1.0)  # turns exactly at rows
    turns = [one.time for one in happenings(signal(t, triangle), [(0.0, 8.0)], 0.04)]
    assert turns == pytest.approx(np.arange(1.0, 8.0), abs=0.006)


# ---------------------------------------------------------------- conditions


def test_a_threshold_is_found_where_units_can_go_back():
    found = found_in("ball")
    (one,) = found.sure
    assert (one.when, one.count, one.wrong) == ("ball.x <= 0", 7, 0)
    assert one.confidence == pytest.approx(8 / 9)
    assert found.unexplained == ()
    assert found.steps < 6.0 / 0.05 * 16  # short steps only around what is strange


def test_the_first_change_of_what_stood_still_is_found_too():
    """Else the threshold would need another condition for why nothing happened the first time."""
    wave = up.Ode({"x": "cos(time)"})
    lamp = up.Function(inputs=["x"], outputs={"y": "1 if x > 0.3 else 0"})
    scenario = up.Scenario({"a": wave, "b": lamp}, {"b.x": "a.x"})
    found = up.discover(scenario, step=0.1, until=40.0)
    assert {one.when for one in found.sure} == {"a.x >= 0.3", "a.x <= 0.3"}
    assert sum(one.count for one in found.sure) == 13
    assert found.unexplained == ()


def test_what_happens_exactly_at_a_communication_point_has_a_threshold_there():
    """Behind the event the curve bends: the threshold is none the less zero."""
    ball = up.Ode(
        {"h": "v", "v": "-9.81"},
        start={"h": 1.0},
        events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-0.9*v"}}},
    )
    found = up.discover(up.Scenario({"ball": ball}), step=0.1, until=3.0, coupling=up.Negotiated())
    assert [one.when for one in found.sure] == ["ball.h <= 0"]


@pytest.mark.parametrize("rollback", [False, True])
def test_what_only_a_mode_shows_is_found(rollback):
    """No real output tells of it: where units go back to look again, a counter is looked at as well."""
    model = up.Ode(
        {"x": "v", "v": "-x + 0.2*cos(0.7*time)"},
        variables={"n": {"start": 0, "kind": "integer"}},
        outputs={"x": "x", "n": {"value": "n", "kind": "integer"}},
        events={"count": {"when": "x >= 0.1", "then": {"n": "n + 1"}}},
    )
    found = up.discover(up.Scenario({"box": hidden(model, rollback=rollback)}), step=0.1, until=40.0)
    assert [one.when for one in found.sure] == ["box.x >= 0.1"]


def test_a_hysteresis_is_two_conditions():
    high, low = sorted(found_in("oven").sure, key=lambda one: -one.threshold)
    assert (high.when, low.when) == ("oven.T >= 21", "oven.T <= 19")
    assert (high.hysteresis, low.hysteresis) == (low.name, high.name)


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("braking", {"first.x - second.x <= 12", "first.x - second.x >= 20"}),
        ("timetable", {"time >= 2.3", "time >= 5.9"}),
    ],
)
def test_differences_and_times(name, conditions):
    found = found_in(name)
    assert {one.when for one in found.sure} == conditions


def test_what_comes_again_and_again_is_a_clock_that_every_pace_stops_at():
    found = found_in("pulses")
    (clock,) = found.sure
    assert (clock.every, clock.offset, clock.when) == (0.8, 0.4, "")
    trace = found.improved().run()
    times = trace.one_sided().time
    for k in range(20):
        assert np.abs(times - (0.4 + 0.8 * k)).min() < 1e-9


def test_a_long_run_tells_the_period_of_a_clock_and_not_half_of_it():
    class Turns:
        """Turns round every 0.82 s, to another slope each time."""

        def __init__(self, name, start, parameters):
            self.x, self.next, self.turns = 0.0, 0.3, 0

        def get(self, port):
            return self.x

        def advance(self, t, to, early):
            while t < to:
                until = min(to, self.next)
                self.x += (until - t) * math.copysign(
                    1.0 + 0.5 * math.sin(self.turns**2), self.turns % 2 - 0.5
                )
                t = until
                if t == self.next:
                    self.next, self.turns = self.next + 0.82, self.turns + 1
            return to

    box = up.Scenario({"box": up.PythonUnit(Turns, outputs={"x": {"depends": []}})})
    (clock,) = up.discover(box, step=0.1, until=50.0).sure
    assert clock.every == pytest.approx(0.82, abs=1e-4)
    assert clock.offset == pytest.approx(0.3, abs=0.01)
    assert (clock.count, clock.wrong) == (61, 0)


def test_the_rate_of_a_signal_is_watched_for_only_where_an_output_shows_it():
    found = found_in("charger")
    assert {one.when for one in found.conditions} == {"der(charger.u) <= 0.05", "der(charger.u) >= -0.12"}
    assert found.sure == ()
    assert "no output shows this rate" in found.conditions[0].evidence
    rate = "0.3*cos(0.5*time) - 0.1*u"
    model = up.Ode(
        {"u": f"{rate} + (0.02 if high else 0)"},
        variables={"high": False},
        outputs={"u": "u", "du": f"{rate} + (0.02 if high else 0)"},
        events={
            "up": {"when": f"{rate} >= 0.2", "then": {"high": True}},
            "down": {"when": f"{rate} <= -0.1", "then": {"high": False}},
        },
        solver={"kind": "dormand_prince", "rtol": 1e-9, "atol": 1e-11},
    )
    told = up.discover(up.Scenario({"box": hidden(model)}), step=0.1, until=60.0)
    assert {one.when for one in told.sure} == {"box.du >= 0.2", "box.du <= -0.08"}


def test_names_of_fmus_are_written_as_expressions_have_them():
    """FMUs name their variables as they like, and those that know the rate of an output have one more."""

    class Charger:
        def __init__(self, name, start, parameters):
            self.u, self.k, self.t = 0.0, 1.0, start

        def rate(self):
            return self.k * math.sin(self.t) + 0.3 * math.cos(0.37 * self.t)

        def get(self, port):
            return self.u if port == "u [V]" else self.rate()

        def advance(self, t, to, early):
            for _ in range(20):
                self.u += self.rate() * (to - t) / 20
                self.t += (to - t) / 20
                self.k = 0.5 if self.rate() >= 0.9 else 1.3 if self.rate() <= -0.6 else self.k
            return to

    none = frozenset()
    output = up.Causality.OUTPUT
    ports = (
        up.Port("u [V]", output, depends=none, derivative="der(u [V])"),
        up.Port("der(u [V])", output, depends=none, extra=True),
    )
    found = up.discover(up.Scenario({"box": up.PythonUnit(Charger, ports)}), step=0.1, until=60.0)
    assert {one.when for one in found.sure} == {"`box.der(u [V])` >= 0.9", "`box.der(u [V])` <= -0.6"}
    assert found.improved().run().outcome.ok


def test_a_signal_that_jumps_in_the_unit_says_nothing_about_what_comes():
    """A step over an event, which only the unit knows of, is followed by the usual ones: a curve through what
    was before and after the jump would foresee the next one again and again."""
    rate = "k*sin(time) + 0.3*cos(0.37*time)"
    model = up.Ode(
        {"x": "r"},
        variables={"k": 1.0},
        locals={"r": rate},
        outputs={"x": "x", "r": "r"},
        events={
            "high": {"when": "r >= 0.9", "then": {"k": "0.5"}},
            "low": {"when": "r <= -0.6", "then": {"k": "1.3"}},
        },
    )
    conditions = {"high": {"when": "box.r >= 0.9"}, "low": {"when": "box.r <= -0.6"}}
    box = up.Scenario({"box": hidden(model)}, events=conditions)
    trace = up.simulate(box, step=0.1, until=60.0)
    jumps = np.flatnonzero(np.abs(np.diff(trace["box.r"])) > 0.2)
    assert len(jumps) == 7
    assert np.diff(trace.time)[jumps].max() < 0.001
    assert trace.steps.count < 60.0 / 0.025 + 10 * len(jumps)


def test_nothing_is_found_where_nothing_happens():
    found = found_in("smooth")
    assert (found.conditions, found.happened) == ((), ())
    assert str(found) == "no conditions found"


def test_one_occurrence_fits_many_conditions_and_none_is_claimed():
    model = up.Ode(
        {"x": "v", "v": "-1 if late else 1"},
        variables={"late": False},
        events={"turn": {"when": "x >= 2", "then": {"late": True}}},
        outputs=["x", "v"],
    )
    found = up.discover(up.Scenario({"box": hidden(model)}), step=0.1, until=4.0)
    assert found.conditions == ()
    (left,) = found.unexplained
    assert left.time == pytest.approx(2.0, abs=0.01)


def test_noise_of_one_percent_makes_no_false_events():
    system = SYSTEMS["ball"]
    clean = up.simulate(system.make(), pace=up.Fixed(system.step), until=system.until)
    sizes = {name: 0.01 * float(np.ptp(clean[name])) for name in clean.names}
    noisy = with_noise(system.make(), sizes)
    assert [one.when for one in up.discover(noisy, step=system.step, until=6.0).conditions] == ["ball.x <= 0"]
    quiet = with_noise(SYSTEMS["smooth"].make(), dict.fromkeys(("a.x", "a.v", "b.x", "b.v", "c.x"), 0.01))
    assert up.discover(quiet, step=0.05, until=15.0).happened == ()


def test_what_the_scenario_knows_is_told_and_not_proposed():
    model = up.Ode(
        {"x": "v", "v": "-9.81"},
        start={"x": 1.0},
    )
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.9*ball.v"}}
    scenario = up.Scenario({"ball": model}, events={"bounce": bounce})
    found = up.discover(scenario, pace=up.Fixed(0.05), until=3.0)
    assert found.conditions == ()
    assert found.known["bounce"] >= 3


def test_two_masses_as_black_boxes_run_as_well_as_with_declared_conditions(fmu):
    units = {name: up.Fmu(fmu(name, 2)) for name in ("upper", "lower")}
    scenario = up.Scenario(units, LINKS)
    found = up.discover(scenario, step=0.08, until=20.0)
    assert {one.when for one in found.sure} == {"upper.x - lower.x <= 1.1", "upper.x >= -0.55"}
    trace = found.improved().run()
    # The exact solution has 10 collisions and reaches the ceiling twice.
    assert (trace["upper.hits"][-1], trace["upper.ceilings"][-1]) == (10, 2)
    assert trace["upper.x"][-1] == pytest.approx(-4.7386992178, abs=0.1)


# ---------------------------------------------------------------- what is wrong


def test_wrong_arguments_are_told():
    scenario = SYSTEMS["ball"].make()
    with pytest.raises(up.InvalidInput, match="between 0 and 1"):
        up.discover(scenario, step=0.1, until=1.0, confidence=2.0)
    with pytest.raises(up.InvalidInput, match=r"seconds: .* from 0 on, such as 60, not -1"):
        up.discover(scenario, step=0.1, until=1.0, seconds=-1)
    with pytest.raises(up.ScenarioError, match="ball"):
        up.discover(scenario, step=0.1, until=1.0, vary={"ball.height": [1.0]})
    made = up.experiment(scenario, step=0.1, until=1.0)
    with pytest.raises(up.InvalidInput, match="settings already"):
        up.discover(made, step=0.1)


def test_a_run_that_fails_leaves_what_there_is():
    model = up.Ode({"x": "1/(2 - time)"}, solver="euler")
    found = up.discover(up.Scenario({"a": hidden(model)}), pace=up.Fixed(0.1), until=4.0)
    assert any("looked at" in note for note in found.notes)


class Breaks:
    """A saw whose unit fails."""

    def __init__(self, name, start, parameters):
        self.t, self.fails = start, parameters["fails"]

    def get(self, port):
        if self.t >= self.fails:
            raise ValueError("it broke")
        return self.t % 0.7

    def advance(self, t, to, early):
        self.t = to
        return to


def breaks(at):
    return up.Scenario(
        {"saw": up.PythonUnit(Breaks, outputs={"y": {"depends": []}}, parameters={"fails": at})}
    )


def test_a_run_that_fails_at_once_says_what_failed():
    with pytest.raises(up.UnitError, match=r"unit 'saw' failed in get\('y'\) at t = 0: .*it broke"):
        up.discover(breaks(0.0), step=0.1, until=4.0)


def test_a_run_that_fails_on_the_way_is_looked_at_closely_up_to_there():
    found = up.discover(breaks(3.0), step=0.1, until=9.0)
    assert len(found.happened) == 4
    assert any("it broke" in note for note in found.notes)


def test_too_few_rows_are_told():
    found = up.discover(SYSTEMS["smooth"].make(), step=0.05, until=0.05)
    assert found.happened == ()
    assert any("rows are too few to tell" in note for note in found.notes)


@pytest.mark.parametrize("rollback", [False, True])
def test_ctrl_c_leaves_what_there_is(rollback):
    steps = []

    class Pressed(Breaks):
        def advance(self, t, to, early):
            steps.append(to)
            if len(steps) == 600:
                signal_.raise_signal(signal_.SIGINT)
            return super().advance(t, to, early)

        def save(self):
            return self.t

        def restore(self, token):
            self.t = token

    abilities = frozenset({up.Ability.ROLLBACK}) if rollback else frozenset()
    saw = up.PythonUnit(
        Pressed, abilities=abilities, outputs={"y": {"depends": []}}, parameters={"fails": 99.0}
    )
    found = up.discover(up.Scenario({"saw": saw}), step=0.1, until=20.0)
    assert found.interrupted
    assert any("interrupted at t" in note for note in found.notes)
    assert [one.when for one in found.conditions] == ["saw.y >= 0.7"]


def test_time_that_runs_out_is_told():
    found = up.discover(SYSTEMS["smooth"].make(), step=0.05, until=10.0, seconds=0.0)
    assert any("seconds" in note for note in found.notes)


# ---------------------------------------------------------------- the command

FILE = """\
# A black box, as files have them.
upbeat = 1

[units.ball]
kind = "fmu"
file = "{fmu}"

[master]
pace = {{ kind = "fixed", step = 0.02 }}  # as it was

[run]
until = 3.0
"""


@pytest.fixture
def file(tmp_path, fmu):
    path = tmp_path / "ball.toml"
    path.write_text(FILE.format(fmu=fmu("ball", 2)))
    return path


def test_the_command_writes_a_new_file_with_what_it_found(file, capsys):
    out, picture = file.with_name("found.toml"), file.with_name("found.png")
    assert main(["discover", str(file), "--out", str(out), "--plot", str(picture), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "conditions found: " in said
    text = out.read_text()
    assert text.startswith("# A black box, as files have them.\n")
    assert "# as it was" in text
    assert 'events = "auto"' in text
    assert "[events." in text
    assert picture.stat().st_size > 10_000
    assert main(["check", str(out), "--quiet"]) == 0
    assert file.read_text() == FILE.format(fmu=up.load(file).scenario.units["ball"].path)


def test_the_command_says_it_as_json_and_as_text_to_paste(file, capsys):
    assert main(["discover", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"]
    assert data["conditions"][0]["used"]
    assert main(["discover", str(file)]) == 0
    shown = capsys.readouterr().out
    assert f'when = "{data["conditions"][0]["when"]}"' in shown
    assert "confidence" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary", "ball.h"], "write a name and values"),
        (["--vary", "ball.h=high"], "values are numbers"),
        (["--out", "found.csv"], "ends with .toml"),
        (["--out", "ball.toml"], "choose another name"),
        (["--out", "nowhere/found.toml"], "there is no folder"),
        (["--confidence", "3"], "between 0 and 1"),
    ],
)
def test_the_command_refuses_before_anything_runs(file, capsys, monkeypatch, words, said):
    monkeypatch.chdir(file.parent)
    assert main(["discover", str(file), *words]) == 3
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in file.parent.iterdir()) == ["ball.toml"]
