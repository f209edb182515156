"""Several cores, schedules, and outputs that are declared wrongly."""

from __future__ import annotations

from tools.evidence.bad.case import Case

PAIR = """upbeat = 1
[units.mass]
states = { x = "v", v = "F - x" }
start = { x = 1.0 }
inputs = ["F"]
[units.damper]
inputs = ["v"]
outputs = { F = "-0.4*v" }
[connections]
"mass.F" = "damper.F"
"damper.v" = "mass.v"
[master]
step = 0.1
[run]
until = 1.0
"""
LIAR = """
class Gain:
    def __init__(self, name, start, parameters): self.u = 0.0
    def get(self, port): return 2.0 * self.u
    def set(self, port, coefficients): self.u = coefficients[0]
    def advance(self, t, to, early): return to
"""
LIES = """upbeat = 1
[units.source]
outputs = { y = "time" }
[units.gain]
kind = "python"
class = "liar:Gain"
inputs = ["u"]
outputs = { y = { depends = [] } }
[connections]
"gain.u" = "source.y"
[master]
step = 0.1
[run]
until = 1.0
"""
FAILS = """upbeat = 1
[models.mass]
states = { x = "v", v = "F - x" }
start = { x = 1.0 }
inputs = ["F"]
[units.a]
model = "mass"
[units.b]
model = "mass"
[units.bad]
states = { x = "1" }
outputs = { y = "1/(0.75 - x)" }
solver = "euler"
[connections]
"a.F" = "-b.x"
"b.F" = "-a.x"
[master]
step = 0.0625
[run]
until = 2.0
"""
"""`bad` divides by zero in the twelfth step."""
LOST = """
class Lost:
    def __init__(self, name, start, parameters): pass
    def get(self, port): return 0.0
    def advance(self, t, to, early):
        if t > 0.35: raise ValueError("nothing left to count")
        return to
mass = up.Ode({"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"])
lost = up.PythonUnit(Lost, (up.Port("y", up.Causality.OUTPUT),))
units = {"a": mass, "b": mass, "lost": lost}
up.simulate(up.Scenario(units, {"a.F": "-b.x", "b.F": "-a.x"}), step=0.1, until=2.0, cores=2)
"""

CASES = (
    Case(
        "no cores at all",
        ("run", "pair.toml", "--cores", "0"),
        ("--cores", "a whole number from 1", "not 0"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "a schedule for no cores",
        ("schedule", "pair.toml", "--cores", "0"),
        ("cores must be a whole number from 1", "not 0"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "a number of cores in words",
        ("run", "pair.toml", "--cores", "two"),
        ("--cores", "'two'"),
        exit=2,
        files={"pair.toml": PAIR},
    ),
    Case(
        "half a core in a file",
        ("check", "pair.toml"),
        ("cores", "0.5"),
        files={"pair.toml": PAIR + "cores = 0.5\n"},
    ),
    Case(
        "two cores for the interpreter",
        ("run", "pair.toml", "--cores", "2", "--engine", "interpret"),
        ("cores = 2 is for the native engine", "Leave out one of the two"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "an output that depends on an input, and is declared not to",
        ("check", "lies.toml", "--deep", "--allow-python"),
        ("gain", "output 'y' changes as soon as input 'u' does, but is declared not to"),
        files={"lies.toml": LIES, "liar.py": LIAR},
    ),
    Case(
        "a unit that fails on one of two cores",
        ("run", "fails.toml", "--cores", "2", "--engine", "native", "--out", "fails.csv"),
        ("bad", "t = 0.75"),
        exit=4,
        files={"fails.toml": FAILS},
        kept="fails.csv",
    ),
    Case(
        "a Python unit that raises an error of its own, on two cores",
        ("python", LOST),
        ("lost", "nothing left to count"),
        exit=4,
    ),
    Case(
        "delays at an input that does not exist",
        ("check", "pair.toml"),
        ("a delay is asked for 'mass.G'", "Did you mean 'mass.F'"),
        files={
            "pair.toml": PAIR.replace(
                "step = 0.1", 'step = 0.1\ncoupling = { kind = "refined", delays = ["mass.G"] }'
            )
        },
    ),
    Case(
        "a method of Refined that does not exist",
        ("check", "pair.toml"),
        ("'vs'", "sv"),
        files={
            "pair.toml": PAIR.replace(
                "step = 0.1", 'step = 0.1\ncoupling = { kind = "refined", method = "vs" }'
            )
        },
    ),
)
