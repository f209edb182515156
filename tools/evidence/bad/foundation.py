"""Files, units, units of measure, times and result files."""

from __future__ import annotations

from pathlib import Path

from tools.evidence.bad.case import Case

TWO = """upbeat = 1
[units.motor]
states = { w = "(M - d*w)/J" }
inputs = { M = { unit = "N*m" } }
outputs = { w = { value = "w", unit = "rad/s" } }
parameters = { J = 1.0, d = 0.1 }
[units.load]
inputs = { w = { unit = "rad/s" } }
outputs = { M = { value = "1 - 0.2*w", unit = "N*m" } }
[connections]
motor.M = "load.M"
load.w = "motor.w"
[master]
step = 0.01
[run]
until = 1.0
"""
LONG = TWO.replace("until = 1.0", "until = 1e9")
BLOWN = """[units.a]
states = { x = "x*x" }
start = { x = 1.0 }
[master]
step = 0.01
[run]
until = 2.0
"""
PYTHON = """[units.a]
kind = "python"
function = "mine:f"
outputs = ["y"]
[master]
step = 0.1
[run]
until = 1.0
"""
MINE = """def f(t, u, p):
    if t > 0.35:
        raise ValueError("no more fuel")
    return t
"""
CODED = """
model = up.Ode({"x": "-x"}, start={"x": 1.0})
scenario = up.Scenario({"a": model})
"""


def _changed(old: str, new: str, text: str = TWO) -> dict[str, str | bytes]:
    assert old in text
    return {"s.toml": text.replace(old, new)}


def _folder(folder: Path) -> None:
    (folder / "results.csv").mkdir()


