"""When a nested scenario means the same as its units beside the others; `flatten` says what follows."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.time import Span
from upbeat.engine.nesting.model import Nested
from upbeat.master.couplings.coupling import Coupling, GaussSeidel, Jacobi, Sequence
from upbeat.master.couplings.multirate import MOST
from upbeat.master.couplings.refined import as_jacobi
from upbeat.master.inputs.approximation import Approximation, Hold, Linear, Polynomial
from upbeat.master.master import Master
from upbeat.master.paces.pace import Fixed, Pace
from upbeat.master.port_registers import End
from upbeat.master.wiring import Wiring
from upbeat.scenario.scenario import Scenario

WHOLE = 1e-9
"""How far, relatively, a ratio of two steps may be from a whole number."""


class Kept(Exception):
    """A nested unit stays what it is; says why."""


def _check_wish(model: Nested) -> None:
    if not model.flatten:
        raise Kept("it was asked to stay nested")
    if model.engine != "auto":
        raise Kept(f"it asks for an engine of its own, {model.engine}")


def check_coupling(around: Coupling, model: Nested, *, in_turn: bool) -> None:
    """Both couplings must be alike; `in_turn`: the units around it already go one after the other."""
    outer, inner = as_jacobi(around), as_jacobi(model.master.coupled)
    _check_wish(model)
    if in_turn:
        raise Kept("the coupling around it is GaussSeidel, and only Jacobi can be merged into")
    if type(outer) is not Jacobi:
        raise Kept(f"the outer coupling is {type(outer).__name__}, and only Jacobi can be merged into")
    if type(inner) not in (Jacobi, GaussSeidel):
        raise Kept(f"its coupling is {type(inner).__name__}, and only Jacobi and GaussSeidel can be merged")
    assert isinstance(inner, Jacobi | GaussSeidel)
    if (outer.outputs, outer.loops) != (inner.outputs, inner.loops):
        raise Kept(f"its coupling {inner} differs from the outer {outer}")
    if outer.outputs == "lagged":
        raise Kept("where outputs are lagged, a level of nesting is one more delay")


def check_discrete(model: Nested) -> None:
    """Discrete-event units must be connected by events alone."""
    _check_wish(model)
    if not model.discrete:
        raise Kept("it has discrete-event units and others, which are in step with each other only inside")
    signals = [name for name, port in _inputs(model.whole) if not port.event]
    if signals or any(not port.event for port in model.scenario.inputs):
        raise Kept("signals reach the discrete-event units inside, when its own communication points come")
    if not any(port.event for port in model.ports):
        raise Kept("it has no event ports, so its events are its own")


def rate(outer: Pace, own: Pace, step: float | None) -> tuple[int, float]:
    """How many steps the inside makes in one around it, which is of length `step` if not the outer one."""
    if type(outer) is not Fixed or type(own) is not Fixed:
        raise Kept(f"the steps are chosen by {own} inside and by {outer} outside: only Fixed can be merged")
    around = outer.step if step is None else step
    if own.step == around:
        return 1, own.step
    ratio = around / own.step
    whole = round(ratio)
    if whole < 2 or abs(ratio - whole) > WHOLE * whole:
        raise Kept(f"its step {own.step:g} is no whole part of the step {around:g} around it")
    if whole > MOST:
        raise Kept(f"it makes {whole} steps per communication step, and units beside others at most {MOST}")
    return whole, own.step


def is_whole(span: Span | None, pace: Pace) -> bool:
    """Whether all steps of a run are equally long, as far as that is known."""
    if span is None or not isinstance(pace, Fixed):
        return False
    ratio = (span.stop - span.start) / pace.step
    return abs(ratio - round(ratio)) <= WHOLE * max(ratio, 1.0)


def sequence(model: Nested) -> Sequence | None:
    """In which order the units inside run and which inputs see what went before, if they do."""
    coupling = model.master.coupled
    if not isinstance(coupling, GaussSeidel):
        return None
    closed = model.scenario.closed()
    order, reactive, _ = coupling.sequence(Wiring(closed, Hold(), {}))
    own = set(model.whole.units)
    found: set[End] = set()
    for connection in closed.connections:
        end = (connection.unit, connection.port)
        inside = [source for source, _ in connection.sources if source in own]
        if end not in reactive or not inside:  # held either way, if it comes from outside
            continue
        if len(inside) < len(connection.sources):
            raise Kept(f"'{connection.target}' mixes what is new inside with what is held from outside")
        found.add(end)
    return Sequence(tuple(unit for unit in order if unit in own), frozenset(found))


def approximations(
    master: Master, given: Mapping[str, Approximation], model: Nested, *, held: str
) -> dict[End, Approximation]:
    """What the inputs inside do, where it differs from the outer default; `held` wants them held.

    `given` is what the inputs of the nested unit do outside.
    """
    inner = model.master
    for port in model.scenario.inputs:
        if port.reactive:
            raise Kept(f"its input '{port.name}' is reactive")
        _check_course(given.get(port.name, master.approximated), port.name, held)
    found: dict[End, Approximation] = {}
    for name, port in _inputs(model.whole):
        chosen = inner.ports.get(f"{name}.{port.name}", inner.approximated)
        if port.kind is not Kind.REAL:
            continue
        _check_course(chosen, f"{name}.{port.name}", held)
        if chosen != master.approximated:
            found[name, port.name] = chosen
    return found


def _inputs(scenario: Scenario) -> list[tuple[str, Port]]:
    ports = [(name, port) for name, model in scenario.units.items() for port in model.ports]
    return [(name, port) for name, port in ports if port.causality is Causality.INPUT]


def _check_course(chosen: Approximation, name: str, held: str) -> None:
    """The inside sees a course at its own communication points: it must start at the latest value."""
    if held and chosen != Hold():
        raise Kept(f"{held} can be merged only where inputs are held, and '{name}' is {chosen}")
    if type(chosen) not in (Hold, Linear, Polynomial):
        raise Kept(f"the approximation {chosen} of '{name}' starts elsewhere than at the latest value")
