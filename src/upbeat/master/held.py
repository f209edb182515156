"""Remarks on what units do not see of each other between communication points, and on their rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from upbeat.core.abilities import Ability, Model, doubt
from upbeat.core.errors import MasterError
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.core.time import Span
from upbeat.master.couplings.coupling import Coupling, ends_early
from upbeat.master.inputs.approximation import is_held
from upbeat.master.paces.pace import Pace, nominal_step, retries
from upbeat.master.program import Advance, Due, Program, Save, Slope
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.watcher import looked_at
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.trace.log import StepLog
from upbeat.units.discrete.model import changes_at_instants, discrete_of
from upbeat.units.equations.ode import equations_of, periods
from upbeat.units.process import bare

MAX_CALLS = 1_000_000
"""Of a unit in a communication step."""
MAX_NAMES = 4
"""So many inputs are named."""


def held_inputs(wiring: Wiring) -> str | None:
    """What to say of units with a part in events whose inputs are held during a step.

    Those that only discrete-event units drive really do: nothing is to be said of them.
    """
    found = _still(wiring, (end for unit in looked_at(wiring.scenario) for end in wiring.connected(unit)))
    if not found:
        return None
    named = _named(found)
    return (
        f"inputs are held ({named}): during a step units do not see each other move, so that events come at "
        'the wrong time however well they are met: choose inputs="hermite" or "linear"'
    )


def held_crossings(wiring: Wiring) -> str | None:
    """What to say of adaptations that look within a step for the crossing of an input that stands still."""
    ends = []
    for unit, model in wiring.scenario.units.items():
        adaptation = getattr(bare(model), "adaptation", None)
        ends += [(unit, port) for port in sorted(getattr(adaptation, "locates", ()))]
    if not ends or not (found := _still(wiring, ends)):
        return None
    return (
        f"inputs are held ({_named(found)}) where their crossing of a level is looked for: it is found at "
        'the start of the step, too early by up to a step: choose inputs="linear"'
    )


def _still(wiring: Wiring, ends: Iterable[tuple[str, str]]) -> list[str]:
    """Those of these inputs that are held in a step, although what gives them their values moves."""
    units = wiring.scenario.units
    moving = {
        (c.unit, c.port)
        for c in wiring.scenario.connections
        if any(unit in units and not changes_at_instants(bare(units[unit])) for unit, _ in c.sources)
    }
    return [
        wiring.label(end)
        for end in ends
        if end in moving and wiring.ports[end].kind is Kind.REAL and not wiring.ports[end].internal
        if is_held(wiring.approximation(end))
    ]


def lost_between(pace: Pace, coupling: Coupling, closed: Scenario) -> list[str]:
    """What slower units do not see of faster ones: all but the values at their own communication points.

    Faster is a unit with a higher rate (`MultiRate`), or with shorter steps inside (`inner_step`).
    """
    usual = nominal_step(pace)
    rates = getattr(coupling, "rates", {})
    steps: dict[str, float] = {}
    for unit, model in closed.units.items():
        inside = getattr(bare(model), "inner_step", None)
        steps[unit] = rates.get(unit, 1) * (usual / inside if usual and inside else 1.0)
    found: dict[str, list[str]] = {}
    cure: dict[str, str] = {}
    for connection in closed.connections:
        sees = rates.get(connection.unit, 1)
        for unit, port in connection.sources:
            if steps.get(unit, 1.0) >= sees * 1.5 and connection.unit not in closed.added_units:
                about = f"one in {steps[unit] / sees:.3g} steps of {path_of(closed, unit)}"
                ends = (
                    f"{path_of(closed, connection.unit)}.{connection.port} (from {closed.column(unit, port)})"
                )
                found.setdefault(about, []).append(ends)
                many = f" with steps = {round(steps[unit] / sees)}"
                equations = equations_of(bare(closed.units[unit]))
                timed = equations is not None and not equations.states  # a function of time and inputs
                mean = f'adapt = ["average on {port}{"" if timed else many}"]'
                cure.setdefault(about, f"{path_of(closed, unit)} {mean}")
    return [
        f"{_named(ends)} sees only {about}, at its own communication points: what happens in between is "
        "lost. Where that matters, give both units the same rate, or let the faster one show its mean over "
        f"the step in place of its rate: {cure[about]}"
        for about, ends in found.items()
    ]


def without_rate(pace: Pace, coupling: Coupling, closed: Scenario) -> list[str]:
    """Units whose code runs once per communication step for want of a sample time."""
    rates = getattr(coupling, "rates", {})
    usual = nominal_step(pace)
    found: dict[int, list[str]] = {}
    for unit in _unrated(closed):
        found.setdefault(rates.get(unit, 1), []).append(path_of(closed, unit))
    return [
        f"{_named(units)} runs {'once' if rate == 1 else f'{rate} times'} per communication step"
        + (f" (every {usual / rate:g} s)" if usual else "")
        + ", at another rate with another step: if its code has a rate of its own, give it a sample_time"
        for rate, units in found.items()
    ]


def too_quick(pace: Pace, coupling: Coupling, closed: Scenario) -> list[str]:
    """Periodic signals with less than two communication points in a period, as far as equations tell; and
    means that are sampled."""
    usual, rates = nominal_step(pace), getattr(coupling, "rates", {})
    found: list[str] = []
    for connection in closed.connections if usual else ():
        for unit, port in connection.sources:
            equations = equations_of(bare(closed.units[unit])) if unit in closed.units else None
            shown = equations is not None and any(port == one.port.name for one in equations.outputs)
            if not usual or equations is None or not shown or rates.get(unit, 1) > 1:
                continue
            size = next(one.port.size for one in equations.outputs if one.port.name == port)
            own = [p for cell in cell_names(port, size) for p in periods(equations, cell)]
            if own and min(own) < 2 * usual * (1 - 1e-9) and connection.unit not in closed.added_units:
                found.append(
                    f"{path_of(closed, connection.unit)}.{connection.port} sees {closed.column(unit, port)} "
                    f"every {usual:g} s, and it repeats itself every {min(own):.3g} s: what happens in "
                    "between is lost. Take shorter steps, or let it show its mean over the step: "
                    f'{path_of(closed, unit)} adapt = ["average on {port}"]'
                )
    for unit, model in closed.units.items():
        if remark := getattr(getattr(bare(model), "adaptation", None), "remark", ""):
            found.append(f"{path_of(closed, unit)}: {remark}")
    return list(dict.fromkeys(found))


def unlocated(closed: Scenario) -> list[str]:
    """Switches inside adaptations that are programs: their conditions are not seen from outside."""
    found = []
    for unit, model in closed.units.items():
        if getattr(bare(model), "adaptation", None) is not None:
            switches = list(_switches(bare(model), path_of(closed, unit)))
            if switches:
                found.append(
                    f"{_named(switches)} switches where {path_of(closed, unit)} makes its steps, and not "
                    "where the condition becomes true: it is inside an adaptation that is a program. List it "
                    "behind that, so that it is located, or take shorter steps"
                )
    return found


def unshared_stops(coupling: Coupling, closed: Scenario) -> list[str]:
    """Adaptations whose steps should end somewhere for all, where the others go on; or those around units
    that stop, which go on themselves."""
    found = []
    for unit, model in closed.units.items():
        path, stops = path_of(closed, unit), dict(_stops(bare(model), path_of(closed, unit)))
        if not ends_early(coupling):
            found += [
                f"{inner} ends its step {where}, and the others go on to the end of theirs. To end the step "
                'of all there, choose coupling = "negotiated"'
                for inner, where in stops.items()
            ]
            continue
        for inner, where, around in _passed_over(bare(model), path):
            cure = f". List it behind {around}" if where else ""
            found.append(
                f"{inner} may end its step {where or 'at events of its own'}, and {around} around it goes on "
                f"to the end of the step, as the others do{cure}"
            )
    return found


def _stops(model: Any, path: str) -> Iterator[tuple[str, str]]:
    """What ends a step for all in an adapted unit, and where."""
    adaptation = getattr(model, "adaptation", None)
    if adaptation is not None and adaptation.stops:
        yield path, adaptation.stops
    for name, inner in _inside(model):
        yield from _stops(inner, f"{path}.{name}")


def _passed_over(model: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Units that may stop early inside an adaptation that does not, with where they do, and what that is
    called."""
    adaptation = getattr(model, "adaptation", None)
    if adaptation is None:
        return
    for name, inner in adaptation.units.items():
        if Ability.EARLY_RETURN in inner.abilities and not adaptation.shortens:
            where = dict(_stops(bare(inner), "")).values()
            yield f"{path}.{name}", next(iter(where), ""), adaptation.name
        yield from _passed_over(bare(inner), f"{path}.{name}")


