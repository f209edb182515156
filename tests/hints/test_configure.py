"""`up.configure` and `upbeat configure`: the best variant, with reasons, written beside what was there."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.hints.configure import smoothness
from upbeat.hints.rules import Draft, Known, Rule, halved_steps
from upbeat.hints.space import Decision, Option
from upbeat.trace.trace import Trace

FILE = """\
# Two masses. Nobody changes this line.
upbeat = 1

[units.left]
states = { x = { der = "v", unit = "m" }, v = "-x - 0.1*v + F" }   # closed
inputs = ["F"]
start = { x = 1.0 }

[units.right]
states = { x = "v", v = "-x - 0.1*v - F" }
inputs = ["x1"]
locals = { F = "x - x1" }
outputs = ["x", "v", "F"]

[connections]
left.F = "right.F"
right.x1 = "left.x"

[master]
step = 0.1  # a guess

[run]
until = 5.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "masses.toml"
    path.write_text(FILE)
    return path


def true_error(trace: up.Trace) -> float:
    """Against the matrix exponential."""
    from scipy.linalg import expm

    matrix = np.array([[0, 1, 0, 0], [-2, -0.1, 1, 0], [0, 0, 0, 1], [1, 0, -2, -0.1]])
    off = [
        abs((expm(matrix * t) @ [1, 0, 0, 0])[0] - x)
        for t, x in zip(trace.time, trace["left.x"], strict=True)
    ]
    return float(max(off))


def test_without_hints_the_most_exact_variant_is_found(file: Path) -> None:
    found = up.configure(up.load(file), workers=1)
    assert found.best is not None
    assert found.best.error is not None
    error = true_error(found.improved().run())
    assert error < 1e-6 < true_error(up.load(file).run())
    assert error < 10 * max(found.best.error, 1e-10)
    assert found.variants > 50
    assert len(found.tried) < found.variants / 2
    ranks = [(one.satisfied, one.error) for one in found.tried if one.state == "measured"]
    assert ranks[0][1] == min(error for _, error in ranks)
    assert "coupling = " in found.reason


def test_a_pace_that_chooses_its_steps_gets_another_tolerance(file: Path, capsys: Any) -> None:
    pace = 'pace = { kind = "error_control", tolerance = 1e-3 }'
    file.write_text(FILE.replace("step = 0.1  # a guess", pace))
    before = true_error(up.load(file).run())
    assert main(["configure", str(file), "--quiet"]) == 0
    assert "× the present ones" in capsys.readouterr().out
    made = up.load(file.with_name("masses_configured.toml"))
    assert isinstance(made.master.pace, up.ErrorControl)
    assert made.master.pace.tolerance < 1e-3
    assert true_error(made.run()) < before / 100


def test_a_pace_whose_steps_nobody_can_change_stays() -> None:
    """A traffic light from event to event: 60 s red, 50 s green, 10 s yellow, unless somebody is at work."""
    made = up.load(Path(__file__).parents[2] / "examples/traffic_light.toml")
    found = up.configure(made)
    assert "nothing is known of its error" in found.reason
    assert found.improved().master.pace == made.master.pace
    times = [one.time for one in found.improved().run().events]
    assert sorted({*times})[:4] == [60.0, 100.0, 300.0, 360.0]


def test_what_cannot_be_carried_out_ends_nothing(file: Path) -> None:
    def two(known: Known, draft: Draft) -> None:
        for name, weight, order in (("strange", 3.0, ("left", "nobody")), ("usual", 1.0, ("left", "right"))):
            draft.offer("coupling", Option(name, weight, (Decision("coupling", up.GaussSeidel(order)),)))

    for rules in ((two,), (two, halved_steps)):
        found = up.configure(up.load(file), rules=[Rule(one.__name__, one) for one in rules])
        assert found.best is not None
        assert found.best.variant.chosen["coupling"] == "usual"
        impossible = [one for one in found.tried if one.state == "not possible"]
        assert impossible
        assert all("nobody" in one.why and "strange" in str(one.variant) for one in impossible)


