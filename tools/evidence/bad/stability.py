"""Verdicts on stability: questions that have no answer, and units that cannot be asked."""

from __future__ import annotations

from tools.evidence.bad.case import Case
from tools.evidence.bad.cores import PAIR

UNIT = """
class Plain:
    def __init__(self, name, start, parameters): self.x, self.u = 1.0, 0.0
    def get(self, port): return self.x
    def set(self, port, coefficients): self.u = coefficients[0]
    def advance(self, t, to, early):
        self.x += (to - t) * (self.u - self.x)
        return to
    def save(self): return {"x": self.x, "u": self.u}
    def restore(self, token): RESTORE
ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
plain = up.PythonUnit(Plain, ports, abilities=ABILITIES)
ode = up.Ode({"x": "u - x"}, inputs=["u"])
pair = up.Scenario({"plain": plain, "ode": ode}, {"plain.u": "ode.x", "ode.u": "plain.y"})
up.stability_of(pair, pace=0.1)
"""


def unit(abilities: str, restore: str) -> str:
    """A scenario with a unit in Python, which is to be judged."""
    return UNIT.replace("ABILITIES", abilities).replace("RESTORE", restore)


CASES = (
    Case(
        "stability of a file that is not there",
        ("stability", "nothing.toml"),
        ("cannot read 'nothing.toml'",),
    ),
    Case(
        "stability with steps of nothing",
        ("stability", "pair.toml", "--step", "0"),
        ("--step", "must be positive and finite, not 0.0"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "stability at a time beyond the run",
        ("stability", "pair.toml", "--at", "5"),
        ("5 s is not a time of the run (0 to 1 s)", "--at"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "a lift without several steps",
        ("stability", "pair.toml", "--lift", "2"),
        ("--lift: without effect", "--steps 0.05,0.1"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "a lift of a negative degree",
        ("stability", "pair.toml", "--steps", "0.1,0.2", "--lift", "-1"),
        ("the degree of a lift is a whole number from 0 on, not -1",),
        files={"pair.toml": PAIR},
    ),
    Case(
        "one size and several sizes of steps",
        ("stability", "pair.toml", "--steps", "0.1,0.2", "--step", "0.1"),
        ("--step: without effect", "leave out --steps"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "a search for a negative time",
        ("python", "up.joint_radius(up.SwitchedSystem([[[0.5]]]), seconds=-1)"),
        ("seconds are a number from 0 on", "not -1"),
    ),
    Case(
        "bounds that are to be nothing apart",
        ("python", "up.joint_radius(up.SwitchedSystem([[[0.5]]]), tolerance=0)"),
        ("tolerance is a number between 0 and 1", "1e-5"),
    ),
    Case(
        "no steps to be certified",
        ("python", "up.certified(up.Scenario({'a': up.Ode({'x': '-x'})}), None)"),
        ("steps are a list of sizes", "[0.05, 0.1]"),
    ),
    Case(
        "a misspelt setting where the pace is missing, too",
        ("python", "up.stability_of(up.Scenario({'a': up.Ode({'x': '-x'})}), couplin='jacobi')"),
        ("there is no setting 'couplin'", "coupling"),
    ),
    Case(
        "steps that are no numbers",
        ("stability", "pair.toml", "--steps", "0.1,x"),
        ("'0.1,x' is not a list of steps", "0.05,0.1"),
        exit=2,
        files={"pair.toml": PAIR},
    ),
    Case(
        "a map without a range",
        ("stability", "pair.toml", "--map", "damper.d"),
        ("--map damper.d", "LOW:HIGH"),
        files={"pair.toml": PAIR},
    ),
    Case(
        "stability of a unit that cannot be set back",
        ("python", unit("[]", "pass")),
        ("plain", "set back"),
    ),
    Case(
        "stability of a unit that says it can be set back, and is not",
        ("python", unit("[up.Ability.ROLLBACK]", "pass")),
        ("'plain' cannot be linearised: after restore()",),
    ),
    Case(
        "a certified run that is unstable",
        ("run", "pair.toml", "--certify", "--step", "5"),
        ("Unstable with steps of 5 s", "What to change", "Leave out --certify"),
        files={"pair.toml": PAIR},
    ),
)