def _inside(model: Any) -> Iterator[tuple[str, Any]]:
    """The units inside an adapted one."""
    inside = getattr(model, "scenario", None)
    adapted = getattr(model, "adaptation", None) is not None or hasattr(model, "adaptations")
    if adapted and isinstance(inside, Scenario):
        yield from ((name, bare(inner)) for name, inner in inside.units.items())


def _switches(model: Any, path: str) -> Iterator[str]:
    """The units that wait for conditions, at all depths inside a model, with the conditions."""
    inside = getattr(model, "scenario", None)
    for name, inner in inside.units.items() if isinstance(inside, Scenario) else ():
        discrete = discrete_of(bare(inner))
        if discrete is not None and discrete.awaited:
            yield f"{path}.{name} ({'; '.join(text for text, _ in discrete.awaited)})"
        yield from _switches(bare(inner), f"{path}.{name}")


def check_rates(pace: Pace, closed: Scenario, span: Span | None) -> None:
    """Raise a `MasterError` that names a unit which would be called too often in a communication step."""
    around = nominal_step(pace) or (None if span is None else span.stop - span.start)
    for unit, model in closed.units.items() if around else ():
        inner = bare(model)
        period = getattr(inner, "every", None) or getattr(inner, "sample_time", None)
        if around and isinstance(period, (int, float)) and 0.0 < period < around / MAX_CALLS:
            raise MasterError(
                f"'{path_of(closed, unit)}' runs every {period:g} s, which is {around / period:.3g} times "
                f"in a communication step of {around:g} s, and at most {MAX_CALLS:,} are allowed: take "
                "a longer period or shorter steps"
            )


