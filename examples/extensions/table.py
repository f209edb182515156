"""A kind of unit of one's own: a signal from a table, straight from line to line."""

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import upbeat as up
from upbeat.extend import Causality, ModelError, Port


@dataclass(frozen=True)
class Table:
    """The model: its output `y` goes through the points of `table`, pairs of a time and a value."""

    table: tuple[tuple[float, float], ...]
    ports = (Port("y", Causality.OUTPUT),)
    abilities = frozenset[up.Ability]()

    def instantiate(self, name: str, start: float) -> "Reader":
        return Reader(self.table, start)

    def with_values(self, values: Mapping[str, Any]) -> "Table":
        if unknown := values.keys() - {"table"}:
            raise ModelError(f"a table has no {', '.join(sorted(unknown))}; it has: table")
        return replace(self, **values)


@dataclass
class Reader:
    """The unit."""

    table: tuple[tuple[float, float], ...]
    time: float

    def get(self, port: str) -> float:
        place = min(max(bisect(self.table, (self.time,)), 1), len(self.table) - 1)
        (t0, y0), (t1, y1) = self.table[place - 1 : place + 1]
        return y0 + (y1 - y0) * (self.time - t0) / (t1 - t0)

    def advance(self, t: float, to: float, early: bool) -> float:
        self.time = to
        return to


ramp, tank = Table(((0.0, 0.0), (1.0, 2.0), (3.0, 0.0))), up.Ode({"level": "flow"}, inputs=["flow"])
filling = up.Scenario({"ramp": ramp, "tank": tank}, {"tank.flow": "ramp.y"})
trace = up.simulate(filling, coupling="gauss_seidel", inputs="linear", pace=0.5, until=3.0)
print("level:", ", ".join(f"{level:.4f}" for level in trace["tank.level"]))
