"""An input approximation of one's own: noise of a source is averaged away before a unit sees it."""

from dataclasses import dataclass
from math import inf

import upbeat as up
from upbeat.extend import Cell, Let, Op, Place, Registers, Trajectory, apply


@dataclass(frozen=True)
class Smoothed:
    """Held at a running mean: each new value counts with `weight`, all before it with the rest."""

    weight: float
    derivatives = 0

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        mean = registers.new(f"{place.name}′mean", size=place.size)
        since = registers.new(f"{place.name}′since", start=(-inf,))
        known = apply(Op.GT, Cell(since), -inf)
        lets = []
        for i in range(place.size):
            value = Cell(place.value + i)
            mixed = self.weight * value + (1.0 - self.weight) * Cell(mean + i)
            lets.append(Let(mean + i, apply(Op.WHERE, known, mixed, value)))
        # Writing minus infinity into `since` is how an event makes a course forget what was before it.
        return Trajectory(by=(mean,), late=(*lets, Let(since, Cell(place.next))), history=(since,))

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return self.extrapolate(
            place, registers
        )  # the value at the end of the step counts no more than others


source = up.Ode({"x": "0"}, start={"x": 1.0}, outputs={"y": "1 + (-1)**floor(time/0.1 + 0.5)"})
meter = up.Ode({"sum": "u"}, inputs=["u"], outputs={"sum": "sum", "seen": "u"})
noisy = up.Scenario({"source": source, "meter": meter}, {"meter.u": "source.y"})
trace = up.simulate(noisy, ports={"meter.u": Smoothed(0.25)}, pace=0.1, until=0.5)
print("sent:", ", ".join(f"{value:.4f}" for value in trace["source.y"]))
print("seen:", ", ".join(f"{value:.4f}" for value in trace["meter.seen"]))