class Fragile:
    """x' = -x exactly, in steps of 0.1 only: shorter ones take the process along."""

    def __init__(self, name: str, start: Any, parameters: Any) -> None:
        self.x = 1.0

    def get(self, port: str) -> float:
        return self.x

    def advance(self, t: float, to: float, early: bool) -> float:
        if to - t < 0.09:
            os._exit(3)
        self.x *= math.exp(t - to)
        return to

    def save(self) -> float:
        return self.x

    def restore(self, token: float) -> None:
        self.x = token


def test_a_unit_that_takes_its_process_along_is_a_row_with_that_reason() -> None:
    def two(known: Known, draft: Draft) -> None:
        draft.offer("step", Option(0.1, 1.0), Option(0.05, 2.0))

    scenario = up.Scenario({"unit": up.Isolated(up.PythonUnit(Fragile, outputs=["x"]))})
    found = up.configure(up.experiment(scenario, step=0.1, until=1.0), rules=(Rule("two", two),))
    states = {one.step: (one.state, one.why) for one in found.tried}
    assert states[0.1][0] == "measured"
    assert states[0.05][0] == "failed"
    assert "exited with code 3" in states[0.05][1]
    assert found.improved().master.pace == up.Fixed(0.1)


class Picky(Fragile):
    """The same, which raises an error."""

    def advance(self, t: float, to: float, early: bool) -> float:
        if abs(to - t - 0.1) > 1e-9:
            raise ValueError("steps of 0.1, please")
        return super().advance(t, to, early)


def test_the_present_step_remains_where_units_want_no_other() -> None:
    other = up.Ode({"y": "x - y"}, inputs=["x"])
    units = {"unit": up.PythonUnit(Picky, outputs=["x"]), "other": other}
    scenario = up.Scenario(units, {"other.x": "unit.x"})
    found = up.configure(up.experiment(scenario, step=0.1, until=1.0))
    assert found.best is not None
    assert found.best.step == 0.1
    assert {one.state for one in found.tried if one.step != 0.1} <= {"failed", "not possible", "not run"}
    assert "nothing is known of its error" in found.reason


def test_errors_that_do_not_fall_are_not_called_good() -> None:
    """Pulses of half a millisecond, which no step resolves: they are met by chance."""
    source = up.Function(outputs={"y": "1 if mod(time, 0.0503) < 0.0005 else 0"})
    tank = up.Ode({"x": "u"}, inputs=["u"])
    scenario = up.Scenario({"source": source, "tank": tank}, {"tank.u": "source.y"})
    found = up.configure(up.experiment(scenario, step=0.11, until=5.0, inputs=up.Hold()))
    assert found.best is not None
    assert found.best.step == min(one.step for one in found.tried if one.state == "measured")
    assert "which is not good" in found.reason


@pytest.mark.parametrize("hints", [None, up.Hint("small", "mass.x < 9")])
@pytest.mark.parametrize("jump", [0.537, 1.2345])
def test_errors_of_jumps_between_steps_are_not_told_too_small(hints: up.Hint | None, jump: float) -> None:
    """They fall as they like: a power that was seen between long steps says nothing of shorter ones."""
    driven = up.Ode({"x": "v", "v": "push - f"}, inputs=["f", "push"], outputs=["x", "v"])
    spring = up.Ode({"s": "v"}, inputs=["v"], outputs={"f": "36*s"})
    push = up.Function(outputs={"y": f"1 if time >= {jump} else 0"})
    links = {"mass.f": "spring.f", "spring.v": "mass.v", "mass.push": "push.y"}
    scenario = up.Scenario({"push": push, "mass": driven, "spring": spring}, links)
    found = up.configure(scenario, hints, step=0.1, until=4.0, workers=1, seconds=3600.0)
    assert found.best is not None
    assert found.best.error is not None
    trace = found.improved().run()
    exact = np.where(trace.time < jump, 0.0, (1.0 - np.cos(6.0 * (trace.time - jump))) / 36.0)
    assert abs(trace["mass.x"] - exact).max() <= 4.0 * found.best.error * np.ptp(exact)