CASES = (
    Case(
        "a port that does not exist",
        ("run", "s.toml"),
        ("line 12", "Did you mean 'w'"),
        files=_changed('load.w = "motor.w"', 'load.w = "motor.ww"'),
    ),
    Case(
        "a unit that does not exist",
        ("run", "s.toml"),
        ("line 11", "'laod'", "Did you mean 'load'"),
        files=_changed('"load.M"', '"laod.M"'),
    ),
    Case(
        "several mistakes at once",
        ("check", "s.toml"),
        ("4 problems", "line 5", "line 12", "line 16", "Did you mean 'until'"),
        files={
            "s.toml": TWO.replace('value = "w", unit', 'value = "ww", unit')
            .replace('load.w = "motor.w"', 'load.v = "motor.w"')
            .replace("until = 1.0", "untill = 1.0")
        },
    ),
    Case(
        "two sources for one input",
        ("run", "s.toml"),
        ("line 12", "motor.M"),
        files=_changed('load.w = "motor.w"', 'motor.M = "2*load.M"'),
    ),
    Case(
        "two sources for one input, in Python",
        (
            "python",
            'pass_on = up.Function(inputs=["u"], outputs={"y": "u"})\n'
            'up.Scenario({"a": pass_on}, [("a.u", "1"), ("a.u", "2")])',
        ),
        ("'a.u' has two sources",),
    ),
    Case(
        "units of measure that do not fit",
        ("run", "s.toml"),
        ("motor.M", "load.M", "N*m", "K"),
        files=_changed('"1 - 0.2*w", unit = "N*m"', '"1 - 0.2*w", unit = "K"'),
    ),
    Case(
        "a unit that computes infinity",
        ("run", "s.toml", "--out", "results.csv"),
        ("unit 'a'", "x", "t = 1", "the results so far are in results.csv"),
        exit=4,
        files={"s.toml": BLOWN},
        kept="results.csv",
    ),
    Case("a step of zero", ("run", "s.toml", "--step", "0"), ("--step", "positive"), files={"s.toml": TWO}),
    Case(
        "a negative step", ("run", "s.toml", "--step", "-0.1"), ("--step", "positive"), files={"s.toml": TWO}
    ),
    Case(
        "a step that is not a number",
        ("run", "s.toml", "--step", "nan"),
        ("--step", "finite"),
        files={"s.toml": TWO},
    ),
    Case(
        "a step that is no number at all",
        ("run", "s.toml", "--step", "small"),
        ("--step", "'small'"),
        exit=2,
        files={"s.toml": TWO},
    ),
    Case(
        "a stop time of zero", ("run", "s.toml", "--until", "0"), ("--until", "after"), files={"s.toml": TWO}
    ),
    Case(
        "a stop time that is infinite",
        ("run", "s.toml", "--until", "inf"),
        ("finite",),
        files={"s.toml": TWO},
    ),
    Case(
        "a negative step, in Python",
        ("python", CODED + "up.simulate(scenario, step=-1, until=1.0)"),
        ("step", "positive and finite", "Write for example step=0.01"),
    ),
    Case(
        "no step at all, in Python",
        ("python", CODED + "up.simulate(scenario, until=1.0)"),
        ("'pace' is missing", "pace=0.01"),
    ),
    Case(
        "a step and a pace, in Python",
        ("python", CODED + "up.simulate(scenario, step=0.1, pace=0.1, until=1.0)"),
        ("both 'step' and 'pace'", "keep one"),
    ),
    Case(
        "a setting that does not exist, in Python",
        ("python", CODED + "up.simulate(scenario, step=0.1, until=1.0, recrod=['a.x'])"),
        ("'recrod'", "Did you mean 'record'"),
    ),
    Case(
        "a folder that does not exist",
        ("run", "s.toml", "--out", "no/such/results.csv"),
        ("no/such", "mkdir -p"),
        files={"s.toml": TWO},
    ),
    Case(
        "a result file that is a folder",
        ("run", "s.toml", "--out", "results.csv"),
        ("results.csv", "folder"),
        files={"s.toml": TWO},
        prepare=_folder,
    ),
    Case(
        "a result file of an unknown kind",
        ("run", "s.toml", "--out", "results.xls"),
        (".csv", ".parquet", ".journal"),
        files={"s.toml": TWO},
    ),
    Case("a file that does not exist", ("run", "gone.toml"), ("gone.toml", "No such file")),
    Case(
        "a truncated scenario file",
        ("check", "s.toml"),
        ("s.toml", "line 12"),
        files={"s.toml": TWO[: TWO.index('"motor.w"') + 3]},
    ),
    Case(
        "a truncated result file",
        ("plot", "results.parquet"),
        ("results.parquet",),
        files={"results.parquet": b"PAR1\x00\x01"},
    ),
    Case(
        "a scenario file of 11 MB",
        ("check", "s.toml"),
        ("10 MB", "--input"),
        files={"s.toml": TWO + "#" * 11_000_000},
    ),
    Case(
        "a scenario file that is no text",
        ("check", "s.toml"),
        ("s.toml", "UTF-8"),
        files={"s.toml": b"\xff\xfe\x00"},
    ),
    Case(
        "Ctrl-C",
        ("run", "s.toml", "--out", "results.csv"),
        ("interrupted", "the results so far are in results.csv"),
        exit=130,
        files={"s.toml": LONG},
        kept="results.csv",
        interrupt=True,
    ),
    *(
        Case(
            f"an exception in a unit written in Python, on the engine {engine}",
            ("run", "s.toml", "--allow-python", "--out", "results.csv", "--engine", engine),
            ("unit 'a'", "t = 0.4", "mine.py", "no more fuel", "the results so far are in results.csv"),
            exit=4,
            files={"s.toml": PYTHON, "mine.py": MINE},
            kept="results.csv",
            own=True,
        )
        for engine in ("native", "interpret")
    ),
    Case(
        "a file that names Python code",
        ("run", "s.toml"),
        ("--allow-python",),
        files={"s.toml": PYTHON, "mine.py": MINE},
    ),
    Case(
        "an expression that reaches for more",
        ("check", "s.toml"),
        ("line 3",),
        files=_changed("(M - d*w)/J", "M.__class__"),
    ),
    Case(
        "an expression without end",
        ("check", "s.toml"),
        ("line 3", "200 levels"),
        files=_changed("(M - d*w)/J", "(" * 500 + "M" + ")" * 500),
    ),
    Case(
        "a parameter that does not exist",
        ("run", "s.toml", "--set", "motor.K=3"),
        ("--set motor.K", "'motor'"),
        files={"s.toml": TWO},
    ),
    Case(
        "nothing to record",
        ("run", "s.toml", "--record", "motr.*"),
        ("--record", "'motr.*'", "Did you mean"),
        files={"s.toml": TWO},
    ),
    Case(
        "a table of signals without times",
        ("run", "s.toml", "--input", "w.csv"),
        ("w.csv", "time"),
        files={
            "s.toml": TWO.replace("[connections]", "[inputs]\nwind = 0.0\n[connections]"),
            "w.csv": "wind\n1\n",
        },
    ),
    Case("a command that does not exist", ("rnu", "s.toml"), ("invalid choice: 'rnu'",), exit=2),
    Case(
        "an option that does not exist",
        ("run", "s.toml", "--stop", "3"),
        ("unrecognized arguments: --stop",),
        exit=2,
        files={"s.toml": TWO},
    ),
)
