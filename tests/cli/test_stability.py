"""`upbeat stability` and `upbeat run --certify`, as a user types them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from upbeat.cli.console import Waiting
from upbeat.cli.main import main

EXAMPLE = str(Path(__file__).parents[2] / "examples/coupled_masses.toml")


def test_the_verdict_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stability", EXAMPLE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Stable with steps of 0.1 s: every motion decays")
    assert any(line.startswith("  carried by ") and "right.x" in line for line in lines)
    assert any(line.startswith("  stable steps ") and "up to 0.95" in line for line in lines)


def test_json_has_the_names_that_others_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stability", EXAMPLE, "--json", "--step", "1.2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "unstable"
    assert found["spectral_radius"] > 1
    assert found["largest_stable_step"] == pytest.approx(0.9524, abs=1e-4)
    assert found["stable_steps"][0][1] == found["largest_stable_step"]
    assert found["changes"] == ["take steps of at most 0.9524 s"]


def test_a_comparison_a_map_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "s.png"
    arguments = ["stability", EXAMPLE, "--compare", "--scan", "0.5:1.2:5", "--plot", str(picture)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "* Gauss-Seidel, linear inputs" in out
    assert "the largest stable step rises from 0.9524 s to" in out
    assert picture.stat().st_size > 10_000
    mapped = tmp_path / "m.svg"
    assert (
        main(
            [
                "stability",
                EXAMPLE,
                "--map",
                "right.dc=0:4:3",
                "--scan",
                "0.1:1:4",
                "--plot",
                str(mapped),
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found["map"]["spectral_radius"]) == 3
    assert len(found["map"]["steps"]) == 4
    assert mapped.exists()


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--scan", "1:0.1"], 2, "is not a range"),
        (["--at", "noon"], 2, "neither start nor rest nor a time"),
        (["--scan", "0.1:1", "--no-scan"], 3, "contradict"),
        (["--map", "right.dc"], 3, "is not a range"),
        (["--map", "right.nothing=0:1", "--scan", "0.1:0.2:2"], 3, "nothing"),
        (["--plot", "x.gif"], 3, ".png"),
        (["--lift", "2"], 3, "--steps 0.05,0.1"),
        (["--steps", "0.1,0.2", "--scan", "0.1:1"], 3, "--scan: without effect"),
        (["--steps", "0.1,0.2", "--step", "0.1"], 3, "--step: without effect"),
        (["--steps", "0.1,0.2", "--no-scan"], 3, "--no-scan: without effect"),
        (["--steps", "0.1,0.2", "--compare", "--along"], 3, "--along, --compare: without effect"),
        (["--seconds", "-1"], 3, "seconds are a number from 0 on, such as 60, not -1"),
        (["--seconds", "nan"], 3, "seconds are a number from 0 on, such as 60, not nan"),
        (["--seconds", "5", "--no-scan"], 3, "--no-scan looks for nothing"),
        (["--steps", "0.1,0.2", "--map", "right.dc=0:1"], 3, "leave out --steps"),
        (["--block", "step", "--map", "right.dc=0:1"], 3, "leave them out, or --block"),
        (["--at", "1e9"], 3, "not a time of the run (0 to "),
        (["--at", "-1"], 3, "not a time of the run (0 to "),
    ],
)
def test_wrong_words_are_told(
    words: list[str], code: int, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = main(["stability", EXAMPLE, *words])
    except SystemExit as exit:  # from the parser of the command line
        ended = exit.code  # type: ignore[assignment]
    assert ended == code
    assert what in capsys.readouterr().err


def test_a_certified_run_says_so_and_an_unstable_one_does_not_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", EXAMPLE, "--certify"]) == 0
    assert "certified. Stable with steps of 0.1 s" in capsys.readouterr().err
    out = tmp_path / "r.csv"
    assert main(["run", EXAMPLE, "--certify", "--step", "1.2", "--out", str(out)]) == 3
    assert "take steps of at most 0.9524 s" in capsys.readouterr().err
    assert not out.exists()


def test_what_is_not_proven_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'upbeat = 1\n[units.a]\nstates.x = { der = "-x*x*x - x", start = 1.0 }\n'
        "[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"
    )
    assert main(["run", str(file), "--certify"]) == 0
    told = capsys.readouterr().err
    assert "not proven to be stable. Undecided" in told
    assert "the start is not a point of rest" in told
    assert main(["run", str(file), "--certify", "--at", "rest"]) == 0
    assert "not proven to be stable. Locally stable" in capsys.readouterr().err


OSCILLATOR = """
upbeat = 1
[units.o]
states.x = { der = "v", start = 2.0 }
states.v = "(1 - x*x)*v - x"
[master]
step = 0.1
[run]
until = 10.0
"""


def test_the_point_is_honoured_and_named_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Van der Pol: slopes at the start, which it leaves, say nothing; at rest motions grow."""
    file = tmp_path / "o.toml"
    file.write_text(OSCILLATOR)
    several = ["stability", str(file), "--steps", "0.05,0.1", "--quiet"]
    assert main(several) == 4
    assert "the start is not a point of rest" in capsys.readouterr().err
    assert main([*several, "--at", "rest"]) == 0
    assert capsys.readouterr().out.startswith("Locally unstable: for small motions around rest, ")
    assert main(["stability", str(file), "--at", "rest", "--quiet"]) == 0
    assert "Locally unstable with steps of 0.1 s: for small motions around rest" in capsys.readouterr().out
    assert main(["run", str(file), "--certify", "--at", "rest", "--quiet"]) == 0
    assert "Locally unstable" in capsys.readouterr().err
    assert main(["run", str(file), "--at", "rest", "--quiet"]) == 3
    assert "--certify" in capsys.readouterr().err