def test_several_rates_of_software_are_told_apart_by_their_errors() -> None:
    soft = up.Function(inputs=["x"], outputs={"u": "-x"})
    slow = up.Function(inputs=["x"], outputs={"u": "-0.5*x"})
    plant = up.Ode({"x": "u + w"}, inputs=["u", "w"], start={"x": 1.0})
    links = {"soft.x": "plant.x", "slow.x": "plant.x", "plant.u": "soft.u", "plant.w": "slow.u"}
    scenario = up.Scenario({"soft": soft, "slow": slow, "plant": plant}, links)
    hints = [
        up.Hint("quick", "FMUProperty soft.exec_rate == val 20 Hz"),
        up.Hint("slow", "FMUProperty slow.exec_rate == val 10 Hz"),
    ]
    found = up.configure(up.experiment(scenario, step=0.1, until=2.0), hints, seconds=3600.0)
    x, w = 1.0, 0.0
    for k in range(40):  # the plant integrates what is held
        w = -0.5 * x if k % 2 == 0 else w
        x += 0.05 * (w - x)
    measured = [one for one in found.tried if one.state == "measured"]
    assert measured
    for one in measured:
        assert one.error is not None
        assert one.trace is not None
        assert abs(one.trace["plant.x"][-1] - x) <= 3 * one.error * np.ptp(one.trace["plant.x"]) + 1e-6


def test_no_unit_is_called_more_often_than_it_may_be(file: Path) -> None:
    often = up.Hint("limit", "FMUProperty left.shortest_step == val 50 ms")
    found = up.configure(up.load(file), often)
    assert found.improved().master.pace == up.Fixed(0.05)
    rate = up.Hint("rate", "FMUProperty right.exec_rate == val 20 Hz")
    found = up.configure(up.load(file), [often, rate])
    assert {one.step for one in found.tried if one.made is not None} == {0.05}
    with pytest.raises(up.InvalidInput, match=r"'left' must not be called .* every 0.05 s, and the longest"):
        up.configure(up.load(file), [often, up.Hint("rate", "FMUProperty right.exec_rate == val 1 kHz")])


def test_with_a_tolerance_the_cheapest_that_is_good_enough_wins(file: Path) -> None:
    found = up.configure(up.load(file), tolerance=1e-2, workers=1)
    assert found.best is not None
    assert found.best.work is not None
    good = [one.work for one in found.tried if one.error is not None and one.error <= 1e-2 and one.work]
    assert found.best.work == min(good)


def test_hints_decide_before_errors_do(file: Path) -> None:
    # A master with held inputs makes the masses swing higher than they do.
    hints = up.Hint("wide", "eventually[2, 5](left.x > 1.0)"), up.Hint("rest", {"p": "left.x > -9"})
    found = up.configure(up.load(file), hints, workers=1)
    assert found.best is not None
    verdicts = {one.name: one.verdict for one in found.best.hints}
    assert verdicts["rest"] == "holds"
    if verdicts["wide"] == "violated":
        assert all(one.satisfied < 2 for one in found.tried)
        assert "wide does not hold" in found.reason


def springs(stiffness: float) -> up.Scenario:
    """x'' = -(x - 0.8) (1 + stiffness) in two units: x = 0.8 + 0.2 cos(√(1 + stiffness) t) with a stiffness
    of 4."""
    mass = up.Ode({"x": "v", "v": "F - x"}, inputs=["F"], start={"x": 1.0}, outputs=["x", "v"])
    spring = up.Ode({"s": "v"}, inputs=["v"], outputs={"F": f"-{stiffness}*s"})
    return up.Scenario({"mass": mass, "spring": spring}, {"mass.F": "spring.F", "spring.v": "mass.v"})


