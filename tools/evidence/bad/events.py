"""Events inside equations and between units, and the ways to meet them."""

from __future__ import annotations

from tools.evidence.bad.case import Case

BALL = """[units.ball]
states = { x = "v", v = "-9.81" }
start = { x = 1.0 }
[events.bounce]
when = "ball.x <= 0 and ball.v < 0"
then = { ball.v = "-0.8*ball.v" }
[master]
step = 0.1
[run]
until = 1.0
"""
CODED = """
ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0})
bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
scenario = up.Scenario({"ball": ball}, events={"bounce": bounce})
"""
BLIND = """
class Clock:
    def __init__(self, name, start, parameters): self.t = start
    def get(self, port): return self.t
    def advance(self, t, to, early):
        self.t = to
        return to
clock = up.PythonUnit(Clock, (up.Port("t", up.Causality.OUTPUT),))
scenario = up.Scenario({"clock": clock}, events={"noon": {"when": "clock.t >= 0.55"}})
"""


def _changed(old: str, new: str) -> dict[str, str | bytes]:
    assert old in BALL
    return {"s.toml": BALL.replace(old, new)}


CASES = (
    Case(
        "a condition over a port that does not exist",
        ("check", "s.toml"),
        ("line 5", "'ball.y' does not exist", "The outputs of 'ball' are: v, x."),
        files=_changed("ball.x <= 0", "ball.y <= 0"),
    ),
    Case(
        "a condition that is no condition",
        ("check", "s.toml"),
        ("line 5", "bounce"),
        files=_changed("ball.x <= 0 and ball.v < 0", "ball.x + 1"),
    ),
    Case(
        "a condition that asks real numbers to be equal",
        ("check", "s.toml"),
        ("line 5", "=="),
        files=_changed("ball.x <= 0 and ball.v < 0", "ball.x == 0"),
    ),
    Case(
        "an event that changes what cannot be changed",
        ("check", "s.toml"),
        ("line 6", "ball.g"),
        files=_changed('ball.v = "-0.8*ball.v"', 'ball.g = "1"'),
    ),
    Case(
        "an event that changes a black box",
        (
            "python",
            BLIND.replace(
                '{"when": "clock.t >= 0.55"}', '{"when": "clock.t >= 0.55", "then": {"clock.t": "0"}}'
            ),
        ),
        ("clock.t", "then"),
    ),
    Case(
        "a way to meet events that does not exist",
        ("run", "s.toml", "--events", "revise"),
        ("'revise'", "'revised'"),
        exit=2,
        files={"s.toml": BALL},
    ),
    Case(
        "the same, in Python",
        ("python", CODED + 'up.simulate(scenario, step=0.1, until=1.0, events="revise")'),
        ("'revise'", '"revised"'),
    ),
    Case(
        "going back to events with a unit that cannot be set back",
        ("python", BLIND + 'up.simulate(scenario, step=0.1, until=1.0, events="revised")'),
        ("clock", "set back"),
    ),
    Case(
        "looking ahead without a usual step",
        ("python", CODED + 'up.simulate(scenario, pace=up.ErrorControl(), until=1.0, events="look_ahead")'),
        ("look_ahead", "pace=0.01"),
    ),
    Case(
        "a leader that cannot stop at an event",
        (
            "python",
            BLIND + 'up.simulate(scenario, step=0.1, until=1.0, coupling=up.Interruptible(leader="clock"))',
        ),
        ("'clock'", "cannot stop"),
    ),
    Case(
        "bounces that become ever shorter",
        ("python", CODED + 'up.simulate(scenario, pace=up.LookAhead(0.1), until=10.0, out="r.csv")'),
        ("bounce",),
        exit=4,
        kept="r.csv",
    ),
    Case(
        "events inside one step without end",
        (
            "python",
            'ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0}, events={"bounce": '
            '{"when": "x <= 0 and v < 0", "then": {"v": "-0.8*v"}}})\n'
            'up.simulate(up.Scenario({"ball": ball}), step=10.0, until=10.0)',
        ),
        ("unit 'ball'", "bounce"),
        exit=4,
    ),
    Case(
        "a condition in Python that is no number",
        (
            "python",
            CODED.replace('"ball.x <= 0 and ball.v < 0"', 'lambda x: "high"').replace(
                '"then"', '"of": ["ball.x"], "then"'
            )
            + "up.simulate(scenario, step=0.1, until=1.0)",
        ),
        ("bounce",),
        exit=4,
    ),
)
