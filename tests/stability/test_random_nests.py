"""Random scenarios in scenarios: their runs are made of the motions that the matrix has, and of no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up

STEP = 0.25
SAME = 1e-7
"""Less than this part of a signal is rounding."""
COUPLINGS = (
    up.Jacobi(),
    up.Jacobi("lagged"),
    up.GaussSeidel(),
    up.GaussSeidel(("b", "a")),
    up.Iterated(up.Jacobi("lagged"), corrections=2),
    up.Iterated(up.GaussSeidel(), corrections=1),
)
INPUTS = (up.Hold(), up.Linear(), up.Polynomial(2))


class Drawing:
    """Draws linear scenarios, of a unit `a`, which may be a nest, and a unit `b`."""

    def __init__(self, seed: int) -> None:
        self._turn = np.random.default_rng(seed)

    def one_of(self, choices: Any) -> Any:
        return choices[self._turn.integers(len(choices))]

    def _gain(self, most: float = 0.6) -> str:
        return f"({self._turn.uniform(-most, most):.3f})"

    def _unit(self) -> up.Ode:
        names = [f"x{i}" for i in range(self._turn.integers(1, 3))]
        mixed = " + ".join(f"{self._gain(1.0)}*{name}" for name in names)
        direct = f" + {self._gain(0.3)}*u" if self._turn.uniform() < 0.3 else ""
        return up.Ode(
            {n: f"{mixed} - 1.5*{n} + {self._gain(1.0)}*u + {self._gain(1.0)}*w" for n in names},
            start={name: float(self._turn.uniform(-1.0, 1.0)) for name in names},
            inputs=["u", "w"],
            outputs={"y": mixed + direct, "z": "x0"},
            solver=self.one_of(["euler", "midpoint", "rk4"]),
        )

    def _nest(self, step: float, depth: int) -> up.Nested:
        step /= int(self._turn.integers(1, 4))
        a = self._nest(step, depth - 1) if depth and self._turn.uniform() < 0.7 else self._unit()
        links = {"a.u": f"{self._gain()}*b.z + u", "a.w": f"{self._gain()}*b.z"}
        links |= {"b.u": f"{self._gain()}*a.z + {self._gain()}*u", "b.w": "w"}
        outputs = {"y": "a.y + b.z", "z": "a.z"}
        inside = up.Scenario({"a": a, "b": self._unit()}, links, inputs=["u", "w"], outputs=outputs)
        master = up.Master(up.Fixed(step), self.one_of(COUPLINGS), inputs=self.one_of(INPUTS))
        return up.Nested(inside, master, flatten=self.one_of([True, False]))

    def scenario(self) -> up.Scenario:
        links = {"a.u": f"{self._gain()}*b.y", "a.w": f"{self._gain()}*a.z + {self._gain()}*b.z"}
        links |= {"b.u": f"{self._gain()}*a.z", "b.w": f"{self._gain()}*a.z"}
        return up.Scenario({"a": self._nest(STEP, int(self._turn.integers(2))), "b": self._unit()}, links)


def left_over(values: np.ndarray, motions: np.ndarray) -> float:
    """What of a signal is none of these motions, as a part of it; both seen relative to the slowest one."""
    slowest = np.abs(motions).max()
    times = np.arange(60)
    powers = (motions / slowest) ** times[:, None]
    signal = values[: len(times)] / slowest**times
    parts = np.linalg.lstsq(powers, signal.astype(complex), rcond=None)[0]
    return float(np.abs(powers @ parts - signal).max() / np.abs(signal).max())


@pytest.mark.parametrize("seed", range(16))
def test_a_run_has_the_motions_of_its_matrix_and_no_others(seed: int) -> None:
    drawn = Drawing(seed)
    scenario = drawn.scenario()
    how = {"pace": STEP, "coupling": drawn.one_of(COUPLINGS), "inputs": drawn.one_of(INPUTS)}
    model = up.induced(scenario, **how)
    assert model.linear
    values = np.linalg.eigvals(model.matrix)
    motions = values[np.abs(values) > 1e-8]
    gone = model.size - len(motions) + 12  # after so many steps nothing is left of what vanishes
    trace = up.simulate(scenario, until=(gone + 60) * STEP, **how)
    wrong = np.where(np.abs(motions) == np.abs(motions).max(), (1.0 + 1e-4) * motions, motions)
    for name in trace.names:
        assert left_over(trace[name][gone:], motions) < SAME, name
    # The same with a slowest motion that is off by a ten-thousandth would have been noticed.
    assert max(left_over(trace[name][gone:], wrong) for name in trace.names) > SAME
