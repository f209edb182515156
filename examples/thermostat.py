"""A room, a heater and a thermostat written in Python, stepped by hand.

Three ways to give a model: equations (the room), a function (the heater), and a class with the calls
of a unit (the thermostat, which remembers whether it is on). Half-way through somebody opens a window.
"""

from typing import Any

import upbeat as up

room = up.Ode(
    states={"T": {"der": "(power - loss*(T - outside))/capacity", "start": 15.0, "unit": "degC"}},
    inputs={"power": {"unit": "W"}, "loss": {"unit": "W/K", "start": 50.0}},
    parameters={"outside": 5.0, "capacity": 4e5},
)
heater = up.PythonFunction(
    lambda t, u, p: p.rating if u.on else 0.0,
    inputs={"on": {"kind": "boolean"}},
    outputs={"power": {"unit": "kW"}},
    parameters={"rating": 1.5},
)


class Thermostat:
    """On below 19 °C, off above 21 °C, and in between as it was."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.on, self.T = False, 0.0

    def get(self, port: str) -> bool:
        return self.on

    def set(self, port: str, coefficients: Any) -> None:
        self.T = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.on = self.T < 19.0 or (self.on and self.T < 21.0)
        return to


thermostat = up.PythonUnit(
    Thermostat,
    ports=(
        up.Port("T", up.Causality.INPUT, unit="degC"),
        up.Port("on", up.Causality.OUTPUT, up.Kind.BOOLEAN),
    ),
)
scenario = up.Scenario(
    units={"room": room, "heater": heater, "thermostat": thermostat},
    connections={
        "thermostat.T": "room.T",
        "heater.on": "thermostat.on",
        "room.power": "heater.power",  # kW to W, converted
        "room.loss": "window",
    },
    inputs={"window": {"unit": "W/K", "start": 50.0}},
)

with up.start(scenario, pace=60.0, until=8 * 3600.0) as run:
    while run.time < 4 * 3600.0:
        run.step()
    print(f"after four hours: {run['room.T']:.2f} °C, heating: {run['thermostat.on']}")
    run.set("window", 120.0)
    trace = run.finish()

heated = 100 * trace["thermostat.on"].mean()
print(f"after eight hours: {trace['room.T'][-1]:.2f} °C; the heater was on {heated:.0f} % of the time")
print(
    f"between {trace['room.T'][60:].min():.2f} and {trace['room.T'][60:].max():.2f} °C after the first hour"
)
