"""The monolith: a scenario of equations merged into one unit, as the truth that couplings come close to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Model
from upbeat.core.errors import Problems
from upbeat.core.expr import Expr, Name, show, substitute
from upbeat.core.ports import Causality
from upbeat.scenario.assemble import Parts
from upbeat.scenario.connection import ScenarioOutput
from upbeat.scenario.merging.merge import Merged, merged, open_loops, shared_events
from upbeat.scenario.scenario import Origin
from upbeat.units.equations.implicit import Implicit
from upbeat.units.equations.ode import Function, Ode, equations_of
from upbeat.units.solving.solvers import DormandPrince, Solver

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario

UNIT = "monolith"
"""The name of the only unit."""
TIGHT = DormandPrince(rtol=1e-10, atol=1e-12)


def monolith(scenario: Scenario, solver: Solver | str | Mapping[str, Any] | None = None) -> Scenario:
    """A scenario of one unit with all equations of `scenario`, whose trace has the same names.

    Events between the units become events of the one.
    Every unit must be an `Ode` or a `Function`, or a nested scenario of such, whose master does not matter
    here unless its coupling finds inputs from constraints; their solvers are replaced by one, tight unless
    given. Inputs that nothing drives, and the scenario's own, become inputs that can be set during a run.
    """
    closed = _flat(scenario)
    models, between = shared_events(closed)
    _check(closed, models)
    units = {name: model.equations for name, model in models.items()}  # type: ignore[attr-defined]
    given = {(c.unit, c.port): c.cells for c in closed.connections}
    paths = closed.origin.paths if closed.origin is not None else {}
    made = merged(units, given, paths, between)
    zeros, notes = open_loops(made)
    model = _model(made, TIGHT if solver is None else solver)
    if zeros and made.events:
        problems = Problems()
        what = "an algebraic loop is not linear, and some units have events: a monolith has one or the other"
        problems.add(("units",), what, "Run the scenario as it is coupled, or break the loop.")
        problems.raise_if_any(scenario.name)
    whole = Implicit(model, zeros) if zeros else model
    outputs = tuple(_output(output, closed, made) for output in closed.outputs)
    columns = {(UNIT, port): closed.column(*end) for end, port in made.sources.items()}
    shown: dict[str, bool] = {}
    if closed.origin is not None:  # what was inside nested ones can be recorded, and is not by itself
        columns |= {end: name for end, name in closed.origin.columns.items() if end[0] == ""}
        shown = dict.fromkeys((*closed.origin.shown, *columns.values()), False) | closed.origin.shown
        for name in closed.units.keys() - models.keys():  # watchers are gone, and so is what they saw
            for port in closed.units[name].ports:
                shown.pop(closed.column(name, port.name), None)
    known = tuple(paths.get(name, name) for name in closed.units if name not in closed.added_units)
    columns |= {
        (UNIT, name): f"{paths.get(unit, unit)}.{port}"
        for name, (unit, port) in {**made.started, **made.tunable}.items()
    }
    reasons = {columns[UNIT, name]: closed.why_fixed(*end) for name, end in made.tunable.items()}
    fixed = {name: why for name, why in reasons.items() if why is not None}
    origin = Origin(known, columns, notes, shown, fixed=fixed)
    parts = Parts({UNIT: whole}, (), (), outputs)
    if scenario.properties:
        from upbeat.scenario.properties import closed_properties

        kept = tuple(replace(one, online="") for one in closed_properties(scenario))
        parts = replace(parts, properties=kept)
    return type(scenario).from_parts(parts, scenario.name, origin=origin)


def _flat(scenario: Scenario) -> Scenario:
    from upbeat.scenario.merging.inline import (
        CannotInline,
        without_nested,  # which makes scenarios
    )

    problems = Problems()
    try:
        return without_nested(scenario.closed())
    except CannotInline as error:
        problems.add(("units",), str(error), "A monolith is one set of equations.")
    problems.raise_if_any(scenario.name)
    raise AssertionError  # it has been raised


def _check(scenario: Scenario, units: Mapping[str, Model]) -> None:
    problems = Problems()
    heard = {end for connection in scenario.connections for end in connection.sources}
    for name, model in units.items():
        path = name if scenario.origin is None else scenario.origin.paths.get(name, name)
        place = ("units", *path.split("."))
        events = [port for port in model.ports if port.event]
        if any(port.causality is Causality.INPUT or (name, port.name) in heard for port in events):
            what = f"'{path}' deals in events, and a monolith is one system of equations between events"
            hint = "Leave the monolith out: scenarios with events are run as they are coupled."
            if name in scenario.added_units:
                what = "the scenario has event inputs, and a monolith is one system of equations"
            problems.add(place, what, hint)
        elif equations_of(model) is None:
            what = f"'{path}' is of the kind {type(model).__name__}, which has no equations to merge"
            problems.add(place, what, "A monolith is made of Ode and Function units only.")
    problems.raise_if_any(scenario.name)


def _model(made: Merged, solver: Solver | str | Mapping[str, Any]) -> Ode | Function:
    # By way of the texts: the model is checked, compared, pickled and written to files like any other.
    common: dict[str, Any] = {
        "inputs": made.inputs,
        "outputs": made.outputs,
        "parameters": made.parameters,
        "locals": made.locals,
        "tables": made.tables,
    }
    if not made.states:
        return Function(**common)
    return Ode(made.states, **common, variables=made.variables, events=made.events, solver=solver)


def _output(output: ScenarioOutput, scenario: Scenario, made: Merged) -> ScenarioOutput:
    """An output of the scenario, computed from those of the monolith."""
    moved: dict[str, Expr] = {}
    for unit, port in output.sources:
        name = f"{UNIT}.{made.sources[unit, port]}"
        for index in ("", *(f"[{i}]" for i in range(scenario.ports[f"{unit}.{port}"].cells))):
            moved[f"{unit}.{port}{index}"] = Name(f"{name}{index}")
    cells = tuple(substitute(cell, moved) for cell in output.cells)
    texts = tuple(show(cell) for cell in cells)
    sources = tuple((UNIT, made.sources[end]) for end in output.sources)
    return replace(output, cells=cells, sources=sources, text=texts if len(texts) > 1 else texts[0])