def varied_rate(closed: Scenario, steps: StepLog) -> list[str]:
    """What is to be said about such units after a run with these steps, if they were not all equal."""
    units = [path_of(closed, unit) for unit in _unrated(closed)]
    if not units or (sizes := steps.extremes()) is None:
        return []
    return [
        f"{_named(units)} ran once per communication step, and these were between {sizes[0]:.3g} s and "
        f"{sizes[1]:.3g} s long: code that counts on one rate has not had it; give it a sample_time"
    ]


def _unrated(closed: Scenario) -> list[str]:
    """The units that are given something and could have a sample time, but have none."""
    return [
        unit
        for unit, model in closed.units.items()
        if getattr(bare(model), "sample_time", 0.0) is None
        and any(port.causality is Causality.INPUT for port in bare(model).ports)
    ]


def _named(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:MAX_NAMES]) + (
        f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    )


# ----------------------------------------------------------------------------------------------------
# Which abilities a program needs of the units, checked before anything runs.


def needs(program: Program, pace: Pace, units: Mapping[str, Model]) -> dict[str, dict[Ability, str]]:
    """For every unit, the abilities it must have, each with the reason."""
    found: dict[str, dict[Ability, str]] = {unit: {} for unit in units}
    for instruction in program.instructions():
        match instruction:
            case Save(saved):
                for unit in saved:
                    found[unit][Ability.ROLLBACK] = "the coupling repeats steps"
            case Due(unit):
                found[unit][Ability.NEXT_EVENT] = "it has event ports"
            case Advance(unit, early=True):
                found[unit][Ability.EARLY_RETURN] = "the coupling lets it stop before the end of a step"
            case Slope(unit):
                found[unit][Ability.SLOPES] = "an algebraic loop is solved with them"
    if retries(pace):
        for needed in found.values():
            needed[Ability.ROLLBACK] = "the pace may reject a step"
    return found


def check_abilities(
    program: Program, pace: Pace, units: Mapping[str, Model], called: Callable[[str], str] = str
) -> None:
    """Raise a `MasterError` that names every unit which lacks something, by what people call it.

    What a unit has only by its own word is put to the test, once nothing else is in the way.
    """
    wanted = [
        (unit, ability, why)
        for unit, needed in needs(program, pace, units).items()
        for ability, why in needed.items()
    ]
    missing = [
        f"unit '{called(unit)}' does not have: {ability.value}. It needs to, because {why}."
        for unit, ability, why in wanted
        if ability not in units[unit].abilities
    ] or [
        f"unit '{called(unit)}': {finding}. It matters, because {why}."
        for unit, ability, why in wanted
        if (finding := doubt(units[unit], ability, nominal_step(pace) or 0.01)) is not None
    ]
    if missing:
        raise MasterError("\n".join(missing))