def test_a_map_is_shown_in_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stability", EXAMPLE, "--no-scan", "--map", "right.dc=0:4:9", "--scan", "0.1:1.2:4"]) == 3
    capsys.readouterr()
    assert main(["stability", EXAMPLE, "--map", "right.dc=0:4:9", "--scan", "0.1:1.2:4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("Spectral radius; ! unstable"))
    assert lines[first + 1].split() == ["right.dc", "\\", "step", "0.1", "0.2289", "0.5241", "1.2"]
    rows = [line.split() for line in lines[first + 2 : first + 10]]
    assert (rows[0][0], rows[-1][0]) == ("0", "4")
    marked = [cell for row in rows for cell in row[1:] if cell.endswith("!")]
    assert marked
    assert all(float(cell[:-1]) > 1.0 for cell in marked)
    assert all(float(cell) < 1.0 for row in rows for cell in row[1:] if not cell.endswith(("!", "?")))


def test_a_file_with_a_monitor_is_judged_by_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "switched.toml"
    pace = (
        'pace = { kind = "monitored", pace = { kind = "event_driven" }, steps = [0.1, 0.2], leads = LEADS }'
    )
    for leads, verdict in (("[[0, 1], [0, -1]]", "stable"), ("[[0, 0]]", "unstable")):
        file.write_text(SWITCHED.replace("step = 0.1", pace.replace("LEADS", leads)))
        assert main(["stability", str(file), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["verdict"], found["proven"]) == (verdict, verdict == "stable")
        assert main(["stability", str(file)]) == 0
        assert capsys.readouterr().out.startswith(verdict.capitalize())
        picture = tmp_path / f"{verdict}.svg"
        assert main(["stability", str(file), "--plot", str(picture)]) == 0
        assert f"picture: {picture}" in capsys.readouterr().out
        assert f"What the pace lets through: {verdict}" in picture.read_text()
    for words in (["--compare"], ["--ideal"], ["--block", "step"], ["--scan", "0.1:1"], ["--no-scan"]):
        assert main(["stability", str(file), *words]) == 3
        error = capsys.readouterr().err
        assert f"{words[0]}: without effect" in error
        assert "--step 0.1" in error
    assert main(["stability", str(file), "--lift", "2"]) == 3
    assert "--steps 0.05,0.1" in capsys.readouterr().err


NEVER = """
[events.never]
when = "plant.x > 1e9"
"""


def test_a_table_is_found_inside_another_pace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What goes back to events afterwards makes the steps of the pace inside."""
    file = tmp_path / "switched.toml"
    decays = '{ kind = "pattern", steps = [0.1, 0.2] }'
    grows = '{ kind = "monitored", pace = { kind = "event_driven" }, steps = [0.1, 0.2], leads = [[0, 0]] }'
    local = "the scenario is not linear, and the proof holds near the start only"
    cases = ((decays, "stable", local), (grows, "unstable", "some sequence grows near the start"))
    for pace, verdict, why in cases:
        found = []
        for made in (pace, f'{{ kind = "revised", pace = {pace} }}'):
            file.write_text(SWITCHED.replace("step = 0.1", f"pace = {made}") + NEVER)
            assert main(["stability", str(file), "--json"]) == 0
            found.append(json.loads(capsys.readouterr().out))
            assert main(["run", str(file), "--certify"]) == 0  # local, because there is an event: a warning
            assert f"not proven to be stable: {why}" in capsys.readouterr().err
        assert found[0]["verdict"] == verdict
        assert found[0] == found[1]


def test_a_scenario_without_states_is_stable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.toml"
    file.write_text(
        'upbeat = 1\n[units.f]\nkind = "function"\ninputs = ["u"]\noutputs = { y = "2*u" }\n'
        "[master]\nstep = 0.1\n[run]\nuntil = 1.0\n"
    )
    assert main(["stability", str(file), "--steps", "0.1,0.2"]) == 0
    assert capsys.readouterr().out.startswith(
        "Stable: if steps of 0.1, 0.2 s follow each other in any order, "
    )


def test_how_far_it_has_come_is_shown_to_those_who_wait() -> None:
    now = [0.0]
    out = io.StringIO()
    with Waiting(out, clock=lambda: now[0]) as waiting:
        for k in range(12):
            waiting(f"{k} looked at")
            now[0] += 1.0
    assert out.getvalue() == "5 looked at\n10 looked at\n"
    with Waiting(out := io.StringIO(), quiet=True, clock=lambda: now[0]) as waiting:
        now[0] += 100.0
        waiting("nothing")
    assert out.getvalue() == ""


def test_steps_of_several_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the spectral radius of the one that grows, judged alone."""
    file = tmp_path / "switched.toml"
    file.write_text(SWITCHED)
    picture = tmp_path / "automaton.png"
    command = ["stability", str(file), "--steps", "0.2,0.1", "--lift", "2"]
    assert main([*command, "--json", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["stability", str(file), "--step", "0.2", "--no-scan", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert (found["verdict"], alone["verdict"]) == ("unstable", "unstable")
    assert found["growing"][0] == {"steps": [0.2], "growth": pytest.approx(alone["spectral_radius"])}
    assert found["proven"]
    assert picture.stat().st_size > 5000
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "forbidden  0.2 → 0.2" in text
    assert 'pace = { kind = "monitored"' in text
    line = next(line.strip() for line in text.splitlines() if line.strip().startswith("pace ="))
    file.write_text(SWITCHED.replace("step = 0.1", line))
    assert main(["run", str(file), "--certify"]) == 0
    assert "certified. Every sequence of steps" in capsys.readouterr().err
    file.write_text(SWITCHED.replace("step = 0.1", line.replace("-1", "0")))  # somebody else's table
    assert main(["run", str(file), "--certify"]) == 3
    assert "0.2 → 0.2 s through, which grow when repeated" in capsys.readouterr().err


def test_steps_of_which_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "switched.toml"
    file.write_text(SWITCHED)
    assert main(["stability", str(file), "--steps", "0.2"]) == 0
    assert capsys.readouterr().out.startswith("Unstable: with steps of 0.2 s some sequence grows")
    picture = tmp_path / "x.png"
    assert main(["stability", str(file), "--steps", "0.2", "--plot", str(picture), "--json"]) == 0
    answer = capsys.readouterr()
    found = json.loads(answer.out)
    assert (found["verdict"], found["plot"]) == ("unstable", None)
    assert "nothing to draw" in answer.err
    assert not picture.exists()


SWITCHED = """
upbeat = 1

[units.plant]
states.x = { der = "v", start = 1.0 }
states.v = "u + 20*x"
inputs = ["u"]
outputs = ["x", "v"]

[units.control]
kind = "function"
inputs = ["x", "v"]
outputs = { u = "-60*x - 12*v" }

[connections]
plant.u = "control.u"
control.x = "plant.x"
control.v = "plant.v"

[master]
step = 0.1

[run]
until = 5.0
"""


FREE = """
upbeat = 1
[units.cart]
states.x = { der = "v", start = 1.0 }
states.v = "-v"
[master]
step = 0.1
[run]
until = 10.0
"""


def test_every_answer_in_json_has_the_promised_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "switched.toml"
    file.write_text(SWITCHED.replace("step = 0.1", 'pace = { kind = "pattern", steps = [0.1, 0.2] }'))
    for command in (
        [EXAMPLE, "--scan", "0.8:1.1"],
        [EXAMPLE, "--no-scan"],
        [EXAMPLE, "--steps", "0.5,1.0"],
        [str(file)],
    ):
        assert main(["stability", *command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {"verdict", "spectral_radius", "largest_stable_step", "local"} <= set(found)


def test_the_margin_has_the_sign_of_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A free body: its other motion decays, which is no margin."""
    file = tmp_path / "free.toml"
    file.write_text(FREE)
    for words, verdict in (
        ([str(file)], "undecided"),
        ([EXAMPLE], "stable"),
        ([EXAMPLE, "--step", "1.2"], "unstable"),
    ):
        assert main(["stability", *words, "--json", "--no-scan"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["verdict"] == verdict
        sign = (found["margin"] > 0) - (found["margin"] < 0)
        assert sign == {"stable": 1, "undecided": 0, "unstable": -1}[verdict]


@pytest.mark.parametrize(("scan", "end", "beyond"), [("0.05:0.2", 0.2, True), ("0.05:2", 0.27853, False)])
def test_the_end_of_the_search_is_no_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scan: str, end: float, beyond: bool
) -> None:
    """RK4 on x' = -10·x is stable up to 2.7853 times its time constant."""
    file = tmp_path / "s.toml"
    file.write_text(
        'upbeat = 1\nmaster.step = 0.1\nrun.until = 1.0\n[units.a]\nstates.x = "-10*x"\nsolver = "rk4"\n'
    )
    command = ["stability", str(file), "--compare", "--scan", scan]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for one in (found, next(one for one in found["alternatives"] if one["present"])):
        assert one["largest_stable_step"] == pytest.approx(end, abs=1e-4)
        assert one["open"] is beyond
    assert main(command) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("* "))
    assert row.endswith("0.2 and perhaps beyond" if beyond else "0.2785")


def test_local_verdicts_are_labelled_in_a_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "o.toml"
    file.write_text(OSCILLATOR)
    assert main(["stability", str(file), "--compare", "--no-scan", "--at", "rest"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Locally unstable with steps of 0.1 s: for small motions around rest, ")
    assert "locally unstable" in next(line for line in text.splitlines() if line.startswith("* "))


def test_the_sizes_will_do_for_a_file_without_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.toml"
    file.write_text('upbeat = 1\n[units.a]\nstates.x = "-x"\n[run]\nuntil = 1.0\n')
    assert main(["stability", str(file), "--steps", "0.1,0.2", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("Stable: if steps of 0.1, 0.2 s follow")


def test_a_pace_that_chooses_is_not_told_to_take_other_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--step would change the run that is to be certified."""
    file = tmp_path / "s.toml"
    file.write_text(SWITCHED.replace("step = 0.1", 'pace = { kind = "error_control", first = 0.01 }'))
    assert main(["run", str(file), "--certify", "--quiet"]) == 0
    warned = capsys.readouterr().err
    assert "--steps 0.01,0.02" in warned
    assert "monitored" in warned
    assert "--step 0.01" not in warned.replace("--steps", "")


LOOPED = """
upbeat = 1
[units.plant]
states.x = { der = "u", start = 1.0 }
inputs = ["u"]
outputs = ["x"]
solver = "rk4"
[units.control]
inputs = ["y"]
outputs = { u = "-4*y" }
[connections]
plant.u = "control.u"
control.y = "plant.x"
[master]
coupling = { kind = "iterated" }
inputs = "hold"
step = 0.5
[run]
until = 10.0
"""


@pytest.mark.parametrize("more", [[], pytest.param(["--compare"], marks=pytest.mark.slow)])
def test_an_iteration_without_an_end_is_undecided_and_other_steps_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """One round of the iteration multiplies an error by 4 times the step: it ends only below 0.25 s."""
    file = tmp_path / "l.toml"
    file.write_text(LOOPED)
    picture = tmp_path / "l.png"
    scan = [] if more else ["--scan", "0.05:0.5:12"]
    assert main(["stability", str(file), "--json", *more, *scan, "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["spectral_radius"], found["mode"]) == ("undecided", None, None)
    assert found["margin"] == 0
    assert "did not end within 50 rounds" in found["why"]
    assert 0.1 < found["largest_stable_step"] < 0.25
    assert found["open"] is False
    assert picture.exists()
    assert main(["stability", str(file), "--no-scan"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Undecided with steps of 0.5 s: repeating the step until")
    assert "unknown: there is no matrix" in text
    assert main(["stability", str(file), "--step", "0.1", "--json", "--no-scan"]) == 0
    assert json.loads(capsys.readouterr().out)["why"] is None