def test_a_wrong_run_is_no_better_because_a_hint_holds_by_more() -> None:
    found = up.configure(springs(4.0), up.Hint("above", "mass.x > 0"), step=0.1, until=5.0, workers=1)
    assert found.best is not None
    trace = found.improved().run()
    assert abs(trace["mass.x"] - 0.8 - 0.2 * np.cos(math.sqrt(5) * trace.time)).max() < 1e-6
    assert any(one.robustness > found.best.robustness for one in found.tried)


def test_what_does_the_same_is_run_once() -> None:
    """Units that step ten times together do so side by side, in turn or not."""
    hints = (
        up.Hint("software", "FMUProperty driver.exec_rate == 100 Hz"),
        up.Hint("power", "mass.F == PowerBondSuggestions with spring.v"),
    )
    bond = springs(4.0)
    driver = up.Function(inputs=["x"], outputs={"u": "0.1*x"})
    mass = up.Ode({"x": "v", "v": "F + u - x"}, inputs=["F", "u"], outputs=["x", "v"])
    units = {"mass": mass, "spring": bond.units["spring"], "driver": driver}
    links = {"mass.F": "spring.F", "spring.v": "mass.v", "driver.x": "mass.x", "mass.u": "driver.u"}
    found = up.configure(up.Scenario(units, links), hints, step=0.01, until=0.2, workers=1)
    together = [one for one in found.tried if one.variant.chosen["rate of mass and spring"] == 10]
    assert len(together) == len({one.step for one in together}) == 2


@pytest.mark.parametrize(
    ("scope", "pattern", "why"),
    [
        ("After late", "Universality: always the case that low holds", "there is no time after late"),
        ("Globally", "Response: if low holds then in response late holds", "low never holds"),
        (
            "Before moved",
            "MinDuration: once low holds it will hold for at least 1 s",
            "low never holds before moved",
        ),
    ],
)
def test_a_hint_that_asks_for_nothing_is_told(scope: str, pattern: str, why: str) -> None:
    statements = {"late": "time > 10", "moved": "mass.x < 0.9", "low": "mass.x < 0"}
    hint = up.Hint("idle", statements, scope=scope, pattern=pattern)
    found = up.configure(springs(4.0), hint, step=0.1, until=5.0, workers=1)
    assert found.best is not None
    (said,) = found.best.hints
    assert (said.verdict, said.reason) == ("holds", f"it asks for nothing here: {why}")
    moves = up.Hint("moves", {**statements, "up": "mass.x > 0.5"}, scope="After moved")
    (said,) = up.configure(springs(4.0), moves, step=0.1, until=5.0, workers=1, seconds=0).tried[0].hints
    assert "asks for nothing" not in said.reason


def test_not_all_ways_are_tried_with_steps_that_say_nothing() -> None:
    """Eight steps in a period of the quickest motion: with twice as long steps nothing can be told."""
    found = up.configure(springs(400.0), step=0.04, until=3.0, workers=1)
    assert found.best is not None
    long = [one for one in found.tried if one.state == "measured" and one.step > 0.05]
    assert len(long) <= 1
    trace = found.improved().run()
    assert abs(trace["mass.x"] - (400 + np.cos(math.sqrt(401) * trace.time)) / 401).max() < 1e-6


def test_a_file_is_written_and_the_old_one_stays(file: Path, capsys: Any) -> None:
    assert main(["configure", str(file), "--workers", "1"]) == 0
    said = capsys.readouterr().out
    new = file.with_name("masses_configured.toml")
    assert file.read_text() == FILE
    text = new.read_text()
    assert text.startswith("# Configured by 'upbeat configure' from masses.toml.\n# Two masses. Nobody")
    assert "# closed" in text
    assert "# a guess" in text
    assert "-step = 0.1  # a guess" in said
    assert true_error(up.load(new).run()) < 1e-6
    assert main(["configure", str(file), "--workers", "1", "--quiet"]) == 0  # one of ours may be replaced


