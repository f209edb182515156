"""Consistent start values: those that let constraints between units hold from the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from upbeat.core.errors import InvalidInput, check_type, renamed
from upbeat.engine.simulate import start
from upbeat.master import checks
from upbeat.master.couplings.corrections import read_constraint
from upbeat.master.couplings.coupling import begun
from upbeat.master.loops import LoopSolver, Newton
from upbeat.master.program import Blocks
from upbeat.master.wiring import Wiring
from upbeat.scenario.connection import ScenarioOutput
from upbeat.scenario.directory import Directory
from upbeat.scenario.scenario import Scenario


@renamed
def consistent(
    scenario: Scenario,
    constraints: str | Sequence[str],
    free: Sequence[str] | Mapping[str, float],
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 20,
    difference: float = 1e-6,
    loops: LoopSolver | None = None,
) -> Scenario:
    """The scenario with start values `free` for which all `constraints` are zero.

        scenario = consistent(scenario, ["left.x - right.x", "left.v - right.v"], free=["right.x", "right.v"])

    Constraints are expressions over outputs and scenario inputs. `free` are real values that `with_values`
    can set; those that cannot be read as a signal need a first guess: ``{"right.x0": 1.0}``. With more of
    them than constraints, they are moved as little as possible. Newton's method, with finite differences;
    `loops` solves the algebraic loops of the scenario on the way. It ends as `Constrained` does, where no
    residual is above `tolerance` (`upbeat.master.loops.excess`). No unit advances, so it does not
    matter which coupling the run will have.
    """
    import numpy as np

    check_type(scenario, Scenario, "scenario")
    check_type(constraints, Iterable, "constraints")
    check_type(free, Iterable, "free")
    checks.positive(tolerance, "tolerance")
    checks.positive(difference, "difference")
    checks.count(max_iterations, "max_iterations")
    loops = Newton() if loops is None else loops
    texts = [constraints] if isinstance(constraints, str) else list(constraints)
    names = list(free)
    for name in names:
        check_type(name, str, "the name of a start value in free")
    if isinstance(free, str) or not names or not texts:
        raise InvalidInput('name constraints and the start values that are free: free=["right.x"]')
    watched, residuals = _watched(scenario, texts)
    if isinstance(free, Mapping):
        at = np.array([float(free[name]) for name in names])
    else:
        at = np.array(_read(watched, names, loops))

    def evaluate(values: np.ndarray) -> np.ndarray:
        given = watched.with_values(dict(zip(names, values.tolist(), strict=True)))
        return np.array(_read(given, residuals, loops))

    found = evaluate(at)
    for _ in range(max_iterations):
        if np.abs(found).max() <= tolerance:
            return scenario.with_values(dict(zip(names, at.tolist(), strict=True)))
        slopes = np.empty((len(texts), len(names)))
        for j in range(len(names)):
            moved = at.copy()
            moved[j] += difference * max(1.0, abs(at[j]))
            slopes[:, j] = (evaluate(moved) - found) / (moved[j] - at[j])
        at = at - np.linalg.lstsq(slopes, found, rcond=None)[0]
        found = evaluate(at)
    if np.abs(found).max() <= tolerance:
        return scenario.with_values(dict(zip(names, at.tolist(), strict=True)))
    left = ", ".join(f"{text} = {value:.3g}" for text, value in zip(texts, found, strict=True))
    raise InvalidInput(
        f"no start values of {', '.join(names)} were found that satisfy the constraints: {left} "
        f"after {max_iterations} corrections. Let more start values be free, or begin closer to a solution."
    )


def _watched(scenario: Scenario, texts: Sequence[str]) -> tuple[Scenario, list[str]]:
    """The scenario with an output for every constraint, and the names of these."""
    taken = {*scenario.ports, *scenario.units}
    directory = Directory(scenario.units, scenario.inputs)
    made: list[ScenarioOutput] = []
    for text in texts:
        name = next(n for k in range(10**6) if (n := f"residual_{k}") not in taken)
        taken.add(name)
        made.append(read_constraint(text, directory, name, "the constraint"))
    return scenario.with_parts(outputs=(*scenario.outputs, *made)), [output.port.name for output in made]


@dataclass(frozen=True, slots=True)
class _Start:
    """A coupling for the start only: no unit advances, so it fits where `Jacobi` and the others may not."""

    loops: LoopSolver

    def blocks(self, wiring: Wiring) -> Blocks:
        start = (*begun(wiring, (), self.loops), *wiring.finish())
        return Blocks(start, {"step": ()}, start)


def _read(scenario: Scenario, names: Sequence[str], loops: LoopSolver) -> list[float]:
    """Signals at the start."""
    with start(scenario, pace=1.0, until=1.0, coupling=_Start(loops)) as run:
        return [float(run[name]) for name in names]  # type: ignore[arg-type]
