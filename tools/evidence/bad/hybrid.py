"""Discrete-event units, converters, checkpoints and real time."""

from __future__ import annotations

from pathlib import Path

from tools.evidence.bad.case import Case

MIXED = """[units.button]
kind = "clock"
every = 0.5
[units.lamp]
inputs = ["on"]
outputs = { light = "on" }
[connections]
lamp.on = "button.tick"
[master]
step = 0.1
[run]
until = 1.0
"""
ENDLESS = """
machine = dict(states=["s"], initial="s", inputs={"go": {"event": True}}, outputs={"done": {"event": True}})
talks = up.StateMachine(transitions=[
    {"from": "s", "to": "s", "on": "go", "emit": {"done": True}},
    {"from": "s", "to": "s", "after": 1, "emit": {"done": True}}], **machine)
pair = up.Scenario({"left": talks, "right": talks}, {"left.go": "right.done", "right.go": "left.done"})
"""
MACHINE = """[units.door]
kind = "state_machine"
initial = "closed"
states = ["closed", "open"]
transitions = [
    { from = "closed", to = "opne", after = 1 },
    { from = "closed", to = "open", after = "2 +" },
]
[run]
until = 5.0
"""
KEPT = """
class Plain:
    def __init__(self, name, start, parameters): pass
    def get(self, port): return 1.0
    def advance(self, t, to, early): return to
plain = up.PythonUnit(Plain, (up.Port("y", up.Causality.OUTPUT),))
scenario = up.Scenario({"plain": plain})
"""
SLOW = KEPT.replace("early): return to", "early):\n        import time; time.sleep(0.2); return to")
DECAY = """[units.a]
states = { x = "-x" }
start = { x = 1.0 }
[master]
step = 0.01
[run]
until = 1.0
"""


def _half(folder: Path) -> None:
    """A checkpoint of which the end is missing."""
    import upbeat as up

    scenario = up.Scenario({"a": up.Ode({"x": "-x"})})
    with up.start(scenario, step=0.1, until=1.0, checkpoint=folder / "r.checkpoint") as run:
        run.step()
    whole = (folder / "r.checkpoint").read_bytes()
    (folder / "r.checkpoint").write_bytes(whole[: len(whole) // 2])


CASES = (
    Case(
        "an event connected to a signal",
        ("check", "s.toml"),
        ("line 8", "lamp.on", "button.tick", 'kind = "hold"'),
        files={"s.toml": MIXED},
    ),
    Case(
        "a signal connected to an event",
        (
            "python",
            'up.Scenario({"a": up.Ode({"x": "1"}), "m": up.LastValue()}, {"m.event": "a.x"})',
        ),
        ("m.event", "a.x", "sample"),
    ),
    Case(
        "a state machine with mistakes",
        ("check", "s.toml"),
        ("2 problems", "'opne'", "Did you mean 'open'"),
        files={"s.toml": MACHINE},
    ),
    Case(
        "units that answer each other without end, at one instant",
        ("python", ENDLESS + "up.simulate(pair, until=5.0)"),
        ("left", "right", "t = 1", "most"),
        exit=4,
    ),
    Case(
        "an order of units that do not exist",
        ("python", ENDLESS + 'up.simulate(pair, until=5.0, simultaneous=["left", "rihgt"])'),
        ("'rihgt'", "Did you mean 'right'"),
    ),
    Case(
        "checkpoints of a unit that cannot turn its state into bytes",
        ("python", KEPT + 'up.simulate(scenario, step=0.1, until=1.0, checkpoint="r.checkpoint")'),
        ("plain", "bytes"),
    ),
    Case(
        "a checkpoint that does not exist",
        ("resume", "gone.checkpoint"),
        ("gone.checkpoint",),
    ),
    Case(
        "a checkpoint of which half is missing",
        ("resume", "r.checkpoint"),
        ("r.checkpoint",),
        prepare=_half,
    ),
    Case(
        "a checkpoint every 0 seconds",
        ("run", "s.toml", "--checkpoint", "every=0s"),
        ("every",),
        files={"s.toml": DECAY},
    ),
    Case(
        "a checkpoint in words that mean nothing",
        ("run", "s.toml", "--checkpoint", "often"),
        ("every=60s",),
        files={"s.toml": DECAY},
    ),
    Case(
        "real time that goes backwards",
        ("run", "s.toml", "--real-time", "-1"),
        ("more than 0",),
        files={"s.toml": DECAY},
    ),
    Case(
        "a real-time run that falls behind",
        (
            "python",
            SLOW + 'late = up.RealTime(late="stop")\n'
            'trace = up.simulate(scenario, step=0.01, until=1.0, real_time=late, out="r.csv")\n'
            "print(trace.outcome.value)\nsys.exit(0 if trace.outcome.ok else 4)",
        ),
        ("fell behind real time",),
        exit=4,
        kept="r.csv",
    ),
)