def test_files_of_others_stay(file: Path, capsys: Any) -> None:
    other = file.with_name("mine.toml")
    other.write_text(FILE)
    for out in (other, file):
        assert main(["configure", str(file), "--out", str(out)]) == 3
        assert "--force" in capsys.readouterr().err
        assert out.read_text() == FILE
    assert main(["configure", str(file), "--out", str(other), "--force", "--workers", "1", "--quiet"]) == 0
    assert "iterated" in other.read_text()


def test_the_answer_as_json_with_hints_in_the_file(file: Path, capsys: Any) -> None:
    file.write_text(
        FILE.replace("[master]", '[hints]\ncalm = "smooth(left.x)"\nsmall = "left.x < 150 cm"\n\n[master]')
    )
    assert main(["check", str(file)]) == 0
    capsys.readouterr()
    assert main(["configure", str(file), "--json", "--workers", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is True
    assert {one["name"]: one["verdict"] for one in data["recommended"]["hints"]} == {
        "calm": "holds",
        "small": "holds",
    }
    assert data["out"].endswith("masses_configured.toml")
    assert any(line.startswith("+") for line in data["changes"])


def test_wrong_hints_are_told_with_file_and_line(file: Path, capsys: Any) -> None:
    hints = file.with_name("wrong.hints")
    hints.write_text("Hint a {\n  statements { Property p := left.y < 1 }\n}\n")
    assert main(["configure", str(file), "--hints", str(hints)]) == 3
    said = capsys.readouterr().err
    assert "wrong.hints" in said
    assert "line 2, column 30" in said
    assert "'left.x'" in said
    file.write_text(FILE.replace("[master]", '[hints]\ncalm = "smooth(left.y)"\n\n[master]'))
    for command in ("check", "configure"):
        assert main([command, str(file)]) == 3
        assert "line 20" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "--seconds -1",
        "--tolerance 2",
        "--workers 0",
        "--out x.csv",
        "--set left.x=2 --out x.toml",
        "--hints none.hints",
    ],
)
def test_what_makes_no_sense_is_refused(file: Path, words: str, capsys: Any) -> None:
    assert main(["configure", str(file), *words.split()]) == 3
    assert capsys.readouterr().err


def growing(known: Known, draft: Draft) -> None:
    """A way that diverges beside one that does not: a pace of one step, and two stiff couplings."""
    draft.offer("coupling", Option("jacobi", 2.0, (Decision("coupling", up.Jacobi()),)))
    draft.offer(
        "coupling",
        Option("iterated", 1.0, (Decision("coupling", up.Iterated(up.GaussSeidel(), corrections=3)),)),
    )


def test_a_variant_that_diverges_is_said_to_and_others_go_on() -> None:
    # A cubic spring: nothing is proven about it beforehand, and held inputs let it explode.
    one = up.Ode({"x": "v", "v": "-f"}, inputs=["f"], start={"x": 1.0})
    other = up.Ode({"s": "v"}, inputs=["v"], start={"s": 1.0}, outputs={"f": "50*s + 2000*s*s*s"})
    scenario = up.Scenario({"one": one, "other": other}, {"one.f": "other.f", "other.v": "one.v"})
    found = up.configure(
        scenario, step=0.02, until=3.0, rules=(Rule("two", growing), Rule("step", one_step)), workers=1
    )
    states = {str(row.variant.chosen["coupling"]): row.state for row in found.tried}
    assert states["jacobi"] in ("diverged", "unstable")
    assert next(row for row in found.tried if row.state == states["jacobi"]).why
    assert states["iterated"] == "measured"
    assert found.best is not None
    assert found.best.variant.chosen["coupling"] == "iterated"


def one_step(known: Known, draft: Draft) -> None:
    draft.offer("step", Option(known.step))


def test_variants_without_a_valid_order_say_which_edges(file: Path) -> None:
    def both(known: Known, draft: Draft) -> None:
        from upbeat.hints.space import Interpolated

        draft.decide(Interpolated("left.F"), "to see it fail")
        draft.decide(Interpolated("right.x1"), "to see it fail")

    found = up.configure(up.load(file), rules=(Rule("both", both), Rule("step", one_step)))
    assert found.best is None
    assert "no variant can be carried out" in found.reason
    assert "left.F interpolates" in found.reason
    assert "right.x1 interpolates" in found.reason
    with pytest.raises(up.InvalidInput, match="nothing to recommend"):
        found.improved()


