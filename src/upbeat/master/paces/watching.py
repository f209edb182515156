"""What an error control asks of a scenario: ports to watch, units that go back, solvers that are accurate."""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import inf
from typing import Protocol

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, suggest
from upbeat.core.ports import Kind
from upbeat.master.layout import Reg
from upbeat.master.paces.estimate import Watched
from upbeat.master.port_registers import End
from upbeat.master.wiring import Wiring
from upbeat.units.discrete.model import Discrete
from upbeat.units.equations.data import Equations
from upbeat.units.process import bare


class Control(Protocol):
    """The settings of an `ErrorControl` that matter here."""

    @property
    def tolerance(self) -> float: ...
    @property
    def method(self) -> str: ...
    @property
    def ports(self) -> Mapping[str, float]: ...
    @property
    def nominal(self) -> Mapping[str, float]: ...
    @property
    def retries(self) -> bool: ...


def watched(control: Control, wiring: Wiring, left: Container[Reg]) -> list[Watched]:
    """The ports to watch, those in `left` only if named; two of the same source and scale count once."""
    units = wiring.scenario.units
    ends: dict[End, Reg] = {end: wiring.inputs[end] for unit in units for end in wiring.connected(unit)}
    if control.method == "richardson":
        states = {(unit, name) for unit, names in _states(wiring).items() for name in names}
        shown = [
            end
            for end in wiring.outputs
            if end in states or not (wiring.port(end).extra or wiring.port(end).internal)
        ]
        ends |= {end: wiring.outputs[end] for end in shown}
    column = wiring.scenario.column
    real = {column(*end): end for end in ends if wiring.port(end).kind is Kind.REAL}
    for name in (*control.ports, *control.nominal):
        if name not in real:
            noun = "real ports" if control.method == "richardson" else "connected real inputs"
            raise MasterError(f"ErrorControl cannot watch '{name}'. {suggest(name, real, noun)}")
    found: dict[tuple[Reg, float, float], Watched] = {}
    for name, end in real.items():
        usual = inf if ends[end] in left else control.tolerance
        tolerance, nominal = control.ports.get(name, usual), control.nominal.get(name, 1.0)
        if tolerance < inf:
            port = Watched(end, name, ends[end], wiring.port(end).cells, float(tolerance), float(nominal))
            found.setdefault((port.register, port.tolerance, port.nominal), port)
    if not found:
        raise MasterError("there is no real port whose error ErrorControl could watch")
    return list(found.values())


def _states(wiring: Wiring) -> dict[str, list[str]]:
    """By unit of equations: the outputs, made by the master, that are states nobody else has asked for."""
    found: dict[str, list[str]] = {}
    for unit, model in wiring.scenario.units.items():
        equations = getattr(bare(model), "equations", None)
        if isinstance(equations, Equations):
            found[unit] = [
                output.port.name
                for output in equations.outputs
                if output.port.internal and output.port.description.startswith("the state ")
            ]
    return found


def unseen(control: Control, wiring: Wiring) -> list[str]:
    """What is not watched, though it is a part of the result: states that units keep to themselves."""
    if control.method != "richardson":
        return []
    known = {*_states(wiring), *wiring.scenario.added_units}
    silent = [
        wiring.called(unit)
        for unit, model in wiring.scenario.units.items()
        if unit not in known and not isinstance(bare(model), Discrete)
    ]
    if not silent:
        return []
    return [
        f"of {', '.join(silent)} only outputs are watched: errors of states that are not given out may grow "
        "beyond the tolerance"
    ]


def check_rollback(control: Control, wiring: Wiring) -> None:
    """Raises `MasterError` if the control would repeat steps of a unit that cannot be set back."""
    unable = [name for name, m in wiring.scenario.units.items() if Ability.ROLLBACK not in m.abilities]
    if unable and (control.retries or control.method == "richardson"):
        why = "repeats every step" if control.method == "richardson" else "repeats steps it rejects"
        raise MasterError(
            f"{', '.join(unable)} cannot be set back to an earlier state (rollback), and this error "
            f'control {why}. Use ErrorControl(method="milne", correct="next").'
        )


def rough(control: Control, wiring: Wiring) -> list[str]:
    """A warning where units' own solvers leave errors that no shorter step makes smaller."""
    solvers = {unit: getattr(model, "solver", None) for unit, model in wiring.scenario.units.items()}
    tolerances = {unit: getattr(solver, "rtol", 0.0) for unit, solver in solvers.items()}
    rough = [wiring.called(unit) for unit, rtol in tolerances.items() if rtol > control.tolerance / 100]
    if not rough:
        return []
    return [
        f"the solvers of {', '.join(rough)} are not a hundred times as accurate as the tolerance of "
        f"{control.tolerance:g}: their errors may make steps shorter than need be. Lower their rtol and atol"
    ]