def test_units_that_ask_for_the_impossible_are_told_so() -> None:
    told = up.Port("u", up.Causality.INPUT, reactive=True)
    a, b = up.Ode({"x": "u - x"}, inputs=[told]), up.Ode({"x": "u - x"}, inputs=[told])
    scenario = up.Scenario({"a": a, "b": b}, {"a.u": "b.x", "b.u": "a.x"})
    with pytest.raises(up.MasterError, match=r"step a → get a\.x after its step"):
        up.configure(scenario, step=0.1, until=1.0)


def test_interrupted_it_keeps_what_it_has(file: Path) -> None:
    calls = 0

    def progress(text: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 14:
            raise KeyboardInterrupt

    found = up.configure(up.load(file), progress=progress, workers=1)
    assert found.interrupted
    assert found.best is None or found.best.state == "measured"
    assert any(one.state == "measured" for one in found.tried) or "interrupted" in found.reason


@pytest.mark.parametrize(
    ("hints", "longest"),
    [
        ([], 0.4),
        ([up.Hint("small", "left.x < 9")], 0.1),
        ([up.Hint("software", "FMUProperty left.exec_rate == 5 Hz")], 0.2),
        ([up.Hint(unit, f"FMUProperty {unit}.exec_rate == 4 Hz") for unit in ("left", "right")], 0.25),
    ],
)
def test_time_that_is_up_ends_the_search(file: Path, hints: list[up.Hint], longest: float) -> None:
    """With what there is by then: the longest steps are made first, which cost least."""
    found = up.configure(up.load(file), hints, seconds=0.0, workers=1)
    (only,) = (one for one in found.tried if one.state == "measured")
    assert found.best is only
    assert only.step == longest == max(one.step for one in found.tried)
    assert "nothing is known of its error" in found.reason
    assert found.undone


def test_what_a_hint_asks_and_no_run_can_tell_is_said(file: Path) -> None:
    nowhere = up.Hint("nowhere", "sqrt(-1 - left.x*left.x) < 1")
    found = up.configure(up.load(file), nowhere, workers=1)
    assert "0 of 1 hints" in found.reason
    assert "nowhere is undecided, because 'sqrt(-1 - left.x*left.x) < 1' is not a number" in found.reason


def test_several_workers_find_the_same(file: Path) -> None:
    one, two = (up.configure(up.load(file), workers=n) for n in (1, 2))
    assert one.best is not None
    assert two.best is not None
    assert one.best.variant.values == two.best.variant.values
    assert one.work == two.work


def test_objects_that_are_no_hints_are_refused(file: Path) -> None:
    with pytest.raises(up.InvalidInput, match=r"up\.Hint"):
        up.configure(up.load(file), [1])  # type: ignore[list-item]


def test_smooth_signals_are_told_from_rough_ones() -> None:
    time = np.linspace(0.0, 1.0, 401)
    smooth = np.sin(5 * time)
    rough = smooth + 1e-2 * (-1.0) ** np.arange(401)
    steps = np.floor(20 * time) / 20
    trace = Trace.from_arrays(time, {"a.s": smooth, "a.r": rough, "a.c": np.ones(401), "a.k": steps})
    assert smoothness(trace, "a.s") > 0.9
    assert smoothness(trace, "a.c") == 1.0
    assert smoothness(trace, "a.r") < 0
    assert smoothness(trace, "a.k") < 0
    assert math.isnan(smoothness(Trace.from_arrays(time[:4], {"a.s": smooth[:4]}), "a.s"))


def test_rules_are_asked_in_order(file: Path) -> None:
    found = up.configure(up.load(file), rules=(Rule("steps", halved_steps),), workers=1)
    assert found.variants == 7
    assert len(found.tried) == 7
